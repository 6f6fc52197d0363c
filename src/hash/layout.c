/* What a hash store looks like: how words are divided, where a key's slots are, and the checksums of records. */
#include "hash/layout.h"
#include <stddef.h>
#include <string.h>

#define MAGIC UINT64_C(0x31485341484e5254) /* "TRNHASH1" */

/* ---- the head ----------------------------------------------------------------------------------- */

#define ADDRESS_BITS_MAX (64 - 2 - HASH_GENERATION_BITS - HASH_VERSION_BITS)

static uint32_t address_bits_of(const struct hash_shape *shape)
{
    const uint64_t grains = (uint64_t)hash_tables(shape) * (shape->table_bytes / HASH_GRAIN_BYTES);
    return (uint32_t)__builtin_ctzll(base_power_of_two_from(grains));
}

uint32_t hash_filter_room(const struct hash_shape *shape)
{
    return base_min(ADDRESS_BITS_MAX - base_min(address_bits_of(shape), ADDRESS_BITS_MAX),
                    HASH_FILTER_BITS_MAX);
}

const char *hash_shape_wrong(const struct hash_shape *shape)
{
    if (shape->ranks < 2 || shape->ranks > HASH_RANKS_MAX)
        return "a key has 2 to 8 slots";
    if (shape->filter_bits > HASH_FILTER_BITS_MAX)
        return "there are at most 11 filter bits";
    if (!base_is_power_of_two(shape->slots) || shape->slots < 16 || shape->slots > UINT64_C(1) << 38)
        return "the index has 16 to 2^38 slots, a power of two";
    if (!base_is_power_of_two(shape->locks) || shape->clients == 0 || shape->clients > HASH_CLIENTS_MAX)
        return "there are 1 to 1,024 clients, and locks by a power of two";
    if (!base_is_power_of_two(shape->table_bytes) || !base_is_power_of_two(shape->slab_bytes) ||
        shape->slab_bytes < 4096 || shape->table_bytes < 65536 || shape->slab_bytes > shape->table_bytes)
        return "slabs and tables are powers of two, a slab has 4 KiB at least, and a chunk of the space 64 "
               "KiB";
    if (hash_intent_slabs(shape) >= hash_slabs_of_table(shape) || shape->capacity < shape->table_bytes)
        return "a table has no room beside the intents of so many clients";
    if (address_bits_of(shape) > ADDRESS_BITS_MAX || shape->filter_bits > hash_filter_room(shape))
        return "so much capacity leaves no room for so many filter bits";
    return shape->operation_ns == 0 || shape->lease_ns == 0 ? "an operation and a lease take time" : NULL;
}

void hash_shape_write(const struct hash_shape *shape, uint32_t region_number, uint8_t *bytes)
{
    const uint64_t words[] = {MAGIC,
                              region_number,
                              shape->seed,
                              shape->slots,
                              shape->capacity,
                              shape->operation_ns,
                              shape->lease_ns,
                              shape->locks,
                              shape->clients,
                              shape->table_bytes,
                              shape->slab_bytes,
                              shape->ranks,
                              shape->filter_bits,
                              0,
                              0};
    _Static_assert(sizeof(words) + 8 == HASH_SHAPE_BYTES, "all of it");
    for (size_t i = 0; i < sizeof(words) / 8; i++)
        base_store_le64(bytes + 8 * i, words[i]);
    base_store_le64(bytes + sizeof(words), base_hash64(bytes, sizeof(words), MAGIC));
}

bool hash_shape_read(const uint8_t *bytes, uint32_t region_number, struct hash_shape *ret_shape)
{
    uint64_t words[HASH_SHAPE_BYTES / 8];
    for (size_t i = 0; i < sizeof(words) / 8; i++)
        words[i] = base_load_le64(bytes + 8 * i);
    if (words[0] != MAGIC || words[1] != region_number ||
        words[15] != base_hash64(bytes, HASH_SHAPE_BYTES - 8, MAGIC))
        return false;
    const struct hash_shape shape = {.seed = words[2],
                                     .slots = words[3],
                                     .capacity = words[4],
                                     .operation_ns = words[5],
                                     .lease_ns = words[6],
                                     .locks = (uint32_t)words[7],
                                     .clients = (uint32_t)words[8],
                                     .table_bytes = (uint32_t)words[9],
                                     .slab_bytes = (uint32_t)words[10],
                                     .ranks = (uint32_t)words[11],
                                     .filter_bits = (uint32_t)words[12]};
    if (hash_shape_wrong(&shape) != NULL)
        return false;
    *ret_shape = shape;
    return true;
}

uint32_t hash_intent_slabs(const struct hash_shape *shape)
{
    const uint64_t bytes = (uint64_t)shape->clients * HASH_INTENTS * sizeof(struct hash_intent);
    return (uint32_t)((bytes + shape->slab_bytes - 1) / shape->slab_bytes);
}

uint64_t hash_table_at(uint32_t table)
{
    return HASH_HEAD_LISTS + UINT64_C(8) * table;
}

uint64_t hash_client_at(const struct hash_shape *shape, uint32_t client)
{
    return hash_table_at(hash_tables(shape)) + UINT64_C(8) * client;
}

uint64_t hash_slab_at(const struct hash_shape *shape, uint32_t slab)
{
    return hash_client_at(shape, shape->clients) + UINT64_C(8) * slab;
}

