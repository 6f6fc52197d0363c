/*
 * A case: one thing measured, Tarn and its peers in turn (A B, B A, A B, ...), with parameters, rates,
 * latencies and other values; and how its outcome is written.
 */
#ifndef BENCH_CASE_H
#define BENCH_CASE_H

#include "bench/bench.h"

enum {
    BENCH_SUBJECTS_MAX = 10,
    BENCH_PARAMETERS_MAX = 13,
    BENCH_VALUES_MAX = 5,
};

/* The outcome of one measurement. */
struct bench_sample {
    uint64_t operations; /* 0: this is not about a rate */
    uint64_t elapsed_ns;
    double values[BENCH_VALUES_MAX]; /* in the order of bench_case.value_names */
    struct base_histogram *latency;  /* empty; add to it what one operation took, ns, or nothing */
    const char *skipped;             /* set it, and return 0: why this cannot be measured here */
};

/* One of those that are measured. */
struct bench_subject {
    const char *name;

    /** Measure once. @return 0; negative errno: ends the run */
    int (*measure)(void *arg, struct bench_sample *sample);
    void *arg;

    const char *skipped;
    double rates[BENCH_REPEATS_MAX]; /* operations a second */
    double values[BENCH_VALUES_MAX][BENCH_REPEATS_MAX];
    struct base_histogram latency; /* of all repeats */
};

struct bench_parameter {
    const char *name;
    const char *text; /* NULL: a number */
    uint64_t number;
};

struct bench_case {
    struct bench *bench;
    const char *name;
    const char *unit; /* of the rate: "switches/s" */
    size_t parameter_count;
    struct bench_parameter parameters[BENCH_PARAMETERS_MAX];
    size_t value_count;
    const char *value_names[BENCH_VALUES_MAX];
    size_t repeats;
    struct base_histogram latency; /* of the measurement under way */
    size_t subject_count;
    struct bench_subject subjects[BENCH_SUBJECTS_MAX];
};

/**
 * An empty case. All strings given to it are borrowed until it is closed.
 *
 * @return 0; -ENOMEM
 */
base_must_check int bench_case_open(struct bench *bench, const char *name, const char *unit,
                                    struct bench_case **ret_case);

/** Free a case. */
void bench_case_close(struct bench_case *self);

/** Add a parameter that is a word. */
void bench_case_text(struct bench_case *self, const char *name, const char *text);

/** Add a parameter that is a number. */
void bench_case_number(struct bench_case *self, const char *name, uint64_t number);

/** Name the next of bench_sample.values; its unit is the end of the name. */
void bench_case_value(struct bench_case *self, const char *name);

/** Add somebody to be measured; the first is the one that the others are compared to. */
void bench_case_subject(struct bench_case *self, const char *name,
                        int (*measure)(void *arg, struct bench_sample *sample), void *arg);

/** The subject that was added last cannot be measured. @param reason  NULL: it can */
void bench_case_skip(struct bench_case *self, const char *reason);

/**
 * Measure all subjects in turn, as often as the options say, and write the outcome.
 *
 * @return 0; what a subject's measure() returned, said in bench->err
 */
base_must_check int bench_case_run(struct bench_case *self);

/**
 * Write a case that was run once more: with one of its values, which are lengths of time, as rates, for their ratios.
 *
 * @param value       its place; the case has nothing but these rates from then on
 * @param name, unit  of the new case
 * @return 0; -EIO: said in bench->err
 */
base_must_check int bench_case_write_times(struct bench_case *self, size_t value, const char *name,
                                           const char *unit);

/** Run a case, and close it. @return as bench_case_run() */
base_must_check int bench_case_finish(struct bench_case *self);

/** The median rate of the slowest subject of a case that was run. @param subjects  those that count, a bit each @return 0: none was measured */
double bench_case_slowest(const struct bench_case *self, uint32_t subjects);

/** Write the parameters of a case as a member of an object. @param of  a first one of that name, or NULL */
void bench_case_write_parameters(const struct bench_case *self, struct base_json *json, const char *of);

/** Write what stands above the tables; with --json nothing. */
void bench_case_write_header(struct bench *bench);

#endif
