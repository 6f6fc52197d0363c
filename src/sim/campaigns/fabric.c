/*
 * Campaign `fabric`: nodes export memory, visit each other's and work there, while nodes are killed and stopped and
 * links are cut. Each word that is ever seen tells who wrote it and when, so it is known whether it may be seen;
 * what is counted is counted here, too. In the end everything has been given back.
 *
 *   a host's region:  [adds│swaps│…│what the host publishes│slot of a visit│slot│…]
 *
 * Some hosts export it a second time, from another domain, in some worlds for bulk data: half of their guests come by that
 * one. Now and then such a host takes it back and exports it anew.
 */
#include "fabric/fabric.h"
#include "base/base.h"
#include "sim/arena.h"
#include "sim/campaigns/campaign_internal.h"
#include "sim/cards.h"
#include <errno.h>
#include <inttypes.h>

enum {
    NODES_MAX = 4,
    VISITORS_MAX = 2, /* of a node at once */
    SLOTS = 6,
    SLOT_WORDS = 12,
    PUBLISHED_WORDS = 8,
    RECEIVE_COUNT = 3,
    ADDS = 0, /* places in the region, in words */
    SWAPS = 1,
    PUBLISHED = 8,
    FIRST_SLOT = 32,
    COUNTS_MAX = 4096, /* of adds, and of swaps */
    TAG = 1,
};

#define REGION_BYTES ((uint64_t)(FIRST_SLOT + SLOTS * SLOT_WORDS) * 8)

struct play;

/* One life of a node. */
struct host {
    struct host *next; /* all that ever were */
    struct play *play;
    struct sim_node *node; /* NULL: it has ended */
    uint32_t number;       /* of the node */
    uint32_t scheds;
    struct base_random random;
    struct tarn_fabric *fabric;
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *region;
    struct tarn_fabric_domain *second; /* NULL: there is one domain */
    struct tarn_fabric_region *again;  /* the same memory, of the second domain */
    struct tarn_fabric_listener *listener;
    uint64_t publishing, published; /* rounds: begun, done */
    uint32_t guests;                /* visitors of it that run */
    uint32_t visits;                /* that it serves */
    bool slots_used[SLOTS];
    bool slots_second[SLOTS]; /* they were last given to a guest of the second domain */
    uint64_t adds_begun, adds_done;
    uint64_t swaps_begun, swaps_done;
    bool added[COUNTS_MAX];   /* somebody was told that the count was this before */
    bool swapped[COUNTS_MAX]; /* somebody has made this one more */
};

/* A connection and what it does to its slot. */
struct visit {
    struct visit *next;
    struct host *guest; /* the host that visits */
    struct host *host;  /* once it is known */
    uint64_t number;
    uint64_t begun, done; /* the latest round of its slot that was posted, and that has completed */
    uint64_t told;        /* messages that were sent */
    uint32_t slot;
    bool is_second; /* of its host's domains */
    struct tarn_fabric_handle handle;
    struct tarn_fabric_connection *connection;
    struct base_random random;
};

struct play {
    struct sim_arena arena;
    struct host *hosts;
    struct host *current[NODES_MAX]; /* NULL: the node is down */
    uint32_t visitors;
    bool is_bulk;                /* what second domains export */
    const struct sim_card *card; /* of all nodes; NULL: none, the network takes its own time */
    struct visit *visits;
    uint64_t visits_made;
    uint32_t guests; /* visitors that have not ended */
};

static struct play *play_of(struct sim_arena *arena)
{
    return base_container_of(arena, struct play, arena);
}

/* What the two tell each other when they meet. */
struct greeting {
    uint64_t visit;
    uint64_t slot;
    uint8_t handle[TARN_FABRIC_HANDLE_BYTES];
};

_Static_assert(sizeof(struct greeting) <= TARN_FABRIC_PRIVATE_BYTES_MAX, "it is private data");

/* ---- words -------------------------------------------------------------------------------------- */

#define ROUND_BITS 20

/* What a word of a slot or of what is published holds; 0 is what nobody wrote. It has the round twice, so that bytes
 * of two rounds make none. */
static uint64_t word_of(uint64_t who, uint64_t round, uint64_t place)
{
    return who << (2 * ROUND_BITS + 8) | round << (ROUND_BITS + 8) | round << 8 | (place + 1);
}

/* Where a word of the region is. */
static uint64_t offset_of(uint64_t word)
{
    return word * 8;
}

