/*
 * For the tests of the layers above: a drive in memory whose bytes can be looked at, copied and damaged, that
 * fails or lies when it is told to and can keep a record of all writes; a civil clock that stands still;
 * nodes on both.
 */
#include "drive/memory_testing.h"

/* ---- recordings --------------------------------------------------------------------------------- */

static void testing_record(struct testing_recording *recording, uint64_t offset, const void *data,
                           uint64_t bytes)
{
    if (recording->count == recording->room) {
        recording->room = 2 * recording->room + 64;
        recording->writes = realloc(recording->writes, recording->room * sizeof(recording->writes[0]));
        base_assert(recording->writes != NULL);
    }
    struct testing_write *write = &recording->writes[recording->count++];
    *write = (struct testing_write){.offset = offset, .bytes = bytes, .mark = atomic_load(&recording->mark)};
    write->data = malloc(bytes);
    base_assert(write->data != NULL);
    memcpy(write->data, data, bytes);
}

void testing_recording_free(struct testing_recording *recording)
{
    for (size_t i = 0; i < recording->count; i++)
        free(recording->writes[i].data);
    free(recording->writes);
}

void testing_write_play(const struct testing_write *write, struct testing_drive *drive)
{
    memcpy(drive->bytes + write->offset, write->data, write->bytes);
}

void testing_write_tear(const struct testing_write *write, struct testing_drive *drive,
                        struct base_random *random)
{
    for (uint64_t at = 0; at < write->bytes; at += DRIVE_SECTOR_BYTES) {
        if (base_random_below(random, 2) == 0)
            memcpy(drive->bytes + write->offset + at, write->data + at,
                   base_min((uint64_t)DRIVE_SECTOR_BYTES, write->bytes - at));
    }
}

/* ---- the drive ---------------------------------------------------------------------------------- */

int testing_drive_open(struct tarn_node *node, void *arg, const char *path,
                       const struct drive_options *options, struct drive_info *ret_info, void **ret_state)
{
    struct testing_drive *drive = arg;
    (void)node;
    (void)path;
    if (!drive->exists && options->create_bytes == 0)
        return -ENOENT;
    if (!drive->exists &&
        (options->create_bytes < DRIVE_BYTES_MIN || options->create_bytes % DRIVE_SECTOR_BYTES != 0))
        return -EINVAL;
    bool created = !drive->exists;
    if (created) {
        drive->size = options->create_bytes;
        drive->bytes = calloc(1, drive->size);
        assert_non_null(drive->bytes);
        drive->exists = true;
    }
    *ret_info = (struct drive_info){
        .provider = "testing",
        .bytes = drive->size,
        .logical_block_bytes = 512,
        .physical_block_bytes = drive->physical_block_bytes == 0 ? 512 : drive->physical_block_bytes,
        .memory_alignment_bytes = 512,
        .direct = true,
        .created = created,
        .device = drive->device,
        .discard = drive->discards,
    };
    *ret_state = drive;
    return 0;
}

void testing_drive_close(void *state)
{
    (void)state;
}

static bool testing_drive_fails(struct testing_drive *drive, const struct drive_request *request)
{
    /* first: who is arming it stores fail_at last */
    if (atomic_load(&drive->fail_at) == 0 || request->op != drive->fail_op)
        return false;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < request->iov_count; i++)
        bytes += request->iov[i].iov_len;
    if (drive->fail_end != 0 &&
        (request->offset >= drive->fail_end || request->offset + bytes <= drive->fail_begin))
        return false;
    if (atomic_load(&drive->fail_at) == 1 && drive->fail_on)
        return true;
    return atomic_fetch_sub(&drive->fail_at, 1) == 1;
}

void testing_drive_move_locked(struct testing_drive *drive, const struct drive_request *request,
                               uint64_t bytes_max)
{
    uint64_t offset = request->offset;
    for (uint32_t i = 0; i < request->iov_count; i++) {
        const struct iovec *iov = &request->iov[i];
        uint64_t bytes = base_min((uint64_t)iov->iov_len, bytes_max);
        if (request->op == DRIVE_READ)
            memcpy(iov->iov_base, drive->bytes + offset, bytes);
        else
            memcpy(drive->bytes + offset, iov->iov_base, bytes);
        if (request->op == DRIVE_WRITE && drive->recording != NULL && bytes > 0)
            testing_record(drive->recording, offset, iov->iov_base, bytes);
        offset += bytes;
        bytes_max -= bytes;
    }
    if (request->op == DRIVE_READ)
        atomic_fetch_add(&drive->read_bytes, offset - request->offset);
}

