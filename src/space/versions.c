/*
 * Copy-on-write regions, as the master deals with them: drafts of next versions, the version words at memory servers, and
 * publishing. Each version is a region of the tables; the chunks that a draft does not replace are its base's, too.
 */
#include "space/master.h"
#include <errno.h>
#include <string.h>

#define MARKS_MAX      ((SPACE_SERVER_MAX - 8) / SPACE_MARK_BYTES) /* chunks of one order */
#define PATIENCE_SHARE 8 /* memory servers that have gone are waited for during that part of a lease */
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
    uint8_t result[SPACE_WORDS_BYTES];
    if (marking->count == 0)
        return 0;
    base_store_le32(marking->request + 4, marking->count);
    const uint32_t bytes = (uint32_t)space_cursor_count(&marking->cursor, marking->request);
    int error =
        master_order(server, SPACE_MARK, marking->request, bytes, result, sizeof(result), deadline_ns);
    if (error == 0)
        marking->space->words[server->slot] =
            (struct space_words){.domain = base_load_le64(result), .key = base_load_le64(result + 8)};
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
    for (uint32_t i = 0; i < region->place_count && error == 0; i++) {
        const uint64_t place = region->places[i];
        const uint32_t chunk = master_place_chunk(place);
        if (master_place_server(place) != server->number || (but != NULL && but->places[i] == place))
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
                    const struct master_region *base)
{
    int error = 0;
    for (uint32_t slot = 0; slot < master->slots && error == 0; slot++) {
        if (master->servers[slot] != NULL)
            error =
                mark_chunks(master, master->servers[slot], region, base, true, task_now() + master->lease_ns);
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
        space->words[server->slot].key = 0;
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

/* How many copies of a chunk can be made now. */
static uint32_t copies_now(const struct space_master *master, const struct master_region *base)
{
    return base_max(base_min(base->copies, master_count_live(master)), 1U);
}

/* Wait until a draft may be begun and there are the chunks that it takes. */
static int await_spare(const struct space_master *master, const struct master_region *base, uint32_t count,
                       uint64_t deadline_ns)
{
    for (;;) {
        const bool is_mending = base->draft != NULL && base->draft->is_mending;
        int error = is_mending ? 0 : check_base(base);
        if (error != 0)
            return error;
        if (is_mending)
            error = master_await_moment(deadline_ns);
        else if (base->space->spare_count >= (uint64_t)count * copies_now(master, base))
            return 0;
        else
            error = master_await_spare(master, base->space, deadline_ns);
        if (error != 0)
            return error;
    }
}

struct master_region *master_draft_make(struct space_master *master, struct master_region *base)
{
    struct master_region *draft =
        master_region_make(master, base->space, master->next_region, base->chunk_count, base->copies);
    if (draft == NULL)
        return NULL;
    master->next_region++;
    draft->memory_class = base->memory_class;
    draft->is_versioned = base->is_versioned;
    draft->is_draft = true;
    draft->address = base->address;
    draft->bytes = base->bytes;
    for (uint32_t i = 0; i < base->place_count; i++)
        master_place_share(master, draft, i, base->places[i]);
    if (base->draft != NULL)
        master_detach_draft(base->draft);
    base->draft = draft;
    draft->base = base;
    return draft;
}

/* Give a draft a new chunk at a place: without copies where the one that it replaces is, if there is a spare one. @return whether there
 * was one */
static bool renew_place(const struct space_master *master, struct master_region *draft, uint32_t place)
{
    const struct master_server *server =
        master_server_of(master, master_place_server(draft->base->places[place]));
    return (draft->copies == 1 && server != NULL && !server->is_draining &&
            master_bind_one(master, draft, place, server)) ||
           master_bind_one(master, draft, place, NULL);
}

/* Give a draft new chunks. Where fewer servers are than a chunk is to have copies, it has fewer until it is mended. */
static int renew_places(struct space_master *master, struct master_region *draft, uint32_t first,
                        uint32_t count)
{
    const uint32_t copies = draft->copies, now = copies_now(master, draft);
    for (uint32_t i = first * copies; i < (first + count) * copies; i++)
        master_place_leave(master, draft, i);
    for (uint32_t i = first * copies; i < (first + count) * copies; i++) {
        const bool is_new = renew_place(master, draft, i);
        if (!is_new && i % copies < now)
            return -ENOSPC;
        master->must_mend = master->must_mend || !is_new;
    }
    return 0;
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
    struct master_region *draft = master_draft_make(master, base);
    if (draft == NULL)
        return -ENOMEM;
    draft->lease_end_ns = session->heard_ns + master->lease_ns; /* before its session expires */
    draft->holds++;                                             /* it stays meanwhile */
    error = renew_places(master, draft, first, count);
    if (error == 0)
        error = master_mark_new(master, draft, base);
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
    for (uint32_t i = 0; i < draft->place_count; i++) {
        const uint64_t place = draft->base->places[i];
        if (place != draft->places[i] && master_place_server(place) == server->number)
            return true;
    }
    return false;
}

/* Believe a server no more: clients are told before anything is published that its version words do not know. */
static void distrust_server(struct space_master *master, struct master_server *server)
{
    if (server->distrust == 0)
        server->distrust = ++master->view;
    if (server->connection != NULL) {
        server->must_report = true;
        task_semaphore_post(&server->work);
    }
}

/* Have a server taint the chunks that a draft replaces. One that does not is not believed any more. */
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
        if (master->failed != 0)
            return -ESHUTDOWN;
        if (server->distrust != 0 || task_now() >= deadline_ns) {
            distrust_server(master, server);
            return 0;
        }
        int error = task_sleep(PAUSE_NS);
        if (error != 0)
            return error;
    }
}

