/* A listener's queue of clients that wait to be accepted. */
#include "fabric/arrivals.h"

void fabric_arrivals_init(struct fabric_arrivals *arrivals, uint32_t most)
{
    base_spin_init(&arrivals->lock);
    base_list_init(&arrivals->list);
    arrivals->count = 0;
    arrivals->most = most;
    fabric_bell_init(&arrivals->bell);
}

bool fabric_arrivals_push(struct fabric_arrivals *arrivals, struct base_list *client)
{
    base_spin_lock(&arrivals->lock);
    const bool has_room = arrivals->count < arrivals->most;
    if (has_room) {
        base_list_push_back(&arrivals->list, client);
        arrivals->count++;
    }
    base_spin_unlock(&arrivals->lock);
    if (has_room)
        fabric_bell_ring(&arrivals->bell);
    return has_room;
}

struct base_list *fabric_arrivals_pop(struct fabric_arrivals *arrivals)
{
    base_spin_lock(&arrivals->lock);
    struct base_list *client = base_list_pop_front(&arrivals->list);
    arrivals->count -= client != NULL ? 1 : 0;
    base_spin_unlock(&arrivals->lock);
    return client;
}

static bool has_some(void *arg)
{
    struct fabric_arrivals *arrivals = arg;
    base_spin_lock(&arrivals->lock);
    const bool some = arrivals->count > 0;
    base_spin_unlock(&arrivals->lock);
    return some;
}

int fabric_arrivals_wait(struct fabric_arrivals *arrivals, uint64_t deadline_ns,
                         struct base_list **ret_client)
{
    const struct fabric_condition condition = {.ready = has_some, .arg = arrivals, .is_rare = true};
    while ((*ret_client = fabric_arrivals_pop(arrivals)) == NULL) { /* another caller may be quicker */
        int error = fabric_bell_wait(&arrivals->bell, &condition, deadline_ns);
        if (error != 0)
            return error;
    }
    return 0;
}
