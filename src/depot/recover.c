/*
 * Recovery: read the log from its beginning, group by group, as long as the chain holds; then look at
 * what lies behind, because the end of a log and damage in its middle look alike from the front.
 */
#include "depot/depot_internal.h"
#include <errno.h>
#include <inttypes.h>

struct recovery {
    struct tarn_depot *depot;
    uint8_t *window;
    struct depot_log_end end;
    uint64_t groups;
    uint64_t records;
    bool clean; /* the last group ends its session */
};

static int read_window(struct recovery *recovery, uint64_t address, uint64_t *ret_bytes)
{
    struct tarn_depot *depot = recovery->depot;
    uint64_t bytes =
        base_min((uint64_t)depot->superblock.group_bytes, depot->superblock.store_bytes - address);
    int error = bytes == 0 ? 0 : drive_read(depot->drive, address, recovery->window, bytes);
    char path[DEPOT_PATH_ROOM];
    if (error != 0)
        base_error(&depot->node->log, "the log cannot be read: the store is not opened, to lose nothing",
                   "path=%s offset=%" PRIu64 " error=\"%s\"", depot_path(path, depot->drive), address,
                   strerrordesc_np(-error));
    else
        *ret_bytes = bytes;
    return error;
}

static int replay_put(struct tarn_depot *depot, const struct depot_record_format *record,
                      const struct base_hash128 *hash, uint64_t address)
{
    struct depot_stripe *stripe = depot_stripe_of(depot, hash);
    int error = depot_table_reserve(depot, stripe);
    char path[DEPOT_PATH_ROOM];
    if (error != 0) {
        base_error(&depot->node->log, "there is too little memory for the store's index",
                   "path=%s records=%" PRIu64, depot_path(path, depot->drive),
                   atomic_load_explicit(&depot->records, memory_order_relaxed));
        return error;
    }
    const struct depot_entry entry = {.hash = *hash,
                                      .address = address,
                                      .version = record->version,
                                      .expiry_ns = record->expiry_ns,
                                      .client_flags = record->client_flags,
                                      .value_bytes = record->value_bytes};
    depot_table_put(depot, stripe, &entry, record->key_bytes);
    return 0;
}

static int replay_record(struct tarn_depot *depot, const struct depot_record_format *record, const void *key,
                         uint64_t address)
{
    struct base_hash128 hash = base_hash128(key, record->key_bytes, depot->superblock.hash_seed);
    struct depot_stripe *stripe = depot_stripe_of(depot, &hash);
    struct depot_entry entry;
    switch ((enum depot_record_kind)record->kind) {
    case DEPOT_PUT:
        return replay_put(depot, record, &hash, address);
    case DEPOT_DELETE:
        depot_table_remove(depot, stripe, &hash, record->key_bytes);
        return 0;
    case DEPOT_TOUCH:
        if (depot_table_find(stripe, &hash, &entry) && entry.version == record->version) {
            entry.expiry_ns = record->expiry_ns;
            depot_table_put(depot, stripe, &entry, record->key_bytes);
        }
        return 0;
    case DEPOT_FLUSH_ALL:
        depot_flush_order(depot, record->stamp, record->expiry_ns);
        return 0;
    }
    return -EBADMSG; /* not reached: depot_record_verify() lets no other kind pass */
}

/* Bring a verified group into the index. */
static int replay_group(struct recovery *recovery, const uint8_t *group,
                        const struct depot_group_format *header)
{
    uint32_t offset = sizeof(*header);
    for (uint32_t i = 0; i < header->records; i++) {
        const struct depot_record_format *record = (const void *)(group + offset);
        int error = replay_record(recovery->depot, record, record + 1, recovery->end.address + offset);
        if (error != 0)
            return error;
        offset += depot_record_bytes(record->key_bytes, record->value_bytes);
    }
    recovery->end.address += base_align_up(header->bytes, recovery->depot->superblock.block_bytes);
    recovery->end.number = header->number;
    recovery->end.check = header->check;
    recovery->end.stamp = base_max(recovery->end.stamp, header->stamp);
    recovery->groups++;
    recovery->records += header->records;
    recovery->clean = (header->flags & DEPOT_GROUP_SESSION_ENDS) != 0;
    return 0;
}

