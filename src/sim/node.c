/* Nodes: the system under test on clocks, an engine and drives of the world, and how it ends. */
#include "base/base.h"
#include "sim/sim_internal.h"
#include <errno.h>

enum {
    BUFFERS_COUNT = 16, /* for each scheduler; all are touched when it opens */
};

/* ---- the engine ------------------------------------------------------------------------------ */

/* Sockets are not simulated: every request fails. Drives do not come this way. */
struct task_engine {
    struct sim_node *node;
    struct base_list posted; /* of struct task_io */
};

static int engine_open(struct task_sched *sched, void *arg, struct task_engine **ret_engine)
{
    (void)sched;
    struct sim_node *node = arg;
    struct task_engine *engine = base_alloc(&node->world->memory, sizeof(*engine));
    if (engine == NULL)
        return -ENOMEM;
    engine->node = node;
    base_list_init(&engine->posted);
    *ret_engine = engine;
    return 0;
}

static int engine_begin(struct task_engine *engine)
{
    (void)engine;
    return 0;
}

static void engine_close(struct task_engine *engine)
{
    base_free(&engine->node->world->memory, engine, sizeof(*engine));
}

static void engine_post(struct task_engine *engine, struct task_io *io)
{
    base_list_push_back(&engine->posted, &io->link);
}

static void engine_cancel(struct task_engine *engine, struct task_io *io)
{
    (void)engine;
    (void)io; /* it ends in this round anyway */
}

static uint32_t engine_poll(struct task_engine *engine, uint64_t sleep_ns)
{
    (void)sleep_ns; /* the world lets time pass, nobody sleeps */
    struct base_list posted;
    base_list_init(&posted);
    base_list_move_all(&posted, &engine->posted);
    uint32_t count = 0;
    struct base_list *first;
    while ((first = base_list_pop_front(&posted)) != NULL) {
        struct task_io *io = base_container_of(first, struct task_io, link);
        io->result = -EOPNOTSUPP;
        io->more = false;
        io->done(io);
        count++;
    }
    return count;
}

static void engine_wake(struct task_engine *engine)
{
    (void)engine;
}

static void engine_drop_file(struct task_engine *engine, uint32_t number)
{
    (void)engine;
    (void)number;
}

const struct task_engine_ops sim_engine = {
    .name = "sim",
    .open = engine_open,
    .begin = engine_begin,
    .close = engine_close,
    .post = engine_post,
    .cancel = engine_cancel,
    .poll = engine_poll,
    .wake = engine_wake,
    .drop_file = engine_drop_file,
};

/* ---- opening --------------------------------------------------------------------------------- */

#define RATE UINT64_C(1000000) /* of a clock that does not drift */

/* times * numerator / denominator, which are small, without a product that overflows; rounded up if `rest` is denominator - 1 */
static uint64_t scale(uint64_t times, uint64_t numerator, uint64_t denominator, uint64_t rest)
{
    return times / denominator * numerator + (times % denominator * numerator + rest) / denominator;
}

uint64_t sim_node_clock(const struct sim_node *node, uint64_t world_ns)
{
    return node->opened_ns + scale(world_ns - node->opened_ns, node->rate, RATE, 0);
}

uint64_t sim_node_moment(const struct sim_node *node, uint64_t clock_ns)
{
    if (clock_ns <= node->opened_ns || clock_ns > TASK_FOREVER / 2)
        return clock_ns;
    return node->opened_ns + scale(clock_ns - node->opened_ns, RATE, node->rate, node->rate - 1);
}

/* Of a task that was charged: later than the world's, which goes on when its round is over. */
static uint64_t clock_monotonic(void *arg)
{
    const struct sim_node *node = arg;
    return sim_node_clock(node, node->world->now_ns + node->world->charged_ns);
}

static void clock_charge(void *arg, uint64_t ns)
{
    const struct sim_node *node = arg;
    node->world->charged_ns += ns;
}

static uint64_t clock_wall(void *arg)
{
    const struct sim_node *node = arg;
    return sim_world_wall(node->world);
}

static void draw_rate(struct sim_node *node)
{
    struct sim_world *world = node->world;
    const uint64_t most = world->drift_ppm_max;
    node->opened_ns = world->now_ns;
    node->rate = RATE;
    if (most == 0)
        return;
    node->rate = RATE - most + base_random_below(&world->order, 2 * most + 1);
    sim_note(world, "rate", node->rate, 0);
}

static void log_line(void *arg, enum base_log_level level, const char *line, size_t len)
{
    (void)level;
    struct sim_node *node = arg;
    sim_note_text(node->world, "log", line, len);
}

