/* The insides of worlds and nodes, for the files of this folder. */
#ifndef SIM_SIM_INTERNAL_H
#define SIM_SIM_INTERNAL_H

#include "fabric/fabric.h"
#include "sim/sim.h"
#include "task/engine.h"

struct cluster_provider;
struct sim_ensemble;
struct sim_net;

#define SIM_FAILURE_BYTES 1024

struct sim_world {
    struct base_account memory;
    uint64_t now_ns;
    uint64_t wall_begin_ns; /* civil time when now_ns is 0 */
    uint64_t step_ns_max;
    bool timed;
    uint32_t drift_ppm_max; /* of the clocks of nodes that are opened */
    uint64_t charged_ns;    /* to the tasks of the round that is running */
    uint64_t
        boot; /* task_boot() of nodes to come: another one after drives may have lost what they were given */
    uint32_t pause_one_in; /* rounds after which a scheduler loses its processor for a while */
    uint64_t steps_left;
    struct base_random order; /* which scheduler is next, how long it takes */
    struct base_random drives_random;
    struct base_random random; /* the driver's */
    struct base_heap events;   /* of struct sim_event */
    struct base_list nodes;
    struct base_list drives;
    struct sim_net *net;
    struct sim_ensemble *ensemble; /* NULL: there is none */
    uint64_t hash;
    FILE *trace;
    char failure[SIM_FAILURE_BYTES]; /* empty: none */
};

/* A scheduler of a node and when the world lets it run. */
struct sim_sched {
    struct base_list link;
    struct task_sched *sched;
    uint64_t paused_until_ns; /* the machine gives its processor to others */
    uint64_t timer_ns;        /* of its node's clock: its next timer when that was last looked at */
    uint64_t timer_moment_ns; /* of the world: the same */
    bool is_preempted;        /* within a task */
    uint32_t number;          /* in its node, from 0 */
    struct sim_share share;   /* of cores with other threads; no cores: it has its own */
};

/* A task or thread of sim_spawn() and sim_thread(). */
struct sim_task {
    struct base_list link;
    struct sim_node *node;
    task_function *function;
    void *arg;
    char name[TASK_NAME_MAX];
};

struct sim_node {
    struct base_list link;
    struct sim_world *world;
    const char *name;
    const struct sim_card *card;
    struct tarn_node *tarn;
    struct task_clock clock;
    uint64_t opened_ns;      /* the moment of the world when it was opened, from which on its clock drifts */
    uint64_t rate;           /* millionths of a second that its clock goes on in a second of the world */
    struct base_list scheds; /* of struct sim_sched: the node's, then its threads' */
    uint32_t sched_count;
    uint32_t thread_stack_bytes;
    struct base_list tasks; /* of struct sim_task that have not ended */
    uint32_t running;
    bool is_off; /* from the ensemble */
    uint64_t
        paged_ns; /* moment of the world when all pages are made that its tasks have asked for, if they are made in turn */
};

/** What the clock of a node tells at a moment of the world. */
uint64_t sim_node_clock(const struct sim_node *node, uint64_t world_ns);

/** The first moment of the world at which the clock of a node tells a time, TASK_FOREVER for that. */
uint64_t sim_node_moment(const struct sim_node *node, uint64_t clock_ns);

/** The first moment from another one on at which a scheduler has a core. */
uint64_t sim_sched_turn(const struct sim_sched *sched, uint64_t from_ns);

/** The moment when a scheduler has had a core for some time, from a moment on. */
uint64_t sim_sched_after(const struct sim_sched *sched, uint64_t from_ns, uint64_t for_ns);

/** The calling task loses its processor to others for a while, which is drawn: up to 2^bits_max ns. */
void sim_preempt(struct sim_node *node, struct base_random *random, uint32_t bits_max);

/** The simulated drives, for task_node_options.drives; its argument is the struct sim_node. */
extern const struct drive_provider sim_drive_provider;

/** The engine of the world's schedulers; its argument is the struct sim_node. */
extern const struct task_engine_ops sim_engine;

/** Free all drives of a world; nothing is in flight (asserted). */
void sim_drives_close(struct sim_world *world);

/** What a power cut, or the end of a process, does to the drives that a node has open. */
void sim_drives_leave(struct sim_node *node, bool power_cut);

/** The simulated network, for task_node_options.fabric; its argument is the struct sim_node. */
extern const struct fabric_provider sim_net_provider;

/** Make the network of a world. @param seed  the world's. @return 0; -ENOMEM */
base_must_check int sim_net_open(struct sim_world *world, uint64_t seed);

/** Free it; all nodes are gone. */
void sim_net_close(struct sim_world *world);

/** The ensemble, for task_node_options.cluster; its argument is the struct sim_node. */
extern const struct cluster_provider sim_ensemble_provider;

/** Free the ensemble of a world, if there is one; all nodes are gone. */
void sim_ensemble_close(struct sim_world *world);

/** A node is going: by its end, by a power cut, or in good order. */
void sim_net_leave(struct sim_node *node);

/** A node has run for a round: fail the world if it has stored to exported memory in a plain way. */
void sim_net_check(const struct sim_node *node);

#endif
