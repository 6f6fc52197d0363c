/*
 * Growth: an index of twice as many slots takes the place of one, while clients go on. README, "Growth".
 *
 *   view 2g ── the index g + 1 is there: the next view is swapped in ──▶ 2g + 1: keys are in either ── all slots of index g are closed ──▶ 2g + 2
 */
#include "hash/hash_internal.h"
#include <inttypes.h>
#include <stdio.h>

#define SLICE        16u /* slots that a client takes on for each record that it stores */
#define CHECK_WORDS  1024u
#define GROWTH_SHIFT 40u

/* ---- making an index ---------------------------------------------------------------------------- */

static uint64_t index_at(uint32_t growth)
{
    return HASH_HEAD_INDEXES + UINT64_C(8) * growth;
}

static void name_index(const struct hash *hash, uint32_t growth, uint64_t attempt, char *ret_name)
{
    (void)snprintf(ret_name, TARN_SPACE_NAME_MAX + 1, "%s.index.%u.%" PRIu64, hash->name, growth, attempt);
}

void hash_remove_index(struct hash *hash, uint32_t growth, uint64_t attempt, uint64_t deadline_ns)
{
    char name[TARN_SPACE_NAME_MAX + 1];
    struct tarn_space_region *region;
    name_index(hash, growth, attempt, name);
    if (tarn_space_find(hash->of, name, deadline_ns, &region) == 0)
        hash_discard(region, deadline_ns);
}

/* Make an index in the attempt that this client has been the first to claim. */
static int make_claimed(struct hash *hash, uint32_t growth, uint64_t claim, uint64_t deadline_ns)
{
    const uint64_t bytes = hash_slots(&hash->shape, growth) * 8;
    char name[TARN_SPACE_NAME_MAX + 1];
    struct tarn_space_region *region;
    struct tarn_space_info info;
    name_index(hash, growth, claim >> 2, name);
    hash_remove_index(hash, growth, (claim >> 2) - 1, deadline_ns);
    int error = hash_alloc(hash, name, bytes, true, NULL, deadline_ns, &region);
    if (error !=
        0) /* -EEXIST: the claim's outcome was lost, and it is another client's; or the region's, and it is nobody's */
        return error == -EEXIST ? -EAGAIN : error;
    error = hash_zero(hash, region, bytes, deadline_ns);
    const bool is_zero = error == 0;
    tarn_space_info(region, &info);
    if (error == 0)
        error = hash->session != 0
                    ? hash_swap(hash, hash->session, hash->head, index_at(growth), claim,
                                info.address | HASH_IS_THERE, claim, deadline_ns)
                    : tarn_space_write_at(hash->head, index_at(growth),
                                          &(uint64_t){info.address | HASH_IS_THERE}, 8, deadline_ns);
    if (is_zero ? error == -EAGAIN : error != 0) /* no word tells where it is, and none will */
        error = base_min(error, tarn_space_free(region, deadline_ns));
    tarn_space_drop(region);
    return error;
}

int hash_make_index(struct hash *hash, uint32_t growth, uint64_t deadline_ns)
{
    uint64_t word = 0, seen = 0, since_ns = task_now(), pause_ns = 0;
    int error = 0;
    if (growth ==
        0) { /* by the maker of the store, which nobody else sees yet: named after its head, so that no other maker's is in the way */
        struct tarn_space_info info;
        tarn_space_info(hash->head, &info);
        return make_claimed(hash, growth, (uint64_t)info.number << 2 | HASH_IS_TAKEN, deadline_ns);
    }
    for (;;) {
        error = hash_read(hash->head, index_at(growth), &word, sizeof(word), deadline_ns);
        if (error != 0 || (word & HASH_IS_THERE) != 0)
            return error;
        if (word != seen) {
            seen = word;
            since_ns = task_now();
        }
        if (word == 0 ||
            task_now() - since_ns >
                10 * hash->shape.lease_ns) { /* nobody is at it, or a client that is slow or gone */
            const uint64_t claim = ((word >> 2) + 1) << 2 | HASH_IS_TAKEN;
            error =
                hash_swap(hash, hash->session, hash->head, index_at(growth), word, claim, claim, deadline_ns);
            if (error == 0) {
                error = make_claimed(hash, growth, claim, deadline_ns);
                if (error != 0 && error != -EAGAIN)
                    return error;
            } else if (error != -EAGAIN && error != -ECONNRESET) {
                return error;
            }
        }
        error = task_back_off(&pause_ns, deadline_ns);
        if (error != 0)
            return error;
    }
}

