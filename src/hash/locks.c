/* Locks and what is done under them: intents, recovery, and moving keys to other slots of theirs. */
#include "hash/hash_internal.h"

#define NODES_MAX                                                                                            \
    4096u /* slots that are looked at for a way to an empty one: with three slots a key, up to a load of 0.9 there is one */
#define MOVES_MAX 32u   /* keys that are moved along such a way */
#define LEVEL_MAX 32u   /* slots whose keys are read in one step */
#define BUCKETS   1024u /* of those slots, to find them again */

/* ---- intents and locks -------------------------------------------------------------------------- */

uint32_t hash_intent_take(struct hash *hash)
{
    for (uint32_t i = 0; i < HASH_INTENTS; i++) {
        if ((hash->intents & 1u << i) == 0) {
            hash->intents |= 1u << i;
            return i;
        }
    }
    return HASH_INTENTS;
}

void hash_intent_end(struct hash *hash, uint64_t session, uint32_t intent, int error)
{
    if (session != hash->session)
        return;
    if (error != 0 && error != -EAGAIN) {
        hash->lost_intents |= 1u << intent;
        return;
    }
    hash->intents &= ~(1u << intent);
    hash->lost_intents &= ~(1u << intent);
}

int hash_intent_write(struct hash *hash, uint64_t session, uint32_t intent, struct hash_intent *what,
                      uint64_t deadline_ns)
{
    hash_intent_seal(what);
    return hash_write(hash, session, hash->tables[0], hash_intent_at(hash_holder(hash, intent) - 1), what,
                      sizeof(*what), deadline_ns);
}

/* Swap a lock's word. What it is not any more, this client does not hold. @return 0; -EAGAIN; errors */
static int swap_lock(struct hash *hash, uint64_t session, uint32_t lock, uint64_t before, uint64_t after,
                     uint64_t deadline_ns)
{
    int error = hash_swap(hash, session, hash->head, hash_lock_at(&hash->shape, lock), before, after, after,
                          deadline_ns);
    return error == -ECONNRESET ? -EAGAIN : error;
}

void hash_lock_give(struct hash *hash, uint64_t session, uint32_t lock, uint32_t intent, uint64_t word,
                    uint64_t deadline_ns)
{
    hash_intent_end(hash, session, intent,
                    swap_lock(hash, session, lock, word, hash_lock_word(word, 0), deadline_ns));
}

int hash_lock_take(struct hash *hash, uint64_t session, uint32_t lock, uint32_t intent, uint64_t deadline_ns,
                   uint64_t *ret_word)
{
    uint64_t word = 0;
    int error = hash_read(hash->head, hash_lock_at(&hash->shape, lock), &word, sizeof(word), deadline_ns);
    if (error != 0 || hash_lock_holder(word) != 0)
        return error != 0 ? error : -EAGAIN;
    *ret_word = hash_lock_word(word, hash_holder(hash, intent));
    return swap_lock(hash, session, lock, word, *ret_word, deadline_ns);
}

int hash_await_lock(struct hash *hash, uint32_t lock, struct hash_lock_seen *seen, uint64_t deadline_ns)
{
    uint64_t word = 0;
    int error = hash_read(hash->head, hash_lock_at(&hash->shape, lock), &word, sizeof(word), deadline_ns);
    if (error != 0)
        return error;
    const uint64_t now = task_now();
    if (word != seen->word || seen->since_ns == 0)
        *seen = (struct hash_lock_seen){.word = word, .since_ns = now};
    if (hash_lock_holder(word) == 0 || now - seen->since_ns < hash->shape.lease_ns)
        return 0;
    error = hash_recover(hash, lock, word, deadline_ns);
    return error == -EAGAIN ? 0 : error;
}

/* ---- recovery ----------------------------------------------------------------------------------- */

/* The words through which a move goes. */
struct move_words {
    uint64_t frozen;      /* the source, once it is frozen … */
    uint64_t cleared;     /* … and once its key has gone … */
    uint64_t thawed_back; /* … or has stayed */
    uint64_t set;         /* the destination, once it has the record … */
    uint64_t thawed;      /* … and when all is done */
};

static struct move_words words_of_move(const struct hash *hash, const struct hash_intent *intent)
{
    const struct hash_layout *layout = &hash->layout;
    struct move_words words = {.frozen = hash_word_of(layout, intent->word, HASH_FROZEN, intent->word)};
    words.cleared = hash_word_cleared(hash, words.frozen, intent->growth, intent->to_growth);
    words.thawed_back = hash_word_of(layout, words.frozen, HASH_LIVE, words.frozen);
    words.set = hash_word_of(layout, intent->to_word, HASH_FROZEN, words.frozen);
    words.thawed = hash_word_of(layout, words.set, HASH_LIVE, words.set);
    return words;
}

