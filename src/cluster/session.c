/*
 * A session with a ZooKeeper ensemble: the thread that drives the C client, the requests that it is handed, heartbeats and
 * watches. What is asked, and what the answers mean for a cluster, is zookeeper.c's.
 */
#include "cluster/session_internal.h"
#include "task/node.h"
#include "task/thread.h"
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define RETRY_NS                                                                                             \
    (50 * UINT64_C(1000000)) /* before the client is asked again after it could do nothing at all */
#define BEATS       6        /* heartbeats in the length of a session */
#define NS_PER_MSEC UINT64_C(1000000)

/* Requests of one caller, who waits for all. */
struct cluster_batch {
    struct cluster_session *session;
    struct task_wait wait;
    uint32_t left; /* number of requests without an outcome; guarded by the session's lock */
};

/* What a result of the client means. @return negative errno, 0 */
static int error_of(int code)
{
    switch (code) {
    case ZOK:
        return 0;
    case ZNONODE:
        return -ENOENT;
    case ZNODEEXISTS:
        return -EEXIST;
    case ZBADVERSION:
        return -EAGAIN;
    case ZSESSIONEXPIRED:
    case ZINVALIDSTATE:
    case ZCLOSING:
        return -ESTALE;
    case ZNOAUTH:
    case ZAUTHFAILED:
        return -EACCES;
    case ZNOTEMPTY:
    case ZNOCHILDRENFOREPHEMERALS:
    case ZBADARGUMENTS:
        return -EUCLEAN; /* paths were checked, and nodes have no children: others' znodes are in the way */
    default:
        return -ENOTCONN; /* of a change it is not known whether it was made */
    }
}

/* ---- signals ------------------------------------------------------------------------------------ */

static void raise_signal_locked(struct cluster_session *session, struct cluster_signal *signal)
{
    base_spin_assert_held(&session->lock);
    signal->count++;
    while (!base_list_empty(&signal->waiters))
        (void)task_wait_wake(base_container_of(base_list_pop_front(&signal->waiters), struct task_wait, link),
                             0);
}

static void raise_signal(struct cluster_session *session, struct cluster_signal *signal)
{
    base_spin_lock(&session->lock);
    raise_signal_locked(session, signal);
    base_spin_unlock(&session->lock);
}

int cluster_session_await(struct cluster_session *session, struct cluster_signal *signal, uint64_t *seen,
                          uint64_t deadline_ns)
{
    base_spin_lock(&session->lock);
    int error = session->ended;
    if (error == 0 && *seen == signal->count) {
        struct task_wait wait;
        task_wait_init(&wait);
        base_list_push_back(&signal->waiters, &wait.link);
        base_spin_unlock(&session->lock);
        error = task_wait_park(&wait, deadline_ns);
        base_spin_lock(&session->lock);
        if (base_list_is_linked(&wait.link))
            base_list_remove(&wait.link);
        if (session->ended != 0)
            error = session->ended;
    }
    if (error == 0)
        *seen = signal->count;
    base_spin_unlock(&session->lock);
    return error;
}

uint64_t cluster_session_seen(struct cluster_session *session, const struct cluster_signal *signal)
{
    base_spin_lock(&session->lock);
    const uint64_t count = signal->count;
    base_spin_unlock(&session->lock);
    return count;
}

/* ---- paths -------------------------------------------------------------------------------------- */

void cluster_session_path(const struct cluster_session *session, const char *folder, const char *name,
                          char ret_path[CLUSTER_ZNODE_ROOM])
{
    const int len = snprintf(ret_path, CLUSTER_ZNODE_ROOM, "%s/%s%s%s", session->root, folder,
                             name == NULL ? "" : "/", name == NULL ? "" : name);
    base_assert(len > 0 && len < CLUSTER_ZNODE_ROOM);
}

bool cluster_session_owns(const struct cluster_session *session, const char *candidate)
{
    const size_t len = strlen(session->name);
    return strlen(candidate) == len + 1 + CLUSTER_TURN_LEN && memcmp(candidate, session->name, len) == 0 &&
           candidate[len] == '-';
}

/* ---- requests: the callers' side ---------------------------------------------------------------- */

static void poke_thread(struct cluster_session *session)
{
    const uint64_t one = 1;
    base_assert(write(session->poke_fd, &one, sizeof(one)) == sizeof(one));
}

