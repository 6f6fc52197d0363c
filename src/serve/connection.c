/*
 * Connections of memcached's clients: from the network to sessions, and back. While a connection is at work it
 * has a task and a struct serve_work; when its input is used up it gives both back. A request of which only a
 * part has come, of a line or of a value, is put away in memory of just that size.
 */
#include "serve/serve_internal.h"
#include <errno.h>

/* How long a task waits for the rest of a request before it puts the first part away. */
#define PATIENCE_NS (20 * BASE_NS_PER_MS)

/* The first part of a request. */
struct put_away {
    struct memcache_session session;
    size_t input_bytes;
    char input[];
};

/* A connection; while it is idle it takes no more memory than this. */
struct connection {
    struct serve_lane *lane;
    struct serve_store *store;
    struct net_connection *net;
    struct put_away *away;  /* the first part of a request; NULL: it is between two requests */
    struct base_list link;  /* place in lane->connections */
    uint64_t number;        /* its number in its lane, counted from 1 */
    _Atomic uint64_t at_ns; /* time of the last input */
    _Atomic bool is_at_work;
    bool is_kicked; /* it was idle for too long, and is about to end */
};

/* ---- all of them --------------------------------------------------------------------------------- */

static void enlist_connection(struct connection *connection)
{
    struct serve_lane *lane = connection->lane;
    base_spin_lock(&lane->connections_lock);
    connection->number = ++lane->connections_number;
    base_list_push_back(&lane->connections, &connection->link);
    base_spin_unlock(&lane->connections_lock);
}

static void delist_connection(struct connection *connection)
{
    base_spin_lock(&connection->lane->connections_lock);
    base_list_remove(&connection->link);
    base_spin_unlock(&connection->lane->connections_lock);
}

uint32_t serve_list_connections(struct serve_lane *lane, const struct serve_store *store, uint64_t after,
                                struct serve_connection_info *ret_infos, uint32_t room)
{
    uint32_t count = 0;
    base_spin_lock(&lane->connections_lock);
    base_list_for_each(item, &lane->connections) {
        const struct connection *connection = base_container_of(item, struct connection, link);
        if (connection->number <= after || connection->store != store)
            continue;
        struct serve_connection_info *info = &ret_infos[count++];
        info->number = connection->number;
        info->at_ns = atomic_load_explicit(&connection->at_ns, memory_order_relaxed);
        info->is_at_work = atomic_load_explicit(&connection->is_at_work, memory_order_relaxed);
        net_peer(connection->net, info->peer, sizeof(info->peer));
        if (count == room)
            break;
    }
    base_spin_unlock(&lane->connections_lock);
    return count;
}

void serve_close_idle(struct serve_lane *lane, uint64_t idle_ns)
{
    const uint64_t now_ns = task_now();
    base_spin_lock(&lane->connections_lock);
    base_list_for_each(item, &lane->connections) {
        struct connection *connection = base_container_of(item, struct connection, link);
        const uint64_t at_ns = atomic_load_explicit(&connection->at_ns, memory_order_relaxed);
        if (connection->is_kicked || connection->is_at_work || now_ns < at_ns || now_ns - at_ns <= idle_ns)
            continue;
        connection->is_kicked = true;
        atomic_fetch_add_explicit(&connection->store->idle_kicks, 1, memory_order_relaxed);
        net_shutdown(connection->net); /* it ends as if the client had closed it */
    }
    base_spin_unlock(&lane->connections_lock);
}

int serve_accepted(struct net_connection *net, void *arg)
{
    struct serve_store *store = arg;
    struct serve *serve = store->serve;
    struct connection *connection = base_alloc(&serve->node->memory, sizeof(*connection));
    if (connection == NULL)
        return -ENOMEM;
    connection->lane = serve_lane_here(serve);
    connection->store = store;
    connection->net = net;
    connection->is_kicked = false;
    atomic_store_explicit(&connection->at_ns, task_now(), memory_order_relaxed);
    enlist_connection(connection);
    net_set_user(net, connection);
    atomic_fetch_add_explicit(&store->connections, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&store->connections_total, 1, memory_order_relaxed);
    return 0;
}

/* ---- half a request ----------------------------------------------------------------------------- */

static size_t put_away_bytes(size_t input_bytes)
{
    return sizeof(struct put_away) + input_bytes;
}

static void free_away(struct connection *connection)
{
    struct put_away *away = connection->away;
    base_free(&connection->lane->serve->node->memory, away, put_away_bytes(away->input_bytes));
    connection->away = NULL;
}

static int put_away(struct connection *connection, const struct memcache_session *session, const char *input,
                    size_t input_bytes)
{
    struct put_away *away = base_alloc(&connection->lane->serve->node->memory, put_away_bytes(input_bytes));
    if (away == NULL)
        return -ENOMEM;
    away->session = *session;
    away->input_bytes = input_bytes;
    memcpy(away->input, input, input_bytes);
    connection->away = away;
    return 0;
}

/* @return number of bytes of input that were put away */
static size_t bring_back(struct connection *connection, struct memcache_session *session, char *input)
{
    memcache_session_init(session, &connection->store->memcache);
    if (connection->away == NULL)
        return 0;
    size_t input_bytes = connection->away->input_bytes;
    *session = connection->away->session;
    memcpy(input, connection->away->input, input_bytes);
    free_away(connection);
    return input_bytes;
}

