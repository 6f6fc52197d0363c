/*
 * Listeners: accept on one scheduler and deal the connections to several. The listener is shared by its
 * connections, which may outlive its closing: each holds a reference.
 */
#include "task/net_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define REFUSED_AT_ONCE_MAX 256 /* connections refused in one go, before other requests have their turn */

static size_t listener_bytes(uint32_t target_count)
{
    return sizeof(struct net_listener) + target_count * sizeof(struct task_sched *);
}

void net_listener_put(struct net_listener *listener)
{
    /* acquire and release: all that others did with the listener is over before it is freed */
    if (atomic_fetch_sub_explicit(&listener->references, 1, memory_order_acq_rel) == 1)
        base_free(&listener->node->memory, listener, listener_bytes(listener->target_count));
}

/* ---- accepting --------------------------------------------------------------------------------- */

static void post_accept(struct net_listener *listener)
{
    listener->accepting = true;
    task_io_post(listener->net->sched, &listener->accept);
}

void net_listener_resume(struct net_listener *listener)
{
    base_list_remove(&listener->paused);
    post_accept(listener);
}

static void run_arrival(struct task_message *message)
{
    net_connection_adopt(task_thread_sched(), base_container_of(message, struct net_connection, arrival));
}

static void refuse_socket(struct net_listener *listener, int socket, const char *reason, const char *remedy)
{
    const char *refusal = listener->handler->refusal;
    struct base_log *node_log = &listener->node->log;
    if (refusal != NULL)
        (void)send(socket, refusal, strlen(refusal), MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)close(socket);
    atomic_fetch_add_explicit(&listener->net->refused, 1, memory_order_relaxed);
    if (base_log_spell_note(node_log, &listener->refusals))
        base_warn(node_log, "connections are refused",
                  "listener=%s reason=\"%s\" connections=%" PRIu32 " remedy=\"%s\"", listener->bound.address,
                  reason, atomic_load_explicit(&listener->references, memory_order_relaxed) - 1, remedy);
}

/* @param at_once  whether no other connection will come */
static void tell_end_of_refusals(struct net_listener *listener, bool at_once)
{
    uint64_t refused, lasted_ns;
    if (base_log_spell_ended(&listener->node->log, &listener->refusals, at_once, &refused, &lasted_ns))
        base_info(&listener->node->log,
                  at_once ? "connections were refused until the end" : "connections are accepted again",
                  "listener=%s refused=%" PRIu64 " seconds=%" PRIu64, listener->bound.address, refused,
                  lasted_ns / BASE_NS_PER_SECOND);
}

static void keep_spare(struct net_sched *net)
{
    if (net->spare < 0)
        net->spare = eventfd(0, EFD_CLOEXEC);
}

/* Refuse waiting connections one by one with the spare descriptor, because no other one is left. */
static void refuse_waiting(struct net_listener *listener)
{
    struct net_sched *net = listener->net;
    int socket = 0;
    for (int i = 0; i < REFUSED_AT_ONCE_MAX && socket >= 0 && net->spare >= 0; i++) {
        (void)close(net->spare);
        net->spare = -1;
        socket = accept4(listener->bound.socket, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (socket >= 0)
            refuse_socket(listener, socket, "too many files are open",
                          "raise the limit of open files: ulimit -n, or LimitNOFILE= of the unit");
        keep_spare(net);
    }
}

/* Give a new connection to the scheduler whose turn it is. */
static void deal_connection(struct net_listener *listener, int socket)
{
    uint32_t connections = atomic_load_explicit(&listener->references, memory_order_relaxed) - 1;
    if (connections >= listener->connections_max) {
        refuse_socket(listener, socket, "there are as many as may be",
                      "allow more: --max-connections of the server");
        return;
    }
    struct net_connection *connection = base_alloc(&listener->node->memory, sizeof(*connection));
    if (connection == NULL) {
        refuse_socket(listener, socket, "there is no memory for it",
                      "raise the memory cap: --memory of the server");
        return;
    }
    tell_end_of_refusals(listener, false);
    connection->socket = socket;
    connection->handler = listener->handler;
    connection->listener = listener;
    connection->arrival.run = run_arrival;
    atomic_fetch_add_explicit(&listener->references, 1, memory_order_relaxed);
    struct task_sched *target = listener->targets[listener->target_next];
    listener->target_next = (listener->target_next + 1) % listener->target_count;
    if (target == listener->net->sched)
        net_connection_adopt(target, connection);
    else if (!task_sched_post(target, &connection->arrival))
        net_connection_drop(connection);
}

/* Accept again a little later: there are no descriptors or no memory now, or the network has a problem. */
static void pause_accepting(struct net_listener *listener, int error)
{
    struct net_sched *net = listener->net;
    keep_spare(net);
    if ((error == -EMFILE || error == -ENFILE) && net->spare >= 0)
        refuse_waiting(listener);
    else
        base_warn_limited(&listener->node->log, &net->complaints, "cannot accept connections for now",
                          "listener=%s error=\"%s\"", listener->bound.address, strerrordesc_np(-error));
    if (base_list_empty(&net->waiting) && base_list_empty(&net->paused))
        net->retry_ns = task_now() + NET_RETRY_NS;
    base_list_push_back(&net->paused, &listener->paused);
}

/* Close the socket and drop the reference; its connections may still hold others. */
static void end_listener(struct net_listener *listener)
{
    tell_end_of_refusals(listener, true);
    if (listener->net != NULL)
        base_list_remove(&listener->link);
    (void)close(listener->bound.socket);
    net_listener_put(listener);
}

static void accept_done(struct task_io *io)
{
    struct net_listener *listener = io->arg;
    listener->accepting = io->more;
    if (io->result >= 0)
        deal_connection(listener, io->result);
    if (io->more)
        return;
    if (!atomic_load_explicit(&listener->closing, memory_order_relaxed))
        pause_accepting(listener, io->result);
    else if (listener->closer != NULL)
        (void)task_wait_wake(listener->closer, 0);
    else
        end_listener(listener);
}

/* ---- opening ------------------------------------------------------------------------------------ */

static int bind_inet(int fd, const struct net_address *address)
{
    const int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) != 0)
        return -errno;
    if (address->storage.ss_family == AF_INET6 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0)
        return -errno;
    return bind(fd, (const struct sockaddr *)&address->storage, address->bytes) == 0 ? 0 : -errno;
}

