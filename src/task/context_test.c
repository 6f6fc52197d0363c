/*
 * Does a switch keep what the ABI says, whoever runs in between? Plain C without a framework, so that
 * it can also be built for another processor and run under an emulator (tests/aarch64).
 */
#include "base/base.h"
#include "task/context.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { STACK_BYTES = 256 << 10, COROUTINES = 7, DEPTH = 25 };

struct test;

struct coroutine {
    struct task_context context;
    struct test *test;
    uint8_t *stack;
    uint64_t result;
    double real_result;
};

struct test {
    struct task_context main;
    struct coroutine coroutines[COROUTINES];
};

/* More live integers and reals than there are registers to keep them, across a switch at each depth. */
static uint64_t churn(struct coroutine *self, uint64_t seed, int depth, double *real)
{
    uint64_t a = seed * 3, b = seed * 5, c = seed * 7, d = seed * 11, e = seed * 13, f = seed * 17;
    double u = (double)(seed % 1000), v = u * 0.5, w = u * 0.25, x = u + 1, y = u + 2, z = u + 3;
    if (self != NULL)
        task_context_switch(&self->context, &self->test->main, false);
    *real += u - v + w / (x + y * z); /* between the two, for an even number of errors is none */
    uint64_t below = depth == 0 ? seed : churn(self, seed * 31 + 1, depth - 1, real);
    if (self != NULL)
        task_context_switch(&self->context, &self->test->main, false);
    *real += u + v * w - x / (y + z + 1);
    return below ^ (a + (b ^ c) + (d ^ e) + f);
}

static void entry(void *arg)
{
    task_context_begin();
    struct coroutine *self = arg;
    base_assert((uintptr_t)__builtin_frame_address(0) % 16 == 0);
    self->result = churn(self, (uint64_t)(self - self->test->coroutines) + 1, DEPTH, &self->real_result);
    task_context_switch(&self->context, &self->test->main, true);
    abort();
}

int main(void)
{
    struct test test = {0};
    task_context_adopt_thread(&test.main);
    for (int i = 0; i < COROUTINES; i++) {
        struct coroutine *coroutine = &test.coroutines[i];
        coroutine->test = &test;
        coroutine->stack = aligned_alloc(16, STACK_BYTES);
        base_assert(coroutine->stack != NULL);
        task_context_make(&coroutine->context, coroutine->stack, STACK_BYTES, entry, coroutine);
    }
    /* each is entered once, and comes back twice at each depth and once at its end */
    for (int round = 0; round < 2 * (DEPTH + 1) + 1; round++) {
        for (int i = 0; i < COROUTINES; i++)
            task_context_switch(&test.main, &test.coroutines[i].context, false);
    }
    for (int i = 0; i < COROUTINES; i++) {
        double real = 0;
        base_assert(test.coroutines[i].result == churn(NULL, (uint64_t)i + 1, DEPTH, &real));
        base_assert(test.coroutines[i].real_result == real);
        task_context_release(&test.coroutines[i].context);
        free(test.coroutines[i].stack);
    }
    (void)printf("%d stacks, %d switches each: all registers kept\n", COROUTINES, 2 * (DEPTH + 1) + 1);
    return 0;
}
