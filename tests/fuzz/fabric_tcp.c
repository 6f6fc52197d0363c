/*
 * Any bytes from a peer of the fabric's `tcp`: as hellos, and as frames after them, with checksums made right or left
 * as they are. What is refused changes nothing; no byte lands in a region that it has no right to, or outside of all;
 * and what is sent is whole frames of this version.
 */
#include "fabric/tcp/domain.h"
#include "fabric/tcp/frame.h"
#include "fabric/tcp/hello.h"
#include "fabric/tcp/tcp.h"
#include "fabric/tcp/wire.h"
#include "testing.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { REGION_BYTES = 8192, CREDIT = 2, MESSAGE_BYTES = 100, OPS = 3, PIECE_BYTES = 2 * TCP_FRAME_BYTES };

/* The side that the bytes come to. */
struct side {
    struct tcp tcp;
    struct tcp_domain *domain;
    struct tarn_fabric_region all, readable, written, bulk;
    struct tcp_wire wire;
    struct tarn_fabric_op ops[OPS]; /* its own, under way */
    struct iovec vector;
    uint8_t *memory; /* of its own */
};

static void add_region(struct side *side, struct tarn_fabric_region *region, uint32_t rights, uint8_t fill)
{
    region->bytes = REGION_BYTES;
    region->handle.rights = rights;
    base_assert(tcp_region_alloc(side->domain, region) == 0);
    struct tcp_region *own = region->state;
    const uint32_t slot = fabric_key_slot(own->key);
    region->handle.key = own->key = (uint64_t)(slot + 1) << FABRIC_KEY_SLOT_BITS | slot; /* a peer knows it */
    memset(region->memory, fill, REGION_BYTES);
}

static void open_side(struct side *side, struct tarn_node *node)
{
    const struct tarn_fabric_domain_options options = {
        .readable_bytes = REGION_BYTES, .writable_bytes = 3 * REGION_BYTES, .regions_max = 4};
    struct tcp_messages *messages = &side->wire.messages;
    void *domain;
    side->tcp.node = node;
    base_assert(tcp_domain_open(&side->tcp, &options, &domain) == 0);
    side->domain = domain;
    side->domain->identity = 1; /* a peer knows it */
    add_region(side, &side->all, TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP, 0);
    add_region(side, &side->readable, TARN_FABRIC_MAY_READ, 0x11);
    add_region(side, &side->written, TARN_FABRIC_MAY_WRITE, 0x22);
    add_region(side, &side->bulk, TARN_FABRIC_MAY_WRITE | TARN_FABRIC_BULK, 0x33);
    messages->count = CREDIT;
    messages->bytes = MESSAGE_BYTES;
    messages->slot_bytes = base_align_up(TCP_MESSAGE_HEAD_BYTES + MESSAGE_BYTES, 16);
    messages->memory = calloc(CREDIT, messages->slot_bytes);
    side->memory = malloc(REGION_BYTES);
    tcp_wire_begin(&side->wire, side->domain, CREDIT, MESSAGE_BYTES);
    side->vector = (struct iovec){.iov_base = side->memory, .iov_len = REGION_BYTES};
    for (unsigned i = 0; i < OPS; i++) {
        static const enum tarn_fabric_op_kind kinds[OPS] = {TARN_FABRIC_READ, TARN_FABRIC_FAA,
                                                            TARN_FABRIC_WRITE_NOTIFY};
        side->ops[i] = (struct tarn_fabric_op){.kind = kinds[i],
                                               .handle = &side->all.handle,
                                               .iov = &side->vector,
                                               .iov_count = 1,
                                               .bytes = kinds[i] == TARN_FABRIC_FAA ? 8 : REGION_BYTES};
        base_assert(tcp_initiator_post(&side->wire, &side->ops[i]) == 0);
    }
}

static void close_side(struct side *side)
{
    tcp_region_free(side->domain, &side->all);
    tcp_region_free(side->domain, &side->readable);
    tcp_region_free(side->domain, &side->written);
    tcp_region_free(side->domain, &side->bulk);
    tcp_domain_close(side->domain);
    free(side->wire.messages.memory);
    free(side->memory);
}

/* Send all there is: whole frames, with right checksums. */
static void send_all(struct side *side)
{
    static uint8_t out[TCP_OUT_BYTES];
    while (tcp_wire_has_output(&side->wire)) {
        struct tcp_frame frame;
        size_t bytes = tcp_wire_fill(&side->wire, out);
        base_assert(bytes > 0 && bytes <= sizeof(out));
        for (size_t at = 0; at < bytes; at += TCP_HEADER_BYTES + frame.bytes)
            base_assert(tcp_frame_open(out + at, &frame) == 0);
    }
}

