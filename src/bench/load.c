/* The load on a server: one thread around epoll, in a closed loop or an open one; or it stores all keys. */
#include "bench/load.h"

#include "task/task.h"
#include <errno.h>
#include <inttypes.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 256,
    ROOM_BYTES = 64 << 10,
    WARM_UP_SHARE = 10, /* a tenth of the time comes before what counts */
    FILL_PIPELINE = 16,
};

#define PATIENCE_NS (10 * BASE_NS_PER_SECOND)
#define SLEEP_NS    BASE_NS_PER_MS /* at most, where there is one core for both sides */

/* A request in flight. */
struct request {
    uint64_t begin_ns; /* open loop: when it was to start */
    bool set;
    uint32_t key_count;
};

struct connection {
    int fd; /* -1: not open */
    uint32_t index;
    struct bench_parser parser;
    struct request *requests; /* a ring of load->pipeline */
    uint64_t *numbers;        /* of their keys, keys_per_get for each */
    uint32_t first;           /* the one that is answered next */
    uint32_t in_flight;
    uint64_t issued; /* open loop: requests so far */
    char *out;       /* requests that the socket has not taken yet: out_room */
    size_t out_begin, out_end;
};

enum goal { FILL, CLOSED_LOOP, OPEN_LOOP };

struct run {
    const struct bench_load *load;
    int epoll;
    struct connection *connections;
    uint32_t pipeline_max; /* that connections have room for */
    size_t out_room;       /* of a connection */
    uint64_t patience_ns;
    struct base_random random;
    uint64_t read_below; /* 63 random bits below this make a get */
    uint64_t generation; /* of the next value */
    char *room;          /* ROOM_BYTES */

    /* the measurement under way */
    enum goal goal;
    uint32_t pipeline;
    struct bench_load_outcome *outcome;
    uint64_t now_ns;
    uint64_t count_from_ns; /* warm by then */
    uint64_t end_ns;        /* nothing counts, and nothing of a closed loop starts, from then on */
    uint64_t answered_ns;   /* when the last answer came */
    uint64_t idle_ns;
    uint64_t in_flight; /* of all connections */
    uint64_t next;      /* FILL: the next key. OPEN_LOOP: the next request to be looked at */
    uint64_t total;     /* of them */
    uint64_t started;   /* OPEN_LOOP: requests issued or given up */
    uint64_t answered;  /* requests */
    struct bench_schedule schedule;
    struct base_progress progress; /* FILL */
};

/* ---- connections --------------------------------------------------------------------------------- */

static int fail(const struct run *run, int error, const char *what)
{
    return bench_fail(run->load->bench, error, "%s: %s", run->load->name, what);
}

static int open_connection(struct run *run, struct connection *connection)
{
    const struct bench_load *load = run->load;
    struct base_account *account = load->bench->account;
    bench_parser_init(&connection->parser, load->protocol, load->values);
    connection->requests = base_alloc(account, run->pipeline_max * sizeof(*connection->requests));
    connection->numbers =
        base_alloc(account, (size_t)run->pipeline_max * load->keys_per_get * sizeof(*connection->numbers));
    connection->out = base_alloc(account, run->out_room);
    if (connection->requests == NULL || connection->numbers == NULL || connection->out == NULL)
        return fail(run, -ENOMEM, "connections");
    connection->fd = memcache_client_connect(load->address);
    if (connection->fd < 0)
        return fail(run, connection->fd, "connect (does it run, and does it take so many connections?)");
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = connection};
    if (epoll_ctl(run->epoll, EPOLL_CTL_ADD, connection->fd, &event) != 0)
        return fail(run, -errno, "epoll");
    return 0;
}

static void close_connection(struct run *run, struct connection *connection)
{
    const struct bench_load *load = run->load;
    struct base_account *account = load->bench->account;
    if (connection->fd >= 0)
        (void)close(connection->fd);
    base_free(account, connection->requests, run->pipeline_max * sizeof(*connection->requests));
    base_free(account, connection->numbers,
              (size_t)run->pipeline_max * load->keys_per_get * sizeof(*connection->numbers));
    base_free(account, connection->out, run->out_room);
}

