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
 * An epoch ends with a power cut, the end of the process, or a close. What was acknowledged in a lossy mode
 * may be lost then: each key has, beside what it holds, what is *kept* of it, which is some state that it had
 * since it was last known to be durable; a loss puts it in place. Source of the definition: Izraelevitz et
 * al., Linearizability of Persistent Memory Objects, DISC 2016 (durable linearizability; lossy: buffered).
 *
 * A cache may lose a value at any moment, but for good: what one answer has shown as gone does not come back.
 *
 * The operations of a batch that was cut off, or that may be lost, have one fate: keys are judged by
 * themselves, and then once more for each such batch, with all of it there, and with nothing.
 */
#ifndef SIM_DEPOT_ORACLE_H
#define SIM_DEPOT_ORACLE_H

#include "sim/history.h"
#include "sim/sim.h"
#include <errno.h>
#include <tarn/depot.h>

#define SIM_ORACLE_CLIENTS_MAX 80
#define SIM_ORACLE_OPS_MAX     256 /* of each client */
#define SIM_ORACLE_BATCH_MAX   8   /* operations of one */
#define SIM_ORACLE_ALL_KEYS    UINT64_MAX
#define SIM_ORACLE_REFUSED     (-ECHILD) /* what an update returns whose decision was SIM_REFUSE */

enum sim_oracle_kind {
    SIM_GET,
    SIM_PUT,
    SIM_DELETE,
    SIM_TOUCH,
    SIM_UPDATE,
    SIM_FLUSH_ALL,
    SIM_EVICTION, /* of a cache: it may have lost anything */
    SIM_DURABLE,  /* what is there survives */
    SIM_LOSS,     /* what was kept is there, and nothing else */
};

/* What is assumed of an operation of a batch while a history is judged. */
enum sim_oracle_fate {
    SIM_FATE_OPEN,
    SIM_FATE_NEVER, /* it did not happen */
    SIM_FATE_KEPT,  /* it did, and is durable */
    SIM_FATE_LOST,  /* it did, and is not */
};

/* What the decision of an update was, once it was made. */
enum sim_oracle_answer { SIM_UNDECIDED, SIM_STORE, SIM_REMOVE, SIM_REFUSE };

struct sim_oracle_op {
    enum sim_oracle_kind kind;
    enum tarn_put_condition condition;
    enum sim_oracle_answer answer;
    uint64_t key;         /* SIM_ORACLE_ALL_KEYS for what is not about one key */
    uint32_t if_number;   /* TARN_PUT_IF_VERSION: the put whose version it must be */
    uint32_t value_bytes; /* of a put or update */
    uint64_t expiry_ns;   /* of a put, touch or update, 0 for never, rounded as stores do; of a flush_all: the
                             moment */
    uint64_t version;     /* of a put or update, once it was seen */
    uint64_t begin_ns;    /* of the world's time */
    uint64_t end_ns;
    uint64_t wall_begin_ns; /* of the node's civil time */
    uint64_t wall_end_ns;
    uint64_t wall_known_ns; /* the latest that any operation was told before this one began */
    int error;
    uint32_t found; /* by a get or a decision: the number of the put or update */
    uint64_t found_expiry_ns;
    bool ended;
    bool past;          /* end_ns and wall_end_ns are known, though it has not ended */
    bool optional;      /* it may never have happened */
    bool unconditional; /* its condition was decided earlier */
    bool lossy;         /* acknowledged before it was durable */
    bool evicts;        /* the store was a cache: it may be that nothing is there */
    bool frail;         /* the store could note nothing: what it has seen to end binds nobody */
    uint32_t client;
    uint32_t batch; /* number of its batch's first operation; 0: of none */
    enum sim_oracle_fate fate;
    int64_t record; /* in the history */
};

struct sim_oracle {
    struct sim_world *world;
    struct sim_history history;
    struct sim_oracle_op *ops; /* the first is nobody's: numbers are from 1 */
    uint32_t count;
    uint32_t epoch_begin; /* number of the first operation of this epoch */
    uint64_t wall_high_ns;
    bool lossy;  /* the mode of this epoch; set by the campaign */
    bool evicts; /* the store is a cache in this epoch; set by the campaign */
    bool frail;  /* the store has failed, or only reads: it can note nothing; set by the campaign */
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

/** Operations that began one after the other are one batch: a removal in it needs nothing to remove. @param
 * first number of the first */
void sim_oracle_join(struct sim_oracle *oracle, uint32_t first, uint32_t count);

/** A get has returned. @param value  as far as it was copied, error 0 or -ENOBUFS */
void sim_oracle_end_get(struct sim_oracle *oracle, struct tarn_node *node, uint32_t number, int error,
                        const struct tarn_record_info *info, const void *value, size_t value_room);

/** What a get will find, it finds as of a moment that is over now. */
void sim_oracle_note_past(struct sim_oracle *oracle, struct tarn_node *node, uint32_t number);

/**
 * A scan has ended that did not visit a key, for which a get was begun before it. If nobody changed the key
 * meanwhile, that get has found nothing.
 *
 * @param whole  the scan came to its end
 */
void sim_oracle_end_unvisited(struct sim_oracle *oracle, struct tarn_node *node, uint32_t number, bool whole);

/**
 * An update decides: what it found, and what it will do.
 *
 * @param info, value  of the record, NULL if there is none
 * @param decided      answer, and for SIM_STORE value_bytes and expiry_ns
 */
void sim_oracle_decide(struct sim_oracle *oracle, uint32_t number, const struct tarn_record_info *info,
                       const void *value, const struct sim_oracle_op *decided);

/* An update that a client has begun, and what it is to decide. */
struct sim_oracle_update {
    struct sim_oracle *oracle;
    uint32_t number;
    struct sim_oracle_op decided; /* key, answer, and for SIM_STORE value_bytes and expiry_ns */
    const void *value;            /* decided.value_bytes */
};

/** Decide so, and tell the oracle: a tarn_update_function, whose argument is the update. */
int sim_oracle_run_update(void *update, const struct tarn_record_info *old, const void *value,
                          struct tarn_update *ret_decision);

/** Another operation has returned. @param version  of a put or update that stored, if error is 0 */
void sim_oracle_end(struct sim_oracle *oracle, struct tarn_node *node, uint32_t number, int error,
                    uint64_t version);

/** The epoch has ended: what is under way will not return. @param wall_ns  the node's civil time */
void sim_oracle_end_epoch(struct sim_oracle *oracle, uint64_t wall_ns);

/**
 * Between epochs, or at an earlier moment of the epoch that has just ended: what was acknowledged before is
 * durable (SIM_DURABLE), or what was not is lost (SIM_LOSS), or a cache has ended (SIM_EVICTION).
 *
 * @param at_ns  of the world's time, not before the last such call's
 */
void sim_oracle_settle(struct sim_oracle *oracle, enum sim_oracle_kind kind, uint64_t at_ns);

/** The latest put or update of a key whose version is known, 0 if there is none. */
uint32_t sim_oracle_known_put(const struct sim_oracle *oracle, uint64_t key);

/** The bytes of a put's value. @param number  of the put */
void sim_oracle_fill_value(uint64_t key, uint32_t number, void *ret_value, size_t bytes);

/** Check the histories of all keys; what cannot be explained fails the world. */
void sim_oracle_check(struct sim_oracle *oracle, uint64_t keys);

#endif
