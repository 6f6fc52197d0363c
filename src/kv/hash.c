/* Hash stores behind the interface: each operation is one of the caller's client, or several. hash_clients.c has the clients. */
#include "kv/hash.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define GETS_AT_ONCE 16u /* gets that are in flight together */
#define GUESS_BYTES                                                                                          \
    1024u /* room for a value whose length is not known; for a longer one it is read once more */

static struct kv_hash *hash_of(const struct tarn_kv *kv)
{
    return base_container_of(kv, struct kv_hash, kv);
}

static uint64_t deadline_of(const struct kv_hash *self)
{
    return task_now() + self->timeout_ns;
}

/* ---- calls -------------------------------------------------------------------------------------- */

/* Count what an operation has changed. */
static void count_op(struct kv_hash_client *client, const struct hash_op *op)
{
    const int64_t before = (int64_t)op->replaced_bytes;
    if (op->kind == HASH_GET && op->error == -ENOENT && op->record != 0) {
        atomic_fetch_add_explicit(&client->gets_expired, 1, memory_order_relaxed);
    } else if (op->kind == HASH_PUT && op->error == 0) {
        const int64_t now = (int64_t)(sizeof(struct hash_record) + op->key_len + op->value_len);
        atomic_fetch_add_explicit(&client->records, before == 0 ? 1 : 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&client->record_bytes, now - before, memory_order_relaxed);
    } else if (op->kind == HASH_DELETE && op->error == 0) {
        atomic_fetch_sub_explicit(&client->records, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&client->record_bytes, before, memory_order_relaxed);
    }
}

static void run_ops(struct kv_hash_client *client, struct hash_op *ops, size_t count, uint64_t deadline_ns)
{
    hash_run(client->hash, ops, count, deadline_ns);
    for (size_t i = 0; i < count; i++) {
        count_op(client, &ops[i]);
        ops[i].error = kv_hash_error(ops[i].error);
    }
}

/* ---- flushing ----------------------------------------------------------------------------------- */

/* A flush under way. */
struct flush {
    struct kv_hash_client *client;
    uint64_t timeout_ns;
};

static int remove_seen(void *arg, const void *key, size_t key_len, const void *value,
                       const struct tarn_record_info *info)
{
    const struct flush *flush = arg;
    struct hash_op op = {.kind = HASH_DELETE,
                         .key = key,
                         .key_len = key_len,
                         .options = {.condition = TARN_PUT_IF_VERSION, .if_version = info->version}};
    (void)value;
    run_ops(flush->client, &op, 1, task_now() + flush->timeout_ns);
    return op.error == -EEXIST || op.error == -ENOENT
               ? 0
               : op.error; /* another one has come meanwhile, or none is left */
}

static int flush_now(struct kv_hash *self)
{
    struct flush flush = {.timeout_ns = self->timeout_ns};
    int error = kv_hash_take(self, deadline_of(self), &flush.client);
    if (error != 0)
        return error;
    error = hash_scan(flush.client->hash, remove_seen, &flush, self->timeout_ns);
    kv_hash_give(flush.client);
    return error;
}

/* Carry out a flush whose moment has come; others wait for its end. */
static int flush_if_due(struct kv_hash *self)
{
    const uint64_t when_ns = atomic_load_explicit(&self->flush_ns, memory_order_relaxed);
    if (base_likely(when_ns == KV_HASH_NEVER) || task_wall(self->kv.node) < when_ns)
        return 0;
    int error = task_mutex_lock(&self->flushing, TASK_FOREVER);
    if (error != 0)
        return error;
    if (atomic_load_explicit(&self->flush_ns, memory_order_relaxed) == when_ns)
        error = flush_now(self);
    if (error == 0) {
        uint64_t expected = when_ns;
        (void)atomic_compare_exchange_strong(&self->flush_ns, &expected, KV_HASH_NEVER);
    }
    task_mutex_unlock(&self->flushing);
    return error;
}

