/* The insides of a master, for its files: all of it belongs to tasks of its scheduler, so nothing is locked. */
#ifndef SPACE_MASTER_H
#define SPACE_MASTER_H

#include "cluster/cluster.h"
#include "space/space.h"
#include "space/wire.h"
#include <tarn/rpc.h>

#define MASTER_SALT_BYTES 16
#define MASTER_HASH_BYTES 32

/* A place of a region: number of the server, and of the chunk there; 0: there is none. This bit says that what the chunk holds is not
 * the region's: its writer could not write it, and may still do so. */
#define MASTER_NO_COPY (UINT64_C(1) << 63)

#define MASTER_GIVE_UP                                                                                       \
    6 /* after so many leases without a memory server copies of what it has are made elsewhere */

#define MASTER_UNFENCED_MAX 1024 /* namespaces in which a memory server may have peers that are not fenced */

/* A growing array of pointers. All zero is empty. */
struct master_list {
    void **items;
    uint32_t count;
    uint32_t room;
};

/** Append. @return 0; -ENOMEM */
base_must_check int master_list_add(struct base_account *account, struct master_list *list, void *item);

/** Remove an item, if it is there; the others keep their order. @return whether it was */
bool master_list_remove(struct master_list *list, const void *item);

/** Whether an item is there. */
bool master_list_has(const struct master_list *list, const void *item);

/** Free the array. */
void master_list_free(struct base_account *account, struct master_list *list);

/* ---- what there is ------------------------------------------------------------------------------ */

/* A chunk of a memory server. */
struct master_chunk {
    uint32_t space_number; /* its namespace; 0: none */
    uint32_t
        region_number; /* its region; of a copy-on-write one the version for which it was taken; 0: none */
    uint32_t versions; /* regions that have it: several versions of one may */
    uint32_t region_space; /* the namespace of its region */
    uint32_t next;         /* place of the next chunk of the list that it is in, counted from 1; 0: none */
    bool is_versioned;     /* while metadata are read: versions have it */
    bool is_leaving;       /* it is to be unassigned from its namespace, and is in no list */
    bool is_waiting; /* peers of before could still write there: it is in no list until they are fenced */
    struct space_keys keys; /* of its namespace */
};

/* A list of chunks of one server, by their places, counted from 1. */
struct master_chunks {
    uint32_t first; /* 0: it is empty */
    uint32_t count;
};

struct master_server {
    uint32_t number;
    uint32_t slot; /* place in master.servers */
    uint8_t identity[SPACE_IDENTITY_BYTES];
    char name[TARN_SPACE_NAME_MAX + 1];
    char address[SPACE_ADDRESS_MAX + 1];
    uint32_t chunk_count;
    struct master_chunk *chunks;
    struct master_chunks free; /* chunks of no namespace; empty unless it is live */
    uint32_t leaving;          /* chunks that are to be unassigned */
    bool
        is_live; /* it is attended, its chunks are known, and it has been asked to fence all that have ended */
    bool is_draining; /* it gets no chunks, and those that it has are moved to others */
    bool must_report; /* what became of an order is not known: its attendant ends the connection */
    bool is_marked;   /* its version words agree with the master's tables */
    uint64_t
        distrust; /* the view in which clients do not believe its version words; 0: it has marked all since it came */
    struct tarn_rpc_connection *connection; /* over which the master calls it; NULL: it is not attended */
    struct tarn_rpc_connection *reporting;  /* over which it is telling its chunks; NULL: it is not */
    uint32_t calls;                         /* calls of the master over `connection` that are under way */
    uint64_t fenced;         /* the master's `expiries` when it was last asked to fence, and has answered */
    uint32_t unfenced_count; /* namespaces in which peers of those sessions could still write then */
    uint32_t unfenced[MASTER_UNFENCED_MAX]; /* their numbers */
    struct task_semaphore work;             /* posted when its attendant has something to do */
    uint64_t
        given_up_ns; /* while it is not attended: from then on copies of what it has are made elsewhere */

    /* as it has told last */
    uint32_t dirty_count;   /* chunks that are to be zeroed */
    uint32_t client_count;  /* connections of clients */
    uint64_t refused_count; /* connections of clients that it has refused since it was opened */
};

