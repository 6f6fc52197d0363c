/* The server's beginning and end, and its statistics, under memcached's names. */
#include "depot/depot.h"
#include "kv/kv.h"
#include "memcache/memcache_internal.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <tarn/tarn.h>

#define STAT_LINE_BYTES (BASE_SETTING_NAME_MAX + BASE_SETTINGS_VALUE_ROOM + 16)

#define TEXT_OF(number)              #number
#define VERSION(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *memcache_version(void)
{
    return "1.6.18-tarn-" VERSION(TARN_VERSION_MAJOR, TARN_VERSION_MINOR, TARN_VERSION_PATCH);
}

int memcache_server_init(struct memcache_server *server, struct tarn_node *node, struct tarn_kv *kv,
                         uint64_t item_bytes_max, uint64_t values_bytes_max, const struct memcache_host *host)
{
    if (!kv_is_local(kv))
        return -EOPNOTSUPP;
    *server = (struct memcache_server){.node = node,
                                       .kv = kv,
                                       .depot = kv_depot_of(kv),
                                       .shows_under_lock = kv_shows_under_lock(kv),
                                       .item_bytes_max = item_bytes_max,
                                       .lease_bytes_min = MEMCACHE_LEASE_BYTES_MIN,
                                       .begin_ns = task_now(),
                                       .begin_wall_ns = task_wall(node),
                                       .hash_seed = task_rng(node),
                                       .host = *host};
    base_account_init_user(&server->values, &node->memory, "values", values_bytes_max);
    return 0;
}

void memcache_server_deinit(struct memcache_server *server)
{
    base_account_deinit(&server->values);
}

struct listing {
    struct memcache_server *server;
    struct memcache_output *output;
};

static void add_text(void *arg, const char *name, const char *value)
{
    const struct listing *listing = arg;
    char line[STAT_LINE_BYTES];
    int len = snprintf(line, sizeof(line), "STAT %s %s\r\n", name, value);
    if (len > 0 && (size_t)len < sizeof(line))
        memcache_output_add(listing->server, listing->output, line, (size_t)len);
}

static void add_setting(void *arg, const char *name, const char *value)
{
    add_text(arg, name, value[0] == '\0' ? "NULL" : value); /* memcached's word for an empty value */
}

static void add_number(struct listing *listing, const char *name, uint64_t value)
{
    char text[BASE_UNITS_ROOM];
    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    add_text(listing, name, text);
}

static void add_time(struct listing *listing, const char *name, const struct timeval *time)
{
    char text[BASE_UNITS_ROOM];
    (void)snprintf(text, sizeof(text), "%ld.%06ld", (long)time->tv_sec, (long)time->tv_usec);
    add_text(listing, name, text);
}

/* Add a quotient; 0 if the divisor is 0. */
static void add_quotient(struct listing *listing, const char *name, uint64_t part, uint64_t whole)
{
    char text[BASE_UNITS_ROOM];
    (void)snprintf(text, sizeof(text), "%.2f", whole == 0 ? 0.0 : (double)part / (double)whole);
    add_text(listing, name, text);
}

static void add_process(struct listing *listing)
{
    struct memcache_server *server = listing->server;
    struct memcache_facts facts = {.pid = 0};
    struct rusage usage;
    server->host.tell(server->host.arg, &facts);
    add_number(listing, "pid", facts.pid);
    add_number(listing, "uptime", (task_now() - server->begin_ns) / BASE_NS_PER_SECOND);
    add_number(listing, "time", task_wall(server->node) / BASE_NS_PER_SECOND);
    add_text(listing, "version", memcache_version());
    add_number(listing, "pointer_size", 8 * sizeof(void *));
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        add_time(listing, "rusage_user", &usage.ru_utime);
        add_time(listing, "rusage_system", &usage.ru_stime);
    }
    add_number(listing, "max_connections", facts.connections_max);
    add_number(listing, "curr_connections", facts.connections);
    add_number(listing, "total_connections", facts.connections_total - server->connections_forgotten);
    add_number(listing, "rejected_connections", facts.connections_rejected);
    add_number(listing, "conn_yields", facts.yields);
    add_number(listing, "idle_kicks", facts.idle_kicks);
    add_number(listing, "accepting_conns",
               1); /* always: a connection too many is accepted and then refused */
    add_number(listing, "listen_disabled_num", 0); /* so accepting never stops */
    add_number(listing, "time_in_listen_disabled_us", 0);
    add_number(listing, "auth_cmds", 0);
    add_number(listing, "auth_errors", 0);
    add_number(listing, "threads", facts.threads);
}

