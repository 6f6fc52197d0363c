/* In the simulator, whose network does all that the contract allows: a world for each seed. */
#include "litmus.h"
#include "sim/net/net.h"
#include "sim/sim.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    RELAX_NS = 200,
    LOOK_NS = 1000,
};

/* The stage, and where it is in the world. */
struct theatre {
    struct litmus_stage stage; /* first */
    struct sim_node *nodes[2];
    uint64_t met; /* how many have come to a meeting, of all meetings so far */
    bool listening;
};

struct task {
    struct theatre *theatre;
    enum litmus_actor actor;
};

static void meet(struct litmus_stage *stage)
{
    struct theatre *theatre = base_container_of(stage, struct theatre, stage);
    uint64_t all = theatre->met / LITMUS_ACTORS * LITMUS_ACTORS + LITMUS_ACTORS;
    theatre->met++;
    while (theatre->met < all)
        (void)task_sleep(LOOK_NS);
}

static void relax(struct litmus_stage *stage, struct base_random *random)
{
    (void)stage;
    (void)task_sleep(base_random_below(random, RELAX_NS + 1));
}

static const struct litmus_place place = {.meet = meet, .relax = relax};

static void run_task(void *arg)
{
    struct task *task = arg;
    struct theatre *theatre = task->theatre;
    struct litmus_stage *stage = &theatre->stage;
    const bool is_side = task->actor != LITMUS_SECOND;
    if (task->actor == LITMUS_OWNER) {
        litmus_open(stage, task->actor, sim_node_tarn(theatre->nodes[0]), "sim:");
        theatre->listening = true;
    }
    while (!theatre->listening)
        (void)task_sleep(LOOK_NS);
    if (task->actor == LITMUS_PEER)
        litmus_open(stage, task->actor, sim_node_tarn(theatre->nodes[1]), "sim:");
    if (is_side)
        litmus_connect(stage, task->actor);
    meet(stage);
    litmus_act(stage, task->actor);
    if (is_side)
        litmus_disconnect(stage, task->actor);
    meet(stage);
    if (is_side)
        litmus_close(stage, task->actor);
}

static void run_world(struct theatre *theatre, uint64_t seed, uint32_t troubles)
{
    static const char *const names[LITMUS_ACTORS] = {"owner", "peer", "second"};
    const struct sim_world_options options = {.seed = seed, .steps_max = UINT64_C(1) << 40};
    struct task tasks[LITMUS_ACTORS];
    struct sim_world *world;
    base_assert(sim_world_open(&options, &world) == 0);
    sim_net_options(world)->troubles = troubles;
    for (unsigned i = 0; i < 2; i++) {
        const struct sim_node_options node_options = {.name = names[i], .scheds = 1};
        base_assert(sim_node_open(world, &node_options, &theatre->nodes[i]) == 0);
    }
    for (unsigned i = 0; i < LITMUS_ACTORS; i++) {
        tasks[i] = (struct task){.theatre = theatre, .actor = i};
        theatre->stage.random[i] = base_random_fork(sim_world_random(world));
        base_assert(sim_spawn(theatre->nodes[base_min(i, 1U)], 0, names[i], run_task, &tasks[i]) == 0);
    }
    int error = sim_world_run(world, TASK_FOREVER, NULL, NULL);
    if (error != 0)
        (void)fprintf(stderr, "seed %" PRIu64 ": %s\n", seed, sim_world_failure(world));
    base_assert(error == 0);
    for (unsigned i = 0; i < 2; i++)
        base_assert(sim_node_close(theatre->nodes[i]) == 0);
    sim_world_close(world);
}

void litmus_run_worlds(uint32_t troubles, uint64_t seeds, uint64_t tries, struct tarn_fabric_info *ret_info,
                       struct litmus_count *counts)
{
    static struct theatre theatre; /* large */
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        theatre = (struct theatre){.stage = {.place = &place, .tries = tries, .address = "owner"}};
        run_world(&theatre, seed, troubles);
        *ret_info = theatre.stage.info;
        for (unsigned i = 0; i < LITMUS_SIGHTS; i++) {
            counts[i].tries += theatre.stage.counts[i].tries;
            counts[i].seen += theatre.stage.counts[i].seen;
            if (counts[i].seeds == 0 && counts[i].seen > 0)
                counts[i].seeds = seed;
        }
    }
}
