/* A client's regions: taking hold of them, and their local memory. */
#include "space/client.h"
#include <errno.h>
#include <string.h>

#define DROP_NS BASE_NS_PER_SECOND /* the longest that dropping waits for the master */

/* ---- taking hold -------------------------------------------------------------------------------- */

/* Make a region of a master's answer. @param address, bytes  the part that is wanted; 0 bytes: up to its end */
static int make_region(struct tarn_space_namespace *of, const struct space_region_row *row, uint64_t address,
                       uint64_t bytes, struct tarn_space_region **ret_region)
{
    const struct tarn_space *space = of->space;
    const uint64_t before = address - row->address;
    if (address < row->address || before >= row->bytes || bytes > row->bytes - before ||
        row->chunks != (row->bytes + space->chunk_bytes - 1) >> space->chunk_shift)
        return -EPROTO;
    struct base_account *account = &space->node->memory;
    struct tarn_space_region *region = base_alloc(account, sizeof(*region));
    if (region == NULL)
        return -ENOMEM;
    region->of = of;
    region->number = row->number;
    region->memory_class = (enum tarn_space_class)row->memory_class;
    region->address = address;
    region->bytes = bytes == 0 ? row->bytes - before : bytes;
    region->reaches_end = region->bytes == row->bytes - before;
    region->is_versioned = row->is_versioned != 0;
    region->skipped = before & (space->chunk_bytes - 1);
    region->first_chunk = (uint32_t)(before >> space->chunk_shift);
    region->chunk_count =
        (uint32_t)((region->skipped + region->bytes + space->chunk_bytes - 1) >> space->chunk_shift);
    region->copies = row->copies;
    region->target_count = region->chunk_count * region->copies;
    region->targets = base_alloc(account, region->target_count * sizeof(*region->targets));
    if (region->targets == NULL) {
        base_free(account, region, sizeof(*region));
        return -ENOMEM;
    }
    base_list_push_back(&of->regions, &region->link);
    *ret_region = region;
    return 0;
}

/* Have the master hold a region no longer. In one attempt, because in a session that was begun again meanwhile this would take
 * another hold of the same region away. The caller has `control`, and has taken the region off the list. */
static void unhold(struct tarn_space_namespace *of, uint32_t number)
{
    struct tarn_space *space = of->space;
    uint8_t request[SPACE_REQUEST_MAX];
    const struct space_cursor end = client_begin_of(request, of, number);
    if (atomic_load(&space->state) != CLIENT_KNOWN)
        return; /* a master that is told of the session is not told of the region */
    int error = client_ask_once(space, SPACE_DROP, request, &end, NULL, 0, task_now() + DROP_NS);
    if (error != 0 && error != -ENOENT)
        atomic_store(&space->state, CLIENT_UNKNOWN);
}

int client_hold_region(struct tarn_space_namespace *of, enum space_method method, uint8_t *request,
                       const struct space_cursor *end, uint64_t address, uint64_t bytes, uint64_t deadline_ns,
                       struct tarn_space_region **ret_region)
{
    uint8_t result[SPACE_REGION_BYTES];
    struct space_region_row row;
    struct tarn_space_region *region;
    int error = task_mutex_lock(&of->space->control, deadline_ns);
    if (error != 0)
        return error;
    error = client_ask_held(of->space, method, request, end, result, sizeof(result), deadline_ns, NULL);
    if (error == 0) {
        struct space_cursor cursor = space_cursor_from(result, sizeof(result));
        space_take_region(&cursor, &row);
        const bool is_part = method == SPACE_INIT || method == SPACE_BEGIN;
        error = space_cursor_is_done(&cursor)
                    ? make_region(of, &row, is_part ? address : row.address, bytes, &region)
                    : -EPROTO;
        if (error != 0)
            atomic_store(&of->space->state, CLIENT_UNKNOWN); /* the next session does not hold it */
    }
    task_mutex_unlock(&of->space->control);
    if (error != 0)
        return error;
    region->is_draft = method == SPACE_BEGIN;
    error = client_locate(region, deadline_ns);
    if (error == 0)
        *ret_region = region;
    else
        tarn_space_drop(region);
    return error;
}

