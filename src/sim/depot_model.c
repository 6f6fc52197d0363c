/* The model of one key: applying each operation to the contents that the key may have. */
#include "sim/depot_model.h"
#include <errno.h>

static uint64_t or_never(uint64_t ns)
{
    return ns == 0 ? SIM_MODEL_NEVER : ns;
}

/*
 * Whether the key held its value when the operation began. That is when a change finds what it needs; by
 * the time it is durable and takes effect, the old value may have ended, and readers may have seen so.
 */
static bool held(const struct sim_oracle_op *op, const struct sim_model_content *content)
{
    return content->value != 0 && op->wall_begin_ns <= base_min(content->expiry_ns, content->kill_ns) &&
           (content->gone_ns == 0 || op->begin_ns < content->gone_ns);
}

/* Whether there was a moment of the operation when a get would find the value. */
static bool may_live(const struct sim_oracle_op *op, const struct sim_model_content *content)
{
    return content->value != 0 && op->wall_begin_ns <= base_min(content->expiry_ns, content->kill_ns) &&
           content->gone_ns == 0;
}

/* The latest civil time that the store can know of. A clock that was set back revives nothing. */
static uint64_t latest_wall(const struct sim_oracle_op *op)
{
    return base_max(op->wall_end_ns, op->wall_known_ns);
}

/* Whether there was a moment when a value had expired or was flushed, or there was none. */
static bool has_ended(const struct sim_oracle_op *op, const struct sim_model_content *content)
{
    return content->value == 0 || content->gone_ns != 0 ||
           latest_wall(op) >= base_min(content->expiry_ns, content->kill_ns);
}

/* Whether there was a moment when a get would find none. */
static bool may_be_gone(const struct sim_oracle_op *op, const struct sim_model_content *content)
{
    return op->evicts || has_ended(op, content);
}

static const struct sim_model_content nothing = {.expiry_ns = SIM_MODEL_NEVER, .kill_ns = SIM_MODEL_NEVER};

const struct sim_model_state sim_model_empty = {
    .now = {.expiry_ns = SIM_MODEL_NEVER, .kill_ns = SIM_MODEL_NEVER},
    .kept = {.expiry_ns = SIM_MODEL_NEVER, .kill_ns = SIM_MODEL_NEVER},
};

static bool are_equal(const struct sim_model_content *a, const struct sim_model_content *b)
{
    return a->value == b->value && a->expiry_ns == b->expiry_ns && a->kill_ns == b->kill_ns;
}

/* A change gives the key a new content: as it is durable, or may be lost, one or two states. */
static uint32_t changed(const struct sim_oracle_op *op, const struct sim_model_state *state,
                        const struct sim_model_content *content, struct sim_model_state *states)
{
    uint32_t count = 0;
    const struct sim_model_state after = {.now = *content, .kept = *content, .order_ns = state->order_ns};
    if (!op->lossy || op->fate != SIM_FATE_LOST)
        states[count++] = after;
    if (!op->lossy || op->fate == SIM_FATE_KEPT)
        return count;
    states[count] = after;
    states[count].kept = state->kept;
    return count + 1;
}

/* It was seen to have expired, or to be flushed. */
static uint32_t apply_ended(const struct sim_oracle_op *op, const struct sim_model_state *state,
                            struct sim_model_state *states)
{
    if (!has_ended(op, &state->now))
        return 0;
    states[0] = *state;
    if (state->now.value == 0 || state->now.gone_ns != 0 || op->frail)
        return 1;
    states[0].now.gone_ns = op->end_ns;
    if (are_equal(&state->now, &state->kept))
        states[0].kept.gone_ns = op->end_ns; /* that civil time has come so far is durable */
    return 1;
}

static bool is_there(const struct sim_model_content *content)
{
    return content->value != 0 && content->gone_ns == 0;
}

/*
 * The key was found without a value. Where it was evicted this was durable before anybody could see it, and
 * what was kept of it is older.
 */
