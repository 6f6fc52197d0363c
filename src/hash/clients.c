/* Making and opening a store, and being one of its clients: from the entry in the head to the slabs of those before. */
#include "hash/hash_internal.h"
#include <inttypes.h>
#include <stdio.h>

#define CAPACITY          (UINT64_C(1) << 30)
#define OPERATION_NS      (250 * BASE_NS_PER_MS)
#define LEASE_NS          (100 * BASE_NS_PER_MS)
#define SLAB_BYTES        (1u << 20)
#define CLIENTS           256u
#define RANKS             3u
#define FILTER_BITS       7u   /* at most: one record of another key is read in 128 then */
#define RECORD_BYTES      256u /* that records are expected to have, in the number of slots */
#define PIECE_BYTES       (1u << 16)
#define CACHE_ENTRY_BYTES 512u

/* ---- making a store ----------------------------------------------------------------------------- */

/* Replace what is 0. @param chunk_bytes  the space's */
static struct hash_shape complete_shape(struct tarn_node *node, const struct hash_shape *wanted,
                                        uint64_t chunk_bytes)
{
    struct hash_shape shape = *wanted;
    if (shape.capacity == 0)
        shape.capacity = CAPACITY;
    shape.table_bytes = (uint32_t)base_min(chunk_bytes, UINT64_C(1) << 30);
    shape.capacity = (shape.capacity + shape.table_bytes - 1) / shape.table_bytes * shape.table_bytes;
    if (shape.slab_bytes == 0)
        shape.slab_bytes = base_min(SLAB_BYTES, base_max(shape.table_bytes / 16, 4096u));
    if (shape.slots == 0)
        shape.slots = base_max(base_power_of_two_from(shape.capacity / RECORD_BYTES / 16), UINT64_C(1024));
    if (shape.locks == 0)
        shape.locks = (uint32_t)base_min(base_max(shape.slots / 8, UINT64_C(64)), UINT64_C(1) << 16);
    if (shape.clients == 0)
        shape.clients = (uint32_t)base_min(
            (uint64_t)CLIENTS, shape.table_bytes / 4 / (HASH_INTENTS * sizeof(struct hash_intent)));
    if (shape.ranks == 0)
        shape.ranks = RANKS;
    if (shape.filter_bits == 0)
        shape.filter_bits = base_min(hash_filter_room(&shape), FILTER_BITS);
    if (shape.filter_bits == HASH_NO_FILTER)
        shape.filter_bits = 0;
    if (shape.operation_ns == 0)
        shape.operation_ns = OPERATION_NS;
    if (shape.lease_ns == 0)
        shape.lease_ns = LEASE_NS;
    if (shape.seed == 0)
        shape.seed = task_rng(node) | 1;
    return shape;
}

int hash_alloc(struct hash *hash, const char *name, uint64_t bytes, bool is_words, const char *node,
               uint64_t deadline_ns, struct tarn_space_region **ret_region)
{
    const struct tarn_space_alloc_options options = {
        .name = name,
        .memory_class = is_words ? TARN_SPACE_WORDS : TARN_SPACE_BULK,
        .placement = node == NULL || *node == '\0' ? TARN_SPACE_STRIPED : TARN_SPACE_ON_NODE,
        .node = node};
    int error = tarn_space_alloc(hash->of, bytes, &options, deadline_ns, ret_region);
    while (error == -ENOSPC && tarn_space_reserve(hash->of, bytes, deadline_ns) == 0)
        error = tarn_space_alloc(hash->of, bytes, &options, deadline_ns, ret_region);
    return error;
}

int hash_zero(struct hash *hash, struct tarn_space_region *region, uint64_t bytes, uint64_t deadline_ns)
{
    uint8_t *zeros = base_alloc(&hash->node->memory, PIECE_BYTES);
    int error = zeros == NULL ? -ENOMEM : 0;
    for (uint64_t at = 0; at < bytes && error == 0; at += PIECE_BYTES)
        error =
            tarn_space_write_at(region, at, zeros, base_min(bytes - at, (uint64_t)PIECE_BYTES), deadline_ns);
    base_free(&hash->node->memory, zeros, PIECE_BYTES);
    return error;
}

