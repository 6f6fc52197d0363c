/* What clients ask of the master: README, "Messages". The methods of memory servers are servers.c's. */
#include "space/asking.h"
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define WAIT_NS (60 * BASE_NS_PER_SECOND) /* twice the longest that a method waits for memory servers */

/* ---- what requests name ------------------------------------------------------------------------- */

struct master_space *asking_space(struct asking *asking)
{
    struct master_space *space = master_space_of(asking->master, (uint32_t)space_take(&asking->from, 4));
    return space != NULL && master_list_has(&asking->session->spaces, space) ? space : NULL;
}

/* Take a name of a length that was taken before. @param ret_name  "": a length of 0 */
static bool take_name(struct asking *asking, size_t bytes, char *ret_name)
{
    ret_name[0] = '\0';
    return bytes == 0 || space_take_name(&asking->from, bytes, ret_name);
}

/* Take the numbers of a namespace and of one of its regions. @param ret_region  NULL: there is none */
static bool take_region(struct asking *asking, struct master_region **ret_region)
{
    struct master_space *space = asking_space(asking);
    const uint32_t number = (uint32_t)space_take(&asking->from, 4);
    struct master_region *region = space == NULL ? NULL : master_region_of(space, number);
    *ret_region = region != NULL && region->is_stored && !region->is_going ? region : NULL;
    return !asking->from.is_wrong;
}

/* Take the same of a region that the session holds, which may be a draft. */
static bool take_held(struct asking *asking, struct master_region **ret_region)
{
    struct master_space *space = asking_space(asking);
    const uint32_t number = (uint32_t)space_take(&asking->from, 4);
    struct master_region *region = space == NULL ? NULL : master_region_of(space, number);
    *ret_region = region != NULL && master_list_has(&asking->session->regions, region) ? region : NULL;
    return !asking->from.is_wrong;
}

void asking_put_region(struct asking *asking, const struct master_region *region)
{
    const struct space_region_row row = {.number = region->number,
                                         .memory_class = (uint8_t)region->memory_class,
                                         .is_freed = region->is_freed,
                                         .is_versioned = region->is_versioned,
                                         .copies = (uint8_t)region->copies,
                                         .address = region->address,
                                         .bytes = region->bytes,
                                         .chunks = region->chunk_count};
    space_put_region(&asking->to, &row);
}

/* ---- sessions ----------------------------------------------------------------------------------- */

static int ask_hello(struct asking *asking)
{
    struct space_master *master = asking->master;
    const uint32_t flags = (uint32_t)space_take(&asking->from, 4);
    const uint64_t told_epoch = space_take(&asking->from, 8), told_heard_ns = space_take(&asking->from, 8);
    struct master_session *session = asking->session;
    const bool is_new = session == NULL;
    if (!asking_is_taken(asking) || flags > SPACE_RESUMES)
        return -EINVAL;
    if (is_new && master_session_is_known(master, asking->id))
        return -EEXIST; /* it has expired, and its connections are being ended */
    if (is_new && flags == SPACE_RESUMES && master_session_is_cut(master, told_epoch, told_heard_ns))
        return -EEXIST; /* it is over, and others may have been told so */
    if (is_new)
        session = master_session_make(master, asking->id, flags == SPACE_RESUMES);
    if (session == NULL)
        return -ENOMEM;
    space_put(&asking->to, atomic_load(&master->epoch), 8);
    space_put(&asking->to, master->chunk_bytes, 8);
    space_put(&asking->to, master->lease_ns / BASE_NS_PER_MS, 4);
    space_put(&asking->to, is_new, 4);
    space_put(&asking->to, master->view, 8);
    space_put(&asking->to, session->heard_ns, 8);
    return 0;
}

/* The session holds all that it has said it does, and nothing else: it is fenced no more. */
static int ask_resumed(struct asking *asking)
{
    if (!asking_is_taken(asking))
        return -EINVAL;
    asking->session->is_resuming = false;
    return 0;
}

static int ask_renew(struct asking *asking)
{
    const uint64_t view = space_take(&asking->from, 8);
    if (!asking_is_taken(asking))
        return -EINVAL;
    if (asking->session == NULL)
        return -ENOENT;
    asking->session->view = view;
    space_put(&asking->to, atomic_load(&asking->master->epoch), 8);
    space_put(&asking->to, asking->master->view, 8);
    space_put(&asking->to, asking->session->heard_ns, 8);
    return 0;
}

