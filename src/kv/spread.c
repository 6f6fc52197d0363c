/*
 * Stores that several servers hold together. Each key belongs to one of them, by rendezvous hashing (docs/wire.md,
 * "Several servers"); while that server is gone, calls for its keys fail.
 */
#include "kv/remote.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct kv_spread *spread_of(struct tarn_kv *kv)
{
    return base_container_of(kv, struct kv_spread, kv);
}

static struct tarn_kv *kv_of(struct tarn_kv *kv, const void *key, size_t key_len)
{
    struct kv_spread *spread = spread_of(kv);
    return &spread->remotes[kv_server_of(&spread->servers, key, key_len)]->kv;
}

/* ---- operations --------------------------------------------------------------------------------- */

static int spread_store_get(struct tarn_kv *kv, const void *key, size_t key_len, void *value,
                            size_t value_room, struct tarn_record_info *ret_info)
{
    struct tarn_kv *its = kv_of(kv, key, key_len);
    return its->operations->get(its, key, key_len, value, value_room, ret_info);
}

static void get_many(struct tarn_kv *kv, struct tarn_get *gets, size_t count)
{
    kv_get_many(&spread_of(kv)->servers, gets, count);
}

static int read_part(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t if_version,
                     uint64_t offset, void *data, size_t data_room, size_t *ret_bytes,
                     struct tarn_record_info *ret_info)
{
    struct tarn_kv *its = kv_of(kv, key, key_len);
    return its->operations->read(its, key, key_len, if_version, offset, data, data_room, ret_bytes, ret_info);
}

static int spread_store_put(struct tarn_kv *kv, const void *key, size_t key_len, const void *value,
                            size_t value_len, const struct tarn_put_options *options, uint64_t *ret_version)
{
    struct tarn_kv *its = kv_of(kv, key, key_len);
    return its->operations->put(its, key, key_len, value, value_len, options, ret_version);
}

static int spread_store_delete(struct tarn_kv *kv, const void *key, size_t key_len)
{
    struct tarn_kv *its = kv_of(kv, key, key_len);
    return its->operations->delete (its, key, key_len);
}

/* A scan of all servers. The visitor's result ends it; a server's error does not. */
struct visiting {
    tarn_scan_function *visit;
    void *arg;
    uint64_t whole_bytes_max; /* the least of all servers' limits */
    int outcome;              /* the visitor's result */
};

static int visit_one(void *arg, const void *key, size_t key_len, const void *value,
                     const struct tarn_record_info *info)
{
    struct visiting *visiting = arg;
    visiting->outcome = visiting->visit(visiting->arg, key, key_len,
                                        info->value_bytes <= visiting->whole_bytes_max ? value : NULL, info);
    return visiting->outcome;
}

static int spread_store_scan(struct tarn_kv *kv, tarn_scan_function *visit, void *arg)
{
    struct kv_spread *spread = spread_of(kv);
    struct visiting visiting = {.visit = visit, .arg = arg, .whole_bytes_max = kv->info.whole_bytes_max};
    int error = 0;
    if ((kv->info.abilities & TARN_KV_SCANS) == 0)
        return -EOPNOTSUPP;
    for (uint32_t i = 0; i < spread->servers.count && visiting.outcome == 0; i++) {
        int its = tarn_kv_scan(&spread->remotes[i]->kv, visit_one, &visiting);
        error = error == 0 ? its : error;
    }
    return visiting.outcome != 0 ? visiting.outcome : error;
}

static int spread_store_close(struct tarn_kv *kv)
{
    struct kv_spread *spread = spread_of(kv);
    for (uint32_t i = 0; i < spread->servers.count; i++) {
        if (tarn_kv_close(&spread->remotes[i]->kv) != 0)
            continue; /* closing a store of a server loses nothing */
    }
    if (spread->owns_fabric)
        tarn_fabric_close(spread->fabric);
    base_free(&kv->node->memory, spread, sizeof(*spread));
    return 0;
}

static const struct kv_operations operations = {.get = spread_store_get,
                                                .get_many = get_many,
                                                .read = read_part,
                                                .put = spread_store_put,
                                                .delete = spread_store_delete,
                                                .scan = spread_store_scan,
                                                .close = spread_store_close};

/* ---- opening ------------------------------------------------------------------------------------ */

/* Reduce the properties to those that all servers share. @return 0; -EINVAL: their stores are of different kinds
 * (logged) */
static int add_info(struct tarn_kv_info *all, const struct kv_remote *remote)
{
    const struct tarn_kv_info *info = &remote->kv.info;
    if (all->kind == NULL) {
        *all = *info;
        return 0;
    }
    if (all->kind != info->kind) {
        base_error(&remote->kv.node->log, "servers have stores of different kinds under one name",
                   "store=%s server=%s kind=%s others=%s", remote->name, remote->address, info->kind,
                   all->kind);
        return -EINVAL;
    }
    all->abilities &= info->abilities;
    all->partitions += info->partitions;
    all->value_bytes_max = base_min(all->value_bytes_max, info->value_bytes_max);
    all->whole_bytes_max = base_min(all->whole_bytes_max, info->whole_bytes_max);
    return 0;
}

