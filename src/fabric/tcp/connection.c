/* Connections at work: what their scheduler does with the socket, and what their user waits for. */
#include "fabric/tcp/tcp.h"
#include <errno.h>
#include <string.h>

/* ---- on the connection's scheduler -------------------------------------------------------------- */

/* What was done to the wire is done: tell whom it concerns, and give the lock back. */
static void tell_and_unlock(struct tcp_connection *connection)
{
    const struct tcp_wire *wire = &connection->wire;
    const char *doing = wire->doing;
    int error = wire->culprit == NULL ? wire->error : 0; /* of what was refused its user says it */
    tcp_gate_wake_locked(&connection->gate);
    tcp_gate_unlock(&connection->gate);
    if (error != 0)
        (void)fabric_connection_fail(connection->owner, doing, error);
}

/* Send until there is nothing to send. */
static void sender(void *arg)
{
    struct tcp_connection *connection = arg;
    for (;;) {
        tcp_gate_lock(&connection->gate);
        bool able = !connection->ending && !connection->deaf && !connection->shut;
        size_t bytes = able ? tcp_wire_fill(&connection->wire, connection->out) : 0;
        if (bytes == 0)
            break;
        if (connection->wire.error != 0) /* what a READ asked for has gone */
            tell_and_unlock(connection);
        else
            tcp_gate_unlock(&connection->gate);
        if (tcp_write(connection->net, connection->tls, connection->out, bytes, TASK_FOREVER) != 0) {
            tcp_gate_lock(&connection->gate);
            connection->deaf = true; /* what it died of, reading tells: its last words may be there */
            tcp_gate_unlock(&connection->gate);
        }
    }
    connection->sending = false;
    bool shut = connection->leaving && !connection->ending;
    tcp_gate_wake_locked(&connection->gate);
    tcp_gate_unlock(&connection->gate);
    if (shut)
        net_shutdown(connection->net); /* nothing of it ends before this thread has seen to it */
}

/* Whether a task must be started that sends. */
static bool must_send_locked(const struct tcp_connection *connection)
{
    return connection->net != NULL && !connection->sending && !connection->ending && !connection->deaf &&
           !connection->shut && tcp_wire_has_output(&connection->wire);
}

/* Do what is to be done on this scheduler. */
static void act(struct tcp_connection *connection)
{
    tcp_gate_lock(&connection->gate);
    bool send = must_send_locked(connection);
    connection->sending |= send;
    if (connection->leaving && !connection->sending)
        connection->shut = true; /* there is nothing more to say */
    struct net_connection *shut = connection->shut && !connection->ending ? connection->net : NULL;
    tcp_gate_unlock(&connection->gate);
    if (shut != NULL)
        net_shutdown(shut);
    if (!send || task_spawn(NULL, NULL, "fabric-send", sender, connection) == 0)
        return;
    tcp_gate_lock(&connection->gate);
    connection->sending = false;
    tcp_wire_die(&connection->wire, -ENOMEM, "send", TCP_STAYS);
    connection->shut = true;
    shut = connection->ending ? NULL : connection->net;
    tell_and_unlock(connection);
    if (shut != NULL)
        net_shutdown(shut);
}

/* A tick: who has been silent for long is probed, and given up in the end. */
static void count_beat_locked(struct tcp_connection *connection)
{
    connection->beat = false;
    connection->silent_beats++;
    if (connection->silent_beats >= TCP_BEATS_DEAD) {
        tcp_wire_die(&connection->wire, -ECONNRESET, "heartbeat", TCP_STAYS);
        connection->shut = true;
    } else if (connection->silent_beats >= TCP_BEATS_PROBE) {
        connection->wire.probe_due = true;
    }
}

/* Whether there is something for act() to do. */
static bool must_act_locked(const struct tcp_connection *connection)
{
    return must_send_locked(connection) || (connection->leaving && !connection->sending && !connection->shut);
}

static void run_poke(struct task_message *message)
{
    struct tcp_connection *connection = base_container_of(message, struct tcp_connection, poke);
    bool more = true;
    while (more) {
        tcp_gate_lock(&connection->gate);
        if (connection->beat)
            count_beat_locked(connection);
        tell_and_unlock(connection);
        act(connection);
        tcp_gate_lock(&connection->gate);
        more =
            connection->beat || must_act_locked(connection); /* whoever found it on its way relies on that */
        connection->poked = more;
        tcp_gate_wake_locked(&connection->gate);
        tcp_gate_unlock(&connection->gate); /* it may be gone from here on */
    }
}