/* Fail with -EIO, perhaps in the middle of a write. */
static void testing_drive_fail(struct testing_drive *drive, struct drive_request *request)
{
    base_spin_lock(&drive->lock);
    if (request->op == DRIVE_WRITE && atomic_load(&drive->fail_at) <= 1)
        testing_drive_move_locked(drive, request, drive->partial_bytes);
    drive->partial_bytes = 0;
    base_spin_unlock(&drive->lock);
    drive_finish_now(request, -EIO);
}

/* Wrong bytes, within the part of the drive that lies. */
static void testing_drive_lie(struct testing_drive *drive, const struct drive_request *request)
{
    uint64_t begin = drive->fail_end == 0 ? 0 : drive->fail_begin;
    uint64_t end = drive->fail_end == 0 ? UINT64_MAX : drive->fail_end;
    uint64_t offset = request->offset;
    int changing = (int)(atomic_load(&drive->reads) % 251) + 1;
    int byte = drive->lie == TESTING_ZEROS ? 0 : drive->lie == TESTING_NOISE ? 0xdb : changing;
    for (uint32_t i = 0; i < request->iov_count; i++) {
        const struct iovec *iov = &request->iov[i];
        uint64_t from = base_max(offset, begin), to = base_min(offset + iov->iov_len, end);
        if (from < to)
            memset((uint8_t *)iov->iov_base + (from - offset), byte, to - from);
        offset += iov->iov_len;
    }
}

/* What is discarded is noise afterwards. */
static void testing_drive_discard_locked(struct testing_drive *drive, const struct drive_request *request)
{
    memset(drive->bytes + request->offset, 0xd5, request->discard_bytes);
    if (drive->recording != NULL)
        testing_record(drive->recording, request->offset, drive->bytes + request->offset,
                       request->discard_bytes);
    atomic_fetch_add(&drive->discarded_bytes, request->discard_bytes);
}

void testing_drive_post(void *state, struct drive_request *request)
{
    struct testing_drive *drive = state;
    bool fails = testing_drive_fails(drive, request);
    if (fails && drive->lie == TESTING_TRUTH) {
        testing_drive_fail(drive, request);
        return;
    }
    if (task_self() != NULL && request->op != DRIVE_FLUSH)
        task_yield(); /* a drive takes its time, and others run meanwhile */
    base_spin_lock(&drive->lock);
    if (request->op == DRIVE_DISCARD)
        testing_drive_discard_locked(drive, request);
    else
        testing_drive_move_locked(drive, request, UINT64_MAX);
    void (*in_write)(void *arg) = NULL;
    if (request->op == DRIVE_WRITE) {
        in_write = drive->in_write;
        drive->in_write = NULL;
    }
    base_spin_unlock(&drive->lock);
    if (in_write != NULL)
        in_write(drive->in_write_arg);
    if (fails)
        testing_drive_lie(drive, request);
    atomic_fetch_add(request->op == DRIVE_READ    ? &drive->reads
                     : request->op == DRIVE_WRITE ? &drive->writes
                     : request->op == DRIVE_FLUSH ? &drive->flushes
                                                  : &drive->discard_requests,
                     1);
    if (request->op == DRIVE_WRITE && request->durable)
        atomic_fetch_add(&drive->durable_writes, 1);
    drive_finish_now(request, 0);
}

int testing_drive_extend(void *state, uint64_t *inout_bytes)
{
    const struct testing_drive *drive = state;
    *inout_bytes = base_max(*inout_bytes, base_align_down(drive->size, (uint64_t)BASE_PAGE_BYTES));
    return 0;
}

const struct drive_provider testing_provider = {.name = "testing",
                                                .open = testing_drive_open,
                                                .close = testing_drive_close,
                                                .post = testing_drive_post,
                                                .extend = testing_drive_extend};

struct testing_drive testing_drive_new(uint64_t bytes)
{
    struct testing_drive drive = {.size = bytes, .exists = true, .bytes = calloc(1, bytes)};
    assert_non_null(drive.bytes);
    return drive;
}

