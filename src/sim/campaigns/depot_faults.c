/* What goes wrong in campaign `depot`: its drive, faults, and what comes at a moment. */
#include "sim/campaigns/campaign_internal.h"
#include "sim/campaigns/depot.h"
#include <string.h>

#define MEMBER_UNIT_BYTES ((uint64_t)16 * 1024) /* of a stripe of drives as small as these */

static void note_cut(struct sim_event *event)
{
    base_container_of(event, struct play, cut)->cut_due = true;
}

static void jump_clock(struct sim_event *event)
{
    struct play *play = base_container_of(event, struct play, jump);
    int64_t by_ns = (int64_t)sim_play_draw(play, 2 * HOUR_NS) - (int64_t)HOUR_NS;
    sim_world_wall_jump(play->world, by_ns);
}

static void unstick(struct sim_event *event)
{
    struct play *play = base_container_of(event, struct play, unstick);
    for (uint32_t i = 0; i < play->shared.disk_count; i++) {
        sim_drive_set_fault(play->shared.disks[i], SIM_FAULT_STUCK, 0, 0);
        sim_drive_unstick(play->shared.disks[i]);
    }
}

uint64_t sim_play_some_time_from_now(struct play *play, uint64_t bits_min, uint64_t bits_max)
{
    uint64_t bits = bits_min + sim_play_draw(play, bits_max - bits_min);
    return sim_world_now(play->world) + (UINT64_C(1) << bits) + sim_play_draw(play, UINT64_C(1) << bits);
}

/* Have a fault happen to one of the drives. */
static void set_fault(struct play *play, enum sim_fault fault, uint32_t per_million, uint64_t nth)
{
    uint32_t count = play->shared.disk_count;
    uint64_t victim = count == 1 ? 0 : base_random_below(&play->members_random, count);
    sim_drive_set_fault(play->shared.disks[victim], fault, per_million, nth);
}

void sim_play_set_faults_of_opening(struct play *play)
{
    static const enum sim_fault faults[] = {SIM_FAULT_READ_ERROR, SIM_FAULT_READ_DAMAGE,
                                            SIM_FAULT_WRITE_ERROR, SIM_FAULT_FLUSH_ERROR, SIM_FAULT_LOST};
    enum sim_fault fault = faults[sim_play_draw(play, base_array_count(faults))];
    play->damages_only = fault == SIM_FAULT_READ_DAMAGE;
    play->writes_fail = fault != SIM_FAULT_READ_DAMAGE && fault != SIM_FAULT_READ_ERROR;
    if (play->damages_only && sim_play_draw(play, 2) == 0)
        set_fault(play, fault, 100000, 0);
    else
        set_fault(play, fault, 0, 1 + sim_play_draw(play, 24));
}

void sim_play_set_faults_of_running(struct play *play)
{
    static const enum sim_fault faults[] = {
        SIM_FAULT_READ_ERROR,  SIM_FAULT_READ_DAMAGE, SIM_FAULT_WRITE_ERROR, SIM_FAULT_WRITE_FULL,
        SIM_FAULT_FLUSH_ERROR, SIM_FAULT_STUCK,       SIM_FAULT_LOST,        SIM_FAULT_DISCARD_ERROR};
    enum sim_fault fault = faults[sim_play_draw(play, base_array_count(faults))];
    bool stays = play->scrubs && sim_play_draw(play, 2) == 0; /* three readings in a row may fail */
    if (stays)
        set_fault(play, SIM_FAULT_READ_ERROR, 600000, 0);
    else if (sim_play_draw(play, 2) == 0)
        set_fault(play, fault, 0, 1 + sim_play_draw(play, 60));
    else
        set_fault(play, fault, 30000, 0);
    if (fault == SIM_FAULT_STUCK && !stays)
        sim_event_at(play->world, &play->unstick,
                     sim_play_some_time_from_now(play, CUT_NS_BITS_MIN, play->cut_bits_max));
    play->faulted_running = true;
}

void sim_play_clear_faults(struct play *play)
{
    for (uint32_t i = 0; i < play->shared.disk_count; i++) {
        sim_drive_clear_faults(play->shared.disks[i]);
        sim_drive_unstick(play->shared.disks[i]);
    }
    sim_event_cancel(play->world, &play->unstick);
    play->shared.faults_before = sim_depot_fault_count(&play->shared);
    play->damages_only = false;
    play->writes_fail = false;
}

void sim_play_init_events(struct play *play)
{
    play->cut = (struct sim_event){.name = "cut is due", .run = note_cut};
    play->jump = (struct sim_event){.name = "clock jumps", .run = jump_clock};
    play->unstick = (struct sim_event){.name = "unstick", .run = unstick};
}

/* ---- the drive ------------------------------------------------------------------------------- */

const char *const sim_play_mutations[] = {"flush-ignored", "durable-ignored", "flush-early", "write-dropped",
                                          NULL};

uint32_t sim_play_mutation_bits(const char *mutation)
{
    for (uint32_t i = 0; mutation != NULL && sim_play_mutations[i] != NULL; i++) {
        if (strcmp(sim_play_mutations[i], mutation) == 0)
            return UINT32_C(1) << i;
    }
    return 0;
}

