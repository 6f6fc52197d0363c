/*
 * An operation on its way; README, "Protocol", has the steps.
 *
 *   WORDS ──▶ RECORDS ──┬─ found ──▶ SWAP ──▶ done
 *     ▲                 ├─ not found ──▶ WORDS once more: the same ──▶ done: absent
 *     │ begin again     └─ not found, and to be stored ──▶ INTENT ──▶ LOCK ──▶ WORDS ──▶ PLACE ──▶ UNLOCK ──▶ done
 */
#ifndef HASH_STEP_H
#define HASH_STEP_H

#include "hash/hash_internal.h"

enum hash_at {
    WORDS,
    RECORDS,
    SWAP,
    INTENT,
    LOCK,
    PLACE,
    UNLOCK,
    ALONE, /* it has something to do by itself */
    DONE,
};

/* What an operation does alone. */
enum hash_alone {
    AGAIN,      /* nothing but to begin again */
    AWAIT_LOCK, /* somebody has its key's lock, or a word of it is frozen */
    LEARN_SLAB, /* it does not know how large a record is */
    LEARN_VIEW, /* the index is another one */
    MAKE_ROOM,  /* all slots of the key have other keys */
    MEET_ERROR, /* a step has failed */
    SETTLE,     /* the outcome of its swap is not known */
};

struct hash_step {
    struct hash_op *op;
    enum hash_at at;
    enum hash_alone alone;
    bool is_second;  /* these words are to be compared with those before */
    bool is_locked;  /* it holds its key's lock */
    bool is_written; /* its record is where it is to be */
    hash_key key;
    uint32_t filter;
    uint64_t view, lock_now;
    uint64_t begin_ns, pause_ns, deadline_ns;
    uint32_t first, io_count;        /* its operations in the step */
    uint32_t reads;                  /* places whose records it reads in this step, a bit each */
    const struct hash_record *found; /* the key's record, and the place of its word */
    uint32_t found_at, place;
    uint64_t new_word;
    struct hash_record *record; /* of a put: the new one, in its slot's bytes */
    uint64_t record_bytes, address, session;
    uint64_t learn; /* an address in the slab to learn about */
    uint32_t lock, intent, misfits;
    uint32_t rooms; /* times that room was made for it, which others have taken */
    uint64_t lock_word;
    struct hash_intent what;
    struct hash_lock_seen seen;
    enum hash_at failed_at; /* the step that has failed, with `error` … */
    int error;
    int outcome;   /* … and what is left to be told when its lock has been given back */
    uint8_t *near; /* HASH_NEAR_BYTES for the first record that it reads */

    /* not set in the beginning */
    struct hash_places places;
    uint64_t words[HASH_WORDS_MAX], before[HASH_WORDS_MAX];
    uint64_t other[HASH_WORDS_MAX];           /* words whose records are other keys' */
    struct hash_record *read[HASH_WORDS_MAX]; /* of `reads`: the records */
    uint64_t read_bytes[HASH_WORDS_MAX];
};

#define HASH_NEAR_BYTES 1280u

/** Have a step of an operation posted. */
void hash_step_post(struct hash *hash, struct hash_io *io, struct hash_step *step);

/** Take its outcome, and choose the next. */
void hash_step_take(struct hash *hash, struct hash_io *io, struct hash_step *step);

/** Note that a swap has stored, or removed, what it was to. */
void hash_step_succeed(struct hash *hash, struct hash_step *step);

/** Have gets whose words and records can be loaded answered at once, by one look. @return those of the batch that are, a bit each; the others
 * take all steps */
uint32_t hash_glance(struct hash *hash, struct hash_op *ops, uint32_t count);

/** Answer a get with its record. */
void hash_answer_get(const struct hash *hash, struct hash_op *op, const struct hash_record *record);

/** Free the records that were read for it. */
void hash_step_free_reads(struct hash *hash, struct hash_step *step);

/** End it. */
static inline void hash_step_finish(struct hash_step *step, int error)
{
    step->op->error = error;
    step->at = DONE;
}

/** Have it do something alone, and then begin again. */
static inline void hash_step_alone(struct hash_step *step, enum hash_alone alone)
{
    step->at = ALONE;
    step->alone = alone;
}

#endif
