/*
 * Work requests and completions of a connection. Requests complete in the order in which they were posted, so only the
 * last one of each batch asks for a completion, which stands for all before it. Bytes that must be copied lie in a ring
 * of registered memory, which is freed in the same order.
 */
#include "fabric/verbs/verbs.h"
#include <errno.h>
#include <string.h>

#define BATCH 16 /* the most work requests posted with one doorbell */
#define POLL  16 /* the most completions fetched at once */

#define BATCH_VECTORS 64 /* the most vectors of a batch: requests with many vectors make a batch of fewer */

#define RECEIVE_ID (UINT64_C(1) << 63) /* set in the id of a receive; the other bits are its slot */

/* What a SEND's immediate data says: its kind, and how many messages more may be sent. */
#define CONTROL_SHIFT  28
#define CONTROL_CREDIT ((UINT32_C(1) << CONTROL_SHIFT) - 1)
enum verbs_control { VERBS_MESSAGE, VERBS_CREDIT, VERBS_BYE };

void verbs_die_locked(struct verbs_connection *connection, int error, const char *doing)
{
    base_spin_assert_held(&connection->lock);
    if (connection->error != 0)
        return;
    connection->error = error;
    connection->doing = doing;
}

static uint64_t in_flight(const struct verbs_connection *connection)
{
    return connection->posted - connection->done_count;
}

static struct verbs_flight *flight_of(const struct verbs_connection *connection, uint64_t number)
{
    return &connection->flights[number % connection->verbs->device.send_depth];
}

/* ---- posting ------------------------------------------------------------------------------------ */

/* Work requests that are posted together. */
struct batch {
    uint32_t count;
    struct ibv_send_wr requests[BATCH];
    struct ibv_sge vectors[BATCH_VECTORS];
    uint32_t vectors_count;
    uint8_t small[BATCH][VERBS_INLINE_MAX]; /* what is sent inline */
};

static bool has_room(const struct verbs_connection *connection, const struct batch *batch, uint32_t spare)
{
    return in_flight(connection) + batch->count + spare < connection->verbs->device.send_depth;
}

/* Add a request to a batch that has room. @return it, without memory */
static struct ibv_send_wr *add_request(struct verbs_connection *connection, struct batch *batch,
                                       enum ibv_wr_opcode opcode, const struct verbs_flight *flight)
{
    const uint64_t number = connection->posted + batch->count;
    struct ibv_send_wr *request = &batch->requests[batch->count];
    *flight_of(connection, number) = *flight;
    flight_of(connection, number)->ring_end = connection->ring.head;
    *request = (struct ibv_send_wr){.wr_id = number, .opcode = opcode};
    if (batch->count > 0)
        batch->requests[batch->count - 1].next = request;
    batch->count++;
    return request;
}

/* Post a batch. */
static void post_batch(struct verbs_connection *connection, struct batch *batch)
{
    struct verbs *verbs = connection->verbs;
    struct ibv_send_wr *bad = NULL;
    if (batch->count == 0)
        return;
    batch->requests[batch->count - 1].send_flags |= IBV_SEND_SIGNALED;
    int error = ibv_post_send(connection->qp, batch->requests, &bad);
    const uint64_t taken = error == 0 ? batch->count : bad->wr_id - connection->posted;
    atomic_fetch_add_explicit(&verbs->doorbells, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&verbs->requests, taken, memory_order_relaxed);
    if (error != 0) {
        for (uint64_t i = taken; i < batch->count; i++) {
            struct verbs_flight *flight = flight_of(connection, connection->posted + i);
            if (flight->op != NULL && flight->last)
                fabric_queue_push(&connection->waiting, flight->op);
        }
        verbs_die_locked(connection, -error, "post");
    }
    connection->posted += taken;
    batch->count = batch->vectors_count = 0;
}

static uint32_t make_control(struct verbs_connection *connection, enum verbs_control kind)
{
    const uint32_t credit = connection->owed;
    connection->owed = 0;
    return htobe32((uint32_t)kind << CONTROL_SHIFT | credit);
}

