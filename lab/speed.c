/* `tarn-lab speed`: what the cards of the simulator's speed model come to, as RFP prints it of its own. */
#include "lab/speed_run.h"
#include "lab/verbs.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    SMALL_BYTES = 32, /* RFP, Figure 1 */
    DEPTH = 16,       /* of each thread, where nothing else is said */
    THREADS = 4,
    CLIENTS_MAX = 7,
    OPERATIONS = 4000, /* that are measured, or as many as fill the time below */
    RUN_NS_MIN = 200000,
};

struct report {
    FILE *out;
    const struct sim_card *card;
    bool json;
    int error; /* the first */
};

/* The time for a number of operations at the card's highest rate. */
static uint64_t run_ns_of(const struct sim_card *card, const struct lab_speed_options *options)
{
    uint64_t link_ns = options->bytes * 8000 / card->link_mbps;
    uint64_t kops = options->out_bound ? card->out_kops : card->in_kops;
    uint64_t operation_ns = kops == 0 ? 1 : 1000000 / kops;
    uint64_t times = options->bytes > 65536 ? 100 : OPERATIONS;
    return base_max((uint64_t)RUN_NS_MIN, times * base_max(link_ns, operation_ns));
}

/* A cell of a table, or a line of JSON. */
static void measure_cell(struct report *report, struct lab_speed_options options)
{
    struct lab_speed_result result;
    options.card = report->card;
    options.seed = 1;
    options.run_ns = run_ns_of(report->card, &options);
    int error = lab_speed_measure(&options, &result);
    if (error != 0) {
        report->error = report->error == 0 ? error : report->error;
        return;
    }
    if (!report->json) {
        (void)fprintf(report->out, " %8.3f", (double)result.kops / 1000);
        return;
    }
    struct base_json json;
    base_json_init_file(&json, report->out);
    base_json_object_begin(&json, NULL);
    base_json_string(&json, "card", report->card->name);
    base_json_string(&json, "direction", options.out_bound ? "out" : "in");
    base_json_string(&json, "operation", options.writes ? "write" : "read");
    base_json_u64(&json, "clients", options.clients);
    base_json_u64(&json, "threads", options.threads);
    base_json_u64(&json, "depth", options.depth);
    base_json_u64(&json, "bytes", options.bytes);
    base_json_u64(&json, "kops", result.kops);
    base_json_u64(&json, "mbps", result.mbps);
    base_json_u64(&json, "latency_ns", result.latency_ns);
    base_json_object_end(&json);
    int written = base_json_finish(&json, NULL);
    report->error = report->error == 0 ? written : report->error;
    (void)fputc('\n', report->out);
}

static void say(const struct report *report, const char *text)
{
    if (!report->json)
        (void)fputs(text, report->out);
}

/* RFP Figure 1 and Table I: by machines and threads, one operation after the other. */
static void print_machines(struct report *report)
{
    say(report, "  millions of operations of 32 bytes a second, each thread one after the other\n"
                "    client machines              1        2        3        4        5        6        7\n"
                "    in-bound READ, 5 threads ");
    for (uint32_t clients = 1; clients <= CLIENTS_MAX; clients++)
        measure_cell(report, (struct lab_speed_options){
                                 .clients = clients, .threads = 5, .depth = 1, .bytes = SMALL_BYTES});
    for (uint32_t threads = 1; threads <= 8; threads *= 2) {
        if (!report->json)
            (void)fprintf(report->out, "\n    out-bound WRITE, %" PRIu32 " thr. ", threads);
        for (uint32_t clients = 1; clients <= CLIENTS_MAX; clients++)
            measure_cell(report, (struct lab_speed_options){.out_bound = true,
                                                            .writes = true,
                                                            .clients = clients,
                                                            .threads = threads,
                                                            .depth = 1,
                                                            .bytes = SMALL_BYTES});
    }
    say(report, "\n");
}

/* RFP, the end of III-B: by size, as many under way as the card likes. */
static void print_sizes(struct report *report)
{
    static const uint64_t sizes[] = {8, 32, 256, 1024, 1536, 4096, 65536, 1048576};
    say(report,
        "  the same by size, 7 machines, 4 threads, 16 operations under way in each\n"
        "    bytes                        8       32      256     1024     1536     4096    65536  1048576");
    for (unsigned out = 0; out < 2; out++) {
        say(report, out != 0 ? "\n    out-bound WRITE          " : "\n    in-bound READ            ");
        for (unsigned i = 0; i < base_array_count(sizes); i++)
            measure_cell(report, (struct lab_speed_options){.out_bound = out != 0,
                                                            .writes = out != 0,
                                                            .clients = CLIENTS_MAX,
                                                            .threads = THREADS,
                                                            .depth = DEPTH,
                                                            .bytes = sizes[i]});
    }
    say(report, "\n\n");
}

static void print_rate(const struct report *report, const char *what, uint64_t kops)
{
    if (kops == 0)
        (void)fprintf(report->out, ", %s without limit", what);
    else
        (void)fprintf(report->out, ", %s %.2f M/s", what, (double)kops / 1000);
}

struct options {
    struct bench_options common;
    const char *card;
};

static const struct base_setting table[] = {
    BENCH_OPTION(STRING, "card", card, "Only this one; a name that there is not lists them.",
                 .metavar = "NAME"),
    BENCH_OUTPUT_SETTINGS(struct options, "1"),
};

static int check_card(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    if (options->card == NULL || sim_card_find(options->card) != NULL)
        return 0;
    (void)bench_fail(bench, 0, "there is no card %s; there are:", options->card);
    for (const struct sim_card *card = sim_cards; card->name != NULL; card++)
        (void)fprintf(bench->err, "  %-15s %s\n", card->name, card->source);
    return -EINVAL;
}

static int print_cards(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    struct report report = {.out = bench->out, .json = bench->options.json};
    for (const struct sim_card *card = sim_cards; card->name != NULL; card++) {
        if (options->card != NULL && strcmp(card->name, options->card) != 0)
            continue;
        report.card = card;
        if (!report.json) {
            (void)fprintf(report.out, "%s (%s)\n  round trip %.2f us, link %.2f Gb/s", card->name,
                          card->source, (double)card->round_trip_ns / 1000, (double)card->link_mbps / 1000);
            print_rate(&report, "in-bound", card->in_kops);
            print_rate(&report, "out-bound", card->out_kops);
            (void)fputc('\n', report.out);
        }
        print_machines(&report);
        print_sizes(&report);
    }
    return report.error == 0 ? 0 : bench_fail(bench, report.error, "cannot measure");
}

const struct bench_verb lab_verb_speed = {
    .name = "speed",
    .summary = "Operations a second of the cards of the simulator's speed model.",
    .table = table,
    .table_count = base_array_count(table),
    .options_bytes = sizeof(struct options),
    .simulated = true,
    .check = check_card,
    .run = print_cards,
};