static int ask_bye(struct asking *asking)
{
    if (!asking_is_taken(asking))
        return -EINVAL;
    master_session_end(asking->master, asking->session);
    return 0;
}

/* ---- namespaces --------------------------------------------------------------------------------- */

/* @return whether the hash could be computed */
static bool hash_secret(const uint8_t *salt, const void *secret, size_t bytes, uint8_t *ret_hash)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    const bool is_done = context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1 &&
                         EVP_DigestUpdate(context, salt, MASTER_SALT_BYTES) == 1 &&
                         EVP_DigestUpdate(context, secret, bytes) == 1 &&
                         EVP_DigestFinal_ex(context, ret_hash, NULL) == 1;
    EVP_MD_CTX_free(context);
    return is_done;
}

/* Take name and secret. @param ret_secret  borrowed of the request */
static bool take_credentials(struct asking *asking, char *ret_name, const void **ret_secret,
                             size_t *ret_bytes)
{
    const size_t secret_bytes = space_take(&asking->from, 2), name_bytes = space_take(&asking->from, 2);
    space_take_zeros(&asking->from, 4);
    *ret_secret = space_take_bytes(&asking->from, secret_bytes);
    *ret_bytes = secret_bytes;
    return secret_bytes <= TARN_SPACE_SECRET_MAX && name_bytes > 0 &&
           take_name(asking, name_bytes, ret_name) && asking_is_taken(asking);
}

/* Have the session of a request join a namespace, and answer its number. */
static int join_space(struct asking *asking, struct master_space *space)
{
    struct master_session *session = asking->session;
    if (session->has_ended || session->expiry != 0)
        return -ENOENT;
    if (!master_list_has(&session->spaces, space)) {
        if (master_list_add(&asking->master->node->memory, &session->spaces, space) != 0)
            return -ENOMEM;
        space->users++;
    }
    space_put(&asking->to, space->number, 4);
    return 0;
}

static int ask_create(struct asking *asking)
{
    struct space_master *master = asking->master;
    char name[TARN_SPACE_NAME_MAX + 1];
    const void *secret;
    size_t secret_bytes;
    struct master_set set;
    if (!take_credentials(asking, name, &secret, &secret_bytes))
        return -EINVAL;
    if (master_space_named(master, name) != NULL)
        return -EEXIST;
    struct master_space *space = master_space_make(master, master->next_space, name);
    if (space == NULL)
        return -ENOMEM;
    master->next_space++;
    master_set_init(&set);
    int error = task_random_bytes(master->node, space->salt, sizeof(space->salt));
    if (error == 0 && !hash_secret(space->salt, secret, secret_bytes, space->hash))
        error = -ENOMEM;
    if (error == 0) {
        master_save_config(master, &set);
        master_save_space(master, &set, space);
        error = master_store(master, &set);
    }
    if (error == 0) {
        space->is_stored = true;
        return join_space(asking, space);
    }
    space->is_deleted = true;
    master_space_try_free(master, space);
    return error;
}

static int ask_join(struct asking *asking)
{
    char name[TARN_SPACE_NAME_MAX + 1];
    const void *secret;
    size_t secret_bytes;
    uint8_t hash[MASTER_HASH_BYTES];
    if (!take_credentials(asking, name, &secret, &secret_bytes))
        return -EINVAL;
    struct master_space *space = master_space_named(asking->master, name);
    if (space == NULL || !space->is_stored)
        return -ENOENT;
    if (!hash_secret(space->salt, secret, secret_bytes, hash))
        return -ENOMEM;
    if (CRYPTO_memcmp(hash, space->hash, sizeof(hash)) != 0) {
        atomic_fetch_add(&asking->master->counts[MASTER_SECRETS], 1);
        return -EACCES;
    }
    return join_space(asking, space);
}

