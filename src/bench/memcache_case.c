/* The cases of `tarn bench memcache`. */
#include "bench/fio.h"
#include "bench/memcache.h"

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

struct bench_memcache_load bench_memcache_load_of(struct bench_memcache_contestant *contestant)
{
    struct bench_memcache_contest *contest = contestant->contest;
    return (struct bench_memcache_load){.bench = contest->bench,
                                        .name = contestant->server.name,
                                        .address = &contestant->server.address,
                                        .protocol = contestant->server.protocol,
                                        .values = &contest->values,
                                        .keys = &contest->keys,
                                        .connections = (uint32_t)contest->options->connections,
                                        .pipeline = contest->pattern.pipeline,
                                        .keys_per_get = contest->pattern.keys_per_get,
                                        .read_share = contest->read_share,
                                        .rate = contest->rate,
                                        .seed = contest->bench->options.seed + contest->measured++};
}

static void set_values(const struct bench_memcache_contest *contest,
                       const struct bench_memcache_outcome *outcome,
                       const struct bench_memcache_usage *before, const struct bench_memcache_usage *after,
                       struct bench_sample *sample)
{
    double all = (double)base_max(outcome->all_keys, UINT64_C(1));
    sample->values[BENCH_MEMCACHE_SERVER_NS] = (double)(after->processor_ns - before->processor_ns) / all;
    sample->values[BENCH_MEMCACHE_LOAD_PERCENT] = 100 * outcome->busy_share;
    if (contest->disk)
        sample->values[BENCH_MEMCACHE_BYTES] = (double)(after->read_bytes - before->read_bytes) / all;
    else
        sample->values[BENCH_MEMCACHE_BYTES] =
            (double)outcome->keys * contest->values.bytes * 1e9 / (double)outcome->elapsed_ns;
    if (contest->path == NULL)
        sample->values[BENCH_MEMCACHE_SERVER_NS] =
            100 * (double)outcome->hits / (double)base_max(outcome->gets, UINT64_C(1));
}

int bench_memcache_measure(void *arg, struct bench_sample *sample)
{
    struct bench_memcache_contestant *contestant = arg;
    struct bench_memcache_contest *contest = contestant->contest;
    const struct bench_memcache_server *server = &contestant->server;
    struct bench_memcache_usage before = {0};
    struct bench_memcache_usage after = {0};
    if (contestant->skipped != NULL) {
        sample->skipped = contestant->skipped;
        return 0;
    }
    const struct bench_memcache_load load = bench_memcache_load_of(contestant);
    struct bench_memcache_outcome outcome = {.latency = sample->latency};
    int error = server->running ? bench_memcache_usage_read(server->child.pid, &before) : 0;
    if (error == 0)
        error = bench_memcache_load_run(&load, &outcome);
    if (error == 0 && server->running)
        error = bench_memcache_usage_read(server->child.pid, &after);
    if (error != 0)
        return error;
    if (contest->path != NULL && outcome.hits != outcome.gets)
        return bench_fail(contest->bench, -ENODATA, "%s lacks keys that were stored: %" PRIu64 " of %" PRIu64,
                          contestant->kind->name, outcome.gets - outcome.hits, outcome.gets);
    sample->operations = outcome.keys;
    sample->elapsed_ns = outcome.elapsed_ns;
    set_values(contest, &outcome, &before, &after, sample);
    return 0;
}

