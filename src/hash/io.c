/* Steps: operations of the space that are posted together and waited for; and swaps whose outcome was lost. */
#include "hash/hash_internal.h"

static struct tarn_space_op *add_op(struct hash_io *io, enum tarn_fabric_op_kind kind,
                                    struct tarn_space_region *region, uint64_t offset)
{
    base_assert(io->count < HASH_IO_MAX);
    struct tarn_space_op *op = &io->ops[io->count++];
    *op = (struct tarn_space_op){.kind = kind, .region = region, .offset = offset};
    return op;
}

static void set_memory(struct hash_io *io, struct tarn_space_op *op, void *memory, uint64_t bytes)
{
    struct iovec *iov = &io->iov[op - io->ops];
    *iov = (struct iovec){.iov_base = memory, .iov_len = bytes};
    op->iov = iov;
    op->iov_count = 1;
}

void hash_io_read(struct hash_io *io, struct tarn_space_region *region, uint64_t offset, void *memory,
                  uint64_t bytes)
{
    set_memory(io, add_op(io, TARN_FABRIC_READ, region, offset), memory, bytes);
}

void hash_io_write(struct hash *hash, struct hash_io *io, struct tarn_space_region *region, uint64_t offset,
                   const void *memory, uint64_t bytes)
{
    struct tarn_space_op *op = add_op(io, TARN_FABRIC_WRITE, region, offset);
    set_memory(io, op, (void *)(uintptr_t)memory, bytes); /* a WRITE changes nothing there */
    op->session = hash->session;
}

void hash_io_swap(struct hash *hash, struct hash_io *io, struct tarn_space_region *region, uint64_t offset,
                  uint64_t before, uint64_t after)
{
    struct tarn_space_op *op = add_op(io, TARN_FABRIC_CAS, region, offset);
    op->compare = before;
    op->operand = after;
    op->session = hash->session;
}

int hash_io_run(struct hash *hash, struct hash_io *io, uint64_t deadline_ns)
{
    tarn_space_post(hash->space, io->ops, io->count);
    return tarn_space_wait(hash->space, io->ops, io->count, deadline_ns);
}

struct hash_io *hash_io_get(struct hash *hash)
{
    if (base_list_empty(&hash->free_io))
        return base_alloc(&hash->node->memory, sizeof(struct hash_io));
    struct hash_io *io = base_container_of(base_list_pop_front(&hash->free_io), struct hash_io, link);
    io->count = 0;
    return io;
}

void hash_io_put(struct hash *hash, struct hash_io *io)
{
    base_list_push_front(&hash->free_io, &io->link);
}

int hash_read(struct tarn_space_region *region, uint64_t offset, void *memory, uint64_t bytes,
              uint64_t deadline_ns)
{
    uint64_t pause_ns = 0;
    for (;;) {
        int error = tarn_space_read_at(region, offset, memory, bytes, deadline_ns);
        if (error != -EHOSTUNREACH)
            return error;
        if (task_back_off(&pause_ns, deadline_ns) != 0)
            return error;
    }
}

int hash_read_words(struct hash *hash, struct tarn_space_region *region, uint64_t offset, uint64_t *words,
                    uint64_t count, uint64_t deadline_ns)
{
    struct tarn_space_info info;
    tarn_space_info(region, &info);
    if (info.whole_words)
        return hash_read(region, offset, words, count * sizeof(*words), deadline_ns);
    struct hash_io *io = hash_io_get(hash);
    if (io == NULL)
        return -ENOMEM;
    uint64_t done = 0, pause_ns = 0;
    int error = 0;
    while (done < count && error == 0) {
        io->count = 0;
        for (uint64_t i = done; i < count && io->count < HASH_IO_MAX; i++)
            hash_io_read(io, region, offset + i * sizeof(*words), &words[i], sizeof(*words));
        error = hash_io_run(hash, io, deadline_ns);
        if (error == 0)
            done += io->count;
        else if (error == -EHOSTUNREACH)
            error = task_back_off(&pause_ns, deadline_ns) == 0 ? 0 : error;
    }
    hash_io_put(hash, io);
    return error;
}

int hash_write(struct hash *hash, uint64_t session, struct tarn_space_region *region, uint64_t offset,
               const void *memory, uint64_t bytes, uint64_t deadline_ns)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)memory, .iov_len = bytes};
    struct tarn_space_op op = {.kind = TARN_FABRIC_WRITE,
                               .region = region,
                               .offset = offset,
                               .iov = &iov,
                               .iov_count = 1,
                               .session = session};
    tarn_space_post(hash->space, &op, 1);
    return tarn_space_wait(hash->space, &op, 1, deadline_ns);
}

/* Swap a word once. @param ret_before  the word before, if its outcome counts */
static int swap_once(struct hash *hash, uint64_t session, struct tarn_space_region *region, uint64_t offset,
                     uint64_t before, uint64_t after, uint64_t deadline_ns, uint64_t *ret_before)
{
    struct tarn_space_op op = {.kind = TARN_FABRIC_CAS,
                               .region = region,
                               .offset = offset,
                               .compare = before,
                               .operand = after,
                               .session = session};
    tarn_space_post(hash->space, &op, 1);
    int error = tarn_space_wait(hash->space, &op, 1, deadline_ns);
    if (error == 0)
        *ret_before = op.before;
    return error;
}

int hash_settle(struct hash *hash, const struct tarn_space_op *op, uint64_t bumped, uint64_t deadline_ns)
{
    uint64_t found, pause_ns = 0;
    int error;
    for (;;) {
        error = op->session == tarn_space_session(hash->space)
                    ? swap_once(hash, op->session, op->region, op->offset, op->compare, bumped, deadline_ns,
                                &found)
                    : -ESTALE;
        if (error == 0)
            break;
        if (error == -ESTALE && op->session != tarn_space_session(hash->space))
            return -ESTALE;
        if (error == -ENODATA)
            return error; /* the word is gone, with all that is there */
        if (error == -ETIMEDOUT || error == -ECANCELED || task_back_off(&pause_ns, deadline_ns) != 0)
            return -ETIMEDOUT;
    }
    if (found == op->operand || (found == op->compare && bumped == op->operand))
        return 0;
    /* where the outcome of this swap to the other word was lost, and it is repeated, it finds that word */
    return found == op->compare || found == bumped ? -EAGAIN : -ECONNRESET;
}

int hash_swap(struct hash *hash, uint64_t session, struct tarn_space_region *region, uint64_t offset,
              uint64_t before, uint64_t after, uint64_t bumped, uint64_t deadline_ns)
{
    const struct tarn_space_op op = {
        .region = region, .offset = offset, .compare = before, .operand = after, .session = session};
    uint64_t found;
    int error = swap_once(hash, session, region, offset, before, after, deadline_ns, &found);
    if (error != 0)
        return hash_settle(hash, &op, bumped, deadline_ns);
    return found == before ? 0 : -EAGAIN;
}
