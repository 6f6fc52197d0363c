/* The clients of campaign `hash`: what they do, what they may be told, and what must be there at the end. */
#include "base/base.h"
#include "sim/campaigns/hash.h"
#include <string.h>

static uint64_t draw(struct life *life, uint64_t n)
{
    return base_random_below(&life->random, n);
}

uint64_t sim_hash_draw_scaled(struct base_random *random, uint64_t n)
{
    uint64_t most = n;
    for (uint64_t halves = base_random_below(random, 16); halves > 0 && most > 1; halves--)
        most /= 2;
    return base_random_below(random, most);
}

/* ---- operations --------------------------------------------------------------------------------- */

static void build_key(const struct play *play, uint32_t key, uint8_t *ret_key)
{
    base_store_le64(ret_key, play->keys[key]);
}

static bool is_lost(int error)
{
    return error == -EHOSTUNREACH || error == -ECONNRESET || error == -ETIMEDOUT;
}

/* Whether there is a reason why operations may be lost. */
static bool may_lose(const struct play *play)
{
    return play->events != 0 || play->is_lost;
}

/* Look at how an operation has ended. @return what the history is to be told of it */
static int judge_error(struct life *life, const struct hash_op *op)
{
    struct play *play = life->play;
    if (is_lost(op->error) && !may_lose(play))
        sim_fail(play->arena.world, "an operation of kind %d ended with %d, and there is no reason",
                 (int)op->kind, op->error);
    if (op->error == 0 || op->error == -ENOENT || op->error == -EEXIST || is_lost(op->error))
        return op->error;
    play->full += op->error == -ENOSPC;
    play->gone += op->error == -ENODATA;
    if (op->error != -ENOSPC && !(op->error == -EUSERS && play->events != 0) &&
        !(op->error == -ENODATA && play->is_lost))
        sim_fail(play->arena.world, "an operation of kind %d ended with %d", (int)op->kind, op->error);
    return -EHOSTUNREACH; /* nothing was done */
}

static void end_op(struct user *user, uint32_t i)
{
    struct sim_kv_history *history = &user->life->play->history;
    const struct hash_op *op = &user->ops[i];
    const int error = judge_error(user->life, op);
    uint32_t put = user->numbers[i];
    if (op->kind == HASH_GET)
        put = sim_kv_end_get(history, put, error, &op->info, 0, op->room,
                             error == 0 ? op->info.value_bytes : 0);
    else
        sim_kv_end(history, put, error, op->info.version);
    if (error == 0 && op->kind != HASH_DELETE && put != 0)
        sim_kv_note_record(history, put, op->record);
}

/* What a put or a delete finds must be that of a put that is known, if there is one. */
static void name_put(struct life *life, struct sim_kv_op *op, struct hash_op *ret_op)
{
    const struct sim_kv_history *history = &life->play->history;
    const uint32_t number = sim_kv_known_put(history, op->key);
    op->if_number = number;
    op->condition = number == 0 ? TARN_PUT_ANY : TARN_PUT_IF_VERSION;
    if (number == 0)
        return;
    const bool has_record = history->ops[number].record != 0 && draw(life, 2) == 0;
    if (has_record)
        ret_op->if_record = history->ops[number].record;
    if (!has_record || draw(life, 4) == 0) {
        ret_op->options.condition = TARN_PUT_IF_VERSION;
        ret_op->options.if_version = history->ops[number].version;
    }
}

/* Draw what a put stores. @param ret_op  its version, if it has chosen one, and its expiry are set */
static void draw_record(struct life *life, struct sim_kv_op *op, struct hash_op *ret_op)
{
    struct play *play = life->play;
    op->bytes = 1 + (uint32_t)draw(life, play->value_bytes);
    if (play->expires && draw(life, 4) == 0)
        op->expiry_ns =
            sim_world_wall(play->arena.world) + sim_hash_draw_scaled(&life->random, 100 * BASE_NS_PER_MS);
    if (draw(life, 4) == 0)
        op->version = UINT64_C(1) << 62 | ++play->versions;
    ret_op->options.expiry_ns = op->expiry_ns;
    ret_op->options.version = op->version;
}

