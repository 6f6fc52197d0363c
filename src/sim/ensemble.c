/* The ensemble of a world: sessions, candidates, and nodes with versions, in the memory of the world. */
#include "sim/ensemble.h"
#include "cluster/provider.h"
#include "sim/sim_internal.h"
#include <errno.h>
#include <string.h>

enum {
    DELAY_BITS_MAX = 20, /* of a way to the ensemble, or back: about a millisecond */
    BEATS = 6,           /* in a session */
    LOOKS = 32,          /* of those that wait, in a session */
};

/* A node, with its path and data behind it. */
struct ensemble_node {
    struct base_list link;
    int64_t version;
    uint32_t bytes;
    char path[CLUSTER_PATH_MAX + 1];
    uint8_t data[];
};

/* A multi that arrives when its member has given it up, with its changes, and their paths and data, behind it. */
struct late {
    struct base_list link;
    struct sim_event event;
    struct sim_ensemble *ensemble;
    uint64_t epoch;
    uint32_t count;
    size_t bytes;
    struct cluster_change changes[];
};

struct sim_ensemble {
    struct sim_world *world;
    struct base_random random;
    uint64_t session_ns;
    uint64_t epoch;
    uint64_t changes;    /* of the members, from 1 on */
    uint64_t candidates; /* that there were */
    struct base_list members;
    struct base_list nodes;
    struct base_list late;
};

/* A member, and its session. */
struct member {
    struct cluster cluster;
    struct base_list link;
    struct sim_ensemble *ensemble;
    struct tarn_node *tarn;
    struct cluster_member self;
    uint64_t heard_ns;      /* when the ensemble has last heard of it */
    uint64_t candidate;     /* the one with the lowest number leads; 0: it is none */
    uint64_t held_until_ns; /* by its own clock */
    bool has_expired;       /* or has not begun */
    struct task_group group;
};

static struct member *member_of(struct cluster *cluster)
{
    return base_container_of(cluster, struct member, cluster);
}

static struct sim_node *node_of(const struct member *member)
{
    return member->tarn->options.cluster_arg;
}

/* ---- the ensemble ------------------------------------------------------------------------------- */

/* End the sessions that nothing was heard of for too long. */
static void expire(struct sim_ensemble *ensemble)
{
    base_list_for_each(at, &ensemble->members) {
        struct member *member = base_container_of(at, struct member, link);
        if (member->has_expired || sim_world_now(ensemble->world) - member->heard_ns <= ensemble->session_ns)
            continue;
        member->has_expired = true;
        member->candidate = 0;
        member->self.leads = false;
        ensemble->changes++;
    }
}

/* Whether a candidate is the first of all. */
static bool is_first(const struct member *member)
{
    base_list_for_each(at, &member->ensemble->members) {
        const struct member *other = base_container_of(at, struct member, link);
        if (other->candidate != 0 && other->candidate < member->candidate)
            return false;
    }
    return member->candidate != 0;
}

static struct member *member_named(const struct sim_ensemble *ensemble, const char *name)
{
    base_list_for_each(at, &ensemble->members) {
        struct member *member = base_container_of(at, struct member, link);
        if (!member->has_expired && strcmp(member->self.name, name) == 0)
            return member;
    }
    return NULL;
}

static struct ensemble_node *find_node(const struct sim_ensemble *ensemble, const char *path)
{
    base_list_for_each(at, &ensemble->nodes) {
        struct ensemble_node *node = base_container_of(at, struct ensemble_node, link);
        if (strcmp(node->path, path) == 0)
            return node;
    }
    return NULL;
}

static void remove_node(struct sim_ensemble *ensemble, struct ensemble_node *node)
{
    if (node == NULL)
        return;
    base_list_remove(&node->link);
    base_free(sim_world_memory(ensemble->world), node, sizeof(*node) + node->bytes);
}

static void put_node(struct sim_ensemble *ensemble, const struct cluster_change *change, int64_t version)
{
    struct ensemble_node *node = base_alloc(sim_world_memory(ensemble->world), sizeof(*node) + change->bytes);
    base_assert(node != NULL);
    node->version = version;
    node->bytes = change->bytes;
    memcpy(node->path, change->path, strlen(change->path) + 1);
    memcpy(node->data, change->data, change->bytes);
    base_list_push_back(&ensemble->nodes, &node->link);
}

