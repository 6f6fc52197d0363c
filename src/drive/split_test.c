/* Requests of stripes, against a plain piece of memory; and what failures of one member are to the whole. */
#include "drive/stripe_testing.h"
#include "drive/testing.h"
#include <pthread.h>

#define UNIT  DRIVE_UNIT_BYTES_MIN /* of drives as small as these */
#define BLOCK ((size_t)512)

static const char *const lists[] = {"0,1", "0,1,2", "0,1,2,3,4", NULL};

/* What a drive is appended to, and the list with it. */
static const char *const appended[][2] = {{"0,1", "0,1,2"}, {"0", "0,1"}, {"0,1,2", "0,1,2,3"}};

/* What a test works on: a stripe, and what must be in it. */
struct run {
    struct testing_members *all;
    struct tarn_node *node;
    struct task_sched **scheds; /* NULL in a thread */
    const char *list;
    const char *with; /* NULL: none is appended */
    struct drive *drive;
    uint64_t bytes, before_bytes; /* of that so many before it was appended */
    uint8_t *model;
    struct base_random random;
    void (*test)(struct run *run);
};

/* The byte of a member that is a byte of the stripe, by the picture in stripe.h. */
static uint8_t *byte_of(struct run *run, uint64_t offset)
{
    uint32_t count = drive_member_count(run->drive) - drive_info(run->drive)->appended;
    if (offset >= run->before_bytes)
        return &run->all->members[count].drive.bytes[UNIT + offset - run->before_bytes];
    if (count == 1)
        return &run->all->members[0].drive.bytes[offset];
    uint64_t unit = offset / UNIT;
    return &run->all->members[unit % count].drive.bytes[(1 + unit / count) * UNIT + offset % UNIT];
}

static void append_another(struct run *run)
{
    static const struct drive_options append = {.append = true};
    const uint64_t magic = DRIVE_STORE_MAGIC;
    drive_close(run->drive);
    if (strlen(run->list) == 1)
        memcpy(run->all->members[0].drive.bytes, &magic, sizeof(magic));
    assert_int_equal(drive_open(run->node, run->with, &append, &run->drive), 0);
    assert_int_equal(drive_establish(run->drive), 0);
}

static void with_stripe(struct run *run)
{
    run->drive = testing_stripe_make(run->node, run->list);
    run->before_bytes = drive_info(run->drive)->bytes;
    if (run->with != NULL)
        append_another(run);
    run->bytes = drive_info(run->drive)->bytes;
    run->model = calloc(1, run->bytes);
    assert_non_null(run->model);
    for (uint64_t offset = 0; offset < run->bytes; offset++)
        run->model[offset] = *byte_of(run, offset);
    base_random_init(&run->random, run->bytes);
    assert_int_equal(drive_info(run->drive)->unit_bytes, UNIT);
    run->test(run);
    drive_close(run->drive);
    free(run->model);
}

static void in_task(void *arg)
{
    struct task_testing *testing = arg;
    struct run *run = testing->arg;
    run->node = testing->node;
    run->scheds = testing->scheds;
    with_stripe(run);
}

static void run_in_thread(void (*test)(struct run *), const char *list, const char *with)
{
    struct run run = {.all = testing_members_new(), .list = list, .with = with, .test = test};
    run.node = testing_members_node(run.all);
    with_stripe(&run);
    task_node_close(run.node);
    testing_members_free(run.all);
}

static void run_in_task(void (*test)(struct run *), const char *list, const char *with)
{
    struct run run = {.all = testing_members_new(), .list = list, .with = with, .test = test};
    const struct task_node_options options = testing_members_options(run.all);
    task_testing_run(&options, NULL, in_task, &run);
    testing_members_free(run.all);
}

static void run_all(void (*test)(struct run *))
{
    for (const char *const *list = lists; *list != NULL; list++) {
        run_in_thread(test, *list, NULL);
        run_in_task(test, *list, NULL);
    }
}

static void run_appended(void (*test)(struct run *))
{
    for (size_t i = 0; i < base_array_count(appended); i++) {
        run_in_thread(test, appended[i][0], appended[i][1]);
        run_in_task(test, appended[i][0], appended[i][1]);
    }
}

/* ---- against a model ----------------------------------------------------------------------------- */

static void check_layout(struct run *run)
{
    for (uint64_t offset = 0; offset < run->bytes; offset++) {
        if (*byte_of(run, offset) != run->model[offset])
            fail_msg("byte %llu is not where it belongs", (unsigned long long)offset);
    }
}

