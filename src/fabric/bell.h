/* Sleeping until something of a connection or listener changes, and being woken. For the files of this layer. */
#ifndef FABRIC_BELL_H
#define FABRIC_BELL_H

#include "fabric/fabric.h"

/* The callers that sleep until something of a connection or listener changes. */
struct fabric_bell {
    struct base_spin lock;
    struct base_list waiters; /* of struct fabric_watch */
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

/** Have each ring end a caller's wait, until fabric_bell_remove(). */
void fabric_bell_add(struct fabric_bell *bell, struct fabric_watch *watch);

/** Have it ended no more; when this returns no ring uses it. */
void fabric_bell_remove(struct fabric_bell *bell, struct fabric_watch *watch);

/** Wait for a condition. @return 0; -ETIMEDOUT; -ECANCELED. Yields. */
base_must_check int fabric_bell_wait(struct fabric_bell *bell, const struct fabric_condition *condition,
                                     uint64_t deadline_ns);

#endif