/* Send a control message, if there is room for it. */
static void send_control(struct verbs_connection *connection, enum verbs_control kind)
{
    struct batch batch = {.count = 0};
    if (connection->qp == NULL || connection->error != 0 || !has_room(connection, &batch, 0))
        return;
    struct ibv_send_wr *request =
        add_request(connection, &batch, IBV_WR_SEND_WITH_IMM, &(struct verbs_flight){.op = NULL});
    request->imm_data = make_control(connection, kind);
    post_batch(connection, &batch);
}

void verbs_say_bye_locked(struct verbs_connection *connection)
{
    base_spin_assert_held(&connection->lock);
    send_control(connection, VERBS_BYE);
}

void verbs_probe_locked(struct verbs_connection *connection)
{
    base_spin_assert_held(&connection->lock);
    struct batch batch = {.count = 0};
    if (connection->qp == NULL || connection->probed || in_flight(connection) > 0)
        return; /* a request in flight is a probe itself */
    (void)add_request(connection, &batch, IBV_WR_RDMA_WRITE, &(struct verbs_flight){.op = NULL});
    post_batch(connection, &batch);
    connection->probed = true;
}

static enum ibv_wr_opcode opcode_of(const struct tarn_fabric_op *op, bool last)
{
    switch (op->kind) {
    case TARN_FABRIC_READ:
        return op->bytes > 0
                   ? IBV_WR_RDMA_READ
                   : IBV_WR_RDMA_WRITE; /* an empty READ is sent as an empty WRITE: either moves nothing */
    case TARN_FABRIC_WRITE_NOTIFY:
        return last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    case TARN_FABRIC_CAS:
        return IBV_WR_ATOMIC_CMP_AND_SWP;
    case TARN_FABRIC_FAA:
        return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case TARN_FABRIC_SEND:
        return IBV_WR_SEND_WITH_IMM;
    default:
        return IBV_WR_RDMA_WRITE;
    }
}

/* Set a request's address in the peer's memory, and an atomic's operands. */
static void fill_target(struct ibv_send_wr *request, const struct tarn_fabric_op *op, uint64_t at)
{
    const struct tarn_fabric_handle *handle = op->handle;
    if (op->kind == TARN_FABRIC_SEND)
        return;
    const uint64_t address = verbs_handle_address(handle) + op->offset + at;
    if (op->kind == TARN_FABRIC_CAS || op->kind == TARN_FABRIC_FAA) {
        request->wr.atomic.remote_addr = address;
        request->wr.atomic.rkey = verbs_handle_rkey(handle);
        request->wr.atomic.compare_add = op->kind == TARN_FABRIC_CAS ? op->compare : op->operand;
        request->wr.atomic.swap = op->operand;
        return;
    }
    request->wr.rdma.remote_addr = address;
    request->wr.rdma.rkey = verbs_handle_rkey(handle);
}

/* The memory of a piece of an operation, in the device's form. */
struct piece {
    struct ibv_sge *vectors;
    uint32_t count;
    unsigned flags;
};

/* Place a small piece inline in the request. @return false: it is too large, or its answer needs memory */
static bool place_inline(const struct verbs_connection *connection, struct batch *batch,
                         struct verbs_flight *flight, struct piece *ret_piece)
{
    const struct tarn_fabric_op *op = flight->op;
    if (fabric_op_is_answered(op) || op->bytes > connection->verbs->device.inline_bytes)
        return false;
    uint8_t *memory = batch->small[batch->count];
    flight->bytes = (uint32_t)op->bytes;
    if (op->bytes == 0)
        return true;
    fabric_op_copy(op, 0, memory, op->bytes, false);
    ret_piece->vectors[0] = (struct ibv_sge){.addr = (uintptr_t)memory, .length = flight->bytes};
    ret_piece->count = 1;
    ret_piece->flags = IBV_SEND_INLINE;
    return true;
}

