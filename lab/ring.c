/* Rings of bare stacks: the switches that a task's switch is compared to. */
#include "lab/ring.h"

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
    struct member *next;
    struct member *previous;
    struct task_context context;
    ucontext_t ucontext;
    void *fcontext;
    uint8_t *stack; /* NULL: the first, which is on the thread's own */
    bool same_code;
};

static void link_members(struct member *members, uint8_t *stacks, const struct lab_basic *options)
{
    uint32_t count = options->tasks;
    for (uint32_t i = 0; i < count; i++)
        members[i] = (struct member){.next = &members[(i + 1) % count],
                                     .previous = &members[(i + count - 1) % count],
                                     .stack = i == 0 ? NULL : stacks + (size_t)i * STACK_BYTES,
                                     .same_code = options->same_code};
}

static void go_round(const struct lab_basic *options, struct member *members,
                     void (*hops)(struct member *member, uint64_t count), struct bench_sample *sample)
{
    uint64_t block = base_max(HOPS_BETWEEN_CLOCKS / options->tasks, 1U);
    uint64_t rounds = 0;
    bench_pin(&options->bench->machine, 0);
    uint64_t begin_ns = task_now();
    do {
        hops(&members[0], block);
        rounds += block;
        sample->elapsed_ns = task_now() - begin_ns;
    } while (sample->elapsed_ns < options->bench->options.duration_ns);
    sample->operations = rounds * options->tasks;
    bench_unpin(&options->bench->machine);
}

/*
 * Make a ring and go round it for the time of a measurement.
 *
 * @param make     gets each member but the first, which is the calling thread
 * @param hops     do this number of switches
 * @param release  undoes `make`; NULL: nothing to do
 */
static int measure_ring(const struct lab_basic *options, void (*make)(struct member *member),
                        void (*hops)(struct member *member, uint64_t count),
                        void (*release)(struct member *member), struct bench_sample *sample)
{
    struct base_account *account = options->bench->account;
    const uint32_t count = options->tasks;
    struct member *members = base_alloc(account, count * sizeof(*members));
    uint8_t *stacks = base_alloc_aligned(account, BASE_CACHE_LINE_BYTES, (size_t)count * STACK_BYTES);
    const bool has_memory = members != NULL && stacks != NULL;
    if (has_memory) {
        link_members(members, stacks, options);
        for (uint32_t i = 1; i < count; i++)
            make(&members[i]);
        go_round(options, members, hops, sample);
        for (uint32_t i = 1; i < count && release != NULL; i++)
            release(&members[i]);
    }
    base_free(account, members, count * sizeof(*members));
    base_free(account, stacks, (size_t)count * STACK_BYTES);
    return has_memory ? 0 : -ENOMEM;
}

/* Say why a kind of ring cannot be measured. Builds that can measure all kinds do not call it. */
static base_unused int skip_ring(struct bench_sample *sample, const char *reason)
{
    sample->skipped = reason;
    return 0;
}

/*
 * Two functions for each kind: one that the first member calls, and in `same_code` the others too, and what
 * the others run. Processors guess where a switch goes by where it stands.
 */
#define DEFINE_HOPS(kind)                                                                                    \
    static __attribute__((noinline)) void hops_##kind(struct member *member, uint64_t count)                 \
    {                                                                                                        \
        for (uint64_t i = 0; i < count; i++)                                                                 \
            hop_##kind(member);                                                                              \
    }                                                                                                        \
    static void run_member_##kind(struct member *member)                                                     \
    {                                                                                                        \
        while (member->same_code)                                                                            \
            hops_##kind(member, UINT64_MAX);                                                                 \
        for (;;)                                                                                             \
            hop_##kind(member);                                                                              \
    }

/* ---- context.h --------------------------------------------------------------------------------- */

static inline void hop_context(struct member *member)
{
    task_context_switch(&member->context, &member->next->context, false);
}

DEFINE_HOPS(context)

static void run_context(void *arg)
{
    task_context_begin();
    run_member_context(arg);
}

static void make_context(struct member *member)
{
    if (member->previous->stack == NULL)
        task_context_adopt_thread(&member->previous->context);
    task_context_make(&member->context, member->stack, STACK_BYTES, run_context, member);
}

static void release_context(struct member *member)
{
    task_context_release(&member->context);
}

int lab_ring_context(void *arg, struct bench_sample *sample)
{
    return measure_ring(arg, make_context, hops_context, release_context, sample);
}

/* ---- swapcontext ------------------------------------------------------------------------------- */

#ifndef RING_SANITIZED

static inline void hop_swapcontext(struct member *member)
{
    (void)swapcontext(&member->ucontext, &member->next->ucontext);
}

DEFINE_HOPS(swapcontext)

/* makecontext() hands over numbers only. */
static void run_swapcontext(uint32_t high, uint32_t low)
{
    run_member_swapcontext((struct member *)(((uintptr_t)high << 32) | low));
}

static void make_swapcontext(struct member *member)
{
    (void)getcontext(&member->ucontext);
    member->ucontext.uc_stack = (stack_t){.ss_sp = member->stack, .ss_size = STACK_BYTES};
    makecontext(&member->ucontext, (void (*)(void))run_swapcontext, 2, (uint32_t)((uintptr_t)member >> 32),
                (uint32_t)(uintptr_t)member);
}

int lab_ring_swapcontext(void *arg, struct bench_sample *sample)
{
    return measure_ring(arg, make_swapcontext, hops_swapcontext, NULL, sample);
}

#else

int lab_ring_swapcontext(void *arg, struct bench_sample *sample)
{
    (void)arg;
    return skip_ring(sample, "the sanitizer does not understand it");
}

#endif

/* ---- boost ------------------------------------------------------------------------------------- */

#if defined(LAB_BOOST_CONTEXT) && !defined(RING_SANITIZED)

/* The result of a switch: the context that has switched here, and its pointer. */
struct boost_transfer {
    void *fcontext;
    void *data;
};

struct boost_transfer jump_fcontext(void *to, void *data);
void *make_fcontext(void *stack_end, size_t stack_bytes, void (*function)(struct boost_transfer transfer));

/* A context can be resumed once; the member that it has switched to keeps it for the next time. */
static inline void hop_boost(struct member *member)
{
    struct boost_transfer transfer = jump_fcontext(member->next->fcontext, member->next);
    member->previous->fcontext = transfer.fcontext;
}

DEFINE_HOPS(boost)

static void run_boost(struct boost_transfer transfer)
{
    struct member *member = transfer.data;
    member->previous->fcontext = transfer.fcontext;
    run_member_boost(member);
}

static void make_boost(struct member *member)
{
    uintptr_t end = base_align_down((uintptr_t)member->stack + STACK_BYTES, 16);
    member->fcontext = make_fcontext((void *)end, STACK_BYTES, run_boost);
}

int lab_ring_boost(void *arg, struct bench_sample *sample)
{
    return measure_ring(arg, make_boost, hops_boost, NULL, sample);
}

#else

int lab_ring_boost(void *arg, struct bench_sample *sample)
{
    (void)arg;
    return skip_ring(sample, "boost's context library was not there when this was built");
}

#endif
