/*
 * Campaign `hash`: clients of one small hash store, which are killed, stand still and are cut off, also while they hold locks; the master may be
 * another one later. The history of each key must be linearizable. At the end a client that is new looks at all of the store.
 * hash_users.c has the clients.
 */
#include "sim/campaigns/hash.h"
#include "base/base.h"
#include "sim/campaigns/campaign_internal.h"
#include "space/master.h"
#include "space/server.h"
#include <stdio.h>

static struct play *play_of(struct sim_arena *arena)
{
    return base_container_of(arena, struct play, arena);
}

/* ---- master and servers ------------------------------------------------------------------------- */

static void be_master(void *arg)
{
    struct life *life = arg;
    struct play *play = life->play;
    struct tarn_node *node = sim_node_tarn(life->node);
    struct space_master_options options = {.address = MASTERS,
                                           .cluster = "solo:disk",
                                           .name = "master",
                                           .sched = sim_node_sched(life->node, 0),
                                           .chunk_bytes = CHUNK_BYTES,
                                           .lease_ns = play->lease_ns};
    base_assert(tarn_fabric_open(node, "shm:", &options.fabric) == 0);
    life->fabric = options.fabric;
    base_assert(space_master_open(node, &options, &life->master) == 0);
    while (!life->ends && !(play->arena.stop && play->clients == 0))
        (void)task_sleep(LOOK_NS);
    if (!life->ends)
        sim_hash_check_end(life);
    space_master_close(life->master);
    tarn_fabric_close(life->fabric);
}

static void be_server(void *arg)
{
    struct life *life = arg;
    const struct play *play = life->play;
    struct tarn_node *node = sim_node_tarn(life->node);
    char name[16];
    struct space_server_options options = {.address = name,
                                           .masters = MASTERS,
                                           .name = name,
                                           .sched = sim_node_sched(life->node, 0),
                                           .memory_bytes = (uint64_t)CHUNKS * CHUNK_BYTES,
                                           .chunk_bytes = CHUNK_BYTES};
    (void)snprintf(name, sizeof(name), "server%" PRIu32, life->number);
    base_assert(tarn_fabric_open(node, "shm:", &options.fabric) == 0);
    life->fabric = options.fabric;
    base_assert(space_server_open(node, &options, &life->server) == 0);
    while (!play->is_checked)
        (void)task_sleep(LOOK_NS);
    space_server_close(life->server);
    tarn_fabric_close(life->fabric);
}

/* ---- lives -------------------------------------------------------------------------------------- */

static bool is_client(const struct play *play, uint32_t number)
{
    return number > play->servers;
}

static void begin_life(struct sim_arena *arena, uint32_t number)
{
    struct play *play = play_of(arena);
    struct base_account *memory = sim_world_memory(arena->world);
    struct life *life = base_alloc(memory, sizeof(*life));
    const struct sim_node_options options = {.name = arena->names[number], .scheds = 1};
    base_assert(life != NULL);
    *life = (struct life){
        .next = play->lives, .play = play, .number = number, .random = base_random_fork(arena->random)};
    play->lives = play->current[number] = life;
    base_assert(sim_node_open(arena->world, &options, &life->node) == 0);
    arena->current[number] = life->node;
    life->users = base_alloc(memory, USERS_MAX * sizeof(life->users[0]));
    base_assert(life->users != NULL);
    play->clients += is_client(play, number);
    base_assert(sim_spawn(life->node, 0,
                          is_client(play, number) ? "client"
                          : number == 0           ? "master"
                                                  : "server",
                          is_client(play, number) ? sim_hash_use
                          : number == 0           ? be_master
                                                  : be_server,
                          life) == 0);
}

/* Nodes are ended by the campaign alone. */
static void end_life(struct sim_arena *arena, uint32_t number)
{
    (void)arena;
    (void)number;
    base_assert(false);
}

