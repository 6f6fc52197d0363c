/* The invariants of README, verified. */
#include "cache/cache_internal.h"

struct walk {
    struct cache_partition *partition;
    uint64_t records, live_bytes;
};

/* A record that is not killed. */
static const char *check_live(const struct walk *walk, uint8_t *record, const struct cache_record *header)
{
    const struct cache_partition *partition = walk->partition;
    uint64_t hash, place = (uint64_t)(record - partition->log);
    const uint8_t *key = record + CACHE_RECORD_HEADER_BYTES;
    if (cache_key_hash(partition, key, header->key_len, &hash) != 0)
        return "a record's key is none of this partition";
    if (header->hash_low != (uint32_t)hash)
        return "a record has another hash than its key";
    struct cache_place found;
    if (cache_look(partition, key, header->key_len, &found) != 0 || found.slot == CACHE_NONE ||
        found.record != record)
        return "a record is there that its key does not lead to";
    uint64_t entry = cache_entry_load(&found.bucket[found.slot]);
    if (entry != cache_entry_pack(cache_hash_tag(hash),
                                  (uint32_t)(cache_record_space(header) / CACHE_GRAIN_BYTES), place))
        return "an entry is not that of its record";
    uint64_t words[CACHE_RECORD_WORDS];
    memcpy(words, record, sizeof(words));
    if (partition->region != NULL &&
        header->checksum != cache_record_checksum(partition->salt, place, words, key,
                                                  (uint64_t)header->key_len + header->value_len))
        return "a record does not verify";
    return NULL;
}

/* The records from one place to another. */
static const char *check_pass(struct walk *walk, uint64_t from, uint64_t to)
{
    struct cache_partition *partition = walk->partition;
    while (from < to) {
        struct cache_record header;
        if (to - from < CACHE_RECORD_HEADER_BYTES)
            return "a pass ends within a record";
        cache_record_unpack(partition->log + from, &header);
        uint64_t space = cache_record_space(&header);
        if (space > to - from)
            return "a pass ends within a record";
        if (!header.killed) {
            const char *wrong = check_live(walk, partition->log + from, &header);
            if (wrong != NULL)
                return wrong;
            walk->records++;
            walk->live_bytes += space;
        }
        from += space;
    }
    return NULL;
}

/* Each entry counts once; that as many records have one says that none leads elsewhere. */
static const char *check_index(const struct walk *walk)
{
    const struct cache_partition *partition = walk->partition;
    uint64_t entries = 0;
    for (uint64_t i = 0; i < partition->buckets * CACHE_BUCKET_ENTRIES; i++)
        entries += cache_entry_load(partition->index + i * sizeof(uint64_t)) != 0;
    if (entries != walk->records)
        return "there are more entries than records";
    return NULL;
}

const char *cache_check(struct cache_partition *partition)
{
    struct walk walk = {.partition = partition};
    if (partition->tail > partition->log_bytes)
        return "the tail is outside the log";
    if (partition->has_older && (partition->head < partition->tail || partition->head >= partition->end ||
                                 partition->end > partition->log_bytes))
        return "tail, head and end are out of order";
    const char *wrong = check_pass(&walk, 0, partition->tail);
    if (wrong == NULL && partition->has_older)
        wrong = check_pass(&walk, partition->head, partition->end);
    if (wrong == NULL)
        wrong = check_index(&walk);
    if (wrong == NULL &&
        (walk.records != partition->counters.records || walk.live_bytes != partition->counters.live_bytes))
        return "records or their bytes are miscounted";
    return wrong;
}
