/*
 * Campaign `space`: masters, memory servers and clients, which are killed, stopped and cut off. There is one master, with a
 * drive, or two, with an ensemble. Which region has which bytes is known from stamps; space_users.c has the clients, space_check.c looks at the tables and at the end.
 */
#include "sim/campaigns/space.h"
#include "sim/campaigns/campaign_internal.h"
#include "sim/ensemble.h"
#include "space/master.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define BEGIN_NS (300 * BASE_NS_PER_MS)

enum {
    DRIVE_BYTES = 4 << 20,
    DRIFT_PPM_MAX = 5000,
    LOOK_NS = 200000,
    TURNS_MORE = 14,
    THREADS_TURNS_MORE = 4
};

static struct play *play_of(struct sim_arena *arena)
{
    return base_container_of(arena, struct play, arena);
}

static bool is_server(const struct play *play, uint32_t number)
{
    return number >= play->masters && number < play->masters + play->servers;
}

/* ---- nodes -------------------------------------------------------------------------------------- */

struct life *sim_space_leader(const struct play *play)
{
    struct life *leader = NULL;
    for (uint32_t i = 0; i < play->masters; i++) {
        struct life *life = play->current[i];
        const struct space_master *master = life == NULL ? NULL : life->master;
        if (master == NULL || !sim_space_does_lead(life))
            continue;
        if (leader != NULL)
            sim_fail(play->arena.world, "two masters lead");
        leader = life;
    }
    return leader;
}

/* Whether a master is to look at the end: the first that leads then. */
static bool is_to_check(const struct life *life)
{
    const struct play *play = life->play;
    return play->arena.stop && play->clients == 0 && !play->is_ending && sim_space_leader(play) == life;
}

static void be_master(void *arg)
{
    struct life *life = arg;
    struct play *play = life->play;
    struct tarn_node *node = sim_node_tarn(life->node);
    char name[16];
    struct space_master_options options = {.address = name,
                                           .cluster = play->masters == 1 ? "solo:disk" : "sim:ensemble",
                                           .name = name,
                                           .session_ns = play->session_ns,
                                           .sched = sim_node_sched(life->node, 0),
                                           .chunk_bytes = CHUNK_BYTES,
                                           .lease_ns = play->lease_ns};
    base_assert(tarn_fabric_open(node, "shm:", &options.fabric) == 0);
    life->fabric = options.fabric;
    (void)snprintf(name, sizeof(name), "master%" PRIu32, life->number);
    int error;
    while ((error = space_master_open(node, &options, &life->master)) != 0) {
        base_assert(error == -ENOTCONN || error == -EEXIST); /* of the ensemble; it is healed in the end */
        (void)task_sleep(LOOK_NS);
    }
    while (!life->ends && !is_to_check(life) && !play->is_checked)
        (void)task_sleep(LOOK_NS);
    if (!life->ends && !play->is_checked) {
        play->is_ending = true;
        sim_space_check_end(life);
    }
    struct space_master *master = life->master;
    life->master = NULL;
    space_master_close(master);
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
                                           .memory_bytes = (uint64_t)play->chunks * CHUNK_BYTES,
                                           .chunk_bytes = CHUNK_BYTES};
    (void)snprintf(name, sizeof(name), "server%" PRIu32, life->number);
    base_assert(tarn_fabric_open(node, "shm:", &options.fabric) == 0);
    life->fabric = options.fabric;
    base_assert(space_server_open(node, &options, &life->server) == 0);
    while (!play->is_checked)
        (void)task_sleep(LOOK_NS);
    struct space_server *server = life->server;
    life->server = NULL;
    space_server_close(server);
    tarn_fabric_close(life->fabric);
}

static void use_space(struct life *life, uint32_t users)
{
    life->running = users;
    for (uint32_t i = 0; i < users; i++) {
        struct user *user = &life->users[i];
        user->life = life;
        user->slot = (life->number - life->play->masters - life->play->servers) * USERS_MAX + i;
        if (users == 1)
            sim_space_use(user);
        else
            base_assert(sim_spawn(life->node, 0, "user", sim_space_use, user) == 0);
    }
    while (life->running > 0)
        (void)task_sleep(LOOK_NS);
}

