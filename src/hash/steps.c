/* The steps of operations: what is posted, and what its outcome leads to. */
#include "hash/step.h"

#define MISFITS_MAX 200u /* times that a record does not fit its word, with pauses: then it is damaged */

/* ---- ends --------------------------------------------------------------------------------------- */

void hash_step_free_reads(struct hash *hash, struct hash_step *step)
{
    for (; step->reads != 0; step->reads &= step->reads - 1) {
        const unsigned i = (unsigned)__builtin_ctz(step->reads);
        if ((uint8_t *)step->read[i] != step->near)
            base_free(&hash->node->memory, step->read[i], step->read_bytes[i]);
    }
    step->found = NULL;
}

static bool is_overdue(const struct hash *hash, const struct hash_step *step)
{
    return task_now() - step->begin_ns > hash->shape.operation_ns;
}

static bool is_expired(const struct hash *hash, const struct hash_record *record)
{
    return record->expiry_ns != 0 && record->expiry_ns <= task_wall(hash->node);
}

/* ---- deciding ----------------------------------------------------------------------------------- */

/* Whether the condition of a put or a delete holds. @param record  what is there; NULL: nothing */
static int check_condition(const struct hash_op *op, const struct hash_record *record)
{
    const struct tarn_put_options *options = &op->options;
    if (record == NULL && (op->kind == HASH_DELETE || op->if_record != 0))
        return -ENOENT;
    if (record != NULL && op->if_record != 0 && record->generation != op->if_record)
        return -EEXIST;
    switch (options->condition) {
    case TARN_PUT_IF_ABSENT:
        return record == NULL ? 0 : -EEXIST;
    case TARN_PUT_IF_PRESENT:
        return record == NULL ? -ENOENT : 0;
    case TARN_PUT_IF_VERSION:
        return record == NULL ? -ENOENT : record->version == options->if_version ? 0 : -EEXIST;
    case TARN_PUT_ANY:
        break;
    }
    return 0;
}

void hash_answer_get(const struct hash *hash, struct hash_op *op, const struct hash_record *record)
{
    op->info = hash_record_info(record);
    op->record = record->generation;
    if (is_expired(hash, record)) {
        op->error = -ENOENT;
    } else if (record->value_bytes > op->room_bytes) {
        op->error = -ENOBUFS;
    } else {
        if (record->value_bytes > 0)
            memcpy(op->room, (const uint8_t *)(record + 1) + record->key_bytes, record->value_bytes);
        op->error = 0;
    }
}

/* The key is at a slot. */
static void act_on_found(struct hash *hash, struct hash_step *step)
{
    const uint64_t word = step->words[step->found_at];
    const bool is_there = !is_expired(hash, step->found);
    if (step->is_locked) { /* it came meanwhile: the lock is given back, and this begins again */
        step->outcome = -EAGAIN;
        step->at = UNLOCK;
        return;
    }
    if (is_overdue(hash, step)) {
        hash_step_alone(step, AGAIN);
        return;
    }
    if (step->op->kind == HASH_GET) {
        hash_answer_get(hash, step->op, step->found);
        step->at = DONE;
        return;
    }
    int error = check_condition(step->op, is_there ? step->found : NULL);
    if (error != 0) {
        hash_step_finish(step, error);
    } else if (hash_state_of(word) == HASH_FROZEN) {
        hash_step_alone(step, AWAIT_LOCK);
    } else {
        step->op->replaced_bytes =
            sizeof(*step->found) + step->found->key_bytes + (uint64_t)step->found->value_bytes;
        step->new_word = step->op->kind == HASH_DELETE
                             ? hash_word_cleared(hash, word, step->places.at[step->found_at].growth,
                                                 (uint32_t)(step->places.view / 2 + step->places.view % 2))
                             : hash_word(&hash->layout, word, HASH_LIVE, step->address,
                                         step->record->generation, step->filter);
        step->at = SWAP;
    }
}

