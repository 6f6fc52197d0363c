/* Tests of worlds: steps, events, kills, pauses, and that equal seeds give equal runs. */
#include "base/base.h"
#include "sim/sim_internal.h"
#include "sim/testing.h"
#include "task/engine.h"
#include <errno.h>
#include <stdlib.h>

#define SECOND_NS UINT64_C(1000000000)
#define YEAR_NS   (365 * 24 * 3600 * SECOND_NS)

/* ---- determinism ----------------------------------------------------------------------------- */

struct player {
    struct sim_node *node;
    struct drive *drive;
    struct task_channel *channel;
    uint32_t number;
};

/* Sleep, write, flush, send and log, in an order and for a time that this node's generator gives. */
static void play(void *arg)
{
    struct player *player = arg;
    struct tarn_node *tarn = sim_node_tarn(player->node);
    _Alignas(4096) uint8_t block[4096];
    for (int i = 0; i < 20; i++) {
        uint64_t random = task_rng(tarn);
        memset(block, (int)(random >> 8 & 0xff), sizeof(block));
        if (random % 4 == 0)
            (void)task_sleep(random >> 44);
        else if (random % 4 == 1)
            base_assert(
                drive_write(player->drive, (random >> 32) % 16 * 4096, block, 4096, random % 3 == 0) == 0);
        else if (random % 4 == 2)
            base_assert(drive_flush(player->drive) == 0);
        else
            base_assert(task_channel_send(player->channel, player, TASK_FOREVER) == 0);
        base_info(&tarn->log, "played", "player=%u wall_ns=%llu", player->number,
                  (unsigned long long)task_wall(tarn));
    }
    task_channel_close(player->channel);
}

static void drain(void *arg)
{
    struct player *player = arg;
    void *item;
    while (task_channel_receive(player->channel, TASK_FOREVER, &item) == 0)
        base_assert(item == player && drive_flush(player->drive) == 0);
}

static void open_drive(void *arg)
{
    struct player *player = arg;
    base_assert(drive_open(sim_node_tarn(player->node), "disk", &(struct drive_options){0}, &player->drive) ==
                0);
}

static void close_drive(void *arg)
{
    drive_close(((struct player *)arg)->drive);
}

static uint64_t play_a_world(uint64_t seed, FILE *trace)
{
    struct sim_world *world;
    const struct sim_world_options options = {.seed = seed, .trace = trace};
    base_assert(sim_world_open(&options, &world) == 0);
    struct sim_drive *disk;
    base_assert(sim_drive_add(world, "disk",
                              &(struct sim_drive_options){.bytes = 1 << 20, .write_cache = true},
                              &disk) == 0);
    struct task_channel channel;
    struct player player = {.node = sim_test_node(world, 2), .channel = &channel};
    base_assert(task_channel_init(&channel, sim_world_memory(world), 2) == 0);
    sim_test_run(world, player.node, open_drive, &player);
    base_assert(sim_spawn(player.node, 0, "play", play, &player) == 0);
    base_assert(sim_spawn(player.node, 1, "drain", drain, &player) == 0);
    base_assert(sim_thread(player.node, "thread", drain, &player) == 0);
    base_assert(sim_world_run(world, TASK_FOREVER, NULL, NULL) == 0);
    sim_test_run(world, player.node, close_drive, &player);
    base_assert(sim_node_close(player.node) == 0);
    task_channel_deinit(&channel);
    uint64_t hash = sim_world_hash(world);
    sim_world_close(world);
    return hash;
}

