/*
 * Campaign `depot`: clients on schedulers and threads work on few keys of one small store, so that it is
 * collected all the time, through power cuts, kills, closes, drive faults, a full drive and a jumping clock;
 * the oracle says what may be seen.
 *
 *   epoch ──▶ open ──▶ read every key ──▶ clients ──▶ close ──▶ (cut while closed) ──▶ next epoch
 *               └────────────┴───────────────┴──────────┴─▶ power cut or kill ─────────────┘
 *
 * Between epochs the store is opened to be read, or proven by the checker, now and then.
 */
#include "sim/campaigns/depot.h"
#include "base/base.h"
#include "depot/depot.h"
#include "sim/campaigns/campaign_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <tarn/depot.h>

/* ---- tasks of a node ------------------------------------------------------------------------- */

/* Before anybody looks: what the last epochs have left to be settled. */
static void settle(struct play *play)
{
    if (play->pending != PENDING_NOTHING)
        sim_oracle_settle(&play->shared.oracle, play->pending == PENDING_LOSS ? SIM_LOSS : SIM_DURABLE,
                          sim_world_now(play->world));
    play->pending = PENDING_NOTHING;
    play->lossy = false; /* what was recovered is durable */
}

/* A file is formatted when it is opened first. What was cut off on a device must be overwritten. */
static int format_device(struct play *play)
{
    if (play->made || !play->device)
        return 0;
    const struct tarn_format_options options = {.force = play->tried,
                                                .grain_bytes = 32U << sim_play_draw(play, 5)};
    play->tried = true;
    return tarn_depot_format(sim_node_tarn(play->shared.node), play->path, &options);
}

/* What an opening and its reads have met, a check before it must have found. */
static void judge_check(struct play *play, uint64_t errors_before)
{
    bool other_reasons = sim_depot_fault_count(&play->shared) > play->shared.faults_before;
    if (play->damage_checked && !play->damage_reported && !other_reasons &&
        (play->error != 0 || play->shared.errors > errors_before))
        sim_fail(play->world, "the checker found nothing, and then there were errors");
    play->damage_checked = false;
}

static void open_and_read(void *arg)
{
    struct sim_depot_client *client = arg;
    struct play *play = base_container_of(client->shared, struct play, shared);
    const uint64_t errors_before = play->shared.errors;
    const struct tarn_depot_options options = {
        .mode = play->mode,
        .read_only = play->shared.read_only,
        .serve_damaged = play->shared.damages > 0 && base_random_below(&play->damage_random, 2) == 0,
        .cache = play->shared.oracle.evicts,
        .scrub_rate_bytes =
            play->scrubs ? UINT64_C(1) << (SCRUB_BITS_MIN + sim_play_draw(play, SCRUB_BITS)) : 0,
        .checkpoint_rate_bytes =
            play->checkpoints ? UINT64_C(1) << (CHECKPOINT_BITS_MIN + sim_play_draw(play, CHECKPOINT_BITS))
                              : 0,
        .checkpoint_every_bytes = UINT64_C(1) << (EVERY_BITS_MIN + sim_play_draw(play, EVERY_BITS)),
        .hot_bytes = play->hot_bytes,
        .hot_warm_rate_bytes = play->hot_warm_rate_bytes,
        .create_bytes = !play->made || sim_play_draw(play, 2) == 0 ? play->drive_bytes : 0,
    };
    play->error = format_device(play);
    if (play->error == 0)
        play->error =
            tarn_depot_open(sim_node_tarn(play->shared.node), play->path, &options, &play->shared.depot);
    if (play->error != 0) {
        judge_check(play, errors_before);
        return;
    }
    play->made = true;
    play->opened_ns = sim_world_now(play->world);
    settle(play);
    struct tarn_depot *second = NULL;
    if (tarn_depot_open(sim_node_tarn(play->shared.node), play->path, &options, &second) != -EBUSY)
        sim_fail(play->world, "the store was opened twice");
    sim_depot_read_all(client);
    judge_check(play, errors_before);
    /* what a reader has missed of a cache, nobody has noted */
    play->shared.may_miss = play->shared.oracle.evicts || (play->shared.read_only && play->shared.may_miss);
    play->opened = true;
}

/*
 * At some moment among the others: its drive becomes larger, and it takes that, or not any more. Nobody who reads
 * must notice.
 */
