/* Zeroing ahead: that it ends, resumes, and never changes a byte that somebody wrote. */
#include "drive/drive_internal.h"
#include "drive/testing.h"
#include <pthread.h>
#include <stdatomic.h>

#define CHUNK  DRIVE_CHUNK_BYTES
#define PAGE   ((size_t)BASE_PAGE_BYTES)
#define CHUNKS 48

static const struct drive_options zeroing = {.create_bytes = CHUNKS * CHUNK, .zero_ahead = true};
static const struct drive_options making = {.create_bytes = CHUNKS * CHUNK};

/* ---- whose chunk is whose ---------------------------------------------------------------------- */

static void count_resumed(struct drive_request *request)
{
    ++*(unsigned *)request->arg;
}

/* As the provider does in a task. @return whether the write may go */
static bool admit(struct drive_claims *claims, struct drive_request *request, unsigned *resumed_count,
                  uint64_t offset, uint64_t bytes)
{
    *request = (struct drive_request){
        .sched = task_sched_self(), .offset = offset, .expected_bytes = bytes, .arg = resumed_count};
    drive_put_aside(request, NULL, count_resumed);
    return drive_claims_admit(claims, request);
}

static void check_claims(void *arg)
{
    struct task_testing *testing = arg;
    struct drive_claims claims;
    struct drive_request first, second, third;
    assert_int_equal(drive_claims_init(&claims, &testing->node->memory, 100 * CHUNK - 1), 0);
    unsigned resumed_count = 0;

    /* what was written is not taken: one byte suffices, and both sides of a boundary count */
    assert_true(admit(&claims, &first, &resumed_count, 64 * CHUNK - 1, 2));
    assert_false(drive_claims_take(&claims, 63));
    assert_false(drive_claims_take(&claims, 64));
    assert_true(drive_claims_take(&claims, 62));

    /* beside the chunk that is taken all may write; into it, and across it, nobody */
    assert_true(admit(&claims, &first, &resumed_count, 61 * CHUNK, CHUNK));
    assert_true(admit(&claims, &first, &resumed_count, 63 * CHUNK, CHUNK));
    assert_false(admit(&claims, &first, &resumed_count, 63 * CHUNK - 1, 1));
    assert_false(admit(&claims, &second, &resumed_count, 62 * CHUNK, 1));
    assert_false(admit(&claims, &third, &resumed_count, 5 * CHUNK, 90 * CHUNK));
    task_yield();
    assert_int_equal(resumed_count, 0);
    drive_claims_release(&claims);
    while (resumed_count < 3)
        task_yield();

    /* those that waited have their chunks, too */
    assert_false(drive_claims_take(&claims, 62));
    assert_false(drive_claims_take(&claims, 5));
    assert_false(drive_claims_take(&claims, 94));
    assert_true(drive_claims_take(&claims, 99)); /* the last, which is not whole */
    assert_false(admit(&claims, &first, &resumed_count, 100 * CHUNK - 2, 1));

    /* behind the end, where the file has become longer, all may write; across the end not while it is taken */
    assert_true(admit(&claims, &second, &resumed_count, 100 * CHUNK, CHUNK));
    assert_true(admit(&claims, &second, &resumed_count, 500 * CHUNK, 1));
    assert_false(admit(&claims, &third, &resumed_count, 100 * CHUNK - 1, 2 * CHUNK));
    drive_claims_release(&claims);
    while (resumed_count < 5)
        task_yield();
    drive_claims_end(&claims);
    assert_true(admit(&claims, &first, &resumed_count, 0, 1));
    drive_claims_deinit(&claims);
}

static void test_claims(void **state)
{
    (void)state;
    task_testing_run(NULL, NULL, check_claims, NULL);
}

struct blocked {
    struct drive_claims claims;
    _Atomic bool taken;
    _Atomic bool done;
};

static void finish_in_thread(struct drive_request *request)
{
    *(bool *)request->arg = true;
}

/* A plain thread waits for the chunk in the call. */
static void *write_in_thread(void *arg)
{
    struct blocked *blocked = arg;
    bool finished = false;
    struct task_wait wait;
    struct drive_request request = {.offset = CHUNK, .expected_bytes = 1, .arg = &finished};
    drive_put_aside(&request, &wait, finish_in_thread);
    if (!drive_claims_admit(&blocked->claims, &request)) {
        drive_stay(&request);
        assert_true(finished);
        assert_false(blocked->taken);
        blocked->done = true;
    }
    return NULL;
}

