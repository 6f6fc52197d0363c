/* Regions: having a provider make, register and free them, by a thread where that takes time. */
#include "fabric/fabric_internal.h"
#include "fabric/lanes.h"
#include "task/thread.h"
#include <errno.h>

#define ASIDE_BYTES (UINT64_C(1) << 20)    /* from here on a thread makes the region, where it takes time */
#define LOOK_NS     (100 * BASE_NS_PER_MS) /* between two calls of the caller's progress function */

/* A region that is being made or freed, perhaps by a thread. */
struct making {
    int (*make)(void *domain, struct tarn_fabric_region *region);  /* NULL: it is freed */
    void (*free)(void *domain, struct tarn_fabric_region *region); /* NULL: it is made */
    void *domain;
    struct tarn_fabric_region *region;
    void (*progress)(void *arg, uint64_t done_bytes, uint64_t bytes); /* NULL: nobody watches */
    void *progress_arg;
    _Atomic uint64_t done_bytes; /* bytes whose pages are present: region->making */
    int error;
    struct task_mutex busy; /* held until the thread is done */
};

static void call_provider(struct making *making)
{
    if (making->make != NULL)
        making->error = making->make(making->domain, making->region);
    else
        making->free(making->domain, making->region);
}

static void *make_in_thread(void *arg)
{
    struct making *making = arg;
    call_provider(making);
    task_mutex_unlock(&making->busy);
    return NULL;
}

static void tell_progress(const struct making *making, uint64_t done_bytes)
{
    if (making->progress != NULL)
        making->progress(making->progress_arg, done_bytes, making->region->bytes);
}

void fabric_region_progress(const struct tarn_fabric_region *region, uint64_t done_bytes)
{
    _Atomic uint64_t *done = region->making;
    if (done != NULL)
        tell_progress(base_container_of(done, struct making, done_bytes), done_bytes);
}

/* Have a thread do it, and tell the progress meanwhile. @return false: no thread could be started */
static bool make_aside(struct making *making)
{
    pthread_t thread;
    int error = -ETIMEDOUT;
    task_mutex_init(&making->busy);
    task_mutex_lock_firmly(&making->busy);
    if (task_thread_start(&thread, "tarn-region", make_in_thread, making) != 0)
        return false;
    while (making->progress != NULL && error == -ETIMEDOUT) {
        error = task_mutex_lock(&making->busy, task_now() + LOOK_NS);
        if (error == -ETIMEDOUT)
            tell_progress(making, atomic_load(&making->done_bytes)); /* pairs with populate_parts() */
    }
    if (error != 0)
        task_mutex_lock_firmly(&making->busy); /* a task that was cancelled cannot leave the thread behind */
    (void)pthread_join(thread, NULL);
    return true;
}

/* Have the provider do it. Touching a gigabyte takes half a second, and giving it back a fifth of one, in which a scheduler
 * has other tasks; and a thread that watches wants to hear of it. */
static void run_provider(struct making *making)
{
    const struct tarn_fabric_region *region = making->region;
    const struct fabric_provider *provider = region->domain->fabric->provider;
    const bool takes_time =
        region->is_callers ? provider->registering_takes_time : provider->regions_take_time;
    const bool waits_well = !task_is_thread() || making->progress != NULL;
    if (!takes_time || region->bytes < ASIDE_BYTES || !waits_well || !make_aside(making))
        call_provider(making);
}

/* Have it made or registered. */
static int make_of_provider(struct making *making)
{
    making->region->making = &making->done_bytes;
    run_provider(making);
    making->region->making = NULL;
    if (making->error == 0)
        tell_progress(making, making->region->bytes);
    return making->error;
}

/* Register the caller's memory for this side's own operations, as the memory of buffers is: peers have no way to it. */
static int register_local(void *domain, struct tarn_fabric_region *region)
{
    const struct fabric_provider *provider = region->domain->fabric->provider;
    return provider->buffers_made == NULL
               ? 0
               : provider->buffers_made(domain, region->memory, region->bytes, &region->state);
}

/* Have its pages touched. */
static int touch_local(void *domain, struct tarn_fabric_region *region)
{
    const struct fabric_provider *provider = region->domain->fabric->provider;
    return provider->touch == NULL ? fabric_region_populate(region, region->memory)
                                   : provider->touch(domain, region);
}

