/*
 * The speed model: how long operations take between nodes that have cards (README, "The speed model").
 *
 *   sim_speed_send()          sender's card                                     receiver's card
 *   ── POSTED ──▶ [ issue ] ─▶ [ sending: bytes ] ── FLYING ──▶ receiving ─▶ serving ──▶ it has arrived
 *    (charged)     1 / out        bytes / link         way      bytes / link   1 / in
 *
 *   and back, SIM_OP_COMING:  [ sending: what was READ ] ── FLYING ──▶ receiving ──▶ it has completed
 *
 * The two that send serve connections in turn: each part of an operation has a turn (what its connection has been
 * served so far, but not less than the one that is being served now), and the lowest is next. The two that receive take things
 * as they come. Bytes arrive while they are being sent: that they take the link in, too, is felt only if more comes
 * than it can carry.
 */
#include "base/base.h"
#include "sim/net/net_internal.h"

enum {
    PART_BYTES = 4096, /* of an operation, before others on the link have their turn */
    PS_PER_NS = 1000,
};

/* ---- what things cost --------------------------------------------------------------------------- */

static uint64_t ps_of_operation(uint64_t kops)
{
    return kops == 0 ? 0 : UINT64_C(1000000000) / kops;
}

static uint64_t ps_of_bytes(uint64_t mbps, uint64_t bytes)
{
    return mbps == 0 ? 0 : bytes * 8 * 1000000 / mbps; /* below 2^63: an operation has 2^30 at most */
}

/* Whole nanoseconds of some time; the rest is added to the next one. */
static uint64_t spend(struct sim_meter *meter, uint64_t ps)
{
    uint64_t all_ps = meter->rest_ps + ps;
    meter->rest_ps = all_ps % PS_PER_NS;
    return all_ps / PS_PER_NS;
}

static struct sim_world *world_of(const struct sim_op *op)
{
    return op->side->connection->net->world;
}

/* The port of a side: connections of a domain have them in turn. */
static struct sim_port *port_of(const struct sim_side *side)
{
    struct sim_device *device = sim_side_device(side);
    return &device->ports[side->number % sim_card_ports(device->card)];
}

static struct sim_port *initiator_of(const struct sim_op *op)
{
    return port_of(op->side);
}

static struct sim_port *target_of(const struct sim_op *op)
{
    return port_of(sim_side_other(op->side));
}

bool sim_speed_rules(const struct sim_side *side)
{
    const struct sim_side *other = sim_side_other(side);
    return other->domain != NULL && sim_side_device(side)->card != NULL &&
           sim_side_device(other)->card != NULL;
}

/* What is left of a card's round trip when its operation has been issued and served. */
static uint64_t flight_ns(const struct sim_card *card)
{
    return card->round_trip_ns -
           (ps_of_operation(card->in_kops) + ps_of_operation(card->out_kops)) / PS_PER_NS;
}

/* One way of two: half of what the two cards have on average. */
static uint64_t way_ns(const struct sim_op *op)
{
    return (flight_ns(initiator_of(op)->device->card) + flight_ns(target_of(op)->device->card)) / 4;
}

static bool is_own(const struct sim_op *op)
{
    return initiator_of(op)->device == target_of(op)->device;
}

/* Whether an operation that begins goes past the card. */
static bool is_at_home(const struct sim_op *op)
{
    const struct sim_net_options *options = &op->side->connection->net->options;
    const bool is_bulk = op->region != NULL && (op->region->rights & TARN_FABRIC_BULK) != 0;
    return is_own(op) && (options->owns_all || (options->owns_bulk && is_bulk));
}

/* ---- what is sent ------------------------------------------------------------------------------- */

static void fly(struct sim_op *op, uint64_t arrives_ns)
{
    op->stage = SIM_STAGE_FLYING;
    sim_event_at(world_of(op), &op->event, arrives_ns);
}

/*
 * A part was sent: when it is received. Ways are of one length, so parts arrive as they were sent; where more comes
 * than the link in can carry, they wait.
 */
static uint64_t receive(struct sim_op *op, uint64_t part)
{
    struct sim_port *port = op->state == SIM_OP_GOING ? target_of(op) : initiator_of(op);
    port->receiving_ns += spend(&port->receiving_meter, ps_of_bytes(port->device->card->link_mbps, part));
    port->receiving_ns = base_max(port->receiving_ns, world_of(op)->now_ns + way_ns(op));
    return port->receiving_ns;
}

static uint64_t ps_of(const struct sim_station *station, uint64_t amount)
{
    return station->serves_bytes ? ps_of_bytes(station->per_second, amount)
                                 : ps_of_operation(station->per_second);
}

static void serve_next(struct sim_station *station, struct sim_world *world)
{
    struct base_heap_node *first = base_heap_pop(&station->queue);
    if (first == NULL)
        return;
    struct sim_op *op = base_container_of(first, struct sim_op, turn);
    uint64_t part = base_min(op->left, (uint64_t)PART_BYTES);
    station->turn = first->key;
    station->serving = op;
    sim_event_at(world, &station->event, world->now_ns + spend(&station->meter, ps_of(station, part)));
}

static void enter(struct sim_op *op, struct sim_station *station, uint64_t amount, enum sim_turn turn)
{
    uint64_t *own = &op->side->turns[turn];
    uint64_t key = base_max(*own, station->turn);
    *own = key + ps_of(station, amount);
    op->stage = SIM_STAGE_QUEUED;
    op->station = station;
    op->left = amount;
    base_heap_insert(&station->queue, &op->turn, key);
    if (!base_heap_is_linked(&station->event.node))
        serve_next(station, world_of(op));
}

