/* Listeners: a client waits in one queue, of 64, until its hello has come, and in another until it is accepted. */
#include "fabric/arrivals.h"
#include "fabric/shm/shm.h"
#include "task/net.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define SILENT_MAX 64  /* clients whose hello has not come; the oldest is dropped when there are more */
#define READY_MAX  128 /* clients whose hello has come; further ones are refused */

struct shm_listener {
    struct shm *shm;
    struct fabric_source socket;
    struct sockaddr_un address;
    struct net_unix_file file;
    int spare; /* a descriptor that is closed for a moment, so that a client can be refused when none is left */
    struct base_list silent; /* of struct shm_incoming; the service's lock guards this and the next field */
    uint32_t silent_count;
    struct fabric_arrivals ready;
};

/* A client that wants to connect. */
struct shm_incoming {
    struct tarn_fabric_incoming base; /* its link: place among the silent, or the ready */
    struct shm_listener *listener;    /* the listener while the client is silent */
    struct shm *shm;
    struct fabric_source socket;
    struct shm_greeting greeting;
};

/* ---- those who come ----------------------------------------------------------------------------- */

/* Refuse and free a client that is in no list and not watched. */
static void refuse_peer(struct shm_incoming *incoming, int error)
{
    shm_hello_refuse(incoming->socket.fd, error);
    shm_socket_close(incoming->shm->closer, incoming->socket.fd);
    shm_greeting_drop(incoming->shm->closer, &incoming->greeting);
    base_free(&incoming->shm->node->memory, incoming, sizeof(*incoming));
}

static void leave_silent(struct shm_incoming *incoming)
{
    base_list_remove(&incoming->base.link);
    incoming->listener->silent_count--;
    fabric_service_forget_locked(&incoming->shm->service, &incoming->socket);
}

static void drop_silent(struct shm_incoming *incoming, int error)
{
    leave_silent(incoming);
    refuse_peer(incoming, error);
}

static void log_refusal(struct shm *shm, int error)
{
    const char *reason = error == -EACCES   ? "it is another user's process, or in another pid namespace"
                         : error == -EUSERS ? "too many wait to be accepted"
                                            : "what it said is no hello of this version";
    base_warn_limited(&shm->node->log, &shm->refusals, "peer refused", "fabric=shm reason=\"%s\"", reason);
}

/* Take the hello, or the end, of a client that was silent. */
static void incoming_event(struct fabric_source *source)
{
    struct shm_incoming *incoming = base_container_of(source, struct shm_incoming, socket);
    struct shm_listener *listener = incoming->listener;
    int error = shm_hello_receive(incoming->shm->closer, source->fd, &incoming->greeting);
    if (error == -EAGAIN)
        return;
    leave_silent(incoming);
    incoming->base.data = incoming->greeting.hello.data;
    incoming->base.data_bytes = incoming->greeting.hello.data_bytes;
    if (error == 0 && fabric_arrivals_push(&listener->ready, &incoming->base))
        return;
    if (error == 0)
        error = -EUSERS;
    if (error != -ECONNRESET) /* otherwise the client has gone away */
        log_refusal(incoming->shm, error);
    refuse_peer(incoming, error);
}

static void take_in(struct shm_listener *listener, int fd)
{
    struct shm *shm = listener->shm;
    struct shm_incoming *incoming = base_alloc(&shm->node->memory, sizeof(*incoming));
    if (incoming == NULL) {
        shm_hello_refuse(fd, -ENOMEM);
        shm_socket_close(shm->closer, fd);
        return;
    }
    *incoming = (struct shm_incoming){.listener = listener,
                                      .shm = shm,
                                      .socket = {.fd = fd, .event = incoming_event},
                                      .greeting = {.fds = {-1, -1}}};
    if (fabric_service_watch(&shm->service, &incoming->socket) != 0) {
        refuse_peer(incoming, -ENOMEM);
        return;
    }
    base_list_push_back(&listener->silent, &incoming->base.link);
    if (++listener->silent_count > SILENT_MAX)
        drop_silent(base_container_of(listener->silent.next, struct shm_incoming, base.link), -EUSERS);
}

