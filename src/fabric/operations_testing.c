/* What every provider must do with memory: READ, WRITE, what is refused, order, regions, counters. Single words are
 * words_testing.c's. */
#include "fabric/operations_testing.h"
#include "fabric/fabric.h"
#include <sys/mman.h>

/* ---- READ and WRITE ----------------------------------------------------------------------------- */

/* WRITE somewhere and READ it back; what lies around it stays. */
static void write_and_read(struct testing_pair *pair, uint64_t offset, uint64_t bytes, uint64_t round)
{
    enum { AROUND = 16 };
    static uint8_t before[1 << 17], written[1 << 17], back[1 << 17];
    assert_true(bytes + 2 * AROUND <= sizeof(before));
    testing_fill(before, bytes + 2 * AROUND, round);
    testing_fill(written, bytes, round + 1);
    tarn_fabric_mem_copy_in(pair->all, offset - AROUND, before, bytes + 2 * AROUND);
    assert_int_equal(tarn_fabric_write(pair->client, TESTING_TAG, &pair->all->handle, offset, written, bytes,
                                       TESTING_LATE),
                     0);
    memcpy(before + AROUND, written, bytes);
    testing_expect(pair->all, offset - AROUND, before, bytes + 2 * AROUND);
    memset(back, 0, bytes + 1);
    back[bytes] = 0xa5;
    assert_int_equal(
        tarn_fabric_read(pair->client, TESTING_TAG, &pair->all->handle, offset, back, bytes, TESTING_LATE),
        0);
    assert_memory_equal(back, written, bytes);
    assert_int_equal(back[bytes], 0xa5);
}

void bytes_arrive_at_all_offsets_and_lengths(struct testing_fabric *testing)
{
    static const uint64_t lengths[] = {0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 100, 127, 4096, 4099, 100001};
    struct testing_pair pair;
    testing_pair_open(testing, &pair, NULL);
    for (unsigned i = 0; i < base_array_count(lengths); i++) {
        for (uint64_t offset = 64; offset < 64 + 18; offset += testing->subject->is_slow ? 3 : 1)
            write_and_read(&pair, offset, lengths[i], i);
    }
    testing_pair_close(&pair);
}

void a_whole_region_moves(struct testing_fabric *testing)
{
    struct testing_pair pair;
    testing_pair_open(testing, &pair, NULL);
    uint8_t *data = malloc(TESTING_BYTES), *back = malloc(TESTING_BYTES);
    assert_true(data != NULL && back != NULL);
    testing_fill(data, TESTING_BYTES, 7);
    assert_int_equal(
        tarn_fabric_write(pair.client, 0, &pair.all->handle, 0, data, TESTING_BYTES, TESTING_LATE), 0);
    assert_int_equal(
        tarn_fabric_read(pair.client, 0, &pair.all->handle, 0, back, TESTING_BYTES, TESTING_LATE), 0);
    assert_memory_equal(data, back, TESTING_BYTES);
    /* at the very end nothing is left, and that is all right */
    assert_int_equal(
        tarn_fabric_read(pair.client, 0, &pair.all->handle, TESTING_BYTES, back, 0, TESTING_LATE), 0);
    free(data);
    free(back);
    testing_pair_close(&pair);
}

void vectors_are_gathered_and_scattered(struct testing_fabric *testing)
{
    struct testing_pair pair;
    uint8_t data[1000], back[1000];
    struct iovec out[TARN_FABRIC_IOV_MAX], in[3];
    uint64_t at = 0;
    testing_pair_open(testing, &pair, NULL);
    testing_fill(data, sizeof(data), 5);
    for (unsigned i = 0; i < TARN_FABRIC_IOV_MAX; i++) { /* 0, 7, 14 … and the rest */
        uint64_t bytes = i + 1 < TARN_FABRIC_IOV_MAX ? i * 7 : sizeof(data) - at;
        out[i] = (struct iovec){.iov_base = data + at, .iov_len = bytes};
        at += bytes;
    }
    in[0] = (struct iovec){.iov_base = back, .iov_len = 1};
    in[1] = (struct iovec){.iov_base = back + 1, .iov_len = 500};
    in[2] = (struct iovec){.iov_base = back + 501, .iov_len = sizeof(back) - 501};
    struct tarn_fabric_op ops[] = {{.kind = TARN_FABRIC_WRITE,
                                    .handle = &pair.all->handle,
                                    .offset = 3,
                                    .iov = out,
                                    .iov_count = TARN_FABRIC_IOV_MAX},
                                   {.kind = TARN_FABRIC_READ,
                                    .fence = true,
                                    .handle = &pair.all->handle,
                                    .offset = 3,
                                    .iov = in,
                                    .iov_count = 3}};
    tarn_fabric_post(pair.client, ops, 2);
    assert_int_equal(tarn_fabric_wait(ops, 2, TESTING_LATE), 0);
    testing_expect(pair.all, 3, data, sizeof(data));
    assert_memory_equal(back, data, sizeof(data));
    testing_pair_close(&pair);
}