/* Vectors over memory in pieces of any length, in blocks. @return how many */
static uint32_t cut_vectors(struct run *run, uint8_t *memory, size_t bytes,
                            struct iovec vectors[TASK_IOV_MAX])
{
    uint64_t most = 1 + base_random_below(&run->random, 2 * UNIT / BLOCK);
    uint32_t count = 0;
    for (size_t at = 0; at < bytes; count++) {
        size_t length = BLOCK * (1 + base_random_below(&run->random, most));
        if (count == TASK_IOV_MAX - 1 || length > bytes - at)
            length = bytes - at;
        vectors[count] = (struct iovec){.iov_base = memory + at, .iov_len = length};
        at += length;
    }
    return count;
}

static void move(struct run *run, enum drive_op op, uint64_t offset, size_t bytes)
{
    struct iovec vectors[TASK_IOV_MAX];
    uint8_t *memory = testing_pages(base_align_up(bytes, BASE_PAGE_BYTES));
    struct drive_request request = {.op = op, .offset = offset, .iov = vectors, .region = -1};
    request.durable = op == DRIVE_WRITE && base_random_below(&run->random, 4) == 0;
    request.iov_count = cut_vectors(run, memory, bytes, vectors);
    if (op == DRIVE_WRITE) {
        base_random_fill(&run->random, memory, bytes);
        memcpy(run->model + offset, memory, bytes);
    }
    drive_post(run->drive, &request);
    assert_int_equal(drive_wait(&request, TASK_FOREVER), 0);
    assert_memory_equal(memory, run->model + offset, bytes);
    free(memory);
}

static void move_at_random(struct run *run)
{
    uint64_t blocks = run->bytes / BLOCK;
    for (int i = 0; i < 400; i++) {
        uint64_t first = base_random_below(&run->random, blocks);
        uint64_t most = base_random_below(&run->random, 4) == 0 ? blocks : 3 * UNIT / BLOCK;
        uint64_t count = 1 + base_random_below(&run->random, base_min(most, blocks - first));
        move(run, base_random_below(&run->random, 2) == 0 ? DRIVE_READ : DRIVE_WRITE, first * BLOCK,
             count * BLOCK);
    }
    move(run, DRIVE_READ, 0, run->bytes);
    check_layout(run);
}

static void test_model(void **state)
{
    (void)state;
    run_all(move_at_random);
    run_appended(move_at_random);
}

/* More vectors than a part takes: it goes in rounds, and none is lost or doubled. */
static void move_many_vectors(struct run *run)
{
    struct iovec vectors[TASK_IOV_MAX];
    uint8_t *memory = testing_pages(TASK_IOV_MAX * BLOCK);
    base_random_fill(&run->random, memory, TASK_IOV_MAX * BLOCK);
    struct drive_request request = {.op = DRIVE_WRITE,
                                    .offset = UNIT / 2 + BLOCK,
                                    .iov = vectors,
                                    .iov_count = TASK_IOV_MAX,
                                    .region = -1};
    memcpy(run->model + request.offset, memory, TASK_IOV_MAX * BLOCK);
    for (size_t i = 0; i < TASK_IOV_MAX; i++) /* some are empty, one is twice as long for it */
        vectors[i] = (struct iovec){memory + i * BLOCK, BLOCK};
    vectors[10].iov_len = 2 * BLOCK;
    vectors[11].iov_len = 0;
    drive_post(run->drive, &request);
    assert_int_equal(drive_wait(&request, TASK_FOREVER), 0);
    free(memory);
    check_layout(run);
}

static void test_many_vectors(void **state)
{
    (void)state;
    run_all(move_many_vectors);
    run_appended(move_many_vectors);
}

/* What lies in one unit is one request of one member; what lies in many, one of each. */
static void count_requests(struct run *run)
{
    uint32_t count = drive_member_count(run->drive);
    uint64_t before[TESTING_MEMBERS];
    move(run, DRIVE_WRITE, UNIT, UNIT);
    for (uint32_t i = 0; i < count; i++)
        before[i] = run->all->members[i].drive.reads;
    move(run, DRIVE_READ, UNIT + BLOCK, BLOCK);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(run->all->members[i].drive.reads - before[i], i == 1 ? 1 : 0);
    uint8_t *memory = testing_pages(count * UNIT);
    assert_int_equal(drive_read(run->drive, UNIT / 2, memory, count * UNIT), 0);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(run->all->members[i].drive.reads - before[i], i == 1 ? 2 : 1);
    free(memory);
    for (uint32_t i = 0; i < count; i++)
        before[i] = run->all->members[i].drive.flushes;
    assert_int_equal(drive_flush(run->drive), 0);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(run->all->members[i].drive.flushes - before[i], 1);
}

