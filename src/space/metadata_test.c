/* Metadata: what is saved is read back, also long lists of chunks, which are split over several nodes; and damage is told. */
#include "space/master.h"
#include "task/testing.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { CHUNKS = 70000, SERVERS = 2 };

struct fixture {
    struct task_testing *testing;
    struct space_master master;
    struct task_group tasks;
    char path[64];
};

static void begin_master(struct fixture *self)
{
    struct space_master *master = &self->master;
    const struct cluster_options options = {.name = "m"};
    char url[80];
    memset(master, 0, sizeof(*master));
    master->node = self->testing->node;
    master->sched = self->testing->scheds[0];
    base_list_init(&master->sets);
    task_semaphore_init(&master->sets_wait, 0);
    task_semaphore_init(&master->over, 0);
    task_semaphore_init(&master->reap, 0);
    master_set_init(&master->orphans);
    task_group_init(&self->tasks);
    (void)snprintf(url, sizeof(url), "solo:%s", self->path);
    assert_int_equal(cluster_join(master->node, url, &options, &master->cluster), 0);
    assert_int_equal(cluster_lead(master->cluster, TASK_FOREVER, &master->term), 0);
    master->tasks = 1;
    assert_int_equal(task_spawn(NULL, &self->tasks, "store", master_store_task, master), 0);
}

static void end_master(struct fixture *self)
{
    struct space_master *master = &self->master;
    struct base_account *account = &master->node->memory;
    task_group_cancel(&self->tasks);
    assert_int_equal(task_group_join(&self->tasks, TASK_FOREVER), 0);
    for (uint32_t slot = 0; slot < master->slots; slot++) {
        if (master->servers[slot] != NULL)
            master_server_free(master, master->servers[slot]);
    }
    while (master->spaces.count > 0) {
        struct master_space *space = master->spaces.items[0];
        while (space->regions.count > 0)
            master_region_free(master, space->regions.items[0]);
        space->is_deleted = true;
        master_space_try_free(master, space);
    }
    master_list_free(account, &master->spaces);
    cluster_leave(master->cluster);
}

/* Two servers, a namespace, and a region with all of their chunks. */
static struct master_region *fill_master(struct space_master *master)
{
    struct master_space *space = master_space_make(master, 5, "space");
    struct master_region *region = master_region_make(master, space, 9, CHUNKS, 1);
    struct master_set set;
    master->next_server = master->next_space = master->next_region = 10;
    master->chunk_bytes = 4096;
    master->cut_term = 3;
    master->cut_ns = UINT64_C(1) << 40;
    master_set_init(&set);
    master_save_config(master, &set);
    memset(space->salt, 1, sizeof(space->salt));
    memset(space->hash, 2, sizeof(space->hash));
    space->next_address = UINT64_C(77) << 20;
    master_bound_addresses(space);
    master_save_space(master, &set, space);
    for (uint32_t number = 1; number <= SERVERS; number++) {
        struct master_server *server = master_server_make(master, number, CHUNKS / SERVERS);
        (void)snprintf(server->name, sizeof(server->name), "node%u", (unsigned)number);
        (void)snprintf(server->address, sizeof(server->address), "there:%u", (unsigned)number);
        memset(server->identity, (int)number, sizeof(server->identity));
        master_save_server(master, &set, server);
    }
    (void)snprintf(region->name, sizeof(region->name), "name");
    region->memory_class = TARN_SPACE_WORDS;
    region->address = UINT64_C(3) << 30;
    region->bytes = UINT64_C(4096) * CHUNKS - 5;
    for (uint32_t i = 0; i < CHUNKS; i++)
        region->places[i] = (uint64_t)(i / SERVERS) << 32 | (1 + i % SERVERS);
    master_save_region(master, &set, region);
    assert_int_equal(master_store(master, &set), 0);
    return region;
}

