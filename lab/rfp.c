/*
 * `tarn-lab rfp`: the figures of "RFP: A Remote Fetching Paradigm", each point from calls on the simulated fabric,
 * or, of Figure 1 and Table I, from its cards alone. docs/papers/rfp.md puts them beside the paper's.
 */
#include "lab/rfp_adaptive.h"
#include "lab/speed_run.h"
#include "lab/verbs.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    MACHINES = 7,
    JAKIRO_WORKERS = 4, /* RFP §V-D: what each system has its best rate with */
    JAKIRO_CLIENTS = 35,
    REPLY_WORKERS = 6,
    REPLY_CLIENTS = 28,
    GET_PERCENT = 95,
    VALUE_BYTES = 32,
    FETCH_BYTES = 32,        /* RFP §V-A: 36, of which 4 are of its header */
    MIXED_FETCH_BYTES = 508, /* §V-D4: 512, the same */
    KEYS = 2000000,
    CACHE_BYTES_MAX = 1 << 30, /* fewer keys where they would take more */
    ITEM_BYTES = 2 * 80,       /* that the cache takes for a key besides twice its value */
    RUN_NS = 4000000,
    CHOOSING_RUN_NS = 16000000, /* each connection has made some windows of 64 calls before it is measured */
    SPEED_RUN_NS = 2000000,
};

/* One point of a figure. */
struct point {
    const char *series;
    const char *axis; /* what `x` is */
    uint64_t x;
    struct lab_rfp_options options;
    uint64_t paper_kops; /* that the paper's text prints; 0: none */
};

/* What it prints, in thousands a second: §V-B, D and E, and of cards §III-B and Table I. */
enum {
    PAPER_JAKIRO = 5500,
    PAPER_JAKIRO_112 = 3100,   /* clients */
    PAPER_JAKIRO_TWICE = 3740, /* a second READ: "about 32% lower" */
    PAPER_JAKIRO_KILOBYTE = 3100,
    PAPER_JAKIRO_MIXED = 5400,
    PAPER_REPLY = 2100,
    PAPER_IN_BOUND = 11260,
};

static struct lab_rfp_options jakiro(void)
{
    return (struct lab_rfp_options){.card = sim_card_find("connectx3-40g"),
                                    .costs = &sim_costs_rfp,
                                    .way = TARN_RPC_FETCH,
                                    .workers = JAKIRO_WORKERS,
                                    .machines = MACHINES,
                                    .clients = JAKIRO_CLIENTS,
                                    .value_bytes = VALUE_BYTES,
                                    .get_percent = GET_PERCENT,
                                    .fetch_bytes = FETCH_BYTES,
                                    .run_ns = RUN_NS};
}

static struct lab_rfp_options server_reply(void)
{
    struct lab_rfp_options options = jakiro();
    options.way = TARN_RPC_REPLY;
    options.workers = REPLY_WORKERS;
    options.clients = REPLY_CLIENTS;
    return options;
}

/* The two systems, as they are compared in most figures. */
static const struct system {
    const char *name;
    struct lab_rfp_options (*options)(void);
    uint64_t paper_kops; /* with those options */
} systems[] = {{"jakiro", jakiro, PAPER_JAKIRO}, {"server-reply", server_reply, PAPER_REPLY}};

/* A figure's axis along which one of the options changes. */
struct sweep {
    const char *axis;
    size_t offset;       /* of an uint32_t */
    uint32_t values[10]; /* the last is 0 */
};

static const struct sweep by_workers = {
    "server threads", offsetof(struct lab_rfp_options, workers), {1, 2, 3, 4, 6, 8, 12, 16}};
static const struct sweep by_clients = {
    "client threads", offsetof(struct lab_rfp_options, clients), {7, 14, 21, 28, 35, 49, 70, 112}};
static const struct sweep by_share = {
    "GET share", offsetof(struct lab_rfp_options, get_percent), {5, 50, GET_PERCENT}};
