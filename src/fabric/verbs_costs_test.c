/*
 * What requests of `verbs` cost: how many there are, how often the device is called, and what is copied. What lies in
 * memory that the device knows is not.
 */
#include "fabric/verbs/verbs.h"
#include "fabric/verbs_testing.h"
#include <sys/mman.h>

struct costs {
    uint64_t requests, doorbells, completions, copied_bytes;
};

static struct costs costs_of(const struct testing_fabric *testing)
{
    const struct verbs *verbs = testing_clients(testing)->state;
    struct tarn_fabric_counters counters;
    tarn_fabric_count(testing_clients(testing), 0, &counters);
    return (struct costs){.requests = atomic_load(&verbs->requests),
                          .doorbells = atomic_load(&verbs->doorbells),
                          .completions = atomic_load(&verbs->completions),
                          .copied_bytes = counters.copied_bytes};
}

/* Open a pair whose client does not probe in between, but sends again what is lost. */
static void open_pair(struct testing_fabric *testing, struct testing_pair *pair,
                      const struct tarn_fabric_connect_options *options)
{
    char url[80];
    tarn_fabric_close(testing->client_fabric);
    (void)snprintf(url, sizeof(url), "%s,heartbeat=20s", testing->subject->client_url);
    assert_int_equal(tarn_fabric_open(testing->node, url, &testing->client_fabric), 0);
    testing_pair_open(testing, pair, options);
}

/* Post a batch and wait for it. @return what it cost */
static struct costs run(struct testing_pair *pair, struct tarn_fabric_op *ops, unsigned count)
{
    const struct costs before = costs_of(pair->testing);
    tarn_fabric_post(pair->client, ops, count);
    assert_int_equal(tarn_fabric_wait(ops, count, TESTING_LATE), 0);
    const struct costs after = costs_of(pair->testing);
    return (struct costs){.requests = after.requests - before.requests,
                          .doorbells = after.doorbells - before.doorbells,
                          .completions = after.completions - before.completions,
                          .copied_bytes = after.copied_bytes - before.copied_bytes};
}

static void expect(struct testing_pair *pair, const char *what, struct tarn_fabric_op *ops, unsigned count,
                   struct costs expected)
{
    const struct costs costs = run(pair, ops, count);
    print_message("# %s: %llu requests, %llu doorbells, %llu completions, %llu bytes copied\n", what,
                  (unsigned long long)costs.requests, (unsigned long long)costs.doorbells,
                  (unsigned long long)costs.completions, (unsigned long long)costs.copied_bytes);
    assert_memory_equal(&costs, &expected, sizeof(costs));
}

static struct tarn_fabric_op op_of(const struct testing_pair *pair, enum tarn_fabric_op_kind kind,
                                   const struct iovec *vectors, uint32_t count)
{
    return (struct tarn_fabric_op){
        .kind = kind, .handle = &pair->all->handle, .iov = vectors, .iov_count = count};
}

static void a_batch_is_one_doorbell(struct testing_fabric *testing)
{
    static const uint64_t lengths[] = {8, 4096};
    static uint8_t memory[TESTING_BYTES];
    struct iovec vector = {.iov_base = memory};
    struct testing_pair pair;
    struct tarn_fabric_op ops[16];
    char what[64];
    open_pair(testing, &pair, NULL);
    for (unsigned i = 0; i < base_array_count(lengths); i++) {
        vector.iov_len = lengths[i];
        for (unsigned count = 1; count <= 16; count *= 16) {
            for (unsigned kind = TARN_FABRIC_READ; kind <= TARN_FABRIC_WRITE; kind++) {
                const bool is_copied = kind == TARN_FABRIC_READ || lengths[i] > 256; /* else it is inline */
                for (unsigned at = 0; at < count; at++)
                    ops[at] = op_of(&pair, kind, &vector, 1);
                (void)snprintf(what, sizeof(what), "%u of %s of %u bytes", count,
                               kind == TARN_FABRIC_READ ? "READ" : "WRITE", (unsigned)lengths[i]);
                expect(&pair, what, ops, count,
                       (struct costs){count, 1, 1, is_copied ? count * lengths[i] : 0});
            }
        }
    }
    vector.iov_len = sizeof(memory);
    ops[0] = op_of(&pair, TARN_FABRIC_WRITE, &vector, 1);
    const struct costs large = run(&pair, ops, 1);
    assert_int_equal(large.requests, TESTING_BYTES / VERBS_PIECE_BYTES);
    assert_int_equal(large.copied_bytes, TESTING_BYTES);
    vector.iov_len = 8;
    const struct iovec back = {.iov_base = memory + 8, .iov_len = 8};
    ops[0] = op_of(&pair, TARN_FABRIC_WRITE, &vector, 1);
    ops[1] = op_of(&pair, TARN_FABRIC_READ, &back, 1);
    ops[2] = op_of(&pair, TARN_FABRIC_WRITE, &vector, 1);
    ops[1].fence = ops[2].fence = true;
    expect(&pair, "WRITE, READ with a fence", ops, 2, (struct costs){2, 1, 1, 8});
    expect(&pair, "READ, WRITE with a fence", &ops[1], 2, (struct costs){2, 1, 1, 8});
    expect(&pair, "WRITE, READ and WRITE with a fence each", ops, 3, (struct costs){3, 2, 2, 8});
    assert_true(ops[2].trip && !ops[1].trip); /* of the bytes of two WRITEs no card says which land first */
    testing_pair_close(&pair);
}

