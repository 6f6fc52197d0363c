/*
 * Simulated drives: requests that take virtual time and complete in any order, on media.c, with
 * faults and broken promises as set. In a plain thread the poster waits inside post.
 */
#include "base/base.h"
#include "sim/media.h"
#include "sim/sim_internal.h"
#include <errno.h>

enum {
    READ_NS = 8000,
    WRITE_NS = 10000,
    FLUSH_NS = 40000,
    SLOW_ONE_IN = 64, /* requests that take several times as long */
    SLOW_TIMES_MAX = 16,
    DROP_ONE_IN = 64, /* writes, with SIM_DRIVE_WRITE_DROPPED */
    MEMORY_ALIGNMENT_BYTES = 512,
    SCRIBBLE = 0xdb, /* what a reader finds in its memory before the read has completed */
};

struct fault_state {
    uint32_t per_million;
    uint64_t nth; /* counts down to the request that it happens to; 0: none */
    uint64_t count;
};

struct sim_drive {
    struct base_list link; /* in the world */
    struct sim_world *world;
    const char *name;
    struct sim_drive_options options;
    struct sim_media media;
    struct sim_node *owner;     /* who has it open */
    struct base_list in_flight; /* of struct sim_request, oldest first */
    uint64_t in_flight_count;
    uint64_t writes_in_flight;
    uint64_t requests;             /* so far */
    uint64_t write_completed_last; /* by the clock of media */
    struct fault_state faults[SIM_FAULT_COUNT];
    bool lost;
    uint32_t mutations;
    bool damaged; /* `damage` is set */
    struct sim_damage damage;
};

struct sim_request {
    struct base_list link; /* in drive->in_flight, until the poster knows */
    struct sim_event event;
    struct task_message message; /* to the scheduler of a task that posted */
    struct task_wait *wait;      /* of a thread that posted; else NULL */
    struct task_sched *sched;
    struct sim_drive *drive;
    struct drive_request *request;
    enum drive_op op;
    bool durable;
    uint64_t number;
    uint64_t posted;         /* by the clock of media */
    uint64_t changes_before; /* media.changes when it was posted */
    uint64_t offset;
    uint64_t bytes;
    uint8_t *data; /* to write; or what was there when a read was posted, then what it returns */
    int32_t result;
    bool stuck;
    bool completed; /* it has taken effect; the poster does not know yet */
};

/* ---- faults ---------------------------------------------------------------------------------- */

void sim_drive_set_fault(struct sim_drive *drive, enum sim_fault fault, uint32_t per_million, uint64_t nth)
{
    drive->faults[fault].per_million = per_million;
    drive->faults[fault].nth = nth;
}

void sim_drive_clear_faults(struct sim_drive *drive)
{
    for (int i = 0; i < SIM_FAULT_COUNT; i++)
        sim_drive_set_fault(drive, (enum sim_fault)i, 0, 0);
    drive->lost = false;
}

uint64_t sim_drive_faults(const struct sim_drive *drive, enum sim_fault fault)
{
    return drive->faults[fault].count;
}

bool sim_drive_damage(const struct sim_drive *drive, struct sim_damage *ret_damage)
{
    if (drive->damaged)
        *ret_damage = drive->damage;
    return drive->damaged;
}

void sim_drive_mutate(struct sim_drive *drive, uint32_t mutations)
{
    drive->mutations = mutations;
}

static bool mutated(const struct sim_drive *drive, enum sim_drive_mutation mutation)
{
    return (drive->mutations & (uint32_t)mutation) != 0;
}

static struct base_random *random_of(const struct sim_drive *drive)
{
    return &drive->world->drives_random;
}

/* Whether a fault happens to this request, which is one that it can happen to. */
static bool strikes(struct sim_drive *drive, enum sim_fault fault)
{
    struct fault_state *state = &drive->faults[fault];
    bool now = state->nth > 0 && --state->nth == 0;
    if (state->per_million > 0 && base_random_below(random_of(drive), 1000000) < state->per_million)
        now = true;
    if (now) {
        state->count++;
        sim_note(drive->world, "fault", (uint64_t)fault, state->count);
    }
    return now;
}

/* Decide when a request is posted what will become of it. */
static void decide_fate(struct sim_request *request)
{
    struct sim_drive *drive = request->drive;
    if (strikes(drive, SIM_FAULT_LOST))
        drive->lost = true;
    request->stuck = strikes(drive, SIM_FAULT_STUCK);
    switch (request->op) {
    case DRIVE_READ:
        if (strikes(drive, SIM_FAULT_READ_ERROR))
            request->result = -EIO;
        break;
    case DRIVE_WRITE:
        if (strikes(drive, SIM_FAULT_WRITE_FULL))
            request->result = -ENOSPC;
        if (strikes(drive, SIM_FAULT_WRITE_ERROR))
            request->result = -EIO;
        break;
    case DRIVE_FLUSH:
        if (strikes(drive, SIM_FAULT_FLUSH_ERROR))
            request->result = -EIO;
        break;
    }
}

