/*
 * Domains: each is a protection domain, so the device refuses requests of other domains' connections. A region gets a
 * device address that no region of the domain had before: so a handle that has outlived its region names nothing, even
 * if the device gives the same rkey to another region.
 */
#include "fabric/verbs/verbs.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* How a key and the low bits of a handle's domain say a region's device address: README, "verbs", "Rights". */
#define LANES_SHIFT 32
#define UNIT_SHIFT  41
#define UNIT_BITS   28
#define AGAIN_BITS  (UNIT_BITS + 64 - UNIT_SHIFT)
#define UNITS_MAX   ((UINT64_C(1) << (64 - UNIT_SHIFT)) - 1)

#define HUGE_BYTES (UINT64_C(2) << 20)
#define PAGES_MASK                                                                                           \
    (HUGE_BYTES / BASE_PAGE_BYTES - 1) /* the bits of a handle's domain that are a place of a page */

bool verbs_handle_is_of(const struct tarn_fabric_handle *handle, uint64_t identity)
{
    const uint64_t unit = handle->key >> UNIT_SHIFT;
    return (handle->domain & ~PAGES_MASK) == identity && unit != 0 && unit != UNITS_MAX;
}

uint64_t verbs_handle_address(const struct tarn_fabric_handle *handle)
{
    const uint64_t lanes = handle->key >> LANES_SHIFT & ((UINT64_C(1) << (UNIT_SHIFT - LANES_SHIFT)) - 1),
                   page = handle->domain & PAGES_MASK;
    return (lanes ^ page) << AGAIN_BITS | handle->key >> UNIT_SHIFT << UNIT_BITS | page * BASE_PAGE_BYTES |
           lanes * 8;
}

uint32_t verbs_handle_rkey(const struct tarn_fabric_handle *handle)
{
    return (uint32_t)handle->key;
}

static struct base_account *account_of(const struct verbs_domain *domain)
{
    return &domain->verbs->node->memory;
}

int verbs_domain_open(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain)
{
    struct verbs *verbs = state;
    struct base_account *account = &verbs->node->memory;
    struct verbs_domain *domain = base_alloc(account, sizeof(*domain));
    if (domain == NULL)
        return -ENOMEM;
    domain->verbs = verbs;
    domain->identity = task_rng(verbs->node) & ~PAGES_MASK;
    domain->units = task_rng(verbs->node) % (UNITS_MAX / 2);
    domain->left_bytes[false] = options->readable_bytes;
    domain->left_bytes[true] = options->writable_bytes;
    domain->charged_bytes = domain->left_bytes[false] + domain->left_bytes[true];
    domain->regions_left = options->regions_max;
    base_spin_init(&domain->lock);
    int error = base_account_take(account, domain->charged_bytes);
    if (error == 0) {
        domain->pd = ibv_alloc_pd(verbs->device.context);
        if (domain->pd == NULL) {
            error = -errno;
            base_account_give(account, domain->charged_bytes);
        }
    }
    if (error != 0) {
        base_free(account, domain, sizeof(*domain));
        return error;
    }
    *ret_domain = domain;
    return 0;
}

void verbs_domain_close(void *state)
{
    struct verbs_domain *domain = state;
    int error = ibv_dealloc_pd(domain->pd);
    base_assert(error == 0); /* its regions and connections are all freed */
    base_assert(domain->locals_count == 0);
    base_free(account_of(domain), domain->locals, domain->locals_room * sizeof(struct verbs_local));
    base_account_give(account_of(domain), domain->charged_bytes);
    base_free(account_of(domain), domain, sizeof(*domain));
}

/* ---- regions ------------------------------------------------------------------------------------ */

/* The bytes that a region takes of its domain's limit. */
static uint64_t bytes_of(const struct tarn_fabric_region *region)
{
    return region->is_callers ? 0 : region->bytes;
}

/* Reserve bytes, and device addresses that were never used. @return 0; -ENOSPC */
static int enter_region(struct verbs_domain *domain, const struct tarn_fabric_region *region,
                        uint64_t *ret_unit)
{
    uint64_t *left_bytes = &domain->left_bytes[fabric_may_change(region->handle.rights)];
    const uint64_t units = ((region->bytes + HUGE_BYTES) >> UNIT_BITS) + 1;
    base_spin_lock(&domain->lock);
    bool fits = domain->regions_left > 0 && units < UNITS_MAX / 2 && bytes_of(region) <= *left_bytes;
    if (fits) {
        if (domain->units + units >= UNITS_MAX)
            domain->units = 0; /* after 2^51 bytes, or eight million regions */
        *ret_unit = domain->units + 1;
        domain->units += units;
        *left_bytes -= bytes_of(region);
        domain->regions_left--;
    }
    base_spin_unlock(&domain->lock);
    return fits ? 0 : -ENOSPC;
}

