/* `tarn-lab echo`: running the servers and their load in turn, and reporting rates and idle cost. */
#include "lab/echo.h"

#include "task/task.h"
#include <errno.h>
#include <sys/resource.h>

enum {
    SPARE_DESCRIPTORS = 64,
    SIDES = 2,
    IDLE_TIMES = 6, /* durations for which an idle server is observed */
    IDLE_CONNECTIONS = 1000,
};

#define PATIENCE_NS (60 * BASE_NS_PER_SECOND) /* beyond the time that a run takes anyway */

/* One server and what loads it. */
struct side {
    const char *name;
    int (*serve)(void *arg);
    struct bench *bench;
    struct lab_echo_server options;
    struct lab_child server;
    struct lab_child load;
    struct lab_echo_state hello;
    bool serving;
    bool loading;
    const char *skipped; /* why it cannot be measured here, or NULL */
    uint64_t rate;       /* of the run that is measured; 0: closed loop */
    struct lab_echo_answer *answer;
};

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

static int order_load(struct side *side, enum lab_echo_order order, uint32_t connections)
{
    const struct bench_options *options = &side->bench->options;
    struct lab_echo_request request = {.order = order,
                                       .port = side->hello.port,
                                       .connections = connections,
                                       .duration_ns = options->duration_ns,
                                       .rate = side->rate,
                                       .spin = bench_has_two_cores(&side->bench->machine)};
    int error = lab_child_call(&side->load, &request, sizeof(request), side->answer, sizeof(*side->answer),
                               2 * options->duration_ns + PATIENCE_NS);
    return error != 0 ? error : side->answer->error;
}

static int open_side(struct side *side)
{
    if (side->skipped != NULL)
        return 0;
    side->answer = base_alloc(side->bench->account, sizeof(*side->answer));
    if (side->answer == NULL)
        return -ENOMEM;
    int error = lab_child_start(&side->server, &side->bench->machine, 0, side->serve, &side->options);
    if (error != 0)
        return error;
    side->serving = true;
    error = ask_server(side, true, &side->hello);
    if (error == -ENOTSUP) {
        side->skipped = "the kernel does not offer this engine here";
        return 0;
    }
    if (error != 0)
        return error;
    error = lab_child_start(&side->load, &side->bench->machine, 1, lab_echo_load, &side->options);
    side->loading = error == 0;
    return error;
}

/* End both processes. @return whether a server ended as it should */
static int close_side(struct side *side)
{
    int error = 0;
    if (side->loading)
        error = lab_child_stop(&side->load);
    if (side->serving) {
        int server_error = lab_child_stop(&side->server);
        error = error != 0 ? error : server_error;
    }
    base_free(side->bench->account, side->answer, sizeof(*side->answer));
    return error;
}

static int connect_side(struct side *side, uint32_t connections)
{
    return side->skipped != NULL ? 0 : order_load(side, LAB_ECHO_CONNECT, connections);
}

/* ---- both sides together ----------------------------------------------------------------------- */

/* Raise the limit of connections in a process as far as possible. @return whether it suffices */
static bool allow_connections(uint32_t connections)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit.rlim_cur >= connections + SPARE_DESCRIPTORS;
}

static void init_sides(struct side *sides, struct bench *bench, const struct lab_echo_options *options,
                       uint32_t connections)
{
    const struct lab_echo_server server = {.bench = bench,
                                           .engine = options->engine,
                                           .spin_ns = options->spin_ns,
                                           .connections_max = connections};
    sides[0] = (struct side){.name = "tarn", .serve = lab_echo_tarn, .bench = bench, .options = server};
    sides[1] = (struct side){.name = "epoll", .serve = lab_echo_epoll, .bench = bench, .options = server};
    if (!allow_connections(connections))
        sides[0].skipped = sides[1].skipped =
            "more connections than the limit of open files allows (ulimit -n)";
}

