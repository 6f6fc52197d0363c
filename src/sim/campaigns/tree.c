/*
 * Campaign `tree`: clients on schedulers and threads get, put, remove and touch a few keys of an ordered store, change some
 * together, go through ranges of them both ways, and flush, through power cuts, kills and closes. Oracle and model are those of campaign `depot`:
 * every history must be explained, and nothing that was acknowledged is ever lost.
 *
 *   epoch ──▶ open ──▶ a range over all keys ──▶ clients ──▶ check ──▶ close ──▶ next epoch
 *               └──────────────┴──────────────────────┴────────┴─▶ power cut or kill ──┘
 */
#include "base/base.h"
#include "sim/campaigns/campaign_internal.h"
#include "sim/depot_oracle.h"
#include "tree/store.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    EPOCHS_MAX = 6,
    CLIENTS_MAX = 6,
    KEYS_MAX = 8,
    OPS_MAX = 30, /* of a client in an epoch */
    VALUE_MAX = 1 << 16,
    SHORT_MAX = 300,
    SLEEP_BITS = 17, /* ns that clients sleep, at most */
    EXPIRY_BITS = 20,
    CUT_BITS_MIN = 12,
    CUT_BITS_MAX = 23,
    PREFIX_BYTES = 700, /* of a long key: such nodes have two units */
    BATCH_MAX = 4,
};

#define STORE_BYTES  (UINT64_C(4) << 20)
#define MEMORY_BYTES (UINT64_C(16) << 20)
#define UNIT_NS      UINT64_C(10000000) /* of an expiry, as depots keep it */

struct client {
    struct play *play;
    struct base_random random;
    uint32_t number; /* the oracle's */
    uint32_t told;   /* operations of which the oracle has heard */
    uint8_t *value;  /* VALUE_MAX */
};

struct play {
    struct sim_world *world;
    struct base_random *random;
    struct sim_oracle oracle;
    struct sim_drive *disk;
    struct sim_node *node;
    struct tree_store *store;
    uint64_t keys;
    bool has_long_keys, has_long_values, flushes;
    bool made, opened;
    int error; /* of the opening, or the close */
    bool cut_due;
    struct sim_event cut;
    uint32_t clients; /* in all epochs */
    uint32_t client_count;
    struct client epoch_clients[CLIENTS_MAX + 1];
};

static uint64_t draw_below(struct client *client, uint64_t n)
{
    return base_random_below(&client->random, n);
}

static struct tarn_node *tarn_of(const struct client *client)
{
    return sim_node_tarn(client->play->node);
}

/* ---- keys, and what the oracle is told ------------------------------------------------------------ */

/* Keys in the order of their numbers, some of them long. */
static struct tree_key fill_key(const struct play *play, uint64_t number, uint8_t *buffer)
{
    uint32_t count = 0;
    if (play->has_long_keys) {
        memset(buffer, 'p', PREFIX_BYTES);
        count = PREFIX_BYTES;
    }
    buffer[count++] = (uint8_t)('a' + number);
    if (number % 2 == 1)
        buffer[count++] = '.';
    return (struct tree_key){.bytes = buffer, .count = count};
}

static uint64_t key_number(const struct play *play, const uint8_t *key)
{
    return (uint64_t)key[play->has_long_keys ? PREFIX_BYTES : 0] - 'a';
}

static uint32_t begin_op(struct client *client, const struct sim_oracle_op *op)
{
    client->told++;
    return sim_oracle_begin(&client->play->oracle, tarn_of(client), client->number, op);
}

static void judge_error(struct client *client, const char *what, int error, bool has_condition)
{
    if (error == 0 || error == -ENOENT || (has_condition && error == -EEXIST))
        return;
    sim_fail(client->play->world, "%s returned %s without a reason", what, strerrorname_np(-error));
}

static uint64_t draw_expiry(struct client *client)
{
    if (draw_below(client, 4) != 0)
        return 0;
    return base_max(UNIT_NS, (task_wall(tarn_of(client)) + draw_below(client, UINT64_C(1) << EXPIRY_BITS)) /
                                     UNIT_NS * UNIT_NS +
                                 draw_below(client, 2) * UNIT_NS);
}

static uint32_t draw_value_bytes(struct client *client)
{
    return (uint32_t)draw_below(
        client, client->play->has_long_values && draw_below(client, 4) == 0 ? VALUE_MAX : SHORT_MAX);
}

/* ---- operations ----------------------------------------------------------------------------------- */

