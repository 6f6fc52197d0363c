/* The search for an order of operations that the model allows. */
#include "sim/linear.h"
#include <errno.h>
#include <stdlib.h>

enum {
    OPEN_MAX = 64, /* operations under way at once: bits of a mask */
    CONFIGS_MIN = 1 << 7,
    CONFIGS_MAX = 1 << 16,
    BUCKETS_PER_CONFIG = 2,
    EXPLAIN_MAX = 8,
};

/* One way to explain what was seen: which operations under way have happened, and the state after them. */
struct config {
    uint64_t happened; /* a bit for each slot */
    uint8_t state[SIM_LINEAR_STATE_BYTES_MAX];
};

struct bucket {
    uint32_t round; /* of the set; other rounds: empty */
    uint32_t index;
};

/* Different configs, in the order in which they were found. */
struct config_set {
    struct config *configs;
    uint32_t count;
    uint32_t room; /* grows up to CONFIGS_MAX */
    uint32_t round;
    struct bucket *buckets;
};

struct search {
    struct base_account *account;
    const struct sim_linear_model *model;
    const struct sim_linear_op *slots[OPEN_MAX]; /* under way */
    uint64_t open;                               /* the slots that are taken, a bit for each … */
    uint64_t optional;                           /* … and those whose operation may never happen */
    struct config_set now;
    struct config_set next;
    bool overflown;
};

static int set_init(struct config_set *set, struct base_account *account, uint32_t room)
{
    *set = (struct config_set){.round = 1, .room = room};
    set->configs = base_alloc(account, room * sizeof(set->configs[0]));
    set->buckets = base_alloc(account, BUCKETS_PER_CONFIG * room * sizeof(set->buckets[0]));
    return set->configs == NULL || set->buckets == NULL ? -ENOMEM : 0;
}

static void set_deinit(struct config_set *set, struct base_account *account)
{
    base_free(account, set->configs, set->room * sizeof(set->configs[0]));
    base_free(account, set->buckets, BUCKETS_PER_CONFIG * set->room * sizeof(set->buckets[0]));
}

static void set_clear(struct config_set *set)
{
    set->count = 0;
    set->round++;
}

/* The bucket of a config, or the empty one where it belongs. A config is covered by one of the same state in which the same operations have
 * happened, but fewer of those that may never happen: whatever explains the rest from here does so from there, too. */
static struct bucket *find_bucket(const struct search *search, const struct config_set *set,
                                  const struct config *config)
{
    const uint64_t must = config->happened & ~search->optional, buckets = BUCKETS_PER_CONFIG * set->room;
    uint64_t at = base_hash64(config->state, search->model->state_bytes, must) % buckets;
    for (; set->buckets[at].round == set->round; at = (at + 1) % buckets) {
        const struct config *other = &set->configs[set->buckets[at].index];
        if ((other->happened & ~search->optional) == must && (other->happened & ~config->happened) == 0 &&
            memcmp(other->state, config->state, search->model->state_bytes) == 0)
            break;
    }
    return &set->buckets[at];
}

/* Add a config. @return false: no room */
static bool set_add(const struct search *search, struct config_set *set, const struct config *config)
{
    struct bucket *bucket = find_bucket(search, set, config);
    if (bucket->round == set->round)
        return true;
    if (set->count == set->room)
        return false;
    *bucket = (struct bucket){.round = set->round, .index = set->count};
    set->configs[set->count++] = *config;
    return true;
}

/* Have twice as much room. @return false: it would be too much */
static bool set_grow(const struct search *search, struct config_set *set)
{
    struct config_set larger;
    if (set->room == CONFIGS_MAX)
        return false;
    const bool has_room = set_init(&larger, search->account, 2 * set->room) == 0;
    for (uint32_t i = 0; i < set->count && has_room; i++)
        (void)set_add(search, &larger, &set->configs[i]);
    struct config_set *unused = has_room ? set : &larger;
    set_deinit(unused, search->account);
    if (has_room)
        *set = larger;
    return has_room;
}

static void add(struct search *search, struct config_set *set, const struct config *config)
{
    while (!set_add(search, set, config)) {
        if (!set_grow(search, set)) {
            search->overflown = true;
            return;
        }
    }
}

/* ---- the search ------------------------------------------------------------------------------ */

/* What the operation in a slot makes of a state. @return number of states */
static uint32_t apply(const struct search *search, const struct config *config, uint32_t slot,
                      uint8_t *states)
{
    const struct sim_linear_model *model = search->model;
    return model->apply(model->arg, search->slots[slot]->number, config->state, states);
}

/* Let the operation in a slot happen; what comes of it goes to a set. `happened`: for all that comes of it */
static void happen(struct search *search, const struct config *config, uint32_t slot, uint64_t happened,
                   struct config_set *set)
{
    uint8_t states[SIM_LINEAR_SUCCESSORS_MAX * SIM_LINEAR_STATE_BYTES_MAX];
    uint32_t count = apply(search, config, slot, states);
    for (uint32_t i = 0; i < count; i++) {
        struct config after = {.happened = happened};
        memcpy(after.state, states + i * search->model->state_bytes, search->model->state_bytes);
        add(search, set, &after);
    }
}

/* Let a read happen if it leaves the state as it is. @return whether it did */
static bool happen_idly(struct search *search, const struct config *config, uint32_t slot, uint32_t ending)
{
    uint8_t states[SIM_LINEAR_SUCCESSORS_MAX * SIM_LINEAR_STATE_BYTES_MAX];
    if (!search->slots[slot]->read || apply(search, config, slot, states) != 1 ||
        memcmp(states, config->state, search->model->state_bytes) != 0)
        return false;
    struct config after = *config;
    if (slot != ending)
        after.happened |= UINT64_C(1) << slot;
    add(search, slot == ending ? &search->next : &search->now, &after);
    return true;
}

