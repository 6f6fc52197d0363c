/* Are stacks guarded, bounded, reused, measured and given back, with each kind of guard? */
#include "task/sched_internal.h"
#include "task/stack.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { STACK_BYTES = 32 << 10, STACKS = 100 };

static const enum task_guard guards[] = {TASK_GUARD_INSTALL, TASK_GUARD_PROTECT, TASK_GUARD_WORD};

/* How a child ends that writes to an address: 0, or the signal. */
static int signal_of_write(void *address)
{
    pid_t child = fork();
    if (child == 0) {
        struct sigaction fatal = {.sa_handler = SIG_DFL}; /* the framework catches it */
        (void)sigaction(SIGSEGV, &fatal, NULL);
        *(volatile char *)address = 1;
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status); /* sanitizers exit with 1 */
}

static void stacks_are_guarded_and_bounded(void **state)
{
    (void)state;
    for (size_t g = 0; g < base_array_count(guards); g++) {
        struct base_account account;
        struct task_stacks *stacks;
        struct task *tasks[STACKS];
        base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
        assert_int_equal(task_stacks_open(&account, STACK_BYTES, STACKS, guards[g], &stacks), 0);
        for (int i = 0; i < STACKS; i++) {
            size_t bytes = 0;
            tasks[i] = task_stacks_get(stacks);
            assert_non_null(tasks[i]);
            uint8_t *bottom = task_stacks_bottom(stacks, tasks[i], &bytes);
            assert_true(bytes > STACK_BYTES * 3 / 4 && bytes < STACK_BYTES);
            memset(bottom, 0xab, bytes);
            assert_false(task_overran(tasks[i]));
            assert_int_equal(task_stacks_in_guard(stacks, tasks[i], bottom - 1),
                             guards[g] != TASK_GUARD_WORD);
            assert_false(task_stacks_in_guard(stacks, tasks[i], bottom));
        }
        assert_null(task_stacks_get(stacks));
        size_t bytes = 0;
        uint8_t *bottom = task_stacks_bottom(stacks, tasks[STACKS - 1], &bytes);
        if (guards[g] == TASK_GUARD_WORD) {
            memset(bottom - 4096, 0xab, 4096);
            assert_true(task_overran(tasks[STACKS - 1]));
            assert_false(task_overran(tasks[0]));
        } else {
            assert_int_not_equal(signal_of_write(bottom - 1), 0);
            assert_int_equal(signal_of_write(bottom), 0);
        }
        assert_true(task_stacks_peak_bytes(stacks) >= bytes);
        task_stacks_close(stacks);
        assert_int_equal(base_account_used(&account), 0);
    }
}

static void empty_slabs_are_given_back(void **state)
{
    (void)state;
    struct base_account account;
    struct task_stacks *stacks;
    struct task *tasks[1000];
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    assert_int_equal(task_stacks_open(&account, STACK_BYTES, 1000, TASK_GUARD_INSTALL, &stacks), 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000; i++) {
            tasks[i] = task_stacks_get(stacks);
            assert_non_null(tasks[i]);
        }
        assert_true(task_stacks_mapped(stacks) >= 1000);
        task_stacks_trim(stacks);
        assert_true(task_stacks_mapped(stacks) >= 1000); /* all are in use */
        for (int i = 0; i < 1000; i++)
            task_stacks_put(stacks, tasks[(i * 7 + round) % 1000]);
        task_stacks_trim(stacks);
        assert_true(task_stacks_mapped(stacks) <= 64);
        assert_true(base_account_used(&account) <= 64 * (STACK_BYTES + 64) + 4096);
    }
    task_stacks_close(stacks);
    assert_int_equal(base_account_used(&account), 0);
}

static void the_peak_is_what_was_touched(void **state)
{
    (void)state;
    struct base_account account;
    struct task_stacks *stacks;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    assert_int_equal(task_stacks_open(&account, STACK_BYTES, 50, TASK_GUARD_INSTALL, &stacks), 0);
    struct task *task = task_stacks_get(stacks);
    assert_non_null(task);
    size_t bytes = 0;
    uint8_t *bottom = task_stacks_bottom(stacks, task, &bytes);
    assert_true(task_stacks_peak_bytes(stacks) < 4096);
    bottom[bytes - 10000] = 1;
    uint64_t peak = task_stacks_peak_bytes(stacks);
#ifdef TASK_ASAN
    assert_true(peak >= 10000 && peak < 10000 + 4096);
#else
    assert_true(peak >= 10000 && peak < 10000 + 8);
#endif
    task_stacks_put(stacks, task);
    task_stacks_close(stacks);
}

static void without_memory_there_is_no_stack(void **state)
{
    (void)state;
    struct base_account account;
    struct task_stacks *stacks;
    base_account_init(&account, 40 * STACK_BYTES);
    assert_int_equal(task_stacks_open(&account, STACK_BYTES, 1000, TASK_GUARD_INSTALL, &stacks), 0);
    int count = 0;
    while (task_stacks_get(stacks) != NULL)
        count++;
    assert_int_equal(count, 32); /* two slabs */
    task_stacks_close(stacks);
    assert_int_equal(base_account_used(&account), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacks_are_guarded_and_bounded),
        cmocka_unit_test(empty_slabs_are_given_back),
        cmocka_unit_test(the_peak_is_what_was_touched),
        cmocka_unit_test(without_memory_there_is_no_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
