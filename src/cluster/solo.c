/*
 * The back end of one member: its metadata is a depot, in which a node's path is a key, and a multi is a batch. The checks
 * of arguments are cluster.c's.
 */
#include "cluster/cluster_internal.h"
#include "depot/depot.h"
#include "task/node.h"
#include "task/task.h"
#include <string.h>

#define STORE_BYTES (UINT64_C(64) << 20) /* of a store that is made here */
#define HOT_BYTES   (UINT64_C(8) << 20)  /* of memory for nodes: each change looks at what is there */
#define FORMAT      1

/* Paths begin with '/', so it is the key of no node. */
#define EPOCH_KEY     "epoch"
#define EPOCH_KEY_LEN (sizeof(EPOCH_KEY) - 1)

/* A depot's versions begin at 1, those of nodes and the epochs at 0. */
#define DEPOT_VERSION(version) ((uint64_t)(version) + 1)

static const uint8_t magic[8] = {'T', 'a', 'r', 'n', 'C', 'l', 'u', 's'};

/* The value of the epoch's record; README has the table. */
struct solo_epoch_format {
    uint8_t magic[8];
    uint32_t version; /* of this format */
    uint32_t zero;
    uint64_t epoch;
};
_Static_assert(sizeof(struct solo_epoch_format) == 24, "format");

struct solo {
    struct cluster cluster;
    struct tarn_node *node;
    struct tarn_depot *depot;
    struct base_spin lock; /* guards what follows; held for a few instructions */
    struct cluster_member self;
    uint64_t changes;          /* number of times that `self` has changed, from 1 on */
    struct base_list watchers; /* of struct task_wait: until `self` changes again */
};

static struct solo *solo_of(struct cluster *cluster)
{
    return base_container_of(cluster, struct solo, cluster);
}

/* Put if a node, or the epoch, has this version or is CLUSTER_ABSENT; it has the next one then. */
static struct tarn_put_options put_after(int64_t version)
{
    if (version == CLUSTER_ABSENT)
        return (struct tarn_put_options){.condition = TARN_PUT_IF_ABSENT, .version = DEPOT_VERSION(0)};
    return (struct tarn_put_options){.condition = TARN_PUT_IF_VERSION,
                                     .if_version = DEPOT_VERSION(version),
                                     .version = DEPOT_VERSION(version) + 1};
}

/* ---- the epoch ---------------------------------------------------------------------------------- */

static struct solo_epoch_format epoch_record(uint64_t epoch)
{
    struct solo_epoch_format record = {.version = FORMAT, .epoch = epoch};
    memcpy(record.magic, magic, sizeof(magic));
    return record;
}

/* @return 0; -ENOENT (no cluster was here); -EUCLEAN (the record is another's); the depot's errors */
static int read_epoch(struct solo *solo, uint64_t *ret_epoch)
{
    struct solo_epoch_format record = {0};
    struct tarn_record_info info;
    int error = tarn_depot_get(solo->depot, EPOCH_KEY, EPOCH_KEY_LEN, &record, sizeof(record), &info);
    if (error != 0 && error != -ENOBUFS)
        return error;
    /* the version decides, so a store whose records were copied without their versions is none */
    const struct solo_epoch_format expected = epoch_record(record.epoch);
    if (info.value_bytes != sizeof(record) || memcmp(&record, &expected, sizeof(record)) != 0 ||
        info.version != DEPOT_VERSION(record.epoch))
        return -EUCLEAN;
    *ret_epoch = record.epoch;
    return 0;
}

/* Begin an epoch after the one before it. @return 0; the depot's errors, of that condition, too */
static int write_epoch(struct solo *solo, uint64_t epoch)
{
    const struct solo_epoch_format record = epoch_record(epoch);
    const struct tarn_put_options options = put_after(epoch == 0 ? CLUSTER_ABSENT : (int64_t)epoch - 1);
    return tarn_depot_put(solo->depot, EPOCH_KEY, EPOCH_KEY_LEN, &record, sizeof(record), &options, NULL);
}

/* Find the epoch, or begin with 0 in an empty store. */
static int begin_epoch(struct solo *solo, const char *path)
{
    uint64_t epoch;
    int error = read_epoch(solo, &epoch);
    if (error == -ENOENT) {
        struct tarn_depot_stats stats;
        tarn_depot_stats(solo->depot, &stats);
        error = stats.records == 0 ? write_epoch(solo, 0) : -EUCLEAN;
    }
    if (error == -EUCLEAN)
        (void)cluster_refuse(solo->node, path, "the store holds something else than a cluster's metadata");
    return error;
}

/* ---- members and their leader ------------------------------------------------------------------- */

static uint64_t solo_held_until(const struct cluster *cluster)
{
    (void)cluster;
    return TASK_FOREVER;
}

static int solo_members(struct cluster *cluster, struct cluster_member *ret_members, uint32_t *ret_count)
{
    struct solo *solo = solo_of(cluster);
    base_spin_lock(&solo->lock);
    ret_members[0] = solo->self;
    base_spin_unlock(&solo->lock);
    *ret_count = 1;
    return 0;
}

