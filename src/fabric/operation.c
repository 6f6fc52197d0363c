/* Operations: checks, posting, waiting for them, and counting. */
#include "fabric/bell.h"
#include "fabric/fabric_internal.h"
#include <errno.h>
#include <string.h>

#define WORD_BYTES 8

static const char *op_name(const struct tarn_fabric_op *op)
{
    static const char *const names[TARN_FABRIC_OP_KINDS] = {"READ", "WRITE", "notified WRITE",
                                                            "CAS",  "FAA",   "SEND"};
    if (op->kind == TARN_FABRIC_READ && op->whole)
        return "READ of a whole word";
    return (unsigned)op->kind < TARN_FABRIC_OP_KINDS ? names[op->kind] : "unknown";
}

/* Add to a counter, which has one writer and any number of readers. */
static void count_more(uint64_t *counter, uint64_t more)
{
    __atomic_store_n(counter, *counter + more, __ATOMIC_RELAXED);
}

/*
 * Check an operation that asks to be whole. Where a device may take a word in parts, nothing else will do: an FAA of 0
 * needs another right, and could lose what the owner stores meanwhile.
 */
static int check_whole(const struct tarn_fabric *fabric, const struct tarn_fabric_op *op)
{
    if (op->kind != TARN_FABRIC_READ || op->iov_count != 1 || op->iov->iov_len != WORD_BYTES ||
        !base_is_aligned(op->offset, WORD_BYTES))
        return -EINVAL;
    const bool is_bulk = (op->handle->rights & TARN_FABRIC_BULK) != 0;
    return fabric->info.whole_reads && !is_bulk ? 0 : -EOPNOTSUPP;
}

/* Check an operation. Lengths may come from a wire, so nothing is asserted. */
static FABRIC_INLINE int check_op(const struct tarn_fabric *fabric, struct tarn_fabric_op *op)
{
    bool atomic = op->kind == TARN_FABRIC_CAS || op->kind == TARN_FABRIC_FAA;
    if ((unsigned)op->kind >= TARN_FABRIC_OP_KINDS || op->tag >= TARN_FABRIC_TAGS_MAX ||
        (op->handle == NULL) != (op->kind == TARN_FABRIC_SEND))
        return -EINVAL;
    if (atomic) {
        op->bytes = WORD_BYTES;
        if (op->iov_count != 0 || op->whole || !base_is_aligned(op->offset, WORD_BYTES))
            return -EINVAL;
        return fabric->info.atomics == TARN_FABRIC_ATOMICS_NONE ? -EOPNOTSUPP : 0;
    }
    if (op->iov_count > TARN_FABRIC_IOV_MAX)
        return -EINVAL;
    op->bytes = 0;
    for (uint32_t i = 0; i < op->iov_count; i++) {
        if (op->iov[i].iov_len > TARN_FABRIC_BYTES_MAX - op->bytes)
            return -EINVAL;
        op->bytes += op->iov[i].iov_len;
    }
    return base_unlikely(op->whole) ? check_whole(fabric, op) : 0;
}

void fabric_op_copy(const struct tarn_fabric_op *op, uint64_t at, uint8_t *buffer, uint64_t bytes,
                    bool scatter)
{
    for (uint32_t i = 0; bytes > 0 && i < op->iov_count; i++) {
        const struct iovec *vector = &op->iov[i];
        if (at >= vector->iov_len) {
            at -= vector->iov_len;
            continue;
        }
        uint64_t piece = base_min(vector->iov_len - at, bytes);
        uint8_t *memory = (uint8_t *)vector->iov_base + at;
        if (scatter)
            memcpy(memory, buffer, piece);
        else
            memcpy(buffer, memory, piece);
        buffer += piece;
        bytes -= piece;
        at = 0;
    }
}

