/*
 * A scheduler's own io_uring for the commands of one drive; it is a poller of that scheduler. Its entries have the
 * room that a command needs (128 bytes, completions 32), which those of the engine's ring lack. Where the device has
 * polled queues the ring polls them: then nothing signals a completion, and the scheduler stays awake as long as one
 * is due.
 *
 * The ring holds the device's lock as a registered file, because commands in flight may outlive a killed process:
 * the ring lives as long as they do, so no other process gets the lock before they have landed.
 */
#include "drive/nvme/nvme.h"
#include <errno.h>
#include <liburing.h>
#include <stddef.h>
#include <string.h>

enum {
    RING_ENTRIES = 256,
    UNSENT_MAX =
        4, /* commands that are handed over together, so that the device does not idle before a round's wave */
    FILE_NODE = 0, /* registered files */
    FILE_LOCK = 1,
};

struct nvme_ring {
    struct task_poller poller;
    struct task_message drop; /* the message by which the closing of the drive reaches the scheduler */
    struct nvme_drive *drive;
    struct task_sched *sched;
    struct io_uring ring;
    struct base_list backlog; /* requests that found no free entry, by cut.link */
    uint32_t in_flight;       /* commands in flight, at most RING_ENTRIES */
    uint32_t unsent;
    bool polled;
    bool signals; /* completions write to the engine's eventfd */
};

_Static_assert(sizeof(struct nvme_uring_cmd) == offsetof(struct nvme_passthru_cmd64, result),
               "what io_uring takes is what the ioctl takes, up to the result");

/* ---- making and closing ---------------------------------------------------------------------------- */

static int init_ring(struct io_uring *ring, uint32_t entries, bool polled)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_SQE128 | IORING_SETUP_CQE32 | IORING_SETUP_SUBMIT_ALL |
                 IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | (polled ? IORING_SETUP_IOPOLL : 0U)};
    return io_uring_queue_init_params(entries, ring, &params);
}

int nvme_ring_probe(bool polled)
{
    struct io_uring ring;
    int error = init_ring(&ring, 1, polled);
    if (error == 0)
        io_uring_queue_exit(&ring);
    return error;
}

/* Open the kernel's part of a ring. @return 0 or negative errno */
static int open_kernel_ring(struct nvme_ring *ring)
{
    const int files[] = {[FILE_NODE] = ring->drive->fd, [FILE_LOCK] = ring->drive->lock};
    int error = init_ring(&ring->ring, RING_ENTRIES, ring->polled);
    if (error != 0)
        return error;
    error = io_uring_register_files(&ring->ring, files, base_array_count(files));
    if (error == 0 && !ring->polled) {
        error = io_uring_register_eventfd(&ring->ring, task_sched_wake_descriptor(ring->sched));
        (void)io_uring_cq_eventfd_toggle(&ring->ring,
                                         false); /* completions signal only while the scheduler sleeps */
    }
    if (error != 0)
        io_uring_queue_exit(&ring->ring);
    return error;
}

/* Close a ring that its scheduler polls no more. */
static void close_ring(struct nvme_ring *ring)
{
    struct nvme_drive *drive = ring->drive;
    base_spin_lock(&drive->node->lock);
    drive->rings[task_sched_index(ring->sched)] = NULL;
    base_spin_unlock(&drive->node->lock);
    io_uring_queue_exit(&ring->ring);
    base_free(&drive->node->memory, ring, sizeof(*ring));
    nvme_drive_put(drive);
}

static void run_drop(struct task_message *message)
{
    struct nvme_ring *ring = base_container_of(message, struct nvme_ring, drop);
    task_poller_remove(&ring->poller);
    close_ring(ring);
}

static void ring_closed(struct task_poller *poller)
{
    close_ring(base_container_of(poller, struct nvme_ring, poller));
}

void nvme_rings_close(struct nvme_drive *drive)
{
    struct tarn_node *node = drive->node;
    base_spin_lock(
        &node->lock); /* a scheduler closes its rings before it is freed, and each under the lock */
    for (uint32_t i = 0; i < TASK_SCHEDS_MAX; i++) {
        struct nvme_ring *ring = drive->rings[i];
        if (ring != NULL) /* a ring whose scheduler has ended was closed with it */
            (void)task_sched_post(ring->sched, &ring->drop);
    }
    base_spin_unlock(&node->lock);
}

/* ---- submission ------------------------------------------------------------------------------------ */

static void submit_commands(struct nvme_ring *ring)
{
    ring->unsent = 0;
    (void)io_uring_submit(
        &ring->ring); /* entries that the kernel does not take now are submitted in the next round */
}

/* Issue the rest of a request, as far as there are entries; of a discard one command at a time. */
static void issue_commands(struct nvme_ring *ring, struct drive_request *request)
{
    while (nvme_cut_left(request) && !(request->op == DRIVE_DISCARD && request->cut.in_flight > 0)) {
        struct io_uring_sqe *entry = ring->in_flight == RING_ENTRIES ? NULL : io_uring_get_sqe(&ring->ring);
        if (entry == NULL) {
            base_list_push_back(&ring->backlog, &request->cut.link);
            return;
        }
        struct nvme_command command;
        nvme_cut_next(&ring->drive->ns, request, &command);
        io_uring_prep_rw(IORING_OP_URING_CMD, entry, FILE_NODE, NULL, 0, 0);
        entry->cmd_op = command.vectored ? NVME_URING_CMD_IO_VEC : NVME_URING_CMD_IO;
        entry->flags = IOSQE_FIXED_FILE;
        entry->user_data = (uintptr_t)request;
        memcpy(entry->cmd, &command.words, sizeof(struct nvme_uring_cmd));
        request->cut.in_flight++;
        ring->in_flight++;
        if (++ring->unsent >= UNSENT_MAX)
            submit_commands(ring);
    }
}

