/* Connections at work: posting, waiting, receiving, and the end. Work requests and completions are queue.c's. */
#include "fabric/verbs/verbs.h"
#include <errno.h>
#include <string.h>

/* ---- the end ------------------------------------------------------------------------------------ */

void verbs_connection_lose(struct verbs_connection *connection, int error, const char *doing)
{
    base_spin_lock(&connection->lock);
    const bool is_live = connection->is_live;
    if (is_live) {
        verbs_poll_locked(connection); /* messages that came before the end */
        verbs_die_locked(connection, error, doing);
    }
    error = connection->culprit == NULL ? connection->error
                                        : 0; /* a refused operation's error is reported by its user */
    doing = connection->doing;
    base_spin_unlock(&connection->lock);
    if (is_live && error != 0)
        (void)fabric_connection_fail(connection->owner, doing, error);
    fabric_bell_ring(&connection->bell);
}

void verbs_connection_beat(struct verbs_connection *connection)
{
    base_spin_lock(&connection->lock);
    verbs_poll_locked(connection);
    const bool silent = !connection->heard;
    connection->heard = false;
    connection->silent_beats = silent ? connection->silent_beats + 1 : 0;
    if (connection->silent_beats >= FABRIC_BEATS_DEAD)
        verbs_die_locked(connection, -ECONNRESET, "heartbeat");
    else if (connection->silent_beats >= FABRIC_BEATS_PROBE && connection->error == 0)
        verbs_probe_locked(connection);
    const int error = connection->culprit == NULL ? connection->error : 0;
    const char *doing = connection->doing;
    base_spin_unlock(&connection->lock);
    if (error != 0)
        (void)fabric_connection_fail(connection->owner, doing, error);
    if (!silent || error != 0)
        fabric_bell_ring(&connection->bell);
}

void verbs_connection_cut(struct verbs_connection *connection)
{
    base_spin_lock(&connection->lock);
    verbs_poll_locked(connection); /* a device may drop completions that were not fetched */
    struct ibv_qp *qp = connection->qp;
    connection->qp = NULL;
    base_spin_unlock(&connection->lock);
    if (qp != NULL)
        (void)ibv_destroy_qp(qp); /* without the lock, because this waits for the service */
}

/* Have the connection manager tell the peer that the connection has ended. */
static void tell_peer(struct verbs_connection *connection)
{
    if (connection->is_told)
        return;
    connection->is_told = true;
    (void)rdma_disconnect(connection->id);
}

/* ---- what is finished --------------------------------------------------------------------------- */

static void finish_all(struct fabric_queue *ops, int32_t result)
{
    struct tarn_fabric_op *op;
    while ((op = fabric_queue_pop(ops)) != NULL)
        fabric_op_finish(op, result);
}

/* Collect the operations that have failed with the connection; the device uses their memory no more. */
static void collect_locked(struct verbs_connection *connection, struct fabric_queue *failed)
{
    base_spin_assert_held(&connection->lock);
    for (; connection->done_count < connection->posted; connection->done_count++) {
        const uint32_t depth = connection->verbs->device.send_depth;
        struct verbs_flight *flight = &connection->flights[connection->done_count % depth];
        if (flight->op != NULL && flight->last && flight->op != connection->culprit)
            fabric_queue_push(failed, flight->op);
    }
    for (struct tarn_fabric_op *op; (op = fabric_queue_pop(&connection->waiting)) != NULL;) {
        if (op != connection->culprit)
            fabric_queue_push(failed, op);
    }
    connection->part = 0;
}

/* Finish operations that are done; on a connection that has ended, all of them. */
void verbs_progress(void *state)
{
    struct verbs_connection *connection = state;
    struct fabric_queue done = {0}, failed = {0};
    base_spin_lock(&connection->lock);
    verbs_poll_locked(connection);
    verbs_pump_locked(connection);
    fabric_queue_move_all(&done, &connection->done);
    int error = connection->error;
    const bool is_idle = connection->done_count == connection->posted;
    base_spin_unlock(&connection->lock);
    finish_all(&done, 0);
    if (error == 0)
        return;
    if (!is_idle)
        verbs_connection_cut(connection); /* what is in flight would be flushed at the device's leisure */
    base_spin_lock(&connection->lock);
    fabric_queue_move_all(&done, &connection->done);
    collect_locked(connection, &failed);
    struct tarn_fabric_op *culprit = connection->culprit;
    connection->culprit = NULL;
    base_spin_unlock(&connection->lock);
    finish_all(&done, 0);
    if (culprit != NULL)
        fabric_op_finish(culprit, error);
    (void)fabric_connection_fail(connection->owner, connection->doing, error);
    finish_all(&failed, tarn_fabric_error(connection->owner));
    tell_peer(connection);
}