static void extend_store(void *arg)
{
    struct sim_depot_client *client = arg;
    struct play *play = base_container_of(client->shared, struct play, shared);
    struct base_random *random = &play->growth_random;
    const uint32_t count = play->shared.disk_count;
    struct tarn_depot_growth growth;
    if (task_sleep(sim_depot_draw_log(random, play->cut_bits_max - 2)) != 0)
        return;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t bytes = play->disk_bytes[i];
        const uint64_t pages = (DRIVE_GROWS_TIMES - 1) * bytes / BASE_PAGE_BYTES;
        sim_drive_lengthen(play->shared.disks[i],
                           bytes + base_random_below(random, pages + 1) * BASE_PAGE_BYTES);
    }
    int error = tarn_depot_extend(play->shared.depot, &growth);
    if (play->appends && error == -EFBIG) /* there is a limit */
        return;
    sim_depot_check_error(client, "extend", error == -ENOSPC ? -EIO : error, false, false);
    if (error == 0)
        sim_note(play->world, "extended", growth.before_bytes, growth.after_bytes);
}

static void close_store(void *arg)
{
    struct sim_depot_client *client = arg;
    struct play *play = base_container_of(client->shared, struct play, shared);
    play->error = tarn_depot_close(play->shared.depot);
}

static void tell_fault(void *arg, unsigned invariant, const char *sentence)
{
    struct play *play = arg;
    if (play->shared.damages == 0)
        sim_fail(play->world, "the checker says that invariant %u does not hold: %s", invariant, sentence);
}

static void check_store(void *arg)
{
    struct sim_depot_client *client = arg;
    struct play *play = base_container_of(client->shared, struct play, shared);
    struct depot_check_report report = {.faults = 0};
    play->error =
        depot_check(sim_node_tarn(play->shared.node), play->path, false, tell_fault, NULL, play, &report);
    play->damage_checked = true;
    play->damage_reported = play->error != 0 || report.faults != 0;
    if (play->damage_reported && play->shared.damages == 0)
        sim_fail(play->world, "the checker returned %d and found %" PRIu64 " faults", play->error,
                 report.faults);
}

/* A client on one of the node's schedulers, or as a plain thread. */
static void start_client(struct play *play, const char *name, task_function *function, uint32_t scheds)
{
    struct sim_depot_client *client = &play->epoch_clients[play->client_count++];
    uint8_t *value = client->value;
    *client = (struct sim_depot_client){.shared = &play->shared, .value = value};
    client->random = base_random_fork(play->random);
    struct base_random copy = client->random; /* so that seeds keep their other draws */
    base_random_init(&client->long_random, base_random_u64(&copy));
    base_random_init(&client->batch_random, base_random_u64(&copy));
    base_random_init(&client->size_random, base_random_u64(&copy));
    client->number = play->clients++;
    if (client->value == NULL)
        client->value = base_alloc(sim_world_memory(play->world), SIM_DEPOT_VALUE_BYTES_MAX);
    base_assert(client->value != NULL);
    char numbered[TASK_NAME_MAX];
    (void)snprintf(numbered, sizeof(numbered), "%s %u", name, client->number);
    struct sim_node *node = play->shared.node;
    int error = sim_play_draw(play, 4) == 0
                    ? sim_thread(node, numbered, function, client)
                    : sim_spawn(node, (uint32_t)sim_play_draw(play, scheds), numbered, function, client);
    base_assert(error == 0);
}

