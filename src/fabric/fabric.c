/* All that providers have in common: opening, checks, counting, and a connection's first error. */
#include "fabric/fabric_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The most lines about failed connections in a while: with a server a thousand may fail. */
#define FAILURE_LINES       8
#define FAILURE_INTERVAL_NS (10 * BASE_NS_PER_SECOND)

static const char *error_text(int error)
{
    const char *text = strerrordesc_np(-error);
    return text == NULL ? "unknown error" : text;
}

/* ---- providers ---------------------------------------------------------------------------------- */

static const struct fabric_provider *const providers[] = {&fabric_provider_shm, &fabric_provider_tcp,
                                                          &fabric_provider_verbs};

const char *tarn_fabric_provider_name(uint32_t place)
{
    return place < base_array_count(providers) ? providers[place]->name : NULL;
}

/* Find the provider of a URL. @param ret_arg  the argument of the provider's open() */
static const struct fabric_provider *choose_provider(const struct tarn_node *node, const char *url,
                                                     void **ret_arg)
{
    if (node->options.fabric != NULL) {
        *ret_arg = node->options.fabric_arg;
        return node->options.fabric;
    }
    for (size_t i = 0; i < base_array_count(providers); i++) {
        size_t len = strlen(providers[i]->name);
        if (strncmp(url, providers[i]->name, len) == 0 && url[len] == ':') {
            *ret_arg = (void *)(uintptr_t)(url + len + 1);
            return providers[i];
        }
    }
    return NULL;
}

static void complain_of_url(struct tarn_node *node, const char *quoted_url)
{
    char names[128] = "";
    for (size_t i = 0, used = 0; i < base_array_count(providers) && used < sizeof(names); i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, " %s:", providers[i]->name);
    base_error(&node->log, "cannot open fabric", "url=%s reason=\"no such provider; there are%s\"",
               quoted_url, names);
}

int tarn_fabric_open(struct tarn_node *node, const char *url, struct tarn_fabric **ret_fabric)
{
    void *provider_arg = NULL;
    const struct fabric_provider *provider = choose_provider(node, url, &provider_arg);
    char quoted[BASE_LOG_ROOM_MIN];
    (void)base_log_quote(quoted, sizeof(quoted), url, strlen(url));
    if (provider == NULL) {
        complain_of_url(node, quoted);
        return -EINVAL;
    }
    struct tarn_fabric *fabric = base_alloc(&node->memory, sizeof(*fabric));
    if (fabric == NULL)
        return -ENOMEM;
    fabric->node = node;
    fabric->provider = provider;
    base_log_limit_init(&fabric->failures, FAILURE_LINES, FAILURE_INTERVAL_NS);
    task_mutex_init(&fabric->lock);
    base_list_init(&fabric->connections);
    int error = provider->open(node, provider_arg, &fabric->info, &fabric->state);
    if (error != 0) {
        base_error(&node->log, "cannot open fabric", "url=%s error=\"%s\"", quoted, error_text(error));
        base_free(&node->memory, fabric, sizeof(*fabric));
        return error;
    }
    base_info(&node->log, "fabric open",
              "url=%s provider=%s whole_words=%s whole_reads=%s atomics=%s served_by=%s", quoted,
              fabric->info.provider, fabric->info.whole_words ? "yes" : "no",
              fabric->info.whole_reads ? "yes" : "no", fabric_atomics_name(fabric->info.atomics),
              fabric_served_by_name(fabric->info.served_by));
    *ret_fabric = fabric;
    return 0;
}

void tarn_fabric_close(struct tarn_fabric *fabric)
{
    base_assert(base_list_empty(&fabric->connections));
    fabric->provider->close(fabric->state);
    base_free(&fabric->node->memory, fabric, sizeof(*fabric));
}

struct tarn_node *fabric_node(const struct tarn_fabric *fabric)
{
    return fabric->node;
}

bool fabric_registers(const struct tarn_fabric *fabric)
{
    return fabric->provider->registers_any;
}

const char *fabric_atomics_name(enum tarn_fabric_atomics atomics)
{
    static const char *const names[] = {[TARN_FABRIC_ATOMICS_NONE] = "none",
                                        [TARN_FABRIC_ATOMICS_DEVICE] = "device",
                                        [TARN_FABRIC_ATOMICS_MEMORY] = "memory"};
    return names[atomics];
}

const char *fabric_served_by_name(enum tarn_fabric_served_by served_by)
{
    static const char *const names[] = {[TARN_FABRIC_SERVED_BY_CARD] = "card",
                                        [TARN_FABRIC_SERVED_BY_SELF] = "self",
                                        [TARN_FABRIC_SERVED_BY_PEER] = "peer"};
    return names[served_by];
}

