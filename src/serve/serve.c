/* The server: putting its parts together, and taking them apart in order. */
#include "serve/serve.h"
#include "base/base.h"
#include "depot/depot.h"
#include "drive/drive.h"
#include "kv/kv.h"
#include "serve/serve_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <tarn/tarn.h>
#include <unistd.h>

#define CONNECTIONS_POLL_NS BASE_NS_PER_MS

/* Started again after kill -9: what was in flight has to land first, however slow the disk. */
#define LOCK_WAIT_NS (15 * BASE_NS_PER_SECOND)

/* ---- what stats asks ----------------------------------------------------------------------------- */

static void tell_facts(void *arg, struct memcache_facts *ret_facts)
{
    const struct serve *serve = arg;
    struct memcache_facts facts = {
        .pid = serve->pid,
        .threads = serve->lane_count,
        .connections_max = serve->options->connections_max,
        .connections_total = atomic_load_explicit(&serve->connections_total, memory_order_relaxed),
    };
    for (uint32_t i = 0; i < serve->lane_count; i++) {
        facts.connections += net_connection_count(serve->lanes[i].sched);
        facts.connections_rejected += net_refused_count(serve->lanes[i].sched);
    }
    facts.yields = atomic_load_explicit(&serve->yields, memory_order_relaxed);
    *ret_facts = facts;
}

static void dump_number(memcache_setting_function *visit, void *visit_arg, const char *name, uint64_t number)
{
    char value[BASE_UNITS_ROOM];
    (void)snprintf(value, sizeof(value), "%" PRIu64, number);
    visit(visit_arg, name, value);
}

/* What clients and tools know by memcached's names; then all by their own. */
static void dump_settings(void *arg, memcache_setting_function *visit, void *visit_arg)
{
    const struct serve *serve = arg;
    const struct serve_options *options = serve->options;
    dump_number(visit, visit_arg, "maxbytes", drive_bytes(depot_drive(serve->depot)));
    dump_number(visit, visit_arg, "maxconns", options->connections_max);
    dump_number(visit, visit_arg, "tcpport", options->port);
    dump_number(visit, visit_arg, "udpport", 0);
    visit(visit_arg, "domain_socket", options->unix_path == NULL ? "" : options->unix_path);
    visit(visit_arg, "evictions", options->cache ? "on" : "off");
    dump_number(visit, visit_arg, "num_threads", serve->lane_count);
    dump_number(visit, visit_arg, "item_size_max", options->item_bytes_max);
    visit(visit_arg, "cas_enabled", "yes");
    visit(visit_arg, "flush_enabled", "yes");
    visit(visit_arg, "binding_protocol", "ascii");
    base_settings_dump(serve->settings, visit, visit_arg);
}

#define CONNECTIONS_AT_ONCE 16

static void dump_connection(memcache_setting_function *visit, void *visit_arg, uint64_t id,
                            const struct serve_connection_info *info)
{
    char name[BASE_UNITS_ROOM + 32], value[BASE_UNITS_ROOM];
    bool is_unix = strncmp(info->peer, "unix:", 5) == 0;
    char address[NET_ADDRESS_TEXT_MAX + 8];
    (void)snprintf(address, sizeof(address), "%s%s", is_unix ? "" : "tcp:", info->peer);
    (void)snprintf(name, sizeof(name), "%" PRIu64 ":addr", id);
    visit(visit_arg, name, address);
    (void)snprintf(name, sizeof(name), "%" PRIu64 ":state", id);
    visit(visit_arg, name, info->is_at_work ? "conn_parse_cmd" : "conn_read");
    (void)snprintf(name, sizeof(name), "%" PRIu64 ":secs_since_last_cmd", id);
    (void)snprintf(value, sizeof(value), "%" PRIu64, (task_now() - info->at_ns) / BASE_NS_PER_SECOND);
    visit(visit_arg, name, value);
}

static void dump_listeners(const struct serve *serve, memcache_setting_function *visit, void *visit_arg)
{
    for (uint32_t i = 0; i < serve->listener_count; i++) {
        char name[BASE_UNITS_ROOM + 32];
        (void)snprintf(name, sizeof(name), "listener%" PRIu32 ":addr", i);
        visit(visit_arg, name, serve->addresses[i]);
        (void)snprintf(name, sizeof(name), "listener%" PRIu32 ":state", i);
        visit(visit_arg, name, "conn_listening");
    }
}

