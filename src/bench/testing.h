/* For tests of measuring: a command as a user runs it, what it says, and folders for its files. */
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

/** Run a program with these arguments, NULL after the last. free_run() the outcome. */
void run_command(struct run *run, const struct bench_program *program, const char *const *arguments);

/** Free what it printed. */
void free_run(struct run *run);

/** `tarn bench` with these arguments. */
#define RUN(run, ...) run_command(run, &bench_program, (const char *const[]){__VA_ARGS__, NULL})

/** The run went well, or what it complained of is shown. */
void assert_success(const struct run *run);

/** A run ends with this status, and its output (where that is 0) or its errors contain a text. */
void expect_run(int status, const struct bench_program *program, const char *const *arguments,
                const char *text);

/** How often a text contains another one. */
size_t count_of(const char *text, const char *part);

/** A member of an object that is a number. */
double number_of(struct base_json_value object, const char *name);

/** A port of 127.0.0.1 that is free now. */
uint16_t find_free_port(void);

/* A folder of a test's own, and a file that is to be made there. */
struct folder {
    char path[64];
    char file[96];
    char option[128]; /* --path=file */
};

/** Where a folder is in memory, if there is such a place; else in the working folder, as with "". */
const char *in_memory(void);

/** @return 0; -1. rmdir() its path after the test: fails if anything was left behind */
int make_folder_in(struct folder *folder, const char *parent, const char *file_name);

#endif
