/*
 * Exported memory: what each word was while READs are in flight, words of WRITEs that arrive one by one, stores past
 * all rules, waiting for a word.
 *
 *        READ begins                  change          change       READ completes
 *   ─────────┼───────── old ────────────┼──── newer ────┼── now ─────────┼────▶
 *            └── for each word: any of the values that it had in here ───┘
 */
#include "base/base.h"
#include "sim/net/net_internal.h"
#include <errno.h>
#include <inttypes.h>

enum {
    BLOCK_BYTES = SIM_BLOCK_WORDS * SIM_WORD_BYTES,
    COMPARED_BYTES = 256, /* of a region after each round of its node: whole blocks */
    CHANGES_KEPT = 1024,  /* of ended READs, before they are thrown away */
    ROOM_MIN = 64,
    PREEMPTED_NS_BITS = 18, /* the longest preemption within an access: a quarter of a millisecond */
};

#define NEVER    UINT64_MAX
#define GIGABYTE (UINT64_C(1) << 30)
#define LOOK_NS  (100 * BASE_NS_PER_MS) /* between two calls of the caller's progress function */

/* ---- words -------------------------------------------------------------------------------------- */

uint64_t sim_region_load(const struct sim_region *region, uint64_t word)
{
    uint64_t value;
    memcpy(&value, region->memory + word * SIM_WORD_BYTES, sizeof(value));
    return value;
}

static bool watches(const struct sim_watcher *watcher, const uint8_t *word)
{
    for (uint32_t i = 0; i < watcher->count; i++) {
        if (watcher->words[i].region->memory + watcher->words[i].offset == word)
            return true;
    }
    return false;
}

/* Room for one more in an array. @return the array, which may have moved */
static void *make_room(const struct sim_net *net, void *array, uint64_t *room, uint64_t count, size_t bytes)
{
    if (count < *room)
        return array;
    const uint64_t more = 2 * *room + ROOM_MIN;
    array = base_realloc(&net->world->memory, array, *room * bytes, more * bytes);
    base_assert(array != NULL); /* as sim_net_alloc() */
    *room = more;
    return array;
}

/* Forget changes that READs see by now. */
static void forget_late(struct sim_region *region, uint64_t now_ns)
{
    uint64_t over = 0;
    while (over < region->late_count && region->late[over].seen_ns <= now_ns)
        over++;
    region->late_count -= over;
    if (over > 0)
        memmove(region->late, region->late + over, region->late_count * sizeof(*region->late));
}

/* A task that was charged stores when that time is over; it sees its own store at once. */
static void note_late(struct sim_region *region, uint64_t word, uint64_t before)
{
    struct sim_world *world = region->domain->device->net->world;
    if (region->late_count == region->late_room)
        forget_late(region, world->now_ns);
    region->late =
        make_room(world->net, region->late, &region->late_room, region->late_count, sizeof(*region->late));
    region->late[region->late_count++] = (struct sim_late_change){
        .seen_ns = world->now_ns + world->charged_ns, .word = word, .before = before};
}

/* Note for a region that a word of it changes. */
static void note_change(struct sim_region *region, uint64_t word, uint64_t before, uint64_t value)
{
    struct sim_net *net = region->domain->device->net;
    region->sums[word / SIM_BLOCK_WORDS] += (value - before) * net->weights[word % SIM_BLOCK_WORDS];
    if (net->world->charged_ns > 0)
        note_late(region, word, before);
    if (!base_list_empty(&region->readers)) {
        region->changes = make_room(net, region->changes, &region->change_room, region->change_count,
                                    sizeof(*region->changes));
        region->changes[region->change_count++] =
            (struct sim_change){.tick = net->tick, .word = word, .before = before};
    }
}

static void note_for_other(struct sim_region *other, const uint8_t *memory, uint64_t before, uint64_t value)
{
    if (memory >= other->memory && memory < other->memory + other->bytes)
        note_change(other, (uint64_t)(memory - other->memory) / SIM_WORD_BYTES, before, value);
}

/* Note for all other regions that have a word, too, that it changes. */
static void note_for_others(const struct sim_region *region, const uint8_t *memory, uint64_t before,
                            uint64_t value)
{
    for (uint32_t i = 0; i < region->sharer_count && region->sharer_count <= SIM_SHARERS; i++)
        note_for_other(region->sharers[i], memory, before, value);
    if (region->sharer_count <= SIM_SHARERS)
        return;
    base_list_for_each(item, &region->domain->device->net->regions) {
        struct sim_region *other = base_container_of(item, struct sim_region, every);
        if (other != region)
            note_for_other(other, memory, before, value);
    }
}

