/*
 * Domains: regions, each a memory file of its own, which a peer gets when it asks for its key; and a table of words,
 * which peers only read, and in which they see at every operation whether a region is still there.
 */
#include "fabric/shm/shm.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * format: the table, of one machine's byte order: for each slot a word
 *
 * | word  | meaning                                                      |
 * |-------|--------------------------------------------------------------|
 * | 0     | no region                                                    |
 * | other | the generation of the region there, which no other ever has  |
 */

/* A region, or what is left of one that was freed while others had its file. */
struct shm_region {
    struct base_list link;      /* shm.regions, if the file is its own */
    struct base_list exposures; /* of struct shm_exposure */
    struct shm_domain *domain;
    struct shm_region *origin; /* the region of another domain whose memory this is; NULL: it has its own */
    struct shm_file file;
    uint64_t key;
    uint64_t generation; /* 0: peers cannot ask for it yet */
    uint64_t bytes;
    uint64_t counted_bytes; /* of the domain's; none for the caller's memory */
    uint32_t rights;
    bool is_adopted;  /* its addresses are the caller's */
    uint32_t holders; /* the region until it is freed, exposures, and regions whose origin it is */
};

/* That a connection's peer has a region's file, and perhaps has it mapped. */
struct shm_exposure {
    struct base_list of_region, of_connection;
    struct shm_connection *connection;
    struct shm_region *region;
};

static struct base_account *account_of(const struct shm_domain *domain)
{
    return &domain->shm->node->memory;
}

/* ---- opening and closing ------------------------------------------------------------------------ */

uint64_t shm_table_bytes(uint32_t slots)
{
    return base_align_up(slots * sizeof(uint64_t), BASE_PAGE_BYTES);
}

/* A domain has gone, or one of its regions has: the last frees it. */
static void let_go_of_domain(struct shm_domain *domain)
{
    if (--domain->holders > 0)
        return;
    shm_file_drop(&domain->table_file);
    base_account_give(account_of(domain), domain->charged_bytes);
    base_free(account_of(domain), domain->regions, domain->table_slots * sizeof(*domain->regions));
    base_free(account_of(domain), domain, sizeof(*domain));
}

static int make_table(struct shm_domain *domain)
{
    const uint64_t bytes = shm_table_bytes(domain->table_slots);
    const uint64_t charged_bytes = bytes + domain->left_bytes[false] + domain->left_bytes[true];
    domain->regions = base_alloc(account_of(domain), domain->table_slots * sizeof(*domain->regions));
    if (domain->regions == NULL || base_account_take(account_of(domain), charged_bytes) != 0)
        return -ENOMEM;
    domain->charged_bytes = charged_bytes;
    int error = shm_file_make("tarn-table", bytes, true, NULL, &domain->table_file);
    domain->table = (_Atomic uint64_t *)(void *)domain->table_file.memory;
    return error;
}

int shm_domain_open(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain)
{
    struct shm *shm = state;
    struct shm_domain *domain = base_alloc(&shm->node->memory, sizeof(*domain));
    if (domain == NULL)
        return -ENOMEM;
    domain->shm = shm;
    domain->identity = task_rng(shm->node);
    domain->table_slots = options->regions_max;
    domain->table_file.fd = -1;
    domain->holders = 1;
    domain->left_bytes[false] = options->readable_bytes;
    domain->left_bytes[true] = options->writable_bytes;
    base_list_init(&domain->connections);
    int error = fabric_keys_init(&domain->keys);
    if (error == 0)
        error = make_table(domain);
    if (error != 0) {
        let_go_of_domain(domain);
        return error;
    }
    *ret_domain = domain;
    return 0;
}

void shm_domain_close(void *state)
{
    struct shm_domain *domain = state;
    struct fabric_service *service = &domain->shm->service;
    struct base_list *item;
    task_mutex_lock_firmly(&service->lock);
    while ((item = base_list_first(&domain->connections)) != NULL)
        shm_ghost_end_locked(base_container_of(item, struct shm_connection, link));
    let_go_of_domain(domain);
    task_mutex_unlock(&service->lock);
}

/* ---- regions ------------------------------------------------------------------------------------ */

/* One of a region's holders has gone; the last gives back what the region had. */
static void let_go_of_region(struct shm_region *own)
{
    while (own != NULL && --own->holders == 0) {
        struct shm_domain *domain = own->domain;
        struct shm_region *origin = own->origin;
        domain->left_bytes[fabric_may_change(own->rights)] += own->counted_bytes;
        base_free(account_of(domain), own, sizeof(*own));
        let_go_of_domain(domain);
        own = origin;
    }
}