static int open_all(struct run *run)
{
    const struct bench_load *load = run->load;
    int error = 0;
    run->room = base_alloc(load->bench->account, ROOM_BYTES);
    run->connections = base_alloc(load->bench->account, load->connections * sizeof(*run->connections));
    run->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (run->room == NULL || run->connections == NULL)
        return fail(run, -ENOMEM, "connections");
    for (uint32_t i = 0; i < load->connections; i++)
        run->connections[i] = (struct connection){.fd = -1, .index = i};
    if (run->epoll < 0)
        return fail(run, -errno, "epoll");
    for (uint32_t i = 0; i < load->connections && error == 0; i++)
        error = open_connection(run, &run->connections[i]);
    return error;
}

static void close_all(struct run *run)
{
    const struct bench_load *load = run->load;
    for (uint32_t i = 0; i < load->connections && run->connections != NULL; i++)
        close_connection(run, &run->connections[i]);
    if (run->epoll >= 0)
        (void)close(run->epoll);
    base_free(load->bench->account, run->connections, load->connections * sizeof(*run->connections));
    base_free(load->bench->account, run->room, ROOM_BYTES);
}

/* ---- requests ------------------------------------------------------------------------------------ */

static uint64_t *numbers_of(const struct run *run, const struct connection *connection, uint32_t slot)
{
    return connection->numbers + (size_t)slot * run->load->keys_per_get;
}

/* The requests that the socket has not taken move to the beginning, where the next would not fit. */
static char *room_for_request(const struct run *run, struct connection *connection, size_t bytes)
{
    if (run->out_room - connection->out_end < bytes) {
        memmove(connection->out, connection->out + connection->out_begin,
                connection->out_end - connection->out_begin);
        connection->out_end -= connection->out_begin;
        connection->out_begin = 0;
    }
    base_assert(run->out_room - connection->out_end >= bytes);
    return connection->out + connection->out_end;
}

static void expect_next(const struct run *run, struct connection *connection)
{
    const struct request *request = &connection->requests[connection->first];
    bench_parser_expect(&connection->parser, request->set, numbers_of(run, connection, connection->first),
                        request->key_count);
}

/* Write one more request. There is room for it. */
static void issue(struct run *run, struct connection *connection, uint64_t begin_ns)
{
    const struct bench_load *load = run->load;
    uint32_t slot = connection->first + connection->in_flight;
    slot -= slot >= run->pipeline ? run->pipeline : 0;
    bool set = run->goal == FILL || base_random_u64(&run->random) >> 1 >= run->read_below;
    struct request *request = &connection->requests[slot];
    uint64_t *numbers = numbers_of(run, connection, slot);
    *request = (struct request){.begin_ns = begin_ns, .set = set, .key_count = set ? 1 : load->keys_per_get};
    for (uint32_t i = 0; i < request->key_count; i++)
        numbers[i] = run->goal == FILL ? run->next++ : bench_keys_draw(load->keys, &run->random);
    char *to = room_for_request(run, connection,
                                bench_request_room(request->key_count, set ? load->values->bytes : 0));
    connection->out_end +=
        set ? bench_write_set(load->protocol, load->values, numbers[0], run->generation++, to)
            : bench_write_get(load->protocol, numbers, request->key_count, to);
    connection->in_flight++;
    run->in_flight++;
    if (connection->in_flight == 1)
        expect_next(run, connection);
}

/* Write what is due on a connection, as far as it may have more in flight. */
static void issue_due(struct run *run, struct connection *connection)
{
    while (connection->in_flight < run->pipeline) {
        if (run->goal == OPEN_LOOP) {
            uint64_t number = connection->issued * run->load->connections + connection->index;
            uint64_t begin_ns = bench_schedule_at(&run->schedule, number);
            if (number >= run->total || begin_ns > run->now_ns)
                return;
            connection->issued++;
            run->started++;
            issue(run, connection, begin_ns);
        } else {
            if (run->goal == FILL ? run->next >= run->total : run->now_ns >= run->end_ns)
                return;
            issue(run, connection, run->now_ns);
        }
    }
}

