/* The two directions of a connection together: frames in, frames out, the end. No socket, no lock, no yield. */
#include "fabric/tcp/wire.h"
#include "fabric/tcp/domain.h"
#include "fabric/tcp/frame.h"
#include "fabric/tcp/tcp.h"
#include <errno.h>
#include <string.h>

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

void tcp_wire_refuse(struct tcp_wire *wire)
{
    tcp_wire_die(wire, -EPROTO, "receive", TCP_GIVES_UP);
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
        tcp_wire_refuse(wire);
    }
}

/* Pass the turn to the next socket after a large frame. */
static void pass_turn(const struct tcp_wire *wire, uint32_t *turn, size_t frame_bytes)
{
    if (wire->sockets > 1 && frame_bytes >= TCP_HEADER_BYTES + TCP_LARGE_BYTES)
        *turn = (*turn + 1) % wire->sockets;
}

static void end_frame(struct tcp_wire *wire, const struct tcp_frame *frame)
{
    wire->header_next = frame->bytes > TCP_PAYLOAD_BYTES;
    pass_turn(wire, &wire->in_turn, TCP_HEADER_BYTES + frame->bytes);
}

/* Whether a frame's payload is received where it belongs; if not, it waits until it is there whole. */
static bool is_placed(const struct tcp_frame *frame)
{
    return frame->kind == TCP_DATA || frame->bulk;
}

static bool is_whole(const struct tcp_wire *wire, const struct tcp_frame *frame, uint32_t checksum)
{
    return wire->in_tls || frame->checksum == checksum;
}

static void end_arrival(struct tcp_wire *wire)
{
    const struct tcp_frame *frame = &wire->arrival.frame;
    if (!is_whole(wire, frame, wire->arrival.checksum))
        tcp_wire_refuse(wire);
    else if (frame->kind == TCP_DATA)
        tcp_initiator_end(wire, frame);
    else
        tcp_target_end(wire, frame);
    end_frame(wire, frame);
}

bool tcp_wire_room_get(struct tcp_wire *wire, struct tcp_room *ret_room)
{
    const struct tcp_arrival *arrival = &wire->arrival;
    const uint32_t at = arrival->frame.bytes - arrival->left;
    if (wire->error != 0 || arrival->left == 0)
        return false;
    if (arrival->frame.kind == TCP_DATA)
        tcp_initiator_room(wire, at, ret_room);
    else if (!tcp_target_room_get(wire, &arrival->frame, at, ret_room))
        return false;
    ret_room->bytes = base_min(ret_room->bytes, (size_t)arrival->left);
    return true;
}

void tcp_wire_room_put(struct tcp_wire *wire, const struct tcp_room *room, size_t bytes)
{
    struct tcp_arrival *arrival = &wire->arrival;
    if (!wire->in_tls)
        arrival->checksum = base_crc32c(arrival->checksum, room->memory, bytes);
    if (room->region != NULL)
        tcp_region_put(room->region);
    wire->large_came |= arrival->frame.bytes >= TCP_LARGE_BYTES;
    arrival->left -= (uint32_t)bytes;
    if (arrival->left == 0)
        end_arrival(wire);
}

/* Take received bytes of a payload to its place. @return bytes taken */
static size_t take_payload(struct tcp_wire *wire, const uint8_t *bytes, size_t count)
{
    struct tcp_room room;
    if (count == 0 || !tcp_wire_room_get(wire, &room))
        return 0;
    const size_t piece = base_min(count, room.bytes);
    memcpy(room.memory, bytes, piece);
    tcp_wire_room_put(wire, &room, piece);
    return piece;
}

/* Take the counts of a frame and, unless its payload has yet to come, all of it. */
static void take_whole(struct tcp_wire *wire, const struct tcp_frame *frame, const uint8_t *payload)
{
    tcp_initiator_progress(wire, frame, payload);
    if (wire->error != 0)
        return;
    wire->reply_due |= frame->probe;
    if (frame->bulk)
        tcp_target_begin(wire, frame);
    else if (frame->kind == TCP_BYE)
        take_bye(wire, frame);
    else if (frame->kind <= TCP_SEND)
        tcp_target_take(wire, frame, payload);
}