/* Its number is free again: the oracle has not heard of it. */
static void start_silent_client(struct play *play, const char *name, task_function *function, uint32_t scheds)
{
    play->client_count = 0; /* the others have ended: their places are free */
    start_client(play, name, function, scheds);
    play->clients--;
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static bool is_cut_due(void *arg)
{
    return ((const struct play *)arg)->cut_due;
}

static bool all_done_or_cut(void *arg)
{
    return is_cut_due(arg) || sim_node_running(((const struct play *)arg)->shared.node) == 0;
}

/* Let the clients run. @return whether they have ended by themselves */
static bool run_until_done(struct play *play)
{
    int error = sim_world_run(play->world, TASK_FOREVER, all_done_or_cut, play);
    return error == 0 && !play->cut_due;
}

static void open_node(struct play *play, uint32_t scheds)
{
    const struct sim_node_options options = {.name = "node", .scheds = scheds};
    base_assert(sim_node_open(play->world, &options, &play->shared.node) == 0);
    play->shared.depot = NULL;
    play->shared.reserving_bytes = 0;
    play->opened = false;
    play->cut_due = false;
    play->client_count = 0;
}

/* How many flushes may have failed; those of a lost drive do. */
static uint64_t flush_errors(const struct play *play)
{
    return sim_depot_faults(&play->shared, SIM_FAULT_FLUSH_ERROR) +
           sim_depot_faults(&play->shared, SIM_FAULT_LOST);
}

static void begin_epoch(struct play *play, uint32_t scheds, bool last)
{
    static const enum tarn_mode modes[] = {TARN_MODE_POWER, TARN_MODE_POWER, TARN_MODE_DEVICE,
                                           TARN_MODE_ASYNC};
    open_node(play, scheds);
    play->last = last;
    play->faulted_running = false;
    play->flush_errors_before = flush_errors(play);
    play->mode = play->powered_only ? TARN_MODE_POWER : modes[sim_play_draw(play, base_array_count(modes))];
    play->shared.oracle.lossy = play->mode != TARN_MODE_POWER;
    play->shared.oracle.evicts = play->cache && sim_play_draw(play, 4) != 0;
    play->shared.may_miss = play->shared.may_miss || play->shared.oracle.evicts;
    play->shared.was_cache = play->shared.was_cache || play->shared.oracle.evicts;
    if (play->storm == 0 && sim_play_draw(play, 8) == 0)
        play->storm = 1 + sim_play_draw(play, STORM_MAX);
    if (!last && play->storm > 0)
        sim_event_at(play->world, &play->cut,
                     sim_play_some_time_from_now(play, CUT_NS_BITS_MIN, CUT_NS_BITS_OPENING));
    else if (!last && sim_play_draw(play, 5) != 0)
        sim_event_at(play->world, &play->cut,
                     sim_play_some_time_from_now(
                         play, play->slow && sim_play_draw(play, 2) == 0 ? SLOW_NS_BITS_MIN : CUT_NS_BITS_MIN,
                         play->cut_bits_max));
    play->storm -= play->storm > 0;
    if (play->clock_jumps)
        sim_event_at(play->world, &play->jump,
                     sim_play_some_time_from_now(play, CUT_NS_BITS_MIN, play->cut_bits_max));
    if (play->faulty && !last && sim_play_draw(play, 4) == 0)
        sim_play_set_faults_of_opening(play);
}

/*
 * What the end of the epoch may have taken. A kill takes what an asynchronous store had only in memory; what
 * the device has is at risk until the store is open again.
 */
static void note_losses(struct play *play, bool cut)
{
    bool async = play->opened && play->mode == TARN_MODE_ASYNC;
    bool flush_failed = flush_errors(play) > play->flush_errors_before;
    if (!play->lossy)
        return;
    uint64_t now_ns = sim_world_now(play->world);
    bool in_time =
        async && !play->faulted_running && now_ns > ASYNC_NS && now_ns - ASYNC_NS > play->opened_ns;
    if (in_time && play->pending == PENDING_NOTHING)
        sim_oracle_settle(&play->shared.oracle, SIM_DURABLE, now_ns - ASYNC_NS);
    if (cut || async || flush_failed) {
        play->pending = PENDING_LOSS;
        sim_depot_forget_churned(&play->shared, play->lossy_clients);
    }
    if (play->pending == PENDING_NOTHING)
        play->pending = PENDING_DURABLE;
}

/* What a cache had below its horizon is not there when the store is opened again. */
static void note_evictions(struct play *play)
{
    if (play->shared.oracle.evicts)
        sim_oracle_settle(&play->shared.oracle, SIM_EVICTION, sim_world_now(play->world));
}

/* What is left of the node goes, and with it whatever was under way. */
static void end_epoch(struct play *play, enum ending ending)
{
    uint64_t wall_ns = task_wall(sim_node_tarn(play->shared.node));
    sim_event_cancel(play->world, &play->cut);
    sim_event_cancel(play->world, &play->jump);
    if (ending == END_KILL) {
        sim_node_kill(play->shared.node);
    } else {
        sim_node_cut(play->shared.node);
        sim_play_cut_drives(play); /* also where the node had not opened it */
    }
    sim_play_clear_faults(play);
    sim_oracle_end_epoch(&play->shared.oracle, wall_ns);
    note_losses(play, ending == END_CUT);
    note_evictions(play);
}

/* @return whether the store was closed and the node ended in good order */
static bool close_epoch(struct play *play, uint32_t scheds)
{
    start_silent_client(play, "closer", close_store, scheds);
    if (!run_until_done(play))
        return false;
    if (play->error != 0 && !sim_depot_faulted(&play->shared))
        sim_fail(play->world, "close returned %s without a reason", strerrorname_np(-play->error));
    if (play->error == 0)
        play->pending = play->lossy ? PENDING_DURABLE : PENDING_NOTHING;
    play->lossy = play->lossy && play->error != 0;
    sim_event_cancel(play->world, &play->cut);
    return sim_node_close(play->shared.node) == 0;
}

static enum ending draw_ending(struct play *play)
{
    if (play->last || (!play->cut_due && sim_play_draw(play, 2) == 0))
        return END_CLOSE;
    return sim_play_draw(play, 3) == 0 ? END_KILL : END_CUT;
}

/* May a store say that it cannot be opened? What looks damaged, and is no store yet, is left alone. */
static void judge_opening(struct play *play)
{
    if (play->shared.damages > 0)
        return;
    if (!sim_depot_faulted(&play->shared) || (play->damages_only && play->made))
        sim_fail(play->world, "open returned %s without a reason", strerrorname_np(-play->error));
}

/* Let the store be for some seconds. @return whether the power is still there */
static bool idle(struct play *play)
{
    if (!play->slow || sim_play_draw(play, 2) == 0)
        return true;
    uint64_t until_ns = sim_world_now(play->world) + (UINT64_C(1) << SLOW_NS_BITS_MIN) +
                        sim_depot_draw_log(play->random, SLOW_NS_BITS_MAX);
    return sim_world_run(play->world, until_ns, is_cut_due, play) == -ETIMEDOUT;
}

/* Open, and let clients work. @return whether all have ended by themselves, with the store open */
static bool run_epoch(struct play *play, uint32_t scheds)
{
    start_client(play, "opener", open_and_read, scheds);
    if (!run_until_done(play))
        return false;
    if (!play->opened) {
        judge_opening(play);
        return false;
    }
    bool of_writes = play->writes_fail && sim_depot_faulted(&play->shared);
    sim_play_clear_faults(play);
    /* what failed while it was read remains a reason; so does what is going to, of a write on its way */
    if (depot_failed(play->shared.depot) || of_writes)
        play->shared.faults_before--;
    play->lossy = play->mode != TARN_MODE_POWER;
    play->lossy_clients = play->clients;
    if (play->faulty && !play->last && sim_play_draw(play, 2) == 0)
        sim_play_set_faults_of_running(play);
    /* histories of few keys with many writes that may be lost can be explained in too many ways */
    uint64_t most = base_min((uint64_t)CLIENTS_MAX, play->lossy ? 1 + 2 * play->shared.keys : CLIENTS_MAX);
    for (uint64_t clients = play->last ? 0 : sim_play_draw(play, most + 1); clients > 0; clients--)
        start_client(play, "client", sim_depot_run_client, scheds);
    if (play->grows && !play->last && base_random_below(&play->growth_random, 2) == 0)
        start_client(play, "grower", extend_store, scheds);
    return run_until_done(play) && idle(play);
}

/* The store was closed: end the epoch, perhaps with a cut. */
static void end_closed_epoch(struct play *play)
{
    sim_event_cancel(play->world, &play->jump);
    sim_play_clear_faults(play);
    sim_oracle_end_epoch(&play->shared.oracle, sim_world_wall(play->world));
    bool cut = sim_play_draw(play, 2) == 0;
    if (cut)
        sim_play_cut_drives(play);
    note_losses(play, cut); /* if the last flush failed */
    note_evictions(play);
}

/* The store is open, and nobody works: note what may be damaged, and let later writes vouch for it. @return whether the
 * power is still there */
static bool prepare_damage(struct play *play, uint32_t scheds)
{
    if (depot_failed(play->shared.depot))
        return true;
    sim_play_mark(play);
    for (uint32_t i = 0; i < scheds; i++)
        base_assert(sim_spawn(play->shared.node, i, "voucher", sim_play_vouch, play) == 0);
    base_assert(sim_thread(play->shared.node, "voucher", sim_play_vouch, play) == 0);
    return run_until_done(play);
}

/* @param epochs_left  to come, with the last */
static void play_epoch(struct play *play, uint64_t epochs_left)
{
    const bool last = epochs_left == 0;
    uint32_t scheds = 1 + (uint32_t)sim_play_draw(play, 2);
    const bool damages = !last && epochs_left <= play->damage_epoch && play->shared.damages == 0 &&
                         play->shared.disk_count == 1;
    begin_epoch(play, scheds, last);
    play->damage_mark.vouched = false;
    if (damages)
        sim_event_cancel(play->world, &play->cut); /* else few would come so far */
    bool done = run_epoch(play, scheds) && (!damages || prepare_damage(play, scheds));
    bool rots = done && play->damage_mark.vouched;
    enum ending ending = draw_ending(play);
    if (!done && ending == END_CLOSE)
        ending = END_CUT;
    if (ending == END_CLOSE && !close_epoch(play, scheds)) {
        /* the power went while it closed, or the world has failed, and then the node may be gone */
        if (sim_world_failure(play->world) != NULL)
            return;
        ending = END_CUT;
    }
    if (ending == END_CLOSE)
        end_closed_epoch(play);
    else
        end_epoch(play, ending);
    if (rots && sim_world_failure(play->world) == NULL)
        sim_play_damage(play);
    sim_play_remember_drive(play);
}

/* ---- between epochs -------------------------------------------------------------------------- */

static void close_node(struct play *play)
{
    if (sim_world_failure(play->world) == NULL && sim_node_close(play->shared.node) != 0)
        base_assert(sim_world_failure(play->world) != NULL);
}

/* The checker finds nothing wrong with any store, whatever its end was. */
static void check_between(struct play *play)
{
    open_node(play, 1);
    start_silent_client(play, "checker", check_store, 1);
    (void)run_until_done(play);
    close_node(play);
}

/*
 * After a cut, when the drive has nothing more to lose, the store may be opened to be read, which changes
 * nothing: what it shows then is what it shows later.
 */
static void read_between(struct play *play)
{
    open_node(play, 1);
    play->shared.read_only = true;
    play->shared.oracle.evicts = false;
    play->mode = TARN_MODE_POWER;
    start_client(play, "reader", open_and_read, 1);
    bool done = run_until_done(play);
    play->shared.read_only = false;
    if (done && !play->opened)
        judge_opening(play);
    if (done && play->opened) {
        start_silent_client(play, "closer", close_store, 1);
        (void)run_until_done(play);
        if (play->error != 0)
            sim_fail(play->world, "close returned %s after reading only", strerrorname_np(-play->error));
    }
    if (sim_world_failure(play->world) != NULL)
        return;
    uint64_t wall_ns = task_wall(sim_node_tarn(play->shared.node));
    close_node(play);
    sim_oracle_end_epoch(&play->shared.oracle, wall_ns);
}

static uint64_t undurable(const struct play *play)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < play->shared.disk_count; i++)
        bytes += sim_drive_undurable(play->shared.disks[i]);
    return bytes;
}

