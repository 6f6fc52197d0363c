/* Concurrency Kit's hash table as a peer of the index. */
#include "lab/index_tables.h"

#ifdef LAB_CK
#include <ck_ht.h>
#include <errno.h>

struct ck {
    struct lab_index_table table;
    struct base_spin writing; /* the table takes one writer at a time */
    struct ck_malloc memory;
    ck_ht_t ht;
};

static void *map(size_t bytes)
{
    return lab_index_map(bytes);
}

static void *map_again(void *memory, size_t old_bytes, size_t bytes, bool defer)
{
    (void)memory, (void)old_bytes, (void)bytes, (void)defer;
    return NULL; /* it does not ask */
}

static void unmap(void *memory, size_t bytes, bool defer)
{
    (void)defer;
    lab_index_unmap(memory, bytes);
}

/* Keys are hashes. */
static void same(ck_ht_hash_t *hash, const void *key, size_t bytes, uint64_t seed)
{
    (void)bytes, (void)seed;
    memcpy(&hash->value, key, sizeof(hash->value));
}

static int open_ck(const struct lab_index_table *options, uint64_t entries,
                   struct lab_index_table **ret_table)
{
    struct ck *ck = base_alloc(options->account, sizeof(*ck));
    if (ck == NULL)
        return -ENOMEM;
    ck->table = *options;
    ck->memory = (struct ck_malloc){.malloc = map, .realloc = map_again, .free = unmap};
    if (!ck_ht_init(&ck->ht, CK_HT_MODE_DIRECT | CK_HT_WORKLOAD_DELETE, same, &ck->memory, entries,
                    options->seed)) {
        base_free(options->account, ck, sizeof(*ck));
        return -ENOMEM;
    }
    *ret_table = &ck->table;
    return 0;
}

static struct ck *ck_of(struct lab_index_table *table)
{
    return base_container_of(table, struct ck, table);
}

static void close_ck(struct lab_index_table *table)
{
    ck_ht_destroy(&ck_of(table)->ht);
    base_free(table->account, ck_of(table), sizeof(struct ck));
}

static uint64_t find_ck(struct lab_index_table *table, const uint64_t *numbers, uint64_t count)
{
    struct ck *ck = ck_of(table);
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; i++) {
        ck_ht_entry_t entry;
        ck_ht_hash_t hash;
        uint64_t key = lab_index_hash(table, numbers[i]);
        ck_ht_hash_direct(&hash, &ck->ht, key);
        ck_ht_entry_key_set_direct(&entry, key);
        found += ck_ht_get_spmc(&ck->ht, hash, &entry) && ck_ht_entry_value_direct(&entry) == numbers[i] + 1;
    }
    return found;
}

static int insert_ck(struct lab_index_table *table, uint64_t first, uint64_t count)
{
    struct ck *ck = ck_of(table);
    bool is_done = true;
    for (uint64_t i = first; i < first + count && is_done; i++) {
        ck_ht_entry_t entry;
        ck_ht_hash_t hash;
        uint64_t key = lab_index_hash(table, i);
        ck_ht_hash_direct(&hash, &ck->ht, key);
        ck_ht_entry_set_direct(&entry, hash, key, i + 1);
        base_spin_lock(&ck->writing);
        is_done = ck_ht_put_spmc(&ck->ht, hash, &entry);
        base_spin_unlock(&ck->writing);
    }
    return is_done ? 0 : -ENOMEM;
}

static void remove_ck(struct lab_index_table *table, uint64_t first, uint64_t count)
{
    struct ck *ck = ck_of(table);
    for (uint64_t i = first; i < first + count; i++) {
        ck_ht_entry_t entry;
        ck_ht_hash_t hash;
        uint64_t key = lab_index_hash(table, i);
        ck_ht_hash_direct(&hash, &ck->ht, key);
        ck_ht_entry_key_set_direct(&entry, key);
        base_spin_lock(&ck->writing);
        bool is_there = ck_ht_remove_spmc(&ck->ht, hash, &entry);
        base_spin_unlock(&ck->writing);
        base_assert(is_there);
    }
}

const struct lab_index_kind lab_index_ck = {
    .name = "ck_ht",
    .open = open_ck,
    .close = close_ck,
    .find = find_ck,
    .insert = insert_ck,
    .remove = remove_ck,
};
#else
const struct lab_index_kind lab_index_ck = {.name = "ck_ht", .skipped = "built without Concurrency Kit"};
#endif
