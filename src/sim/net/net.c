/* The network of a world: cards and domains of nodes, ways and cuts, waiting, the provider's table. */
#include "sim/net/net.h"
#include "base/base.h"
#include "sim/net/net_internal.h"
#include <errno.h>

enum {
    WAY_NS = 500, /* the least and the most, where nothing delays */
    WAY_NS_MAX = 1500,
    DELAYED_ONE_IN = 16,
    TOUCHED_NS = 430000000,    /* a gigabyte, by one processor */
    REGISTERED_NS = 100000000, /* of pages that are there */
    DELAY_NS_BITS = 20,        /* up to a millisecond */
    SOME_COMPARED = 4,         /* domains, and regions of each, after each round of a node in a timed world */
};

#define GENERATOR UINT64_C(0x6661627269633a73) /* sets its numbers apart from the world's */
#define WEIGHT    UINT64_C(0x9e3779b97f4a7c15) /* of a word of a block, by which the next one weighs more */

/* A direction that is cut. */
struct sim_cut {
    struct base_list link;
    const struct sim_node *from;
    const struct sim_node *to;
};

/* ---- of a world --------------------------------------------------------------------------------- */

int sim_net_open(struct sim_world *world, uint64_t seed)
{
    struct sim_net *net = base_alloc(&world->memory, sizeof(*net));
    if (net == NULL)
        return -ENOMEM;
    net->world = world;
    net->options = (struct sim_net_options){
        .troubles = SIM_NET_ALL_TROUBLES, .touched_ns = TOUCHED_NS, .registered_ns = REGISTERED_NS};
    base_random_init(&net->random, seed ^ GENERATOR);
    base_list_init(&net->devices);
    base_list_init(&net->listeners);
    base_list_init(&net->connections);
    base_list_init(&net->cuts);
    base_list_init(&net->watchers);
    base_list_init(&net->regions);
    net->weights[0] = 1;
    for (unsigned i = 1; i < SIM_BLOCK_WORDS; i++)
        net->weights[i] = net->weights[i - 1] * WEIGHT;
    world->net = net;
    return 0;
}

void sim_net_close(struct sim_world *world)
{
    struct sim_net *net = world->net;
    base_assert(base_list_empty(&net->devices) && base_list_empty(&net->connections) &&
                base_list_empty(&net->cuts));
    base_free(&world->memory, net, sizeof(*net));
}

struct sim_net_options *sim_net_options(struct sim_world *world)
{
    base_assert(base_list_empty(&world->net->devices));
    return &world->net->options;
}

void *sim_net_alloc(struct sim_net *net, uint64_t bytes)
{
    void *memory = base_alloc(&net->world->memory, bytes);
    base_assert(memory != NULL); /* the world's own has no cap */
    return memory;
}

void sim_net_free(struct sim_net *net, void *pointer, uint64_t bytes)
{
    base_free(&net->world->memory, pointer, bytes);
}

void sim_net_stats(struct sim_world *world, struct sim_net_stats *ret_stats)
{
    struct sim_net_stats stats = {0};
    base_list_for_each(device_link, &world->net->devices) {
        const struct sim_device *device = base_container_of(device_link, struct sim_device, link);
        base_list_for_each(item, &device->domains) {
            stats.domains++;
            stats.regions += base_container_of(item, struct sim_domain, link)->regions_count;
        }
    }
    base_list_for_each(item, &world->net->connections) {
        const struct sim_connection *connection = base_container_of(item, struct sim_connection, link);
        stats.connections++;
        for (unsigned i = 0; i < 2; i++) {
            base_list_for_each(op_link, &connection->sides[i].ops)
                stats.operations++;
        }
    }
    *ret_stats = stats;
}

/* ---- ways --------------------------------------------------------------------------------------- */

void sim_net_later(struct sim_net *net, struct sim_event *event)
{
    uint64_t way_ns = WAY_NS + sim_net_draw(net, WAY_NS_MAX - WAY_NS);
    if (sim_net_has(net, SIM_NET_DELAY) && sim_net_draw(net, DELAYED_ONE_IN) == 0)
        way_ns += UINT64_C(1) << sim_net_draw(net, DELAY_NS_BITS + 1);
    sim_event_cancel(net->world, event);
    sim_event_at(net->world, event, net->world->now_ns + way_ns);
}

static struct sim_cut *find_cut(const struct sim_net *net, const struct sim_node *from,
                                const struct sim_node *to)
{
    base_list_for_each(item, &net->cuts) {
        struct sim_cut *cut = base_container_of(item, struct sim_cut, link);
        if (cut->from == from && cut->to == to)
            return cut;
    }
    return NULL;
}

bool sim_net_is_cut(const struct sim_device *from, const struct sim_device *to)
{
    return from->node != NULL && to->node != NULL && find_cut(from->net, from->node, to->node) != NULL;
}