static void remove_path(const struct net_bound *bound)
{
    struct net_address address;
    if (net_address_parse(bound->address, &address) == 0 && net_address_path(&address) != NULL)
        net_unix_remove(net_address_path(&address), &bound->file);
}

/* @return 0 or negative errno; the port is the one that the kernel chose */
static int bind_address(const struct net_address *address, const struct net_unix_access *access,
                        struct net_bound *bound)
{
    struct net_address found = *address;
    bool local = net_address_path(address) != NULL;
    bound->socket = net_address_socket(address);
    if (bound->socket < 0)
        return bound->socket;
    int error = local ? net_unix_bind(bound->socket, (const struct sockaddr_un *)&address->storage, access,
                                      &bound->file)
                      : bind_inet(bound->socket, address);
    if (error == 0 && !local &&
        getsockname(bound->socket, (struct sockaddr *)&found.storage, &found.bytes) != 0)
        error = -errno;
    if (error != 0) {
        (void)close(bound->socket);
        return error;
    }
    net_address_format(&found, bound->address, sizeof(bound->address));
    return 0;
}

static const char *remedy_of(const struct net_address *address, int error)
{
    bool local = net_address_path(address) != NULL;
    switch (error) {
    case -EADDRINUSE:
        return local ? "another process listens there, or it is no socket: end that, or name another path"
                     : "another process listens there: end it (ss -ltnp shows which), or choose another port";
    case -EADDRNOTAVAIL:
        return "this machine has no such address: `ip address` shows those that it has";
    case -EACCES:
    case -EPERM:
        return local ? "the mode of its folder does not allow it: choose a folder of this user"
                     : "ports below 1024 need a right (CAP_NET_BIND_SERVICE): choose a higher one";
    case -ENOENT:
        return "there is no such folder: make it, or name another path";
    case -EAFNOSUPPORT:
        return "this machine has no IPv6: leave that address out";
    case -EMFILE:
        return "too many files are open: raise the limit (ulimit -n, LimitNOFILE= of the unit)";
    default:
        return "choose another address";
    }
}

/* Log why no listener can be had at an address. */
static int log_failure(struct tarn_node *node, const char *text, const struct net_address *address, int error)
{
    char quoted[NET_ADDRESS_TEXT_MAX];
    if (node == NULL)
        return error;
    (void)base_log_quote(quoted, sizeof(quoted), text, strlen(text));
    if (address == NULL)
        base_error(&node->log, "cannot listen",
                   "address=%s reason=\"not an address\" remedy=\"use 127.0.0.1:11211, [::1]:11211 or "
                   "unix:/path/of/socket\"",
                   quoted);
    else
        base_error(&node->log, "cannot listen", "address=%s reason=\"%s\" remedy=\"%s\"", quoted,
                   strerrordesc_np(-error), remedy_of(address, error));
    return error;
}

