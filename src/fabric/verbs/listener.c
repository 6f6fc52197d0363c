/* Listeners: a client waits, as a connection without queue pair or memory, until it is accepted or rejected. */
#include "fabric/arrivals.h"
#include "fabric/verbs/verbs.h"
#include <errno.h>
#include <string.h>

#define READY_MAX 128 /* clients that wait; further ones are refused */
#define PARTS_MAX 64  /* first parts of hellos that are kept; the oldest is dropped when there are more */

/* The first part of a hello, which its nonce identifies. */
struct part {
    uint64_t nonce;
    uint32_t bytes;
    uint8_t data[VERBS_REQUEST_DATA];
};

struct verbs_listener {
    enum verbs_what what;
    struct verbs *verbs;
    struct rdma_cm_id *id;
    struct fabric_arrivals ready; /* of struct verbs_connection */
    struct part parts[PARTS_MAX]; /* touched by the service's thread alone */
    uint32_t parts_next;
};

int verbs_address_read(const char *text, struct net_address *ret_address)
{
    const int error = net_address_parse(text, ret_address);
    return error == 0 && ret_address->storage.ss_family == AF_UNIX ? -EINVAL : error;
}

int verbs_check_device(struct verbs *verbs, const struct rdma_cm_id *id)
{
    const char *ours = ibv_get_device_name(verbs->device.context->device);
    const char *theirs = id->verbs == NULL ? "" : ibv_get_device_name(id->verbs->device);
    if (id->verbs == NULL || (strcmp(ours, theirs) == 0 && id->port_num == verbs->device.port))
        return 0; /* an id without a device listens on all devices: each client's device is checked later */
    base_warn_limited(&verbs->node->log, &verbs->refusals, "address is of another RDMA device",
                      "device=%s port=%u leads_to=%s port_there=%u", ours, verbs->device.port, theirs,
                      id->port_num);
    return -ENODEV;
}

/* ---- those who come ----------------------------------------------------------------------------- */

static void refuse_peer(struct rdma_cm_id *id, enum verbs_hello_kind kind)
{
    const struct verbs_hello hello = {.kind = kind};
    uint8_t bytes[VERBS_WELCOME_BYTES];
    const uint8_t count = verbs_hello_save(&hello, bytes);
    (void)rdma_reject(id, bytes, count);
}

static void keep_part(struct verbs_listener *listener, const struct verbs_hello *hello)
{
    struct part *part = &listener->parts[listener->parts_next++ % PARTS_MAX];
    part->nonce = hello->nonce;
    part->bytes = hello->data_bytes;
    memcpy(part->data, hello->data, hello->data_bytes);
}

/* Add the first part of a hello that came earlier. @return whether it was there */
static bool join_parts(struct verbs_listener *listener, struct verbs_hello *hello)
{
    for (uint32_t i = 0; i < PARTS_MAX; i++) {
        struct part *part = &listener->parts[i];
        if (part->bytes != VERBS_REQUEST_DATA || part->nonce != hello->nonce)
            continue;
        memmove(hello->data + VERBS_REQUEST_DATA, hello->data, hello->data_bytes);
        memcpy(hello->data, part->data, VERBS_REQUEST_DATA);
        hello->data_bytes += VERBS_REQUEST_DATA;
        part->bytes = 0;
        return true;
    }
    return false;
}

/* @return 0: the client waits to be accepted; otherwise the kind of hello that refuses it */
static enum verbs_hello_kind admit_client(struct verbs_listener *listener, const struct rdma_cm_event *event)
{
    struct verbs *verbs = listener->verbs;
    struct verbs_hello hello;
    if (verbs_hello_load(event->param.conn.private_data, event->param.conn.private_data_len, &hello) != 0 ||
        hello.kind == VERBS_WELCOME || hello.kind >= VERBS_REFUSAL) {
        base_warn_limited(&verbs->node->log, &verbs->refusals, "peer refused",
                          "fabric=verbs reason=\"what it said is no hello of this version\"");
        return VERBS_REFUSAL;
    }
    if (hello.kind == VERBS_PART) {
        keep_part(listener, &hello);
        return VERBS_GO_ON;
    }
    if (verbs_check_device(verbs, event->id) != 0 ||
        (hello.kind == VERBS_REST && !join_parts(listener, &hello)))
        return VERBS_REFUSAL;
    struct verbs_connection *incoming = verbs_connection_make(verbs);
    if (incoming == NULL)
        return VERBS_OUT_OF_MEMORY;
    incoming->hello = hello;
    incoming->id = event->id;
    event->id->context = incoming;
    incoming->incoming.data = incoming->hello.data;
    incoming->incoming.data_bytes = hello.data_bytes;
    if (fabric_arrivals_push(&listener->ready, &incoming->incoming))
        return 0;
    incoming->id = NULL;
    verbs_connection_free(incoming);
    return VERBS_REFUSAL;
}

void verbs_listener_event(struct rdma_cm_event *event)
{
    if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST || event->listen_id == NULL)
        return;
    struct verbs_listener *listener = event->listen_id->context;
    const enum verbs_hello_kind why = admit_client(listener, event);
    if (why == 0)
        return;
    refuse_peer(event->id, why);
    (void)rdma_destroy_id(event->id); /* safe here, because this event belongs to the listener's id */
}

/* ---- listening ---------------------------------------------------------------------------------- */

static int begin_listening(struct verbs_listener *listener, struct net_address *address)
{
    if (rdma_create_id(listener->verbs->events, &listener->id, listener, RDMA_PS_TCP) != 0)
        return -errno;
    int error = rdma_bind_addr(listener->id, (struct sockaddr *)&address->storage) == 0 ? 0 : -errno;
    if (error == 0)
        error = verbs_check_device(listener->verbs, listener->id);
    if (error == 0 && rdma_listen(listener->id, READY_MAX) != 0)
        error = -errno;
    if (error != 0)
        (void)rdma_destroy_id(listener->id);
    return error;
}

int verbs_listen(void *state, const char *address, void **ret_listener)
{
    struct verbs *verbs = state;
    struct net_address where;
    int error = verbs_address_read(address, &where);
    if (error != 0)
        return error;
    struct verbs_listener *listener = base_alloc(&verbs->node->memory, sizeof(*listener));
    if (listener == NULL)
        return -ENOMEM;
    listener->what = VERBS_LISTENER;
    listener->verbs = verbs;
    fabric_arrivals_init(&listener->ready, READY_MAX);
    error = begin_listening(listener, &where);
    if (error != 0) {
        base_free(&verbs->node->memory, listener, sizeof(*listener));
        return error;
    }
    *ret_listener = listener;
    return 0;
}

void verbs_listener_close(void *state)
{
    struct verbs_listener *listener = state;
    struct tarn_fabric_incoming *client;
    (void)rdma_destroy_id(listener->id); /* no client comes from now on */
    while ((client = fabric_arrivals_pop(&listener->ready)) != NULL)
        verbs_reject(client, -ECONNREFUSED);
    base_free(&listener->verbs->node->memory, listener, sizeof(*listener));
}

int verbs_listener_wait(void *state, uint64_t deadline_ns, struct tarn_fabric_incoming **ret_incoming)
{
    struct verbs_listener *listener = state;
    return fabric_arrivals_wait(&listener->ready, deadline_ns, ret_incoming);
}

void verbs_reject(struct tarn_fabric_incoming *client, int error)
{
    struct verbs_connection *incoming = base_container_of(client, struct verbs_connection, incoming);
    refuse_peer(incoming->id, error == -ENOMEM ? VERBS_OUT_OF_MEMORY : VERBS_REFUSAL);
    verbs_connection_free(incoming);
}