static void test_claims_in_thread(void **state)
{
    (void)state;
    struct testing_log log = {.text = "none"};
    struct tarn_node *node = testing_log_node(&log);
    struct blocked blocked = {.taken = true};
    pthread_t thread;
    assert_int_equal(drive_claims_init(&blocked.claims, &node->memory, 2 * CHUNK), 0);
    assert_true(drive_claims_take(&blocked.claims, 1));
    assert_int_equal(pthread_create(&thread, NULL, write_in_thread, &blocked), 0);
    bool waits = false;
    while (!waits) {
        base_spin_lock(&blocked.claims.lock);
        waits = !base_list_empty(&blocked.claims.waiting);
        base_spin_unlock(&blocked.claims.lock);
    }
    blocked.taken = false;
    drive_claims_release(&blocked.claims);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(blocked.done);
    drive_claims_deinit(&blocked.claims);
    task_node_close(node);
}

/* ---- on a real file ---------------------------------------------------------------------------- */

static int64_t unwritten_bytes(const char *path)
{
    return testing_unwritten(path, 0, UINT64_MAX, true);
}

struct fixture {
    struct testing_folder folder;
    struct testing_log log;
    struct tarn_node *node;
    char path[TESTING_PATH_BYTES];
};

/* @return false: the file system here has nothing to zero */
static bool set_up(struct fixture *fixture)
{
    *fixture = (struct fixture){.log = {.text = "event=\"zeroing ended\""}};
    assert_true(testing_folder_make(&fixture->folder, "."));
    fixture->node = testing_log_node(&fixture->log);
    (void)testing_path(&fixture->folder, "zeroed", fixture->path);
    struct drive *drive;
    assert_int_equal(drive_open(fixture->node, fixture->path, &making, &drive), 0);
    bool direct = drive_info(drive)->direct;
    assert_int_equal(drive_zeroed_bytes(drive), CHUNKS * CHUNK); /* not asked for: nothing to do */
    drive_close(drive);
    if (direct && unwritten_bytes(fixture->path) == CHUNKS * CHUNK)
        return true;
    print_message("the file system here has no unwritten extents, or no direct I/O\n");
    return false;
}

static void tear_down(struct fixture *fixture)
{
    task_node_close(fixture->node);
    assert_int_equal(unlink(fixture->path), 0);
    testing_folder_remove(&fixture->folder);
}

static struct drive *open_zeroing(struct fixture *fixture)
{
    struct drive *drive;
    assert_int_equal(drive_open(fixture->node, fixture->path, &zeroing, &drive), 0);
    return drive;
}

static void wait_for_zeros(struct drive *drive, uint64_t bytes)
{
    while (drive_zeroed_bytes(drive) < bytes)
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
}

static void wait_for_end(struct fixture *fixture, struct drive *drive)
{
    wait_for_zeros(drive, CHUNKS * CHUNK);
    while (testing_log_count(&fixture->log) == 0)
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
}

static uint8_t *read_all(struct drive *drive)
{
    uint8_t *memory = aligned_alloc(PAGE, CHUNKS * CHUNK);
    assert_int_equal(drive_read(drive, 0, memory, CHUNKS * CHUNK), 0);
    return memory;
}

static bool is_zero(const uint8_t *memory, size_t bytes)
{
    return memory[0] == 0 && memcmp(memory, memory + 1, bytes - 1) == 0;
}

static void test_all_of_a_file(void **state)
{
    (void)state;
    struct fixture fixture;
    const bool there = set_up(&fixture);
    if (there) {
        struct drive *drive = open_zeroing(&fixture);
        wait_for_end(&fixture, drive);
        uint8_t *memory = read_all(drive);
        assert_true(is_zero(memory, CHUNKS * CHUNK));
        free(memory);
        drive_close(drive);
        assert_int_equal(unwritten_bytes(fixture.path), 0);
        drive = open_zeroing(&fixture); /* there is nothing left to do */
        assert_int_equal(drive_zeroed_bytes(drive), CHUNKS * CHUNK);
        drive_close(drive);
        assert_int_equal(testing_log_count(&fixture.log), 1);
    }
    tear_down(&fixture);
    if (!there)
        skip();
}

