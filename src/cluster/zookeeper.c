/*
 * The back end `zookeeper`: members, the epoch and the metadata of several masters are znodes of a ZooKeeper ensemble, and a
 * multi is the ensemble's. The session with it is session.c's, the checks of arguments are cluster.c's.
 */
#include "cluster/session_internal.h"
#include "task/node.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SESSION_NS    (10 * BASE_NS_PER_SECOND) /* where the options name no other length */
#define NAME_TRIES    50         /* looks for a name that another member has, in the length of a session */
#define SCAN_WINDOW   16         /* nodes that a scan asks for at once */
#define SLASH         "\xc2\xa6" /* stands for '/' in a znode's name; no path has it */
#define LEADER_ID_LEN 16 /* what the epoch's znode holds: the number of the leader's session, in hex */
#define LOOK_AGAIN    1  /* something has changed between a look and what depended on it */

struct zookeeper {
    struct cluster cluster;
    struct cluster_session *session;
    struct task_mutex lead_lock; /* held by one caller of cluster_lead(), while the others wait */
    bool leads;                  /* it has led: its candidate stays. Guarded by `lead_lock` */
};

static struct zookeeper *zookeeper_of(struct cluster *cluster)
{
    return base_container_of(cluster, struct zookeeper, cluster);
}

static struct base_account *account_of(const struct zookeeper *zookeeper)
{
    return &zookeeper->session->node->memory;
}

/* ---- asking ------------------------------------------------------------------------------------- */

/* Read a znode. @return as the request's error */
static int get_znode(struct zookeeper *zookeeper, struct cluster_request *request, uint64_t deadline_ns)
{
    request->kind = CLUSTER_REQUEST_GET;
    return cluster_session_run(zookeeper->session, request, 1, deadline_ns);
}

/* Read the names of a folder's znodes into the request, to be given back with drop_data(). @return as the request's error */
static int get_names(struct zookeeper *zookeeper, const char *folder, struct cluster_request *request,
                     uint64_t deadline_ns)
{
    char path[CLUSTER_ZNODE_ROOM];
    cluster_session_path(zookeeper->session, folder, NULL, path);
    *request = (struct cluster_request){.kind = CLUSTER_REQUEST_NAMES, .path = path};
    const int error = cluster_session_run(zookeeper->session, request, 1, deadline_ns);
    return error == -ENOENT ? -EUCLEAN : error; /* joining has made it */
}

/* Give back what a request has allocated. */
static void drop_data(struct zookeeper *zookeeper, struct cluster_request *request)
{
    if (request->data != NULL)
        base_free(account_of(zookeeper), request->data, base_max(request->bytes, 1U));
    request->data = NULL;
}

/* The name behind one of get_names(), none if that has failed; NULL after the last. @param name  NULL: the first */
static const char *next_name(const struct cluster_request *request, const char *name)
{
    const char *next = name == NULL ? request->data : name + strlen(name) + 1;
    return next != NULL && *next != '\0' ? next : NULL;
}

/* Make one change. @return as the request's error */
static int change_znode(struct zookeeper *zookeeper, const zoo_op_t *op, uint64_t deadline_ns)
{
    zoo_op_result_t result;
    struct cluster_request request = {
        .kind = CLUSTER_REQUEST_MULTI, .ops = op, .results = &result, .op_count = 1};
    return cluster_session_run(zookeeper->session, &request, 1, deadline_ns);
}

static int make_znode(struct zookeeper *zookeeper, const char *path, const void *data, uint32_t bytes,
                      int mode, uint64_t deadline_ns)
{
    zoo_op_t op;
    zoo_create_op_init(&op, path, data == NULL ? "" : data, (int)bytes, &ZOO_OPEN_ACL_UNSAFE, mode, NULL, 0);
    return change_znode(zookeeper, &op, deadline_ns);
}

/* ---- members ------------------------------------------------------------------------------------ */

static uint64_t zookeeper_held_until(const struct cluster *cluster)
{
    const struct zookeeper *zookeeper = base_container_of(cluster, struct zookeeper, cluster);
    return atomic_load(&zookeeper->session->held_until_ns);
}

static int compare_members(const void *a, const void *b)
{
    return strcmp(((const struct cluster_member *)a)->name, ((const struct cluster_member *)b)->name);
}

