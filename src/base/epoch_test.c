#include "base/testing.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/epoch.h"
#include "base/random.h"

struct object {
    struct base_epoch_node node;
    int *released;
};

static void count_release(struct base_epoch_node *node)
{
    ++*base_container_of(node, struct object, node)->released;
}

static void start(struct base_account *account, struct base_epoch *epoch, size_t slots)
{
    base_account_init(account, BASE_ACCOUNT_UNLIMITED);
    assert_int_equal(base_epoch_init(epoch, account, slots), 0);
}

static void end(struct base_account *account, struct base_epoch *epoch)
{
    base_epoch_deinit(epoch);
    base_account_deinit(account);
}

static void test_slots(void **state base_unused)
{
    struct base_account account;
    struct base_epoch epoch;
    start(&account, &epoch, 2);
    struct base_epoch_slot *a = base_epoch_join(&epoch);
    struct base_epoch_slot *b = base_epoch_join(&epoch);
    assert_true(a != NULL && b != NULL && a != b);
    assert_int_equal((uintptr_t)a % 128, 0);
    assert_null(base_epoch_join(&epoch));
    base_epoch_leave(&epoch, a);
    assert_ptr_equal(base_epoch_join(&epoch), a);
    base_epoch_leave(&epoch, a);
    base_epoch_leave(&epoch, b);
    end(&account, &epoch);
}

static void test_readers_delay_what_is_retired_after_they_entered(void **state base_unused)
{
    struct base_account account;
    struct base_epoch epoch;
    int released[4] = {0};
    struct object objects[4];
    start(&account, &epoch, 3);
    struct base_epoch_slot *writer = base_epoch_join(&epoch);
    struct base_epoch_slot *early = base_epoch_join(&epoch);
    struct base_epoch_slot *late = base_epoch_join(&epoch);
    for (size_t i = 0; i < 4; i++)
        objects[i].released = &released[i];
    base_epoch_retire(&epoch, writer, &objects[0].node, count_release);
    base_epoch_enter(&epoch, early);
    /* Retired before anybody entered: a stuck reader does not delay it. */
    assert_int_equal(base_epoch_collect(&epoch, writer), 1);
    assert_int_equal(released[0], 1);
    base_epoch_retire(&epoch, writer, &objects[1].node, count_release);
    base_epoch_enter(&epoch, late);
    base_epoch_retire(&epoch, writer, &objects[2].node, count_release);
    assert_int_equal(base_epoch_collect(&epoch, writer), 0);
    base_epoch_exit(early);
    assert_int_equal(base_epoch_collect(&epoch, writer), 1);
    assert_int_equal(released[1], 1);
    assert_int_equal(released[2], 0);
    /* A section of the retiring slot itself delays too. */
    base_epoch_exit(late);
    base_epoch_enter(&epoch, writer);
    base_epoch_retire(&epoch, writer, &objects[3].node, count_release);
    assert_int_equal(base_epoch_collect(&epoch, writer), 1);
    assert_int_equal(released[2], 1);
    base_epoch_exit(writer);
    assert_int_equal(base_epoch_collect(&epoch, writer), 1);
    assert_int_equal(released[3], 1);
    base_epoch_leave(&epoch, writer);
    base_epoch_leave(&epoch, early);
    base_epoch_leave(&epoch, late);
    end(&account, &epoch);
}

static void test_nesting(void **state base_unused)
{
    struct base_account account;
    struct base_epoch epoch;
    int released = 0;
    struct object object = {.released = &released};
    start(&account, &epoch, 2);
    struct base_epoch_slot *writer = base_epoch_join(&epoch);
    struct base_epoch_slot *reader = base_epoch_join(&epoch);
    base_epoch_enter(&epoch, reader);
    base_epoch_retire(&epoch, writer, &object.node, count_release);
    base_epoch_enter(&epoch, reader);
    base_epoch_exit(reader);
    assert_int_equal(base_epoch_collect(&epoch, writer), 0);
    base_epoch_exit(reader);
    assert_int_equal(base_epoch_collect(&epoch, writer), 1);
    base_epoch_leave(&epoch, writer);
    base_epoch_leave(&epoch, reader);
    end(&account, &epoch);
}

