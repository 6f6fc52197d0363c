/* Tests of the simulated drive: its promises, its faults, and power cuts. */
#include "base/base.h"
#include "sim/sim.h"
#include "sim/testing.h"
#include <errno.h>

enum { BLOCK = 512, BLOCKS = 4, SEEDS = 400 };

#define DRIVE_BYTES (1 << 20)

/* A world with one node that has one drive open. */
struct bench {
    struct sim_world *world;
    struct sim_node *node;
    struct sim_drive *disk;
    struct drive *drive;
    int result;
    /* what a test posts; not on a task's stack, since the world may outlive the task */
    _Alignas(BASE_PAGE_BYTES) uint8_t data[3][BLOCKS * BLOCK];
    struct iovec iov[3];
    struct drive_request requests[3];
};

static const struct sim_drive_options cached = {.bytes = DRIVE_BYTES, .write_cache = true, .fua = true};

static void open_task(void *arg)
{
    struct bench *bench = arg;
    const struct drive_options options = {.direct = DRIVE_DIRECT_AUTO};
    bench->result = drive_open(sim_node_tarn(bench->node), "disk", &options, &bench->drive);
}

static void close_task(void *arg)
{
    drive_close(((struct bench *)arg)->drive);
}

/* Open the drive with a new node, as after a restart. */
static void bench_start(struct bench *bench)
{
    bench->node = sim_test_node(bench->world, 1);
    sim_test_run(bench->world, bench->node, open_task, bench);
    base_assert(bench->result == 0);
}

static void bench_init(struct bench *bench, uint64_t seed, const struct sim_drive_options *options)
{
    memset(bench, 0, sizeof(*bench));
    bench->world = sim_test_world(seed);
    base_assert(sim_drive_add(bench->world, "disk", options, &bench->disk) == 0);
    bench_start(bench);
}

static void bench_run(struct bench *bench, task_function *function)
{
    sim_test_run(bench->world, bench->node, function, bench);
}

/* End in good order, which asserts that nothing leaks. */
static void bench_deinit(struct bench *bench)
{
    bench_run(bench, close_task);
    base_assert(sim_node_close(bench->node) == 0);
    sim_world_close(bench->world);
}

static void prepare(struct bench *bench, int which, enum drive_op op, uint64_t offset, size_t bytes,
                    uint8_t fill, bool durable)
{
    if (op == DRIVE_WRITE)
        memset(bench->data[which], fill, bytes);
    bench->iov[which] = (struct iovec){.iov_base = bench->data[which], .iov_len = bytes};
    bench->requests[which] = (struct drive_request){
        .op = op,
        .durable = durable,
        .offset = offset,
        .iov = &bench->iov[which],
        .iov_count = op == DRIVE_FLUSH ? 0 : 1,
        .region = -1,
    };
}

static void post(struct bench *bench, int which)
{
    drive_post(bench->drive, &bench->requests[which]);
}

static int wait_for(struct bench *bench, int which)
{
    return drive_wait(&bench->requests[which], TASK_FOREVER);
}

static int write_blocks(struct bench *bench, uint64_t block, size_t blocks, uint8_t fill, bool durable)
{
    uint8_t data[BLOCKS * BLOCK] __attribute__((aligned(4096)));
    memset(data, fill, sizeof(data));
    return drive_write(bench->drive, block * BLOCK, data, blocks * BLOCK, durable);
}

/* The first byte of a block, of which all bytes must be equal. */
static uint8_t peek(struct bench *bench, uint64_t block)
{
    uint8_t data[BLOCK];
    sim_drive_peek(bench->disk, block * BLOCK, data, sizeof(data));
    for (size_t i = 1; i < sizeof(data); i++)
        base_assert(data[i] == data[0]);
    return data[0];
}

/* The outcomes that were seen, as bits. */
static void see(uint64_t *seen, uint64_t outcome)
{
    base_assert(outcome < 64);
    *seen |= UINT64_C(1) << outcome;
}

