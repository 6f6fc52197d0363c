/* Sleeping until something of a connection or listener changes, and being woken. For the files of this layer. */
#ifndef FABRIC_BELL_H
#define FABRIC_BELL_H

#include "task/sched.h"
#include "task/task.h"

/* The callers that sleep until something of a connection or listener changes. */
struct fabric_bell {
    struct base_spin lock;
    struct base_list waiters;
};

/* The condition that a caller waits for. */
struct fabric_condition {
    bool (*ready)(void *arg);
    void (*arm)(
        void *arg); /* ask the side that makes it ready to ring the bell; NULL: that side always rings */
    void *arg;
    bool is_rare; /* it takes long to come true: no caller polls it, and only the bell ends the wait */
};

/** Begin with no sleeper. */
void fabric_bell_init(struct fabric_bell *bell);

/** Have all sleepers look at their conditions. Any thread. */
void fabric_bell_ring(struct fabric_bell *bell);

/** Wait for a condition. @return 0; -ETIMEDOUT; -ECANCELED. Yields. */
base_must_check int fabric_bell_wait(struct fabric_bell *bell, const struct fabric_condition *condition,
                                     uint64_t deadline_ns);

#endif
