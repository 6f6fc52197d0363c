/*
 * That the adversary shows all that the contract allows, and nothing that it forbids: small plays of an owner and a
 * peer, seed after seed. Each has outcomes that must be seen, with all troubles and with the one that makes them
 * alone, and that must not be seen without that one. What nobody may ever see is asserted in the plays.
 */
#include "sim/net/adversary_testing.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define SEEDS (TESTING_SLOW ? 100u : 250u)
enum { SWAPS = 12, MESSAGES = 8 };

#define LONG_NS (3 * SIM_NET_HEARTBEAT_NS) /* nothing is on its way any more */

static void store_all(struct stage *stage, uint64_t value)
{
    for (unsigned i = 0; i < WORDS; i++)
        tarn_fabric_mem_store64(stage->region, i * 8, value);
}

/* The owner's words of now, as one number that tells whether they have changed. */
static uint64_t load_all(const struct stage *stage)
{
    uint64_t words[WORDS];
    tarn_fabric_mem_copy_out(stage->region, 0, words, sizeof(words));
    return base_hash64(words, sizeof(words), 0);
}

/* Outcome 0: new before old; 1: old before new; 2: mixed otherwise. */
static void see_mixture(struct stage *stage, const uint64_t *words)
{
    unsigned changes = 0;
    for (unsigned i = 0; i < WORDS; i++) {
        base_assert(words[i] == OLD || words[i] == NEW); /* never what was there before */
        changes += i > 0 && words[i] != words[i - 1];
    }
    if (changes == 1)
        see(stage, words[0] == NEW ? 0 : 1);
    else if (changes > 1)
        see(stage, 2);
}

/* Fence the peer, which has ended or will; from then on nothing changes. */
static void fence_and_watch(struct stage *stage)
{
    base_assert(tarn_fabric_fence(stage->owner, TASK_FOREVER) == 0);
    uint64_t before = load_all(stage);
    for (unsigned i = 0; i < 20; i++) {
        (void)task_sleep(LONG_NS / 10);
        base_assert(load_all(stage) == before);
    }
}

/* ---- words -------------------------------------------------------------------------------------- */

static void store_meanwhile(struct stage *stage)
{
    store_all(stage, OLD); /* before the peer begins: what was there before must not be seen any more */
    stage->told = true;
    nap(stage, 4000);
    store_all(stage, NEW);
}

static void read_words(struct stage *stage)
{
    wait_until_told(stage);
    prepare(stage, 0, TARN_FABRIC_READ, 0, WORDS);
    tarn_fabric_post(stage->peer, stage->ops, 1);
    base_assert(tarn_fabric_wait(stage->ops, 1, A_SECOND) == 0);
    see_mixture(stage, stage->data[0]);
}

static void look_at_words(struct stage *stage)
{
    uint64_t words[WORDS];
    store_all(stage, OLD);
    stage->told = true;
    do {
        bool over = stage->peer_ended;
        tarn_fabric_mem_copy_out(stage->region, 0, words, sizeof(words));
        see_mixture(stage, words);
        base_assert(!over || words[0] + words[1] + words[2] + words[3] == WORDS * NEW);
        nap(stage, 300);
    } while (!stage->peer_ended);
}

static void write_words(struct stage *stage)
{
    wait_until_told(stage);
    prepare_write(stage, 0, 0, WORDS, NEW);
    tarn_fabric_post(stage->peer, stage->ops, 1);
    base_assert(tarn_fabric_wait(stage->ops, 1, A_SECOND) == 0);
    for (unsigned i = 0; i < WORDS; i++) /* it has completed */
        base_assert(tarn_fabric_mem_load64(stage->region, i * 8) == NEW);
}

#define PATTERN_A UINT64_C(0x1111111111111111)
#define PATTERN_B UINT64_C(0xeeeeeeeeeeeeeeee)

static bool is_torn(uint64_t word)
{
    for (unsigned i = 0; i < 64; i += 8) {
        uint8_t byte = (uint8_t)(word >> i);
        base_assert(byte == 0x11 || byte == 0xee);
    }
    return word != PATTERN_A && word != PATTERN_B;
}

