/* Connections at work: the scheduler's side, which sends and receives, and the user's side, which waits. */
#include "fabric/tcp/connection.h"
#include "fabric/tcp/frame.h"
#include "fabric/tcp/tcp.h"
#include "fabric/tcp/tls.h"
#include "fabric/tcp/wire.h"
#include <errno.h>
#include <string.h>

/* ---- on the connection's scheduler -------------------------------------------------------------- */

/* After a change of the wire: wake the callers that it concerns, and unlock. */
static void tell_and_unlock(struct tcp_connection *connection)
{
    const struct tcp_wire *wire = &connection->wire;
    const char *doing = wire->doing;
    int error =
        wire->culprit == NULL ? wire->error : 0; /* a refused operation's error is reported by its user */
    if (wire->done.first != NULL || wire->error != 0 || tcp_target_has_message(wire) ||
        connection->socket_count > 1) /* await_room() */
        fabric_bell_ring_locked(&connection->bell);
    base_spin_unlock(&connection->bell.lock);
    if (error != 0)
        (void)fabric_connection_fail(connection->owner, doing, error);
}

/* Shut all open sockets, so that their reads end and each is closed. */
static void shut_all(struct tcp_connection *connection)
{
    for (uint32_t i = 0; i < connection->socket_count; i++) {
        if (connection->sockets[i].net != NULL)
            net_shutdown(connection->sockets[i].net);
    }
}

/* Find a socket that needs a task to send. @return NULL: none */
static struct tcp_socket *must_send_locked(const struct tcp_connection *connection)
{
    base_spin_assert_held(&connection->bell.lock);
    struct tcp_socket *socket = &connection->sockets[connection->wire.out_turn];
    bool may = connection->open_count == connection->socket_count && !socket->sending &&
               !connection->ending && !connection->deaf && !connection->shut;
    return may && tcp_wire_has_output(&connection->wire) ? socket : NULL;
}

static void act_on_wire(struct tcp_connection *connection);

/* Send by a socket until its turn has passed, or there is nothing to send. */
static void run_sender(void *arg)
{
    struct tcp_socket *socket = arg;
    struct tcp_connection *connection = socket->connection;
    struct tcp_wire *wire = &connection->wire;
    base_spin_lock(&connection->bell.lock);
    for (;;) {
        bool able = !connection->ending && !connection->deaf && !connection->shut;
        size_t bytes = able && wire->out_turn == socket->number ? tcp_wire_fill(wire, socket->out) : 0;
        if (bytes == 0)
            break;
        bool passed = wire->out_turn != socket->number;
        if (wire->error != 0) /* the region of a READ has gone */
            tell_and_unlock(connection);
        else
            base_spin_unlock(&connection->bell.lock);
        if (passed)
            act_on_wire(connection); /* other sockets need not wait for this one */
        int error = tcp_write(socket->net, socket->tls, socket->out, bytes, TASK_FOREVER);
        base_spin_lock(&connection->bell.lock);
        connection->deaf |=
            error != 0; /* the reason comes by reading: the peer's last frames may still be there */
    }
    tcp_buffer_put(connection->tcp, socket->out);
    socket->sending = false;
    connection->senders--;
    bool shut = connection->leaving && !connection->ending && connection->senders == 0;
    /* end_socket() and tcp_disconnect() wait for this; a plain thread that waits for an answer is woken, too, as to wake up
     * takes it about as long as the answer */
    fabric_bell_ring_locked(&connection->bell);
    base_spin_unlock(&connection->bell.lock);
    if (shut)
        shut_all(connection); /* the sockets are freed by this thread only, after this call */
}

