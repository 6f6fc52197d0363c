/*
 * Connections: how two sides meet, what one learns of the other, how both end.
 *
 *   sim_connect()      run_call()          sim_listener_wait()    sim_accept()
 *      └──▶ CALLING ───────────▶ QUEUED ────────▶ TAKEN ─────────────▶ ACCEPTED
 *              │ nobody listens     │ closed, ended  │ sim_reject(), ended
 *              └──────────▶ REFUSED ◀────────────────┘
 *
 * What becomes of a side (failed, gone) reaches the other one as a notice, after the time of a way; if its node has
 * ended, when a heartbeat is missed. A side that hears nothing because of a cut fails by itself.
 */
#include "base/base.h"
#include "sim/net/net_internal.h"
#include <errno.h>
#include <stdio.h>

/* ---- making and freeing ------------------------------------------------------------------------- */

static void run_notice(struct sim_event *event);
static void run_returns(struct sim_event *event);
static void run_silence(struct sim_event *event);
static void run_call(struct sim_event *event);

static struct base_account *account_of(const struct sim_side *side)
{
    return &sim_node_tarn(sim_side_device(side)->node)->memory;
}

static uint64_t room_of(const struct sim_side *side)
{
    return (uint64_t)side->receive_count * side->receive_bytes;
}

/* @return 0; -ENOMEM */
static int init_side(struct sim_side *side, struct sim_domain *domain,
                     const struct tarn_fabric_connect_options *options, struct tarn_fabric_connection *owner)
{
    side->domain = domain;
    side->receive_count = options->receive_count;
    side->receive_bytes = options->receive_bytes;
    int error = base_account_take(account_of(side), room_of(side));
    if (error != 0)
        return error;
    side->owner = owner;
    side->number = domain->sides_made++;
    side->data_bytes = options->data_bytes;
    if (side->data_bytes > 0)
        memcpy(side->data, options->data, side->data_bytes);
    base_list_push_back(&domain->sides, &side->link);
    return 0;
}

static struct sim_connection *make_connection(struct sim_net *net, const char *address)
{
    struct sim_connection *connection = sim_net_alloc(net, sizeof(*connection));
    connection->net = net;
    connection->call.name = "call";
    connection->call.run = run_call;
    (void)snprintf(connection->address, sizeof(connection->address), "%s", address);
    for (unsigned i = 0; i < 2; i++) {
        struct sim_side *side = &connection->sides[i];
        side->connection = connection;
        side->notice.name = "notice";
        side->notice.run = run_notice;
        side->returns.name = "credit";
        side->returns.run = run_returns;
        side->silence.name = "silence";
        side->silence.run = run_silence;
        base_list_init(&side->ops);
        base_list_init(&side->messages);
        fabric_bell_init(&side->waits);
    }
    base_list_push_back(&net->connections, &connection->link);
    return connection;
}

static void free_message(struct sim_net *net, struct sim_message *message)
{
    base_list_remove(&message->link);
    sim_net_free(net, message->data, message->message.bytes);
    sim_net_free(net, message, sizeof(*message));
}

static void free_side(struct sim_side *side)
{
    struct sim_net *net = side->connection->net;
    struct base_list *first;
    while ((first = base_list_first(&side->ops)) != NULL)
        sim_op_drop(base_container_of(first, struct sim_op, link));
    while ((first = base_list_first(&side->messages)) != NULL)
        free_message(net, base_container_of(first, struct sim_message, link));
    sim_event_cancel(net->world, &side->notice);
    sim_event_cancel(net->world, &side->returns);
    sim_event_cancel(net->world, &side->silence);
}

static void free_connection(struct sim_connection *connection)
{
    for (unsigned i = 0; i < 2; i++)
        free_side(&connection->sides[i]);
    for (unsigned i = 0; i < 2; i++) {
        struct sim_side *side = &connection->sides[i];
        if (!base_list_is_linked(&side->link))
            continue;
        base_list_remove(&side->link);
        sim_domain_reap(side->domain);
    }
    sim_event_cancel(connection->net->world, &connection->call);
    if (base_list_is_linked(&connection->incoming.link))
        base_list_remove(&connection->incoming.link);
    base_list_remove(&connection->link);
    sim_net_free(connection->net, connection, sizeof(*connection));
}

