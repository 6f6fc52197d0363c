/*
 * A hash store in a world of its own with the speed model: a master, and machines that each have a memory server and some
 * clients, all on cards. Each client is a task on a scheduler of its own, as a thread of the paper's is on a core, with a
 * session of the space of its own. Clients run a function at the same time.
 *
 * Threading: a world and all that is in it belong to one plain thread. The functions are for the clients' tasks.
 */
#ifndef LAB_HASH_WORLD_H
#define LAB_HASH_WORLD_H

#include "hash/hash.h"
#include "sim/cards.h"
#include "sim/sim.h"
#include <stdint.h>

#define LAB_HASH_MACHINES_MAX 16
#define LAB_HASH_CLIENTS_MAX  256 /* on all machines */

struct lab_hash_world;

/* A client of the store. */
struct lab_hash_client {
    struct lab_hash_world *world;
    struct tarn_fabric *fabric; /* its machine's: what it counts is of all clients there */
    struct hash *hash;
    uint32_t number;  /* among all clients, from 0; client n is on machine n modulo the number of machines */
    uint32_t machine; /* from 0 */
    struct base_random random;
    void *arg; /* the options' */
    /* not the user's */
    struct tarn_space *space;
    struct tarn_space_namespace *of;
};

struct lab_hash_world_options {
    const struct sim_card *card; /* of every machine */
    uint64_t seed;
    uint32_t machines;     /* 1 to LAB_HASH_MACHINES_MAX */
    uint32_t clients;      /* on all machines in turn: 1 to LAB_HASH_CLIENTS_MAX */
    uint64_t memory_bytes; /* of each memory server: whole chunks */
    uint64_t chunk_bytes;  /* also of each of the store's tables */
    struct hash_shape shape;
    const uint64_t *cache_bytes;                 /* of each client; NULL: none has a cache */
    bool is_local;                               /* the records of a client are on its own machine */
    void (*run)(struct lab_hash_client *client); /* what each client does */
    void *arg;
};

/** Run a world to its end. @return 0; -ENOMEM; -EIO: something failed (said to standard error) */
base_must_check int lab_hash_world_run(const struct lab_hash_world_options *options);

/** Wait until all clients have come here as often as this one. Yields. */
void lab_hash_meet(struct lab_hash_client *client);

/** End the world if something has failed: a task that does not go on does not return. Yields. */
void lab_hash_expect(const struct lab_hash_client *client, const char *what, int error);

#endif
