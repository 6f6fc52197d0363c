/*
 * The insides of a client, for its files. It is used by tasks of one scheduler, or by one thread at a time; besides, its
 * keeper (a task of that scheduler, or a thread) renews the lease, and touches only what says so.
 */
#ifndef SPACE_CLIENT_H
#define SPACE_CLIENT_H

#include "base/base.h"
#include "space/wire.h"
#include "task/node.h"
#include "task/worker.h"
#include <tarn/rpc.h>

#define CLIENT_PIECES 128 /* operations of the fabric that a space has posted at most */
#define CLIENT_TAG    2   /* the tag under which the fabric counts this layer's operations on data */

struct client_link;

/* A connection with one of the masters. */
struct client_master {
    struct tarn_rpc_connection *rpc; /* NULL: there is none now */
    uint32_t turn;                   /* which of their addresses it is, or will be, of */
};

/* What the master knows of the session. */
enum client_state {
    CLIENT_LOST,    /* there is none: one of a new id is to be begun */
    CLIENT_UNKNOWN, /* the master may be one that does not know it, and is to be told */
    CLIENT_KNOWN,
};

/* An operation of the fabric, which is a part of one of the space. */
struct client_piece {
    struct tarn_fabric_op op;
    struct iovec iov[TARN_FABRIC_IOV_MAX];
    struct tarn_space_op *owner;
    struct client_target *target;    /* the copy that it is for … */
    struct client_link *over;        /* … and the connection over which it is posted */
    struct tarn_fabric_handle words; /* where it reads a version word: of that … */
    uint64_t word;                   /* … and what it was */
    bool is_of_word;                 /* it reads one */
    struct base_list link;           /* in the space's list of those that are free, or that are posted */
    bool is_awaited;                 /* a task waits for it */
};

struct tarn_space {
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    struct tarn_fabric_domain *domain;       /* of this side, with its local memory; it exports nothing */
    char addresses[SPACE_ADDRESSES_MAX + 1]; /* of the masters */
    uint64_t cache_bytes;
    uint64_t chunk_bytes;
    uint32_t chunk_shift;      /* chunk_bytes is two to this power */
    struct task_mutex control; /* held by the task that asks the master, and for the lists of what is held */
    struct client_master master;

    /* The session: the keeper reads and writes it, too, with the lock. It also tells a master that does not know it what is
     * held, with `control`. */
    struct task_worker keeper;
    struct base_spin lock;
    uint8_t session[SPACE_SESSION_BYTES];
    uint64_t session_number; /* by which others know it; the keeper does not use it */
    uint64_t lease_ns;
    uint64_t next_held_until_ns; /* the end of the lease of a session that is being begun */
    uint64_t told_view;          /* the master's view, as it has told it last */
    uint64_t told_epoch;         /* the master's term … */
    uint64_t
        told_heard_ns; /* … and the moment of its clock at which it had heard of the session, told together */
    _Atomic uint64_t
        view; /* the last that was not the first of its term: regions that were located before it say nothing of being
                                       current */
    _Atomic uint64_t held_until_ns; /* the end of the lease by this clock; 0: it has ended */
    _Atomic enum client_state state;

    struct base_list namespaces; /* of struct tarn_space_namespace */
    struct base_list cached;     /* of struct client_memory that no region has, the latest first */
    uint64_t cached_bytes;
    struct base_list free_pieces, posted_pieces;
    struct client_piece pieces[CLIENT_PIECES];
};

struct tarn_space_namespace {
    struct base_list link;
    struct tarn_space *space;
    uint32_t number;
    char name[TARN_SPACE_NAME_MAX + 1];
    uint8_t secret[TARN_SPACE_SECRET_MAX]; /* to join again with */
    uint32_t secret_bytes;
    struct base_list regions; /* of struct tarn_space_region */
    struct base_list links;   /* of struct client_link */
};

