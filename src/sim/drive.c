/*
 * Simulated drives: requests that take virtual time and complete in any order, on media.c, with
 * faults and broken promises as set. In a plain thread the poster waits inside post.
 */
#include "base/base.h"
#include "sim/drive_internal.h"
#include <errno.h>

enum {
    READ_NS = 8000,
    WRITE_NS = 10000,
    FLUSH_NS = 40000,
    SLOW_ONE_IN = 64, /* requests that take several times as long */
    SLOW_TIMES_MAX = 16,
    DISCARD_SLOW_BITS = 12, /* a discard takes up to this many doublings of a write's time */
    MEMORY_ALIGNMENT_BYTES = 512,
    SCRIBBLE = 0xdb, /* what a reader finds in its memory before the read has completed */
};

/* ---- the life of a request ------------------------------------------------------------------- */

static bool changes(enum drive_op op)
{
    return op == DRIVE_WRITE || op == DRIVE_DISCARD;
}

static void forget(struct sim_request *request)
{
    struct base_account *memory = &request->drive->world->memory;
    base_list_remove(&request->link);
    request->drive->in_flight_count--;
    request->drive->writes_in_flight -= changes(request->op);
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
    sim_request_take_effect(request);
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
    else if (request->op == DRIVE_DISCARD) /* from quick to very slow */
        least_ns =
            options->write_ns << base_random_below(sim_drive_random(request->drive), DISCARD_SLOW_BITS);
    else if (request->op == DRIVE_WRITE)
        least_ns = options->write_ns + (request->durable && !options->fua ? options->flush_ns : 0);
    uint64_t latency_ns = least_ns + base_random_below(sim_drive_random(request->drive), least_ns + 1);
    if (base_random_below(sim_drive_random(request->drive), SLOW_ONE_IN) == 0)
        latency_ns *= 2 + base_random_below(sim_drive_random(request->drive), SLOW_TIMES_MAX - 1);
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
    request->bytes = posted->op == DRIVE_DISCARD ? posted->discard_bytes : 0;
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
    if (posted->op == DRIVE_READ || posted->op == DRIVE_DISCARD)
        sim_media_read(&request->drive->media, request->offset, request->data, request->bytes);
    if (posted->op == DRIVE_DISCARD)
        sim_discard_draw(request->drive, request->data, request->bytes);
}

/* Nobody writes what is being discarded: which of the two is there afterwards is not known. */
static void check_discards(const struct sim_request *request)
{
    if (!changes(request->op))
        return;
    base_list_for_each(item, &request->drive->in_flight) {
        const struct sim_request *other = base_container_of(item, struct sim_request, link);
        if (changes(other->op) && !other->completed &&
            (other->op == DRIVE_DISCARD || request->op == DRIVE_DISCARD) &&
            other->offset < request->offset + request->bytes &&
            request->offset < other->offset + other->bytes)
            sim_fail(request->drive->world, "%s is written at %llu while it is being discarded",
                     request->drive->name, (unsigned long long)request->offset);
    }
}

static struct sim_request *take_request(struct sim_drive *drive, struct drive_request *posted)
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
    if (sim_drive_is_mutated(drive, SIM_DRIVE_FLUSH_EARLY) && posted->op == DRIVE_FLUSH)
        request->posted = drive->write_completed_last;
    take_data(request);
    check_discards(request);
    base_list_push_back(&drive->in_flight, &request->link);
    drive->in_flight_count++;
    drive->writes_in_flight += changes(request->op);
    sim_note(drive->world, drive->name, (uint64_t)posted->op << 1 | (uint64_t)posted->durable,
             request->number);
    sim_note(drive->world, "at", request->offset, request->bytes);
    if (posted->op == DRIVE_WRITE)
        sim_note(drive->world, "data", base_hash64(request->data, request->bytes, 0), 0);
    sim_request_decide(request);
    return request;
}

static void post_request(void *state, struct drive_request *posted)
{
    base_assert(task_sched_self() != NULL); /* in a task, or where a scheduler runs a message */
    struct sim_request *request = take_request(state, posted);
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
    base_list_for_each(item, &drive->in_flight) {
        struct sim_request *request = base_container_of(item, struct sim_request, link);
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
        if (changes(request->op) && !request->completed && !drive->lost)
            sim_request_tear(request);
        forget(request);
    }
}

void sim_drive_cut(struct sim_drive *drive)
{
    sim_note(drive->world, "cut", drive->in_flight_count, drive->media.undurable_sectors);
    drive->world->boot++;
    tear(drive);
    sim_media_cut(&drive->media, sim_drive_random(drive));
    drive->owner = NULL;
}

void sim_drives_leave(struct sim_node *node, bool power_cut)
{
    base_list_for_each(item, &node->world->drives) {
        struct sim_drive *drive = base_container_of(item, struct sim_drive, link);
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
    int error = sim_media_init(&drive->media, &world->memory,
                               base_align_up(base_max(own->bytes, own->most_bytes), BASE_PAGE_BYTES));
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
    base_list_for_each(item, &world->drives) {
        struct sim_drive *drive = base_container_of(item, struct sim_drive, link);
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
        .discard = own->discard,
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

static int extend_drive(void *state, uint64_t *inout_bytes)
{
    const struct sim_drive *drive = state;
    *inout_bytes = drive->options.bytes;
    return 0;
}

const struct drive_provider sim_drive_provider = {
    .name = "sim",
    .open = open_drive,
    .close = close_drive,
    .post = post_request,
    .extend = extend_drive,
};

void sim_drive_lengthen(struct sim_drive *drive, uint64_t bytes)
{
    base_assert(bytes <= base_max(drive->options.bytes, drive->options.most_bytes) &&
                base_is_aligned(bytes, drive->options.physical_block_bytes));
    drive->options.bytes = base_max(drive->options.bytes, bytes);
}

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
        sim_media_write(&drive->media, &piece, sim_drive_random(drive));
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