/* The key is at none of the slots that were read. */
static void act_on_missing(struct hash *hash, struct hash_step *step)
{
    const bool is_new = step->op->kind == HASH_PUT && check_condition(step->op, NULL) == 0;
    if (step->is_locked) {
        step->op->replaced_bytes = 0;
        step->at = step->words[step->place] == step->what.to_word && step->view == step->places.view ? PLACE
                                                                                                     : UNLOCK;
        step->outcome = step->at == UNLOCK ? -EAGAIN : 0;
        return;
    }
    if (is_new) {
        step->place = 0;
        while (step->place < hash->shape.ranks && hash_state_of(step->words[step->place]) != HASH_EMPTY)
            step->place++;
        const bool is_replaced = hash_state_of(step->words[0]) == HASH_CLOSED;
        if (is_replaced)
            hash_step_alone(step, LEARN_VIEW);
        else if (step->place == hash->shape.ranks)
            hash_step_alone(step, MAKE_ROOM);
        else
            step->at = INTENT;
        return;
    }
    const bool is_same = step->is_second &&
                         memcmp(step->words, step->before, step->places.count * sizeof(step->words[0])) == 0;
    if (is_same && step->view == step->places.view) {
        if (is_overdue(hash, step))
            hash_step_alone(step, AGAIN);
        else
            hash_step_finish(step, -ENOENT);
    } else if (step->is_second && step->view != step->places.view) {
        hash_step_alone(step, LEARN_VIEW);
    } else {
        memcpy(step->before, step->words, sizeof(step->before));
        step->is_second = true;
        step->at = WORDS;
    }
}

/* Note a record to which a word refers. */
static void note_record(struct hash_step *step, uint32_t place, const struct hash_record *record)
{
    if (hash_record_has_key(record, step->key, step->op->key, step->op->key_len)) {
        step->found = record;
        step->found_at = place;
    } else {
        step->other[place] = step->words[place];
    }
}

/* Go on when all records of a step are known. */
static void decide(struct hash *hash, struct hash_step *step)
{
    if (step->found != NULL)
        act_on_found(hash, step);
    else
        act_on_missing(hash, step);
}

/* ---- steps -------------------------------------------------------------------------------------- */

static void post_words(struct hash *hash, struct hash_io *io, struct hash_step *step)
{
    if (!step->is_second)
        step->begin_ns = task_now();
    hash_step_free_reads(hash, step);
    if (step->op->kind == HASH_PUT && !step->is_written) {
        uint64_t offset;
        struct tarn_space_region *table = hash_table_of(hash, step->address, &offset);
        hash_io_write(hash, io, table, offset, step->record, step->record_bytes);
    }
    if (!step->is_second && !step->is_locked) {
        hash_places_of(hash, step->key, &step->places);
        memset(step->other, 0, step->places.count * sizeof(step->other[0]));
    }
    for (uint32_t i = 0; i < step->places.count; i++)
        hash_io_read(io, step->places.regions[i], step->places.at[i].slot * 8, &step->words[i],
                     sizeof(step->words[i]));
    if (step->is_second || step->is_locked)
        hash_io_read(io, hash->head, HASH_HEAD_VIEW, &step->view, sizeof(step->view));
}

/* Choose the records that are to be read. */
static void take_words(struct hash *hash, struct hash_step *step)
{
    step->is_written = true;
    step->at = RECORDS;
    for (uint32_t i = 0; i < step->places.count && step->found == NULL; i++) {
        const uint64_t word = step->words[i];
        if (!hash_has_record(word) || hash_filter_of(&hash->layout, word) != step->filter ||
            word == step->other[i])
            continue;
        const struct hash_record *cached = hash_cache_find(hash, word);
        if (cached != NULL) {
            note_record(step, i, cached);
            continue;
        }
        uint64_t offset;
        const uint64_t address = hash_address_of(&hash->layout, word), bytes = hash_slot_bytes(hash, address);
        if (bytes == 0 || hash_table_of(hash, address, &offset) == NULL) {
            step->learn = address;
            hash_step_alone(step, LEARN_SLAB);
            return;
        }
        step->read[i] = step->reads == 0 && bytes <= HASH_NEAR_BYTES
                            ? (struct hash_record *)(void *)step->near
                            : base_alloc(&hash->node->memory, bytes);
        step->read_bytes[i] = bytes;
        if (step->read[i] == NULL) {
            step->error = -ENOMEM;
            hash_step_alone(step, MEET_ERROR);
            return;
        }
        step->reads |= 1u << i;
    }
    if (step->found != NULL || step->reads == 0)
        decide(hash, step);
}

