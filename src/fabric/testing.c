/*
 * For the tests of this layer: runs of a provider's tests in tasks and in plain threads, jobs beside a test, and two
 * connected sides.
 */
#include "fabric/testing.h"

unsigned testing_times(const struct testing_fabric *testing, unsigned times)
{
    return testing->subject->is_slow ? (times + 9) / 10 : times;
}

struct tarn_fabric *testing_clients(const struct testing_fabric *testing)
{
    return testing->client_fabric != NULL ? testing->client_fabric : testing->fabric;
}

/* ---- running ------------------------------------------------------------------------------------ */

void testing_open(struct testing_fabric *testing)
{
    assert_int_equal(tarn_fabric_open(testing->node, testing->subject->url, &testing->fabric), 0);
    if (testing->subject->client_url != NULL)
        assert_int_equal(
            tarn_fabric_open(testing->node, testing->subject->client_url, &testing->client_fabric), 0);
    testing->subject->address(testing->address, sizeof(testing->address));
}

void testing_close(struct testing_fabric *testing)
{
    if (testing->client_fabric != NULL)
        tarn_fabric_close(testing->client_fabric);
    tarn_fabric_close(testing->fabric);
}

void testing_main(void *arg)
{
    struct task_testing *tasks = arg;
    struct testing_fabric *testing = tasks->arg;
    testing->tasks = tasks;
    testing->node = tasks->node;
    testing_open(testing);
    testing->test(testing);
    testing_close(testing);
}

void testing_run_prepared(struct testing_fabric *testing, bool in_tasks)
{
    if (testing->subject->run != NULL) {
        testing->subject->run(testing, in_tasks);
        return;
    }
    if (in_tasks) {
        task_testing_run(NULL, NULL, testing_main, testing);
        return;
    }
    const struct task_node_options quiet = {.log_level = BASE_LOG_ERROR};
    assert_int_equal(task_node_open(&quiet, &testing->node), 0);
    testing_open(testing);
    testing->test(testing);
    testing_close(testing);
    task_node_close(testing->node); /* asserts that all memory was given back */
}

void testing_run(void **state, void (*test)(struct testing_fabric *testing), bool in_tasks)
{
    struct testing_fabric testing = {.subject = *state, .test = test};
    testing_run_prepared(&testing, in_tasks);
}

unsigned testing_count_entries(const char *path)
{
    unsigned count = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    assert_int_equal(closedir(folder), 0);
    return count;
}

/* Count the open descriptors of this process. */
static unsigned testing_count_descriptors(void)
{
    return testing_count_entries("/proc/self/fd");
}

unsigned testing_descriptors(void)
{
    unsigned before, now = testing_count_descriptors();
    do {
        before = now;
        for (unsigned i = 0; i < 20 && now == before; i++) {
            (void)task_sleep(5000000);
            now = testing_count_descriptors();
        }
    } while (now != before);
    return now;
}

void testing_expect_descriptors(unsigned count)
{
    const uint64_t until_ns = TESTING_LATE;
    while (testing_descriptors() != count && task_now() < until_ns)
        continue;
    assert_int_equal(testing_descriptors(), count);
}

uint64_t testing_memory(const struct testing_fabric *testing)
{
    uint64_t before, now = base_account_used(&testing->node->memory);
    do {
        before = now;
        for (unsigned i = 0; i < 20 && now == before; i++) {
            (void)task_sleep(5000000);
            now = base_account_used(&testing->node->memory);
        }
    } while (now != before);
    return now;
}

/* ---- jobs --------------------------------------------------------------------------------------- */

void testing_job_subject(struct testing_job *job)
{
    job->function(job->arg);
    task_shared_future_set(&job->ended, 0);
}

static void *testing_job_thread(void *arg)
{
    testing_job_subject(arg);
    return NULL;
}

void testing_start_thread(struct testing_fabric *testing, struct testing_job *job,
                          void (*function)(void *arg), void *arg)
{
    *job = (struct testing_job){.function = function, .arg = arg, .testing = testing};
    task_shared_future_init(&job->ended);
    if (testing->subject->start_thread != NULL)
        testing->subject->start_thread(job);
    else
        assert_int_equal(pthread_create(&job->thread, NULL, testing_job_thread, job), 0);
}

void testing_start(struct testing_fabric *testing, struct testing_job *job, unsigned place,
                   void (*function)(void *arg), void *arg)
{
    if (testing->tasks == NULL) {
        testing_start_thread(testing, job, function, arg);
        return;
    }
    *job = (struct testing_job){.function = function, .arg = arg, .testing = testing, .is_task = true};
    task_group_init(&job->group);
    assert_int_equal(
        task_spawn(testing->tasks->scheds[place % TASK_TESTING_SCHEDS], &job->group, "job", function, arg),
        0);
}

void testing_join(struct testing_job *job)
{
    int value;
    if (job->is_task) {
        assert_int_equal(task_group_join(&job->group, TESTING_LATE), 0);
        return;
    }
    assert_int_equal(task_shared_future_wait(&job->ended, TESTING_LATE, &value), 0);
    if (job->testing->subject->start_thread == NULL)
        assert_int_equal(pthread_join(job->thread, NULL), 0);
}

/* ---- two sides ---------------------------------------------------------------------------------- */

