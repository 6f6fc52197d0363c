/*
 * The initiator: operations of this side on their way to the other. They are served in the order in which they were
 * sent, so a count tells which are done, and an answer belongs to the first that has none.
 */
#include "fabric/tcp/tcp.h"
#include <errno.h>
#include <string.h>

#define WORD_BYTES 8

static struct fabric_op *op_of(struct base_list *link)
{
    return base_container_of(link, struct fabric_op, link);
}

static void die(struct tcp_wire *wire)
{
    tcp_wire_die(wire, -EPROTO, "receive", TCP_GIVES_UP);
}

static bool takes_credit(const struct fabric_op *op)
{
    return op->kind == FABRIC_SEND || op->kind == FABRIC_WRITE_NOTIFY;
}

static bool is_answered(const struct fabric_op *op)
{
    return op->kind == FABRIC_READ || op->kind == FABRIC_CAS || op->kind == FABRIC_FAA;
}

/* ---- beginning ---------------------------------------------------------------------------------- */

/* Whether an operation that is behind nobody may go. */
static bool may_begin(const struct tcp_wire *wire, const struct fabric_op *op)
{
    return (!takes_credit(op) || wire->messages_begun - wire->messages_received < wire->peer_messages) &&
           (!op->fence || wire->served >= (wire->fence_set ? wire->fence_at : wire->begun));
}

static void begin(struct tcp_wire *wire, struct fabric_op *op)
{
    base_list_push_back(&wire->posted, &op->link);
    wire->begun++;
    if (takes_credit(op))
        wire->messages_begun++;
}

/* Begin what waits, as far as it goes. */
static void begin_waiting(struct tcp_wire *wire)
{
    struct base_list *link;
    while ((link = base_list_first(&wire->waiting)) != NULL) {
        struct fabric_op *op = op_of(link);
        if (op->fence &&
            !wire->fence_set) { /* all before it have begun: those who come now it does not wait for */
            wire->fence_set = true;
            wire->fence_at = wire->begun;
        }
        if (!may_begin(wire, op))
            return;
        base_list_remove(link);
        wire->fence_set = false;
        begin(wire, op);
    }
}

int tcp_initiator_post(struct tcp_wire *wire, struct fabric_op *op)
{
    if (op->kind == FABRIC_SEND && op->bytes > wire->peer_message_bytes)
        return -EMSGSIZE;
    if (op->fence || (takes_credit(op) && (!base_list_empty(&wire->waiting) || !may_begin(wire, op)))) {
        base_list_push_back(&wire->waiting, &op->link);
        begin_waiting(wire);
    } else {
        begin(wire, op);
    }
    return 0;
}

/* ---- sending ------------------------------------------------------------------------------------ */

bool tcp_initiator_has_output(const struct tcp_wire *wire)
{
    return !base_list_empty(&wire->posted) && wire->sent - wire->served < TCP_WINDOW;
}

/* Copy a part of what an operation's vectors name, or into it. */
static void move(const struct fabric_op *op, uint64_t offset, uint8_t *bytes, uint64_t count, bool scatter)
{
    for (uint32_t i = 0; count > 0; i++) {
        const struct iovec *vector = &op->iov[i];
        if (offset >= vector->iov_len) {
            offset -= vector->iov_len;
            continue;
        }
        uint64_t piece = base_min(vector->iov_len - offset, count);
        uint8_t *memory = (uint8_t *)vector->iov_base + offset;
        if (scatter)
            memcpy(memory, bytes, piece);
        else
            memcpy(bytes, memory, piece);
        bytes += piece;
        count -= piece;
        offset = 0;
    }
}

/* The next part of an operation's bytes; at the owner's a lane is in one frame. */
static void fill_part(const struct tcp_wire *wire, const struct fabric_op *op, struct tcp_frame *frame,
                      uint8_t *to)
{
    uint64_t left = op->bytes - wire->out_bytes;
    uint64_t unaligned = op->kind == FABRIC_SEND ? 0 : (op->offset + wire->out_bytes) % WORD_BYTES;
    frame->bytes = (uint32_t)base_min(left, TCP_PAYLOAD_BYTES - unaligned);
    frame->last = frame->bytes == left;
    frame->offset = op->kind == FABRIC_SEND ? wire->out_bytes : op->offset + wire->out_bytes;
    frame->length = op->kind == FABRIC_SEND ? op->bytes : left;
    move(op, wire->out_bytes, to + TCP_HEADER_BYTES, frame->bytes, false);
}

