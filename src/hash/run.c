/*
 * Operations of clients. All operations of a batch take a step together (steps.c); what an operation needs beside, and seldom, it does alone
 * between two steps.
 */
#include "hash/step.h"

#define ROOMS_MAX 8u /* times that room is made for a key, before the index is to grow */

struct hash_batch {
    struct base_list link; /* in the client's list of those that nobody uses */
    struct hash_io io;
    uint32_t count;
    struct hash_step steps[HASH_BATCH];
    _Alignas(8) uint8_t near[HASH_BATCH][HASH_NEAR_BYTES];
};

/* Begin again, with the words. */
static void begin_words(const struct hash *hash, struct hash_step *step)
{
    step->session = hash->session;
    step->at = WORDS;
    step->is_second = false;
}

/* ---- what is done alone ------------------------------------------------------------------------- */

/* Have a slot for the record of a put, and the record as it is to be there. */
static int prepare_record(struct hash *hash, struct hash_step *step)
{
    const struct hash_op *op = step->op;
    uint64_t generation;
    if (op->kind != HASH_PUT || (step->address != UINT64_MAX && step->session == hash->session))
        return 0;
    step->address = UINT64_MAX;
    step->is_written = false;
    int error = hash_slot_take(hash, step->record_bytes, step->deadline_ns, &step->address, &generation);
    if (error != 0) {
        step->address = UINT64_MAX;
        return error;
    }
    step->session = hash->session;
    step->is_locked = false; /* what it held in the session before is its successor's */
    *step->record =
        (struct hash_record){.generation = generation,
                             .version = op->options.version != 0 ? op->options.version : generation,
                             .expiry_ns = op->options.expiry_ns,
                             .client_flags = op->options.client_flags,
                             .value_bytes = (uint32_t)op->value_len,
                             .key_bytes = (uint16_t)op->key_len,
                             .note = op->options.note,
                             .key = step->key};
    hash_record_seal(step->record, step->address);
    return 0;
}

/* Find out whether a swap has taken place whose outcome was lost. @return 0: go on; else what is told to the caller */
static int settle_swap(struct hash *hash, struct hash_step *step)
{
    const bool is_place = step->failed_at == PLACE;
    const uint32_t at = is_place ? step->place : step->found_at;
    const uint64_t before = is_place ? step->what.to_word : step->words[at];
    const struct tarn_space_op op = {.region = step->places.regions[at],
                                     .offset = step->places.at[at].slot * 8,
                                     .compare = before,
                                     .operand = step->new_word,
                                     .session = step->op->kind == HASH_PUT ? step->session : hash->session};
    const uint64_t end_ns = base_max(step->deadline_ns, task_now() + 2 * hash->shape.lease_ns);
    int error = hash_settle(hash, &op, hash_word_bumped(&hash->layout, before), end_ns);
    if (step->is_locked) {
        hash_intent_end(hash, step->session, step->intent, -EIO); /* the lock stays, until it is recovered */
        step->is_locked = false;
    }
    if (error == 0 && step->op->kind == HASH_DELETE)
        error = -ECONNRESET; /* a delete of another client leaves the same word */
    step->at = step->failed_at;
    if (error == 0) {
        hash_step_succeed(hash, step);
        hash_step_finish(step, 0);
    } else if (error == -EAGAIN) {
        step->at = ALONE;
        return 0;
    } else if (error == -ECONNRESET && step->op->kind == HASH_PUT) {
        hash_slot_use(hash, step->address); /* it is looked at later whether a word refers to it */
    }
    step->address =
        UINT64_MAX; /* else the swap may still arrive: the slot is not used any more by this client */
    return error == 0 ? 0 : -ECONNRESET;
}

/* A step has failed. @return 0: begin again; what is told to the caller */
static int meet_error(struct hash *hash, struct hash_step *step)
{
    const int error = step->error;
    if (step->is_locked || step->failed_at == LOCK || step->failed_at == INTENT)
        hash_intent_end(hash, step->session, step->intent, error);
    step->is_locked = false;
    if (step->failed_at == UNLOCK && step->outcome == 0) {
        hash_step_finish(step, 0);
        return 0;
    }
    if (!step->is_written) /* its record may still arrive */
        step->address = UINT64_MAX;
    if (error == -ENOMEM || error == -EBADMSG || error == -ETIMEDOUT || error == -ECANCELED ||
        error == -ENODATA)
        return error;
    if (task_back_off(&step->pause_ns, step->deadline_ns) != 0)
        return error == -ESTALE ? -ETIMEDOUT : error;
    /* a READ waits for a lease; without the head there is no store any more, and an index that is gone was replaced */
    return hash_learn_view(hash, step->deadline_ns);
}

