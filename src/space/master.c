/* The master: its terms, from winning the lead to losing it, and what it opens and closes. */
#include "space/master.h"
#include "fabric/fabric.h"
#include "rpc/rpc.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define RUNNING_MAX     (SPACE_SERVERS_MAX + 1024) /* methods at once: each memory server has one that lasts */
#define PATIENCE_LEASES 4                          /* how long memory servers may need to join a new master */
#define CALLS_MAX       8
#define PAUSE_NS        BASE_NS_PER_SECOND /* before it tries to lead again */

/* ---- a term ------------------------------------------------------------------------------------- */

/* Forget everything of a term: no method runs, and no task of it. */
static void forget_all(struct space_master *master)
{
    struct base_account *account = &master->node->memory;
    while (master->sessions.count > 0)
        master_session_end(master, master->sessions.items[master->sessions.count - 1]);
    for (uint32_t slot = 0; slot < SPACE_SERVERS_MAX; slot++) {
        if (master->servers[slot] != NULL)
            master_server_free(master, master->servers[slot]);
    }
    for (uint32_t i = master->spaces.count; i-- > 0;) {
        struct master_space *space = master->spaces.items[i];
        space->is_deleted = true;
        space->spare_count = 0;
        while (space->regions.count > 1)
            master_region_free(master, space->regions.items[space->regions.count - 1]);
        if (space->regions.count == 1)
            master_region_free(master, space->regions.items[0]); /* and the namespace with its last */
        else
            master_space_try_free(master, space);
    }
    base_assert(master->spaces.count == 0);
    master_list_free(account, &master->spaces);
    master_list_free(account, &master->sessions);
    master->slots = master->turn = 0;
    master->expiries = master->old_expiry = 0;
    master->ended_ns = 0;
    master->lost_view = 0;
}

void master_leave(struct space_master *master, uint32_t *count)
{
    master_tally(master);
    if (--*count == 0 && master->idle != NULL) {
        struct task_wait *wait = master->idle;
        master->idle = NULL;
        (void)task_wait_wake(wait, 0);
    }
}

/* Wait until a count is 0, also in a task that was cancelled. */
static void await_idle(struct space_master *master, const uint32_t *count)
{
    while (*count > 0) {
        struct task_wait wait;
        task_wait_init(&wait);
        master->idle = &wait;
        (void)task_wait_park_firmly(&wait);
    }
}

/* End the orders that memory servers have not answered, so that nothing waits for them. */
static void end_orders(struct space_master *master)
{
    for (uint32_t slot = 0; slot < master->slots; slot++) {
        const struct master_server *server = master->servers[slot];
        if (server != NULL && server->connection != NULL)
            fabric_connection_end(rpc_fabric_connection(server->connection), "end of the term", -ESHUTDOWN);
    }
    master_poke_servers(master);
}

/* Let what runs come to its end, and forget everything. */
static void end_term(struct space_master *master, struct task_group *tasks)
{
    if (master->failed == 0)
        master->failed = -ESHUTDOWN;
    atomic_store(&master->epoch, 0);
    end_orders(master);
    await_idle(master, &master->running);
    task_group_cancel(tasks);
    await_idle(master, &master->tasks);
    forget_all(master);
}

/* Start a task of the term. */
static int start_task(struct space_master *master, struct task_group *tasks, const char *name,
                      task_function *function)
{
    int error = task_spawn(master->sched, tasks, name, function, master);
    if (error == 0)
        master->tasks++;
    return error;
}