/* Run a task on a fresh bench for each seed, cut the power when it has ended, and look at two blocks. */
static uint64_t outcomes_after_cut(const struct sim_drive_options *options, uint32_t mutations,
                                   task_function *function)
{
    uint64_t seen = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct bench bench;
        bench_init(&bench, seed, options);
        sim_drive_mutate(bench.disk, mutations);
        bench_run(&bench, function);
        sim_node_cut(bench.node);
        base_assert(sim_drive_undurable(bench.disk) == 0 && sim_drive_in_flight(bench.disk) == 0);
        see(&seen, (uint64_t)peek(&bench, 0) * 8 + peek(&bench, 1));
        sim_world_close(bench.world);
    }
    return seen;
}

/* The outcome "block 0 holds a, block 1 holds b" as a bit. */
static uint64_t both(unsigned a, unsigned b)
{
    return UINT64_C(1) << (a * 8 + b);
}

/* ---- reading, writing, opening --------------------------------------------------------------- */

static void write_and_read(void *arg)
{
    struct bench *bench = arg;
    uint8_t data[2 * BLOCK] __attribute__((aligned(512)));
    base_assert(drive_read(bench->drive, 0, data, sizeof(data)) == 0);
    for (size_t i = 0; i < sizeof(data); i++)
        base_assert(data[i] == 0);
    uint64_t begin_ns = task_now();
    base_assert(write_blocks(bench, 3, 2, 7, false) == 0);
    base_assert(task_now() > begin_ns); /* it took time */
    base_assert(drive_read(bench->drive, 4 * BLOCK, data, sizeof(data)) == 0);
    base_assert(data[0] == 7 && data[BLOCK - 1] == 7 && data[BLOCK] == 0);
    base_assert(drive_flush(bench->drive) == 0);
    base_assert(drive_read(bench->drive, DRIVE_BYTES - 2 * BLOCK, data, sizeof(data)) == 0);
}

static void what_is_written_is_read(void)
{
    struct bench bench;
    bench_init(&bench, 1, &cached);
    const struct drive_info *info = drive_info(bench.drive);
    base_assert(info->bytes == DRIVE_BYTES && info->write_cache && info->fua && info->direct);
    base_assert(info->logical_block_bytes == 512 && info->physical_block_bytes == 4096);
    base_assert(strcmp(info->provider, "sim") == 0);
    bench_run(&bench, write_and_read);
    base_assert(sim_thread(bench.node, "thread", write_and_read, &bench) == 0);
    /* as a thread it finds what the task has written: see below */
    base_assert(sim_drive_undurable(bench.disk) == 0);
    sim_drive_poke(bench.disk, 3 * BLOCK, (const uint8_t[2 * BLOCK]){0}, 2 * BLOCK);
    base_assert(sim_world_run(bench.world, TASK_FOREVER, NULL, NULL) == 0);
    bench_deinit(&bench);
}

static void write_bytes(void *arg)
{
    struct bench *bench = arg;
    base_assert(drive_write(bench->drive, 510, "abcd", 4, false) == 0);
    base_assert(drive_write(bench->drive, 1000, "efgh", 4, true) == 0);
    char text[5] = "";
    base_assert(drive_read(bench->drive, 510, text, 4) == 0);
    base_assert(strcmp(text, "abcd") == 0);
    sim_drive_peek(bench->disk, 1000, text, 4);
    base_assert(strcmp(text, "efgh") == 0);
    sim_drive_peek(bench->disk, 512, text, 4);
    base_assert(memcmp(text, "cd\0", 4) == 0);
}

static void buffered_drives_take_any_bytes(void)
{
    struct bench bench;
    bench_init(&bench, 2,
               &(struct sim_drive_options){.bytes = DRIVE_BYTES, .write_cache = true, .buffered = true});
    base_assert(!drive_info(bench.drive)->direct);
    bench_run(&bench, write_bytes);
    bench_deinit(&bench);
}

static void open_again(void *arg)
{
    struct bench *bench = arg;
    struct drive *other = NULL;
    struct tarn_node *tarn = sim_node_tarn(bench->node);
    base_assert(drive_open(tarn, "disk", &(struct drive_options){0}, &other) == -EBUSY);
    base_assert(drive_open(tarn, "no such disk", &(struct drive_options){0}, &other) == -ENOENT);
    base_assert(other == NULL);
}

static void a_drive_has_one_owner(void)
{
    struct bench bench;
    bench_init(&bench, 3, &cached);
    bench_run(&bench, open_again);
    sim_node_cut(bench.node);
    bench_start(&bench); /* the owner is gone */
    bench_deinit(&bench);
}

