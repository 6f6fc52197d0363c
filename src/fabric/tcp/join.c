/*
 * Sockets that join a connection: they come to the listener like others, and are handed
 * to the task that accepts that connection. The ticket in its welcome says which connection that is.
 */
#include "fabric/tcp/gate.h"
#include "fabric/tcp/hello.h"
#include "fabric/tcp/listener.h"
#include "fabric/tcp/tcp.h"
#include "fabric/tcp/wire.h"
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <string.h>

int tcp_party_open(struct tcp *tcp, struct tcp_party *party, uint32_t count)
{
    base_assert(count <= TCP_SOCKETS_MAX);
    *party = (struct tcp_party){.count = count};
    if (RAND_bytes(party->ticket, sizeof(party->ticket)) != 1)
        return -EIO;
    tcp_gate_lock(&tcp->gate);
    base_list_push_back(&tcp->parties, &party->link);
    tcp_gate_unlock(&tcp->gate);
    return 0;
}

void tcp_party_close(struct tcp *tcp, struct tcp_party *party)
{
    tcp_gate_lock(&tcp->gate);
    base_list_remove(&party->link);
    tcp_gate_unlock(&tcp->gate);
    for (uint32_t i = 0; i < party->count; i++) {
        if (party->joined[i] != NULL)
            tcp_reject(party->joined[i], -ECONNREFUSED);
    }
}

/* @return the party that has this ticket, or NULL */
static struct tcp_party *find_locked(struct tcp *tcp, const uint8_t *ticket)
{
    base_spin_assert_held(&tcp->gate.lock);
    base_list_for_each(item, &tcp->parties) {
        struct tcp_party *party = base_container_of(item, struct tcp_party, link);
        if (CRYPTO_memcmp(party->ticket, ticket, sizeof(party->ticket)) == 0)
            return party;
    }
    return NULL;
}

bool tcp_party_give(struct tcp *tcp, struct tcp_incoming *incoming)
{
    const struct tcp_hello *hello = tcp_incoming_hello(incoming);
    tcp_gate_lock(&tcp->gate);
    struct tcp_party *party = find_locked(tcp, hello->ticket);
    bool given = party != NULL && hello->number < party->count && !party->known[hello->number];
    if (given) {
        party->known[hello->number] = true;
        party->joined[hello->number] = incoming;
        tcp_gate_wake_locked(&tcp->gate);
    }
    tcp_gate_unlock(&tcp->gate);
    return given;
}

/* @return number of the first socket that has joined and was not taken; 0: none */
static uint32_t first_joined(const struct tcp_party *party)
{
    uint32_t number = party->count;
    while (number > 0 && (number == party->count || party->joined[number] == NULL))
        number--;
    return number;
}

int tcp_party_take(struct tcp *tcp, struct tcp_party *party, uint64_t deadline_ns, uint32_t *ret_number,
                   struct tcp_incoming **ret_incoming)
{
    int error = 0;
    uint32_t number;
    tcp_gate_lock(&tcp->gate);
    while ((number = first_joined(party)) == 0 && error == 0)
        error = tcp_gate_sleep_locked(&tcp->gate, deadline_ns);
    if (number != 0) {
        *ret_number = number;
        *ret_incoming = party->joined[number];
        party->joined[number] = NULL;
    }
    tcp_gate_unlock(&tcp->gate);
    return number != 0 ? 0 : error;
}
