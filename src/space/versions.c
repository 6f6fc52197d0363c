/*
 * Copy-on-write regions, as the master deals with them: drafts of next versions, the version words at memory servers, and
 * publishing. Each version is a region of the tables; the chunks that a draft does not replace are its base's, too.
 */
#include "space/master.h"
#include <errno.h>
#include <string.h>

#define MARKS_MAX      ((SPACE_SERVER_MAX - 8) / SPACE_MARK_BYTES) /* chunks of one order */
#define PATIENCE_SHARE 4 /* memory servers that have gone are waited for during that part of a lease */
#define PAUSE_NS       (2 * BASE_NS_PER_MS) /* between looks at a memory server that is to come */

/* ---- version words ------------------------------------------------------------------------------ */

/* An order to mark chunks that is being gathered. */
struct marking {
    struct master_server *server;
    struct master_space *space;
    uint8_t *request; /* SPACE_SERVER_MAX bytes */
    struct space_cursor cursor;
    uint32_t count;
};

static void begin_marking(struct marking *marking)
{
    marking->cursor = space_cursor_to(marking->request, SPACE_SERVER_MAX);
    marking->count = 0;
    space_put(&marking->cursor, marking->space->number, 4);
    space_put(&marking->cursor, 0, 4);
}

/* Send what was gathered. If it is not known whether the server has obeyed, it is to come anew. */
static int end_marking(struct marking *marking, uint64_t deadline_ns)
{
    struct master_server *server = marking->server;
    uint8_t result[8];
    if (marking->count == 0)
        return 0;
    base_store_le32(marking->request + 4, marking->count);
    const uint32_t bytes = (uint32_t)space_cursor_count(&marking->cursor, marking->request);
    int error =
        master_order(server, SPACE_MARK, marking->request, bytes, result, sizeof(result), deadline_ns);
    if (error == 0)
        marking->space->words_keys[server->slot] = base_load_le64(result);
    if (error != 0 && error != -ENOTCONN && error != -ENOMEM && error != -ENOSPC && error != -EINVAL) {
        server->must_report = true;
        task_semaphore_post(&server->work);
    }
    begin_marking(marking);
    return error;
}

/* Have a server mark its chunks of a region as current, or as tainted. @param but  those that this one has at the same place are
 * left out; NULL: none are */
static int mark_chunks(struct space_master *master, struct master_server *server,
                       const struct master_region *region, const struct master_region *but, bool are_current,
                       uint64_t deadline_ns)
{
    struct base_account *account = &master->node->memory;
    struct marking marking = {.server = server, .space = region->space};
    int error = 0;
    for (uint32_t i = 0; i < region->chunk_count && error == 0; i++) {
        const uint64_t place = region->places[i];
        const uint32_t chunk = (uint32_t)(place >> 32);
        if ((uint32_t)place != server->number || (but != NULL && but->places[i] == place))
            continue;
        if (marking.request == NULL) {
            marking.request = base_alloc(account, SPACE_SERVER_MAX);
            if (marking.request == NULL)
                return -ENOMEM;
            begin_marking(&marking);
        }
        space_put(&marking.cursor, chunk, 4);
        space_put(&marking.cursor, are_current ? server->chunks[chunk].region_number : 0, 4);
        if (++marking.count == MARKS_MAX)
            error = end_marking(&marking, deadline_ns);
    }
    if (error == 0)
        error = end_marking(&marking, deadline_ns);
    base_free(account, marking.request, SPACE_SERVER_MAX);
    return error;
}

int master_mark_new(struct space_master *master, struct master_region *region,
                    const struct master_region *base, uint64_t deadline_ns)
{
    int error = 0;
    for (uint32_t slot = 0; slot < master->slots && error == 0; slot++) {
        if (master->servers[slot] != NULL)
            error = mark_chunks(master, master->servers[slot], region, base, true, deadline_ns);
    }
    return error == 0 || error == -ENOMEM || error == -ENOSPC ? error : -EHOSTUNREACH;
}

/* Whether the chunks of a version are to be marked as current at a server that has come. While one is being published, those of
 * its draft are: the others may be tainted already. */
static bool is_to_be_marked(const struct master_region *region)
{
    return region->is_versioned && !region->is_going &&
           (region->is_draft ? region->base != NULL : !region->is_freed && !region->is_publishing);
}

/* Mark the chunks of a namespace's versions. New ones have none at a server that has only come. */
static int mark_space(struct space_master *master, struct master_server *server,
                      const struct master_space *space, uint64_t deadline_ns)
{
    int error = 0;
    for (uint32_t i = space->regions.count; i-- > 0 && error == 0;) {
        struct master_region *region = i < space->regions.count ? space->regions.items[i] : NULL;
        if (region == NULL || !is_to_be_marked(region))
            continue;
        region->holds++; /* it stays meanwhile */
        error = mark_chunks(master, server, region, NULL, true, deadline_ns);
        region->holds--;
    }
    return error;
}