static void store_patterns(struct stage *stage)
{
    store_all(stage, PATTERN_A);
    stage->told = true;
    nap(stage, 4000);
    store_all(stage, PATTERN_B);
    while (!stage->peer_ended) {
        if (is_torn(tarn_fabric_mem_load64(stage->region, 0)))
            see(stage, 1);
        nap(stage, 300);
    }
}

static void move_patterns(struct stage *stage)
{
    wait_until_told(stage);
    prepare(stage, 0, TARN_FABRIC_READ, 0, WORDS);
    prepare(stage, 1, TARN_FABRIC_READ, 0, 1);
    stage->ops[1].whole = !stage->play->is_bulk;
    tarn_fabric_post(stage->peer, stage->ops, 2);
    base_assert(tarn_fabric_wait(stage->ops, 2, A_SECOND) == 0);
    base_assert(stage->play->is_bulk || !is_torn(stage->data[1][0]));
    for (unsigned i = 0; i < WORDS; i++) {
        if (is_torn(stage->data[0][i]))
            see(stage, 0);
    }
    (void)task_sleep(10000);
    prepare_write(stage, 1, 0, WORDS, PATTERN_A);
    tarn_fabric_post(stage->peer, &stage->ops[1], 1);
    base_assert(tarn_fabric_wait(&stage->ops[1], 1, A_SECOND) == 0);
}

/* ---- order -------------------------------------------------------------------------------------- */

static bool is_there(const struct stage *stage, uint64_t offset)
{
    return tarn_fabric_mem_load64(stage->region, offset) == NEW;
}

/* Two operations at once, the second with a fence or without. */
static void do_two(struct stage *stage)
{
    bool first_reads = draw(stage, 2) == 0, second_reads = !first_reads && draw(stage, 2) == 0;
    bool fence = draw(stage, 3) == 0, other_order = false, later_there = false;
    prepare_write(stage, 0, 0, 1, NEW);
    prepare_write(stage, 1, first_reads || second_reads ? 0 : 64, 1, NEW);
    if (first_reads)
        prepare(stage, 0, TARN_FABRIC_READ, 0, 1);
    if (second_reads)
        prepare(stage, 1, TARN_FABRIC_READ, 0, 1);
    stage->ops[1].fence = fence;
    tarn_fabric_post(stage->peer, stage->ops, 2);
    while (!stage->ops[0].finished || !stage->ops[1].finished) {
        other_order |= stage->ops[1].finished && !stage->ops[0].finished;
        later_there |= !first_reads && !second_reads && is_there(stage, 64) && !is_there(stage, 0);
        nap(stage, 200);
    }
    base_assert(tarn_fabric_wait(stage->ops, 2, A_SECOND) == 0);
    bool earlier_missed = second_reads && stage->data[1][0] != NEW;
    bool later_read = first_reads && stage->data[0][0] == NEW;
    const bool outcomes[OUTCOMES_MAX] = {later_there, earlier_missed, later_read, other_order};
    for (unsigned i = 0; i < OUTCOMES_MAX; i++) {
        base_assert(!fence || !outcomes[i]);
        if (outcomes[i])
            see(stage, i);
    }
}

/* The same with a swap among them. @param at  words that nobody has used */
static void do_two_with_a_swap(struct stage *stage, uint64_t at)
{
    bool swap_first = draw(stage, 2) == 0, reads = draw(stage, 2) == 0, fence = draw(stage, 3) == 0;
    unsigned swap = swap_first ? 0 : 1, other = 1 - swap;
    uint64_t written = at, swapped = reads ? at : at + 64; /* a READ looks at the word itself */
    bool second_first = false;
    prepare(stage, swap, TARN_FABRIC_FAA, swapped, 0);
    stage->ops[swap].operand = NEW;
    if (reads)
        prepare(stage, other, TARN_FABRIC_READ, written, 1);
    else
        prepare_write(stage, other, written, 1, NEW);
    stage->ops[1].fence = fence;
    tarn_fabric_post(stage->peer, stage->ops, 2);
    while (!stage->ops[0].finished || !stage->ops[1].finished) {
        second_first |= !reads && is_there(stage, swap_first ? written : swapped) &&
                        !is_there(stage, swap_first ? swapped : written);
        nap(stage, 200);
    }
    base_assert(tarn_fabric_wait(stage->ops, 2, A_SECOND) == 0);
    bool read_it = reads && stage->data[other][0] == NEW;
    const bool outcomes[OUTCOMES_MAX] = {second_first && !swap_first, second_first && swap_first,
                                         read_it && !swap_first, reads && swap_first && !read_it};
    for (unsigned i = 0; i < OUTCOMES_MAX; i++) {
        base_assert(!fence || !outcomes[i]);
        if (outcomes[i] && i < 3)
            see(stage, i);
        else if (outcomes[i]) /* takes more than other ways: what was there when it was posted */
            stage->read_before_swap = true;
    }
}

