/*
 * tarn sim --paper=rfp, the figures that the paper does not have: calls by fetch, by reply and adaptive by service time and
 * size, after changes of load, and with many connections that are idle.
 */
#include "base/base.h"
#include "base/json.h"
#include "cli/cli.h"
#include "sim/adaptive.h"
#include "task/task.h"
#include <inttypes.h>
#include <stdio.h>

enum { CLIENTS = 35, ACTIVE = 16, CONNECTIONS = 4096, CHANGE_NS = 32000000 };

static const uint32_t workers[] = {4, 16};

static void begin(struct base_json *json, const char *figure, const char *series, const char *axis,
                  uint64_t x, const struct sim_adaptive_place *place)
{
    base_json_init_file(json, stdout);
    base_json_object_begin(json, NULL);
    base_json_string(json, "paper", "rfp");
    base_json_string(json, "figure", figure);
    base_json_string(json, "series", series);
    base_json_string(json, "axis", axis);
    base_json_u64(json, "x", x);
    base_json_u64(json, "seed", place->seed);
    base_json_u64(json, "workers", place->workers);
    base_json_u64(json, "clients", place->clients);
}

static int end(struct base_json *json)
{
    base_json_object_end(json);
    int error = base_json_finish(json, NULL);
    (void)putchar('\n');
    (void)fflush(stdout);
    return error;
}

static int print_json(struct base_json *json, const struct sim_adaptive_rates *rates)
{
    static const char *const names[SIM_ADAPTIVE_WAYS] = {"adaptive", "fetch", "reply"};
    for (int way = 0; way < SIM_ADAPTIVE_WAYS; way++) {
        base_json_object_begin(json, names[way]);
        base_json_u64(json, "kops", rates->kops[way]);
        base_json_double(json, "vain_reads", (double)rates->vain[way] / 1000);
        base_json_u64(json, "fetch_bytes", rates->fetch_bytes[way]);
        base_json_object_end(json);
    }
    base_json_double(json, "replied_share", (double)rates->replied_permille / 1000);
    base_json_u64(json, "kops", rates->kops[TARN_RPC_ADAPTIVE]);
    base_json_double(json, "share", (double)sim_adaptive_permille(rates) / 1000);
    return 0;
}

static void print_text(const struct sim_adaptive_rates *rates)
{
    (void)printf("fetch %7.3f  reply %7.3f  adaptive %7.3f M/s  %5.1f %%",
                 (double)rates->kops[TARN_RPC_FETCH] / 1000, (double)rates->kops[TARN_RPC_REPLY] / 1000,
                 (double)rates->kops[TARN_RPC_ADAPTIVE] / 1000, (double)sim_adaptive_permille(rates) / 10);
}

/* ---- by service time and size ------------------------------------------------------------------- */

static int draw_cell(const struct sim_adaptive_place *place, uint64_t server_ns, uint32_t result_bytes,
                     bool json)
{
    struct sim_adaptive_rates rates;
    struct base_json line;
    char series[32], axis[32];
    int error = sim_adaptive_measure(place, server_ns, result_bytes, &rates);
    if (error != 0)
        return error;
    if (!json) {
        (void)printf("  %2" PRIu32 " workers %6" PRIu32 " bytes %3" PRIu64 " us  ", place->workers,
                     result_bytes, server_ns / 1000);
        print_text(&rates);
        (void)putchar('\n');
        return 0;
    }
    (void)snprintf(series, sizeof(series), "%" PRIu32 " bytes", result_bytes);
    (void)snprintf(axis, sizeof(axis), "us, %" PRIu32 " workers", place->workers);
    begin(&line, "adaptive", series, axis, server_ns / 1000, place);
    error = print_json(&line, &rates);
    return error != 0 ? error : end(&line);
}

