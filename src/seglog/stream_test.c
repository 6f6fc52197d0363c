/*
 * Group commit: who writes, what shares a write, in which order is acknowledged; rings and segments that end;
 * what a summary proves; failures that leave nobody waiting.
 */
#include "base/testing.h"
#include "seglog/run_testing.h"

/* Let all others run until nothing happens any more: they wait for what the test does next. */
static void settle(void)
{
    for (int i = 0; i < 200; i++)
        task_yield();
}

/* Requests that touch records or summaries, from event `from` on. */
static uint32_t count_data(struct run *run, uint32_t from, enum drive_op op)
{
    uint64_t data_offset = seglog_superblock(run->log)->data_offset;
    uint32_t count = 0;
    for (uint32_t i = from; i < run->drive.event_count; i++) {
        const struct run_event *event = &run->drive.events[i];
        count += event->op == op && (op == DRIVE_FLUSH || event->offset >= data_offset);
    }
    return count;
}

/* ---- sharing ------------------------------------------------------------------------------------ */

static void one_write(struct run *run, struct task_testing *testing)
{
    (void)testing;
    const struct seglog_superblock_format *superblock = seglog_superblock(run->log);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t before = run->drive.event_count;
        assert_int_equal(run_put(run, i, 100), 0);
        before += i == 0; /* the segment's header went with the first, and a copy of it before that */
        assert_int_equal(run->drive.event_count, before + 1);
        const struct run_event *event = &run->drive.events[before];
        assert_int_equal(event->op, DRIVE_WRITE);
        assert_int_equal(event->durable, run->mode == SEGLOG_POWER);
        assert_int_equal(event->bytes, superblock->block_bytes);
    }
    const uint64_t segment = seglog_segment_of(run->log, atomic_load(&run->keys[0].grain));
    struct seglog_segment_format header;
    const uint8_t *bytes =
        run->drive.base.bytes + superblock->data_offset + segment * superblock->segment_bytes;
    assert_int_equal(seglog_segment_parse(bytes, superblock->check_seed, (uint32_t)segment, &header), 0);
    assert_int_equal(header.stream, 1);
    assert_int_equal(header.kind, SEGLOG_SEGMENT_RECORDS);
    assert_int_equal(header.session, 1);
    assert_int_equal(header.stamp, seglog_stamp_at(run->log, atomic_load(&run->keys[0].grain)));
    assert_int_equal(run_check(run, 4), 3);
    assert_int_equal(run_stop(run), 0);
}

static void one_writer_waits_for_one_write(void **state)
{
    (void)state;
    run_in_one(SEGLOG_DEVICE, false, false, one_write);
    run_in_one(SEGLOG_POWER, false, false, one_write);
    run_in_one(SEGLOG_POWER, true, true, one_write);
}

static void write_and_flush(struct run *run, struct task_testing *testing)
{
    (void)testing;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t before = run->drive.event_count;
        assert_int_equal(run_put(run, i, 100), 0);
        before += i == 0; /* the copy of the segment's header */
        assert_int_equal(run->drive.event_count, before + 2);
        assert_int_equal(run->drive.events[before].op, DRIVE_WRITE);
        assert_false(run->drive.events[before].durable);
        assert_int_equal(run->drive.events[before + 1].op, DRIVE_FLUSH);
    }
    assert_int_equal(run_stop(run), 0);
}

static void a_device_without_fua_is_flushed(void **state)
{
    (void)state;
    run_in_one(SEGLOG_POWER, true, false, write_and_flush);
}

