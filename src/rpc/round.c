/*
 * Rounds: what a caller posts with one doorbell and waits for together. Requests are WRITTEN, results READ, and callees
 * that do not look are notified. Which task makes rounds, and for how long, is caller.c's.
 */
#include "fabric/fabric.h"
#include "rpc/connection.h"
#include <errno.h>

#define PAUSE_SHARE    8 /* a pause is this part of the time waited so far */
#define PAUSE_NS_MAX   BASE_NS_PER_MS
#define ROUNDS_A_CLOCK 16 /* one of this many rounds is timed */

/* ---- requests ----------------------------------------------------------------------------------- */

/* The microseconds until a call's deadline, rounded up; 0: it has none. @param inout_now_ns  one time for the requests of a
 * round; 0: the clock was not read yet */
static uint32_t time_left(const struct tarn_rpc_call *call, uint64_t *inout_now_ns)
{
    if (call->deadline_ns == 0 || call->deadline_ns == TASK_FOREVER)
        return 0;
    if (*inout_now_ns == 0)
        *inout_now_ns = task_now();
    const uint64_t left_ns = base_max(call->deadline_ns, *inout_now_ns) - *inout_now_ns;
    return (uint32_t)base_min(left_ns / 1000 + 1, (uint64_t)UINT32_MAX);
}

static void build_request(struct tarn_rpc_connection *connection, struct rpc_slot *slot,
                          uint64_t *inout_now_ns, struct tarn_fabric_op *ret_op)
{
    struct rpc_caller *caller = &connection->caller;
    const struct rpc_geometry theirs = rpc_geometry_of_peer(&connection->geometry);
    const struct tarn_rpc_call *call = slot->call;
    const struct rpc_header header = {.sequence = slot->sequence,
                                      .bytes = call->request_bytes,
                                      .time = time_left(call, inout_now_ns),
                                      .epoch = call->epoch,
                                      .lease_ms = call->lease_ms,
                                      .word = call->method,
                                      .flags = slot->by_reply ? RPC_BY_REPLY : 0};
    void *request = (void *)(uintptr_t)call->request;
    if (!caller->reads_are_copies && call->request_bytes > 0)
        request = memcpy(slot->request, call->request, call->request_bytes);
    rpc_header_save(&header, request, slot->head);
    slot->iov[0] = (struct iovec){.iov_base = slot->head, .iov_len = RPC_HEADER_BYTES};
    slot->iov[1] = (struct iovec){.iov_base = request, .iov_len = call->request_bytes};
    *ret_op = (struct tarn_fabric_op){.kind = caller->notifies ? TARN_FABRIC_WRITE_NOTIFY : TARN_FABRIC_WRITE,
                                      .tag = RPC_TAG,
                                      .handle = &connection->peer,
                                      .offset = rpc_request_offset(&theirs, slot->sequence),
                                      .iov = slot->iov,
                                      .iov_count = call->request_bytes > 0 ? 2 : 1,
                                      .value = rpc_message_value(RPC_REQUEST_IS_THERE, 0)};
    if (caller->notifies)
        caller->stats.notified++;
}

/* The next operation of a round, which is about a slot. */
static struct tarn_fabric_op *next_op(struct rpc_caller *caller, const struct rpc_slot *slot)
{
    caller->slots_of_ops[caller->round.count] = (uint32_t)(slot - caller->slots);
    return &caller->ops[caller->round.count++];
}

/* Give the next slot to the first call that has none. @return false: there is no such call, or the slot is in use */
static bool begin_call(struct tarn_rpc_connection *connection, uint64_t *inout_now_ns)
{
    struct rpc_caller *caller = &connection->caller;
    struct tarn_rpc_call *call = caller->first;
    struct rpc_slot *slot = rpc_slot_of(connection, caller->next);
    if (call == NULL || slot->state != RPC_FREE)
        return false;
    caller->first = call->next;
    slot->sequence = call->sequence = caller->next++;
    slot->state = RPC_POSTED;
    slot->by_reply = caller->adapt.by_reply;
    slot->was_poked = caller->notifies;
    slot->has_header = slot->has_reply = false;
    slot->looks = slot->got = 0;
    slot->due_ns = 0;
    slot->call = call;
    build_request(connection, slot, inout_now_ns, next_op(caller, slot));
    return true;
}

