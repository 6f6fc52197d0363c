/*
 * Mending: what lies on memory servers that are drained, or gone for long, is copied to others. A version of a copy-on-write region
 * gets another one in its place, with the same contents and other chunks; any other region is moved when nobody holds it.
 */
#include "space/master.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define LOOKS     16 /* for something to mend, in a lease */
#define STEP      16 /* chunks that are replaced before writers of a copy-on-write region have their turn */
#define COPY_HEAD (8 + SPACE_SESSION_BYTES + SPACE_IDENTITY_BYTES + 24) /* of COPY, before the address */

/* ---- what is to be mended ----------------------------------------------------------------------- */

static bool is_given_up(const struct master_server *server)
{
    return server->is_draining || (server->connection == NULL && task_now() >= server->given_up_ns);
}

/* Whether any server is given up. @param is_draining  only those that are drained count */
static bool is_any_given_up(const struct space_master *master, bool is_draining)
{
    for (uint32_t slot = 0; slot < master->slots; slot++) {
        const struct master_server *server = master->servers[slot];
        if (server != NULL && (is_draining ? server->is_draining : is_given_up(server)))
            return true;
    }
    return false;
}

/* Whether a place is to be replaced. */
static bool is_bad(const struct space_master *master, uint64_t place)
{
    const struct master_server *server = master_server_of(master, master_place_server(place));
    return server == NULL || (place & MASTER_NO_COPY) != 0 || is_given_up(server);
}

/* A copy of the same chunk as a place that can be read now. @return 0: there is none */
static uint64_t source_of(const struct space_master *master, const struct master_region *region,
                          uint32_t index)
{
    const uint32_t first = index - index % region->copies;
    for (uint32_t i = first; i < first + region->copies; i++) {
        const uint64_t place = region->places[i];
        const struct master_server *server = master_server_of(master, master_place_server(place));
        if (server != NULL && server->is_live && !server->must_report && (place & MASTER_NO_COPY) == 0)
            return place;
    }
    return 0;
}

/* The first place of a region, from one on, that is to be replaced and can be. @return region->place_count: there is none */
static uint32_t next_bad(const struct space_master *master, const struct master_region *region, uint32_t from)
{
    while (from < region->place_count &&
           !(is_bad(master, region->places[from]) && source_of(master, region, from) != 0))
        from++;
    return from;
}

/* Whether a region can be mended now. */
static bool is_mendable(const struct space_master *master, const struct master_region *region)
{
    if (!region->is_stored || region->is_freed || region->is_going || region->is_publishing ||
        !master_is_settled(master, region->space))
        return false;
    return region->is_versioned ? region->draft == NULL || task_now() >= region->draft->lease_end_ns
                                : region->holds == 0;
}

/* ---- copying ------------------------------------------------------------------------------------ */

/* Make a session for one copy: it has joined one namespace, and expires when the copy is made. */
static struct master_session *begin_copy(struct space_master *master, struct master_space *space)
{
    uint8_t id[SPACE_SESSION_BYTES];
    struct master_session *session =
        task_random_bytes(master->node, id, sizeof(id)) == 0 ? master_session_make(master, id, false) : NULL;
    if (session == NULL)
        return NULL;
    session->view = UINT64_MAX; /* it believes nothing */
    if (master_list_add(&master->node->memory, &session->spaces, space) != 0) {
        master_session_end(master, session);
        return NULL;
    }
    space->users++;
    session->users++;
    return session;
}

static void end_copy(struct space_master *master, struct master_session *session)
{
    session->users--;
    if (session->expiry == 0 && !session->has_ended)
        session->expiry = ++master->expiries;
    master_session_try_free(master, session);
    master_poke_servers(master);
}

/* Wait until a server is not attended any more over a connection. Before it comes again it ends what it was doing. */
static void await_absence(const struct space_master *master, uint32_t number,
                          const struct tarn_rpc_connection *connection)
{
    struct master_server *server;
    while (master->failed == 0 && (server = master_server_of(master, number)) != NULL &&
           server->connection == connection) {
        server->must_report = true;
        task_semaphore_post(&server->work);
        (void)task_sleep(BASE_NS_PER_MS);
    }
}

