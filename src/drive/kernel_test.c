/* The provider of files: every engine and the calling thread, durability, and what outlives a process. */
#include "drive/drive_internal.h"
#include "drive/transfer_testing.h"

#define MIB  TRANSFER_MIB
#define PAGE TRANSFER_PAGE

/* ---- transfers by every provider --------------------------------------------------------------- */

/* Paths in the folder, one or with commas between. */
static void list_paths(const struct testing_folder *folder, uint32_t count, char list[3 * TESTING_PATH_BYTES])
{
    size_t used = 0;
    for (uint32_t i = 0; i < count; i++)
        used += (size_t)snprintf(list + used, 3 * TESTING_PATH_BYTES - used, "%s%s/transfers%u",
                                 i == 0 ? "" : ",", folder->path, i);
}

/* @param count  of drives: more than one is a stripe */
static void transfer_with_providers(struct task_testing *testing, uint32_t count)
{
    struct transfers *transfers = testing->arg;
    char path[3 * TESTING_PATH_BYTES];
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
    list_paths(transfers->folder, count, path);
    struct drive_options options = {.create_bytes =
                                        TRANSFER_WORKERS * TRANSFER_REQUESTS * 2 * PAGE + count * MIB / 4};
    for (size_t i = 0; i < 2 * base_array_count(providers); i++) {
        options.provider = providers[i / 2].choice;
        options.direct = i % 2 == 0 ? DRIVE_DIRECT_AUTO : DRIVE_DIRECT_OFF;
        /* closed and opened at once: schedulers that still have the descriptor do no harm */
        assert_int_equal(drive_open(testing->node, path, &options, &transfers->drive), 0);
        assert_int_equal(drive_establish(transfers->drive), 0);
        assert_int_equal(drive_member_count(transfers->drive), count);
        const struct drive *last = drive_member(transfers->drive, count - 1);
        assert_string_equal(drive_info(last)->provider, providers[i / 2].name);
        transfer_together(transfers, testing->scheds);
        drive_close(transfers->drive);
    }
    options.provider = other;
    assert_int_equal(drive_open(testing->node, path, &options, &transfers->drive), -ENOTSUP);
    for (char *end = NULL, *one = path; one != NULL; one = end == NULL ? NULL : end + 1) {
        end = strchr(one, ',');
        if (end != NULL)
            *end = '\0';
        assert_int_equal(unlink(one), 0);
    }
}

static void transfer_on_drives(void *arg)
{
    transfer_with_providers(arg, 1);
    transfer_with_providers(arg, 2);
    transfer_with_providers(arg, 3);
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
            print_message("%s does not work here\n", engine_of(engines[i]));
            continue;
        }
        task_testing_run(&options, NULL, transfer_on_drives, &transfers);
        assert_int_equal(testing_log_count(&log), 3);
    }
}

static void test_transfers(void **state)
{
    (void)state;
    testing_in_each_place(with_engines);
    if (!engine_works(TASK_ENGINE_URING) || !engine_works(TASK_ENGINE_AIO))
        skip();
}

/* Without schedulers: the name of the engine that they would have, and the work in the thread. */
static void test_plain_thread(void **state)
{
    (void)state;
    struct testing_folder folder;
    char path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "event=\"drive open\""};
    struct tarn_node *node = testing_log_node(&log);
    struct drive *drive;
    assert_true(testing_folder_make(&folder, "."));
    (void)testing_path(&folder, "plain", path);
    struct transfers transfers = {.folder = &folder};
    struct worker worker = {.transfers = &transfers};
    assert_int_equal(drive_open(node, path, &transfer_mib, &drive), 0);
    assert_string_equal(drive_info(drive)->provider, task_engine_choose(node)->name);
    transfers.drive = drive;
    transfer(&worker);
    assert_int_equal(transfers.failures, 0);
    drive_close(drive);
    task_node_close(node);
    assert_int_equal(unlink(path), 0);
    testing_folder_remove(&folder);
}

/* ---- durability -------------------------------------------------------------------------------- */

/*
 * Through the page cache, a page is written back when a durable write or a flush returns: the file system
 * shows its place as written. (That a drive keeps it is for those who cut the power.)
 */
static void write_durably(struct drive *drive, const char *path)
{
    uint8_t *memory = testing_pages(PAGE);
    memset(memory, 4, PAGE);
    assert_int_equal(drive_write(drive, 8 * PAGE, memory, PAGE, true), 0);
    assert_int_equal(testing_unwritten(path, 8 * PAGE, PAGE, false), 0);
    assert_int_equal(drive_write(drive, 64 * PAGE, memory, PAGE, false), 0);
    assert_int_equal(drive_write(drive, 66 * PAGE, memory, PAGE, false), 0);
    assert_int_equal(drive_flush(drive), 0);
    assert_int_equal(testing_unwritten(path, 64 * PAGE, PAGE, false), 0);
    assert_int_equal(testing_unwritten(path, 65 * PAGE, PAGE, false), PAGE);
    assert_int_equal(testing_unwritten(path, 66 * PAGE, PAGE, false), 0);
    free(memory);
}

/* Where files are made, and whether the file system did not tell what of them is unwritten. */
struct durability {
    struct testing_folder folder;
    bool untold;
};

