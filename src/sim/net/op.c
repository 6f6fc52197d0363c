/*
 * Operations: from posting to completion, what they do at the peer, and what goes on when nobody waits for them any
 * more.
 *
 *   sim_op_post()      sim_ops_progress()        arrive()                               respond()        complete()
 *       └──▶ WAITING ─────────▶ GOING ──────────────┬─▶ WORKING ── work_on_op() ────────────────▶ COMING ────▶ finished
 *                                                   ├─▶ QUEUED ── deliver(), start_swap() ─┘
 *                                                   └─▶ LOST      (the peer has ended, or has fenced us off)
 */
#include "base/base.h"
#include "sim/net/net_internal.h"
#include <errno.h>

enum {
    PULSES_MAX = 4,       /* moments at which words of a WRITE arrive */
    PULSE_NS_MAX = 2000,  /* between two of them, and between look and store of a swap */
    LATE_NS_BITS = 24,    /* how long an operation stays away whose connection has failed */
    LATE_LOST_ONE_IN = 4, /* such that are never seen again */
    SCRIBBLE = 0xdb,      /* what is in memory that a READ will fill */
};

static struct sim_net *net_of(const struct sim_op *op)
{
    return op->side->connection->net;
}

static struct sim_op *op_at(struct base_list *item)
{
    return base_container_of(item, struct sim_op, link);
}

static bool writes(const struct sim_op *op)
{
    return op->kind == TARN_FABRIC_WRITE || op->kind == TARN_FABRIC_WRITE_NOTIFY;
}

static bool sends(const struct sim_op *op)
{
    return op->kind == TARN_FABRIC_SEND || op->kind == TARN_FABRIC_WRITE_NOTIFY;
}

static bool swaps(const struct sim_op *op)
{
    return op->kind == TARN_FABRIC_CAS || op->kind == TARN_FABRIC_FAA;
}

/* Whether it moves no bytes, because the peer's memory has none. */
static bool is_blank(const struct sim_op *op)
{
    return sim_net_is_blank(net_of(op), op->handle.bytes);
}

/* ---- the end of one ----------------------------------------------------------------------------- */

static void start_swap(struct sim_device *device);

/* It touches the peer's memory no more. */
static void leave_region(struct sim_op *op)
{
    struct sim_region *region = op->region;
    if (region == NULL)
        return;
    if (base_list_is_linked(&op->reader))
        sim_region_read_end(op);
    if (op->state == SIM_OP_WORKING && writes(op) && !op->landed)
        sim_region_spoil(op);
    op->region = NULL;
    region->users--;
    if (region->freed)
        sim_domain_reap(region->domain);
}

static void leave_swaps(struct sim_op *op)
{
    if (!base_list_is_linked(&op->swap))
        return;
    struct sim_device *device = sim_side_device(sim_side_other(op->side));
    base_list_remove(&op->swap);
    start_swap(device);
}

/* A message: whether the peer's user has it. */
static bool was_handed_over(const struct sim_op *op)
{
    return op->state == SIM_OP_COMING && op->result == 0;
}

void sim_op_drop(struct sim_op *op)
{
    struct sim_net *net = net_of(op);
    sim_event_cancel(net->world, &op->event);
    sim_speed_leave(op);
    if ((writes(op) && !op->landed) || (sends(op) && !was_handed_over(op)))
        op->side->dropped = true;
    base_list_remove(&op->link);
    leave_swaps(op);
    leave_region(op);
    sim_net_free(net, op->data, op->bytes);
    sim_net_free(net, op->moved, op->piece_count);
    sim_net_free(net, op, sizeof(*op));
}

/* What it writes is the caller's to keep as it is until it has completed. */
static void check_source(const struct sim_op *op)
{
    const struct tarn_fabric_op *posted = op->posted;
    const uint8_t *data = op->data;
    for (uint32_t i = 0; data != NULL && i < posted->iov_count; i++) {
        if (posted->iov[i].iov_len > 0 && memcmp(data, posted->iov[i].iov_base, posted->iov[i].iov_len) != 0)
            sim_fail(net_of(op)->world, "memory has changed that an operation in flight was writing from");
        data += posted->iov[i].iov_len;
    }
}