/* The counters, each with its name. */
#define COUNTERS(use)                                                                                        \
    use(cmd_get) use(cmd_set) use(cmd_flush) use(cmd_touch) use(cmd_meta) use(get_hits) use(get_misses)      \
        use(delete_misses) use(delete_hits) use(incr_misses) use(incr_hits) use(decr_misses) use(decr_hits)  \
            use(cas_misses) use(cas_hits) use(cas_badval) use(touch_hits) use(touch_misses)                  \
                use(store_too_large) use(store_no_memory) use(bytes_read) use(bytes_written)                 \
                    use(total_items)

static void add_counters(struct listing *listing)
{
    const struct memcache_counters *counters = &listing->server->counters;
#define ADD(name) add_number(listing, #name, atomic_load_explicit(&counters->name, memory_order_relaxed));
    COUNTERS(ADD)
#undef ADD
}

static struct kv_stats stats_of(const struct memcache_server *server)
{
    struct kv_stats stats;
    int error = kv_stats(server->kv, &stats);
    base_assert(error == 0);
    return stats;
}

static void reset_counters(struct memcache_server *server)
{
    struct memcache_facts facts = {.pid = 0};
    server->host.tell(server->host.arg, &facts);
    struct kv_stats stats = stats_of(server);
    atomic_store_explicit(&server->connections_forgotten, facts.connections_total, memory_order_relaxed);
    atomic_store_explicit(&server->expired_forgotten, stats.gets_expired, memory_order_relaxed);
    atomic_store_explicit(&server->flushed_forgotten, stats.gets_flushed, memory_order_relaxed);
    if (server->depot != NULL)
        tarn_depot_forget_latency(server->depot);
#define RESET(name) atomic_store_explicit(&server->counters.name, 0, memory_order_relaxed);
    COUNTERS(RESET)
#undef RESET
}

/* Add the counts of a depot. */
static void add_depot(struct listing *listing)
{
    struct tarn_depot_stats stats;
    tarn_depot_stats(listing->server->depot, &stats);
    uint64_t held_bytes = (uint64_t)(stats.segments - stats.segments_free) * stats.segment_bytes;
    add_number(listing, "evicted_unfetched", stats.evictions_unhit);
    add_number(listing, "store_drive_bytes", stats.drive_bytes);
    add_number(listing, "store_tombstone_bytes", stats.tombstone_bytes);
    add_number(listing, "store_segments", stats.segments);
    add_number(listing, "store_segments_free", stats.segments_free);
    add_number(listing, "store_collections", stats.collections);
    add_number(listing, "store_discarded_bytes", stats.discarded_bytes);
    add_number(listing, "store_hot_bytes", stats.hot_bytes);
    add_number(listing, "store_hot_records", stats.hot_records);
    add_number(listing, "store_hot_hits", stats.hot_hits);
    add_number(listing, "store_hot_misses", stats.hot_misses);
    add_quotient(listing, "store_hot_share", stats.hot_hits, stats.hot_hits + stats.hot_misses);
    add_number(listing, "store_hot_evictions", stats.hot_evictions);
    add_number(listing, "store_hot_warmed", stats.hot_warmed);
    add_number(listing, "store_reads", stats.reads);
    add_number(listing, "store_writes", stats.writes);
    add_number(listing, "store_written_bytes", stats.written_bytes);
    add_number(listing, "store_user_bytes", stats.user_bytes);
    add_number(listing, "store_moved_bytes", stats.moved_bytes);
    add_quotient(listing, "store_write_amplification", stats.written_bytes, stats.user_bytes);
    add_quotient(listing, "store_live_share", stats.live_bytes, held_bytes);
    add_number(listing, "store_flushes", stats.flushes);
    add_number(listing, "store_reinsertions", stats.reinsertions);
    add_number(listing, "store_evicted_segments", stats.evicted_segments);
    add_number(listing, "store_segments_bad", stats.segments_bad);
    add_number(listing, "store_checkpoints", stats.checkpoints);
    add_number(listing, "store_checkpoint_bytes", stats.checkpoint_bytes);
    add_number(listing, "store_checkpoints_kept", stats.checkpoints_kept);
    add_number(listing, "store_scrub_passes", stats.scrub_passes);
    add_number(listing, "store_scrub_segments", stats.scrub_segments);
    add_number(listing, "store_scrub_bytes", stats.scrub_bytes);
    add_number(listing, "store_scrub_damaged", stats.scrub_damaged);
    add_number(listing, "store_scrub_pass_ended", stats.scrub_ended_ns / BASE_NS_PER_SECOND);
}