static int open_sides(struct side *sides)
{
    for (int i = 0; i < SIDES; i++) {
        int error = open_side(&sides[i]);
        if (error != 0)
            return bench_fail(sides[i].bench, error, "echo: start %s", sides[i].name);
    }
    return 0;
}

static int close_sides(struct side *sides, int error)
{
    for (int i = 0; i < SIDES; i++) {
        int closing = close_side(&sides[i]);
        if (error == 0 && closing != 0)
            error = bench_fail(sides[i].bench, closing, "echo: the end of %s", sides[i].name);
    }
    return error;
}

static int open_case(struct side *sides, const char *name, const char *unit, uint32_t connections,
                     int (*measure)(void *arg, struct bench_sample *sample), struct bench_case **ret_case)
{
    int error = bench_case_open(sides[0].bench, name, unit, ret_case);
    if (error != 0)
        return error;
    bench_case_number(*ret_case, "connections", connections);
    bench_case_text(*ret_case, "engine", sides[0].skipped != NULL ? "none" : sides[0].hello.engine);
    bench_case_number(*ret_case, "spin_ns", sides[0].options.spin_ns);
    for (int i = 0; i < SIDES; i++)
        bench_case_subject(*ret_case, sides[i].name, measure, &sides[i]);
    return 0;
}

/* ---- rates ------------------------------------------------------------------------------------- */

static int measure_rate(void *arg, struct bench_sample *sample)
{
    struct side *side = arg;
    struct lab_echo_state before;
    struct lab_echo_state after;
    sample->skipped = side->skipped;
    if (side->skipped != NULL)
        return 0;
    int error = ask_server(side, false, &before);
    if (error == 0)
        error = order_load(side, LAB_ECHO_RUN, side->options.connections_max);
    if (error == 0)
        error = ask_server(side, false, &after);
    if (error != 0)
        return error;
    sample->operations = side->answer->operations;
    sample->elapsed_ns = side->answer->elapsed_ns;
    base_histogram_merge(sample->latency, &side->answer->latency);
    double echoes = (double)base_max(side->answer->all, UINT64_C(1));
    sample->values[0] = (double)(after.usage.processor_ns - before.usage.processor_ns) / echoes;
    sample->values[1] = (double)(after.usage.sleeps - before.usage.sleeps) / echoes;
    return 0;
}

/* The rate of the open loop, if none was asked for: half of what the slower side does. */
static uint64_t half_rate(const struct bench_case *closed)
{
    double slowest = 0;
    for (size_t i = 0; i < closed->subject_count; i++) {
        const struct bench_subject *subject = &closed->subjects[i];
        double rate = subject->skipped != NULL ? 0 : bench_summarize(subject->rates, closed->repeats).median;
        if (rate > 0 && (slowest <= 0 || rate < slowest))
            slowest = rate;
    }
    return base_max((uint64_t)(slowest / 2), UINT64_C(1));
}

/* @param rate  0: closed loop. @param ret_half  half of the slower side's rate; may be NULL */
static int run_loop(struct side *sides, uint32_t connections, uint64_t rate, uint64_t *ret_half)
{
    struct bench_case *loop;
    int error = open_case(sides, "echo", "echoes/s", connections, measure_rate, &loop);
    if (error != 0)
        return error;
    bench_case_text(loop, "loop", rate == 0 ? "closed" : "open");
    if (rate > 0)
        bench_case_number(loop, "rate", rate);
    bench_case_number(loop, "message_bytes", LAB_ECHO_BYTES);
    bench_case_value(loop, "server_ns"); /* processor time of the server for an echo */
    bench_case_value(loop, "server_sleeps");
    for (int i = 0; i < SIDES; i++)
        sides[i].rate = rate;
    error = bench_case_run(loop);
    if (error == 0 && ret_half != NULL)
        *ret_half = half_rate(loop);
    bench_case_close(loop);
    return error;
}