static bool does_hold(const struct cluster_change *change, const struct ensemble_node *node)
{
    return change->if_version == CLUSTER_ANY ||
           (change->if_version == CLUSTER_ABSENT ? node == NULL
                                                 : node != NULL && node->version == change->if_version);
}

static int apply_changes(struct sim_ensemble *ensemble, uint64_t epoch, const struct cluster_change *changes,
                         uint32_t count)
{
    if (epoch != 0 && epoch != ensemble->epoch)
        return -EPERM;
    for (uint32_t i = 0; i < count; i++) {
        if (!does_hold(&changes[i], find_node(ensemble, changes[i].path)))
            return -EAGAIN;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct ensemble_node *node = find_node(ensemble, changes[i].path);
        const int64_t version = node == NULL ? 0 : node->version + 1;
        remove_node(ensemble, node);
        if (changes[i].data != NULL)
            put_node(ensemble, &changes[i], version);
    }
    return 0;
}

static void free_late(struct late *late)
{
    base_list_remove(&late->link);
    base_free(sim_world_memory(late->ensemble->world), late, late->bytes);
}

static void arrive(struct sim_event *event)
{
    struct late *late = base_container_of(event, struct late, event);
    sim_note(late->ensemble->world, "late", late->epoch,
             (uint64_t)apply_changes(late->ensemble, late->epoch, late->changes, late->count));
    free_late(late);
}

/* Have a multi arrive later. */
static void delay(struct sim_ensemble *ensemble, uint64_t epoch, const struct cluster_change *changes,
                  uint32_t count)
{
    size_t bytes = sizeof(struct late) + count * sizeof(*changes);
    for (uint32_t i = 0; i < count; i++)
        bytes += strlen(changes[i].path) + 1 + changes[i].bytes;
    struct late *late = base_alloc(sim_world_memory(ensemble->world), bytes);
    base_assert(late != NULL);
    *late = (struct late){.event = {.name = "late multi", .run = arrive},
                          .ensemble = ensemble,
                          .epoch = epoch,
                          .count = count,
                          .bytes = bytes};
    uint8_t *at = (uint8_t *)&late->changes[count];
    for (uint32_t i = 0; i < count; i++) {
        const size_t path = strlen(changes[i].path) + 1;
        late->changes[i] = changes[i];
        late->changes[i].path = memcpy(at, changes[i].path, path);
        if (changes[i].data != NULL)
            late->changes[i].data = memcpy(at + path, changes[i].data, changes[i].bytes);
        at += path + changes[i].bytes;
    }
    base_list_push_back(&ensemble->late, &late->link);
    sim_event_at(ensemble->world, &late->event,
                 sim_world_now(ensemble->world) +
                     base_random_below(&ensemble->random, 2 * ensemble->session_ns));
}

/* ---- ways --------------------------------------------------------------------------------------- */

/* Go one way between a member and the ensemble. @return 0; -ENOTCONN: nothing came through for a session's
 * length, or until the task was cancelled */
static int travel(const struct member *member)
{
    struct sim_ensemble *ensemble = member->ensemble;
    const uint64_t bits = base_random_below(&ensemble->random, DELAY_BITS_MAX);
    const uint64_t deadline_ns = task_now() + ensemble->session_ns;
    (void)task_sleep(base_random_below(&ensemble->random, UINT64_C(1) << bits));
    while (node_of(member)->is_off) {
        if (task_now() >= deadline_ns || task_sleep(ensemble->session_ns / LOOKS) != 0)
            return -ENOTCONN;
    }
    expire(ensemble);
    return 0;
}

/* Reach the ensemble. @return 0; -ENOTCONN; -ESTALE */
static int reach(const struct member *member)
{
    int error = travel(member);
    return error == 0 && member->has_expired ? -ESTALE : error;
}

static void keep_session(void *arg)
{
    struct member *member = arg;
    while (!task_cancelled() && !member->has_expired) {
        const uint64_t sent_ns = task_now(), session_ns = member->ensemble->session_ns;
        if (reach(member) == 0) {
            member->heard_ns = sim_world_now(member->ensemble->world);
            if (travel(member) == 0)
                member->held_until_ns = sent_ns + session_ns / 3 * 2;
        }
        (void)task_sleep(session_ns / BEATS);
    }
    if (member->has_expired)
        member->held_until_ns = 0;
}

