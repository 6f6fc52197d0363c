/*
 * Campaign `rpc`: nodes serve calls and call each other, while they are killed and stopped and links are cut. Each call has
 * a number that its request carries; it is counted how often it was run, and known what its result must be.
 */
#include "rpc/rpc.h"
#include "base/base.h"
#include "sim/arena.h"
#include "sim/campaigns/campaign_internal.h"
#include <errno.h>
#include <inttypes.h>

enum {
    CALLERS_MAX = 3,  /* of a node at once */
    TOGETHER_MAX = 5, /* calls of one wait */
    BYTES_MAX = 256,
    CALLS_MAX = 8192, /* of a run */
};

enum { SHORT, LONG, BACK, METHODS };

struct play;

/* One life of a node. */
struct life {
    struct life *next;
    struct play *play;
    struct sim_node *node; /* NULL: it has ended */
    uint32_t number;       /* of the node */
    uint32_t scheds;
    uint32_t callers; /* that run */
    struct base_random random;
    struct tarn_fabric *fabric;
    struct tarn_rpc_service service;
    struct tarn_rpc_server *server;
};

/* What is known of a call. */
struct fate {
    uint8_t runs;
    bool is_over; /* its caller was told that it has not run, and will not */
};

struct play {
    struct sim_arena arena;
    struct life *lives;
    struct life *current[SIM_ARENA_NODES_MAX];
    struct fate *fates;
    uint64_t calls_made;
    uint32_t callers; /* that run, of all */
    uint64_t answered, unknown;
};

static struct play *play_of(struct sim_arena *arena)
{
    return base_container_of(arena, struct play, arena);
}

static uint64_t draw_below(struct life *life, uint64_t n)
{
    return base_random_below(&life->random, n);
}

/* ---- what is called ----------------------------------------------------------------------------- */

/* A byte of the result of a call. */
static uint8_t byte_of(uint64_t number, uint32_t place)
{
    return (uint8_t)(number * 131 + number / 251 + place * 7 + 1);
}

static void answer(struct life *life, struct tarn_rpc_request *request, uint64_t number)
{
    const uint32_t bytes = (uint32_t)base_min(number * 37 % BYTES_MAX, (uint64_t)request->room);
    uint8_t *result = request->result;
    (void)life;
    for (uint32_t i = 0; i < bytes; i++)
        result[i] = byte_of(number, i);
    request->result_bytes = bytes;
}

/* Take the number out of a request, whose rest follows from it. */
static uint64_t number_of(struct life *life, const struct tarn_rpc_request *request)
{
    const uint8_t *data = request->data;
    struct play *play = life->play;
    uint64_t number = request->bytes < 8 ? 0 : base_load_le64(data);
    bool is_right = number > 0 && number <= play->calls_made;
    for (uint32_t i = 8; i < request->bytes && is_right; i++)
        is_right = data[i] == byte_of(number, i);
    if (!is_right) {
        sim_fail(play->arena.world, "a method was called with a request that nobody has made");
        return 0;
    }
    struct fate *fate = &play->fates[number];
    if (++fate->runs > 1)
        sim_fail(play->arena.world, "call %" PRIu64 " was run %u times", number, fate->runs);
    if (fate->is_over)
        sim_fail(play->arena.world, "call %" PRIu64 " was run after its caller was told that it had not",
                 number);
    return number;
}

static int run_short(void *arg, struct tarn_rpc_request *request)
{
    answer(arg, request, number_of(arg, request));
    return 0;
}

static int run_long(void *arg, struct tarn_rpc_request *request)
{
    struct life *life = arg;
    const uint64_t number = number_of(life, request);
    (void)task_sleep(draw_below(life, UINT64_C(1) << draw_below(life, 18)));
    answer(life, request, number);
    return 0;
}

static int make_calls(struct life *life, struct tarn_rpc_connection *connection, uint32_t count,
                      bool may_call_back);

/* Call the caller, and answer whatever that came to. */
static int run_back(void *arg, struct tarn_rpc_request *request)
{
    struct life *life = arg;
    const uint64_t number = number_of(life, request);
    (void)make_calls(life, request->connection, 1, false);
    answer(life, request, number);
    return 0;
}

static const struct tarn_rpc_method methods[METHODS] = {
    [SHORT] = {.name = "short", .function = run_short, .is_short = true},
    [LONG] = {.name = "long", .function = run_long},
    [BACK] = {.name = "back", .function = run_back},
};

/* ---- calling ------------------------------------------------------------------------------------ */

/* A call with its memory. */
struct attempt {
    uint64_t number;
    uint8_t request[BYTES_MAX];
    uint8_t result[BYTES_MAX];
};

