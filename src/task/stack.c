/* Stacks of tasks: guarded, reused, and given back when a burst is over. */
#include "task/stack.h"
#include "task/sched_internal.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13: a guard page without a mapping of its own */
#endif

enum {
    SLAB_STACKS = 16,
    SLABS_KEPT_EMPTY = 4,
    PAGE = 4096,
    COLOURS = 13, /* prime, so that it runs through neighbouring slabs */
    COLOUR_BYTES = 256,
    /* mprotect splits a mapping in two; the kernel allows 65,530 to a process, shared with others */
    MPROTECT_STACKS_MAX = 16000,
};

struct slab {
    struct base_list link; /* links slabs that have free stacks */
    struct base_fifo free; /* of struct task */
    uint8_t *memory;
    uint32_t number;
    uint32_t used;
    enum task_guard guard;
};

struct task_stacks {
    struct base_account *account;
    struct base_list open; /* slabs with free stacks, the ones in use first */
    struct slab **slabs;   /* by number; NULL: not mapped */
    uint32_t slabs_max;
    uint32_t mapped; /* number of mapped slabs */
    uint32_t empty;  /* number of mapped slabs without a stack in use */
    uint32_t stacks_max;
    uint32_t used;
    size_t stack_bytes;
    enum task_guard guard; /* the kind of guard that new slabs get */
    uint64_t peak_bytes;   /* the deepest use of the stacks that were unmapped */
};

int task_stacks_open(struct base_account *account, uint32_t stack_bytes, uint32_t stacks_max,
                     enum task_guard guard, struct task_stacks **ret_stacks)
{
    base_assert(stack_bytes % PAGE == 0 && stack_bytes >= 4 * PAGE && stacks_max > 0);
    struct task_stacks *stacks = base_alloc(account, sizeof(*stacks));
    if (stacks == NULL)
        return -ENOMEM;
    stacks->account = account;
    stacks->stack_bytes = stack_bytes;
    stacks->stacks_max = stacks_max;
    stacks->guard = guard;
    stacks->slabs_max = (stacks_max + SLAB_STACKS - 1) / SLAB_STACKS;
    base_list_init(&stacks->open);
    stacks->slabs = base_alloc(account, stacks->slabs_max * sizeof(*stacks->slabs));
    if (stacks->slabs == NULL) {
        base_free(account, stacks, sizeof(*stacks));
        return -ENOMEM;
    }
    *ret_stacks = stacks;
    return 0;
}

static uint8_t *stack_memory(const struct task_stacks *stacks, const struct slab *slab, uint32_t place)
{
    return slab->memory + (size_t)place * stacks->stack_bytes;
}

static struct task *stack_task(const struct task_stacks *stacks, const struct slab *slab, uint32_t place)
{
    uint32_t number = slab->number * SLAB_STACKS + place;
    size_t colour = number % COLOURS * COLOUR_BYTES;
    size_t task_bytes = base_align_up(sizeof(struct task), 64);
    return (struct task *)(stack_memory(stacks, slab, place) + stacks->stack_bytes - colour - task_bytes);
}

static const struct slab *task_slab(const struct task_stacks *stacks, const struct task *task)
{
    return stacks->slabs[task->stack_number / SLAB_STACKS];
}

static bool guard_pages(const struct task_stacks *stacks, const struct slab *slab, enum task_guard guard)
{
    for (uint32_t i = 0; i < SLAB_STACKS; i++) {
        uint8_t *page = stack_memory(stacks, slab, i);
        int error = guard == TASK_GUARD_INSTALL ? madvise(page, PAGE, MADV_GUARD_INSTALL)
                                                : mprotect(page, PAGE, PROT_NONE);
        if (error != 0)
            return false;
    }
    return true;
}

