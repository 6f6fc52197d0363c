/*
 * Calls. A task that waits makes rounds: all requests and READs that are due are posted with one doorbell and waited for
 * together. If several tasks of a connection wait, one of them, the pump, makes the rounds; the others are parked until
 * their calls have ended, or until it is their turn to be the pump. A pump whose call's deadline passes leaves the round
 * in flight, for the next: no operation needs the memory of a call (rpc_slot.request, .result).
 */
#include "fabric/fabric.h"
#include "rpc/connection.h"
#include <errno.h>

#define LOOKS_AT_ONCE      16 /* READs without a pause between them, where they load a card */
#define LOOKS_AT_ONCE_COPY 64 /* the same, where READs are copies by the caller */
#define PAUSE_SHARE        8  /* a pause is this part of the time waited so far */
#define PAUSE_NS_MAX       BASE_NS_PER_MS
#define CHECK_AFTER_NS     20000 /* if a reply has not come by then, the mark is READ */
#define ROUNDS_A_CLOCK     16    /* one of this many rounds is timed */
#define AWAKE_NS           20000 /* a plain thread stays awake for shorter pauses, because a wake-up takes longer */

/* A task that sleeps until a call has ended. */
struct rpc_parked {
    struct base_list link; /* rpc_caller.parked */
    struct task_wait wait;
};

static struct rpc_slot *slot_of(struct tarn_rpc_connection *connection, uint64_t sequence)
{
    return &connection->caller.slots[rpc_slot_number(sequence, connection->geometry.out)];
}

static uint32_t looks_at_once(const struct rpc_caller *caller)
{
    return caller->reads_are_copies ? LOOKS_AT_ONCE_COPY : LOOKS_AT_ONCE;
}

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

/* Stop waiting for the mark of a slot's call. */
static void check_no_more(struct rpc_caller *caller, struct rpc_slot *slot)
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
    check_no_more(caller, slot);
    caller->pokes -= slot->must_poke;
    slot->must_poke = false;
    slot->state = RPC_FREE;
    slot->call = NULL;
    while (caller->oldest < caller->next && slot_of(connection, caller->oldest)->state == RPC_FREE)
        caller->oldest++;
}

static void tell_change(const struct tarn_rpc_connection *connection)
{
    const struct rpc_adapt *adapt = &connection->caller.adapt;
    base_debug(&connection->node->log, "calls are answered another way", "peer=%s by=%s fetch_bytes=%u",
               tarn_fabric_peer_name(connection->fabric), adapt->by_reply ? "reply" : "fetch",
               adapt->fetch_bytes);
}

/* Tell the adaptive choice the time. */
static void note_time(struct tarn_rpc_connection *connection, uint64_t now_ns)
{
    if (rpc_adapt_note_time(&connection->caller.adapt, now_ns))
        tell_change(connection);
}

/* Finish the call of a slot with its proven result. @param error  0, or why the result could not be taken */
static void finish_slot(struct tarn_rpc_connection *connection, struct rpc_slot *slot, int error)
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
    while (caller->first != NULL) {
        struct tarn_rpc_call *call = caller->first;
        caller->first = call->next;
        finish_call(caller, call, connection->error, false);
    }
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
        else if (caller->first == NULL)
            caller->first = caller->last = call;
        else
            caller->last = caller->last->next = call;
    }
}

/* The microseconds until a call's deadline, rounded up; 0: it has none. */
static uint32_t time_left(const struct tarn_rpc_call *call)
{
    if (call->deadline_ns == 0 || call->deadline_ns == TASK_FOREVER)
        return 0;
    const uint64_t now_ns = task_now();
    const uint64_t left_ns = call->deadline_ns > now_ns ? call->deadline_ns - now_ns : 0;
    return (uint32_t)base_min(left_ns / 1000 + 1, (uint64_t)UINT32_MAX);
}

static void build_request(struct tarn_rpc_connection *connection, struct rpc_slot *slot,
                          struct tarn_fabric_op *ret_op)
{
    struct rpc_caller *caller = &connection->caller;
    const struct rpc_geometry theirs = rpc_geometry_of_peer(&connection->geometry);
    const struct tarn_rpc_call *call = slot->call;
    const struct rpc_header header = {.sequence = slot->sequence,
                                      .bytes = call->request_bytes,
                                      .time = time_left(call),
                                      .epoch = call->epoch,
                                      .lease_ms = call->lease_ms,
                                      .word = call->method,
                                      .flags = slot->by_reply ? RPC_BY_REPLY : 0};
    void *request = (void *)(uintptr_t)call->request;
    if (slot->request != NULL && call->request_bytes > 0)
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

/* Give the next slot to the first call that has none. @return false: there is no such call, or the slot is in use */
static bool begin_call(struct tarn_rpc_connection *connection, struct tarn_fabric_op *ret_op)
{
    struct rpc_caller *caller = &connection->caller;
    struct tarn_rpc_call *call = caller->first;
    struct rpc_slot *slot = slot_of(connection, caller->next);
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
    build_request(connection, slot, ret_op);
    return true;
}

/* ---- fetching ----------------------------------------------------------------------------------- */

/* The bytes of a result's body that a READ may fetch: as far as the call has room. */
static uint32_t room_of(const struct rpc_slot *slot)
{
    return slot->call != NULL ? slot->call->room : 0;
}

/* Where a READ leaves the body of a result. */
static uint8_t *result_of(const struct rpc_slot *slot)
{
    return slot->result != NULL ? slot->result : slot->call->result;
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
        slot->iov[count++] = (struct iovec){.iov_base = result_of(slot) + from, .iov_len = bytes};
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
    const uint32_t looks = looks_at_once(caller);
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
    check_no_more(caller, slot);
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
            finish_slot(connection, slot, -EMSGSIZE);
            return;
        }
        if (header.bytes > slot->got)
            return; /* the next round fetches the rest */
    }
    if (!rpc_body_is_whole(&slot->answer, result_of(slot))) {
        caller->stats.unwhole++;
        postpone_look(caller, slot);
        return;
    }
    if (slot->result != NULL && slot->answer.bytes > 0)
        memcpy(slot->call->result, slot->result, slot->answer.bytes);
    finish_slot(connection, slot, 0);
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