/* Say what an operation of a batch is to do, and note that it begins. */
static void begin_op(struct user *user, uint32_t i, enum hash_kind kind, uint32_t key,
                     enum tarn_put_condition condition)
{
    struct life *life = user->life;
    struct sim_kv_history *history = &life->play->history;
    struct hash_op *ret_op = &user->ops[i];
    struct sim_kv_op op = {.kind = kind == HASH_GET   ? SIM_KV_GET
                                   : kind == HASH_PUT ? SIM_KV_PUT
                                                      : SIM_KV_DELETE,
                           .key = key};
    build_key(life->play, key, user->keys[i]);
    *ret_op = (struct hash_op){.kind = kind, .key = user->keys[i], .key_len = KEY_BYTES};
    if (kind != HASH_GET && condition == TARN_PUT_IF_VERSION)
        name_put(life, &op, ret_op);
    else if (kind == HASH_PUT)
        op.condition = ret_op->options.condition = condition;
    if (kind == HASH_PUT)
        draw_record(life, &op, ret_op);
    user->numbers[i] = sim_kv_begin(history, &op);
    if (kind == HASH_GET) {
        ret_op->room = user->values[i];
        ret_op->room_bytes = VALUE_MAX;
    } else if (kind == HASH_PUT) {
        sim_kv_fill(user->numbers[i], user->values[i], op.bytes);
        ret_op->value = user->values[i];
        ret_op->value_len = op.bytes;
        ret_op->options.client_flags = user->numbers[i];
    }
}

/* Run a batch, which must end soon after its deadline. */
static void run_ops(struct user *user, uint32_t count, uint64_t patience_ns)
{
    struct life *life = user->life;
    struct sim_world *world = life->play->arena.world;
    const uint64_t begin_ns = sim_world_now(world);
    hash_run(life->hash, user->ops, count, task_now() + patience_ns);
    const uint64_t passed_ns = sim_world_now(world) - begin_ns;
    /* each operation of a batch whose outcome was lost may take two leases more to find it out */
    const uint64_t most_ns = patience_ns + patience_ns / 64 +
                             (uint64_t)(2 + 2 * count) * life->play->shape.lease_ns + 50 * BASE_NS_PER_MS;
    if (passed_ns > most_ns && life->stalled_ns <= begin_ns)
        sim_fail(world, "operations from %" PRIu32 " on took %" PRIu64 " us instead of %" PRIu64 " at most",
                 user->numbers[0], passed_ns / 1000, most_ns / 1000);
    for (uint32_t i = 0; i < count; i++)
        end_op(user, i);
}

static uint32_t draw_key(struct life *life)
{
    const uint32_t keys = life->play->history.keys;
    return (uint32_t)draw(life, draw(life, 3) == 0 ? base_min(keys, 3u) : keys);
}

static enum hash_kind draw_kind(struct life *life)
{
    const uint64_t what = draw(life, 16);
    return what < 6 ? HASH_GET : what < (life->play->is_crowded ? 11 : 13) ? HASH_PUT : HASH_DELETE;
}

/* Run some operations. One key is seldom changed, so that nobody may miss it, while others drive it from slot to slot. */
static void act(struct user *user)
{
    struct life *life = user->life;
    const uint32_t count = draw(life, 8) == 0   ? 1 + (uint32_t)draw(life, BATCH_MAX)
                           : draw(life, 2) == 0 ? 1
                                                : 1 + (uint32_t)draw(life, 5);
    const bool is_impatient = (life->play->events & SIM_ARENA_IMPATIENCE) != 0 && draw(life, 8) == 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t key = draw_key(life);
        const bool is_steady = key + 1 == life->play->history.keys && draw(life, 16) != 0;
        begin_op(user, i, is_steady ? HASH_GET : draw_kind(life), key,
                 draw(life, 2) == 0 ? TARN_PUT_ANY
                                    : (enum tarn_put_condition)draw(life, TARN_PUT_IF_VERSION + 1));
    }
    run_ops(user, count,
            is_impatient ? sim_hash_draw_scaled(&life->random, 32 * BASE_NS_PER_MS) : PATIENCE_NS);
}

/* ---- scans -------------------------------------------------------------------------------------- */

struct scan {
    struct life *life;
    uint32_t numbers[SIM_KV_KEYS_MAX];
    bool seen[SIM_KV_KEYS_MAX];
};

