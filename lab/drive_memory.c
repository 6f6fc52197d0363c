/* A drive in memory, with blocks of any size: its table of operations. */
#include "lab/drive_memory.h"

#include <errno.h>

static int open_drive(struct tarn_node *node, void *provider_arg, const char *path,
                      const struct drive_options *options, struct drive_info *ret_info, void **ret_state)
{
    struct lab_drive_memory *memory = provider_arg;
    (void)node, (void)path, (void)options;
    *ret_info = (struct drive_info){.provider = "memory",
                                    .bytes = memory->size,
                                    .logical_block_bytes = memory->block_bytes,
                                    .physical_block_bytes = memory->block_bytes,
                                    .memory_alignment_bytes = DRIVE_SECTOR_BYTES,
                                    .direct = true};
    *ret_state = memory;
    return 0;
}

static void close_drive(void *state)
{
    (void)state;
}

static void finish(struct task_message *message)
{
    drive_finish(base_container_of(message, struct drive_request, message), 0);
}

static void transfer(const struct lab_drive_memory *memory, const struct drive_request *request)
{
    uint8_t *at = memory->bytes + request->offset;
    for (uint32_t i = 0; i < request->iov_count; i++) {
        const struct iovec *vector = &request->iov[i];
        if (request->op == DRIVE_READ)
            memcpy(vector->iov_base, at, vector->iov_len);
        else
            memcpy(at, vector->iov_base, vector->iov_len);
        at += vector->iov_len;
    }
}

static void post_request(void *state, struct drive_request *request)
{
    transfer(state, request);
    request->message.run = finish;
    if (request->sched == NULL)
        drive_finish_now(request, 0);
    else /* a scheduler does not end while a task of its waits */
        base_assert(task_sched_post(request->sched, &request->message));
}

const struct drive_provider lab_drive_memory_provider = {
    .name = "memory", .open = open_drive, .close = close_drive, .post = post_request};

int lab_drive_memory_open(struct base_account *account, uint64_t size, uint32_t block_bytes,
                          struct lab_drive_memory *ret_memory)
{
    struct lab_drive_memory memory = {.account = account, .size = size, .block_bytes = block_bytes};
    base_assert(base_is_aligned(size, block_bytes));
    memory.bytes = base_alloc(account, size);
    if (memory.bytes == NULL)
        return -ENOMEM;
    *ret_memory = memory;
    return 0;
}

void lab_drive_memory_close(struct lab_drive_memory *memory)
{
    base_free(memory->account, memory->bytes, memory->size);
    memory->bytes = NULL;
}