struct master_space {
    uint32_t number;
    char name[TARN_SPACE_NAME_MAX + 1];
    uint8_t salt[MASTER_SALT_BYTES];
    uint8_t hash[MASTER_HASH_BYTES]; /* of salt and secret */
    uint64_t next_address;
    uint64_t bound_address; /* addresses below it may have been used: what is stored */
    bool is_stored;         /* false: it is being made, and nobody sees it */
    bool is_deleted;
    uint32_t users;             /* methods and sessions that have it */
    struct master_list regions; /* of struct master_region, by number */
    struct master_chunks
        spare[SPACE_SERVERS_MAX];                /* by server: chunks that are reserved and have no region */
    struct space_words words[SPACE_SERVERS_MAX]; /* by server: its version words */
    uint64_t spare_count;
    int64_t
        owed; /* chunks that servers which are drained have taken from it, less those that were reserved instead */
    uint32_t turn; /* slot of the server whose turn it is */
};

struct master_region {
    struct master_space *space;
    uint32_t number;
    enum tarn_space_class memory_class;
    bool is_stored; /* false: it is being made, and nobody sees it */
    bool is_freed;
    bool is_going;               /* its chunks are being given back */
    bool is_versioned;           /* a version of a copy-on-write region, or a draft */
    bool is_draft;               /* it was not published, and only its writer's session holds it */
    bool is_publishing;          /* its draft is taking its place */
    bool is_mending;             /* a draft by which the master replaces chunks */
    bool is_moving;              /* its chunks are being moved: nobody may take hold of it */
    struct master_region *draft; /* that may take its place; NULL: none */
    struct master_region *base;  /* of a draft that may be published: the version whose place it takes */
    uint64_t lease_end_ns;       /* of a draft */
    char name[TARN_SPACE_NAME_MAX + 1]; /* "": none */
    uint64_t address;
    uint64_t bytes;
    uint32_t holds; /* sessions that hold it */
    uint32_t chunk_count;
    uint32_t copies;      /* of each chunk, on different servers */
    uint32_t place_count; /* of all copies */
    uint64_t *places;     /* of each chunk: of its copies, one after the other */
};

struct master_session {
    uint8_t id[SPACE_SESSION_BYTES];
    uint64_t number;   /* by which other clients know it */
    uint64_t heard_ns; /* when it was last heard of */
    uint64_t expiry;   /* the master's `expiries` when it expired; 0: it is live */
    uint32_t users;    /* methods that have it */
    uint64_t view;     /* the master's, as its client has last said it knows it */
    bool
        is_resuming; /* it may have operations under way, and has not told all that it holds: it is fenced as if it was not there */
    bool has_ended;  /* it is freed when no method has it */
    struct master_list spaces;  /* that it has joined */
    struct master_list regions; /* that it holds, once for each time */
};

struct master_change;

/* Changes that belong together, in the order in which they are stored. */
struct master_set {
    struct base_list link;
    struct master_change *first, *last;
    int error;             /* why it cannot be stored: a change had no memory */
    struct task_wait wait; /* its caller's, which is told what became of it */
};

/* A multi that is being gathered. */
struct master_batch {
    struct cluster_change changes[CLUSTER_MULTI_MAX];
    uint32_t count;
    uint64_t bytes;
};

enum master_count { MASTER_SECRETS, MASTER_SESSIONS, MASTER_EXPIRED, MASTER_STORES, MASTER_COUNTS };

/* What there is, counted when a method has ended, for readers of statistics in other threads. */
struct master_tally {
    _Atomic uint64_t servers, chunks, chunks_free, namespaces, regions, sessions;
};

struct space_master {
    struct tarn_node *node;
    const char *url, *name, *address; /* of its options */
    uint64_t session_ns;
    struct cluster *cluster; /* NULL: its session has ended, and it is to join again */
    struct task_sched *sched;
    uint64_t lease_ns;
    uint8_t secret[TARN_SPACE_SECRET_MAX]; /* of memory servers */
    uint32_t secret_bytes;
    uint64_t new_chunk_bytes; /* bytes of a chunk, if the space is new */
    struct tarn_rpc_service service;
    struct tarn_rpc_server *rpc;
    struct task_group group;
    _Atomic bool closing;

