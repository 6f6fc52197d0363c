/*
 * A queue: a ring of slots of two words, which clients change by CAS alone. Positions count up and wrap around; position p is in
 * slot p % capacity, in its turn p / capacity. README, "Barriers and queues", has the protocol.
 */
#include "space/sync.h"
#include <errno.h>

#define MAGIC      UINT64_C(0x3145554555514152) /* "RAQUEUE1" */
#define SLOT_BYTES UINT64_C(16)
#define PATIENCE_NS                                                                                          \
    BASE_NS_PER_SECOND /* before a producer is taken for dead; one that is not puts its item elsewhere */
#define TRIES 64       /* slots that a call looks at, at least, after its deadline */

/* The upper half of a word: four times the turn, and what the word says of it. Tags of later turns are greater, as far as wrapping
 * around allows. The lower half has 32 bits of the item or, of TAKEN, the consumer's number. */
enum tag {
    VOID = 0,  /* second word: nobody gets anything in this turn */
    FULL = 1,  /* first word: a producer has claimed the turn; second word: the item is there */
    TAKEN = 2, /* second word: a consumer has the item */
};

struct slot {
    uint64_t words[2]; /* as they were when they were read, in any order */
    uint32_t tag;      /* of VOID in the turn of the position in question */
    uint64_t offset;   /* of the words in the region */
};

static uint64_t word_of(uint32_t tag, uint64_t low)
{
    return (uint64_t)tag << 32 | (uint32_t)low;
}

