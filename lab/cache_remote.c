/* A client's get of an exported cache: the order of its READs, and the proof of what they bring. */
#include "lab/cache_remote.h"
#include <errno.h>

_Static_assert(base_array_count(((struct lab_cache_get *)0)->entries) == CACHE_BUCKET_ENTRIES,
               "a bucket's entries");

/* ---- what to READ ------------------------------------------------------------------------------------------ */

static void read_bucket(struct lab_cache_get *get)
{
    get->reads_record = false;
    get->offset = CACHE_INDEX_OFFSET +
                  cache_hash_bucket((uint32_t)get->hash, get->header->buckets) * CACHE_BUCKET_BYTES;
    get->bytes = CACHE_BUCKET_BYTES;
}

/* @return -EINPROGRESS; -EAGAIN: no entry can look like that */
static int read_record(struct lab_cache_get *get)
{
    const struct cache_header *partition = get->header;
    uint64_t entry = get->entries[get->next], place = cache_entry_place(entry);
    uint64_t bytes = (uint64_t)cache_length_of_class(cache_entry_class(entry)) * CACHE_GRAIN_BYTES;
    if (place < partition->log_bytes)
        bytes = base_min(bytes, partition->log_bytes - place);
    if (place >= partition->log_bytes || bytes < CACHE_RECORD_HEADER_BYTES) {
        read_bucket(get);
        return -EAGAIN;
    }
    get->reads_record = true;
    get->offset = partition->log_offset + place;
    get->bytes = bytes;
    return -EINPROGRESS;
}

int lab_cache_get_begin(struct lab_cache_get *get, const struct cache_header *header, const void *key,
                        size_t key_len)
{
    if (key_len == 0 || key_len > TARN_KEY_BYTES_MAX)
        return -EINVAL;
    uint64_t hash = base_hash64(key, key_len, header->seed);
    if (cache_hash_partition(hash, header->partitions) != header->partition)
        return -EXDEV;
    *get = (struct lab_cache_get){.header = header, .key = key, .key_len = key_len, .hash = hash};
    read_bucket(get);
    return 0;
}

/* ---- what came --------------------------------------------------------------------------------------------- */

/* The next entry of those that may be the key's, if there is one. */
static int go_on(struct lab_cache_get *get)
{
    return get->next < get->count ? read_record(get) : -ENOENT;
}

static int take_bucket(struct lab_cache_get *get, const void *data)
{
    const uint8_t *bucket = data;
    get->count = get->next = 0;
    for (unsigned i = 0; i < CACHE_BUCKET_ENTRIES; i++) {
        uint64_t entry = cache_entry_load(bucket + i * sizeof(entry));
        if (cache_entry_tag(entry) == cache_hash_tag(get->hash))
            get->entries[get->count++] = entry;
    }
    return go_on(get);
}

/* Whether all that was READ of a record belongs together, and to the entry that led to it. */
static bool is_whole(const struct lab_cache_get *get, const uint8_t *data, const struct cache_record *header)
{
    const struct cache_header *partition = get->header;
    uint64_t words[CACHE_RECORD_WORDS], body_bytes = (uint64_t)header->key_len + header->value_len;
    memcpy(words, data, sizeof(words));
    return header->checksum != CACHE_CHECKSUM_NONE && !header->killed && header->key_len > 0 &&
           CACHE_RECORD_HEADER_BYTES + body_bytes <= get->bytes &&
           header->checksum == cache_record_checksum(partition->salt, get->offset - partition->log_offset,
                                                     words, data + CACHE_RECORD_HEADER_BYTES, body_bytes);
}

/* Whether a whole record of another key can have the entry: else that was another record's. */
static bool is_neighbour(const struct lab_cache_get *get, const uint8_t *data,
                         const struct cache_record *header)
{
    uint64_t hash = base_hash64(data + CACHE_RECORD_HEADER_BYTES, header->key_len, get->header->seed);
    return cache_hash_tag(hash) == cache_hash_tag(get->hash) &&
           cache_hash_bucket((uint32_t)hash, get->header->buckets) ==
               cache_hash_bucket((uint32_t)get->hash, get->header->buckets);
}

static int take_record(struct lab_cache_get *get, const uint8_t *data, uint64_t now_ns,
                       const void **ret_value, struct tarn_record_info *ret_info)
{
    struct cache_record header;
    cache_record_unpack(data, &header);
    if (!is_whole(get, data, &header)) {
        read_bucket(get);
        return -EAGAIN;
    }
    const uint8_t *key = data + CACHE_RECORD_HEADER_BYTES;
    if (header.key_len == get->key_len && memcmp(key, get->key, get->key_len) == 0) {
        if (cache_record_expired(&header, now_ns))
            return -ENOENT;
        *ret_value = key + header.key_len;
        if (ret_info != NULL)
            *ret_info = cache_record_info(&header);
        return 0;
    }
    if (!is_neighbour(get, data, &header)) {
        read_bucket(get);
        return -EAGAIN;
    }
    get->next++;
    return go_on(get);
}

int lab_cache_get_take(struct lab_cache_get *get, const void *data, uint64_t now_ns, const void **ret_value,
                       struct tarn_record_info *ret_info)
{
    if (!get->reads_record)
        return take_bucket(get, data);
    return take_record(get, data, now_ns, ret_value, ret_info);
}
