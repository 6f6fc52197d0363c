/* A spin lock with a list of sleepers, which wait until the data that it guards have changed. */
#include "fabric/tcp/gate.h"
#include "fabric/tcp/tcp.h"

void tcp_gate_init(struct tcp_gate *gate)
{
    base_spin_init(&gate->lock);
    base_list_init(&gate->sleepers);
}

void tcp_gate_lock(struct tcp_gate *gate)
{
    base_spin_lock(&gate->lock);
}

void tcp_gate_unlock(struct tcp_gate *gate)
{
    base_spin_unlock(&gate->lock);
}

void tcp_gate_wake_locked(struct tcp_gate *gate)
{
    base_spin_assert_held(&gate->lock);
    /* a sleeper takes itself out of the list, with the lock held */
    base_list_for_each(item, &gate->sleepers)
        (void)task_wait_wake(base_container_of(item, struct fabric_watch, link)->wait, 0);
}

int tcp_gate_sleep_locked(struct tcp_gate *gate, uint64_t deadline_ns)
{
    base_spin_assert_held(&gate->lock);
    struct task_wait wait;
    struct fabric_watch watch = {.wait = &wait};
    task_wait_init(&wait);
    base_list_push_back(&gate->sleepers, &watch.link);
    tcp_gate_unlock(gate);
    int result = task_wait_park(&wait, deadline_ns);
    tcp_gate_lock(gate);
    base_list_remove(&watch.link);
    return result;
}

void tcp_gate_sleep_firmly_locked(struct tcp_gate *gate)
{
    base_spin_assert_held(&gate->lock);
    struct task_wait wait;
    struct fabric_watch watch = {.wait = &wait};
    task_wait_init(&wait);
    base_list_push_back(&gate->sleepers, &watch.link);
    tcp_gate_unlock(gate);
    (void)task_wait_park_firmly(&wait);
    tcp_gate_lock(gate);
    base_list_remove(&watch.link);
}
