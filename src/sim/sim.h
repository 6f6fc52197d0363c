/*
 * sim: a world of virtual time. It steps the schedulers of any number of nodes from one thread, in an
 * order drawn from a seed, over simulated drives that survive power cuts and lie as drives do. The
 * objects under test are those of the release.
 *
 * Threading: a world and all that is in it belong to one thread. Functions marked *outside* are called
 * by the driver of the world, or from an event: never by a task of the world.
 * Determinism: the same seed and the same calls give the same run, bit for bit. Code that is added
 * draws from the world's generators, and lets no address, real time or padding into a decision.
 * Errors: negative errno. The first thing that is wrong with the system under test is kept as the
 * world's failure, sim_fail(), and ends sim_world_run().
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "base/base.h"
#include "drive/drive.h"
#include "task/node.h"
#include "task/sched.h"
#include "task/task.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct sim_card;
struct sim_world;
struct sim_node;
struct sim_drive;

/* ---- the world ------------------------------------------------------------------------------- */

struct sim_world_options {
    uint64_t seed;
    FILE *trace;          /* every decision as a line of text; NULL: only their hash */
    uint64_t step_ns_max; /* a round of a scheduler takes up to so long, drawn; 0: 1,000 */
    bool timed;         /* a round takes what task_charge() says and nothing else, and no scheduler loses its
                             processor: for what is measured with cards (README, "The speed model") */
    uint64_t steps_max; /* more are a failure: no end is in sight; 0: 10 million */
};

/** Make a world without nodes and drives. @return 0; -ENOMEM */
base_must_check int sim_world_open(const struct sim_world_options *options, struct sim_world **ret_world);

/** Free a world and its drives; nodes that are still open are cut. Outside. */
void sim_world_close(struct sim_world *world);

/** Virtual monotonic time: what task_now() tells inside, unless clocks drift. */
uint64_t sim_world_now(const struct sim_world *world);

/** Civil time of the world, before any node's high-water mark. */
uint64_t sim_world_wall(const struct sim_world *world);

/**
 * Let the monotonic clock of each node that is opened from now on go too fast or too slow, at a rate that is drawn for
 * it. Its task_now() tells that clock, and its timers and deadlines follow it. Without this call they tell the world's time.
 *
 * @param ppm_max  millionths of a clock's rate, up to 100,000: the most that one is wrong by; 0: none is. Outside.
 */
void sim_world_set_drift(struct sim_world *world, uint32_t ppm_max);

/** Set civil time forward or back. */
void sim_world_wall_jump(struct sim_world *world, int64_t by_ns);

/** The generator for the code that drives the world; order of steps and drives have others. */
struct base_random *sim_world_random(struct sim_world *world);

/** Memory for the code that drives the world. */
struct base_account *sim_world_memory(struct sim_world *world);

/** Hash of every decision so far: equal for equal runs. */
uint64_t sim_world_hash(const struct sim_world *world);

/**
 * Note a decision or an outcome in the trace.
 *
 * @param what  hashed by its characters
 */
void sim_note(struct sim_world *world, const char *what, uint64_t a, uint64_t b);

/** Note a text. @param text, len  hashed; newlines at its end are dropped from the trace */
void sim_note_text(struct sim_world *world, const char *what, const char *text, size_t len);

/** Where the text trace goes, NULL if none is written: for what is too long for a note. */
FILE *sim_world_trace(const struct sim_world *world);

/** Keep the first failure; later ones are dropped. Any task of the world, or outside. */
base_printf_like(2, 3) void sim_fail(struct sim_world *world, const char *format, ...);

/** The failure, NULL if there is none. Lives as long as the world. */
const char *sim_world_failure(const struct sim_world *world);

/* Something that happens at a moment; in the caller's memory, all zero before its first use. */
struct sim_event {
    struct base_heap_node node;
    const char *name;
    void (*run)(struct sim_event *event); /* outside */
};

/** Have an event that is not waiting happen at a moment. */
void sim_event_at(struct sim_world *world, struct sim_event *event, uint64_t when_ns);

/** Have it happen never, if it was waiting. */
void sim_event_cancel(struct sim_world *world, struct sim_event *event);

typedef bool sim_condition(void *arg);