void hash_discard(struct tarn_space_region *region, uint64_t deadline_ns)
{
    int error = tarn_space_free(region, deadline_ns);
    (void)error;
    tarn_space_drop(region);
}

/* Remove a head that is not finished, and the index that its maker may have made. */
static void discard_head(struct hash *hash, uint64_t deadline_ns)
{
    struct tarn_space_info info;
    tarn_space_info(hash->head, &info);
    hash_remove_index(hash, 0, info.number, deadline_ns);
    hash_discard(hash->head, deadline_ns);
}

/* Fill a new head, but for the shape, without which the store is not there, and make the first index. */
static int fill_head(struct hash *hash, uint64_t deadline_ns)
{
    int error = hash_zero(hash, hash->head, hash_head_bytes(&hash->shape), deadline_ns);
    return error != 0 ? error : hash_make_index(hash, 0, deadline_ns);
}

/* Write the shape. */
static int write_shape(struct hash *hash, uint64_t deadline_ns)
{
    struct tarn_space_info info;
    uint8_t bytes[HASH_SHAPE_BYTES];
    tarn_space_info(hash->head, &info);
    hash_shape_write(&hash->shape, info.number, bytes);
    return tarn_space_write_at(hash->head, 0, bytes, sizeof(bytes), deadline_ns);
}

/* Find out how large the space's chunks are. */
static int learn_chunk_bytes(struct hash *hash, uint64_t deadline_ns, uint64_t *ret_bytes)
{
    struct tarn_space_region *region;
    struct tarn_space_info info;
    int error = hash_alloc(hash, NULL, 1, true, NULL, deadline_ns, &region);
    if (error != 0)
        return error;
    tarn_space_info(region, &info);
    *ret_bytes = info.chunk_bytes;
    hash_discard(region, deadline_ns);
    return 0;
}

/* Make a store. @return 0; -EEXIST: another client is at it, or has done it; errors */
static int make_store(struct hash *hash, const struct hash_shape *wanted, uint64_t deadline_ns)
{
    uint64_t chunk_bytes;
    int error = learn_chunk_bytes(hash, deadline_ns, &chunk_bytes);
    if (error != 0)
        return error;
    hash->shape = complete_shape(hash->node, wanted, chunk_bytes);
    hash->layout = hash_layout_of(&hash->shape);
    const char *wrong = hash_shape_wrong(&hash->shape);
    if (wrong != NULL) {
        base_error(&hash->node->log, "a hash store cannot be made", "store=\"%s\" why=\"%s\"", hash->name,
                   wrong);
        return -EINVAL;
    }
    error = hash_alloc(hash, hash->name, hash_head_bytes(&hash->shape), true, NULL, deadline_ns, &hash->head);
    if (error != 0)
        return error;
    error = fill_head(hash, deadline_ns);
    if (error != 0) {
        discard_head(hash, deadline_ns);
        hash->head = NULL;
        return error;
    }
    error = write_shape(hash, deadline_ns);
    if (error != 0) { /* others may have found it, and use the store by now: if not, they remove it */
        tarn_space_drop(hash->head);
        hash->head = NULL;
    }
    return error;
}

/* ---- opening it --------------------------------------------------------------------------------- */

/* Read the head of a store whose maker may be at it still. @return 0; -EAGAIN: not yet; errors */
static int read_head(struct hash *hash, uint64_t deadline_ns)
{
    struct tarn_space_info info;
    uint8_t bytes[HASH_SHAPE_BYTES];
    tarn_space_info(hash->head, &info);
    int error = hash_read(hash->head, 0, bytes, sizeof(bytes), deadline_ns);
    if (error != 0)
        return error;
    if (!hash_shape_read(bytes, info.number, &hash->shape) || hash->shape.table_bytes != info.chunk_bytes ||
        hash_head_bytes(&hash->shape) > info.bytes)
        return -EAGAIN;
    hash->layout = hash_layout_of(&hash->shape);
    return 0;
}