static int begin_term(struct space_master *master, uint64_t epoch, struct task_group *tasks)
{
    bool is_new;
    master_set_init(&master->orphans);
    int error = master_load(master, master->new_chunk_bytes, &is_new);
    if (error != 0)
        return error;
    master->failed = 0;
    master->must_mend = true;
    master->view = space_view_first(epoch);
    master->grace_end_ns = is_new ? 0 : task_now() + master_lease_ns(master);
    master->patience_end_ns = task_now() + PATIENCE_LEASES * master->lease_ns;
    master->term = epoch;
    atomic_store(&master->epoch, epoch);
    error = start_task(master, tasks, "space-store", master_store_task);
    if (error == 0)
        master_save_config(master,
                           &master->orphans); /* numbers that may have been given are not given again */
    if (error == 0)
        error = master_store(master, &master->orphans);
    if (error == 0)
        error = start_task(master, tasks, "space-reap", master_reap_task);
    if (error == 0)
        error = start_task(master, tasks, "space-mend", master_mend_task);
    if (error == 0)
        base_info(&master->node->log, "a space's master leads",
                  "epoch=%" PRIu64 " namespaces=%" PRIu32 " regions=%" PRIu64 " chunk_bytes=%" PRIu64, epoch,
                  master->spaces.count, master_count_regions(master), master->chunk_bytes);
    return error;
}

bool master_leads(const struct space_master *master)
{
    return atomic_load(&master->epoch) != 0 && master->failed == 0 &&
           task_now() < cluster_held_until(master->cluster);
}

/* Wait until the term is over, or the master closes. A master that cannot reach the cluster's store ends its term by itself. */
static void await_end(struct space_master *master)
{
    int error;
    do
        error = task_semaphore_wait(&master->over, cluster_held_until(master->cluster));
    while (error == -ETIMEDOUT && task_now() < cluster_held_until(master->cluster));
    if (error == -ETIMEDOUT)
        base_warn(&master->node->log, "a space's master has not reached its metadata for too long to lead",
                  "epoch=%" PRIu64, master->term);
}

static void serve_term(struct space_master *master, uint64_t epoch)
{
    struct task_group tasks;
    task_group_init(&tasks);
    task_semaphore_init(&master->over, 0);
    master->failed = 0;
    int error = begin_term(master, epoch, &tasks);
    if (error == 0)
        await_end(master);
    else if (!atomic_load(&master->closing))
        base_error(&master->node->log, "a space's master cannot read its metadata", "reason=\"%s\"",
                   strerror(-error));
    end_term(master, &tasks);
}

static int join_cluster(struct space_master *master)
{
    const struct cluster_options options = {.name = master->name,
                                            .data = master->address,
                                            .data_bytes = (uint32_t)strlen(master->address),
                                            .session_ns = master->session_ns};
    return cluster_join(master->node, master->url, &options, &master->cluster);
}

static void leave_cluster(struct space_master *master)
{
    if (master->cluster != NULL)
        cluster_leave(master->cluster);
    master->cluster = NULL;
}

/* Lead, or wait to, as a member of the cluster. @return 0: a term is over; an error of the cluster's */
static int lead_once(struct space_master *master)
{
    uint64_t epoch;
    int error = master->cluster == NULL ? join_cluster(master) : 0;
    if (error == 0)
        error = cluster_lead(master->cluster, TASK_FOREVER, &epoch);
    if (error == 0)
        serve_term(master, epoch);
    return error;
}

static void lead_task(void *arg)
{
    struct space_master *master = arg;
    while (!atomic_load(&master->closing)) {
        int error = lead_once(master);
        if (error == -ESTALE)
            leave_cluster(master); /* its session has ended: it joins again */
        else if (error != 0 && error != -ECANCELED)
            base_error(&master->node->log, "a space's master cannot lead", "reason=\"%s\"", strerror(-error));
        if (!atomic_load(&master->closing))
            (void)task_sleep(PAUSE_NS);
    }
}

/* ---- opening, closing --------------------------------------------------------------------------- */

static bool are_good(const struct space_master_options *options)
{
    return strlen(options->address) <= CLUSTER_MEMBER_DATA_MAX &&
           base_is_aligned(options->chunk_bytes, BASE_PAGE_BYTES) &&
           options->servers_secret_bytes <= TARN_SPACE_SECRET_MAX &&
           options->lease_ns / BASE_NS_PER_MS <= UINT32_MAX;
}