/* Swap a word from one to another, until it is not the first any more. @return 0; errors */
static int force_word(struct hash *hash, uint64_t session, struct tarn_space_region *index, uint64_t slot,
                      uint64_t before, uint64_t after, uint64_t deadline_ns)
{
    int error;
    do
        error = hash_swap(hash, session, index, slot * 8, before, after, after, deadline_ns);
    while (error == -ECONNRESET);
    return error == -EAGAIN ? 0 : error;
}

/* Finish or undo a move, whatever has been done of it; nobody else holds its lock. */
static int recover_move(struct hash *hash, uint64_t session, const struct hash_intent *intent,
                        struct tarn_space_region *from, struct tarn_space_region *to, uint64_t deadline_ns)
{
    const struct move_words words = words_of_move(hash, intent);
    uint64_t found = 0;
    int error = force_word(hash, session, from, intent->slot, intent->word,
                           hash_word_bumped(&hash->layout, intent->word), deadline_ns);
    if (error == 0)
        error = force_word(hash, session, to, intent->to_slot, intent->to_word,
                           hash_word_bumped(&hash->layout, intent->to_word), deadline_ns);
    if (error == 0)
        error = hash_read(to, intent->to_slot * 8, &found, sizeof(found), deadline_ns);
    if (error != 0)
        return error;
    if (found != words.set) /* a thawed destination is another word, and its source is not frozen any more */
        return force_word(hash, session, from, intent->slot, words.frozen, words.thawed_back, deadline_ns);
    error = force_word(hash, session, from, intent->slot, words.frozen, words.cleared, deadline_ns);
    return error != 0 ? error
                      : force_word(hash, session, to, intent->to_slot, words.set, words.thawed, deadline_ns);
}

/* The index of a growth; NULL: it was replaced, and may be gone. */
static struct tarn_space_region *index_of_view(const struct hash *hash, uint32_t growth)
{
    return growth < hash->view / 2 ? NULL : hash_index(hash, growth);
}

/* See that what an intent names is done, or will never be. */
static int carry_out(struct hash *hash, uint64_t session, const struct hash_intent *intent,
                     uint64_t deadline_ns)
{
    int error = hash_learn_view(hash, deadline_ns);
    if (error != 0)
        return error;
    struct tarn_space_region *from = index_of_view(hash, intent->growth),
                             *to = index_of_view(hash, intent->to_growth);
    if (to == NULL) /* it was replaced: all of its words are closed */
        return 0;
    if (intent->is_move && from == NULL)
        return force_word(hash, session, to, intent->to_slot, words_of_move(hash, intent).set,
                          words_of_move(hash, intent).thawed, deadline_ns);
    if (intent->is_move)
        return recover_move(hash, session, intent, from, to, deadline_ns);
    return force_word(hash, session, to, intent->to_slot, intent->to_word,
                      hash_word_bumped(&hash->layout, intent->to_word), deadline_ns);
}

/* Recover with an intent of this client's. */
static int recover_as(struct hash *hash, uint32_t lock, uint64_t word, uint32_t own, uint64_t deadline_ns)
{
    struct hash_intent intent;
    const uint64_t session = hash->session;
    const uint64_t mine = hash_lock_word(word, hash_holder(hash, own));
    int error = hash_read(hash->tables[0], hash_intent_at(hash_lock_holder(word) - 1), &intent,
                          sizeof(intent), deadline_ns);
    if (error == 0 && hash_lock_holder(mine) != hash_lock_holder(word))
        error = hash_write(
            hash, session, hash->tables[0], hash_intent_at(hash_holder(hash, own) - 1), &intent,
            sizeof(intent),
            deadline_ns); /* sealed as it is: if it was not whole, the lock is another one by now */
    if (error == 0)
        error = swap_lock(hash, session, lock, word, mine, deadline_ns);
    if (error == 0 && !hash_intent_fits(&intent))
        error = -EUCLEAN;
    if (error == 0)
        error = carry_out(hash, session, &intent, deadline_ns);
    if (error == 0) {
        hash->stats.recovered++;
        hash_lock_give(hash, session, lock, own, mine, deadline_ns);
    } else {
        hash_intent_end(hash, session, own, error);
    }
    return error;
}

int hash_recover(struct hash *hash, uint32_t lock, uint64_t word, uint64_t deadline_ns)
{
    const uint32_t holder = hash_lock_holder(word);
    if (holder == 0 || holder > hash->shape.clients * HASH_INTENTS)
        return holder == 0 ? -EAGAIN : -EUCLEAN;
    const bool is_own = (holder - 1) / HASH_INTENTS == hash->client;
    uint32_t own = (holder - 1) % HASH_INTENTS;
    if (!is_own)
        own = hash_intent_take(hash);
    else if ((hash->lost_intents & 1u << own) == 0)
        return -EAGAIN; /* another task of this client's is at it */
    if (own == HASH_INTENTS)
        return -EAGAIN;
    hash->lost_intents &= ~(1u << own);
    return recover_as(hash, lock, word, own, deadline_ns);
}