/* ---- operations --------------------------------------------------------------------------------- */

/* Check an operation against its handle. A handle's own limits count only to refuse: the device checks again. */
static int check_vectors(const struct verbs_connection *connection, const struct tarn_fabric_op *op)
{
    static const uint32_t needed[TARN_FABRIC_OP_KINDS] = {
        [TARN_FABRIC_READ] = TARN_FABRIC_MAY_READ,          [TARN_FABRIC_WRITE] = TARN_FABRIC_MAY_WRITE,
        [TARN_FABRIC_WRITE_NOTIFY] = TARN_FABRIC_MAY_WRITE, [TARN_FABRIC_CAS] = TARN_FABRIC_MAY_SWAP,
        [TARN_FABRIC_FAA] = TARN_FABRIC_MAY_SWAP,
    };
    const struct tarn_fabric_handle *handle = op->handle;
    if (op->kind == TARN_FABRIC_SEND)
        return op->bytes <= connection->hello.receive_bytes ? 0 : -EMSGSIZE;
    const bool is_ours = verbs_handle_is_of(handle, connection->hello.domain);
    const bool grants = (handle->rights & needed[op->kind]) != 0;
    const bool fits = op->offset <= handle->bytes && op->bytes <= handle->bytes - op->offset;
    return is_ours && grants && fits ? 0 : -EACCES;
}

void verbs_post(void *state, struct tarn_fabric_op *op)
{
    struct verbs_connection *connection = state;
    int error = check_vectors(connection, op);
    base_spin_lock(&connection->lock);
    const int dead = connection->error;
    if (dead == 0 && error == 0)
        fabric_queue_push(&connection->waiting, op);
    base_spin_unlock(&connection->lock);
    if (dead == 0 && error == 0)
        return;
    verbs_progress(connection);
    fabric_op_finish(op, dead != 0 ? tarn_fabric_error(connection->owner) : error);
}

void verbs_posted(void *state)
{
    struct verbs_connection *connection = state;
    base_spin_lock(&connection->lock);
    verbs_pump_locked(connection);
    base_spin_unlock(&connection->lock);
}

/* A caller that waits for an operation, or, with `op` NULL, for a message. */
struct waiter {
    struct verbs_connection *connection;
    const struct tarn_fabric_op *op;
};

static bool is_ready(void *arg)
{
    const struct waiter *waiter = arg;
    struct verbs_connection *connection = waiter->connection;
    base_spin_lock(&connection->lock);
    verbs_poll_locked(connection);
    verbs_pump_locked(connection);
    const bool mine = waiter->op == NULL ? connection->arrivals_count > 0
                                         : waiter->op->finished || connection->done.first != NULL;
    const bool ready = mine || connection->error != 0;
    base_spin_unlock(&connection->lock);
    return ready;
}

static void arm_queue(void *arg)
{
    const struct waiter *waiter = arg;
    (void)ibv_req_notify_cq(waiter->connection->cq, 0);
}

int verbs_wait(void *state, struct tarn_fabric_op *op, uint64_t deadline_ns)
{
    struct waiter waiter = {.connection = state, .op = op};
    const struct fabric_condition condition = {.ready = is_ready, .arm = arm_queue, .arg = &waiter};
    int error = 0;
    for (;;) {
        verbs_progress(waiter.connection);
        if (op->finished)
            return 0;
        if (error != 0)
            return error;
        error = fabric_bell_wait(&waiter.connection->bell, &condition, deadline_ns);
    }
}

bool verbs_watch(void *state, struct fabric_watch *watch)
{
    static const struct tarn_fabric_op any; /* it never completes, so that the others alone count */
    struct verbs_connection *connection = state;
    struct waiter waiter = {.connection = connection, .op = &any};
    fabric_bell_add(&connection->bell, watch);
    arm_queue(&waiter);
    return is_ready(&waiter);
}

/* ---- receiving ---------------------------------------------------------------------------------- */

