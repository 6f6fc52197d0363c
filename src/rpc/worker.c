/*
 * Workers: each looks at the slots of the connections that it watches, and sleeps when nothing has come for a while.
 * What is not watched notifies, and may take the place of what has no traffic.
 */
#include "fabric/fabric.h"
#include "rpc/connection.h"
#include <errno.h>

#define TURNS_FOR_OTHERS 16              /* rounds with something to do, before other tasks have theirs */
#define PASS_NS_MIN      BASE_NS_PER_MS  /* between two passes of the clock's hand */
#define LOOK_NS          UINT64_C(20000) /* at most: what looks at words takes pauses later */
#define LEFT_PAUSE_NS    1000            /* before what cannot be taken yet is looked at again */
#define FORGET_PAUSE_NS  1000            /* while the worker looks at what is to be forgotten */

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

static void unwatch(struct tarn_rpc_connection *connection)
{
    connection->is_watched = false;
    rpc_uncount(&connection->worker->counters.watched, 1);
    rpc_count(&connection->worker->counters.moved, 1);
}

/* Have the worker look at it until nothing is there and the mark is. */
static void make_pending(struct tarn_rpc_connection *connection)
{
    base_list_remove(&connection->pending_link);
    base_list_push_back(&connection->worker->pending, &connection->pending_link);
}

/*
 * The place of a connection without traffic, which loses it. Where more are busy than there are places, they would
 * take them from each other with each request, and a client that has lost its place learns that by a READ that finds nothing:
 * so the hand goes slowly.
 * @return RPC_WATCHED_MAX: each had some
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
            unwatch(idle);
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
        unwatch(connection);
    }
    while (worker->is_looking)
        (void)task_sleep(FORGET_PAUSE_NS);
}

/* ---- looking ------------------------------------------------------------------------------------ */

/* Serve what is watched. */
static void serve_watched(struct rpc_worker *worker, struct rpc_found *inout_found)
{
    for (uint32_t i = 0; i < worker->watched_count; i++) {
        struct rpc_found found = rpc_callee_serve(worker->watched[i]);
        inout_found->taken += found.taken;
        inout_found->is_left |= found.is_left;
    }
}

/* Serve what is not, and might have a request. */
static void serve_pending(struct rpc_worker *worker, struct rpc_found *inout_found)
{
    base_list_for_each_safe(link, &worker->pending) {
        struct tarn_rpc_connection *connection =
            base_container_of(link, struct tarn_rpc_connection, pending_link);
        struct rpc_found found = rpc_callee_serve(connection);
        inout_found->taken += found.taken;
        if (connection->is_watched || connection->error != 0 ||
            (found.taken == 0 && !rpc_callee_mark(connection)))
            base_list_remove(&connection->pending_link);
        else
            inout_found->is_left = true;
    }
}

/* Look until one of the words changes where a number is expected. @return 0; -ETIMEDOUT; -ECANCELED */
static int look_at_connections(struct rpc_worker *worker)
{
    uint32_t count = worker->watched_count, index;
    if (count == 0)
        return -ETIMEDOUT;
    for (uint32_t i = 0; i < count; i++) {
        const struct tarn_rpc_connection *connection = worker->watched[i];
        const uint64_t offset = rpc_request_offset(&connection->geometry, connection->callee.next);
        worker->words[i] = (struct tarn_fabric_word){.region = connection->region, .offset = offset};
        worker->words[i].old = tarn_fabric_mem_load64(connection->region, offset);
        if (worker->words[i].old == connection->callee.next && connection->error == 0)
            return 0; /* it has come since */
    }
    const uint64_t now_ns = task_now();
    if (worker->idle_since_ns == 0)
        worker->idle_since_ns = now_ns;
    else if (now_ns - worker->idle_since_ns > worker->spin_ns)
        return -ETIMEDOUT;
    worker->is_looking = true;
    int error =
        tarn_fabric_wait_any(worker->words, count, now_ns + base_min(worker->spin_ns, LOOK_NS), &index);
    worker->is_looking = false;
    return error == -ETIMEDOUT ? 0 : error;
}

/* Nothing has come for a while. */
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
    base_assert(error == 0); /* nobody cancels a worker */
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
