/*
 * A step: requests that are in flight at once and answered in order. No two of them touch the same key unless
 * both only read; a request that would waits for the next step. Changes run in tasks of their own; gets are done
 * together, straight into the output.
 *
 *   add ─ add ─ add … ─▶ step:  tasks for changes ─ gets ─ wait for the tasks ─ queue the answers in order
 *
 * Answers of gets are written into the output before those of changes are known, so they do not lie there in
 * order; the pieces that are sent are in order.
 */
#include "depot/depot.h"
#include "kv/kv.h"
#include "memcache/memcache_internal.h"
#include <errno.h>

#define GET_EXTRA_BYTES 128 /* bytes of the output for a get's text beside its value; long keys take more */
#define SET_BITS        1024

void memcache_work_init(struct memcache_work *work,
                        int (*send)(void *arg, struct iovec *pieces, uint32_t piece_count), void *arg)
{
    work->arrived_ns = 0;
    work->op_count = 0;
    work->queued = 0;
    work->hashed = false;
    work->running = 0;
    work->waiter = NULL;
    work->reserved = 0;
    work->lease_refused = false;
    memcache_output_init(&work->output, send, arg);
}

/* ---- which requests may be in flight together ----------------------------------------------------- */

static bool has_key(const struct memcache_request *request)
{
    return request->verb >= MEMCACHE_GET && request->verb <= MEMCACHE_META_DEBUG && request->key.len > 0;
}

/* The bit of a request's key. If two keys share a bit, one needlessly waits for the other. */
static uint32_t bit_of(const struct memcache_server *server, const struct memcache_request *request)
{
    return (uint32_t)(base_hash64(request->key.text, request->key.len, server->hash_seed) % SET_BITS);
}

static bool is_set(const uint64_t set[SET_BITS / 64], uint32_t bit)
{
    return (set[bit / 64] >> bit % 64 & 1) != 0;
}

static void mark_key(struct memcache_work *work, const struct memcache_request *request, uint32_t bit)
{
    uint64_t *set = memcache_only_reads(request) ? work->read_set : work->write_set;
    set[bit / 64] |= UINT64_C(1) << bit % 64;
}

/* Enter the keys of all requests into the sets; as long as all only read, that is not needed. */
static void hash_all(struct memcache_server *server, struct memcache_work *work)
{
    memset(work->read_set, 0, sizeof(work->read_set));
    memset(work->write_set, 0, sizeof(work->write_set));
    for (uint32_t i = 0; i < work->op_count; i++) {
        if (has_key(&work->ops[i].request))
            mark_key(work, &work->ops[i].request, bit_of(server, &work->ops[i].request));
    }
    work->hashed = true;
}

/* @return whether the request touches no key of another one, unless both only read; if so, it is entered into the sets */
static bool may_join(struct memcache_server *server, struct memcache_work *work,
                     const struct memcache_request *request)
{
    if (!has_key(request) || (!work->hashed && memcache_only_reads(request)))
        return true;
    if (!work->hashed)
        hash_all(server, work);
    uint32_t bit = bit_of(server, request);
    if (is_set(work->write_set, bit) || (!memcache_only_reads(request) && is_set(work->read_set, bit)))
        return false;
    mark_key(work, request, bit);
    return true;
}

static bool measures_stages(const struct memcache_server *server)
{
    return server->depot != NULL && depot_measures(server->depot);
}

struct memcache_op *memcache_add(struct memcache_session *session, struct memcache_work *work,
                                 const struct memcache_request *request)
{
    if (work->op_count == MEMCACHE_REQUESTS_MAX || !may_join(session->server, work, request)) {
        memcache_step(session, work);
        bool joined = may_join(session->server, work, request);
        base_assert(joined);
    }
    struct memcache_op *op = &work->ops[work->op_count++];
    op->request = *request;
    op->value = NULL;
    op->last = false;
    op->state = has_key(request) ? MEMCACHE_WAITING : MEMCACHE_DONE;
    op->leased = NULL;
    op->outcome = (struct memcache_outcome){.text = request->refusal};
    op->server = session->server;
    op->work = work;
    op->arrived_ns = op->state == MEMCACHE_WAITING && measures_stages(op->server) ? work->arrived_ns : 0;
    return op;
}

