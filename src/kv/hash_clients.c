/* Clients of hash stores: one for each scheduler whose tasks call, and some for plain threads. hash.c has the operations. */
#include "fabric/fabric.h"
#include "kv/hash.h"
#include "space/space.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OWN_NAMESPACE "tarn"
#define OWN_STORE     "store"

int kv_hash_error(int error)
{
    switch (error) {
    case -ESTALE:
        return -ENXIO; /* the store is gone */
    case -ENODATA:
        return -EIO; /* a memory server, with a part of the store */
    case -EUSERS:
        return -EHOSTUNREACH;
    default:
        return error;
    }
}

/* ---- opening a client ---------------------------------------------------------------------------- */

/* Join the store's namespace, and make it if that is asked for. */
static int join_namespace(struct kv_hash_client *client, uint64_t deadline_ns)
{
    const struct kv_hash *store = client->store;
    int error;
    do {
        error = tarn_space_join_ns(client->space, store->url.space_namespace, store->secret,
                                   store->secret_bytes, deadline_ns, &client->of);
        if (error == -ENOENT && store->url.memory_bytes != 0)
            error = tarn_space_create_ns(client->space, store->url.space_namespace, store->secret,
                                         store->secret_bytes, deadline_ns, &client->of);
    } while (error == -EEXIST);
    return error;
}

static void close_client(struct kv_hash_client *client)
{
    if (client->hash != NULL)
        hash_close(client->hash);
    if (client->of != NULL)
        tarn_space_leave_ns(client->of);
    if (client->space != NULL)
        tarn_space_disconnect(client->space);
    client->hash = NULL;
    client->of = NULL;
    client->space = NULL;
}

static int open_client(struct kv_hash_client *client, uint64_t deadline_ns)
{
    const struct kv_hash *store = client->store;
    const struct hash_options options = {.shape = store->url.memory_bytes != 0 ? &store->wanted : NULL,
                                         .node = store->url.node};
    int error = tarn_space_connect(store->fabric, store->url.masters, NULL, deadline_ns, &client->space);
    if (error == 0)
        error = join_namespace(client, deadline_ns);
    if (error == 0)
        error = hash_open(store->kv.node, client->space, client->of, store->url.name, &options, deadline_ns,
                          &client->hash);
    if (error != 0)
        close_client(client);
    return error;
}

/* Have a client open. */
static int require_open(struct kv_hash_client *client, uint64_t deadline_ns)
{
    if (client->hash != NULL)
        return 0;
    int error = task_mutex_lock(&client->opening, deadline_ns);
    if (error != 0)
        return error == -ETIMEDOUT ? -EHOSTUNREACH : error;
    if (client->hash == NULL)
        error = open_client(client, deadline_ns);
    task_mutex_unlock(&client->opening);
    return error;
}

/* ---- taking one --------------------------------------------------------------------------------- */

static struct kv_hash_client *make_client(struct kv_hash *self, struct task_sched *sched)
{
    struct kv_hash_client *client = base_alloc(&self->kv.node->memory, sizeof(*client));
    if (client == NULL)
        return NULL;
    client->store = self;
    client->sched = sched;
    task_mutex_init(&client->opening);
    return client;
}

static bool is_callers(const struct kv_hash_client *client)
{
    return client->users > 0 && client->task == task_self() &&
           pthread_equal(client->thread, pthread_self()) != 0;
}

/* Find a plain thread's client: its own, or else a free one. @return NULL: there is none */
static struct kv_hash_client *find_locked(struct kv_hash *self, bool is_own)
{
    for (uint32_t i = 0; i < KV_THREAD_CLIENTS; i++) {
        struct kv_hash_client *client = self->thread_clients[i];
        if (client != NULL && (is_own ? is_callers(client) : client->users == 0)) {
            client->users++;
            client->thread = pthread_self();
            client->task = task_self();
            return client;
        }
    }
    return NULL;
}

static struct kv_hash_client *find_client(struct kv_hash *self, bool is_own)
{
    base_spin_lock(&self->lock);
    struct kv_hash_client *client = find_locked(self, is_own);
    base_spin_unlock(&self->lock);
    return client;
}

/* Add a client of plain threads to the store. The caller has a permit, so there is room. */
static void add_client(struct kv_hash *self, struct kv_hash_client *client)
{
    uint32_t place = 0;
    base_spin_lock(&self->lock);
    while (self->thread_clients[place] != NULL)
        place++;
    self->thread_clients[place] = client;
    base_spin_unlock(&self->lock);
}

