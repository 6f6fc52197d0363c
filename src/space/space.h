/*
 * space: masters and memory servers, for programs that run them. Clients use <tarn/space.h>, whose rules hold here.
 *
 * Threading: both are opened and closed by any thread or task, and run on the scheduler that their options name.
 */
#ifndef SPACE_SPACE_H
#define SPACE_SPACE_H

#include "base/base.h"
#include "task/node.h"
#include "task/sched.h"
#include <tarn/space.h>

struct space_master;
struct space_server;

#define SPACE_SERVERS_MAX 1024 /* the most memory servers of a space */

/* Addresses, cluster and name outlive the master. */
struct space_master_options {
    struct tarn_fabric *fabric; /* through which it is reached; outlives it */
    const char *address;        /* where it listens, as tarn_fabric_listen() */
    const char *cluster;        /* the masters' cluster, in which its metadata are, as cluster_join() */
    const char *name;           /* its name there, which no other master has */
    uint64_t session_ns;      /* after this long without a word of a master another one may lead; 0: half of a
                            lease, so that it does before the leases of clients end */
    struct task_sched *sched; /* on which it runs; outlives it */
    uint64_t
        chunk_bytes; /* bytes of a chunk, a multiple of the page, when the space is new; 0: TARN_SPACE_CHUNK_BYTES */
    uint64_t lease_ns;          /* 0: TARN_SPACE_LEASE_NS */
    const void *servers_secret; /* what memory servers must know; NULL: any may join. Borrowed until return */
    uint32_t servers_secret_bytes; /* at most TARN_SPACE_SECRET_MAX */
};

/**
 * Open a master, which joins its cluster, and serves as soon as it leads and has read the metadata. One that does not lead stands
 * by. If it is not heard of for a session's length, it joins anew.
 *
 * @return 0; -EINVAL; -ENOMEM; -EADDRINUSE and the like (logged); what cluster_join() returns. Yields.
 */
base_must_check int space_master_open(struct tarn_node *node, const struct space_master_options *options,
                                      struct space_master **ret_master);

/** Close a master; its clients and memory servers lose their connections, and go on with the next. Yields. */
void space_master_close(struct space_master *master);

/* What a master knows, and what it has done since it was opened. */
struct space_master_stats {
    uint64_t epoch;       /* of which it leads; 0: it does not */
    uint64_t servers;     /* memory servers that are there now */
    uint64_t chunks;      /* that these have */
    uint64_t chunks_free; /* of them, those that no namespace has */
    uint64_t namespaces;
    uint64_t regions;         /* with those that were freed and are still held */
    uint64_t sessions;        /* of clients */
    uint64_t secrets_refused; /* joins with a wrong secret */
    uint64_t
        sessions_refused; /* connections to memory servers of clients that had not joined the namespace */
    uint64_t expired;     /* sessions that were not renewed */
    uint64_t stores;      /* multis of the cluster's store */
};

/** Read what a master knows. Any thread or task. */
void space_master_stats(const struct space_master *master, struct space_master_stats *ret_stats);

struct space_server_options {
    struct tarn_fabric *fabric; /* through which clients and the master are reached; outlives it */
    const char *address;        /* where it listens for clients, as tarn_fabric_listen() */
    const char *masters;        /* their addresses, with ',' between them, as tarn_space_connect() */
    const char *name;           /* its name, of the form of a namespace's, which no other server has */
    struct task_sched *sched;   /* on which it runs; outlives it */
    uint64_t memory_bytes;      /* how much memory it contributes: whole chunks */
    uint64_t chunk_bytes;       /* bytes of a chunk, which must be the master's; 0: TARN_SPACE_CHUNK_BYTES */
    const void *secret;         /* the master's servers_secret; NULL: none */
    uint32_t secret_bytes;
    const char
        *memory_file; /* where its contents are saved when it is closed, and taken up from; NULL: nowhere */
};

/**
 * Open a memory server: make its memory, with progress in the log, take up what its memory file has, remove that, and then
 * join the master, again and again while that is not there. All of the options is borrowed until return, but for the fabric
 * and the scheduler.
 *
 * @return 0; -EINVAL, also if the memory file is of another server or of other options (logged); -EUCLEAN (logged: the memory
 *         file is damaged); -EBUSY (logged: another server has that file); -ENOMEM, -ENOSPC (there is not as much memory); what tarn_fabric_listen() returns, and the
 *         kernel of the memory file (logged). A memory file that is not taken up stays as it is. Yields.
 */
base_must_check int space_server_open(struct tarn_node *node, const struct space_server_options *options,
                                      struct space_server **ret_server);

/** Close a memory server: all connections with it end, and what its memory holds is saved in its memory file, if it has one, and
 * else gone. If it cannot be saved (logged), it is gone, too. Yields. */
void space_server_close(struct space_server *server);

/* What a memory server has. */
struct space_server_stats {
    uint64_t chunks;
    uint64_t assigned;    /* chunks that namespaces have */
    uint64_t dirty;       /* chunks that are to be zeroed */
    uint64_t connections; /* clients' */
    uint64_t refused;     /* connections that the master has refused */
    bool is_attended;     /* the master knows it now */
};

/** Read what a memory server has. Any thread or task. */
void space_server_stats(const struct space_server *server, struct space_server_stats *ret_stats);

/**
 * Read a secret of a space from a file that is its owner's alone. One line end behind it is none of it.
 *
 * @param ret_secret  room for TARN_SPACE_SECRET_MAX bytes
 * @return NULL; what is wrong, for people. Any thread
 */
const char *space_secret_read(const char *path, uint8_t *ret_secret, uint32_t *ret_bytes);

#endif