int tarn_space_alloc(struct tarn_space_namespace *of, uint64_t bytes,
                     const struct tarn_space_alloc_options *options, uint64_t deadline_ns,
                     struct tarn_space_region **ret_region)
{
    static const struct tarn_space_alloc_options defaults = {.memory_class = TARN_SPACE_BULK};
    uint8_t request[SPACE_REQUEST_MAX];
    struct space_cursor end = client_begin(request);
    if (options == NULL)
        options = &defaults;
    const char *name = options->name == NULL ? "" : options->name;
    const char *node = options->placement == TARN_SPACE_ON_NODE ? options->node : "";
    if (bytes == 0 || bytes > TARN_SPACE_BYTES_MAX || node == NULL ||
        (name[0] != '\0' && !base_name_is_good(name, strlen(name))) ||
        (options->placement == TARN_SPACE_ON_NODE && !base_name_is_good(node, strlen(node))) ||
        options->copies > TARN_SPACE_COPIES_MAX)
        return -EINVAL;
    space_put(&end, of->number, 4);
    space_put(&end, (uint64_t)options->memory_class, 1);
    space_put(&end, (uint64_t)options->placement, 1);
    space_put(&end, options->copy_on_write, 1);
    space_put(&end, base_max(options->copies, 1U), 1);
    space_put(&end, bytes, 8);
    space_put(&end, strlen(name), 2);
    space_put(&end, strlen(node), 2);
    space_put(&end, 0, 4);
    space_put_bytes(&end, name, strlen(name));
    space_put_bytes(&end, node, strlen(node));
    return client_hold_region(of, SPACE_ALLOC, request, &end, 0, 0, deadline_ns, ret_region);
}

int tarn_space_init(struct tarn_space_namespace *of, uint64_t address, uint64_t bytes, uint64_t deadline_ns,
                    struct tarn_space_region **ret_region)
{
    uint8_t request[SPACE_REQUEST_MAX];
    struct space_cursor end = client_begin_of(request, of, 0);
    space_put(&end, address, 8);
    space_put(&end, bytes, 8);
    return client_hold_region(of, SPACE_INIT, request, &end, address, bytes, deadline_ns, ret_region);
}

int tarn_space_find(struct tarn_space_namespace *of, const char *name, uint64_t deadline_ns,
                    struct tarn_space_region **ret_region)
{
    uint8_t request[SPACE_REQUEST_MAX];
    struct space_cursor end = client_begin(request);
    if (!base_name_is_good(name, strlen(name)))
        return -EINVAL;
    space_put(&end, of->number, 4);
    space_put(&end, strlen(name), 2);
    space_put(&end, 0, 2);
    space_put_bytes(&end, name, strlen(name));
    return client_hold_region(of, SPACE_FIND, request, &end, 0, 0, deadline_ns, ret_region);
}

int tarn_space_free(struct tarn_space_region *region, uint64_t deadline_ns)
{
    uint8_t request[SPACE_REQUEST_MAX];
    const struct space_cursor end = client_begin_of(request, region->of, region->number);
    int error = client_ask(region->of->space, SPACE_FREE, request, &end, NULL, 0, deadline_ns, NULL);
    return error == -ENOENT && region->is_versioned && region->error != 0 ? region->error : error;
}

void tarn_space_drop(struct tarn_space_region *region)
{
    struct tarn_space_namespace *of = region->of;
    struct base_account *account = &of->space->node->memory;
    base_assert(region->memory == NULL);
    task_mutex_lock_firmly(&of->space->control);
    base_list_remove(&region->link); /* a session that begins from now on does not hold it */
    if (region->error == 0 && region->is_in_doubt)
        client_give_up_session(of->space); /* which holds it until all servers have fenced it */
    else if (region->error == 0)
        unhold(of, region->number);
    task_mutex_unlock(&of->space->control);
    base_free(account, region->targets, region->target_count * sizeof(*region->targets));
    base_free(account, region, sizeof(*region));
}

