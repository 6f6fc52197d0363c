/*
 * The provider of files and block devices. A task's requests go to its scheduler's engine (io_uring or
 * Linux AIO); a plain thread's, and all when `sync` was chosen, are done in the call. A file in memory is
 * mapped, and reads copy from the mapping, which saves a system call.
 */
#include "drive/drive_internal.h"
#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

struct kernel_drive {
    struct tarn_node *node;
    struct task_file *file;
    struct drive_zero *zero; /* the background zeroing; NULL: nothing to zero */
    uint64_t bytes;          /* size of the file when it was opened */
    uint32_t block_bytes;    /* size of a physical block */
    bool sync;               /* tasks, too, do their I/O in the call */
    const uint8_t
        *mapping; /* the first `bytes` of a file in memory; NULL: another file, or it could not be mapped */
};

/* ---- opening and closing ----------------------------------------------------------------------- */

/* Name of the engine that schedulers of the node have, or would have; NULL if none works here. */
static const char *engine_name(struct tarn_node *node)
{
    const char *name = NULL;
    base_spin_lock(&node->lock);
    for (uint32_t i = 0; i < TASK_SCHEDS_MAX && node->sched_count > 0 && name == NULL; i++) {
        if (node->scheds[i] != NULL)
            name = task_sched_engine_name(node->scheds[i]);
    }
    base_spin_unlock(&node->lock);
    if (name != NULL)
        return name;
    const struct task_engine_ops *engine = task_engine_choose(node);
    return engine == NULL ? NULL : engine->name;
}

/* Decide whether the engine or the call does the tasks' I/O. @return 0; -ENOTSUP, logged */
static int choose_provider(struct drive_opening *opening)
{
    static const char *const names[] = {[DRIVE_PROVIDER_URING] = "uring", [DRIVE_PROVIDER_AIO] = "aio"};
    enum drive_provider_choice choice = opening->options->provider;
    opening->info.provider = "sync";
    if (choice == DRIVE_PROVIDER_SYNC)
        return 0;
    if (choice == DRIVE_PROVIDER_AUTO && opening->memory) {
        drive_note(opening->node, BASE_LOG_INFO, opening->path, "provider is sync",
                   "a file in memory waits for no device");
        return 0;
    }
    const char *engine = engine_name(opening->node);
    if (choice == DRIVE_PROVIDER_AUTO) {
        opening->info.provider = engine == NULL ? "sync" : engine;
        return 0;
    }
    if (engine == NULL || strcmp(engine, names[choice]) != 0)
        return drive_refuse(
            opening->node, opening->path, -ENOTSUP,
            choice == DRIVE_PROVIDER_URING
                ? "uring was asked for and the schedulers' engine is not io_uring: leave the choice open"
                : "aio was asked for and the schedulers' engine is not aio: leave the choice open");
    opening->info.provider = engine;
    return 0;
}

static void map_file(struct kernel_drive *drive)
{
    void *mapping = mmap(NULL, drive->bytes, PROT_READ, MAP_SHARED, drive->file->fd, 0);
    drive->mapping = mapping == MAP_FAILED ? NULL : mapping;
}

/* Make the provider's state of a locked file, and give it the descriptor. */
static int make_state(struct drive_opening *opening, struct kernel_drive **ret_drive)
{
    struct tarn_node *node = opening->node;
    struct kernel_drive *drive = base_alloc(&node->memory, sizeof(*drive));
    if (drive == NULL)
        return drive_refuse(node, opening->path, -ENOMEM, "the memory cap is reached");
    int error = task_file_open(node, opening->fd, &drive->file);
    if (error != 0) {
        base_free(&node->memory, drive, sizeof(*drive));
        return drive_refuse(node, opening->path, error,
                            error == -ENFILE ? "too many drives are open" : "the memory cap is reached");
    }
    drive->node = node;
    drive->bytes = opening->info.bytes;
    drive->block_bytes = opening->info.physical_block_bytes;
    drive->sync = strcmp(opening->info.provider, "sync") == 0;
    if (opening->memory && opening->options->provider == DRIVE_PROVIDER_AUTO)
        map_file(drive);
    *ret_drive = drive;
    return 0;
}

static int kernel_open(struct tarn_node *node, void *provider_arg, const char *path,
                       const struct drive_options *options, struct drive_info *ret_info, void **ret_state)
{
    (void)provider_arg;
    struct drive_opening opening = {.node = node, .path = path, .options = options, .fd = -1};
    int error = drive_file_acquire(&opening);
    if (error != 0)
        return error;
    struct kernel_drive *drive = NULL;
    error = drive_ask(&opening);
    if (error == 0)
        error = choose_provider(&opening);
    if (error == 0)
        error = make_state(&opening, &drive);
    if (error != 0) {
        drive_file_abandon(&opening);
        return error;
    }
    if (options->zero_ahead && !options->read_only && !opening.info.device)
        drive_zero_open(node, path, opening.fd, &opening.info, &drive->zero);
    *ret_info = opening.info;
    ret_info->mapped = drive->mapping != NULL;
    *ret_state = drive;
    return 0;
}

static void kernel_close(void *state)
{
    struct kernel_drive *drive = state;
    drive_zero_close(drive->zero);
    (void)flock(drive->file->fd,
                LOCK_UN); /* at once, because schedulers may keep the descriptor a little longer */
    task_file_close(drive->file);
    if (drive->mapping != NULL)
        (void)munmap((void *)(uintptr_t)drive->mapping, drive->bytes);
    base_free(&drive->node->memory, drive, sizeof(*drive));
}

