/* Do readers find what is always there while others insert, move, remove, iterate, grow and shrink the index? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/base.h"
#include "depot/index/index_internal.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>

enum {
    STABLE_KEYS = 2000,
    WRITER_KEYS = 4000,
    WRITERS = 2,
    READERS = 2,
    WRITER_STEPS = 60000,
    GROWTHS = 3,
    LARGEST = 1 << 17, /* entries, of who makes it larger and smaller */
};

static const struct depot_index_widths widths = {.address_bits = 25, .tag_bits = 23, .table_bits = 14};

struct world {
    struct base_account account;
    struct depot_index index;
    uint64_t hashes[STABLE_KEYS]; /* addresses: 1 + i, and for even i sometimes 1 + i + STABLE_KEYS */
    _Atomic uint32_t working;     /* writers that are not done */
    _Atomic uint64_t errors;
    _Atomic uint64_t looked; /* by readers */
    _Atomic uint64_t shrunk; /* times that the directory was halved */
    uint64_t shrinks;        /* that there shall be, at least */
};

struct writer {
    struct world *world;
    uint64_t number;
    uint64_t hashes[WRITER_KEYS];
    uint64_t addresses[WRITER_KEYS]; /* 0: absent */
    uint64_t next_address;
    struct base_random random;
};

static void expect(struct world *world, bool condition)
{
    if (!condition)
        atomic_fetch_add(&world->errors, 1);
}

static bool is_working(struct world *world)
{
    return atomic_load(&world->working) > 0;
}

/* Some stable keys are at home about the ends of regions. */
static uint64_t draw_hash(struct base_random *random, uint64_t i)
{
    uint64_t hash = base_random_u64(random);
    if (i % 16 == 0)
        hash = (hash & ~(uint64_t)8191) | (8192 - 40 + base_random_below(random, 40));
    return hash;
}

static bool is_stable_address(uint64_t address, uint64_t i)
{
    return address == 1 + i || (i % 2 == 0 && address == 1 + i + STABLE_KEYS);
}

static void look_up(struct world *world, uint64_t i)
{
    struct depot_index_view view;
    uint32_t found = 0;
    depot_index_find(&world->index, world->hashes[i], &view);
    for (uint32_t k = 0; k < view.count; k++) {
        found += is_stable_address(depot_index_address(&world->index, view.words[k]), i);
        if (i % 3 != 0) /* the mark disturbs nobody */
            depot_index_hit(&world->index, world->hashes[i], view.words[k]);
    }
    expect(world, found == 1);
    if (i % 2 == 1)
        expect(world, depot_index_has(&world->index, world->hashes[i], 1 + i));
}

static void *reader(void *arg)
{
    struct world *world = arg;
    while (is_working(world)) {
        for (uint64_t i = 0; i < STABLE_KEYS; i++)
            look_up(world, i);
        atomic_fetch_add(&world->looked, STABLE_KEYS);
    }
    return NULL;
}

/* Moves the records of even stable keys to and fro. */
static void *mover(void *arg)
{
    struct world *world = arg;
    uint64_t away = 0;
    while (is_working(world)) {
        for (uint64_t i = 0; i < STABLE_KEYS; i += 2)
            expect(world, depot_index_replace(&world->index, world->hashes[i], 1 + i + away * STABLE_KEYS,
                                              1 + i + (1 - away) * STABLE_KEYS, 3));
        away = 1 - away;
    }
    return NULL;
}

static void *grower(void *arg)
{
    struct world *world = arg;
    for (int growth = 0; growth < GROWTHS; growth++) {
        expect(world, depot_index_grow_begin(&world->index) == 0);
        while (depot_index_grow_step(&world->index, 1)) {
            for (int i = 0; i < 50 && is_working(world); i++) /* the others work in between */
                (void)sched_yield();
        }
    }
    return NULL;
}

/* Larger and smaller again; now and then a shrink is turned. */
static void *resizer(void *arg)
{
    struct world *world = arg;
    struct depot_index *index = &world->index;
    for (uint64_t round = 0; is_working(world); round++) {
        while (depot_index_capacity(index) < LARGEST) {
            expect(world, depot_index_grow_begin(index) == 0);
            while (depot_index_grow_step(index, 1)) {
            }
        }
        int more = depot_index_shrink_begin(index) == 0;
        for (uint32_t step = 0; more > 0; step++) {
            more = depot_index_shrink_step(index, 1);
            if (round % 4 == 3 && step == 2 && depot_index_shrink_turn(index))
                more = -ECANCELED;
        }
        atomic_fetch_add(&world->shrunk, more == 0);
        while (depot_index_grow_step(index, 1)) {
        }
    }
    return NULL;
}

static struct depot_index_item items[DEPOT_INDEX_BATCH_MAX];