/* Two regions that share a chunk, of which one is freed. */
static void add_sharers(struct space_master *master, bool are_versioned)
{
    struct master_space *space = master_space_of(master, 5);
    struct master_set set;
    master_set_init(&set);
    for (uint32_t number = 1; number <= 2; number++) {
        struct master_region *region = master_region_make(master, space, number, 2, 1);
        region->is_versioned = are_versioned;
        region->is_freed = number == 1;
        region->bytes = UINT64_C(2) * 4096;
        region->places[0] = UINT64_C(7) << 32 | 1;
        region->places[1] = (uint64_t)(10 + number) << 32 | 1;
        master_save_region(master, &set, region);
    }
    assert_int_equal(master_store(master, &set), 0);
}

/* Versions may share chunks, other regions may not. */
static void share_and_load(void *arg)
{
    struct task_testing *testing = arg;
    struct fixture *self = testing->arg;
    bool is_new;
    self->testing = testing;
    begin_master(self);
    (void)fill_master(&self->master);
    assert_int_equal(
        cluster_delete(self->master.cluster, self->master.term, "/space/regions/0000000009", CLUSTER_ANY), 0);
    add_sharers(&self->master, true);
    end_master(self);
    begin_master(self);
    assert_int_equal(master_load(&self->master, 4096, &is_new), 0);
    const struct master_space *space = master_space_of(&self->master, 5);
    const struct master_server *server = master_server_of(&self->master, 1);
    const struct master_region *old = master_region_of(space, 1), *newest = master_region_of(space, 2);
    assert_true(old->is_versioned && old->is_freed && newest->is_versioned && !newest->is_freed);
    assert_true(server->chunks[7].versions == 2 && server->chunks[7].region_number == 1);
    assert_true(server->chunks[11].versions == 1 && server->chunks[11].region_number == 1);
    assert_true(server->chunks[12].versions == 1 && server->chunks[12].region_number == 2);
    assert_int_equal(master_store(&self->master, &self->master.orphans), 0);
    add_sharers(&self->master, false);
    end_master(self);
    begin_master(self);
    assert_int_equal(master_load(&self->master, 4096, &is_new), -EUCLEAN);
    end_master(self);
}

static void versions_share_chunks(void **state)
{
    struct fixture *self = test_calloc(1, sizeof(*self));
    (void)state;
    (void)snprintf(self->path, sizeof(self->path), "/dev/shm/space-metadata-%d.tarn", (int)getpid());
    task_testing_run(NULL, NULL, share_and_load, self);
    assert_int_equal(unlink(self->path), 0);
    test_free(self);
}

static void expect_all(struct space_master *master)
{
    const struct master_space *space = master_space_named(master, "space");
    assert_true(space != NULL && space->number == 5 && space->salt[15] == 1 && space->hash[31] == 2);
    assert_true(space->next_address > UINT64_C(77) << 20);
    assert_true(master->next_region >= 10 && master->next_server >= 10 && master->next_space >= 10);
    assert_int_equal(master->chunk_bytes, 4096);
    assert_true(
        master_session_is_cut(master, 3, UINT64_C(1) << 40) && master_session_is_cut(master, 2, UINT64_MAX) &&
        !master_session_is_cut(master, 3, (UINT64_C(1) << 40) + 1) && !master_session_is_cut(master, 4, 0));
    const struct master_server *server = master_server_of(master, 2);
    assert_true(server != NULL && strcmp(server->name, "node2") == 0 && server->identity[3] == 2);
    assert_string_equal(server->address, "there:2");
    const struct master_region *region = master_region_of(space, 9);
    assert_true(region != NULL && region->chunk_count == CHUNKS && !region->is_freed);
    assert_string_equal(region->name, "name");
    assert_int_equal(region->memory_class, TARN_SPACE_WORDS);
    assert_int_equal(region->address, UINT64_C(3) << 30);
    for (uint32_t i = 0; i < CHUNKS; i++) {
        assert_int_equal(region->places[i], (uint64_t)(i / SERVERS) << 32 | (1 + i % SERVERS));
        assert_int_equal(master_server_of(master, 1 + i % SERVERS)->chunks[i / SERVERS].region_number, 9);
    }
}