/* Add the counts of a cache. */
static void add_cache(struct listing *listing, const struct kv_stats *stats)
{
    struct tarn_kv_info info;
    tarn_kv_info(listing->server->kv, &info);
    add_number(listing, "store_partitions", info.partitions);
    add_number(listing, "store_evictions_index", stats->evictions_index);
    add_number(listing, "store_puts_in_place", stats->puts_in_place);
}

/* Add the store's counts: under memcached's names, then under its own. */
static void add_store(struct listing *listing)
{
    const struct memcache_server *server = listing->server;
    const struct kv_stats stats = stats_of(server);
    add_number(listing, "bytes", stats.live_bytes);
    add_number(listing, "curr_items", stats.records);
    add_number(listing, "limit_maxbytes", stats.capacity_bytes);
    add_number(listing, "get_expired", stats.gets_expired - server->expired_forgotten);
    add_number(listing, "get_flushed", stats.gets_flushed - server->flushed_forgotten);
    add_number(listing, "evictions", stats.evictions);
    add_number(listing, "reclaimed", stats.reclaimed);
    add_number(listing, "lrutail_reflocked", 0); /* readers never block an eviction */
    add_number(listing, "hash_bytes", stats.index_bytes);
    if (server->depot != NULL)
        add_depot(listing);
    else
        add_cache(listing, &stats);
    add_number(listing, "store_index_bytes", stats.index_bytes);
    /* hot records make way, so they are not in the way of anything */
    const struct base_account *memory = &server->node->memory;
    add_number(listing, "memory_used_bytes", base_account_used(memory) - base_account_borrowed(memory));
}

static void add_class(struct listing *listing, const char *which, const char *name, uint64_t value)
{
    char full[BASE_UNITS_ROOM + 32];
    (void)snprintf(full, sizeof(full), "%s1:%s", which, name);
    add_number(listing, full, value);
}

/* Add `stats items`: there are no size classes, and all items are of the first. */
static void add_items(struct listing *listing)
{
    const struct memcache_server *server = listing->server;
    const struct kv_stats stats = stats_of(server);
    struct tarn_depot_stats depot = {.evictions_unhit = 0};
    if (server->depot != NULL)
        tarn_depot_stats(server->depot, &depot);
    if (stats.records == 0)
        return;
    const struct {
        const char *name;
        uint64_t value;
    } facts[] = {
        {"number", stats.records},
        {"age", 0}, /* times of reads are not kept */
        {"mem_requested", stats.live_bytes},
        {"evicted", stats.evictions},
        {"evicted_nonzero", 0},
        {"evicted_time", 0},
        {"outofmemory", atomic_load_explicit(&server->counters.store_no_memory, memory_order_relaxed)},
        {"tailrepairs", 0},
        {"reclaimed", stats.reclaimed},
        {"expired_unfetched", 0},
        {"evicted_unfetched", depot.evictions_unhit},
        {"evicted_active", 0},
        {"crawler_reclaimed", 0},
        {"crawler_items_checked", 0},
        {"lrutail_reflocked", 0}};
    for (size_t i = 0; i < base_array_count(facts); i++)
        add_class(listing, "items:", facts[i].name, facts[i].value);
}

/* Add `stats slabs`: the one class of items as a slab class, whose chunk is an item of mean size. */
static void add_slabs(struct listing *listing)
{
    const struct memcache_counters *counters = &listing->server->counters;
    const struct kv_stats stats = stats_of(listing->server);
#define COUNT(name)                                                                                          \
    {                                                                                                        \
#name, atomic_load_explicit(&counters->name, memory_order_relaxed)                                   \
    }
    const struct {
        const char *name;
        uint64_t value;
    } facts[] = {{"chunk_size", stats.records == 0 ? 0 : stats.live_bytes / stats.records},
                 {"chunks_per_page", stats.records},
                 {"total_pages", 1},
                 {"total_chunks", stats.records},
                 {"used_chunks", stats.records},
                 {"free_chunks", 0},
                 {"free_chunks_end", 0},
                 COUNT(get_hits),
                 COUNT(cmd_set),
                 COUNT(delete_hits),
                 COUNT(incr_hits),
                 COUNT(decr_hits),
                 COUNT(cas_hits),
                 COUNT(cas_badval),
                 COUNT(touch_hits)};
#undef COUNT
    for (size_t i = 0; i < base_array_count(facts) && stats.records > 0; i++)
        add_class(listing, "", facts[i].name, facts[i].value);
    add_number(listing, "active_slabs", stats.records > 0 ? 1 : 0);
    add_number(listing, "total_malloced", stats.live_bytes);
}

