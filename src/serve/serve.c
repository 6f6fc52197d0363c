/* The server: opening its parts in order, and closing them in order. */
#include "serve/serve.h"
#include "base/base.h"
#include "depot/depot.h"
#include "drive/drive.h"
#include "serve/serve_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tarn/tarn.h>
#include <unistd.h>

#define CONNECTIONS_POLL_NS BASE_NS_PER_MS
#define IDLE_POLL_NS        BASE_NS_PER_SECOND

#define REQUESTS_MIN 64 /* of a lane's requests that may have tasks of their own at once */
#define REQUESTS_MAX 4096

/* ---- schedulers ---------------------------------------------------------------------------------- */

static uint32_t threads_wanted(const struct serve_options *options)
{
    if (options->threads != 0)
        return (uint32_t)options->threads;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors < 1 ? 1 : (uint32_t)base_min(processors, (long)TASK_SCHEDS_MAX);
}

/* How many things of a lane have room in its part of a share of the memory, within limits. @param parts  the share is 1 / parts */
static uint32_t count_in_share(const struct serve *serve, uint32_t parts, uint64_t bytes_each, uint32_t least,
                               uint32_t most)
{
    uint64_t count = serve->options->memory_bytes / parts / serve->lane_room / bytes_each;
    return (uint32_t)base_max(base_min(count, (uint64_t)most), (uint64_t)least);
}

/* The number of a lane's connections that may be at work at once. */
static uint32_t work_wanted(const struct serve *serve)
{
    return count_in_share(serve, SERVE_WORK_SHARE, sizeof(struct serve_work), SERVE_WORK_MIN, SERVE_WORK_MAX);
}

/* The number of a lane's requests that may have tasks of their own: what comes beyond is carried out by the tasks of
 * the connections. */
static uint32_t requests_wanted(const struct serve *serve)
{
    return count_in_share(serve, SERVE_STACK_SHARE, TASK_STACK_BYTES, REQUESTS_MIN, REQUESTS_MAX);
}

static int open_lane(struct serve *serve, struct serve_lane *lane)
{
    uint32_t work_max = work_wanted(serve);
    const struct task_sched_options options = {.spin_ns = serve->options->spin_ns,
                                               .tasks_max = work_max + requests_wanted(serve) +
                                                            serve_kv_listener_tasks(serve)};
    lane->serve = serve;
    task_group_init(&lane->keeper);
    base_spin_init(&lane->connections_lock);
    base_list_init(&lane->connections);
    base_pool_init(&lane->work, &serve->node->memory, sizeof(struct serve_work), 0, work_max, work_max);
    int error = base_pool_reserve(&lane->work, work_max);
    if (error == 0)
        error = task_sched_open(serve->node, &options, &lane->sched);
    if (error == 0 && (error = net_limit_tasks(lane->sched, work_max)) != 0)
        task_sched_close(lane->sched);
    if (error != 0)
        base_pool_deinit(&lane->work);
    return error;
}

static int open_lanes(struct serve *serve)
{
    serve->lane_room = threads_wanted(serve->options);
    serve->lanes = base_alloc(&serve->node->memory, serve->lane_room * sizeof(*serve->lanes));
    if (serve->lanes == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < serve->lane_room; i++) {
        int error = open_lane(serve, &serve->lanes[i]);
        if (error != 0)
            return error;
        serve->lane_count++;
    }
    return 0;
}

struct serve_lane *serve_lane_here(struct serve *serve)
{
    struct serve_lane *lane = NULL;
    for (uint32_t i = 0; i < serve->lane_count; i++) {
        if (serve->lanes[i].sched == task_sched_self())
            lane = &serve->lanes[i];
    }
    base_assert(lane != NULL);
    return lane;
}

static void close_lanes(struct serve *serve)
{
    for (uint32_t i = 0; i < serve->lane_count; i++) {
        task_sched_close(serve->lanes[i].sched); /* this also closes its connections, which are idle */
        base_pool_deinit(&serve->lanes[i].work);
    }
    if (serve->lanes != NULL)
        base_free(&serve->node->memory, serve->lanes, serve->lane_room * sizeof(*serve->lanes));
}