int cluster_session_run(struct cluster_session *session, struct cluster_request *requests, uint32_t count,
                        uint64_t deadline_ns)
{
    const uint64_t patience_ns = atomic_load(&session->length_ns);
    struct cluster_batch batch = {.session = session};
    deadline_ns = base_min(deadline_ns, task_now() + patience_ns);
    task_wait_init(&batch.wait);
    for (uint32_t i = 0; i < count; i++) {
        base_list_init(&requests[i].link);
        requests[i].batch = &batch;
        requests[i].deadline_ns = deadline_ns;
        batch.left += requests[i].kind != CLUSTER_REQUEST_NONE;
    }
    if (batch.left == 0)
        return 0;
    base_spin_lock(&session->lock);
    const int ended = session->ended;
    for (uint32_t i = 0; i < count; i++) {
        requests[i].error = ended;
        if (ended == 0 && requests[i].kind != CLUSTER_REQUEST_NONE)
            base_list_push_back(&session->requests, &requests[i].link);
    }
    base_spin_unlock(&session->lock);
    if (ended != 0)
        return ended;
    poke_thread(session);
    (void)task_wait_park_firmly(&batch.wait);
    base_spin_lock(&session->lock); /* pairs with finish_request(): the thread has done with the batch */
    base_spin_unlock(&session->lock);
    return requests[0].error;
}

/* ---- requests: the thread's side ---------------------------------------------------------------- */

/* The request, and the batch of the last one, are the caller's again after this. The lock is held until the caller is woken
 * for good: it takes it, too, before it goes on, because its scheduler may be closed soon after. */
static void finish_request(struct cluster_request *request, int error)
{
    struct cluster_batch *batch = request->batch;
    struct cluster_session *session = batch->session;
    base_spin_lock(&session->lock);
    request->error = error;
    if (--batch->left == 0)
        (void)task_wait_wake(&batch->wait, 0);
    base_spin_unlock(&session->lock);
}

/* The client's callbacks get their argument back as a pointer to const. */
static void *argument_of(const void *data)
{
    return (void *)(uintptr_t)data;
}

static void complete_exists(int code, const struct Stat *stat, const void *data)
{
    struct cluster_request *request = argument_of(data);
    if (code == ZOK)
        request->stat = *stat;
    finish_request(request, error_of(code));
}

/* Hand a request its data. @return 0; -ENOBUFS; -ENOMEM */
static int take_data(struct cluster_request *request, const char *data, uint32_t bytes)
{
    request->bytes = bytes;
    if (request->allocates) {
        request->data = base_alloc(&request->batch->session->node->memory, base_max(bytes, 1U));
        if (request->data == NULL)
            return -ENOMEM;
    } else if (bytes > request->room) {
        return -ENOBUFS;
    }
    if (bytes > 0)
        memcpy(request->data, data, bytes);
    return 0;
}

static void complete_get(int code, const char *value, int value_bytes, const struct Stat *stat,
                         const void *data)
{
    struct cluster_request *request = argument_of(data);
    int error = error_of(code);
    if (code == ZOK) {
        request->stat = *stat;
        error = take_data(request, value, value_bytes < 0 ? 0 : (uint32_t)value_bytes);
    }
    finish_request(request, error);
}

/* @return 0; -ENOMEM */
static int take_names(struct cluster_request *request, const struct String_vector *names)
{
    size_t bytes = 1; /* so that there is something to free */
    for (int32_t i = 0; i < names->count; i++)
        bytes += strlen(names->data[i]) + 1;
    char *to = base_alloc(&request->batch->session->node->memory, bytes);
    if (to == NULL)
        return -ENOMEM;
    request->data = to;
    request->bytes = (uint32_t)bytes; /* a reply has less than 2 GiB */
    for (int32_t i = 0; i < names->count; i++)
        to = stpcpy(to, names->data[i]) + 1;
    *to = '\0';
    return 0;
}

static void complete_names(int code, const struct String_vector *names, const void *data)
{
    struct cluster_request *request = argument_of(data);
    finish_request(request, code == ZOK ? take_names(request, names) : error_of(code));
}

/* What a refused multi means its caller reads from the results. */
static void complete_multi(int code, const void *data)
{
    finish_request(argument_of(data), error_of(code));
}

static void note_turn(zhandle_t *client, int type, int state, const char *path, void *arg)
{
    (void)client, (void)state, (void)path;
    struct cluster_session *session = arg;
    if (type != ZOO_SESSION_EVENT)
        raise_signal(session, &session->turns);
}