static void end_connection(struct net_connection *net)
{
    struct connection *connection = net_user(net);
    atomic_fetch_sub_explicit(&connection->store->connections, 1, memory_order_relaxed);
    delist_connection(connection);
    if (connection->away != NULL) {
        memcache_session_deinit(&connection->away->session);
        free_away(connection);
    }
    base_free(&connection->lane->serve->node->memory, connection, sizeof(*connection));
}

/* ---- at work ------------------------------------------------------------------------------------ */

/* A connection at work, on its task's stack. */
struct work {
    struct connection *connection;
    struct net_connection *net;
    struct serve_store *store;
    struct memcache_session session;
    struct memcache_work *memcache;
    char *input;
    size_t input_bytes;
    /* The memory that was read into last: `input`, or the place of a value. */
    char *arrived;
};

static int send_output(void *arg, struct iovec *pieces, uint32_t piece_count)
{
    const struct work *work = arg;
    return net_writev(work->net, pieces, piece_count,
                      task_now() + work->store->serve->options->send_timeout_ns);
}

/* Read input: without waiting between two requests, with a short wait within one. A long value is received in place.
 * @return as net_read() */
static ssize_t read_more(struct work *work)
{
    char *to = work->input + work->input_bytes;
    size_t room = SERVE_INPUT_BYTES - work->input_bytes, place_room;
    char *place = memcache_session_place(&work->session, &place_room);
    work->arrived = work->input;
    if (place != NULL) {
        base_assert(work->input_bytes == 0); /* all input belonged to the value */
        work->arrived = to = place;
        room = place_room;
    }
    ssize_t bytes = net_read_try(work->net, to, room);
    if (bytes != -EAGAIN)
        return bytes;
    int error = memcache_output_flush(&work->store->memcache, &work->memcache->output);
    if (error != 0)
        return error;
    bool idle = work->input_bytes == 0 && memcache_session_is_idle(&work->session);
    return idle ? -EAGAIN : net_read(work->net, to, room, task_now() + PATIENCE_NS);
}

/*
 * Execute requests until there is no more input.
 *
 * @return -EAGAIN (all input is consumed, and the connection idle); -ETIMEDOUT (in the middle of a
 *         request); other errors end the connection
 */
static int execute_requests(struct work *work)
{
    for (bool again = false;; again = true) {
        ssize_t bytes = read_more(work);
        if (bytes <= 0)
            return bytes == 0 ? -ESHUTDOWN : (int)bytes;
        work->memcache->arrived_ns = net_arrived_ns(work->net);
        atomic_store_explicit(&work->connection->at_ns, work->memcache->arrived_ns, memory_order_relaxed);
        if (again) { /* other connections get their turn, even if this client always sends more */
            atomic_fetch_add_explicit(&work->store->yields, 1, memory_order_relaxed);
            task_yield();
        }
        work->input_bytes += (size_t)bytes;
        size_t consumed;
        int error = memcache_session_consume(&work->session, work->memcache, work->arrived, work->input_bytes,
                                             &consumed);
        if (error != 0)
            return error;
        work->input_bytes -= consumed;
        if (work->input_bytes > 0)
            memmove(work->input, work->input + consumed, work->input_bytes);
    }
}

/* Log a client of memcached's binary protocol, because its own log often says only that the server does not answer. */
static void tell_of_binary_peer(struct serve *serve, struct net_connection *net)
{
    char peer[NET_ADDRESS_TEXT_MAX];
    net_peer(net, peer, sizeof(peer));
    base_warn_limited(
        &serve->node->log, &serve->binary_peers, "connection refused",
        "peer=%s reason=\"it speaks memcached's binary protocol, and only the text protocol is served: "
        "set the client to text or ASCII, for instance BINARY_PROTOCOL off\"",
        peer);
}

/* @return false: the connection was closed and freed */
static bool run_session(struct net_connection *net, struct connection *connection, struct serve_work *memory)
{
    struct serve_store *store = connection->store;
    struct work work = {
        .connection = connection,
        .net = net,
        .store = store,
        .memcache = &memory->memcache,
        .input = memory->input,
    };
    memcache_work_init(&memory->memcache, send_output, &work);
    work.input_bytes = bring_back(connection, &work.session, work.input);
    int outcome = execute_requests(&work);
    if (outcome == -EAGAIN)
        return true;
    if (outcome == -ETIMEDOUT && work.memcache->output.error == 0 &&
        put_away(connection, &work.session, work.input, work.input_bytes) == 0)
        return true;
    (void)memcache_output_flush(&store->memcache,
                                &work.memcache->output); /* send the answers from before its end */
    memcache_session_deinit(&work.session);
    if (outcome == -EPROTONOSUPPORT)
        tell_of_binary_peer(store->serve, net);
    net_close(net);
    return false;
}

/* Serve a connection that has input. There is a workspace for every connection that may be served at once. */
static void serve_ready(struct net_connection *net)
{
    struct connection *connection = net_user(net);
    struct serve_lane *lane = connection->lane;
    struct serve_work *memory = base_pool_get(&lane->work);
    base_assert(memory != NULL);
    atomic_store_explicit(&connection->is_at_work, true, memory_order_relaxed);
    if (run_session(net, connection, memory))
        atomic_store_explicit(&connection->is_at_work, false, memory_order_relaxed);
    base_pool_put(&lane->work, memory);
}

const struct net_handler serve_handler = {.ready = serve_ready,
                                          .closed = end_connection,
                                          .task_name = "connection",
                                          .refusal = "ERROR Too many open connections\r\n"};
