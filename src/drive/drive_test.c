/* What is common to all drives, over a provider in memory that fails and waits when told to. */
#include "drive/fake_testing.h"
#include <pthread.h>

/* ---- tests ------------------------------------------------------------------------------------- */

static void check_opening(struct context *context)
{
    struct drive *none = NULL;
    assert_int_equal(drive_open(context->node, "missing", &no_options, &none), -ENOENT);
    assert_null(none);
    assert_string_equal(drive_name(context->drive), "\"0\"");
    assert_string_equal(drive_info(context->drive)->provider, "fake");
    assert_int_equal(drive_zeroed_bytes(context->drive), FAKE_BYTES);
    assert_false(drive_failed(context->drive));
    for (uint64_t n = 1; n <= 2; n++) {
        base_account_fail_at(&context->node->memory, n);
        assert_int_equal(drive_open(context->node, "0", &no_options, &none), -ENOMEM);
        assert_null(none);
    }
    base_account_fail_at(&context->node->memory, 0);
}

static void test_opening(void **state)
{
    (void)state;
    run_both(check_opening, false);
}

static void check_transfers(struct context *context)
{
    uint64_t out[BLOCK / 8], in[BLOCK / 8];
    struct drive *drive = context->drive;
    drive_testing_fill(out, sizeof(out), 3, 1);
    assert_int_equal(drive_write(drive, 3, out, sizeof(out), false), 0);
    assert_int_equal(drive_write(drive, FAKE_BYTES - sizeof(out), out, sizeof(out), true), 0);
    assert_int_equal(drive_flush(drive), 0);
    assert_int_equal(drive_read(drive, 3, in, sizeof(in)), 0);
    assert_memory_equal(in, out, sizeof(in));
    assert_int_equal(drive_read(drive, FAKE_BYTES - sizeof(in), in, sizeof(in)), 0);
    assert_memory_equal(in, out, sizeof(in));
    assert_int_equal(context->fake.posts, 5);
    assert_int_equal(context->fake.region, -1);
    atomic_store(&context->fake.fail_at, 1);
    assert_int_equal(drive_read(drive, 0, in, sizeof(in)), -EIO);
    assert_int_equal(drive_read(drive, FAKE_BYTES, in, sizeof(in)), -EINVAL);
    assert_int_equal(drive_read(drive, 0, in, 512), 0);
    assert_int_equal(drive_moved_bytes(drive, DRIVE_READ), 2 * sizeof(in) + 512);
    assert_int_equal(drive_moved_bytes(drive, DRIVE_WRITE), 2 * sizeof(out));
}

static void test_transfers(void **state)
{
    (void)state;
    run_both(check_transfers, false);
}

/* Post what must not reach the provider. */
static void refuse(struct context *context, struct drive_request request, int error)
{
    uint64_t before = context->fake.posts;
    drive_post(context->drive, &request);
    assert_int_equal(drive_wait(&request, TASK_FOREVER), error);
    assert_int_equal(context->fake.posts, before);
}