int cli_sim_adaptive(uint64_t seed, bool json)
{
    static const uint64_t times_us[] = {0, 1, 2, 5, 7, 10, 20, 50};
    static const uint32_t sizes[] = {32, 1024, 8192, 65536}, few[] = {32};
    int error = 0;
    for (size_t w = 0; w < base_array_count(workers) && error == 0; w++) {
        const struct sim_adaptive_place place = {.workers = workers[w], .clients = CLIENTS, .seed = seed};
        const size_t count = w == 0 ? base_array_count(sizes) : base_array_count(few);
        for (size_t i = 0; i < count && error == 0; i++) {
            for (size_t k = 0; k < base_array_count(times_us) && error == 0; k++)
                error = draw_cell(&place, times_us[k] * 1000, w == 0 ? sizes[i] : few[i], json);
        }
    }
    return error;
}

/* ---- changes ------------------------------------------------------------------------------------ */

static int draw_change(const struct sim_adaptive_place *place, const struct sim_rfp_phase *before,
                       const struct sim_rfp_phase *after, bool json)
{
    struct sim_adaptive_rates rates;
    struct base_json line;
    char series[80];
    int error = sim_adaptive_change(place, before, after, &rates);
    if (error != 0)
        return error;
    (void)snprintf(
        series, sizeof(series), "%" PRIu64 " us, %" PRIu32 " bytes to %" PRIu64 " us, %" PRIu32 " bytes",
        before->server_ns / 1000, before->result_bytes, after->server_ns / 1000, after->result_bytes);
    if (!json) {
        (void)printf("  %2" PRIu32 " workers  %-36s ", place->workers, series);
        print_text(&rates);
        if (rates.settled_ns == TASK_FOREVER)
            (void)printf("  never settled\n");
        else
            (void)printf("  settled after %4.1f ms\n", (double)rates.settled_ns / 1e6);
        return 0;
    }
    begin(&line, "change", series, "workers", place->workers, place);
    error = print_json(&line, &rates);
    if (rates.settled_ns != TASK_FOREVER)
        base_json_u64(&line, "settled_ns", rates.settled_ns);
    return error != 0 ? error : end(&line);
}

int cli_sim_change(uint64_t seed, bool json)
{
    static const struct sim_rfp_phase changes[][2] = {{{0, 1000, 32}, {CHANGE_NS, 50000, 32}},
                                                      {{0, 50000, 32}, {CHANGE_NS, 1000, 32}},
                                                      {{0, 1000, 32}, {CHANGE_NS, 1000, 4096}},
                                                      {{0, 1000, 65536}, {CHANGE_NS, 1000, 32}},
                                                      {{0, 1000, 32}, {CHANGE_NS, 50000, 65536}}};
    int error = 0;
    const struct sim_adaptive_place place = {.workers = workers[0], .clients = CLIENTS, .seed = seed};
    for (size_t i = 0; i < base_array_count(changes) && error == 0; i++)
        error = draw_change(&place, &changes[i][0], &changes[i][1], json);
    return error;
}

/* ---- idle connections --------------------------------------------------------------------------- */

int cli_sim_idle(uint64_t seed, bool json)
{
    int error = 0;
    for (size_t w = 0; w < base_array_count(workers) && error == 0; w++) {
        const struct sim_adaptive_place place = {.workers = workers[w], .clients = ACTIVE, .seed = seed};
        uint64_t alone_kops = 0;
        for (int many = 0; many < 2 && error == 0; many++) {
            struct sim_rfp_result result;
            struct base_json line;
            const uint32_t idle = many == 0 ? 0 : CONNECTIONS / ACTIVE - place.workers;
            error = sim_adaptive_idle(&place, TARN_RPC_FETCH, idle, &result);
            if (error != 0)
                break;
            if (many == 0)
                alone_kops = result.kops;
            if (!json) {
                (void)printf("  %2" PRIu32 " workers %5" PRIu64 " connected, %4" PRIu64
                             " watched  %6.3f M/s  %5.1f %%\n",
                             place.workers, result.connections, result.watched, (double)result.kops / 1000,
                             100 * (double)result.kops / (double)alone_kops);
                continue;
            }
            begin(&line, "idle", "fetch", "connected", result.connections, &place);
            base_json_u64(&line, "watched", result.watched);
            base_json_u64(&line, "kops", result.kops);
            base_json_double(&line, "share", (double)result.kops / (double)alone_kops);
            error = end(&line);
        }
    }
    return error;
}