static void add_sharer(struct sim_region *region, struct sim_region *other)
{
    if (region->sharer_count < SIM_SHARERS)
        region->sharers[region->sharer_count] = other;
    region->sharer_count += region->sharer_count <= SIM_SHARERS ? 1 : 0;
}

/* Others do not know a region any more that goes. */
static void remove_sharer(struct sim_region *gone)
{
    base_list_for_each(item, &gone->domain->device->net->regions) {
        struct sim_region *region = base_container_of(item, struct sim_region, every);
        uint32_t kept = 0;
        for (uint32_t i = 0; i < region->sharer_count && region->sharer_count <= SIM_SHARERS; i++) {
            if (region->sharers[i] != gone)
                region->sharers[kept++] = region->sharers[i];
        }
        region->sharer_count = region->sharer_count <= SIM_SHARERS ? kept : region->sharer_count;
    }
}

void sim_region_change(struct sim_region *region, uint64_t word, uint64_t value)
{
    struct sim_net *net = region->domain->device->net;
    uint8_t *memory = region->memory + word * SIM_WORD_BYTES;
    uint64_t before = sim_region_load(region, word);
    if (before == value)
        return;
    net->tick++;
    note_change(region, word, before, value);
    if (region->sharer_count > 0)
        note_for_others(region, memory, before, value);
    memcpy(memory, &value, sizeof(value));
    if (net->watched[sim_page_of(memory)] == 0)
        return;
    base_list_for_each_safe(item, &net->watchers) {
        struct sim_watcher *watcher = base_container_of(item, struct sim_watcher, link);
        if (!watches(watcher, memory))
            continue;
        base_list_remove(item);
        (void)task_wait_wake(&watcher->wait, 0);
    }
}

/* Change some bytes of words. */
static void change_bytes(struct sim_region *region, uint64_t offset, const uint8_t *from, uint64_t bytes)
{
    while (bytes > 0) {
        uint64_t at = offset % SIM_WORD_BYTES, word = offset / SIM_WORD_BYTES;
        uint64_t part = base_min(bytes, SIM_WORD_BYTES - at);
        uint64_t value = sim_region_load(region, word);
        memcpy((uint8_t *)&value + at, from, part);
        sim_region_change(region, word, value);
        offset += part, from += part, bytes -= part;
    }
}

/* ---- the owner's side --------------------------------------------------------------------------- */

/* @return how much of an access is over when its task loses the processor; NEVER: it does not */
static uint64_t draw_preemption(const struct sim_region *region, uint64_t bytes)
{
    struct sim_net *net = region->domain->device->net;
    if (net->options.preempted_one_in == 0 || task_sched_self() == NULL ||
        base_random_below(&net->random, net->options.preempted_one_in) > 0)
        return NEVER;
    return base_align_down(base_random_below(&net->random, bytes + 1), SIM_WORD_BYTES);
}

static void preempt(const struct sim_region *region)
{
    const struct sim_device *device = region->domain->device;
    sim_preempt(device->node, &device->net->random, PREEMPTED_NS_BITS);
}

static uint64_t mem_load64(const struct tarn_fabric_region *region, uint64_t offset)
{
    if (draw_preemption(region->state, 0) == 0)
        preempt(region->state);
    return sim_region_load(region->state, offset / SIM_WORD_BYTES);
}

static void mem_store64(struct tarn_fabric_region *region, uint64_t offset, uint64_t value)
{
    if (draw_preemption(region->state, 0) == 0)
        preempt(region->state);
    sim_region_change(region->state, offset / SIM_WORD_BYTES, value);
}

static void mem_copy_out(const struct tarn_fabric_region *region, uint64_t offset, void *to, uint64_t bytes)
{
    const struct sim_region *state = region->state;
    const uint64_t first = draw_preemption(state, bytes);
    if (first != NEVER) {
        sim_net_copy(to, state->memory + offset, first);
        preempt(state);
        to = (uint8_t *)to + first, offset += first, bytes -= first;
    }
    sim_net_copy(to, state->memory + offset, bytes);
}

