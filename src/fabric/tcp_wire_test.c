/* Both sides' work of `tcp` without sockets: frames cut anywhere, every bit damaged, what waits for what. */
#include "base/random.h"
#include "fabric/tcp/connection.h"
#include "fabric/tcp/domain.h"
#include "fabric/tcp/tcp.h"
#include "fabric/tcp_testing.h"

enum { REGION_BYTES = 1 << 18, PIPE_BYTES = 1 << 20, MESSAGE_BYTES = 20000, CREDIT = 3 };

/* One of two that talk to each other. */
struct side {
    struct tcp_domain *domain;
    struct tarn_fabric_region region;
    struct tcp_wire wire;
    uint8_t pipe[PIPE_BYTES]; /* what the other one has not taken yet */
    size_t piped;
};

struct fixture {
    struct tarn_node *node;
    struct tcp tcp;
    struct side a, b;
};

static void open_side(struct fixture *fixture, struct side *side)
{
    const struct tarn_fabric_domain_options options = {.writable_bytes = REGION_BYTES, .regions_max = 4};
    struct tcp_messages *messages = &side->wire.messages;
    void *domain;
    assert_int_equal(tcp_domain_open(&fixture->tcp, &options, &domain), 0);
    side->domain = domain;
    side->region.bytes = REGION_BYTES;
    side->region.handle.rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP;
    assert_int_equal(tcp_region_alloc(domain, &side->region), 0);
    messages->count = CREDIT;
    messages->bytes = MESSAGE_BYTES;
    messages->slot_bytes = base_align_up(TCP_MESSAGE_HEAD_BYTES + MESSAGE_BYTES, 16);
    messages->memory = calloc(CREDIT, messages->slot_bytes);
    assert_non_null(messages->memory);
    tcp_wire_begin(&side->wire, domain, CREDIT, MESSAGE_BYTES);
}

static void close_side(struct side *side)
{
    free(side->wire.messages.memory);
    tcp_region_free(side->domain, &side->region);
    tcp_domain_close(side->domain);
}

static int setup(void **state)
{
    const struct task_node_options options = {.log_level = BASE_LOG_ERROR};
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    assert_int_equal(task_node_open(&options, &fixture->node), 0);
    fixture->tcp.node = fixture->node;
    open_side(fixture, &fixture->a);
    open_side(fixture, &fixture->b);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    close_side(&fixture->a);
    close_side(&fixture->b);
    task_node_close(fixture->node);
    free(fixture);
    return 0;
}

static void fill(struct side *side)
{
    if (side->piped + TCP_OUT_BYTES <= PIPE_BYTES && tcp_wire_has_output(&side->wire)) {
        size_t bytes = tcp_wire_fill(&side->wire, side->pipe + side->piped);
        assert_in_range(bytes, 1, TCP_OUT_BYTES);
        side->piped += bytes;
    }
}

/* Have one side take so many of the bytes that the other has sent. */
static void deliver(struct side *from, struct side *to, size_t bytes)
{
    size_t taken = tcp_wire_take(&to->wire, from->pipe, bytes);
    assert_true(taken <= bytes);
    from->piped -= taken;
    memmove(from->pipe, from->pipe + taken, from->piped);
}

/* Until nobody has anything to say. */
static void settle(struct fixture *fixture)
{
    do {
        fill(&fixture->a);
        fill(&fixture->b);
        deliver(&fixture->a, &fixture->b, fixture->a.piped);
        deliver(&fixture->b, &fixture->a, fixture->b.piped);
    } while (tcp_wire_has_output(&fixture->a.wire) || tcp_wire_has_output(&fixture->b.wire));
}

/* ---- everything arrives -------------------------------------------------------------------------- */

enum { OPS = 300, OP_BYTES = 40000 };

/* An operation of a chain, and what it must come to. */
struct link_of_chain {
    struct tarn_fabric_op op;
    struct iovec vectors[3];
    uint8_t *memory, *expected;
    uint64_t bytes, before;
};