static void test_requests(void **state)
{
    (void)state;
    run_all(count_requests);
}

/* ---- many at once -------------------------------------------------------------------------------- */

/* There are more of them than parts for two members. */
enum { TASKS = 600, THREADS = 4, ROUNDS = 3 };

struct worker {
    struct run *run;
    uint64_t number;
    unsigned failures;
};

/* Write and read a block of its own, and read across units what nobody writes. */
static void work(void *arg)
{
    struct worker *worker = arg;
    struct drive *drive = worker->run->drive;
    const uint64_t own = worker->number * BLOCK,
                   shared = worker->run->bytes - 3 * UNIT + BLOCK * (worker->number % 8);
    uint8_t *memory = testing_pages(2 * UNIT);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        drive_testing_fill(memory, BLOCK, own, round);
        worker->failures += drive_write(drive, own, memory, BLOCK, worker->number % 5 == 0) != 0;
        if (worker->number % 16 == round)
            worker->failures += drive_flush(drive) != 0;
        memset(memory, 0, BLOCK);
        worker->failures += drive_read(drive, own, memory, BLOCK) != 0;
        worker->failures += !testing_filled(memory, BLOCK, own, round);
        worker->failures += drive_read(drive, shared, memory, 2 * UNIT) != 0;
        worker->failures += memcmp(memory, worker->run->model + shared, 2 * UNIT) != 0;
    }
    free(memory);
}

static void *work_in_thread(void *arg)
{
    work(arg);
    return NULL;
}

static void work_together(struct run *run)
{
    static struct worker workers[TASKS + THREADS];
    struct task_group group;
    pthread_t threads[THREADS];
    move(run, DRIVE_WRITE, run->bytes - 3 * UNIT, 3 * UNIT);
    task_group_init(&group);
    for (uint64_t i = 0; i < TASKS + THREADS; i++)
        workers[i] = (struct worker){.run = run, .number = i};
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work_in_thread, &workers[TASKS + i]), 0);
    for (unsigned i = 0; i < TASKS; i++)
        assert_int_equal(
            task_spawn(run->scheds[i % TASK_TESTING_SCHEDS], &group, "worker", work, &workers[i]), 0);
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < TASKS + THREADS; i++)
        assert_int_equal(workers[i].failures, 0);
}

static void test_many(void **state)
{
    (void)state;
    run_in_task(work_together, "0,1", NULL);
    run_in_task(work_together, "0,1,2,3,4", NULL);
    run_in_task(work_together, "0,1", "0,1,2");
    run_in_task(work_together, "0", "0,1");
}

/* A plain thread, too, has all members flush at once; and one that fails is found among them. */
static void flush_in_threads(struct run *run)
{
    uint32_t count = drive_member_count(run->drive);
    for (int i = 0; i < 3; i++) {
        run->all->met = 0;
        run->all->meet = count;
        assert_int_equal(drive_flush(run->drive), 0);
    }
    assert_int_equal(run->all->missed, 0);
    run->all->met = 0;
    testing_drive_fail_at(&run->all->members[count - 1].drive, DRIVE_FLUSH, 1, false);
    assert_int_equal(drive_flush(run->drive), -EIO);
    assert_true(drive_failed(drive_member(run->drive, count - 1)));
    assert_false(drive_failed(drive_member(run->drive, 0)));
}

static void test_member_threads(void **state)
{
    (void)state;
    for (const char *const *list = lists; *list != NULL; list++)
        run_in_thread(flush_in_threads, *list, NULL);
    for (size_t i = 0; i < base_array_count(appended); i++)
        run_in_thread(flush_in_threads, appended[i][0], appended[i][1]);
}

/* ---- failures ------------------------------------------------------------------------------------ */

/* One member fails: the request does, that member alone is to blame, and others are still read. */
static void check_failed_member(struct run *run, bool fatal)
{
    uint8_t *memory = testing_pages(UNIT);
    uint32_t count = drive_member_count(run->drive);
    for (uint32_t place = 0; place < count; place++) {
        const struct drive *member = drive_member(run->drive, place);
        assert_int_equal(drive_failures(member), place == 1 ? 1 : 0);
        assert_true(drive_failed(member) == (fatal && place == 1));
        assert_int_equal(drive_read(run->drive, place * UNIT, memory, UNIT), 0);
    }
    assert_int_equal(drive_failures(run->drive), 1);
    assert_true(drive_failed(run->drive) == fatal);
    assert_int_equal(drive_write(run->drive, 0, memory, BLOCK, true), fatal ? -EROFS : 0);
    assert_int_equal(drive_flush(run->drive), fatal ? -EROFS : 0);
    assert_int_equal(run->all->lines.errors, 2); /* the member's, then the whole's */
    assert_non_null(strstr(run->all->lines.error, "drive=\"0,1"));
    free(memory);
}

