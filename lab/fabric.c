/* `tarn-lab fabric`: its options and its cases. */
#include "lab/fabric.h"
#include "lab/verbs.h"

#include <errno.h>

#define LARGE_BYTES 65536 /* from here on it is a stream */

struct options {
    struct bench_options common;
    struct base_setting_list only;
    struct base_setting_list providers;
    struct base_setting_list sizes;
    struct base_setting_list depths;
    uint64_t region_bytes;
    uint64_t making_bytes;
    bool peers;
};

static const char *const cases[] = {"memory",     "message", "operation", "together",
                                    "connection", "region",  NULL};
static const char *const providers[] = {"shm", "tcp", NULL};
static const char *const op_names[] = {"read", "write", "cas", "message"}; /* as enum lab_fabric_op */

static const struct base_setting table[] = {
    BENCH_OPTION(LIST, "only", only,
                 "Measure only these: memory, message, operation, together, connection, region.",
                 .metavar = "CASE[,...]"),
    BENCH_OPTION(LIST, "providers", providers, "Of these alone: shm, tcp.", .metavar = "NAME[,...]"),
    BENCH_OPTION(LIST, "sizes", sizes, "What an operation moves, 8 to 1M, multiples of 8.",
                 .metavar = "SIZE[,...]", .default_text = "8,64,1K,16K,1M"),
    BENCH_OPTION(LIST, "depths", depths, "Operations in flight, 1 to 128.", .metavar = "N[,...]",
                 .default_text = "1,4,16,128"),
    BENCH_OPTION(SIZE, "region", region_bytes,
                 "Memory that operations are spread over where it shall be cold.",
                 .min = LAB_FABRIC_BYTES_MAX, .max = UINT64_C(64) << 30, .default_text = "256M"),
    BENCH_OPTION(SIZE, "making", making_bytes, "Size of the region that is made beside round trips.",
                 .min = BASE_PAGE_BYTES, .max = UINT64_C(64) << 30, .default_text = "4G"),
    BENCH_OPTION(BOOL, "peers", peers, "Measure UCX, libfabric and iperf3 beside it.", .default_text = "yes"),
    BENCH_COMMON_SETTINGS(struct options, "500ms", "7"),
};

static const struct bench_list lists[] = {
    BENCH_NUMBERS("sizes", sizes, BENCH_WORD_BYTES, LAB_FABRIC_BYTES_MAX, BENCH_WORD_BYTES),
    BENCH_NUMBERS("depths", depths, 1, LAB_FABRIC_DEPTH_MAX, 1),
    BENCH_WORDS("only", only, cases),
    BENCH_WORDS("providers", providers, providers),
    {.setting = NULL},
};

typedef int measure_function(void *arg, struct bench_sample *sample);

struct subject {
    const char *name;
    measure_function *measure;
};

/* @param subjects  behind Tarn; the last has no name */
static int run_case(struct lab_fabric_job *job, const char *name, const char *unit,
                    const struct subject *subjects)
{
    struct bench_case *self;
    int error = bench_case_open(job->bench, name, unit, &self);
    if (error != 0)
        return error;
    bench_case_text(self, "provider", lab_server_is_shm(job->server) ? "shm" : "tcp");
    bench_case_text(self, "op", op_names[job->op]);
    bench_case_number(self, "bytes", job->bytes);
    bench_case_number(self, "depth", job->depth);
    bench_case_text(self, "memory", job->cold ? "cold" : "hot");
    bench_case_subject(self, "tarn", lab_fabric_tarn, job);
    for (; subjects->name != NULL; subjects++)
        bench_case_subject(self, subjects->name, subjects->measure, job);
    error = bench_case_run(self);
    bench_case_close(self);
    return error;
}

/* ---- cases --------------------------------------------------------------------------------------- */

