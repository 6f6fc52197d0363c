/*
 * Campaign `depot`: clients on schedulers and threads work on few keys of one store, through power cuts,
 * kills, closes, drive faults, a full drive and a jumping clock; the oracle says what may be seen.
 *
 *   epoch ──▶ open ──▶ read every key ──▶ clients ──▶ close ──▶ (cut while closed) ──▶ next epoch
 *               └────────────┴───────────────┴──────────┴─▶ power cut or kill ─────────────┘
 */
#include "base/base.h"
#include "sim/campaign_internal.h"
#include "sim/depot_oracle.h"
#include <errno.h>
#include <inttypes.h>
#include <tarn/depot.h>

enum {
    EPOCHS_MAX = 6,
    CLIENTS_MAX = 8,
    OPS_MAX = 40, /* of each client in an epoch */
    KEYS_MAX = 8,
    KEY_BYTES_MAX = 300,
    VALUE_BYTES_MAX = 64 << 10,
    CUT_NS_BITS_MIN = 12,
    CUT_NS_BITS_MAX = 23,
};

#define HOUR_NS (UINT64_C(3600) * 1000000000)
#define DRIVE   "disk"

_Static_assert(EPOCHS_MAX *(CLIENTS_MAX + 1) <= SIM_ORACLE_CLIENTS_MAX, "each has a log in each epoch");
_Static_assert(OPS_MAX <= SIM_ORACLE_OPS_MAX && KEYS_MAX <= SIM_ORACLE_OPS_MAX, "which is long enough");

/* How an epoch is to end. */
enum ending { END_CUT, END_KILL, END_CLOSE };

struct play;

struct client {
    struct play *play;
    struct base_random random;
    uint32_t number; /* the oracle's */
    uint8_t *value;  /* VALUE_BYTES_MAX */
};

struct play {
    struct sim_world *world;
    struct base_random *random;
    struct sim_oracle oracle;
    struct sim_drive *disk;

    /* drawn for the seed */
    uint64_t keys;
    uint64_t drive_bytes;
    uint64_t long_of_4; /* values of any length, which fill the drive; the others are short */
    bool faulty;
    bool clock_jumps;
    bool powered_only; /* TARN_MODE_POWER in all epochs */

    bool made;             /* the store was opened once: it must be there */
    bool lossy;            /* it has acknowledged what a power cut may take */
    uint64_t flush_errors; /* so far */
    uint64_t written_max;  /* bytes that the log can have grown to */
    uint64_t wall_high_ns; /* the latest civil time that a node told */
    uint32_t clients;      /* so far, in all epochs */

    /* of the epoch */
    struct sim_node *node;
    struct tarn_depot *depot;
    enum tarn_mode mode;
    bool last;
    uint64_t faults_before; /* that had happened when faults were last set or cleared */
    bool opened;
    bool closed;
    int error; /* of open or close */
    bool cut_due;
    struct sim_event cut;
    struct sim_event jump;
    struct sim_event unstick;
    uint32_t client_count;
    struct client epoch_clients[CLIENTS_MAX + 1];
};

static uint64_t draw(struct play *play, uint64_t n)
{
    return base_random_below(play->random, n);
}

/* From 0 to just below 2^bits, each number of bits as likely. */
static uint64_t draw_log(struct base_random *random, uint64_t bits)
{
    return base_random_below(random, UINT64_C(1) << base_random_below(random, bits + 1));
}

/* ---- one operation --------------------------------------------------------------------------- */

static size_t key_bytes(uint64_t key)
{
    return key == 0 ? 1 : (size_t)(key * key * 37 % KEY_BYTES_MAX) + 2;
}

/* Keys of different lengths, of which some begin alike. */
static size_t fill_key(uint64_t key, uint8_t *ret_key)
{
    size_t bytes = key_bytes(key);
    memset(ret_key, 'k', bytes);
    ret_key[bytes - 1] = (uint8_t)key;
    return bytes;
}

static uint64_t count_faults(const struct play *play)
{
    uint64_t count = 0;
    for (int fault = 0; fault < SIM_FAULT_COUNT; fault++)
        count += sim_drive_faults(play->disk, (enum sim_fault)fault);
    return count;
}