/* Whether any slot needs READs. */
static bool needs_reads(const struct rpc_caller *caller)
{
    return caller->fetching > 0 || caller->abandoned > 0;
}

/* Whether a round would have something to do, now or later. */
static bool has_work(struct tarn_rpc_connection *connection)
{
    const struct rpc_caller *caller = &connection->caller;
    const bool is_stuck = caller->first != NULL && slot_of(connection, caller->next)->state != RPC_FREE;
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

/* The next operation of a round, which is about a slot. */
static struct tarn_fabric_op *next_op(struct rpc_caller *caller, const struct rpc_slot *slot)
{
    caller->slots_of_ops[caller->round.count] = (uint32_t)(slot - caller->slots);
    return &caller->ops[caller->round.count++];
}

/* Gather the messages and the READs that are due, one for a slot; READs that are copies are carried out at once. */
static void gather_reads(struct tarn_rpc_connection *connection, struct rpc_round *current)
{
    struct rpc_caller *caller = &connection->caller;
    uint64_t now_ns = 0;
    if (!needs_reads(caller) && caller->pokes == 0 &&
        !(caller->checking > 0 && is_due(caller->check_due_ns, &now_ns)))
        return;
    for (uint64_t sequence = caller->oldest; sequence < caller->next && current->error == 0; sequence++) {
        struct rpc_slot *slot = slot_of(connection, sequence);
        uint64_t due_ns;
        if (slot->must_poke) {
            build_poke(connection, slot, next_op(caller, slot));
        } else if (asks_for_read(caller, slot, &due_ns) && is_due(due_ns, &now_ns)) {
            current->has_reads = true;
            if (!caller->reads_are_copies)
                build_read(connection, slot, next_op(caller, slot));
            else
                current->error = look_at_slot(connection, slot);
            current->looks += caller->reads_are_copies;
        }
    }
}

static void gather_requests(struct tarn_rpc_connection *connection, struct rpc_round *current)
{
    struct rpc_caller *caller = &connection->caller;
    while (current->count < connection->geometry.out && begin_call(connection, &caller->ops[current->count]))
        caller->slots_of_ops[current->count++] = rpc_slot_number(caller->next - 1, connection->geometry.out);
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
        caller->check_due_ns = now_ns + CHECK_AFTER_NS;
        note_time(connection, now_ns);
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
        (needs_reads(caller) || caller->checking > 0) && caller->rounds++ % ROUNDS_A_CLOCK == 0;
    struct rpc_round *current = &caller->round;
    *current = (struct rpc_round){
        .answered = caller->stats.calls, .posted = caller->next, .begin_ns = is_timed ? task_now() : 0};
    caller->pumping = true;
    gather_reads(connection, current);
    current->has_rests = caller->stats.rests != rests;
    if (current->error == 0)
        gather_requests(connection, current);
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
    note_time(connection, current->begin_ns);
}

/* Wait for the operations of a round. @return 0; -ETIMEDOUT, -ECANCELED: they stay in flight */
static int await_round(struct tarn_rpc_connection *connection, uint64_t until_ns)
{
    struct rpc_caller *caller = &connection->caller;
    struct rpc_round *current = &caller->round;
    if (!current->in_flight)
        return 0;
    int error = fabric_ops_await(caller->ops, current->count, until_ns);
    if (error != 0 && !caller->reads_are_copies) {
        current->begin_ns = 0;
        return error;
    }
    /* A peer that takes no messages, in shared memory, where operations use the memory of calls: is given up. */
    error = tarn_fabric_wait(caller->ops, current->count, 0);
    if (current->error == 0)
        current->error = error;
    current->in_flight = false;
    return 0;
}

/* End a round and take its results. @param ret_is_better  whether a call has ended, or began
 * @return 0; -ETIMEDOUT, -ECANCELED: it is in flight */
static int end_round(struct tarn_rpc_connection *connection, uint64_t until_ns, bool *ret_is_better)
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
    *ret_is_better =
        error != 0 || caller->stats.calls != current->answered || caller->next != current->posted;
    if (*ret_is_better)
        caller->idle_rounds = 0;
    return cut;
}

