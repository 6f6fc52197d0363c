/* Buffers of one arena, and lists of them: handing out, appending, consuming, copying in. */
#include "base/buffer.h"

#include <errno.h>

int base_buffer_pool_init(struct base_buffer_pool *pool, struct base_account *account, uint32_t buffer_bytes,
                          uint32_t count)
{
    base_assert(buffer_bytes > 0 && base_is_aligned(buffer_bytes, BASE_PAGE_BYTES) && count > 0);
    struct base_buffer_pool made = {
        .account = account, .buffer_bytes = buffer_bytes, .count = count, .free_count = count};
    made.arena = base_alloc_aligned(account, BASE_PAGE_BYTES, base_buffer_pool_arena_bytes(&made));
    made.buffers = base_alloc(account, count * sizeof(*made.buffers));
    if (made.arena == NULL || made.buffers == NULL) {
        base_free(account, made.arena, base_buffer_pool_arena_bytes(&made));
        base_free(account, made.buffers, count * sizeof(*made.buffers));
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        made.buffers[i] = (struct base_buffer){
            .next = i + 1 < count ? &made.buffers[i + 1] : NULL,
            .data = made.arena + (uint64_t)i * buffer_bytes,
            .capacity = buffer_bytes,
            .region = -1,
            .pool = pool,
        };
    }
    made.free = made.buffers;
    *pool = made;
    return 0;
}

void base_buffer_pool_deinit(struct base_buffer_pool *pool)
{
    base_assert(pool->free_count == pool->count);
    base_free(pool->account, pool->arena, base_buffer_pool_arena_bytes(pool));
    base_free(pool->account, pool->buffers, pool->count * sizeof(*pool->buffers));
    *pool = (struct base_buffer_pool){0};
}

uint64_t base_buffer_pool_arena_bytes(const struct base_buffer_pool *pool)
{
    return (uint64_t)pool->buffer_bytes * pool->count;
}

void base_buffer_pool_set_region(struct base_buffer_pool *pool, int32_t region)
{
    for (uint32_t i = 0; i < pool->count; i++)
        pool->buffers[i].region = region;
}

struct base_buffer *base_buffer_get(struct base_buffer_pool *pool)
{
    struct base_buffer *buffer = pool->free;
    if (buffer == NULL)
        return NULL;
    pool->free = buffer->next;
    pool->free_count--;
    buffer->next = NULL;
    buffer->begin = 0;
    buffer->end = 0;
    return buffer;
}

void base_buffer_put(struct base_buffer *buffer)
{
    struct base_buffer_pool *pool = buffer->pool;
    if (pool == NULL)
        return;
    base_assert(pool->free_count < pool->count);
    buffer->next = pool->free;
    pool->free = buffer;
    pool->free_count++;
}

void base_buffer_wrap(struct base_buffer *buffer, void *data, uint32_t capacity)
{
    *buffer = (struct base_buffer){.data = data, .capacity = capacity, .region = -1};
}

void base_buffer_list_init(struct base_buffer_list *list)
{
    *list = (struct base_buffer_list){0};
}

void base_buffer_list_append(struct base_buffer_list *list, struct base_buffer *buffer)
{
    buffer->next = NULL;
    if (list->head == NULL)
        list->head = buffer;
    else
        list->tail->next = buffer;
    list->tail = buffer;
    list->bytes += base_buffer_bytes(buffer);
}

struct base_buffer *base_buffer_list_pop(struct base_buffer_list *list)
{
    struct base_buffer *buffer = list->head;
    if (buffer == NULL)
        return NULL;
    list->head = buffer->next;
    list->bytes -= base_buffer_bytes(buffer);
    buffer->next = NULL;
    return buffer;
}

void base_buffer_list_move_all(struct base_buffer_list *list, struct base_buffer_list *from)
{
    if (from->head == NULL)
        return;
    if (list->head == NULL)
        list->head = from->head;
    else
        list->tail->next = from->head;
    list->tail = from->tail;
    list->bytes += from->bytes;
    base_buffer_list_init(from);
}

void base_buffer_list_consume(struct base_buffer_list *list, uint64_t bytes)
{
    base_assert(bytes <= list->bytes);
    while (list->head != NULL && bytes >= base_buffer_bytes(list->head)) {
        bytes -= base_buffer_bytes(list->head);
        base_buffer_put(base_buffer_list_pop(list));
    }
    if (bytes > 0) {
        base_assert(list->head != NULL);
        list->head->begin += (uint32_t)bytes;
        list->bytes -= bytes;
    }
}

