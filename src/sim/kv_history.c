/* Histories of campaigns `kv` and `hash`, and what a key may hold. */
#include "sim/kv_history.h"
#include "base/base.h"
#include "sim/linear.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>

/* What a key holds: compared byte by byte. */
struct state {
    uint64_t number; /* of the put; 0: nothing; ANY_PUT: one that no operation names */
};

#define ANY_PUT UINT64_MAX

int sim_kv_history_init(struct sim_kv_history *history, struct sim_world *world)
{
    *history = (struct sim_kv_history){.world = world, .count = 1};
    history->ops = base_alloc(sim_world_memory(world), SIM_KV_OPS_MAX * sizeof(history->ops[0]));
    return history->ops == NULL ? -ENOMEM : 0;
}

void sim_kv_history_deinit(struct sim_kv_history *history)
{
    base_free(sim_world_memory(history->world), history->ops, SIM_KV_OPS_MAX * sizeof(history->ops[0]));
}

/* ---- what was seen ------------------------------------------------------------------------------ */

bool sim_kv_history_has_room(const struct sim_kv_history *history, uint32_t count)
{
    return history->count + count <= SIM_KV_OPS_MAX;
}

uint32_t sim_kv_begin(struct sim_kv_history *history, const struct sim_kv_op *op)
{
    struct sim_kv_op *begun = &history->ops[history->count];
    base_assert(history->count < SIM_KV_OPS_MAX);
    *begun = *op;
    begun->begin_ns = sim_world_now(history->world);
    begun->end_ns = TASK_FOREVER;
    return history->count++;
}

static uint8_t byte_of(uint32_t number, uint64_t place)
{
    return (uint8_t)(number * 151 + number / 256 + place * 7 + place / 256);
}

void sim_kv_fill(uint32_t number, void *value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)value)[i] = byte_of(number, i);
}

static void end_op(struct sim_kv_history *history, struct sim_kv_op *op, int error)
{
    op->error = error;
    op->ended = true;
    op->end_ns = sim_world_now(history->world);
}

/* A version is one put's. */
static void note_version(struct sim_kv_history *history, struct sim_kv_op *put, uint64_t version)
{
    if (version == 0 || (put->version != 0 && put->version != version))
        sim_fail(history->world, "a put of key %" PRIu32 " has the version %" PRIx64 ", and had %" PRIx64,
                 put->key, version, put->version);
    put->version = version;
}

void sim_kv_note_record(struct sim_kv_history *history, uint32_t number, uint64_t record)
{
    struct sim_kv_op *put = &history->ops[number];
    if (record == 0 || (put->record != 0 && put->record != record))
        sim_fail(history->world, "put %" PRIu32 " has the record %" PRIx64 ", and had %" PRIx64, number,
                 record, put->record);
    put->record = record;
}

/* @return what is wrong with what a get was given; NULL: nothing */
static const char *judge(const struct sim_kv_history *history, const struct sim_kv_op *op,
                         const struct tarn_record_info *info, uint64_t offset, const void *data, size_t bytes)
{
    if (info->client_flags == 0 || info->client_flags >= history->count)
        return "a value that nobody has put";
    const struct sim_kv_op *put = &history->ops[info->client_flags];
    if (put->kind != SIM_KV_PUT || put->key != op->key)
        return "a value of another key";
    if (put->expiry_ns != 0 && put->expiry_ns != info->expiry_ns)
        return "a value that expires at another time";
    if (put->bytes != info->value_bytes || offset + bytes > put->bytes)
        return "a value of another length";
    for (size_t i = 0; i < bytes; i++) {
        if (((const uint8_t *)data)[i] != byte_of(info->client_flags, offset + i))
            return "other bytes than were put";
    }
    return op->if_number != 0 && op->if_number != info->client_flags ? "a part of another version" : NULL;
}

uint32_t sim_kv_end_get(struct sim_kv_history *history, uint32_t number, int error,
                        const struct tarn_record_info *info, uint64_t offset, const void *data, size_t bytes)
{
    struct sim_kv_op *op = &history->ops[number];
    end_op(history, op, error);
    if (error == -ENOENT)
        return 0;
    op->is_void = error != 0;
    if (error != 0)
        return 0;
    const char *wrong = judge(history, op, info, offset, data, bytes);
    if (wrong != NULL) {
        sim_fail(history->world, "operation %" PRIu32 " was given %s: key %" PRIu32 ", put %" PRIu32, number,
                 wrong, op->key, info->client_flags);
        op->is_void = true;
        return 0;
    }
    op->found = info->client_flags;
    note_version(history, &history->ops[op->found], info->version);
    history->hits++;
    return op->found;
}