/* Each operation waits for the one before: so the peer's region goes through what `model` goes through. */
static void plan(struct link_of_chain *link, struct base_random *random,
                 const struct tarn_fabric_handle *handle, uint8_t *model, uint64_t *inout_round)
{
    enum tarn_fabric_op_kind kind = (enum tarn_fabric_op_kind)base_random_below(random, TARN_FABRIC_OP_KINDS);
    uint64_t most = kind == TARN_FABRIC_SEND ? MESSAGE_BYTES : OP_BYTES;
    link->bytes = base_random_below(random, 4) == 0 ? base_random_below(random, most + 1)
                                                    : base_random_below(random, 30);
    uint64_t offset = base_random_below(random, REGION_BYTES - OP_BYTES), word = 0;
    link->memory = calloc(1, link->bytes + 1);
    link->expected = calloc(1, link->bytes + 1);
    assert_true(link->memory != NULL && link->expected != NULL);
    uint64_t first = base_random_below(random, link->bytes + 1);
    link->vectors[0] = (struct iovec){.iov_base = link->memory, .iov_len = first};
    link->vectors[1] = (struct iovec){.iov_base = NULL, .iov_len = 0};
    link->vectors[2] = (struct iovec){.iov_base = link->memory + first, .iov_len = link->bytes - first};
    link->op = (struct tarn_fabric_op){.kind = kind,
                                       .fence = true,
                                       .handle = kind == TARN_FABRIC_SEND ? NULL : handle,
                                       .offset = offset,
                                       .iov = link->vectors,
                                       .iov_count = 3,
                                       .value = (uint32_t)*inout_round,
                                       .bytes = link->bytes};
    if (kind == TARN_FABRIC_CAS || kind == TARN_FABRIC_FAA) {
        link->op.offset = offset &= ~UINT64_C(7);
        link->op.bytes = 8;
        memcpy(&word, model + offset, 8);
        link->before = word;
        link->op.compare = base_random_below(random, 2) == 0 ? word : word + 1;
        link->op.operand = *inout_round;
        if (kind == TARN_FABRIC_FAA)
            word += *inout_round;
        else if (link->op.compare == word)
            word = *inout_round;
        memcpy(model + offset, &word, 8);
    } else if (kind == TARN_FABRIC_READ) {
        memcpy(link->expected, model + offset, link->bytes);
    } else {
        testing_fill(link->memory, link->bytes, *inout_round);
        memcpy(link->expected, link->memory, link->bytes);
        if (kind != TARN_FABRIC_SEND)
            memcpy(model + offset, link->memory, link->bytes);
    }
    (*inout_round)++;
}

/* Receive what has come. @param inout_at  of the chain that the other side runs */
static void receive_all(struct side *side, const struct link_of_chain *chain, unsigned *inout_at)
{
    struct tarn_fabric_message message;
    const uint8_t *payload;
    while ((payload = tcp_target_message(&side->wire, &message)) != NULL) {
        while (chain[*inout_at].op.kind != TARN_FABRIC_SEND &&
               chain[*inout_at].op.kind != TARN_FABRIC_WRITE_NOTIFY)
            (*inout_at)++;
        const struct link_of_chain *link = &chain[*inout_at];
        assert_int_equal(message.notified, link->op.kind == TARN_FABRIC_WRITE_NOTIFY);
        assert_int_equal(message.value, message.notified ? link->op.value : 0);
        assert_int_equal(message.bytes, message.notified ? 0 : link->bytes);
        assert_memory_equal(payload, link->expected, message.bytes);
        tcp_target_received(&side->wire);
        (*inout_at)++;
    }
}

static void check_chain(struct link_of_chain *chain, struct side *side, const struct side *other,
                        const uint8_t *model)
{
    for (unsigned i = 0; i < OPS; i++) {
        struct tarn_fabric_op *first = fabric_queue_pop(&side->wire.done);
        assert_ptr_equal(first, &chain[i].op); /* in order, each once */
        if (chain[i].op.kind == TARN_FABRIC_CAS || chain[i].op.kind == TARN_FABRIC_FAA)
            assert_int_equal(chain[i].op.before, chain[i].before);
        else
            assert_memory_equal(chain[i].memory, chain[i].expected, chain[i].bytes + 1);
        free(chain[i].memory);
        free(chain[i].expected);
    }
    assert_true(side->wire.done.first == NULL);
    assert_memory_equal(other->region.memory, model, REGION_BYTES);
}