/* Take the caller's client. */
static int take_client(struct kv_hash *self, struct kv_hash_client **ret_client)
{
    int error = flush_if_due(self);
    return error != 0 ? error : kv_hash_take(self, deadline_of(self), ret_client);
}

/* The next call at that moment or later carries it out. Others who use a store of a space would not know of it. */
static int hash_store_flush(struct tarn_kv *kv, uint64_t when_ns)
{
    struct kv_hash *self = hash_of(kv);
    const bool is_later = when_ns > task_wall(kv->node);
    if (is_later && self->own == NULL)
        return -EOPNOTSUPP;
    atomic_store_explicit(&self->flush_ns, is_later ? when_ns : KV_HASH_NEVER, memory_order_relaxed);
    return is_later ? 0 : flush_now(self);
}

/* ---- the calls of one operation ------------------------------------------------------------------- */

/* Run one operation by the caller's client. */
static int run_op(struct tarn_kv *kv, struct hash_op *op)
{
    struct kv_hash_client *client;
    int error = take_client(hash_of(kv), &client);
    const uint64_t deadline_ns = deadline_of(hash_of(kv));
    if (error != 0)
        return error;
    run_ops(client, op, 1, deadline_ns);
    kv_hash_give(client);
    return op->error;
}

/* ---- whole values ------------------------------------------------------------------------------- */

/* A record that was fetched into memory that is as long as it needs. */
struct fetched {
    uint8_t *value;
    uint64_t room;
    struct tarn_record_info info;
    uint64_t record; /* its number; 0: there is none */
};

static int require_room(struct kv_hash_client *client, struct fetched *fetched, uint64_t bytes)
{
    struct base_account *account = &client->store->kv.node->memory;
    if (fetched->room >= bytes)
        return 0;
    base_free(account, fetched->value, fetched->room);
    fetched->value = base_alloc(account, bytes);
    fetched->room = fetched->value == NULL ? 0 : bytes;
    return fetched->value == NULL ? -ENOMEM : 0;
}

static void drop_fetched(struct kv_hash_client *client, struct fetched *fetched)
{
    base_free(&client->store->kv.node->memory, fetched->value, fetched->room);
}

/* Fetch a record. @param bytes  room for its value at first @return as tarn_kv_get() */
static int fetch(struct kv_hash_client *client, const void *key, size_t key_len, uint64_t bytes,
                 uint64_t deadline_ns, struct fetched *fetched)
{
    struct hash_op op = {.kind = HASH_GET, .key = key, .key_len = key_len};
    int error = require_room(client, fetched, bytes);
    while (error == 0) {
        op.room = fetched->value;
        op.room_bytes = fetched->room;
        run_ops(client, &op, 1, deadline_ns);
        if (op.error != -ENOBUFS)
            break;
        error = require_room(client, fetched, op.info.value_bytes);
    }
    error = error != 0 ? error : op.error;
    fetched->record = error == 0 ? op.record : 0;
    fetched->info = op.info;
    return error;
}

/* ---- the functions of <tarn/kv.h> ----------------------------------------------------------------- */

static int hash_store_get(struct tarn_kv *kv, const void *key, size_t key_len, void *value, size_t value_room,
                          struct tarn_record_info *ret_info)
{
    struct hash_op op = {
        .kind = HASH_GET, .key = key, .key_len = key_len, .room = value, .room_bytes = value_room};
    int error = run_op(kv, &op);
    *ret_info = op.info;
    return error;
}

static void get_few(struct kv_hash_client *client, struct tarn_get *gets, size_t count, uint64_t deadline_ns)
{
    struct hash_op ops[GETS_AT_ONCE];
    for (size_t i = 0; i < count; i++)
        ops[i] = (struct hash_op){.kind = HASH_GET,
                                  .key = gets[i].key,
                                  .key_len = gets[i].key_len,
                                  .room = gets[i].value,
                                  .room_bytes = gets[i].value_room};
    run_ops(client, ops, count, deadline_ns);
    for (size_t i = 0; i < count; i++) {
        gets[i].error = ops[i].error;
        if (ops[i].error == 0 || ops[i].error == -ENOBUFS)
            gets[i].info = ops[i].info;
    }
}

