/* For tests of the laboratory: its command as a user runs it. */
#ifndef LAB_TESTING_H
#define LAB_TESTING_H

#include "bench/testing.h"
#include "lab/lab.h"

/** `tarn-lab` with these arguments. */
#define LAB_RUN(run, ...) run_command(run, &lab_program, (const char *const[]){__VA_ARGS__, NULL})

#endif
