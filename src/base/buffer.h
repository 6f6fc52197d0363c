/*
 * Buffers for I/O, and lists of them.
 *
 * A pool carves equal buffers, aligned to 4,096, from one contiguous arena, so that the arena can be
 * registered as a whole with io_uring or a card. A buffer has exactly one owner at a time: the caller that got it
 * from the pool, or the list that it was appended to; consuming, clearing or putting returns it. Pool,
 * buffers and lists belong to one scheduler: no locks, no reference counts. A buffer may also wrap the
 * caller's own memory (pool NULL); then putting it does nothing, and the caller keeps both alive until the
 * list has let go of it.
 *
 *      data            begin        end          capacity
 *       |  consumed     |  content   |  room         |
 */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <sys/uio.h>

#include "base/account.h"

struct base_buffer_pool;

struct base_buffer {
    struct base_buffer *next; /* in a list or in the free list */
    uint8_t *data;
    uint32_t capacity;
    uint32_t begin;
    uint32_t end;
    int32_t region;                /* index of the registered memory that holds data; -1: none */
    struct base_buffer_pool *pool; /* NULL: the caller's memory */
};

struct base_buffer_pool {
    struct base_account *account;
    uint8_t *arena;
    struct base_buffer *buffers;
    struct base_buffer *free;
    uint32_t buffer_bytes;
    uint32_t count;
    uint32_t free_count;
};

/** All zero is an empty list. */
struct base_buffer_list {
    struct base_buffer *head;
    struct base_buffer *tail; /* undefined while head is NULL */
    uint64_t bytes;           /* content of all */
};

/**
 * Make a pool; takes and touches all its memory now.
 *
 * @param account       outlives the pool
 * @param buffer_bytes  capacity of each, a multiple of 4,096
 * @param count         number of buffers, at least 1
 * @return 0; -ENOMEM
 */
int base_buffer_pool_init(struct base_buffer_pool *pool, struct base_account *account, uint32_t buffer_bytes,
                          uint32_t count) base_must_check;

/**
 * Free a pool. Every buffer must be back, which is asserted.
 */
void base_buffer_pool_deinit(struct base_buffer_pool *pool);

/**
 * Bytes of the arena: buffer_bytes * count.
 */
uint64_t base_buffer_pool_arena_bytes(const struct base_buffer_pool *pool);

/**
 * Note that the arena is registered memory; every buffer carries the index from now on.
 *
 * @param region  index of the registration; -1: none
 */
void base_buffer_pool_set_region(struct base_buffer_pool *pool, int32_t region);

/**
 * Get an empty buffer. The caller owns it.
 *
 * @return the buffer; NULL if all are out
 */
struct base_buffer *base_buffer_get(struct base_buffer_pool *pool) base_must_check;

/**
 * Return a buffer that is in no list to its pool; one that wraps the caller's memory is left alone.
 */
void base_buffer_put(struct base_buffer *buffer);

/**
 * Make a buffer of the caller's memory, empty and without a pool.
 *
 * @param data, capacity  stay the caller's, and alive while the buffer is used
 */
void base_buffer_wrap(struct base_buffer *buffer, void *data, uint32_t capacity);

/**
 * Bytes of content.
 */
static inline uint32_t base_buffer_bytes(const struct base_buffer *buffer)
{
    return buffer->end - buffer->begin;
}

/**
 * Bytes of room behind the content.
 */
static inline uint32_t base_buffer_room(const struct base_buffer *buffer)
{
    return buffer->capacity - buffer->end;
}

/**
 * Make an empty list.
 */
void base_buffer_list_init(struct base_buffer_list *list);

/**
 * Append a buffer with its content; the list owns it. Its content may be changed only through the list then.
 */
void base_buffer_list_append(struct base_buffer_list *list, struct base_buffer *buffer);

/**
 * Take the first buffer out, with its content; the caller owns it.
 *
 * @return the buffer; NULL if the list is empty
 */
struct base_buffer *base_buffer_list_pop(struct base_buffer_list *list);

/**
 * Move all buffers of `from` behind those of `list`; `from` is empty afterwards.
 */
void base_buffer_list_move_all(struct base_buffer_list *list, struct base_buffer_list *from);

/**
 * Drop bytes from the front; buffers that become empty go back to their pools.
 *
 * @param bytes  at most those in the list
 */
void base_buffer_list_consume(struct base_buffer_list *list, uint64_t bytes);

/**
 * Append a copy of bytes: into the room of the last buffer, if that is of the same pool, then into new ones.
 *
 * @param pool       where new buffers come from
 * @param data, len  borrowed until return
 * @return 0; -ENOBUFS (too few buffers; nothing appended)
 */
int base_buffer_list_copy_in(struct base_buffer_list *list, struct base_buffer_pool *pool, const void *data,
                             size_t len) base_must_check;

/**
 * Copy content out, without consuming it.
 *
 * @param offset  from the front
 * @param to, len destination
 * @return bytes copied: less than len if the list ends before
 */
size_t base_buffer_list_copy_out(const struct base_buffer_list *list, uint64_t offset, void *to, size_t len);

/**
 * Move the first bytes of a list to the end of another. A buffer on the boundary is cut in two: the shorter
 * part of its content is copied to a buffer of `pool`.
 *
 * @param bytes      at most those in the list
 * @param pool       used only if the boundary lies inside a buffer
 * @param ret_front  an initialised list, not the same one
 * @return 0; -ENOBUFS (nothing moved)
 */
int base_buffer_list_split(struct base_buffer_list *list, uint64_t bytes, struct base_buffer_pool *pool,
                           struct base_buffer_list *ret_front) base_must_check;

/**
 * Describe the content for a vectored system call. Empty buffers are left out.
 *
 * @param vectors, vectors_max  destination
 * @param ret_bytes             content described; all of it if vectors_max sufficed. May be NULL
 * @return vectors filled in
 */
int base_buffer_list_vectors(const struct base_buffer_list *list, struct iovec *vectors, int vectors_max,
                             uint64_t *ret_bytes);

/**
 * Return all buffers to their pools; the list is empty afterwards.
 */
void base_buffer_list_clear(struct base_buffer_list *list);

#endif
