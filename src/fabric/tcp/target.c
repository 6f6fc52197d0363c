/*
 * The target: it serves the other side's requests, as a network card does for its host. Every request is checked against
 * the table of regions when it is taken, and a READ again for each frame of its answer.
 */
#include "fabric/tcp/domain.h"
#include "fabric/tcp/frame.h"
#include "fabric/tcp/tcp.h"
#include "fabric/tcp/wire.h"
#include <errno.h>
#include <string.h>

#define WORD_BYTES 8

/* The head of a slot that holds a waiting message. */
struct slot {
    uint32_t bytes;
    uint32_t value;
    uint32_t notified;
    uint32_t unused;
    uint8_t payload[];
};

_Static_assert(TCP_MESSAGE_HEAD_BYTES == sizeof(struct slot), "slot_bytes has room for it");

static void refuse_request(struct tcp_wire *wire, uint64_t number)
{
    wire->refused = number;
    tcp_wire_die(wire, -ECONNRESET, "refused request of the peer", TCP_REFUSES);
}

uint64_t tcp_target_done(const struct tcp_wire *wire)
{
    return wire->answers_count == 0 ? wire->requests : wire->answers[wire->answers_first].number - 1;
}

/* ---- messages ----------------------------------------------------------------------------------- */

static struct slot *slot_at(const struct tcp_messages *messages, uint64_t number)
{
    return (struct slot *)(void *)(messages->memory + number % messages->count * messages->slot_bytes);
}

static bool has_room(const struct tcp_messages *messages)
{
    return messages->arrived - messages->received < messages->count;
}

/* So a user that receives many messages in a row has few frames sent, and a peer without credit gets some at once. */
bool tcp_target_owes_credit(const struct tcp_wire *wire)
{
    const struct tcp_messages *messages = &wire->messages;
    const uint64_t untold = messages->received - messages->told;
    return untold > 0 && untold >= messages->count - (messages->arrived - messages->told);
}

static void take_send(struct tcp_wire *wire, const struct tcp_frame *frame, const uint8_t *payload)
{
    struct tcp_messages *messages = &wire->messages;
    uint64_t end = frame->offset + frame->bytes;
    if (frame->length > messages->bytes || frame->offset != messages->part || end > frame->length ||
        frame->last != (end == frame->length) || !has_room(messages)) {
        tcp_wire_refuse(wire);
        return;
    }
    struct slot *slot = slot_at(messages, messages->arrived);
    memcpy(slot->payload + frame->offset, payload, frame->bytes);
    messages->part = end;
    messages->parted = !frame->last;
    if (!frame->last)
        return;
    *slot = (struct slot){.bytes = (uint32_t)end};
    messages->part = 0;
    messages->arrived++;
    wire->requests++;
}

bool tcp_target_has_message(const struct tcp_wire *wire)
{
    return wire->messages.received != wire->messages.arrived;
}

const uint8_t *tcp_target_message(const struct tcp_wire *wire, struct tarn_fabric_message *ret_message)
{
    const struct tcp_messages *messages = &wire->messages;
    if (!tcp_target_has_message(wire))
        return NULL;
    const struct slot *slot = slot_at(messages, messages->received);
    *ret_message = (struct tarn_fabric_message){
        .notified = slot->notified != 0, .value = slot->value, .bytes = slot->bytes};
    return slot->payload;
}

void tcp_target_received(struct tcp_wire *wire)
{
    wire->messages.received++;
}

/* ---- requests ----------------------------------------------------------------------------------- */

static void add_answer(struct tcp_wire *wire, struct tcp_answer answer)
{
    base_assert(wire->answers_count < TCP_WINDOW);
    answer.number = ++wire->requests;
    wire->answers[(wire->answers_first + wire->answers_count++) % TCP_WINDOW] = answer;
}

static void take_read(struct tcp_wire *wire, const struct tcp_frame *frame)
{
    if (!frame->last || frame->bytes != 0 || frame->length > TARN_FABRIC_BYTES_MAX) {
        tcp_wire_refuse(wire);
        return;
    }
    struct tcp_region *region = tcp_region_get(wire->domain, frame->domain, frame->key, TARN_FABRIC_MAY_READ,
                                               frame->offset, frame->length);
    if (region == NULL) {
        refuse_request(wire, wire->requests + 1);
        return;
    }
    tcp_region_put(region);
    add_answer(wire, (struct tcp_answer){.key = frame->key, .offset = frame->offset, .left = frame->length});
}

static bool notifies(const struct tcp_frame *frame)
{
    return frame->kind == TCP_WRITE_NOTIFY && frame->last;
}

/* Check a frame of a WRITE, and find its region. Each says how many bytes are still to come, so a WRITE that does not fit
 * is refused before its first byte is stored. @return the region, to be given back; NULL: refused */
static struct tcp_region *open_write(struct tcp_wire *wire, const struct tcp_frame *frame)
{
    const uint32_t rights = TARN_FABRIC_MAY_WRITE | (frame->bulk ? TARN_FABRIC_BULK : 0);
    if (frame->length > TARN_FABRIC_BYTES_MAX || frame->bytes > frame->length ||
        frame->last != (frame->bytes == frame->length) || (notifies(frame) && !has_room(&wire->messages))) {
        tcp_wire_refuse(wire);
        return NULL;
    }
    struct tcp_region *region =
        tcp_region_get(wire->domain, frame->domain, frame->key, rights, frame->offset, frame->length);
    if (region == NULL)
        refuse_request(wire, wire->requests + 1);
    return region;
}

