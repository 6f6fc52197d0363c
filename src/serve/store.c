/* The stores of a server: opening them, closing them, and leaving their URLs with their files. */
#include "base/base.h"
#include "depot/depot.h"
#include "drive/drive.h"
#include "serve/serve_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long to wait for a drive's lock: after a kill -9 the old process's writes have to land first, even on a slow disk. */
#define LOCK_WAIT_NS (15 * BASE_NS_PER_SECOND)

#define URL_BYTES 256

#define SIZE_USUAL (UINT64_C(1) << 30) /* size of a new file, if none is asked for */

#define CACHE_URL_BYTES 128
#define VALUES_SHARE    4 /* share of --memory for values under way: one part in this many */

uint64_t serve_cache_bytes(const struct serve_options *options)
{
    uint64_t all_bytes = 0;
    for (uint32_t i = 0; i < serve_stores_named(options); i++) {
        struct serve_store_options store;
        char error[BASE_SETTINGS_ERROR_ROOM];
        if (serve_store_at(options, i, &store, error, sizeof(error)) == 0 &&
            __builtin_add_overflow(all_bytes, store.memory_bytes, &all_bytes))
            return UINT64_MAX;
    }
    return all_bytes;
}

/* The mode that was asked for; by default a store survives power cuts, and a cache is fast. */
enum tarn_mode serve_mode(const struct serve_options *options)
{
    if (options->mode != 0)
        return (enum tarn_mode)(options->mode - 1);
    return options->cache ? TARN_MODE_DEVICE : TARN_MODE_POWER;
}

static void tell_progress(void *arg, const char *what, const char *unit, uint64_t done, uint64_t all)
{
    const struct serve_store *store = arg;
    const struct serve_hooks *hooks = store->serve->hooks;
    if (hooks->progress != NULL)
        hooks->progress(hooks->progress_arg, store->options.name, what, unit, done, all);
}

/* The size that was asked for, of a new file; 0: nobody has asked. */
static uint64_t asked_bytes(const struct serve_store *store)
{
    return store->options.size_bytes != 0 ? store->options.size_bytes : store->serve->options->size_bytes;
}

/* How the depot of a store is opened: one that is a store, or that of a tree. */
static struct tarn_depot_options depot_options(const struct serve_store *store)
{
    const struct serve_options *options = store->serve->options;
    const uint64_t asked = asked_bytes(store);
    return (struct tarn_depot_options){.create_bytes = asked != 0 ? asked : SIZE_USUAL,
                                       .mode = serve_mode(options),
                                       .cache = serve_evicts(options, &store->options),
                                       .serve_damaged = options->damaged != 0,
                                       .scrub_rate_bytes = options->scrub_rate_bytes,
                                       .checkpoint_rate_bytes = options->checkpoint_rate_bytes,
                                       .discard = (enum tarn_discard)options->discard,
                                       .over_provisioning_percent =
                                           (uint32_t)options->over_provisioning_percent,
                                       .measure_interval = (uint32_t)options->measure_interval,
                                       .hot_bytes = serve_hot_bytes(options),
                                       .hot_record_bytes = (uint32_t)options->hot_record_bytes,
                                       .hot_warm_rate_bytes = options->hot_warm_rate_bytes};
}

static struct depot_opening depot_opening(struct serve_store *store)
{
    const struct serve_options *options = store->serve->options;
    return (struct depot_opening){.direct = options->direct,
                                  .lock_wait_ns = LOCK_WAIT_NS,
                                  .size_unasked = asked_bytes(store) == 0,
                                  .progress = tell_progress,
                                  .progress_arg = store};
}

static int open_depot(struct serve_store *store)
{
    struct tarn_node *node = store->serve->node;
    const struct tarn_depot_options options = depot_options(store);
    const struct depot_opening opening = depot_opening(store);
    int error = depot_open(node, store->options.path, &options, &opening, &store->depot);
    if (error == 0)
        error = kv_wrap_depot(node, store->depot, &store->kv);
    return error;
}

static int open_tree(struct serve_store *store)
{
    const struct tarn_depot_options options = depot_options(store);
    const struct depot_opening opening = depot_opening(store);
    return kv_open_tree(store->serve->node, store->options.path, store->options.memory_bytes, &options,
                        &opening, &store->kv);
}