int lab_echo_run(struct bench *bench, const struct lab_echo_options *options)
{
    struct side sides[SIDES];
    uint64_t rate = options->rate;
    init_sides(sides, bench, options, options->connections);
    int error = open_sides(sides);
    for (int i = 0; i < SIDES && error == 0; i++) {
        error = connect_side(&sides[i], options->connections);
        if (error != 0)
            (void)bench_fail(bench, error, "echo: connect to %s", sides[i].name);
    }
    if (error == 0)
        error = run_loop(sides, options->connections, 0, rate == 0 ? &rate : NULL);
    if (error == 0)
        error = run_loop(sides, options->connections, rate, NULL);
    return close_sides(sides, error);
}

/* ---- idle -------------------------------------------------------------------------------------- */

/*
 * Memory of a connection that was used and is idle now: from one connection to all of them, which have
 * each carried messages.
 */
static int measure_memory(void *arg, struct bench_sample *sample)
{
    struct side *side = arg;
    struct lab_echo_state before;
    struct lab_echo_state after;
    uint32_t connections = side->options.connections_max;
    sample->skipped = side->skipped;
    if (side->skipped != NULL)
        return 0;
    int error = connect_side(side, 1);
    if (error == 0)
        error = order_load(side, LAB_ECHO_RUN, 1);
    if (error == 0)
        error = ask_server(side, false, &before);
    if (error == 0)
        error = connect_side(side, connections);
    if (error == 0)
        error = order_load(side, LAB_ECHO_RUN, connections);
    if (error != 0)
        return error;
    (void)task_sleep(side->bench->options.duration_ns); /* until it is idle */
    error = ask_server(side, false, &after);
    if (error != 0)
        return error;
    double grown = (double)after.usage.resident_bytes - (double)before.usage.resident_bytes;
    sample->values[0] = grown / (double)base_max(connections - 1, 1U);
    sample->values[1] = (double)after.usage.resident_bytes;
    return 0;
}

/* What a server does with connections on which nothing comes. */
static int measure_idle(void *arg, struct bench_sample *sample)
{
    struct side *side = arg;
    struct lab_echo_state before;
    struct lab_echo_state after;
    sample->skipped = side->skipped;
    if (side->skipped != NULL)
        return 0;
    int error = connect_side(side, side->options.connections_max);
    if (error == 0)
        error = order_load(side, LAB_ECHO_RUN, side->options.connections_max);
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

static int run_memory(struct side *sides, uint32_t connections)
{
    struct bench_case *memory;
    int error = open_case(sides, "echo-memory", "bytes", connections, measure_memory, &memory);
    if (error != 0)
        return error;
    memory->repeats = 1; /* a process grows once */
    bench_case_value(memory, "connection_bytes");
    bench_case_value(memory, "resident_bytes");
    error = bench_case_run(memory);
    bench_case_close(memory);
    return error;
}

static int run_idle(struct side *sides, uint32_t connections)
{
    struct bench_case *idle;
    int error = open_case(sides, "echo-idle", "wakeups/s", connections, measure_idle, &idle);
    if (error != 0)
        return error;
    idle->repeats = 1;
    bench_case_value(idle, "wakeups_per_second");
    bench_case_value(idle, "processor_percent");
    error = bench_case_run(idle);
    bench_case_close(idle);
    return error;
}

static int run_fresh(struct bench *bench, const struct lab_echo_options *options, uint32_t connections,
                     int (*run)(struct side *sides, uint32_t connections))
{
    struct side sides[SIDES];
    init_sides(sides, bench, options, connections);
    int error = open_sides(sides);
    if (error == 0)
        error = run(sides, connections);
    return close_sides(sides, error);
}

int lab_echo_run_idle(struct bench *bench, const struct lab_echo_options *options)
{
    int error = run_fresh(bench, options, options->connections, run_memory);
    if (error == 0)
        error =
            run_fresh(bench, options, base_min(options->connections, (uint32_t)IDLE_CONNECTIONS), run_idle);
    return error;
}
