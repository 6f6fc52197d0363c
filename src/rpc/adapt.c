/*
 * The choice between fetching results and having them written, and of the bytes that the first READ fetches. The caller
 * (caller.c) reports what it measures.
 */
#include "rpc/adapt.h"

/* Reply pays when a call takes this many round trips, because READs during that time find nothing (the later paper on
 * RFP). */
#define SLOW_ROUND_TRIPS      2 /* where READs that find nothing load the callee's card */
#define SLOW_ROUND_TRIPS_COPY 4 /* where READs are copies by the caller */
#define COPY_NS_MIN                                                                                          \
    1000 /* the least that counts as a round trip: in a shorter time the caller could do nothing else anyway */
#define FAST_PERCENT      70 /* share of that time below which fetching pays again */
#define SLOW_WINDOWS      2
#define READ_COST_BYTES   1024 /* the cost of one more READ, as bytes added to another one */
#define FETCH_BYTES_FIRST 256
#define CLASS_BYTES       8  /* width of the classes of small results */
#define SMALL_CLASSES     16 /* number of such classes; above them each doubling has eight */
#define ROUND_TRIP_WEIGHT 8
#define CALL_WEIGHT       16 /* weight of a new call in the histogram */
#define CALLS_OLD         16 /* the fewest calls after which the weights are halved */

/* Find the class of a size: linear at first, then eight to a doubling, as in a histogram. */
static uint32_t class_of(uint32_t bytes)
{
    uint32_t units = (bytes + CLASS_BYTES - 1) / CLASS_BYTES;
    if (units < SMALL_CLASSES)
        return units;
    uint32_t power = 31 - (uint32_t)__builtin_clz(units); /* at least 4 */
    uint32_t eighth = units >> (power - 3) & 7;
    uint32_t class = SMALL_CLASSES + (power - 4) * 8 + eighth;
    return base_min(class, (uint32_t)RPC_ADAPT_SIZES - 1);
}

/* The largest size of a class. */
static uint32_t class_bytes(uint32_t class)
{
    if (class < SMALL_CLASSES)
        return class * CLASS_BYTES;
    uint32_t power = 4 + (class - SMALL_CLASSES) / 8, eighth = (class - SMALL_CLASSES) % 8;
    return (((8 + eighth + 1) << (power - 3)) - 1) * CLASS_BYTES;
}

void rpc_adapt_init(struct rpc_adapt *adapt, enum tarn_rpc_way wanted, uint32_t fetch_bytes,
                    uint32_t result_bytes_max, bool starts_by_reply, bool reads_load_a_card)
{
    *adapt = (struct rpc_adapt){
        .wanted = wanted,
        .is_fixed = wanted != TARN_RPC_ADAPTIVE || starts_by_reply,
        .is_size_fixed = fetch_bytes != 0,
        .reads_load_a_card = reads_load_a_card,
        .by_reply = wanted == TARN_RPC_REPLY || (wanted == TARN_RPC_ADAPTIVE && starts_by_reply),
        .fetch_bytes =
            base_min(fetch_bytes != 0 ? fetch_bytes : (uint32_t)FETCH_BYTES_FIRST, result_bytes_max),
        .result_bytes_max = result_bytes_max,
    };
}

void rpc_adapt_note_round_trip(struct rpc_adapt *adapt, uint64_t ns)
{
    if (adapt->round_trip_ns == 0)
        adapt->round_trip_ns = ns;
    else
        adapt->round_trip_ns += (uint64_t)((int64_t)(ns - adapt->round_trip_ns) / ROUND_TRIP_WEIGHT);
    adapt->round_trip_ns = base_max(adapt->round_trip_ns, (uint64_t)1);
}

void rpc_adapt_note_vain(struct rpc_adapt *adapt)
{
    if (adapt->vain < UINT32_MAX / 2)
        adapt->vain += CALL_WEIGHT;
}