const struct tarn_fabric_info *tarn_fabric_info(const struct tarn_fabric *fabric)
{
    return &fabric->info;
}

/* ---- domains and regions ------------------------------------------------------------------------ */

#define DOMAIN_REGIONS   64                  /* regions of a domain, if its options give no number */
#define DOMAIN_BYTES_MAX (UINT64_C(1) << 46) /* half of a process's address space */

int tarn_fabric_domain_open(struct tarn_fabric *fabric, const struct tarn_fabric_domain_options *options,
                            struct tarn_fabric_domain **ret_domain)
{
    struct tarn_fabric_domain_options filled = {0};
    if (options != NULL)
        filled = *options;
    if (filled.regions_max == 0)
        filled.regions_max = DOMAIN_REGIONS;
    if (filled.regions_max > TARN_FABRIC_REGIONS_MAX || filled.readable_bytes > DOMAIN_BYTES_MAX ||
        filled.writable_bytes > DOMAIN_BYTES_MAX)
        return -EINVAL;
    filled.readable_bytes = base_align_up(filled.readable_bytes, BASE_PAGE_BYTES);
    filled.writable_bytes = base_align_up(filled.writable_bytes, BASE_PAGE_BYTES);
    struct tarn_fabric_domain *domain = base_alloc(&fabric->node->memory, sizeof(*domain));
    if (domain == NULL)
        return -ENOMEM;
    domain->fabric = fabric;
    int error = fabric->provider->domain_open(fabric->state, &filled, &domain->state);
    if (error != 0) {
        base_free(&fabric->node->memory, domain, sizeof(*domain));
        return error;
    }
    fabric_buffers_open(domain, filled.buffer_bytes);
    *ret_domain = domain;
    return 0;
}

void tarn_fabric_domain_close(struct tarn_fabric_domain *domain)
{
    struct tarn_fabric *fabric = domain->fabric;
    base_assert(atomic_load(&domain->users) == 0);
    fabric_buffers_close(domain);
    fabric->provider->domain_close(domain->state);
    base_free(&fabric->node->memory, domain, sizeof(*domain));
}

/* ---- handles ------------------------------------------------------------------------------------ */

/*
 * | offset | bytes | meaning                         |
 * |--------|-------|---------------------------------|
 * | 0      | 8     | domain                          |
 * | 8      | 8     | key                             |
 * | 16     | 8     | length of the region            |
 * | 24     | 4     | rights                          |
 * | 28     | 4     | HANDLE_MARK: what it is, version 1 |
 */
#define HANDLE_MARK UINT32_C(0x01646668)

void tarn_fabric_handle_save(const struct tarn_fabric_handle *handle, void *bytes)
{
    uint8_t *to = bytes;
    base_store_le64(to, handle->domain);
    base_store_le64(to + 8, handle->key);
    base_store_le64(to + 16, handle->bytes);
    base_store_le32(to + 24, handle->rights);
    base_store_le32(to + 28, HANDLE_MARK);
}

int tarn_fabric_handle_load(const void *bytes, struct tarn_fabric_handle *ret_handle)
{
    const uint8_t *from = bytes;
    if (base_load_le32(from + 28) != HANDLE_MARK)
        return -EINVAL;
    *ret_handle = (struct tarn_fabric_handle){.domain = base_load_le64(from),
                                              .key = base_load_le64(from + 8),
                                              .bytes = base_load_le64(from + 16),
                                              .rights = base_load_le32(from + 24)};
    return 0;
}

/* ---- connections -------------------------------------------------------------------------------- */

int tarn_fabric_listen(struct tarn_fabric *fabric, const char *address,
                       struct tarn_fabric_listener **ret_listener)
{
    struct tarn_fabric_listener *listener = base_alloc(&fabric->node->memory, sizeof(*listener));
    if (listener == NULL)
        return -ENOMEM;
    listener->fabric = fabric;
    int error = fabric->provider->listen(fabric->state, address, &listener->state);
    if (error != 0) {
        char quoted[BASE_LOG_ROOM_MIN];
        base_error(&fabric->node->log, "cannot listen", "fabric=%s address=%s error=\"%s\"",
                   fabric->info.provider, base_log_quote(quoted, sizeof(quoted), address, strlen(address)),
                   error_text(error));
        base_free(&fabric->node->memory, listener, sizeof(*listener));
        return error;
    }
    *ret_listener = listener;
    return 0;
}

