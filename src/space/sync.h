/*
 * What barriers and queues share: a header of words in a region, words that are read and swapped again when the lease has ended
 * meanwhile. All functions may yield.
 */
#ifndef SPACE_SYNC_H
#define SPACE_SYNC_H

#include "space/client.h"
#include <tarn/space_sync.h>

#define SYNC_HEADER_BYTES 64 /* before the words of parties or slots */
#define SYNC_LOAD_MAX     16 /* words that sync_load() reads at once */

/* Where words of the header are. */
enum sync_word {
    SYNC_MAGIC = 0,    /* what it is */
    SYNC_COUNT = 8,    /* parties of a barrier; slots of a queue */
    SYNC_CLIENTS = 16, /* of a queue: the number of its next client */
    SYNC_HEAD = 24,    /* of a queue: the position at which consumers begin to look */
    SYNC_TAIL = 32,    /* of a queue: the position at which producers begin to look */
};

/** Write zeros for all of a number of entries, and then a header. @param position  of head and tail @return 0; -EINVAL;
 * -EACCES; errors of tarn_space_write_at() */
base_must_check int sync_format(struct tarn_space_region *region, uint64_t offset, uint64_t magic,
                                uint32_t count, uint64_t entry_bytes, uint64_t position,
                                uint64_t deadline_ns);

/** Read a header, and check it. @return 0; -EPROTO; errors of sync_load() */
base_must_check int sync_open(struct tarn_space_region *region, uint64_t offset, uint64_t magic,
                              uint32_t count_max, uint64_t entry_bytes, uint64_t deadline_ns,
                              uint32_t *ret_count);

/** Read words, each as it was at one moment, in any order. @param count  at most SYNC_LOAD_MAX @return 0; as
 * tarn/space_sync.h says */
base_must_check int sync_load(struct tarn_space_region *region, uint64_t offset, uint32_t count,
                              uint64_t deadline_ns, uint64_t *ret_words);

/**
 * Compare and swap a word. Where an outcome was lost the swap is repeated, so that `ret_before` may be `operand` though this
 * caller has swapped the word: callers swap only to words that no other client writes there.
 *
 * @return 0; as tarn/space_sync.h says; the word may be swapped nevertheless, also later
 */
base_must_check int sync_cas(struct tarn_space_region *region, uint64_t offset, uint64_t compare,
                             uint64_t operand, uint64_t deadline_ns, uint64_t *ret_before);

#endif
