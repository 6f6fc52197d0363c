/*
 * Stream sockets of tasks: listen, connect, read, write. A connection is in the caller's hands only
 * while a task serves it: as long as nothing has arrived it owns no task, no stack and no buffer,
 * just `struct net_connection`.
 *
 *      accept                     bytes arrive                 ready() returns
 *   ───────────▶  idle (no task) ─────────────▶  served (task) ───────────────▶ idle
 *                     │ peer closes: a task runs ready(), which reads 0          │
 *                     └────────────────────────────────────────── net_close() ◀──┘
 *
 * Addresses are text: "127.0.0.1:11211", "[::1]:11211", "unix:/path/of/socket". A connection
 * belongs to one scheduler and is touched by its tasks only. When NET_UNREAD_BUFFERS_MAX buffers of
 * the scheduler's pool hold bytes that were not read yet, the peer has to wait; bytes that the kernel
 * had received before it stopped may come on top.
 */
#ifndef TASK_NET_H
#define TASK_NET_H

#include "base/buffer.h"
#include "task/sched.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>

struct net_connection;
struct net_listener;

#define NET_UNREAD_BUFFERS_MAX 4
#define NET_ADDRESS_TEXT_MAX   128

struct net_handler {
    /**
     * Serve a connection that has something to read (bytes, the end of the stream or an error):
     * read, answer, and return when net_read_try() says -EAGAIN, to become idle; or net_close().
     * One that returns after a read gave the end or an error is closed; one that leaves something
     * unread is called again. Runs in a task of the connection's scheduler; never twice at once for one
     * connection.
     */
    void (*ready)(struct net_connection *connection);

    /** The connection is gone, its memory too after this; free what `user` holds. Must not yield. */
    void (*closed)(struct net_connection *connection);

    const char *task_name;

    /** The text that a refused peer gets when there are too many connections or open files; NULL: none. */
    const char *refusal;

    /** Whether bytes are received only after net_demand() or in net_await(), one buffer each time: so a server that
     * lets its connections wait keeps none of the scheduler's buffers meanwhile. */
    bool on_demand;
};

/**
 * Limit how many connections of a scheduler are served at once, each in a task; further ones wait until one of
 * them is done. Without this there may be any number. Before the scheduler runs, or from its tasks.
 *
 * @param tasks_max  at least 1
 * @return 0; -ENOMEM
 */
base_must_check int net_limit_tasks(struct task_sched *sched, uint32_t tasks_max);

/* An address in the kernel's form. */
struct net_address {
    struct sockaddr_storage storage;
    socklen_t bytes;
};

/** Read an address from text. A link-local one names its interface: "[fe80::1%eth0]:11211". @return 0; -EINVAL. Any
 * thread. */
base_must_check int net_address_parse(const char *text, struct net_address *ret_address);

/** Write an address as text. Any thread. */
void net_address_format(const struct net_address *address, char *ret_text, size_t room);

/* The users that may connect to a Unix socket. */
struct net_unix_access {
    mode_t mode;
    gid_t group; /* the group that may connect; NET_GROUP_SAME: the process's own */
};

#define NET_GROUP_SAME ((gid_t)-1)

/* The file that the path of a Unix socket named when it was bound. */
struct net_unix_file {
    dev_t device;
    ino_t inode;
};

/* A bound address at which no listener accepts yet: the kernel refuses connections to it. */
struct net_bound {
    int socket;
    struct net_unix_file file;          /* the file of a Unix socket; unused for other addresses */
    char address[NET_ADDRESS_TEXT_MAX]; /* as text, with the port that the kernel chose for port 0 */
};

/**
 * Bind an address.
 *
 * @param node    its log gets a sentence about a failure; NULL: none is written
 * @param access  the users that may connect to a Unix socket; NULL: its owner alone
 * @return 0; -EINVAL, -EADDRINUSE, -EADDRNOTAVAIL, -EACCES and the like. Any thread.
 *
 * A Unix socket's path is replaced only if no process listens there.
 */
