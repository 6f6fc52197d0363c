/* Lanes: connections with a server, which are made again after they have failed, and calls over them. */
#include "cache/cache.h"
#include "fabric/fabric.h"
#include "kv/remote.h"
#include "task/thread.h"
#include <errno.h>
#include <string.h>

#define CALLS_NARROW 16
#define CALLS_WIDE   1
#define PAUSE_NS_MIN                                                                                         \
    (5 * BASE_NS_PER_MS) /* the first pause between attempts to connect; each is twice the one before */
#define PAUSE_NS_MAX                                                                                         \
    BASE_NS_PER_SECOND /* the longest pause; to each a random part, of up to its half, is added */

static struct tarn_node *node_of(const struct kv_lane *lane)
{
    return lane->remote->kv.node;
}

/* ---- links -------------------------------------------------------------------------------------- */

static void leave_link(struct kv_lane *lane, struct kv_link *connection)
{
    if (--connection->users > 0)
        return;
    tarn_rpc_disconnect(connection->rpc);
    base_free(&node_of(lane)->memory, connection, sizeof(*connection));
}

bool kv_is_passing(int error)
{
    static const int passing[] = {-ECONNREFUSED, -ECONNRESET,   -ECONNABORTED, -EPIPE,     -ENOENT,
                                  -ETIMEDOUT,    -EHOSTUNREACH, -ENETUNREACH,  -EHOSTDOWN, -ESHUTDOWN,
                                  -ENOTCONN,     -EAGAIN,       -ENOMEM};
    for (unsigned i = 0; i < base_array_count(passing); i++) {
        if (error == passing[i])
            return true;
    }
    return false;
}

/* Ask the server for the store's number and for its routing: which worker has which keys. */
static int ask_info(struct kv_lane *lane, struct kv_link *connection, uint64_t deadline_ns,
                    struct kv_store_info *ret_info)
{
    const struct kv_remote *remote = lane->remote;
    const struct kv_request request = {
        .store = KV_STORE_BY_NAME, .key = remote->name, .key_len = (uint16_t)strlen(remote->name)};
    uint8_t bytes[KV_REQUEST_BYTES_MAX + KV_NAME_MAX], result[KV_INFO_BYTES + KV_NAME_MAX];
    struct tarn_rpc_call call = {.method = KV_INFO,
                                 .request = bytes,
                                 .request_bytes = (uint32_t)kv_request_bytes(KV_INFO, &request),
                                 .result = result,
                                 .room = sizeof(result),
                                 .deadline_ns = deadline_ns};
    struct kv_store_info info;
    kv_request_save(KV_INFO, &request, bytes);
    int error = tarn_rpc_call(connection->rpc, &call);
    if (error == 0)
        error = kv_info_load(result, call.result_bytes, &info);
    else if (error == -ENOSYS || error == -EINVAL || error == -EMSGSIZE)
        error = -EPROTO;
    if (error == 0 && remote->kv.info.kind != NULL && remote->kv.info.kind != info.info.kind)
        error = -ENXIO;
    if (error != 0)
        return error;
    info.name = NULL;
    connection->store = info.store;
    lane->workers = info.workers;
    lane->partitions = info.info.kind == kv_kind_cache ? info.info.partitions : 0;
    lane->seed = info.seed;
    lane->must_ask = false;
    *ret_info = info;
    return 0;
}

/* Connect with a worker. @param export_bytes  as in rpc_connect() */
static int connect_link(struct kv_lane *lane, const struct tarn_rpc_connect_options *options,
                        uint64_t export_bytes, uint64_t deadline_ns, struct kv_store_info *ret_info,
                        struct kv_link **ret_link)
{
    struct base_account *account = &node_of(lane)->memory;
    struct kv_link *connection = base_alloc(account, sizeof(*connection));
    if (connection == NULL)
        return -ENOMEM;
    connection->users = 1;
    int error = rpc_connect(lane->remote->fabric, lane->remote->address, options, export_bytes, deadline_ns,
                            &connection->rpc);
    if (error != 0) {
        base_free(account, connection, sizeof(*connection));
        return error == -ENOBUFS ? -ENOMEM : error; /* there or here */
    }
    error = ask_info(lane, connection, deadline_ns, ret_info);
    if (error != 0) {
        leave_link(lane, connection);
        return error;
    }
    *ret_link = connection;
    return 0;
}

