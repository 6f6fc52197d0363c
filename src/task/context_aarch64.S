/*
 * AAPCS64: x19 to x28, the frame pointer x29, the link register x30, the low halves of v8 to v15
 * and sp are the callee's to keep.
 *
 * A stack that is not running holds, from its stack pointer upwards:
 *   x19 x20 x21 x22 x23 x24 x25 x26 x27 x28 x29 x30 d8 d9 d10 d11 d12 d13 d14 d15
 */
#if defined(__aarch64__)

    .text
    .globl  task_context_swap
    .hidden task_context_swap
    .type   task_context_swap, %function
    .p2align 4
task_context_swap:
    .cfi_startproc
    stp     x19, x20, [sp, #-160]!
    stp     x21, x22, [sp, #16]
    stp     x23, x24, [sp, #32]
    stp     x25, x26, [sp, #48]
    stp     x27, x28, [sp, #64]
    stp     x29, x30, [sp, #80]
    stp     d8, d9, [sp, #96]
    stp     d10, d11, [sp, #112]
    stp     d12, d13, [sp, #128]
    stp     d14, d15, [sp, #144]
    mov     x9, sp
    str     x9, [x0]
    mov     sp, x1
    ldp     x21, x22, [sp, #16]
    ldp     x23, x24, [sp, #32]
    ldp     x25, x26, [sp, #48]
    ldp     x27, x28, [sp, #64]
    ldp     x29, x30, [sp, #80]
    ldp     d8, d9, [sp, #96]
    ldp     d10, d11, [sp, #112]
    ldp     d12, d13, [sp, #128]
    ldp     d14, d15, [sp, #144]
    ldp     x19, x20, [sp], #160
    ret
    .cfi_endproc
    .size   task_context_swap, . - task_context_swap

/* A new stack holds the entry function as x19 and its argument as x20. */
    .globl  task_context_start
    .hidden task_context_start
    .type   task_context_start, %function
    .p2align 4
task_context_start:
    .cfi_startproc
    .cfi_undefined x30
    mov     x0, x20
    mov     x29, xzr
    mov     x30, xzr
    blr     x19
    brk     #1
    .cfi_endproc
    .size   task_context_start, . - task_context_start

    .section .note.GNU-stack, "", %progbits
#endif
