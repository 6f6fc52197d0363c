/* Changes of the master's metadata: they are noted in sets, and one task stores as many as there are in one multi. */
#include "space/master.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct master_change {
    struct master_change *next;
    char path[CLUSTER_PATH_MAX + 1];
    bool is_removal;
    uint32_t bytes;
    uint8_t data[];
};

void master_set_init(struct master_set *set)
{
    memset(set, 0, sizeof(*set));
}

static struct master_change *add_change(struct space_master *master, struct master_set *set, const char *path,
                                        uint32_t bytes)
{
    struct master_change *change = base_alloc(&master->node->memory, sizeof(*change) + bytes);
    if (change == NULL) {
        set->error = -ENOMEM;
        return NULL;
    }
    (void)snprintf(change->path, sizeof(change->path), "%s", path);
    change->bytes = bytes;
    if (set->first == NULL)
        set->first = change;
    else
        set->last->next = change;
    set->last = change;
    return change;
}

uint8_t *master_set_put(struct space_master *master, struct master_set *set, const char *path, uint32_t bytes)
{
    struct master_change *change = add_change(master, set, path, bytes);
    return change == NULL ? NULL : change->data;
}

void master_set_remove(struct space_master *master, struct master_set *set, const char *path)
{
    struct master_change *change = add_change(master, set, path, 0);
    if (change != NULL)
        change->is_removal = true;
}

static void free_changes(struct space_master *master, struct master_set *set)
{
    while (set->first != NULL) {
        struct master_change *change = set->first;
        set->first = change->next;
        base_free(&master->node->memory, change, sizeof(*change) + change->bytes);
    }
}

/* Whether an error means that the store has refused a multi, and is as it was. */
static bool is_refusal(int error)
{
    return error == -ENOSPC || error == -E2BIG || error == -ENOMEM;
}

/* End the term: what is in memory is not what is stored. */
static void fail_term(struct space_master *master, int error)
{
    if (master->failed != 0)
        return;
    base_error(&master->node->log, "a space's master ends its term", "reason=\"%s\"",
               error == -EPERM ? "another one leads" : strerror(-error));
    master->failed = error;
    task_semaphore_post(&master->over);
}

int master_store(struct space_master *master, struct master_set *set)
{
    int error = set->error;
    if (error == 0 && master->failed == 0) {
        task_wait_init(&set->wait);
        base_list_push_back(&master->sets, &set->link);
        task_semaphore_post(&master->sets_wait);
        error = task_wait_park_firmly(&set->wait); /* the set is the task's until then */
    } else if (error == 0) {
        error = -ESHUTDOWN;
    }
    free_changes(master, set);
    return error;
}

int master_store_seen(struct space_master *master, struct master_set *set)
{
    const int unmade = set->error; /* nobody has seen anything then: there was no moment in between */
    int error = master_store(master, set);
    if (!is_refusal(error) || unmade != 0)
        return error;
    fail_term(master, error);
    return -ESHUTDOWN;
}

int master_settle(struct space_master *master)
{
    struct master_set nothing;
    if (base_list_empty(&master->sets) && !master->is_storing)
        return master->failed == 0 ? 0 : -ESHUTDOWN;
    master_set_init(&nothing);
    return master_store(master, &nothing);
}

/* ---- the task ----------------------------------------------------------------------------------- */

static uint64_t change_bytes(const struct master_change *change)
{
    return CLUSTER_CHANGE_BYTES + strlen(change->path) + change->bytes;
}

static int store_batch(struct space_master *master)
{
    struct master_batch *batch = &master->batch;
    int error = 0;
    if (batch->count > 0) {
        error = cluster_multi(master->cluster, master->term, batch->changes, batch->count);
        atomic_fetch_add(&master->counts[MASTER_STORES], 1);
    }
    batch->count = 0;
    batch->bytes = 0;
    return error;
}

