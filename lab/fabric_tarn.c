/*
 * Both sides of Tarn's measurements. The owner of the memory is a process: its scheduler, on the second core, accepts and
 * sends messages back, and never sleeps; its main thread does the plain memory operations, on the first core while the
 * other process waits. The one that asks is one task, on a scheduler that never sleeps.
 */
#include "lab/fabric.h"

#include "bench/world.h"
#include <errno.h>

#define PATIENCE_NS     (30 * BASE_NS_PER_SECOND)
#define RESTING_SPIN_NS 20000

uint32_t lab_fabric_batch(const struct lab_fabric_job *job)
{
    if (job->bytes >= 65536 || !lab_server_is_shm(job->server))
        return 1;
    return job->op == LAB_FABRIC_MESSAGE ? 8 : 64;
}

/* Where operation after operation goes; the same for all who are compared. */
struct places {
    uint64_t state;
    uint64_t count; /* of places; 1: always the first */
    uint64_t stride_bytes;
};

/* Begin with the first place, which the seed draws. */
static struct places first_place(const struct lab_fabric_job *job)
{
    const uint64_t stride_bytes = base_align_up((uint64_t)job->bytes, (uint64_t)BASE_CACHE_LINE_BYTES);
    return (struct places){.state = job->bench->options.seed,
                           .count = job->cold ? job->region_bytes / stride_bytes : 1,
                           .stride_bytes = stride_bytes};
}

/* @return the offset of the next place in the region */
static uint64_t next_place(struct places *places)
{
    places->state = places->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((places->state >> 32) * places->count >> 32) * places->stride_bytes;
}

/* ---- the owner: answering ------------------------------------------------------------------------ */

/* In the child. */
struct owner {
    const struct lab_server *server;
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *region;
    struct tarn_fabric_listener *listener;
    struct base_account *account;
    struct task_group group;
    uint8_t buffer[LAB_FABRIC_BYTES_MAX];
};

/* A client of the owner's. */
struct client {
    struct owner *owner;
    struct tarn_fabric_connection *connection;
    uint8_t message[LAB_FABRIC_BYTES_MAX];
};

static void send_back(void *arg)
{
    struct client *client = arg;
    struct tarn_fabric_message message;
    while (tarn_fabric_receive(client->connection, client->message, sizeof(client->message), TARN_FOREVER,
                               &message) == 0 &&
           tarn_fabric_send(client->connection, 0, client->message, message.bytes, TARN_FOREVER) == 0)
        continue;
    tarn_fabric_disconnect(client->connection);
    base_free(client->owner->account, client, sizeof(*client));
}

/* Answer a client in a task of its own. @return 0; -ENOMEM */
static int begin_client(struct owner *owner, struct tarn_fabric_connection *connection)
{
    struct client *client = base_alloc(owner->account, sizeof(*client));
    if (client == NULL)
        return -ENOMEM;
    client->owner = owner;
    client->connection = connection;
    int error = task_spawn(task_sched_self(), &owner->group, "client", send_back, client);
    if (error != 0)
        base_free(owner->account, client, sizeof(*client));
    return error;
}

static void accept_all(void *arg)
{
    struct owner *owner = arg;
    struct tarn_fabric_connection *connection;
    struct tarn_fabric_incoming *incoming;
    uint8_t data[TARN_FABRIC_HANDLE_BYTES];
    const struct tarn_fabric_connect_options options = {
        .data = data, .data_bytes = sizeof(data), .receive_count = 2, .receive_bytes = LAB_FABRIC_BYTES_MAX};
    if (!owner->server->roams)
        bench_pin(&owner->server->bench->machine, 1);
    tarn_fabric_handle_save(&owner->region->handle, data);
    while (tarn_fabric_listener_wait(owner->listener, TARN_FOREVER, &incoming) == 0) {
        if (tarn_fabric_accept(incoming, owner->domain, &options, &connection) == 0 &&
            begin_client(owner, connection) != 0)
            tarn_fabric_disconnect(connection);
    }
}

/* ---- the owner: plain memory --------------------------------------------------------------------- */

struct answer {
    uint64_t operations;
    uint64_t elapsed_ns;
};