static void everything_arrives_however_it_is_cut(void **state)
{
    struct fixture *fixture = *state;
    struct side *sides[2] = {&fixture->a, &fixture->b};
    static struct link_of_chain chains[2][OPS + 1];
    static uint8_t models[2][REGION_BYTES];
    struct base_random random;
    unsigned at[2] = {0};
    uint64_t round = 1;
    base_random_init(&random, 3);
    for (unsigned s = 0; s < 2; s++) {
        for (unsigned i = 0; i < OPS; i++) {
            plan(&chains[s][i], &random, &sides[1 - s]->region.handle, models[s], &round);
            assert_int_equal(tcp_initiator_post(&sides[s]->wire, &chains[s][i].op), 0);
        }
    }
    for (unsigned turns = 0; sides[0]->wire.served < OPS || sides[1]->wire.served < OPS; turns++) {
        assert_true(turns < 1000000);
        unsigned s = (unsigned)base_random_below(&random, 2);
        fill(sides[s]);
        deliver(sides[s], sides[1 - s], base_random_below(&random, sides[s]->piped + 1));
        if (base_random_below(&random, 3) == 0)
            receive_all(sides[s], chains[1 - s], &at[s]);
        assert_int_equal(sides[0]->wire.error | sides[1]->wire.error, 0);
    }
    for (unsigned s = 0; s < 2; s++)
        check_chain(chains[s], sides[s], sides[1 - s], models[s]);
}

/* ---- frames ------------------------------------------------------------------------------------- */

/* Whatever single bit changes on its way: the frame is not taken, and nothing of it is done. */
static void every_damaged_bit_is_noticed(void **state)
{
    struct fixture *fixture = *state;
    const uint64_t word = UINT64_MAX;
    const struct iovec vector = {.iov_base = (void *)(uintptr_t)&word, .iov_len = 8};
    struct tarn_fabric_op op = {.kind = TARN_FABRIC_WRITE,
                                .handle = &fixture->b.region.handle,
                                .iov = &vector,
                                .iov_count = 1,
                                .bytes = 8};
    static struct tcp_wire whole;
    assert_int_equal(tcp_initiator_post(&fixture->a.wire, &op), 0);
    fill(&fixture->a);
    assert_int_equal(fixture->a.piped, TCP_HEADER_BYTES + 8);
    whole = fixture->b.wire;
    for (unsigned bit = 0; bit < fixture->a.piped * 8; bit++) {
        uint8_t bytes[TCP_HEADER_BYTES + 8];
        memcpy(bytes, fixture->a.pipe, sizeof(bytes));
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        fixture->b.wire = whole;
        (void)tcp_wire_take(&fixture->b.wire, bytes, sizeof(bytes));
        assert_int_equal(fixture->b.wire.requests, 0);
        assert_int_equal(fixture->b.wire.error, -EPROTO);
        assert_true(base_is_zero(fixture->b.region.memory, REGION_BYTES));
    }
    fixture->b.wire = whole;
    settle(fixture);
    assert_ptr_equal(fabric_queue_pop(&fixture->a.wire.done), &op);
    assert_int_equal(*(uint64_t *)(void *)fixture->b.region.memory, word);
}

/* A lane of the region is in one frame, whichever way it goes. */
static void lanes_are_not_cut(void **state)
{
    struct fixture *fixture = *state;
    enum { BYTES = 100003, OFFSET = 3 };
    static uint8_t data[BYTES];
    const struct iovec vector = {.iov_base = data, .iov_len = BYTES};
    struct tarn_fabric_op op = {.handle = &fixture->b.region.handle,
                                .offset = OFFSET,
                                .iov = &vector,
                                .iov_count = 1,
                                .bytes = BYTES};
    for (unsigned reads = 0; reads < 2; reads++) {
        struct side *from = reads == 0 ? &fixture->a : &fixture->b,
                    *to = reads == 0 ? &fixture->b : &fixture->a;
        op.kind = reads == 0 ? TARN_FABRIC_WRITE : TARN_FABRIC_READ;
        assert_int_equal(tcp_initiator_post(&fixture->a.wire, &op), 0);
        if (reads == 1) {
            fill(&fixture->a);
            deliver(&fixture->a, &fixture->b, fixture->a.piped);
        }
        uint64_t end = OFFSET;
        while (end < OFFSET + BYTES) {
            struct tcp_frame frame;
            fill(from);
            for (size_t at = 0; at < from->piped; at += TCP_HEADER_BYTES + frame.bytes) {
                assert_int_equal(tcp_frame_open(from->pipe + at, &frame), 0);
                assert_true(base_is_aligned(end, 8) || end == OFFSET);
                end += frame.bytes;
            }
            deliver(from, to, from->piped);
        }
        assert_int_equal(end, OFFSET + BYTES);
        settle(fixture);
        assert_ptr_equal(fabric_queue_pop(&fixture->a.wire.done), &op);
    }
}

