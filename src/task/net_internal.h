/* What net.c, net_listener.c and net_address.c share. */
#ifndef TASK_NET_INTERNAL_H
#define TASK_NET_INTERNAL_H

#include "task/engine.h"
#include "task/net.h"
#include "task/sched_internal.h"
#include <sys/socket.h>

/* The pause before the next attempt where memory, stacks or descriptors ran out. */
#define NET_RETRY_NS 10000000

/* The sockets of a scheduler. */
struct net_sched {
    struct task_sched *sched;
    struct base_list connections; /* of struct net_connection */
    struct base_list listeners;   /* of struct net_listener: those that accept on this scheduler */
    uint32_t serving;             /* number of tasks that serve connections now */
    uint32_t serving_max;         /* the most tasks that may serve connections */
    struct base_list waiting;     /* connections that have something to read and found no task */
    struct base_list paused;      /* listeners that found no descriptor or no memory */
    uint64_t retry_ns;            /* moment of the next attempt for `waiting` and `paused` */
    _Atomic uint32_t connection_count;
    _Atomic uint64_t
        refused; /* connections refused since the start: too many, or no memory or descriptor for them */
    int spare; /* a descriptor that is closed for a moment, so that a connection can be refused when none is left; -1: none */
    struct base_log_limit complaints;
};

struct net_connection {
    struct base_list link;    /* net_sched.connections */
    struct base_list waiting; /* net_sched.waiting */
    struct net_sched *net;    /* the sockets of its scheduler; NULL on its way there */
    const struct net_handler *handler;
    struct net_listener *listener; /* the listener that accepted it; NULL: made by net_connect() */
    void *user;
    struct task_io receive;
    struct base_buffer_list unread;
    uint32_t unread_count; /* number of buffers in `unread` */
    uint64_t unread_ns;    /* moment at which the first unread byte arrived */
    uint64_t arrived_ns;   /* moment at which the first byte of the last read had arrived */
    int socket;
    int error;      /* the receive's error, which reads return when nothing is left */
    bool receiving; /* `receive` is posted */
    bool pausing;   /* `receive` was asked to end, because much is unread */
    bool demanded;  /* an `on_demand` or direct connection receives once more */
    bool direct;    /* net_set_direct() */
    bool flooding;  /* `receive` was paused, and the socket was not found empty since */
    bool ended;     /* the peer will send no more, or its bytes are dropped */
    bool end_told;  /* a read has returned the end, or the error */
    bool broken;    /* part of a write may be lost */
    bool served;    /* a task serves the connection */
    bool looping;   /* the task that serves it is one of the pool's loop, not a caller of net_connect() */
    bool closed;    /* net_close() was called */
    struct task_wait *reader; /* the task that waits in net_read(), or NULL */
    struct task_message arrival;
};

struct net_listener {
    struct base_list link;   /* net_sched.listeners */
    struct base_list paused; /* net_sched.paused */
    struct net_sched *net;   /* NULL: its scheduler is gone */
    struct tarn_node *node;
    const struct net_handler *handler;
    int (*accepted)(struct net_connection *connection, void *arg);
    void *arg;
    struct task_io accept;
    struct task_wait *closer; /* the task that waits in net_listener_close(), or NULL */
    bool accepting;           /* `accept` is posted */
    _Atomic bool closing;
    _Atomic uint32_t references; /* one while it is open, one for each connection */
    uint32_t connections_max;
    struct base_log_spell refusals;
    struct net_bound bound;
    uint32_t target_next;
    uint32_t target_count;
    struct task_sched *targets[];
};

/* One request that a task waits for, on its stack. */
struct net_call {
    struct task_io io;
    struct task_wait wait;
    bool finished;
};

/** The path of a Unix address; NULL if it is another kind. */
const char *net_address_path(const struct net_address *address);

/** A socket for an address: non-blocking, close-on-exec, without Nagle's delay. @return descriptor or
 * negative errno */
base_must_check int net_address_socket(const struct net_address *address);

/** The sockets of a scheduler, made at first use. Its own thread, or any before it runs. @return NULL: no
 * memory */
struct net_sched *net_sched_get(struct task_sched *sched);

/** Start an accepted connection on its scheduler, or drop it. No other code knows it yet. */
void net_connection_adopt(struct task_sched *sched, struct net_connection *connection);

/** Close and free a connection that is not on any scheduler. */
void net_connection_drop(struct net_connection *connection);

/** Drop a reference to a listener; the last one frees it. Any thread. */
void net_listener_put(struct net_listener *listener);

/** Have a paused listener accept again. */
void net_listener_resume(struct net_listener *listener);

/** Give up a listener whose scheduler and engine are closed: its requests will never be done. */
void net_listener_abandon(struct net_listener *listener);

/**
 * Post a request and wait until it is done; at its deadline, or when the task is cancelled, cancel it
 * and wait for that. Yields.
 *
 * @return the request's result; -ETIMEDOUT or -ECANCELED if that ended it
 */
int net_call_run(struct net_call *call, uint64_t deadline_ns);

#endif
