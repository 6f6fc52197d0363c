/*
 * The initiator: this side's operations on their way to the other. The other side serves them in the order in which they
 * were sent: so a count says which are done, and an answer belongs to the first operation that has none. The other
 * side's requests are target.c's.
 */
#include "fabric/tcp/frame.h"
#include "fabric/tcp/tcp.h"
#include "fabric/tcp/wire.h"
#include <errno.h>
#include <string.h>

#define WORD_BYTES 8

/* ---- beginning ---------------------------------------------------------------------------------- */

/*
 * Whether a fence holds an operation back. The other side serves requests in the order in which they are sent, but for
 * READs, which it answers when there is room: so only READs before it have to be answered first.
 */
static bool is_fenced(const struct tcp_wire *wire, const struct tarn_fabric_op *op)
{
    return op->fence && wire->served < (wire->fence_set ? wire->fence_at : wire->reads_begun);
}

/* Whether an operation with none before it in the queue may begin. */
static bool may_begin(const struct tcp_wire *wire, const struct tarn_fabric_op *op)
{
    return (!fabric_op_takes_credit(op) ||
            wire->messages_begun - wire->messages_received < wire->peer_messages) &&
           !is_fenced(wire, op);
}

static void begin_op(struct tcp_wire *wire, struct tarn_fabric_op *op)
{
    fabric_queue_push(&wire->posted, op);
    wire->begun++;
    if (op->kind == TARN_FABRIC_READ)
        wire->reads_begun = wire->begun;
    if (fabric_op_takes_credit(op))
        wire->messages_begun++;
}

/* Begin waiting operations, as far as credit and fences allow. */
static void begin_waiting(struct tcp_wire *wire)
{
    struct tarn_fabric_op *op;
    while ((op = wire->waiting.first) != NULL) {
        if (op->fence &&
            !wire->fence_set) { /* all before it have begun; it does not wait for those that come later */
            wire->fence_set = true;
            wire->fence_at = wire->reads_begun;
        }
        op->trip |= is_fenced(wire, op);
        if (!may_begin(wire, op))
            return;
        (void)fabric_queue_pop(&wire->waiting);
        wire->fence_set = false;
        begin_op(wire, op);
    }
}

int tcp_initiator_post(struct tcp_wire *wire, struct tarn_fabric_op *op)
{
    if (op->kind == TARN_FABRIC_SEND && op->bytes > wire->peer_message_bytes)
        return -EMSGSIZE;
    if (op->fence || (fabric_op_takes_credit(op) && (wire->waiting.first != NULL || !may_begin(wire, op)))) {
        fabric_queue_push(&wire->waiting, op);
        begin_waiting(wire);
    } else {
        begin_op(wire, op);
    }
    return 0;
}

/* ---- sending ------------------------------------------------------------------------------------ */

bool tcp_initiator_has_output(const struct tcp_wire *wire)
{
    return wire->posted.first != NULL && wire->sent - wire->served < TCP_WINDOW;
}

/* Fill in the next part of an operation's bytes; no lane of the owner's memory is cut by a frame's end. */
static void fill_part(const struct tcp_wire *wire, const struct tarn_fabric_op *op, struct tcp_frame *frame,
                      uint8_t *to, size_t room)
{
    const uint64_t left = op->bytes - wire->out_bytes;
    frame->offset = op->kind == TARN_FABRIC_SEND ? wire->out_bytes : op->offset + wire->out_bytes;
    frame->length = op->kind == TARN_FABRIC_SEND ? op->bytes : left;
    frame->bulk = op->kind != TARN_FABRIC_SEND && (op->handle->rights & TARN_FABRIC_BULK) != 0;
    frame->bytes = tcp_wire_part(left, frame->offset, frame->bulk ? TCP_BULK_BYTES : TCP_PAYLOAD_BYTES, room);
    frame->last = frame->bytes == left;
    fabric_op_copy(op, wire->out_bytes, to + TCP_HEADER_BYTES, frame->bytes, false);
}

static void fill_frame(const struct tcp_wire *wire, const struct tarn_fabric_op *op, struct tcp_frame *frame,
                       uint8_t *to, size_t room)
{
    static const enum tcp_frame_kind kinds[TARN_FABRIC_OP_KINDS] = {
        [TARN_FABRIC_READ] = TCP_READ,
        [TARN_FABRIC_WRITE] = TCP_WRITE,
        [TARN_FABRIC_WRITE_NOTIFY] = TCP_WRITE_NOTIFY,
        [TARN_FABRIC_CAS] = TCP_CAS,
        [TARN_FABRIC_FAA] = TCP_FAA,
        [TARN_FABRIC_SEND] = TCP_SEND};
    uint8_t *payload = to + TCP_HEADER_BYTES;
    *frame = (struct tcp_frame){.kind = kinds[op->kind], .last = true, .offset = op->offset};
    if (op->handle != NULL) {
        frame->domain = op->handle->domain;
        frame->key = op->handle->key;
    }
    switch (op->kind) {
    case TARN_FABRIC_READ:
        frame->length = op->bytes;
        return;
    case TARN_FABRIC_CAS:
        base_store_le64(payload, op->compare);
        base_store_le64(payload + WORD_BYTES, op->operand);
        frame->bytes = 2 * WORD_BYTES;
        return;
    case TARN_FABRIC_FAA:
        base_store_le64(payload, op->operand);
        frame->bytes = WORD_BYTES;
        return;
    default:
        frame->value = op->kind == TARN_FABRIC_WRITE_NOTIFY ? op->value : 0;
        fill_part(wire, op, frame, to, room);
    }
}

