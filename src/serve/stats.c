/* The answers to `stats` that need the whole server: settings, connections, drives and calls. */
#include "depot/depot.h"
#include "drive/drive.h"
#include "fabric/fabric.h"
#include "rpc/rpc.h"
#include "serve/serve_internal.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static void tell_facts(void *arg, struct memcache_facts *ret_facts)
{
    const struct serve_store *store = arg;
    const struct serve *serve = store->serve;
    struct memcache_facts facts = {
        .pid = serve->pid,
        .threads = serve->lane_count,
        .connections_max = serve->options->connections_max,
        .connections = atomic_load_explicit(&store->connections, memory_order_relaxed),
        .connections_total = atomic_load_explicit(&store->connections_total, memory_order_relaxed),
        .yields = atomic_load_explicit(&store->yields, memory_order_relaxed),
        .idle_kicks = atomic_load_explicit(&store->idle_kicks, memory_order_relaxed),
    };
    for (uint32_t i = 0; i < serve->lane_count; i++)
        facts.connections_rejected += net_refused_count(serve->lanes[i].sched);
    *ret_facts = facts;
}

static void dump_number(memcache_setting_function *visit, void *visit_arg, const char *name, uint64_t number)
{
    char value[BASE_UNITS_ROOM];
    (void)snprintf(value, sizeof(value), "%" PRIu64, number);
    visit(visit_arg, name, value);
}

/* The first TCP port of a store; 0: it has none. */
static uint64_t port_of(const struct serve_store *store)
{
    const struct serve *serve = store->serve;
    uint64_t port;
    for (uint32_t i = 0; i < serve->listener_count; i++) {
        const char *address = serve->listeners[i].address, *colon = strrchr(address, ':');
        if (serve->listeners[i].store == store && strncmp(address, "unix:", 5) != 0 && colon != NULL &&
            base_parse_u64(colon + 1, &port) == 0)
            return port;
    }
    return 0;
}

/* List the settings: first by memcached's names, which clients and tools know, then all by their own. */
static void dump_settings(void *arg, memcache_setting_function *visit, void *visit_arg)
{
    const struct serve_store *store = arg;
    const struct serve *serve = store->serve;
    const struct serve_options *options = serve->options;
    const bool is_first = store == serve->stores;
    const char *path = store->options.unix_path != NULL ? store->options.unix_path
                       : is_first                       ? options->unix_path
                                                        : NULL;
    dump_number(visit, visit_arg, "maxbytes",
                store->depot == NULL ? store->options.memory_bytes : drive_bytes(depot_drive(store->depot)));
    dump_number(visit, visit_arg, "maxconns", options->connections_max);
    dump_number(visit, visit_arg, "tcpport", port_of(store));
    dump_number(visit, visit_arg, "udpport", 0);
    visit(visit_arg, "domain_socket", path == NULL ? "" : path);
    visit(visit_arg, "evictions", serve_evicts(options, &store->options) ? "on" : "off");
    dump_number(visit, visit_arg, "num_threads", serve->lane_count);
    dump_number(visit, visit_arg, "item_size_max", options->item_bytes_max);
    visit(visit_arg, "cas_enabled", "yes");
    visit(visit_arg, "flush_enabled", options->disable_flush_all ? "no" : "yes");
    dump_number(visit, visit_arg, "idle_timeout", serve_idle_timeout_ns(options) / BASE_NS_PER_SECOND);
    visit(visit_arg, "binding_protocol", "ascii");
    visit(visit_arg, "auth_enabled_sasl", "no");
    visit(visit_arg, "auth_enabled_ascii", "no");
    visit(visit_arg, "ssl_enabled", "no");
    visit(visit_arg, "shutdown_command", options->enable_shutdown ? "yes" : "no");
    visit(visit_arg, "dump_enabled", options->disable_dumping ? "no" : "yes");
    visit(visit_arg, "watch_enabled", "no");
    visit(visit_arg, "detail_enabled", "no");
    visit(visit_arg, "track_sizes", "no");
    visit(visit_arg, "umask", options->unix_mask);
    base_settings_dump(serve->settings, visit, visit_arg);
}

#define CONNECTIONS_AT_ONCE 16

/* List the address and state of a listener or a connection, in memcached's words. */
static void dump_place(memcache_setting_function *visit, void *visit_arg, uint64_t id, const char *address,
                       const char *state)
{
    char name[BASE_UNITS_ROOM + 32], value[NET_ADDRESS_TEXT_MAX + 8];
    (void)snprintf(name, sizeof(name), "%" PRIu64 ":addr", id);
    (void)snprintf(value, sizeof(value), "%s%s", strncmp(address, "unix:", 5) == 0 ? "" : "tcp:", address);
    visit(visit_arg, name, value);
    (void)snprintf(name, sizeof(name), "%" PRIu64 ":state", id);
    visit(visit_arg, name, state);
}