/* Whether it was not done, as its caller was told. */
static bool is_undone(int error)
{
    return error == -EHOSTUNREACH || error == -ENOSPC || error == -EMSGSIZE || error == -ENXIO;
}

void sim_kv_end(struct sim_kv_history *history, uint32_t number, int error, uint64_t version)
{
    struct sim_kv_op *op = &history->ops[number];
    if (error == -ECONNRESET || error == -ETIMEDOUT) { /* it may be still to come */
        history->unknown++;
        return;
    }
    end_op(history, op, error);
    op->is_void = is_undone(error);
    if (error == 0 && op->kind == SIM_KV_PUT)
        note_version(history, op, version);
    if (error != 0 && error != -ENOENT && error != -EEXIST && !op->is_void)
        sim_fail(history->world, "operation %" PRIu32 " ended with %d", number, error);
}

uint32_t sim_kv_known_put(const struct sim_kv_history *history, uint32_t key)
{
    for (uint32_t i = history->count; i-- > 1;) {
        const struct sim_kv_op *op = &history->ops[i];
        if (op->kind == SIM_KV_PUT && op->key == key && op->version != 0)
            return i;
    }
    return 0;
}

/* ---- what a key may hold ------------------------------------------------------------------------ */

/* When what a key holds ends, in the world's time. */
static uint64_t end_of(const struct sim_kv_history *history, uint64_t held)
{
    const uint64_t expiry_ns = held == 0 || held == ANY_PUT ? 0 : history->ops[held].expiry_ns;
    return expiry_ns == 0 ? TASK_FOREVER
                          : expiry_ns - sim_world_wall(history->world) + sim_world_now(history->world);
}

/* It was found empty. @return whether that may be */
static bool is_gone(const struct sim_kv_history *history, const struct sim_kv_op *op, uint64_t held)
{
    const uint64_t end_ns = end_of(history, held);
    return held == 0 || history->evicts[op->key] || (end_ns != TASK_FOREVER && op->end_ns >= end_ns);
}

/* Something was found. @return whether that may be */
static bool is_there(const struct sim_kv_history *history, const struct sim_kv_op *op, uint64_t held)
{
    return held != 0 && op->begin_ns < end_of(history, held);
}

/* @return whether the condition of an operation may have held */
static bool can_change(const struct sim_kv_history *history, const struct sim_kv_op *op, uint64_t held)
{
    switch (op->condition) {
    case TARN_PUT_IF_ABSENT:
        return is_gone(history, op, held);
    case TARN_PUT_IF_PRESENT:
        return is_there(history, op, held);
    case TARN_PUT_IF_VERSION:
        return is_there(history, op, held) && held == op->if_number;
    default:
        return op->kind == SIM_KV_PUT || is_there(history, op, held);
    }
}

static uint32_t apply(void *arg, uint64_t number, const void *before, void *ret_states)
{
    const struct sim_kv_history *history = arg;
    const struct sim_kv_op *op = &history->ops[number];
    const uint64_t held = ((const struct state *)before)->number;
    struct state *after = ret_states;
    after->number = held;
    if (op->ended && op->error == -ENOENT) {
        after->number = history->evicts[op->key] ? 0 : held;
        return is_gone(history, op, held);
    }
    if (op->ended && op->error == -EEXIST)
        return is_there(history, op, held) && (op->condition != TARN_PUT_IF_VERSION || held != op->if_number);
    if (op->kind != SIM_KV_PUT && op->kind != SIM_KV_DELETE)
        return held == op->found && is_there(history, op, held);
    after->number = op->kind == SIM_KV_DELETE ? 0 : op->is_named || op->expiry_ns != 0 ? number : ANY_PUT;
    return can_change(history, op, held);
}

static void explain(void *arg, const void *state)
{
    const struct sim_kv_history *history = arg;
    sim_note(history->world, "the key may hold put", ((const struct state *)state)->number, 0);
}

