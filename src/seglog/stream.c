/*
 * Streams: finding room for a record in ring and segment, copying it there, reading it back from there.
 *
 * A writer that finds room places its record at once. One that does not becomes the *maker*: it makes room,
 * by leading writes or by ending the segment and taking another, while all others queue behind it; then it
 * lets in those for whom there is room now, and makes the first of the rest the maker.
 */
#include "seglog/seglog_internal.h"
#include <errno.h>

#define TURN 1 /* what a queued writer is woken with to be the maker; outcomes are 0 or negative */

/* One append, on its writer's stack: a record, or several of a batch, which get their places at once. */
struct seglog_append {
    struct task_wait wait;
    const struct seglog_draft *drafts; /* NULL: there is nothing to place */
    uint32_t count;
    uint64_t padded_bytes; /* of all */
    uint64_t cost_bytes;   /* of its reservation */
    /* its place, once it has one */
    struct seglog_group *group;
    uint64_t position; /* of the first */
    uint64_t grain;
    uint64_t record_seed;
    uint64_t birth;
    uint32_t segment;
    uint8_t cut_phase;
    bool nudge; /* the service shall write: much is waiting for it */
};

/* ---- memory ------------------------------------------------------------------------------------ */

static uint64_t ring_memory_bytes(const struct seglog_stream *stream)
{
    return stream->ring_bytes + SEGLOG_OVERHANG_BYTES;
}

/* Two of the largest records fit, so that one is copied while another is written. */
static uint64_t choose_ring_bytes(const struct seglog *log)
{
    uint64_t block_bytes = log->superblock.block_bytes;
    uint64_t record_bytes = base_align_up(log->superblock.record_bytes_max, block_bytes) + 2 * block_bytes;
    return base_max(2 * record_bytes, base_min(log->superblock.segment_bytes, UINT64_C(1) << 20));
}

static int init_stream(struct seglog *log, uint32_t number)
{
    struct seglog_stream *stream = &log->streams[number];
    stream->log = log;
    stream->number = number;
    stream->ring_bytes = choose_ring_bytes(log);
    base_spin_init(&stream->lock);
    base_list_init(&stream->queue);
    for (uint32_t i = 0; i < SEGLOG_GROUPS_MAX; i++)
        base_list_init(&stream->groups[i].waiters);
    stream->ring = drive_memory_alloc(log->node, log->drive, ring_memory_bytes(stream));
    return stream->ring == NULL ? -ENOMEM : 0;
}

static int init_summaries(struct seglog *log)
{
    uint32_t count = log->stream_count + SEGLOG_SUMMARIES_SPARE;
    log->summaries = base_alloc(&log->node->memory, count * sizeof(*log->summaries));
    if (log->summaries == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        struct seglog_summary *summary = &log->summaries[i];
        summary->segment = SEGLOG_NO_SEGMENT;
        /* the most that there can be is far more than there is: it is not touched before it is used */
        summary->memory = base_map(&log->node->memory, drive_memory_alignment(log->drive),
                                   seglog_summary_memory_bytes(log));
        if (summary->memory == NULL)
            return -ENOMEM;
        base_list_push_back(&log->summaries_free, &summary->link);
    }
    return 0;
}

int seglog_streams_init(struct seglog *log, uint32_t user_streams)
{
    uint32_t most = base_min(base_max(log->superblock.segment_count / 8, 1U), SEGLOG_STREAMS_MAX - 1U);
    base_list_init(&log->summaries_free);
    base_list_init(&log->summary_waiters);
    base_list_init(&log->evict_waiters);
    base_list_init(&log->space_waiters[SEGLOG_SPACE_DATA]);
    base_list_init(&log->space_waiters[SEGLOG_SPACE_DELETE]);
    task_worker_init(&log->service.worker);
    log->stream_count = 1 + base_min(user_streams, most);
    log->streams = base_alloc(&log->node->memory, log->stream_count * sizeof(*log->streams));
    int error = log->streams == NULL ? -ENOMEM : 0;
    for (uint32_t i = 0; error == 0 && i < log->stream_count; i++)
        error = init_stream(log, i);
    if (error == 0)
        error = init_summaries(log);
    if (error != 0)
        seglog_streams_deinit(log);
    return error;
}