static int solo_watch(struct cluster *cluster, uint64_t *seen, uint64_t deadline_ns)
{
    struct solo *solo = solo_of(cluster);
    int error = 0;
    base_spin_lock(&solo->lock);
    if (*seen == solo->changes) {
        struct task_wait wait;
        task_wait_init(&wait);
        base_list_push_back(&solo->watchers, &wait.link);
        base_spin_unlock(&solo->lock);
        error = task_wait_park(&wait, deadline_ns);
        base_spin_lock(&solo->lock);
        if (base_list_is_linked(&wait.link))
            base_list_remove(&wait.link);
    }
    if (error == 0)
        *seen = solo->changes;
    base_spin_unlock(&solo->lock);
    return error;
}

static void note_lead(struct solo *solo)
{
    base_spin_lock(&solo->lock);
    solo->self.leads = true;
    solo->changes++;
    while (!base_list_empty(&solo->watchers))
        (void)task_wait_wake(base_container_of(base_list_pop_front(&solo->watchers), struct task_wait, link),
                             0);
    base_spin_unlock(&solo->lock);
}

static int solo_lead(struct cluster *cluster, uint64_t deadline_ns, uint64_t *ret_epoch)
{
    struct solo *solo = solo_of(cluster);
    uint64_t epoch = 0;
    int error;
    (void)deadline_ns; /* there is nobody to wait for */
    do {
        error = read_epoch(solo, &epoch);
        if (error == 0)
            error = write_epoch(solo, ++epoch);
    } while (error == -EEXIST); /* another caller has begun one meanwhile */
    if (error != 0)
        return error;
    note_lead(solo);
    *ret_epoch = epoch;
    return 0;
}

/* ---- multi -------------------------------------------------------------------------------------- */

#define LOOK_AGAIN 1 /* a node has changed between our look at its version and the batch */

struct multi {
    struct solo *solo;
    uint64_t epoch;
    const struct cluster_change *changes;
    uint32_t count;
    struct tarn_batch_item *items;    /* one for each change, then one of the epoch's record */
    struct tarn_put_options *options; /* as many */
    struct solo_epoch_format record;
};

/* Look which version a node has. @return 0; the depot's errors */
static int look_up(struct tarn_depot *depot, const struct tarn_batch_item *item, int64_t *ret_version)
{
    struct tarn_record_info info = {0};
    uint8_t none;
    const int error = tarn_depot_get(depot, item->key, item->key_len, &none, 0, &info);
    if (error != 0 && error != -ENOENT && error != -ENOBUFS)
        return error;
    *ret_version = error == -ENOENT ? CLUSTER_ABSENT : (int64_t)(info.version - 1);
    return 0;
}

/* @return 0; the depot's errors */
static int fill_item(struct multi *multi, uint32_t i)
{
    const struct cluster_change *change = &multi->changes[i];
    struct tarn_batch_item *item = &multi->items[i];
    int64_t version = change->if_version;
    int error = 0;
    *item = (struct tarn_batch_item){.key = change->path,
                                     .key_len = strlen(change->path),
                                     .value = change->data,
                                     .value_len = change->data == NULL ? 0 : change->bytes,
                                     .remove = change->data == NULL,
                                     .options = &multi->options[i]};
    if (version == CLUSTER_ANY && !item->remove) /* the version to come depends on it */
        error = look_up(multi->solo->depot, item, &version);
    multi->options[i] =
        version == CLUSTER_ANY ? (struct tarn_put_options){.condition = TARN_PUT_ANY} : put_after(version);
    return error;
}

/* The epoch's record is written again as it is, because only so is its version a condition of the batch. */
static void fill_epoch(struct multi *multi)
{
    multi->record = epoch_record(multi->epoch);
    multi->options[multi->count] = (struct tarn_put_options){.condition = TARN_PUT_IF_VERSION,
                                                             .if_version = DEPOT_VERSION(multi->epoch),
                                                             .version = DEPOT_VERSION(multi->epoch)};
    multi->items[multi->count] = (struct tarn_batch_item){.key = EPOCH_KEY,
                                                          .key_len = EPOCH_KEY_LEN,
                                                          .value = &multi->record,
                                                          .value_len = sizeof(multi->record),
                                                          .options = &multi->options[multi->count]};
}

static bool is_unmet(const struct tarn_batch_item *item)
{
    return item->error == -EEXIST || item->error == -ENOENT;
}

/* What a batch that was not stored means. The depot decides all conditions before it returns, and tells each item. */
static int judge_refusal(const struct multi *multi, int error)
{
    bool look_again = false;
    if (multi->epoch != 0 && is_unmet(&multi->items[multi->count]))
        return -EPERM;
    for (uint32_t i = 0; i < multi->count; i++) {
        if (is_unmet(&multi->items[i]) && multi->changes[i].if_version != CLUSTER_ANY)
            return -EAGAIN;
        look_again = look_again || is_unmet(&multi->items[i]);
    }
    return look_again ? LOOK_AGAIN : error;
}

