/* Opening files and block devices: what is refused and why, locks, making, direct I/O. */
#include "drive/testing.h"
#include <dirent.h>
#include <linux/loop.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#define MIB  (UINT64_C(1) << 20)
#define PAGE ((size_t)BASE_PAGE_BYTES)

static const struct drive_options make_mib = {.create_bytes = MIB};
static const struct drive_options as_it_is;
static const struct drive_options at_once = {.lock_wait_ns = 1}; /* no waiting for locks */

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

/* ---- making ------------------------------------------------------------------------------------ */

static void making(struct testing_folder *folder)
{
    char path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "event=\"drive open\""};
    struct tarn_node *node = testing_log_node(&log);
    struct drive *drive;
    struct drive_options options = {.create_bytes = MIB + 1};
    (void)testing_path(folder, "made", path);
    assert_int_equal(drive_open(node, path, &as_it_is, &drive), -ENOENT);
    assert_int_equal(drive_open(node, path, &options, &drive), 0);
    assert_true(drive_info(drive)->created);
    assert_false(drive_info(drive)->device);
    assert_int_equal(drive_info(drive)->bytes, MIB + PAGE);
    char quoted[TESTING_PATH_BYTES + 8];
    assert_string_equal(drive_name(drive), base_log_quote(quoted, sizeof(quoted), path, strlen(path)));
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, MIB + PAGE);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_true((uint64_t)status.st_blocks * 512 >= MIB + PAGE); /* reserved, not sparse */
    uint8_t *memory = testing_pages(PAGE);
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
    testing_in_each_place(making);
}

/* In the current folder, without a slash in the path: its folder is synced all the same. */
static void test_bare_name(void **state)
{
    (void)state;
    static const char name[] = "drive-test-bare-name";
    struct testing_log log = {.text = "event=\"cannot"};
    struct tarn_node *node = testing_log_node(&log);
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
    struct tarn_node *node = testing_log_node(&log);
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
    testing_in_each_place(half_made);
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
    struct tarn_node *node = testing_log_node(&log);
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
    testing_in_each_place(refusals);
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
    struct tarn_node *node = testing_log_node(&log);
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
        print_message("root may do everything\n");
        skip();
    }
    struct testing_folder folder;
    char path[TESTING_PATH_BYTES];
    assert_true(testing_folder_make(&folder, "."));
    (void)testing_path(&folder, "closed", path);
    make_file(path, MIB);
    assert_int_equal(chmod(path, 0400), 0);
    struct testing_log log = {.text = "event=\"cannot open drive\""};
    struct tarn_node *node = testing_log_node(&log);
    expect_refusal(node, &log, path, &as_it_is, -EACCES);
    task_node_close(node);
    assert_int_equal(unlink(path), 0);
    testing_folder_remove(&folder);
}

/* ---- locks ------------------------------------------------------------------------------------- */

static void locks(struct testing_folder *folder)
{
    static const struct drive_options read_only = {.read_only = true, .lock_wait_ns = 1};
    char path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "event=\"cannot open drive\""};
    struct tarn_node *node = testing_log_node(&log);
    struct drive *first, *second;
    (void)testing_path(folder, "locked", path);
    assert_int_equal(drive_open(node, path, &make_mib, &first), 0);
    expect_refusal(node, &log, path, &at_once, -EBUSY);
    expect_refusal(node, &log, path, &read_only, -EBUSY);
    drive_close(first);

    assert_int_equal(drive_open(node, path, &read_only, &first), 0);
    assert_int_equal(drive_open(node, path, &read_only, &second), 0); /* readers share */
    drive_close(second);
    expect_refusal(node, &log, path, &at_once, -EBUSY);
    drive_close(first);
    assert_int_equal(drive_open(node, path, &as_it_is, &first), 0);
    drive_close(first);
    task_node_close(node);
    assert_int_equal(unlink(path), 0);
}

static void test_locks(void **state)
{
    (void)state;
    testing_in_each_place(locks);
}

struct killer {
    struct testing_log log;
    pid_t child;
};