static struct tarn_rpc_connect_options options_of(uint32_t worker, bool is_wide)
{
    return (struct tarn_rpc_connect_options){.calls = is_wide ? CALLS_WIDE : CALLS_NARROW,
                                             .request_bytes =
                                                 is_wide ? TARN_RPC_BYTES_MAX : KV_NARROW_REQUEST,
                                             .result_bytes = is_wide ? TARN_RPC_BYTES_MAX : KV_NARROW_RESULT,
                                             .worker = worker + 1};
}

/* Make the pause before the next attempt longer. */
static void grow_pause(struct kv_lane *lane)
{
    lane->pause_ns = base_min(base_max(lane->pause_ns * 2, PAUSE_NS_MIN), PAUSE_NS_MAX);
    lane->not_before_ns = task_now() + lane->pause_ns + task_rng(node_of(lane)) % (lane->pause_ns / 2);
    lane->must_ask = true;
}

static bool is_alive(const struct kv_link *connection)
{
    return connection != NULL && tarn_rpc_error(connection->rpc) == 0;
}

/* The error of a call whose time has passed without a connection. */
static int given_up(const struct kv_lane *lane)
{
    return lane->connect_error == -ENOMEM ? -ENOMEM : -EHOSTUNREACH;
}

/* Connect once, after the pause. */
static int connect_in_time(struct kv_lane *lane, const struct tarn_rpc_connect_options *options,
                           uint64_t export_bytes, uint64_t deadline_ns, struct kv_link **ret_link)
{
    struct kv_store_info info;
    if (task_now() < lane->not_before_ns &&
        task_sleep_until(base_min(lane->not_before_ns, deadline_ns)) == -ECANCELED)
        return -ECANCELED;
    if (task_now() >= deadline_ns)
        return given_up(lane);
    int error = connect_link(lane, options, export_bytes, deadline_ns, &info, ret_link);
    lane->connect_error = error;
    if (error != 0)
        grow_pause(lane);
    return error;
}

/* Make a link anew. Called by the task that holds the mutex. */
static int renew_link(struct kv_lane *lane, uint32_t worker, bool is_wide, uint64_t deadline_ns)
{
    struct kv_link **place = &lane->links[2 * worker + (is_wide ? 1 : 0)], *old = *place;
    const struct tarn_rpc_connect_options options = options_of(worker, is_wide);
    if (is_alive(old))
        return 0; /* another task has made it meanwhile */
    *place = NULL;
    if (old != NULL)
        leave_link(lane, old);
    return connect_in_time(lane, &options, 0, deadline_ns, place);
}

/* Allow the next attempt at once. */
static void end_pause(struct kv_lane *lane)
{
    lane->pause_ns = 0;
    lane->not_before_ns = 0;
}

/* Remove a link that has failed; the first caller to notice begins the pause. */
static void retire_link(struct kv_lane *lane, struct kv_link *connection)
{
    for (uint32_t i = 0; i < base_array_count(lane->links); i++) {
        if (lane->links[i] != connection)
            continue;
        lane->links[i] = NULL;
        grow_pause(lane);
        leave_link(lane, connection);
    }
}

/* Take a link into use, until leave_link(). */
static int use_link(struct kv_lane *lane, uint32_t worker, bool is_wide, uint64_t deadline_ns,
                    struct kv_link **ret_link)
{
    struct kv_link **place = &lane->links[2 * worker + (is_wide ? 1 : 0)];
    if (!is_alive(*place)) {
        int error = task_mutex_lock(&lane->mutex, deadline_ns);
        if (error == 0) {
            error = renew_link(lane, worker, is_wide, deadline_ns);
            task_mutex_unlock(&lane->mutex);
        } else if (error == -ETIMEDOUT) {
            error = -EHOSTUNREACH;
        }
        if (error != 0)
            return error;
        if (*place == NULL)
            return -ECONNRESET; /* the new link has failed before it was used */
    }
    (*place)->users++;
    *ret_link = *place;
    return 0;
}

/* ---- links for one value ------------------------------------------------------------------------ */