void tarn_fabric_listener_close(struct tarn_fabric_listener *listener)
{
    struct tarn_fabric *fabric = listener->fabric;
    fabric->provider->listener_close(listener->state);
    base_free(&fabric->node->memory, listener, sizeof(*listener));
}

int tarn_fabric_listener_wait(struct tarn_fabric_listener *listener, uint64_t deadline_ns,
                              struct tarn_fabric_incoming **ret_incoming)
{
    struct tarn_fabric *fabric = listener->fabric;
    int error = fabric->provider->listener_wait(listener->state, deadline_ns, ret_incoming);
    if (error == 0)
        (*ret_incoming)->fabric = fabric;
    return error;
}

uint32_t tarn_fabric_incoming_data(const struct tarn_fabric_incoming *incoming, const void **ret_data)
{
    *ret_data = incoming->data;
    return incoming->data_bytes;
}

#define RECEIVE_COUNT 16
#define RECEIVE_BYTES 4096

/* @return 0 or -EINVAL */
static int fill_options(const struct tarn_fabric_connect_options *given,
                        struct tarn_fabric_connect_options *ret_options)
{
    *ret_options = given == NULL ? (struct tarn_fabric_connect_options){0} : *given;
    if (ret_options->receive_count == 0)
        ret_options->receive_count = RECEIVE_COUNT;
    if (ret_options->receive_bytes == 0)
        ret_options->receive_bytes = RECEIVE_BYTES;
    return ret_options->data_bytes <= TARN_FABRIC_PRIVATE_BYTES_MAX &&
                   ret_options->receive_count <= TARN_FABRIC_RECEIVE_COUNT_MAX &&
                   ret_options->receive_bytes <= TARN_FABRIC_RECEIVE_BYTES_MAX
               ? 0
               : -EINVAL;
}

static struct tarn_fabric_connection *make_connection(struct tarn_fabric_domain *domain)
{
    struct tarn_fabric_connection *connection =
        base_alloc(&domain->fabric->node->memory, sizeof(*connection));
    if (connection == NULL)
        return NULL;
    connection->fabric = domain->fabric;
    connection->domain = domain;
    connection->sched = fabric_user_self();
    return connection;
}

/* Take the result of accept() or connect(). */
static int begin_connection(struct tarn_fabric_connection *connection, int error,
                            struct tarn_fabric_connection **ret_connection)
{
    struct tarn_fabric *fabric = connection->fabric;
    if (error != 0) {
        base_free(&fabric->node->memory, connection, sizeof(*connection));
        return error;
    }
    atomic_fetch_add(&connection->domain->users, 1);
    task_mutex_lock_firmly(&fabric->lock);
    base_list_push_back(&fabric->connections, &connection->link);
    task_mutex_unlock(&fabric->lock);
    *ret_connection = connection;
    return 0;
}

int tarn_fabric_accept(struct tarn_fabric_incoming *incoming, struct tarn_fabric_domain *domain,
                       const struct tarn_fabric_connect_options *options,
                       struct tarn_fabric_connection **ret_connection)
{
    struct tarn_fabric_connect_options filled;
    struct tarn_fabric_connection *connection = NULL;
    int error = fill_options(options, &filled);
    if (error == 0 && (connection = make_connection(domain)) == NULL)
        error = -ENOMEM;
    if (error != 0) {
        tarn_fabric_reject(incoming, error);
        return error;
    }
    error =
        incoming->fabric->provider->accept(incoming, domain->state, &filled, connection, &connection->state);
    return begin_connection(connection, error, ret_connection);
}

void tarn_fabric_reject(struct tarn_fabric_incoming *incoming, int error)
{
    incoming->fabric->provider->reject(incoming, error);
}

int tarn_fabric_connect(struct tarn_fabric_domain *domain, const char *address,
                        const struct tarn_fabric_connect_options *options, uint64_t deadline_ns,
                        struct tarn_fabric_connection **ret_connection)
{
    struct tarn_fabric_connect_options filled;
    int error = fill_options(options, &filled);
    if (error != 0)
        return error;
    struct tarn_fabric_connection *connection = make_connection(domain);
    if (connection == NULL)
        return -ENOMEM;
    error = domain->fabric->provider->connect(domain->state, address, &filled, deadline_ns, connection,
                                              &connection->state);
    return begin_connection(connection, error, ret_connection);
}

uint32_t tarn_fabric_peer_data(const struct tarn_fabric_connection *connection, const void **ret_data)
{
    *ret_data = connection->data;
    return connection->data_bytes;
}

const char *tarn_fabric_peer_name(const struct tarn_fabric_connection *connection)
{
    return connection->name;
}

