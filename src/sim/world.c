/* The world: virtual time, events, the order in which schedulers run, the trace. */
#include "base/base.h"
#include "sim/sim_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

enum {
    STEP_NS_MAX = 1000,
    STEPS_MAX = 10000000,
    DRIFT_PPM_MAX = 100000,
    PAUSE_NS_BITS_MAX = 20, /* how long a scheduler may lose its processor: about a millisecond */
};

/* One in this many rounds ends with such a pause; drawn for each world, so that some have many. */
static const uint32_t pause_one_in[] = {4, 32, 256, 1u << 20};

#define WALL_BEGIN_NS 1767225600000000000u /* 2026-01-01 */

static void free_world(struct sim_world *world)
{
    base_account_deinit(&world->memory);
    struct base_account own;
    base_account_init(&own, BASE_ACCOUNT_UNLIMITED);
    base_assert(base_account_take(&own, sizeof(*world)) == 0);
    base_free(&own, world, sizeof(*world));
}

int sim_world_open(const struct sim_world_options *options, struct sim_world **ret_world)
{
    struct base_account own;
    base_account_init(&own, BASE_ACCOUNT_UNLIMITED);
    struct sim_world *world = base_alloc(&own, sizeof(*world));
    if (world == NULL)
        return -ENOMEM;
    base_account_init(&world->memory, BASE_ACCOUNT_UNLIMITED);
    base_random_init(&world->random, options->seed);
    world->order = base_random_fork(&world->random);
    world->drives_random = base_random_fork(&world->random);
    world->pause_one_in = pause_one_in[base_random_below(&world->order, base_array_count(pause_one_in))];
    world->now_ns = 1000000000 + base_random_below(&world->order, 1000000000);
    world->wall_begin_ns = WALL_BEGIN_NS;
    world->step_ns_max = options->step_ns_max == 0 ? STEP_NS_MAX : options->step_ns_max;
    world->timed = options->timed;
    world->steps_left = options->steps_max == 0 ? STEPS_MAX : options->steps_max;
    world->trace = options->trace;
    base_heap_init(&world->events);
    base_list_init(&world->nodes);
    base_list_init(&world->drives);
    int error = sim_net_open(world, options->seed);
    if (error != 0) {
        free_world(world);
        return error;
    }
    sim_note(world, "seed", options->seed, 0);
    *ret_world = world;
    return 0;
}

void sim_world_close(struct sim_world *world)
{
    struct base_list *first;
    while ((first = base_list_first(&world->nodes)) != NULL)
        sim_node_cut(base_container_of(first, struct sim_node, link));
    sim_drives_close(world);
    sim_net_close(world);
    sim_ensemble_close(world);
    free_world(world);
}

/* ---- clocks and generators ------------------------------------------------------------------- */

uint64_t sim_world_now(const struct sim_world *world)
{
    return world->now_ns;
}

uint64_t sim_world_wall(const struct sim_world *world)
{
    return world->wall_begin_ns + world->now_ns;
}

void sim_world_wall_jump(struct sim_world *world, int64_t by_ns)
{
    world->wall_begin_ns += (uint64_t)by_ns;
    sim_note(world, "wall jump", (uint64_t)by_ns, 0);
}

void sim_world_set_drift(struct sim_world *world, uint32_t ppm_max)
{
    base_assert(ppm_max <= DRIFT_PPM_MAX);
    world->drift_ppm_max = ppm_max;
}

struct base_random *sim_world_random(struct sim_world *world)
{
    return &world->random;
}

struct base_account *sim_world_memory(struct sim_world *world)
{
    return &world->memory;
}

/* ---- trace and failure ----------------------------------------------------------------------- */

uint64_t sim_world_hash(const struct sim_world *world)
{
    return world->hash;
}

FILE *sim_world_trace(const struct sim_world *world)
{
    return world->trace;
}

static void hash_in(struct sim_world *world, const void *data, size_t len)
{
    world->hash = base_hash64(data, len, world->hash);
}

