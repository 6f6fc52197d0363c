/*
 * For the tests of the running side: a log on such a drive with an owner whose index is an array; writers;
 * what must be found after a restart.
 */
#include "seglog/run_testing.h"

/* ---- a log -------------------------------------------------------------------------------------- */

void run_key_bytes(const struct run *run, uint64_t number, uint8_t *key)
{
    memset(key, 'k', run->key_room);
    memcpy(key, &number, sizeof(number));
}

/* Hash all keys: the store's seed is known. */
static void run_hash_keys(struct run *run)
{
    static uint8_t key[1 << 16];
    memset(run->by_hash, 0, sizeof(run->by_hash));
    for (uint32_t number = 0; number < RUN_KEYS_MAX; number++) {
        run_key_bytes(run, number, key);
        run->hashes[number] = base_hash128(key, run->key_room, seglog_superblock(run->log)->hash_seed);
        uint64_t slot = run->hashes[number].low % base_array_count(run->by_hash);
        while (run->by_hash[slot] != 0)
            slot = (slot + 1) % base_array_count(run->by_hash);
        run->by_hash[slot] = (uint16_t)(number + 1);
    }
}

uint64_t run_number(const struct run *run, const struct seglog_entry_format *entry)
{
    uint64_t slot = entry->hash[0] % base_array_count(run->by_hash);
    for (; run->by_hash[slot] != 0; slot = (slot + 1) % base_array_count(run->by_hash)) {
        uint32_t number = run->by_hash[slot] - 1U;
        if (run->hashes[number].low == entry->hash[0] && run->hashes[number].high == entry->hash[1])
            return number;
    }
    fail_msg("an entry is of no key");
    return 0;
}

struct run *run_new(enum seglog_mode mode, uint64_t segments)
{
    struct run *run = calloc(1, sizeof(*run));
    assert_non_null(run);
    run->mode = mode;
    run->user_streams = 1;
    run->key_room = 8;
    run->drive.base = testing_drive_new(6 * UINT64_C(4096) + segments * SEGLOG_SEGMENT_BYTES_MIN);
    for (uint32_t i = 0; i < RUN_KEYS_MAX; i++)
        task_mutex_init(&run->keys[i].lock);
    return run;
}

void run_free(struct run *run)
{
    testing_drive_free(&run->drive.base);
    free(run->drive.stable);
    free(run);
}

struct task_node_options run_node_options(struct run *run)
{
    return (struct task_node_options){
        .drives = &run_provider, .drives_arg = &run->drive, .log_sink = testing_sink, .log_arg = &run->lines};
}

enum seglog_verdict run_judge(void *owner, const struct seglog_entry_format *entry, uint64_t grain)
{
    struct run *run = owner;
    if (atomic_load(&run->keys[run_number(run, entry)].grain) != grain)
        return SEGLOG_DEAD;
    uint64_t expiry_ns = seglog_expiry_ns(entry->expiry);
    if (expiry_ns != 0 && expiry_ns <= task_wall(run->node))
        return SEGLOG_ENDED;
    return atomic_load(&run->keys[run_number(run, entry)].hit) ? SEGLOG_HIT : SEGLOG_LIVE;
}

static bool run_moved(void *owner, const struct seglog_entry_format *entry, uint64_t grain,
                      const struct seglog_place *place)
{
    struct run *run = owner;
    struct run_key *key = &run->keys[run_number(run, entry)];
    uint64_t expected = grain, footprint = seglog_footprint(run->log, entry->bytes);
    uint64_t every = atomic_load(&run->lose_every);
    bool loses = place != NULL && every != 0 && atomic_fetch_add(&run->moves, 1) % every == 0;
    if (loses && atomic_compare_exchange_strong(&key->grain, &expected, 0)) {
        /* as if it had been deleted a moment ago, by somebody whose tombstone is forgotten already */
        seglog_live_remove(run->log, grain, entry->bytes);
        atomic_fetch_sub(&run->live_bytes, footprint);
        atomic_fetch_add(&run->lost, 1);
        return false;
    }
    expected = grain;
    if (!atomic_compare_exchange_strong(&key->grain, &expected, place == NULL ? 0 : place->grain))
        return false;
    if (place == NULL) {
        atomic_fetch_sub(&run->live_bytes, footprint);
        atomic_fetch_add(&run->ended, 1);
    }
    return true;
}