/* Whether a fault has happened that may be the reason of an error. */
static bool faulted(const struct play *play)
{
    return count_faults(play) > play->faults_before;
}

/* @param condition  the operation had one */
static void check_error(struct client *client, const char *what, int error, bool condition)
{
    struct play *play = client->play;
    switch (error) {
    case 0:
    case -ENOENT:
        return;
    case -EEXIST:
        if (condition)
            return;
        break;
    case -EIO:
    case -EROFS:
    case -ENODEV:
    case -EBADMSG:
        if (faulted(play))
            return;
        break;
    case -ENOSPC:
        if (play->written_max > play->drive_bytes / 2)
            return;
        break;
    }
    sim_fail(play->world, "%s returned %s without a reason", what, strerrorname_np(-error));
}

static void get(struct client *client, uint64_t key, size_t room)
{
    struct play *play = client->play;
    struct tarn_node *tarn = sim_node_tarn(play->node);
    uint8_t name[KEY_BYTES_MAX + 2];
    size_t name_bytes = fill_key(key, name);
    const struct sim_oracle_op op = {.kind = SIM_GET, .key = key};
    uint32_t number = sim_oracle_begin(&play->oracle, tarn, client->number, &op);
    struct tarn_record_info info = {0};
    int error = tarn_depot_get(play->depot, name, name_bytes, client->value, room, &info);
    sim_oracle_end_get(&play->oracle, tarn, number, error, &info, client->value, room);
    if (error != -ENOBUFS)
        check_error(client, "get", error, false);
}

static uint64_t draw_expiry(struct client *client)
{
    if (base_random_below(&client->random, 8) != 0)
        return 0;
    return task_wall(sim_node_tarn(client->play->node)) + draw_log(&client->random, CUT_NS_BITS_MAX);
}

static uint32_t draw_value_bytes(struct client *client)
{
    struct play *play = client->play;
    uint64_t longest = tarn_depot_value_bytes_max(play->depot);
    if (base_random_below(&client->random, 4) < play->long_of_4)
        return (uint32_t)base_random_below(&client->random, longest + 1);
    return (uint32_t)base_min(draw_log(&client->random, 13), longest);
}

static struct sim_oracle_op draw_put(struct client *client, uint64_t key)
{
    struct play *play = client->play;
    struct sim_oracle_op op = {.kind = SIM_PUT, .key = key, .expiry_ns = draw_expiry(client)};
    op.value_bytes = draw_value_bytes(client);
    if (base_random_below(&client->random, 2) == 0)
        op.condition = (enum tarn_put_condition)base_random_below(&client->random, 4);
    if (op.condition == TARN_PUT_IF_VERSION) {
        op.if_number = sim_oracle_known_put(&play->oracle, key);
        if (op.if_number == 0)
            op.condition = TARN_PUT_IF_ABSENT;
    }
    return op;
}

static void put(struct client *client, uint64_t key)
{
    struct play *play = client->play;
    struct tarn_node *tarn = sim_node_tarn(play->node);
    uint8_t name[KEY_BYTES_MAX + 2];
    size_t name_bytes = fill_key(key, name);
    const struct sim_oracle_op op = draw_put(client, key);
    uint32_t number = sim_oracle_begin(&play->oracle, tarn, client->number, &op);
    sim_oracle_fill_value(key, number, client->value, op.value_bytes);
    const struct tarn_put_options options = {
        .condition = op.condition,
        .if_version = op.condition == TARN_PUT_IF_VERSION ? play->oracle.ops[op.if_number].version : 0,
        .expiry_ns = op.expiry_ns,
        .client_flags = number,
    };
    play->written_max += 2 * BASE_PAGE_BYTES + op.value_bytes;
    uint64_t version = 0;
    int error =
        tarn_depot_put(play->depot, name, name_bytes, client->value, op.value_bytes, &options, &version);
    sim_oracle_end(&play->oracle, tarn, number, error, version);
    check_error(client, "put", error, op.condition != TARN_PUT_ANY);
}

