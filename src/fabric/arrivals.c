/* A listener's queue of clients that wait to be accepted. */
#include "fabric/arrivals.h"

void fabric_arrivals_init(struct fabric_arrivals *arrivals, uint32_t most)
{
    fabric_bell_init(&arrivals->bell);
    base_list_init(&arrivals->list);
    arrivals->count = 0;
    arrivals->most = most;
}

bool fabric_arrivals_push(struct fabric_arrivals *arrivals, struct tarn_fabric_incoming *client)
{
    base_spin_lock(&arrivals->bell.lock);
    const bool has_room = arrivals->count < arrivals->most;
    if (has_room) {
        base_list_push_back(&arrivals->list, &client->link);
        arrivals->count++;
        fabric_bell_ring_locked(&arrivals->bell);
    }
    base_spin_unlock(&arrivals->bell.lock);
    return has_room;
}

static struct tarn_fabric_incoming *pop_client_locked(struct fabric_arrivals *arrivals)
{
    base_spin_assert_held(&arrivals->bell.lock);
    struct base_list *first = base_list_pop_front(&arrivals->list);
    if (first == NULL)
        return NULL;
    arrivals->count--;
    return base_container_of(first, struct tarn_fabric_incoming, link);
}

struct tarn_fabric_incoming *fabric_arrivals_pop(struct fabric_arrivals *arrivals)
{
    base_spin_lock(&arrivals->bell.lock);
    struct tarn_fabric_incoming *client = pop_client_locked(arrivals);
    base_spin_unlock(&arrivals->bell.lock);
    return client;
}

int fabric_arrivals_wait(struct fabric_arrivals *arrivals, uint64_t deadline_ns,
                         struct tarn_fabric_incoming **ret_client)
{
    struct tarn_fabric_incoming *client;
    int error = 0;
    base_spin_lock(&arrivals->bell.lock);
    while ((client = pop_client_locked(arrivals)) == NULL && error == 0) /* another caller may be quicker */
        error = fabric_bell_sleep_locked(&arrivals->bell, deadline_ns);
    base_spin_unlock(&arrivals->bell.lock);
    if (client == NULL)
        return error;
    *ret_client = client;
    return 0;
}
