/*
 * bench: measuring in turn, and `tarn bench`: load on any store by its URL and on any memcached server. The laboratory
 * (lab/) has verbs of its own, made of the same parts. README.md says how to read the results.
 *
 * Threading: call bench_main() from a plain thread of a process that has no other.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "base/base.h"
#include "bench/machine.h"
#include "bench/statistics.h"
#include <stdio.h>

/* What every verb's options begin with. */
struct bench_options {
    bool help;
    bool man;
    bool json;
    uint64_t duration_ns; /* of one measurement */
    uint64_t repeats;
    uint64_t seed; /* 0: from the kernel */
};

struct bench_program;

/* One run of a verb. */
struct bench {
    const struct bench_program *program;
    FILE *out;
    FILE *err;
    struct base_account *account;
    const char *verb;
    struct bench_options options; /* seed drawn */
    struct bench_machine machine;
};

/* A verb of a program. */
struct bench_verb {
    const char *name;
    const char *summary;
    const struct base_setting *table;
    size_t table_count;
    size_t options_bytes; /* of its options, which begin with struct bench_options */
    bool simulated;       /* no machine is in its results, so that none is named above them */

    /** Look at options that depend on each other; NULL: none do. @return 0; negative errno: wrong use, said in bench->err */
    int (*check)(struct bench *bench, const void *options);

    /** Do it. @param options  the verb's @return 0; negative errno: said in bench->err */
    int (*run)(struct bench *bench, const void *options);
};

/* A command with such verbs. */
struct bench_program {
    const char *name; /* as the user types it: "tarn bench" */
    const struct bench_verb *const *verbs;
    size_t verb_count;
};

/* `tarn bench`. */
extern const struct bench_program bench_program;

/**
 * Run a verb of a program.
 *
 * @param argc, argv  the verb and its options, without the program; borrowed until return
 * @param out         results: a JSON object a line with --json, else tables; the text of --help
 * @param err         errors and progress
 * @return the exit status: 0; 1 (something failed); 2 (usage)
 *
 * Blocks. Plain threads only.
 */
int bench_main(const struct bench_program *program, int argc, char *const *argv, FILE *out, FILE *err);

/** Print the verbs of a program, a line each. */
void bench_print_verbs(const struct bench_program *program, FILE *file);

/* An entry of a verb's table, whose options are a `struct options`; what follows the help are further members. */
#define BENCH_OPTION(kind, option, member, text, ...)                                                        \
    {                                                                                                        \
        .name = (option), .type = BASE_SETTING_##kind, .help = text,                                         \
        .offset = offsetof(struct options, member), ##__VA_ARGS__                                            \
    }

/* The settings that every verb has; `type` is its options structure, whose first member is `common`. */
#define BENCH_COMMON_SETTINGS(options_type, duration, repeats_count)                                         \
    {.name = "duration",                                                                                     \
     .type = BASE_SETTING_DURATION,                                                                          \
     .min = BASE_NS_PER_MS,                                                                                  \
     .max = 3600 * BASE_NS_PER_SECOND,                                                                       \
     .default_text = duration,                                                                               \
     .help = "Length of one measurement.",                                                                   \
     .offset = offsetof(options_type, common.duration_ns)},                                                  \
        {.name = "repeats",                                                                                  \
         .type = BASE_SETTING_UINT,                                                                          \
         .min = 1,                                                                                           \
         .max = BENCH_REPEATS_MAX,                                                                           \
         .default_text = repeats_count,                                                                      \
         .help = "How often everything is measured, in turn with what it is compared to.",                   \
         .offset = offsetof(options_type, common.repeats)},                                                  \
        BENCH_OUTPUT_SETTINGS(options_type, "0")

/* Those of verbs whose measurements have no length: what is printed and how, and chance. */
#define BENCH_OUTPUT_SETTINGS(options_type, seed_text)                                                       \
    {.name = "json",                                                                                         \
     .type = BASE_SETTING_BOOL,                                                                              \
     .help = "Print one JSON object a line instead of tables.",                                              \
     .offset = offsetof(options_type, common.json)},                                                         \
        {.name = "seed",                                                                                     \
         .type = BASE_SETTING_UINT,                                                                          \
         .default_text = seed_text,                                                                          \
         .help = "Of the random numbers; 0 takes one from the kernel. Results tell which it was.",           \
         .offset = offsetof(options_type, common.seed)},                                                     \
        {.name = "man",                                                                                      \
         .type = BASE_SETTING_BOOL,                                                                          \
         .flags = BASE_SETTING_COMMAND_ONLY | BASE_SETTING_HIDDEN,                                           \
         .help = "Print the options as a man page has them.",                                                \
         .offset = offsetof(options_type, common.man)},                                                      \
    {                                                                                                        \
        .name = "help", .type = BASE_SETTING_BOOL, .letter = 'h', .flags = BASE_SETTING_COMMAND_ONLY,        \
        .help = "Print this and exit.", .offset = offsetof(options_type, common.help)                        \
    }

/**
 * Say on bench->err that something failed, as a printf format, and why.
 *
 * @param error  negative errno; 0: the text says why
 * @return `error`, or -EINVAL if that is 0
 */
int bench_fail(struct bench *bench, int error, const char *format, ...) base_printf_like(3, 4);

/** A progress bar on bench->err. @param label, unit, total  as base_progress_init() */
void bench_progress_init(const struct bench *bench, struct base_progress *progress, const char *label,
                         const char *unit, uint64_t total);

/** Whether a name is in a list of words, or the list is empty. */
bool bench_is_wanted(const struct base_setting_list *list, const char *name);

/**
 * Check that every word of a list is a known one.
 *
 * @param known  ends with NULL
 * @return 0; -EINVAL: said in bench->err
 */
base_must_check int bench_check_words(struct bench *bench, const char *setting,
                                      const struct base_setting_list *list, const char *const *known);

/** The place of a word in a list of known ones that it was checked against. */
unsigned bench_word_index(const char *word, const char *const *known);

#define BENCH_DEPTH_MAX 1024 /* requests in flight at once */

/** A number of requests in flight. @return 0; -EINVAL: it is none from 1 to BENCH_DEPTH_MAX */
base_must_check int bench_read_depth(const char *text, uint32_t *ret_depth);

/** Check that every word of a list is a depth. @param most  the largest @return 0; -EINVAL: said in bench->err */
base_must_check int bench_check_depths(struct bench *bench, const char *setting,
                                       const struct base_setting_list *list, uint32_t most);

/** A number of bytes that an operation moves: whole words. @return 0; -EINVAL: it is no multiple of 8 from 8 to `most` */
base_must_check int bench_read_size(const char *text, uint32_t most, uint32_t *ret_bytes);

/** Check that every word of --sizes is such a number. @return 0; -EINVAL: said in bench->err */
base_must_check int bench_check_sizes(struct bench *bench, const struct base_setting_list *sizes,
                                      uint32_t most);

#endif