static void test_what_leavers_retired_is_released_by_others(void **state base_unused)
{
    struct base_account account;
    struct base_epoch epoch;
    int released = 0;
    struct object objects[3] = {{.released = &released}, {.released = &released}, {.released = &released}};
    start(&account, &epoch, 2);
    struct base_epoch_slot *reader = base_epoch_join(&epoch);
    struct base_epoch_slot *leaver = base_epoch_join(&epoch);
    base_epoch_enter(&epoch, reader);
    base_epoch_retire(&epoch, leaver, &objects[0].node, count_release);
    base_epoch_leave(&epoch, leaver);
    leaver = base_epoch_join(&epoch);
    base_epoch_retire(&epoch, leaver, &objects[1].node, count_release);
    base_epoch_leave(&epoch, leaver);
    assert_int_equal(base_epoch_collect(&epoch, reader), 0);
    base_epoch_exit(reader);
    assert_int_equal(base_epoch_collect(&epoch, reader), 2);
    assert_int_equal(released, 2);
    /* And at the end, by deinit. */
    leaver = base_epoch_join(&epoch);
    base_epoch_enter(&epoch, reader);
    base_epoch_retire(&epoch, leaver, &objects[2].node, count_release);
    base_epoch_leave(&epoch, leaver);
    base_epoch_exit(reader);
    epoch.orphan_count = 0; /* so that leaving does not look at them */
    base_epoch_leave(&epoch, reader);
    assert_int_equal(released, 2);
    end(&account, &epoch);
    assert_int_equal(released, 3);
}

static void test_retiring_collects_now_and_then(void **state base_unused)
{
    struct base_account account;
    struct base_epoch epoch;
    int released = 0;
    struct object objects[10 * BASE_EPOCH_BATCH];
    start(&account, &epoch, 1);
    struct base_epoch_slot *slot = base_epoch_join(&epoch);
    for (size_t i = 0; i < base_array_count(objects); i++) {
        objects[i].released = &released;
        base_epoch_retire(&epoch, slot, &objects[i].node, count_release);
        assert_true((int)i + 1 - released < BASE_EPOCH_BATCH);
    }
    base_epoch_leave(&epoch, slot);
    assert_int_equal(released, base_array_count(objects));
    end(&account, &epoch);
}

/* A chain of objects, each of which retires the next when it is released. */
struct chained {
    struct base_epoch_node node;
    struct base_epoch *epoch;
    struct base_epoch_slot *slot;
    struct chained *next;
};

static void release_chained(struct base_epoch_node *node)
{
    struct chained *chained = base_container_of(node, struct chained, node);
    if (chained->next != NULL)
        base_epoch_retire(chained->epoch, chained->slot, &chained->next->node, release_chained);
    /* No way to go deeper and deeper. */
    assert_int_equal(base_epoch_collect(chained->epoch, chained->slot), 0);
    free(chained);
}

static void test_release_may_retire(void **state base_unused)
{
    enum { LENGTH = 1000 };
    struct base_account account;
    struct base_epoch epoch;
    start(&account, &epoch, 1);
    struct base_epoch_slot *slot = base_epoch_join(&epoch);
    struct chained *first = NULL;
    for (int i = 0; i < LENGTH; i++) {
        struct chained *chained = calloc(1, sizeof(*chained));
        *chained = (struct chained){.epoch = &epoch, .slot = slot, .next = first};
        first = chained;
    }
    base_epoch_retire(&epoch, slot, &first->node, release_chained);
    for (int i = 0; i < LENGTH; i++)
        assert_int_equal(base_epoch_collect(&epoch, slot), 1);
    assert_int_equal(base_epoch_collect(&epoch, slot), 0);
    base_epoch_leave(&epoch, slot);
    end(&account, &epoch);
}

