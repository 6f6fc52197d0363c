/*
 * `tarn-lab memcache`: its options, a contest for each file and length of values, and measuring a contestant once, with fio
 * beside Tarn.
 */
#include "lab/memcache.h"
#include "lab/fio.h"
#include "lab/verbs.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    EXT_THREADS_MAX = 64,
    FIO_DEPTH_MAX = 1024,
    SECTOR_BYTES = 512,
    PAGE_BYTES = 4096,
    RECORD_SPARE_BYTES = 64, /* what Tarn adds to key and value, at least */
};

static const char *const peers[] = {"memcached", "redis", "extstore", "fio", NULL};

#define OPTION(kind, option, member, text, ...)                                                              \
    {                                                                                                        \
        .name = (option), .type = BASE_SETTING_##kind, .help = text,                                         \
        .offset = offsetof(struct lab_memcache_options, member), ##__VA_ARGS__                               \
    }

static const struct base_setting table[] = {
    OPTION(
        LIST, "path", paths,
        "Files for Tarn's store, made and removed afterwards. With one in memory (tmpfs) memcached and redis "
        "are "
        "compared, with one on a disk fio and memcached with extstore, whose file is beside it and ends in "
        ".extstore.",
        .metavar = "FILE[,...]", .min = 1, .default_text = "/dev/shm/tarn-bench.tarn,tarn-bench.tarn"),
    OPTION(BOOL, "disk", disk, "Measure all paths and not only the first.", .default_text = "yes"),
    OPTION(SIZE, "size", size_bytes,
           "Size of Tarn's file; 0 is 256 MiB and twice what keys and values need."),
    OPTION(BOOL, "force", force, "Use files that were there before: they are removed afterwards."),
    OPTION(LIST, "peers", peers, "Measure these beside Tarn alone: memcached, redis, extstore, fio.",
           .metavar = "NAME[,...]"),
    OPTION(LIST, "ext-threads", ext_threads,
           "Numbers of extstore's threads that are tried once each; the fastest is compared.",
           .metavar = "N[,...]", .min = 1, .max = LAB_MEMCACHE_EXT_THREADS_MAX, .default_text = "1,4,16"),
    OPTION(STRING, "memory-group", memory_group,
           "Control group that extstore's process joins, with a limit of its memory, that you have made. Its "
           "page "
           "cache is then only emptied before a measurement; without it also all the time during one.",
           .metavar = "FOLDER"),
    OPTION(
        SIZE, "memory", memory_bytes,
        "Memory of each server where Tarn's file is on a disk, page cache included, in a group of its own in "
        "--memory-group. Both may then keep values in it. 0: none does."),
    OPTION(
        UINT, "fill-rate", fill_rate,
        "Keys stored a second before anything is measured; 0: as fast as they go. What comes faster than it "
        "writes to its file and finds room for the index of that, extstore drops.",
        .unit = "keys a second", .default_text = "0"),
    OPTION(STRING, "program", program, "The tarn that is measured, if not the one beside this program.",
           .metavar = "FILE"),
    OPTION(LIST, "serve", serve, "Further options of its `tarn serve`, without the hyphens.",
           .metavar = "NAME=VALUE[,...]"),
    OPTION(STRING, "disk-read-share", disk_read_share,
           "The same where Tarn's file is on a disk. What has been set lately, extstore has in memory.",
           .metavar = "0...1", .default_text = "1"),
    BENCH_CONTEST_SETTINGS(struct lab_memcache_options),
    BENCH_COMMON_SETTINGS(struct lab_memcache_options, "1s", "5"),
};

/* ---- options ------------------------------------------------------------------------------------- */

static int check_ext_threads(struct bench *bench, const struct base_setting_list *numbers)
{
    uint64_t threads;
    for (size_t i = 0; i < numbers->count; i++) {
        if (base_parse_u64(numbers->items[i], &threads) != 0 || threads < 1 || threads > EXT_THREADS_MAX)
            return bench_fail(bench, 0, "--ext-threads: '%s' is no number from 1 to %d", numbers->items[i],
                              EXT_THREADS_MAX);
    }
    return 0;
}

static int check_file(struct bench *bench, const char *path)
{
    if (access(path, F_OK) == 0)
        return bench_fail(bench, 0, "%s is there already: --force uses it, and removes it", path);
    return 0;
}

/* What is there already is only used by order. */
static int check_paths(struct bench *bench, const struct lab_memcache_options *options)
{
    char path[LAB_MEMCACHE_PATH_ROOM];
    int error = 0;
    for (size_t i = 0; i < options->paths.count && error == 0; i++) {
        int len = snprintf(path, sizeof(path), "%s.extstore", options->paths.items[i]);
        if (len < 0 || (size_t)len >= sizeof(path) || strpbrk(options->paths.items[i], ":,") != NULL)
            return bench_fail(bench, 0, "--path: extstore takes no ':' or ',' in the name of its file");
        if (!options->force)
            error = check_file(bench, options->paths.items[i]);
        if (error == 0 && !options->force)
            error = check_file(bench, path);
    }
    return error;
}