/* Tell the poster, who then may reuse its memory. */
static void tell_poster(struct sim_op *op, int32_t result)
{
    struct tarn_fabric_op *posted = op->posted;
    check_source(op);
    op->posted = NULL;
    sim_note(net_of(op)->world, "completed", op->number, (uint64_t)(-result));
    fabric_op_finish(posted, result);
}

static void scatter(const struct sim_op *op)
{
    struct sim_net *net = net_of(op);
    uint8_t *bytes = sim_net_alloc(net, op->bytes), *from = bytes;
    sim_region_sample(op, bytes);
    sim_note(net->world, "read", op->number, base_hash64(bytes, op->bytes, 0));
    for (uint32_t i = 0; i < op->posted->iov_count; i++) {
        sim_net_copy(op->posted->iov[i].iov_base, from, op->posted->iov[i].iov_len);
        from += op->posted->iov[i].iov_len;
    }
    sim_net_free(net, bytes, op->bytes);
}

static void complete(struct sim_op *op)
{
    struct sim_side *side = op->side;
    int32_t result = op->result;
    if (op->posted != NULL) {
        if (result == 0 && op->kind == TARN_FABRIC_READ && !is_blank(op))
            scatter(op);
        op->posted->before = op->before;
        tell_poster(op, result);
        fabric_bell_ring(&side->waits);
    }
    sim_op_drop(op);
    if (result != 0 && side->owner != NULL)
        sim_side_fail(side);
    sim_ops_progress(side);
}

/* ---- at the peer -------------------------------------------------------------------------------- */

static void respond(struct sim_op *op, int32_t result)
{
    op->result = result;
    op->state = SIM_OP_COMING;
    if (op->kind != TARN_FABRIC_READ)
        leave_region(op);
    sim_speed_send(op);
}

static void lose(struct sim_op *op)
{
    sim_event_cancel(net_of(op)->world, &op->event);
    sim_speed_leave(op);
    op->state = SIM_OP_LOST;
    leave_swaps(op);
    leave_region(op);
    if (op->posted == NULL)
        sim_op_drop(op);
}

static uint32_t right_for(const struct sim_op *op)
{
    return op->kind == TARN_FABRIC_READ ? TARN_FABRIC_MAY_READ
           : writes(op)                 ? TARN_FABRIC_MAY_WRITE
                                        : TARN_FABRIC_MAY_SWAP;
}

/* What the owner's side says to it. */
static int check_op(const struct sim_op *op)
{
    const struct sim_side *peer = sim_side_other(op->side);
    const struct sim_region *region = op->region;
    if (op->kind == TARN_FABRIC_SEND)
        return op->bytes <= peer->receive_bytes ? 0 : -EMSGSIZE;
    if (region == NULL || (region->rights & right_for(op)) == 0 || op->offset > region->bytes ||
        op->bytes > region->bytes - op->offset)
        return -EACCES;
    if (region->is_blank != is_blank(op) || (region->is_blank && swaps(op)))
        return -EACCES;
    /* taken back while this was on its way */
    return region->freed && sim_net_draw(net_of(op), 2) == 0 ? -EACCES : 0;
}

/* Whether nothing of a side comes in at the other one any more. */
static bool is_shut(const struct sim_side *side)
{
    const struct sim_side *peer = sim_side_other(side);
    return sim_side_device(peer)->node == NULL || peer->fenced;
}

static void wait_a_pulse(struct sim_op *op)
{
    struct sim_world *world = net_of(op)->world;
    uint64_t most_ns = sim_speed_rules(op->side) ? 0 : PULSE_NS_MAX; /* what the card takes is over */
    sim_event_at(world, &op->event, world->now_ns + sim_net_draw(net_of(op), most_ns + 1));
}

