/* A lock, and sleeping until what it guards has changed. For the files of this folder. */
#ifndef FABRIC_TCP_GATE_H
#define FABRIC_TCP_GATE_H

#include "fabric/fabric_internal.h"

struct tcp_gate {
    struct base_spin lock;
    struct base_list sleepers; /* of struct task_wait */
};

/** Open, nobody sleeps. */
void tcp_gate_init(struct tcp_gate *gate);

/** Take the lock: for a few microseconds, and never across a yield. Any thread. */
void tcp_gate_lock(struct tcp_gate *gate);

/** Give it back. */
void tcp_gate_unlock(struct tcp_gate *gate);

/** Have all who sleep look again. */
void tcp_gate_wake_locked(struct tcp_gate *gate);

/** Sleep without the lock until woken. @return 0; -ETIMEDOUT; -ECANCELED. Yields. */
base_must_check int tcp_gate_sleep_locked(struct tcp_gate *gate, uint64_t deadline_ns);

/** The same, whatever happens. Yields. */
void tcp_gate_sleep_firmly_locked(struct tcp_gate *gate);

#endif