/* ---- fetching ----------------------------------------------------------------------------------- */

/* The bytes of a result's body that a READ may fetch: as far as the call has room. */
static uint32_t room_of(const struct rpc_slot *slot)
{
    return slot->call != NULL ? slot->call->room : 0;
}

/* Where a READ leaves the body of a result. */
static uint8_t *result_of(const struct rpc_caller *caller, const struct rpc_slot *slot)
{
    return caller->reads_are_copies ? slot->call->result : slot->result;
}

/* Build a READ of the mark, the header and the expected part of the body; once the header is known, of the body's rest. */
static void build_fetch(struct tarn_rpc_connection *connection, struct rpc_slot *slot,
                        struct tarn_fabric_op *ret_op)
{
    struct rpc_caller *caller = &connection->caller;
    const struct rpc_geometry theirs = rpc_geometry_of_peer(&connection->geometry);
    uint64_t offset = rpc_result_offset(&theirs, slot->sequence);
    uint32_t count = 0, from = 0, bytes = base_min(caller->adapt.fetch_bytes, room_of(slot));
    if (slot->has_header) {
        from = slot->got;
        bytes = slot->answer.bytes - from;
        offset += sizeof(slot->head) + from;
        caller->stats.rests++;
    } else {
        slot->got = bytes;
        slot->iov[count++] = (struct iovec){.iov_base = slot->head, .iov_len = sizeof(slot->head)};
    }
    if (bytes > 0)
        slot->iov[count++] = (struct iovec){.iov_base = result_of(caller, slot) + from, .iov_len = bytes};
    *ret_op = (struct tarn_fabric_op){.kind = TARN_FABRIC_READ,
                                      .tag = RPC_TAG,
                                      .handle = &connection->peer,
                                      .offset = offset,
                                      .iov = slot->iov,
                                      .iov_count = count};
    caller->stats.reads++;
}

/* Build a READ of the mark alone, for a call whose result comes by reply. */
static void build_check(struct tarn_rpc_connection *connection, struct rpc_slot *slot,
                        struct tarn_fabric_op *ret_op)
{
    const struct rpc_geometry theirs = rpc_geometry_of_peer(&connection->geometry);
    slot->iov[0] = (struct iovec){.iov_base = slot->head, .iov_len = RPC_MARK_BYTES};
    *ret_op = (struct tarn_fabric_op){.kind = TARN_FABRIC_READ,
                                      .tag = RPC_TAG,
                                      .handle = &connection->peer,
                                      .offset = rpc_result_offset(&theirs, slot->sequence),
                                      .iov = slot->iov,
                                      .iov_count = 1};
    connection->caller.stats.reads++;
}

/* Build the message that has the callee look. */
static void build_poke(struct tarn_rpc_connection *connection, struct rpc_slot *slot,
                       struct tarn_fabric_op *ret_op)
{
    struct rpc_caller *caller = &connection->caller;
    *ret_op = (struct tarn_fabric_op){.kind = TARN_FABRIC_SEND, .tag = RPC_TAG};
    slot->must_poke = false;
    slot->was_poked = true;
    caller->pokes--;
    caller->stats.woken++;
}

/* Set the time of the next look, later each time. */
static void postpone_look(const struct rpc_caller *caller, struct rpc_slot *slot)
{
    const uint32_t looks = rpc_looks_at_once(caller);
    slot->has_header = false;
    if (++slot->looks < looks)
        return;
    const uint64_t now_ns = task_now();
    if (slot->looks == looks)
        slot->since_ns = now_ns;
    slot->due_ns = now_ns + base_min((now_ns - slot->since_ns) / PAUSE_SHARE, PAUSE_NS_MAX);
}

