/* Memory servers and their chunks, in the master's memory: which namespace has each, and how it
 * passes from list to list. */
#include "space/master.h"
#include <errno.h>
#include <string.h>

#define ASSIGN_MAX ((SPACE_SERVER_MAX - 8) / SPACE_KEYS_BYTES) /* chunks of one order */
#define PAUSE_NS   (2 * BASE_NS_PER_MS) /* between looks at chunks that are about to become free */

struct master_server *master_server_of(const struct space_master *master, uint32_t number)
{
    for (uint32_t slot = 0; slot < master->slots; slot++) {
        if (master->servers[slot] != NULL && master->servers[slot]->number == number)
            return master->servers[slot];
    }
    return NULL;
}

struct master_server *master_server_named(const struct space_master *master, const char *name)
{
    for (uint32_t slot = 0; slot < master->slots; slot++) {
        struct master_server *server = master->servers[slot];
        if (server != NULL && strcmp(server->name, name) == 0)
            return server;
    }
    return NULL;
}

struct master_server *master_server_make(struct space_master *master, uint32_t number, uint32_t chunk_count)
{
    struct base_account *account = &master->node->memory;
    uint32_t slot = 0;
    while (slot < SPACE_SERVERS_MAX && master->servers[slot] != NULL)
        slot++;
    struct master_server *server = slot == SPACE_SERVERS_MAX ? NULL : base_alloc(account, sizeof(*server));
    if (server == NULL)
        return NULL;
    server->chunks = base_alloc(account, chunk_count * sizeof(*server->chunks));
    if (server->chunks == NULL) {
        base_free(account, server, sizeof(*server));
        return NULL;
    }
    server->number = number;
    server->slot = slot;
    server->chunk_count = chunk_count;
    server->given_up_ns = task_now() + MASTER_GIVE_UP * master->lease_ns;
    task_semaphore_init(&server->work, 0);
    master->servers[slot] = server;
    master->slots = base_max(master->slots, slot + 1);
    return server;
}

void master_server_free(struct space_master *master, struct master_server *server)
{
    struct base_account *account = &master->node->memory;
    base_assert(server->connection == NULL && server->calls == 0);
    master->servers[server->slot] = NULL;
    base_free(account, server->chunks, server->chunk_count * sizeof(*server->chunks));
    base_free(account, server, sizeof(*server));
}

/* ---- lists -------------------------------------------------------------------------------------- */

static void push_chunk(struct master_server *server, struct master_chunks *list, uint32_t chunk)
{
    server->chunks[chunk].next = list->first;
    list->first = chunk + 1;
    list->count++;
}

static uint32_t pop_chunk(const struct master_server *server, struct master_chunks *list)
{
    base_assert(list->count > 0);
    const uint32_t chunk = list->first - 1;
    list->first = server->chunks[chunk].next;
    list->count--;
    return chunk;
}

/* Have a chunk that is in no list leave its namespace. */
static void have_leave(struct master_server *server, uint32_t chunk)
{
    server->chunks[chunk].is_leaving = true;
    server->leaving++;
}

void master_chunk_place(struct space_master *master, struct master_server *server, uint32_t chunk)
{
    struct master_chunk *at = &server->chunks[chunk];
    struct master_space *space = at->space_number == 0 ? NULL : master_space_of(master, at->space_number);
    at->is_leaving = false;
    if (at->is_waiting || at->region_number != 0)
        return;
    if (at->space_number == 0) {
        push_chunk(server, &server->free, chunk);
    } else if (space == NULL || space->is_deleted || server->is_draining) {
        have_leave(server, chunk);
    } else {
        push_chunk(server, &space->spare[server->slot], chunk);
        space->spare_count++;
    }
}

void master_server_unsort(struct space_master *master, struct master_server *server)
{
    server->free = (struct master_chunks){.count = 0};
    server->leaving = 0;
    server->is_live = false;
    for (uint32_t i = 0; i < master->spaces.count; i++) {
        struct master_space *space = master->spaces.items[i];
        space->spare_count -= space->spare[server->slot].count;
        space->spare[server->slot] = (struct master_chunks){.count = 0};
    }
}

void master_server_sort(struct space_master *master, struct master_server *server)
{
    master_server_unsort(master, server);
    for (uint32_t chunk = 0; chunk < server->chunk_count; chunk++)
        server->chunks[chunk].is_waiting = true;
    server->is_live = true;
    master_server_sort_waiting(master, server);
}