static void post_records(struct hash *hash, struct hash_io *io, struct hash_step *step)
{
    for (uint32_t i = 0; i < step->places.count; i++) {
        uint64_t offset;
        struct tarn_space_region *table =
            hash_table_of(hash, hash_address_of(&hash->layout, step->words[i]), &offset);
        if ((step->reads >> i & 1) != 0)
            hash_io_read(io, table, offset, step->read[i], step->read_bytes[i]);
    }
}

static void take_records(struct hash *hash, struct hash_step *step)
{
    for (uint32_t i = 0; i < step->places.count && step->found == NULL; i++) {
        if ((step->reads >> i & 1) == 0)
            continue;
        const struct hash_record *record = step->read[i];
        if (!hash_record_fits(&hash->layout, record, step->words[i], step->read_bytes[i])) {
            /* it was replaced meanwhile, or its slab has slots of another size */
            step->learn = hash_address_of(&hash->layout, step->words[i]);
            step->error = ++step->misfits > MISFITS_MAX ? -EBADMSG : 0;
            hash_step_alone(step, step->error != 0 ? MEET_ERROR : LEARN_SLAB);
            return;
        }
        hash_cache_keep(hash, step->words[i], record);
        note_record(step, i, record);
    }
    decide(hash, step);
    if (step->at != DONE && step->found == NULL)
        hash_step_free_reads(hash, step);
}

/* ---- storing what is new ------------------------------------------------------------------------ */

static void post_intent(struct hash *hash, struct hash_io *io, struct hash_step *step)
{
    const struct hash_place place = step->places.at[step->place];
    step->new_word = hash_word(&hash->layout, step->words[step->place], HASH_LIVE, step->address,
                               step->record->generation, step->filter);
    step->what = (struct hash_intent){.to_growth = (uint8_t)place.growth,
                                      .growth = (uint8_t)place.growth,
                                      .to_slot = place.slot,
                                      .to_word = step->words[step->place],
                                      .new_word = step->new_word};
    hash_intent_seal(&step->what);
    step->intent = hash_intent_take(hash);
    if (step->intent == HASH_INTENTS) {
        hash_step_alone(step, AGAIN); /* other operations have all of them */
        return;
    }
    hash_io_write(hash, io, hash->tables[0], hash_intent_at(hash_holder(hash, step->intent) - 1), &step->what,
                  sizeof(step->what));
    hash_io_read(io, hash->head, hash_lock_at(&hash->shape, step->lock), &step->lock_now,
                 sizeof(step->lock_now));
}

static void take_intent(struct hash *hash, struct hash_step *step)
{
    if (hash_lock_holder(step->lock_now) == 0) {
        step->at = LOCK;
        return;
    }
    hash_intent_end(hash, step->session, step->intent, 0);
    hash_step_alone(step, AWAIT_LOCK);
}

static void take_lock(struct hash *hash, struct hash_step *step, const struct tarn_space_op *swap)
{
    if (swap->before != step->lock_now) {
        hash_intent_end(hash, step->session, step->intent, 0);
        hash_step_alone(step, AWAIT_LOCK);
        return;
    }
    step->is_locked = true;
    step->is_second = false;
    step->at = WORDS;
}

