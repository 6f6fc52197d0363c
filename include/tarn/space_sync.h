/*
 * tarn/space_sync.h: two ways for the clients of a space to wait for each other: a barrier, and a queue of work. Both are
 * words in a region of class TARN_SPACE_WORDS, which clients change by CAS and FAA; no process serves them.
 *
 *   one client, once                             every client                       again and again
 *   tarn_space_barrier_format(region, …)   ─▶    tarn_space_barrier_init(…)   ─▶    tarn_space_barrier_wait(…)
 *   tarn_space_queue_format(region, …)     ─▶    tarn_space_queue_init(…)     ─▶    tarn_space_queue_push(…), _pop(…)
 *
 * Threading: as tarn/space.h says of the region; besides, a struct tarn_space_barrier or struct tarn_space_queue is used by
 * one caller at a time, so that each task has its own. These structs are the caller's, hold nothing that must be given
 * back, and are used no longer than their region is held.
 * Deadlines bound how long a call waits for other clients. An operation on the region that has been posted is waited for up
 * to 5 seconds longer, because the caller could not know whether an operation that it breaks off takes effect.
 * Errors: besides those of each call, what tarn_space_cas() returns: -EACCES (the region is of another class), -EINVAL,
 * -ECANCELED, -ENODATA, -ESTALE (the region is gone), -EHOSTUNREACH (its memory server did not answer in time). A lease that
 * ends meanwhile is no error: the call waits until the client has another one, and repeats the operation, which is made
 * so that it takes effect once.
 */
#ifndef TARN_SPACE_SYNC_H
#define TARN_SPACE_SYNC_H

#include <tarn/space.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- barrier ------------------------------------------------------------------------------------ */

#define TARN_SPACE_PARTIES_MAX 65536 /* the most parties of a barrier */
#define TARN_SPACE_BARRIER_BYTES(parties)                                                                    \
    (64 + 8 * (uint64_t)(parties)) /* the bytes of a region that a barrier takes */

/** A barrier, as one of its parties sees it. */
struct tarn_space_barrier {
    uint64_t step; /**< the number of times that this party, with its predecessors, has passed the barrier */
    uint32_t parties; /**< the number of parties that wait for each other */
    uint32_t missing; /**< after -ETIMEDOUT: the number of a party that had not arrived */

    /* the barrier's own */
    struct tarn_space_region *region;
    uint64_t offset; /* of its header in the region */
    uint32_t party;  /* the number of this one */
    bool has_arrived;
};

/**
 * Lay out a barrier in a region. No client uses these bytes until the call has returned.
 *
 * @param offset   a multiple of 8; the barrier takes TARN_SPACE_BARRIER_BYTES(parties)
 * @param parties  1 to TARN_SPACE_PARTIES_MAX
 * @return 0; -EINVAL. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_barrier_format(struct tarn_space_region *region, uint64_t offset,
                                                       uint32_t parties, uint64_t deadline_ns);

/**
 * Become one of the parties of a barrier. The caller sees to it that each number is one client's at a time.
 *
 * When a party dies, the calls of the others end with -ETIMEDOUT, and `missing` is its number. They go on when another client
 * has become the party of this number: its `step` continues where it stopped. If the dead party had arrived, the call
 * waits for the others, as that one would have.
 *
 * @param party  0 to the number of parties, less 1
 * @return 0; -EPROTO (no barrier is there); -EINVAL (it has no such party); -ETIMEDOUT (the dead party had arrived, and not
 *         all others have: `missing` alone is set). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_barrier_init(struct tarn_space_barrier *barrier,
                                                     struct tarn_space_region *region, uint64_t offset,
                                                     uint32_t party, uint64_t deadline_ns);

/**
 * Arrive, and wait until all parties have. What a party wrote before it arrived all parties read afterwards.
 *
 * After an error the party calls again, to go on waiting: it arrives once.
 *
 * @return 0; -ETIMEDOUT (not all have arrived: `missing`); -EBUSY (another client has become this party). Yields.
 * Source: RStore §V-A; differs: no coordinator, and each party reads all words (README, "Barriers and queues").
 */
TARN_API TARN_MUST_CHECK int tarn_space_barrier_wait(struct tarn_space_barrier *barrier,
                                                     uint64_t deadline_ns);

/* ---- queue -------------------------------------------------------------------------------------- */

#define TARN_SPACE_QUEUE_MAX (UINT32_C(1) << 30) /* the most items of a queue */
#define TARN_SPACE_QUEUE_BYTES(capacity)                                                                     \
    (64 + 16 * (uint64_t)(capacity)) /* the bytes of a region that a queue takes */

/** A queue, as one client sees it. */
struct tarn_space_queue {
    uint32_t capacity; /**< the number of items that it has room for */

    /* the queue's own */
    struct tarn_space_region *region;
    uint64_t offset;              /* of its header in the region */
    uint32_t client;              /* this client's number in the queue, which no other one has */
    uint64_t stalled_position;    /* the place in the queue whose producer is being waited for */
    uint64_t stalled_ns;          /* when that began; 0: no producer is being waited for */
    uint64_t taken_position;      /* the place in the queue of the item that is being taken */
    uint64_t taken_before, taken; /* the word of that place, before and after it is taken */
    uint64_t item;                /* the item there */
    bool is_taking;               /* it is not known yet whether the item was taken */
};

/**
 * Lay out an empty queue in a region. No client uses these bytes until the call has returned.
 *
 * @param offset    a multiple of 8; the queue takes TARN_SPACE_QUEUE_BYTES(capacity)
 * @param capacity  a power of two, 1 to TARN_SPACE_QUEUE_MAX
 * @return 0; -EINVAL. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_queue_format(struct tarn_space_region *region, uint64_t offset,
                                                     uint32_t capacity, uint64_t deadline_ns);

/** Begin to use a queue, as a producer, a consumer, or both. @return 0; -EPROTO (no queue is there). Yields. */
TARN_API TARN_MUST_CHECK int tarn_space_queue_init(struct tarn_space_queue *queue,
                                                   struct tarn_space_region *region, uint64_t offset,
                                                   uint64_t deadline_ns);

/**
 * Put an item at the end of a queue. What the caller wrote before is read by the consumer that is given the item.
 *
 * A producer that dies in this call leaves the item there, or a gap at which consumers stop for a second, once.
 *
 * @param item  any number
 * @param deadline_ns  a moment in the past: the call looks once
 * @return 0; -EAGAIN (the queue was full until the deadline; nothing was put there); after any other error the item may be
 *         there, or not. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_queue_push(struct tarn_space_queue *queue, uint64_t item,
                                                   uint64_t deadline_ns);

/**
 * Take the item at the head of a queue. Each item is given to one client, once, in the order of the queue.
 *
 * An item that a client has taken, or was taking in this call, when it died is lost: a program that must not lose work
 * notes elsewhere what is done. After an error the client calls again, and is then given the item that it was taking; only if
 * the queue has gone round once meanwhile, this is not known, and the item may be lost.
 *
 * @param deadline_ns  a moment in the past: the call looks once
 * @return 0; -EAGAIN (the queue was empty until the deadline). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_queue_pop(struct tarn_space_queue *queue, uint64_t deadline_ns,
                                                  uint64_t *ret_item);

#ifdef __cplusplus
}
#endif

#endif