/* ---- what one learns of the other --------------------------------------------------------------- */

/* Have the other side told of what has become of this one. */
static void notify(struct sim_side *side)
{
    struct sim_net *net = side->connection->net;
    if (base_heap_is_linked(&side->notice.node))
        return;
    if (sim_side_device(side)->node == NULL)
        sim_event_at(net->world, &side->notice,
                     net->world->now_ns + sim_net_draw(net, 3 * SIM_NET_HEARTBEAT_NS));
    else
        sim_net_later(net, &side->notice);
}

static void run_notice(struct sim_event *event)
{
    struct sim_side *side = base_container_of(event, struct sim_side, notice);
    struct sim_side *other = sim_side_other(side);
    if (sim_net_is_cut(sim_side_device(side), sim_side_device(other)))
        return;
    if (side->gone) {
        sim_ops_stop(side);
        other->peer_gone = true;
        sim_domain_reap(other->domain);
    }
    if (other->owner == NULL)
        return;
    (void)fabric_connection_fail(other->owner, "peer", side->failed ? -ECONNRESET : -EPIPE);
    sim_side_fail(other);
}

/* If nothing of the other one comes in, that will be noticed. */
static void watch(struct sim_side *side)
{
    struct sim_net *net = side->connection->net;
    const struct sim_side *other = sim_side_other(side);
    if (side->owner == NULL || other->domain == NULL ||
        !sim_net_is_cut(sim_side_device(other), sim_side_device(side))) {
        sim_event_cancel(net->world, &side->silence);
        return;
    }
    if (!base_heap_is_linked(&side->silence.node))
        sim_event_at(net->world, &side->silence,
                     net->world->now_ns + SIM_NET_HEARTBEAT_NS + sim_net_draw(net, 2 * SIM_NET_HEARTBEAT_NS));
}

static void answer(struct sim_connection *connection, int result)
{
    if (connection->answered)
        return;
    connection->answered = true;
    connection->answer = result;
    fabric_bell_ring(&connection->sides[0].waits);
}

static void run_silence(struct sim_event *event)
{
    struct sim_side *side = base_container_of(event, struct sim_side, silence);
    struct sim_connection *connection = side->connection;
    if (side == &connection->sides[0] && !connection->answered) {
        answer(connection, -ETIMEDOUT);
        return;
    }
    (void)fabric_connection_fail(side->owner, "heartbeat", -ECONNRESET);
    sim_side_fail(side);
}

void sim_side_fail(void *state)
{
    struct sim_side *side = state;
    bool first = !side->failed;
    side->failed = true;
    sim_ops_flush(side);
    fabric_bell_ring(&side->waits);
    if (first)
        notify(side);
}

static bool cannot_write(const void *arg)
{
    const struct sim_side *side = arg;
    return side->peer_gone || side->fenced;
}

int sim_side_fence(void *state, uint64_t deadline_ns)
{
    struct sim_side *side = state;
    if (side->connection->net->options.fence_cuts && !cannot_write(side)) {
        sim_ops_stop(sim_side_other(side));
        side->fenced = true;
    }
    return sim_net_wait(&side->waits, cannot_write, side, deadline_ns);
}

/* A side posts nothing more. */
static void end_side(struct sim_side *side)
{
    side->owner = NULL;
    side->gone = true;
    sim_ops_flush(side);
    sim_event_cancel(side->connection->net->world, &side->silence);
    if (sim_side_other(side)->gone)
        free_connection(side->connection);
    else
        notify(side);
}

void sim_disconnect(void *state)
{
    struct sim_side *side = state;
    base_assert(base_list_empty(&side->waits.waiters));
    base_account_give(account_of(side), room_of(side));
    end_side(side);
}

