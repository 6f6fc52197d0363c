/*
 * adaptive: calls by fetch, by reply and adaptive beside each other, in the world of rfp_run.h: by service time and size, and
 * after a change of load; and what the figures of `tarn-lab rfp` are written with.
 *
 * Threading: as rfp_run.h.
 */
#ifndef LAB_RFP_ADAPTIVE_H
#define LAB_RFP_ADAPTIVE_H

#include "lab/figures.h"
#include "lab/rfp_run.h"
#include <stdio.h>

enum { LAB_ADAPTIVE_WAYS = 3 };

/* Where to measure: RFP's card and machines. */
struct lab_adaptive_place {
    uint32_t workers;
    uint32_t clients;
    uint64_t seed;
};

/* What came out, by enum tarn_rpc_way. */
struct lab_adaptive_rates {
    uint64_t kops[LAB_ADAPTIVE_WAYS];
    uint64_t vain[LAB_ADAPTIVE_WAYS]; /* READs that found nothing, for a thousand calls */
    uint32_t fetch_bytes[LAB_ADAPTIVE_WAYS];
    uint64_t replied_permille; /* of the adaptive ones */
    /* after a change: from when on what is left of the time that is looked at has 95 % of the better way's calls;
     * TASK_FOREVER: never */
    uint64_t settled_ns;
};

/** Measure one load. @return as lab_rfp_measure() */
base_must_check int lab_adaptive_measure(const struct lab_adaptive_place *place, uint64_t server_ns,
                                         uint32_t result_bytes, struct lab_adaptive_rates *ret_rates);

/** Measure a change from a load to another one, which is looked at for after->for_ns; before->for_ns is 0. Rates are
 * those after the change. @return as lab_rfp_measure() */
base_must_check int lab_adaptive_change(const struct lab_adaptive_place *place,
                                        const struct lab_rfp_phase *before, const struct lab_rfp_phase *after,
                                        struct lab_adaptive_rates *ret_rates);

/**
 * Measure small calls of clients beside a number of further connections, which call once and are idle.
 *
 * @return as lab_rfp_measure()
 */
base_must_check int lab_adaptive_idle(const struct lab_adaptive_place *place, enum tarn_rpc_way way,
                                      uint32_t idle, struct lab_rfp_result *ret_result);

/** What adaptive has of the better way, in thousandths. */
uint64_t lab_adaptive_permille(const struct lab_adaptive_rates *rates);

/* ---- figures that the paper does not have --------------------------------------------------------- */

/** Fetch, reply and adaptive by service time and size. */
void lab_rfp_draw_adaptive(struct lab_figures *report);

/** The same after changes of load. */
void lab_rfp_draw_change(struct lab_figures *report);

/** Few clients among many connections. */
void lab_rfp_draw_idle(struct lab_figures *report);

#endif
