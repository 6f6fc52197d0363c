/*
 * The process that owns the memory. Its scheduler, on the second core, accepts and sends messages back, and never
 * sleeps; its main thread does the plain memory operations, on the first core while the other process waits.
 */
#include "lab/fabric.h"

#include "bench/world.h"
#include <errno.h>
#include <tarn/fabric.h>

enum { CLIENTS_MAX = 4, PATIENCE_S = 30 };

struct request {
    enum lab_fabric_op op;
    uint32_t bytes;
    bool cold;
};

struct answer {
    uint64_t operations;
    uint64_t elapsed_ns;
};

struct owner {
    const struct lab_fabric_owner *options;
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *region;
    struct tarn_fabric_listener *listener;
    struct task_sched *sched;
    struct task_group group;
    uint8_t *buffer;
};

/* ---- answering ----------------------------------------------------------------------------------- */

struct client {
    struct owner *owner;
    struct tarn_fabric_connection *connection;
    uint8_t *message;
};

static void drop_client(struct client *client)
{
    struct base_account *account = &client->owner->node->memory;
    if (client->connection != NULL)
        tarn_fabric_disconnect(client->connection);
    base_free(account, client->message, LAB_FABRIC_BYTES_MAX);
    base_free(account, client, sizeof(*client));
}

static void send_back(void *arg)
{
    struct client *client = arg;
    struct tarn_fabric_message message;
    int error;
    do {
        error = tarn_fabric_receive(client->connection, client->message, LAB_FABRIC_BYTES_MAX, TARN_FOREVER,
                                    &message);
        if (error == 0)
            error = tarn_fabric_send(client->connection, 0, client->message, message.bytes, TARN_FOREVER);
    } while (error == 0);
    drop_client(client);
}

static void take_client(struct owner *owner, struct tarn_fabric_incoming *incoming)
{
    uint8_t data[TARN_FABRIC_HANDLE_BYTES];
    struct base_account *account = &owner->node->memory;
    struct client *client = base_alloc(account, sizeof(*client));
    const struct tarn_fabric_connect_options options = {
        .data = data, .data_bytes = sizeof(data), .receive_count = 2, .receive_bytes = LAB_FABRIC_BYTES_MAX};
    if (client == NULL) {
        tarn_fabric_reject(incoming);
        return;
    }
    client->owner = owner;
    client->message = base_alloc(account, LAB_FABRIC_BYTES_MAX);
    tarn_fabric_handle_save(&owner->region->handle, data);
    if (client->message == NULL)
        tarn_fabric_reject(incoming);
    if (client->message == NULL ||
        tarn_fabric_accept(incoming, owner->domain, &options, &client->connection) != 0 ||
        task_spawn(NULL, &owner->group, "back", send_back, client) != 0)
        drop_client(client);
}

static void accept_all(void *arg)
{
    struct owner *owner = arg;
    struct tarn_fabric_incoming *incoming;
    bench_pin(&owner->options->server.bench->machine, 1);
    while (tarn_fabric_listener_wait(owner->listener, TARN_FOREVER, &incoming) == 0)
        take_client(owner, incoming);
}

/* ---- plain memory -------------------------------------------------------------------------------- */