/* ---- listening ---------------------------------------------------------------------------------- */

static struct sim_listener *find_listener(const struct sim_net *net, const char *address)
{
    base_list_for_each(item, &net->listeners) {
        struct sim_listener *listener = base_container_of(item, struct sim_listener, link);
        if (strcmp(listener->address, address) == 0)
            return listener;
    }
    return NULL;
}

int sim_listen(void *state, const char *address, void **ret_listener)
{
    struct sim_device *device = state;
    if (address[0] == '\0' || strlen(address) >= SIM_NET_ADDRESS_BYTES)
        return -EINVAL;
    if (find_listener(device->net, address) != NULL)
        return -EADDRINUSE;
    struct sim_listener *listener = sim_net_alloc(device->net, sizeof(*listener));
    listener->device = device;
    (void)snprintf(listener->address, sizeof(listener->address), "%s", address);
    base_list_init(&listener->queue);
    fabric_bell_init(&listener->waits);
    base_list_push_back(&device->net->listeners, &listener->link);
    *ret_listener = listener;
    return 0;
}

/* Refuse a call; nobody has it any more. */
static void refuse(struct sim_connection *connection, int error)
{
    if (base_list_is_linked(&connection->incoming.link))
        base_list_remove(&connection->incoming.link);
    connection->meeting = SIM_REFUSED;
    connection->refusal = error == -ENOMEM ? -ENOBUFS : -ECONNREFUSED;
    if (connection->sides[0].gone)
        free_connection(connection);
    else
        sim_net_later(connection->net, &connection->call);
}

void sim_listener_close(void *state)
{
    struct sim_listener *listener = state;
    struct base_list *first;
    while ((first = base_list_first(&listener->queue)) != NULL)
        refuse(base_container_of(first, struct sim_connection, incoming.link), -ECONNREFUSED);
    base_list_remove(&listener->link);
    sim_net_free(listener->device->net, listener, sizeof(*listener));
}

static bool is_called(const void *arg)
{
    return !base_list_empty(&((const struct sim_listener *)arg)->queue);
}

int sim_listener_wait(void *state, uint64_t deadline_ns, struct tarn_fabric_incoming **ret_incoming)
{
    struct sim_listener *listener = state;
    int error = sim_net_wait(&listener->waits, is_called, listener, deadline_ns);
    if (error != 0)
        return error;
    struct sim_connection *connection =
        base_container_of(base_list_pop_front(&listener->queue), struct sim_connection, incoming.link);
    connection->meeting = SIM_TAKEN;
    connection->incoming.data = connection->sides[0].data;
    connection->incoming.data_bytes = connection->sides[0].data_bytes;
    *ret_incoming = &connection->incoming;
    return 0;
}

void sim_reject(struct tarn_fabric_incoming *incoming, int error)
{
    refuse(base_container_of(incoming, struct sim_connection, incoming), error);
}

int sim_accept(struct tarn_fabric_incoming *incoming, void *domain,
               const struct tarn_fabric_connect_options *options, struct tarn_fabric_connection *owner,
               void **ret_connection)
{
    struct sim_connection *connection = base_container_of(incoming, struct sim_connection, incoming);
    struct sim_side *caller = &connection->sides[0], *side = &connection->sides[1];
    fabric_connection_name(owner, "caller");
    /* that the caller has given up may be known, or still be on its way */
    int error = caller->gone && sim_net_draw(connection->net, 2) == 0 ? -ECONNRESET : 0;
    if (error == 0)
        error = init_side(side, domain, options, owner);
    if (error != 0) {
        refuse(connection, error);
        return error;
    }
    fabric_connection_data(owner, caller->data, caller->data_bytes);
    side->credit = caller->receive_count;
    caller->credit = side->receive_count;
    connection->meeting = SIM_ACCEPTED;
    if (caller->gone)
        notify(caller);
    else
        sim_net_later(connection->net, &connection->call);
    watch(side);
    watch(caller);
    *ret_connection = side;
    return 0;
}

