/* Failures: the n-th write, flush or allocation fails, and nobody is left waiting. */
#include "base/testing.h"
#include "seglog/run_testing.h"

static struct {
    enum drive_op op;
    uint64_t n;
    bool reached;
} failing;

static void fail_nth(struct run *run, struct task_testing *testing)
{
    struct run_writers *writers = calloc(1, sizeof(*writers));
    testing_drive_fail_at(&run->drive.base, failing.op, failing.n, true);
    for (uint32_t round = 0; round < 6; round++) {
        task_group_init(&writers->group);
        for (uint32_t i = 0; i < 30; i++)
            (void)run_spawn_writer(run, testing, writers, i, 1000 + i * 200);
        run_join(writers);
        for (uint32_t i = 0; i < 30; i++) {
            int error = writers->writers[i].error;
            assert_true(error == 0 || error == -EIO || error == -EROFS);
            failing.reached = failing.reached || error != 0;
        }
    }
    int error = seglog_sync(run->log);
    assert_true(error == 0 || error == -EIO || error == -EROFS);
    failing.reached = failing.reached || error != 0;
    if (failing.reached) {
        assert_true(seglog_failed(run->log));
        assert_int_equal(run_put(run, 0, 10), -EROFS);
        assert_int_equal(run_delete(run, 0), -EROFS);
    }
    error = run_stop(run);
    assert_true(error == 0 || error == -EIO || error == -EROFS);
    failing.reached = failing.reached || error != 0;
    free(writers);
}

/* Every write and every flush fails once, and with it all that follow: everybody is told, nobody waits for
 * ever. */
static void failures_leave_nobody_waiting(void **state)
{
    (void)state;
    static const enum seglog_mode modes[] = {SEGLOG_POWER, SEGLOG_DEVICE, SEGLOG_ASYNC, SEGLOG_POWER};
    for (size_t mode = 0; mode < base_array_count(modes); mode++) {
        for (failing.op = DRIVE_WRITE; failing.op <= DRIVE_FLUSH; failing.op++) {
            failing.reached = true;
            for (failing.n = 1; failing.reached && failing.n < 60; failing.n++) {
                failing.reached = false;
                run_in_one(modes[mode], mode == 3, false, fail_nth);
            }
            assert_true(failing.op == DRIVE_WRITE || mode == 0 || failing.n > 2);
        }
    }
}

/* Memory runs out at the n-th request for some. */
static void opening_without_memory(void **state)
{
    (void)state;
    struct run *run = run_new(SEGLOG_DEVICE, SEGLOG_SEGMENTS_MIN);
    struct tarn_node *node = run_node(run);
    const struct seglog_options options = {.mode = SEGLOG_DEVICE, .owner_kind = SEGLOG_OWNER_DEPOT};
    run_start(run, node);
    assert_int_equal(run_put(run, 0, 10), 0);
    assert_int_equal(seglog_stop(run->log), 0);
    assert_int_equal(seglog_close(run->log), 0);
    uint64_t used = base_account_used(&node->memory);
    int error = -ENOMEM;
    uint64_t n;
    for (n = 1; error != 0; n++) {
        base_account_fail_at(&node->memory, n);
        error = seglog_open(node, run->opened, &options, &run->log);
        assert_true(error == 0 || error == -ENOMEM);
        assert_true(error == 0 || base_account_used(&node->memory) == used);
    }
    base_account_fail_at(&node->memory, 0);
    assert_true(n > 10);
    assert_int_equal(seglog_close(run->log), 0);
    drive_close(run->opened);
    task_node_close(node);
    run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_leave_nobody_waiting),
        cmocka_unit_test(opening_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