/* ---- effects --------------------------------------------------------------------------------- */

/* The part of a request that lies in the sector at or around `at`. */
static struct sim_piece piece_of(const struct sim_request *request, uint64_t at)
{
    uint64_t sector_end = base_align_down(at, SIM_SECTOR_BYTES) + SIM_SECTOR_BYTES;
    return (struct sim_piece){
        .offset = at,
        .bytes = base_min(request->offset + request->bytes, sector_end) - at,
        .data = request->data + (at - request->offset),
        .posted = request->posted,
        .write = request->number,
    };
}

/* Which sectors of a write take effect that did not succeed, drawn once for each write. */
enum subset { SUBSET_NONE, SUBSET_ALL, SUBSET_FRONT, SUBSET_ANY, SUBSET_COUNT };

static void write_pieces(struct sim_request *request, enum subset subset, bool durable)
{
    struct base_random *random = random_of(request->drive);
    uint64_t front = subset == SUBSET_FRONT ? base_random_below(random, request->bytes) : 0;
    struct sim_piece piece;
    for (uint64_t at = request->offset; at < request->offset + request->bytes; at += piece.bytes) {
        piece = piece_of(request, at);
        piece.durable = durable || !request->drive->options.write_cache;
        if (subset == SUBSET_ALL || (subset == SUBSET_FRONT && at < request->offset + front) ||
            (subset == SUBSET_ANY && base_random_below(random, 2) == 0))
            sim_media_write(&request->drive->media, &piece, random);
    }
}

/* What a write leaves that failed or was cut off: not durable, even if it was to be. */
static void write_some_pieces(struct sim_request *request)
{
    write_pieces(request, (enum subset)base_random_below(random_of(request->drive), SUBSET_COUNT), false);
}

/* The drive reads the writer's memory when it likes: it must not have changed. */
static void check_unchanged(const struct sim_request *request)
{
    const uint8_t *data = request->data;
    for (uint32_t i = 0; i < request->request->iov_count; i++) {
        const struct iovec *part = &request->request->iov[i];
        if (memcmp(part->iov_base, data, part->iov_len) != 0)
            sim_fail(request->drive->world,
                     "memory of a write to %s at %llu was changed while it was in flight",
                     request->drive->name, (unsigned long long)request->offset);
        data += part->iov_len;
    }
}

static void complete_write(struct sim_request *request)
{
    struct sim_drive *drive = request->drive;
    check_unchanged(request);
    if (request->result != 0)
        write_some_pieces(request);
    else if (!mutated(drive, SIM_DRIVE_WRITE_DROPPED) || base_random_below(random_of(drive), DROP_ONE_IN) > 0)
        write_pieces(request, SUBSET_ALL, request->durable && !mutated(drive, SIM_DRIVE_DURABLE_IGNORED));
    drive->write_completed_last = drive->media.clock;
}

static void complete_flush(struct sim_request *request)
{
    struct sim_drive *drive = request->drive;
    uint64_t before = request->posted;
    if (request->result != 0)
        sim_media_flush_failed(&drive->media, before, random_of(drive));
    else if (!mutated(drive, SIM_DRIVE_FLUSH_IGNORED))
        sim_media_flush(&drive->media, before);
}

/* Lay pieces of writes in flight over what a read returns, each or not. */
static void read_in_flight(const struct sim_request *read)
{
    base_list_for_each(link, &read->drive->in_flight) {
        const struct sim_request *write = base_container_of(link, struct sim_request, link);
        if (write->op != DRIVE_WRITE || write->completed)
            continue;
        uint64_t begin = base_max(read->offset, write->offset);
        uint64_t end = base_min(read->offset + read->bytes, write->offset + write->bytes);
        while (begin < end) {
            struct sim_piece piece = piece_of(write, begin);
            size_t bytes = base_min(piece.bytes, end - begin);
            if (base_random_below(random_of(read->drive), 2) == 0)
                memcpy(read->data + (begin - read->offset), piece.data, bytes);
            begin += bytes;
        }
    }
}

