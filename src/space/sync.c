/* What barriers and queues share: their headers, and words that are read and swapped until the outcome is known. */
#include "space/sync.h"
#include <errno.h>

#define OPERATION_NS (5 * BASE_NS_PER_SECOND) /* the least time that an operation is given */
#define ZERO_WORDS   512

static uint64_t operation_end_ns(uint64_t deadline_ns)
{
    return base_max(deadline_ns, task_now() + OPERATION_NS);
}

/* Whether an operation is to be repeated, because its outcome does not count or is not known. Waits until the lease holds. */
static bool is_to_repeat(const struct tarn_space_region *region, int *error, uint64_t deadline_ns,
                         uint64_t *end_ns)
{
    if (*error == -ETIMEDOUT)
        *error = -EHOSTUNREACH;
    if (region->error != 0 || (*error != -ESTALE && (*error != -EHOSTUNREACH || task_now() >= *end_ns)))
        return false;
    if (*error == -ESTALE)
        *end_ns = operation_end_ns(deadline_ns); /* this process may have stood still for longer than that */
    const int waited = client_await_lease(region->of->space, *end_ns);
    if (waited != 0 && waited != -ETIMEDOUT)
        *error = waited;
    return waited == 0;
}

int sync_load(struct tarn_space_region *region, uint64_t offset, uint32_t count, uint64_t deadline_ns,
              uint64_t *ret_words)
{
    struct tarn_space *space = region->of->space;
    struct tarn_space_op ops[SYNC_LOAD_MAX];
    uint64_t end_ns = operation_end_ns(deadline_ns);
    int error;
    do {
        for (uint32_t i = 0; i < count;
             i++) /* a READ could bring a word of two swaps: the fabric's contract */
            ops[i] = (struct tarn_space_op){
                .kind = TARN_FABRIC_FAA, .region = region, .offset = offset + i * UINT64_C(8)};
        tarn_space_post(space, ops, count);
        error = tarn_space_wait(space, ops, count, end_ns);
    } while (is_to_repeat(region, &error, deadline_ns, &end_ns));
    for (uint32_t i = 0; i < count && error == 0; i++)
        ret_words[i] = ops[i].before;
    return error;
}

int sync_cas(struct tarn_space_region *region, uint64_t offset, uint64_t compare, uint64_t operand,
             uint64_t deadline_ns, uint64_t *ret_before)
{
    struct tarn_space *space = region->of->space;
    struct tarn_space_op op;
    uint64_t end_ns = operation_end_ns(deadline_ns);
    bool again;
    int error;
    do {
        op = (struct tarn_space_op){.kind = TARN_FABRIC_CAS,
                                    .region = region,
                                    .offset = offset,
                                    .compare = compare,
                                    .operand = operand};
        tarn_space_post(space, &op, 1);
        error = tarn_space_wait(space, &op, 1, end_ns);
        again = is_to_repeat(region, &error, deadline_ns, &end_ns);
    } while (again && !op.has_run);
    if (again) /* the lease is back, and the region was there all the time: the word is its own */
        error = 0;
    if (error == 0)
        *ret_before = op.before;
    return error;
}

/* ---- headers ------------------------------------------------------------------------------------ */

static bool has_room(const struct tarn_space_region *region, uint64_t offset, uint64_t bytes)
{
    return offset <= region->bytes && bytes <= region->bytes - offset;
}

int sync_format(struct tarn_space_region *region, uint64_t offset, uint64_t magic, uint32_t count,
                uint64_t entry_bytes, uint64_t position, uint64_t deadline_ns)
{
    static const uint64_t zeros[ZERO_WORDS];
    const uint64_t end = SYNC_HEADER_BYTES + count * entry_bytes;
    const uint64_t header[SYNC_HEADER_BYTES / 8] = {[SYNC_MAGIC / 8] = magic,
                                                    [SYNC_COUNT / 8] = count,
                                                    [SYNC_HEAD / 8] = position,
                                                    [SYNC_TAIL / 8] = position};
    if (!has_room(region, offset, end) || !base_is_aligned(region->skipped + offset, 8))
        return -EINVAL;
    if (region->memory_class != TARN_SPACE_WORDS)
        return -EACCES;
    int error = 0;
    for (uint64_t at = SYNC_HEADER_BYTES; at < end && error == 0; at += sizeof(zeros))
        error = tarn_space_write_at(region, offset + at, zeros, base_min(end - at, (uint64_t)sizeof(zeros)),
                                    deadline_ns);
    return error != 0 ? error : tarn_space_write_at(region, offset, header, SYNC_HEADER_BYTES, deadline_ns);
}

int sync_open(struct tarn_space_region *region, uint64_t offset, uint64_t magic, uint32_t count_max,
              uint64_t entry_bytes, uint64_t deadline_ns, uint32_t *ret_count)
{
    uint64_t words[2];
    int error = sync_load(region, offset + SYNC_MAGIC, 2, deadline_ns, words);
    if (error != 0)
        return error;
    if (words[0] != magic || words[1] == 0 || words[1] > count_max ||
        !has_room(region, offset, SYNC_HEADER_BYTES + words[1] * entry_bytes))
        return -EPROTO;
    *ret_count = (uint32_t)words[1];
    return 0;
}
