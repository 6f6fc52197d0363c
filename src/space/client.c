/* A client's session with the master: connecting, asking, renewing the lease, and beginning again when it was lost. */
#include "space/client.h"
#include "fabric/fabric.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CALLS       4
#define PAUSE_NS    (10 * BASE_NS_PER_MS) /* before the master is tried again */
#define RENEWALS    4                     /* in a lease */
#define PATIENCE_NS BASE_NS_PER_SECOND    /* the longest that the keeper waits for one answer */
#define HELLO_BYTES 24                    /* of the answer to HELLO */

/* ---- calls -------------------------------------------------------------------------------------- */

/* Whether an error means that the master is not there now, and may come. */
static bool is_passing(int error)
{
    static const int passing[] = {-ECONNREFUSED, -ECONNRESET, -ECONNABORTED, -EPIPE,     -ENOENT,   -ENOBUFS,
                                  -EHOSTUNREACH, -EHOSTDOWN,  -ENETUNREACH,  -ESHUTDOWN, -ETIMEDOUT};
    for (unsigned i = 0; i < base_array_count(passing); i++) {
        if (error == passing[i])
            return true;
    }
    return false;
}

/* Whether a method may be repeated, though it may have been carried out. */
static bool is_repeatable(enum space_method method)
{
    switch (method) {
    case SPACE_CREATE:
    case SPACE_DELETE:
    case SPACE_RESERVE:
    case SPACE_RELEASE:
    case SPACE_ALLOC:
    case SPACE_FREE:
        return false;
    default:
        return true;
    }
}

static int connect_master(struct tarn_space *space, uint32_t calls, uint64_t deadline_ns,
                          struct tarn_rpc_connection **connection)
{
    const struct tarn_rpc_connect_options options = {
        .calls = calls, .request_bytes = SPACE_REQUEST_MAX, .result_bytes = SPACE_RESULT_MAX};
    if (*connection != NULL && tarn_rpc_error(*connection) != 0) {
        tarn_rpc_disconnect(*connection);
        *connection = NULL;
    }
    return *connection != NULL
               ? 0
               : tarn_rpc_connect(space->fabric, space->address, &options, deadline_ns, connection);
}

/* Make one attempt at a call. The caller has `control`. @param ret_may_have_run  set on failure */
static int call_once(struct tarn_space *space, struct tarn_rpc_call *call, bool *ret_is_connected)
{
    *ret_is_connected = false;
    int error = connect_master(space, CALLS, call->deadline_ns, &space->rpc);
    if (error != 0)
        return error;
    *ret_is_connected = true;
    memcpy((uint8_t *)(uintptr_t)call->request, space->session, SPACE_SESSION_BYTES);
    return tarn_rpc_call(space->rpc, call);
}

struct space_cursor client_begin(uint8_t *request)
{
    struct space_cursor cursor = space_cursor_to(request, SPACE_REQUEST_MAX);
    cursor.at += SPACE_SESSION_BYTES;
    return cursor;
}

/* ---- the session -------------------------------------------------------------------------------- */

bool client_holds(const struct tarn_space *space)
{
    return task_now() < atomic_load_explicit(&space->held_until_ns, memory_order_relaxed);
}

int client_ask_once(struct tarn_space *space, enum space_method method, uint8_t *request,
                    const struct space_cursor *end, uint8_t *result, uint32_t room, uint64_t deadline_ns)
{
    bool is_connected;
    struct tarn_rpc_call call = {.method = (uint32_t)method,
                                 .request = request,
                                 .request_bytes = (uint32_t)space_cursor_count(end, request),
                                 .result = result,
                                 .room = room,
                                 .deadline_ns = deadline_ns};
    int error = call_once(space, &call, &is_connected);
    return error == 0 && call.result_bytes != room ? -EPROTO : error;
}