/* A look at the members. */
struct look {
    char paths[CLUSTER_MEMBERS_MAX + 1][CLUSTER_ZNODE_ROOM];
    struct cluster_request requests[CLUSTER_MEMBERS_MAX + 1]; /* the first is of the epoch */
    char leader[LEADER_ID_LEN];
    struct cluster_member members[CLUSTER_MEMBERS_MAX];
};

/* @return number of members there are, of which there may be more than there is room for */
static uint32_t begin_look(struct zookeeper *zookeeper, struct look *look,
                           const struct cluster_request *names)
{
    uint32_t count = 0;
    cluster_session_path(zookeeper->session, "epoch", NULL, look->paths[0]);
    look->requests[0] = (struct cluster_request){.kind = CLUSTER_REQUEST_GET,
                                                 .path = look->paths[0],
                                                 .data = look->leader,
                                                 .room = sizeof(look->leader)};
    for (const char *name = NULL; (name = next_name(names, name)) != NULL;) {
        if (strlen(name) > CLUSTER_NAME_MAX || count == CLUSTER_MEMBERS_MAX)
            continue; /* no member's, or one too many: its joining is refused */
        struct cluster_member *member = &look->members[count++];
        *member = (struct cluster_member){0};
        memcpy(member->name, name, strlen(name));
        cluster_session_path(zookeeper->session, "members", name, look->paths[count]);
        look->requests[count] = (struct cluster_request){.kind = CLUSTER_REQUEST_GET,
                                                         .path = look->paths[count],
                                                         .data = member->data,
                                                         .room = sizeof(member->data)};
    }
    return count;
}

/* @return 0; an error of the requests */
static int end_look(struct look *look, uint32_t *inout_count)
{
    const uint32_t count = *inout_count;
    const struct cluster_request *epoch = &look->requests[0];
    *inout_count = 0;
    if (epoch->error != 0 && epoch->error != -ENOBUFS)
        return epoch->error == -ENOENT ? -EUCLEAN : epoch->error;
    for (uint32_t i = 0; i < count; i++) {
        const struct cluster_request *request = &look->requests[i + 1];
        char id[LEADER_ID_LEN + 1];
        if (request->error == -ENOENT || request->error == -ENOBUFS)
            continue; /* it has left meanwhile; or it is no member's */
        if (request->error != 0)
            return request->error;
        (void)snprintf(id, sizeof(id), "%016" PRIx64, (uint64_t)request->stat.ephemeralOwner);
        look->members[i].data_bytes = request->bytes;
        look->members[i].leads = epoch->error == 0 && epoch->bytes == LEADER_ID_LEN &&
                                 memcmp(id, look->leader, LEADER_ID_LEN) == 0;
        look->members[(*inout_count)++] = look->members[i];
    }
    qsort(look->members, *inout_count, sizeof(look->members[0]), compare_members);
    return 0;
}

static int zookeeper_members(struct cluster *cluster, struct cluster_member *ret_members, uint32_t *ret_count)
{
    struct zookeeper *zookeeper = zookeeper_of(cluster);
    struct cluster_request names;
    uint32_t count = 0;
    struct look *look = base_alloc(account_of(zookeeper), sizeof(*look));
    if (look == NULL)
        return -ENOMEM;
    int error = get_names(zookeeper, "members", &names, TASK_FOREVER);
    if (error == 0) {
        count = begin_look(zookeeper, look, &names);
        (void)cluster_session_run(zookeeper->session, look->requests, count + 1, TASK_FOREVER);
        error = end_look(look, &count);
    }
    drop_data(zookeeper, &names);
    if (error == 0) {
        memcpy(ret_members, look->members, count * sizeof(*ret_members));
        *ret_count = count;
    }
    base_free(account_of(zookeeper), look, sizeof(*look));
    return error;
}

static int zookeeper_watch(struct cluster *cluster, uint64_t *seen, uint64_t deadline_ns)
{
    struct cluster_session *session = zookeeper_of(cluster)->session;
    return cluster_session_await(session, &session->members, seen, deadline_ns);
}

/* ---- leading ------------------------------------------------------------------------------------ */

