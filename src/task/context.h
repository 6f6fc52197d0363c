/*
 * Context switch: the processor's callee-saved registers and the stack pointer, exchanged in one
 * function in assembly (context_x86_64.S, context_aarch64.S). Floating-point control words are not
 * switched: no code in Tarn changes them. Both sanitizers hear of every switch here.
 */
#ifndef TASK_CONTEXT_H
#define TASK_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define TASK_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TASK_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define TASK_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TASK_TSAN 1
#endif
#endif

#ifdef TASK_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef TASK_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* A stack that is not running, or room for the one that is. */
struct task_context {
    void *stack_pointer;
#ifdef TASK_ASAN
    void *fake_stack;
    const void *bottom;
    size_t bytes;
#endif
#ifdef TASK_TSAN
    void *fiber;
#endif
};

/** In assembly: save the callee's registers on this stack, its pointer in *save, and go on with `restore`. */
void task_context_swap(void **save, void *restore);

/** In assembly: where a new stack begins; calls the entry function that task_context_make() left there. */
void task_context_start(void);

/**
 * Make a context that calls `entry(arg)` when it is first switched to. `entry` never returns.
 *
 * @param bottom, bytes  the stack; its end is a multiple of 16
 */
void task_context_make(struct task_context *context, void *bottom, size_t bytes, void (*entry)(void *arg),
                       void *arg);

/** Describe the calling thread's own stack, so that switches back to it are understood by sanitizers. */
void task_context_adopt_thread(struct task_context *context);

/** Give back what sanitizers keep for a context that is not running. */
void task_context_release(struct task_context *context);

/**
 * Switch stacks; returns when something switches back to `from`.
 *
 * @param last  `from` is never switched to again
 */
static inline void task_context_switch(struct task_context *from, struct task_context *to, bool last)
{
#ifdef TASK_ASAN
    __sanitizer_start_switch_fiber(last ? NULL : &from->fake_stack, to->bottom, to->bytes);
#endif
#ifdef TASK_TSAN
    __tsan_switch_to_fiber(to->fiber, 0);
#endif
    (void)last;
    task_context_swap(&from->stack_pointer, to->stack_pointer);
#ifdef TASK_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

/** To be called first on a new stack. */
static inline void task_context_begin(void)
{
#ifdef TASK_ASAN
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
}

#endif