/* ---- payloads that are received where they belong ------------------------------------------------ */

/* A region whose WRITEs are received straight into it. */
static void open_bulk(struct side *side)
{
    tcp_region_free(side->domain, &side->region);
    side->region.memory = NULL; /* a region with memory would be the caller's */
    side->region.handle.rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_BULK;
    assert_int_equal(tcp_region_alloc(side->domain, &side->region), 0);
}

/* An operation on b's region, posted by a; of a READ the request has arrived. */
static void begin(struct fixture *fixture, struct tarn_fabric_op *op, enum tarn_fabric_op_kind kind,
                  const struct iovec *vector)
{
    *op = (struct tarn_fabric_op){.kind = kind,
                                  .handle = &fixture->b.region.handle,
                                  .iov = vector,
                                  .iov_count = 1,
                                  .bytes = vector->iov_len};
    assert_int_equal(tcp_initiator_post(&fixture->a.wire, op), 0);
    if (kind == TARN_FABRIC_READ) {
        fill(&fixture->a);
        deliver(&fixture->a, &fixture->b, fixture->a.piped);
    }
}

/* After a header both sides know where the next bytes belong, and take them there: none is kept back or moved again. */
static void payload_is_received_where_it_belongs(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t data[100000];
    const struct iovec vector = {.iov_base = data, .iov_len = sizeof(data)};
    open_bulk(&fixture->b);
    for (unsigned reads = 0; reads < 2; reads++) {
        struct side *from = reads == 0 ? &fixture->a : &fixture->b,
                    *to = reads == 0 ? &fixture->b : &fixture->a;
        const uint8_t *memory = reads == 0 ? fixture->b.region.memory : data;
        struct tarn_fabric_op op;
        struct tcp_room room;
        testing_fill(reads == 0 ? data : fixture->b.region.memory, sizeof(data), reads);
        begin(fixture, &op, reads == 0 ? TARN_FABRIC_WRITE : TARN_FABRIC_READ, &vector);
        fill(from);
        assert_false(tcp_wire_room_get(&to->wire, &room));
        deliver(from, to, TCP_HEADER_BYTES + 1000);
        assert_int_equal(from->piped, TCP_BULK_BYTES - 1000);
        assert_true(tcp_wire_room_get(&to->wire, &room));
        assert_ptr_equal(room.memory, memory + 1000);
        assert_int_equal(room.bytes, TCP_BULK_BYTES - 1000);
        memcpy(room.memory, from->pipe, room.bytes);
        from->piped = 0;
        tcp_wire_room_put(&to->wire, &room, room.bytes);
        assert_false(tcp_wire_room_get(&to->wire, &room));
        settle(fixture);
        assert_ptr_equal(fabric_queue_pop(&fixture->a.wire.done), &op);
        assert_memory_equal(data, fixture->b.region.memory, sizeof(data));
    }
}

/* A payload that has changed on its way completes nothing, where no TLS would have noticed it before. */
static void a_damaged_payload_completes_nothing(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t data[3 * TCP_PAYLOAD_BYTES];
    const struct iovec vector = {.iov_base = data, .iov_len = sizeof(data)};
    open_bulk(&fixture->b);
    for (unsigned reads = 0; reads < 2; reads++) {
        struct side *from = reads == 0 ? &fixture->a : &fixture->b,
                    *to = reads == 0 ? &fixture->b : &fixture->a;
        struct tarn_fabric_op op;
        begin(fixture, &op, reads == 0 ? TARN_FABRIC_WRITE : TARN_FABRIC_READ, &vector);
        fill(from);
        from->pipe[TCP_HEADER_BYTES + 40000] ^= 4;
        const uint64_t requests = to->wire.requests;
        deliver(from, to, from->piped);
        assert_int_equal(to->wire.error, -EPROTO);
        assert_int_equal(to->wire.requests, requests);
        assert_true(fixture->a.wire.done.first == NULL);
        teardown(state);
        setup(state);
        fixture = *state;
        open_bulk(&fixture->b);
    }
}

