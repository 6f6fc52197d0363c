/*
 * The figures of `tarn-lab rfp` that the paper does not have: calls by fetch, by reply and adaptive by service time and
 * size, after changes of load, and with many connections that are idle.
 */
#include "base/json.h"
#include "lab/rfp_adaptive.h"
#include "lab/rfp_report.h"
#include "task/task.h"
#include <inttypes.h>

enum { CLIENTS = 35, ACTIVE = 16, CONNECTIONS = 4096, CHANGE_NS = 32000000 };

static const uint32_t workers[] = {4, 16};

static void begin_line(struct base_json *json, const struct lab_rfp_report *report, const char *series,
                       const char *axis, uint64_t x, const struct lab_adaptive_place *place)
{
    lab_rfp_begin(json, report, series, axis, x);
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

static void print_text(const struct lab_rfp_report *report, const struct lab_adaptive_rates *rates)
{
    (void)fprintf(report->out, "fetch %7.3f  reply %7.3f  adaptive %7.3f M/s  %5.1f %%",
                  (double)rates->kops[TARN_RPC_FETCH] / 1000, (double)rates->kops[TARN_RPC_REPLY] / 1000,
                  (double)rates->kops[TARN_RPC_ADAPTIVE] / 1000, (double)lab_adaptive_permille(rates) / 10);
}

static struct lab_adaptive_place place_of(const struct lab_rfp_report *report, size_t workers_index,
                                          uint32_t clients)
{
    return (struct lab_adaptive_place){
        .workers = workers[workers_index], .clients = clients, .seed = report->seed};
}

/* ---- by service time and size ------------------------------------------------------------------- */

static void draw_cell(struct lab_rfp_report *report, const struct lab_adaptive_place *place,
                      uint64_t server_ns, uint32_t result_bytes)
{
    struct lab_adaptive_rates rates;
    struct base_json line;
    char series[32], axis[32];
    int error = lab_adaptive_measure(place, server_ns, result_bytes, &rates);
    lab_rfp_note(report, error);
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
    lab_rfp_end(&line, report);
}

void lab_rfp_draw_adaptive(struct lab_rfp_report *report)
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

static void draw_change(struct lab_rfp_report *report, const struct lab_rfp_phase *before,
                        const struct lab_rfp_phase *after)
{
    const struct lab_adaptive_place place = place_of(report, 0, CLIENTS);
    struct lab_adaptive_rates rates;
    struct base_json line;
    char series[80];
    int error = lab_adaptive_change(&place, before, after, &rates);
    lab_rfp_note(report, error);
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
    lab_rfp_end(&line, report);
}

void lab_rfp_draw_change(struct lab_rfp_report *report)
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
static uint64_t draw_connected(struct lab_rfp_report *report, const struct lab_adaptive_place *place,
                               uint32_t idle, uint64_t alone_kops)
{
    struct lab_rfp_result result;
    struct base_json line;
    int error = lab_adaptive_idle(place, TARN_RPC_FETCH, idle, &result);
    lab_rfp_note(report, error);
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
    lab_rfp_end(&line, report);
    return result.kops;
}

void lab_rfp_draw_idle(struct lab_rfp_report *report)
{
    for (size_t w = 0; w < base_array_count(workers) && report->error == 0; w++) {
        const struct lab_adaptive_place place = place_of(report, w, ACTIVE);
        const uint64_t alone_kops = draw_connected(report, &place, 0, 0);
        if (report->error == 0)
            (void)draw_connected(report, &place, CONNECTIONS / ACTIVE - place.workers, alone_kops);
    }
}