void sim_net_cut(struct sim_node *from, struct sim_node *to)
{
    struct sim_net *net = from->world->net;
    base_assert(from != to);
    if (find_cut(net, from, to) != NULL)
        return;
    struct sim_cut *cut = sim_net_alloc(net, sizeof(*cut));
    *cut = (struct sim_cut){.from = from, .to = to};
    base_list_push_back(&net->cuts, &cut->link);
    sim_note_text(net->world, "cut from", from->name, strlen(from->name));
    sim_note_text(net->world, "cut to", to->name, strlen(to->name));
    sim_connections_look(net);
}

static void free_cut(struct sim_net *net, struct sim_cut *cut)
{
    base_list_remove(&cut->link);
    sim_net_free(net, cut, sizeof(*cut));
}

void sim_net_heal(struct sim_node *from, struct sim_node *to)
{
    struct sim_net *net = from->world->net;
    struct sim_cut *cut = find_cut(net, from, to);
    if (cut == NULL)
        return;
    free_cut(net, cut);
    sim_note_text(net->world, "healed from", from->name, strlen(from->name));
    sim_note_text(net->world, "healed to", to->name, strlen(to->name));
    sim_connections_look(net);
}

/* ---- waiting ------------------------------------------------------------------------------------ */

int sim_net_wait(struct fabric_bell *bell, bool (*is_ready)(const void *arg), const void *arg,
                 uint64_t deadline_ns)
{
    while (!is_ready(arg)) {
        struct task_wait wait;
        struct fabric_watch watch = {.wait = &wait};
        task_wait_init(&wait);
        fabric_bell_add(bell, &watch);
        int error = task_wait_park(&wait, deadline_ns);
        fabric_bell_remove(&watch);
        if (error != 0)
            return is_ready(arg) ? 0 : error;
    }
    return 0;
}

/* ---- cards -------------------------------------------------------------------------------------- */

static int open_device(struct tarn_node *tarn, void *arg, struct tarn_fabric_info *ret_info, void **ret_state)
{
    (void)tarn;
    struct sim_node *node = arg;
    struct sim_net *net = node->world->net;
    struct sim_device *device = sim_net_alloc(net, sizeof(*device));
    device->net = net;
    device->node = node;
    sim_speed_open(device);
    base_list_init(&device->domains);
    base_list_init(&device->swaps);
    base_list_push_back(&net->devices, &device->link);
    *ret_info = (struct tarn_fabric_info){
        .provider = "sim",
        .whole_words = !sim_net_has(net, SIM_NET_TORN_WORD),
        .whole_reads = !sim_net_has(net, SIM_NET_TORN_WORD) || !net->options.refuses_whole,
        .atomics =
            sim_net_has(net, SIM_NET_SLIPPED_SWAP) ? TARN_FABRIC_ATOMICS_DEVICE : TARN_FABRIC_ATOMICS_MEMORY,
        .served_by = net->options.served_by,
    };
    *ret_state = device;
    return 0;
}

static void reap_device(struct sim_device *device)
{
    if (!device->closed || !base_list_empty(&device->domains))
        return;
    base_list_remove(&device->link);
    sim_speed_close(device);
    sim_net_free(device->net, device, sizeof(*device));
}

static void close_device(void *state)
{
    struct sim_device *device = state;
    device->closed = true;
    reap_device(device);
}

/* ---- domains ------------------------------------------------------------------------------------ */

/* Its node's account. */
static struct base_account *account_of(const struct sim_domain *domain)
{
    return &sim_node_tarn(domain->device->node)->memory;
}

static int open_domain(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain)
{
    struct sim_device *device = state;
    uint64_t bytes = options->readable_bytes + options->writable_bytes;
    int error = base_account_take(&sim_node_tarn(device->node)->memory, bytes);
    if (error != 0)
        return error;
    struct sim_domain *domain = sim_net_alloc(device->net, sizeof(*domain));
    domain->device = device;
    domain->options = *options;
    domain->name = ++device->net->names;
    base_list_init(&domain->regions);
    base_list_init(&domain->sides);
    base_list_push_back(&device->domains, &domain->link);
    *ret_domain = domain;
    return 0;
}

static void close_domain(void *state)
{
    struct sim_domain *domain = state;
    domain->closed = true;
    base_account_give(account_of(domain), domain->options.readable_bytes + domain->options.writable_bytes);
    sim_domain_reap(domain);
}

/* Whether nobody can write to a region any more that was freed. */
static bool is_clean(const struct sim_region *region)
{
    if (region->users > 0)
        return false;
    base_list_for_each(item, &region->domain->sides) {
        const struct sim_side *side = base_container_of(item, struct sim_side, link);
        if (side->number < region->quarantine && !side->peer_gone && !side->fenced)
            return false;
    }
    return true;
}