/* ---- moving keys -------------------------------------------------------------------------------- */

/* Move a key under its lock. @return 0; -EAGAIN: a word was another one */
static int move_locked(struct hash *hash, uint64_t session, const struct hash_intent *intent,
                       uint64_t deadline_ns)
{
    const struct move_words words = words_of_move(hash, intent);
    struct tarn_space_region *from = hash_index(hash, intent->growth),
                             *to = hash_index(hash, intent->to_growth);
    int error = hash_swap(hash, session, from, intent->slot * 8, intent->word, words.frozen,
                          hash_word_bumped(&hash->layout, intent->word), deadline_ns);
    if (error != 0)
        return error;
    error = hash_swap(hash, session, to, intent->to_slot * 8, intent->to_word, words.set,
                      hash_word_bumped(&hash->layout, intent->to_word), deadline_ns);
    if (error == -EAGAIN) {
        error = force_word(hash, session, from, intent->slot, words.frozen, words.thawed_back, deadline_ns);
        return error != 0 ? error : -EAGAIN;
    }
    if (error != 0)
        return error;
    error = force_word(hash, session, from, intent->slot, words.frozen, words.cleared, deadline_ns);
    if (error == 0)
        error = force_word(hash, session, to, intent->to_slot, words.set, words.thawed, deadline_ns);
    hash->stats.moved += error == 0;
    return error;
}

/* Wait until a lock that somebody else has changes, and recover it when it has not for a lease. */
static int await_change(struct hash *hash, uint32_t lock, uint64_t deadline_ns)
{
    struct hash_lock_seen seen = {.word = 0};
    uint64_t pause_ns = 0;
    int error = hash_await_lock(hash, lock, &seen, deadline_ns);
    const uint64_t first = seen.word;
    while (error == 0 && hash_lock_holder(first) != 0 && seen.word == first) {
        error = task_back_off(&pause_ns, deadline_ns);
        if (error == 0)
            error = hash_await_lock(hash, lock, &seen, deadline_ns);
    }
    return error;
}

int hash_move(struct hash *hash, hash_key key, struct hash_place from, uint64_t word, struct hash_place to,
              uint64_t to_word, uint64_t deadline_ns)
{
    struct hash_intent intent = {.is_move = 1,
                                 .growth = (uint8_t)from.growth,
                                 .to_growth = (uint8_t)to.growth,
                                 .slot = from.slot,
                                 .word = word,
                                 .to_slot = to.slot,
                                 .to_word = to_word};
    const uint32_t lock = hash_lock_of(&hash->shape, key), own = hash_intent_take(hash);
    const uint64_t session = hash->session;
    uint64_t mine;
    if (own == HASH_INTENTS)
        return -EAGAIN;
    int error = hash_intent_write(hash, session, own, &intent, deadline_ns);
    if (error == 0)
        error = hash_lock_take(hash, session, lock, own, deadline_ns, &mine);
    if (error != 0) {
        hash_intent_end(hash, session, own, error);
        if (error == -EAGAIN)
            error = await_change(hash, lock, deadline_ns);
        return error == 0 ? -EAGAIN : error;
    }
    error = move_locked(hash, session, &intent, deadline_ns);
    if (error == 0 || error == -EAGAIN)
        hash_lock_give(hash, session, lock, own, mine, deadline_ns);
    else
        hash_intent_end(hash, session, own, error); /* the lock stays, until it is recovered */
    return error == -ECONNRESET ? -EAGAIN : error;
}

/* ---- making room -------------------------------------------------------------------------------- */

/* A slot on the way to an empty one. */
struct node {
    struct hash_place place;
    uint64_t word;
    uint32_t
        from; /* the node from which a key would come here; NODES_MAX: none, it is one of the new key's slots */
    uint32_t moves;            /* that would be needed, if it was empty */
    uint32_t next;             /* in its bucket, and 1; 0: it is the last */
    struct hash_record record; /* the header of the record that is there … */
    bool has_record;           /* … if it could be read */
};

struct search {
    uint32_t count;
    uint32_t buckets[BUCKETS]; /* the first node, and 1; 0: there is none */
    struct node nodes[NODES_MAX];
};

static void add_node(struct search *search, struct hash_place place, uint32_t from)
{
    uint32_t *bucket = &search->buckets[place.slot % BUCKETS];
    for (uint32_t i = *bucket; i > 0; i = search->nodes[i - 1].next) {
        if (search->nodes[i - 1].place.slot == place.slot)
            return;
    }
    search->nodes[search->count] =
        (struct node){.place = place,
                      .from = from,
                      .moves = from == NODES_MAX ? 0 : search->nodes[from].moves + 1,
                      .next = *bucket};
    *bucket = ++search->count;
}