static void change_memory_in_flight(void *arg)
{
    struct bench *bench = arg;
    prepare(bench, 0, DRIVE_WRITE, 0, BLOCK, 1, false);
    post(bench, 0);
    bench->data[0][100] = 2;
    base_assert(wait_for(bench, 0) == 0);
}

static void changed_memory_is_noticed(void)
{
    struct bench bench;
    bench_init(&bench, 4, &cached);
    base_assert(sim_spawn(bench.node, 0, "changer", change_memory_in_flight, &bench) == 0);
    base_assert(sim_world_run(bench.world, TASK_FOREVER, NULL, NULL) == -ECANCELED);
    base_assert(strstr(sim_world_failure(bench.world), "in flight") != NULL);
    sim_world_close(bench.world);
}

/* ---- what survives --------------------------------------------------------------------------- */

static void write_only(void *arg)
{
    base_assert(write_blocks(arg, 0, 2, 1, false) == 0);
}

static void any_subset_of_a_plain_write_survives(void)
{
    base_assert(outcomes_after_cut(&cached, 0, write_only) ==
                (both(0, 0) | both(0, 1) | both(1, 0) | both(1, 1)));
}

static void write_and_flush(void *arg)
{
    write_only(arg);
    base_assert(drive_flush(((struct bench *)arg)->drive) == 0);
}

static void a_flush_makes_durable(void)
{
    base_assert(outcomes_after_cut(&cached, 0, write_and_flush) == both(1, 1));
}

static void flush_while_writing(void *arg)
{
    struct bench *bench = arg;
    prepare(bench, 0, DRIVE_WRITE, 0, 2 * BLOCK, 1, false);
    prepare(bench, 1, DRIVE_FLUSH, 0, 0, 0, false);
    post(bench, 0);
    post(bench, 1);
    base_assert(wait_for(bench, 0) == 0 && wait_for(bench, 1) == 0);
}

static void a_flush_covers_only_what_completed_before_it(void)
{
    base_assert(outcomes_after_cut(&cached, 0, flush_while_writing) ==
                (both(0, 0) | both(0, 1) | both(1, 0) | both(1, 1)));
}

static void write_durably(void *arg)
{
    base_assert(write_blocks(arg, 1, 1, 2, false) == 0);
    base_assert(write_blocks(arg, 0, 1, 1, true) == 0);
}

static void a_durable_write_covers_itself_alone(void)
{
    base_assert(outcomes_after_cut(&cached, 0, write_durably) == (both(1, 0) | both(1, 2)));
}

static void without_a_cache_writes_are_durable(void)
{
    const struct sim_drive_options options = {.bytes = DRIVE_BYTES};
    base_assert(outcomes_after_cut(&options, 0, write_only) == both(1, 1));
}

static void write_versions(void *arg)
{
    base_assert(write_blocks(arg, 0, 1, 1, true) == 0);
    for (uint8_t i = 2; i < 5; i++)
        base_assert(write_blocks(arg, 0, 1, i, false) == 0);
}

static void any_version_survives(void)
{
    base_assert(outcomes_after_cut(&cached, 0, write_versions) ==
                (both(1, 0) | both(2, 0) | both(3, 0) | both(4, 0)));
}

static bool is_posted(void *arg)
{
    return sim_drive_in_flight(((struct bench *)arg)->disk) > 0;
}

static void a_write_in_flight_tears(void)
{
    for (int cache = 0; cache < 2; cache++) {
        uint64_t seen = 0;
        const struct sim_drive_options options = {.bytes = DRIVE_BYTES, .write_cache = cache == 1};
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            struct bench bench;
            bench_init(&bench, seed, &options);
            base_assert(sim_spawn(bench.node, 0, "writer", write_only, &bench) == 0);
            base_assert(sim_world_run(bench.world, TASK_FOREVER, is_posted, &bench) == 0);
            sim_node_cut(bench.node);
            see(&seen, (uint64_t)peek(&bench, 0) * 8 + peek(&bench, 1));
            sim_world_close(bench.world);
        }
        base_assert(seen == (both(0, 0) | both(0, 1) | both(1, 0) | both(1, 1)));
    }
}

