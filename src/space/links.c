/* A client's connections with memory servers, and where the chunks of regions are. */
#include "fabric/fabric.h"
#include "space/client.h"
#include <errno.h>
#include <string.h>

#define PAUSE_NS       (10 * BASE_NS_PER_MS) /* before a server is tried again */
#define PATIENCE_SHARE 4 /* one of several copies is connected with within that part of a lease */
#define SERVER_BYTES   (SPACE_IDENTITY_BYTES + 8 + TARN_SPACE_NAME_MAX + SPACE_ADDRESS_MAX)

/* ---- places ------------------------------------------------------------------------------------- */

/* The link of a server. @return NULL: no memory */
static struct client_link *link_of(struct tarn_space_namespace *of, uint32_t server)
{
    base_list_for_each(at, &of->links) {
        struct client_link *link = base_container_of(at, struct client_link, link);
        if (link->server == server)
            return link;
    }
    struct client_link *link = base_alloc(&of->space->node->memory, sizeof(*link));
    if (link == NULL)
        return NULL;
    link->of = of;
    link->server = server;
    base_list_push_back(&of->links, &link->link);
    return link;
}

/* Note places that the master has told, but for those that are known: operations may be using their handles. @return 0; -ENOMEM;
 * -EPROTO */
static int note_places(struct tarn_space_region *region, uint32_t first, struct space_cursor *cursor,
                       uint32_t count)
{
    for (uint32_t i = 0; i < count * region->copies; i++) {
        struct client_target *target = &region->targets[first * region->copies + i];
        struct space_place place;
        space_take_place(cursor, &place);
        struct space_words words = {.key = 0};
        if (region->is_versioned)
            space_take_words(cursor, &words);
        if (target->handle.key != 0)
            continue;
        target->words = words;
        target->chunk = place.chunk;
        target->link = place.server == 0 ? NULL : link_of(region->of, place.server);
        if (target->link == NULL && place.server != 0)
            return -ENOMEM;
        target->handle = (struct tarn_fabric_handle){.domain = place.domain,
                                                     .key = place.key,
                                                     .bytes = region->of->space->chunk_bytes,
                                                     .rights = space_rights(region->memory_class)};
    }
    return cursor->is_wrong ? -EPROTO : 0;
}

int client_locate(struct tarn_space_region *region, uint64_t deadline_ns)
{
    struct base_account *account = &region->of->space->node->memory;
    uint8_t request[SPACE_REQUEST_MAX], *result = base_alloc(account, SPACE_RESULT_MAX);
    int error = result == NULL ? -ENOMEM : 0;
    for (uint32_t done = 0; done < region->chunk_count && error == 0;) {
        struct space_cursor end = client_begin_of(request, region->of, region->number);
        uint32_t bytes = 0;
        space_put(&end, region->first_chunk + done, 4);
        space_put(&end, 0, 4);
        error = client_ask(region->of->space, SPACE_PLACES, request, &end, result, SPACE_RESULT_MAX,
                           deadline_ns, &bytes);
        const uint32_t row_bytes = space_place_bytes(region->is_versioned) * region->copies;
        const uint32_t count =
            base_min((bytes - base_min(bytes, 8U)) / row_bytes, region->chunk_count - done);
        struct space_cursor cursor = space_cursor_from(result, bytes);
        const uint64_t view = space_take(&cursor, 8);
        region->view = region->view == 0 ? view : region->view;
        if (error == 0)
            error = count == 0 ? -EPROTO : note_places(region, done, &cursor, count);
        done += count;
    }
    base_free(account, result, SPACE_RESULT_MAX);
    return error == -ENOENT ? -ESTALE : error;
}

/* ---- connections -------------------------------------------------------------------------------- */

/* End a link's connection, and wait until nobody uses it. */
static void leave_link(struct client_link *link, int error)
{
    struct tarn_space *space = link->of->space;
    struct tarn_fabric_connection *connection = link->connection;
    if (connection == NULL)
        return;
    link->connection = NULL;
    link->was_away = true;
    if (link->users > 0) /* else it ends in good order */
        fabric_connection_end(connection, "given up", error);
    client_take_ended(space, link, NULL);
    while (link->users > 0) {
        task_yield(); /* those that wait for it have its error now */
        client_take_ended(space, link, NULL);
    }
    tarn_fabric_disconnect(connection);
}

