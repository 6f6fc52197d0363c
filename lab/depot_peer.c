/* fio beside a store. */
#include "lab/depot_load.h"
#include "lab/fio.h"

#include <inttypes.h>

enum { FLUSH_BLOCK_BYTES = 4096, SEQUENTIAL_BLOCK_BYTES = 256 << 10 };

static struct lab_depot_peer make_peer(const struct lab_depot_job *job, const struct lab_drive_file *file,
                                       enum lab_drive_op op)
{
    return (struct lab_depot_peer){.drive = {.bench = job->store->bench,
                                             .path = file->path,
                                             .provider = job->store->engine,
                                             .op = op,
                                             .depth = job->depth,
                                             .opened = true,
                                             .direct = job->store->direct},
                                   .factor = 1};
}

void lab_depot_peer_read(const struct lab_depot_job *job, enum drive_provider_choice provider,
                         struct lab_depot_peer *ret_peer)
{
    const struct lab_depot_store *store = job->store;
    uint64_t block = store->block_bytes;
    struct lab_depot_peer peer = make_peer(job, &store->file, LAB_DRIVE_RANDREAD);
    peer.drive.provider = provider;
    peer.drive.block_bytes = (uint32_t)base_max(base_align_down(store->read_bytes + block / 2, block), block);
    peer.drive.bytes = store->used_bytes;
    *ret_peer = peer;
}

void lab_depot_peer_write(const struct lab_depot_job *job, const struct lab_drive_file *file,
                          uint64_t file_bytes, struct lab_depot_peer *ret_peer)
{
    const struct lab_depot_store *store = job->store;
    struct lab_depot_peer peer = make_peer(job, file, LAB_DRIVE_RANDWRITE);
    peer.drive.block_bytes = (uint32_t)base_align_up(store->record_bytes, store->block_bytes);
    peer.drive.bytes = file_bytes;
    *ret_peer = peer;
}

void lab_depot_peer_sequential(const struct lab_depot_job *job, const struct lab_drive_file *file,
                               uint64_t file_bytes, struct lab_depot_peer *ret_peer)
{
    const uint32_t put_bytes = LAB_DEPOT_KEY_BYTES + job->store->value_bytes;
    struct lab_depot_peer peer = make_peer(job, file, LAB_DRIVE_WRITE);
    peer.drive.block_bytes = (uint32_t)base_max((uint64_t)SEQUENTIAL_BLOCK_BYTES,
                                                base_align_up(put_bytes, job->store->block_bytes));
    peer.drive.bytes = file_bytes;
    peer.factor = peer.drive.block_bytes / put_bytes;
    *ret_peer = peer;
}

void lab_depot_peer_flush(const struct lab_depot_job *job, const struct lab_drive_file *file,
                          uint64_t file_bytes, struct lab_depot_peer *ret_peer)
{
    struct lab_depot_peer peer = make_peer(job, file, LAB_DRIVE_WRITE);
    peer.drive.provider = DRIVE_PROVIDER_SYNC;
    peer.drive.block_bytes = FLUSH_BLOCK_BYTES;
    peer.drive.depth = 1;
    peer.drive.bytes = file_bytes;
    peer.drive.flush_each = true;
    peer.factor = job->depth;
    *ret_peer = peer;
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
    base_assert(peer->measured < BENCH_REPEATS_MAX);
    peer->p50_ns[peer->measured++] = p50_ns;
    return 0;
}
