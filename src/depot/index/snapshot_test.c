/* Does a snapshot of the index show what was there at its moment, whatever is done to the index afterwards?
 */
#include "depot/index/testing.h"
#include <stdlib.h>

enum {
    KEYS = 9000, /* of a table of 16,384: with those that come it has to grow */
    STEPS = 40000,
    KEYS_MAX = KEYS + STEPS,
};

/* An index of random keys, and what it held when the snapshot was opened. */
struct world {
    struct fixture fixture;
    struct base_random random;
    struct depot_index_snapshot *snapshot;
    uint64_t hashes[KEYS_MAX], addresses[KEYS_MAX]; /* now; address 0: not there */
    uint64_t kept[KEYS_MAX];                        /* addresses then */
    uint64_t count, next_address;
};

static struct depot_index_item items[DEPOT_INDEX_BATCH_MAX];

static uint64_t below(struct world *world, uint64_t n)
{
    return base_random_below(&world->random, n);
}

/* Some are at home about the ends of regions. */
static uint64_t draw_hash(struct world *world)
{
    uint64_t hash = base_random_u64(&world->random) & depot_index_low_mask(37);
    if (below(world, 8) == 0)
        hash = (hash & ~(uint64_t)8191) | (8192 - 40 + below(world, 40));
    return hash;
}

static void grow_begin(struct world *world)
{
    int error = depot_index_grow_begin(&world->fixture.index);
    assert_true(error == 0 || error == -EALREADY);
}

static void add_at(struct world *world, uint64_t hash)
{
    int error;
    while ((error = depot_index_reserve(&world->fixture.index, hash)) == -EAGAIN) {
        grow_begin(world);
        (void)depot_index_grow_step(&world->fixture.index, UINT32_MAX);
    }
    if (error == -ENOSPC) /* many of these are alike */
        return;
    assert_int_equal(error, 0);
    if (below(world, 8) == 0) {
        depot_index_cancel(&world->fixture.index, hash);
        return;
    }
    world->hashes[world->count] = hash;
    world->addresses[world->count] = world->next_address;
    world->count++;
    depot_index_publish(&world->fixture.index, hash, world->next_address++, 1);
}

static void add(struct world *world)
{
    add_at(world, draw_hash(world));
}

static void change(struct world *world)
{
    uint64_t i = below(world, world->count);
    struct depot_index *index = &world->fixture.index;
    if (world->addresses[i] == 0 || below(world, 3) == 0) {
        add(world);
    } else if (below(world, 2) == 0) {
        assert_true(depot_index_remove(index, world->hashes[i], world->addresses[i]));
        world->addresses[i] = 0;
    } else {
        assert_true(
            depot_index_replace(index, world->hashes[i], world->addresses[i], world->next_address, 2));
        world->addresses[i] = world->next_address++;
    }
}

static struct world *begin(const struct depot_index_widths *widths, uint64_t keys, uint64_t seed)
{
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    open_index(&world->fixture, widths);
    base_random_init(&world->random, seed);
    world->next_address = 1;
    while (world->count < keys)
        add(world);
    return world;
}

static void end(struct world *world)
{
    depot_index_snapshot_close(&world->fixture.index, world->snapshot);
    close_index(&world->fixture);
    free(world);
}

static void open_snapshot(struct world *world)
{
    world->snapshot = depot_index_snapshot_open(&world->fixture.index);
    assert_non_null(world->snapshot);
    memcpy(world->kept, world->addresses, sizeof(world->kept));
}

static bool shows(struct world *world, uint64_t hash, uint64_t address)
{
    struct depot_index_view view;
    uint32_t found = 0;
    depot_index_snapshot_find(&world->fixture.index, world->snapshot, hash, &view);
    for (uint32_t i = 0; i < view.count; i++)
        found += depot_index_address(&world->fixture.index, view.words[i]) == address;
    return found == 1;
}

/* Everything is found, and an iteration gives it, each once, and nothing else. */
static void check(struct world *world)
{
    static bool given[2 * KEYS_MAX];
    struct depot_index_cursor cursor = {.region = 0};
    uint64_t there = 0, count = 0;
    memset(given, 0, sizeof(given));
    assert_true(depot_index_snapshot_is_whole(world->snapshot));
    while (!cursor.end) {
        uint32_t batch = depot_index_snapshot_next(&world->fixture.index, world->snapshot, &cursor, items);
        for (uint32_t i = 0; i < batch; i++) {
            uint64_t address = depot_index_address(&world->fixture.index, items[i].word);
            assert_true(address < base_array_count(given) && !given[address]);
            given[address] = true;
        }
        count += batch;
    }
    for (uint64_t i = 0; i < world->count; i++) {
        if (world->kept[i] != 0)
            assert_true(given[world->kept[i]] && shows(world, world->hashes[i], world->kept[i]));
        else if (world->addresses[i] != 0)
            assert_false(shows(world, world->hashes[i], world->addresses[i]));
        there += world->kept[i] != 0;
    }
    assert_int_equal(count, there);
}

