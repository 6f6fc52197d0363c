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
#define HELLO_BYTES 40                    /* of the answer to HELLO */
#define RENEW_BYTES 24                    /* of the answer to RENEW */

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
    case SPACE_BEGIN:
        return false;
    default:
        return true;
    }
}

/* Give a connection up: the next one is made with the next of the masters. */
static void leave_master(struct client_master *master)
{
    if (master->rpc != NULL)
        tarn_rpc_disconnect(master->rpc);
    master->rpc = NULL;
    master->turn++;
}

/* @param lease_ns  a master that does not answer within a part of it is left for the next */
static int connect_master(const struct tarn_space *space, struct client_master *master, uint32_t calls,
                          uint64_t lease_ns, uint64_t deadline_ns)
{
    const struct tarn_rpc_connect_options options = {
        .calls = calls, .request_bytes = SPACE_REQUEST_MAX, .result_bytes = SPACE_RESULT_MAX};
    char address[SPACE_ADDRESS_MAX + 1];
    if (master->rpc != NULL && tarn_rpc_error(master->rpc) != 0)
        leave_master(master);
    if (master->rpc != NULL)
        return 0;
    if (!space_address_at(space->addresses, master->turn, address))
        return -EINVAL;
    int error = tarn_rpc_connect(space->fabric, address, &options,
                                 base_min(deadline_ns, task_now() + lease_ns / RENEWALS), &master->rpc);
    if (error != 0)
        leave_master(master);
    return error;
}

/* Make one attempt at a call, in the session that there is. The caller has `control`. @param ret_is_answered  whether a master
 * that leads has answered; else it may have run, if the call says so */
static int call_once(struct tarn_space *space, struct tarn_rpc_call *call, bool *ret_is_answered)
{
    *ret_is_answered = false;
    int error = connect_master(space, &space->master, CALLS, space->lease_ns, call->deadline_ns);
    if (error != 0)
        return error;
    memcpy((uint8_t *)(uintptr_t)call->request, space->session, SPACE_SESSION_BYTES);
    error = tarn_rpc_call(space->master.rpc, call);
    if (error == -EHOSTDOWN)
        call->may_have_run = false; /* it does not lead, and has done nothing */
    *ret_is_answered = error != -EHOSTDOWN && error != -ESHUTDOWN && error != -ETIMEDOUT &&
                       tarn_rpc_error(space->master.rpc) == 0;
    if (!*ret_is_answered)
        leave_master(&space->master);
    return error;
}

struct space_cursor client_begin(uint8_t *request)
{
    struct space_cursor cursor = space_cursor_to(request, SPACE_REQUEST_MAX);
    cursor.at += SPACE_SESSION_BYTES;
    return cursor;
}

struct space_cursor client_begin_of(uint8_t *request, const struct tarn_space_namespace *of, uint32_t number)
{
    struct space_cursor cursor = client_begin(request);
    space_put(&cursor, of->number, 4);
    space_put(&cursor, number, 4);
    return cursor;
}

static struct tarn_rpc_call make_call(enum space_method method, uint8_t *request,
                                      const struct space_cursor *end, uint8_t *result, uint32_t room,
                                      uint64_t deadline_ns)
{
    return (struct tarn_rpc_call){.method = (uint32_t)method,
                                  .request = request,
                                  .request_bytes = (uint32_t)space_cursor_count(end, request),
                                  .result = result,
                                  .room = room,
                                  .deadline_ns = deadline_ns};
}

int client_ask_once(struct tarn_space *space, enum space_method method, uint8_t *request,
                    const struct space_cursor *end, uint8_t *result, uint32_t room, uint64_t deadline_ns)
{
    bool is_answered;
    struct tarn_rpc_call call = make_call(method, request, end, result, room, deadline_ns);
    int error = call_once(space, &call, &is_answered);
    return error == 0 && call.result_bytes != room ? -EPROTO : error;
}

/* ---- the session -------------------------------------------------------------------------------- */

bool client_holds(const struct tarn_space *space)
{
    return task_now() < atomic_load_explicit(&space->held_until_ns, memory_order_relaxed);
}

uint64_t tarn_space_session(const struct tarn_space *space)
{
    return atomic_load(&space->state) == CLIENT_LOST ? 0 : space->session_number;
}

