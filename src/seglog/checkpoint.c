/*
 * The checkpoint: bytes of the owner's that a session leaves behind, in a chain of free segments that only
 * the state of its end names. Whatever is wrong with it costs time, never data.
 */
#include "seglog/seglog_internal.h"
#include <errno.h>
#include <inttypes.h>

#define BUFFER_BYTES (UINT64_C(1) << 20)
#define PIECE_BYTES  (UINT64_C(64) << 10) /* what is checked at once, see seglog_format.h */

/* Bytes of the checkpoint in each of its segments: all behind the block of the header. */
static uint64_t payload_bytes(const struct seglog *log)
{
    return log->superblock.segment_bytes - log->superblock.block_bytes;
}

static uint32_t number_of(const struct seglog *log, const struct seglog_segment *segment)
{
    return (uint32_t)(segment - log->segments);
}

/* ---- finding it ---------------------------------------------------------------------------------- */

/* Read the header of a link of the chain. @return 0; -EBADMSG: it is another; the drive's error */
static int read_link(struct seglog *log, uint32_t number, uint64_t stamp, uint8_t *memory,
                     struct seglog_segment_format *ret_header)
{
    int error = -EBADMSG;
    for (int try = 0; error != 0 && try < SEGLOG_READ_TRIES; try++) {
        error = seglog_drive_read(log->drive, seglog_segment_offset(log, number), memory,
                                  log->superblock.block_bytes);
        if (error != 0)
            continue;
        error = seglog_segment_parse(memory, log->superblock.check_seed, number, ret_header);
        if (error != 0 || ret_header->kind != SEGLOG_SEGMENT_CHECKPOINT || ret_header->stamp != stamp ||
            ret_header->session != log->state->session)
            error = -EBADMSG;
    }
    return error;
}

/* @return whether the chain is whole; its segments are CHECKPOINT then, else some of them */
static bool claim_chain(struct seglog *log, uint8_t *memory)
{
    const struct seglog_state_format *state = log->state;
    uint32_t number = state->checkpoint_segment;
    uint64_t stamp = state->checkpoint_stamp;
    for (uint64_t left = state->checkpoint_bytes; left > 0; left -= base_min(left, payload_bytes(log))) {
        struct seglog_segment_format header;
        if (number >= log->superblock.segment_count || stamp <= state->freed_stamps[number] ||
            log->segments[number].state != SEGLOG_STATE_FREE || log->segments[number].stamp != stamp ||
            read_link(log, number, stamp, memory, &header) != 0)
            return false;
        log->segments[number].state = SEGLOG_STATE_CHECKPOINT;
        number = header.next_segment;
        stamp = header.next_stamp;
    }
    return number == SEGLOG_NO_SEGMENT;
}

int seglog_checkpoint_claim(struct seglog *log, void *memory)
{
    const struct seglog_state_format *state = log->state;
    if ((state->flags & SEGLOG_STATE_ENDED) == 0 || state->checkpoint_stamp == 0 || claim_chain(log, memory))
        return 0;
    for (uint32_t i = 0; i < log->superblock.segment_count; i++) {
        if (log->segments[i].state == SEGLOG_STATE_CHECKPOINT)
            log->segments[i].state = SEGLOG_STATE_FREE;
    }
    base_warn(&log->node->log, "the checkpoint is damaged: opening takes longer", "path=%s",
              drive_name(log->drive));
    return 0;
}

void seglog_checkpoint_find(struct seglog *log, uint64_t *ret_bytes)
{
    const struct seglog_state_format *state = log->state;
    bool claimed = state->checkpoint_stamp != 0 &&
                   log->segments[state->checkpoint_segment].state == SEGLOG_STATE_CHECKPOINT;
    *ret_bytes = claimed ? state->checkpoint_bytes : 0;
}

/* ---- reading it ---------------------------------------------------------------------------------- */

static uint64_t check_of(const struct seglog *log, const uint8_t *data, uint64_t bytes)
{
    uint64_t check = log->superblock.check_seed;
    for (uint64_t at = 0; at < bytes; at += PIECE_BYTES)
        check = base_hash64(data + at, base_min(bytes - at, PIECE_BYTES), check);
    return check;
}

/* Copy what a segment has of it. @param buffer  BUFFER_BYTES */
static int read_payload(struct seglog *log, uint32_t number, uint8_t *data, uint64_t bytes, uint8_t *buffer)
{
    uint64_t offset = seglog_segment_offset(log, number) + log->superblock.block_bytes;
    for (uint64_t at = 0; at < bytes; at += BUFFER_BYTES) {
        uint64_t wanted = base_min(bytes - at, BUFFER_BYTES);
        int error = seglog_drive_read(log->drive, offset + at, buffer,
                                      base_align_up(wanted, log->superblock.block_bytes));
        if (error != 0)
            return error;
        memcpy(data + at, buffer, wanted);
    }
    return 0;
}