void sim_domain_reap(struct sim_domain *domain)
{
    base_list_for_each_safe(item, &domain->regions) {
        struct sim_region *region = base_container_of(item, struct sim_region, link);
        if (region->freed && is_clean(region))
            sim_region_destroy(region);
    }
    struct sim_device *device = domain->device;
    if (!domain->closed || !base_list_empty(&domain->regions) || !base_list_empty(&domain->sides))
        return;
    base_list_remove(&domain->link);
    sim_net_free(device->net, domain, sizeof(*domain));
    reap_device(device);
}

/* ---- nodes -------------------------------------------------------------------------------------- */

/* The memory of a process that has ended is gone: what is on its way there finds nothing. */
static void leave_domains(struct sim_device *device)
{
    base_list_for_each_safe(item, &device->domains) {
        struct sim_domain *domain = base_container_of(item, struct sim_domain, link);
        base_list_for_each(region_link, &domain->regions)
            base_container_of(region_link, struct sim_region, link)->freed = true;
        domain->closed = true;
        sim_domain_reap(domain);
    }
}

static void leave_device(struct sim_device *device)
{
    base_list_for_each_safe(item, &device->net->watchers) {
        if (base_container_of(item, struct sim_watcher, link)->device == device)
            base_list_remove(item);
    }
    sim_connections_leave(device);
    device->node = NULL;
    device->closed = false; /* that it stays until all its domains were looked at */
    leave_domains(device);
    close_device(device);
}

static struct sim_device *find_device(const struct sim_net *net, const struct sim_node *node)
{
    base_list_for_each(item, &net->devices) {
        struct sim_device *device = base_container_of(item, struct sim_device, link);
        if (device->node == node)
            return device;
    }
    return NULL;
}

void sim_net_leave(struct sim_node *node)
{
    struct sim_net *net = node->world->net;
    struct sim_device *device;
    while ((device = find_device(net, node)) != NULL)
        leave_device(device); /* others may go with it, that have waited for their last connection */
    base_list_for_each_safe(item, &net->cuts) {
        struct sim_cut *cut = base_container_of(item, struct sim_cut, link);
        if (cut->from == node || cut->to == node)
            free_cut(net, cut);
    }
    sim_connections_look(net);
}

/* Look at all that are in a list; while something is measured, of many at some, and at those that come next the next time. */
static void check_list(struct base_list *list, bool is_timed,
                       void (*check)(struct base_list *item, bool is_timed))
{
    uint32_t count = 0;
    base_list_for_each(item, list) {
        check(item, is_timed);
        if (++count == SOME_COMPARED && is_timed)
            break;
    }
    if (count != SOME_COMPARED || !is_timed)
        return;
    for (; count > 0; count--)
        base_list_push_back(list, base_list_pop_front(list));
}

static void check_region(struct base_list *item, bool is_timed)
{
    (void)is_timed;
    sim_region_compare(base_container_of(item, struct sim_region, link));
}

static void check_domain(struct base_list *item, bool is_timed)
{
    check_list(&base_container_of(item, struct sim_domain, link)->regions, is_timed, check_region);
}

void sim_net_check(const struct sim_node *node)
{
    base_list_for_each(item, &node->world->net->devices) {
        struct sim_device *device = base_container_of(item, struct sim_device, link);
        if (device->node == node)
            check_list(&device->domains, node->world->timed, check_domain);
    }
}

/* ---- the table ---------------------------------------------------------------------------------- */

static bool op_is_finished(const void *arg)
{
    return ((const struct tarn_fabric_op *)arg)->finished;
}

static int wait_for(void *state, struct tarn_fabric_op *op, uint64_t deadline_ns)
{
    struct sim_side *side = state;
    return sim_net_wait(&side->waits, op_is_finished, op, deadline_ns);
}

static bool watch_side(void *state, struct fabric_watch *watch)
{
    struct sim_side *side = state;
    fabric_bell_add(&side->waits, watch);
    return false;
}

const struct fabric_provider sim_net_provider = {
    .name = "sim",
    .open = open_device,
    .close = close_device,
    .domain_open = open_domain,
    .domain_close = close_domain,
    .region_alloc = sim_region_alloc,
    .region_register = sim_region_register,
    .registers_any = true,
    .region_free = sim_region_free,
    .touch = sim_region_touch,
    .listen = sim_listen,
    .listener_close = sim_listener_close,
    .listener_wait = sim_listener_wait,
    .accept = sim_accept,
    .reject = sim_reject,
    .connect = sim_connect,
    .post = sim_op_post,
    .wait = wait_for,
    .watch = watch_side,
    .receive = sim_receive,
    .fail = sim_side_fail,
    .fence = sim_side_fence,
    .disconnect = sim_disconnect,
    .wait_any = sim_net_wait_any,
};
