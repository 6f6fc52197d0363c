/*
 * Calls. A task that waits makes rounds: all requests and READs that are due are posted with one doorbell and waited for
 * together. If several tasks of a connection wait, one of them, the pump, makes the rounds; the others are parked until
 * their calls have ended, or until it is their turn to be the pump. A pump whose call's deadline passes leaves the round
 * in flight, for the next (round.c): no operation needs the memory of a call that has ended (rpc_slot.request, .result).
 */
#include "fabric/fabric.h"
#include "rpc/connection.h"
#include <errno.h>

#define AWAKE_NS 20000 /* a plain thread stays awake for shorter pauses, because a wake-up takes longer */

/* A task that sleeps until a call has ended. */
struct rpc_parked {
    struct base_list link; /* rpc_caller.parked */
    bool is_pump;          /* it was woken to make the next round */
    struct task_wait wait;
};

/* ---- ends of calls ------------------------------------------------------------------------------ */

static void finish_call(struct rpc_caller *caller, struct tarn_rpc_call *call, int error, bool may_have_run)
{
    struct rpc_parked *parked = call->waiter;
    if (error == -ETIMEDOUT)
        caller->stats.timed_out++;
    call->error = error;
    call->may_have_run = may_have_run;
    call->finished = true;
    if (parked != NULL)
        (void)task_wait_wake(&parked->wait, 0);
}

void rpc_caller_check_no_more(struct rpc_caller *caller, struct rpc_slot *slot)
{
    if (slot->must_check)
        caller->checking--;
    slot->must_check = false;
}

static void free_slot(struct tarn_rpc_connection *connection, struct rpc_slot *slot)
{
    struct rpc_caller *caller = &connection->caller;
    if (slot->state == RPC_SENT && !slot->by_reply) {
        if (slot->call != NULL)
            caller->fetching--;
        else
            caller->abandoned--;
    }
    rpc_caller_check_no_more(caller, slot);
    caller->pokes -= slot->must_poke;
    slot->must_poke = false;
    slot->state = RPC_FREE;
    slot->call = NULL;
    while (caller->oldest < caller->next && rpc_slot_of(connection, caller->oldest)->state == RPC_FREE)
        caller->oldest++;
    if (connection->is_wanted_back && connection->error == 0)
        rpc_connection_leave(connection);
}

static void tell_change(const struct tarn_rpc_connection *connection)
{
    const struct rpc_adapt *adapt = &connection->caller.adapt;
    base_debug(&connection->node->log, "calls are answered another way", "peer=%s by=%s fetch_bytes=%u",
               tarn_fabric_peer_name(connection->fabric), adapt->by_reply ? "reply" : "fetch",
               adapt->fetch_bytes);
}

void rpc_caller_note_time(struct tarn_rpc_connection *connection, uint64_t now_ns)
{
    if (rpc_adapt_note_time(&connection->caller.adapt, now_ns))
        tell_change(connection);
}

void rpc_caller_finish_slot(struct tarn_rpc_connection *connection, struct rpc_slot *slot, int error)
{
    struct rpc_caller *caller = &connection->caller;
    struct tarn_rpc_call *call = slot->call;
    const struct rpc_header *header = &slot->answer;
    caller->notifies = caller->always_notifies || (header->flags & RPC_WATCHED) == 0;
    caller->stats.calls++;
    if (slot->by_reply)
        caller->stats.replied++;
    else
        caller->stats.fetched++;
    if (rpc_adapt_note(&caller->adapt, header->time, header->bytes))
        tell_change(connection);
    free_slot(connection, slot);
    if (call == NULL)
        return;
    call->result_bytes = header->bytes;
    call->answer_epoch = header->epoch;
    call->answer_lease_ms = header->lease_ms;
    call->service_ns = header->time;
    finish_call(caller, call, error != 0 ? error : base_min((int32_t)header->word, 0), true);
}

void rpc_caller_drop_queue(struct tarn_rpc_connection *connection, int error)
{
    struct rpc_caller *caller = &connection->caller;
    while (caller->first != NULL) {
        struct tarn_rpc_call *call = caller->first;
        caller->first = call->next;
        finish_call(caller, call, error, false);
    }
}