static int run_memory(struct lab_fabric_job *job, bool first_size)
{
    static const struct subject copies[] = {{"memcpy", lab_fabric_memory}, {NULL, NULL}};
    static const struct subject swaps[] = {{"atomic", lab_fabric_memory}, {NULL, NULL}};
    int error = 0;
    for (unsigned cold = 0; cold < 2 && error == 0; cold++) {
        job->cold = cold == 1;
        for (unsigned op = LAB_FABRIC_READ; op <= LAB_FABRIC_CAS && error == 0; op++) {
            uint32_t bytes = job->bytes;
            job->op = (enum lab_fabric_op)op;
            if (op == LAB_FABRIC_CAS && !first_size)
                continue;
            if (op == LAB_FABRIC_CAS)
                job->bytes = LAB_FABRIC_BYTES_MIN;
            error = run_case(job, "memory", "operations/s", op == LAB_FABRIC_CAS ? swaps : copies);
            job->bytes = bytes;
        }
    }
    job->cold = false;
    return error;
}

static int run_messages(struct lab_fabric_job *job, bool shm, bool peers)
{
    const struct subject subjects[] = {{shm ? "line" : "socket", shm ? lab_fabric_line : lab_fabric_socket},
                                       {peers ? "ucx" : NULL, lab_fabric_ucx},
                                       {"libfabric", lab_fabric_libfabric},
                                       {NULL, NULL}};
    job->op = LAB_FABRIC_MESSAGE;
    return run_case(job, "message", "round trips/s", subjects);
}

static int run_operations(struct lab_fabric_job *job, bool peers)
{
    const bool large = job->bytes >= LARGE_BYTES;
    const struct subject subjects[] = {
        {"socket", lab_fabric_socket},
        {peers ? "ucx" : NULL, lab_fabric_ucx},
        {large ? "iperf3" : "libfabric", large ? lab_fabric_iperf3 : lab_fabric_libfabric},
        {large && job->depth > 1 ? "iperf3-streams" : NULL, lab_fabric_iperf3_streams},
        {NULL, NULL}};
    int error = 0;
    for (unsigned op = LAB_FABRIC_READ; op <= LAB_FABRIC_WRITE && error == 0; op++) {
        job->op = (enum lab_fabric_op)op;
        error = run_case(job, "operation", "operations/s", subjects);
    }
    return error;
}

static int run_size(struct lab_fabric_job *job, const struct options *options, bool first)
{
    const bool shm = lab_server_is_shm(job->server);
    const bool two =
        bench_has_two_cores(&job->bench->machine); /* spinning on one would wait for its time slice */
    int error = 0;
    job->depth = 1;
    if (shm && bench_is_wanted(&options->only, "memory"))
        error = run_memory(job, first);
    if (error == 0 && two && job->bytes < LARGE_BYTES && bench_is_wanted(&options->only, "message"))
        error = run_messages(job, shm, options->peers);
    for (size_t i = 0; i < options->depths.count && error == 0 && two && !shm; i++) {
        if (!bench_is_wanted(&options->only, "operation"))
            break;
        job->depth = bench_number(options->depths.items[i]);
        error = run_operations(job, options->peers);
    }
    return error;
}

/* Ways to post the same operations, beside each other. */
static int run_ways(struct bench_case *self, const struct lab_fabric_job *job,
                    const enum lab_fabric_way *ways, unsigned count)
{
    static const char *const names[] = {[LAB_FABRIC_WRITE_ALONE] = "write",
                                        [LAB_FABRIC_FENCED] = "write+cas",
                                        [LAB_FABRIC_WRITE_THEN_CAS] = "write, cas",
                                        [LAB_FABRIC_READS_TOGETHER] = "together",
                                        [LAB_FABRIC_READS_IN_TURN] = "in turn"};
    struct lab_fabric_together subjects[base_array_count(names)];
    bench_case_text(self, "provider", lab_server_is_shm(job->server) ? "shm" : "tcp");
    for (unsigned i = 0; i < count; i++) {
        subjects[i] = (struct lab_fabric_together){.job = job, .way = ways[i]};
        bench_case_subject(self, names[ways[i]], lab_fabric_together, &subjects[i]);
    }
    return bench_case_finish(self);
}