/* Do the work that is due on this scheduler: send, shut or close. */
static void act_on_wire(struct tcp_connection *connection)
{
    base_spin_lock(&connection->bell.lock);
    struct tcp_socket *socket = must_send_locked(connection);
    if (socket != NULL) {
        socket->sending = true;
        connection->senders++;
    }
    if (connection->leaving && connection->senders == 0)
        connection->shut = true; /* nothing is left to be sent */
    bool shut = connection->shut;
    base_spin_unlock(&connection->bell.lock);
    if (shut)
        shut_all(connection);
    if (socket == NULL)
        return;
    socket->out = tcp_buffer_get(connection->tcp);
    if (socket->out != NULL && task_spawn(NULL, NULL, "fabric-send", run_sender, socket) == 0)
        return;
    tcp_buffer_put(connection->tcp, socket->out);
    base_spin_lock(&connection->bell.lock);
    socket->sending = false;
    connection->senders--;
    tcp_wire_die(&connection->wire, -ENOMEM, "send", TCP_STAYS);
    connection->shut = true;
    tell_and_unlock(connection);
    shut_all(connection);
}

/* Count a tick of the clock: a peer that has been silent for long is probed, and later given up. */
static void count_beat_locked(struct tcp_connection *connection)
{
    base_spin_assert_held(&connection->bell.lock);
    connection->beat = false;
    connection->silent_beats++;
    if (connection->silent_beats >= FABRIC_BEATS_DEAD) {
        tcp_wire_die(&connection->wire, -ECONNRESET, "heartbeat", TCP_STAYS);
        connection->shut = true;
    } else if (connection->silent_beats >= FABRIC_BEATS_PROBE) {
        connection->wire.probe_due = true;
    }
}

/* Whether act_on_wire() has something to do. */
static bool must_act_locked(const struct tcp_connection *connection)
{
    base_spin_assert_held(&connection->bell.lock);
    return must_send_locked(connection) != NULL ||
           (connection->leaving && connection->senders == 0 && !connection->shut);
}

static void run_poke(struct task_message *message)
{
    struct tcp_connection *connection = base_container_of(message, struct tcp_connection, poke);
    bool more = true;
    while (more) {
        base_spin_lock(&connection->bell.lock);
        if (connection->beat)
            count_beat_locked(connection);
        tell_and_unlock(connection);
        act_on_wire(connection);
        base_spin_lock(&connection->bell.lock);
        more = connection->beat ||
               must_act_locked(connection); /* a caller that found a poke under way relies on this look */
        connection->poked = more;
        if (connection->wire.error != 0)
            fabric_bell_ring_locked(&connection->bell); /* tcp_connection_free() */
        base_spin_unlock(&connection->bell.lock);       /* the connection may be freed from here on */
    }
}

void tcp_connection_prepare(struct tcp_connection *connection)
{
    connection->poke.run = run_poke;
}

/* Note that the scheduler is to look. @return whether the caller must have it do so: no such message is under way */
static bool note_poke_locked(struct tcp_connection *connection)
{
    base_spin_assert_held(&connection->bell.lock);
    const bool must = !connection->poked;
    connection->poked = true;
    return must;
}

/* Send the message that has the scheduler look. */
static void send_poke(struct tcp_connection *connection)
{
    if (task_sched_post(connection->sched, &connection->poke))
        return;
    base_spin_lock(&connection->bell.lock);
    connection->poked = false; /* the scheduler has ended: no poke is under way */
    base_spin_unlock(&connection->bell.lock);
}

/* After a change by the user: unlock, and have the scheduler send or end, if it must. */
static void act_and_unlock(struct tcp_connection *connection)
{
    const bool is_here = task_sched_self() == connection->sched;
    const bool must = must_act_locked(connection) && (is_here || note_poke_locked(connection));
    base_spin_unlock(&connection->bell.lock);
    if (must && is_here)
        act_on_wire(connection);
    else if (must)
        send_poke(connection);
}

void tcp_connection_beat(struct tcp_connection *connection)
{
    base_spin_lock(&connection->bell.lock);
    connection->beat = true;
    const bool must = note_poke_locked(connection);
    base_spin_unlock(&connection->bell.lock);
    if (must)
        send_poke(connection);
}

