/*
 * Campaign `task`: tasks and threads lock, wait, send, spawn, cancel and sleep at random. What must
 * hold: one holder of a mutex, served in the order of coming; never more permits than there are; each
 * item received once, and in order; no wait ends for a reason that is not there; nobody waits for ever.
 */
#include "base/base.h"
#include "sim/campaigns/campaign_internal.h"
#include <errno.h>
#include <inttypes.h>

enum {
    SCHEDS_MAX = 3,
    WORKERS_MAX = 8,
    STEPS_MAX = 60, /* of each worker */
    MUTEXES = 2,
    SEMAPHORES = 2,
    CHANNELS = 2,
    CHILDREN_MAX = 4,
    DEPTH_MAX = 2, /* of children of children */
    SLEEP_NS_BITS = 18,
};

/* A task that waits for a mutex, in the order of coming. */
struct ticket {
    struct base_list link;
    bool passed; /* somebody behind got the mutex first: this one must not get it any more */
};

struct mutex {
    struct task_mutex mutex;
    struct base_list tickets;
    uint32_t inside;
};

struct semaphore {
    struct task_semaphore semaphore;
    uint32_t permits;
    uint32_t inside;
};

struct item {
    uint32_t sender;
    uint64_t number; /* from 1, of its sender and channel; 0: sent by a child, whose order is not watched */
    bool sent;       /* the sender was told so */
    bool failed;
    bool received;
    struct item *next; /* all items of an arena */
};

struct channel {
    struct task_channel channel;
    uint64_t sent;
    uint64_t received;
};

struct arena {
    struct sim_world *world;
    struct sim_node *node;
    uint32_t scheds;
    uint32_t workers;
    uint32_t producers; /* that still send on the pipeline */
    struct mutex mutexes[MUTEXES];
    struct semaphore semaphores[SEMAPHORES];
    struct channel channels[CHANNELS];
    struct channel pipeline; /* nobody on it gives up */
    struct item *items;
    struct family *families;
    struct task_group crew; /* some workers, cancelled in the middle */
    uint64_t running;       /* workers and children */
};

struct worker {
    struct arena *arena;
    struct base_random random;
    uint32_t number;
    uint32_t depth;
    bool thread;
    bool crew;                                    /* a member of arena->crew */
    uint64_t sent[CHANNELS + 1];                  /* items so far; the last is the pipeline's */
    uint64_t seen[CHANNELS + 1][2 * WORKERS_MAX]; /* latest item received from each sender */
};

/* Children with a group and futures; lives until the arena ends, since a cancelled parent may leave early. */
struct family {
    struct family *next;
    struct arena *arena;
    struct task_group group;
    struct task_shared_future never; /* what members of a doomed family wait for, until they are cancelled */
    bool doomed;
    uint32_t alive;
    struct child {
        struct family *family;
        struct worker worker;
        struct task_future local;
        struct task_shared_future shared;
        bool has_local;
        int value;
    } children[CHILDREN_MAX];
};

static uint64_t draw_below(struct worker *worker, uint64_t n)
{
    return base_random_below(&worker->random, n);
}

static uint64_t draw_ns(struct worker *worker)
{
    return draw_below(worker, UINT64_C(1) << draw_below(worker, SLEEP_NS_BITS + 1));
}

static uint64_t draw_deadline(struct worker *worker)
{
    return draw_below(worker, 2) == 0 ? TASK_FOREVER : task_now() + draw_ns(worker);
}

/* ---- what a wait may say --------------------------------------------------------------------- */

/* A wait ended with this result: it must have had the reason. @return whether it succeeded */
static bool check_wait(struct worker *worker, const char *what, int result, uint64_t deadline_ns)
{
    struct sim_world *world = worker->arena->world;
    sim_note(world, what, worker->number, (uint64_t)(-result));
    if (result == -ETIMEDOUT) {
        if (deadline_ns == TASK_FOREVER || task_now() < deadline_ns)
            sim_fail(world, "%s of worker %u timed out before its deadline", what, worker->number);
    } else if (result == -ECANCELED) {
        if (!task_cancelled())
            sim_fail(world, "%s of worker %u was cancelled, the worker was not", what, worker->number);
    } else if (result != 0 && result != -EPIPE) {
        sim_fail(world, "%s of worker %u returned %d", what, worker->number, result);
    }
    return result == 0;
}