static void do_some_with_swaps(struct stage *stage)
{
    for (uint64_t round = 0; round < SWAPS; round++)
        do_two_with_a_swap(stage, round * 128);
}

static void read_after_swaps(struct stage *stage)
{
    do_some_with_swaps(stage);
    stage->seen = stage->read_before_swap ? 1 : 0;
}

static void do_nothing(struct stage *stage)
{
    (void)stage;
}

static void receive_and_look(struct stage *stage)
{
    struct tarn_fabric_message message;
    uint8_t room[4096];
    base_assert(tarn_fabric_receive(stage->owner, room, sizeof(room), A_SECOND, &message) == 0);
    for (unsigned i = 0; i < WORDS; i++) /* the one promise of order */
        base_assert(is_there(stage, i * 8));
    base_assert(!message.notified || is_there(stage, 64));
    if (!stage->ops[0].finished)
        see(stage, 0);
}

static void write_and_send(struct stage *stage)
{
    prepare(stage, 0, TARN_FABRIC_READ, 128, WORDS);
    prepare_write(stage, 1, 0, WORDS, NEW);
    prepare_write(stage, 2, 64, 1, NEW);
    stage->ops[2].kind = TARN_FABRIC_WRITE_NOTIFY;
    if (draw(stage, 2) == 0)
        prepare(stage, 2, TARN_FABRIC_SEND, 0, 1);
    tarn_fabric_post(stage->peer, stage->ops, OPS);
    while (!stage->ops[2].finished || !stage->ops[1].finished) {
        if (stage->ops[2].finished && !stage->ops[1].finished)
            see(stage, 1);
        nap(stage, 200);
    }
    base_assert(tarn_fabric_wait(stage->ops, OPS, A_SECOND) == 0);
}

/* Only WRITEs are there before a message; what is posted after it may be, too. */
static void receive_and_look_at_others(struct stage *stage)
{
    struct tarn_fabric_message message;
    uint8_t room[4096];
    for (uint64_t at = 0; at < MESSAGES * 128; at += 128) {
        bool later_there = false;
        while (tarn_fabric_receive(stage->owner, room, sizeof(room), task_now() + 100, &message) != 0)
            later_there |= is_there(stage, at + 64);
        if (!is_there(stage, at))
            see(stage, 0);
        if (later_there)
            see(stage, 1);
    }
}

static void send_among_others(struct stage *stage)
{
    for (uint64_t at = 0; at < MESSAGES * 128; at += 128) {
        prepare(stage, 0, TARN_FABRIC_FAA, at, 0);
        stage->ops[0].operand = NEW;
        prepare(stage, 1, TARN_FABRIC_SEND, 0, 1);
        prepare_write(stage, 2, at + 64, 1, NEW);
        tarn_fabric_post(stage->peer, stage->ops, OPS);
        base_assert(tarn_fabric_wait(stage->ops, OPS, A_SECOND) == 0);
    }
}

/* ---- swaps -------------------------------------------------------------------------------------- */

static void store_between(struct stage *stage)
{
    wait_until_told(stage);
    nap(stage, 4000);
    tarn_fabric_mem_store64(stage->region, 0, 7);
    stage->scene = 1;
}