static void a_killed_process_loses_nothing_completed(void)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct bench bench;
        bench_init(&bench, seed, &cached);
        bench_run(&bench, write_only);
        sim_node_kill(bench.node);
        base_assert(peek(&bench, 0) == 1 && peek(&bench, 1) == 1);
        bench_start(&bench);
        bench_deinit(&bench);
    }
}

/* ---- concurrency ----------------------------------------------------------------------------- */

static void write_twice_at_once(void *arg)
{
    struct bench *bench = arg;
    prepare(bench, 0, DRIVE_WRITE, 0, 2 * BLOCK, 1, false);
    prepare(bench, 1, DRIVE_WRITE, 0, 2 * BLOCK, 2, false);
    post(bench, 0);
    post(bench, 1);
    base_assert(wait_for(bench, 0) == 0 && wait_for(bench, 1) == 0);
    base_assert(drive_flush(bench->drive) == 0);
}

static void concurrent_writes_take_effect_in_any_order(void)
{
    base_assert(outcomes_after_cut(&cached, 0, write_twice_at_once) ==
                (both(1, 1) | both(1, 2) | both(2, 1) | both(2, 2)));
}

static void read_while_writing(void *arg)
{
    struct bench *bench = arg;
    base_assert(write_blocks(bench, 0, 2, 1, false) == 0);
    prepare(bench, 0, DRIVE_WRITE, 0, 2 * BLOCK, 2, false);
    prepare(bench, 1, DRIVE_READ, 0, 2 * BLOCK, 0, false);
    post(bench, 0);
    post(bench, 1);
    base_assert(wait_for(bench, 0) == 0 && wait_for(bench, 1) == 0);
    bench->result = bench->data[1][0] * 8 + bench->data[1][BLOCK];
    base_assert(bench->data[1][BLOCK - 1] == bench->data[1][0]);
}

static void a_concurrent_read_finds_old_or_new_sectors(void)
{
    uint64_t seen = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct bench bench;
        bench_init(&bench, seed, &cached);
        bench_run(&bench, read_while_writing);
        see(&seen, (uint64_t)bench.result);
        bench_deinit(&bench);
    }
    base_assert(seen == (both(1, 1) | both(1, 2) | both(2, 1) | both(2, 2)));
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void fail_reads(void *arg)
{
    struct bench *bench = arg;
    uint8_t data[BLOCK] __attribute__((aligned(512)));
    sim_drive_set_fault(bench->disk, SIM_FAULT_READ_ERROR, 0, 2);
    base_assert(drive_read(bench->drive, 0, data, sizeof(data)) == 0);
    base_assert(drive_read(bench->drive, 0, data, sizeof(data)) == -EIO);
    base_assert(drive_read(bench->drive, 0, data, sizeof(data)) == 0);
    base_assert(sim_drive_faults(bench->disk, SIM_FAULT_READ_ERROR) == 1);
    sim_drive_set_fault(bench->disk, SIM_FAULT_READ_ERROR, 1000000, 0);
    base_assert(drive_read(bench->drive, 0, data, sizeof(data)) == -EIO);
    sim_drive_clear_faults(bench->disk);
    base_assert(drive_read(bench->drive, 0, data, sizeof(data)) == 0);
}

static void reads_fail_as_set(void)
{
    struct bench bench;
    bench_init(&bench, 5, &cached);
    bench_run(&bench, fail_reads);
    bench_deinit(&bench);
}