void seglog_streams_deinit(struct seglog *log)
{
    struct base_account *account = &log->node->memory;
    uint32_t count = log->stream_count + SEGLOG_SUMMARIES_SPARE;
    for (uint32_t i = 0; log->summaries != NULL && i < count; i++)
        base_unmap(account, log->summaries[i].memory, seglog_summary_memory_bytes(log));
    base_free(account, log->summaries, count * sizeof(*log->summaries));
    log->summaries = NULL;
    for (uint32_t i = 0; log->streams != NULL && i < log->stream_count; i++) {
        struct seglog_stream *stream = &log->streams[i];
        base_assert(!stream->making && stream->writes_in_flight == 0 && stream->room_wait == NULL);
        base_free(account, stream->ring, ring_memory_bytes(stream));
    }
    base_free(account, log->streams, log->stream_count * sizeof(*log->streams));
    log->streams = NULL;
}

uint32_t seglog_stream_of_caller(const struct seglog *log)
{
    return task_is_thread() ? 1 : 1 + task_sched_index(task_sched_self()) % (log->stream_count - 1);
}

/* ---- room -------------------------------------------------------------------------------------- */

static uint64_t segment_used(const struct seglog_stream *stream)
{
    return stream->head_position - stream->segment_position;
}

static bool fits_segment(const struct seglog_stream *stream, const struct seglog_append *append)
{
    const struct seglog_superblock_format *superblock = &stream->log->superblock;
    if (stream->open_summary == NULL)
        return false;
    uint64_t summary_bytes =
        seglog_summary_bytes(stream->open_summary->count + append->count, superblock->block_bytes);
    return segment_used(stream) + append->padded_bytes + summary_bytes <= superblock->segment_bytes;
}

/* Whether there is memory for `bytes` more and the padding of their group. */
static bool fits_ring(const struct seglog_stream *stream, uint64_t bytes)
{
    uint64_t end = base_align_up(stream->head_position + bytes, stream->log->superblock.block_bytes);
    return end - stream->free_position <= stream->ring_bytes;
}

/* What the open segment surely has left for records and their entries: padding and summary are taken as the
 * worst. */
static uint64_t segment_room(const struct seglog_stream *stream)
{
    const struct seglog_superblock_format *superblock = &stream->log->superblock;
    uint64_t taken = base_align_up(segment_used(stream), superblock->block_bytes) +
                     stream->open_summary->count * sizeof(struct seglog_entry_format) +
                     sizeof(struct seglog_trailer_format) + superblock->block_bytes - 1;
    return taken < superblock->segment_bytes ? superblock->segment_bytes - taken : 0;
}

static bool is_tombstone(const struct seglog_draft *draft)
{
    return (draft->kind & SEGLOG_KIND_MASK) == SEGLOG_TOMBSTONE;
}

/* Kind and marks of one of them, as it is written. */
static uint8_t kind_of(const struct seglog_append *append, uint32_t number)
{
    uint8_t kind = append->drafts[number].kind;
    if (append->count == 1)
        return kind;
    return kind | SEGLOG_MARK_BATCH | (number + 1 == append->count ? SEGLOG_MARK_COMMIT : 0);
}

static uint64_t bytes_of(const struct seglog_append *append, uint32_t number)
{
    const struct seglog_draft *draft = &append->drafts[number];
    uint64_t value_bytes = is_tombstone(draft) ? SEGLOG_BIRTH_BYTES : draft->value_bytes;
    return seglog_record_bytes(kind_of(append, number), draft->key_bytes, value_bytes);
}

