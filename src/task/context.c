/* Contexts of tasks and threads: made, adopted and released; the switch itself is in assembly. */
#include "task/context.h"
#include "base/base.h"
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
enum { FRAME_WORDS = 7, FRAME_ENTRY = 3, FRAME_ARG = 4, FRAME_RETURN = 6 };
#elif defined(__aarch64__)
enum { FRAME_WORDS = 20, FRAME_ENTRY = 0, FRAME_ARG = 1, FRAME_RETURN = 11 };
#else
#error "task has context switches for x86-64 and aarch64 only; add context_ARCH.S and its frame here"
#endif

void task_context_make(struct task_context *context, void *bottom, size_t bytes, void (*entry)(void *arg),
                       void *arg)
{
    uintptr_t end = (uintptr_t)bottom + bytes;
    base_assert(end % 16 == 0);
#ifdef TASK_ASAN
    __asan_unpoison_memory_region(bottom, bytes);
    context->bottom = bottom;
    context->bytes = bytes;
    context->fake_stack = NULL;
#endif
#ifdef TASK_TSAN
    if (context->fiber != NULL)
        __tsan_destroy_fiber(context->fiber);
    context->fiber = __tsan_create_fiber(0);
#endif
    /* swap pops the frame and returns, which leaves the stack pointer at `end` */
    uintptr_t *frame = (uintptr_t *)end - FRAME_WORDS;
    memset(frame, 0, FRAME_WORDS * sizeof(*frame));
    frame[FRAME_ENTRY] = (uintptr_t)entry;
    frame[FRAME_ARG] = (uintptr_t)arg;
    frame[FRAME_RETURN] = (uintptr_t)task_context_start;
    context->stack_pointer = frame;
}

void task_context_adopt_thread(struct task_context *context)
{
#ifdef TASK_ASAN
    pthread_attr_t attributes;
    void *bottom = NULL;
    size_t bytes = 0;
    base_assert(pthread_getattr_np(pthread_self(), &attributes) == 0);
    base_assert(pthread_attr_getstack(&attributes, &bottom, &bytes) == 0);
    (void)pthread_attr_destroy(&attributes);
    context->bottom = bottom;
    context->bytes = bytes;
#endif
#ifdef TASK_TSAN
    context->fiber = __tsan_get_current_fiber();
#endif
    (void)context;
}

void task_context_release(struct task_context *context)
{
#ifdef TASK_TSAN
    if (context->fiber != NULL)
        __tsan_destroy_fiber(context->fiber);
    context->fiber = NULL;
#endif
    (void)context;
}