/* Check that the machine has the memory that was asked for: the kernel would kill the process when it is touched. */
static int check_memory(const struct serve *serve)
{
    const uint64_t bytes = serve_cache_bytes(serve->options);
    const uint64_t machine_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    char memory[BASE_UNITS_ROOM], machine[BASE_UNITS_ROOM];
    if (bytes <= machine_bytes)
        return 0;
    base_error(&serve->node->log, "the caches are larger than this machine",
               "memory=%s machine=%s remedy=\"say a smaller memory=SIZE in --store\"",
               base_format_size(memory, sizeof(memory), bytes),
               base_format_size(machine, sizeof(machine), machine_bytes));
    return -ENOMEM;
}

static int open_cache(struct serve_store *store)
{
    struct tarn_node *node = store->serve->node;
    const uint64_t partitions = store->options.partitions, bytes = store->options.memory_bytes;
    char url[CACHE_URL_BYTES], item[BASE_UNITS_ROOM] = "", memory[BASE_UNITS_ROOM];
    if (store->options.item_bytes != 0)
        (void)snprintf(item, sizeof(item), ",item=%" PRIu64, store->options.item_bytes);
    (void)snprintf(url, sizeof(url), "cache:memory=%" PRIu64 ",partitions=%" PRIu64 "%s", bytes,
                   partitions != 0 ? partitions : store->serve->lane_count, item);
    int error = tarn_kv_open(node, url, NULL, &store->kv);
    if (error == -ENOMEM)
        base_error(&node->log, "the memory of a cache is not to be had",
                   "store=%s memory=%s remedy=\"say a smaller memory=SIZE in --store\"", store->options.name,
                   base_format_size(memory, sizeof(memory), bytes));
    return error;
}

static const char *explain_hash(int error)
{
    switch (error) {
    case -ENOENT:
        return "there is no such socket, or no such store in the space: with memory=SIZE it is made";
    case -EIO:
        return "a memory server has ended, and with it a part of the store: drop its namespace";
    case -EHOSTUNREACH:
        return "the space cannot be reached, or the store has as many clients as may be";
    case -EACCES:
        return "the namespace has a secret, or another one: say secret=FILE";
    case -ENOSPC:
        return "the space has too little memory left for it: more memory servers, or a smaller memory=SIZE";
    default:
        return strerrordesc_np(-error);
    }
}

static int open_hash(struct serve_store *store)
{
    struct kv_stats stats;
    int error = tarn_kv_open(store->serve->node, store->options.url, NULL, &store->kv);
    if (error != 0)
        base_error(&store->serve->node->log, "a hash store cannot be opened",
                   "store=%s error=%d reason=\"%s\"", store->options.name, error, explain_hash(error));
    else if (store->options.memory_bytes == 0 && kv_stats(store->kv, &stats) == 0)
        store->options.memory_bytes = stats.capacity_bytes; /* of the space; to be told */
    return error;
}

static int open_store(struct serve_store *store)
{
    switch (store->options.kind) {
    case SERVE_DEPOT:
        return open_depot(store);
    case SERVE_CACHE:
        return open_cache(store);
    case SERVE_HASH:
        return open_hash(store);
    case SERVE_TREE:
        return open_tree(store);
    case SERVE_KINDS:
        break;
    }
    return -EINVAL;
}

static int open_stores_of(struct serve *serve, enum serve_kind kind)
{
    int error = 0;
    for (uint32_t i = 0; i < serve->store_count && error == 0; i++) {
        if (serve->stores[i].options.kind == kind)
            error = open_store(&serve->stores[i]);
    }
    return error;
}

/* Whether memcached's clients can reach a store; the first one is at the addresses of --listen. */
static bool is_spoken(const struct serve_store_options *store, uint32_t place)
{
    return place == 0 || store->port != SERVE_NO_PORT || store->unix_path != NULL;
}

/* Make a store's server of memcached's protocol. All stores share the values' memory equally. */
static int open_memcache(struct serve_store *store, uint64_t values_bytes)
{
    const struct memcache_host host = serve_host(store);
    return memcache_server_init(&store->memcache, store->serve->node, store->kv,
                                store->serve->options->item_bytes_max, values_bytes, &host);
}

int serve_stores_name(struct serve *serve)
{
    const uint32_t count = serve_stores_named(serve->options);
    char sentence[BASE_SETTINGS_ERROR_ROOM];
    serve->stores = base_alloc(&serve->node->memory, count * sizeof(*serve->stores));
    if (serve->stores == NULL)
        return -ENOMEM;
    serve->store_room = count;
    for (uint32_t i = 0; i < count; i++) {
        struct serve_store *store = &serve->stores[serve->store_count++];
        store->serve = serve;
        int error = serve_store_at(serve->options, i, &store->options, sentence, sizeof(sentence));
        base_assert(error == 0); /* serve_check_options() has checked the options */
    }
    return 0;
}