static void share(struct run *run, struct task_testing *testing)
{
    struct run_writers *writers = calloc(1, sizeof(*writers));
    task_group_init(&writers->group);
    run_hold(&run->drive, 1);
    uint32_t before = run->drive.event_count;
    for (uint32_t i = 0; i < 200; i++)
        (void)run_spawn_writer(run, testing, writers, i, 300);
    run_wait_for_arrivals(&run->drive, 1);
    settle();
    run_let_go(&run->drive, 0);
    run_join(writers);
    assert_true(count_data(run, before, DRIVE_WRITE) <= 8);
    for (uint32_t i = 0; i < 200; i++)
        assert_int_equal(writers->writers[i].error, 0);
    assert_int_equal(run_check(run, 200), 200);
    free(writers);
    assert_int_equal(run_stop(run), 0);
}

static void many_writers_share_few_writes(void **state)
{
    (void)state;
    run_in_one(SEGLOG_DEVICE, false, false, share);
    run_in_one(SEGLOG_POWER, false, false, share);
}

/* ---- order -------------------------------------------------------------------------------------- */

static void order(struct run *run, struct task_testing *testing)
{
    struct run_writers *writers = calloc(1, sizeof(*writers));
    struct run_writer *writer[8];
    task_group_init(&writers->group);
    assert_int_equal(run_put(run, 100, 10), 0);
    run_hold(&run->drive, 5);
    for (uint32_t i = 0; i < SEGLOG_WRITES_MAX; i++) { /* each leads a write of its own */
        writer[i] = run_spawn_writer(run, testing, writers, i, 100);
        run_wait_for_arrivals(&run->drive, i + 1);
    }
    for (uint32_t i = 4; i < 8; i++) /* these wait for a leader */
        writer[i] = run_spawn_writer(run, testing, writers, i, 100);
    settle();
    assert_int_equal(run_arrived(&run->drive), SEGLOG_WRITES_MAX);

    run_let_go(&run->drive, 2);
    run_let_go(&run->drive, 1);
    settle();
    for (uint32_t i = 0; i < 8; i++)
        assert_false(
            atomic_load(&writer[i]->done)); /* what is behind an unwritten group is not acknowledged */
    run_let_go(&run->drive, 0);
    run_wait_for_arrivals(&run->drive, 5); /* the four that wait are one write */
    settle();
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(atomic_load(&writer[i]->done), i < 3);
    run_let_go(&run->drive, 4);
    settle();
    assert_false(atomic_load(&writer[7]->done));
    run_let_go(&run->drive, 3);
    run_join(writers);
    assert_int_equal(run_arrived(&run->drive), 5);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(writer[i]->error, 0);
    assert_int_equal(run_check(run, 8), 8);
    free(writers);
    assert_int_equal(run_stop(run), 0);
}

static void acknowledged_in_the_order_of_the_log(void **state)
{
    (void)state;
    run_in_one(SEGLOG_DEVICE, false, false, order);
    run_in_one(SEGLOG_POWER, true, true, order);
}

/* ---- rings and segments that end ---------------------------------------------------------------- */

/* All that is between records, up to the end of the last write, must be zeros, but for ends of groups: also where
 * memory was used before. */
static int expect_zeros_between(void *arg, uint32_t segment, uint64_t stamp,
                                const struct seglog_entry_format *entries, uint32_t count)
{
    struct run *run = arg;
    const struct seglog_superblock_format *superblock = seglog_superblock(run->log);
    const uint8_t *bytes =
        run->drive.base.bytes + superblock->data_offset + segment * superblock->segment_bytes;
    (void)stamp;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t end = entries[i].grain * (uint64_t)superblock->grain_bytes + entries[i].bytes;
        uint64_t next = base_align_up(end, superblock->block_bytes);
        if (i + 1 < count)
            next = entries[i + 1].grain * (uint64_t)superblock->grain_bytes;
        uint64_t group_end = base_align_up(end, superblock->grain_bytes);
        for (; end < next; end++) {
            if (end == group_end && base_is_aligned(next, superblock->block_bytes) &&
                memcmp(bytes + end + offsetof(struct seglog_group_end_format, magic), "Grup", 4) == 0)
                end += sizeof(struct seglog_group_end_format);
            assert_true(end == next || bytes[end] == 0);
        }
    }
    return 0;
}

