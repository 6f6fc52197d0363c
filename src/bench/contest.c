/* Contests of servers: their options, and every case of them. What loads a server is load.c. */
#include "bench/contest.h"

#include <errno.h>
#include <stdlib.h>

enum { VALUE_BYTES_MAX = 1000 << 10 /* a memcached item has 1 MiB at most, key and header included */ };

const char *const bench_protocols[] = {"memcache", "redis", NULL};
static const char *const distributions[] = {"uniform", "zipf", NULL};

/* ---- options ------------------------------------------------------------------------------------- */

int bench_contest_read_pattern(const char *text, struct bench_contest_pattern *ret_pattern)
{
    size_t len = strcspn(text, "x");
    uint64_t pipeline;
    uint64_t keys = 1;
    if (base_parse_u64_len(text, len, &pipeline) != 0 ||
        (text[len] == 'x' && base_parse_u64(text + len + 1, &keys) != 0) || pipeline < 1 ||
        pipeline > BENCH_LOAD_PIPELINE_MAX || keys < 1 || keys > BENCH_LOAD_KEYS_PER_GET_MAX)
        return -EINVAL;
    *ret_pattern =
        (struct bench_contest_pattern){.pipeline = (uint32_t)pipeline, .keys_per_get = (uint32_t)keys};
    return 0;
}

int bench_contest_check_patterns(struct bench *bench, const struct base_setting_list *patterns,
                                 uint32_t pipeline_max, uint32_t keys_max)
{
    struct bench_contest_pattern pattern;
    for (size_t i = 0; i < patterns->count; i++) {
        if (bench_contest_read_pattern(patterns->items[i], &pattern) != 0 ||
            pattern.pipeline > pipeline_max || pattern.keys_per_get > keys_max)
            return bench_fail(bench, 0, "--pipeline: '%s' is not N or NxM, N from 1 to %u and M from 1 to %u",
                              patterns->items[i], pipeline_max, keys_max);
    }
    return 0;
}

int bench_contest_read_share(const char *text, double *ret_share)
{
    char *end;
    if (text[0] == '\0' || strspn(text, "0123456789.") != strlen(text))
        return -EINVAL;
    double share = strtod(text, &end);
    if (*end != '\0' || !(share >= 0 && share <= 1))
        return -EINVAL;
    *ret_share = share;
    return 0;
}

int bench_contest_check_share(struct bench *bench, const char *setting, const char *text, bool below_one)
{
    double share;
    if (bench_contest_read_share(text, &share) != 0 || (below_one && !(share > 0 && share < 1)))
        return bench_fail(bench, 0, "--%s: '%s' is no number from 0 to 1", setting, text);
    return 0;
}

int bench_contest_check_shares(struct bench *bench, const struct base_setting_list *shares)
{
    int error = 0;
    for (size_t i = 0; i < shares->count && error == 0; i++)
        error = bench_contest_check_share(bench, "read-share", shares->items[i], false);
    return error;
}

int bench_contest_check(struct bench *bench, const struct bench_contest_options *options)
{
    int error = bench_check_words(bench, "distribution", &options->distributions, distributions);
    if (error == 0)
        error = bench_contest_check_patterns(bench, &options->pipelines, BENCH_LOAD_PIPELINE_MAX,
                                             BENCH_LOAD_KEYS_PER_GET_MAX);
    if (error == 0)
        error =
            bench_check_numbers(bench, "sizes", &options->sizes, BENCH_VALUE_BYTES_MIN, VALUE_BYTES_MAX, 1);
    if (error == 0)
        error = bench_contest_check_share(bench, "read-share", options->read_share, false);
    if (error == 0)
        error = bench_contest_check_share(bench, "zipf-exponent", options->zipf_exponent, true);
    return error;
}

/* ---- loading ------------------------------------------------------------------------------------- */

/* The pattern with most keys asked for at once. */
static int find_deepest(const struct bench_contest_options *options,
                        struct bench_contest_pattern *ret_pattern)
{
    struct bench_contest_pattern best = {.pipeline = 1, .keys_per_get = 1};
    int error = 0;
    for (size_t i = 0; i < options->pipelines.count && error == 0; i++) {
        struct bench_contest_pattern pattern = {0};
        error = bench_contest_read_pattern(options->pipelines.items[i], &pattern);
        if (pattern.pipeline * pattern.keys_per_get > best.pipeline * best.keys_per_get)
            best = pattern;
    }
    *ret_pattern = best;
    return error;
}

int bench_contest_init(struct bench_contest *contest, const char *size)
{
    int error = find_deepest(contest->options, &contest->pattern);
    if (error == 0)
        error = bench_contest_read_share(contest->read_share, &contest->share);
    if (error == 0)
        error = bench_values_open(contest->bench->account, bench_number(size), &contest->values);
    return error == 0 ? 0 : bench_fail(contest->bench, error, "values of %s", size);
}