static uint32_t apply_gone(const struct sim_oracle_op *op, const struct sim_model_state *state,
                           struct sim_model_state *states)
{
    uint32_t count = apply_ended(op, state, states);
    if (!op->evicts || !is_there(&state->now))
        return count;
    states[count] = *state;
    states[count].now.gone_ns = op->end_ns;
    if (is_there(&state->kept))
        states[count].kept.gone_ns = op->end_ns;
    return count + 1;
}

/* A cache has ended, in whatever way: what lay below its horizon is not there any more, older things first.
 */
static uint32_t apply_eviction(const struct sim_oracle_op *op, const struct sim_model_state *state,
                               struct sim_model_state *states)
{
    uint32_t count = 1;
    states[0] = *state;
    if (is_there(&state->kept) && !are_equal(&state->now, &state->kept)) {
        states[count] = *state;
        states[count++].kept.gone_ns = op->end_ns;
    }
    if (is_there(&state->now)) {
        states[count] = *state;
        states[count].now.gone_ns = op->end_ns;
        states[count].kept.gone_ns = is_there(&state->kept) ? op->end_ns : state->kept.gone_ns;
        count++;
    }
    return count;
}

static uint32_t apply_kept(const struct sim_model_state *state, bool possible, struct sim_model_state *states)
{
    if (!possible)
        return 0;
    states[0] = *state;
    return 1;
}

static bool is_found(const struct sim_oracle_op *op, const struct sim_model_content *content)
{
    return content->value == op->found && content->expiry_ns == or_never(op->found_expiry_ns);
}

static uint32_t apply_get(const struct sim_oracle_op *op, const struct sim_model_state *state,
                          struct sim_model_state *states)
{
    if (op->found == 0)
        return apply_gone(op, state, states);
    return apply_kept(state, may_live(op, &state->now) && is_found(op, &state->now), states);
}

static bool condition_may_hold(const struct sim_oracle_op *op, const struct sim_model_state *state)
{
    switch (op->unconditional ? TARN_PUT_ANY : op->condition) {
    case TARN_PUT_IF_ABSENT:
        return may_be_gone(op, &state->now);
    case TARN_PUT_IF_PRESENT:
        return held(op, &state->now);
    case TARN_PUT_IF_VERSION:
        return held(op, &state->now) && state->now.value == op->if_number;
    default:
        return true;
    }
}

static uint32_t apply_store(const struct sim_oracle_op *op, uint64_t number,
                            const struct sim_model_state *state, struct sim_model_state *states)
{
    struct sim_model_content after = {
        .value = number, .expiry_ns = or_never(op->expiry_ns), .kill_ns = SIM_MODEL_NEVER};
    uint32_t count = 0;
    if (latest_wall(op) >= state->order_ns)
        count += changed(op, state, &after, states); /* stored after the moment of any flush_all */
    /* a write that failed was in the log before the order was carried out, maybe, which the next opening does */
    if (state->order_ns != 0 && (op->wall_begin_ns < state->order_ns || op->error != 0)) {
        after.kill_ns = state->order_ns;
        count += changed(op, state, &after, states + count);
    }
    return count;
}

static uint32_t apply_put(const struct sim_oracle_op *op, uint64_t number,
                          const struct sim_model_state *state, struct sim_model_state *states)
{
    if (op->error == -ENOENT)
        return apply_gone(op, state, states);
    if (op->error == -EEXIST)
        return apply_kept(state,
                          may_live(op, &state->now) &&
                              (op->condition != TARN_PUT_IF_VERSION || state->now.value != op->if_number),
                          states);
    return condition_may_hold(op, state) ? apply_store(op, number, state, states) : 0;
}

static uint32_t apply_delete(const struct sim_oracle_op *op, const struct sim_model_state *state,
                             struct sim_model_state *states)
{
    if (op->error == -ENOENT)
        return apply_gone(op, state, states);
    uint32_t count = held(op, &state->now) || op->unconditional ? changed(op, state, &nothing, states) : 0;
    /* where nothing is there a batch goes on without it; of one that was cut off nobody knows */
    bool may_be_idle = op->batch != 0 && !op->ended;
    return may_be_idle ? count + apply_gone(op, state, states + count) : count;
}