/* The ten digits that the ensemble has appended to a candidate's name; NULL: it is no candidate's. */
static const char *turn_of(const char *name)
{
    const size_t len = strlen(name);
    const char *digits = len <= CLUSTER_TURN_LEN ? name : name + len - CLUSTER_TURN_LEN;
    const bool good = len > CLUSTER_TURN_LEN + 1 && len <= CLUSTER_NAME_MAX + 1 + CLUSTER_TURN_LEN &&
                      digits[-1] == '-' && strspn(digits, "0123456789") == CLUSTER_TURN_LEN;
    return good ? digits : NULL;
}

/* Find this member's candidate, the first one if there are several, and the last one before it. Each is NULL if there is none. */
static void find_candidates(const struct zookeeper *zookeeper, const struct cluster_request *names,
                            const char **ret_own, const char **ret_before)
{
    const char *own = NULL, *before = NULL;
    for (const char *name = NULL; (name = next_name(names, name)) != NULL;) {
        const char *turn = turn_of(name);
        if (turn != NULL && cluster_session_owns(zookeeper->session, name) &&
            (own == NULL || strcmp(turn, turn_of(own)) < 0))
            own = name;
    }
    for (const char *name = NULL; own != NULL && (name = next_name(names, name)) != NULL;) {
        const char *turn = turn_of(name);
        if (turn != NULL && strcmp(turn, turn_of(own)) < 0 &&
            (before == NULL || strcmp(turn, turn_of(before)) > 0))
            before = name;
    }
    *ret_own = own;
    *ret_before = before;
}

/* Become a candidate, behind all that there are. @return 0; an error of the request */
static int become_candidate(struct zookeeper *zookeeper, uint64_t deadline_ns)
{
    char name[CLUSTER_NAME_MAX + 2];
    char path[CLUSTER_ZNODE_ROOM];
    (void)snprintf(name, sizeof(name), "%s-", zookeeper->session->name);
    cluster_session_path(zookeeper->session, "candidates", name, path);
    return make_znode(zookeeper, path, NULL, 0, ZOO_EPHEMERAL_SEQUENTIAL, deadline_ns);
}

/* @return 0: this member is first; LOOK_AGAIN: it was not, and something has changed since; an error */
static int await_turn(struct zookeeper *zookeeper, uint64_t deadline_ns)
{
    struct cluster_session *session = zookeeper->session;
    struct cluster_request names;
    const char *own, *before;
    char path[CLUSTER_ZNODE_ROOM];
    char byte;
    struct cluster_request request = {.path = path, .data = &byte, .room = 1, .watches = true};
    uint64_t seen = cluster_session_seen(session, &session->turns);
    int error = get_names(zookeeper, "candidates", &names, deadline_ns);
    find_candidates(zookeeper, &names, &own, &before);
    const bool is_candidate = own != NULL, is_first = is_candidate && before == NULL;
    if (before != NULL)
        cluster_session_path(session, "candidates", before, path);
    drop_data(zookeeper, &names);
    if (error != 0 || is_first)
        return error;
    if (!is_candidate) {
        error = become_candidate(zookeeper, deadline_ns);
        return error == 0 ? LOOK_AGAIN : error;
    }
    error = get_znode(zookeeper, &request, deadline_ns);
    if (error == 0 || error == -ENOBUFS)
        error = cluster_session_await(session, &session->turns, &seen, deadline_ns);
    return error == 0 || error == -ENOENT ? LOOK_AGAIN : error;
}

/* Begin an epoch. @return 0; LOOK_AGAIN: another member has begun one meanwhile; an error */
static int raise_epoch(struct zookeeper *zookeeper, uint64_t deadline_ns, uint64_t *ret_epoch)
{
    struct cluster_session *session = zookeeper->session;
    char id[LEADER_ID_LEN + 1];
    struct cluster_request request = {.path = session->epoch_path, .data = id, .room = sizeof(id)};
    zoo_op_t op;
    int error = get_znode(zookeeper, &request, deadline_ns);
    if (error == -ENOENT)
        return -EUCLEAN;
    if (error != 0 && error != -ENOBUFS)
        return error;
    (void)snprintf(id, sizeof(id), "%016" PRIx64, (uint64_t)atomic_load(&session->id));
    zoo_set_op_init(&op, session->epoch_path, id, LEADER_ID_LEN, request.stat.version, NULL);
    error = change_znode(zookeeper, &op, deadline_ns);
    if (error == 0)
        *ret_epoch = (uint64_t)request.stat.version + 1;
    return error == -EAGAIN ? LOOK_AGAIN : error;
}