/* Append bytes to the content of a buffer that has room for them. */
static void fill_buffer(struct base_buffer *buffer, const uint8_t *from, uint32_t bytes)
{
    memcpy(buffer->data + buffer->end, from, bytes);
    buffer->end += bytes;
}

int base_buffer_list_copy_in(struct base_buffer_list *list, struct base_buffer_pool *pool, const void *data,
                             size_t len)
{
    if (len == 0)
        return 0;
    const uint8_t *from = data;
    bool has_tail = list->head != NULL && list->tail->pool == pool;
    size_t into_tail = has_tail ? base_min(len, (size_t)base_buffer_room(list->tail)) : 0;
    size_t rest = len - into_tail;
    if (rest > (uint64_t)pool->free_count * pool->buffer_bytes)
        return -ENOBUFS;
    if (into_tail > 0) {
        fill_buffer(list->tail, from, (uint32_t)into_tail);
        list->bytes += into_tail;
        from += into_tail;
    }
    while (rest > 0) {
        struct base_buffer *buffer = base_buffer_get(pool);
        uint32_t piece = (uint32_t)base_min(rest, (size_t)buffer->capacity);
        fill_buffer(buffer, from, piece);
        base_buffer_list_append(list, buffer);
        from += piece;
        rest -= piece;
    }
    return 0;
}

size_t base_buffer_list_copy_out(const struct base_buffer_list *list, uint64_t offset, void *to, size_t len)
{
    uint8_t *next = to;
    size_t left = len;
    for (const struct base_buffer *buffer = list->head; buffer != NULL && left > 0; buffer = buffer->next) {
        uint32_t content = base_buffer_bytes(buffer);
        if (offset >= content) {
            offset -= content;
            continue;
        }
        size_t piece = base_min(left, (size_t)(content - offset));
        memcpy(next, buffer->data + buffer->begin + offset, piece);
        next += piece;
        left -= piece;
        offset = 0;
    }
    return len - left;
}

int base_buffer_list_split(struct base_buffer_list *list, uint64_t bytes, struct base_buffer_pool *pool,
                           struct base_buffer_list *ret_front)
{
    base_assert(bytes <= list->bytes && list != ret_front);
    const struct base_buffer *boundary = list->head;
    uint64_t inside = bytes;
    for (; boundary != NULL && inside >= base_buffer_bytes(boundary); boundary = boundary->next)
        inside -= base_buffer_bytes(boundary);
    base_assert(boundary != NULL || inside == 0);
    uint64_t rest = inside == 0 ? 0 : base_buffer_bytes(boundary) - inside;
    uint64_t copied = base_min(inside, rest);
    /* Copied before anything moves, so that a failure leaves all as it was. */
    struct base_buffer_list copy = {0};
    if (copied > 0) {
        const uint8_t *from = boundary->data + boundary->begin + (inside <= rest ? 0 : inside);
        int error = base_buffer_list_copy_in(&copy, pool, from, copied);
        if (error != 0)
            return error;
    }
    while (list->head != boundary)
        base_buffer_list_append(ret_front, base_buffer_list_pop(list));
    if (inside == 0)
        return 0;
    if (inside <= rest) {
        base_buffer_list_consume(list, inside);
        base_buffer_list_move_all(ret_front, &copy);
    } else {
        struct base_buffer *front = base_buffer_list_pop(list);
        front->end -= (uint32_t)rest;
        base_buffer_list_append(ret_front, front);
        base_buffer_list_move_all(&copy, list);
        *list = copy;
    }
    return 0;
}

int base_buffer_list_vectors(const struct base_buffer_list *list, struct iovec *vectors, int vectors_max,
                             uint64_t *ret_bytes)
{
    int count = 0;
    uint64_t bytes = 0;
    for (const struct base_buffer *buffer = list->head; buffer != NULL && count < vectors_max;
         buffer = buffer->next) {
        uint32_t content = base_buffer_bytes(buffer);
        if (content == 0)
            continue;
        vectors[count++] = (struct iovec){.iov_base = buffer->data + buffer->begin, .iov_len = content};
        bytes += content;
    }
    if (ret_bytes != NULL)
        *ret_bytes = bytes;
    return count;
}

void base_buffer_list_clear(struct base_buffer_list *list)
{
    while (list->head != NULL)
        base_buffer_put(base_buffer_list_pop(list));
    list->bytes = 0;
}