static void exit_unentered(void *arg)
{
    base_epoch_exit(arg);
}

static void deinit_joined(void *arg)
{
    base_epoch_deinit(arg);
}

static void test_bugs_abort_and_no_memory_is_an_error(void **state base_unused)
{
    struct base_account account;
    struct base_epoch epoch, other;
    start(&account, &epoch, 1);
    struct base_epoch_slot *slot = base_epoch_join(&epoch);
    assert_true(testing_aborts(exit_unentered, slot));
    assert_true(testing_aborts(deinit_joined, &epoch));
    base_epoch_leave(&epoch, slot);
    base_account_fail_at(&account, 1);
    assert_int_equal(base_epoch_init(&other, &account, 1), -ENOMEM);
    assert_int_equal(base_epoch_init(&other, &account, SIZE_MAX / 2), -ENOMEM);
    end(&account, &epoch);
}

/* Threads read and replace shared objects; a released one is spoilt and freed, so that a reader notices. */
#define CELLS   4
#define THREADS 4
#define ROUNDS  20000
#define ALIVE   0x600df00d

struct cell_object {
    struct base_epoch_node node;
    uint64_t alive;
    _Atomic uint64_t *released;
};

struct arena {
    struct base_epoch epoch;
    struct cell_object *_Atomic cells[CELLS];
    _Atomic uint64_t created;
    _Atomic uint64_t released;
    _Atomic uint64_t spoilt; /* seen by readers */
    _Atomic uint64_t seed;
};

static void spoil_and_free(struct base_epoch_node *node)
{
    struct cell_object *object = base_container_of(node, struct cell_object, node);
    object->alive = 0;
    (*object->released)++;
    free(object);
}

static struct cell_object *make_object(struct arena *arena)
{
    struct cell_object *object = malloc(sizeof(*object));
    object->alive = ALIVE;
    object->released = &arena->released;
    arena->created++;
    return object;
}

static void *read_and_replace(void *arg)
{
    struct arena *arena = arg;
    struct base_random random;
    base_random_init(&random, arena->seed++);
    struct base_epoch_slot *slot = base_epoch_join(&arena->epoch);
    for (int i = 0; i < ROUNDS; i++) {
        struct cell_object *_Atomic *cell = &arena->cells[base_random_below(&random, CELLS)];
        if (base_random_below(&random, 4) == 0) {
            struct cell_object *old = atomic_exchange(cell, make_object(arena));
            base_epoch_retire(&arena->epoch, slot, &old->node, spoil_and_free);
            base_epoch_collect(&arena->epoch, slot);
        } else {
            base_epoch_enter(&arena->epoch, slot);
            struct cell_object *object = atomic_load_explicit(cell, memory_order_acquire);
            for (uint64_t look = base_random_below(&random, 20); look > 0; look--)
                arena->spoilt += *(volatile uint64_t *)&object->alive != ALIVE;
            base_epoch_exit(slot);
        }
        /* Slots and what was left behind change hands as well. */
        if (base_random_below(&random, 500) == 0) {
            base_epoch_leave(&arena->epoch, slot);
            slot = base_epoch_join(&arena->epoch);
        }
    }
    base_epoch_leave(&arena->epoch, slot);
    return NULL;
}

static void test_threads(void **state base_unused)
{
    struct base_account account;
    struct arena *arena = aligned_alloc(128, base_align_up(sizeof(*arena), 128));
    memset(arena, 0, sizeof(*arena));
    start(&account, &arena->epoch, THREADS);
    for (size_t i = 0; i < CELLS; i++)
        arena->cells[i] = make_object(arena);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_and_replace, arena), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(arena->spoilt, 0);
    end(&account, &arena->epoch);
    assert_int_equal(arena->released, arena->created - CELLS);
    for (size_t i = 0; i < CELLS; i++)
        free(arena->cells[i]);
    free(arena);
}