/* ---- threads -------------------------------------------------------------------------------------- */

/*
 * A task of each lane, from the lane's beginning to its end, so that stopping needs no memory. At the end it
 * closes the listeners of its lane and ends the lane's connections; until all lanes have closed their listeners, new
 * connections may still be dealt to it.
 */
static void keep_lane(void *arg)
{
    struct serve *serve = arg;
    struct task_sched *sched = task_sched_self();
    int value;
    if (serve->hooks->begin != NULL)
        serve->hooks->begin(serve->node);
    const uint64_t idle_ns = serve_idle_timeout_ns(serve->options);
    while (task_shared_future_wait(&serve->stop, idle_ns == 0 ? TASK_FOREVER : task_now() + IDLE_POLL_NS,
                                   &value) != 0)
        if (idle_ns != 0)
            serve_close_idle(serve_lane_here(serve), idle_ns);
    serve_listeners_close(serve, sched);
    while (atomic_load_explicit(&serve->listeners_open, memory_order_acquire) > 0 ||
           net_shutdown_all(sched) > 0)
        (void)task_sleep(CONNECTIONS_POLL_NS);
    serve_stores_leave(serve);
    if (serve->hooks->end != NULL)
        serve->hooks->end(serve->node);
}

/* Close all listeners, and end the first `count` threads, which are those that run. */
static void stop_lanes(struct serve *serve, uint32_t count)
{
    serve_kv_listeners_close(serve);
    for (uint32_t i = count; i < serve->lane_count; i++)
        serve_listeners_close(serve, serve->lanes[i].sched);
    atomic_store_explicit(&serve->is_stopping, true, memory_order_relaxed);
    task_shared_future_set(&serve->stop, 0);
    for (uint32_t i = 0; i < count; i++) {
        task_group_join_firmly(&serve->lanes[i].keeper);
        task_sched_stop(serve->lanes[i].sched);
    }
    for (uint32_t i = 0; i < count; i++)
        task_sched_join(serve->lanes[i].sched);
}

