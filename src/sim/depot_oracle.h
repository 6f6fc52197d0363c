/*
 * What a store may answer. The oracle hears of every operation when it begins and when it ends, and
 * of every power cut; at the end it asks of each key whether the whole history, through all restarts,
 * can be explained:
 *
 *   returned 0, -EEXIST, -ENOENT   it happened at one moment between beginning and end
 *   -ENOSPC, -EROFS                it never happened
 *   cut off by the end of an epoch it happened before that end, or never
 *   -EIO and the like              it happens at the end of the epoch, or never: until then nobody sees it
 *
 * An epoch ends with a power cut, the end of the process, or a close. Source of the definition:
 * Izraelevitz et al., Linearizability of Persistent Memory Objects, DISC 2016 (durable linearizability).
 */
#ifndef SIM_DEPOT_ORACLE_H
#define SIM_DEPOT_ORACLE_H

#include "sim/sim.h"
#include <tarn/depot.h>

#define SIM_ORACLE_CLIENTS_MAX 64
#define SIM_ORACLE_OPS_MAX     64 /* of each client */
#define SIM_ORACLE_ALL_KEYS    UINT64_MAX

enum sim_oracle_kind { SIM_GET, SIM_PUT, SIM_DELETE, SIM_TOUCH, SIM_FLUSH_ALL, SIM_LOSS };

struct sim_oracle_op {
    enum sim_oracle_kind kind;
    enum tarn_put_condition condition;
    uint64_t key;         /* SIM_ORACLE_ALL_KEYS for SIM_FLUSH_ALL and SIM_LOSS */
    uint32_t if_number;   /* TARN_PUT_IF_VERSION: the put whose version it must be */
    uint32_t value_bytes; /* of a put */
    uint64_t expiry_ns;   /* of a put or touch, 0 for never; of a flush_all: the moment */
    uint64_t version;     /* of a put, once it was seen */
    uint64_t begin_ns;    /* of the world's time */
    uint64_t end_ns;
    uint64_t wall_begin_ns; /* of the node's civil time */
    uint64_t wall_end_ns;
    int error;
    uint32_t found; /* by a get: the number of the put */
    uint64_t found_expiry_ns;
    bool ended;
    bool optional;      /* it may never have happened */
    bool unconditional; /* its condition was decided earlier */
    uint32_t client;
    int64_t record; /* in the history */
};

struct sim_oracle {
    struct sim_world *world;
    struct base_history history;
    struct sim_oracle_op *ops; /* the first is nobody's: numbers are from 1 */
    uint32_t count;
    uint32_t epoch_begin; /* number of the first operation of this epoch */
};

/** Begin with an empty store. @return 0; -ENOMEM */
base_must_check int sim_oracle_init(struct sim_oracle *oracle, struct sim_world *world);

/** Free it. */
void sim_oracle_deinit(struct sim_oracle *oracle);

/**
 * An operation begins.
 *
 * @param op  kind, key and arguments; copied
 * @return its number, which a put stores as client flags
 */
uint32_t sim_oracle_begin(struct sim_oracle *oracle, struct tarn_node *node, uint32_t client,
                          const struct sim_oracle_op *op);

/** A get has returned. @param value  as far as it was copied, error 0 or -ENOBUFS */
void sim_oracle_end_get(struct sim_oracle *oracle, struct tarn_node *node, uint32_t number, int error,
                        const struct tarn_record_info *info, const void *value, size_t value_room);

/** Another operation has returned. @param version  of a put, if error is 0 */
void sim_oracle_end(struct sim_oracle *oracle, struct tarn_node *node, uint32_t number, int error,
                    uint64_t version);

/** The epoch has ended: what is under way will not return. @param wall_ns  the node's civil time */
void sim_oracle_end_epoch(struct sim_oracle *oracle, uint64_t wall_ns);

/**
 * A power cut has taken what was acknowledged without being durable: each key holds now what it held at
 * some earlier time, or nothing; but once somebody has looked, that stays. At the end of an epoch.
 */
void sim_oracle_lose(struct sim_oracle *oracle);

/** The latest put of a key whose version is known, 0 if there is none. */
uint32_t sim_oracle_known_put(const struct sim_oracle *oracle, uint64_t key);

/** The bytes of a put's value. @param number  of the put */
void sim_oracle_fill_value(uint64_t key, uint32_t number, void *ret_value, size_t bytes);

/** Check the histories of all keys; what cannot be explained fails the world. */
void sim_oracle_check(struct sim_oracle *oracle, uint64_t keys);

#endif