static void get_many(struct tarn_kv *kv, struct tarn_get *gets, size_t count)
{
    struct kv_hash_client *client;
    int error = take_client(hash_of(kv), &client);
    for (size_t i = 0; i < count && error != 0; i++)
        gets[i].error = error;
    if (error != 0)
        return;
    for (size_t done = 0; done < count; done += GETS_AT_ONCE)
        get_few(client, gets + done, base_min(count - done, (size_t)GETS_AT_ONCE), deadline_of(hash_of(kv)));
    kv_hash_give(client);
}

static int read_part(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t if_version,
                     uint64_t offset, void *data, size_t data_room, size_t *ret_bytes,
                     struct tarn_record_info *ret_info)
{
    struct kv_hash_client *client;
    struct fetched fetched = {.value = NULL};
    int error = take_client(hash_of(kv), &client);
    const uint64_t deadline_ns = deadline_of(hash_of(kv));
    if (error != 0)
        return error;
    error = fetch(client, key, key_len, GUESS_BYTES, deadline_ns, &fetched);
    if (error == 0 && if_version != 0 && fetched.info.version != if_version)
        error = -ESTALE;
    if (error == 0) {
        const uint64_t left = fetched.info.value_bytes - base_min(offset, (uint64_t)fetched.info.value_bytes);
        *ret_bytes = base_min(left, (uint64_t)data_room);
        if (*ret_bytes > 0)
            memcpy(data, fetched.value + offset, *ret_bytes);
        *ret_info = fetched.info;
    }
    drop_fetched(client, &fetched);
    kv_hash_give(client);
    return error;
}

static int hash_store_put(struct tarn_kv *kv, const void *key, size_t key_len, const void *value,
                          size_t value_len, const struct tarn_put_options *options, uint64_t *ret_version)
{
    struct hash_op op = {.kind = HASH_PUT,
                         .key = key,
                         .key_len = key_len,
                         .value = value,
                         .value_len = value_len,
                         .options = *options};
    int error = run_op(kv, &op);
    if (error == 0 && ret_version != NULL)
        *ret_version = op.info.version;
    return error;
}

static int hash_store_delete(struct tarn_kv *kv, const void *key, size_t key_len)
{
    struct hash_op op = {.kind = HASH_DELETE, .key = key, .key_len = key_len};
    return run_op(kv, &op);
}

/* The visitor may take as long as it likes. */
static int hash_store_scan(struct tarn_kv *kv, tarn_scan_function *visit, void *arg)
{
    struct kv_hash_client *client;
    int error = take_client(hash_of(kv), &client);
    if (error != 0)
        return error;
    error = hash_scan(client->hash, visit, arg, hash_of(kv)->timeout_ns);
    kv_hash_give(client);
    return error;
}

/* ---- for front ends -------------------------------------------------------------------------------- */

static uint64_t whole_bytes_max(const struct tarn_kv *kv, size_t key_len)
{
    return hash_of(kv)->shape.slab_bytes - sizeof(struct hash_record) - key_len;
}

/* Put or remove what was decided, if the record is still the one that was fetched. @return -EAGAIN: it is not */
static int apply_update(struct kv_hash_client *client, const void *key, size_t key_len,
                        const struct fetched *old, const struct tarn_update *update, uint64_t deadline_ns,
                        uint64_t *ret_version)
{
    struct hash_op op = {.kind = update->remove ? HASH_DELETE : HASH_PUT,
                         .key = key,
                         .key_len = key_len,
                         .if_record = old->record};
    if (update->remove && old->record == 0)
        return 0;
    if (!update->remove) {
        if ((update->keep && old->record == 0) || update->note > TARN_NOTE_MAX)
            return -EINVAL;
        op.value = update->keep ? old->value : update->value;
        op.value_len = update->keep ? old->info.value_bytes : update->value_len;
        op.options =
            (struct tarn_put_options){.condition = old->record == 0 ? TARN_PUT_IF_ABSENT : TARN_PUT_ANY,
                                      .expiry_ns = update->expiry_ns,
                                      .version = update->version,
                                      .client_flags = update->client_flags,
                                      .note = update->note};
    }
    run_ops(client, &op, 1, deadline_ns);
    if (op.error == 0 && !update->remove && ret_version != NULL)
        *ret_version = op.info.version;
    return op.error == -EEXIST || op.error == -ENOENT ? -EAGAIN : op.error;
}