/* Send what has been written, as far as the socket takes it; an event comes when it takes more. */
static int send_out(const struct run *run, struct connection *connection)
{
    size_t bytes = connection->out_end - connection->out_begin;
    if (bytes == 0)
        return 0;
    ssize_t sent =
        send(connection->fd, connection->out + connection->out_begin, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : fail(run, -errno, "send");
    connection->out_begin += (size_t)sent;
    if (connection->out_begin == connection->out_end)
        connection->out_begin = connection->out_end = 0;
    return 0;
}

/* ---- answers ------------------------------------------------------------------------------------- */

static void count_answer(struct run *run, const struct request *request, uint32_t hits)
{
    struct bench_load_outcome *outcome = run->outcome;
    outcome->all_keys += request->key_count;
    if (!request->set) {
        outcome->gets += request->key_count;
        outcome->hits += hits;
    }
    if (run->now_ns >= run->count_from_ns && run->now_ns < run->end_ns)
        outcome->keys += request->key_count;
    if (outcome->latency != NULL && request->begin_ns >= run->count_from_ns &&
        request->begin_ns < run->end_ns)
        base_histogram_add(outcome->latency, run->now_ns - request->begin_ns);
}

/* Take the answers in what has arrived. */
static int take_answers(struct run *run, struct connection *connection, const char *data, size_t bytes)
{
    while (bytes > 0) {
        size_t used;
        if (connection->in_flight == 0)
            return fail(run, -EBADMSG, "it sent what was not asked for");
        int result = bench_parse(&connection->parser, data, bytes, &used);
        if (result < 0)
            return fail(run, result, connection->parser.wrong);
        data += used;
        bytes -= used;
        if (result == 0)
            break;
        count_answer(run, &connection->requests[connection->first], connection->parser.hits);
        run->answered_ns = run->now_ns;
        run->answered++;
        run->in_flight--;
        connection->in_flight--;
        connection->first = connection->first + 1 == run->pipeline ? 0 : connection->first + 1;
        if (connection->in_flight > 0)
            expect_next(run, connection);
    }
    return 0;
}

/* Read all that has come: what does not fill the room has emptied the socket, and the next arrival is a new
 * event. */
static int receive(struct run *run, struct connection *connection)
{
    ssize_t got;
    int error = 0;
    do {
        got = recv(connection->fd, run->room, ROOM_BYTES, MSG_DONTWAIT);
        if (got == 0)
            return fail(run, -EPIPE, "it closed a connection");
        if (got < 0 && errno == EINTR)
            got = ROOM_BYTES;
        else if (got < 0)
            return errno == EAGAIN ? 0 : fail(run, -errno, "receive");
        else
            error = take_answers(run, connection, run->room, (size_t)got);
    } while (got == ROOM_BYTES && error == 0);
    return error;
}

static int handle(struct run *run, struct connection *connection, uint32_t events)
{
    int error = 0;
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        run->now_ns = task_now();
        error = receive(run, connection);
    }
    if (error != 0)
        return error;
    issue_due(run, connection);
    return send_out(run, connection);
}

/* ---- turns --------------------------------------------------------------------------------------- */

/* Requests of an open loop that have become due, in their order; a connection that is full issues its own
 * when it is answered. */
static int start_due(struct run *run)
{
    const uint32_t count = run->load->connections;
    uint64_t due = base_min(bench_schedule_due(&run->schedule, run->now_ns), run->total);
    uint64_t until = base_min(due, run->next + count); /* each connection once issues all that is due */
    int error = 0;
    for (uint64_t number = run->next; number < until && error == 0; number++) {
        struct connection *connection = &run->connections[number % count];
        issue_due(run, connection);
        error = send_out(run, connection);
    }
    run->next = due;
    return error;
}

static int start_all(struct run *run)
{
    int error = 0;
    for (uint32_t i = 0; i < run->load->connections && error == 0; i++) {
        run->now_ns = task_now();
        issue_due(run, &run->connections[i]);
        error = send_out(run, &run->connections[i]);
    }
    return error;
}

