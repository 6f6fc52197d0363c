/* liburcu's lock-free hash table as a peer of the index. */
#include "lab/index_tables.h"

#ifdef LAB_URCU
#include <errno.h>
#include <urcu/urcu-qsbr.h>

#include <urcu/rculfhash.h>

enum { KEYS_BETWEEN_REPORTS = 1024 };

struct node {
    struct cds_lfht_node link;
    uint64_t hash;
    uint64_t word;
};

struct lfht {
    struct lab_index_table table;
    struct cds_lfht *ht;
    struct node *nodes; /* by the number of the key */
};

static int is_key(struct cds_lfht_node *link, const void *key)
{
    return base_container_of(link, struct node, link)->hash == *(const uint64_t *)key;
}

static int open_lfht(const struct lab_index_table *options, uint64_t entries,
                     struct lab_index_table **ret_table)
{
    struct lfht *lfht = base_alloc(options->account, sizeof(*lfht));
    if (lfht == NULL)
        return -ENOMEM;
    uint64_t buckets = (uint64_t)1 << (63 - __builtin_clzll(entries)); /* one or two entries each */
    lfht->table = *options;
    lfht->nodes = lab_index_map(options->keys * sizeof(*lfht->nodes));
    uint64_t buckets_max = options->grows ? (uint64_t)1 << (64 - __builtin_clzll(options->keys)) : buckets;
    lfht->ht = cds_lfht_new_flavor(buckets, buckets, buckets_max,
                                   options->grows ? CDS_LFHT_AUTO_RESIZE | CDS_LFHT_ACCOUNTING : 0,
                                   &urcu_qsbr_flavor, NULL);
    if (options->grows && lfht->nodes != NULL) /* they are its user's: not what is measured */
        memset(lfht->nodes, 1, options->keys * sizeof(*lfht->nodes));
    if (lfht->nodes == NULL || lfht->ht == NULL) {
        if (lfht->nodes != NULL)
            lab_index_unmap(lfht->nodes, options->keys * sizeof(*lfht->nodes));
        if (lfht->ht != NULL)
            (void)cds_lfht_destroy(lfht->ht, NULL);
        base_free(options->account, lfht, sizeof(*lfht));
        return -ENOMEM;
    }
    *ret_table = &lfht->table;
    return 0;
}

static struct lfht *lfht_of(struct lab_index_table *table)
{
    return base_container_of(table, struct lfht, table);
}

static uint64_t find_lfht(struct lab_index_table *table, const uint64_t *numbers, uint64_t count)
{
    struct lfht *lfht = lfht_of(table);
    uint64_t found = 0;
    urcu_qsbr_read_lock();
    for (uint64_t i = 0; i < count; i++) {
        struct cds_lfht_iter iter;
        uint64_t hash = lab_index_hash(table, numbers[i]);
        cds_lfht_lookup(lfht->ht, hash, is_key, &hash, &iter);
        struct cds_lfht_node *link = cds_lfht_iter_get_node(&iter);
        found += link != NULL && base_container_of(link, struct node, link)->word == numbers[i] + 1;
    }
    urcu_qsbr_read_unlock();
    urcu_qsbr_quiescent_state();
    return found;
}

static int insert_lfht(struct lab_index_table *table, uint64_t first, uint64_t count)
{
    struct lfht *lfht = lfht_of(table);
    for (uint64_t i = first; i < first + count; i++) {
        struct node *node = &lfht->nodes[i];
        cds_lfht_node_init(&node->link);
        node->hash = lab_index_hash(table, i);
        node->word = i + 1;
        urcu_qsbr_read_lock();
        cds_lfht_add(lfht->ht, node->hash, &node->link);
        urcu_qsbr_read_unlock();
        if (i % KEYS_BETWEEN_REPORTS == 0)
            urcu_qsbr_quiescent_state();
    }
    return 0;
}

static void remove_lfht(struct lab_index_table *table, uint64_t first, uint64_t count)
{
    struct lfht *lfht = lfht_of(table);
    for (uint64_t i = first; i < first + count; i++) {
        urcu_qsbr_read_lock();
        int error = cds_lfht_del(lfht->ht, &lfht->nodes[i].link);
        urcu_qsbr_read_unlock();
        base_assert(error == 0);
        if (i % KEYS_BETWEEN_REPORTS == 0)
            urcu_qsbr_quiescent_state();
    }
    urcu_qsbr_synchronize_rcu(); /* the nodes may be used again */
}

static void close_lfht(struct lab_index_table *table)
{
    struct lfht *lfht = lfht_of(table);
    struct cds_lfht_iter iter;
    struct cds_lfht_node *link;
    urcu_qsbr_register_thread();
    cds_lfht_for_each(lfht->ht, &iter, link)(void) cds_lfht_del(lfht->ht, link);
    urcu_qsbr_unregister_thread();
    int error = cds_lfht_destroy(lfht->ht, NULL);
    base_assert(error == 0);
    lab_index_unmap(lfht->nodes, table->keys * sizeof(*lfht->nodes));
    base_free(table->account, lfht, sizeof(*lfht));
}

const struct lab_index_kind lab_index_lfht = {
    .name = "lfht",
    .open = open_lfht,
    .close = close_lfht,
    .thread_begin = urcu_qsbr_register_thread,
    .thread_end = urcu_qsbr_unregister_thread,
    .find = find_lfht,
    .insert = insert_lfht,
    .remove = remove_lfht,
};
#else
const struct lab_index_kind lab_index_lfht = {.name = "lfht", .skipped = "built without liburcu"};
#endif
