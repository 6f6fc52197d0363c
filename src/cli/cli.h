/*
 * cli: the command. main.c finds the verb; each verb is a file.
 *
 * A verb gets its arguments without "tarn VERB" and returns the exit status: CLI_OK, CLI_FAILED or
 * CLI_USAGE. It speaks to standard output; complaints go to standard error, a sentence each.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/base.h"
#include <signal.h>
#include <stdio.h>

enum cli_status {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
};

struct cli_verb {
    const char *name;
    const char *arguments; /* as in the usage line */
    const char *help;      /* one line */
    int (*run)(int argc, char **argv);
    void (*print_help)(FILE *file); /* what stands below the usage line */
};

/**
 * Print what a verb is for, in lines that fit a terminal.
 *
 * @param program  whose verb it is: "tarn", "tarn fabric" @return CLI_OK; CLI_FAILED: said
 */
int cli_print_help(const char *program, const struct cli_verb *verb, FILE *file);

/** Serve memcached's protocol. */
int cli_serve(int argc, char **argv);

/** The settings of serve. */
void cli_serve_help(FILE *file);

/** Make a store. */
int cli_format(int argc, char **argv);

/** About format. */
void cli_format_help(FILE *file);

/** Make a store larger. */
int cli_grow(int argc, char **argv);

/** About grow. */
void cli_grow_help(FILE *file);

/** Prove that a store is sound. */
int cli_check(int argc, char **argv);

/** About check. */
void cli_check_help(FILE *file);

/** Tell about a store. */
int cli_stat(int argc, char **argv);

/** About stat. */
void cli_stat_help(FILE *file);

/** Print all records as JSON lines. */
int cli_dump(int argc, char **argv);

/** About dump. */
void cli_dump_help(FILE *file);

/** Store the records of a stream. */
int cli_load(int argc, char **argv);

/** About load. */
void cli_load_help(FILE *file);

/** Print all keys. */
int cli_scan(int argc, char **argv);

/** About scan. */
void cli_scan_help(FILE *file);

/** Print values of keys. */
int cli_get(int argc, char **argv);

/** About get. */
void cli_get_help(FILE *file);

/** Store a value. */
int cli_put(int argc, char **argv);

/** About put. */
void cli_put_help(FILE *file);

/** Remove a key. */
int cli_del(int argc, char **argv);

/** About del. */
void cli_del_help(FILE *file);

/** Watch a running server. */
int cli_top(int argc, char **argv);

/** About top. */
void cli_top_help(FILE *file);

/** Run a benchmark. */
int cli_bench(int argc, char **argv);

/** The verbs of bench. */
void cli_bench_help(FILE *file);

/** Look at the fabric of this machine. */
int cli_fabric(int argc, char **argv);

/** The verbs of fabric. */
void cli_fabric_help(FILE *file);

/** Look at a space, and put files there. */
int cli_space(int argc, char **argv);

/** The verbs of space. */
void cli_space_help(FILE *file);

/** Run the simulator. */
int cli_sim(int argc, char **argv);

/** The settings of sim. */
void cli_sim_help(FILE *file);

/** A progress bar on standard error, if that is a terminal. @param label, unit, total  as base_progress_init() */
void cli_progress_begin(struct base_progress *progress, const char *label, const char *unit, uint64_t total);

/** Print "tarn: " and a sentence to standard error. @return CLI_USAGE, for the caller to return */
base_printf_like(1, 2) int cli_usage(const char *format, ...);

/** Print "tarn: " and a sentence to standard error. @return CLI_FAILED, for the caller to return */
base_printf_like(1, 2) int cli_failed(const char *format, ...);

/** The signals that ask a verb to end. */
sigset_t cli_ending_signals(void);

#endif
