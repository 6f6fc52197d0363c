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

#endif