static int turn(struct run *run, bool spin)
{
    struct epoll_event events[EVENTS_MAX];
    const struct timespec timeout = {.tv_nsec = spin ? 0 : (long)SLEEP_NS};
    int error = 0;
    uint64_t begin_ns = run->now_ns = task_now();
    if (run->goal == OPEN_LOOP) {
        error = start_due(run);
        if (error != 0)
            return error;
    }
    int count = epoll_pwait2(run->epoll, events, EVENTS_MAX, &timeout, NULL);
    if (count < 0 && errno != EINTR)
        return fail(run, -errno, "epoll");
    for (int i = 0; i < count && error == 0; i++)
        error = handle(run, events[i].data.ptr, events[i].events);
    if (error == 0 && count <= 0) {
        run->now_ns = task_now();
        if (begin_ns >= run->count_from_ns && run->now_ns < run->end_ns)
            run->idle_ns += run->now_ns - begin_ns;
        if (run->in_flight > 0 && run->now_ns > run->answered_ns + run->patience_ns)
            error = fail(run, -ETIMEDOUT, "it has not answered anything for a while");
    }
    if (run->in_flight == 0)
        run->answered_ns = run->now_ns;
    return error;
}

/* What was due and has not started waited at least until now: it will never start. */
static void give_up(struct run *run)
{
    const uint32_t count = run->load->connections;
    for (uint32_t i = 0; i < count; i++) {
        struct connection *connection = &run->connections[i];
        for (;;) {
            uint64_t number = connection->issued * count + i;
            if (number >= run->total)
                break;
            uint64_t begin_ns = bench_schedule_at(&run->schedule, number);
            connection->issued++;
            run->started++;
            if (run->outcome->latency != NULL && begin_ns >= run->count_from_ns && begin_ns < run->end_ns)
                base_histogram_add(run->outcome->latency, run->now_ns - begin_ns);
        }
    }
}

/* Whether there is nothing more to do. */
static bool is_done(struct run *run)
{
    switch (run->goal) {
    case FILL:
        return run->answered >= run->total;
    case CLOSED_LOOP:
        return run->in_flight == 0 && run->now_ns >= run->end_ns;
    case OPEN_LOOP:
        if (run->started < run->total && run->now_ns > run->end_ns + run->outcome->elapsed_ns)
            give_up(run);
        return run->in_flight == 0 && run->started >= run->total;
    }
    return true;
}

/* ---- runs ---------------------------------------------------------------------------------------- */

/* @param pipeline_max  most requests that are ever in flight on a connection */
static int open_run(struct run *run, const struct bench_load *load, uint32_t pipeline_max)
{
    *run = (struct run){.load = load, .epoll = -1, .pipeline_max = pipeline_max};
    run->patience_ns = load->patience_ns > 0 ? load->patience_ns : PATIENCE_NS;
    run->out_room = pipeline_max * bench_request_room(load->keys_per_get, load->values->bytes);
    base_random_init(&run->random, load->seed);
    run->generation = base_random_u64(&run->random);
    run->read_below = (uint64_t)(load->read_share * (double)(UINT64_C(1) << 63));
    int error = open_all(run);
    if (error != 0)
        close_all(run);
    return error;
}

/* Nothing has happened yet, and nothing is in flight. */
static void begin_run(struct run *run, enum goal goal, uint32_t pipeline, struct bench_load_outcome *outcome)
{
    *outcome = (struct bench_load_outcome){.latency = outcome->latency};
    run->goal = goal;
    run->pipeline = pipeline;
    run->outcome = outcome;
    run->count_from_ns = run->end_ns = UINT64_MAX;
    run->idle_ns = run->next = run->started = run->answered = 0;
    run->total = goal == FILL ? run->load->keys->count : 0;
    for (uint32_t i = 0; i < run->load->connections; i++) {
        run->connections[i].first = 0;
        run->connections[i].issued = 0;
    }
}

