/*
 * Workers: each looks at the slots of the connections that it watches, and sleeps when nothing has come for a while.
 * Other connections notify with each request, and may take the place of a watched one without traffic. Taking and
 * running requests is callee.c's.
 */
#include "fabric/fabric.h"
#include "rpc/connection.h"
#include <errno.h>

#define TURNS_FOR_OTHERS 16             /* rounds with requests before other tasks get their turn */
#define PASS_NS_MIN      BASE_NS_PER_MS /* the least time of a pass of the clock's hand */
#define LOOK_NS          UINT64_C(20000) /* the longest look: a longer one would begin to pause between looks */
#define LEFT_PAUSE_NS    1000 /* pause before a request that cannot be taken yet is looked at again */
#define FORGET_PAUSE_NS  1000 /* pause while the worker still looks at a connection that is to be forgotten */

void rpc_worker_wake(struct rpc_worker *worker)
{
    if (!worker->is_asleep)
        return;
    worker->is_asleep = false;
    task_semaphore_post(&worker->wake);
}

/* ---- what is watched ---------------------------------------------------------------------------- */

static void watch_connection(struct tarn_rpc_connection *connection, uint32_t place)
{
    struct rpc_worker *worker = connection->worker;
    worker->watched[place] = connection;
    connection->is_watched = connection->is_used = true;
    rpc_callee_unmark(connection);
    rpc_count(&worker->counters.watched, 1);
    rpc_count(&worker->counters.moved, 1);
}

static void unwatch_connection(struct tarn_rpc_connection *connection)
{
    connection->is_watched = false;
    rpc_uncount(&connection->worker->counters.watched, 1);
    rpc_count(&connection->worker->counters.moved, 1);
}

/* Have the worker look at a connection until it has no request and its mark is stored. */
static void make_pending(struct tarn_rpc_connection *connection)
{
    base_list_remove(&connection->pending_link);
    base_list_push_back(&connection->worker->pending, &connection->pending_link);
}

/*
 * Find the place of a watched connection without traffic, which loses it. The clock's hand moves slowly, because
 * otherwise, with more busy connections than places, they would take places from each other with every request; and a
 * client learns that it has lost its place only by a READ that finds nothing.
 *
 * @return the place; RPC_WATCHED_MAX: each connection had traffic
 */
static uint32_t find_place(struct rpc_worker *worker)
{
    if (!worker->watches)
        return RPC_WATCHED_MAX;
    if (worker->watched_count < RPC_WATCHED_MAX)
        return worker->watched_count++;
    for (uint32_t i = 0; i < RPC_WATCHED_MAX; i++) {
        const uint32_t place = worker->hand;
        if (place == 0) {
            const uint64_t now_ns = task_now();
            if (now_ns - worker->pass_ns < PASS_NS_MIN)
                return RPC_WATCHED_MAX;
            worker->pass_ns = now_ns;
        }
        struct tarn_rpc_connection *idle = worker->watched[place];
        worker->hand = (worker->hand + 1) % RPC_WATCHED_MAX;
        if (!idle->is_used) {
            unwatch_connection(idle);
            make_pending(idle);
            return place;
        }
        idle->is_used = false;
    }
    return RPC_WATCHED_MAX;
}

void rpc_worker_notified(struct tarn_rpc_connection *connection)
{
    struct rpc_worker *worker = connection->worker;
    rpc_count(&worker->counters.notified, 1);
    if (!connection->is_watched) {
        const uint32_t place = find_place(worker);
        if (place < RPC_WATCHED_MAX)
            watch_connection(connection, place);
        else
            make_pending(connection);
    }
    rpc_worker_wake(worker);
}

void rpc_worker_forget(struct tarn_rpc_connection *connection)
{
    struct rpc_worker *worker = connection->worker;
    base_list_remove(&connection->pending_link);
    if (connection->is_watched) {
        uint32_t place = 0;
        while (worker->watched[place] != connection)
            place++;
        worker->watched[place] = worker->watched[--worker->watched_count];
        worker->hand = 0;
        unwatch_connection(connection);
    }
    while (worker->is_looking)
        (void)task_sleep(FORGET_PAUSE_NS);
}