/* Have the server of one place copy what another place holds. After an error it writes there no more, or is not attended. */
static int copy_chunk(struct space_master *master, struct master_space *space, uint64_t from, uint64_t to)
{
    uint8_t request[COPY_HEAD + SPACE_ADDRESS_MAX];
    struct space_cursor cursor = space_cursor_to(request, sizeof(request));
    struct master_server *server = master_server_of(master, master_place_server(to));
    const struct master_server *source = master_server_of(master, master_place_server(from));
    struct master_session *session = server == NULL || source == NULL ? NULL : begin_copy(master, space);
    if (session == NULL)
        return -ENOMEM;
    const struct space_keys *keys = &source->chunks[master_place_chunk(from)].keys;
    space_put(&cursor, space->number, 4);
    space_put(&cursor, master_place_chunk(to), 4);
    space_put_bytes(&cursor, session->id, SPACE_SESSION_BYTES);
    space_put_bytes(&cursor, source->identity, SPACE_IDENTITY_BYTES);
    space_put(&cursor, keys->domain, 8);
    space_put(&cursor, keys->bulk, 8);
    space_put(&cursor, strlen(source->address), 2);
    space_put(&cursor, 0, 6);
    space_put_bytes(&cursor, source->address, strlen(source->address));
    const struct tarn_rpc_connection *connection = server->connection;
    int error = master_order(server, SPACE_COPY, request, (uint32_t)space_cursor_count(&cursor, request),
                             NULL, 0, task_now() + master->lease_ns);
    if (error != 0 && connection != NULL && (error == -ETIMEDOUT || tarn_rpc_error(connection) != 0))
        await_absence(master, master_place_server(to), connection); /* it may still be at it */
    end_copy(master, session);
    return error;
}

/* Have a draft have a new chunk at a place, with what the base has there. */
static int renew_chunk(struct space_master *master, struct master_region *draft,
                       const struct master_region *base, uint32_t index)
{
    master_place_leave(master, draft, index);
    int error = master_reserve_place(master, draft, index);
    const uint64_t source = source_of(master, base, index);
    if (error == 0)
        error = source == 0 ? -EHOSTUNREACH : copy_chunk(master, draft->space, source, draft->places[index]);
    if (error == 0)
        return 0;
    master_place_leave(master, draft, index);
    master_place_share(master, draft, index, base->places[index]);
    return error;
}

/* Replace chunks of a draft that are to be replaced, up to STEP of them. @return how many were */
static uint32_t renew_chunks(struct space_master *master, struct master_region *draft,
                             const struct master_region *base)
{
    uint32_t count = 0;
    for (uint32_t i = next_bad(master, base, 0); i < base->place_count && count < STEP;
         i = next_bad(master, base, i + 1)) {
        if (renew_chunk(master, draft, base, i) != 0)
            break;
        const struct master_server *server = master_server_of(master, master_place_server(base->places[i]));
        draft->space->owed -= server != NULL && server->is_draining; /* it is given back there before long */
        count++;
    }
    return count;
}

/* Have a region that nobody holds take the chunks of a draft, which takes those that it had. */
static int move_region(struct space_master *master, struct master_region *region, struct master_region *draft)
{
    struct master_set set;
    for (uint32_t i = 0; i < region->place_count; i++) {
        const uint64_t place = region->places[i];
        struct master_server *server = master_server_of(master, master_place_server(draft->places[i]));
        region->places[i] = draft->places[i];
        draft->places[i] = place;
        if (server != NULL)
            server->chunks[master_place_chunk(region->places[i])].region_number = region->number;
    }
    master_set_init(&set);
    master_save_region(master, &set, region);
    return master_store_seen(master, &set);
}

/* Replace some chunks of a region. @return 0; an error, after which it is as it was */
static int mend_region(struct space_master *master, struct master_region *region)
{
    struct master_region *draft = master_draft_make(master, region);
    struct master_set set;
    if (draft == NULL)
        return -ENOMEM;
    draft->is_mending = true;
    draft->lease_end_ns = task_now() + master->lease_ns * STEP;
    draft->holds++;
    region->holds++;
    region->is_moving = !region->is_versioned;
    const uint32_t count = renew_chunks(master, draft, region);
    int error = count == 0 ? -ENOSPC : 0;
    if (error == 0 && region->is_versioned)
        error = master_mark_new(master, draft, region);
    master_set_init(&set);
    master_save_config(master, &set); /* its number is never given again */
    const int stored = master_store(master, &set);
    error = error == 0 ? stored : error;
    if (error == 0 && region->is_versioned)
        error = master_publish(master, draft, task_now() + 2 * master_lease_ns(master));
    else if (error == 0)
        error = region->is_freed ? -ENOENT : move_region(master, region, draft);
    region->is_moving = draft->is_mending = false;
    region->holds--;
    draft->holds--;
    master_detach_draft(draft);
    task_semaphore_post(&master->reap);
    if (error == 0)
        base_info(&master->node->log, "chunks of a space were copied",
                  "namespace=%s region=%" PRIu32 " count=%" PRIu32, region->space->name, region->number,
                  count);
    return error;
}

/* ---- looking for it ----------------------------------------------------------------------------- */

/* Whether a region lacks copies, or has chunks on servers that are drained, also where that cannot be mended now. */
static bool is_lacking(const struct space_master *master, const struct master_region *region,
                       bool is_draining)
{
    if (region->is_freed || !region->is_stored || (region->copies == 1 && !is_draining))
        return false;
    for (uint32_t i = 0; i < region->place_count; i++) {
        if (is_bad(master, region->places[i]))
            return true;
    }
    return false;
}

