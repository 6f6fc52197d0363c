/* `tarn bench memcache`: its options. */
#include "bench/memcache.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    VALUE_BYTES_MAX = 1000 << 10, /* a memcached item has 1 MiB at most, key and header included */
    EXT_THREADS_MAX = 64,
};

static const char *const protocols[] = {"memcache", "redis", NULL}; /* as enum bench_memcache_protocol */
static const char *const peers[] = {"memcached", "redis", "extstore", "fio", NULL};
static const char *const distributions[] = {"uniform", "zipf", NULL};

#define AT(field) .offset = offsetof(struct bench_memcache_options, field)

static const struct base_setting table[] = {
    {.name = "server",
     .type = BASE_SETTING_STRING,
     .metavar = "HOST:PORT|unix:PATH",
     .help =
         "Load this server and start none. It is given keys that begin with `bench-`. Without it Tarn is "
         "measured beside its peers, which are started here, on the first core; the load is on the second.",
     AT(server)},
    {.name = "protocol",
     .type = BASE_SETTING_ENUM,
     .choices = protocols,
     .help = "What --server speaks.",
     AT(protocol)},
    {.name = "fill",
     .type = BASE_SETTING_BOOL,
     .default_text = "yes",
     .help = "Store all keys at --server first. With --no-fill and --read-share=1 nothing is stored there.",
     AT(fill)},
    {.name = "path",
     .type = BASE_SETTING_LIST,
     .metavar = "FILE[,...]",
     .min = 1,
     .default_text = "/dev/shm/tarn-bench.tarn,tarn-bench.tarn",
     .help =
         "Files for Tarn's store, made and removed afterwards. With one in memory (tmpfs) memcached and "
         "redis are compared, with one on a disk fio and memcached with extstore, whose file is beside it "
         "and ends in .extstore.",
     AT(paths)},
    {.name = "disk",
     .type = BASE_SETTING_BOOL,
     .default_text = "yes",
     .help = "Measure all paths and not only the first.",
     AT(disk)},
    {.name = "size",
     .type = BASE_SETTING_SIZE,
     .help = "Size of Tarn's file; 0 is 256 MiB and twice what keys and values need.",
     AT(size_bytes)},
    {.name = "force",
     .type = BASE_SETTING_BOOL,
     .help = "Use files that were there before: they are removed afterwards.",
     AT(force)},
    {.name = "peers",
     .type = BASE_SETTING_LIST,
     .metavar = "NAME[,...]",
     .help = "Measure these beside Tarn alone: memcached, redis, extstore, fio.",
     AT(peers)},
    {.name = "ext-threads",
     .type = BASE_SETTING_LIST,
     .metavar = "N[,...]",
     .min = 1,
     .max = BENCH_MEMCACHE_EXT_THREADS_MAX,
     .default_text = "1,4,16",
     .help = "Numbers of extstore's threads that are tried once each; the fastest is compared.",
     AT(ext_threads)},
    {.name = "memory-group",
     .type = BASE_SETTING_STRING,
     .metavar = "FOLDER",
     .help =
         "Control group that extstore's process joins, with a limit of its memory, that you have made. Its "
         "page cache is then only emptied before a measurement; without it also all the time during one.",
     AT(memory_group)},
    {.name = "program",
     .type = BASE_SETTING_STRING,
     .metavar = "FILE",
     .help = "The tarn that is measured, if not this one.",
     AT(program)},
    {.name = "serve",
     .type = BASE_SETTING_LIST,
     .metavar = "NAME=VALUE[,...]",
     .help = "Further options of its `tarn serve`, without the hyphens.",
     AT(serve)},
    {.name = "connections",
     .type = BASE_SETTING_UINT,
     .min = 1,
     .max = BENCH_MEMCACHE_CONNECTIONS_MAX,
     .default_text = "50",
     .help = "Connections to a server.",
     AT(connections)},
    {.name = "pipeline",
     .type = BASE_SETTING_LIST,
     .metavar = "N[xM][,...]",
     .min = 1,
     .default_text = "1,16,1x50",
     .help = "Most requests in flight on each connection; with xM each get asks for M keys (multi-get).",
     AT(pipelines)},
    {.name = "sizes",
     .type = BASE_SETTING_LIST,
     .metavar = "SIZE[,...]",
     .min = 1,
     .default_text = "1K",
     .help = "Lengths of values.",
     AT(sizes)},
    {.name = "read-share",
     .type = BASE_SETTING_STRING,
     .metavar = "0...1",
     .default_text = "0.9",
     .help = "Share of gets in the requests; the others are sets.",
     AT(read_share)},
    {.name = "disk-read-share",
     .type = BASE_SETTING_STRING,
     .metavar = "0...1",
     .default_text = "1",
     .help = "The same where Tarn's file is on a disk. What has been set lately, extstore has in memory.",
     AT(disk_read_share)},
    {.name = "keys",
     .type = BASE_SETTING_UINT,
     .min = 1,
     .max = UINT64_C(1) << 32,
     .default_text = "1000000",
     .help = "Different keys. All are stored first.",
     AT(keys)},
    {.name = "distribution",
     .type = BASE_SETTING_LIST,
     .metavar = "NAME[,...]",
     .min = 1,
     .default_text = "uniform",
     .help = "How keys are drawn: uniform, zipf.",
     AT(distributions)},
    {.name = "zipf-exponent",
     .type = BASE_SETTING_STRING,
     .metavar = "0...1",
     .default_text = "0.99",
     .help = "Of zipf: the key of rank k is drawn with a probability like 1 / k^exponent. Below 1.",
     AT(zipf_exponent)},
    {.name = "open-loop",
     .type = BASE_SETTING_BOOL,
     .default_text = "yes",
     .help = "Measure an open loop after each closed one, for latencies at an equal rate.",
     AT(open_loop)},
    {.name = "rate",
     .type = BASE_SETTING_UINT,
     .unit = "requests a second",
     .default_text = "0",
     .help =
         "Rate of the open loop; 0 is half of what the slowest server did in the closed loop. With --server "
         "and a rate there is no closed loop.",
     AT(rate)},
    BENCH_COMMON_SETTINGS(struct bench_memcache_options, "1s", "5"),
};