static uint64_t slot_offset(uint64_t slot)
{
    return offset_of(FIRST_SLOT + slot * SLOT_WORDS);
}

static bool words_are_whole(const struct host *host)
{
    return tarn_fabric_info(host->fabric)->whole_words && !host->play->is_bulk;
}

/*
 * Words must be of rounds that could be there: none before `oldest`, none after `newest`. If these are one, all must
 * be of it; else, where words may be torn, nothing can be said.
 */
static void check_words(const struct host *reader, const char *what, const uint64_t *words, uint32_t count,
                        uint64_t who, uint64_t oldest, uint64_t newest)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t round = words[i] >> 8 & ((UINT64_C(1) << ROUND_BITS) - 1);
        if (oldest == newest ? words[i] == word_of(who, newest, i)
                             : !words_are_whole(reader) ||
                                   (words[i] == word_of(who, round, i) && round >= oldest && round <= newest))
            continue;
        sim_fail(reader->play->arena.world,
                 "%s: word %" PRIu32 " of %" PRIu64 " is %#" PRIx64 ", rounds %" PRIu64 " to %" PRIu64
                 " could be there",
                 what, i, who, words[i], oldest, newest);
        return;
    }
}

/* ---- rounds of a visit -------------------------------------------------------------------------- */

static uint64_t draw_below(struct visit *visit, uint64_t n)
{
    return base_random_below(&visit->random, n);
}

static uint64_t deadline(struct visit *visit)
{
    bool impatient =
        (visit->guest->play->arena.events & SIM_ARENA_IMPATIENCE) != 0 && draw_below(visit, 64) == 0;
    return task_now() + (impatient ? draw_below(visit, 4000) : 10 * BASE_NS_PER_SECOND);
}

static void fill_slot(struct visit *visit, uint64_t *words)
{
    visit->begun++;
    for (uint32_t i = 0; i < SLOT_WORDS; i++)
        words[i] = word_of(visit->number, visit->begun, i);
}

static struct tarn_fabric_op slot_op(const struct visit *visit, enum tarn_fabric_op_kind kind,
                                     const struct iovec *iov)
{
    return (struct tarn_fabric_op){.kind = kind,
                                   .tag = TAG,
                                   .handle = &visit->handle,
                                   .offset = slot_offset(visit->slot),
                                   .iov = iov,
                                   .iov_count = 1};
}

static int post_and_wait(struct visit *visit, struct tarn_fabric_op *ops, uint32_t count)
{
    tarn_fabric_post(visit->connection, ops, count);
    return tarn_fabric_wait(ops, count, deadline(visit));
}

/* Make a message's content: the round whose WRITE came before it, and the message's number. */
static uint32_t make_content(struct visit *visit)
{
    return (uint32_t)(++visit->told << 16 | (visit->begun & UINT16_MAX));
}

/* WRITE the slot and tell the host, once or several times, in one batch. */
static int write_and_tell(struct visit *visit)
{
    uint64_t words[SLOT_WORDS];
    uint32_t told[RECEIVE_COUNT + 1];
    struct iovec iov[RECEIVE_COUNT + 2] = {{.iov_base = words, .iov_len = sizeof(words)}};
    struct tarn_fabric_op ops[RECEIVE_COUNT + 2];
    uint32_t messages = draw_below(visit, 4) == 0 ? RECEIVE_COUNT + 1 : 1;
    bool notify = draw_below(visit, 2) == 0; /* by the WRITE itself */
    fill_slot(visit, words);
    ops[0] = slot_op(visit, notify ? TARN_FABRIC_WRITE_NOTIFY : TARN_FABRIC_WRITE, &iov[0]);
    if (notify) {
        ops[0].value = make_content(visit);
        messages--;
    }
    for (uint32_t i = 0; i < messages; i++) {
        told[i] = make_content(visit);
        iov[i + 1] = (struct iovec){.iov_base = &told[i], .iov_len = sizeof(told[i])};
        ops[i + 1] =
            (struct tarn_fabric_op){.kind = TARN_FABRIC_SEND, .tag = TAG, .iov = &iov[i + 1], .iov_count = 1};
    }
    int error = post_and_wait(visit, ops, messages + 1);
    if (error == 0)
        visit->done = visit->begun;
    return error;
}

