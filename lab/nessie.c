/*
 * `tarn-lab nessie`: what operations of the hash store cost, how full its index gets, and the figures of "Nessie: A Decoupled,
 * Client-Driven, Key-Value Store using RDMA", each point from a store on the simulated fabric. docs/papers/nessie.md puts
 * them beside the paper's.
 */
#include "lab/figures.h"
#include "lab/hash_costs.h"
#include "lab/verbs.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum {
    LOAD_SLOTS = 65536,
    LOAD_CLIENTS = 4,
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

static const struct lab_figure all_figures[] = {
    {"trips", "round trips, operations and bytes", count_trips},
    {"load", "moves and times of new keys by load; where the index grows", fill_indexes},
};

/* ---- the verb ----------------------------------------------------------------------------------- */

static const struct base_setting table[] = {
    BENCH_SETTING(struct lab_figures_options, STRING, "figure", figure, "Only this one: trips, load.",
                  .metavar = "NAME"),
    BENCH_OUTPUT_SETTINGS(struct lab_figures_options, "1"),
};

static int check_figure(struct bench *bench, const void *options)
{
    return lab_figures_check(bench, all_figures, base_array_count(all_figures), options);
}

static int draw_figures(struct bench *bench, const void *options)
{
    return lab_figures_draw(bench, "nessie", all_figures, base_array_count(all_figures), options);
}

const struct bench_verb lab_verb_nessie = {
    .name = "nessie",
    .summary = "What the hash store costs, and the figures of Nessie, on simulated cards, in virtual time.",
    .table = table,
    .table_count = base_array_count(table),
    .options_bytes = sizeof(struct lab_figures_options),
    .simulated = true,
    .check = check_figure,
    .run = draw_figures,
};