/* ---- tests -------------------------------------------------------------------------------------- */

static void changes_are_not_seen(void **state)
{
    (void)state;
    struct world *world = begin(&medium, KEYS, 1);
    open_snapshot(world);
    check(world);
    for (int step = 0; step < STEPS; step++) {
        change(world);
        if (step < 16 || step % (STEPS / 8) == 0)
            check(world);
    }
    check(world);
    assert_true(depot_index_capacity(&world->fixture.index) > 16384); /* it has grown meanwhile */
    end(world);
}

/* Whatever of a growth was done at the moment: nothing of a region is lost or shown twice. */
static void a_growth_under_way(void **state)
{
    (void)state;
    for (uint32_t done = 0; done < 8; done++) {
        struct world *world = begin(&large, KEYS, done);
        grow_all(&world->fixture);
        grow_begin(world);
        (void)depot_index_grow_step(&world->fixture.index, done);
        open_snapshot(world);
        for (int step = 0; step < 2000; step++)
            change(world);
        check(world);
        while (depot_index_grow_step(&world->fixture.index, 1))
            check(world);
        grow_all(&world->fixture);
        check(world);
        end(world);
    }
}

/* The growth makes the first change. */
static void a_growth_right_afterwards(void **state)
{
    (void)state;
    struct world *world = begin(&large, KEYS, 7);
    open_snapshot(world);
    grow_begin(world);
    while (depot_index_grow_step(&world->fixture.index, 1))
        check(world);
    grow_all(&world->fixture);
    check(world);
    end(world);
}

/* Take out all but one in so many. */
static void thin_out(struct world *world, uint64_t keep)
{
    for (uint64_t i = 0; i < world->count; i++) {
        if (i % keep == 0 || world->addresses[i] == 0)
            continue;
        assert_true(depot_index_remove(&world->fixture.index, world->hashes[i], world->addresses[i]));
        world->addresses[i] = 0;
    }
}

/* @return what the last step did */
static int shrink(struct world *world, uint32_t steps)
{
    int more = depot_index_shrink_begin(&world->fixture.index) == 0;
    for (; more > 0 && steps > 0; steps--)
        more = depot_index_shrink_step(&world->fixture.index, 1);
    return more;
}

/* Whatever of a shrink was done at the moment, and whatever comes of it: it ends and is followed by another one, or it
 * is turned; then it grows again, in the same tables. */
static void a_shrink_under_way(void **state)
{
    (void)state;
    for (uint32_t done = 0; done < 16; done++) {
        struct world *world = begin(&medium, KEYS, done);
        grow_all(&world->fixture);
        grow_all(&world->fixture);
        thin_out(world, 8);
        (void)shrink(world, done / 2);
        open_snapshot(world);
        check(world);
        for (int step = 0; step < 20; step++)
            change(world);
        if (done % 2 == 0)
            (void)depot_index_shrink_turn(&world->fixture.index);
        while (depot_index_shrink_step(&world->fixture.index, 1) > 0)
            check(world);
        while (depot_index_grow_step(&world->fixture.index, 1))
            check(world);
        (void)shrink(world, UINT32_MAX);
        check(world);
        assert_int_equal(depot_index_bytes(&world->fixture.index),
                         base_account_used(&world->fixture.account));
        grow_all(&world->fixture);
        check(world);
        for (int step = 0; step < 1000; step++)
            change(world);
        check(world);
        end(world);
    }
}

/* A snapshot that is not whole any more, of tables that are not there any more, is read all the same. */
static void a_shrink_and_no_memory(void **state)
{
    (void)state;
    struct world *world = begin(&medium, KEYS, 3);
    grow_all(&world->fixture);
    grow_all(&world->fixture);
    thin_out(world, 8);
    open_snapshot(world);
    world->fixture.account.cap_bytes =
        base_account_used(&world->fixture.account) + 3 * (uint64_t)DEPOT_REGION_BYTES;
    for (int times = 0; times < 2; times++)
        assert_int_equal(shrink(world, UINT32_MAX), 0);
    assert_false(depot_index_snapshot_is_whole(world->snapshot));
    assert_int_equal(depot_index_capacity(&world->fixture.index), 16384);
    for (uint64_t i = 0; i < world->count; i++)
        (void)shows(world, world->hashes[i], 1);
    for (struct depot_index_cursor cursor = {.region = 0}; !cursor.end;)
        (void)depot_index_snapshot_next(&world->fixture.index, world->snapshot, &cursor, items);
    depot_index_snapshot_cancel(&world->fixture.index, world->snapshot);
    world->fixture.account.cap_bytes = BASE_ACCOUNT_UNLIMITED;
    end(world);
}