static int ask_delete(struct asking *asking)
{
    struct space_master *master = asking->master;
    struct master_space *space = asking_space(asking);
    struct master_set set;
    space_take_zeros(&asking->from, 4);
    if (!asking_is_taken(asking))
        return -EINVAL;
    if (space == NULL || space->is_deleted)
        return -ENOENT;
    space->is_deleted = true; /* from now on nobody joins it, nor allocates */
    space->users++;
    master_set_init(&set);
    master_forget_space(master, &set, space);
    int error = master_store_seen(master, &set);
    if (error == 0) {
        for (uint32_t i = 0; i < space->regions.count; i++)
            ((struct master_region *)space->regions.items[i])->is_freed = true;
        (void)master_release(master, space, space->spare_count);
        task_semaphore_post(&master->reap);
    } else {
        space->is_deleted = false;
    }
    master_space_put(master, space);
    return error;
}

/* The number of chunks that hold some bytes. */
static uint64_t chunks_of(const struct space_master *master, uint64_t bytes)
{
    return bytes / master->chunk_bytes + (bytes % master->chunk_bytes != 0 ? 1 : 0);
}

static int ask_reserve(struct asking *asking)
{
    struct space_master *master = asking->master;
    struct master_space *space = asking_space(asking);
    space_take_zeros(&asking->from, 4);
    const uint64_t bytes = space_take(&asking->from, 8);
    if (!asking_is_taken(asking))
        return -EINVAL;
    if (space == NULL || space->is_deleted)
        return -ENOENT;
    space->users++;
    int error = master_await_grace(master, asking->deadline_ns);
    if (error == 0)
        error = master_reserve(master, space, chunks_of(master, bytes), asking->deadline_ns);
    if (error == 0 && space->is_deleted)
        (void)master_release(master, space, space->spare_count);
    master_space_put(master, space);
    return error;
}

static int ask_release(struct asking *asking)
{
    struct master_space *space = asking_space(asking);
    space_take_zeros(&asking->from, 4);
    const uint64_t bytes = space_take(&asking->from, 8);
    if (!asking_is_taken(asking))
        return -EINVAL;
    if (space == NULL || space->is_deleted)
        return -ENOENT;
    if (bytes == UINT64_MAX)
        space->owed = base_min(space->owed, 0);
    return master_release(asking->master, space,
                          bytes == UINT64_MAX ? space->spare_count : chunks_of(asking->master, bytes));
}

static int ask_ended(struct asking *asking)
{
    struct master_space *space = asking_space(asking);
    space_take_zeros(&asking->from, 4);
    const uint64_t number = space_take(&asking->from, 8);
    if (!asking_is_taken(asking))
        return -EINVAL;
    if (space == NULL)
        return -ENOENT;
    space->users++;
    int error = master_session_is_over(asking->master, number, space) ? master_cut(asking->master) : -EBUSY;
    if (error == 0 && !master_session_is_over(asking->master, number, space))
        error = -EBUSY; /* it was resumed before others could be told */
    master_space_put(asking->master, space);
    return error;
}

/* ---- regions ------------------------------------------------------------------------------------ */

/* What a client wants to allocate. */
struct wish {
    struct master_space *space;
    uint8_t memory_class, placement, is_versioned, copies;
    uint64_t bytes;
    char name[TARN_SPACE_NAME_MAX + 1];
    char node[TARN_SPACE_NAME_MAX + 1];
};

/* @return whether it is one */
static bool take_wish(struct asking *asking, struct wish *ret_wish)
{
    ret_wish->space = asking_space(asking);
    ret_wish->memory_class = (uint8_t)space_take(&asking->from, 1);
    ret_wish->placement = (uint8_t)space_take(&asking->from, 1);
    ret_wish->is_versioned = (uint8_t)space_take(&asking->from, 1);
    ret_wish->copies = (uint8_t)space_take(&asking->from, 1);
    ret_wish->bytes = space_take(&asking->from, 8);
    const size_t name = space_take(&asking->from, 2), node = space_take(&asking->from, 2);
    space_take_zeros(&asking->from, 4);
    return take_name(asking, name, ret_wish->name) && take_name(asking, node, ret_wish->node) &&
           asking_is_taken(asking) && ret_wish->memory_class <= TARN_SPACE_WORDS &&
           ret_wish->placement <= TARN_SPACE_ON_NODE && ret_wish->bytes > 0 &&
           ret_wish->bytes <= TARN_SPACE_BYTES_MAX && ret_wish->is_versioned <= 1 && ret_wish->copies >= 1 &&
           ret_wish->copies <= TARN_SPACE_COPIES_MAX &&
           (ret_wish->copies == 1 || ret_wish->is_versioned == 1) &&
           (ret_wish->is_versioned == 0 ||
            (ret_wish->memory_class == TARN_SPACE_BULK &&
             chunks_of(asking->master, ret_wish->bytes) <= MASTER_VERSIONED_MAX / ret_wish->copies)) &&
           (ret_wish->placement == TARN_SPACE_ON_NODE) == (node > 0) && (node == 0 || ret_wish->copies == 1);
}