static void swap_once(struct stage *stage)
{
    bool add = draw(stage, 2) == 0;
    prepare(stage, 0, add ? TARN_FABRIC_FAA : TARN_FABRIC_CAS, 0, 0);
    stage->ops[0].operand = 9;
    stage->told = true;
    tarn_fabric_post(stage->peer, stage->ops, 1);
    base_assert(tarn_fabric_wait(stage->ops, 1, A_SECOND) == 0);
    while (stage->scene == 0)
        nap(stage, 300);
    uint64_t before = stage->ops[0].before, after = tarn_fabric_mem_load64(stage->region, 0);
    base_assert(before == 0 || before == 7);
    base_assert(after == 7 || after == 9 || (add && before == 7 && after == 16));
    base_assert(before == 0 || after == (add ? 16 : 7));
    if (after == 9) /* the store is lost */
        see(stage, add ? 1 : 0);
}

/* Among each other they are atomic, whatever their order. */
static void swap_thrice(struct stage *stage)
{
    bool add = draw(stage, 2) == 0;
    uint64_t sum = 0;
    for (unsigned i = 0; i < OPS; i++) {
        prepare(stage, i, add ? TARN_FABRIC_FAA : TARN_FABRIC_CAS, 0, 0);
        stage->ops[i].operand = i + 1;
    }
    tarn_fabric_post(stage->peer, stage->ops, OPS);
    base_assert(tarn_fabric_wait(stage->ops, OPS, A_SECOND) == 0);
    uint64_t after = tarn_fabric_mem_load64(stage->region, 0);
    unsigned winners = 0, winner = 0;
    for (unsigned i = 0; i < OPS; i++) {
        sum += i + 1;
        if (stage->ops[i].before == 0)
            winners++, winner = i;
    }
    base_assert(winners == 1 && after == (add ? sum : winner + 1));
    for (unsigned i = 0; i < OPS; i++)
        base_assert(add || i == winner || stage->ops[i].before == after);
    if (winner > 0)
        see(stage, 0);
}

/* ---- after an error ----------------------------------------------------------------------------- */

static void see_what_is_late(struct stage *stage)
{
    wait_until_told(stage);
    uint64_t before = load_all(stage);
    while (!stage->peer_ended) {
        if (load_all(stage) != before)
            see(stage, stage->ops[0].kind == TARN_FABRIC_WRITE ? 0 : 1);
        nap(stage, 2000000);
    }
    fence_and_watch(stage);
}

static void give_up(struct stage *stage)
{
    prepare_write(stage, 0, 0, WORDS, NEW);
    if (!stage->play->is_bulk && draw(stage, 2) == 0)
        prepare(stage, 0, TARN_FABRIC_FAA, 0, 0);
    stage->ops[0].operand = 1;
    tarn_fabric_post(stage->peer, stage->ops, 1);
    int error = tarn_fabric_wait(stage->ops, 1, task_now() + draw(stage, 3000));
    base_assert(error == 0 || error == -ETIMEDOUT);
    stage->told = true;
    (void)task_sleep(LONG_NS);
}

/* Only the WRITE's words and zeros, unless a WRITE that failed has left others. */
static void see_what_is_left(struct stage *stage)
{
    while (!stage->peer_ended) {
        for (unsigned i = 0; i < WORDS; i++) {
            const uint64_t word = tarn_fabric_mem_load64(stage->region, i * 8);
            if (word != 0 && word != NEW)
                see(stage, 0);
        }
        nap(stage, 2000000);
    }
    fence_and_watch(stage);
}

/* WRITE again and again, until that fails. */
static void write_for_ever(struct stage *stage)
{
    int error = 0;
    for (uint64_t round = 1; error == 0; round++) {
        prepare_write(stage, 0, 0, WORDS, round);
        tarn_fabric_post(stage->peer, stage->ops, 1);
        error = tarn_fabric_wait(stage->ops, 1, TASK_FOREVER);
        nap(stage, 3000);
    }
    base_assert(error == -ECONNRESET);
}

static void kill_peer(struct sim_event *event)
{
    struct stage *stage = base_container_of(event, struct stage, event);
    stage->told = stage->peer_ended = true;
    sim_node_kill(stage->nodes[PEER]);
    stage->nodes[PEER] = NULL;
}