/* Ask all servers. One that cannot be reached is taken to be like the others. @return 0; as tarn_kv_open() */
static int meet_all(struct kv_spread *spread)
{
    const uint64_t deadline_ns = kv_deadline(spread->remotes[0]);
    const uint32_t count = spread->servers.count;
    uint64_t is_silent = 0;
    int last = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct kv_remote *remote = spread->remotes[i];
        int error = kv_remote_meet(remote, kv_share_of_time(deadline_ns, count - 1 - i));
        if (error == 0)
            error = add_info(&spread->kv.info, remote);
        else if (kv_is_passing(error)) {
            base_warn(&spread->kv.node->log, "a server of a store is not reached: its keys are not to be had",
                      "store=%s server=%s error=%d", remote->name, remote->address, error);
            is_silent |= UINT64_C(1) << i;
            last = error;
            error = 0;
        }
        if (error != 0)
            return error;
    }
    if (spread->kv.info.kind == NULL)
        return last;
    /* neighbours are with any of them, and no two of them change together */
    spread->kv.info.abilities &= ~(uint32_t)(TARN_KV_ORDERED | TARN_KV_BATCHES);
    for (uint32_t i = 0; i < count; i++) {
        if ((is_silent & UINT64_C(1) << i) == 0)
            continue;
        spread->remotes[i]->kv.info = spread->kv.info;
        spread->remotes[i]->takes_regions = true; /* a server that does not will answer so */
    }
    return 0;
}

/* Order servers by address: so the order is the same for all clients that name them. */
static int by_address(const void *left, const void *right)
{
    struct kv_remote *const *a = left, *const *b = right;
    return strcmp((*a)->address, (*b)->address);
}

static int open_spread(struct tarn_node *node, struct tarn_fabric *fabric, const struct kv_url *url,
                       const struct tarn_kv_options *options, struct tarn_kv **ret_kv)
{
    struct kv_spread *spread = base_alloc(&node->memory, sizeof(*spread));
    int error = 0;
    if (spread == NULL)
        return -ENOMEM;
    spread->kv = (struct tarn_kv){.operations = &operations, .node = node};
    spread->fabric = fabric;
    spread->servers = (struct kv_servers){.remotes = spread->remotes, .seeds = spread->seeds};
    for (uint32_t i = 0; i < url->servers && error == 0; i++) {
        error = kv_remote_make(node, fabric, url, i, options, &spread->remotes[i]);
        spread->servers.count += error == 0;
    }
    qsort(spread->remotes, spread->servers.count, sizeof(spread->remotes[0]), by_address);
    for (uint32_t i = 0; i < spread->servers.count; i++)
        spread->seeds[i] = kv_server_seed(spread->remotes[i]->address);
    if (error == 0)
        error = meet_all(spread);
    if (error != 0) {
        (void)spread_store_close(&spread->kv);
        return error;
    }
    *ret_kv = &spread->kv;
    return 0;
}

static int open_one(struct tarn_node *node, struct tarn_fabric *fabric, const struct kv_url *url,
                    const struct tarn_kv_options *options, struct tarn_kv **ret_kv)
{
    struct kv_remote *remote;
    int error = kv_remote_make(node, fabric, url, 0, options, &remote);
    if (error != 0)
        return error;
    error = kv_remote_meet(remote, kv_deadline(remote));
    if (error != 0) {
        (void)tarn_kv_close(&remote->kv);
        return error;
    }
    *ret_kv = &remote->kv;
    return 0;
}

int kv_servers_open(struct tarn_node *node, const struct kv_url *url, const struct tarn_kv_options *options,
                    struct tarn_kv **ret_kv)
{
    const char *usual = url->scheme == KV_TARN ? "tcp:" : "shm:";
    struct tarn_fabric *own = NULL;
    struct tarn_kv *kv;
    int error = 0;
    if (options->fabric != NULL && url->fabric != NULL) {
        base_error(&node->log, "a store's URL names a fabric, and another is there already",
                   "store=%s fabric=%s", url->name, tarn_fabric_info(options->fabric)->provider);
        return -EINVAL;
    }
    if (options->fabric == NULL)
        error = tarn_fabric_open(node, url->fabric == NULL ? usual : url->fabric, &own);
    if (error != 0)
        return error;
    struct tarn_fabric *fabric = own == NULL ? options->fabric : own;
    error = url->servers == 1 ? open_one(node, fabric, url, options, &kv)
                              : open_spread(node, fabric, url, options, &kv);
    if (error != 0) {
        if (own != NULL)
            tarn_fabric_close(own);
        return error;
    }
    if (url->servers == 1)
        base_container_of(kv, struct kv_remote, kv)->owns_fabric = own != NULL;
    else
        spread_of(kv)->owns_fabric = own != NULL;
    *ret_kv = kv;
    return 0;
}