/* Mend the regions of a namespace that can be mended. @return whether one was, so that another look is due */
static bool mend_space(struct space_master *master, struct master_space *space)
{
    const bool is_draining = is_any_given_up(master, true);
    for (uint32_t i = space->regions.count; i-- > 0 && master->failed == 0;
         i = base_min(i, space->regions.count)) {
        struct master_region *region = space->regions.items[i];
        if (!is_lacking(master, region, is_draining))
            continue;
        master->must_mend = true;
        if (is_mendable(master, region) && next_bad(master, region, 0) < region->place_count &&
            mend_region(master, region) == 0)
            return true;
    }
    return false;
}

void master_owe(struct space_master *master, struct master_space *space, uint32_t count)
{
    space->owed += count;
    master->must_mend = true;
    task_semaphore_post(&master->mend);
}

/* Reserve what servers that are drained have taken from namespaces. */
static void pay_owed(struct space_master *master, struct master_space *space)
{
    const int64_t owed = space->owed;
    if (owed > 0 && !space->is_deleted && master_count_free(master, false) >= (uint64_t)owed &&
        master_reserve(master, space, (uint64_t)owed, task_now() + master->lease_ns) == 0)
        space->owed -= owed;
    master->must_mend = master->must_mend || (space->owed > 0 && !space->is_deleted);
}

/* Whether something of a server's is a region's. */
static bool has_regions(const struct master_server *server)
{
    for (uint32_t i = 0; i < server->chunk_count; i++) {
        if (server->chunks[i].region_number != 0)
            return true;
    }
    return false;
}

/* Forget servers that were drained, and that are gone. */
static void forget_drained(struct space_master *master)
{
    for (uint32_t slot = 0; slot < master->slots && master->failed == 0; slot++) {
        struct master_server *server = master->servers[slot];
        if (server != NULL && server->is_draining && server->connection == NULL &&
            task_now() >= server->given_up_ns && !has_regions(server) && master_forget(master, server) != 0)
            return; /* it is tried again */
    }
}

static void mend_all(struct space_master *master)
{
    master->must_mend = false;
    for (uint32_t i = master->spaces.count; i-- > 0 && master->failed == 0;) {
        struct master_space *space = i < master->spaces.count ? master->spaces.items[i] : NULL;
        if (space == NULL)
            continue;
        space->users++; /* it stays meanwhile */
        pay_owed(master, space);
        while (mend_space(master, space))
            task_yield();
        master_space_put(master, space);
    }
    forget_drained(master);
}

void master_mend_task(void *arg)
{
    struct space_master *master = arg;
    int error;
    do {
        if (master->must_mend || is_any_given_up(master, false))
            mend_all(master);
        error = task_semaphore_wait(&master->mend, task_now() + master->lease_ns / LOOKS);
    } while (error != -ECANCELED);
    master_leave(master, &master->tasks);
}

/* ---- draining ----------------------------------------------------------------------------------- */

/* Whether the other servers have room for what one has. */
static bool is_there_room(struct space_master *master, struct master_server *server)
{
    uint64_t used = 0;
    for (uint32_t i = 0; i < server->chunk_count; i++)
        used += server->chunks[i].space_number != 0 && !server->chunks[i].is_leaving;
    server->is_draining = true;
    const bool is_there = master_count_free(master, true) >= used;
    server->is_draining = false;
    return is_there;
}

/* Begin to drain a server, or end it. */
static int set_draining(struct space_master *master, struct master_server *server, bool is_draining)
{
    struct master_set set;
    if (server->is_draining == is_draining)
        return 0;
    if (is_draining && !is_there_room(master, server))
        return -ENOSPC;
    server->is_draining = is_draining;
    master_set_init(&set);
    master_save_server(master, &set, server);
    int error = master_store_seen(master, &set);
    if (error == 0 && is_draining)
        master_take_spare(master, server);
    task_semaphore_post(&master->mend);
    return error;
}

int master_drain(struct space_master *master, struct space_cursor *from)
{
    const size_t secret_bytes = space_take(from, 2), name_bytes = space_take(from, 2);
    const uint64_t is_draining = space_take(from, 1);
    space_take_zeros(from, 3);
    const void *secret = space_take_bytes(from, secret_bytes);
    char name[TARN_SPACE_NAME_MAX + 1];
    if (!space_take_name(from, name_bytes, name) || !space_cursor_is_done(from) || is_draining > 1)
        return -EINVAL;
    if (!master_knows_secret(master, secret, secret_bytes))
        return -EACCES;
    struct master_server *server = master_server_named(master, name);
    return server == NULL ? -ENOENT : set_draining(master, server, is_draining == 1);
}
