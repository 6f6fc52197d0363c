/*
 * `tarn-lab nessie`: what operations of the hash store cost, how full its index gets, and the figures of "Nessie: A Decoupled,
 * Client-Driven, Key-Value Store using RDMA", each point from a store on the simulated fabric. docs/papers/nessie.md puts
 * them beside the paper's.
 */
#include "lab/figures.h"
#include "lab/hash_costs.h"
#include "lab/nessie_run.h"
#include "lab/rfp_run.h"
#include "lab/speed_run.h"
#include "lab/verbs.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum {
    LOAD_SLOTS = 65536,
    LOAD_CLIENTS = 4,
    MACHINES = 10, /* Nessie §6 */
    CORES = 12,
    WORKERS = 3, /* of NessieSD, and clients beside them */
    CLIENTS_BESIDE = 9,
    SLOTS = 1 << 18,
    KEYS = 40000,       /* 15 % of the slots; the paper: 20 % */
    FEWER_KEYS = 15000, /* words that have 11 filter bits have room for addresses of 128 MiB */
    TURN_NS = 100000,
    SMALL_CORES = 6, /* §3.2 */
    SMALL_RUN_NS = 2000000,
};

/* ---- round trips -------------------------------------------------------------------------------- */

static double mean(uint64_t sum, const struct lab_hash_cost *cost)
{
    return (double)sum / (double)cost->count;
}

static void print_cost(struct lab_figures *figures, const struct lab_hash_costs_options *options,
                       enum lab_hash_kind kind, const struct lab_hash_cost *cost)
{
    if (!figures->json) {
        (void)fprintf(figures->out, "    %-14s %6.2f %8.2f %8.2f %6.2f %8.0f   of %" PRIu64 "\n",
                      lab_hash_kind_name(kind), mean(cost->trips, cost), mean(cost->reads, cost),
                      mean(cost->writes, cost), mean(cost->swaps, cost), mean(cost->bytes, cost),
                      cost->count);
        return;
    }
    struct base_json json;
    char axis[32];
    (void)snprintf(axis, sizeof(axis), "percent, %" PRIu32 " slots, %" PRIu32 " bits", options->ranks,
                   options->filter_bits);
    lab_figures_begin(&json, figures, lab_hash_kind_name(kind), axis, options->load_percent);
    base_json_u64(&json, "count", cost->count);
    base_json_double(&json, "trips", mean(cost->trips, cost));
    base_json_double(&json, "reads", mean(cost->reads, cost));
    base_json_double(&json, "writes", mean(cost->writes, cost));
    base_json_double(&json, "swaps", mean(cost->swaps, cost));
    base_json_double(&json, "bytes", mean(cost->bytes, cost));
    lab_figures_end(&json, figures);
}

static void count_trips_of(struct lab_figures *figures, const struct lab_hash_costs_options *options)
{
    struct lab_hash_costs costs;
    int error = lab_hash_costs_measure(options, &costs);
    lab_figures_note(figures, error);
    if (error != 0)
        return;
    if (!figures->json)
        (void)fprintf(figures->out,
                      "  N = %" PRIu32 ", %" PRIu32 " filter bits, %" PRIu32
                      " %% full%s\n                    trips    READs   WRITEs   CASs    bytes\n",
                      options->ranks, options->filter_bits, options->load_percent,
                      costs.has_grown ? ": it grows before" : "");
    for (uint32_t kind = 0; kind < LAB_HASH_KINDS && !costs.has_grown; kind++) {
        if (costs.kinds[kind].count > 0)
            print_cost(figures, options, kind, &costs.kinds[kind]);
    }
}

static void count_trips(struct lab_figures *figures)
{
    static const uint32_t ranks[] = {2, 3, 4, 8}, filter_bits[] = {0, 4, 11}, loads[] = {10, 50, 90};
    for (size_t r = 0; r < base_array_count(ranks); r++) {
        for (size_t f = 0; f < base_array_count(filter_bits); f++) {
            for (size_t l = 0; l < base_array_count(loads) && figures->error == 0; l++)
                count_trips_of(figures, &(struct lab_hash_costs_options){.seed = figures->seed,
                                                                         .ranks = ranks[r],
                                                                         .filter_bits = filter_bits[f],
                                                                         .load_percent = loads[l]});
        }
    }
}

/* ---- load --------------------------------------------------------------------------------------- */

