/* `tarn-lab memcache`: its options, and a contest for each file and length of values. */
#include "lab/memcache.h"
#include "lab/verbs.h"

#include <errno.h>
#include <unistd.h>

enum { EXT_THREADS_MAX = 64 };

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
    return error != 0 ? error : check_paths(bench, options);
}

/* ---- running ------------------------------------------------------------------------------------- */

static int run_size(struct bench *bench, const struct lab_memcache_options *options, const char *path,
                    const char *size)
{
    struct lab_memcache_contest *self = base_alloc(bench->account, sizeof(*self));
    if (self == NULL)
        return bench_fail(bench, -ENOMEM, "servers");
    self->bench = bench;
    self->options = options;
    self->path = path;
    self->contest = (struct bench_contest){.bench = bench,
                                           .options = &options->load,
                                           .add_parameters = lab_memcache_add_parameters,
                                           .prepare = lab_memcache_prepare_fio};
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