/* Take the end of a socket, or bytes that are no TLS. It ends all sockets; each is closed when no task sends by it. */
static void end_socket(struct tcp_socket *socket, int error)
{
    struct tcp_connection *connection = socket->connection;
    base_spin_lock(&connection->bell.lock);
    connection->ending = true;
    tcp_wire_die(&connection->wire, error, error == -EPROTO ? "tls" : "peer", TCP_STAYS);
    tell_and_unlock(connection);
    shut_all(connection);
    base_spin_lock(&connection->bell.lock);
    while (socket->sending)
        fabric_bell_sleep_firmly_locked(&connection->bell);
    base_spin_unlock(&connection->bell.lock);
    net_close(socket->net);
}

/* Take received bytes, from the socket whose turn it is, as far as the turns go. */
static void take_locked(struct tcp_connection *connection)
{
    base_spin_assert_held(&connection->bell.lock);
    struct tcp_wire *wire = &connection->wire;
    uint32_t turn;
    do {
        turn = wire->in_turn;
        struct tcp_socket *socket = &connection->sockets[turn];
        if (socket->in_bytes == 0)
            return;
        size_t taken = tcp_wire_take(wire, socket->in, socket->in_bytes);
        socket->in_bytes -= (uint32_t)taken;
        memmove(socket->in, socket->in + taken, socket->in_bytes);
    } while (wire->in_turn != turn);
}

/* Wait until a socket's input was taken: a socket whose turn has not come is read no further. */
static void await_room(struct tcp_socket *socket)
{
    struct tcp_connection *connection = socket->connection;
    if (socket->in_bytes < TCP_IN_BYTES)
        return;
    base_spin_lock(&connection->bell.lock);
    while (socket->in_bytes == TCP_IN_BYTES && connection->wire.error == 0)
        fabric_bell_sleep_firmly_locked(&connection->bell);
    if (connection->wire.error != 0)
        socket->in_bytes = 0; /* input that arrives after an error is discarded */
    base_spin_unlock(&connection->bell.lock);
}

/* A buffer that is empty goes back. Each demand fits into the socket's room: one buffer of the scheduler's, and a record of
 * which TLS has a part already. So a socket that waits for its turn holds no buffer that others might need. */
void tcp_connection_demand(struct tcp_connection *connection)
{
    for (uint32_t i = 0; i < connection->socket_count; i++) {
        struct tcp_socket *socket = &connection->sockets[i];
        if (socket->in_bytes == 0) {
            tcp_buffer_put(connection->tcp, socket->in);
            socket->in = NULL;
        }
        if (socket->net != NULL && socket->in_bytes <= TCP_IN_BYTES - 3 * TCP_FRAME_BYTES)
            net_demand(socket->net);
    }
}

/* Receive payload straight to where it belongs, with the lock held, because only then is that memory sure to stay.
 * @return as tcp_read_try(); -ENOENT: there is no such payload any more */
static ssize_t receive_payload(struct tcp_socket *socket)
{
    struct tcp_connection *connection = socket->connection;
    struct tcp_room room;
    base_spin_lock(&connection->bell.lock);
    if (!tcp_wire_room_get(&connection->wire, &room)) {
        tell_and_unlock(connection); /* the region has gone, if not the connection */
        return -ENOENT;
    }
    ssize_t bytes = tcp_read_try(socket->net, socket->tls, room.memory, room.bytes);
    tcp_wire_room_put(&connection->wire, &room, bytes > 0 ? (size_t)bytes : 0);
    base_spin_unlock(&connection->bell.lock);
    return bytes;
}