static void equal_seeds_give_equal_runs(void)
{
    char *texts[2];
    size_t bytes[2];
    uint64_t hashes[2];
    for (int i = 0; i < 2; i++) {
        FILE *trace = open_memstream(&texts[i], &bytes[i]);
        hashes[i] = play_a_world(7, trace);
        base_assert(fclose(trace) == 0);
        void *shift_the_heap = malloc(1000);
        base_assert(shift_the_heap != NULL); /* kept: addresses differ in the second run */
    }
    base_assert(hashes[0] == hashes[1]);
    base_assert(bytes[0] == bytes[1] && bytes[0] > 1000);
    base_assert(memcmp(texts[0], texts[1], bytes[0]) == 0);
    base_assert(play_a_world(7, NULL) == hashes[0]);
    base_assert(play_a_world(8, NULL) != hashes[0]);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void sleep_a_year(void *arg)
{
    uint64_t begin_ns = task_now();
    base_assert(task_sleep(YEAR_NS) == 0);
    base_assert(task_now() >= begin_ns + YEAR_NS);
    *(uint64_t *)arg = task_now() - begin_ns;
}

static void a_year_is_instant(void)
{
    struct sim_world *world = sim_test_world(1);
    struct sim_node *node = sim_test_node(world, 1);
    uint64_t slept_ns = 0;
    sim_test_run(world, node, sleep_a_year, &slept_ns);
    base_assert(slept_ns < YEAR_NS + SECOND_NS);
    base_assert(sim_thread(node, "thread", sleep_a_year, &slept_ns) == 0);
    base_assert(sim_world_run(world, TASK_FOREVER, NULL, NULL) == 0);
    base_assert(sim_node_close(node) == 0);
    sim_world_close(world);
}

struct ring {
    struct sim_world *world;
    struct sim_event events[3];
    uint64_t times_ns[3];
    int order[3];
    int rung;
};

static void note_ring(struct ring *ring, int which)
{
    ring->times_ns[which] = sim_world_now(ring->world);
    ring->order[ring->rung++] = which;
}

static void ring_0(struct sim_event *event)
{
    note_ring((struct ring *)((char *)event - offsetof(struct ring, events[0])), 0);
}

static void ring_1(struct sim_event *event)
{
    note_ring((struct ring *)((char *)event - offsetof(struct ring, events[1])), 1);
}

static void ring_2(struct sim_event *event)
{
    note_ring((struct ring *)((char *)event - offsetof(struct ring, events[2])), 2);
}

static void events_come_in_time(void)
{
    struct sim_world *world = sim_test_world(2);
    uint64_t now_ns = sim_world_now(world);
    struct ring ring = {
        .world = world,
        .events = {{.name = "a", .run = ring_0}, {.name = "b", .run = ring_1}, {.name = "c", .run = ring_2}},
    };
    sim_event_at(world, &ring.events[0], now_ns + 30);
    sim_event_at(world, &ring.events[1], now_ns + 10);
    sim_event_at(world, &ring.events[2], now_ns + 20);
    sim_event_cancel(world, &ring.events[2]);
    sim_event_cancel(world, &ring.events[2]);
    struct sim_node *node = sim_test_node(world, 1);
    uint64_t slept_ns;
    sim_test_run(world, node, sleep_a_year, &slept_ns);
    base_assert(ring.rung == 2 && ring.order[0] == 1 && ring.order[1] == 0);
    base_assert(ring.times_ns[0] >= now_ns + 30 && ring.times_ns[1] >= now_ns + 10);
    base_assert(sim_node_close(node) == 0);
    sim_world_close(world);
}

static void check_wall(void *arg)
{
    struct sim_node *node = arg;
    struct tarn_node *tarn = sim_node_tarn(node);
    uint64_t before_ns = task_wall(tarn);
    sim_world_wall_jump(node->world, -(int64_t)YEAR_NS);
    base_assert(task_wall(tarn) == before_ns); /* time does not go back */
    base_assert(sim_world_wall(node->world) < before_ns);
    sim_world_wall_jump(node->world, 2 * (int64_t)YEAR_NS);
    base_assert(task_wall(tarn) >= before_ns + YEAR_NS);
}

static void the_wall_clock_jumps(void)
{
    struct sim_world *world = sim_test_world(3);
    struct sim_node *node = sim_test_node(world, 1);
    sim_test_run(world, node, check_wall, node);
    base_assert(sim_node_close(node) == 0);
    sim_world_close(world);
}

/* ---- personalities and the engine ------------------------------------------------------------ */

static void check_task(void *arg)
{
    (void)arg;
    base_assert(!task_is_thread() && task_self() != NULL);
}

static void check_thread(void *arg)
{
    (void)arg;
    base_assert(task_is_thread() && task_self() != NULL);
}

static void threads_pass_for_threads(void)
{
    struct sim_world *world = sim_test_world(4);
    struct sim_node *node = sim_test_node(world, 1);
    base_assert(sim_spawn(node, 0, "task", check_task, NULL) == 0);
    base_assert(sim_thread(node, "thread", check_thread, NULL) == 0);
    base_assert(sim_node_running(node) == 2);
    base_assert(sim_world_run(world, TASK_FOREVER, NULL, NULL) == 0);
    base_assert(sim_node_running(node) == 0);
    base_assert(sim_node_close(node) == 0);
    sim_world_close(world);
}

static void note_done(struct task_io *io)
{
    task_future_set(io->arg, io->result);
}

static void ask_for_a_socket(void *arg)
{
    (void)arg;
    struct task_future future;
    task_future_init(&future);
    struct task_io io = {.op = TASK_IO_ACCEPT, .done = note_done, .arg = &future};
    task_io_post(task_sched_self(), &io);
    int result = 0;
    base_assert(task_future_wait(&future, TASK_FOREVER, &result) == 0);
    base_assert(result == -EOPNOTSUPP);
}

static void sockets_are_refused(void)
{
    struct sim_world *world = sim_test_world(5);
    struct sim_node *node = sim_test_node(world, 1);
    base_assert(strcmp(task_sched_engine_name(sim_node_sched(node, 0)), "sim") == 0);
    sim_test_run(world, node, ask_for_a_socket, NULL);
    base_assert(sim_node_close(node) == 0);
    sim_world_close(world);
}

/* ---- what ends a run ------------------------------------------------------------------------- */

static void wait_for_ever(void *arg)
{
    int value;
    base_assert(task_shared_future_wait(arg, TASK_FOREVER, &value) == 0);
}

static void a_deadlock_is_found(void)
{
    struct sim_world *world = sim_test_world(6);
    struct sim_node *node = sim_test_node(world, 2);
    struct task_shared_future future;
    task_shared_future_init(&future);
    base_assert(sim_spawn(node, 1, "the waiter", wait_for_ever, &future) == 0);
    uint64_t until_ns = sim_world_now(world) + SECOND_NS;
    base_assert(sim_world_run(world, until_ns, NULL, NULL) == -ETIMEDOUT);
    base_assert(sim_world_now(world) == until_ns);
    base_assert(sim_world_failure(world) == NULL);
    base_assert(sim_world_run(world, TASK_FOREVER, NULL, NULL) == -EDEADLK);
    base_assert(strstr(sim_world_failure(world), "deadlock") != NULL);
    base_assert(strstr(sim_world_failure(world), "node/the waiter") != NULL);
    base_assert(sim_world_run(world, TASK_FOREVER, NULL, NULL) == -ECANCELED);
    sim_world_close(world);
}

static void yield_for_ever(void *arg)
{
    (void)arg;
    for (;;)
        task_yield();
}

static void a_run_without_end_is_found(void)
{
    struct sim_world *world;
    const struct sim_world_options options = {.seed = 7, .steps_max = 1000};
    base_assert(sim_world_open(&options, &world) == 0);
    struct sim_node *node = sim_test_node(world, 1);
    base_assert(sim_spawn(node, 0, "yielder", yield_for_ever, NULL) == 0);
    base_assert(sim_world_run(world, TASK_FOREVER, NULL, NULL) == -ECANCELED);
    base_assert(strstr(sim_world_failure(world), "node/yielder") != NULL);
    sim_world_close(world);
}

static void fail_the_world(void *arg)
{
    sim_fail(arg, "first %d", 1);
    sim_fail(arg, "second");
}

static void the_first_failure_is_kept(void)
{
    struct sim_world *world = sim_test_world(8);
    struct sim_node *node = sim_test_node(world, 1);
    base_assert(sim_spawn(node, 0, "failing", fail_the_world, world) == 0);
    base_assert(sim_world_run(world, TASK_FOREVER, NULL, NULL) == -ECANCELED);
    base_assert(strcmp(sim_world_failure(world), "first 1") == 0);
    sim_world_close(world);
}

static void count_for_ever(void *arg)
{
    for (;;) {
        ++*(uint64_t *)arg;
        (void)task_sleep(1000);
    }
}

static void a_cut_node_does_nothing_more(void)
{
    struct sim_world *world = sim_test_world(9);
    struct sim_node *cut = sim_test_node(world, 1);
    struct sim_node *other = sim_test_node(world, 1);
    uint64_t counts[2] = {0};
    base_assert(sim_spawn(cut, 0, "a", count_for_ever, &counts[0]) == 0);
    base_assert(sim_spawn(other, 0, "b", count_for_ever, &counts[1]) == 0);
    base_assert(sim_world_run(world, sim_world_now(world) + SECOND_NS / 1000, NULL, NULL) == -ETIMEDOUT);
    base_assert(counts[0] > 100 && counts[1] > 100);
    sim_node_cut(cut);
    const uint64_t before[2] = {counts[0], counts[1]};
    base_assert(sim_world_run(world, sim_world_now(world) + SECOND_NS / 1000, NULL, NULL) == -ETIMEDOUT);
    base_assert(counts[0] == before[0] && counts[1] > before[1]);
    sim_node_kill(other);
    base_assert(sim_world_run(world, TASK_FOREVER, NULL, NULL) == 0);
    sim_world_close(world);
}

/* ---- a processor that is lost within a task ----------------------------------------------------- */

struct loss {
    struct sim_node *node;
    struct base_random random;
    uint64_t rounds;
    bool is_within; /* what a task does without yielding */
    uint64_t seen_by_neighbours, seen_by_others;
};

static void lose_the_processor(void *arg)
{
    struct loss *loss = arg;
    for (; loss->rounds < 1000; loss->rounds++) {
        loss->is_within = true;
        sim_preempt(loss->node, &loss->random, 12);
        loss->is_within = false;
        (void)task_sleep(100);
    }
}

static void look_on(struct loss *loss, uint64_t *seen)
{
    while (loss->rounds < 1000) {
        *seen += loss->is_within;
        (void)task_sleep(100);
    }
}

static void look_from_beside(void *arg)
{
    struct loss *loss = arg;
    look_on(loss, &loss->seen_by_neighbours);
}

static void look_from_outside(void *arg)
{
    struct loss *loss = arg;
    look_on(loss, &loss->seen_by_others);
}

static void who_is_preempted_takes_its_scheduler_along(void)
{
    struct sim_world *world = sim_test_world(10);
    struct sim_node *other = sim_test_node(world, 1);
    struct loss loss = {.node = sim_test_node(world, 2)};
    loss.random = base_random_fork(sim_world_random(world));
    base_assert(sim_spawn(loss.node, 0, "loser", lose_the_processor, &loss) == 0);
    base_assert(sim_spawn(loss.node, 0, "beside", look_from_beside, &loss) == 0);
    base_assert(sim_spawn(loss.node, 1, "other scheduler", look_from_outside, &loss) == 0);
    base_assert(sim_spawn(other, 0, "other node", look_from_outside, &loss) == 0);
    base_assert(sim_world_run(world, TASK_FOREVER, NULL, NULL) == 0);
    base_assert(loss.seen_by_neighbours == 0 && loss.seen_by_others > 100);
    sim_world_close(world);
}

/* Power cuts come within a task, too. */
static void who_is_preempted_can_be_cut_off(void)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct sim_world *world = sim_test_world(seed);
        struct loss loss = {.node = sim_test_node(world, 1)};
        loss.random = base_random_fork(sim_world_random(world));
        base_assert(sim_spawn(loss.node, 0, "loser", lose_the_processor, &loss) == 0);
        while (!loss.is_within)
            base_assert(sim_world_run(world, sim_world_now(world) + 1000, NULL, NULL) == -ETIMEDOUT);
        sim_node_cut(loss.node);
        base_assert(sim_world_run(world, TASK_FOREVER, NULL, NULL) == 0);
        sim_world_close(world);
    }
}