/* Whether a multi that has some changes and bytes already has room for one more. */
static bool has_room(uint32_t count, uint64_t bytes, const struct master_change *change)
{
    return count < CLUSTER_MULTI_MAX && bytes + change_bytes(change) <= CLUSTER_MULTI_BYTES_MAX;
}

/* Gather the changes of a set. One that has no room in one multi goes in several, of which the last makes it count. */
static int gather_set(struct space_master *master, const struct master_set *set)
{
    struct master_batch *batch = &master->batch;
    for (const struct master_change *change = set->first; change != NULL; change = change->next) {
        int error = has_room(batch->count, batch->bytes, change) ? 0 : store_batch(master);
        if (error != 0)
            return error;
        batch->changes[batch->count++] =
            (struct cluster_change){.path = change->path,
                                    .data = change->is_removal ? NULL : change->data,
                                    .bytes = change->bytes,
                                    .if_version = CLUSTER_ANY};
        batch->bytes += change_bytes(change);
    }
    return 0;
}

/* Whether one of the sets before another one changes a node, too: a multi changes each node once. */
static bool is_changed_before(const struct base_list *sets, const struct master_set *set, const char *path)
{
    for (const struct base_list *at = sets->next; at != &set->link; at = at->next) {
        const struct master_set *other = base_container_of(at, const struct master_set, link);
        for (const struct master_change *change = other->first; change != NULL; change = change->next) {
            if (strcmp(change->path, path) == 0)
                return true;
        }
    }
    return false;
}

/* How many sets, from the first on, have room in one multi: one at least. */
static uint32_t count_fitting(const struct base_list *sets)
{
    uint32_t count = 0, changes = 0;
    uint64_t bytes = 0;
    for (const struct base_list *at = sets->next; at != sets; at = at->next, count++) {
        const struct master_set *set = base_container_of(at, const struct master_set, link);
        for (const struct master_change *change = set->first; change != NULL; change = change->next) {
            if (!has_room(changes, bytes, change) || is_changed_before(sets, set, change->path))
                return base_max(count, 1U);
            changes++;
            bytes += change_bytes(change);
        }
    }
    return count;
}

/* Store the first sets of a list, all or, where none has room in a multi, one of them in steps. */
static int store_first(struct space_master *master, const struct base_list *sets, uint32_t count)
{
    const struct base_list *at = sets->next;
    int error = 0;
    for (uint32_t i = 0; i < count && error == 0; i++, at = at->next)
        error = gather_set(master, base_container_of(at, const struct master_set, link));
    if (error == 0)
        error = store_batch(master);
    master->batch.count = 0;
    master->batch.bytes = 0;
    return error;
}

/* Tell the callers of the first sets what became of them. */
static void finish_first(struct base_list *sets, uint32_t count, int error)
{
    for (uint32_t i = 0; i < count; i++) {
        struct base_list *first = base_list_pop_front(sets);
        (void)task_wait_wake(&base_container_of(first, struct master_set, link)->wait, error);
    }
}

static void store_sets(struct space_master *master, struct base_list *sets)
{
    while (!base_list_empty(sets)) {
        uint32_t count = master->failed == 0 ? count_fitting(sets) : 1;
        int error = master->failed == 0 ? store_first(master, sets, count) : -ESHUTDOWN;
        if (is_refusal(error) && count > 1) {
            count = 1; /* one of them is too much: each for itself */
            error = store_first(master, sets, count);
        }
        if (error != 0 && !is_refusal(error))
            fail_term(master, error);
        finish_first(sets, count, error == 0 || is_refusal(error) ? error : -ESHUTDOWN);
    }
}

void master_store_task(void *arg)
{
    struct space_master *master = arg;
    while (task_semaphore_wait(&master->sets_wait, TASK_FOREVER) == 0 || !base_list_empty(&master->sets)) {
        struct base_list sets;
        base_list_init(&sets);
        base_list_move_all(&sets, &master->sets);
        master->is_storing = true;
        store_sets(master, &sets);
        master->is_storing = false;
    }
    master_leave(master, &master->tasks);
}