/* With one user as a thread, or with several as tasks. */
static void be_client(void *arg)
{
    struct life *life = arg;
    struct play *play = life->play;
    const uint32_t users = task_is_thread() ? 1 : 1 + (uint32_t)sim_space_draw(life, USERS_MAX);
    int error = -ETIMEDOUT;
    base_assert(tarn_fabric_open(sim_node_tarn(life->node), "shm:", &life->fabric) == 0);
    while (error != 0 && !play->arena.stop) {
        error = tarn_space_connect(life->fabric, MASTERS, NULL, task_now() + play->lease_ns, &life->space);
        if (error != 0)
            (void)task_sleep(LOOK_NS);
    }
    if (error == 0) {
        use_space(life, users);
        tarn_space_disconnect(life->space);
    }
    tarn_fabric_close(life->fabric);
    play->clients--;
}

static void begin_client(struct life *life)
{
    struct base_account *memory = sim_world_memory(life->play->arena.world);
    life->play->clients++;
    life->users = base_alloc(memory, USERS_MAX * sizeof(life->users[0]));
    base_assert(life->users != NULL);
    if (life->play->threads_left > 0) {
        life->play->threads_left--;
        base_assert(sim_thread(life->node, "client", be_client, life) == 0);
        return;
    }
    base_assert(sim_spawn(life->node, 0, "client", be_client, life) == 0);
}

static void begin_life(struct sim_arena *arena, uint32_t number)
{
    struct play *play = play_of(arena);
    struct life *life = base_alloc(sim_world_memory(arena->world), sizeof(*life));
    const struct sim_node_options options = {.name = arena->names[number], .scheds = 1};
    base_assert(life != NULL);
    *life = (struct life){
        .next = play->lives, .play = play, .number = number, .random = base_random_fork(arena->random)};
    play->lives = play->current[number] = life;
    base_assert(sim_node_open(arena->world, &options, &life->node) == 0);
    arena->current[number] = life->node;
    if (number < play->masters)
        base_assert(sim_spawn(life->node, 0, "master", be_master, life) == 0);
    else if (is_server(play, number))
        base_assert(sim_spawn(life->node, 0, "server", be_server, life) == 0);
    else
        begin_client(life);
}

static void end_life(struct sim_arena *arena, uint32_t number)
{
    struct play *play = play_of(arena);
    struct life *life = play->current[number];
    if (number >= play->masters + play->servers && sim_node_running(life->node) > 0)
        play->clients--;
    for (uint32_t i = 0; i < play->record_count; i++)
        play->records[i].holders &= ~(1u << number);
    play->current[number] = NULL;
}

/* The same where the campaign itself ends the node. */
static void leave_life(struct sim_arena *arena, uint32_t number)
{
    end_life(arena, number);
    arena->current[number] = NULL;
}

/* ---- what happens ------------------------------------------------------------------------------- */

static bool is_over(void *arg)
{
    const struct life *life = arg;
    return sim_node_running(life->node) == 0;
}

/* End a master in one of the ways there are; another one begins sooner or later. */
static int end_master(struct play *play)
{
    struct sim_arena *arena = &play->arena;
    const uint32_t number = (uint32_t)base_random_below(arena->random, play->masters);
    struct life *life = play->current[number];
    const uint64_t way = base_random_below(arena->random, 3);
    int error = 0;
    if (life == NULL)
        return 0;
    life->ends = true;
    if (way == 0)
        error = sim_world_run(arena->world, TASK_FOREVER, is_over, life);
    if (error != 0)
        return error;
    leave_life(arena, number);
    if (way == 0)
        return sim_node_close(life->node);
    if (way == 1)
        sim_node_kill(life->node);
    else
        sim_node_cut(life->node);
    return 0;
}

/* Cut or heal what a client sends to the memory servers. */
static void turn_servers(struct play *play, uint32_t number, bool cut)
{
    for (uint32_t i = play->masters; i < play->masters + play->servers; i++)
        sim_arena_turn_links(&play->arena, number, i, cut);
}

/* Let the memory servers, whose cards go on, stand still until somewhat after a moment, so that they fence late. */
static void pause_servers(struct play *play, uint64_t until_ns)
{
    for (uint32_t i = play->masters; i < play->masters + play->servers; i++) {
        if (play->current[i] != NULL)
            sim_node_pause(play->current[i]->node,
                           until_ns + base_random_below(play->arena.random, 5 * BASE_NS_PER_MS));
    }
}

