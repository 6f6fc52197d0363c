/* Between the files of this folder. */
#ifndef SERVE_SERVE_INTERNAL_H
#define SERVE_SERVE_INTERNAL_H

#include "memcache/memcache.h"
#include "serve/serve.h"
#include "task/net.h"
#include "task/sched.h"
#include <stdatomic.h>

#define SERVE_INPUT_BYTES (32 << 10)
#define SERVE_WORK_MIN    16   /* connections of one scheduler that are at work at once: as many as … */
#define SERVE_WORK_MAX    1024 /* … a share of the memory is enough for */
#define SERVE_WORK_SHARE  8    /* which is one of so many, and is taken at the start */

_Static_assert(SERVE_INPUT_BYTES > MEMCACHE_LINE_BYTES_MAX, "what a session leaves over fits");

/* What a connection needs while it is at work; an idle one has none. */
struct serve_work {
    char input[SERVE_INPUT_BYTES];
    struct memcache_work memcache;
};

/* A scheduler of the server, and what its connections share. */
struct serve_lane {
    struct serve *serve;
    struct task_sched *sched;
    struct base_pool work;    /* of struct serve_work */
    struct task_group keeper; /* one task, from the thread's beginning to its end */
    struct base_spin connections_lock;
    struct base_list connections; /* by rising number */
    uint64_t connections_number;  /* the last */
};

/* What is told of a connection. */
struct serve_connection_info {
    uint64_t number; /* of its lane */
    uint64_t at_ns;  /* when something came last */
    bool is_at_work;
    char peer[NET_ADDRESS_TEXT_MAX];
};

struct serve {
    struct tarn_node *node;
    struct tarn_depot *depot;
    struct tarn_kv *kv; /* the same */
    const struct base_settings *settings;
    const struct serve_options *options;
    const struct serve_thread_hooks *hooks;
    uint64_t pid;
    struct memcache_server memcache;
    struct serve_lane *lanes;
    uint32_t lane_count; /* with a scheduler */
    uint32_t lane_room;
    /* NULL once closed, by the thread that accepts */
    struct net_listener *listeners[BASE_SETTING_LIST_MAX + 1];
    char addresses[BASE_SETTING_LIST_MAX + 1][NET_ADDRESS_TEXT_MAX]; /* of the listeners */
    uint32_t listener_count;
    _Atomic uint32_t listeners_open;
    _Atomic uint64_t connections_total;
    _Atomic uint64_t yields;        /* of connections that have more to do */
    struct task_shared_future stop; /* what the keepers wait for */
};

/**
 * What is known of a lane's connections, in the order of their numbers.
 *
 * @param after  the numbers that are left out: it and all before
 * @return how many there were, up to `room`. Any thread.
 */
uint32_t serve_list_connections(struct serve_lane *lane, uint64_t after,
                                struct serve_connection_info *ret_infos, uint32_t room);

/** What net.h calls for the server's connections. */
extern const struct net_handler serve_handler;

/** A connection was accepted. @param arg  the server @return 0; -ENOMEM. Does not yield. */
int serve_accepted(struct net_connection *net, void *arg);

#endif
