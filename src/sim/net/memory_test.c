/* Exported memory of the simulated network: what one domain's peers see of the other's, taking back, plain stores, costs. */
#include "sim/net/net_internal.h"
#include "sim/net/testing.h"
#include <errno.h>

enum { SEEDS = 60, WORDS = 8, ROUNDS = 6 };

static const uint32_t all_rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP;

/* Play a test with many seeds. */
static void run_seeds(void (*test)(struct testing_fabric *testing), uint32_t troubles)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const struct net_testing options = {.seed = seed, .troubles = troubles};
        void *state;
        assert_int_equal(net_testing_setup(&state, &options), 0);
        testing_run(&state, test, true);
    }
}

/* A pair, and a second client of a domain that has the pair's region, too. */
struct sharers {
    struct testing_pair first, second;
    struct tarn_fabric_region *same; /* registered: all of the first pair's region but its first block */
    uint64_t at;                     /* of its beginning in the pair's */
};

static void open_sharers(struct testing_fabric *testing, struct sharers *sharers)
{
    testing_pair_open(testing, &sharers->first, NULL);
    sharers->second = sharers->first;
    sharers->second.server_domain = testing_domain(testing->fabric, 0, 0);
    sharers->at = SIM_BLOCK_WORDS * SIM_WORD_BYTES / 2; /* blocks of the two are not the same */
    assert_int_equal(tarn_fabric_region_register(sharers->second.server_domain,
                                                 sharers->first.all->memory + sharers->at,
                                                 TESTING_BYTES - sharers->at, all_rights, &sharers->same),
                     0);
    testing_connect(&sharers->second);
}

static void close_sharers(struct sharers *sharers)
{
    testing_disconnect(&sharers->second);
    tarn_fabric_region_free(sharers->same);
    tarn_fabric_domain_close(sharers->second.server_domain);
    testing_pair_close(&sharers->first);
}

/* ---- one memory in two domains ------------------------------------------------------------------ */

static bool a_mixture_was_read;

/* One client WRITEs while the other READs: each word is of this round or of the one before. */
static void write_in_one_and_read_in_the_other(struct testing_fabric *testing)
{
    struct sharers sharers;
    uint64_t words[WORDS] = {0}, back[WORDS];
    open_sharers(testing, &sharers);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        const struct iovec out = {words, sizeof(words)}, in = {back, sizeof(back)};
        struct tarn_fabric_op ops[2] = {
            {.kind = TARN_FABRIC_WRITE,
             .handle = &sharers.first.all->handle,
             .offset = sharers.at,
             .iov = &out,
             .iov_count = 1},
            {.kind = TARN_FABRIC_READ, .handle = &sharers.same->handle, .iov = &in, .iov_count = 1}};
        unsigned news = 0;
        for (unsigned i = 0; i < WORDS; i++)
            words[i] = round;
        tarn_fabric_post(sharers.second.client, &ops[1], 1);
        tarn_fabric_post(sharers.first.client, &ops[0], 1);
        assert_int_equal(tarn_fabric_wait(ops, 2, TESTING_LATE), 0);
        for (unsigned i = 0; i < WORDS; i++) {
            assert_true(back[i] == round || back[i] == round - 1);
            news += back[i] == round;
        }
        a_mixture_was_read |= news > 0 && news < WORDS && back[0] != back[WORDS - 1];
    }
    close_sharers(&sharers);
}

/* A READ that is on its way in one domain takes words from before and after a WRITE that is whole in the other. */
static void reads_of_one_domain_see_the_past_of_the_other(void **state)
{
    (void)state;
    a_mixture_was_read = false;
    run_seeds(write_in_one_and_read_in_the_other, SIM_NET_TORN_READ | SIM_NET_REORDER);
    assert_true(a_mixture_was_read);
    run_seeds(write_in_one_and_read_in_the_other, SIM_NET_ALL_TROUBLES & ~(uint32_t)SIM_NET_TORN_WORD);
}

/* ---- refusals ----------------------------------------------------------------------------------- */

static int expected_error; /* of a READ of a whole word */

