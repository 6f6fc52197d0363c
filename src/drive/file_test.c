/* Files and block devices: what is refused and why, locks, making, direct I/O, providers, transfers. */
#include "drive/testing.h"
#include <dirent.h>
#include <linux/loop.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#define MIB  (UINT64_C(1) << 20)
#define PAGE ((size_t)BASE_PAGE_BYTES)

static const struct drive_options make_mib = {.create_bytes = MIB};
static const struct drive_options as_it_is;

static const char *const places[] = {".", "/dev/shm"};

/* Call a test for each file system there is. */
static void in_each_place(void (*test)(struct testing_folder *folder))
{
    for (size_t i = 0; i < base_array_count(places); i++) {
        struct testing_folder folder;
        if (!testing_folder_make(&folder, places[i])) {
            print_message("skipped in %s: %s\n", places[i], strerror(errno));
            continue;
        }
        test(&folder);
        testing_folder_remove(&folder);
    }
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    (void)closedir(folder);
    return count;
}

static void make_file(const char *path, uint64_t bytes)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(close(fd), 0);
}

static void *page_memory(size_t bytes)
{
    void *memory = aligned_alloc(PAGE, bytes);
    assert_non_null(memory);
    return memory;
}

/* ---- making ------------------------------------------------------------------------------------ */

static void making(struct testing_folder *folder)
{
    char path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "event=\"drive open\""};
    struct tarn_node *node = testing_node(&log);
    struct drive *drive;
    struct drive_options options = {.create_bytes = MIB + 1};
    (void)testing_path(folder, "made", path);
    assert_int_equal(drive_open(node, path, &as_it_is, &drive), -ENOENT);
    assert_int_equal(drive_open(node, path, &options, &drive), 0);
    assert_true(drive_info(drive)->created);
    assert_false(drive_info(drive)->device);
    assert_int_equal(drive_info(drive)->bytes, MIB + PAGE);
    assert_string_equal(drive_name(drive), path);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, MIB + PAGE);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_true((uint64_t)status.st_blocks * 512 >= MIB + PAGE); /* reserved, not sparse */
    uint8_t *memory = page_memory(PAGE);
    memset(memory, 1, PAGE);
    assert_int_equal(drive_read(drive, MIB, memory, PAGE), 0);
    for (size_t i = 0; i < PAGE; i++)
        assert_int_equal(memory[i], 0);
    free(memory);
    drive_close(drive);

    options.create_bytes = 2 * MIB; /* what is there stays as it is */
    assert_int_equal(drive_open(node, path, &options, &drive), 0);
    assert_false(drive_info(drive)->created);
    assert_int_equal(drive_info(drive)->bytes, MIB + PAGE);
    drive_close(drive);
    assert_int_equal(testing_log_count(&log), 2);
    task_node_close(node);
    assert_int_equal(unlink(path), 0);
}

static void test_making(void **state)
{
    (void)state;
    in_each_place(making);
}

/* In the current folder, without a slash in the path: its folder is synced all the same. */
static void test_bare_name(void **state)
{
    (void)state;
    static const char name[] = "drive-test-bare-name";
    struct testing_log log = {.text = "event=\"cannot"};
    struct tarn_node *node = testing_node(&log);
    struct drive *drive;
    (void)unlink(name);
    assert_int_equal(drive_open(node, name, &make_mib, &drive), 0);
    drive_close(drive);
    task_node_close(node);
    assert_int_equal(unlink(name), 0);
}

/* A crash after the reservation, before the size was given: the next opening makes it. */
static void half_made(struct testing_folder *folder)
{
    char path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "event=\"cannot"};
    struct tarn_node *node = testing_node(&log);
    struct drive *drive;
    (void)testing_path(folder, "half", path);
    make_file(path, 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    (void)fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, MIB / 2);
    assert_int_equal(close(fd), 0);
    assert_int_equal(drive_open(node, path, &as_it_is, &drive), -EINVAL);
    struct drive_options read_only = {.create_bytes = MIB, .read_only = true};
    assert_int_equal(drive_open(node, path, &read_only, &drive), -EINVAL);
    assert_int_equal(drive_open(node, path, &make_mib, &drive), 0);
    assert_true(drive_info(drive)->created);
    assert_int_equal(drive_info(drive)->bytes, MIB);
    drive_close(drive);
    task_node_close(node);
    assert_int_equal(unlink(path), 0);
}