/* The server that a wish names. @param ret_server  NULL: it names none @return 0; -ENOENT */
static int node_of_wish(const struct space_master *master, const struct wish *wish,
                        struct master_server **ret_server)
{
    const bool is_named = wish->placement == TARN_SPACE_ON_NODE;
    *ret_server = is_named ? master_server_named(master, wish->node) : NULL;
    return is_named && *ret_server == NULL ? -ENOENT : 0;
}

/* Wait until there are the chunks that a wish takes, if servers that come, or regions that go, make that true. @param ret_node  as
 * above */
static int find_spare(const struct space_master *master, const struct wish *wish, uint64_t deadline_ns,
                      struct master_server **ret_node)
{
    const struct master_space *space = wish->space;
    for (;;) {
        int error = space->is_deleted ? -ENOENT : node_of_wish(master, wish, ret_node);
        if (error == 0 && wish->name[0] != '\0' && master_region_named(space, wish->name) != NULL)
            error = -EEXIST;
        if (error != 0)
            return error;
        const uint64_t spare = *ret_node == NULL ? space->spare_count : space->spare[(*ret_node)->slot].count;
        if (spare >= chunks_of(master, wish->bytes) * wish->copies)
            return 0;
        error = master_await_spare(master, space, deadline_ns);
        if (error != 0)
            return error;
    }
}

/* Give a region addresses. */
static void take_addresses(struct space_master *master, struct master_set *set, struct master_region *region)
{
    struct master_space *space = region->space;
    region->address = space->next_address;
    space->next_address += (uint64_t)region->chunk_count * master->chunk_bytes;
    if (space->next_address > space->bound_address) {
        master_bound_addresses(space);
        master_save_space(master, set, space);
    }
}

/* Make a region, bind chunks to it, and store it. */
static int make_region(struct asking *asking, const struct wish *wish, const struct master_server *node,
                       struct master_region **ret_region)
{
    struct space_master *master = asking->master;
    const uint64_t chunks = chunks_of(master, wish->bytes);
    struct master_set set;
    if (chunks * wish->copies > wish->space->spare_count)
        return -ENOSPC;
    struct master_region *region =
        master_region_make(master, wish->space, master->next_region, (uint32_t)chunks, wish->copies);
    if (region == NULL)
        return -ENOMEM;
    master->next_region++;
    memcpy(region->name, wish->name, sizeof(region->name));
    region->memory_class = (enum tarn_space_class)wish->memory_class;
    region->bytes = wish->bytes;
    region->is_versioned = wish->is_versioned != 0;
    region->holds++; /* nothing takes it while it is stored */
    int error = master_bind(master, region, node);
    if (error == 0 && region->is_versioned)
        error = master_mark_new(master, region, NULL);
    if (error == 0 && wish->space->is_deleted) /* meanwhile: it would be stored again with the region */
        error = -ENOENT;
    if (error == 0) {
        master_set_init(&set);
        take_addresses(master, &set, region);
        master_save_config(master, &set);
        master_save_region(master, &set, region);
        error = master_store(master, &set);
    }
    region->holds--;
    if (error != 0) {
        master_region_take_chunks(master, region);
        master_region_free(master, region);
        return error;
    }
    region->is_stored = true;
    if (wish->space->is_deleted) /* meanwhile */
        region->is_freed = true;
    *ret_region = region;
    return 0;
}

/* Have the session of a request hold a region, and answer it. */
static int hold_region(struct asking *asking, struct master_region *region)
{
    int error = 0;
    region->holds++; /* it stays meanwhile */
    while (error == 0 && region->is_moving)
        error = master_await_moment(asking->deadline_ns);
    if (error == 0 && (asking->session->has_ended || asking->session->expiry != 0))
        error = -ENOENT;
    if (error == 0)
        error = master_hold(asking->master, asking->session, region);
    region->holds--;
    if (error == 0)
        asking_put_region(asking, region);
    return error;
}