static void read_a_whole_word(struct testing_fabric *testing)
{
    struct testing_pair pair;
    uint64_t word = 0;
    testing_pair_open(testing, &pair, NULL);
    assert_int_equal(tarn_fabric_info(testing->fabric)->whole_reads, expected_error == 0);
    assert_int_equal(tarn_fabric_read_word(pair.client, 0, &pair.all->handle, 8, TESTING_LATE, &word),
                     expected_error);
    testing_pair_close(&pair);
}

/* A card that tears words may refuse such READs; one that does not has no reason to. */
static void whole_words_are_refused_by_some_cards(void **state)
{
    static const struct net_testing options[] = {
        {.seed = 1, .troubles = SIM_NET_TORN_WORD, .refuses_whole = true},
        {.seed = 1, .troubles = SIM_NET_TORN_WORD},
        {.seed = 1, .refuses_whole = true}};
    for (unsigned i = 0; i < base_array_count(options); i++) {
        expected_error = i == 0 ? -EOPNOTSUPP : 0;
        assert_int_equal(net_testing_setup(state, &options[i]), 0);
        testing_run(state, read_a_whole_word, true);
    }
}

/* ---- taking back -------------------------------------------------------------------------------- */

static unsigned refused_count, done_count; /* operations of one kind */

/* The owner takes memory back while operations are on their way: then it is the owner's alone. */
static void take_back_while_it_is_used(struct testing_fabric *testing, enum tarn_fabric_op_kind kind)
{
    const bool swaps = kind == TARN_FABRIC_FAA;
    struct sharers sharers;
    uint64_t words[WORDS];
    open_sharers(testing, &sharers);
    for (unsigned round = 0; round < ROUNDS; round++) {
        const struct iovec vector = {words, sizeof(words)};
        const struct tarn_fabric_handle handle = sharers.same->handle;
        struct tarn_fabric_op op = {
            .kind = kind, .handle = &handle, .iov = &vector, .iov_count = swaps ? 0 : 1, .operand = 1};
        memset(words, (int)round + 1, sizeof(words));
        tarn_fabric_post(sharers.second.client, &op, 1);
        (void)task_sleep(task_rng(testing->node) % 4000);
        tarn_fabric_region_free(sharers.same);
        uint8_t *memory = sharers.first.all->memory + sharers.at;
        uint64_t before[WORDS], after[WORDS];
        memcpy(before, memory, sizeof(before));
        int error = tarn_fabric_wait(&op, 1, TESTING_LATE);
        assert_true(error == 0 || error == -EACCES);
        error == 0 ? done_count++ : refused_count++;
        (void)task_sleep(20000000);
        memcpy(after, memory, sizeof(after));
        assert_memory_equal(before, after, sizeof(before));
        assert_int_equal(tarn_fabric_region_register(sharers.second.server_domain, memory,
                                                     TESTING_BYTES - sharers.at, all_rights, &sharers.same),
                         0);
        if (error != 0) {
            testing_disconnect(&sharers.second);
            testing_connect(&sharers.second);
        }
    }
    close_sharers(&sharers);
}

static void take_back_from_writes(struct testing_fabric *testing)
{
    take_back_while_it_is_used(testing, TARN_FABRIC_WRITE);
}

static void take_back_from_reads(struct testing_fabric *testing)
{
    take_back_while_it_is_used(testing, TARN_FABRIC_READ);
}

static void take_back_from_swaps(struct testing_fabric *testing)
{
    take_back_while_it_is_used(testing, TARN_FABRIC_FAA);
}

static void memory_that_was_taken_back_is_the_owners(void **state)
{
    static void (*const tests[])(struct testing_fabric *) = {take_back_from_writes, take_back_from_reads,
                                                             take_back_from_swaps};
    (void)state;
    for (unsigned i = 0; i < base_array_count(tests); i++) {
        done_count = refused_count = 0;
        run_seeds(tests[i], SIM_NET_ALL_TROUBLES);
        assert_true(done_count > 0 && refused_count > 0);
    }
}

/* ---- what it takes ------------------------------------------------------------------------------ */

