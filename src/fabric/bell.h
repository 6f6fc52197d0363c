/* Sleeping until something of a connection or listener changes, and being woken. For the providers. */
#ifndef FABRIC_BELL_H
#define FABRIC_BELL_H

#include "task/sched.h"
#include "task/task.h"

/* The callers that sleep until something of a connection or listener changes. */
struct fabric_bell {
    struct base_spin lock;    /* guards `waiters`, and with tcp what they wait for */
    struct base_list waiters; /* of struct fabric_watch */
};

/* A caller's place among those that a bell wakes. A caller may have one at several bells, for one wait. */
struct fabric_watch {
    struct base_list link; /* fabric_bell.waiters */
    struct fabric_bell *bell;
    struct task_wait *wait; /* ended by each ring */
};

/* The condition that a caller waits for. */
struct fabric_condition {
    bool (*ready)(void *arg);
    void (*arm)(
        void *arg); /* ask the side that makes it ready to ring the bell; NULL: that side always rings */
    void *arg;
    bool is_rare; /* it takes long to come true: no caller polls it, and only the bell ends the wait */
};

/** Begin unlocked, with no sleeper. */
void fabric_bell_init(struct fabric_bell *bell);

/** Have all sleepers look at their conditions. Any thread. */
void fabric_bell_ring(struct fabric_bell *bell);

/** The same, with the lock held. */
void fabric_bell_ring_locked(struct fabric_bell *bell);

/** Take a place, whose `wait` is set, until fabric_bell_remove(). */
void fabric_bell_add(struct fabric_bell *bell, struct fabric_watch *watch);

/** Give a place back: when this returns no ring uses it. */
void fabric_bell_remove(struct fabric_watch *watch);

/** Wait for a condition. @return 0; -ETIMEDOUT; -ECANCELED. Yields. */
base_must_check int fabric_bell_wait(struct fabric_bell *bell, const struct fabric_condition *condition,
                                     uint64_t deadline_ns);

/** Unlock, sleep until the next ring, and lock again. @return 0; -ETIMEDOUT; -ECANCELED. Yields. */
base_must_check int fabric_bell_sleep_locked(struct fabric_bell *bell, uint64_t deadline_ns);

/** Sleep as above, without deadline or cancellation. Yields. */
void fabric_bell_sleep_firmly_locked(struct fabric_bell *bell);

#endif