static const struct sweep one_share = {
    "GET share", offsetof(struct lab_rfp_options, get_percent), {GET_PERCENT}};
static const struct sweep by_value = {
    "value bytes", offsetof(struct lab_rfp_options, value_bytes), {32, 64, 128, 256, 512, 1024, 2048, 4096}};

/* ---- what is printed ---------------------------------------------------------------------------- */

static void begin_point(struct base_json *json, const struct lab_figures *report, const struct point *point)
{
    lab_figures_begin(json, report, point->series, point->axis, point->x);
    if (point->paper_kops != 0)
        base_json_u64(json, "paper_kops", point->paper_kops);
}

static double per_call(uint64_t count, uint64_t calls)
{
    return calls == 0 ? 0 : (double)count / (double)calls;
}

static uint64_t all(const struct lab_rfp_operations *operations)
{
    return operations->writes + operations->reads + operations->sends;
}

static void print_text(const struct lab_figures *report, const struct point *point, uint64_t kops,
                       double latency_ns)
{
    (void)fprintf(report->out, "  %-18s %-14s %4" PRIu64 " %7.3f M/s ", point->series, point->axis, point->x,
                  (double)kops / 1000);
    if (point->paper_kops == 0)
        (void)fprintf(report->out, "%15s", "");
    else
        (void)fprintf(report->out, "(%5.2f, %+4.0f %%)", (double)point->paper_kops / 1000,
                      100 * ((double)kops / (double)point->paper_kops - 1));
    (void)fprintf(report->out, " %6.2f us", latency_ns / 1000);
}

static void print_latency(struct base_json *json, const struct base_histogram *latency)
{
    static const double percents[] = {1,  5,  10, 15, 20, 25, 30, 35, 40, 45,   50,   55,
                                      60, 65, 70, 75, 80, 85, 90, 95, 99, 99.5, 99.9, 100};
    base_json_double(json, "latency_mean_ns", base_histogram_mean(latency));
    base_json_array_begin(json, "latency_ns");
    for (size_t i = 0; i < base_array_count(percents); i++) {
        base_json_array_begin(json, NULL);
        base_json_double(json, NULL, percents[i]);
        base_json_u64(json, NULL, base_histogram_percentile(latency, percents[i]));
        base_json_array_end(json);
    }
    base_json_array_end(json);
}

static void print_json(struct lab_figures *report, const struct point *point,
                       const struct lab_rfp_result *result)
{
    const struct lab_rfp_options *options = &point->options;
    struct base_json json;
    begin_point(&json, report, point);
    base_json_u64(&json, "seed", options->seed);
    base_json_u64(&json, "workers", options->workers);
    base_json_u64(&json, "clients", options->clients);
    base_json_u64(&json, "keys", options->keys);
    base_json_u64(&json, "value_bytes", options->value_bytes);
    base_json_u64(&json, "get_percent", options->get_percent);
    base_json_bool(&json, "skewed", options->is_skewed);
    base_json_u64(&json, "fetch_bytes", options->fetch_bytes);
    base_json_u64(&json, "fetch_bytes_came_to", result->stats.fetch_bytes);
    base_json_u64(&json, "run_ns", options->run_ns);
    base_json_u64(&json, "calls", result->calls);
    base_json_u64(&json, "kops", result->kops);
    base_json_double(&json, "hit_share", per_call(result->hits, result->gets));
    base_json_double(&json, "got_bytes_mean", per_call(result->got_bytes, result->hits));
    base_json_double(&json, "in_writes", per_call(result->in_bound.writes, result->calls));
    base_json_double(&json, "in_notified", per_call(result->in_bound.notified, result->calls));
    base_json_double(&json, "in_reads", per_call(result->in_bound.reads, result->calls));
    base_json_double(&json, "in_sends", per_call(result->in_bound.sends, result->calls));
    base_json_double(&json, "out_writes", per_call(result->out_bound.writes, result->calls));
    base_json_double(&json, "out_others",
                     per_call(result->out_bound.reads + result->out_bound.sends, result->calls));
    base_json_double(&json, "unready", per_call(result->stats.unready, result->stats.calls));
    base_json_double(&json, "rests", per_call(result->stats.rests, result->stats.calls));
    base_json_double(&json, "woken", per_call(result->stats.woken, result->stats.calls));
    base_json_u64(&json, "sleeps", result->sleeps);
    print_latency(&json, &result->latency);
    base_json_u64(&json, "hash", result->hash);
    lab_figures_end(&json, report);
}