static void look_between(struct play *play)
{
    if (!play->made || sim_world_failure(play->world) != NULL)
        return;
    uint64_t choice = sim_play_draw(play, 12);
    if (choice < (play->damage_mark.vouched ? 6 : 2))
        check_between(play);
    else if (choice == 2 && undurable(play) == 0)
        read_between(play);
}

static void append_drive(void *arg)
{
    struct sim_depot_client *client = arg;
    struct play *play = base_container_of(client->shared, struct play, shared);
    struct tarn_depot_growth growth;
    play->error = tarn_depot_grow(sim_node_tarn(play->shared.node), play->path, 0, &growth);
    if (play->error == 0)
        sim_note(play->world, "appended", growth.before_bytes, growth.after_bytes);
}

/* @param may_cut  the power may go. @return whether it has not */
static bool try_to_append(struct play *play, bool may_cut)
{
    open_node(play, 1);
    if (may_cut)
        sim_event_at(play->world, &play->cut,
                     sim_world_now(play->world) +
                         sim_depot_draw_log(&play->append_random, APPEND_NS_BITS_MAX));
    start_silent_client(play, "appender", append_drive, 1);
    const bool done = run_until_done(play);
    sim_event_cancel(play->world, &play->cut);
    if (done) {
        if (play->error != 0)
            sim_fail(play->world, "no drive was appended: %s", strerrorname_np(-play->error));
        close_node(play);
        return true;
    }
    sim_node_cut(play->shared.node);
    sim_play_cut_drives(play);
    return false;
}

