/*
 * Operations that are posted together beside the same ones, one after the other: a WRITE and a CAS that is fenced behind
 * it, and READs of several peers. The peers are connections of one owner, each with a task of its own.
 */
#include "lab/fabric.h"

#include "bench/world.h"
#include <errno.h>

#define PATIENCE_NS (30 * BASE_NS_PER_SECOND)

enum { BYTES = 64, WORD_AT = 4096 };

struct asker {
    const struct lab_fabric_job *job;
    struct bench_sample *sample;
    enum lab_fabric_way way;
    struct tarn_fabric_connection *connections[LAB_FABRIC_PEERS];
    struct tarn_fabric_handle handle;
    uint8_t data[LAB_FABRIC_READS][BYTES];
};

/* One WRITE, perhaps with a CAS behind it. @return 0 or negative errno */
static int write_pair(struct asker *asker, uint64_t number)
{
    struct iovec vector = {.iov_base = asker->data[0], .iov_len = BYTES};
    struct tarn_fabric_op ops[] = {
        {.kind = TARN_FABRIC_WRITE, .handle = &asker->handle, .iov = &vector, .iov_count = 1},
        {.kind = TARN_FABRIC_CAS,
         .handle = &asker->handle,
         .offset = WORD_AT,
         .compare = number,
         .operand = number + 1,
         .fence = true}};
    const bool is_alone = asker->way == LAB_FABRIC_WRITE_ALONE, is_fenced = asker->way == LAB_FABRIC_FENCED;
    tarn_fabric_post(asker->connections[0], ops, is_fenced ? 2 : 1);
    int error = tarn_fabric_wait(ops, is_fenced ? 2 : 1, TARN_FOREVER);
    if (error == 0 && !is_alone && !is_fenced) {
        tarn_fabric_post(asker->connections[0], &ops[1], 1);
        error = tarn_fabric_wait(&ops[1], 1, TARN_FOREVER);
    }
    return error;
}

/* READs of all peers. @return 0 or negative errno */
static int read_all(struct asker *asker)
{
    struct tarn_fabric_op ops[LAB_FABRIC_READS];
    struct iovec vectors[LAB_FABRIC_READS];
    int error = 0;
    for (unsigned i = 0; i < LAB_FABRIC_READS && error == 0; i++) {
        vectors[i] = (struct iovec){.iov_base = asker->data[i], .iov_len = BYTES};
        ops[i] = (struct tarn_fabric_op){
            .kind = TARN_FABRIC_READ, .handle = &asker->handle, .iov = &vectors[i], .iov_count = 1};
        tarn_fabric_post(asker->connections[i % LAB_FABRIC_PEERS], &ops[i], 1);
        if (asker->way == LAB_FABRIC_READS_IN_TURN)
            error = tarn_fabric_wait(&ops[i], 1, TARN_FOREVER);
    }
    if (asker->way == LAB_FABRIC_READS_TOGETHER)
        error = tarn_fabric_wait(ops, LAB_FABRIC_READS, TARN_FOREVER);
    return error;
}

static bool is_of_reads(const struct asker *asker)
{
    return asker->way == LAB_FABRIC_READS_IN_TURN || asker->way == LAB_FABRIC_READS_TOGETHER;
}

static int measure(struct asker *asker)
{
    const uint64_t begin_ns = task_now(), until_ns = begin_ns + asker->job->bench->options.duration_ns;
    int error = 0;
    do {
        error = is_of_reads(asker) ? read_all(asker) : write_pair(asker, asker->sample->operations);
        asker->sample->operations += is_of_reads(asker) ? LAB_FABRIC_READS : 1;
    } while (error == 0 && task_now() < until_ns);
    asker->sample->elapsed_ns = task_now() - begin_ns;
    return error;
}

/* Connect with all peers, and measure. */
static int meet_all(struct asker *asker, struct tarn_fabric_domain *domain)
{
    const struct tarn_fabric_connect_options options = {.receive_count = 2, .receive_bytes = BYTES};
    const uint32_t wanted = is_of_reads(asker) ? LAB_FABRIC_PEERS : 1;
    const void *handle;
    uint32_t count = 0;
    int error = 0;
    while (count < wanted && error == 0) {
        error = tarn_fabric_connect(domain, asker->job->server->address, &options, task_now() + PATIENCE_NS,
                                    &asker->connections[count]);
        count += error == 0;
    }
    if (error == 0 && (tarn_fabric_peer_data(asker->connections[0], &handle) != TARN_FABRIC_HANDLE_BYTES ||
                       tarn_fabric_handle_load(handle, &asker->handle) != 0))
        error = -EPROTO;
    if (error == 0)
        error = measure(asker);
    while (count > 0)
        tarn_fabric_disconnect(asker->connections[--count]);
    return error;
}

static void asker_main(void *arg)
{
    struct bench_world *world = arg;
    struct asker *asker = world->arg;
    struct tarn_fabric *fabric;
    struct tarn_fabric_domain *domain;
    world->error = tarn_fabric_open(world->node, asker->job->server->url, &fabric);
    if (world->error != 0)
        return;
    world->error = tarn_fabric_domain_open(fabric, NULL, &domain);
    if (world->error == 0) {
        world->error = meet_all(asker, domain);
        tarn_fabric_domain_close(domain);
    }
    tarn_fabric_close(fabric);
}

int lab_fabric_together(void *arg, struct bench_sample *sample)
{
    const struct lab_fabric_together *together = arg;
    struct asker asker = {.job = together->job, .sample = sample, .way = together->way};
    const struct bench_world_options options = {.sched = {.spin_ns = LAB_SERVER_SPIN_NS}};
    return bench_world_run(asker.job->bench, &options, asker_main, &asker);
}