static void add_entry(struct seglog_summary *summary, const struct seglog_append *append, uint32_t number,
                      uint64_t grain)
{
    const struct seglog_draft *draft = &append->drafts[number];
    struct seglog_entry_format *entry =
        (struct seglog_entry_format *)(void *)summary->memory + summary->count;
    uint64_t expiry = seglog_expiry_pack(draft->expiry_ns);
    *entry = (struct seglog_entry_format){
        .hash = {draft->hash.low, draft->hash.high},
        .sequence = draft->sequence,
        .superseded = draft->superseded,
        .grain = (uint32_t)grain,
        .bytes = (uint32_t)bytes_of(append, number),
        .kind = kind_of(append, number),
    };
    memcpy(entry->expiry, &expiry, sizeof(entry->expiry));
    seglog_entry_take_pieces(entry, draft->extension);
    summary->count++;
}

/* What the end of the group will tell of a record. */
static void add_to_group(struct seglog_group *group, const struct seglog_draft *draft)
{
    group->count++;
    group->hash[0] ^= draft->hash.low;
    group->hash[1] ^= draft->hash.high;
    group->sequence ^= draft->sequence;
}

/* Put all of an append into its group and into the segment's summary, one behind the other. */
static void add_entries(struct seglog_stream *stream, const struct seglog_append *append, uint64_t used)
{
    struct seglog *log = stream->log;
    struct seglog_summary *summary = stream->open_summary;
    struct seglog_segment *segment = &log->segments[summary->segment];
    for (uint32_t number = 0; number < append->count; number++) {
        uint64_t bytes = bytes_of(append, number);
        add_to_group(append->group, &append->drafts[number]);
        add_entry(summary, append, number, used >> log->grain_shift);
        segment->lowest_sequence = base_min(segment->lowest_sequence, append->drafts[number].sequence);
        summary->end = (uint32_t)(used + bytes);
        used += seglog_padded(log, bytes);
    }
    atomic_fetch_add_explicit(&segment->pending, append->count, memory_order_relaxed);
}

/* Give an append its place, if there is one: all of it at one moment, so that neither a group, nor a segment,
 * nor a checkpoint's cut ends within a batch. */
static bool place_locked(struct seglog_stream *stream, struct seglog_append *append)
{
    base_spin_assert_held(&stream->lock);
    struct seglog *log = stream->log;
    if (!fits_segment(stream, append) || !fits_ring(stream, append->padded_bytes))
        return false;
    struct seglog_summary *summary = stream->open_summary;
    uint64_t used = segment_used(stream);
    append->group = seglog_open_group(stream);
    append->position = stream->head_position;
    append->segment = summary->segment;
    append->cut_phase = stream->cut_phase;
    append->record_seed = stream->record_seed;
    append->grain = (seglog_segment_offset(log, summary->segment) + used) >> log->grain_shift;
    add_entries(stream, append, used);
    stream->head_position += append->padded_bytes;
    append->group->bytes += append->padded_bytes;
    append->group->filling++;
    atomic_fetch_add_explicit(&stream->unsettled[stream->cut_phase], append->count, memory_order_relaxed);
    append->birth = seglog_space_placed(stream, append->cost_bytes, segment_room(stream));
    append->nudge = log->mode == SEGLOG_ASYNC && !stream->nudged &&
                    stream->head_position - stream->tail_position >= stream->ring_bytes / 4;
    stream->nudged = stream->nudged || append->nudge;
    return true;
}

/* ---- making room ------------------------------------------------------------------------------- */