void rpc_caller_fail(struct tarn_rpc_connection *connection)
{
    struct rpc_caller *caller = &connection->caller;
    for (uint32_t i = 0; i < connection->geometry.out; i++) {
        struct rpc_slot *slot = &caller->slots[i];
        struct tarn_rpc_call *call = slot->call;
        if (slot->state == RPC_FREE)
            continue;
        free_slot(connection, slot);
        if (call != NULL)
            finish_call(caller, call, connection->error, true);
    }
    rpc_caller_drop_queue(connection, connection->error);
}

/* ---- posting ------------------------------------------------------------------------------------ */

void tarn_rpc_post(struct tarn_rpc_connection *connection, struct tarn_rpc_call *calls, uint32_t count)
{
    struct rpc_caller *caller = &connection->caller;
    for (uint32_t i = 0; i < count; i++) {
        struct tarn_rpc_call *call = &calls[i];
        call->finished = false;
        call->waiter = NULL;
        call->next = NULL;
        call->sequence = 0;
        call->result_bytes = 0;
        if (call->request_bytes > connection->geometry.request_bytes)
            finish_call(caller, call, -EMSGSIZE, false);
        else if (connection->error != 0)
            finish_call(caller, call, connection->error, false);
        else if (connection->is_wanted_back)
            finish_call(caller, call, -ECONNRESET, false);
        else if (caller->first == NULL)
            caller->first = caller->last = call;
        else
            caller->last = caller->last->next = call;
    }
}

/* ---- replies ------------------------------------------------------------------------------------ */

/* Note that a call was answered: so the callee has taken all requests up to that one. */
static void note_taken(struct tarn_rpc_connection *connection, uint64_t sequence)
{
    struct rpc_caller *caller = &connection->caller;
    for (uint64_t i = sequence; i >= caller->oldest && rpc_slot_of(connection, i)->must_check; i--)
        rpc_caller_check_no_more(caller, rpc_slot_of(connection, i));
    if (caller->checking > 0)
        caller->check_due_ns = task_now() + RPC_CHECK_AFTER_NS;
}

int rpc_caller_take_reply(struct tarn_rpc_connection *connection, uint32_t number)
{
    struct rpc_caller *caller = &connection->caller;
    struct rpc_slot *slot = &caller->slots[number];
    uint64_t offset = rpc_reply_offset(&connection->geometry, slot->sequence);
    uint8_t head
        [RPC_HEADER_BYTES]; /* not the slot's own room, into which a READ of the mark may write meanwhile */
    struct rpc_header header;
    if (slot->state == RPC_FREE || !slot->by_reply)
        return -EPROTO;
    if (slot->state == RPC_POSTED) {
        slot->has_reply = true; /* the round that waits for the WRITE takes it */
        return 0;
    }
    tarn_fabric_mem_copy_out(connection->region, offset, head, sizeof(head));
    if (!rpc_header_load(head, &header) || header.sequence != slot->sequence ||
        header.bytes > connection->geometry.result_bytes)
        return -EPROTO;
    const bool fits = slot->call != NULL && header.bytes <= slot->call->room;
    if (fits) {
        if (header.bytes > 0) /* without a body there may be no room at all */
            tarn_fabric_mem_copy_out(connection->region, offset + RPC_HEADER_BYTES, slot->call->result,
                                     header.bytes);
        if (!rpc_body_is_whole(&header, slot->call->result))
            return -EPROTO;
    }
    slot->answer = header;
    note_taken(connection, header.sequence);
    rpc_caller_finish_slot(connection, slot, fits ? 0 : -EMSGSIZE);
    return 0;
}

/* ---- waiting ------------------------------------------------------------------------------------ */

static uint64_t deadline_of(const struct tarn_rpc_call *call)
{
    return call->deadline_ns == 0 ? TASK_FOREVER : call->deadline_ns;
}

/* Give up a call that its caller no longer waits for. */
static void abandon_call(struct tarn_rpc_connection *connection, struct tarn_rpc_call *call, int error)
{
    struct rpc_caller *caller = &connection->caller;
    while (caller->pumping && !caller->round.in_flight && !call->finished)
        (void)task_sleep(1000); /* READs that are copies are under way, into the memory of calls */
    if (call->finished)
        return;
    rpc_round_detach(connection);
    if (call->sequence != 0) {
        struct rpc_slot *slot = rpc_slot_of(connection, call->sequence);
        slot->call = NULL;
        slot->has_header = false;
        if (slot->state == RPC_SENT && !slot->by_reply) {
            caller->fetching--;
            caller->abandoned++;
        }
        finish_call(caller, call, error, true);
        return;
    }
    struct tarn_rpc_call **at = &caller->first, *before = NULL;
    for (; *at != call; at = &before->next)
        before = *at;
    *at = call->next;
    if (caller->last == call)
        caller->last = before;
    finish_call(caller, call, error, false);
}