static void fill_frame(const struct tcp_wire *wire, const struct fabric_op *op, struct tcp_frame *frame,
                       uint8_t *to)
{
    static const enum tcp_frame_kind kinds[FABRIC_OP_KINDS] = {
        [FABRIC_READ] = TCP_READ, [FABRIC_WRITE] = TCP_WRITE, [FABRIC_WRITE_NOTIFY] = TCP_WRITE_NOTIFY,
        [FABRIC_CAS] = TCP_CAS,   [FABRIC_FAA] = TCP_FAA,     [FABRIC_SEND] = TCP_SEND};
    uint8_t *payload = to + TCP_HEADER_BYTES;
    *frame = (struct tcp_frame){.kind = kinds[op->kind], .last = true, .offset = op->offset};
    if (op->handle != NULL) {
        frame->domain = op->handle->domain;
        frame->key = op->handle->key;
    }
    switch (op->kind) {
    case FABRIC_READ:
        frame->length = op->bytes;
        return;
    case FABRIC_CAS:
        base_store_le64(payload, op->compare);
        base_store_le64(payload + WORD_BYTES, op->operand);
        frame->bytes = 2 * WORD_BYTES;
        return;
    case FABRIC_FAA:
        base_store_le64(payload, op->operand);
        frame->bytes = WORD_BYTES;
        return;
    default:
        frame->value = op->kind == FABRIC_WRITE_NOTIFY ? op->value : 0;
        fill_part(wire, op, frame, to);
    }
}

size_t tcp_initiator_fill(struct tcp_wire *wire, uint8_t *to)
{
    struct tcp_frame frame;
    if (!tcp_initiator_has_output(wire))
        return 0;
    struct fabric_op *op = op_of(base_list_first(&wire->posted));
    fill_frame(wire, op, &frame, to);
    wire->out_bytes += frame.bytes;
    if (frame.last) {
        wire->out_bytes = 0;
        wire->sent++;
        base_list_remove(&op->link);
        base_list_push_back(&wire->flight, &op->link);
    }
    tcp_wire_head(wire, &frame);
    tcp_frame_seal(&frame, to);
    return TCP_HEADER_BYTES + frame.bytes;
}

/* ---- what comes back ---------------------------------------------------------------------------- */

/* Hand over what is served, up to one that still lacks its answer. */
static void finish_served(struct tcp_wire *wire, uint64_t done)
{
    while (wire->served < done) {
        struct fabric_op *op = op_of(base_list_first(&wire->flight));
        if (is_answered(op) && !wire->answered)
            return;
        wire->answered = false;
        wire->in_bytes = 0;
        wire->served++;
        base_list_remove(&op->link);
        base_list_push_back(&wire->done, &op->link);
    }
}

static void take_answer(struct tcp_wire *wire, const struct tcp_frame *frame, const uint8_t *payload)
{
    struct base_list *first = base_list_first(&wire->flight);
    struct fabric_op *op = first == NULL ? NULL : op_of(first);
    bool fits = op != NULL && is_answered(op) && !wire->answered &&
                (op->kind == FABRIC_READ) == (frame->kind == TCP_DATA) &&
                frame->bytes <= op->bytes - wire->in_bytes &&
                frame->last == (frame->bytes == op->bytes - wire->in_bytes);
    if (!fits) {
        die(wire);
        return;
    }
    if (frame->kind == TCP_DATA)
        move(op, wire->in_bytes, (uint8_t *)(uintptr_t)payload, frame->bytes, true);
    else
        op->before = base_load_le64(payload);
    wire->in_bytes += frame->bytes;
    wire->answered = frame->last;
}

void tcp_initiator_progress(struct tcp_wire *wire, const struct tcp_frame *frame, const uint8_t *payload)
{
    if (frame->done < wire->served || frame->done > wire->sent || frame->received < wire->messages_received ||
        frame->received > wire->messages_begun) {
        die(wire);
        return;
    }
    wire->messages_received = frame->received;
    finish_served(wire, frame->done);
    if (frame->kind == TCP_DATA || frame->kind == TCP_WORD) {
        take_answer(wire, frame, payload);
        finish_served(wire, frame->done);
    }
    if (wire->error == 0 && wire->served != frame->done)
        die(wire);
    else if (wire->error == 0)
        begin_waiting(wire);
}

void tcp_initiator_refused(struct tcp_wire *wire, uint64_t number)
{
    struct base_list *link = base_list_first(&wire->flight);
    for (uint64_t at = wire->served + 1; at < number && link != NULL; at++)
        link = link->next == &wire->flight ? NULL : link->next;
    if (link == NULL && number == wire->sent + 1) /* of which a part was sent */
        link = base_list_first(&wire->posted);
    if (link == NULL || number <= wire->served || op_of(link)->kind == FABRIC_SEND) {
        die(wire);
        return;
    }
    base_list_remove(link);
    wire->culprit = op_of(link);
    tcp_wire_die(wire, -EACCES, "refused by the peer", TCP_STAYS);
}
