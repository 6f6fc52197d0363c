/* The oracle: it records operations and ends of epochs, and asks at the end whether the model explains them. */
#include "sim/depot_oracle.h"
#include "sim/depot_model.h"
#include <errno.h>
#include <inttypes.h>

enum {
    OPS_MAX = (SIM_ORACLE_CLIENTS_MAX + 1) * SIM_ORACLE_OPS_MAX,
    SETTLE_CLIENT = SIM_ORACLE_CLIENTS_MAX, /* in the history: the power */
    FAILURE_BYTES = 512,
};

#define EXPIRY_UNIT_NS UINT64_C(10000000) /* as <tarn/depot.h> says */

static const char *const kind_names[] = {"get",       "put",      "delete",  "touch", "update",
                                         "flush_all", "eviction", "durable", "loss"};

struct check {
    struct sim_oracle *oracle;
    char possible[FAILURE_BYTES]; /* what explain() has collected */
};

int sim_oracle_init(struct sim_oracle *oracle, struct sim_world *world)
{
    struct base_account *memory = sim_world_memory(world);
    *oracle = (struct sim_oracle){.world = world, .count = 1, .epoch_begin = 1};
    oracle->ops = base_alloc(memory, OPS_MAX * sizeof(oracle->ops[0]));
    if (oracle->ops == NULL)
        return -ENOMEM;
    int error = sim_history_init(&oracle->history, memory, SIM_ORACLE_CLIENTS_MAX + 1, SIM_ORACLE_OPS_MAX);
    if (error != 0)
        base_free(memory, oracle->ops, OPS_MAX * sizeof(oracle->ops[0]));
    return error;
}

void sim_oracle_deinit(struct sim_oracle *oracle)
{
    sim_history_deinit(&oracle->history);
    base_free(sim_world_memory(oracle->world), oracle->ops, OPS_MAX * sizeof(oracle->ops[0]));
}

void sim_oracle_fill_value(uint64_t key, uint32_t number, void *ret_value, size_t bytes)
{
    struct base_random random;
    base_random_init(&random, key << 32 | number);
    base_random_fill(&random, ret_value, bytes);
}

/* ---- hearing of operations ------------------------------------------------------------------- */

static uint64_t rounded(uint64_t expiry_ns)
{
    return (expiry_ns + EXPIRY_UNIT_NS - 1) / EXPIRY_UNIT_NS * EXPIRY_UNIT_NS;
}

/* Whether an operation is one that may have stored a value under its number. */
static bool stores(const struct sim_oracle_op *op)
{
    return op->kind == SIM_PUT || (op->kind == SIM_UPDATE && op->answer == SIM_STORE);
}

uint32_t sim_oracle_begin(struct sim_oracle *oracle, struct tarn_node *node, uint32_t client,
                          const struct sim_oracle_op *op)
{
    base_assert(oracle->count < OPS_MAX);
    uint32_t number = oracle->count++;
    struct sim_oracle_op *own = &oracle->ops[number];
    *own = *op;
    own->client = client;
    own->lossy = oracle->lossy;
    own->evicts = oracle->evicts;
    own->begin_ns = sim_world_now(oracle->world);
    own->wall_begin_ns = task_wall(node);
    own->wall_known_ns = oracle->wall_high_ns;
    if (op->kind != SIM_FLUSH_ALL)
        own->expiry_ns = rounded(op->expiry_ns);
    own->record =
        sim_history_invoke(&oracle->history, client, (uint32_t)op->kind, op->key, number, own->begin_ns);
    base_assert(own->record >= 0);
    sim_note(oracle->world, "begin", number, (uint64_t)op->kind << 32 | (op->key & UINT32_MAX));
    return number;
}

void sim_oracle_note_past(struct sim_oracle *oracle, struct tarn_node *node, uint32_t number)
{
    struct sim_oracle_op *op = &oracle->ops[number];
    op->end_ns = sim_world_now(oracle->world);
    op->wall_end_ns = task_wall(node);
    op->past = true;
}

void sim_oracle_end(struct sim_oracle *oracle, struct tarn_node *node, uint32_t number, int error,
                    uint64_t version)
{
    struct sim_oracle_op *op = &oracle->ops[number];
    if (!op->past) {
        op->end_ns = sim_world_now(oracle->world);
        op->wall_end_ns = task_wall(node);
    }
    oracle->wall_high_ns = base_max(oracle->wall_high_ns, op->wall_end_ns);
    op->error = error;
    op->ended = true;
    op->frail = oracle->frail;
    sim_history_return(&oracle->history, op->client, op->record, error, op->found, op->end_ns);
    sim_note(oracle->world, "end", number, (uint64_t)(-error));
    if (stores(op) && error == 0) {
        if (version == 0 || (op->version != 0 && op->version != version))
            sim_fail(oracle->world, "put %u has version %" PRIu64 ", was seen with %" PRIu64, number, version,
                     op->version);
        op->version = version;
    }
}