struct tarn_fabric_domain *testing_domain(struct tarn_fabric *fabric, uint64_t readable, uint64_t writable)
{
    const struct tarn_fabric_domain_options options = {.readable_bytes = readable,
                                                       .writable_bytes = writable};
    struct tarn_fabric_domain *domain;
    assert_int_equal(tarn_fabric_domain_open(fabric, &options, &domain), 0);
    return domain;
}

struct tarn_fabric_region *testing_region(struct tarn_fabric_domain *domain, uint64_t bytes, uint32_t rights)
{
    struct tarn_fabric_region *region;
    assert_int_equal(tarn_fabric_region_alloc(domain, bytes, rights, &region), 0);
    return region;
}

void testing_accept(void *arg)
{
    struct testing_pair *pair = arg;
    struct tarn_fabric_incoming *incoming;
    assert_int_equal(tarn_fabric_listener_wait(pair->listener, TESTING_LATE, &incoming), 0);
    assert_int_equal(tarn_fabric_accept(incoming, pair->server_domain, &pair->options, &pair->server), 0);
}

void testing_connect(struct testing_pair *pair)
{
    struct testing_job job;
    testing_start(pair->testing, &job, 0, testing_accept, pair);
    assert_int_equal(tarn_fabric_connect(pair->client_domain, pair->testing->address, &pair->options,
                                         TESTING_LATE, &pair->client),
                     0);
    testing_join(&job);
}

void testing_disconnect(struct testing_pair *pair)
{
    tarn_fabric_disconnect(pair->client);
    tarn_fabric_disconnect(pair->server);
    pair->client = pair->server = NULL;
}

void testing_pair_open(struct testing_fabric *testing, struct testing_pair *pair,
                       const struct tarn_fabric_connect_options *options)
{
    *pair = (struct testing_pair){.testing = testing};
    if (options != NULL)
        pair->options = *options;
    pair->server_domain = testing_domain(testing->fabric, TESTING_BYTES, TESTING_BYTES);
    pair->client_domain = testing_domain(testing_clients(testing), 0, TESTING_BYTES);
    pair->all = testing_region(pair->server_domain, TESTING_BYTES,
                               TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP);
    pair->readable = testing_region(pair->server_domain, TESTING_BYTES, TARN_FABRIC_MAY_READ);
    assert_int_equal(tarn_fabric_listen(testing->fabric, testing->address, &pair->listener), 0);
    testing_connect(pair);
}

void testing_pair_close(struct testing_pair *pair)
{
    if (pair->client != NULL)
        testing_disconnect(pair);
    tarn_fabric_listener_close(pair->listener);
    tarn_fabric_region_free(pair->readable);
    tarn_fabric_region_free(pair->all);
    tarn_fabric_domain_close(pair->client_domain);
    tarn_fabric_domain_close(pair->server_domain);
}

uint64_t testing_await_word(const struct tarn_fabric_region *region, uint64_t offset, uint64_t old)
{
    const struct tarn_fabric_word word = {.region = region, .offset = offset, .old = old};
    uint32_t index;
    assert_int_equal(tarn_fabric_wait_any(&word, 1, TESTING_LATE, &index), 0);
    return tarn_fabric_mem_load64(region, offset);
}

void testing_fill(uint8_t *bytes, uint64_t count, uint64_t round)
{
    for (uint64_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)((i + 1) * 31 + round * 17 + i / 251);
}

void testing_expect(const struct tarn_fabric_region *region, uint64_t offset, const void *bytes,
                    uint64_t count)
{
    uint8_t *copy = malloc(count + 1);
    assert_non_null(copy);
    tarn_fabric_mem_copy_out(region, offset, copy, count);
    assert_memory_equal(copy, bytes, count);
    free(copy);
}

void testing_expect_failure(struct testing_pair *pair, struct tarn_fabric_op op, int error)
{
    struct tarn_fabric_counters before, after;
    struct tarn_fabric_message message;
    uint8_t room[TARN_FABRIC_RECEIVE_BYTES_MAX / 256];
    op.tag = op.tag == 0 ? TESTING_TAG : op.tag;
    tarn_fabric_count(testing_clients(pair->testing), TESTING_TAG, &before);
    tarn_fabric_post(pair->client, &op, 1);
    assert_int_equal(tarn_fabric_wait(&op, 1, TESTING_LATE), error);
    assert_int_equal(tarn_fabric_error(pair->client), error);
    tarn_fabric_count(testing_clients(pair->testing), TESTING_TAG, &after);
    if (op.tag == TESTING_TAG) {
        assert_int_equal(after.failed - before.failed, 1);
        assert_int_equal(after.refused - before.refused, error == -EACCES ? 1 : 0);
    }
    uint64_t word;
    assert_int_equal(
        tarn_fabric_read(pair->client, TESTING_TAG, &pair->all->handle, 0, &word, 8, TESTING_LATE), error);
    assert_int_equal(tarn_fabric_receive(pair->client, room, sizeof(room), TESTING_LATE, &message), error);
    assert_int_equal(tarn_fabric_receive(pair->server, room, sizeof(room), TESTING_LATE, &message),
                     -ECONNRESET);
    testing_disconnect(pair);
    testing_connect(pair);
}