static int read_chain(struct seglog *log, uint8_t *data, uint8_t *buffer)
{
    const struct seglog_state_format *state = log->state;
    uint32_t number = state->checkpoint_segment;
    uint64_t stamp = state->checkpoint_stamp, bytes;
    for (uint64_t at = 0; at < state->checkpoint_bytes; at += bytes) {
        struct seglog_segment_format header;
        bytes = base_min(state->checkpoint_bytes - at, payload_bytes(log));
        if (number >= log->superblock.segment_count)
            return -EBADMSG;
        int error = read_link(log, number, stamp, buffer, &header);
        if (error == 0)
            error = read_payload(log, number, data + at, bytes, buffer);
        if (error != 0)
            return error;
        number = header.next_segment;
        stamp = header.next_stamp;
    }
    return check_of(log, data, state->checkpoint_bytes) == state->checkpoint_check ? 0 : -EBADMSG;
}

int seglog_checkpoint_read(struct seglog *log, void *data)
{
    uint64_t bytes;
    seglog_checkpoint_find(log, &bytes);
    if (bytes == 0)
        return -EBADMSG;
    uint8_t *buffer = drive_memory_alloc(log->node, log->drive, BUFFER_BYTES);
    if (buffer == NULL)
        return -ENOMEM;
    int error = -EBADMSG;
    for (int try = 0; error == -EBADMSG && try < SEGLOG_READ_TRIES; try++)
        error = read_chain(log, data, buffer);
    base_free(&log->node->memory, buffer, BUFFER_BYTES);
    return error;
}

/* ---- writing it ---------------------------------------------------------------------------------- */

struct writer {
    struct seglog *log;
    void (*produce)(void *arg, void *data, uint64_t bytes);
    void *arg;
    struct base_list chain; /* of segments, in order */
    uint8_t *buffer;        /* BUFFER_BYTES: what is written next */
    uint64_t buffered;
    uint64_t offset; /* on the drive, where the buffer goes */
    uint8_t *piece;  /* PIECE_BYTES: what was produced */
    uint64_t piece_at, piece_end;
    uint64_t left; /* bytes that are not produced yet */
    uint64_t check;
};

/* Free segments and stamps for all of it, or nothing. */
static int take_segments(struct writer *writer, uint64_t count)
{
    struct seglog *log = writer->log;
    base_spin_lock(&log->lock);
    bool enough = log->free_count >= count && log->stamp_bound - 1 - log->stamp >= count;
    for (uint64_t i = 0; enough && i < count; i++) {
        struct base_list *link = base_list_pop_front(&log->free);
        struct seglog_segment *segment = base_container_of(link, struct seglog_segment, link);
        segment->state = SEGLOG_STATE_CHECKPOINT;
        segment->stamp = ++log->stamp;
        segment->session = log->session;
        log->free_count--;
        base_list_push_back(&writer->chain, link);
    }
    base_spin_unlock(&log->lock);
    return enough ? 0 : -ENOSPC;
}

/* It was not written whole: nothing names its segments, and they are free as they were. */
static void give_segments_back(struct writer *writer)
{
    struct seglog *log = writer->log;
    base_spin_lock(&log->lock);
    base_list_for_each(link, &writer->chain) {
        struct seglog_segment *segment = base_container_of(link, struct seglog_segment, link);
        segment->state = SEGLOG_STATE_FREE;
        segment->freed_stamp = segment->stamp;
        log->free_count++;
    }
    base_list_move_all(&log->free, &writer->chain);
    base_spin_unlock(&log->lock);
}

/* Write what is in the buffer, with zeros to the end of its last block. */
static int write_buffer(struct writer *writer)
{
    struct seglog *log = writer->log;
    uint64_t bytes = base_align_up(writer->buffered, log->superblock.block_bytes);
    memset(writer->buffer + writer->buffered, 0, bytes - writer->buffered);
    int error = drive_write(log->drive, writer->offset, writer->buffer, bytes, false);
    if (error != 0)
        return error == -EROFS ? -EROFS : -EIO;
    seglog_count_write(log, bytes);
    writer->offset += bytes;
    writer->buffered = 0;
    return 0;
}

