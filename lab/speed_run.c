/*
 * Measuring the speed model. Every machine has a task that opens its card and its memory; where others come to, it
 * accepts them. What issues are its threads, tasks too:
 *
 *   a thread:  connect ── all have ── begin together ── a quarter of the time, and then it is measured ── disconnect
 */
#include "lab/speed_run.h"
#include "sim/net/net.h"
#include "sim/sim.h"
#include <errno.h>
#include <stdio.h>
#include <tarn/fabric.h>

enum {
    NAME_BYTES = 24,
    LOOK_NS = 1000, /* at what others have done */
};

struct machine {
    struct speed *speed;
    struct sim_node *node;
    char name[NAME_BYTES];
    struct tarn_fabric *fabric;
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *region;
    uint32_t callers; /* that it accepts */
    bool ready;
};

struct thread {
    struct machine *machine;
    uint32_t depth;
    uint64_t operations;
    uint64_t waited_ns;
    struct base_random random;
    struct tarn_fabric_connection *connections[LAB_SPEED_MACHINES_MAX];
    struct tarn_fabric_op ops[LAB_SPEED_DEPTH_MAX];
    uint64_t posted_ns[LAB_SPEED_DEPTH_MAX];
    struct iovec iov;
};

struct speed {
    const struct lab_speed_options *options;
    struct sim_world *world;
    struct machine machines[LAB_SPEED_MACHINES_MAX]; /* the first is the server */
    struct thread *threads;
    uint32_t thread_count;
    uint32_t connected; /* threads */
    uint32_t ended;
    uint64_t begin_ns; /* once all have connected */
    uint64_t from_ns;  /* of what is measured, when queues are as long as they get */
    uint64_t until_ns;
};

/* ---- machines ----------------------------------------------------------------------------------- */

static bool is_target(const struct machine *machine)
{
    return machine->callers > 0;
}

static void open_machine(struct machine *machine)
{
    const uint64_t bytes = machine->speed->options->bytes;
    const struct tarn_fabric_domain_options options = {.writable_bytes = bytes + BASE_PAGE_BYTES};
    base_assert(tarn_fabric_open(sim_node_tarn(machine->node), "sim:", &machine->fabric) == 0);
    base_assert(tarn_fabric_domain_open(machine->fabric, &options, &machine->domain) == 0);
    if (is_target(machine))
        base_assert(tarn_fabric_region_alloc(machine->domain, bytes,
                                             TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE,
                                             &machine->region) == 0);
    machine->ready = true;
}

static void accept_all(struct machine *machine, struct tarn_fabric_connection **connections)
{
    struct tarn_fabric_listener *listener;
    struct tarn_fabric_incoming *incoming;
    base_assert(tarn_fabric_listen(machine->fabric, machine->name, &listener) == 0);
    for (uint32_t i = 0; i < machine->callers; i++) {
        base_assert(tarn_fabric_listener_wait(listener, TASK_FOREVER, &incoming) == 0);
        base_assert(tarn_fabric_accept(incoming, machine->domain, NULL, &connections[i]) == 0);
    }
    tarn_fabric_listener_close(listener);
}

static void run_machine(void *arg)
{
    struct machine *machine = arg;
    struct speed *speed = machine->speed;
    struct base_account *memory = sim_world_memory(speed->world);
    uint64_t bytes = machine->callers * sizeof(struct tarn_fabric_connection *);
    struct tarn_fabric_connection **connections = base_alloc(memory, bytes);
    base_assert(connections != NULL || bytes == 0); /* the world's has no cap */
    open_machine(machine);
    accept_all(machine, connections);
    while (speed->ended < speed->thread_count)
        (void)task_sleep(LOOK_NS);
    for (uint32_t i = 0; i < machine->callers; i++)
        tarn_fabric_disconnect(connections[i]);
    base_free(memory, connections, bytes);
    if (machine->region != NULL)
        tarn_fabric_region_free(machine->region);
    tarn_fabric_domain_close(machine->domain);
    tarn_fabric_close(machine->fabric);
}

