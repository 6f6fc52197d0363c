/*
 * A hash store in a world of its own with the speed model: machines that each have a memory server and some clients, all on
 * cards. Each client is a task on a scheduler of its own, as a thread of the paper's is on a core. Clients run a function at
 * the same time.
 *
 * Either they do everything themselves (Nessie): there is one space with a master of its own, and each client has a session
 * of it. Or workers of each machine do it for them (NessieSD): each machine has a space, and a store, of its own memory alone,
 * and its workers are the only clients of that; a key's machine and worker follow from the key, and clients call them.
 *
 * Threading: a world and all that is in it belong to one plain thread. The functions are for the clients' tasks.
 */
#ifndef LAB_HASH_WORLD_H
#define LAB_HASH_WORLD_H

#include "hash/hash.h"
#include "sim/cards.h"
#include "sim/sim.h"
#include <stdint.h>
#include <tarn/rpc.h>

#define LAB_HASH_MACHINES_MAX 16
#define LAB_HASH_WORKERS_MAX  8   /* of a machine */
#define LAB_HASH_CLIENTS_MAX  256 /* on all machines */
#define LAB_HASH_ITEM_MAX     2048

struct lab_hash_world;

/* A client of the store. */
struct lab_hash_client {
    struct lab_hash_world *world;
    struct tarn_fabric *fabric; /* its machine's: what it counts is of all clients there */
    struct hash *hash;          /* NULL: workers do it */
    uint32_t number;  /* among all clients, from 0; client n is on machine n modulo the number of machines */
    uint32_t machine; /* from 0 */
    struct base_random random;
    void *arg; /* the options' */
    /* not the user's */
    struct tarn_space *space;
    struct tarn_space_namespace *of;
    struct tarn_rpc_connection *connections[LAB_HASH_MACHINES_MAX][LAB_HASH_WORKERS_MAX];
    uint8_t request[LAB_HASH_ITEM_MAX];
};

struct lab_hash_world_options {
    const struct sim_card *card; /* of every machine */
    uint64_t seed;
    uint32_t machines;           /* 1 to LAB_HASH_MACHINES_MAX */
    uint32_t workers;            /* of each machine; 0: clients do everything themselves */
    uint32_t clients;            /* on all machines in turn: 1 to LAB_HASH_CLIENTS_MAX */
    uint32_t item_bytes;         /* workers: key and value of an operation, at most */
    uint64_t memory_bytes;       /* of each memory server: whole chunks */
    uint64_t chunk_bytes;        /* also of each of the store's tables */
    struct hash_shape shape;     /* of the store, or of each */
    const uint64_t *cache_bytes; /* of each client; NULL: none has a cache */
    bool is_local;               /* the records of a client are on its own machine */
    bool owns_bulk;  /* clients reach records on their own machine past the card; workers reach all so */
    bool is_charged; /* operations take their processor's time */
    void (*run)(struct lab_hash_client *client); /* what each client does */
    void *arg;
};

/** Run a world to its end. @return 0; -ENOMEM; -EIO: something failed (said to standard error) */
base_must_check int lab_hash_world_run(const struct lab_hash_world_options *options);

/** Carry out one operation, alone or by a worker. Its outcome is in `op`; a worker tells `error` and `info.value_bytes` of it. Yields. */
void lab_hash_do(struct lab_hash_client *client, struct hash_op *op);

/** Wait until all clients have come here as often as this one. Yields. */
void lab_hash_meet(struct lab_hash_client *client);

/* How the cores of a machine are shared out. */
struct lab_hash_cores {
    uint32_t cores;    /* of each machine */
    uint32_t others;   /* threads of others that always have work */
    uint64_t turn_ns;  /* for how long a thread has a core, where there are more threads than cores */
    bool are_reserved; /* each worker has a core of its own, which nobody else gets */
};

/** From now on, share the cores of all machines. */
void lab_hash_share(struct lab_hash_client *client, const struct lab_hash_cores *cores);

/** End the world if something has failed: a task that does not go on does not return. Yields. */
void lab_hash_expect(const struct lab_hash_client *client, const char *what, int error);

#endif