void tarn_space_info(const struct tarn_space_region *region, struct tarn_space_info *ret_info)
{
    uint32_t servers = 0;
    for (uint32_t i = 0; i < region->target_count; i++) {
        bool is_new = region->targets[i].link != NULL;
        for (uint32_t k = 0; k < i && is_new; k++)
            is_new = region->targets[k].link != region->targets[i].link;
        servers += is_new;
    }
    *ret_info =
        (struct tarn_space_info){.address = region->address,
                                 .bytes = region->bytes,
                                 .chunk_bytes = region->of->space->chunk_bytes,
                                 .number = region->number,
                                 .servers = servers,
                                 .copies = region->copies,
                                 .memory_class = region->memory_class,
                                 .copy_on_write = region->is_versioned,
                                 .whole_words = region->memory_class == TARN_SPACE_WORDS &&
                                                tarn_fabric_info(region->of->space->fabric)->whole_words};
}

/* ---- local memory ------------------------------------------------------------------------------- */

void client_memory_free(struct tarn_space *space, struct client_memory *memory)
{
    if (base_list_is_linked(&memory->link)) {
        base_list_remove(&memory->link);
        space->cached_bytes -= memory->region->bytes;
    }
    tarn_fabric_region_free(memory->region);
    base_free(&space->node->memory, memory, sizeof(*memory));
}

/* Take memory of a size out of the cache. @return NULL: there is none */
static struct client_memory *take_cached(struct tarn_space *space, uint64_t bytes)
{
    base_list_for_each(at, &space->cached) {
        struct client_memory *memory = base_container_of(at, struct client_memory, link);
        if (memory->region->bytes != bytes)
            continue;
        base_list_remove(&memory->link);
        space->cached_bytes -= bytes;
        return memory;
    }
    return NULL;
}

static int get_memory(struct tarn_space *space, uint64_t bytes, struct client_memory **ret_memory)
{
    struct client_memory *memory = take_cached(space, base_align_up(bytes, BASE_PAGE_BYTES));
    if (memory == NULL) {
        memory = base_alloc(&space->node->memory, sizeof(*memory));
        int error =
            memory == NULL ? -ENOMEM : tarn_fabric_region_alloc(space->domain, bytes, 0, &memory->region);
        if (error != 0) {
            base_free(&space->node->memory, memory, sizeof(*memory));
            return error;
        }
    }
    *ret_memory = memory;
    return 0;
}

/* Keep memory for the next region; what has been there for longest goes for it. */
static void put_memory(struct tarn_space *space, struct client_memory *memory)
{
    base_list_push_front(&space->cached, &memory->link);
    space->cached_bytes += memory->region->bytes;
    while (space->cached_bytes > space->cache_bytes)
        client_memory_free(space,
                           base_container_of(base_list_last(&space->cached), struct client_memory, link));
}

int tarn_space_map(struct tarn_space_region *region, uint64_t deadline_ns, void **ret_memory)
{
    struct client_memory *memory;
    if (region->memory != NULL)
        return -EBUSY;
    int error = client_reach_all(region, deadline_ns);
    if (error == 0)
        error = get_memory(region->of->space, region->bytes, &memory);
    if (error != 0)
        return error;
    if (region->memory != NULL) { /* another task was faster */
        put_memory(region->of->space, memory);
        return -EBUSY;
    }
    region->memory = memory;
    *ret_memory = memory->region->memory;
    return 0;
}

void tarn_space_unmap(struct tarn_space_region *region)
{
    struct client_memory *memory = region->memory;
    base_assert(memory != NULL);
    region->memory = NULL;
    put_memory(region->of->space, memory);
}
