/* The chunks of a memory server: made once, assigned to namespaces and taken from them, and zeroed in between. */
#include "space/server.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define ZERO_BYTES (UINT64_C(64) << 10) /* zeroed before other tasks have their turn */
#define TELL_NS    BASE_NS_PER_SECOND   /* between two lines about progress */

int server_make_chunks(struct space_server *server)
{
    const uint64_t bytes = server->chunk_count * server->chunk_bytes;
    const struct tarn_fabric_domain_options options = {.writable_bytes = bytes,
                                                       .regions_max = server->chunk_count};
    uint64_t told_ns = task_now();
    int error = tarn_fabric_domain_open(server->fabric, &options, &server->domain);
    if (error != 0)
        return error;
    server->chunks = base_alloc(&server->node->memory, server->chunk_count * sizeof(*server->chunks));
    if (server->chunks == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < server->chunk_count && error == 0; i++) {
        error = tarn_fabric_region_alloc(server->domain, server->chunk_bytes,
                                         TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP,
                                         &server->chunks[i].memory);
        if (task_now() - told_ns >= TELL_NS) {
            told_ns = task_now();
            base_info(&server->node->log, "making memory for a space",
                      "server=%s chunks=%" PRIu32 " of=%" PRIu32 " chunk_bytes=%" PRIu64, server->name, i + 1,
                      server->chunk_count, server->chunk_bytes);
        }
    }
    if (error != 0)
        base_error(&server->node->log, "cannot make memory for a space",
                   "server=%s bytes=%" PRIu64 " reason=\"%s\" remedy=\"contribute less\"", server->name,
                   bytes, strerror(-error));
    return error;
}

static void forget_handles(struct space_server *server, struct server_chunk *chunk)
{
    if (chunk->bulk != NULL)
        tarn_fabric_region_free(chunk->bulk);
    if (chunk->words != NULL)
        tarn_fabric_region_free(chunk->words);
    chunk->bulk = chunk->words = NULL;
    server_space_put(chunk->space);
    chunk->space = NULL;
    atomic_fetch_sub(&server->assigned_count, 1);
}

void server_revoke_chunks(struct space_server *server)
{
    for (uint32_t i = 0; i < server->chunk_count && server->chunks != NULL; i++) {
        if (server->chunks[i].space != NULL)
            forget_handles(server, &server->chunks[i]);
    }
}

void server_free_chunks(struct space_server *server)
{
    server_revoke_chunks(server);
    for (uint32_t i = 0; i < server->chunk_count && server->chunks != NULL; i++) {
        if (server->chunks[i].memory != NULL)
            tarn_fabric_region_free(server->chunks[i].memory);
    }
    base_free(&server->node->memory, server->chunks, server->chunk_count * sizeof(*server->chunks));
    if (server->domain != NULL)
        tarn_fabric_domain_close(server->domain);
}

struct space_keys server_keys(const struct server_chunk *chunk)
{
    if (chunk->space == NULL)
        return (struct space_keys){.domain = 0};
    return (struct space_keys){.domain = chunk->bulk->handle.domain,
                               .bulk = chunk->bulk->handle.key,
                               .words = chunk->words->handle.key};
}

/* ---- zeroing ------------------------------------------------------------------------------------ */

/* Zero a chunk that no namespace has, part by part. */
static void zero_chunk(struct space_server *server, struct server_chunk *chunk)
{
    static const uint8_t zeros[ZERO_BYTES];
    for (uint64_t at = 0; at < server->chunk_bytes; at += ZERO_BYTES) {
        tarn_fabric_mem_copy_in(chunk->memory, at, zeros, base_min(server->chunk_bytes - at, ZERO_BYTES));
        task_yield();
    }
}

/* Zero a chunk, unless another task is at it: then wait for that. */
static void clean_chunk(struct space_server *server, struct server_chunk *chunk)
{
    if (chunk->is_being_zeroed) {
        while (chunk->is_dirty)
            task_yield();
        return;
    }
    chunk->is_being_zeroed = true;
    zero_chunk(server, chunk);
    chunk->is_being_zeroed = false;
    chunk->is_dirty = false;
    atomic_fetch_sub(&server->dirty_count, 1);
}

void server_clean_task(void *arg)
{
    struct space_server *server = arg;
    while (task_semaphore_wait(&server->dirty, TASK_FOREVER) == 0) {
        for (uint32_t i = 0; i < server->chunk_count && !task_cancelled(); i++) {
            if (server->chunks[i].is_dirty)
                clean_chunk(server, &server->chunks[i]);
        }
    }
}

/* ---- assigning ---------------------------------------------------------------------------------- */

static int register_class(struct space_server *server, struct server_chunk *chunk,
                          enum tarn_space_class memory_class, struct tarn_fabric_region **ret_region)
{
    return tarn_fabric_region_register(chunk->space->domain, chunk->memory->memory, server->chunk_bytes,
                                       space_rights(memory_class), ret_region);
}

int server_assign(struct space_server *server, uint32_t number, uint32_t space_number)
{
    struct server_chunk *chunk = number < server->chunk_count ? &server->chunks[number] : NULL;
    if (chunk == NULL || space_number == 0)
        return -EINVAL;
    if (chunk->is_dirty)
        clean_chunk(server, chunk);
    if (chunk->space != NULL)
        return chunk->space->number == space_number ? 0 : -EBUSY;
    int error = server_space_get(server, space_number, &chunk->space);
    if (error != 0)
        return error;
    atomic_fetch_add(&server->assigned_count, 1);
    error = register_class(server, chunk, TARN_SPACE_BULK, &chunk->bulk);
    if (error == 0)
        error = register_class(server, chunk, TARN_SPACE_WORDS, &chunk->words);
    if (error != 0)
        forget_handles(server, chunk);
    return error;
}

/* Make the version words of a namespace, of which no chunk has one. */
static int make_words(struct server_space *space)
{
    struct tarn_fabric_region *words;
    int error = tarn_fabric_region_alloc(space->domain, space->server->chunk_count * sizeof(uint64_t),
                                         TARN_FABRIC_MAY_READ, &words);
    if (error != 0)
        return error;
    if (space->words == NULL)
        space->words = words;
    else /* another order was faster */
        tarn_fabric_region_free(words);
    return 0;
}

int server_mark(struct server_space *space, uint32_t number, uint32_t version)
{
    const struct space_server *server = space->server;
    if (number >= server->chunk_count || server->chunks[number].space != space)
        return -EINVAL;
    int error = space->words == NULL ? make_words(space) : 0;
    if (error == 0)
        tarn_fabric_mem_store64(space->words, (uint64_t)number * sizeof(uint64_t),
                                space_version_word(version));
    return error;
}

void server_forget_marks(struct space_server *server)
{
    base_list_for_each(at, &server->spaces) {
        struct server_space *space = base_container_of(at, struct server_space, link);
        for (uint32_t i = 0; i < server->chunk_count && space->words != NULL; i++)
            tarn_fabric_mem_store64(space->words, (uint64_t)i * sizeof(uint64_t), space_version_word(0));
    }
    tarn_fabric_mem_fence();
}

int server_unassign(struct space_server *server, uint32_t number)
{
    struct server_chunk *chunk = number < server->chunk_count ? &server->chunks[number] : NULL;
    if (chunk == NULL)
        return -EINVAL;
    if (chunk->space == NULL)
        return 0;
    forget_handles(server, chunk);
    chunk->is_dirty = true;
    atomic_fetch_add(&server->dirty_count, 1);
    task_semaphore_post(&server->dirty);
    return 0;
}