static bool run_renew(void *owner, const struct seglog_entry_format *entry, uint64_t grain)
{
    struct run *run = owner;
    struct run_key *key = &run->keys[run_number(run, entry)];
    if (!task_mutex_lock_try(&key->lock))
        return false;
    key->renewing = atomic_load(&key->grain) == grain;
    if (!key->renewing)
        task_mutex_unlock(&key->lock);
    return key->renewing;
}

/* Its sequence is read where it is checked: the owner is not told. */
static void run_renewed(void *owner, const struct seglog_entry_format *entry, uint64_t grain,
                        const struct seglog_place *place)
{
    struct run *run = owner;
    struct run_key *key = &run->keys[run_number(run, entry)];
    base_assert(key->renewing && atomic_load(&key->grain) == grain);
    if (place != NULL) {
        key->sequence = 0;
        atomic_store(&key->grain, place->grain);
        atomic_store(&key->hit, false);
        atomic_fetch_add(&run->renewed, 1);
        key->renewing = false;
    }
    task_mutex_unlock(&key->lock);
}

/* It is gone durably before it goes here. */
static void run_evicted(void *owner, const struct seglog_entry_format *entry, uint64_t grain)
{
    struct run *run = owner;
    struct run_key *key = &run->keys[run_number(run, entry)];
    struct seglog_points points;
    seglog_points(run->log, &points);
    base_assert(points.horizon_sequence > entry->sequence);
    uint64_t expected = grain;
    if (!atomic_compare_exchange_strong(&key->grain, &expected, 0))
        return;
    atomic_fetch_sub(&run->live_bytes, seglog_footprint(run->log, entry->bytes));
    atomic_fetch_add(&run->evicted, 1);
    if (entry->sequence > atomic_load(&run->evicted_sequence))
        atomic_store(&run->evicted_sequence, entry->sequence);
}

/* All keys' grains, by their numbers. */
static int run_checkpoint(void *owner, struct seglog_checkpoint *checkpoint)
{
    struct run *run = owner;
    int error = 0;
    for (uint32_t number = 0; error == 0 && number < RUN_KEYS_MAX; number++) {
        uint64_t grain = atomic_load(&run->keys[number].grain);
        error = seglog_checkpoint_put(checkpoint, &grain, sizeof(grain));
    }
    return error;
}

static uint64_t run_checkpoint_bytes(void *owner)
{
    (void)owner;
    return RUN_KEYS_MAX * sizeof(uint64_t);
}

void run_service(void *owner)
{
    struct run *run = owner;
    atomic_fetch_add(&run->services, 1);
}

const struct seglog_owner_ops run_ops = {.judge = run_judge,
                                         .moved = run_moved,
                                         .renew = run_renew,
                                         .renewed = run_renewed,
                                         .evicted = run_evicted,
                                         .checkpoint = run_checkpoint,
                                         .checkpoint_bytes = run_checkpoint_bytes,
                                         .service = run_service};

void run_open_drive(struct run *run, struct tarn_node *node)
{
    run->node = node;
    assert_int_equal(
        drive_open(node, "run", &(struct drive_options){.direct = DRIVE_DIRECT_AUTO}, &run->opened), 0);
}

void run_open_log(struct run *run)
{
    const struct seglog_options options = {.mode = run->mode,
                                           .owner_kind = SEGLOG_OWNER_DEPOT,
                                           .user_streams = run->user_streams,
                                           .cache = run->cache,
                                           .scrub_rate_bytes = run->scrub_rate_bytes,
                                           .scrub_interval_ns = run->scrub_interval_ns,
                                           .checkpoint_rate_bytes = run->checkpoint_rate_bytes,
                                           .checkpoint_every_bytes = run->checkpoint_every_bytes,
                                           .discard = !run->keep_discarded};
    assert_int_equal(seglog_open(run->node, run->opened, &options, &run->log), 0);
}