static int check_options(struct bench *bench, const void *verb_options)
{
    const struct lab_memcache_options *options = verb_options;
    int error = bench_check_words(bench, "peers", &options->peers, peers);
    if (error == 0)
        error = bench_contest_check(bench, &options->load);
    if (error == 0)
        error = check_ext_threads(bench, &options->ext_threads);
    if (error == 0)
        error = bench_contest_check_share(bench, "disk-read-share", options->disk_read_share, false);
    if (error == 0 && options->memory_bytes > 0 && options->memory_group == NULL)
        return bench_fail(bench, 0, "--memory: --memory-group has to say where groups are made");
    return error != 0 ? error : check_paths(bench, options);
}

/* ---- measuring ----------------------------------------------------------------------------------- */

struct bench_load lab_memcache_load_of(struct lab_memcache_contestant *contestant)
{
    struct bench_load load = bench_contest_load(&contestant->contest->contest);
    load.name = contestant->server.name;
    load.address = &contestant->server.address;
    load.protocol = contestant->server.protocol;
    load.fill_rate = contestant->contest->options->fill_rate;
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
    sample->values[LAB_MEMCACHE_HITS] =
        100 * (double)outcome->hits / (double)base_max(outcome->gets, UINT64_C(1));
}

/* A cache whose memory is short may drop what it was given. Tarn may not. */
static bool may_drop(const struct lab_memcache_contestant *contestant)
{
    return lab_memcache_is_warm(contestant->contest) && contestant->kind->on_disk;
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
    if (outcome.hits != outcome.gets && !may_drop(contestant))
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
static int prepare_fio(struct lab_memcache_contest *contest)
{
    struct bench_contest *common = &contest->contest;
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

/* What a server keeps in memory is what was asked for: once before that is measured. */
static int warm_up(struct lab_memcache_contest *contest)
{
    struct bench_sample sample = {.latency = &contest->one_latency};
    int error = 0;
    for (size_t i = 0; i < contest->contest.count && error == 0; i++) {
        if (contest->contestants[i].skipped == NULL)
            error = lab_memcache_measure(&contest->contestants[i], &sample);
    }
    return error;
}

static int prepare(struct bench_contest *common)
{
    struct lab_memcache_contest *contest = base_container_of(common, struct lab_memcache_contest, contest);
    return lab_memcache_is_warm(contest) ? warm_up(contest) : prepare_fio(contest);
}

/* ---- parameters ---------------------------------------------------------------------------------- */

static void add_parameters(const struct bench_contest *contest, struct bench_case *self)
{
    const struct lab_memcache_contest *own =
        base_container_of(contest, const struct lab_memcache_contest, contest);
    bench_case_text(self, "file", own->disk ? "disk" : "memory");
    if (own->serve[0] != '\0')
        bench_case_text(self, "serve", own->serve);
    if (own->disk && own->extstore.path[0] != '\0') {
        bench_case_number(self, "ext_threads", own->extstore.threads);
        if (lab_memcache_is_warm(own))
            bench_case_number(self, "memory_bytes", own->options->memory_bytes);
        else
            bench_case_text(self, "page_cache",
                            own->options->memory_group != NULL ? "memory-group" : "fadvise");
    }
}

/* ---- running ------------------------------------------------------------------------------------- */

static void join_serve(struct lab_memcache_contest *self)
{
    const struct base_setting_list *serve = &self->options->serve;
    size_t len = 0;
    self->serve[0] = '\0';
    for (size_t i = 0; i < serve->count && len < sizeof(self->serve); i++)
        len += (size_t)snprintf(self->serve + len, sizeof(self->serve) - len, "%s%s", i == 0 ? "" : ",",
                                serve->items[i]);
}

static int run_size(struct bench *bench, const struct lab_memcache_options *options, const char *path,
                    const char *size)
{
    struct lab_memcache_contest *self = base_alloc(bench->account, sizeof(*self));
    if (self == NULL)
        return bench_fail(bench, -ENOMEM, "servers");
    self->bench = bench;
    self->options = options;
    self->path = path;
    join_serve(self);
    self->contest = (struct bench_contest){
        .bench = bench, .options = &options->load, .add_parameters = add_parameters, .prepare = prepare};
    int error = lab_memcache_contest_look(self);
    if (error == 0)
        error = bench_contest_init(&self->contest, size);
    if (error == 0) {
        error = lab_memcache_contest_open(self);
        if (error == 0)
            error = bench_contest_run(&self->contest);
        error = lab_memcache_contest_close(self, error);
        bench_contest_deinit(&self->contest);
    }
    base_free(bench->account, self, sizeof(*self));
    return error;
}

static int run_verb(struct bench *bench, const void *verb_options)
{
    const struct lab_memcache_options *options = verb_options;
    size_t paths = options->disk ? options->paths.count : 1;
    int error = 0;
    for (size_t i = 0; i < paths && error == 0; i++) {
        for (size_t k = 0; k < options->load.sizes.count && error == 0; k++)
            error = run_size(bench, options, options->paths.items[i], options->load.sizes.items[k]);
    }
    return error;
}

const struct bench_verb lab_verb_memcache = {
    .name = "memcache",
    .summary = "The server beside memcached, redis and extstore.",
    .table = table,
    .table_count = base_array_count(table),
    .options_bytes = sizeof(struct lab_memcache_options),
    .check = check_options,
    .run = run_verb,
};