struct testing_drive testing_drive_copy(struct testing_drive *drive)
{
    struct testing_drive copy = {.size = drive->size,
                                 .exists = drive->exists,
                                 .device = drive->device,
                                 .discards = drive->discards,
                                 .physical_block_bytes = drive->physical_block_bytes};
    copy.bytes = malloc(drive->size);
    assert_non_null(copy.bytes);
    base_spin_lock(&drive->lock);
    memcpy(copy.bytes, drive->bytes, drive->size);
    base_spin_unlock(&drive->lock);
    return copy;
}

void testing_drive_lengthen(struct testing_drive *drive, uint64_t bytes, int filling)
{
    uint8_t *longer = malloc(bytes);
    assert_non_null(longer);
    memcpy(longer, drive->bytes, drive->size);
    if (filling >= 0)
        memset(longer + drive->size, filling, bytes - drive->size);
    for (uint64_t i = drive->size; filling < 0 && i < bytes; i++)
        longer[i] = longer[i - drive->size];
    free(drive->bytes);
    drive->bytes = longer;
    drive->size = bytes;
}

void testing_drive_keep_room(struct testing_drive *drive, uint64_t bytes, int filling)
{
    const uint64_t size = drive->size;
    testing_drive_lengthen(drive, bytes, filling);
    drive->size = size;
}

void testing_drive_free(struct testing_drive *drive)
{
    free(drive->bytes);
    *drive = (struct testing_drive){.size = 0};
}

void testing_drive_do_in_write(struct testing_drive *drive, void (*in_write)(void *arg), void *arg)
{
    base_spin_lock(&drive->lock);
    drive->in_write = in_write;
    drive->in_write_arg = arg;
    base_spin_unlock(&drive->lock);
}

void testing_drive_record(struct testing_drive *drive, struct testing_recording *recording)
{
    base_spin_lock(&drive->lock);
    drive->recording = recording;
    base_spin_unlock(&drive->lock);
}

void testing_drive_fail_at(struct testing_drive *drive, enum drive_op op, uint64_t n, bool fail_on)
{
    drive->fail_op = op;
    drive->fail_on = fail_on;
    drive->lie = TESTING_TRUTH;
    drive->fail_begin = drive->fail_end = 0;
    atomic_store(&drive->fail_at, n);
}

void testing_drive_lie_at(struct testing_drive *drive, enum testing_lie lie, uint64_t n, uint64_t begin,
                          uint64_t end)
{
    drive->fail_op = DRIVE_READ;
    drive->fail_on = false;
    drive->lie = lie;
    drive->fail_begin = begin;
    drive->fail_end = end;
    atomic_store(&drive->fail_at, n);
}

/* ---- nodes -------------------------------------------------------------------------------------- */

static uint64_t testing_wall(void *arg)
{
    struct testing_clock *clock = arg;
    return atomic_load(&clock->wall_ns);
}

static uint64_t testing_monotonic(void *arg)
{
    struct timespec now;
    (void)arg;
    base_assert(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * BASE_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

struct task_clock testing_task_clock(struct testing_clock *clock)
{
    return (struct task_clock){.monotonic = testing_monotonic, .wall = testing_wall, .arg = clock};
}

void testing_sink(void *arg, enum base_log_level level, const char *line, size_t len)
{
    struct testing_lines *lines = arg;
    if (lines == NULL || level > BASE_LOG_INFO)
        return;
    bool error = level == BASE_LOG_ERROR, warn = level == BASE_LOG_WARN;
    base_spin_lock(&lines->lock);
    memcpy(error ? lines->error : warn ? lines->warn : lines->info, line, len + 1);
    *(error ? &lines->errors : warn ? &lines->warns : &lines->infos) += 1;
    base_spin_unlock(&lines->lock);
}

struct tarn_node *testing_node_with_lines(struct testing_drive *drive, struct testing_clock *clock,
                                          struct testing_lines *lines)
{
    const struct task_clock task_clock = testing_task_clock(clock);
    const struct task_node_options options = {
        .clock = clock == NULL ? NULL : &task_clock,
        .drives = &testing_provider,
        .drives_arg = drive,
        .log_level = BASE_LOG_DEBUG,
        .log_sink = testing_sink,
        .log_arg = lines,
    };
    struct tarn_node *node;
    assert_int_equal(task_node_open(&options, &node), 0);
    return node;
}

struct tarn_node *testing_node(struct testing_drive *drive, struct testing_clock *clock)
{
    return testing_node_with_lines(drive, clock, NULL);
}
