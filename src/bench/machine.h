/*
 * The machine that is measured: what it is, and where threads run.
 */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include "base/base.h"
#include <sched.h>

/** Room for a name of the machine's parts. */
#define BENCH_MACHINE_TEXT_ROOM 128

/** Cores that benchmarks use: one for what is measured, one for what loads it. */
#define BENCH_CORES_MAX 2

struct bench_machine {
    char processor[BENCH_MACHINE_TEXT_ROOM]; /* "model name" of the first */
    char kernel[BENCH_MACHINE_TEXT_ROOM];
    char disk
        [BENCH_MACHINE_TEXT_ROOM]; /* the working folder's, its model if it tells one: "nvme0n1 Samsung SSD 980" */
    uint64_t memory_bytes;
    uint32_t processors;           /* that this process may use */
    size_t cores[BENCH_CORES_MAX]; /* the first of them; on a machine with one, the same twice */
    cpu_set_t allowed;             /* where it ran when it was asked */
};

/** Look at the machine. What it does not tell is "unknown". */
void bench_machine_read(struct bench_machine *ret_machine);

/**
 * Keep the calling thread, and what it starts from now on, on one core.
 *
 * @param core  index in machine->cores. A refusal is ignored: the figures are then noisier.
 */
void bench_pin(const struct bench_machine *machine, int core);

/** Let the calling thread run where it was allowed to in the beginning. */
void bench_unpin(const struct bench_machine *machine);

/** Whether what loads does not take the core of what is loaded. */
bool bench_has_two_cores(const struct bench_machine *machine);

/**
 * Read a number from a file of the kernel's: behind blanks in the first line that begins with `name`, which may be "".
 *
 * @return 0; -ENOENT; negative errno
 */
base_must_check int bench_number_read(const char *path, const char *name, uint64_t *ret_number);

#endif