static void damage_a_read(void *arg)
{
    struct bench *bench = arg;
    uint8_t good[4 * BLOCK] __attribute__((aligned(512)));
    uint8_t bad[4 * BLOCK] __attribute__((aligned(512)));
    struct sim_damage damage = {0};
    base_assert(write_blocks(bench, 8, 4, 5, true) == 0);
    base_assert(write_blocks(bench, 8, 4, 6, false) == 0);
    base_assert(drive_read(bench->drive, 8 * BLOCK, good, sizeof(good)) == 0);
    base_assert(!sim_drive_damage(bench->disk, &damage));
    sim_drive_set_fault(bench->disk, SIM_FAULT_READ_DAMAGE, 0, 1);
    base_assert(drive_read(bench->drive, 8 * BLOCK, bad, sizeof(bad)) == 0);
    base_assert(sim_drive_damage(bench->disk, &damage));
    base_assert(damage.offset >= 8 * BLOCK && damage.offset < 12 * BLOCK && damage.offset % BLOCK == 0);
    for (uint64_t i = 0; i < 4; i++)
        base_assert((memcmp(good + i * BLOCK, bad + i * BLOCK, BLOCK) != 0) ==
                    (damage.offset == (8 + i) * BLOCK));
    const uint8_t *sector = bad + (damage.offset - 8 * BLOCK);
    if (damage.kind == SIM_DAMAGE_ZERO)
        base_assert(sector[0] == 0 && sector[BLOCK - 1] == 0);
    if (damage.kind == SIM_DAMAGE_STALE)
        base_assert(sector[0] == 5 && sector[BLOCK - 1] == 5);
    sim_drive_set_fault(bench->disk, SIM_FAULT_READ_DAMAGE, 1000000, 0);
    for (int i = 0; i < 39; i++) { /* who reads again finds what is there */
        base_assert(drive_read(bench->drive, 8 * BLOCK, bad, sizeof(bad)) == 0);
        base_assert((memcmp(good, bad, sizeof(good)) == 0) == (i % 13 != 0));
    }
    bench->result = (int)damage.kind;
}

static void damaged_reads_say_where(void)
{
    uint64_t seen = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct bench bench;
        bench_init(&bench, seed, &cached);
        bench_run(&bench, damage_a_read);
        see(&seen, (uint64_t)bench.result);
        bench_deinit(&bench);
    }
    base_assert(seen == 7);
}

static void fail_a_write(void *arg)
{
    struct bench *bench = arg;
    sim_drive_set_fault(bench->disk, SIM_FAULT_WRITE_ERROR, 0, 1);
    base_assert(write_blocks(bench, 0, 2, 1, true) == -EIO);
}

static void fill_up(void *arg)
{
    struct bench *bench = arg;
    sim_drive_set_fault(bench->disk, SIM_FAULT_WRITE_FULL, 0, 1);
    base_assert(write_blocks(bench, 0, 2, 1, true) == -ENOSPC);
}

static void a_failed_write_leaves_any_subset(void)
{
    const uint64_t all = both(0, 0) | both(0, 1) | both(1, 0) | both(1, 1);
    base_assert(outcomes_after_cut(&cached, 0, fail_a_write) == all);
    base_assert(outcomes_after_cut(&cached, 0, fill_up) == all);
}

static void fail_a_flush(void *arg)
{
    struct bench *bench = arg;
    base_assert(write_blocks(bench, 0, 2, 1, false) == 0);
    sim_drive_set_fault(bench->disk, SIM_FAULT_FLUSH_ERROR, 0, 1);
    base_assert(drive_flush(bench->drive) == -EIO);
    bench->result = peek(bench, 0) * 8 + peek(bench, 1); /* what readers see now */
}

static void a_failed_flush_loses_at_once_or_later(void)
{
    const uint64_t all = both(0, 0) | both(0, 1) | both(1, 0) | both(1, 1);
    base_assert(outcomes_after_cut(&cached, 0, fail_a_flush) == all);
    uint64_t seen = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct bench bench;
        bench_init(&bench, seed, &cached);
        bench_run(&bench, fail_a_flush);
        see(&seen, (uint64_t)bench.result);
        bench_deinit(&bench);
    }
    base_assert(seen == all);
}

static void write_again_and_flush(void *arg)
{
    struct bench *bench = arg;
    base_assert(write_blocks(bench, 0, 2, 2, false) == 0);
    bench->result = peek(bench, 0) * 8 + peek(bench, 1);
    base_assert(drive_flush(bench->drive) == 0);
}

/* Who opens the drive again after a failed flush, the cache still there, writes over what it has left. */
static void a_write_after_a_failed_flush_wins(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct bench bench;
        bench_init(&bench, seed, &cached);
        bench_run(&bench, fail_a_flush);
        sim_node_kill(bench.node);
        bench_start(&bench);
        bench_run(&bench, write_again_and_flush);
        base_assert(bench.result == 2 * 8 + 2);
        sim_node_cut(bench.node);
        base_assert(peek(&bench, 0) == 2 && peek(&bench, 1) == 2);
        sim_world_close(bench.world);
    }
}