/* Cut a client off from the memory servers shortly before its lease ends, and let what it has posted go on shortly after. */
static int cut_at_end(struct play *play, uint32_t number, uint64_t begin_ns)
{
    struct sim_arena *arena = &play->arena;
    const uint64_t early_ns = base_random_below(arena->random, 20 * BASE_NS_PER_MS);
    const uint64_t cut_ns = play->lease_ns - base_min(early_ns, play->lease_ns / 2);
    int error = sim_arena_pass_until(arena, begin_ns + cut_ns);
    const uint64_t end_ns = begin_ns + play->lease_ns + play->lease_ns / 50 +
                            base_random_below(arena->random, 10 * BASE_NS_PER_MS);
    turn_servers(play, number, true);
    if (base_random_below(arena->random, 2) == 0)
        pause_servers(play, end_ns);
    if (base_random_below(arena->random, 3) == 0)
        sim_node_pause(play->current[number]->node,
                       begin_ns + play->lease_ns + base_random_below(arena->random, play->lease_ns));
    if (error == 0)
        error = sim_arena_pass_until(arena, end_ns);
    turn_servers(play, number, false);
    return error;
}

/* Cut or heal what a client sends to the masters, and what they send to it. */
static void turn_masters(struct play *play, uint32_t number, bool to, bool from)
{
    for (uint32_t i = 0; i < play->masters; i++) {
        sim_arena_turn_links(&play->arena, number, i, to);
        sim_arena_turn_links(&play->arena, i, number, from);
    }
}

static bool is_storing(void *arg)
{
    const struct life *life = arg;
    return life->master == NULL || life->master->is_storing;
}

/* Cut the master that leads off from the ensemble for a while, maybe for longer than its session, while it changes something. */
static int isolate_master(struct play *play)
{
    struct sim_arena *arena = &play->arena;
    struct life *life = sim_space_leader(play);
    if (life == NULL || play->masters == 1)
        return 0;
    int error =
        sim_world_run(arena->world, sim_world_now(arena->world) + play->lease_ns / 4, is_storing, life);
    if (error != 0 && error != -ETIMEDOUT)
        return error;
    sim_ensemble_cut(life->node, true);
    error = sim_arena_pass_until(arena, sim_world_now(arena->world) +
                                            base_random_below(arena->random, 2 * play->session_ns));
    if (error == 0)
        sim_ensemble_cut(life->node, false);
    return error;
}

/* Choose a client. @return NULL: it is down */
static struct life *choose_client(const struct play *play)
{
    const uint32_t first = play->masters + play->servers;
    return play->current[first + base_random_below(play->arena.random, play->arena.nodes - first)];
}

/* Cut a client off from the master for longer than its lease, while others free what it holds. */
static int isolate_client(struct play *play)
{
    struct sim_arena *arena = &play->arena;
    const uint64_t begin_ns = sim_world_now(arena->world);
    struct life *life = choose_client(play);
    if (life == NULL || sim_space_leader(play) == NULL)
        return 0;
    const uint32_t number = life->number;
    const bool is_heard = base_random_below(arena->random, 2) == 0;
    const bool to = !is_heard || base_random_below(arena->random, 2) == 0;
    const bool from = is_heard || base_random_below(arena->random, 2) == 0;
    turn_masters(play, number, to, from);
    life->blind_ns = begin_ns;
    play->victim = life;
    int error = cut_at_end(play, number, begin_ns);
    if (error == 0)
        error = sim_arena_pass_until(arena, sim_world_now(arena->world) +
                                                base_random_below(arena->random, play->lease_ns / 2));
    life->blind_ns = 0;
    play->victim = NULL;
    turn_masters(play, number, false, false);
    return error;
}

/* The first client of which a WRITE is under way. @return NULL: there is none */
static struct life *find_writer(const struct play *play)
{
    for (uint32_t i = play->masters + play->servers; i < play->arena.nodes; i++) {
        if (play->current[i] != NULL && sim_space_is_writing(play->current[i], NULL))
            return play->current[i];
    }
    return NULL;
}

static bool is_any_writing(void *arg)
{
    return find_writer(arg) != NULL;
}

/* Have a client stand still with a WRITE under way until its session has expired. Others free the region meanwhile, and take
 * all chunks that they can get; then the WRITE arrives, and they look at what they have. */