/* Have the next round notify the callee, if the mark that was READ says that it does not look by itself. */
static void poke_callee(struct rpc_caller *caller, struct rpc_slot *slot)
{
    if (slot->was_poked || slot->must_poke || base_load_le64(slot->head) != slot->sequence)
        return;
    slot->must_poke = true;
    caller->pokes++;
}

/* Take the mark that was READ. */
static void take_check(struct rpc_caller *caller, struct rpc_slot *slot)
{
    rpc_caller_check_no_more(caller, slot);
    poke_callee(caller, slot);
}

/* Judge the bytes that a READ has brought. */
static void take_fetched(struct tarn_rpc_connection *connection, struct rpc_slot *slot)
{
    struct rpc_caller *caller = &connection->caller;
    if (!slot->has_header) {
        const uint8_t *head = slot->head + RPC_MARK_BYTES;
        struct rpc_header header = {.sequence = rpc_header_sequence(head)};
        const bool is_there = header.sequence == slot->sequence;
        if (!is_there || !rpc_header_load(head, &header) ||
            header.bytes > connection->geometry.result_bytes) {
            if (is_there)
                caller->stats.unwhole++;
            else
                caller->stats.unready++;
            rpc_adapt_note_vain(&caller->adapt);
            postpone_look(caller, slot);
            poke_callee(caller, slot);
            return;
        }
        slot->answer = header;
        slot->has_header = true;
        if (slot->call == NULL || header.bytes > slot->call->room) {
            rpc_caller_finish_slot(connection, slot, -EMSGSIZE);
            return;
        }
        if (header.bytes > slot->got)
            return; /* the next round fetches the rest */
    }
    if (!rpc_body_is_whole(&slot->answer, result_of(caller, slot))) {
        caller->stats.unwhole++;
        postpone_look(caller, slot);
        return;
    }
    if (!caller->reads_are_copies && slot->answer.bytes > 0)
        memcpy(slot->call->result, slot->result, slot->answer.bytes);
    rpc_caller_finish_slot(connection, slot, 0);
}

/* ---- rounds ------------------------------------------------------------------------------------- */

static bool is_due(uint64_t due_ns, uint64_t *inout_now_ns)
{
    if (due_ns == 0)
        return true;
    if (*inout_now_ns == 0)
        *inout_now_ns = task_now();
    return due_ns <= *inout_now_ns;
}

/* Whether a slot needs a READ. @param ret_due_ns  when it is due */
static bool asks_for_read(const struct rpc_caller *caller, const struct rpc_slot *slot, uint64_t *ret_due_ns)
{
    *ret_due_ns = slot->by_reply ? caller->check_due_ns : slot->due_ns;
    return slot->state == RPC_SENT && (!slot->by_reply || slot->must_check);
}

bool rpc_round_needs_reads(const struct rpc_caller *caller)
{
    return caller->fetching > 0 || caller->abandoned > 0;
}

bool rpc_round_has_work(struct tarn_rpc_connection *connection)
{
    const struct rpc_caller *caller = &connection->caller;
    const bool is_stuck = caller->first != NULL && rpc_slot_of(connection, caller->next)->state != RPC_FREE;
    return caller->round.in_flight || caller->fetching > 0 || caller->checking > 0 || caller->pokes > 0 ||
           (caller->first != NULL && !is_stuck) || (is_stuck && caller->abandoned > 0);
}

/* Build the READ that a slot needs. */
static void build_read(struct tarn_rpc_connection *connection, struct rpc_slot *slot,
                       struct tarn_fabric_op *ret_op)
{
    if (slot->by_reply)
        build_check(connection, slot, ret_op);
    else
        build_fetch(connection, slot, ret_op);
}

/* Take a completed READ. */
static void take_read(struct tarn_rpc_connection *connection, struct rpc_slot *slot)
{
    if (!slot->by_reply)
        take_fetched(connection, slot);
    else if (slot->must_check) /* otherwise the result has come meanwhile */
        take_check(&connection->caller, slot);
}