/* ---- options ------------------------------------------------------------------------------------- */

int bench_memcache_pattern_read(const char *text, struct bench_memcache_pattern *ret_pattern)
{
    size_t len = strcspn(text, "x");
    uint64_t pipeline;
    uint64_t keys = 1;
    if (base_parse_u64_len(text, len, &pipeline) != 0 ||
        (text[len] == 'x' && base_parse_u64(text + len + 1, &keys) != 0) || pipeline < 1 ||
        pipeline > BENCH_MEMCACHE_PIPELINE_MAX || keys < 1 || keys > BENCH_MEMCACHE_KEYS_PER_GET_MAX)
        return -EINVAL;
    *ret_pattern =
        (struct bench_memcache_pattern){.pipeline = (uint32_t)pipeline, .keys_per_get = (uint32_t)keys};
    return 0;
}

int bench_memcache_share_read(const char *text, double *ret_share)
{
    char *end;
    if (text[0] == '\0' || strspn(text, "0123456789.") != strlen(text))
        return -EINVAL;
    double share = strtod(text, &end);
    if (*end != '\0' || !(share >= 0 && share <= 1))
        return -EINVAL;
    *ret_share = share;
    return 0;
}

static int read_value_bytes(const char *text, uint32_t *ret_bytes)
{
    uint64_t bytes;
    int error = base_parse_size(text, &bytes);
    if (error != 0 || bytes < BENCH_MEMCACHE_VALUE_BYTES_MIN || bytes > VALUE_BYTES_MAX)
        return -EINVAL;
    *ret_bytes = (uint32_t)bytes;
    return 0;
}

int bench_memcache_patterns_check(struct bench *bench, const struct base_setting_list *patterns,
                                  uint32_t pipeline_max, uint32_t keys_max)
{
    struct bench_memcache_pattern pattern;
    for (size_t i = 0; i < patterns->count; i++) {
        if (bench_memcache_pattern_read(patterns->items[i], &pattern) != 0 ||
            pattern.pipeline > pipeline_max || pattern.keys_per_get > keys_max)
            return bench_fail(bench, 0, "--pipeline: '%s' is not N or NxM, N from 1 to %u and M from 1 to %u",
                              patterns->items[i], pipeline_max, keys_max);
    }
    return 0;
}

static int check_share(struct bench *bench, const char *setting, const char *text, bool below_one)
{
    double share;
    if (bench_memcache_share_read(text, &share) != 0 || (below_one && !(share > 0 && share < 1)))
        return bench_fail(bench, 0, "--%s: '%s' is no number from 0 to 1", setting, text);
    return 0;
}

int bench_memcache_shares_check(struct bench *bench, const struct base_setting_list *shares)
{
    int error = 0;
    for (size_t i = 0; i < shares->count && error == 0; i++)
        error = check_share(bench, "read-share", shares->items[i], false);
    return error;
}