static int make_room(struct hash *hash, struct hash_step *step)
{
    int error = ++step->rooms > ROOMS_MAX ? -ENOSPC : hash_make_room(hash, step->key, step->deadline_ns);
    if (error == -ENOSPC)
        error = hash_grow(hash, step->deadline_ns);
    if (error == -EAGAIN)
        error = task_back_off(&step->pause_ns, step->deadline_ns);
    return error != 0 ? error : hash_learn_view(hash, step->deadline_ns);
}

static int pause_step(struct hash *hash, struct hash_step *step)
{
    hash->stats.repeated++;
    return task_back_off(&step->pause_ns, step->deadline_ns);
}

static int do_what_is_alone(struct hash *hash, struct hash_step *step)
{
    int error = 0;
    switch (step->alone) {
    case AGAIN:
        return pause_step(hash, step);
    case AWAIT_LOCK:
        error = hash_await_lock(hash, step->lock, &step->seen, step->deadline_ns);
        return error != 0 ? error : pause_step(hash, step);
    case LEARN_SLAB:
        error = hash_slab_learn(hash, step->learn, step->deadline_ns);
        return error != 0 || step->misfits == 0 ? error : pause_step(hash, step);
    case LEARN_VIEW:
        return hash_learn_view(hash, step->deadline_ns);
    case MAKE_ROOM:
        return make_room(hash, step);
    case MEET_ERROR:
        return meet_error(hash, step);
    case SETTLE:
        return settle_swap(hash, step);
    }
    return 0;
}

/* Do what an operation needs between two steps, and have it begin again. */
static void run_alone(struct hash *hash, struct hash_step *step)
{
    hash_step_free_reads(hash, step);
    int error = do_what_is_alone(hash, step);
    if (error == 0 && step->at != DONE)
        error = hash_enter(hash, step->deadline_ns);
    if (error == 0 && step->at != DONE)
        error = prepare_record(hash, step);
    /* A session is over, or an index is gone that was replaced; or the store is. */
    if (error == -ESTALE && step->at != DONE) {
        error = hash_learn_view(hash, step->deadline_ns);
        if (error == 0 && task_now() < step->deadline_ns) {
            hash_step_alone(step, AGAIN); /* in the next session, which it enters first */
            return;
        }
        error = error == 0 ? -ETIMEDOUT : error;
    }
    if (step->at == DONE)
        return;
    if (error != 0)
        hash_step_finish(step, error);
    else
        begin_words(hash, step);
}

/* ---- batches ------------------------------------------------------------------------------------ */

static int check_op(const struct hash *hash, const struct hash_op *op)
{
    if (op->key_len == 0 || op->key_len > TARN_KEY_BYTES_MAX)
        return -EINVAL;
    if (op->kind == HASH_DELETE && op->options.condition != TARN_PUT_ANY &&
        op->options.condition != TARN_PUT_IF_VERSION)
        return -EINVAL;
    if (op->kind != HASH_PUT)
        return 0;
    if ((unsigned)op->options.condition > TARN_PUT_IF_VERSION || op->options.note > TARN_NOTE_MAX)
        return -EINVAL;
    const uint64_t room = hash->shape.slab_bytes - sizeof(struct hash_record);
    return op->key_len > room || op->value_len > room - op->key_len ? -EMSGSIZE : 0;
}

static void begin_step(struct hash *hash, struct hash_step *step, uint8_t *near, struct hash_op *op,
                       uint64_t deadline_ns)
{
    memset(step, 0, offsetof(struct hash_step, places));
    step->op = op;
    step->session = hash->session;
    step->deadline_ns = deadline_ns;
    step->address = UINT64_MAX;
    step->near = near;
    op->info = (struct tarn_record_info){.version = 0};
    op->record = op->replaced_bytes = 0;
    op->error = check_op(hash, op);
    if (op->error != 0) {
        step->at = DONE;
        return;
    }
    step->key = hash_key_of(&hash->shape, op->key, op->key_len);
    step->filter = hash_filter_of_key(&hash->layout, step->key);
    hash->stats.gets += op->kind == HASH_GET;
    hash->stats.puts += op->kind == HASH_PUT;
    hash->stats.deletes += op->kind == HASH_DELETE;
    if (op->kind != HASH_GET)
        step->lock = hash_lock_of(&hash->shape, step->key);
    if (op->kind != HASH_PUT)
        return;
    step->record_bytes = sizeof(struct hash_record) + op->key_len + op->value_len;
    step->record = base_alloc(&hash->node->memory, step->record_bytes);
    if (step->record == NULL) {
        hash_step_finish(step, -ENOMEM);
        return;
    }
    memcpy(step->record + 1, op->key, op->key_len);
    if (op->value_len > 0)
        memcpy((uint8_t *)(step->record + 1) + op->key_len, op->value, op->value_len);
    const int error = prepare_record(hash, step);
    if (error == -ESTALE)
        hash_step_alone(step, AGAIN);
    else if (error != 0)
        hash_step_finish(step, error);
}