/* ---- threads ------------------------------------------------------------------------------------ */

static void connect_thread(struct thread *thread)
{
    struct machine *machine = thread->machine;
    struct speed *speed = machine->speed;
    while (!machine->ready)
        (void)task_sleep(LOOK_NS);
    for (uint32_t i = 0; i <= speed->options->clients; i++) {
        const struct machine *other = &speed->machines[i];
        int error = is_target(other) ? -ECONNREFUSED : 0;
        while (error == -ECONNREFUSED) { /* it does not listen yet */
            error = tarn_fabric_connect(machine->domain, other->name, NULL, TASK_FOREVER,
                                        &thread->connections[i]);
            (void)task_sleep(LOOK_NS);
        }
        base_assert(error == 0);
    }
    if (++speed->connected == speed->thread_count) {
        speed->begin_ns = task_now() + LOOK_NS;
        speed->from_ns = speed->begin_ns + speed->options->run_ns / 4;
        speed->until_ns = speed->from_ns + speed->options->run_ns;
    }
    while (speed->begin_ns == 0)
        (void)task_sleep(LOOK_NS);
    (void)task_sleep_until(speed->begin_ns);
}

static void post_op(struct thread *thread, uint32_t place)
{
    const struct speed *speed = thread->machine->speed;
    uint32_t to = 0;
    if (speed->options->out_bound)
        to = 1 + (uint32_t)base_random_below(&thread->random, speed->options->clients);
    thread->ops[place] =
        (struct tarn_fabric_op){.kind = speed->options->writes ? TARN_FABRIC_WRITE : TARN_FABRIC_READ,
                                .handle = &speed->machines[to].region->handle,
                                .iov = &thread->iov,
                                .iov_count = 1};
    task_charge(speed->options->post_ns);
    thread->posted_ns[place] = task_now();
    tarn_fabric_post(thread->connections[to], &thread->ops[place], 1);
}

static void run_thread(void *arg)
{
    struct thread *thread = arg;
    struct speed *speed = thread->machine->speed;
    connect_thread(thread);
    for (uint32_t i = 0; i < thread->depth; i++)
        post_op(thread, i);
    for (uint32_t i = 0; task_now() < speed->until_ns; i = (i + 1) % thread->depth) {
        base_assert(tarn_fabric_wait(&thread->ops[i], 1, TASK_FOREVER) == 0);
        if (task_now() >= speed->from_ns && task_now() < speed->until_ns) {
            thread->operations++;
            thread->waited_ns += task_now() - thread->posted_ns[i];
        }
        post_op(thread, i);
    }
    base_assert(tarn_fabric_wait(thread->ops, thread->depth, TASK_FOREVER) == 0);
    for (uint32_t i = 0; i < LAB_SPEED_MACHINES_MAX; i++) {
        if (thread->connections[i] != NULL)
            tarn_fabric_disconnect(thread->connections[i]);
    }
    speed->ended++;
}

/* ---- measuring ---------------------------------------------------------------------------------- */

static bool is_valid(const struct lab_speed_options *options)
{
    return options->card != NULL && options->clients > 0 && options->clients < LAB_SPEED_MACHINES_MAX &&
           options->threads > 0 && options->depth > 0 && options->depth <= LAB_SPEED_DEPTH_MAX &&
           options->bytes > 0 && options->bytes <= TARN_FABRIC_BYTES_MAX && options->run_ns > 0 &&
           options->first_bytes <= options->bytes;
}

static uint32_t issuers(const struct lab_speed_options *options)
{
    return options->out_bound ? 1 : options->clients;
}