void sim_note(struct sim_world *world, const char *what, uint64_t a, uint64_t b)
{
    const uint64_t words[] = {world->now_ns, a, b};
    hash_in(world, what, strlen(what));
    hash_in(world, words, sizeof(words));
    if (world->trace != NULL)
        (void)fprintf(world->trace, "%" PRIu64 " %s %" PRIu64 " %" PRIu64 "\n", world->now_ns, what, a, b);
}

void sim_note_text(struct sim_world *world, const char *what, const char *text, size_t len)
{
    sim_note(world, what, len, 0);
    hash_in(world, text, len);
    while (len > 0 && text[len - 1] == '\n')
        len--;
    if (world->trace != NULL)
        (void)fprintf(world->trace, "    %.*s\n", (int)len, text);
}

void sim_fail(struct sim_world *world, const char *format, ...)
{
    if (world->failure[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(world->failure, sizeof(world->failure), format, args);
    va_end(args);
    sim_note_text(world, "failed", world->failure, strlen(world->failure));
}

const char *sim_world_failure(const struct sim_world *world)
{
    return world->failure[0] == '\0' ? NULL : world->failure;
}

/* ---- events ---------------------------------------------------------------------------------- */

void sim_event_at(struct sim_world *world, struct sim_event *event, uint64_t when_ns)
{
    base_heap_insert(&world->events, &event->node, when_ns);
}

void sim_event_cancel(struct sim_world *world, struct sim_event *event)
{
    if (base_heap_is_linked(&event->node))
        base_heap_remove(&world->events, &event->node);
}

static void run_event(struct sim_world *world)
{
    struct sim_event *event = base_container_of(base_heap_pop(&world->events), struct sim_event, node);
    sim_note(world, event->name, 0, 0);
    event->run(event);
}

/* ---- the scheduler of schedulers ------------------------------------------------------------- */

/* The moment from which a scheduler has something to do; TASK_FOREVER: only when somebody else acts. */
static uint64_t ready_ns(const struct sim_node *node, struct sim_sched *sched)
{
    uint64_t ready = sched->paused_until_ns;
    if (!sched->is_preempted && !task_sched_runnable(sched->sched)) {
        const uint64_t timer_ns = task_sched_next_timer(sched->sched);
        if (timer_ns != sched->timer_ns) {
            sched->timer_ns = timer_ns;
            sched->timer_moment_ns = sim_node_moment(node, timer_ns);
        }
        ready = base_max(ready, sched->timer_moment_ns);
    }
    return sched->share.cores == 0 ? ready : sim_sched_turn(sched, base_max(ready, node->world->now_ns));
}

void sim_preempt(struct sim_node *node, struct base_random *random, uint32_t bits_max)
{
    struct task_sched *self = task_sched_self();
    base_list_for_each(item, &node->scheds) {
        struct sim_sched *sched = base_container_of(item, struct sim_sched, link);
        if (sched->sched != self)
            continue;
        const uint64_t while_ns = UINT64_C(1) << base_random_below(random, bits_max + 1);
        sched->is_preempted = true;
        sched->paused_until_ns = node->world->now_ns + while_ns;
        task_sched_preempt(self);
        return;
    }
}

static void step_sched(struct sim_world *world, const struct sim_node *node, struct sim_sched *sched)
{
    sim_note(world, node->name, sched->number, sched->is_preempted);
    sched->is_preempted = false;
    sched->paused_until_ns = 0;
    bool worked = task_sched_step(sched->sched);
    if (worked)
        sim_net_check(node);
    uint64_t took_ns = world->timed ? 0 : base_random_below(&world->order, world->step_ns_max + 1);
    sim_note(world, "took", took_ns, worked);
    world->now_ns += took_ns;
    if (world->charged_ns > 0) {
        sim_note(world, "charged", world->charged_ns, 0);
        sched->paused_until_ns = sim_sched_after(sched, world->now_ns, world->charged_ns);
        world->charged_ns = 0;
    }
    if (!world->timed && base_random_below(&world->order, world->pause_one_in) == 0) {
        uint64_t bits = base_random_below(&world->order, PAUSE_NS_BITS_MAX + 1);
        sched->paused_until_ns = base_max(world->now_ns, sched->paused_until_ns) + (UINT64_C(1) << bits);
    }
}

/* The n-th scheduler that can run now. */
static void step_nth(struct sim_world *world, uint64_t n)
{
    base_list_for_each(node_link, &world->nodes) {
        struct sim_node *node = base_container_of(node_link, struct sim_node, link);
        base_list_for_each(item, &node->scheds) {
            struct sim_sched *sched = base_container_of(item, struct sim_sched, link);
            if (ready_ns(node, sched) <= world->now_ns && n-- == 0) {
                step_sched(world, node, sched);
                return;
            }
        }
    }
}

/* Do one of the things that can be done now, drawn. @param ret_next_ns  else: the moment when there is something to do again
 * @return false: there is nothing now */
static bool step(struct sim_world *world, uint64_t *ret_next_ns)
{
    const struct base_heap_node *event = base_heap_min(&world->events);
    struct sim_node *first_node = NULL;
    struct sim_sched *first = NULL;
    uint64_t ready_count = 0, next_ns = event == NULL ? TASK_FOREVER : event->key;
    const bool is_event_due = next_ns <= world->now_ns;
    base_list_for_each(node_link, &world->nodes) {
        struct sim_node *node = base_container_of(node_link, struct sim_node, link);
        base_list_for_each(item, &node->scheds) {
            struct sim_sched *sched = base_container_of(item, struct sim_sched, link);
            const uint64_t ready = ready_ns(node, sched);
            next_ns = base_min(next_ns, ready);
            if (ready > world->now_ns)
                continue;
            first_node = ready_count == 0 ? node : first_node;
            first = ready_count++ == 0 ? sched : first;
        }
    }
    const uint64_t choices = ready_count + (is_event_due ? 1 : 0);
    *ret_next_ns = next_ns;
    if (choices == 0)
        return false;
    const uint64_t choice = choices == 1 ? 0 : base_random_below(&world->order, choices);
    if (choice == ready_count)
        run_event(world);
    else if (choice == 0)
        step_sched(world, first_node, first);
    else
        step_nth(world, choice);
    return true;
}

static bool all_ended(struct sim_world *world)
{
    base_list_for_each(item, &world->nodes) {
        if (base_container_of(item, struct sim_node, link)->running > 0)
            return false;
    }
    return true;
}

/* Say who has not ended, and where else there are tasks. */
static void fail_unfinished(struct sim_world *world, const char *why)
{
    char text[SIM_FAILURE_BYTES];
    int used = snprintf(text, sizeof(text), "%s:", why);
    base_list_for_each(node_link, &world->nodes) {
        const struct sim_node *node = base_container_of(node_link, struct sim_node, link);
        base_list_for_each(item, &node->tasks) {
            const struct sim_task *task = base_container_of(item, struct sim_task, link);
            if (used < (int)sizeof(text))
                used += snprintf(text + used, sizeof(text) - (size_t)used, " %s/%s", node->name, task->name);
        }
        uint64_t tasks = 0;
        base_list_for_each(item, &node->scheds) {
            struct task_sched_stats stats;
            task_sched_stats(base_container_of(item, struct sim_sched, link)->sched, &stats);
            tasks += stats.tasks;
        }
        if (used < (int)sizeof(text))
            used += snprintf(text + used, sizeof(text) - (size_t)used, " (%s has %" PRIu64 " tasks)",
                             node->name, tasks);
    }
    sim_fail(world, "%s", text);
}

int sim_world_run(struct sim_world *world, uint64_t until_ns, sim_condition *done, void *arg)
{
    for (;;) {
        if (sim_world_failure(world) != NULL)
            return -ECANCELED;
        if (done == NULL ? all_ended(world) : done(arg))
            return 0;
        if (world->now_ns >= until_ns)
            return -ETIMEDOUT;
        if (world->steps_left-- == 0) {
            fail_unfinished(world, "no end in sight");
            return -ECANCELED;
        }
        uint64_t next;
        if (step(world, &next))
            continue;
        next = base_min(next, until_ns);
        if (next == TASK_FOREVER) {
            fail_unfinished(world, "deadlock: nothing can happen any more");
            return -EDEADLK;
        }
        world->now_ns = next;
    }
}
