/* Fetch, reply and adaptive beside each other. */
#include "lab/rfp_adaptive.h"
#include "task/task.h"

enum {
    MACHINES = 7, /* RFP §V-A */
    LEAST_NS = 2000000,
    CALLS = 2000,       /* to be measured at least, if a worker did nothing else */
    LEAD_NS = 10000000, /* in which adaptive chooses */
    GOOD_PERMILLE = 950,
    IDLE_BYTES = 32,
    IDLE_LEAD_NS =
        5000000, /* in which places are taken from those that are idle: a pass of the clock or two */
};

/* ---- rates -------------------------------------------------------------------------------------- */

static struct lab_rfp_options options_of(const struct lab_adaptive_place *place, enum tarn_rpc_way way,
                                         const struct lab_rfp_phase *phases, uint32_t count)
{
    return (struct lab_rfp_options){.card = sim_card_find("connectx3-40g"),
                                    .costs = &sim_costs_rfp,
                                    .seed = place->seed,
                                    .way = way,
                                    .workers = place->workers,
                                    .machines = base_min(place->clients, (uint32_t)MACHINES),
                                    .clients = place->clients,
                                    .phases = phases,
                                    .phase_count = count};
}

/* Of `result` into what is told of its way. */
static void add_rates(const struct lab_rfp_result *result, enum tarn_rpc_way way,
                      struct lab_adaptive_rates *rates)
{
    const struct tarn_rpc_call_stats *stats = &result->stats;
    rates->kops[way] = result->kops;
    rates->vain[way] = 1000 * (stats->unready + stats->unwhole) / base_max(stats->calls, (uint64_t)1);
    rates->fetch_bytes[way] = stats->fetch_bytes;
    if (way == TARN_RPC_ADAPTIVE)
        rates->replied_permille = 1000 * stats->replied / base_max(stats->calls, (uint64_t)1);
}

static uint64_t better(const struct lab_adaptive_rates *rates)
{
    return base_max(rates->kops[TARN_RPC_FETCH], rates->kops[TARN_RPC_REPLY]);
}

uint64_t lab_adaptive_permille(const struct lab_adaptive_rates *rates)
{
    return 1000 * rates->kops[TARN_RPC_ADAPTIVE] / base_max(better(rates), (uint64_t)1);
}

/* ---- one load ----------------------------------------------------------------------------------- */

/* What a call takes of what is shared by all: the time of a worker, or the link. */
static uint64_t share_ns(const struct lab_rfp_options *options)
{
    const struct lab_rfp_phase *phase = &options->phases[0];
    const uint64_t link_ns = phase->result_bytes * UINT64_C(8000) / options->card->link_mbps;
    return base_max(base_max(phase->server_ns / options->workers, link_ns), UINT64_C(500));
}

int lab_adaptive_measure(const struct lab_adaptive_place *place, uint64_t server_ns, uint32_t result_bytes,
                         struct lab_adaptive_rates *ret_rates)
{
    const struct lab_rfp_phase phase = {.server_ns = server_ns, .result_bytes = result_bytes};
    struct lab_adaptive_rates rates = {0};
    struct lab_rfp_result result;
    int error = 0;
    for (int way = 0; way < LAB_ADAPTIVE_WAYS && error == 0; way++) {
        struct lab_rfp_options options = options_of(place, (enum tarn_rpc_way)way, &phase, 1);
        options.run_ns = base_max(CALLS * share_ns(&options), (uint64_t)LEAST_NS);
        options.lead_ns = way == TARN_RPC_REPLY ? options.run_ns / 4 : (uint64_t)LEAD_NS;
        error = lab_rfp_measure(&options, &result);
        if (error == 0)
            add_rates(&result, (enum tarn_rpc_way)way, &rates);
    }
    if (error == 0)
        *ret_rates = rates;
    return error;
}

/* ---- a change ----------------------------------------------------------------------------------- */

/* Calls of bins [from, to). */
static uint64_t sum(const uint64_t *bins, uint32_t from, uint32_t to)
{
    uint64_t calls = 0;
    for (uint32_t i = from; i < to; i++)
        calls += bins[i];
    return calls;
}

/*
 * The first bin from which on what is left has enough, as long as that is half of the time: the fewer calls there are the
 * more their number varies. @return LAB_RFP_BINS: none
 */
static uint32_t find_settled(const uint64_t *bins, const uint64_t *better_bins)
{
    uint32_t settled = LAB_RFP_BINS;
    for (uint32_t i = LAB_RFP_BINS / 2 + 1; i-- > 0;) {
        if (sum(bins, i, LAB_RFP_BINS) * 1000 < sum(better_bins, i, LAB_RFP_BINS) * GOOD_PERMILLE)
            break;
        settled = i;
    }
    return settled;
}

int lab_adaptive_change(const struct lab_adaptive_place *place, const struct lab_rfp_phase *before,
                        const struct lab_rfp_phase *after, struct lab_adaptive_rates *ret_rates)
{
    const struct lab_rfp_phase phases[2] = {*before, *after}; /* the first one ends when the run begins */
    struct lab_adaptive_rates rates = {.settled_ns = TASK_FOREVER};
    struct lab_rfp_result result = {0};
    uint64_t best[LAB_RFP_BINS] = {0}; /* the better way's */
    int error = 0;
    for (int way = LAB_ADAPTIVE_WAYS; way-- > 0 && error == 0;) { /* adaptive last */
        struct lab_rfp_options options = options_of(place, (enum tarn_rpc_way)way, phases, 2);
        options.run_ns = after->for_ns;
        options.lead_ns = LEAD_NS;
        error = lab_rfp_measure(&options, &result);
        if (error != 0)
            break;
        add_rates(&result, (enum tarn_rpc_way)way, &rates);
        if (way != TARN_RPC_ADAPTIVE && sum(result.bins, 0, LAB_RFP_BINS) > sum(best, 0, LAB_RFP_BINS))
            memcpy(best, result.bins, sizeof(best));
    }
    if (error != 0)
        return error;
    const uint32_t settled = find_settled(result.bins, best);
    if (settled < LAB_RFP_BINS)
        rates.settled_ns = settled * after->for_ns / LAB_RFP_BINS;
    *ret_rates = rates;
    return 0;
}

/* ---- many connections --------------------------------------------------------------------------- */

int lab_adaptive_idle(const struct lab_adaptive_place *place, enum tarn_rpc_way way, uint32_t idle,
                      struct lab_rfp_result *ret_result)
{
    const struct lab_rfp_phase phase = {.server_ns = sim_costs_rfp.server_ns, .result_bytes = IDLE_BYTES};
    struct lab_rfp_options options = options_of(place, way, &phase, 1);
    options.idle = idle;
    options.lead_ns = IDLE_LEAD_NS;
    options.run_ns = LEAST_NS;
    return lab_rfp_measure(&options, ret_result);
}