/* Receive bytes, into the socket's buffer if they belong nowhere yet. @return as tcp_read_try() */
static ssize_t receive_some(struct tcp_socket *socket)
{
    const struct tcp_wire *wire = &socket->connection->wire; /* only this scheduler changes these fields */
    const bool is_payload =
        socket->in_bytes == 0 && wire->in_turn == socket->number && wire->arrival.left > 0;
    ssize_t bytes = is_payload ? receive_payload(socket) : -ENOENT;
    if (bytes != -ENOENT)
        return bytes;
    if (socket->in == NULL && (socket->in = tcp_buffer_get(socket->connection->tcp)) == NULL)
        return -ENOMEM;
    const bool is_header = wire->header_next && socket->in_bytes < TCP_HEADER_BYTES;
    const size_t room = (is_header ? TCP_HEADER_BYTES : TCP_IN_BYTES) - socket->in_bytes;
    bytes = tcp_read_try(socket->net, socket->tls, socket->in + socket->in_bytes, room);
    socket->in_bytes += bytes > 0 ? (uint32_t)bytes : 0;
    return bytes;
}

/* Serve a socket that has received something. */
static void serve_socket(struct net_connection *net)
{
    struct tcp_socket *socket = net_user(net);
    struct tcp_connection *connection = socket->connection;
    for (;;) {
        await_room(socket);
        ssize_t bytes = receive_some(socket);
        if (bytes == -EAGAIN)
            break;
        if (bytes <= 0) {
            /* -EACCES is the other side's complaint about this side: it has given the connection up */
            end_socket(socket, bytes == -EPROTO || bytes == -ENOMEM ? (int)bytes : -ECONNRESET);
            return;
        }
        base_spin_lock(&connection->bell.lock);
        take_locked(connection);
        connection->silent_beats = connection->leaving ? connection->silent_beats : 0;
        tell_and_unlock(connection);
    }
    net_set_direct(net, connection->wire.large_came);
    connection->wire.large_came = false;
    act_on_wire(connection);
    tcp_connection_demand(connection);
}

static void socket_is_closed(struct net_connection *net)
{
    struct tcp_socket *socket = net_user(net);
    struct tcp_connection *connection = socket->connection;
    base_spin_lock(&connection->bell.lock);
    socket->net = NULL;
    connection->open_count--;
    fabric_bell_ring_locked(&connection->bell);
    base_spin_unlock(&connection->bell.lock);
}

const struct net_handler tcp_connection_handler = {
    .ready = serve_socket, .closed = socket_is_closed, .task_name = "fabric-target"};

const struct net_handler tcp_sockets_handler = {
    .ready = serve_socket, .closed = socket_is_closed, .task_name = "fabric-target", .on_demand = true};

/* ---- the user ----------------------------------------------------------------------------------- */

static void finish_all(struct fabric_queue *ops, int32_t result)
{
    struct tarn_fabric_op *op;
    while ((op = fabric_queue_pop(ops)) != NULL)
        fabric_op_finish(op, result);
}

/* Finish operations that are done; on a connection that has ended, all of them. */
void tcp_progress(void *state)
{
    struct tcp_connection *connection = state;
    struct tcp_wire *wire = &connection->wire;
    struct fabric_queue done = {0}, flushed = {0};
    struct tarn_fabric_op *culprit = NULL;
    base_spin_lock(&connection->bell.lock);
    fabric_queue_move_all(&done, &wire->done);
    int error = wire->error;
    if (error != 0) {
        culprit = wire->culprit;
        wire->culprit = NULL;
        fabric_queue_move_all(&flushed, &wire->flight);
        fabric_queue_move_all(&flushed, &wire->posted);
        fabric_queue_move_all(&flushed, &wire->waiting);
    }
    base_spin_unlock(&connection->bell.lock);
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
    base_spin_lock(&connection->bell.lock);
    int dead = connection->wire.error;
    int error = dead != 0 ? dead : tcp_initiator_post(&connection->wire, op);
    base_spin_unlock(&connection->bell.lock);
    if (error == 0)
        return;
    tcp_progress(connection);
    fabric_op_finish(op, dead != 0 ? tarn_fabric_error(connection->owner) : error);
}