static void get_value(struct client *client, uint64_t key)
{
    struct play *play = client->play;
    uint8_t buffer[TREE_KEY_MAX];
    struct tarn_record_info info = {.version = 0};
    const size_t room = draw_below(client, 4) == 0 ? draw_below(client, SHORT_MAX) : VALUE_MAX;
    const uint32_t number = begin_op(client, &(struct sim_oracle_op){.kind = SIM_GET, .key = key});
    int error = tree_store_get(play->store, fill_key(play, key, buffer), client->value, room, &info);
    sim_oracle_end_get(&play->oracle, tarn_of(client), number, error, &info, client->value, room);
    judge_error(client, "get", error == -ENOBUFS ? 0 : error, false);
}

static void put_value(struct client *client, uint64_t key)
{
    struct play *play = client->play;
    uint8_t buffer[TREE_KEY_MAX];
    struct sim_oracle_op op = {
        .kind = SIM_PUT,
        .key = key,
        .value_bytes = draw_value_bytes(client),
        .expiry_ns = draw_expiry(client),
        .condition = (enum tarn_put_condition)(draw_below(client, 2) == 0 ? draw_below(client, 4) : 0)};
    if (op.condition == TARN_PUT_IF_VERSION) {
        op.if_number = sim_oracle_known_put(&play->oracle, key);
        if (op.if_number == 0)
            op.condition = TARN_PUT_IF_ABSENT;
    }
    const uint32_t number = begin_op(client, &op);
    uint64_t version = 0;
    sim_oracle_fill_value(key, number, client->value, op.value_bytes);
    const struct tarn_put_options options = {
        .condition = op.condition,
        .if_version = op.condition == TARN_PUT_IF_VERSION ? play->oracle.ops[op.if_number].version : 0,
        .expiry_ns = op.expiry_ns,
        .client_flags = number};
    int error = tree_store_put(play->store, fill_key(play, key, buffer), client->value, op.value_bytes,
                               &options, &version);
    sim_oracle_end(&play->oracle, tarn_of(client), number, error, version);
    judge_error(client, "put", error, op.condition != TARN_PUT_ANY);
}

static void touch_or_remove(struct client *client, uint64_t key, bool touches)
{
    struct play *play = client->play;
    uint8_t buffer[TREE_KEY_MAX];
    const struct sim_oracle_op op = {
        .kind = touches ? SIM_TOUCH : SIM_DELETE, .key = key, .expiry_ns = touches ? draw_expiry(client) : 0};
    const uint32_t number = begin_op(client, &op);
    const struct tree_key name = fill_key(play, key, buffer);
    int error =
        touches ? tree_store_touch(play->store, name, op.expiry_ns) : tree_store_delete(play->store, name);
    sim_oracle_end(&play->oracle, tarn_of(client), number, error, 0);
    judge_error(client, touches ? "touch" : "delete", error, false);
}

static void update_value(struct client *client, uint64_t key)
{
    static const enum sim_oracle_answer answers[] = {SIM_STORE, SIM_STORE, SIM_REMOVE, SIM_REFUSE};
    struct play *play = client->play;
    uint8_t buffer[TREE_KEY_MAX];
    struct sim_oracle_update own = {
        .oracle = &play->oracle,
        .value = client->value,
        .decided = {.key = key,
                    .expiry_ns = draw_expiry(client),
                    .answer = answers[draw_below(client, base_array_count(answers))],
                    .value_bytes = draw_value_bytes(client)}};
    own.number = begin_op(client, &(struct sim_oracle_op){.kind = SIM_UPDATE, .key = key});
    uint64_t version = 0;
    sim_oracle_fill_value(key, own.number, client->value, own.decided.value_bytes);
    int error =
        tree_store_update(play->store, fill_key(play, key, buffer), sim_oracle_run_update, &own, &version);
    sim_oracle_end(&play->oracle, tarn_of(client), own.number, error, version);
    judge_error(client, "update", error == SIM_ORACLE_REFUSED ? 0 : error, false);
}

static void flush_all(struct client *client)
{
    struct play *play = client->play;
    struct sim_oracle_op op = {
        .kind = SIM_FLUSH_ALL, .key = SIM_ORACLE_ALL_KEYS, .expiry_ns = task_wall(tarn_of(client))};
    if (draw_below(client, 2) == 0)
        op.expiry_ns += draw_below(client, UINT64_C(1) << EXPIRY_BITS);
    const uint32_t number = begin_op(client, &op);
    int error = tree_store_flush(play->store, op.expiry_ns);
    sim_oracle_end(&play->oracle, tarn_of(client), number, error, 0);
    judge_error(client, "flush_all", error, false);
}