/* ---- calling ------------------------------------------------------------------------------------ */

/* The call has come to the listener's host, or the answer back. */
static void run_call(struct sim_event *event)
{
    struct sim_connection *connection = base_container_of(event, struct sim_connection, call);
    struct sim_side *caller = &connection->sides[0];
    const struct sim_device *here = sim_side_device(caller);
    struct sim_net *net = connection->net;
    struct sim_listener *listener = NULL;
    const struct sim_device *there = NULL; /* a refusal comes from nowhere */
    bool back = connection->meeting != SIM_CALLING;
    if (!back && (listener = find_listener(net, connection->address)) != NULL)
        there = listener->device;
    else if (connection->meeting == SIM_ACCEPTED)
        there = sim_side_device(&connection->sides[1]);
    if (there != NULL && sim_net_is_cut(back ? there : here, back ? here : there)) {
        if (!base_heap_is_linked(&caller->silence.node))
            sim_event_at(net->world, &caller->silence, net->world->now_ns + 3 * SIM_NET_HEARTBEAT_NS);
    } else if (back) {
        answer(connection, connection->meeting == SIM_ACCEPTED ? 0 : connection->refusal);
    } else if (listener == NULL) {
        answer(connection, -ECONNREFUSED);
    } else {
        connection->meeting = SIM_QUEUED;
        connection->listener = there;
        base_list_push_back(&listener->queue, &connection->incoming.link);
        fabric_bell_ring(&listener->waits);
    }
}

static bool is_answered(const void *arg)
{
    return ((const struct sim_connection *)arg)->answered;
}

/* The caller has given up, or was refused, or its node has ended. */
static void hang_up(struct sim_connection *connection)
{
    struct sim_side *caller = &connection->sides[0];
    enum sim_meeting meeting = connection->meeting;
    caller->failed = true;
    if (meeting == SIM_ACCEPTED) {
        end_side(caller);
        return;
    }
    caller->owner = NULL;
    caller->gone = true;
    if (meeting == SIM_CALLING || meeting == SIM_REFUSED)
        free_connection(connection);
}

int sim_connect(void *state, const char *address, const struct tarn_fabric_connect_options *options,
                uint64_t deadline_ns, struct tarn_fabric_connection *owner, void **ret_connection)
{
    struct sim_domain *domain = state;
    struct sim_net *net = domain->device->net;
    const struct sim_card *card = domain->device->card;
    fabric_connection_name(owner, address);
    if (card != NULL && card->connect_ns > 0 && task_sleep(card->connect_ns) != 0)
        return -ECANCELED;
    struct sim_connection *connection = make_connection(net, address);
    struct sim_side *side = &connection->sides[0];
    int error = init_side(side, domain, options, owner);
    if (error != 0) {
        hang_up(connection);
        return error;
    }
    sim_net_later(net, &connection->call);
    error = sim_net_wait(&side->waits, is_answered, connection, deadline_ns);
    if (error == 0)
        error = connection->answer;
    if (error != 0) {
        base_account_give(account_of(side), room_of(side));
        hang_up(connection);
        return error;
    }
    fabric_connection_data(owner, sim_side_other(side)->data, sim_side_other(side)->data_bytes);
    *ret_connection = side;
    return 0;
}

/* ---- messages ----------------------------------------------------------------------------------- */

bool sim_side_receive(struct sim_side *side, const struct tarn_fabric_message *message, const uint8_t *data)
{
    struct sim_net *net = side->connection->net;
    if (side->owner == NULL || side->failed)
        return false;
    struct sim_message *copy = sim_net_alloc(net, sizeof(*copy));
    copy->message = *message;
    copy->data = sim_net_alloc(net, message->bytes);
    sim_net_copy(copy->data, data, message->bytes);
    base_list_push_back(&side->messages, &copy->link);
    fabric_bell_ring(&side->waits);
    return true;
}