static void build(struct life *life, struct attempt *attempt, struct tarn_rpc_call *call, bool may_call_back)
{
    struct play *play = life->play;
    const uint32_t bytes = 8 + (uint32_t)draw_below(life, draw_below(life, 2) == 0 ? 32 : BYTES_MAX - 8);
    const bool impatient = (play->arena.events & SIM_ARENA_IMPATIENCE) != 0 && draw_below(life, 16) == 0;
    attempt->number = ++play->calls_made;
    base_store_le64(attempt->request, attempt->number);
    for (uint32_t i = 8; i < bytes; i++)
        attempt->request[i] = byte_of(attempt->number, i);
    *call = (struct tarn_rpc_call){.method = (uint32_t)draw_below(life, may_call_back ? METHODS : BACK),
                                   .request = attempt->request,
                                   .request_bytes = bytes,
                                   .result = attempt->result,
                                   .room = BYTES_MAX,
                                   .deadline_ns = impatient ? task_now() + draw_below(life, 60000) : 0};
}

static void check_answer(struct life *life, const struct attempt *attempt, const struct tarn_rpc_call *call)
{
    struct play *play = life->play;
    struct sim_world *world = play->arena.world;
    struct fate *fate = &play->fates[attempt->number];
    const uint32_t events = play->arena.events;
    if (call->error == 0) {
        bool is_right = call->may_have_run && call->result_bytes == attempt->number * 37 % BYTES_MAX;
        for (uint32_t i = 0; i < call->result_bytes && is_right; i++)
            is_right = attempt->result[i] == byte_of(attempt->number, i);
        if (!is_right)
            sim_fail(world, "call %" PRIu64 " was given a result that is not its own", attempt->number);
        if (fate->runs != 1)
            sim_fail(world, "call %" PRIu64 " was answered and run %u times", attempt->number, fate->runs);
        play->answered++;
        return;
    } /* a call back finds no peer if the caller did not wait, and has left */
    const bool has_reason =
        ((call->error == -ETIMEDOUT || call->error == -EPIPE) && (events & SIM_ARENA_IMPATIENCE) != 0) ||
        ((call->error == -ECONNRESET || call->error == -EPIPE || call->error == -ECONNABORTED) &&
         (events & (SIM_ARENA_KILLS | SIM_ARENA_CUTS)) != 0);
    if (!has_reason)
        sim_fail(world, "call %" PRIu64 " ended with %d, and there is no reason", attempt->number,
                 call->error);
    if (!call->may_have_run) {
        fate->is_over = true;
        if (fate->runs != 0)
            sim_fail(world, "call %" PRIu64 " was run, and its caller told that it was not", attempt->number);
    }
    play->unknown += call->may_have_run;
}

/* @return 0, or what the connection died of */
static int make_calls(struct life *life, struct tarn_rpc_connection *connection, uint32_t count,
                      bool may_call_back)
{
    struct play *play = life->play;
    struct attempt attempts[TOGETHER_MAX];
    struct tarn_rpc_call calls[TOGETHER_MAX];
    if (play->calls_made + count >= CALLS_MAX)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        build(life, &attempts[i], &calls[i], may_call_back);
    tarn_rpc_post(connection, calls, count);
    int error = tarn_rpc_wait(connection, calls, count);
    for (uint32_t i = 0; i < count; i++)
        check_answer(life, &attempts[i], &calls[i]);
    return error == -ETIMEDOUT ? 0 : error;
}

/* Several tasks that share a connection. */
struct sharing {
    struct life *life;
    struct tarn_rpc_connection *connection;
    uint32_t rounds;
};

static void share(void *arg)
{
    struct sharing *sharing = arg;
    struct life *life = sharing->life;
    int error = 0;
    for (uint32_t i = 0; i < sharing->rounds && error == 0 && !life->play->arena.stop; i++) {
        error = make_calls(life, sharing->connection, 1 + (uint32_t)draw_below(life, TOGETHER_MAX),
                           draw_below(life, 2) == 0);
        if (draw_below(life, 3) == 0)
            (void)task_sleep(draw_below(life, UINT64_C(1) << draw_below(life, 20)));
    }
}

static void use(struct life *life, struct tarn_rpc_connection *connection)
{
    struct sharing sharing = {
        .life = life, .connection = connection, .rounds = 1 + (uint32_t)draw_below(life, 20)};
    struct task_group group;
    task_group_init(&group);
    for (uint64_t more = draw_below(life, 3); more > 0; more--)
        base_assert(task_spawn(task_sched_self(), &group, "share", share, &sharing) == 0);
    share(&sharing);
    base_assert(task_group_join(&group, TASK_FOREVER) == 0);
}