/* Kill the child when the opener says that it waits. */
static void *kill_when_waited_for(void *arg)
{
    struct killer *killer = arg;
    while (testing_log_count(&killer->log) == 0)
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    assert_int_equal(kill(killer->child, SIGKILL), 0);
    return NULL;
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
    struct killer killer = {.log = {.text = "event=\"waiting for drive\""}, .child = child};
    struct tarn_node *node = testing_log_node(&killer.log);
    struct drive *drive;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, kill_when_waited_for, &killer), 0);
    assert_int_equal(drive_open(node, path, &as_it_is, &drive), 0);
    assert_int_equal(testing_log_count(&killer.log), 1);
    drive_close(drive);
    task_node_close(node);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(close(ready[0]), 0);
    assert_int_equal(close(ready[1]), 0);
    assert_int_equal(unlink(path), 0);
}

static void test_killed(void **state)
{
    (void)state;
    testing_in_each_place(killed);
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
    struct tarn_node *node = testing_log_node(&log);
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
    testing_in_each_place(removed);
}

/* ---- direct I/O -------------------------------------------------------------------------------- */

static void direct(struct testing_folder *folder)
{
    char path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "event=\"no direct I/O"};
    struct tarn_node *node = testing_log_node(&log);
    struct drive *drive;
    uint8_t *memory = testing_pages(2 * PAGE);
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
        assert_int_equal(drive_read(drive, block, memory, (size_t)2 * block), 0);
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
    testing_in_each_place(direct);
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
    struct tarn_node *node = testing_log_node(&log);
    struct drive *drive;
    int error = drive_open(node, testing_path(&folder, "direct", path), &options, &drive);
    if (error == 0) {
        drive_close(drive);
        assert_int_equal(unlink(path), 0);
    } else {
        assert_int_equal(error, -ENOTSUP);
    }
    task_node_close(node);
    testing_folder_remove(&folder);
    if (error == 0) {
        print_message("tmpfs has direct I/O here\n");
        skip();
    }
}

/* ---- the n-th allocation fails, for every n ---------------------------------------------------- */

static void failing_allocations(struct testing_folder *folder)
{
    static const struct drive_options options = {.create_bytes = MIB, .zero_ahead = true};
    char path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "none"};
    struct tarn_node *node = testing_log_node(&log);
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
    testing_in_each_place(failing_allocations);
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
    uint8_t *memory = testing_pages(2 * PAGE);
    drive_testing_fill(memory, PAGE, 0, 9);
    assert_int_equal(drive_write(drive, MIB - PAGE, memory, PAGE, true), 0);
    assert_int_equal(drive_read(drive, MIB - PAGE, memory + PAGE, PAGE), 0);
    assert_memory_equal(memory, memory + PAGE, PAGE);
    assert_int_equal(drive_flush(drive), 0);
    expect_refusal(node, log, path, &at_once, -EBUSY);
    drive_close(drive);
    free(memory);
}

static void test_device(void **state)
{
    (void)state;
    struct testing_folder folder;
    char file[TESTING_PATH_BYTES], path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "event=\"cannot open drive\""};
    struct tarn_node *node = testing_log_node(&log);
    assert_true(testing_folder_make(&folder, "."));
    make_file(testing_path(&folder, "backing", file), MIB + 512);
    int loop = attach_loop(file, path);
    if (loop < 0) {
        print_message("no loop device is to be had\n");
    } else {
        use_device(node, &log, path);
        assert_int_equal(ioctl(loop, LOOP_CLR_FD), 0);
        assert_int_equal(close(loop), 0);
        expect_refusal(node, &log, path, &as_it_is, -EINVAL); /* no medium */
    }
    task_node_close(node);
    assert_int_equal(unlink(file), 0);
    testing_folder_remove(&folder);
    if (loop < 0)
        skip();
}

/* ---- becoming larger ----------------------------------------------------------------------------- */