/* Take the next frame, or its header if its payload goes elsewhere. @return bytes taken; 0: more must come */
static size_t take_frame(struct tcp_wire *wire, const uint8_t *bytes, size_t count)
{
    struct tcp_frame *frame = &wire->arrival.frame; /* the previous one is over */
    const uint8_t *payload = bytes + TCP_HEADER_BYTES;
    if (count < TCP_HEADER_BYTES)
        return 0;
    if (tcp_frame_open(bytes, frame) != 0) {
        tcp_wire_refuse(wire);
        return 0;
    }
    wire->header_next = false;
    wire->large_came |= frame->bytes >= TCP_LARGE_BYTES;
    if (is_placed(frame)) {
        take_whole(wire, frame, NULL);
        wire->arrival.left = frame->bytes;
        wire->arrival.checksum = 0;
        if (wire->error == 0 && frame->bytes == 0)
            end_arrival(wire);
        return TCP_HEADER_BYTES;
    }
    const size_t frame_bytes = TCP_HEADER_BYTES + frame->bytes;
    if (frame->bytes <= TCP_PAYLOAD_BYTES && count < frame_bytes)
        return 0;
    if (frame->bytes > TCP_PAYLOAD_BYTES ||
        !is_whole(wire, frame, wire->in_tls ? 0 : tcp_payload_checksum(payload, frame->bytes))) {
        tcp_wire_refuse(wire);
        return 0;
    }
    take_whole(wire, frame, payload);
    end_frame(wire, frame);
    return frame_bytes;
}

size_t tcp_wire_take(struct tcp_wire *wire, const uint8_t *bytes, size_t count)
{
    size_t at = 0, more = 1;
    const uint32_t turn = wire->in_turn;
    while (wire->error == 0 && wire->in_turn == turn && more > 0) {
        more = wire->arrival.left > 0 ? take_payload(wire, bytes + at, count - at)
                                      : take_frame(wire, bytes + at, count - at);
        at += more;
    }
    return wire->error == 0 ? at : count; /* input that arrives after an error is discarded */
}

/* ---- frames that go ----------------------------------------------------------------------------- */

size_t tcp_wire_seal(struct tcp_wire *wire, struct tcp_frame *frame, uint8_t *to)
{
    frame->done = tcp_target_done(wire);
    frame->received = wire->messages.received;
    wire->done_told = frame->done;
    wire->messages.told = frame->received;
    wire->reply_due = false;
    tcp_frame_seal(frame, !wire->in_tls, to);
    return TCP_HEADER_BYTES + frame->bytes;
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
    return tcp_wire_seal(wire, &frame, to);
}

static size_t fill_bye(struct tcp_wire *wire, uint8_t *to)
{
    struct tcp_frame frame = {.kind = TCP_BYE, .value = (uint32_t)wire->farewell, .offset = wire->refused};
    wire->farewell_said = true;
    return tcp_wire_seal(wire, &frame, to);
}

uint32_t tcp_wire_part(uint64_t left, uint64_t offset, uint64_t bytes_max, size_t room)
{
    const uint64_t most = base_min(bytes_max, base_align_down(room - TCP_HEADER_BYTES, FABRIC_WORD_BYTES));
    return (uint32_t)base_min(left, most - offset % FABRIC_WORD_BYTES);
}

/* Room for the next frame, when STATE or BYE shall fit behind it. */
static size_t room_at(size_t at)
{
    return TCP_OUT_BYTES - TCP_HEADER_BYTES - at;
}

static bool may_fill(const struct tcp_wire *wire, uint32_t turn, size_t at)
{
    return wire->error == 0 && wire->out_turn == turn && room_at(at) >= TCP_FRAME_BYTES;
}

size_t tcp_wire_fill(struct tcp_wire *wire, uint8_t *out)
{
    const uint32_t turn = wire->out_turn;
    size_t at = 0;
    /* requests and answers take turns, so that neither starves the other */
    for (unsigned failures = 0; may_fill(wire, turn, at) && failures < 2;) {
        const size_t more = wire->request_next ? tcp_initiator_fill(wire, out + at, room_at(at))
                                               : tcp_target_fill(wire, out + at, room_at(at));
        wire->request_next = !wire->request_next;
        failures = more > 0 ? 0 : failures + 1;
        pass_turn(wire, &wire->out_turn, more);
        at += more;
    }
    if (wire->out_turn != turn)
        return at; /* the rest goes by the next socket */
    if (wire->error == 0 && has_news(wire) && at + TCP_HEADER_BYTES <= TCP_OUT_BYTES)
        at += fill_state(wire, out + at);
    if (wire->error != 0 && tcp_wire_has_output(wire) && at + TCP_HEADER_BYTES <= TCP_OUT_BYTES)
        at += fill_bye(wire, out + at);
    return at;
}