/* The view in which nobody believes the words of chunks that a draft replaces, and that were not tainted. @return 0: all were */
static uint64_t view_of(struct space_master *master, const struct master_region *draft)
{
    uint64_t view = 0;
    for (uint32_t i = 0; i < draft->place_count; i++) {
        const uint32_t number = master_place_server(draft->base->places[i]);
        if (draft->base->places[i] == draft->places[i] || number == 0)
            continue;
        const struct master_server *server = master_server_of(master, number);
        if (server == NULL && master->lost_view == 0)
            master->lost_view = ++master->view;
        view = base_max(view, server == NULL ? master->lost_view : server->distrust);
    }
    return view;
}

/* Whether all clients know a view, or have no lease any more. */
static bool is_known(const struct space_master *master, uint64_t view)
{
    for (uint32_t i = 0; i < master->sessions.count; i++) {
        const struct master_session *session = master->sessions.items[i];
        if (session->expiry == 0 && session->view < view)
            return false;
    }
    return master->grace_end_ns == 0;
}

/* Have clients learn that what a draft replaces is not current any more: by tainted words, or else by another view. */
static int taint_replaced(struct space_master *master, const struct master_region *draft,
                          uint64_t deadline_ns)
{
    const uint64_t patience_ns = task_now() + master->lease_ns / PATIENCE_SHARE;
    int error = 0;
    for (uint32_t slot = 0; slot < master->slots && error == 0; slot++)
        error = taint_at(master, slot, draft, patience_ns);
    const uint64_t view = view_of(master, draft);
    while (error == 0 && view != 0 && !is_known(master, view))
        error = master->failed != 0 ? -ESHUTDOWN : master_await_moment(deadline_ns);
    return error;
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

/* Store a draft in the place of its base, when nobody takes what it replaces for current any more. */
static int replace_base(struct space_master *master, struct master_region *draft, uint64_t deadline_ns)
{
    const struct master_region *base = draft->base;
    int error = taint_replaced(master, draft, deadline_ns);
    if (error == 0 && (base->is_freed || base->space->is_deleted))
        error = -ENOENT;
    if (error == 0)
        error = store_version(master, draft);
    if (error != 0)
        untaint(master, draft);
    return error;
}

int master_publish(struct space_master *master, struct master_region *draft, uint64_t deadline_ns)
{
    struct master_region *base = draft->base;
    if (base == NULL || base->is_publishing || task_now() >= draft->lease_end_ns)
        return -ETIME;
    base->is_publishing = true;
    base->holds++; /* both stay meanwhile */
    draft->holds++;
    int error = replace_base(master, draft, deadline_ns);
    base->is_publishing = false;
    base->holds--;
    draft->holds--;
    if (error == -EINPROGRESS)
        draft->lease_end_ns = task_now() + master->lease_ns; /* its writer is here, and asks again */
    if (error == 0 || draft->holds == 0)                     /* its writer's session has ended meanwhile */
        master_detach_draft(draft);
    task_semaphore_post(&master->reap);
    task_semaphore_post(&master->mend);
    return error;
}

/* Note that new chunks of a draft on some server have not got all that was written. */
static void lose_copies(struct space_master *master, struct master_region *draft, uint32_t server)
{
    for (uint32_t i = 0; i < draft->place_count; i++) {
        if (master_place_server(draft->places[i]) != server || draft->places[i] == draft->base->places[i])
            continue;
        draft->places[i] |= MASTER_NO_COPY;
        master->must_mend = true;
    }
}

/* Whether each new chunk of a draft has a copy that is there. @return 0; -EHOSTUNREACH: not now; -EIO: it has not got what was written */
static int check_copies(const struct space_master *master, const struct master_region *draft)
{
    int error = 0;
    for (uint32_t i = 0; i < draft->place_count && error == 0; i += draft->copies) {
        error = -EIO;
        for (uint32_t k = i; k < i + draft->copies && error != 0; k++) {
            const uint64_t place = draft->places[k];
            const struct master_server *server = master_server_of(master, master_place_server(place));
            if (place == draft->base->places[k] ||
                (server != NULL && server->connection != NULL && (place & MASTER_NO_COPY) == 0))
                error = 0;
            else if (server != NULL && (place & MASTER_NO_COPY) == 0)
                error = -EHOSTUNREACH;
        }
    }
    return error;
}

int master_publish_version(struct space_master *master, struct master_region *draft,
                           struct space_cursor *from, uint64_t deadline_ns)
{
    const uint32_t lost = (uint32_t)space_take(from, 4);
    const uint8_t *servers = space_take_bytes(from, (size_t)lost * 4);
    if (!space_cursor_is_done(from) || !draft->is_versioned)
        return -EINVAL;
    if (!draft->is_draft)
        return 0; /* it was published, and is asked about again */
    if (draft->base == NULL)
        return -ETIME;
    for (uint32_t i = 0; i < lost; i++)
        lose_copies(master, draft, base_load_le32(servers + (size_t)i * 4));
    int error = check_copies(master, draft);
    return error == 0 ? master_publish(master, draft, deadline_ns) : error;
}
