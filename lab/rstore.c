/*
 * `tarn-lab rstore`: the figures of "RStore: A Direct-Access DRAM-based Data Store", each point from a space on the simulated
 * fabric. docs/papers/rstore.md puts them beside the paper's.
 */
#include "lab/figures.h"
#include "lab/rstore_run.h"
#include "lab/verbs.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    MACHINES = 12,
    SERVERS = 72,
    CLIENTS = 36,          /* of Figure 4, the most */
    CHUNK = 64 << 20,      /* RStore §IV */
    SMALL_CHUNK = 4 << 20, /* Figure 6(b) */
    CHUNKS = 512,          /* Figure 4: 32 GB a client */
    READS = 200,           /* of a reader in Figure 5 */
};

/* What the paper's text prints: §IV, IV-A, IV-B and IV-C. */
#define PAPER_RESERVE_MS       22100
#define PAPER_MAP_MS           19900
#define PAPER_RESERVE_AGAIN_MS 16.3
#define PAPER_MAP_AGAIN_MS     3.3
#define PAPER_READ_US          12
#define PAPER_CLIENT_GBPS      59.1
#define PAPER_ALL_GBPS         705

/* One point of a figure. */
struct point {
    const char *series;
    const char *axis; /* what `x` is */
    uint64_t x;
    const char *unit; /* of `y` */
    double y;
    double paper_y;                     /* that the paper's text prints; 0: none */
    const struct lab_rstore_span *span; /* that it was measured in */
};

static struct lab_rstore_options usual(const struct lab_figures *report)
{
    return (struct lab_rstore_options){.server_card = sim_card_find("iwarp-10g"),
                                       .client_card = sim_card_find("iwarp-6x10g"),
                                       .seed = report->seed,
                                       .machines = MACHINES,
                                       .servers = SERVERS,
                                       .clients = 1,
                                       .chunk_bytes = CHUNK,
                                       .chunks = SERVERS,
                                       .read_bytes = 8};
}

/* ---- what is printed ---------------------------------------------------------------------------- */

static void print_point(struct lab_figures *report, const struct lab_rstore_options *options,
                        const struct lab_rstore_result *result, const struct point *point)
{
    if (!report->json) {
        (void)fprintf(report->out, "  %-15s %-23s %8" PRIu64 " %12.6g %-7s", point->series, point->axis,
                      point->x, point->y, point->unit);
        if (point->paper_y != 0)
            (void)fprintf(report->out, " (%g, %+.0f %%)", point->paper_y,
                          100 * (point->y / point->paper_y - 1));
        (void)fprintf(report->out, "  reads %" PRIu64 "  calls %" PRIu64 "\n", point->span->reads,
                      point->span->calls);
        return;
    }
    struct base_json json;
    lab_figures_begin(&json, report, point->series, point->axis, point->x);
    base_json_string(&json, "unit", point->unit);
    base_json_double(&json, "y", point->y);
    if (point->paper_y != 0)
        base_json_double(&json, "paper_y", point->paper_y);
    base_json_u64(&json, "seed", options->seed);
    base_json_u64(&json, "servers", options->servers);
    base_json_u64(&json, "clients", options->clients);
    base_json_u64(&json, "chunk_bytes", options->chunk_bytes);
    base_json_u64(&json, "chunks", options->chunks);
    base_json_u64(&json, "made_ns", result->made_ns);
    base_json_u64(&json, "reads", point->span->reads);
    base_json_u64(&json, "calls", point->span->calls);
    base_json_u64(&json, "connections", result->connections);
    base_json_u64(&json, "hash", result->hash);
    lab_figures_end(&json, report);
}

static bool measure(struct lab_figures *report, const struct lab_rstore_options *options,
                    struct lab_rstore_result *result)
{
    int error = report->error == 0 ? lab_rstore_measure(options, result) : report->error;
    lab_figures_note(report, error);
    return error == 0;
}

/* ---- figures ------------------------------------------------------------------------------------ */

