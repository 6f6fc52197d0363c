/* fio beside a store. */
#include "lab/depot_load.h"
#include "lab/fio.h"

#include <inttypes.h>

enum { FLUSH_BLOCK_BYTES = 4096, SEQUENTIAL_BLOCK_BYTES = 256 << 10 };

void lab_depot_peer_init(struct lab_depot_peer *peer, enum lab_depot_peer_kind kind,
                         const struct lab_depot_job *job, const struct lab_drive_file *file,
                         uint64_t file_bytes)
{
    static const enum lab_drive_op ops[] = {[LAB_DEPOT_PEER_READ] = LAB_DRIVE_RANDREAD,
                                            [LAB_DEPOT_PEER_READ_SYNC] = LAB_DRIVE_RANDREAD,
                                            [LAB_DEPOT_PEER_WRITE] = LAB_DRIVE_RANDWRITE,
                                            [LAB_DEPOT_PEER_SEQUENTIAL] = LAB_DRIVE_WRITE,
                                            [LAB_DEPOT_PEER_FLUSH] = LAB_DRIVE_WRITE};
    const struct lab_depot_store *store = job->store;
    const uint64_t block = store->block_bytes;
    const uint32_t put_bytes = LAB_DEPOT_KEY_BYTES + store->value_bytes;
    const bool flushes = kind == LAB_DEPOT_PEER_FLUSH;
    const bool plain = flushes || kind == LAB_DEPOT_PEER_READ_SYNC;
    const uint64_t block_bytes[] = {
        [LAB_DEPOT_PEER_READ] = base_max(base_align_down(store->read_bytes + block / 2, block), block),
        [LAB_DEPOT_PEER_READ_SYNC] = base_max(base_align_down(store->read_bytes + block / 2, block), block),
        [LAB_DEPOT_PEER_WRITE] = base_align_up(store->record_bytes, block),
        [LAB_DEPOT_PEER_SEQUENTIAL] =
            base_max((uint64_t)SEQUENTIAL_BLOCK_BYTES, base_align_up(put_bytes, block)),
        [LAB_DEPOT_PEER_FLUSH] = FLUSH_BLOCK_BYTES};
    *peer = (struct lab_depot_peer){.drive = {.bench = store->bench,
                                              .path = file->path,
                                              .provider = plain ? DRIVE_PROVIDER_SYNC : store->engine,
                                              .op = ops[kind],
                                              .block_bytes = (uint32_t)block_bytes[kind],
                                              .depth = flushes ? 1 : job->depth,
                                              .flush_each = flushes,
                                              .opened = true,
                                              .direct = store->direct,
                                              .bytes = file_bytes},
                                    .factor = 1};
    if (flushes)
        peer->factor = job->depth;
    else if (kind == LAB_DEPOT_PEER_SEQUENTIAL)
        peer->factor = peer->drive.block_bytes / put_bytes;
}

const char *lab_depot_peer_name(const struct lab_depot_peer *peer, char *buffer, size_t room)
{
    if (peer->drive.flush_each)
        (void)snprintf(buffer, room, "fio-flush-x%" PRIu32, peer->factor);
    else if (peer->drive.op == LAB_DRIVE_WRITE)
        (void)snprintf(buffer, room, "fio-sequential");
    else
        (void)snprintf(buffer, room, "fio-%s", lab_fio_engine(peer->drive.provider));
    return buffer;
}

int lab_depot_peer_measure(void *arg, struct bench_sample *sample)
{
    struct lab_depot_peer *peer = arg;
    bool writes = lab_drive_op_writes(peer->drive.op);
    struct bench_sample one = {.latency = &peer->one_latency};
    base_histogram_reset(&peer->one_latency);
    int error = lab_fio_measure(&peer->drive, &one);
    if (error != 0)
        return error;
    sample->skipped = one.skipped;
    sample->operations = one.operations * peer->factor;
    sample->elapsed_ns = one.elapsed_ns;
    sample->values[LAB_DEPOT_THREAD_NS] = one.values[0];
    double p50_ns = (double)base_histogram_percentile(&peer->one_latency, 50);
    sample->values[LAB_DEPOT_P50_NS] = writes ? 1 : p50_ns; /* or puts for a write */
    sample->values[LAB_DEPOT_READS] = 1;                    /* or bytes written for a byte */
    if (!peer->drive.flush_each)                            /* what it tells of those is without the flush */
        base_histogram_merge(sample->latency, &peer->one_latency);
    return 0;
}