/* Export a call's value to the server: its own memory, or a copy. @param is_copied  the link has room for a copy */
static int export_value(struct kv_call *call, bool is_copied)
{
    struct tarn_fabric_domain *domain = rpc_fabric_domain(call->link->rpc);
    if (!is_copied)
        return tarn_fabric_region_register(domain, (void *)(uintptr_t)call->exported, call->exported_bytes,
                                           TARN_FABRIC_MAY_READ, &call->region);
    int error = tarn_fabric_region_alloc(domain, call->exported_bytes, TARN_FABRIC_MAY_READ, &call->region);
    if (error == 0)
        tarn_fabric_mem_copy_in(call->region, 0, call->exported, call->exported_bytes);
    return error;
}

/* Make a link for this call alone, whose domain exports only the value, until finish_call(). */
static int make_export(struct kv_call *call, uint32_t worker, uint64_t deadline_ns)
{
    struct kv_lane *lane = call->lane;
    const struct tarn_rpc_connect_options options = {.calls = 1,
                                                     .request_bytes = call->request_bytes,
                                                     .result_bytes = KV_INFO_BYTES + KV_NAME_MAX,
                                                     .worker = worker + 1};
    const bool is_copied = !fabric_registers(lane->remote->fabric) ||
                           !base_is_aligned((uintptr_t)call->exported, sizeof(uint64_t));
    int error =
        connect_in_time(lane, &options, is_copied ? call->exported_bytes : 0, deadline_ns, &call->link);
    if (error != 0)
        return error;
    error = export_value(call, is_copied);
    if (error != 0) {
        leave_link(lane, call->link);
        return error;
    }
    tarn_fabric_handle_save(&call->region->handle, call->request + KV_HANDLE_AT);
    return 0;
}

/* ---- calls -------------------------------------------------------------------------------------- */

uint32_t kv_lane_worker(const struct kv_lane *lane, const void *key, size_t key_len)
{
    if (lane->partitions == 0 || key_len == 0)
        return lane->place % lane->workers;
    return cache_partition_of(lane->seed, lane->partitions, key, key_len) % lane->workers;
}

/* Ask for the routing again. */
static int refresh_routing(struct kv_lane *lane, uint64_t deadline_ns)
{
    struct kv_store_info info;
    struct kv_link *connection;
    if (!lane->must_ask)
        return 0;
    int error = use_link(lane, 0, false, deadline_ns, &connection);
    if (error != 0)
        return error;
    if (lane->must_ask)
        error = ask_info(lane, connection, deadline_ns, &info);
    leave_link(lane, connection);
    return error;
}

int kv_lane_route_once(struct kv_lane *lane, uint64_t deadline_ns)
{
    if (lane->must_ask && task_now() < lane->not_before_ns)
        return -EHOSTUNREACH;
    return refresh_routing(lane, deadline_ns);
}

int kv_lane_route(struct kv_lane *lane, uint64_t deadline_ns)
{
    int error;
    do
        error = refresh_routing(lane, deadline_ns);
    while (error != 0 && kv_is_passing(error) && task_now() < deadline_ns);
    return error != 0 && kv_is_passing(error) ? given_up(lane) : error;
}

/* Translate an answer's error, and decide whether the call may be repeated. */
static int judge_failure(struct kv_call *call, int died)
{
    const struct tarn_rpc_call *rpc = &call->rpc;
    if (died != 0 && rpc->error == died) {
        call->again = call->repeats || !rpc->may_have_run;
        return -ECONNRESET;
    }
    switch (rpc->error) {
    case -EXDEV:
        call->lane->must_ask = true;
        call->again = call->method != KV_MULTI_GET;
        return -EXDEV;
    case -ETIMEDOUT:
        return rpc->may_have_run ? -ETIMEDOUT : -EHOSTUNREACH;
    case -ENOSYS:
        return -EPROTO;
    case -EMSGSIZE:
        return rpc->result_bytes > call->room ? -EPROTO : -EMSGSIZE;
    default:
        return rpc->error;
    }
}