static void measure_point(struct lab_figures *report, struct point point)
{
    struct lab_rfp_options *options = &point.options;
    struct lab_rfp_result result;
    options->seed = report->seed;
    options->keys =
        base_min((uint64_t)KEYS, (uint64_t)CACHE_BYTES_MAX / (ITEM_BYTES + 2 * options->value_bytes));
    int error = lab_rfp_measure(options, &result);
    if (error != 0) {
        lab_figures_note(report, error);
        return;
    }
    if (report->json) {
        print_json(report, &point, &result);
        return;
    }
    print_text(report, &point, result.kops, base_histogram_mean(&result.latency));
    (void)fprintf(report->out, "  in-bound %.3f  out-bound %.3f\n",
                  per_call(all(&result.in_bound), result.calls),
                  per_call(all(&result.out_bound), result.calls));
}

/* ---- figures ------------------------------------------------------------------------------------ */

static void measure_card(struct lab_figures *report, const struct point *point,
                         struct lab_speed_options options)
{
    struct lab_speed_result result;
    struct base_json json;
    options.card = sim_card_find("connectx3-40g");
    options.seed = report->seed;
    options.depth = 1;
    options.bytes = VALUE_BYTES;
    options.run_ns = SPEED_RUN_NS;
    int error = lab_speed_measure(&options, &result);
    if (error != 0) {
        lab_figures_note(report, error);
        return;
    }
    if (!report->json) {
        print_text(report, point, result.kops, (double)result.latency_ns);
        (void)fputc('\n', report->out);
        return;
    }
    begin_point(&json, report, point);
    base_json_u64(&json, "clients", options.clients);
    base_json_u64(&json, "threads", options.threads);
    base_json_u64(&json, "kops", result.kops);
    base_json_u64(&json, "latency_mean_ns", result.latency_ns);
    lab_figures_end(&json, report);
}

/* Table I: rows by threads of the server, columns by machines with clients. */
static const struct {
    uint32_t threads;
    uint64_t kops[4];
} table_1[] = {{1, {620, 610, 610, 610}},
               {2, {1120, 1130, 1120, 1120}},
               {4, {2170, 2130, 2110, 2110}},
               {8, {1460, 1460, 1510, 1500}}};

static uint64_t paper_out_bound(uint32_t threads)
{
    for (size_t i = 0; i < base_array_count(table_1); i++) {
        if (table_1[i].threads == threads)
            return table_1[i].kops[base_array_count(table_1[i].kops) - 1];
    }
    return 0;
}

/* A point of Figure 1: in-bound READs of clients' threads, or out-bound WRITEs of the server's. */
static void measure_threads(struct lab_figures *report, bool is_in_bound, uint32_t threads)
{
    const struct lab_speed_options options = {
        .out_bound = !is_in_bound, .writes = !is_in_bound, .clients = MACHINES, .threads = threads};
    const uint32_t clients = threads * MACHINES;
    struct point point = {.series = "out-bound WRITE",
                          .axis = "server threads",
                          .x = threads,
                          .paper_kops = paper_out_bound(threads)};
    if (is_in_bound)
        point = (struct point){.series = "in-bound READ",
                               .axis = "client threads",
                               .x = clients,
                               .paper_kops = clients == JAKIRO_CLIENTS ? PAPER_IN_BOUND : 0};
    measure_card(report, &point, options);
}

