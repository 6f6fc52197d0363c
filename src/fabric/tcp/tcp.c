/* The provider `tcp`: its URL, its scheduler and clock, and its table of operations. */
#include "fabric/tcp/tcp.h"
#include "fabric/tcp/connection.h"
#include "fabric/tcp/domain.h"
#include "fabric/tcp/hello.h"
#include "fabric/tcp/listener.h"
#include "fabric/tcp/tls.h"
#include "fabric/tcp/wire.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BUFFERS_KEPT        16 /* the most free buffers that are kept for the next */
#define REFUSAL_LINES       8
#define REFUSAL_INTERVAL_NS (10 * BASE_NS_PER_SECOND)

/* ---- the URL ------------------------------------------------------------------------------------ */

/* Read one option. @param option  `name` or `name=value` */
static int read_option(struct base_log *log, const char *option, struct tcp_options *options)
{
    struct {
        const char *name;
        char *path;
    } files[] = {{"secret=", options->secret_path},
                 {"cert=", options->cert_path},
                 {"key=", options->key_path},
                 {"ca=", options->ca_path}};
    const char *value;
    if (strcmp(option, "insecure") == 0 || strcmp(option, "tls") == 0) {
        options->insecure |= option[0] == 'i';
        options->tls |= option[0] == 't';
        return 0;
    }
    for (unsigned i = 0; i < base_array_count(files); i++) {
        value = fabric_url_value(option, files[i].name);
        if (value != NULL && *value != '\0') {
            (void)snprintf(files[i].path, TCP_PATH_BYTES, "%s", value);
            return 0;
        }
    }
    if ((value = fabric_url_value(option, "sockets=")) != NULL) {
        uint64_t count;
        if (base_parse_u64(value, &count) != 0 || count < 1 || count > TCP_SOCKETS_MAX)
            return fabric_url_complain(log, option, "it takes a number from 1 to 8");
        options->sockets = (uint32_t)count;
        return 0;
    }
    if ((value = fabric_url_value(option, "heartbeat=")) != NULL)
        return fabric_url_heartbeat(log, option, value, &options->heartbeat_ns);
    return fabric_url_complain(log, option,
                               "there are secret=FILE, tls, cert=FILE, key=FILE, ca=FILE, sockets=NUMBER, "
                               "heartbeat=DURATION and insecure, "
                               "with commas between");
}

/* Check that the options of TLS fit together. */
static int check_tls(struct base_log *log, const struct tcp_options *options)
{
    int files =
        (options->cert_path[0] != '\0') + (options->key_path[0] != '\0') + (options->ca_path[0] != '\0');
    if (files != 0 && options->secret_path[0] != '\0')
        return fabric_url_complain(log, "secret", "it takes a secret or certificates, and not both");
    if (files != 0 && !options->tls)
        return fabric_url_complain(log, "tls", "certificates are of no use without it");
    if (files != 0 && files != 3)
        return fabric_url_complain(log, "tls", "cert=FILE, key=FILE and ca=FILE belong together");
    if (options->tls && files == 0 && options->secret_path[0] == '\0')
        return fabric_url_complain(log, "tls", "it takes cert=FILE, key=FILE and ca=FILE, or secret=FILE");
    return 0;
}

int tcp_options_read(struct base_log *log, const char *text, struct tcp_options *ret_options)
{
    struct tcp_options options = {.sockets = 1, .heartbeat_ns = FABRIC_HEARTBEAT_NS};
    char option[TCP_PATH_BYTES];
    int error;
    while ((error = fabric_url_next(log, &text, option, sizeof(option))) == 0) {
        error = read_option(log, option, &options);
        if (error != 0)
            return error;
    }
    if (error != -ENOENT)
        return error;
    error = check_tls(log, &options);
    options.tls |= options.secret_path[0] != '\0';
    if (error == 0)
        *ret_options = options;
    return error;
}

int tcp_check_address(struct tcp *tcp, const char *address)
{
    char quoted[BASE_LOG_ROOM_MIN];
    if (strncmp(address, "unix:", 5) == 0)
        return -EINVAL;
    if (tcp->options.insecure || tcp->options.tls || net_is_loopback(address))
        return 0;
    base_error(&tcp->node->log, "fabric stays on this machine",
               "address=%s reason=\"whoever is on the way could read and change everything: "
               "say tcp:secret=FILE, or tcp:insecure if that is meant\"",
               base_log_quote(quoted, sizeof(quoted), address, strlen(address)));
    return -EPERM;
}

/* ---- buffers ------------------------------------------------------------------------------------ */

/* The beginning of a buffer that is free. */
struct tcp_buffer {
    struct tcp_buffer *next;
};

void *tcp_buffer_get(struct tcp *tcp)
{
    base_spin_lock(&tcp->buffers_lock);
    struct tcp_buffer *buffer = tcp->buffers;
    if (buffer != NULL) {
        tcp->buffers = buffer->next;
        tcp->buffers_count--;
    }
    base_spin_unlock(&tcp->buffers_lock);
    return buffer != NULL ? buffer : base_alloc(&tcp->node->memory, TCP_BUFFER_BYTES);
}

void tcp_buffer_put(struct tcp *tcp, void *memory)
{
    struct tcp_buffer *buffer = memory;
    if (buffer == NULL)
        return;
    base_spin_lock(&tcp->buffers_lock);
    const bool kept = tcp->buffers_count < BUFFERS_KEPT;
    if (kept) {
        buffer->next = tcp->buffers;
        tcp->buffers = buffer;
        tcp->buffers_count++;
    }
    base_spin_unlock(&tcp->buffers_lock);
    if (!kept)
        base_free(&tcp->node->memory, buffer, TCP_BUFFER_BYTES);
}

