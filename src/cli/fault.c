/*
 * Memory faults: a stack that overflowed is named on standard error; then the fault happens again
 * under the default action, so that it ends the process, and leaves a core, as if nobody had looked.
 * A signal that somebody sent does not happen again by itself.
 */
#include "cli/fault.h"
#include "base/base.h"
#include "task/node.h"
#include "task/sched.h"
#include <signal.h>
#include <unistd.h>

#define STACK_BYTES (UINT64_C(64) << 10)

static const char shorter[] = "tarn: the store's file has become shorter while it was open: leave it alone, "
                              "and restore it from a dump\n";

static void write_text(const char *text, size_t len)
{
    ssize_t written = write(STDERR_FILENO, text, len);
    (void)written; /* there is nobody left to tell */
}

static void explain_signal(int number, siginfo_t *info, void *context)
{
    char text[256];
    (void)context;
    if (task_fault_is_overflow(info->si_addr, text, sizeof(text))) {
        size_t len = strlen(text);
        text[len] = '\n'; /* in the place of the zero */
        write_text(text, len + 1);
    } else if (number == SIGBUS && info->si_code == BUS_ADRERR) {
        write_text(shorter, sizeof(shorter) - 1);
    }
    struct sigaction action = {.sa_handler = SIG_DFL};
    (void)sigaction(number, &action, NULL);
    if (info->si_code <= 0)
        (void)raise(number);
}

void cli_fault_install(void)
{
    struct sigaction action = {.sa_sigaction = explain_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    (void)sigaction(SIGSEGV, &action, NULL);
    (void)sigaction(SIGBUS, &action, NULL);
}

void cli_fault_begin_thread(struct tarn_node *node)
{
    stack_t stack = {.ss_size = STACK_BYTES, .ss_sp = base_alloc(&node->memory, STACK_BYTES)};
    if (stack.ss_sp != NULL && sigaltstack(&stack, NULL) != 0)
        base_free(&node->memory, stack.ss_sp, STACK_BYTES);
}

void cli_fault_end_thread(struct tarn_node *node)
{
    const stack_t none = {.ss_flags = SS_DISABLE};
    stack_t stack;
    if (sigaltstack(&none, &stack) == 0 && (stack.ss_flags & SS_DISABLE) == 0 && stack.ss_size == STACK_BYTES)
        base_free(&node->memory, stack.ss_sp, STACK_BYTES);
}