void fabric_op_finish(struct tarn_fabric_op *op, int32_t result)
{
    struct tarn_fabric_connection *connection = op->connection;
    struct tarn_fabric_counters *counters =
        &connection->counters[op->tag < TARN_FABRIC_TAGS_MAX ? op->tag : 0];
    base_assert(!op->finished);
    op->finished = true;
    op->result = result;
    if (base_likely(result == 0)) {
        count_more(&counters->operations[op->kind], 1);
        count_more(&counters->bytes[op->kind], op->bytes);
        if (base_unlikely(op->copied_bytes > 0))
            count_more(&counters->copied_bytes, op->copied_bytes);
        return;
    }
    count_more(&counters->failed, 1);
    if (result == -EACCES)
        count_more(&counters->refused, 1);
    (void)fabric_connection_fail(connection, op_name(op), result);
}

/* Post operations. Called by the connection's user. */
static void post_ops(struct tarn_fabric_connection *connection, struct tarn_fabric_op *ops, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct tarn_fabric_op *op = &ops[i];
        op->connection = connection;
        op->finished = false;
        op->trip = false;
        op->copied_bytes = 0;
        int error = fabric_error_of(connection);
        if (error == 0)
            error = check_op(connection->fabric, op);
        if (base_unlikely(error != 0))
            fabric_op_finish(op, error);
        else
            connection->fabric->provider->post(connection->state, op);
    }
    if (connection->fabric->provider->posted != NULL)
        connection->fabric->provider->posted(connection->state);
    if (base_unlikely(fabric_error_of(connection) != 0))
        connection->fabric->provider->fail(connection->state);
}

void tarn_fabric_post(struct tarn_fabric_connection *connection, struct tarn_fabric_op *ops, uint32_t count)
{
    if (fabric_needs_proxy(connection))
        (void)fabric_proxy((struct fabric_call){
            .kind = FABRIC_CALL_POST, .connection = connection, .ops = ops, .count = count});
    else
        post_ops(connection, ops, count);
}

/* Wait for one operation. @return 0: it has completed, in whatever way; -ETIMEDOUT, -ECANCELED: it stays posted */
static int await_op(struct tarn_fabric_op *op, uint64_t deadline_ns)
{
    struct tarn_fabric_connection *connection = op->connection;
    base_assert(connection->sched == fabric_user_self());
    return connection->fabric->provider->wait(connection->state, op, deadline_ns);
}

/* The same; if the wait is cut short, its connection is given up. */
static void wait_for(struct tarn_fabric_op *op, uint64_t deadline_ns)
{
    struct tarn_fabric_connection *connection = op->connection;
    int error = await_op(op, deadline_ns);
    if (error == 0)
        return;
    (void)fabric_connection_fail(connection, op_name(op), error);
    connection->fabric->provider->fail(connection->state);
}

bool tarn_fabric_test(struct tarn_fabric_op *op)
{
    const struct fabric_provider *provider = op->connection->fabric->provider;
    if (fabric_needs_proxy(op->connection))
        return fabric_proxy((struct fabric_call){
                   .kind = FABRIC_CALL_TEST, .connection = op->connection, .ops = op}) != 0;
    if (!op->finished && provider->progress != NULL)
        provider->progress(op->connection->state);
    return op->finished;
}

static int wait_for_one(struct tarn_fabric_op *op, uint64_t deadline_ns)
{
    if (!op->finished)
        wait_for(op, deadline_ns);
    base_assert(op->finished);
    return op->result;
}

/*
 * Count the round trips of a wait. Those of one connection's operations are one after the other, those of several
 * connections at the same time; operations of one connection stand side by side.
 */
static void count_trips(const struct tarn_fabric_op *ops, uint32_t count)
{
    uint32_t trips = 1, most = 1;
    for (uint32_t i = 1; i < count; i++) {
        trips = ops[i].connection != ops[i - 1].connection ? 1 : trips + (ops[i].trip ? 1 : 0);
        most = base_max(most, trips);
    }
    count_more(&ops->connection->counters[ops->tag < TARN_FABRIC_TAGS_MAX ? ops->tag : 0].waits, most);
}

/* How many operations, the first of some, are of one scheduler's connections, which a plain thread has wait for them. */
static uint32_t count_for_proxy(const struct tarn_fabric_op *ops, uint32_t count)
{
    const struct task_sched *sched = ops[0].connection->sched;
    uint32_t n = 0;
    while (sched != NULL && n < count && ops[n].connection->sched == sched)
        n++;
    return n;
}