static void wait_long(void *arg)
{
    struct bench *bench = arg;
    sim_drive_set_fault(bench->disk, SIM_FAULT_STUCK, 0, 1);
    prepare(bench, 0, DRIVE_WRITE, 0, BLOCK, 1, false);
    post(bench, 0);
    base_assert(drive_wait(&bench->requests[0], task_now() + 1000000000) == -ETIMEDOUT);
    base_assert(write_blocks(bench, 1, 1, 2, false) == 0); /* others pass it by */
    sim_drive_unstick(bench->disk);
    base_assert(wait_for(bench, 0) == 0);
}

static void a_stuck_request_waits(void)
{
    struct bench bench;
    bench_init(&bench, 6, &cached);
    bench_run(&bench, wait_long);
    base_assert(peek(&bench, 0) == 1 && peek(&bench, 1) == 2);
    bench_deinit(&bench);
}

static void lose_the_drive(void *arg)
{
    struct bench *bench = arg;
    uint8_t data[BLOCK] __attribute__((aligned(512)));
    base_assert(write_blocks(bench, 0, 1, 1, false) == 0);
    sim_drive_set_fault(bench->disk, SIM_FAULT_LOST, 0, 1);
    base_assert(drive_read(bench->drive, 0, data, sizeof(data)) == -ENODEV);
    base_assert(write_blocks(bench, 0, 1, 2, false) == -ENODEV);
    base_assert(drive_read(bench->drive, 0, data, sizeof(data)) == -ENODEV);
    base_assert(sim_drive_faults(bench->disk, SIM_FAULT_LOST) == 1);
}

static void a_lost_drive_fails_everything(void)
{
    struct bench bench;
    bench_init(&bench, 7, &cached);
    bench_run(&bench, lose_the_drive);
    bench_deinit(&bench);
}

/* ---- broken promises ------------------------------------------------------------------------- */

static void write_write_flush(void *arg)
{
    base_assert(write_blocks(arg, 0, 1, 1, false) == 0);
    base_assert(write_blocks(arg, 1, 1, 1, false) == 0);
    base_assert(drive_flush(((struct bench *)arg)->drive) == 0);
}

/* ---- discards -------------------------------------------------------------------------------- */

static const struct sim_drive_options discarding = {
    .bytes = DRIVE_BYTES, .write_cache = true, .fua = true, .discard = true};

/* What is there of a block: 0 zeros, 1 what was written, 2 noise. */
static unsigned kind_of(struct bench *bench, uint64_t block)
{
    uint8_t data[BLOCK];
    sim_drive_peek(bench->disk, block * BLOCK, data, sizeof(data));
    bool same = true;
    for (size_t i = 1; i < sizeof(data); i++)
        same = same && data[i] == data[0];
    return !same ? 2 : data[0] == 0 ? 0 : 1;
}

static void write_and_discard(void *arg)
{
    struct bench *bench = arg;
    uint8_t first[2 * BLOCK] __attribute__((aligned(512))), again[2 * BLOCK] __attribute__((aligned(512)));
    base_assert(write_blocks(bench, 0, 4, 1, true) == 0);
    base_assert(drive_discard(bench->drive, 0, 2 * BLOCK) == 0);
    base_assert(drive_read(bench->drive, 0, first, sizeof(first)) == 0);
    base_assert(drive_read(bench->drive, 0, again, sizeof(again)) == 0);
    base_assert(memcmp(first, again, sizeof(first)) == 0);
    bench->result = (int)(kind_of(bench, 0) * 3 + kind_of(bench, 1));
    base_assert(peek(bench, 2) == 1 && peek(bench, 3) == 1);
}

static void a_discard_leaves_zeros_noise_or_what_was_there(void)
{
    uint64_t seen = 0, after_cut = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct bench bench;
        bench_init(&bench, seed, &discarding);
        bench_run(&bench, write_and_discard);
        see(&seen, (uint64_t)bench.result);
        sim_node_cut(bench.node);
        unsigned found[2] = {kind_of(&bench, 0), kind_of(&bench, 1)};
        for (int i = 0; i < 2; i++) /* a cut may bring back what was there */
            base_assert(found[i] == 1 ||
                        found[i] == (unsigned)(i == 0 ? bench.result / 3 : bench.result % 3));
        see(&after_cut, found[0] * 3 + found[1]);
        sim_world_close(bench.world);
    }
    base_assert(seen == (UINT64_C(1) << 9) - 1 && after_cut == seen);
}