/* Begin a session of a new id. */
static int say_hello(struct tarn_space *space, uint64_t deadline_ns)
{
    uint8_t request[SPACE_REQUEST_MAX], result[HELLO_BYTES], id[SPACE_SESSION_BYTES];
    const struct space_cursor end = client_begin(request);
    const uint64_t begin_ns = task_now();
    int error = task_random_bytes(space->node, id, sizeof(id));
    if (error != 0)
        return error;
    base_spin_lock(&space->lock);
    memcpy(space->session, id, sizeof(id));
    base_spin_unlock(&space->lock);
    error = client_ask_once(space, SPACE_HELLO, request, &end, result, sizeof(result), deadline_ns);
    if (error != 0)
        return error;
    struct space_cursor cursor = space_cursor_from(result, sizeof(result));
    (void)space_take(&cursor, 8);
    const uint64_t chunk_bytes = space_take(&cursor, 8), lease_ms = space_take(&cursor, 4);
    if (!base_is_power_of_two(chunk_bytes) || lease_ms == 0 ||
        (space->chunk_bytes != 0 && chunk_bytes != space->chunk_bytes))
        return -EPROTO;
    space->chunk_bytes = chunk_bytes;
    space->chunk_shift = (uint32_t)__builtin_ctzll(chunk_bytes);
    base_spin_lock(&space->lock);
    space->lease_ns = lease_ms * BASE_NS_PER_MS;
    space->next_held_until_ns = begin_ns + space->lease_ns;
    base_spin_unlock(&space->lock);
    return 0;
}

static void put_credentials(struct space_cursor *cursor, const char *name, const void *secret,
                            uint32_t secret_bytes)
{
    space_put(cursor, secret_bytes, 2);
    space_put(cursor, strlen(name), 2);
    space_put(cursor, 0, 4);
    space_put_bytes(cursor, secret, secret_bytes);
    space_put_bytes(cursor, name, strlen(name));
}

/* Join a namespace in a new session, and hold its regions there. What is gone says so from now on. */
static int join_again(struct tarn_space *space, struct tarn_space_namespace *of, uint64_t deadline_ns)
{
    uint8_t request[SPACE_REQUEST_MAX], result[SPACE_REGION_BYTES];
    struct space_cursor end = client_begin(request);
    put_credentials(&end, of->name, of->secret, of->secret_bytes);
    int error = client_ask_once(space, SPACE_JOIN, request, &end, result, 4, deadline_ns);
    const bool is_gone =
        error == -ENOENT || error == -EACCES || (error == 0 && base_load_le32(result) != of->number);
    base_list_for_each(at, &of->regions) {
        struct tarn_space_region *region = base_container_of(at, struct tarn_space_region, link);
        if (error == 0 && !is_gone && region->error == 0) {
            end = client_begin(request);
            space_put(&end, of->number, 4);
            space_put(&end, region->number, 4);
            error = client_ask_once(space, SPACE_HOLD, request, &end, result, sizeof(result), deadline_ns);
        }
        if (error == 0)
            region->is_in_doubt = false; /* the session before holds it until it is fenced */
        if (is_gone || error == -ENOENT) {
            region->error = -ESTALE;
            error = 0;
        }
    }
    return is_gone ? 0 : error;
}

void client_give_up_session(struct tarn_space *space)
{
    base_spin_lock(&space->lock);
    atomic_store(&space->is_lost, true);
    atomic_store(&space->held_until_ns, 0);
    base_spin_unlock(&space->lock);
    client_leave_servers(space);
}

/* Begin the session again. The caller has `control`. */
static int begin_session(struct tarn_space *space, uint64_t deadline_ns)
{
    client_give_up_session(space);
    int error = say_hello(space, deadline_ns);
    base_list_for_each(at, &space->namespaces) {
        if (error == 0)
            error = join_again(space, base_container_of(at, struct tarn_space_namespace, link), deadline_ns);
    }
    if (error != 0)
        return error;
    base_spin_lock(&space->lock);
    atomic_store(&space->held_until_ns, space->next_held_until_ns);
    atomic_store(&space->is_lost, false);
    base_spin_unlock(&space->lock);
    task_worker_poke(&space->keeper);
    return 0;
}

/* Make one attempt at asking the master, and begin the session before if that is lost. @param ret_again  whether another
 * attempt may help */