static int note_shown(void *arg, const void *key, size_t key_len, const void *value,
                      const struct tarn_record_info *info)
{
    struct scan *scan = arg;
    struct play *play = scan->life->play;
    uint8_t bytes[KEY_BYTES];
    for (uint32_t i = 0; i < play->history.keys; i++) {
        build_key(play, i, bytes);
        if (key_len != KEY_BYTES || memcmp(key, bytes, KEY_BYTES) != 0)
            continue;
        if (scan->seen[i])
            sim_fail(play->arena.world, "a scan has shown key %" PRIu32 " twice", i);
        else
            (void)sim_kv_end_get(&play->history, scan->numbers[i], 0, info, 0, value, info->value_bytes);
        scan->seen[i] = true;
        return 0;
    }
    sim_fail(play->arena.world, "a scan has shown a key that nobody has put");
    return -EUCLEAN;
}

/* Scan the store. @param is_alone  nobody changes anything meanwhile */
static void scan_all(struct life *life, bool is_alone)
{
    struct sim_kv_history *history = &life->play->history;
    struct scan scan = {.life = life};
    for (uint32_t i = 0; i < history->keys; i++)
        scan.numbers[i] =
            sim_kv_begin(history, &(struct sim_kv_op){.kind = is_alone ? SIM_KV_GET : SIM_KV_SCAN, .key = i});
    int error = hash_scan(life->hash, note_shown, &scan, PATIENCE_NS);
    if (error != 0 && !(error == -ENODATA && life->play->is_lost) &&
        (is_alone || (!is_lost(error) && error != -EBUSY && error != -EUSERS) ||
         (is_lost(error) && !may_lose(life->play))))
        sim_fail(life->play->arena.world, "a scan ended with %d", error);
    for (uint32_t i = 0; i < history->keys; i++) {
        if (!scan.seen[i])
            (void)sim_kv_end_get(history, scan.numbers[i], error == 0 ? -ENOENT : -EHOSTUNREACH, NULL, 0,
                                 NULL, 0);
    }
}

/* ---- clients ------------------------------------------------------------------------------------ */

/* Wait for the next operations: a while of its own, or until many begin at the same time. */
static void rest(struct life *life)
{
    const struct play *play = life->play;
    if (play->is_quiet)
        (void)task_sleep(400 * BASE_NS_PER_MS);
    else if (draw(life, 2) == 0)
        (void)task_sleep(play->beat_ns - task_now() % play->beat_ns);
    else
        (void)task_sleep(sim_hash_draw_scaled(&life->random, 8 * BASE_NS_PER_MS));
}

static void be_user(void *arg)
{
    struct user *user = arg;
    struct life *life = user->life;
    struct play *play = life->play;
    while (!play->arena.stop) {
        if (!sim_kv_history_has_room(&play->history, ROOM_LEFT))
            break;
        if (draw(life, 24) == 0)
            scan_all(life, false);
        else
            act(user);
        rest(life);
    }
    life->running--;
}

/* Join the namespace in which the store is. @return 0; errors */
static int enter_namespace(struct tarn_space *space, struct tarn_space_namespace **ret_of)
{
    int error = tarn_space_join_ns(space, "stores", NULL, 0, task_now() + PATIENCE_NS, ret_of);
    return error == -ENOENT ? tarn_space_create_ns(space, "stores", NULL, 0, task_now() + PATIENCE_NS, ret_of)
                            : error;
}

static int open_store(struct life *life, struct tarn_space *space, struct tarn_space_namespace *of)
{
    const struct play *play = life->play;
    const struct hash_options options = {.shape = &play->shape, .cache_bytes = play->cache_bytes};
    struct hash *hash;
    int error =
        hash_open(sim_node_tarn(life->node), space, of, "users", &options, task_now() + OPEN_NS, &hash);
    if (error == 0)
        life->hash = hash;
    else if (!is_lost(error) && error != -EUSERS && error != -ESTALE && error != -ENOSPC &&
             !(error == -ENODATA && play->is_lost))
        sim_fail(play->arena.world, "a store could not be opened: %d", error);
    return error;
}

static void close_store(struct life *life)
{
    struct hash_stats stats, *sum = &life->play->stats;
    hash_stats(life->hash, &stats);
    sum->moved += stats.moved;
    sum->recovered += stats.recovered;
    sum->grown += stats.grown;
    sum->adopted += stats.adopted;
    sum->reclaimed += stats.reclaimed;
    sum->repeated += stats.repeated;
    sum->slots = base_max(sum->slots, stats.slots);
    struct hash *hash = life->hash;
    life->hash = NULL;
    hash_close(hash);
}

