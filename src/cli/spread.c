/* How what lives is spread over the segments of a store. */
#include "cli/spread.h"
#include "task/node.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- reckoning ------------------------------------------------------------------------------------ */

static int newest_first(const void *left, const void *right)
{
    const struct cli_spread_segment *a = left, *b = right;
    return (a->stamp < b->stamp) - (a->stamp > b->stamp);
}

static void add_age(struct cli_spread_age *age, const struct cli_spread_segment *newest,
                    const struct cli_spread_segment *segment)
{
    age->segments++;
    age->live_bytes += segment->live_bytes;
    age->stamps_back = newest->stamp - segment->stamp;
    age->sessions_back = newest->session - base_min(segment->session, newest->session);
}

void cli_spread_reckon(struct cli_spread *spread, struct cli_spread_segment *segments)
{
    qsort(segments, spread->segments, sizeof(*segments), newest_first);
    for (uint32_t i = 0; i < spread->segments; i++) {
        uint64_t part = segments[i].live_bytes * CLI_SPREAD_PARTS / spread->segment_bytes;
        spread->by_share[base_min(part, (uint64_t)CLI_SPREAD_PARTS - 1)]++;
        spread->live_bytes += segments[i].live_bytes;
        add_age(&spread->by_age[(uint64_t)i * CLI_SPREAD_PARTS / spread->segments], &segments[0],
                &segments[i]);
    }
}

/* ---- gathering ------------------------------------------------------------------------------------ */

static bool has_records(const struct depot_segment_info *info)
{
    return strcmp(info->state, "free") != 0 && strcmp(info->state, "checkpoint") != 0;
}

static void add_writer(struct cli_spread *spread, const struct depot_segment_info *info)
{
    bool users = strcmp(info->writer, "users") == 0, collector = strcmp(info->writer, "collector") == 0;
    spread->user_segments += users;
    spread->user_bytes += users ? info->used_bytes : 0;
    spread->collector_segments += collector;
    spread->collector_bytes += collector ? info->used_bytes : 0;
}

int cli_spread_gather(struct tarn_node *node, struct tarn_depot *depot, uint64_t segment_bytes,
                      struct cli_spread *ret_spread)
{
    struct tarn_depot_stats stats;
    struct depot_segment_info info;
    struct cli_spread spread = {.segment_bytes = segment_bytes};
    tarn_depot_stats(depot, &stats);
    size_t bytes = stats.segments * sizeof(struct cli_spread_segment);
    struct cli_spread_segment *segments = base_alloc(&node->memory, bytes);
    if (segments == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < stats.segments && depot_segment(depot, i, &info) == 0; i++) {
        if (!has_records(&info))
            continue;
        segments[spread.segments++] = (struct cli_spread_segment){
            .stamp = info.stamp, .session = info.session, .live_bytes = info.live_bytes};
        add_writer(&spread, &info);
    }
    cli_spread_reckon(&spread, segments);
    base_free(&node->memory, segments, bytes);
    *ret_spread = spread;
    return 0;
}

/* ---- telling -------------------------------------------------------------------------------------- */

/* The share of some segments that lives. */
static double share(const struct cli_spread *spread, uint64_t live_bytes, uint32_t segments)
{
    return segments == 0 ? 0 : (double)live_bytes / (double)(segments * spread->segment_bytes);
}

void cli_spread_print(const struct cli_spread *spread)
{
    char users[BASE_UNITS_ROOM], collector[BASE_UNITS_ROOM];
    (void)printf("%-12s %.1f %% of the %" PRIu32 " segments that have records\n", "live share",
                 100 * share(spread, spread->live_bytes, spread->segments), spread->segments);
    (void)printf("%-12s %s in %" PRIu32 " of them by users, %s in %" PRIu32 " by the collector\n", "written",
                 base_format_size(users, sizeof(users), spread->user_bytes), spread->user_segments,
                 base_format_size(collector, sizeof(collector), spread->collector_bytes),
                 spread->collector_segments);
    if (spread->segments == 0)
        return;
    (void)printf("\n%14s %9s\n", "live share", "segments");
    for (uint32_t part = 0; part < CLI_SPREAD_PARTS; part++)
        (void)printf("%5" PRIu32 " to %3" PRIu32 " %% %9" PRIu32 "\n", 10 * part, 10 * part + 10,
                     spread->by_share[part]);
    (void)printf("\n%14s %9s %14s %14s %11s\n", "age", "segments", "stamps back", "sessions back",
                 "live share");
    for (uint32_t part = 0; part < CLI_SPREAD_PARTS; part++) {
        const struct cli_spread_age *age = &spread->by_age[part];
        if (age->segments > 0)
            (void)printf("%5" PRIu32 " to %3" PRIu32 " %% %9" PRIu32 " %14" PRIu64 " %14" PRIu64
                         " %9.1f %%\n",
                         10 * part, 10 * part + 10, age->segments, age->stamps_back, age->sessions_back,
                         100 * share(spread, age->live_bytes, age->segments));
    }
}

void cli_spread_write(const struct cli_spread *spread, struct base_json *json)
{
    base_json_double(json, "live_share", share(spread, spread->live_bytes, spread->segments));
    base_json_u64(json, "user_segments", spread->user_segments);
    base_json_u64(json, "user_segments_bytes", spread->user_bytes);
    base_json_u64(json, "collector_segments", spread->collector_segments);
    base_json_u64(json, "collector_segments_bytes", spread->collector_bytes);
    base_json_array_begin(json, "segments_by_live_share");
    for (uint32_t part = 0; part < CLI_SPREAD_PARTS; part++)
        base_json_u64(json, NULL, spread->by_share[part]);
    base_json_array_end(json);
    base_json_array_begin(json, "segments_by_age");
    for (uint32_t part = 0; part < CLI_SPREAD_PARTS; part++) {
        const struct cli_spread_age *age = &spread->by_age[part];
        base_json_object_begin(json, NULL);
        base_json_u64(json, "segments", age->segments);
        base_json_u64(json, "stamps_back", age->stamps_back);
        base_json_u64(json, "sessions_back", age->sessions_back);
        base_json_double(json, "live_share", share(spread, age->live_bytes, age->segments));
        base_json_object_end(json);
    }
    base_json_array_end(json);
}
