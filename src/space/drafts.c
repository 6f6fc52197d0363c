/* A client's copy-on-write regions: drafts of next versions, and taking the newest version. Looking at version words is
 * data.c's. */
#include "space/client.h"
#include <errno.h>

int tarn_space_begin(struct tarn_space_region *region, uint64_t offset, uint64_t bytes, uint64_t deadline_ns,
                     struct tarn_space_region **ret_draft)
{
    struct tarn_space_namespace *of = region->of;
    const struct tarn_space *space = of->space;
    const uint64_t chunk_bytes = space->chunk_bytes, at = region->skipped + offset;
    uint8_t request[SPACE_REQUEST_MAX];
    struct space_cursor end = client_begin_of(request, of, region->number);
    if (!client_looks_at_words(region) || bytes == 0 || offset > region->bytes ||
        bytes > region->bytes - offset || !base_is_aligned(at, chunk_bytes) ||
        !(base_is_aligned(at + bytes, chunk_bytes) ||
          (region->reaches_end && offset + bytes == region->bytes)))
        return -EINVAL;
    if (region->error != 0)
        return region->error;
    space_put(&end, region->first_chunk + (at >> space->chunk_shift), 4);
    space_put(&end, (bytes + chunk_bytes - 1) >> space->chunk_shift, 4);
    int error = client_hold_region(of, SPACE_BEGIN, request, &end, region->address + offset, bytes,
                                   deadline_ns, ret_draft);
    return error != 0 && region->error != 0 ? region->error
                                            : error; /* it was gone when the session was begun again */
}

/* Append the servers at which WRITEs of a draft have failed. */
static void put_lost(struct space_cursor *end, const struct tarn_space_region *draft)
{
    uint8_t *count = end->at;
    space_put(end, 0, 4);
    base_list_for_each(at, &draft->of->links) {
        const struct client_link *link = base_container_of(at, struct client_link, link);
        bool is_lost = false;
        for (uint32_t i = 0; i < draft->target_count; i++)
            is_lost = is_lost || (draft->targets[i].link == link && draft->targets[i].is_lost);
        if (!is_lost)
            continue;
        space_put(end, link->server, 4);
        base_store_le32(count, base_load_le32(count) + 1);
    }
}

int tarn_space_publish(struct tarn_space_region *draft, uint64_t deadline_ns)
{
    uint8_t request[SPACE_REQUEST_MAX];
    struct space_cursor end = client_begin_of(request, draft->of, draft->number);
    if (!draft->is_draft)
        return -EINVAL;
    put_lost(&end, draft);
    if (draft->is_broken || end.is_wrong)
        return -EIO;
    if (draft->error != 0)
        return draft->error;
    int error = client_ask(draft->of->space, SPACE_PUBLISH, request, &end, NULL, 0, deadline_ns, NULL);
    if (error == 0)
        draft->is_draft = false;
    return error != 0 && draft->error != 0 ? draft->error : error;
}

/* Exchange what two regions hold; each keeps its place in the list, and its local memory. */
static void exchange_versions(struct tarn_space_region *region, struct tarn_space_region *other)
{
    const uint32_t number = region->number;
    struct client_target *targets = region->targets;
    const int error = region->error;
    const bool is_in_doubt = region->is_in_doubt;
    region->number = other->number;
    region->targets = other->targets;
    region->error = atomic_load(&other->error);
    region->is_outdated = other->is_outdated;
    region->is_in_doubt = other->is_in_doubt;
    region->view = other->view;
    other->number = number;
    other->targets = targets;
    other->is_in_doubt = is_in_doubt;
    other->error = error;
}

int tarn_space_refresh(struct tarn_space_region *region, uint64_t deadline_ns)
{
    struct tarn_space_region *newest;
    if (!client_looks_at_words(region))
        return -EINVAL;
    int error = tarn_space_init(region->of, region->address, region->bytes, deadline_ns, &newest);
    if (error != 0)
        return error;
    if (newest->is_versioned && newest->target_count == region->target_count) {
        task_mutex_lock_firmly(&region->of->space->control); /* a master may just be told of both */
        exchange_versions(region, newest);
        task_mutex_unlock(&region->of->space->control);
    } else {
        error = -EPROTO;
    }
    tarn_space_drop(newest);
    return error;
}

bool tarn_space_is_current(const struct tarn_space_region *region)
{
    return !region->is_outdated;
}