/* What a world keeps of a region, beside its memory, is a small part of that. */
static void measure_a_region(struct testing_fabric *testing)
{
    const struct sim_world *world = ((const struct sim_node *)testing->node->options.fabric_arg)->world;
    const uint64_t bytes = UINT64_C(4) << 20;
    struct tarn_fabric_domain *domain = testing_domain(testing->fabric, 0, bytes);
    const uint64_t before = base_account_used(&world->memory);
    struct tarn_fabric_region *region = testing_region(domain, bytes, all_rights), *same;
    const uint64_t between = base_account_used(&world->memory);
    assert_int_equal(tarn_fabric_region_register(domain, region->memory, bytes, all_rights, &same), 0);
    const uint64_t after = base_account_used(&world->memory);
    assert_in_range(between - before, bytes, bytes + bytes / 16);
    assert_in_range(after - between, 0, bytes / 16);
    (void)printf("# bytes of a world for a byte of a region: %.3f, of the caller's memory: %.3f\n",
                 (double)(between - before) / (double)bytes, (double)(after - between) / (double)bytes);
    (void)fflush(stdout);
    tarn_fabric_region_free(same);
    tarn_fabric_region_free(region);
    assert_int_equal(base_account_used(&world->memory), before);
    tarn_fabric_domain_close(domain);
}

static void a_region_is_in_memory_once(void **state)
{
    const struct net_testing options = {.seed = 1};
    assert_int_equal(net_testing_setup(state, &options), 0);
    testing_run(state, measure_a_region, true);
}

/* ---- how long it takes -------------------------------------------------------------------------- */

enum { SLOWER = 1000, SLOW_BYTES = 4 << 20 };

/* What the owner of a region is told, and another task of its scheduler. */
struct making {
    uint64_t told_bytes;
    unsigned told_count;
    unsigned turns; /* of the other task */
    bool is_over;
};

static void note_progress(void *arg, uint64_t done_bytes, uint64_t bytes)
{
    struct making *making = arg;
    assert_true(done_bytes >= making->told_bytes && done_bytes <= bytes && bytes == SLOW_BYTES);
    making->told_bytes = done_bytes;
    making->told_count++;
}

static void take_turns(void *arg)
{
    struct making *making = arg;
    for (; !making->is_over; making->turns++)
        (void)task_sleep(1000000);
}

/* 0.43 s a gigabyte to touch and 0.1 s to register, a thousand times as slow. */
static void make_and_register(struct testing_fabric *testing)
{
    const uint64_t touching_ns = UINT64_C(430) * SLOWER * SLOW_BYTES / 1024 * 1000000 / (1 << 20);
    struct tarn_fabric_domain *domain = testing_domain(testing->fabric, 0, SLOW_BYTES);
    struct tarn_fabric_region *region, *same;
    struct making making = {0};
    struct task_group group;
    task_group_init(&group);
    assert_int_equal(task_spawn(NULL, &group, "turns", take_turns, &making), 0);
    const uint64_t begun_ns = task_now();
    assert_int_equal(tarn_fabric_region_alloc_with_progress(domain, SLOW_BYTES, all_rights, note_progress,
                                                            &making, &region),
                     0);
    const uint64_t made_ns = task_now();
    assert_in_range(made_ns - begun_ns, touching_ns - touching_ns / 100, touching_ns + touching_ns / 10);
    assert_int_equal(making.told_bytes, SLOW_BYTES);
    assert_in_range(making.told_count, touching_ns / 200000000, touching_ns / 100000000 + 3);
    assert_true(making.turns > 100);
    assert_int_equal(tarn_fabric_region_register(domain, region->memory, SLOW_BYTES, all_rights, &same), 0);
    assert_in_range(task_now() - made_ns, touching_ns / 5, touching_ns / 3);
    making.is_over = true;
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    tarn_fabric_region_free(same);
    tarn_fabric_region_free(region);
    tarn_fabric_domain_close(domain);
}

static void making_takes_time_but_no_scheduler(void **state)
{
    const struct net_testing options = {.seed = 1, .slower = SLOWER};
    assert_int_equal(net_testing_setup(state, &options), 0);
    testing_run(state, make_and_register, true);
}

static void make_one(void *arg)
{
    struct tarn_fabric_domain *domain = arg;
    struct tarn_fabric_region *region;
    assert_int_equal(tarn_fabric_region_alloc(domain, SLOW_BYTES, all_rights, &region), 0);
    tarn_fabric_region_free(region);
}

