/* The checker of a store that nobody changes: every word of the index leads to a record, and no key has two words. */
#include "hash/hash_internal.h"
#include <inttypes.h>
#include <stdlib.h>

#define WORDS 128u /* that are looked at together */

struct check {
    struct hash *hash;
    uint64_t deadline_ns;
    struct hash_io *io;
    hash_key *keys; /* of the records that were found */
    uint64_t count; /* of keys */
    uint64_t words[WORDS];
    struct hash_record records[WORDS]; /* their headers */
};

static int refuse_word(const struct check *check, uint32_t growth, uint64_t slot, uint64_t word,
                       const char *why)
{
    base_error(&check->hash->node->log, "a slot of a hash store's index is not as it should be",
               "store=\"%s\" growth=%" PRIu32 " slot=%" PRIu64 " word=%016" PRIx64 " why=%s",
               check->hash->name, growth, slot, word, why);
    return -EUCLEAN;
}

/* Look at some slots of an index, and note the keys that they have. */
static int check_slots(struct check *check, uint32_t growth, uint64_t first, uint32_t count)
{
    struct hash *hash = check->hash;
    int error =
        hash_read_words(hash, hash_index(hash, growth), first * 8, check->words, count, check->deadline_ns);
    check->io->count = 0;
    for (uint32_t i = 0; i < count && error == 0; i++) {
        const uint64_t word = check->words[i];
        uint64_t offset;
        struct tarn_space_region *table = hash_table_of(hash, hash_address_of(&hash->layout, word), &offset);
        if (hash_state_of(word) == HASH_FROZEN || (hash_has_record(word) && table == NULL))
            error = refuse_word(check, growth, first + i, word, table == NULL ? "no-table" : "frozen");
        else if (hash_has_record(word))
            hash_io_read(check->io, table, offset, &check->records[i], sizeof(check->records[i]));
    }
    if (error == 0 && check->io->count > 0)
        error = hash_io_run(hash, check->io, check->deadline_ns);
    for (uint32_t i = 0; i < count && error == 0; i++) {
        const uint64_t word = check->words[i];
        if (hash_has_record(word) && !hash_header_fits(&hash->layout, &check->records[i], word))
            error = refuse_word(check, growth, first + i, word, "no-record");
        else if (hash_has_record(word))
            check->keys[check->count++] = check->records[i].key;
    }
    return error;
}

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(hash_key));
}

static int check_index(struct check *check, uint32_t growth)
{
    const uint64_t slots = hash_slots(&check->hash->shape, growth);
    int error = 0;
    for (uint64_t first = 0; first < slots && error == 0; first += WORDS)
        error = check_slots(check, growth, first, (uint32_t)base_min(slots - first, (uint64_t)WORDS));
    return error;
}

int hash_check(struct hash *hash, uint64_t deadline_ns, uint64_t *ret_keys)
{
    struct base_account *account = &hash->node->memory;
    int error = hash_learn_view(hash, deadline_ns);
    if (error == 0)
        error = hash_learn_tables(hash, deadline_ns);
    if (error != 0)
        return error;
    const uint32_t oldest = (uint32_t)(hash->view / 2), newest = oldest + (uint32_t)(hash->view & 1);
    const uint64_t room = 2 * hash_slots(&hash->shape, newest) * sizeof(hash_key);
    struct check *check = base_alloc(account, sizeof(*check));
    if (check == NULL)
        return -ENOMEM;
    *check = (struct check){.hash = hash, .deadline_ns = deadline_ns, .io = hash_io_get(hash)};
    check->keys = base_alloc(account, room);
    if (check->io == NULL || check->keys == NULL)
        error = -ENOMEM;
    for (uint32_t growth = oldest; growth <= newest && error == 0; growth++)
        error = check_index(check, growth);
    if (error == 0)
        qsort(check->keys, check->count, sizeof(check->keys[0]), compare_keys);
    for (uint64_t i = 1; i < check->count && error == 0; i++) {
        if (hash_key_equals(check->keys[i - 1], check->keys[i])) {
            base_error(&hash->node->log, "a key of a hash store is at two slots", "store=\"%s\"", hash->name);
            error = -EUCLEAN;
        }
    }
    if (error == 0)
        *ret_keys = check->count;
    if (check->io != NULL)
        hash_io_put(hash, check->io);
    base_free(account, check->keys, room);
    base_free(account, check, sizeof(*check));
    return error;
}