void run_start(struct run *run, struct tarn_node *node)
{
    const struct seglog_format_options format = {.owner_kind = SEGLOG_OWNER_DEPOT,
                                                 .segment_bytes = run->segment_bytes};
    run_open_drive(run, node);
    assert_int_equal(seglog_format(node, run->opened, &format), 0);
    for (uint64_t copy = 0; copy < 2 && run->record_bytes_max != 0; copy++) {
        struct seglog_superblock_format superblock = testing_superblock(&run->drive.base);
        superblock.record_bytes_max = run->record_bytes_max;
        seglog_superblock_seal(&superblock);
        memcpy(run->drive.base.bytes + copy * SEGLOG_SUPERBLOCK_BYTES, &superblock, sizeof(superblock));
    }
    run_open_log(run);
    run_hash_keys(run);
    assert_int_equal(seglog_start(run->log, run->ops == NULL ? &run_ops : run->ops, run), 0);
}

int run_stop(struct run *run)
{
    int error = seglog_stop(run->log);
    int close_error = seglog_close(run->log);
    assert_true(error == 0 || close_error != 0);
    drive_close(run->opened);
    return close_error;
}

static void run_task(struct task_testing *testing, struct run *run)
{
    run_start(run, testing->node);
    run->test(run, testing);
}

static void run_test_task(void *arg)
{
    struct task_testing *testing = arg;
    run_task(testing, testing->arg);
}

void run_in_tasks(struct run *run, void (*test)(struct run *run, struct task_testing *testing))
{
    const struct task_node_options options = run_node_options(run);
    run->test = test;
    task_testing_run(&options, NULL, run_test_task, run);
}

struct tarn_node *run_node(struct run *run)
{
    const struct task_node_options options = run_node_options(run);
    struct tarn_node *node;
    assert_int_equal(task_node_open(&options, &node), 0);
    return node;
}

/* ---- writing and reading ------------------------------------------------------------------------ */

static uint8_t run_byte(uint64_t number, uint64_t sequence, uint64_t i)
{
    return (uint8_t)(number * 31 + sequence * 7 + i);
}

void run_fill(uint8_t *data, uint64_t number, uint64_t sequence, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = run_byte(number, sequence, i);
}

uint64_t run_record_bytes(const struct run *run, uint32_t value_bytes)
{
    return seglog_record_bytes(SEGLOG_VALUE, run->key_room, value_bytes);
}

void run_publish(struct run *run, uint64_t number, uint64_t sequence, const struct seglog_place *place,
                 uint32_t value_bytes)
{
    struct run_key *key = &run->keys[number];
    uint64_t old = atomic_exchange(&key->grain, place->tombstone ? 0 : place->grain);
    if (old != 0) {
        seglog_live_remove(run->log, old, key->bytes);
        atomic_fetch_sub(&run->live_bytes, seglog_footprint(run->log, key->bytes));
    }
    if (!place->tombstone) {
        atomic_fetch_add(&run->live_bytes, seglog_footprint(run->log, place->bytes));
        key->bytes = place->bytes;
        key->value_bytes = value_bytes;
    }
    key->sequence = key->version = sequence;
    atomic_store(&key->hit, false);
    seglog_settle(run->log, place, true);
}

int run_write(struct run *run, uint64_t number, struct seglog_reservation *room, const uint8_t *value,
              uint32_t value_bytes, uint64_t sequence, uint64_t expiry_ns)
{
    uint8_t key[8192];
    struct seglog_place place;
    run_key_bytes(run, number, key);
    const struct seglog_draft draft = {
        .kind = value == NULL ? SEGLOG_TOMBSTONE : SEGLOG_VALUE,
        .key_bytes = (uint16_t)run->key_room,
        .value_bytes = value == NULL ? 0 : value_bytes,
        .sequence = sequence,
        .version = value == NULL ? 0 : sequence,
        .expiry_ns = expiry_ns,
        .hash = run->hashes[number],
        .superseded = atomic_load(&run->keys[number].grain),
        .key = key,
        .value = value,
    };
    int error = seglog_append(run->log, room, &draft, &place);
    if (error != 0)
        return error;
    error = seglog_wait(run->log, &place);
    if (error == 0)
        run_publish(run, number, sequence, &place, value_bytes);
    else
        seglog_settle(run->log, &place, false);
    return error;
}