/* What is posted together beside the same, one after the other. */
static int run_together(struct lab_fabric_job *job)
{
    static const enum lab_fabric_way pairs[] = {LAB_FABRIC_WRITE_ALONE, LAB_FABRIC_FENCED,
                                                LAB_FABRIC_WRITE_THEN_CAS},
                                     reads[] = {LAB_FABRIC_READS_TOGETHER, LAB_FABRIC_READS_IN_TURN};
    struct bench_case *self;
    int error = bench_case_open(job->bench, "fenced", "times/s", &self);
    if (error == 0)
        error = run_ways(self, job, pairs, base_array_count(pairs));
    if (error == 0)
        error = bench_case_open(job->bench, "peers", "operations/s", &self);
    if (error != 0)
        return error;
    bench_case_number(self, "peers", LAB_FABRIC_PEERS);
    bench_case_number(self, "reads", LAB_FABRIC_READS);
    return run_ways(self, job, reads, base_array_count(reads));
}

/* Round trips while a region is made. Only here the owner may use all cores, and sleeps: so it is another one. */
static int run_region(struct bench *bench, const struct options *options, const char *url)
{
    struct lab_server server = {.bench = bench, .url = url, .roams = true};
    struct lab_fabric_job job = {.bench = bench,
                                 .server = &server,
                                 .region_bytes = LAB_FABRIC_BYTES_MAX,
                                 .making_bytes = options->making_bytes};
    struct bench_case *self;
    int error = lab_fabric_owner_start(&job);
    if (error != 0)
        return error;
    error = bench_case_open(bench, "region", "round trips/s", &self);
    if (error == 0) {
        bench_case_text(self, "provider", lab_server_is_shm(&server) ? "shm" : "tcp");
        bench_case_number(self, "bytes", LAB_FABRIC_MAKING_BYTES);
        bench_case_number(self, "making", options->making_bytes);
        bench_case_value(self, "made_ms");
        bench_case_subject(self, "alone", lab_fabric_alone, &job);
        bench_case_subject(self, "region", lab_fabric_beside_region, &job);
        bench_case_subject(self, "thread", lab_fabric_beside_thread, &job);
        error = bench_case_finish(self);
    }
    int ended = lab_server_stop(&server);
    return error != 0 ? error : ended;
}

/* Connections made and ended. */
static int run_connections(struct lab_fabric_job *job)
{
    struct bench_case *self;
    int error = bench_case_open(job->bench, "connection", "connections/s", &self);
    if (error != 0)
        return error;
    bench_case_text(self, "provider", lab_server_is_shm(job->server) ? "shm" : "tcp");
    bench_case_value(self, "processor_us");
    bench_case_value(self, "account_bytes");
    bench_case_value(self, "resident_bytes");
    bench_case_subject(self, "tarn", lab_fabric_meetings, job);
    bench_case_subject(self, "socket", lab_fabric_bare_meetings, job);
    return bench_case_finish(self);
}

static int run_provider(struct bench *bench, const struct options *options, const char *url)
{
    struct lab_server server = {.bench = bench, .url = url};
    struct lab_fabric_job job = {
        .bench = bench, .server = &server, .region_bytes = options->region_bytes, .depth = 1};
    int error = lab_fabric_owner_start(&job);
    if (error != 0)
        return error;
    for (size_t i = 0; i < options->sizes.count && error == 0; i++) {
        job.bytes = bench_number(options->sizes.items[i]);
        error = run_size(&job, options, i == 0);
    }
    if (error == 0 && bench_is_wanted(&options->only, "together") && bench_has_two_cores(&bench->machine))
        error = run_together(&job);
    int ended = lab_server_stop(&server);
    error = error != 0 ? error : ended;
    if (error == 0 && bench_is_wanted(&options->only, "connection"))
        error = run_connections(&job);
    if (error == 0 && bench_is_wanted(&options->only, "region") && bench_has_two_cores(&bench->machine))
        error = run_region(bench, options, url);
    return error;
}

static int run_fabric(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    int error = 0;
    if (bench_is_wanted(&options->providers, "shm"))
        error = run_provider(bench, options, "shm:");
    if (error == 0 && bench_is_wanted(&options->providers, "tcp"))
        error = run_provider(bench, options, "tcp:");
    return error;
}

const struct bench_verb lab_verb_fabric = BENCH_VERB(
    "fabric", "One-sided operations and messages beside plain memory, sockets, UCX, libfabric and iperf3.",
    .lists = lists, .run = run_fabric);