static uint32_t apply_touch(const struct sim_oracle_op *op, const struct sim_model_state *state,
                            struct sim_model_state *states)
{
    if (op->error == -ENOENT)
        return apply_gone(op, state, states);
    if (!held(op, &state->now) && (!op->unconditional || state->now.value == 0))
        return 0;
    struct sim_model_content after = state->now;
    after.gone_ns = 0;
    after.expiry_ns = or_never(op->expiry_ns);
    return changed(op, state, &after, states);
}

static uint32_t apply_update(const struct sim_oracle_op *op, uint64_t number,
                             const struct sim_model_state *state, struct sim_model_state *states)
{
    if (op->answer == SIM_REFUSE || (op->answer == SIM_REMOVE && op->found == 0))
        return apply_get(op, state, states);
    bool decided = op->unconditional || (op->found == 0 ? may_be_gone(op, &state->now)
                                                        : held(op, &state->now) && is_found(op, &state->now));
    if (!decided)
        return 0;
    return op->answer == SIM_REMOVE ? changed(op, state, &nothing, states)
                                    : apply_store(op, number, state, states);
}

/*
 * What an order to flush makes of a content, if its moment is still to come; that a record has expired, which
 * nobody has seen, is not its matter. @return how many
 */
static uint32_t order(const struct sim_oracle_op *op, const struct sim_model_content *content,
                      struct sim_model_content *contents)
{
    uint32_t count = 0;
    if (content->value == 0 || content->gone_ns != 0 || latest_wall(op) >= content->kill_ns)
        contents[count++] = nothing;
    if (content->value == 0 || op->wall_begin_ns > content->kill_ns ||
        (content->gone_ns != 0 && op->begin_ns >= content->gone_ns))
        return count;
    contents[count] = *content;
    contents[count].kill_ns = op->expiry_ns;
    contents[count].gone_ns =
        0; /* the order that it replaces may have been seen at work before it is durable */
    return count + 1;
}

/*
 * Takes what was stored before it, when its moment comes, and replaces an order whose moment has not come. It
 * is durable in every mode.
 */
static uint32_t apply_flush_all(const struct sim_oracle_op *op, const struct sim_model_state *state,
                                struct sim_model_state *states)
{
    uint32_t count = 0;
    if (latest_wall(op) >= op->expiry_ns)
        states[count++] = (struct sim_model_state){.now = nothing, .kept = nothing};
    if (op->wall_begin_ns >= op->expiry_ns)
        return count;
    struct sim_model_content now[2], kept[2];
    uint32_t now_count = order(op, &state->now, now), kept_count = order(op, &state->kept, kept);
    for (uint32_t i = 0; i < now_count; i++) {
        for (uint32_t j = 0; j < kept_count; j++)
            states[count++] =
                (struct sim_model_state){.now = now[i], .kept = kept[j], .order_ns = op->expiry_ns};
    }
    return count;
}

uint32_t sim_model_apply(const struct sim_oracle_op *op, uint64_t number, const struct sim_model_state *state,
                         struct sim_model_state *states)
{
    switch (op->kind) {
    case SIM_GET:
        return apply_get(op, state, states);
    case SIM_PUT:
        return apply_put(op, number, state, states);
    case SIM_DELETE:
        return apply_delete(op, state, states);
    case SIM_TOUCH:
        return apply_touch(op, state, states);
    case SIM_UPDATE:
        return apply_update(op, number, state, states);
    case SIM_FLUSH_ALL:
        return apply_flush_all(op, state, states);
    case SIM_EVICTION:
        return apply_eviction(op, state, states);
    case SIM_DURABLE:
        states[0] = *state;
        states[0].kept = state->now;
        return 1;
    case SIM_LOSS:
        states[0] = *state;
        states[0].now = state->kept;
        return 1;
    }
    return 0;
}