/* Make a region without a file, in a slot of the table. @param origin  NULL: none @return 0; -ENOMEM; -ENOSPC */
static int begin_region(struct shm_domain *domain, const struct tarn_fabric_region *region,
                        struct shm_region *origin, uint32_t *ret_slot, struct shm_region **ret_own)
{
    const uint64_t bytes = region->is_callers ? 0 : region->bytes;
    uint64_t *left_bytes = &domain->left_bytes[fabric_may_change(region->handle.rights)];
    uint32_t slot = 0;
    task_mutex_assert_held(&domain->shm->service.lock);
    while (slot < domain->table_slots && domain->regions[slot] != NULL)
        slot++;
    if (slot == domain->table_slots || bytes > *left_bytes)
        return -ENOSPC;
    struct shm_region *own = base_alloc(account_of(domain), sizeof(*own));
    if (own == NULL)
        return -ENOMEM;
    *own = (struct shm_region){.domain = domain,
                               .origin = origin,
                               .file = {.fd = -1},
                               .bytes = region->bytes,
                               .counted_bytes = bytes,
                               .rights = region->handle.rights,
                               .holders = 1};
    base_list_init(&own->link);
    base_list_init(&own->exposures);
    domain->regions[slot] = own;
    domain->holders++;
    *left_bytes -= bytes;
    if (origin != NULL)
        origin->holders++;
    *ret_slot = slot;
    *ret_own = own;
    return 0;
}

/* Have peers find a region. */
static void publish_region_locked(struct shm_region *own, uint32_t slot, struct tarn_fabric_region *region)
{
    struct shm_domain *domain = own->domain;
    own->key = fabric_keys_next(&domain->keys, slot);
    own->generation = domain->keys.count;
    atomic_store(&domain->table[slot], own->generation);
    region->state = own;
    region->handle.domain = domain->identity;
    region->handle.key = own->key;
}

/* End a region that no peer can ask for any more. */
static void end_region(struct shm_region *own, uint32_t slot)
{
    struct fabric_service *service = &own->domain->shm->service;
    if (own->is_adopted)
        shm_file_close(&own->file);
    else
        shm_file_drop(&own->file);
    task_mutex_lock_firmly(&service->lock);
    if (own->domain->regions[slot] == own)
        own->domain->regions[slot] = NULL;
    let_go_of_region(own);
    task_mutex_unlock(&service->lock);
}

/* Have the caller's pages be those of a file, with what they hold. The mapping is moved in one step, so that a thread that reads
 * there meanwhile finds the same. */
static int adopt_file(const struct tarn_fabric_region *region, bool readers, struct shm_file *ret_file)
{
    struct shm_file file;
    int error = shm_file_make("tarn-adopted", region->bytes, readers, region, &file);
    if (error != 0)
        return error;
    memcpy(file.memory, region->memory, region->bytes);
    if (mremap(file.memory, file.bytes, file.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, region->memory) ==
        MAP_FAILED) {
        error = -errno;
        shm_file_drop(&file);
        return error;
    }
    file.memory = region->memory;
    *ret_file = file;
    return 0;
}

int shm_region_alloc(void *state, struct tarn_fabric_region *region)
{
    struct shm_domain *domain = state;
    struct fabric_service *service = &domain->shm->service;
    struct shm_region *own;
    uint32_t slot;
    task_mutex_lock_firmly(&service->lock);
    int error = begin_region(domain, region, NULL, &slot, &own);
    task_mutex_unlock(&service->lock);
    if (error != 0)
        return error;
    own->is_adopted = region->is_callers;
    const bool readers = !fabric_may_change(own->rights);
    error = own->is_adopted ? adopt_file(region, readers, &own->file)
                            : shm_file_make("tarn-region", own->bytes, readers, region, &own->file);
    if (error != 0) {
        end_region(own, slot);
        return error;
    }
    region->memory = own->file.memory;
    task_mutex_lock_firmly(&service->lock);
    base_list_push_back(&domain->shm->regions, &own->link);
    publish_region_locked(own, slot, region);
    task_mutex_unlock(&service->lock);
    return 0;
}

/* The region of this fabric's that has this memory, all of it, and whose peers may do as much: they get its file. */
static struct shm_region *find_origin(struct shm *shm, const struct tarn_fabric_region *region)
{
    base_list_for_each(item, &shm->regions) {
        struct shm_region *own = base_container_of(item, struct shm_region, link);
        if (own->file.memory == region->memory && own->bytes == region->bytes &&
            fabric_may_change(own->rights) == fabric_may_change(region->handle.rights))
            return own;
    }
    return NULL;
}

