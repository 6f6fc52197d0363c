/* The insides of campaign `depot`, for its files. */
#ifndef SIM_CAMPAIGN_DEPOT_H
#define SIM_CAMPAIGN_DEPOT_H

#include "base/base.h"
#include "sim/depot_clients.h"
#include <tarn/depot.h>

enum {
    EPOCHS_MAX = 7,
    CLIENTS_MAX = 8,
    OPS_MAX = 40, /* of a client in an epoch */
    OPS_BUSY = 150,
    STORM_MAX = 3, /* epochs in a row that end while they open */
    CUT_NS_BITS_MIN = 12,
    CUT_NS_BITS_OPENING = 20, /* most openings take less */
    CUT_NS_BITS_MAX = 23,
    APPEND_NS_BITS_MAX = 20,
    CUT_NS_BITS_SLOW = 28, /* where the drive is slow */
    SLOW_NS_BITS_MAX = 32, /* where clients sleep for seconds */
    SLOW_NS_BITS_MIN = 29,
    SCRUB_BITS_MIN = 25, /* bytes a second: a pass takes about as long as most epochs */
    SCRUB_BITS = 6,
    CHECKPOINT_BITS_MIN = 26, /* bytes a second */
    CHECKPOINT_BITS = 8,
    EVERY_BITS_MIN = 16, /* bytes from one checkpoint to the next */
    EVERY_BITS = 4,
};

#define HOUR_NS (UINT64_C(3600) * BASE_NS_PER_SECOND)
/* What was acknowledged so long ago is durable. */
#define ASYNC_NS    (BASE_NS_PER_SECOND + BASE_NS_PER_SECOND / 8)
#define STORE_BYTES (UINT64_C(7) << 18) /* at least: some 13 segments */
/* So many times the bytes that a drive has at first it has at most: a store can take all of that. */
#define DRIVE_GROWS_TIMES 3

_Static_assert((EPOCHS_MAX + 1) * (CLIENTS_MAX + 2) <= SIM_ORACLE_CLIENTS_MAX,
               "each has a log in each epoch");

/* How an epoch is to end. */
enum ending { END_CUT, END_KILL, END_CLOSE };

/* What is to be said to the oracle when the store is open again. */
enum pending { PENDING_NOTHING, PENDING_DURABLE, PENDING_LOSS };

/* What a segment was when the drive was marked. */
enum sim_segment { SIM_SEGMENT_OTHER, SIM_SEGMENT_OPEN, SIM_SEGMENT_SPARED };

/* What was on the drive before the writes that vouch for it. */
struct sim_damage_mark {
    uint8_t *early;  /* the drive after an earlier epoch; NULL: it was not looked at */
    uint8_t *marked; /* the drive at the mark; NULL: there was none yet */
    uint64_t data_offset;
    uint64_t segment_bytes;
    enum sim_segment segments[128];
    uint64_t vouchers; /* puts that were begun to vouch for it */
    bool vouched;      /* all of them were acknowledged */
};

/* One run: what is drawn for the seed, and what stands now. */
struct play {
    struct sim_depot_shared shared;
    struct sim_world *world;
    struct base_random *random;

    /* drawn for the seed */
    const char *path;                  /* of the drive, or of all members of a stripe */
    uint64_t hot_bytes;                /* as of struct tarn_depot_options; drawn by members_random too */
    uint64_t hot_warm_rate_bytes;      /* likewise */
    struct base_random members_random; /* what is drawn for a stripe alone: other seeds stay what they were */
    uint64_t drive_bytes;
    bool device; /* a block device, which must be formatted first; else a file */
    uint64_t cut_bits_max;
    bool slow; /* clients sleep for seconds */
    bool faulty;
    bool clock_jumps;
    bool powered_only; /* TARN_MODE_POWER in all epochs */
    bool cache;        /* in most epochs the store is opened as one */
    bool scrubs;       /* it is scrubbed */
    bool checkpoints;  /* they are written while it runs */
    bool grows;        /* now and then its drive becomes larger, and it takes that while it is open */
    struct base_random growth_random; /* seeds keep their other draws */
    bool appends;                     /* now and then, between epochs, one more drive joins */
    struct base_random append_random;
    uint64_t
        damage_epoch; /* number of epochs before the last from which on its drive may be damaged at rest; 0: never */
    struct base_random damage_random;
    struct sim_damage_mark damage_mark;
    bool damage_checked;                      /* the checker has looked since the store was open last */
    bool damage_reported;                     /* and has found something */
    uint64_t disk_bytes[SIM_DEPOT_DISKS_MAX]; /* at first */
    struct sim_drive_options disk_options;    /* of a single one */
    const char *mutation;

    bool tried;             /* somebody has begun to format a device */
    bool made;              /* the store was opened once: it must be there */
    bool lossy;             /* it has acknowledged what may be lost */
    uint32_t lossy_clients; /* to clients from this one on */
    bool faulted_running;   /* so that what was acknowledged need not be durable in time */
    enum pending pending;
    uint32_t clients; /* so far, in all epochs */
    uint64_t storm;   /* epochs to come that end while they open */

    /* of the epoch */
    enum tarn_mode mode;
    bool last;
    bool opened;
    bool damages_only; /* the only fault that may happen now is a read that is damaged once */
    bool writes_fail;  /* the fault that may happen in the opening is one of writes */
    int error;         /* of open, close or check */
    uint64_t opened_ns;
    uint64_t flush_errors_before; /* that had happened when it began */
    bool cut_due;
    struct sim_event cut;
    struct sim_event jump;
    struct sim_event unstick;
    uint32_t client_count;
    struct sim_depot_client epoch_clients[CLIENTS_MAX + 2];
};

/** A number below n. */
static inline uint64_t sim_play_draw(struct play *play, uint64_t n)
{
    return base_random_below(play->random, n);
}

/** A moment from 2^bits_min ns on, to about 2^(bits_max + 1) ns. */
uint64_t sim_play_some_time_from_now(struct play *play, uint64_t bits_min, uint64_t bits_max);

/** Make the events of a play, which is new. */
void sim_play_init_events(struct play *play);

/** Have one fault happen while the store opens. A read that is damaged once is tried again; so it must not be
 * the reason of any failure. */
void sim_play_set_faults_of_opening(struct play *play);

/** Have one fault happen while clients work. */
void sim_play_set_faults_of_running(struct play *play);

/** No fault any more. */
void sim_play_clear_faults(struct play *play);

/** Cut the power of all drives. */
void sim_play_cut_drives(struct play *play);

/** Make the drive, or the members of a stripe. They do wrong what play->mutation says. */
void sim_play_add_drive(struct play *play);

/** Make one more drive, and name it with the others from now on. */
void sim_play_append_drive(struct play *play);

/** Draw whether and when there is damage at rest. Other draws stay as they were. */
void sim_play_draw_damage(struct play *play);

/** Keep what is on the drive, which damage may bring back. */
void sim_play_remember_drive(struct play *play);

/** Free all that was kept of the drive. */
void sim_play_forget_drive(struct play *play);

/** All clients have ended: only what is on the drive now may be damaged. */
void sim_play_mark(struct play *play);

/** Have the store acknowledge one more write. A task function; its argument is the play. Yields. */
void sim_play_vouch(void *arg);

/** Damage a sector that has not changed since the mark. The store is at rest. */
void sim_play_damage(struct play *play);

/* Names of what a drive may do wrong; NULL at the end. */
extern const char *const sim_play_mutations[];

#endif
