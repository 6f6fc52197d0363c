/* TCP echo: running the servers and their load in turn, and reporting rates and idle cost. */
#include "lab/echo.h"

#include "bench/load.h"
#include "task/task.h"
#include <errno.h>
#include <sys/resource.h>

enum {
    MESSAGE_BYTES = 64,
    SPARE_DESCRIPTORS = 64,
    SIDES = 2,
    LOADS_MAX = 2,           /* sets of connections to a server */
    OPEN_LOOP_PIPELINE = 16, /* most messages of a connection that wait for their echo in an open loop */
    IDLE_TIMES = 6,          /* durations for which an idle server is observed */
    IDLE_CONNECTIONS = 1000,
};

#define PATIENCE_NS (60 * BASE_NS_PER_SECOND) /* beyond the time that a run takes anyway */

/* What the process that loads a server is asked for. */
struct request {
    uint16_t port;
    uint32_t connections; /* to open, all together for one load; 0: measure the last load */
    uint64_t rate;        /* messages a second in an open loop; 0: closed loop, each waits for its echo */
};

struct answer {
    int error;
    struct bench_load_outcome outcome;
    struct base_histogram latency; /* open loop: since the intended start */
};

/* One server and what loads it. */
struct side {
    const char *name;
    int (*serve)(void *arg);
    struct bench *bench;
    struct lab_echo_server server_options;
    struct lab_child server;
    struct lab_child load;
    struct lab_echo_state hello;
    const char *skipped; /* why it cannot be measured here, or NULL */
    uint64_t rate;       /* of the run that is measured; 0: closed loop */
    struct answer *answer;
};

/* ---- the process that loads ---------------------------------------------------------------------- */

static int open_load(struct bench *bench, const struct request *request, const struct bench_values *values,
                     const struct bench_keys *keys, struct bench_load_session **ret_session)
{
    const struct memcache_client_address address = memcache_client_address_of_port(request->port);
    const struct bench_load load = {.bench = bench,
                                    .name = "echo",
                                    .address = &address,
                                    .protocol = BENCH_PROTOCOL_ECHO,
                                    .values = values,
                                    .keys = keys,
                                    .connections = request->connections,
                                    .pipeline = OPEN_LOOP_PIPELINE,
                                    .keys_per_get = 1,
                                    .seed = bench->options.seed};
    return bench_load_open(&load, ret_session);
}

/* A child function; `arg` is the bench. */
static int load_server(void *arg)
{
    struct bench *bench = arg;
    struct request request;
    struct answer answer;
    struct bench_values values;
    struct bench_keys keys;
    struct bench_load_session *loads[LOADS_MAX];
    size_t count = 0;
    if (bench_values_open(bench->account, MESSAGE_BYTES, &values) != 0)
        return 1;
    bench_keys_init(&keys, BENCH_KEYS_MAX, 0);
    while (lab_child_receive(&request, sizeof(request)) == 0) {
        answer.outcome = (struct bench_load_outcome){.latency = &answer.latency};
        base_histogram_reset(&answer.latency);
        if (request.connections > 0) {
            base_assert(count < LOADS_MAX);
            answer.error = open_load(bench, &request, &values, &keys, &loads[count]);
            count += answer.error == 0;
        } else {
            answer.error = bench_load_measure(loads[count - 1], request.rate > 0 ? OPEN_LOOP_PIPELINE : 1,
                                              request.rate, &answer.outcome);
        }
        if (lab_child_answer(&answer, sizeof(answer)) != 0)
            break;
    }
    while (count > 0)
        bench_load_close(loads[--count]);
    bench_values_close(&values);
    return 0;
}

/* @param connections  as struct request has them */
static int order_load(struct side *side, uint32_t connections)
{
    const struct request request = {.port = side->hello.port, .connections = connections, .rate = side->rate};
    int error = lab_child_call(&side->load, &request, sizeof(request), side->answer, sizeof(*side->answer),
                               3 * side->bench->options.duration_ns + PATIENCE_NS);
    return error != 0 ? error : side->answer->error;
}

/* Have a message, and more, sent on each of some new connections. */
static int use_connections(struct side *side, uint32_t connections)
{
    int error = order_load(side, connections);
    return error != 0 ? error : order_load(side, 0);
}

/* ---- sides --------------------------------------------------------------------------------------- */