/* Give back what a region has reserved, and its memory. */
static void leave_region(struct verbs_domain *domain, const struct tarn_fabric_region *region)
{
    if (!region->is_callers)
        base_unmap_part(account_of(domain), region->memory, region->bytes, 0);
    base_spin_lock(&domain->lock);
    domain->left_bytes[fabric_may_change(region->handle.rights)] += bytes_of(region);
    domain->regions_left++;
    base_spin_unlock(&domain->lock);
}

/* The access that the device gives to peers. Relaxed ordering is never asked for. */
static unsigned access_of(uint32_t rights)
{
    unsigned flags = (rights & TARN_FABRIC_MAY_READ) != 0 ? IBV_ACCESS_REMOTE_READ : 0;
    if ((rights & TARN_FABRIC_MAY_WRITE) != 0)
        flags |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    if ((rights & TARN_FABRIC_MAY_SWAP) != 0)
        flags |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    return flags;
}

/*
 * Register memory with the device, and enter it into the table. The device may also write there for this side's own
 * operations, unless it is a caller's memory that is mapped read-only.
 *
 * @param address  the device address of its beginning
 */
static int make_known(struct verbs_domain *domain, void *memory, uint64_t bytes, uint64_t address,
                      unsigned flags, struct ibv_mr **ret_mr)
{
    struct verbs *verbs = domain->verbs;
    struct verbs_local local = {.memory = memory, .bytes = bytes, .address = address, .is_writable = true};
    struct ibv_mr *mr = ibv_reg_mr_iova(domain->pd, memory, bytes, address, flags | IBV_ACCESS_LOCAL_WRITE);
    if (mr == NULL && (flags & IBV_ACCESS_LOCAL_WRITE) == 0) {
        local.is_writable = false;
        mr = ibv_reg_mr_iova(domain->pd, memory, bytes, address, flags);
    }
    if (mr == NULL) {
        int error = errno == 0 ? -ENOMEM : -errno;
        base_warn_limited(&verbs->node->log, &verbs->refusals, "RDMA device takes no memory",
                          "bytes=%llu error=\"%s\" reason=\"memory must be locked for it: see ulimit -l\"",
                          (unsigned long long)bytes, strerrordesc_np(-error));
        return error;
    }
    local.lkey = mr->lkey;
    int error = verbs_local_add(domain, &local);
    if (error == 0)
        *ret_mr = mr;
    else
        (void)ibv_dereg_mr(mr);
    return error;
}

static int register_region(struct verbs_domain *domain, struct tarn_fabric_region *region, uint64_t unit)
{
    struct tarn_fabric_handle *handle = &region->handle;
    const uint64_t lanes = (uintptr_t)region->memory % BASE_PAGE_BYTES / 8,
                   page = (uintptr_t)region->memory / BASE_PAGE_BYTES & PAGES_MASK;
    struct ibv_mr *mr = NULL;
    handle->domain = domain->identity | page;
    handle->key = unit << UNIT_SHIFT | lanes << LANES_SHIFT;
    int error = make_known(domain, region->memory, region->bytes, verbs_handle_address(handle),
                           access_of(handle->rights), &mr);
    if (error != 0)
        return error;
    region->state = mr;
    handle->key |= mr->rkey;
    return 0;
}

/* Make the memory of a region that is not the caller's. */
static int make_memory(struct verbs_domain *domain, struct tarn_fabric_region *region)
{
    const bool is_large = region->bytes >= HUGE_BYTES;
    region->memory =
        base_map_part(account_of(domain), is_large ? HUGE_BYTES : BASE_PAGE_BYTES, region->bytes, 0);
    if (region->memory == NULL)
        return -ENOMEM;
    if (is_large)
        (void)madvise(region->memory, region->bytes, MADV_HUGEPAGE); /* huge pages, where there are any */
    return fabric_region_populate(region, region->memory);
}

int verbs_region_alloc(void *state, struct tarn_fabric_region *region)
{
    struct verbs_domain *domain = state;
    uint64_t unit = 0;
    int error = enter_region(domain, region, &unit);
    if (error != 0)
        return error;
    if (!region->is_callers)
        error = make_memory(domain, region);
    if (error == 0)
        error = register_region(domain, region, unit);
    if (error != 0)
        leave_region(domain, region);
    return error;
}

void verbs_region_free(void *state, struct tarn_fabric_region *region)
{
    verbs_buffers_gone(state, region->state);
    leave_region(state, region);
}

/* ---- this side's memory -------------------------------------------------------------------------- */

int verbs_buffers_made(void *state, void *memory, uint64_t bytes, void **ret_state)
{
    struct ibv_mr *mr = NULL;
    int error = make_known(state, memory, bytes, (uintptr_t)memory, 0, &mr);
    if (error == 0)
        *ret_state = mr;
    return error;
}

void verbs_buffers_gone(void *state, void *buffers)
{
    verbs_local_remove(state, buffers);
    int error = ibv_dereg_mr(buffers); /* when this returns, the device uses the memory no more */
    base_assert(error == 0);
}
