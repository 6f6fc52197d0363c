/*
 * Requests of a stripe. Each is cut into parts, at most one for each member, that are in flight together; a
 * part is a request of its own to its member. Parts come from a pool that is filled when the stripe is opened.
 * A request takes as many as it needs; if there are fewer, it goes in several rounds, and it waits only if
 * there is none at all.
 *
 *   posted ──▶ WAITING ──▶ ROUND ──▶ ROUND … ──▶ finished
 *        └───────────────────▲ first part had           last part of a round is done, and nothing is left
 *
 * A request that waits for a part holds none, and parts that are held are in flight: so every request gets its turn.
 */
#include "drive/stripe.h"
#include <errno.h>

#define PARTS_PER_MEMBER 128 /* depth of a drive's queue that keeps it busy */
#define PART_IOV_MAX     32

/* A request of a stripe to one of its members. */
struct drive_part {
    struct drive_request request;
    struct base_list link;   /* in stripe->free, or in head->others */
    struct drive_part *head; /* the first part of the request that it belongs to */
    struct iovec iov[PART_IOV_MAX];

    /* of a head */
    struct drive_stripe *stripe;
    struct drive_request *whole;
    struct base_list others; /* parts of this round besides the head */
    uint64_t cut;            /* bytes that have become parts so far; of a flush, members */
    uint32_t vector;         /* index of the next vector in whole->iov */
    size_t vector_cut;       /* bytes of that vector that have become parts */
    uint32_t parts;          /* number of parts of this round, the head included */
    _Atomic uint32_t
        pending; /* number of these in flight; a plain thread that still posts them counts as one more */
    _Atomic int32_t result; /* 0, or the first error */
    struct task_wait wait;  /* a plain thread's wait for the parts that it has handed over */
};

/* ---- parts -------------------------------------------------------------------------------------- */

int drive_split_init(struct drive_stripe *stripe)
{
    stripe->part_count = stripe->count * PARTS_PER_MEMBER;
    stripe->parts = base_alloc(&stripe->node->memory, stripe->part_count * sizeof(*stripe->parts));
    if (stripe->parts == NULL)
        return -ENOMEM;
    base_spin_init(&stripe->lock);
    base_list_init(&stripe->free);
    base_list_init(&stripe->waiting);
    for (uint32_t i = 0; i < stripe->part_count; i++)
        base_list_push_back(&stripe->free, &stripe->parts[i].link);
    return 0;
}

void drive_split_deinit(struct drive_stripe *stripe)
{
    if (stripe->parts != NULL)
        base_free(&stripe->node->memory, stripe->parts, stripe->part_count * sizeof(*stripe->parts));
}

static struct drive_part *of_link(struct base_list *item)
{
    return item == NULL ? NULL : base_container_of(item, struct drive_part, link);
}

static struct drive_part *take_part(struct drive_stripe *stripe)
{
    base_spin_lock(&stripe->lock);
    struct drive_part *part = of_link(base_list_pop_front(&stripe->free));
    base_spin_unlock(&stripe->lock);
    return part;
}

/* Take the first part of a request. @return NULL: the request was queued for the next part that comes back */
static struct drive_part *take_head(struct drive_stripe *stripe, struct drive_request *whole)
{
    base_spin_lock(&stripe->lock);
    struct drive_part *head = of_link(base_list_pop_front(&stripe->free));
    if (head == NULL)
        base_list_push_back(&stripe->waiting, &whole->io.link);
    base_spin_unlock(&stripe->lock);
    return head;
}

/* Give a part back: to the request that has waited longest, if one waits. */
static void put_part(struct drive_stripe *stripe, struct drive_part *part)
{
    base_spin_lock(&stripe->lock);
    struct base_list *first = base_list_pop_front(&stripe->waiting);
    if (first == NULL)
        base_list_push_front(&stripe->free, &part->link);
    base_spin_unlock(&stripe->lock);
    if (first == NULL)
        return;
    struct drive_request *next = base_container_of(first, struct drive_request, io.link);
    next->io.arg = part;
    drive_resume(next);
}

/* ---- cutting ------------------------------------------------------------------------------------ */

static void part_done(struct drive_request *request);