void master_server_sort_waiting(struct space_master *master, struct master_server *server)
{
    for (uint32_t i = server->chunk_count; i-- > 0;) {
        struct master_chunk *chunk = &server->chunks[i];
        if (!chunk->is_waiting || master_is_unfenced(server, chunk->space_number))
            continue;
        chunk->is_waiting = false;
        master_chunk_place(master, server, i);
    }
}

/* ---- reserving ---------------------------------------------------------------------------------- */

/* A part of a reservation: chunks of one server, which it is to assign. */
struct assignment {
    struct master_server *server;
    uint32_t count;
    uint32_t chunks[ASSIGN_MAX];
};

/* Whether a server may get chunks. */
static bool is_usable(const struct master_server *server)
{
    return server != NULL && server->is_live && !server->is_draining;
}

uint32_t master_count_live(const struct space_master *master)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < master->slots; slot++)
        count += is_usable(master->servers[slot]);
    return count;
}

uint64_t master_count_free(const struct space_master *master, bool with_leaving)
{
    uint64_t count = 0;
    for (uint32_t slot = 0; slot < master->slots; slot++) {
        const struct master_server *server = master->servers[slot];
        if (is_usable(server))
            count += server->free.count + (with_leaving ? server->leaving : 0);
    }
    return count;
}

/* Whether memory servers that are known may become live before long: they are attended already, or the term is young. */
static bool may_more_come(const struct space_master *master)
{
    for (uint32_t slot = 0; slot < master->slots; slot++) {
        const struct master_server *server = master->servers[slot];
        if (server != NULL && !server->is_live &&
            (server->connection != NULL || task_now() < master->patience_end_ns))
            return true;
    }
    return false;
}

int master_await_moment(uint64_t deadline_ns)
{
    return task_now() >= deadline_ns ? -EINPROGRESS : task_sleep(PAUSE_NS);
}

int master_await_more(const struct space_master *master, uint64_t deadline_ns)
{
    if (!may_more_come(master) || master->failed != 0)
        return -ENOSPC;
    return master_await_moment(deadline_ns);
}

/* Wait until some chunks are free, if those that are leaving their namespaces, or servers that come, make that true. */
static int await_free(struct space_master *master, uint64_t count, uint64_t deadline_ns)
{
    int error = 0;
    while (error == 0 && master_count_free(master, false) < count) {
        if (master_count_free(master, true) < count || master->failed != 0)
            error = master_await_more(master, deadline_ns);
        else
            error = master_await_moment(deadline_ns);
    }
    return error;
}

/* Whether a server has a copy of the same chunk as a place. @param region  NULL: none has */
static bool has_copy(const struct master_region *region, uint32_t place, const struct master_server *server)
{
    const uint32_t first = region == NULL ? 0 : place - place % region->copies;
    for (uint32_t i = 0; region != NULL && i < region->copies; i++) {
        if (master_place_server(region->places[first + i]) == server->number)
            return true;
    }
    return false;
}

/* Choose the next server in turn that has free chunks. @param region, place  for a copy there; NULL: for any @return NULL: none has */
static struct master_server *next_with_free(struct space_master *master, const struct master_region *region,
                                            uint32_t place)
{
    for (uint32_t i = 0; i < master->slots; i++) {
        struct master_server *server = master->servers[master->turn];
        master->turn = (master->turn + 1) % master->slots;
        if (is_usable(server) && server->free.count > 0 && !has_copy(region, place, server))
            return server;
    }
    return NULL;
}

/* A part of a reservation: the chunks of one server. */
struct share {
    struct space_master *master;
    struct master_space *space;
    uint32_t slot, count;
    uint32_t done; /* of them, those that are reserved */
    uint64_t deadline_ns;
    int error;
};

/* Divide a reservation among the servers, in turn. */
static void divide(struct space_master *master, uint64_t count, struct share *shares)
{
    for (uint64_t i = 0; i < count; i++) {
        struct master_server *server = next_with_free(master, NULL, 0);
        base_assert(server != NULL);
        server->free.count--; /* until all are divided */
        shares[server->slot].count++;
    }
    for (uint32_t slot = 0; slot < master->slots; slot++) {
        if (master->servers[slot] != NULL)
            master->servers[slot]->free.count += shares[slot].count;
    }
}