/* A connection with a memory server, in the domain of a namespace. */
struct client_link {
    struct base_list link;
    struct tarn_space_namespace *of;
    uint32_t server;
    struct tarn_fabric_connection *connection; /* NULL: there is none now */
    uint64_t session;                          /* number of the session in which that was made */
    uint32_t users;                            /* tasks that use it, and operations posted over it */
    bool is_connecting;                        /* a task is at it */
    uint64_t heard_ns;                         /* when an operation posted over it has last been done */
    bool was_away; /* its server may have been restarted since handles were asked for */
};

/* Where a chunk of a region is. */
struct client_target {
    struct client_link *link; /* NULL: its place is not known */
    struct tarn_fabric_handle handle;
    struct space_words words; /* its server's version words, if its region is copy-on-write */
    uint32_t chunk;           /* number at its server, by which its word is found */
    bool is_lost;             /* a WRITE of a draft has failed there, so that it is no copy of the others */
};

/* Local memory for a region. */
struct client_memory {
    struct base_list link; /* in the space's cache */
    struct tarn_fabric_region *region;
};

struct tarn_space_region {
    struct base_list link;
    struct tarn_space_namespace *of;
    uint32_t number;
    enum tarn_space_class memory_class;
    uint64_t address; /* of its first byte, which may lie within a region of the master's */
    uint64_t bytes;
    uint64_t view;        /* the master's when it told where the chunks are; 0: it has not yet */
    uint64_t skipped;     /* bytes of its first chunk that lie before it */
    uint32_t first_chunk; /* number of its first chunk in the master's region */
    uint32_t chunk_count;
    uint32_t copies;               /* of each chunk */
    uint32_t target_count;         /* of all copies */
    struct client_target *targets; /* of each chunk: of its copies, one after the other */
    struct client_memory *memory;  /* NULL: it is not mapped */
    _Atomic int error;             /* -ESTALE: it is gone */
    bool is_in_doubt;              /* what was written in this session may still arrive */
    bool is_broken;                /* a WRITE has failed, and no copy has got it */
    bool reaches_end;              /* it has the last byte of the master's region */
    bool is_versioned;             /* it is a version of a copy-on-write region, or a draft */
    bool is_draft;
    bool is_outdated; /* a READ has found that a chunk was replaced */
};

/** Where a copy of a chunk is. */
static inline struct client_target *client_target_of(const struct tarn_space_region *region, uint32_t chunk,
                                                     uint32_t copy)
{
    return &region->targets[chunk * region->copies + copy];
}

/** Whether READs of a region look at version words: a draft has none that others change. */
static inline bool client_looks_at_words(const struct tarn_space_region *region)
{
    return region->is_versioned && !region->is_draft;
}

/* ---- client.c ----------------------------------------------------------------------------------- */

/** Ask the master, again and again until the deadline while that is not there, and begin the session again if it is lost.
 * @param request  its session is filled in @param result  NULL: nothing is expected @return what the master answers; an
 * error of rpc's. Yields. */
base_must_check int client_ask(struct tarn_space *space, enum space_method method, uint8_t *request,
                               const struct space_cursor *end, uint8_t *result, uint32_t room,
                               uint64_t deadline_ns, uint32_t *ret_bytes);

/** The same for a caller that has `control`. Yields. */
base_must_check int client_ask_held(struct tarn_space *space, enum space_method method, uint8_t *request,
                                    const struct space_cursor *end, uint8_t *result, uint32_t room,
                                    uint64_t deadline_ns, uint32_t *ret_bytes);

/** Ask the master in one attempt, and in the session that there is. The caller has `control`. @param room  the bytes that
 * are expected @return what the master answers; an error of rpc's. Yields. */
int client_ask_once(struct tarn_space *space, enum space_method method, uint8_t *request,
                    const struct space_cursor *end, uint8_t *result, uint32_t room, uint64_t deadline_ns);

/** Give the session up, and the connections with memory servers: it is begun again when it is needed. The caller has
 * `control`. Yields. */