static int start_machine(struct speed *speed, uint32_t number)
{
    const struct lab_speed_options *options = speed->options;
    struct machine *machine = &speed->machines[number];
    bool issues = (number == 0) == options->out_bound;
    machine->speed = speed;
    machine->callers = issues ? 0 : options->threads * (options->out_bound ? 1 : options->clients);
    (void)snprintf(machine->name, sizeof(machine->name), "machine %u", number);
    const struct sim_node_options node_options = {.name = machine->name, .scheds = 1, .card = options->card};
    int error = sim_node_open(speed->world, &node_options, &machine->node);
    if (error == 0)
        error = sim_spawn(machine->node, 0, machine->name, run_machine, machine);
    for (uint32_t i = 0; error == 0 && issues && i < options->threads; i++) {
        struct thread *thread = &speed->threads[speed->thread_count++];
        bool alone = options->first_bytes > 0 && speed->thread_count == 1;
        thread->machine = machine;
        thread->depth = alone ? 1 : options->depth;
        thread->random = base_random_fork(sim_world_random(speed->world));
        thread->iov.iov_len = alone ? options->first_bytes : options->bytes;
        thread->iov.iov_base = base_alloc(sim_world_memory(speed->world), options->bytes);
        error = thread->iov.iov_base == NULL ? -ENOMEM
                                             : sim_spawn(machine->node, 0, "thread", run_thread, thread);
    }
    return error;
}

static uint64_t per_second(uint64_t count, uint64_t run_ns, uint64_t unit)
{
    return (uint64_t)((double)count * (double)BASE_NS_PER_SECOND / (double)run_ns / (double)unit + 0.5);
}

static void count(const struct speed *speed, struct lab_speed_result *result)
{
    const struct lab_speed_options *options = speed->options;
    const struct thread *first = &speed->threads[0];
    uint64_t waited_ns = 0;
    result->least = UINT64_MAX;
    for (uint32_t i = 0; i < speed->thread_count; i++) {
        const struct thread *thread = &speed->threads[i];
        result->operations += thread->operations;
        waited_ns += thread->waited_ns;
        result->least = base_min(result->least, thread->operations);
        result->most = base_max(result->most, thread->operations);
    }
    result->kops = per_second(result->operations, options->run_ns, 1000);
    result->mbps = per_second(result->operations * options->bytes * 8, options->run_ns, 1000000);
    result->first_kops = per_second(first->operations, options->run_ns, 1000);
    result->latency_ns = result->operations == 0 ? 0 : waited_ns / result->operations;
    result->first_latency_ns = first->operations == 0 ? 0 : first->waited_ns / first->operations;
    result->hash = sim_world_hash(speed->world);
}

/* @return 0; -ENOMEM */
static int run_world(struct speed *speed, struct lab_speed_result *ret_result)
{
    struct lab_speed_result result = {0};
    int error = 0;
    sim_net_options(speed->world)->troubles = 0;
    for (uint32_t i = 0; error == 0 && i <= speed->options->clients; i++)
        error = start_machine(speed, i);
    if (error != 0)
        return error;
    base_assert(sim_world_run(speed->world, TASK_FOREVER, NULL, NULL) == 0);
    for (uint32_t i = 0; i <= speed->options->clients; i++)
        base_assert(sim_node_close(speed->machines[i].node) == 0);
    count(speed, &result);
    *ret_result = result;
    return 0;
}

int lab_speed_measure(const struct lab_speed_options *options, struct lab_speed_result *ret_result)
{
    const struct sim_world_options world_options = {
        .seed = options->seed, .timed = true, .steps_max = UINT64_MAX};
    struct speed speed = {.options = options};
    if (!is_valid(options))
        return -EINVAL;
    int error = sim_world_open(&world_options, &speed.world);
    if (error != 0)
        return error;
    struct base_account *memory = sim_world_memory(speed.world);
    uint64_t threads = (uint64_t)issuers(options) * options->threads;
    speed.threads = base_alloc(memory, threads * sizeof(*speed.threads));
    error = speed.threads == NULL ? -ENOMEM : run_world(&speed, ret_result);
    for (uint64_t i = 0; speed.threads != NULL && i < threads; i++)
        base_free(memory, speed.threads[i].iov.iov_base, options->bytes);
    base_free(memory, speed.threads, threads * sizeof(*speed.threads));
    sim_world_close(speed.world);
    return error;
}