base_must_check int net_bind(struct tarn_node *node, const char *address,
                             const struct net_unix_access *access, struct net_bound *ret_bound);

/** Give a bound address back that was not handed to a listener. Any thread. */
void net_unbind(const struct net_bound *bound);

/**
 * Listen, and hand accepted connections to schedulers in turn.
 *
 * @param sched     accepts (any thread may call before it runs; else from its own tasks)
 * @param bound     the address; it belongs to the listener if 0 is returned, else still to the caller
 * @param targets   the schedulers that get the connections
 * @param accepted  called on the target scheduler for each new connection before its first byte,
 *                  may set net_user(); a negative return closes it, without a call of `closed`.
 *                  May be NULL. Must not yield.
 * @param connections_max  the most connections at once. A further one is accepted, gets the handler's `refusal` and is
 *                         closed at once, and so is one for which no descriptor is left: both are counted, and logged
 *                         when refusals begin and when they have ended
 * @return 0; -ENOMEM; -EADDRINUSE (with a sentence in the log)
 */
base_must_check int net_listen_at(struct task_sched *sched, const struct net_bound *bound,
                                  struct task_sched *const *targets, uint32_t target_count,
                                  const struct net_handler *handler,
                                  int (*accepted)(struct net_connection *connection, void *arg), void *arg,
                                  uint32_t connections_max, struct net_listener **ret_listener);

/** net_bind() and net_listen_at(). */
base_must_check int net_listen(struct task_sched *sched, const char *address,
                               struct task_sched *const *targets, uint32_t target_count,
                               const struct net_handler *handler,
                               int (*accepted)(struct net_connection *connection, void *arg), void *arg,
                               uint32_t connections_max, struct net_listener **ret_listener);

/** The address at which the listener accepts, as text, with the port that the kernel chose for port 0. */
void net_listener_address(const struct net_listener *listener, char *ret_text, size_t room);

/**
 * Accept no more; accepted connections stay. To be called before task_sched_stop(), or for good after the
 * scheduler's end. Yields. A task of its scheduler, or any thread when no scheduler runs.
 */
void net_listener_close(struct net_listener *listener);

/**
 * Connect to an address and serve the connection in the calling task (it is not idle; when the
 * handler is NULL it never becomes so).
 *
 * @return 0; -ECONNREFUSED and the like; -ETIMEDOUT; -ECANCELED; -EINVAL; -ENOMEM. Yields. Tasks only.
 */
base_must_check int net_connect(const char *address, const struct net_handler *handler, uint64_t deadline_ns,
                                struct net_connection **ret_connection);

/**
 * Make a connection of a connected stream socket, and serve it in the calling task, as net_connect() does.
 *
 * @param socket  non-blocking; it belongs to the connection if 0 is returned, else still to the caller
 * @return 0; -ENOMEM. Tasks only.
 */
base_must_check int net_adopt(int socket, const struct net_handler *handler,
                              struct net_connection **ret_connection);

/** Make a further descriptor of its socket, for another connection when this one is gone (struct net_handler,
 * `closed`). @return descriptor or negative errno */
int net_duplicate(const struct net_connection *connection);

/**
 * Read at least one byte.
 *
 * @return bytes read, 0 at the end of the stream; -ETIMEDOUT; -ECANCELED; -ECONNRESET and the like
 *
 * Yields while there is nothing. The task that serves the connection.
 */
ssize_t net_read(struct net_connection *connection, void *buffer, size_t room, uint64_t deadline_ns);

/** Read bytes that have arrived. @return as net_read(); -EAGAIN: none has. Never waits. */
ssize_t net_read_try(struct net_connection *connection, void *buffer, size_t room);

/** Wait until net_read_try() has something to return, be it the end. @return 0; -ETIMEDOUT; -ECANCELED. Yields. The
 * task that serves the connection. */
