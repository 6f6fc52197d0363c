/* Listeners for memcached's protocol: the addresses of each store. Those for Tarn's own are kv_listen.c's. */
#include "serve/serve_internal.h"
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOPBACK  "127.0.0.1"
#define FOUND_MAX 16 /* the most addresses of a name */

/* The scheduler that accepts for a listener: each has its turn. */
static struct task_sched *listener_sched(const struct serve *serve, uint32_t listener)
{
    return serve->lanes[listener % serve->lane_count].sched;
}

static int log_refusal(const struct serve *serve, const char *reason)
{
    base_error(&serve->node->log, "cannot listen", "reason=\"%s\"", reason);
    return -EINVAL;
}

/* Check that an address was not bound already: the kernel allows two sockets at one address until one listens. */
static int check_apart(const struct serve *serve, const struct net_bound *bound)
{
    for (uint32_t i = 0; i < serve->listener_count; i++) {
        if (strcmp(serve->listeners[i].bound.address, bound->address) != 0)
            continue;
        base_error(&serve->node->log, "cannot listen",
                   "address=%s reason=\"it is named twice\" remedy=\"give each store, and Tarn's own "
                   "protocol, an address "
                   "of its own\"",
                   bound->address);
        return -EADDRINUSE;
    }
    return 0;
}

/* Bind an address for a store. @param node  its log gets a line about a failure; NULL: none */
static int bind_one(struct serve_store *store, struct tarn_node *node, const char *address)
{
    struct serve *serve = store->serve;
    const struct net_unix_access unix_access = {.mode = serve->unix_mode, .group = serve->unix_group};
    if (serve->listener_count == SERVE_LISTENERS_MAX)
        return log_refusal(serve, "there are too many addresses");
    struct serve_listener *listener = &serve->listeners[serve->listener_count];
    int error = net_bind(node, address, &unix_access, &listener->bound);
    if (error != 0)
        return error;
    error = check_apart(serve, &listener->bound);
    if (error != 0) {
        net_unbind(&listener->bound);
        return error;
    }
    listener->store = store;
    serve->listener_count++;
    return 0;
}

/* The length of an address without its port and the colon before that. */
static size_t host_len(const char *address)
{
    const char *colon = strrchr(address, ':');
    bool has_port = colon != NULL && strchr(colon, ']') == NULL;
    return has_port ? (size_t)(colon - address) : strlen(address);
}

static int bind_number(struct serve_store *store, struct tarn_node *node, const char *host, size_t len,
                       uint64_t port)
{
    char address[NET_ADDRESS_TEXT_MAX];
    int written = snprintf(address, sizeof(address), "%.*s:%" PRIu64, (int)len, host, port);
    if (written < 0 || (size_t)written >= sizeof(address))
        return log_refusal(store->serve, "the address is too long");
    return bind_one(store, node, address);
}

/* The addresses of a name, as text: IPv6 ones in brackets. */
struct found {
    char texts[FOUND_MAX][NET_ADDRESS_TEXT_MAX];
    size_t count;
};

static int complain_of_name(const struct serve *serve, const char *name, const char *reason,
                            const char *remedy)
{
    char quoted[NET_ADDRESS_TEXT_MAX];
    base_error(&serve->node->log, "cannot listen", "address=%s reason=\"%s\" remedy=\"%s\"",
               base_log_quote(quoted, sizeof(quoted), name, strlen(name)), reason, remedy);
    return -EINVAL;
}

static void add_found(struct found *found, const struct addrinfo *info)
{
    char number[INET6_ADDRSTRLEN];
    bool six = info->ai_family == AF_INET6;
    if (found->count == FOUND_MAX || (!six && info->ai_family != AF_INET) ||
        getnameinfo(info->ai_addr, info->ai_addrlen, number, sizeof(number), NULL, 0, NI_NUMERICHOST) != 0)
        return;
    (void)snprintf(found->texts[found->count++], NET_ADDRESS_TEXT_MAX, six ? "[%s]" : "%s", number);
}

/* Find the addresses of a name. Both of localhost are known without asking, because many tables of hosts have only one. */
static int find_addresses(const struct serve *serve, const char *name, struct found *found)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *infos;
    found->count = 0;
    if (strcmp(name, "localhost") == 0) {
        (void)snprintf(found->texts[0], NET_ADDRESS_TEXT_MAX, "127.0.0.1");
        (void)snprintf(found->texts[1], NET_ADDRESS_TEXT_MAX, "[::1]");
        found->count = 2;
        return 0;
    }
    int error = getaddrinfo(name, NULL, &hints, &infos);
    if (error != 0)
        return complain_of_name(
            serve, name, gai_strerror(error),
            "name an address, as 127.0.0.1 or [::1], or a host that is known here (/etc/hosts)");
    for (const struct addrinfo *info = infos; info != NULL; info = info->ai_next)
        add_found(found, info);
    freeaddrinfo(infos);
    return 0;
}