static void print_bin(struct lab_figures *figures, const char *series, uint64_t percent,
                      const struct lab_hash_bin *bin)
{
    const double moves = (double)bin->moves / (double)bin->puts;
    if (!figures->json) {
        (void)fprintf(figures->out, "  %s %3" PRIu64 " %% %8.4f %10.2f %10.2f %10.2f %10.2f\n", series,
                      percent, moves, (double)bin->p50_ns / 1e3, (double)bin->p99_ns / 1e3,
                      (double)bin->p999_ns / 1e3, (double)bin->max_ns / 1e3);
        return;
    }
    struct base_json json;
    lab_figures_begin(&json, figures, series, "percent of slots taken", percent);
    base_json_string(&json, "unit", "moves a new key");
    base_json_double(&json, "y", moves);
    base_json_u64(&json, "puts", bin->puts);
    lab_figures_end(&json, figures);
    lab_figures_begin(&json, figures, series, "percent of slots taken (PUT, 99.9th percentile)", percent);
    base_json_string(&json, "unit", "us");
    base_json_double(&json, "y", (double)bin->p999_ns / 1e3);
    base_json_double(&json, "p50_us", (double)bin->p50_ns / 1e3);
    base_json_double(&json, "p99_us", (double)bin->p99_ns / 1e3);
    base_json_double(&json, "max_us", (double)bin->max_ns / 1e3);
    lab_figures_end(&json, figures);
}

static void print_end(struct lab_figures *figures, const char *series, uint64_t slots,
                      const struct lab_hash_load *load)
{
    const double percent = 100 * (double)load->stored / (double)slots;
    if (!figures->json) {
        (void)fprintf(figures->out,
                      "  %s, %" PRIu64 " slots: grows at %.2f %%; %" PRIu64
                      " puts meanwhile, p99.9 %.1f us, the longest %.1f us\n",
                      series, slots, percent, load->growing_puts, (double)load->growing_p999_ns / 1e3,
                      (double)load->growing_ns / 1e3);
        return;
    }
    struct base_json json;
    lab_figures_begin(&json, figures, series, "growth", slots);
    base_json_double(&json, "percent", percent);
    base_json_u64(&json, "growing_puts", load->growing_puts);
    base_json_u64(&json, "growing_p99.9_ns", load->growing_p999_ns);
    base_json_u64(&json, "growing_max_ns", load->growing_ns);
    lab_figures_end(&json, figures);
}

static void fill_index(struct lab_figures *figures, uint32_t ranks, uint64_t slots)
{
    struct lab_hash_load load;
    char series[16];
    const struct lab_hash_load_options options = {.card = sim_card_find("roce-10g"),
                                                  .seed = figures->seed,
                                                  .slots = slots,
                                                  .ranks = ranks,
                                                  .filter_bits = 4,
                                                  .clients = LOAD_CLIENTS};
    int error = lab_hash_load_measure(&options, &load);
    lab_figures_note(figures, error);
    if (error != 0)
        return;
    (void)snprintf(series, sizeof(series), "N = %" PRIu32, ranks);
    for (uint32_t i = 0; i < LAB_HASH_BINS && slots == LOAD_SLOTS; i++) {
        if (load.bins[i].puts > 0)
            print_bin(figures, series, UINT64_C(100) * (i + 1) / LAB_HASH_BINS, &load.bins[i]);
    }
    print_end(figures, series, slots, &load);
}

static void fill_indexes(struct lab_figures *figures)
{
    static const uint32_t ranks[] = {2, 3, 4, 8};
    if (!figures->json)
        (void)fputs("   load         moves   p50, us        p99      p99.9        max\n", figures->out);
    for (size_t i = 0; i < base_array_count(ranks) && figures->error == 0; i++)
        fill_index(figures, ranks[i], LOAD_SLOTS);
    fill_index(figures, 3, 4 * (uint64_t)LOAD_SLOTS); /* in four segments */
}

/* ---- one machine that serves -------------------------------------------------------------------- */

static void print_value(struct lab_figures *figures, const char *series, const char *axis, uint64_t x,
                        double y, const struct lab_nessie_result *result)
{
    if (!figures->json) {
        (void)fprintf(figures->out, "  %-36s %-28s %6" PRIu64 " %8.3f M/s", series, axis, x, y);
        if (result != NULL)
            (void)fprintf(figures->out,
                          "  p50 %.1f us  p99 %.1f us  %.2f operations, %.0f bytes, %.3f cached",
                          (double)result->p50_ns / 1e3, (double)result->p99_ns / 1e3,
                          (double)result->posted / (double)result->operations,
                          (double)result->bytes / (double)result->operations,
                          (double)result->cached / (double)result->operations);
        (void)fputc('\n', figures->out);
        return;
    }
    struct base_json json;
    lab_figures_begin(&json, figures, series, axis, x);
    base_json_string(&json, "unit", "M/s");
    base_json_double(&json, "y", y);
    base_json_u64(&json, "seed", figures->seed);
    if (result != NULL) {
        base_json_u64(&json, "operations", result->operations);
        base_json_u64(&json, "p50_ns", result->p50_ns);
        base_json_u64(&json, "p99_ns", result->p99_ns);
        base_json_u64(&json, "posted", result->posted);
        base_json_u64(&json, "bytes", result->bytes);
        base_json_u64(&json, "cached", result->cached);
        base_json_u64(&json, "repeated", result->repeated);
    }
    lab_figures_end(&json, figures);
}

