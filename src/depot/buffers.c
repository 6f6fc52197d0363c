/*
 * The buffers that records are read into, and leases of them.
 *
 *              take                      give
 *   free list ──────▶ a reader's buffer ──────▶ free list          readers wait in order when there is none
 *                          │ depot_lease_keep: one more is made, unless there is a spare one
 *                          ▼                 tarn_depot_lease_end
 *                     on lease ─────────────────────────▶ free list
 *
 * So what is on lease is never missing to those who read: leased <= extra, and `count` of count + extra
 * buffers are the readers'.
 */
#include "depot/depot_internal.h"
#include <errno.h>

#define LARGE_BUFFERS     2
#define MIDDLE_BUFFERS    16
#define MIDDLE_BYTES      (UINT64_C(128) << 10)
#define SMALL_BUFFERS_MIN 16
#define SMALL_BUFFERS_MAX 256
#define LEASED_SHARE      16 /* of the node's memory that may be on lease, … */
#define LEASED_BYTES_MAX  (UINT64_C(64) << 20)

/* ---- buffers --------------------------------------------------------------------------------------- */

/* A reader without a buffer, on its stack. */
struct reader {
    struct task_wait wait;
    uint8_t *buffer;
};

/* Free buffers form a list through their first words. */
static void push_free(struct depot_read_class *class, uint8_t *buffer)
{
    memcpy(buffer, &class->free, sizeof(class->free));
    class->free = buffer;
}

static uint8_t *pop_free(struct depot_read_class *class)
{
    uint8_t *buffer = class->free;
    if (buffer != NULL)
        memcpy(&class->free, buffer, sizeof(class->free));
    return buffer;
}

static int init_class(struct tarn_depot *depot, struct depot_read_class *class, uint64_t buffer_bytes,
                      uint32_t count)
{
    uint8_t *memory = drive_memory_alloc(depot->node, depot->drive, buffer_bytes * count);
    if (memory == NULL)
        return -ENOMEM;
    *class = (struct depot_read_class){
        .buffer_bytes = buffer_bytes, .count = count, .memory = memory, .depot = depot};
    base_spin_init(&class->lock);
    base_list_init(&class->readers);
    for (uint32_t i = 0; i < count; i++)
        push_free(class, memory + i * buffer_bytes);
    return 0;
}

static void deinit_class(struct tarn_depot *depot, struct depot_read_class *class)
{
    const uint64_t bytes = class->buffer_bytes * class->count;
    uint8_t *buffer;
    base_assert(base_list_empty(&class->readers) && class->leased == 0);
    while ((buffer = pop_free(class)) != NULL) {
        if ((uintptr_t)buffer - (uintptr_t) class->memory >= bytes) /* below it too: it wraps around */
            base_free(&depot->leases, buffer, class->buffer_bytes);
    }
    base_free(&depot->node->memory, class->memory, bytes);
}

static void give(struct depot_read_class *class, uint8_t *buffer)
{
    base_spin_lock(&class->lock);
    struct base_list *first = base_list_pop_front(&class->readers);
    if (first != NULL) {
        struct reader *reader = base_container_of(first, struct reader, wait.link);
        reader->buffer = buffer;
        base_assert(task_wait_wake(&reader->wait, 0));
    } else {
        push_free(class, buffer);
    }
    base_spin_unlock(&class->lock);
}

/* A read begins and ends at blocks of the drive, and may be longer than the record by its length class. */
static uint64_t large_bytes(const struct tarn_depot *depot)
{
    uint64_t unit = drive_info(depot->drive)->logical_block_bytes;
    return base_align_up(depot->record_bytes_max + 2 * unit, BASE_PAGE_BYTES);
}

int depot_buffers_init(struct tarn_depot *depot)
{
    const uint64_t large = large_bytes(depot);
    const uint64_t wanted = large / (DEPOT_READ_SMALL_BYTES / 2);
    const struct {
        uint64_t bytes;
        uint32_t count;
    } classes[] = {
        {DEPOT_READ_SMALL_BYTES, (uint32_t)base_min(base_max(wanted, SMALL_BUFFERS_MIN), SMALL_BUFFERS_MAX)},
        {MIDDLE_BYTES, large >= 4 * MIDDLE_BYTES ? MIDDLE_BUFFERS : 0},
        {large, LARGE_BUFFERS},
    };
    base_account_init_user(&depot->leases, &depot->node->memory, "leases",
                           base_min(depot->node->memory.cap_bytes / LEASED_SHARE, LEASED_BYTES_MAX));
    for (size_t i = 0; i < base_array_count(classes); i++) {
        if (classes[i].count == 0)
            continue;
        int error =
            init_class(depot, &depot->buffers[depot->buffer_classes], classes[i].bytes, classes[i].count);
        if (error != 0) {
            depot_buffers_deinit(depot);
            return error;
        }
        depot->buffer_classes++;
    }
    return 0;
}