static void use_store(struct life *life)
{
    const uint32_t users = 1 + (uint32_t)draw(life, USERS_MAX);
    life->running = users;
    for (uint32_t i = 0; i < users; i++) {
        life->users[i].life = life;
        base_assert(sim_spawn(life->node, 0, "user", be_user, &life->users[i]) == 0);
    }
    while (life->running > 0)
        (void)task_sleep(LOOK_NS);
    close_store(life);
}

/* Connect, and open the store. @return whether that was done, else the run has come to its end */
static bool begin_use(struct life *life, struct tarn_space **ret_space, struct tarn_space_namespace **ret_of)
{
    const struct play *play = life->play;
    while (!play->arena.stop) {
        int error = tarn_space_connect(life->fabric, MASTERS, NULL, task_now() + play->lease_ns, ret_space);
        if (error == 0) {
            error = enter_namespace(*ret_space, ret_of);
            if (error == 0 && open_store(life, *ret_space, *ret_of) == 0)
                return true;
            if (error == 0)
                tarn_space_leave_ns(*ret_of);
            tarn_space_disconnect(*ret_space);
        }
        (void)task_sleep(LOOK_NS);
    }
    return false;
}

void sim_hash_use(void *arg)
{
    struct life *life = arg;
    struct tarn_space *space;
    struct tarn_space_namespace *of;
    base_assert(tarn_fabric_open(sim_node_tarn(life->node), "shm:", &life->fabric) == 0);
    if (begin_use(life, &space, &of)) {
        use_store(life);
        tarn_space_leave_ns(of);
        tarn_space_disconnect(space);
    }
    tarn_fabric_close(life->fabric);
    life->play->clients--;
}

/* ---- the end ------------------------------------------------------------------------------------ */

/* Have the layer look at all words. */
static void check_words(struct life *life)
{
    uint64_t keys;
    int error = hash_check(life->hash, task_now() + PATIENCE_NS, &keys);
    if (error != 0)
        sim_fail(life->play->arena.world, "at the end the index is wrong: %d", error);
}

/* Run an operation of a kind for each key, some together. */
static void run_all(struct user *user, enum hash_kind kind, enum tarn_put_condition condition)
{
    const uint32_t keys = user->life->play->history.keys;
    for (uint32_t first = 0; first < keys; first += BATCH_MAX) {
        const uint32_t count = base_min(keys - first, (uint32_t)BATCH_MAX);
        for (uint32_t i = 0; i < count; i++)
            begin_op(user, i, kind, first + i, condition);
        run_ops(user, count, PATIENCE_NS);
    }
}

/* Look at all keys, and at all words, before, when and after they are there. */
static void look_at_all(struct life *life)
{
    life->users[0].life = life;
    run_all(&life->users[0], HASH_GET, TARN_PUT_ANY);
    if (life->play->is_lost)
        return;
    scan_all(life, true);
    run_all(&life->users[0], HASH_PUT,
            TARN_PUT_ANY); /* which recovers what is frozen, also where the record has expired */
    check_words(life);
    scan_all(life, true);
    run_all(&life->users[0], HASH_DELETE, TARN_PUT_ANY);
    check_words(life);
    scan_all(life, true);
}

void sim_hash_check_end(struct life *life)
{
    struct play *play = life->play;
    struct tarn_space *space;
    struct tarn_space_namespace *of;
    play->events = 0; /* nothing happens any more */
    int error = tarn_space_connect(life->fabric, MASTERS, NULL, task_now() + PATIENCE_NS, &space);
    if (error == 0)
        error = enter_namespace(space, &of);
    while (error == 0 && open_store(life, space, of) != 0 && sim_world_failure(play->arena.world) == NULL &&
           !play->is_lost)
        (void)task_sleep(LOOK_NS);
    if (error != 0 || (life->hash == NULL && !play->is_lost)) {
        sim_fail(play->arena.world, "at the end the store could not be opened: %d", error);
        return;
    }
    if (life->hash != NULL) {
        look_at_all(life);
        close_store(life);
    }
    tarn_space_leave_ns(of);
    tarn_space_disconnect(space);
    play->is_checked = true;
}
