/* Measuring a contestant of `tarn-lab memcache` once, and fio beside Tarn. */
#include "lab/fio.h"
#include "lab/memcache.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    FIO_DEPTH_MAX = 1024,
    SECTOR_BYTES = 512,
    PAGE_BYTES = 4096,
    RECORD_SPARE_BYTES = 64, /* what Tarn adds to key and value, at least */
};

/* ---- measuring ----------------------------------------------------------------------------------- */

struct bench_load lab_memcache_load_of(struct lab_memcache_contestant *contestant)
{
    struct bench_load load = bench_contest_load(&contestant->contest->contest);
    load.name = contestant->server.name;
    load.address = &contestant->server.address;
    load.protocol = contestant->server.protocol;
    return load;
}

static void set_values(const struct lab_memcache_contest *contest, const struct bench_load_outcome *outcome,
                       const struct lab_memcache_usage *before, const struct lab_memcache_usage *after,
                       struct bench_sample *sample)
{
    double all = (double)base_max(outcome->all_keys, UINT64_C(1));
    sample->values[LAB_MEMCACHE_SERVER_NS] = (double)(after->processor_ns - before->processor_ns) / all;
    sample->values[LAB_MEMCACHE_LOAD_PERCENT] = 100 * outcome->busy_share;
    if (contest->disk)
        sample->values[LAB_MEMCACHE_BYTES] = (double)(after->read_bytes - before->read_bytes) / all;
    else
        sample->values[LAB_MEMCACHE_BYTES] =
            (double)outcome->keys * contest->contest.values.bytes * 1e9 / (double)outcome->elapsed_ns;
}

int lab_memcache_measure(struct lab_memcache_contestant *contestant, struct bench_sample *sample)
{
    struct lab_memcache_contest *contest = contestant->contest;
    const struct lab_memcache_server *server = &contestant->server;
    struct lab_memcache_usage before = {0}, after = {0};
    const struct bench_load load = lab_memcache_load_of(contestant);
    struct bench_load_outcome outcome = {.latency = sample->latency};
    int error = server->running ? lab_memcache_usage_read(server->child.pid, &before) : 0;
    if (error == 0)
        error = bench_load_run(&load, &outcome);
    if (error == 0 && server->running)
        error = lab_memcache_usage_read(server->child.pid, &after);
    if (error != 0)
        return error;
    if (outcome.hits != outcome.gets)
        return bench_fail(contest->bench, -ENODATA, "%s lacks keys that were stored: %" PRIu64 " of %" PRIu64,
                          contestant->kind->name, outcome.gets - outcome.hits, outcome.gets);
    sample->operations = outcome.keys;
    sample->elapsed_ns = outcome.elapsed_ns;
    set_values(contest, &outcome, &before, &after, sample);
    return 0;
}

int lab_memcache_measure_fio(struct lab_memcache_contestant *contestant, struct bench_sample *sample)
{
    struct lab_memcache_contest *contest = contestant->contest;
    struct bench_sample one = {.latency = &contest->one_latency};
    base_histogram_reset(&contest->one_latency);
    int error = lab_fio_measure(&contest->fio, &one);
    if (error != 0)
        return error;
    sample->skipped = one.skipped;
    sample->operations = one.operations;
    sample->elapsed_ns = one.elapsed_ns;
    base_histogram_merge(sample->latency, &contest->one_latency);
    sample->values[LAB_MEMCACHE_SERVER_NS] = one.values[0];
    sample->values[LAB_MEMCACHE_BYTES] = contest->fio.block_bytes;
    return 0;
}

/* ---- fio beside Tarn ----------------------------------------------------------------------------- */

/* Asked with no arguments, the kernel complains about them if it would do it. */
static bool has_uring(void)
{
    return syscall(SYS_io_uring_setup, 0, NULL) < 0 && (errno == EFAULT || errno == EINVAL);
}

/*
 * As many reads at once as keys are asked for, of the blocks that Tarn reads, from the part of its file that
 * it has filled. How much it reads for a get, a measurement before those that count tells.
 */
int lab_memcache_prepare_fio(struct bench_contest *common)
{
    struct lab_memcache_contest *contest = base_container_of(common, struct lab_memcache_contest, contest);
    const struct bench_contest_options *options = common->options;
    struct lab_memcache_contestant *fio = &contest->contestants[1];
    if (!contest->disk || common->count < 2 || fio->kind->serves || fio->skipped != NULL)
        return 0;
    struct bench_sample sample = {.latency = &contest->one_latency};
    double share = common->share;
    common->share = 1;
    int error = lab_memcache_measure(&contest->contestants[0], &sample);
    common->share = share;
    if (error != 0)
        return error;
    uint64_t bytes = (uint64_t)sample.values[LAB_MEMCACHE_BYTES];
    uint64_t unit = bytes < PAGE_BYTES ? SECTOR_BYTES : PAGE_BYTES;
    if (bytes < contest->contest.values.bytes) {
        fio->skipped = "Tarn did not read from the drive: its file is in the page cache";
        return 0;
    }
    uint64_t depth = options->connections * common->pattern.pipeline * common->pattern.keys_per_get;
    contest->fio = (struct lab_drive_job){
        .bench = contest->bench,
        .path = contest->path,
        .provider = has_uring() ? DRIVE_PROVIDER_URING : DRIVE_PROVIDER_AIO,
        .op = LAB_DRIVE_RANDREAD,
        .block_bytes = (uint32_t)base_align_down(bytes + unit / 2, unit),
        .depth = (uint32_t)base_min(depth, (uint64_t)FIO_DEPTH_MAX),
        .opened = true,
        .direct = true,
        .bytes = base_align_down(
            options->keys * (contest->contest.values.bytes + (uint64_t)BENCH_KEY_BYTES + RECORD_SPARE_BYTES),
            PAGE_BYTES)};
    contest->fio.bytes = base_max(contest->fio.bytes, (uint64_t)contest->fio.block_bytes);
    return 0;
}

/* ---- parameters ---------------------------------------------------------------------------------- */

void lab_memcache_add_parameters(const struct bench_contest *contest, struct bench_case *self)
{
    const struct lab_memcache_contest *own =
        base_container_of(contest, const struct lab_memcache_contest, contest);
    bench_case_text(self, "file", own->disk ? "disk" : "memory");
    if (own->disk && own->extstore.path[0] != '\0') {
        bench_case_number(self, "ext_threads", own->extstore.threads);
        bench_case_text(self, "page_cache", own->options->memory_group != NULL ? "memory-group" : "fadvise");
    }
}
