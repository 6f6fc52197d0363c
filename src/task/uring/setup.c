/* Making a ring: its parts, the test whether it works here, and the log's line where a part does not. */
#include "task/uring/uring.h"
#include <errno.h>
#include <inttypes.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    PROBE_ENTRIES = 4,
    RING_ENTRIES_MIN = 32,
    COMPLETIONS_PER_ENTRY = 4, /* multishot requests complete more often than they are submitted */
};

/* Do one request, because seccomp filters may allow the first call and refuse the others. */
static int try_request(struct io_uring *ring)
{
    struct io_uring_cqe *completion;
    io_uring_prep_nop(io_uring_get_sqe(ring));
    int submitted = io_uring_submit_and_wait(ring, 1);
    if (submitted < 0)
        return submitted;
    int error = io_uring_peek_cqe(ring, &completion);
    if (error == 0)
        io_uring_cqe_seen(ring, completion);
    return error;
}

int task_uring_probe(const char **ret_reason)
{
    struct io_uring ring;
    struct io_uring_params params = {.flags = URING_SETUP_FLAGS, .cq_entries = PROBE_ENTRIES};
    int error = io_uring_queue_init_params(PROBE_ENTRIES, &ring, &params);
    if (error != 0) {
        *ret_reason = error == -EINVAL ? "the kernel is older than 6.1"
                      : error == -ENOMEM || error == -EMFILE || error == -ENFILE
                          ? "there is not enough of something for a ring"
                          : "io_uring is not permitted or not there";
        return error;
    }
    error = try_request(&ring);
    if (error == 0)
        error = io_uring_register_files_sparse(&ring, 1);
    if (error != 0)
        *ret_reason = "a trial request failed";
    io_uring_queue_exit(&ring);
    return error;
}

/* Register the file table and the arena, which make requests cheaper; without them there is a line in the log. */
static void register_what_may_fail(struct task_engine *engine)
{
    int error = io_uring_register_files_sparse(&engine->ring, TASK_FILES_MAX);
    engine->has_file_table = error == 0;
    if (error != 0)
        task_uring_complain(engine->node, "files are not registered", error);
    struct iovec arena = {.iov_base = engine->pool->arena,
                          .iov_len = base_buffer_pool_arena_bytes(engine->pool)};
    error = io_uring_register_buffers(&engine->ring, &arena, 1);
    base_buffer_pool_set_region(engine->pool, error == 0 ? URING_ARENA_REGION : -1);
    if (error != 0)
        task_uring_complain(engine->node, "buffers are not registered", error);
}

/* Open a ring, or a small one where locked memory is short: newer kernels count the ring as locked memory. */
static int open_ring(struct task_engine *engine)
{
    uint32_t entries = engine->sched->options.ring_entries;
    for (;; entries /= 2) {
        struct io_uring_params params = {
            .flags = URING_SETUP_FLAGS | IORING_SETUP_R_DISABLED | IORING_SETUP_CLAMP,
            .cq_entries = entries * COMPLETIONS_PER_ENTRY,
        };
        int error = io_uring_queue_init_params(entries, &engine->ring, &params);
        if (error != -ENOMEM || entries <= RING_ENTRIES_MIN)
            return error;
    }
}

static int open_parts(struct task_engine *engine)
{
    struct base_account *account = &engine->node->memory;
    int error = open_ring(engine);
    if (error != 0)
        return error;
    engine->headers = base_alloc(account, engine->ring.sq.ring_entries * sizeof(*engine->headers));
    error = engine->headers == NULL ? -ENOMEM : uring_buffers_open(engine);
    if (error != 0)
        goto exit_ring;
    engine->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (engine->wake_fd >= 0) {
        register_what_may_fail(engine);
        return 0;
    }
    error = -errno;
    uring_buffers_close(engine);
exit_ring:
    base_free(account, engine->headers, engine->ring.sq.ring_entries * sizeof(*engine->headers));
    io_uring_queue_exit(&engine->ring);
    return error;
}

int uring_open(struct task_sched *sched, void *arg, struct task_engine **ret_engine)
{
    (void)arg;
    struct tarn_node *node = sched->node;
    struct task_engine *engine = base_alloc(&node->memory, sizeof(*engine));
    if (engine == NULL)
        return -ENOMEM;
    engine->sched = sched;
    engine->node = node;
    engine->pool = &sched->buffers;
    base_list_init(&engine->backlog);
    base_list_init(&engine->cancels);
    base_list_init(&engine->starved);
    base_list_init(&engine->finished);
    int error = open_parts(engine);
    if (error != 0) {
        base_free(&node->memory, engine, sizeof(*engine));
        return error;
    }
    *ret_engine = engine;
    return 0;
}

int uring_begin(struct task_engine *engine)
{
    /*
     * The calling thread is the single issuer from now on. liburing 2.3 forgot to export its
     * io_uring_enable_rings().
     */
    return io_uring_register((unsigned)engine->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

void uring_close(struct task_engine *engine)
{
    struct base_account *account = &engine->node->memory;
    uint32_t entries = engine->ring.sq.ring_entries;
    /* Requests in flight write no memory any more: the kernel receives in the issuer's calls alone. */
    io_uring_queue_exit(&engine->ring);
    (void)close(engine->wake_fd);
    uring_buffers_close(engine);
    base_buffer_pool_set_region(engine->pool, -1);
    base_free(account, engine->headers, entries * sizeof(*engine->headers));
    base_free(account, engine, sizeof(*engine));
}