/* Go on with the round that is in flight, or begin one. @return whether there is one */
static bool resume_round(struct tarn_rpc_connection *connection)
{
    struct rpc_caller *caller = &connection->caller;
    if (!caller->round.in_flight)
        return begin_round(connection);
    caller->pumping = true;
    return true;
}

/* Make one round. @return as end_round() */
static int make_round(struct tarn_rpc_connection *connection, uint64_t until_ns, bool *ret_is_better)
{
    *ret_is_better = false;
    return resume_round(connection) ? end_round(connection, until_ns, ret_is_better) : 0;
}

/* ---- replies ------------------------------------------------------------------------------------ */

/* Note that a call was answered: so the callee has taken all requests up to that one. */
static void note_taken(struct tarn_rpc_connection *connection, uint64_t sequence)
{
    struct rpc_caller *caller = &connection->caller;
    for (uint64_t i = sequence; i >= caller->oldest && slot_of(connection, i)->must_check; i--)
        check_no_more(caller, slot_of(connection, i));
    if (caller->checking > 0)
        caller->check_due_ns = task_now() + CHECK_AFTER_NS;
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
    finish_slot(connection, slot, fits ? 0 : -EMSGSIZE);
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
    while (caller->reads_are_copies && caller->pumping && !call->finished)
        (void)task_sleep(1000); /* the round under way may use the call's memory */
    if (call->finished)
        return;
    if (call->sequence != 0) {
        struct rpc_slot *slot = slot_of(connection, call->sequence);
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

/* The time at which the next READ is due. @return 0: now; TASK_FOREVER: none is */
static uint64_t next_due(struct tarn_rpc_connection *connection)
{
    const struct rpc_caller *caller = &connection->caller;
    uint64_t due_ns = TASK_FOREVER;
    if (caller->pokes > 0)
        return 0;
    if (!needs_reads(caller))
        return caller->checking > 0 ? caller->check_due_ns : TASK_FOREVER;
    for (uint64_t sequence = caller->oldest; sequence < caller->next; sequence++) {
        const struct rpc_slot *slot = slot_of(connection, sequence);
        uint64_t slot_due_ns;
        if (asks_for_read(caller, slot, &slot_due_ns))
            due_ns = base_min(due_ns, slot_due_ns);
    }
    return due_ns;
}

/* Sleep until the call has ended, or until this task is to be the pump. @return 0; -ETIMEDOUT; -ECANCELED */
static int park_task(struct tarn_rpc_connection *connection, struct tarn_rpc_call *call, uint64_t until_ns)
{
    struct rpc_parked parked;
    task_wait_init(&parked.wait);
    base_list_push_back(&connection->caller.parked, &parked.link);
    call->waiter = &parked;
    int error = task_wait_park(&parked.wait, until_ns);
    call->waiter = NULL;
    base_list_remove(&parked.link);
    return error;
}

/* Whether the oldest call's reply was written: then its message has come, or is about to come. */
static bool is_oldest_replied(struct tarn_rpc_connection *connection)
{
    const uint64_t oldest = connection->caller.oldest;
    const struct rpc_slot *slot = slot_of(connection, oldest);
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
    const uint64_t due_ns = next_due(connection), deadline_ns = deadline_of(call);
    const bool is_soon =
        due_ns == 0 || (connection->sched == NULL && needs_reads(caller) && due_ns < task_now() + AWAKE_NS);
    if (!is_soon) {
        int error = wait_for_others(connection, call, base_min(due_ns, deadline_ns));
        return error == -ETIMEDOUT && due_ns < deadline_ns ? 0 : error;
    }
    if (++caller->idle_rounds % looks_at_once(caller) == 0 ||
        (connection->sched != NULL && task_sched_runnable(connection->sched)))
        task_yield();
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
        else if (caller->pumping || !has_work(connection))
            error = wait_for_others(connection, call, deadline_of(call));
        else
            error = make_round(connection, deadline_of(call), &is_better);
        if (error == 0 && !is_better && !call->finished)
            error = pause_between(connection, call);
        if (error != 0)
            abandon_call(connection, call, error);
    }
}

void rpc_caller_hand_on(struct tarn_rpc_connection *connection)
{
    struct rpc_caller *caller = &connection->caller;
    if (caller->pumping || base_list_empty(&caller->parked) || !has_work(connection))
        return;
    struct rpc_parked *next = base_container_of(base_list_first(&caller->parked), struct rpc_parked, link);
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
        if (!connection->caller.pumping && has_work(connection) && resume_round(connection))
            begun |= UINT64_C(1) << i;
    }
    for (uint32_t i = 0; i < count; i++) {
        bool one_is_better = false;
        int cut =
            (begun & UINT64_C(1) << i) == 0 ? 0 : end_round(some[i].connection, until_ns, &one_is_better);
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
