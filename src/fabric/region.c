/* Regions: having a provider make, register and free them. */
#include "fabric/fabric_internal.h"
#include "fabric/lanes.h"
#include "task/thread.h"
#include <errno.h>

#define ASIDE_BYTES (UINT64_C(1) << 20) /* of a region that is made by a thread, where a task wants it */

/* A region that a thread makes for a task. */
struct making {
    int (*make)(void *domain, struct tarn_fabric_region *region);
    void *domain;
    struct tarn_fabric_region *region;
    int error;
    struct task_wait wait;
};

static void *make_aside(void *arg)
{
    struct making *making = arg;
    making->error = making->make(making->domain, making->region);
    (void)task_wait_wake(&making->wait, 0);
    return NULL;
}

/* Have the provider make a region or register one; touching a gigabyte takes half a second, in which a scheduler has
 * other tasks. */
static int make_of_provider(struct tarn_fabric_domain *domain, bool is_callers,
                            struct tarn_fabric_region *region)
{
    const struct fabric_provider *provider = domain->fabric->provider;
    struct making making = {.make = is_callers ? provider->region_register : provider->region_alloc,
                            .domain = domain->state,
                            .region = region};
    pthread_t thread;
    task_wait_init(&making.wait);
    if (task_is_thread() || !provider->regions_take_time || region->bytes < ASIDE_BYTES ||
        task_thread_start(&thread, "tarn-region", make_aside, &making) != 0)
        return making.make(making.domain, region);
    (void)task_wait_park_firmly(&making.wait);
    (void)pthread_join(thread, NULL);
    return making.error;
}

/* Make a region. @param memory  the caller's; NULL: the provider makes it */
static int make_region(struct tarn_fabric_domain *domain, void *memory, uint64_t bytes, uint32_t rights,
                       struct tarn_fabric_region **ret_region)
{
    const uint32_t known = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP;
    struct base_account *account = &domain->fabric->node->memory;
    if (bytes == 0 || bytes > INT64_MAX || rights == 0 || (rights & ~known) != 0)
        return -EINVAL;
    struct tarn_fabric_region *region = base_alloc(account, sizeof(*region));
    if (region == NULL)
        return -ENOMEM;
    region->domain = domain;
    region->memory = memory;
    region->bytes = memory == NULL ? base_align_up(bytes, BASE_PAGE_BYTES) : bytes;
    region->handle.bytes = region->bytes;
    region->handle.rights = rights;
    int error = make_of_provider(domain, memory != NULL, region);
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
    return make_region(domain, NULL, bytes, rights, ret_region);
}

int tarn_fabric_region_register(struct tarn_fabric_domain *domain, void *memory, uint64_t bytes,
                                uint32_t rights, struct tarn_fabric_region **ret_region)
{
    if (memory == NULL || !base_is_aligned((uintptr_t)memory, FABRIC_WORD_BYTES) ||
        !base_is_aligned(bytes, FABRIC_WORD_BYTES))
        return -EINVAL;
    if (!fabric_registers(domain->fabric))
        return -EOPNOTSUPP;
    return make_region(domain, memory, bytes, rights, ret_region);
}

void tarn_fabric_region_free(struct tarn_fabric_region *region)
{
    struct tarn_fabric_domain *domain = region->domain;
    domain->fabric->provider->region_free(domain->state, region);
    base_free(&domain->fabric->node->memory, region, sizeof(*region));
    atomic_fetch_sub(&domain->users, 1);
}