/* Let the device use the operation's own memory, if that is registered. @return whether it is */
static bool place_direct(const struct verbs_connection *connection, struct verbs_flight *flight,
                         struct piece *ret_piece)
{
    const struct verbs_device *device = &connection->verbs->device;
    const struct tarn_fabric_op *op = flight->op;
    const uint64_t left = op->bytes - flight->at;
    const uint64_t bytes =
        op->kind == TARN_FABRIC_SEND ? left : base_min(left, UINT64_C(0) + device->piece_bytes);
    ret_piece->count =
        verbs_local_gather(connection->domain, op, flight->at, bytes, ret_piece->vectors,
                           op->kind == TARN_FABRIC_READ ? device->read_vectors : device->vectors);
    if (ret_piece->count == 0)
        return false;
    flight->bytes = (uint32_t)bytes;
    flight->is_direct = true;
    /* a large piece asks for its own completion, because a slow connection would look silent for a whole batch */
    ret_piece->flags = bytes > VERBS_PIECE_BYTES ? IBV_SEND_SIGNALED : 0;
    return true;
}

/* Place a piece in the ring, by copying. @return whether there was room */
static bool place_copy(struct verbs_connection *connection, struct verbs_flight *flight,
                       struct piece *ret_piece)
{
    struct tarn_fabric_op *op = flight->op;
    const uint64_t left = op->bytes - flight->at;
    const uint64_t bytes =
        op->kind == TARN_FABRIC_SEND ? left : base_min(left, UINT64_C(0) + VERBS_PIECE_BYTES);
    uint8_t *memory = bytes > 0 ? verbs_ring_reserve(&connection->ring, bytes) : NULL;
    if (memory == NULL)
        return bytes == 0;
    flight->memory = memory;
    flight->bytes = (uint32_t)bytes;
    flight->into = fabric_op_is_answered(op);
    if (!flight->into)
        fabric_op_copy(op, flight->at, memory, bytes, false);
    op->copied_bytes += (uint32_t)bytes;
    ret_piece->vectors[0] =
        (struct ibv_sge){.addr = (uintptr_t)memory, .length = flight->bytes, .lkey = connection->mr->lkey};
    ret_piece->count = 1;
    return true;
}

/* Add the next piece of an operation to a batch. @return whether there was room for it */
static bool add_piece(struct verbs_connection *connection, struct batch *batch, struct tarn_fabric_op *op)
{
    struct verbs_flight flight = {.op = op, .at = connection->part};
    if (batch->count == BATCH || batch->vectors_count + TARN_FABRIC_IOV_MAX > BATCH_VECTORS)
        post_batch(connection, batch);
    if (connection->error != 0 || !has_room(connection, batch, VERBS_SPARE))
        return false;
    struct piece piece = {.vectors = &batch->vectors[batch->vectors_count]};
    if (!place_inline(connection, batch, &flight, &piece) && !place_direct(connection, &flight, &piece) &&
        !place_copy(connection, &flight, &piece))
        return false;
    flight.last = flight.at + flight.bytes == op->bytes;
    struct ibv_send_wr *request = add_request(connection, batch, opcode_of(op, flight.last), &flight);
    batch->vectors_count += piece.count;
    request->sg_list = piece.vectors;
    request->num_sge = (int)piece.count;
    request->send_flags = piece.flags;
    if (op->fence && flight.at == 0 && connection->done_count < connection->answers_end)
        request->send_flags |= IBV_SEND_FENCE;
    *(fabric_op_is_answered(op) ? &connection->answers_end : &connection->writes_end) =
        connection->posted + batch->count;
    fill_target(request, op, flight.at);
    if (op->kind == TARN_FABRIC_SEND)
        request->imm_data = make_control(connection, VERBS_MESSAGE);
    else if (op->kind == TARN_FABRIC_WRITE_NOTIFY)
        request->imm_data = htobe32(op->value);
    connection->part = flight.last ? 0 : flight.at + flight.bytes;
    return true;
}

/* Add an operation to a batch. @return whether all of it was added; if not, later operations wait behind it */
static bool add_op(struct verbs_connection *connection, struct batch *batch, struct tarn_fabric_op *op)
{
    if (op->kind == TARN_FABRIC_SEND)
        verbs_give_back_locked(connection, false);
    do {
        if (!add_piece(connection, batch, op))
            return false;
    } while (connection->part != 0);
    connection->credit -= fabric_op_takes_credit(op) ? 1 : 0;
    fabric_queue_remove(&connection->waiting, op);
    return true;
}

