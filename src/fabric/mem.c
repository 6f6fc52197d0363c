/* Exported memory: the owner's loads, stores and swaps, and waiting for a word to change. */
#include "fabric/fabric_internal.h"
#include <errno.h>

#define WORD_BYTES 8

/* ---- the owner's side --------------------------------------------------------------------------- */

static bool lies_within(const struct tarn_fabric_region *region, uint64_t offset, uint64_t bytes)
{
    return offset <= region->bytes && bytes <= region->bytes - offset;
}

static void check_word(const struct tarn_fabric_region *region, uint64_t offset)
{
    base_assert(base_is_aligned(offset, WORD_BYTES) && lies_within(region, offset, WORD_BYTES));
}

uint64_t tarn_fabric_mem_load64(const struct tarn_fabric_region *region, uint64_t offset)
{
    check_word(region, offset);
    if (base_unlikely(region->mem != NULL))
        return region->mem->load64(region, offset);
    return __atomic_load_n((const fabric_word *)(region->memory + offset), __ATOMIC_RELAXED);
}

void tarn_fabric_mem_store64(struct tarn_fabric_region *region, uint64_t offset, uint64_t value)
{
    check_word(region, offset);
    if (base_unlikely(region->mem != NULL))
        region->mem->store64(region, offset, value);
    else
        __atomic_store_n((fabric_word *)(region->memory + offset), value, __ATOMIC_RELAXED);
}

void tarn_fabric_mem_copy_out(const struct tarn_fabric_region *region, uint64_t offset, void *to,
                              uint64_t bytes)
{
    base_assert(lies_within(region, offset, bytes));
    if (base_unlikely(region->mem != NULL))
        region->mem->copy_out(region, offset, to, bytes);
    else
        fabric_lanes_load(to, region->memory + offset, bytes);
}

void tarn_fabric_mem_copy_in(struct tarn_fabric_region *region, uint64_t offset, const void *from,
                             uint64_t bytes)
{
    base_assert(lies_within(region, offset, bytes));
    if (base_unlikely(region->mem != NULL))
        region->mem->copy_in(region, offset, from, bytes);
    else
        fabric_lanes_store(region->memory + offset, from, bytes);
}

/* Check that the processor's swaps and the peers' are atomic among each other. @return 0; -EOPNOTSUPP (logged) */
static int check_atomics(const struct tarn_fabric_region *region)
{
    struct tarn_fabric *fabric = region->domain->fabric;
    if (base_likely(fabric->info.atomics == TARN_FABRIC_ATOMICS_MEMORY))
        return 0;
    base_warn_limited(
        &fabric->node->log, &fabric->failures, "owner cannot swap words of its region",
        "fabric=%s atomics=%s reason=\"swaps of the processor and of peers do not see each other: "
        "swap over a connection with oneself\"",
        fabric->info.provider, fabric_atomics_name(fabric->info.atomics));
    return -EOPNOTSUPP;
}

int tarn_fabric_mem_cas64(struct tarn_fabric_region *region, uint64_t offset, uint64_t compare,
                          uint64_t operand, uint64_t *ret_before)
{
    check_word(region, offset);
    int error = check_atomics(region);
    if (error != 0)
        return error;
    if (base_unlikely(region->mem != NULL)) {
        *ret_before = region->mem->cas64(region, offset, compare, operand);
        return 0;
    }
    (void)__atomic_compare_exchange_n((fabric_word *)(region->memory + offset), &compare, operand, false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    *ret_before = compare;
    return 0;
}

int tarn_fabric_mem_faa64(struct tarn_fabric_region *region, uint64_t offset, uint64_t add,
                          uint64_t *ret_before)
{
    check_word(region, offset);
    int error = check_atomics(region);
    if (error != 0)
        return error;
    *ret_before = base_unlikely(region->mem != NULL)
                      ? region->mem->faa64(region, offset, add)
                      : __atomic_fetch_add((fabric_word *)(region->memory + offset), add, __ATOMIC_RELAXED);
    return 0;
}

/* ---- waiting for a word ------------------------------------------------------------------------- */

#define LOOKS_A_TURN        8 /* looks before other tasks or threads get their turn */
#define TURNS_WITHOUT_PAUSE 1000
#define TURNS_A_CLOCK       8 /* turns from one look at the clock to the next */
#define PAUSE_NS_MIN        UINT64_C(10000)
#define PAUSE_NS_MAX        UINT64_C(1000000)

/* @return index of the first word that has changed; `count`: none has */
static uint32_t find_changed(const struct tarn_fabric_word *words, uint32_t count)
{
    for (uint32_t look = 0; look < LOOKS_A_TURN; look++) {
        for (uint32_t i = 0; i < count; i++) {
            if (tarn_fabric_mem_load64(words[i].region, words[i].offset) != words[i].old)
                return i;
        }
    }
    return count;
}

/* Pause before the next turn. @return 0; -ETIMEDOUT; -ECANCELED */
static int pause_before_turn(uint32_t turn, uint64_t *inout_pause_ns, uint64_t deadline_ns)
{
    if (task_cancelled())
        return -ECANCELED;
    if (turn < TURNS_WITHOUT_PAUSE) {
        task_yield();
        const bool tells_time = turn % TURNS_A_CLOCK == 0 && deadline_ns != TASK_FOREVER;
        return tells_time && task_now() >= deadline_ns ? -ETIMEDOUT : 0;
    }
    uint64_t now_ns = task_now();
    if (now_ns >= deadline_ns)
        return -ETIMEDOUT;
    uint64_t pause_ns = *inout_pause_ns;
    *inout_pause_ns = base_min(2 * pause_ns, PAUSE_NS_MAX);
    return task_sleep_until(now_ns + base_min(pause_ns, deadline_ns - now_ns));
}

int tarn_fabric_wait_any(const struct tarn_fabric_word *words, uint32_t count, uint64_t deadline_ns,
                         uint32_t *ret_index)
{
    if (count == 0)
        return -EINVAL;
    struct tarn_fabric *fabric = words[0].region->domain->fabric;
    if (fabric->provider->wait_any != NULL)
        return fabric->provider->wait_any(fabric->state, words, count, deadline_ns, ret_index);
    uint64_t pause_ns = PAUSE_NS_MIN;
    for (uint32_t turn = 0;; turn++) {
        uint32_t first_changed = find_changed(words, count);
        if (first_changed < count) {
            atomic_thread_fence(
                memory_order_acquire); /* all that was written before the word is seen after it */
            *ret_index = first_changed;
            return 0;
        }
        int error = pause_before_turn(turn, &pause_ns, deadline_ns);
        if (error != 0)
            return error;
    }
}
