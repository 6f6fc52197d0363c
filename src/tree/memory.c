/* Memory of an ordered store: taking it step by step, and sharing it. */
#include "tree/memory.h"
#include "fabric/fabric.h"
#include <errno.h>
#include <sys/mman.h>

#define STEP_BYTES_MIN (UINT64_C(4) << 20)

uint64_t tree_memory_step(uint64_t bytes)
{
    uint64_t step = STEP_BYTES_MIN;
    while (base_align_up(bytes, step) / step > TREE_STEPS_MAX)
        step *= 2;
    return step;
}

int tree_memory_open(struct base_account *account, uint64_t room_bytes, uint64_t step_bytes,
                     struct tree_memory *ret_memory)
{
    uint8_t *memory = base_map_part(account, STEP_BYTES_MIN, room_bytes, step_bytes);
    base_assert(room_bytes % step_bytes == 0 && room_bytes / step_bytes <= TREE_STEPS_MAX);
    if (memory == NULL)
        return -ENOMEM;
    (void)madvise(memory, room_bytes, MADV_HUGEPAGE); /* huge pages, where there are any */
    *ret_memory = (struct tree_memory){.account = account,
                                       .memory = memory,
                                       .room_bytes = room_bytes,
                                       .step_bytes = step_bytes,
                                       .bytes = step_bytes};
    return 0;
}

void tree_memory_close(struct tree_memory *memory)
{
    base_assert(memory->regions == NULL);
    if (memory->memory != NULL)
        base_unmap_part(memory->account, memory->memory, memory->room_bytes, memory->bytes);
}

/* ---- sharing --------------------------------------------------------------------------------------- */

static int share_step(const struct tree_memory *memory, struct tree_share *share, uint64_t step)
{
    return fabric_region_adopt(share->domain, memory->memory + step * memory->step_bytes, memory->step_bytes,
                               TARN_FABRIC_MAY_READ, &share->regions[step]);
}

/* End sharing the first steps with a domain. */
static void free_share(struct tree_memory *memory, struct tree_share *share, uint64_t steps)
{
    for (uint64_t i = 0; i < steps; i++)
        tarn_fabric_region_free(share->regions[i]);
    base_free(memory->account, share, sizeof(*share));
}

/* Write by the regions of any domain: all of them have the same bytes. */
static void choose_regions(struct tree_memory *memory)
{
    memory->regions = NULL;
    for (uint32_t i = 0; i < TREE_SHARES_MAX && memory->regions == NULL; i++)
        memory->regions = memory->shares[i] == NULL ? NULL : memory->shares[i]->regions;
}

int tree_memory_share(struct tree_memory *memory, struct tarn_fabric_domain *domain)
{
    uint32_t place = 0;
    while (place < TREE_SHARES_MAX && memory->shares[place] != NULL)
        place++;
    if (place == TREE_SHARES_MAX)
        return -ENOSPC;
    struct tree_share *share = base_alloc(memory->account, sizeof(*share));
    if (share == NULL)
        return -ENOMEM;
    share->domain = domain;
    for (uint64_t i = 0; i < memory->bytes / memory->step_bytes; i++) {
        int error = share_step(memory, share, i);
        if (error != 0) {
            free_share(memory, share, i);
            return error;
        }
    }
    memory->shares[place] = share;
    choose_regions(memory);
    return 0;
}

/* The place of a domain among those with which it is shared. @return TREE_SHARES_MAX: it is not */
static uint32_t place_of(const struct tree_memory *memory, const struct tarn_fabric_domain *domain)
{
    uint32_t place = 0;
    while (place < TREE_SHARES_MAX &&
           (memory->shares[place] == NULL || memory->shares[place]->domain != domain))
        place++;
    return place;
}

const struct tree_share *tree_memory_share_of(const struct tree_memory *memory,
                                              const struct tarn_fabric_domain *domain)
{
    const uint32_t place = place_of(memory, domain);
    return place == TREE_SHARES_MAX ? NULL : memory->shares[place];
}

void tree_memory_unshare(struct tree_memory *memory, const struct tarn_fabric_domain *domain)
{
    const uint32_t place = place_of(memory, domain);
    if (place == TREE_SHARES_MAX)
        return;
    struct tree_share *share = memory->shares[place];
    memory->shares[place] = NULL;
    choose_regions(memory);
    free_share(memory, share, memory->bytes / memory->step_bytes);
}

int tree_memory_prepare(struct tree_memory *memory)
{
    const uint64_t step = memory->bytes / memory->step_bytes;
    if (memory->bytes == memory->room_bytes)
        return -ENOSPC;
    int error = base_account_take(memory->account, memory->step_bytes);
    if (error != 0)
        return error;
    uint32_t done = 0;
    for (; done < TREE_SHARES_MAX && error == 0; done++)
        error = memory->shares[done] == NULL ? 0 : share_step(memory, memory->shares[done], step);
    if (error == 0)
        return 0;
    while (--done > 0) {
        if (memory->shares[done - 1] != NULL)
            tarn_fabric_region_free(memory->shares[done - 1]->regions[step]);
    }
    base_account_give(memory->account, memory->step_bytes);
    return error;
}

void tree_memory_write_shared(const struct tree_memory *memory, uint64_t offset, const void *from,
                              uint64_t bytes)
{
    while (bytes > 0) {
        const uint64_t step = offset / memory->step_bytes, at = offset % memory->step_bytes;
        const uint64_t part = base_min(bytes, memory->step_bytes - at);
        tarn_fabric_mem_copy_in(memory->regions[step], at, from, part);
        from = (const uint8_t *)from + part;
        offset += part;
        bytes -= part;
    }
}