void client_give_up_session(struct tarn_space *space);

/** Begin a request: the session's bytes, and then what is put at the cursor. */
struct space_cursor client_begin(uint8_t *request);

/** Begin a request about a namespace. @param number  of a region; 0: none */
struct space_cursor client_begin_of(uint8_t *request, const struct tarn_space_namespace *of, uint32_t number);

/** Whether a session is there, as far as is known without a look at the clock: what is begun without a lease does no harm, and
 * does not count. Any thread or task. */
static inline bool client_has_session(const struct tarn_space *space)
{
    return atomic_load_explicit(&space->held_until_ns, memory_order_relaxed) != 0;
}

/** Whether the lease holds now. Any thread or task. */
bool client_holds(const struct tarn_space *space);

/** Wait until the lease holds, beginning the session again if that is lost. @return 0; -ETIMEDOUT; errors of the master's.
 * Yields. */
base_must_check int client_await_lease(struct tarn_space *space, uint64_t deadline_ns);

/* ---- links.c ------------------------------------------------------------------------------------ */

/** Read where the chunks of a region are. @return 0; errors of the master's. Yields. */
base_must_check int client_locate(struct tarn_space_region *region, uint64_t deadline_ns);

/** A copy of a chunk that can be reached now. @return NULL: there is none */
struct client_target *client_copy(const struct tarn_space_region *region, uint32_t chunk);

/** Give up the copies that a draft has at a server, one of which a WRITE has not reached. @return false: a chunk would have none */
bool client_lose_copies(struct tarn_space_region *region, const struct client_link *link);

/** Make one attempt to connect with the servers of all copies of a chunk of a draft. Those that are not reached are given up. @return 0;
 * -EHOSTUNREACH: one is not reached, and has what no other has. Yields. */
base_must_check int client_reach_copies(struct tarn_space_region *region, uint32_t chunk,
                                        uint64_t deadline_ns);

/** Connect with the server of a copy of one of a region's chunks. @return 0; -EHOSTUNREACH; -ENODATA; -ETIMEDOUT. Yields. */
base_must_check int client_reach(struct tarn_space_region *region, uint32_t chunk, uint64_t deadline_ns);

/** Connect with the servers of all chunks of a region. @return as client_reach(). Yields. */
base_must_check int client_reach_all(struct tarn_space_region *region, uint64_t deadline_ns);

/** Whether a link can be used now. */
static inline bool client_is_up(const struct client_link *link)
{
    return link != NULL && link->connection != NULL && tarn_fabric_error(link->connection) == 0;
}

/** Whether a chunk can be reached now: its handle is known, and there is a connection with its server. */
static inline bool client_is_reached(const struct client_target *target)
{
    return client_is_up(target->link) && target->handle.key != 0;
}

/** End all connections with memory servers, those with operations too. Yields. */
void client_leave_servers(struct tarn_space *space);

/** Free a namespace's connections. Yields. */
void client_free_links(struct tarn_space_namespace *of);

/* ---- regions.c ---------------------------------------------------------------------------------- */

/** Ask for a region, and hold it. @param method  one that answers with a region @param address, bytes  for INIT and BEGIN: the
 * part that is wanted; 0 bytes: up to its end @return 0; errors of the master's. Yields. */
base_must_check int client_hold_region(struct tarn_space_namespace *of, enum space_method method,
                                       uint8_t *request, const struct space_cursor *end, uint64_t address,
                                       uint64_t bytes, uint64_t deadline_ns,
                                       struct tarn_space_region **ret_region);

/** Free local memory of the cache. Yields. */
void client_memory_free(struct tarn_space *space, struct client_memory *memory);

/* ---- data.c ------------------------------------------------------------------------------------- */

/** Take the posted pieces that have ended and that no task waits for. @param link  over which; NULL: any @param op  whose; NULL:
 * any */
void client_take_ended(struct tarn_space *space, const struct client_link *link,
                       const struct tarn_space_op *op);

#endif