/* Bulk regions keep the contract otherwise: all at once, from anywhere, in vectors, with a message behind. */
static void bulk_regions_hold_data(struct testing_fabric *testing)
{
    enum { OFFSET = 5, BYTES = TESTING_BYTES - 11, PARTS = 3 };
    const uint32_t rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_BULK;
    struct testing_pair pair;
    struct tarn_fabric_region *refused;
    struct tarn_fabric_message message;
    uint8_t *data = malloc(BYTES), *back = calloc(1, BYTES), room[4096];
    testing_pair_open(testing, &pair, NULL);
    assert_true(data != NULL && back != NULL);
    assert_int_equal(tarn_fabric_region_alloc(pair.client_domain, 8, TARN_FABRIC_BULK, &refused), -EINVAL);
    assert_int_equal(tarn_fabric_region_alloc(pair.client_domain, 8, rights | TARN_FABRIC_MAY_SWAP, &refused),
                     -EINVAL);
    struct tarn_fabric_region *region = testing_region(pair.client_domain, TESTING_BYTES, rights);
    testing_fill(data, BYTES, 3);
    struct iovec out[PARTS], in[PARTS];
    for (unsigned i = 0; i < PARTS; i++) {
        const size_t begin = i * (size_t)70001, bytes = i + 1 < PARTS ? 70001 : BYTES - begin;
        out[i] = (struct iovec){.iov_base = data + begin, .iov_len = bytes};
        in[i] = (struct iovec){.iov_base = back + begin, .iov_len = bytes};
    }
    struct tarn_fabric_op ops[] = {{.kind = TARN_FABRIC_WRITE_NOTIFY,
                                    .handle = &region->handle,
                                    .offset = OFFSET,
                                    .iov = out,
                                    .iov_count = PARTS,
                                    .value = 17},
                                   {.kind = TARN_FABRIC_READ,
                                    .fence = true,
                                    .handle = &region->handle,
                                    .offset = OFFSET,
                                    .iov = in,
                                    .iov_count = PARTS}};
    tarn_fabric_post(pair.server, ops, 2);
    assert_int_equal(tarn_fabric_await(ops, 1, TESTING_LATE), 0);
    assert_int_equal(tarn_fabric_receive(pair.client, room, sizeof(room), TESTING_LATE, &message), 0);
    assert_int_equal(message.value, 17);
    testing_expect(region, OFFSET, data, BYTES);
    assert_int_equal(tarn_fabric_wait(ops, 2, TESTING_LATE), 0);
    assert_memory_equal(back, data, BYTES);
    assert_int_equal(tarn_fabric_mem_load64(region, TESTING_BYTES - 8) >> 16, 0);
    tarn_fabric_region_free(region);
    free(data);
    free(back);
    testing_pair_close(&pair);
}

void both_sides_reach_the_other(struct testing_fabric *testing)
{
    struct testing_pair pair;
    testing_pair_open(testing, &pair, NULL);
    struct tarn_fabric_region *clients =
        testing_region(pair.client_domain, 8192, TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE);
    assert_int_equal(
        tarn_fabric_write(pair.server, 0, &clients->handle, 8, "from the server", 15, TESTING_LATE), 0);
    testing_expect(clients, 8, "from the server", 15);
    tarn_fabric_mem_copy_in(pair.readable, 100, "only to read", 12);
    char back[12];
    assert_int_equal(tarn_fabric_read(pair.client, 0, &pair.readable->handle, 100, back, 12, TESTING_LATE),
                     0);
    assert_memory_equal(back, "only to read", 12);
    tarn_fabric_region_free(clients);
    testing_pair_close(&pair);
}

/* ---- what is refused ---------------------------------------------------------------------------- */

static void expect_refused(struct testing_pair *pair, enum tarn_fabric_op_kind kind,
                           const struct tarn_fabric_handle *handle, uint64_t offset, uint64_t bytes)
{
    static uint8_t memory[1 << 12];
    const struct iovec vector = {.iov_base = memory, .iov_len = bytes};
    bool atomic = kind == TARN_FABRIC_CAS || kind == TARN_FABRIC_FAA;
    testing_expect_failure(pair,
                           (struct tarn_fabric_op){.kind = kind,
                                                   .handle = handle,
                                                   .offset = offset,
                                                   .operand = 1,
                                                   .iov = &vector,
                                                   .iov_count = atomic ? 0 : 1},
                           -EACCES);
}

static void bounds_are_kept(struct testing_fabric *testing)
{
    static const enum tarn_fabric_op_kind kinds[] = {TARN_FABRIC_READ, TARN_FABRIC_WRITE,
                                                     TARN_FABRIC_WRITE_NOTIFY};
    struct testing_pair pair;
    testing_pair_open(testing, &pair, NULL);
    for (unsigned i = 0; i < base_array_count(kinds); i++) {
        expect_refused(&pair, kinds[i], &pair.all->handle, TESTING_BYTES - 7, 8);
        expect_refused(&pair, kinds[i], &pair.all->handle, TESTING_BYTES + 1, 0);
        expect_refused(&pair, kinds[i], &pair.all->handle, UINT64_MAX - 3, 8);
        struct tarn_fabric_handle longer = pair.all->handle; /* what a handle says of itself does not count */
        longer.bytes *= 2;
        expect_refused(&pair, kinds[i], &longer, TESTING_BYTES, 8);
    }
    expect_refused(&pair, TARN_FABRIC_CAS, &pair.all->handle, TESTING_BYTES, 0);
    expect_refused(&pair, TARN_FABRIC_FAA, &pair.all->handle, UINT64_MAX - 7, 0);
    testing_pair_close(&pair);
}