static void wrap(struct run *run, struct task_testing *testing)
{
    struct run_writers *writers = calloc(1, sizeof(*writers));
    struct base_random random;
    base_random_init(&random, 3);
    for (uint32_t round = 0; round < 40; round++) {
        task_group_init(&writers->group);
        for (uint32_t i = 0; i < 10; i++)
            (void)run_spawn_writer(run, testing, writers, i, (uint32_t)base_random_below(&random, 20000));
        run_join(writers);
        for (uint32_t i = 0; i < 10; i++)
            assert_int_equal(writers->writers[i].error, 0);
        assert_int_equal(run_check(run, 10), 10);
    }
    assert_true(run->log->streams[1].head_position > 4 * run->log->streams[1].ring_bytes);
    free(writers);
    run_restart(run);
    assert_int_equal(seglog_visit(run->log, expect_zeros_between, run), 0);
    assert_int_equal(run_stop(run), 0);
}

static void rings_and_segments_go_on(void **state)
{
    (void)state;
    run_in_one(SEGLOG_DEVICE, false, false, wrap);
    run_in_one(SEGLOG_POWER, false, false, wrap);
    run_in_one(SEGLOG_ASYNC, false, false, wrap);
}

/* Records as large as a segment: each needs one of its own, and the ring holds two. */
static void full(struct run *run, struct task_testing *testing)
{
    struct run_writers *writers = calloc(1, sizeof(*writers));
    uint32_t largest = seglog_superblock(run->log)->record_bytes_max - (uint32_t)run_record_bytes(run, 0);
    task_group_init(&writers->group);
    run_hold(&run->drive, 1);
    for (uint32_t i = 0; i < 4; i++)
        (void)run_spawn_writer(run, testing, writers, i, largest);
    run_wait_for_arrivals(&run->drive, 1);
    settle();
    run_let_go(&run->drive, 0);
    run_join(writers);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(writers->writers[i].error, 0);
    assert_int_equal(run_check(run, 4), 4);
    assert_int_equal(run_put(run, 5, largest + 64), -EMSGSIZE);
    free(writers);
    assert_int_equal(run_stop(run), 0);
}

/* A ring that is smaller than a segment is filled to the brim while the first write is held. */
static void brim(struct run *run, struct task_testing *testing)
{
    struct run_writers *writers = calloc(1, sizeof(*writers));
    const struct seglog_stream *stream = &run->log->streams[1];
    assert_true(stream->ring_bytes < seglog_superblock(run->log)->segment_bytes);
    for (uint32_t round = 0; round < 3; round++) {
        task_group_init(&writers->group);
        run_hold(&run->drive, 1);
        for (uint32_t i = 0; i < 300; i++)
            (void)run_spawn_writer(run, testing, writers, i, 4500 + i * 3);
        run_wait_for_arrivals(&run->drive, 1);
        settle();
        assert_true(stream->making || run->mode == SEGLOG_ASYNC);
        assert_true(stream->head_position - stream->tail_position <= stream->ring_bytes);
        run_let_go(&run->drive, 0);
        run_join(writers);
        for (uint32_t i = 0; i < 300; i++)
            assert_int_equal(writers->writers[i].error, 0);
        assert_int_equal(run_check(run, 300), 300);
    }
    free(writers);
    assert_int_equal(run_stop(run), 0);
}

static void writers_wait_for_room_in_order(void **state)
{
    (void)state;
    run_in_one(SEGLOG_DEVICE, false, false, full);
    run_in_one(SEGLOG_ASYNC, false, false, full);
    for (int mode = SEGLOG_POWER; mode <= SEGLOG_ASYNC; mode++) {
        struct run *run = run_new((enum seglog_mode)mode, 16 * SEGLOG_SEGMENTS_MIN + 1);
        run->segment_bytes = 16 * SEGLOG_SEGMENT_BYTES_MIN;
        run->record_bytes_max = 1 << 16;
        run_in_tasks(run, brim);
        run_free(run);
    }
}