static int try_asking(struct tarn_space *space, struct tarn_rpc_call *call, bool *ret_again)
{
    bool is_connected = false;
    int error = 0;
    call->may_have_run = false;
    if (atomic_load(&space->is_lost))
        error = begin_session(space, call->deadline_ns);
    const bool is_begun = error == 0;
    if (is_begun)
        error = call_once(space, call, &is_connected);
    *ret_again = false;
    if (is_connected && error == -ESTALE) { /* the master does not know the session, and has done nothing */
        atomic_store(&space->is_lost, true);
        *ret_again = true;
    } else if (!is_connected || !is_begun) {
        *ret_again = is_passing(error) || error == -ESTALE;
    } else if (error == -EHOSTDOWN) {
        *ret_again = true; /* it does not lead, and has done nothing */
    } else if (error == -ESHUTDOWN || tarn_rpc_error(space->rpc) != 0 || error == -ETIMEDOUT) {
        if (call->may_have_run)
            atomic_store(&space->is_lost, true); /* what it has done for this session is given back with it */
        *ret_again = !call->may_have_run || is_repeatable((enum space_method)call->method);
        error = *ret_again ? error : -ECONNRESET;
    }
    return error;
}

int client_ask(struct tarn_space *space, enum space_method method, uint8_t *request,
               const struct space_cursor *end, uint8_t *result, uint32_t room, uint64_t deadline_ns,
               uint32_t *ret_bytes)
{
    struct tarn_rpc_call call = {.method = (uint32_t)method,
                                 .request = request,
                                 .request_bytes = (uint32_t)space_cursor_count(end, request),
                                 .result = result,
                                 .room = room,
                                 .deadline_ns = deadline_ns};
    bool again;
    if (end->is_wrong)
        return -EINVAL;
    int error = task_mutex_lock(&space->control, deadline_ns);
    if (error != 0)
        return error;
    for (;;) {
        error = try_asking(space, &call, &again);
        if (!again || task_now() >= deadline_ns)
            break;
        if (task_sleep_until(base_min(deadline_ns, task_now() + PAUSE_NS)) != 0) {
            error = -ECANCELED;
            break;
        }
    }
    task_mutex_unlock(&space->control);
    if (error == 0 && ret_bytes != NULL)
        *ret_bytes = call.result_bytes;
    else if (error == 0 && call.result_bytes != room)
        error = -EPROTO;
    return again && error != -ECANCELED ? -ETIMEDOUT : error;
}

/* Begin the session again, if nobody has meanwhile. */
static int begin_session_again(struct tarn_space *space, uint64_t deadline_ns)
{
    int error = task_mutex_lock(&space->control, deadline_ns);
    if (error != 0)
        return error;
    if (atomic_load(&space->is_lost))
        error = begin_session(space, deadline_ns);
    task_mutex_unlock(&space->control);
    return error;
}

int client_await_lease(struct tarn_space *space, uint64_t deadline_ns)
{
    int error = 0;
    while (!client_holds(space)) {
        if (atomic_load(&space->is_lost))
            error = begin_session_again(space, deadline_ns);
        if (error == -ECANCELED || (error != 0 && !is_passing(error)))
            return error;
        if (task_now() >= deadline_ns)
            return -ETIMEDOUT;
        if (!client_holds(space) && task_sleep_until(base_min(deadline_ns, task_now() + PAUSE_NS)) != 0)
            return -ECANCELED;
    }
    return 0;
}

/* ---- the keeper --------------------------------------------------------------------------------- */

/* Renew the lease. @return when to look again */
static uint64_t renew_lease(struct tarn_space *space, struct tarn_rpc_connection **connection)
{
    uint8_t request[SPACE_SESSION_BYTES], result[8];
    base_spin_lock(&space->lock);
    memcpy(request, space->session, sizeof(request));
    const uint64_t lease_ns = space->lease_ns;
    base_spin_unlock(&space->lock);
    const uint64_t begin_ns = task_now(), deadline_ns = begin_ns + base_min(lease_ns / RENEWALS, PATIENCE_NS);
    struct tarn_rpc_call call = {.method = SPACE_RENEW,
                                 .request = request,
                                 .request_bytes = sizeof(request),
                                 .result = result,
                                 .room = sizeof(result),
                                 .deadline_ns = deadline_ns};
    int error = connect_master(space, 1, deadline_ns, connection);
    const bool is_connected = error == 0;
    if (is_connected)
        error = tarn_rpc_call(*connection, &call);
    base_spin_lock(&space->lock);
    const bool is_same =
        memcmp(request, space->session, sizeof(request)) == 0 && !atomic_load(&space->is_lost);
    if (is_same && error == 0)
        atomic_store(&space->held_until_ns, begin_ns + lease_ns);
    else if (is_same && !client_holds(space))
        atomic_store(&space->held_until_ns, 0); /* operations wait from now on */
    if (is_same && is_connected && error == -ENOENT) {
        atomic_store(&space->held_until_ns, 0);
        atomic_store(&space->is_lost, true);
    }
    base_spin_unlock(&space->lock);
    return error == 0 ? begin_ns + lease_ns / RENEWALS : task_now() + PAUSE_NS;
}