/* Sleep until the call has ended, or until this task is to be the pump. @return 0; -ETIMEDOUT; -ECANCELED */
static int park_task(struct tarn_rpc_connection *connection, struct tarn_rpc_call *call, uint64_t until_ns)
{
    struct rpc_parked parked = {.is_pump = false};
    task_wait_init(&parked.wait);
    base_list_push_back(&connection->caller.parked, &parked.link);
    call->waiter = &parked;
    int error = task_wait_park(&parked.wait, until_ns);
    call->waiter = NULL;
    base_list_remove(&parked.link);
    if (parked.is_pump)
        connection->caller.has_pump = false;
    return error;
}

/* Whether the oldest call's reply was written: then its message has come, or is about to come. */
static bool is_oldest_replied(struct tarn_rpc_connection *connection)
{
    const uint64_t oldest = connection->caller.oldest;
    const struct rpc_slot *slot = rpc_slot_of(connection, oldest);
    return slot->state == RPC_SENT && slot->by_reply && slot->sequence == oldest &&
           tarn_fabric_mem_load64(connection->region, rpc_reply_offset(&connection->geometry, oldest)) ==
               oldest;
}

/* Receive a message that announces a reply. A plain thread does that itself, because it has no task that receives.
 * @return 0; -ETIMEDOUT; the connection's end is noted */
static int receive_once(struct tarn_rpc_connection *connection, uint64_t until_ns)
{
    struct tarn_fabric_message message;
    uint8_t nothing[RPC_MARK_BYTES];
    int error = tarn_fabric_receive(connection->fabric, nothing, sizeof(nothing), until_ns, &message);
    if (error == -ETIMEDOUT)
        return error;
    if (error == 0)
        error = rpc_connection_hear(connection, &message);
    while (error == 0 && is_oldest_replied(connection)) {
        error = tarn_fabric_receive(connection->fabric, nothing, sizeof(nothing), until_ns, &message);
        if (error == -ETIMEDOUT)
            return 0;
        if (error == 0)
            error = rpc_connection_hear(connection, &message);
    }
    if (error == -EPROTO)
        fabric_connection_end(connection->fabric, "calls", error);
    if (error != 0)
        rpc_connection_died(connection, error);
    return 0;
}

/* Wait for another task's round, or for a message. @return 0; -ETIMEDOUT; -ECANCELED */
static int wait_for_others(struct tarn_rpc_connection *connection, struct tarn_rpc_call *call,
                           uint64_t until_ns)
{
    return connection->sched == NULL ? receive_once(connection, until_ns)
                                     : park_task(connection, call, until_ns);
}

/* Pause after a round that brought nothing. @return 0; -ETIMEDOUT; -ECANCELED */
static int pause_between(struct tarn_rpc_connection *connection, struct tarn_rpc_call *call)
{
    struct rpc_caller *caller = &connection->caller;
    const uint64_t due_ns = rpc_round_due(connection), deadline_ns = deadline_of(call);
    const bool is_soon = due_ns == 0 || (connection->sched == NULL && rpc_round_needs_reads(caller) &&
                                         due_ns < task_now() + AWAKE_NS);
    if (!is_soon) {
        int error = wait_for_others(connection, call, base_min(due_ns, deadline_ns));
        return error == -ETIMEDOUT && due_ns < deadline_ns ? 0 : error;
    }
    if (++caller->idle_rounds % rpc_looks_at_once(caller) == 0 ||
        (connection->sched != NULL && task_sched_runnable(connection->sched))) {
        caller->has_pump = true;
        task_yield();
        caller->has_pump = false;
    }
    return deadline_ns != TASK_FOREVER && task_now() >= deadline_ns ? -ETIMEDOUT : 0;
}

