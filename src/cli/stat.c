/* tarn stat: what a store is, and what is in it. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/spread.h"
#include "cli/store.h"
#include "depot/depot.h"
#include "drive/drive.h"
#include "seglog/seglog_format.h"
#include "task/node.h"
#include <errno.h>
#include <inttypes.h>
#include <time.h>

struct stat_options {
    uint64_t over_provisioning_percent;
    bool segments;
    bool json;
};

#define AT(field) .offset = offsetof(struct stat_options, field)

static const struct base_setting stat_settings[] = {
    {.name = "segments", .type = BASE_SETTING_BOOL, .help = "Tell about each segment, too.", AT(segments)},
    {.name = "json", .type = BASE_SETTING_BOOL, .help = "Print one JSON object.", AT(json)},
    {DEPOT_OVER_PROVISIONING_SETTING,
     .help = "Tell the capacity that the store has with so much of the drive kept free.",
     AT(over_provisioning_percent)},
};
static const struct cli_arguments arguments = {stat_settings, base_array_count(stat_settings)};

/* All that is told about a store. */
struct facts {
    const char *path;
    char identity[33];
    char made[32];
    const struct seglog_superblock_format *superblock;
    const struct drive *whole;
    const struct drive_info *drive;
    uint64_t value_bytes_max;
    struct tarn_depot_stats stats;
    struct cli_spread spread;
};

void cli_stat_help(FILE *file)
{
    (void)fputs(
        "Tells how the store in the file PATH was made, and what is in it. The store must not be open\n"
        "elsewhere to be written.\n\n",
        file);
    cli_print_options(&arguments, file);
}

/* ---- what there is to tell ----------------------------------------------------------------------------- */

static int gather(struct cli_store *store, const char *path, struct facts *ret_facts)
{
    struct facts facts = {.path = path,
                          .superblock = depot_superblock(store->depot),
                          .whole = depot_drive(store->depot),
                          .drive = depot_drive_info(store->depot),
                          .value_bytes_max = tarn_depot_value_bytes_max(store->depot)};
    int error = cli_spread_gather(store->node, store->depot, facts.superblock->segment_bytes, &facts.spread);
    if (error != 0)
        return error;
    (void)snprintf(facts.identity, sizeof(facts.identity), "%016" PRIx64 "%016" PRIx64,
                   facts.superblock->identity[0], facts.superblock->identity[1]);
    time_t seconds = (time_t)(facts.superblock->made_wall_ns / BASE_NS_PER_SECOND);
    struct tm when;
    (void)strftime(facts.made, sizeof(facts.made), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &when));
    tarn_depot_stats(store->depot, &facts.stats);
    *ret_facts = facts;
    return 0;
}

/* ---- for people ----------------------------------------------------------------------------------- */

static void print_size(const char *name, uint64_t bytes, const char *rest)
{
    char size[BASE_UNITS_ROOM];
    (void)printf("%-12s %s%s\n", name, base_format_size(size, sizeof(size), bytes), rest);
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : 100.0 * (double)part / (double)whole;
}

/* Of a store on one drive all has been said. */
static void print_drives(const struct facts *facts)
{
    uint32_t count = drive_member_count(facts->whole);
    char size[BASE_UNITS_ROOM];
    if (count == 1)
        return;
    (void)printf("%-12s %016" PRIx64 "%016" PRIx64 ", %" PRIu32 " drives, units of %s\n", "stripe",
                 facts->drive->stripe_identity[0], facts->drive->stripe_identity[1], count,
                 base_format_size(size, sizeof(size), facts->drive->unit_bytes));
    for (uint32_t place = 0; place < count; place++) {
        const struct drive *drive = drive_member(facts->whole, place);
        (void)printf("  drive %-4" PRIu32 " %s, %s, %s", place + 1, drive_name(drive),
                     base_format_size(size, sizeof(size), drive_info(drive)->bytes),
                     drive_info(drive)->provider);
        (void)printf(drive_failures(drive) == 0 ? "\n" : ", %" PRIu64 " requests have failed\n",
                     drive_failures(drive));
    }
}