/* Begin the stream's next segment: its header is the front of the first write. Nobody else appends. */
static void begin_segment_locked(struct seglog_stream *stream, struct seglog_summary *summary,
                                 const struct seglog_segment_format *header)
{
    base_spin_assert_held(&stream->lock);
    struct seglog *log = stream->log;
    uint64_t header_bytes = seglog_segment_header_bytes(log->superblock.grain_bytes);
    struct seglog_group *group = seglog_open_group(stream);
    uint8_t *front =
        stream->ring + stream->head_position % stream->ring_bytes; /* a block's: it does not wrap */
    memset(front, 0, header_bytes);
    memcpy(front, header, sizeof(*header));
    if (stream->number != SEGLOG_RELOCATION)
        atomic_fetch_add_explicit(&log->user_taken, 1, memory_order_relaxed);
    log->segments[summary->segment].cut_number = log->checkpoints.cut_number;
    stream->open_summary = summary;
    stream->segment_position = stream->head_position;
    stream->record_seed = seglog_record_seed(log->superblock.check_seed, header->stamp);
    group->begin_position = stream->head_position;
    group->offset = seglog_segment_offset(log, summary->segment);
    group->bytes = header_bytes;
    stream->head_position += header_bytes;
    summary->end = (uint32_t)header_bytes;
    if (stream->number == SEGLOG_RELOCATION)
        (void)seglog_space_placed(stream, 0, segment_room(stream));
    else
        seglog_space_switched(stream);
    /* release: pairs with the acquire in seglog_read_pending() */
    atomic_store_explicit(&log->segments[summary->segment].open_stream, stream->number + 1,
                          memory_order_release);
}

/*
 * Write the header to where the summary will end, before anything else is written to the segment: so no damaged
 * sector makes the segment look free. Durable, at the latest, when the segment's first group is.
 *
 * @param memory  a block, aligned for the drive
 */
static int write_header_copy(struct seglog *log, const struct seglog_segment_format *header, uint8_t *memory)
{
    const uint32_t block_bytes = log->superblock.block_bytes;
    uint64_t offset =
        seglog_segment_offset(log, header->segment) + log->superblock.segment_bytes - block_bytes;
    memset(memory, 0, block_bytes);
    memcpy(memory + block_bytes - sizeof(*header), header, sizeof(*header));
    int error = drive_write(log->drive, offset, memory, block_bytes, seglog_writes_durably(log));
    seglog_count_write(log, block_bytes);
    if (error == 0)
        return 0;
    seglog_fail(log, "the copy of a segment's header", offset, error);
    return -EIO;
}

/* End the open segment, all of which is acknowledged, and take the next. By the maker. */
static int switch_segment(struct seglog_stream *stream)
{
    struct seglog *log = stream->log;
    if (stream->number == SEGLOG_RELOCATION && !seglog_space_spare(log))
        return -ENOSPC;
    base_spin_lock(&stream->lock);
    seglog_segment_ended(stream);
    base_spin_unlock(&stream->lock);
    struct seglog_summary *summary;
    int error = seglog_summary_take(log, &summary);
    if (error != 0)
        return error;
    uint32_t segment;
    error = seglog_segment_take(log, &segment);
    if (error != 0) {
        seglog_summary_give(log, summary);
        return error;
    }
    struct seglog_segment_format header = {
        .stamp = log->segments[segment].stamp,
        .session = log->session,
        .segment = segment,
        .kind = SEGLOG_SEGMENT_RECORDS,
        .stream = stream->number,
        .first_sequence = seglog_sequence_next(log),
    };
    seglog_segment_seal(&header, log->superblock.check_seed);
    summary->segment = segment;
    error = write_header_copy(log, &header, summary->memory);
    if (error != 0) { /* the log has failed: the segment is not taken by anybody else */
        seglog_summary_give(log, summary);
        return error;
    }
    base_spin_lock(&stream->lock);
    begin_segment_locked(stream, summary, &header);
    base_spin_unlock(&stream->lock);
    return 0;
}

/* What the maker does next, so that there is room. */
enum step { STEP_PLACED, STEP_LEAD, STEP_AWAIT, STEP_READERS, STEP_SWITCH, STEP_REFUSE };