/*
 * Wait for all operations.
 *
 * @param gives_up  what has not completed when a wait is cut short is given up, and the result is the first error of an
 *                  operation; otherwise it is that of a wait, which is the last then
 */
static FABRIC_INLINE int wait_for_all(struct tarn_fabric_op *ops, uint32_t count, uint64_t deadline_ns,
                                      bool gives_up)
{
    const bool is_thread = task_is_thread();
    uint32_t counted = 0; /* operations at the beginning for which no other task waits, and counts */
    int result = 0;
    for (uint32_t i = 0, n; i < count && (gives_up || result == 0); i += base_max(n, 1U)) {
        int error = 0;
        n = is_thread ? count_for_proxy(&ops[i], count - i) : 0;
        counted += n == 0 && counted == i ? 1 : 0;
        if (n > 0)
            error = fabric_proxy((struct fabric_call){.kind = gives_up ? FABRIC_CALL_WAIT : FABRIC_CALL_AWAIT,
                                                      .connection = ops[i].connection,
                                                      .ops = &ops[i],
                                                      .count = n,
                                                      .deadline_ns = deadline_ns});
        else if (gives_up)
            error = wait_for_one(&ops[i], deadline_ns);
        else if (!ops[i].finished)
            error = await_op(&ops[i], deadline_ns);
        if (result == 0)
            result = error;
    }
    if (counted > 0 && (gives_up || result == 0))
        count_trips(ops, counted);
    return result;
}

int tarn_fabric_wait(struct tarn_fabric_op *ops, uint32_t count, uint64_t deadline_ns)
{
    return wait_for_all(ops, count, deadline_ns, true);
}

int tarn_fabric_await(struct tarn_fabric_op *ops, uint32_t count, uint64_t deadline_ns)
{
    return wait_for_all(ops, count, deadline_ns, false);
}

/* Whether an operation is the first of some that are side by side and of one connection. */
static bool begins_run(struct tarn_fabric_op *const *ops, uint32_t i)
{
    return i == 0 || ops[i]->connection != ops[i - 1]->connection;
}

/* Find an operation that has completed. @return its place; `count`: none has */
static uint32_t find_finished(struct tarn_fabric_op *const *ops, uint32_t count)
{
    uint32_t i = 0;
    while (i < count && !(begins_run(ops, i) ? tarn_fabric_test(ops[i]) : ops[i]->finished))
        i++;
    return i;
}

/* Sleep until operations of one of the connections may have completed. @return 0; -ETIMEDOUT; -ECANCELED */
static int sleep_for_any(struct tarn_fabric_op *const *ops, uint32_t count, uint64_t deadline_ns)
{
    struct fabric_watch watches[TARN_FABRIC_AWAIT_ANY_MAX];
    struct task_wait wait;
    bool is_ready = false;
    task_wait_init(&wait);
    for (uint32_t i = 0; i < count; i++) {
        const struct tarn_fabric_connection *connection = ops[i]->connection;
        watches[i].wait = &wait;
        if (begins_run(ops, i))
            is_ready |= connection->fabric->provider->watch(connection->state, &watches[i]);
    }
    if (is_ready)
        (void)task_wait_wake(&wait, 0); /* end the wait before it begins */
    int error = task_wait_park(&wait, deadline_ns);
    for (uint32_t i = 0; i < count; i++) {
        if (begins_run(ops, i))
            fabric_bell_remove(&watches[i]);
    }
    return error;
}

int tarn_fabric_await_any(struct tarn_fabric_op *const *ops, uint32_t count, uint64_t deadline_ns,
                          uint32_t *ret_index)
{
    uint32_t found;
    int error = 0;
    if (count == 0 || count > TARN_FABRIC_AWAIT_ANY_MAX)
        return -EINVAL;
    for (uint32_t i = 1; i < count; i++) {
        if (ops[i]->connection->sched != ops[0]->connection->sched)
            return -EINVAL;
    }
    if (fabric_needs_proxy(ops[0]->connection))
        return fabric_proxy((struct fabric_call){.kind = FABRIC_CALL_AWAIT_ANY,
                                                 .connection = ops[0]->connection,
                                                 .any_ops = ops,
                                                 .count = count,
                                                 .deadline_ns = deadline_ns,
                                                 .ret_index = ret_index});
    while ((found = find_finished(ops, count)) == count && error == 0)
        error = sleep_for_any(ops, count, deadline_ns);
    if (found == count)
        return error;
    count_trips(ops[found], 1);
    *ret_index = found;
    return 0;
}

