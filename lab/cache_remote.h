/*
 * A get of an exported cache by a client that READs the owner's memory: which bytes it READs next, and whether the bytes
 * that came are true. Nothing here does I/O. The client READs the header first, CACHE_HEADER_BYTES at offset 0
 * (cache_header_unpack()).
 */
#ifndef LAB_CACHE_REMOTE_H
#define LAB_CACHE_REMOTE_H

#include "cache/layout.h"

/** A get under way. */
struct lab_cache_get {
    const struct cache_header *header;
    const void *key; /**< borrowed to the end */
    size_t key_len;
    uint64_t hash;
    uint64_t offset; /**< where to READ next in the region; a multiple of 8 */
    uint64_t bytes;  /**< how much; a multiple of 8 */
    uint64_t entries[8];
    uint32_t count, next; /**< entries that may be the key's; which of them is READ */
    bool reads_record;    /**< and not the bucket */
};

/**
 * Begin a get: `offset` and `bytes` say what to READ first.
 *
 * @param header, key  borrowed until the get is over
 * @return 0; -EINVAL; -EXDEV
 *
 * Any thread.
 */
int lab_cache_get_begin(struct lab_cache_get *get, const struct cache_header *header, const void *key,
                        size_t key_len) base_must_check;

/**
 * Judge what was READ.
 *
 * @param data       get->bytes of the region from get->offset, as a READ has copied them: the owner may have
 *                   changed them meanwhile. Not memory that changes any more
 * @param now_ns     civil time
 * @param ret_value  in `data`
 * @return 0: found; -EINPROGRESS: READ what `offset` and `bytes` say now; -ENOENT: a miss; -EAGAIN: the owner was at
 *         it. The same get has begun anew: READ again, as often as the caller likes
 *
 * Any thread. Source: Pilaf (ATC'13) §4; differs: src/cache/README.md, "Clients that READ".
 */
int lab_cache_get_take(struct lab_cache_get *get, const void *data, uint64_t now_ns, const void **ret_value,
                       struct tarn_record_info *ret_info) base_must_check;

#endif
