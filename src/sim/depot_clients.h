/*
 * The clients of campaign `depot`: each does random operations on the few keys of one store, tells the oracle
 * of them, and judges every answer as far as it can be judged at once.
 */
#ifndef SIM_DEPOT_CLIENTS_H
#define SIM_DEPOT_CLIENTS_H

#include "sim/depot_oracle.h"

#define SIM_DEPOT_KEYS_MAX        8
#define SIM_DEPOT_VALUE_BYTES_MAX (128 << 10)
#define SIM_DEPOT_DISKS_MAX       4
#define SIM_DEPOT_CHURNED         5 /* keys of a client's own that only fill the drive */

/*
 * What a key of a client's own holds; values are numbered. Nobody else changes it, but for a flush_all, so
 * its client knows what it must find, and so does the next opening of the store.
 */
struct sim_depot_churn {
    bool known;     /* `held` or `maybe` it is */
    bool unsettled; /* `maybe` may have taken its place: its write has failed or was cut off */
    uint32_t held;  /* 0: nothing */
    uint32_t maybe;
};

/* What the clients of a store share. */
struct sim_depot_shared {
    struct sim_world *world;
    struct sim_oracle oracle;
    struct sim_drive *disks[SIM_DEPOT_DISKS_MAX]; /* more than one: a stripe */
    uint32_t disk_count;

    /* drawn for the seed */
    uint64_t keys;
    uint64_t long_of_4;    /* values of any length, which fill the drive; the others are short */
    uint64_t churn_of_8;   /* operations that fill the drive with what dies soon */
    uint64_t sleep_bits;   /* clients sleep up to so long */
    uint64_t ops_max;      /* of a client in an epoch */
    uint64_t batches_of_8; /* puts, before which there is a batch */
    bool cuts_batches;     /* the power goes now and then while one is written */
    bool deletes_much;
    bool flushes;   /* there are orders to flush */
    bool was_cache; /* in some epoch: the store may be fuller than a store gets */
    bool may_miss;  /* keys that clients have churned may have been evicted */
    /* The power shall go in so long: in the middle of what a client begins now. Any task. */
    void (*cut_soon)(struct sim_depot_shared *shared, uint64_t ns);

    struct sim_depot_churn churned[SIM_ORACLE_CLIENTS_MAX][SIM_DEPOT_CHURNED]; /* by client */

    /* of the epoch */
    struct sim_node *node;
    struct tarn_depot *depot;
    bool read_only;
    uint64_t faults_before; /* that had happened when faults were last set or cleared */
    uint64_t damages; /* sectors that were damaged at rest in this run: a reason for errors until its end */
    uint64_t errors;  /* of reads and writes that were answered so far */
    uint64_t reserving_bytes; /* of all writes under way */
    uint64_t full_ns;         /* when it was last seen to be almost full */
};

struct sim_depot_client {
    struct sim_depot_shared *shared;
    struct base_random random;
    struct base_random long_random;  /* for what concerns values in pieces */
    struct base_random batch_random; /* for what concerns batches */
    struct base_random size_random;  /* for what concerns the size of the index */
    uint64_t reserved_ns;            /* when it began to want room */
    uint32_t number;                 /* the oracle's */
    uint32_t told;                   /* operations of which the oracle has heard */
    uint8_t *value;                  /* SIM_DEPOT_VALUE_BYTES_MAX */
    uint32_t churn_count;
    bool looks_back; /* it has a snapshot open */
};

/** From 0 to just below 2^bits, each number of bits as likely. */
uint64_t sim_depot_draw_log(struct base_random *random, uint64_t bits);

/** From 0 to n - 1. */
uint64_t sim_depot_draw(struct sim_depot_client *client, uint64_t n);

/** Fail unless there is a reason for an error. @param condition  the operation had one @param grows  it may
 * have found no room */
void sim_depot_check_error(struct sim_depot_client *client, const char *what, int error, bool condition,
                           bool grows);

/** Allow a client to add `bytes` from now on, until sim_depot_release(). */
void sim_depot_reserve(struct sim_depot_client *client, uint64_t bytes);

/** They were added, or refused. */
void sim_depot_release(struct sim_depot_client *client, uint64_t bytes);

/** Whether a fault has happened since faults_before that may be the reason of an error. */
bool sim_depot_faulted(const struct sim_depot_shared *shared);

/** How often a fault has happened, to any drive. */
uint64_t sim_depot_faults(const struct sim_depot_shared *shared, enum sim_fault fault);

/** How many faults have happened. */
uint64_t sim_depot_fault_count(const struct sim_depot_shared *shared);

/** Read every key, one by one, all at once or by a scan. A client's own task. Yields. */
void sim_depot_read_all(struct sim_depot_client *client);

/** Overwrite and delete keys of the client's own, and see that they hold what they must. Yields. */
void sim_depot_churn(struct sim_depot_client *client);

/** Before any client works: what those of earlier epochs have left. Yields. */
void sim_depot_check_all_churned(struct sim_depot_client *client);

/** What the clients from `first` on have churned may be lost: nobody knows any more what is there. */
void sim_depot_forget_churned(struct sim_depot_shared *shared, uint32_t first);

/** Do a random number of random operations. A task function; its argument is the client. Yields. */
void sim_depot_run_client(void *arg);

#endif