/* One client machine with as many threads as cores READs from one server machine. */
static void measure_reads(struct lab_figures *figures, const struct sim_card *card, const char *series,
                          const char *axis, uint64_t x, uint64_t bytes)
{
    const struct lab_speed_options options = {.card = card,
                                              .seed = figures->seed,
                                              .clients = 1,
                                              .threads = CORES,
                                              .depth = 1,
                                              .bytes = bytes,
                                              .run_ns = SMALL_RUN_NS};
    struct lab_speed_result result;
    int error = figures->error == 0 ? lab_speed_measure(&options, &result) : figures->error;
    lab_figures_note(figures, error);
    if (error == 0)
        print_value(figures, series, axis, x, (double)result.kops / 1e3, NULL);
}

/* The same client machine has its threads ask workers, which WRITE what they answer. */
static void measure_answers(struct lab_figures *figures, const struct sim_card *card, const char *series,
                            const char *axis, uint64_t x, uint32_t workers, uint32_t others, uint32_t bytes)
{
    const struct lab_rfp_phase phase = {
        .for_ns = SMALL_RUN_NS, .server_ns = sim_costs_rfp.server_ns, .result_bytes = bytes};
    const struct lab_rfp_options options = {
        .card = card,
        .costs = &sim_costs_rfp,
        .seed = figures->seed,
        .way = TARN_RPC_REPLY,
        .workers = workers,
        .machines = 1,
        .clients = CORES,
        .run_ns = SMALL_RUN_NS,
        .phases = &phase,
        .phase_count = 1,
        .share = {.count = workers, .cores = SMALL_CORES, .others = others, .turn_ns = TURN_NS}};
    struct base_account account;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    struct lab_rfp_result *result = base_alloc(&account, sizeof(*result));
    int error = result == NULL ? -ENOMEM : figures->error;
    if (error == 0)
        error = lab_rfp_measure(&options, result);
    lab_figures_note(figures, error);
    if (error == 0)
        print_value(figures, series, axis, x, (double)result->kops / 1e3, NULL);
    base_free(&account, result, sizeof(*result));
    base_account_deinit(&account);
}

/* The paper's card by RFP's rates, and one that issues as many operations as it serves. */
static struct sim_card card_of(bool is_even)
{
    struct sim_card card = *sim_card_find("roce-10g");
    card.out_kops = is_even ? card.in_kops : card.out_kops;
    return card;
}

static void draw_sizes(struct lab_figures *figures)
{
    static const uint32_t sizes[] = {8, 32, 128, 512, 1024, 2048, 4096};
    for (unsigned even = 0; even < 2; even++) {
        const struct sim_card card = card_of(even != 0);
        for (size_t i = 0; i < base_array_count(sizes); i++) {
            measure_reads(figures, &card, even != 0 ? "READ, even card" : "READ", "bytes", sizes[i],
                          sizes[i]);
            measure_answers(figures, &card, even != 0 ? "WR/WR, even card" : "WR/WR", "bytes", sizes[i], 1, 0,
                            sizes[i]);
        }
    }
}

static void draw_contention(struct lab_figures *figures)
{
    static const uint32_t workers[] = {1, 3, 6};
    const struct sim_card card = card_of(false);
    for (uint32_t others = 0; others <= SMALL_CORES; others++)
        measure_reads(figures, &card, "CD", "CPU workers", others, 8);
    for (size_t i = 0; i < base_array_count(workers); i++) {
        char series[8];
        (void)snprintf(series, sizeof(series), "%" PRIu32, workers[i]);
        for (uint32_t others = 0; others <= SMALL_CORES; others++)
            measure_answers(figures, &card, series, "CPU workers", others, workers[i], others, 8);
    }
}

/* ---- ten machines ------------------------------------------------------------------------------- */