/* Others write meanwhile, perhaps in other processes: then all of it is done again. */
static int hash_store_update(struct tarn_kv *kv, const void *key, size_t key_len,
                             tarn_update_function *decide, void *arg, uint64_t *ret_version)
{
    struct kv_hash_client *client;
    struct fetched old = {.value = NULL};
    int error = take_client(hash_of(kv), &client);
    const uint64_t deadline_ns = deadline_of(hash_of(kv));
    if (error != 0)
        return error;
    do {
        error = fetch(client, key, key_len, GUESS_BYTES, deadline_ns, &old);
        if (error != 0 && error != -ENOENT)
            break;
        const bool is_there = old.record != 0;
        struct tarn_update update = {.expiry_ns = is_there ? old.info.expiry_ns : 0,
                                     .client_flags = is_there ? old.info.client_flags : 0,
                                     .note = is_there ? old.info.note : 0};
        error = decide(arg, is_there ? &old.info : NULL, is_there ? old.value : NULL, &update);
        if (error != 0)
            break;
        error = apply_update(client, key, key_len, &old, &update, deadline_ns, ret_version);
    } while (error == -EAGAIN);
    drop_fetched(client, &old);
    kv_hash_give(client);
    return error;
}

static int decide_expiry(void *arg, const struct tarn_record_info *old, const void *value,
                         struct tarn_update *update)
{
    const uint64_t *expiry_ns = arg;
    (void)value;
    if (old == NULL)
        return -ENOENT;
    update->expiry_ns = *expiry_ns;
    update->version = old->version;
    update->keep = true;
    return 0;
}

static int hash_store_touch(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t expiry_ns)
{
    return hash_store_update(kv, key, key_len, decide_expiry, &expiry_ns, NULL);
}

/* ---- values that are shown ------------------------------------------------------------------------ */

/* Show the outcome of a get, whose value is fetched first if it was longer than expected. @return as `visit` */
static bool show_value(struct kv_hash_client *client, struct tarn_get *get, kv_get_function *visit, void *arg)
{
    struct tarn_lease lease = {.data = NULL};
    struct fetched fetched = {.value = NULL};
    if (get->error == -ENOBUFS) {
        get->error = fetch(client, get->key, get->key_len, get->info.value_bytes, deadline_of(client->store),
                           &fetched);
        get->info = fetched.info;
        get->value = fetched.value;
    }
    if (get->error == 0) {
        lease.data = get->value;
        lease.bytes = get->info.value_bytes;
    }
    const bool is_taken = visit(arg, get, &lease);
    drop_fetched(client, &fetched);
    return is_taken;
}

/* Show some gets. @param values  GUESS_BYTES for each @return number of gets shown */
static size_t show_few(struct kv_hash_client *client, struct tarn_get *gets, size_t count, uint8_t *values,
                       kv_get_function *visit, void *arg)
{
    size_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        gets[i].value = values + i * GUESS_BYTES;
        gets[i].value_room = GUESS_BYTES;
    }
    get_few(client, gets, count, deadline_of(client->store));
    while (shown < count && show_value(client, &gets[shown], visit, arg))
        shown++;
    return shown;
}