static int take_thread_client(struct kv_hash *self, uint64_t deadline_ns, struct kv_hash_client **ret_client)
{
    struct kv_hash_client *client = find_client(self, true); /* a scan's visitor calls */
    if (client != NULL) {
        *ret_client = client;
        return 0;
    }
    int error = task_semaphore_wait(&self->thread_permits, deadline_ns);
    if (error != 0)
        return error == -ETIMEDOUT ? -EHOSTUNREACH : error;
    client = find_client(self, false);
    if (client == NULL) {
        client = make_client(self, NULL);
        if (client == NULL) {
            task_semaphore_post(&self->thread_permits);
            return -ENOMEM;
        }
        client->users = 1;
        client->thread = pthread_self();
        client->task = task_self();
        add_client(self, client);
    }
    *ret_client = client;
    return 0;
}

static int take_sched_client(struct kv_hash *self, struct kv_hash_client **ret_client)
{
    struct task_sched *sched = task_sched_self();
    const uint32_t place = task_sched_index(sched);
    struct kv_hash_client *client = atomic_load_explicit(&self->clients[place], memory_order_relaxed);
    if (client == NULL) {
        client = make_client(self, sched);
        atomic_store_explicit(&self->clients[place], client,
                              memory_order_release); /* for hash_store_stats() */
    }
    if (client != NULL && client->hash == NULL)
        client->sched = sched; /* another one may have had this place before */
    *ret_client = client;
    return client == NULL ? -ENOMEM : 0;
}

int kv_hash_take(struct kv_hash *self, uint64_t deadline_ns, struct kv_hash_client **ret_client)
{
    struct kv_hash_client *client;
    int error =
        task_is_thread() ? take_thread_client(self, deadline_ns, &client) : take_sched_client(self, &client);
    if (error != 0)
        return error;
    error = kv_hash_error(require_open(client, deadline_ns));
    if (error != 0) {
        kv_hash_give(client);
        return error;
    }
    *ret_client = client;
    return 0;
}

void kv_hash_give(struct kv_hash_client *client)
{
    struct kv_hash *self = client->store;
    if (client->sched != NULL)
        return;
    base_spin_lock(&self->lock);
    const bool is_free = --client->users == 0;
    base_spin_unlock(&self->lock);
    if (is_free)
        task_semaphore_post(&self->thread_permits);
}

/* ---- closing ------------------------------------------------------------------------------------ */

static void free_client(void *arg)
{
    struct kv_hash_client *client = arg;
    close_client(client);
    base_free(&client->store->kv.node->memory, client, sizeof(*client));
}

static void free_thread_clients(void *arg)
{
    struct kv_hash *self = arg;
    for (uint32_t i = 0; i < KV_THREAD_CLIENTS; i++) {
        if (self->thread_clients[i] != NULL)
            free_client(self->thread_clients[i]);
    }
}

void kv_hash_leave(struct kv_hash *self)
{
    struct task_sched *sched = task_is_thread() ? NULL : task_sched_self();
    if (sched == NULL)
        return;
    struct kv_hash_client *client =
        atomic_load_explicit(&self->clients[task_sched_index(sched)], memory_order_relaxed);
    if (client != NULL)
        close_client(client); /* what it has counted stays */
}

void kv_hash_free(struct kv_hash *self)
{
    for (uint32_t i = 0; i < TASK_SCHEDS_MAX; i++) {
        struct kv_hash_client *client = atomic_load_explicit(&self->clients[i], memory_order_relaxed);
        if (client == NULL)
            continue;
        if (client->hash == NULL || client->sched == task_sched_self())
            free_client(client);
        else
            while (fabric_run_on(client->sched, free_client, client) == -ENOMEM)
                (void)task_sleep(BASE_NS_PER_MS);
    }
    if (self->thread_clients[0] != NULL)
        kv_run_in_thread(free_thread_clients, self);
    if (self->own != NULL)
        kv_hash_space_close(self->own);
    if (self->owns_fabric)
        tarn_fabric_close(self->fabric);
    base_free(&self->kv.node->memory, self, sizeof(*self));
}

/* ---- opening ------------------------------------------------------------------------------------ */

#define OWN_CHUNKS 32u /* of the memory of a space of its own, at least */
#define OWN_SLABS                                                                                            \
    64u /* of which each client has some for each length of records; of little memory twice as many */
#define LITTLE_BYTES                                                                                         \
    (UINT64_C(64)                                                                                            \
     << 20) /* memcached's memory if nothing is said, in which a value of 1,000,000 bytes has room */
#define CHUNK_BYTES_MIN  (UINT64_C(64) << 10)
#define SLAB_BYTES_MAX   (UINT64_C(2) << 20)    /* a value of 1 MiB, memcached's longest, has room */
#define OWN_OPERATION_NS (100 * BASE_NS_PER_MS) /* nothing is far away */
#define INDEX_SHARE      8u /* share of the memory for the index: one part in this many, … */
#define INDEX_CHUNKS     4u /* … and these chunks: the head, and indexes of which the last one is not full */