/* Figure 1, whose peaks are Table II, and Table I. */
static void draw_cards(struct lab_figures *report)
{
    for (unsigned in_bound = 0; in_bound < 2; in_bound++) {
        for (uint32_t threads = 1; threads <= 16; threads += threads < 8 ? 1 : 4)
            measure_threads(report, in_bound == 1, threads);
    }
    for (size_t i = 0; i < base_array_count(table_1); i++) {
        for (size_t k = 0; k < base_array_count(table_1[i].kops); k++) {
            char series[32];
            (void)snprintf(series, sizeof(series), "Table I, %" PRIu32 " thr.", table_1[i].threads);
            const uint32_t machines = 1 + 2 * (uint32_t)k;
            const struct point point = {
                .series = series, .axis = "machines", .x = machines, .paper_kops = table_1[i].kops[k]};
            measure_card(
                report, &point,
                (struct lab_speed_options){
                    .out_bound = true, .writes = true, .clients = machines, .threads = table_1[i].threads});
        }
    }
}

/* Of Jakiro, as the text says it of Figures 7 and 8. */
static uint64_t paper_of_sizes(uint32_t value_bytes, uint32_t fetch_bytes)
{
    if (value_bytes <= fetch_bytes)
        return fetch_bytes == FETCH_BYTES || fetch_bytes == 128 ? PAPER_JAKIRO : 0;
    if (value_bytes == 1024)
        return PAPER_JAKIRO_KILOBYTE;
    return value_bytes <= 512 && fetch_bytes == FETCH_BYTES ? PAPER_JAKIRO_TWICE : 0;
}

static uint64_t paper_of(const struct system *system, const struct sweep *sweep, uint32_t x, bool is_mixed)
{
    const bool is_jakiro = system == &systems[0];
    const struct lab_rfp_options usual = system->options();
    if (is_mixed)
        return is_jakiro ? PAPER_JAKIRO_MIXED : 0;
    if (sweep == &by_value)
        return is_jakiro ? paper_of_sizes(x, FETCH_BYTES) : x == VALUE_BYTES ? PAPER_REPLY : 0;
    if (sweep == &by_clients && is_jakiro && x == 112)
        return PAPER_JAKIRO_112;
    const bool is_usual =
        sweep == &by_workers ? x == usual.workers : sweep != &by_clients || x == usual.clients;
    return is_usual ? system->paper_kops : 0;
}

static void draw_sweep(struct lab_figures *report, const struct system *system, const struct sweep *sweep,
                       bool is_skewed, bool is_mixed)
{
    for (const uint32_t *x = sweep->values; *x != 0; x++) {
        struct point point = {system->name, sweep->axis, *x, system->options(),
                              paper_of(system, sweep, *x, is_mixed)};
        memcpy((uint8_t *)&point.options + sweep->offset, x, sizeof(*x));
        point.options.is_skewed = is_skewed;
        if (is_mixed) {
            point.options.value_bytes = 0;
            point.options.fetch_bytes = MIXED_FETCH_BYTES;
        }
        measure_point(report, point);
    }
}

/* Of both systems. @param is_skewed, is_mixed  keys; lengths of values */
static void draw_sweeps(struct lab_figures *report, const struct sweep *sweep, bool is_skewed, bool is_mixed)
{
    for (size_t i = 0; i < base_array_count(systems); i++)
        draw_sweep(report, &systems[i], sweep, is_skewed, is_mixed);
}

static void draw_threads(struct lab_figures *report)
{
    for (size_t i = 0; i < base_array_count(systems); i++) {
        draw_sweep(report, &systems[i], &by_workers, false, false);
        draw_sweep(report, &systems[i], &by_clients, false, false);
    }
}

static void draw_latency(struct lab_figures *report)
{
    draw_sweeps(report, &one_share, false, false);
}

static void draw_shares(struct lab_figures *report)
{
    draw_sweeps(report, &by_share, false, false);
}