static void test_half_made(void **state)
{
    (void)state;
    in_each_place(half_made);
}

/* ---- refusals ---------------------------------------------------------------------------------- */

static void expect_refusal(struct tarn_node *node, struct testing_log *log, const char *path,
                           const struct drive_options *options, int error)
{
    struct drive *drive = NULL;
    unsigned before = testing_log_count(log);
    int result = drive_open(node, path, options, &drive);
    if (error == -EFBIG && result == -ENOSPC)
        result = error; /* which of the two depends on the file system */
    assert_int_equal(result, error);
    assert_null(drive);
    assert_int_equal(testing_log_count(log), before + 1);
    assert_non_null(strstr(log->last, "reason=\""));
}

static void refusals(struct testing_folder *folder)
{
    char path[TESTING_PATH_BYTES], inner[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "event=\"cannot open drive\""};
    struct tarn_node *node = testing_node(&log);
    struct drive_options options = make_mib;
    unsigned descriptors = open_descriptors();

    expect_refusal(node, &log, folder->path, &options, -EISDIR);
    expect_refusal(node, &log, "/dev/null", &options, -ENOTSUP);
    expect_refusal(node, &log, "", &options, -ENOENT);
    expect_refusal(node, &log, testing_path(folder, "missing/file", path), &options, -ENOENT);
    options.read_only = true;
    expect_refusal(node, &log, testing_path(folder, "missing", path), &options, -ENOENT);
    options.read_only = false;

    (void)testing_path(folder, "fifo", path);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal(node, &log, path, &options, -ENOTSUP);
    assert_int_equal(unlink(path), 0);

    (void)testing_path(folder, "link", path);
    assert_int_equal(symlink("nothing", path), 0);
    expect_refusal(node, &log, path, &options, -EEXIST);
    assert_int_equal(unlink(path), 0);

    (void)testing_path(folder, "small", path);
    make_file(path, DRIVE_BYTES_MIN - 1);
    expect_refusal(node, &log, path, &options, -EINVAL);
    expect_refusal(node, &log, testing_path(folder, "small/file", inner), &options, -ENOTDIR);
    assert_int_equal(truncate(path, 0), 0);
    expect_refusal(node, &log, path, &as_it_is, -EINVAL);
    assert_int_equal(unlink(path), 0);

    /* sizes that cannot be: nothing is left behind, the folder is removed as empty */
    (void)testing_path(folder, "sizes", path);
    static const uint64_t sizes[] = {1, DRIVE_BYTES_MIN - 1, UINT64_MAX, INT64_MAX};
    for (size_t i = 0; i < base_array_count(sizes); i++) {
        options.create_bytes = sizes[i];
        expect_refusal(node, &log, path, &options, -EINVAL);
        assert_int_equal(access(path, F_OK), -1);
    }
    options.create_bytes = UINT64_C(1) << 61;
    expect_refusal(node, &log, path, &options, -EFBIG);
    assert_int_equal(access(path, F_OK), -1);

    assert_int_equal(open_descriptors(), descriptors);
    task_node_close(node);
}

static void test_refusals(void **state)
{
    (void)state;
    in_each_place(refusals);
}

static void test_smallest(void **state)
{
    (void)state;
    struct testing_folder folder;
    char path[TESTING_PATH_BYTES];
    assert_true(testing_folder_make(&folder, "."));
    (void)testing_path(&folder, "smallest", path);
    make_file(path, DRIVE_BYTES_MIN + 1000);
    struct testing_log log = {.text = "event=\"cannot"};
    struct tarn_node *node = testing_node(&log);
    struct drive *drive;
    assert_int_equal(drive_open(node, path, &as_it_is, &drive), 0);
    assert_int_equal(drive_info(drive)->bytes, DRIVE_BYTES_MIN); /* whole blocks only */
    drive_close(drive);
    task_node_close(node);
    assert_int_equal(unlink(path), 0);
    testing_folder_remove(&folder);
}