static enum step next_step_locked(struct seglog_stream *stream, struct seglog_append *append,
                                  uint64_t *ret_position)
{
    base_spin_assert_held(&stream->lock);
    if (stream->broken || seglog_failed(stream->log))
        return STEP_REFUSE;
    if (place_locked(stream, append))
        return STEP_PLACED;
    if (stream->tail_position < stream->head_position) {
        if (seglog_lead_claim_locked(stream))
            return STEP_LEAD;
        bool all = !fits_segment(stream, append);
        *ret_position = all ? stream->head_position : stream->tail_position + 1;
        return STEP_AWAIT;
    }
    return stream->free_position < stream->tail_position ? STEP_READERS : STEP_SWITCH;
}

static int make_room(struct seglog_stream *stream, struct seglog_append *append)
{
    for (;;) {
        struct task_wait wait;
        uint64_t position = 0;
        base_spin_lock(&stream->lock);
        enum step step = next_step_locked(stream, append, &position);
        if (step == STEP_READERS) {
            task_wait_init(&wait);
            stream->room_wait = &wait;
        }
        base_spin_unlock(&stream->lock);
        int error = 0;
        switch (step) {
        case STEP_PLACED:
            return 0;
        case STEP_LEAD:
            seglog_lead(stream);
            break;
        case STEP_AWAIT:
            error = seglog_await(stream, position);
            break;
        case STEP_READERS:
            (void)task_wait_park_firmly(&wait);
            break;
        case STEP_SWITCH:
            error = switch_segment(stream);
            break;
        case STEP_REFUSE:
            return -EROFS;
        }
        if (error != 0)
            return error == -ENOSPC ? -ENOSPC : -EROFS;
    }
}

/* ---- taking turns ------------------------------------------------------------------------------ */

/* The maker is done: let in, in order, who queues, until there is no more room. */
static void pass_turn(struct seglog_stream *stream)
{
    base_spin_lock(&stream->lock);
    struct base_list *first;
    while ((first = base_list_pop_front(&stream->queue)) != NULL) {
        struct seglog_append *append =
            base_container_of(base_container_of(first, struct task_wait, link), struct seglog_append, wait);
        bool placed = append->drafts != NULL && !seglog_failed(stream->log) && place_locked(stream, append);
        base_assert(task_wait_wake(&append->wait, placed ? 0 : TURN));
        if (!placed)
            break;
    }
    stream->making = first != NULL;
    base_spin_unlock(&stream->lock);
}

/* Queue for a place, or to be the maker. @return 0 (placed); TURN. The lock is free on return. */
static int take_turn_unlock(struct seglog_stream *stream, struct seglog_append *append)
{
    if (!stream->making) {
        stream->making = true;
        base_spin_unlock(&stream->lock);
        return TURN;
    }
    task_wait_init(&append->wait);
    base_list_push_back(&stream->queue, &append->wait.link);
    base_spin_unlock(&stream->lock);
    return task_wait_park_firmly(&append->wait);
}

static int find_place(struct seglog_stream *stream, struct seglog_append *append)
{
    base_spin_lock(&stream->lock);
    if (!stream->making && !stream->broken && !seglog_failed(stream->log) && place_locked(stream, append)) {
        base_spin_unlock(&stream->lock);
        return 0;
    }
    if (take_turn_unlock(stream, append) != TURN)
        return 0;
    int error = make_room(stream, append);
    pass_turn(stream);
    return error;
}

int seglog_stream_end_segment(struct seglog_stream *stream, bool forgo)
{
    struct seglog_append turn = {.drafts = NULL}; /* nothing to place: it is always made the maker */
    base_spin_lock(&stream->lock);
    (void)take_turn_unlock(stream, &turn);
    int error = seglog_stream_drain(stream);
    base_spin_lock(&stream->lock);
    if (error == 0 && stream->open_summary != NULL) {
        if (forgo && !seglog_space_forgo(stream)) {
            error = -EBUSY;
        } else {
            seglog_segment_ended(stream);
            (void)seglog_space_placed(stream, 0, 0);
        }
    }
    base_spin_unlock(&stream->lock);
    pass_turn(stream);
    return error;
}

