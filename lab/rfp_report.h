/* What the figures of `tarn-lab rfp` are written with, and those that the paper does not have. Threading: as rfp_run.h. */
#ifndef LAB_RFP_REPORT_H
#define LAB_RFP_REPORT_H

#include "base/base.h"
#include <stdio.h>

/* Figures under way. */
struct lab_rfp_report {
    FILE *out;
    uint64_t seed;
    bool json;
    int error;          /* the first */
    const char *figure; /* that is being drawn */
};

/** Keep the first error. */
void lab_rfp_note(struct lab_rfp_report *report, int error);

/** Begin a line of JSON with what all points have. */
void lab_rfp_begin(struct base_json *json, const struct lab_rfp_report *report, const char *series,
                   const char *axis, uint64_t x);

/** End it. */
void lab_rfp_end(struct base_json *json, struct lab_rfp_report *report);

/** Fetch, reply and adaptive by service time and size. */
void lab_rfp_draw_adaptive(struct lab_rfp_report *report);

/** The same after changes of load. */
void lab_rfp_draw_change(struct lab_rfp_report *report);

/** Few clients among many connections. */
void lab_rfp_draw_idle(struct lab_rfp_report *report);

#endif