_Static_assert(SIM_DRIVE_FLUSH_IGNORED == 1 && SIM_DRIVE_DURABLE_IGNORED == 2 && SIM_DRIVE_FLUSH_EARLY == 4 &&
                   SIM_DRIVE_WRITE_DROPPED == 8,
               "in the order of their names");

static const char *const stripe_paths[SIM_DEPOT_DISKS_MAX] = {"disk", "disk0,disk1", "disk2,disk0,disk1",
                                                              "disk3,disk1,disk0,disk2"};

/* Of half of the seeds. */
#define HOT_WARM_RATE_BYTES (UINT64_C(1) << 20)

/* A tier that turns over all the time, one that keeps all, and none. */
static const uint64_t hot_bytes[] = {1, 0, TARN_HOT_OFF};

/* Have a quarter of the seeds play on a stripe. */
static void draw_members(struct play *play)
{
    base_random_init(&play->members_random, base_hash64(play->random, sizeof(*play->random), 0));
    play->shared.disk_count = 1;
    if (base_random_below(&play->members_random, 4) == 0)
        play->shared.disk_count +=
            1 + (uint32_t)base_random_below(&play->members_random, SIM_DEPOT_DISKS_MAX - 1);
    play->path = stripe_paths[play->shared.disk_count - 1];
    play->hot_bytes = hot_bytes[base_random_below(&play->members_random, base_array_count(hot_bytes))];
    play->hot_warm_rate_bytes = base_hash64(play->random, sizeof(*play->random), 1) % 2 * HOT_WARM_RATE_BYTES;
}

static const char *const names[SIM_DEPOT_DISKS_MAX] = {"disk0", "disk1", "disk2", "disk3"};

static void add_disk(struct play *play, uint32_t number, const char *name, uint64_t bytes)
{
    struct sim_drive_options options = play->disk_options;
    options.bytes = bytes;
    options.most_bytes = DRIVE_GROWS_TIMES * bytes;
    base_assert(sim_drive_add(play->world, name, &options, &play->shared.disks[number]) == 0);
    sim_drive_mutate(play->shared.disks[number], sim_play_mutation_bits(play->mutation));
    play->disk_bytes[number] = bytes;
}

/* Room for the label, what is lost to whole units, and not the same of all. */
static uint64_t draw_member_bytes(struct play *play, struct base_random *random, uint32_t count)
{
    return base_align_up(play->drive_bytes / count, BASE_PAGE_BYTES) + 2 * MEMBER_UNIT_BYTES +
           base_random_below(random, 16) * BASE_PAGE_BYTES;
}

static void add_members(struct play *play)
{
    uint32_t count = play->shared.disk_count;
    for (uint32_t i = 0; i < count; i++)
        add_disk(play, i, count == 1 ? play->path : names[i],
                 count == 1 ? play->drive_bytes : draw_member_bytes(play, &play->members_random, count));
}

void sim_play_append_drive(struct play *play)
{
    static const char *const single_paths[SIM_DEPOT_DISKS_MAX] = {NULL, "disk1,disk", "disk,disk2,disk1",
                                                                  "disk3,disk,disk1,disk2"};
    const uint32_t number = play->shared.disk_count++;
    const bool single = strcmp(play->path, "disk") == 0 || strstr(play->path, "disk0") == NULL;
    play->path = (single ? single_paths : stripe_paths)[number];
    add_disk(play, number, names[number],
             draw_member_bytes(play, &play->append_random,
                               1 + (uint32_t)base_random_below(&play->append_random, 4)));
}

void sim_play_cut_drives(struct play *play)
{
    for (uint32_t i = 0; i < play->shared.disk_count; i++)
        sim_drive_cut(play->shared.disks[i]);
}

void sim_play_add_drive(struct play *play)
{
    static const uint64_t latencies_ns[] = {0, 0, 0, 0, 100000, 1000000}; /* 0: some microseconds */
    uint64_t read_ns = latencies_ns[sim_play_draw(play, base_array_count(latencies_ns))];
    uint64_t write_ns = latencies_ns[sim_play_draw(play, base_array_count(latencies_ns))];
    if (read_ns + write_ns > 0)
        play->cut_bits_max = base_max(play->cut_bits_max, (uint64_t)CUT_NS_BITS_SLOW);
    play->drive_bytes = STORE_BYTES + sim_play_draw(play, STORE_BYTES / BASE_PAGE_BYTES) * BASE_PAGE_BYTES;
    play->device = sim_play_draw(play, 3) == 0;
    play->disk_options = (struct sim_drive_options){
        .logical_block_bytes = sim_play_draw(play, 2) == 0 ? 512 : 4096,
        .physical_block_bytes = 4096,
        .write_cache = play->mutation != NULL || sim_play_draw(play, 4) != 0,
        .fua = sim_play_draw(play, 2) == 0,
        .buffered = sim_play_draw(play, 8) == 0,
        .device = play->device,
        .read_ns = read_ns,
        .write_ns = write_ns,
        .discard = sim_play_draw(play, 3) == 0,
    };
    draw_members(play);
    add_members(play);
}
