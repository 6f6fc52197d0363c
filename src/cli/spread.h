/* How what lives is spread over the segments of a store: by live share, by age, by their writer. */
#ifndef CLI_SPREAD_H
#define CLI_SPREAD_H

#include "base/base.h"
#include "base/json.h"
#include "depot/depot.h"

#define CLI_SPREAD_PARTS 10

/* A segment that has records. */
struct cli_spread_segment {
    uint64_t stamp, session;
    uint64_t live_bytes;
};

/* A tenth of the segments, by age. */
struct cli_spread_age {
    uint32_t segments;
    uint64_t stamps_back, sessions_back; /* of its oldest, counted from the newest of all */
    uint64_t live_bytes;
};

struct cli_spread {
    uint64_t segment_bytes;
    uint32_t segments; /* that have records */
    uint64_t live_bytes;
    uint32_t user_segments, collector_segments;     /* of them, by their writer, if that is known */
    uint64_t user_bytes, collector_bytes;           /* up to the ends of their last records */
    uint32_t by_share[CLI_SPREAD_PARTS];            /* segments of which less than 10 %, 20 % … lives */
    struct cli_spread_age by_age[CLI_SPREAD_PARTS]; /* youngest first */
};

/** Fill in what the segments' age and live share say. @param segments  are sorted by it */
void cli_spread_reckon(struct cli_spread *spread, struct cli_spread_segment *segments);

/** Look at all segments of a store. @return 0; -ENOMEM */
base_must_check int cli_spread_gather(struct tarn_node *node, struct tarn_depot *depot,
                                      uint64_t segment_bytes, struct cli_spread *ret_spread);

/** For people. */
void cli_spread_print(const struct cli_spread *spread);

/** For programs: members of the present object. */
void cli_spread_write(const struct cli_spread *spread, struct base_json *json);

#endif