/* Free a region, and store that. */
static int free_region(struct space_master *master, struct master_region *region)
{
    struct master_set set;
    region->is_freed = true;
    region->holds++; /* it stays until it is stored */
    master_set_init(&set);
    master_save_region(master, &set, region);
    int error = master_store_seen(master, &set);
    region->is_freed = error == 0 || region->space->is_deleted;
    region->holds--;
    task_semaphore_post(&master->reap);
    return error;
}

static int ask_alloc(struct asking *asking)
{
    struct space_master *master = asking->master;
    struct wish wish;
    struct master_server *node;
    struct master_region *region = NULL;
    if (!take_wish(asking, &wish))
        return -EINVAL;
    if (wish.space == NULL || wish.space->is_deleted)
        return -ENOENT;
    wish.space->users++;
    int error = master_await_grace(master, asking->deadline_ns);
    if (error == 0)
        error = find_spare(master, &wish, asking->deadline_ns, &node);
    if (error == 0)
        error = make_region(asking, &wish, node, &region);
    if (error == 0)
        error = hold_region(asking, region);
    if (error != 0 && region != NULL)
        (void)free_region(master, region); /* nobody knows of it; if that fails, the term ends */
    task_semaphore_post(&master->reap);
    master_space_put(master, wish.space);
    return error;
}

static int ask_init(struct asking *asking)
{
    const struct master_space *space = asking_space(asking);
    space_take_zeros(&asking->from, 4);
    const uint64_t address = space_take(&asking->from, 8), bytes = space_take(&asking->from, 8);
    if (!asking_is_taken(asking))
        return -EINVAL;
    struct master_region *region = space == NULL ? NULL : master_region_at(space, address, bytes);
    return region == NULL ? -ENOENT : hold_region(asking, region);
}

static int ask_find(struct asking *asking)
{
    const struct master_space *space = asking_space(asking);
    const size_t bytes = space_take(&asking->from, 2);
    char name[TARN_SPACE_NAME_MAX + 1];
    space_take_zeros(&asking->from, 2);
    if (bytes == 0 || !take_name(asking, bytes, name) || !asking_is_taken(asking))
        return -EINVAL;
    struct master_region *region = space == NULL ? NULL : master_region_named(space, name);
    return region == NULL || !region->is_stored ? -ENOENT : hold_region(asking, region);
}

/* Hold a region that a client held in an earlier session, perhaps one that was freed since. */
static int ask_hold(struct asking *asking)
{
    struct master_region *region;
    if (!take_region(asking, &region) || !asking_is_taken(asking))
        return -EINVAL;
    return region == NULL ? -ENOENT : hold_region(asking, region);
}

static int ask_places(struct asking *asking)
{
    static const struct space_words unknown = {.key = 0};
    struct master_region *region;
    if (!take_held(asking, &region))
        return -EINVAL;
    const uint32_t first = (uint32_t)space_take(&asking->from, 4);
    space_take_zeros(&asking->from, 4);
    if (!asking_is_taken(asking))
        return -EINVAL;
    if (region == NULL)
        return -ENOENT;
    space_put(&asking->to, asking->master->view, 8);
    const size_t room =
        (size_t)(asking->to.end - asking->to.at) / (space_place_bytes(region->is_versioned) * region->copies);
    const uint32_t end = (uint32_t)base_min(region->chunk_count, first + room);
    for (uint32_t i = base_min(first, end) * region->copies; i < end * region->copies; i++) {
        const bool is_copy = (region->places[i] & MASTER_NO_COPY) == 0;
        struct space_place place = {.server = is_copy ? master_place_server(region->places[i]) : 0,
                                    .chunk = master_place_chunk(region->places[i])};
        const struct master_server *server = master_server_of(asking->master, place.server);
        const bool is_there = server != NULL && server->connection != NULL;
        if (is_there &&
            (server->is_marked || !region->is_versioned)) { /* else its words may have another key */
            const struct space_keys *keys = &server->chunks[place.chunk].keys;
            place.domain = keys->domain;
            place.key = region->memory_class == TARN_SPACE_WORDS ? keys->words : keys->bulk;
        }
        space_put_place(&asking->to, &place);
        const bool is_believed = place.key != 0 && server->distrust == 0 && !server->must_report;
        if (region->is_versioned)
            space_put_words(&asking->to, is_believed ? &region->space->words[server->slot] : &unknown);
    }
    return 0;
}