int hash_grow(struct hash *hash, uint64_t deadline_ns)
{
    const uint64_t view = hash->view;
    int error = 0;
    if ((view & 1) == 0 && view / 2 + 1 < HASH_GROWTHS_MAX) {
        error = hash_make_index(hash, (uint32_t)(view / 2 + 1), deadline_ns);
        if (error == 0)
            error = hash_swap(hash, hash->session, hash->head, HASH_HEAD_VIEW, view, view + 1, view + 1,
                              deadline_ns);
        if (error == -ENOSPC)
            base_error_limited(
                &hash->node->log, &hash->full_limit,
                "the index of a hash store is full, and the space has no memory for a larger one",
                "store=\"%s\" slots=%" PRIu64 " remedy=\"add memory servers, or remove records\"", hash->name,
                hash_slots(&hash->shape, (uint32_t)(view / 2)));
    } else if ((view & 1) != 0) { /* the larger one is full before all keys are in it: go on with those */
        error = hash_help_growth(hash, deadline_ns);
    } else {
        error = -ENOSPC;
    }
    if (error == 0 || error == -EAGAIN || error == -ECONNRESET)
        error = hash_learn_view(hash, deadline_ns);
    return error;
}

/* ---- moving to it ------------------------------------------------------------------------------- */

/* Move the key at a slot of the old index to the new one. @return 0; -EAGAIN: look again; errors */
static int move_key(struct hash *hash, struct hash_place from, uint64_t word, uint64_t deadline_ns)
{
    struct hash_record record;
    uint64_t offset, to_word = 0;
    const uint64_t address = hash_address_of(&hash->layout, word);
    struct tarn_space_region *table = hash_table_of(hash, address, &offset);
    if (table == NULL) {
        int error = hash_slab_learn(hash, address, deadline_ns);
        return error != 0 ? error : -EAGAIN;
    }
    int error = hash_read(table, offset, &record, sizeof(record), deadline_ns);
    if (error != 0)
        return error;
    if (!hash_header_fits(&hash->layout, &record, word))
        return -EAGAIN; /* it was replaced meanwhile */
    if (hash_state_of(word) == HASH_FROZEN)
        return -EBUSY;
    for (uint32_t rank = 0; rank < hash->shape.ranks; rank++) {
        const struct hash_place to = {.growth = from.growth + 1,
                                      .slot = hash_slot_of(&hash->shape, record.key, from.growth + 1, rank)};
        error = hash_read(hash_index(hash, to.growth), to.slot * 8, &to_word, 8, deadline_ns);
        if (error != 0)
            return error;
        if (hash_state_of(to_word) == HASH_EMPTY)
            return hash_move(hash, record.key, from, word, to, to_word, deadline_ns);
    }
    error = hash_make_room(hash, record.key, deadline_ns);
    return error == 0 ? -EAGAIN : error;
}

/* Find the lock that keeps a word frozen, and recover it when it has expired. */
static int await_word(struct hash *hash, uint64_t word, struct hash_lock_seen *seen, uint64_t deadline_ns)
{
    struct hash_record record;
    uint64_t offset;
    struct tarn_space_region *table = hash_table_of(hash, hash_address_of(&hash->layout, word), &offset);
    int error = hash_read(table, offset, &record, sizeof(record), deadline_ns);
    return error != 0 ? error
                      : hash_await_lock(hash, hash_lock_of(&hash->shape, record.key), seen, deadline_ns);
}