static void test_permissions(void **state)
{
    (void)state;
    if (geteuid() == 0) {
        print_message("skipped: root may do everything\n");
        return;
    }
    struct testing_folder folder;
    char path[TESTING_PATH_BYTES];
    assert_true(testing_folder_make(&folder, "."));
    (void)testing_path(&folder, "closed", path);
    make_file(path, MIB);
    assert_int_equal(chmod(path, 0400), 0);
    struct testing_log log = {.text = "event=\"cannot open drive\""};
    struct tarn_node *node = testing_node(&log);
    expect_refusal(node, &log, path, &as_it_is, -EACCES);
    task_node_close(node);
    assert_int_equal(unlink(path), 0);
    testing_folder_remove(&folder);
}

/* ---- locks ------------------------------------------------------------------------------------- */

static void locks(struct testing_folder *folder)
{
    static const struct drive_options read_only = {.read_only = true};
    char path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "event=\"cannot open drive\""};
    struct tarn_node *node = testing_node(&log);
    struct drive *first, *second;
    (void)testing_path(folder, "locked", path);
    assert_int_equal(drive_open(node, path, &make_mib, &first), 0);
    expect_refusal(node, &log, path, &as_it_is, -EBUSY);
    expect_refusal(node, &log, path, &read_only, -EBUSY);
    drive_close(first);

    assert_int_equal(drive_open(node, path, &read_only, &first), 0);
    assert_int_equal(drive_open(node, path, &read_only, &second), 0); /* readers share */
    drive_close(second);
    expect_refusal(node, &log, path, &as_it_is, -EBUSY);
    drive_close(first);
    assert_int_equal(drive_open(node, path, &as_it_is, &first), 0);
    drive_close(first);
    task_node_close(node);
    assert_int_equal(unlink(path), 0);
}

static void test_locks(void **state)
{
    (void)state;
    in_each_place(locks);
}

/* Another process has the lock; when it is killed the opener that waits gets it. */
static void killed(struct testing_folder *folder)
{
    char path[TESTING_PATH_BYTES];
    int ready[2];
    (void)testing_path(folder, "killed", path);
    make_file(path, MIB);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int fd = open(path, O_RDWR | O_CLOEXEC);
        char locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
        (void)!write(ready[1], &locked, 1);
        for (;;)
            (void)pause();
    }
    char locked = 0;
    assert_int_equal(read(ready[0], &locked, 1), 1);
    assert_int_equal(locked, 1);
    struct testing_log log = {.text = "event=\"cannot open drive\""};
    struct tarn_node *node = testing_node(&log);
    struct drive *drive;
    assert_int_equal(drive_open(node, path, &as_it_is, &drive), -EBUSY);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(drive_open(node, path, &as_it_is, &drive), 0);
    drive_close(drive);
    task_node_close(node);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(close(ready[0]), 0);
    assert_int_equal(close(ready[1]), 0);
    assert_int_equal(unlink(path), 0);
}

static void test_killed(void **state)
{
    (void)state;
    in_each_place(killed);
}

struct late_opener {
    struct tarn_node *node;
    const char *path;
    int result;
};

static void *open_late(void *arg)
{
    struct late_opener *opener = arg;
    struct drive *drive;
    opener->result = drive_open(opener->node, opener->path, &as_it_is, &drive);
    return NULL;
}

/* Who waited for the lock of a file that was removed meanwhile must not get a drive without a name. */
static void removed(struct testing_folder *folder)
{
    char path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "event=\"cannot open drive\""};
    struct tarn_node *node = testing_node(&log);
    struct drive *drive;
    pthread_t thread;
    (void)testing_path(folder, "removed", path);
    assert_int_equal(drive_open(node, path, &make_mib, &drive), 0);
    struct late_opener opener = {.node = node, .path = path};
    assert_int_equal(pthread_create(&thread, NULL, open_late, &opener), 0);
    assert_int_equal(task_sleep(50 * BASE_NS_PER_MS), 0);
    assert_int_equal(unlink(path), 0);
    drive_close(drive);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(opener.result == -EBUSY || opener.result == -ENOENT); /* whether it came before or after */
    task_node_close(node);
}

static void test_removed(void **state)
{
    (void)state;
    in_each_place(removed);
}

/* ---- direct I/O -------------------------------------------------------------------------------- */