static void kill_life(struct play *play, struct life *life)
{
    const uint32_t number = life->number;
    if (is_client(play, number) && sim_node_running(life->node) > 0)
        play->clients--;
    life->hash = NULL;
    play->current[number] = NULL;
    play->arena.current[number] = NULL;
    sim_node_kill(life->node);
    play->kills++;
}

static void begin_some(struct play *play, uint64_t one_in)
{
    for (uint32_t i = 0; i < play->arena.nodes; i++) {
        if (play->current[i] == NULL && base_random_below(play->arena.random, one_in) == 0)
            begin_life(&play->arena, i);
    }
}

/* ---- what happens ------------------------------------------------------------------------------- */

static bool is_locking(const struct life *life)
{
    struct hash_stats stats = {.locking = 0};
    if (life != NULL && life->hash != NULL)
        hash_stats(life->hash, &stats);
    return stats.locking != 0;
}

static bool is_any_locking(void *arg)
{
    const struct play *play = arg;
    bool is = false;
    for (uint32_t i = 1 + play->servers; i < play->arena.nodes; i++) {
        const struct life *life = play->current[i];
        is = is || is_locking(life);
    }
    return is;
}

static int pass_time(struct play *play, uint64_t most_ns)
{
    struct sim_arena *arena = &play->arena;
    return sim_arena_pass_until(arena,
                                sim_world_now(arena->world) + sim_hash_draw_scaled(arena->random, most_ns));
}

/* Choose a client: at any moment, or one that is about to take a lock or has it. @param ret_life  NULL: it is down */
static int choose_client(struct play *play, struct life **ret_life)
{
    struct sim_arena *arena = &play->arena;
    const uint32_t first = 1 + play->servers;
    *ret_life = play->current[first + base_random_below(arena->random, arena->nodes - first)];
    if (base_random_below(arena->random, 3) == 0)
        return 0;
    int error =
        sim_world_run(arena->world, sim_world_now(arena->world) + 20 * BASE_NS_PER_MS, is_any_locking, play);
    if (error != 0)
        return error == -ETIMEDOUT ? 0 : error;
    error = pass_time(play, 200 * BASE_NS_PER_US);
    for (uint32_t i = first; i < arena->nodes && error == 0; i++) {
        struct life *life = play->current[i];
        if (is_locking(life))
            *ret_life = life;
    }
    return error;
}

static void turn_servers(struct play *play, uint32_t number, bool cut, bool to, bool from)
{
    for (uint32_t i = 1; i <= play->servers; i++) {
        if (to)
            sim_arena_turn_links(&play->arena, number, i, cut);
        if (from)
            sim_arena_turn_links(&play->arena, i, number, cut);
    }
}

/* How long a client stands still: in most cases for about a lease, in some for up to a minute. */
static uint64_t draw_pause_ns(struct play *play)
{
    struct base_random *random = play->arena.random;
    const uint64_t leases_ns = base_max(play->lease_ns, play->shape.lease_ns);
    switch (base_random_below(random, 32)) {
    case 0:
        return sim_hash_draw_scaled(random, 60 * BASE_NS_PER_SECOND);
    case 1:
    case 2:
    case 3:
    case 4:
        return sim_hash_draw_scaled(random, BASE_NS_PER_SECOND);
    default:
        return base_random_below(random, 4 * leases_ns);
    }
}