void sim_oracle_join(struct sim_oracle *oracle, uint32_t first, uint32_t count)
{
    base_assert(first > 0 && first + count == oracle->count);
    for (uint32_t i = 0; i < count; i++)
        oracle->ops[first + i].batch = first;
}

/* A get has found a put: is it one of this key, whole, with all that belongs to it? */
static void check_found(struct sim_oracle *oracle, const struct sim_oracle_op *get,
                        const struct tarn_record_info *info, const void *value, size_t copied)
{
    uint32_t number = info->client_flags;
    struct sim_world *world = oracle->world;
    if (number == 0 || number >= oracle->count || !stores(&oracle->ops[number]) ||
        oracle->ops[number].key != get->key) {
        sim_fail(world, "key %" PRIu64 " holds the flags %u, which no put of this key gave", get->key,
                 number);
        return;
    }
    struct sim_oracle_op *put = &oracle->ops[number];
    static const uint8_t nothing[1];
    uint8_t *expected = base_alloc(sim_world_memory(world), put->value_bytes);
    base_assert(expected != NULL);
    sim_oracle_fill_value(put->key, number, expected, put->value_bytes);
    if (info->value_bytes != put->value_bytes)
        sim_fail(world, "key %" PRIu64 ": put %u wrote %u bytes, %u are found", get->key, number,
                 put->value_bytes, info->value_bytes);
    else if (copied > 0 && memcmp(expected, value == NULL ? nothing : value, copied) != 0)
        sim_fail(world, "key %" PRIu64 ": put %u wrote other bytes than are found", get->key, number);
    base_free(sim_world_memory(world), expected, put->value_bytes);
    if (info->version == 0 || (put->version != 0 && put->version != info->version))
        sim_fail(world, "key %" PRIu64 ": put %u had version %" PRIu64 ", has %" PRIu64, get->key, number,
                 put->version, info->version);
    put->version = info->version;
    for (uint32_t i = 1; i < oracle->count; i++) {
        const struct sim_oracle_op *other = &oracle->ops[i];
        if (i != number && stores(other) && other->key == put->key && other->version == put->version)
            sim_fail(world, "key %" PRIu64 ": puts %u and %u have one version", get->key, number, i);
    }
}

void sim_oracle_end_get(struct sim_oracle *oracle, struct tarn_node *node, uint32_t number, int error,
                        const struct tarn_record_info *info, const void *value, size_t value_room)
{
    struct sim_oracle_op *get = &oracle->ops[number];
    if (error == 0 || error == -ENOBUFS) {
        bool fits = info->value_bytes <= value_room;
        if (fits != (error == 0))
            sim_fail(oracle->world, "a get of %u bytes into %zu returned %d", info->value_bytes, value_room,
                     error);
        check_found(oracle, get, info, value, fits ? info->value_bytes : 0);
        get->found = info->client_flags;
        get->found_expiry_ns = info->expiry_ns;
        error = 0;
    }
    sim_oracle_end(oracle, node, number, error, 0);
}

/* Whether somebody else may have changed a key since an operation on it began. */
static bool is_at_rest(const struct sim_oracle *oracle, const struct sim_oracle_op *op)
{
    for (uint32_t i = oracle->epoch_begin; i < oracle->count; i++) {
        const struct sim_oracle_op *other = &oracle->ops[i];
        bool changes = other->kind != SIM_GET && (other->key == op->key || other->key == SIM_ORACLE_ALL_KEYS);
        if (changes && (!other->ended || other->end_ns >= op->begin_ns))
            return false;
    }
    return true;
}

void sim_oracle_end_unvisited(struct sim_oracle *oracle, struct tarn_node *node, uint32_t number, bool whole)
{
    bool found_nothing = whole && is_at_rest(oracle, &oracle->ops[number]);
    sim_oracle_end(oracle, node, number, found_nothing ? -ENOENT : -ECANCELED, 0);
}

