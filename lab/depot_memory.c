/* The memory that a store takes, measured part by part. */
#include "lab/depot_load.h"
#include "lab/usage.h"

#include "bench/case.h"
#include "depot/depot.h"
#include <errno.h>
#include <inttypes.h>

enum {
    VALUE_BYTES = 100,
    RECORD_ROOM_BYTES = 320, /* of the drive, so that the store is not full */
    STORE_ROOM_BYTES = 64 << 20,
    TASKS_MAX = 128,
};

/* The rows of the account. Up to "store" they are what the store has asked the accountant for. */
enum part {
    PART_OTHER = 7,
    PART_STORE,
    PART_RESIDENT_OPEN,
    PART_RESIDENT_FULL,
    PART_RESIDENT_PROCESS,
    PART_COUNT
};

static const char *const part_names[PART_COUNT] = {
    "index",
    "key-locks",
    "read-buffers",
    "rings",
    "summaries",
    "collector", /* at their most; resident is what is used of them */
    "segments",
    "other",
    "store",            /* all together */
    "resident-open",    /* what the process grew by when the empty store was opened */
    "resident-full",    /* and until the records were in it */
    "resident-process", /* the whole process then */
};

struct memory {
    struct lab_depot_store *store;
    uint64_t records;
    uint64_t index_entries;
    uint64_t bytes[PART_COUNT];
};

/* @param store_bytes  of all that the store was charged with */
static void take_parts(struct memory *memory, const struct tarn_depot *depot, uint64_t store_bytes)
{
    struct depot_memory parts;
    uint64_t named_bytes = 0;
    depot_memory(depot, &parts);
    const uint64_t named[PART_OTHER] = {parts.index_bytes,  parts.key_lock_bytes, parts.read_buffer_bytes,
                                        parts.ring_bytes,   parts.summary_bytes,  parts.collector_bytes,
                                        parts.segment_bytes};
    memcpy(memory->bytes, named, sizeof(named));
    for (int part = 0; part < PART_OTHER; part++)
        named_bytes += memory->bytes[part];
    memory->bytes[PART_OTHER] = store_bytes - base_min(store_bytes, named_bytes);
    memory->bytes[PART_STORE] = store_bytes;
}

static int read_resident(uint64_t *ret_bytes)
{
    struct lab_usage usage;
    int error = lab_usage_read(&usage);
    if (error == 0)
        *ret_bytes = usage.resident_bytes;
    return error;
}

/* @param used_before, resident_before  opening */
static int measure_open_store(struct memory *memory, struct tarn_node *node, struct tarn_depot *depot,
                              uint64_t used_before, uint64_t resident_before)
{
    struct tarn_depot_stats stats;
    uint64_t resident_open;
    uint64_t resident_full;
    int error = read_resident(&resident_open);
    if (error == 0)
        error = lab_depot_put_all(memory->store, depot, 0, memory->records);
    if (error == 0)
        error = read_resident(&resident_full);
    if (error != 0)
        return error;
    tarn_depot_stats(depot, &stats);
    take_parts(memory, depot, base_account_used(&node->memory) - used_before);
    memory->bytes[PART_RESIDENT_OPEN] = resident_open - base_min(resident_open, resident_before);
    memory->bytes[PART_RESIDENT_FULL] = resident_full - base_min(resident_full, resident_before);
    memory->bytes[PART_RESIDENT_PROCESS] = resident_full;
    memory->index_entries = stats.index_entries;
    return stats.records == memory->records ? 0 : -EBADMSG;
}

static void memory_main(void *arg)
{
    struct bench_world *world = arg;
    struct memory *memory = world->arg;
    struct tarn_depot *depot;
    uint64_t resident = 0;
    world->error = lab_depot_format(memory->store, world->node);
    uint64_t used = base_account_used(&world->node->memory);
    if (world->error == 0)
        world->error = read_resident(&resident);
    if (world->error == 0)
        world->error = lab_depot_open(memory->store, world->node, TARN_MODE_DEVICE, false, &depot);
    if (world->error != 0)
        return;
    world->error = measure_open_store(memory, world->node, depot, used, resident);
    int closed = tarn_depot_close(depot);
    if (world->error == 0)
        world->error = closed;
}

/* ---- its outcome ---------------------------------------------------------------------------------- */

/* `arg` is the values. */
static int replay_values(void *arg, struct bench_sample *sample)
{
    memcpy(sample->values, arg, 2 * sizeof(double));
    return 0;
}

/* One row as a case. */
static int write_row(const struct memory *memory, enum part part)
{
    double values[2] = {(double)memory->bytes[part], (double)memory->bytes[part] / (double)memory->records};
    struct bench_case *self;
    int error = bench_case_open(memory->store->bench, "memory", "bytes", &self);
    if (error != 0)
        return error;
    bench_case_number(self, "records", memory->records);
    bench_case_number(self, "value_bytes", VALUE_BYTES);
    bench_case_text(self, "part", part_names[part]);
    bench_case_value(self, "bytes");
    bench_case_value(self, "bytes_per_record");
    bench_case_subject(self, "tarn", replay_values, values);
    self->repeats = 1; /* it was filled once */
    return bench_case_finish(self);
}

static int write_table(const struct memory *memory)
{
    FILE *out = memory->store->bench->out;
    (void)fprintf(out, "memory records=%" PRIu64 " value_bytes=%d index_entries=%" PRIu64 ":\n",
                  memory->records, VALUE_BYTES, memory->index_entries);
    for (int part = 0; part < PART_COUNT; part++) {
        char size[BASE_UNITS_ROOM];
        (void)fprintf(out, "  %-18s %12s  %8.2f bytes a record\n", part_names[part],
                      base_format_size(size, sizeof(size), memory->bytes[part]),
                      (double)memory->bytes[part] / (double)memory->records);
    }
    return fflush(out) != 0 || ferror(out) != 0 ? -EIO : 0;
}

static int write_outcome(const struct memory *memory)
{
    int error = 0;
    if (!memory->store->bench->options.json)
        error = write_table(memory);
    else
        for (int part = 0; part < PART_COUNT && error == 0; part++)
            error = write_row(memory, (enum part)part);
    return error;
}

int lab_depot_memory(struct bench *bench, const struct lab_depot_setup *setup, const char *path,
                     uint64_t records)
{
    struct lab_depot_store store;
    struct memory memory = {.store = &store, .records = records};
    const struct bench_world_options options = {.engine = setup->engine, .sched = {.tasks_max = TASKS_MAX}};
    int error =
        lab_depot_store_open(bench, setup, path, STORE_ROOM_BYTES + records * RECORD_ROOM_BYTES, &store);
    if (error != 0)
        return error;
    error = lab_depot_set_value_bytes(&store, VALUE_BYTES);
    if (error == 0)
        error = bench_world_run(bench, &options, memory_main, &memory);
    if (error == 0)
        error = write_outcome(&memory);
    lab_depot_store_close(&store);
    return error == 0 ? 0 : bench_fail(bench, error, "memory");
}