/* TLS has a checksum of each record already. */
static void with_tls_payloads_have_no_checksum(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t data[100];
    const struct iovec vector = {.iov_base = data, .iov_len = sizeof(data)};
    struct tarn_fabric_op op;
    struct tcp_frame frame;
    testing_fill(data, sizeof(data), 1);
    for (unsigned tls = 0; tls < 2; tls++) {
        fixture->a.wire.in_tls = fixture->b.wire.in_tls = tls == 1;
        begin(fixture, &op, TARN_FABRIC_WRITE, &vector);
        fill(&fixture->a);
        assert_int_equal(tcp_frame_open(fixture->a.pipe, &frame), 0);
        assert_int_equal(frame.checksum, tls == 1 ? 0 : base_crc32c(0, data, sizeof(data)));
        settle(fixture);
        assert_ptr_equal(fabric_queue_pop(&fixture->a.wire.done), &op);
    }
}

/* What claims to be bulk is refused where the region is not, also if its handle was changed to say so. */
static void bulk_frames_are_for_bulk_regions(void **state)
{
    struct fixture *fixture = *state;
    const uint64_t word = 1;
    const struct iovec vector = {.iov_base = (void *)(uintptr_t)&word, .iov_len = sizeof(word)};
    struct tarn_fabric_handle changed = fixture->b.region.handle;
    struct tarn_fabric_op op;
    changed.rights |= TARN_FABRIC_BULK;
    begin(fixture, &op, TARN_FABRIC_WRITE, &vector);
    op.handle = &changed; /* it is looked at when the frame is made */
    settle(fixture);
    assert_int_equal(fixture->a.wire.error, -EACCES);
    assert_ptr_equal(fixture->a.wire.culprit, &op);
    assert_true(base_is_zero(fixture->b.region.memory, REGION_BYTES));
}

/* A region that is freed while a WRITE arrives gets no more of it; the WRITE is named. */
static void a_region_goes_while_it_is_written(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t data[TCP_BULK_BYTES];
    const struct iovec vector = {.iov_base = data, .iov_len = sizeof(data)};
    struct tarn_fabric_op op;
    struct tcp_room room;
    open_bulk(&fixture->b);
    begin(fixture, &op, TARN_FABRIC_WRITE, &vector);
    fill(&fixture->a);
    deliver(&fixture->a, &fixture->b, TCP_HEADER_BYTES + 100);
    tcp_region_free(fixture->b.domain, &fixture->b.region);
    assert_false(tcp_wire_room_get(&fixture->b.wire, &room));
    assert_int_equal(fixture->b.wire.error, -ECONNRESET);
    settle(fixture);
    assert_int_equal(fixture->a.wire.error, -EACCES);
    assert_ptr_equal(fixture->a.wire.culprit, &op);
    fixture->b.region.memory = NULL;
    assert_int_equal(tcp_region_alloc(fixture->b.domain, &fixture->b.region), 0);
}

/* Answers that fill each piece that is sent do not keep requests back. */
static void large_answers_let_requests_pass(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t data[REGION_BYTES];
    const struct iovec vector = {.iov_base = data, .iov_len = sizeof(data)};
    const uint64_t word = 1;
    const struct iovec little = {.iov_base = (void *)(uintptr_t)&word, .iov_len = sizeof(word)};
    struct tarn_fabric_op op, other = {.kind = TARN_FABRIC_WRITE,
                                       .handle = &fixture->a.region.handle,
                                       .iov = &little,
                                       .iov_count = 1,
                                       .bytes = sizeof(word)};
    begin(fixture, &op, TARN_FABRIC_READ, &vector);
    assert_int_equal(tcp_initiator_post(&fixture->b.wire, &other), 0);
    fill(&fixture->b);
    fill(&fixture->b);
    assert_int_equal(fixture->b.wire.sent, 1);
    assert_int_equal(fixture->b.wire.answers_count, 1);
    settle(fixture);
    assert_int_equal(fixture->a.wire.error | fixture->b.wire.error, 0);
}