/* Each sector as it was when the read was posted, as it is now, or as it will be. */
static void read_pieces(const struct sim_request *request)
{
    struct sim_piece piece;
    for (uint64_t at = request->offset; at < request->offset + request->bytes; at += piece.bytes) {
        piece = piece_of(request, at);
        uint8_t now[SIM_SECTOR_BYTES];
        sim_media_read(&request->drive->media, at, now, piece.bytes);
        if (memcmp(now, piece.data, piece.bytes) != 0 && base_random_below(random_of(request->drive), 2) == 0)
            memcpy(request->data + (at - request->offset), now, piece.bytes);
    }
    read_in_flight(request);
}

/* Damage one sector of what a read returns, and remember which. */
static void damage_piece(const struct sim_request *request)
{
    struct sim_drive *drive = request->drive;
    struct base_random *random = random_of(drive);
    uint64_t at = request->offset + base_random_below(random, request->bytes);
    struct sim_piece piece =
        piece_of(request, base_max(base_align_down(at, SIM_SECTOR_BYTES), request->offset));
    uint8_t *victim = request->data + (piece.offset - request->offset);
    uint8_t before[SIM_SECTOR_BYTES];
    memcpy(before, victim, piece.bytes);
    enum sim_damage_kind kind = (enum sim_damage_kind)base_random_below(random, 3);
    if (kind == SIM_DAMAGE_ZERO) {
        memset(victim, 0, piece.bytes);
    } else if (kind == SIM_DAMAGE_STALE) {
        uint8_t old[SIM_SECTOR_BYTES];
        sim_media_read_durable(&drive->media, piece.offset / SIM_SECTOR_BYTES, old);
        memcpy(victim, old + piece.offset % SIM_SECTOR_BYTES, piece.bytes);
    }
    if (memcmp(before, victim, piece.bytes) == 0) {
        kind = SIM_DAMAGE_FLIP;
        victim[base_random_below(random, piece.bytes)] ^= (uint8_t)(1u << base_random_below(random, 8));
    }
    drive->damaged = true;
    drive->damage = (struct sim_damage){
        .kind = kind,
        .offset = base_align_down(piece.offset, SIM_SECTOR_BYTES),
    };
    sim_note(drive->world, "damage", (uint64_t)kind, drive->damage.offset);
}

static void complete_read(struct sim_request *request)
{
    struct sim_drive *drive = request->drive;
    if (request->result != 0)
        return;
    if (drive->media.changes != request->changes_before || drive->writes_in_flight > 0)
        read_pieces(request);
    if (strikes(drive, SIM_FAULT_READ_DAMAGE))
        damage_piece(request);
    const uint8_t *data = request->data;
    for (uint32_t i = 0; i < request->request->iov_count; i++) {
        const struct iovec *part = &request->request->iov[i];
        memcpy(part->iov_base, data, part->iov_len);
        data += part->iov_len;
    }
}

/* ---- the life of a request ------------------------------------------------------------------- */

static void forget(struct sim_request *request)
{
    struct base_account *memory = &request->drive->world->memory;
    base_list_remove(&request->link);
    request->drive->in_flight_count--;
    request->drive->writes_in_flight -= request->op == DRIVE_WRITE;
    sim_event_cancel(request->drive->world, &request->event);
    base_free(memory, request->data, request->bytes);
    base_free(memory, request, sizeof(*request));
}

/* The poster's side of a completion. */
static void finish(struct sim_request *request)
{
    struct drive_request *finished = request->request;
    int32_t result = request->result;
    forget(request);
    drive_finish(finished, result);
}

static void run_message(struct task_message *message)
{
    finish(base_container_of(message, struct sim_request, message));
}

static void complete(struct sim_event *event)
{
    struct sim_request *request = base_container_of(event, struct sim_request, event);
    if (request->drive->lost)
        request->result = -ENODEV;
    switch (request->op) {
    case DRIVE_READ:
        complete_read(request);
        break;
    case DRIVE_WRITE:
        complete_write(request);
        break;
    case DRIVE_FLUSH:
        complete_flush(request);
        break;
    }
    request->completed = true;
    sim_note(request->drive->world, "completed", request->number, (uint64_t)(-request->result));
    if (request->wait != NULL)
        (void)task_wait_wake(request->wait, 0);
    else
        base_assert(task_sched_post(request->sched, &request->message));
}

static uint64_t draw_latency_ns(const struct sim_request *request)
{
    const struct sim_drive_options *options = &request->drive->options;
    uint64_t least_ns = options->flush_ns;
    if (request->op == DRIVE_READ)
        least_ns = options->read_ns;
    else if (request->op == DRIVE_WRITE)
        least_ns = options->write_ns + (request->durable && !options->fua ? options->flush_ns : 0);
    uint64_t latency_ns = least_ns + base_random_below(random_of(request->drive), least_ns + 1);
    if (base_random_below(random_of(request->drive), SLOW_ONE_IN) == 0)
        latency_ns *= 2 + base_random_below(random_of(request->drive), SLOW_TIMES_MAX - 1);
    return latency_ns;
}