static void see_what_the_dead_do(struct stage *stage)
{
    struct tarn_fabric_message message;
    uint8_t room[4096];
    wait_until_told(stage);
    uint64_t before = load_all(stage), noticed_ns = task_now() + 3 * SIM_NET_HEARTBEAT_NS;
    while (tarn_fabric_error(stage->owner) == 0) {
        base_assert(task_now() < noticed_ns + BASE_NS_PER_SECOND / 1000);
        (void)task_sleep(10000);
    }
    if (load_all(stage) != before)
        see(stage, 0);
    base_assert(tarn_fabric_receive(stage->owner, room, sizeof(room), A_SECOND, &message) == -ECONNRESET);
    fence_and_watch(stage);
}

/* Between two operations the peer is stopped; before it is woken, its owner wants to be rid of it. */
static void pause_peer(struct sim_event *event)
{
    struct stage *stage = base_container_of(event, struct stage, event);
    uint64_t now_ns = sim_world_now(stage->world);
    if (stage->scene++ == 0) {
        stage->told = true;
        sim_net_cut(stage->nodes[OWNER], stage->nodes[PEER]);
        sim_node_pause(stage->nodes[PEER], now_ns + SIM_NET_HEARTBEAT_NS - 2000000);
        sim_event_at(stage->world, event, now_ns + 6 * SIM_NET_HEARTBEAT_NS);
    } else {
        sim_net_heal(stage->nodes[OWNER], stage->nodes[PEER]);
    }
}

static void fence_a_sleeper(struct stage *stage)
{
    wait_until_told(stage);
    (void)task_sleep(3000000); /* what is on its way is there */
    int error = tarn_fabric_fence(stage->owner, task_now() + 1000000);
    base_assert(error == (stage->play->fence_cuts ? 0 : -ETIMEDOUT));
    uint64_t before = load_all(stage);
    while (!stage->peer_ended) {
        if (load_all(stage) != before)
            see(stage, 0);
        nap(stage, 2000000);
    }
    base_assert(!stage->play->fence_cuts || load_all(stage) == before);
    fence_and_watch(stage);
}

/* ---- links -------------------------------------------------------------------------------------- */

static void half_cut(struct sim_event *event)
{
    struct stage *stage = base_container_of(event, struct stage, event);
    unsigned from = stage->told ? OWNER : PEER; /* drawn by the peer */
    if (stage->scene++ == 0) {
        sim_net_cut(stage->nodes[from], stage->nodes[1 - from]);
        sim_event_at(stage->world, event, sim_world_now(stage->world) + 6 * SIM_NET_HEARTBEAT_NS);
    } else {
        sim_net_heal(stage->nodes[from], stage->nodes[1 - from]);
    }
}

static void write_into_the_dark(struct stage *stage)
{
    int error = 0;
    stage->told = draw(stage, 2) == 0;
    for (uint64_t round = 1; error == 0; round++) {
        prepare_write(stage, 0, 0, 1, round);
        tarn_fabric_post(stage->peer, stage->ops, 1);
        error = tarn_fabric_wait(stage->ops, 1, TASK_FOREVER);
        if (error == 0) {
            base_assert(tarn_fabric_mem_load64(stage->region, 0) == round);
            nap(stage, 500);
        }
    }
    base_assert(error == -ECONNRESET && stage->scene > 0);
    (void)task_sleep(10 * SIM_NET_HEARTBEAT_NS);
    see(stage, tarn_fabric_mem_load64(stage->region, 0) == stage->data[0][0] ? 0 : 1);
}

static void flap(struct sim_event *event)
{
    struct stage *stage = base_container_of(event, struct stage, event);
    unsigned from = stage->scene / 2 % 2;
    if (stage->scene % 2 == 0)
        sim_net_cut(stage->nodes[from], stage->nodes[1 - from]);
    else
        sim_net_heal(stage->nodes[from], stage->nodes[1 - from]);
    if (stage->scene++ < 9)
        sim_event_at(stage->world, event, sim_world_now(stage->world) + SIM_NET_HEARTBEAT_NS / 2);
}