void tcp_connection_prepare(struct tcp_connection *connection)
{
    connection->poke.run = run_poke;
}

static void post_poke(struct tcp_connection *connection, bool beat)
{
    tcp_gate_lock(&connection->gate);
    bool post = !connection->poked;
    connection->poked = true;
    connection->beat |= beat;
    tcp_gate_unlock(&connection->gate);
    if (!post || task_sched_post(connection->sched, &connection->poke))
        return;
    tcp_gate_lock(&connection->gate);
    connection->poked = false; /* the scheduler has ended */
    tcp_gate_unlock(&connection->gate);
}

void tcp_connection_poke(struct tcp_connection *connection)
{
    if (task_sched_self() == connection->sched) {
        act(connection);
        return;
    }
    tcp_gate_lock(&connection->gate);
    bool needed = must_act_locked(connection);
    tcp_gate_unlock(&connection->gate);
    if (needed)
        post_poke(connection, false);
}

void tcp_connection_beat(struct tcp_connection *connection)
{
    post_poke(connection, true);
}

/* The socket has come to its end, or to what is no TLS: close it when nobody sends any more. */
static void end(struct tcp_connection *connection, struct net_connection *net, int error)
{
    tcp_gate_lock(&connection->gate);
    connection->ending = true;
    tcp_wire_die(&connection->wire, error, error == -EPROTO ? "tls" : "peer", TCP_STAYS);
    tell_and_unlock(connection);
    net_shutdown(net);
    tcp_gate_lock(&connection->gate);
    while (connection->sending)
        tcp_gate_sleep_firmly_locked(&connection->gate);
    tcp_gate_unlock(&connection->gate);
    net_close(net);
}

/* The target task. */
static void ready(struct net_connection *net)
{
    struct tcp_connection *connection = net_user(net);
    for (;;) {
        ssize_t bytes = tcp_read_try(net, connection->tls, connection->in + connection->in_bytes,
                                     sizeof(connection->in) - connection->in_bytes);
        if (bytes == -EAGAIN)
            break;
        if (bytes <= 0) {
            /* -EACCES would be its complaint of what it got: it has given up */
            end(connection, net, bytes == -EPROTO ? -EPROTO : -ECONNRESET);
            return;
        }
        connection->in_bytes += (uint32_t)bytes;
        tcp_gate_lock(&connection->gate);
        size_t taken = tcp_wire_take(&connection->wire, connection->in, connection->in_bytes);
        connection->silent_beats = connection->leaving ? connection->silent_beats : 0;
        tell_and_unlock(connection);
        connection->in_bytes -= (uint32_t)taken;
        memmove(connection->in, connection->in + taken, connection->in_bytes);
    }
    act(connection);
}

static void closed(struct net_connection *net)
{
    struct tcp_connection *connection = net_user(net);
    tcp_gate_lock(&connection->gate);
    connection->net = NULL;
    tcp_gate_wake_locked(&connection->gate);
    tcp_gate_unlock(&connection->gate);
}

const struct net_handler tcp_connection_handler = {
    .ready = ready, .closed = closed, .task_name = "fabric-target"};

/* ---- the user ----------------------------------------------------------------------------------- */

static void finish_all(struct fabric_queue *ops, int32_t result)
{
    struct tarn_fabric_op *op;
    while ((op = fabric_queue_pop(ops)) != NULL)
        fabric_op_finish(op, result);
}

/* Finish what has come to an end; of a dead connection that is all. */
static void drain(struct tcp_connection *connection)
{
    struct tcp_wire *wire = &connection->wire;
    struct fabric_queue done = {0}, flushed = {0};
    struct tarn_fabric_op *culprit = NULL;
    tcp_gate_lock(&connection->gate);
    fabric_queue_move_all(&done, &wire->done);
    int error = wire->error;
    if (error != 0) {
        culprit = wire->culprit;
        wire->culprit = NULL;
        fabric_queue_move_all(&flushed, &wire->flight);
        fabric_queue_move_all(&flushed, &wire->posted);
        fabric_queue_move_all(&flushed, &wire->waiting);
    }
    tcp_gate_unlock(&connection->gate);
    finish_all(&done, 0);
    if (culprit != NULL)
        fabric_op_finish(culprit, error);
    if (error == 0)
        return;
    (void)fabric_connection_fail(connection->owner, wire->doing, error);
    finish_all(&flushed, tarn_fabric_error(connection->owner));
}