static int read_back(struct visit *visit)
{
    uint64_t words[SLOT_WORDS];
    int error = tarn_fabric_read(visit->connection, TAG, &visit->handle, slot_offset(visit->slot), words,
                                 sizeof(words), deadline(visit));
    if (error == 0 && visit->done > 0)
        check_words(visit->guest, "what was written", words, SLOT_WORDS, visit->number, visit->done,
                    visit->begun);
    return error;
}

/* Each operation waits for the one before it. */
static int chain(struct visit *visit)
{
    uint64_t words[SLOT_WORDS], back[SLOT_WORDS];
    const struct iovec out = {.iov_base = words, .iov_len = sizeof(words)};
    const struct iovec in = {.iov_base = back, .iov_len = sizeof(back)};
    fill_slot(visit, words);
    struct tarn_fabric_op ops[2] = {slot_op(visit, TARN_FABRIC_WRITE, &out),
                                    slot_op(visit, TARN_FABRIC_READ, &in)};
    ops[1].fence = true;
    int error = post_and_wait(visit, ops, 2);
    if (error != 0)
        return error;
    visit->done = visit->begun;
    check_words(visit->guest, "the end of a chain", back, SLOT_WORDS, visit->number, visit->done,
                visit->done);
    return 0;
}

/* An FAA has told what was there before. @param least  as many were done when it began */
static void note_add(struct host *host, uint64_t least, uint64_t before)
{
    if (before < least || before >= host->adds_begun || host->added[before])
        sim_fail(host->play->arena.world,
                 "an FAA was told %" PRIu64 "%s; %" PRIu64 " to %" PRIu64 " could be", before,
                 before < COUNTS_MAX && host->added[before] ? " like another" : "", least,
                 host->adds_begun - 1);
    else
        host->added[before] = true;
    host->adds_done++;
}

static bool may_swap(const struct visit *visit)
{
    return (visit->handle.rights & TARN_FABRIC_MAY_SWAP) != 0;
}

static int add(struct visit *visit)
{
    struct host *host = visit->host;
    uint64_t least = host->adds_done, before;
    if (host->adds_begun == COUNTS_MAX || !may_swap(visit))
        return 0;
    host->adds_begun++;
    int error =
        tarn_fabric_faa(visit->connection, TAG, &visit->handle, offset_of(ADDS), 1, deadline(visit), &before);
    if (error != 0)
        return error;
    note_add(host, least, before);
    return 0;
}

/* One more by CAS, if nobody is quicker. */
static int swap(struct visit *visit)
{
    struct host *host = visit->host;
    uint64_t expected = host->swaps_done, before;
    bool swapped = false;
    for (unsigned i = 0; i < 3; i++) {
        if (host->swaps_begun == COUNTS_MAX || !may_swap(visit))
            return 0;
        host->swaps_begun++;
        int error = tarn_fabric_cas(visit->connection, TAG, &visit->handle, offset_of(SWAPS), expected,
                                    expected + 1, deadline(visit), &before);
        if (error != 0)
            return error;
        swapped = before == expected;
        if (swapped)
            break;
        host->swaps_begun--;
        if (before < expected || before > host->swaps_begun) {
            sim_fail(host->play->arena.world, "a CAS was told %" PRIu64 ", expected %" PRIu64, before,
                     expected);
            return 0;
        }
        expected = before;
    }
    if (!swapped)
        return 0;
    if (host->swapped[expected])
        sim_fail(host->play->arena.world, "two CAS have swapped %" PRIu64, expected);
    host->swapped[expected] = true;
    host->swaps_done++;
    return 0;
}

static int read_published(struct visit *visit)
{
    uint64_t words[PUBLISHED_WORDS], oldest = visit->host->published;
    int error = tarn_fabric_read(visit->connection, TAG, &visit->handle, offset_of(PUBLISHED), words,
                                 sizeof(words), deadline(visit));
    if (error == 0)
        check_words(visit->guest, "what a host publishes", words, PUBLISHED_WORDS, visit->host->number,
                    oldest, visit->host->publishing);
    return error;
}