/* ---- operations --------------------------------------------------------------------------------- */

static uint64_t ensemble_held_until(const struct cluster *cluster)
{
    return base_container_of(cluster, const struct member, cluster)->held_until_ns;
}

static int ensemble_members(struct cluster *cluster, struct cluster_member *ret_members, uint32_t *ret_count)
{
    const struct member *self = member_of(cluster);
    uint32_t count = 0;
    int error = reach(self);
    base_list_for_each(at, &self->ensemble->members) {
        const struct member *member = base_container_of(at, struct member, link);
        uint32_t place = count;
        if (error != 0 || member->has_expired)
            continue;
        for (; place > 0 && strcmp(ret_members[place - 1].name, member->self.name) > 0; place--)
            ret_members[place] = ret_members[place - 1];
        ret_members[place] = member->self;
        count++;
    }
    *ret_count = error == 0 ? count : *ret_count;
    return error;
}

static int ensemble_watch(struct cluster *cluster, uint64_t *seen, uint64_t deadline_ns)
{
    const struct member *member = member_of(cluster);
    int error = reach(member);
    while (error == 0 && *seen == member->ensemble->changes) {
        error = task_now() >= deadline_ns ? -ETIMEDOUT : task_sleep(member->ensemble->session_ns / LOOKS);
        if (error == 0)
            error = reach(member);
    }
    if (error == 0)
        *seen = member->ensemble->changes;
    return error;
}

static int begin_epoch(struct member *member, uint64_t *ret_epoch)
{
    struct sim_ensemble *ensemble = member->ensemble;
    const uint64_t epoch = ++ensemble->epoch;
    base_list_for_each(at, &ensemble->members)
        base_container_of(at, struct member, link)->self.leads = false;
    member->self.leads = true;
    ensemble->changes++;
    sim_note(ensemble->world, "epoch", epoch, 0);
    int error = travel(member);
    if (error == 0)
        *ret_epoch = epoch;
    return error;
}

static int ensemble_lead(struct cluster *cluster, uint64_t deadline_ns, uint64_t *ret_epoch)
{
    struct member *member = member_of(cluster);
    int error = reach(member);
    if (error == 0 && member->candidate == 0)
        member->candidate = ++member->ensemble->candidates;
    while (error == 0 && !is_first(member)) {
        error = task_now() >= deadline_ns ? -ETIMEDOUT : task_sleep(member->ensemble->session_ns / LOOKS);
        if (error == 0)
            error = reach(member);
    }
    if (error == 0)
        return begin_epoch(member, ret_epoch);
    if (!member->self.leads)
        member->candidate = 0;
    return error;
}

static int ensemble_multi(struct cluster *cluster, uint64_t epoch, const struct cluster_change *changes,
                          uint32_t count)
{
    const struct member *member = member_of(cluster);
    struct sim_ensemble *ensemble = member->ensemble;
    int error = reach(member);
    if (error == -ENOTCONN && base_random_below(&ensemble->random, 2) == 0)
        delay(ensemble, epoch, changes, count);
    if (error != 0)
        return error;
    error = apply_changes(ensemble, epoch, changes, count);
    const int lost = travel(member);
    return lost != 0 ? lost : error;
}

static int ensemble_get(struct cluster *cluster, const char *path, void *data, uint32_t room,
                        uint32_t *ret_bytes, int64_t *ret_version)
{
    const struct member *member = member_of(cluster);
    int error = reach(member);
    const struct ensemble_node *node = error == 0 ? find_node(member->ensemble, path) : NULL;
    if (node == NULL)
        return error == 0 ? -ENOENT : error;
    *ret_bytes = node->bytes;
    *ret_version = node->version;
    if (node->bytes > room)
        return -ENOBUFS;
    memcpy(data, node->data, node->bytes);
    return 0;
}

static int ensemble_scan(struct cluster *cluster, const char *path, cluster_visit_function *visit, void *arg)
{
    const struct member *member = member_of(cluster);
    const size_t len = strlen(path);
    int error = reach(member);
    base_list_for_each(at, &member->ensemble->nodes) {
        const struct ensemble_node *node = base_container_of(at, struct ensemble_node, link);
        if (error == 0 && strncmp(node->path, path, len) == 0 && node->path[len] == '/')
            error = visit(arg, node->path, node->data, node->bytes, node->version);
    }
    return error;
}