base_must_check int net_await(struct net_connection *connection, uint64_t deadline_ns);

/**
 * Have net_read_try() receive straight into the reader's memory when nothing is unread, which saves a copy and, for much
 * at a time, work of the scheduler's. As long as this is set, the connection is also one `on_demand`: after -EAGAIN,
 * net_demand() has its ready() called when more comes. The task that serves it.
 */
void net_set_direct(struct net_connection *connection, bool direct);

/** Have an `on_demand` connection receive once more, whichever task serves it. Any task or callback of its scheduler. */
void net_demand(struct net_connection *connection);

/** The moment at which the first byte that the last read has returned had arrived. The task that serves
 * the connection. */
uint64_t net_arrived_ns(const struct net_connection *connection);

/**
 * Write everything.
 *
 * @param iov  changed by the call; at most TASK_IOV_MAX
 * @return 0; -EPIPE, -ECONNRESET and the like; -ETIMEDOUT (the connection is then only good for closing);
 * -ECANCELED (likewise)
 *
 * Yields. The memory may be reused on return. The task that serves the connection.
 */
base_must_check int net_writev(struct net_connection *connection, struct iovec *iov, uint32_t iov_count,
                               uint64_t deadline_ns);

/** net_writev() of one buffer. */
base_must_check int net_write(struct net_connection *connection, const void *data, size_t bytes,
                              uint64_t deadline_ns);

/**
 * Let go of a connection of net_connect() that has a handler: from now on it is idle, and ready() serves it.
 * The task that serves it.
 */
void net_release(struct net_connection *connection);

/** Close; `closed` is called when the connection's last request has come back. The task that serves it. */
void net_close(struct net_connection *connection);

/**
 * End a connection, whichever task serves it: unread bytes are dropped, reads return 0, writes fail. That task has still
 * to close it. Any task or callback of its scheduler.
 */
void net_shutdown(struct net_connection *connection);

/**
 * End every connection of this scheduler that a listener accepted: unread bytes are dropped, reads return 0.
 * A task in the middle of a write ends with its deadline. Any task of the scheduler.
 *
 * @return number of those connections, which are not closed yet
 */
uint32_t net_shutdown_all(struct task_sched *sched);

/** Keep a pointer of the caller's with the connection. */
void net_set_user(struct net_connection *connection, void *user);

/** The pointer of net_set_user(); NULL before. */
void *net_user(const struct net_connection *connection);

/** The peer's address as text. */
void net_peer(const struct net_connection *connection, char *ret_text, size_t room);

/** Number of open connections of a scheduler. Any thread. */
uint32_t net_connection_count(const struct task_sched *sched);

/** Number of connections that a scheduler's listeners have refused: too many, or no memory for them. Any thread. */
uint64_t net_refused_count(const struct task_sched *sched);

/** Whether only this machine reaches an address, with or without a port. A text that is no address at all is refused
 * when it is bound or connected to. Any thread. */
bool net_is_loopback(const char *address);

/* ---- paths of Unix sockets, for servers without a scheduler ------------------------------ */

/** The address of a path. @return 0; -EINVAL: empty, or too long. Any thread. */
base_must_check int net_unix_address(const char *path, struct sockaddr_un *ret_address);

/**
 * Bind a socket to a path; the socket of a server that has ended is replaced.
 *
 * @param access    the users that may connect; NULL: the owner alone
 * @param ret_file  for net_unix_remove()
 * @return 0; -EADDRINUSE (a process listens there, or the file is no socket); the kernel's errors. Any thread.
 */
base_must_check int net_unix_bind(int fd, const struct sockaddr_un *address,
                                  const struct net_unix_access *access, struct net_unix_file *ret_file);

/** Whether a path still names the file that it named when it was bound. Any thread. */
bool net_unix_is_same(const char *path, const struct net_unix_file *file);

/** Remove the path, unless it names another process's file by now. Any thread. */
void net_unix_remove(const char *path, const struct net_unix_file *file);

#endif
