/*
 * The events of the connection manager and of the device, sleepers' completions, and the clock of heartbeats: all handled
 * by the fabric's service. An object cannot be freed before its events are acknowledged, because its destruction waits for
 * that.
 */
#include "fabric/verbs/verbs.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/timerfd.h>
#include <unistd.h>

static void take_manager_event(struct fabric_source *source)
{
    const struct verbs *verbs = base_container_of(source, struct verbs, manager);
    struct rdma_cm_event *event;
    if (rdma_get_cm_event(verbs->events, &event) != 0)
        return;
    enum verbs_what *what = (event->listen_id != NULL ? event->listen_id->context : event->id->context);
    if (*what == VERBS_LISTENER)
        verbs_listener_event(event);
    else
        verbs_connection_event((struct verbs_connection *)(void *)what, event);
    (void)rdma_ack_cm_event(event);
}

/* Ring the bell of a connection whose completion queue has an event. */
static void take_completion_event(struct fabric_source *source)
{
    const struct verbs *verbs = base_container_of(source, struct verbs, sleepers);
    struct ibv_cq *cq;
    void *context;
    if (ibv_get_cq_event(verbs->completion, &cq, &context) != 0)
        return;
    struct verbs_connection *connection = context;
    fabric_bell_ring(&connection->bell);
    ibv_ack_cq_events(cq, 1);
}

static void lose_all(struct verbs *verbs, const char *doing)
{
    base_spin_lock(&verbs->lock);
    base_list_for_each(item, &verbs->connections)
        verbs_connection_lose(base_container_of(item, struct verbs_connection, link), -ECONNRESET, doing);
    base_spin_unlock(&verbs->lock);
}

static void handle_queue_pair_event(const struct ibv_async_event *event)
{
    struct verbs_connection *connection = event->element.qp->qp_context;
    if (event->event_type == IBV_EVENT_COMM_EST)
        (void)rdma_notify(connection->id, IBV_EVENT_COMM_EST);
    else
        verbs_connection_lose(connection, -ECONNRESET, ibv_event_type_str(event->event_type));
}

static void take_device_event(struct fabric_source *source)
{
    struct verbs *verbs = base_container_of(source, struct verbs, device_events);
    struct ibv_async_event event;
    struct base_log *node_log = &verbs->node->log;
    const char *name = ibv_get_device_name(verbs->device.context->device);
    if (ibv_get_async_event(verbs->device.context, &event) != 0)
        return;
    switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
        handle_queue_pair_event(&event);
        break;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
        if (event.element.port_num != verbs->device.port)
            break;
        base_warn(node_log, "RDMA port", "device=%s port=%d event=\"%s\"", name, event.element.port_num,
                  ibv_event_type_str(event.event_type));
        if (event.event_type == IBV_EVENT_PORT_ERR)
            lose_all(verbs, "port down");
        break;
    case IBV_EVENT_DEVICE_FATAL:
        base_error(node_log, "RDMA device gone", "device=%s event=\"%s\"", name,
                   ibv_event_type_str(event.event_type));
        lose_all(verbs, "device gone");
        break;
    default:
        base_debug(node_log, "RDMA device", "device=%s event=\"%s\"", name,
                   ibv_event_type_str(event.event_type));
    }
    ibv_ack_async_event(&event);
}

/* ---- the clock ---------------------------------------------------------------------------------- */

/* Have the clock tick once. */
static void set_clock(const struct verbs *verbs)
{
    const uint64_t tick_ns = verbs->options.heartbeat_ns / FABRIC_BEATS_PROBE;
    const struct itimerspec once = {.it_value = {.tv_sec = (time_t)(tick_ns / BASE_NS_PER_SECOND),
                                                 .tv_nsec = (long)(tick_ns % BASE_NS_PER_SECOND)}};
    int error = timerfd_settime(verbs->clock.fd, 0, &once, NULL);
    base_assert(error == 0);
}

static void take_tick(struct fabric_source *source)
{
    struct verbs *verbs = base_container_of(source, struct verbs, clock);
    uint64_t ticks;
    if (read(source->fd, &ticks, sizeof(ticks)) < 0)
        return;
    base_spin_lock(&verbs->lock);
    base_list_for_each(item, &verbs->connections)
        verbs_connection_beat(base_container_of(item, struct verbs_connection, link));
    if (!base_list_empty(&verbs->connections))
        set_clock(verbs);
    base_spin_unlock(&verbs->lock);
}

void verbs_service_add(struct verbs_connection *connection)
{
    struct verbs *verbs = connection->verbs;
    base_spin_lock(&verbs->lock);
    if (base_list_empty(&verbs->connections))
        set_clock(verbs);
    base_list_push_back(&verbs->connections, &connection->link);
    base_spin_unlock(&verbs->lock);
}

void verbs_service_remove(struct verbs_connection *connection)
{
    base_spin_lock(&connection->verbs->lock);
    if (base_list_is_linked(&connection->link))
        base_list_remove(&connection->link);
    base_spin_unlock(&connection->verbs->lock);
}

/* ---- beginning and end -------------------------------------------------------------------------- */

static void close_all(struct verbs *verbs)
{
    if (verbs->clock.fd >= 0)
        (void)close(verbs->clock.fd);
    if (verbs->completion != NULL)
        (void)ibv_destroy_comp_channel(verbs->completion);
    if (verbs->events != NULL)
        rdma_destroy_event_channel(verbs->events);
}

static int open_all(struct verbs *verbs)
{
    verbs->clock.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (verbs->clock.fd < 0)
        return -errno;
    verbs->events = rdma_create_event_channel();
    if (verbs->events == NULL) {
        int error = -errno;
        base_error(&verbs->node->log, "no RDMA connection manager",
                   "reason=\"load the kernel's module rdma_ucm; /dev/infiniband/rdma_cm must be there\"");
        return error;
    }
    verbs->completion = ibv_create_comp_channel(verbs->device.context);
    return verbs->completion == NULL ? -errno : 0;
}

/* Watch a descriptor, whose events are taken without waiting. */
static int watch_fd(struct verbs *verbs, struct fabric_source *source, int fd,
                    void (*event)(struct fabric_source *source))
{
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return -errno;
    *source = (struct fabric_source){.fd = fd, .event = event};
    return fabric_service_watch(&verbs->service, source);
}

int verbs_service_start(struct verbs *verbs)
{
    int error = open_all(verbs);
    if (error == 0)
        error = fabric_service_open(&verbs->service, "tarn-verbs");
    if (error != 0) {
        close_all(verbs);
        return error;
    }
    error = watch_fd(verbs, &verbs->clock, verbs->clock.fd, take_tick);
    if (error == 0)
        error = watch_fd(verbs, &verbs->manager, verbs->events->fd, take_manager_event);
    if (error == 0)
        error = watch_fd(verbs, &verbs->sleepers, verbs->completion->fd, take_completion_event);
    if (error == 0)
        error = watch_fd(verbs, &verbs->device_events, verbs->device.context->async_fd, take_device_event);
    if (error != 0)
        verbs_service_stop(verbs);
    return error;
}

void verbs_service_stop(struct verbs *verbs)
{
    fabric_service_close(&verbs->service);
    close_all(verbs);
}