/* Bind all addresses of a name; on a machine without IPv6 those of IPv6 are left out. */
static int bind_name(struct serve_store *store, const char *name, uint64_t port)
{
    const struct serve *serve = store->serve;
    const uint32_t before = serve->listener_count;
    struct found found;
    int error = find_addresses(serve, name, &found);
    for (size_t i = 0; i < found.count && error == 0; i++) {
        const char *text = found.texts[i];
        if (!serve->options->insecure && !net_is_loopback(text))
            return complain_of_name(serve, name, "other machines reach it",
                                    "say --insecure if that is meant");
        error = bind_number(store, NULL, text, strlen(text), port);
        bool is_last = i + 1 == found.count && serve->listener_count == before;
        if (!is_last && (error == -EADDRNOTAVAIL || error == -EAFNOSUPPORT))
            error = 0;
        else if (error != 0) /* bind again, this time with a log line about the failure */
            error = bind_number(store, serve->node, text, strlen(text), port);
    }
    return error;
}

/* Bind a port at a host, which is a number or a name. */
static int bind_port(struct serve_store *store, const char *host, size_t len, uint64_t port)
{
    char name[NET_ADDRESS_TEXT_MAX];
    struct in_addr four;
    if (len >= sizeof(name))
        return log_refusal(store->serve, "the address is too long");
    memcpy(name, host, len);
    name[len] = '\0';
    bool is_number = name[0] == '[' || inet_pton(AF_INET, name, &four) == 1;
    return is_number ? bind_number(store, store->serve->node, name, len, port) : bind_name(store, name, port);
}

static int bind_path(struct serve_store *store, const char *path)
{
    char address[NET_ADDRESS_TEXT_MAX];
    int len = snprintf(address, sizeof(address), "unix:%s", path);
    if (len < 0 || (size_t)len >= sizeof(address))
        return log_refusal(store->serve, "the socket's path is too long");
    return bind_one(store, store->serve->node, address);
}

/* Bind an address of --listen: a host, and perhaps a port. @return 0; -EINVAL: the port is no number */
static int bind_address(struct serve_store *store, const char *address)
{
    const size_t len = host_len(address);
    uint64_t port = store->serve->options->port;
    char *end;
    if (address[len] == '\0')
        return bind_port(store, address, len, port);
    port = strtoull(address + len + 1, &end, 10);
    bool is_port = address[len + 1] >= '0' && address[len + 1] <= '9' && *end == '\0' && port <= UINT16_MAX;
    return is_port ? bind_port(store, address, len, port) : bind_one(store, store->serve->node, address);
}

/* Bind the first store's addresses: those of --listen, or else the loopback address, with the port of --port. */
static int bind_usual(struct serve_store *store)
{
    const struct serve_options *options = store->serve->options;
    const struct base_setting_list *list = &options->listen;
    int error = 0;
    for (size_t i = 0; i < list->count && error == 0; i++)
        error = bind_address(store, list->items[i]);
    if (error == 0 && list->count == 0 && options->unix_path == NULL)
        error = bind_port(store, LOOPBACK, strlen(LOOPBACK), options->port);
    if (error == 0 && options->unix_path != NULL)
        error = bind_path(store, options->unix_path);
    return error;
}

static bool is_same_host(const char *a, const char *b)
{
    return host_len(a) == host_len(b) && strncmp(a, b, host_len(a)) == 0;
}

/* Bind a store's own port, at each host of --listen. */
static int bind_hosts(struct serve_store *store)
{
    const struct base_setting_list *list = &store->serve->options->listen;
    if (list->count == 0)
        return bind_port(store, LOOPBACK, strlen(LOOPBACK), store->options.port);
    int error = 0;
    for (size_t i = 0; i < list->count && error == 0; i++) {
        bool is_again = false;
        for (size_t k = 0; k < i; k++)
            is_again = is_again || is_same_host(list->items[i], list->items[k]);
        if (!is_again)
            error = bind_port(store, list->items[i], host_len(list->items[i]), store->options.port);
    }
    return error;
}

static int add_kv_address(struct serve *serve, const char *host, const char *port)
{
    if (serve->kv_address_count == SERVE_KV_LISTEN_MAX)
        return log_refusal(serve, "the names of --kv-listen stand for too many addresses");
    int len =
        snprintf(serve->kv_addresses[serve->kv_address_count], NET_ADDRESS_TEXT_MAX, "%s%s", host, port);
    if (len < 0 || len >= NET_ADDRESS_TEXT_MAX)
        return log_refusal(serve, "the address is too long");
    serve->kv_address_count++;
    return 0;
}

/* Whether this machine has an address; the one of IPv6 of localhost may be missing. */
static bool is_here(const char *host)
{
    char address[NET_ADDRESS_TEXT_MAX];
    struct net_bound bound;
    (void)snprintf(address, sizeof(address), "%s:0", host);
    int error = net_bind(NULL, address, NULL, &bound);
    if (error == 0)
        net_unbind(&bound);
    return error != -EADDRNOTAVAIL && error != -EAFNOSUPPORT;
}

