/* Connections at work: operations and messages, and their end when one side ends. Connecting is connect.c's. */
#include "fabric/shm/shm.h"
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the end ------------------------------------------------------------------------------------ */

/* Wake the peer's service, which then rings its bell. */
static void ring_peer(struct shm_connection *connection)
{
    /* If the socket is full, the peer has not read earlier bytes yet, and will look in any case. */
    (void)send(connection->socket.fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Whether the peer can no longer write into our memory. */
static bool is_gone(void *state)
{
    const struct shm_connection *connection = state;
    return atomic_load(&connection->ended) || shm_ring_told(&connection->in) == SHM_LEFT;
}

void shm_ghost_end_locked(struct shm_connection *connection)
{
    struct fabric_service *service = &connection->shm->service;
    struct base_account *account = &connection->shm->node->memory;
    const uint64_t ring_bytes = connection->in.file.bytes;
    task_mutex_assert_held(&service->lock);
    fabric_service_forget_locked(service, &connection->socket);
    fabric_service_forget_locked(service, &connection->process);
    if (base_list_is_linked(&connection->link))
        base_list_remove(&connection->link);
    shm_file_drop(&connection->in.file);
    base_account_give(account, ring_bytes);
    shm_file_drop(&connection->out.file);
    shm_peer_domain_drop(connection->shm, &connection->peer);
    shm_exposures_end_locked(connection);
    if (connection->process.fd >= 0)
        (void)close(connection->process.fd);
    if (connection->socket.fd >= 0)
        shm_socket_close(connection->shm->closer, connection->socket.fd);
    base_free(account, connection, sizeof(*connection));
}

/* End a ghost whose peer has nothing of the domain mapped any more. */
static void end_ghost_locked(struct shm_connection *connection)
{
    if (is_gone(connection) || base_list_empty(&connection->exposures))
        shm_ghost_end_locked(connection);
}

/* The peer has failed, left or died: fail the connection and wake its waiters. */
static void peer_changed_locked(struct shm_connection *connection, int error)
{
    task_mutex_assert_held(&connection->shm->service.lock);
    if (connection->owner == NULL) {
        end_ghost_locked(connection);
        return;
    }
    (void)fabric_connection_fail(connection->owner, "peer", error);
    fabric_bell_ring(&connection->bell);
}

/* Carry out a note of the peer's. @return 0; -EPROTO and the like: the connection ends */
static int hear_locked(struct shm_connection *connection, const struct shm_note *note, int fd)
{
    if (note->kind == SHM_DROPPED)
        shm_exposure_end_locked(connection, note->key);
    else if (connection->owner != NULL && note->kind == SHM_ASK)
        return shm_exposure_begin_locked(connection, note->key);
    else if (connection->owner != NULL && note->kind != SHM_LOOK)
        return shm_peer_hear_locked(connection, note, fd);
    return 0;
}

void shm_socket_event(struct fabric_source *source)
{
    struct shm_connection *connection = base_container_of(source, struct shm_connection, socket);
    const int closer = connection->shm->closer;
    struct shm_note note;
    int fd, error = -ECONNRESET;
    ssize_t bytes = shm_note_receive(closer, source->fd, &note, &fd);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (bytes <= 0)
        fabric_service_forget_locked(&connection->shm->service, source);
    else
        error = hear_locked(connection, &note, fd);
    if (fd >= 0)
        shm_close_later(closer, fd);
    enum shm_presence presence = shm_ring_told(&connection->in);
    if (presence == SHM_PRESENT && error == 0 && connection->owner != NULL)
        fabric_bell_ring(&connection->bell);
    else
        peer_changed_locked(connection, presence == SHM_LEFT     ? -EPIPE
                                        : presence == SHM_FAILED ? -ECONNRESET
                                                                 : error);
}

void shm_process_event(struct fabric_source *source)
{
    struct shm_connection *connection = base_container_of(source, struct shm_connection, process);
    fabric_service_forget_locked(&connection->shm->service, source);
    atomic_store(&connection->ended, true);
    peer_changed_locked(connection, shm_ring_told(&connection->in) == SHM_LEFT ? -EPIPE : -ECONNRESET);
}

void shm_fail(void *state)
{
    struct shm_connection *connection = state;
    struct tarn_fabric_op *op;
    while ((op = fabric_queue_pop(&connection->pending)) != NULL)
        fabric_op_finish(op, tarn_fabric_error(connection->owner));
    shm_ring_tell(&connection->out, SHM_FAILED);
    ring_peer(connection);
    fabric_bell_ring(&connection->bell); /* another task may be asleep until a rare message comes */
}

bool shm_peer_is_there(void *state)
{
    const struct shm_connection *connection = state;
    struct pollfd polled = {.fd = connection->socket.fd, .events = POLLRDHUP};
    return poll(&polled, 1, 0) == 0;
}

int shm_fence(void *state, uint64_t deadline_ns)
{
    struct shm_connection *connection = state;
    const struct fabric_condition condition = {.ready = is_gone, .arg = connection};
    return fabric_bell_wait(&connection->bell, &condition, deadline_ns);
}

/* ---- operations --------------------------------------------------------------------------------- */

/*
 * Put a fence between the stores of completed operations and their user's next step, so that whatever the user posts,
 * loads or sends then comes after them, also a READ of another word. One fence serves a whole batch.
 */
void shm_posted(void *state)
{
    struct shm_connection *connection = state;
    if (connection->unsettled)
        tarn_fabric_mem_fence();
    connection->unsettled = false;
}

/* Copy in, the first vector last: a reader that polls it would take the cache line from the writer meanwhile. */
static FABRIC_INLINE void copy_in(struct shm_connection *connection, uint8_t *to,
                                  const struct tarn_fabric_op *op)
{
    connection->unsettled = true;
    to += op->bytes;
    for (uint32_t i = op->iov_count; i-- > 0;) {
        to -= op->iov[i].iov_len;
        fabric_lanes_store(to, op->iov[i].iov_base, op->iov[i].iov_len);
    }
}

static FABRIC_INLINE void copy_out(const struct tarn_fabric_op *op, const uint8_t *from)
{
    for (uint32_t i = 0; i < op->iov_count; i++) {
        fabric_lanes_load(op->iov[i].iov_base, from, op->iov[i].iov_len);
        from += op->iov[i].iov_len;
    }
    atomic_thread_fence(memory_order_acquire); /* as above */
}

#if defined(__x86_64__)
#define SWAP_IS_FENCE 1 /* the processor's swap is a locked instruction */
#else
#define SWAP_IS_FENCE 0 /* a later load may be carried out before the swap's store */
#endif

#define WAITS 1 /* for credit, or for the region's file */

/* @return 0; WAITS; negative errno */
static int send_message(struct shm_connection *connection, const struct tarn_fabric_message *message,
                        const struct tarn_fabric_op *op, uint32_t iov_count)
{
    int written = shm_ring_write_try(&connection->out, message, op->iov, iov_count);
    if (written <= 0)
        return written < 0 ? written : WAITS;
    if (shm_ring_peer_sleeps(&connection->out))
        ring_peer(connection);
    return 0;
}

/* Ask for the region of an operation that has found none. @return WAITS; -EACCES; -ECONNRESET */
static int ask_for_region(struct shm_connection *connection, const struct tarn_fabric_op *op)
{
    int error = shm_peer_ask(connection, op);
    return error == 0 ? WAITS : error;
}

static int write_and_notify(struct shm_connection *connection, const struct tarn_fabric_op *op)
{
    const struct tarn_fabric_message message = {.notified = true, .value = op->value};
    const struct shm_sight *sight = shm_locate(&connection->peer, op, TARN_FABRIC_MAY_WRITE);
    if (sight == NULL)
        return ask_for_region(connection, op);
    if (!shm_ring_has_credit(&connection->out))
        return WAITS;
    copy_in(connection, sight->memory + op->offset, op);
    if (!shm_sight_holds(sight))
        return -EACCES;
    return send_message(connection, &message, op, 0);
}

static FABRIC_INLINE void swap_word(struct shm_connection *connection, struct tarn_fabric_op *op,
                                    uint64_t *word)
{
    connection->unsettled = !SWAP_IS_FENCE;
    op->before = op->compare;
    if (op->kind == TARN_FABRIC_FAA)
        op->before = __atomic_fetch_add(word, op->operand, __ATOMIC_SEQ_CST);
    else
        (void)__atomic_compare_exchange_n(word, &op->before, op->operand, false, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST);
}

static int send_op(struct shm_connection *connection, const struct tarn_fabric_op *op)
{
    const struct tarn_fabric_message message = {.bytes = (uint32_t)op->bytes};
    return send_message(connection, &message, op, op->iov_count); /* TARN_FABRIC_BYTES_MAX fits */
}

/* Carry out an operation that is no message. @return whether the peer's region grants it, and did so until its bytes had moved */
static FABRIC_INLINE bool run_alone(struct shm_connection *connection, struct tarn_fabric_op *op)
{
    const bool reads = op->kind == TARN_FABRIC_READ, writes = op->kind == TARN_FABRIC_WRITE;
    const struct shm_sight *sight = shm_locate(&connection->peer, op,
                                               reads    ? TARN_FABRIC_MAY_READ
                                               : writes ? TARN_FABRIC_MAY_WRITE
                                                        : TARN_FABRIC_MAY_SWAP);
    if (base_unlikely(sight == NULL))
        return false;
    uint8_t *memory = sight->memory + op->offset;
    if (reads)
        copy_out(op, memory);
    else if (writes)
        copy_in(connection, memory, op);
    else
        swap_word(connection, op, (uint64_t *)(void *)memory);
    return shm_sight_holds(sight);
}

/* Carry out an operation. @return 0: it has completed; WAITS; negative errno */
static int run_op(struct shm_connection *connection, struct tarn_fabric_op *op)
{
    if (op->fence)
        shm_posted(connection);
    if (op->kind == TARN_FABRIC_SEND)
        return send_op(connection, op);
    if (op->kind == TARN_FABRIC_WRITE_NOTIFY)
        return write_and_notify(connection, op);
    return run_alone(connection, op) ? 0 : ask_for_region(connection, op);
}

/* Carry out waiting operations, as far as there are credit and regions. */
void shm_progress(void *state)
{
    struct shm_connection *connection = state;
    struct tarn_fabric_op *op;
    if (base_unlikely(atomic_load(&connection->peer.news) != 0))
        shm_peer_take_news(connection);
    if (base_likely(connection->pending.first == NULL))
        return;
    while ((op = connection->pending.first) != NULL && tarn_fabric_error(connection->owner) == 0) {
        int result = run_op(connection, op);
        if (result == WAITS)
            break;
        (void)fabric_queue_pop(&connection->pending);
        fabric_op_finish(op, result);
    }
    shm_posted(connection);
    if (tarn_fabric_error(connection->owner) != 0 && op != NULL)
        shm_fail(connection);
}

bool shm_run(void *state, struct tarn_fabric_op *op)
{
    struct shm_connection *connection = state;
    if (connection->pending.first != NULL || atomic_load(&connection->peer.news) != 0 ||
        (fabric_op_takes_credit(op) ? run_op(connection, op) != 0 : !run_alone(connection, op)))
        return false;
    shm_posted(connection);
    return true;
}

void shm_prefetch(void *state, const struct tarn_fabric_handle *handle, uint64_t offset, uint64_t bytes)
{
    enum { LINE_BYTES = 64, LINES = 8 /* what follows them the processor fetches by itself */ };
    const struct shm_connection *connection = state;
    const struct tarn_fabric_op op = {.handle = handle, .offset = offset, .bytes = bytes};
    const struct shm_sight *sight = shm_locate(&connection->peer, &op, 0);
    if (sight == NULL)
        return;
    const uint64_t end = offset + base_min(bytes, (uint64_t)LINES * LINE_BYTES);
    for (uint64_t at = base_align_down(offset, LINE_BYTES); at < end; at += LINE_BYTES)
        __builtin_prefetch(sight->memory + at);
}

void shm_post(void *state, struct tarn_fabric_op *op)
{
    struct shm_connection *connection = state;
    shm_progress(connection);
    bool behind = connection->pending.first != NULL && (op->fence || fabric_op_takes_credit(op));
    int result = behind ? WAITS : run_op(connection, op);
    if (result == WAITS)
        fabric_queue_push(&connection->pending, op);
    else
        fabric_op_finish(op, result);
}

/* A caller that waits for an operation. */
struct op_waiter {
    struct shm_connection *connection;
    const struct tarn_fabric_op *op;
};

/* Whether operations that wait can go on, or have failed. */
static bool has_progress(const struct shm_connection *connection)
{
    const struct shm_peer_domain *peer = &connection->peer;
    return tarn_fabric_error(connection->owner) != 0 || atomic_load(&peer->news) != 0 ||
           (atomic_load(&peer->asked) == 0 && shm_ring_has_credit(&connection->out));
}

static bool op_ready(void *arg)
{
    const struct op_waiter *waiter = arg;
    return waiter->op->finished || has_progress(waiter->connection);
}

static void op_arm(void *arg)
{
    const struct op_waiter *waiter = arg;
    shm_ring_arm(&waiter->connection->out);
}

int shm_wait(void *state, struct tarn_fabric_op *op, uint64_t deadline_ns)
{
    struct op_waiter waiter = {.connection = state, .op = op};
    const struct fabric_condition condition = {.ready = op_ready, .arm = op_arm, .arg = &waiter};
    for (;;) {
        shm_progress(waiter.connection);
        if (op->finished)
            return 0;
        int error = fabric_bell_wait(&waiter.connection->bell, &condition, deadline_ns);
        if (error != 0)
            return error;
    }
}

bool shm_watch(void *state, struct fabric_watch *watch)
{
    struct shm_connection *connection = state;
    fabric_bell_add(&connection->bell, watch);
    shm_ring_arm(&connection->out);
    return has_progress(connection);
}

/* ---- receiving ---------------------------------------------------------------------------------- */

static bool message_ready(void *arg)
{
    const struct shm_connection *connection = arg;
    return shm_ring_has_message(&connection->in) || tarn_fabric_error(connection->owner) != 0 ||
           atomic_load(&connection->peer.news) != 0;
}

static void message_arm(void *arg)
{
    struct shm_connection *connection = arg;
    shm_ring_arm(&connection->in);
}

/* @return 1; 0: there is none; negative errno */
static int receive_try(struct shm_connection *connection, void *data, struct tarn_fabric_message *ret_message)
{
    int over = tarn_fabric_error(
        connection->owner); /* read first: messages that came before the end are visible then */
    int taken = shm_ring_read_try(&connection->in, data, ret_message);
    if (taken == 0)
        return over;
    if (taken < 0) {
        (void)fabric_connection_fail(connection->owner, "receive", taken);
        shm_fail(connection);
        return tarn_fabric_error(connection->owner);
    }
    if (shm_ring_peer_sleeps(&connection->in))
        ring_peer(connection);
    return taken;
}

int shm_receive(void *state, void *data, uint32_t room, uint64_t deadline_ns,
                struct tarn_fabric_message *ret_message)
{
    struct shm_connection *connection = state;
    const struct fabric_condition condition = {.ready = message_ready,
                                               .arm = message_arm,
                                               .arg = connection,
                                               .is_rare = connection->messages_are_rare};
    if (room < connection->in.payload_bytes)
        return -EINVAL;
    for (;;) {
        shm_progress(connection);
        int taken = receive_try(connection, data, ret_message);
        if (taken != 0)
            return taken > 0 ? 0 : taken;
        int error = fabric_bell_wait(&connection->bell, &condition, deadline_ns);
        if (error != 0)
            return error;
    }
}

/* ---- ending ------------------------------------------------------------------------------------- */

void shm_disconnect(void *state)
{
    struct shm_connection *connection = state;
    struct fabric_service *service = &connection->shm->service;
    base_assert(connection->pending.first == NULL);
    task_mutex_lock_firmly(&service->lock);
    atomic_store(&connection->peer.asked, 0); /* no answer is taken from now on */
    task_mutex_unlock(&service->lock);
    shm_peer_domain_drop(connection->shm, &connection->peer);
    if (connection->out.file.memory != NULL) { /* the two sides have met */
        shm_ring_tell(&connection->out,
                      SHM_LEFT); /* if both leave at once, one of them sees the other's word */
        ring_peer(connection);
        shm_file_drop(&connection->out.file);
    }
    task_mutex_lock_firmly(&service->lock);
    connection->owner = NULL;
    end_ghost_locked(connection);
    task_mutex_unlock(&service->lock);
}
