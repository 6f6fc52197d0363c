/*
 * Group commit. A writer whose record is in the open group leads, if fewer than SEGLOG_WRITES_MAX writes of
 * the stream are in flight: it closes the group and writes it, and what comes meanwhile gathers in the next.
 * Acknowledgement is in the order of the log.
 */
#include "seglog/seglog_internal.h"
#include <errno.h>

#define LEAD 1 /* what a waiter is woken with to lead; it is counted as leading already */

/* ---- one write ----------------------------------------------------------------------------------- */

/* What the end of a group tells, as it is closed. */
static struct seglog_group_end_format describe_group_locked(struct seglog_stream *stream,
                                                            const struct seglog_group *group)
{
    base_spin_assert_held(&stream->lock);
    const struct seglog *log = stream->log;
    const uint64_t header_bytes = seglog_segment_header_bytes(log->superblock.grain_bytes);
    const uint64_t begin = group->begin_position - stream->segment_position;
    const uint64_t tail = base_max(stream->tail_position, stream->segment_position);
    const struct seglog_group_end_format end = {
        .flags = (log->mode == SEGLOG_POWER ? SEGLOG_GROUP_DURABLE : 0) |
                 (uint32_t)atomic_load_explicit(&log->generation, memory_order_relaxed)
                     << SEGLOG_GROUP_GENERATION_SHIFT,
        .hash = {group->hash[0], group->hash[1]},
        .sequence = group->sequence,
        .begin = (uint32_t)base_max(begin, header_bytes),
        .count = group->count,
        .acknowledged = (uint32_t)(tail - stream->segment_position),
        .before_end = stream->before_end,
        .before_stamp = stream->before_stamp,
    };
    stream->before_stamp = log->segments[stream->open_summary->segment].stamp;
    stream->before_end = (uint32_t)(stream->head_position - stream->segment_position);
    return end;
}

/* Close the open group: it is in flight, and the next one is open. @return the closed one */
static struct seglog_group *close_group_locked(struct seglog_stream *stream)
{
    base_spin_assert_held(&stream->lock);
    struct seglog_group *group = seglog_open_group(stream);
    uint64_t end = base_align_up(stream->head_position, stream->log->superblock.block_bytes);
    base_assert(stream->led && group->bytes > 0 && stream->group_count < SEGLOG_WRITES_MAX);
    group->bytes = end - group->begin_position;
    group->written = false;
    stream->head_position = end;
    stream->led = false;
    stream->group_count++;
    struct seglog_group *next = seglog_open_group(stream);
    base_assert(next->filling == 0 && base_list_empty(&next->waiters));
    next->begin_position = end;
    next->offset = group->offset + group->bytes;
    next->bytes = 0;
    next->count = 0;
    next->hash[0] = next->hash[1] = next->sequence = 0;
    return group;
}

void seglog_count_write(struct seglog *log, uint64_t bytes)
{
    atomic_fetch_add_explicit(&log->writes, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&log->written_bytes, bytes, memory_order_relaxed);
}

static void tell_time(struct seglog *log, enum seglog_timed what, uint64_t begin_ns)
{
    if (log->timed != NULL)
        log->timed(log->timed_arg, what, task_now() - begin_ns);
}

int seglog_flush(struct seglog *log)
{
    uint64_t begin_ns = task_now();
    atomic_fetch_add_explicit(&log->flushes, 1, memory_order_relaxed);
    int error = drive_flush(log->drive);
    tell_time(log, SEGLOG_TIMED_FLUSH, begin_ns);
    return error;
}

/* What a write is to survive is on the drive when this returns 0. */
static int make_durable(struct seglog *log, bool wrote_durably)
{
    if (log->mode != SEGLOG_POWER || wrote_durably)
        return 0;
    return seglog_flush(log);
}