static struct lab_nessie_options usual_store(const struct lab_figures *figures, const struct sim_card *card,
                                             bool is_served)
{
    return (struct lab_nessie_options){.card = card,
                                       .seed = figures->seed,
                                       .machines = MACHINES,
                                       .workers = is_served ? WORKERS : 0,
                                       .clients = is_served ? CLIENTS_BESIDE : CORES,
                                       .ranks = 3,
                                       .filter_bits = 7,
                                       .slots = SLOTS,
                                       .keys = KEYS,
                                       .owns_bulk = true,
                                       .turn_ns = TURN_NS};
}

static struct lab_nessie_point usual_point(uint32_t get_permille)
{
    return (struct lab_nessie_point){
        .get_permille = get_permille, .cores = CORES, .lead_ns = 200000, .run_ns = 800000};
}

/* Measure a world's points. @param xs  of each point's mark on the axis */
static void measure_store(struct lab_figures *figures, const struct lab_nessie_options *options,
                          const struct lab_nessie_point *points, uint32_t count, const char *series,
                          const char *axis, const uint64_t *xs)
{
    struct lab_nessie_result results[LAB_NESSIE_POINTS_MAX];
    int error = figures->error == 0 ? lab_nessie_measure(options, points, count, results) : figures->error;
    lab_figures_note(figures, error);
    for (uint32_t i = 0; i < count && error == 0; i++)
        print_value(figures, series, axis, xs[i], (double)results[i].kops / 1e3, &results[i]);
}

/* The ways of the paper's Figure 7. */
enum competing { COMPETING_NESSIE, COMPETING_PINNED, COMPETING_UNPINNED, COMPETING_WAYS };

static void measure_competing(struct lab_figures *figures, const struct sim_card *card, enum competing way,
                              const char *series)
{
    static const uint64_t others[] = {0, 1, 4, 12};
    const struct lab_nessie_options options = usual_store(figures, card, way != COMPETING_NESSIE);
    struct lab_nessie_point points[base_array_count(others)];
    for (size_t i = 0; i < base_array_count(others); i++) {
        points[i] = usual_point(900);
        points[i].others = (uint32_t)others[i];
        points[i].are_reserved = way == COMPETING_PINNED;
        points[i].run_ns = 16 * (uint64_t)TURN_NS;
    }
    measure_store(figures, &options, points, base_array_count(others), series, "CPU workers", others);
}

static void draw_competing(struct lab_figures *figures)
{
    static const char *const series[] = {"Nessie", "NessieSD, pinned", "NessieSD, unpinned"};
    const struct sim_card card = card_of(false);
    for (enum competing way = 0; way < COMPETING_WAYS; way++)
        measure_competing(figures, &card, way, series[way]);
}

static void draw_computing(struct lab_figures *figures)
{
    static const uint64_t us[] = {0, 5, 10, 20, 40, 80};
    const struct sim_card card = card_of(false);
    for (unsigned served = 0; served < 2; served++) {
        const struct lab_nessie_options options = usual_store(figures, &card, served != 0);
        struct lab_nessie_point points[base_array_count(us)];
        for (size_t i = 0; i < base_array_count(us); i++) {
            points[i] = usual_point(900);
            points[i].work_ns = us[i] * 1000;
            points[i].are_reserved = served != 0;
            points[i].run_ns = base_max(points[i].run_ns, us[i] * 40000);
        }
        measure_store(figures, &options, points, base_array_count(us), served != 0 ? "NessieSD" : "Nessie",
                      "us of work an operation", us);
    }
}

/* Points by the share of GETs. */
static void measure_gets(struct lab_figures *figures, const struct lab_nessie_options *options,
                         const uint64_t *permilles, uint32_t count, const char *series)
{
    struct lab_nessie_point points[LAB_NESSIE_POINTS_MAX];
    for (uint32_t i = 0; i < count; i++)
        points[i] = usual_point((uint32_t)permilles[i]);
    measure_store(figures, options, points, count, series, "GETs of 1,000", permilles);
}

static void draw_locality(struct lab_figures *figures)
{
    static const uint64_t permilles[] = {500, 900, 1000};
    char series[48];
    for (unsigned way = 0; way < 3; way++) { /* by the card; past it; past an even one */
        const struct sim_card card = card_of(way == 2);
        for (uint32_t percent = 0; percent <= 80; percent += way == 0 ? 80 : 40) {
            struct lab_nessie_options options = usual_store(figures, &card, false);
            options.locality_percent = percent;
            options.owns_bulk = way > 0;
            (void)snprintf(series, sizeof(series), "%" PRIu32 " %%%s", percent,
                           way == 0   ? ", by the card"
                           : way == 2 ? ", even card"
                                      : "");
            measure_gets(figures, &options, permilles, base_array_count(permilles), series);
        }
    }
}