/* Called, and not a part of the loop: what is compared is a call, too. */
static __attribute__((noinline)) uint64_t swap_word(uint64_t *word, uint64_t compare, uint64_t operand)
{
    (void)__atomic_compare_exchange_n(word, &compare, operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return compare;
}

static void do_job(struct owner *owner, const struct lab_fabric_job *job, struct answer *answer)
{
    void *(*volatile copy)(void *to, const void *from, size_t bytes) = memcpy;
    struct lab_fabric_places places;
    const uint32_t batch = lab_fabric_batch(job);
    uint64_t begin_ns = task_now(), until_ns = begin_ns + job->bench->options.duration_ns, operations = 0,
             now_ns;
    lab_fabric_places_init(&places, job);
    do {
        for (uint32_t i = 0; i < batch; i++) {
            uint8_t *memory = owner->region->memory + lab_fabric_places_next(&places);
            if (job->op == LAB_FABRIC_READ)
                (void)copy(owner->buffer, memory, job->bytes);
            else if (job->op == LAB_FABRIC_WRITE)
                (void)copy(memory, owner->buffer, job->bytes);
            else
                (void)swap_word((uint64_t *)(void *)memory, operations, operations + 1);
        }
        operations += batch;
        now_ns = task_now();
    } while (now_ns < until_ns);
    answer->operations = operations;
    answer->elapsed_ns = now_ns - begin_ns;
}

static void obey(struct owner *owner)
{
    const struct bench *bench = owner->options->server.bench;
    struct request request;
    while (lab_child_receive(&request, sizeof(request)) == 0) {
        struct answer answer = {0};
        const struct lab_fabric_job job = {.bench = (struct bench *)(uintptr_t)bench, /* it changes nothing */
                                           .owner = (struct lab_fabric_owner *)(uintptr_t)owner->options,
                                           .op = request.op,
                                           .bytes = request.bytes,
                                           .cold = request.cold};
        bench_pin(&bench->machine, 0);
        do_job(owner, &job, &answer);
        bench_pin(&bench->machine, 1);
        if (lab_child_answer(&answer, sizeof(answer)) != 0)
            return;
    }
}

/* ---- beginning and end --------------------------------------------------------------------------- */

static int begin_owner(struct owner *owner)
{
    const struct lab_fabric_owner *options = owner->options;
    const struct tarn_fabric_domain_options domain_options = {.writable_bytes = options->region_bytes};
    const struct task_sched_options sched_options = {.spin_ns = 3600 * BASE_NS_PER_SECOND};
    int error = tarn_fabric_open(owner->node, options->server.url, &owner->fabric);
    if (error == 0)
        error = tarn_fabric_domain_open(owner->fabric, &domain_options, &owner->domain);
    if (error == 0)
        error = tarn_fabric_region_alloc(owner->domain, options->region_bytes,
                                         TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP,
                                         &owner->region);
    if (error == 0)
        error = tarn_fabric_listen(owner->fabric, options->server.address, &owner->listener);
    if (error == 0 && (owner->buffer = base_alloc(&owner->node->memory, LAB_FABRIC_BYTES_MAX)) == NULL)
        error = -ENOMEM;
    if (error == 0)
        error = task_sched_open(owner->node, &sched_options, &owner->sched);
    return error != 0 ? error : task_sched_start(owner->sched);
}

/* In the child. It ends with its channel; what it leaves the kernel frees. */
static int own(void *arg)
{
    struct owner owner = {.options = arg};
    int error = bench_node_open(owner.options->server.bench, TASK_ENGINE_AUTO, &owner.node);
    if (error == 0)
        error = begin_owner(&owner);
    task_group_init(&owner.group);
    if (error == 0)
        error = task_spawn(owner.sched, &owner.group, "accept", accept_all, &owner);
    if (lab_child_answer(&error, sizeof(error)) != 0 || error != 0)
        return 0;
    obey(&owner);
    task_group_cancel(&owner.group);
    return task_group_join(&owner.group, task_now() + 5 * BASE_NS_PER_SECOND) == 0 ? 0 : 1;
}

int lab_fabric_owner_start(struct lab_fabric_owner *owner, struct bench *bench, const char *url,
                           uint64_t region_bytes)
{
    owner->region_bytes = region_bytes;
    return lab_server_start(&owner->server, bench, url, own, owner);
}

int lab_fabric_owner_stop(struct lab_fabric_owner *owner)
{
    return lab_server_stop(&owner->server);
}

int lab_fabric_memory(void *arg, struct bench_sample *sample)
{
    struct lab_fabric_job *job = arg;
    const struct request request = {.op = job->op, .bytes = job->bytes, .cold = job->cold};
    struct answer answer;
    int error = lab_child_call(&job->owner->server.child, &request, sizeof(request), &answer, sizeof(answer),
                               job->bench->options.duration_ns + PATIENCE_S * BASE_NS_PER_SECOND);
    if (error != 0)
        return error;
    sample->operations = answer.operations;
    sample->elapsed_ns = answer.elapsed_ns;
    return 0;
}