/*
 * See to it that all WRITEs before a message are there: the network may have kept them back, but not any more.
 * @return false: one cannot be, now or ever
 */
static bool land_before(const struct sim_op *message)
{
    base_list_for_each(item, &message->side->ops) {
        struct sim_op *op = op_at(item);
        if (op == message)
            return true;
        if (op->kind != TARN_FABRIC_WRITE || op->landed)
            continue;
        if (op->state == SIM_OP_GOING) {
            int error = check_op(op);
            if (error != 0)
                respond(op, error);
        }
        if (op->state != SIM_OP_GOING && op->state != SIM_OP_WORKING)
            return false;
        op->pulses_left = 1;
        (void)sim_region_land(op);
        respond(op, 0);
    }
    return true;
}

/* Hand over messages that have arrived, in their order. */
static void deliver(struct sim_side *side)
{
    base_list_for_each_safe(item, &side->ops) {
        struct sim_op *op = op_at(item);
        if (!sends(op) || was_handed_over(op))
            continue;
        if (op->state != SIM_OP_QUEUED || side->dropped || !land_before(op))
            return;
        const struct tarn_fabric_message message = {
            .notified = op->kind == TARN_FABRIC_WRITE_NOTIFY,
            .value = op->value,
            .bytes = op->kind == TARN_FABRIC_SEND ? (uint32_t)op->bytes : 0};
        if (!sim_side_receive(sim_side_other(side), &message, op->data)) {
            lose(op);
            return;
        }
        respond(op, 0);
    }
}

static void start_write(struct sim_op *op)
{
    struct sim_net *net = net_of(op);
    op->pattern = (enum sim_pattern)sim_net_draw(net, SIM_PATTERNS);
    op->pulses_left = sim_net_has(net, SIM_NET_TORN_WRITE) || sim_region_tears(op)
                          ? 1 + (uint32_t)sim_net_draw(net, PULSES_MAX)
                          : 1;
}

static void end_swap(struct sim_op *op)
{
    const uint64_t word = op->offset / SIM_WORD_BYTES;
    if (op->kind == TARN_FABRIC_FAA)
        sim_region_change(op->region, word, op->before + op->operand);
    else if (op->before == op->compare)
        sim_region_change(op->region, word, op->operand);
    respond(op, 0);
    leave_swaps(op);
}

/* The card does one swap at a time: it looks now and stores then. */
static void start_swap(struct sim_device *device)
{
    struct base_list *first = base_list_first(&device->swaps);
    if (first == NULL)
        return;
    struct sim_op *op = base_container_of(first, struct sim_op, swap);
    if (op->state != SIM_OP_QUEUED)
        return;
    op->state = SIM_OP_WORKING;
    op->before = sim_region_load(op->region, op->offset / SIM_WORD_BYTES);
    if (sim_net_has(device->net, SIM_NET_SLIPPED_SWAP))
        wait_a_pulse(op);
    else
        end_swap(op);
}

/* An operation loses the region that it has found. */
static void take_back(struct sim_op *op)
{
    const bool works = op->state == SIM_OP_WORKING || (op->state == SIM_OP_QUEUED && swaps(op));
    if (works && op->posted == NULL) {
        lose(op);
        return;
    }
    leave_swaps(op);
    leave_region(op);
    if (works)
        respond(op, -EACCES);
    else if (op->state == SIM_OP_COMING)
        op->result = -EACCES; /* a READ, which takes its bytes when it completes */
}

void sim_ops_take_back(struct sim_region *region)
{
    region->users++; /* it stays until all were looked at */
    base_list_for_each(side_link, &region->domain->sides) {
        struct sim_side *side = base_container_of(side_link, struct sim_side, link);
        base_list_for_each_safe(item, &sim_side_other(side)->ops) {
            if (op_at(item)->region == region)
                take_back(op_at(item));
        }
    }
    region->users--;
}