void tcp_posted(void *state)
{
    struct tcp_connection *connection = state;
    base_spin_lock(&connection->bell.lock);
    act_and_unlock(connection);
}

int tcp_wait(void *state, struct tarn_fabric_op *op, uint64_t deadline_ns)
{
    struct tcp_connection *connection = state;
    int error = 0;
    for (;;) {
        tcp_progress(connection);
        if (op->finished)
            return 0;
        if (error != 0)
            return error;
        base_spin_lock(&connection->bell.lock);
        if (connection->wire.done.first == NULL && connection->wire.error == 0)
            error = fabric_bell_sleep_locked(&connection->bell, deadline_ns);
        base_spin_unlock(&connection->bell.lock);
    }
}

bool tcp_watch(void *state, struct fabric_watch *watch)
{
    struct tcp_connection *connection = state;
    fabric_bell_add(&connection->bell, watch);
    base_spin_lock(&connection->bell.lock);
    const bool is_ready = connection->wire.done.first != NULL || connection->wire.error != 0;
    base_spin_unlock(&connection->bell.lock);
    return is_ready;
}

/* Wait for a message. @return its bytes, valid until it is released; NULL with *ret_error set */
static const uint8_t *next_message(struct tcp_connection *connection, uint64_t deadline_ns,
                                   struct tarn_fabric_message *ret_message, int *ret_error)
{
    const uint8_t *payload;
    int error = 0;
    base_spin_lock(&connection->bell.lock);
    while ((payload = tcp_target_message(&connection->wire, ret_message)) == NULL && error == 0) {
        error = connection->wire.error;
        if (error == 0)
            error = fabric_bell_sleep_locked(&connection->bell, deadline_ns);
    }
    if (payload == NULL && connection->wire.error != 0)
        error = connection->wire.error;
    base_spin_unlock(&connection->bell.lock);
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
    tcp_progress(connection); /* a user that does nothing but receive learns of its operations' ends here */
    if (payload == NULL)
        return tarn_fabric_error(connection->owner) != 0 ? tarn_fabric_error(connection->owner) : error;
    if (message.bytes > 0)
        memcpy(data, payload, message.bytes);
    base_spin_lock(&connection->bell.lock);
    tcp_target_received(&connection->wire);
    act_and_unlock(connection);
    *ret_message = message;
    return 0;
}

void tcp_fail(void *state)
{
    struct tcp_connection *connection = state;
    base_spin_lock(&connection->bell.lock);
    tcp_wire_die(&connection->wire, tarn_fabric_error(connection->owner), "fail", TCP_GIVES_UP);
    fabric_bell_ring_locked(&connection->bell); /* other tasks may wait for operations that end now */
    act_and_unlock(connection);
    tcp_progress(connection);
}

int tcp_fence(void *state, uint64_t deadline_ns)
{
    struct tcp_connection *connection = state;
    (void)deadline_ns;
    /* the task that serves the peer looks, with this lock held, whether the connection is alive: from now on it is not */
    base_spin_lock(&connection->bell.lock);
    base_assert(connection->wire.error != 0);
    base_spin_unlock(&connection->bell.lock);
    return 0;
}

void tcp_disconnect(void *state)
{
    struct tcp_connection *connection = state;
    base_spin_lock(&connection->bell.lock);
    base_assert(connection->wire.posted.first == NULL && connection->wire.flight.first == NULL &&
                connection->wire.waiting.first == NULL);
    tcp_wire_die(&connection->wire, -ECONNABORTED, "disconnect", TCP_LEAVES);
    connection->leaving = true;
    connection->silent_beats = base_max(connection->silent_beats, (uint32_t)FABRIC_BEATS_PROBE);
    act_and_unlock(connection);
    base_spin_lock(&connection->bell.lock);
    while (connection->open_count != 0 || connection->senders != 0)
        fabric_bell_sleep_firmly_locked(&connection->bell);
    base_spin_unlock(&connection->bell.lock);
    tcp_connection_free(connection);
}
