/* An ordered store of one process: several keys that are changed at once. */
#include "depot/depot.h"
#include "tree/store_internal.h"
#include <errno.h>
#include <stdlib.h>

/* One of its keys. */
struct member {
    struct tree_change change;
    struct task_mutex *lock;
    struct tarn_batch_item *item;
    struct tree_record *record; /* of a value, while it is not shown; NULL: there is none */
};

/* All change their keys' locks in this order, so that nobody waits for somebody who waits for them. */
static int compare_members(const void *a, const void *b)
{
    const struct task_mutex *left = ((const struct member *)a)->lock,
                            *right = ((const struct member *)b)->lock;
    return left < right ? -1 : left > right; /* of one array */
}

static bool has_lock_of_its_own(const struct member *members, size_t i)
{
    return i == 0 || members[i].lock != members[i - 1].lock;
}

static void lock_keys(const struct member *members, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (has_lock_of_its_own(members, i))
            task_mutex_lock_firmly(members[i].lock);
    }
}

static void unlock_keys(const struct member *members, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        if (has_lock_of_its_own(members, i))
            task_mutex_unlock(members[i].lock);
    }
}

/* Have all records, which nobody sees yet. Of a key that comes twice, which the depot refuses, the first has the entry. @return 0; the
 * first error */
static int prepare_members(struct tree_store *store, struct member *members, size_t count)
{
    int error = 0;
    for (size_t i = 0; i < count && error == 0; i++) {
        struct member *member = &members[i];
        const struct tarn_batch_item *item = member->item;
        struct tarn_update update = {.value = item->value, .value_len = item->value_len};
        tree_change_begin(store, member->change.key, &member->change);
        if (item->remove || item->check)
            continue;
        if (item->options != NULL) {
            update.expiry_ns = item->options->expiry_ns;
            update.client_flags = item->options->client_flags;
            update.note = item->options->note;
        }
        error = member->item->error = tree_change_prepare(store, &member->change, &update, &member->record);
    }
    return error;
}

/* Show all that the depot has stored, or undo it all: a step of a range sees all of it or nothing. */
static void end_members(struct tree_store *store, const struct member *members, size_t count, bool is_stored)
{
    tree_store_lock(store);
    for (size_t i = 0; i < count; i++) {
        const struct member *member = &members[i];
        const struct tarn_batch_item *item = member->item;
        if (member->record != NULL)
            tree_change_end(store, &member->change, member->record, (uint32_t)item->value_len,
                            is_stored ? item->version : 0);
        else if (is_stored && item->remove && !item->check && !member->change.is_new)
            tree_change_remove(store, &member->change);
    }
    tree_store_unlock(store);
}

static int write_members(struct tree_store *store, struct member *members, struct tarn_batch_item *items,
                         size_t count)
{
    lock_keys(members, count);
    int error = prepare_members(store, members, count);
    if (error == 0)
        error = tarn_depot_write_batch(store->depot, items, count);
    end_members(store, members, count, error == 0);
    unlock_keys(members, count);
    for (size_t i = 0; i < count && error == 0; i++) {
        if (members[i].record != NULL)
            tree_store_sweep_sometimes(store, &members[i].change);
    }
    return error;
}

/* Fill in members, in the order of their locks. @return 0; what is wrong with items: -EINVAL, -EMSGSIZE; -E2BIG, -EROFS */
static int fill_members(struct tree_store *store, struct tarn_batch_item *items, size_t count,
                        struct member *members)
{
    uint64_t bytes;
    int error = depot_batch_check(store->depot, items, count, &bytes); /* before anything is copied */
    for (size_t i = 0; i < count; i++) {
        const struct tree_key key = {.bytes = items[i].key, .count = (uint32_t)items[i].key_len};
        if (items[i].key_len > TREE_KEY_MAX)
            error = items[i].error = -EMSGSIZE;
        members[i] = (struct member){.item = &items[i], .change.key = key};
        if (error == 0)
            members[i].lock = tree_store_key_lock(store, key);
    }
    qsort(members, count, sizeof(*members), compare_members);
    return error;
}

int tree_store_write_batch(struct tree_store *store, struct tarn_batch_item *items, size_t count)
{
    struct base_account *account = &store->node->memory;
    if (count == 0 || count > TARN_BATCH_ITEMS_MAX)
        return count == 0 ? 0 : -E2BIG;
    struct member *members = base_alloc(account, count * sizeof(*members));
    if (members == NULL)
        return -ENOMEM;
    tree_store_flush_if_due(store);
    int error = fill_members(store, items, count, members);
    if (error == 0)
        error = write_members(store, members, items, count);
    base_free(account, members, count * sizeof(*members));
    return error == 0 ? 0 : depot_batch_tell(items, count, error);
}
