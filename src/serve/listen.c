/* Listeners of memcached's protocol: which store is spoken with at which address. */
#include "serve/serve_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LOOPBACK "127.0.0.1"

/* The thread that accepts for a listener: each in turn. */
static struct task_sched *listener_sched(const struct serve *serve, uint32_t listener)
{
    return serve->lanes[listener % serve->lane_count].sched;
}

static int complain(const struct serve *serve, const char *reason)
{
    base_error(&serve->node->log, "cannot listen", "reason=\"%s\"", reason);
    return -EINVAL;
}

static int listen_on(struct serve_store *store, const char *address)
{
    struct serve *serve = store->serve;
    struct task_sched *targets[TASK_SCHEDS_MAX];
    base_assert(serve->lane_count > 0);
    if (serve->listener_count == SERVE_LISTENERS_MAX)
        return complain(serve, "there are too many addresses");
    struct serve_listener *listener = &serve->listeners[serve->listener_count];
    for (uint32_t i = 0; i < serve->lane_count; i++)
        targets[i] = serve->lanes[i].sched;
    int error = net_listen(listener_sched(serve, serve->listener_count), address, targets, serve->lane_count,
                           &serve_handler, serve_accepted, store, (uint32_t)serve->options->connections_max,
                           &listener->net);
    if (error != 0)
        return error;
    listener->store = store;
    net_listener_address(listener->net, listener->address, sizeof(listener->address));
    serve->listener_count++;
    atomic_fetch_add_explicit(&serve->listeners_open, 1, memory_order_relaxed);
    return 0;
}

/* Where the port of an address begins, with its colon; where it ends, if it has none. */
static size_t host_len(const char *address)
{
    const char *colon = strrchr(address, ':');
    bool has_port = colon != NULL && strchr(colon, ']') == NULL;
    return has_port ? (size_t)(colon - address) : strlen(address);
}

static int listen_on_port(struct serve_store *store, const char *host, size_t len, uint64_t port)
{
    char address[NET_ADDRESS_TEXT_MAX];
    int written = snprintf(address, sizeof(address), "%.*s:%" PRIu64, (int)len, host, port);
    if (written < 0 || (size_t)written >= sizeof(address))
        return complain(store->serve, "the address is too long");
    return listen_on(store, address);
}

static int listen_on_path(struct serve_store *store, const char *path)
{
    char address[NET_ADDRESS_TEXT_MAX];
    int len = snprintf(address, sizeof(address), "unix:%s", path);
    if (len < 0 || (size_t)len >= sizeof(address))
        return complain(store->serve, "the socket's path is too long");
    return listen_on(store, address);
}

/* The addresses of the first store: "127.0.0.1" and "[::1]" get the port that the settings name. */
static int listen_as_usual(struct serve_store *store)
{
    const struct serve_options *options = store->serve->options;
    const struct base_setting_list *list = &options->listen;
    int error = 0;
    for (size_t i = 0; i < list->count && error == 0; i++) {
        const char *address = list->items[i];
        bool has_port = address[host_len(address)] != '\0';
        error = has_port ? listen_on(store, address)
                         : listen_on_port(store, address, strlen(address), options->port);
    }
    if (error == 0 && list->count == 0 && options->unix_path == NULL)
        error = listen_on_port(store, LOOPBACK, strlen(LOOPBACK), options->port);
    if (error == 0 && options->unix_path != NULL)
        error = listen_on_path(store, options->unix_path);
    return error;
}

static bool is_same_host(const char *a, const char *b)
{
    return host_len(a) == host_len(b) && strncmp(a, b, host_len(a)) == 0;
}

/* A port of its own, at each host that is listened at. */
static int listen_on_hosts(struct serve_store *store)
{
    const struct base_setting_list *list = &store->serve->options->listen;
    if (list->count == 0)
        return listen_on_port(store, LOOPBACK, strlen(LOOPBACK), store->options.port);
    int error = 0;
    for (size_t i = 0; i < list->count && error == 0; i++) {
        bool is_again = false;
        for (size_t k = 0; k < i; k++)
            is_again = is_again || is_same_host(list->items[i], list->items[k]);
        if (!is_again)
            error = listen_on_port(store, list->items[i], host_len(list->items[i]), store->options.port);
    }
    return error;
}

int serve_listeners_open(struct serve *serve)
{
    int error = listen_as_usual(&serve->stores[0]);
    for (uint32_t i = 0; i < serve->store_count && error == 0; i++) {
        struct serve_store *store = &serve->stores[i];
        if (store->options.port != SERVE_NO_PORT)
            error = listen_on_hosts(store);
        if (error == 0 && store->options.unix_path != NULL)
            error = listen_on_path(store, store->options.unix_path);
    }
    return error;
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