static void write_while_it_flaps(struct stage *stage)
{
    uint64_t until_ns = task_now() + 8 * SIM_NET_HEARTBEAT_NS;
    while (task_now() < until_ns) {
        uint64_t begun_ns = task_now();
        prepare_write(stage, 0, 0, WORDS, begun_ns);
        tarn_fabric_post(stage->peer, stage->ops, 1);
        base_assert(tarn_fabric_wait(stage->ops, 1, TASK_FOREVER) == 0);
        if (task_now() - begun_ns > SIM_NET_HEARTBEAT_NS / 4)
            see(stage, 0);
        nap(stage, 1000000);
    }
}

/* Look at the clock while an operation is on its way: a task that does may have lost its processor. */
static void look_at_the_clock(struct sim_event *event)
{
    struct stage *stage = base_container_of(event, struct stage, event);
    uint64_t took_ns = sim_world_now(stage->world) - stage->begun_ns;
    bool under_way = stage->begun_ns > 0 && !stage->ops[0].finished;
    base_assert(!under_way || took_ns < SIM_NET_HEARTBEAT_NS);
    if (under_way && took_ns > 100000)
        see(stage, 0);
    if (!stage->peer_ended)
        sim_event_at(stage->world, event, sim_world_now(stage->world) + 10000);
}

static void write_again(struct stage *stage)
{
    for (unsigned i = 0; i < 5; i++) {
        nap(stage, 30000);
        prepare_write(stage, 0, 0, 1, NEW);
        stage->begun_ns = task_now();
        tarn_fabric_post(stage->peer, stage->ops, 1);
        base_assert(tarn_fabric_wait(stage->ops, 1, A_SECOND) == 0);
    }
}

/* ---- the plays ---------------------------------------------------------------------------------- */

/* ---- the owner's processor ---------------------------------------------------------------------- */

/* The first half is what others READ, the second what they WRITE. */
static void copy_for_a_while(struct stage *stage)
{
    uint64_t words[WORDS / 2];
    for (unsigned round = 0; round < 20; round++) {
        words[0] = words[1] = OLD + round % 2;
        tarn_fabric_mem_copy_in(stage->region, 0, words, sizeof(words));
        tarn_fabric_mem_copy_out(stage->region, sizeof(words), words, sizeof(words));
        if (words[0] != words[1])
            see(stage, 1);
        nap(stage, 1000);
    }
}

static void move_meanwhile(struct stage *stage)
{
    for (unsigned round = 0; round < 20; round++) {
        prepare(stage, 0, TARN_FABRIC_READ, 0, WORDS / 2);
        prepare_write(stage, 1, WORDS / 2 * 8, WORDS / 2, OLD + round % 2);
        tarn_fabric_post(stage->peer, stage->ops, 2);
        base_assert(tarn_fabric_wait(stage->ops, 2, A_SECOND) == 0);
        if (stage->data[0][0] != stage->data[0][1])
            see(stage, 0);
    }
}