/* ---- copying ----------------------------------------------------------------------------------- */

/* The memory of a part of the ring: two pieces where it ends within. */
static void ring_parts(struct seglog_stream *stream, uint64_t position, uint64_t bytes,
                       struct iovec ret_parts[2])
{
    uint64_t begin = position % stream->ring_bytes;
    uint64_t first = base_min(bytes, stream->ring_bytes - begin);
    ret_parts[0] = (struct iovec){.iov_base = stream->ring + begin, .iov_len = first};
    ret_parts[1] = (struct iovec){.iov_base = stream->ring, .iov_len = bytes - first};
}

static void ring_put(struct seglog_stream *stream, uint64_t position, const void *data, uint64_t bytes)
{
    struct iovec parts[2];
    ring_parts(stream, position, bytes, parts);
    if (parts[0].iov_len > 0)
        memcpy(parts[0].iov_base, data, parts[0].iov_len);
    if (parts[1].iov_len > 0)
        memcpy(parts[1].iov_base, (const uint8_t *)data + parts[0].iov_len, parts[1].iov_len);
}

static void ring_get(const struct seglog_stream *stream, uint64_t position, void *data, uint64_t bytes)
{
    uint64_t begin = position % stream->ring_bytes;
    uint64_t first = base_min(bytes, stream->ring_bytes - begin);
    memcpy(data, stream->ring + begin, first);
    if (bytes > first)
        memcpy((uint8_t *)data + first, stream->ring, bytes - first);
}

/*
 * Copy extension and key, in one piece also where the ring ends: only one record can lie there at a time, so
 * what is behind the ring is its alone.
 *
 * @return where they lie
 */
static const uint8_t *put_front(struct seglog_stream *stream, uint64_t position,
                                const struct seglog_draft *draft, const void *extension,
                                uint64_t extension_bytes)
{
    uint64_t begin = position % stream->ring_bytes;
    uint64_t end = begin + extension_bytes + draft->key_bytes;
    uint8_t *front = stream->ring + begin;
    memcpy(front, extension, extension_bytes);
    memcpy(front + extension_bytes, draft->key, draft->key_bytes);
    if (end > stream->ring_bytes)
        memcpy(stream->ring, stream->ring + stream->ring_bytes, end - stream->ring_bytes);
    return front;
}

struct seglog_record_format seglog_draft_header(const struct seglog_draft *draft, uint8_t kind)
{
    struct seglog_record_format header = {
        .sequence = draft->sequence,
        .version = draft->version,
        .value_bytes = draft->value_bytes,
        .key_bytes = draft->key_bytes,
        .kind = kind,
        .client_flags = draft->client_flags,
    };
    uint64_t expiry = seglog_expiry_pack(draft->expiry_ns);
    memcpy(header.expiry, &expiry, sizeof(header.expiry));
    return header;
}

/* Copy a record to its place, header last: it has the checks. @param at  of the first one's position */
static void fill_one(struct seglog_stream *stream, const struct seglog_append *append, uint32_t number,
                     uint64_t at)
{
    static const uint8_t zeros[SEGLOG_GRAIN_BYTES_MAX];
    const struct seglog_draft *draft = &append->drafts[number];
    const uint8_t kind = kind_of(append, number);
    const uint64_t extension_bytes = seglog_extension_bytes(kind), bytes = bytes_of(append, number);
    const uint64_t check_seed = stream->log->superblock.check_seed, begin = append->position + at;
    const struct seglog_batch_format batch = {
        .number = number,
        .count = (kind & SEGLOG_MARK_COMMIT) != 0 ? append->count : 0,
        .id = append->drafts[0].sequence,
    };
    bool born = is_tombstone(draft) && draft->value == NULL;
    const void *value = born ? &append->birth : draft->value;
    struct seglog_record_format header = seglog_draft_header(draft, kind);
    if (born)
        header.value_bytes = SEGLOG_BIRTH_BYTES;
    uint64_t front_bytes = extension_bytes + draft->key_bytes;
    uint64_t position = begin + sizeof(header);
    const uint8_t *front = draft->key;
    const void *extension = (kind & SEGLOG_MARKS_BATCH) != 0 ? &batch : draft->extension;
    if (extension_bytes > 0)
        front = put_front(stream, position, draft, extension, extension_bytes);
    else
        ring_put(stream, position, draft->key, draft->key_bytes);
    ring_put(stream, begin + bytes, zeros, seglog_padded(stream->log, bytes) - bytes);
    struct iovec parts[2];
    ring_parts(stream, position + front_bytes, header.value_bytes, parts);
    header.body_check = seglog_body_check_copy(front, front_bytes, parts, value, header.value_bytes,
                                               check_seed, draft->sequence);
    seglog_record_seal(&header, append->record_seed, append->grain + (at >> stream->log->grain_shift));
    ring_put(stream, begin, &header, sizeof(header));
}