static void direct(struct testing_folder *folder)
{
    char path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "event=\"no direct I/O"};
    struct tarn_node *node = testing_node(&log);
    struct drive *drive;
    uint8_t *memory = page_memory(2 * PAGE);
    memset(memory, 3, 2 * PAGE);
    (void)testing_path(folder, "direct", path);
    struct drive_options options = make_mib;
    assert_int_equal(drive_open(node, path, &options, &drive), 0);
    const struct drive_info *info = drive_info(drive);
    bool possible = info->direct;
    assert_int_equal(testing_log_count(&log), possible ? 0 : 1);
    assert_true(info->write_cache);
    assert_true(info->physical_block_bytes >= PAGE);
    if (possible) {
        uint32_t block = info->logical_block_bytes;
        assert_true(block >= 512 && info->memory_alignment_bytes >= 1);
        assert_int_equal(drive_write(drive, block, memory, block, true), 0);
        assert_int_equal(drive_read(drive, block, memory, 2 * block), 0);
        assert_int_equal(drive_read(drive, block / 2, memory, block), -EINVAL);
        assert_int_equal(drive_read(drive, block, memory, block / 2), -EINVAL);
        if (info->memory_alignment_bytes > 1)
            assert_int_equal(drive_read(drive, block, memory + 1, block), -EINVAL);
        /* what was promised to work works */
        assert_int_equal(drive_read(drive, block, memory + info->memory_alignment_bytes, block), 0);
    } else {
        assert_int_equal(info->memory_alignment_bytes, 1);
        assert_int_equal(drive_read(drive, 1, memory + 1, 1), 0);
    }
    drive_close(drive);

    options.direct = DRIVE_DIRECT_ON;
    assert_int_equal(drive_open(node, path, &options, &drive), possible ? 0 : -ENOTSUP);
    if (possible) {
        assert_true(drive_info(drive)->direct);
        drive_close(drive);
    }
    options.direct = DRIVE_DIRECT_OFF;
    assert_int_equal(drive_open(node, path, &options, &drive), 0);
    assert_false(drive_info(drive)->direct);
    assert_false(drive_info(drive)->fua);
    assert_int_equal(drive_write(drive, 12345, memory + 1, 777, true), 0);
    memset(memory, 0, PAGE);
    assert_int_equal(drive_read(drive, 12345, memory + 3, 777), 0);
    assert_int_equal(memory[3 + 776], 3);
    drive_close(drive);
    task_node_close(node);
    free(memory);
    assert_int_equal(unlink(path), 0);
}

static void test_direct(void **state)
{
    (void)state;
    in_each_place(direct);
}

/* A file without direct I/O that is refused is not left behind. */
static void test_direct_on_where_there_is_none(void **state)
{
    (void)state;
    static const struct drive_options options = {.create_bytes = MIB, .direct = DRIVE_DIRECT_ON};
    struct testing_folder folder;
    char path[TESTING_PATH_BYTES];
    if (!testing_folder_make(&folder, "/dev/shm"))
        return;
    struct testing_log log = {.text = "event=\"cannot"};
    struct tarn_node *node = testing_node(&log);
    struct drive *drive;
    int error = drive_open(node, testing_path(&folder, "direct", path), &options, &drive);
    if (error == 0) {
        print_message("skipped: tmpfs has direct I/O here\n");
        drive_close(drive);
        assert_int_equal(unlink(path), 0);
    } else {
        assert_int_equal(error, -ENOTSUP);
    }
    task_node_close(node);
    testing_folder_remove(&folder);
}

/* ---- transfers by every provider --------------------------------------------------------------- */

#define REQUESTS 64
#define WORKERS  6

struct transfers {
    struct drive *drive;
    struct testing_folder *folder;
    enum task_engine_choice engine;
    _Atomic unsigned failures;
};

struct worker {
    struct transfers *transfers;
    uint64_t number;
};

