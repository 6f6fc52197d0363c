/* Do files keep their numbers apart, on every scheduler, however often numbers are used again? */
#include "task/engine_testing.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static struct task_file *open_letter(struct tarn_node *node, char letter)
{
    int fd = memfd_create("file_test", MFD_CLOEXEC);
    struct task_file *file;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, &letter, 1), 1);
    assert_int_equal(task_file_open(node, fd, &file), 0);
    return file;
}

static char read_letter(struct task_file *file)
{
    char letter = 0;
    struct iovec iov = {.iov_base = &letter, .iov_len = 1};
    struct task_io io = {.op = TASK_IO_READ, .file = file, .iov = &iov, .iov_count = 1, .region = -1};
    assert_int_equal(engine_testing_do(io), 1);
    return letter;
}

struct check {
    struct task_file *file;
    char letter;
};

static void check_letter(void *arg)
{
    struct check *check = arg;
    assert_int_equal(read_letter(check->file), check->letter);
}

static void check_everywhere(struct task_testing *testing, struct task_file *file, char letter)
{
    struct check check = {.file = file, .letter = letter};
    struct task_group group;
    task_group_init(&group);
    for (int i = 0; i < TASK_TESTING_SCHEDS; i++)
        assert_int_equal(task_spawn(testing->scheds[i], &group, "check", check_letter, &check), 0);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
}

static bool is_used(struct tarn_node *node, uint32_t number)
{
    base_spin_lock(&node->lock);
    bool used = (node->files_used >> number & 1) != 0;
    base_spin_unlock(&node->lock);
    return used;
}

static void reuse_numbers(void *arg)
{
    struct task_testing *testing = arg;
    struct task_file *stays = open_letter(testing->node, 's');
    uint64_t generation = stays->generation;
    for (int i = 0; i < 50; i++) {
        char letter = (char)('a' + i % 26);
        struct task_file *file = open_letter(testing->node, letter);
        uint32_t number = file->number;
        int fd = file->fd;
        assert_int_not_equal(number, stays->number);
        assert_true(file->generation > generation);
        generation = file->generation;
        check_everywhere(testing, file, letter);
        task_file_close(file);
        for (int waited = 0; is_used(testing->node, number); waited++) {
            assert_true(waited < 10000);
            assert_int_equal(task_sleep(1000000), 0); /* until the last scheduler has forgotten it */
        }
        assert_int_equal(fcntl(fd, F_GETFD), -1);
    }
    check_everywhere(testing, stays, 's');
    task_file_close(stays);
}

static void numbers_are_used_again(void **state)
{
    engine_testing_run(state, NULL, reuse_numbers, NULL);
}

/* The same before any scheduler runs, and after all have ended. */
static void files_without_a_run(void **state)
{
    struct task_node_options options = {.log_level = BASE_LOG_ERROR,
                                        .engine_choice = engine_testing_choice(state)};
    struct tarn_node *node;
    struct task_sched *scheds[2];
    struct task_file *files[3];
    assert_int_equal(task_node_open(&options, &node), 0);
    files[0] = open_letter(node, 'x');
    int fd = files[0]->fd;
    task_file_close(files[0]);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* nobody had to be told */
    for (int i = 0; i < 2; i++)
        assert_int_equal(task_sched_open(node, NULL, &scheds[i]), 0);
    for (int i = 0; i < 3; i++)
        files[i] = open_letter(node, 'y');
    task_file_close(files[0]); /* waits for both */
    assert_int_equal(task_sched_start(scheds[0]), 0);
    task_sched_stop(scheds[0]);
    task_sched_join(scheds[0]);
    task_file_close(files[1]); /* waits for the one that never ran */
    task_sched_close(scheds[0]);
    task_sched_close(scheds[1]);
    assert_int_equal(node->files_used, UINT64_C(1) << files[2]->number);
    task_file_close(files[2]);
    task_node_close(node);
}

static void there_are_so_many_files(void **state)
{
    (void)state;
    struct task_node_options options = {.log_level = BASE_LOG_ERROR};
    struct tarn_node *node;
    struct task_file *files[TASK_FILES_MAX];
    struct task_file *extra = NULL;
    assert_int_equal(task_node_open(&options, &node), 0);
    for (int i = 0; i < TASK_FILES_MAX; i++) {
        files[i] = open_letter(node, 'z');
        assert_int_equal(files[i]->number, i);
    }
    assert_int_equal(task_file_open(node, 0, &extra), -ENFILE);
    assert_null(extra);
    task_file_close(files[7]);
    files[7] = open_letter(node, 'z');
    assert_int_equal(files[7]->number, 7);
    for (int i = 0; i < TASK_FILES_MAX; i++)
        task_file_close(files[i]);
    base_account_fail_at(&node->memory, 1);
    assert_int_equal(task_file_open(node, 0, &extra), -ENOMEM);
    task_node_close(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ENGINE_TESTS(numbers_are_used_again),
        ENGINE_TESTS(files_without_a_run),
        cmocka_unit_test(there_are_so_many_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