static void *iterator(void *arg)
{
    struct world *world = arg;
    while (is_working(world)) {
        uint8_t seen[STABLE_KEYS] = {0};
        struct depot_index_cursor cursor = {0};
        while (!cursor.end) {
            uint32_t count = depot_index_next(&world->index, &cursor, items);
            for (uint32_t i = 0; i < count; i++) {
                uint64_t address = depot_index_address(&world->index, items[i].word);
                if (address <= (uint64_t)2 * STABLE_KEYS)
                    seen[(address - 1) % STABLE_KEYS]++;
            }
        }
        for (uint64_t i = 0; i < STABLE_KEYS; i++)
            expect(world, seen[i] == 1);
    }
    return NULL;
}

static void write_one(struct writer *writer)
{
    struct depot_index *index = &writer->world->index;
    uint64_t i = base_random_below(&writer->random, WRITER_KEYS);
    uint64_t hash = writer->hashes[i];
    uint64_t address = writer->next_address;
    writer->next_address += WRITERS;
    expect(writer->world, depot_index_has(index, hash, base_max(writer->addresses[i], (uint64_t)1)) ==
                              (writer->addresses[i] != 0));
    if (writer->addresses[i] == 0) {
        if (depot_index_reserve(index, hash) != 0)
            return; /* full until it grows */
        if (base_random_below(&writer->random, 8) == 0) {
            depot_index_cancel(index, hash);
            return;
        }
        depot_index_publish(index, hash, address, 2);
    } else if (base_random_below(&writer->random, 4) == 0) {
        expect(writer->world, depot_index_replace(index, hash, writer->addresses[i], address, 1));
    } else {
        expect(writer->world, depot_index_remove(index, hash, writer->addresses[i]));
        address = 0;
    }
    writer->addresses[i] = address;
}

/* At least until the others have had their turn. */
static void *write_many(void *arg)
{
    struct writer *writer = arg;
    const struct world *world = writer->world;
    for (int step = 0; step < WRITER_STEPS || atomic_load(&world->looked) == 0 ||
                       atomic_load(&world->shrunk) < world->shrinks;
         step++)
        write_one(writer);
    atomic_fetch_sub(&writer->world->working, 1);
    return NULL;
}

static void open_world(struct world *world, struct writer *writers)
{
    struct base_random random;
    base_account_init(&world->account, BASE_ACCOUNT_UNLIMITED);
    base_random_init(&random, 77);
    assert_int_equal(depot_index_init(&world->index, &world->account, &widths), 0);
    for (uint64_t i = 0; i < STABLE_KEYS; i++) {
        world->hashes[i] = draw_hash(&random, i);
        assert_int_equal(depot_index_load(&world->index, world->hashes[i], 1 + i, 1), 0);
    }
    for (uint64_t i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.world = world, .number = i, .next_address = 2 * STABLE_KEYS + 1 + i};
        base_random_init(&writers[i].random, i);
        for (uint64_t k = 0; k < WRITER_KEYS; k++)
            writers[i].hashes[k] = draw_hash(&random, k);
    }
    atomic_store(&world->working, WRITERS);
}

/* @param size  who lets it grow or shrink */
static struct world *run(void *(*size)(void *arg), uint64_t shrinks)
{
    struct world *world = test_calloc(1, sizeof(*world));
    struct writer *writers = test_calloc(WRITERS, sizeof(*writers));
    pthread_t threads[WRITERS + READERS + 3];
    size_t count = 0;
    open_world(world, writers);
    world->shrinks = shrinks;
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[count++], NULL, reader, world), 0);
    assert_int_equal(pthread_create(&threads[count++], NULL, mover, world), 0);
    assert_int_equal(pthread_create(&threads[count++], NULL, iterator, world), 0);
    assert_int_equal(pthread_create(&threads[count++], NULL, size, world), 0);
    for (size_t i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[count++], NULL, write_many, &writers[i]), 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&world->errors), 0);
    uint64_t present = STABLE_KEYS;
    for (size_t i = 0; i < WRITERS; i++) {
        for (size_t k = 0; k < WRITER_KEYS; k++)
            present += writers[i].addresses[k] != 0;
    }
    assert_int_equal(depot_index_count(&world->index), present);
    const char *wrong = "";
    int error = depot_index_validate(&world->index, &wrong);
    assert_string_equal(wrong, "");
    assert_int_equal(error, 0);
    assert_int_equal(depot_index_bytes(&world->index), base_account_used(&world->account));
    test_free(writers);
    return world;
}

static void end(struct world *world)
{
    depot_index_deinit(&world->index);
    base_account_deinit(&world->account);
    test_free(world);
}

static void readers_miss_nothing(void **state)
{
    (void)state;
    struct world *world = run(grower, 0);
    assert_int_equal(depot_index_capacity(&world->index), (uint64_t)1 << (14 + GROWTHS));
    end(world);
}

static void readers_miss_nothing_while_it_shrinks(void **state)
{
    (void)state;
    end(run(resizer, 3));
}

/* ---- one entry that moves all the time ---------------------------------------------------------- */