void sim_oracle_decide(struct sim_oracle *oracle, uint32_t number, const struct tarn_record_info *info,
                       const void *value, const struct sim_oracle_op *decided)
{
    struct sim_oracle_op *op = &oracle->ops[number];
    if (op->answer != SIM_UNDECIDED)
        sim_fail(oracle->world, "update %u has decided twice", number);
    if (info != NULL) {
        check_found(oracle, op, info, value, value == NULL ? 0 : info->value_bytes);
        op->found = info->client_flags;
        op->found_expiry_ns = info->expiry_ns;
    }
    op->answer = decided->answer;
    op->value_bytes = decided->value_bytes;
    op->expiry_ns = rounded(decided->expiry_ns);
    sim_note(oracle->world, "decided", number, (uint64_t)decided->answer << 32 | op->found);
}

int sim_oracle_run_update(void *arg, const struct tarn_record_info *old, const void *value,
                          struct tarn_update *update)
{
    struct sim_oracle_update *own = arg;
    const struct sim_oracle_op *decided = &own->decided;
    if (old != NULL && (update->expiry_ns != old->expiry_ns || update->client_flags != old->client_flags))
        sim_fail(own->oracle->world, "an update of key %" PRIu64 " was told another expiry or other flags",
                 decided->key);
    sim_oracle_decide(own->oracle, own->number, old, value, decided);
    update->remove = decided->answer == SIM_REMOVE;
    update->value = own->value;
    update->value_len = decided->value_bytes;
    update->expiry_ns = decided->expiry_ns;
    update->client_flags = own->number;
    return decided->answer == SIM_REFUSE ? SIM_ORACLE_REFUSED : 0;
}

void sim_oracle_end_epoch(struct sim_oracle *oracle, uint64_t wall_ns)
{
    uint64_t now_ns = sim_world_now(oracle->world);
    oracle->wall_high_ns = base_max(oracle->wall_high_ns, wall_ns);
    for (uint32_t i = oracle->epoch_begin; i < oracle->count; i++) {
        struct sim_oracle_op *op = &oracle->ops[i];
        if (!op->ended) {
            op->end_ns = now_ns;
            op->wall_end_ns = wall_ns;
            op->optional = true;
        } else if (op->error == -EIO || op->error == -ENODEV) {
            if (op->batch == 0) /* of one what could be published is seen */
                op->begin_ns = now_ns;
            op->end_ns = now_ns;
            op->optional = true;
            op->unconditional = true;
        }
    }
    oracle->epoch_begin = oracle->count;
}

void sim_oracle_settle(struct sim_oracle *oracle, enum sim_oracle_kind kind, uint64_t at_ns)
{
    uint32_t number = oracle->count++;
    base_assert(number < OPS_MAX && oracle->epoch_begin == number);
    oracle->epoch_begin = oracle->count;
    struct sim_oracle_op *op = &oracle->ops[number];
    *op = (struct sim_oracle_op){
        .kind = kind, .key = SIM_ORACLE_ALL_KEYS, .begin_ns = at_ns, .end_ns = at_ns, .ended = true};
    int64_t record =
        sim_history_invoke(&oracle->history, SETTLE_CLIENT, (uint32_t)kind, op->key, number, at_ns);
    base_assert(record >= 0);
    sim_history_return(&oracle->history, SETTLE_CLIENT, record, 0, 0, at_ns);
    sim_note(oracle->world, "settled", (uint64_t)kind, at_ns);
}

uint32_t sim_oracle_known_put(const struct sim_oracle *oracle, uint64_t key)
{
    for (uint32_t i = oracle->count - 1; i > 0; i--) {
        const struct sim_oracle_op *op = &oracle->ops[i];
        if (stores(op) && op->key == key && op->version != 0)
            return i;
    }
    return 0;
}

/* ---- the model ------------------------------------------------------------------------------- */

static uint32_t apply(void *arg, uint64_t number, const void *before, void *ret_states)
{
    const struct check *check = arg;
    return sim_model_apply(&check->oracle->ops[number], number, before, ret_states);
}

static void explain(void *arg, const void *before)
{
    struct check *check = arg;
    const struct sim_model_state *state = before;
    size_t used = strlen(check->possible);
    char expiry[48] = "";
    if (state->now.value != 0 && state->now.expiry_ns != SIM_MODEL_NEVER)
        (void)snprintf(expiry, sizeof(expiry), " until %" PRIu64, state->now.expiry_ns);
    (void)snprintf(check->possible + used, sizeof(check->possible) - used, " %" PRIu64 "%s%s",
                   state->now.value, expiry, state->now.gone_ns != 0 ? " (gone)" : "");
}

/* ---- checking -------------------------------------------------------------------------------- */