/* Some neighbours among the keys are changed together, each of them stored or removed. */
static void write_batch(struct client *client)
{
    struct play *play = client->play;
    uint8_t names[BATCH_MAX][TREE_KEY_MAX];
    struct tarn_put_options options[BATCH_MAX];
    struct tarn_batch_item items[BATCH_MAX];
    uint32_t numbers[BATCH_MAX] = {0};
    bool has_condition = false;
    const uint64_t first = draw_below(client, play->keys);
    const uint32_t count = 1 + (uint32_t)draw_below(client, base_min(play->keys, (uint64_t)BATCH_MAX));
    for (uint32_t i = 0; i < count; i++) {
        struct sim_oracle_op op = {.kind = draw_below(client, 4) == 0 ? SIM_DELETE : SIM_PUT,
                                   .key = (first + i) % play->keys,
                                   .value_bytes = (uint32_t)draw_below(client, SHORT_MAX)};
        if (op.kind == SIM_PUT)
            op.expiry_ns = draw_expiry(client);
        if (op.kind == SIM_PUT && draw_below(client, 8) == 0)
            op.condition = TARN_PUT_IF_ABSENT + (enum tarn_put_condition)draw_below(client, 2);
        numbers[i] = begin_op(client, &op);
        options[i] = (struct tarn_put_options){
            .condition = op.condition, .expiry_ns = op.expiry_ns, .client_flags = numbers[i]};
        const struct tree_key key = fill_key(play, op.key, names[i]);
        items[i] = (struct tarn_batch_item){.key = key.bytes,
                                            .key_len = key.count,
                                            .value = client->value + i * SHORT_MAX,
                                            .value_len = op.kind == SIM_PUT ? op.value_bytes : 0,
                                            .remove = op.kind == SIM_DELETE,
                                            .options = &options[i]};
        sim_oracle_fill_value(op.key, numbers[i], client->value + i * SHORT_MAX, op.value_bytes);
        has_condition = has_condition || op.condition != TARN_PUT_ANY;
    }
    sim_oracle_join(&play->oracle, numbers[0], count);
    int error = tree_store_write_batch(play->store, items, count);
    for (uint32_t i = 0; i < count; i++) {
        const bool is_idle = items[i].error == 0 && items[i].remove && items[i].version == 0;
        sim_oracle_end(&play->oracle, tarn_of(client), numbers[i], is_idle ? -ENOENT : items[i].error,
                       items[i].version);
    }
    judge_error(client, "write_batch", error, has_condition);
}

/* A range: the gets that it stands for, and what it has shown. */
struct walk {
    struct client *client;
    uint32_t numbers[KEYS_MAX];
    bool shown[KEYS_MAX];
    uint64_t first, below; /* keys of the range */
    uint64_t next;         /* from which on a key may come, or below which */
    bool reverse;
    uint64_t left; /* visits, until it is ended; 0: any number */
};

static int visit_record(void *arg, const void *key, size_t key_len, const void *value,
                        const struct tarn_record_info *info)
{
    struct walk *walk = arg;
    struct play *play = walk->client->play;
    uint8_t buffer[TREE_KEY_MAX];
    const uint64_t number = key_number(play, key);
    const struct tree_key wanted = fill_key(play, number, buffer);
    if (number >= play->keys || wanted.count != key_len || memcmp(wanted.bytes, key, key_len) != 0) {
        sim_fail(play->world, "a range shows a key that nobody has stored");
        return -EUCLEAN;
    }
    if (number < walk->first || number >= walk->below ||
        (walk->reverse ? number >= walk->next : number < walk->next)) {
        sim_fail(play->world, "a range shows key %" PRIu64 " out of its order", number);
        return -EUCLEAN;
    }
    walk->next = walk->reverse ? number : number + 1;
    const size_t room = value == NULL ? 0 : info->value_bytes;
    sim_oracle_end_get(&play->oracle, tarn_of(walk->client), walk->numbers[number],
                       room < info->value_bytes ? -ENOBUFS : 0, info, value, room);
    walk->shown[number] = true;
    return walk->left > 0 && --walk->left == 0 ? SIM_ORACLE_REFUSED : 0;
}