static const struct play plays[] = {
    {.name = "torn READ",
     .trouble = SIM_NET_TORN_READ,
     .outcomes = {"the first words new", "the last words new", "mixed"},
     .owner = store_meanwhile,
     .peer = read_words},
    {.name = "torn WRITE",
     .trouble = SIM_NET_TORN_WRITE,
     .outcomes = {"the first words first", "the last words first", "mixed"},
     .owner = look_at_words,
     .peer = write_words},
    {.name = "torn words",
     .trouble = SIM_NET_TORN_WORD,
     .outcomes = {"of a READ", "of a WRITE"},
     .owner = store_patterns,
     .peer = move_patterns},
    {.name = "torn words of a bulk region",
     .trouble = SIM_NET_TORN_BULK,
     .outcomes = {"of a READ", "of a WRITE"},
     .owner = store_patterns,
     .peer = move_patterns,
     .is_bulk = true},
    {.name = "a WRITE to a bulk region fails",
     .trouble = SIM_NET_TORN_BULK,
     .outcomes = {"it leaves any bytes"},
     .owner = see_what_is_left,
     .peer = give_up,
     .is_bulk = true},
    {.name = "two operations",
     .trouble = SIM_NET_REORDER,
     .outcomes = {"the second WRITE first", "a READ before an earlier WRITE", "a READ after a later WRITE",
                  "the second completes first"},
     .owner = do_nothing,
     .peer = do_two},
    {.name = "two operations, one a swap",
     .trouble = SIM_NET_REORDER,
     .outcomes = {"a swap before an earlier WRITE", "a WRITE before an earlier swap",
                  "a READ after a later swap"},
     .owner = do_nothing,
     .peer = do_some_with_swaps},
    {.name = "a swap and a READ",
     .trouble = SIM_NET_REORDER | SIM_NET_TORN_READ,
     .outcomes = {"a READ before an earlier swap"},
     .owner = do_nothing,
     .peer = read_after_swaps},
    {.name = "messages among others",
     .trouble = SIM_NET_REORDER,
     .outcomes = {"received before an earlier swap", "received after a later WRITE"},
     .owner = receive_and_look_at_others,
     .peer = send_among_others},
    {.name = "messages",
     .trouble = SIM_NET_REORDER,
     .outcomes = {"received before an earlier READ", "completed before an earlier WRITE"},
     .owner = receive_and_look,
     .peer = write_and_send},
    {.name = "swaps and stores",
     .trouble = SIM_NET_SLIPPED_SWAP,
     .outcomes = {"a store is lost in a CAS", "a store is lost in an FAA"},
     .owner = store_between,
     .peer = swap_once},
    {.name = "swaps",
     .trouble = SIM_NET_REORDER,
     .outcomes = {"a later one is first"},
     .owner = do_nothing,
     .peer = swap_thrice},
    {.name = "after an error",
     .trouble = SIM_NET_LATE,
     .outcomes = {"a WRITE is late", "an FAA is late"},
     .owner = see_what_is_late,
     .peer = give_up},
    {.name = "a peer is killed",
     .trouble = SIM_NET_LATE,
     .outcomes = {"its WRITE is late"},
     .owner = see_what_the_dead_do,
     .peer = write_for_ever,
     .driver = kill_peer},
    {.name = "a peer is woken",
     .outcomes = {"it writes before the fence"},
     .owner = fence_a_sleeper,
     .peer = write_for_ever,
     .driver = pause_peer},
    {.name = "a peer is woken behind a fence",
     .owner = fence_a_sleeper,
     .peer = write_for_ever,
     .driver = pause_peer,
     .fence_cuts = true},
    {.name = "a half-cut link",
     .outcomes = {"an error, and the WRITE is there", "an error, and it is not"},
     .owner = do_nothing,
     .peer = write_into_the_dark,
     .driver = half_cut},
    {.name = "a link that flaps",
     .outcomes = {"an operation waits"},
     .owner = do_nothing,
     .peer = write_while_it_flaps,
     .driver = flap},
    {.name = "an owner is preempted",
     .outcomes = {"half of a copy in is READ", "half of a copy out is older"},
     .owner = copy_for_a_while,
     .peer = move_meanwhile,
     .preempts = true},
    {.name = "delays",
     .trouble = SIM_NET_DELAY,
     .outcomes = {"an operation is slow"},
     .owner = do_nothing,
     .peer = write_again,
     .driver = look_at_the_clock},
};

/* @param needed  after how many seeds each outcome was seen */
static uint32_t run_seeds(const struct play *play, uint32_t troubles, unsigned *needed)
{
    uint32_t seen = 0;
    uint64_t hash;
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        uint32_t now = run_play(play, seed, troubles, &hash) & ~seen;
        for (unsigned i = 0; i < OUTCOMES_MAX; i++)
            needed[i] = (now >> i & 1) != 0 ? seed + 1 : needed[i];
        seen |= now;
    }
    return seen;
}