/* Note that the store is asked now: the time since the request's arrival was spent in the queue. */
static void end_queue(struct memcache_op *op)
{
    if (base_likely(op->arrived_ns == 0))
        return;
    depot_queued(op->server->depot, task_now() - op->arrived_ns);
    op->arrived_ns = 0;
}

/* ---- answers --------------------------------------------------------------------------------------- */

static bool only_reads(const struct memcache_op *op)
{
    return op->state == MEMCACHE_WAITING && memcache_only_reads(&op->request);
}

static size_t room_left(const struct memcache_work *work)
{
    return MEMCACHE_OUTPUT_BYTES - work->output.used - work->reserved;
}

/* Write the text of an answer into the output. */
static void answer_op(struct memcache_op *op)
{
    struct memcache_output *output = &op->work->output;
    op->begin = output->used;
    op->len = memcache_answer(op, output->data + output->used);
    output->used += op->len;
    op->state = MEMCACHE_ANSWERED;
}

/* Whether a list has ended already: it ends with its first error, as it would with END. */
static bool is_silenced(struct memcache_session *session, const struct memcache_op *op)
{
    if (!memcache_has_keys(&op->request))
        return false;
    bool silenced = session->failed_list;
    bool fails = op->outcome.error != 0 && op->outcome.error != -ENOENT;
    session->failed_list = (silenced || fails) && !op->last;
    return silenced;
}

static void queue_answer(struct memcache_session *session, struct memcache_work *work, struct memcache_op *op)
{
    struct memcache_output *output = &work->output;
    struct memcache_value *value = op->outcome.value;
    bool silenced = is_silenced(session, op);
    memcache_count_outcome(op);
    if (!silenced && op->leased != NULL) {
        size_t front_len = op->len - op->tail_len;
        memcache_output_queue(output, output->data + op->begin, front_len);
        memcache_output_queue(output, op->leased, op->outcome.info.value_bytes);
        memcache_output_queue(output, output->data + op->begin + front_len, op->tail_len);
    } else if (!silenced) {
        memcache_output_queue(output, output->data + op->begin, op->len);
    }
    if (value == NULL)
        return;
    if (!silenced && op->len > 0)
        memcache_output_queue(output, value->data, value->len);
    value->next = output->values;
    output->values = value;
}

static void wait_for_tasks(struct memcache_work *work)
{
    if (work->running == 0)
        return;
    struct task_wait wait;
    task_wait_init(&wait);
    work->waiter = &wait;
    (void)task_wait_park_firmly(&wait);
    work->waiter = NULL;
}

/* Queue the answers of all ops before `end`. */
static void settle_ops(struct memcache_session *session, struct memcache_work *work, uint32_t end)
{
    wait_for_tasks(work);
    for (; work->queued < end; work->queued++) {
        struct memcache_op *op = &work->ops[work->queued];
        base_assert(op->state != MEMCACHE_WAITING);
        if (op->state == MEMCACHE_DONE) {
            answer_op(op);
            work->reserved -= base_min(work->reserved, (size_t)MEMCACHE_ANSWER_MAX);
        }
        queue_answer(session, work, op);
    }
}

/* ---- changes ---------------------------------------------------------------------------------------- */

static void run_op(void *arg)
{
    struct memcache_op *op = arg;
    struct memcache_work *work = op->work;
    end_queue(op);
    memcache_operate(op);
    op->state = MEMCACHE_DONE;
    if (--work->running == 0 && work->waiter != NULL)
        base_assert(task_wait_wake(work->waiter, 0));
}