void client_leave_servers(struct tarn_space *space)
{
    base_list_for_each(of, &space->namespaces) {
        struct base_list *links = &base_container_of(of, struct tarn_space_namespace, link)->links;
        base_list_for_each(at, links)
            leave_link(base_container_of(at, struct client_link, link), -ESTALE);
    }
}

void client_free_links(struct tarn_space_namespace *of)
{
    while (!base_list_empty(&of->links)) {
        struct client_link *link = base_container_of(base_list_first(&of->links), struct client_link, link);
        leave_link(link, -ECONNABORTED);
        base_list_remove(&link->link);
        base_free(&of->space->node->memory, link, sizeof(*link));
    }
}

/* Ask the master for a memory server's identity and address. */
static int ask_address(const struct client_link *link, uint8_t *ret_identity, char *ret_address,
                       uint64_t deadline_ns)
{
    uint8_t request[SPACE_REQUEST_MAX], result[SERVER_BYTES];
    struct space_cursor end = client_begin(request);
    uint32_t bytes;
    space_put(&end, link->server, 4);
    space_put(&end, 0, 4);
    int error =
        client_ask(link->of->space, SPACE_SERVER, request, &end, result, sizeof(result), deadline_ns, &bytes);
    if (error != 0)
        return error;
    struct space_cursor cursor = space_cursor_from(result, bytes);
    const void *identity = space_take_bytes(&cursor, SPACE_IDENTITY_BYTES);
    space_take_zeros(&cursor, 4);
    const size_t name_bytes = space_take(&cursor, 2), address_bytes = space_take(&cursor, 2);
    (void)space_take_bytes(&cursor, name_bytes);
    if (!space_take_text(&cursor, address_bytes, ret_address, SPACE_ADDRESS_MAX) ||
        !space_cursor_is_done(&cursor))
        return -EPROTO;
    memcpy(ret_identity, identity, SPACE_IDENTITY_BYTES);
    return 0;
}

/* Forget the handles of a server that may have been restarted: it has others then. */
static void forget_handles(struct client_link *link)
{
    link->was_away = false;
    base_list_for_each(at, &link->of->regions) {
        struct tarn_space_region *region = base_container_of(at, struct tarn_space_region, link);
        for (uint32_t i = 0; i < region->target_count; i++) {
            if (region->targets[i].link == link)
                region->targets[i].handle.key = region->targets[i].words.key = 0;
        }
    }
}

/* Connect a link in one attempt. */
static int connect_link(struct client_link *link, uint64_t deadline_ns)
{
    struct tarn_space *space = link->of->space;
    char address[SPACE_ADDRESS_MAX + 1];
    uint8_t data[SPACE_HELLO_BYTES];
    struct space_hello hello = {.space_namespace = link->of->number};
    const struct tarn_fabric_connect_options options = {
        .data = data, .data_bytes = sizeof(data), .messages_are_rare = true};
    int error = ask_address(link, hello.identity, address, deadline_ns);
    if (error != 0)
        return error;
    link->session = tarn_space_session(space);
    if (link->session == 0)
        return -EHOSTUNREACH;
    memcpy(hello.session, space->session, SPACE_SESSION_BYTES);
    space_hello_save(&hello, data);
    error = tarn_fabric_connect(space->domain, address, &options, deadline_ns, &link->connection);
    if (error == 0 && tarn_space_session(space) != link->session) {
        leave_link(link, -ESTALE); /* only the session that made it may use it */
        return -EHOSTUNREACH;
    }
    if (error == 0 && link->was_away)
        forget_handles(link);
    return error == -ESTALE ? -EHOSTUNREACH : error; /* a new master does not know the session yet */
}

/* Whether a server may be reached later, if an attempt has ended so. */
static bool may_come(int error)
{
    return error != -ENODATA && error != -ENOMEM && error != -ECANCELED && error != -ESTALE &&
           error != -EPROTO && error != -EACCES && error != -EPERM && error != -EINVAL;
}

/* Connect a link, or wait for the task that does, in one attempt. */
static int try_link(struct client_link *link, uint64_t deadline_ns)
{
    if (client_is_up(link))
        return 0;
    if (link->is_connecting)
        return -EALREADY;
    link->is_connecting = true;
    leave_link(link, -ECONNABORTED);
    int error = connect_link(link, deadline_ns);
    link->was_away = error != 0;
    link->is_connecting = false;
    return error;
}

