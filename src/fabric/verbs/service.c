/*
 * The service: one thread of a fabric that watches descriptors. It takes the events of the connection manager and of the
 * device, rings the bells of sleepers, and keeps the clock of heartbeats. An object cannot be freed before its events
 * are acknowledged, because its destruction waits for that.
 */
#include "fabric/verbs/verbs.h"
#include "task/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void take_manager_event(struct verbs *verbs)
{
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
static void take_completion_event(struct verbs *verbs)
{
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

static void take_device_event(struct verbs *verbs)
{
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

/* Count a tick of the clock when it is due. @return whether there are connections to keep the clock for */
static bool tick_connections(struct verbs *verbs, uint64_t *next_ns)
{
    const uint64_t now_ns = task_now();
    const bool due = now_ns >= *next_ns;
    base_spin_lock(&verbs->lock);
    const bool any = !base_list_empty(&verbs->connections);
    if (due) {
        base_list_for_each(item, &verbs->connections)
            verbs_connection_beat(base_container_of(item, struct verbs_connection, link));
    }
    base_spin_unlock(&verbs->lock);
    if (due)
        *next_ns = now_ns + verbs->options.heartbeat_ns / FABRIC_BEATS_PROBE;
    return any;
}

static void *run_service(void *arg)
{
    struct verbs *verbs = arg;
    struct pollfd files[] = {{.fd = verbs->wake, .events = POLLIN},
                             {.fd = verbs->events->fd, .events = POLLIN},
                             {.fd = verbs->completion->fd, .events = POLLIN},
                             {.fd = verbs->device.context->async_fd, .events = POLLIN}};
    uint64_t next_ns = 0;
    for (;;) {
        const bool any = tick_connections(verbs, &next_ns);
        const uint64_t now_ns = task_now();
        const uint64_t left_ms = next_ns > now_ns ? (next_ns - now_ns) / BASE_NS_PER_MS + 1 : 0;
        if (poll(files, base_array_count(files), any ? (int)left_ms : -1) <= 0)
            continue;
        if (files[0].revents != 0) {
            uint64_t value;
            (void)!read(verbs->wake, &value, sizeof(value));
            base_spin_lock(&verbs->lock);
            const bool over = verbs->closing;
            base_spin_unlock(&verbs->lock);
            if (over)
                return NULL;
        }
        if (files[1].revents != 0)
            take_manager_event(verbs);
        if (files[2].revents != 0)
            take_completion_event(verbs);
        if (files[3].revents != 0)
            take_device_event(verbs);
    }
}

static void wake_service(const struct verbs *verbs)
{
    const uint64_t one = 1;
    (void)!write(verbs->wake, &one, sizeof(one));
}

void verbs_service_add(struct verbs_connection *connection)
{
    struct verbs *verbs = connection->verbs;
    base_spin_lock(&verbs->lock);
    const bool first = base_list_empty(&verbs->connections);
    base_list_push_back(&verbs->connections, &connection->link);
    connection->is_added = true;
    base_spin_unlock(&verbs->lock);
    if (first)
        wake_service(verbs);
}

void verbs_service_remove(struct verbs_connection *connection)
{
    base_spin_lock(&connection->verbs->lock);
    if (connection->is_added)
        base_list_remove(&connection->link);
    connection->is_added = false;
    base_spin_unlock(&connection->verbs->lock);
}

/* ---- beginning and end -------------------------------------------------------------------------- */

static int do_not_wait(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ? -errno : 0;
}

static void close_all(struct verbs *verbs)
{
    if (verbs->completion != NULL)
        (void)ibv_destroy_comp_channel(verbs->completion);
    if (verbs->events != NULL)
        rdma_destroy_event_channel(verbs->events);
    if (verbs->wake >= 0)
        (void)close(verbs->wake);
}

static int open_all(struct verbs *verbs)
{
    verbs->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (verbs->wake < 0)
        return -errno;
    verbs->events = rdma_create_event_channel();
    if (verbs->events == NULL) {
        int error = -errno;
        base_error(&verbs->node->log, "no RDMA connection manager",
                   "reason=\"load the kernel's module rdma_ucm; /dev/infiniband/rdma_cm must be there\"");
        return error;
    }
    verbs->completion = ibv_create_comp_channel(verbs->device.context);
    if (verbs->completion == NULL)
        return -errno;
    int error = do_not_wait(verbs->events->fd);
    if (error == 0)
        error = do_not_wait(verbs->completion->fd);
    return error == 0 ? do_not_wait(verbs->device.context->async_fd) : error;
}

int verbs_service_start(struct verbs *verbs)
{
    int error = open_all(verbs);
    if (error == 0)
        error = task_thread_start(&verbs->thread, "tarn-verbs", run_service, verbs);
    if (error != 0)
        close_all(verbs);
    return error;
}

void verbs_service_stop(struct verbs *verbs)
{
    base_spin_lock(&verbs->lock);
    verbs->closing = true;
    base_spin_unlock(&verbs->lock);
    wake_service(verbs);
    (void)pthread_join(verbs->thread, NULL);
    close_all(verbs);
}