int seglog_flush_behind(struct seglog *log)
{
    if (log->mode == SEGLOG_POWER)
        return 0; /* what is acknowledged is durable */
    int error = seglog_flush(log);
    if (error != 0)
        seglog_fail(log, "a flush", 0, error);
    return error == 0 ? 0 : -EIO;
}

bool seglog_writes_durably(const struct seglog *log)
{
    const struct drive_info *info = drive_info(log->drive);
    return log->mode == SEGLOG_POWER && (info->fua || !info->device);
}

static int write_group(struct seglog_stream *stream, const struct seglog_group *group)
{
    struct seglog *log = stream->log;
    uint64_t begin = group->begin_position % stream->ring_bytes;
    uint64_t first = base_min(group->bytes, stream->ring_bytes - begin);
    struct iovec vectors[2] = {{.iov_base = stream->ring + begin, .iov_len = first},
                               {.iov_base = stream->ring, .iov_len = group->bytes - first}};
    struct drive_request request = {
        .op = DRIVE_WRITE,
        .durable = seglog_writes_durably(log),
        .offset = group->offset,
        .iov = vectors,
        .iov_count = group->bytes > first ? 2 : 1,
        .region = -1,
    };
    if (seglog_failed(log))
        return -EIO;
    uint64_t begin_ns = task_now();
    drive_post(log->drive, &request);
    int error = drive_wait(&request, TASK_FOREVER);
    tell_time(log, SEGLOG_TIMED_WRITE, begin_ns);
    seglog_count_write(log, group->bytes);
    if (error == 0)
        error = make_durable(log, request.durable);
    if (error != 0)
        seglog_fail(log, "records", group->offset, error);
    return error == 0 ? 0 : -EIO;
}

/* From the last record, which ends before `position`, to the end of the block: the group's end, if there is room,
 * and zeros. */
static void pad_group(struct seglog_stream *stream, const struct seglog_group *group, uint64_t position,
                      struct seglog_group_end_format *end)
{
    const uint64_t padded_end = group->begin_position + group->bytes, room = padded_end - position;
    uint8_t *to = stream->ring + position % stream->ring_bytes; /* within a block: no wrap */
    memset(to, 0, room);
    if (room < sizeof(*end))
        return;
    uint64_t offset = group->offset + (position - group->begin_position);
    seglog_group_end_seal(end, stream->record_seed, offset >> stream->log->grain_shift);
    memcpy(to, end, sizeof(*end));
}

/* ---- outcomes ------------------------------------------------------------------------------------ */

/* Take out of flight, in order, what is written. @param done, failed  whom to wake with 0 and with -EIO */
static void acknowledge_locked(struct seglog_stream *stream, struct base_list *done, struct base_list *failed)
{
    base_spin_assert_held(&stream->lock);
    while (stream->group_count > 0) {
        struct seglog_group *group = &stream->groups[stream->first_group];
        if (!group->written)
            break;
        stream->broken = stream->broken || group->error != 0;
        base_list_move_all(stream->broken ? failed : done, &group->waiters);
        if (!stream->broken)
            stream->tail_position = group->begin_position + group->bytes;
        stream->first_group = (stream->first_group + 1) % SEGLOG_GROUPS_MAX;
        stream->group_count--;
    }
    if (stream->broken)
        base_list_move_all(failed, &seglog_open_group(stream)->waiters);
    seglog_stream_release_locked(stream);
}

static void wake_list(struct base_list *waiters, int result)
{
    struct base_list *first;
    while ((first = base_list_pop_front(waiters)) != NULL)
        base_assert(task_wait_wake(base_container_of(first, struct task_wait, link), result));
}

bool seglog_lead_claim_locked(struct seglog_stream *stream)
{
    base_spin_assert_held(&stream->lock);
    if (stream->led || stream->broken || stream->writes_in_flight == SEGLOG_WRITES_MAX ||
        stream->group_count == SEGLOG_WRITES_MAX || seglog_open_group(stream)->bytes == 0)
        return false;
    stream->led = true;
    stream->writes_in_flight++;
    return true;
}

