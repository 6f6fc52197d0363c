/* The arena of a campaign: drawing which nodes are killed, paused and cut off, and when, and carrying it out. */
#include "sim/arena.h"
#include "base/base.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define PASS_NS_MAX UINT64_C(4000000) /* between two events */
#define TURNS_MIN   2
#define TURNS_MORE  12

/* ---- what happens ------------------------------------------------------------------------------- */

static uint64_t draw_below(struct sim_arena *arena, uint64_t n)
{
    return base_random_below(arena->random, n);
}

void sim_arena_turn_links(struct sim_arena *arena, uint32_t a, uint32_t b, bool cut)
{
    struct sim_node *from = arena->current[a], *to = arena->current[b];
    if (from == NULL || to == NULL || a == b)
        return;
    if (cut)
        sim_net_cut(from, to);
    else
        sim_net_heal(from, to);
}

static void heal_all(struct sim_arena *arena)
{
    for (uint32_t a = 0; a < arena->nodes; a++) {
        for (uint32_t b = 0; b < arena->nodes; b++)
            sim_arena_turn_links(arena, a, b, false);
    }
}

int sim_arena_pass_until(struct sim_arena *arena, uint64_t until_ns)
{
    int error = sim_world_run(arena->world, until_ns, NULL, NULL);
    return error == -ETIMEDOUT ? 0 : error;
}

/* Let time pass. @return 0, or the run has failed */
static int pass(struct sim_arena *arena, uint64_t most_ns)
{
    return sim_arena_pass_until(arena, sim_world_now(arena->world) + draw_below(arena, most_ns + 1));
}

static void kill_or_begin(struct sim_arena *arena, uint32_t number)
{
    if (arena->current[number] == NULL) {
        arena->begin(arena, number);
        return;
    }
    arena->end(arena, number);
    sim_node_kill(arena->current[number]);
    arena->current[number] = NULL;
}

static int cut_for_a_while(struct sim_arena *arena, uint32_t a, uint32_t b, uint64_t while_ns, bool flaps)
{
    const bool both = draw_below(arena, 2) == 0;
    sim_arena_turn_links(arena, a, b, true);
    if (both)
        sim_arena_turn_links(arena, b, a, true);
    int error = pass(arena, flaps ? while_ns % SIM_NET_HEARTBEAT_NS : while_ns);
    if (error == 0 && (flaps || draw_below(arena, 4) > 0))
        heal_all(arena);
    return error;
}

/* One of the things that may happen, for a while. */
static int happen(struct sim_arena *arena)
{
    const uint32_t what = 1u << draw_below(arena, 4);
    const uint32_t a = (uint32_t)draw_below(arena, arena->nodes),
                   b = (uint32_t)draw_below(arena, arena->nodes);
    const uint64_t while_ns = draw_below(arena, 5 * SIM_NET_HEARTBEAT_NS);
    if ((what & arena->events) == 0)
        return 0;
    if (what == SIM_ARENA_KILLS) {
        kill_or_begin(arena, a);
        return 0;
    }
    if (what == SIM_ARENA_PAUSES) {
        if (arena->current[a] != NULL)
            sim_node_pause(arena->current[a], sim_world_now(arena->world) + while_ns);
        return 0;
    }
    return cut_for_a_while(arena, a, b, while_ns, what == SIM_ARENA_FLAPS);
}

/* ---- a run -------------------------------------------------------------------------------------- */

void sim_arena_draw(struct sim_arena *arena)
{
    /* half of the runs have none, one alone, or all */
    static const uint32_t few[] = {0,
                                   SIM_ARENA_KILLS,
                                   SIM_ARENA_PAUSES,
                                   SIM_ARENA_CUTS,
                                   SIM_ARENA_FLAPS,
                                   SIM_ARENA_IMPATIENCE,
                                   SIM_ARENA_ALL_EVENTS};
    static const uint32_t preempted_one_in[] = {0, 16, 256};
    const uint64_t drawn = draw_below(arena, 2 * base_array_count(few));
    uint32_t troubles = SIM_NET_ALL_TROUBLES;
    arena->events =
        drawn < base_array_count(few) ? few[drawn] : (uint32_t)draw_below(arena, SIM_ARENA_ALL_EVENTS + 1);
    switch (draw_below(arena, 4)) {
    case 0:
        troubles = 1u << draw_below(arena, SIM_NET_TROUBLES);
        break;
    case 1:
        troubles = (uint32_t)draw_below(arena, SIM_NET_ALL_TROUBLES + 1);
        break;
    case 2:
        troubles &= ~(uint32_t)SIM_NET_TORN_WORD;
        break;
    default:
        break;
    }
    struct sim_net_options *net = sim_net_options(arena->world);
    net->troubles = troubles;
    net->fence_cuts = draw_below(arena, 2) == 0;
    net->refuses_whole = draw_below(arena, 4) == 0;
    net->preempted_one_in = preempted_one_in[draw_below(arena, base_array_count(preempted_one_in))];
    net->served_by = (enum tarn_fabric_served_by)draw_below(arena, 3);
    for (uint32_t i = 0; i < arena->nodes; i++)
        (void)snprintf(arena->names[i], sizeof(arena->names[i]), "node %" PRIu32, i);
}

static int play(struct sim_arena *arena)
{
    for (uint32_t i = 0; i < arena->nodes; i++)
        arena->begin(arena, i);
    const uint64_t turns =
        TURNS_MIN + draw_below(arena, arena->turns_more == 0 ? TURNS_MORE : arena->turns_more);
    for (uint64_t i = 0; i < turns; i++) {
        int error = pass(arena, PASS_NS_MAX);
        if (error == 0)
            error = happen(arena);
        if (error == 0 && arena->happen != NULL)
            error = arena->happen(arena);
        if (error != 0)
            return error;
    }
    heal_all(arena);
    if (arena->restore != NULL)
        arena->restore(arena);
    arena->stop = true;
    int error = sim_world_run(arena->world, TASK_FOREVER, NULL, NULL);
    for (uint32_t i = 0; i < arena->nodes && error == 0; i++) {
        if (arena->current[i] != NULL)
            error = sim_node_close(arena->current[i]);
    }
    return error;
}

void sim_arena_play(struct sim_arena *arena)
{
    struct sim_net_stats stats;
    int error = play(arena);
    if (error != 0) {
        sim_fail(arena->world, "the arena could not be played: %d", error); /* unless it is known why */
        return;
    }
    sim_net_stats(arena->world, &stats);
    if (stats.domains + stats.regions + stats.connections + stats.operations != 0)
        sim_fail(arena->world,
                 "%" PRIu64 " domains, %" PRIu64 " regions, %" PRIu64 " connections and %" PRIu64
                 " operations were left behind",
                 stats.domains, stats.regions, stats.connections, stats.operations);
}