/* Whether leading goes on after an attempt; a lost connection is waited for. */
static bool leads_again(int error, uint64_t deadline_ns)
{
    return error == LOOK_AGAIN || (error == -ENOTCONN && task_now() < deadline_ns && !task_cancelled());
}

static int zookeeper_lead(struct cluster *cluster, uint64_t deadline_ns, uint64_t *ret_epoch)
{
    struct zookeeper *zookeeper = zookeeper_of(cluster);
    int error = task_mutex_lock(&zookeeper->lead_lock, deadline_ns);
    if (error != 0)
        return error;
    error = cluster_session_await_withdrawn(zookeeper->session, deadline_ns);
    if (error == 0) {
        do {
            error = await_turn(zookeeper, deadline_ns);
            if (error == 0)
                error = raise_epoch(zookeeper, deadline_ns, ret_epoch);
        } while (leads_again(error, deadline_ns));
        if (error == -ENOTCONN)
            error = task_cancelled() ? -ECANCELED : -ETIMEDOUT;
        zookeeper->leads = zookeeper->leads || error == 0;
        if (!zookeeper->leads)
            cluster_session_withdraw(zookeeper->session); /* else others would wait for this member */
    }
    task_mutex_unlock(&zookeeper->lead_lock);
    return error;
}

/* ---- multi -------------------------------------------------------------------------------------- */

/* The path of a node's znode: all nodes are children of one znode, so that none needs a parent. */
static void fill_node_path(const struct zookeeper *zookeeper, const char *path,
                           char ret_path[CLUSTER_ZNODE_ROOM])
{
    char name[2 * CLUSTER_PATH_MAX + 1];
    char *to = name;
    for (const char *from = path + 1; *from != '\0'; from++) {
        if (*from == '/')
            to = stpcpy(to, SLASH);
        else
            *to++ = *from;
    }
    *to = '\0';
    cluster_session_path(zookeeper->session, "nodes", name, ret_path);
}

struct multi {
    struct zookeeper *zookeeper;
    uint64_t epoch;
    const struct cluster_change *changes;
    uint32_t count;
    uint32_t op_count;
    struct cluster_request *looks; /* one for each change: whether its node is there */
    zoo_op_t *ops;                 /* the epoch's, then one or two for each change */
    zoo_op_result_t *results;      /* as many */
    uint32_t *owners;              /* as many: the number of the change; UINT32_MAX for the epoch's */
    char (*paths)[CLUSTER_ZNODE_ROOM];
};

static zoo_op_t *add_op(struct multi *multi, uint32_t owner)
{
    multi->owners[multi->op_count] = owner;
    return &multi->ops[multi->op_count++];
}

static void add_creation(struct multi *multi, uint32_t i, const void *data, uint32_t bytes)
{
    zoo_create_op_init(add_op(multi, i), multi->paths[i], data, (int)bytes, &ZOO_OPEN_ACL_UNSAFE,
                       ZOO_PERSISTENT, NULL, 0);
}

static void add_change(struct multi *multi, uint32_t i)
{
    const struct cluster_change *change = &multi->changes[i];
    const bool any = change->if_version == CLUSTER_ANY;
    const bool absent = any ? multi->looks[i].error == -ENOENT : change->if_version == CLUSTER_ABSENT;
    /* no znode has more changes; -1 is the ensemble's word for any version */
    const int version = any ? -1 : (int)base_min(change->if_version, (int64_t)INT32_MAX);
    if (absent) /* a removal makes it first, because the ensemble cannot check that there is none */
        add_creation(multi, i, change->data == NULL ? "" : change->data,
                     change->data == NULL ? 0 : change->bytes);
    if (change->data == NULL)
        zoo_delete_op_init(add_op(multi, i), multi->paths[i], version);
    else if (!absent)
        zoo_set_op_init(add_op(multi, i), multi->paths[i], change->data, (int)change->bytes, version, NULL);
}

/* Look which nodes are there, where that decides what the change is. @return 0; an error of the requests */
static int look_at_nodes(struct multi *multi)
{
    for (uint32_t i = 0; i < multi->count; i++) {
        const bool any = multi->changes[i].if_version == CLUSTER_ANY;
        multi->looks[i] = (struct cluster_request){
            .kind = any ? CLUSTER_REQUEST_EXISTS : CLUSTER_REQUEST_NONE, .path = multi->paths[i]};
    }
    (void)cluster_session_run(multi->zookeeper->session, multi->looks, multi->count, TASK_FOREVER);
    for (uint32_t i = 0; i < multi->count; i++) {
        if (multi->looks[i].error != 0 && multi->looks[i].error != -ENOENT)
            return multi->looks[i].error;
    }
    return 0;
}