static void check_refusals(struct context *context)
{
    static _Alignas(BLOCK) uint8_t memory[2 * BLOCK];
    struct iovec good[] = {{memory, 512}, {memory + 512, 1024}};
    struct iovec huge[] = {{memory, SIZE_MAX}, {memory, 2}};
    struct iovec halves[] = {{memory, (size_t)1 << 31}, {memory, (size_t)1 << 31}};
    struct iovec odd_length[] = {{memory, 512}, {memory + 512, 1000}};
    struct iovec odd_memory[] = {{memory + 8, 512}};
    struct iovec many[TASK_IOV_MAX + 1] = {{memory, 512}};
    struct iovec nothing[] = {{memory, 0}};
    enum drive_op ops[] = {DRIVE_READ, DRIVE_WRITE};
    for (size_t i = 0; i < base_array_count(ops); i++) {
        struct drive_request request = {.op = ops[i], .iov = good, .iov_count = 2, .region = -1};
        drive_post(context->drive, &request);
        assert_int_equal(drive_wait(&request, TASK_FOREVER), 0);

        request.offset = FAKE_BYTES - 1024; /* ends behind the drive */
        refuse(context, request, -EINVAL);
        request.offset = FAKE_BYTES;
        refuse(context, request, -EINVAL);
        request.offset = FAKE_BYTES + 512;
        refuse(context, request, -EINVAL);
        request.offset = UINT64_MAX - 511; /* wraps */
        refuse(context, request, -EINVAL);
        request.offset = 256;
        refuse(context, request, -EINVAL);
        request.offset = 0;
        request.iov_count = 0;
        refuse(context, request, -EINVAL);
        request.iov = many;
        request.iov_count = TASK_IOV_MAX + 1;
        refuse(context, request, -EINVAL);
        request.iov_count = 2;
        request.iov = huge;
        refuse(context, request, -EINVAL);
        request.iov = halves;
        refuse(context, request, -EINVAL);
        request.iov = odd_length;
        refuse(context, request, -EINVAL);
        request.iov_count = 1;
        request.iov = odd_memory;
        refuse(context, request, -EINVAL);
        request.iov = nothing;
        refuse(context, request, -EINVAL);
    }
    refuse(context, (struct drive_request){.op = DRIVE_FLUSH, .iov = good, .iov_count = 1}, -EINVAL);
    refuse(context, (struct drive_request){.op = (enum drive_op)77, .iov = good, .iov_count = 1}, -EINVAL);
    assert_int_equal(drive_write(context->drive, 1, memory, 512, true), -EINVAL);
    assert_false(
        drive_failed(context->drive)); /* a bad durable write is the caller's fault, not the drive's */
    assert_int_equal(drive_flush(context->drive), 0);
}

/* A provider that cannot, and a drive that has failed. */
static void check_no_extension(struct context *context)
{
    uint64_t bytes = 1;
    assert_int_equal(drive_extend(context->drive, &bytes), -EOPNOTSUPP);
    atomic_store(&context->fake.fail_at, 1);
    assert_int_equal(drive_flush(context->drive), -EIO);
    assert_int_equal(drive_extend(context->drive, &bytes), -EROFS);
    assert_int_equal(bytes, 1);
    assert_int_equal(drive_bytes(context->drive), drive_info(context->drive)->bytes);
}

static void test_no_extension(void **state)
{
    (void)state;
    run_both(check_no_extension, true);
}

/* What a discard may name, and that nothing else fails because one did. */
static void check_discards(struct context *context)
{
    struct drive *drive = context->drive;
    const uint64_t bytes = drive_info(drive)->bytes, posts = context->fake.posts;
    assert_int_equal(drive_discard(drive, 0, 512), -EOPNOTSUPP); /* it has not said that it can */
    drive->info.discard = true;
    assert_int_equal(drive_discard(drive, 256, 512), -EINVAL);
    assert_int_equal(drive_discard(drive, 512, 100), -EINVAL);
    assert_int_equal(drive_discard(drive, 512, bytes), -EINVAL);
    assert_int_equal(drive_discard(drive, UINT64_MAX - 511, 512), -EINVAL);
    assert_int_equal(context->fake.posts, posts);
    assert_int_equal(drive_discard(drive, 0, bytes), 0);
    atomic_store(&context->fake.fail_at, 1);
    assert_int_equal(drive_discard(drive, 0, 512), -EIO);
    assert_int_equal(drive_flush(drive), 0); /* nothing else has failed */
    atomic_store(&context->fake.fail_at, 1);
    assert_int_equal(drive_flush(drive), -EIO);
    assert_int_equal(drive_discard(drive, 0, 512), -EROFS);
}

static void test_discards(void **state)
{
    (void)state;
    run_both(check_discards, true);
}

static void test_refusals(void **state)
{
    (void)state;
    run_both(check_refusals, true);
}

static void check_read_only(struct context *context)
{
    static const struct drive_options read_only = {.read_only = true};
    uint8_t memory[512] = {0};
    struct drive *drive;
    assert_int_equal(drive_open(context->node, "0", &read_only, &drive), 0);
    assert_int_equal(drive_read(drive, 0, memory, sizeof(memory)), 0);
    assert_int_equal(drive_write(drive, 0, memory, sizeof(memory), false), -EROFS);
    assert_int_equal(drive_flush(drive), -EROFS);
    assert_false(drive_failed(drive));
    drive_close(drive);
}