/* Copy all of an append, and tell where each of it lies. */
static void fill_append(struct seglog_stream *stream, const struct seglog_append *append,
                        struct seglog_place *places)
{
    const struct seglog *log = stream->log;
    uint64_t at = 0;
    for (uint32_t number = 0; number < append->count; number++) {
        uint64_t bytes = bytes_of(append, number), padded_bytes = seglog_padded(log, bytes);
        fill_one(stream, append, number, at);
        places[number] = (struct seglog_place){
            .grain = append->grain + (at >> log->grain_shift),
            .bytes = bytes,
            .segment = append->segment,
            .stream = stream->number,
            .position = append->position + at + padded_bytes,
            .cut_phase = append->cut_phase,
            .kind = kind_of(append, number),
            .tombstone = is_tombstone(&append->drafts[number]),
        };
        at += padded_bytes;
    }
}

/* It is in place: tell the leader that waits for it. */
static void end_filling(struct seglog_stream *stream, struct seglog_group *group)
{
    base_spin_lock(&stream->lock);
    if (--group->filling == 0 && group->filled != NULL) {
        base_assert(task_wait_wake(group->filled, 0));
        group->filled = NULL;
    }
    base_spin_unlock(&stream->lock);
}

/* SEGLOG_ASYNC: the service writes it in a while, or soon. */
static void tell_service(struct seglog *log, bool nudge)
{
    /* The stream's lock, which was held since the record was placed, orders this with the service: README. */
    if (atomic_load_explicit(&log->dirty_ns, memory_order_relaxed) == 0) {
        uint64_t clean = 0;
        nudge = atomic_compare_exchange_strong(&log->dirty_ns, &clean, task_now()) || nudge;
    }
    if (nudge)
        seglog_poke(log);
}

int seglog_append_to(struct seglog_stream *stream, uint64_t cost_bytes, const struct seglog_draft *drafts,
                     uint32_t count, struct seglog_place *ret_places)
{
    struct seglog *log = stream->log;
    struct seglog_append append = {.drafts = drafts, .count = count, .cost_bytes = cost_bytes};
    for (uint32_t number = 0; number < count; number++) {
        uint64_t bytes = bytes_of(&append, number);
        base_assert(bytes <= log->superblock.record_bytes_max);
        append.padded_bytes += seglog_padded(log, bytes);
    }
    int error = find_place(stream, &append);
    if (error != 0)
        return error;
    fill_append(stream, &append, ret_places);
    end_filling(stream, append.group);
    if (log->mode == SEGLOG_ASYNC)
        tell_service(log, append.nudge);
    return 0;
}

