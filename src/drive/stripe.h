/*
 * Stripes: one drive made of several, for the files of this folder. What lies on each member:
 *
 *   0          4,096       8,192        unit          2 units       3 units          used_bytes
 *   ┌──────────┬───────────┬────────────┬─────────────┬─────────────┬─ ─ ─ ─┬────────┬ ─ ─ ─ ─ ─ ─ ─ ─
 *   │ label    │ its copy  │ never used │ unit of     │ unit of     │       │        │ less than a unit,
 *   │          │           │            │ row 0       │ row 1       │       │        │ or beyond the others
 *   └──────────┴───────────┴────────────┴─────────────┴─────────────┴─ ─ ─ ─┴────────┴ ─ ─ ─ ─ ─ ─ ─ ─
 *
 * Unit u of the stripe is the unit of row u / count on the member of place u mod count. So what lies one
 * behind the other on the stripe lies one behind the other on each member, and a request of any length is at
 * most one request of each.
 *
 * A member that was appended later has its units one behind the other, and they follow those of all before it.
 * What it was appended to may be a single drive with a store: that has no label, and all of it is used.
 *
 * Label, and its copy: 512 bytes (one sector: whole or absent), then zeros to 4,096. Little-endian.
 *   OFFSET SIZE  MEANING
 *        0    8  "TarnStrp"
 *        8    4  CRC-32C of the 512 bytes, this field taken as 0
 *       12    4  version: 1; 2 of a member that was appended
 *       16   16  identity of the stripe, random; that of the store on a single drive that it was appended to
 *       32    8  civil time when it was made, nanoseconds
 *       40    4  number of members, 2 to 32; of one that was appended up to itself
 *       44    4  place of this member among them, from 0
 *       48    8  bytes of a unit, a power of two from 16,384 to 131,072
 *       56    8  bytes used of each member, a multiple of the unit, 2 units or more
 *       64    4  state: 1 being made, 2 whole: every member has a label
 *       68    4  0
 *       72    8  0; of a member that was appended where on the stripe its units begin
 *       80    8  0; of a member that was appended random: the store knows it by that
 *       88    8  0; of a member that was appended that number of the one before it, 0 if that was not appended
 *       96  416  0
 *
 * docs/format.md has the rules of writing and reading.
 */
#ifndef DRIVE_STRIPE_H
#define DRIVE_STRIPE_H

#include "drive/drive_internal.h"
#include <pthread.h>

/* Large enough that few records lie in two units, and small enough that a read of recovery or collection spans many. */
#define DRIVE_UNIT_BYTES_MAX ((uint64_t)128 * 1024)
#define DRIVE_UNIT_BYTES_MIN ((uint64_t)16 * 1024)

/* ---- label.c: which drives are members of a stripe ----------------------------------------------- */

enum {
    DRIVE_LABEL_VERSION = 1,
    DRIVE_LABEL_VERSION_APPENDED = 2,
    DRIVE_LABEL_COPIES = 2,
    DRIVE_LABEL_COPY_BYTES = 4096, /* distance from one copy to the next */
    DRIVE_LABEL_MAKING = 1,
    DRIVE_LABEL_WHOLE = 2,
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the struct below is the bytes on the drive");

struct drive_label {
    uint64_t magic;
    uint32_t check;
    uint32_t version;
    uint64_t identity[2];
    uint64_t made_wall_ns;
    uint32_t count;
    uint32_t place;
    uint64_t unit_bytes;
    uint64_t used_bytes;
    uint32_t state;
    uint32_t zero;
    uint64_t begin_bytes;
    uint64_t nonce;
    uint64_t follows;
    uint8_t reserved[416];
};
_Static_assert(sizeof(struct drive_label) == DRIVE_SECTOR_BYTES, "a sector, see the table");
_Static_assert(offsetof(struct drive_label, count) == 40, "see the table");
_Static_assert(offsetof(struct drive_label, state) == 64, "see the table");
_Static_assert(offsetof(struct drive_label, follows) == 88, "see the table");

/* The content of the place of a label. */
enum drive_label_kind {
    DRIVE_LABEL_NONE,  /* zeros */
    DRIVE_LABEL_GOOD,  /* a label */
    DRIVE_LABEL_BAD,   /* a damaged one */
    DRIVE_LABEL_NEWER, /* one that this release does not know */
    DRIVE_LABEL_STORE, /* a store, whose identity is where a label has its own */
    DRIVE_LABEL_OTHER, /* something else */
};

struct drive_label_found {
    enum drive_label_kind kind;
    struct drive_label
        label; /* DRIVE_LABEL_GOOD: the label of the copy that is further on; DRIVE_LABEL_STORE: the identity alone */
    bool complete;     /* both copies are whole, or damaged */
    const char *wrong; /* DRIVE_LABEL_BAD and _NEWER: the fault, as a sentence */
};

/** Read and classify the place of a drive's label. Yields. @return 0; -ENOMEM; -EIO and the like */
base_must_check int drive_label_find(struct tarn_node *node, struct drive *drive,
                                     struct drive_label_found *ret_found);

/**
 * Write both copies, one after the other, each durably.
 *
 * @param label  magic, version and check are filled in here; with begin_bytes > 0 it is an appended member's
 * @return 0; -ENOMEM; what drive_write() returns. Yields.
 */
base_must_check int drive_label_write(struct tarn_node *node, struct drive *drive,
                                      const struct drive_label *label);

/* ---- members.c: which drives those are ------------------------------------------------------------ */

/* A path on its way to becoming a member. */
struct drive_candidate {
    const char *listed; /* the path as the list has it */
    const char *path;
    struct drive *drive; /* the open drive; NULL: there is none yet */
    struct drive_label_found found;
    uint32_t place; /* place in the stripe, from 0, once that is known */
};

/* A list of paths, on its way to becoming a stripe. */
struct drive_stripe_opening {
    struct tarn_node *node;
    const char *list; /* the list as the user gave it */
    const struct drive_options *options;
    struct drive_options of_each;
    char *paths; /* a copy of the list, cut at its commas, and another of it, each path as the kernel takes it
                  */
    size_t paths_bytes;
    uint32_t count;
    struct drive_candidate candidates[DRIVE_MEMBERS_MAX];