static void expect_bytes(struct drive *drive, uint64_t offset, uint8_t *memory, int byte)
{
    memset(memory, ~byte, PAGE);
    assert_int_equal(drive_read(drive, offset, memory, PAGE), 0);
    for (size_t i = 0; i < PAGE; i++)
        assert_int_equal(memory[i], (uint8_t)byte);
}

/* Not before it was asked to; then all of it, and reserved. What was there stays as it is. */
static void longer(struct testing_folder *folder)
{
    char path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "event=\"drive larger\""};
    struct tarn_node *node = testing_log_node(&log);
    const struct drive_options options = {.create_bytes = MIB + PAGE, .zero_ahead = true};
    struct drive *drive;
    struct stat status;
    uint64_t bytes;
    uint8_t *memory = testing_pages(PAGE);
    (void)testing_path(folder, "longer", path);
    assert_int_equal(drive_open(node, path, &options, &drive), 0);
    memset(memory, 1, PAGE);
    assert_int_equal(drive_write(drive, MIB, memory, PAGE, true), 0);
    assert_int_equal(drive_extend(drive, &bytes), 0);
    assert_int_equal(bytes, MIB + PAGE);
    assert_int_equal(truncate(path, (off_t)(3 * MIB + 100)), 0);
    assert_int_equal(drive_write(drive, MIB + PAGE, memory, PAGE, false), -EINVAL);
    assert_int_equal(drive_extend(drive, &bytes), 0);
    assert_int_equal(bytes, 3 * MIB);
    assert_int_equal(drive_bytes(drive), 3 * MIB);
    assert_int_equal(drive_info(drive)->bytes, MIB + PAGE);
    assert_int_equal(testing_log_count(&log), 1);
    assert_int_equal(stat(path, &status), 0);
    assert_true((uint64_t)status.st_blocks * 512 >= 3 * MIB); /* reserved, not sparse */
    memset(memory, 2, PAGE);
    assert_int_equal(drive_write(drive, MIB + PAGE, memory, PAGE, false), 0);
    assert_int_equal(drive_write(drive, 3 * MIB - PAGE, memory, PAGE, true), 0);
    assert_int_equal(drive_write(drive, 3 * MIB, memory, PAGE, false), -EINVAL);
    expect_bytes(drive, MIB, memory, 1);
    expect_bytes(drive, MIB + PAGE, memory, 2);
    expect_bytes(drive, 2 * MIB, memory, 0);
    expect_bytes(drive, 3 * MIB - PAGE, memory, 2);
    uint8_t *both = testing_pages(2 * PAGE); /* over the end of what was mapped, if it was */
    assert_int_equal(drive_read(drive, MIB, both, 2 * PAGE), 0);
    assert_int_equal(both[PAGE - 1] * 256 + both[PAGE], 1 * 256 + 2);
    free(both);
    assert_int_equal(truncate(path, (off_t)(2 * MIB)), 0); /* by mistake; it counts as it was */
    assert_int_equal(drive_extend(drive, &bytes), 0);
    assert_int_equal(bytes, 3 * MIB);
    struct statvfs system; /* there is no room for so much: nothing is reserved, and it goes on */
    assert_int_equal(statvfs(folder->path, &system), 0);
    const uint64_t too_much = (uint64_t)system.f_blocks * system.f_frsize + 64 * MIB;
    if (system.f_blocks > 0 && truncate(path, (off_t)too_much) == 0) {
        assert_int_equal(drive_extend(drive, &bytes), -ENOSPC);
        assert_int_equal(stat(path, &status), 0);
        assert_true((uint64_t)status.st_blocks * 512 < 5 * MIB);
        expect_bytes(drive, MIB, memory, 1);
        assert_int_equal(drive_bytes(drive), 3 * MIB);
        assert_int_equal(truncate(path, (off_t)(3 * MIB)), 0);
    }
    drive_close(drive);
    free(memory);
    task_node_close(node);
    assert_int_equal(unlink(path), 0);
}

static void test_longer(void **state)
{
    (void)state;
    testing_in_each_place(longer);
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
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_device),
        cmocka_unit_test(test_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