static int open_tarn(struct sim_node *node, uint64_t memory_bytes)
{
    struct sim_world *world = node->world;
    node->clock = (struct task_clock){
        .monotonic = clock_monotonic, .wall = clock_wall, .charge = clock_charge, .arg = node};
    draw_rate(node);
    const struct task_node_options options = {
        .clock = &node->clock,
        .engine = &sim_engine,
        .engine_arg = node,
        .drives = &sim_drive_provider,
        .drives_arg = node,
        .fabric = &sim_net_provider,
        .fabric_arg = node,
        .cluster = world->ensemble == NULL ? NULL : &sim_ensemble_provider,
        .cluster_arg = node,
        .memory_bytes = memory_bytes,
        .seed = base_random_u64(&world->order) | 1,
        .log_level = BASE_LOG_DEBUG,
        .log_sink = log_line,
        .log_arg = node,
    };
    int error = task_node_open(&options, &node->tarn);
    if (error == 0)
        node->tarn->boot = world->boot + 1;
    return error;
}

static int add_sched(struct sim_node *node, const char *name, uint32_t stack_bytes, bool thread,
                     struct sim_sched **ret_sched)
{
    struct sim_sched *sched = base_alloc(&node->world->memory, sizeof(*sched));
    if (sched == NULL)
        return -ENOMEM;
    const struct task_sched_options options = {
        .name = name,
        .stack_bytes = stack_bytes,
        .buffers_count = BUFFERS_COUNT,
        .thread_personality = thread,
    };
    int error = task_sched_open(node->tarn, &options, &sched->sched);
    if (error != 0) {
        base_free(&node->world->memory, sched, sizeof(*sched));
        return error;
    }
    sched->number = node->sched_count++;
    base_list_push_back(&node->scheds, &sched->link);
    *ret_sched = sched;
    return 0;
}

int sim_node_open(struct sim_world *world, const struct sim_node_options *options, struct sim_node **ret_node)
{
    base_assert(options->scheds > 0);
    struct sim_node *node = base_alloc(&world->memory, sizeof(*node));
    if (node == NULL)
        return -ENOMEM;
    node->world = world;
    node->name = options->name;
    node->card = options->card;
    node->thread_stack_bytes = options->stack_bytes;
    base_list_init(&node->scheds);
    base_list_init(&node->tasks);
    int error = open_tarn(node, options->memory_bytes);
    if (error != 0) {
        base_free(&world->memory, node, sizeof(*node));
        return error;
    }
    base_list_push_back(&world->nodes, &node->link);
    struct sim_sched *sched;
    for (uint32_t i = 0; i < options->scheds; i++) {
        error = add_sched(node, NULL, options->stack_bytes, false, &sched);
        if (error != 0) {
            sim_node_kill(node);
            return error;
        }
    }
    *ret_node = node;
    return 0;
}

struct tarn_node *sim_node_tarn(const struct sim_node *node)
{
    return node->tarn;
}