static void fail_flush(struct run *run)
{
    testing_drive_fail_at(&run->all->members[1].drive, DRIVE_FLUSH, 1, false);
    assert_int_equal(drive_flush(run->drive), -EIO);
    check_failed_member(run, true);
}

static void fail_durable_write(struct run *run)
{
    uint8_t *memory = testing_pages(2 * UNIT);
    testing_drive_fail_at(&run->all->members[1].drive, DRIVE_WRITE, 1, false);
    assert_int_equal(drive_write(run->drive, UNIT / 2, memory, UNIT, true), -EIO);
    free(memory);
    check_failed_member(run, true);
}

static void fail_plain_requests(struct run *run)
{
    uint8_t *memory = testing_pages(2 * UNIT);
    testing_drive_fail_at(&run->all->members[1].drive, DRIVE_WRITE, 1, false);
    assert_int_equal(drive_write(run->drive, 0, memory, 2 * UNIT, false), -EIO);
    check_failed_member(run, false);
    testing_drive_fail_at(&run->all->members[1].drive, DRIVE_READ, 1, false);
    assert_int_equal(drive_read(run->drive, 0, memory, 2 * UNIT), -EIO);
    assert_int_equal(drive_failures(drive_member(run->drive, 1)), 2);
    assert_false(drive_failed(run->drive));
    free(memory);
}

static void test_failures(void **state)
{
    (void)state;
    run_all(fail_flush);
    run_all(fail_durable_write);
    run_all(fail_plain_requests);
}

/* A round that fails is the last: what would follow is not tried. */
static void fail_round(struct run *run)
{
    struct iovec vectors[TASK_IOV_MAX];
    uint8_t *memory = testing_pages(TASK_IOV_MAX * BLOCK);
    struct drive_request request = {
        .op = DRIVE_READ, .iov = vectors, .iov_count = TASK_IOV_MAX, .region = -1};
    for (size_t i = 0; i < TASK_IOV_MAX; i++)
        vectors[i] = (struct iovec){memory + i * BLOCK, BLOCK};
    testing_drive_fail_at(&run->all->members[0].drive, DRIVE_READ, 1, true);
    drive_post(run->drive, &request);
    assert_int_equal(drive_wait(&request, TASK_FOREVER), -EIO);
    assert_int_equal(drive_failures(drive_member(run->drive, 0)), 1);
    testing_drive_fail_at(&run->all->members[0].drive, DRIVE_READ, 0, false);
    free(memory);
}

static void test_failed_round(void **state)
{
    (void)state;
    run_all(fail_round);
}

/* ---- discards ------------------------------------------------------------------------------------ */

static void discard(struct run *run)
{
    uint32_t count = drive_member_count(run->drive);
    move(run, DRIVE_WRITE, 0, run->bytes);
    assert_int_equal(drive_discard(run->drive, UNIT / 2, BLOCK), 0);
    assert_int_equal(drive_discard(run->drive, UNIT - BLOCK, (count + 1) * UNIT), 0);
    memset(run->model + UNIT / 2, 0xd5, BLOCK); /* what a drive in memory leaves */
    memset(run->model + UNIT - BLOCK, 0xd5, (count + 1) * UNIT);
    check_layout(run);
    uint64_t requests = 0;
    for (uint32_t i = 0; i < count; i++)
        requests += run->all->members[i].drive.discard_requests;
    assert_int_equal(requests, 1 + count);
    testing_drive_fail_at(&run->all->members[1].drive, DRIVE_DISCARD, 1, false);
    assert_int_equal(drive_discard(run->drive, 0, 2 * UNIT), -EIO);
    assert_false(drive_failed(run->drive));
}

static void test_discards(void **state)
{
    (void)state;
    for (const char *const *list = lists; *list != NULL; list++) {
        struct run run = {.all = testing_members_new(), .list = *list, .test = discard};
        for (uint32_t i = 0; i < TESTING_MEMBERS; i++)
            run.all->members[i].drive.discards = true;
        run.node = testing_members_node(run.all);
        with_stripe(&run);
        task_node_close(run.node);
        testing_members_free(run.all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),          cmocka_unit_test(test_many_vectors),
        cmocka_unit_test(test_requests),       cmocka_unit_test(test_many),
        cmocka_unit_test(test_member_threads), cmocka_unit_test(test_failures),
        cmocka_unit_test(test_failed_round),   cmocka_unit_test(test_discards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
