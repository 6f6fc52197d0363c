/* Namespaces and their regions, in the master's memory. Their chunks are chunks.c's. */
#include "space/master.h"
#include <stdio.h>
#include <string.h>

struct master_space *master_space_of(const struct space_master *master, uint32_t number)
{
    for (uint32_t i = 0; i < master->spaces.count; i++) {
        struct master_space *space = master->spaces.items[i];
        if (space->number == number)
            return space;
    }
    return NULL;
}

struct master_space *master_space_named(const struct space_master *master, const char *name)
{
    for (uint32_t i = 0; i < master->spaces.count; i++) {
        struct master_space *space = master->spaces.items[i];
        if (!space->is_deleted && strcmp(space->name, name) == 0)
            return space;
    }
    return NULL;
}

struct master_space *master_space_make(struct space_master *master, uint32_t number, const char *name)
{
    struct base_account *account = &master->node->memory;
    struct master_space *space = base_alloc(account, sizeof(*space));
    if (space == NULL)
        return NULL;
    if (master_list_add(account, &master->spaces, space) != 0) {
        base_free(account, space, sizeof(*space));
        return NULL;
    }
    space->number = number;
    (void)snprintf(space->name, sizeof(space->name), "%s", name);
    return space;
}

/* Whether chunks of a namespace are with servers, or on their way from or to them. */
static bool has_chunks(const struct space_master *master, const struct master_space *space)
{
    if (space->spare_count > 0)
        return true;
    for (uint32_t slot = 0; slot < SPACE_SERVERS_MAX; slot++) {
        const struct master_server *server = master->servers[slot];
        if (server != NULL && server->leaving > 0)
            return true;
    }
    return false;
}

void master_space_try_free(struct space_master *master, struct master_space *space)
{
    struct base_account *account = &master->node->memory;
    if (!space->is_deleted || space->users > 0 || space->regions.count > 0 || has_chunks(master, space))
        return;
    (void)master_list_remove(&master->spaces, space);
    master_list_free(account, &space->regions);
    base_free(account, space, sizeof(*space));
}

void master_space_put(struct space_master *master, struct master_space *space)
{
    base_assert(space->users > 0);
    space->users--;
    master_space_try_free(master, space);
}

/* ---- regions ------------------------------------------------------------------------------------ */