void tcp_target_end(struct tcp_wire *wire, const struct tcp_frame *frame)
{
    tarn_fabric_mem_fence(); /* an operation that is posted after this one has completed comes after its stores, a READ included */
    if (notifies(frame)) {
        *slot_at(&wire->messages, wire->messages.arrived) =
            (struct slot){.value = frame->value, .notified = 1};
        wire->messages.arrived++;
    }
    if (frame->last)
        wire->requests++;
}

static void take_write(struct tcp_wire *wire, const struct tcp_frame *frame, const uint8_t *payload)
{
    struct tcp_region *region = open_write(wire, frame);
    if (region == NULL)
        return;
    fabric_lanes_store(region->memory + frame->offset, payload, frame->bytes);
    tcp_region_put(region);
    tcp_target_end(wire, frame);
}

static void take_swap(struct tcp_wire *wire, const struct tcp_frame *frame, const uint8_t *payload)
{
    bool add = frame->kind == TCP_FAA;
    if (!frame->last || frame->bytes != (add ? WORD_BYTES : 2 * WORD_BYTES) ||
        !base_is_aligned(frame->offset, WORD_BYTES)) {
        tcp_wire_refuse(wire);
        return;
    }
    struct tcp_region *region = tcp_region_get(wire->domain, frame->domain, frame->key, TARN_FABRIC_MAY_SWAP,
                                               frame->offset, WORD_BYTES);
    if (region == NULL) {
        refuse_request(wire, wire->requests + 1);
        return;
    }
    uint64_t *word = (uint64_t *)(void *)(region->memory + frame->offset);
    uint64_t before = base_load_le64(payload);
    if (add)
        before = __atomic_fetch_add(word, before, __ATOMIC_SEQ_CST);
    else
        (void)__atomic_compare_exchange_n(word, &before, base_load_le64(payload + WORD_BYTES), false,
                                          __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    tcp_region_put(region);
    add_answer(wire, (struct tcp_answer){.is_word = true, .word = before});
}

/* Whether the other side may send this request now. */
static bool is_in_turn(const struct tcp_wire *wire, const struct tcp_frame *frame)
{
    return wire->requests - wire->done_told < TCP_WINDOW &&
           (!wire->messages.parted || frame->kind == TCP_SEND);
}

void tcp_target_begin(struct tcp_wire *wire, const struct tcp_frame *frame)
{
    if (!is_in_turn(wire, frame)) {
        tcp_wire_refuse(wire);
        return;
    }
    struct tcp_region *region = open_write(wire, frame);
    if (region != NULL)
        tcp_region_put(region);
}

bool tcp_target_room_get(struct tcp_wire *wire, const struct tcp_frame *frame, uint64_t at,
                         struct tcp_room *ret_room)
{
    const uint64_t left = frame->bytes - at;
    struct tcp_region *region =
        tcp_region_get(wire->domain, frame->domain, frame->key, TARN_FABRIC_MAY_WRITE | TARN_FABRIC_BULK,
                       frame->offset + at, left);
    if (region == NULL) {
        refuse_request(wire, wire->requests + 1);
        return false;
    }
    *ret_room =
        (struct tcp_room){.memory = region->memory + frame->offset + at, .bytes = left, .region = region};
    return true;
}

void tcp_target_take(struct tcp_wire *wire, const struct tcp_frame *frame, const uint8_t *payload)
{
    if (!is_in_turn(wire, frame)) {
        tcp_wire_refuse(wire);
        return;
    }
    switch (frame->kind) {
    case TCP_READ:
        take_read(wire, frame);
        return;
    case TCP_WRITE:
    case TCP_WRITE_NOTIFY:
        take_write(wire, frame, payload);
        return;
    case TCP_CAS:
    case TCP_FAA:
        take_swap(wire, frame, payload);
        return;
    case TCP_SEND:
        take_send(wire, frame, payload);
        return;
    default:
        tcp_wire_refuse(wire);
    }
}

/* ---- answers ------------------------------------------------------------------------------------ */

static void pop_answer(struct tcp_wire *wire)
{
    wire->answers_first = (wire->answers_first + 1) % TCP_WINDOW;
    wire->answers_count--;
}

/* Fill in the next part of a READ's answer; a lane goes whole. @return false: the region has gone */
static bool fill_data(struct tcp_wire *wire, struct tcp_answer *answer, struct tcp_frame *frame, uint8_t *to,
                      size_t room)
{
    struct tcp_region *region = tcp_region_get(wire->domain, wire->domain->identity, answer->key,
                                               TARN_FABRIC_MAY_READ, answer->offset, answer->left);
    if (region == NULL)
        return false;
    frame->bytes = tcp_wire_part(answer->left, answer->offset, TCP_BULK_BYTES, room);
    frame->last = frame->bytes == answer->left;
    fabric_lanes_load(to + TCP_HEADER_BYTES, region->memory + answer->offset, frame->bytes);
    tcp_region_put(region);
    answer->offset += frame->bytes;
    answer->left -= frame->bytes;
    return true;
}

size_t tcp_target_fill(struct tcp_wire *wire, uint8_t *to, size_t room)
{
    if (wire->answers_count == 0)
        return 0;
    struct tcp_answer *answer = &wire->answers[wire->answers_first];
    struct tcp_frame frame = {.kind = answer->is_word ? TCP_WORD : TCP_DATA};
    if (answer->is_word) {
        frame.bytes = WORD_BYTES;
        frame.last = true;
        base_store_le64(to + TCP_HEADER_BYTES, answer->word);
    } else if (!fill_data(wire, answer, &frame, to, room)) {
        refuse_request(wire, answer->number);
        return 0;
    }
    if (frame.last)
        pop_answer(wire);
    return tcp_wire_seal(wire, &frame, to);
}
