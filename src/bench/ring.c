#include "bench/ring.h"

#include "task/context.h"
#include "task/task.h"
#include <errno.h>
#include <ucontext.h>

#if defined(TASK_ASAN) || defined(TASK_TSAN)
#define RING_SANITIZED 1 /* which know of task_context_switch(), and of no other */
#endif

enum {
    STACK_BYTES = (16 << 10) + 192, /* no multiple of a page: hot ends fall in different cache sets */
    HOPS_BETWEEN_CLOCKS = 16384,
};

/* One member's place, whatever kind of ring. */
struct member {
    struct ring *ring;
    struct member *next;
    struct member *previous;
    struct task_context context;
    ucontext_t ucontext;
    void *fcontext;
    uint8_t *stack;
};

struct ring {
    struct member *members;
    uint8_t *stacks;
    uint32_t count;
};

static int open_ring(struct base_account *account, uint32_t count, struct ring *ret_ring)
{
    struct ring ring = {.count = count};
    ring.members = base_alloc(account, count * sizeof(*ring.members));
    ring.stacks = base_alloc_aligned(account, BASE_CACHE_LINE_BYTES, (size_t)count * STACK_BYTES);
    if (ring.members == NULL || ring.stacks == NULL) {
        base_free(account, ring.members, count * sizeof(*ring.members));
        base_free(account, ring.stacks, (size_t)count * STACK_BYTES);
        return -ENOMEM;
    }
    *ret_ring = ring;
    for (uint32_t i = 0; i < count; i++) {
        ring.members[i].ring = ret_ring;
        ring.members[i].next = &ring.members[(i + 1) % count];
        ring.members[i].previous = &ring.members[(i + count - 1) % count];
        ring.members[i].stack = ring.stacks + (size_t)i * STACK_BYTES;
    }
    return 0;
}

static void close_ring(struct base_account *account, struct ring *ring)
{
    base_free(account, ring->members, ring->count * sizeof(*ring->members));
    base_free(account, ring->stacks, (size_t)ring->count * STACK_BYTES);
}

/* Go round and round for the time of a measurement; `hop` switches to the next and comes back from the last. */
static inline __attribute__((always_inline)) void
go_round(struct bench *bench, struct ring *ring, void (*hop)(struct member *member), struct bench_sample *sample)
{
    uint64_t block = base_max(HOPS_BETWEEN_CLOCKS / ring->count, 1U);
    uint64_t rounds = 0;
    uint64_t begin_ns = task_now();
    uint64_t elapsed_ns;
    do {
        for (uint64_t i = 0; i < block; i++)
            hop(&ring->members[0]);
        rounds += block;
        elapsed_ns = task_now() - begin_ns;
    } while (elapsed_ns < bench->options.duration_ns);
    sample->operations = rounds * ring->count;
    sample->elapsed_ns = elapsed_ns;
}

/* ---- context.h --------------------------------------------------------------------------------- */

static inline void hop_context(struct member *member)
{
    task_context_switch(&member->context, &member->next->context, false);
}

static void run_context(void *arg)
{
    task_context_begin();
    for (;;)
        hop_context(arg);
}

int bench_ring_context(void *arg, struct bench_sample *sample)
{
    const struct bench_ring *options = arg;
    struct ring ring;
    int error = open_ring(options->bench->account, options->members, &ring);
    if (error != 0)
        return error;
    task_context_adopt_thread(&ring.members[0].context);
    for (uint32_t i = 1; i < ring.count; i++) {
        struct member *member = &ring.members[i];
        task_context_make(&member->context, member->stack, STACK_BYTES, run_context, member);
    }
    bench_pin(&options->bench->machine, 0);
    go_round(options->bench, &ring, hop_context, sample);
    bench_unpin(&options->bench->machine);
    for (uint32_t i = 1; i < ring.count; i++)
        task_context_release(&ring.members[i].context);
    close_ring(options->bench->account, &ring);
    return 0;
}

/* ---- swapcontext ------------------------------------------------------------------------------- */

#ifdef RING_SANITIZED

int bench_ring_swapcontext(void *arg, struct bench_sample *sample)
{
    (void)arg;
    sample->skipped = "the sanitizer does not understand it";
    return 0;
}

#else

static inline void hop_swapcontext(struct member *member)
{
    (void)swapcontext(&member->ucontext, &member->next->ucontext);
}

/* makecontext() hands over numbers only. */
static void run_swapcontext(uint32_t high, uint32_t low)
{
    struct member *member = (struct member *)(((uintptr_t)high << 32) | low);
    for (;;)
        hop_swapcontext(member);
}

int bench_ring_swapcontext(void *arg, struct bench_sample *sample)
{
    const struct bench_ring *options = arg;
    struct ring ring;
    int error = open_ring(options->bench->account, options->members, &ring);
    if (error != 0)
        return error;
    for (uint32_t i = 1; i < ring.count; i++) {
        struct member *member = &ring.members[i];
        (void)getcontext(&member->ucontext);
        member->ucontext.uc_stack = (stack_t){.ss_sp = member->stack, .ss_size = STACK_BYTES};
        makecontext(&member->ucontext, (void (*)(void))run_swapcontext, 2, (uint32_t)((uintptr_t)member >> 32),
                    (uint32_t)(uintptr_t)member);
    }
    bench_pin(&options->bench->machine, 0);
    go_round(options->bench, &ring, hop_swapcontext, sample);
    bench_unpin(&options->bench->machine);
    close_ring(options->bench->account, &ring);
    return 0;
}

#endif

/* ---- boost ------------------------------------------------------------------------------------- */

#if defined(BENCH_BOOST_CONTEXT) && !defined(RING_SANITIZED)

/* What a switch brings along: who switched, and his pointer. */
struct boost_transfer {
    void *fcontext;
    void *data;
};

struct boost_transfer jump_fcontext(void *to, void *data);
void *make_fcontext(void *stack_end, size_t stack_bytes, void (*function)(struct boost_transfer transfer));

/* A context can be resumed once; whoever it switched to keeps it for the next time. */
static inline void hop_boost(struct member *member)
{
    struct boost_transfer transfer = jump_fcontext(member->next->fcontext, member->next);
    member->previous->fcontext = transfer.fcontext;
}

static void run_boost(struct boost_transfer transfer)
{
    struct member *member = transfer.data;
    member->previous->fcontext = transfer.fcontext;
    for (;;)
        hop_boost(member);
}

int bench_ring_boost(void *arg, struct bench_sample *sample)
{
    const struct bench_ring *options = arg;
    struct ring ring;
    int error = open_ring(options->bench->account, options->members, &ring);
    if (error != 0)
        return error;
    for (uint32_t i = 1; i < ring.count; i++) {
        struct member *member = &ring.members[i];
        uintptr_t end = base_align_down((uintptr_t)member->stack + STACK_BYTES, 16);
        member->fcontext = make_fcontext((void *)end, STACK_BYTES, run_boost);
    }
    bench_pin(&options->bench->machine, 0);
    go_round(options->bench, &ring, hop_boost, sample);
    bench_unpin(&options->bench->machine);
    close_ring(options->bench->account, &ring);
    return 0;
}

#else

int bench_ring_boost(void *arg, struct bench_sample *sample)
{
    (void)arg;
    sample->skipped = "boost's context library was not there when this was built";
    return 0;
}

#endif
