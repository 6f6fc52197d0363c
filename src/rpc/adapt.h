/* Which way results come, and how much of one is fetched at first: by what was seen lately. Pure. */
#ifndef RPC_ADAPT_H
#define RPC_ADAPT_H

#include "base/base.h"
#include <tarn/rpc.h>

#define RPC_ADAPT_WINDOW    64                   /* calls */
#define RPC_ADAPT_WINDOW_NS (2 * BASE_NS_PER_MS) /* after which one is enough */
#define RPC_ADAPT_SIZES     96                   /* classes of sizes of results */

struct rpc_adapt {
    enum tarn_rpc_way wanted; /* as its user said */
    bool is_fixed;            /* the way */
    bool is_size_fixed;
    bool reads_load_a_card; /* and not the caller's processor alone */
    bool by_reply;          /* now */
    uint32_t fetch_bytes;   /* of a result's body, with the first READ, now */
    uint32_t result_bytes_max;
    uint32_t calls;                  /* of this window */
    uint32_t slow_windows;           /* on end */
    uint64_t began_ns;               /* this window, as far as is known; 0: it is not */
    uint64_t service_ns;             /* sum of this window */
    uint64_t round_trip_ns;          /* of a READ; 0: not known */
    uint32_t sizes[RPC_ADAPT_SIZES]; /* how many results, with less weight the older they are */
    uint32_t vain;                   /* READs that found no result, likewise */
    uint32_t young;                  /* calls since both were given less weight */
    uint64_t changes;
};

/** Begin. @param fetch_bytes  0: to be chosen @param starts_by_reply  adaptive is by reply, and stays so
 * @param reads_load_a_card  a READ that finds nothing takes something from others */
void rpc_adapt_init(struct rpc_adapt *adapt, enum tarn_rpc_way wanted, uint32_t fetch_bytes,
                    uint32_t result_bytes_max, bool starts_by_reply, bool reads_load_a_card);

/** A READ that asked for a header took that long. */
void rpc_adapt_note_round_trip(struct rpc_adapt *adapt, uint64_t ns);

/** A READ found no result yet. */
void rpc_adapt_note_vain(struct rpc_adapt *adapt);

/** It is that late: a window with few calls may end. @return whether something was changed */
bool rpc_adapt_note_time(struct rpc_adapt *adapt, uint64_t now_ns);

/** A call was answered. @return whether something was changed */
bool rpc_adapt_note(struct rpc_adapt *adapt, uint64_t service_ns, uint32_t result_bytes);

#endif