    /* what they make up, if something was ever stored on it */
    struct drive_label label; /* the stripe's fields of the label; those of a single member are not used */
    uint32_t
        round_count; /* number of members whose units go round; 0: the first drive was a single one with a store */
    const struct drive_candidate *first; /* the single drive with a store, or NULL */
    struct drive_candidate *appended;    /* the drive that this opening appends, or NULL */
};

/** Log why a path of a stripe is refused. @return error */
static inline int drive_stripe_refuse(const struct drive_stripe_opening *opening, const char *path, int error,
                                      const char *reason)
{
    return drive_refuse(opening->node, path, error, reason);
}

/** Whether a drive was appended to others. */
static inline bool drive_is_appended(const struct drive_candidate *candidate)
{
    return candidate->found.kind == DRIVE_LABEL_GOOD && candidate->found.label.begin_bytes > 0;
}

/**
 * Open the drives of the list, and find the stripe that they make up.
 *
 * @param ret_is_new  nothing was ever stored on them together: they may become a stripe
 * @return 0; as drive_open() for several, logged. Yields.
 */
base_must_check int drive_members_open(struct drive_stripe_opening *opening, bool *ret_is_new);

/** Close the drives of an opening that failed, and remove the files that it has made. */
void drive_members_abandon(struct drive_stripe_opening *opening);

/* ---- stripe.c: opening ---------------------------------------------------------------------------- */

struct drive_part;

/* A thread that does plain threads' requests to one member. */
struct drive_member_thread {
    pthread_t thread;
    struct drive *member;
    struct task_semaphore work; /* counts the waiting requests, and the order to end */
    struct base_spin lock;
    struct base_list requests; /* waiting requests, by io.link; empty at the order to end */
};

/* A member, by its place. */
struct drive_member {
    struct drive *drive;
    uint64_t begin_bytes; /* address of the stripe at which the units of an appended member begin */
    uint64_t skip_bytes;  /* bytes that the label of such a member takes; 0: it has none */
    uint64_t used_bytes;  /* bytes used of the member when the stripe was opened */
    uint64_t nonce;       /* number that identifies an appended member to the store */
};

struct drive_stripe {
    struct tarn_node *node;
    struct drive_label
        label; /* the stripe's identity and unit; and number and used bytes of the members whose units go round */
    uint32_t count;
    uint32_t
        round_count; /* number of members, from the first, whose units go round; 0: the stripe began as a single drive */
    uint32_t unit_shift;
    bool established; /* every member has its whole label; false while the last one is still to be appended */
    struct drive_member members[DRIVE_MEMBERS_MAX];
    uint64_t extended_bytes; /* bytes now in use of each growing member; only drive_extend() uses it */

    /* split.c's */
    struct drive_part *parts;
    uint32_t part_count;
    struct base_spin lock;    /* protects the fields below */
    struct base_list free;    /* parts that no request has */
    struct base_list waiting; /* requests that wait for a part */

    /* member_threads.c's */
    struct drive_member_thread *threads; /* the member threads, one for each member */
    _Atomic int threads_state;
};

/** The provider of drives that are made of several. */
extern const struct drive_provider drive_provider_stripe;

/** Whether a path names several drives: it has a comma without a backslash before it. */
bool drive_path_is_list(const char *path);

/** Make "\," a comma, in place. */
void drive_path_unescape(char *path);

/* ---- split.c: requests ---------------------------------------------------------------------------- */

/** Take memory for the parts of requests. @return 0; -ENOMEM */
base_must_check int drive_split_init(struct drive_stripe *stripe);

/** Free the memory of parts; no request may be in flight. */
void drive_split_deinit(struct drive_stripe *stripe);

/** The provider's post(). */
void drive_split_post(void *state, struct drive_request *request);

/* ---- member_threads.c: threads that work for plain threads ---------------------------------------- */

/** Take memory for the member threads, which are started when they are first needed. @return 0; -ENOMEM */
base_must_check int drive_member_threads_init(struct drive_stripe *stripe);

/** End the member threads; they must be idle. */
void drive_member_threads_deinit(struct drive_stripe *stripe);

/** Whether there are member threads, started now if need be. Never waits. Any thread. */
bool drive_member_threads_ready(struct drive_stripe *stripe);

/** Have the member's thread post a request to the member and call its `done`. Any thread. */
void drive_member_post(struct drive_stripe *stripe, uint32_t place, struct drive_request *request);

#endif
