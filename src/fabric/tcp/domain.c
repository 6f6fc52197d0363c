/*
 * Domains: a table of regions, in which every request is looked up. Peers reach a region only through this table, so
 * its memory is unmapped as soon as no copy is under way.
 */
#include "fabric/tcp/domain.h"
#include "fabric/tcp/tcp.h"
#include <errno.h>

static struct base_account *account_of(const struct tcp_domain *domain)
{
    return &domain->tcp->node->memory;
}

int tcp_domain_open(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain)
{
    struct tcp *tcp = state;
    struct base_account *account = &tcp->node->memory;
    struct tcp_domain *domain = base_alloc(account, sizeof(*domain));
    if (domain == NULL)
        return -ENOMEM;
    domain->tcp = tcp;
    domain->identity = task_rng(tcp->node);
    domain->bytes_max[TCP_READABLE] = options->readable_bytes;
    domain->bytes_max[TCP_WRITABLE] = options->writable_bytes;
    domain->charged_bytes = domain->bytes_max[TCP_READABLE] + domain->bytes_max[TCP_WRITABLE];
    domain->table_slots = options->regions_max;
    base_spin_init(&domain->lock);
    domain->table = base_alloc(account, domain->table_slots * sizeof(struct tcp_region *));
    int error = domain->table == NULL ? -ENOMEM : fabric_keys_init(&domain->keys);
    if (error == 0)
        error = base_account_take(account, domain->charged_bytes);
    if (error != 0) {
        base_free(account, domain->table, domain->table_slots * sizeof(struct tcp_region *));
        base_free(account, domain, sizeof(*domain));
        return error;
    }
    *ret_domain = domain;
    return 0;
}

void tcp_domain_close(void *state)
{
    struct tcp_domain *domain = state;
    base_account_give(account_of(domain), domain->charged_bytes);
    base_free(account_of(domain), domain->table, domain->table_slots * sizeof(struct tcp_region *));
    base_free(account_of(domain), domain, sizeof(*domain));
}

/* ---- regions ------------------------------------------------------------------------------------ */

/* The bytes that a region takes of its domain's limit. */
static uint64_t count_charged(const struct tcp_region *region)
{
    return region->borrowed ? 0 : region->bytes;
}

/* Reserve a region's bytes, its entry in the table and its key; peers do not find it yet. @return 0; -ENOSPC */
static int enter_region(struct tcp_domain *domain, struct tcp_region *region)
{
    base_spin_lock(&domain->lock);
    uint32_t slot = 0;
    while (slot < domain->table_slots && domain->table[slot] != NULL)
        slot++;
    bool fits = slot < domain->table_slots &&
                count_charged(region) <= domain->bytes_max[region->place] - domain->bytes[region->place];
    if (fits) {
        region->key = fabric_keys_next(&domain->keys, slot);
        domain->bytes[region->place] += count_charged(region);
        domain->table[slot] = region;
    }
    base_spin_unlock(&domain->lock);
    return fits ? 0 : -ENOSPC;
}

/* Have peers find a region from now on. */
static void publish_region(struct tcp_domain *domain, struct tcp_region *region)
{
    base_spin_lock(&domain->lock);
    region->published = true;
    base_spin_unlock(&domain->lock);
}

/* Remove a region from the table, and wait until the last copy that has found it is over. */
static void leave_region(struct tcp_domain *domain, struct tcp_region *region)
{
    base_spin_lock(&domain->lock);
    domain->table[fabric_key_slot(region->key)] = NULL;
    domain->bytes[region->place] -= count_charged(region);
    base_spin_unlock(&domain->lock);
    while (atomic_load(&region->users) != 0) /* as long as the copy of one frame takes */
        task_yield();
}

static void free_region(struct base_account *account, struct tcp_region *region)
{
    if (!region->borrowed && region->memory != NULL)
        base_unmap_part(account, region->memory, region->bytes, 0);
    base_free(account, region, sizeof(*region));
}

int tcp_region_alloc(void *state, struct tarn_fabric_region *region)
{
    struct tcp_domain *domain = state;
    struct base_account *account = account_of(domain);
    const uint32_t changing = TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP;
    enum tcp_place place = (region->handle.rights & changing) != 0 ? TCP_WRITABLE : TCP_READABLE;
    bool borrowed = region->memory != NULL;
    struct tcp_region *own = base_alloc(account, sizeof(*own));
    if (own == NULL)
        return -ENOMEM;
    own->bytes = region->bytes;
    own->rights = region->handle.rights;
    own->place = place;
    own->borrowed = borrowed;
    int error = enter_region(domain, own); /* before memory is touched for a region that has no place */
    if (error != 0) {
        base_free(account, own, sizeof(*own));
        return error;
    }
    own->memory = borrowed ? region->memory
                           : base_map_part(account, BASE_PAGE_BYTES, own->bytes,
                                           0); /* the domain's account is charged */
    if (own->memory == NULL)
        error = -ENOMEM;
    else if (!borrowed)
        error = fabric_region_populate(region, own->memory);
    if (error != 0) {
        leave_region(domain, own);
        free_region(account, own);
        return error;
    }
    publish_region(domain, own);
    region->memory = own->memory;
    region->state = own;
    region->handle.domain = domain->identity;
    region->handle.key = own->key;
    return 0;
}

void tcp_region_free(void *state, struct tarn_fabric_region *region)
{
    struct tcp_domain *domain = state;
    leave_region(domain, region->state);
    free_region(account_of(domain), region->state);
}

struct tcp_region *tcp_region_get(struct tcp_domain *domain, uint64_t identity, uint64_t key, uint32_t rights,
                                  uint64_t offset, uint64_t bytes)
{
    const uint32_t slot = fabric_key_slot(key);
    if (identity != domain->identity || slot >= domain->table_slots)
        return NULL;
    base_spin_lock(&domain->lock);
    struct tcp_region *region = domain->table[slot];
    if (region != NULL && (!region->published || region->key != key || (region->rights & rights) != rights ||
                           offset > region->bytes || bytes > region->bytes - offset))
        region = NULL;
    if (region != NULL)
        atomic_fetch_add(&region->users, 1);
    base_spin_unlock(&domain->lock);
    return region;
}

void tcp_region_put(struct tcp_region *region)
{
    atomic_fetch_sub(&region->users, 1); /* pairs with leave_region(): the copy is over */
}
