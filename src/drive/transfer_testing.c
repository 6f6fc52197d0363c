/* For the tests of providers: what every one of them must do alike. Requests from tasks and threads at once;
 * writers that are killed. */
#include "drive/transfer_testing.h"

/* ---- transfers --------------------------------------------------------------------------------- */

void transfer(void *arg)
{
    struct worker *worker = arg;
    struct drive *drive = worker->transfers->drive;
    struct drive_request *requests = calloc(TRANSFER_REQUESTS, sizeof(*requests));
    struct iovec *vectors = calloc(TRANSFER_REQUESTS, 2 * sizeof(*vectors));
    uint8_t *memory = testing_pages(2 * TRANSFER_REQUESTS * TRANSFER_PAGE);
    uint64_t base = worker->number * TRANSFER_REQUESTS * 2 * TRANSFER_PAGE;
    unsigned failures = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < TRANSFER_REQUESTS; i++) {
            uint8_t *to = memory + 2 * i * TRANSFER_PAGE;
            uint64_t offset = base + 2 * i * TRANSFER_PAGE;
            if (pass == 0)
                drive_testing_fill(to, 2 * TRANSFER_PAGE, offset, worker->number);
            else
                memset(to, 0, 2 * TRANSFER_PAGE);
            vectors[2 * i] = (struct iovec){to, TRANSFER_PAGE / 2};
            vectors[2 * i + 1] =
                (struct iovec){to + TRANSFER_PAGE / 2, 2 * TRANSFER_PAGE - TRANSFER_PAGE / 2};
            requests[i] = (struct drive_request){.op = pass == 0 ? DRIVE_WRITE : DRIVE_READ,
                                                 .durable = pass == 0 && i % 16 == 0,
                                                 .offset = offset,
                                                 .iov = &vectors[2 * i],
                                                 .iov_count = 2,
                                                 .region = -1};
            drive_post(drive, &requests[i]);
        }
        for (size_t i = 0; i < TRANSFER_REQUESTS; i++)
            failures += drive_wait(&requests[i], TASK_FOREVER) != 0;
        failures += drive_flush(drive) != 0;
    }
    for (size_t i = 0; i < TRANSFER_REQUESTS; i++)
        failures += !testing_filled(memory + 2 * i * TRANSFER_PAGE, 2 * TRANSFER_PAGE,
                                    base + 2 * i * TRANSFER_PAGE, worker->number);
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

void transfer_together(struct transfers *transfers, struct task_sched **scheds)
{
    struct worker workers[TRANSFER_WORKERS];
    struct task_group group;
    pthread_t thread;
    task_group_init(&group);
    for (unsigned i = 0; i < TRANSFER_WORKERS; i++) {
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

const char *engine_of(enum task_engine_choice choice)
{
    return choice == TASK_ENGINE_URING ? "uring" : "aio";
}

bool engine_works(enum task_engine_choice choice)
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

/* ---- writers that are killed ------------------------------------------------------------------- */

const struct drive_options transfer_mib = {.create_bytes = TRANSFER_MIB,
                                           .lock_wait_ns = 60 * BASE_NS_PER_SECOND};

/* With writes in flight all the time. */
static void write_until_killed(void *arg)
{
    struct task_testing *testing = arg;
    const char *path = testing->arg;
    struct drive *drive;
    struct drive_request requests[32];
    struct iovec vectors[32];
    uint8_t *memory = testing_pages(TRANSFER_PAGE);
    if (drive_open(testing->node, path, &transfer_mib, &drive) != 0)
        _exit(1);
    for (;;) {
        for (unsigned i = 0; i < base_array_count(requests); i++) {
            vectors[i] = (struct iovec){memory, TRANSFER_PAGE};
            requests[i] = (struct drive_request){.op = DRIVE_WRITE,
                                                 .offset = (size_t)i * TRANSFER_PAGE,
                                                 .iov = &vectors[i],
                                                 .iov_count = 1,
                                                 .region = -1};
            drive_post(drive, &requests[i]);
        }
        for (unsigned i = 0; i < base_array_count(requests); i++) {
            if (drive_wait(&requests[i], TASK_FOREVER) != 0)
                _exit(1);
        }
    }
}

void transfer_kill_writers(struct tarn_node *node, char *path)
{
    for (int round = 0; round < 3; round++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            task_testing_run(NULL, NULL, write_until_killed, path);
        int status;
        while (access(path, F_OK) != 0)
            assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
        assert_int_equal(task_sleep((uint64_t)(round + 1) * 20 * BASE_NS_PER_MS), 0);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        struct drive *drive;
        assert_int_equal(drive_open(node, path, &transfer_mib, &drive), 0);
        assert_true(drive_info(drive)->bytes >= TRANSFER_MIB);
        drive_close(drive);
    }
}