static void rest(struct worker *worker)
{
    uint64_t begin_ns = task_now();
    uint64_t duration_ns = draw_ns(worker);
    if (draw_below(worker, 3) == 0)
        task_yield();
    else if (check_wait(worker, "sleep", task_sleep(duration_ns), TASK_FOREVER) &&
             task_now() - begin_ns < duration_ns)
        sim_fail(worker->arena->world, "worker %u woke early", worker->number);
}

/* ---- mutexes and semaphores ------------------------------------------------------------------ */

static bool lock(struct worker *worker, struct mutex *mutex)
{
    uint64_t deadline_ns = draw_deadline(worker);
    uint64_t way = draw_below(worker, 4);
    if (way == 0)
        return task_mutex_lock_try(&mutex->mutex);
    struct ticket ticket = {.passed = false};
    base_list_push_back(&mutex->tickets, &ticket.link);
    bool locked = true;
    if (way == 1)
        task_mutex_lock_firmly(&mutex->mutex);
    else
        locked = check_wait(worker, "lock", task_mutex_lock(&mutex->mutex, deadline_ns), deadline_ns);
    if (locked && ticket.passed)
        sim_fail(worker->arena->world, "worker %u got a mutex after one who came later", worker->number);
    for (struct base_list *ahead = ticket.link.prev; locked && ahead != &mutex->tickets; ahead = ahead->prev)
        base_container_of(ahead, struct ticket, link)->passed = true;
    base_list_remove(&ticket.link);
    return locked;
}

static void use_mutex(struct worker *worker)
{
    struct mutex *mutex = &worker->arena->mutexes[draw_below(worker, MUTEXES)];
    if (!lock(worker, mutex))
        return;
    if (mutex->inside++ != 0)
        sim_fail(worker->arena->world, "worker %u is not alone with a mutex", worker->number);
    rest(worker);
    mutex->inside--;
    task_mutex_unlock(&mutex->mutex);
}

static void use_semaphore(struct worker *worker)
{
    struct semaphore *semaphore = &worker->arena->semaphores[draw_below(worker, SEMAPHORES)];
    uint64_t deadline_ns = draw_deadline(worker);
    if (draw_below(worker, 4) == 0) {
        if (!task_semaphore_wait_try(&semaphore->semaphore))
            return;
    } else if (!check_wait(worker, "permit", task_semaphore_wait(&semaphore->semaphore, deadline_ns),
                           deadline_ns)) {
        return;
    }
    if (++semaphore->inside > semaphore->permits)
        sim_fail(worker->arena->world, "a semaphore of %u gave %u permits", semaphore->permits,
                 semaphore->inside);
    rest(worker);
    semaphore->inside--;
    task_semaphore_post(&semaphore->semaphore);
}

/* ---- channels -------------------------------------------------------------------------------- */

static struct channel *channel_at(struct arena *arena, size_t index)
{
    return index == CHANNELS ? &arena->pipeline : &arena->channels[index];
}

static void send_item(struct worker *worker, size_t index, uint64_t deadline_ns)
{
    struct arena *arena = worker->arena;
    struct item *item = base_alloc(sim_world_memory(arena->world), sizeof(*item));
    base_assert(item != NULL);
    item->sender = worker->number;
    item->number = worker->depth == 0 ? ++worker->sent[index] : 0;
    item->next = arena->items;
    arena->items = item;
    struct channel *channel = channel_at(arena, index);
    int result = task_channel_send(&channel->channel, item, deadline_ns);
    if (check_wait(worker, "send", result, deadline_ns)) {
        item->sent = true;
        channel->sent++;
    } else {
        item->failed = true;
        if (item->received)
            sim_fail(arena->world, "an item was received whose send had failed");
    }
}