    /* One term: what is known while it leads. */
    uint64_t term;          /* the epoch that its changes carry */
    _Atomic uint64_t epoch; /* the same while it serves; 0: it does not */
    uint64_t chunk_bytes;
    uint32_t next_server, next_space, next_region;
    uint32_t bound_server, bound_space, bound_region; /* numbers below may have been given: what is stored */
    struct master_server *servers[SPACE_SERVERS_MAX]; /* NULL: a free slot */
    uint32_t slots;                                   /* slots that have been used */
    struct master_list spaces;                        /* by number */
    struct master_list sessions;
    uint32_t turn;            /* slot of the server whose turn it is to be reserved from */
    uint64_t expiries;        /* times that sessions have expired, of which servers are to be told */
    uint64_t grace_end_ns;    /* sessions of before may come until then; 0: that is over */
    uint64_t patience_end_ns; /* memory servers that are known are waited for until then */
    uint64_t old_expiry;      /* `expiries` when that was over */
    uint64_t ended_ns;        /* when those that have expired were heard of, at the latest */
    uint64_t cut_term,
        cut_ns; /* a session of which that term, or one before, has not heard later than then is not resumed. Stored */
    uint64_t view;          /* rises when memory servers are not to be believed any more */
    uint64_t lost_view;     /* the view in which those that are lost for good are not; 0: none is known */
    uint32_t running;       /* methods that run */
    uint32_t tasks;         /* tasks of the term */
    struct task_wait *idle; /* of the task that waits for one of these to become 0 */

    /* Changes on their way into the store. */
    struct base_list sets;           /* of struct master_set */
    struct master_set orphans;       /* removals of nodes that were found to be of no use */
    struct task_semaphore sets_wait; /* posted with each of them */
    struct master_batch batch;       /* the storing task's */
    bool is_storing;                 /* sets that have left the list are being stored */
    int failed;                      /* why the term is over; 0: it is not */
    struct task_semaphore over;      /* posted when the term is over */
    struct task_semaphore mend;      /* posted when chunks may be to be replaced */
    bool must_mend;                  /* regions may lack copies */
    struct task_semaphore reap;      /* posted when there is something to be given back */
    _Atomic uint64_t counts[MASTER_COUNTS];
    struct master_tally tally;
};

/** A method, or a task of the term, ends: one less of `running` or `tasks`. */
void master_leave(struct space_master *master, uint32_t *count);

/** A lease, and a hundredth of it, for clocks of different rates: after so long no client's is left that began before. */
static inline uint64_t master_lease_ns(const struct space_master *master)
{
    return master->lease_ns + master->lease_ns / 100;
}

/** The number of the server of a place. */
static inline uint32_t master_place_server(uint64_t place)
{
    return (uint32_t)place;
}

/** The number of the chunk of a place at its server. */
static inline uint32_t master_place_chunk(uint64_t place)
{
    return (uint32_t)((place & ~MASTER_NO_COPY) >> 32);
}

/** Whether the master may answer: it leads, and no other one can do so yet. */
bool master_leads(const struct space_master *master);

/** Count what there is. */
void master_tally(struct space_master *master);

/* ---- store.c: changes of the metadata ----------------------------------------------------------- */

/** An empty set. */
void master_set_init(struct master_set *set);

/** Add the storing of a node to a set. @param path  with a number, or two. @return where its bytes go; NULL: no memory, and
 * master_store() will say so */
uint8_t *master_set_put(struct space_master *master, struct master_set *set, const char *path,
                        uint32_t bytes);

/** Add the removal of a node. */
void master_set_remove(struct space_master *master, struct master_set *set, const char *path);

/** Store a set, and wait for that. Frees its changes. @return 0; -ENOMEM, -ENOSPC: nothing of it is stored; -ESHUTDOWN: the
 * term is over. Yields. */
base_must_check int master_store(struct space_master *master, struct master_set *set);

/** The same for a change that other methods may have seen meanwhile: if it is refused, the term ends. @return as master_store(),
 * but -ENOSPC. Yields. */
base_must_check int master_store_seen(struct space_master *master, struct master_set *set);

/** Wait until everything that was noted is stored. @return 0; -ESHUTDOWN. Yields. */
base_must_check int master_settle(struct space_master *master);

/** Store what is noted, until the term is over or the master closes. A task. */
void master_store_task(void *arg);

/* ---- metadata.c: nodes -------------------------------------------------------------------------- */

/** Add to a set: the configuration, with bounds raised so that the next numbers can be given. */
void master_save_config(struct space_master *master, struct master_set *set);

/** Add to a set: a memory server. */
void master_save_server(struct space_master *master, struct master_set *set,
                        const struct master_server *server);

/** Raise the bound below which a namespace's addresses are, so that more can be given; it is to be saved then. */
void master_bound_addresses(struct master_space *space);

/** Add to a set: a namespace. */
void master_save_space(struct space_master *master, struct master_set *set, const struct master_space *space);