/* Add the slots of a key that were not met yet. @param from  the node where the key is */
static void add_nodes(const struct hash *hash, struct search *search, hash_key key, uint32_t growth,
                      uint32_t from)
{
    for (uint32_t rank = 0; rank < hash->shape.ranks && search->count < NODES_MAX; rank++)
        add_node(search,
                 (struct hash_place){.growth = growth, .slot = hash_slot_of(&hash->shape, key, growth, rank)},
                 from);
}

/* Read the words of some nodes. */
static int read_words(struct hash *hash, struct hash_io *io, struct search *search, uint32_t first,
                      uint64_t deadline_ns)
{
    io->count = 0;
    for (uint32_t i = first; i < search->count; i++)
        hash_io_read(io, hash_index(hash, search->nodes[i].place.growth), search->nodes[i].place.slot * 8,
                     &search->nodes[i].word, 8);
    return io->count == 0 ? 0 : hash_io_run(hash, io, deadline_ns);
}

/* Read the headers of the records at some nodes. */
static int read_records(struct hash *hash, struct hash_io *io, struct search *search, uint32_t first,
                        uint32_t end, uint64_t deadline_ns)
{
    io->count = 0;
    for (uint32_t i = first; i < end; i++) {
        struct node *node = &search->nodes[i];
        uint64_t offset;
        struct tarn_space_region *table =
            hash_table_of(hash, hash_address_of(&hash->layout, node->word), &offset);
        node->has_record = hash_state_of(node->word) == HASH_LIVE && table != NULL;
        if (node->has_record)
            hash_io_read(io, table, offset, &node->record, sizeof(node->record));
    }
    int error = io->count == 0 ? 0 : hash_io_run(hash, io, deadline_ns);
    for (uint32_t i = first; i < end && error == 0; i++) {
        struct node *node = &search->nodes[i];
        node->has_record = node->has_record && hash_header_fits(&hash->layout, &node->record, node->word);
    }
    return error;
}

/* Move the keys along the way to an empty slot, the last first. */
static int move_along(struct hash *hash, struct search *search, uint32_t last, uint64_t deadline_ns)
{
    int error = 0;
    for (uint32_t at = last; search->nodes[at].from != NODES_MAX && error == 0; at = search->nodes[at].from) {
        struct node *to = &search->nodes[at], *from = &search->nodes[to->from];
        error = hash_move(hash, from->record.key, from->place, from->word, to->place, to->word, deadline_ns);
        from->word = hash_word_cleared(hash, hash_word_bumped(&hash->layout, from->word), 0,
                                       0); /* frozen, then empty */
    }
    return error;
}

/* Look for an empty slot, level by level. @return 0: there is one, and keys were moved; -ENOSPC: there is none within reach */
static int find_way(struct hash *hash, struct hash_io *io, struct search *search, uint64_t deadline_ns)
{
    uint32_t read = 0, expanded = 0;
    while (read < search->count) {
        int error = read_words(hash, io, search, read, deadline_ns);
        if (error != 0)
            return error;
        for (; read < search->count; read++) {
            if (hash_state_of(search->nodes[read].word) == HASH_EMPTY)
                return move_along(hash, search, read, deadline_ns);
            if (hash_state_of(search->nodes[read].word) == HASH_CLOSED)
                return -EAGAIN; /* the view is not the newest any more */
        }
        while (expanded < search->count && search->count < NODES_MAX && read == search->count) {
            const uint32_t end = base_min(search->count, expanded + LEVEL_MAX);
            error = read_records(hash, io, search, expanded, end, deadline_ns);
            if (error != 0)
                return error;
            for (; expanded < end; expanded++) {
                if (search->nodes[expanded].has_record && search->nodes[expanded].moves < MOVES_MAX)
                    add_nodes(hash, search, search->nodes[expanded].record.key,
                              search->nodes[expanded].place.growth, expanded);
            }
        }
    }
    return -ENOSPC;
}

int hash_make_room(struct hash *hash, hash_key key, uint64_t deadline_ns)
{
    struct base_account *account = &hash->node->memory;
    struct search *search = base_map(account, BASE_PAGE_BYTES, sizeof(*search)); /* most use little of it */
    struct hash_io *io = hash_io_get(hash);
    int error = search == NULL || io == NULL ? -ENOMEM : hash_learn_tables(hash, deadline_ns);
    if (error == 0) {
        add_nodes(hash, search, key, (uint32_t)(hash->view / 2 + hash->view % 2), NODES_MAX);
        error = find_way(hash, io, search, deadline_ns);
    }
    if (io != NULL)
        hash_io_put(hash, io);
    base_unmap(account, search, sizeof(*search));
    return error;
}