/* The series of Figures 3 and 4. */
static const struct series {
    const char *name;
    enum lab_rstore_phase phase;
    bool with_making; /* of the servers' memory */
    double paper_ms;  /* with 36 clients */
} control[] = {{"reserve", LAB_RSTORE_RESERVE, true, PAPER_RESERVE_MS},
               {"map", LAB_RSTORE_MAP, false, PAPER_MAP_MS},
               {"alloc", LAB_RSTORE_ALLOC, false, 0},
               {"reserve again", LAB_RSTORE_RESERVE_AGAIN, false, PAPER_RESERVE_AGAIN_MS},
               {"alloc again", LAB_RSTORE_ALLOC_AGAIN, false, 0},
               {"map again", LAB_RSTORE_MAP_AGAIN, false, PAPER_MAP_AGAIN_MS}};

static void measure_control(struct lab_figures *report, const struct lab_rstore_options *options,
                            const char *axis, uint64_t x)
{
    struct lab_rstore_result result;
    const bool is_printed = options->clients == CLIENTS && options->chunks == CHUNKS;
    if (!measure(report, options, &result))
        return;
    for (size_t i = 0; i < base_array_count(control); i++) {
        const struct series *series = &control[i];
        const struct lab_rstore_span *span = &result.spans[series->phase];
        const uint64_t ns = span->ns + (series->with_making ? result.made_ns : 0);
        print_point(report, options, &result,
                    &(struct point){series->name, axis, x, "ms", (double)ns / 1e6,
                                    is_printed ? series->paper_ms : 0, span});
    }
}

/* Figure 3. As in the paper, no more servers make memory than have chunks of it. */
static void draw_control_by_size(struct lab_figures *report)
{
    for (uint32_t chunks = 1; chunks <= CHUNKS; chunks *= 2) {
        struct lab_rstore_options options = usual(report);
        options.pages = &sim_pages_rstore;
        options.chunks = chunks;
        options.servers = base_min(chunks, (uint32_t)SERVERS);
        measure_control(report, &options, "MiB", (uint64_t)chunks * (CHUNK >> 20));
    }
}

/* Figure 4, and at its end what is left if registering costs nothing, as it does in the paper's chunks that are reserved again. */
static void draw_control_by_clients(struct lab_figures *report)
{
    static const uint32_t clients[] = {1, 2, 4, 8, 12, 18, 24, 30, CLIENTS};
    const struct sim_pages unregistered = {.touched_ns = sim_pages_rstore.touched_ns};
    struct lab_rstore_options free_of_cost = usual(report);
    for (size_t i = 0; i < base_array_count(clients); i++) {
        struct lab_rstore_options options = usual(report);
        options.pages = &sim_pages_rstore;
        options.chunks = CHUNKS;
        options.clients = clients[i];
        measure_control(report, &options, "clients", clients[i]);
    }
    free_of_cost.pages = &unregistered;
    free_of_cost.chunks = CHUNKS;
    free_of_cost.clients = CLIENTS;
    measure_control(report, &free_of_cost, "clients, unregistered", CLIENTS);
}

/* Reads at places that are drawn. */
static void measure_latency(struct lab_figures *report, struct lab_rstore_options options, const char *axis,
                            uint64_t x, double paper_us)
{
    struct lab_rstore_result result;
    char series[24];
    options.reads = READS;
    (void)snprintf(series, sizeof(series), "%" PRIu64 " bytes", options.read_bytes);
    if (measure(report, &options, &result))
        print_point(report, &options, &result,
                    &(struct point){series, axis, x, "us", (double)result.read_ns / 1e3, paper_us,
                                    &result.spans[LAB_RSTORE_READ]});
}

static void draw_latency(struct lab_figures *report)
{
    static const uint32_t readers[] = {1, 2, 4, 8, 12, 18, 24, 30, 36};
    static const uint32_t sizes[] = {8, 512, 4096, 65536, 1 << 20};
    struct lab_rstore_options options = usual(report);
    for (size_t s = 0; s < base_array_count(sizes); s++) {
        options.read_bytes = sizes[s];
        for (size_t i = 0; i < base_array_count(readers); i++) {
            options.clients = readers[i];
            measure_latency(report, options, "readers", readers[i],
                            sizes[s] == 8 && readers[i] == 1 ? PAPER_READ_US : 0);
        }
    }
}