/* Closed in the middle, it ends at once and goes on where it was. */
static void test_resumed(void **state)
{
    (void)state;
    struct fixture fixture;
    const bool there = set_up(&fixture);
    if (there) {
        struct drive *drive = open_zeroing(&fixture);
        wait_for_zeros(drive, CHUNK);
        drive_close(drive);
        int64_t left = unwritten_bytes(fixture.path);
        assert_true(left <= (int64_t)((CHUNKS - 1) * CHUNK));
        drive = open_zeroing(&fixture);
        if (left > 0) /* a very fast drive may be through */
            assert_true(drive_zeroed_bytes(drive) >= CHUNKS * CHUNK - (uint64_t)left);
        wait_for_zeros(drive, CHUNKS * CHUNK);
        drive_close(drive);
        assert_int_equal(unwritten_bytes(fixture.path), 0);
    }
    tear_down(&fixture);
    if (!there)
        skip();
}

/* What an earlier session wrote, in front of and behind where the zeroing came, stays; the rest of its chunks
 * is filled. */
static void test_earlier_data(void **state)
{
    (void)state;
    static const uint64_t offsets[] = {0,
                                       3 * PAGE,
                                       CHUNK - PAGE,
                                       7 * CHUNK,
                                       20 * CHUNK + 5 * PAGE,
                                       (CHUNKS - 1) * CHUNK,
                                       CHUNKS * CHUNK - PAGE};
    struct fixture fixture;
    const bool there = set_up(&fixture);
    if (there) {
        uint8_t *page = aligned_alloc(PAGE, PAGE);
        /* through the page cache and not flushed: data that only the cache has is data */
        struct drive_options cached = {.direct = DRIVE_DIRECT_OFF};
        struct drive *drive;
        assert_int_equal(drive_open(fixture.node, fixture.path, &cached, &drive), 0);
        for (size_t i = 0; i < base_array_count(offsets); i++) {
            drive_testing_fill(page, PAGE, offsets[i], 1);
            assert_int_equal(drive_write(drive, offsets[i], page, PAGE, false), 0);
        }
        drive_close(drive);
        free(page);
        drive = open_zeroing(&fixture);
        wait_for_end(&fixture, drive);
        uint8_t *memory = read_all(drive);
        for (size_t i = 0; i < base_array_count(offsets); i++) {
            assert_true(testing_filled(memory + offsets[i], PAGE, offsets[i], 1));
            memset(memory + offsets[i], 0, PAGE);
        }
        assert_true(is_zero(memory, CHUNKS * CHUNK));
        free(memory);
        drive_close(drive);
        assert_int_equal(unwritten_bytes(fixture.path), 0);
    }
    tear_down(&fixture);
    if (!there)
        skip();
}

/* ---- races ------------------------------------------------------------------------------------- */

#define WRITERS      6
#define ROUNDS       3
#define WRITES       400
#define BLOCKS_TOTAL (CHUNKS * CHUNK / PAGE)

struct race {
    struct fixture *fixture;
    struct drive *drive;
    _Atomic uint8_t owners[BLOCKS_TOTAL]; /* whose each block is, plus one: the first who wrote to it */
    uint8_t rounds[BLOCKS_TOTAL];         /* the owner's: which of its writes came last */
    _Atomic unsigned failures;
};

struct writer {
    struct race *race;
    unsigned number;
};

/* Write blocks close in front of the zeroer, behind it, and anywhere. */
static void write_around(void *arg)
{
    struct writer *writer = arg;
    struct race *race = writer->race;
    struct base_random random;
    base_random_init(&random, writer->number + 1);
    uint8_t *page = aligned_alloc(PAGE, PAGE);
    for (unsigned i = 0; i < WRITES; i++) {
        uint64_t position = drive_zeroed_bytes(race->drive) / PAGE;
        uint64_t block = base_random_u64(&random) % BLOCKS_TOTAL;
        if (i % 4 != 0) /* in the chunk that is being zeroed, and the one behind it */
            block = position + base_random_u64(&random) % (2 * CHUNK / PAGE);
        uint8_t nobody = 0;
        uint8_t self = (uint8_t)(writer->number + 1);
        if (block >= BLOCKS_TOTAL ||
            (!atomic_compare_exchange_strong(&race->owners[block], &nobody, self) && nobody != self))
            continue;
        race->rounds[block]++;
        drive_testing_fill(page, PAGE, block * PAGE, race->rounds[block]);
        race->failures += drive_write(race->drive, block * PAGE, page, PAGE, false) != 0;
    }
    free(page);
}