/** Add to a set: a region, with all parts of its list. */
void master_save_region(struct space_master *master, struct master_set *set,
                        const struct master_region *region);

/** Add to a set: the removal of a memory server. */
void master_forget_server(struct space_master *master, struct master_set *set,
                          const struct master_server *server);

/** Add to a set: the removal of a namespace. */
void master_forget_space(struct space_master *master, struct master_set *set,
                         const struct master_space *space);

/** Add to a set: the removal of a region, with all parts of its list. */
void master_forget_region(struct space_master *master, struct master_set *set,
                          const struct master_region *region);

/** Read everything. @param ret_is_new  there was nothing @return 0; -EUCLEAN (logged); errors of the cluster's. Yields. */
base_must_check int master_load(struct space_master *master, uint64_t new_chunk_bytes, bool *ret_is_new);

/* ---- spaces.c: namespaces, regions and their chunks --------------------------------------------- */

/** The namespace of a number. @return NULL: there is none, any more or yet */
struct master_space *master_space_of(const struct space_master *master, uint32_t number);

/** The namespace of a name that is not deleted. @return NULL: there is none */
struct master_space *master_space_named(const struct space_master *master, const char *name);

/** Make a namespace that nobody sees yet. @return NULL: no memory */
struct master_space *master_space_make(struct space_master *master, uint32_t number, const char *name);

/** Give back a use of a namespace; one that is deleted and of no use is freed. */
void master_space_put(struct space_master *master, struct master_space *space);

/** Free what is not used any more. */
void master_space_try_free(struct space_master *master, struct master_space *space);

/** A namespace's region of a number. @return NULL: there is none */
struct master_region *master_region_of(const struct master_space *space, uint32_t number);

/** A namespace's region of a name that is not freed. @return NULL: there is none */
struct master_region *master_region_named(const struct master_space *space, const char *name);

/** A namespace's region that has all of some addresses, is stored and not freed. @param bytes  0: one @return NULL: there is none */
struct master_region *master_region_at(const struct master_space *space, uint64_t address, uint64_t bytes);

/** Make a region without chunks that nobody sees yet. @param chunk_count, copies  how many it is to have @return NULL: no memory */
struct master_region *master_region_make(struct space_master *master, struct master_space *space,
                                         uint32_t number, uint32_t chunk_count, uint32_t copies);

/** Take a region out, and free it. */
void master_region_free(struct space_master *master, struct master_region *region);

/** Have a place of a region be one that other regions have, too. */
void master_place_share(const struct space_master *master, struct master_region *region, uint32_t index,
                        uint64_t place);

/** Give the chunk of a place back to its namespace, if no other region has it; the region has none there then. */
void master_place_leave(struct space_master *master, struct master_region *region, uint32_t index);

/** Give the chunks of a region back to its namespace, and forget them. */
void master_region_take_chunks(struct space_master *master, struct master_region *region);

/** Whether what holds of a namespace is known, and those that are not known hold nothing. */
bool master_is_settled(const struct space_master *master, const struct master_space *space);

/** The number of regions of all namespaces. */
uint64_t master_count_regions(const struct space_master *master);

/** Wait a little for more spare chunks of a namespace: of regions that are being given back, or of memory servers that come.
 * @return as master_await_more(). Yields. */
base_must_check int master_await_spare(const struct space_master *master, const struct master_space *space,
                                       uint64_t deadline_ns);

/** Give back the regions that are freed and that nobody holds, and free namespaces that were deleted. Yields. */
void master_reclaim(struct space_master *master);

/* ---- chunks.c ----------------------------------------------------------------------------------- */

/** The server of a number. @return NULL: there is none, any more or yet */
struct master_server *master_server_of(const struct space_master *master, uint32_t number);

/** The server of a name. @return NULL: there is none */
struct master_server *master_server_named(const struct space_master *master, const char *name);

/** Make a server, with no chunk assigned. @return NULL: no memory, or there are too many */
struct master_server *master_server_make(struct space_master *master, uint32_t number, uint32_t chunk_count);

/** Free a server that is not attended. */
void master_server_free(struct space_master *master, struct master_server *server);

/** Put a chunk where it belongs: into the list of free ones, into its namespace's, or among those that leave. */
void master_chunk_place(struct space_master *master, struct master_server *server, uint32_t chunk);

/** Sort all chunks of a server that has become live; those of namespaces in which peers are not fenced wait. */
void master_server_sort(struct space_master *master, struct master_server *server);