static void emptying_is_not_seen(void **state)
{
    (void)state;
    struct world *world = begin(&large, KEYS, 3);
    open_snapshot(world);
    depot_index_clear(&world->fixture.index);
    memset(world->addresses, 0, sizeof(world->addresses));
    check(world);
    for (int step = 0; step < 1000; step++)
        add(world);
    check(world);
    end(world);
}

/* Entries that find no place in their neighbourhood, and are moved when others go. */
static void crowded_regions(void **state)
{
    (void)state;
    struct world *world = begin(&medium, 0, 4);
    while (world->count < 12000)
        add(world);
    for (uint64_t i = 0; i < 40; i++) { /* a stash has some */
        uint64_t hash = hash_of(&medium, i, 8191 - 5);
        insert(&world->fixture, hash, world->next_address, 1);
        world->hashes[world->count] = hash;
        world->addresses[world->count++] = world->next_address++;
    }
    open_snapshot(world);
    for (int step = 0; step < 6000; step++)
        change(world);
    check(world);
    end(world);
}

/* An insert into a table that is almost full makes the first change: it moves others, or splits a region. */
static void crowded_inserts(void **state)
{
    (void)state;
    for (uint32_t growing = 0; growing < 2; growing++) {
        struct world *world = begin(&medium, 0, 8);
        while (!depot_index_load_reaches(&world->fixture.index, 84))
            add_at(world, base_random_u64(&world->random) & depot_index_low_mask(37));
        if (growing == 1)
            grow_begin(world);
        for (int times = 0; times < 80; times++) {
            open_snapshot(world);
            add_at(world, base_random_u64(&world->random) & depot_index_low_mask(37));
            check(world);
            depot_index_snapshot_close(&world->fixture.index, world->snapshot);
        }
        world->snapshot = NULL;
        end(world);
    }
}

static void one_after_the_other(void **state)
{
    (void)state;
    struct world *world = begin(&medium, KEYS, 5);
    uint64_t before = base_account_used(&world->fixture.account);
    for (int times = 0; times < 3; times++) {
        open_snapshot(world);
        assert_true(base_account_used(&world->fixture.account) < before + DEPOT_REGION_BYTES);
        for (int step = 0; step < 500; step++)
            change(world);
        assert_true(base_account_used(&world->fixture.account) > before + DEPOT_REGION_BYTES);
        assert_int_equal(depot_index_bytes(&world->fixture.index),
                         base_account_used(&world->fixture.account));
        check(world);
        depot_index_snapshot_close(&world->fixture.index, world->snapshot);
        assert_int_equal(base_account_used(&world->fixture.account), before);
    }
    world->snapshot = NULL;
    end(world);
}

/* Changes go on; the snapshot says that it is not whole, and gives back what it has. */
static void no_memory(void **state)
{
    (void)state;
    struct world *world = begin(&large, KEYS, 6);
    uint64_t used = base_account_used(&world->fixture.account);
    open_snapshot(world);
    world->fixture.account.cap_bytes = used + 3 * DEPOT_REGION_BYTES;
    for (int step = 0; step < 5 && depot_index_snapshot_is_whole(world->snapshot); step++)
        change(world);
    while (depot_index_snapshot_is_whole(world->snapshot))
        change(world);
    depot_index_snapshot_cancel(&world->fixture.index, world->snapshot);
    assert_true(base_account_used(&world->fixture.account) < used + DEPOT_REGION_BYTES);
    for (int step = 0; step < 500; step++)
        change(world);
    assert_true(base_account_used(&world->fixture.account) < used + DEPOT_REGION_BYTES);
    (void)shows(world, world->hashes[0], world->kept[0]); /* says something, that does not count */
    world->fixture.account.cap_bytes = BASE_ACCOUNT_UNLIMITED;
    end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_are_not_seen),      cmocka_unit_test(a_growth_under_way),
        cmocka_unit_test(a_growth_right_afterwards), cmocka_unit_test(crowded_inserts),
        cmocka_unit_test(emptying_is_not_seen),      cmocka_unit_test(crowded_regions),
        cmocka_unit_test(one_after_the_other),       cmocka_unit_test(no_memory),
        cmocka_unit_test(a_shrink_under_way),        cmocka_unit_test(a_shrink_and_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
