/* Is the engine chosen that was asked for, or else the one that works here, and is that said once? */
#include "task/engine_testing.h"
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct lines {
    char text[4096];
    size_t length;
};

static void collect(void *arg, enum base_log_level level, const char *line, size_t len)
{
    struct lines *lines = arg;
    (void)level;
    if (lines->length + len < sizeof(lines->text)) {
        memcpy(lines->text + lines->length, line, len);
        lines->length += len;
        lines->text[lines->length] = '\0';
    }
}

/* Open two schedulers and tell what was said. @return the name of their engine, NULL: refused */
static const char *choose(enum task_engine_choice choice, struct lines *lines)
{
    *lines = (struct lines){0};
    struct task_node_options options = {
        .log_level = BASE_LOG_INFO, .log_sink = collect, .log_arg = lines, .engine_choice = choice};
    struct tarn_node *node;
    struct task_sched *scheds[2];
    assert_int_equal(task_node_open(&options, &node), 0);
    const char *name = NULL;
    if (task_sched_open(node, NULL, &scheds[0]) == 0) {
        assert_int_equal(task_sched_open(node, NULL, &scheds[1]), 0);
        name = task_sched_engine_name(scheds[0]);
        assert_string_equal(name, task_sched_engine_name(scheds[1]));
        task_sched_close(scheds[1]);
        task_sched_close(scheds[0]);
    }
    task_node_close(node);
    return name;
}

static int count_of(const char *text, const char *word)
{
    int count = 0;
    while ((text = strstr(text, word)) != NULL) {
        text += strlen(word);
        count++;
    }
    return count;
}

static void the_choice_is_logged_once(void **state)
{
    (void)state;
    struct lines lines;
    const char *reason;
    assert_string_equal(choose(TASK_ENGINE_AIO, &lines), "aio");
    assert_int_equal(count_of(lines.text, "engine chosen"), 1);
    bool works = task_uring_probe(&reason) == 0;
    assert_string_equal(choose(TASK_ENGINE_AUTO, &lines), works ? "uring" : "aio");
    assert_int_equal(count_of(lines.text, "engine chosen"), 1);
    assert_int_equal(count_of(lines.text, "reason="), 1);
}

/* Refuse one system call from now on. */
static void forbid(int number)
{
    struct sock_filter instructions[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = base_array_count(instructions), .filter = instructions};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* Run a check in a process of its own, which may change what the process is allowed to do. */
static void in_a_child(bool (*check)(int arg), int arg)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(check(arg) ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static bool check_forbidden(int number)
{
    struct lines lines;
    forbid(number);
    const char *name = choose(TASK_ENGINE_AUTO, &lines);
    bool ok = name != NULL && strcmp(name, "aio") == 0 && count_of(lines.text, "engine=aio") == 1;
    ok = ok && choose(TASK_ENGINE_URING, &lines) == NULL;
    return ok && count_of(lines.text, "level=error") == 1;
}

static void a_forbidden_ring_is_not_chosen(void **state)
{
    (void)state;
    in_a_child(check_forbidden, SYS_io_uring_setup);
    in_a_child(check_forbidden, SYS_io_uring_enter);
    in_a_child(check_forbidden, SYS_io_uring_register);
}

/* ---- the memory-lock limit ---------------------------------------------------------------------- */

/* Without the right to lock any amount of memory, and with a small limit. */
static bool check_locked_memory(int arg)
{
    (void)arg;
    struct rlimit limit = {.rlim_cur = 1 << 16, .rlim_max = 1 << 16};
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || syscall(SYS_capset, &header, data) != 0)
        return false;
    struct lines lines = {0};
    struct task_node_options options = {.log_level = BASE_LOG_WARN,
                                        .log_sink = collect,
                                        .log_arg = &lines,
                                        .engine_choice = TASK_ENGINE_URING,
                                        .warn_without_uring = true};
    struct tarn_node *node;
    struct task_sched *sched;
    if (task_node_open(&options, &node) != 0 || task_sched_open(node, NULL, &sched) != 0)
        return false;
    bool ok = count_of(lines.text, "memory-lock limit") == 1;
    struct base_buffer *buffer = base_buffer_get(task_sched_buffers(sched));
    ok = ok && buffer->region == -1; /* and so no request asks for what is not there */
    base_buffer_put(buffer);
    task_sched_close(sched);
    task_node_close(node);
    return ok;
}

/* Rings for the first schedulers of a node, and none for the later ones. */
static bool check_rings_that_run_out(int arg)
{
    enum { SCHEDS = 12 };
    (void)arg;
    struct lines lines = {0};
    struct task_node_options options = {
        .log_level = BASE_LOG_INFO, .log_sink = collect, .log_arg = &lines, .warn_without_uring = true};
    struct tarn_node *node;
    struct task_sched *scheds[SCHEDS];
    if (task_node_open(&options, &node) != 0)
        return false;
    for (int i = 0; i < SCHEDS; i++) {
        if (i == SCHEDS / 2)
            forbid(SYS_io_uring_setup);
        if (task_sched_open(node, NULL, &scheds[i]) != 0)
            return false;
    }
    bool ok = count_of(lines.text, "level=warn") == 1 && count_of(lines.text, "remedy=") == 1;
    for (int i = 0; i < SCHEDS; i++) {
        ok = ok && strcmp(task_sched_engine_name(scheds[i]), i < SCHEDS / 2 ? "uring" : "aio") == 0;
        task_sched_close(scheds[i]);
    }
    task_node_close(node);
    return ok;
}

static void rings_that_run_out_are_replaced(void **state)
{
    (void)state;
    const char *reason;
    if (task_uring_probe(&reason) != 0)
        skip();
    in_a_child(check_rings_that_run_out, 0);
}

static void a_small_memory_lock_limit_is_survived(void **state)
{
    (void)state;
    const char *reason;
    if (task_uring_probe(&reason) != 0)
        skip();
    in_a_child(check_locked_memory, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_choice_is_logged_once),
        cmocka_unit_test(a_forbidden_ring_is_not_chosen),
        cmocka_unit_test(rings_that_run_out_are_replaced),
        cmocka_unit_test(a_small_memory_lock_limit_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
