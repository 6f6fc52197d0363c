/* The choice of the way of results and of the first READ's bytes, by the calls seen lately. It does no I/O. */
#ifndef RPC_ADAPT_H
#define RPC_ADAPT_H

#include "base/base.h"
#include <tarn/rpc.h>

#define RPC_ADAPT_WINDOW    64                   /* the most calls of a window */
#define RPC_ADAPT_WINDOW_NS (2 * BASE_NS_PER_MS) /* time after which one call ends a window */
#define RPC_ADAPT_SIZES     96                   /* number of classes of result sizes */

struct rpc_adapt {
    enum tarn_rpc_way wanted; /* the user's choice */
    bool is_fixed;            /* the way never changes */
    bool is_size_fixed;
    bool reads_load_a_card; /* READs that find nothing load a card, not only the caller's processor */
    bool by_reply;          /* the present way */
    uint32_t fetch_bytes;   /* bytes of a result's body that the first READ fetches now */
    uint32_t result_bytes_max;
    uint32_t calls;                  /* calls in this window */
    uint32_t slow_windows;           /* consecutive windows with slow calls */
    uint64_t began_ns;               /* beginning of this window; 0: not known */
    uint64_t service_ns;             /* time that the callee has reported for this window's calls, in all */
    uint64_t round_trip_ns;          /* a READ's round trip, lately; 0: not known */
    uint32_t sizes[RPC_ADAPT_SIZES]; /* weight of the results of each class; older ones weigh less */
    uint32_t vain;                   /* weight of the READs that found no result; older ones weigh less */
    uint32_t young;                  /* calls since the weights were halved */
    uint64_t changes;
};

/** Begin. @param fetch_bytes  0: chosen here @param starts_by_reply  `adaptive` means by reply, for good
 * @param reads_load_a_card  a READ that finds nothing loads a card, which others use, too */
void rpc_adapt_init(struct rpc_adapt *adapt, enum tarn_rpc_way wanted, uint32_t fetch_bytes,
                    uint32_t result_bytes_max, bool starts_by_reply, bool reads_load_a_card);

/** Note how long a READ that asked for a header took. */
void rpc_adapt_note_round_trip(struct rpc_adapt *adapt, uint64_t ns);

/** Note a READ that found no result. */
void rpc_adapt_note_vain(struct rpc_adapt *adapt);

/** Note the time, at which a window with few calls may end. @return whether the choice has changed */
bool rpc_adapt_note_time(struct rpc_adapt *adapt, uint64_t now_ns);

/** Note an answered call. @return whether the choice has changed */
bool rpc_adapt_note(struct rpc_adapt *adapt, uint64_t service_ns, uint32_t result_bytes);

#endif
