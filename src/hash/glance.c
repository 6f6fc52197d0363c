/*
 * Gets at a glance: where the memory can be loaded, as over `shm`, a get whose key is there is answered by loads alone, of its words and of
 * its record. They are steps WORDS and RECORDS of steps.c without anything that has to be posted; whatever else there is to do is left to
 * them.
 */
#include "hash/step.h"

/* A get on its way. */
struct glance {
    hash_key key;
    struct hash_places places;
    struct tarn_space_region *table; /* where its record is; NULL: it takes all steps */
    uint64_t word, offset, bytes;
};

/* Have its words fetched. @return false: they cannot be loaded */
static bool fetch_words(const struct hash *hash, const struct hash_op *op, struct glance *glance)
{
    bool can_load = true;
    glance->key = hash_key_of(&hash->shape, op->key, op->key_len);
    hash_places_of(hash, glance->key, &glance->places);
    for (uint32_t i = 0; i < glance->places.count && can_load; i++)
        can_load = tarn_space_prefetch(glance->places.regions[i], glance->places.at[i].slot * 8, 8);
    return can_load;
}

/* Choose the first word whose filter has the key's, and have its record fetched. */
static void fetch_record(const struct hash *hash, struct glance *glance)
{
    const uint32_t filter = hash_filter_of_key(&hash->layout, glance->key);
    glance->table = NULL;
    for (uint32_t i = 0; i < glance->places.count; i++) {
        if (!tarn_space_glance(glance->places.regions[i], glance->places.at[i].slot * 8, &glance->word, 8))
            return;
        if (hash_has_record(glance->word) && hash_filter_of(&hash->layout, glance->word) == filter)
            break;
        if (i + 1 == glance->places.count)
            return;
    }
    const uint64_t address = hash_address_of(&hash->layout, glance->word);
    glance->bytes = hash_slot_bytes(hash, address);
    if (glance->bytes == 0 || glance->bytes > HASH_NEAR_BYTES)
        return;
    glance->table = hash_table_of(hash, address, &glance->offset);
    if (glance->table != NULL)
        (void)tarn_space_prefetch(glance->table, glance->offset, glance->bytes);
}

/* Read the record. @return whether it is the key's, and whole */
static bool read_record(const struct hash *hash, const struct hash_op *op, const struct glance *glance,
                        struct hash_record *record)
{
    return glance->table != NULL && tarn_space_glance(glance->table, glance->offset, record, glance->bytes) &&
           hash_record_fits(&hash->layout, record, glance->word, glance->bytes) &&
           hash_record_has_key(record, glance->key, op->key, op->key_len);
}

uint32_t hash_glance(struct hash *hash, struct hash_op *ops, uint32_t count)
{
    struct glance glances[HASH_BATCH];
    _Alignas(8) uint8_t near[HASH_NEAR_BYTES];
    struct hash_record *record = (struct hash_record *)(void *)near;
    uint32_t gets = 0, answered = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i].kind != HASH_GET || ops[i].key_len == 0 || ops[i].key_len > TARN_KEY_BYTES_MAX)
            continue;
        if (!fetch_words(hash, &ops[i], &glances[i]))
            return 0;
        gets |= 1u << i;
    }
    if (gets == 0)
        return 0;
    const uint64_t begin_ns = task_now();
    for (uint32_t i = 0; i < count; i++) {
        if ((gets >> i & 1) != 0)
            fetch_record(hash, &glances[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        if ((gets >> i & 1) == 0 || !read_record(hash, &ops[i], &glances[i], record))
            continue;
        hash_answer_get(hash, &ops[i], record);
        answered |= 1u << i;
    }
    const uint64_t end_ns = task_now();
    if (answered == 0 || end_ns - begin_ns > hash->shape.operation_ns ||
        !tarn_space_holds(hash->space, hash->session, end_ns))
        return 0;
    hash->stats.gets += (uint64_t)__builtin_popcount(answered);
    return answered;
}
