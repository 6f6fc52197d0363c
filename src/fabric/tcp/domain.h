/* Domains and regions. For the files of this folder. */
#ifndef FABRIC_TCP_DOMAIN_H
#define FABRIC_TCP_DOMAIN_H

#include "fabric/fabric_internal.h"
#include "fabric/key.h"

struct tcp;

/* The two limits of a domain, to one of which a region's bytes are charged. */
enum tcp_place { TCP_READABLE, TCP_WRITABLE, TCP_PLACES };

struct tcp_region {
    uint64_t key; /* its low 16 bits are its place in the table */
    uint8_t *memory;
    uint64_t bytes;
    uint32_t rights;
    enum tcp_place place;
    bool borrowed;          /* the memory belongs to the caller */
    bool published;         /* peers may find it: its memory is there */
    _Atomic uint32_t users; /* number of copies under way */
};

struct tcp_domain {
    struct tcp *tcp;
    uint64_t identity; /* in every handle */
    uint64_t bytes_max[TCP_PLACES];
    uint64_t charged_bytes;
    struct base_spin lock; /* guards the fields below */
    uint64_t bytes[TCP_PLACES];
    struct fabric_keys keys;
    uint32_t table_slots;
    struct tcp_region **table;
};

/** Members of struct fabric_provider, which says what each promises. */
int tcp_domain_open(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain);
void tcp_domain_close(void *state);

/** region_alloc() of struct fabric_provider, and its region_register() where the region has memory already. */
int tcp_region_alloc(void *state, struct tarn_fabric_region *region);

/** Member of struct fabric_provider, which says what it promises. */
void tcp_region_free(void *state, struct tarn_fabric_region *region);

/**
 * Find a region that grants rights; its memory stays until tcp_region_put(), which must be called without a yield before.
 *
 * @param offset, bytes  the range that must lie within the region
 * @return NULL: there is none
 */
struct tcp_region *tcp_region_get(struct tcp_domain *domain, uint64_t identity, uint64_t key, uint32_t rights,
                                  uint64_t offset, uint64_t bytes);

/** Release a region that was found. */
void tcp_region_put(struct tcp_region *region);

#endif