/* When it begins, what counts, and when it ends. */
static void set_times(struct run *run, uint64_t rate)
{
    uint64_t duration_ns = run->load->bench->options.duration_ns;
    uint64_t begin_ns = task_now();
    run->count_from_ns = begin_ns + duration_ns / WARM_UP_SHARE;
    run->end_ns = run->count_from_ns + duration_ns;
    run->outcome->elapsed_ns = duration_ns;
    if (run->goal == OPEN_LOOP) {
        run->schedule = (struct bench_schedule){.start_ns = begin_ns, .rate = rate};
        run->total = bench_schedule_due(&run->schedule, run->end_ns);
    }
}

/* Wait until it is time for more than what is stored. */
static void keep_to_fill_rate(const struct run *run, uint64_t begin_ns)
{
    const struct bench_schedule schedule = {.start_ns = begin_ns, .rate = run->load->fill_rate};
    if (schedule.rate > 0)
        (void)task_sleep_until(bench_schedule_at(&schedule, run->answered));
}

static int take_turns(struct run *run)
{
    const uint64_t begin_ns = task_now();
    bool spin = bench_has_two_cores(&run->load->bench->machine);
    run->answered_ns = run->now_ns = task_now();
    int error = run->goal == OPEN_LOOP ? 0 : start_all(run);
    while (error == 0 && !is_done(run)) {
        error = turn(run, spin);
        if (run->goal == FILL) {
            base_progress_update(&run->progress, run->answered);
            keep_to_fill_rate(run, begin_ns);
        }
    }
    return error;
}

/* ---- sessions: all is done on the second core ---------------------------------------------------- */

struct bench_load_session {
    struct bench_load load;
    struct run run;
};

int bench_load_open(const struct bench_load *load, struct bench_load_session **ret_session)
{
    struct bench *bench = load->bench;
    struct bench_load_session *session = base_alloc(bench->account, sizeof(*session));
    if (session == NULL)
        return bench_fail(bench, -ENOMEM, "%s", load->name);
    session->load = *load;
    bench_pin(&bench->machine, 1);
    int error = open_run(&session->run, &session->load, load->pipeline);
    bench_unpin(&bench->machine);
    if (error != 0)
        base_free(bench->account, session, sizeof(*session));
    else
        *ret_session = session;
    return error;
}

void bench_load_close(struct bench_load_session *session)
{
    close_all(&session->run);
    base_free(session->load.bench->account, session, sizeof(*session));
}

int bench_load_measure(struct bench_load_session *session, uint32_t pipeline, uint64_t rate,
                       struct bench_load_outcome *outcome)
{
    struct run *run = &session->run;
    const struct bench_machine *machine = &session->load.bench->machine;
    base_assert(pipeline <= run->pipeline_max);
    bench_pin(machine, 1);
    begin_run(run, rate > 0 ? OPEN_LOOP : CLOSED_LOOP, pipeline, outcome);
    set_times(run, rate);
    int error = take_turns(run);
    bench_unpin(machine);
    if (error == 0)
        outcome->busy_share = 1 - (double)run->idle_ns / (double)outcome->elapsed_ns;
    return error;
}

int bench_load_run(const struct bench_load *load, struct bench_load_outcome *outcome)
{
    struct bench_load_session *session = NULL;
    int error = bench_load_open(load, &session);
    if (session == NULL)
        return error;
    error = bench_load_measure(session, load->pipeline, load->rate, outcome);
    bench_load_close(session);
    return error;
}

int bench_load_fill(const struct bench_load *load)
{
    struct run run;
    struct bench_load_outcome outcome = {.latency = NULL};
    struct bench *bench = load->bench;
    bench_pin(&bench->machine, 1);
    int error = open_run(&run, load, FILL_PIPELINE);
    if (error == 0) {
        begin_run(&run, FILL, FILL_PIPELINE, &outcome);
        bench_progress_init(bench, &run.progress, load->name, "keys", load->keys->count);
        error = take_turns(&run);
        base_progress_end(&run.progress);
        close_all(&run);
    }
    bench_unpin(&bench->machine);
    return error;
}
