/*
 * For the targets that have a store: a drive in memory, a civil clock that stands still, a node on both.
 * There is no cmocka here, so this is not drive/memory_testing.h.
 */
#include "testing.h"

/* ---- a drive in memory -------------------------------------------------------------------------- */

static int fuzz_drive_open(struct tarn_node *node, void *arg, const char *path,
                           const struct drive_options *options, struct drive_info *ret_info, void **ret_state)
{
    const struct fuzz_drive *drive = arg;
    (void)node;
    (void)path;
    (void)options;
    *ret_info = (struct drive_info){.provider = "memory",
                                    .bytes = drive->size,
                                    .logical_block_bytes = 512,
                                    .physical_block_bytes = 4096,
                                    .memory_alignment_bytes = 512,
                                    .direct = true};
    *ret_state = arg;
    return 0;
}

static void fuzz_drive_close(void *state)
{
    (void)state;
}

static void fuzz_drive_post(void *state, struct drive_request *request)
{
    struct fuzz_drive *drive = state;
    uint64_t offset = request->offset;
    if (drive->yields && task_self() != NULL)
        task_yield();
    for (uint32_t i = 0; i < request->iov_count; i++) {
        base_assert(offset + request->iov[i].iov_len <= drive->size);
        if (request->op == DRIVE_READ)
            memcpy(request->iov[i].iov_base, drive->bytes + offset, request->iov[i].iov_len);
        else
            memcpy(drive->bytes + offset, request->iov[i].iov_base, request->iov[i].iov_len);
        offset += request->iov[i].iov_len;
    }
    drive_finish_now(request, 0);
}

static const struct drive_provider fuzz_provider = {
    .name = "memory", .open = fuzz_drive_open, .close = fuzz_drive_close, .post = fuzz_drive_post};

/* ---- nodes -------------------------------------------------------------------------------------- */

static uint64_t fuzz_wall(void *arg)
{
    (void)arg;
    return FUZZ_WALL_NS;
}

static uint64_t fuzz_monotonic(void *arg)
{
    struct timespec now;
    (void)arg;
    base_assert(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * BASE_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

const struct task_clock fuzz_clock = {.monotonic = fuzz_monotonic, .wall = fuzz_wall};

void fuzz_sink(void *arg, enum base_log_level level, const char *line, size_t len)
{
    (void)arg;
    (void)level;
    base_assert(len > 0 && line[len - 1] == '\n');
}

void fuzz_begin(struct fuzz_drive *drive, uint64_t memory_bytes, enum base_log_level log_level,
                struct tarn_node **ret_node, struct task_sched **ret_sched)
{
    const struct task_node_options node_options = {.clock = &fuzz_clock,
                                                   .drives = &fuzz_provider,
                                                   .drives_arg = drive,
                                                   .memory_bytes = memory_bytes,
                                                   .seed = 1,
                                                   .log_level = log_level,
                                                   .log_sink = fuzz_sink};
    const struct task_sched_options sched_options = {.buffers_count = 16};
    base_assert(task_node_open(&node_options, ret_node) == 0);
    base_assert(task_sched_open(*ret_node, &sched_options, ret_sched) == 0);
}

void fuzz_end(struct tarn_node *node, struct task_sched *sched)
{
    task_sched_run(sched);
    task_sched_close(sched);
    task_node_close(node);
}