/* The part of a member in a round, taken from the pool if there is none yet. @return NULL: the pool is empty */
static struct drive_part *part_of(struct drive_part *head, uint32_t place,
                                  struct drive_part *of[DRIVE_MEMBERS_MAX])
{
    struct drive_part *part = of[place];
    if (part != NULL)
        return part;
    part = head->parts == 0 ? head : take_part(head->stripe);
    if (part == NULL)
        return NULL;
    if (part != head)
        base_list_push_back(&head->others, &part->link);
    part->head = head;
    part->request = (struct drive_request){.op = head->whole->op,
                                           .durable = head->whole->durable,
                                           .iov = part->iov,
                                           .region = head->whole->region,
                                           .done = part_done,
                                           .arg = part};
    head->parts++;
    of[place] = part;
    return part;
}

/* Add the next piece of the request's memory to a part, at most bytes_max. @return bytes added */
static uint64_t add_memory(struct drive_part *head, struct drive_part *part, uint64_t bytes_max)
{
    const struct iovec *from = &head->whole->iov[head->vector];
    uint64_t bytes = base_min(bytes_max, (uint64_t)(from->iov_len - head->vector_cut));
    if (bytes > 0)
        part->iov[part->request.iov_count++] =
            (struct iovec){.iov_base = (uint8_t *)from->iov_base + head->vector_cut, .iov_len = bytes};
    head->vector_cut += bytes;
    if (head->vector_cut == from->iov_len) {
        head->vector++;
        head->vector_cut = 0;
    }
    return bytes;
}

/* Make the part of a request that lies in one unit, as most do: it needs no vectors of its own. */
static void cut_unit(struct drive_part *head, struct drive_part *part)
{
    struct drive_request *whole = head->whole;
    part->request.iov = whole->iov;
    part->request.iov_count = whole->iov_count;
    part->request.discard_bytes = whole->discard_bytes;
    head->cut = whole->expected_bytes;
}

/* Find the member and the offset of an address of the stripe. @return number of bytes that follow contiguously there */
static uint64_t locate_address(const struct drive_stripe *stripe, uint64_t offset, uint32_t *ret_place,
                               uint64_t *ret_offset)
{
    const struct drive_member *members = stripe->members;
    const uint32_t round_count = stripe->round_count;
    if (round_count == stripe->count || offset < members[round_count].begin_bytes) {
        const uint64_t unit_bytes = UINT64_C(1) << stripe->unit_shift;
        const uint64_t unit = offset >> stripe->unit_shift, within = offset & (unit_bytes - 1);
        *ret_place = (uint32_t)(unit % round_count);
        *ret_offset = ((unit / round_count + 1) << stripe->unit_shift) + within;
        return unit_bytes - within;
    }
    uint32_t place = stripe->count - 1;
    while (offset < members[place].begin_bytes)
        place--;
    *ret_place = place;
    *ret_offset = offset - members[place].begin_bytes + members[place].skip_bytes;
    return place + 1 < stripe->count ? members[place + 1].begin_bytes - offset : UINT64_MAX;
}

/* Cut the next piece, which lies in one unit, or on an appended member. @return false: this round has no room for it */
static bool cut_piece(struct drive_part *head, struct drive_part *of[DRIVE_MEMBERS_MAX])
{
    const struct drive_request *whole = head->whole;
    uint32_t place;
    uint64_t offset;
    uint64_t bytes = locate_address(head->stripe, whole->offset + head->cut, &place, &offset);
    bytes = base_min(bytes, whole->expected_bytes - head->cut);
    bool first = of[place] == NULL;
    struct drive_part *part = part_of(head, place, of);
    if (part == NULL || part->request.iov_count == PART_IOV_MAX)
        return false;
    if (first)
        part->request.offset = offset;
    if (bytes == whole->expected_bytes) {
        cut_unit(head, part);
        return true;
    }
    if (whole->op == DRIVE_DISCARD)
        part->request.discard_bytes += bytes;
    else
        bytes = add_memory(head, part, bytes);
    head->cut += bytes;
    return true;
}

static bool cut_member(struct drive_part *head, struct drive_part *of[DRIVE_MEMBERS_MAX])
{
    if (part_of(head, (uint32_t)head->cut, of) == NULL)
        return false;
    head->cut++;
    return true;
}

static bool is_cut(const struct drive_part *head)
{
    const struct drive_request *whole = head->whole;
    return head->cut == (whole->op == DRIVE_FLUSH ? head->stripe->count : whole->expected_bytes);
}

static void cut_round(struct drive_part *head, struct drive_part *of[DRIVE_MEMBERS_MAX])
{
    bool room = true;
    head->parts = 0;
    while (room && !is_cut(head))
        room = head->whole->op == DRIVE_FLUSH ? cut_member(head, of) : cut_piece(head, of);
    base_assert(head->parts > 0); /* the head itself takes the first piece */
}

/* ---- posting ------------------------------------------------------------------------------------ */

