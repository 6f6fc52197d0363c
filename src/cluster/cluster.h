/*
 * cluster: which masters a system has, which of them leads, and a small store of metadata that they share. Masters of the
 * layer above join it; their clients and servers do not need it.
 *
 * The store holds *nodes*: a path, up to CLUSTER_DATA_MAX bytes, and a version: 0 for a new node, one more with each change.
 * A node that is removed and made again begins at 0 again. Changes go by cluster_multi(): several of them, each with a
 * condition, all or none. A leader's changes carry its epoch and are refused once another leads, so a deposed leader
 * changes nothing.
 *
 * Threading: any thread or task. *Yields* means: blocks the calling thread, or lets other tasks run.
 * Errors: negative errno; output arguments stay untouched on failure. Those of every function that reaches the store:
 * -ENOTCONN (the store cannot be reached now: a change may have been made, or may be made later), -ESTALE (the session of
 * this member has ended: leave, and join again), -ECANCELED, -ENOMEM, for `solo` the errors of tarn/depot.h, and for
 * `zookeeper` -EACCES (the ensemble forbids it) and -EUCLEAN (it holds something else below the path of the URL).
 */
#ifndef CLUSTER_CLUSTER_H
#define CLUSTER_CLUSTER_H

#include "base/base.h"
#include <stdbool.h>
#include <stdint.h>
#include <tarn/tarn.h>

#define CLUSTER_NAME_MAX        63                    /* the most bytes of a member's name */
#define CLUSTER_PATH_MAX        63                    /* the most bytes of a path */
#define CLUSTER_MEMBER_DATA_MAX 256                   /* the most bytes that a member tells of itself */
#define CLUSTER_DATA_MAX        (UINT32_C(384) << 10) /* the most bytes of a node */
#define CLUSTER_MULTI_MAX       512                   /* the most changes of a multi */
#define CLUSTER_MULTI_BYTES_MAX (UINT32_C(448) << 10) /* the most bytes of a multi; each change takes … */
#define CLUSTER_CHANGE_BYTES    64                    /* … these, and those of its path and data */
#define CLUSTER_MEMBERS_MAX     64                    /* the most members */

struct cluster;
struct tarn_node;

/* ---- members and their leader ------------------------------------------------------------------- */

struct cluster_options {
    const char *
        name; /* this member's, which no other has: letters, digits, '-', '_', '.' and ':', but not "." or ".." */
    const void *data;    /* what the others learn of it: where it is reached */
    uint32_t data_bytes; /* at most CLUSTER_MEMBER_DATA_MAX */
    uint64_t session_ns; /* after this long without a word of a member the others take it for dead; 0: 10 s */
};

/**
 * Join a cluster.
 *
 * @param url      "solo:PATH", one member, whose metadata is a depot in this file, made with 64 MiB if there is none;
 *                 "zookeeper:HOST:PORT,HOST:PORT/PATH", several members, whose metadata is below this path of a ZooKeeper
 *                 ensemble, made if it is not there. Borrowed until return
 * @param options  with what it points to, borrowed until return
 * @return 0; -EINVAL (a URL of no kind, a bad name, too much data: logged); -EBUSY (the file is open elsewhere, and is not
 *         closed within 5 seconds); -EEXIST (another member has this name, and still has it when two lengths of a session
 *         have passed); -EUSERS (CLUSTER_MEMBERS_MAX are there); -EOPNOTSUPP (not in this build: logged); -EUCLEAN (the
 *         store holds something else); what opening a depot returns. Yields.
 */
base_must_check int cluster_join(struct tarn_node *node, const char *url,
                                 const struct cluster_options *options, struct cluster **ret_cluster);

/** Leave: the others learn at once that this member is gone, or when its session has ended if the store cannot be reached.
 * No call may be running. Yields. */
void cluster_leave(struct cluster *cluster);

/**
 * The moment up to which this member may act as one, by its own clock: two thirds of its session after the store last
 * answered. It learns that its session has ended only when it reaches the store again, so it fences itself at this moment.
 *
 * @return a moment of task_now(); TASK_FOREVER: it never has to. Any thread or task.
 */
uint64_t cluster_held_until(const struct cluster *cluster);

/* What members know of each other. */
struct cluster_member {
    char name[CLUSTER_NAME_MAX + 1];
    uint8_t data[CLUSTER_MEMBER_DATA_MAX];
    uint32_t data_bytes;
    bool leads;
};