static void change(struct client *client, enum sim_oracle_kind kind, uint64_t key)
{
    struct play *play = client->play;
    struct tarn_node *tarn = sim_node_tarn(play->node);
    uint8_t name[KEY_BYTES_MAX + 2];
    size_t name_bytes = fill_key(key, name);
    struct sim_oracle_op op = {.kind = kind, .key = key};
    if (kind == SIM_TOUCH)
        op.expiry_ns = draw_expiry(client);
    if (kind == SIM_FLUSH_ALL) {
        op.key = SIM_ORACLE_ALL_KEYS;
        op.expiry_ns = task_wall(tarn);
        /* after a loss the oracle does not know which orders are still to come */
        if (play->powered_only && base_random_below(&client->random, 2) == 0)
            op.expiry_ns += draw_log(&client->random, CUT_NS_BITS_MAX);
    }
    play->written_max += 2 * BASE_PAGE_BYTES;
    uint32_t number = sim_oracle_begin(&play->oracle, tarn, client->number, &op);
    int error;
    if (kind == SIM_TOUCH)
        error = tarn_depot_touch(play->depot, name, name_bytes, op.expiry_ns);
    else if (kind == SIM_DELETE)
        error = tarn_depot_delete(play->depot, name, name_bytes);
    else
        error = tarn_depot_flush_all(play->depot, op.expiry_ns);
    sim_oracle_end(&play->oracle, tarn, number, error, 0);
    check_error(client, "a change", error, false);
}

/* What the store must refuse before it looks at anything. */
static void misuse(struct client *client)
{
    struct play *play = client->play;
    struct tarn_record_info info;
    uint64_t longest = tarn_depot_value_bytes_max(play->depot);
    if (tarn_depot_get(play->depot, "", 0, client->value, 1, &info) != -EINVAL ||
        tarn_depot_delete(play->depot, "", 0) != -EINVAL ||
        tarn_depot_touch(play->depot, "", 0, 0) != -EINVAL ||
        tarn_depot_put(play->depot, "", 0, "", 0, NULL, NULL) != -EINVAL ||
        tarn_depot_put(play->depot, "k", 1, client->value, longest + 1, NULL, NULL) != -EMSGSIZE)
        sim_fail(play->world, "the store took an empty key or a value that is too long");
}

/* ---- clients --------------------------------------------------------------------------------- */

static void do_one(struct client *client)
{
    struct base_random *random = &client->random;
    uint64_t key = base_random_below(random, client->play->keys);
    uint64_t choice = base_random_below(random, 100);
    if (choice < 38)
        get(client, key, VALUE_BYTES_MAX);
    else if (choice < 41)
        get(client, key, draw_log(random, 13));
    else if (choice < 82)
        put(client, key);
    else if (choice < 89)
        change(client, SIM_DELETE, key);
    else if (choice < 97)
        change(client, SIM_TOUCH, key);
    else if (choice < 99)
        change(client, SIM_FLUSH_ALL, key);
    else
        misuse(client);
}

static void run_client(void *arg)
{
    struct client *client = arg;
    for (uint64_t ops = base_random_below(&client->random, OPS_MAX); ops > 0; ops--) {
        do_one(client);
        if (base_random_below(&client->random, 4) == 0)
            (void)task_sleep(draw_log(&client->random, 17));
    }
}

static void open_and_read(void *arg)
{
    struct client *client = arg;
    struct play *play = client->play;
    const struct tarn_depot_options options = {
        .create_bytes = play->made && draw(play, 2) == 0 ? 0 : play->drive_bytes,
        .mode = play->mode,
    };
    play->error = tarn_depot_open(sim_node_tarn(play->node), DRIVE, &options, &play->depot);
    if (play->error != 0)
        return;
    play->made = true;
    play->lossy = false; /* what was recovered is durable */
    struct tarn_depot *second = NULL;
    if (tarn_depot_open(sim_node_tarn(play->node), DRIVE, &options, &second) != -EBUSY)
        sim_fail(play->world, "the store was opened twice");
    for (uint64_t key = 0; key < play->keys; key++)
        get(client, key, VALUE_BYTES_MAX);
    play->opened = true;
}