/* A swap has stored, or removed, what it was to. */
void hash_step_succeed(struct hash *hash, struct hash_step *step)
{
    struct hash_op *op = step->op;
    if (op->kind == HASH_PUT) {
        hash_slot_use(hash, step->address);
        step->address = UINT64_MAX;
        op->info = hash_record_info(step->record);
        op->record = step->record->generation;
        hash_cache_keep(hash, step->new_word, step->record);
    }
    if (step->at == SWAP)
        hash_slot_give(hash, hash_address_of(&hash->layout, step->words[step->found_at]), true);
}

static void take_swap(struct hash *hash, struct hash_step *step, const struct tarn_space_op *swap)
{
    const bool is_done = swap->before == swap->compare;
    if (is_done)
        hash_step_succeed(hash, step);
    if (step->at == PLACE) {
        step->outcome = is_done ? 0 : -EAGAIN;
        step->at = UNLOCK;
    } else if (is_done) {
        hash_step_finish(step, 0);
    } else {
        hash_step_alone(step, AGAIN);
    }
}

static void take_unlock(struct hash *hash, struct hash_step *step)
{
    hash_intent_end(hash, step->session, step->intent, 0);
    step->is_locked = false;
    if (step->outcome == 0)
        hash_step_finish(step, 0);
    else
        hash_step_alone(step, step->view != step->places.view ? LEARN_VIEW : AGAIN);
}

/* ---- all steps ---------------------------------------------------------------------------------- */

void hash_step_post(struct hash *hash, struct hash_io *io, struct hash_step *step)
{
    step->first = io->count;
    step->io_count = 0;
    if (step->at < ALONE &&
        step->session !=
            hash->session) { /* another task has begun the next session: nothing of it is this one's */
        step->error = -ESTALE;
        step->failed_at = step->at;
        hash_step_alone(step, MEET_ERROR);
        return;
    }
    switch (step->at) {
    case WORDS:
        post_words(hash, io, step);
        break;
    case RECORDS:
        post_records(hash, io, step);
        break;
    case SWAP:
        hash_io_swap(hash, io, step->places.regions[step->found_at], step->places.at[step->found_at].slot * 8,
                     step->words[step->found_at], step->new_word);
        break;
    case INTENT:
        post_intent(hash, io, step);
        break;
    case LOCK:
        step->lock_word = hash_lock_word(step->lock_now, hash_holder(hash, step->intent));
        hash_io_swap(hash, io, hash->head, hash_lock_at(&hash->shape, step->lock), step->lock_now,
                     step->lock_word);
        break;
    case PLACE:
        hash_io_swap(hash, io, step->places.regions[step->place], step->what.to_slot * 8, step->what.to_word,
                     step->what.new_word);
        break;
    case UNLOCK:
        hash_io_swap(hash, io, hash->head, hash_lock_at(&hash->shape, step->lock), step->lock_word,
                     hash_lock_word(step->lock_word, 0));
        break;
    case ALONE:
    case DONE:
        break;
    }
    step->io_count = io->count - step->first;
}

void hash_step_take(struct hash *hash, struct hash_io *io, struct hash_step *step)
{
    const struct tarn_space_op *ops = &io->ops[step->first];
    if (step->io_count == 0)
        return;
    for (uint32_t i = 0; i < step->io_count; i++) {
        if (ops[i].result != 0) {
            const bool is_swap = step->at == SWAP || step->at == PLACE;
            step->error = ops[i].result;
            step->failed_at = step->at;
            hash_step_alone(step, is_swap ? SETTLE : MEET_ERROR);
            return;
        }
    }
    switch (step->at) {
    case WORDS:
        take_words(hash, step);
        break;
    case RECORDS:
        take_records(hash, step);
        break;
    case SWAP:
    case PLACE:
        take_swap(hash, step, ops);
        break;
    case INTENT:
        take_intent(hash, step);
        break;
    case LOCK:
        take_lock(hash, step, ops);
        break;
    case UNLOCK:
        take_unlock(hash, step);
        break;
    case ALONE:
    case DONE:
        break;
    }
}