/* @param ret_started  number of threads that run; written on failure, too */
static int start_lanes(struct serve *serve, uint32_t *ret_started)
{
    for (*ret_started = 0; *ret_started < serve->lane_count; ++*ret_started) {
        struct serve_lane *lane = &serve->lanes[*ret_started];
        int error = task_spawn(lane->sched, &lane->keeper, "keeper", keep_lane, serve);
        if (error == 0)
            error = task_sched_start(lane->sched);
        if (error != 0)
            return error;
    }
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------------ */

/* The name of the lanes' engine: if one lane gets no ring, it and all after it have AIO. */
static const char *engine_name(const struct serve *serve)
{
    const char *first = task_sched_engine_name(serve->lanes[0].sched);
    const char *last = task_sched_engine_name(serve->lanes[serve->lane_count - 1].sched);
    return strcmp(first, last) == 0 ? first : "uring,aio";
}

static void log_listener(const struct serve *serve, const struct serve_listener *listener)
{
    const struct serve_store *store = listener->store;
    const char *engine = engine_name(serve);
    if (store->depot == NULL) {
        base_info(&serve->node->log, "serving",
                  "version=%s listen=%s threads=%" PRIu32 " engine=%s store=%s kind=%s memory=%" PRIu64,
                  tarn_version(), listener->address, serve->lane_count, engine, store->options.name,
                  serve_kind_names[store->options.kind], store->options.memory_bytes);
        return;
    }
    const struct drive_info *drive = depot_drive_info(store->depot);
    base_info(
        &serve->node->log, "serving",
        "version=%s listen=%s threads=%" PRIu32 " engine=%s drive=%s direct=%s mode=%s store=%s kind=depot",
        tarn_version(), listener->address, serve->lane_count, engine, drive->provider,
        drive->direct ? "on" : "off", depot_mode_names[serve_mode(serve->options)], store->options.name);
}

static int open_parts(struct serve *serve)
{
    int error = serve_kv_addresses_find(serve);
    if (error == 0)
        error = open_lanes(serve);
    if (error == 0)
        error = serve_stores_name(serve);
    if (error == 0)
        error =
            serve_listeners_bind(serve); /* before a file is made, which would be left behind on failure */
    if (error == 0)
        error = serve_stores_open(serve);
    if (error != 0)
        return error;
    uint32_t started = 0;
    error = serve_listeners_open(serve);
    if (error == 0)
        error = start_lanes(serve, &started);
    if (error == 0)
        error = serve_kv_listeners_open(serve);
    if (error == 0)
        serve_files_check(serve);
    if (error != 0)
        stop_lanes(serve, started);
    return error;
}

/* Undo open_parts() and open_node(), as far as they came. No thread runs. @return a store's error */
static int free_parts(struct serve *serve)
{
    struct tarn_node *node = serve->node;
    serve_fabrics_close(serve);
    serve_listeners_unbind(serve);
    int error = serve_stores_close(
        serve); /* before the lanes, because a depot's service may be about to wake one of their tasks */
    close_lanes(serve);
    serve_stores_free(serve);
    base_free(&node->memory, serve, sizeof(*serve));
    task_node_close(node);
    return error;
}

/* The memory for connections, and for the caches besides. */
static uint64_t memory_wanted(const struct serve_options *options)
{
    uint64_t bytes;
    return __builtin_add_overflow(options->memory_bytes, serve_cache_bytes(options), &bytes)
               ? BASE_ACCOUNT_UNLIMITED
               : bytes;
}

int serve_open(const struct base_settings *settings, uint64_t pid, const struct serve_hooks *hooks,
               struct serve **ret_serve)
{
    const struct serve_options *options = settings->options;
    const struct task_node_options node_options = {
        .engine_choice = (enum task_engine_choice)options->engine,
        .warn_without_uring = true,
        .memory_bytes = memory_wanted(options),
        .log_level = (enum base_log_level)options->log_level,
        .log_sink = hooks->log_sink,
        .log_arg = hooks->log_arg,
    };
    struct tarn_node *node;
    serve_files_raise();
    int error = task_node_open(&node_options, &node);
    if (error != 0)
        return error;
    struct serve *serve = base_alloc(&node->memory, sizeof(*serve));
    if (serve == NULL) {
        task_node_close(node);
        return -ENOMEM;
    }
    serve->node = node;
    serve->settings = settings;
    serve->options = options;
    serve->hooks = hooks;
    serve->pid = pid;
    task_shared_future_init(&serve->stop);
    base_spin_init(&serve->kv_listeners_lock);
    base_log_limit_init(&serve->binary_peers, 10, 10 * BASE_NS_PER_SECOND);
    error = open_parts(serve);
    if (error == -ENOMEM)
        base_error(&node->log, "there is too little memory to start",
                   "memory_bytes=%" PRIu64 " threads=%" PRIu32
                   " remedy=\"raise --memory, or have fewer --threads\"",
                   options->memory_bytes, serve->lane_room);
    if (error != 0) {
        (void)free_parts(serve);
        return error;
    }
    serve_stores_set_urls(serve, true);
    for (uint32_t i = 0; i < serve->listener_count; i++)
        log_listener(serve, &serve->listeners[i]);
    *ret_serve = serve;
    return 0;
}

uint32_t serve_store_count(const struct serve *serve)
{
    return serve->store_count;
}

struct tarn_depot *serve_depot(const struct serve *serve, uint32_t place)
{
    return serve->stores[place].depot;
}

const char *serve_dump_path(const struct serve *serve, uint32_t place)
{
    const struct serve_store *store = &serve->stores[place];
    if (store->depot == NULL || store->options.dump != NULL)
        return store->options.dump;
    return serve->options->dump; /* the setting of --dump */
}

struct tarn_node *serve_node(const struct serve *serve)
{
    return serve->node;
}

int serve_close(struct serve *serve)
{
    base_info(&serve->node->log, "stopping", "");
    serve_stores_set_urls(serve, false);
    stop_lanes(serve, serve->lane_count);
    return free_parts(serve);
}