static int receive_item(struct worker *worker, size_t index, uint64_t deadline_ns)
{
    struct channel *channel = channel_at(worker->arena, index);
    void *received;
    int result = task_channel_receive(&channel->channel, deadline_ns, &received);
    if (!check_wait(worker, "receive", result, deadline_ns))
        return result;
    struct item *item = received;
    channel->received++;
    if (item->received || item->failed)
        sim_fail(worker->arena->world, "an item was received %s",
                 item->failed ? "whose send had failed" : "twice");
    uint64_t *seen = &worker->seen[index][item->sender];
    if (item->number > 0 && *seen >= item->number)
        sim_fail(worker->arena->world, "items of one sender came out of order");
    *seen = base_max(*seen, item->number);
    item->received = true;
    return 0;
}

static void use_channel(struct worker *worker)
{
    size_t index = draw_below(worker, CHANNELS);
    uint64_t deadline_ns = task_now() + draw_ns(worker);
    if (draw_below(worker, 2) == 0)
        send_item(worker, index, deadline_ns);
    else
        (void)receive_item(worker, index, deadline_ns);
}

static void produce(void *arg)
{
    struct worker *worker = arg;
    struct arena *arena = worker->arena;
    for (uint64_t i = draw_below(worker, STEPS_MAX); i > 0; i--) {
        send_item(worker, CHANNELS, TASK_FOREVER);
        if (draw_below(worker, 3) == 0)
            rest(worker);
    }
    if (--arena->producers == 0)
        task_channel_close(&arena->pipeline.channel);
    arena->running--;
}

static void consume(void *arg)
{
    struct worker *worker = arg;
    while (receive_item(worker, CHANNELS, TASK_FOREVER) == 0) {
        if (draw_below(worker, 3) == 0)
            rest(worker);
    }
    worker->arena->running--;
}

/* ---- families -------------------------------------------------------------------------------- */

static void take_steps(struct worker *worker, uint64_t steps);

static void grow_up(void *arg)
{
    struct child *child = arg;
    struct family *family = child->family;
    take_steps(&child->worker, draw_below(&child->worker, 5));
    int value;
    if (family->doomed &&
        check_wait(&child->worker, "linger", task_shared_future_wait(&family->never, TASK_FOREVER, &value),
                   TASK_FOREVER))
        sim_fail(family->arena->world, "a future has a value that nobody gave");
    if (child->has_local)
        task_future_set(&child->local, child->value);
    task_shared_future_set(&child->shared, child->value);
    family->alive--;
    family->arena->running--;
}

/* Start a child, on the parent's scheduler or another. @return false: the group was cancelled */
static bool bear(struct worker *parent, struct family *family, struct child *child)
{
    struct arena *arena = parent->arena;
    child->family = family;
    child->worker = (struct worker){
        .arena = arena,
        .random = base_random_fork(&parent->random),
        .number = parent->number,
        .depth = parent->depth + 1,
    };
    child->value = (int)draw_below(parent, 1000);
    child->has_local = !parent->thread && draw_below(parent, 2) == 0;
    task_future_init(&child->local);
    task_shared_future_init(&child->shared);
    struct task_sched *sched = NULL;
    if (!child->has_local)
        sched = sim_node_sched(arena->node, (uint32_t)draw_below(parent, arena->scheds));
    family->alive++;
    arena->running++;
    int error = task_spawn(sched, &family->group, "child", grow_up, child);
    if (error == 0)
        return true;
    family->alive--;
    arena->running--;
    if (error != -ECANCELED)
        sim_fail(arena->world, "a child could not be spawned: %d", error);
    return false;
}

static void wait_for_child(struct worker *parent, struct child *child)
{
    int value = -1;
    uint64_t deadline_ns = draw_deadline(parent);
    int result = child->has_local ? task_future_wait(&child->local, deadline_ns, &value)
                                  : task_shared_future_wait(&child->shared, deadline_ns, &value);
    bool set = check_wait(parent, "future", result, deadline_ns);
    if (set != (value == child->value))
        sim_fail(parent->arena->world, "a future of %d gave %d", child->value, value);
}