/* Find the address of a name of --kv-listen. @param port  with its colon */
static int find_kv_name(struct serve *serve, const char *name, const char *port)
{
    const struct serve_options *options = serve->options;
    const bool is_open = options->insecure || serve_fabric_is_secure(options->kv_fabric);
    const uint32_t before = serve->kv_address_count;
    struct found found;
    int error = find_addresses(serve, name, &found);
    for (size_t i = 0; i < found.count && error == 0; i++) {
        if (!is_open && !net_is_loopback(found.texts[i]))
            return complain_of_name(serve, name, "other machines reach it",
                                    "say --insecure if that is meant");
        if (is_here(found.texts[i]))
            error = add_kv_address(serve, found.texts[i], port);
    }
    if (error == 0 && serve->kv_address_count == before)
        return complain_of_name(serve, name, "this machine has none of its addresses",
                                "name an address that it has (ip address)");
    return error;
}

int serve_kv_addresses_find(struct serve *serve)
{
    const struct serve_options *options = serve->options;
    int error = 0;
    for (size_t i = 0; i < options->kv_listen.count && error == 0; i++) {
        char name[NET_ADDRESS_TEXT_MAX];
        struct in_addr four;
        const char *address = options->kv_listen.items[i];
        const size_t len = host_len(address);
        if (len >= sizeof(name))
            return log_refusal(serve, "the address is too long");
        memcpy(name, address, len);
        name[len] = '\0';
        bool is_number = name[0] == '[' || inet_pton(AF_INET, name, &four) == 1;
        error = is_number || !serve_fabric_has_ports(options->kv_fabric)
                    ? add_kv_address(serve, name, address + len)
                    : find_kv_name(serve, name, address + len);
    }
    return error;
}

/* Check that the address of a kv listener is free. */
static int try_address(struct serve *serve, const char *address)
{
    struct net_bound bound;
    int error = net_bind(serve->node, address, NULL, &bound);
    if (error != 0)
        return error;
    error = check_apart(serve, &bound);
    net_unbind(&bound);
    return error;
}

/* Check the addresses of the kv listeners, which bind later, when the stores are open. */
static int try_kv_listeners(struct serve *serve)
{
    const struct serve_options *options = serve->options;
    char address[NET_ADDRESS_TEXT_MAX];
    int error = 0;
    for (uint32_t i = 0;
         i < serve->kv_address_count && error == 0 && serve_fabric_has_ports(options->kv_fabric); i++)
        error = try_address(serve, serve->kv_addresses[i]);
    if (error != 0 || options->kv_unix_path == NULL)
        return error;
    int len = snprintf(address, sizeof(address), "unix:%s", options->kv_unix_path);
    if (len < 0 || (size_t)len >= sizeof(address))
        return log_refusal(serve, "the socket's path is too long");
    return try_address(serve, address);
}

int serve_listeners_bind(struct serve *serve)
{
    int error = serve_unix_access(serve->options, &serve->unix_mode, &serve->unix_group);
    if (error != 0) /* serve_check_options() has checked the mode */
        return log_refusal(serve, "there is no group of the name that --unix-group says");
    error = bind_usual(&serve->stores[0]);
    for (uint32_t i = 0; i < serve->store_count && error == 0; i++) {
        struct serve_store *store = &serve->stores[i];
        if (store->options.port != SERVE_NO_PORT)
            error = bind_hosts(store);
        if (error == 0 && store->options.unix_path != NULL)
            error = bind_path(store, store->options.unix_path);
    }
    return error == 0 ? try_kv_listeners(serve) : error;
}

int serve_listeners_open(struct serve *serve)
{
    struct task_sched *targets[TASK_SCHEDS_MAX];
    base_assert(serve->lane_count > 0);
    for (uint32_t i = 0; i < serve->lane_count; i++)
        targets[i] = serve->lanes[i].sched;
    for (uint32_t i = 0; i < serve->listener_count; i++) {
        struct serve_listener *listener = &serve->listeners[i];
        int error = net_listen_at(listener_sched(serve, i), &listener->bound, targets, serve->lane_count,
                                  &serve_handler, serve_accepted, listener->store,
                                  (uint32_t)serve->options->connections_max, &listener->net);
        if (error != 0)
            return error;
        net_listener_address(listener->net, listener->address, sizeof(listener->address));
        atomic_fetch_add_explicit(&serve->listeners_open, 1, memory_order_relaxed);
    }
    return 0;
}

void serve_listeners_unbind(struct serve *serve)
{
    for (uint32_t i = 0; i < serve->listener_count; i++) {
        if (serve->listeners[i].address[0] == '\0') /* no listener was opened there */
            net_unbind(&serve->listeners[i].bound);
    }
}

void serve_listeners_close(struct serve *serve, const struct task_sched *sched)
{
    for (uint32_t i = 0; i < serve->listener_count; i++) {
        struct serve_listener *listener = &serve->listeners[i];
        if (listener_sched(serve, i) != sched || listener->net == NULL)
            continue;
        net_listener_close(listener->net);
        listener->net = NULL;
        atomic_fetch_sub_explicit(&serve->listeners_open, 1, memory_order_acq_rel);
    }
}
