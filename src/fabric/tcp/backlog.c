/*
 * Clients that a listener has not let in yet: their places by stage and by host, and their deadlines. There are few at a
 * stage, so a walk over them is all that counts them by host. Sockets, handshakes and hellos are listener.c's.
 */
#include "fabric/tcp/backlog.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static struct tcp_waiting *waiting_of(struct base_list *item)
{
    return base_container_of(item, struct tcp_waiting, link);
}

void tcp_backlog_init(struct tcp_backlog *backlog, uint64_t patience_ns, uint32_t places)
{
    *backlog = (struct tcp_backlog){.patience_ns = patience_ns, .places = places};
    for (unsigned stage = 0; stage < TCP_STAGES; stage++)
        base_list_init(&backlog->stages[stage].clients);
}

/* The client that gives way at a stage. */
static struct tcp_waiting *choose_victim(const struct tcp_backlog *backlog, enum tcp_stage stage)
{
    struct tcp_waiting *victim = NULL;
    base_list_for_each(item, &backlog->stages[stage].clients) {
        if (victim == NULL || waiting_of(item)->host_count > victim->host_count)
            victim = waiting_of(item);
    }
    return victim;
}

struct tcp_waiting *tcp_backlog_enter(struct tcp_backlog *backlog, struct tcp_waiting *client,
                                      enum tcp_stage stage, uint64_t now_ns)
{
    struct tcp_waiting *victim = NULL;
    tcp_backlog_leave(backlog, client);
    client->stage = stage;
    client->deadline_ns = now_ns + backlog->patience_ns;
    client->host_count = 1;
    base_list_for_each(item, &backlog->stages[stage].clients) {
        if (waiting_of(item)->host == client->host) {
            waiting_of(item)->host_count++;
            client->host_count++;
        }
    }
    base_list_push_back(&backlog->stages[stage].clients, &client->link);
    if (++backlog->stages[stage].count > backlog->places) {
        victim = choose_victim(backlog, stage);
        tcp_backlog_leave(backlog, victim);
    }
    return victim;
}

void tcp_backlog_leave(struct tcp_backlog *backlog, struct tcp_waiting *client)
{
    if (!base_list_is_linked(&client->link))
        return;
    base_list_remove(&client->link);
    backlog->stages[client->stage].count--;
    base_list_for_each(item, &backlog->stages[client->stage].clients)
        waiting_of(item)->host_count -= waiting_of(item)->host == client->host;
}

/* The client whose time is over first. @return NULL: there are no clients */
static struct tcp_waiting *find_first(const struct tcp_backlog *backlog)
{
    struct tcp_waiting *first = NULL;
    for (unsigned stage = 0; stage < TCP_STAGES; stage++) {
        struct base_list *item = base_list_first(&backlog->stages[stage].clients);
        if (item != NULL && (first == NULL || waiting_of(item)->deadline_ns < first->deadline_ns))
            first = waiting_of(item);
    }
    return first;
}

struct tcp_waiting *tcp_backlog_expire(struct tcp_backlog *backlog, uint64_t now_ns)
{
    struct tcp_waiting *first = find_first(backlog);
    if (first == NULL || now_ns < first->deadline_ns)
        return NULL;
    tcp_backlog_leave(backlog, first);
    return first;
}

uint64_t tcp_backlog_deadline(const struct tcp_backlog *backlog)
{
    const struct tcp_waiting *first = find_first(backlog);
    return first == NULL ? UINT64_MAX : first->deadline_ns;
}

uint64_t tcp_host_of(const char *peer)
{
    char host[INET6_ADDRSTRLEN];
    struct in6_addr six;
    const char *port = strrchr(peer, ':');
    size_t bytes = port == NULL ? strlen(peer) : (size_t)(port - peer);
    if (peer[0] != '[' || bytes < 2 || bytes - 2 >= sizeof(host))
        return base_hash64(peer, bytes, 0);
    memcpy(host, peer + 1, bytes - 2); /* without the brackets */
    host[bytes - 2] = '\0';
    if (inet_pton(AF_INET6, host, &six) != 1)
        return base_hash64(peer, bytes, 0);
    return base_hash64(&six, IN6_IS_ADDR_V4MAPPED(&six) ? sizeof(six) : sizeof(six) / 2, 0);
}
