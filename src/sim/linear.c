/* The search for an order of operations that the model allows. */
#include "sim/linear.h"
#include <errno.h>
#include <stdlib.h>

enum {
    OPEN_MAX = 64, /* operations under way at once: bits of a mask */
    CONFIGS_MAX = 1 << 16,
    BUCKETS = 2 * CONFIGS_MAX,
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
    uint32_t round;
    struct bucket *buckets;
};

struct search {
    struct base_account *account;
    const struct sim_linear_model *model;
    const struct sim_linear_op *slots[OPEN_MAX]; /* under way */
    struct config_set now;
    struct config_set next;
    bool overflown;
};

static int set_init(struct config_set *set, struct base_account *account)
{
    set->count = 0;
    set->round = 1;
    set->configs = base_alloc(account, CONFIGS_MAX * sizeof(set->configs[0]));
    set->buckets = base_alloc(account, BUCKETS * sizeof(set->buckets[0]));
    return set->configs == NULL || set->buckets == NULL ? -ENOMEM : 0;
}

static void set_deinit(struct config_set *set, struct base_account *account)
{
    base_free(account, set->configs, set->configs == NULL ? 0 : CONFIGS_MAX * sizeof(set->configs[0]));
    base_free(account, set->buckets, set->buckets == NULL ? 0 : BUCKETS * sizeof(set->buckets[0]));
}

static void set_clear(struct config_set *set)
{
    set->count = 0;
    set->round++;
}

/* Add a config, of which all bytes behind the state are zero. @return false: no room */
static bool set_add(struct config_set *set, const struct config *config)
{
    uint64_t bucket = base_hash64(config, sizeof(*config), 0) % BUCKETS;
    for (; set->buckets[bucket].round == set->round; bucket = (bucket + 1) % BUCKETS) {
        if (memcmp(&set->configs[set->buckets[bucket].index], config, sizeof(*config)) == 0)
            return true;
    }
    if (set->count == CONFIGS_MAX)
        return false;
    set->buckets[bucket].round = set->round;
    set->buckets[bucket].index = set->count;
    set->configs[set->count++] = *config;
    return true;
}

static void add(struct search *search, struct config_set *set, const struct config *config)
{
    if (!set_add(set, config))
        search->overflown = true;
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
static bool happen_idly(struct search *search, const struct config *config, uint32_t slot)
{
    uint8_t states[SIM_LINEAR_SUCCESSORS_MAX * SIM_LINEAR_STATE_BYTES_MAX];
    if (!search->slots[slot]->read || apply(search, config, slot, states) != 1 ||
        memcmp(states, config->state, search->model->state_bytes) != 0)
        return false;
    struct config after = *config;
    after.happened |= UINT64_C(1) << slot;
    add(search, &search->now, &after);
    return true;
}

static bool can_happen(const struct search *search, const struct config *config, uint32_t slot)
{
    return search->slots[slot] != NULL && (config->happened >> slot & 1) == 0;
}

/* Extend one config by one operation that is under way; the one in `ending` leads to the next set. */
static void extend(struct search *search, const struct config *config, uint32_t ending)
{
    for (uint32_t slot = 0; slot < OPEN_MAX; slot++) {
        if (slot != ending && can_happen(search, config, slot) && happen_idly(search, config, slot))
            return;
    }
    for (uint32_t slot = 0; slot < OPEN_MAX; slot++) {
        if (slot != ending && can_happen(search, config, slot))
            happen(search, config, slot, config->happened | UINT64_C(1) << slot, &search->now);
    }
    happen(search, config, ending, config->happened, &search->next);
}

/* An operation ends: keep what explains it. @return whether anything does */
static bool end_op(struct search *search, const struct sim_linear_op *op)
{
    uint32_t slot = 0;
    while (search->slots[slot] != op)
        slot++;
    set_clear(&search->next);
    for (uint32_t i = 0; i < search->now.count; i++) {
        struct config config = search->now.configs[i];
        if ((config.happened >> slot & 1) != 0) {
            config.happened &= ~(UINT64_C(1) << slot);
            add(search, &search->next, &config);
            continue;
        }
        if (op->optional)
            add(search, &search->next, &config);
        extend(search, &config, slot);
    }
    if (search->next.count == 0)
        return false;
    struct config_set before = search->now;
    search->now = search->next;
    search->next = before;
    search->slots[slot] = NULL;
    return true;
}

static bool begin_op(struct search *search, const struct sim_linear_op *op)
{
    for (uint32_t slot = 0; slot < OPEN_MAX; slot++) {
        if (search->slots[slot] == NULL) {
            search->slots[slot] = op;
            return true;
        }
    }
    return false;
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
        error = set_init(&search.now, account);
    if (error == 0)
        error = set_init(&search.next, account);
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
