/* `tarn-lab cache`: its options and its cases. */
#include "lab/cache.h"
#include "bench/contest.h"
#include "lab/verbs.h"
#include <errno.h>

struct options {
    struct bench_options common;
    struct base_setting_list patterns;
    struct base_setting_list read_shares;
    struct base_setting_list distributions;
    const char *zipf_exponent;
    uint64_t keys;
    bool peers;
    const char *program;
};

static const char *const distributions[] = {"uniform", "zipf", NULL};

static const struct base_setting table[] = {
    BENCH_OPTION(LIST, "pipeline", patterns,
                 "Requests under way, 1 to 64; with xM each get asks for M keys, 1 to 64.",
                 .metavar = "N[xM][,...]", .min = 1, .default_text = "1,8,64,1x64"),
    BENCH_OPTION(LIST, "read-share", read_shares, "Share of gets in the requests; the others are puts.",
                 .metavar = "0...1[,...]", .min = 1, .default_text = "1,0.95"),
    BENCH_OPTION(LIST, "distribution", distributions, "How keys are drawn: uniform, zipf.",
                 .metavar = "NAME[,...]", .min = 1, .default_text = "uniform,zipf"),
    BENCH_OPTION(STRING, "zipf-exponent", zipf_exponent,
                 "Of zipf: the key of rank k is drawn with a probability like 1 / k^exponent. Below 1.",
                 .metavar = "0...1", .default_text = "0.99"),
    BENCH_OPTION(
        UINT, "keys", keys,
        "Different keys. All are stored first; each takes 512 bytes of Tarn's memory, in two caches.",
        .min = 1, .max = UINT64_C(1) << 30, .default_text = "1000000"),
    BENCH_OPTION(BOOL, "peers", peers,
                 "Measure servers behind Unix sockets beside it: the same cache, memcached and redis.",
                 .default_text = "yes"),
    BENCH_OPTION(STRING, "program", program,
                 "The tarn that has the cache behind a Unix socket, if not the one beside this program.",
                 .metavar = "FILE"),
    BENCH_COMMON_SETTINGS(struct options, "500ms", "7"),
};

static int check_options(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    int error =
        bench_contest_check_patterns(bench, &options->patterns, LAB_CACHE_REQUESTS_MAX, LAB_CACHE_KEYS_MAX);
    if (error == 0)
        error = bench_contest_check_shares(bench, &options->read_shares);
    if (error != 0)
        return error;
    error = bench_contest_check_share(bench, "zipf-exponent", options->zipf_exponent, true);
    if (error != 0)
        return error;
    return bench_check_words(bench, "distribution", &options->distributions, distributions);
}

/* ---- cases -------------------------------------------------------------------------------------- */

static int run_case(struct lab_cache_job *job, struct lab_cache_peers *peers, const char *read_share,
                    const char *distribution)
{
    struct bench_case *self;
    int error = bench_case_open(job->bench, "ask", "keys/s", &self);
    if (error != 0)
        return bench_fail(job->bench, error, "a case");
    bench_case_number(self, "pipeline", job->depth);
    bench_case_number(self, "keys_per_get", job->per_get);
    bench_case_text(self, "read_share", read_share);
    bench_case_text(self, "distribution", distribution);
    bench_case_number(self, "keys", job->keys.count);
    bench_case_number(self, "value_bytes", LAB_CACHE_VALUE_BYTES);
    bench_case_value(self, "hit_percent");
    bench_case_value(self, "reads_per_key");
    bench_case_subject(self, "tarn", lab_cache_kv, job);
    bench_case_subject(self, "fetch", lab_cache_fetch, job);
    bench_case_subject(self, "reply", lab_cache_reply, job);
    bench_case_subject(self, "bypass", lab_cache_bypass, job);
    lab_cache_peers_add(peers, self);
    error = bench_case_run(self);
    bench_case_close(self);
    return error;
}

/* All patterns, of one distribution and share. */
static int run_patterns(struct lab_cache_job *job, struct lab_cache_peers *peers,
                        const struct options *options, const char *read_share, bool is_zipf)
{
    double exponent = 0;
    char distribution[64];
    int error = is_zipf ? bench_contest_read_share(options->zipf_exponent, &exponent) : 0;
    if (error == 0)
        error = bench_contest_read_share(read_share, &job->read_share);
    (void)snprintf(distribution, sizeof(distribution), is_zipf ? "zipf-%s" : "uniform",
                   options->zipf_exponent);
    bench_keys_init(&job->keys, options->keys, exponent);
    lab_cache_job_draw(job);
    for (size_t i = 0; i < options->patterns.count && error == 0; i++) {
        struct bench_contest_pattern pattern;
        error = bench_contest_read_pattern(options->patterns.items[i], &pattern);
        job->depth = pattern.pipeline;
        job->per_get = pattern.keys_per_get;
        if (error == 0)
            error = run_case(job, peers, read_share, distribution);
    }
    return error;
}

static int run_cases(struct lab_cache_job *job, const struct options *options)
{
    struct lab_cache_peers peers = {.count = 0};
    int error = 0;
    job->depth = job->per_get = 1;
    bench_keys_init(&job->keys, options->keys, 0);
    if (options->peers)
        error = lab_cache_peers_start(&peers, job);
    for (size_t i = 0; i < options->read_shares.count; i++) {
        for (size_t k = 0; k < options->distributions.count && error == 0; k++)
            error = run_patterns(job, &peers, options, options->read_shares.items[i],
                                 strcmp(options->distributions.items[k], "zipf") == 0);
    }
    int ended = lab_cache_peers_stop(&peers);
    return error != 0 ? error : ended;
}

static int run_cache(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    const size_t bytes = LAB_CACHE_DRAWS * sizeof(uint32_t);
    struct lab_cache_server server = {.keys = options->keys};
    struct lab_cache_job job = {.bench = bench, .server = &server, .program = options->program};
    if (!bench_has_two_cores(&bench->machine))
        return 0; /* spinning on one would wait for its time slice */
    job.draws = base_alloc(bench->account, bytes);
    int error =
        job.draws == NULL ? -ENOMEM : bench_values_open(bench->account, LAB_CACHE_VALUE_BYTES, &job.values);
    if (error != 0) {
        base_free(bench->account, job.draws, bytes);
        return bench_fail(bench, error, "what is asked");
    }
    server.values = &job.values;
    error = lab_cache_server_start(&server, bench);
    if (error == 0) {
        error = run_cases(&job, options);
        int ended = lab_cache_server_stop(&server);
        error = error != 0 ? error : ended;
    }
    bench_values_close(&job.values);
    base_free(bench->account, job.draws, bytes);
    return error;
}

const struct bench_verb lab_verb_cache = {
    .name = "cache",
    .summary = "A cache by calls and by READs, beside memcached and redis behind Unix sockets.",
    .table = table,
    .table_count = base_array_count(table),
    .options_bytes = sizeof(struct options),
    .check = check_options,
    .run = run_cache,
};