/* The card keeps the order of what is fenced, and no round trip is lost. */
static void fences_are_the_cards(struct testing_fabric *testing)
{
    enum { OPS = 5 };
    static uint64_t words[OPS];
    struct iovec vectors[OPS];
    struct testing_pair pair;
    struct tarn_fabric_op ops[OPS];
    open_pair(testing, &pair, NULL);
    for (unsigned i = 0; i < OPS; i++)
        vectors[i] = (struct iovec){&words[i], 8};
    for (unsigned times = 0; times < 100; times++) {
        words[0] = times;
        ops[0] = op_of(&pair, TARN_FABRIC_WRITE, &vectors[0], 1);
        ops[1] = op_of(&pair, TARN_FABRIC_CAS, NULL, 0);
        ops[1].compare = times;
        ops[1].operand = times + 1000;
        ops[2] = op_of(&pair, TARN_FABRIC_READ, &vectors[2], 1);
        ops[3] = op_of(&pair, TARN_FABRIC_FAA, NULL, 0);
        ops[3].operand = 1;
        ops[4] = op_of(&pair, TARN_FABRIC_READ, &vectors[4], 1);
        for (unsigned i = 0; i < OPS; i++)
            ops[i].fence = true;
        if (times == 0)
            expect(&pair, "WRITE, CAS, READ, FAA and READ, with a fence each", ops, OPS,
                   (struct costs){OPS, 1, 1, 32});
        else
            assert_int_equal(run(&pair, ops, OPS).doorbells, 1);
        assert_int_equal(ops[1].before, times);
        assert_int_equal(words[2], times + 1000);
        assert_int_equal(ops[3].before, times + 1000);
        assert_int_equal(words[4], times + 1001);
    }
    testing_pair_close(&pair);
}

/* ---- memory that the device knows --------------------------------------------------------------- */

/* WRITE from and READ into some memory, all of it. */
static void move_all(struct testing_pair *pair, const char *what, struct iovec vector, bool is_writable)
{
    struct tarn_fabric_op op = op_of(pair, TARN_FABRIC_WRITE, &vector, 1);
    uint8_t *kept = malloc(vector.iov_len);
    assert_non_null(kept);
    memcpy(kept, vector.iov_base, vector.iov_len);
    expect(pair, what, &op, 1, (struct costs){1, 1, 1, 0});
    testing_expect(pair->all, 0, kept, vector.iov_len);
    if (is_writable) {
        memset(vector.iov_base, 0, vector.iov_len);
        op = op_of(pair, TARN_FABRIC_READ, &vector, 1);
        expect(pair, what, &op, 1, (struct costs){1, 1, 1, 0});
        assert_memory_equal(vector.iov_base, kept, vector.iov_len);
    }
    free(kept);
}