int net_bind(struct tarn_node *node, const char *address, const struct net_unix_access *access,
             struct net_bound *ret_bound)
{
    struct net_address parsed;
    int error = net_address_parse(address, &parsed);
    if (error != 0)
        return log_failure(node, address, NULL, error);
    struct net_bound bound = {.socket = -1};
    error = bind_address(&parsed, access, &bound);
    if (error != 0)
        return log_failure(node, address, &parsed, error);
    *ret_bound = bound;
    return 0;
}

void net_unbind(const struct net_bound *bound)
{
    remove_path(bound);
    (void)close(bound->socket);
}

/* @return 0; -EADDRINUSE: another process was quicker, or took the path of a socket at which no process listened yet */
static int start_listening(const struct net_bound *bound, const struct net_address *address)
{
    const char *path = net_address_path(address);
    if (path != NULL && !net_unix_is_same(path, &bound->file))
        return -EADDRINUSE;
    return listen(bound->socket, SOMAXCONN) == 0 ? 0 : -errno;
}

int net_listen_at(struct task_sched *sched, const struct net_bound *bound, struct task_sched *const *targets,
                  uint32_t target_count, const struct net_handler *handler,
                  int (*accepted)(struct net_connection *connection, void *arg), void *arg,
                  uint32_t connections_max, struct net_listener **ret_listener)
{
    base_assert(target_count > 0);
    struct tarn_node *node = sched->node;
    struct net_sched *net = net_sched_get(sched);
    struct net_listener *listener =
        net == NULL ? NULL : base_alloc(&node->memory, listener_bytes(target_count));
    if (listener == NULL)
        return -ENOMEM;
    struct net_address address;
    base_assert(net_address_parse(bound->address, &address) == 0); /* the text was made from an address */
    int error = start_listening(bound, &address);
    if (error != 0) {
        base_free(&node->memory, listener, listener_bytes(target_count));
        return log_failure(node, bound->address, &address, error);
    }
    listener->bound = *bound;
    listener->net = net;
    listener->node = node;
    listener->handler = handler;
    listener->accepted = accepted;
    listener->arg = arg;
    listener->accept =
        (struct task_io){.op = TASK_IO_ACCEPT, .socket = bound->socket, .done = accept_done, .arg = listener};
    atomic_init(&listener->references, 1);
    listener->connections_max = connections_max;
    listener->target_count = target_count;
    memcpy(listener->targets, targets, target_count * sizeof(struct task_sched *));
    base_list_push_back(&net->listeners, &listener->link);
    keep_spare(net);
    post_accept(listener);
    *ret_listener = listener;
    return 0;
}

int net_listen(struct task_sched *sched, const char *address, struct task_sched *const *targets,
               uint32_t target_count, const struct net_handler *handler,
               int (*accepted)(struct net_connection *connection, void *arg), void *arg,
               uint32_t connections_max, struct net_listener **ret_listener)
{
    struct net_bound bound;
    int error = net_bind(sched->node, address, NULL, &bound);
    if (error != 0)
        return error;
    error = net_listen_at(sched, &bound, targets, target_count, handler, accepted, arg, connections_max,
                          ret_listener);
    if (error != 0)
        net_unbind(&bound);
    return error;
}

void net_listener_address(const struct net_listener *listener, char *ret_text, size_t room)
{
    (void)snprintf(ret_text, room, "%s", listener->bound.address);
}

/* ---- closing ------------------------------------------------------------------------------------ */

void net_listener_close(struct net_listener *listener)
{
    atomic_store_explicit(&listener->closing, true, memory_order_relaxed);
    remove_path(&listener->bound);
    struct net_sched *net = listener->net;
    if (net == NULL) {
        end_listener(listener);
        return;
    }
    if (base_list_is_linked(&listener->paused))
        base_list_remove(&listener->paused);
    if (!listener->accepting) {
        end_listener(listener);
        return;
    }
    if (task_sched_self() == NULL) {
        /* The scheduler does not run: its next step, to run or to be closed, ends the listener. */
        (void)shutdown(listener->bound.socket, SHUT_RDWR);
        return;
    }
    base_assert(task_sched_self() == net->sched);
    struct task_wait wait;
    task_wait_init(&wait);
    listener->closer = &wait;
    task_io_cancel(net->sched, &listener->accept);
    (void)task_wait_park_firmly(&wait);
    end_listener(listener);
}

void net_listener_abandon(struct net_listener *listener)
{
    base_list_remove(&listener->link);
    if (base_list_is_linked(&listener->paused))
        base_list_remove(&listener->paused);
    listener->net = NULL;
    listener->accepting = false;
    if (atomic_load_explicit(&listener->closing, memory_order_relaxed))
        end_listener(listener);
}
