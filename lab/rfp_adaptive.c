/*
 * Fetch, reply and adaptive beside each other, and the figures of `tarn-lab rfp` that the paper does not have: by service
 * time and size, after changes of load, and with many connections that are idle.
 */
#include "lab/rfp_adaptive.h"

#include "base/json.h"
#include "task/task.h"
#include <inttypes.h>

enum {
    MACHINES = 7, /* RFP §V-A */
    LEAST_NS = 2000000,
    CALLS = 2000,       /* to be measured at least, if a worker did nothing else */
    LEAD_NS = 10000000, /* in which adaptive chooses */
    GOOD_PERMILLE = 950,
    IDLE_BYTES = 32,
    IDLE_LEAD_NS = 5000000, /* in which the idle ones lose their places: a pass of the clock or two */
    CLIENTS = 35,
    ACTIVE = 16,
    CONNECTIONS = 4096,
    CHANGE_NS = 32000000,
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

/* ---- figures ------------------------------------------------------------------------------------ */

static const uint32_t workers[] = {4, 16};

static void begin_line(struct base_json *json, const struct lab_figures *report, const char *series,
                       const char *axis, uint64_t x, const struct lab_adaptive_place *place)
{
    lab_figures_begin(json, report, series, axis, x);
    base_json_u64(json, "seed", place->seed);
    base_json_u64(json, "workers", place->workers);
    base_json_u64(json, "clients", place->clients);
}

static void print_json(struct base_json *json, const struct lab_adaptive_rates *rates)
{
    static const char *const names[LAB_ADAPTIVE_WAYS] = {"adaptive", "fetch", "reply"};
    for (int way = 0; way < LAB_ADAPTIVE_WAYS; way++) {
        base_json_object_begin(json, names[way]);
        base_json_u64(json, "kops", rates->kops[way]);
        base_json_double(json, "vain_reads", (double)rates->vain[way] / 1000);
        base_json_u64(json, "fetch_bytes", rates->fetch_bytes[way]);
        base_json_object_end(json);
    }
    base_json_double(json, "replied_share", (double)rates->replied_permille / 1000);
    base_json_u64(json, "kops", rates->kops[TARN_RPC_ADAPTIVE]);
    base_json_double(json, "share", (double)lab_adaptive_permille(rates) / 1000);
}

static void print_text(const struct lab_figures *report, const struct lab_adaptive_rates *rates)
{
    (void)fprintf(report->out, "fetch %7.3f  reply %7.3f  adaptive %7.3f M/s  %5.1f %%",
                  (double)rates->kops[TARN_RPC_FETCH] / 1000, (double)rates->kops[TARN_RPC_REPLY] / 1000,
                  (double)rates->kops[TARN_RPC_ADAPTIVE] / 1000, (double)lab_adaptive_permille(rates) / 10);
}

static struct lab_adaptive_place place_of(const struct lab_figures *report, size_t workers_index,
                                          uint32_t clients)
{
    return (struct lab_adaptive_place){
        .workers = workers[workers_index], .clients = clients, .seed = report->seed};
}

/* ---- by service time and size ------------------------------------------------------------------- */

static void draw_cell(struct lab_figures *report, const struct lab_adaptive_place *place, uint64_t server_ns,
                      uint32_t result_bytes)
{
    struct lab_adaptive_rates rates;
    struct base_json line;
    char series[32], axis[32];
    int error = lab_adaptive_measure(place, server_ns, result_bytes, &rates);
    lab_figures_note(report, error);
    if (error != 0)
        return;
    if (!report->json) {
        (void)fprintf(report->out, "  %2" PRIu32 " workers %6" PRIu32 " bytes %3" PRIu64 " us  ",
                      place->workers, result_bytes, server_ns / 1000);
        print_text(report, &rates);
        (void)fputc('\n', report->out);
        return;
    }
    (void)snprintf(series, sizeof(series), "%" PRIu32 " bytes", result_bytes);
    (void)snprintf(axis, sizeof(axis), "us, %" PRIu32 " workers", place->workers);
    begin_line(&line, report, series, axis, server_ns / 1000, place);
    print_json(&line, &rates);
    lab_figures_end(&line, report);
}

void lab_rfp_draw_adaptive(struct lab_figures *report)
{
    static const uint64_t times_us[] = {0, 1, 2, 5, 7, 10, 20, 50};
    static const uint32_t sizes[] = {32, 1024, 8192, 65536};
    for (size_t w = 0; w < base_array_count(workers); w++) {
        const struct lab_adaptive_place place = place_of(report, w, CLIENTS);
        const size_t count = w == 0 ? base_array_count(sizes) : 1;
        for (size_t i = 0; i < count; i++) {
            for (size_t k = 0; k < base_array_count(times_us) && report->error == 0; k++)
                draw_cell(report, &place, times_us[k] * 1000, sizes[i]);
        }
    }
}

/* ---- changes ------------------------------------------------------------------------------------ */

static void draw_change(struct lab_figures *report, const struct lab_rfp_phase *before,
                        const struct lab_rfp_phase *after)
{
    const struct lab_adaptive_place place = place_of(report, 0, CLIENTS);
    struct lab_adaptive_rates rates;
    struct base_json line;
    char series[80];
    int error = lab_adaptive_change(&place, before, after, &rates);
    lab_figures_note(report, error);
    if (error != 0)
        return;
    (void)snprintf(
        series, sizeof(series), "%" PRIu64 " us, %" PRIu32 " bytes to %" PRIu64 " us, %" PRIu32 " bytes",
        before->server_ns / 1000, before->result_bytes, after->server_ns / 1000, after->result_bytes);
    if (!report->json) {
        (void)fprintf(report->out, "  %2" PRIu32 " workers  %-36s ", place.workers, series);
        print_text(report, &rates);
        if (rates.settled_ns == TASK_FOREVER)
            (void)fprintf(report->out, "  never settled\n");
        else
            (void)fprintf(report->out, "  settled after %4.1f ms\n", (double)rates.settled_ns / 1e6);
        return;
    }
    begin_line(&line, report, series, "workers", place.workers, &place);
    print_json(&line, &rates);
    if (rates.settled_ns != TASK_FOREVER)
        base_json_u64(&line, "settled_ns", rates.settled_ns);
    lab_figures_end(&line, report);
}

void lab_rfp_draw_change(struct lab_figures *report)
{
    static const struct lab_rfp_phase changes[][2] = {{{0, 1000, 32}, {CHANGE_NS, 50000, 32}},
                                                      {{0, 50000, 32}, {CHANGE_NS, 1000, 32}},
                                                      {{0, 1000, 32}, {CHANGE_NS, 1000, 4096}},
                                                      {{0, 1000, 65536}, {CHANGE_NS, 1000, 32}},
                                                      {{0, 1000, 32}, {CHANGE_NS, 50000, 65536}}};
    for (size_t i = 0; i < base_array_count(changes) && report->error == 0; i++)
        draw_change(report, &changes[i][0], &changes[i][1]);
}

/* ---- idle connections --------------------------------------------------------------------------- */

/* @param alone_kops  what the clients came to alone; 0: this is that @return what they came to now */
static uint64_t draw_connected(struct lab_figures *report, const struct lab_adaptive_place *place,
                               uint32_t idle, uint64_t alone_kops)
{
    struct lab_rfp_result result;
    struct base_json line;
    int error = lab_adaptive_idle(place, TARN_RPC_FETCH, idle, &result);
    lab_figures_note(report, error);
    if (error != 0)
        return 0;
    double share = alone_kops == 0 ? 1 : (double)result.kops / (double)alone_kops;
    if (!report->json) {
        (void)fprintf(
            report->out,
            "  %2" PRIu32 " workers %5" PRIu64 " connected, %4" PRIu64 " watched  %6.3f M/s  %5.1f %%\n",
            place->workers, result.connections, result.watched, (double)result.kops / 1000, 100 * share);
        return result.kops;
    }
    begin_line(&line, report, "fetch", "connected", result.connections, place);
    base_json_u64(&line, "watched", result.watched);
    base_json_u64(&line, "kops", result.kops);
    base_json_double(&line, "share", share);
    lab_figures_end(&line, report);
    return result.kops;
}

void lab_rfp_draw_idle(struct lab_figures *report)
{
    for (size_t w = 0; w < base_array_count(workers) && report->error == 0; w++) {
        const struct lab_adaptive_place place = place_of(report, w, ACTIVE);
        const uint64_t alone_kops = draw_connected(report, &place, 0, 0);
        if (report->error == 0)
            (void)draw_connected(report, &place, CONNECTIONS / ACTIVE - place.workers, alone_kops);
    }
}