static void draw_value_sizes(struct lab_figures *report)
{
    draw_sweeps(report, &by_value, false, false);
}

static void draw_skewed_shares(struct lab_figures *report)
{
    draw_sweeps(report, &by_share, true, false);
}

static void draw_mixed_shares(struct lab_figures *report)
{
    draw_sweeps(report, &by_share, false, true);
}

/* By what the first READ fetches, and last with what the caller chooses. */
static void draw_fetch_size(struct lab_figures *report)
{
    for (uint32_t bytes = 32; bytes <= 512; bytes *= 2) {
        char series[32];
        (void)snprintf(series, sizeof(series), "values of %" PRIu32, bytes);
        for (uint32_t fetch = 32; fetch <= 2048; fetch *= 2) {
            struct point point = {series, "fetch bytes", fetch, jakiro(), paper_of_sizes(bytes, fetch)};
            point.options.value_bytes = bytes;
            point.options.fetch_bytes = fetch;
            if (fetch > 128) /* the text says nothing of these */
                point.paper_kops = 0;
            measure_point(report, point);
        }
        struct point point = {series, "fetch chosen", 0, jakiro(), 0};
        point.options.value_bytes = bytes;
        point.options.fetch_bytes = 0;
        point.options.run_ns = CHOOSING_RUN_NS;
        measure_point(report, point);
    }
}

/* Each constant a fifth less and a fifth more. */
static void vary(struct lab_figures *report, const char *series, struct lab_rfp_options options)
{
    static const char *const names[] = {"in-bound", "out-bound", "link", "round trip", "processor"};
    for (size_t i = 0; i < base_array_count(names); i++) {
        for (uint64_t percent = 80; percent <= 120; percent += 40) {
            struct point point = {series, names[i], percent, options, 0};
            struct sim_card card = *options.card;
            struct sim_costs costs = *options.costs;
            uint64_t *const constants[] = {&card.in_kops, &card.out_kops, &card.link_mbps,
                                           &card.round_trip_ns, &costs.server_ns};
            *constants[i] = *constants[i] * percent / 100;
            if (constants[i] == &costs.server_ns)
                costs.client_ns = costs.client_ns * percent / 100;
            point.options.card = &card;
            point.options.costs = &costs;
            measure_point(report, point);
        }
    }
}

static void draw_sensitivity(struct lab_figures *report)
{
    struct lab_rfp_options idle = jakiro(), longer = jakiro();
    idle.clients = MACHINES; /* far from what limits it */
    longer.value_bytes = 1024;
    for (size_t i = 0; i < base_array_count(systems); i++)
        vary(report, systems[i].name, systems[i].options());
    vary(report, "jakiro, 7 clients", idle);
    vary(report, "jakiro, 1 KiB", longer);
}

static const struct lab_figure figures[] = {
    {"1", "in-bound and out-bound rates of a card, and Table I", draw_cards},
    {"4", "by server threads, and by client threads", draw_threads},
    {"5", "latency", draw_latency},
    {"6", "by GET share", draw_shares},
    {"7", "by value size", draw_value_sizes},
    {"8", "by fetch size", draw_fetch_size},
    {"9", "keys by Zipf with 0.99, by GET share", draw_skewed_shares},
    {"10", "values of mixed sizes, by GET share", draw_mixed_shares},
    {"sensitivity", "each constant 20 % lower and higher", draw_sensitivity},
    {"adaptive", "fetch, reply and adaptive, by service time and size", lab_rfp_draw_adaptive},
    {"change", "after a change of load", lab_rfp_draw_change},
    {"idle", "16 clients alone, and among 4,096 connections", lab_rfp_draw_idle},
};

/* ---- the verb ----------------------------------------------------------------------------------- */

LAB_FIGURES_VERB(
    lab_verb_rfp, "rfp", "The figures of RFP, from calls and cache on simulated cards, in virtual time.",
    "Only this one: 1, 4 to 10, or what the paper does not have: sensitivity, adaptive, change, idle.",
    figures);