static uint64_t kernel_zeroed_bytes(const void *state)
{
    const struct kernel_drive *drive = state;
    return drive->zero == NULL ? drive->bytes : drive_zero_bytes(drive->zero);
}

static int kernel_extend(void *state, uint64_t *inout_bytes)
{
    const struct kernel_drive *drive = state;
    uint64_t bytes;
    int error = drive_file_extend(drive->file->fd, *inout_bytes, &bytes);
    if (error == 0)
        *inout_bytes = base_max(*inout_bytes, base_align_down(bytes, drive->block_bytes));
    return error;
}

/* ---- in the calling thread --------------------------------------------------------------------- */

/* Drop the bytes that were moved from the front of a request's vectors. */
static void advance_request(struct drive_request *request, size_t moved)
{
    while (moved > 0 && moved >= request->iov->iov_len) {
        moved -= request->iov->iov_len;
        request->iov++;
        request->iov_count--;
    }
    if (moved > 0) {
        request->iov->iov_base = (char *)request->iov->iov_base + moved;
        request->iov->iov_len -= moved;
    }
}

/* Make one system call. Most reads have one vector, and pread() saves the kernel the copying of vectors. */
static ssize_t transfer_once(int fd, const struct drive_request *request, off_t offset)
{
    int count = (int)request->iov_count;
    if (request->op == DRIVE_WRITE)
        return pwritev2(fd, request->iov, count, offset, request->durable ? RWF_DSYNC : 0);
    return count == 1 ? pread(fd, request->iov->iov_base, request->iov->iov_len, offset)
                      : preadv2(fd, request->iov, count, offset, 0);
}

/* @return 0 or negative errno */
static int32_t transfer_all(int fd, struct drive_request *request)
{
    uint64_t offset = request->offset;
    uint64_t end = offset + request->expected_bytes;
    while (offset < end) {
        ssize_t moved = transfer_once(fd, request, (off_t)offset);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return moved < 0 ? -errno : -EIO; /* the file ends too early: another process has cut it */
        offset += (uint64_t)moved;
        advance_request(request, (size_t)moved);
    }
    return 0;
}

/* Copy from the mapping. If another process has made the file shorter, this ends the process (SIGBUS). */
static int32_t copy_mapped(const uint8_t *from, const struct drive_request *request)
{
    for (uint32_t i = 0; i < request->iov_count; i++) {
        memcpy(request->iov[i].iov_base, from, request->iov[i].iov_len);
        from += request->iov[i].iov_len;
    }
    return 0;
}

static void run_here(struct kernel_drive *drive, struct drive_request *request)
{
    int fd = drive->file->fd;
    int32_t result;
    if (request->op == DRIVE_FLUSH)
        result = fdatasync(fd) == 0 ? 0 : -errno;
    else if (request->op == DRIVE_READ && drive->mapping != NULL &&
             request->offset + request->expected_bytes <=
                 drive->bytes) /* bytes that were added later are not mapped */
        result = copy_mapped(drive->mapping + request->offset, request);
    else
        result = transfer_all(fd, request);
    drive_finish_now(request, result);
}

/* ---- through the engine ------------------------------------------------------------------------ */

static void io_done(struct task_io *io)
{
    struct drive_request *request = io->arg;
    int32_t result = io->result;
    if (result >= 0)
        result = request->op == DRIVE_FLUSH || (uint64_t)result == request->expected_bytes ? 0 : -EIO;
    drive_finish(request, result);
}

static void run_on_engine(struct task_file *file, struct drive_request *request)
{
    static const enum task_io_op ops[] = {
        [DRIVE_READ] = TASK_IO_READ, [DRIVE_WRITE] = TASK_IO_WRITE, [DRIVE_FLUSH] = TASK_IO_FLUSH};
    request->io = (struct task_io){
        .op = ops[request->op],
        .durable = request->durable,
        .file = file,
        .offset = request->offset,
        .iov = request->iov,
        .iov_count = request->iov_count,
        .region = request->region,
        .done = io_done,
        .arg = request,
    };
    task_io_post(request->sched, &request->io);
}

static void run_request(struct drive_request *request)
{
    struct kernel_drive *drive = request->drive->state;
    if (request->op == DRIVE_DISCARD)
        drive_discard_post(drive->node, drive->file->fd, request);
    else if (request->sched == NULL || drive->sync)
        run_here(drive, request);
    else
        run_on_engine(drive->file, request);
}

static void kernel_post(void *state, struct drive_request *request)
{
    struct kernel_drive *drive = state;
    if (base_unlikely(drive->zero != NULL) && request->op == DRIVE_WRITE) {
        struct task_wait wait;
        drive_put_aside(request, &wait, run_request);
        if (!drive_claims_admit(drive_zero_claims(drive->zero), request)) {
            drive_stay(request);
            return;
        }
        request->waiter = NULL;
    }
    run_request(request);
}

const struct drive_provider drive_provider_kernel = {
    .name = "kernel",
    .open = kernel_open,
    .close = kernel_close,
    .post = kernel_post,
    .zeroed_bytes = kernel_zeroed_bytes,
    .extend = kernel_extend,
};