/* ---- shared cores ---------------------------------------------------------------------------- */

struct worker {
    uint64_t took_ns;
};

/* Have 4 ms of a core, in one piece, and then 4 ms in many. */
static void work(void *arg)
{
    struct worker *worker = arg;
    const uint64_t begin_ns = task_now();
    task_charge(4000000);
    for (uint32_t i = 0; i < 1000; i++) {
        (void)task_sleep(1);
        task_charge(4000);
    }
    worker->took_ns = task_now() - begin_ns;
}

/* Two tasks of the node on so many cores with so many others. @return what the slower one took */
static uint64_t work_among(uint32_t cores, uint32_t others)
{
    const struct sim_world_options options = {.seed = 1, .timed = true};
    const struct sim_share share = {.count = 2, .cores = cores, .others = others, .turn_ns = 100000};
    struct worker workers[2];
    struct sim_world *world;
    base_assert(sim_world_open(&options, &world) == 0);
    struct sim_node *node = sim_test_node(world, 2);
    sim_node_share(node, &share);
    for (uint32_t i = 0; i < 2; i++)
        base_assert(sim_spawn(node, i, "worker", work, &workers[i]) == 0);
    base_assert(sim_world_run(world, TASK_FOREVER, NULL, NULL) == 0);
    base_assert(sim_node_close(node) == 0);
    sim_world_close(world);
    return base_max(workers[0].took_ns, workers[1].took_ns);
}