/* Start the changes, each in a task, or in this one if it has nothing else to do meanwhile. */
static void start_changes(struct memcache_work *work)
{
    for (uint32_t i = 0; i < work->op_count; i++) {
        struct memcache_op *op = &work->ops[i];
        if (op->state != MEMCACHE_WAITING || only_reads(op))
            continue;
        work->running++;
        if (work->op_count == 1 || task_spawn(NULL, NULL, "request", run_op, op) != 0)
            run_op(op);
    }
}

/* ---- gets -------------------------------------------------------------------------------------------- */

struct showing {
    struct memcache_work *work;
    bool turned;                  /* the refused get needs a change after all */
    bool needs_memory;            /* the refused get needs memory */
    struct memcache_value *value; /* the memory, when the get is shown again */
};

static void copy_behind(struct memcache_op *op, const void *data, size_t len)
{
    struct memcache_output *output = &op->work->output;
    if (len > 0) /* a value without bytes may have no memory */
        memcpy(output->data + output->used, data, len);
    output->used += len;
    op->len += len;
}

/* Keep a value on loan, to send it without a copy. @return false: it is small, or too much is on loan already */
static bool keep_lease(struct memcache_op *op, struct tarn_lease *lease)
{
    struct memcache_work *work = op->work;
    struct memcache_output *output = &work->output;
    if (lease->bytes < op->server->lease_bytes_min)
        return false;
    if (work->lease_refused || !kv_lease_keep(lease)) {
        work->lease_refused = true;
        return false;
    }
    base_assert(output->lease_count < base_array_count(output->leases));
    output->leases[output->lease_count++] = *lease;
    output->leased_bytes += lease->bytes;
    op->leased = lease->data;
    return true;
}

/* Copy a value that does not fit into the output beside the answers to come. @return false: that needs memory */
static bool copy_beside(struct showing *showing, struct memcache_op *op, const struct tarn_lease *lease)
{
    op->outcome.value = showing->value;
    showing->value = NULL;
    op->outcome.error = memcache_value_take(op, lease->data, lease->bytes);
    showing->needs_memory = op->outcome.error == MEMCACHE_NEEDS_MEMORY;
    return !showing->needs_memory;
}

static bool show_get(void *arg, struct tarn_get *get, struct tarn_lease *lease)
{
    struct showing *showing = arg;
    struct memcache_work *work = showing->work;
    struct memcache_op *op = &work->ops[work->get_ops[get - work->gets]];
    op->outcome = (struct memcache_outcome){.error = get->error, .hit = get->error == 0};
    if (get->error == 0) {
        op->outcome.info = get->info;
        op->outcome.old_expiry_ns = get->info.expiry_ns;
    }
    showing->turned = op->outcome.hit && memcache_wins(op, &get->info);
    bool wanted = op->outcome.hit && memcache_wants_value(&op->request);
    size_t room = room_left(work), bytes = wanted ? get->info.value_bytes : 0;
    bool fits = room >= MEMCACHE_ANSWER_MAX;
    if (showing->turned || (!fits && work->output.used > 0))
        return false;
    bool kept = wanted && fits && keep_lease(op, lease);
    fits = kept || (fits && bytes <= room - MEMCACHE_ANSWER_MAX);
    if (!fits && work->output.used > 0)
        return false;
    if (!fits && wanted && !copy_beside(showing, op, lease))
        return false;
    answer_op(op);
    if (!fits || !wanted)
        return true;
    if (!kept)
        copy_behind(op, lease->data, bytes);
    op->tail_len = strlen(memcache_tail(op));
    copy_behind(op, memcache_tail(op), op->tail_len);
    return true;
}

/* @return number of ops from `from` on that only read */
static uint32_t gather_gets(struct memcache_work *work, uint32_t from)
{
    uint32_t count = 0;
    for (uint32_t i = from; i < work->op_count; i++) {
        struct memcache_op *op = &work->ops[i];
        if (!only_reads(op))
            continue;
        end_queue(op);
        work->get_ops[count] = i;
        work->gets[count++] = (struct tarn_get){.key = op->request.key.text, .key_len = op->request.key.len};
    }
    return count;
}

