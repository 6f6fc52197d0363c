/* For the tests of this layer and those above: a space of this process, with a master and some memory servers. */
#include "space/testing.h"
#include <unistd.h>

void space_testing_open_master(struct space_testing *self)
{
    const struct space_master_options options = {.fabric = self->testing->fabric,
                                                 .address = self->masters[self->opened++ % 2],
                                                 .cluster = self->url,
                                                 .name = "master",
                                                 .sched = self->scheds[0],
                                                 .chunk_bytes = TESTING_CHUNK_BYTES,
                                                 .lease_ns = self->lease_ns};
    assert_int_equal(space_master_open(self->testing->node, &options, &self->master), 0);
}

void space_testing_close_master(struct space_testing *self)
{
    space_master_close(self->master);
    self->master = NULL;
}

/* Read the master's statistics a moment later. */
static void look_again(const struct space_testing *self, uint64_t deadline_ns,
                       struct space_master_stats *ret_stats)
{
    assert_true(task_now() < deadline_ns);
    assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    space_master_stats(self->master, ret_stats);
}

void space_testing_await_servers(const struct space_testing *self, uint64_t count)
{
    const uint64_t deadline_ns = TESTING_LATE;
    struct space_master_stats stats;
    do
        look_again(self, deadline_ns, &stats);
    while (stats.servers != count);
}

void space_testing_await_free(const struct space_testing *self, uint64_t count)
{
    const uint64_t deadline_ns = TESTING_LATE;
    struct space_master_stats stats;
    do
        look_again(self, deadline_ns, &stats);
    while (stats.chunks_free != count);
}

struct space_server_options space_testing_server_options(const struct space_testing *self, unsigned place)
{
    static const char *const names[TESTING_SERVERS] = {"node0", "node1", "node2"};
    return (struct space_server_options){.fabric = self->testing->fabric,
                                         .address = self->addresses[place],
                                         .masters = self->both,
                                         .name = names[place],
                                         .sched = self->scheds[1],
                                         .memory_bytes = TESTING_CHUNKS * TESTING_CHUNK_BYTES,
                                         .chunk_bytes = TESTING_CHUNK_BYTES,
                                         .memory_file = self->have_files ? self->memory_files[place] : NULL};
}

void space_testing_open_server(struct space_testing *self, unsigned place)
{
    const struct space_server_options options = space_testing_server_options(self, place);
    assert_int_equal(space_server_open(self->testing->node, &options, &self->servers[place]), 0);
}

void space_testing_close_server(struct space_testing *self, unsigned place)
{
    space_server_close(self->servers[place]);
    self->servers[place] = NULL;
}

struct tarn_space *space_testing_connect(const struct space_testing *self)
{
    struct tarn_space *space;
    assert_int_equal(
        tarn_space_connect(testing_clients(self->testing), self->both, NULL, TESTING_LATE, &space), 0);
    return space;
}

static void open_scheds(struct space_testing *self)
{
    struct tarn_node *node = self->testing->node;
    struct task_sched *const *scheds =
        self->testing->tasks == NULL ? self->testing->scheds : self->testing->tasks->scheds;
    self->owns_scheds = scheds == NULL;
    for (unsigned i = 0; i < 2; i++) {
        if (!self->owns_scheds) {
            self->scheds[i] = scheds[1 + i];
            continue;
        }
        assert_int_equal(task_sched_open(node, NULL, &self->scheds[i]), 0);
        assert_int_equal(task_sched_start(self->scheds[i]), 0);
    }
}

static void close_scheds(const struct space_testing *self)
{
    for (unsigned i = 0; i < 2 && self->owns_scheds; i++) {
        task_sched_stop(self->scheds[i]);
        task_sched_join(self->scheds[i]);
        task_sched_close(self->scheds[i]);
    }
}

void space_testing_run(struct testing_fabric *testing, uint64_t lease_ns,
                       void (*function)(struct space_testing *self))
{
    static _Atomic unsigned number;
    const bool is_usual = lease_ns == 0 || (testing->subject->is_slow && lease_ns < TESTING_LEASE_NS);
    struct space_testing self = {.testing = testing, .lease_ns = is_usual ? TESTING_LEASE_NS : lease_ns};
    const unsigned own = atomic_fetch_add(&number, 1);
    if (testing->drive != NULL)
        (void)snprintf(self.path, sizeof(self.path), "%s", testing->drive);
    else
        (void)snprintf(self.path, sizeof(self.path), "/dev/shm/space-test-%d-%u.tarn", (int)getpid(), own);
    for (unsigned i = 0; i < TESTING_SERVERS; i++)
        (void)snprintf(self.memory_files[i], sizeof(self.memory_files[i]), "/dev/shm/space-test-%d-%u.%u",
                       (int)getpid(), own, i);
    (void)snprintf(self.url, sizeof(self.url), "solo:%s", self.path);
    for (unsigned i = 0; i < 2; i++)
        testing->subject->address(self.masters[i], sizeof(self.masters[i]));
    (void)snprintf(self.both, sizeof(self.both), "%s,%s", self.masters[0], self.masters[1]);
    for (unsigned i = 0; i < TESTING_SERVERS; i++)
        testing->subject->address(self.addresses[i], sizeof(self.addresses[i]));
    open_scheds(&self);
    space_testing_open_master(&self);
    for (unsigned i = 0; i < TESTING_SERVERS; i++)
        space_testing_open_server(&self, i);
    space_testing_await_servers(&self, TESTING_SERVERS);
    self.space = space_testing_connect(&self);
    function(&self);
    tarn_space_disconnect(self.space);
    for (unsigned i = 0; i < TESTING_SERVERS; i++) {
        if (self.servers[i] != NULL)
            space_testing_close_server(&self, i);
    }
    if (self.master != NULL)
        space_testing_close_master(&self);
    close_scheds(&self);
    if (testing->drive == NULL)
        assert_int_equal(unlink(self.path), 0);
}

struct tarn_space_namespace *space_testing_namespace(struct tarn_space *space, const char *name,
                                                     uint64_t chunks)
{
    struct tarn_space_namespace *of;
    assert_int_equal(tarn_space_create_ns(space, name, NULL, 0, TESTING_LATE, &of), 0);
    if (chunks > 0)
        assert_int_equal(tarn_space_reserve(of, chunks * TESTING_CHUNK_BYTES, TESTING_LATE), 0);
    return of;
}

void space_testing_delete(struct tarn_space_namespace *of)
{
    assert_int_equal(tarn_space_delete_ns(of, TESTING_LATE), 0);
    tarn_space_leave_ns(of);
}

struct tarn_space_region *space_testing_alloc(struct tarn_space_namespace *of, uint64_t bytes,
                                              enum tarn_space_class memory_class)
{
    const struct tarn_space_alloc_options options = {.memory_class = memory_class};
    struct tarn_space_region *region;
    assert_int_equal(tarn_space_alloc(of, bytes, &options, TESTING_LATE, &region), 0);
    return region;
}

struct tarn_space_region *space_testing_begin(struct tarn_space_region *region, uint32_t first,
                                              uint32_t chunks)
{
    struct tarn_space_region *draft;
    int error;
    do
        error = tarn_space_begin(region, first * TESTING_CHUNK_BYTES, chunks * TESTING_CHUNK_BYTES,
                                 TESTING_LATE, &draft);
    while (error == -ENOSPC && task_sleep(BASE_NS_PER_MS) == 0);
    assert_int_equal(error, 0);
    return draft;
}