void depot_buffers_deinit(struct tarn_depot *depot)
{
    while (depot->buffer_classes > 0)
        deinit_class(depot, &depot->buffers[--depot->buffer_classes]);
    base_account_deinit(&depot->leases);
}

uint64_t depot_buffers_memory(const struct tarn_depot *depot)
{
    uint64_t bytes = base_account_used(&depot->leases);
    for (uint32_t i = 0; i < depot->buffer_classes; i++)
        bytes += depot->buffers[i].count * depot->buffers[i].buffer_bytes;
    return bytes;
}

struct depot_read_class *depot_buffer_take(struct tarn_depot *depot, uint64_t bytes, bool wait,
                                           uint8_t **ret_buffer)
{
    struct depot_read_class *class = depot->buffers;
    struct reader reader;
    while (bytes > class->buffer_bytes)
        class ++;
    base_assert(class < depot->buffers + depot->buffer_classes);
    base_spin_lock(&class->lock);
    reader.buffer = pop_free(class);
    if (reader.buffer == NULL && wait) {
        task_wait_init(&reader.wait);
        base_list_push_back(&class->readers, &reader.wait.link);
        base_spin_unlock(&class->lock);
        (void)task_wait_park_firmly(&reader.wait);
    } else {
        base_spin_unlock(&class->lock);
    }
    *ret_buffer = reader.buffer;
    return reader.buffer != NULL ? class : NULL;
}

void depot_record_release(struct depot_record *record)
{
    if (record->class != NULL)
        give(record->class, record->buffer);
    if (record->page != NULL)
        depot_hot_unpin(record->page);
    record->class = NULL;
    record->page = NULL;
}

/* ---- leases ---------------------------------------------------------------------------------------- */

/* One more on lease. @return whether a buffer is to be made for it */
static bool count_lease(struct depot_read_class *class)
{
    base_spin_lock(&class->lock);
    bool grows = class->leased++ == class->extra;
    class->extra += grows;
    base_spin_unlock(&class->lock);
    return grows;
}

/* One less. @param unmade  the buffer for it could not be made */
static void uncount_lease(struct depot_read_class *class, bool unmade)
{
    base_spin_lock(&class->lock);
    base_assert(class->leased > 0 && class->leased <= class->extra);
    class->leased--;
    class->extra -= unmade;
    base_spin_unlock(&class->lock);
}

bool depot_lease_keep(struct tarn_lease *lease)
{
    struct depot_read_class *class = lease->pool;
    base_assert(lease->buffer != NULL && !lease->kept);
    if (class == NULL)
        return lease->kept = depot_hot_keep(lease->buffer);
    struct tarn_depot *depot = class->depot;
    if (count_lease(class)) {
        uint8_t *buffer =
            base_alloc_aligned(&depot->leases, drive_memory_alignment(depot->drive), class->buffer_bytes);
        if (buffer == NULL) {
            uncount_lease(class, true);
            return false;
        }
        give(class, buffer);
    }
    lease->kept = true;
    return true;
}

int depot_lease_record(struct depot_record *record, uint64_t offset, uint64_t bytes,
                       struct tarn_lease *ret_lease)
{
    struct tarn_lease lease = depot_lease_of(record);
    lease.data = record->value + offset;
    lease.bytes = bytes;
    if (!depot_lease_keep(&lease))
        return -ENOBUFS;
    record->class = NULL;
    record->page = NULL;
    *ret_lease = lease;
    return 0;
}

void tarn_depot_lease_end(struct tarn_lease *lease)
{
    struct depot_read_class *class = lease->pool;
    if (lease->kept && class == NULL) {
        depot_hot_unkeep(lease->buffer);
    } else if (lease->kept) { /* of an empty value there is nothing */
        uncount_lease(class, false);
        give(class, lease->buffer);
    }
    *lease = (struct tarn_lease){.data = NULL};
}