/* One word of what is published, or the count of adds: whole, also where words are torn; or refused. */
static int read_whole(struct visit *visit)
{
    const struct host *host = visit->host;
    const uint64_t place = draw_below(visit, PUBLISHED_WORDS + 1), oldest = host->published;
    const uint64_t least = host->adds_done;
    const bool counts = place == PUBLISHED_WORDS;
    const bool is_refused = !tarn_fabric_info(visit->guest->fabric)->whole_reads ||
                            (visit->handle.rights & TARN_FABRIC_BULK) != 0;
    uint64_t word;
    if (is_refused && draw_below(visit, 16) > 0)
        return 0;
    int error = tarn_fabric_read_word(visit->connection, TAG, &visit->handle,
                                      offset_of(counts ? ADDS : PUBLISHED + place), deadline(visit), &word);
    if (is_refused && error == 0)
        sim_fail(host->play->arena.world, "a READ of a whole word was not refused");
    if (error != 0)
        return is_refused && error == -EOPNOTSUPP ? -ECONNABORTED : error;
    const uint64_t round = word >> 8 & ((UINT64_C(1) << ROUND_BITS) - 1);
    if (counts ? word < least || word > host->adds_begun
               : word != word_of(host->number, round, place) || round < oldest || round > host->publishing)
        sim_fail(host->play->arena.world,
                 "a whole READ of word %" PRIu64 " got %#" PRIx64 "; rounds %" PRIu64 " to %" PRIu64
                 ", or %" PRIu64 " to %" PRIu64 " adds, could be there",
                 place, word, oldest, host->publishing, least, host->adds_begun);
    return 0;
}

/* Beyond the end of the region, where nothing may be written. */
static int overreach(struct visit *visit)
{
    uint64_t words[2] = {UINT64_MAX, UINT64_MAX};
    int error = tarn_fabric_write(visit->connection, TAG, &visit->handle, visit->handle.bytes - 8, words,
                                  sizeof(words), deadline(visit));
    if (error == 0)
        sim_fail(visit->guest->play->arena.world, "a WRITE beyond the end of a region was not refused");
    return error == -EACCES ? -ECONNABORTED : error;
}

static int rest(struct visit *visit)
{
    (void)task_sleep(draw_below(visit, UINT64_C(1) << draw_below(visit, 24)));
    return 0;
}

static int take_round(struct visit *visit)
{
    static int (*const kinds[])(struct visit *
                                visit) = {add,   add,   swap,      swap,           read_published, read_whole,
                                          chain, chain, read_back, write_and_tell, write_and_tell, rest,
                                          rest,  rest,  rest,      rest,           rest,           rest};
    if (draw_below(visit, 256) == 0)
        return overreach(visit);
    return kinds[draw_below(visit, base_array_count(kinds))](visit);
}

/* ---- visitors ----------------------------------------------------------------------------------- */

/* Whether an error has a reason. */
static void check_error(const struct visit *visit, int error)
{
    const struct play *play = visit->guest->play;
    bool reason = (error == -ECONNRESET && (play->arena.events & (SIM_ARENA_KILLS | SIM_ARENA_CUTS)) != 0) ||
                  (error == -ETIMEDOUT && (play->arena.events & SIM_ARENA_IMPATIENCE) != 0) ||
                  (error == -EACCES && visit->is_second) || /* it was taken back */
                  error == -ECONNABORTED;
    if (!reason)
        sim_fail(play->arena.world, "visit %" PRIu64 " ended with %d, and there is no reason", visit->number,
                 error);
}

static int call_host(struct visit *visit, const char *address)
{
    const struct greeting greeting = {.visit = visit->number};
    const struct tarn_fabric_connect_options options = {.data = &greeting, .data_bytes = sizeof(greeting)};
    struct greeting answer;
    const void *data;
    int error = tarn_fabric_connect(visit->guest->domain, address, &options, task_now() + BASE_NS_PER_SECOND,
                                    &visit->connection);
    if (error != 0)
        return error;
    base_assert(tarn_fabric_peer_data(visit->connection, &data) == sizeof(answer));
    memcpy(&answer, data, sizeof(answer));
    base_assert(tarn_fabric_handle_load(answer.handle, &visit->handle) == 0);
    visit->slot = (uint32_t)answer.slot;
    return 0;
}