/* Find a store. One that is not finished within a lease of the space's was left by its maker: it is removed. @return 0; -ENOENT */
static int find_store(struct hash *hash, uint64_t deadline_ns)
{
    uint64_t pause_ns = 0;
    int error = tarn_space_find(hash->of, hash->name, deadline_ns, &hash->head);
    if (error != 0)
        return error;
    const uint64_t patience_ns = task_now() + 2 * TARN_SPACE_LEASE_NS;
    do {
        error = read_head(hash, deadline_ns);
    } while (error == -EAGAIN && task_now() < patience_ns && task_back_off(&pause_ns, deadline_ns) == 0);
    if (error == 0)
        return 0;
    if (error == -EAGAIN && task_now() >= patience_ns) {
        discard_head(hash, deadline_ns);
        error = -ENOENT;
    } else {
        tarn_space_drop(hash->head);
        error = error == -EAGAIN ? -ETIMEDOUT : error;
    }
    hash->head = NULL;
    return error;
}

static int find_or_make(struct hash *hash, const struct hash_shape *wanted, uint64_t deadline_ns)
{
    int error;
    do {
        error = find_store(hash, deadline_ns);
        if (error == -ENOENT && wanted != NULL)
            error = make_store(hash, wanted, deadline_ns);
    } while (error == -EEXIST);
    return error;
}

static int take_memory(struct hash *hash, uint64_t cache_bytes)
{
    struct base_account *account = &hash->node->memory;
    const uint64_t slabs = hash_slab_total(hash);
    hash->tables = base_alloc(account, hash_tables(&hash->shape) * sizeof(hash->tables[0]));
    hash->slab_classes = base_alloc(account, slabs * sizeof(hash->slab_classes[0]));
    hash->slabs = base_alloc(account, slabs * sizeof(hash->slabs[0]));
    hash->own = base_alloc(account, slabs * sizeof(hash->own[0]));
    hash->cache_bytes = cache_bytes;
    if (cache_bytes > 0) {
        hash->cache_bucket_count =
            (uint32_t)base_power_of_two_from(base_min(cache_bytes / CACHE_ENTRY_BYTES, UINT64_C(1) << 24));
        hash->cache_buckets = base_alloc(account, hash->cache_bucket_count * sizeof(struct hash_cached *));
    }
    const bool has_all =
        hash->tables != NULL && hash->slab_classes != NULL && hash->slabs != NULL && hash->own != NULL;
    return has_all && (cache_bytes == 0 || hash->cache_buckets != NULL) ? 0 : -ENOMEM;
}

static void free_client(struct hash *hash)
{
    struct base_account *account = &hash->node->memory;
    const uint64_t slabs = hash->tables == NULL ? 0 : hash_slab_total(hash);
    if (hash->slabs != NULL && hash->own != NULL)
        hash_slots_forget(hash);
    if (hash->cache_buckets != NULL)
        hash_cache_clear(hash);
    for (uint32_t i = 0; i < hash->table_count; i++)
        tarn_space_drop(hash->tables[i]);
    for (uint32_t i = 0; i < HASH_GROWTHS_MAX; i++) {
        if (hash->indexes[i] != NULL)
            tarn_space_drop(hash->indexes[i]);
    }
    if (hash->head != NULL)
        tarn_space_drop(hash->head);
    hash_free_batches(hash);
    while (!base_list_empty(&hash->free_io))
        base_free(account, base_container_of(base_list_pop_front(&hash->free_io), struct hash_io, link),
                  sizeof(struct hash_io));
    base_free(account, hash->cache_buckets, hash->cache_bucket_count * sizeof(struct hash_cached *));
    base_free(account, hash->own, slabs * sizeof(hash->own[0]));
    base_free(account, hash->slabs, slabs * sizeof(hash->slabs[0]));
    base_free(account, hash->slab_classes, slabs * sizeof(hash->slab_classes[0]));
    base_free(account, hash->tables,
              hash->tables == NULL ? 0 : hash_tables(&hash->shape) * sizeof(hash->tables[0]));
    base_free(account, hash, sizeof(*hash));
}