/* Post a call. @return 0: finish_call() must follow; else the error, with call->again set */
static int begin_call(struct kv_call *call, uint64_t deadline_ns)
{
    struct kv_lane *lane = call->lane;
    int error = refresh_routing(lane, deadline_ns);
    const uint32_t worker =
        call->worker == KV_ANY_WORKER ? kv_lane_worker(lane, call->key, call->key_len) : call->worker;
    const bool is_wide = call->request_bytes > KV_NARROW_REQUEST || call->room > KV_NARROW_RESULT;
    if (error == 0)
        error = call->exported != NULL ? make_export(call, worker, deadline_ns)
                                       : use_link(lane, worker, is_wide, deadline_ns, &call->link);
    if (error != 0) {
        call->again = kv_is_passing(error);
        return error;
    }
    base_store_le16(call->request, call->link->store);
    call->rpc =
        (struct tarn_rpc_call){.method = call->method + (lane->partitions > 0 ? (uint32_t)KV_SHORT : 0),
                               .request = call->request,
                               .request_bytes = call->request_bytes,
                               .result = call->result,
                               .room = call->room,
                               .deadline_ns = call->deadline_ns};
    tarn_rpc_post(call->link->rpc, &call->rpc, 1);
    return 0;
}

/* Take the outcome of a call that was posted and waited for. */
static int finish_call(struct kv_call *call)
{
    struct kv_lane *lane = call->lane;
    struct kv_link *connection = call->link;
    int error = call->rpc.error;
    call->result_bytes = call->rpc.result_bytes;
    call->again = false;
    if (error != 0)
        error = judge_failure(call, tarn_rpc_error(connection->rpc));
    if (call->exported != NULL)
        tarn_fabric_region_free(call->region);
    if (is_alive(connection))
        end_pause(lane);
    else
        retire_link(lane, connection);
    leave_link(lane, connection);
    return error;
}

static int attempt_call(struct kv_call *call)
{
    int error = begin_call(call, call->deadline_ns);
    if (error != 0)
        return error;
    if (tarn_rpc_wait(call->link->rpc, &call->rpc, 1) != 0)
        base_assert(call->rpc.error != 0);
    return finish_call(call);
}

int kv_lane_call(struct kv_call *call)
{
    for (;;) {
        call->error = attempt_call(call);
        if (call->error == 0 || !call->again)
            return call->error;
        if (task_now() >= call->deadline_ns)
            return call->error = given_up(call->lane);
        if (call->error == -EXDEV)
            (void)task_sleep(PAUSE_NS_MIN);
        if (task_cancelled())
            return call->error = -ECANCELED;
    }
}

void kv_lane_call_many(struct kv_call *const *calls, uint32_t count)
{
    struct rpc_calls posted[KV_TOGETHER_MAX] = {{0}};
    uint32_t posted_count = 0, failed = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct kv_call *call = calls[i];
        call->error = begin_call(call, kv_share_of_time(call->deadline_ns, count - i));
        if (call->error == 0)
            posted[posted_count++] = (struct rpc_calls){call->link->rpc, &call->rpc, 1};
        else
            call->link = NULL;
    }
    rpc_wait_many(posted, posted_count);
    for (uint32_t i = 0; i < count; i++) {
        if (calls[i]->link != NULL)
            calls[i]->error = finish_call(calls[i]);
        failed += calls[i]->error != 0 && calls[i]->again;
    }
    for (uint32_t i = 0; i < count && failed > 0;
         i++) { /* repeat failed calls one by one, each within its share of the time */
        struct kv_call *call = calls[i];
        if (call->error == 0 || !call->again)
            continue;
        call->deadline_ns = kv_share_of_time(call->deadline_ns, --failed);
        if (kv_lane_call(call) != 0)
            continue; /* its `error` is set */
    }
}

/* ---- lanes -------------------------------------------------------------------------------------- */

static struct kv_lane *make_lane(struct kv_remote *remote, struct task_sched *sched, uint32_t place)
{
    struct kv_lane *lane = base_alloc(&remote->kv.node->memory, sizeof(*lane));
    if (lane == NULL)
        return NULL;
    lane->remote = remote;
    lane->sched = sched;
    lane->place = place;
    lane->workers = 1;
    lane->must_ask = true;
    task_mutex_init(&lane->mutex);
    task_mutex_init(&lane->reads_mutex);
    tree_selector_init(&lane->selector, &remote->selector);
    return lane;
}

