/*
 * The stacks of a scheduler's tasks, each with its struct task at the top and a guard page at the
 * bottom, mapped in slabs:
 *
 *   slab ┌────────┬───────────────────────────┬──────┬─────────┬────────┬──────────
 *        │ guard  │ stack, growing down    ◀─ │ task │ colour  │ guard  │ stack ...
 *        └────────┴───────────────────────────┴──────┴─────────┴────────┴──────────
 *
 * The colour is a gap whose size differs from stack to stack, so that the hot ends of many stacks
 * do not compete for the same lines of the cache. Slabs that have become empty are unmapped when
 * the scheduler is idle.
 */
#ifndef TASK_STACK_H
#define TASK_STACK_H

#include "base/account.h"
#include "task/task.h"

struct task_stacks;

/* The ways to notice an overflow, best first. */
enum task_guard {
    TASK_GUARD_INSTALL, /* MADV_GUARD_INSTALL: a guard page that needs no mapping of its own (Linux 6.13) */
    TASK_GUARD_PROTECT, /* mprotect: two mappings a stack, and a process has 65,530 */
    TASK_GUARD_WORD,    /* no guard page: a word at the bottom, looked at when the task is switched away */
};

/**
 * An empty pool.
 *
 * @param stack_bytes  size of each stack, guard included: a multiple of the page size
 * @param stacks_max   the most stacks that the pool may have
 * @param guard        the best kind to try; where the kernel refuses, the next is taken
 * @return 0; -ENOMEM
 */
base_must_check int task_stacks_open(struct base_account *account, uint32_t stack_bytes, uint32_t stacks_max,
                                     enum task_guard guard, struct task_stacks **ret_stacks);

/** Unmap everything, stacks in use too. */
void task_stacks_close(struct task_stacks *stacks);

/** A task on a stack; its fields are zero or left from its last use. @return NULL: limit, memory cap or
 * kernel */
struct task *task_stacks_get(struct task_stacks *stacks);

/** Take a task back; the caller may still be running on its stack until it next switches. */
void task_stacks_put(struct task_stacks *stacks, struct task *task);

/** Where a task's stack begins above its guard, and how long it is up to its struct task. */
void *task_stacks_bottom(const struct task_stacks *stacks, const struct task *task, size_t *ret_bytes);

/** Whether there are more empty slabs than are worth keeping. */
bool task_stacks_excess(const struct task_stacks *stacks);

/** Unmap all empty slabs but a few; slow. Not to be called on a task's stack. */
void task_stacks_trim(struct task_stacks *stacks);

/** Stacks that are mapped. */
uint64_t task_stacks_mapped(const struct task_stacks *stacks);

/** The deepest use of any stack so far, in bytes, by the pages and words that were touched. */
uint64_t task_stacks_peak_bytes(struct task_stacks *stacks);

/** Whether an address lies in the guard of this task's stack. Async-signal-safe. */
bool task_stacks_in_guard(const struct task_stacks *stacks, const struct task *task, const void *address);

#endif
