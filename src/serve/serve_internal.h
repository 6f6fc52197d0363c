/* Between the files of this folder. */
#ifndef SERVE_SERVE_INTERNAL_H
#define SERVE_SERVE_INTERNAL_H

#include "memcache/memcache.h"
#include "serve/serve.h"
#include "task/net.h"
#include "task/sched.h"
#include <stdatomic.h>

#define SERVE_INPUT_BYTES  (16 << 10)
#define SERVE_WORK_MAX     1024 /* connections of one scheduler that are at work at once */
#define SERVE_WORK_RESERVE 8    /* their memory is taken at the start */

_Static_assert(SERVE_INPUT_BYTES > MEMCACHE_LINE_BYTES_MAX, "what a session leaves over fits");

/* What a connection needs while it is at work; an idle one has none. */
struct serve_work {
    char input[SERVE_INPUT_BYTES];
    char output[MEMCACHE_OUTPUT_BYTES];
};

/* A scheduler of the server, and what its connections share. */
struct serve_lane {
    struct serve *serve;
    struct task_sched *sched;
    struct base_pool work;           /* of struct serve_work */
    struct task_semaphore work_left; /* of SERVE_WORK_MAX */
    struct task_group keeper;        /* one task, from the thread's beginning to its end */
};

struct serve {
    struct tarn_node *node;
    struct tarn_depot *depot;
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
    uint32_t listener_count;
    _Atomic uint32_t listeners_open;
    _Atomic uint64_t connections_total;
    struct task_shared_future stop; /* what the keepers wait for */
};

/** What net.h calls for the server's connections. */
extern const struct net_handler serve_handler;

/** A connection was accepted. @param arg  the server @return 0; -ENOMEM. Does not yield. */
int serve_accepted(struct net_connection *net, void *arg);

#endif