/* What a refusal means. The ensemble stops at the first change that it cannot make, and tells which one that is. */
static int judge_refusal(const struct multi *multi, int error)
{
    for (uint32_t i = 0; i < multi->op_count; i++) {
        const int code = multi->results[i].err, owner = (int)multi->owners[i];
        if (code == ZOK || code == ZRUNTIMEINCONSISTENCY)
            continue;
        if (owner < 0)
            return code == ZBADVERSION ? -EPERM : -EUCLEAN;
        if (code == ZNONODE && multi->ops[i].type == ZOO_CREATE_OP)
            return -EUCLEAN; /* the znode of all nodes is gone */
        if (code == ZNONODE || code == ZNODEEXISTS || code == ZBADVERSION)
            return multi->changes[owner].if_version == CLUSTER_ANY ? LOOK_AGAIN : -EAGAIN;
        break;
    }
    return error;
}

/* @return 0; LOOK_AGAIN; an error of cluster_multi() */
static int try_multi(struct multi *multi)
{
    int error = look_at_nodes(multi);
    if (error != 0)
        return error;
    multi->op_count = 0;
    if (multi->epoch != 0)
        zoo_check_op_init(add_op(multi, UINT32_MAX), multi->zookeeper->session->epoch_path,
                          (int)multi->epoch);
    for (uint32_t i = 0; i < multi->count; i++)
        add_change(multi, i);
    struct cluster_request request = {.kind = CLUSTER_REQUEST_MULTI,
                                      .ops = multi->ops,
                                      .results = multi->results,
                                      .op_count = multi->op_count};
    error = cluster_session_run(multi->zookeeper->session, &request, 1, TASK_FOREVER);
    return error == -ENOENT || error == -EEXIST || error == -EAGAIN ? judge_refusal(multi, error) : error;
}

static int zookeeper_multi(struct cluster *cluster, uint64_t epoch, const struct cluster_change *changes,
                           uint32_t count)
{
    struct multi multi = {
        .zookeeper = zookeeper_of(cluster), .epoch = epoch, .changes = changes, .count = count};
    struct base_account *account = account_of(multi.zookeeper);
    const size_t ops_max = 2 * (size_t)count + 1;
    const size_t bytes = count * (sizeof(*multi.looks) + sizeof(*multi.paths)) +
                         ops_max * (sizeof(*multi.ops) + sizeof(*multi.results) + sizeof(*multi.owners));
    if (epoch > INT32_MAX)
        return -EPERM; /* there is no such epoch yet */
    if (epoch == 0 && count == 0)
        return 0;
    multi.looks = base_alloc(account, bytes);
    if (multi.looks == NULL)
        return -ENOMEM;
    multi.ops = (void *)(multi.looks + count);
    multi.results = (void *)(multi.ops + ops_max);
    multi.owners = (void *)(multi.results + ops_max);
    multi.paths = (void *)(multi.owners + ops_max);
    for (uint32_t i = 0; i < count; i++)
        fill_node_path(multi.zookeeper, changes[i].path, multi.paths[i]);
    int error;
    do {
        error = try_multi(&multi);
    } while (error == LOOK_AGAIN);
    base_free(account, multi.looks, bytes);
    return error;
}

/* ---- reading ------------------------------------------------------------------------------------ */

static int zookeeper_get(struct cluster *cluster, const char *path, void *data, uint32_t room,
                         uint32_t *ret_bytes, int64_t *ret_version)
{
    char znode[CLUSTER_ZNODE_ROOM];
    struct zookeeper *zookeeper = zookeeper_of(cluster);
    struct cluster_request request = {.path = znode, .data = data, .room = room};
    fill_node_path(zookeeper, path, znode);
    const int error = get_znode(zookeeper, &request, TASK_FOREVER);
    if (error == 0 || error == -ENOBUFS)
        *ret_bytes = request.bytes;
    if (error == 0)
        *ret_version = request.stat.version;
    return error;
}