/* Go through some of the keys. @param all  through all of them, to the end */
static void walk_keys(struct client *client, bool all)
{
    struct play *play = client->play;
    uint8_t from_buffer[TREE_KEY_MAX], below_buffer[TREE_KEY_MAX];
    struct walk walk = {.client = client, .below = play->keys, .reverse = draw_below(client, 2) == 0};
    if (!all) {
        walk.first = draw_below(client, play->keys);
        walk.below = walk.first + draw_below(client, play->keys - walk.first + 1);
        walk.left = draw_below(client, 3) == 0 ? 1 + draw_below(client, KEYS_MAX) : 0;
    }
    walk.next = walk.reverse ? walk.below : walk.first;
    const struct tree_key from = fill_key(play, walk.first, from_buffer),
                          below = fill_key(play, walk.below, below_buffer);
    const struct tree_store_range range = {.from = all ? NULL : &from,
                                           .below = all ? NULL : &below,
                                           .reverse = walk.reverse,
                                           .limit =
                                               walk.left > 0 && draw_below(client, 2) == 0 ? walk.left : 0};
    const bool is_limited = range.limit > 0;
    if (is_limited)
        walk.left = 0;
    for (uint64_t key = walk.first; key < walk.below; key++)
        walk.numbers[key] = begin_op(client, &(struct sim_oracle_op){.kind = SIM_GET, .key = key});
    int outcome = tree_store_range(play->store, &range, visit_record, &walk);
    for (uint64_t key = walk.first; key < walk.below; key++) {
        const bool is_behind = walk.reverse ? key < walk.next : key >= walk.next; /* what was shown last */
        if (!walk.shown[key])
            sim_oracle_end_unvisited(&play->oracle, tarn_of(client), walk.numbers[key],
                                     (outcome == 0 && !is_limited) || !is_behind);
    }
    judge_error(client, "range", outcome == SIM_ORACLE_REFUSED ? 0 : outcome, false);
}

/* ---- tasks of a node ------------------------------------------------------------------------------- */

static void check_tree(struct client *client)
{
    const char *why = "";
    if (tree_store_check(client->play->store, &why) != 0)
        sim_fail(client->play->world, "the tree is not sound: %s", why);
}

static void run_client(void *arg)
{
    struct client *client = arg;
    struct play *play = client->play;
    const uint64_t ops = draw_below(client, OPS_MAX);
    for (uint64_t i = 0; i < ops && client->told + KEYS_MAX < SIM_ORACLE_OPS_MAX; i++) {
        const uint64_t key = draw_below(client, play->keys), choice = draw_below(client, 16);
        if (choice < 4)
            get_value(client, key);
        else if (choice < 8)
            put_value(client, key);
        else if (choice < 9)
            write_batch(client);
        else if (choice < 11)
            touch_or_remove(client, key, choice == 9);
        else if (choice < 13)
            update_value(client, key);
        else if (choice < 15 || !play->flushes)
            walk_keys(client, false);
        else if (draw_below(client, 4) == 0)
            flush_all(client);
        if (draw_below(client, 3) == 0 &&
            task_sleep(draw_below(client, UINT64_C(1) << draw_below(client, SLEEP_BITS))) != 0)
            return;
    }
}

static void open_store(void *arg)
{
    struct client *client = arg;
    struct play *play = client->play;
    const struct tarn_depot_options depot = {.mode = TARN_MODE_POWER,
                                             .create_bytes = play->made ? 0 : STORE_BYTES};
    const struct tree_store_options options = {.depot = &depot, .memory_bytes = MEMORY_BYTES};
    play->error = tree_store_open(tarn_of(client), "disk", &options, &play->store);
    if (play->error != 0) {
        sim_fail(play->world, "open returned %s without a reason", strerrorname_np(-play->error));
        return;
    }
    play->made = true;
    check_tree(client);
    walk_keys(client, true);
    for (uint64_t key = 0; key < play->keys; key++)
        get_value(client, key);
    play->opened = true;
}

static void close_store(void *arg)
{
    struct client *client = arg;
    check_tree(client);
    client->play->error = tree_store_close(client->play->store);
    if (client->play->error != 0)
        sim_fail(client->play->world, "close returned %s without a reason",
                 strerrorname_np(-client->play->error));
}

/* ---- epochs ---------------------------------------------------------------------------------------- */

static void start_client(struct play *play, const char *name, task_function *function, uint32_t scheds)
{
    struct client *client = &play->epoch_clients[play->client_count++];
    uint8_t *value =
        client->value != NULL ? client->value : base_alloc(sim_world_memory(play->world), VALUE_MAX);
    base_assert(value != NULL);
    *client = (struct client){
        .play = play, .random = base_random_fork(play->random), .number = play->clients++, .value = value};
    int error = base_random_below(play->random, 4) == 0
                    ? sim_thread(play->node, name, function, client)
                    : sim_spawn(play->node, (uint32_t)base_random_below(play->random, scheds), name, function,
                                client);
    base_assert(error == 0);
}