/* @return 0; LOOK_AGAIN; an error of cluster_multi() */
static int try_multi(struct multi *multi)
{
    int error = 0;
    for (uint32_t i = 0; error == 0 && i < multi->count; i++)
        error = fill_item(multi, i);
    if (error != 0)
        return error;
    fill_epoch(multi);
    error = tarn_depot_write_batch(multi->solo->depot, multi->items, multi->count + (multi->epoch != 0));
    return error == 0 ? 0 : judge_refusal(multi, error);
}

static int solo_multi(struct cluster *cluster, uint64_t epoch, const struct cluster_change *changes,
                      uint32_t count)
{
    struct multi multi = {.solo = solo_of(cluster), .epoch = epoch, .changes = changes, .count = count};
    struct base_account *account = &multi.solo->node->memory;
    const size_t bytes = (count + 1) * (sizeof(*multi.items) + sizeof(*multi.options));
    multi.items = base_alloc(account, bytes);
    if (multi.items == NULL)
        return -ENOMEM;
    multi.options = (void *)(multi.items + count + 1);
    int error;
    do {
        error = try_multi(&multi);
    } while (error == LOOK_AGAIN);
    base_free(account, multi.items, bytes);
    return error;
}

/* ---- reading ------------------------------------------------------------------------------------ */

static int solo_get(struct cluster *cluster, const char *path, void *data, uint32_t room, uint32_t *ret_bytes,
                    int64_t *ret_version)
{
    struct tarn_record_info info;
    int error = tarn_depot_get(solo_of(cluster)->depot, path, strlen(path), data, room, &info);
    if (error != 0 && error != -ENOBUFS)
        return error;
    *ret_bytes = info.value_bytes;
    *ret_version = (int64_t)(info.version - 1);
    return error;
}

struct scan {
    const char *path;
    size_t path_len;
    cluster_visit_function *visit;
    void *arg;
};

static int visit_record(void *arg, const void *key, size_t key_len, const void *value,
                        const struct tarn_record_info *info)
{
    const struct scan *scan = arg;
    const char *text = key;
    char path[CLUSTER_PATH_MAX + 1];
    if (key_len <= scan->path_len || key_len > CLUSTER_PATH_MAX || text[scan->path_len] != '/' ||
        memcmp(text, scan->path, scan->path_len) != 0)
        return 0;
    if (value == NULL || info->value_bytes > CLUSTER_DATA_MAX)
        return -EUCLEAN; /* no node is so long: a depot shows the values of batches whole */
    memcpy(path, text, key_len);
    path[key_len] = '\0';
    return scan->visit(scan->arg, path, value, info->value_bytes, (int64_t)(info->version - 1));
}

static int solo_scan(struct cluster *cluster, const char *path, cluster_visit_function *visit, void *arg)
{
    struct scan scan = {.path = path, .path_len = strlen(path), .visit = visit, .arg = arg};
    return tarn_depot_scan(solo_of(cluster)->depot, visit_record, &scan);
}

/* ---- joining and leaving ------------------------------------------------------------------------ */

static void solo_leave(struct cluster *cluster)
{
    struct solo *solo = solo_of(cluster);
    if (solo->depot != NULL)
        (void)tarn_depot_close(solo->depot); /* logged; all that was acknowledged is durable before */
    base_free(&solo->node->memory, solo, sizeof(*solo));
}

static const struct cluster_operations solo_operations = {.leave = solo_leave,
                                                          .held_until = solo_held_until,
                                                          .members = solo_members,
                                                          .watch = solo_watch,
                                                          .lead = solo_lead,
                                                          .multi = solo_multi,
                                                          .get = solo_get,
                                                          .scan = solo_scan};

int cluster_solo_join(struct tarn_node *node, const char *path, const struct cluster_options *options,
                      struct cluster **ret_cluster)
{
    static const struct tarn_depot_options depot_options = {
        .create_bytes = STORE_BYTES, .mode = TARN_MODE_POWER, .hot_bytes = HOT_BYTES};
    static const struct depot_opening opening = {.size_unasked = true};
    struct solo *solo = base_alloc(&node->memory, sizeof(*solo));
    if (solo == NULL)
        return -ENOMEM;
    *solo = (struct solo){.cluster.operations = &solo_operations, .node = node, .changes = 1};
    base_spin_init(&solo->lock);
    base_list_init(&solo->watchers);
    memcpy(solo->self.name, options->name, strlen(options->name));
    solo->self.data_bytes = options->data_bytes;
    if (options->data_bytes > 0)
        memcpy(solo->self.data, options->data, options->data_bytes);
    int error = depot_open(node, path, &depot_options, &opening, &solo->depot);
    if (error == 0)
        error = begin_epoch(solo, path);
    if (error != 0) {
        solo_leave(&solo->cluster);
        return error;
    }
    *ret_cluster = &solo->cluster;
    return 0;
}
