/* What a process and a thread have used, and a free port. */
#ifndef LAB_USAGE_H
#define LAB_USAGE_H

#include "base/base.h"

/* What a process has used so far; differences mean something. */
struct lab_usage {
    uint64_t processor_ns;   /* of all its threads, kernel included */
    uint64_t sleeps;         /* times that a thread of it went to sleep */
    uint64_t resident_bytes; /* memory in use now */
};

/**
 * What the calling process has used.
 *
 * @return 0; an error of reading /proc
 */
base_must_check int lab_usage_read(struct lab_usage *ret_usage);

/** Processor time that the calling thread has used, kernel included; that of its helpers in the kernel is
 * not. */
uint64_t lab_thread_ns(void);

/** A port of 127.0.0.1 that is free now. @return 0; negative errno */
base_must_check int lab_find_port(uint16_t *ret_port);

#endif