static void test_read_only(void **state)
{
    (void)state;
    run_both(check_read_only, false);
}

/* ---- when `done` is called --------------------------------------------------------------------- */

struct callback {
    struct drive_request request;
    struct iovec vector;
    uint8_t memory[512];
    bool posted; /* drive_post() has returned */
    bool called_early;
    unsigned calls;
    struct task_future called;
};

static void note_call(struct drive_request *request)
{
    struct callback *callback = request->arg;
    assert_true(request->finished);
    callback->calls++;
    callback->called_early = !callback->posted;
    task_future_set(&callback->called, request->result);
}

/* Post with `done`. @return its result */
static int call_back(struct context *context, enum drive_op op, uint64_t offset)
{
    struct callback callback = {0};
    bool thread = task_is_thread();
    task_future_init(&callback.called);
    callback.vector = (struct iovec){callback.memory, sizeof(callback.memory)};
    callback.request = (struct drive_request){.op = op,
                                              .offset = offset,
                                              .iov = op == DRIVE_FLUSH ? NULL : &callback.vector,
                                              .iov_count = op == DRIVE_FLUSH ? 0 : 1,
                                              .region = -1,
                                              .done = note_call,
                                              .arg = &callback};
    drive_post(context->drive, &callback.request);
    assert_int_equal(callback.calls, thread ? 1 : 0);
    callback.posted = true;
    if (!thread) {
        int result;
        assert_int_equal(task_future_wait(&callback.called, TASK_FOREVER, &result), 0);
    }
    assert_int_equal(callback.calls, 1);
    assert_true(callback.called_early == thread);
    return callback.request.result;
}

static void check_callbacks(struct context *context)
{
    assert_int_equal(call_back(context, DRIVE_READ, 0), 0);
    assert_int_equal(call_back(context, DRIVE_WRITE, 512), 0);
    assert_int_equal(call_back(context, DRIVE_FLUSH, 0), 0);
    assert_int_equal(call_back(context, DRIVE_WRITE, drive_info(context->drive)->bytes), -EINVAL);
    context->fake.fail_at = 1;
    assert_int_equal(call_back(context, DRIVE_READ, 0), -EIO);
    context->fake.fail_at = 1;
    assert_int_equal(call_back(context, DRIVE_FLUSH, 0), -EIO);
    assert_int_equal(call_back(context, DRIVE_FLUSH, 0), -EROFS);
}

static void test_callbacks(void **state)
{
    (void)state;
    run_both_everywhere(check_callbacks, false);
}

/* A request posted from another's `done`, on the scheduler's stack. */
struct chain {
    struct callback first, second;
    struct drive *drive;
};

static void post_second(struct drive_request *request)
{
    struct chain *chain = request->arg;
    drive_post(chain->drive, &chain->second.request);
    chain->second.posted = true;
}

static void check_chain(struct context *context)
{
    struct chain chain = {.drive = context->drive};
    task_future_init(&chain.second.called);
    chain.first.vector = (struct iovec){chain.first.memory, 512};
    chain.second.vector = (struct iovec){chain.second.memory, 512};
    chain.first.request = (struct drive_request){
        .op = DRIVE_WRITE, .iov = &chain.first.vector, .iov_count = 1, .done = post_second, .arg = &chain};
    chain.second.request = (struct drive_request){.op = DRIVE_READ,
                                                  .iov = &chain.second.vector,
                                                  .iov_count = 1,
                                                  .done = note_call,
                                                  .arg = &chain.second};
    drive_post(context->drive, &chain.first.request);
    int result;
    assert_int_equal(task_future_wait(&chain.second.called, TASK_FOREVER, &result), 0);
    assert_int_equal(result, 0);
    assert_false(chain.second.called_early);
}

static void test_chain(void **state)
{
    (void)state;
    run_in_task_everywhere(check_chain, false);
}

/* ---- waiting ----------------------------------------------------------------------------------- */