/* Let a client stand still, maybe with what it has posted still on its way; the others go on. */
static int stall_client(struct play *play)
{
    struct sim_arena *arena = &play->arena;
    struct life *life;
    int error = choose_client(play, &life);
    if (error != 0 || life == NULL || life->node == NULL)
        return error;
    const uint32_t number = life->number;
    const uint64_t begin_ns = sim_world_now(arena->world), end_ns = begin_ns + draw_pause_ns(play);
    const bool is_cut = (play->events & SIM_ARENA_CUTS) != 0 && base_random_below(arena->random, 2) == 0;
    sim_node_pause(life->node, end_ns);
    life->stalled_ns = is_cut ? UINT64_MAX : end_ns;
    play->pauses++;
    if (is_cut)
        turn_servers(play, number, true, true, base_random_below(arena->random, 2) == 0);
    if (base_random_below(arena->random, 4) == 0 && end_ns - begin_ns < BASE_NS_PER_SECOND)
        return 0; /* more happens meanwhile */
    error = sim_arena_pass_until(arena, base_min(end_ns, begin_ns + 4 * play->lease_ns));
    begin_some(play, 2); /* which may take over what it has had */
    if (error == 0 && is_cut && base_random_below(arena->random, 2) == 0)
        turn_servers(play, number, false, true, true);
    play->is_quiet = true;
    if (error == 0 && sim_world_now(arena->world) + 100 * BASE_NS_PER_MS < end_ns)
        error = sim_arena_pass_until(arena, end_ns - 100 * BASE_NS_PER_MS);
    play->is_quiet = false;
    if (error == 0 && sim_world_now(arena->world) < end_ns)
        error = sim_arena_pass_until(arena, end_ns);
    if (error == 0)
        error = pass_time(play, play->lease_ns);
    turn_servers(play, number, false, true, true);
    life->stalled_ns = base_max(end_ns, sim_world_now(arena->world)) + 1;
    return error;
}

static int kill_client(struct play *play)
{
    struct life *life;
    int error = choose_client(play, &life);
    if (error == 0 && life != NULL)
        kill_life(play, life);
    return error;
}

/* Cut a client off from the servers, from the master, or from both, for up to some leases. */
static int isolate_client(struct play *play)
{
    struct sim_arena *arena = &play->arena;
    struct life *life;
    int error = choose_client(play, &life);
    if (error != 0 || life == NULL)
        return error;
    const uint32_t number = life->number;
    const uint64_t what = base_random_below(arena->random, 3);
    const uint64_t ways = 1 + base_random_below(arena->random, 3);
    if (what != 0)
        turn_servers(play, number, true, (ways & 1) != 0, (ways & 2) != 0);
    if (what != 1) {
        sim_arena_turn_links(arena, number, 0, (ways & 1) != 0);
        sim_arena_turn_links(arena, 0, number, (ways & 2) != 0);
    }
    const uint64_t before_ns = life->stalled_ns;
    life->stalled_ns = UINT64_MAX; /* nothing bounds what it does now */
    error = sim_arena_pass_until(arena, sim_world_now(arena->world) +
                                            base_random_below(arena->random, 3 * play->lease_ns));
    begin_some(play, 4);
    turn_servers(play, number, false, true, true);
    sim_arena_turn_links(arena, number, 0, false);
    sim_arena_turn_links(arena, 0, number, false);
    life->stalled_ns = base_max(before_ns, sim_world_now(arena->world) + 1);
    return error;
}

static bool is_over(void *arg)
{
    const struct life *life = arg;
    return sim_node_running(life->node) == 0;
}

/* Kill a memory server, which comes back empty: what was there is gone, and nobody may take that for another state of the store. */
static void lose_memory(struct play *play)
{
    struct life *life = play->current[1 + base_random_below(play->arena.random, play->servers)];
    if (!play->loses_memory || play->is_lost || life == NULL || base_random_below(play->arena.random, 4) != 0)
        return;
    play->is_lost = true;
    kill_life(play, life);
}

/* End the master in one of two ways; another one begins soon. */
static int end_master(struct play *play)
{
    struct sim_arena *arena = &play->arena;
    struct life *life = play->current[0];
    int error = 0;
    if (life == NULL)
        return 0;
    if (base_random_below(arena->random, 2) == 0) {
        kill_life(play, life);
        return 0;
    }
    life->ends = true;
    error = sim_world_run(arena->world, TASK_FOREVER, is_over, life);
    if (error != 0)
        return error;
    play->current[0] = NULL;
    arena->current[0] = NULL;
    return sim_node_close(life->node);
}