/* A connection's number says its lane, too. */
static void dump_connections(void *arg, memcache_setting_function *visit, void *visit_arg)
{
    struct serve *serve = arg;
    struct serve_connection_info infos[CONNECTIONS_AT_ONCE];
    dump_listeners(serve, visit, visit_arg);
    for (uint32_t i = 0; i < serve->lane_count; i++) {
        uint64_t after = 0;
        uint32_t count;
        while ((count = serve_list_connections(&serve->lanes[i], after, infos, CONNECTIONS_AT_ONCE)) > 0) {
            for (uint32_t c = 0; c < count; c++)
                dump_connection(visit, visit_arg, infos[c].number * serve->lane_count + i, &infos[c]);
            after = infos[count - 1].number;
        }
    }
}

static void dump_drive_fact(memcache_setting_function *visit, void *visit_arg, uint32_t place,
                            const char *what, const char *value)
{
    char name[BASE_UNITS_ROOM + 32];
    (void)snprintf(name, sizeof(name), "%" PRIu32 ":%s", place, what);
    visit(visit_arg, name, value);
}

/* The drives that the store lies on: of a stripe its members, by place. */
static void dump_drives(void *arg, memcache_setting_function *visit, void *visit_arg)
{
    const struct serve *serve = arg;
    const struct drive *whole = depot_drive(serve->depot);
    for (uint32_t place = 0; place < drive_member_count(whole); place++) {
        const struct drive *drive = drive_member(whole, place);
        char value[BASE_UNITS_ROOM];
        dump_drive_fact(visit, visit_arg, place, "path", drive_name(drive));
        (void)snprintf(value, sizeof(value), "%" PRIu64, drive_bytes(drive));
        dump_drive_fact(visit, visit_arg, place, "bytes", value);
        dump_drive_fact(visit, visit_arg, place, "provider", drive_info(drive)->provider);
        (void)snprintf(value, sizeof(value), "%" PRIu64, drive_failures(drive));
        dump_drive_fact(visit, visit_arg, place, "requests_failed", value);
        dump_drive_fact(visit, visit_arg, place, "failed", drive_failed(drive) ? "yes" : "no");
    }
}

static void shut_down(void *arg)
{
    const struct serve *serve = arg;
    (void)kill((pid_t)serve->pid, SIGTERM);
}

/* ---- schedulers ---------------------------------------------------------------------------------- */

static uint32_t threads_wanted(const struct serve_options *options)
{
    if (options->threads != 0)
        return (uint32_t)options->threads;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors < 1 ? 1 : (uint32_t)base_min(processors, (long)TASK_SCHEDS_MAX);
}

/* How many connections of a lane may be at work at once. */
static uint32_t work_wanted(const struct serve *serve)
{
    uint64_t share = serve->options->memory_bytes / SERVE_WORK_SHARE / serve->lane_room;
    uint64_t wanted = share / sizeof(struct serve_work);
    return (uint32_t)base_max(base_min(wanted, (uint64_t)SERVE_WORK_MAX), (uint64_t)SERVE_WORK_MIN);
}