size_t tcp_initiator_fill(struct tcp_wire *wire, uint8_t *to, size_t room)
{
    struct tcp_frame frame;
    if (!tcp_initiator_has_output(wire))
        return 0;
    struct tarn_fabric_op *op = wire->posted.first;
    fill_frame(wire, op, &frame, to, room);
    wire->out_bytes += frame.bytes;
    if (frame.last) {
        wire->out_bytes = 0;
        wire->sent++;
        fabric_queue_push(&wire->flight, fabric_queue_pop(&wire->posted));
    }
    return tcp_wire_seal(wire, &frame, to);
}

/* ---- what comes back ---------------------------------------------------------------------------- */

/* Hand over served operations, up to the first that still lacks its answer. */
static void finish_served(struct tcp_wire *wire, uint64_t done)
{
    while (wire->served < done) {
        struct tarn_fabric_op *op = wire->flight.first;
        if (fabric_op_is_answered(op) && !wire->answered)
            return;
        wire->answered = false;
        wire->in_bytes = 0;
        wire->served++;
        fabric_queue_push(&wire->done, fabric_queue_pop(&wire->flight));
    }
}

/* Whether an answer belongs to the first operation that has none. */
static bool is_expected(const struct tcp_wire *wire, const struct tcp_frame *frame)
{
    const struct tarn_fabric_op *op = wire->flight.first;
    return op != NULL && fabric_op_is_answered(op) && !wire->answered &&
           (op->kind == TARN_FABRIC_READ) == (frame->kind == TCP_DATA) &&
           (frame->kind == TCP_DATA || frame->last) && frame->bytes <= op->bytes - wire->in_bytes &&
           frame->last == (frame->bytes == op->bytes - wire->in_bytes);
}

/* After all of a frame was taken: its count must agree with the answers that have come. */
static void settle_counts(struct tcp_wire *wire, const struct tcp_frame *frame)
{
    finish_served(wire, frame->done);
    if (wire->served != frame->done)
        tcp_wire_refuse(wire);
    else
        begin_waiting(wire);
}

void tcp_initiator_progress(struct tcp_wire *wire, const struct tcp_frame *frame, const uint8_t *payload)
{
    if (frame->done < wire->served || frame->done > wire->sent || frame->received < wire->messages_received ||
        frame->received > wire->messages_begun) {
        tcp_wire_refuse(wire);
        return;
    }
    wire->messages_received = frame->received;
    finish_served(wire, frame->done);
    const bool answers = frame->kind == TCP_DATA || frame->kind == TCP_WORD;
    if (answers && !is_expected(wire, frame)) {
        tcp_wire_refuse(wire);
        return;
    }
    if (frame->kind == TCP_DATA)
        return;
    if (answers) {
        wire->flight.first->before = base_load_le64(payload);
        wire->answered = true;
    }
    settle_counts(wire, frame);
}

void tcp_initiator_room(const struct tcp_wire *wire, uint64_t at, struct tcp_room *ret_room)
{
    const struct tarn_fabric_op *op = wire->flight.first;
    const struct iovec *vector = op->iov;
    for (at += wire->in_bytes; at >= vector->iov_len; vector++)
        at -= vector->iov_len;
    *ret_room = (struct tcp_room){.memory = (uint8_t *)vector->iov_base + at, .bytes = vector->iov_len - at};
}

void tcp_initiator_end(struct tcp_wire *wire, const struct tcp_frame *frame)
{
    wire->in_bytes += frame->bytes;
    wire->answered = frame->last;
    settle_counts(wire, frame);
}

void tcp_initiator_refused(struct tcp_wire *wire, uint64_t number)
{
    struct fabric_queue *queue = &wire->flight;
    struct tarn_fabric_op *op = queue->first;
    for (uint64_t at = wire->served + 1; at < number && op != NULL; at++)
        op = op->next;
    if (op == NULL &&
        number == wire->sent + 1) { /* the refused operation is the one of which only a part was sent */
        queue = &wire->posted;
        op = queue->first;
    }
    if (op == NULL || number <= wire->served || op->kind == TARN_FABRIC_SEND) {
        tcp_wire_refuse(wire);
        return;
    }
    fabric_queue_remove(queue, op);
    wire->culprit = op;
    tcp_wire_die(wire, -EACCES, "refused by the peer", TCP_STAYS);
}