int serve_stores_open(struct serve *serve)
{
    const uint32_t count = serve->store_count;
    uint32_t spoken = 0;
    int error = check_memory(serve);
    if (error == 0)
        error = open_stores_of(
            serve, SERVE_CACHE); /* caches first: if one gets no memory, no depot's file is left behind */
    if (error == 0)
        error = open_stores_of(serve, SERVE_HASH);
    if (error == 0)
        error = open_stores_of(serve, SERVE_TREE);
    if (error == 0)
        error = open_stores_of(serve, SERVE_DEPOT);
    for (uint32_t i = 0; i < count; i++)
        spoken += is_spoken(&serve->stores[i].options, i) ? 1 : 0;
    for (uint32_t i = 0; i < count && error == 0; i++) {
        if (is_spoken(&serve->stores[i].options, i))
            error = open_memcache(&serve->stores[i], serve->options->memory_bytes / VALUES_SHARE / spoken);
    }
    return error;
}

static int close_store(struct serve_store *store)
{
    int error = 0;
    if (store->kv != NULL)
        error = tarn_kv_close(store->kv);
    if (store->depot != NULL)
        error = tarn_depot_close(store->depot);
    return error;
}

void serve_stores_leave(struct serve *serve)
{
    for (uint32_t i = 0; i < serve->store_count; i++) {
        if (serve->stores[i].kv != NULL)
            kv_leave(serve->stores[i].kv);
    }
}

int serve_stores_close(struct serve *serve)
{
    int error = 0;
    for (uint32_t i = 0; i < serve->store_count; i++) {
        struct serve_store *store = &serve->stores[i];
        if (store->kv == NULL && store->depot == NULL)
            continue;
        int its = close_store(store);
        base_info(&serve->node->log, its == 0 ? "store closed" : "store closed after a failure", "store=%s",
                  store->options.name);
        error = error == 0 ? its : error;
    }
    return error;
}

void serve_stores_free(struct serve *serve)
{
    for (uint32_t i = 0; i < serve->store_count; i++) {
        if (serve->stores[i].memcache.kv != NULL)
            memcache_server_deinit(&serve->stores[i].memcache);
    }
    if (serve->stores != NULL)
        base_free(&serve->node->memory, serve->stores, serve->store_room * sizeof(*serve->stores));
}

/* ---- what is left with the files, for those that find them locked ------------------------------------------------ */

static void set_url(const struct tarn_depot *depot, const char *url)
{
    const struct drive *whole = depot_drive(depot);
    for (uint32_t i = 0; i < drive_member_count(whole); i++)
        drive_file_set_url(drive_path(drive_member(whole, i)), url);
}

/* Format the URL by which the command line reaches a store of this server, or else the address for memcached's clients. */
static void format_url(const struct serve_store *store, char *url, size_t room)
{
    const struct serve *serve = store->serve;
    const struct serve_options *options = serve->options;
    const bool is_plain = strcmp(options->kv_fabric, "tcp:") == 0;
    char path[PATH_MAX];
    int len = 0;
    if (options->kv_unix_path != NULL && realpath(options->kv_unix_path, path) != NULL)
        len = snprintf(url, room, "unix:%s/%s", path, store->options.name);
    else if (options->kv_listen.count > 0)
        len = snprintf(url, room, "tarn://%s/%s%s%s", options->kv_listen.items[0], store->options.name,
                       is_plain ? "" : "?", is_plain ? "" : options->kv_fabric);
    if (len < 0 || (size_t)len >= room) /* a URL that is cut is of no use */
        url[0] = '\0';
    for (uint32_t i = 0; i < serve->listener_count && url[0] == '\0'; i++) {
        if (serve->listeners[i].store == store)
            (void)snprintf(url, room, "memcached://%s", serve->listeners[i].address);
    }
}

void serve_stores_set_urls(struct serve *serve, bool open)
{
    for (uint32_t i = 0; i < serve->store_count; i++) {
        const struct serve_store *store = &serve->stores[i];
        char url[URL_BYTES] = "";
        if (store->depot == NULL)
            continue;
        if (open)
            format_url(store, url, sizeof(url));
        set_url(store->depot, url[0] == '\0' ? NULL : url);
    }
}