static void discard_and_write(void *arg)
{
    struct bench *bench = arg;
    base_assert(drive_discard(bench->drive, 0, 4 * BLOCK) == 0);
    base_assert(write_blocks(bench, 0, 1, 3, true) == 0);
    base_assert(write_blocks(bench, 1, 1, 3, false) == 0);
    base_assert(drive_flush(bench->drive) == 0);
}

static void what_is_written_after_a_discard_stays(void)
{
    base_assert(outcomes_after_cut(&discarding, 0, discard_and_write) == both(3, 3));
}

static void discard_in_vain(void *arg)
{
    struct bench *bench = arg;
    base_assert(drive_discard(bench->drive, 0, BLOCK) == bench->result);
    bench->result = 0;
}

static void a_discard_fails_as_set(void)
{
    struct bench bench;
    bench_init(&bench, 1, &cached);
    bench.result = -EOPNOTSUPP;
    bench_run(&bench, discard_in_vain);
    bench_deinit(&bench);
    bench_init(&bench, 1, &discarding);
    sim_drive_set_fault(bench.disk, SIM_FAULT_DISCARD_ERROR, 0, 1);
    bench.result = -EIO;
    bench_run(&bench, discard_in_vain);
    base_assert(!drive_failed(bench.drive) && sim_drive_faults(bench.disk, SIM_FAULT_DISCARD_ERROR) == 1);
    bench_run(&bench, discard_in_vain);
    bench_deinit(&bench);
}

static void mutations_break_promises(void)
{
    const uint64_t all = both(0, 0) | both(0, 1) | both(1, 0) | both(1, 1);
    base_assert(outcomes_after_cut(&cached, SIM_DRIVE_FLUSH_IGNORED, write_and_flush) == all);
    base_assert(outcomes_after_cut(&cached, SIM_DRIVE_DURABLE_IGNORED, write_durably) ==
                (both(0, 0) | both(0, 2) | both(1, 0) | both(1, 2)));
    base_assert(outcomes_after_cut(&cached, SIM_DRIVE_FLUSH_EARLY, write_write_flush) ==
                (both(1, 0) | both(1, 1)));
    base_assert(outcomes_after_cut(&cached, SIM_DRIVE_WRITE_DROPPED, write_and_flush) ==
                (both(0, 0) | both(1, 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIM_TEST(what_is_written_is_read),
        SIM_TEST(buffered_drives_take_any_bytes),
        SIM_TEST(a_drive_has_one_owner),
        SIM_TEST(changed_memory_is_noticed),
        SIM_TEST(any_subset_of_a_plain_write_survives),
        SIM_TEST(a_flush_makes_durable),
        SIM_TEST(a_flush_covers_only_what_completed_before_it),
        SIM_TEST(a_durable_write_covers_itself_alone),
        SIM_TEST(without_a_cache_writes_are_durable),
        SIM_TEST(any_version_survives),
        SIM_TEST(a_write_in_flight_tears),
        SIM_TEST(a_killed_process_loses_nothing_completed),
        SIM_TEST(concurrent_writes_take_effect_in_any_order),
        SIM_TEST(a_concurrent_read_finds_old_or_new_sectors),
        SIM_TEST(reads_fail_as_set),
        SIM_TEST(damaged_reads_say_where),
        SIM_TEST(a_failed_write_leaves_any_subset),
        SIM_TEST(a_failed_flush_loses_at_once_or_later),
        SIM_TEST(a_write_after_a_failed_flush_wins),
        SIM_TEST(a_stuck_request_waits),
        SIM_TEST(a_lost_drive_fails_everything),
        SIM_TEST(a_discard_leaves_zeros_noise_or_what_was_there),
        SIM_TEST(what_is_written_after_a_discard_stays),
        SIM_TEST(a_discard_fails_as_set),
        SIM_TEST(mutations_break_promises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