int shm_region_register(void *state, struct tarn_fabric_region *region)
{
    struct shm_domain *domain = state;
    struct fabric_service *service = &domain->shm->service;
    struct shm_region *own = NULL;
    uint32_t slot = 0;
    int error = -EOPNOTSUPP;
    task_mutex_lock_firmly(&service->lock);
    struct shm_region *origin = find_origin(domain->shm, region);
    int fd = origin == NULL ? -1 : fcntl(origin->file.fd, F_DUPFD_CLOEXEC, 0);
    if (origin != NULL)
        error = fd < 0 ? -errno : begin_region(domain, region, origin, &slot, &own);
    if (error == 0) {
        own->file = (struct shm_file){.fd = fd, .bytes = own->bytes};
        own->is_adopted = origin->is_adopted;
        if (own->is_adopted) { /* a domain that adopts it when the first has freed it finds this one */
            own->file.memory = region->memory;
            base_list_push_back(&domain->shm->regions, &own->link);
        }
        publish_region_locked(own, slot, region);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    task_mutex_unlock(&service->lock);
    return error;
}

int shm_region_adopt(void *state, struct tarn_fabric_region *region)
{
    int error = shm_region_register(state, region); /* another domain may have adopted it before */
    return error == -EOPNOTSUPP ? shm_region_alloc(state, region) : error;
}

void shm_region_free(void *state, struct tarn_fabric_region *region)
{
    struct shm_domain *domain = state;
    struct shm_region *own = region->state;
    const uint32_t slot = fabric_key_slot(own->key);
    const struct shm_note freed = {.kind = SHM_FREED};
    task_mutex_lock_firmly(&domain->shm->service.lock);
    atomic_store(&domain->table[slot], 0);
    domain->regions[slot] = NULL;
    base_list_remove(&own->link);
    base_list_for_each(item, &own->exposures)
        (void)shm_note_send(base_container_of(item, struct shm_exposure, of_region)->connection->socket.fd,
                            &freed,
                            -1); /* if the socket is full, the next region that is freed brings the news */
    task_mutex_unlock(&domain->shm->service.lock);
    end_region(own, slot);
}

/* ---- what peers have ---------------------------------------------------------------------------- */

static void end_exposure(struct shm_exposure *exposure)
{
    struct shm_region *own = exposure->region;
    base_list_remove(&exposure->of_region);
    base_list_remove(&exposure->of_connection);
    base_free(account_of(own->domain), exposure, sizeof(*exposure));
    let_go_of_region(own);
}

/* @return the connection's exposure of a region, or NULL */
static struct shm_exposure *find_exposure(const struct shm_connection *connection, uint64_t key)
{
    base_list_for_each(item, &connection->exposures) {
        struct shm_exposure *exposure = base_container_of(item, struct shm_exposure, of_connection);
        if (exposure->region->key == key)
            return exposure;
    }
    return NULL;
}

static int expose(struct shm_connection *connection, struct shm_region *own)
{
    if (find_exposure(connection, own->key) != NULL)
        return 0;
    struct shm_exposure *exposure = base_alloc(account_of(connection->domain), sizeof(*exposure));
    if (exposure == NULL)
        return -ENOMEM;
    exposure->connection = connection;
    exposure->region = own;
    own->holders++;
    base_list_push_back(&own->exposures, &exposure->of_region);
    base_list_push_back(&connection->exposures, &exposure->of_connection);
    return 0;
}

int shm_exposure_begin_locked(struct shm_connection *connection, uint64_t key)
{
    const struct shm_domain *domain = connection->domain;
    const uint32_t slot = fabric_key_slot(key);
    struct shm_note note = {.kind = SHM_NO_REGION, .key = key};
    int fd = -1, error = 0;
    task_mutex_assert_held(&connection->shm->service.lock);
    struct shm_region *own = slot < domain->table_slots ? domain->regions[slot] : NULL;
    if (own != NULL && own->generation != 0 && own->key == key) {
        error = expose(connection, own);
        note = (struct shm_note){.kind = SHM_FILE,
                                 .slot = slot,
                                 .key = key,
                                 .generation = own->generation,
                                 .bytes = own->bytes,
                                 .rights = own->rights};
        fd = own->file.fd;
    }
    return error == 0 && !shm_note_send(connection->socket.fd, &note, fd) ? -ECONNRESET : error;
}

void shm_exposure_end_locked(struct shm_connection *connection, uint64_t key)
{
    task_mutex_assert_held(&connection->shm->service.lock);
    struct shm_exposure *exposure = find_exposure(connection, key);
    if (exposure != NULL)
        end_exposure(exposure);
}

void shm_exposures_end_locked(struct shm_connection *connection)
{
    task_mutex_assert_held(&connection->shm->service.lock);
    base_list_for_each_safe(item, &connection->exposures)
        end_exposure(base_container_of(item, struct shm_exposure, of_connection));
}
