/* Reading ahead: every item once and in order, several at once, errors, early ends, little memory. */
#include "seglog/ahead_internal.h"
#include "seglog/testing.h"
#include "task/testing.h"
#include <errno.h>

enum { ITEM_BYTES = 64 << 10 };

/* Items are the numbers from 0 to `end`, every `step`-th of them. */
struct source {
    uint32_t end, step;
    uint32_t fails;   /* the item with this number does; 0: none */
    bool meet;        /* a fetch waits until another one is under way, too */
    void *_Atomic by; /* the only one that fetches; NULL: several do */
    _Atomic uint32_t fetched, inside, most_inside;
};

static uint32_t next_number(const void *arg, uint32_t from)
{
    const struct source *source = arg;
    uint32_t number = (from + source->step - 1) / source->step * source->step;
    return number < source->end ? number : SEGLOG_AHEAD_END;
}

static void *who(void)
{
    static _Thread_local char thread;
    return task_self() != NULL ? (void *)task_self() : &thread;
}

static void meet_another(struct source *source)
{
    uint64_t end_ns = task_now() + 60 * BASE_NS_PER_SECOND;
    while (source->meet && atomic_load(&source->most_inside) < 2 && task_now() < end_ns)
        (void)task_sleep(BASE_NS_PER_MS);
}

static int fetch_number(const void *arg, struct seglog_ahead_item *item)
{
    struct source *source = (struct source *)(uintptr_t)arg; /* the test's counters */
    uint32_t inside = atomic_fetch_add(&source->inside, 1) + 1;
    uint32_t most = atomic_load(&source->most_inside);
    while (inside > most && !atomic_compare_exchange_weak(&source->most_inside, &most, inside)) {
    }
    meet_another(source);
    if (item->number / source->step % 3 == 1)
        (void)task_sleep(BASE_NS_PER_MS);
    memset(item->memory, (int)(item->number % 251), ITEM_BYTES);
    item->bytes = item->number;
    if (atomic_fetch_add(&source->fetched, 1) == 0)
        atomic_store(&source->by, who());
    else if (atomic_load(&source->by) != who())
        atomic_store(&source->by, NULL);
    atomic_fetch_sub(&source->inside, 1);
    return item->number == source->fails && source->fails != 0 ? -EBADMSG : 0;
}

static const struct seglog_ahead_ops ops = {.next = next_number, .fetch = fetch_number};

/* Take so many items, or all. @return how many there were */
static uint32_t take(struct seglog *log, struct source *source, uint32_t most)
{
    struct seglog_ahead ahead;
    const struct seglog_ahead_item *item;
    uint32_t taken = 0;
    assert_int_equal(seglog_ahead_init(&ahead, log, &ops, source, ITEM_BYTES), 0);
    while (taken < most && (item = seglog_ahead_next(&ahead)) != NULL) {
        assert_int_equal(item->number, taken++ * source->step);
        assert_int_equal(item->bytes, item->number);
        assert_int_equal(item->error, item->number == source->fails && source->fails != 0 ? -EBADMSG : 0);
        for (uint32_t i = 0; i < ITEM_BYTES; i += 4095)
            assert_int_equal(item->memory[i], item->number % 251); /* nobody else has it */
    }
    if (taken < most)
        assert_null(seglog_ahead_next(&ahead)); /* nor later */
    seglog_ahead_deinit(&ahead);
    assert_int_equal(atomic_load(&source->inside), 0);
    return taken;
}

static void all_come_in_order(struct seglog *log)
{
    static const uint32_t counts[] = {0, 1, 2, 3, SEGLOG_AHEAD_ITEMS, SEGLOG_AHEAD_ITEMS + 1, 200};
    for (size_t i = 0; i < base_array_count(counts); i++) {
        for (uint32_t step = 1; step <= 5; step += 4) {
            struct source source = {.end = counts[i] * step, .step = step, .fails = 2 * step};
            assert_int_equal(take(log, &source, UINT32_MAX), counts[i]);
            assert_int_equal(atomic_load(&source.fetched), counts[i]);
            assert_true(atomic_load(&source.most_inside) <= SEGLOG_AHEAD_WORKERS + 1);
        }
    }
}

static void several_are_read_at_once(struct seglog *log)
{
    struct source source = {.end = 8, .step = 1, .meet = true};
    assert_int_equal(take(log, &source, UINT32_MAX), 8);
    assert_true(atomic_load(&source.most_inside) >= 2);
}

/* Whoever has had enough ends it; what is being read is waited for, and little was read in vain. */
static void it_ends_anywhere(struct seglog *log)
{
    for (uint32_t most = 0; most < 12; most++) {
        struct source source = {.end = 100, .step = 1};
        assert_int_equal(take(log, &source, most), most);
        uint32_t fetched = atomic_load(&source.fetched);
        assert_true(fetched >= most && fetched <= most + SEGLOG_AHEAD_ITEMS);
    }
}

/* With memory for one item the caller reads all of them; with none there is an error. */
static void little_memory_is_enough(struct seglog *log)
{
    struct base_account *account = &log->node->memory;
    struct seglog_ahead ahead;
    struct source source = {.end = 20, .step = 1};
    uint64_t cap_bytes = account->cap_bytes;
    account->cap_bytes = base_account_used(account) + 3 * ITEM_BYTES;
    assert_int_equal(take(log, &source, UINT32_MAX), 20);
    assert_ptr_equal(atomic_load(&source.by), who());
    assert_int_equal(atomic_load(&source.most_inside), 1);
    account->cap_bytes = base_account_used(account) + ITEM_BYTES - 1;
    assert_int_equal(seglog_ahead_init(&ahead, log, &ops, &source, ITEM_BYTES), -ENOMEM);
    account->cap_bytes = cap_bytes;
    base_account_fail_at(account, 2); /* memory for the second item */
    struct source again = {.end = 20, .step = 1};
    assert_int_equal(take(log, &again, UINT32_MAX), 20);
    assert_ptr_equal(atomic_load(&again.by), who());
    base_account_fail_at(account, 0);
}

static void all(struct seglog *log)
{
    all_come_in_order(log);
    several_are_read_at_once(log);
    it_ends_anywhere(log);
    little_memory_is_enough(log);
}

static void in_threads(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = TESTING_STORE_BYTES, .exists = true};
    drive.bytes = test_calloc(1, drive.size);
    struct testing_log log;
    testing_drive_start(&log, &drive);
    struct seglog whole = {.node = log.node, .drive = log.drive};
    all(&whole);
    testing_drive_stop(&log);
    test_free(drive.bytes);
}

static void in_a_task(void *arg)
{
    const struct task_testing *testing = arg;
    struct seglog log = {.node = testing->node};
    assert_int_equal(
        drive_open(log.node, "store", &(struct drive_options){.direct = DRIVE_DIRECT_AUTO}, &log.drive), 0);
    all(&log);
    drive_close(log.drive);
}

static void in_tasks(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = TESTING_STORE_BYTES, .exists = true};
    drive.bytes = test_calloc(1, drive.size);
    const struct task_node_options options = {
        .drives = &testing_provider, .drives_arg = &drive, .log_level = BASE_LOG_ERROR};
    task_testing_run(&options, NULL, in_a_task, NULL);
    test_free(drive.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_threads),
        cmocka_unit_test(in_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