int hash_open(struct tarn_node *node, struct tarn_space *space, struct tarn_space_namespace *of,
              const char *name, const struct hash_options *options, uint64_t deadline_ns,
              struct hash **ret_hash)
{
    static const struct hash_options defaults;
    const struct hash_options *wanted = options == NULL ? &defaults : options;
    if (strlen(name) == 0 || strlen(name) > HASH_NAME_MAX ||
        (wanted->node != NULL && strlen(wanted->node) > TARN_SPACE_NAME_MAX))
        return -EINVAL;
    struct hash *hash = base_alloc(&node->memory, sizeof(*hash));
    if (hash == NULL)
        return -ENOMEM;
    hash->node = node;
    hash->space = space;
    hash->of = of;
    (void)snprintf(hash->name, sizeof(hash->name), "%s", name);
    hash->is_least_full = wanted->node != NULL && strcmp(wanted->node, HASH_LEAST_FULL) == 0;
    (void)snprintf(hash->place, sizeof(hash->place), "%s",
                   wanted->node == NULL || hash->is_least_full ? "" : wanted->node);
    hash->place_tag = (uint32_t)base_hash64(hash->place, strlen(hash->place), 0) & 0x3fff;
    base_log_limit_init(&hash->full_limit, 1, 60 * BASE_NS_PER_SECOND);
    task_mutex_init(&hash->control);
    base_list_init(&hash->free_io);
    base_list_init(&hash->free_batches);
    base_list_init(&hash->cached);
    int error = find_or_make(hash, wanted->shape, deadline_ns);
    if (error == 0)
        error = take_memory(hash, wanted->cache_bytes);
    if (error == 0)
        error = hash_learn_view(hash, deadline_ns);
    if (error == 0)
        error = hash_enter(hash, deadline_ns);
    if (error != 0) {
        free_client(hash);
        return error;
    }
    *ret_hash = hash;
    return 0;
}

void hash_close(struct hash *hash)
{
    int error =
        0; /* a client that finds the number of a session that is over becomes the successor in any case */
    if (hash->is_entered)
        error = hash_swap(hash, hash->session, hash->head, hash_client_at(&hash->shape, hash->client),
                          hash->session, 0, 0, task_now() + BASE_NS_PER_SECOND);
    (void)error;
    free_client(hash);
}

/* ---- being a client ----------------------------------------------------------------------------- */

int hash_learn_tables(struct hash *hash, uint64_t deadline_ns)
{
    int error = 0;
    while (hash->table_count < hash_tables(&hash->shape) && error == 0) {
        uint64_t word = 0;
        const uint32_t table = hash->table_count;
        error = hash_read(hash->head, hash_table_at(table), &word, sizeof(word), deadline_ns);
        if (error != 0 || (word & HASH_IS_THERE) == 0)
            break;
        struct tarn_space_region *region;
        error = tarn_space_init(hash->of, word & ~UINT64_C(0xffff), 0, deadline_ns, &region);
        if (error == 0 && table == hash->table_count)
            hash->tables[hash->table_count++] = region;
        else if (error == 0)
            tarn_space_drop(region); /* another task was faster */
    }
    return error;
}

/* Whether a client's entry may be taken: nobody has it, or the session of its client is over. @return 0; -EBUSY; errors */
static int check_entry(struct hash *hash, uint64_t session, uint64_t deadline_ns)
{
    return session == 0 ? 0 : tarn_space_session_ended(hash->of, session, deadline_ns);
}