static void wait_for(struct tarn_rpc_connection *connection, struct tarn_rpc_call *call)
{
    struct rpc_caller *caller = &connection->caller;
    while (!call->finished) {
        int error = 0;
        bool is_better = true;
        if (task_cancelled())
            error = -ECANCELED;
        else if (caller->pumping || caller->has_pump || !rpc_round_has_work(connection))
            error = wait_for_others(connection, call, deadline_of(call));
        else
            error = rpc_round_make(connection, deadline_of(call), &is_better);
        if (error == 0 && !is_better && !call->finished)
            error = pause_between(connection, call);
        if (error != 0)
            abandon_call(connection, call, error);
    }
}

void rpc_caller_hand_on(struct tarn_rpc_connection *connection)
{
    struct rpc_caller *caller = &connection->caller;
    if (caller->pumping || caller->has_pump || base_list_empty(&caller->parked) ||
        !rpc_round_has_work(connection))
        return;
    struct rpc_parked *next = base_container_of(base_list_first(&caller->parked), struct rpc_parked, link);
    caller->has_pump = next->is_pump = true;
    (void)task_wait_wake(&next->wait, 0);
}

int tarn_rpc_wait(struct tarn_rpc_connection *connection, struct tarn_rpc_call *calls, uint32_t count)
{
    int result = 0;
    for (uint32_t i = 0; i < count; i++) {
        wait_for(connection, &calls[i]);
        if (result == 0)
            result = calls[i].error;
    }
    rpc_caller_hand_on(connection);
    return result;
}

/* The earliest deadline of calls that have not ended. */
static uint64_t earliest_deadline(const struct rpc_calls *some, uint32_t count)
{
    uint64_t earliest_ns = TASK_FOREVER;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < some[i].count; k++) {
            if (!some[i].calls[k].finished)
                earliest_ns = base_min(earliest_ns, deadline_of(&some[i].calls[k]));
        }
    }
    return earliest_ns;
}

/* Make a round of each connection that has something due and no pump, all at once. @return whether calls have ended, or
 * began, and no deadline has passed */
static bool make_rounds(const struct rpc_calls *some, uint32_t count)
{
    const uint64_t until_ns = earliest_deadline(some, count);
    uint64_t begun = 0;
    bool is_better = false;
    int error = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct tarn_rpc_connection *connection = some[i].connection;
        if (!connection->caller.pumping && rpc_round_has_work(connection) && rpc_round_resume(connection))
            begun |= UINT64_C(1) << i;
    }
    for (uint32_t i = 0; i < count; i++) {
        bool one_is_better = false;
        int cut =
            (begun & UINT64_C(1) << i) == 0 ? 0 : rpc_round_end(some[i].connection, until_ns, &one_is_better);
        is_better |= one_is_better;
        error = error != 0 ? error : cut;
    }
    for (uint32_t i = 0; i < count; i++)
        rpc_caller_hand_on(some[i].connection); /* a task that is parked there may have to be the pump */
    return is_better && error == 0;
}

static bool have_ended(const struct rpc_calls *some, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < some[i].count; k++) {
            if (!some[i].calls[k].finished)
                return false;
        }
    }
    return true;
}

void rpc_wait_many(const struct rpc_calls *some, uint32_t count)
{
    base_assert(count <= RPC_WAIT_MANY_MAX);
    while (!have_ended(some, count) && !task_cancelled() && make_rounds(some, count))
        continue;
    for (uint32_t i = 0; i < count; i++) {
        if (tarn_rpc_wait(some[i].connection, some[i].calls, some[i].count) != 0)
            continue; /* each call has its own error */
    }
}

int tarn_rpc_call(struct tarn_rpc_connection *connection, struct tarn_rpc_call *call)
{
    tarn_rpc_post(connection, call, 1);
    return tarn_rpc_wait(connection, call, 1);
}

void tarn_rpc_call_stats(const struct tarn_rpc_connection *connection, struct tarn_rpc_call_stats *ret_stats)
{
    const struct rpc_adapt *adapt = &connection->caller.adapt;
    *ret_stats = connection->caller.stats;
    ret_stats->changes = adapt->changes;
    ret_stats->fetch_bytes = adapt->fetch_bytes;
    ret_stats->way = adapt->by_reply ? TARN_RPC_REPLY : TARN_RPC_FETCH;
}