/* Extension and key of every length where the ring ends: the checks must be right all the same. */
static void pieces(struct run *run, struct task_testing *testing)
{
    (void)testing;
    const struct seglog_superblock_format *superblock = seglog_superblock(run->log);
    static uint8_t memory[1 << 18], key[60000], extension[16] = "0123456789abcdef";
    for (uint32_t i = 0; i < 60; i++) {
        struct seglog_reservation room;
        struct seglog_place place;
        memset(key, (int)i, sizeof(key));
        const struct seglog_draft draft = {
            .kind = SEGLOG_VALUE | (i % 2 == 0 ? SEGLOG_MARK_PIECE : SEGLOG_MARK_HEAD),
            .key_bytes = (uint16_t)(20000 + i * 600),
            .value_bytes = 100 + i,
            .sequence = i + 1,
            .hash = run->hashes[i],
            .key = key,
            .value = key,
            .extension = extension,
        };
        uint64_t bytes = seglog_record_bytes(draft.kind, draft.key_bytes, draft.value_bytes);
        assert_int_equal(seglog_reserve(run->log, SEGLOG_SPACE_DATA, bytes, &room), 0);
        assert_int_equal(seglog_append(run->log, &room, &draft, &place), 0);
        assert_int_equal(seglog_wait(run->log, &place), 0);
        uint64_t offset = place.grain * superblock->grain_bytes;
        memcpy(memory, run->drive.base.bytes + offset, bytes);
        struct seglog_record_format header;
        uint64_t seed = seglog_record_seed(superblock->check_seed, seglog_stamp_at(run->log, place.grain));
        assert_int_equal(
            seglog_record_parse(memory, bytes, seed, place.grain, superblock->record_bytes_max, &header), 0);
        assert_int_equal(seglog_record_verify_body(memory, &header, superblock->check_seed), 0);
        assert_memory_equal(memory + sizeof(header), extension, 16);
        seglog_settle(run->log, &place, false);
    }
    assert_true(run->log->streams[1].head_position > 8 * run->log->streams[1].ring_bytes);
    assert_int_equal(run_stop(run), 0);
}

static void extensions_wrap(void **state)
{
    (void)state;
    run_in_one(SEGLOG_DEVICE, false, false, pieces);
}

/* ---- sync and summaries -------------------------------------------------------------------------- */

static void sync_flushes(struct run *run, struct task_testing *testing)
{
    (void)testing;
    assert_int_equal(run_put(run, 1, 100), 0);
    uint32_t before = run->drive.event_count;
    assert_int_equal(seglog_sync(run->log), 0);
    assert_int_equal(count_data(run, before, DRIVE_WRITE), run->mode == SEGLOG_ASYNC);
    assert_int_equal(count_data(run, before, DRIVE_FLUSH), run->mode != SEGLOG_POWER);
    assert_int_equal(run_stop(run), 0);
}

static void sync_makes_durable(void **state)
{
    (void)state;
    run_in_one(SEGLOG_DEVICE, false, false, sync_flushes);
    run_in_one(SEGLOG_ASYNC, false, false, sync_flushes);
    run_in_one(SEGLOG_POWER, false, false, sync_flushes);
}

struct taker {
    struct seglog *log;
    struct seglog_summary *summary;
    _Atomic bool done;
};

static void take_summary(void *arg)
{
    struct taker *taker = arg;
    assert_int_equal(seglog_summary_take(taker->log, &taker->summary), 0);
    atomic_store(&taker->done, true);
}