static void expect(const struct play *play, uint32_t troubles, bool wanted)
{
    unsigned needed[OUTCOMES_MAX] = {0};
    uint32_t seen = run_seeds(play, troubles, needed);
    for (unsigned i = 0; i < OUTCOMES_MAX && play->outcomes[i] != NULL; i++) {
        if (((seen >> i & 1) != 0) == wanted) {
            if (wanted)
                (void)printf("# %s, troubles %#" PRIx32 ": %s, seeds needed: %u\n", play->name, troubles,
                             play->outcomes[i], needed[i]);
            continue;
        }
        (void)fprintf(stderr, "%s, troubles %#" PRIx32 ": %s, which was %s\n", play->name, troubles,
                      play->outcomes[i], wanted ? "not seen" : "not to be seen");
        base_assert(false);
    }
}

/* The table of README.md, "The network", is what this prints. */
static void all_that_is_allowed_is_shown(void)
{
    for (unsigned i = 0; i < base_array_count(plays); i++)
        expect(&plays[i], SIM_NET_ALL_TROUBLES, true);
    (void)fflush(stdout);
}

static void each_trouble_shows_its_own(void)
{
    for (unsigned i = 0; i < base_array_count(plays); i++)
        expect(&plays[i], plays[i].trouble, true);
    (void)fflush(stdout);
}

static void without_it_nothing_is_shown(void)
{
    for (unsigned i = 0; i < base_array_count(plays); i++) {
        uint32_t trouble = plays[i].trouble;
        if (trouble == 0)
            continue;
        if (trouble == SIM_NET_TORN_READ || trouble == SIM_NET_TORN_WRITE || trouble == SIM_NET_TORN_BULK)
            trouble |= SIM_NET_TORN_WORD;
        expect(&plays[i], SIM_NET_ALL_TROUBLES & ~trouble, false);
        expect(&plays[i], 0, false);
    }
}

static void equal_seeds_give_equal_plays(void)
{
    for (unsigned i = 0; i < base_array_count(plays); i++) {
        uint64_t hashes[3];
        (void)run_play(&plays[i], 5, SIM_NET_ALL_TROUBLES, &hashes[0]);
        void *shift_the_heap = malloc(5000);
        base_assert(shift_the_heap != NULL);
        (void)run_play(&plays[i], 5, SIM_NET_ALL_TROUBLES, &hashes[1]);
        (void)run_play(&plays[i], 6, SIM_NET_ALL_TROUBLES, &hashes[2]);
        base_assert(hashes[0] == hashes[1] && hashes[0] != hashes[2]);
    }
}

/* ---- what the network catches ------------------------------------------------------------------- */

static void store_past_the_fabric(struct stage *stage)
{
    stage->region->memory[100] = 1;
}

static void change_in_flight(struct stage *stage)
{
    prepare_write(stage, 0, 0, WORDS, NEW);
    tarn_fabric_post(stage->peer, stage->ops, 1);
    stage->data[0][1] = OLD;
    base_assert(tarn_fabric_wait(stage->ops, 1, A_SECOND) == 0);
}

static void expect_failure(const struct play *play, const char *words)
{
    struct stage stage = {.play = play, .world = sim_test_world(1)};
    stage.random = base_random_fork(sim_world_random(stage.world));
    for (unsigned i = 0; i < 2; i++) {
        stage.nodes[i] = sim_test_node(stage.world, 1);
        base_assert(sim_spawn(stage.nodes[i], 0, "task", i == OWNER ? be_owner : be_peer, &stage) == 0);
    }
    base_assert(sim_world_run(stage.world, TASK_FOREVER, NULL, NULL) == -ECANCELED);
    base_assert(strstr(sim_world_failure(stage.world), words) != NULL);
}

static void plain_stores_are_caught(void)
{
    const struct play play = {.owner = store_past_the_fabric, .peer = do_nothing};
    expect_failure(&play, "has stored to one of 256 bytes from 0 of a region of 4096 bytes past the fabric");
}

static void changed_sources_are_caught(void)
{
    const struct play play = {.owner = do_nothing, .peer = change_in_flight};
    expect_failure(&play, "memory has changed that an operation in flight was writing from");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIM_TEST(all_that_is_allowed_is_shown), SIM_TEST(each_trouble_shows_its_own),
        SIM_TEST(without_it_nothing_is_shown),  SIM_TEST(equal_seeds_give_equal_plays),
        SIM_TEST(plain_stores_are_caught),      SIM_TEST(changed_sources_are_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
