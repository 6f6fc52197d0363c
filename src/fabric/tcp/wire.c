/* The two directions of a connection together: frames in, frames out, the end. No socket, no lock, no yield. */
#include "fabric/tcp/wire.h"
#include "fabric/tcp/domain.h"
#include "fabric/tcp/frame.h"
#include "fabric/tcp/tcp.h"
#include <errno.h>

void tcp_wire_begin(struct tcp_wire *wire, struct tcp_domain *domain, uint32_t peer_messages,
                    uint32_t peer_message_bytes)
{
    wire->domain = domain;
    wire->peer_messages = peer_messages;
    wire->peer_message_bytes = peer_message_bytes;
}

void tcp_wire_die(struct tcp_wire *wire, int error, const char *doing, enum tcp_farewell farewell)
{
    if (wire->error == 0) {
        wire->error = error;
        wire->doing = doing;
        wire->farewell = farewell;
    } else if (wire->farewell == TCP_STAYS && farewell == TCP_LEAVES) {
        wire->farewell =
            TCP_LEAVES; /* the other side knows the error, but not that this side has disconnected */
    }
}

/* ---- frames that come --------------------------------------------------------------------------- */

static void take_bye(struct tcp_wire *wire, const struct tcp_frame *frame)
{
    switch (frame->value) {
    case TCP_LEAVES:
        tcp_wire_die(wire, -EPIPE, "peer", TCP_STAYS);
        return;
    case TCP_REFUSES:
        tcp_initiator_refused(wire, frame->offset);
        return;
    case TCP_GIVES_UP:
        tcp_wire_die(wire, -ECONNRESET, "peer", TCP_STAYS);
        return;
    default:
        tcp_wire_die(wire, -EPROTO, "receive", TCP_GIVES_UP);
    }
}

static void take_frame(struct tcp_wire *wire, const uint8_t *bytes)
{
    struct tcp_frame frame;
    const uint8_t *payload = bytes + TCP_HEADER_BYTES;
    if (tcp_frame_open(bytes, &frame) != 0) {
        tcp_wire_die(wire, -EPROTO, "receive", TCP_GIVES_UP);
        return;
    }
    tcp_initiator_progress(wire, &frame, payload);
    if (wire->error != 0)
        return;
    wire->reply_due |= frame.probe;
    if (frame.kind == TCP_BYE)
        take_bye(wire, &frame);
    else if (frame.kind <= TCP_SEND)
        tcp_target_take(wire, &frame, payload);
}

/* Pass the turn to the next socket after a large frame. */
static void pass_turn(const struct tcp_wire *wire, uint32_t *turn, size_t frame_bytes)
{
    if (wire->sockets > 1 && frame_bytes >= TCP_HEADER_BYTES + TCP_LARGE_BYTES)
        *turn = (*turn + 1) % wire->sockets;
}

size_t tcp_wire_take(struct tcp_wire *wire, const uint8_t *bytes, size_t count)
{
    size_t at = 0;
    const uint32_t turn = wire->in_turn;
    while (wire->error == 0 && wire->in_turn == turn && count - at >= TCP_HEADER_BYTES) {
        uint32_t frame_bytes = tcp_frame_bytes(bytes + at);
        if (frame_bytes == 0)
            tcp_wire_die(wire, -EPROTO, "receive", TCP_GIVES_UP);
        if (frame_bytes == 0 || frame_bytes > count - at)
            break;
        take_frame(wire, bytes + at);
        pass_turn(wire, &wire->in_turn, frame_bytes);
        at += frame_bytes;
    }
    return wire->error == 0 ? at : count; /* input that arrives after an error is discarded */
}

/* ---- frames that go ----------------------------------------------------------------------------- */

void tcp_wire_head(struct tcp_wire *wire, struct tcp_frame *frame)
{
    frame->done = tcp_target_done(wire);
    frame->received = wire->messages.received;
    wire->done_told = frame->done;
    wire->messages.told = frame->received;
    wire->reply_due = false;
}

/* Whether the peer should learn counts that any frame carries, while no frame is about to go. */
static bool has_news(const struct tcp_wire *wire)
{
    return wire->probe_due || wire->reply_due || tcp_target_done(wire) != wire->done_told ||
           tcp_target_owes_credit(wire);
}

bool tcp_wire_has_output(const struct tcp_wire *wire)
{
    if (wire->error != 0)
        return wire->farewell != TCP_STAYS && !wire->farewell_said;
    return wire->answers_count > 0 || tcp_initiator_has_output(wire) || has_news(wire);
}

static size_t fill_state(struct tcp_wire *wire, uint8_t *to)
{
    struct tcp_frame frame = {.kind = TCP_STATE, .probe = wire->probe_due};
    wire->probe_due = false;
    tcp_wire_head(wire, &frame);
    tcp_frame_seal(&frame, to);
    return TCP_HEADER_BYTES;
}

static size_t fill_bye(struct tcp_wire *wire, uint8_t *to)
{
    struct tcp_frame frame = {.kind = TCP_BYE, .value = (uint32_t)wire->farewell, .offset = wire->refused};
    wire->farewell_said = true;
    tcp_wire_head(wire, &frame);
    tcp_frame_seal(&frame, to);
    return TCP_HEADER_BYTES;
}

static bool may_fill(const struct tcp_wire *wire, uint32_t turn, size_t at)
{
    return wire->error == 0 && wire->out_turn == turn && at + TCP_FRAME_BYTES < TCP_OUT_BYTES;
}

size_t tcp_wire_fill(struct tcp_wire *wire, uint8_t *out)
{
    const uint32_t turn = wire->out_turn;
    size_t at = 0, more = 1;
    while (may_fill(wire, turn, at) && more > 0) {
        /* requests and answers take turns, so that neither starves the other */
        more = tcp_target_fill(wire, out + at);
        pass_turn(wire, &wire->out_turn, more);
        at += more;
        if (may_fill(wire, turn, at)) {
            size_t request = tcp_initiator_fill(wire, out + at);
            pass_turn(wire, &wire->out_turn, request);
            more += request;
            at += request;
        }
    }
    if (wire->out_turn != turn)
        return at; /* the rest goes by the next socket */
    if (wire->error == 0 && has_news(wire) && at + TCP_HEADER_BYTES <= TCP_OUT_BYTES)
        at += fill_state(wire, out + at);
    if (wire->error != 0 && tcp_wire_has_output(wire) && at + TCP_HEADER_BYTES <= TCP_OUT_BYTES)
        at += fill_bye(wire, out + at);
    return at;
}