/*
 * One reader and one writer that swaps two objects as fast as it can and spoils each as soon as it is
 * released. Both store to the same few lines, so that the reader's entry waits behind others in its store
 * buffer: a missing fence shows.
 */
#define SWAPS 300000

struct line {
    _Alignas(BASE_CACHE_LINE_BYTES) _Atomic uint64_t value;
};

struct duel {
    struct base_epoch epoch;
    struct cell_object objects[2];
    struct cell_object *_Atomic shown;
    _Atomic uint64_t released;
    _Atomic bool over;
    struct line contended[8];
};

static void store_to_all(struct duel *duel, uint64_t value)
{
    for (size_t i = 0; i < base_array_count(duel->contended); i++)
        atomic_store_explicit(&duel->contended[i].value, value, memory_order_relaxed);
}

static void spoil(struct base_epoch_node *node)
{
    struct cell_object *object = base_container_of(node, struct cell_object, node);
    *(volatile uint64_t *)&object->alive = 0;
    (*object->released)++;
}

static void *swap_objects(void *arg)
{
    struct duel *duel = arg;
    struct base_epoch_slot *slot = base_epoch_join(&duel->epoch);
    for (uint64_t i = 0; i < SWAPS; i++) {
        struct cell_object *next = &duel->objects[i % 2];
        store_to_all(duel, i);
        *(volatile uint64_t *)&next->alive = ALIVE;
        struct cell_object *old = atomic_exchange_explicit(&duel->shown, next, memory_order_acq_rel);
        base_epoch_retire(&duel->epoch, slot, &old->node, spoil);
        while (duel->released <= i)
            base_epoch_collect(&duel->epoch, slot);
    }
    duel->over = true;
    base_epoch_leave(&duel->epoch, slot);
    return NULL;
}

static void *look_at_objects(void *arg)
{
    struct duel *duel = arg;
    uintptr_t spoilt = 0;
    struct base_epoch_slot *slot = base_epoch_join(&duel->epoch);
    while (!atomic_load_explicit(&duel->over, memory_order_relaxed)) {
        store_to_all(duel, 0);
        base_epoch_enter(&duel->epoch, slot);
        struct cell_object *object = atomic_load_explicit(&duel->shown, memory_order_acquire);
        for (int look = 0; look < 100; look++)
            spoilt += *(volatile uint64_t *)&object->alive != ALIVE;
        base_epoch_exit(slot);
    }
    base_epoch_leave(&duel->epoch, slot);
    return (void *)spoilt;
}

static void test_duel(void **state base_unused)
{
    struct base_account account;
    struct duel *duel = aligned_alloc(128, base_align_up(sizeof(*duel), 128));
    memset(duel, 0, sizeof(*duel));
    start(&account, &duel->epoch, 2);
    for (size_t i = 0; i < 2; i++)
        duel->objects[i].released = &duel->released;
    duel->objects[1].alive = ALIVE;
    duel->shown = &duel->objects[1];
    pthread_t writer, reader;
    void *spoilt = NULL;
    assert_int_equal(pthread_create(&reader, NULL, look_at_objects, duel), 0);
    assert_int_equal(pthread_create(&writer, NULL, swap_objects, duel), 0);
    pthread_join(writer, NULL);
    pthread_join(reader, &spoilt);
    assert_null(spoilt);
    end(&account, &duel->epoch);
    free(duel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_readers_delay_what_is_retired_after_they_entered),
        cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_what_leavers_retired_is_released_by_others),
        cmocka_unit_test(test_retiring_collects_now_and_then),
        cmocka_unit_test(test_release_may_retire),
        cmocka_unit_test(test_bugs_abort_and_no_memory_is_an_error),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_duel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