/* One read of a whole region by each client. */
static void measure_bandwidth(struct lab_figures *report, struct lab_rstore_options options,
                              const char *series, const char *axis, uint64_t x, double paper_gbps)
{
    struct lab_rstore_result result;
    options.reads = 1;
    options.read_bytes = options.chunks * options.chunk_bytes;
    if (measure(report, &options, &result))
        print_point(report, &options, &result,
                    &(struct point){series, axis, x, "Gb/s", (double)result.mbps / 1e3, paper_gbps,
                                    &result.spans[LAB_RSTORE_READ]});
}

static void draw_client_bandwidth(struct lab_figures *report)
{
    struct lab_rstore_options options = usual(report);
    for (options.chunks = 1; options.chunks <= 24; options.chunks++)
        measure_bandwidth(report, options, "a client", "MiB in chunks of 64 MiB",
                          options.chunks * UINT64_C(64), options.chunks == 6 ? PAPER_CLIENT_GBPS : 0);
    options.chunk_bytes = SMALL_CHUNK;
    for (options.chunks = 1; options.chunks <= 292; options.chunks += options.chunks < 24   ? 1
                                                                      : options.chunks < 72 ? 4
                                                                                            : 20)
        measure_bandwidth(report, options, "a client", "MiB in chunks of 4 MiB", options.chunks * UINT64_C(4),
                          0);
}

static void draw_all_bandwidth(struct lab_figures *report)
{
    static const uint32_t clients[] = {1, 2, 4, 6, 8, 10, 12, 18, 24, 36};
    struct lab_rstore_options options = usual(report);
    for (size_t i = 0; i < base_array_count(clients); i++) {
        options.clients = clients[i];
        measure_bandwidth(report, options, "all clients", "clients", clients[i],
                          clients[i] == MACHINES ? PAPER_ALL_GBPS : 0);
    }
}

/* Each constant a fifth less and a fifth more. */
static void draw_sensitivity(struct lab_figures *report)
{
    static const char *const names[] = {"touching", "registering", "connecting", "link", "round trip"};
    for (size_t i = 0; i < base_array_count(names); i++) {
        for (uint64_t percent = 80; percent <= 120; percent += i == 0 ? 20 : 40) {
            struct lab_rstore_options options = usual(report);
            struct sim_card server_card = *options.server_card, client_card = *options.client_card;
            struct sim_pages pages = sim_pages_rstore;
            uint64_t *const constants[][2] = {{&pages.touched_ns},
                                              {&pages.registered_ns},
                                              {&server_card.connect_ns, &client_card.connect_ns},
                                              {&server_card.link_mbps, &client_card.link_mbps},
                                              {&server_card.round_trip_ns, &client_card.round_trip_ns}};
            for (unsigned k = 0; k < 2 && constants[i][k] != NULL; k++)
                *constants[i][k] = *constants[i][k] * percent / 100;
            options.server_card = &server_card;
            options.client_card = &client_card;
            options.pages = &pages;
            options.clients = CLIENTS;
            measure_control(report, &options, names[i], percent);
            options.clients = MACHINES;
            options.pages = NULL;
            measure_bandwidth(report, options, "all clients", names[i], percent, 0);
            options.clients = 1;
            measure_latency(report, options, names[i], percent, 0);
        }
    }
}

static const struct lab_figure figures[] = {
    {"3", "a client's control path, by size", draw_control_by_size},
    {"4", "the control path by clients, 32 GiB each", draw_control_by_clients},
    {"5", "latency by concurrent readers", draw_latency},
    {"6", "a client's bandwidth, by size of buffer and chunk", draw_client_bandwidth},
    {"7", "bandwidth of all clients", draw_all_bandwidth},
    {"sensitivity", "each constant 20 % lower and higher", draw_sensitivity},
};

/* ---- the verb ----------------------------------------------------------------------------------- */

LAB_FIGURES_VERB(lab_verb_rstore, "rstore",
                 "The figures of RStore, from a space on simulated cards, in virtual time.",
                 "Only this one: 3 to 7, or what the paper does not have: sensitivity.", figures);