static void make_visit(struct host *guest, struct base_random *random)
{
    struct play *play = guest->play;
    uint32_t other = (uint32_t)base_random_below(random, play->arena.nodes);
    if (other == guest->number)
        return;
    struct visit *visit = base_alloc(sim_world_memory(play->arena.world), sizeof(*visit));
    base_assert(visit != NULL);
    *visit = (struct visit){.next = play->visits,
                            .guest = guest,
                            .number = ++play->visits_made,
                            .random = base_random_fork(random)};
    play->visits = visit;
    int error = call_host(visit, play->arena.names[other]);
    if (error != 0)
        return; /* it is down, has no slot, or cannot be reached */
    uint64_t rounds = 1 + draw_below(visit, 60);
    while (error == 0 && rounds-- > 0 && !play->arena.stop)
        error = take_round(visit);
    if (error != 0)
        check_error(visit, error);
    tarn_fabric_disconnect(visit->connection);
}

static void be_visitor(void *arg)
{
    struct host *guest = arg;
    struct base_random random = base_random_fork(&guest->random);
    while (!guest->play->arena.stop) {
        make_visit(guest, &random);
        (void)task_sleep(base_random_below(&random, 1000000));
    }
    guest->guests--;
    guest->play->guests--;
}

/* ---- hosts -------------------------------------------------------------------------------------- */

static void publish_regions(struct host *host)
{
    host->publishing++;
    for (uint32_t i = 0; i < PUBLISHED_WORDS; i++)
        tarn_fabric_mem_store64(host->region, offset_of(PUBLISHED + i),
                                word_of(host->number, host->publishing, i));
    host->published = host->publishing;
}

/* The owner's own FAA counts among its peers', where it has one. */
static void add_as_owner(struct host *host)
{
    const uint64_t least = host->adds_done;
    uint64_t before = 0;
    if (tarn_fabric_info(host->fabric)->atomics != TARN_FABRIC_ATOMICS_MEMORY ||
        host->adds_begun == COUNTS_MAX)
        return;
    host->adds_begun++;
    base_assert(tarn_fabric_mem_faa64(host->region, offset_of(ADDS), 1, &before) == 0);
    note_add(host, least, before);
}

static void check_slot_is_zero(const struct host *host, uint64_t slot)
{
    uint64_t words[SLOT_WORDS];
    tarn_fabric_mem_copy_out(host->region, slot_offset(slot), words, sizeof(words));
    if (!base_is_zero(words, sizeof(words)))
        sim_fail(host->play->arena.world, "somebody has written to a slot behind a fence");
}

/* A guest at its host: what the serving task needs. */
struct service {
    struct host *host;
    struct visit *visit;
    struct tarn_fabric_connection *connection;
};

/* @return 0; what the connection died of */
static int serve_message(const struct service *service, uint32_t *inout_received)
{
    const struct host *host = service->host;
    const struct visit *visit = service->visit;
    struct tarn_fabric_message message;
    uint64_t words[SLOT_WORDS];
    uint32_t told;
    int error = tarn_fabric_receive(service->connection, words, sizeof(words), TASK_FOREVER, &message);
    if (error != 0)
        return error;
    memcpy(&told, words, sizeof(told));
    if (message.notified)
        told = message.value;
    tarn_fabric_mem_copy_out(host->region, slot_offset(visit->slot), words, sizeof(words));
    check_words(host, "what came before a message", words, SLOT_WORDS, visit->number, told & UINT16_MAX,
                visit->begun);
    if (told >> 16 != ++*inout_received)
        sim_fail(host->play->arena.world, "message %" PRIu32 " of a visit came as number %" PRIu32,
                 told >> 16, *inout_received);
    return 0;
}

static void serve_host(void *arg)
{
    struct service *service = arg;
    struct host *host = service->host;
    const uint64_t slot = service->visit->slot;
    const uint64_t zeros[SLOT_WORDS] = {0};
    uint32_t received = 0;
    while (serve_message(service, &received) == 0) {
        if (base_random_below(&host->random, 8) == 0)
            (void)task_sleep(base_random_below(&host->random, 100000));
    }
    base_assert(tarn_fabric_fence(service->connection, TASK_FOREVER) == 0);
    tarn_fabric_mem_copy_in(host->region, slot_offset(slot), zeros, sizeof(zeros));
    (void)task_sleep(base_random_below(&host->random, 4000000));
    check_slot_is_zero(host, slot);
    tarn_fabric_disconnect(service->connection);
    base_free(&sim_node_tarn(host->node)->memory, service, sizeof(*service));
    host->slots_used[slot] = false;
    host->visits--;
}

static struct visit *find_visit(const struct play *play, uint64_t number)
{
    struct visit *visit = play->visits;
    while (visit->number != number)
        visit = visit->next;
    return visit;
}

