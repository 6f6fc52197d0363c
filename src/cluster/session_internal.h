/*
 * The session of a member with a ZooKeeper ensemble: one thread that drives the C client, hands it requests of tasks and
 * threads, keeps the session alive and watches. Only the back end `zookeeper` uses it.
 */
#ifndef CLUSTER_SESSION_INTERNAL_H
#define CLUSTER_SESSION_INTERNAL_H

#include "cluster/cluster_internal.h"
#include "task/task.h"
#include <pthread.h>
#include <zookeeper/zookeeper.h>

#define CLUSTER_HOSTS_MAX  511 /* the most bytes of the list of servers */
#define CLUSTER_TURN_LEN   10  /* digits that the ensemble appends to a candidate's name */
#define CLUSTER_ZNODE_ROOM 256 /* of the path of any znode: root, folder, name */

/* What is asked of the ensemble; README, "What is stored: zookeeper", has the znodes. */
enum cluster_request_kind {
    CLUSTER_REQUEST_NONE,   /* nothing: it is skipped */
    CLUSTER_REQUEST_EXISTS, /* `stat` of a znode */
    CLUSTER_REQUEST_GET,    /* its data, too */
    CLUSTER_REQUEST_NAMES,  /* the names of its children, each with the zero behind it, as allocated data */
    CLUSTER_REQUEST_MULTI,  /* changes, all or none */
};

/* A request, in the caller's memory until cluster_session_run() returns. */
struct cluster_request {
    struct base_list link; /* the session's */
    struct cluster_batch *batch;
    enum cluster_request_kind kind;
    bool watches;      /* GET: `turns` is raised when the znode, if it is there now, changes or goes */
    bool allocates;    /* GET: `data` is of base_alloc(), and the caller's to free with `bytes` */
    uint32_t room;     /* GET: bytes at `data`; unused if it allocates */
    uint32_t op_count; /* MULTI */
    const char *path;
    void *data;
    const zoo_op_t *ops; /* MULTI */
    zoo_op_result_t *results;
    uint64_t deadline_ns; /* until when it may wait for the connection */
    /* the outcome */
    int error; /* 0; -ENOENT, -EEXIST, -EAGAIN (version); -ENOBUFS; -ENOTCONN; -ESTALE; -ENOMEM; -EACCES; -EUCLEAN */
    uint32_t bytes;
    struct Stat stat;
};

/* Something that happens again and again, and the callers that wait for the next time. */
struct cluster_signal {
    uint64_t count;           /* number of times that it has happened, from 1 on */
    struct base_list waiters; /* of struct task_wait */
};

struct cluster_session;

/* A znode whose changes raise `members`. */
struct cluster_watched {
    struct cluster_session *session;
    char path[CLUSTER_ZNODE_ROOM];
    bool armed;  /* the ensemble tells of the next change */
    bool arming; /* it is being asked to */
};

struct cluster_session {
    struct tarn_node *node;
    pthread_t thread;
    struct task_mutex alive;          /* held until the thread's end */
    struct task_shared_future opened; /* 0: the client is there; or why not */
    int poke_fd;                      /* ends the thread's sleep */
    int asked_ms;                     /* the session's length, as it was asked for */
    char hosts[CLUSTER_HOSTS_MAX + 1];
    char root[CLUSTER_PATH_MAX + 1]; /* below which all znodes are; empty: the ensemble's own root */
    char name[CLUSTER_NAME_MAX + 1];
    _Atomic uint64_t held_until_ns; /* of cluster_held_until(); 0: not yet, or not any more */
    _Atomic uint64_t length_ns;     /* the session's length, as it was agreed */
    _Atomic int64_t id;             /* its number; 0 before the first connection */

    _Atomic bool stopping;
    _Atomic bool keeps;     /* the znodes are there: watches and heartbeats have begun */
    _Atomic bool withdraws; /* this member's candidates are to be removed */

    /* the thread's */
    zhandle_t *client;
    bool connected;
    bool beating; /* a heartbeat is under way */
    bool listing; /* candidates are listed in order to withdraw */
    uint64_t beat_sent_ns, beat_next_ns;
    char epoch_path[CLUSTER_ZNODE_ROOM], candidates_path[CLUSTER_ZNODE_ROOM];
    zoo_op_t beat_op;
    zoo_op_result_t beat_result;
    struct cluster_watched watched_members, watched_epoch;

    struct base_spin lock;         /* guards what follows; held for a few instructions */
    struct base_list requests;     /* that wait for the connection, or for the thread */
    int ended;                     /* -ESTALE: the session has ended; else 0 */
    struct cluster_signal members; /* one came or went, or an epoch has begun */
    struct cluster_signal turns;   /* a candidate is gone that a caller of cluster_lead() waits for */
};

/**
 * Begin a session: start its thread, which connects.
 *
 * @param hosts, root, name  copied
 * @return 0; -EINVAL (no list of servers); -ENOTCONN (their names are not known); -ENOMEM; what starting a thread, or
 *         making an eventfd, returns; -ECANCELED. Yields.
 */
base_must_check int cluster_session_open(struct tarn_node *node, const char *hosts, const char *root,
                                         const char *name, uint64_t length_ns,
                                         struct cluster_session **ret_session);

/** End it, and tell the ensemble if it can be reached. No call may be running. Yields. */
void cluster_session_close(struct cluster_session *session);

/** Begin watches and heartbeats; `members` is raised when each watch stands, and at the first heartbeat's answer. */
void cluster_session_keep(struct cluster_session *session);

/**
 * Have requests carried out, in their order, and wait for all outcomes. Those that find no connection wait for one, for the
 * length of a session at most.
 *
 * @return the first one's error. Yields, and cannot be cancelled.
 */
int cluster_session_run(struct cluster_session *session, struct cluster_request *requests, uint32_t count,
                        uint64_t deadline_ns);

/** Wait until a signal is raised: it has another count than *seen. @return 0; -ESTALE; -ETIMEDOUT; -ECANCELED. Yields. */
base_must_check int cluster_session_await(struct cluster_session *session, struct cluster_signal *signal,
                                          uint64_t *seen, uint64_t deadline_ns);

/** What a signal's count is. */
uint64_t cluster_session_seen(struct cluster_session *session, const struct cluster_signal *signal);

/** Have this member's candidates removed, as soon as the ensemble can be reached. */
void cluster_session_withdraw(struct cluster_session *session);

/** Wait until they are. @return as cluster_session_await(). Yields. */
base_must_check int cluster_session_await_withdrawn(struct cluster_session *session, uint64_t deadline_ns);

/** Whether a candidate is this member's: its name, '-', ten digits. */
bool cluster_session_owns(const struct cluster_session *session, const char *candidate);

/** Write the path of a znode below the root. @param name  NULL: of the folder */
void cluster_session_path(const struct cluster_session *session, const char *folder, const char *name,
                          char ret_path[CLUSTER_ZNODE_ROOM]);

#endif