struct master_region *master_region_of(const struct master_space *space, uint32_t number)
{
    uint32_t low = 0, high = space->regions.count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        struct master_region *region = space->regions.items[middle];
        if (region->number == number)
            return region;
        if (region->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

struct master_region *master_region_named(const struct master_space *space, const char *name)
{
    for (uint32_t i = 0; i < space->regions.count; i++) {
        struct master_region *region = space->regions.items[i];
        if (!region->is_freed && !region->is_draft && strcmp(region->name, name) == 0)
            return region;
    }
    return NULL;
}

struct master_region *master_region_at(const struct master_space *space, uint64_t address, uint64_t bytes)
{
    for (uint32_t i = space->regions.count; i-- > 0;) {
        struct master_region *region = space->regions.items[i];
        const uint64_t offset = address - region->address;
        if (region->is_stored && !region->is_freed && address >= region->address && offset < region->bytes)
            return bytes <= region->bytes - offset ? region : NULL;
    }
    return NULL;
}

struct master_region *master_region_make(struct space_master *master, struct master_space *space,
                                         uint32_t number, uint32_t chunk_count, uint32_t copies)
{
    struct base_account *account = &master->node->memory;
    struct master_region *region = base_alloc(account, sizeof(*region));
    const uint64_t bytes = (uint64_t)chunk_count * copies * sizeof(uint64_t);
    uint64_t *places = base_alloc(account, bytes);
    if (region == NULL || places == NULL || master_list_add(account, &space->regions, region) != 0) {
        base_free(account, places, bytes);
        base_free(account, region, sizeof(*region));
        return NULL;
    }
    region->space = space;
    region->number = number;
    region->chunk_count = chunk_count;
    region->copies = copies;
    region->place_count = chunk_count * copies;
    region->places = places;
    return region;
}

void master_region_free(struct space_master *master, struct master_region *region)
{
    struct base_account *account = &master->node->memory;
    struct master_space *space = region->space;
    (void)master_list_remove(&space->regions, region);
    if (region->draft != NULL)
        master_detach_draft(region->draft);
    master_detach_draft(region);
    base_free(account, region->places, region->place_count * sizeof(*region->places));
    base_free(account, region, sizeof(*region));
    master_space_try_free(master, space);
}

void master_place_share(const struct space_master *master, struct master_region *region, uint32_t index,
                        uint64_t place)
{
    struct master_server *server = master_server_of(master, master_place_server(place));
    region->places[index] = place;
    if (server != NULL)
        server->chunks[master_place_chunk(place)].versions++;
}

void master_place_leave(struct space_master *master, struct master_region *region, uint32_t index)
{
    struct master_server *server = master_server_of(master, master_place_server(region->places[index]));
    const uint32_t chunk = master_place_chunk(region->places[index]);
    region->places[index] = 0;
    if (server == NULL)
        return; /* it is lost, or was not bound yet */
    base_assert(server->chunks[chunk].versions > 0);
    if (--server->chunks[chunk].versions > 0)
        return; /* other versions have it */
    server->chunks[chunk].region_number = 0;
    if (server->is_draining)
        master_owe(master, region->space, 1);
    if (server->is_live)
        master_chunk_place(master, server, chunk);
}

void master_region_take_chunks(struct space_master *master, struct master_region *region)
{
    for (uint32_t i = 0; i < region->place_count; i++)
        master_place_leave(master, region, i);
}

uint64_t master_count_regions(const struct space_master *master)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < master->spaces.count; i++) {
        const struct master_space *space = master->spaces.items[i];
        count += space->regions.count;
    }
    return count;
}

/* ---- giving back -------------------------------------------------------------------------------- */

bool master_is_settled(const struct space_master *master, const struct master_space *space)
{
    return master->grace_end_ns == 0 && master_have_fenced(master, master->old_expiry, space);
}

/* A region of a namespace that is freed, or a draft, and that nobody holds, or will. @return NULL: there is none */
static struct master_region *find_reclaimable(const struct space_master *master,
                                              const struct master_space *space)
{
    const bool is_settled = master_is_settled(master, space);
    for (uint32_t i = 0; i < space->regions.count && is_settled; i++) {
        struct master_region *region = space->regions.items[i];
        if ((region->is_draft || (region->is_freed && region->is_stored)) && region->holds == 0)
            return region;
    }
    return NULL;
}

/* Whether chunks are about to be reserved for a namespace, instead of some that a server that is drained had. */
static bool is_owed(const struct space_master *master, const struct master_space *space)
{
    return space->owed > 0 && master_count_free(master, false) >= (uint64_t)space->owed;
}

int master_await_spare(const struct space_master *master, const struct master_space *space,
                       uint64_t deadline_ns)
{
    return master->failed == 0 && (is_owed(master, space) || find_reclaimable(master, space) != NULL)
               ? master_await_moment(deadline_ns)
               : master_await_more(master, deadline_ns);
}

static struct master_region *find_any_reclaimable(const struct space_master *master)
{
    struct master_region *region = NULL;
    for (uint32_t i = 0; i < master->spaces.count && region == NULL; i++)
        region = find_reclaimable(master, master->spaces.items[i]);
    return region;
}

void master_reclaim(struct space_master *master)
{
    struct master_region *region;
    while (master->failed == 0 && (region = find_any_reclaimable(master)) != NULL) {
        struct master_set set;
        region->is_going = true;
        master_set_init(&set);
        if (region->is_stored)
            master_forget_region(master, &set, region);
        if (master_store(master, &set) != 0) {
            region->is_going = false;
            return;
        }
        master_region_take_chunks(master, region);
        master_region_free(master, region);
        master_poke_servers(master);
    }
    for (uint32_t i = master->spaces.count;
         i-- > 0;) /* chunks that kept them have left, or their server is gone */
        master_space_try_free(master, master->spaces.items[i]);
}