/* Give the chunks of an assignment that a server has refused back to the free ones. */
static void refuse_assignment(struct space_master *master, const struct assignment *assignment)
{
    for (uint32_t i = 0; i < assignment->count; i++) {
        assignment->server->chunks[assignment->chunks[i]].space_number = 0;
        master_chunk_place(master, assignment->server, assignment->chunks[i]);
    }
}

/* Have a server assign chunks, and note the handles. */
static int assign_chunks(struct space_master *master, const struct master_space *space,
                         const struct assignment *assignment)
{
    struct master_server *server = assignment->server;
    const uint32_t request_bytes = 8 + 4 * assignment->count;
    const uint32_t result_bytes = SPACE_KEYS_BYTES * assignment->count;
    struct base_account *account = &master->node->memory;
    uint8_t *request = base_alloc(account, request_bytes + result_bytes);
    if (request == NULL)
        return -ENOMEM;
    struct space_cursor cursor = space_cursor_to(request, request_bytes);
    space_put(&cursor, space->number, 4);
    space_put(&cursor, assignment->count, 4);
    for (uint32_t i = 0; i < assignment->count; i++)
        space_put(&cursor, assignment->chunks[i], 4);
    int error = master_order(server, SPACE_ASSIGN, request, request_bytes, request + request_bytes,
                             result_bytes, task_now() + master->lease_ns);
    cursor = space_cursor_from(request + request_bytes, result_bytes);
    for (uint32_t i = 0; i < assignment->count && error == 0; i++)
        space_take_keys(&cursor, &server->chunks[assignment->chunks[i]].keys);
    base_free(account, request, request_bytes + result_bytes);
    return error;
}

/* Have a server assign some chunks of a share. If it is not known what it has done, it is to report anew: what it says then is true.
 * @return 0; -ENOMEM; -EINPROGRESS: it went meanwhile, or others were faster */
static int reserve_some(struct share *share, struct assignment *assignment)
{
    struct space_master *master = share->master;
    struct master_server *server = master->servers[share->slot];
    if (server == NULL || !server->is_live || server->free.count < assignment->count)
        return -EINPROGRESS;
    assignment->server = server;
    for (uint32_t i = 0; i < assignment->count; i++) {
        assignment->chunks[i] = pop_chunk(server, &server->free);
        server->chunks[assignment->chunks[i]].space_number = share->space->number;
    }
    const struct tarn_rpc_connection *connection = server->connection;
    int error = assign_chunks(master, share->space, assignment);
    if (master->servers[share->slot] != server || server->connection != connection || !server->is_live)
        return -EINPROGRESS;
    if (error == 0) {
        for (uint32_t i = 0; i < assignment->count; i++)
            master_chunk_place(master, server, assignment->chunks[i]);
        share->done += assignment->count;
        if (server->is_draining) /* meanwhile */
            master_owe(master, share->space, assignment->count);
        return 0;
    }
    if (error == -ENOMEM || error == -ENOSPC || error == -EINVAL) {
        refuse_assignment(master, assignment);
        return error;
    }
    server->must_report = true;
    task_semaphore_post(&server->work);
    return -EINPROGRESS;
}

static void reserve_share(void *arg)
{
    struct share *share = arg;
    struct base_account *account = &share->master->node->memory;
    struct assignment *assignment = base_alloc(account, sizeof(*assignment));
    share->error = assignment == NULL ? -ENOMEM : 0;
    while (share->error == 0 && share->done < share->count) {
        assignment->count = base_min(share->count - share->done, (uint32_t)ASSIGN_MAX);
        share->error = share->done > 0 && task_now() >= share->deadline_ns ? -EINPROGRESS
                                                                           : reserve_some(share, assignment);
    }
    base_free(account, assignment, sizeof(*assignment));
}

/* Reserve the shares of all servers at once. @return the last error of one; 0 */
static int reserve_shares(struct share *shares, uint32_t slots, uint64_t *ret_done)
{
    struct task_group group;
    int error = 0;
    task_group_init(&group);
    for (uint32_t slot = 0; slot < slots; slot++) {
        if (shares[slot].count > 0 &&
            task_spawn(NULL, &group, "space-reserve", reserve_share, &shares[slot]) != 0)
            reserve_share(&shares[slot]);
    }
    if (task_group_join(&group, TASK_FOREVER) != 0) {
        task_group_cancel(&group);
        task_group_join_firmly(&group);
    }
    for (uint32_t slot = 0; slot < slots; slot++) {
        *ret_done += shares[slot].done;
        error = shares[slot].error != 0 ? shares[slot].error : error;
    }
    return error;
}