/* Whether an operation can have had an effect, or have seen one. */
static bool counts(const struct sim_oracle_op *op)
{
    if ((op->kind == SIM_UPDATE && op->answer == SIM_UNDECIDED) || op->fate == SIM_FATE_NEVER)
        return false;
    if (!op->ended || op->optional)
        return op->kind != SIM_GET && op->answer != SIM_REFUSE;
    return op->error == 0 || op->error == -ENOENT || op->error == -EEXIST ||
           (op->answer == SIM_REFUSE && op->error == SIM_ORACLE_REFUSED);
}

/* What has changed nothing, but for having seen that a value is gone. */
static bool only_looked(const struct sim_oracle_op *op)
{
    return op->ended && !op->optional && (op->kind == SIM_GET || op->error != 0) && op->kind < SIM_FLUSH_ALL;
}

static void fail_key(struct sim_oracle *oracle, const struct check *check, uint64_t key, uint64_t number)
{
    const struct sim_oracle_op *op = &oracle->ops[number];
    sim_fail(oracle->world,
             "key %" PRIu64 ": %s %" PRIu64 " from %" PRIu64 " to %" PRIu64 " ns (civil %" PRIu64
             " to %" PRIu64 ") returned %d, value %u, expiry %" PRIu64
             "; nothing explains it: before it the key held one of"
             " [%s ], 0 for nothing",
             key, kind_names[op->kind], number, op->begin_ns, op->end_ns, op->wall_begin_ns, op->wall_end_ns,
             op->error, op->found, op->found_expiry_ns, check->possible);
}

/* Print the operations of a key with all that the oracle knows, for the reader of a trace. */
static void trace_key(const struct sim_oracle *oracle, const struct sim_linear_op *ops, size_t count)
{
    FILE *trace = sim_world_trace(oracle->world);
    for (size_t i = 0; trace != NULL && i < count; i++) {
        const struct sim_oracle_op *op = &oracle->ops[ops[i].number];
        (void)fprintf(trace,
                      "%s %" PRIu64 " client %u: %" PRIu64 "..%" PRIu64 " civil %" PRIu64 "..%" PRIu64
                      " condition %d of %u expiry %" PRIu64 " returned %d found %u batch %u%s\n",
                      kind_names[op->kind], ops[i].number, op->client, op->begin_ns, op->end_ns,
                      op->wall_begin_ns, op->wall_end_ns, (int)op->condition, op->if_number,
                      op->kind == SIM_GET ? op->found_expiry_ns : op->expiry_ns, op->error, op->found,
                      op->batch, op->optional ? ", or never" : "");
    }
}

static int compare_begins(const struct sim_linear_op *a, const struct sim_linear_op *b)
{
    if (a->begin_ns != b->begin_ns)
        return a->begin_ns < b->begin_ns ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

/* Collect the operations of a key, ordered by their beginnings (which failed ones have had moved). */
static size_t collect(const struct sim_oracle *oracle, const struct sim_history_record *records, size_t count,
                      uint64_t key, struct sim_linear_op *ops)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const struct sim_oracle_op *op = &oracle->ops[records[i].argument];
        if ((op->key != key && op->key != SIM_ORACLE_ALL_KEYS) || !counts(op))
            continue;
        const struct sim_linear_op linear = {
            .begin_ns = op->begin_ns,
            .end_ns = op->end_ns,
            .number = records[i].argument,
            .optional = op->optional && op->fate == SIM_FATE_OPEN,
            .read = only_looked(op),
        };
        size_t at = used++;
        for (; at > 0 && compare_begins(&linear, &ops[at - 1]) < 0; at--)
            ops[at] = ops[at - 1];
        ops[at] = linear;
    }
    return used;
}

/* All that checking needs. */
struct judge {
    struct check check;
    struct sim_linear_model model;
    struct sim_history_record *records;
    size_t record_count;
    struct sim_linear_op *ops;
};

/* @return as sim_linear_check() */
static int judge_key(struct judge *judge, uint64_t key, size_t *ret_used, uint64_t *ret_number)
{
    const struct sim_oracle *oracle = judge->check.oracle;
    judge->check.possible[0] = '\0';
    *ret_used = collect(oracle, judge->records, judge->record_count, key, judge->ops);
    int error = sim_linear_check(sim_world_memory(oracle->world), &judge->model, judge->ops, *ret_used,
                                 &sim_model_empty, ret_number);
    sim_note(oracle->world, "checked", key, (uint64_t)(-error));
    base_assert(error != -ENOMEM); /* -E2BIG: it can be explained in too many ways, and is not judged */
    return error;
}

/* ---- batches ----------------------------------------------------------------------------------- */