static void receive_guest(struct host *host, struct tarn_fabric_incoming *incoming)
{
    struct greeting greeting;
    const void *data;
    uint32_t slot = 0;
    const bool by_second = host->second != NULL && base_random_below(&host->random, 2) == 0;
    base_assert(tarn_fabric_incoming_data(incoming, &data) == sizeof(greeting));
    memcpy(&greeting, data, sizeof(greeting));
    while (slot < SLOTS && host->slots_used[slot])
        slot++;
    if (slot == SLOTS) {
        tarn_fabric_reject(incoming, task_rng(sim_node_tarn(host->node)) % 2 == 0 ? -ENOMEM : -EUSERS);
        return;
    }
    check_slot_is_zero(host, slot);
    struct service *service = base_alloc(&sim_node_tarn(host->node)->memory, sizeof(*service));
    base_assert(service != NULL);
    *service = (struct service){.host = host, .visit = find_visit(host->play, greeting.visit)};
    service->visit->host = host;
    service->visit->slot = slot;
    service->visit->is_second = host->slots_second[slot] = by_second;
    greeting.slot = slot;
    tarn_fabric_handle_save(by_second ? &host->again->handle : &host->region->handle, greeting.handle);
    const struct tarn_fabric_connect_options options = {.data = &greeting,
                                                        .data_bytes = sizeof(greeting),
                                                        .receive_count = RECEIVE_COUNT,
                                                        .receive_bytes = SLOT_WORDS * 8};
    if (tarn_fabric_accept(incoming, by_second ? host->second : host->domain, &options,
                           &service->connection) != 0) {
        base_free(&sim_node_tarn(host->node)->memory, service, sizeof(*service));
        return;
    }
    host->slots_used[slot] = true;
    host->visits++;
    base_assert(sim_spawn(host->node, 0, "service", serve_host, service) == 0);
}

static void check_counts(const struct host *host)
{
    uint64_t adds = tarn_fabric_mem_load64(host->region, offset_of(ADDS));
    uint64_t swaps = tarn_fabric_mem_load64(host->region, offset_of(SWAPS));
    if (adds < host->adds_done || adds > host->adds_begun)
        sim_fail(host->play->arena.world, "%" PRIu64 " was added, %" PRIu64 " to %" PRIu64 " could be", adds,
                 host->adds_done, host->adds_begun);
    if (swaps < host->swaps_done || swaps > host->swaps_begun)
        sim_fail(host->play->arena.world, "%" PRIu64 " were swapped, %" PRIu64 " to %" PRIu64 " could be",
                 swaps, host->swaps_done, host->swaps_begun);
}

static void export_again(struct host *host)
{
    const uint32_t rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE |
                            (host->play->is_bulk ? TARN_FABRIC_BULK : TARN_FABRIC_MAY_SWAP);
    base_assert(tarn_fabric_region_register(host->second, host->region->memory, REGION_BYTES, rights,
                                            &host->again) == 0);
}

/* Take the second domain's region back: from now on its guests change nothing, the host fills their slots with zeros. */
static void renew_second(struct host *host)
{
    uint64_t before[SLOTS][SLOT_WORDS], after[SLOTS][SLOT_WORDS];
    tarn_fabric_region_free(host->again);
    tarn_fabric_mem_copy_out(host->region, slot_offset(0), before, sizeof(before));
    (void)task_sleep(base_random_below(&host->random, 4000000));
    tarn_fabric_mem_copy_out(host->region, slot_offset(0), after, sizeof(after));
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        for (uint32_t i = 0; i < SLOT_WORDS; i++) {
            if (host->slots_second[slot] && after[slot][i] != before[slot][i] && after[slot][i] != 0)
                sim_fail(host->play->arena.world, "a guest has written to memory that was taken back");
        }
    }
    export_again(host);
}

static void open_host(struct host *host)
{
    const struct tarn_fabric_domain_options options = {.writable_bytes =
                                                           base_align_up(REGION_BYTES, BASE_PAGE_BYTES)};
    const uint32_t rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP;
    base_assert(tarn_fabric_open(sim_node_tarn(host->node), "shm:", &host->fabric) == 0);
    base_assert(tarn_fabric_domain_open(host->fabric, &options, &host->domain) == 0);
    base_assert(tarn_fabric_region_alloc(host->domain, REGION_BYTES, rights, &host->region) == 0);
    base_assert(tarn_fabric_listen(host->fabric, host->play->arena.names[host->number], &host->listener) ==
                0);
    publish_regions(host);
    if (base_random_below(&host->random, 2) == 0) {
        base_assert(tarn_fabric_domain_open(host->fabric, NULL, &host->second) == 0);
        export_again(host);
    }
}