/* The next bytes are in the piece, if there are any. */
static void produce_piece(struct writer *writer)
{
    uint64_t bytes = base_min(writer->left, PIECE_BYTES);
    if (writer->piece_at < writer->piece_end || bytes == 0)
        return;
    writer->produce(writer->arg, writer->piece, bytes);
    writer->check = base_hash64(writer->piece, bytes, writer->check);
    writer->left -= bytes;
    writer->piece_at = 0;
    writer->piece_end = bytes;
}

static int write_segment(struct writer *writer, struct seglog_segment *segment)
{
    struct seglog *log = writer->log;
    struct seglog_segment *next = segment->link.next == &writer->chain
                                      ? NULL
                                      : base_container_of(segment->link.next, struct seglog_segment, link);
    struct seglog_segment_format header = {
        .stamp = segment->stamp,
        .session = segment->session,
        .segment = number_of(log, segment),
        .kind = SEGLOG_SEGMENT_CHECKPOINT,
        .next_segment = next == NULL ? SEGLOG_NO_SEGMENT : number_of(log, next),
        .next_stamp = next == NULL ? 0 : next->stamp,
        .first_sequence = seglog_sequence_next(log),
    };
    seglog_segment_seal(&header, log->superblock.check_seed);
    memset(writer->buffer, 0, log->superblock.block_bytes);
    memcpy(writer->buffer, &header, sizeof(header));
    writer->buffered = log->superblock.block_bytes;
    writer->offset = seglog_segment_offset(log, header.segment);
    for (uint64_t room = payload_bytes(log); room > 0;) {
        produce_piece(writer);
        uint64_t bytes = base_min(writer->piece_end - writer->piece_at, BUFFER_BYTES - writer->buffered);
        bytes = base_min(bytes, room);
        if (bytes == 0)
            break; /* all of it is there */
        memcpy(writer->buffer + writer->buffered, writer->piece + writer->piece_at, bytes);
        writer->piece_at += bytes;
        writer->buffered += bytes;
        room -= bytes;
        int error = writer->buffered == BUFFER_BYTES ? write_buffer(writer) : 0;
        if (error != 0)
            return error;
    }
    return writer->buffered == 0 ? 0 : write_buffer(writer);
}

static int write_chain(struct writer *writer)
{
    struct seglog *log = writer->log;
    base_list_for_each(link, &writer->chain) {
        int error = write_segment(writer, base_container_of(link, struct seglog_segment, link));
        if (error != 0)
            return error;
    }
    int error = seglog_flush(log);
    return error == 0 || error == -EROFS ? error : -EIO;
}

static int write_checkpoint(struct writer *writer, uint64_t bytes)
{
    struct seglog *log = writer->log;
    uint64_t count = bytes / payload_bytes(log) + (bytes % payload_bytes(log) != 0);
    int error = take_segments(writer, count);
    if (error ==
        -ENOSPC) { /* it may be the stamps that are used up: no stamp is written that is not bounded */
        error = seglog_state_write(log, NULL);
        if (error == 0)
            error = take_segments(writer, count);
    }
    if (error != 0)
        return error;
    const struct seglog_segment *first =
        base_container_of(base_list_first(&writer->chain), struct seglog_segment, link);
    error = write_chain(writer);
    if (error != 0) {
        give_segments_back(writer);
        return error;
    }
    base_assert(writer->left == 0 && writer->piece_at == writer->piece_end);
    while (base_list_pop_front(&writer->chain) != NULL)
        continue;
    log->checkpoint_segment = number_of(log, first);
    log->checkpoint_stamp = first->stamp;
    log->checkpoint_bytes = bytes;
    log->checkpoint_check = writer->check;
    return 0;
}

int seglog_checkpoint_write(struct seglog *log, uint64_t bytes,
                            void (*produce)(void *arg, void *data, uint64_t bytes), void *arg)
{
    base_assert(bytes > 0 && log->checkpoint_stamp == 0);
    if (!log->stopped_well || seglog_failed(log))
        return -EROFS;
    struct writer writer = {.log = log,
                            .produce = produce,
                            .arg = arg,
                            .left = bytes,
                            .check = log->superblock.check_seed,
                            .buffer = drive_memory_alloc(log->node, log->drive, BUFFER_BYTES),
                            .piece = base_alloc(&log->node->memory, PIECE_BYTES)};
    base_list_init(&writer.chain);
    int error = writer.buffer == NULL || writer.piece == NULL ? -ENOMEM : write_checkpoint(&writer, bytes);
    base_free(&log->node->memory, writer.buffer, BUFFER_BYTES);
    base_free(&log->node->memory, writer.piece, PIECE_BYTES);
    return error;
}