/* Whether the bytes begin with the next group of the chain, whole. */
static bool goes_on(const struct recovery *recovery, const uint8_t *bytes, uint64_t room,
                    struct depot_group_format *ret_header)
{
    const struct depot_superblock_format *superblock = &recovery->depot->superblock;
    return room >= superblock->block_bytes &&
           depot_group_parse(bytes, superblock->check_seed, superblock->group_bytes, ret_header) == 0 &&
           ret_header->number == recovery->end.number + 1 &&
           ret_header->previous_check == recovery->end.check && ret_header->bytes <= room &&
           depot_group_verify(bytes, ret_header, superblock->check_seed) == 0;
}

/* Replay what a window holds. @param ret_found  whether it began with a group that fits on */
static int replay_window(struct recovery *recovery, uint64_t bytes, bool *ret_found)
{
    uint64_t begin = recovery->end.address;
    struct depot_group_format header;
    *ret_found = false;
    for (;;) {
        uint64_t offset = recovery->end.address - begin;
        if (!goes_on(recovery, recovery->window + offset, bytes - offset, &header))
            return 0;
        int error = replay_group(recovery, recovery->window + offset, &header);
        if (error != 0)
            return error;
        *ret_found = true;
    }
}

/* A read may return damaged bytes: the log ends where two reads in a row find no next group. */
static int replay_log(struct recovery *recovery)
{
    for (int misses = 0; misses < 2;) {
        uint64_t bytes;
        bool found;
        int error = read_window(recovery, recovery->end.address, &bytes);
        if (error == 0)
            error = replay_window(recovery, bytes, &found);
        if (error != 0)
            return error;
        misses = found ? 0 : misses + 1;
    }
    return 0;
}

/*
 * Look for groups behind the end that were written when more of the log was durable than was found.
 * One group is in flight at a time, so behind a write that was cut off there is none: finding one means
 * that something in between is damaged. Groups that were merely never flushed do not claim that.
 */
static int look_behind(struct recovery *recovery)
{
    const struct tarn_depot *depot = recovery->depot;
    const struct depot_superblock_format *superblock = &depot->superblock;
    struct depot_group_format header;
    char path[DEPOT_PATH_ROOM];
    uint64_t bytes;
    for (uint64_t address = recovery->end.address; address < superblock->store_bytes; address += bytes) {
        int error = read_window(recovery, address, &bytes);
        if (error != 0)
            return error;
        for (uint64_t offset = 0; offset < bytes; offset += superblock->block_bytes) {
            if (depot_group_parse(recovery->window + offset, superblock->check_seed, superblock->group_bytes,
                                  &header) == 0 &&
                header.flushed > recovery->end.number) {
                base_error(&depot->node->log,
                           "the log is damaged in its middle: the store is not opened, to lose nothing",
                           "path=%s offset=%" PRIu64 " intact_behind=%" PRIu64,
                           depot_path(path, depot->drive), recovery->end.address, address + offset);
                return -EBADMSG;
            }
        }
    }
    return 0;
}

int depot_recover(struct tarn_depot *depot, struct depot_log_end *ret_end)
{
    struct recovery recovery = {
        .depot = depot,
        .window = depot->log.groups[0].buffer,
        .end = {.address = depot->superblock.log_offset},
        .clean = true,
    };
    uint64_t begin_ns = task_now();
    int error = replay_log(&recovery);
    if (error == 0)
        error = look_behind(&recovery);
    if (error != 0)
        return error;
    task_wall_raise(depot->node, recovery.end.stamp);
    char path[DEPOT_PATH_ROOM];
    base_info(&depot->node->log, recovery.clean ? "store opened" : "store opened after an unclean end",
              "path=%s records=%" PRIu64 " log_groups=%" PRIu64 " log_records=%" PRIu64 " used_bytes=%" PRIu64
              " size_bytes=%" PRIu64 " recovery_ms=%" PRIu64,
              depot_path(path, depot->drive), atomic_load_explicit(&depot->records, memory_order_relaxed),
              recovery.groups, recovery.records, recovery.end.address, depot->superblock.store_bytes,
              (task_now() - begin_ns) / BASE_NS_PER_MS);
    *ret_end = recovery.end;
    return 0;
}