struct waiting {
    struct context *context;
    int timed_out;
    int result;
    bool cancelled;
};

static void wait_cancelled(void *arg)
{
    struct waiting *waiting = arg;
    uint8_t memory[512];
    struct iovec vector = {memory, sizeof(memory)};
    struct drive_request request = {.op = DRIVE_READ, .iov = &vector, .iov_count = 1, .region = -1};
    drive_post(waiting->context->drive, &request);
    waiting->timed_out = drive_wait(&request, task_now() + 1000);
    waiting->result = drive_wait(&request, task_now() + 3600 * BASE_NS_PER_SECOND);
    waiting->cancelled = task_cancelled();
}

static void check_waiting(struct context *context)
{
    struct waiting waiting = {.context = context};
    struct task_group group;
    task_group_init(&group);
    context->fake.hold = true;
    assert_int_equal(task_spawn(NULL, &group, "waiting", wait_cancelled, &waiting), 0);
    while (waiting.timed_out == 0)
        task_yield();
    assert_int_equal(waiting.timed_out, -ETIMEDOUT);
    task_group_cancel(&group);
    assert_int_equal(task_group_join(&group, task_now() + BASE_NS_PER_MS),
                     -ETIMEDOUT); /* the drive has the memory */
    fake_release(&context->fake);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    assert_int_equal(waiting.result, 0);
    assert_true(waiting.cancelled);
}

static void test_waiting(void **state)
{
    (void)state;
    run_in_task_everywhere(check_waiting, false);
}

/* ---- flushes ----------------------------------------------------------------------------------- */

#define FLUSHERS 12

struct flusher {
    struct context *context;
    int result;
};

static void flush_once(void *arg)
{
    struct flusher *flusher = arg;
    flusher->result = drive_flush(flusher->context->drive);
}

static void *flush_in_thread(void *arg)
{
    flush_once(arg);
    return NULL;
}

static unsigned flushes_waiting(struct drive *drive)
{
    unsigned count = 0;
    base_spin_lock(&drive->flushes.lock);
    base_list_for_each(item, &drive->flushes.waiting)
        count++;
    base_spin_unlock(&drive->flushes.lock);
    return count;
}

/*
 * One flush is held by the provider; tasks of all schedulers and threads flush meanwhile.
 *
 * @return the results, the held one's first
 */
static void flush_together(struct context *context, int results[FLUSHERS])
{
    struct flusher flushers[FLUSHERS];
    pthread_t threads[FLUSHERS];
    struct task_group group;
    task_group_init(&group);
    context->fake.hold = true;
    for (int i = 0; i < FLUSHERS; i++) {
        flushers[i] = (struct flusher){.context = context};
        if (i % 4 == 3)
            assert_int_equal(pthread_create(&threads[i], NULL, flush_in_thread, &flushers[i]), 0);
        else
            assert_int_equal(task_spawn(context->scheds[i % 3], &group, "flusher", flush_once, &flushers[i]),
                             0);
        while (i == 0 && fake_held(&context->fake) == 0)
            task_yield();
    }
    while (flushes_waiting(context->drive) < FLUSHERS - 1)
        task_yield();
    assert_int_equal(context->fake.flushes, context->count);
    fake_release(&context->fake);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    for (int i = 0; i < FLUSHERS; i++) {
        if (i % 4 == 3)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        results[i] = flushers[i].result;
    }
}

static void check_shared_flush(struct context *context)
{
    int results[FLUSHERS];
    flush_together(context, results);
    for (int i = 0; i < FLUSHERS; i++)
        assert_int_equal(results[i], 0);
    assert_int_equal(context->fake.flushes, 2 * context->count); /* the held one, and one for all others */
}

static void test_shared_flush(void **state)
{
    (void)state;
    run_in_task_everywhere(check_shared_flush, false);
}