/**
 * Let time pass until a condition holds.
 *
 * @param until_ns  when to give up; TASK_FOREVER: never
 * @param done      looked at between any two steps; NULL: every task and thread of sim_spawn() and
 *                  sim_thread() has ended
 * @return 0; -ETIMEDOUT (until_ns has come); -EDEADLK (nothing can happen any more, and until_ns is
 *         TASK_FOREVER) and -ECANCELED (something failed): see sim_world_failure()
 *
 * Outside.
 */
base_must_check int sim_world_run(struct sim_world *world, uint64_t until_ns, sim_condition *done, void *arg);

/* ---- nodes ----------------------------------------------------------------------------------- */

struct sim_node_options {
    const char *name;            /* borrowed until the node is gone */
    uint32_t scheds;             /* 1 or more */
    uint64_t memory_bytes;       /* cap of its accountant; 0: none */
    uint32_t stack_bytes;        /* of each task; 0: the scheduler's default */
    const struct sim_card *card; /* how fast its network is; NULL: as the network likes */
};

/** Make a node with its schedulers. Outside. @return 0; -ENOMEM */
base_must_check int sim_node_open(struct sim_world *world, const struct sim_node_options *options,
                                  struct sim_node **ret_node);

/** What the system under test calls the node. */
struct tarn_node *sim_node_tarn(const struct sim_node *node);

/** One of the node's schedulers, from 0. */
struct task_sched *sim_node_sched(const struct sim_node *node, uint32_t index);

/**
 * Start a task on a scheduler of the node.
 *
 * @param name  as of task_spawn(); named when the world is stuck
 * @return 0; -ENOMEM. Outside, or from a task of the node.
 */
base_must_check int sim_spawn(struct sim_node *node, uint32_t sched, const char *name,
                              task_function *function, void *arg);

/**
 * Start a plain thread of the node: a task of the thread personality on a scheduler of its own, so
 * that it goes the ways of threads, in virtual time. Outside. @return as sim_spawn()
 */
base_must_check int sim_thread(struct sim_node *node, const char *name, task_function *function, void *arg);

/** How many of the node's sim_spawn() and sim_thread() have not ended. */
uint32_t sim_node_running(const struct sim_node *node);

/**
 * Let none of the node's tasks run before a moment, as if its process was stopped; what its network card does
 * for others goes on. Outside.
 *
 * @param until_ns  TASK_FOREVER: until this is called again with a moment
 */
void sim_node_pause(struct sim_node *node, uint64_t until_ns);

/* Cores that some schedulers of a node share with threads that always have work, which are nobody's: they have them in turns. */
struct sim_share {
    uint32_t first, count; /* schedulers of the node */
    uint32_t others;       /* threads besides these */
    uint32_t cores;        /* 1 or more */
    uint64_t turn_ns;      /* for how long a thread has a core, if there are more threads than cores */
    uint64_t from_ns;      /* when the first turn begins, before which nothing is shared */
};

/** Let schedulers of a node run in a timed world only when they have a core. A later call for the same schedulers takes the place of
 * an earlier one. */
void sim_node_share(struct sim_node *node, const struct sim_share *share);

/**
 * End the node in good order: stop its schedulers, let their tasks end, free everything. What the
 * system under test has not given back is a bug, and asserted. Outside.
 *
 * @return 0; -EDEADLK, -ECANCELED (failed: see sim_world_failure(); the node is killed)
 */
base_must_check int sim_node_close(struct sim_node *node);

/**
 * Cut the node's power: its memory is gone, nothing is unwound, and the drives that it has open lose
 * what is not durable (sim_drive_cut()). The memory that it had from the machine is not given back.
 * Outside.
 */
void sim_node_cut(struct sim_node *node);

/** End the node's process: a power cut, but drives keep what they have; writes in flight tear. Outside. */
void sim_node_kill(struct sim_node *node);

/* ---- drives ---------------------------------------------------------------------------------- */

struct sim_drive_options {
    uint64_t bytes;                /* a multiple of the physical block */
    uint64_t most_bytes;           /* that it can become, sim_drive_lengthen(); 0: `bytes` */
    uint32_t logical_block_bytes;  /* 0: 512 */
    uint32_t physical_block_bytes; /* 0: 4,096 */
    bool write_cache;              /* completed writes are lost without a flush */
    bool fua;                      /* durable writes are cheap */
    bool buffered;                 /* not direct: any offset and length */
    bool device;                   /* a block device, not a file */
    bool discard;                  /* it takes discards */
    uint64_t read_ns;              /* least latency of each kind; 0: some microseconds */
    uint64_t write_ns;
    uint64_t flush_ns;
};