/* ---- what waits for what ------------------------------------------------------------------------- */

/* An operation with a fence waits for READs before it, not for those that came later and overtook it. */
static void a_fence_does_not_wait_for_ever(void **state)
{
    struct fixture *fixture = *state;
    uint64_t words[2] = {7, 7};
    const struct iovec vectors[2] = {{.iov_base = &words[0], .iov_len = 8},
                                     {.iov_base = &words[1], .iov_len = 8}};
    struct tarn_fabric_op reads[2], fenced = {.kind = TARN_FABRIC_FAA,
                                              .fence = true,
                                              .handle = &fixture->b.region.handle,
                                              .bytes = 8,
                                              .operand = 1};
    for (unsigned i = 0; i < base_array_count(reads); i++)
        reads[i] = (struct tarn_fabric_op){.kind = TARN_FABRIC_READ,
                                           .handle = &fixture->b.region.handle,
                                           .iov = &vectors[i],
                                           .iov_count = 1,
                                           .bytes = 8};
    assert_int_equal(tcp_initiator_post(&fixture->a.wire, &reads[0]), 0);
    assert_int_equal(tcp_initiator_post(&fixture->a.wire, &fenced), 0);
    fill(&fixture->a);
    deliver(&fixture->a, &fixture->b, fixture->a.piped);
    fill(&fixture->b); /* the first is answered, and another one is on its way */
    assert_int_equal(tcp_initiator_post(&fixture->a.wire, &reads[1]), 0);
    fill(&fixture->a);
    assert_ptr_equal(fixture->a.wire.waiting.first, &fenced);
    deliver(&fixture->b, &fixture->a, fixture->b.piped);
    assert_true(fixture->a.wire.waiting.first == NULL);
    settle(fixture);
    assert_true(fenced.trip);
    assert_int_equal(words[0] | fenced.before, 0);
    assert_true(words[1] <= 1); /* it may be answered when the swap has been served */
}

/* Behind WRITEs, swaps and messages nothing is held back: all goes in one piece, and is served in order. */
static void a_fence_behind_no_read_waits_for_nothing(void **state)
{
    struct fixture *fixture = *state;
    const uint64_t word = 5;
    const struct iovec vector = {.iov_base = (void *)(uintptr_t)&word, .iov_len = 8};
    const struct tarn_fabric_handle *handle = &fixture->b.region.handle;
    struct tarn_fabric_op ops[] = {
        {.kind = TARN_FABRIC_WRITE, .handle = handle, .iov = &vector, .iov_count = 1, .bytes = 8},
        {.kind = TARN_FABRIC_CAS, .fence = true, .handle = handle, .bytes = 8, .compare = 5, .operand = 6},
        {.kind = TARN_FABRIC_SEND, .fence = true, .iov = &vector, .iov_count = 1, .bytes = 8},
        {.kind = TARN_FABRIC_FAA, .fence = true, .handle = handle, .bytes = 8, .operand = 1}};
    for (unsigned i = 0; i < base_array_count(ops); i++)
        assert_int_equal(tcp_initiator_post(&fixture->a.wire, &ops[i]), 0);
    fill(&fixture->a);
    assert_int_equal(fixture->a.wire.sent, base_array_count(ops));
    settle(fixture);
    assert_int_equal(ops[1].before, 5);
    assert_int_equal(ops[3].before, 6);
    for (unsigned i = 0; i < base_array_count(ops); i++)
        assert_false(ops[i].trip);
}