/* ---- looking ------------------------------------------------------------------------------------ */

/* Serve the watched connections. */
static void serve_watched(struct rpc_worker *worker, struct rpc_found *inout_found)
{
    for (uint32_t i = 0; i < worker->watched_count; i++) {
        struct rpc_found found = rpc_callee_serve(worker->watched[i]);
        inout_found->taken += found.taken;
        inout_found->is_left |= found.is_left;
    }
}

/* Serve the connections that are not watched and may have a request. */
static void serve_pending(struct rpc_worker *worker, struct rpc_found *inout_found)
{
    base_list_for_each_safe(item, &worker->pending) {
        struct tarn_rpc_connection *connection =
            base_container_of(item, struct tarn_rpc_connection, pending_link);
        struct rpc_found found = rpc_callee_serve(connection);
        inout_found->taken += found.taken;
        if (connection->is_watched || connection->error != 0 ||
            (found.taken == 0 && !rpc_callee_mark(connection)))
            base_list_remove(&connection->pending_link);
        else
            inout_found->is_left = true;
    }
}

/* Look until one of the watched words changes. @return 0; -ETIMEDOUT; -ECANCELED */
static int look_at_connections(struct rpc_worker *worker)
{
    uint32_t count = worker->watched_count, changed;
    if (count == 0)
        return -ETIMEDOUT;
    for (uint32_t i = 0; i < count; i++) {
        const struct tarn_rpc_connection *connection = worker->watched[i];
        const uint64_t offset = rpc_request_offset(&connection->geometry, connection->callee.next);
        worker->words[i] = (struct tarn_fabric_word){.region = connection->region, .offset = offset};
        worker->words[i].old = tarn_fabric_mem_load64(connection->region, offset);
        if (worker->words[i].old == connection->callee.next && connection->error == 0)
            return 0; /* a request has come since */
    }
    const uint64_t now_ns = task_now();
    if (worker->idle_since_ns == 0)
        worker->idle_since_ns = now_ns;
    else if (now_ns - worker->idle_since_ns > worker->spin_ns)
        return -ETIMEDOUT;
    worker->is_looking = true;
    int error =
        tarn_fabric_wait_any(worker->words, count, now_ns + base_min(worker->spin_ns, LOOK_NS), &changed);
    worker->is_looking = false;
    return error == -ETIMEDOUT ? 0 : error;
}

/* Sleep, because nothing has come for a while. */
static void sleep_until_notified(struct rpc_worker *worker)
{
    bool is_there = false;
    for (uint32_t i = 0; i < worker->watched_count; i++) {
        struct tarn_rpc_connection *connection = worker->watched[i];
        is_there |= connection->error == 0 && rpc_callee_mark(connection);
    }
    if (is_there || worker->stops || !base_list_empty(&worker->pending))
        return;
    rpc_count(&worker->counters.sleeps, 1);
    worker->is_asleep = true;
    int error = task_semaphore_wait(&worker->wake, TASK_FOREVER);
    base_assert(error == 0); /* workers are never cancelled */
    worker->is_asleep = false;
    worker->idle_since_ns = 0;
    for (uint32_t i = 0; i < worker->watched_count; i++)
        rpc_callee_unmark(worker->watched[i]);
}

void rpc_worker_run(void *arg)
{
    struct rpc_worker *worker = arg;
    uint32_t turns = 0;
    while (!worker->stops) {
        struct rpc_found found = {0};
        serve_watched(worker, &found);
        serve_pending(worker, &found);
        if (found.taken > 0) {
            worker->idle_since_ns = 0;
            if (++turns % TURNS_FOR_OTHERS == 0 || task_sched_runnable(worker->sched))
                task_yield();
        } else if (found.is_left) {
            (void)task_sleep(LEFT_PAUSE_NS);
        } else if (look_at_connections(worker) != 0) {
            sleep_until_notified(worker);
        }
    }
}