int master_mark_all(struct space_master *master, struct master_server *server, uint64_t deadline_ns)
{
    int error = 0;
    for (uint32_t i = master->spaces.count; i-- > 0 && error == 0;) {
        if (i >= master->spaces.count)
            continue; /* some have gone meanwhile, so that others come twice */
        struct master_space *space = master->spaces.items[i];
        space->words_keys[server->slot] = 0;
        space->users++;
        error = mark_space(master, server, space, deadline_ns);
        master_space_put(master, space);
    }
    task_semaphore_post(&master->reap);
    return error;
}

/* ---- drafts ------------------------------------------------------------------------------------- */

void master_detach_draft(struct master_region *draft)
{
    if (draft->base != NULL && !draft->base->is_publishing) {
        draft->base->draft = NULL;
        draft->base = NULL;
    }
}

/* The version that has the place of a region. @return NULL: it was freed */
static struct master_region *find_newest(const struct master_region *region)
{
    const struct master_list *regions = &region->space->regions;
    for (uint32_t i = regions->count; i-- > 0;) {
        struct master_region *other = regions->items[i];
        if (other->is_stored && !other->is_freed && other->address == region->address)
            return other;
    }
    return NULL;
}

struct master_region *master_await_newest(const struct space_master *master, struct master_region *region)
{
    struct master_region *newest = region;
    region->holds++; /* it stays meanwhile */
    while (newest != NULL && (newest->is_freed || newest->is_publishing)) {
        if (newest->is_publishing && (master->failed != 0 || task_sleep(PAUSE_NS) != 0))
            newest = NULL;
        else
            newest = find_newest(region);
    }
    region->holds--;
    return newest;
}

/* Whether a draft of a version may be begun now. */
static int check_base(const struct master_region *base)
{
    if (base->is_draft || base->space->is_deleted)
        return -ENOENT;
    if (base->is_freed)
        return find_newest(base) == NULL ? -ENOENT : -EAGAIN;
    return base->is_publishing || (base->draft != NULL && task_now() < base->draft->lease_end_ns) ? -EBUSY
                                                                                                  : 0;
}

/* Wait until a draft may be begun and there are the chunks that it takes. */
static int await_spare(const struct space_master *master, const struct master_region *base, uint32_t count,
                       uint64_t deadline_ns)
{
    for (;;) {
        int error = check_base(base);
        if (error != 0 || base->space->spare_count >= count)
            return error;
        error = master_await_spare(master, base->space, deadline_ns);
        if (error != 0)
            return error;
    }
}

/* Make a draft whose chunks from `first` on are new; each lies where the one that it replaces does, if there is a spare one. */
static struct master_region *make_draft(struct space_master *master, struct master_region *base,
                                        uint32_t first, uint32_t count)
{
    struct master_region *draft =
        master_region_make(master, base->space, master->next_region, base->chunk_count);
    if (draft == NULL)
        return NULL;
    master->next_region++;
    draft->memory_class = base->memory_class;
    draft->is_versioned = draft->is_draft = true;
    draft->address = base->address;
    draft->bytes = base->bytes;
    for (uint32_t i = 0; i < base->chunk_count; i++) {
        struct master_server *server = master_server_of(master, (uint32_t)base->places[i]);
        const bool is_new = i >= first && i - first < count;
        draft->places[i] = base->places[i];
        if (!is_new && server != NULL)
            server->chunks[base->places[i] >> 32].versions++;
        if (!is_new || (server != NULL && master_bind_one(master, draft, i, server)))
            continue;
        const bool is_bound = master_bind_one(master, draft, i, NULL);
        base_assert(is_bound);
    }
    if (base->draft != NULL)
        master_detach_draft(base->draft);
    base->draft = draft;
    draft->base = base;
    return draft;
}

int master_begin_version(struct space_master *master, const struct master_session *session,
                         struct master_region *base, struct space_cursor *from, uint64_t deadline_ns,
                         struct master_region **ret_draft)
{
    const uint32_t first = (uint32_t)space_take(from, 4), count = (uint32_t)space_take(from, 4);
    struct master_set set;
    if (!space_cursor_is_done(from) || !base->is_versioned || count == 0 || first >= base->chunk_count ||
        count > base->chunk_count - first)
        return -EINVAL;
    int error = await_spare(master, base, count, deadline_ns);
    if (error != 0)
        return error;
    struct master_region *draft = make_draft(master, base, first, count);
    if (draft == NULL)
        return -ENOMEM;
    draft->lease_end_ns = session->heard_ns + master->lease_ns; /* before its session expires */
    draft->holds++;                                             /* it stays meanwhile */
    error = master_mark_new(master, draft, base, deadline_ns);
    master_set_init(&set);
    master_save_config(master, &set); /* the number is told, and never given again */
    const int stored = master_store(master, &set);
    draft->holds--;
    if (error == 0)
        error = stored;
    if (error == 0)
        *ret_draft = draft;
    else
        master_detach_draft(draft);
    task_semaphore_post(&master->reap);
    return error;
}