static void receive_all(struct side *side)
{
    struct tarn_fabric_message message;
    const uint8_t *payload;
    while ((payload = tcp_target_message(&side->wire, &message)) != NULL) {
        static uint8_t copy[MESSAGE_BYTES];
        base_assert(message.bytes <= MESSAGE_BYTES);
        memcpy(copy, payload, message.bytes);
        tcp_target_received(&side->wire);
    }
}

/* Make the checksums of what look like frames right. */
static void seal(uint8_t *bytes, size_t size)
{
    for (size_t at = 0; size - at >= TCP_HEADER_BYTES;) {
        uint8_t *payload = bytes + at + TCP_HEADER_BYTES;
        base_store_le16(bytes + at + 6, 0); /* the upper half of the payload's length */
        const size_t payload_bytes = base_load_le32(bytes + at + 4),
                     there = base_min(payload_bytes, size - at - TCP_HEADER_BYTES);
        base_store_le32(bytes + at + 64, base_crc32c(0, payload, there));
        base_store_le32(bytes + at + 68, 0);
        base_store_le32(bytes + at, base_crc32c(0, bytes + at + 4, TCP_HEADER_BYTES - 4));
        at += TCP_HEADER_BYTES + there;
    }
}

/* Receive straight into the room that there is. @return bytes taken */
static size_t take_directly(struct side *side, const uint8_t *bytes, size_t count)
{
    struct tcp_room room;
    if (!tcp_wire_room_get(&side->wire, &room))
        return 0;
    const size_t piece = base_min(room.bytes, count);
    memcpy(room.memory, bytes, piece);
    tcp_wire_room_put(&side->wire, &room, piece);
    return piece;
}

static void check_hello(const uint8_t *data, size_t size)
{
    struct tcp_hello hello;
    uint8_t bytes[TCP_HELLO_BYTES] = {0}, again[TCP_HELLO_BYTES];
    memcpy(bytes, data, base_min(size, sizeof(bytes)));
    base_store_le32(bytes + TCP_HELLO_BYTES - 4, base_crc32c(0, bytes, TCP_HELLO_BYTES - 4));
    for (int kind = TCP_HELLO; kind <= TCP_WELCOME; kind++) {
        if (tcp_hello_load(bytes, (enum tcp_hello_kind)kind, &hello) != 0)
            continue;
        base_assert(hello.data_bytes <= TARN_FABRIC_PRIVATE_BYTES_MAX);
        tcp_hello_save(&hello, again);
        base_assert(memcmp(bytes, again, sizeof(bytes)) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const struct task_node_options options = {
        .clock = &fuzz_clock, .seed = 1, .log_level = BASE_LOG_ERROR, .log_sink = fuzz_sink};
    struct tarn_node *node;
    struct side *side = calloc(1, sizeof(*side));
    const size_t at_once = 1 + (size_t)data[0] * 16, count = size - 2;
    base_assert(side != NULL && task_node_open(&options, &node) == 0);
    open_side(side, node);
    check_hello(data + 2, count);
    uint8_t *bytes = malloc(count + 1), *piece = malloc(PIECE_BYTES);
    memcpy(bytes, data + 2, count);
    if (data[1] % 4 != 0)
        seal(bytes, count);
    size_t have = 0;
    for (size_t at = 0; at < count;) {
        size_t more = have > 0 ? 0 : take_directly(side, bytes + at, base_min(at_once, count - at));
        at += more;
        more = base_min(base_min(at_once, count - at), PIECE_BYTES - have);
        memcpy(piece + have, bytes + at, more);
        at += more;
        have += more;
        size_t taken = tcp_wire_take(&side->wire, piece, have);
        base_assert(taken <= have && have - taken < TCP_FRAME_BYTES);
        have -= taken;
        memmove(piece, piece + taken, have);
        if (data[1] % 8 != 1)
            send_all(side);
        if (data[1] % 16 != 2)
            receive_all(side);
    }
    send_all(side);
    for (unsigned i = 0; i < REGION_BYTES; i++)
        base_assert(side->readable.memory[i] == 0x11);
    free(bytes);
    free(piece);
    close_side(side);
    task_node_close(node);
    free(side);
    return 0;
}
