/*
 * Domains: each is a protection domain, so the device refuses requests of other domains' connections. A region gets a
 * device address that no region of the domain had before: so a handle that has outlived its region names nothing, even
 * if the device gives the same rkey to another region.
 */
#include "fabric/verbs/verbs.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define BYTES_MAX (UINT64_C(1) << 46) /* half of a process's address space */

/*
 * A key has the rkey in its low half. Above it is the region's offset in its page, in lanes, because the device address
 * must have the same offset; above that the device address of the page, in units of 256 MiB: never 0, and never the
 * last. The offset is repeated in the high bits of the address, so a wrong bit anywhere in a key leads out of its region.
 */
#define LANES_SHIFT 32
#define UNIT_SHIFT  41
#define UNIT_BITS   28
#define AGAIN_BITS  (UNIT_BITS + 64 - UNIT_SHIFT)
#define UNITS_MAX   ((UINT64_C(1) << (64 - UNIT_SHIFT)) - 1)

#define HUGE_BYTES (UINT64_C(2) << 20)

/* Memory that is registered with the device: a region's, or a slab of buffers. */
struct verbs_memory {
    struct ibv_mr *mr;
    struct verbs_local local;
    bool is_callers; /* it belongs to a registered region, and so to the caller */
};

bool verbs_key_is_possible(uint64_t key)
{
    return key >> UNIT_SHIFT != 0 && key >> UNIT_SHIFT != UNITS_MAX;
}

uint64_t verbs_key_address(uint64_t key)
{
    const uint64_t lanes = key >> LANES_SHIFT & ((UINT64_C(1) << (UNIT_SHIFT - LANES_SHIFT)) - 1);
    return lanes << AGAIN_BITS | key >> UNIT_SHIFT << UNIT_BITS | lanes * 8;
}

uint32_t verbs_key_rkey(uint64_t key)
{
    return (uint32_t)key;
}

static struct base_account *account_of(const struct verbs_domain *domain)
{
    return &domain->verbs->node->memory;
}

static uint64_t charged_bytes(const struct verbs_domain *domain)
{
    return domain->bytes_max[VERBS_READABLE] + domain->bytes_max[VERBS_WRITABLE];
}