/*
 * Whether a fence holds an operation back until requests in flight are answered. A reliable connection carries requests
 * out in their order, and the flag IBV_SEND_FENCE has the card wait for READs and swaps before them. But of the bytes of
 * two WRITEs no card says which the owner sees first.
 */
static bool is_fenced(const struct verbs_connection *connection, const struct tarn_fabric_op *op)
{
    const bool lands = op->kind == TARN_FABRIC_WRITE || op->kind == TARN_FABRIC_WRITE_NOTIFY;
    return op->fence && lands && connection->done_count < connection->writes_end;
}

void verbs_pump_locked(struct verbs_connection *connection)
{
    base_spin_assert_held(&connection->lock);
    struct batch batch;
    bool behind = false; /* an operation waits for credit or for earlier ones */
    batch.count = batch.vectors_count = 0;
    if (connection->error != 0 || connection->qp == NULL || connection->waiting.first == NULL)
        return;
    for (struct tarn_fabric_op *op = connection->waiting.first, *next; op != NULL; op = next) {
        next = op->next;
        const bool begun = connection->part > 0; /* only the first operation can be begun */
        const bool fenced = !begun && is_fenced(connection, op);
        op->trip |= fenced;
        if (!begun && (fenced || (op->fence && behind) ||
                       (fabric_op_takes_credit(op) && (behind || connection->credit == 0)))) {
            behind = true;
            continue;
        }
        if (!add_op(connection, &batch, op))
            break;
    }
    post_batch(connection, &batch);
}

/* ---- receiving ---------------------------------------------------------------------------------- */

static uint8_t *slot_memory(const struct verbs_connection *connection, uint32_t slot)
{
    return connection->memory + (uint64_t)slot * connection->slot_bytes;
}

void verbs_post_receive_locked(struct verbs_connection *connection, uint32_t slot)
{
    base_spin_assert_held(&connection->lock);
    struct ibv_sge vector = {.addr = (uintptr_t)slot_memory(connection, slot),
                             .length = connection->receive_bytes,
                             .lkey = connection->mr->lkey};
    struct ibv_recv_wr request = {.wr_id = RECEIVE_ID | slot, .sg_list = &vector, .num_sge = 1}, *bad;
    if (connection->qp == NULL || connection->error != 0)
        return;
    int error = ibv_post_recv(connection->qp, &request, &bad);
    if (error != 0)
        verbs_die_locked(connection, -error, "receive");
}

void verbs_give_back_locked(struct verbs_connection *connection, bool tell)
{
    base_spin_assert_held(&connection->lock);
    const uint32_t count = connection->receive_count;
    connection->owed += connection->unposted_count;
    for (; connection->unposted_count > 0; connection->unposted_count--) {
        const uint32_t at = (connection->arrivals_first + count - connection->unposted_count) % count;
        verbs_post_receive_locked(connection, connection->arrivals[at].slot);
    }
    if (tell && connection->owed > 0)
        send_control(connection, VERBS_CREDIT); /* without room the credit goes with the next message */
}

bool verbs_owes_credit_locked(const struct verbs_connection *connection)
{
    base_spin_assert_held(&connection->lock);
    const uint32_t returned = connection->unposted_count + connection->owed;
    return returned * 2 >= connection->receive_count - connection->arrivals_count;
}

static void take_message(struct verbs_connection *connection, const struct verbs_arrival *arrival)
{
    if (connection->arrivals_count + connection->unposted_count >= connection->receive_count) {
        verbs_die_locked(connection, -EPROTO, "credit");
        return;
    }
    const uint32_t at = (connection->arrivals_first + connection->arrivals_count) % connection->receive_count;
    connection->arrivals[at] = *arrival;
    connection->arrivals_count++;
}