static void run_returns(struct sim_event *event)
{
    struct sim_side *side = base_container_of(event, struct sim_side, returns);
    struct sim_side *other = sim_side_other(side);
    if (sim_net_is_cut(sim_side_device(side), sim_side_device(other)))
        return;
    other->credit += side->credit_back;
    side->credit_back = 0;
    sim_ops_progress(other);
}

static void return_credit(struct sim_side *side)
{
    if (!base_heap_is_linked(&side->returns.node))
        sim_net_later(side->connection->net, &side->returns);
}

static bool has_news(const void *arg)
{
    const struct sim_side *side = arg;
    return !base_list_empty(&side->messages) || tarn_fabric_error(side->owner) != 0;
}

int sim_receive(void *state, void *data, uint32_t room, uint64_t deadline_ns,
                struct tarn_fabric_message *ret_message)
{
    struct sim_side *side = state;
    if (room < side->receive_bytes)
        return -EINVAL;
    int error = sim_net_wait(&side->waits, has_news, side, deadline_ns);
    if (error != 0)
        return error;
    struct base_list *first = base_list_first(&side->messages);
    if (first == NULL)
        return tarn_fabric_error(side->owner);
    struct sim_message *message = base_container_of(first, struct sim_message, link);
    sim_net_copy(data, message->data, message->message.bytes);
    *ret_message = message->message;
    free_message(side->connection->net, message);
    side->credit_back++;
    return_credit(side);
    return 0;
}

/* ---- cuts and ends of nodes --------------------------------------------------------------------- */

static void look_at_end(struct sim_side *side)
{
    if (!sim_side_met(side))
        return;
    watch(side);
    sim_ops_resume(side);
    if (side->credit_back > 0)
        return_credit(side);
    if ((side->failed || side->gone) && !sim_side_other(side)->peer_gone)
        notify(side);
}

void sim_connections_look(struct sim_net *net)
{
    base_list_for_each(item, &net->connections) {
        struct sim_connection *connection = base_container_of(item, struct sim_connection, link);
        bool waits = connection->meeting != SIM_QUEUED && connection->meeting != SIM_TAKEN;
        if (waits && !connection->answered && !connection->sides[0].gone &&
            !base_heap_is_linked(&connection->call.node)) {
            sim_event_cancel(net->world, &connection->sides[0].silence);
            sim_net_later(net, &connection->call);
        }
        for (unsigned i = 0; i < 2; i++)
            look_at_end(&connection->sides[i]);
    }
}

static void leave_side(struct sim_side *side)
{
    fabric_bell_init(&side->waits); /* callers that wait there are never woken */
    side->failed = true;
    sim_ops_stop(sim_side_other(side)); /* there is nothing to be read or written any more */
    end_side(side);
}

static void leave_connection(struct sim_device *device, struct sim_connection *connection)
{
    bool calls = sim_side_device(&connection->sides[0]) == device;
    bool called = connection->meeting == SIM_ACCEPTED && sim_side_device(&connection->sides[1]) == device;
    if (calls && !connection->sides[0].gone) {
        bool over = connection->sides[1].gone; /* then it is freed here */
        if (connection->meeting == SIM_ACCEPTED) {
            leave_side(&connection->sides[0]);
        } else {
            fabric_bell_init(&connection->sides[0].waits);
            over = connection->meeting == SIM_CALLING || connection->meeting == SIM_REFUSED;
            hang_up(connection);
        }
        if (over)
            return;
    }
    if (called && !connection->sides[1].gone)
        leave_side(&connection->sides[1]);
    else if (connection->meeting == SIM_TAKEN && connection->listener == device)
        refuse(connection, -ECONNREFUSED);
}

void sim_connections_leave(struct sim_device *device)
{
    base_list_for_each_safe(item, &device->net->listeners) {
        struct sim_listener *listener = base_container_of(item, struct sim_listener, link);
        if (listener->device == device)
            sim_listener_close(listener);
    }
    base_list_for_each_safe(item, &device->net->connections)
        leave_connection(device, base_container_of(item, struct sim_connection, link));
}
