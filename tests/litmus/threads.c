/* On a provider of this machine: three threads, and a node and a provider for each side, as two processes have. */
#include "litmus.h"
#include "task/node.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

enum { RELAX_ONE_IN = 64 };

/* The stage, and what the threads have besides. */
struct theatre {
    struct litmus_stage stage; /* first */
    pthread_barrier_t barrier;
    struct tarn_node *nodes[2];
};

struct thread {
    struct theatre *theatre;
    enum litmus_actor actor;
};

static void meet(struct litmus_stage *stage)
{
    struct theatre *theatre = base_container_of(stage, struct theatre, stage);
    (void)pthread_barrier_wait(&theatre->barrier);
}

/* There may be fewer processors than threads. */
static void relax(struct litmus_stage *stage, struct base_random *random)
{
    (void)stage;
    if (base_random_below(random, RELAX_ONE_IN) == 0)
        (void)sched_yield();
}

static const struct litmus_place place = {.meet = meet, .relax = relax};

static void *run_thread(void *arg)
{
    struct thread *thread = arg;
    struct litmus_stage *stage = &thread->theatre->stage;
    const bool is_side = thread->actor != LITMUS_SECOND;
    if (is_side)
        litmus_connect(stage, thread->actor);
    meet(stage);
    litmus_act(stage, thread->actor);
    if (is_side)
        litmus_disconnect(stage, thread->actor);
    return NULL;
}

void litmus_run_threads(const char *url, const char *peer_url, const char *address, uint64_t tries,
                        struct tarn_fabric_info *ret_info, struct litmus_count *counts)
{
    static struct theatre theatre; /* large */
    const struct task_node_options quiet = {.log_level = BASE_LOG_ERROR, .seed = LITMUS_SEED};
    struct thread threads[LITMUS_ACTORS];
    pthread_t ids[LITMUS_ACTORS];
    theatre = (struct theatre){.stage = {.place = &place, .tries = tries}};
    struct litmus_stage *stage = &theatre.stage;
    (void)snprintf(stage->address, sizeof(stage->address), "%s", address);
    base_assert(pthread_barrier_init(&theatre.barrier, NULL, LITMUS_ACTORS) == 0);
    for (unsigned side = LITMUS_OWNER; side <= LITMUS_PEER; side++) {
        base_assert(task_node_open(&quiet, &theatre.nodes[side]) == 0);
        litmus_open(stage, side, theatre.nodes[side], side == LITMUS_OWNER ? url : peer_url);
    }
    for (unsigned i = 0; i < LITMUS_ACTORS; i++) {
        threads[i] = (struct thread){.theatre = &theatre, .actor = i};
        base_random_init(&stage->random[i], LITMUS_SEED + i);
        base_assert(pthread_create(&ids[i], NULL, run_thread, &threads[i]) == 0);
    }
    for (unsigned i = 0; i < LITMUS_ACTORS; i++)
        base_assert(pthread_join(ids[i], NULL) == 0);
    for (unsigned side = LITMUS_OWNER; side <= LITMUS_PEER; side++) {
        litmus_close(stage, side);
        task_node_close(theatre.nodes[side]);
    }
    (void)pthread_barrier_destroy(&theatre.barrier);
    *ret_info = stage->info;
    for (unsigned i = 0; i < LITMUS_SIGHTS; i++)
        counts[i] = stage->counts[i];
}