/* Finish what the clients that had this entry before have left locked: only then are their intents of no use any more. */
static int release_locks(struct hash *hash, uint64_t deadline_ns)
{
    uint64_t words[512];
    uint32_t held = 0;
    int error = 0;
    for (uint32_t first = 0; first < hash->shape.locks && error == 0; first += 512) {
        const uint32_t count = base_min(hash->shape.locks - first, 512u);
        error =
            hash_read_words(hash, hash->head, hash_lock_at(&hash->shape, first), words, count, deadline_ns);
        for (uint32_t i = 0; i < count && error == 0; i++) {
            const uint32_t holder = hash_lock_holder(words[i]);
            if (holder == 0 || (holder - 1) / HASH_INTENTS != hash->client)
                continue;
            held |= 1u << (holder - 1) % HASH_INTENTS;
            hash->lost_intents |= 1u << (holder - 1) % HASH_INTENTS;
            error = hash_recover(hash, first + i, words[i], deadline_ns);
            error = error == -EAGAIN ? 0 : error;
        }
    }
    if (error == 0)
        hash->intents &= held;
    return error;
}

/* Take an entry. @return 0; -EAGAIN: another client was faster; errors */
static int take_entry(struct hash *hash, uint32_t client, uint64_t before, uint64_t deadline_ns)
{
    return hash_swap(hash, hash->session, hash->head, hash_client_at(&hash->shape, client), before,
                     hash->session, hash->session, deadline_ns);
}

/* Find an entry that is free, and be its client. */
static int find_entry(struct hash *hash, uint64_t deadline_ns)
{
    uint64_t words[HASH_CLIENTS_MAX];
    int error = hash_read_words(hash, hash->head, hash_client_at(&hash->shape, 0), words, hash->shape.clients,
                                deadline_ns);
    for (uint32_t i = 0; i < hash->shape.clients && error == 0; i++) {
        error = words[i] == hash->session ? -EBUSY : check_entry(hash, words[i], deadline_ns);
        if (error == 0)
            error = take_entry(hash, i, words[i], deadline_ns);
        if (error == 0) {
            hash->client = i;
            return 0;
        }
        error = error == -EBUSY || error == -EAGAIN ? 0 : error;
    }
    return error != 0 ? error : -EUSERS;
}

static int take_number(struct hash *hash, uint64_t deadline_ns)
{
    uint64_t number = 0, found;
    int error = hash_read(hash->head, HASH_HEAD_NUMBER, &number, sizeof(number), deadline_ns);
    while (error == 0) { /* a number that is lost with its outcome is nobody's */
        error = tarn_space_cas(hash->head, HASH_HEAD_NUMBER, number, number + 1, deadline_ns, &found);
        if (error == 0 && found == number)
            break;
        if (error == 0)
            number = found;
    }
    hash->number = (number + 1) << 40;
    hash->counter = 0;
    return error;
}

static int enter_locked(struct hash *hash, uint64_t deadline_ns)
{
    const uint64_t session = tarn_space_session(hash->space);
    if (session == 0)
        return -ESTALE;
    hash_slots_forget(hash);
    hash->is_entered = false;
    hash->intents =
        HASH_INTENTS_ALL; /* no task takes one until it is known whose they are, and which are free */
    hash->lost_intents = 0;
    hash->session = session;
    int error =
        hash_learn_view(hash, deadline_ns); /* an index that was replaced is gone with the session before */
    if (error == 0)
        error = hash_learn_tables(hash, deadline_ns);
    if (error == 0)
        error = find_entry(hash, deadline_ns);
    if (error == 0)
        error = take_number(hash, deadline_ns);
    if (error == 0)
        error = release_locks(hash, deadline_ns);
    if (error == 0)
        error = hash_slabs_adopt(hash, hash->client, deadline_ns);
    if (error == -EUSERS)
        base_error(&hash->node->log,
                   "a hash store has no room for another client: close some, or make it for more",
                   "store=\"%s\" clients=%" PRIu32, hash->name, hash->shape.clients);
    hash->is_entered = error == 0;
    return error;
}