static int ask_server(struct side *side, bool first, struct lab_echo_state *ret_state)
{
    struct lab_echo_state state;
    int error = lab_child_call(&side->server, "u", first ? 0 : 1, &state, sizeof(state), PATIENCE_NS);
    if (error == 0)
        error = state.error;
    if (error == 0)
        *ret_state = state;
    return error;
}

static int open_side(struct side *side)
{
    if (side->skipped != NULL)
        return 0;
    side->answer = base_alloc(side->bench->account, sizeof(*side->answer));
    if (side->answer == NULL)
        return -ENOMEM;
    int error = lab_child_start(&side->server, &side->bench->machine, 0, side->serve, &side->server_options);
    if (error != 0)
        return error;
    error = ask_server(side, true, &side->hello);
    if (error == -ENOTSUP) {
        side->skipped = "the kernel does not offer this engine here";
        return 0;
    }
    if (error != 0)
        return error;
    return lab_child_start(&side->load, &side->bench->machine, 1, load_server, side->bench);
}

/* End both processes. @return whether a server ended as it should */
static int close_side(struct side *side)
{
    int error = 0;
    if (side->load.pid > 0)
        error = lab_child_stop(&side->load);
    if (side->server.pid > 0) {
        int server_error = lab_child_stop(&side->server);
        error = error != 0 ? error : server_error;
    }
    base_free(side->bench->account, side->answer, sizeof(*side->answer));
    return error;
}

/* Raise the limit of connections in a process as far as possible. @return whether it suffices */
static bool allow_connections(uint32_t connections)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur >= connections + SPARE_DESCRIPTORS;
}

/* ---- rates --------------------------------------------------------------------------------------- */

static int measure_rate(void *arg, struct bench_sample *sample)
{
    struct side *side = arg;
    struct lab_echo_state before;
    struct lab_echo_state after;
    int error = ask_server(side, false, &before);
    if (error == 0)
        error = order_load(side, 0);
    if (error == 0)
        error = ask_server(side, false, &after);
    if (error != 0)
        return error;
    sample->operations = side->answer->outcome.keys;
    sample->elapsed_ns = side->answer->outcome.elapsed_ns;
    base_histogram_merge(sample->latency, &side->answer->latency);
    double echoes = (double)base_max(side->answer->outcome.all_keys, UINT64_C(1));
    sample->values[0] = (double)(after.usage.processor_ns - before.usage.processor_ns) / echoes;
    sample->values[1] = (double)(after.usage.sleeps - before.usage.sleeps) / echoes;
    return 0;
}

/* ---- idle connections ---------------------------------------------------------------------------- */

/*
 * Memory of a connection that was used and is idle now: from one connection to all of them, which have
 * each carried messages.
 */
static int measure_memory(void *arg, struct bench_sample *sample)
{
    struct side *side = arg;
    struct lab_echo_state before;
    struct lab_echo_state after;
    uint32_t more = base_max(side->server_options.options->connections, 2U) - 1;
    int error = use_connections(side, 1);
    if (error == 0)
        error = ask_server(side, false, &before);
    if (error == 0)
        error = use_connections(side, more);
    if (error != 0)
        return error;
    (void)task_sleep(side->bench->options.duration_ns); /* until it is idle */
    error = ask_server(side, false, &after);
    if (error != 0)
        return error;
    double grown = (double)after.usage.resident_bytes - (double)before.usage.resident_bytes;
    sample->values[0] = grown / (double)more;
    sample->values[1] = (double)after.usage.resident_bytes;
    return 0;
}

/* What a server does with connections on which nothing comes. */
static int measure_idle(void *arg, struct bench_sample *sample)
{
    struct side *side = arg;
    struct lab_echo_state before;
    struct lab_echo_state after;
    int error = use_connections(side, side->server_options.options->connections);
    if (error != 0)
        return error;
    (void)task_sleep(side->bench->options.duration_ns);
    error = ask_server(side, false, &before);
    if (error != 0)
        return error;
    uint64_t begin_ns = task_now();
    (void)task_sleep(IDLE_TIMES * side->bench->options.duration_ns);
    double elapsed_ns = (double)(task_now() - begin_ns);
    error = ask_server(side, false, &after);
    if (error != 0)
        return error;
    /* being asked wakes it once */
    double sleeps = (double)base_max(after.usage.sleeps - before.usage.sleeps, UINT64_C(1)) - 1;
    sample->values[0] = sleeps * 1e9 / elapsed_ns;
    sample->values[1] = (double)(after.usage.processor_ns - before.usage.processor_ns) * 100 / elapsed_ns;
    return 0;
}

