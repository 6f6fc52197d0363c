/* The insides of campaign `hash`, for its files. */
#ifndef SIM_CAMPAIGN_HASH_H
#define SIM_CAMPAIGN_HASH_H

#include "hash/hash.h"
#include "sim/arena.h"
#include "sim/kv_history.h"
#include <errno.h>
#include <inttypes.h>

#define LOOK_NS     (5 * BASE_NS_PER_MS)
#define PATIENCE_NS (8 * BASE_NS_PER_SECOND) /* of an operation */
#define OPEN_NS     (60 * BASE_NS_PER_SECOND)
#define BEGIN_NS    (400 * BASE_NS_PER_MS)
#define MASTERS     "master0"

enum {
    SERVERS_MAX = 3,
    CLIENTS_MAX = 5,
    USERS_MAX = 3,  /* tasks of a client */
    BATCH_MAX = 20, /* operations that are run together */
    CHUNK_BYTES = 65536,
    CHUNKS = 12, /* of a server */
    KEY_BYTES = 8,
    VALUE_MAX = 700,
    DRIVE_BYTES = 4 << 20,
    DRIFT_PPM_MAX = 5000,
    TURNS_MORE = 14,
    ROOM_LEFT = (CLIENTS_MAX * USERS_MAX + 6) *
                SIM_KV_KEYS_MAX, /* of the history: for what is under way, and the end */
};

struct play;
struct life;

/* A task of a client, with the memory of its operations. */
struct user {
    struct life *life;
    uint8_t keys[BATCH_MAX][KEY_BYTES];
    uint8_t values[BATCH_MAX][VALUE_MAX];
    struct hash_op ops[BATCH_MAX];
    uint32_t numbers[BATCH_MAX];
};

/* One life of a node. */
struct life {
    struct life *next;
    struct play *play;
    struct sim_node *node;
    uint32_t number; /* of the node */
    struct base_random random;
    struct tarn_fabric *fabric;
    struct space_master *master;
    struct space_server *server;
    struct hash *hash;   /* of a client, once it is open */
    struct user *users;  /* USERS_MAX */
    uint32_t running;    /* users */
    uint64_t stalled_ns; /* until when it stands still */
    bool ends;           /* the master is to be closed */
};

struct play {
    struct sim_arena arena;
    struct sim_kv_history history;
    struct life *lives;
    struct life *current[SIM_ARENA_NODES_MAX];
    uint32_t servers; /* the first node is the master, then the servers, then the clients */
    uint32_t clients; /* lives of clients that go on */
    uint32_t events;  /* that may happen, of enum of the arena: kills and pauses are of clients alone */
    struct hash_shape shape;
    uint64_t keys[SIM_KV_KEYS_MAX]; /* the keys' bytes */
    bool is_crowded;                /* few keys share few slots, and come and go */
    uint64_t cache_bytes;
    uint64_t lease_ns;    /* of the space */
    uint64_t beat_ns;     /* users like to begin together: all that often */
    uint32_t value_bytes; /* of the longest value */
    bool expires;         /* some records do */
    uint64_t versions;    /* that puts have chosen */
    bool loses_memory;    /* a memory server is killed at some moment */
    bool is_lost;         /* it was: operations may end with errors from now on, but not with what is wrong */
    bool is_quiet;        /* a client stands still for long, and the others do little */
    bool is_begun;        /* the store was there */
    bool is_checked;      /* the end was looked at */
    uint64_t kills, pauses, full, gone;
    struct hash_stats stats; /* of all clients that were closed */
};

/** A number below a power of two up to n: short ones are as frequent as long ones. */
uint64_t sim_hash_draw_scaled(struct base_random *random, uint64_t n);

/** Be a client, until the arena stops. A task function; its argument is the life. */
void sim_hash_use(void *arg);

/** Look at all that is there at the end, as a client that is new. In a task of the master's node. */
void sim_hash_check_end(struct life *life);

#endif
