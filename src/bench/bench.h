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

/* What the items of a list among a verb's options may be. */
struct bench_list {
    const char *setting;
    size_t offset;            /* of its struct base_setting_list in the options */
    const char *const *words; /* ends with NULL; NULL: the items are numbers, which may be written as sizes */
    uint64_t min, max;
    uint64_t multiple; /* numbers are multiples of it; 0: they are powers of two */
};

/* Entries of bench_verb.lists, of a verb whose options are a `struct options`. */
#define BENCH_WORDS(option, member, known)                                                                   \
    {                                                                                                        \
        .setting = (option), .offset = offsetof(struct options, member), .words = (known)                    \
    }
#define BENCH_NUMBERS(option, member, least, most, multiple_of)                                              \
    {                                                                                                        \
        .setting = (option), .offset = offsetof(struct options, member), .min = (least), .max = (most),      \
        .multiple = (multiple_of)                                                                            \
    }

/* A verb of a program. */
struct bench_verb {
    const char *name;
    const char *summary;
    const struct base_setting *table;
    size_t table_count;
    size_t options_bytes;           /* of its options, which begin with struct bench_options */
    const struct bench_list *lists; /* checked before anything runs; ends with an empty one, or NULL */
    bool simulated;                 /* no machine is in its results, so that none is named above them */

    /** Look at options that depend on each other; NULL: none do. @return 0; negative errno: wrong use, said in bench->err */
    int (*check)(struct bench *bench, const void *options);

    /** Do it. @param options  the verb's @return 0; negative errno: said in bench->err */
    int (*run)(struct bench *bench, const void *options);
};

/* A verb with a `table` of `struct options`; further members follow. */
#define BENCH_VERB(verb_name, about, ...)                                                                    \
    {                                                                                                        \
        .name = (verb_name), .summary = about, .table = table, .table_count = base_array_count(table),       \
        .options_bytes = sizeof(struct options), ##__VA_ARGS__                                               \
    }

/* A command with such verbs. */
struct bench_program {
    const char *name; /* as the user types it: "tarn bench" */
    const struct bench_verb *const *verbs;
    size_t verb_count;
};

/* `tarn bench`, and its verbs. */
extern const struct bench_program bench_program;
extern const struct bench_verb bench_verb_kv;
extern const struct bench_verb bench_verb_memcache;

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

/* An entry of a verb's table; what follows the help are further members of struct base_setting. */
#define BENCH_SETTING(options_type, kind, option, member, text, ...)                                         \
    {                                                                                                        \
        .name = (option), .type = BASE_SETTING_##kind, .help = text,                                         \
        .offset = offsetof(options_type, member), ##__VA_ARGS__                                              \
    }

/* The same where the verb's options are a `struct options`. */
#define BENCH_OPTION(kind, option, member, text, ...)                                                        \
    BENCH_SETTING(struct options, kind, option, member, text, ##__VA_ARGS__)

/* The settings that every verb has; `options_type` is its options structure, whose first member is `common`. */
#define BENCH_COMMON_SETTINGS(options_type, duration, repeats_count)                                         \
    BENCH_SETTING(options_type, DURATION, "duration", common.duration_ns, "Length of one measurement.",      \
                  .min = BASE_NS_PER_MS, .max = 3600 * BASE_NS_PER_SECOND, .default_text = duration),        \
        BENCH_SETTING(options_type, UINT, "repeats", common.repeats,                                         \
                      "How often everything is measured, in turn with what it is compared to.", .min = 1,    \
                      .max = BENCH_REPEATS_MAX, .default_text = repeats_count),                              \
        BENCH_OUTPUT_SETTINGS(options_type, "0")

/* Those of verbs whose measurements have no length: what is printed and how, and chance. */
#define BENCH_OUTPUT_SETTINGS(options_type, seed_text)                                                       \
    BENCH_SETTING(options_type, BOOL, "json", common.json,                                                   \
                  "Print one JSON object a line instead of tables."),                                        \
        BENCH_SETTING(options_type, UINT, "seed", common.seed,                                               \
                      "Of the random numbers; 0 takes one from the kernel. Results tell which it was.",      \
                      .default_text = seed_text),                                                            \
        BENCH_SETTING(options_type, BOOL, "man", common.man, "Print the options as a man page has them.",    \
                      .flags = BASE_SETTING_COMMAND_ONLY | BASE_SETTING_HIDDEN),                             \
        BENCH_SETTING(options_type, BOOL, "help", common.help, "Print this and exit.", .letter = 'h',        \
                      .flags = BASE_SETTING_COMMAND_ONLY)

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

/**
 * Check that every word of a list is a number.
 *
 * @param min, max, multiple  as in struct bench_list
 * @return 0; -EINVAL: said in bench->err
 */
base_must_check int bench_check_numbers(struct bench *bench, const char *setting,
                                        const struct base_setting_list *list, uint64_t min, uint64_t max,
                                        uint64_t multiple);

/** The value of an item of a list of numbers, which was checked. */
uint32_t bench_number(const char *text);

#define BENCH_DEPTH_MAX  1024 /* requests in flight at once */
#define BENCH_WORD_BYTES 8    /* what an operation moves is a multiple of it */

#endif