enum {
    LOOKS = 200000, /* at least, while it moves */
    MOVES = 100000,
    HOME_IN_TWO = 8170, /* regions */
};

struct restless {
    struct base_account account;
    struct depot_index index;
    uint64_t home;
    _Atomic bool is_done;
    _Atomic uint64_t looks;
    _Atomic uint64_t misses;
};

static void *watch(void *arg)
{
    struct restless *restless = arg;
    while (!atomic_load(&restless->is_done)) {
        struct depot_index_view view;
        depot_index_find(&restless->index, restless->home, &view);
        bool is_right = view.count == 1 && depot_index_address(&restless->index, view.words[0]) == 5 &&
                        depot_index_holds(&restless->index, restless->home, view.words[0]);
        if (!is_right)
            atomic_fetch_add(&restless->misses, 1);
        atomic_fetch_add_explicit(&restless->looks, 1, memory_order_relaxed);
    }
    return NULL;
}

/* As displacing does it, to and fro between the first word of the neighbourhood and the last. */
static void move_about(struct restless *restless)
{
    for (uint64_t i = 0; i < MOVES || atomic_load(&restless->looks) < LOOKS; i++) {
        struct depot_index_held held;
        depot_index_hold(&restless->index, restless->home, &held);
        _Atomic uint64_t *words = &held.parts[0].words[restless->home];
        uint32_t from = i % 2 == 0 ? 0 : DEPOT_NEIGHBOURHOOD - 1;
        uint32_t to = DEPOT_NEIGHBOURHOOD - 1 - from;
        for (size_t k = 0; k < 2 && held.parts[k].region != NULL; k++)
            depot_index_change_begin(held.parts[k].region);
        depot_index_store_word(&words[to], depot_index_load_word(&words[from]) + to - from);
        depot_index_store_word(&words[from], 0);
        for (size_t k = 0; k < 2 && held.parts[k].region != NULL; k++)
            depot_index_change_end(held.parts[k].region);
        depot_index_release(&held);
    }
}

static void an_entry_that_moves_is_always_found(void **state)
{
    (void)state;
    static const uint64_t homes[] = {100, HOME_IN_TWO};
    for (size_t i = 0; i < base_array_count(homes); i++) {
        struct restless restless = {.home = homes[i]};
        pthread_t watcher;
        base_account_init(&restless.account, BASE_ACCOUNT_UNLIMITED);
        assert_int_equal(depot_index_init(&restless.index, &restless.account, &widths), 0);
        assert_int_equal(depot_index_load(&restless.index, restless.home, 5, 1), 0);
        assert_int_equal(pthread_create(&watcher, NULL, watch, &restless), 0);
        move_about(&restless);
        atomic_store(&restless.is_done, true);
        assert_int_equal(pthread_join(watcher, NULL), 0);
        assert_int_equal(atomic_load(&restless.misses), 0);
        depot_index_deinit(&restless.index);
        base_account_deinit(&restless.account);
    }
}

static void *look_once(void *arg)
{
    struct restless *restless = arg;
    struct depot_index_view view;
    depot_index_find(&restless->index, restless->home, &view);
    atomic_store(&restless->looks, view.count);
    return NULL;
}

/* Half of a change is not seen: a reader waits for the other half, in whichever of the regions it is. */
static void a_change_is_seen_whole(void **state)
{
    (void)state;
    for (uint32_t number = 0; number < 2; number++) {
        struct restless restless = {.home = HOME_IN_TWO};
        struct depot_index_held held;
        pthread_t reader_thread;
        base_account_init(&restless.account, BASE_ACCOUNT_UNLIMITED);
        assert_int_equal(depot_index_init(&restless.index, &restless.account, &widths), 0);
        assert_int_equal(depot_index_load(&restless.index, restless.home, 5, 1), 0);
        depot_index_hold(&restless.index, restless.home, &held);
        _Atomic uint64_t *words = &held.parts[number].words[restless.home];
        uint32_t to = number == 0 ? 1 : DEPOT_NEIGHBOURHOOD - 1;
        depot_index_change_begin(held.parts[number].region);
        depot_index_store_word(&words[to], depot_index_load_word(&words[0]) + to);
        assert_int_equal(pthread_create(&reader_thread, NULL, look_once, &restless), 0);
        for (int i = 0; i < 1000; i++) /* time to look */
            (void)sched_yield();
        depot_index_store_word(&words[to], 0);
        depot_index_change_end(held.parts[number].region);
        depot_index_release(&held);
        assert_int_equal(pthread_join(reader_thread, NULL), 0);
        assert_int_equal(atomic_load(&restless.looks), 1);
        depot_index_deinit(&restless.index);
        base_account_deinit(&restless.account);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_miss_nothing),
        cmocka_unit_test(readers_miss_nothing_while_it_shrinks),
        cmocka_unit_test(an_entry_that_moves_is_always_found),
        cmocka_unit_test(a_change_is_seen_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