/* What may go wrong, each on its own. */
enum sim_fault {
    SIM_FAULT_READ_ERROR,  /* -EIO */
    SIM_FAULT_READ_DAMAGE, /* success with a bit flipped, or a sector of zeros or old content; the next twelve
                              are spared */
    SIM_FAULT_WRITE_ERROR, /* -EIO, any subset of the sectors written */
    SIM_FAULT_WRITE_FULL,  /* -ENOSPC, any subset of the sectors written */
    SIM_FAULT_FLUSH_ERROR, /* -EIO, what was not durable is lost now, or at the next cut, or in doubt */
    SIM_FAULT_STUCK,       /* any request: no completion until sim_drive_unstick() or a cut */
    SIM_FAULT_LOST,        /* any request: from now on all fail, -ENODEV */
    SIM_FAULT_DISCARD_ERROR, /* -EIO, any subset of the sectors discarded */
    SIM_FAULT_COUNT,
};

/* Ways of a drive that breaks its promise, to see that a campaign notices. Bits. */
enum sim_drive_mutation {
    SIM_DRIVE_FLUSH_IGNORED = 1,   /* flushes succeed and make nothing durable */
    SIM_DRIVE_DURABLE_IGNORED = 2, /* durable writes are plain ones */
    SIM_DRIVE_FLUSH_EARLY = 4,     /* a flush does not cover the write that completed last before it */
    SIM_DRIVE_WRITE_DROPPED = 8,   /* one write in 64 succeeds and is not done */
};

enum sim_damage_kind { SIM_DAMAGE_FLIP, SIM_DAMAGE_ZERO, SIM_DAMAGE_STALE };

/* Which sector of which read was damaged. */
struct sim_damage {
    enum sim_damage_kind kind;
    uint64_t offset; /* of the sector, bytes */
};

/**
 * Add a drive full of zeros to the world; nodes open it by its name through drive_open().
 *
 * @param name  borrowed while the world lives
 * @return 0; -ENOMEM
 */
base_must_check int sim_drive_add(struct sim_world *world, const char *name,
                                  const struct sim_drive_options *options, struct sim_drive **ret_drive);

/**
 * Set when a fault happens.
 *
 * @param per_million  of the requests that it can happen to, drawn
 * @param nth          and to the n-th of them from now, 1 for the next; 0: to none
 */
void sim_drive_set_fault(struct sim_drive *drive, enum sim_fault fault, uint32_t per_million, uint64_t nth);

/** Set all faults off. A drive that was lost is back. */
void sim_drive_clear_faults(struct sim_drive *drive);

/** How often a fault has happened. */
uint64_t sim_drive_faults(const struct sim_drive *drive, enum sim_fault fault);

/** Where the latest damaged read was damaged. @return false: none was */
bool sim_drive_damage(const struct sim_drive *drive, struct sim_damage *ret_damage);

/** Make it larger: a node that has it open finds that when it asks (drive_extend()). @param bytes  of whole physical blocks,
 * at most most_bytes; fewer than it has change nothing */
void sim_drive_lengthen(struct sim_drive *drive, uint64_t bytes);

/** Let stuck requests complete. */
void sim_drive_unstick(struct sim_drive *drive);

/** Break promises from now on. @param mutations  bits of enum sim_drive_mutation */
void sim_drive_mutate(struct sim_drive *drive, uint32_t mutations);

/**
 * Cut the drive's power: of the sectors written since they were last durable any subset survives, of
 * several versions of one sector any, of writes in flight any sectors. Requests in flight are
 * forgotten: tasks that wait for them must be gone, too. Outside.
 */
void sim_drive_cut(struct sim_drive *drive);

/** Write to the medium past all rules, as before the world began. Outside. */
void sim_drive_poke(struct sim_drive *drive, uint64_t offset, const void *data, size_t bytes);

/** Read what a read would return now, past all faults and delays. Outside. */
void sim_drive_peek(struct sim_drive *drive, uint64_t offset, void *data, size_t bytes);

/** Sectors of which a power cut could lose the content, in-flight writes not counted. */
uint64_t sim_drive_undurable(const struct sim_drive *drive);

/** Requests in flight, stuck ones too. */
uint64_t sim_drive_in_flight(const struct sim_drive *drive);

#endif