static void note_cut(struct sim_event *event)
{
    base_container_of(event, struct play, cut)->cut_due = true;
}

static bool all_done_or_cut(void *arg)
{
    const struct play *play = arg;
    return play->cut_due || sim_node_running(play->node) == 0;
}

/* @return whether the node's tasks have ended by themselves */
static bool run_until_done(struct play *play)
{
    return sim_world_run(play->world, TASK_FOREVER, all_done_or_cut, play) == 0 && !play->cut_due;
}

/* Open, work, close. @return whether all of it came to its end */
static bool run_epoch(struct play *play, uint32_t scheds, bool is_last)
{
    start_client(play, "opener", open_store, scheds);
    if (!run_until_done(play) || !play->opened)
        return false;
    play->client_count = 0;
    for (uint64_t left = is_last ? 0 : base_random_below(play->random, CLIENTS_MAX + 1); left > 0; left--)
        start_client(play, "client", run_client, scheds);
    if (!run_until_done(play) || (!is_last && base_random_below(play->random, 3) == 0))
        return false;
    play->client_count = 0;
    start_client(play, "closer", close_store, scheds);
    play->clients--; /* the oracle has not heard of it */
    return run_until_done(play);
}

static void play_epoch(struct play *play, bool is_last)
{
    const uint32_t scheds = 1 + (uint32_t)base_random_below(play->random, 2);
    const struct sim_node_options options = {.name = "node", .scheds = scheds};
    base_assert(sim_node_open(play->world, &options, &play->node) == 0);
    play->opened = false;
    play->cut_due = false;
    play->client_count = 0;
    if (!is_last && base_random_below(play->random, 4) != 0)
        sim_event_at(play->world, &play->cut,
                     sim_world_now(play->world) +
                         base_random_below(
                             play->random,
                             UINT64_C(2) << (CUT_BITS_MIN +
                                             base_random_below(play->random, CUT_BITS_MAX - CUT_BITS_MIN))));
    const bool is_closed = run_epoch(play, scheds, is_last);
    sim_event_cancel(play->world, &play->cut);
    if (sim_world_failure(play->world) != NULL)
        return;
    uint64_t wall_ns = task_wall(sim_node_tarn(play->node));
    if (is_closed && sim_node_close(play->node) != 0)
        return;
    if (!is_closed && base_random_below(play->random, 3) == 0) {
        sim_node_kill(play->node);
    } else if (!is_closed) {
        sim_node_cut(play->node);
        sim_drive_cut(play->disk);
    }
    sim_oracle_end_epoch(&play->oracle, wall_ns);
}

/* Of what a drive may do wrong that which matters without checkpoints and flushes of its own. */
static const char *const mutations[] = {"durable-ignored", "write-dropped", NULL};

static void run_tree(struct sim_world *world, const char *mutation)
{
    struct play play = {
        .world = world, .random = sim_world_random(world), .cut = {.name = "cut is due", .run = note_cut}};
    play.keys = 1 + base_random_below(play.random, KEYS_MAX);
    play.has_long_keys = base_random_below(play.random, 3) == 0;
    play.has_long_values = base_random_below(play.random, 3) == 0;
    play.flushes = base_random_below(play.random, 2) == 0;
    const struct sim_drive_options disk = {.bytes = STORE_BYTES,
                                           .most_bytes = STORE_BYTES,
                                           .logical_block_bytes = 512,
                                           .physical_block_bytes = 4096,
                                           .write_cache =
                                               mutation != NULL || base_random_below(play.random, 4) != 0,
                                           .fua = base_random_below(play.random, 2) == 0};
    base_assert(sim_drive_add(world, "disk", &disk, &play.disk) == 0);
    sim_drive_mutate(play.disk, sim_play_mutation_bits(mutation));
    base_assert(sim_oracle_init(&play.oracle, world) == 0);
    for (uint64_t epochs = base_random_below(play.random, EPOCHS_MAX);
         epochs > 0 && sim_world_failure(world) == NULL; epochs--)
        play_epoch(&play, false);
    if (sim_world_failure(world) == NULL)
        play_epoch(&play, true);
    if (sim_world_failure(world) == NULL)
        sim_oracle_check(&play.oracle, play.keys);
    sim_oracle_deinit(&play.oracle);
    for (size_t i = 0; i < base_array_count(play.epoch_clients); i++)
        base_free(sim_world_memory(world), play.epoch_clients[i].value, VALUE_MAX);
}

const struct sim_campaign sim_campaign_tree = {
    .name = "tree",
    .help = "an ordered store through power cuts, kills and closes, against an oracle",
    .mutations = mutations,
    .run = run_tree,
};