/* All summaries are in the hands of others: one waits for the next that is given back. */
static void summaries(struct run *run, struct task_testing *testing)
{
    struct seglog_summary *taken[2 + SEGLOG_SUMMARIES_SPARE];
    struct taker taker = {.log = run->log};
    struct task_group group;
    task_group_init(&group);
    for (size_t i = 0; i < base_array_count(taken); i++)
        assert_int_equal(seglog_summary_take(run->log, &taken[i]), 0);
    assert_int_equal(task_spawn(testing->scheds[0], &group, "taker", take_summary, &taker), 0);
    settle();
    assert_false(atomic_load(&taker.done));
    seglog_summary_give(run->log, taken[0]);
    assert_int_equal(task_group_join(&group, task_now() + BASE_NS_PER_SECOND), 0);
    assert_ptr_equal(taker.summary, taken[0]);
    for (size_t i = 0; i < base_array_count(taken); i++)
        seglog_summary_give(run->log, taken[i]);
    assert_int_equal(run_stop(run), 0);
}

static void summaries_are_waited_for(void **state)
{
    (void)state;
    run_in_one(SEGLOG_DEVICE, false, false, summaries);
}

/* ---- closing ------------------------------------------------------------------------------------ */

/* Fill the first segment: its summary comes after everything in it, and after a flush of that. */
static void close_one(struct run *run, struct task_testing *testing)
{
    (void)testing;
    const struct seglog_superblock_format *superblock = seglog_superblock(run->log);
    assert_int_equal(run_put(run, 0, 3000), 0);
    uint32_t first = seglog_segment_of(run->log, atomic_load(&run->keys[0].grain)), records = 0;
    uint64_t begin = superblock->data_offset + first * superblock->segment_bytes;
    uint64_t end = begin + superblock->segment_bytes;
    for (uint32_t i = 1; i < 100; i++)
        assert_int_equal(run_put(run, i, 3000), 0);
    settle();
    for (uint32_t i = 0; i < 100; i++)
        records += seglog_segment_of(run->log, atomic_load(&run->keys[i].grain)) == first;
    int32_t last_data = -1, flush = -1, summary = -1;
    for (int32_t i = 0; i < (int32_t)run->drive.event_count; i++) {
        const struct run_event *event = &run->drive.events[i];
        bool within = event->op == DRIVE_WRITE && event->offset >= begin && event->offset < end;
        if (within && event->offset + event->bytes == end)
            summary = last_data < 0 ? -1 : i; /* before the data it is the copy of the header */
        else if (within)
            last_data = i;
        else if (event->op == DRIVE_FLUSH && summary < 0)
            flush = i;
    }
    assert_true(last_data >= 0 && summary > last_data);
    assert_true(run->drive.events[summary].durable);
    if (run->mode == SEGLOG_POWER)
        assert_int_equal(count_data(run, 0, DRIVE_FLUSH), 0); /* what is acknowledged is durable */
    else
        assert_true(flush > last_data && flush < summary);

    struct seglog_trailer_format trailer;
    const uint8_t *bytes = run->drive.base.bytes + end;
    uint64_t stamp = seglog_stamp_at(run->log, atomic_load(&run->keys[0].grain));
    assert_int_equal(seglog_trailer_parse(bytes - sizeof(trailer), superblock, stamp, &trailer), 0);
    assert_int_equal(trailer.entries, records);
    assert_int_equal(trailer.session, 1);
    assert_int_equal(trailer.flags, 0);
    const uint8_t *entries = bytes - seglog_summary_bytes(trailer.entries, superblock->block_bytes);
    assert_int_equal(seglog_summary_verify(entries, &trailer, superblock), 0);
    const struct seglog_entry_format *entry = (const void *)entries;
    for (uint32_t i = 0; i < trailer.entries; i++) {
        uint64_t number = run_number(run, &entry[i]);
        assert_int_equal(seglog_entry_grain(run->log, first, &entry[i]),
                         atomic_load(&run->keys[number].grain));
        assert_int_equal(entry[i].sequence, run->keys[number].sequence);
        assert_int_equal(entry[i].bytes, run->keys[number].bytes);
    }
    struct seglog_segment_info info;
    seglog_segment_info(run->log, first, &info);
    assert_string_equal(info.state, "closed");
    assert_int_equal(info.entries, records);
    assert_int_equal(info.used_bytes, trailer.end);
    assert_int_equal(info.stream, 1);
    assert_int_equal(run_stop(run), 0);
}

