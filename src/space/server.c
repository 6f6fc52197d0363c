/* A memory server: opening and closing, and the namespaces that have something here. */
#include "space/server.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

int server_space_get(struct space_server *server, uint32_t number, struct server_space **ret_space)
{
    struct base_account *account = &server->node->memory;
    base_list_for_each(at, &server->spaces) {
        struct server_space *space = base_container_of(at, struct server_space, link);
        if (space->number == number) {
            space->users++;
            *ret_space = space;
            return 0;
        }
    }
    const struct tarn_fabric_domain_options options = {
        .readable_bytes = base_align_up(server->chunk_count * sizeof(uint64_t), BASE_PAGE_BYTES),
        .regions_max = base_min(server->chunk_count * 2 + 1, (uint32_t)TARN_FABRIC_REGIONS_MAX)};
    struct server_space *space = base_alloc(account, sizeof(*space));
    if (space == NULL)
        return -ENOMEM;
    int error = tarn_fabric_domain_open(server->fabric, &options, &space->domain);
    if (error != 0) {
        base_free(account, space, sizeof(*space));
        return error;
    }
    space->number = number;
    space->users = 1;
    space->server = server;
    base_list_push_back(&server->spaces, &space->link);
    *ret_space = space;
    return 0;
}

void server_space_put(struct server_space *space)
{
    if (--space->users > 0)
        return;
    base_list_remove(&space->link);
    if (space->words != NULL)
        tarn_fabric_region_free(space->words);
    tarn_fabric_domain_close(space->domain);
    base_free(&space->server->node->memory, space, sizeof(*space));
}

/* ---- opening ------------------------------------------------------------------------------------ */

static bool copy_text(char *to, size_t room, const char *text)
{
    const int len = text == NULL ? 0 : snprintf(to, room, "%s", text);
    return len > 0 && (size_t)len < room;
}

static int fill_in(struct space_server *server, const struct space_server_options *options)
{
    const uint64_t chunk_bytes = options->chunk_bytes == 0 ? TARN_SPACE_CHUNK_BYTES : options->chunk_bytes;
    const uint64_t chunks = options->memory_bytes / chunk_bytes;
    if (!copy_text(server->name, sizeof(server->name), options->name) ||
        !base_name_is_good(server->name, strlen(server->name)) ||
        !copy_text(server->address, sizeof(server->address), options->address) ||
        !copy_text(server->masters, sizeof(server->masters), options->masters) ||
        (options->memory_file != NULL &&
         !copy_text(server->memory_file, sizeof(server->memory_file), options->memory_file)) ||
        space_address_count(server->masters) == 0 || !base_is_aligned(chunk_bytes, BASE_PAGE_BYTES) ||
        chunks == 0 || chunks > TARN_FABRIC_REGIONS_MAX || options->secret_bytes > TARN_SPACE_SECRET_MAX)
        return -EINVAL;
    server->next_file = -1;
    server->fabric = options->fabric;
    server->sched = options->sched;
    server->lease_ns = TARN_SPACE_LEASE_NS; /* until a master tells it */
    server->chunk_bytes = chunk_bytes;
    server->chunk_count = (uint32_t)chunks;
    server->secret_bytes = options->secret_bytes;
    if (options->secret_bytes > 0)
        memcpy(server->secret, options->secret, options->secret_bytes);
    base_list_init(&server->spaces);
    base_list_init(&server->clients);
    task_semaphore_init(&server->dirty, 0);
    task_group_init(&server->group);
    return task_random_bytes(server->node, server->identity, sizeof(server->identity));
}

static int start_tasks(struct space_server *server)
{
    int error = task_spawn(server->sched, &server->group, "space-clean", server_clean_task, server);
    if (error == 0)
        error = task_spawn(server->sched, &server->group, "space-accept", server_accept_task, server);
    if (error == 0)
        error = task_spawn(server->sched, &server->group, "space-join", server_join_task, server);
    if (error == 0)
        error = task_spawn(server->sched, &server->group, "space-watch", server_watch_task, server);
    return error;
}

int space_server_open(struct tarn_node *node, const struct space_server_options *options,
                      struct space_server **ret_server)
{
    struct space_server *server = base_alloc(&node->memory, sizeof(*server));
    if (server == NULL)
        return -ENOMEM;
    server->node = node;
    int error = fill_in(server, options);
    if (error != 0) {
        base_free(&node->memory, server, sizeof(*server));
        return error;
    }
    error = server_make_chunks(server);
    if (error == 0)
        error = server_load(server);
    if (error == 0)
        error = tarn_fabric_listen(server->fabric, server->address, &server->listener);
    if (error == 0)
        error = server_remove_file(server);
    if (error == 0)
        error = start_tasks(server);
    if (error == 0)
        *ret_server = server;
    else
        space_server_close(server);
    return error;
}

void space_server_close(struct space_server *server)
{
    atomic_store(&server->closing, true);
    task_group_cancel(&server->group);
    task_group_join_firmly(&server->group);
    if (server->listener != NULL)
        tarn_fabric_listener_close(server->listener);
    server_close_file(server);
    server_free_chunks(server);
    base_assert(base_list_empty(&server->clients) && base_list_empty(&server->spaces));
    base_free(&server->node->memory, server, sizeof(*server));
}

void space_server_stats(const struct space_server *server, struct space_server_stats *ret_stats)
{
    *ret_stats = (struct space_server_stats){.chunks = server->chunk_count,
                                             .assigned = atomic_load(&server->assigned_count),
                                             .dirty = atomic_load(&server->dirty_count),
                                             .connections = atomic_load(&server->client_count),
                                             .refused = atomic_load(&server->refused),
                                             .is_attended = atomic_load(&server->is_attended)};
}