static void print_facts(const struct facts *facts)
{
    const struct seglog_superblock_format *superblock = facts->superblock;
    const struct tarn_depot_stats *stats = &facts->stats;
    char size[BASE_UNITS_ROOM], rest[96];
    (void)printf("%-12s %s (%s, %s, %s)\n", "store", facts->path, facts->drive->device ? "device" : "file",
                 facts->drive->provider, facts->drive->direct ? "direct" : "through the page cache");
    print_drives(facts);
    (void)printf("%-12s %s\n%-12s %s\n", "identity", facts->identity, "made", facts->made);
    (void)printf("%-12s version %" PRIu32 ", grains of %" PRIu32 " B, blocks of %s\n", "format",
                 superblock->version, superblock->grain_bytes,
                 base_format_size(size, sizeof(size), superblock->block_bytes));
    print_size("size", superblock->store_bytes, "");
    (void)printf("%-12s %" PRIu32 " of %s, %" PRIu32 " free\n", "segments", stats->segments,
                 base_format_size(size, sizeof(size), stats->segment_bytes), stats->segments_free);
    print_size("value max", facts->value_bytes_max, "");
    print_size("capacity", stats->capacity_bytes, "");
    (void)snprintf(rest, sizeof(rest), " (%.1f %%)", percent(stats->live_bytes, stats->capacity_bytes));
    print_size("live", stats->live_bytes, rest);
    print_size("tombstones", stats->tombstone_bytes, "");
    (void)printf("%-12s %" PRIu64 "\n", "records", stats->records);
    (void)snprintf(rest, sizeof(rest), " of memory, %" PRIu64 " entries (%.1f %% used)", stats->index_entries,
                   percent(stats->records, stats->index_entries));
    print_size("index", stats->index_bytes, rest);
    cli_spread_print(&facts->spread);
}

/* The writer of what is in a segment; empty if there is nothing in it. */
static const char *writer_of(const struct depot_segment_info *info)
{
    return info->entries == 0 ? "" : info->writer;
}

static void print_segments(struct tarn_depot *depot)
{
    struct depot_segment_info info;
    (void)printf("\n%8s  %-10s %-9s %12s %8s %10s %12s %12s\n", "segment", "state", "writer", "stamp",
                 "session", "records", "live", "tombstones");
    for (uint32_t segment = 0; depot_segment(depot, segment, &info) == 0; segment++) {
        char live[BASE_UNITS_ROOM], tombstones[BASE_UNITS_ROOM];
        (void)printf("%8" PRIu32 "  %-10s %-9s %12" PRIu64 " %8" PRIu64 " %10" PRIu32 " %12s %12s%s\n",
                     segment, info.state, writer_of(&info), info.stamp, info.session, info.entries,
                     base_format_size(live, sizeof(live), info.live_bytes),
                     base_format_size(tombstones, sizeof(tombstones), info.tombstone_bytes),
                     info.sealed ? "  sealed" : "");
    }
}

/* ---- for programs --------------------------------------------------------------------------------- */

static void write_drives(const struct facts *facts, struct base_json *json)
{
    base_json_u64(json, "unit_bytes", facts->drive->unit_bytes);
    base_json_array_begin(json, "drives");
    for (uint32_t place = 0; place < drive_member_count(facts->whole); place++) {
        const struct drive *drive = drive_member(facts->whole, place);
        base_json_object_begin(json, NULL);
        base_json_string(json, "path", drive_path(drive));
        base_json_u64(json, "bytes", drive_info(drive)->bytes);
        base_json_string(json, "provider", drive_info(drive)->provider);
        base_json_u64(json, "requests_failed", drive_failures(drive));
        base_json_bool(json, "failed", drive_failed(drive));
        base_json_object_end(json);
    }
    base_json_array_end(json);
}