static bool is_used(void *arg)
{
    const struct play *play = arg;
    uint32_t count = 0;
    for (uint32_t i = 1 + play->servers; i < play->arena.nodes; i++)
        count += play->current[i] != NULL && play->current[i]->hash != NULL;
    return count > 0;
}

/* Have the store be made before anything happens, in most runs. */
static int begin_well(struct play *play)
{
    struct sim_world *world = play->arena.world;
    int error = base_random_below(play->arena.random, 8) == 0
                    ? 0
                    : sim_world_run(world, sim_world_now(world) + BEGIN_NS, is_used, play);
    play->is_begun = true;
    return error == -ETIMEDOUT ? 0 : error;
}

static int meddle(struct sim_arena *arena)
{
    struct play *play = play_of(arena);
    int error = play->is_begun ? 0 : begin_well(play);
    if (error == 0)
        error = pass_time(play, play->lease_ns);
    begin_some(play, 2);
    if (error == 0)
        lose_memory(play);
    if (error == 0 && (play->events & SIM_ARENA_KILLS) != 0 && base_random_below(arena->random, 2) == 0)
        error = kill_client(play);
    if (error == 0 && (play->events & SIM_ARENA_KILLS) != 0 && base_random_below(arena->random, 8) == 0)
        error = end_master(play);
    if (error == 0 && (play->events & SIM_ARENA_PAUSES) != 0 && base_random_below(arena->random, 2) == 0)
        error = stall_client(play);
    if (error == 0 && (play->events & SIM_ARENA_CUTS) != 0 && base_random_below(arena->random, 3) == 0)
        error = isolate_client(play);
    return error;
}

/* What must be there at the end. */
static void restore(struct sim_arena *arena)
{
    begin_some(play_of(arena), 1);
}

/* ---- a run -------------------------------------------------------------------------------------- */

/* Whether all slots of a key are among the first few. */
static bool is_among(const struct hash_shape *shape, uint64_t bytes, uint64_t slots)
{
    uint8_t key[KEY_BYTES];
    base_store_le64(key, bytes);
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        if (hash_slot_of(shape, hash_key_of(shape, key, sizeof(key)), 0, rank) >= slots)
            return false;
    }
    return true;
}

/* Draw the keys: any, or such that share few slots, each of which then often finds another one taken than a moment ago. */
static void draw_keys(struct play *play)
{
    struct base_random *random = play->arena.random;
    play->is_crowded = base_random_below(random, 3) == 0;
    if (play->is_crowded) {
        play->shape.slots = 16;
        play->shape.ranks = 2 + (uint32_t)base_random_below(random, 2);
        play->history.keys = 3 + (uint32_t)base_random_below(random, 4);
    }
    for (uint32_t i = 0; i < play->history.keys; i++) {
        do
            play->keys[i] = base_random_u64(random);
        while (play->is_crowded && !is_among(&play->shape, play->keys[i], play->history.keys + 1));
    }
}