static void check_failed(struct context *context, uint64_t posts)
{
    uint8_t memory[512] = {0};
    struct drive *drive = context->drive;
    assert_true(drive_failed(drive));
    assert_int_equal(drive_write(drive, 0, memory, sizeof(memory), false), -EROFS);
    assert_int_equal(drive_write(drive, 0, memory, sizeof(memory), true), -EROFS);
    assert_int_equal(drive_flush(drive), -EROFS);
    assert_int_equal(context->fake.posts, posts); /* nothing is tried again */
    assert_int_equal(drive_read(drive, 0, memory, sizeof(memory)), 0);
    assert_int_equal(testing_log_count(&context->log),
                     context->count == 1 ? 1 : 2); /* the member, and the whole */
}

/* None that waited while the first one failed may be told that its data is safe. */
static void check_shared_failure(struct context *context)
{
    int results[FLUSHERS];
    context->fake.fail_at = 1;
    flush_together(context, results);
    assert_int_equal(results[0], -EIO);
    for (int i = 1; i < FLUSHERS; i++)
        assert_int_equal(results[i], -EROFS);
    assert_int_equal(context->fake.flushes, context->count);
    check_failed(context, context->count);
}

static void test_shared_failure(void **state)
{
    (void)state;
    run_in_task_everywhere(check_shared_failure, false);
}

static void check_failed_flush(struct context *context)
{
    context->fake.fail_at = 1;
    assert_int_equal(drive_flush(context->drive), -EIO);
    check_failed(context, context->count);
}

static void check_failed_durable_write(struct context *context)
{
    uint8_t memory[512] = {0};
    context->fake.fail_at = 1;
    assert_int_equal(drive_write(context->drive, 0, memory, sizeof(memory), true), -EIO);
    check_failed(context, 1);
}

static void check_failed_plain_requests(struct context *context)
{
    uint8_t memory[512] = {0};
    context->fake.fail_at = 1;
    assert_int_equal(drive_write(context->drive, 0, memory, sizeof(memory), false), -EIO);
    context->fake.fail_at = 1;
    context->fake.error = -ENOSPC;
    assert_int_equal(drive_write(context->drive, 0, memory, sizeof(memory), false), -ENOSPC);
    context->fake.fail_at = 1;
    assert_int_equal(drive_read(context->drive, 0, memory, sizeof(memory)), -ENOSPC);
    assert_false(drive_failed(context->drive));
    assert_int_equal(drive_flush(context->drive), 0);
    assert_int_equal(testing_log_count(&context->log), 0);
}

static void test_failures(void **state)
{
    (void)state;
    run_both_everywhere(check_failed_flush, false);
    run_both_everywhere(check_failed_durable_write, false);
    run_both_everywhere(check_failed_plain_requests, false);
}

/* What was in flight when the drive failed and comes back good is not trusted, unless it promised nothing. */
static void check_failure_in_flight(struct context *context)
{
    uint8_t memory[512] = {0};
    struct iovec vectors[2] = {{memory, 512}, {memory, 512}};
    struct drive_request durable = {
        .op = DRIVE_WRITE, .durable = true, .iov = &vectors[0], .iov_count = 1, .region = -1};
    struct drive_request plain = {.op = DRIVE_WRITE, .iov = &vectors[1], .iov_count = 1, .region = -1};
    context->fake.hold = true;
    drive_post(context->drive, &durable);
    drive_post(context->drive, &plain);
    assert_int_equal(fake_held(&context->fake), 2);
    context->fake.hold = false;
    context->fake.fail_at = 1;
    assert_int_equal(drive_flush(context->drive), -EIO);
    fake_release(&context->fake);
    assert_int_equal(drive_wait(&durable, TASK_FOREVER), -EROFS);
    assert_int_equal(drive_wait(&plain, TASK_FOREVER), 0);
}

static void test_failure_in_flight(void **state)
{
    (void)state;
    run_in_task_everywhere(check_failure_in_flight, false);
}

/* ---- lists ------------------------------------------------------------------------------------- */

#define LIST_BUFFERS ((size_t)TASK_IOV_MAX + 7)
#define LIST_BYTES   ((size_t)512)

