/* Servers in this process, and their stores for the suite of all stores. */
#include "kv/serving_testing.h"
#include <tarn/depot.h>

struct testing_server testing_server;

const char *testing_scheme;

/* "tarn://" or "unix:" */

void testing_listen(struct testing_server *self, const struct kv_served *stores, uint32_t count)
{
    const struct tarn_node *node = self->testing->node;
    const struct tarn_rpc_serve_options options = {.workers = 2, .memory_bytes = self->memory_bytes};
    const bool has_scheds = self->testing->tasks != NULL; /* others' may be servers' own */
    const char *address = self->address[0] != '\0' ? self->address : self->testing->address;
    assert_int_equal(kv_serve(self->testing->fabric, address, stores, count, &options,
                              has_scheds ? &node->scheds[1] : NULL, TASK_TESTING_SCHEDS - 1, &self->server),
                     0);
}

void testing_serve_there(struct testing_fabric *testing, struct testing_server *self)
{
    static unsigned number;
    const struct tarn_depot_options depot = {.create_bytes = UINT64_C(8) << 20, .mode = TARN_MODE_ASYNC};
    const struct tarn_kv_options options = {.depot = &depot};
    self->testing = testing;
    (void)snprintf(self->path, sizeof(self->path), "/dev/shm/kv-test-%d-%u.tarn", (int)getpid(), number++);
    assert_int_equal(tarn_kv_open(testing->node, self->path, &options, &self->depot), 0);
    assert_int_equal(tarn_kv_open(testing->node, "cache:memory=24M,partitions=4,item=1K", NULL, &self->cache),
                     0);
    const struct kv_served stores[] = {{"depot", self->depot}, {"cache", self->cache}};
    testing_listen(self, stores, 2);
}

void testing_serve_both(struct testing_fabric *testing, struct testing_server *self)
{
    *self = (struct testing_server){.testing = testing};
    testing_serve_there(testing, self);
}

void testing_serve_no_more(struct testing_server *self)
{
    if (self->server != NULL)
        kv_server_close(self->server);
    assert_int_equal(tarn_kv_close(self->cache), 0);
    assert_int_equal(tarn_kv_close(self->depot), 0);
    assert_int_equal(unlink(self->path), 0);
}

int testing_reach_at(struct testing_fabric *testing, const char *addresses, const char *name,
                     uint64_t timeout_ns, struct tarn_kv **ret_kv)
{
    const struct tarn_kv_options options = {.fabric = testing_clients(testing), .timeout_ns = timeout_ns};
    char url[600];
    assert_true(snprintf(url, sizeof(url), "%s%s/%s", testing_scheme, addresses, name) < (int)sizeof(url));
    return tarn_kv_open(testing->node, url, &options, ret_kv);
}

int testing_reach(struct testing_fabric *testing, const char *name, uint64_t timeout_ns,
                  struct tarn_kv **ret_kv)
{
    return testing_reach_at(testing, testing->address, name, timeout_ns, ret_kv);
}

/* ---- the suite ---------------------------------------------------------------------------------- */

static void open_remote_depot(struct testing_fabric *testing, struct tarn_kv **ret_kv)
{
    testing_serve_both(testing, &testing_server);
    assert_int_equal(testing_reach(testing, "depot", 60 * BASE_NS_PER_SECOND, ret_kv), 0);
}

static void open_remote_cache(struct testing_fabric *testing, struct tarn_kv **ret_kv)
{
    struct tarn_kv_info info;
    testing_serve_both(testing, &testing_server);
    assert_int_equal(testing_reach(testing, "cache", 60 * BASE_NS_PER_SECOND, ret_kv), 0);
    tarn_kv_info(*ret_kv, &info);
    assert_string_equal(info.kind, "cache");
    assert_int_equal(info.abilities, TARN_KV_SCANS | TARN_KV_RANGES | TARN_KV_VERSIONS | TARN_KV_REMOTE);
    assert_int_equal(info.partitions, 4);
}

static void close_remote(struct testing_fabric *testing, struct tarn_kv *kv)
{
    (void)testing;
    assert_int_equal(tarn_kv_close(kv), 0);
    testing_serve_no_more(&testing_server);
}

const struct testing_kind testing_remote_depot = {.open = open_remote_depot, .close = close_remote};

const struct testing_kind testing_remote_cache = {.open = open_remote_cache, .close = close_remote};
