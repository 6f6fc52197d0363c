/* Do both engines read, write and flush files as engine.h says, errors, edges and many at once included? */
#include "task/engine_testing.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct task_file *open_memory(struct tarn_node *node)
{
    int fd = memfd_create("engine_test", MFD_CLOEXEC);
    struct task_file *file;
    assert_true(fd >= 0);
    assert_int_equal(task_file_open(node, fd, &file), 0);
    return file;
}

static int transfer(struct task_file *file, enum task_io_op op, uint64_t offset, void *data, size_t bytes)
{
    struct iovec iov = {.iov_base = data, .iov_len = bytes};
    return engine_testing_do((struct task_io){
        .op = op, .file = file, .offset = offset, .iov = &iov, .iov_count = 1, .region = -1});
}

static void file_requests(void *arg)
{
    struct task_testing *testing = arg;
    struct task_file *file = open_memory(testing->node);
    char data[100];
    memset(data, 'x', sizeof(data));
    assert_int_equal(transfer(file, TASK_IO_WRITE, 50, data, 100), 100);
    assert_int_equal(engine_testing_do((struct task_io){.op = TASK_IO_FLUSH, .file = file}), 0);

    assert_int_equal(transfer(file, TASK_IO_READ, 100, data, 100), 50); /* across the end */
    assert_int_equal(transfer(file, TASK_IO_READ, 150, data, 100), 0);  /* at the end */
    assert_int_equal(transfer(file, TASK_IO_READ, 9999, data, 100), 0); /* behind it */
    assert_int_equal(transfer(file, TASK_IO_READ, 0, data, 0), 0);
    assert_int_equal(transfer(file, TASK_IO_READ, 0, data, 100), 100);
    assert_int_equal(data[49], 0);
    assert_int_equal(data[50], 'x');

    /* several pieces, in one of which the file ends; an empty one among them */
    char a[1], b[60], c[100];
    struct iovec iov[] = {{a, sizeof(a)}, {NULL, 0}, {b, sizeof(b)}, {c, sizeof(c)}};
    struct task_io io = {
        .op = TASK_IO_READ, .file = file, .offset = 49, .iov = iov, .iov_count = 4, .region = -1};
    assert_int_equal(engine_testing_do(io), 101);
    assert_int_equal(a[0], 0);
    assert_int_equal(b[0], 'x');
    assert_int_equal(c[39], 'x');

    char text[] = "abcde";
    struct iovec pieces[] = {{text, 2}, {text + 2, 3}};
    io = (struct task_io){
        .op = TASK_IO_WRITE, .file = file, .iov = pieces, .iov_count = 2, .region = -1, .durable = true};
    assert_int_equal(engine_testing_do(io), 5);
    assert_int_equal(transfer(file, TASK_IO_READ, 0, data, 5), 5);
    assert_memory_equal(data, "abcde", 5);
    task_file_close(file);
}

static void files_are_read_and_written(void **state)
{
    engine_testing_run(state, NULL, file_requests, NULL);
}