static void write_facts(const struct facts *facts, struct base_json *json)
{
    const struct seglog_superblock_format *superblock = facts->superblock;
    const struct tarn_depot_stats *stats = &facts->stats;
    base_json_string(json, "store", facts->path);
    base_json_bool(json, "device", facts->drive->device);
    base_json_string(json, "provider", facts->drive->provider);
    base_json_bool(json, "direct", facts->drive->direct);
    write_drives(facts, json);
    base_json_string(json, "identity", facts->identity);
    base_json_string(json, "made", facts->made);
    base_json_u64(json, "format", superblock->version);
    base_json_u64(json, "grain_bytes", superblock->grain_bytes);
    base_json_u64(json, "block_bytes", superblock->block_bytes);
    base_json_u64(json, "store_bytes", superblock->store_bytes);
    base_json_u64(json, "segment_bytes", superblock->segment_bytes);
    base_json_u64(json, "segment_count", superblock->segment_count);
    base_json_u64(json, "segments_free", stats->segments_free);
    base_json_u64(json, "value_bytes_max", facts->value_bytes_max);
    base_json_u64(json, "capacity_bytes", stats->capacity_bytes);
    base_json_u64(json, "live_bytes", stats->live_bytes);
    base_json_u64(json, "tombstone_bytes", stats->tombstone_bytes);
    base_json_u64(json, "records", stats->records);
    base_json_u64(json, "index_bytes", stats->index_bytes);
    base_json_u64(json, "index_entries", stats->index_entries);
    cli_spread_write(&facts->spread, json);
}

static void write_segments(struct tarn_depot *depot, struct base_json *json)
{
    struct depot_segment_info info;
    base_json_array_begin(json, "segments");
    for (uint32_t segment = 0; depot_segment(depot, segment, &info) == 0; segment++) {
        base_json_object_begin(json, NULL);
        base_json_u64(json, "segment", segment);
        base_json_string(json, "state", info.state);
        base_json_u64(json, "stamp", info.stamp);
        base_json_u64(json, "session", info.session);
        base_json_string(json, "writer", writer_of(&info));
        base_json_u64(json, "used_bytes", info.used_bytes);
        base_json_u64(json, "records", info.entries);
        base_json_u64(json, "live_bytes", info.live_bytes);
        base_json_u64(json, "tombstone_bytes", info.tombstone_bytes);
        base_json_bool(json, "sealed", info.sealed);
        base_json_object_end(json);
    }
    base_json_array_end(json);
}

static bool write_json(struct cli_store *store, const struct facts *facts, bool segments)
{
    struct base_json json;
    base_json_init_file(&json, stdout);
    base_json_object_begin(&json, NULL);
    write_facts(facts, &json);
    if (segments)
        write_segments(store->depot, &json);
    base_json_object_end(&json);
    return base_json_finish(&json, NULL) == 0 && putchar('\n') != EOF;
}

static int stat_store(struct cli_store *store, const char *path, const struct stat_options *options)
{
    struct facts facts;
    int error = gather(store, path, &facts);
    if (error != 0)
        return cli_failed("cannot read %s: %s", path, cli_file_reason(error));
    bool written = true;
    if (options->json) {
        written = write_json(store, &facts, options->segments);
    } else {
        print_facts(&facts);
        if (options->segments)
            print_segments(store->depot);
    }
    return written && !ferror(stdout) && fflush(stdout) == 0 ? CLI_OK : cli_output_failed();
}

static int run_stat(const void *parsed, const char *const *words, size_t count)
{
    const struct stat_options *options = parsed;
    const struct tarn_depot_options depot_options = {
        .read_only = true, .over_provisioning_percent = (uint32_t)options->over_provisioning_percent};
    struct cli_store store;
    const char *path;
    if (count != 1)
        return cli_usage("stat takes a store");
    int status = cli_store_path(words[0], &path);
    if (status == CLI_OK)
        status = cli_depot_open(words[0], &depot_options, &store);
    return status == CLI_OK ? cli_store_close(&store, stat_store(&store, path, options)) : status;
}

int cli_stat(int argc, char **argv)
{
    struct stat_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run_stat);
}
