/* `tarn bench memcache`: load on a server that is there already, in memcached's or redis' protocol. */
#include "bench/contest.h"

#include <errno.h>

struct options {
    struct bench_options common;
    struct bench_contest_options load;
    const char *server;
    unsigned protocol; /* as enum bench_protocol */
    bool fill;
};

static const struct base_setting table[] = {
    BENCH_OPTION(STRING, "server", server, "The server to load. It is given keys that begin with `bench-`.",
                 .metavar = "HOST:PORT|unix:PATH"),
    BENCH_OPTION(ENUM, "protocol", protocol, "What it speaks.", .choices = bench_protocols),
    BENCH_OPTION(BOOL, "fill", fill,
                 "Store all keys first. With --no-fill and --read-share=1 nothing is stored there.",
                 .default_text = "yes"),
    BENCH_CONTEST_SETTINGS(struct options),
    BENCH_COMMON_SETTINGS(struct options, "1s", "5"),
};

/* The one server that is measured. */
struct contestant {
    struct bench_contest contest;
    const struct options *options;
    struct memcache_client_address address;
};

enum value { HIT_PERCENT, LOAD_PERCENT, BYTES_PER_S };

static int check_options(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    struct memcache_client_address address;
    if (options->server == NULL)
        return bench_fail(bench, 0, "--server=HOST:PORT or --server=unix:PATH says which server to load");
    int error = bench_contest_check(bench, &options->load);
    if (error == 0 && memcache_client_address_read(options->server, &address) == -EINVAL)
        error = bench_fail(bench, 0, "--server: '%s' is not HOST:PORT, [ADDRESS]:PORT or unix:PATH",
                           options->server);
    return error;
}

static struct bench_load load_of(struct contestant *contestant)
{
    struct bench_load load = bench_contest_load(&contestant->contest);
    load.name = contestant->options->server;
    load.address = &contestant->address;
    load.protocol = (enum bench_protocol)contestant->options->protocol;
    return load;
}

static int measure_server(void *arg, struct bench_sample *sample)
{
    struct contestant *contestant = arg;
    const struct bench_load load = load_of(contestant);
    struct bench_load_outcome outcome = {.latency = sample->latency};
    int error = bench_load_run(&load, &outcome);
    if (error != 0)
        return error;
    sample->operations = outcome.keys;
    sample->elapsed_ns = outcome.elapsed_ns;
    sample->values[HIT_PERCENT] = outcome.gets == 0 ? 100 : 100 * (double)outcome.hits / (double)outcome.gets;
    sample->values[LOAD_PERCENT] = 100 * outcome.busy_share;
    sample->values[BYTES_PER_S] =
        (double)outcome.keys * contestant->contest.values.bytes * 1e9 / (double)outcome.elapsed_ns;
    return 0;
}

static void add_parameters(const struct bench_contest *contest, struct bench_case *self)
{
    const struct contestant *contestant = base_container_of(contest, const struct contestant, contest);
    bench_case_text(self, "server", contestant->options->server);
}

static int run_size(struct contestant *contestant, const char *size)
{
    struct bench_contest *contest = &contestant->contest;
    int error = bench_contest_init(contest, size);
    if (error != 0)
        return error;
    if (contestant->options->fill)
        error = bench_contest_fill(contest, load_of(contestant));
    if (error == 0)
        error = bench_contest_run(contest);
    bench_contest_deinit(contest);
    return error;
}

static int run_verb(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    struct contestant contestant = {.options = options};
    int error = memcache_client_address_read(options->server, &contestant.address);
    if (error != 0)
        return bench_fail(bench, error, "%s", options->server);
    for (size_t i = 0; i < options->load.sizes.count && error == 0; i++) {
        contestant.contest = (struct bench_contest){
            .bench = bench,
            .options = &options->load,
            .read_share = options->load.read_share,
            .value_names = {"hit_percent", "load_percent", "bytes_per_s"},
            .add_parameters = add_parameters,
            .contestants =
                {{.name = "server", .serves = true, .measure = measure_server, .arg = &contestant}},
            .count = 1};
        error = run_size(&contestant, options->load.sizes.items[i]);
    }
    return error;
}

const struct bench_verb bench_verb_memcache = BENCH_VERB(
    "memcache", "Load on any memcached server, or redis.", .check = check_options, .run = run_verb);