static void file_errors(void *arg)
{
    struct task_testing *testing = arg;
    struct task_file *file;
    char data[16] = "";
    int sealed = memfd_create("engine_test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE), 0);
    assert_int_equal(task_file_open(testing->node, sealed, &file), 0);
    assert_int_equal(transfer(file, TASK_IO_WRITE, 0, data, sizeof(data)), -EPERM);
    task_file_close(file);
    int ends[2]; /* what cannot be flushed */
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(task_file_open(testing->node, ends[1], &file), 0);
    assert_int_equal(engine_testing_do((struct task_io){.op = TASK_IO_FLUSH, .file = file}), -EINVAL);
    task_file_close(file);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(task_file_open(testing->node, open("/dev/null", O_RDONLY | O_CLOEXEC), &file), 0);
    assert_int_equal(transfer(file, TASK_IO_WRITE, 0, data, sizeof(data)), -EBADF);
    task_file_close(file);
    assert_int_equal(task_file_open(testing->node, 1 << 29, &file), 0); /* there is no such descriptor */
    assert_int_equal(transfer(file, TASK_IO_READ, 0, data, sizeof(data)), -EBADF);
    assert_int_equal(engine_testing_do((struct task_io){.op = TASK_IO_FLUSH, .file = file}), -EBADF);
    task_file_close(file);
    file = open_memory(testing->node);
    assert_int_equal(transfer(file, TASK_IO_WRITE, 0, data, sizeof(data)), sizeof(data));
    assert_int_equal(transfer(file, TASK_IO_READ, 0, (void *)(uintptr_t)16, 16), -EFAULT);
    task_file_close(file);
}

static void file_errors_come_back(void **state)
{
    engine_testing_run(state, NULL, file_errors, NULL);
}

/* A direct read of a file that ends inside a sector. */
static void read_to_the_end(void *arg)
{
    struct task_testing *testing = arg;
    FILE *temporary = tmpfile(); /* on a disk, if the machine keeps such files there */
    assert_non_null(temporary);
    int fd = fcntl(fileno(temporary), F_DUPFD_CLOEXEC, 0);
    assert_int_equal(fclose(temporary), 0);
    assert_true(fd >= 0);
    struct task_file *file;
    assert_int_equal(task_file_open(testing->node, fd, &file), 0);
    char data[5000];
    memset(data, 'e', sizeof(data));
    assert_int_equal(transfer(file, TASK_IO_WRITE, 0, data, sizeof(data)), sizeof(data));
    assert_int_equal(engine_testing_do((struct task_io){.op = TASK_IO_FLUSH, .file = file}), 0);
    (void)fcntl(fd, F_SETFL, O_DIRECT); /* where it is refused the test still holds */
    struct base_buffer_pool *pool = task_sched_buffers(task_sched_self());
    struct base_buffer *buffer = base_buffer_get(pool);
    assert_non_null(buffer);
    assert_true(buffer->capacity >= 8192);
    struct iovec iov = {.iov_base = buffer->data, .iov_len = 8192};
    assert_int_equal(
        engine_testing_do((struct task_io){
            .op = TASK_IO_READ, .file = file, .iov = &iov, .iov_count = 1, .region = buffer->region}),
        5000);
    assert_memory_equal(buffer->data, data, sizeof(data));
    base_buffer_put(buffer);
    task_file_close(file);
}

static void direct_reads_meet_the_end(void **state)
{
    struct task_sched_options options = {.buffer_bytes = 8192};
    engine_testing_run(state, &options, read_to_the_end, NULL);
}

#define REQUESTS 1000

/* Requests posted together, and the task that waits for all of them. */
struct batch {
    struct task_io io[REQUESTS];
    struct iovec iov[REQUESTS];
    struct task_wait wait;
    uint32_t left;
};

static void batch_done(struct task_io *io)
{
    struct batch *batch = io->arg;
    assert_int_equal(io->result, sizeof(uint64_t));
    assert_false(io->more);
    if (--batch->left == 0)
        (void)task_wait_wake(&batch->wait, 0);
}

/* Write or read the numbers of a buffer, in one request each. */
static void run_batch(struct batch *batch, enum task_io_op op, struct task_file *file,
                      struct base_buffer *buffer)
{
    batch->left = REQUESTS;
    task_wait_init(&batch->wait);
    for (uint64_t i = 0; i < REQUESTS; i++) {
        batch->iov[i] = (struct iovec){.iov_base = buffer->data + i * 8, .iov_len = 8};
        batch->io[i] = (struct task_io){.op = op,
                                        .file = file,
                                        .offset = i * 8,
                                        .iov = &batch->iov[i],
                                        .iov_count = 1,
                                        .region = buffer->region,
                                        .done = batch_done,
                                        .arg = batch};
        task_io_post(task_sched_self(), &batch->io[i]);
    }
    assert_int_equal(batch->left, REQUESTS); /* never done before post returns */
    assert_int_equal(task_wait_park(&batch->wait, TASK_FOREVER), 0);
}

static void many_requests(void *arg)
{
    struct task_testing *testing = arg;
    struct task_file *file = open_memory(testing->node);
    struct base_buffer *buffer = base_buffer_get(task_sched_buffers(task_sched_self()));
    struct batch *batch = base_alloc(&testing->node->memory, sizeof(*batch));
    assert_true(buffer != NULL && batch != NULL);
    uint64_t *values = (uint64_t *)(void *)buffer->data;
    for (uint64_t i = 0; i < REQUESTS; i++)
        values[i] = i * 3;
    run_batch(batch, TASK_IO_WRITE, file, buffer);
    memset(values, 0, REQUESTS * sizeof(*values));
    run_batch(batch, TASK_IO_READ, file, buffer);
    for (uint64_t i = 0; i < REQUESTS; i++)
        assert_int_equal(values[i], i * 3);
    base_free(&testing->node->memory, batch, sizeof(*batch));
    base_buffer_put(buffer);
    task_file_close(file);
}

static void a_small_ring_takes_any_number(void **state)
{
    struct task_sched_options options = {.ring_entries = 8, .buffer_bytes = 8192};
    engine_testing_run(state, &options, many_requests, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ENGINE_TESTS(files_are_read_and_written),
        ENGINE_TESTS(file_errors_come_back),
        ENGINE_TESTS(direct_reads_meet_the_end),
        ENGINE_TESTS(a_small_ring_takes_any_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
