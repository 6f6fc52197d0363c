/*
 * Discards of block devices. Before Linux 6.12, which has one for io_uring, the kernel has only a call that
 * blocks, and a device may be slow: so a task has a thread make the call.
 */
#include "drive/drive_internal.h"
#include "task/thread.h"
#include <errno.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

/* A discard that a thread carries out for a task. */
struct discard {
    pthread_t thread;
    struct tarn_node *node;
    struct drive_request *request;
    int fd;
    int32_t result;
};

static int32_t discard_range(int fd, const struct drive_request *request)
{
    uint64_t range[2] = {request->offset, request->discard_bytes};
    return ioctl(fd, BLKDISCARD, range) == 0 ? 0 : -errno;
}

/* Join the thread and finish the request, on the task's scheduler. The thread's last step has posted this message; without
 * the join the scheduler could be closed while the thread is still in that step. */
static void finish_request(struct drive_request *request)
{
    struct discard *discard = request->io.arg;
    int32_t result = discard->result;
    (void)pthread_join(discard->thread, NULL);
    base_free(&discard->node->memory, discard, sizeof(*discard));
    drive_finish(request, result);
}

static void *run_worker(void *arg)
{
    struct discard *work = arg;
    work->result = discard_range(work->fd, work->request);
    drive_resume(work->request);
    return NULL;
}

void drive_discard_post(struct tarn_node *node, int fd, struct drive_request *request)
{
    if (request->sched == NULL) {
        drive_finish_now(request, discard_range(fd, request));
        return;
    }
    struct discard *work = base_alloc(&node->memory, sizeof(*work));
    int error = work == NULL ? -ENOMEM : 0;
    if (error == 0) {
        *work = (struct discard){.node = node, .request = request, .fd = fd};
        request->io.arg = work;
        request->resume = finish_request;
        error = task_thread_start(&work->thread, "tarn-discard", run_worker, work);
        if (error != 0)
            base_free(&node->memory, work, sizeof(*work));
    }
    if (error != 0)
        drive_finish_now(request, error);
}