static void end_step(struct hash *hash, struct hash_step *step)
{
    hash_step_free_reads(hash, step);
    if (step->address != UINT64_MAX && step->session == hash->session)
        hash_slot_give(hash, step->address, false);
    base_free(&hash->node->memory, step->record, step->record_bytes);
}

/* Take the next step of all operations. @return false: all are done */
static bool run_steps(struct hash *hash, struct hash_batch *batch)
{
    bool is_done = true, is_under_way = false;
    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->steps[i].at == ALONE && batch->steps[i].alone != MAKE_ROOM)
            run_alone(hash, &batch->steps[i]);
        is_under_way = is_under_way || (batch->steps[i].at != ALONE && batch->steps[i].at != DONE);
    }
    for (uint32_t i = 0; i < batch->count;
         i++) { /* one after the other: else each would take the room of the one before */
        if (batch->steps[i].at == ALONE && batch->steps[i].alone == MAKE_ROOM && !is_under_way) {
            run_alone(hash, &batch->steps[i]);
            is_under_way = batch->steps[i].at != ALONE && batch->steps[i].at != DONE;
        }
        is_done = is_done && batch->steps[i].at == DONE;
    }
    if (is_done)
        return false;
    batch->io.count = 0;
    uint64_t deadline_ns = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        hash_step_post(hash, &batch->io, &batch->steps[i]);
        deadline_ns = base_max(deadline_ns, batch->steps[i].deadline_ns);
    }
    if (batch->io.count > 0)
        (void)hash_io_run(hash, &batch->io, deadline_ns); /* each operation looks at its own */
    for (uint32_t i = 0; i < batch->count; i++)
        hash_step_take(hash, &batch->io, &batch->steps[i]);
    return true;
}

static struct hash_batch *take_batch(struct hash *hash)
{
    if (base_list_empty(&hash->free_batches))
        return base_alloc(&hash->node->memory, sizeof(struct hash_batch));
    return base_container_of(base_list_pop_front(&hash->free_batches), struct hash_batch, link);
}

void hash_free_batches(struct hash *hash)
{
    while (!base_list_empty(&hash->free_batches))
        base_free(&hash->node->memory,
                  base_container_of(base_list_pop_front(&hash->free_batches), struct hash_batch, link),
                  sizeof(struct hash_batch));
}

/* Run some operations. */
static void run_batch(struct hash *hash, struct hash_batch *batch, struct hash_op *ops, uint32_t count,
                      uint64_t deadline_ns)
{
    const uint32_t answered = hash->cache_bytes == 0 ? hash_glance(hash, ops, count) : 0;
    batch->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if ((answered >> i & 1) != 0)
            continue;
        begin_step(hash, &batch->steps[batch->count], batch->near[batch->count], &ops[i], deadline_ns);
        batch->count++;
    }
    while (run_steps(hash, batch)) {
    }
    for (uint32_t i = 0; i < batch->count; i++)
        end_step(hash, &batch->steps[i]);
}

/* Let a growth go on, as far as a client does that for each record that it stores. */
static void help_growth(struct hash *hash, const struct hash_op *ops, uint32_t count, uint64_t deadline_ns)
{
    int error = 0;
    for (uint32_t i = 0; i < count && (hash->view & 1) != 0 && error == 0; i++) {
        if (ops[i].kind == HASH_PUT && ops[i].error == 0)
            error =
                hash_help_growth(hash, deadline_ns); /* if it fails, others do it, or the next operation */
    }
}

void hash_run(struct hash *hash, struct hash_op *ops, size_t count, uint64_t deadline_ns)
{
    struct hash_batch *batch = take_batch(hash);
    int error = batch == NULL ? -ENOMEM : hash_enter(hash, deadline_ns);
    for (size_t done = 0; done < count; done += HASH_BATCH) {
        const uint32_t some = (uint32_t)base_min(count - done, (size_t)HASH_BATCH);
        for (uint32_t i = 0; i < some && error != 0; i++)
            ops[done + i].error = error;
        if (error == 0) {
            run_batch(hash, batch, ops + done, some, deadline_ns);
            help_growth(hash, ops + done, some, deadline_ns);
        }
    }
    if (batch != NULL)
        base_list_push_front(&hash->free_batches, &batch->link);
}