/** Sort the chunks that have waited, if their namespace's peers are fenced now. */
void master_server_sort_waiting(struct space_master *master, struct master_server *server);

/** Have a server that is drained keep no spare chunk: they leave, and are owed. */
void master_take_spare(struct space_master *master, struct master_server *server);

/** Take a server out of use: its lists are empty from now on. */
void master_server_unsort(struct space_master *master, struct master_server *server);

/**
 * Reserve chunks for a namespace, of all servers at once. @param count  of chunks. @return 0; -ENOSPC, -ENOMEM, -EINPROGRESS (not until
 * the deadline, or a server went meanwhile: ask again): nothing is reserved. Yields.
 */
base_must_check int master_reserve(struct space_master *master, struct master_space *space, uint64_t count,
                                   uint64_t deadline_ns);

/** Reserve a chunk, and bind it to a place of a region: on a server that is not drained, and that has no copy of the same chunk of
 * the region. If none of these has a free one, it is a spare one of the namespace. @return as master_reserve(). Yields. */
base_must_check int master_reserve_place(struct space_master *master, struct master_region *region,
                                         uint32_t place);

/** The number of chunks that are free, on servers that are not drained. @param with_leaving  with those that are about to be */
uint64_t master_count_free(const struct space_master *master, bool with_leaving);

/** The number of servers that are live, and not drained. */
uint32_t master_count_live(const struct space_master *master);

/** Take reserved chunks from a namespace. @param count  of chunks; more than there are: -ENOSPC, and none is taken */
int master_release(struct space_master *master, struct master_space *space, uint64_t count);

/** Wait a little for what is about to be. @return 0: look again; -EINPROGRESS: the deadline has passed; -ECANCELED. Yields. */
base_must_check int master_await_moment(uint64_t deadline_ns);

/** Wait a little for memory servers that come. @return 0: look again; -ENOSPC: none will; -EINPROGRESS: the
 * deadline has passed; -ECANCELED. Yields. */
base_must_check int master_await_more(const struct space_master *master, uint64_t deadline_ns);

/** Bind a reserved chunk to a place of a region, on a server that has no copy of the same chunk. @param server  of the chunk; NULL: the
 * next in turn. @return whether there was one */
bool master_bind_one(const struct space_master *master, struct master_region *region, uint32_t place,
                     const struct master_server *server);

/** Bind reserved chunks to a region. @param server  of all of them; NULL: of all servers in turn. @return 0; -ENOSPC: it may have
 * some */
base_must_check int master_bind(struct space_master *master, struct master_region *region,
                                const struct master_server *server);

/* ---- versions.c: copy-on-write regions ---------------------------------------------------------- */

#define MASTER_VERSIONED_MAX 24576 /* the most places of one: two lists of them have room in one multi */

/** The method BEGIN: README, "Messages", as for the next. @param region  that the session holds @param from  the rest of the
 * request @param ret_draft  nobody holds it yet. Yields. */
base_must_check int master_begin_version(struct space_master *master, const struct master_session *session,
                                         struct master_region *region, struct space_cursor *from,
                                         uint64_t deadline_ns, struct master_region **ret_draft);

/** A draft that shares all of its base's chunks. @return NULL: no memory */
struct master_region *master_draft_make(struct space_master *master, struct master_region *base);

/** Publish a draft. @return 0; the errors of the method. Yields. */
base_must_check int master_publish(struct space_master *master, struct master_region *draft,
                                   uint64_t deadline_ns);

/** The method PUBLISH. @param draft  a region that the session holds @param from  the rest of the request. Yields. */
base_must_check int master_publish_version(struct space_master *master, struct master_region *draft,
                                           struct space_cursor *from, uint64_t deadline_ns);

/** The version of a copy-on-write region that has its place, when none is being published. @return NULL: it was freed. Yields. */
struct master_region *master_await_newest(const struct space_master *master, struct master_region *region);

/** Take a draft's right to be published away, as at the end of its writer's hold. */
void master_detach_draft(struct master_region *draft);

/** Have memory servers mark the chunks of a new copy-on-write region, or the new ones of a draft. @param base  the draft's; NULL:
 * it is none @return 0; -ENOMEM; -ENOSPC; -EHOSTUNREACH. Yields. */
base_must_check int master_mark_new(struct space_master *master, struct master_region *region,
                                    const struct master_region *base);

/** Have a memory server that has come mark all chunks of versions that are current. @return an error of the connection's.
 * Yields. */