static int strand_client(struct play *play)
{
    struct sim_arena *arena = &play->arena;
    const uint64_t lease_ns = play->lease_ns;
    int error = sim_world_run(arena->world, sim_world_now(arena->world) + lease_ns / 8, is_any_writing, play);
    struct life *life = find_writer(play);
    if (error != 0 || life == NULL || sim_space_leader(play) == NULL)
        return error == -ETIMEDOUT ? 0 : error;
    const uint64_t begin_ns = sim_world_now(arena->world);
    const uint64_t arrival_ns =
        begin_ns + lease_ns + lease_ns / 16 + base_random_below(arena->random, lease_ns / 4);
    turn_servers(play, life->number, true);
    sim_node_pause(life->node, arrival_ns + base_random_below(arena->random, lease_ns / 2));
    play->victim = life;
    error = sim_arena_pass_until(arena, begin_ns + lease_ns / 2);
    if (play->fences_cut || base_random_below(arena->random, 4) == 0) /* a fence that cuts must come late */
        pause_servers(play, arrival_ns);
    if (error == 0)
        error = sim_arena_pass_until(arena, arrival_ns);
    play->victim = NULL;
    turn_servers(play, life->number, false);
    if (error == 0)
        error = sim_arena_pass_until(arena, arrival_ns + lease_ns / 16);
    play->arrivals++;
    return error;
}

/* Kill a memory server when nothing is lost with it that has a copy. */
static void lose_server(struct play *play)
{
    struct sim_arena *arena = &play->arena;
    const uint32_t number = play->masters + (uint32_t)base_random_below(arena->random, play->servers);
    struct life *life = play->current[number];
    if (life == NULL || !sim_space_is_whole(play))
        return;
    leave_life(arena, number);
    sim_node_kill(life->node);
}

static void begin_some(struct play *play, uint64_t one_in)
{
    for (uint32_t i = 0; i < play->arena.nodes; i++) {
        if (play->current[i] == NULL &&
            base_random_below(play->arena.random, i < play->masters ? (one_in + 1) / 2 : one_in) == 0)
            begin_life(&play->arena, i);
    }
}

static bool is_complete(void *arg)
{
    const struct play *play = arg;
    const struct life *life = sim_space_leader(play);
    struct space_master_stats stats = {0};
    if (life != NULL)
        space_master_stats(life->master, &stats);
    return stats.servers == play->servers;
}

/* Let the memory servers find their master, which takes longer than most of what happens afterwards. */
static int begin_well(struct play *play)
{
    struct sim_world *world = play->arena.world;
    int error = sim_world_run(world, sim_world_now(world) + BEGIN_NS, is_complete, play);
    play->is_begun = true;
    return error == -ETIMEDOUT ? 0 : error;
}

static int happen(struct sim_arena *arena)
{
    struct play *play = play_of(arena);
    int error = play->is_begun ? 0 : begin_well(play);
    if (error == 0)
        error = sim_arena_pass_until(arena, sim_world_now(arena->world) +
                                                base_random_below(arena->random, play->lease_ns / 2));
    begin_some(play, 4);
    if (error == 0 && play->is_sturdy && base_random_below(arena->random, 2) == 0)
        lose_server(play);
    if (error == 0 && (play->is_calm || (arena->events & SIM_ARENA_KILLS) != 0) &&
        base_random_below(arena->random, 4) == 0)
        error = end_master(play);
    if (error == 0 && (arena->events & SIM_ARENA_CUTS) != 0 && base_random_below(arena->random, 3) == 0)
        error = isolate_client(play);
    if (error == 0 && (arena->events & (SIM_ARENA_CUTS | SIM_ARENA_PAUSES)) != 0 &&
        base_random_below(arena->random, 4) == 0)
        error = strand_client(play);
    if (error == 0 && arena->events != 0 && base_random_below(arena->random, 3) == 0)
        error = isolate_master(play);
    sim_space_check_tables(play);
    return error;
}

/* What must be there at the end. */
static void restore(struct sim_arena *arena)
{
    begin_some(play_of(arena), 1);
}

/* ---- a run -------------------------------------------------------------------------------------- */

