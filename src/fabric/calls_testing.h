/*
 * What every provider must do when an operation is posted and waited for in one call, and how such a call gets along
 * with what was posted before it.
 */
#ifndef FABRIC_CALLS_TESTING_H
#define FABRIC_CALLS_TESTING_H

#include "fabric/testing.h"

/* One call of each kind that is wrong, or may not be. */
struct wrong_call {
    enum tarn_fabric_op_kind kind;
    const struct tarn_fabric_handle *handle;
    uint64_t offset, bytes;
    uint8_t tag;
    int error;
};

/* fabric_calls: all of it. */
extern const struct testing_suite fabric_calls;

#endif
