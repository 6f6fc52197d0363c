/* Requests: finding and proving them, running methods, answering. The order in which connections are looked at is
 * worker.c's. */
#include "fabric/fabric.h"
#include "rpc/connection.h"
#include <errno.h>

#define BURST          16 /* the most requests of one connection before the next one's turn */
#define UNWHOLE_NS_MAX BASE_NS_PER_SECOND
#define SHORTS_A_CLOCK 16 /* one of this many short methods is timed */

static struct rpc_incoming *slot_of(const struct tarn_rpc_connection *connection, uint64_t sequence)
{
    return &connection->callee.slots[rpc_slot_number(sequence, connection->geometry.in)];
}

/* ---- the mark ----------------------------------------------------------------------------------- */

bool rpc_callee_has_next(const struct tarn_rpc_connection *connection)
{
    const uint64_t next = connection->callee.next;
    return tarn_fabric_mem_load64(connection->region, rpc_request_offset(&connection->geometry, next)) ==
           next;
}

bool rpc_callee_mark(struct tarn_rpc_connection *connection)
{
    const uint64_t next = connection->callee.next;
    if (connection->callee.marked != next) {
        tarn_fabric_mem_store64(connection->region, rpc_result_offset(&connection->geometry, next), next);
        connection->callee.marked = next;
    }
    tarn_fabric_mem_fence(); /* if the look below does not find a client's request, the client will see the mark */
    return rpc_callee_has_next(connection);
}

void rpc_callee_unmark(struct tarn_rpc_connection *connection)
{
    const uint64_t next = connection->callee.next;
    if (connection->callee.marked == next)
        tarn_fabric_mem_store64(connection->region, rpc_result_offset(&connection->geometry, next), 0);
    connection->callee.marked = 0;
}

/* ---- answering ---------------------------------------------------------------------------------- */

static void post_reply(struct rpc_incoming *incoming, uint64_t bytes)
{
    struct tarn_rpc_connection *connection = incoming->connection;
    const struct rpc_geometry theirs = rpc_geometry_of_peer(&connection->geometry);
    incoming->iov = (struct iovec){.iov_base = incoming->answer, .iov_len = bytes};
    incoming->op = (struct tarn_fabric_op){
        .kind = TARN_FABRIC_WRITE_NOTIFY,
        .tag = RPC_TAG,
        .handle = &connection->peer,
        .offset = rpc_reply_offset(&theirs, incoming->sequence),
        .iov = &incoming->iov,
        .iov_count = 1,
        .value = rpc_message_value(RPC_RESULT_IS_THERE,
                                   rpc_slot_number(incoming->sequence, connection->geometry.in))};
    incoming->is_posted = true;
    tarn_fabric_post(connection->fabric, &incoming->op, 1);
}

static void count_answer(struct rpc_worker *worker, const struct rpc_incoming *incoming, int status,
                         uint64_t service_ns)
{
    rpc_count(incoming->by_reply ? &worker->counters.replied : &worker->counters.fetched, 1);
    if (incoming->method == NULL)
        return;
    struct rpc_method_counters *counters =
        &worker->methods[incoming->method - incoming->connection->callee.service->methods];
    rpc_count(&counters->calls, 1);
    rpc_count(&counters->errors, status != 0);
    rpc_count(&counters->service_ns, service_ns);
}

static void answer_request(struct rpc_incoming *incoming, int status, uint64_t service_ns)
{
    struct tarn_rpc_connection *connection = incoming->connection;
    struct rpc_worker *worker = connection->worker;
    const struct tarn_rpc_request *request = &incoming->request;
    const struct rpc_header header = {.sequence = incoming->sequence,
                                      .bytes = request->result_bytes,
                                      .time = (uint32_t)base_min(service_ns, (uint64_t)UINT32_MAX),
                                      .epoch = request->epoch,
                                      .lease_ms = request->lease_ms,
                                      .word = (uint32_t)status,
                                      .flags = connection->is_watched ? RPC_WATCHED : 0};
    base_assert(request->result_bytes <= request->room);
    rpc_header_save(&header, request->result, incoming->answer);
    incoming->is_running = false;
    if (incoming->by_reply)
        post_reply(incoming, RPC_HEADER_BYTES + request->result_bytes);
    else
        tarn_fabric_mem_copy_in(connection->region,
                                rpc_result_offset(&connection->geometry, incoming->sequence) + RPC_MARK_BYTES,
                                incoming->answer, RPC_HEADER_BYTES + request->result_bytes);
    if (worker != NULL)
        count_answer(worker, incoming, status, service_ns);
}

