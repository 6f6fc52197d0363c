/* Tarn's side of a measurement: one task, on a scheduler that never sleeps. */
#include "lab/fabric.h"

#include "bench/world.h"
#include <errno.h>
#include <tarn/fabric.h>

#define PATIENCE_NS (30 * BASE_NS_PER_SECOND)

struct asker {
    struct lab_fabric_job *job;
    struct bench_sample *sample;
    struct tarn_fabric_connection *connection;
    struct tarn_fabric_handle handle;
    struct lab_fabric_places places;
    uint64_t until_ns;
    uint8_t *data; /* LAB_FABRIC_BYTES_MAX for each operation in flight */
};

/* ---- one after the other ------------------------------------------------------------------------- */

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
    uint64_t place = lab_fabric_places_next(&asker->places), before;
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

/* ---- many in flight ------------------------------------------------------------------------------ */

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
                .offset = lab_fabric_places_next(&asker->places),
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
    const uint64_t region_bytes = job->cold ? job->owner->region_bytes : 0;
    int error = do_one(asker, 0);
    for (uint64_t place = 0; place < region_bytes && error == 0; place += BASE_PAGE_BYTES)
        error = tarn_fabric_read(asker->connection, 0, &asker->handle, place, asker->data,
                                 LAB_FABRIC_BYTES_MIN, TARN_FOREVER);
    return error;
}

static int ask_owner(struct asker *asker)
{
    const void *handle;
    if (tarn_fabric_peer_data(asker->connection, &handle) != TARN_FABRIC_HANDLE_BYTES ||
        tarn_fabric_handle_load(handle, &asker->handle) != 0)
        return -EPROTO;
    lab_fabric_places_init(&asker->places, asker->job);
    int error = touch(asker);
    uint64_t begin_ns = task_now();
    asker->until_ns = begin_ns + asker->job->bench->options.duration_ns;
    if (error == 0)
        error = asker->job->depth > 1 ? ask_ahead(asker) : ask_in_turn(asker);
    asker->sample->elapsed_ns = task_now() - begin_ns;
    return error;
}

static int connect_and_ask(struct asker *asker, struct tarn_fabric *fabric)
{
    const struct tarn_fabric_connect_options options = {.receive_count = 2,
                                                        .receive_bytes = asker->job->bytes};
    struct tarn_fabric_domain *domain;
    int error = tarn_fabric_domain_open(fabric, NULL, &domain);
    if (error != 0)
        return error;
    error = tarn_fabric_connect(domain, asker->job->owner->server.address, &options, task_now() + PATIENCE_NS,
                                &asker->connection);
    if (error == 0) {
        error = ask_owner(asker);
        tarn_fabric_disconnect(asker->connection);
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
    world->error = tarn_fabric_open(world->node, asker->job->owner->server.url, &fabric);
    if (world->error != 0)
        return;
    asker->data = base_alloc(account, bytes);
    world->error = asker->data == NULL ? -ENOMEM : connect_and_ask(asker, fabric);
    base_free(account, asker->data, bytes);
    tarn_fabric_close(fabric);
}

int lab_fabric_tarn(void *arg, struct bench_sample *sample)
{
    struct asker asker = {.job = arg, .sample = sample};
    const struct bench_world_options options = {.sched = {.spin_ns = 3600 * BASE_NS_PER_SECOND}};
    return bench_world_run(asker.job->bench, &options, asker_main, &asker);
}