void tcp_post(void *state, struct tarn_fabric_op *op)
{
    struct tcp_connection *connection = state;
    tcp_gate_lock(&connection->gate);
    int dead = connection->wire.error;
    int error = dead != 0 ? dead : tcp_initiator_post(&connection->wire, op);
    tcp_gate_unlock(&connection->gate);
    if (error == 0) {
        tcp_connection_poke(connection);
        return;
    }
    drain(connection);
    fabric_op_finish(op, dead != 0 ? tarn_fabric_error(connection->owner) : error);
}

int tcp_wait(void *state, struct tarn_fabric_op *op, uint64_t deadline_ns)
{
    struct tcp_connection *connection = state;
    int error = 0;
    for (;;) {
        drain(connection);
        if (op->finished)
            return 0;
        if (error != 0)
            return error;
        tcp_gate_lock(&connection->gate);
        if (connection->wire.done.first == NULL && connection->wire.error == 0)
            error = tcp_gate_sleep_locked(&connection->gate, deadline_ns);
        tcp_gate_unlock(&connection->gate);
    }
}

/* Wait for a message. @return its bytes, which stay; NULL with *ret_error set */
static const uint8_t *next_message(struct tcp_connection *connection, uint64_t deadline_ns,
                                   struct tarn_fabric_message *ret_message, int *ret_error)
{
    const uint8_t *payload;
    int error = 0;
    tcp_gate_lock(&connection->gate);
    while ((payload = tcp_target_message(&connection->wire, ret_message)) == NULL && error == 0) {
        error = connection->wire.error;
        if (error == 0)
            error = tcp_gate_sleep_locked(&connection->gate, deadline_ns);
    }
    if (payload == NULL && connection->wire.error != 0)
        error = connection->wire.error;
    tcp_gate_unlock(&connection->gate);
    *ret_error = error;
    return payload;
}

int tcp_receive(void *state, void *data, uint32_t room, uint64_t deadline_ns,
                struct tarn_fabric_message *ret_message)
{
    struct tcp_connection *connection = state;
    struct tarn_fabric_message message;
    int error = 0;
    if (room < connection->wire.messages.bytes)
        return -EINVAL;
    const uint8_t *payload = next_message(connection, deadline_ns, &message, &error);
    drain(connection);
    if (payload == NULL)
        return tarn_fabric_error(connection->owner) != 0 ? tarn_fabric_error(connection->owner) : error;
    if (message.bytes > 0)
        memcpy(data, payload, message.bytes);
    tcp_gate_lock(&connection->gate);
    tcp_target_received(&connection->wire);
    tcp_gate_unlock(&connection->gate);
    tcp_connection_poke(connection);
    *ret_message = message;
    return 0;
}

void tcp_fail(void *state)
{
    struct tcp_connection *connection = state;
    tcp_gate_lock(&connection->gate);
    tcp_wire_die(&connection->wire, tarn_fabric_error(connection->owner), "fail", TCP_GIVES_UP);
    tcp_gate_wake_locked(&connection->gate); /* other tasks wait here too, for what ends now */
    tcp_gate_unlock(&connection->gate);
    drain(connection);
    tcp_connection_poke(connection);
}

int tcp_fence(void *state, uint64_t deadline_ns)
{
    struct tcp_connection *connection = state;
    (void)deadline_ns;
    /* whoever serves the peer holds this, and looks first whether the connection is alive: it is dead */
    tcp_gate_lock(&connection->gate);
    base_assert(connection->wire.error != 0);
    tcp_gate_unlock(&connection->gate);
    return 0;
}

void tcp_disconnect(void *state)
{
    struct tcp_connection *connection = state;
    tcp_gate_lock(&connection->gate);
    base_assert(connection->wire.posted.first == NULL && connection->wire.flight.first == NULL &&
                connection->wire.waiting.first == NULL);
    tcp_wire_die(&connection->wire, -ECONNABORTED, "disconnect", TCP_LEAVES);
    connection->leaving = true;
    connection->silent_beats = base_max(connection->silent_beats, (uint32_t)TCP_BEATS_PROBE);
    tcp_gate_unlock(&connection->gate);
    tcp_connection_poke(connection);
    tcp_gate_lock(&connection->gate);
    while (connection->net != NULL || connection->sending)
        tcp_gate_sleep_firmly_locked(&connection->gate);
    tcp_gate_unlock(&connection->gate);
    tcp_connection_free(connection);
}

uint32_t tcp_peer_data(const void *state, const void **ret_data)
{
    const struct tcp_connection *connection = state;
    *ret_data = connection->data;
    return connection->data_bytes;
}