/* Called, and not a part of the loop: what is compared is a call, too. */
static __attribute__((noinline)) uint64_t swap_word(uint64_t *word, uint64_t compare, uint64_t operand)
{
    (void)__atomic_compare_exchange_n(word, &compare, operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return compare;
}

static struct answer do_job(struct owner *owner, const struct lab_fabric_job *job)
{
    void *(*volatile copy)(void *to, const void *from, size_t bytes) = memcpy;
    struct places places = first_place(job);
    const uint32_t batch = lab_fabric_batch(job);
    uint64_t begin_ns = task_now(), until_ns = begin_ns + job->bench->options.duration_ns, operations = 0,
             now_ns;
    do {
        for (uint32_t i = 0; i < batch; i++) {
            uint8_t *memory = owner->region->memory + next_place(&places);
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
    return (struct answer){.operations = operations, .elapsed_ns = now_ns - begin_ns};
}

/* A job's pointers lead to what the child has, too. */
static void obey_jobs(struct lab_server *server)
{
    struct lab_fabric_job job;
    while (lab_child_receive(&job, sizeof(job)) == 0) {
        bench_pin(&server->bench->machine, 0);
        const struct answer answer = do_job(server->serving, &job);
        bench_pin(&server->bench->machine, 1);
        if (lab_child_answer(&answer, sizeof(answer)) != 0)
            return;
    }
}

int lab_fabric_memory(void *arg, struct bench_sample *sample)
{
    struct lab_fabric_job *job = arg;
    struct answer answer;
    int error = lab_child_call(&job->server->child, job, sizeof(*job), &answer, sizeof(answer),
                               job->bench->options.duration_ns + PATIENCE_NS);
    if (error != 0)
        return error;
    sample->operations = answer.operations;
    sample->elapsed_ns = answer.elapsed_ns;
    return 0;
}

/* ---- the owner: beginning and end ---------------------------------------------------------------- */

static int begin_owner(struct lab_server *server, struct tarn_node *node, struct tarn_fabric *fabric)
{
    const struct lab_fabric_job *job = server->serving;
    const struct tarn_fabric_domain_options domain_options = {.writable_bytes = job->region_bytes};
    const struct task_sched_options sched_options = {.spin_ns = server->roams ? RESTING_SPIN_NS
                                                                              : LAB_SERVER_SPIN_NS};
    struct owner *owner = base_alloc(&node->memory, sizeof(*owner));
    struct task_sched *sched;
    if (owner == NULL)
        return -ENOMEM;
    server->serving = owner;
    owner->server = server;
    owner->account = &node->memory;
    int error = tarn_fabric_domain_open(fabric, &domain_options, &owner->domain);
    if (error == 0)
        error = tarn_fabric_region_alloc(owner->domain, job->region_bytes,
                                         TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP,
                                         &owner->region);
    if (error == 0)
        error = tarn_fabric_listen(fabric, server->address, &owner->listener);
    if (error == 0)
        error = task_sched_open(node, &sched_options, &sched);
    if (error == 0)
        error = task_sched_start(sched);
    task_group_init(&owner->group);
    return error == 0 ? task_spawn(sched, &owner->group, "accept", accept_all, owner) : error;
}

static int end_owner(struct lab_server *server)
{
    struct owner *owner = server->serving;
    task_group_cancel(&owner->group);
    return task_group_join(&owner->group, task_now() + 5 * BASE_NS_PER_SECOND);
}

int lab_fabric_owner_start(struct lab_fabric_job *job)
{
    struct lab_server *server = job->server;
    server->serving = job;
    server->begin = begin_owner;
    server->obey = obey_jobs;
    server->end = end_owner;
    return lab_server_start(server);
}

struct asker {
    struct lab_fabric_job *job;
    struct bench_sample *sample;
    struct tarn_fabric_connection *connection;
    struct tarn_fabric_handle handle;
    struct places places;
    uint64_t until_ns;
    uint8_t *data; /* LAB_FABRIC_BYTES_MAX for each operation in flight */
};

/* ---- asking one after the other ------------------------------------------------------------------------- */

static int exchange(struct asker *asker)
{
    struct tarn_fabric_message message;
    int error = tarn_fabric_send(asker->connection, 0, asker->data, asker->job->bytes, TARN_FOREVER);
    return error != 0 ? error
                      : tarn_fabric_receive(asker->connection, asker->data, asker->job->bytes, TARN_FOREVER,
                                            &message);
}

static int do_one(struct asker *asker, uint64_t number)
{
    const struct lab_fabric_job *job = asker->job;
    uint64_t place = next_place(&asker->places), before;
    switch (job->op) {
    case LAB_FABRIC_READ:
        return tarn_fabric_read(asker->connection, 0, &asker->handle, place, asker->data, job->bytes,
                                TARN_FOREVER);
    case LAB_FABRIC_WRITE:
        return tarn_fabric_write(asker->connection, 0, &asker->handle, place, asker->data, job->bytes,
                                 TARN_FOREVER);
    case LAB_FABRIC_CAS:
        return tarn_fabric_cas(asker->connection, 0, &asker->handle, place, number, number + 1, TARN_FOREVER,
                               &before);
    default:
        return exchange(asker);
    }
}

static int ask_in_turn(struct asker *asker)
{
    const uint32_t batch = lab_fabric_batch(asker->job);
    int error = 0;
    do {
        for (uint32_t i = 0; i < batch && error == 0; i++)
            error = do_one(asker, asker->sample->operations + i);
        asker->sample->operations += batch;
    } while (error == 0 && task_now() < asker->until_ns);
    return error;
}

/* ---- asking with many in flight ------------------------------------------------------------------------------ */

/* The oldest is waited for before the next one is posted in its place. */
static int ask_ahead(struct asker *asker)
{
    struct tarn_fabric_op ops[LAB_FABRIC_DEPTH_MAX];
    struct iovec vectors[LAB_FABRIC_DEPTH_MAX];
    const struct lab_fabric_job *job = asker->job;
    uint64_t posted = 0, done = 0;
    int error = 0;
    do {
        bool more = error == 0 && task_now() < asker->until_ns;
        while (more && posted - done < job->depth) {
            uint32_t slot = (uint32_t)(posted++ % job->depth);
            vectors[slot] =
                (struct iovec){.iov_base = asker->data + (size_t)slot * job->bytes, .iov_len = job->bytes};
            ops[slot] = (struct tarn_fabric_op){
                .kind = job->op == LAB_FABRIC_READ ? TARN_FABRIC_READ : TARN_FABRIC_WRITE,
                .handle = &asker->handle,
                .offset = next_place(&asker->places),
                .iov = &vectors[slot],
                .iov_count = 1,
            };
            tarn_fabric_post(asker->connection, &ops[slot], 1);
        }
        if (done == posted)
            break;
        int result = tarn_fabric_wait(&ops[done++ % job->depth], 1, TARN_FOREVER);
        error = error != 0 ? error : result; /* after one, all that was posted ends at once */
        asker->sample->operations++;
    } while (true);
    return error;
}

/* ---- a measurement ------------------------------------------------------------------------------- */

/* Pages that are touched for the first time are not measured. */
static int touch(struct asker *asker)
{
    const struct lab_fabric_job *job = asker->job;
    const uint64_t region_bytes = job->cold ? job->region_bytes : 0;
    int error = do_one(asker, 0);
    for (uint64_t place = 0; place < region_bytes && error == 0; place += BASE_PAGE_BYTES)
        error = tarn_fabric_read(asker->connection, 0, &asker->handle, place, asker->data,
                                 LAB_FABRIC_BYTES_MIN, TARN_FOREVER);
    return error;
}

static int ask_owner(void *arg)
{
    struct asker *asker = arg;
    const void *handle;
    if (tarn_fabric_peer_data(asker->connection, &handle) != TARN_FABRIC_HANDLE_BYTES ||
        tarn_fabric_handle_load(handle, &asker->handle) != 0)
        return -EPROTO;
    asker->places = first_place(asker->job);
    int error = touch(asker);
    uint64_t begin_ns = task_now();
    asker->until_ns = begin_ns + asker->job->bench->options.duration_ns;
    if (error == 0)
        error = asker->job->depth > 1 ? ask_ahead(asker) : ask_in_turn(asker);
    asker->sample->elapsed_ns = task_now() - begin_ns;
    return error;
}

int lab_fabric_meet(const struct lab_fabric_job *job, struct tarn_fabric *fabric, uint32_t bytes,
                    struct tarn_fabric_connection **ret_connection, int (*measure)(void *arg), void *arg)
{
    const struct tarn_fabric_connect_options options = {.receive_count = 2, .receive_bytes = bytes};
    struct tarn_fabric_domain *domain;
    int error = tarn_fabric_domain_open(fabric, NULL, &domain);
    if (error != 0)
        return error;
    error =
        tarn_fabric_connect(domain, job->server->address, &options, task_now() + PATIENCE_NS, ret_connection);
    if (error == 0) {
        error = measure(arg);
        tarn_fabric_disconnect(*ret_connection);
    }
    tarn_fabric_domain_close(domain);
    return error;
}

static void asker_main(void *arg)
{
    struct bench_world *world = arg;
    struct asker *asker = world->arg;
    struct base_account *account = &world->node->memory;
    size_t bytes = (size_t)asker->job->depth * asker->job->bytes;
    struct tarn_fabric *fabric;
    world->error = tarn_fabric_open(world->node, asker->job->server->url, &fabric);
    if (world->error != 0)
        return;
    asker->data = base_alloc(account, bytes);
    world->error = asker->data == NULL ? -ENOMEM
                                       : lab_fabric_meet(asker->job, fabric, asker->job->bytes,
                                                         &asker->connection, ask_owner, asker);
    base_free(account, asker->data, bytes);
    tarn_fabric_close(fabric);
}

int lab_fabric_tarn(void *arg, struct bench_sample *sample)
{
    struct asker asker = {.job = arg, .sample = sample};
    const struct bench_world_options options = {.sched = {.spin_ns = LAB_SERVER_SPIN_NS}};
    return bench_world_run(asker.job->bench, &options, asker_main, &asker);
}
