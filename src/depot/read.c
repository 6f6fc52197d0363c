/* Reading records: buffers of two sizes, taken when the store opens; a reader that finds none waits. */
#include "depot/depot_internal.h"
#include <errno.h>
#include <inttypes.h>

#define LARGE_BUFFERS 2

/* A reader without a buffer, on its stack. */
struct depot_reader {
    struct task_wait wait;
    uint8_t *buffer;
};

/* Free buffers form a list through their first words. */
static void push_free(struct depot_read_class *class, uint8_t *buffer)
{
    memcpy(buffer, &class->free, sizeof(class->free));
    class->free = buffer;
}

static int init_class(struct tarn_depot *depot, struct depot_read_class *class, uint64_t buffer_bytes,
                      uint32_t count)
{
    size_t alignment = base_max(BASE_PAGE_BYTES, drive_info(depot->drive)->memory_alignment_bytes);
    uint8_t *memory = base_alloc_aligned(&depot->node->memory, alignment, buffer_bytes * count);
    if (memory == NULL)
        return -ENOMEM;
    *class = (struct depot_read_class){.buffer_bytes = buffer_bytes, .count = count, .memory = memory};
    base_spin_init(&class->lock);
    base_list_init(&class->readers);
    for (uint32_t i = 0; i < count; i++)
        push_free(class, memory + i * buffer_bytes);
    return 0;
}

static void deinit_class(struct tarn_depot *depot, struct depot_read_class *class)
{
    base_assert(base_list_empty(&class->readers));
    base_free(&depot->node->memory, class->memory, class->buffer_bytes * class->count);
}

static uint8_t *take(struct depot_read_class *class)
{
    struct depot_reader reader;
    base_spin_lock(&class->lock);
    reader.buffer = class->free;
    if (reader.buffer != NULL) {
        memcpy(&class->free, reader.buffer, sizeof(class->free));
        base_spin_unlock(&class->lock);
        return reader.buffer;
    }
    task_wait_init(&reader.wait);
    base_list_push_back(&class->readers, &reader.wait.link);
    base_spin_unlock(&class->lock);
    (void)task_wait_park_firmly(&reader.wait);
    return reader.buffer;
}

static void give(struct depot_read_class *class, uint8_t *buffer)
{
    base_spin_lock(&class->lock);
    struct base_list *first = base_list_pop_front(&class->readers);
    if (first != NULL) {
        struct depot_reader *reader = base_container_of(first, struct depot_reader, wait.link);
        reader->buffer = buffer;
        base_assert(task_wait_wake(&reader->wait, 0));
    } else {
        push_free(class, buffer);
    }
    base_spin_unlock(&class->lock);
}

int depot_read_init(struct tarn_depot *depot)
{
    uint64_t group_bytes = depot->superblock.group_bytes;
    int error = init_class(depot, &depot->small, DEPOT_READ_SMALL_BYTES,
                           (uint32_t)(group_bytes / DEPOT_READ_SMALL_BYTES));
    if (error != 0)
        return error;
    /* a record with what surrounds it in its blocks lies within a group */
    error = init_class(depot, &depot->large, group_bytes, LARGE_BUFFERS);
    if (error != 0)
        deinit_class(depot, &depot->small);
    return error;
}

void depot_read_deinit(struct tarn_depot *depot)
{
    deinit_class(depot, &depot->small);
    deinit_class(depot, &depot->large);
}

static int damaged(struct tarn_depot *depot, uint64_t address)
{
    char path[DEPOT_PATH_ROOM];
    base_error_limited(&depot->node->log, &depot->damage_limit, "a record is damaged",
                       "path=%s offset=%" PRIu64, depot_path(path, depot->drive), address);
    return -EBADMSG;
}

/* Check that the bytes are the record that the index means, and copy its value. */
static int verify(struct tarn_depot *depot, const struct depot_entry *entry, const uint8_t *bytes,
                  uint64_t room, const void *key, size_t key_len, void *value)
{
    struct depot_record_format record;
    int error = depot_record_verify(bytes, room, depot->superblock.check_seed, &record);
    if (error != 0 || record.kind != DEPOT_PUT || record.version != entry->version ||
        record.value_bytes != entry->value_bytes || record.key_bytes != key_len ||
        memcmp(bytes + sizeof(record), key, key_len) != 0)
        return damaged(depot, entry->address);
    if (record.value_bytes > 0)
        memcpy(value, bytes + sizeof(record) + key_len, record.value_bytes);
    return 0;
}

int depot_read_value(struct tarn_depot *depot, const struct depot_entry *entry, const void *key,
                     size_t key_len, void *value)
{
    uint64_t unit = drive_info(depot->drive)->logical_block_bytes;
    uint64_t bytes = depot_record_bytes((uint32_t)key_len, entry->value_bytes);
    uint64_t begin = base_align_down(entry->address, unit);
    uint64_t span = base_align_up(entry->address + bytes, unit) - begin;
    struct depot_read_class *class = span <= depot->small.buffer_bytes ? &depot->small : &depot->large;
    uint8_t *buffer = take(class);
    uint64_t begin_ns = depot_stage_begin(&depot->stages);
    int error = drive_read(depot->drive, begin, buffer, span);
    begin_ns = depot_stage_end(&depot->stages, DEPOT_STAGE_READ, begin_ns);
    if (error == 0)
        error = verify(depot, entry, buffer + (entry->address - begin), bytes, key, key_len, value);
    depot_stage_end(&depot->stages, DEPOT_STAGE_VERIFY, begin_ns);
    give(class, buffer);
    return error;
}