/* ---- running ------------------------------------------------------------------------------------ */

static int run_method(struct rpc_incoming *incoming)
{
    return incoming->method->function(incoming->connection->callee.service->arg, &incoming->request);
}

/* Run a method, unless its deadline has passed while it waited for its turn. Short methods never wait. */
static int run_in_time(struct rpc_incoming *incoming)
{
    if (incoming->request.deadline_ns == TASK_FOREVER || task_now() < incoming->request.deadline_ns)
        return run_method(incoming);
    if (incoming->connection->worker != NULL)
        rpc_count(&incoming->connection->worker->counters.late, 1);
    return -ETIMEDOUT;
}

/* Run a short method, and time one of several: reading the clock takes as long as the method. */
static void run_short(struct rpc_incoming *incoming)
{
    struct rpc_worker *worker = incoming->connection->worker;
    uint64_t service_ns;
    int status;
    if (worker == NULL || worker->shorts++ % SHORTS_A_CLOCK == 0) {
        uint64_t begin_ns = task_now();
        status = run_method(incoming);
        service_ns = task_now() - begin_ns;
        if (worker != NULL)
            worker->short_ns = service_ns;
    } else {
        service_ns = worker->short_ns;
        status = run_method(incoming);
    }
    answer_request(incoming, status, service_ns);
}

static void run_task(void *arg)
{
    struct rpc_incoming *incoming = arg;
    struct tarn_rpc_connection *connection = incoming->connection;
    int status = run_in_time(incoming);
    answer_request(incoming, status, task_now() - incoming->taken_ns);
    connection->callee.running--;
    if (connection->worker != NULL)
        connection->worker->running--;
}

static const struct tarn_rpc_method *find_method(const struct tarn_rpc_connection *connection,
                                                 uint32_t number)
{
    const struct tarn_rpc_service *service = connection->callee.service;
    if (service == NULL || number >= service->count || service->methods[number].function == NULL)
        return NULL;
    return &service->methods[number];
}

static void start_request(struct rpc_incoming *incoming)
{
    struct tarn_rpc_connection *connection = incoming->connection;
    if (incoming->method == NULL) {
        answer_request(incoming, -ENOSYS, 0);
        return;
    }
    if (incoming->method->is_short) {
        run_short(incoming);
        return;
    }
    incoming->taken_ns = task_now();
    connection->callee.running++;
    if (connection->worker != NULL)
        connection->worker->running++;
    int error = task_spawn(task_sched_self(), &connection->callee.methods, "rpc-method", run_task, incoming);
    if (error == 0)
        return;
    connection->callee.running--;
    if (connection->worker != NULL)
        connection->worker->running--;
    answer_request(incoming, -EBUSY, 0);
}

/* ---- taking ------------------------------------------------------------------------------------- */

/* End a connection whose next request has been incomplete for too long. */
static void wait_for_rest(struct tarn_rpc_connection *connection)
{
    struct rpc_callee *callee = &connection->callee;
    const uint64_t now_ns = task_now();
    if (connection->worker != NULL)
        rpc_count(&connection->worker->counters.unwhole, 1);
    if (callee->unwhole_since_ns == 0)
        callee->unwhole_since_ns = now_ns;
    else if (now_ns - callee->unwhole_since_ns > UNWHOLE_NS_MAX && connection->error == 0) {
        connection->error = -EPROTO; /* the task that receives finds the error, and frees the connection */
        fabric_connection_end(connection->fabric, "a request does not become whole", -EPROTO);
    }
}

