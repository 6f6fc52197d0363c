/* What every provider must do with single words: CAS and FAA, the owner's and the peers', and words that are whole. */
#include "fabric/words_testing.h"

/* ---- atomics ------------------------------------------------------------------------------------ */

static void swaps_and_adds(struct testing_fabric *testing)
{
    struct testing_pair pair;
    uint64_t before = 99;
    testing_pair_open(testing, &pair, NULL);
    const struct tarn_fabric_handle *all = &pair.all->handle;
    tarn_fabric_mem_store64(pair.all, 16, 5);
    assert_int_equal(tarn_fabric_cas(pair.client, 1, all, 16, 5, 6, TESTING_LATE, &before), 0);
    assert_int_equal(before, 5);
    assert_int_equal(tarn_fabric_cas(pair.client, 1, all, 16, 5, 7, TESTING_LATE, &before), 0);
    assert_int_equal(before, 6);
    assert_int_equal(tarn_fabric_mem_load64(pair.all, 16), 6);
    assert_int_equal(tarn_fabric_faa(pair.client, 1, all, 16, UINT64_MAX, TESTING_LATE, &before), 0);
    assert_int_equal(before, 6);
    assert_int_equal(tarn_fabric_faa(pair.client, 1, all, 16, 0, TESTING_LATE, &before), 0);
    assert_int_equal(before, 5);
    assert_int_equal(tarn_fabric_faa(pair.client, 1, all, TESTING_BYTES - 8, 3, TESTING_LATE, &before), 0);
    assert_int_equal(before, 0);
    assert_int_equal(tarn_fabric_mem_load64(pair.all, TESTING_BYTES - 8), 3);
    assert_int_equal(tarn_fabric_mem_load64(pair.all, 8), 0);
    assert_int_equal(tarn_fabric_mem_load64(pair.all, 24), 0);
    testing_pair_close(&pair);
}

enum { CONTENDERS = 3, TIMES = 3000, TIMES_BY_SELF = 200000 };

/* How often each counts at least: the faster they are, the more it takes until they meet. */
static unsigned times_of(const struct testing_fabric *testing)
{
    const bool is_fast = tarn_fabric_info(testing->fabric)->served_by == TARN_FABRIC_SERVED_BY_SELF;
    return is_fast ? TIMES_BY_SELF : testing_times(testing, TIMES);
}

/* What all of them count up: one word by CAS, another one by FAA. */
struct race {
    struct testing_pair *pair;
    _Atomic unsigned ready; /* contenders that are about to begin */
    _Atomic unsigned
        behind; /* contenders that have not counted often enough; the others go on until there are none */
};

struct contender {
    struct race *race;
    struct tarn_fabric_connection *connection; /* NULL: the owner, which swaps by itself */
    uint64_t swaps, adds;                      /* what it has counted */
};

static uint64_t swap_word(const struct contender *contender, uint64_t offset, uint64_t compare,
                          uint64_t operand)
{
    struct tarn_fabric_region *region = contender->race->pair->all;
    uint64_t before;
    int error = contender->connection == NULL
                    ? tarn_fabric_mem_cas64(region, offset, compare, operand, &before)
                    : tarn_fabric_cas(contender->connection, 2, &region->handle, offset, compare, operand,
                                      TESTING_LATE, &before);
    assert_int_equal(error, 0);
    return before;
}

static void add_to_word(struct contender *contender, uint64_t offset)
{
    struct tarn_fabric_region *region = contender->race->pair->all;
    uint64_t before;
    int error = contender->connection == NULL ? tarn_fabric_mem_faa64(region, offset, 2, &before)
                                              : tarn_fabric_faa(contender->connection, 2, &region->handle,
                                                                offset, 2, TESTING_LATE, &before);
    assert_int_equal(error, 0);
    assert_int_equal(before % 2, 0);
    if (contender->adds++ % 64 == 0)
        task_yield();
    if (contender->adds == times_of(contender->race->pair->testing))
        atomic_fetch_sub(&contender->race->behind, 1);
}

static void connect_contender(struct contender *contender, struct tarn_fabric_domain *domain)
{
    assert_int_equal(tarn_fabric_connect(domain, contender->race->pair->testing->address, NULL, TESTING_LATE,
                                         &contender->connection),
                     0);
}