static void choose_way(struct rpc_adapt *adapt)
{
    const uint64_t mean_ns = adapt->service_ns / adapt->calls;
    const uint64_t slow_ns =
        adapt->reads_load_a_card
            ? SLOW_ROUND_TRIPS * adapt->round_trip_ns
            : SLOW_ROUND_TRIPS_COPY * base_max(adapt->round_trip_ns, (uint64_t)COPY_NS_MIN);
    if (adapt->round_trip_ns == 0)
        return;
    const bool agrees = adapt->by_reply ? mean_ns < slow_ns * FAST_PERCENT / 100 : mean_ns > slow_ns;
    adapt->slow_windows = agrees ? adapt->slow_windows + 1 : 0;
    if (adapt->slow_windows < (adapt->by_reply ? 1 : SLOW_WINDOWS))
        return;
    adapt->by_reply = !adapt->by_reply;
    adapt->slow_windows = 0;
    adapt->changes++;
}

/*
 * Choose the fetch_bytes for which the READs of lately seen results would cost least. The cost, in bytes, is that of each
 * READ itself and of its bytes, also if it finds nothing, and of a second READ for each longer result.
 */
static void choose_fetch_bytes(struct rpc_adapt *adapt)
{
    uint64_t all = adapt->vain, longer = 0, longer_bytes = 0, best = UINT64_MAX;
    uint32_t chosen = adapt->fetch_bytes;
    for (uint32_t class = 0; class < RPC_ADAPT_SIZES; class ++)
        all += adapt->sizes[class];
    for (uint32_t class = RPC_ADAPT_SIZES;
         class -- > 0;) { /* from the longest class down; `longer` counts the results above it */
        uint64_t bytes = class_bytes(class);
        if (adapt->sizes[class] > 0 || class == 0) {
            uint64_t cost =
                all * (READ_COST_BYTES + bytes) + longer * READ_COST_BYTES + longer_bytes - longer * bytes;
            if (cost < best) {
                best = cost;
                chosen = (uint32_t)base_min(bytes, (uint64_t)adapt->result_bytes_max);
            }
        }
        longer += adapt->sizes[class];
        longer_bytes += adapt->sizes[class] * bytes;
    }
    adapt->fetch_bytes = chosen;
}

/* Halve the weight of all that was seen so far. */
static void grow_old(struct rpc_adapt *adapt)
{
    adapt->young = 0;
    adapt->vain /= 2;
    for (uint32_t class = 0; class < RPC_ADAPT_SIZES; class ++)
        adapt->sizes[class] /= 2;
}

/* @return whether something was changed */
static bool end_window(struct rpc_adapt *adapt)
{
    const bool by_reply = adapt->by_reply;
    const uint32_t fetch_bytes = adapt->fetch_bytes;
    if (!adapt->is_fixed)
        choose_way(adapt);
    if (!adapt->is_size_fixed)
        choose_fetch_bytes(adapt);
    adapt->young += adapt->calls;
    if (adapt->young >= CALLS_OLD)
        grow_old(adapt);
    adapt->calls = 0;
    adapt->service_ns = 0;
    adapt->began_ns = 0;
    return by_reply != adapt->by_reply || fetch_bytes != adapt->fetch_bytes;
}

bool rpc_adapt_note(struct rpc_adapt *adapt, uint64_t service_ns, uint32_t result_bytes)
{
    adapt->service_ns += service_ns;
    adapt->sizes[class_of(result_bytes)] += CALL_WEIGHT;
    return ++adapt->calls >= RPC_ADAPT_WINDOW && end_window(adapt);
}

bool rpc_adapt_note_time(struct rpc_adapt *adapt, uint64_t now_ns)
{
    if (adapt->began_ns == 0)
        adapt->began_ns = now_ns;
    return now_ns - adapt->began_ns >= RPC_ADAPT_WINDOW_NS && adapt->calls > 0 && end_window(adapt);
}