/* The request is there. */
static void arrive(struct sim_op *op)
{
    if (is_shut(op->side)) {
        lose(op);
        return;
    }
    int error = check_op(op);
    if (error != 0) {
        respond(op, error);
    } else if (op->kind == TARN_FABRIC_SEND) {
        op->state = SIM_OP_QUEUED;
        deliver(op->side);
    } else if (swaps(op)) {
        struct sim_device *device = sim_side_device(sim_side_other(op->side));
        op->state = SIM_OP_QUEUED;
        base_list_push_back(&device->swaps, &op->swap);
        start_swap(device);
    } else {
        op->state = SIM_OP_WORKING;
        if (writes(op))
            start_write(op);
        wait_a_pulse(op);
    }
}

static void work_on_op(struct sim_op *op)
{
    if (swaps(op)) {
        end_swap(op);
    } else if (op->kind == TARN_FABRIC_READ) {
        respond(op, 0);
    } else if (!sim_region_land(op)) {
        wait_a_pulse(op);
    } else {
        struct sim_side *side = op->side;
        if (op->kind == TARN_FABRIC_WRITE)
            respond(op, 0);
        else
            op->state = SIM_OP_QUEUED;
        deliver(side);
    }
}

static void run_op(struct sim_event *event)
{
    struct sim_op *op = base_container_of(event, struct sim_op, event);
    const struct sim_device *here = sim_side_device(op->side),
                            *there = sim_side_device(sim_side_other(op->side));
    sim_note(net_of(op)->world, "op", op->number, (uint64_t)op->state);
    if (sim_speed_continue(op))
        return;
    if (op->state == SIM_OP_GOING && !sim_net_is_cut(here, there))
        arrive(op);
    else if (op->state == SIM_OP_WORKING)
        work_on_op(op);
    else if (op->state == SIM_OP_COMING && !sim_net_is_cut(there, here))
        complete(op);
}

void sim_ops_resume(struct sim_side *side)
{
    base_list_for_each(item, &side->ops) {
        struct sim_op *op = op_at(item);
        if ((op->state == SIM_OP_GOING || op->state == SIM_OP_COMING) && op->stage == SIM_STAGE_NONE &&
            !base_heap_is_linked(&op->event.node))
            sim_net_later(net_of(op), &op->event);
    }
}

/* ---- beginning ---------------------------------------------------------------------------------- */

static struct sim_region *find_region(const struct sim_domain *domain,
                                      const struct tarn_fabric_handle *handle)
{
    if (handle->domain != domain->name)
        return NULL;
    base_list_for_each(item, &domain->regions) {
        struct sim_region *region = base_container_of(item, struct sim_region, link);
        if (region->key == handle->key && !region->freed)
            return region;
    }
    return NULL;
}

static void begin_op(struct sim_op *op)
{
    struct sim_net *net = net_of(op);
    op->begun = ++net->tick;
    if (op->kind != TARN_FABRIC_SEND)
        op->region = find_region(sim_side_other(op->side)->domain, &op->handle);
    if (op->region != NULL) {
        op->region->users++;
        if (op->kind == TARN_FABRIC_READ)
            sim_region_read_begin(op);
    }
    op->posted->trip = op->fence;
    op->side->credit -= sends(op);
    op->state = SIM_OP_GOING;
    sim_speed_send(op);
}

void sim_ops_progress(struct sim_side *side)
{
    const bool one_by_one = !sim_net_has(side->connection->net, SIM_NET_REORDER) && !sim_speed_rules(side);
    bool without_credit = false; /* a message waits for it */
    bool others = false;         /* have not completed, such messages apart */
    if (side->failed)
        return;
    base_list_for_each(item, &side->ops) {
        struct sim_op *op = op_at(item);
        bool creditless = false;
        if (op->state == SIM_OP_WAITING) {
            creditless = sends(op) && (without_credit || side->credit == 0);
            if (!(op->fence && (others || without_credit)) && !(one_by_one && others) && !creditless)
                begin_op(op);
            else
                without_credit |= sends(op);
        }
        others |= op->state != SIM_OP_WAITING || !creditless;
    }
}