/* Take a completed receive. Its values come from the peer, and so each is loaded once and checked. */
static void take_receive(struct verbs_connection *connection, const struct ibv_wc *wc)
{
    struct verbs_arrival arrival = {.slot = (uint32_t)wc->wr_id};
    if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        arrival.message.notified = true;
        arrival.message.value = be32toh(wc->imm_data);
        take_message(connection, &arrival);
        return;
    }
    const uint32_t said = be32toh(wc->imm_data);
    const uint32_t kind = said >> CONTROL_SHIFT, credit = said & CONTROL_CREDIT;
    if (wc->opcode != IBV_WC_RECV || (wc->wc_flags & IBV_WC_WITH_IMM) == 0 || kind > VERBS_BYE ||
        credit > connection->hello.receive_count - connection->credit) {
        verbs_die_locked(connection, -EPROTO, "receive");
        return;
    }
    connection->credit += credit;
    arrival.message.bytes = wc->byte_len;
    if (kind == VERBS_MESSAGE) {
        take_message(connection, &arrival);
        return;
    }
    if (kind == VERBS_BYE)
        verbs_die_locked(connection, -EPIPE, "peer");
    verbs_post_receive_locked(connection, arrival.slot);
}

/* ---- completions -------------------------------------------------------------------------------- */

/* Finish a request that has succeeded. */
static void retire_flight(struct verbs_connection *connection, const struct verbs_flight *flight)
{
    struct tarn_fabric_op *op = flight->op;
    verbs_ring_release(&connection->ring, flight->ring_end);
    if (op == NULL)
        return;
    if (flight->into && op->kind != TARN_FABRIC_READ)
        memcpy(&op->before, flight->memory,
               sizeof(op->before)); /* already in this machine's byte order, as libibverbs promises */
    else if (flight->into)
        fabric_op_copy(op, flight->at, (uint8_t *)(uintptr_t)flight->memory, flight->bytes, true);
    if (!flight->last)
        return;
    fabric_queue_push(&connection->done, op);
}

/* Translate a completion's status. */
static int error_of(enum ibv_wc_status status, const struct tarn_fabric_op *op)
{
    switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
        return -EACCES;
    case IBV_WC_REM_INV_REQ_ERR:
        return op != NULL && op->kind == TARN_FABRIC_SEND ? -EMSGSIZE : -EINVAL;
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
        return -EIO;
    default:
        return -ECONNRESET; /* flushed, never answered, or given up by the peer's device */
    }
}

static void take_completion(struct verbs_connection *connection, const struct ibv_wc *wc)
{
    const bool is_receive = (wc->wr_id & RECEIVE_ID) != 0;
    connection->heard = true;
    if (is_receive && wc->status == IBV_WC_SUCCESS) {
        if (connection->error == 0)
            take_receive(connection, wc);
        return;
    }
    if (is_receive) {
        const bool too_long = wc->status == IBV_WC_LOC_LEN_ERR;
        verbs_die_locked(connection, too_long ? -EPROTO : -ECONNRESET, "receive");
        return;
    }
    const uint64_t until = wc->wr_id + (wc->status == IBV_WC_SUCCESS ? 1 : 0);
    connection->probed = false;
    for (; !connection->has_failed && connection->done_count < until; connection->done_count++)
        retire_flight(connection, flight_of(connection, connection->done_count));
    if (wc->status == IBV_WC_SUCCESS)
        return;
    struct tarn_fabric_op *op = flight_of(connection, wc->wr_id)->op;
    if (connection->error == 0 && wc->status != IBV_WC_WR_FLUSH_ERR) {
        connection->culprit = op;
        verbs_die_locked(connection, error_of(wc->status, op), ibv_wc_status_str(wc->status));
    }
    verbs_die_locked(connection, -ECONNRESET, "peer");
    connection->has_failed = true;
}

void verbs_poll_locked(struct verbs_connection *connection)
{
    base_spin_assert_held(&connection->lock);
    struct ibv_wc wcs[POLL];
    int count = 0;
    do {
        count = connection->cq == NULL ? 0 : ibv_poll_cq(connection->cq, POLL, wcs);
        for (int i = 0; i < count; i++)
            take_completion(connection, &wcs[i]);
        if (count > 0)
            atomic_fetch_add_explicit(&connection->verbs->completions, (uint64_t)count, memory_order_relaxed);
    } while (count == POLL);
}