static int take_thread_lane(struct kv_remote *remote, uint64_t deadline_ns, struct kv_lane **ret_lane)
{
    struct kv_lane *lane = NULL;
    uint32_t place = 0;
    int error = task_semaphore_wait(&remote->thread_permits, deadline_ns);
    if (error != 0)
        return error == -ETIMEDOUT ? -EHOSTUNREACH : error;
    base_spin_lock(&remote->lock);
    if (!base_list_empty(&remote->thread_lanes))
        lane = base_container_of(base_list_pop_front(&remote->thread_lanes), struct kv_lane, link);
    else
        place = remote->thread_lane_count++;
    base_spin_unlock(&remote->lock);
    if (lane == NULL)
        lane = make_lane(remote, NULL, place);
    if (lane == NULL) {
        task_semaphore_post(&remote->thread_permits);
        return -ENOMEM;
    }
    *ret_lane = lane;
    return 0;
}

int kv_lane_take(struct kv_remote *remote, uint64_t deadline_ns, struct kv_lane **ret_lane)
{
    if (task_is_thread())
        return take_thread_lane(remote, deadline_ns, ret_lane);
    struct task_sched *sched = task_sched_self();
    const uint32_t place = task_sched_index(sched);
    if (remote->lanes[place] == NULL)
        remote->lanes[place] = make_lane(remote, sched, place);
    if (remote->lanes[place] == NULL)
        return -ENOMEM;
    *ret_lane = remote->lanes[place];
    return 0;
}

void kv_lane_give(struct kv_lane *lane)
{
    struct kv_remote *remote = lane->remote;
    if (lane->sched != NULL)
        return;
    base_spin_lock(&remote->lock);
    base_list_push_front(&remote->thread_lanes, &lane->link);
    base_spin_unlock(&remote->lock);
    task_semaphore_post(&remote->thread_permits);
}

int kv_lane_meet(struct kv_lane *lane, uint64_t deadline_ns, struct kv_store_info *ret_info)
{
    const struct tarn_rpc_connect_options options = options_of(0, false);
    return connect_link(lane, &options, 0, deadline_ns, ret_info, &lane->links[0]);
}

static void close_lane(void *arg)
{
    struct kv_lane *lane = arg;
    kv_reads_close(lane);
    for (uint32_t i = 0; i < base_array_count(lane->links); i++) {
        if (lane->links[i] != NULL)
            leave_link(lane, lane->links[i]);
    }
    base_free(&node_of(lane)->memory, lane, sizeof(*lane));
}

/* Close the lanes of plain threads. */
static void close_thread_lanes(void *arg)
{
    struct kv_remote *remote = arg;
    while (!base_list_empty(&remote->thread_lanes))
        close_lane(base_container_of(base_list_pop_front(&remote->thread_lanes), struct kv_lane, link));
}

/* A function that a thread runs on a task's behalf. */
struct errand {
    task_function *function;
    void *arg;
    struct task_shared_future over;
};

static void *run_errand(void *arg)
{
    struct errand *errand = arg;
    errand->function(errand->arg);
    task_shared_future_set(&errand->over, 0);
    return NULL;
}

void kv_run_in_thread(task_function *function, void *arg)
{
    struct errand errand = {.function = function, .arg = arg};
    pthread_t thread;
    int value;
    if (task_is_thread()) {
        function(arg);
        return;
    }
    task_shared_future_init(&errand.over);
    while (task_thread_start(&thread, "kv-close", run_errand, &errand) != 0)
        (void)task_sleep(BASE_NS_PER_MS);
    while (task_shared_future_wait(&errand.over, TASK_FOREVER, &value) != 0)
        continue; /* wait on, even when cancelled */
    (void)pthread_join(thread, NULL);
}

void kv_lanes_close(struct kv_remote *remote)
{
    for (uint32_t i = 0; i < base_array_count(remote->lanes); i++) {
        struct kv_lane *lane = remote->lanes[i];
        if (lane == NULL)
            continue;
        if (lane->sched == task_sched_self())
            close_lane(lane);
        else
            while (fabric_run_on(lane->sched, close_lane, lane) == -ENOMEM)
                (void)task_sleep(BASE_NS_PER_MS);
    }
    if (!base_list_empty(&remote->thread_lanes))
        kv_run_in_thread(close_thread_lanes, remote);
}