/* The path of the node of a znode. @return whether it is one, below `path` */
static bool read_node_path(const char *name, const char *path, char ret_path[CLUSTER_PATH_MAX + 1])
{
    const size_t path_len = strlen(path);
    size_t len = 0;
    ret_path[len++] = '/';
    while (*name != '\0' && len < CLUSTER_PATH_MAX) {
        const bool slash = strncmp(name, SLASH, strlen(SLASH)) == 0;
        ret_path[len++] = slash ? '/' : *name;
        name += slash ? strlen(SLASH) : 1;
    }
    ret_path[len] = '\0';
    return *name == '\0' && cluster_is_path(ret_path) && len > path_len && ret_path[path_len] == '/' &&
           memcmp(ret_path, path, path_len) == 0;
}

/* Some nodes, which are read together. */
struct window {
    uint32_t count;
    struct cluster_request requests[SCAN_WINDOW];
    char znodes[SCAN_WINDOW][CLUSTER_ZNODE_ROOM];
    char paths[SCAN_WINDOW][CLUSTER_PATH_MAX + 1];
};

/* Read nodes and show them. @return 0; what `visit` returns; an error of the requests */
static int visit_window(struct zookeeper *zookeeper, struct window *window, cluster_visit_function *visit,
                        void *arg)
{
    int error = 0;
    (void)cluster_session_run(zookeeper->session, window->requests, window->count, TASK_FOREVER);
    for (uint32_t i = 0; i < window->count; i++) {
        struct cluster_request *request = &window->requests[i];
        if (error == 0 && request->error != -ENOENT) /* else it is gone */
            error = request->error;
        if (error == 0 && request->error == 0)
            error = request->bytes > CLUSTER_DATA_MAX
                        ? -EUCLEAN
                        : visit(arg, window->paths[i], request->data, request->bytes, request->stat.version);
        drop_data(zookeeper, request);
    }
    window->count = 0;
    return error;
}

static int zookeeper_scan(struct cluster *cluster, const char *path, cluster_visit_function *visit, void *arg)
{
    struct zookeeper *zookeeper = zookeeper_of(cluster);
    struct cluster_request names;
    struct window *window = base_alloc(account_of(zookeeper), sizeof(*window));
    if (window == NULL)
        return -ENOMEM;
    int error = get_names(zookeeper, "nodes", &names, TASK_FOREVER);
    for (const char *name = NULL; error == 0 && (name = next_name(&names, name)) != NULL;) {
        const uint32_t i = window->count;
        if (!read_node_path(name, path, window->paths[i]))
            continue;
        fill_node_path(zookeeper, window->paths[i], window->znodes[i]);
        window->requests[i] = (struct cluster_request){
            .kind = CLUSTER_REQUEST_GET, .path = window->znodes[i], .allocates = true};
        if (++window->count == SCAN_WINDOW)
            error = visit_window(zookeeper, window, visit, arg);
    }
    if (error == 0)
        error = visit_window(zookeeper, window, visit, arg);
    drop_data(zookeeper, &names);
    base_free(account_of(zookeeper), window, sizeof(*window));
    return error;
}

/* ---- joining and leaving ------------------------------------------------------------------------ */

static void zookeeper_leave(struct cluster *cluster)
{
    struct zookeeper *zookeeper = zookeeper_of(cluster);
    struct tarn_node *node = zookeeper->session->node;
    cluster_session_close(zookeeper->session);
    base_free(&node->memory, zookeeper, sizeof(*zookeeper));
}

/* Make the znodes that all members share, and those above them. @return 0; an error of the requests */
static int make_layout(struct zookeeper *zookeeper)
{
    static const char *const folders[] = {"members", "candidates", "nodes", "epoch"};
    char path[CLUSTER_ZNODE_ROOM];
    const char *root = zookeeper->session->root;
    int error = 0;
    for (size_t len = 1; error == 0 && len <= strlen(root); len++) {
        if (root[len] != '/' && root[len] != '\0')
            continue;
        (void)snprintf(path, sizeof(path), "%.*s", (int)len, root);
        error = make_znode(zookeeper, path, NULL, 0, ZOO_PERSISTENT, TASK_FOREVER);
        error = error == -EEXIST ? 0 : error;
    }
    for (size_t i = 0; error == 0 && i < base_array_count(folders); i++) {
        cluster_session_path(zookeeper->session, folders[i], NULL, path);
        error = make_znode(zookeeper, path, NULL, 0, ZOO_PERSISTENT, TASK_FOREVER);
        error = error == -EEXIST ? 0 : error;
    }
    return error;
}