static void disconnect_contender(const struct contender *contender)
{
    if (contender->connection != NULL)
        tarn_fabric_disconnect(contender->connection);
}

static void meet_contenders(struct race *race)
{
    atomic_fetch_add(&race->ready, 1);
    while (atomic_load(&race->ready) < CONTENDERS)
        task_yield();
}

/* Count over a connection of its own. */
static void contend(void *arg)
{
    struct contender *contender = arg;
    const struct testing_pair *pair = contender->race->pair;
    uint64_t seen = 0;
    connect_contender(contender, pair->client_domain);
    meet_contenders(contender->race);
    while (atomic_load(&contender->race->behind) > 0) {
        for (uint64_t before; (before = swap_word(contender, 0, seen, seen + 1)) != seen;)
            seen = before;
        seen++;
        contender->swaps++;
        add_to_word(contender, 64);
    }
    disconnect_contender(contender);
}

static bool owner_swaps(const struct testing_fabric *testing)
{
    return tarn_fabric_info(testing->fabric)->atomics == TARN_FABRIC_ATOMICS_MEMORY;
}

/* Count as owner, or where that is refused over a connection with oneself. One more by CAS only when a client has
 * counted: it could go so fast that theirs would never succeed. */
static void contend_as_owner(void *arg)
{
    struct contender *contender = arg;
    const struct testing_pair *pair = contender->race->pair;
    uint64_t seen = 0;
    if (!owner_swaps(pair->testing))
        connect_contender(contender, pair->server_domain);
    meet_contenders(contender->race);
    while (atomic_load(&contender->race->behind) > 0) {
        const uint64_t now = tarn_fabric_mem_load64(pair->all, 0);
        if (now != seen && swap_word(contender, 0, now, now + 1) == now) {
            seen = now + 1;
            contender->swaps++;
        }
        add_to_word(contender, 64);
    }
    disconnect_contender(contender);
}

/* Let all count at the same time. @param owner_too  the last of them is the owner */
static void count_up(struct testing_fabric *testing, bool owner_too)
{
    struct testing_pair pair;
    struct testing_job jobs[CONTENDERS];
    struct contender contenders[CONTENDERS];
    struct tarn_fabric_connection *servers[CONTENDERS];
    struct race race = {.pair = &pair, .behind = CONTENDERS};
    const unsigned connections = owner_too && owner_swaps(testing) ? CONTENDERS - 1 : CONTENDERS;
    uint64_t swaps = 0, adds = 0;
    testing_pair_open(testing, &pair, NULL);
    for (unsigned i = 0; i < CONTENDERS; i++) {
        contenders[i] = (struct contender){.race = &race};
        testing_start(testing, &jobs[i], i, owner_too && i == CONTENDERS - 1 ? contend_as_owner : contend,
                      &contenders[i]);
    }
    for (unsigned i = 0; i < connections; i++) {
        struct tarn_fabric_incoming *incoming;
        assert_int_equal(tarn_fabric_listener_wait(pair.listener, TESTING_LATE, &incoming), 0);
        assert_int_equal(tarn_fabric_accept(incoming, pair.server_domain, NULL, &servers[i]), 0);
    }
    for (unsigned i = 0; i < CONTENDERS; i++) {
        testing_join(&jobs[i]);
        swaps += contenders[i].swaps;
        adds += contenders[i].adds;
    }
    assert_int_equal(tarn_fabric_mem_load64(pair.all, 0), swaps);
    assert_int_equal(tarn_fabric_mem_load64(pair.all, 64), 2 * adds);
    for (unsigned i = 0; i < connections; i++)
        tarn_fabric_disconnect(servers[i]);
    testing_pair_close(&pair);
}

static void atomics_hold_under_contention(struct testing_fabric *testing)
{
    count_up(testing, false);
}

static void atomics_hold_with_the_owners(struct testing_fabric *testing)
{
    count_up(testing, true);
}