static void a_summary_comes_after_the_flush(void **state)
{
    (void)state;
    run_in_one(SEGLOG_DEVICE, false, false, close_one);
    run_in_one(SEGLOG_POWER, false, false, close_one);
}

static void stop_closes(struct run *run, struct task_testing *testing)
{
    (void)testing;
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(run_put(run, i, 100), 0);
    assert_int_equal(seglog_stop(run->log), 0);
    assert_true(run->log->stopped && run->log->stopped_well);
    for (uint32_t i = 0; i < seglog_superblock(run->log)->segment_count; i++) {
        struct seglog_segment_info info;
        seglog_segment_info(run->log, i, &info);
        assert_true(strcmp(info.state, "free") == 0 || strcmp(info.state, "closed") == 0);
    }
    assert_int_equal(seglog_close(run->log), 0);
    drive_close(run->opened);
    struct testing_log log;
    struct testing_drive copy = testing_drive_copy(&run->drive.base);
    testing_log_open(&log, &copy, true);
    (void)run_expect_found(run, log.log);
    testing_log_close(&log);
    testing_drive_free(&copy);
}

static void stopping_closes_all_segments(void **state)
{
    (void)state;
    run_in_one(SEGLOG_DEVICE, false, false, stop_closes);
    run_in_one(SEGLOG_ASYNC, false, false, stop_closes);
    run_in_one(SEGLOG_POWER, false, false, stop_closes);
}

/* ---- delayed writes ----------------------------------------------------------------------------- */

static void delayed(struct run *run, struct task_testing *testing)
{
    (void)testing;
    uint32_t before = run->drive.event_count;
    uint64_t begin_ns = task_now();
    assert_int_equal(run_put(run, 0, 1000), 0);
    assert_int_equal(run_put(run, 1, 1000), 0);
    assert_int_equal(run->drive.event_count, ++before); /* the copy of the segment's header */
    assert_int_equal(run_check(run, 2), 2);             /* they are read from memory */
    uint8_t data[16];
    assert_false(seglog_read_pending(run->log, 0, data, sizeof(data)));
    assert_false(seglog_read_pending(run->log, UINT64_MAX / 64, data, sizeof(data)));
    assert_false(seglog_read_pending(run->log, atomic_load(&run->keys[1].grain) + 100, data, sizeof(data)));
    while (count_data(run, before, DRIVE_FLUSH) == 0)
        assert_int_equal(task_sleep(BASE_NS_PER_MS * 10), 0);
    assert_true(task_now() - begin_ns < 30 * SEGLOG_ASYNC_DELAY_NS);
    assert_true(task_now() - begin_ns > SEGLOG_ASYNC_DELAY_NS / 4);
    assert_int_equal(count_data(run, before, DRIVE_WRITE), 1);
    assert_false(seglog_read_pending(run->log, atomic_load(&run->keys[1].grain), data, sizeof(data)));
    assert_int_equal(run_check(run, 2), 2);
    uint64_t services = atomic_load(&run->services);
    assert_int_equal(task_sleep(BASE_NS_PER_MS * 1200), 0);
    assert_int_equal(atomic_load(&run->services), services); /* nothing to do: it sleeps */

    before = run->drive.event_count;
    for (uint32_t i = 0; i < 12; i++) /* more than a quarter of the ring is written soon */
        assert_int_equal(run_put(run, i, 8000), 0);
    settle();
    assert_true(count_data(run, before, DRIVE_WRITE) >= 1);
    assert_int_equal(count_data(run, before, DRIVE_FLUSH), 0);
    assert_int_equal(seglog_sync(run->log), 0);
    assert_int_equal(count_data(run, before, DRIVE_FLUSH), 1);
    assert_int_equal(run_check(run, 12), 12);
    assert_int_equal(run_stop(run), 0);
}