/* Copy the next message out of its slot. @return whether there was one */
static bool take_arrival(struct verbs_connection *connection, void *data,
                         struct tarn_fabric_message *ret_message)
{
    struct verbs_arrival arrival = {0};
    base_spin_lock(&connection->lock);
    verbs_poll_locked(connection);
    const bool there = connection->arrivals_count > 0;
    if (there)
        arrival = connection->arrivals[connection->arrivals_first];
    base_spin_unlock(&connection->lock);
    if (!there)
        return false;
    if (arrival.message.bytes > 0)
        memcpy(data, connection->memory + (uint64_t)arrival.slot * connection->slot_bytes,
               arrival.message.bytes);
    base_spin_lock(&connection->lock);
    connection->arrivals_first = (connection->arrivals_first + 1) % connection->receive_count;
    connection->arrivals_count--;
    connection->unposted_count++;
    if (connection->error == 0 && verbs_owes_credit_locked(connection))
        verbs_give_back_locked(connection, true);
    base_spin_unlock(&connection->lock);
    *ret_message = arrival.message;
    return true;
}

int verbs_receive(void *state, void *data, uint32_t room, uint64_t deadline_ns,
                  struct tarn_fabric_message *ret_message)
{
    struct verbs_connection *connection = state;
    struct waiter waiter = {.connection = connection};
    const struct fabric_condition condition = {
        .ready = is_ready, .arm = arm_queue, .arg = &waiter, .is_rare = connection->messages_are_rare};
    int error = 0;
    if (room < connection->receive_bytes)
        return -EINVAL;
    for (;;) {
        const bool taken = take_arrival(connection, data, ret_message);
        verbs_progress(connection);
        if (taken)
            return 0;
        if (tarn_fabric_error(connection->owner) != 0)
            return take_arrival(connection, data, ret_message) ? 0 : tarn_fabric_error(connection->owner);
        if (error != 0)
            return error;
        error = fabric_bell_wait(&connection->bell, &condition, deadline_ns);
    }
}

/* ---- ending ------------------------------------------------------------------------------------- */

void verbs_fail(void *state)
{
    struct verbs_connection *connection = state;
    base_spin_lock(&connection->lock);
    verbs_poll_locked(connection);
    verbs_die_locked(connection, tarn_fabric_error(connection->owner), "fail");
    base_spin_unlock(&connection->lock);
    verbs_progress(connection);
    fabric_bell_ring(&connection->bell); /* other tasks may wait for operations that have ended now */
}

int verbs_fence(void *state, uint64_t deadline_ns)
{
    (void)deadline_ns;
    verbs_connection_cut(state);
    return 0;
}

static bool is_idle_or_over(void *arg)
{
    const struct waiter *waiter = arg;
    struct verbs_connection *connection = waiter->connection;
    base_spin_lock(&connection->lock);
    verbs_poll_locked(connection);
    const bool ready = connection->error != 0 || connection->done_count == connection->posted;
    base_spin_unlock(&connection->lock);
    return ready;
}

/* Tell the peer that this side leaves, and wait until it has received that. */
static void say_bye(struct verbs_connection *connection)
{
    struct waiter waiter = {.connection = connection};
    const struct fabric_condition condition = {.ready = is_idle_or_over, .arm = arm_queue, .arg = &waiter};
    const uint64_t heartbeat_ns = connection->verbs->options.heartbeat_ns;
    const uint64_t until_ns = task_now() + heartbeat_ns + heartbeat_ns / 2;
    base_spin_lock(&connection->lock);
    verbs_say_bye_locked(connection);
    base_spin_unlock(&connection->lock);
    if (fabric_bell_wait(&connection->bell, &condition, until_ns) != -ECANCELED)
        return;
    while (!is_idle_or_over(&waiter) && task_now() < until_ns) /* a cancelled task cannot sleep */
        task_yield();
}

void verbs_disconnect(void *state)
{
    struct verbs_connection *connection = state;
    base_assert(connection->waiting.first == NULL);
    say_bye(connection);
    verbs_service_remove(connection);
    base_spin_lock(&connection->lock);
    connection->is_live = false;
    verbs_die_locked(connection, -ECONNABORTED, "disconnect");
    base_spin_unlock(&connection->lock);
    tell_peer(connection);
    verbs_connection_free(connection);
}