static int open_lane(struct serve *serve, struct serve_lane *lane)
{
    const struct task_sched_options options = {.spin_ns = serve->options->spin_ns};
    lane->serve = serve;
    task_group_init(&lane->keeper);
    uint32_t work_max = work_wanted(serve);
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

static void close_lanes(struct serve *serve)
{
    for (uint32_t i = 0; i < serve->lane_count; i++) {
        task_sched_close(serve->lanes[i].sched); /* with its connections, whose work is over */
        base_pool_deinit(&serve->lanes[i].work);
    }
    if (serve->lanes != NULL)
        base_free(&serve->node->memory, serve->lanes, serve->lane_room * sizeof(*serve->lanes));
}

/* ---- listening ------------------------------------------------------------------------------------ */

/* The thread that accepts for a listener: each in turn. */
static struct task_sched *listener_sched(const struct serve *serve, uint32_t listener)
{
    return serve->lanes[listener % serve->lane_count].sched;
}

static int listen_on(struct serve *serve, const char *address)
{
    base_assert(serve->lane_count > 0);
    struct task_sched *targets[TASK_SCHEDS_MAX];
    for (uint32_t i = 0; i < serve->lane_count; i++)
        targets[i] = serve->lanes[i].sched;
    int error = net_listen(listener_sched(serve, serve->listener_count), address, targets, serve->lane_count,
                           &serve_handler, serve_accepted, serve, (uint32_t)serve->options->connections_max,
                           &serve->listeners[serve->listener_count]);
    if (error != 0)
        return error;
    net_listener_address(serve->listeners[serve->listener_count], serve->addresses[serve->listener_count],
                         NET_ADDRESS_TEXT_MAX);
    serve->listener_count++;
    atomic_fetch_add_explicit(&serve->listeners_open, 1, memory_order_relaxed);
    return 0;
}

/* "127.0.0.1" and "[::1]" get the port that the settings name. */
static int listen_on_host(struct serve *serve, const char *host)
{
    char address[NET_ADDRESS_TEXT_MAX];
    const char *colon = strrchr(host, ':');
    bool has_port = colon != NULL && strchr(colon, ']') == NULL;
    int len = has_port ? snprintf(address, sizeof(address), "%s", host)
                       : snprintf(address, sizeof(address), "%s:%" PRIu64, host, serve->options->port);
    if (len < 0 || (size_t)len >= sizeof(address)) {
        base_error(&serve->node->log, "cannot listen", "reason=\"the address is too long\"");
        return -EINVAL;
    }
    return listen_on(serve, address);
}

static int listen_on_path(struct serve *serve, const char *path)
{
    char address[NET_ADDRESS_TEXT_MAX];
    int len = snprintf(address, sizeof(address), "unix:%s", path);
    if (len < 0 || (size_t)len >= sizeof(address)) {
        base_error(&serve->node->log, "cannot listen", "reason=\"the socket's path is too long\"");
        return -EINVAL;
    }
    return listen_on(serve, address);
}

static int open_listeners(struct serve *serve)
{
    const struct serve_options *options = serve->options;
    int error = 0;
    for (size_t i = 0; i < options->listen.count && error == 0; i++)
        error = listen_on_host(serve, options->listen.items[i]);
    if (error == 0 && options->listen.count == 0 && options->unix_path == NULL)
        error = listen_on_host(serve, "127.0.0.1");
    if (error == 0 && options->unix_path != NULL)
        error = listen_on_path(serve, options->unix_path);
    return error;
}

/* ---- threads -------------------------------------------------------------------------------------- */

/* The listeners of one thread. In it, or when it does not run. */
static void close_listeners(struct serve *serve, const struct task_sched *sched)
{
    for (uint32_t i = 0; i < serve->listener_count; i++) {
        if (listener_sched(serve, i) != sched || serve->listeners[i] == NULL)
            continue;
        net_listener_close(serve->listeners[i]);
        serve->listeners[i] = NULL;
        atomic_fetch_sub_explicit(&serve->listeners_open, 1, memory_order_acq_rel);
    }
}

/*
 * One in each thread, from its beginning to its end, so that stopping needs no memory. At the end it
 * accepts no more and has the connections of its thread end; until all threads have closed their
 * listeners new ones may be dealt to it.
 */
static void keeper(void *arg)
{
    struct serve *serve = arg;
    struct task_sched *sched = task_sched_self();
    int value;
    if (serve->hooks->begin != NULL)
        serve->hooks->begin(serve->node);
    while (task_shared_future_wait(&serve->stop, TASK_FOREVER, &value) != 0) {
    }
    close_listeners(serve, sched);
    while (atomic_load_explicit(&serve->listeners_open, memory_order_acquire) > 0 ||
           net_connection_count(sched) > 0) {
        net_shutdown_all(sched);
        (void)task_sleep(CONNECTIONS_POLL_NS);
    }
    if (serve->hooks->end != NULL)
        serve->hooks->end(serve->node);
}

/* Close all listeners, and end the first `count` threads: those that run. */
static void stop_lanes(struct serve *serve, uint32_t count)
{
    for (uint32_t i = count; i < serve->lane_count; i++)
        close_listeners(serve, serve->lanes[i].sched);
    task_shared_future_set(&serve->stop, 0);
    for (uint32_t i = 0; i < count; i++) {
        while (task_group_join(&serve->lanes[i].keeper, TASK_FOREVER) != 0) {
        }
        task_sched_stop(serve->lanes[i].sched);
    }
    for (uint32_t i = 0; i < count; i++)
        task_sched_join(serve->lanes[i].sched);
}

/* @param ret_started  how many run; written on failure, too */
static int start_lanes(struct serve *serve, uint32_t *ret_started)
{
    for (*ret_started = 0; *ret_started < serve->lane_count; ++*ret_started) {
        struct serve_lane *lane = &serve->lanes[*ret_started];
        int error = task_spawn(lane->sched, &lane->keeper, "keeper", keeper, serve);
        if (error == 0)
            error = task_sched_start(lane->sched);
        if (error != 0)
            return error;
    }
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------------ */

/* A store keeps its promises over power cuts, a cache is fast, unless something else was asked for. */
static enum tarn_mode mode_of(const struct serve_options *options)
{
    if (options->mode != 0)
        return (enum tarn_mode)(options->mode - 1);
    return options->cache ? TARN_MODE_DEVICE : TARN_MODE_POWER;
}

static void log_serving(struct serve *serve)
{
    const struct drive_info *drive = depot_drive_info(serve->depot);
    for (uint32_t i = 0; i < serve->listener_count; i++) {
        base_info(&serve->node->log, "serving",
                  "version=%s listen=%s threads=%" PRIu32 " engine=%s drive=%s direct=%s mode=%s",
                  tarn_version(), serve->addresses[i], serve->lane_count,
                  task_sched_engine_name(serve->lanes[0].sched), drive->provider,
                  drive->direct ? "on" : "off", depot_mode_names[mode_of(serve->options)]);
    }
}

static int open_store(struct serve *serve)
{
    const struct serve_options *options = serve->options;
    const struct tarn_depot_options depot_options = {.create_bytes = options->size_bytes,
                                                     .mode = mode_of(options),
                                                     .cache = options->cache,
                                                     .scrub_rate_bytes = options->scrub_rate_bytes,
                                                     .checkpoint_rate_bytes = options->checkpoint_rate_bytes,
                                                     .discard = (enum tarn_discard)options->discard,
                                                     .over_provisioning_percent =
                                                         (uint32_t)options->over_provisioning_percent,
                                                     .measure_interval = (uint32_t)options->measure_interval};
    const struct depot_opening opening = {.direct = options->direct, .lock_wait_ns = LOCK_WAIT_NS};
    return depot_open(serve->node, options->data, &depot_options, &opening, &serve->depot);
}

static int open_parts(struct serve *serve)
{
    const struct serve_options *options = serve->options;
    int error = open_lanes(serve);
    if (error == 0)
        error = open_store(serve);
    if (error != 0)
        return error;
    const struct memcache_host host = {.tell = tell_facts,
                                       .settings = dump_settings,
                                       .connections = dump_connections,
                                       .drives = dump_drives,
                                       .shutdown = options->enable_shutdown ? shut_down : NULL,
                                       .arg = serve};
    error = kv_wrap_depot(serve->node, serve->depot, &serve->kv);
    if (error == 0)
        error = memcache_server_init(&serve->memcache, serve->node, serve->kv, options->item_bytes_max,
                                     options->memory_bytes / 4, &host);
    if (error != 0)
        return error;
    uint32_t started = 0;
    error = open_listeners(serve);
    if (error == 0)
        error = start_lanes(serve, &started);
    if (error != 0)
        stop_lanes(serve, started);
    return error;
}

/* Undo what open_parts() and open_node() did, as far as they came. Nothing runs. @return the store's error */
static int free_parts(struct serve *serve)
{
    struct tarn_node *node = serve->node;
    int error = 0;
    if (serve->kv != NULL)
        (void)tarn_kv_close(serve->kv);
    if (serve->depot != NULL) { /* first: its service may just be waking a task of a lane */
        error = tarn_depot_close(serve->depot);
        base_info(&node->log, error == 0 ? "store closed" : "store closed after a failure", "");
    }
    close_lanes(serve);
    if (serve->memcache.kv != NULL)
        memcache_server_deinit(&serve->memcache);
    base_free(&node->memory, serve, sizeof(*serve));
    task_node_close(node);
    return error;
}

int serve_open(const struct base_settings *settings, uint64_t pid, const struct serve_thread_hooks *hooks,
               struct serve **ret_serve)
{
    const struct serve_options *options = settings->options;
    const struct task_node_options node_options = {
        .engine_choice = (enum task_engine_choice)options->engine,
        .memory_bytes = options->memory_bytes,
        .log_level = (enum base_log_level)options->log_level,
    };
    struct tarn_node *node;
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
    error = open_parts(serve);
    if (error != 0) {
        (void)free_parts(serve);
        return error;
    }
    log_serving(serve);
    *ret_serve = serve;
    return 0;
}

struct tarn_depot *serve_depot(const struct serve *serve)
{
    return serve->depot;
}

struct tarn_node *serve_node(const struct serve *serve)
{
    return serve->node;
}

int serve_close(struct serve *serve)
{
    base_info(&serve->node->log, "stopping", "");
    stop_lanes(serve, serve->lane_count);
    return free_parts(serve);
}