/* Carry out a READ that is a copy, which completes at once. @return 0, or the error that ended the connection */
static int look_at_slot(struct tarn_rpc_connection *connection, struct rpc_slot *slot)
{
    struct tarn_fabric_op op;
    build_read(connection, slot, &op);
    int error = fabric_run(connection->fabric, &op, TARN_FOREVER);
    if (error == 0)
        take_read(connection, slot);
    return error;
}

/* Gather the messages and the READs that are due, one for a slot; READs that are copies are carried out at once. */
static void gather_reads(struct tarn_rpc_connection *connection, struct rpc_round *current)
{
    struct rpc_caller *caller = &connection->caller;
    uint64_t now_ns = 0;
    if (!rpc_round_needs_reads(caller) && caller->pokes == 0 &&
        !(caller->checking > 0 && is_due(caller->check_due_ns, &now_ns)))
        return;
    for (uint64_t sequence = caller->oldest; sequence < caller->next && current->error == 0; sequence++) {
        struct rpc_slot *slot = rpc_slot_of(connection, sequence);
        uint64_t due_ns;
        if (slot->must_poke) {
            build_poke(connection, slot, next_op(caller, slot));
        } else if (asks_for_read(caller, slot, &due_ns) && is_due(due_ns, &now_ns)) {
            current->has_reads = true;
            if (caller->reads_are_copies) {
                current->looks++;
                current->error = look_at_slot(connection, slot);
            } else {
                build_read(connection, slot, next_op(caller, slot));
            }
        }
    }
}

static void gather_requests(struct tarn_rpc_connection *connection)
{
    uint64_t now_ns = 0;
    while (connection->caller.round.count < connection->geometry.out && begin_call(connection, &now_ns))
        continue;
}

/* Take the completed WRITE of a request. @return 0, or the error that ended the connection */
static int take_sent(struct tarn_rpc_connection *connection, struct rpc_slot *slot)
{
    struct rpc_caller *caller = &connection->caller;
    slot->state = RPC_SENT;
    if (!slot->by_reply) {
        if (slot->call != NULL)
            caller->fetching++;
        else
            caller->abandoned++;
    } else if (slot->has_reply) {
        return rpc_caller_take_reply(connection, (uint32_t)(slot - caller->slots));
    } else if (!slot->was_poked) {
        const uint64_t now_ns = task_now();
        slot->must_check = true;
        caller->checking++;
        caller->check_due_ns = now_ns + RPC_CHECK_AFTER_NS;
        rpc_caller_note_time(connection, now_ns);
    }
    return 0;
}

/* Take the operations of a round. @return 0, or the error that ended the connection */
static int take_round(struct tarn_rpc_connection *connection, uint32_t count)
{
    struct rpc_caller *caller = &connection->caller;
    int error = 0;
    for (uint32_t i = 0; i < count && error == 0; i++) {
        struct rpc_slot *slot = &caller->slots[caller->slots_of_ops[i]];
        if (slot->state == RPC_FREE) /* its result has come by reply, or its call has failed */
            continue;
        if (caller->ops[i].kind == TARN_FABRIC_READ)
            take_read(connection, slot);
        else if (caller->ops[i].kind != TARN_FABRIC_SEND)
            error = take_sent(connection, slot);
    }
    return error;
}

/* Post all operations that are due. @return false: none is */
static bool begin_round(struct tarn_rpc_connection *connection)
{
    struct rpc_caller *caller = &connection->caller;
    const uint64_t rests = caller->stats.rests;
    const bool is_timed =
        (rpc_round_needs_reads(caller) || caller->checking > 0) && caller->rounds++ % ROUNDS_A_CLOCK == 0;
    struct rpc_round *current = &caller->round;
    *current = (struct rpc_round){
        .answered = caller->stats.calls, .posted = caller->next, .begin_ns = is_timed ? task_now() : 0};
    caller->pumping = true;
    gather_reads(connection, current);
    current->has_rests = caller->stats.rests != rests;
    if (current->error == 0)
        gather_requests(connection);
    current->in_flight = current->count > 0;
    if (current->in_flight)
        tarn_fabric_post(connection->fabric, caller->ops, current->count);
    caller->pumping = current->count + current->looks > 0;
    return caller->pumping;
}