/* Many requests at once over a part of its own, of two vectors each, then all of it in one list. */
static void transfer(void *arg)
{
    struct worker *worker = arg;
    struct drive *drive = worker->transfers->drive;
    struct drive_request *requests = calloc(REQUESTS, sizeof(*requests));
    struct iovec *vectors = calloc(REQUESTS, 2 * sizeof(*vectors));
    uint8_t *memory = page_memory(2 * REQUESTS * PAGE);
    uint64_t base = worker->number * REQUESTS * 2 * PAGE;
    unsigned failures = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (unsigned i = 0; i < REQUESTS; i++) {
            uint8_t *to = memory + 2 * i * PAGE;
            uint64_t offset = base + 2 * i * PAGE;
            if (pass == 0)
                testing_fill(to, 2 * PAGE, offset, worker->number);
            else
                memset(to, 0, 2 * PAGE);
            vectors[2 * i] = (struct iovec){to, PAGE / 2};
            vectors[2 * i + 1] = (struct iovec){to + PAGE / 2, 2 * PAGE - PAGE / 2};
            requests[i] = (struct drive_request){.op = pass == 0 ? DRIVE_WRITE : DRIVE_READ,
                                                 .durable = pass == 0 && i % 16 == 0,
                                                 .offset = offset,
                                                 .iov = &vectors[2 * i],
                                                 .iov_count = 2,
                                                 .region = -1};
            drive_post(drive, &requests[i]);
        }
        for (unsigned i = 0; i < REQUESTS; i++)
            failures += drive_wait(&requests[i], TASK_FOREVER) != 0;
        failures += drive_flush(drive) != 0;
    }
    for (unsigned i = 0; i < REQUESTS; i++)
        failures += !testing_filled(memory + 2 * i * PAGE, 2 * PAGE, base + 2 * i * PAGE, worker->number);
    worker->transfers->failures += failures;
    free(memory);
    free(vectors);
    free(requests);
}

static void *transfer_in_thread(void *arg)
{
    transfer(arg);
    return NULL;
}

/* Tasks of all schedulers and a plain thread at once. */
static void transfer_together(struct transfers *transfers, struct task_sched **scheds)
{
    struct worker workers[WORKERS];
    struct task_group group;
    pthread_t thread;
    task_group_init(&group);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.transfers = transfers, .number = i};
        if (i > 0)
            assert_int_equal(
                task_spawn(scheds[i % TASK_TESTING_SCHEDS], &group, "worker", transfer, &workers[i]), 0);
        else
            assert_int_equal(pthread_create(&thread, NULL, transfer_in_thread, &workers[i]), 0);
    }
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(transfers->failures, 0);
}

static const char *engine_of(enum task_engine_choice choice)
{
    return choice == TASK_ENGINE_URING ? "uring" : "aio";
}

static void transfer_with_providers(void *arg)
{
    struct task_testing *testing = arg;
    struct transfers *transfers = testing->arg;
    char path[TESTING_PATH_BYTES];
    bool memory = strncmp(transfers->folder->path, "/dev/shm", 8) == 0;
    const char *engine = engine_of(transfers->engine);
    enum drive_provider_choice own =
        transfers->engine == TASK_ENGINE_URING ? DRIVE_PROVIDER_URING : DRIVE_PROVIDER_AIO;
    enum drive_provider_choice other = own == DRIVE_PROVIDER_AIO ? DRIVE_PROVIDER_URING : DRIVE_PROVIDER_AIO;
    struct {
        enum drive_provider_choice choice;
        const char *name;
    } const providers[] = {
        {DRIVE_PROVIDER_AUTO, memory ? "sync" : engine}, {own, engine}, {DRIVE_PROVIDER_SYNC, "sync"}};
    (void)testing_path(transfers->folder, "transfers", path);
    struct drive_options options = {.create_bytes = WORKERS * REQUESTS * 2 * PAGE};
    for (size_t i = 0; i < 2 * base_array_count(providers); i++) {
        options.provider = providers[i / 2].choice;
        options.direct = i % 2 == 0 ? DRIVE_DIRECT_AUTO : DRIVE_DIRECT_OFF;
        /* closed and opened at once: schedulers that still have the descriptor do no harm */
        assert_int_equal(drive_open(testing->node, path, &options, &transfers->drive), 0);
        assert_string_equal(drive_info(transfers->drive)->provider, providers[i / 2].name);
        transfer_together(transfers, testing->scheds);
        drive_close(transfers->drive);
    }
    options.provider = other;
    assert_int_equal(drive_open(testing->node, path, &options, &transfers->drive), -ENOTSUP);
    assert_int_equal(unlink(path), 0);
}

