/* A lock, and sleeping until the data that it guards have changed. For the files of this folder. */
#ifndef FABRIC_TCP_GATE_H
#define FABRIC_TCP_GATE_H

#include "fabric/fabric_internal.h"

struct tcp_gate {
    struct base_spin lock;
    struct base_list sleepers; /* of struct fabric_watch */
};

/** Begin unlocked, without sleepers. */
void tcp_gate_init(struct tcp_gate *gate);

/** Take the lock: for a few microseconds, and never across a yield. Any thread. */
void tcp_gate_lock(struct tcp_gate *gate);

/** Give it back. */
void tcp_gate_unlock(struct tcp_gate *gate);

/** Wake all sleepers. */
void tcp_gate_wake_locked(struct tcp_gate *gate);

/** Unlock, sleep until woken, and lock again. @return 0; -ETIMEDOUT; -ECANCELED. Yields. */
base_must_check int tcp_gate_sleep_locked(struct tcp_gate *gate, uint64_t deadline_ns);

/** Sleep as above, without deadline or cancellation. Yields. */
void tcp_gate_sleep_firmly_locked(struct tcp_gate *gate);

#endif