/* A peer without credit is told of the first message that was received, and of further ones ever more together. */
static void credit_comes_back_in_few_frames(void **state)
{
    enum { MESSAGES = 16 };
    struct fixture *fixture = *state;
    struct side *side = &fixture->b;
    struct tarn_fabric_op ops[MESSAGES];
    unsigned frames = 0;
    free(side->wire.messages.memory);
    side->wire.messages.memory = calloc(MESSAGES, side->wire.messages.slot_bytes);
    assert_non_null(side->wire.messages.memory);
    side->wire.messages.count = fixture->a.wire.peer_messages = MESSAGES;
    for (unsigned i = 0; i < MESSAGES; i++) {
        ops[i] = (struct tarn_fabric_op){.kind = TARN_FABRIC_SEND};
        assert_int_equal(tcp_initiator_post(&fixture->a.wire, &ops[i]), 0);
    }
    settle(fixture);
    for (unsigned i = 0; i < MESSAGES; i++) {
        assert_true(tcp_target_has_message(&side->wire));
        tcp_target_received(&side->wire);
        assert_true(i > 0 || tcp_wire_has_output(&side->wire));
        frames += tcp_wire_has_output(&side->wire);
        settle(fixture);
    }
    assert_false(tcp_target_has_message(&side->wire));
    assert_int_equal(frames, 5); /* of 1, 1, 2, 4 and 8 */
    assert_int_equal(fixture->a.wire.messages_received, MESSAGES);
}

/* What is freed while it is read is not sent any more; that READ is named, not the WRITE that was served meanwhile. */
static void a_region_goes_while_it_is_read(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t data[REGION_BYTES];
    const struct iovec vector = {.iov_base = data, .iov_len = sizeof(data)},
                       none = {.iov_base = data, .iov_len = 0};
    struct tarn_fabric_op ops[2] = {{.kind = TARN_FABRIC_READ,
                                     .handle = &fixture->b.region.handle,
                                     .iov = &vector,
                                     .iov_count = 1,
                                     .bytes = sizeof(data)},
                                    {.kind = TARN_FABRIC_SEND, .iov = &none, .iov_count = 1}};
    assert_int_equal(tcp_initiator_post(&fixture->a.wire, &ops[0]), 0);
    assert_int_equal(tcp_initiator_post(&fixture->a.wire, &ops[1]), 0);
    fill(&fixture->a);
    deliver(&fixture->a, &fixture->b, fixture->a.piped);
    assert_int_equal(fixture->b.wire.requests, 2);
    fill(&fixture->b);
    tcp_region_free(fixture->b.domain, &fixture->b.region);
    settle(fixture);
    assert_int_equal(fixture->a.wire.error, -EACCES);
    assert_ptr_equal(fixture->a.wire.culprit, &ops[0]);
    assert_int_equal(fixture->b.wire.error, -ECONNRESET);
    assert_ptr_equal(fixture->a.wire.flight.first, &ops[1]);
    assert_int_equal(tcp_region_alloc(fixture->b.domain, &fixture->b.region), 0);
}

/* A side that has died says so once; what it says depends on what it died of. */
static void the_last_word_is_said_once(void **state)
{
    struct fixture *fixture = *state;
    tcp_wire_die(&fixture->a.wire, -ETIMEDOUT, "test", TCP_GIVES_UP);
    tcp_wire_die(&fixture->a.wire, -ECONNABORTED, "test", TCP_LEAVES);
    assert_int_equal(fixture->a.wire.error, -ETIMEDOUT);
    settle(fixture);
    assert_int_equal(fixture->b.wire.error, -ECONNRESET);
    assert_false(tcp_wire_has_output(&fixture->b.wire)); /* it need not answer */
    tcp_wire_die(&fixture->b.wire, -ECONNABORTED, "test", TCP_LEAVES);
    assert_true(tcp_wire_has_output(&fixture->b.wire)); /* but may say that it has let go */
    settle(fixture);
    assert_false(tcp_wire_has_output(&fixture->a.wire));
}

#define UNIT(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(everything_arrives_however_it_is_cut),
        UNIT(every_damaged_bit_is_noticed),
        UNIT(lanes_are_not_cut),
        UNIT(payload_is_received_where_it_belongs),
        UNIT(a_damaged_payload_completes_nothing),
        UNIT(with_tls_payloads_have_no_checksum),
        UNIT(bulk_frames_are_for_bulk_regions),
        UNIT(a_region_goes_while_it_is_written),
        UNIT(large_answers_let_requests_pass),
        UNIT(a_fence_does_not_wait_for_ever),
        UNIT(a_fence_behind_no_read_waits_for_nothing),
        UNIT(credit_comes_back_in_few_frames),
        UNIT(a_region_goes_while_it_is_read),
        UNIT(the_last_word_is_said_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