int master_reserve(struct space_master *master, struct master_space *space, uint64_t count,
                   uint64_t deadline_ns)
{
    struct base_account *account = &master->node->memory;
    uint64_t done = 0;
    int error = await_free(master, count, deadline_ns);
    if (error != 0)
        return error;
    const uint32_t slots = master->slots; /* others may come from now on, but are given nothing */
    struct share *shares = base_alloc(account, slots * sizeof(*shares));
    if (shares == NULL)
        return -ENOMEM;
    for (uint32_t slot = 0; slot < slots; slot++)
        shares[slot] =
            (struct share){.master = master, .space = space, .slot = slot, .deadline_ns = deadline_ns};
    divide(master, count, shares);
    space->users++;
    error = reserve_shares(shares, slots, &done);
    if (error != 0)
        (void)master_release(master, space, base_min(done, space->spare_count));
    master_space_put(master, space);
    base_free(account, shares, slots * sizeof(*shares));
    return error;
}

int master_reserve_place(struct space_master *master, struct master_region *region, uint32_t place)
{
    struct master_server *server = next_with_free(master, region, place);
    struct share share = {.master = master,
                          .space = region->space,
                          .slot = server == NULL ? 0 : server->slot,
                          .count = server != NULL};
    reserve_share(&share);
    if (share.error != 0)
        return share.error;
    return master_bind_one(master, region, place, server) ? 0 : -ENOSPC;
}

/* ---- releasing, binding ------------------------------------------------------------------------- */

/* Choose a server that has spare chunks of a namespace: the next in turn; for one of several copies that with the most, so that
 * there are enough servers for the last ones. @param only  the one to choose; NULL: any @param region, place  as next_with_free() */
static struct master_server *next_with_spare(const struct space_master *master, struct master_space *space,
                                             const struct master_server *only,
                                             const struct master_region *region, uint32_t place)
{
    const bool is_copy = region != NULL && region->copies > 1;
    struct master_server *most = NULL;
    for (uint32_t i = 0; i < master->slots && (most == NULL || is_copy); i++) {
        struct master_server *server = master->servers[space->turn % master->slots];
        space->turn = (space->turn + 1) % master->slots;
        const uint32_t spare = server == NULL ? 0 : space->spare[server->slot].count;
        if (spare > (most == NULL ? 0 : space->spare[most->slot].count) && (only == NULL || server == only) &&
            !has_copy(region, place, server))
            most = server;
    }
    return most;
}

static uint32_t pop_spare(struct master_space *space, const struct master_server *server)
{
    space->spare_count--;
    return pop_chunk(server, &space->spare[server->slot]);
}

int master_release(struct space_master *master, struct master_space *space, uint64_t count)
{
    if (count > space->spare_count)
        return -ENOSPC;
    for (uint64_t i = 0; i < count; i++) {
        struct master_server *server = next_with_spare(master, space, NULL, NULL, 0);
        base_assert(server != NULL);
        have_leave(server, pop_spare(space, server));
    }
    master_poke_servers(master);
    return 0;
}

void master_take_spare(struct space_master *master, struct master_server *server)
{
    for (uint32_t i = 0; i < master->spaces.count; i++) {
        struct master_space *space = master->spaces.items[i];
        const uint32_t count = space->spare[server->slot].count;
        for (uint32_t k = 0; k < count; k++)
            have_leave(server, pop_spare(space, server));
        master_owe(master, space, count);
    }
    master_poke_servers(master);
}

bool master_bind_one(const struct space_master *master, struct master_region *region, uint32_t place,
                     const struct master_server *only)
{
    struct master_server *server = next_with_spare(master, region->space, only, region, place);
    if (server == NULL)
        return false;
    const uint32_t chunk = pop_spare(region->space, server);
    server->chunks[chunk].region_number = region->number;
    server->chunks[chunk].region_space = region->space->number;
    server->chunks[chunk].versions = 1;
    region->places[place] = (uint64_t)chunk << 32 | server->number;
    return true;
}

int master_bind(struct space_master *master, struct master_region *region, const struct master_server *only)
{
    for (uint32_t i = 0; i < region->place_count; i++) {
        if (!master_bind_one(master, region, i, only))
            return -ENOSPC;
    }
    return 0;
}