static void check_lists(struct context *context)
{
    struct base_buffer *buffers = calloc(2 * LIST_BUFFERS, sizeof(*buffers));
    uint8_t *memory = aligned_alloc(BLOCK, base_align_up(LIST_BUFFERS * LIST_BYTES * 2, BLOCK));
    struct base_buffer_list out, in;
    base_buffer_list_init(&out);
    base_buffer_list_init(&in);
    assert_int_equal(drive_read_list(context->drive, 0, &in), -EINVAL);
    for (unsigned i = 0; i < 2 * LIST_BUFFERS; i++) {
        bool writes = i < LIST_BUFFERS;
        base_buffer_wrap(&buffers[i], memory + i * LIST_BYTES, LIST_BYTES);
        buffers[i].region = 7;
        if (writes) {
            drive_testing_fill(buffers[i].data, LIST_BYTES, i * LIST_BYTES, 5);
            buffers[i].end = LIST_BYTES;
        }
        base_buffer_list_append(writes ? &out : &in, &buffers[i]);
    }
    assert_int_equal(drive_write_list(context->drive, 1024, &out, false), 0);
    assert_int_equal(context->fake.region, 7);
    assert_int_equal(context->fake.posts, 2);
    buffers[2 * LIST_BUFFERS - 1].region = -1;
    assert_int_equal(drive_read_list(context->drive, 1024, &in), 0);
    assert_int_equal(context->fake.region, -1);
    assert_int_equal(context->fake.posts, 4);
    assert_int_equal(in.bytes, LIST_BUFFERS * LIST_BYTES);
    assert_memory_equal(memory, memory + LIST_BUFFERS * LIST_BYTES, LIST_BUFFERS * LIST_BYTES);

    /* a failure in the second request leaves the list as it was */
    for (struct base_buffer *buffer = in.head; buffer != NULL; buffer = buffer->next)
        buffer->end = 0;
    in.bytes = 0;
    context->fake.fail_at = 2;
    assert_int_equal(drive_read_list(context->drive, 1024, &in), -EIO);
    assert_int_equal(in.bytes, 0);
    assert_int_equal(in.head->end, 0);
    free(memory);
    free(buffers);
}

static void test_lists(void **state)
{
    (void)state;
    run_both(check_lists, true);
}

/* ---- the n-th request fails, for every n ------------------------------------------------------- */

static int script_step(struct drive *drive, unsigned step, uint8_t *memory)
{
    switch (step) {
    case 0:
        return drive_write(drive, 0, memory, BLOCK, false);
    case 1:
        return drive_flush(drive);
    case 2:
        return drive_write(drive, BLOCK, memory, BLOCK, true);
    case 3:
        return drive_read(drive, 0, memory, BLOCK);
    case 4:
        return drive_write(drive, 0, memory, BLOCK, false);
    default:
        return drive_flush(drive);
    }
}

#define SCRIPT_STEPS 6

static void check_nth_failure(struct context *context)
{
    static const bool fatal[SCRIPT_STEPS] = {[1] = true, [2] = true, [5] = true};
    static const bool reads[SCRIPT_STEPS] = {[3] = true};
    uint8_t memory[BLOCK] = {0};
    for (unsigned n = 0; n < SCRIPT_STEPS; n++) {
        struct drive *drive;
        assert_int_equal(drive_open(context->node, "0", &no_options, &drive), 0);
        context->fake.fail_at = n + 1;
        for (unsigned step = 0; step < SCRIPT_STEPS; step++) {
            int expected = step == n ? -EIO : step > n && fatal[n] && !reads[step] ? -EROFS : 0;
            assert_int_equal(script_step(drive, step, memory), expected);
        }
        assert_true(drive_failed(drive) == fatal[n]);
        context->fake.fail_at = 0;
        drive_close(drive);
    }
}

static void test_nth_failure(void **state)
{
    (void)state;
    run_both(check_nth_failure, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opening),      cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_discards),
        cmocka_unit_test(test_read_only),    cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_chain),        cmocka_unit_test(test_waiting),
        cmocka_unit_test(test_shared_flush), cmocka_unit_test(test_shared_failure),
        cmocka_unit_test(test_failures),     cmocka_unit_test(test_failure_in_flight),
        cmocka_unit_test(test_lists),        cmocka_unit_test(test_nth_failure),
        cmocka_unit_test(test_no_extension),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