static void asynchronous_writes_are_delayed_but_not_long(void **state)
{
    (void)state;
    run_in_one(SEGLOG_ASYNC, false, false, delayed);
}

static void release_memory(struct seglog_stream *stream)
{
    base_spin_lock(&stream->lock);
    seglog_stream_release_locked(stream);
    base_spin_unlock(&stream->lock);
}

/* Memory that somebody reads is not given out again, and one reader after the other does not keep it for
 * ever. */
static void readers(struct run *run, struct task_testing *testing)
{
    (void)testing;
    struct seglog_stream *stream = &run->log->streams[1];
    assert_int_equal(run_put(run, 0, 100), 0);
    uint64_t behind = stream->free_position;
    uint32_t first = stream->phase;
    stream->readers[first]++; /* as seglog_read_pending() does */
    assert_int_equal(seglog_sync(run->log), 0);
    assert_true(stream->tail_position > behind);
    assert_int_equal(stream->free_position, behind);
    uint64_t middle = stream->tail_position;
    uint32_t second = stream->phase;
    assert_int_not_equal(first, second);
    stream->readers[second]++; /* began after the first was acknowledged */
    assert_int_equal(run_put(run, 1, 100), 0);
    assert_int_equal(seglog_sync(run->log), 0);
    assert_int_equal(stream->free_position, behind);
    stream->readers[first]--;
    release_memory(stream);
    assert_int_equal(stream->free_position, middle);
    stream->readers[second]--;
    release_memory(stream);
    assert_int_equal(stream->free_position, stream->tail_position);
    assert_int_equal(run_stop(run), 0);
}

static void readers_keep_memory(void **state)
{
    (void)state;
    run_in_one(SEGLOG_ASYNC, false, false, readers);
}

/* A writer waits for a reader that has the ring's memory. */
static void room_waits(struct run *run, struct task_testing *testing)
{
    struct seglog_stream *stream = &run->log->streams[1];
    struct run_writers *writers = calloc(1, sizeof(*writers));
    task_group_init(&writers->group);
    assert_int_equal(run_put(run, 0, 100), 0);
    uint32_t phase = stream->phase;
    stream->readers[phase]++;
    for (uint32_t i = 1; i < 30; i++)
        (void)run_spawn_writer(run, testing, writers, i, 16000);
    settle();
    assert_non_null(stream->room_wait);
    base_spin_lock(&stream->lock);
    stream->readers[phase]--;
    seglog_stream_release_locked(stream);
    base_spin_unlock(&stream->lock);
    run_join(writers);
    assert_int_equal(run_check(run, 30), 30);
    free(writers);
    assert_int_equal(run_stop(run), 0);
}

static void room_waits_for_readers(void **state)
{
    (void)state;
    run_in_one(SEGLOG_ASYNC, false, false, room_waits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_writer_waits_for_one_write),
        cmocka_unit_test(a_device_without_fua_is_flushed),
        cmocka_unit_test(many_writers_share_few_writes),
        cmocka_unit_test(acknowledged_in_the_order_of_the_log),
        cmocka_unit_test(rings_and_segments_go_on),
        cmocka_unit_test(writers_wait_for_room_in_order),
        cmocka_unit_test(extensions_wrap),
        cmocka_unit_test(sync_makes_durable),
        cmocka_unit_test(summaries_are_waited_for),
        cmocka_unit_test(a_summary_comes_after_the_flush),
        cmocka_unit_test(stopping_closes_all_segments),
        cmocka_unit_test(asynchronous_writes_are_delayed_but_not_long),
        cmocka_unit_test(readers_keep_memory),
        cmocka_unit_test(room_waits_for_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