static void keep_lease(void *arg)
{
    struct tarn_space *space = arg;
    struct tarn_rpc_connection *connection = NULL;
    while (!task_worker_stops(&space->keeper)) {
        const uint64_t next_ns = atomic_load(&space->is_lost)
                                     ? TASK_FOREVER /* until it is begun again, which pokes */
                                     : renew_lease(space, &connection);
        (void)task_worker_sleep_until(&space->keeper, next_ns);
    }
    if (connection != NULL)
        tarn_rpc_disconnect(connection);
}

/* ---- connecting --------------------------------------------------------------------------------- */

static void prepare_space(struct tarn_space *space, struct tarn_fabric *fabric,
                          const struct tarn_space_options *options)
{
    space->node = fabric_node(fabric);
    space->fabric = fabric;
    space->cache_bytes =
        options != NULL && options->cache_bytes != 0 ? options->cache_bytes : UINT64_C(1) << 30;
    task_mutex_init(&space->control);
    task_worker_init(&space->keeper);
    base_list_init(&space->namespaces);
    base_list_init(&space->cached);
    base_list_init(&space->free_pieces);
    base_list_init(&space->posted_pieces);
    for (unsigned i = 0; i < CLIENT_PIECES; i++)
        base_list_push_back(&space->free_pieces, &space->pieces[i].link);
}

static void free_space(struct tarn_space *space)
{
    if (space->rpc != NULL)
        tarn_rpc_disconnect(space->rpc);
    while (!base_list_empty(&space->cached))
        client_memory_free(space,
                           base_container_of(base_list_first(&space->cached), struct client_memory, link));
    if (space->domain != NULL)
        tarn_fabric_domain_close(space->domain);
    base_free(&space->node->memory, space, sizeof(*space));
}

/* Begin the first session, waiting for a master to lead. */
static int begin_first_session(struct tarn_space *space, uint64_t deadline_ns)
{
    int error = connect_master(space, CALLS, deadline_ns, &space->rpc);
    if (error != 0)
        return error;
    while ((error = begin_session(space, deadline_ns)) == -EHOSTDOWN && task_now() < deadline_ns) {
        if (task_sleep_until(base_min(deadline_ns, task_now() + PAUSE_NS)) != 0)
            return -ECANCELED;
    }
    return error == -ENOSYS ? -EPROTO : error;
}

int tarn_space_connect(struct tarn_fabric *fabric, const char *address,
                       const struct tarn_space_options *options, uint64_t deadline_ns,
                       struct tarn_space **ret_space)
{
    struct base_account *account = &fabric_node(fabric)->memory;
    struct tarn_space *space = base_alloc(account, sizeof(*space));
    if (space == NULL)
        return -ENOMEM;
    prepare_space(space, fabric, options);
    const int len = snprintf(space->address, sizeof(space->address), "%s", address);
    int error = len < 0 || (size_t)len >= sizeof(space->address) ? -EINVAL : 0;
    if (error == 0)
        error = tarn_fabric_domain_open(fabric, NULL, &space->domain);
    if (error == 0)
        error = begin_first_session(space, deadline_ns);
    if (error == 0)
        error = task_worker_start(&space->keeper, "space-keeper", keep_lease, space);
    if (error == 0)
        *ret_space = space;
    else
        free_space(space);
    return error;
}

