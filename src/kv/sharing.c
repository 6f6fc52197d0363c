/* Ordered stores that clients read by themselves, at their server: sharing their memory, and connections for READs. */
#include "fabric/fabric.h"
#include "kv/service.h"
#include "tree/record.h"
#include "tree/store.h"
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define GUESTS_MAX 1024u /* connections for READs */

/* ---- sharing -------------------------------------------------------------------------------------- */

/* Share a store, or say why it is served by calls alone. */
static void share_store(const struct kv_server *server, struct tarn_fabric *fabric, struct kv_store *store)
{
    const struct tarn_fabric_domain_options options = {.regions_max = TREE_SHARED_REGIONS_MAX};
    struct tarn_fabric_domain *domain;
    int error = tarn_fabric_domain_open(fabric, &options, &domain);
    if (error == 0) {
        error = tree_store_share(kv_tree_of(store->kv), domain);
        if (error != 0)
            tarn_fabric_domain_close(domain);
    }
    if (error == 0)
        store->domain = domain;
    else
        base_warn(&server->node->log, "clients cannot read an ordered store by themselves, and ask for all",
                  "store=%s reason=\"%s\" remedy=\"%s\"", store->name, strerrordesc_np(-error),
                  error == -EBUSY ? "a flush is ordered for later: restart when it is over"
                                  : "give the process more memory, locked memory (ulimit -l) or open files");
}

void kv_sharing_begin(struct kv_server *server, struct tarn_fabric *fabric)
{
    for (uint32_t i = 0; i < server->count; i++) {
        if (kv_tree_of(server->stores[i].kv) != NULL)
            share_store(server, fabric, &server->stores[i]);
    }
}

void kv_sharing_end(struct kv_server *server)
{
    for (uint32_t i = 0; i < server->count; i++) {
        struct kv_store *store = &server->stores[i];
        if (store->domain == NULL)
            continue;
        tree_store_unshare(kv_tree_of(store->kv), store->domain);
        tarn_fabric_domain_close(store->domain);
        store->domain = NULL;
    }
}

int kv_handles_answer(const struct kv_store *store, const struct kv_request *request,
                      struct tarn_rpc_request *exchange)
{
    struct tarn_fabric_handle handles[TREE_STEPS_MAX];
    if (store->domain == NULL)
        return -EOPNOTSUPP;
    if (exchange->room < KV_HANDLES_BYTES + TARN_FABRIC_HANDLE_BYTES)
        return -EMSGSIZE;
    struct tree_store *tree = kv_tree_of(store->kv);
    const uint32_t room = (exchange->room - KV_HANDLES_BYTES) / TARN_FABRIC_HANDLE_BYTES;
    const uint32_t first = (uint32_t)base_min(request->offset, (uint64_t)TREE_STEPS_MAX);
    const struct kv_handles head = {.step_bytes = tree_store_step_bytes(tree),
                                    .unit_bytes = TREE_NODE_BYTES,
                                    .count = tree_store_handles(tree, store->domain, request->amount, first,
                                                                handles, base_min(room, TREE_STEPS_MAX))};
    kv_handles_save(&head, handles, exchange->result);
    exchange->result_bytes = KV_HANDLES_BYTES + head.count * TARN_FABRIC_HANDLE_BYTES;
    return 0;
}

/* ---- guests --------------------------------------------------------------------------------------- */

/* A connection for READs on its way. */
struct guest {
    struct kv_server *server;
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_incoming *incoming;
};

/* Keep a connection until it ends. Nothing is to be received on it. */
static void attend_guest(void *arg)
{
    const struct tarn_fabric_connect_options options = {
        .receive_count = 1, .receive_bytes = 8, .messages_are_rare = true};
    struct guest *guest = arg;
    struct kv_server *server = guest->server;
    struct tarn_fabric_connection *connection;
    struct tarn_fabric_message message;
    uint8_t data[8];
    int error = tarn_fabric_accept(guest->incoming, guest->domain, &options, &connection);
    base_free(&server->node->memory, guest, sizeof(*guest));
    if (error == 0) {
        if (tarn_fabric_receive(connection, data, sizeof(data), TARN_FOREVER, &message) == 0)
            fabric_connection_end(connection, "a message came where only READs are", -EPROTO);
        tarn_fabric_disconnect(connection);
    }
    atomic_fetch_sub(&server->guests.count, 1);
}

/* Begin to attend a guest. @return 0; -ECONNREFUSED; -ENOMEM */
static int begin_guest(struct kv_server *server, struct tarn_fabric_domain *domain,
                       struct tarn_fabric_incoming *incoming)
{
    struct kv_guests *guests = &server->guests;
    if (domain == NULL || atomic_load(&guests->count) >= GUESTS_MAX || guests->is_closed)
        return -ECONNREFUSED;
    struct guest *guest = base_alloc(&server->node->memory, sizeof(*guest));
    if (guest == NULL)
        return -ENOMEM;
    *guest = (struct guest){.server = server, .domain = domain, .incoming = incoming};
    atomic_fetch_add(&guests->count, 1);
    int error = task_spawn(task_sched_self(), &guests->group, "kv-guest", attend_guest, guest);
    if (error != 0) {
        atomic_fetch_sub(&guests->count, 1);
        base_free(&server->node->memory, guest, sizeof(*guest));
    }
    return error == 0 ? 0 : -ENOMEM;
}

bool kv_guest_visited(void *arg, struct tarn_fabric_incoming *incoming)
{
    struct kv_server *server = arg;
    const void *data;
    const uint32_t bytes = tarn_fabric_incoming_data(incoming, &data);
    uint16_t number;
    if (!kv_reads_hello_load(data, bytes, &number))
        return false;
    task_mutex_lock_firmly(&server->guests.mutex);
    int error = begin_guest(server, number < server->count ? server->stores[number].domain : NULL, incoming);
    task_mutex_unlock(&server->guests.mutex);
    if (error != 0)
        tarn_fabric_reject(incoming, error);
    return true;
}

void kv_guests_end(struct kv_server *server)
{
    struct kv_guests *guests = &server->guests;
    task_mutex_lock_firmly(&guests->mutex);
    guests->is_closed = true;
    task_mutex_unlock(&guests->mutex);
    task_group_cancel(&guests->group);
    task_group_join_firmly(&guests->group);
}