static void draw_shape(struct play *play)
{
    struct base_random *random = play->arena.random;
    const bool is_narrow = base_random_below(random, 2) == 0; /* the index must grow */
    const bool is_tight = base_random_below(random, 8) == 0;  /* the tables are full soon */
    const uint64_t slots = UINT64_C(16) << base_random_below(random, is_narrow ? 2 : 3);
    play->history.keys =
        (uint32_t)(is_narrow ? base_min(slots + base_random_below(random, slots), (uint64_t)SIM_KV_KEYS_MAX)
                             : 2 + base_random_below(random, slots / 2));
    play->value_bytes = 1 + (uint32_t)base_random_below(random, is_tight ? VALUE_MAX : 150);
    play->expires = base_random_below(random, 2) == 0;
    play->beat_ns = (1 + base_random_below(random, 8)) * BASE_NS_PER_MS;
    play->cache_bytes = base_random_below(random, 2) == 0 ? 0 : 65536;
    play->shape = (struct hash_shape){
        .seed = 1 + base_random_below(random, UINT64_MAX),
        .slots = slots,
        .capacity = (2 + base_random_below(random, 4) + (is_tight ? 0u : 4u)) * CHUNK_BYTES,
        .slab_bytes = 4096u << base_random_below(random, 2),
        .locks = 1u << base_random_below(random, 7),
        .clients = 8u << base_random_below(random, 2),
        .ranks = 2 + (uint32_t)base_random_below(random, 2),
        .filter_bits = (uint32_t)base_random_below(random, HASH_FILTER_BITS_MAX + 1),
        .operation_ns = (5 + sim_hash_draw_scaled(random, 196)) * BASE_NS_PER_MS,
        .lease_ns = (5 + sim_hash_draw_scaled(random, 196)) * BASE_NS_PER_MS,
    };
}

static void init_play(struct play *play, struct sim_world *world)
{
    static const struct sim_drive_options options = {.bytes = DRIVE_BYTES, .write_cache = true};
    struct sim_drive *drive;
    *play = (struct play){.arena = {.world = world,
                                    .random = sim_world_random(world),
                                    .begin = begin_life,
                                    .end = end_life,
                                    .happen = meddle,
                                    .restore = restore,
                                    .turns_more = TURNS_MORE}};
    struct base_random *random = play->arena.random;
    base_assert(sim_kv_history_init(&play->history, world) == 0);
    base_assert(sim_drive_add(world, "disk", &options, &drive) == 0);
    play->servers = 2 + (uint32_t)base_random_below(random, SERVERS_MAX - 1);
    play->arena.nodes = 1 + play->servers + 3 + (uint32_t)base_random_below(random, CLIENTS_MAX - 2);
    sim_arena_draw(&play->arena);
    play->events = play->arena.events;
    play->arena.events &= SIM_ARENA_FLAPS; /* the rest happens here */
    play->loses_memory = (play->events & SIM_ARENA_KILLS) != 0 && base_random_below(random, 5) == 0;
    play->lease_ns = (16 + base_random_below(random, 80)) * BASE_NS_PER_MS;
    draw_shape(play);
    draw_keys(play);
    if (base_random_below(random, 2) == 0)
        sim_world_set_drift(world, DRIFT_PPM_MAX);
}

static void deinit_play(struct play *play)
{
    struct base_account *memory = sim_world_memory(play->arena.world);
    while (play->lives != NULL) {
        struct life *life = play->lives;
        play->lives = life->next;
        base_free(memory, life->users, USERS_MAX * sizeof(life->users[0]));
        base_free(memory, life, sizeof(*life));
    }
    sim_kv_history_deinit(&play->history);
}

static void run_hash(struct sim_world *world, const char *mutation)
{
    (void)mutation;
    struct play play;
    init_play(&play, world);
    sim_arena_play(&play.arena);
    sim_note(world, "operations, hits", play.history.count, play.history.hits);
    sim_note(world, "unknown, full", play.history.unknown, play.full);
    sim_note(world, "kills, pauses", play.kills, play.pauses);
    sim_note(world, "memory lost, operations", play.is_lost, play.gone);
    sim_note(world, "moved, recovered", play.stats.moved, play.stats.recovered);
    sim_note(world, "grown, slots", play.stats.grown, play.stats.slots);
    sim_note(world, "adopted, reclaimed", play.stats.adopted, play.stats.reclaimed);
    if (sim_world_failure(world) == NULL)
        sim_kv_check(&play.history);
    deinit_play(&play);
}

const struct sim_campaign sim_campaign_hash = {
    .name = "hash",
    .help = "clients of a hash store in the memory of several servers, which are killed, stopped and cut off",
    .mutations = (const char *const[]){NULL},
    .run = run_hash,
};
