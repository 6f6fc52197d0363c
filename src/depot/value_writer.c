/* Values that are written piece by piece: a buffer, pieces, and the head when all is there. */
#include "depot/depot_internal.h"
#include <errno.h>

#define WRITERS_MAX 64

struct tarn_depot_writer {
    struct tarn_depot *depot;
    struct tarn_put_options options;
    struct depot_chain chain; /* id 0: all that has come is in the buffer */
    uint64_t value_bytes;     /* that shall come, or TARN_LENGTH_UNKNOWN */
    uint64_t given_bytes;     /* that have come */
    int error;                /* the first */
    uint8_t *buffer;
    size_t buffer_room; /* of the longest value that is one record, or of a piece */
    size_t buffer_used;
    size_t key_len;
    uint8_t key[];
};

static void free_writer(struct tarn_depot_writer *writer)
{
    struct tarn_depot *depot = writer->depot;
    base_free(&depot->node->memory, writer->buffer, writer->buffer_room);
    base_free(&depot->node->memory, writer, sizeof(*writer) + writer->key_len);
    atomic_fetch_sub_explicit(&depot->writers, 1, memory_order_relaxed);
}

static int make_writer(struct tarn_depot *depot, const void *key, size_t key_len,
                       struct tarn_depot_writer **ret_writer)
{
    struct tarn_depot_writer *writer = base_alloc(&depot->node->memory, sizeof(*writer) + key_len);
    if (writer == NULL)
        return -ENOMEM;
    *writer = (struct tarn_depot_writer){.depot = depot,
                                         .buffer_room =
                                             base_max(depot->whole_bytes_max, (uint64_t)depot->piece_bytes),
                                         .key_len = key_len};
    memcpy(writer->key, key, key_len);
    writer->buffer = base_alloc(&depot->node->memory, writer->buffer_room);
    if (writer->buffer == NULL) {
        base_free(&depot->node->memory, writer, sizeof(*writer) + key_len);
        return -ENOMEM;
    }
    *ret_writer = writer;
    return 0;
}

/* What would be refused at the end, however much was written, is refused at once. */
static int look_first(struct tarn_depot *depot, const void *key, size_t key_len,
                      const struct tarn_put_options *options, uint64_t value_bytes)
{
    if (!depot_key_is_valid(key_len) || options->note > TARN_NOTE_MAX)
        return -EINVAL;
    if (value_bytes != TARN_LENGTH_UNKNOWN && value_bytes > tarn_depot_value_bytes_max(depot))
        return -EMSGSIZE;
    if (depot->read_only || seglog_failed(depot->log))
        return -EROFS;
    depot_flush_due(depot);
    const struct depot_key found_key = depot_key_of(depot, key, key_len);
    return depot_condition_look(depot, &found_key, options);
}

int tarn_depot_writer_open(struct tarn_depot *depot, const void *key, size_t key_len,
                           const struct tarn_put_options *options, uint64_t value_bytes,
                           struct tarn_depot_writer **ret_writer)
{
    static const struct tarn_put_options any = {.condition = TARN_PUT_ANY};
    struct tarn_depot_writer *writer;
    if (options == NULL)
        options = &any;
    int error = look_first(depot, key, key_len, options, value_bytes);
    if (error != 0)
        return error;
    if (atomic_fetch_add_explicit(&depot->writers, 1, memory_order_relaxed) >= WRITERS_MAX)
        error = -EBUSY;
    if (error == 0)
        error = make_writer(depot, key, key_len, &writer);
    if (error != 0) {
        atomic_fetch_sub_explicit(&depot->writers, 1, memory_order_relaxed);
        return error;
    }
    writer->options = *options;
    writer->value_bytes = value_bytes;
    if (value_bytes != TARN_LENGTH_UNKNOWN && value_bytes > depot->whole_bytes_max)
        error = depot_chain_begin(depot, value_bytes, &writer->chain);
    if (error != 0)
        free_writer(writer);
    else
        *ret_writer = writer;
    return error;
}

/* Write the pieces that the buffer has whole; at the end the last one, too. */
static int put_pieces(struct tarn_depot_writer *writer, bool at_end)
{
    struct tarn_depot *depot = writer->depot;
    size_t done = 0;
    int error = writer->chain.id == 0 ? depot_chain_begin(depot, 0, &writer->chain) : 0;
    while (error == 0 && done < writer->buffer_used) {
        size_t bytes = base_min(writer->buffer_used - done, (size_t)depot->piece_bytes);
        if (bytes < depot->piece_bytes && !at_end)
            break;
        error = depot_chain_add(depot, &writer->chain, writer->buffer + done, (uint32_t)bytes);
        done += bytes;
    }
    memmove(writer->buffer, writer->buffer + done, writer->buffer_used - done);
    writer->buffer_used -= done;
    return error;
}

/* Nothing of it will be there. @return error */
static int fail(struct tarn_depot_writer *writer, int error)
{
    writer->error = error;
    return error;
}

int tarn_depot_writer_write(struct tarn_depot_writer *writer, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    uint64_t most = base_min(writer->value_bytes, tarn_depot_value_bytes_max(writer->depot));
    if (writer->error != 0)
        return writer->error;
    if (bytes > most - writer->given_bytes)
        return fail(writer, -EMSGSIZE);
    writer->given_bytes += bytes;
    while (bytes > 0) {
        size_t taken = base_min(bytes, writer->buffer_room - writer->buffer_used);
        memcpy(writer->buffer + writer->buffer_used, from, taken);
        writer->buffer_used += taken;
        from += taken;
        bytes -= taken;
        int error = bytes > 0 ? put_pieces(writer, false) : 0;
        if (error != 0)
            return fail(writer, error);
    }
    return 0;
}

static int commit(struct tarn_depot_writer *writer, uint64_t *ret_version)
{
    struct tarn_depot *depot = writer->depot;
    if (writer->error != 0)
        return writer->error;
    if (writer->value_bytes != TARN_LENGTH_UNKNOWN && writer->given_bytes != writer->value_bytes)
        return -ENODATA;
    if (writer->given_bytes <= depot->whole_bytes_max) {
        const struct depot_content content =
            depot_content_of(&writer->options, writer->buffer, writer->buffer_used);
        return depot_value_write(depot, writer->key, writer->key_len, &writer->options, &content,
                                 ret_version);
    }
    int error = put_pieces(writer, true);
    return error == 0 ? depot_chain_commit(depot, writer->key, writer->key_len, &writer->options,
                                           &writer->chain, ret_version)
                      : error;
}

int tarn_depot_writer_commit(struct tarn_depot_writer *writer, uint64_t *ret_version)
{
    int error = commit(writer, ret_version);
    if (error != 0)
        depot_chain_drop(writer->depot, &writer->chain);
    free_writer(writer);
    return error;
}

void tarn_depot_writer_abort(struct tarn_depot_writer *writer)
{
    depot_chain_drop(writer->depot, &writer->chain);
    free_writer(writer);
}