static void mem_copy_in(struct tarn_fabric_region *region, uint64_t offset, const void *from, uint64_t bytes)
{
    const struct sim_region *state = region->state;
    if (state->is_blank)
        return;
    const uint64_t first = draw_preemption(state, bytes);
    if (first != NEVER) {
        change_bytes(region->state, offset, from, first);
        preempt(region->state);
        from = (const uint8_t *)from + first, offset += first, bytes -= first;
    }
    change_bytes(region->state, offset, from, bytes);
}

/* The owner's swaps: between the look and the store nothing comes, also not where others' swaps slip, because there
 * they are refused. */
static uint64_t mem_cas64(struct tarn_fabric_region *region, uint64_t offset, uint64_t compare,
                          uint64_t operand)
{
    const uint64_t before = mem_load64(region, offset);
    if (before == compare)
        sim_region_change(region->state, offset / SIM_WORD_BYTES, operand);
    return before;
}

static uint64_t mem_faa64(struct tarn_fabric_region *region, uint64_t offset, uint64_t add)
{
    const uint64_t before = mem_load64(region, offset);
    sim_region_change(region->state, offset / SIM_WORD_BYTES, before + add);
    return before;
}

static const struct tarn_fabric_mem_operations mem_operations = {.load64 = mem_load64,
                                                                 .store64 = mem_store64,
                                                                 .copy_out = mem_copy_out,
                                                                 .copy_in = mem_copy_in,
                                                                 .cas64 = mem_cas64,
                                                                 .faa64 = mem_faa64};

static uint64_t sum_block(const struct sim_region *region, uint64_t block)
{
    const uint64_t *weights = region->domain->device->net->weights, first = block * SIM_BLOCK_WORDS;
    const uint64_t count = base_min((uint64_t)SIM_BLOCK_WORDS, region->bytes / SIM_WORD_BYTES - first);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += sim_region_load(region, first + i) * weights[i];
    return sum;
}

/* Fail the world if a block that bytes lie in has changed in another way than by sim_region_change(). */
static void compare(const struct sim_region *region, uint64_t from, uint64_t bytes)
{
    if (region->is_blank)
        return;
    uint64_t block = from / BLOCK_BYTES;
    while (block * BLOCK_BYTES < from + bytes && base_likely(sum_block(region, block) == region->sums[block]))
        block++;
    if (block * BLOCK_BYTES >= from + bytes)
        return;
    const struct sim_device *device = region->domain->device;
    sim_fail(device->net->world,
             "node %s has stored to one of %d bytes from %" PRIu64 " of a region of %" PRIu64
             " bytes past the fabric: exported memory is written by tarn_fabric_mem_store64() and "
             "tarn_fabric_mem_copy_in() alone",
             device->node->name, BLOCK_BYTES, block * BLOCK_BYTES, region->bytes);
}

void sim_region_compare(struct sim_region *region)
{
    uint64_t from = region->compared_to % region->bytes;
    uint64_t bytes = base_min((uint64_t)COMPARED_BYTES, region->bytes - from);
    compare(region, from, bytes);
    region->compared_to = from + bytes;
}

/* ---- regions ------------------------------------------------------------------------------------ */

/* Which memory of the domain it lies in. */
static unsigned kind_of(uint32_t rights)
{
    return (rights & (TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP)) != 0 ? 1 : 0;
}