/* A thread of n has its share of the cores. */
static void shared_cores_are_had_in_turns(void)
{
    static const struct {
        uint32_t cores, others;
        uint64_t ms; /* for 8 ms of each */
    } cases[] = {{2, 0, 8}, {4, 2, 8}, {1, 0, 16}, {1, 1, 24}, {2, 2, 16}, {3, 4, 16}, {2, 1, 12}};
    for (size_t i = 0; i < base_array_count(cases); i++) {
        const uint64_t took_us = work_among(cases[i].cores, cases[i].others) / 1000;
        base_assert(took_us >= cases[i].ms * 1000 - 200 && took_us <= cases[i].ms * 1000 + 400);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIM_TEST(equal_seeds_give_equal_runs),
        SIM_TEST(a_year_is_instant),
        SIM_TEST(events_come_in_time),
        SIM_TEST(the_wall_clock_jumps),
        SIM_TEST(threads_pass_for_threads),
        SIM_TEST(sockets_are_refused),
        SIM_TEST(a_deadlock_is_found),
        SIM_TEST(a_run_without_end_is_found),
        SIM_TEST(the_first_failure_is_kept),
        SIM_TEST(a_cut_node_does_nothing_more),
        SIM_TEST(who_is_preempted_takes_its_scheduler_along),
        SIM_TEST(who_is_preempted_can_be_cut_off),
        SIM_TEST(shared_cores_are_had_in_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