static size_t get_each(struct tarn_kv *kv, struct tarn_get *gets, size_t count, const struct kv_room *room,
                       kv_get_function *visit, void *arg)
{
    struct base_account *account = &kv->node->memory;
    const size_t at_once = base_min(count, (size_t)GETS_AT_ONCE);
    struct kv_hash_client *client = NULL;
    struct tarn_lease none = {.data = NULL};
    size_t shown = 0;
    (void)room;
    uint8_t *values = base_alloc(account, at_once * GUESS_BYTES);
    int error = values == NULL ? -ENOMEM : take_client(hash_of(kv), &client);
    while (error == 0 && shown < count) {
        const size_t some = base_min(count - shown, at_once);
        const size_t more = show_few(client, gets + shown, some, values, visit, arg);
        shown += more;
        if (more < some)
            break;
    }
    for (bool is_taken = true; error != 0 && is_taken && shown < count; shown += is_taken) {
        gets[shown].error = error;
        is_taken = visit(arg, &gets[shown], &none);
    }
    if (error == 0)
        kv_hash_give(client);
    base_free(account, values, at_once * GUESS_BYTES);
    return shown;
}

/* ---- statistics ------------------------------------------------------------------------------------ */

static void count_client(const struct kv_hash_client *client, int64_t *records, int64_t *bytes,
                         struct kv_stats *stats)
{
    if (client == NULL)
        return;
    *records += atomic_load_explicit(&client->records, memory_order_relaxed);
    *bytes += atomic_load_explicit(&client->record_bytes, memory_order_relaxed);
    stats->gets_expired += atomic_load_explicit(&client->gets_expired, memory_order_relaxed);
}

/* Records of a store in a space of others are counted as far as this process has stored or removed them. */
static void hash_store_stats(const struct tarn_kv *kv, struct kv_stats *ret_stats)
{
    struct kv_hash *self = hash_of(kv);
    struct kv_stats stats = {.capacity_bytes = self->shape.capacity,
                             .index_bytes = self->shape.slots * sizeof(uint64_t)};
    int64_t records = 0, bytes = 0;
    for (uint32_t i = 0; i < TASK_SCHEDS_MAX; i++)
        count_client(atomic_load_explicit(&self->clients[i], memory_order_acquire), &records, &bytes, &stats);
    base_spin_lock(&self->lock);
    for (uint32_t i = 0; i < KV_THREAD_CLIENTS; i++)
        count_client(self->thread_clients[i], &records, &bytes, &stats);
    base_spin_unlock(&self->lock);
    stats.records = (uint64_t)base_max(records, (int64_t)0);
    stats.live_bytes = (uint64_t)base_max(bytes, (int64_t)0);
    *ret_stats = stats;
}

/* ---- opening and closing ---------------------------------------------------------------------------- */

static void hash_store_leave(struct tarn_kv *kv)
{
    kv_hash_leave(hash_of(kv));
}

static int hash_store_close(struct tarn_kv *kv)
{
    kv_hash_free(hash_of(kv));
    return 0;
}

static const struct kv_operations operations = {.get = hash_store_get,
                                                .get_many = get_many,
                                                .read = read_part,
                                                .put = hash_store_put,
                                                .delete = hash_store_delete,
                                                .scan = hash_store_scan,
                                                .close = hash_store_close,
                                                .whole_bytes_max = whole_bytes_max,
                                                .update = hash_store_update,
                                                .touch = hash_store_touch,
                                                .flush = hash_store_flush,
                                                .get_each = get_each,
                                                .stats = hash_store_stats,
                                                .leave = hash_store_leave};

int kv_hash_open(struct tarn_node *node, const struct kv_url *url, const struct tarn_kv_options *options,
                 struct tarn_kv **ret_kv)
{
    struct kv_hash *self = base_alloc(&node->memory, sizeof(*self));
    if (self == NULL)
        return -ENOMEM;
    self->kv = (struct tarn_kv){.operations = &operations, .node = node};
    int error = kv_hash_begin(self, url, options);
    if (error != 0) {
        kv_hash_free(self);
        return error;
    }
    const uint64_t longest = whole_bytes_max(&self->kv, 1);
    self->kv.info = (struct tarn_kv_info){.kind = kv_kind_hash,
                                          .abilities = TARN_KV_SCANS | TARN_KV_RANGES | TARN_KV_VERSIONS,
                                          .partitions = 1,
                                          .value_bytes_max = longest,
                                          .whole_bytes_max = longest};
    *ret_kv = &self->kv;
    return 0;
}