int hash_enter(struct hash *hash, uint64_t deadline_ns)
{
    uint64_t pause_ns = 0;
    int error = 0;
    if (hash->lost_intents == HASH_INTENTS_ALL && hash_is_entered(hash))
        tarn_space_renew_session(hash->space); /* what is on its way to them ends with the session */
    while (!hash_is_entered(hash)) {
        error = task_mutex_lock(&hash->control, deadline_ns);
        if (error != 0)
            return error;
        if (!hash_is_entered(hash))
            error = enter_locked(hash, deadline_ns);
        task_mutex_unlock(&hash->control);
        if (error == 0)
            continue;
        uint64_t view; /* a READ has a session begun, where there is none */
        if (error != -ESTALE)
            return error;
        error = task_back_off(&pause_ns, deadline_ns);
        if (error == 0)
            error = hash_read(hash->head, HASH_HEAD_VIEW, &view, sizeof(view), deadline_ns);
        if (error != 0)
            return error;
    }
    return error;
}

int hash_inherit(struct hash *hash, uint64_t deadline_ns)
{
    uint64_t words[HASH_CLIENTS_MAX];
    uint64_t before = hash->stats.adopted;
    int error = hash_read_words(hash, hash->head, hash_client_at(&hash->shape, 0), words, hash->shape.clients,
                                deadline_ns);
    for (uint32_t i = 0; i < hash->shape.clients && error == 0; i++) {
        if (i == hash->client || words[i] == hash->session)
            continue;
        error = check_entry(hash, words[i], deadline_ns);
        if (error == 0)
            error = take_entry(hash, i, words[i], deadline_ns);
        if (error == 0) {
            error = hash_slabs_adopt(hash, i, deadline_ns);
            if (error == 0)
                error = hash_swap(hash, hash->session, hash->head, hash_client_at(&hash->shape, i),
                                  hash->session, 0, 0, deadline_ns);
        }
        error = error == -EBUSY || error == -EAGAIN ? 0 : error;
    }
    return error != 0 ? error : hash->stats.adopted == before ? -ENOENT : 0;
}

/* ---- ending ------------------------------------------------------------------------------------- */

int hash_destroy(struct tarn_space_namespace *of, const char *name, uint64_t deadline_ns)
{
    struct tarn_space_region *head;
    struct hash_shape shape;
    struct tarn_space_info info;
    uint8_t bytes[HASH_SHAPE_BYTES];
    int error = tarn_space_find(of, name, deadline_ns, &head);
    if (error != 0)
        return error;
    tarn_space_info(head, &info);
    error = tarn_space_read_at(head, 0, bytes, sizeof(bytes), deadline_ns);
    const uint64_t end =
        error == 0 && hash_shape_read(bytes, info.number, &shape) ? hash_client_at(&shape, 0) : 0;
    for (uint64_t at = HASH_HEAD_INDEXES; at < end && error == 0; at += 8) {
        struct tarn_space_region *region;
        uint64_t word;
        error = tarn_space_read_at(head, at, &word, sizeof(word), deadline_ns);
        if (error == 0 && (word & HASH_IS_THERE) != 0 &&
            tarn_space_init(of, word & ~UINT64_C(0xffff), 0, deadline_ns, &region) == 0)
            hash_discard(region, deadline_ns);
    }
    if (error == 0)
        error = tarn_space_free(head, deadline_ns);
    tarn_space_drop(head);
    return error;
}

uint64_t hash_value_bytes_max(const struct hash *hash, size_t key_len)
{
    return hash->shape.slab_bytes - sizeof(struct hash_record) - key_len;
}

void hash_stats(const struct hash *hash, struct hash_stats *ret_stats)
{
    *ret_stats = hash->stats;
    ret_stats->locking = (uint64_t)__builtin_popcount(hash->intents);
    ret_stats->slots = hash_slots(&hash->shape, (uint32_t)(hash->view / 2));
    ret_stats->slab_bytes = (uint64_t)hash->own_count * hash->shape.slab_bytes;
}

const struct hash_shape *hash_shape_of(const struct hash *hash)
{
    return &hash->shape;
}