/* Become a member. A name that another one has may be that of a session that has still to end, which takes its length and
 * what the ensemble rounds it up to. @return 0; -EEXIST; an error of
 * the requests; -ECANCELED */
static int take_name(struct zookeeper *zookeeper, const struct cluster_options *options)
{
    char path[CLUSTER_ZNODE_ROOM];
    const uint64_t length_ns = atomic_load(&zookeeper->session->length_ns);
    const uint64_t end_ns = task_now() + 2 * length_ns;
    int error;
    cluster_session_path(zookeeper->session, "members", options->name, path);
    for (;;) {
        error = make_znode(zookeeper, path, options->data, options->data_bytes, ZOO_EPHEMERAL, TASK_FOREVER);
        if (error != -EEXIST || task_now() >= end_ns)
            return error;
        error = task_sleep(length_ns / NAME_TRIES);
        if (error != 0)
            return error;
    }
}

/* @return 0; -EUSERS; an error of the requests */
static int count_members(struct zookeeper *zookeeper)
{
    struct cluster_request names;
    uint32_t count = 0;
    const int error = get_names(zookeeper, "members", &names, TASK_FOREVER);
    for (const char *name = NULL; (name = next_name(&names, name)) != NULL;)
        count++;
    drop_data(zookeeper, &names);
    return count > CLUSTER_MEMBERS_MAX ? -EUSERS : error;
}

/* Wait until the watches stand and the first heartbeat is answered, which is sent behind them. */
static int begin_keeping(struct cluster_session *session)
{
    uint64_t seen = cluster_session_seen(session, &session->members);
    const uint64_t deadline_ns = task_now() + 2 * atomic_load(&session->length_ns);
    int error = 0;
    cluster_session_keep(session);
    while (error == 0 && atomic_load(&session->held_until_ns) == 0)
        error = cluster_session_await(session, &session->members, &seen, deadline_ns);
    return error == -ETIMEDOUT ? -ENOTCONN : error;
}

static const struct cluster_operations zookeeper_operations = {.leave = zookeeper_leave,
                                                               .held_until = zookeeper_held_until,
                                                               .members = zookeeper_members,
                                                               .watch = zookeeper_watch,
                                                               .lead = zookeeper_lead,
                                                               .multi = zookeeper_multi,
                                                               .get = zookeeper_get,
                                                               .scan = zookeeper_scan};

int cluster_zookeeper_join(struct tarn_node *node, const char *rest, const struct cluster_options *options,
                           struct cluster **ret_cluster)
{
    char hosts[CLUSTER_HOSTS_MAX + 1];
    const size_t hosts_len = strcspn(rest, "/");
    const char *root = rest + hosts_len;
    if (hosts_len == 0 || hosts_len > CLUSTER_HOSTS_MAX || (*root != '\0' && !cluster_is_path(root)))
        return cluster_refuse(node, rest, "an ensemble is named as zookeeper:HOST:PORT,HOST:PORT/PATH");
    (void)snprintf(hosts, sizeof(hosts), "%.*s", (int)hosts_len, rest);
    struct zookeeper *zookeeper = base_alloc(&node->memory, sizeof(*zookeeper));
    if (zookeeper == NULL)
        return -ENOMEM;
    *zookeeper = (struct zookeeper){.cluster.operations = &zookeeper_operations};
    task_mutex_init(&zookeeper->lead_lock);
    int error = cluster_session_open(node, hosts, root, options->name,
                                     options->session_ns == 0 ? SESSION_NS : options->session_ns,
                                     &zookeeper->session);
    if (error != 0) {
        base_free(&node->memory, zookeeper, sizeof(*zookeeper));
        return error == -EINVAL ? cluster_refuse(node, rest, "it has no list of hosts and ports") : error;
    }
    error = make_layout(zookeeper);
    if (error == 0)
        error = take_name(zookeeper, options);
    if (error == 0)
        error = count_members(zookeeper);
    if (error == 0)
        error = begin_keeping(zookeeper->session);
    if (error != 0) {
        zookeeper_leave(&zookeeper->cluster);
        return error;
    }
    *ret_cluster = &zookeeper->cluster;
    return 0;
}