/* ---- cases --------------------------------------------------------------------------------------- */

/* What can be measured of servers. */
static const struct kind {
    const char *name;
    const char *unit;
    const char *values[2];
    int (*measure)(void *arg, struct bench_sample *sample); /* `arg` is a side */
} rates = {"echo", "echoes/s", {"server_ns", "server_sleeps"}, measure_rate},
  memory = {"echo-memory", "bytes", {"connection_bytes", "resident_bytes"}, measure_memory},
  idleness = {"echo-idle", "wakeups/s", {"wakeups_per_second", "processor_percent"}, measure_idle};

/* @param rate  of rates; 0: closed loop. @param ret_half  half of the slower side's rate; may be NULL */
static int run_case(struct side *sides, const struct kind *kind, uint64_t rate, uint64_t *ret_half)
{
    const struct lab_echo_options *options = sides[0].server_options.options;
    struct bench_case *self;
    int error = bench_case_open(sides[0].bench, kind->name, kind->unit, &self);
    if (error != 0)
        return error;
    bench_case_number(self, "connections", options->connections);
    bench_case_text(self, "engine", sides[0].skipped != NULL ? "none" : sides[0].hello.engine);
    bench_case_number(self, "spin_ns", options->spin_ns);
    if (kind == &rates) {
        bench_case_text(self, "loop", rate == 0 ? "closed" : "open");
        if (rate > 0)
            bench_case_number(self, "rate", rate);
        bench_case_number(self, "message_bytes", MESSAGE_BYTES);
    } else {
        self->repeats = 1; /* a process grows once */
    }
    for (size_t i = 0; i < base_array_count(kind->values); i++)
        bench_case_value(self, kind->values[i]);
    for (int i = 0; i < SIDES; i++) {
        sides[i].rate = rate;
        bench_case_subject(self, sides[i].name, kind->measure, &sides[i]);
        bench_case_skip(self, sides[i].skipped);
    }
    error = bench_case_run(self);
    if (error == 0 && ret_half != NULL)
        *ret_half = base_max((uint64_t)(bench_case_slowest(self, UINT32_MAX) / 2), UINT64_C(1));
    bench_case_close(self);
    return error;
}

static int run_rates(struct side *sides)
{
    uint64_t rate = sides[0].server_options.options->rate;
    for (int i = 0; i < SIDES; i++) {
        int error = sides[i].skipped != NULL
                        ? 0
                        : order_load(&sides[i], sides[i].server_options.options->connections);
        if (error != 0)
            return bench_fail(sides[i].bench, error, "echo: connect to %s", sides[i].name);
    }
    int error = run_case(sides, &rates, 0, rate == 0 ? &rate : NULL);
    return error != 0 ? error : run_case(sides, &rates, rate, NULL);
}

/* Measure fresh servers. */
static int run_kind(struct bench *bench, const struct lab_echo_options *options, const struct kind *kind)
{
    const char *skipped = allow_connections(options->connections)
                              ? NULL
                              : "more connections than the limit of open files allows (ulimit -n)";
    const struct lab_echo_server server = {.bench = bench, .options = options};
    struct side sides[SIDES] = {{.name = "tarn", .serve = lab_echo_tarn},
                                {.name = "epoll", .serve = lab_echo_epoll}};
    int error = 0;
    for (int i = 0; i < SIDES && error == 0; i++) {
        sides[i].bench = bench;
        sides[i].server_options = server;
        sides[i].skipped = skipped;
        error = open_side(&sides[i]);
        if (error != 0)
            (void)bench_fail(bench, error, "echo: start %s", sides[i].name);
    }
    if (error == 0)
        error = kind == &rates ? run_rates(sides) : run_case(sides, kind, 0, NULL);
    for (int i = 0; i < SIDES && sides[i].bench != NULL; i++) {
        int closing = close_side(&sides[i]);
        if (error == 0 && closing != 0)
            error = bench_fail(bench, closing, "echo: the end of %s", sides[i].name);
    }
    return error;
}

int lab_echo_run(struct bench *bench, const struct lab_echo_options *options)
{
    return run_kind(bench, options, &rates);
}

int lab_echo_run_idle(struct bench *bench, const struct lab_echo_options *options)
{
    struct lab_echo_options idle = *options;
    idle.connections = base_min(options->connections, (uint32_t)IDLE_CONNECTIONS);
    int error = run_kind(bench, options, &memory);
    return error != 0 ? error : run_kind(bench, &idle, &idleness);
}