static void start(struct sim_request *request)
{
    struct sim_world *world = request->drive->world;
    sim_event_at(world, &request->event, world->now_ns + draw_latency_ns(request));
}

/* Take the data of a write, or what a read of this moment would find. */
static void take_data(struct sim_request *request)
{
    const struct drive_request *posted = request->request;
    for (uint32_t i = 0; i < posted->iov_count; i++)
        request->bytes += posted->iov[i].iov_len;
    request->data = base_alloc(&request->drive->world->memory, request->bytes);
    base_assert(request->data != NULL);
    uint8_t *data = request->data;
    for (uint32_t i = 0; i < posted->iov_count; i++) {
        if (posted->op == DRIVE_WRITE)
            memcpy(data, posted->iov[i].iov_base, posted->iov[i].iov_len);
        else
            memset(posted->iov[i].iov_base, SCRIBBLE,
                   base_min(posted->iov[i].iov_len, (size_t)SIM_SECTOR_BYTES));
        data += posted->iov[i].iov_len;
    }
    if (posted->op == DRIVE_READ)
        sim_media_read(&request->drive->media, request->offset, request->data, request->bytes);
}

static struct sim_request *take(struct sim_drive *drive, struct drive_request *posted)
{
    struct sim_request *request = base_alloc(&drive->world->memory, sizeof(*request));
    base_assert(request != NULL);
    request->drive = drive;
    request->request = posted;
    request->event.name = "completes";
    request->event.run = complete;
    request->message.run = run_message;
    request->sched = task_sched_self();
    request->op = posted->op;
    request->durable = posted->durable;
    request->offset = posted->offset;
    request->number = ++drive->requests;
    request->posted = sim_media_tick(&drive->media);
    request->changes_before = drive->media.changes;
    if (mutated(drive, SIM_DRIVE_FLUSH_EARLY) && posted->op == DRIVE_FLUSH)
        request->posted = drive->write_completed_last;
    take_data(request);
    base_list_push_back(&drive->in_flight, &request->link);
    drive->in_flight_count++;
    drive->writes_in_flight += request->op == DRIVE_WRITE;
    sim_note(drive->world, drive->name, (uint64_t)posted->op << 1 | (uint64_t)posted->durable,
             request->number);
    sim_note(drive->world, "at", request->offset, request->bytes);
    if (posted->op == DRIVE_WRITE)
        sim_note(drive->world, "data", base_hash64(request->data, request->bytes, 0), 0);
    decide_fate(request);
    return request;
}

static void post(void *state, struct drive_request *posted)
{
    base_assert(task_sched_self() != NULL); /* in a task, or where a scheduler runs a message */
    struct sim_request *request = take(state, posted);
    if (!request->stuck)
        start(request);
    if (!task_is_thread())
        return;
    struct task_wait wait;
    task_wait_init(&wait);
    request->wait = &wait;
    (void)task_wait_park_firmly(&wait);
    finish(request);
}

void sim_drive_unstick(struct sim_drive *drive)
{
    base_list_for_each(link, &drive->in_flight) {
        struct sim_request *request = base_container_of(link, struct sim_request, link);
        if (request->stuck) {
            request->stuck = false;
            start(request);
        }
    }
}

/* ---- power cuts ------------------------------------------------------------------------------ */

/* Forget what is in flight, after some of it has reached the drive. */
static void tear(struct sim_drive *drive)
{
    struct base_list *first;
    while ((first = base_list_first(&drive->in_flight)) != NULL) {
        struct sim_request *request = base_container_of(first, struct sim_request, link);
        if (request->op == DRIVE_WRITE && !request->completed && !drive->lost)
            write_some_pieces(request);
        forget(request);
    }
}

void sim_drive_cut(struct sim_drive *drive)
{
    sim_note(drive->world, "cut", drive->in_flight_count, drive->media.undurable_sectors);
    tear(drive);
    sim_media_cut(&drive->media, random_of(drive));
    drive->owner = NULL;
}