/* Whether a scan, which has not shown a key, may say so because somebody changed it meanwhile. */
static bool is_changed_meanwhile(const struct sim_kv_history *history, const struct sim_kv_op *scan)
{
    for (uint32_t i = 1; i < history->count; i++) {
        const struct sim_kv_op *op = &history->ops[i];
        if (op->key == scan->key && (op->kind == SIM_KV_PUT || op->kind == SIM_KV_DELETE) &&
            op->begin_ns <= scan->end_ns && op->end_ns >= scan->begin_ns)
            return true;
    }
    return false;
}

static bool counts(const struct sim_kv_history *history, const struct sim_kv_op *op)
{
    const bool changes = op->kind == SIM_KV_PUT || op->kind == SIM_KV_DELETE;
    if (op->is_void || (!op->ended && !changes))
        return false;
    return op->kind != SIM_KV_SCAN || op->error == 0 || !is_changed_meanwhile(history, op);
}

/* Whether an operation leaves what it finds, wherever it has happened. */
static bool changes_nothing(const struct sim_kv_history *history, const struct sim_kv_op *op)
{
    return op->ended && ((op->error == 0 && op->found != 0) || op->error == -EEXIST ||
                         (op->error == -ENOENT && !history->evicts[op->key]));
}

/* Operations that do the same. */
static uint32_t same_as(const struct sim_kv_op *op)
{
    return op->is_named || op->expiry_ns != 0 || op->condition == TARN_PUT_IF_VERSION
               ? 0
               : 1 + (uint32_t)op->condition * 2 + (op->kind == SIM_KV_PUT);
}

static void check_key(struct sim_kv_history *history, uint32_t key, struct sim_linear_op *ops)
{
    const struct sim_linear_model model = {
        .state_bytes = sizeof(struct state), .apply = apply, .explain = explain, .arg = history};
    const struct state nothing = {0};
    uint64_t number = 0;
    size_t count = 0;
    for (uint32_t i = 1; i < history->count; i++) {
        const struct sim_kv_op *op = &history->ops[i];
        if (op->key != key || !counts(history, op))
            continue;
        ops[count++] = (struct sim_linear_op){.begin_ns = op->begin_ns,
                                              .end_ns = op->end_ns,
                                              .number = i,
                                              .same = op->ended ? 0 : same_as(op),
                                              .optional = !op->ended && !op->is_proven,
                                              .read = changes_nothing(history, op)};
    }
    int error = sim_linear_check(sim_world_memory(history->world), &model, ops, count, &nothing, &number);
    if (error == -EINVAL) {
        const struct sim_kv_op *op = &history->ops[number];
        sim_fail(history->world,
                 "key %" PRIu32 " of a %s: operation %" PRIu64
                 " (kind %d, condition %d) ended with %d and put "
                 "%" PRIu32 ", which cannot be explained",
                 key, history->evicts[key] ? "cache" : "store", number, (int)op->kind, (int)op->condition,
                 op->error, op->found);
    }
    if (error == -E2BIG)
        sim_note(history->world, "not judged: key, operations", key, count);
    else
        base_assert(error == 0 || error == -EINVAL);
}

/* Note of puts that other operations have found, or were to find, that it is so, and when it was known. */
static void note_names(struct sim_kv_history *history)
{
    for (uint32_t i = 1; i < history->count; i++) {
        const struct sim_kv_op *op = &history->ops[i];
        struct sim_kv_op *put =
            &history->ops[op->condition == TARN_PUT_IF_VERSION ? op->if_number : op->found];
        put->is_named = true;
        if (op->ended && !op->is_void && op->error == 0 && !put->ended) {
            put->is_proven = true;
            put->end_ns = base_min(put->end_ns, op->end_ns);
        }
    }
}

void sim_kv_check(struct sim_kv_history *history)
{
    struct base_account *memory = sim_world_memory(history->world);
    struct sim_linear_op *ops = base_alloc(memory, SIM_KV_OPS_MAX * sizeof(ops[0]));
    base_assert(ops != NULL);
    note_names(history);
    for (uint32_t key = 0; key < history->keys && sim_world_failure(history->world) == NULL; key++)
        check_key(history, key, ops);
    base_free(memory, ops, SIM_KV_OPS_MAX * sizeof(ops[0]));
}
