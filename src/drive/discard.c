/*
 * Discards of block devices. The kernel has only a call that waits (until Linux 6.12 brought one for
 * io_uring), and a device may take its time: so a task has a thread wait for it.
 */
#include "drive/drive_internal.h"
#include "task/thread.h"
#include <errno.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

/* A discard on its way. */
struct discard {
    pthread_t thread;
    struct tarn_node *node;
    struct drive_request *request;
    int fd;
    int32_t result;
};

static int32_t discard(int fd, const struct drive_request *request)
{
    uint64_t range[2] = {request->offset, request->discard_bytes};
    return ioctl(fd, BLKDISCARD, range) == 0 ? 0 : -errno;
}

/* On the scheduler of the task, which the thread has woken with its last step: it is waited for, so that the
 * scheduler is not closed before it is out of there. */
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
    work->result = discard(work->fd, work->request);
    drive_resume(work->request);
    return NULL;
}

void drive_discard_post(struct tarn_node *node, int fd, struct drive_request *request)
{
    if (request->sched == NULL) {
        drive_finish_now(request, discard(fd, request));
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