void sim_drives_leave(struct sim_node *node, bool power_cut)
{
    base_list_for_each(link, &node->world->drives) {
        struct sim_drive *drive = base_container_of(link, struct sim_drive, link);
        if (drive->owner != node)
            continue;
        if (power_cut)
            sim_drive_cut(drive);
        else
            tear(drive);
        drive->owner = NULL;
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

int sim_drive_add(struct sim_world *world, const char *name, const struct sim_drive_options *options,
                  struct sim_drive **ret_drive)
{
    struct sim_drive *drive = base_alloc(&world->memory, sizeof(*drive));
    if (drive == NULL)
        return -ENOMEM;
    drive->options = *options;
    struct sim_drive_options *own = &drive->options;
    own->logical_block_bytes = own->logical_block_bytes == 0 ? SIM_SECTOR_BYTES : own->logical_block_bytes;
    own->physical_block_bytes = own->physical_block_bytes == 0 ? BASE_PAGE_BYTES : own->physical_block_bytes;
    own->read_ns = own->read_ns == 0 ? READ_NS : own->read_ns;
    own->write_ns = own->write_ns == 0 ? WRITE_NS : own->write_ns;
    own->flush_ns = own->flush_ns == 0 ? FLUSH_NS : own->flush_ns;
    int error = sim_media_init(&drive->media, &world->memory, base_align_up(own->bytes, BASE_PAGE_BYTES));
    if (error != 0) {
        base_free(&world->memory, drive, sizeof(*drive));
        return error;
    }
    drive->world = world;
    drive->name = name;
    base_list_init(&drive->in_flight);
    base_list_push_back(&world->drives, &drive->link);
    *ret_drive = drive;
    return 0;
}

void sim_drives_close(struct sim_world *world)
{
    struct base_list *first;
    while ((first = base_list_pop_front(&world->drives)) != NULL) {
        struct sim_drive *drive = base_container_of(first, struct sim_drive, link);
        base_assert(base_list_empty(&drive->in_flight) && drive->owner == NULL);
        sim_media_deinit(&drive->media);
        base_free(&world->memory, drive, sizeof(*drive));
    }
}

static struct sim_drive *find(const struct sim_world *world, const char *name)
{
    base_list_for_each(link, &world->drives) {
        struct sim_drive *drive = base_container_of(link, struct sim_drive, link);
        if (strcmp(drive->name, name) == 0)
            return drive;
    }
    return NULL;
}

static int open_drive(struct tarn_node *tarn, void *arg, const char *path,
                      const struct drive_options *options, struct drive_info *ret_info, void **ret_state)
{
    struct sim_node *node = arg;
    struct sim_drive *drive = find(node->world, path);
    if (drive == NULL)
        return -ENOENT;
    if (drive->owner != NULL) {
        base_error(&tarn->log, "the drive is open elsewhere", "drive=%s", path);
        return -EBUSY;
    }
    const struct sim_drive_options *own = &drive->options;
    bool direct = !own->buffered && options->direct != DRIVE_DIRECT_OFF;
    if (options->direct == DRIVE_DIRECT_ON && !direct)
        return -ENOTSUP;
    drive->owner = node;
    *ret_info = (struct drive_info){
        .provider = "sim",
        .bytes = own->bytes,
        .logical_block_bytes = own->logical_block_bytes,
        .physical_block_bytes = own->physical_block_bytes,
        .memory_alignment_bytes = direct ? MEMORY_ALIGNMENT_BYTES : 1,
        .direct = direct,
        .device = own->device,
        .write_cache = own->write_cache,
        .fua = own->fua,
    };
    *ret_state = drive;
    return 0;
}

static void close_drive(void *state)
{
    struct sim_drive *drive = state;
    base_assert(base_list_empty(&drive->in_flight));
    drive->owner = NULL;
}

const struct drive_provider sim_drive_provider = {
    .name = "sim",
    .open = open_drive,
    .close = close_drive,
    .post = post,
};

/* ---- past all rules -------------------------------------------------------------------------- */

void sim_drive_poke(struct sim_drive *drive, uint64_t offset, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    while (bytes > 0) {
        const struct sim_piece piece = {
            .offset = offset,
            .bytes = base_min(bytes, SIM_SECTOR_BYTES - offset % SIM_SECTOR_BYTES),
            .data = from,
            .posted = sim_media_tick(&drive->media),
            .durable = true,
        };
        sim_media_write(&drive->media, &piece, random_of(drive));
        offset += piece.bytes;
        from += piece.bytes;
        bytes -= piece.bytes;
    }
}

void sim_drive_peek(struct sim_drive *drive, uint64_t offset, void *data, size_t bytes)
{
    sim_media_read(&drive->media, offset, data, bytes);
}

uint64_t sim_drive_undurable(const struct sim_drive *drive)
{
    return drive->media.undurable_sectors;
}

uint64_t sim_drive_in_flight(const struct sim_drive *drive)
{
    return drive->in_flight_count;
}
