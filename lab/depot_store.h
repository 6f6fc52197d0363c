/*
 * A store to be measured: its file, and records whose content can be told from their number. Keys are 16
 * bytes, a hash of the number; a value is the key, a generation, bytes that all values share, and a last word
 * that belongs to key and generation: so a reader sees whose value it has got, and whether it is whole.
 */
#ifndef LAB_DEPOT_STORE_H
#define LAB_DEPOT_STORE_H

#include "bench/world.h"
#include "depot/depot.h"
#include "lab/drive_load.h"

enum {
    LAB_DEPOT_KEY_BYTES = 16,
    LAB_DEPOT_VALUE_BYTES_MIN = 64,
};

/* How stores of a run are made and used. */
struct lab_depot_setup {
    enum task_engine_choice engine;
    enum drive_direct direct;
    uint64_t spin_ns;
    uint64_t memory_bytes; /* that the node may take, hot records included; 0: no limit, and none */
};

struct lab_depot_store {
    struct bench *bench;
    const struct lab_depot_setup *setup;
    struct lab_drive_file file;
    uint32_t value_bytes;
    uint8_t *body;      /* value_bytes, shared by all values */
    uint64_t formatted; /* times so far */

    /* what the last lab_depot_fill() has made and seen */
    uint64_t records;     /* numbers below are there */
    uint64_t records_max; /* that may be stored before it is too full to be measured */
    uint64_t record_bytes;
    uint64_t used_bytes;               /* of the drive, from its beginning */
    uint64_t read_bytes;               /* mean of what is read from the drive for a get */
    uint32_t block_bytes;              /* the drive's smallest transfer */
    bool direct;                       /* past the page cache */
    const char *provider;              /* of the drive: "uring", "aio", "sync" */
    enum drive_provider_choice engine; /* of the scheduler */
};

/** Make the file of a store, full of random bytes. @param path  borrowed @return as lab_drive_file_open() */
base_must_check int lab_depot_store_open(struct bench *bench, const struct lab_depot_setup *setup,
                                         const char *path, uint64_t bytes, struct lab_depot_store *ret_store);

/** Remove what was made. */
void lab_depot_store_close(struct lab_depot_store *store);

/**
 * Make a new store in the file and put records into it.
 *
 * @param value_bytes  LAB_DEPOT_VALUE_BYTES_MIN or more
 * @param percent      of the capacity to fill; 0: with one record
 * @return 0; negative errno: said in bench->err. Blocks: runs a node of its own.
 */
base_must_check int lab_depot_fill(struct lab_depot_store *store, uint32_t value_bytes, uint64_t percent);

/** Say how long values are. @return 0; -ENOMEM */
base_must_check int lab_depot_set_value_bytes(struct lab_depot_store *store, uint32_t value_bytes);

/**
 * Put records `begin` to `end` - 1 into an open store. In a task: yields.
 *
 * @return 0; the store's first error
 */
base_must_check int lab_depot_put_all(struct lab_depot_store *store, struct tarn_depot *depot, uint64_t begin,
                                      uint64_t end);

/** Put records that a function draws, `count` times, each put with a generation of its own. @return as above */
base_must_check int lab_depot_put_drawn(struct lab_depot_store *store, struct tarn_depot *depot,
                                        uint64_t count, uint64_t (*draw)(void *arg), void *arg);

/**
 * Get a record, and look whether it is that one.
 *
 * @param value  room for it: value_bytes
 * @param whole  as for lab_depot_value_check()
 * @return 0; -EBADMSG (another value than was stored); the store's error
 */
base_must_check int lab_depot_get(const struct lab_depot_store *store, struct tarn_depot *depot,
                                  uint64_t number, uint8_t *value, bool whole);

/** Put a record. @param value  memory of lab_depot_value_init(), which becomes the record's @return the store's error */
base_must_check int lab_depot_put(const struct lab_depot_store *store, struct tarn_depot *depot,
                                  uint64_t number, uint64_t generation, uint8_t *value);

/** Make the store anew, empty. Yields. @return as tarn_depot_format() */
base_must_check int lab_depot_format(struct lab_depot_store *store, struct tarn_node *node);

/** Open the store. Yields. @return as tarn_depot_open() */
base_must_check int lab_depot_open(const struct lab_depot_store *store, struct tarn_node *node,
                                   enum tarn_mode mode, bool read_only, struct tarn_depot **ret_depot);

/** Take from an open store what the drive is, and how it is read. In a task. */
void lab_depot_look(struct lab_depot_store *store, const struct tarn_depot *depot);

/** The key of a record. */
void lab_depot_key(uint64_t number, uint8_t key[LAB_DEPOT_KEY_BYTES]);

/** Make memory a value of no record yet. @param value  value_bytes */
void lab_depot_value_init(const struct lab_depot_store *store, uint8_t *value);

/** Make such memory, or another record's value, the value of a record. */
void lab_depot_value_set(const struct lab_depot_store *store, uint64_t number, uint64_t generation,
                         uint8_t *value);

/**
 * Whether this is a value of that record.
 *
 * @param bytes  its length
 * @param whole  look at all of it, not only at beginning and end
 */
bool lab_depot_value_check(const struct lab_depot_store *store, uint64_t number, const uint8_t *value,
                           uint64_t bytes, bool whole);

#endif