static int serve(struct space_master *master, const struct space_master_options *options)
{
    const struct tarn_rpc_service service = {
        .methods = master_methods, .count = SPACE_METHODS, .arg = master};
    const struct tarn_rpc_serve_options serving = {.calls_max = CALLS_MAX,
                                                   .request_bytes_max = SPACE_SERVER_MAX,
                                                   .result_bytes_max = SPACE_SERVER_MAX,
                                                   .running_max = RUNNING_MAX};
    master->service = service;
    return rpc_serve(options->fabric, options->address, &master->service, &serving, &master->sched, 1,
                     &master->rpc);
}

int space_master_open(struct tarn_node *node, const struct space_master_options *options,
                      struct space_master **ret_master)
{
    if (!are_good(options))
        return -EINVAL;
    struct space_master *master = base_alloc(&node->memory, sizeof(*master));
    if (master == NULL)
        return -ENOMEM;
    master->node = node;
    master->url = options->cluster;
    master->name = options->name;
    master->address = options->address;
    master->sched = options->sched;
    master->new_chunk_bytes = options->chunk_bytes == 0 ? TARN_SPACE_CHUNK_BYTES : options->chunk_bytes;
    master->lease_ns = options->lease_ns == 0 ? TARN_SPACE_LEASE_NS : options->lease_ns;
    master->session_ns = options->session_ns == 0 ? master->lease_ns / 2 : options->session_ns;
    master->secret_bytes = options->servers_secret_bytes;
    if (options->servers_secret_bytes > 0)
        memcpy(master->secret, options->servers_secret, options->servers_secret_bytes);
    base_list_init(&master->sets);
    task_semaphore_init(&master->sets_wait, 0);
    task_semaphore_init(&master->reap, 0);
    task_semaphore_init(&master->mend, 0);
    task_group_init(&master->group);
    int error = join_cluster(master);
    if (error == 0)
        error = serve(master, options);
    if (error == 0)
        error = task_spawn(master->sched, &master->group, "space-lead", lead_task, master);
    if (error == 0) {
        *ret_master = master;
        return 0;
    }
    if (master->rpc != NULL)
        tarn_rpc_server_close(master->rpc);
    leave_cluster(master);
    base_free(&node->memory, master, sizeof(*master));
    return error;
}

void space_master_close(struct space_master *master)
{
    atomic_store(&master->closing, true);
    task_group_cancel(&master->group);
    task_group_join_firmly(&master->group);
    tarn_rpc_server_close(master->rpc);
    leave_cluster(master);
    base_free(&master->node->memory, master, sizeof(*master));
}

void space_master_stats(const struct space_master *master, struct space_master_stats *ret_stats)
{
    const struct master_tally *tally = &master->tally;
    *ret_stats =
        (struct space_master_stats){.epoch = atomic_load(&master->epoch),
                                    .servers = atomic_load(&tally->servers),
                                    .chunks = atomic_load(&tally->chunks),
                                    .chunks_free = atomic_load(&tally->chunks_free),
                                    .namespaces = atomic_load(&tally->namespaces),
                                    .regions = atomic_load(&tally->regions),
                                    .sessions = atomic_load(&tally->sessions),
                                    .secrets_refused = atomic_load(&master->counts[MASTER_SECRETS]),
                                    .sessions_refused = atomic_load(&master->counts[MASTER_SESSIONS]),
                                    .expired = atomic_load(&master->counts[MASTER_EXPIRED]),
                                    .stores = atomic_load(&master->counts[MASTER_STORES])};
}

void master_tally(struct space_master *master)
{
    struct master_tally *tally = &master->tally;
    uint64_t servers = 0, chunks = 0, chunks_free = 0;
    for (uint32_t slot = 0; slot < master->slots; slot++) {
        const struct master_server *server = master->servers[slot];
        if (server == NULL || !server->is_live)
            continue;
        servers++;
        chunks += server->chunk_count;
        chunks_free += server->free.count;
    }
    atomic_store(&tally->servers, servers);
    atomic_store(&tally->chunks, chunks);
    atomic_store(&tally->chunks_free, chunks_free);
    atomic_store(&tally->namespaces, master->spaces.count);
    atomic_store(&tally->regions, master_count_regions(master));
    atomic_store(&tally->sessions, master->sessions.count);
}
