/* For tests: the command as a user runs it, what it says, and folders for its files. */
#ifndef BENCH_TESTING_H
#define BENCH_TESTING_H

#include "base/testing.h"

#include "base/base.h"
#include "base/json_read.h"
#include "bench/bench.h"

/* One run of the command. */
struct run {
    int status;
    char *out;
    size_t out_bytes;
    char *err;
    size_t err_bytes;
};

/** Run it with these arguments, NULL after the last. free_run() the outcome. */
static inline void run_command(struct run *run, const char *const *arguments)
{
    char *argv[24];
    int argc = 0;
    for (; arguments[argc] != NULL; argc++) {
        assert_in_range(argc, 0, base_array_count(argv) - 1);
        argv[argc] = (char *)(uintptr_t)arguments[argc]; /* it changes none */
    }
    FILE *out = open_memstream(&run->out, &run->out_bytes);
    FILE *err = open_memstream(&run->err, &run->err_bytes);
    assert_non_null(out);
    assert_non_null(err);
    run->status = bench_main(argc, argv, out, err);
    (void)fclose(out);
    (void)fclose(err);
}

static inline void free_run(struct run *run)
{
    free(run->out);
    free(run->err);
}

#define RUN(run, ...) run_command(run, (const char *const[]){__VA_ARGS__, NULL})

/** The run went well, or what it complained of is shown. */
static inline void assert_success(const struct run *run)
{
    if (run->status != 0)
        print_error("%s", run->err);
    assert_int_equal(run->status, 0);
}

/** A member of an object that is a number. */
static inline double number_of(struct base_json_value object, const char *name)
{
    struct base_json_value value;
    double number = 0;
    assert_int_equal(base_json_member(object, name, &value), 0);
    assert_int_equal(base_json_number(value, &number), 0);
    return number;
}

/* A folder of a test's own, and a file that is to be made there. */
struct folder {
    char path[64];
    char file[96];
    char option[128]; /* --path=file */
};

/** Where a folder is in memory, if there is such a place; else in the working folder, as with "". */
static inline const char *in_memory(void)
{
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : "";
}

/** @return 0; -1. rmdir() its path after the test: fails if anything was left behind */
static inline int make_folder_in(struct folder *folder, const char *parent, const char *file_name)
{
    (void)snprintf(folder->path, sizeof(folder->path), "%sbench-test-XXXXXX", parent);
    if (mkdtemp(folder->path) == NULL)
        return -1;
    (void)snprintf(folder->file, sizeof(folder->file), "%s/%s", folder->path, file_name);
    (void)snprintf(folder->option, sizeof(folder->option), "--path=%s", folder->file);
    return 0;
}

#endif