static void start_request(struct cluster_session *session, struct cluster_request *request)
{
    zhandle_t *client = session->client;
    int code;
    switch (request->kind) {
    case CLUSTER_REQUEST_EXISTS:
        code = zoo_aexists(client, request->path, 0, complete_exists, request);
        break;
    case CLUSTER_REQUEST_GET:
        code = zoo_awget(client, request->path, request->watches ? note_turn : NULL, session, complete_get,
                         request);
        break;
    case CLUSTER_REQUEST_NAMES:
        code = zoo_aget_children(client, request->path, 0, complete_names, request);
        break;
    default:
        code = zoo_amulti(client, (int)request->op_count, request->ops, request->results, complete_multi,
                          request);
    }
    if (code != ZOK) /* it is not under way */
        finish_request(request, error_of(code));
}

/* Start all requests if there is a connection, else refuse those that have waited too long. @return when that is so for the
 * next one */
static uint64_t start_requests(struct cluster_session *session)
{
    struct base_list taken;
    uint64_t next_ns = TASK_FOREVER;
    const uint64_t now = task_now();
    base_list_init(&taken);
    base_spin_lock(&session->lock);
    if (session->connected)
        base_list_move_all(&taken, &session->requests);
    base_list_for_each_safe(link, &session->requests) {
        const struct cluster_request *request = base_container_of(link, struct cluster_request, link);
        if (request->deadline_ns > now) {
            next_ns = base_min(next_ns, request->deadline_ns);
            continue;
        }
        base_list_remove(link);
        base_list_push_back(&taken, link);
    }
    base_spin_unlock(&session->lock);
    while (!base_list_empty(&taken)) {
        struct cluster_request *request =
            base_container_of(base_list_pop_front(&taken), struct cluster_request, link);
        if (session->connected)
            start_request(session, request);
        else
            finish_request(request, -ENOTCONN);
    }
    return next_ns;
}

/* ---- heartbeats --------------------------------------------------------------------------------- */

static uint64_t length_ns_of(const struct cluster_session *session)
{
    return (uint64_t)zoo_recv_timeout(session->client) * NS_PER_MSEC;
}

static void complete_beat(int code, const void *data)
{
    struct cluster_session *session = argument_of(data);
    const uint64_t length_ns = length_ns_of(session);
    const bool first = atomic_load(&session->held_until_ns) == 0;
    session->beating = false;
    if (code != ZOK) {
        session->beat_next_ns = task_now() + length_ns / BEATS / 4;
        return;
    }
    session->beat_next_ns = session->beat_sent_ns + length_ns / BEATS;
    atomic_store(&session->held_until_ns, session->beat_sent_ns + length_ns / 3 * 2);
    if (first)
        raise_signal(session, &session->members);
}

/*
 * A heartbeat is a multi, though it changes nothing: a majority of the servers has to agree to it. A server that only
 * believes to belong to the ensemble answers reads, and pings, for some time.
 */
static void send_beat(struct cluster_session *session)
{
    session->beat_sent_ns = task_now();
    zoo_check_op_init(&session->beat_op, session->epoch_path, -1);
    session->beating = zoo_amulti(session->client, 1, &session->beat_op, &session->beat_result, complete_beat,
                                  session) == ZOK;
    if (!session->beating)
        session->beat_next_ns = session->beat_sent_ns + RETRY_NS;
}

/* ---- watches ------------------------------------------------------------------------------------ */

static void note_change(zhandle_t *client, int type, int state, const char *path, void *arg)
{
    (void)client, (void)state, (void)path;
    struct cluster_watched *watched = arg;
    if (type != ZOO_SESSION_EVENT)
        watched->armed = false;
}

/* The signal is raised here, not in note_change(): what changes after this raises it again. */
static void complete_arming(struct cluster_watched *watched, int code)
{
    watched->arming = false;
    watched->armed = code == ZOK || code < ZAPIERROR; /* else it is asked for again */
    if (watched->armed)
        raise_signal(watched->session, &watched->session->members);
}

static void complete_arming_members(int code, const struct String_vector *names, const void *data)
{
    (void)names;
    complete_arming(argument_of(data), code);
}

static void complete_arming_epoch(int code, const struct Stat *stat, const void *data)
{
    (void)stat;
    complete_arming(argument_of(data), code);
}

static void arm_watches(struct cluster_session *session)
{
    struct cluster_watched *members = &session->watched_members, *epoch = &session->watched_epoch;
    if (!members->armed && !members->arming)
        members->arming = zoo_awget_children(session->client, members->path, note_change, members,
                                             complete_arming_members, members) == ZOK;
    if (!epoch->armed && !epoch->arming)
        epoch->arming = zoo_awexists(session->client, epoch->path, note_change, epoch, complete_arming_epoch,
                                     epoch) == ZOK;
}

/* ---- candidates that are withdrawn -------------------------------------------------------------- */

void cluster_session_withdraw(struct cluster_session *session)
{
    atomic_store(&session->withdraws, true);
    poke_thread(session);
}