int bench_memcache_measure_fio(void *arg, struct bench_sample *sample)
{
    struct bench_memcache_contestant *contestant = arg;
    struct bench_memcache_contest *contest = contestant->contest;
    struct bench_sample one = {.latency = &contest->one_latency};
    base_histogram_reset(&contest->one_latency);
    if (contestant->skipped != NULL) {
        sample->skipped = contestant->skipped;
        return 0;
    }
    int error = bench_fio_measure(&contest->fio, &one);
    if (error != 0)
        return error;
    sample->skipped = one.skipped;
    sample->operations = one.operations;
    sample->elapsed_ns = one.elapsed_ns;
    base_histogram_merge(sample->latency, &contest->one_latency);
    sample->values[BENCH_MEMCACHE_SERVER_NS] = one.values[0];
    sample->values[BENCH_MEMCACHE_BYTES] = contest->fio.block_bytes;
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
static int prepare_fio(struct bench_memcache_contest *contest)
{
    const struct bench_memcache_options *options = contest->options;
    struct bench_memcache_contestant *fio = &contest->contestants[1];
    if (!contest->disk || contest->count < 2 || fio->kind->serves || fio->skipped != NULL)
        return 0;
    struct bench_sample sample = {.latency = &contest->one_latency};
    double share = contest->read_share;
    contest->read_share = 1;
    int error = bench_memcache_measure(&contest->contestants[0], &sample);
    contest->read_share = share;
    if (error != 0)
        return error;
    uint64_t bytes = (uint64_t)sample.values[BENCH_MEMCACHE_BYTES];
    uint64_t unit = bytes < PAGE_BYTES ? SECTOR_BYTES : PAGE_BYTES;
    if (bytes < contest->values.bytes) {
        fio->skipped = "Tarn did not read from the drive: its file is in the page cache";
        return 0;
    }
    uint64_t depth = options->connections * contest->pattern.pipeline * contest->pattern.keys_per_get;
    contest->fio = (struct bench_drive_job){
        .bench = contest->bench,
        .path = contest->path,
        .provider = has_uring() ? DRIVE_PROVIDER_URING : DRIVE_PROVIDER_AIO,
        .op = BENCH_DRIVE_RANDREAD,
        .block_bytes = (uint32_t)base_align_down(bytes + unit / 2, unit),
        .depth = (uint32_t)base_min(depth, (uint64_t)FIO_DEPTH_MAX),
        .opened = true,
        .direct = true,
        .bytes = base_align_down(
            options->keys * (contest->values.bytes + (uint64_t)BENCH_MEMCACHE_KEY_BYTES + RECORD_SPARE_BYTES),
            PAGE_BYTES)};
    contest->fio.bytes = base_max(contest->fio.bytes, (uint64_t)contest->fio.block_bytes);
    return 0;
}

/* ---- cases --------------------------------------------------------------------------------------- */

static void add_parameters(struct bench_case *self, const struct bench_memcache_contest *contest,
                           const char *distribution)
{
    const struct bench_memcache_options *options = contest->options;
    if (contest->path != NULL)
        bench_case_text(self, "file", contest->disk ? "disk" : "memory");
    else
        bench_case_text(self, "server", options->server);
    bench_case_number(self, "connections", options->connections);
    bench_case_number(self, "pipeline", contest->pattern.pipeline);
    bench_case_number(self, "keys_per_get", contest->pattern.keys_per_get);
    bench_case_number(self, "value_bytes", contest->values.bytes);
    bench_case_text(self, "read_share", contest->disk ? options->disk_read_share : options->read_share);
    bench_case_number(self, "keys", options->keys);
    bench_case_text(self, "distribution", distribution);
    if (contest->disk && contest->extstore.path[0] != '\0') {
        bench_case_number(self, "ext_threads", contest->extstore.threads);
        bench_case_text(self, "page_cache", options->memory_group != NULL ? "memory-group" : "fadvise");
    }
    bench_case_text(self, "loop", contest->rate == 0 ? "closed" : "open");
    if (contest->rate > 0)
        bench_case_number(self, "rate", contest->rate);
}

static void add_values(struct bench_case *self, const struct bench_memcache_contest *contest)
{
    bench_case_value(self, contest->path == NULL ? "hit_percent" : "server_ns");
    bench_case_value(self, "load_percent");
    bench_case_value(self, contest->disk ? "read_bytes" : "bytes_per_s");
    if (contest->disk)
        bench_case_value(self, "from_memory_percent");
}

/* The rate of the open loop, if none was asked for: requests a second, half of what the slowest server did.
 */
static uint64_t half_rate(const struct bench_memcache_contest *contest, const struct bench_case *closed)
{
    double slowest = 0;
    for (size_t i = 0; i < closed->subject_count; i++) {
        const struct bench_subject *subject = &closed->subjects[i];
        const struct bench_memcache_contestant *contestant = subject->arg;
        double rate = bench_summarize(subject->rates, closed->repeats).median;
        if (subject->skipped == NULL && contestant->kind->serves && rate > 0 &&
            (slowest <= 0 || rate < slowest))
            slowest = rate;
    }
    double keys = contest->read_share * contest->pattern.keys_per_get + 1 - contest->read_share;
    return base_max((uint64_t)(slowest / keys / 2), UINT64_C(1));
}

/* @param rate  0: closed loop. @param ret_half  half of the slowest server's rate; may be NULL */
static int run_loop(struct bench_memcache_contest *contest, const char *distribution, uint64_t rate,
                    uint64_t *ret_half)
{
    struct bench_case *self;
    contest->rate = rate;
    int error = bench_case_open(contest->bench, "load", "keys/s", &self);
    if (error != 0)
        return bench_fail(contest->bench, error, "a case");
    add_parameters(self, contest, distribution);
    add_values(self, contest);
    for (size_t i = 0; i < contest->count; i++) {
        struct bench_memcache_contestant *contestant = &contest->contestants[i];
        if (rate == 0 || contestant->kind->serves)
            bench_case_subject(self, contestant->kind->name, contestant->kind->measure, contestant);
    }
    error = bench_case_run(self);
    if (error == 0 && ret_half != NULL)
        *ret_half = half_rate(contest, self);
    bench_case_close(self);
    contest->rate = 0;
    return error;
}

/* A named server is loaded in an open loop alone where its rate is given. */
static int run_loops(struct bench_memcache_contest *contest, const char *distribution)
{
    const struct bench_memcache_options *options = contest->options;
    uint64_t rate = options->rate;
    int error = 0;
    if (contest->path != NULL || rate == 0)
        error = run_loop(contest, distribution, 0, rate == 0 ? &rate : NULL);
    if (error == 0 && options->open_loop)
        error = run_loop(contest, distribution, rate, NULL);
    return error;
}

static int run_distribution(struct bench_memcache_contest *contest, const char *name)
{
    const struct bench_memcache_options *options = contest->options;
    bool zipf = strcmp(name, "zipf") == 0;
    double exponent = 0;
    char text[64];
    int error = zipf ? bench_memcache_share_read(options->zipf_exponent, &exponent) : 0;
    (void)snprintf(text, sizeof(text), zipf ? "zipf-%s" : "uniform", options->zipf_exponent);
    bench_memcache_keys_init(&contest->keys, options->keys, exponent);
    for (size_t i = 0; i < options->pipelines.count && error == 0; i++) {
        error = bench_memcache_pattern_read(options->pipelines.items[i], &contest->pattern);
        if (error == 0)
            error = prepare_fio(contest);
        if (error == 0)
            error = run_loops(contest, text);
    }
    return error;
}

int bench_memcache_run_cases(struct bench_memcache_contest *contest)
{
    const struct bench_memcache_options *options = contest->options;
    int error = bench_memcache_share_read(contest->disk ? options->disk_read_share : options->read_share,
                                          &contest->read_share);
    for (size_t i = 0; i < options->distributions.count && error == 0; i++)
        error = run_distribution(contest, options->distributions.items[i]);
    return error;
}