static uint64_t sums_bytes(const struct sim_region *region)
{
    return region->is_blank ? 0 : (region->bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * sizeof(*region->sums);
}

/* Let a part of that time pass. */
static void take_part(const struct sim_device *device, uint64_t ns)
{
    uint64_t *paged_ns = &device->node->paged_ns;
    if (!device->net->options.pages_in_turn) {
        (void)task_sleep(ns);
        return;
    }
    *paged_ns = base_max(*paged_ns, device->net->world->now_ns) + ns;
    (void)task_sleep(*paged_ns - device->net->world->now_ns);
}

/* Let the time pass that making a region takes, in which its scheduler has other tasks. One that is cancelled takes no more. */
static void take_time(const struct sim_device *device, const struct tarn_fabric_region *region,
                      uint64_t gigabyte_ns)
{
    const uint64_t part = gigabyte_ns == 0 ? region->bytes : LOOK_NS * GIGABYTE / gigabyte_ns + 1;
    for (uint64_t at = 0; at < region->bytes; at += part) {
        fabric_region_progress(region, at);
        take_part(device, base_min(part, region->bytes - at) * gigabyte_ns / GIGABYTE);
    }
}

/* Take room for a region in its domain, then the time that making it takes. @return 0; -ENOSPC */
static int begin_region(struct sim_domain *domain, const struct tarn_fabric_region *region,
                        uint64_t gigabyte_ns)
{
    const unsigned kind = kind_of(region->handle.rights);
    const uint64_t most = kind == 0 ? domain->options.readable_bytes : domain->options.writable_bytes;
    const uint64_t taken = region->is_callers ? 0 : region->bytes;
    sim_domain_reap(domain);
    if (taken > most - domain->used_bytes[kind] || domain->regions_count == domain->options.regions_max)
        return -ENOSPC;
    domain->used_bytes[kind] += taken;
    domain->regions_count++;
    take_time(domain->device, region, gigabyte_ns);
    return 0;
}

/* Export memory. */
static void export_memory(struct sim_domain *domain, struct tarn_fabric_region *region)
{
    struct sim_net *net = domain->device->net;
    struct sim_region *own = sim_net_alloc(net, sizeof(*own));
    own->domain = domain;
    own->key = ++net->names;
    own->bytes = region->bytes;
    own->rights = region->handle.rights;
    own->memory = region->memory;
    own->is_callers = region->is_callers;
    own->is_blank = sim_net_is_blank(net, region->bytes);
    own->sums = own->is_blank ? NULL : sim_net_alloc(net, sums_bytes(own));
    base_list_init(&own->readers);
    base_list_push_back(&net->regions, &own->every);
    base_list_push_back(&domain->regions, &own->link);
    region->handle.domain = domain->name;
    region->handle.key = own->key;
    region->mem = &mem_operations;
    region->state = own;
}

static void *alloc_memory(struct sim_net *net, uint64_t bytes)
{
    void *memory = sim_net_is_blank(net, bytes)
                       ? base_map(&net->world->memory, BASE_PAGE_BYTES, bytes)
                       : base_alloc_aligned(&net->world->memory, BASE_PAGE_BYTES, bytes);
    base_assert(memory != NULL); /* as sim_net_alloc() */
    return memory;
}

static void free_memory(struct sim_net *net, struct sim_region *region)
{
    if (region->is_blank)
        base_unmap(&net->world->memory, region->memory, region->bytes);
    else
        sim_net_free(net, region->memory, region->bytes);
}

int sim_region_touch(void *state, struct tarn_fabric_region *region)
{
    const struct sim_device *device = ((const struct sim_domain *)state)->device;
    if (!sim_net_is_blank(device->net, region->bytes))
        return fabric_region_populate(region, region->memory);
    take_time(device, region, device->net->options.touched_ns);
    return 0;
}

int sim_region_alloc(void *state, struct tarn_fabric_region *region)
{
    struct sim_domain *domain = state;
    struct sim_net *net = domain->device->net;
    int error = begin_region(domain, region, net->options.touched_ns);
    if (error != 0)
        return error;
    region->memory = alloc_memory(net, region->bytes);
    export_memory(domain, region);
    return 0;
}

int sim_region_register(void *state, struct tarn_fabric_region *region)
{
    struct sim_domain *domain = state;
    int error = begin_region(domain, region, domain->device->net->options.registered_ns);
    if (error != 0)
        return error;
    export_memory(domain, region);
    struct sim_region *own = region->state;
    if (own->is_blank)
        return 0;
    for (uint64_t block = 0; block * BLOCK_BYTES < own->bytes; block++)
        own->sums[block] = sum_block(own, block);
    base_list_for_each(item, &domain->device->net->regions) {
        struct sim_region *other = base_container_of(item, struct sim_region, every);
        if (other != own && own->memory < other->memory + other->bytes &&
            other->memory < own->memory + own->bytes) {
            add_sharer(own, other);
            add_sharer(other, own);
        }
    }
    return 0;
}

void sim_region_free(void *state, struct tarn_fabric_region *region)
{
    struct sim_domain *domain = state;
    struct sim_region *own = region->state;
    compare(own, 0, own->bytes);
    own->freed = true;
    if (own->is_callers)
        sim_ops_take_back(own);
    else
        own->quarantine = domain->sides_made;
    sim_domain_reap(domain);
}

void sim_region_destroy(struct sim_region *region)
{
    struct sim_domain *domain = region->domain;
    struct sim_net *net = domain->device->net;
    base_assert(base_list_empty(&region->readers) && region->users == 0);
    base_list_remove(&region->link);
    base_list_remove(&region->every);
    if (region->sharer_count > 0)
        remove_sharer(region);
    domain->regions_count--;
    if (!region->is_callers) {
        domain->used_bytes[kind_of(region->rights)] -= region->bytes;
        free_memory(net, region);
    }
    sim_net_free(net, region->sums, sums_bytes(region));
    base_free(&net->world->memory, region->changes, region->change_room * sizeof(*region->changes));
    base_free(&net->world->memory, region->late, region->late_room * sizeof(*region->late));
    sim_net_free(net, region, sizeof(*region));
}

bool sim_region_tears(const struct sim_op *op)
{
    const bool is_bulk = (op->region->rights & TARN_FABRIC_BULK) != 0;
    return !op->whole && sim_net_has(op->region->domain->device->net,
                                     SIM_NET_TORN_WORD | (is_bulk ? (uint32_t)SIM_NET_TORN_BULK : 0));
}

/* ---- READ --------------------------------------------------------------------------------------- */

void sim_region_read_begin(struct sim_op *op)
{
    base_list_push_back(&op->region->readers, &op->reader);
}

void sim_region_read_end(struct sim_op *op)
{
    struct sim_region *region = op->region;
    base_list_remove(&op->reader);
    const struct base_list *first = base_list_first(&region->readers);
    if (first == NULL)
        region->change_count = 0;
    if (region->change_count < CHANGES_KEPT)
        return;
    uint64_t begun = base_container_of(first, struct sim_op, reader)->begun, old = 0;
    while (old < region->change_count && region->changes[old].tick <= begun)
        old++;
    region->change_count -= old;
    memmove(region->changes, region->changes + old, region->change_count * sizeof(*region->changes));
}

/* Words of the region that bytes lie in. */
struct span {
    uint64_t first;
    uint64_t count;
};

static struct span span_of(uint64_t offset, uint64_t bytes)
{
    struct span span = {.first = offset / SIM_WORD_BYTES};
    if (bytes > 0)
        span.count = (offset + bytes - 1) / SIM_WORD_BYTES - span.first + 1;
    return span;
}

/* Draw which value each word is taken with, among those that it had. @param values  as they are now */
static void draw_values(const struct sim_op *op, const struct span *span, uint64_t *values)
{
    const struct sim_region *region = op->region;
    struct sim_net *net = region->domain->device->net;
    enum sim_pattern pattern = (enum sim_pattern)sim_net_draw(net, SIM_PATTERNS);
    uint64_t split = sim_net_draw(net, span->count + 1); /* words on one side of it are old */
    uint32_t *seen = sim_net_alloc(net, span->count * sizeof(*seen));
    for (uint64_t i = region->change_count; i > 0 && region->changes[i - 1].tick > op->begun; i--) {
        const struct sim_change *change = &region->changes[i - 1];
        uint64_t word = change->word - span->first;
        if (word >= span->count)
            continue;
        bool older = pattern == SIM_FORWARD    ? word < split
                     : pattern == SIM_BACKWARD ? word >= split
                                               : sim_net_draw(net, ++seen[word] + 1) == 0;
        if (older)
            values[word] = change->before;
    }
    sim_net_free(net, seen, span->count * sizeof(*seen));
}

/* What tasks are going to store when the time is over that they were charged is not there yet. */
static void hide_late(struct sim_region *region, const struct span *span, uint64_t *values)
{
    forget_late(region, region->domain->device->net->world->now_ns);
    for (uint64_t i = region->late_count; i > 0; i--) {
        const uint64_t word = region->late[i - 1].word - span->first;
        if (word < span->count)
            values[word] = region->late[i - 1].before;
    }
}

static void load_values(const struct sim_op *op, const struct span *span, uint64_t *values)
{
    sim_net_copy(values, op->region->memory + span->first * SIM_WORD_BYTES, span->count * SIM_WORD_BYTES);
    hide_late(op->region, span, values);
    if (sim_net_has(op->region->domain->device->net, SIM_NET_TORN_READ | SIM_NET_TORN_WORD) ||
        sim_region_tears(op))
        draw_values(op, span, values);
}

void sim_region_sample(const struct sim_op *op, uint8_t *to)
{
    struct sim_net *net = op->region->domain->device->net;
    const struct span span = span_of(op->offset, op->bytes);
    uint64_t room = span.count * SIM_WORD_BYTES;
    uint64_t *values = sim_net_alloc(net, 2 * room);
    compare(op->region, span.first * SIM_WORD_BYTES, room);
    load_values(op, &span, values);
    if (sim_region_tears(op)) { /* some bytes of this, some of that */
        uint64_t *others = values + span.count;
        load_values(op, &span, others);
        for (uint64_t i = 0; i < room; i++) {
            if (sim_net_draw(net, 2) == 0)
                ((uint8_t *)values)[i] = ((uint8_t *)others)[i];
        }
    }
    sim_net_copy(to, (uint8_t *)values + op->offset % SIM_WORD_BYTES, op->bytes);
    sim_net_free(net, values, 2 * room);
}

/* ---- WRITE -------------------------------------------------------------------------------------- */

/* A piece is what of a word is written, or a byte of it. */
static void land_piece(struct sim_op *op, uint64_t piece)
{
    uint64_t from = piece, to = piece + 1;
    if (!sim_region_tears(op)) {
        uint64_t before = op->offset % SIM_WORD_BYTES; /* the first word's bytes that stay */
        from = piece == 0 ? 0 : piece * SIM_WORD_BYTES - before;
        to = base_min((piece + 1) * SIM_WORD_BYTES - before, op->bytes);
    }
    change_bytes(op->region, op->offset + from, op->data + from, to - from);
}

bool sim_region_land(struct sim_op *op)
{
    struct sim_net *net = op->region->domain->device->net;
    if (op->region->is_blank) {
        op->landed = true;
        return true;
    }
    if (op->moved == NULL) {
        const struct span span = span_of(op->offset, op->bytes);
        op->piece_count = sim_region_tears(op) ? op->bytes : span.count;
        op->pieces_left = op->piece_count;
        op->moved = sim_net_alloc(net, op->piece_count);
    }
    uint64_t left = op->pieces_left;
    uint64_t now = op->pulses_left <= 1 ? left : sim_net_draw(net, left + 1);
    for (uint64_t i = 0; i < op->piece_count && now > 0; i++) {
        uint64_t piece = op->pattern == SIM_BACKWARD ? op->piece_count - 1 - i : i;
        if (op->moved[piece] != 0)
            continue;
        /* this many of the remaining lanes, each with the same chance; or the first ones */
        if (op->pattern != SIM_MIXED || sim_net_draw(net, left) < now) {
            op->moved[piece] = 1;
            op->pieces_left--;
            now--;
            land_piece(op, piece);
        }
        left--;
    }
    op->pulses_left -= op->pulses_left > 0;
    op->landed = op->pieces_left == 0;
    return op->landed;
}

void sim_region_spoil(struct sim_op *op)
{
    struct sim_net *net = op->region->domain->device->net;
    if ((op->region->rights & TARN_FABRIC_BULK) == 0 || op->region->is_blank ||
        !sim_net_has(net, SIM_NET_TORN_BULK))
        return;
    for (uint64_t i = 0; i < op->bytes; i++)
        op->data[i] = (uint8_t)sim_net_draw(net, 256);
    op->pulses_left = 2; /* some of it */
    (void)sim_region_land(op);
    op->landed = false;
    sim_net_free(net, op->data, op->bytes);
    op->data = NULL;
}

/* ---- waiting for a word ------------------------------------------------------------------------- */

/* Count the words of a watcher, or take them away again. */
static void count_watched(const struct sim_watcher *watcher, uint32_t by)
{
    for (uint32_t i = 0; i < watcher->count; i++) {
        const struct sim_region *region = watcher->words[i].region->state;
        watcher->device->net->watched[sim_page_of(region->memory + watcher->words[i].offset)] += by;
    }
}

int sim_net_wait_any(void *state, const struct tarn_fabric_word *words, uint32_t count, uint64_t deadline_ns,
                     uint32_t *ret_index)
{
    struct sim_device *device = state;
    for (;;) {
        for (uint32_t i = 0; i < count; i++) {
            if (tarn_fabric_mem_load64(words[i].region, words[i].offset) != words[i].old) {
                *ret_index = i;
                return 0;
            }
        }
        struct sim_watcher watcher = {.device = device, .words = words, .count = count};
        task_wait_init(&watcher.wait);
        base_list_push_back(&device->net->watchers, &watcher.link);
        count_watched(&watcher, 1);
        int error = task_wait_park(&watcher.wait, deadline_ns);
        base_list_remove(&watcher.link);
        count_watched(&watcher, UINT32_MAX);
        if (error != 0)
            return error;
    }
}
