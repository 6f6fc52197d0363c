/* `tarn-lab drive`: its options and its cases. */
#include "bench/bench.h"
#include "bench/case.h"
#include "lab/drive_load.h"
#include "lab/fio.h"
#include "lab/lab.h"
#include "lab/verbs.h"

#include <errno.h>
#include <unistd.h>

enum {
    BLOCK_BYTES_MAX = 4 << 20,
};

struct options {
    struct bench_options common;
    struct base_setting_list paths;
    struct base_setting_list providers;
    struct base_setting_list ops;
    struct base_setting_list blocks;
    struct base_setting_list depths;
    uint64_t size_bytes;
    uint64_t rate;
    uint64_t spin_ns;
    unsigned direct;
    bool fio;
    bool open_loop;
    bool force;
};

static const char *const providers[] = {"uring", "aio", "sync", NULL};
static const enum drive_provider_choice provider_choices[] = {DRIVE_PROVIDER_URING, DRIVE_PROVIDER_AIO,
                                                              DRIVE_PROVIDER_SYNC};
static const char *const ops[] = {"randread", "randwrite", "read", "write", NULL}; /* as enum lab_drive_op */

static const struct base_setting table[] = {
    BENCH_OPTION(
        LIST, "path", paths,
        "Files or devices to measure. A file that is not there is made, filled with random bytes, and "
        "removed afterwards.",
        .metavar = "FILE[,...]", .default_text = "/dev/shm/tarn-bench.data,tarn-bench.data"),
    BENCH_OPTION(SIZE, "size", size_bytes, "Size of a file that is made.", .min = 1 << 20,
                 .default_text = "1G"),
    BENCH_OPTION(BOOL, "force", force,
                 "Write to files and devices that were there before: what they hold is lost."),
    BENCH_OPTION(LIST, "provider", providers, "Providers to measure: uring, aio, sync (that one at depth 1).",
                 .metavar = "NAME[,...]", .default_text = "uring,aio,sync"),
    BENCH_OPTION(LIST, "op", ops, "What to do: randread, randwrite, read, write.", .metavar = "NAME[,...]",
                 .default_text = "randread,randwrite"),
    BENCH_OPTION(LIST, "block", blocks, "Sizes of a request.", .metavar = "SIZE[,...]", .default_text = "4K"),
    BENCH_OPTION(LIST, "depth", depths, "Numbers of requests in flight; in Tarn so many tasks.",
                 .metavar = "N[,...]", .default_text = "1,32,128"),
    BENCH_OPTION(BOOL, "open-loop", open_loop, "Measure an open loop after each closed one.",
                 .default_text = "yes"),
    BENCH_OPTION(UINT, "rate", rate, "Rate of the open loop; 0 is half of what Tarn did in the closed loop.",
                 .unit = "requests a second", .default_text = "0"),
    LAB_FILE_SETTINGS(struct options),
    BENCH_COMMON_SETTINGS(struct options, "500ms", "5"),
};

/* ---- options -------------------------------------------------------------------------------------- */

static const struct bench_list lists[] = {
    BENCH_WORDS("provider", providers, providers),
    BENCH_WORDS("op", ops, ops),
    BENCH_NUMBERS("block", blocks, DRIVE_SECTOR_BYTES, BLOCK_BYTES_MAX, DRIVE_SECTOR_BYTES),
    BENCH_NUMBERS("depth", depths, 1, BENCH_DEPTH_MAX, 1),
    {.setting = NULL},
};

/* What is there already is only written to by order. */
static int check_paths(struct bench *bench, const struct options *options)
{
    bool writes = false;
    for (size_t i = 0; i < options->ops.count; i++)
        writes =
            writes || lab_drive_op_writes((enum lab_drive_op)bench_word_index(options->ops.items[i], ops));
    for (size_t i = 0; i < options->paths.count; i++) {
        if (writes && !options->force && access(options->paths.items[i], F_OK) == 0)
            return bench_fail(bench, 0,
                              "%s is there already: --force overwrites it, --op=randread,read only reads",
                              options->paths.items[i]);
    }
    return 0;
}