/* ---- posting ------------------------------------------------------------------------------------ */

/* Take what it writes; scribble over what it will read. */
static void take_memory(struct sim_op *op)
{
    const struct tarn_fabric_op *posted = op->posted;
    bool out = writes(op) || sends(op);
    if (is_blank(op))
        return;
    if (out)
        op->data = sim_net_alloc(net_of(op), op->bytes);
    uint8_t *to = op->data;
    for (uint32_t i = 0; i < posted->iov_count; i++) {
        if (out)
            sim_net_copy(to, posted->iov[i].iov_base, posted->iov[i].iov_len);
        else if (posted->iov[i].iov_len > 0)
            memset(posted->iov[i].iov_base, SCRIBBLE, posted->iov[i].iov_len);
        to += out ? posted->iov[i].iov_len : 0;
    }
}

void sim_op_post(void *state, struct tarn_fabric_op *posted)
{
    struct sim_side *side = state;
    struct sim_net *net = side->connection->net;
    struct sim_op *op = sim_net_alloc(net, sizeof(*op));
    op->event.name = "op";
    op->event.run = run_op;
    op->side = side;
    op->posted = posted;
    op->kind = posted->kind;
    op->fence = posted->fence;
    op->whole = posted->whole;
    op->number = ++net->operations;
    op->handle = posted->handle == NULL ? (struct tarn_fabric_handle){0} : *posted->handle;
    op->offset = posted->offset;
    op->bytes = posted->bytes;
    op->compare = posted->compare;
    op->operand = posted->operand;
    op->value = posted->value;
    take_memory(op);
    base_list_push_back(&side->ops, &op->link);
    sim_note(net->world, "post", op->number, (uint64_t)op->kind << 1 | (uint64_t)op->fence);
    sim_note(net->world, "at", op->offset, op->bytes);
    if (op->data != NULL)
        sim_note(net->world, "data", base_hash64(op->data, op->bytes, 0), 0);
    sim_ops_progress(side);
}

/* ---- without a poster --------------------------------------------------------------------------- */

/* Whether something that is on its way comes in after the poster was told of an error. */
static bool comes_late(const struct sim_op *op)
{
    if (!sim_net_has(net_of(op), SIM_NET_LATE) || op->kind == TARN_FABRIC_READ)
        return false;
    return (op->state == SIM_OP_GOING || op->state == SIM_OP_WORKING || op->state == SIM_OP_QUEUED) &&
           sim_net_draw(net_of(op), LATE_LOST_ONE_IN) != 0;
}

void sim_ops_flush(struct sim_side *side)
{
    base_list_for_each_safe(item, &side->ops) {
        struct sim_op *op = op_at(item);
        struct sim_net *net = net_of(op);
        if (op->posted == NULL && side->owner != NULL)
            continue; /* was before */
        if (op->posted != NULL && side->owner != NULL)
            tell_poster(op, tarn_fabric_error(side->owner));
        op->posted = NULL;
        if (!comes_late(op)) {
            sim_op_drop(op);
        } else if (op->state == SIM_OP_GOING && base_heap_is_linked(&op->event.node)) {
            sim_event_cancel(net->world, &op->event);
            sim_event_at(net->world, &op->event,
                         net->world->now_ns + (UINT64_C(1) << sim_net_draw(net, LATE_NS_BITS + 1)));
        }
    }
}

void sim_ops_stop(struct sim_side *side)
{
    base_list_for_each_safe(item, &side->ops) {
        struct sim_op *op = op_at(item);
        bool there = op->state == SIM_OP_WORKING && writes(op);
        if (there && sim_net_has(net_of(op), SIM_NET_LATE)) {
            op->pulses_left += 2; /* some of it */
            (void)sim_region_land(op);
        }
        bool reads = op->region != NULL; /* on its way back too: it takes its bytes when it completes */
        if (op->state == SIM_OP_GOING || op->state == SIM_OP_WORKING || op->state == SIM_OP_QUEUED || reads)
            lose(op);
    }
}