static void raise_family(struct worker *worker)
{
    struct arena *arena = worker->arena;
    struct family *family = base_alloc(sim_world_memory(arena->world), sizeof(*family));
    base_assert(family != NULL);
    family->arena = arena;
    family->next = arena->families;
    arena->families = family;
    family->doomed = draw_below(worker, 4) == 0;
    task_group_init(&family->group);
    task_shared_future_init(&family->never);
    uint64_t children = 1 + draw_below(worker, CHILDREN_MAX);
    for (uint64_t i = 0; i < children; i++) {
        base_assert(bear(worker, family, &family->children[i]));
        if (draw_below(worker, 4) == 0)
            rest(worker);
    }
    if (!family->doomed && draw_below(worker, 2) == 0)
        wait_for_child(worker, &family->children[draw_below(worker, children)]);
    if (family->doomed || draw_below(worker, 3) == 0) {
        task_group_cancel(&family->group);
        if (children < CHILDREN_MAX && bear(worker, family, &family->children[children]))
            sim_fail(arena->world, "a cancelled group took a new member");
    }
    uint64_t deadline_ns = draw_deadline(worker);
    if (check_wait(worker, "join", task_group_join(&family->group, deadline_ns), deadline_ns) &&
        family->alive != 0)
        sim_fail(arena->world, "a group was joined with %u members alive", family->alive);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void take_steps(struct worker *worker, uint64_t steps)
{
    while (steps-- > 0 && !task_cancelled()) {
        switch (draw_below(worker, 8)) {
        case 0:
        case 1:
            use_mutex(worker);
            break;
        case 2:
            use_semaphore(worker);
            break;
        case 3:
        case 4:
            use_channel(worker);
            break;
        case 5:
            if (worker->depth < DEPTH_MAX)
                raise_family(worker);
            break;
        default:
            rest(worker);
        }
    }
}

static void run_worker(void *arg)
{
    struct worker *worker = arg;
    take_steps(worker, 1 + draw_below(worker, STEPS_MAX));
    if (worker->crew && draw_below(worker, 2) == 0)
        task_group_cancel(&worker->arena->crew); /* its own too: this is the last step */
    worker->arena->running--;
}

static void start_worker(struct arena *arena, struct worker *worker, const char *name,
                         task_function *function)
{
    struct base_random *random = sim_world_random(arena->world);
    worker->arena = arena;
    worker->random = base_random_fork(random);
    worker->number = arena->workers++;
    worker->thread = base_random_below(random, 4) == 0;
    worker->crew = !worker->thread && function == run_worker && base_random_below(random, 2) == 0;
    arena->running++;
    char numbered[TASK_NAME_MAX];
    (void)snprintf(numbered, sizeof(numbered), "%s %u", name, worker->number);
    uint32_t sched = (uint32_t)base_random_below(random, arena->scheds);
    int error;
    if (worker->thread)
        error = sim_thread(arena->node, numbered, function, worker);
    else if (worker->crew)
        error = task_spawn(sim_node_sched(arena->node, sched), &arena->crew, numbered, function, worker);
    else
        error = sim_spawn(arena->node, sched, numbered, function, worker);
    base_assert(error == 0);
}

static bool nobody_runs(void *arg)
{
    const struct arena *arena = arg;
    return arena->running == 0 && sim_node_running(arena->node) == 0;
}

/* ---- the arena ------------------------------------------------------------------------------- */

static void arena_init(struct arena *arena, struct sim_world *world)
{
    struct base_random *random = sim_world_random(world);
    *arena = (struct arena){.world = world, .scheds = 1 + (uint32_t)base_random_below(random, SCHEDS_MAX)};
    const struct sim_node_options options = {.name = "node", .scheds = arena->scheds};
    base_assert(sim_node_open(world, &options, &arena->node) == 0);
    task_group_init(&arena->crew);
    for (size_t i = 0; i < MUTEXES; i++) {
        task_mutex_init(&arena->mutexes[i].mutex);
        base_list_init(&arena->mutexes[i].tickets);
    }
    for (size_t i = 0; i < SEMAPHORES; i++) {
        arena->semaphores[i].permits = 1 + (uint32_t)base_random_below(random, 3);
        task_semaphore_init(&arena->semaphores[i].semaphore, arena->semaphores[i].permits);
    }
    for (size_t i = 0; i <= CHANNELS; i++) {
        uint32_t capacity = 1 + (uint32_t)base_random_below(random, 4);
        struct base_account *memory = &sim_node_tarn(arena->node)->memory;
        base_assert(task_channel_init(&channel_at(arena, i)->channel, memory, capacity) == 0);
    }
}

static void arena_deinit(struct arena *arena)
{
    struct base_account *memory = sim_world_memory(arena->world);
    while (arena->items != NULL) {
        struct item *item = arena->items;
        arena->items = item->next;
        base_free(memory, item, sizeof(*item));
    }
    while (arena->families != NULL) {
        struct family *family = arena->families;
        arena->families = family->next;
        base_free(memory, family, sizeof(*family));
    }
}

/* When everybody has gone, everything must be free and empty. */
static void inspect(void *arg)
{
    struct worker *worker = arg;
    struct arena *arena = worker->arena;
    for (size_t i = 0; i < MUTEXES; i++) {
        if (!task_mutex_lock_try(&arena->mutexes[i].mutex))
            sim_fail(arena->world, "a mutex was left locked");
    }
    for (size_t i = 0; i < SEMAPHORES; i++) {
        struct semaphore *semaphore = &arena->semaphores[i];
        uint32_t permits = 0;
        while (task_semaphore_wait_try(&semaphore->semaphore))
            permits++;
        if (permits != semaphore->permits)
            sim_fail(arena->world, "a semaphore of %u was left with %u permits", semaphore->permits, permits);
    }
    for (size_t i = 0; i <= CHANNELS; i++) {
        struct channel *channel = channel_at(arena, i);
        task_channel_close(&channel->channel);
        while (receive_item(worker, i, TASK_FOREVER) == 0) {
        }
        if (channel->sent != channel->received)
            sim_fail(arena->world, "%" PRIu64 " items were sent, %" PRIu64 " received", channel->sent,
                     channel->received);
    }
    for (struct family *family = arena->families; family != NULL; family = family->next) {
        if (task_group_join(&family->group, 0) != 0 || family->alive != 0)
            sim_fail(arena->world, "a group was left with %u members", family->alive);
    }
    for (size_t i = 0; i <= CHANNELS; i++)
        task_channel_deinit(&channel_at(arena, i)->channel);
}

/* @return 0, or something failed, which the world knows */
static int play(struct arena *arena)
{
    int error = sim_world_run(arena->world, TASK_FOREVER, nobody_runs, arena);
    if (error != 0)
        return error;
    struct worker inspector = {.arena = arena, .number = arena->workers};
    error = sim_spawn(arena->node, 0, "inspector", inspect, &inspector);
    if (error == 0)
        error = sim_world_run(arena->world, TASK_FOREVER, NULL, NULL);
    return error == 0 ? sim_node_close(arena->node) : error;
}

static void run_task(struct sim_world *world, const char *mutation)
{
    (void)mutation;
    struct arena arena;
    struct worker workers[2 * WORKERS_MAX];
    struct base_random *random = sim_world_random(world);
    memset(workers, 0, sizeof(workers));
    arena_init(&arena, world);
    uint64_t count = 1 + base_random_below(random, WORKERS_MAX);
    for (uint64_t i = 0; i < count; i++)
        start_worker(&arena, &workers[arena.workers], "worker", run_worker);
    arena.producers = 1 + (uint32_t)base_random_below(random, 3);
    for (uint32_t i = arena.producers; i > 0; i--)
        start_worker(&arena, &workers[arena.workers], "producer", produce);
    count = 1 + base_random_below(random, 2);
    for (uint64_t i = 0; i < count; i++)
        start_worker(&arena, &workers[arena.workers], "consumer", consume);
    int error = play(&arena);
    if (error != 0)
        sim_fail(world, "the arena could not be played: %d", error); /* unless it is known why */
    arena_deinit(&arena);
}

const struct sim_campaign sim_campaign_task = {
    .name = "task",
    .help = "tasks and threads lock, wait, send, spawn, cancel and sleep at random",
    .mutations = (const char *const[]){NULL},
    .run = run_task,
};
