/* What the master tells of memory servers, namespaces, regions and itself: the methods SERVER and LIST. */
#include "space/asking.h"
#include <errno.h>
#include <string.h>

static void put_server(struct space_cursor *to, const struct master_server *server, uint32_t number)
{
    space_put_bytes(to, server->identity, SPACE_IDENTITY_BYTES);
    space_put(to, number, 4);
    space_put(to, strlen(server->name), 2);
    space_put(to, strlen(server->address), 2);
    space_put_bytes(to, server->name, strlen(server->name));
    space_put_bytes(to, server->address, strlen(server->address));
}

int ask_server(struct asking *asking)
{
    const uint32_t number = (uint32_t)space_take(&asking->from, 4);
    space_take_zeros(&asking->from, 4);
    if (!asking_is_taken(asking))
        return -EINVAL;
    const struct master_server *server = master_server_of(asking->master, number);
    if (server == NULL)
        return -ENODATA;
    put_server(&asking->to, server, 0);
    return 0;
}

/* The server of the least number from one on. @return NULL: there is none */
static const struct master_server *next_server(const struct space_master *master, uint32_t from)
{
    const struct master_server *next = NULL;
    for (uint32_t slot = 0; slot < master->slots; slot++) {
        const struct master_server *server = master->servers[slot];
        if (server != NULL && server->number >= from && (next == NULL || server->number < next->number))
            next = server;
    }
    return next;
}

/* Count the chunks that namespaces have, or that wait to be theirs no more. */
static uint32_t count_used(const struct master_server *server)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < server->chunk_count; i++)
        count += server->chunks[i].space_number != 0 || server->chunks[i].region_number != 0;
    return count;
}

/* Write the rows of a kind, from a number on, as long as there is room. */
static void list_servers(struct asking *asking, uint32_t from)
{
    const struct master_server *server;
    while ((server = next_server(asking->master, from)) != NULL) {
        struct space_cursor to = asking->to;
        put_server(&to, server, server->number);
        space_put(&to, server->chunk_count, 4);
        space_put(&to, server->is_live ? server->free.count : 0, 4);
        space_put(&to, server->connection != NULL, 1);
        space_put(&to, server->is_draining, 1);
        space_put(&to, count_used(server), 4);
        space_put(&to, server->dirty_count, 4);
        space_put(&to, server->client_count, 4);
        space_put(&to, server->refused_count, 8);
        if (to.is_wrong)
            return;
        asking->to = to;
        from = server->number + 1;
    }
}

/* Count the chunks that the regions of a namespace have. */
static uint64_t count_bound(const struct master_space *space)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < space->regions.count; i++)
        count += ((const struct master_region *)space->regions.items[i])->place_count;
    return count;
}

static void list_spaces(struct asking *asking, uint32_t from)
{
    for (uint32_t i = 0; i < asking->master->spaces.count; i++) {
        const struct master_space *space = asking->master->spaces.items[i];
        struct space_cursor to = asking->to;
        if (space->number < from || space->is_deleted || !space->is_stored)
            continue;
        space_put(&to, space->number, 4);
        space_put(&to, space->regions.count, 4);
        space_put(&to, space->spare_count, 8);
        space_put(&to, count_bound(space), 8);
        space_put(&to, strlen(space->name), 2);
        space_put_bytes(&to, space->name, strlen(space->name));
        if (to.is_wrong)
            return;
        asking->to = to;
    }
}

static void list_regions(struct asking *asking, const struct master_space *space, uint32_t from)
{
    for (uint32_t i = 0; i < space->regions.count; i++) {
        struct master_region *region = space->regions.items[i];
        struct space_cursor to = asking->to;
        if (region->number < from || region->is_freed || !region->is_stored)
            continue;
        asking_put_region(asking, region);
        space_put(&asking->to, region->holds, 4);
        space_put(&asking->to, strlen(region->name), 2);
        space_put_bytes(&asking->to, region->name, strlen(region->name));
        if (asking->to.is_wrong) {
            asking->to = to;
            return;
        }
    }
}

/* Write the master's own numbers. Counters, which begin at 0 with the master, end with _total. */
static void list_statistics(struct asking *asking, uint32_t from)
{
    struct space_master_stats stats;
    space_master_stats(asking->master, &stats);
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {{"epoch", stats.epoch},
               {"servers", stats.servers},
               {"memory_bytes", stats.chunks * asking->master->chunk_bytes},
               {"free_bytes", stats.chunks_free * asking->master->chunk_bytes},
               {"namespaces", stats.namespaces},
               {"regions", stats.regions},
               {"sessions", stats.sessions},
               {"sessions_expired_total", stats.expired},
               {"secrets_refused_total", stats.secrets_refused},
               {"connections_refused_total", stats.sessions_refused},
               {"metadata_writes_total", stats.stores}};
    for (uint32_t i = from; i < base_array_count(all); i++) {
        space_put(&asking->to, i, 4);
        space_put(&asking->to, all[i].value, 8);
        space_put(&asking->to, strlen(all[i].name), 2);
        space_put_bytes(&asking->to, all[i].name, strlen(all[i].name));
    }
}

int ask_list(struct asking *asking)
{
    const uint32_t kind = (uint32_t)space_take(&asking->from, 4);
    const uint32_t number = (uint32_t)space_take(&asking->from, 4),
                   from = (uint32_t)space_take(&asking->from, 4);
    if (!asking_is_taken(asking) || kind > SPACE_STATISTICS || (kind == SPACE_REGIONS) != (number != 0))
        return -EINVAL;
    const struct master_space *space = master_space_of(asking->master, number);
    if (kind == SPACE_SERVERS)
        list_servers(asking, from);
    else if (kind == SPACE_NAMESPACES)
        list_spaces(asking, from);
    else if (kind == SPACE_STATISTICS)
        list_statistics(asking, from);
    else if (space != NULL && !space->is_deleted && master_list_has(&asking->session->spaces, space))
        list_regions(asking, space, from);
    else
        return -ENOENT;
    return 0;
}
