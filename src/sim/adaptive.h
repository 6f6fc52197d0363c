/*
 * adaptive: calls by fetch, by reply and adaptive beside each other, in the world of rfp.h: by service time and size, and
 * after a change of load.
 *
 * Threading: as rfp.h.
 */
#ifndef SIM_ADAPTIVE_H
#define SIM_ADAPTIVE_H

#include "sim/rfp.h"

enum { SIM_ADAPTIVE_WAYS = 3 };

/* Where to measure: RFP's card and machines. */
struct sim_adaptive_place {
    uint32_t workers;
    uint32_t clients;
    uint64_t seed;
};

/* What came out, by enum tarn_rpc_way. */
struct sim_adaptive_rates {
    uint64_t kops[SIM_ADAPTIVE_WAYS];
    uint64_t vain[SIM_ADAPTIVE_WAYS]; /* READs in vain for a thousand calls */
    uint32_t fetch_bytes[SIM_ADAPTIVE_WAYS];
    uint64_t replied_permille; /* of the adaptive ones */
    /* after a change: from when on what is left of the time that is looked at has 95 % of the better way's calls;
     * TASK_FOREVER: never */
    uint64_t settled_ns;
};

/** Measure one load. @return as sim_rfp_measure() */
base_must_check int sim_adaptive_measure(const struct sim_adaptive_place *place, uint64_t server_ns,
                                         uint32_t result_bytes, struct sim_adaptive_rates *ret_rates);

/** Measure a change from a load to another one, which is looked at for after->for_ns; before->for_ns is 0. Rates are
 * those after the change. @return as sim_rfp_measure() */
base_must_check int sim_adaptive_change(const struct sim_adaptive_place *place,
                                        const struct sim_rfp_phase *before, const struct sim_rfp_phase *after,
                                        struct sim_adaptive_rates *ret_rates);

/**
 * Measure small calls of clients that have so many connections more, which call once and are idle.
 *
 * @return as sim_rfp_measure()
 */
base_must_check int sim_adaptive_idle(const struct sim_adaptive_place *place, enum tarn_rpc_way way,
                                      uint32_t idle, struct sim_rfp_result *ret_result);

/** What adaptive has of the better way, in thousandths. */
uint64_t sim_adaptive_permille(const struct sim_adaptive_rates *rates);

#endif
