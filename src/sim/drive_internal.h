/* The insides of simulated drives, for drive.c and drive_effect.c. */
#ifndef SIM_DRIVE_INTERNAL_H
#define SIM_DRIVE_INTERNAL_H

#include "sim/media.h"
#include "sim/sim_internal.h"

struct sim_fault_state {
    uint32_t per_million;
    uint64_t nth;   /* counts down to the request that it happens to; 0: none */
    uint32_t spare; /* requests that it will not happen to, drawn or not, after it has */
    uint64_t count;
};

struct sim_drive {
    struct base_list link; /* in the world */
    struct sim_world *world;
    const char *name;
    struct sim_drive_options options;
    struct sim_media media;
    struct sim_node *owner;     /* the node that has the drive open */
    struct base_list in_flight; /* of struct sim_request, oldest first */
    uint64_t in_flight_count;
    uint64_t writes_in_flight;     /* and discards */
    uint64_t requests;             /* so far */
    uint64_t write_completed_last; /* by the clock of media */
    struct sim_fault_state faults[SIM_FAULT_COUNT];
    bool lost;
    uint32_t mutations;
    bool damaged; /* `damage` is set */
    struct sim_damage damage;
};

struct sim_request {
    struct base_list link; /* in drive->in_flight, until the poster knows */
    struct sim_event event;
    struct task_message message; /* to the scheduler of a task that posted */
    struct task_wait *wait;      /* of a thread that posted; else NULL */
    struct task_sched *sched;
    struct sim_drive *drive;
    struct drive_request *request;
    enum drive_op op;
    bool durable;
    uint64_t number;
    uint64_t posted;         /* by the clock of media */
    uint64_t changes_before; /* media.changes when it was posted */
    uint64_t offset;
    uint64_t bytes;
    uint8_t *data; /* to write; what a discard leaves; or what was there when a read was posted, then what it
                      returns */
    int32_t result;
    bool stuck;
    bool completed; /* it has taken effect; the poster does not know yet */
};

/** The generator of everything that drives draw. */
static inline struct base_random *sim_drive_random(const struct sim_drive *drive)
{
    return &drive->world->drives_random;
}

/** Whether a drive breaks this promise. */
static inline bool sim_drive_is_mutated(const struct sim_drive *drive, enum sim_drive_mutation mutation)
{
    return (drive->mutations & (uint32_t)mutation) != 0;
}

/** Draw what a discard will leave. @param data  of all its bytes, with what is there */
void sim_discard_draw(struct sim_drive *drive, uint8_t *data, uint64_t bytes);

/** Decide when a request is posted whether it will fail, be stuck, or lose the drive. */
void sim_request_decide(struct sim_request *request);

/** Let a request take effect as was decided, and fill the memory of a read. */
void sim_request_take_effect(struct sim_request *request);

/** Let some of a write or a discard take effect that was cut off. */
void sim_request_tear(struct sim_request *request);

#endif