static int ask_free(struct asking *asking)
{
    struct space_master *master = asking->master;
    struct master_region *region;
    if (!take_region(asking, &region) || !asking_is_taken(asking))
        return -EINVAL;
    if (region != NULL && region->is_versioned)
        region = master_await_newest(master, region);
    if (region == NULL || region->is_freed)
        return -ENOENT;
    return free_region(master, region);
}

static int ask_drop(struct asking *asking)
{
    struct master_region *region;
    if (!take_held(asking, &region) || !asking_is_taken(asking))
        return -EINVAL;
    return region == NULL ? -ENOENT : master_unhold(asking->master, asking->session, region);
}

static int ask_begin(struct asking *asking)
{
    struct space_master *master = asking->master;
    struct master_region *region, *draft;
    if (!take_held(asking, &region))
        return -EINVAL;
    if (region == NULL)
        return -ENOENT;
    region->holds++; /* it stays meanwhile */
    int error = master_await_grace(master, asking->deadline_ns);
    if (error == 0)
        error =
            master_begin_version(master, asking->session, region, &asking->from, asking->deadline_ns, &draft);
    region->holds--;
    if (error == 0) {
        error = hold_region(asking, draft);
        if (error != 0)
            master_detach_draft(draft);
    }
    task_semaphore_post(&master->reap);
    return error;
}

static int ask_publish(struct asking *asking)
{
    struct master_region *draft;
    if (!take_held(asking, &draft))
        return -EINVAL;
    return draft == NULL ? -ENOENT
                         : master_publish_version(asking->master, draft, &asking->from, asking->deadline_ns);
}

static int ask_drain(struct asking *asking)
{
    return master_drain(asking->master, &asking->from);
}

/* ---- the table ---------------------------------------------------------------------------------- */

/* How long a method waits for memory servers: half of the time that its client waits for it, which asks again then. */
static uint64_t half_until(uint64_t deadline_ns)
{
    const uint64_t now = task_now();
    return deadline_ns <= now ? now : now + base_min(deadline_ns - now, WAIT_NS) / 2;
}

/* Run a method for a client: find its session, and answer when everything that it may have seen is stored. */
static int run_for_client(struct space_master *master, struct tarn_rpc_request *request,
                          asking_function *function, bool needs_session)
{
    struct asking asking = {.master = master,
                            .from = space_cursor_from(request->data, request->bytes),
                            .to = space_cursor_to(request->result, request->room),
                            .deadline_ns = half_until(request->deadline_ns)};
    const void *id = space_take_bytes(&asking.from, SPACE_SESSION_BYTES);
    if (id == NULL)
        return -EINVAL;
    memcpy(asking.id, id, SPACE_SESSION_BYTES);
    asking.session = master_session_of(master, asking.id);
    if (asking.session == NULL && needs_session)
        return -ESTALE;
    struct master_session *session = asking.session;
    if (session != NULL) {
        session->heard_ns = task_now();
        session->users++;
    }
    int error = function(&asking);
    if (session != NULL) {
        session->users--;
        master_session_try_free(master, session);
    }
    int settled = master_settle(master);
    if (settled == 0 && !master_leads(master))
        settled = -ESHUTDOWN; /* another one may know better by now */
    request->result_bytes = error == 0 ? (uint32_t)space_cursor_count(&asking.to, request->result) : 0;
    if (error == 0 && asking.to.is_wrong)
        error = -EMSGSIZE;
    return settled != 0 ? settled : error;
}

/* Count a method as running while it does: what it looks at is not freed then. */
static int begin_method(struct space_master *master)
{
    if (!master_leads(master))
        return -EHOSTDOWN;
    master->running++;
    return 0;
}