static int check_lists(struct bench *bench, const struct bench_memcache_options *options)
{
    uint32_t bytes;
    uint64_t threads;
    int error = bench_memcache_patterns_check(bench, &options->pipelines, BENCH_MEMCACHE_PIPELINE_MAX,
                                              BENCH_MEMCACHE_KEYS_PER_GET_MAX);
    if (error != 0)
        return error;
    for (size_t i = 0; i < options->sizes.count; i++) {
        if (read_value_bytes(options->sizes.items[i], &bytes) != 0)
            return bench_fail(bench, 0, "--sizes: '%s' is not from %d to %dK", options->sizes.items[i],
                              BENCH_MEMCACHE_VALUE_BYTES_MIN, VALUE_BYTES_MAX >> 10);
    }
    for (size_t i = 0; i < options->ext_threads.count; i++) {
        if (base_parse_u64(options->ext_threads.items[i], &threads) != 0 || threads < 1 ||
            threads > EXT_THREADS_MAX)
            return bench_fail(bench, 0, "--ext-threads: '%s' is no number from 1 to %d",
                              options->ext_threads.items[i], EXT_THREADS_MAX);
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
static int check_paths(struct bench *bench, const struct bench_memcache_options *options)
{
    char path[BENCH_MEMCACHE_PATH_ROOM];
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

static int check(struct bench *bench, const void *verb_options)
{
    const struct bench_memcache_options *options = verb_options;
    struct bench_memcache_address address;
    int error = bench_check_words(bench, "peers", &options->peers, peers);
    if (error == 0)
        error = bench_check_words(bench, "distribution", &options->distributions, distributions);
    if (error == 0)
        error = check_lists(bench, options);
    if (error == 0)
        error = check_share(bench, "read-share", options->read_share, false);
    if (error == 0)
        error = check_share(bench, "disk-read-share", options->disk_read_share, false);
    if (error == 0)
        error = check_share(bench, "zipf-exponent", options->zipf_exponent, true);
    if (error == 0 && options->server != NULL &&
        bench_memcache_address_read(options->server, &address) == -EINVAL)
        error = bench_fail(bench, 0, "--server: '%s' is not HOST:PORT, [ADDRESS]:PORT or unix:PATH",
                           options->server);
    return error != 0 || options->server != NULL ? error : check_paths(bench, options);
}

/* ---- running ------------------------------------------------------------------------------------- */

/* The pattern with most keys asked for at once. */
static int find_deepest(const struct bench_memcache_options *options,
                        struct bench_memcache_pattern *ret_pattern)
{
    struct bench_memcache_pattern best = {.pipeline = 1, .keys_per_get = 1};
    int error = 0;
    for (size_t i = 0; i < options->pipelines.count && error == 0; i++) {
        struct bench_memcache_pattern pattern = {0};
        error = bench_memcache_pattern_read(options->pipelines.items[i], &pattern);
        if (pattern.pipeline * pattern.keys_per_get > best.pipeline * best.keys_per_get)
            best = pattern;
    }
    *ret_pattern = best;
    return error;
}

/* @param path  NULL: the server that was named */
static int run_size(struct bench *bench, const struct bench_memcache_options *options, const char *path,
                    const char *size)
{
    uint32_t value_bytes;
    struct bench_memcache_contest *contest = base_alloc(bench->account, sizeof(*contest));
    if (contest == NULL)
        return bench_fail(bench, -ENOMEM, "servers");
    *contest = (struct bench_memcache_contest){.bench = bench, .options = options, .path = path};
    int error = read_value_bytes(size, &value_bytes);
    if (error == 0)
        error = find_deepest(options, &contest->pattern);
    if (error == 0)
        error = bench_memcache_share_read(options->disk_read_share, &contest->read_share);
    if (error == 0)
        error = bench_memcache_values_open(bench->account, value_bytes, &contest->values);
    if (error == 0) {
        error = bench_memcache_contest_open(contest);
        if (error == 0)
            error = bench_memcache_run_cases(contest);
        error = bench_memcache_contest_close(contest, error);
        bench_memcache_values_close(&contest->values);
    }
    base_free(bench->account, contest, sizeof(*contest));
    return error;
}

static int run(struct bench *bench, const void *verb_options)
{
    const struct bench_memcache_options *options = verb_options;
    size_t paths = options->server != NULL ? 1 : options->disk ? options->paths.count : 1;
    int error = 0;
    for (size_t i = 0; i < paths && error == 0; i++) {
        const char *path = options->server != NULL ? NULL : options->paths.items[i];
        for (size_t s = 0; s < options->sizes.count && error == 0; s++)
            error = run_size(bench, options, path, options->sizes.items[s]);
    }
    return error;
}

const struct bench_verb bench_verb_memcache = {
    .name = "memcache",
    .summary = "The server: Tarn beside memcached, redis and extstore; or load on any server.",
    .table = table,
    .table_count = base_array_count(table),
    .options_bytes = sizeof(struct bench_memcache_options),
    .check = check,
    .run = run,
};