/* Copy the next request, and prove the copy. */
static bool copy_out(struct tarn_rpc_connection *connection, struct rpc_incoming *incoming,
                     struct rpc_header *ret_header)
{
    const uint64_t next = connection->callee.next;
    const uint64_t offset = rpc_request_offset(&connection->geometry, next);
    uint8_t head[RPC_HEADER_BYTES];
    tarn_fabric_mem_copy_out(connection->region, offset, head, sizeof(head));
    if (!rpc_header_load(head, ret_header) || ret_header->sequence != next ||
        ret_header->bytes > connection->geometry.request_bytes)
        return false;
    tarn_fabric_mem_copy_out(connection->region, offset + RPC_HEADER_BYTES, incoming->data,
                             ret_header->bytes);
    return rpc_body_is_whole(ret_header, incoming->data);
}

/* Count a change of the way in which the caller wants its results. */
static void note_way(const struct rpc_incoming *incoming)
{
    struct tarn_rpc_connection *connection = incoming->connection;
    if (incoming->sequence > 1 && incoming->by_reply != connection->callee.by_reply &&
        connection->worker != NULL)
        rpc_count(&connection->worker->counters.changes, 1);
    connection->callee.by_reply = incoming->by_reply;
}

static void fill_header(struct rpc_incoming *incoming, const struct rpc_header *header)
{
    const bool is_short = incoming->method != NULL && incoming->method->is_short;
    const uint64_t left_ns = header->time * UINT64_C(1000);
    incoming->sequence = header->sequence;
    incoming->by_reply = (header->flags & RPC_BY_REPLY) != 0;
    incoming->is_running = true;
    incoming->request = (struct tarn_rpc_request){
        .connection = incoming->connection,
        .data = incoming->data,
        .bytes = header->bytes,
        .room = incoming->connection->geometry.result_bytes,
        .result = incoming->answer + RPC_HEADER_BYTES,
        .deadline_ns = header->time == 0 || is_short ? TASK_FOREVER : task_now() + left_ns,
        .epoch = header->epoch,
        .lease_ms = header->lease_ms,
    };
}

/* Whether the slot's last method has ended and its reply is no longer in flight; an honest peer waits for that. */
static bool is_slot_free(struct rpc_incoming *incoming)
{
    if (incoming->is_running || (incoming->is_posted && !tarn_fabric_test(&incoming->op)))
        return false;
    incoming->is_posted = false;
    return true;
}

/* @return whether a request was taken */
static bool take_request(struct tarn_rpc_connection *connection, bool *ret_is_left)
{
    struct rpc_callee *callee = &connection->callee;
    struct rpc_incoming *incoming = slot_of(connection, callee->next);
    struct rpc_worker *worker = connection->worker;
    struct rpc_header header;
    *ret_is_left = rpc_callee_has_next(connection);
    if (!*ret_is_left || !is_slot_free(incoming))
        return false;
    if (!copy_out(connection, incoming, &header)) {
        wait_for_rest(connection);
        return false;
    }
    incoming->method = find_method(connection, header.word);
    const bool needs_task = incoming->method != NULL && !incoming->method->is_short;
    if (needs_task && worker != NULL && worker->running >= worker->running_max)
        return false; /* the request waits in its slot */
    callee->unwhole_since_ns = 0;
    callee->next++;
    fill_header(incoming, &header);
    note_way(incoming);
    start_request(incoming);
    return true;
}

struct rpc_found rpc_callee_serve(struct tarn_rpc_connection *connection)
{
    struct rpc_found found = {0};
    if (connection->error != 0)
        return found;
    while (found.taken < BURST && take_request(connection, &found.is_left))
        found.taken++;
    if (found.taken > 0) {
        connection->is_used = true;
        if (connection->worker != NULL)
            rpc_count(&connection->worker->counters.requests, found.taken);
    }
    return found;
}
