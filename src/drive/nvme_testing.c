/* For nvme_test.c: what the provider does on a device. */
#include "drive/nvme_testing.h"

/* Run a test in a task, and in a plain thread. */
static void nvme_testing_both(struct device *device, const char *expected_line, unsigned expected_count,
                              task_function *function)
{
    for (int i = 0; i < 2; i++) {
        struct testing_log log = {.text = expected_line};
        struct task_node_options options = testing_options(&log);
        if (i == 0) {
            task_testing_run(&options, NULL, function, device);
        } else {
            struct task_testing in_thread = {.node = testing_log_node(&log), .arg = device};
            function(&in_thread);
            task_node_close(in_thread.node);
        }
        assert_int_equal(testing_log_count(&log), expected_count);
    }
}

static struct drive *nvme_testing_open(struct task_testing *testing)
{
    const struct device *device = testing->arg;
    struct drive *drive;
    assert_int_equal(drive_open(testing->node, device->path, &(struct drive_options){0}, &drive), 0);
    return drive;
}

/* ---- what it says of itself ---------------------------------------------------------------------- */

/* The block layer has asked the same device, and says the same. */
static void check_description(void *arg)
{
    struct task_testing *testing = arg;
    struct device *device = testing->arg;
    struct drive *drive = nvme_testing_open(testing);
    const struct drive_info *info = drive_info(drive);
    uint64_t bytes;
    int logical;
    int fd = open(device->sibling.path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ioctl(fd, BLKGETSIZE64, &bytes), 0);
    assert_int_equal(ioctl(fd, BLKSSZGET, &logical), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(info->bytes, base_align_down(bytes, info->physical_block_bytes));
    assert_int_equal(info->logical_block_bytes, logical);
    assert_int_equal(info->discard, drive_queue_number(&device->sibling.queue, "discard_max_bytes", 0) > 0);
    assert_int_equal(info->write_cache, drive_queue_number(&device->sibling.queue, "fua", 2));
    assert_string_equal(info->provider, "nvme");
    assert_true(info->direct && info->device && info->fua && !info->created);
    drive_close(drive);
}

static void test_description(void **state)
{
    struct device *device = *state;
    char line[64];
    (void)snprintf(line, sizeof(line), "commands=\"%s\"", device->carrier);
    nvme_testing_both(device, line, 1, check_description);
}

/* ---- transfers ------------------------------------------------------------------------------------ */

static void transfer_by_nvme(void *arg)
{
    struct task_testing *testing = arg;
    const struct device *device = testing->arg;
    const enum drive_provider_choice choices[] = {DRIVE_PROVIDER_AUTO, DRIVE_PROVIDER_NVME};
    const enum drive_provider_choice others[] = {DRIVE_PROVIDER_URING, DRIVE_PROVIDER_AIO,
                                                 DRIVE_PROVIDER_SYNC};
    struct transfers transfers = {0};
    struct drive_options options = {.create_bytes = 1}; /* ignored for devices */
    for (size_t i = 0; i < 2 * base_array_count(choices); i++) {
        options.provider = choices[i / 2];
        options.direct = i % 2 == 0 ? DRIVE_DIRECT_AUTO : DRIVE_DIRECT_OFF;
        /* closed and opened at once: the rings of other schedulers are gone soon */
        assert_int_equal(drive_open(testing->node, device->path, &options, &transfers.drive), 0);
        assert_string_equal(drive_info(transfers.drive)->provider, "nvme");
        transfer_together(&transfers, testing->scheds);
        drive_close(transfers.drive);
    }
    for (size_t i = 0; i < base_array_count(others); i++) {
        options.provider = others[i];
        assert_int_equal(drive_open(testing->node, device->path, &options, &transfers.drive), -ENOTSUP);
    }
}

/* With schedulers of either engine: the rings are the drive's own. */
static void test_transfers(void **state)
{
    static const enum task_engine_choice engines[] = {TASK_ENGINE_URING, TASK_ENGINE_AIO};
    bool skipped = false;
    for (size_t i = 0; i < base_array_count(engines); i++) {
        struct testing_log log = {.text = "event=\"cannot open drive\""};
        struct task_node_options options = testing_options(&log);
        options.engine_choice = engines[i];
        if (!engine_works(engines[i])) {
            print_message("%s does not work here\n", engine_of(engines[i]));
            skipped = true;
            continue;
        }
        task_testing_run(&options, NULL, transfer_by_nvme, *state);
        assert_int_equal(testing_log_count(&log), 3);
    }
    if (skipped)
        skip();
}

/* Memory of which no two pages lie together in the machine: each is a segment of its own. */
static uint8_t *scattered_pages(size_t bytes)
{
    int fd = memfd_create("scattered", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    uint8_t *memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    for (size_t at = 0; at < bytes;
         at += TRANSFER_PAGE) { /* the first last: what lies together is in reverse */
        const int flags = MAP_SHARED | MAP_FIXED | MAP_POPULATE;
        uint8_t *place = memory + bytes - TRANSFER_PAGE - at;
        assert_ptr_equal(mmap(place, TRANSFER_PAGE, PROT_READ | PROT_WRITE, flags, fd, (off_t)at), place);
    }
    assert_int_equal(close(fd), 0);
    return memory;
}

/* Beyond what a command takes, from memory that is scattered and aligned so and no better, of vectors that
 * are long, short and empty; and what the block device reads then. */
static void check_long_transfers(void *arg)
{
    enum { LONG = 3 << 20, BLOCK_BYTES = 512, ODD = 4 };
    struct task_testing *testing = arg;
    const struct device *device = testing->arg;
    struct drive *drive = nvme_testing_open(testing);
    uint8_t *memory = scattered_pages(LONG + TRANSFER_PAGE), *out = memory + ODD, *in = testing_pages(LONG);
    const uint64_t offset = 7 * (uint64_t)BLOCK_BYTES;
    struct iovec vectors[] = {{out, 512},           {out + 512, 0},        {out + 512, 1 << 20},
                              {out + 1049088, 512}, {out + 1049600, 1024}, {out + 1050624, LONG - 1050624}};
    struct drive_request request = {.op = DRIVE_WRITE,
                                    .durable = true,
                                    .offset = offset,
                                    .iov = vectors,
                                    .iov_count = base_array_count(vectors),
                                    .region = -1};
    drive_testing_fill(memory, LONG + 8, 1, 9);
    drive_post(drive, &request);
    assert_int_equal(drive_wait(&request, TASK_FOREVER), 0);
    assert_int_equal(drive_read(drive, offset, in, LONG), 0);
    assert_memory_equal(in, out, LONG);

    int fd = open(device->sibling.path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    assert_true(fd >= 0);
    for (size_t done = 0; done < LONG; done += 64 << 10) {
        memset(in, 0, 64 << 10);
        assert_int_equal(pread(fd, in, 64 << 10, (off_t)(offset + done)), 64 << 10);
        assert_memory_equal(in, out + done, 64 << 10);
    }
    assert_int_equal(close(fd), 0);
    free(in);
    assert_int_equal(munmap(memory, LONG + TRANSFER_PAGE), 0);
    drive_close(drive);
}

static void test_long_transfers(void **state)
{
    nvme_testing_both(*state, "failed", 0, check_long_transfers);
}

/* More commands than a ring has entries, all posted at once, and requests that wait while some have begun. */
static void check_many(void *arg)
{
    enum { MANY = 700, EACH = 512, LONG_EVERY = 50, LONG_BYTES = 1 << 20 };
    struct task_testing *testing = arg;
    struct drive *drive = nvme_testing_open(testing);
    struct drive_request *requests = calloc(MANY, sizeof(*requests));
    struct iovec *vectors = calloc(MANY, sizeof(*vectors));
    uint8_t *memory =
        testing_pages(base_align_up(MANY / LONG_EVERY * LONG_BYTES + MANY * EACH, TRANSFER_PAGE));
    for (int pass = 0; pass < 2; pass++) {
        uint64_t at = 0;
        for (size_t i = 0; i < MANY; i++) {
            size_t bytes = i % LONG_EVERY == 0 ? LONG_BYTES : EACH;
            vectors[i] = (struct iovec){memory + at, bytes};
            if (pass == 0)
                drive_testing_fill(memory + at, bytes, at, 3);
            else
                memset(memory + at, 0, bytes);
            requests[i] = (struct drive_request){.op = pass == 0 ? DRIVE_WRITE : DRIVE_READ,
                                                 .offset = at,
                                                 .iov = &vectors[i],
                                                 .iov_count = 1,
                                                 .region = -1};
            at += bytes;
            drive_post(drive, &requests[i]);
        }
        for (size_t i = 0; i < MANY; i++)
            assert_int_equal(drive_wait(&requests[i], TASK_FOREVER), 0);
        assert_true(testing_filled(memory, at, 0, 3));
    }
    free(memory);
    free(vectors);
    free(requests);
    drive_close(drive);
}

static void test_many(void **state)
{
    nvme_testing_both(*state, "failed", 0, check_many);
}

/* ---- sleeping -------------------------------------------------------------------------------------- */

/* A scheduler sleeps until a completion is signalled; one that polls cannot, and has nothing to be woken by.
 */
static void check_sleep(void *arg)
{
    enum { READS = 100 };
    struct task_testing *testing = arg;
    const struct device *device = testing->arg;
    struct drive *drive = nvme_testing_open(testing);
    struct task_sched_stats before, after;
    uint8_t *memory = testing_pages(TRANSFER_PAGE);
    assert_int_equal(drive_read(drive, 0, memory, TRANSFER_PAGE), 0);
    task_sched_stats(testing->scheds[0], &before);
    for (int i = 0; i < READS; i++)
        assert_int_equal(drive_read(drive, 0, memory, TRANSFER_PAGE), 0);
    task_sched_stats(testing->scheds[0], &after);
    if (strcmp(device->carrier, "uring") == 0)
        assert_true(after.sleeps > before.sleeps + READS / 2);
    else
        assert_int_equal(after.sleeps, before.sleeps);
    free(memory);
    drive_close(drive);
    assert_int_equal(task_sleep(20 * BASE_NS_PER_MS), 0); /* with nothing in flight everyone sleeps */
    task_sched_stats(testing->scheds[0], &before);
    assert_true(before.sleeps > after.sleeps);
}

static void test_sleep(void **state)
{
    static const enum task_engine_choice engines[] = {TASK_ENGINE_URING, TASK_ENGINE_AIO};
    for (size_t i = 0; i < base_array_count(engines); i++) {
        struct task_node_options options = {.log_level = BASE_LOG_ERROR, .engine_choice = engines[i]};
        if (engine_works(engines[i]))
            task_testing_run(&options, NULL, check_sleep, *state);
    }
}

/* ---- discards and failures ------------------------------------------------------------------------- */

/* What was named reads the same each time, and what was not is what it was. */
static void check_discard(void *arg)
{
    struct task_testing *testing = arg;
    struct drive *drive = nvme_testing_open(testing);
    const size_t part = 256 << 10;
    uint8_t *memory = testing_pages(3 * part), *again = testing_pages(3 * part);
    assert_true(drive_info(drive)->discard);
    drive_testing_fill(memory, 3 * part, 0, 4);
    assert_int_equal(drive_write(drive, 0, memory, 3 * part, true), 0);
    assert_int_equal(drive_discard(drive, part, part), 0);
    assert_int_equal(drive_read(drive, 0, memory, 3 * part), 0);
    assert_int_equal(drive_read(drive, 0, again, 3 * part), 0);
    assert_memory_equal(memory, again, 3 * part);
    assert_true(testing_filled(memory, part, 0, 4));
    assert_true(testing_filled(memory + 2 * part, part, 2 * part, 4));
    assert_int_equal(drive_discard(drive, 0, drive_info(drive)->bytes), 0);
    struct nvme_drive *state = drive->state; /* as a device that takes little at once */
    state->ns.discard_blocks_max = 3;
    assert_int_equal(drive_discard(drive, 0, 100 * (uint64_t)drive_info(drive)->logical_block_bytes), 0);
    assert_int_equal(drive_flush(drive), 0);
    free(memory);
    free(again);
    drive_close(drive);
}

static void test_discard(void **state)
{
    nvme_testing_both(*state, "failed", 0, check_discard);
}

/* What the device fails: here blocks beyond its end. A failed durable write is the end of the drive. */
static void check_failures(void *arg)
{
    struct task_testing *testing = arg;
    struct drive *drive = nvme_testing_open(testing);
    uint64_t end = drive_bytes(drive);
    uint8_t *memory = testing_pages(1 << 20);
    memset(memory, 0, 1 << 20);
    atomic_fetch_add(&drive->bytes, 16 << 20);
    assert_int_equal(drive_read(drive, end, memory, 4096), -EIO);
    assert_int_equal(drive_read(drive, end - 4096, memory, 1 << 20), -EIO); /* the first command is good */
    assert_int_equal(drive_write(drive, end, memory, 1 << 20, false), -EIO);
    assert_false(drive_failed(drive));
    assert_int_equal(drive_flush(drive), 0);
    assert_int_equal(drive_write(drive, end, memory, 4096, true), -EIO);
    assert_true(drive_failed(drive));
    assert_int_equal(drive_flush(drive), -EROFS);
    assert_int_equal(drive_read(drive, 0, memory, 4096), 0);
    free(memory);
    drive_close(drive);
}

static void test_failures(void **state)
{
    nvme_testing_both(*state, "event=\"nvme command failed\"", 4, check_failures);
    nvme_testing_both(*state, "status_type=0 status_code=0x80 error=\"beyond the end of the namespace\"", 4,
                      check_failures);
}

/* The device is asked for its size again: here after it was taken for smaller. */
static void check_extend(void *arg)
{
    struct task_testing *testing = arg;
    struct drive *drive = nvme_testing_open(testing);
    const uint64_t bytes = drive_bytes(drive);
    uint64_t now;
    assert_int_equal(drive_extend(drive, &now), 0);
    assert_int_equal(now, bytes);
    atomic_store(&drive->bytes, bytes / 2);
    assert_int_equal(drive_extend(drive, &now), 0);
    assert_int_equal(now, bytes);
    assert_int_equal(drive_bytes(drive), bytes);
    drive_close(drive);
}

static void test_extend(void **state)
{
    nvme_testing_both(*state, "event=\"drive larger\"", 1, check_extend);
}

static void check_read_only(void *arg)
{
    struct task_testing *testing = arg;
    const struct device *device = testing->arg;
    const struct drive_options options = {.read_only = true};
    struct drive *drive;
    uint8_t *memory = testing_pages(TRANSFER_PAGE);
    assert_int_equal(drive_open(testing->node, device->path, &options, &drive), 0);
    assert_int_equal(drive_read(drive, 0, memory, TRANSFER_PAGE), 0);
    assert_int_equal(drive_write(drive, 0, memory, TRANSFER_PAGE, false), -EROFS);
    assert_int_equal(drive_flush(drive), -EROFS);
    assert_int_equal(drive_discard(drive, 0, TRANSFER_PAGE), -EOPNOTSUPP);
    free(memory);
    drive_close(drive);
}

static void test_read_only(void **state)
{
    nvme_testing_both(*state, "failed", 0, check_read_only);
}

/* ---- locks ------------------------------------------------------------------------------------------- */

/* Whoever holds either node keeps others from both. */
static void test_locks(void **state)
{
    struct device *device = *state;
    struct testing_log log = {.text = "another process has it open"};
    struct tarn_node *node = testing_log_node(&log);
    const struct drive_options impatient = {.lock_wait_ns = 1};
    const char *const paths[] = {device->path, device->sibling.path};
    struct drive *drive, *second;
    for (size_t i = 0; i < base_array_count(paths); i++) {
        assert_int_equal(drive_open(node, paths[i], &impatient, &drive), 0);
        for (size_t j = 0; j < base_array_count(paths); j++)
            assert_int_equal(drive_open(node, paths[j], &impatient, &second), -EBUSY);
        drive_close(drive);
    }
    char twice[2 * NVME_NAME_BYTES + 2];
    (void)snprintf(twice, sizeof(twice), "%s,%s", device->path, device->sibling.path);
    assert_int_equal(drive_open(node, twice, &(struct drive_options){.make_stripe = true}, &drive), -EINVAL);
    int fd = open(device->sibling.path, O_RDONLY | O_EXCL | O_CLOEXEC); /* as a mount holds it */
    assert_true(fd >= 0);
    assert_int_equal(drive_open(node, device->path, &impatient, &drive), -EBUSY);
    assert_int_equal(close(fd), 0);
    assert_int_equal(drive_open(node, device->path, &impatient, &drive), 0);
    drive_close(drive);
    task_node_close(node);
}

static void test_killed_writer(void **state)
{
    struct device *device = *state;
    struct testing_log log = {.text = "event=\"cannot open drive\""};
    struct tarn_node *node = testing_log_node(&log);
    transfer_kill_writers(node, device->path);
    task_node_close(node);
}

static void read_once(void *arg)
{
    struct ended *ended = arg;
    uint8_t *memory = testing_pages(TRANSFER_PAGE);
    assert_int_equal(drive_read(ended->drive, 0, memory, TRANSFER_PAGE), 0);
    free(memory);
    if (ended->close)
        drive_close(ended->drive);
    task_sched_stop(ended->sched);
}

static void test_ended_scheduler(void **state)
{
    struct ended ended = {.device = *state};
    struct testing_log log = {.text = "event=\"cannot open drive\""};
    struct tarn_node *node = testing_log_node(&log);
    for (int i = 0; i < 3; i++) { /* closed by its task; after its end; after it is gone */
        ended.close = i == 0;
        assert_int_equal(task_sched_open(node, NULL, &ended.sched), 0);
        assert_int_equal(drive_open(node, ended.device->path, &transfer_mib, &ended.drive), 0);
        assert_int_equal(task_spawn(ended.sched, NULL, "reader", read_once, &ended), 0);
        task_sched_run(ended.sched);
        if (i == 1)
            drive_close(ended.drive);
        task_sched_close(ended.sched);
        if (i == 2)
            drive_close(ended.drive);
    }
    task_node_close(node);
}

int nvme_testing_device(char *path, const char *carrier)
{
    struct device device = {.path = path, .carrier = carrier};
    struct testing_log log = {.text = "none"};
    struct tarn_node *node = testing_log_node(&log);
    int error = nvme_find_sibling(node, path, &device.sibling);
    task_node_close(node);
    if (error != 0) {
        (void)fprintf(stderr, "%s: no namespace to test on\n", path);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_description, &device),
        cmocka_unit_test_prestate(test_transfers, &device),
        cmocka_unit_test_prestate(test_long_transfers, &device),
        cmocka_unit_test_prestate(test_many, &device),
        cmocka_unit_test_prestate(test_sleep, &device),
        cmocka_unit_test_prestate(test_discard, &device),
        cmocka_unit_test_prestate(test_failures, &device),
        cmocka_unit_test_prestate(test_extend, &device),
        cmocka_unit_test_prestate(test_read_only, &device),
        cmocka_unit_test_prestate(test_locks, &device),
        cmocka_unit_test_prestate(test_killed_writer, &device),
        cmocka_unit_test_prestate(test_ended_scheduler, &device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