/* Make such memory. */
static int alloc_local(void *domain, struct tarn_fabric_region *region)
{
    struct base_account *account = &region->domain->fabric->node->memory;
    region->memory = base_map(account, BASE_PAGE_BYTES, region->bytes);
    int error = region->memory == NULL ? -ENOMEM : touch_local(domain, region);
    if (error == 0)
        error = register_local(domain, region);
    if (error != 0)
        base_unmap(account, region->memory, region->bytes);
    return error;
}

static void free_local(void *domain, struct tarn_fabric_region *region)
{
    const struct fabric_provider *provider = region->domain->fabric->provider;
    if (provider->buffers_gone != NULL)
        provider->buffers_gone(domain, region->state);
    if (!region->is_callers)
        base_unmap(&region->domain->fabric->node->memory, region->memory, region->bytes);
}

/* Make a region. @param memory  the caller's; NULL: the provider makes it @param making  how it is watched; and how the
 * region is made, where that is not the usual way */
static int make_region(struct tarn_fabric_domain *domain, void *memory, uint64_t bytes, uint32_t rights,
                       struct making *making, struct tarn_fabric_region **ret_region)
{
    const struct fabric_provider *provider = domain->fabric->provider;
    const uint32_t plain = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE,
                   known = plain | (rights & TARN_FABRIC_BULK ? TARN_FABRIC_BULK : TARN_FABRIC_MAY_SWAP);
    struct base_account *account = &domain->fabric->node->memory;
    if (bytes == 0 || bytes > INT64_MAX || (rights & ~known) != 0 || rights == TARN_FABRIC_BULK)
        return -EINVAL;
    struct tarn_fabric_region *region = base_alloc(account, sizeof(*region));
    if (region == NULL)
        return -ENOMEM;
    region->domain = domain;
    region->memory = memory;
    region->is_callers = memory != NULL;
    region->bytes = memory == NULL ? base_align_up(bytes, BASE_PAGE_BYTES) : bytes;
    region->handle.bytes = region->bytes;
    region->handle.rights = rights;
    if (making->make == NULL)
        making->make = rights == 0      ? (memory == NULL ? alloc_local : register_local)
                       : memory != NULL ? provider->region_register
                                        : provider->region_alloc;
    making->domain = domain->state;
    making->region = region;
    int error = make_of_provider(making);
    if (error != 0) {
        base_free(account, region, sizeof(*region));
        return error;
    }
    atomic_fetch_add(&domain->users, 1);
    *ret_region = region;
    return 0;
}

int tarn_fabric_region_alloc(struct tarn_fabric_domain *domain, uint64_t bytes, uint32_t rights,
                             struct tarn_fabric_region **ret_region)
{
    return tarn_fabric_region_alloc_with_progress(domain, bytes, rights, NULL, NULL, ret_region);
}

int tarn_fabric_region_alloc_with_progress(struct tarn_fabric_domain *domain, uint64_t bytes, uint32_t rights,
                                           void (*progress)(void *arg, uint64_t done_bytes, uint64_t bytes),
                                           void *arg, struct tarn_fabric_region **ret_region)
{
    struct making making = {.progress = progress, .progress_arg = arg};
    return make_region(domain, NULL, bytes, rights, &making, ret_region);
}

int tarn_fabric_region_register(struct tarn_fabric_domain *domain, void *memory, uint64_t bytes,
                                uint32_t rights, struct tarn_fabric_region **ret_region)
{
    const bool is_aligned = base_is_aligned((uintptr_t)memory | bytes, FABRIC_WORD_BYTES);
    if (memory == NULL || (rights != 0 && !is_aligned))
        return -EINVAL;
    struct making making = {.progress = NULL};
    return make_region(domain, memory, bytes, rights, &making, ret_region);
}

int fabric_region_adopt(struct tarn_fabric_domain *domain, void *memory, uint64_t bytes, uint32_t rights,
                        struct tarn_fabric_region **ret_region)
{
    struct making making = {.make = domain->fabric->provider->region_adopt};
    base_assert(base_is_aligned((uintptr_t)memory | bytes, BASE_PAGE_BYTES) &&
                rights == TARN_FABRIC_MAY_READ);
    return make_region(domain, memory, bytes, rights, &making, ret_region);
}

void tarn_fabric_region_free(struct tarn_fabric_region *region)
{
    struct tarn_fabric_domain *domain = region->domain;
    const struct fabric_provider *provider = domain->fabric->provider;
    struct making making = {.free = region->handle.rights == 0 ? free_local : provider->region_free,
                            .domain = domain->state,
                            .region = region};
    run_provider(&making);
    base_free(&domain->fabric->node->memory, region, sizeof(*region));
    atomic_fetch_sub(&domain->users, 1);
}