int run_change(struct run *run, uint64_t number, enum seglog_space space, uint32_t value_bytes,
               uint64_t expiry_ns)
{
    struct seglog_reservation room = {.cost_bytes = 0};
    bool deletes = space == SEGLOG_SPACE_DELETE;
    int error = seglog_reserve(run->log, space, run_record_bytes(run, deletes ? 8 : value_bytes), &room);
    if (error != 0)
        return error;
    uint64_t sequence;
    uint8_t *value = deletes ? NULL : malloc(value_bytes + 1);
    task_mutex_lock_firmly(&run->keys[number].lock);
    error = seglog_sequence_draw(run->log, &sequence);
    if (error == 0) {
        if (!deletes)
            run_fill(value, number, sequence, value_bytes);
        error = run_write(run, number, &room, value, value_bytes, sequence, expiry_ns);
    }
    if (error != 0)
        run->in_doubt = number + 1;
    task_mutex_unlock(&run->keys[number].lock);
    seglog_release(run->log, &room);
    free(value);
    return error;
}

int run_put(struct run *run, uint64_t number, uint32_t value_bytes)
{
    return run_change(run, number, SEGLOG_SPACE_DATA, value_bytes, 0);
}

int run_delete(struct run *run, uint64_t number)
{
    return run_change(run, number, SEGLOG_SPACE_DELETE, 0, 0);
}

bool run_check_key(struct run *run, uint64_t number)
{
    const struct seglog_superblock_format *superblock = seglog_superblock(run->log);
    struct run_key *key = &run->keys[number];
    uint8_t *memory = NULL;
    for (int try = 0; try < 100; try++) {
        uint64_t grain = atomic_load(&key->grain);
        if (grain == 0) {
            free(memory);
            return false;
        }
        uint64_t begin = base_align_down(grain * superblock->grain_bytes, UINT64_C(512));
        uint64_t skip = grain * superblock->grain_bytes - begin;
        uint64_t bytes = base_align_up(skip + key->bytes, UINT64_C(512));
        free(memory);
        memory = aligned_alloc(512, bytes);
        assert_non_null(memory);
        if (!seglog_read_pending(run->log, grain, memory + skip, key->bytes))
            assert_int_equal(drive_read(run->opened, begin, memory, bytes), 0);
        struct seglog_record_format header;
        uint64_t seed = seglog_record_seed(superblock->check_seed, seglog_stamp_at(run->log, grain));
        int error = seglog_record_parse(memory + skip, key->bytes, seed, grain, superblock->record_bytes_max,
                                        &header);
        if (error == 0)
            error = seglog_record_verify_body(memory + skip, &header, superblock->check_seed);
        if (atomic_load(&key->grain) != grain)
            continue; /* moved meanwhile */
        assert_int_equal(error, 0);
        assert_true(header.sequence == key->sequence || (key->sequence == 0 && run->cache));
        assert_int_equal(header.version, key->version);
        assert_int_equal(header.value_bytes, key->value_bytes);
        const uint8_t *found = memory + skip + sizeof(header);
        assert_memory_equal(found, &number, sizeof(number));
        for (uint64_t i = 0; i < header.value_bytes; i++)
            assert_int_equal(found[header.key_bytes + i], run_byte(number, header.version, i));
        free(memory);
        return true;
    }
    fail_msg("the record of key %lu moves for ever", (unsigned long)number);
    return false;
}

uint32_t run_check(struct run *run, uint32_t keys)
{
    uint32_t living = 0;
    for (uint32_t i = 0; i < keys; i++)
        living += run_check_key(run, i);
    return living;
}

/* ---- writers ------------------------------------------------------------------------------------ */

static void run_write_one(void *arg)
{
    struct run_writer *writer = arg;
    writer->error = run_put(writer->run, writer->number, writer->value_bytes);
    atomic_store(&writer->done, true);
}

