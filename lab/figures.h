/* figures: what the verbs that draw a paper's figures have in common: the option that chooses one, and lines of JSON. */
#ifndef LAB_FIGURES_H
#define LAB_FIGURES_H

#include "bench/bench.h"

/* Figures under way. */
struct lab_figures {
    FILE *out;
    uint64_t seed;
    bool json;
    int error;          /* the first */
    const char *paper;  /* as lines of JSON name it */
    const char *figure; /* that is being drawn */
};

struct lab_figure {
    const char *name;
    const char *title;
    void (*draw)(struct lab_figures *figures);
};

/* The options of such a verb. */
struct lab_figures_options {
    struct bench_options common;
    const char *figure; /* the only one to draw; NULL: all */
};

/** Keep the first error. */
void lab_figures_note(struct lab_figures *figures, int error);

/** Begin a line of JSON with what all points have. */
void lab_figures_begin(struct base_json *json, const struct lab_figures *figures, const char *series,
                       const char *axis, uint64_t x);

/** End it. */
void lab_figures_end(struct base_json *json, struct lab_figures *figures);

/** Check that the figure that was asked for is one of these. @param verb_options  struct lab_figures_options @return as the
 * verb's check */
int lab_figures_check(struct bench *bench, const struct lab_figure *all, size_t count,
                      const void *verb_options);

/** Draw the one that was asked for, or all. @return as the verb's run */
int lab_figures_draw(struct bench *bench, const char *paper, const struct lab_figure *all, size_t count,
                     const void *verb_options);

/* The verb of a paper, with its one option, whose figures are an array of this file. @param help  of the option */
#define LAB_FIGURES_VERB(verb, paper, about, help_text, all)                                                 \
    static const struct base_setting verb##_table[] = {                                                      \
        BENCH_SETTING(struct lab_figures_options, STRING, "figure", figure, help_text, .metavar = "NAME"),   \
        BENCH_OUTPUT_SETTINGS(struct lab_figures_options, "1"),                                              \
    };                                                                                                       \
    static int verb##_check(struct bench *bench, const void *options)                                        \
    {                                                                                                        \
        return lab_figures_check(bench, all, base_array_count(all), options);                                \
    }                                                                                                        \
    static int verb##_run(struct bench *bench, const void *options)                                          \
    {                                                                                                        \
        return lab_figures_draw(bench, paper, all, base_array_count(all), options);                          \
    }                                                                                                        \
    const struct bench_verb verb = {                                                                         \
        .name = (paper),                                                                                     \
        .summary = (about),                                                                                  \
        .table = verb##_table,                                                                               \
        .table_count = base_array_count(verb##_table),                                                       \
        .options_bytes = sizeof(struct lab_figures_options),                                                 \
        .simulated = true,                                                                                   \
        .check = verb##_check,                                                                               \
        .run = verb##_run,                                                                                   \
    }

#endif