int tarn_fabric_receive(struct tarn_fabric_connection *connection, void *data, uint32_t room,
                        uint64_t deadline_ns, struct tarn_fabric_message *ret_message)
{
    if (fabric_needs_proxy(connection))
        return fabric_proxy((struct fabric_call){.kind = FABRIC_CALL_RECEIVE,
                                                 .connection = connection,
                                                 .data = data,
                                                 .room = room,
                                                 .deadline_ns = deadline_ns,
                                                 .ret_message = ret_message});
    return connection->fabric->provider->receive(connection->state, data, room, deadline_ns, ret_message);
}

/* ---- in one call -------------------------------------------------------------------------------- */

static __attribute__((noinline)) int post_and_wait(struct tarn_fabric_connection *connection,
                                                   struct tarn_fabric_op *op, uint64_t deadline_ns)
{
    if (fabric_needs_proxy(connection))
        return fabric_proxy((struct fabric_call){.kind = FABRIC_CALL_POST_AND_WAIT,
                                                 .connection = connection,
                                                 .ops = op,
                                                 .deadline_ns = deadline_ns});
    post_ops(connection, op, 1);
    count_trips(op, 1);
    return wait_for_one(op, deadline_ns);
}

/* Complete an operation by the provider's run(), if it has one that can: that leaves nothing to poll. @param trips  that this is */
static FABRIC_INLINE bool try_op(struct tarn_fabric_connection *connection, struct tarn_fabric_op *op,
                                 enum tarn_fabric_op_kind kind, uint8_t tag, uint64_t bytes, uint64_t trips)
{
    const struct fabric_provider *provider = connection->fabric->provider;
    bool may_run =
        !fabric_needs_proxy(connection) && provider->run != NULL && fabric_error_of(connection) == 0;
    if (base_unlikely(!may_run || check_op(connection->fabric, op) != 0 ||
                      !provider->run(connection->state, op)))
        return false;
    struct tarn_fabric_counters *counters = &connection->counters[tag];
    count_more(&counters->operations[kind], 1);
    count_more(&counters->bytes[kind], bytes);
    count_more(&counters->waits, trips);
    return true;
}

static FABRIC_INLINE int run_op(struct tarn_fabric_connection *connection, struct tarn_fabric_op *op,
                                enum tarn_fabric_op_kind kind, uint8_t tag, uint64_t bytes,
                                uint64_t deadline_ns)
{
    return try_op(connection, op, kind, tag, bytes, 1) ? 0 : post_and_wait(connection, op, deadline_ns);
}

static uint64_t bytes_of(const struct tarn_fabric_op *op)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < op->iov_count; i++)
        bytes += op->iov[i].iov_len;
    return bytes;
}

int fabric_run(struct tarn_fabric_connection *connection, struct tarn_fabric_op *op, uint64_t deadline_ns)
{
    return run_op(connection, op, op->kind, op->tag, bytes_of(op), deadline_ns);
}

bool fabric_try(struct tarn_fabric_connection *connection, struct tarn_fabric_op *op, bool is_first)
{
    return try_op(connection, op, op->kind, op->tag, bytes_of(op), is_first ? 1 : 0);
}

bool fabric_prefetch(const struct tarn_fabric_connection *connection, const struct tarn_fabric_handle *handle,
                     uint64_t offset, uint64_t bytes)
{
    const struct fabric_provider *provider = connection->fabric->provider;
    if (provider->prefetch == NULL || fabric_needs_proxy(connection))
        return false;
    provider->prefetch(connection->state, handle, offset, bytes);
    return true;
}

