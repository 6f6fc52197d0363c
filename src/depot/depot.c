/* The store: opening and closing, and what the public calls do. */
#include "depot/depot.h"
#include "depot/depot_internal.h"
#include <errno.h>

static const char *const stage_names[DEPOT_STAGE_COUNT] = {"index", "append", "commit",
                                                           "write", "read",   "verify"};

#define DAMAGE_LINES_MAX 10 /* a minute */

/* ---- opening and closing ------------------------------------------------------------------------ */

static int init_stripes(struct tarn_depot *depot)
{
    depot->stripes = base_alloc(&depot->node->memory, DEPOT_STRIPES * sizeof(*depot->stripes));
    if (depot->stripes == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < DEPOT_STRIPES; i++) {
        task_mutex_init(&depot->stripes[i].key_lock);
        base_spin_init(&depot->stripes[i].lock);
    }
    return 0;
}

static void deinit_stripes(struct tarn_depot *depot)
{
    depot_table_clear_all(depot);
    base_free(&depot->node->memory, depot->stripes, DEPOT_STRIPES * sizeof(*depot->stripes));
}

/*
 * Recover, and make durable what was found before anybody can read it: it may have been on its way
 * when the last holder died.
 */
static int bring_up(struct tarn_depot *depot)
{
    struct depot_log_end end;
    int error = depot_recover(depot, &end);
    if (error == 0 && !depot->read_only)
        error = drive_flush(depot->drive);
    if (error == 0)
        depot_log_begin(&depot->log, &end);
    return error;
}

/* Everything that lives on an open drive. @return 0, or an error with nothing taken */
static int open_on_drive(struct tarn_depot *depot, const struct tarn_depot_options *options)
{
    int error = depot_superblock_open(depot->node, depot->drive, options, &depot->superblock);
    if (error != 0)
        return error;
    error = init_stripes(depot);
    if (error != 0)
        return error;
    error = depot_read_init(depot);
    if (error != 0)
        goto no_read;
    error = depot_log_init(&depot->log, depot->node, depot->drive, &depot->superblock,
                           options->mode == TARN_MODE_POWER, &depot->stages);
    if (error != 0)
        goto no_log;
    error = bring_up(depot);
    if (error == 0)
        return 0;
    depot_log_deinit(&depot->log);
no_log:
    depot_read_deinit(depot);
no_read:
    deinit_stripes(depot);
    return error;
}

int depot_open(struct tarn_node *node, const char *path, const struct tarn_depot_options *options,
               unsigned direct, uint64_t lock_wait_ns, struct tarn_depot **ret_depot)
{
    static const struct tarn_depot_options defaults = {.mode = TARN_MODE_POWER};
    if (options == NULL)
        options = &defaults;
    if (options->create_bytes > 0 && options->create_bytes < DEPOT_STORE_BYTES_MIN) {
        base_error(&node->log, "the store cannot be made", "why=\"it would be smaller than 1 MiB\"");
        return -EINVAL;
    }
    struct tarn_depot *depot = base_alloc(&node->memory, sizeof(*depot));
    if (depot == NULL)
        return -ENOMEM;
    const struct drive_options drive_options = {
        .create_bytes = options->read_only ? 0 : options->create_bytes,
        .direct = (enum drive_direct)direct,
        .read_only = options->read_only,
        .zero_ahead = true,
        .lock_wait_ns = lock_wait_ns,
    };
    depot->node = node;
    depot->read_only = options->read_only;
    base_spin_init(&depot->stages.lock);
    base_log_limit_init(&depot->damage_limit, DAMAGE_LINES_MAX, 60 * BASE_NS_PER_SECOND);
    int error = drive_open(node, path, &drive_options, &depot->drive);
    if (error == 0) {
        error = open_on_drive(depot, options);
        if (error != 0)
            drive_close(depot->drive);
    }
    if (error != 0)
        base_free(&node->memory, depot, sizeof(*depot));
    else
        *ret_depot = depot;
    return error;
}

int tarn_depot_open(struct tarn_node *node, const char *path, const struct tarn_depot_options *options,
                    struct tarn_depot **ret_depot)
{
    bool direct_off = options != NULL && options->direct_off;
    return depot_open(node, path, options, direct_off ? DRIVE_DIRECT_OFF : DRIVE_DIRECT_AUTO, 0, ret_depot);
}

int tarn_depot_close(struct tarn_depot *depot)
{
    struct tarn_node *node = depot->node;
    int error = depot_log_finish(&depot->log);
    depot_log_deinit(&depot->log);
    depot_read_deinit(depot);
    deinit_stripes(depot);
    if (atomic_load_explicit(&depot->stages.enabled, memory_order_relaxed))
        base_stages_deinit(&depot->stages.stages);
    drive_close(depot->drive);
    base_free(&node->memory, depot, sizeof(*depot));
    return error;
}

/* ---- reading ------------------------------------------------------------------------------------ */