/** The members there are, this one among them, in the order of their names. @param ret_members  room for
 * CLUSTER_MEMBERS_MAX @return 0. Yields. */
base_must_check int cluster_members(struct cluster *cluster, struct cluster_member *ret_members,
                                    uint32_t *ret_count);

/**
 * Wait until members have come or gone, or an epoch has begun.
 *
 * @param seen  what the last call has set it to; 0 at first: then it returns at once. Untouched on failure
 * @return 0; -ETIMEDOUT; -ECANCELED. Yields.
 */
base_must_check int cluster_watch(struct cluster *cluster, uint64_t *seen, uint64_t deadline_ns);

/**
 * Wait until this member leads. A new epoch begins, durably: nothing that carries an older one is stored from now on, also if
 * it was this member's. A member leads until it leaves, its session ends, or another one takes over.
 *
 * @param ret_epoch  greater than all epochs before
 * @return 0; -ETIMEDOUT; -ECANCELED; -ESTALE. Yields.
 */
base_must_check int cluster_lead(struct cluster *cluster, uint64_t deadline_ns, uint64_t *ret_epoch);

/* ---- metadata ----------------------------------------------------------------------------------- */

#define CLUSTER_ANY    (-1) /* as a condition: whatever the node's version is, and if there is none */
#define CLUSTER_ABSENT (-2) /* as a condition: there is no such node */

/* One change of a multi. A path is one name or more, with a '/' before each ("/spaces/17"), of CLUSTER_PATH_MAX bytes at most;
 * a name is of printable ASCII, and not "." or "..". A node's parent need not be there, and no node may be both a parent and
 * have data of its own (the caller's to keep: it is not checked). */
struct cluster_change {
    const char *path;
    const void *data; /* NULL: remove the node, which without a condition may be absent */
    uint32_t bytes;   /* of `data`, at most CLUSTER_DATA_MAX */
    int64_t
        if_version; /* the version that the node must have, from 0 on; CLUSTER_ANY; CLUSTER_ABSENT, not for a removal */
};

/**
 * Make several changes, all or none, also if the power fails meanwhile.
 *
 * @param epoch    the leader's, of cluster_lead(); 0: whichever member leads, if any
 * @param changes  at most CLUSTER_MULTI_MAX, each of another path; borrowed until return. None: only the epoch is looked at
 * @return 0: they are durable; nothing was changed: -EPERM (the epoch is over), -EAGAIN (the epoch holds, and a condition does
 *         not), -E2BIG (too many changes or bytes), -EINVAL (a path, a condition, or a path twice), -ENOSPC. Yields.
 */
base_must_check int cluster_multi(struct cluster *cluster, uint64_t epoch,
                                  const struct cluster_change *changes, uint32_t count);

/** Store a node, an empty one if there are no bytes. @return as cluster_multi(). Yields. */
base_must_check int cluster_put(struct cluster *cluster, uint64_t epoch, const char *path, const void *data,
                                uint32_t bytes, int64_t if_version);

/** Remove a node. @return as cluster_multi(). Yields. */
base_must_check int cluster_delete(struct cluster *cluster, uint64_t epoch, const char *path,
                                   int64_t if_version);

/**
 * Read a node: as it is when this member has changed it or has begun an epoch since others did, else it may be as it was
 * some time ago.
 *
 * @param data, room   receive its bytes
 * @param ret_version  NULL: not asked for
 * @return 0; -ENOENT; -ENOBUFS (longer than `room`; only *ret_bytes is set); -EINVAL (no path). Yields.
 */
base_must_check int cluster_get(struct cluster *cluster, const char *path, void *data, uint32_t room,
                                uint32_t *ret_bytes, int64_t *ret_version);

/** A node, as cluster_scan() shows it; all is borrowed until return. May not call the cluster. @return 0: go on; anything
 * else ends the scan, which returns it */
typedef int cluster_visit_function(void *arg, const char *path, const void *data, uint32_t bytes,
                                   int64_t version);

/** Show all nodes below a path, in no order. A node that changes meanwhile is shown as it was or as it is. @param path
 * "/spaces": those whose path begins with "/spaces/" @return 0; what `visit` returns; -EINVAL (no path). Yields. */
base_must_check int cluster_scan(struct cluster *cluster, const char *path, cluster_visit_function *visit,
                                 void *arg);

#endif