static uint32_t tag_of(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

/* Whether a word is of a turn before that of the slot. */
static bool is_older(const struct slot *slot, uint64_t word)
{
    return (int32_t)(tag_of(word) - slot->tag) < 0;
}

static struct slot slot_at(const struct tarn_space_queue *queue, uint64_t position)
{
    const uint64_t number = position & (queue->capacity - 1);
    return (struct slot){.tag = (uint32_t)(position / queue->capacity) * 4,
                         .offset = queue->offset + SYNC_HEADER_BYTES + number * SLOT_BYTES};
}

static int load_slot(const struct tarn_space_queue *queue, uint64_t position, uint64_t deadline_ns,
                     struct slot *ret_slot)
{
    *ret_slot = slot_at(queue, position);
    return sync_load(queue->region, ret_slot->offset, 2, deadline_ns, ret_slot->words);
}

/* Move the head or the tail on from a position that is done with, or learn how far another client has moved it. */
static int move_on(const struct tarn_space_queue *queue, enum sync_word which, uint64_t deadline_ns,
                   uint64_t *position)
{
    uint64_t before;
    int error =
        sync_cas(queue->region, queue->offset + which, *position, *position + 1, deadline_ns, &before);
    if (error == 0)
        *position = before == *position ? before + 1 : before;
    return error;
}

static int load_position(const struct tarn_space_queue *queue, enum sync_word which, uint64_t deadline_ns,
                         uint64_t *ret_position)
{
    return sync_load(queue->region, queue->offset + which, 1, deadline_ns, ret_position);
}

/* Pause before a queue that is full, empty or stalled is looked at again. @return 0; -EAGAIN; -ECANCELED; errors of sync_load() */
static int look_again(const struct tarn_space_queue *queue, enum sync_word which, uint64_t deadline_ns,
                      uint64_t *pause_ns, uint64_t *ret_position)
{
    int error = task_back_off(pause_ns, deadline_ns);
    if (error == 0)
        error = load_position(queue, which, deadline_ns, ret_position);
    return error == -ETIMEDOUT ? -EAGAIN : error;
}

/* ---- a queue ------------------------------------------------------------------------------------ */

int tarn_space_queue_format(struct tarn_space_region *region, uint64_t offset, uint32_t capacity,
                            uint64_t deadline_ns)
{
    if (!base_is_power_of_two(capacity) || capacity > TARN_SPACE_QUEUE_MAX)
        return -EINVAL;
    /* zeros say that turn 0 is void: the first position is that of turn 1 */
    return sync_format(region, offset, MAGIC, capacity, SLOT_BYTES, capacity, deadline_ns);
}

int tarn_space_queue_init(struct tarn_space_queue *queue, struct tarn_space_region *region, uint64_t offset,
                          uint64_t deadline_ns)
{
    struct tarn_space_queue self = {.region = region, .offset = offset};
    uint64_t clients = 0, before = 0;
    int error =
        sync_open(region, offset, MAGIC, TARN_SPACE_QUEUE_MAX, SLOT_BYTES, deadline_ns, &self.capacity);
    if (error == 0 && !base_is_power_of_two(self.capacity))
        error = -EPROTO;
    do { /* where the outcome is lost, so is a number */
        if (error == 0)
            error = sync_load(region, offset + SYNC_CLIENTS, 1, deadline_ns, &clients);
        if (error == 0)
            error = sync_cas(region, offset + SYNC_CLIENTS, clients, clients + 1, deadline_ns, &before);
    } while (error == 0 && before != clients);
    self.client = (uint32_t)clients;
    if (error == 0)
        *queue = self;
    return error;
}

/* ---- pushing ------------------------------------------------------------------------------------ */

/* Claim the turn of a free slot, and put an item there. @param ret_is_done  false: another producer has claimed it, or a
 * consumer has taken this one for dead */
static int fill_slot(const struct tarn_space_queue *queue, const struct slot *slot, uint64_t item,
                     uint64_t deadline_ns, bool *ret_is_done)
{
    const uint64_t first = word_of(slot->tag + FULL, item >> 32), second = word_of(slot->tag + FULL, item);
    uint64_t before;
    *ret_is_done = false;
    int error = sync_cas(queue->region, slot->offset, slot->words[0], first, deadline_ns, &before);
    if (error != 0 || before != slot->words[0]) /* where the outcome was lost the turn becomes void */
        return error;
    error = sync_cas(queue->region, slot->offset + 8, slot->words[1], second, deadline_ns, &before);
    if (error != 0)
        return error;
    const uint32_t told = tag_of(before) - slot->tag;
    *ret_is_done = before == slot->words[1] || told == FULL || told == TAKEN;
    return *ret_is_done || told == VOID ? 0 : -EHOSTUNREACH; /* the outcome is not known any more */
}

int tarn_space_queue_push(struct tarn_space_queue *queue, uint64_t item, uint64_t deadline_ns)
{
    uint64_t tail, pause_ns = 0;
    struct slot slot;
    bool is_done = false;
    int error = load_position(queue, SYNC_TAIL, deadline_ns, &tail);
    for (unsigned tries = 0; error == 0 && !is_done; tries++) {
        if (tries >= TRIES && task_now() >= deadline_ns)
            return -EAGAIN;
        error = load_slot(queue, tail, deadline_ns, &slot);
        if (error != 0)
            return error;
        const uint32_t last =
            slot.tag - tag_of(slot.words[1]); /* 4 - TAKEN or 4 - VOID: the turn before has ended */
        if (!is_older(&slot, slot.words[0]) || !is_older(&slot, slot.words[1]))
            error = move_on(queue, SYNC_TAIL, deadline_ns, &tail);
        else if (last == 4 - TAKEN || last == 4 - VOID)
            error = fill_slot(queue, &slot, item, deadline_ns, &is_done);
        else
            error = look_again(queue, SYNC_TAIL, deadline_ns, &pause_ns, &tail);
    }
    if (is_done) /* the next producer would do it, too */
        (void)move_on(queue, SYNC_TAIL, deadline_ns, &tail);
    return error;
}

/* ---- popping ------------------------------------------------------------------------------------ */

/* Take the item that is noted in the queue. @param ret_is_done  false: another consumer has it */
static int take_noted(struct tarn_space_queue *queue, uint64_t deadline_ns, bool *ret_is_done)
{
    const struct slot slot = slot_at(queue, queue->taken_position);
    uint64_t before;
    int error =
        sync_cas(queue->region, slot.offset + 8, queue->taken_before, queue->taken, deadline_ns, &before);
    if (error == 0) {
        queue->is_taking = false;
        *ret_is_done = before == queue->taken_before || before == queue->taken;
    }
    return error;
}

/* Take the item of a full slot. */
static int take_item(struct tarn_space_queue *queue, uint64_t position, const struct slot *slot,
                     uint64_t deadline_ns, bool *ret_is_done)
{
    queue->taken_position = position;
    queue->taken_before = slot->words[1];
    queue->taken = word_of(slot->tag + TAKEN, queue->client);
    queue->item = slot->words[0] << 32 | (uint32_t)slot->words[1];
    queue->is_taking = true;
    return take_noted(queue, deadline_ns, ret_is_done);
}

/* Wait for a producer that has claimed a turn, and make it void if the item does not come. */
static int await_item(struct tarn_space_queue *queue, uint64_t deadline_ns, uint64_t *pause_ns,
                      const struct slot *slot, uint64_t *head)
{
    uint64_t before;
    if (queue->stalled_ns == 0 || queue->stalled_position != *head) {
        queue->stalled_position = *head;
        queue->stalled_ns = task_now();
    }
    if (task_now() - queue->stalled_ns < PATIENCE_NS)
        return look_again(queue, SYNC_HEAD, deadline_ns, pause_ns, head);
    return sync_cas(queue->region, slot->offset + 8, slot->words[1], word_of(slot->tag + VOID, 0),
                    deadline_ns, &before);
}

/* Look at the slot at the head once, and do what is to be done. */
static int look_at_head(struct tarn_space_queue *queue, uint64_t deadline_ns, uint64_t *pause_ns,
                        uint64_t *head, bool *ret_is_done)
{
    struct slot slot;
    int error = load_slot(queue, *head, deadline_ns, &slot);
    if (error != 0)
        return error;
    const uint32_t full = slot.tag + FULL;
    const bool is_claimed = tag_of(slot.words[0]) == full;
    if (is_claimed && tag_of(slot.words[1]) == full)
        error = take_item(queue, *head, &slot, deadline_ns, ret_is_done);
    else if (!is_older(&slot, slot.words[1]) && tag_of(slot.words[1]) != full)
        error = move_on(queue, SYNC_HEAD, deadline_ns, head);
    else if (is_claimed)
        error = await_item(queue, deadline_ns, pause_ns, &slot, head);
    else if (is_older(&slot, slot.words[0]) && is_older(&slot, slot.words[1]))
        error = look_again(queue, SYNC_HEAD, deadline_ns, pause_ns, head);
    return error; /* else the words are of different moments */
}

int tarn_space_queue_pop(struct tarn_space_queue *queue, uint64_t deadline_ns, uint64_t *ret_item)
{
    uint64_t head, pause_ns = 0;
    bool is_done = false;
    int error = queue->is_taking ? take_noted(queue, deadline_ns, &is_done) : 0;
    if (error == 0 && !is_done)
        error = load_position(queue, SYNC_HEAD, deadline_ns, &head);
    for (unsigned tries = 0; error == 0 && !is_done; tries++) {
        if (tries >= TRIES && task_now() >= deadline_ns)
            return -EAGAIN;
        error = look_at_head(queue, deadline_ns, &pause_ns, &head, &is_done);
    }
    if (error != 0)
        return error;
    *ret_item = queue->item;
    uint64_t position = queue->taken_position;
    (void)move_on(queue, SYNC_HEAD, deadline_ns, &position); /* the next consumer would do it, too */
    return 0;
}