/* Note a timed round as a READ's round trip, if it had READs and all of them were of the same kind. */
static void note_round_time(struct tarn_rpc_connection *connection)
{
    const struct rpc_round *current = &connection->caller.round;
    if (current->begin_ns == 0)
        return;
    if (current->has_reads && !current->has_rests)
        rpc_adapt_note_round_trip(&connection->caller.adapt,
                                  (task_now() - current->begin_ns) / base_max(current->looks, 1U));
    rpc_caller_note_time(connection, current->begin_ns);
}

/* Wait for the operations of a round. @return 0; -ETIMEDOUT, -ECANCELED: they stay in flight */
static int await_round(struct tarn_rpc_connection *connection, uint64_t until_ns)
{
    struct rpc_caller *caller = &connection->caller;
    struct rpc_round *current = &caller->round;
    if (!current->in_flight)
        return 0;
    int error = tarn_fabric_await(caller->ops, current->count, until_ns);
    if (error != 0) {
        current->begin_ns = 0;
        return error;
    }
    for (uint32_t i = 0; i < current->count && current->error == 0; i++)
        current->error = caller->ops[i].result;
    current->in_flight = false;
    return 0;
}

int rpc_round_end(struct tarn_rpc_connection *connection, uint64_t until_ns, bool *ret_is_better)
{
    struct rpc_caller *caller = &connection->caller;
    const struct rpc_round *current = &caller->round;
    int cut = await_round(connection, until_ns);
    int error = current->error;
    if (cut == 0 && error == 0) {
        note_round_time(connection);
        error = take_round(connection, current->count);
    }
    caller->pumping = false;
    if (error == 0)
        error = connection->error;
    if (error != 0)
        rpc_connection_died(connection, error);
    *ret_is_better = error != 0 || caller->stats.calls != current->answered ||
                     caller->next != current->posted || caller->pokes > 0;
    if (*ret_is_better)
        caller->idle_rounds = 0;
    return cut;
}

void rpc_round_detach(struct tarn_rpc_connection *connection)
{
    struct rpc_caller *caller = &connection->caller;
    for (uint32_t i = 0; i < caller->round.count && caller->round.in_flight; i++) {
        struct rpc_slot *slot = &caller->slots[caller->slots_of_ops[i]];
        const struct tarn_fabric_op *op = &caller->ops[i];
        if (!op->finished && op->iov_count == 2 && op->kind != TARN_FABRIC_READ &&
            slot->iov[1].iov_base != slot->request)
            slot->iov[1].iov_base = memcpy(slot->request, slot->iov[1].iov_base, slot->iov[1].iov_len);
    }
}

bool rpc_round_resume(struct tarn_rpc_connection *connection)
{
    struct rpc_caller *caller = &connection->caller;
    if (!caller->round.in_flight)
        return begin_round(connection);
    caller->pumping = true;
    return true;
}

int rpc_round_make(struct tarn_rpc_connection *connection, uint64_t until_ns, bool *ret_is_better)
{
    *ret_is_better = false;
    return rpc_round_resume(connection) ? rpc_round_end(connection, until_ns, ret_is_better) : 0;
}

uint64_t rpc_round_due(struct tarn_rpc_connection *connection)
{
    const struct rpc_caller *caller = &connection->caller;
    uint64_t due_ns = TASK_FOREVER;
    if (caller->pokes > 0)
        return 0;
    if (!rpc_round_needs_reads(caller))
        return caller->checking > 0 ? caller->check_due_ns : TASK_FOREVER;
    for (uint64_t sequence = caller->oldest; sequence < caller->next; sequence++) {
        const struct rpc_slot *slot = rpc_slot_of(connection, sequence);
        uint64_t slot_due_ns;
        if (asks_for_read(caller, slot, &slot_due_ns))
            due_ns = base_min(due_ns, slot_due_ns);
    }
    return due_ns;
}
