/*
 * System V ABI for x86-64: rbx, rbp, r12 to r15 and rsp are the callee's to keep.
 *
 * A stack that is not running holds, from its stack pointer upwards:
 *   r15 r14 r13 r12 rbx rbp return-address
 */
#if defined(__x86_64__)

    .text
    .globl  task_context_swap
    .hidden task_context_swap
    .type   task_context_swap, @function
    .p2align 4
task_context_swap:
    .cfi_startproc
    pushq   %rbp
    pushq   %rbx
    pushq   %r12
    pushq   %r13
    pushq   %r14
    pushq   %r15
    movq    %rsp, (%rdi)
    movq    %rsi, %rsp
    popq    %r15
    popq    %r14
    popq    %r13
    popq    %r12
    popq    %rbx
    popq    %rbp
    ret
    .cfi_endproc
    .size   task_context_swap, . - task_context_swap

/* A new stack holds the entry function as r12 and its argument as rbx. */
    .globl  task_context_start
    .hidden task_context_start
    .type   task_context_start, @function
    .p2align 4
task_context_start:
    .cfi_startproc
    .cfi_undefined rip
    movq    %rbx, %rdi
    xorl    %ebp, %ebp
    callq   *%r12
    ud2
    .cfi_endproc
    .size   task_context_start, . - task_context_start

    .section .note.GNU-stack, "", @progbits
#endif