int verbs_domain_open(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain)
{
    struct verbs *verbs = state;
    struct base_account *account = &verbs->node->memory;
    if (options->readable_bytes > BYTES_MAX || options->writable_bytes > BYTES_MAX)
        return -EINVAL;
    struct verbs_domain *domain = base_alloc(account, sizeof(*domain));
    if (domain == NULL)
        return -ENOMEM;
    domain->verbs = verbs;
    domain->identity = task_rng(verbs->node);
    domain->units = task_rng(verbs->node) % (UNITS_MAX / 2);
    domain->bytes_max[VERBS_READABLE] = base_align_up(options->readable_bytes, BASE_PAGE_BYTES);
    domain->bytes_max[VERBS_WRITABLE] = base_align_up(options->writable_bytes, BASE_PAGE_BYTES);
    domain->regions_max = options->regions_max;
    base_spin_init(&domain->lock);
    int error = base_account_take(account, charged_bytes(domain));
    if (error == 0) {
        domain->pd = ibv_alloc_pd(verbs->device.context);
        if (domain->pd == NULL) {
            error = -errno;
            base_account_give(account, charged_bytes(domain));
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
    verbs_local_drop(domain);
    base_account_give(account_of(domain), charged_bytes(domain));
    base_free(account_of(domain), domain, sizeof(*domain));
}

/* ---- regions ------------------------------------------------------------------------------------ */

static enum verbs_place place_of(const struct tarn_fabric_region *region)
{
    const uint32_t changing = TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP;
    return (region->handle.rights & changing) != 0 ? VERBS_WRITABLE : VERBS_READABLE;
}

/* Reserve bytes, and device addresses that were never used. @return 0; -ENOSPC */
static int enter_region(struct verbs_domain *domain, const struct tarn_fabric_region *region, uint64_t bytes,
                        uint64_t *ret_unit)
{
    const enum verbs_place place = place_of(region);
    const uint64_t units = ((region->bytes + BASE_PAGE_BYTES) >> UNIT_BITS) + 1;
    base_spin_lock(&domain->lock);
    bool fits = domain->regions < domain->regions_max && units < UNITS_MAX / 2 &&
                bytes <= domain->bytes_max[place] - domain->bytes[place];
    if (fits) {
        if (domain->units + units >= UNITS_MAX)
            domain->units = 0; /* after 2^51 bytes, or eight million regions */
        *ret_unit = domain->units + 1;
        domain->units += units;
        domain->bytes[place] += bytes;
        domain->regions++;
    }
    base_spin_unlock(&domain->lock);
    return fits ? 0 : -ENOSPC;
}

static void leave_region(struct verbs_domain *domain, const struct tarn_fabric_region *region, uint64_t bytes)
{
    base_spin_lock(&domain->lock);
    domain->bytes[place_of(region)] -= bytes;
    domain->regions--;
    base_spin_unlock(&domain->lock);
}

/* The access that the device gives to peers. Relaxed ordering is never asked for. */
static int access_of(uint32_t rights)
{
    int flags = (rights & TARN_FABRIC_MAY_READ) != 0 ? IBV_ACCESS_REMOTE_READ : 0;
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
 * @param memory  bytes and address are set
 */
static int make_known(struct verbs_domain *domain, struct verbs_memory *memory, int flags, bool is_callers)
{
    struct verbs *verbs = domain->verbs;
    struct verbs_local *local = &memory->local;
    void *begin = (void *)(uintptr_t)local->memory;
    local->is_writable = true;
    memory->mr = ibv_reg_mr_iova(domain->pd, begin, local->bytes, local->address,
                                 (unsigned)flags | IBV_ACCESS_LOCAL_WRITE);
    if (memory->mr == NULL && is_callers && (flags & IBV_ACCESS_LOCAL_WRITE) == 0) {
        local->is_writable = false;
        memory->mr = ibv_reg_mr_iova(domain->pd, begin, local->bytes, local->address, (unsigned)flags);
    }
    if (memory->mr == NULL) {
        int error = errno == 0 ? -ENOMEM : -errno;
        base_warn_limited(&verbs->node->log, &verbs->refusals, "RDMA device takes no memory",
                          "bytes=%llu error=\"%s\" reason=\"memory must be locked for it: see ulimit -l\"",
                          (unsigned long long)local->bytes, strerrordesc_np(-error));
        return error;
    }
    local->lkey = memory->mr->lkey;
    int error = verbs_local_add(domain, local);
    if (error != 0)
        (void)ibv_dereg_mr(memory->mr);
    return error;
}

static void make_unknown(struct verbs_domain *domain, struct verbs_memory *memory)
{
    verbs_local_remove(domain, &memory->local);
    int error = ibv_dereg_mr(memory->mr); /* when this returns, the device uses the memory no more */
    base_assert(error == 0);
}

static int register_region(struct verbs_domain *domain, struct tarn_fabric_region *region, bool is_callers,
                           uint64_t unit)
{
    const uint64_t lanes = (uintptr_t)region->memory % BASE_PAGE_BYTES / 8;
    const uint64_t key = unit << UNIT_SHIFT | lanes << LANES_SHIFT;
    struct verbs_memory *own = base_alloc(account_of(domain), sizeof(*own));
    if (own == NULL)
        return -ENOMEM;
    own->is_callers = is_callers;
    own->local = (struct verbs_local){
        .memory = region->memory, .bytes = region->bytes, .address = verbs_key_address(key)};
    int error = make_known(domain, own, access_of(region->handle.rights), is_callers);
    if (error != 0) {
        base_free(account_of(domain), own, sizeof(*own));
        return error;
    }
    region->state = own;
    region->handle.domain = domain->identity;
    region->handle.key = key | own->mr->rkey;
    return 0;
}

int verbs_region_alloc(void *state, struct tarn_fabric_region *region)
{
    struct verbs_domain *domain = state;
    struct base_account *account = account_of(domain);
    const bool is_large = region->bytes >= HUGE_BYTES;
    uint64_t unit = 0;
    int error = enter_region(domain, region, region->bytes, &unit);
    if (error != 0)
        return error;
    region->memory = base_map_part(account, is_large ? HUGE_BYTES : BASE_PAGE_BYTES, region->bytes, 0);
    if (region->memory != NULL && is_large)
        (void)madvise(region->memory, region->bytes, MADV_HUGEPAGE); /* huge pages, where there are any */
    error = region->memory == NULL ? -ENOMEM : fabric_region_populate(region, region->memory);
    if (error == 0)
        error = register_region(domain, region, false, unit);
    if (error != 0) {
        base_unmap_part(account, region->memory, region->bytes, 0);
        leave_region(domain, region, region->bytes);
    }
    return error;
}

int verbs_region_register(void *state, struct tarn_fabric_region *region)
{
    struct verbs_domain *domain = state;
    uint64_t unit = 0;
    int error = enter_region(domain, region, 0, &unit);
    if (error != 0)
        return error;
    error = register_region(domain, region, true, unit);
    if (error != 0)
        leave_region(domain, region, 0);
    return error;
}

void verbs_region_free(void *state, struct tarn_fabric_region *region)
{
    struct verbs_domain *domain = state;
    struct verbs_memory *own = region->state;
    make_unknown(domain, own);
    if (!own->is_callers)
        base_unmap_part(account_of(domain), region->memory, region->bytes, 0);
    leave_region(domain, region, own->is_callers ? 0 : region->bytes);
    base_free(account_of(domain), own, sizeof(*own));
}

/* ---- buffers ------------------------------------------------------------------------------------ */

int verbs_buffers_made(void *state, void *memory, uint64_t bytes, void **ret_state)
{
    struct verbs_domain *domain = state;
    struct verbs_memory *own = base_alloc(account_of(domain), sizeof(*own));
    if (own == NULL)
        return -ENOMEM;
    own->local = (struct verbs_local){.memory = memory, .bytes = bytes, .address = (uintptr_t)memory};
    int error = make_known(domain, own, 0, false);
    if (error != 0) {
        base_free(account_of(domain), own, sizeof(*own));
        return error;
    }
    *ret_state = own;
    return 0;
}

void verbs_buffers_gone(void *state, void *buffers)
{
    struct verbs_domain *domain = state;
    make_unknown(domain, buffers);
    base_free(account_of(domain), buffers, sizeof(struct verbs_memory));
}