static struct kv_room room_for_gets(const struct memcache_server *server, const struct memcache_work *work)
{
    uint64_t leased = base_min(work->output.leased_bytes, (uint64_t)MEMCACHE_LEASED_BYTES);
    return (struct kv_room){.bytes = room_left(work),
                            .extra_bytes = GET_EXTRA_BYTES,
                            .lease_bytes = MEMCACHE_LEASED_BYTES - leased,
                            .lease_from = work->lease_refused ? UINT64_MAX : server->lease_bytes_min};
}

static bool is_leased_out(const struct memcache_work *work)
{
    return work->output.leased_bytes >= MEMCACHE_LEASED_BYTES;
}

/* Take the memory that a get needs when it is shown again. */
static void provide_memory(struct showing *showing, struct memcache_op *op)
{
    op->outcome.error = memcache_value_provide(op);
    if (op->outcome.error != 0)
        answer_op(op);
    showing->value = op->outcome.value;
    op->outcome.value = NULL;
}

static void fetch_values(struct memcache_session *session, struct memcache_work *work)
{
    struct memcache_server *server = session->server;
    struct showing showing = {.work = work};
    for (uint32_t from = 0;;) {
        uint32_t count = gather_gets(work, from);
        if (count == 0)
            break;
        const struct kv_room room = room_for_gets(server, work);
        showing.needs_memory = false;
        size_t shown = kv_get_each(server->kv, work->gets, count, &room, show_get, &showing);
        if (shown == count)
            break;
        from = work->get_ops[shown];
        if (room_left(work) < MEMCACHE_ANSWER_MAX || is_leased_out(work) || !showing.turned) {
            settle_ops(session, work, from);
            (void)memcache_output_flush(server, &work->output);
        }
        if (showing.needs_memory) {
            provide_memory(&showing, &work->ops[from]);
        } else if (showing.turned) {
            memcache_operate(&work->ops[from]);
            answer_op(&work->ops[from]);
        }
    }
    if (showing.value != NULL) /* it was not needed after all */
        memcache_value_free(server, showing.value);
}

/* ---- the step ----------------------------------------------------------------------------------------- */

/* Reserve room for the answers of all changes, and for one get. */
static void reserve_answers(struct memcache_server *server, struct memcache_work *work)
{
    _Static_assert(MEMCACHE_OUTPUT_BYTES >= (MEMCACHE_REQUESTS_MAX + 2) * MEMCACHE_ANSWER_MAX, "all fit");
    _Static_assert(MEMCACHE_PIECES_MAX >= 3 * MEMCACHE_REQUESTS_MAX, "text, value and tail of each");
    struct memcache_output *output = &work->output;
    work->lease_refused = false;
    work->reserved = 0;
    for (uint32_t i = 0; i < work->op_count; i++)
        work->reserved += only_reads(&work->ops[i]) ? 0 : MEMCACHE_ANSWER_MAX;
    bool tight = output->used + work->reserved + MEMCACHE_ANSWER_MAX > MEMCACHE_OUTPUT_BYTES ||
                 output->piece_count > MEMCACHE_PIECES_MAX - 3 * work->op_count;
    if (tight || is_leased_out(work) ||
        output->lease_count + work->op_count > base_array_count(output->leases))
        (void)memcache_output_flush(server, output);
}

void memcache_step(struct memcache_session *session, struct memcache_work *work)
{
    if (work->op_count == 0)
        return;
    reserve_answers(session->server, work);
    start_changes(work);
    fetch_values(session, work);
    settle_ops(session, work, work->op_count);
    work->op_count = work->queued = 0;
    work->hashed = false;
    work->reserved = 0;
}
