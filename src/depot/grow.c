/* Making a store larger: while nobody has it open, or while it is open. */
#include "depot/depot_internal.h"
#include <errno.h>

/* A file becomes longer only if it is a store that can take that. */
static int check_limit(struct tarn_node *node, const char *path, uint64_t bytes)
{
    const struct drive_options options = {.read_only = false};
    struct drive *drive;
    uint64_t limit_bytes;
    int error = drive_open(node, path, &options, &drive);
    if (error != 0)
        return error;
    error = seglog_growth_limit(node, drive, SEGLOG_OWNER_DEPOT, &limit_bytes);
    if (error == 0 && bytes > limit_bytes) {
        char limit[BASE_UNITS_ROOM];
        base_error(&node->log, "the store cannot become so large: dump it, and load it into a new one",
                   "path=%s most=%s", drive_name(drive),
                   base_format_size_exact(limit, sizeof(limit), limit_bytes));
        error = -EFBIG;
    }
    drive_close(drive);
    return error;
}

int tarn_depot_grow(struct tarn_node *node, const char *path, uint64_t bytes,
                    struct tarn_depot_growth *ret_growth)
{
    const struct drive_options drive_options = {.grow_bytes = bytes, .append = true};
    const struct seglog_format_options options = {.owner_kind = SEGLOG_OWNER_DEPOT,
                                                  .fill_owner = depot_owner_fill};
    struct seglog_growth growth;
    struct drive *drive;
    int error = bytes == 0 ? 0 : check_limit(node, path, bytes);
    if (error == 0)
        error = drive_open(node, path, &drive_options, &drive);
    if (error != 0)
        return error;
    if (drive_member_count(drive) > 1 &&
        !drive_info(drive)->appending) /* it uses no more than its labels say */
        error = drive_extend(drive, &bytes);
    if (error == 0)
        error = seglog_grow(node, drive, &options, &growth);
    drive_close(drive);
    if (error == 0)
        *ret_growth = (struct tarn_depot_growth){.before_bytes = growth.before_bytes,
                                                 .after_bytes = growth.after_bytes};
    return error;
}

/* Addresses in the index have the bits that they were given when the store was made, or grew last while nobody had
 * it open: all of the index would have to be made anew. */
int tarn_depot_extend(struct tarn_depot *depot, struct tarn_depot_growth *ret_growth)
{
    const struct seglog_bound bound = {
        .bytes = depot_index_grains_most(&depot->index.widths) << depot->grain_shift,
        .why = "the addresses of its index are too short for more: close it, and use tarn grow"};
    struct seglog_growth growth;
    if (depot->read_only)
        return -EROFS;
    int error = seglog_extend(depot->log, &bound, &growth);
    /* never lower: of two who come at once the later has the larger store */
    uint64_t capacity = seglog_capacity(depot->log), before = depot_capacity(depot);
    while (before < capacity &&
           !atomic_compare_exchange_weak_explicit(&depot->capacity_bytes, &before, capacity,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    if (error == 0)
        *ret_growth = (struct tarn_depot_growth){.before_bytes = growth.before_bytes,
                                                 .after_bytes = growth.after_bytes};
    return error;
}
