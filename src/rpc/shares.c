/* Shares: how much memory each connection of a server gets for its slots. README, "Shares of the memory". */
#include "fabric/fabric.h"
#include "rpc/connection.h"
#include <errno.h>

#define PARTS           8 /* what is more than a small share may be a part of the spare memory */
#define HELD_NS         BASE_NS_PER_SECOND    /* how long more than a small share is not asked back */
#define GIVE_BACK_NS    BASE_NS_PER_SECOND    /* how long a connection has to give it back */
#define GIVE_BACK_POLLS (10 * BASE_NS_PER_MS) /* how often is looked whether it has */

void rpc_shares_init(struct rpc_shares *shares, uint64_t memory_bytes)
{
    base_spin_init(&shares->lock);
    base_list_init(&shares->holders);
    shares->reserve = (struct rpc_pot){.bytes = memory_bytes / 2};
    shares->spare = (struct rpc_pot){.bytes = memory_bytes - memory_bytes / 2};
}

static uint64_t left_in(const struct rpc_pot *pot)
{
    return pot->bytes - pot->used_bytes;
}

static bool take_from(struct rpc_pot *pot, uint64_t bytes, uint64_t *ret_bytes)
{
    if (bytes > left_in(pot))
        return false;
    pot->used_bytes += bytes;
    *ret_bytes = bytes;
    return true;
}

/* A geometry with as many slots as was asked for, but for those that are halved away. */
static struct rpc_geometry with_slots(const struct rpc_geometry *asked, uint32_t slots)
{
    struct rpc_geometry geometry = *asked;
    geometry.in = base_min(asked->in, slots);
    geometry.out = base_min(asked->out, slots);
    return geometry;
}

int rpc_shares_take(struct rpc_shares *shares, const struct rpc_geometry *asked, bool reads_take_time,
                    struct rpc_geometry *ret_granted, struct rpc_share *ret_share)
{
    struct rpc_share share = {.granted_ns = task_now()};
    struct rpc_geometry granted = with_slots(asked, 1);
    const uint64_t least_bytes = TASK_STACK_BYTES + rpc_connection_bytes(&granted, reads_take_time);
    base_spin_lock(&shares->lock);
    bool taken = (least_bytes <= TASK_STACK_BYTES + RPC_SMALL_SHARE &&
                  take_from(&shares->reserve, least_bytes, &share.reserve_bytes)) ||
                 take_from(&shares->spare, least_bytes, &share.spare_bytes);
    for (uint32_t slots = base_max(asked->in, asked->out); taken && slots > 1; slots /= 2) {
        const struct rpc_geometry more = with_slots(asked, slots);
        const uint64_t more_bytes =
            TASK_STACK_BYTES + rpc_connection_bytes(&more, reads_take_time) - least_bytes;
        if (more_bytes <= left_in(&shares->spare) / PARTS) {
            granted = more;
            shares->spare.used_bytes += more_bytes;
            share.spare_bytes += more_bytes;
            break;
        }
    }
    base_spin_unlock(&shares->lock);
    if (!taken)
        return -ENOMEM;
    *ret_granted = granted;
    *ret_share = share;
    return 0;
}

void rpc_shares_hold(struct rpc_shares *shares, struct tarn_rpc_connection *connection)
{
    base_spin_lock(&shares->lock);
    if (connection->share.spare_bytes > 0)
        base_list_push_back(&shares->holders, &connection->share.link);
    base_spin_unlock(&shares->lock);
}

void rpc_shares_let_go(struct rpc_shares *shares, struct tarn_rpc_connection *connection)
{
    base_spin_lock(&shares->lock);
    base_list_remove(&connection->share.link);
    base_spin_unlock(&shares->lock);
}

void rpc_shares_give(struct rpc_shares *shares, const struct rpc_share *share)
{
    base_spin_lock(&shares->lock);
    shares->reserve.used_bytes -= share->reserve_bytes;
    shares->spare.used_bytes -= share->spare_bytes;
    base_spin_unlock(&shares->lock);
}

/* ---- giving back -------------------------------------------------------------------------------- */

/* Ask a connection's other side to leave, and end the connection if it does not. */
static void ask_back(void *arg)
{
    struct tarn_rpc_connection *connection = arg;
    const uint64_t until_ns = task_now() + GIVE_BACK_NS;
    const uint8_t word = 0;
    if (tarn_fabric_send(connection->fabric, RPC_TAG, &word, RPC_WANTED_BACK_BYTES, until_ns) != 0)
        return; /* it has ended */
    while (tarn_fabric_error(connection->fabric) == 0 && task_now() < until_ns)
        (void)task_sleep(GIVE_BACK_POLLS);
    if (tarn_fabric_error(connection->fabric) == 0)
        fabric_connection_end(connection->fabric, "others need its memory", -ECONNABORTED);
}

void rpc_shares_want(struct rpc_shares *shares, bool needed)
{
    base_spin_lock(&shares->lock);
    struct base_list *first = base_list_first(&shares->holders);
    if (first != NULL && (needed || left_in(&shares->spare) < shares->spare.bytes / 2)) {
        struct tarn_rpc_connection *oldest = base_container_of(first, struct tarn_rpc_connection, share.link);
        if (task_now() >= oldest->share.granted_ns + HELD_NS &&
            task_spawn(oldest->worker->sched, &oldest->callee.methods, "rpc-give-back", ask_back, oldest) ==
                0)
            base_list_remove(&oldest->share.link); /* it is asked once */
    }
    base_spin_unlock(&shares->lock);
}
