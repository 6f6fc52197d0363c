/*
 * Group commit. Two groups: one is open, the other empty or on its way to the drive. The leader is the
 * one writer that writes; leadership is handed over when its group is done, to the first writer that
 * waits in the open group.
 */
#include "depot/log.h"
#include <errno.h>
#include <inttypes.h>

#define LEAD 1 /* what a parked writer is woken with to lead; outcomes are 0 or negative */

/* One append, on its writer's stack. */
struct depot_write {
    struct task_wait wait;
    const struct depot_draft *draft;
    struct depot_group *group;
    uint32_t bytes;
    uint32_t offset; /* in the group */
    uint64_t stamp;
};

/* ---- stages ------------------------------------------------------------------------------------ */

uint64_t depot_stage_begin(struct depot_stages *stages)
{
    return base_unlikely(atomic_load_explicit(&stages->enabled, memory_order_relaxed)) ? task_now() : 0;
}

uint64_t depot_stage_end(struct depot_stages *stages, enum depot_stage stage, uint64_t begin_ns)
{
    if (base_likely(begin_ns == 0))
        return 0;
    uint64_t now_ns = task_now();
    base_spin_lock(&stages->lock);
    base_stages_add(&stages->stages, stage, now_ns - begin_ns);
    base_spin_unlock(&stages->lock);
    return now_ns;
}

/* ---- memory ------------------------------------------------------------------------------------ */

static void empty_group(struct depot_group *group)
{
    group->bytes = sizeof(struct depot_group_format);
    group->records = 0;
}

int depot_log_init(struct depot_log *log, struct tarn_node *node, struct drive *drive,
                   const struct depot_superblock_format *superblock, bool durable,
                   struct depot_stages *stages)
{
    uint64_t block_bytes = superblock->block_bytes;
    uint64_t log_bytes = superblock->store_bytes - superblock->log_offset;
    uint64_t kept_back = base_align_up(log_bytes / 32, block_bytes);
    *log = (struct depot_log){
        .node = node,
        .drive = drive,
        .stages = stages,
        .check_seed = superblock->check_seed,
        .session = task_rng(node),
        .put_limit = superblock->store_bytes - kept_back,
        .remove_limit = superblock->store_bytes - block_bytes,
        .block_bytes = superblock->block_bytes,
        .group_bytes = superblock->group_bytes,
        .durable = durable,
    };
    base_spin_init(&log->lock);
    base_list_init(&log->queue);
    log->open = &log->groups[0];
    for (int i = 0; i < 2; i++) {
        struct depot_group *group = &log->groups[i];
        base_list_init(&group->parked);
        empty_group(group);
        group->buffer = base_alloc_aligned(
            &node->memory, base_max(BASE_PAGE_BYTES, drive_info(drive)->memory_alignment_bytes),
            log->group_bytes);
        if (group->buffer == NULL) {
            depot_log_deinit(log);
            return -ENOMEM;
        }
    }
    return 0;
}

void depot_log_begin(struct depot_log *log, const struct depot_log_end *end)
{
    log->end = *end;
    log->flushed = end->number;
    log->open->address = end->address;
}

void depot_log_deinit(struct depot_log *log)
{
    base_assert(!log->leading && base_list_empty(&log->queue));
    for (int i = 0; i < 2; i++)
        base_free(&log->node->memory, log->groups[i].buffer, log->group_bytes);
}

uint64_t depot_log_used(struct depot_log *log)
{
    base_spin_lock(&log->lock);
    uint64_t used = log->end.address;
    base_spin_unlock(&log->lock);
    return used;
}

/* ---- room -------------------------------------------------------------------------------------- */

/*
 * Give a write its place in the open group, and its stamp: stamps rise in the order of the log.
 *
 * @return 0; -EAGAIN (the group is full); -ENOSPC; -EROFS
 */