uint64_t hash_lock_at(const struct hash_shape *shape, uint32_t lock)
{
    return hash_slab_at(shape, hash_tables(shape) * hash_slabs_of_table(shape)) + UINT64_C(8) * lock;
}

uint64_t hash_head_bytes(const struct hash_shape *shape)
{
    return hash_lock_at(shape, shape->locks);
}

/* ---- words of the index ------------------------------------------------------------------------- */

struct hash_layout hash_layout_of(const struct hash_shape *shape)
{
    struct hash_layout layout = {.filter_bits = shape->filter_bits, .address_bits = address_bits_of(shape)};
    layout.version_bits = 64 - 2 - HASH_GENERATION_BITS - layout.address_bits - layout.filter_bits;
    return layout;
}

uint64_t hash_word(const struct hash_layout *layout, uint64_t before, enum hash_state state, uint64_t address,
                   uint64_t generation, uint32_t filter)
{
    const uint64_t version = hash_version_of(layout, before + 4);
    uint64_t word = (uint64_t)state | version << 2;
    word |= (generation & ((1u << HASH_GENERATION_BITS) - 1)) << (2 + layout->version_bits);
    word |= address << (2 + layout->version_bits + HASH_GENERATION_BITS);
    return layout->filter_bits == 0 ? word : word | (uint64_t)filter << (64 - layout->filter_bits);
}

uint64_t hash_word_of(const struct hash_layout *layout, uint64_t before, enum hash_state state,
                      uint64_t other)
{
    return hash_word(layout, before, state, hash_address_of(layout, other), hash_generation_of(layout, other),
                     hash_filter_of(layout, other));
}

uint64_t hash_word_without(const struct hash_layout *layout, uint64_t before, enum hash_state state)
{
    return hash_word(layout, before, state, 0, 0, 0);
}

uint64_t hash_word_bumped(const struct hash_layout *layout, uint64_t before)
{
    return hash_word_of(layout, before, hash_state_of(before), before);
}

/* ---- keys --------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t word)
{
    word = (word ^ word >> 33) * UINT64_C(0xff51afd7ed558ccd);
    word = (word ^ word >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return word ^ word >> 33;
}

uint64_t hash_slot_of(const struct hash_shape *shape, hash_key key, uint32_t growth, uint32_t rank)
{
    const uint64_t slots = hash_slots(shape, growth),
                   in_segment = base_min(slots, (uint64_t)HASH_SEGMENT_SLOTS);
    const uint64_t segment =
        slots == in_segment ? 0 : key.high >> (64 - (uint32_t)__builtin_ctzll(slots / in_segment));
    return segment * in_segment + (mix(key.low + rank * (key.high | 1)) & (in_segment - 1));
}

uint32_t hash_lock_of(const struct hash_shape *shape, hash_key key)
{
    return (uint32_t)mix(key.high ^ MAGIC) & (shape->locks - 1);
}

/* ---- records ------------------------------------------------------------------------------------ */

static uint32_t header_sum(const struct hash_record *record, uint64_t address)
{
    struct hash_record copy = *record;
    copy.header_sum = 0;
    copy.sum = 0;
    return (uint32_t)base_hash64(&copy, sizeof(copy), address);
}

static uint64_t record_sum(const struct hash_record *record, uint64_t address)
{
    return base_hash64(record + 1, (size_t)record->key_bytes + record->value_bytes,
                       address ^ base_hash64(record, offsetof(struct hash_record, sum), address));
}

void hash_record_seal(struct hash_record *record, uint64_t address)
{
    record->header_sum = header_sum(record, address);
    record->sum = record_sum(record, address);
}

bool hash_header_is_whole(const struct hash_record *record, uint64_t address)
{
    return record->header_sum == header_sum(record, address);
}

static bool has_generation(const struct hash_layout *layout, const struct hash_record *record, uint64_t word)
{
    return (record->generation & ((1u << HASH_GENERATION_BITS) - 1)) == hash_generation_of(layout, word);
}

bool hash_header_fits(const struct hash_layout *layout, const struct hash_record *record, uint64_t word)
{
    return has_generation(layout, record, word) &&
           hash_header_is_whole(record, hash_address_of(layout, word));
}

bool hash_record_fits(const struct hash_layout *layout, const struct hash_record *record, uint64_t word,
                      uint64_t room)
{
    return has_generation(layout, record, word) &&
           sizeof(*record) + record->key_bytes + (uint64_t)record->value_bytes <= room &&
           record->sum == record_sum(record, hash_address_of(layout, word));
}

/* ---- classes ------------------------------------------------------------------------------------ */

/* 1 to 8 grains, and then four classes up to each power of two. */
uint32_t hash_class_grains(uint32_t class_number)
{
    return class_number < 8 ? class_number + 1 : (5 + class_number % 4) << (class_number / 4 - 1);
}

uint32_t hash_class_for(uint64_t grains)
{
    uint32_t class_number = 0;
    while (hash_class_grains(class_number) < grains)
        class_number++;
    return class_number;
}

/* ---- intents ------------------------------------------------------------------------------------ */

void hash_intent_seal(struct hash_intent *intent)
{
    intent->sum = base_hash64(intent, offsetof(struct hash_intent, sum), MAGIC);
}

bool hash_intent_fits(const struct hash_intent *intent)
{
    return intent->sum == base_hash64(intent, offsetof(struct hash_intent, sum), MAGIC);
}