struct task_sched *sim_node_sched(const struct sim_node *node, uint32_t index)
{
    base_assert(index < node->sched_count);
    struct base_list *item = node->scheds.next;
    while (index-- > 0)
        item = item->next;
    return base_container_of(item, struct sim_sched, link)->sched;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void forget_task(struct sim_task *task)
{
    struct sim_node *node = task->node;
    base_list_remove(&task->link);
    node->running--;
    base_free(&node->world->memory, task, sizeof(*task));
}

static void run_task(void *arg)
{
    struct sim_task *task = arg;
    task->function(task->arg);
    sim_note_text(task->node->world, "ended", task->name, strlen(task->name));
    forget_task(task);
}

static int spawn(struct sim_node *node, struct task_sched *sched, const char *name, task_function *function,
                 void *arg)
{
    struct sim_task *task = base_alloc(&node->world->memory, sizeof(*task));
    if (task == NULL)
        return -ENOMEM;
    task->node = node;
    task->function = function;
    task->arg = arg;
    (void)snprintf(task->name, sizeof(task->name), "%s", name);
    base_list_push_back(&node->tasks, &task->link);
    node->running++;
    int error = task_spawn(sched, NULL, name, run_task, task);
    if (error != 0)
        forget_task(task);
    return error;
}

int sim_spawn(struct sim_node *node, uint32_t sched, const char *name, task_function *function, void *arg)
{
    return spawn(node, sim_node_sched(node, sched), name, function, arg);
}

int sim_thread(struct sim_node *node, const char *name, task_function *function, void *arg)
{
    struct sim_sched *sched;
    int error = add_sched(node, name, node->thread_stack_bytes, true, &sched);
    /* If the task cannot be had, a scheduler without tasks stays, until the node ends. */
    return error != 0 ? error : spawn(node, sched->sched, name, function, arg);
}

uint32_t sim_node_running(const struct sim_node *node)
{
    return node->running;
}

void sim_node_pause(struct sim_node *node, uint64_t until_ns)
{
    sim_note(node->world, "paused", until_ns, 0);
    base_list_for_each(item, &node->scheds)
        base_container_of(item, struct sim_sched, link)->paused_until_ns = until_ns;
}

/* ---- cores ----------------------------------------------------------------------------------- */

void sim_node_share(struct sim_node *node, const struct sim_share *share)
{
    base_assert(node->world->timed && share->cores > 0 && share->turn_ns > 0);
    base_list_for_each(item, &node->scheds) {
        struct sim_sched *sched = base_container_of(item, struct sim_sched, link);
        if (sched->number - share->first < share->count)
            sched->share = *share;
    }
}

/* Whether it has its core all the time. */
static bool has_core(const struct sim_sched *sched, uint64_t at_ns)
{
    const struct sim_share *share = &sched->share;
    return share->count + share->others <= share->cores || at_ns < share->from_ns;
}

/* Threads have the cores round robin: in each turn the next ones, as many as there are cores. */
uint64_t sim_sched_turn(const struct sim_sched *sched, uint64_t from_ns)
{
    const struct sim_share *share = &sched->share;
    const uint64_t threads = share->count + share->others;
    if (has_core(sched, from_ns) || from_ns > TASK_FOREVER / 2)
        return from_ns;
    const uint64_t turn = (from_ns - share->from_ns) / share->turn_ns;
    const uint64_t place =
        (sched->number - share->first) * threads / share->count; /* evenly among the others */
    uint64_t later = 0;
    while ((place + threads - (turn + later) * share->cores % threads) % threads >= share->cores)
        later++;
    return later == 0 ? from_ns : share->from_ns + (turn + later) * share->turn_ns;
}

uint64_t sim_sched_after(const struct sim_sched *sched, uint64_t from_ns, uint64_t for_ns)
{
    const struct sim_share *share = &sched->share;
    while (!has_core(sched, from_ns)) {
        from_ns = sim_sched_turn(sched, from_ns);
        const uint64_t left_ns = share->turn_ns - (from_ns - share->from_ns) % share->turn_ns;
        if (for_ns <= left_ns)
            break;
        for_ns -= left_ns;
        from_ns += left_ns;
    }
    return from_ns + for_ns;
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void forget_node(struct sim_node *node)
{
    struct base_list *first;
    while ((first = base_list_first(&node->tasks)) != NULL)
        forget_task(base_container_of(first, struct sim_task, link));
    base_list_remove(&node->link);
    base_free(&node->world->memory, node, sizeof(*node));
}

/* Drop the node as it stands. Its memory may be reachable from nowhere now, which is the point. */
static void leave(struct sim_node *node, bool power_cut)
{
    sim_note(node->world, power_cut ? "power cut" : "killed", node->running, 0);
    sim_drives_leave(node, power_cut);
    sim_net_leave(node);
    struct base_list *first;
    while ((first = base_list_pop_front(&node->scheds)) != NULL) {
        struct sim_sched *sched = base_container_of(first, struct sim_sched, link);
        task_sched_abandon(sched->sched);
        base_free(&node->world->memory, sched, sizeof(*sched));
    }
    forget_node(node);
}

void sim_node_cut(struct sim_node *node)
{
    leave(node, true);
}

void sim_node_kill(struct sim_node *node)
{
    leave(node, false);
}

static bool node_is_idle(void *arg)
{
    const struct sim_node *node = arg;
    base_list_for_each(item, &node->scheds) {
        const struct task_sched *sched = base_container_of(item, struct sim_sched, link)->sched;
        struct task_sched_stats stats;
        task_sched_stats(sched, &stats);
        if (stats.tasks > 0 || task_sched_runnable(sched))
            return false;
    }
    return true;
}

int sim_node_close(struct sim_node *node)
{
    base_list_for_each(item, &node->scheds)
        task_sched_stop(base_container_of(item, struct sim_sched, link)->sched);
    int error = sim_world_run(node->world, TASK_FOREVER, node_is_idle, node);
    if (error != 0) {
        sim_node_kill(node);
        return error;
    }
    struct base_list *first;
    while ((first = base_list_pop_front(&node->scheds)) != NULL) {
        struct sim_sched *sched = base_container_of(first, struct sim_sched, link);
        task_sched_close(sched->sched);
        base_free(&node->world->memory, sched, sizeof(*sched));
    }
    sim_net_leave(node);
    sim_note(node->world, "closed", base_account_used(&sim_node_tarn(node)->memory), 0);
    task_node_close(node->tarn);
    forget_node(node);
    return 0;
}