/* Let the first who waits in the open group lead it, if nobody does. */
static void hand_over_locked(struct seglog_stream *stream)
{
    base_spin_assert_held(&stream->lock);
    struct base_list *waiters = &seglog_open_group(stream)->waiters;
    if (!base_list_empty(waiters) && seglog_lead_claim_locked(stream)) {
        struct base_list *heir = base_list_pop_front(waiters);
        base_assert(task_wait_wake(base_container_of(heir, struct task_wait, link), LEAD));
    }
}

void seglog_lead(struct seglog_stream *stream)
{
    struct task_wait filled;
    struct base_list done, failed;
    base_list_init(&done);
    base_list_init(&failed);
    base_spin_lock(&stream->lock);
    const uint64_t position = stream->head_position;
    struct seglog_group_end_format end = describe_group_locked(stream, seglog_open_group(stream));
    struct seglog_group *group = close_group_locked(stream);
    bool wait = group->filling > 0;
    if (wait) {
        task_wait_init(&filled);
        group->filled = &filled;
    }
    base_spin_unlock(&stream->lock);
    pad_group(stream, group, position, &end);
    if (wait)
        (void)task_wait_park_firmly(&filled);
    int error = write_group(stream, group);

    base_spin_lock(&stream->lock);
    group->written = true;
    group->error = error;
    stream->writes_in_flight--;
    acknowledge_locked(stream, &done, &failed);
    hand_over_locked(stream);
    base_spin_unlock(&stream->lock);
    wake_list(&done, 0);
    wake_list(&failed, -EIO);
}

/* ---- waiting ------------------------------------------------------------------------------------- */

/* The group that has what lies before a position. */
static struct seglog_group *group_of_locked(struct seglog_stream *stream, uint64_t position)
{
    base_spin_assert_held(&stream->lock);
    for (uint32_t i = 0; i < stream->group_count; i++) {
        struct seglog_group *group = &stream->groups[(stream->first_group + i) % SEGLOG_GROUPS_MAX];
        if (position <= group->begin_position + group->bytes)
            return group;
    }
    return seglog_open_group(stream);
}

int seglog_await(struct seglog_stream *stream, uint64_t position)
{
    for (;;) {
        struct task_wait wait;
        int outcome = LEAD;
        base_spin_lock(&stream->lock);
        if (position <= stream->tail_position || stream->broken) {
            outcome = position <= stream->tail_position ? 0 : -EIO;
            base_spin_unlock(&stream->lock);
            return outcome;
        }
        struct seglog_group *group = group_of_locked(stream, position);
        bool leads = group == seglog_open_group(stream) && seglog_lead_claim_locked(stream);
        if (!leads) {
            task_wait_init(&wait);
            base_list_push_back(&group->waiters, &wait.link);
        }
        base_spin_unlock(&stream->lock);
        if (!leads)
            outcome = task_wait_park_firmly(&wait);
        if (outcome != LEAD)
            return outcome;
        if (!task_is_thread())
            task_yield(); /* other writers that are about to append join the group */
        seglog_lead(stream);
    }
}

int seglog_wait(struct seglog *log, const struct seglog_place *place)
{
    if (log->mode == SEGLOG_ASYNC)
        return seglog_failed(log) ? -EIO : 0;
    return seglog_await(&log->streams[place->stream], place->position);
}

int seglog_stream_drain(struct seglog_stream *stream)
{
    base_spin_lock(&stream->lock);
    uint64_t head_position = stream->head_position;
    base_spin_unlock(&stream->lock);
    return seglog_await(stream, head_position);
}

int seglog_sync(struct seglog *log)
{
    for (uint32_t i = 0; i < log->stream_count; i++) {
        int error = seglog_stream_drain(&log->streams[i]);
        if (error != 0)
            return error;
    }
    if (seglog_failed(log))
        return -EROFS;
    return seglog_flush_behind(log);
}