static bool key_is_valid(size_t key_len)
{
    return key_len > 0 && key_len <= TARN_KEY_BYTES_MAX;
}

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static void tell(const struct depot_entry *entry, struct tarn_record_info *ret_info)
{
    if (ret_info != NULL)
        *ret_info = (struct tarn_record_info){.version = entry->version,
                                              .expiry_ns = entry->expiry_ns,
                                              .client_flags = entry->client_flags,
                                              .value_bytes = entry->value_bytes};
}

int tarn_depot_get(struct tarn_depot *depot, const void *key, size_t key_len, void *value, size_t value_room,
                   struct tarn_record_info *ret_info)
{
    struct depot_entry entry;
    if (!key_is_valid(key_len))
        return -EINVAL;
    uint64_t begin_ns = depot_stage_begin(&depot->stages);
    struct base_hash128 hash = base_hash128(key, key_len, depot->superblock.hash_seed);
    bool there = depot_table_find(depot_stripe_of(depot, &hash), &hash, &entry) &&
                 depot_is_visible(depot, &entry, task_wall(depot->node));
    depot_stage_end(&depot->stages, DEPOT_STAGE_INDEX, begin_ns);
    count(&depot->gets);
    if (!there)
        return -ENOENT;
    count(&depot->get_hits);
    int error =
        entry.value_bytes <= value_room ? depot_read_value(depot, &entry, key, key_len, value) : -ENOBUFS;
    if (error == 0 || error == -ENOBUFS)
        tell(&entry, ret_info);
    return error;
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* A write to one key, from taking its lock to giving it back. */
struct key_write {
    struct depot_stripe *stripe;
    struct base_hash128 hash;
    bool there; /* a get would find `entry` */
    struct depot_entry entry;
    uint64_t begin_ns;
};

static void begin_write(struct tarn_depot *depot, const void *key, size_t key_len, struct key_write *write)
{
    write->begin_ns = depot_stage_begin(&depot->stages);
    const struct base_hash128 hash = base_hash128(key, key_len, depot->superblock.hash_seed);
    write->hash = hash;
    write->stripe = depot_stripe_of(depot, &hash);
    task_mutex_lock_firmly(&write->stripe->key_lock);
    write->there = depot_table_find(write->stripe, &hash, &write->entry) &&
                   depot_is_visible(depot, &write->entry, task_wall(depot->node));
}

static int append(struct tarn_depot *depot, const struct key_write *write, const struct depot_draft *draft,
                  uint64_t *ret_address, uint64_t *ret_stamp)
{
    depot_stage_end(&depot->stages, DEPOT_STAGE_INDEX, write->begin_ns);
    return depot_log_append(&depot->log, draft, ret_address, ret_stamp);
}

static int end_write(const struct key_write *write, int outcome)
{
    task_mutex_unlock(&write->stripe->key_lock);
    return outcome;
}

static int check_condition(const struct key_write *write, const struct tarn_put_options *options)
{
    switch (options->condition) {
    case TARN_PUT_ANY:
        return 0;
    case TARN_PUT_IF_ABSENT:
        return write->there ? -EEXIST : 0;
    case TARN_PUT_IF_PRESENT:
        return write->there ? 0 : -ENOENT;
    case TARN_PUT_IF_VERSION:
        if (!write->there)
            return -ENOENT;
        return write->entry.version == options->if_version ? 0 : -EEXIST;
    }
    return -EINVAL;
}

/* Memory for the index is room for data: where it ends, new keys have no space. */
static int reserve_slot(struct tarn_depot *depot, const struct key_write *write)
{
    return depot_table_reserve(depot, write->stripe) == 0 ? 0 : -ENOSPC;
}

int tarn_depot_put(struct tarn_depot *depot, const void *key, size_t key_len, const void *value,
                   size_t value_len, const struct tarn_put_options *options, uint64_t *ret_version)
{
    static const struct tarn_put_options any = {.condition = TARN_PUT_ANY};
    if (options == NULL)
        options = &any;
    if (!key_is_valid(key_len))
        return -EINVAL;
    if (value_len > tarn_depot_value_bytes_max(depot))
        return -EMSGSIZE;
    if (depot->read_only)
        return -EROFS;
    struct key_write write;
    begin_write(depot, key, key_len, &write);
    int error = check_condition(&write, options);
    if (error == 0)
        error = reserve_slot(depot, &write);
    struct depot_entry entry = {.hash = write.hash,
                                .expiry_ns = options->expiry_ns,
                                .client_flags = options->client_flags,
                                .value_bytes = (uint32_t)value_len};
    const struct depot_draft draft = {.kind = DEPOT_PUT,
                                      .key_bytes = (uint16_t)key_len,
                                      .value_bytes = (uint32_t)value_len,
                                      .client_flags = options->client_flags,
                                      .expiry_ns = options->expiry_ns,
                                      .key = key,
                                      .value = value};
    if (error == 0)
        error = append(depot, &write, &draft, &entry.address, &entry.version);
    if (error == 0) {
        depot_table_put(depot, write.stripe, &entry, key_len);
        count(&depot->puts);
        if (ret_version != NULL)
            *ret_version = entry.version;
    }
    return end_write(&write, error);
}

int tarn_depot_delete(struct tarn_depot *depot, const void *key, size_t key_len)
{
    if (!key_is_valid(key_len))
        return -EINVAL;
    if (depot->read_only)
        return -EROFS;
    struct key_write write;
    uint64_t address, stamp;
    const struct depot_draft draft = {.kind = DEPOT_DELETE, .key_bytes = (uint16_t)key_len, .key = key};
    begin_write(depot, key, key_len, &write);
    int error = write.there ? append(depot, &write, &draft, &address, &stamp) : -ENOENT;
    if (error == 0) {
        depot_table_remove(depot, write.stripe, &write.hash, key_len);
        count(&depot->deletes);
    }
    return end_write(&write, error);
}

int tarn_depot_touch(struct tarn_depot *depot, const void *key, size_t key_len, uint64_t expiry_ns)
{
    if (!key_is_valid(key_len))
        return -EINVAL;
    if (depot->read_only)
        return -EROFS;
    struct key_write write;
    uint64_t address, stamp;
    begin_write(depot, key, key_len, &write);
    if (!write.there)
        return end_write(&write, -ENOENT);
    const struct depot_draft draft = {.kind = DEPOT_TOUCH,
                                      .key_bytes = (uint16_t)key_len,
                                      .version = write.entry.version,
                                      .expiry_ns = expiry_ns,
                                      .key = key};
    int error = append(depot, &write, &draft, &address, &stamp);
    if (error == 0) {
        write.entry.expiry_ns = expiry_ns;
        depot_table_put(depot, write.stripe, &write.entry, key_len);
        count(&depot->touches);
    }
    return end_write(&write, error);
}

/* All key locks at once: no write is between its decision and its record, to survive what it should not. */
int tarn_depot_flush_all(struct tarn_depot *depot, uint64_t when_ns)
{
    if (depot->read_only)
        return -EROFS;
    for (uint32_t i = 0; i < DEPOT_STRIPES; i++)
        task_mutex_lock_firmly(&depot->stripes[i].key_lock);
    uint64_t address, stamp;
    const struct depot_draft draft = {.kind = DEPOT_FLUSH_ALL, .expiry_ns = when_ns};
    int error = depot_log_append(&depot->log, &draft, &address, &stamp);
    if (error == 0)
        depot_flush_order(depot, stamp, when_ns);
    for (uint32_t i = DEPOT_STRIPES; i-- > 0;)
        task_mutex_unlock(&depot->stripes[i].key_lock);
    return error;
}

/* ---- what it tells about itself ------------------------------------------------------------------ */

void tarn_depot_stats(struct tarn_depot *depot, struct tarn_depot_stats *ret_stats)
{
    struct tarn_depot_stats stats = {.drive_bytes = depot->superblock.store_bytes};
    const struct {
        _Atomic uint64_t *from;
        uint64_t *to;
    } counters[] = {
        {&depot->records, &stats.records}, {&depot->live_bytes, &stats.live_bytes},
        {&depot->gets, &stats.gets},       {&depot->get_hits, &stats.get_hits},
        {&depot->puts, &stats.puts},       {&depot->deletes, &stats.deletes},
        {&depot->touches, &stats.touches}, {&depot->index_bytes, &stats.index_bytes},
    };
    for (size_t i = 0; i < base_array_count(counters); i++)
        *counters[i].to = atomic_load_explicit(counters[i].from, memory_order_relaxed);
    base_spin_lock(&depot->log.lock);
    stats.used_bytes = depot->log.end.address;
    stats.writes = depot->log.writes;
    stats.flushes = depot->log.flushes;
    base_spin_unlock(&depot->log.lock);
    *ret_stats = stats;
}

/* A group holds the header, the longest key and a value. */
uint64_t tarn_depot_value_bytes_max(const struct tarn_depot *depot)
{
    return depot->superblock.group_bytes - (TARN_KEY_BYTES_MAX + 1) - DEPOT_BLOCK_BYTES_MIN;
}

const struct drive_info *depot_drive_info(const struct tarn_depot *depot)
{
    return drive_info(depot->drive);
}

bool depot_failed(struct tarn_depot *depot)
{
    base_spin_lock(&depot->log.lock);
    bool failed = depot->log.failed;
    base_spin_unlock(&depot->log.lock);
    return failed;
}

int depot_measure(struct tarn_depot *depot)
{
    int error =
        base_stages_init(&depot->stages.stages, &depot->node->memory, stage_names, DEPOT_STAGE_COUNT, true);
    if (error == 0)
        atomic_store_explicit(&depot->stages.enabled, true, memory_order_release);
    return error;
}

int depot_write_stages(struct tarn_depot *depot, struct base_json *json, const char *key)
{
    struct base_stages copy;
    bool enabled = atomic_load_explicit(&depot->stages.enabled, memory_order_acquire);
    int error = base_stages_init(&copy, &depot->node->memory, stage_names, DEPOT_STAGE_COUNT, enabled);
    if (error != 0)
        return error;
    if (enabled) {
        base_spin_lock(&depot->stages.lock);
        base_stages_merge(&copy, &depot->stages.stages);
        base_spin_unlock(&depot->stages.lock);
    }
    base_stages_write_json(&copy, json, key);
    base_stages_deinit(&copy);
    return 0;
}