static int check_options(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    int error = lab_fio_check(bench, options->fio, options->common.duration_ns);
    return error != 0 ? error : check_paths(bench, options);
}

/* ---- cases ---------------------------------------------------------------------------------------- */

/*
 * A closed loop beside fio, or an open one of Tarn alone: fio's latencies begin when a request is made, and do not show
 * what waited before.
 *
 * @param ret_rate  Tarn's median, 0 if it could not be measured
 */
static int run_loop(struct lab_drive_job *job, const struct lab_drive_file *file, const char *provider,
                    bool fio, double *ret_rate)
{
    struct bench_case *self;
    int error = bench_case_open(job->bench, "drive", "requests/s", &self);
    if (error != 0)
        return error;
    bench_case_text(self, "file", file->memory ? "memory" : "disk");
    bench_case_text(self, "provider", provider);
    bench_case_text(self, "op", lab_drive_op_name(job->op));
    bench_case_number(self, "block_bytes", job->block_bytes);
    bench_case_number(self, "depth", job->depth);
    bench_case_text(self, "loop", job->rate == 0 ? "closed" : "open");
    if (job->rate > 0)
        bench_case_number(self, "rate", job->rate);
    bench_case_value(self, "thread_ns");
    bench_case_subject(self, "tarn", lab_drive_measure, job);
    if (fio && job->rate == 0)
        bench_case_subject(self, "fio", lab_fio_measure, job);
    error = bench_case_run(self);
    *ret_rate = bench_case_slowest(self, 1);
    bench_case_close(self);
    return error;
}

static int run_loops(struct lab_drive_job *job, const struct lab_drive_file *file,
                     const struct options *options, const char *provider)
{
    double rate;
    job->rate = 0;
    job->opened = false;
    int error = run_loop(job, file, provider, options->fio, &rate);
    if (error != 0 || !options->open_loop || rate <= 0)
        return error;
    job->rate = options->rate != 0 ? options->rate : base_max((uint64_t)(rate / 2), UINT64_C(1));
    return run_loop(job, file, provider, false, &rate);
}

/* All blocks and depths of one provider and operation. */
static int run_jobs(struct lab_drive_job *job, const struct lab_drive_file *file,
                    const struct options *options, const char *provider)
{
    int error = 0;
    for (size_t b = 0; b < options->blocks.count; b++) {
        for (size_t d = 0; d < options->depths.count && error == 0; d++) {
            job->block_bytes = bench_number(options->blocks.items[b]);
            job->depth = bench_number(options->depths.items[d]);
            if (job->provider != DRIVE_PROVIDER_SYNC || job->depth == 1)
                error = run_loops(job, file, options, provider);
        }
    }
    return error;
}

static int run_path(struct bench *bench, const struct options *options, const char *path)
{
    struct lab_drive_file file;
    int error = lab_drive_file_open(bench, path, options->size_bytes, &file);
    if (error != 0)
        return error;
    for (size_t p = 0; p < options->providers.count && error == 0; p++) {
        const char *provider = options->providers.items[p];
        for (size_t o = 0; o < options->ops.count && error == 0; o++) {
            struct lab_drive_job job = {
                .bench = bench,
                .path = path,
                .provider = provider_choices[bench_word_index(provider, providers)],
                .direct_choice = (enum drive_direct)options->direct,
                .op = (enum lab_drive_op)bench_word_index(options->ops.items[o], ops),
                .spin_ns = options->spin_ns,
            };
            error = run_jobs(&job, &file, options, provider);
        }
    }
    lab_drive_file_close(&file);
    return error;
}

static int run_drive(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    int error = 0;
    for (size_t i = 0; i < options->paths.count && error == 0; i++)
        error = run_path(bench, options, options->paths.items[i]);
    return error;
}

const struct bench_verb lab_verb_drive =
    BENCH_VERB("drive", "Drives: random and sequential reads and writes, beside fio.", .lists = lists,
               .check = check_options, .run = run_drive);