static void close_store(void *arg)
{
    struct client *client = arg;
    struct play *play = client->play;
    play->error = tarn_depot_close(play->depot);
    play->closed = true;
}

/* A client on one of the node's schedulers, or as a plain thread. */
static void start_client(struct play *play, const char *name, task_function *function, uint32_t scheds)
{
    struct client *client = &play->epoch_clients[play->client_count++];
    client->play = play;
    client->random = base_random_fork(play->random);
    client->number = play->clients++;
    if (client->value == NULL)
        client->value = base_alloc(sim_world_memory(play->world), VALUE_BYTES_MAX);
    base_assert(client->value != NULL);
    char numbered[TASK_NAME_MAX];
    (void)snprintf(numbered, sizeof(numbered), "%s %u", name, client->number);
    int error = draw(play, 4) == 0
                    ? sim_thread(play->node, numbered, function, client)
                    : sim_spawn(play->node, (uint32_t)draw(play, scheds), numbered, function, client);
    base_assert(error == 0);
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

static void note_cut(struct sim_event *event)
{
    base_container_of(event, struct play, cut)->cut_due = true;
}

static void jump_clock(struct sim_event *event)
{
    struct play *play = base_container_of(event, struct play, jump);
    int64_t by_ns = (int64_t)draw(play, 2 * HOUR_NS) - (int64_t)HOUR_NS;
    sim_world_wall_jump(play->world, by_ns);
}

static void unstick(struct sim_event *event)
{
    struct sim_drive *disk = base_container_of(event, struct play, unstick)->disk;
    sim_drive_set_fault(disk, SIM_FAULT_STUCK, 0, 0);
    sim_drive_unstick(disk);
}

static uint64_t some_time_from_now(struct play *play)
{
    uint64_t bits = CUT_NS_BITS_MIN + draw(play, CUT_NS_BITS_MAX - CUT_NS_BITS_MIN);
    return sim_world_now(play->world) + (UINT64_C(1) << bits) + draw(play, UINT64_C(1) << bits);
}

/* Damage while the log is read cannot be told from the end of the log, so reads only fail then. */
static void set_faults_of_opening(struct play *play)
{
    static const enum sim_fault faults[] = {SIM_FAULT_READ_ERROR, SIM_FAULT_WRITE_ERROR,
                                            SIM_FAULT_FLUSH_ERROR};
    enum sim_fault fault = faults[draw(play, play->lossy ? 2 : 3)]; /* a failed flush loses, as a cut does */
    sim_drive_set_fault(play->disk, fault, 0, 1 + draw(play, 8));
}

static void set_faults_of_running(struct play *play)
{
    static const enum sim_fault faults[] = {SIM_FAULT_READ_ERROR,  SIM_FAULT_READ_DAMAGE,
                                            SIM_FAULT_WRITE_ERROR, SIM_FAULT_WRITE_FULL,
                                            SIM_FAULT_STUCK,       SIM_FAULT_LOST};
    enum sim_fault fault = faults[draw(play, base_array_count(faults))];
    if (draw(play, 2) == 0)
        sim_drive_set_fault(play->disk, fault, 0, 1 + draw(play, 15));
    else
        sim_drive_set_fault(play->disk, fault, 50000, 0);
    if (fault == SIM_FAULT_STUCK)
        sim_event_at(play->world, &play->unstick, some_time_from_now(play));
}

static void clear_faults(struct play *play)
{
    sim_drive_clear_faults(play->disk);
    sim_drive_unstick(play->disk);
    sim_event_cancel(play->world, &play->unstick);
    play->faults_before = count_faults(play);
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static bool all_done_or_cut(void *arg)
{
    const struct play *play = arg;
    return play->cut_due || sim_node_running(play->node) == 0;
}

/* Let the clients run. @return whether they have ended by themselves */
static bool run_until_done(struct play *play)
{
    int error = sim_world_run(play->world, TASK_FOREVER, all_done_or_cut, play);
    return error == 0 && !play->cut_due;
}

static void begin_epoch(struct play *play, uint32_t scheds, bool last)
{
    play->depot = NULL;
    play->last = last;
    play->opened = false;
    play->closed = false;
    play->cut_due = false;
    play->client_count = 0;
    play->mode = play->powered_only || draw(play, 4) != 0 ? TARN_MODE_POWER : TARN_MODE_DEVICE;
    const struct sim_node_options options = {.name = "node", .scheds = scheds};
    base_assert(sim_node_open(play->world, &options, &play->node) == 0);
    /* The clock may be set back while a node runs, but not behind its back: the store keeps no clock. */
    uint64_t wall_ns = sim_world_wall(play->world);
    if (wall_ns < play->wall_high_ns)
        sim_world_wall_jump(play->world, (int64_t)(play->wall_high_ns - wall_ns));
    (void)task_wall(sim_node_tarn(play->node));
    if (!last && draw(play, 5) != 0)
        sim_event_at(play->world, &play->cut, some_time_from_now(play));
    if (play->clock_jumps)
        sim_event_at(play->world, &play->jump, some_time_from_now(play));
    if (play->faulty && !last && draw(play, 4) == 0)
        set_faults_of_opening(play);
}

/* What was acknowledged without being durable is gone. */
static void lose(struct play *play)
{
    sim_oracle_lose(&play->oracle);
    play->lossy = false;
    /* versions are moments: if the clock stood still, lost ones could come again */
    play->wall_high_ns += 1000000;
}

/* What is left of the node goes, and with it whatever was under way. */
static void end_epoch(struct play *play, enum ending ending)
{
    play->wall_high_ns = task_wall(sim_node_tarn(play->node));
    sim_event_cancel(play->world, &play->cut);
    sim_event_cancel(play->world, &play->jump);
    if (ending == END_CUT)
        sim_node_cut(play->node);
    else if (ending == END_KILL)
        sim_node_kill(play->node);
    clear_faults(play);
    sim_oracle_end_epoch(&play->oracle, play->wall_high_ns);
    if (play->lossy && ending == END_CUT)
        lose(play);
}

/* @return whether the store was closed and the node ended in good order */
static bool close_epoch(struct play *play, uint32_t scheds)
{
    play->client_count = 0; /* the clients have ended: their places are free */
    start_client(play, "closer", close_store, scheds);
    play->clients--;
    if (!run_until_done(play))
        return false;
    if (play->error != 0 && !faulted(play))
        sim_fail(play->world, "close returned %s without a reason", strerrorname_np(-play->error));
    play->lossy = play->lossy && play->error != 0;
    play->wall_high_ns = task_wall(sim_node_tarn(play->node));
    sim_event_cancel(play->world, &play->cut);
    return sim_node_close(play->node) == 0;
}

/*
 * After a failed flush the power is cut: a kill would leave in the cache what no later flush makes durable,
 * and whoever recovers from that cannot know.
 */
static enum ending draw_ending(struct play *play)
{
    uint64_t flush_errors = sim_drive_faults(play->disk, SIM_FAULT_FLUSH_ERROR);
    if (flush_errors > play->flush_errors) {
        play->flush_errors = flush_errors;
        return END_CUT;
    }
    if (play->last || (!play->cut_due && draw(play, 2) == 0))
        return END_CLOSE;
    return draw(play, 3) == 0 ? END_KILL : END_CUT;
}

/* Open, and let clients work. @return whether all have ended by themselves, with the store open */
static bool run_epoch(struct play *play, uint32_t scheds)
{
    start_client(play, "opener", open_and_read, scheds);
    if (!run_until_done(play))
        return false;
    if (!play->opened) {
        if (!faulted(play))
            sim_fail(play->world, "open returned %s without a reason", strerrorname_np(-play->error));
        return false;
    }
    clear_faults(play);
    play->lossy = play->mode == TARN_MODE_DEVICE;
    if (play->faulty && !play->last && draw(play, 2) == 0)
        set_faults_of_running(play);
    for (uint64_t clients = play->last ? 0 : draw(play, CLIENTS_MAX + 1); clients > 0; clients--)
        start_client(play, "client", run_client, scheds);
    return run_until_done(play);
}

static void play_epoch(struct play *play, bool last)
{
    uint32_t scheds = 1 + (uint32_t)draw(play, 2);
    begin_epoch(play, scheds, last);
    bool done = run_epoch(play, scheds);
    enum ending ending = draw_ending(play);
    if (!done && ending == END_CLOSE)
        ending = END_CUT;
    if (ending == END_CLOSE && !close_epoch(play, scheds)) {
        /* the power went while it closed, or the world has failed, and then the node may be gone */
        if (sim_world_failure(play->world) != NULL)
            return;
        ending = END_CUT;
    }
    if (ending != END_CLOSE) {
        end_epoch(play, ending);
        return;
    }
    sim_event_cancel(play->world, &play->jump);
    clear_faults(play);
    sim_oracle_end_epoch(&play->oracle, play->wall_high_ns);
    bool cut = play->lossy || draw(play, 2) == 0;
    if (cut)
        sim_drive_cut(play->disk);
    if (play->lossy)
        lose(play); /* the last flush failed */
}

/* ---- the whole ------------------------------------------------------------------------------- */

static const char *const mutations[] = {"flush-ignored", "durable-ignored", "flush-early", "write-dropped",
                                        NULL};

static uint32_t mutation_bits(const char *mutation)
{
    for (uint32_t i = 0; mutation != NULL && mutations[i] != NULL; i++) {
        if (strcmp(mutations[i], mutation) == 0)
            return UINT32_C(1) << i;
    }
    return 0;
}

_Static_assert(SIM_DRIVE_FLUSH_IGNORED == 1 && SIM_DRIVE_DURABLE_IGNORED == 2 && SIM_DRIVE_FLUSH_EARLY == 4 &&
                   SIM_DRIVE_WRITE_DROPPED == 8,
               "in the order of their names");

static void add_drive(struct play *play, const char *mutation)
{
    play->drive_bytes = UINT64_C(1) << (20 + draw(play, 3));
    const struct sim_drive_options options = {
        .bytes = play->drive_bytes,
        .logical_block_bytes = draw(play, 2) == 0 ? 512 : 4096,
        .physical_block_bytes = 4096,
        .write_cache = mutation != NULL || draw(play, 4) != 0,
        .fua = draw(play, 2) == 0,
        .buffered = draw(play, 8) == 0,
    };
    base_assert(sim_drive_add(play->world, DRIVE, &options, &play->disk) == 0);
    sim_drive_mutate(play->disk, mutation_bits(mutation));
}

static void run(struct sim_world *world, const char *mutation)
{
    struct play play = {.world = world, .random = sim_world_random(world)};
    play.keys = 1 + draw(&play, KEYS_MAX);
    play.long_of_4 = draw(&play, 2) == 0 ? 0 : draw(&play, 5);
    play.faulty = draw(&play, 3) == 0;
    play.clock_jumps = draw(&play, 4) == 0;
    play.powered_only = draw(&play, 2) == 0;
    play.cut = (struct sim_event){.name = "cut is due", .run = note_cut};
    play.jump = (struct sim_event){.name = "clock jumps", .run = jump_clock};
    play.unstick = (struct sim_event){.name = "unstick", .run = unstick};
    add_drive(&play, mutation);
    base_assert(sim_oracle_init(&play.oracle, world) == 0);
    for (uint64_t epochs = 1 + draw(&play, EPOCHS_MAX - 1); epochs > 0 && sim_world_failure(world) == NULL;
         epochs--)
        play_epoch(&play, false);
    if (sim_world_failure(world) == NULL)
        play_epoch(&play, true);
    if (sim_world_failure(world) == NULL)
        sim_oracle_check(&play.oracle, play.keys);
    sim_oracle_deinit(&play.oracle);
    for (size_t i = 0; i < base_array_count(play.epoch_clients); i++)
        base_free(sim_world_memory(world), play.epoch_clients[i].value, VALUE_BYTES_MAX);
}

const struct sim_campaign sim_campaign_depot = {
    .name = "depot",
    .help = "a store through power cuts, kills, faults and a full drive, against an oracle",
    .mutations = mutations,
    .run = run,
};