int seglog_append_batch(struct seglog *log, struct seglog_reservation *reservation,
                        const struct seglog_draft *drafts, uint32_t count, struct seglog_place *ret_places)
{
    base_assert(reservation->cost_bytes > 0 && reservation->stream < log->stream_count && count > 0);
    struct seglog_stream *stream = &log->streams[reservation->stream];
    int error = seglog_append_to(stream, reservation->cost_bytes, drafts, count, ret_places);
    if (error != 0)
        seglog_release(log, reservation);
    reservation->cost_bytes = 0;
    bool far = false;
    for (uint32_t number = 0; number < count && error == 0; number++) {
        base_assert(drafts[number].value != NULL || drafts[number].value_bytes == 0);
        atomic_fetch_add_explicit(&log->appended_bytes, seglog_padded(log, ret_places[number].bytes),
                                  memory_order_relaxed);
        far = far || drafts[number].sequence % (SEGLOG_SEQUENCE_BLOCK / 8) == 0;
    }
    if (far)
        seglog_poke(log); /* now and then, so that the bound of sequences is raised before it is reached */
    return error;
}

int seglog_append(struct seglog *log, struct seglog_reservation *reservation,
                  const struct seglog_draft *draft, struct seglog_place *ret_place)
{
    return seglog_append_batch(log, reservation, draft, 1, ret_place);
}

/* ---- reading what is not written yet ------------------------------------------------------------- */

void seglog_stream_release_locked(struct seglog_stream *stream)
{
    base_spin_assert_held(&stream->lock);
    uint64_t before = stream->free_position;
    for (int i = 0; i < 2 && stream->readers[!stream->phase] == 0; i++) {
        stream->free_position = stream->phase_position;
        stream->phase_position = stream->tail_position;
        stream->phase = !stream->phase;
    }
    if (stream->room_wait != NULL && stream->free_position > before) {
        base_assert(task_wait_wake(stream->room_wait, 0));
        stream->room_wait = NULL;
    }
}

/* Find where a grain lies in the ring, and keep it there. @return false: it is not there (any more) */
static bool begin_reading(struct seglog_stream *stream, uint32_t segment, uint64_t used,
                          uint64_t *ret_position, uint64_t *ret_end, uint32_t *ret_phase)
{
    base_spin_lock(&stream->lock);
    bool open = stream->open_summary != NULL && stream->open_summary->segment == segment;
    uint64_t position = stream->segment_position + used;
    bool there = open && position >= stream->tail_position &&
                 position + sizeof(struct seglog_record_format) <= stream->head_position;
    if (there) {
        *ret_phase = stream->phase;
        *ret_position = position;
        *ret_end = stream->head_position;
        stream->readers[stream->phase]++;
    }
    base_spin_unlock(&stream->lock);
    return there;
}

static void end_reading(struct seglog_stream *stream, uint32_t phase)
{
    base_spin_lock(&stream->lock);
    if (--stream->readers[phase] == 0)
        seglog_stream_release_locked(stream);
    base_spin_unlock(&stream->lock);
}

bool seglog_read_pending(struct seglog *log, uint64_t grain, void *data, uint64_t bytes)
{
    if (log->mode != SEGLOG_ASYNC || log->stream_count == 0 || seglog_stamp_at(log, grain) == 0)
        return false;
    uint32_t segment = seglog_segment_of(log, grain);
    /* acquire: pairs with the release in begin_segment_locked() */
    uint32_t number = atomic_load_explicit(&log->segments[segment].open_stream, memory_order_acquire);
    if (number == 0)
        return false;
    struct seglog_stream *stream = &log->streams[number - 1];
    uint64_t used = (grain << log->grain_shift) - seglog_segment_offset(log, segment), position, end;
    uint32_t phase;
    if (!begin_reading(stream, segment, used, &position, &end, &phase))
        return false;
    /* no further than the record: what follows may be being copied there now */
    struct seglog_record_format header;
    ring_get(stream, position, &header, sizeof(header));
    uint64_t record_bytes = seglog_record_bytes(header.kind, header.key_bytes, header.value_bytes);
    uint64_t there = base_min(base_min(bytes, record_bytes), end - position);
    ring_get(stream, position, data, there);
    memset((uint8_t *)data + there, 0, bytes - there);
    end_reading(stream, phase);
    return true;
}