static void *write_in_plain_thread(void *arg)
{
    write_around(arg);
    return NULL;
}

static void verify_race(struct race *race)
{
    uint8_t *memory = read_all(race->drive);
    for (uint64_t block = 0; block < BLOCKS_TOTAL; block++) {
        const uint8_t *at = memory + block * PAGE;
        if (race->owners[block] == 0)
            assert_true(is_zero(at, PAGE));
        else
            assert_true(testing_filled(at, PAGE, block * PAGE, race->rounds[block]));
    }
    free(memory);
}

static void run_race(void *arg)
{
    struct task_testing *testing = arg;
    struct race *race = testing->arg;
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    /* sessions: each finds the data of those before it, beyond where the zeroing came */
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct task_group group;
        task_group_init(&group);
        race->fixture->node = testing->node;
        race->drive = open_zeroing(race->fixture);
        for (unsigned i = 0; i < WRITERS; i++) {
            writers[i] = (struct writer){.race = race, .number = round * WRITERS + i};
            if (i % 2 == 0)
                assert_int_equal(pthread_create(&threads[i], NULL, write_in_plain_thread, &writers[i]), 0);
            else
                assert_int_equal(task_spawn(testing->scheds[i % TASK_TESTING_SCHEDS], &group, "writer",
                                            write_around, &writers[i]),
                                 0);
        }
        for (unsigned i = 0; i < WRITERS; i += 2)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
        if (round == ROUNDS - 1)
            wait_for_zeros(race->drive, CHUNKS * CHUNK);
        verify_race(race);
        drive_close(race->drive);
    }
    assert_int_equal(race->failures, 0);
}

static void test_races(void **state)
{
    (void)state;
    struct fixture fixture;
    const bool there = set_up(&fixture);
    if (there) {
        struct race *race = calloc(1, sizeof(*race));
        struct tarn_node *node = fixture.node;
        race->fixture = &fixture;
        task_testing_run(NULL, NULL, run_race, race);
        fixture.node = node;
        free(race);
    }
    tear_down(&fixture);
    if (!there)
        skip();
}

/* ---- where there is nothing to zero ------------------------------------------------------------ */

static void test_not_zeroed(void **state)
{
    (void)state;
    struct testing_folder folder;
    char path[TESTING_PATH_BYTES];
    struct testing_log log = {.text = "event=\"no zeroing ahead\""};
    struct tarn_node *node = testing_log_node(&log);
    struct drive *drive;
    if (testing_folder_make(&folder, "/dev/shm")) { /* its pages are zero when reserved */
        assert_int_equal(drive_open(node, testing_path(&folder, "memory", path), &zeroing, &drive), 0);
        assert_int_equal(drive_zeroed_bytes(drive), CHUNKS * CHUNK);
        assert_int_equal(testing_log_count(&log), 1);
        drive_close(drive);
        assert_int_equal(unlink(path), 0);
        testing_folder_remove(&folder);
    }
    struct fixture fixture;
    const bool there = set_up(&fixture);
    if (there) { /* through the page cache: every flush would have to write the zeros first */
        struct drive_options cached = {.zero_ahead = true, .direct = DRIVE_DIRECT_OFF};
        unsigned before = testing_log_count(&log);
        assert_int_equal(drive_open(node, fixture.path, &cached, &drive), 0);
        assert_int_equal(drive_zeroed_bytes(drive), CHUNKS * CHUNK);
        assert_int_equal(testing_log_count(&log), before + 1);
        drive_close(drive);
        struct drive_options read_only = {.zero_ahead = true, .read_only = true};
        assert_int_equal(drive_open(node, fixture.path, &read_only, &drive), 0);
        assert_int_equal(drive_zeroed_bytes(drive), CHUNKS * CHUNK);
        drive_close(drive);
        assert_int_equal(unwritten_bytes(fixture.path), CHUNKS * CHUNK);
    }
    tear_down(&fixture);
    task_node_close(node);
    if (!there)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claims),        cmocka_unit_test(test_claims_in_thread),
        cmocka_unit_test(test_all_of_a_file), cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_earlier_data),  cmocka_unit_test(test_races),
        cmocka_unit_test(test_not_zeroed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