/* Guard all stacks of a slab in the best way that this kernel has and its limits allow. */
static void guard_slab(struct task_stacks *stacks, struct slab *slab)
{
    if (stacks->guard == TASK_GUARD_INSTALL && !guard_pages(stacks, slab, TASK_GUARD_INSTALL))
        stacks->guard = TASK_GUARD_PROTECT;
    slab->guard = stacks->guard;
    if (slab->guard == TASK_GUARD_PROTECT && (slab->number * SLAB_STACKS >= MPROTECT_STACKS_MAX ||
                                              !guard_pages(stacks, slab, TASK_GUARD_PROTECT))) {
        (void)mprotect(slab->memory, SLAB_STACKS * stacks->stack_bytes, PROT_READ | PROT_WRITE);
        slab->guard = TASK_GUARD_WORD;
    }
    for (uint32_t i = 0; i < SLAB_STACKS && slab->guard == TASK_GUARD_WORD; i++) {
        uint64_t *word = (uint64_t *)(void *)stack_memory(stacks, slab, i);
        *word = TASK_GUARD_WORD_VALUE;
        stack_task(stacks, slab, i)->guard_word = word;
    }
}

static struct slab *map_slab(struct task_stacks *stacks, uint32_t number)
{
    size_t bytes = SLAB_STACKS * stacks->stack_bytes;
    struct slab *slab = base_alloc(stacks->account, sizeof(*slab));
    if (slab == NULL)
        return NULL;
    if (base_account_take(stacks->account, bytes) != 0)
        goto free_slab;
    slab->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (slab->memory == MAP_FAILED)
        goto give;
    (void)madvise(slab->memory, bytes, MADV_NOHUGEPAGE); /* a touched page must not bring 511 others */
    slab->number = number;
    guard_slab(stacks, slab);
    for (uint32_t i = 0; i < SLAB_STACKS; i++) {
        struct task *task = stack_task(stacks, slab, i);
        task->stack_number = number * SLAB_STACKS + i;
        base_fifo_push(&slab->free, &task->run_link);
    }
    stacks->slabs[number] = slab;
    stacks->mapped++;
    stacks->empty++;
    base_list_push_back(&stacks->open, &slab->link);
    return slab;
give:
    base_account_give(stacks->account, bytes);
free_slab:
    base_free(stacks->account, slab, sizeof(*slab));
    return NULL;
}

static void unmap_slab(struct task_stacks *stacks, struct slab *slab)
{
    size_t bytes = SLAB_STACKS * stacks->stack_bytes;
    for (uint32_t i = 0; i < SLAB_STACKS; i++)
        task_context_release(&stack_task(stacks, slab, i)->context);
#ifdef TASK_ASAN
    __asan_unpoison_memory_region(slab->memory, bytes);
#endif
    (void)munmap(slab->memory, bytes);
    base_account_give(stacks->account, bytes);
    stacks->slabs[slab->number] = NULL;
    stacks->mapped--;
    if (base_list_is_linked(&slab->link))
        base_list_remove(&slab->link);
    base_free(stacks->account, slab, sizeof(*slab));
}

void task_stacks_close(struct task_stacks *stacks)
{
    for (uint32_t i = 0; i < stacks->slabs_max; i++) {
        if (stacks->slabs[i] != NULL)
            unmap_slab(stacks, stacks->slabs[i]);
    }
    base_free(stacks->account, stacks->slabs, stacks->slabs_max * sizeof(*stacks->slabs));
    base_free(stacks->account, stacks, sizeof(*stacks));
}

static struct slab *map_next_slab(struct task_stacks *stacks)
{
    for (uint32_t i = 0; i < stacks->slabs_max; i++) {
        if (stacks->slabs[i] == NULL)
            return map_slab(stacks, i);
    }
    return NULL;
}

struct task *task_stacks_get(struct task_stacks *stacks)
{
    if (stacks->used == stacks->stacks_max)
        return NULL;
    struct slab *slab;
    struct base_list *first = base_list_first(&stacks->open);
    if (first != NULL)
        slab = base_container_of(first, struct slab, link);
    else
        slab = map_next_slab(stacks);
    if (slab == NULL)
        return NULL;
    struct task *task = base_container_of(base_fifo_pop(&slab->free), struct task, run_link);
    if (slab->used++ == 0)
        stacks->empty--;
    if (base_fifo_empty(&slab->free))
        base_list_remove(&slab->link);
    stacks->used++;
    return task;
}