/* Where the processor's swaps and the peers' do not see each other, the owner's are refused, and do nothing. */
static void the_owner_swaps_or_is_refused(struct testing_fabric *testing)
{
    struct testing_pair pair;
    const bool swaps = owner_swaps(testing);
    const int error = swaps ? 0 : -EOPNOTSUPP;
    uint64_t before = 99;
    testing_pair_open(testing, &pair, NULL);
    for (unsigned i = 0; i < 2; i++) {
        struct tarn_fabric_region *region =
            i == 0 ? pair.all : pair.readable; /* whatever peers may do there */
        tarn_fabric_mem_store64(region, 16, 5);
        assert_int_equal(tarn_fabric_mem_cas64(region, 16, 5, 6, &before), error);
        assert_int_equal(before, swaps ? 5 : 99);
        assert_int_equal(tarn_fabric_mem_cas64(region, 16, 5, 7, &before), error);
        assert_int_equal(before, swaps ? 6 : 99);
        assert_int_equal(tarn_fabric_mem_faa64(region, 16, UINT64_MAX, &before), error);
        assert_int_equal(before, swaps ? 6 : 99);
        assert_int_equal(tarn_fabric_mem_load64(region, 16), 5);
        assert_int_equal(tarn_fabric_mem_load64(region, 8) + tarn_fabric_mem_load64(region, 24), 0);
        before = 99;
    }
    testing_pair_close(&pair);
}

/* ---- whole words -------------------------------------------------------------------------------- */

#define PATTERN_A UINT64_C(0x1111111111111111)
#define PATTERN_B UINT64_C(0xeeeeeeeeeeeeeeee)

enum { WORDS = 512, READS = 2000, READS_SIMULATED = 200, PAUSE_SIMULATED_NS = 1000 };

struct writer {
    struct tarn_fabric_region *region;
    bool simulated; /* one thread does all, and each turn of the writer is work */
    _Atomic bool stop;
};

/* The owner changes all words from one pattern to the other and back. */
static void change_words(void *arg)
{
    struct writer *writer = arg;
    for (uint64_t round = 0; !atomic_load(&writer->stop); round++) {
        for (uint64_t offset = 0; offset < WORDS * 8; offset += 8)
            tarn_fabric_mem_store64(writer->region, offset, round % 2 == 0 ? PATTERN_A : PATTERN_B);
        if (writer->simulated)
            (void)task_sleep(PAUSE_SIMULATED_NS);
        else
            task_yield();
    }
}

static unsigned reads_of(const struct testing_fabric *testing)
{
    return testing->subject->run != NULL ? READS_SIMULATED : testing_times(testing, READS);
}

static void start_writer(struct testing_fabric *testing, struct testing_job *job, struct writer *writer)
{
    writer->simulated = testing->subject->run != NULL;
    for (uint64_t offset = 0; offset < WORDS * 8; offset += 8)
        tarn_fabric_mem_store64(writer->region, offset, PATTERN_A);
    testing_start(testing, job, 1, change_words, writer);
}

static void stop_writer(struct testing_job *job, struct writer *writer)
{
    atomic_store(&writer->stop, true);
    testing_join(job);
}

static void words_are_whole(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct testing_job job;
    uint64_t words[WORDS];
    if (!tarn_fabric_info(testing->fabric)->whole_words)
        return; /* nothing is promised */
    testing_pair_open(testing, &pair, NULL);
    struct writer writer = {.region = pair.all};
    start_writer(testing, &job, &writer);
    for (unsigned round = 0; round < reads_of(testing); round++) {
        assert_int_equal(
            tarn_fabric_read(pair.client, 0, &pair.all->handle, 0, words, sizeof(words), TESTING_LATE), 0);
        for (unsigned i = 0; i < base_array_count(words); i++)
            assert_true(words[i] == PATTERN_A || words[i] == PATTERN_B);
        if (round % 16 == 0)
            task_yield();
    }
    stop_writer(&job, &writer);
    testing_pair_close(&pair);
}

static struct tarn_fabric_op whole_read(const struct tarn_fabric_handle *handle, uint64_t offset,
                                        const struct iovec *vector)
{
    return (struct tarn_fabric_op){.kind = TARN_FABRIC_READ,
                                   .whole = true,
                                   .handle = handle,
                                   .offset = offset,
                                   .iov = vector,
                                   .iov_count = 1};
}