void fabric_connection_name(struct tarn_fabric_connection *connection, const char *name)
{
    (void)snprintf(connection->name, sizeof(connection->name), "%s", name);
}

void fabric_connection_data(struct tarn_fabric_connection *connection, const void *data, uint32_t bytes)
{
    base_assert(bytes <= sizeof(connection->data));
    if (bytes > 0)
        memcpy(connection->data, data, bytes);
    connection->data_bytes = bytes;
}

int tarn_fabric_error(const struct tarn_fabric_connection *connection)
{
    return fabric_error_of(connection);
}

bool fabric_peer_is_there(const struct tarn_fabric_connection *connection)
{
    const struct fabric_provider *provider = connection->fabric->provider;
    return fabric_error_of(connection) == 0 &&
           (provider->peer_is_there == NULL || provider->peer_is_there(connection->state));
}

bool fabric_connection_fail(struct tarn_fabric_connection *connection, const char *what, int error)
{
    int alive = 0;
    if (!atomic_compare_exchange_strong(&connection->error, &alive, error))
        return false;
    struct tarn_fabric *fabric = connection->fabric;
    bool wanted = error == -EPIPE ||
                  error == -ECONNABORTED; /* one of the two sides has ended the connection on purpose */
    BASE_LOG_LIMITED_AT(&fabric->node->log, &fabric->failures, wanted ? BASE_LOG_DEBUG : BASE_LOG_WARN,
                        wanted ? "connection over" : "connection failed",
                        "fabric=%s peer=\"%s\" op=\"%s\" error=\"%s\"", fabric->info.provider,
                        connection->name, what, error_text(error));
    return true;
}

void fabric_connection_end(struct tarn_fabric_connection *connection, const char *what, int error)
{
    base_assert(connection->sched == fabric_user_self());
    (void)fabric_connection_fail(connection, what, error);
    connection->fabric->provider->fail(connection->state);
}

int tarn_fabric_fence(struct tarn_fabric_connection *connection, uint64_t deadline_ns)
{
    if (fabric_needs_proxy(connection))
        return fabric_proxy((struct fabric_call){
            .kind = FABRIC_CALL_FENCE, .connection = connection, .deadline_ns = deadline_ns});
    fabric_connection_end(connection, "fence", -ECONNABORTED);
    return connection->fabric->provider->fence(connection->state, deadline_ns);
}

static void add_counters(struct tarn_fabric_counters *sum, const struct tarn_fabric_counters *counters)
{
    for (unsigned i = 0; i < TARN_FABRIC_OP_KINDS; i++) {
        sum->operations[i] += __atomic_load_n(&counters->operations[i], __ATOMIC_RELAXED);
        sum->bytes[i] += __atomic_load_n(&counters->bytes[i], __ATOMIC_RELAXED);
    }
    sum->failed += __atomic_load_n(&counters->failed, __ATOMIC_RELAXED);
    sum->refused += __atomic_load_n(&counters->refused, __ATOMIC_RELAXED);
    sum->waits += __atomic_load_n(&counters->waits, __ATOMIC_RELAXED);
    sum->copied_bytes += __atomic_load_n(&counters->copied_bytes, __ATOMIC_RELAXED);
}

void tarn_fabric_disconnect(struct tarn_fabric_connection *connection)
{
    struct tarn_fabric *fabric = connection->fabric;
    if (fabric_needs_proxy(connection)) {
        (void)fabric_proxy((struct fabric_call){.kind = FABRIC_CALL_DISCONNECT, .connection = connection});
        return;
    }
    fabric->provider->disconnect(connection->state);
    task_mutex_lock_firmly(&fabric->lock);
    base_list_remove(&connection->link);
    for (unsigned tag = 0; tag < TARN_FABRIC_TAGS_MAX; tag++)
        add_counters(&fabric->past[tag], &connection->counters[tag]);
    task_mutex_unlock(&fabric->lock);
    atomic_fetch_sub(&connection->domain->users, 1);
    base_free(&fabric->node->memory, connection, sizeof(*connection));
}

void tarn_fabric_count(struct tarn_fabric *fabric, uint8_t tag, struct tarn_fabric_counters *ret_counters)
{
    base_assert(tag < TARN_FABRIC_TAGS_MAX);
    task_mutex_lock_firmly(&fabric->lock);
    struct tarn_fabric_counters sum = fabric->past[tag];
    base_list_for_each(item, &fabric->connections) {
        struct tarn_fabric_connection *connection =
            base_container_of(item, struct tarn_fabric_connection, link);
        add_counters(&sum, &connection->counters[tag]);
    }
    task_mutex_unlock(&fabric->lock);
    *ret_counters = sum;
}