void bench_contest_deinit(struct bench_contest *contest)
{
    bench_values_close(&contest->values);
}

struct bench_load bench_contest_load(struct bench_contest *contest)
{
    return (struct bench_load){.bench = contest->bench,
                               .values = &contest->values,
                               .keys = &contest->keys,
                               .connections = (uint32_t)contest->options->connections,
                               .pipeline = contest->pattern.pipeline,
                               .keys_per_get = contest->pattern.keys_per_get,
                               .read_share = contest->share,
                               .rate = contest->rate,
                               .seed = contest->bench->options.seed + contest->measured++};
}

int bench_contest_fill(struct bench_contest *contest, struct bench_load load)
{
    bench_keys_init(&contest->keys, contest->options->keys, 0);
    return bench_load_fill(&load);
}

/* ---- cases --------------------------------------------------------------------------------------- */

static void describe_case(struct bench_case *self, const struct bench_contest *contest,
                          const char *distribution)
{
    const struct bench_contest_options *options = contest->options;
    contest->add_parameters(contest, self);
    bench_case_number(self, "connections", options->connections);
    bench_case_number(self, "pipeline", contest->pattern.pipeline);
    bench_case_number(self, "keys_per_get", contest->pattern.keys_per_get);
    bench_case_number(self, "value_bytes", contest->values.bytes);
    bench_case_text(self, "read_share", contest->read_share);
    bench_case_number(self, "keys", options->keys);
    bench_case_text(self, "distribution", distribution);
    bench_case_text(self, "loop", contest->rate == 0 ? "closed" : "open");
    if (contest->rate > 0)
        bench_case_number(self, "rate", contest->rate);
    for (size_t i = 0; i < BENCH_VALUES_MAX && contest->value_names[i] != NULL; i++)
        bench_case_value(self, contest->value_names[i]);
    for (size_t i = 0; i < contest->count; i++) {
        if (contest->rate == 0 || contest->contestants[i].serves)
            bench_case_subject(self, contest->contestants[i].name, contest->contestants[i].measure,
                               contest->contestants[i].arg);
    }
}

/*
 * The rate of the open loop, if none was asked for: requests a second, half of what the slowest server did. In a closed
 * loop all contestants are subjects, in their order.
 */
static uint64_t find_half_rate(const struct bench_contest *contest, const struct bench_case *closed)
{
    uint32_t servers = 0;
    for (size_t i = 0; i < base_min(contest->count, base_array_count(contest->contestants)); i++)
        servers |= (uint32_t)contest->contestants[i].serves << i;
    double keys = contest->share * contest->pattern.keys_per_get + 1 - contest->share;
    return base_max((uint64_t)(bench_case_slowest(closed, servers) / keys / 2), UINT64_C(1));
}

/* @param rate  0: closed loop, after which ret_half is half of the slowest server's rate */
static int run_loop(struct bench_contest *contest, const char *distribution, uint64_t rate,
                    uint64_t *ret_half)
{
    struct bench_case *self;
    contest->rate = rate;
    int error = bench_case_open(contest->bench, "load", "keys/s", &self);
    if (error != 0)
        return bench_fail(contest->bench, error, "a case");
    describe_case(self, contest, distribution);
    error = bench_case_run(self);
    if (error == 0 && rate == 0)
        *ret_half = find_half_rate(contest, self);
    bench_case_close(self);
    contest->rate = 0;
    return error;
}

/* Where the rate of the open loop is given there is no closed one. */
static int run_loops(struct bench_contest *contest, const char *distribution)
{
    uint64_t rate = contest->options->rate;
    int error = contest->prepare == NULL ? 0 : contest->prepare(contest);
    if (error == 0 && rate == 0)
        error = run_loop(contest, distribution, 0, &rate);
    if (error == 0 && contest->options->open_loop)
        error = run_loop(contest, distribution, rate, NULL);
    return error;
}

static int run_distribution(struct bench_contest *contest, const char *name)
{
    const struct bench_contest_options *options = contest->options;
    bool zipf = strcmp(name, "zipf") == 0;
    double exponent = 0;
    char text[64];
    int error = zipf ? bench_contest_read_share(options->zipf_exponent, &exponent) : 0;
    (void)snprintf(text, sizeof(text), zipf ? "zipf-%s" : "uniform", options->zipf_exponent);
    bench_keys_init(&contest->keys, options->keys, exponent);
    for (size_t i = 0; i < options->pipelines.count && error == 0; i++) {
        error = bench_contest_read_pattern(options->pipelines.items[i], &contest->pattern);
        if (error == 0)
            error = run_loops(contest, text);
    }
    return error;
}

int bench_contest_run(struct bench_contest *contest)
{
    int error = 0;
    for (size_t i = 0; i < contest->options->distributions.count && error == 0; i++)
        error = run_distribution(contest, contest->options->distributions.items[i]);
    return error;
}