static void post_round(struct drive_part *head)
{
    struct drive_part *of[DRIVE_MEMBERS_MAX] = {NULL};
    cut_round(head, of);
    struct drive_stripe *stripe = head->stripe;
    atomic_store_explicit(&head->pending, head->parts, memory_order_relaxed);
    for (uint32_t place = 0; place < stripe->count; place++) {
        if (of[place] != NULL)
            drive_post(stripe->members[place].drive, &of[place]->request);
    }
}

/* Whether the parts are worth waking the member threads: they wait for a device, or are no small copies of memory. */
static bool is_worth_threads(const struct drive_part *head)
{
    const struct drive_request *whole = head->whole;
    return head->parts > 1 && (whole->op == DRIVE_FLUSH || whole->op == DRIVE_DISCARD || whole->durable ||
                               whole->expected_bytes >> head->stripe->unit_shift > 0);
}

/* Do a round in a plain thread: all parts are done on return. */
static void do_round(struct drive_part *head)
{
    struct drive_part *of[DRIVE_MEMBERS_MAX] = {NULL};
    cut_round(head, of);
    struct drive_stripe *stripe = head->stripe;
    bool shared = is_worth_threads(head) && drive_member_threads_ready(stripe);
    uint32_t place = 0;
    task_wait_init(&head->wait);
    atomic_store_explicit(&head->pending, head->parts + 1, memory_order_relaxed);
    for (; shared && place < stripe->count; place++) {
        if (of[place] != NULL && of[place] != head)
            drive_member_post(stripe, place, &of[place]->request);
    }
    for (place = 0; place < stripe->count; place++) {
        if (of[place] != NULL && (!shared || of[place] == head))
            drive_post(stripe->members[place].drive, &of[place]->request);
    }
    /* acquire: pairs with the release of the thread that finished the last part, whose memory and result are seen */
    if (atomic_fetch_sub_explicit(&head->pending, 1, memory_order_acq_rel) > 1)
        (void)task_wait_park_firmly(&head->wait);
}

/* ---- the life of a request ---------------------------------------------------------------------- */

/* End a round whose parts are all done. @return whether another round follows */
static bool end_round(struct drive_part *head)
{
    struct base_list *item;
    while ((item = base_list_pop_front(&head->others)) != NULL)
        put_part(head->stripe, of_link(item));
    return atomic_load_explicit(&head->result, memory_order_relaxed) == 0 && !is_cut(head);
}

static void part_done(struct drive_request *request)
{
    struct drive_part *part = request->arg, *head = part->head;
    struct drive_request *whole = head->whole;
    int32_t none = 0;
    if (request->result != 0)
        (void)atomic_compare_exchange_strong_explicit(&head->result, &none, request->result,
                                                      memory_order_relaxed, memory_order_relaxed);
    /* release: pairs with the acquire of the thread in do_round(); in a task all parts finish on its
     * scheduler */
    if (atomic_fetch_sub_explicit(&head->pending, 1, memory_order_acq_rel) > 1)
        return;
    if (whole->sched == NULL) {
        (void)task_wait_wake(&head->wait, 0);
        return;
    }
    if (end_round(head)) {
        post_round(head);
        return;
    }
    int32_t result = atomic_load_explicit(&head->result, memory_order_relaxed);
    put_part(head->stripe, head);
    drive_finish(whole, result);
}

/* Start a request that has its first part, in request->io.arg. In the request's own context. */
static void begin_parts(struct drive_request *whole)
{
    struct drive_part *head = whole->io.arg;
    head->stripe = whole->drive->state;
    head->whole = whole;
    base_list_init(&head->others);
    head->cut = 0;
    head->vector = 0;
    head->vector_cut = 0;
    atomic_store_explicit(&head->result, 0, memory_order_relaxed);
    if (whole->sched != NULL) {
        post_round(head);
        return;
    }
    do
        do_round(head);
    while (end_round(head));
    int32_t result = atomic_load_explicit(&head->result, memory_order_relaxed);
    put_part(head->stripe, head);
    drive_finish_now(whole, result);
}

void drive_split_post(void *state, struct drive_request *request)
{
    struct drive_stripe *stripe = state;
    struct task_wait wait;
    base_assert(stripe->established ||
                request->op ==
                    DRIVE_READ); /* the user of the drive calls drive_establish() before it writes */
    drive_put_aside(request, &wait, begin_parts);
    struct drive_part *head = take_head(stripe, request);
    if (head == NULL) {
        drive_stay(request);
        return;
    }
    request->io.arg = head;
    begin_parts(request);
}