static int draw_session(struct tarn_space *space)
{
    uint8_t id[SPACE_SESSION_BYTES];
    int error = task_random_bytes(space->node, id, sizeof(id));
    const uint64_t number = error == 0 ? space_session_number(id) : 0;
    if (number == 0)
        return error == 0 ? -ENOMEM : error;
    base_spin_lock(&space->lock);
    memcpy(space->session, id, sizeof(id));
    space->session_number = number;
    base_spin_unlock(&space->lock);
    return 0;
}

/* Note what the master tells when it has heard of the session. One who had no lease may have missed views of earlier terms. The caller has
 * the lock. */
static void note_told(struct tarn_space *space, uint64_t epoch, uint64_t heard_ns, uint64_t view)
{
    space->told_epoch = epoch;
    space->told_heard_ns = heard_ns;
    space->told_view = view;
    if ((!space_view_is_first(view) || !client_holds(space)) && view > atomic_load(&space->view))
        atomic_store(&space->view, view);
}

/* Begin the session at the master. @param ret_is_new  whether the master did not know it */
static int say_hello(struct tarn_space *space, uint32_t flags, uint64_t deadline_ns, bool *ret_is_new)
{
    uint8_t request[SPACE_REQUEST_MAX], result[HELLO_BYTES];
    struct space_cursor end = client_begin(request);
    const uint64_t begin_ns = task_now();
    space_put(&end, flags, 4);
    base_spin_lock(&space->lock);
    space_put(&end, space->told_epoch, 8);
    space_put(&end, space->told_heard_ns, 8);
    base_spin_unlock(&space->lock);
    int error = client_ask_once(space, SPACE_HELLO, request, &end, result, sizeof(result), deadline_ns);
    if (error != 0)
        return error;
    struct space_cursor cursor = space_cursor_from(result, sizeof(result));
    const uint64_t epoch = space_take(&cursor, 8), chunk_bytes = space_take(&cursor, 8);
    const uint64_t lease_ms = space_take(&cursor, 4), is_new = space_take(&cursor, 4);
    const uint64_t view = space_take(&cursor, 8), heard_ns = space_take(&cursor, 8);
    if (!base_is_power_of_two(chunk_bytes) || lease_ms == 0 || is_new > 1 ||
        (space->chunk_bytes != 0 && chunk_bytes != space->chunk_bytes))
        return -EPROTO;
    if (space->chunk_bytes == 0) { /* later on others read it */
        space->chunk_bytes = chunk_bytes;
        space->chunk_shift = (uint32_t)__builtin_ctzll(chunk_bytes);
    }
    base_spin_lock(&space->lock);
    space->lease_ns = lease_ms * BASE_NS_PER_MS;
    space->next_held_until_ns = begin_ns + space->lease_ns;
    note_told(space, epoch, heard_ns, view);
    base_spin_unlock(&space->lock);
    *ret_is_new = is_new == 1;
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

/* Tell a master that does not know this session a namespace, and the regions that are held of it. What is gone says so from
 * now on. @param resumes  -ESTALE instead, if a region is gone: what is under way there could meet another use of its chunks */
static int report_namespace(struct tarn_space *space, const struct tarn_space_namespace *of, bool resumes,
                            uint64_t deadline_ns)
{
    uint8_t request[SPACE_REQUEST_MAX], result[SPACE_REGION_BYTES];
    struct space_cursor end = client_begin(request);
    put_credentials(&end, of->name, of->secret, of->secret_bytes);
    int error = client_ask_once(space, SPACE_JOIN, request, &end, result, 4, deadline_ns);
    const bool is_gone =
        error == -ENOENT || error == -EACCES || (error == 0 && base_load_le32(result) != of->number);
    base_list_for_each(at, &of->regions) {
        struct tarn_space_region *region = base_container_of(at, struct tarn_space_region, link);
        if (atomic_load(&region->error) != 0)
            continue;
        if (error == 0 && !is_gone) {
            end = client_begin_of(request, of, region->number);
            error = client_ask_once(space, SPACE_HOLD, request, &end, result, sizeof(result), deadline_ns);
        }
        if (resumes && (is_gone || error == -ENOENT))
            return -ESTALE;
        if (is_gone || error == -ENOENT) {
            atomic_store(&region->error, -ESTALE);
            error = 0;
        }
    }
    return is_gone ? 0 : error;
}

/* Tell a master all of this session, and have the lease that it has given. The caller has `control`. */
static int report(struct tarn_space *space, bool resumes, uint64_t deadline_ns)
{
    uint8_t request[SPACE_REQUEST_MAX];
    const struct space_cursor end = client_begin(request);
    int error = 0;
    base_list_for_each(at, &space->namespaces) {
        if (error == 0)
            error = report_namespace(space, base_container_of(at, struct tarn_space_namespace, link), resumes,
                                     deadline_ns);
    }
    if (error == 0 && resumes)
        error = client_ask_once(space, SPACE_RESUMED, request, &end, NULL, 0, deadline_ns);
    if (error != 0)
        return error;
    base_spin_lock(&space->lock);
    atomic_store(&space->held_until_ns, space->next_held_until_ns);
    atomic_store(&space->state, CLIENT_KNOWN);
    base_spin_unlock(&space->lock);
    return 0;
}

/* Go on with this session at a master that does not know it: its connections with memory servers stay. It is given up if the master
 * does know it, because then calls of which this side knows no outcome may have run there; and if a region of it is gone.
 * The caller has `control`. */
static int resume_session(struct tarn_space *space, uint64_t deadline_ns)
{
    bool is_new;
    int error = say_hello(space, SPACE_RESUMES, deadline_ns, &is_new);
    if (error == -EEXIST || (error == 0 && !is_new))
        error = -ESTALE;
    if (error == 0)
        error = report(space, true, deadline_ns);
    if (error == -ESTALE)
        atomic_store(&space->state, CLIENT_LOST);
    return error;
}

void client_give_up_session(struct tarn_space *space)
{
    base_spin_lock(&space->lock);
    atomic_store(&space->state, CLIENT_LOST);
    atomic_store(&space->held_until_ns, 0);
    base_spin_unlock(&space->lock);
    client_leave_servers(space);
}

void tarn_space_renew_session(struct tarn_space *space)
{
    task_mutex_lock_firmly(&space->control);
    client_give_up_session(space);
    task_mutex_unlock(&space->control);
}

/* Begin a session of a new id. The caller has `control`. */
static int begin_session(struct tarn_space *space, uint64_t deadline_ns)
{
    bool is_new;
    client_give_up_session(space);
    int error = draw_session(space);
    if (error == 0)
        error = say_hello(space, 0, deadline_ns, &is_new);
    base_list_for_each(at, &space->namespaces) {
        struct base_list *regions = &base_container_of(at, struct tarn_space_namespace, link)->regions;
        base_list_for_each(of, regions) /* the session before holds them until it is fenced */
            base_container_of(of, struct tarn_space_region, link)->is_in_doubt = false;
    }
    return error == 0 ? report(space, false, deadline_ns) : error;
}

/* Have a session that the master knows. The caller has `control`. */
static int have_session(struct tarn_space *space, uint64_t deadline_ns)
{
    if (atomic_load(&space->state) == CLIENT_KNOWN)
        return 0;
    int error = atomic_load(&space->state) == CLIENT_UNKNOWN ? resume_session(space, deadline_ns) : 0;
    if (atomic_load(&space->state) == CLIENT_LOST)
        error = begin_session(space, deadline_ns);
    if (error == 0)
        task_worker_poke(&space->keeper);
    return error;
}

/* Make one attempt at asking the master, with a session. @param ret_again  whether another attempt may help */
static int try_asking(struct tarn_space *space, struct tarn_rpc_call *call, bool *ret_again)
{
    bool is_answered = false;
    call->may_have_run = false;
    int error = have_session(space, call->deadline_ns);
    if (error == 0)
        error = call_once(space, call, &is_answered);
    if (is_answered) {
        *ret_again = error == -ESTALE || error == -EINPROGRESS; /* it has done nothing */
        if (error == -ESTALE)
            atomic_store(&space->state, CLIENT_UNKNOWN);
        return error;
    }
    *ret_again = is_passing(error) || error == -ESTALE;
    if (call->may_have_run) {
        atomic_store(&space->state, CLIENT_UNKNOWN); /* at another master it has not run */
        *ret_again = is_repeatable((enum space_method)call->method);
        error = *ret_again ? error : -ECONNRESET;
    }
    return error;
}

int client_ask_held(struct tarn_space *space, enum space_method method, uint8_t *request,
                    const struct space_cursor *end, uint8_t *result, uint32_t room, uint64_t deadline_ns,
                    uint32_t *ret_bytes)
{
    struct tarn_rpc_call call = make_call(method, request, end, result, room, deadline_ns);
    bool again;
    int error;
    if (end->is_wrong)
        return -EINVAL;
    for (;;) {
        call.deadline_ns = base_min(deadline_ns, task_now() + space->lease_ns); /* it may stand still */
        error = try_asking(space, &call, &again);
        if (!again)
            break;
        if (task_sleep_until(base_min(deadline_ns, task_now() + PAUSE_NS)) != 0)
            return -ECANCELED;
        if (task_now() >= deadline_ns)
            break;
    }
    if (error == 0 && ret_bytes != NULL)
        *ret_bytes = call.result_bytes;
    else if (error == 0 && call.result_bytes != room)
        error = -EPROTO;
    return again ? -ETIMEDOUT : error;
}

int client_ask(struct tarn_space *space, enum space_method method, uint8_t *request,
               const struct space_cursor *end, uint8_t *result, uint32_t room, uint64_t deadline_ns,
               uint32_t *ret_bytes)
{
    int error = task_mutex_lock(&space->control, deadline_ns);
    if (error != 0)
        return error;
    error = client_ask_held(space, method, request, end, result, room, deadline_ns, ret_bytes);
    task_mutex_unlock(&space->control);
    return error;
}

int client_await_lease(struct tarn_space *space, uint64_t deadline_ns)
{
    while (!client_holds(space)) {
        int error = task_mutex_lock(&space->control, deadline_ns);
        if (error == 0) {
            error = have_session(space, base_min(deadline_ns, task_now() + space->lease_ns));
            task_mutex_unlock(&space->control);
        }
        if (error == -ECANCELED || (error != 0 && error != -ESTALE && !is_passing(error)))
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
static uint64_t renew_lease(struct tarn_space *space, struct client_master *master)
{
    uint8_t request[SPACE_SESSION_BYTES + 8], result[RENEW_BYTES];
    base_spin_lock(&space->lock);
    memcpy(request, space->session, SPACE_SESSION_BYTES);
    base_store_le64(request + SPACE_SESSION_BYTES, space->told_view);
    const uint64_t view = space->told_view;
    const uint64_t lease_ns = space->lease_ns;
    base_spin_unlock(&space->lock);
    const uint64_t begin_ns = task_now(), deadline_ns = begin_ns + base_min(lease_ns / RENEWALS, PATIENCE_NS);
    const struct space_cursor end = {.at = request + sizeof(request)};
    struct tarn_rpc_call call = make_call(SPACE_RENEW, request, &end, result, sizeof(result), deadline_ns);
    int error = connect_master(space, master, 1, lease_ns, deadline_ns);
    const bool is_connected = error == 0;
    if (is_connected)
        error = tarn_rpc_call(master->rpc, &call);
    base_spin_lock(&space->lock);
    const bool is_same = memcmp(request, space->session, SPACE_SESSION_BYTES) == 0 &&
                         atomic_load(&space->state) == CLIENT_KNOWN;
    if (is_same && error == 0) {
        note_told(space, base_load_le64(result), base_load_le64(result + 16), base_load_le64(result + 8));
        atomic_store(&space->held_until_ns, begin_ns + lease_ns);
    } else if (is_same && is_connected && error == -ENOENT)
        atomic_store(&space->state, CLIENT_UNKNOWN);
    base_spin_unlock(&space->lock);
    if (is_connected && error != 0 && error != -ENOENT)
        leave_master(master); /* it does not lead, or stands still */
    if (error == 0 && base_load_le64(result + 8) != view)
        return task_now(); /* the master waits to hear that it is known */
    return error == 0 ? begin_ns + lease_ns / RENEWALS : task_now() + PAUSE_NS;
}

/* Tell a master of this session that does not know it, so that it holds what it held also if its user makes no call. @return when
 * to look again */
static uint64_t make_known(struct tarn_space *space)
{
    const uint64_t begin_ns = task_now(), deadline_ns = begin_ns + PATIENCE_NS;
    if (task_mutex_lock(&space->control, deadline_ns) == 0) {
        if (atomic_load(&space->state) == CLIENT_UNKNOWN)
            (void)resume_session(space, deadline_ns);
        task_mutex_unlock(&space->control);
    }
    return task_now() + PAUSE_NS;
}

/* If the lease has ended, have operations wait from now on. */
static void look_at_lease(struct tarn_space *space)
{
    base_spin_lock(&space->lock);
    if (!client_holds(space))
        atomic_store(&space->held_until_ns, 0);
    base_spin_unlock(&space->lock);
}

static void keep_lease(void *arg)
{
    struct tarn_space *space = arg;
    struct client_master master = {.rpc = NULL};
    while (!task_worker_stops(&space->keeper)) {
        const enum client_state state = atomic_load(&space->state);
        const uint64_t next_ns = state == CLIENT_KNOWN ? renew_lease(space, &master)
                                 : state == CLIENT_UNKNOWN
                                     ? make_known(space)
                                     : TASK_FOREVER; /* until it is begun again, which pokes */
        look_at_lease(space);
        (void)task_worker_sleep_until(&space->keeper, next_ns);
    }
    if (master.rpc != NULL)
        tarn_rpc_disconnect(master.rpc);
}

/* ---- connecting --------------------------------------------------------------------------------- */

static void prepare_space(struct tarn_space *space, struct tarn_fabric *fabric,
                          const struct tarn_space_options *options)
{
    space->node = fabric_node(fabric);
    space->lease_ns = TARN_SPACE_LEASE_NS; /* until a master tells it */
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
    if (space->master.rpc != NULL)
        tarn_rpc_disconnect(space->master.rpc);
    while (!base_list_empty(&space->cached))
        client_memory_free(space,
                           base_container_of(base_list_first(&space->cached), struct client_memory, link));
    if (space->domain != NULL)
        tarn_fabric_domain_close(space->domain);
    base_free(&space->node->memory, space, sizeof(*space));
}

/* Begin the first session, waiting for a master to lead, but for none that is not there. */
static int begin_first_session(struct tarn_space *space, uint64_t deadline_ns)
{
    uint32_t failures = 0;
    for (;;) {
        int error = have_session(space, deadline_ns);
        if (error == 0)
            return 0;
        if (error == -EHOSTDOWN || error == -ESHUTDOWN)
            failures = 0;
        else if (!is_passing(error) ||
                 (error != -ETIMEDOUT && ++failures == space_address_count(space->addresses)))
            return error == -ENOSYS ? -EPROTO : error;
        if (task_now() >= deadline_ns)
            return error;
        if (task_sleep_until(base_min(deadline_ns, task_now() + PAUSE_NS)) != 0)
            return -ECANCELED;
    }
}

int tarn_space_connect(struct tarn_fabric *fabric, const char *addresses,
                       const struct tarn_space_options *options, uint64_t deadline_ns,
                       struct tarn_space **ret_space)
{
    struct base_account *account = &fabric_node(fabric)->memory;
    struct tarn_space *space = base_alloc(account, sizeof(*space));
    if (space == NULL)
        return -ENOMEM;
    prepare_space(space, fabric, options);
    int error = space_address_count(addresses) == 0 ? -EINVAL : 0;
    if (error == 0)
        (void)snprintf(space->addresses, sizeof(space->addresses), "%s", addresses);
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
    if (atomic_load(&space->state) == CLIENT_KNOWN &&
        space->master.rpc != NULL) /* else the master ends the session by itself */
        (void)client_ask_once(space, SPACE_BYE, request, &end, NULL, 0, task_now() + PATIENCE_NS);
    free_space(space);
}

/* ---- namespaces --------------------------------------------------------------------------------- */

static void note_namespace(struct tarn_space_namespace *of, const char *name, const void *secret,
                           uint32_t secret_bytes, uint32_t number)
{
    of->number = number;
    memcpy(of->name, name, strlen(name));
    of->secret_bytes = secret_bytes;
    if (secret_bytes > 0)
        memcpy(of->secret, secret, secret_bytes);
    base_list_init(&of->regions);
    base_list_init(&of->links);
    base_list_push_back(&of->space->namespaces, &of->link);
}

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
    of->space = space;
    put_credentials(&end, name, secret, secret_bytes);
    int error = task_mutex_lock(&space->control, deadline_ns); /* until the next master would be told of it */
    if (error == 0) {
        error = client_ask_held(space, method, request, &end, result, sizeof(result), deadline_ns, NULL);
        if (error == 0)
            note_namespace(of, name, secret, secret_bytes, base_load_le32(result));
        task_mutex_unlock(&space->control);
    }
    if (error != 0) {
        base_free(&space->node->memory, of, sizeof(*of));
        return error;
    }
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

/* Ask something about a namespace. @param number  bytes of memory, or of a session */
static int ask_of_namespace(struct tarn_space_namespace *of, enum space_method method, bool with_number,
                            uint64_t number, uint64_t deadline_ns)
{
    uint8_t request[SPACE_REQUEST_MAX];
    struct space_cursor end = client_begin_of(request, of, 0);
    if (with_number)
        space_put(&end, number, 8);
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

int tarn_space_session_ended(struct tarn_space_namespace *of, uint64_t session, uint64_t deadline_ns)
{
    return ask_of_namespace(of, SPACE_ENDED, true, session, deadline_ns);
}