/* One more drive joins. If the power goes meanwhile, what there was is there, and it is tried again. */
static void append_between(struct play *play)
{
    if (!play->appends || !play->made || sim_world_failure(play->world) != NULL ||
        play->shared.disk_count == SIM_DEPOT_DISKS_MAX || undurable(play) > 0 ||
        base_random_below(&play->append_random, 3) != 0)
        return;
    sim_play_append_drive(play);
    if (!try_to_append(play, base_random_below(&play->append_random, 2) == 0))
        (void)try_to_append(play, false);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void draw_play(struct play *play)
{
    bool slow = sim_play_draw(play, 3) == 0, busy = sim_play_draw(play, 8) == 0;
    play->slow = slow;
    play->shared.keys = 1 + sim_play_draw(play, SIM_DEPOT_KEYS_MAX);
    play->shared.long_of_4 = sim_play_draw(play, 2) == 0 ? 0 : sim_play_draw(play, 5);
    play->shared.churn_of_8 = busy ? 4 : sim_play_draw(play, 3) == 0 ? 0 : sim_play_draw(play, 5);
    play->shared.sleep_bits = slow ? SLOW_NS_BITS_MAX - 2 : 17;
    play->shared.ops_max = busy ? OPS_BUSY : OPS_MAX;
    play->shared.deletes_much = sim_play_draw(play, busy ? 2 : 8) == 0;
    play->cut_bits_max = slow ? SLOW_NS_BITS_MAX : CUT_NS_BITS_MAX;
    play->faulty = sim_play_draw(play, 3) == 0;
    play->shared.flushes = sim_play_draw(play, 2) == 0;
    play->clock_jumps = sim_play_draw(play, 4) == 0;
    play->powered_only = sim_play_draw(play, 2) == 0;
    play->cache = sim_play_draw(play, 3) == 0;
    play->scrubs = sim_play_draw(play, 3) == 0;
    play->faulty = play->faulty || (play->scrubs && sim_play_draw(play, 2) == 0);
    play->checkpoints = sim_play_draw(play, 2) == 0;
    struct base_random batches; /* seeds keep their other draws */
    base_random_init(&batches, base_hash64(play->random, sizeof(*play->random), 1));
    base_random_init(&play->growth_random, base_hash64(play->random, sizeof(*play->random), 2));
    play->grows = base_random_below(&play->growth_random, 3) == 0;
    base_random_init(&play->append_random, base_hash64(play->random, sizeof(*play->random), 3));
    play->appends = base_random_below(&play->append_random, 4) == 0;
    play->shared.cuts_batches = base_random_below(&batches, 4) == 0;
    play->shared.batches_of_8 = play->shared.cuts_batches ? 6 : 1;
    if (play->cache) { /* something is evicted all the time */
        play->shared.long_of_4 = base_max(play->shared.long_of_4, UINT64_C(1));
        play->shared.churn_of_8 = base_max(play->shared.churn_of_8, UINT64_C(3));
    }
}

static void cut_soon(struct sim_depot_shared *shared, uint64_t ns)
{
    struct play *play = base_container_of(shared, struct play, shared);
    if (play->last || play->cut_due)
        return;
    sim_event_cancel(play->world, &play->cut);
    sim_event_at(play->world, &play->cut, sim_world_now(play->world) + ns);
}

static void run_depot(struct sim_world *world, const char *mutation)
{
    struct play play = {.world = world,
                        .random = sim_world_random(world),
                        .shared = {.world = world, .cut_soon = cut_soon},
                        .mutation = mutation};
    draw_play(&play);
    sim_play_draw_damage(&play);
    sim_play_init_events(&play);
    sim_play_add_drive(&play);
    base_assert(sim_oracle_init(&play.shared.oracle, world) == 0);
    for (uint64_t epochs = 1 + sim_play_draw(&play, EPOCHS_MAX - 1);
         epochs > 0 && sim_world_failure(world) == NULL; epochs--) {
        play_epoch(&play, epochs);
        look_between(&play);
        append_between(&play);
    }
    if (sim_world_failure(world) == NULL)
        play_epoch(&play, 0);
    if (sim_world_failure(world) == NULL)
        check_between(&play);
    if (sim_world_failure(world) == NULL)
        sim_oracle_check(&play.shared.oracle, play.shared.keys);
    sim_oracle_deinit(&play.shared.oracle);
    sim_play_forget_drive(&play);
    for (size_t i = 0; i < base_array_count(play.epoch_clients); i++)
        base_free(sim_world_memory(world), play.epoch_clients[i].value, SIM_DEPOT_VALUE_BYTES_MAX);
}

const struct sim_campaign sim_campaign_depot = {
    .name = "depot",
    .help = "a store through power cuts, kills, faults and a full drive, against an oracle",
    .mutations = sim_play_mutations,
    .run = run_depot,
};