static int reserve_locked(struct depot_log *log, struct depot_write *write)
{
    struct depot_group *group = log->open;
    if (log->failed)
        return -EROFS;
    uint32_t bytes = group->bytes + write->bytes;
    if (bytes > log->group_bytes) {
        base_assert(group->records > 0); /* what is longer than a group was refused before */
        return -EAGAIN;
    }
    bool removes = write->draft->kind == DEPOT_DELETE || write->draft->kind == DEPOT_FLUSH_ALL;
    uint64_t limit = removes ? log->remove_limit : log->put_limit;
    if (group->address + base_align_up(bytes, log->block_bytes) > limit)
        return -ENOSPC;
    write->group = group;
    write->offset = group->bytes;
    write->stamp = base_max(task_wall(log->node), log->end.stamp + 1);
    log->end.stamp = write->stamp;
    group->bytes = bytes;
    group->records++;
    group->filling++;
    return 0;
}

/* Let in, in order, who waits for room. */
static void admit_locked(struct depot_log *log)
{
    struct base_list *first;
    while ((first = base_list_first(&log->queue)) != NULL) {
        struct depot_write *write = base_container_of(first, struct depot_write, wait.link);
        int error = reserve_locked(log, write);
        if (error == -EAGAIN)
            return;
        base_list_remove(first);
        base_assert(task_wait_wake(&write->wait, error));
    }
}

/* Room for a write, now or when its turn has come. */
static int reserve(struct depot_log *log, struct depot_write *write)
{
    base_spin_lock(&log->lock);
    int error = base_list_empty(&log->queue) ? reserve_locked(log, write) : -EAGAIN;
    if (error != -EAGAIN) {
        base_spin_unlock(&log->lock);
        return error;
    }
    task_wait_init(&write->wait);
    base_list_push_back(&log->queue, &write->wait.link);
    base_spin_unlock(&log->lock);
    return task_wait_park_firmly(&write->wait);
}

static void fill(struct depot_log *log, const struct depot_write *write)
{
    const struct depot_draft *draft = write->draft;
    struct depot_record_format header = {
        .stamp = write->stamp,
        .version = draft->kind == DEPOT_PUT ? write->stamp : draft->version,
        .expiry_ns = draft->expiry_ns,
        .client_flags = draft->client_flags,
        .value_bytes = draft->value_bytes,
        .key_bytes = draft->key_bytes,
        .kind = (uint8_t)draft->kind,
    };
    uint8_t *record = write->group->buffer + write->offset;
    uint8_t *end = record + write->bytes;
    memset(end - 8, 0, 8); /* the padding, before what it may overlap */
    memcpy(record, &header, sizeof(header));
    if (draft->key_bytes > 0)
        memcpy(record + sizeof(header), draft->key, draft->key_bytes);
    if (draft->value_bytes > 0)
        memcpy(record + sizeof(header) + draft->key_bytes, draft->value, draft->value_bytes);
    depot_record_seal(record, log->check_seed);
}

/* ---- writing ----------------------------------------------------------------------------------- */

/* Write a closed group. Only the leader, and depot_log_finish() when there is none, come here. */
static int write_group(struct depot_log *log, struct depot_group *group, uint32_t flags, bool durable)
{
    base_spin_lock(&log->lock);
    if (flags == DEPOT_GROUP_SESSION_ENDS) /* a clock that is set back before the next one revives nothing */
        log->end.stamp = base_max(log->end.stamp, task_wall(log->node));
    struct depot_group_format header = {
        .number = log->end.number + 1,
        .session = log->session,
        .previous_check = log->end.check,
        .flushed = log->flushed,
        .stamp = log->end.stamp,
        .bytes = group->bytes,
        .records = group->records,
        .flags = flags,
    };
    base_spin_unlock(&log->lock);
    uint64_t bytes = base_align_up(group->bytes, log->block_bytes);
    memset(group->buffer + group->bytes, 0, bytes - group->bytes);
    depot_group_seal(group->buffer, &header, log->check_seed);
    int error = drive_write(log->drive, group->address, group->buffer, bytes, durable);

    base_spin_lock(&log->lock);
    log->writes++;
    log->flushes += durable;
    if (error == 0) {
        log->end.number = header.number;
        log->end.check = header.check;
        log->end.address = group->address + bytes;
        log->flushed = durable ? header.number : log->flushed;
    } else {
        log->failed = true;
    }
    base_spin_unlock(&log->lock);
    if (error == 0)
        return 0;
    char path[DEPOT_PATH_ROOM];
    base_error(&log->node->log, "the store takes no more writes",
               "path=%s offset=%" PRIu64 " bytes=%" PRIu64 " error=\"%s\"", depot_path(path, log->drive),
               group->address, bytes, strerrordesc_np(-error));
    return error == -EROFS ? -EROFS : -EIO;
}