/* Close a slot of the old index. */
static int close_slot(struct hash *hash, struct hash_place at, uint64_t deadline_ns)
{
    struct tarn_space_region *index = hash_index(hash, at.growth);
    struct hash_lock_seen seen = {.word = 0};
    uint64_t word = 0, pause_ns = 0;
    int error = 0;
    for (;;) {
        error = hash_read(index, at.slot * 8, &word, sizeof(word), deadline_ns);
        if (error != 0 || hash_state_of(word) == HASH_CLOSED)
            return error;
        if (hash_state_of(word) == HASH_EMPTY) {
            const uint64_t closed = hash_word_without(&hash->layout, word, HASH_CLOSED);
            error = hash_swap(hash, hash->session, index, at.slot * 8, word, closed, closed, deadline_ns);
            hash->stats.grown += error == 0;
        } else {
            error = move_key(hash, at, word, deadline_ns);
            hash->stats.grown += error == 0;
            if (error == -EBUSY)
                error = await_word(hash, word, &seen, deadline_ns);
        }
        if (error != 0 && error != -EAGAIN && error != -ECONNRESET)
            return error;
        if (error == -EAGAIN && task_back_off(&pause_ns, deadline_ns) != 0)
            return -ETIMEDOUT;
    }
}

/* See that all slots of the old index are closed, and end the growth. */
static int end_growth(struct hash *hash, uint64_t view, uint64_t deadline_ns)
{
    uint64_t words[CHECK_WORDS];
    const uint32_t growth = (uint32_t)(view / 2);
    struct tarn_space_region *index = hash_index(hash, growth);
    const uint64_t slots = hash_slots(&hash->shape, growth);
    int error = 0;
    for (uint64_t first = 0; first < slots && error == 0; first += CHECK_WORDS) {
        const uint64_t count = base_min(slots - first, (uint64_t)CHECK_WORDS);
        error = hash_read_words(hash, index, first * 8, words, count, deadline_ns);
        for (uint64_t i = 0; i < count && error == 0; i++) {
            if (hash_state_of(words[i]) != HASH_CLOSED) /* a client that took it on was slow, or is gone */
                error =
                    close_slot(hash, (struct hash_place){.growth = growth, .slot = first + i}, deadline_ns);
        }
    }
    if (error == 0)
        error =
            hash_swap(hash, hash->session, hash->head, HASH_HEAD_VIEW, view, view + 1, view + 1, deadline_ns);
    if (error == 0)
        error = tarn_space_free(index, deadline_ns); /* others hold it until they have seen the next view */
    return error == -EAGAIN || error == -ECONNRESET || error == -ENOENT ? 0 : error;
}

int hash_help_growth(struct hash *hash, uint64_t deadline_ns)
{
    const uint64_t view = hash->view;
    const uint32_t growth = (uint32_t)(view / 2);
    uint64_t cursor = 0;
    if ((view & 1) == 0)
        return 0;
    int error = hash_read(hash->head, HASH_HEAD_CURSOR, &cursor, sizeof(cursor), deadline_ns);
    if (error != 0)
        return error;
    const uint64_t first =
        cursor >> GROWTH_SHIFT == growth ? cursor & ((UINT64_C(1) << GROWTH_SHIFT) - 1) : 0;
    if (cursor >> GROWTH_SHIFT > growth)
        return hash_learn_view(hash, deadline_ns);
    if (first >= hash_slots(&hash->shape, growth)) {
        error = task_mutex_lock(&hash->control, deadline_ns);
        if (error != 0)
            return error;
        error = hash->view == view ? end_growth(hash, view, deadline_ns) : 0;
        task_mutex_unlock(&hash->control);
        return error != 0 ? error : hash_learn_view(hash, deadline_ns);
    }
    const uint64_t next = (uint64_t)growth << GROWTH_SHIFT | (first + SLICE);
    error = hash_swap(hash, hash->session, hash->head, HASH_HEAD_CURSOR, cursor, next, next, deadline_ns);
    for (uint64_t slot = first; slot < first + SLICE && error == 0; slot++)
        error = close_slot(hash, (struct hash_place){.growth = growth, .slot = slot}, deadline_ns);
    return error == -EAGAIN || error == -ECONNRESET ? 0 : error;
}
