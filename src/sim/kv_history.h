/*
 * What campaigns `kv` and `hash` have seen of stores: each client notes the beginning and the end of its calls. At the end the
 * history of each key must be linearizable: operations happened at one moment between beginning and end; operations
 * whose outcome is unknown happened at one moment after their beginning, or never; refused ones never did.
 *
 * A cache may lose any value at any moment, but for good: a call that finds nothing binds all later answers. A
 * client that READs the cache's memory by itself may miss what is there, which binds no later answer.
 */
#ifndef SIM_KV_HISTORY_H
#define SIM_KV_HISTORY_H

#include "sim/sim.h"
#include <tarn/depot.h>

#define SIM_KV_KEYS_MAX  64
#define SIM_KV_OPS_MAX   4096
#define SIM_KV_BYTES_MAX 20480 /* of a value */

enum sim_kv_kind {
    SIM_KV_GET,
    SIM_KV_PUT,
    SIM_KV_DELETE,
    SIM_KV_SCAN, /* one key of a scan */
};

struct sim_kv_op {
    enum sim_kv_kind kind;
    enum tarn_put_condition condition;
    uint32_t key;
    uint32_t if_number; /* TARN_PUT_IF_VERSION: the put whose version it must be; of a get the same, 0: any */
    uint64_t expiry_ns; /* of a put: civil time; 0: never */
    uint32_t bytes;     /* of a put's value */
    uint32_t found;     /* number of the put */
    int error;
    bool ended;
    bool is_void;     /* says nothing */
    bool is_named;    /* of a put: an operation has found it, or was to */
    bool is_proven;   /* it has happened, though its caller was not told */
    uint64_t version; /* of a put, once it was seen, or before if it has chosen one itself */
    uint64_t record;  /* of a put: the number of its record, once it was seen, in a store that has them */
    uint64_t begin_ns, end_ns;
};

struct sim_kv_history {
    struct sim_world *world;
    struct sim_kv_op *ops; /* the first is nobody's: numbers are from 1 */
    uint32_t count;
    uint32_t keys;
    bool evicts[SIM_KV_KEYS_MAX]; /* the key is of a cache; set by the campaign */
    uint64_t hits, unknown;       /* counted */
};

/** Begin without any. @return 0; -ENOMEM */
base_must_check int sim_kv_history_init(struct sim_kv_history *history, struct sim_world *world);

/** Free it. */
void sim_kv_history_deinit(struct sim_kv_history *history);

/** Whether there is room for `count` more operations. */
bool sim_kv_history_has_room(const struct sim_kv_history *history, uint32_t count);

/** An operation begins. @param op  kind, key and arguments @return its number, which a put stores as client flags */
uint32_t sim_kv_begin(struct sim_kv_history *history, const struct sim_kv_op *op);

/**
 * A get, or what is like one, has returned.
 *
 * @param offset, data, bytes  the part of the value that came
 * @return number of the put that it found; 0: none
 */
uint32_t sim_kv_end_get(struct sim_kv_history *history, uint32_t number, int error,
                        const struct tarn_record_info *info, uint64_t offset, const void *data, size_t bytes);

/** The number of a put's record was seen: it has one. */
void sim_kv_note_record(struct sim_kv_history *history, uint32_t number, uint64_t record);

/** A put or a delete has returned. */
void sim_kv_end(struct sim_kv_history *history, uint32_t number, int error, uint64_t version);

/** The latest put of a key whose version is known; 0: none. */
uint32_t sim_kv_known_put(const struct sim_kv_history *history, uint32_t key);

/** The bytes of a put's value. */
void sim_kv_fill(uint32_t number, void *value, size_t bytes);

/** Judge the histories of all keys: what cannot be explained fails the world. */
void sim_kv_check(struct sim_kv_history *history);

#endif