/* Make two regions at the same time. @return how long it takes */
static uint64_t make_two(struct tarn_fabric_domain *domain)
{
    const uint64_t begun_ns = task_now();
    struct task_group group;
    task_group_init(&group);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(task_spawn(NULL, &group, "maker", make_one, domain), 0);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    return task_now() - begun_ns;
}

static uint64_t made_in_ns;

static void make_two_at_once(struct testing_fabric *testing)
{
    struct tarn_fabric_domain *domain = testing_domain(testing->fabric, 0, 2 * SLOW_BYTES);
    made_in_ns = make_two(domain);
    tarn_fabric_domain_close(domain);
}

static void pages_are_made_in_turn_or_at_once(void **state)
{
    struct net_testing options = {.seed = 1, .slower = SLOWER};
    assert_int_equal(net_testing_setup(state, &options), 0);
    testing_run(state, make_two_at_once, true);
    const uint64_t at_once_ns = made_in_ns;
    options.pages_in_turn = true;
    assert_int_equal(net_testing_setup(state, &options), 0);
    testing_run(state, make_two_at_once, true);
    assert_in_range(made_in_ns, at_once_ns * 19 / 10, at_once_ns * 21 / 10);
}

/* ---- memory without bytes ------------------------------------------------------------------------ */

enum { BLANK_BYTES = 1 << 20 };

#define MUCH_BYTES (UINT64_C(1) << 42)

/* More memory than a machine has. Operations on it, and what its owner copies there, move nothing; swaps are refused. */
static void use_addresses_alone(struct testing_fabric *testing)
{
    const uint64_t at = MUCH_BYTES - sizeof(uint64_t);
    uint64_t written = 7, back = 8;
    struct testing_pair first, pair;
    struct tarn_fabric_region *own;
    testing_pair_open(testing, &first, NULL);
    pair = first;
    pair.server_domain = testing_domain(testing->fabric, 0, MUCH_BYTES);
    testing_connect(&pair);
    struct tarn_fabric_region *much = testing_region(pair.server_domain, MUCH_BYTES, all_rights);
    const struct tarn_fabric_handle *handle = &much->handle;
    const uint64_t begun_ns = task_now();
    assert_int_equal(tarn_fabric_region_alloc(pair.client_domain, 4 * BLANK_BYTES, 0, &own), 0);
    assert_true(task_now() - begun_ns >= UINT64_C(430000000) * 4 * BLANK_BYTES / (1 << 30));
    tarn_fabric_mem_copy_in(much, at, &written, sizeof(written));
    assert_int_equal(tarn_fabric_write(pair.client, 0, handle, at, &written, sizeof(written), TARN_FOREVER),
                     0);
    assert_int_equal(tarn_fabric_read(pair.client, 0, handle, at, &back, sizeof(back), TARN_FOREVER), 0);
    assert_int_equal(back, 8);
    assert_int_equal(tarn_fabric_read(pair.client, 0, handle, 0, own->memory, own->bytes, TARN_FOREVER), 0);
    assert_int_equal(own->memory[0] | own->memory[own->bytes - 1], 0);
    assert_int_equal(tarn_fabric_cas(pair.client, 0, handle, at, 0, 1, TARN_FOREVER, &back), -EACCES);
    testing_disconnect(&pair);
    tarn_fabric_region_free(own);
    tarn_fabric_region_free(much);
    tarn_fabric_domain_close(pair.server_domain);
    testing_pair_close(&first);
}

static void memory_may_have_addresses_alone(void **state)
{
    const struct net_testing options = {
        .seed = 1, .troubles = SIM_NET_ALL_TROUBLES & ~SIM_NET_LATE, .blank_bytes = BLANK_BYTES};
    assert_int_equal(net_testing_setup(state, &options), 0);
    testing_run(state, use_addresses_alone, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_of_one_domain_see_the_past_of_the_other),
        cmocka_unit_test(whole_words_are_refused_by_some_cards),
        cmocka_unit_test(memory_that_was_taken_back_is_the_owners),
        cmocka_unit_test(a_region_is_in_memory_once),
        cmocka_unit_test(making_takes_time_but_no_scheduler),
        cmocka_unit_test(pages_are_made_in_turn_or_at_once),
        cmocka_unit_test(memory_may_have_addresses_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
