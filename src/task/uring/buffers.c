/*
 * Provided buffers: a share of the scheduler's pool that the kernel fills as bytes arrive, so that an
 * idle connection needs no buffer.
 */
#include "task/uring/uring.h"
#include <errno.h>

enum { RING_ENTRIES_MAX = 1 << 15 };

static size_t ring_bytes(const struct uring_buffers *buffers)
{
    return buffers->entries * sizeof(struct io_uring_buf);
}

static void free_parts(struct task_engine *engine)
{
    struct uring_buffers *buffers = &engine->buffers;
    struct base_account *account = &engine->node->memory;
    base_free(account, buffers->ring, ring_bytes(buffers));
    base_free(account, buffers->lent, buffers->entries * sizeof(*buffers->lent));
    base_free(account, buffers->unused, buffers->entries * sizeof(*buffers->unused));
}

int uring_buffers_open(struct task_engine *engine)
{
    struct uring_buffers *buffers = &engine->buffers;
    struct base_account *account = &engine->node->memory;
    buffers->entries = 1;
    while (buffers->entries * 2 <= base_min(engine->pool->count / 2, (uint32_t)RING_ENTRIES_MAX))
        buffers->entries *= 2;
    buffers->ring = base_alloc_aligned(account, BASE_PAGE_BYTES, ring_bytes(buffers));
    buffers->lent = base_alloc(account, buffers->entries * sizeof(*buffers->lent));
    buffers->unused = base_alloc(account, buffers->entries * sizeof(*buffers->unused));
    int error = -ENOMEM;
    if (buffers->ring == NULL || buffers->lent == NULL || buffers->unused == NULL)
        goto failed;
    for (uint32_t i = 0; i < buffers->entries; i++)
        buffers->unused[buffers->unused_count++] = (uint16_t)i;
    struct io_uring_buf_reg registration = {
        .ring_addr = (uint64_t)(uintptr_t)buffers->ring,
        .ring_entries = buffers->entries,
        .bgid = URING_BUFFER_GROUP,
    };
    error = io_uring_register_buf_ring(&engine->ring, &registration, 0);
    if (error != 0)
        goto failed;
    io_uring_buf_ring_init(buffers->ring);
    return 0;
failed:
    free_parts(engine);
    return error;
}

void uring_buffers_close(struct task_engine *engine)
{
    for (uint32_t i = 0; i < engine->buffers.entries; i++) {
        if (engine->buffers.lent[i] != NULL)
            base_buffer_put(engine->buffers.lent[i]);
    }
    free_parts(engine);
}

void uring_buffers_fill(struct task_engine *engine)
{
    struct uring_buffers *buffers = &engine->buffers;
    int added = 0;
    while (buffers->unused_count > 0 && task_io_may_take_buffer(engine->pool)) {
        struct base_buffer *buffer = base_buffer_get(engine->pool);
        uint16_t identifier = buffers->unused[--buffers->unused_count];
        buffers->lent[identifier] = buffer;
        io_uring_buf_ring_add(buffers->ring, buffer->data, buffer->capacity, identifier,
                              io_uring_buf_ring_mask(buffers->entries), added++);
    }
    if (added > 0)
        io_uring_buf_ring_advance(buffers->ring, added);
}

struct base_buffer *uring_buffers_take(struct task_engine *engine, uint32_t identifier)
{
    struct uring_buffers *buffers = &engine->buffers;
    base_assert(identifier < buffers->entries && buffers->lent[identifier] != NULL);
    struct base_buffer *buffer = buffers->lent[identifier];
    buffers->lent[identifier] = NULL;
    buffers->unused[buffers->unused_count++] = (uint16_t)identifier;
    return buffer;
}