/* Go out over a link; what a node has from itself does not. */
static void enter_link(struct sim_op *op, struct sim_station *sending, uint64_t bytes, enum sim_turn turn)
{
    if (is_own(op))
        fly(op, world_of(op)->now_ns + way_ns(op));
    else
        enter(op, sending, bytes, turn);
}

/* A part of it was served: it goes on to the next part, or the next station. */
static void pass(struct sim_op *op, uint64_t part)
{
    struct sim_station *station = op->station;
    uint64_t arrives_ns = station->serves_bytes ? receive(op, part) : 0;
    op->left -= part;
    if (op->left > 0) {
        base_heap_insert(&station->queue, &op->turn, op->turn.key + ps_of(station, part));
        return;
    }
    op->station = NULL;
    if (station->serves_bytes)
        fly(op, arrives_ns);
    else
        enter_link(op, &initiator_of(op)->sending, op->kind == TARN_FABRIC_READ ? 0 : op->bytes,
                   SIM_TURN_REQUEST);
}

static void run_station(struct sim_event *event)
{
    struct sim_station *station = base_container_of(event, struct sim_station, event);
    struct sim_op *op = station->serving;
    struct sim_port *port = station->serves_bytes ? base_container_of(station, struct sim_port, sending)
                                                  : base_container_of(station, struct sim_port, issue);
    station->serving = NULL;
    if (op != NULL)
        pass(op, base_min(op->left, (uint64_t)PART_BYTES));
    serve_next(station, port->device->net->world);
}

/* ---- ways --------------------------------------------------------------------------------------- */

/* It is there: when the card is through with all that came before, and with it. */
static uint64_t serve_op(const struct sim_op *op)
{
    struct sim_port *port = target_of(op);
    port->serving_ns = base_max(port->serving_ns, world_of(op)->now_ns) +
                       spend(&port->serving_meter, ps_of_operation(port->device->card->in_kops));
    return port->serving_ns;
}

void sim_speed_send(struct sim_op *op)
{
    struct sim_world *world = world_of(op);
    sim_speed_leave(op);
    if (!sim_speed_rules(op->side)) {
        sim_net_later(op->side->connection->net, &op->event);
        return;
    }
    sim_event_cancel(world, &op->event);
    if (op->state == SIM_OP_GOING)
        op->is_at_home = is_at_home(op);
    if (op->is_at_home) {
        const uint64_t own_ns = op->side->connection->net->options.own_ns;
        sim_event_at(world, &op->event,
                     world->now_ns + (op->state == SIM_OP_GOING ? world->charged_ns + own_ns : 0));
    } else if (op->state == SIM_OP_GOING) {
        op->stage = SIM_STAGE_POSTED;
        sim_event_at(world, &op->event, world->now_ns + world->charged_ns);
    } else if (op->kind == TARN_FABRIC_READ && op->result == 0 && op->bytes > 0) {
        enter_link(op, &target_of(op)->sending, op->bytes, SIM_TURN_ANSWER);
    } else {
        fly(op, world->now_ns + way_ns(op)); /* takes no room */
    }
}

bool sim_speed_continue(struct sim_op *op)
{
    struct sim_world *world = world_of(op);
    if (op->stage == SIM_STAGE_POSTED) {
        enter(op, &initiator_of(op)->issue, 1, SIM_TURN_ISSUE);
        return true;
    }
    if (op->stage != SIM_STAGE_FLYING)
        return false;
    op->stage = SIM_STAGE_NONE;
    if (op->state == SIM_OP_GOING)
        sim_event_at(world, &op->event, serve_op(op));
    return op->state == SIM_OP_GOING;
}

void sim_speed_leave(struct sim_op *op)
{
    if (op->station != NULL && base_heap_is_linked(&op->turn))
        base_heap_remove(&op->station->queue, &op->turn);
    else if (op->station != NULL)
        op->station->serving = NULL; /* its part goes to nobody */
    op->station = NULL;
    op->stage = SIM_STAGE_NONE;
}

/* ---- cards -------------------------------------------------------------------------------------- */

static void open_station(struct sim_station *station, const char *name, uint64_t per_second, bool bytes)
{
    base_heap_init(&station->queue);
    station->event.name = name;
    station->event.run = run_station;
    station->per_second = per_second;
    station->serves_bytes = bytes;
}

void sim_speed_open(struct sim_device *device)
{
    const struct sim_card *card = device->node->card;
    device->card = card;
    if (card == NULL)
        return;
    base_assert(flight_ns(card) <= card->round_trip_ns && sim_card_ports(card) <= SIM_PORTS_MAX);
    for (uint32_t i = 0; i < sim_card_ports(card); i++) {
        struct sim_port *port = &device->ports[i];
        port->device = device;
        open_station(&port->issue, "issued", card->out_kops, false);
        open_station(&port->sending, "sent", card->link_mbps, true);
    }
}

void sim_speed_close(struct sim_device *device)
{
    struct sim_world *world = device->net->world;
    for (uint32_t i = 0; device->card != NULL && i < sim_card_ports(device->card); i++) {
        struct sim_port *port = &device->ports[i];
        base_assert(port->issue.queue.count == 0 && port->sending.queue.count == 0);
        sim_event_cancel(world, &port->issue.event);
        sim_event_cancel(world, &port->sending.event);
    }
}