int cluster_session_await_withdrawn(struct cluster_session *session, uint64_t deadline_ns)
{
    uint64_t seen = cluster_session_seen(session, &session->turns);
    int error = 0;
    while (error == 0 && atomic_load(&session->withdraws))
        error = cluster_session_await(session, &session->turns, &seen, deadline_ns);
    return error;
}

static void complete_removal(int code, const void *data)
{
    (void)code, (void)data; /* the next listing shows what is left */
}

static void complete_listing(int code, const struct String_vector *names, const void *data)
{
    struct cluster_session *session = argument_of(data);
    bool over = code < ZAPIERROR;
    session->listing = false;
    if (code == ZOK) {
        over = true;
        for (int32_t i = 0; i < names->count; i++) {
            char path[CLUSTER_ZNODE_ROOM];
            if (!cluster_session_owns(session, names->data[i]))
                continue;
            over = false;
            cluster_session_path(session, "candidates", names->data[i], path);
            (void)zoo_adelete(session->client, path, -1, complete_removal, session);
        }
    }
    if (over) {
        atomic_store(&session->withdraws, false);
        raise_signal(session, &session->turns);
    }
}

/* ---- the thread --------------------------------------------------------------------------------- */

static void end_session(struct cluster_session *session)
{
    struct base_list left;
    base_list_init(&left);
    atomic_store(&session->held_until_ns, 0);
    base_spin_lock(&session->lock);
    session->ended = -ESTALE;
    base_list_move_all(&left, &session->requests);
    raise_signal_locked(session, &session->members);
    raise_signal_locked(session, &session->turns);
    base_spin_unlock(&session->lock);
    while (!base_list_empty(&left))
        finish_request(base_container_of(base_list_pop_front(&left), struct cluster_request, link), -ESTALE);
    base_warn(&session->node->log, "cluster session ended", "member=%s", session->name);
}

static void note_state(struct cluster_session *session)
{
    const bool connected = zoo_state(session->client) == ZOO_CONNECTED_STATE;
    if (connected == session->connected)
        return;
    session->connected = connected;
    if (connected) {
        atomic_store(&session->length_ns, length_ns_of(session));
        atomic_store(&session->id, zoo_client_id(session->client)->client_id);
    }
    base_info(&session->node->log, connected ? "cluster session connected" : "cluster session suspended",
              "member=%s session_ms=%d", session->name, zoo_recv_timeout(session->client));
}

/* Have the client begin what there is to do. @return when there is more to do */
static uint64_t do_round(struct cluster_session *session)
{
    note_state(session);
    const uint64_t next_ns = start_requests(session);
    if (!session->connected || !atomic_load(&session->keeps))
        return next_ns;
    arm_watches(session);
    if (!session->beating && task_now() >= session->beat_next_ns)
        send_beat(session);
    if (atomic_load(&session->withdraws) && !session->listing)
        session->listing =
            zoo_aget_children(session->client, session->candidates_path, 0, complete_listing, session) == ZOK;
    return session->beating ? next_ns : base_min(next_ns, session->beat_next_ns);
}