static void measure_filter(struct lab_figures *figures, const struct sim_card *card, uint32_t bits,
                           uint64_t keys, uint32_t locality_percent, const char *name)
{
    const struct lab_nessie_point point = usual_point(900);
    struct lab_nessie_options options = usual_store(figures, card, false);
    char series[48];
    options.filter_bits = bits;
    options.keys = keys;
    options.locality_percent = locality_percent;
    (void)snprintf(series, sizeof(series), "%s%s", name, keys == KEYS ? "" : ", fewer keys");
    measure_store(figures, &options, &point, 1, series, "filter bits, 90 % GETs", (uint64_t[]){bits});
}

static void draw_filter(struct lab_figures *figures)
{
    static const struct {
        uint32_t bits;
        uint64_t keys;
    } stores[] = {{0, KEYS}, {7, KEYS}, {7, FEWER_KEYS}, {11, FEWER_KEYS}};
    const struct sim_card card = card_of(false), even = card_of(true);
    for (size_t i = 0; i < base_array_count(stores); i++) {
        measure_filter(figures, &even, stores[i].bits, stores[i].keys, 0, "0 % local, even card");
        measure_filter(figures, &even, stores[i].bits, stores[i].keys, 80, "80 % local, even card");
        measure_filter(figures, &card, stores[i].bits, stores[i].keys, 0, "0 % local");
    }
}

/* The ways of the paper's Figure 11. */
enum popular { POPULAR_NESSIE, POPULAR_CACHE, POPULAR_SERVED, POPULAR_WAYS };

static void measure_zipf(struct lab_figures *figures, const struct sim_card *card, enum popular way,
                         double exponent, const char *series)
{
    static const uint64_t permilles[] = {900, 999, 1000};
    struct lab_nessie_options options = usual_store(figures, card, way == POPULAR_SERVED);
    options.zipf = exponent;
    options.cache_permille = way == POPULAR_CACHE ? 10 : 0;
    measure_gets(figures, &options, permilles, base_array_count(permilles), series);
}

static void draw_zipf(struct lab_figures *figures)
{
    static const double exponents[] = {0.9, 0.7};
    static const char *const names[] = {"Nessie", "Nessie, cache", "NessieSD"};
    const struct sim_card card = card_of(false);
    char series[32];
    for (size_t e = 0; e < base_array_count(exponents); e++) {
        for (enum popular way = 0; way < POPULAR_WAYS; way++) {
            (void)snprintf(series, sizeof(series), "%s, %.1f", names[way], exponents[e]);
            measure_zipf(figures, &card, way, exponents[e], series);
        }
    }
}

/* What is furthest from the paper, with cards that issue twice as many operations; what holds an even card. */
static void draw_sensitivity(struct lab_figures *figures)
{
    struct sim_card card = card_of(false), wide = card_of(true);
    card.out_kops *= 2;
    wide.link_mbps *= 4;
    measure_filter(figures, &wide, 7, KEYS, 0, "Figure 10, even card, four times the link");
    measure_competing(figures, &card, COMPETING_NESSIE, "Figure 7, Nessie");
    measure_competing(figures, &card, COMPETING_PINNED, "Figure 7, NessieSD, pinned");
    measure_zipf(figures, &card, POPULAR_CACHE, 0.9, "Figure 11, Nessie, cache, 0.9");
    measure_zipf(figures, &card, POPULAR_SERVED, 0.9, "Figure 11, NessieSD, 0.9");
}

static const struct lab_figure all_figures[] = {
    {"trips", "round trips, operations and bytes", count_trips},
    {"load", "moves and times of new keys by load; where the index grows", fill_indexes},
    {"1", "READs, and answers that are written, by size", draw_sizes},
    {"2", "the same with competing work on the server", draw_contention},
    {"7", "competing work on all machines", draw_competing},
    {"8", "work of the clients themselves", draw_computing},
    {"9", "local accesses", draw_locality},
    {"10", "filter bits", draw_filter},
    {"11", "popular keys, and a cache", draw_zipf},
    {"sensitivity", "twice the out-bound rate", draw_sensitivity},
};

/* ---- the verb ----------------------------------------------------------------------------------- */

LAB_FIGURES_VERB(lab_verb_nessie, "nessie",
                 "What the hash store costs, and the figures of Nessie, on simulated cards, in virtual time.",
                 "Only this one: trips, load, 1, 2, 7 to 11, or sensitivity.", all_figures);