static void check_durability(void *arg)
{
    struct task_testing *testing = arg;
    struct durability *durability = testing->arg;
    static const struct drive_options options = {.create_bytes = MIB, .direct = DRIVE_DIRECT_OFF};
    char path[TESTING_PATH_BYTES];
    struct drive *drive;
    (void)testing_path(&durability->folder, "durable", path);
    assert_int_equal(drive_open(testing->node, path, &options, &drive), 0);
    if (testing_unwritten(path, 0, MIB, true) == MIB)
        write_durably(drive, path);
    else
        durability->untold = true;
    drive_close(drive);
    assert_int_equal(unlink(path), 0);
}

static void test_durability(void **state)
{
    (void)state;
    static const enum task_engine_choice engines[] = {TASK_ENGINE_URING, TASK_ENGINE_AIO};
    struct durability durability = {.untold = false};
    struct testing_log log = {.text = "none"};
    assert_true(testing_folder_make(&durability.folder, "."));
    struct task_testing in_thread = {.node = testing_log_node(&log), .arg = &durability};
    check_durability(&in_thread);
    task_node_close(in_thread.node);
    for (size_t i = 0; i < base_array_count(engines); i++) {
        struct task_node_options options = testing_options(&log);
        options.engine_choice = engines[i];
        if (engine_works(engines[i]))
            task_testing_run(&options, NULL, check_durability, &durability);
    }
    testing_folder_remove(&durability.folder);
    if (durability.untold) {
        print_message("the file system does not tell what is unwritten\n");
        skip();
    }
}

/* ---- schedulers and descriptors ---------------------------------------------------------------- */

/* A scheduler that does not run keeps the descriptor of a closed drive, but not its lock. */
static void test_idle_scheduler(void **state)
{
    (void)state;
    struct testing_folder folder;
    char path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "event=\"cannot open drive\""};
    struct tarn_node *node = testing_log_node(&log);
    struct task_sched *sched;
    struct drive *drive;
    static const struct drive_options options = {.create_bytes = MIB, .lock_wait_ns = 1};
    assert_true(testing_folder_make(&folder, "."));
    (void)testing_path(&folder, "idle", path);
    assert_int_equal(task_sched_open(node, NULL, &sched), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(drive_open(node, path, &options, &drive), 0);
        drive_close(drive);
    }
    task_sched_close(sched);
    task_node_close(node);
    assert_int_equal(unlink(path), 0);
    testing_folder_remove(&folder);
}

static void test_killed_writer(void **state)
{
    (void)state;
    struct testing_folder folder;
    char path[TESTING_PATH_BYTES];
    assert_true(testing_folder_make(&folder, "."));
    (void)testing_path(&folder, "writer", path);
    struct testing_log log = {.text = "event=\"cannot open drive\""};
    struct tarn_node *node = testing_log_node(&log);
    transfer_kill_writers(node, path);
    task_node_close(node);
    assert_int_equal(unlink(path), 0);
    testing_folder_remove(&folder);
}

/* ---- a file that is cut while it is open ------------------------------------------------------- */

static void read_cut_file(void *arg)
{
    struct task_testing *testing = arg;
    struct drive *drive = testing->arg;
    uint8_t *memory = testing_pages(2 * PAGE);
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
    struct drive_options options = transfer_mib;
    (void)testing_path(cut->folder, "cut", path);
    if (strncmp(path, "/dev/shm", 8) == 0) /* else it is mapped, and the process would end */
        options.provider = DRIVE_PROVIDER_SYNC;
    assert_int_equal(drive_open(testing->node, path, &options, &drive), 0);
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
    struct task_testing in_thread = {.node = testing_log_node(&thread_log), .arg = &cut};
    cut_in_task(&in_thread);
    task_node_close(in_thread.node);
}

static void test_cut_file(void **state)
{
    (void)state;
    testing_in_each_place(cut_file);
}

/* A file is none that discards. Made to try, it is told what the kernel says, in a thread and in a task. */
static void discard_in_task(void *arg)
{
    struct task_testing *testing = arg;
    char path[TESTING_PATH_BYTES];
    struct drive *drive;
    (void)testing_path(testing->arg, "discard", path);
    assert_int_equal(drive_open(testing->node, path, &transfer_mib, &drive), 0);
    assert_false(drive_info(drive)->discard);
    assert_int_equal(drive_discard(drive, 0, 4096), -EOPNOTSUPP);
    drive->info.discard = true;
    for (int i = 0; i < 20; i++)
        assert_int_equal(drive_discard(drive, 0, 4096), -ENOTTY);
    assert_false(drive_failed(drive));
    assert_int_equal(drive_flush(drive), 0);
    drive_close(drive);
    assert_int_equal(unlink(path), 0);
}

static void discard_in_file(struct testing_folder *folder)
{
    struct testing_log log = {.text = "event=\"drive request failed\""};
    struct task_node_options options = testing_options(&log);
    task_testing_run(&options, NULL, discard_in_task, folder);
    struct task_testing in_thread = {.node = testing_log_node(&log), .arg = folder};
    discard_in_task(&in_thread);
    task_node_close(in_thread.node);
}

static void test_discard(void **state)
{
    (void)state;
    testing_in_each_place(discard_in_file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transfers),     cmocka_unit_test(test_plain_thread),
        cmocka_unit_test(test_durability),    cmocka_unit_test(test_idle_scheduler),
        cmocka_unit_test(test_killed_writer), cmocka_unit_test(test_cut_file),
        cmocka_unit_test(test_discard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