static void feed_backlog(struct nvme_ring *ring)
{
    while (ring->in_flight < RING_ENTRIES) {
        struct base_list *first = base_list_pop_front(&ring->backlog);
        if (first == NULL)
            return;
        issue_commands(ring, base_container_of(first, struct drive_request, cut.link));
    }
}

/* ---- completion ------------------------------------------------------------------------------------ */

/* @return whether the request is finished */
static bool complete_request(struct nvme_ring *ring, struct drive_request *request, int outcome)
{
    ring->in_flight--;
    request->cut.in_flight--;
    nvme_note_outcome(ring->drive, request, outcome);
    bool waits = base_list_is_linked(&request->cut.link);
    if (nvme_cut_left(request) && !waits)
        issue_commands(ring, request);
    else if (!nvme_cut_left(request) && waits)
        base_list_remove(&request->cut.link); /* from the backlog: one of its commands has failed */
    if (request->cut.in_flight > 0 || nvme_cut_left(request))
        return false;
    drive_finish(request, request->cut.result);
    return true;
}

static uint32_t reap_commands(struct nvme_ring *ring)
{
    uint32_t count = 0;
    struct io_uring_cqe *completion;
    while (io_uring_cq_ready(&ring->ring) > 0 && io_uring_peek_cqe(&ring->ring, &completion) == 0) {
        struct drive_request *request = io_uring_cqe_get_data(completion);
        int outcome = completion->res;
        io_uring_cqe_seen(&ring->ring, completion);
        count += complete_request(ring, request, outcome);
    }
    return count;
}

/* Whether the kernel has completions that it shows only after a system call. */
static bool kernel_has_work(const struct nvme_ring *ring)
{
    unsigned flags = IO_URING_READ_ONCE(*ring->ring.sq.kflags);
    return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

static bool is_idle(const struct nvme_ring *ring)
{
    return ring->in_flight == 0 && base_list_empty(&ring->backlog);
}

static uint32_t ring_poll(struct task_poller *poller)
{
    struct nvme_ring *ring = base_container_of(poller, struct nvme_ring, poller);
    if (is_idle(ring))
        return 0;
    if (ring->signals)
        (void)io_uring_cq_eventfd_toggle(&ring->ring, false);
    ring->signals = false;
    feed_backlog(ring);
    ring->unsent = 0;
    if (io_uring_sq_ready(&ring->ring) > 0)
        (void)io_uring_submit_and_get_events(&ring->ring);
    else if (ring->polled || kernel_has_work(ring))
        (void)io_uring_get_events(&ring->ring);
    return reap_commands(ring);
}

/*
 * The kernel delivers completions by work that it does in this very thread, within a call or a sleep: so none can
 * arrive unsignalled between the look at the queue and the sleep.
 */
static bool ring_may_sleep(struct task_poller *poller)
{
    struct nvme_ring *ring = base_container_of(poller, struct nvme_ring, poller);
    if (is_idle(ring))
        return true;
    if (ring->polled || io_uring_sq_ready(&ring->ring) > 0)
        return false;
    (void)io_uring_cq_eventfd_toggle(&ring->ring, true);
    ring->signals = true;
    atomic_thread_fence(memory_order_seq_cst);
    return io_uring_cq_ready(&ring->ring) == 0 && !kernel_has_work(ring);
}

/* ---- posting ----------------------------------------------------------------------------------------- */

/* @return NULL: no ring can be made */
static struct nvme_ring *make_ring(struct nvme_drive *drive, struct task_sched *sched)
{
    struct nvme_ring *ring = base_alloc(&drive->node->memory, sizeof(*ring));
    int error = -ENOMEM;
    if (ring != NULL) {
        *ring = (struct nvme_ring){
            .poller = {.poll = ring_poll, .may_sleep = ring_may_sleep, .closed = ring_closed},
            .drop = {.run = run_drop},
            .drive = drive,
            .sched = sched,
            .polled = drive->way == NVME_BY_POLLED_RING,
        };
        base_list_init(&ring->backlog);
        error = open_kernel_ring(ring);
        if (error != 0)
            base_free(&drive->node->memory, ring, sizeof(*ring));
    }
    if (error != 0) {
        base_error_limited(
            &drive->node->log, &drive->errors, "cannot make a ring for NVMe commands",
            "drive=%s error=\"%s\" hint=\"raise the limits of open files and of locked memory\"",
            drive->quoted, strerrordesc_np(-error));
        return NULL;
    }
    atomic_fetch_add_explicit(&drive->references, 1, memory_order_relaxed);
    base_spin_lock(&drive->node->lock);
    drive->rings[task_sched_index(sched)] = ring;
    base_spin_unlock(&drive->node->lock);
    task_poller_add(sched, &ring->poller);
    return ring;
}

void nvme_ring_post(struct nvme_drive *drive, struct drive_request *request)
{
    struct nvme_ring *ring = drive->rings[task_sched_index(request->sched)];
    if (base_unlikely(ring == NULL))
        ring = make_ring(drive, request->sched);
    if (base_unlikely(ring == NULL)) {
        nvme_run_here(drive, request);
        return;
    }
    nvme_cut_begin(request);
    if (base_list_empty(&ring->backlog))
        issue_commands(ring, request);
    else
        base_list_push_back(&ring->backlog, &request->cut.link);
}
