/* Sessions of clients: what they hold, when they expire, and what is given back then. */
#include "space/master.h"
#include <errno.h>
#include <string.h>

#define SESSIONS_MAX 65536
#define LOOKS        16 /* of the reaper, in a lease */

struct master_session *master_session_of(const struct space_master *master, const uint8_t *id)
{
    for (uint32_t i = 0; i < master->sessions.count; i++) {
        struct master_session *session = master->sessions.items[i];
        if (session->expiry == 0 && !session->has_ended && memcmp(session->id, id, SPACE_SESSION_BYTES) == 0)
            return session;
    }
    return NULL;
}

bool master_session_is_known(const struct space_master *master, const uint8_t *id)
{
    for (uint32_t i = 0; i < master->sessions.count; i++) {
        const struct master_session *session = master->sessions.items[i];
        if (memcmp(session->id, id, SPACE_SESSION_BYTES) == 0)
            return true;
    }
    return false;
}

struct master_session *master_session_make(struct space_master *master, const uint8_t *id, bool is_resuming)
{
    struct base_account *account = &master->node->memory;
    const uint64_t number = space_session_number(id);
    struct master_session *session =
        number == 0 || master->sessions.count >= SESSIONS_MAX ? NULL : base_alloc(account, sizeof(*session));
    if (session == NULL)
        return NULL;
    if (master_list_add(account, &master->sessions, session) != 0) {
        base_free(account, session, sizeof(*session));
        return NULL;
    }
    memcpy(session->id, id, SPACE_SESSION_BYTES);
    session->number = number;
    session->heard_ns = task_now();
    session->is_resuming = is_resuming;
    return session;
}

int master_hold(struct space_master *master, struct master_session *session, struct master_region *region)
{
    int error = master_list_add(&master->node->memory, &session->regions, region);
    if (error == 0)
        region->holds++;
    return error;
}

int master_unhold(struct space_master *master, struct master_session *session, struct master_region *region)
{
    if (!master_list_remove(&session->regions, region))
        return -ENOENT;
    master_detach_draft(region); /* its writer alone could publish it */
    if (--region->holds == 0 && (region->is_freed || region->is_draft))
        task_semaphore_post(&master->reap);
    return 0;
}

void master_session_try_free(struct space_master *master, struct master_session *session)
{
    if (session->has_ended && session->users == 0)
        base_free(&master->node->memory, session, sizeof(*session));
}

void master_session_end(struct space_master *master, struct master_session *session)
{
    struct base_account *account = &master->node->memory;
    (void)master_list_remove(&master->sessions, session);
    while (session->regions.count > 0)
        (void)master_unhold(master, session, session->regions.items[session->regions.count - 1]);
    while (session->spaces.count > 0)
        master_space_put(master, session->spaces.items[--session->spaces.count]);
    master_list_free(account, &session->regions);
    master_list_free(account, &session->spaces);
    session->has_ended = true;
    master_session_try_free(master, session);
}

/* ---- expiring ----------------------------------------------------------------------------------- */

static void end_grace(struct space_master *master)
{
    if (master->grace_end_ns == 0 || task_now() < master->grace_end_ns)
        return;
    master->grace_end_ns = 0;
    master->old_expiry = ++master->expiries;
    master_poke_servers(master);
}

static void expire_sessions(struct space_master *master)
{
    const uint64_t now = task_now(), late_ns = master_lease_ns(master);
    bool is_any = false;
    for (uint32_t i = 0; i < master->sessions.count; i++) {
        struct master_session *session = master->sessions.items[i];
        if (session->expiry != 0 || now - session->heard_ns <= late_ns)
            continue;
        session->expiry = ++master->expiries;
        master->ended_ns = base_max(master->ended_ns, session->heard_ns);
        atomic_fetch_add(&master->counts[MASTER_EXPIRED], 1);
        is_any = true;
    }
    if (is_any)
        master_poke_servers(master);
}

/* Whether no server serves a session that has expired any more. */
static bool is_fenced(const struct space_master *master, const struct master_session *session)
{
    for (uint32_t i = 0; i < session->spaces.count; i++) {
        if (!master_have_fenced(master, session->expiry, session->spaces.items[i]))
            return false;
    }
    return true;
}

/* End the sessions that have expired, and that no server serves any more. */
static void end_fenced(struct space_master *master)
{
    for (uint32_t i = master->sessions.count; i-- > 0;) {
        struct master_session *session = master->sessions.items[i];
        if (session->expiry != 0 && is_fenced(master, session))
            master_session_end(master, session);
    }
}

/* Whether a region of a namespace has a chunk of a server. */
static bool has_chunk(const struct master_server *server, const struct master_space *space)
{
    for (uint32_t i = 0; i < server->chunk_count; i++) {
        if (server->chunks[i].region_number != 0 && server->chunks[i].region_space == space->number)
            return true;
    }
    return false;
}

bool master_session_is_over(const struct space_master *master, uint64_t number,
                            const struct master_space *space)
{
    if (master->grace_end_ns != 0)
        return false; /* it may be resumed */
    for (uint32_t i = 0; i < master->sessions.count; i++) {
        if (((const struct master_session *)master->sessions.items[i])->number == number)
            return false;
    }
    for (uint32_t slot = 0; slot < master->slots; slot++) {
        const struct master_server *server = master->servers[slot];
        /* one that has come is live when it has fenced all sessions that had ended by then; later ones end when all have fenced them */
        if (server != NULL && (server->is_live ? master_is_unfenced(server, space->number)
                                               : server->connection != NULL || has_chunk(server, space)))
            return false;
    }
    return true;
}

int master_cut(struct space_master *master)
{
    const uint64_t term = master->cut_term, ns = master->cut_ns;
    struct master_set set;
    if (term == master->term && ns >= master->ended_ns)
        return 0;
    master->cut_term = master->term;
    master->cut_ns = master->ended_ns;
    master->bound_server = 0; /* so that the configuration is stored */
    master_set_init(&set);
    master_save_config(master, &set);
    int error = master_store_seen(master, &set);
    if (error != 0) { /* the term is over, or nobody has seen anything */
        master->cut_term = term;
        master->cut_ns = ns;
        master->bound_server = 0;
    }
    return error;
}

void master_reap_task(void *arg)
{
    struct space_master *master = arg;
    int error;
    do {
        end_grace(master);
        expire_sessions(master);
        end_fenced(master);
        master_reclaim(master);
        master_tally(master);
        error = task_semaphore_wait(&master->reap, task_now() + master->lease_ns / LOOKS);
    } while (error != -ECANCELED);
    master_leave(master, &master->tasks);
}