/* Refuse a client when no descriptor is left to accept it with; otherwise it would wake the thread again and again. */
static void refuse_by_spare(struct shm_listener *listener)
{
    if (listener->spare >= 0)
        (void)close(listener->spare);
    int fd = accept4(listener->socket.fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
        shm_hello_refuse(fd, -ENOMEM);
        shm_socket_close(listener->shm->closer, fd);
    }
    listener->spare = eventfd(0, EFD_CLOEXEC);
}

static void listener_event(struct fabric_source *source)
{
    struct shm_listener *listener = base_container_of(source, struct shm_listener, socket);
    int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        take_in(listener, fd);
    else if (errno == EMFILE || errno == ENFILE)
        refuse_by_spare(listener);
}

/* ---- listening ---------------------------------------------------------------------------------- */

static int open_socket(struct shm_listener *listener)
{
    int error = shm_socket(&listener->socket.fd);
    if (error != 0)
        return error;
    error = net_unix_bind(listener->socket.fd, &listener->address, NULL, &listener->file);
    if (error == 0) {
        error = listen(listener->socket.fd, SOMAXCONN) == 0 ? 0 : -errno;
        if (error == 0)
            error = fabric_service_watch(&listener->shm->service, &listener->socket);
        if (error != 0)
            net_unix_remove(listener->address.sun_path, &listener->file);
    }
    if (error != 0)
        (void)close(listener->socket.fd);
    return error;
}

int shm_listen(void *state, const char *address, void **ret_listener)
{
    struct shm *shm = state;
    struct sockaddr_un where;
    int error = net_unix_address(address, &where);
    if (error != 0)
        return error;
    struct shm_listener *listener = base_alloc(&shm->node->memory, sizeof(*listener));
    if (listener == NULL)
        return -ENOMEM;
    listener->shm = shm;
    listener->address = where;
    listener->socket.event = listener_event;
    base_list_init(&listener->silent);
    fabric_arrivals_init(&listener->ready, READY_MAX);
    listener->spare = eventfd(0, EFD_CLOEXEC);
    error = listener->spare < 0 ? -errno : open_socket(listener);
    if (error != 0) {
        if (listener->spare >= 0)
            (void)close(listener->spare);
        base_free(&shm->node->memory, listener, sizeof(*listener));
        return error;
    }
    *ret_listener = listener;
    return 0;
}

void shm_listener_close(void *state)
{
    struct shm_listener *listener = state;
    struct shm *shm = listener->shm;
    struct base_list *item;
    struct tarn_fabric_incoming *client;
    task_mutex_lock_firmly(&shm->service.lock);
    fabric_service_forget_locked(&shm->service, &listener->socket);
    while ((item = base_list_first(&listener->silent)) != NULL)
        drop_silent(base_container_of(item, struct shm_incoming, base.link), -ECONNREFUSED);
    task_mutex_unlock(&shm->service.lock);
    while ((client = fabric_arrivals_pop(&listener->ready)) != NULL)
        shm_reject(client, -ECONNREFUSED);
    net_unix_remove(listener->address.sun_path, &listener->file);
    shm_socket_close(shm->closer, listener->socket.fd);
    if (listener->spare >= 0)
        (void)close(listener->spare);
    base_free(&shm->node->memory, listener, sizeof(*listener));
}

int shm_listener_wait(void *state, uint64_t deadline_ns, struct tarn_fabric_incoming **ret_incoming)
{
    struct shm_listener *listener = state;
    return fabric_arrivals_wait(&listener->ready, deadline_ns, ret_incoming);
}

void shm_reject(struct tarn_fabric_incoming *incoming, int error)
{
    refuse_peer(base_container_of(incoming, struct shm_incoming, base), error);
}

int shm_incoming_take(struct tarn_fabric_incoming *client, struct shm_greeting *ret_greeting)
{
    struct shm_incoming *incoming = base_container_of(client, struct shm_incoming, base);
    int fd = incoming->socket.fd;
    *ret_greeting = incoming->greeting;
    base_free(&incoming->shm->node->memory, incoming, sizeof(*incoming));
    return fd;
}