static void free_member(struct member *member)
{
    base_list_remove(&member->link);
    base_free(sim_world_memory(member->ensemble->world), member, sizeof(*member));
}

static void ensemble_leave(struct cluster *cluster)
{
    struct member *member = member_of(cluster);
    task_group_cancel(&member->group);
    task_group_join_firmly(&member->group);
    member->ensemble->changes++;
    free_member(member);
}

static const struct cluster_operations ensemble_operations = {.leave = ensemble_leave,
                                                              .held_until = ensemble_held_until,
                                                              .members = ensemble_members,
                                                              .watch = ensemble_watch,
                                                              .lead = ensemble_lead,
                                                              .multi = ensemble_multi,
                                                              .get = ensemble_get,
                                                              .scan = ensemble_scan};

/* ---- joining ------------------------------------------------------------------------------------ */

/* Begin a member's session, once nobody of its name is there. */
static int begin_session(struct member *member)
{
    struct sim_ensemble *ensemble = member->ensemble;
    const uint64_t deadline_ns = task_now() + 2 * ensemble->session_ns, sent_ns = task_now();
    int error = travel(member);
    while (error == 0 && member_named(ensemble, member->self.name) != NULL) {
        error = task_now() >= deadline_ns ? -EEXIST : task_sleep(ensemble->session_ns / LOOKS);
        if (error == 0)
            error = travel(member);
    }
    if (error != 0)
        return error;
    member->heard_ns = sim_world_now(ensemble->world);
    member->held_until_ns = sent_ns + ensemble->session_ns / 3 * 2;
    member->has_expired = false;
    ensemble->changes++;
    return 0;
}

static int join(struct tarn_node *tarn, const char *rest, const struct cluster_options *options,
                struct cluster **ret_cluster)
{
    const struct sim_node *node = tarn->options.cluster_arg;
    struct sim_ensemble *ensemble = node->world->ensemble;
    (void)rest;
    struct member *member = base_alloc(sim_world_memory(node->world), sizeof(*member));
    if (member == NULL)
        return -ENOMEM;
    *member = (struct member){
        .cluster.operations = &ensemble_operations, .ensemble = ensemble, .tarn = tarn, .has_expired = true};
    base_list_push_back(&ensemble->members, &member->link);
    task_group_init(&member->group);
    memcpy(member->self.name, options->name, strlen(options->name));
    member->self.data_bytes = options->data_bytes;
    if (options->data_bytes > 0)
        memcpy(member->self.data, options->data, options->data_bytes);
    int error = begin_session(member);
    if (error == 0)
        error = task_spawn(NULL, &member->group, "session", keep_session, member);
    if (error == 0)
        *ret_cluster = &member->cluster;
    else
        free_member(member);
    return error;
}

const struct cluster_provider sim_ensemble_provider = {.scheme = "sim:", .join = join};

/* ---- the driver's ------------------------------------------------------------------------------- */

void sim_ensemble_open(struct sim_world *world, uint64_t session_ns)
{
    struct sim_ensemble *ensemble = base_alloc(sim_world_memory(world), sizeof(*ensemble));
    base_assert(ensemble != NULL && world->ensemble == NULL);
    *ensemble = (struct sim_ensemble){.world = world, .session_ns = session_ns, .changes = 1};
    ensemble->random = base_random_fork(&world->random);
    base_list_init(&ensemble->members);
    base_list_init(&ensemble->nodes);
    base_list_init(&ensemble->late);
    world->ensemble = ensemble;
}

void sim_ensemble_close(struct sim_world *world)
{
    struct sim_ensemble *ensemble = world->ensemble;
    if (ensemble == NULL)
        return;
    while (!base_list_empty(&ensemble->members)) /* of nodes that were killed */
        free_member(base_container_of(base_list_first(&ensemble->members), struct member, link));
    while (!base_list_empty(&ensemble->late))
        free_late(base_container_of(base_list_first(&ensemble->late), struct late, link));
    while (!base_list_empty(&ensemble->nodes))
        remove_node(ensemble,
                    base_container_of(base_list_first(&ensemble->nodes), struct ensemble_node, link));
    base_free(sim_world_memory(world), ensemble, sizeof(*ensemble));
}

void sim_ensemble_cut(struct sim_node *node, bool is_cut)
{
    sim_note(node->world, "ensemble", is_cut, 0);
    node->is_off = is_cut;
}
