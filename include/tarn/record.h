/*
 * tarn/record.h: what every store keeps and is asked: records, conditions, and functions that are shown records. Included by
 * <tarn/depot.h> and <tarn/kv.h>, which say what each store does with them.
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

/** What is stored beside a value. */
struct tarn_record_info {
    uint64_t version;      /**< changes with every put of the key, kept by a touch; never 0 */
    uint64_t expiry_ns;    /**< civil time when the record ends, in nanoseconds since 1970; 0: never. Kept in
                            * hundredths of a second, rounded up */
    uint32_t client_flags; /**< the caller's */
    uint32_t value_bytes;
    uint8_t note; /**< the caller's: 0 to TARN_NOTE_MAX */
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
    uint64_t version; /**< 0: a new one; else this one, whatever others there have been */
    uint32_t client_flags;
    uint8_t note; /**< 0 to TARN_NOTE_MAX */
};

#define TARN_LENGTH_UNKNOWN UINT64_MAX /**< of a value that comes bit by bit */

/** A value, or a part of one, on loan: it lies where the drive has read it to. */
struct tarn_lease {
    const void *data; /**< NULL if there are no bytes */
    size_t bytes;
    /* the store's */
    void *pool, *buffer;
    bool kept;
};

/** One of many keys to fetch. */
struct tarn_get {
    const void *key;
    size_t key_len;
    void *value;
    size_t value_room;
    struct tarn_record_info info; /**< result; as by a get of the key alone */
    int error;                    /**< result; what that get returns */
};

/** What shall stand in a record's place. */
struct tarn_update {
    const void *value; /**< borrowed until the update returns */
    size_t value_len;
    uint64_t expiry_ns;
    uint64_t version; /**< 0: a new one; the old one where only expiry, flags or note change */
    uint32_t client_flags;
    uint8_t note;
    bool keep;   /**< the old value stays, whatever `value` says; -EINVAL if there is none */
    bool remove; /**< delete it instead (nothing happens if it is absent) */
};

/**
 * Decides what becomes of a record.
 *
 * @param old     of the record, NULL if it is absent
 * @param value   its value, old->value_bytes; borrowed until return. NULL if it is longer than
 *                the store shows whole: it can be kept, replaced and removed, and be
 *                read in parts before the update, which compares versions then
 * @param update  what to store; holds the old expiry, client flags and note, no version and no value; the
 *                value may be the old one
 * @return 0: do it; anything else: nothing is written, and the update returns that
 */
typedef int tarn_update_function(void *arg, const struct tarn_record_info *old, const void *value,
                                 struct tarn_update *update);

/**
 * Called for a record. May call the store, except to close it.
 *
 * @param key, value  borrowed until return. The value is NULL if it is longer than
 *                    the store shows whole: it is read in parts, with info->version
 * @return 0 to go on; anything else ends the scan with it
 */
typedef int tarn_scan_function(void *arg, const void *key, size_t key_len, const void *value,
                               const struct tarn_record_info *info);

#ifdef __cplusplus
}
#endif

#endif