/* Let the client speak with its server until there is something else to do. */
static void run_client(struct cluster_session *session, uint64_t until_ns)
{
    struct pollfd fds[2] = {{.fd = session->poke_fd, .events = POLLIN}, {.fd = -1}};
    struct timeval patience = {0};
    uint64_t pokes;
    int interest = 0;
    const int code = zookeeper_interest(session->client, &fds[1].fd, &interest, &patience);
    uint64_t wait_ns = (uint64_t)patience.tv_sec * BASE_NS_PER_SECOND + (uint64_t)patience.tv_usec * 1000;
    if (code != ZOK) {
        fds[1].fd = -1;
        wait_ns = RETRY_NS;
    }
    const uint64_t now = task_now();
    wait_ns = base_min(wait_ns, until_ns > now ? until_ns - now : 0);
    fds[1].events = (short)(((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) |
                            ((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0));
    if (poll(fds, 2, (int)((wait_ns + NS_PER_MSEC - 1) / NS_PER_MSEC)) <= 0)
        return;
    if (fds[0].revents != 0)
        (void)!read(session->poke_fd, &pokes, sizeof(pokes)); /* so that it can be poked again */
    if (fds[1].revents != 0) {
        const bool failed = (fds[1].revents & (POLLERR | POLLHUP)) != 0;
        const int readable = failed || (fds[1].revents & POLLIN) != 0 ? ZOOKEEPER_READ : 0;
        const int writable = failed || (fds[1].revents & POLLOUT) != 0 ? ZOOKEEPER_WRITE : 0;
        (void)zookeeper_process(session->client, interest & (readable | writable)); /* zoo_state() tells */
    }
}

/* Look up the servers' names, which may take long. @return 0; -EINVAL; -ENOTCONN; -ENOMEM */
static int begin_client(struct cluster_session *session)
{
    zoo_set_debug_level(
        (ZooLogLevel)0); /* its log tells nothing that ours does not, and goes to standard error */
    session->client =
        zookeeper_init(session->hosts, NULL, session->asked_ms, NULL, session, ZOO_NO_LOG_CLIENTENV);
    if (session->client == NULL) {
        const int error = errno == EINVAL || errno == ENOMEM ? -errno : -ENOTCONN;
        char quoted[BASE_LOG_ROOM_MIN];
        if (error == -ENOTCONN)
            base_error(&session->node->log, "cannot look up the servers of a cluster", "hosts=%s",
                       base_log_quote(quoted, sizeof(quoted), session->hosts, strlen(session->hosts)));
        return error;
    }
    (void)zoo_set_servers_resolution_delay(session->client,
                                           -1); /* names again only when a connection is lost */
    return 0;
}

static void *run_session(void *arg)
{
    struct cluster_session *session = arg;
    const int error = begin_client(session);
    task_shared_future_set(&session->opened, error);
    while (error == 0 && !atomic_load(&session->stopping)) {
        struct pollfd poked = {.fd = session->poke_fd, .events = POLLIN};
        if (session->ended != 0)
            (void)poll(&poked, 1, -1);
        else if (is_unrecoverable(session->client))
            end_session(session);
        else
            run_client(session, do_round(session));
    }
    (void)zookeeper_close(session->client);
    task_mutex_unlock(&session->alive);
    return NULL;
}

/* ---- opening and closing ------------------------------------------------------------------------ */

void cluster_session_keep(struct cluster_session *session)
{
    atomic_store(&session->keeps, true);
    poke_thread(session);
}

static void init_session(struct cluster_session *session)
{
    base_spin_init(&session->lock);
    base_list_init(&session->requests);
    base_list_init(&session->members.waiters);
    base_list_init(&session->turns.waiters);
    session->members.count = session->turns.count = 1;
    task_mutex_init(&session->alive);
    task_shared_future_init(&session->opened);
    cluster_session_path(session, "epoch", NULL, session->epoch_path);
    cluster_session_path(session, "candidates", NULL, session->candidates_path);
    session->watched_members.session = session->watched_epoch.session = session;
    cluster_session_path(session, "members", NULL, session->watched_members.path);
    cluster_session_path(session, "epoch", NULL, session->watched_epoch.path);
}

int cluster_session_open(struct tarn_node *node, const char *hosts, const char *root, const char *name,
                         uint64_t length_ns, struct cluster_session **ret_session)
{
    struct cluster_session *session = base_alloc(&node->memory, sizeof(*session));
    if (session == NULL)
        return -ENOMEM;
    *session = (struct cluster_session){
        .node = node,
        .asked_ms = (int)base_min(base_max(length_ns / NS_PER_MSEC, UINT64_C(1)), UINT64_C(86400000)),
        .length_ns = length_ns};
    (void)stpncpy(session->hosts, hosts, CLUSTER_HOSTS_MAX);
    (void)stpncpy(session->root, root, CLUSTER_PATH_MAX);
    (void)stpncpy(session->name, name, CLUSTER_NAME_MAX);
    init_session(session);
    session->poke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = session->poke_fd < 0 ? -errno : 0;
    if (error == 0) {
        task_mutex_lock_firmly(&session->alive); /* for the thread, which gives it back */
        error = task_thread_start(&session->thread, "cluster", run_session, session);
    }
    if (error != 0) {
        if (session->poke_fd >= 0)
            (void)close(session->poke_fd);
        base_free(&node->memory, session, sizeof(*session));
        return error;
    }
    int outcome = 0;
    error = task_shared_future_wait(&session->opened, TASK_FOREVER, &outcome);
    if (error == 0)
        error = outcome;
    if (error != 0) {
        cluster_session_close(session);
        return error;
    }
    *ret_session = session;
    return 0;
}

void cluster_session_close(struct cluster_session *session)
{
    atomic_store(&session->stopping, true);
    poke_thread(session);
    task_mutex_lock_firmly(&session->alive); /* so that joining the thread blocks no scheduler */
    (void)pthread_join(session->thread, NULL);
    (void)close(session->poke_fd);
    base_free(&session->node->memory, session, sizeof(*session));
}