void task_stacks_put(struct task_stacks *stacks, struct task *task)
{
    struct slab *slab = stacks->slabs[task->stack_number / SLAB_STACKS];
    base_fifo_push_front(
        &slab->free, &task->run_link); /* the stack that was used last is the warmest, and is taken first */
    stacks->used--;
    if (!base_list_is_linked(&slab->link))
        base_list_push_front(&stacks->open, &slab->link);
    if (--slab->used == 0) {
        stacks->empty++;
        base_list_remove(&slab->link); /* empty slabs last, so that some stay empty */
        base_list_push_back(&stacks->open, &slab->link);
    }
}

void *task_stacks_bottom(const struct task_stacks *stacks, const struct task *task, size_t *ret_bytes)
{
    const struct slab *slab = task_slab(stacks, task);
    uint8_t *bottom = stack_memory(stacks, slab, task->stack_number % SLAB_STACKS) + PAGE;
    *ret_bytes = (size_t)((const uint8_t *)task - bottom);
    return bottom;
}

/* Deepest use in one slab: the lowest page that is there, and in it the lowest word that is not zero. */
static uint64_t slab_peak_bytes(const struct task_stacks *stacks, const struct slab *slab)
{
    size_t pages = stacks->stack_bytes / PAGE;
    unsigned char resident[256];
    uint64_t peak = 0;
    for (uint32_t i = 0; i < SLAB_STACKS; i++) {
        const uint8_t *memory = stack_memory(stacks, slab, i);
        const uint8_t *end = (const uint8_t *)stack_task(stacks, slab, i);
        for (size_t page = 1; page < pages; page += sizeof(resident)) {
            size_t count = base_min(pages - page, sizeof(resident));
            size_t first = 0;
            if (mincore((void *)(uintptr_t)(memory + page * PAGE), count * PAGE, resident) != 0)
                break;
            while (first < count && (resident[first] & 1) == 0)
                first++;
            if (first == count)
                continue;
            const uint64_t *word = (const uint64_t *)(const void *)(memory + (page + first) * PAGE);
#ifndef TASK_ASAN /* which marks parts of stacks as unreadable: pages must do there */
            while ((const uint8_t *)word < end && *word == 0)
                word++;
#endif
            if ((const uint8_t *)word < end)
                peak = base_max(peak, (uint64_t)(end - (const uint8_t *)word));
            break;
        }
    }
    return peak;
}

bool task_stacks_excess(const struct task_stacks *stacks)
{
    return stacks->empty > SLABS_KEPT_EMPTY;
}

void task_stacks_trim(struct task_stacks *stacks)
{
    struct base_list *last = base_list_last(&stacks->open);
    while (stacks->empty > SLABS_KEPT_EMPTY && last != NULL) {
        struct slab *slab = base_container_of(last, struct slab, link);
        base_assert(slab->used == 0);
        stacks->peak_bytes = base_max(stacks->peak_bytes, slab_peak_bytes(stacks, slab));
        stacks->empty--;
        unmap_slab(stacks, slab);
        last = base_list_last(&stacks->open);
    }
}

uint64_t task_stacks_mapped(const struct task_stacks *stacks)
{
    return (uint64_t)stacks->mapped * SLAB_STACKS;
}

uint64_t task_stacks_peak_bytes(struct task_stacks *stacks)
{
    for (uint32_t i = 0; i < stacks->slabs_max; i++) {
        if (stacks->slabs[i] != NULL)
            stacks->peak_bytes = base_max(stacks->peak_bytes, slab_peak_bytes(stacks, stacks->slabs[i]));
    }
    return stacks->peak_bytes;
}

bool task_stacks_in_guard(const struct task_stacks *stacks, const struct task *task, const void *address)
{
    const struct slab *slab = task_slab(stacks, task);
    uintptr_t guard = (uintptr_t)stack_memory(stacks, slab, task->stack_number % SLAB_STACKS);
    return slab->guard != TASK_GUARD_WORD && (uintptr_t)address >= guard && (uintptr_t)address < guard + PAGE;
}