/* Answer `stats detail`: prefixes of keys are not counted. @return the answer; NULL: an empty list */
static const char *answer_detail(const struct memcache_request *request)
{
    struct memcache_text rest = request->rest, word = {.text = ""};
    (void)memcache_next_word(&rest, &word);
    if (!memcache_next_word(&rest, &word))
        word.len = 0;
    if (word.len == 4 && memcmp(word.text, "dump", 4) == 0)
        return NULL;
    if (word.len == 3 && memcmp(word.text, "off", 3) == 0)
        return "OK\r\n";
    return word.len == 2 && memcmp(word.text, "on", 2) == 0
               ? "SERVER_ERROR prefixes of keys are not counted\r\n"
               : "CLIENT_ERROR usage: stats detail on|off|dump\r\n";
}

static void add_us(struct listing *listing, const char *stage, const char *what, uint64_t ns)
{
    char name[BASE_UNITS_ROOM + 32], text[BASE_UNITS_ROOM];
    (void)snprintf(name, sizeof(name), "%s_%s_us", stage, what);
    (void)snprintf(text, sizeof(text), "%" PRIu64 ".%03" PRIu64, ns / BASE_NS_PER_US, ns % BASE_NS_PER_US);
    add_text(listing, name, text);
}

/* @return NULL; the answer, if no line was added */
static const char *add_stages(struct listing *listing)
{
    struct tarn_depot *depot = listing->server->depot;
    struct tarn_latency latencies[TARN_STAGE_COUNT];
    if (depot == NULL)
        return "SERVER_ERROR a store in memory measures no stages\r\n";
    for (unsigned i = 0; i < TARN_STAGE_COUNT; i++) {
        if (tarn_depot_latency(depot, (enum tarn_stage)i, &latencies[i]) != 0)
            return "SERVER_ERROR out of memory writing stats\r\n";
    }
    add_number(listing, "measure_interval", depot_measure_interval(depot));
    for (unsigned i = 0; i < TARN_STAGE_COUNT; i++) {
        const struct tarn_latency *latency = &latencies[i];
        char stage[BASE_UNITS_ROOM], name[BASE_UNITS_ROOM + 32];
        (void)snprintf(stage, sizeof(stage), "%s_%s", i < TARN_STAGE_GET ? "stage" : "op",
                       tarn_stage_name((enum tarn_stage)i));
        (void)snprintf(name, sizeof(name), "%s_count", stage);
        add_number(listing, name, latency->count);
        add_us(listing, stage, "sum", latency->sum_ns);
        add_us(listing, stage, "p50", latency->p50_ns);
        add_us(listing, stage, "p90", latency->p90_ns);
        add_us(listing, stage, "p99", latency->p99_ns);
        add_us(listing, stage, "p999", latency->p999_ns);
        add_us(listing, stage, "max", latency->max_ns);
    }
    return NULL;
}

static bool names_group(const struct memcache_request *request, const char *what)
{
    return request->key.len == strlen(what) && memcmp(request->key.text, what, request->key.len) == 0;
}

void memcache_stats(struct memcache_server *server, struct memcache_output *output,
                    const struct memcache_request *request)
{
    struct listing listing = {.server = server, .output = output};
    if (names_group(request, "reset")) {
        reset_counters(server);
        memcache_output_text(server, output, "RESET\r\n");
        return;
    }
    if (names_group(request, "cachedump")) {
        memcache_cachedump(server, output, request);
        return;
    }
    if (names_group(request, "")) {
        add_process(&listing);
        add_counters(&listing);
        add_store(&listing);
    } else if (names_group(request, "settings")) {
        server->host.settings(server->host.arg, add_setting, &listing);
    } else if (names_group(request, "stages")) {
        const char *refusal = add_stages(&listing);
        if (refusal != NULL) {
            memcache_output_text(server, output, refusal);
            return;
        }
    } else if (names_group(request, "items")) {
        add_items(&listing);
    } else if (names_group(request, "slabs")) {
        add_slabs(&listing);
    } else if (names_group(request, "sizes")) {
        add_text(&listing, "sizes_status", "disabled");
    } else if (names_group(request, "detail")) {
        const char *refusal = answer_detail(request);
        if (refusal != NULL) {
            memcache_output_text(server, output, refusal);
            return;
        }
    } else if (names_group(request, "conns")) {
        server->host.connections(server->host.arg, add_text, &listing);
    } else if (names_group(request, "drives")) {
        server->host.drives(server->host.arg, add_text, &listing);
    } else if (names_group(request, "calls")) {
        server->host.calls(server->host.arg, add_text, &listing);
    } else {
        memcache_output_text(server, output, "ERROR\r\n");
        return;
    }
    memcache_output_text(server, output, "END\r\n");
}