void tarn_space_disconnect(struct tarn_space *space)
{
    uint8_t request[SPACE_REQUEST_MAX];
    const struct space_cursor end = client_begin(request);
    base_assert(base_list_empty(&space->namespaces) && base_list_empty(&space->posted_pieces));
    task_worker_stop(&space->keeper);
    if (!atomic_load(&space->is_lost) && space->rpc != NULL) /* else the master ends the session by itself */
        (void)client_ask_once(space, SPACE_BYE, request, &end, NULL, 0, task_now() + PATIENCE_NS);
    free_space(space);
}

/* ---- namespaces --------------------------------------------------------------------------------- */

/* Create or join a namespace. */
static int enter_namespace(struct tarn_space *space, enum space_method method, const char *name,
                           const void *secret, uint32_t secret_bytes, uint64_t deadline_ns,
                           struct tarn_space_namespace **ret_namespace)
{
    uint8_t request[SPACE_REQUEST_MAX], result[4];
    struct space_cursor end = client_begin(request);
    if (!base_name_is_good(name, strlen(name)) || secret_bytes > TARN_SPACE_SECRET_MAX)
        return -EINVAL;
    struct tarn_space_namespace *of = base_alloc(&space->node->memory, sizeof(*of));
    if (of == NULL)
        return -ENOMEM;
    put_credentials(&end, name, secret, secret_bytes);
    int error = client_ask(space, method, request, &end, result, sizeof(result), deadline_ns, NULL);
    if (error != 0) {
        base_free(&space->node->memory, of, sizeof(*of));
        return error;
    }
    of->space = space;
    of->number = base_load_le32(result);
    memcpy(of->name, name, strlen(name));
    of->secret_bytes = secret_bytes;
    if (secret_bytes > 0)
        memcpy(of->secret, secret, secret_bytes);
    base_list_init(&of->regions);
    base_list_init(&of->links);
    base_list_push_back(&space->namespaces, &of->link);
    *ret_namespace = of;
    return 0;
}

int tarn_space_create_ns(struct tarn_space *space, const char *name, const void *secret,
                         uint32_t secret_bytes, uint64_t deadline_ns,
                         struct tarn_space_namespace **ret_namespace)
{
    return enter_namespace(space, SPACE_CREATE, name, secret, secret_bytes, deadline_ns, ret_namespace);
}

int tarn_space_join_ns(struct tarn_space *space, const char *name, const void *secret, uint32_t secret_bytes,
                       uint64_t deadline_ns, struct tarn_space_namespace **ret_namespace)
{
    return enter_namespace(space, SPACE_JOIN, name, secret, secret_bytes, deadline_ns, ret_namespace);
}

void tarn_space_leave_ns(struct tarn_space_namespace *of)
{
    base_assert(base_list_empty(&of->regions));
    task_mutex_lock_firmly(&of->space->control); /* a session that is being begun goes through the list */
    client_free_links(of);
    base_list_remove(&of->link);
    task_mutex_unlock(&of->space->control);
    base_free(&of->space->node->memory, of, sizeof(*of));
}

/* Ask something about a namespace. @param bytes  of memory; 0: not asked for */
static int ask_of_namespace(struct tarn_space_namespace *of, enum space_method method, bool with_bytes,
                            uint64_t bytes, uint64_t deadline_ns)
{
    uint8_t request[SPACE_REQUEST_MAX];
    struct space_cursor end = client_begin(request);
    space_put(&end, of->number, 4);
    space_put(&end, 0, 4);
    if (with_bytes)
        space_put(&end, bytes, 8);
    return client_ask(of->space, method, request, &end, NULL, 0, deadline_ns, NULL);
}

int tarn_space_delete_ns(struct tarn_space_namespace *of, uint64_t deadline_ns)
{
    return ask_of_namespace(of, SPACE_DELETE, false, 0, deadline_ns);
}

int tarn_space_reserve(struct tarn_space_namespace *of, uint64_t bytes, uint64_t deadline_ns)
{
    return ask_of_namespace(of, SPACE_RESERVE, true, bytes, deadline_ns);
}

int tarn_space_release(struct tarn_space_namespace *of, uint64_t bytes, uint64_t deadline_ns)
{
    return ask_of_namespace(of, SPACE_RELEASE, true, bytes, deadline_ns);
}