/* Define the functions of methods, which get no number, so each has one of its own. */
#define FOR_CLIENT(name, function, needs_session)                                                            \
    static int name(void *arg, struct tarn_rpc_request *request)                                             \
    {                                                                                                        \
        struct space_master *master = arg;                                                                   \
        int error = begin_method(master);                                                                    \
        if (error != 0)                                                                                      \
            return error;                                                                                    \
        error = run_for_client(master, request, function, needs_session);                                    \
        master_leave(master, &master->running);                                                              \
        return error;                                                                                        \
    }

#define FOR_SERVER(name, function)                                                                           \
    static int name(void *arg, struct tarn_rpc_request *request)                                             \
    {                                                                                                        \
        struct space_master *master = arg;                                                                   \
        int error = begin_method(master);                                                                    \
        if (error != 0)                                                                                      \
            return error;                                                                                    \
        error = function(master, request);                                                                   \
        master_leave(master, &master->running);                                                              \
        return error;                                                                                        \
    }

FOR_CLIENT(method_hello, ask_hello, false)
FOR_CLIENT(method_renew, ask_renew, false)
FOR_CLIENT(method_bye, ask_bye, true)
FOR_CLIENT(method_create, ask_create, true)
FOR_CLIENT(method_join, ask_join, true)
FOR_CLIENT(method_delete, ask_delete, true)
FOR_CLIENT(method_reserve, ask_reserve, true)
FOR_CLIENT(method_release, ask_release, true)
FOR_CLIENT(method_alloc, ask_alloc, true)
FOR_CLIENT(method_init, ask_init, true)
FOR_CLIENT(method_find, ask_find, true)
FOR_CLIENT(method_hold, ask_hold, true)
FOR_CLIENT(method_places, ask_places, true)
FOR_CLIENT(method_free, ask_free, true)
FOR_CLIENT(method_drop, ask_drop, true)
FOR_CLIENT(method_server, ask_server, true)
FOR_CLIENT(method_list, ask_list, true)
FOR_CLIENT(method_begin, ask_begin, true)
FOR_CLIENT(method_publish, ask_publish, true)
FOR_CLIENT(method_resumed, ask_resumed, true)
FOR_CLIENT(method_drain, ask_drain, true)
FOR_CLIENT(method_ended, ask_ended, true)
FOR_SERVER(method_register, master_register)
FOR_SERVER(method_report, master_report)
FOR_SERVER(method_attend, master_attend)
FOR_SERVER(method_admit, master_admit)

const struct tarn_rpc_method master_methods[SPACE_METHODS] = {
    [SPACE_HELLO] = {.name = "hello", .function = method_hello},
    [SPACE_RENEW] = {.name = "renew", .function = method_renew},
    [SPACE_BYE] = {.name = "bye", .function = method_bye},
    [SPACE_CREATE] = {.name = "create", .function = method_create},
    [SPACE_JOIN] = {.name = "join", .function = method_join},
    [SPACE_DELETE] = {.name = "delete", .function = method_delete},
    [SPACE_RESERVE] = {.name = "reserve", .function = method_reserve},
    [SPACE_RELEASE] = {.name = "release", .function = method_release},
    [SPACE_ALLOC] = {.name = "alloc", .function = method_alloc},
    [SPACE_INIT] = {.name = "init", .function = method_init},
    [SPACE_FIND] = {.name = "find", .function = method_find},
    [SPACE_HOLD] = {.name = "hold", .function = method_hold},
    [SPACE_PLACES] = {.name = "places", .function = method_places},
    [SPACE_FREE] = {.name = "free", .function = method_free},
    [SPACE_DROP] = {.name = "drop", .function = method_drop},
    [SPACE_SERVER] = {.name = "server", .function = method_server},
    [SPACE_LIST] = {.name = "list", .function = method_list},
    [SPACE_BEGIN] = {.name = "begin", .function = method_begin},
    [SPACE_PUBLISH] = {.name = "publish", .function = method_publish},
    [SPACE_RESUMED] = {.name = "resumed", .function = method_resumed},
    [SPACE_DRAIN] = {.name = "drain", .function = method_drain},
    [SPACE_ENDED] = {.name = "ended", .function = method_ended},
    [SPACE_REGISTER] = {.name = "register", .function = method_register},
    [SPACE_REPORT] = {.name = "report", .function = method_report},
    [SPACE_ATTEND] = {.name = "attend", .function = method_attend},
    [SPACE_ADMIT] = {.name = "admit", .function = method_admit},
};