static void buffers_are_not_copied(struct testing_fabric *testing)
{
    enum { PARTS = TARN_FABRIC_IOV_MAX, PART = 600 };
    const struct tarn_fabric_connect_options long_messages = {.receive_bytes = 16384};
    struct testing_pair pair;
    struct tarn_fabric_message message;
    struct tarn_fabric_op ops[PARTS];
    struct iovec vectors[PARTS], singles[PARTS];
    static uint8_t plain[PART], received[16384];
    open_pair(testing, &pair, &long_messages);
    struct tarn_fabric_buffer *buffer;
    assert_int_equal(tarn_fabric_buffer_get(pair.client_domain, TESTING_BYTES, &buffer), 0);
    testing_fill(buffer->memory, buffer->bytes, 3);
    move_all(&pair, "a buffer of 256 KiB", (struct iovec){buffer->memory, TESTING_BYTES}, true);
    for (unsigned i = 0; i < PARTS; i++) {
        vectors[i] = (struct iovec){buffer->memory + (uint64_t)(PARTS - i) * 1000, PART};
        singles[i] = (struct iovec){buffer->memory + (uint64_t)i * 16384, 16384};
        ops[i] = op_of(&pair, i % 2 == 0 ? TARN_FABRIC_WRITE : TARN_FABRIC_READ, &singles[i], 1);
        ops[i].offset = i * UINT64_C(16384);
    }
    expect(&pair, "8 WRITE and 8 READ of 16 KiB in a buffer", ops, PARTS, (struct costs){PARTS, 1, 1, 0});
    struct tarn_fabric_op op = {.kind = TARN_FABRIC_SEND, .iov = vectors, .iov_count = PARTS};
    expect(&pair, "SEND of 16 vectors in a buffer", &op, 1, (struct costs){1, 1, 1, 0});
    assert_int_equal(tarn_fabric_receive(pair.server, received, sizeof(received), TESTING_LATE, &message), 0);
    assert_int_equal(message.bytes, PARTS * PART);
    for (unsigned i = 0; i < PARTS; i++)
        assert_memory_equal(received + (uint64_t)i * PART, vectors[i].iov_base, PART);
    for (unsigned i = 0; i < PARTS; i++) /* more vectors than a batch has at hand */
        ops[i] = op_of(&pair, TARN_FABRIC_WRITE, vectors, PARTS);
    const struct costs many = run(&pair, ops, PARTS);
    assert_int_equal(many.requests, PARTS);
    assert_int_equal(many.copied_bytes, 0);
    testing_expect(pair.all, 0, received, PARTS * PART);
    struct ibv_sge known[PARTS];
    op = op_of(&pair, TARN_FABRIC_WRITE, vectors, PARTS);
    op.bytes = PARTS * PART;
    assert_int_equal(verbs_local_gather(pair.client_domain->state, &op, 0, op.bytes, known, PARTS), PARTS);
    assert_int_equal(verbs_local_gather(pair.client_domain->state, &op, 0, op.bytes, known, PARTS - 1), 0);
    vectors[3].iov_base = plain; /* one elsewhere: all of it is copied */
    op = op_of(&pair, TARN_FABRIC_WRITE, vectors, PARTS);
    expect(&pair, "WRITE of 16 vectors, one elsewhere", &op, 1, (struct costs){1, 1, 1, PARTS * PART});
    singles[0].iov_base = buffer->memory + buffer->bytes - 16383; /* the last byte is not the buffer's */
    op = op_of(&pair, TARN_FABRIC_WRITE, singles, 1);
    assert_int_equal(verbs_local_gather(pair.client_domain->state, &op, 0, 16384, known, PARTS), 0);
    assert_int_equal(verbs_local_gather(pair.client_domain->state, &op, 0, 16383, known, PARTS), 1);
    tarn_fabric_buffer_put(buffer);
    testing_pair_close(&pair);
}