base_must_check int master_mark_all(struct space_master *master, struct master_server *server,
                                    uint64_t deadline_ns);

/* ---- servers.c: what memory servers ask --------------------------------------------------------- */

/** The method REGISTER: README, "Messages", as for the three that follow. */
int master_register(struct space_master *master, struct tarn_rpc_request *request);

/** The method REPORT. */
int master_report(struct space_master *master, struct tarn_rpc_request *request);

/** The method ATTEND, which lasts as long as the memory server's connection. Yields. */
int master_attend(struct space_master *master, struct tarn_rpc_request *request);

/** The method ADMIT. */
int master_admit(struct space_master *master, struct tarn_rpc_request *request);

/** Whether a secret is that of memory servers. */
bool master_knows_secret(const struct space_master *master, const void *secret, size_t bytes);

/** Forget a memory server that is not attended, and free it. @return 0; errors of master_store(). Yields. */
base_must_check int master_forget(struct space_master *master, struct master_server *server);

/** Call a memory server. @return 0; what it answers; -ENOTCONN: it is not attended. Yields. */
base_must_check int master_order(struct master_server *server, enum space_order order, const void *data,
                                 uint32_t bytes, void *result, uint32_t room, uint64_t deadline_ns);

/** Wait until sessions of before the term have had the time to come. @return 0; -EINPROGRESS: not until the deadline; -ESHUTDOWN. Yields. */
base_must_check int master_await_grace(const struct space_master *master, uint64_t deadline_ns);

/** Have every server's attendant look whether there is something to do. */
void master_poke_servers(struct space_master *master);

/** Whether all servers that are attended have fenced the sessions that expired up to then, in one namespace. */
bool master_have_fenced(const struct space_master *master, uint64_t expiry, const struct master_space *space);

/** Whether a server may have peers of sessions that have ended in a namespace. */
bool master_is_unfenced(const struct master_server *server, uint32_t space_number);

/* ---- sessions.c --------------------------------------------------------------------------------- */

/** The live session of an id. @return NULL: there is none */
struct master_session *master_session_of(const struct space_master *master, const uint8_t *id);

/** Whether there is a session of an id, live or expired. */
bool master_session_is_known(const struct space_master *master, const uint8_t *id);

/** Whether a session, known by its number, is over, and can reach nothing of a namespace any more: no server that is attended serves it, and
 * one that is not has nothing of the namespace. */
bool master_session_is_over(const struct space_master *master, uint64_t number,
                            const struct master_space *space);

/** See to it that no session that is over by now is ever resumed, by any master. @return 0; errors of master_store_seen(). Yields. */
base_must_check int master_cut(struct space_master *master);

/** Whether a session may be over, so that it is not to be resumed. @param epoch, heard_ns  what its client was told last */
static inline bool master_session_is_cut(const struct space_master *master, uint64_t epoch, uint64_t heard_ns)
{
    return epoch < master->cut_term || (epoch == master->cut_term && heard_ns <= master->cut_ns);
}

/** Make a session. @param is_resuming  it was another master's @return NULL: no memory, or there are too many */
struct master_session *master_session_make(struct space_master *master, const uint8_t *id, bool is_resuming);

/** Have a session hold a region. @return 0; -ENOMEM */
base_must_check int master_hold(struct space_master *master, struct master_session *session,
                                struct master_region *region);

/** Have it hold a region once less. @return 0; -ENOENT: it does not hold it */
int master_unhold(struct space_master *master, struct master_session *session, struct master_region *region);

/** End a session: what it holds is given back. */
void master_session_end(struct space_master *master, struct master_session *session);

/** Free an ended session that no method has. */
void master_session_try_free(struct space_master *master, struct master_session *session);

/** Expire sessions, end those that all servers have fenced, give back what nobody holds; until the term is over. A task. */
void master_reap_task(void *arg);

/* ---- mend.c: chunks are replaced, and servers drained ------------------------------------------- */

/** Make copies of what lies on servers that are drained or gone, elsewhere, and forget those that were drained; until the term is over.
 * A task. */
void master_mend_task(void *arg);

/** Note that chunks were taken from a namespace, instead of which others are to be reserved. */
void master_owe(struct space_master *master, struct master_space *space, uint32_t count);

/** The method DRAIN, behind the session. Yields. */
base_must_check int master_drain(struct space_master *master, struct space_cursor *from);

/* ---- methods.c: what clients ask ---------------------------------------------------------------- */

extern const struct tarn_rpc_method master_methods[SPACE_METHODS];

#endif