/* Whether an operation is the first among those that do the same: the others may as well be later. */
static bool is_first_of_same(const struct search *search, uint64_t open, uint32_t slot)
{
    const struct sim_linear_op *op = search->slots[slot];
    for (uint64_t left = op->same == 0 ? 0 : open; left != 0; left &= left - 1) {
        const struct sim_linear_op *other = search->slots[__builtin_ctzll(left)];
        if (other->same == op->same && other < op) /* elements of one array */
            return false;
    }
    return true;
}

/* Extend one config by one operation that is under way; the one in `ending` leads to the next set. */
static void extend(struct search *search, const struct config *config, uint32_t ending)
{
    const uint64_t open = search->open & ~config->happened;
    for (uint64_t left = open; left != 0; left &= left - 1) {
        if (happen_idly(search, config, (uint32_t)__builtin_ctzll(left), ending))
            return;
    }
    for (uint64_t left = open & ~(UINT64_C(1) << ending); left != 0; left &= left - 1) {
        const uint32_t slot = (uint32_t)__builtin_ctzll(left);
        if (is_first_of_same(search, open, slot))
            happen(search, config, slot, config->happened | UINT64_C(1) << slot, &search->now);
    }
    happen(search, config, ending, config->happened, &search->next);
}

/* Keep what a config explains of the operation that ends. */
static void end_in_config(struct search *search, struct config config, uint32_t ending)
{
    const bool has_happened = (config.happened >> ending & 1) != 0;
    config.happened &= ~(UINT64_C(1) << ending);
    if (has_happened || search->slots[ending]->optional)
        add(search, &search->next, &config);
    if (!has_happened)
        extend(search, &config, ending);
}

/* An operation ends: keep what explains it. Configs with fewer optional operations are first, so that they cover others. @return whether
 * anything does */
static bool end_op(struct search *search, const struct sim_linear_op *op)
{
    uint32_t slot = 0, done = 0;
    while (search->slots[slot] != op)
        slot++;
    set_clear(&search->next);
    for (int optional = 0; done < search->now.count; optional++) {
        for (uint32_t i = 0; i < search->now.count; i++) {
            const struct config config = search->now.configs[i];
            if (__builtin_popcountll(config.happened & search->optional) == optional) {
                end_in_config(search, config, slot);
                done++;
            }
        }
        if (search->overflown)
            return true;
    }
    if (search->next.count == 0)
        return false;
    struct config_set before = search->now;
    search->now = search->next;
    search->next = before;
    search->slots[slot] = NULL;
    search->open &= ~(UINT64_C(1) << slot);
    search->optional &= search->open;
    return true;
}

static bool begin_op(struct search *search, const struct sim_linear_op *op)
{
    if (search->open == UINT64_MAX)
        return false;
    const uint32_t slot = (uint32_t)__builtin_ctzll(~search->open);
    search->slots[slot] = op;
    search->open |= UINT64_C(1) << slot;
    search->optional |= (uint64_t)op->optional << slot;
    return true;
}

static int compare_ends(const void *a, const void *b)
{
    const struct sim_linear_op *const *left = a;
    const struct sim_linear_op *const *right = b;
    if ((*left)->end_ns != (*right)->end_ns)
        return (*left)->end_ns < (*right)->end_ns ? -1 : 1;
    return *left < *right ? -1 : *left > *right; /* elements of one array */
}

static void explain(const struct search *search)
{
    for (uint32_t i = 0; i < search->now.count && i < EXPLAIN_MAX; i++)
        search->model->explain(search->model->arg, search->now.configs[i].state);
}

/* Walk through beginnings and ends in the order of time; of equal times beginnings are first. */
static int walk(struct search *search, const struct sim_linear_op *ops,
                const struct sim_linear_op *const *ends, size_t count, uint64_t *ret_number)
{
    size_t begun = 0;
    for (size_t ended = 0; ended < count; ended++) {
        for (; begun < count && ops[begun].begin_ns <= ends[ended]->end_ns; begun++) {
            if (!begin_op(search, &ops[begun]))
                return -E2BIG;
        }
        uint32_t known = search->now.count; /* end_op() adds what it meets on the way */
        bool explained = end_op(search, ends[ended]);
        if (search->overflown)
            return -E2BIG;
        if (!explained) {
            search->now.count = known;
            explain(search);
            *ret_number = ends[ended]->number;
            return -EINVAL;
        }
    }
    return 0;
}

int sim_linear_check(struct base_account *account, const struct sim_linear_model *model,
                     const struct sim_linear_op *ops, size_t count, const void *initial, uint64_t *ret_number)
{
    base_assert(model->state_bytes <= SIM_LINEAR_STATE_BYTES_MAX);
    if (count == 0)
        return 0;
    struct search search = {.account = account, .model = model};
    const struct sim_linear_op **ends = base_alloc(account, count * sizeof(ends[0]));
    int error = ends == NULL ? -ENOMEM : 0;
    if (error == 0)
        error = set_init(&search.now, account, CONFIGS_MIN);
    if (error == 0)
        error = set_init(&search.next, account, CONFIGS_MIN);
    if (error == 0) {
        for (size_t i = 0; i < count; i++)
            ends[i] = &ops[i];
        qsort(ends, count, sizeof(ends[0]), compare_ends);
        struct config first = {0};
        memcpy(first.state, initial, model->state_bytes);
        add(&search, &search.now, &first);
        error = walk(&search, ops, ends, count, ret_number);
    }
    set_deinit(&search.next, account);
    set_deinit(&search.now, account);
    base_free(account, ends, ends == NULL ? 0 : count * sizeof(ends[0]));
    return error;
}