static void be_caller(void *arg)
{
    struct life *life = arg;
    struct play *play = life->play;
    while (!play->arena.stop) {
        const struct tarn_rpc_connect_options options = {.way = (enum tarn_rpc_way)draw_below(life, 3),
                                                         .calls = 1 + (uint32_t)draw_below(life, 6),
                                                         .request_bytes = BYTES_MAX,
                                                         .result_bytes = BYTES_MAX,
                                                         .fetch_bytes = (uint32_t)draw_below(life, 2) * 40,
                                                         .calls_back = 1 + (uint32_t)draw_below(life, 2),
                                                         .service = &life->service};
        struct tarn_rpc_connection *connection;
        const uint32_t other = (uint32_t)draw_below(life, play->arena.nodes);
        if (tarn_rpc_connect(life->fabric, play->arena.names[other], &options,
                             task_now() + BASE_NS_PER_SECOND, &connection) == 0) {
            use(life, connection);
            tarn_rpc_disconnect(connection);
        }
        (void)task_sleep(draw_below(life, 1000000));
    }
    life->callers--;
    play->callers--;
}

/* ---- lives -------------------------------------------------------------------------------------- */

static void be_node(void *arg)
{
    struct life *life = arg;
    struct play *play = life->play;
    struct task_sched *scheds[2] = {sim_node_sched(life->node, 0),
                                    sim_node_sched(life->node, life->scheds - 1)};
    const struct tarn_rpc_serve_options options = {
        .calls_max = 8,
        .running_max = 1 + (uint32_t)draw_below(life, 8),
        .spin_ns = 1 + draw_below(life, UINT64_C(1) << draw_below(life, 17))};
    life->service = (struct tarn_rpc_service){.methods = methods, .count = METHODS, .arg = life};
    base_assert(tarn_fabric_open(sim_node_tarn(life->node), "shm:", &life->fabric) == 0);
    base_assert(rpc_serve(life->fabric, play->arena.names[life->number], &life->service, &options, scheds,
                          life->scheds, &life->server) == 0);
    for (uint64_t i = 1 + draw_below(life, CALLERS_MAX); i > 0; i--) {
        life->callers++;
        play->callers++;
        base_assert(
            sim_spawn(life->node, (uint32_t)draw_below(life, life->scheds), "caller", be_caller, life) == 0);
    }
    while (!play->arena.stop || play->callers > 0)
        (void)task_sleep(1000000);
    tarn_rpc_server_close(life->server);
    tarn_fabric_close(life->fabric);
}

static void begin_life(struct sim_arena *arena, uint32_t number)
{
    struct play *play = play_of(arena);
    struct life *life = base_alloc(sim_world_memory(arena->world), sizeof(*life));
    base_assert(life != NULL);
    *life = (struct life){.next = play->lives,
                          .play = play,
                          .number = number,
                          .scheds = 1 + (uint32_t)base_random_below(arena->random, 2),
                          .random = base_random_fork(arena->random)};
    play->lives = play->current[number] = life;
    const struct sim_node_options options = {.name = play->arena.names[number], .scheds = life->scheds};
    base_assert(sim_node_open(arena->world, &options, &life->node) == 0);
    arena->current[number] = life->node;
    base_assert(sim_spawn(life->node, 0, "node", be_node, life) == 0);
}

/* Its callers end with it. */
static void end_life(struct sim_arena *arena, uint32_t number)
{
    struct play *play = play_of(arena);
    play->callers -= play->current[number]->callers;
    play->current[number]->node = NULL;
    play->current[number] = NULL;
}

/* ---- a run -------------------------------------------------------------------------------------- */

static void init(struct play *play, struct sim_world *world)
{
    *play = (struct play){
        .arena = {.world = world, .random = sim_world_random(world), .begin = begin_life, .end = end_life}};
    play->arena.nodes = 2 + (uint32_t)base_random_below(play->arena.random, 2);
    play->fates = base_alloc(sim_world_memory(world), CALLS_MAX * sizeof(play->fates[0]));
    base_assert(play->fates != NULL);
    sim_arena_draw(&play->arena);
}

static void deinit(struct play *play)
{
    struct base_account *memory = sim_world_memory(play->arena.world);
    base_free(memory, play->fates, CALLS_MAX * sizeof(play->fates[0]));
    while (play->lives != NULL) {
        struct life *life = play->lives;
        play->lives = life->next;
        base_free(memory, life, sizeof(*life));
    }
}

static void run_rpc(struct sim_world *world, const char *mutation)
{
    (void)mutation;
    struct play play;
    init(&play, world);
    sim_arena_play(&play.arena);
    sim_note(world, "calls answered, unknown", play.answered, play.unknown);
    deinit(&play);
}

const struct sim_campaign sim_campaign_rpc = {
    .name = "rpc",
    .help = "nodes call each other while they are killed, stopped and cut off",
    .mutations = (const char *const[]){NULL},
    .run = run_rpc,
};