/*
 * Fill an operation and complete it. Fields that the fabric sets itself are not zeroed first, because that alone would
 * take as long as the rest.
 */
static FABRIC_INLINE int complete_op(struct tarn_fabric_connection *connection, struct tarn_fabric_op *op,
                                     enum tarn_fabric_op_kind kind, uint8_t tag,
                                     const struct tarn_fabric_handle *handle, uint64_t offset,
                                     const struct iovec *vector, uint64_t deadline_ns)
{
    op->kind = kind;
    op->fence = false;
    op->whole = false;
    op->tag = tag;
    op->handle = handle;
    op->offset = offset;
    op->iov = vector;
    op->iov_count = vector == NULL ? 0 : 1;
    op->value = 0;
    return run_op(connection, op, kind, tag, vector == NULL ? WORD_BYTES : vector->iov_len, deadline_ns);
}

int tarn_fabric_read(struct tarn_fabric_connection *connection, uint8_t tag,
                     const struct tarn_fabric_handle *handle, uint64_t offset, void *data, uint64_t bytes,
                     uint64_t deadline_ns)
{
    const struct iovec vector = {.iov_base = data, .iov_len = bytes};
    struct tarn_fabric_op op;
    return complete_op(connection, &op, TARN_FABRIC_READ, tag, handle, offset, &vector, deadline_ns);
}

int tarn_fabric_read_word(struct tarn_fabric_connection *connection, uint8_t tag,
                          const struct tarn_fabric_handle *handle, uint64_t offset, uint64_t deadline_ns,
                          uint64_t *ret_word)
{
    uint64_t word;
    const struct iovec vector = {.iov_base = &word, .iov_len = sizeof(word)};
    struct tarn_fabric_op op = {.kind = TARN_FABRIC_READ,
                                .whole = true,
                                .tag = tag,
                                .handle = handle,
                                .offset = offset,
                                .iov = &vector,
                                .iov_count = 1};
    int error = run_op(connection, &op, TARN_FABRIC_READ, tag, WORD_BYTES, deadline_ns);
    if (error == 0)
        *ret_word = word;
    return error;
}

int tarn_fabric_write(struct tarn_fabric_connection *connection, uint8_t tag,
                      const struct tarn_fabric_handle *handle, uint64_t offset, const void *data,
                      uint64_t bytes, uint64_t deadline_ns)
{
    const struct iovec vector = {.iov_base = (void *)(uintptr_t)data,
                                 .iov_len = bytes}; /* an iovec has no const */
    struct tarn_fabric_op op;
    return complete_op(connection, &op, TARN_FABRIC_WRITE, tag, handle, offset, &vector, deadline_ns);
}

int tarn_fabric_cas(struct tarn_fabric_connection *connection, uint8_t tag,
                    const struct tarn_fabric_handle *handle, uint64_t offset, uint64_t compare,
                    uint64_t operand, uint64_t deadline_ns, uint64_t *ret_before)
{
    struct tarn_fabric_op op;
    op.compare = compare;
    op.operand = operand;
    int error = complete_op(connection, &op, TARN_FABRIC_CAS, tag, handle, offset, NULL, deadline_ns);
    if (error == 0)
        *ret_before = op.before;
    return error;
}

int tarn_fabric_faa(struct tarn_fabric_connection *connection, uint8_t tag,
                    const struct tarn_fabric_handle *handle, uint64_t offset, uint64_t add,
                    uint64_t deadline_ns, uint64_t *ret_before)
{
    struct tarn_fabric_op op;
    op.compare = 0;
    op.operand = add;
    int error = complete_op(connection, &op, TARN_FABRIC_FAA, tag, handle, offset, NULL, deadline_ns);
    if (error == 0)
        *ret_before = op.before;
    return error;
}

int tarn_fabric_send(struct tarn_fabric_connection *connection, uint8_t tag, const void *data, uint32_t bytes,
                     uint64_t deadline_ns)
{
    const struct iovec vector = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
    struct tarn_fabric_op op;
    return complete_op(connection, &op, TARN_FABRIC_SEND, tag, NULL, 0, &vector, deadline_ns);
}