/* Draw what has to do with copies; without them the run is as if they were not there. */
static void draw_copies(struct play *play)
{
    struct base_random random = *play->arena.random;
    play->has_copies = play->has_versions && !play->has_threads && base_random_below(&random, 2) == 0;
    play->is_sturdy = play->has_copies && base_random_below(&random, 2) == 0;
    if (play->has_copies)
        play->chunks += 4;
    if (play->is_sturdy) {
        play->servers = SERVERS_MAX;
        play->arena.nodes = play->masters + play->servers + 2;
        play->arena.events = 0;
        play->is_calm = false;
    }
}

static void init_play(struct play *play, struct sim_world *world)
{
    static const struct sim_drive_options drive = {.bytes = DRIVE_BYTES, .write_cache = true};
    *play = (struct play){.arena = {.world = world,
                                    .random = sim_world_random(world),
                                    .begin = begin_life,
                                    .end = end_life,
                                    .happen = happen,
                                    .restore = restore,
                                    .turns_more = TURNS_MORE}};
    struct base_random *random = play->arena.random;
    play->records = base_alloc(sim_world_memory(world), RECORDS_MAX * sizeof(play->records[0]));
    play->lineages = base_alloc(sim_world_memory(world), LINEAGES_MAX * sizeof(play->lineages[0]));
    play->versions = base_alloc(sim_world_memory(world), VERSIONS_MAX * sizeof(play->versions[0]));
    base_assert(play->records != NULL && play->lineages != NULL && play->versions != NULL);
    base_assert(sim_drive_add(world, "disk", &drive, &play->drive) == 0);
    play->masters = 1 + (uint32_t)base_random_below(random, MASTERS_MAX);
    play->servers = 2 + (uint32_t)base_random_below(random, SERVERS_MAX - 1);
    play->has_versions = base_random_below(random, 2) == 0;
    play->chunks = 3 + (uint32_t)base_random_below(random, 4);
    play->arena.nodes =
        play->masters + play->servers + 2 + (uint32_t)base_random_below(random, CLIENTS_MAX - 1);
    sim_arena_draw(&play->arena);
    play->fences_cut = sim_net_options(world)->fence_cuts;
    play->is_calm = base_random_below(random, 5) == 0;
    play->lease_ns = (16 + base_random_below(random, 32)) * BASE_NS_PER_MS;
    if (play->is_calm) {
        play->arena.events = 0;
        play->lease_ns *= 5;
    }
    play->has_threads = base_random_below(random, 8) == 0;
    if (play->has_threads) { /* which look for answers all the time, so that each millisecond takes long */
        play->threads_left = 1;
        play->arena.turns_more = THREADS_TURNS_MORE;
        play->lease_ns = base_min(play->lease_ns, 20 * BASE_NS_PER_MS);
        play->is_calm = false;
    }
    play->session_ns = play->lease_ns / 2;
    if (play->masters > 1)
        sim_ensemble_open(world, play->session_ns);
    if (base_random_below(random, 2) == 0)
        sim_world_set_drift(world, DRIFT_PPM_MAX);
    draw_copies(play);
}

static void deinit_play(struct play *play)
{
    struct base_account *memory = sim_world_memory(play->arena.world);
    while (play->lives != NULL) {
        struct life *life = play->lives;
        play->lives = life->next;
        base_free(memory, life->users, life->users == NULL ? 0 : USERS_MAX * sizeof(life->users[0]));
        base_free(memory, life, sizeof(*life));
    }
    base_free(memory, play->records, RECORDS_MAX * sizeof(play->records[0]));
    base_free(memory, play->lineages, LINEAGES_MAX * sizeof(play->lineages[0]));
    base_free(memory, play->versions, VERSIONS_MAX * sizeof(play->versions[0]));
}

static void run_space(struct sim_world *world, const char *mutation)
{
    (void)mutation;
    struct play play;
    init_play(&play, world);
    sim_arena_play(&play.arena);
    sim_note(world, "regions, writes", play.record_count, play.writes);
    sim_note(world, "reads, allocations", play.reads, play.allocs);
    sim_note(world, "versions published, reads of versions", play.published, play.version_reads);
    deinit_play(&play);
}

const struct sim_campaign sim_campaign_space = {
    .name = "space",
    .help = "memory of several servers, whose master, servers and clients are killed, stopped and cut off",
    .mutations = (const char *const[]){NULL},
    .run = run_space,
};
