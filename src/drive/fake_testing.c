/* For drive_test.c: drives in memory that fail and wait when told to, and a test on one or two of them in a
 * thread and a task. */
#include "drive/fake_testing.h"

static int fake_open(struct tarn_node *node, void *arg, const char *path, const struct drive_options *options,
                     struct drive_info *ret_info, void **ret_state)
{
    struct fake *fake = arg;
    (void)options;
    if (strcmp(path, "missing") == 0)
        return -ENOENT;
    void *memory = base_alloc(&node->memory, 1); /* something that can fail */
    if (memory == NULL)
        return -ENOMEM;
    base_free(&node->memory, memory, 1);
    *ret_info = (struct drive_info){.provider = "fake",
                                    .bytes = FAKE_BYTES,
                                    .logical_block_bytes = 512,
                                    .physical_block_bytes = BLOCK,
                                    .memory_alignment_bytes = 512,
                                    .direct = fake->direct};
    struct fake_drive *drive = &fake->drives[path[0] == '1'];
    drive->fake = fake;
    *ret_state = drive;
    fake->open++;
    return 0;
}

static void fake_close(void *state)
{
    ((struct fake_drive *)state)->fake->open--;
}

static int32_t fake_run(struct fake_drive *drive, struct drive_request *request)
{
    struct fake *fake = drive->fake;
    fake->posts++;
    if (request->op == DRIVE_FLUSH)
        fake->flushes++;
    uint64_t left = atomic_load(&fake->fail_at);
    if (left > 0) {
        atomic_store(&fake->fail_at, left - 1);
        if (left == 1)
            return fake->error;
    }
    if (request->op != DRIVE_FLUSH)
        fake->region = request->region;
    uint64_t offset = request->offset;
    for (uint32_t i = 0; i < request->iov_count; i++) {
        const struct iovec *vector = &request->iov[i];
        if (request->op == DRIVE_READ)
            memcpy(vector->iov_base, drive->memory + offset, vector->iov_len);
        else
            memcpy(drive->memory + offset, vector->iov_base, vector->iov_len);
        offset += vector->iov_len;
    }
    return 0;
}

static void fake_post(void *state, struct drive_request *request)
{
    struct fake_drive *drive = state;
    struct fake *fake = drive->fake;
    base_spin_lock(&fake->lock);
    int32_t result = fake_run(drive, request);
    bool held = fake->hold && request->sched != NULL;
    if (held) {
        assert_true(fake->held_count < HELD_MAX);
        fake->held[fake->held_count++] = (struct held){.request = request, .result = result};
    }
    base_spin_unlock(&fake->lock);
    if (!held)
        drive_finish_now(request, result);
}

static void run_held(struct task_message *message)
{
    struct held *held = base_container_of(message, struct held, message);
    drive_finish(held->request, held->result);
}

void fake_release(struct fake *fake)
{
    base_spin_lock(&fake->lock);
    fake->hold = false;
    unsigned count = fake->held_count;
    base_spin_unlock(&fake->lock);
    for (unsigned i = 0; i < count; i++) {
        fake->held[i].message.run = run_held;
        assert_true(task_sched_post(fake->held[i].request->sched, &fake->held[i].message));
    }
}

unsigned fake_held(struct fake *fake)
{
    base_spin_lock(&fake->lock);
    unsigned count = fake->held_count;
    base_spin_unlock(&fake->lock);
    return count;
}

const struct drive_provider fake_provider = {
    .name = "fake", .open = fake_open, .close = fake_close, .post = fake_post};

static struct task_node_options fake_options(struct fake *fake, struct testing_log *log)
{
    struct task_node_options options = testing_options(log);
    options.drives = &fake_provider;
    options.drives_arg = fake;
    return options;
}

const struct drive_options no_options;

/* ---- one test, in a thread and in a task ------------------------------------------------------- */

static void with_drive(struct context *context)
{
    static const struct drive_options make = {.make_stripe = true};
    const char *path = context->count == 1 ? "0" : "0,1";
    assert_int_equal(drive_open(context->node, path, &make, &context->drive), 0);
    assert_int_equal(drive_establish(context->drive), 0);
    context->fake.posts = 0;
    context->test(context);
    drive_close(context->drive);
    assert_int_equal(context->fake.open, 0);
}

static void in_task(void *arg)
{
    struct task_testing *testing = arg;
    struct context *context = testing->arg;
    context->node = testing->node;
    context->scheds = testing->scheds;
    with_drive(context);
}

static struct context *make_context(void (*test)(struct context *), bool direct)
{
    struct context *context = calloc(1, sizeof(*context));
    assert_non_null(context);
    context->test = test;
    context->fake.direct = direct;
    context->fake.error = -EIO;
    context->log.text = "event=\"drive failed\"";
    return context;
}

static void run_in_task_on(void (*test)(struct context *), bool direct, uint32_t count)
{
    struct context *context = make_context(test, direct);
    context->count = count;
    struct task_node_options options = fake_options(&context->fake, &context->log);
    task_testing_run(&options, NULL, in_task, context);
    free(context);
}

static void run_in_thread_on(void (*test)(struct context *), bool direct, uint32_t count)
{
    struct context *context = make_context(test, direct);
    context->count = count;
    struct task_node_options options = fake_options(&context->fake, &context->log);
    assert_int_equal(task_node_open(&options, &context->node), 0);
    with_drive(context);
    task_node_close(context->node);
    free(context);
}

void run_both(void (*test)(struct context *), bool direct)
{
    run_in_thread_on(test, direct, 1);
    run_in_task_on(test, direct, 1);
}

void run_both_everywhere(void (*test)(struct context *), bool direct)
{
    run_both(test, direct);
    run_in_thread_on(test, direct, 2);
    run_in_task_on(test, direct, 2);
}

void run_in_task_everywhere(void (*test)(struct context *), bool direct)
{
    run_in_task_on(test, direct, 1);
    run_in_task_on(test, direct, 2);
}
