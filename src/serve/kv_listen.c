/* Listeners for Tarn's own protocol, over the fabrics (--kv-listen, --kv-unix). Those for memcached's are listen.c's. */
#include "fabric/fabric.h"
#include "rpc/rpc.h"
#include "serve/serve_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CONNECTIONS_MAX 65536 /* the most connections of a listener: each takes a task */
#define TASKS_BESIDE    512   /* tasks of a listener besides: running methods, accepting and looking */

/* The options of a tcp URL, behind its colon; NULL: it is another fabric's. */
static const char *tcp_options(const char *url)
{
    return strncmp(url, "tcp:", 4) == 0 ? url + 4 : NULL;
}

/* @param word  an option, or the beginning of one with its equals sign */
static bool has_option(const char *options, const char *word)
{
    const size_t len = strlen(word);
    for (const char *at = options; at != NULL; at = strchr(at, ',')) {
        at += *at == ',' ? 1 : 0;
        if (strncmp(at, word, len) == 0 && (word[len - 1] == '=' || at[len] == ',' || at[len] == '\0'))
            return true;
    }
    return false;
}

bool serve_fabric_has_ports(const char *url)
{
    return tcp_options(url) != NULL;
}

bool serve_fabric_is_secure(const char *url)
{
    const char *options = tcp_options(url);
    return options != NULL && (has_option(options, "tls") || has_option(options, "secret="));
}

int serve_fabric_open(struct tarn_node *node, const char *url, bool insecure, struct tarn_fabric **ret_fabric)
{
    const char *rest = tcp_options(url);
    char full[SERVE_FABRIC_ROOM + sizeof(",insecure")];
    bool is_told = rest == NULL || !insecure || serve_fabric_is_secure(url) || has_option(rest, "insecure");
    int len = snprintf(full, sizeof(full), "%s%s%s", url, is_told || *rest == '\0' ? "" : ",",
                       is_told ? "" : "insecure");
    if (len < 0 || (size_t)len >= sizeof(full)) {
        base_error(&node->log, "cannot open fabric", "reason=\"its URL is too long\"");
        return -EINVAL;
    }
    return tarn_fabric_open(node, full, ret_fabric);
}

static uint32_t connections_max(const struct serve_options *options)
{
    return (uint32_t)base_min(options->connections_max, (uint64_t)CONNECTIONS_MAX);
}

static uint32_t count_listeners(const struct serve *serve)
{
    return serve->kv_address_count + (serve->options->kv_unix_path != NULL ? 1 : 0);
}

uint32_t serve_kv_listener_tasks(const struct serve *serve)
{
    return count_listeners(serve) * (connections_max(serve->options) + TASKS_BESIDE);
}

/* The most memory that a listener's connections may have for their calls. */
static uint64_t calls_memory(const struct serve *serve)
{
    return base_max(serve->options->memory_bytes / SERVE_CALLS_SHARE / count_listeners(serve),
                    RPC_MEMORY_MIN);
}

static int open_kv_listener(struct serve *serve, struct tarn_fabric *fabric, const char *address)
{
    struct serve_kv_listener *listener = &serve->kv_listeners[serve->kv_listener_count];
    struct kv_served stores[KV_STORES_MAX];
    struct task_sched *scheds[TASK_SCHEDS_MAX];
    const struct tarn_rpc_serve_options options = {.connections_max = connections_max(serve->options),
                                                   .memory_bytes = calls_memory(serve),
                                                   .spin_ns = serve->options->spin_ns};
    for (uint32_t i = 0; i < serve->store_count; i++)
        stores[i] = (struct kv_served){.name = serve->stores[i].options.name, .kv = serve->stores[i].kv};
    for (uint32_t i = 0; i < serve->lane_count; i++)
        scheds[i] = serve->lanes[i].sched;
    listener->fabric = fabric;
    listener->address = address;
    int error = kv_serve(fabric, address, stores, serve->store_count, &options, scheds, serve->lane_count,
                         &listener->server);
    if (error != 0)
        return error;
    base_spin_lock(&serve->kv_listeners_lock);
    serve->kv_listener_count++;
    base_spin_unlock(&serve->kv_listeners_lock);
    base_info(&serve->node->log, "serving calls", "fabric=%s address=%s stores=%" PRIu32,
              tarn_fabric_info(fabric)->provider, address, serve->store_count);
    return 0;
}

int serve_kv_listeners_open(struct serve *serve)
{
    const struct serve_options *options = serve->options;
    int error = options->kv_listen.count == 0 ? 0
                                              : serve_fabric_open(serve->node, options->kv_fabric,
                                                                  options->insecure, &serve->fabrics[0]);
    for (uint32_t i = 0; i < serve->kv_address_count && error == 0; i++)
        error = open_kv_listener(serve, serve->fabrics[0], serve->kv_addresses[i]);
    if (error == 0 && options->kv_unix_path != NULL)
        error = tarn_fabric_open(serve->node, "shm:", &serve->fabrics[1]);
    if (error == 0 && options->kv_unix_path != NULL)
        error = open_kv_listener(serve, serve->fabrics[1], options->kv_unix_path);
    return error;
}

void serve_kv_listeners_close(struct serve *serve)
{
    base_spin_lock(&serve->kv_listeners_lock);
    const uint32_t count = serve->kv_listener_count;
    serve->kv_listener_count = 0; /* `stats` does not read them any more */
    base_spin_unlock(&serve->kv_listeners_lock);
    for (uint32_t i = 0; i < count; i++)
        kv_server_close(serve->kv_listeners[i].server);
}

void serve_fabrics_close(struct serve *serve)
{
    for (size_t i = 0; i < base_array_count(serve->fabrics); i++) {
        if (serve->fabrics[i] != NULL)
            tarn_fabric_close(serve->fabrics[i]);
    }
}