struct run_writer *run_spawn_writer(struct run *run, struct task_testing *testing,
                                    struct run_writers *writers, uint32_t number, uint32_t value_bytes)
{
    struct run_writer *writer = &writers->writers[number];
    *writer = (struct run_writer){.run = run, .number = number, .value_bytes = value_bytes};
    assert_int_equal(task_spawn(testing->scheds[0], &writers->group, "writer", run_write_one, writer), 0);
    return writer;
}

void run_join(struct run_writers *writers)
{
    assert_int_equal(task_group_join(&writers->group, TASK_FOREVER), 0);
}

void run_in_one(enum seglog_mode mode, bool device, bool fua,
                void (*test)(struct run *run, struct task_testing *testing))
{
    struct run *run = run_new(mode, SEGLOG_SEGMENTS_MIN);
    run->drive.base.device = device;
    run->drive.fua = fua;
    run_in_tasks(run, test);
    run_free(run);
}

/* ---- after a restart ---------------------------------------------------------------------------- */

int run_found_visit(void *arg, uint32_t segment, uint64_t stamp, const struct seglog_entry_format *entries,
                    uint32_t count)
{
    struct run_found *found = arg;
    (void)stamp;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t key = run_number(found->run, &entries[i]);
        bool tombstone = (entries[i].kind & SEGLOG_KIND_MASK) == SEGLOG_TOMBSTONE;
        found->records++;
        found->tombstones += tombstone;
        if (entries[i].sequence > found->sequence[key] ||
            (entries[i].sequence == found->sequence[key] && tombstone)) {
            found->sequence[key] = entries[i].sequence;
            found->tombstone[key] = tombstone;
            found->grain[key] = seglog_entry_grain(found->log, segment, &entries[i]);
            found->bytes[key] = entries[i].bytes;
        }
    }
    return 0;
}

uint64_t run_expect_found(struct run *run, struct seglog *log)
{
    struct run_found *found = calloc(1, sizeof(*found));
    assert_non_null(found);
    found->run = run;
    found->log = log;
    assert_int_equal(seglog_visit(log, run_found_visit, found), 0);
    for (uint32_t i = 0; i < RUN_KEYS_MAX; i++) {
        bool lives = atomic_load(&run->keys[i].grain) != 0;
        if (run->in_doubt == i + 1)
            continue;
        assert_int_equal(lives, found->sequence[i] != 0 && !found->tombstone[i]);
        if (lives)
            assert_int_equal(found->sequence[i], run->keys[i].sequence);
    }
    uint64_t tombstones = found->tombstones;
    free(found);
    return tombstones;
}

uint64_t run_expect_after_crash(struct run *run, bool cut)
{
    struct testing_drive copy = testing_drive_copy(&run->drive.base);
    if (cut)
        memcpy(copy.bytes, run->drive.stable, copy.size);
    struct testing_log log;
    testing_log_open(&log, &copy, false);
    uint64_t tombstones = run_expect_found(run, log.log);
    testing_log_close(&log);
    testing_drive_free(&copy);
    return tombstones;
}

void run_restart(struct run *run)
{
    struct run_found *found = calloc(1, sizeof(*found));
    assert_non_null(found);
    assert_int_equal(seglog_stop(run->log), 0);
    assert_int_equal(seglog_close(run->log), 0);
    run_open_log(run);
    found->run = run;
    found->log = run->log;
    (void)run_expect_found(run, run->log);
    assert_int_equal(seglog_visit(run->log, run_found_visit, found), 0);
    for (uint32_t i = 0; i < RUN_KEYS_MAX; i++) {
        if (found->sequence[i] == 0)
            continue;
        seglog_live_add(run->log, found->grain[i], found->bytes[i], found->tombstone[i]);
        atomic_store(&run->keys[i].grain, found->tombstone[i] ? 0 : found->grain[i]);
    }
    free(found);
    assert_int_equal(seglog_start(run->log, run->ops == NULL ? &run_ops : run->ops, run), 0);
}