static void save_and_load(void *arg)
{
    struct task_testing *testing = arg;
    struct fixture *self = testing->arg;
    struct master_set set;
    bool is_new;
    self->testing = testing;
    begin_master(self);
    assert_int_equal(master_load(&self->master, 4096, &is_new), 0);
    assert_true(is_new);
    (void)fill_master(&self->master);
    end_master(self);
    begin_master(self);
    assert_int_equal(master_load(&self->master, 8192, &is_new), 0);
    assert_false(is_new);
    expect_all(&self->master);
    assert_int_equal(self->master.orphans.error, 0);
    assert_true(self->master.orphans.first == NULL);

    /* the region is gone, and the master ended before its parts were: they are found, and removed */
    assert_int_equal(
        cluster_delete(self->master.cluster, self->master.term, "/space/regions/0000000009", CLUSTER_ANY), 0);
    end_master(self);
    begin_master(self);
    assert_int_equal(master_load(&self->master, 8192, &is_new), 0);
    assert_true(self->master.orphans.first != NULL);
    assert_int_equal(master_store(&self->master, &self->master.orphans), 0);
    end_master(self);
    begin_master(self);
    assert_int_equal(master_load(&self->master, 8192, &is_new), 0);
    assert_true(self->master.orphans.first == NULL);

    /* a set that no multi has room for is stored in steps, and one that cannot be refuses nobody else */
    master_set_init(&set);
    for (unsigned i = 0; i < 2 * CLUSTER_MULTI_MAX; i++) {
        char path[CLUSTER_PATH_MAX];
        (void)snprintf(path, sizeof(path), "/space/parts/%010u.%010u", 100 + i, 1);
        assert_non_null(master_set_put(&self->master, &set, path, 8));
    }
    assert_int_equal(master_store(&self->master, &set), 0);
    end_master(self);
    begin_master(self);
    assert_int_equal(master_load(&self->master, 8192, &is_new), 0);
    assert_int_equal(master_store(&self->master, &self->master.orphans), 0);
    end_master(self);
}

static void metadata_come_back(void **state)
{
    struct fixture *self = test_calloc(1, sizeof(*self));
    (void)state;
    (void)snprintf(self->path, sizeof(self->path), "/dev/shm/space-metadata-%d.tarn", (int)getpid());
    task_testing_run(NULL, NULL, save_and_load, self);
    assert_int_equal(unlink(self->path), 0);
    test_free(self);
}

/* ---- damage ------------------------------------------------------------------------------------- */

static void break_and_load(void *arg)
{
    static const struct {
        const char *path;
        uint32_t keep; /* bytes of it that stay */
    } breaks[] = {{"/space/config", 39},
                  {"/space/servers/0000000001", 24},
                  {"/space/names/0000000005", 60},
                  {"/space/regions/0000000009", 40},
                  {"/space/parts/0000000009.0000000001", 16}};
    struct task_testing *testing = arg;
    struct fixture *self = testing->arg;
    static uint8_t data[CLUSTER_DATA_MAX];
    self->testing = testing;
    begin_master(self);
    (void)fill_master(&self->master);
    end_master(self);
    for (unsigned i = 0; i < base_array_count(breaks); i++) {
        uint32_t bytes;
        bool is_new;
        begin_master(self);
        struct cluster *cluster = self->master.cluster;
        assert_int_equal(cluster_get(cluster, breaks[i].path, data, sizeof(data), &bytes, NULL), 0);
        assert_int_equal(cluster_put(cluster, 0, breaks[i].path, data, breaks[i].keep, CLUSTER_ANY), 0);
        assert_int_equal(master_load(&self->master, 4096, &is_new), -EUCLEAN);
        assert_int_equal(cluster_put(cluster, 0, breaks[i].path, data, bytes, CLUSTER_ANY), 0);
        end_master(self);
    }
}

static void damage_is_told(void **state)
{
    struct fixture *self = test_calloc(1, sizeof(*self));
    (void)state;
    (void)snprintf(self->path, sizeof(self->path), "/dev/shm/space-metadata-%d.tarn", (int)getpid());
    task_testing_run(NULL, NULL, break_and_load, self);
    assert_int_equal(unlink(self->path), 0);
    test_free(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(metadata_come_back),
                                       cmocka_unit_test(versions_share_chunks),
                                       cmocka_unit_test(damage_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