static void close_host(struct host *host)
{
    check_counts(host);
    tarn_fabric_listener_close(host->listener);
    if (host->second != NULL) {
        tarn_fabric_region_free(host->again);
        tarn_fabric_domain_close(host->second);
    }
    tarn_fabric_region_free(host->region);
    tarn_fabric_domain_close(host->domain);
    tarn_fabric_close(host->fabric);
}

static void be_host(void *arg)
{
    struct host *host = arg;
    struct play *play = host->play;
    struct tarn_fabric_incoming *incoming;
    open_host(host);
    for (uint32_t i = 0; i < play->visitors; i++) {
        host->guests++;
        play->guests++;
        base_assert(sim_spawn(host->node, i % host->scheds, "visitor", be_visitor, host) == 0);
    }
    while (!play->arena.stop || play->guests > 0 || host->visits > 0) {
        uint64_t until_ns = task_now() + base_random_below(&host->random, 1000000);
        if (tarn_fabric_listener_wait(host->listener, until_ns, &incoming) == 0)
            receive_guest(host, incoming);
        if (base_random_below(&host->random, 4) == 0)
            publish_regions(host);
        if (base_random_below(&host->random, 4) == 0)
            add_as_owner(host);
        if (host->second != NULL && base_random_below(&host->random, 16) == 0)
            renew_second(host);
    }
    close_host(host);
}

/* ---- what happens to them ----------------------------------------------------------------------- */

static void begin_life(struct sim_arena *arena, uint32_t number)
{
    struct play *play = play_of(arena);
    struct host *host = base_alloc(sim_world_memory(arena->world), sizeof(*host));
    base_assert(host != NULL);
    *host = (struct host){.next = play->hosts,
                          .play = play,
                          .number = number,
                          .scheds = 1 + (uint32_t)base_random_below(arena->random, 2),
                          .random = base_random_fork(arena->random)};
    play->hosts = play->current[number] = host;
    const struct sim_node_options options = {
        .name = arena->names[number], .scheds = host->scheds, .card = play->card};
    base_assert(sim_node_open(arena->world, &options, &host->node) == 0);
    arena->current[number] = host->node;
    base_assert(sim_spawn(host->node, 0, "host", be_host, host) == 0);
}

/* Its visitors end with it. */
static void end_life(struct sim_arena *arena, uint32_t number)
{
    struct play *play = play_of(arena);
    play->guests -= play->current[number]->guests;
    play->current[number]->node = NULL;
    play->current[number] = NULL;
}

/* ---- a run -------------------------------------------------------------------------------------- */

static void init(struct play *play, struct sim_world *world)
{
    *play = (struct play){
        .arena = {.world = world, .random = sim_world_random(world), .begin = begin_life, .end = end_life}};
    struct base_random *random = play->arena.random;
    if (base_random_below(random, 4) == 0)
        play->card = &sim_cards[base_random_below(random, SIM_CARDS)];
    play->arena.nodes = 2 + (uint32_t)base_random_below(random, NODES_MAX - 1);
    play->is_bulk = base_random_below(random, 4) == 0;
    play->visitors = 1 + (uint32_t)base_random_below(random, VISITORS_MAX);
    sim_arena_draw(&play->arena);
}

static void deinit(struct play *play)
{
    struct base_account *memory = sim_world_memory(play->arena.world);
    while (play->hosts != NULL) {
        struct host *host = play->hosts;
        play->hosts = host->next;
        base_free(memory, host, sizeof(*host));
    }
    while (play->visits != NULL) {
        struct visit *visit = play->visits;
        play->visits = visit->next;
        base_free(memory, visit, sizeof(*visit));
    }
}

static void run_fabric(struct sim_world *world, const char *mutation)
{
    (void)mutation;
    struct play play;
    init(&play, world);
    sim_arena_play(&play.arena);
    deinit(&play);
}

const struct sim_campaign sim_campaign_fabric = {
    .name = "fabric",
    .help = "nodes work in each other's memory while they are killed, stopped and cut off",
    .mutations = (const char *const[]){NULL},
    .run = run_fabric,
};