/* READ some words in one batch, and one more by the call. */
static void read_words_whole(struct testing_pair *pair, uint64_t offset)
{
    enum { BATCH = 4 };
    uint64_t words[BATCH + 1];
    struct iovec vectors[BATCH];
    struct tarn_fabric_op ops[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        vectors[i] = (struct iovec){.iov_base = &words[i], .iov_len = sizeof(words[i])};
        ops[i] = whole_read(&pair->readable->handle, offset + i * 8, &vectors[i]);
    }
    tarn_fabric_post(pair->client, ops, BATCH);
    assert_int_equal(tarn_fabric_wait(ops, BATCH, TESTING_LATE), 0);
    assert_int_equal(
        tarn_fabric_read_word(pair->client, 0, &pair->readable->handle, offset, TESTING_LATE, &words[BATCH]),
        0);
    for (unsigned i = 0; i <= BATCH; i++)
        assert_true(words[i] == PATTERN_A || words[i] == PATTERN_B);
}

/* Peers that only read get a word whole from every provider that says so, and elsewhere a refusal. */
static void those_who_only_read_get_whole_words(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct testing_job job;
    uint64_t word = 0;
    const struct iovec vector = {.iov_base = &word, .iov_len = sizeof(word)};
    testing_pair_open(testing, &pair, NULL);
    if (!tarn_fabric_info(testing_clients(testing))->whole_reads) {
        testing_expect_failure(&pair, whole_read(&pair.readable->handle, 8, &vector), -EOPNOTSUPP);
        testing_pair_close(&pair);
        return;
    }
    struct writer writer = {.region = pair.readable};
    start_writer(testing, &job, &writer);
    for (unsigned round = 0; round < reads_of(testing); round++) {
        read_words_whole(&pair, round % (WORDS - 8) * 8);
        if (round % 16 == 0)
            task_yield();
    }
    stop_writer(&job, &writer);
    testing_pair_close(&pair);
}

static void only_one_aligned_word_is_read_whole(struct testing_fabric *testing)
{
    struct testing_pair pair;
    uint64_t words[2] = {0};
    const struct iovec one = {.iov_base = words, .iov_len = 8}, two = {.iov_base = words, .iov_len = 16};
    const struct iovec halves[] = {{.iov_base = words, .iov_len = 4}, {.iov_base = &words[1], .iov_len = 4}};
    testing_pair_open(testing, &pair, NULL);
    const struct tarn_fabric_handle *all = &pair.all->handle;
    struct tarn_fabric_op cut = whole_read(all, 0, halves), none = whole_read(all, 0, NULL);
    struct tarn_fabric_op write = whole_read(all, 0, &one), add = whole_read(all, 0, NULL);
    cut.iov_count = 2;
    none.iov_count = add.iov_count = 0;
    write.kind = TARN_FABRIC_WRITE;
    add.kind = TARN_FABRIC_FAA;
    const struct tarn_fabric_op wrong[] = {
        whole_read(all, 4, &one), whole_read(all, 0, &two), cut, none, write, add};
    for (unsigned i = 0; i < base_array_count(wrong); i++)
        testing_expect_failure(&pair, wrong[i], -EINVAL);
    if (tarn_fabric_info(testing_clients(testing))->whole_reads) { /* the rights are those of any READ */
        struct tarn_fabric_region *swapped = testing_region(pair.client_domain, 4096, TARN_FABRIC_MAY_SWAP);
        uint64_t word = 99;
        assert_int_equal(tarn_fabric_read_word(pair.server, 0, &swapped->handle, 0, TESTING_LATE, &word),
                         -EACCES);
        assert_int_equal(word, 99);
        tarn_fabric_region_free(swapped);
    }
    testing_pair_close(&pair);
}

#define SUITE(EACH)                                                                                          \
    EACH(swaps_and_adds)                                                                                     \
    EACH(atomics_hold_under_contention)                                                                      \
    EACH(atomics_hold_with_the_owners)                                                                       \
    EACH(the_owner_swaps_or_is_refused)                                                                      \
    EACH(words_are_whole)                                                                                    \
    EACH(those_who_only_read_get_whole_words)                                                                \
    EACH(only_one_aligned_word_is_read_whole)

SUITE(TESTING_BOTH)

static const struct CMUnitTest fabric_words_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite fabric_words = TESTING_SUITE(fabric_words_tests);
