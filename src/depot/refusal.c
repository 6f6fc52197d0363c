/* What is refused for want of room: told in the log when that begins, and when it has ended. */
#include "depot/depot_internal.h"
#include <inttypes.h>

int depot_refuse(struct tarn_depot *depot, enum depot_lack lack, int error)
{
    char live[BASE_UNITS_ROOM], capacity[BASE_UNITS_ROOM];
    struct base_log *log = &depot->node->log;
    if ((error != -ENOSPC && error != -ENOMEM) || !base_log_spell_note(log, &depot->refusals))
        return error;
    (void)base_format_size(live, sizeof(live),
                           atomic_load_explicit(&depot->live_bytes, memory_order_relaxed));
    (void)base_format_size(capacity, sizeof(capacity), depot_capacity(depot));
    if (lack == DEPOT_LACKS_INDEX)
        base_warn(log, "new keys are refused: the index has no memory for them",
                  "path=%s index_bytes=%" PRIu64
                  " remedy=\"raise the memory cap (--memory of the server), or delete records\"",
                  drive_name(depot->drive), depot_index_bytes(&depot->index));
    else
        base_warn(log, "new data is refused: the store is full",
                  "path=%s live=\"%s\" capacity=\"%s\" "
                  "remedy=\"delete records, make the store larger, or let it evict as a cache does\"",
                  drive_name(depot->drive), live, capacity);
    return error;
}

/* @param at_once  whether nothing else will be stored */
static void tell_end(struct tarn_depot *depot, bool at_once, const char *event)
{
    uint64_t refused, lasted_ns;
    if (base_log_spell_ended(&depot->node->log, &depot->refusals, at_once, &refused, &lasted_ns))
        base_info(&depot->node->log, event, "path=%s refused=%" PRIu64 " seconds=%" PRIu64,
                  drive_name(depot->drive), refused, lasted_ns / BASE_NS_PER_SECOND);
}

void depot_accept(struct tarn_depot *depot)
{
    tell_end(depot, false, "new data is taken again");
}

void depot_refusals_end(struct tarn_depot *depot)
{
    tell_end(depot, true, "new data was refused until the store was closed");
}