/* Free the provider's state, of which no connection is left. */
static void free_provider(struct tcp *tcp)
{
    struct tcp_buffer *buffer;
    while ((buffer = tcp->buffers) != NULL) {
        tcp->buffers = buffer->next;
        base_free(&tcp->node->memory, buffer, TCP_BUFFER_BYTES);
    }
    tcp_tls_context_close(&tcp->tls);
    explicit_bzero(&tcp->secret, sizeof(tcp->secret));
    base_free(&tcp->node->memory, tcp, sizeof(*tcp));
}

/* ---- the fabric's scheduler --------------------------------------------------------------------- */

int tcp_run(struct tcp *tcp, task_function *function, void *arg)
{
    if (task_sched_self() == NULL)
        return fabric_run_on(tcp->sched, function, arg);
    function(arg);
    return 0;
}

/* Run the clock, which ticks four times a heartbeat. */
static void keep_time(void *arg)
{
    struct tcp *tcp = arg;
    const uint64_t tick_ns = tcp->options.heartbeat_ns / FABRIC_BEATS_PROBE;
    uint64_t next_ns = task_now() + tick_ns;
    base_spin_lock(&tcp->bell.lock);
    while (!tcp->closing) {
        bool idle = base_list_empty(&tcp->connections);
        int woken = fabric_bell_sleep_locked(&tcp->bell, idle ? TASK_FOREVER : next_ns);
        if (idle)
            next_ns = task_now() + tick_ns;
        if (woken == 0 && task_now() < next_ns)
            continue;
        next_ns = task_now() + tick_ns;
        base_list_for_each(item, &tcp->connections)
            tcp_connection_beat(base_container_of(item, struct tcp_connection, link));
    }
    base_spin_unlock(&tcp->bell.lock);
}

static int start_scheduler(struct tcp *tcp)
{
    const struct task_sched_options options = {
        .name = "tarn-fabric", .spin_ns = 20000, .buffers_count = 128, .ring_entries = 256};
    int error = task_sched_open(tcp->node, &options, &tcp->sched);
    if (error != 0)
        return error;
    error = task_spawn(tcp->sched, NULL, "fabric-clock", keep_time, tcp);
    if (error == 0) {
        error = task_sched_start(tcp->sched);
        if (error == 0)
            return 0;
    }
    task_sched_close(tcp->sched);
    return error;
}

/* ---- opening and closing ------------------------------------------------------------------------ */

static int tcp_open_provider(struct tarn_node *node, void *provider_arg, struct tarn_fabric_info *ret_info,
                             void **ret_state)
{
    struct tcp *tcp = base_alloc(&node->memory, sizeof(*tcp));
    if (tcp == NULL)
        return -ENOMEM;
    tcp->node = node;
    base_log_limit_init(&tcp->refusals, REFUSAL_LINES, REFUSAL_INTERVAL_NS);
    fabric_bell_init(&tcp->bell);
    base_spin_init(&tcp->buffers_lock);
    base_list_init(&tcp->connections);
    int error = tcp_options_read(&node->log, provider_arg, &tcp->options);
    if (error == 0 && tcp->options.secret_path[0] != '\0')
        error = tcp_secret_read(&node->log, tcp->options.secret_path, &tcp->secret);
    if (error == 0 && tcp->options.tls)
        error = tcp_tls_context_open(&node->log, &tcp->options, &tcp->secret, &tcp->tls);
    if (error == 0)
        error = start_scheduler(tcp);
    if (error != 0) {
        free_provider(tcp);
        return error;
    }
    *ret_info = (struct tarn_fabric_info){.provider = "tcp",
                                          .whole_words = true,
                                          .whole_reads = true,
                                          .atomics = TARN_FABRIC_ATOMICS_MEMORY,
                                          .served_by = TARN_FABRIC_SERVED_BY_PEER};
    *ret_state = tcp;
    return 0;
}

static void tcp_close(void *state)
{
    struct tcp *tcp = state;
    base_spin_lock(&tcp->bell.lock);
    tcp->closing = true;
    fabric_bell_ring_locked(&tcp->bell);
    base_spin_unlock(&tcp->bell.lock);
    task_sched_stop(tcp->sched);
    task_sched_join(tcp->sched); /* blocks as long as a task takes to end */
    task_sched_close(tcp->sched);
    free_provider(tcp);
}

const struct fabric_provider fabric_provider_tcp = {
    .name = "tcp",
    .open = tcp_open_provider,
    .close = tcp_close,
    .domain_open = tcp_domain_open,
    .domain_close = tcp_domain_close,
    .regions_take_time = true,
    .region_alloc = tcp_region_alloc,
    .region_register = tcp_region_alloc,
    .registers_any = true,
    .region_free = tcp_region_free,
    .listen = tcp_listen,
    .listener_close = tcp_listener_close,
    .listener_wait = tcp_listener_wait,
    .accept = tcp_accept,
    .reject = tcp_reject,
    .connect = tcp_connect,
    .post = tcp_post,
    .posted = tcp_posted,
    .progress = tcp_progress,
    .wait = tcp_wait,
    .watch = tcp_watch,
    .receive = tcp_receive,
    .fail = tcp_fail,
    .fence = tcp_fence,
    .disconnect = tcp_disconnect,
};
