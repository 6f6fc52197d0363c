/* The depot's part of a checkpoint: reading and writing. */
#include "depot/checkpoint.h"
#include "depot/depot_internal.h"
#include "depot/warm.h"
#include <errno.h>

#define ITEMS_AT_ONCE 128

_Static_assert(sizeof(struct depot_index_item) == sizeof(struct depot_checkpoint_entry_format),
               "what the index gives is what is written");
_Static_assert(offsetof(struct depot_index_item, word) ==
                   offsetof(struct depot_checkpoint_entry_format, word),
               "likewise");

/* ---- reading -------------------------------------------------------------------------------------- */

struct reader {
    struct seglog *log;
    const struct depot_index *index;
    const struct depot_checkpoint_ops *ops;
    void *arg;
    struct depot_checkpoint_format head;
    uint64_t bytes;
    bool begun; /* the head was read */
    uint8_t piece[sizeof(
        struct depot_checkpoint_format)]; /* of the head or an entry, cut off by the end of a part */
    size_t piece_bytes;
};

static int take_head(struct reader *reader)
{
    const struct seglog_superblock_format *superblock = seglog_superblock(reader->log);
    memcpy(&reader->head, reader->piece, sizeof(reader->head));
    reader->begun = true;
    if (reader->head.magic != DEPOT_CHECKPOINT_MAGIC ||
        reader->head.entries > superblock->store_bytes / superblock->grain_bytes)
        return -EINVAL;
    return reader->ops->begin == NULL ? 0 : reader->ops->begin(reader->arg, &reader->head);
}

/* Hand on those that the checkpoint is about: the segments of others were freed, or their entries are
 * replayed. */
static int take_entries(struct reader *reader, const uint8_t *from, uint32_t count)
{
    struct depot_index_item items[ITEMS_AT_ONCE];
    uint32_t covered = 0;
    memcpy(items, from, count * sizeof(*items));
    for (uint32_t i = 0; i < count; i++) {
        uint64_t grain = depot_index_address(reader->index, items[i].word);
        if (seglog_is_covered(reader->log, grain))
            items[covered++] = items[i];
        else if (seglog_stamp_at(reader->log, grain) == 0)
            return -EINVAL;
    }
    return reader->ops->take(reader->arg, items, covered);
}

static int take_piece(struct reader *reader)
{
    reader->piece_bytes = 0;
    return reader->begun ? take_entries(reader, reader->piece, 1) : take_head(reader);
}

static int consume(void *arg, const void *data, uint64_t bytes)
{
    struct reader *reader = arg;
    const size_t entry_bytes = sizeof(struct depot_checkpoint_entry_format);
    int error = 0;
    reader->bytes += bytes;
    for (const uint8_t *from = data, *end = from + bytes; error == 0 && from < end;) {
        size_t left = (size_t)(end - from),
               now = base_min(left / entry_bytes, (size_t)ITEMS_AT_ONCE) * entry_bytes;
        if (reader->begun && reader->piece_bytes == 0 && now > 0) {
            error = take_entries(reader, from, (uint32_t)(now / entry_bytes));
        } else {
            size_t all = reader->begun ? entry_bytes : sizeof(reader->head);
            now = base_min(all - reader->piece_bytes, left);
            memcpy(reader->piece + reader->piece_bytes, from, now);
            reader->piece_bytes += now;
            error = reader->piece_bytes == all ? take_piece(reader) : 0;
        }
        from += now;
    }
    return error;
}

int depot_checkpoint_read(struct seglog *log, const struct depot_index *index,
                          const struct depot_checkpoint_ops *ops, void *arg,
                          struct depot_checkpoint_format *ret_head, uint64_t *ret_bytes)
{
    struct reader reader = {.log = log, .index = index, .ops = ops, .arg = arg};
    int error = seglog_checkpoint_read(log, consume, &reader);
    if (error == 0 && (!reader.begun || reader.piece_bytes != 0))
        error = -EINVAL;
    if (error == 0)
        *ret_head = reader.head;
    if (ret_bytes != NULL)
        *ret_bytes = reader.bytes;
    return error;
}

/* ---- writing -------------------------------------------------------------------------------------- */

uint64_t depot_checkpoint_bytes(void *owner)
{
    struct tarn_depot *depot = owner;
    return sizeof(struct depot_checkpoint_format) +
           depot_index_count(&depot->index) * sizeof(struct depot_checkpoint_entry_format);
}

/* Read when the moment that the checkpoint is about is over: what it covers was counted before. */
static struct depot_checkpoint_format make_head(struct tarn_depot *depot)
{
    bool matched =
        depot->stopped && !depot->cache && !atomic_load_explicit(&depot->orphans, memory_order_relaxed);
    return (struct depot_checkpoint_format){
        .magic = DEPOT_CHECKPOINT_MAGIC,
        .entries = depot_index_count(&depot->index),
        .pieces = atomic_load_explicit(&depot->pieces, memory_order_relaxed),
        .matched_sequence =
            matched ? atomic_load_explicit(&depot->gone_sequence, memory_order_relaxed) : DEPOT_NOT_MATCHED};
}

int depot_checkpoint(void *owner, struct seglog_checkpoint *checkpoint)
{
    struct tarn_depot *depot = owner;
    struct base_account *account = &depot->node->memory;
    const size_t items_bytes = DEPOT_INDEX_BATCH_MAX * sizeof(struct depot_index_item);
    const struct depot_checkpoint_format head = make_head(depot);
    struct depot_index_item *items = base_alloc(account, items_bytes);
    if (items == NULL)
        return -ENOMEM;
    int error = seglog_checkpoint_put(checkpoint, &head, sizeof(head));
    for (struct depot_index_cursor cursor = {.region = 0}; error == 0 && !cursor.end;) {
        uint32_t count = depot_index_next(&depot->index, &cursor, items);
        if (depot->stopped)
            depot_warming_mark(depot, items, count);
        error = seglog_checkpoint_put(checkpoint, items, count * sizeof(*items));
        task_yield();
    }
    base_free(account, items, items_bytes);
    return error;
}