static uint64_t power_of_two_to(uint64_t most)
{
    return UINT64_C(1) << (63 - __builtin_clzll(most));
}

/* Open a space for this store alone, and decide what the store is made with. */
static int begin_own(struct kv_hash *self)
{
    const struct kv_url *url = &self->url;
    const uint64_t chunk_bytes = base_min(
        base_max(power_of_two_to(url->memory_bytes / OWN_CHUNKS), CHUNK_BYTES_MIN), TARN_SPACE_CHUNK_BYTES);
    const uint64_t memory_bytes = url->memory_bytes / chunk_bytes * chunk_bytes;
    const uint64_t slots = base_min(self->wanted.slots, UINT64_C(1) << 40);
    const uint64_t index_bytes =
        base_max(memory_bytes / INDEX_SHARE, 3 * slots * sizeof(uint64_t)) + INDEX_CHUNKS * chunk_bytes;
    if (index_bytes + chunk_bytes > memory_bytes) {
        base_error(&self->kv.node->log, "an index of so many slots leaves no memory for records",
                   "slots=%" PRIu64 " remedy=\"say a larger memory=SIZE, or fewer slots\"", slots);
        return -EINVAL;
    }
    self->wanted.capacity = (memory_bytes - index_bytes) / chunk_bytes * chunk_bytes;
    const uint64_t slabs = url->memory_bytes < LITTLE_BYTES ? 2 * OWN_SLABS : OWN_SLABS;
    self->wanted.slab_bytes = (uint32_t)base_min(power_of_two_to(url->memory_bytes / slabs), SLAB_BYTES_MAX);
    self->wanted.operation_ns = OWN_OPERATION_NS;
    (void)snprintf(self->url.space_namespace, sizeof(self->url.space_namespace), OWN_NAMESPACE);
    (void)snprintf(self->url.name, sizeof(self->url.name), OWN_STORE);
    int error = kv_hash_space_open(self->kv.node, memory_bytes, chunk_bytes, &self->own);
    if (error != 0)
        return error;
    self->fabric = kv_hash_space_fabric(self->own);
    (void)snprintf(self->url.masters, sizeof(self->url.masters), "%s", kv_hash_space_masters(self->own));
    return 0;
}

/* Find the fabric to a space that others run. */
static int begin_shared(struct kv_hash *self, const struct tarn_kv_options *options)
{
    const struct kv_url *url = &self->url;
    const char *usual = strchr(url->masters, '/') != NULL ? "shm:" : "tcp:";
    const char *wrong = url->secret_path[0] == '\0'
                            ? NULL
                            : space_secret_read(url->secret_path, self->secret, &self->secret_bytes);
    if (wrong != NULL) {
        base_error(&self->kv.node->log, "cannot use the secret of a namespace", "path=%s reason=\"%s\"",
                   url->secret_path, wrong);
        return -EINVAL;
    }
    if (options->fabric != NULL && url->fabric != NULL) {
        base_error(&self->kv.node->log, "a store's URL names a fabric, and another is there already",
                   "store=%s fabric=%s", url->name, tarn_fabric_info(options->fabric)->provider);
        return -EINVAL;
    }
    self->fabric = options->fabric;
    if (self->fabric != NULL)
        return 0;
    int error = tarn_fabric_open(self->kv.node, url->fabric == NULL ? usual : url->fabric, &self->fabric);
    self->owns_fabric = error == 0;
    return error;
}

int kv_hash_begin(struct kv_hash *self, const struct kv_url *url, const struct tarn_kv_options *options)
{
    struct kv_hash_client *client;
    task_semaphore_init(&self->thread_permits, KV_THREAD_CLIENTS);
    task_mutex_init(&self->flushing);
    self->flush_ns = KV_HASH_NEVER;
    self->timeout_ns = options->timeout_ns == 0 ? KV_TIMEOUT_NS : options->timeout_ns;
    self->url = *url;
    self->wanted = (struct hash_shape){.capacity = url->memory_bytes,
                                       .slots = url->slots,
                                       .ranks = (uint32_t)url->ranks,
                                       .filter_bits = (uint32_t)url->filter_bits};
    int error = url->masters[0] == '\0' ? begin_own(self) : begin_shared(self, options);
    if (error == 0)
        error = kv_hash_take(self, task_now() + self->timeout_ns, &client);
    if (error != 0)
        return error;
    self->shape = *hash_shape_of(client->hash);
    kv_hash_give(client);
    return 0;
}