/* Regions, of this side's domain: made here, or of the caller's memory, even where that cannot be written. */
static void regions_are_not_copied(struct testing_fabric *testing)
{
    enum { BYTES = 65536 };
    struct testing_pair pair;
    struct tarn_fabric_region *own, *callers, *constant, *others;
    open_pair(testing, &pair, NULL);
    uint8_t *pages = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    testing_fill(pages, 2 * BYTES, 9);
    assert_int_equal(mprotect(pages + BYTES, BYTES, PROT_READ), 0);
    own = testing_region(pair.client_domain, BYTES, TARN_FABRIC_MAY_WRITE);
    tarn_fabric_mem_copy_in(own, 0, pages, BYTES);
    assert_int_equal(
        tarn_fabric_region_register(pair.client_domain, pages + 8, BYTES - 8, TARN_FABRIC_MAY_READ, &callers),
        0);
    assert_int_equal(tarn_fabric_region_register(pair.client_domain, pages + BYTES, BYTES,
                                                 TARN_FABRIC_MAY_READ, &constant),
                     0);
    move_all(&pair, "a region of ours", (struct iovec){own->memory + 100, BYTES - 200}, true);
    move_all(&pair, "memory of the caller's", (struct iovec){pages + 24, BYTES - 24}, true);
    move_all(&pair, "memory that is only read", (struct iovec){pages + BYTES + 1, BYTES - 1}, false);
    assert_int_equal(
        tarn_fabric_region_register(pair.client_domain, pages + BYTES, BYTES, TARN_FABRIC_MAY_WRITE, &others),
        -EFAULT);
    /* what the device may not write is copied there, when we may */
    const struct iovec changed = {pages + BYTES, BYTES};
    struct tarn_fabric_op op = op_of(&pair, TARN_FABRIC_READ, &changed, 1);
    assert_int_equal(mprotect(pages + BYTES, BYTES, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(run(&pair, &op, 1).copied_bytes, BYTES);
    testing_expect(pair.all, 0, pages + BYTES, BYTES);
    /* memory of another domain, or of none any more, is copied */
    struct tarn_fabric_domain *other = testing_domain(testing->client_fabric, BYTES, 0);
    others = testing_region(other, BYTES, TARN_FABRIC_MAY_READ);
    const struct iovec foreign = {others->memory, BYTES}, gone = {pages + 8, BYTES - 8};
    tarn_fabric_region_free(callers);
    op = op_of(&pair, TARN_FABRIC_READ, &foreign, 1);
    assert_int_equal(run(&pair, &op, 1).copied_bytes, BYTES);
    op = op_of(&pair, TARN_FABRIC_WRITE, &gone, 1);
    assert_int_equal(run(&pair, &op, 1).copied_bytes, BYTES - 8);
    tarn_fabric_region_free(constant);
    tarn_fabric_region_free(own);
    tarn_fabric_region_free(others);
    tarn_fabric_domain_close(other);
    assert_int_equal(munmap(pages, 2 * BYTES), 0);
    testing_pair_close(&pair);
}

/* Memory of the caller's for this side alone, from anywhere to anywhere; within it another may be exported. */
static void local_memory_is_not_copied(struct testing_fabric *testing)
{
    enum { BYTES = 65536 };
    struct testing_pair pair;
    struct tarn_fabric_region *local, *inner, *constant;
    open_pair(testing, &pair, NULL);
    uint8_t *pages = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    testing_fill(pages, 2 * BYTES, 13);
    assert_int_equal(mprotect(pages + BYTES, BYTES, PROT_READ), 0);
    assert_int_equal(tarn_fabric_region_register(pair.client_domain, pages + 1, BYTES - 2, 0, &local), 0);
    assert_int_equal(tarn_fabric_region_register(pair.client_domain, pages + BYTES, BYTES, 0, &constant), 0);
    const struct iovec whole = {pages + 1, BYTES - 2}, behind = {pages + 9000, BYTES - 9001};
    move_all(&pair, "memory for this side alone", whole, true);
    move_all(&pair, "the same, only to be read", (struct iovec){pages + BYTES, BYTES}, false);
    assert_int_equal(
        tarn_fabric_region_register(pair.client_domain, pages + 8192, 512, TARN_FABRIC_MAY_READ, &inner), 0);
    move_all(&pair, "around a region", whole, true);
    move_all(&pair, "behind a region", behind, true);
    struct ibv_sge known;
    struct tarn_fabric_op op = op_of(&pair, TARN_FABRIC_READ, &behind, 1);
    op.bytes = behind.iov_len;
    assert_int_equal(verbs_local_gather(pair.client_domain->state, &op, 0, op.bytes, &known, 1), 1);
    tarn_fabric_region_free(local);
    assert_int_equal(verbs_local_gather(pair.client_domain->state, &op, 0, op.bytes, &known, 1), 0);
    assert_int_equal(run(&pair, &op, 1).copied_bytes, behind.iov_len);
    tarn_fabric_region_free(inner);
    tarn_fabric_region_free(constant);
    assert_int_equal(munmap(pages, 2 * BYTES), 0);
    testing_pair_close(&pair);
}

/* The device knows memory by addresses that are like its own below 2 MiB, as large pages need it; so do peers. */
static void memory_may_be_of_large_pages(struct testing_fabric *testing)
{
    enum { LARGE = 2 << 20, AT = 5 * 4096 + 16, BYTES = LARGE };
    struct testing_pair pair;
    struct tarn_fabric_region *region;
    uint8_t *pages = aligned_alloc(LARGE, 2 * LARGE), back[64];
    assert_non_null(pages);
    open_pair(testing, &pair, NULL);
    testing_fill(pages, 2 * LARGE, 4);
    assert_int_equal(
        tarn_fabric_region_register(pair.server_domain, pages + AT, BYTES, TARN_FABRIC_MAY_READ, &region), 0);
    assert_int_equal(verbs_handle_address(&region->handle) % LARGE, AT);
    assert_int_equal(tarn_fabric_read(pair.client, 0, &region->handle, BYTES - sizeof(back), back,
                                      sizeof(back), TESTING_LATE),
                     0);
    assert_memory_equal(back, pages + AT + BYTES - sizeof(back), sizeof(back));
    for (uint64_t bit = 1; bit < LARGE / 4096; bit *= 2) { /* a wrong place is no other place of the region */
        struct tarn_fabric_handle wrong = region->handle;
        wrong.domain ^= bit;
        const uint64_t off = verbs_handle_address(&wrong) - verbs_handle_address(&region->handle);
        assert_true(off > 2 * BYTES && -off > 2 * BYTES);
    }
    tarn_fabric_region_free(region);
    free(pages);
    testing_pair_close(&pair);
}

/*
 * A region of the caller's memory is freed while operations take from there: the memory is still his, so they come to
 * a good end.
 */
static void regions_end_while_they_are_used(struct testing_fabric *testing)
{
    enum { OPS = 8, LONG = 3 << 20 };
    struct testing_pair pair;
    struct tarn_fabric_region *region;
    struct tarn_fabric_op ops[OPS];
    struct iovec vectors[OPS];
    open_pair(testing, &pair, NULL);
    testing_disconnect(&pair);
    struct tarn_fabric_domain *const domain = pair.server_domain;
    struct tarn_fabric_region *const all = pair.all;
    pair.server_domain = testing_domain(testing->fabric, 0, LONG); /* that has a longer one */
    pair.all = testing_region(pair.server_domain, LONG, TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE);
    testing_connect(&pair);
    uint8_t *memory = malloc(LONG);
    assert_non_null(memory);
    for (unsigned round = 0; round < 3; round++) {
        const unsigned count = round == 0 ? 1 : OPS; /* a long one, of which a part is left; several */
        const uint64_t bytes = round == 0 ? LONG : LONG / OPS;
        testing_fill(memory, LONG, round);
        assert_int_equal(
            tarn_fabric_region_register(pair.client_domain, memory, LONG, TARN_FABRIC_MAY_READ, &region), 0);
        for (unsigned i = 0; i < count; i++) {
            vectors[i] = (struct iovec){memory + i * bytes, bytes};
            ops[i] = op_of(&pair, TARN_FABRIC_WRITE, &vectors[i], 1);
            ops[i].offset = i * bytes;
            ops[i].fence = round == 2; /* most are not handed over yet */
        }
        const struct costs before = costs_of(testing);
        tarn_fabric_post(pair.client, ops, count);
        tarn_fabric_region_free(region);
        assert_int_equal(tarn_fabric_wait(ops, count, TESTING_LATE), 0);
        testing_expect(pair.all, 0, memory, LONG);
        const struct costs after = costs_of(testing);
        assert_int_equal(after.copied_bytes - before.copied_bytes, round == 2 ? LONG - bytes : 0);
        if (round == 0) { /* each tells of itself: it takes long */
            assert_int_equal(after.requests - before.requests, LONG / VERBS_DIRECT_BYTES);
            assert_int_equal(after.completions - before.completions, LONG / VERBS_DIRECT_BYTES);
        }
    }
    free(memory);
    testing_disconnect(&pair);
    tarn_fabric_region_free(pair.all);
    tarn_fabric_domain_close(pair.server_domain);
    pair.server_domain = domain;
    pair.all = all;
    testing_pair_close(&pair);
}

static void a_batch_is_one_doorbell_in_tasks(void **state)
{
    testing_run(state, a_batch_is_one_doorbell, true);
}

TESTING_BOTH(fences_are_the_cards)
TESTING_BOTH(buffers_are_not_copied)
TESTING_BOTH(regions_are_not_copied)
TESTING_BOTH(local_memory_is_not_copied)
TESTING_BOTH(memory_may_be_of_large_pages)
TESTING_BOTH(regions_end_while_they_are_used)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_batch_is_one_doorbell_in_tasks),
                                       TESTING_UNITS(fences_are_the_cards),
                                       TESTING_UNITS(buffers_are_not_copied),
                                       TESTING_UNITS(regions_are_not_copied),
                                       TESTING_UNITS(local_memory_is_not_copied),
                                       TESTING_UNITS(memory_may_be_of_large_pages),
                                       TESTING_UNITS(regions_end_while_they_are_used)};
    if (!verbs_testing_prepare())
        return 77;
    cmocka_set_test_filter(getenv("TARN_VERBS_CASE"));
    return cmocka_run_group_tests_name("fabric/verbs costs", tests, verbs_testing_setup, NULL);
}
