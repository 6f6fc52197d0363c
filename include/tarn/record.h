/*
 * tarn/record.h: the types that all stores share: records, conditions, and functions that stores call with records.
 * <tarn/depot.h> and <tarn/kv.h> include it.
 */
#ifndef TARN_RECORD_H
#define TARN_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_KEY_BYTES_MAX 65535

#define TARN_NOTE_MAX 3

/** The properties of a record, besides key and value. */
struct tarn_record_info {
    uint64_t version;      /**< changes with every put of the key, kept by a touch; never 0 */
    uint64_t expiry_ns;    /**< civil time when the record ends, in nanoseconds since 1970; 0: never. Kept in
                            * hundredths of a second, rounded up */
    uint32_t client_flags; /**< a number that the caller chooses, as memcached's flags */
    uint32_t value_bytes;  /**< length of the value */
    uint8_t note;          /**< a number that the caller chooses, 0 to TARN_NOTE_MAX */
};

enum tarn_put_condition {
    TARN_PUT_ANY,
    TARN_PUT_IF_ABSENT,
    TARN_PUT_IF_PRESENT,
    TARN_PUT_IF_VERSION, /**< present with version == if_version */
};

struct tarn_put_options {
    enum tarn_put_condition condition;
    uint64_t if_version;
    uint64_t expiry_ns;
    uint64_t version; /**< the record's version, whatever earlier ones were; 0: the store chooses a new one */
    uint32_t client_flags;
    uint8_t note; /**< 0 to TARN_NOTE_MAX */
};

/** The most items of a batch. */
#define TARN_BATCH_ITEMS_MAX 1024

/** One change of a batch: a key is given a value, or removed, or only looked at. */
struct tarn_batch_item {
    const void *key;
    size_t key_len;
    const void *value;
    size_t value_len;
    bool remove; /**< remove the key, which without a condition may be absent */
    bool check;  /**< only the condition counts: the key stays as it is */
    /** As for a put; for a removal or a check only the condition is used. */
    const struct tarn_put_options *options;
    uint64_t
        version; /**< result, if the batch was stored: the new version; for a removal the old one, and for a check the
                       * one that is there, 0 if the key was absent */
    int error; /**< result: 0; if the batch was not stored because of this item, the reason; if because of
                       * another one, -ECANCELED; if because of none, the same error for all */
};

#define TARN_LENGTH_UNKNOWN                                                                                  \
    UINT64_MAX /**< the length of a value that is written piece by piece until its end */

/** A value, or a part of one, on loan, in the memory where the store has it. */
struct tarn_lease {
    const void *data; /**< the bytes; NULL if there are none */
    size_t bytes;
    /* private to the store */
    void *pool, *buffer;
    bool kept;
};

/** One get of many. */
struct tarn_get {
    const void *key;
    size_t key_len;
    void *value;
    size_t value_room;
    struct tarn_record_info info; /**< result: as a get of the key alone returns */
    int error;                    /**< result: the error of that get, or 0 */
};

/** The record that an update puts in place of the old one. */
struct tarn_update {
    const void *value; /**< borrowed until the update returns */
    size_t value_len;
    uint64_t expiry_ns;
    uint64_t
        version; /**< the new version; 0: the store chooses one. Where only expiry, flags or note change, the old one */
    uint32_t client_flags;
    uint8_t note;
    bool keep;   /**< keep the old value, and ignore `value`; -EINVAL if there is none */
    bool remove; /**< delete the record instead; nothing happens if it is absent */
};

/**
 * Decide how a record changes.
 *
 * @param old     the record's properties; NULL: it is absent
 * @param value   its value, old->value_bytes long; borrowed until return. NULL: it is longer than the store shows
 *                whole. It can still be kept, replaced or removed; to use its content, read it in parts before
 *                the update, and compare the versions here
 * @param update  the new record; at the call it has the old expiry, client flags and note, no version and no
 *                value. Its value may be the old one
 * @return 0: write it; any other number: nothing is written, and the update returns that number
 */
typedef int tarn_update_function(void *arg, const struct tarn_record_info *old, const void *value,
                                 struct tarn_update *update);

/**
 * Look at a record of a scan. May call the store, except to close it.
 *
 * @param key, value  borrowed until return. The value is NULL if it is longer than the store shows whole: it can be
 *                    read in parts, with info->version
 * @return 0: go on; any other number ends the scan, which returns it
 */
typedef int tarn_scan_function(void *arg, const void *key, size_t key_len, const void *value,
                               const struct tarn_record_info *info);

#ifdef __cplusplus
}
#endif

#endif
