/* Does a stack that overflows in a server's thread tell whose it was, and end the process as a fault does? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cli/fault.h"
#include "task/node.h"
#include "task/sched.h"
#include "task/task.h"
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct play {
    struct tarn_node *node;
    task_function *function;
};

__attribute__((noinline)) static int recurse(volatile char *above, int depth)
{
    volatile char here[512];
    memset((char *)(uintptr_t)here, depth, sizeof(here));
    return depth == 0 ? above[0] : recurse(here, depth - 1) + here[511];
}

static void overflow(void *arg)
{
    volatile char top = 0;
    (void)arg;
    _exit(recurse(&top, 1000000) == 0 ? 3 : 4);
}

static void touch_forbidden(void *arg)
{
    (void)arg;
    volatile char *page = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *page = 1;
}

static void send_signal(void *arg)
{
    (void)arg;
    (void)kill(getpid(), SIGSEGV);
}

static void do_nothing(void *arg)
{
    (void)arg;
}

static void live(void *arg)
{
    struct play *play = arg;
    struct task_group group;
    task_group_init(&group);
    cli_fault_begin_thread(play->node);
    if (task_spawn(NULL, &group, "deep thought", play->function, NULL) != 0 ||
        task_group_join(&group, TASK_FOREVER) != 0)
        _exit(5);
    cli_fault_end_thread(play->node);
    task_sched_stop(task_sched_self());
}

_Noreturn static void be_child(task_function *function)
{
    const struct rlimit no_core = {0};
    struct play play = {.function = function};
    struct task_sched *sched;
    cli_fault_install();
    if (setrlimit(RLIMIT_CORE, &no_core) != 0 || task_node_open(NULL, &play.node) != 0 ||
        task_sched_open(play.node, NULL, &sched) != 0 || task_spawn(sched, NULL, "live", live, &play) != 0)
        _exit(6);
    task_sched_run(sched);
    task_sched_close(sched);
    task_node_close(play.node); /* asserts that the stack was given back */
    _exit(0);
}

/* Run a function in a task of a process of its own. @return how that ended; `ret_text` is what it said */
static int run(task_function *function, char *ret_text, size_t room)
{
    int pipes[2], status = 0;
    size_t used = 0;
    ssize_t bytes;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(pipes[1], STDERR_FILENO);
        be_child(function);
    }
    (void)close(pipes[1]);
    while ((bytes = read(pipes[0], ret_text + used, room - 1 - used)) > 0)
        used += (size_t)bytes;
    ret_text[used] = '\0';
    (void)close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void an_overflow_is_named(void **state)
{
    (void)state;
    char text[4096];
    int status = run(overflow, text, sizeof(text));
    assert_non_null(strstr(text, "deep thought"));
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void other_faults_end_it_too(void **state)
{
    (void)state;
    char text[4096];
    task_function *const functions[] = {touch_forbidden, send_signal};
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        int status = run(functions[i], text, sizeof(text));
        assert_null(strstr(text, "deep thought"));
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSEGV);
    }
}

static void threads_give_their_stacks_back(void **state)
{
    (void)state;
    char text[4096];
    int status = run(do_nothing, text, sizeof(text));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_overflow_is_named),
        cmocka_unit_test(other_faults_end_it_too),
        cmocka_unit_test(threads_give_their_stacks_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