/* Whether what was lost after an operation may be its effect. */
static bool may_be_lost(const struct sim_oracle *oracle, const struct sim_oracle_op *op)
{
    for (const struct sim_oracle_op *other = op; op->lossy && other < &oracle->ops[oracle->count]; other++) {
        if ((other->kind == SIM_LOSS || other->kind == SIM_DURABLE) && other->begin_ns >= op->end_ns)
            return other->kind == SIM_LOSS;
    }
    return false;
}

/* What a batch has changed, or may have. @return how many */
static uint32_t members_of(const struct sim_oracle *oracle, uint32_t first, uint32_t *ret_members)
{
    uint32_t count = 0;
    for (uint32_t i = first; i < oracle->count && oracle->ops[i].batch == first; i++) {
        if (counts(&oracle->ops[i]) && !only_looked(&oracle->ops[i]))
            ret_members[count++] = i;
    }
    return count;
}

/* Whether all its keys can be explained if all of it had this fate. @param ret_member  one that cannot */
static bool is_explained(struct judge *judge, const uint32_t *members, uint32_t count,
                         enum sim_oracle_fate fate, uint32_t *ret_member)
{
    struct sim_oracle *oracle = judge->check.oracle;
    bool explained = true;
    for (uint32_t i = 0; i < count; i++)
        oracle->ops[members[i]].fate = fate;
    for (uint32_t i = 0; i < count && explained; i++) {
        size_t used;
        uint64_t number;
        explained = judge_key(judge, oracle->ops[members[i]].key, &used, &number) != -EINVAL;
        *ret_member = members[i];
    }
    for (uint32_t i = 0; i < count; i++)
        oracle->ops[members[i]].fate = SIM_FATE_OPEN;
    return explained;
}

/* All of it is there, or nothing. */
static void judge_batch(struct judge *judge, uint32_t first)
{
    struct sim_oracle *oracle = judge->check.oracle;
    uint32_t members[SIM_ORACLE_BATCH_MAX], culprits[2] = {0};
    uint32_t count = members_of(oracle, first, members);
    if (count < 2)
        return;
    const struct sim_oracle_op *op = &oracle->ops[members[0]];
    bool lost = may_be_lost(oracle, op);
    if ((!op->optional && !lost) || is_explained(judge, members, count, SIM_FATE_KEPT, &culprits[0]) ||
        (op->optional && is_explained(judge, members, count, SIM_FATE_NEVER, &culprits[1])) ||
        (lost && is_explained(judge, members, count, SIM_FATE_LOST, &culprits[1])))
        return;
    for (uint32_t i = 0; i < count; i++) {
        size_t used =
            collect(oracle, judge->records, judge->record_count, oracle->ops[members[i]].key, judge->ops);
        trace_key(oracle, judge->ops, used);
    }
    sim_fail(oracle->world,
             "the batch of operations %u to %u is there in part: key %" PRIu64
             " cannot be explained with it, key %" PRIu64 " not without it",
             first, first + count - 1, oracle->ops[culprits[0]].key, oracle->ops[culprits[1]].key);
}

/* ---- all of it --------------------------------------------------------------------------------- */

void sim_oracle_check(struct sim_oracle *oracle, uint64_t keys)
{
    struct base_account *memory = sim_world_memory(oracle->world);
    size_t room = oracle->count;
    struct judge judge = {.check = {.oracle = oracle}};
    judge.records = base_alloc(memory, room * sizeof(judge.records[0]));
    judge.ops = base_alloc(memory, room * sizeof(judge.ops[0]));
    base_assert(judge.records != NULL && judge.ops != NULL);
    judge.record_count = sim_history_merge(&oracle->history, judge.records, room);
    judge.model = (struct sim_linear_model){.state_bytes = sizeof(struct sim_model_state),
                                            .apply = apply,
                                            .explain = explain,
                                            .arg = &judge.check};
    for (uint64_t key = 0; key < keys && sim_world_failure(oracle->world) == NULL; key++) {
        uint64_t number = 0;
        size_t used;
        int error = judge_key(&judge, key, &used, &number);
        if (error != 0)
            trace_key(oracle, judge.ops, used);
        if (error == -EINVAL)
            fail_key(oracle, &judge.check, key, number);
    }
    for (uint32_t i = 1; i < oracle->count && sim_world_failure(oracle->world) == NULL; i++) {
        if (oracle->ops[i].batch == i)
            judge_batch(&judge, i);
    }
    base_free(memory, judge.ops, room * sizeof(judge.ops[0]));
    base_free(memory, judge.records, room * sizeof(judge.records[0]));
}