/* The engine that works here: io_uring may be forbidden. */
static bool engine_works(enum task_engine_choice choice)
{
    struct testing_log log = {.text = "none"};
    struct task_node_options options = testing_options(&log);
    struct tarn_node *node;
    options.engine_choice = choice;
    assert_int_equal(task_node_open(&options, &node), 0);
    bool works = task_engine_choose(node) != NULL;
    task_node_close(node);
    return works;
}

static void with_engines(struct testing_folder *folder)
{
    static const enum task_engine_choice engines[] = {TASK_ENGINE_URING, TASK_ENGINE_AIO};
    for (size_t i = 0; i < base_array_count(engines); i++) {
        struct testing_log log = {.text = "event=\"cannot open drive\""};
        struct task_node_options options = testing_options(&log);
        struct transfers transfers = {.folder = folder, .engine = engines[i]};
        options.engine_choice = engines[i];
        if (!engine_works(engines[i])) {
            print_message("skipped: %s does not work here\n", engine_of(engines[i]));
            continue;
        }
        task_testing_run(&options, NULL, transfer_with_providers, &transfers);
        assert_int_equal(testing_log_count(&log), 1);
    }
}

static void test_transfers(void **state)
{
    (void)state;
    in_each_place(with_engines);
}

/* Without schedulers: the name of the engine that they would have, and the work in the thread. */
static void test_plain_thread(void **state)
{
    (void)state;
    struct testing_folder folder;
    char path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "event=\"drive open\""};
    struct tarn_node *node = testing_node(&log);
    struct drive *drive;
    assert_true(testing_folder_make(&folder, "."));
    (void)testing_path(&folder, "plain", path);
    struct transfers transfers = {.folder = &folder};
    struct worker worker = {.transfers = &transfers};
    assert_int_equal(drive_open(node, path, &make_mib, &drive), 0);
    assert_string_equal(drive_info(drive)->provider, task_engine_choose(node)->name);
    transfers.drive = drive;
    transfer(&worker);
    assert_int_equal(transfers.failures, 0);
    drive_close(drive);
    task_node_close(node);
    assert_int_equal(unlink(path), 0);
    testing_folder_remove(&folder);
}

/* ---- a file that is cut while it is open ------------------------------------------------------- */

static void read_cut_file(void *arg)
{
    struct task_testing *testing = arg;
    struct drive *drive = testing->arg;
    uint8_t *memory = page_memory(2 * PAGE);
    assert_int_equal(drive_read(drive, MIB / 2 - PAGE, memory, 2 * PAGE), -EIO);
    assert_int_equal(drive_read(drive, MIB / 2 - PAGE, memory, PAGE), 0);
    free(memory);
}

struct cut {
    struct testing_folder *folder;
    struct testing_log *log;
};

static void cut_in_task(void *arg)
{
    struct task_testing *testing = arg;
    struct cut *cut = testing->arg;
    char path[TESTING_PATH_BYTES];
    struct drive *drive;
    (void)testing_path(cut->folder, "cut", path);
    assert_int_equal(drive_open(testing->node, path, &make_mib, &drive), 0);
    assert_int_equal(truncate(path, MIB / 2), 0);
    struct task_testing inner = {.arg = drive};
    read_cut_file(&inner);
    assert_int_equal(testing_log_count(cut->log), 1);
    drive_close(drive);
    assert_int_equal(unlink(path), 0);
}

static void cut_file(struct testing_folder *folder)
{
    struct testing_log log = {.text = "event=\"drive request failed\""};
    struct task_node_options options = testing_options(&log);
    struct cut cut = {.folder = folder, .log = &log};
    task_testing_run(&options, NULL, cut_in_task, &cut);
    struct testing_log thread_log = {.text = "event=\"drive request failed\""};
    cut.log = &thread_log;
    struct task_testing in_thread = {.node = testing_node(&thread_log), .arg = &cut};
    cut_in_task(&in_thread);
    task_node_close(in_thread.node);
}

static void test_cut_file(void **state)
{
    (void)state;
    in_each_place(cut_file);
}

/* ---- the n-th allocation fails, for every n ---------------------------------------------------- */

