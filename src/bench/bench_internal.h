/* What the files of this folder share: one run of `tarn bench`, its verbs and its cases. */
#ifndef BENCH_BENCH_INTERNAL_H
#define BENCH_BENCH_INTERNAL_H

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

/* One run of a verb. */
struct bench {
    FILE *out;
    FILE *err;
    struct base_account *account;
    const char *verb;
    struct bench_options options; /* seed drawn */
    struct bench_machine machine;
};

/* A verb of `tarn bench`: bench_verbs[] in bench.c lists them. */
struct bench_verb {
    const char *name;
    const char *summary;
    const struct base_setting *table;
    size_t table_count;
    size_t options_bytes; /* of its options, which begin with struct bench_options */

    /** Look at options that depend on each other. @return 0; negative errno: wrong use, said in bench->err */
    int (*check)(struct bench *bench, const void *options);

    /** Do it. @param options  the verb's @return 0; negative errno: said in bench->err */
    int (*run)(struct bench *bench, const void *options);
};

extern const struct bench_verb bench_verb_task;
extern const struct bench_verb bench_verb_drive;
extern const struct bench_verb bench_verb_index;
extern const struct bench_verb bench_verb_depot;
extern const struct bench_verb bench_verb_memcache;
extern const struct bench_verb bench_verb_amplification;
extern const struct bench_verb bench_verb_growth;
extern const struct bench_verb bench_verb_restart;
extern const struct bench_verb bench_verb_ycsb;
extern const struct bench_verb bench_verb_fabric;
extern const struct bench_verb bench_verb_rpc;
extern const struct bench_verb bench_verb_cache;
extern const struct bench_verb bench_verb_kv;

extern const char *const bench_directs[]; /* as enum drive_direct */

/* The settings of verbs that use files and have fio beside them: members direct, spin_ns, fio. */
#define BENCH_FILE_SETTINGS(options_type)                                                                    \
    {.name = "direct",                                                                                       \
     .type = BASE_SETTING_ENUM,                                                                              \
     .choices = bench_directs,                                                                               \
     .default_text = "auto",                                                                                 \
     .help = "Whether to go past the page cache; fio does as Tarn does.",                                    \
     .offset = offsetof(options_type, direct)},                                                              \
        {.name = "spin",                                                                                     \
         .type = BASE_SETTING_DURATION,                                                                      \
         .default_text = "0",                                                                                \
         .help = "How long Tarn's scheduler looks for work before it sleeps.",                               \
         .offset = offsetof(options_type, spin_ns)},                                                         \
    {                                                                                                        \
        .name = "fio", .type = BASE_SETTING_BOOL, .default_text = "yes", .help = "Measure fio beside it.",   \
        .offset = offsetof(options_type, fio)                                                                \
    }

/* The settings that every verb has; `type` is its options structure, whose first member is `common`. */
#define BENCH_COMMON_SETTINGS(options_type, duration, repeats_count)                                         \
    {.name = "json",                                                                                         \
     .type = BASE_SETTING_BOOL,                                                                              \
     .help = "Print one JSON object a line instead of tables.",                                              \
     .offset = offsetof(options_type, common.json)},                                                         \
        {.name = "duration",                                                                                 \
         .type = BASE_SETTING_DURATION,                                                                      \
         .min = BASE_NS_PER_MS,                                                                              \
         .max = 3600 * BASE_NS_PER_SECOND,                                                                   \
         .default_text = duration,                                                                           \
         .help = "Length of one measurement.",                                                               \
         .offset = offsetof(options_type, common.duration_ns)},                                              \
        {.name = "repeats",                                                                                  \
         .type = BASE_SETTING_UINT,                                                                          \
         .min = 1,                                                                                           \
         .max = BENCH_REPEATS_MAX,                                                                           \
         .default_text = repeats_count,                                                                      \
         .help = "How often everything is measured, in turn with what it is compared to.",                   \
         .offset = offsetof(options_type, common.repeats)},                                                  \
        {.name = "seed",                                                                                     \
         .type = BASE_SETTING_UINT,                                                                          \
         .default_text = "0",                                                                                \
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
