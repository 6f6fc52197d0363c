/*
 * The space of a hash store that one process has for itself: a master, whose metadata are in a file that has no name any
 * more, and a memory server.
 */
#include "fabric/fabric.h"
#include "kv/hash.h"
#include "space/space.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FOLDER_ROOM  64
#define ADDRESS_ROOM (FOLDER_ROOM + 16)
#define START_NS     (30 * BASE_NS_PER_SECOND) /* how long the memory server may take to make its memory */

struct kv_hash_space {
    struct tarn_node *node;
    char folder[FOLDER_ROOM]; /* "": there is none */
    char metadata[ADDRESS_ROOM], cluster[ADDRESS_ROOM + 8];
    char master_address[ADDRESS_ROOM], server_address[ADDRESS_ROOM];
    struct tarn_fabric *fabric;
    struct task_sched *sched;
    bool is_started;
    struct space_master *master;
    struct space_server *server;
};

static int make_folder(struct kv_hash_space *self)
{
    static const char *const places[] = {"/dev/shm", "/tmp"};
    int error = 0;
    for (unsigned i = 0; i < base_array_count(places); i++) {
        (void)snprintf(self->folder, sizeof(self->folder), "%s/tarn-hash-XXXXXX", places[i]);
        if (mkdtemp(self->folder) != NULL) {
            (void)snprintf(self->metadata, sizeof(self->metadata), "%s/metadata", self->folder);
            (void)snprintf(self->cluster, sizeof(self->cluster), "solo:%s", self->metadata);
            (void)snprintf(self->master_address, sizeof(self->master_address), "%s/master", self->folder);
            (void)snprintf(self->server_address, sizeof(self->server_address), "%s/memory", self->folder);
            return 0;
        }
        error = -errno;
    }
    self->folder[0] = '\0';
    base_error(&self->node->log, "there is no place for the sockets of a hash store",
               "folders=/dev/shm,/tmp error=%d", error);
    return error;
}

static int start_sched(struct kv_hash_space *self)
{
    static const struct task_sched_options options = {.name = "tarn-hash"};
    int error = task_sched_open(self->node, &options, &self->sched);
    if (error == 0)
        error = task_sched_start(self->sched);
    self->is_started = error == 0;
    return error;
}

static int open_master(struct kv_hash_space *self, uint64_t chunk_bytes)
{
    const struct space_master_options options = {.fabric = self->fabric,
                                                 .address = self->master_address,
                                                 .cluster = self->cluster,
                                                 .name = "master",
                                                 .sched = self->sched,
                                                 .chunk_bytes = chunk_bytes};
    int error = space_master_open(self->node, &options, &self->master);
    (void)unlink(
        self->metadata); /* a process that is killed leaves no more behind than an empty folder with two sockets */
    return error;
}

static int open_server(struct kv_hash_space *self, uint64_t memory_bytes, uint64_t chunk_bytes)
{
    const struct space_server_options options = {.fabric = self->fabric,
                                                 .address = self->server_address,
                                                 .masters = self->master_address,
                                                 .name = "memory",
                                                 .sched = self->sched,
                                                 .memory_bytes = memory_bytes,
                                                 .chunk_bytes = chunk_bytes};
    const uint64_t deadline_ns = task_now() + START_NS;
    struct space_master_stats stats = {.servers = 0};
    int error = space_server_open(self->node, &options, &self->server);
    while (error == 0 && stats.servers == 0) {
        space_master_stats(self->master, &stats);
        if (stats.servers == 0)
            error = task_now() >= deadline_ns ? -ETIMEDOUT : task_sleep(BASE_NS_PER_MS / 4);
    }
    return error;
}

int kv_hash_space_open(struct tarn_node *node, uint64_t memory_bytes, uint64_t chunk_bytes,
                       struct kv_hash_space **ret_space)
{
    struct kv_hash_space *self = base_alloc(&node->memory, sizeof(*self));
    if (self == NULL)
        return -ENOMEM;
    self->node = node;
    int error = make_folder(self);
    if (error == 0)
        error = tarn_fabric_open(node, "shm:", &self->fabric);
    if (error == 0)
        error = start_sched(self);
    if (error == 0)
        error = open_master(self, chunk_bytes);
    if (error == 0)
        error = open_server(self, memory_bytes, chunk_bytes);
    if (error != 0) {
        kv_hash_space_close(self);
        return error;
    }
    *ret_space = self;
    return 0;
}

static void end_sched(void *arg)
{
    struct kv_hash_space *self = arg;
    task_sched_stop(self->sched);
    task_sched_join(self->sched);
}

void kv_hash_space_close(struct kv_hash_space *self)
{
    if (self->server != NULL)
        space_server_close(self->server);
    if (self->master != NULL)
        space_master_close(self->master);
    if (self->is_started)
        kv_run_in_thread(end_sched, self);
    if (self->sched != NULL)
        task_sched_close(self->sched);
    if (self->fabric != NULL)
        tarn_fabric_close(self->fabric);
    if (self->folder[0] != '\0') {
        (void)unlink(self->metadata);
        (void)unlink(self->master_address);
        (void)unlink(self->server_address);
        (void)rmdir(self->folder);
    }
    base_free(&self->node->memory, self, sizeof(*self));
}

struct tarn_fabric *kv_hash_space_fabric(const struct kv_hash_space *self)
{
    return self->fabric;
}

const char *kv_hash_space_masters(const struct kv_hash_space *self)
{
    return self->master_address;
}