static void failing_allocations(struct testing_folder *folder)
{
    static const struct drive_options options = {.create_bytes = MIB, .zero_ahead = true};
    char path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "none"};
    struct tarn_node *node = testing_node(&log);
    unsigned descriptors = open_descriptors();
    (void)testing_path(folder, "failing", path);
    bool failed = true;
    unsigned refused = 0;
    for (uint64_t n = 1; failed; n++) {
        struct drive *drive;
        assert_true(n < 100);
        base_account_fail_at(&node->memory, n);
        int error = drive_open(node, path, &options, &drive);
        failed = atomic_load(&node->memory.fail_at) == 0;
        base_account_fail_at(&node->memory, 0);
        assert_true(error == 0 || (failed && error == -ENOMEM));
        if (error == 0) {
            drive_close(drive);
            assert_int_equal(unlink(path), 0);
        } else {
            refused++;
        }
        assert_int_equal(access(path, F_OK), -1); /* a file that was not wanted is not left behind */
        assert_int_equal(open_descriptors(), descriptors);
        assert_int_equal(base_account_used(&node->memory), 0);
    }
    assert_true(refused >= 4);
    task_node_close(node);
}

static void test_failing_allocations(void **state)
{
    (void)state;
    in_each_place(failing_allocations);
}

/* ---- block devices ----------------------------------------------------------------------------- */

/* @return the descriptor of a loop device over the file and its path, or -1 */
static int attach_loop(const char *file, char *path)
{
    int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    int number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
    if (control >= 0)
        (void)close(control);
    if (number < 0)
        return -1;
    (void)snprintf(path, TESTING_PATH_BYTES, "/dev/loop%d", number);
    int loop = open(path, O_RDWR | O_CLOEXEC);
    int backing = open(file, O_RDWR | O_CLOEXEC);
    bool attached = loop >= 0 && backing >= 0 && ioctl(loop, LOOP_SET_FD, backing) == 0;
    if (backing >= 0)
        (void)close(backing);
    if (!attached && loop >= 0)
        (void)close(loop);
    return attached ? loop : -1;
}

static void use_device(struct tarn_node *node, struct testing_log *log, const char *path)
{
    struct drive *drive;
    struct drive_options options = {.create_bytes = 7 * MIB, .direct = DRIVE_DIRECT_ON, .zero_ahead = true};
    assert_int_equal(drive_open(node, path, &options, &drive), 0);
    const struct drive_info *info = drive_info(drive);
    assert_true(info->device && info->direct && !info->created);
    assert_int_equal(info->bytes, base_align_down(MIB + 512, info->physical_block_bytes));
    assert_int_equal(info->logical_block_bytes, 512);
    assert_int_equal(drive_zeroed_bytes(drive), info->bytes);
    uint8_t *memory = page_memory(2 * PAGE);
    testing_fill(memory, PAGE, 0, 9);
    assert_int_equal(drive_write(drive, MIB - PAGE, memory, PAGE, true), 0);
    assert_int_equal(drive_read(drive, MIB - PAGE, memory + PAGE, PAGE), 0);
    assert_memory_equal(memory, memory + PAGE, PAGE);
    assert_int_equal(drive_flush(drive), 0);
    expect_refusal(node, log, path, &as_it_is, -EBUSY);
    drive_close(drive);
    free(memory);
}

static void test_device(void **state)
{
    (void)state;
    struct testing_folder folder;
    char file[TESTING_PATH_BYTES], path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "event=\"cannot open drive\""};
    struct tarn_node *node = testing_node(&log);
    assert_true(testing_folder_make(&folder, "."));
    make_file(testing_path(&folder, "backing", file), MIB + 512);
    int loop = attach_loop(file, path);
    if (loop < 0) {
        print_message("skipped: no loop device is to be had\n");
    } else {
        use_device(node, &log, path);
        assert_int_equal(ioctl(loop, LOOP_CLR_FD), 0);
        assert_int_equal(close(loop), 0);
        expect_refusal(node, &log, path, &as_it_is, -EINVAL); /* no medium */
    }
    task_node_close(node);
    assert_int_equal(unlink(file), 0);
    testing_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_making),
        cmocka_unit_test(test_bare_name),
        cmocka_unit_test(test_half_made),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_smallest),
        cmocka_unit_test(test_permissions),
        cmocka_unit_test(test_locks),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_removed),
        cmocka_unit_test(test_direct),
        cmocka_unit_test(test_direct_on_where_there_is_none),
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_plain_thread),
        cmocka_unit_test(test_cut_file),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