/* Make one attempt to have the handle of a copy, and a connection with its server. */
static int try_target(struct tarn_space_region *region, const struct client_target *target,
                      uint64_t deadline_ns)
{
    if (target->is_lost)
        return -EHOSTUNREACH;
    if (region->copies > 1) /* a server that does not answer shall not keep others from being tried */
        deadline_ns = base_min(deadline_ns, task_now() + region->of->space->lease_ns / PATIENCE_SHARE);
    int error = target->link == NULL ? client_locate(region, deadline_ns) : 0;
    if (error == 0 && target->link == NULL)
        return -ENODATA; /* there is no such copy */
    if (error == 0)      /* which also learns whether the server is lost for good */
        error = try_link(target->link, deadline_ns);
    if (error == 0 && target->handle.key == 0)
        error = client_locate(region, deadline_ns);
    return error == 0 && !client_is_reached(target) ? -EHOSTUNREACH : error;
}

/* Make one attempt to reach a copy of a chunk. @return of the copies that were not reached one that may be, if there is any */
static int try_copies(struct tarn_space_region *region, uint32_t chunk, uint64_t deadline_ns)
{
    int first = 0;
    for (uint32_t copy = 0; copy < region->copies; copy++) {
        const struct client_target *target = client_target_of(region, chunk, copy);
        const int error = try_target(region, target, deadline_ns);
        if (error == 0)
            return 0;
        first = first == 0 || first == -ENODATA ? error : first;
    }
    return first;
}

struct client_target *client_copy(const struct tarn_space_region *region, uint32_t chunk)
{
    for (uint32_t copy = 0; copy < region->copies; copy++) {
        struct client_target *target = client_target_of(region, chunk, (chunk + copy) % region->copies);
        if (!target->is_lost && client_is_reached(target))
            return target;
    }
    return NULL;
}

/* Whether a chunk has a copy at another server than one. */
static bool has_other(const struct tarn_space_region *region, uint32_t chunk, const struct client_link *link)
{
    for (uint32_t copy = 0; copy < region->copies; copy++) {
        const struct client_target *target = client_target_of(region, chunk, copy);
        if (target->link != NULL && target->link != link && !target->is_lost)
            return true;
    }
    return false;
}

bool client_lose_copies(struct tarn_space_region *region, const struct client_link *link)
{
    for (uint32_t i = 0; i < region->target_count; i++) {
        if (region->targets[i].link == link && !has_other(region, i / region->copies, link))
            return false;
    }
    for (uint32_t i = 0; i < region->target_count; i++)
        region->targets[i].is_lost = region->targets[i].is_lost || region->targets[i].link == link;
    return true;
}

int client_reach_copies(struct tarn_space_region *region, uint32_t chunk, uint64_t deadline_ns)
{
    for (uint32_t copy = 0; copy < region->copies; copy++) {
        struct client_target *target = client_target_of(region, chunk, copy);
        if (target->is_lost || client_is_reached(target) || try_target(region, target, deadline_ns) == 0)
            continue;
        if (target->link != NULL && !client_lose_copies(region, target->link))
            return -EHOSTUNREACH;
        target->is_lost = true;
    }
    return 0;
}

int client_reach(struct tarn_space_region *region, uint32_t chunk, uint64_t deadline_ns)
{
    struct tarn_space *space = region->of->space;
    for (;;) {
        int error = client_await_lease(space, deadline_ns);
        if (error == 0)
            error = region->error;
        if (error != 0)
            return error;
        error = try_copies(region, chunk, deadline_ns);
        if (error == 0 || !may_come(error))
            return error;
        if (task_now() >= deadline_ns)
            return -EHOSTUNREACH;
        if (task_sleep_until(base_min(deadline_ns, task_now() + PAUSE_NS)) != 0)
            return -ECANCELED;
    }
}

int client_reach_all(struct tarn_space_region *region, uint64_t deadline_ns)
{
    int error = 0;
    for (uint32_t i = 0; i < region->chunk_count && error == 0; i++) {
        if (client_copy(region, i) == NULL)
            error = client_reach(region, i, deadline_ns);
    }
    return error;
}