/* ---- publishing --------------------------------------------------------------------------------- */

/* Whether a server has chunks that a draft replaces. */
static bool has_replaced(const struct master_region *draft, const struct master_server *server)
{
    for (uint32_t i = 0; i < draft->chunk_count; i++) {
        const uint64_t place = draft->base->places[i];
        if (place != draft->places[i] && (uint32_t)place == server->number)
            return true;
    }
    return false;
}

/* Have a server taint the chunks that a draft replaces, when it is there. */
static int taint_at(struct space_master *master, uint32_t slot, const struct master_region *draft,
                    uint64_t deadline_ns)
{
    for (;;) {
        struct master_server *server = master->servers[slot];
        if (server == NULL || !has_replaced(draft, server))
            return 0;
        if (server->connection != NULL && server->is_marked && !server->must_report) {
            int error = mark_chunks(master, server, draft->base, draft, false, deadline_ns);
            if (error == 0 || error == -ENOMEM)
                return error;
        }
        if (task_now() >= deadline_ns || master->failed != 0)
            return -EHOSTUNREACH;
        int error = task_sleep(PAUSE_NS);
        if (error != 0)
            return error;
    }
}

/* Whether memory servers have gone for good with chunks that a draft replaces: others may still read there. */
static bool is_any_lost(const struct space_master *master, const struct master_region *draft)
{
    for (uint32_t i = 0; i < draft->chunk_count; i++) {
        const uint64_t place = draft->base->places[i];
        if (place != draft->places[i] && master_server_of(master, (uint32_t)place) == NULL)
            return true;
    }
    return false;
}

static int taint_replaced(struct space_master *master, const struct master_region *draft,
                          uint64_t deadline_ns)
{
    int error = 0;
    for (uint32_t slot = 0; slot < master->slots && error == 0; slot++)
        error = taint_at(master, slot, draft, deadline_ns);
    return error == 0 && is_any_lost(master, draft) ? -ENODATA : error;
}

/* Mark the chunks of a version that stays the current one. A server that cannot be told now marks all when it comes. */
static void untaint(struct space_master *master, const struct master_region *draft)
{
    for (uint32_t slot = 0; slot < master->slots && master->failed == 0; slot++) {
        struct master_server *server = master->servers[slot];
        if (server == NULL || server->connection == NULL || !has_replaced(draft, server))
            continue;
        if (!server->is_marked ||
            mark_chunks(master, server, draft->base, draft, true, task_now() + master->lease_ns) != 0) {
            server->must_report = true;
            task_semaphore_post(&server->work);
        }
    }
}

/* Store the draft as the named region, and its base as one that is freed, in one change. */
static int store_version(struct space_master *master, struct master_region *draft)
{
    struct master_region *base = draft->base;
    struct master_set set;
    master_set_init(&set);
    base->is_freed = true; /* for what is stored; it is found until then */
    master_save_region(master, &set, base);
    base->is_freed = false;
    memcpy(draft->name, base->name, sizeof(draft->name));
    master_save_region(master, &set, draft);
    int error = master_store(master, &set);
    if (error != 0) {
        draft->name[0] = '\0';
        return error;
    }
    draft->is_draft = false;
    draft->is_stored = true;
    draft->is_freed = draft->space->is_deleted; /* meanwhile */
    base->is_freed = true;
    return 0;
}

int master_publish(struct space_master *master, struct master_region *draft, uint64_t deadline_ns)
{
    struct master_region *base = draft->base;
    if (!draft->is_versioned)
        return -EINVAL;
    if (!draft->is_draft)
        return 0; /* it was published, and is asked about again */
    if (base == NULL || base->is_publishing || task_now() >= draft->lease_end_ns)
        return -ETIME;
    base->is_publishing = true;
    base->holds++; /* both stay meanwhile */
    draft->holds++;
    const uint64_t patience_ns = task_now() + master->lease_ns / PATIENCE_SHARE;
    int error = taint_replaced(master, draft, base_min(deadline_ns, patience_ns));
    if (error == 0 && (base->is_freed || base->space->is_deleted))
        error = -ENOENT;
    if (error == 0)
        error = store_version(master, draft);
    if (error != 0)
        untaint(master, draft);
    base->is_publishing = false;
    base->holds--;
    draft->holds--;
    if (error == 0 || draft->holds == 0) /* its writer's session has ended meanwhile */
        master_detach_draft(draft);
    task_semaphore_post(&master->reap);
    return error;
}