/* Close the open group and open the other. @return the closed one, all of it filled in. */
static struct depot_group *close_group(struct depot_log *log)
{
    struct task_wait filled;
    base_spin_lock(&log->lock);
    struct depot_group *group = log->open;
    log->open = &log->groups[group == &log->groups[0]];
    base_assert(log->open->records == 0);
    log->open->address = group->address + base_align_up(group->bytes, log->block_bytes);
    admit_locked(log);
    bool wait = group->filling > 0;
    if (wait) {
        task_wait_init(&filled);
        group->filled = &filled;
    }
    base_spin_unlock(&log->lock);
    if (wait)
        (void)task_wait_park_firmly(&filled);
    return group;
}

/* Tell the outcome to all who wait in a group, empty it, and hand leadership on. */
static void settle_group(struct depot_log *log, struct depot_group *group, int error)
{
    struct base_list settled;
    base_list_init(&settled);
    base_spin_lock(&log->lock);
    base_list_move_all(&settled, &group->parked);
    empty_group(group);
    admit_locked(log); /* after a failure nobody closes a group for those who wait */
    struct base_list *heir = base_list_pop_front(&log->open->parked);
    if (heir != NULL)
        base_assert(task_wait_wake(&base_container_of(heir, struct depot_write, wait.link)->wait, LEAD));
    else
        log->leading = false;
    base_spin_unlock(&log->lock);
    struct base_list *first;
    while ((first = base_list_pop_front(&settled)) != NULL)
        base_assert(task_wait_wake(&base_container_of(first, struct depot_write, wait.link)->wait, error));
}

static int lead(struct depot_log *log)
{
    struct depot_group *group = close_group(log);
    uint64_t begin_ns = depot_stage_begin(log->stages);
    /* `failed` is set by leaders only, and their turns are ordered by the lock */
    int error = log->failed ? -EROFS : write_group(log, group, 0, log->durable);
    depot_stage_end(log->stages, DEPOT_STAGE_WRITE, begin_ns);
    settle_group(log, group, error);
    return error;
}

/* The record is in place: wait for its group, or lead it. */
static int commit(struct depot_log *log, struct depot_write *write)
{
    struct depot_group *group = write->group;
    task_wait_init(&write->wait);
    base_spin_lock(&log->lock);
    bool leads = !log->leading;
    log->leading = true;
    if (!leads)
        base_list_push_back(&group->parked, &write->wait.link);
    if (--group->filling == 0 && group->filled != NULL) {
        base_assert(task_wait_wake(group->filled, 0));
        group->filled = NULL;
    }
    base_spin_unlock(&log->lock);
    int outcome = leads ? LEAD : task_wait_park_firmly(&write->wait);
    return outcome == LEAD ? lead(log) : outcome;
}

int depot_log_append(struct depot_log *log, const struct depot_draft *draft, uint64_t *ret_address,
                     uint64_t *ret_stamp)
{
    struct depot_write write = {.draft = draft,
                                .bytes = depot_record_bytes(draft->key_bytes, draft->value_bytes)};
    uint64_t begin_ns = depot_stage_begin(log->stages);
    int error = reserve(log, &write);
    if (error != 0)
        return error;
    uint64_t address = write.group->address + write.offset; /* the group is reused when it is settled */
    fill(log, &write);
    begin_ns = depot_stage_end(log->stages, DEPOT_STAGE_APPEND, begin_ns);
    error = commit(log, &write);
    depot_stage_end(log->stages, DEPOT_STAGE_COMMIT, begin_ns);
    if (error != 0)
        return error;
    *ret_address = address;
    *ret_stamp = write.stamp;
    return 0;
}

int depot_log_finish(struct depot_log *log)
{
    base_assert(!log->leading && base_list_empty(&log->queue));
    if (log->failed)
        return -EROFS;
    if (log->writes == 0)
        return 0;
    int error = 0;
    if (!log->durable) {
        error = drive_flush(log->drive);
        log->flushes++;
        log->flushed = log->end.number;
    }
    return error == 0 ? write_group(log, log->open, DEPOT_GROUP_SESSION_ENDS, true) : -EIO;
}