void rights_are_kept(struct testing_fabric *testing)
{
    struct testing_pair pair;
    testing_pair_open(testing, &pair, NULL);
    tarn_fabric_region_free(pair.all); /* its memory is taken by others, when the connection is over */
    testing_disconnect(&pair);
    struct tarn_fabric_region *written = testing_region(pair.server_domain, 4096, TARN_FABRIC_MAY_WRITE);
    struct tarn_fabric_region *swapped = testing_region(pair.server_domain, 4096, TARN_FABRIC_MAY_SWAP);
    pair.all = testing_region(pair.server_domain, 4096, TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE);
    testing_connect(&pair);
    struct tarn_fabric_handle claimed = pair.readable->handle;
    claimed.rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP;
    expect_refused(&pair, TARN_FABRIC_WRITE, &pair.readable->handle, 0, 8);
    expect_refused(&pair, TARN_FABRIC_WRITE, &claimed, 0, 8);
    expect_refused(&pair, TARN_FABRIC_WRITE_NOTIFY, &pair.readable->handle, 0, 0);
    expect_refused(&pair, TARN_FABRIC_CAS, &claimed, 0, 0);
    expect_refused(&pair, TARN_FABRIC_READ, &written->handle, 0, 8);
    expect_refused(&pair, TARN_FABRIC_FAA, &written->handle, 0, 0);
    expect_refused(&pair, TARN_FABRIC_READ, &swapped->handle, 0, 8);
    expect_refused(&pair, TARN_FABRIC_WRITE, &swapped->handle, 0, 8);
    expect_refused(&pair, TARN_FABRIC_FAA, &pair.all->handle, 0, 0);
    uint64_t zero = 0;
    testing_expect(pair.readable, 0, &zero, 8);
    testing_expect(swapped, 0, &zero, 8);
    tarn_fabric_region_free(written);
    tarn_fabric_region_free(swapped);
    testing_pair_close(&pair);
}

static void foreign_and_stale_handles_are_refused(struct testing_fabric *testing)
{
    struct testing_pair pair;
    testing_pair_open(testing, &pair, NULL);
    struct tarn_fabric_domain *other = testing_domain(testing->fabric, 0, 4096);
    struct tarn_fabric_region *others =
        testing_region(other, 4096, TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE);
    expect_refused(&pair, TARN_FABRIC_READ, &others->handle, 0, 8);
    expect_refused(&pair, TARN_FABRIC_WRITE, &others->handle, 0, 8);
    struct tarn_fabric_handle forged = others->handle; /* another domain's key under this one's name */
    forged.domain = pair.all->handle.domain;
    expect_refused(&pair, TARN_FABRIC_READ, &forged, 0, 8);
    forged = pair.all->handle;
    forged.domain ^= 1;
    expect_refused(&pair, TARN_FABRIC_READ, &forged, 0, 8);
    forged = pair.all->handle;
    forged.key ^= UINT64_C(1) << 40;
    expect_refused(&pair, TARN_FABRIC_READ, &forged, 0, 8);
    forged.key = 0;
    expect_refused(&pair, TARN_FABRIC_READ, &forged, 0, 0);
    forged.key = UINT64_MAX;
    expect_refused(&pair, TARN_FABRIC_READ, &forged, 0, 0);
    struct tarn_fabric_handle stale = pair.readable->handle;
    tarn_fabric_region_free(pair.readable);
    expect_refused(&pair, TARN_FABRIC_READ, &stale, 0, 8);
    pair.readable = testing_region(pair.server_domain, 4096, TARN_FABRIC_MAY_READ);
    expect_refused(&pair, TARN_FABRIC_READ, &stale, 0, 8);
    tarn_fabric_region_free(others);
    tarn_fabric_domain_close(other);
    testing_pair_close(&pair);
}

static void memory_of_the_callers_is_exported(struct testing_fabric *testing)
{
    enum { REGISTERED = 1000, AT = 24 };
    struct testing_pair pair;
    struct tarn_fabric_region *region, *second;
    const uint32_t rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP;
    uint64_t before, *words = malloc(AT + REGISTERED + AT);
    uint8_t *memory = (uint8_t *)words + AT, back[REGISTERED];
    assert_non_null(words);
    memset(words, 0x5a, AT + REGISTERED + AT);
    testing_pair_open(testing, &pair, NULL);
    int error = tarn_fabric_region_register(pair.server_domain, memory, REGISTERED, rights, &region);
    if (!testing->subject->registers) {
        assert_int_equal(error, -EOPNOTSUPP);
        testing_pair_close(&pair);
        free(words);
        return;
    }
    assert_int_equal(error, 0);
    assert_ptr_equal(region->memory, memory);
    assert_int_equal(region->bytes, REGISTERED);
    assert_int_equal(tarn_fabric_region_register(pair.server_domain, memory + 1, REGISTERED, rights, &second),
                     -EINVAL);
    assert_int_equal(tarn_fabric_region_register(pair.server_domain, memory, 9, rights, &second), -EINVAL);
    assert_int_equal(tarn_fabric_region_register(pair.server_domain, NULL, 8, rights, &second), -EINVAL);

    const struct tarn_fabric_handle handle = region->handle;
    assert_int_equal(tarn_fabric_write(pair.client, 0, &handle, 8, "of the caller", 13, TESTING_LATE), 0);
    assert_memory_equal(memory + 8, "of the caller", 13);
    tarn_fabric_mem_copy_in(region, REGISTERED - 1, "M", 1);
    assert_int_equal(tarn_fabric_read(pair.client, 0, &handle, 0, back, REGISTERED, TESTING_LATE), 0);
    assert_memory_equal(back, memory, REGISTERED);
    tarn_fabric_mem_store64(region, 64, 5);
    assert_int_equal(tarn_fabric_faa(pair.client, 0, &handle, 64, 2, TESTING_LATE, &before), 0);
    assert_int_equal(before, 5);
    assert_int_equal(tarn_fabric_mem_load64(region, 64), 7);
    expect_refused(&pair, TARN_FABRIC_READ, &handle, REGISTERED - 8, 16);
    expect_refused(&pair, TARN_FABRIC_WRITE, &handle, REGISTERED, 1);

    tarn_fabric_region_free(region);
    expect_refused(&pair, TARN_FABRIC_WRITE, &handle, 0, 8);
    for (unsigned i = 0; i < AT;
         i++) /* what lies around it is nobody's to touch, nor is what was said to be freed */
        assert_true(memory[-1 - (int)i] == 0x5a && memory[REGISTERED + i] == 0x5a);
    free(words);
    testing_pair_close(&pair);
}