static void dump_connection(memcache_setting_function *visit, void *visit_arg, uint64_t id,
                            const struct serve_connection_info *info)
{
    char name[BASE_UNITS_ROOM + 32], value[BASE_UNITS_ROOM];
    dump_place(visit, visit_arg, id, info->peer, info->is_at_work ? "conn_parse_cmd" : "conn_read");
    (void)snprintf(name, sizeof(name), "%" PRIu64 ":secs_since_last_cmd", id);
    (void)snprintf(value, sizeof(value), "%" PRIu64, (task_now() - info->at_ns) / BASE_NS_PER_SECOND);
    visit(visit_arg, name, value);
}

static void dump_listeners(const struct serve_store *store, memcache_setting_function *visit, void *visit_arg)
{
    const struct serve *serve = store->serve;
    for (uint32_t i = 0; i < serve->listener_count; i++) {
        if (serve->listeners[i].store == store)
            dump_place(visit, visit_arg, i, serve->listeners[i].address, "conn_listening");
    }
}

/* List listeners and connections. Listeners have the first numbers; a connection's number also encodes its lane. */
static void dump_connections(void *arg, memcache_setting_function *visit, void *visit_arg)
{
    const struct serve_store *store = arg;
    const struct serve *serve = store->serve;
    struct serve_connection_info infos[CONNECTIONS_AT_ONCE];
    dump_listeners(store, visit, visit_arg);
    for (uint32_t i = 0; i < serve->lane_count; i++) {
        uint64_t after = 0;
        uint32_t count;
        while ((count = serve_list_connections(&serve->lanes[i], store, after, infos, CONNECTIONS_AT_ONCE)) >
               0) {
            for (uint32_t c = 0; c < count; c++)
                dump_connection(visit, visit_arg,
                                serve->listener_count + infos[c].number * serve->lane_count + i, &infos[c]);
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

/* List the drives of the store; of a stripe its members, by place. */
static void dump_drives(void *arg, memcache_setting_function *visit, void *visit_arg)
{
    const struct serve_store *store = arg;
    if (store->depot == NULL)
        return;
    const struct drive *whole = depot_drive(store->depot);
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
    const struct serve_store *store = arg;
    (void)kill((pid_t)store->serve->pid, SIGTERM);
}

static bool is_ending(void *arg)
{
    const struct serve_store *store = arg;
    return atomic_load_explicit(&store->serve->is_stopping, memory_order_relaxed);
}

/* ---- calls --------------------------------------------------------------------------------------- */

/* Names of a kv listener's statistics, before its number is put in front of them. */
#define CALL_NAME_ROOM (BASE_UNITS_ROOM + 32)

struct calls_listing {
    memcache_setting_function *visit;
    void *visit_arg;
    uint32_t place;
};

static void dump_call_text(const struct calls_listing *listing, const char *what, const char *value)
{
    char name[CALL_NAME_ROOM + 16]; /* the name, with the listener's number before it */
    (void)snprintf(name, sizeof(name), "%" PRIu32 ":%s", listing->place, what);
    listing->visit(listing->visit_arg, name, value);
}

static void dump_call_number(const struct calls_listing *listing, const char *what, uint64_t number)
{
    char value[BASE_UNITS_ROOM];
    (void)snprintf(value, sizeof(value), "%" PRIu64, number);
    dump_call_text(listing, what, value);
}

/* The statistics of one kv listener. */
struct kv_listener_stats {
    struct tarn_rpc_stats calls;
    struct tarn_rpc_method_stats methods[KV_SERVER_METHODS_MAX];
    uint32_t method_count;
};

static void dump_method(const struct calls_listing *listing, const struct tarn_rpc_method_stats *method)
{
    const struct {
        const char *what;
        uint64_t number;
    } facts[] = {{"calls", method->calls},
                 {"errors", method->errors},
                 {"service_us", method->service_ns / BASE_NS_PER_US}};
    char what[CALL_NAME_ROOM];
    for (uint32_t i = 0; i < base_array_count(facts); i++) {
        (void)snprintf(what, sizeof(what), "%s_%s", method->name, facts[i].what);
        dump_call_number(listing, what, facts[i].number);
    }
}

static void dump_kv_listener(const struct calls_listing *listing, const struct serve_kv_listener *listener,
                             const struct tarn_rpc_stats *stats)
{
    dump_call_text(listing, "fabric", tarn_fabric_info(listener->fabric)->provider);
    dump_call_text(listing, "address", listener->address);
    dump_call_number(listing, "connections", stats->connections);
    dump_call_number(listing, "watched", stats->watched);
    dump_call_number(listing, "calls", stats->requests);
    dump_call_number(listing, "fetched", stats->fetched);
    dump_call_number(listing, "replied", stats->replied);
    dump_call_number(listing, "changes", stats->changes);
    dump_call_number(listing, "late", stats->late);
    dump_call_number(listing, "unwhole", stats->unwhole);
    dump_call_number(listing, "notified", stats->notified);
    dump_call_number(listing, "sleeps", stats->sleeps);
    dump_call_number(listing, "moved", stats->moved);
    dump_call_number(listing, "memory_bytes", stats->memory_bytes);
}

/* The statistics of a fabric, which all its kv listeners share. */
static void dump_fabric(const struct calls_listing *listing, struct tarn_fabric *fabric)
{
    static const char *const kinds[TARN_FABRIC_OP_KINDS] = {[TARN_FABRIC_READ] = "reads",
                                                            [TARN_FABRIC_WRITE] = "writes",
                                                            [TARN_FABRIC_WRITE_NOTIFY] = "notified_writes",
                                                            [TARN_FABRIC_CAS] = "compare_and_swaps",
                                                            [TARN_FABRIC_FAA] = "fetch_and_adds",
                                                            [TARN_FABRIC_SEND] = "sends"};
    struct tarn_fabric_counters counters;
    char what[CALL_NAME_ROOM];
    tarn_fabric_count(fabric, RPC_TAG, &counters);
    for (unsigned i = 0; i < TARN_FABRIC_OP_KINDS; i++) {
        (void)snprintf(what, sizeof(what), "fabric_%s", kinds[i]);
        dump_call_number(listing, what, counters.operations[i]);
        (void)snprintf(what, sizeof(what), "fabric_%s_bytes", kinds[i]);
        dump_call_number(listing, what, counters.bytes[i]);
    }
    dump_call_number(listing, "fabric_failed", counters.failed);
    dump_call_number(listing, "fabric_refused", counters.refused);
    dump_call_number(listing, "fabric_waits", counters.waits);
    dump_call_number(listing, "fabric_copied_bytes", counters.copied_bytes);
}

/* Read the statistics of a kv listener. Its service is used with the lock held; its fabric outlives all callers. @return
 * false: it is not open */
static bool ask_kv_listener(struct serve *serve, uint32_t place, struct kv_listener_stats *ret_stats)
{
    base_spin_lock(&serve->kv_listeners_lock);
    const bool is_open = place < serve->kv_listener_count;
    if (is_open) {
        kv_server_stats(serve->kv_listeners[place].server, &ret_stats->calls);
        ret_stats->method_count =
            kv_server_method_stats(serve->kv_listeners[place].server, ret_stats->methods);
    }
    base_spin_unlock(&serve->kv_listeners_lock);
    return is_open;
}

/* List the kv listeners by their place, which is the same for every store. A visit may send, and so yield. */
static void dump_calls(void *arg, memcache_setting_function *visit, void *visit_arg)
{
    struct serve *serve = ((const struct serve_store *)arg)->serve;
    struct kv_listener_stats stats;
    for (uint32_t i = 0; ask_kv_listener(serve, i, &stats); i++) {
        const struct calls_listing listing = {.visit = visit, .visit_arg = visit_arg, .place = i};
        dump_kv_listener(&listing, &serve->kv_listeners[i], &stats.calls);
        for (uint32_t k = 0; k < stats.method_count; k++) {
            if (stats.methods[k].calls > 0)
                dump_method(&listing, &stats.methods[k]);
        }
        dump_fabric(&listing, serve->kv_listeners[i].fabric);
    }
}

struct memcache_host serve_host(struct serve_store *store)
{
    return (struct memcache_host){.tell = tell_facts,
                                  .settings = dump_settings,
                                  .connections = dump_connections,
                                  .drives = dump_drives,
                                  .calls = dump_calls,
                                  .shutdown = store->serve->options->enable_shutdown ? shut_down : NULL,
                                  .ends = is_ending,
                                  .refuses_flush = store->serve->options->disable_flush_all,
                                  .refuses_dumps = store->serve->options->disable_dumping,
                                  .arg = store};
}