/* What the caller's pages hold is read by peers of two domains, and stays there; a third adopts what the first has freed. */
static void memory_of_the_callers_is_adopted(struct testing_fabric *testing)
{
    enum { ADOPTED = 65536, DOMAINS = 3 };
    struct testing_pair pairs[DOMAINS];
    struct tarn_fabric_region *regions[DOMAINS];
    uint64_t word;
    uint8_t *memory = mmap(NULL, ADOPTED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    memset(memory, 0x5a, ADOPTED);
    testing_pair_open(testing, &pairs[0], NULL);
    for (unsigned i = 0; i < DOMAINS; i++) {
        if (i > 0) {
            pairs[i] = pairs[0];
            pairs[i].server_domain = testing_domain(testing->fabric, 0, 0);
            testing_connect(&pairs[i]);
        }
        if (i == DOMAINS - 1)
            tarn_fabric_region_free(regions[0]);
        assert_int_equal(
            fabric_region_adopt(pairs[i].server_domain, memory, ADOPTED, TARN_FABRIC_MAY_READ, &regions[i]),
            0);
        assert_ptr_equal(regions[i]->memory, memory);
        assert_int_equal(memory[ADOPTED - 1], 0x5a);
        tarn_fabric_mem_store64(regions[i], 8, i);
        for (unsigned k = i == DOMAINS - 1 ? 1 : 0; k <= i; k++) {
            assert_int_equal(
                tarn_fabric_read(pairs[k].client, 0, &regions[k]->handle, 8, &word, 8, TESTING_LATE), 0);
            assert_int_equal(word, i);
        }
    }
    expect_refused(&pairs[1], TARN_FABRIC_WRITE, &regions[1]->handle, 0, 8);
    for (unsigned i = 1; i < DOMAINS; i++) {
        tarn_fabric_region_free(regions[i]);
        testing_disconnect(&pairs[i]);
        tarn_fabric_domain_close(pairs[i].server_domain);
    }
    assert_int_equal(memory[0], 0x5a);
    testing_pair_close(&pairs[0]);
    assert_int_equal(munmap(memory, ADOPTED), 0);
}

/* The same bytes in a second domain, whose peers have keys of their own for them, and none for what else the first has. */
static void one_memory_is_in_two_domains(struct testing_fabric *testing)
{
    struct testing_pair first, second;
    struct tarn_fabric_region *shared, *part;
    uint64_t before, word = 41;
    testing_pair_open(testing, &first, NULL);
    second = first;
    second.server_domain = testing_domain(testing->fabric, 0, 0);
    assert_int_equal(tarn_fabric_region_register(second.server_domain, first.all->memory, first.all->bytes,
                                                 first.all->handle.rights, &shared),
                     0);
    testing_connect(&second);
    assert_int_equal(
        tarn_fabric_write(first.client, 0, &first.all->handle, 8, &word, sizeof(word), TESTING_LATE), 0);
    assert_int_equal(tarn_fabric_faa(second.client, 0, &shared->handle, 8, 1, TESTING_LATE, &before), 0);
    assert_int_equal(before, 41);
    assert_int_equal(tarn_fabric_faa(first.client, 0, &first.all->handle, 8, 1, TESTING_LATE, &before), 0);
    assert_int_equal(before, 42);
    assert_int_equal(tarn_fabric_mem_load64(shared, 8), 43);
    assert_int_equal(
        tarn_fabric_read(second.client, 0, &shared->handle, 8, &word, sizeof(word), TESTING_LATE), 0);
    assert_int_equal(word, 43);
    tarn_fabric_mem_store64(shared, 24, 9);
    assert_int_equal(tarn_fabric_mem_load64(first.all, 24), 9);
    struct tarn_fabric_op op = {
        .kind = TARN_FABRIC_FAA, .handle = &first.all->handle, .offset = 32, .operand = 5};
    tarn_fabric_post(first.client, &op, 1);
    assert_int_equal(testing_await_word(shared, 32, 0), 5);
    assert_int_equal(tarn_fabric_wait(&op, 1, TESTING_LATE), 0);
    expect_refused(&second, TARN_FABRIC_READ, &first.all->handle, 0, 8);
    expect_refused(&first, TARN_FABRIC_READ, &shared->handle, 0, 8);
    assert_int_equal(tarn_fabric_region_register(second.server_domain, first.all->memory + 4096, 4096,
                                                 TARN_FABRIC_MAY_READ, &part),
                     testing->subject->registers ? 0 : -EOPNOTSUPP);
    if (testing->subject->registers)
        tarn_fabric_region_free(part);

    struct tarn_fabric_handle stale = shared->handle;
    tarn_fabric_region_free(shared);
    expect_refused(&second, TARN_FABRIC_READ, &stale, 0, 8);
    assert_int_equal(
        tarn_fabric_read(first.client, 0, &first.all->handle, 8, &word, sizeof(word), TESTING_LATE), 0);
    assert_int_equal(word, 43);
    testing_disconnect(&second);
    tarn_fabric_domain_close(second.server_domain);
    testing_pair_close(&first);
}

/* Without rights the caller's memory is known to this side alone: it may lie anywhere, and no peer reaches it. */
static void memory_of_the_callers_stays_local(struct testing_fabric *testing)
{
    enum { BYTES = 5001 };
    struct testing_pair pair;
    struct tarn_fabric_region *mine, *theirs;
    uint8_t memory[BYTES + 1], data[BYTES];
    testing_pair_open(testing, &pair, NULL);
    assert_int_equal(tarn_fabric_region_register(pair.client_domain, memory + 1, BYTES, 0, &mine), 0);
    assert_int_equal(tarn_fabric_region_register(pair.server_domain, memory, BYTES, 0, &theirs), 0);
    assert_ptr_equal(mine->memory, memory + 1);
    testing_fill(data, BYTES, 9);
    memcpy(mine->memory, data, BYTES);
    const struct tarn_fabric_handle *all = &pair.all->handle;
    assert_int_equal(tarn_fabric_write(pair.client, 0, all, 3, mine->memory, BYTES, TESTING_LATE), 0);
    testing_expect(pair.all, 3, data, BYTES);
    memset(mine->memory, 0, BYTES);
    assert_int_equal(tarn_fabric_read(pair.client, 0, all, 3, mine->memory, BYTES, TESTING_LATE), 0);
    assert_memory_equal(mine->memory, data, BYTES);
    for (unsigned kind = TARN_FABRIC_READ; kind <= TARN_FABRIC_FAA; kind++)
        expect_refused(&pair, kind, &theirs->handle, 0, 8);
    assert_memory_equal(mine->memory, data, BYTES);
    tarn_fabric_region_free(mine);
    tarn_fabric_region_free(theirs);
    struct tarn_fabric_domain *const domain = pair.client_domain;
    assert_int_equal(tarn_fabric_region_register(domain, memory, 0, 0, &mine), -EINVAL);
    assert_int_equal(tarn_fabric_region_register(domain, NULL, 8, 0, &mine), -EINVAL);
    testing_pair_close(&pair);
}

/* The same with memory that the fabric makes, which takes nothing of what the domain can export. */
static void memory_without_rights_stays_local(struct testing_fabric *testing)
{
    enum { BYTES = 3 << 20 };
    struct testing_pair pair;
    struct tarn_fabric_region *mine;
    testing_pair_open(testing, &pair, NULL);
    const uint64_t before = base_account_used(&testing->node->memory);
    assert_int_equal(tarn_fabric_region_alloc(pair.client_domain, BYTES - 5, 0, &mine), 0);
    assert_int_equal(mine->bytes, BYTES);
    assert_true(base_account_used(&testing->node->memory) >= before + BYTES);
    for (unsigned i = 0; i < BYTES; i += 4096)
        assert_int_equal(mine->memory[i], 0);
    testing_fill(mine->memory, TESTING_BYTES, 4);
    const struct tarn_fabric_handle *all = &pair.all->handle;
    assert_int_equal(tarn_fabric_write(pair.client, 0, all, 0, mine->memory, TESTING_BYTES, TESTING_LATE), 0);
    testing_expect(pair.all, 0, mine->memory, TESTING_BYTES);
    tarn_fabric_region_free(mine);
    base_account_fail_at(&testing->node->memory, 2);
    assert_int_equal(tarn_fabric_region_alloc(pair.client_domain, BYTES, 0, &mine), -ENOMEM);
    base_account_fail_at(&testing->node->memory, 0);
    testing_pair_close(&pair);
}

static void wrong_operations_are_refused(struct testing_fabric *testing)
{
    struct testing_pair pair;
    static uint8_t byte;
    struct iovec vectors[TARN_FABRIC_IOV_MAX + 1];
    testing_pair_open(testing, &pair, NULL);
    const struct tarn_fabric_handle *all = &pair.all->handle;
    for (unsigned i = 0; i <= TARN_FABRIC_IOV_MAX; i++)
        vectors[i] = (struct iovec){.iov_base = &byte, .iov_len = 1};
    const struct iovec huge[] = {{.iov_base = &byte, .iov_len = TARN_FABRIC_BYTES_MAX}, {&byte, 1}};
    const struct tarn_fabric_op wrong[] = {
        {.kind = TARN_FABRIC_CAS, .handle = all, .offset = 4},
        {.kind = TARN_FABRIC_FAA, .handle = all, .offset = 1},
        {.kind = TARN_FABRIC_FAA, .handle = all, .iov = vectors, .iov_count = 1},
        {.kind = TARN_FABRIC_READ, .handle = all, .iov = vectors, .iov_count = TARN_FABRIC_IOV_MAX + 1},
        {.kind = TARN_FABRIC_READ, .handle = all, .iov = huge, .iov_count = 2},
        {.kind = TARN_FABRIC_READ, .iov = vectors, .iov_count = 1},
        {.kind = TARN_FABRIC_SEND, .handle = all, .iov = vectors, .iov_count = 1},
        {.kind = TARN_FABRIC_OP_KINDS, .handle = all},
        {.kind = TARN_FABRIC_READ, .handle = all, .tag = TARN_FABRIC_TAGS_MAX},
    };
    for (unsigned i = 0; i < base_array_count(wrong); i++)
        testing_expect_failure(&pair, wrong[i], -EINVAL);
    testing_pair_close(&pair);
}

/* ---- order -------------------------------------------------------------------------------------- */

enum { LITMUS_ROUNDS = 4000, LITMUS_ROUNDS_SIMULATED = 200 };

static void write_mine_read_yours(void *arg)
{
    const struct litmus *litmus = arg;
    struct testing_pair *pair = litmus->pair;
    const unsigned other = 1 - litmus->side;
    struct tarn_fabric_connection *connection;
    const uint64_t one = 1;
    assert_int_equal(
        tarn_fabric_connect(pair->client_domain, pair->testing->address, NULL, TESTING_LATE, &connection), 0);
    for (unsigned round = 0; round < litmus->rounds; round++) {
        const uint64_t mine = round * 16 + litmus->side * 8, yours = round * 16 + other * 8;
        atomic_store(&litmus->at[litmus->side], round + 1);
        for (unsigned looks = 0; atomic_load(&litmus->at[other]) <= round; looks++) {
            if (looks % litmus->looks == litmus->looks - 1)
                task_yield();
        }
        const struct iovec out = {.iov_base = (void *)(uintptr_t)&one, .iov_len = 8};
        const struct iovec in = {.iov_base = &litmus->seen[round], .iov_len = 8};
        struct tarn_fabric_op ops[] = {{.kind = TARN_FABRIC_WRITE,
                                        .handle = &pair->all->handle,
                                        .offset = mine,
                                        .iov = &out,
                                        .iov_count = 1},
                                       {.kind = TARN_FABRIC_READ,
                                        .fence = true,
                                        .handle = &pair->all->handle,
                                        .offset = yours,
                                        .iov = &in,
                                        .iov_count = 1}};
        tarn_fabric_post(connection, ops, 2);
        assert_int_equal(tarn_fabric_wait(ops, 2, TESTING_LATE), 0);
    }
    tarn_fabric_disconnect(connection);
}

/* A WRITE that has completed is seen by a READ that begins later: of two, at least one sees the other's. */
static void what_has_completed_comes_first(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct testing_job jobs[2];
    struct litmus litmus[2];
    struct tarn_fabric_connection *servers[2];
    _Atomic unsigned at[2] = {0};
    static uint64_t seen[2][LITMUS_ROUNDS];
    const bool simulated = testing->subject->run != NULL; /* one thread, and each yield is work */
    const unsigned rounds = simulated || testing->subject->is_slow ? LITMUS_ROUNDS_SIMULATED : LITMUS_ROUNDS;
    testing_pair_open(testing, &pair, NULL);
    for (unsigned i = 0; i < 2; i++) {
        litmus[i] = (struct litmus){.pair = &pair,
                                    .side = i,
                                    .rounds = rounds,
                                    .looks = simulated || testing->subject->is_slow ? 1 : 1000,
                                    .at = at,
                                    .seen = seen[i]};
        testing_start(testing, &jobs[i], 1 + i, write_mine_read_yours, &litmus[i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        struct tarn_fabric_incoming *incoming;
        assert_int_equal(tarn_fabric_listener_wait(pair.listener, TESTING_LATE, &incoming), 0);
        assert_int_equal(tarn_fabric_accept(incoming, pair.server_domain, NULL, &servers[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        testing_join(&jobs[i]);
    for (unsigned round = 0; round < rounds; round++)
        assert_true(seen[0][round] == 1 || seen[1][round] == 1);
    for (unsigned i = 0; i < 2; i++)
        tarn_fabric_disconnect(servers[i]);
    testing_pair_close(&pair);
}

/* ---- regions, words, counters ------------------------------------------------------------------- */

static void domains_have_limits(struct testing_fabric *testing)
{
    const struct tarn_fabric_domain_options options = {.writable_bytes = 16384, .regions_max = 2};
    const struct tarn_fabric_domain_options too_many = {.regions_max = TARN_FABRIC_REGIONS_MAX + 1};
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *a, *b, *c;
    assert_int_equal(tarn_fabric_domain_open(testing->fabric, &too_many, &domain), -EINVAL);
    assert_int_equal(tarn_fabric_domain_open(testing->fabric, &options, &domain), 0);
    assert_int_equal(tarn_fabric_region_alloc(domain, 0, TARN_FABRIC_MAY_WRITE, &a), -EINVAL);
    assert_int_equal(tarn_fabric_region_alloc(domain, 1, 8, &a), -EINVAL);
    assert_int_equal(tarn_fabric_region_alloc(domain, 1, TARN_FABRIC_MAY_READ, &a), -ENOSPC);
    assert_int_equal(tarn_fabric_region_alloc(domain, UINT64_MAX, TARN_FABRIC_MAY_WRITE, &a), -EINVAL);
    assert_int_equal(tarn_fabric_region_alloc(domain, 16385, TARN_FABRIC_MAY_WRITE, &a), -ENOSPC);
    a = testing_region(domain, 1, TARN_FABRIC_MAY_WRITE);
    assert_int_equal(a->bytes, 4096);
    b = testing_region(domain, 12288, TARN_FABRIC_MAY_SWAP);
    assert_int_equal(tarn_fabric_region_alloc(domain, 1, TARN_FABRIC_MAY_WRITE, &c), -ENOSPC);
    tarn_fabric_region_free(a);
    c = testing_region(domain, 4096, TARN_FABRIC_MAY_WRITE);
    tarn_fabric_region_free(b);
    tarn_fabric_region_free(c);
    a = testing_region(domain, 16384, TARN_FABRIC_MAY_WRITE); /* one again */
    assert_true(base_is_aligned((uintptr_t)a->memory, 4096) && base_is_zero(a->memory, a->bytes));
    tarn_fabric_region_free(a);
    tarn_fabric_domain_close(domain);
}

static void handles_can_be_sent(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_handle handle;
    uint8_t bytes[TARN_FABRIC_HANDLE_BYTES], back[4];
    testing_pair_open(testing, &pair, NULL);
    tarn_fabric_mem_copy_in(pair.readable, 0, "here", 4);
    tarn_fabric_handle_save(&pair.readable->handle, bytes);
    assert_int_equal(tarn_fabric_handle_load(bytes, &handle), 0);
    assert_int_equal(handle.bytes, TESTING_BYTES);
    assert_int_equal(handle.rights, TARN_FABRIC_MAY_READ);
    assert_int_equal(tarn_fabric_read(pair.client, 0, &handle, 0, back, 4, TESTING_LATE), 0);
    assert_memory_equal(back, "here", 4);
    bytes[31] ^= 1;
    assert_int_equal(tarn_fabric_handle_load(bytes, &handle), -EINVAL);
    testing_pair_close(&pair);
}

static void write_a_word_later(void *arg)
{
    struct testing_pair *pair = arg;
    const uint64_t words[2] = {7, 8};
    (void)task_sleep(5000000);
    assert_int_equal(
        tarn_fabric_write(pair->client, 0, &pair->all->handle, 800, words, sizeof(words), TESTING_LATE), 0);
}

static void a_word_is_waited_for(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct testing_job job;
    uint32_t index = 9;
    testing_pair_open(testing, &pair, NULL);
    const struct tarn_fabric_word words[] = {{.region = pair.readable, .offset = 0},
                                             {.region = pair.all, .offset = 808},
                                             {.region = pair.all, .offset = 0}};
    assert_int_equal(tarn_fabric_wait_any(words, 3, TESTING_SOON, &index), -ETIMEDOUT);
    assert_int_equal(tarn_fabric_wait_any(words, 0, TESTING_SOON, &index), -EINVAL);
    assert_int_equal(index, 9);
    testing_start(testing, &job, 0, write_a_word_later, &pair);
    assert_int_equal(tarn_fabric_wait_any(words, 3, TESTING_LATE, &index), 0);
    assert_int_equal(index, 1);
    assert_int_equal(tarn_fabric_mem_load64(pair.all, 808), 8);
    testing_join(&job);
    testing_pair_close(&pair);
}

static void operations_are_counted(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_counters counters;
    uint8_t data[300];
    uint64_t before;
    testing_pair_open(testing, &pair, NULL);
    const struct iovec vector = {.iov_base = data, .iov_len = sizeof(data)};
    struct tarn_fabric_op ops[3];
    for (unsigned i = 0; i < 3; i++)
        ops[i] = (struct tarn_fabric_op){
            .kind = TARN_FABRIC_READ, .tag = 4, .handle = &pair.all->handle, .iov = &vector, .iov_count = 1};
    tarn_fabric_post(pair.client, ops, 3);
    assert_int_equal(tarn_fabric_wait(ops, 3, TESTING_LATE), 0);
    assert_int_equal(tarn_fabric_faa(pair.client, 4, &pair.all->handle, 0, 1, TESTING_LATE, &before), 0);
    assert_int_equal(tarn_fabric_write(pair.client, 5, &pair.all->handle, 0, data, 20, TESTING_LATE), 0);
    for (unsigned i = 0; i < 2; i++) { /* the same when the connection is over */
        tarn_fabric_count(testing_clients(testing), 4, &counters);
        assert_int_equal(counters.operations[TARN_FABRIC_READ], 3);
        assert_int_equal(counters.bytes[TARN_FABRIC_READ], 900);
        assert_int_equal(counters.operations[TARN_FABRIC_FAA], 1);
        assert_int_equal(counters.bytes[TARN_FABRIC_FAA], 8);
        assert_int_equal(counters.operations[TARN_FABRIC_WRITE], 0);
        assert_int_equal(counters.waits, 2);
        tarn_fabric_count(testing_clients(testing), 5, &counters);
        assert_int_equal(counters.bytes[TARN_FABRIC_WRITE], 20);
        assert_int_equal(counters.failed, 0);
        if (i == 0)
            testing_disconnect(&pair);
    }
    testing_pair_close(&pair);
}

static uint64_t waits_of(const struct testing_fabric *testing)
{
    struct tarn_fabric_counters counters;
    tarn_fabric_count(testing_clients(testing), TESTING_TAG, &counters);
    return counters.waits;
}

/* Add operations on one word; each but the first waits for the one before it. */
static void prepare_chain(struct tarn_fabric_op *ops, unsigned count, const struct tarn_fabric_handle *handle,
                          bool fenced)
{
    for (unsigned i = 0; i < count; i++)
        ops[i] = (struct tarn_fabric_op){.kind = TARN_FABRIC_FAA,
                                         .tag = TESTING_TAG,
                                         .fence = fenced && i > 0,
                                         .handle = handle,
                                         .offset = 8,
                                         .operand = 1};
}

/* Run a chain whose first operation moves a word. */
static void run_chain(struct testing_pair *pair, struct tarn_fabric_op *ops, unsigned count,
                      enum tarn_fabric_op_kind first, const struct iovec *vector)
{
    prepare_chain(ops, count, &pair->all->handle, true);
    ops[0].kind = first;
    ops[0].iov = vector;
    ops[0].iov_count = 1;
    tarn_fabric_post(pair->client, ops, count);
    assert_int_equal(tarn_fabric_wait(ops, count, TESTING_LATE), 0);
}

/* Where the caller's own processor serves, a fence is one of its instructions; where the peer does so, in the order of
 * sending, one behind a READ may cost a round trip; a card waits itself; in the simulator each costs one. */
static void round_trips_of_chains_are_counted(struct testing_fabric *testing)
{
    enum { SHORT = 2, LONG = 3 };
    struct testing_pair pair;
    struct tarn_fabric_op ops[SHORT + LONG];
    const uint64_t word = 7;
    const struct iovec vector = {.iov_base = (void *)(uintptr_t)&word, .iov_len = sizeof(word)};
    const struct tarn_fabric_info *info = tarn_fabric_info(testing->fabric);
    const bool at_once = strcmp(info->provider, "sim") != 0;
    testing_pair_open(testing, &pair, NULL);
    struct tarn_fabric_region *clients = testing_region(pair.client_domain, 4096, TARN_FABRIC_MAY_SWAP);

    uint64_t before = waits_of(testing); /* a WRITE, and two that depend on it */
    run_chain(&pair, ops, LONG, TARN_FABRIC_WRITE, &vector);
    assert_int_equal(ops[1].before, word);
    assert_int_equal(ops[2].before, word + 1);
    assert_int_equal(waits_of(testing) - before, at_once ? 1 : LONG);

    before = waits_of(testing); /* the same behind a READ */
    uint64_t back;
    const struct iovec into = {.iov_base = &back, .iov_len = sizeof(back)};
    run_chain(&pair, ops, LONG, TARN_FABRIC_READ, &into);
    assert_int_equal(back, word + 2);
    assert_int_equal(ops[2].before, word + 3);
    const uint64_t trips = waits_of(testing) - before;
    if (info->served_by == TARN_FABRIC_SERVED_BY_PEER)
        assert_true(trips == 1 || trips == 2); /* the answer may have come before the next was posted */
    else
        assert_int_equal(trips, at_once ? 1 : LONG);

    before = waits_of(testing); /* without fences all go at once; one alone has nothing to wait for */
    prepare_chain(ops, LONG, &pair.all->handle, false);
    tarn_fabric_post(pair.client, ops, LONG);
    assert_int_equal(tarn_fabric_wait(ops, LONG, TESTING_LATE), 0);
    ops[0].fence = true;
    tarn_fabric_post(pair.client, ops, 1);
    assert_int_equal(tarn_fabric_wait(ops, 1, TESTING_LATE), 0);
    assert_int_equal(waits_of(testing) - before, 2);

    before = waits_of(testing); /* of two chains at the same time the longer one counts */
    prepare_chain(ops, SHORT, &pair.all->handle, true);
    prepare_chain(&ops[SHORT], LONG, &clients->handle, true);
    tarn_fabric_post(pair.client, ops, SHORT);
    tarn_fabric_post(pair.server, &ops[SHORT], LONG);
    assert_int_equal(tarn_fabric_wait(ops, SHORT + LONG, TESTING_LATE), 0);
    assert_int_equal(waits_of(testing) - before, at_once ? 1 : LONG);
    tarn_fabric_region_free(clients);
    testing_pair_close(&pair);
}

#define SUITE(EACH)                                                                                          \
    EACH(bytes_arrive_at_all_offsets_and_lengths)                                                            \
    EACH(a_whole_region_moves)                                                                               \
    EACH(vectors_are_gathered_and_scattered)                                                                 \
    EACH(bulk_regions_hold_data)                                                                             \
    EACH(both_sides_reach_the_other)                                                                         \
    EACH(bounds_are_kept)                                                                                    \
    EACH(rights_are_kept)                                                                                    \
    EACH(foreign_and_stale_handles_are_refused)                                                              \
    EACH(memory_of_the_callers_is_exported)                                                                  \
    EACH(memory_of_the_callers_is_adopted)                                                                   \
    EACH(one_memory_is_in_two_domains)                                                                       \
    EACH(memory_of_the_callers_stays_local)                                                                  \
    EACH(memory_without_rights_stays_local)                                                                  \
    EACH(wrong_operations_are_refused)                                                                       \
    EACH(what_has_completed_comes_first)                                                                     \
    EACH(domains_have_limits)                                                                                \
    EACH(handles_can_be_sent)                                                                                \
    EACH(a_word_is_waited_for)                                                                               \
    EACH(operations_are_counted)                                                                             \
    EACH(round_trips_of_chains_are_counted)

SUITE(TESTING_BOTH)

static const struct CMUnitTest fabric_operations_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite fabric_operations = TESTING_SUITE(fabric_operations_tests);
