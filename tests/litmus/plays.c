/* The plays: who does what, and what is seen of it. */
#include "litmus.h"
#include "task/task.h"
#include <errno.h>
#include <string.h>
#include <tarn/fabric.h>

#define PATTERN_A UINT64_C(0x1111111111111111)
#define PATTERN_B UINT64_C(0xeeeeeeeeeeeeeeee)
#define A_MINUTE  (task_now() + 60 * BASE_NS_PER_SECOND)
#define THE_END   UINT32_MAX

const struct litmus_behaviour litmus_behaviours[LITMUS_SIGHTS] = {
    [LITMUS_READ_TORN] = {"READ: a word of two stores", LITMUS_IF_TORN},
    [LITMUS_READ_TORN_BY_CAS] = {"READ: a word of two CAS", LITMUS_IF_TORN},
    [LITMUS_WHOLE_TORN] = {"whole READ: a word of two stores", LITMUS_NEVER_WHOLE},
    [LITMUS_WHOLE_TORN_BY_CAS] = {"whole READ: a word of two CAS", LITMUS_NEVER_WHOLE},
    [LITMUS_FAA_TORN] = {"FAA of 0: a word of two CAS", LITMUS_NEVER},
    [LITMUS_READ_MIXED] = {"READ: words of several moments", LITMUS_ALWAYS},
    [LITMUS_READ_UPWARD] = {"READ: low words before high ones", LITMUS_ALWAYS},
    [LITMUS_READ_DOWNWARD] = {"READ: high words before low ones", LITMUS_ALWAYS},
    [LITMUS_WRITE_TORN] = {"WRITE: a word of two, for the owner", LITMUS_IF_TORN},
    [LITMUS_WRITE_UPWARD] = {"WRITE: low words before high ones", LITMUS_ALWAYS},
    [LITMUS_WRITE_DOWNWARD] = {"WRITE: high words before low ones", LITMUS_ALWAYS},
    [LITMUS_WRITE_OVERTAKES] = {"WRITE, WRITE: the second first", LITMUS_ALWAYS},
    [LITMUS_WRITE_OVERTAKES_FENCE] = {"  with a fence", LITMUS_NEVER},
    [LITMUS_WRITE_OVERTAKES_COMPLETED] = {"  when the first has completed", LITMUS_NEVER},
    [LITMUS_SWAP_OVERTAKES_FENCE] = {"WRITE, CAS with a fence: the second first", LITMUS_NEVER},
    [LITMUS_READ_MISSES] = {"WRITE, READ: it is not read", LITMUS_ALWAYS},
    [LITMUS_READ_MISSES_FENCE] = {"  with a fence", LITMUS_NEVER},
    [LITMUS_READ_FORESEES] = {"READ, WRITE: it is read", LITMUS_ALWAYS},
    [LITMUS_READ_FORESEES_FENCE] = {"  with a fence", LITMUS_NEVER},
    [LITMUS_READ_GOES_BACK] = {"READ, READ: the second is older", LITMUS_ALWAYS},
    [LITMUS_COMPLETED_FIRST] = {"two operations: the second completes first", LITMUS_ALWAYS},
    [LITMUS_COMPLETED_FIRST_FENCE] = {"  with a fence", LITMUS_NEVER},
    [LITMUS_STORE_LOST] = {"the owner's store is lost in a swap", LITMUS_IF_DEVICE},
    [LITMUS_WRITE_LOST] = {"a WRITE is lost in a swap", LITMUS_IF_DEVICE},
    [LITMUS_SWAP_LOST] = {"a swap is lost in a swap", LITMUS_NEVER},
    [LITMUS_OWNER_SWAP_LOST] = {"a swap is lost in a swap of the owner's", LITMUS_NEVER_OWNER},
    [LITMUS_SENT_BEFORE_WRITE] = {"WRITE, SEND: received before", LITMUS_NEVER},
    [LITMUS_NOTIFIED_BEFORE_WRITE] = {"WRITE, notified WRITE: received before", LITMUS_NEVER},
    [LITMUS_SENT_BEFORE_READ] = {"READ, SEND: received before", LITMUS_ALWAYS},
    [LITMUS_BOTH_MISSED] = {"two, each WRITE, then READ: both miss it", LITMUS_NEVER},
};

/* ---- words -------------------------------------------------------------------------------------- */

/* The word of a round, which shows if it is made of two. */
static uint64_t encode(uint64_t round)
{
    return (uint64_t) ~(uint32_t)round << 32 | (uint32_t)round;
}

/* @return false: it is made of two words, and tells nothing of their order */
static bool decode(uint64_t word, uint64_t *ret_round)
{
    *ret_round = (uint32_t)word;
    return (uint32_t)(word >> 32) == (uint32_t)~word;
}

static bool is_torn(uint64_t word)
{
    return word != PATTERN_A && word != PATTERN_B;
}

static void tried(struct litmus_stage *stage, enum litmus_sight sight, bool seen)
{
    stage->counts[sight].tries++;
    stage->counts[sight].seen += seen;
}

static uint64_t load(struct litmus_stage *stage, uint64_t offset)
{
    return tarn_fabric_mem_load64(stage->region, offset);
}

/* Words are stored one after the other, for all who look. */
static void store(struct litmus_stage *stage, uint64_t offset, uint64_t word)
{
    tarn_fabric_mem_store64(stage->region, offset, word);
    atomic_thread_fence(memory_order_release);
}

static void relax(struct litmus_stage *stage, enum litmus_actor actor)
{
    stage->place->relax(stage, &stage->random[actor]);
}

/* Of OWNER and SECOND, once a round. */
static bool is_over(struct litmus_stage *stage, enum litmus_actor actor)
{
    relax(stage, actor);
    atomic_fetch_add_explicit(&stage->rounds, 1, memory_order_relaxed);
    return atomic_load(&stage->over);
}

/* Of PEER, once a round: so much he does, and goes on until the other one has done as much. */
static bool goes_on(struct litmus_stage *stage, uint64_t round)
{
    return round < stage->tries ||
           (!stage->alone && atomic_load_explicit(&stage->rounds, memory_order_relaxed) < stage->tries);
}

/* ---- operations of PEER --------------------------------------------------------------------------- */

static void prepare(struct litmus_stage *stage, unsigned i, enum tarn_fabric_op_kind kind, uint64_t offset,
                    uint64_t words)
{
    stage->iov[i] = (struct iovec){.iov_base = stage->data[i], .iov_len = words * 8};
    stage->ops[i] =
        (struct tarn_fabric_op){.kind = kind,
                                .handle = kind == TARN_FABRIC_SEND ? NULL : &stage->region->handle,
                                .offset = offset,
                                .iov = &stage->iov[i],
                                .iov_count = words > 0 ? 1 : 0};
}

static void prepare_write(struct litmus_stage *stage, unsigned i, uint64_t offset, uint64_t words,
                          uint64_t word)
{
    prepare(stage, i, TARN_FABRIC_WRITE, offset, words);
    for (uint64_t at = 0; at < words; at++)
        stage->data[i][at] = word;
}

static void post(struct litmus_stage *stage, unsigned from, unsigned count)
{
    tarn_fabric_post(stage->connections[0], &stage->ops[from], count);
}

static void wait(struct litmus_stage *stage, unsigned from, unsigned count)
{
    base_assert(tarn_fabric_wait(&stage->ops[from], count, A_MINUTE) == 0);
}

static void run(struct litmus_stage *stage, unsigned count)
{
    post(stage, 0, count);
    wait(stage, 0, count);
}

static uint64_t swap(struct litmus_stage *stage, enum litmus_actor actor, enum tarn_fabric_op_kind kind,
                     uint64_t compare, uint64_t operand)
{
    struct tarn_fabric_op op = {.kind = kind,
                                .handle = &stage->region->handle,
                                .offset = LITMUS_X,
                                .compare = compare,
                                .operand = operand};
    tarn_fabric_post(stage->connections[actor - LITMUS_PEER], &op, 1);
    base_assert(tarn_fabric_wait(&op, 1, A_MINUTE) == 0);
    return op.before;
}

/* ---- READ --------------------------------------------------------------------------------------- */

static void store_patterns(struct litmus_stage *stage)
{
    while (!is_over(stage, LITMUS_OWNER)) {
        uint64_t pattern = base_random_below(&stage->random[LITMUS_OWNER], 2) == 0 ? PATTERN_A : PATTERN_B;
        for (uint64_t i = 0; i < LITMUS_WORDS; i++)
            store(stage, i * 8, pattern);
    }
}

static void read_whole(struct litmus_stage *stage, enum litmus_sight sight, uint64_t offset)
{
    if (!stage->info.whole_reads)
        return;
    prepare(stage, 0, TARN_FABRIC_READ, offset, 1);
    stage->ops[0].whole = true;
    run(stage, 1);
    tried(stage, sight, is_torn(stage->data[0][0]));
}

static void read_patterns(struct litmus_stage *stage)
{
    for (uint64_t i = 0; goes_on(stage, i); i++) {
        bool torn = false;
        read_whole(stage, LITMUS_WHOLE_TORN, i % LITMUS_WORDS * 8);
        prepare(stage, 0, TARN_FABRIC_READ, 0, LITMUS_WORDS);
        run(stage, 1);
        for (uint64_t word = 0; word < LITMUS_WORDS; word++)
            torn |= is_torn(stage->data[0][word]);
        tried(stage, LITMUS_READ_TORN, torn);
    }
}

/* SECOND alone changes the word: it knows what is there, unless a swap was lost in an FAA of 0. */
static void swap_patterns(struct litmus_stage *stage)
{
    uint64_t now = PATTERN_A;
    while (!is_over(stage, LITMUS_SECOND)) {
        uint64_t next = now == PATTERN_A ? PATTERN_B : PATTERN_A;
        uint64_t before = swap(stage, LITMUS_SECOND, TARN_FABRIC_CAS, now, next);
        tried(stage, LITMUS_SWAP_LOST, before != now);
        now = before == now ? next : before;
    }
}

static void read_what_is_swapped(struct litmus_stage *stage)
{
    for (uint64_t i = 0; goes_on(stage, i); i++) {
        read_whole(stage, LITMUS_WHOLE_TORN_BY_CAS, LITMUS_X);
        prepare(stage, 0, TARN_FABRIC_READ, LITMUS_X, 1);
        run(stage, 1);
        tried(stage, LITMUS_READ_TORN_BY_CAS, is_torn(stage->data[0][0]));
        tried(stage, LITMUS_FAA_TORN, is_torn(swap(stage, LITMUS_PEER, TARN_FABRIC_FAA, 0, 0)));
    }
}

/* Words are stored upward: a low one is never older than a high one, if both are looked at at once. */
static void store_upward(struct litmus_stage *stage)
{
    for (uint64_t round = 1; !is_over(stage, LITMUS_OWNER); round++) {
        for (uint64_t i = 0; i < LITMUS_WORDS; i++)
            store(stage, i * 8, encode(round));
    }
}

static void store_downward(struct litmus_stage *stage)
{
    for (uint64_t round = 1; !is_over(stage, LITMUS_OWNER); round++) {
        for (uint64_t i = LITMUS_WORDS; i > 0; i--)
            store(stage, (i - 1) * 8, encode(round));
    }
}

/* READ all words. @return bits: 1, a low one older than a high one; 2, the other way round */
static unsigned read_rounds(struct litmus_stage *stage)
{
    unsigned seen = 0;
    uint64_t before = 0, round;
    bool known = false;
    prepare(stage, 0, TARN_FABRIC_READ, 0, LITMUS_WORDS);
    run(stage, 1);
    for (uint64_t i = 0; i < LITMUS_WORDS; i++) {
        if (!decode(stage->data[0][i], &round))
            continue;
        if (known && round != before)
            seen |= before < round ? 1 : 2;
        before = round;
        known = true;
    }
    return seen;
}

/* So where a low one is older, it was read before. */
static void read_stored_upward(struct litmus_stage *stage)
{
    for (uint64_t i = 0; goes_on(stage, i); i++) {
        unsigned seen = read_rounds(stage);
        tried(stage, LITMUS_READ_MIXED, seen != 0);
        tried(stage, LITMUS_READ_UPWARD, (seen & 1) != 0);
    }
}

static void read_stored_downward(struct litmus_stage *stage)
{
    for (uint64_t i = 0; goes_on(stage, i); i++) {
        unsigned seen = read_rounds(stage);
        tried(stage, LITMUS_READ_MIXED, seen != 0);
        tried(stage, LITMUS_READ_DOWNWARD, (seen & 2) != 0);
    }
}

/* ---- WRITE -------------------------------------------------------------------------------------- */

static void write_patterns(struct litmus_stage *stage)
{
    for (uint64_t round = 0; goes_on(stage, round); round++) {
        prepare_write(stage, 0, 0, LITMUS_WORDS, round % 2 == 0 ? PATTERN_B : PATTERN_A);
        run(stage, 1);
    }
}

static void load_patterns(struct litmus_stage *stage)
{
    while (!is_over(stage, LITMUS_OWNER)) {
        bool torn = false;
        for (uint64_t word = 0; word < LITMUS_WORDS; word++)
            torn |= is_torn(load(stage, word * 8));
        tried(stage, LITMUS_WRITE_TORN, torn);
    }
}

static void write_rounds(struct litmus_stage *stage)
{
    for (uint64_t round = 1; goes_on(stage, round - 1); round++) {
        prepare_write(stage, 0, 0, LITMUS_WORDS, encode(round));
        run(stage, 1);
    }
}

/* Load two words, one after the other. @return whether the second, looked at later, is older */
static bool second_is_older(struct litmus_stage *stage, uint64_t first, uint64_t second)
{
    uint64_t rounds[2];
    uint64_t words[2];
    words[0] = load(stage, first);
    atomic_thread_fence(memory_order_seq_cst);
    words[1] = load(stage, second);
    return decode(words[0], &rounds[0]) && decode(words[1], &rounds[1]) && rounds[1] < rounds[0];
}

/* A word that is older though it was looked at later was written later. */
static void load_rounds(struct litmus_stage *stage)
{
    while (!is_over(stage, LITMUS_OWNER)) {
        uint64_t low = base_random_below(&stage->random[LITMUS_OWNER], LITMUS_WORDS / 2) * 8;
        uint64_t high = UINT64_C(4) * LITMUS_WORDS + low;
        tried(stage, LITMUS_WRITE_UPWARD, second_is_older(stage, low, high));
        relax(stage, LITMUS_OWNER);
        tried(stage, LITMUS_WRITE_DOWNWARD, second_is_older(stage, high, low));
    }
}

/* ---- two operations ----------------------------------------------------------------------------- */

static void write_two(struct litmus_stage *stage, bool fence, bool completed)
{
    for (uint64_t round = 1; goes_on(stage, round - 1); round++) {
        prepare_write(stage, 0, LITMUS_X, 1, encode(round));
        prepare_write(stage, 1, LITMUS_Y, 1, encode(round));
        stage->ops[1].fence = fence;
        post(stage, 0, completed ? 1 : 2);
        if (completed) {
            wait(stage, 0, 1);
            post(stage, 1, 1);
        }
        wait(stage, 0, 2);
    }
}

static void write_two_freely(struct litmus_stage *stage)
{
    write_two(stage, false, false);
}

static void write_two_fenced(struct litmus_stage *stage)
{
    write_two(stage, true, false);
}

static void write_two_one_by_one(struct litmus_stage *stage)
{
    write_two(stage, false, true);
}

static void write_and_swap_fenced(struct litmus_stage *stage)
{
    for (uint64_t round = 1; goes_on(stage, round - 1); round++) {
        prepare_write(stage, 0, LITMUS_X, 1, encode(round));
        prepare(stage, 1, TARN_FABRIC_CAS, LITMUS_Y, 0);
        stage->ops[1].fence = true;
        stage->ops[1].compare = encode(round - 1);
        stage->ops[1].operand = encode(round);
        run(stage, 2);
    }
}

static void look_at_two(struct litmus_stage *stage, enum litmus_sight sight)
{
    while (!is_over(stage, LITMUS_OWNER))
        tried(stage, sight, second_is_older(stage, LITMUS_Y, LITMUS_X));
}

static void look_at_two_free(struct litmus_stage *stage)
{
    look_at_two(stage, LITMUS_WRITE_OVERTAKES);
}

static void look_at_two_fenced(struct litmus_stage *stage)
{
    look_at_two(stage, LITMUS_WRITE_OVERTAKES_FENCE);
}

static void look_at_two_one_by_one(struct litmus_stage *stage)
{
    look_at_two(stage, LITMUS_WRITE_OVERTAKES_COMPLETED);
}

static void look_at_swap_fenced(struct litmus_stage *stage)
{
    look_at_two(stage, LITMUS_SWAP_OVERTAKES_FENCE);
}

/* Nobody else is there: what PEER reads, it has written. */
static void write_and_read(struct litmus_stage *stage)
{
    for (uint64_t round = 1; round <= stage->tries; round++) {
        const bool fence = round % 2 == 0;
        prepare_write(stage, 0, LITMUS_X, LITMUS_LONG, encode(round));
        prepare(stage, 1, TARN_FABRIC_READ, LITMUS_X + (LITMUS_LONG - 1) * 8, 1);
        stage->ops[1].fence = fence;
        run(stage, 2);
        bool missed = stage->data[1][0] != encode(round);
        tried(stage, fence ? LITMUS_READ_MISSES_FENCE : LITMUS_READ_MISSES, missed);
    }
}

/* Several long ones before it, that they keep each other waiting. */
static void read_and_write(struct litmus_stage *stage)
{
    for (uint64_t round = 1; round <= stage->tries; round++) {
        const bool fence = round % 2 == 0;
        const unsigned last = LITMUS_OPS - 1;
        bool foreseen = false;
        for (unsigned i = 0; i < last; i++)
            prepare(stage, i, TARN_FABRIC_READ, LITMUS_X, LITMUS_LONG);
        prepare_write(stage, last, LITMUS_X + (LITMUS_LONG - 1) * 8, 1, encode(round));
        stage->ops[last].fence = fence;
        run(stage, LITMUS_OPS);
        for (unsigned i = 0; i < last; i++)
            foreseen |= stage->data[i][LITMUS_LONG - 1] == encode(round);
        tried(stage, fence ? LITMUS_READ_FORESEES_FENCE : LITMUS_READ_FORESEES, foreseen);
    }
}

static void read_twice(struct litmus_stage *stage)
{
    uint64_t rounds[2];
    for (uint64_t i = 0; goes_on(stage, i); i++) {
        prepare(stage, 0, TARN_FABRIC_READ, 0, 1);
        prepare(stage, 1, TARN_FABRIC_READ, 0, 1);
        run(stage, 2);
        bool whole = decode(stage->data[0][0], &rounds[0]) && decode(stage->data[1][0], &rounds[1]);
        tried(stage, LITMUS_READ_GOES_BACK, whole && rounds[1] < rounds[0]);
    }
}

static void complete_two(struct litmus_stage *stage)
{
    for (uint64_t round = 1; round <= stage->tries; round++) {
        const bool fence = round % 2 == 0;
        prepare(stage, 0, TARN_FABRIC_READ, LITMUS_X, LITMUS_LONG);
        prepare_write(stage, 1, LITMUS_Y, 1, encode(round));
        stage->ops[1].fence = fence;
        post(stage, 0, 2);
        wait(stage, 1, 1);
        tried(stage, fence ? LITMUS_COMPLETED_FIRST_FENCE : LITMUS_COMPLETED_FIRST, !stage->ops[0].finished);
        wait(stage, 0, 1);
    }
}

/* ---- two who write and then look ------------------------------------------------------------------ */

/* WRITE one's own word, and when that has completed READ the other's: at once, or by a batch. @return the round read */
static uint64_t write_then_read(struct litmus_stage *stage, enum litmus_actor actor, uint64_t round)
{
    struct tarn_fabric_connection *connection = stage->connections[actor - LITMUS_PEER];
    const struct tarn_fabric_handle *handle = &stage->region->handle;
    const uint64_t mine = actor == LITMUS_PEER ? LITMUS_X : LITMUS_Y, word = encode(round);
    uint64_t other, seen = 0;
    if (round % 2 == 0) {
        base_assert(tarn_fabric_write(connection, 0, handle, mine, &word, 8, A_MINUTE) == 0);
    } else {
        const struct iovec vector = {.iov_base = (void *)(uintptr_t)&word, .iov_len = 8};
        struct tarn_fabric_op op = {
            .kind = TARN_FABRIC_WRITE, .handle = handle, .offset = mine, .iov = &vector, .iov_count = 1};
        tarn_fabric_post(connection, &op, 1);
        base_assert(tarn_fabric_wait(&op, 1, A_MINUTE) == 0);
    }
    base_assert(tarn_fabric_read(connection, 0, handle, LITMUS_X + LITMUS_Y - mine, &other, 8, A_MINUTE) ==
                0);
    return decode(other, &seen) ? seen : THE_END; /* one that is made of two tells nothing */
}

#define MANY 8 /* rounds for a try: each is short, and it takes many to meet */

/* Both begin at once. Where words are torn, rounds differ in one byte: of two a third could be made that looks whole. */
static uint64_t write_and_look(struct litmus_stage *stage, enum litmus_actor actor)
{
    const uint64_t most = stage->info.whole_words ? LITMUS_LOG - 1 : UINT8_MAX;
    const uint64_t rounds = base_min(MANY * stage->tries, most);
    atomic_fetch_add(&stage->added, 1);
    while (atomic_load(&stage->added) < 2)
        relax(stage, actor);
    for (uint64_t round = 1; round <= rounds; round++)
        stage->log[actor - LITMUS_PEER][round] = (uint32_t)write_then_read(stage, actor, round);
    atomic_fetch_add(&stage->added, 1);
    return rounds;
}

static void second_writes_and_looks(struct litmus_stage *stage)
{
    (void)write_and_look(stage, LITMUS_SECOND);
}

/* Of one's round and the first of the other's that it did not see, that one must have seen this: it looked when both
 * had written. */
static void compare_logs(struct litmus_stage *stage, unsigned one, uint64_t rounds)
{
    for (uint64_t round = 1; round <= rounds; round++) {
        uint64_t missed = UINT64_C(1) + stage->log[one][round];
        if (missed <= rounds)
            tried(stage, LITMUS_BOTH_MISSED, stage->log[1 - one][missed] < round);
    }
}

static void peer_writes_and_looks(struct litmus_stage *stage)
{
    const uint64_t rounds = write_and_look(stage, LITMUS_PEER);
    while (atomic_load(&stage->added) < 4)
        relax(stage, LITMUS_PEER);
    compare_logs(stage, 0, rounds);
    compare_logs(stage, 1, rounds);
}

/* ---- swaps -------------------------------------------------------------------------------------- */

#define HALF (UINT64_C(1) << 32)

/* Swaps keep the low half of the word, whatever it is. @param known  the word, as far as the actor knows */
static uint64_t swap_the_high_half(struct litmus_stage *stage, enum litmus_actor actor, uint64_t known)
{
    if (base_random_below(&stage->random[actor], 2) == 0)
        return swap(stage, actor, TARN_FABRIC_FAA, 0, HALF) + HALF;
    return swap(stage, actor, TARN_FABRIC_CAS, known, known + HALF);
}

static void peer_swaps(struct litmus_stage *stage)
{
    uint64_t known = 0;
    for (uint64_t i = 0; goes_on(stage, i); i++)
        known = swap_the_high_half(stage, LITMUS_PEER, known);
}

static void second_swaps(struct litmus_stage *stage)
{
    uint64_t known = 0;
    while (!is_over(stage, LITMUS_SECOND))
        known = swap_the_high_half(stage, LITMUS_SECOND, known);
}

/* What the owner stored last is in the low half, unless it was lost. */
static void store_the_word(struct litmus_stage *stage)
{
    for (uint64_t i = 1; !is_over(stage, LITMUS_OWNER); i++) {
        store(stage, LITMUS_X, i);
        for (unsigned wait = 0; wait < 4; wait++)
            relax(stage, LITMUS_OWNER);
        tried(stage, LITMUS_STORE_LOST, (uint32_t)load(stage, LITMUS_X) != (uint32_t)i);
    }
}

static void write_the_word(struct litmus_stage *stage)
{
    for (uint64_t i = 1; goes_on(stage, i - 1); i++) {
        prepare_write(stage, 0, LITMUS_X, 1, i);
        run(stage, 1);
        uint64_t word = swap(stage, LITMUS_PEER, TARN_FABRIC_FAA, 0, 0);
        tried(stage, LITMUS_WRITE_LOST, (uint32_t)word != (uint32_t)i);
    }
}

/* Both count in one word; each knows how far it has come. */
static void second_counts(struct litmus_stage *stage)
{
    uint64_t added = 0;
    for (; !is_over(stage, LITMUS_SECOND); added++)
        (void)swap(stage, LITMUS_SECOND, TARN_FABRIC_FAA, 0, 1);
    atomic_store(&stage->added, added + 1);
}

/* The same by the owner's swaps, where it has them. */
static void owner_counts(struct litmus_stage *stage)
{
    uint64_t added = 0, before = 0;
    for (uint64_t i = 0; !is_over(stage, LITMUS_OWNER); i++) {
        const uint64_t now = load(stage, LITMUS_X);
        int error = i % 2 == 0 ? tarn_fabric_mem_faa64(stage->region, LITMUS_X, 1, &before)
                               : tarn_fabric_mem_cas64(stage->region, LITMUS_X, now, now + 1, &before);
        base_assert(error == (stage->info.atomics == TARN_FABRIC_ATOMICS_MEMORY ? 0 : -EOPNOTSUPP));
        added += error == 0 && (i % 2 == 0 || before == now);
    }
    atomic_store(&stage->added, added + 1);
}

/* What PEER and the other one have counted is in the word, unless a swap was lost. @param mine  PEER's part */
static void compare_counts(struct litmus_stage *stage, enum litmus_sight sight, uint64_t mine)
{
    atomic_store(&stage->over, true);
    while (atomic_load(&stage->added) == 0)
        relax(stage, LITMUS_PEER);
    uint64_t sum = swap(stage, LITMUS_PEER, TARN_FABRIC_FAA, 0, 0);
    stage->counts[sight].tries += stage->tries;
    stage->counts[sight].seen += mine + atomic_load(&stage->added) - 1 - sum;
}

static void peer_counts(struct litmus_stage *stage)
{
    uint64_t now = 0, swapped = 0;
    while (goes_on(stage, swapped)) {
        uint64_t before = swap(stage, LITMUS_PEER, TARN_FABRIC_CAS, now, now + 1);
        swapped += before == now;
        now = before == now ? now + 1 : before;
    }
    compare_counts(stage, LITMUS_SWAP_LOST, swapped);
}

/* By FAA too: the owner may be so fast that no CAS succeeds. */
static void peer_counts_with_owner(struct litmus_stage *stage)
{
    uint64_t added = 0;
    if (stage->info.atomics != TARN_FABRIC_ATOMICS_MEMORY)
        return;
    for (uint64_t i = 0; goes_on(stage, i); i++) {
        const uint64_t now = swap(stage, LITMUS_PEER, TARN_FABRIC_FAA, 0, 1) + 1;
        added += swap(stage, LITMUS_PEER, TARN_FABRIC_CAS, now, now + 1) == now ? 2 : 1;
    }
    compare_counts(stage, LITMUS_OWNER_SWAP_LOST, added);
}

/* ---- messages ----------------------------------------------------------------------------------- */

/* Whether all words are of this round, or of one after it. */
static bool are_there(struct litmus_stage *stage, uint64_t round)
{
    uint64_t at;
    for (uint64_t i = 0; i < LITMUS_WORDS; i++) {
        if (decode(load(stage, i * 8), &at) && at < round)
            return false;
    }
    const uint64_t y = load(stage, LITMUS_Y);
    return y != 0 && (!decode(y, &at) || at >= round); /* of the next round it may be half */
}

static uint32_t receive(struct litmus_stage *stage, bool *ret_notified)
{
    struct tarn_fabric_message message;
    uint64_t room[512];
    base_assert(tarn_fabric_receive(stage->accepted[0], room, sizeof(room), A_MINUTE, &message) == 0);
    *ret_notified = message.notified;
    return message.notified ? message.value : (uint32_t)room[0];
}

static void send(struct litmus_stage *stage, unsigned i, uint32_t value)
{
    prepare(stage, i, TARN_FABRIC_SEND, 0, 1);
    stage->data[i][0] = value;
}

static void end_messages(struct litmus_stage *stage)
{
    send(stage, 0, THE_END);
    run(stage, 1);
}

static void write_and_tell(struct litmus_stage *stage)
{
    for (uint32_t round = 1; round <= stage->tries; round++) {
        prepare_write(stage, 0, 0, LITMUS_WORDS, encode(round));
        prepare_write(stage, 1, LITMUS_Y, 1, encode(round));
        if (round % 2 == 0) {
            stage->ops[1].kind = TARN_FABRIC_WRITE_NOTIFY;
            stage->ops[1].value = round;
        } else {
            send(stage, 2, round);
        }
        run(stage, round % 2 == 0 ? 2 : 3);
    }
    end_messages(stage);
}

static void look_when_told(struct litmus_stage *stage)
{
    uint32_t round;
    bool notified;
    while ((round = receive(stage, &notified)) != THE_END)
        tried(stage, notified ? LITMUS_NOTIFIED_BEFORE_WRITE : LITMUS_SENT_BEFORE_WRITE,
              !are_there(stage, round));
}

/* What is stored when the message has come is read by what was posted before it. */
static void read_and_tell(struct litmus_stage *stage)
{
    for (uint32_t round = 1; round <= stage->tries; round++) {
        prepare(stage, 0, TARN_FABRIC_READ, LITMUS_X, LITMUS_LONG);
        send(stage, 1, round);
        run(stage, 2);
        tried(stage, LITMUS_SENT_BEFORE_READ, stage->data[0][LITMUS_LONG - 1] == encode(round));
    }
    end_messages(stage);
}

static void store_when_told(struct litmus_stage *stage)
{
    uint32_t round;
    bool notified;
    while ((round = receive(stage, &notified)) != THE_END)
        store(stage, LITMUS_X + (LITMUS_LONG - 1) * 8, encode(round));
}

/* ---- the plays ---------------------------------------------------------------------------------- */

enum { ROUNDS, PATTERNS, ZEROS };

/* PEER does so much, and the others go on until he has: his operations take longest. */
struct play {
    void (*actors[LITMUS_ACTORS])(struct litmus_stage *stage);
    unsigned begins_with;
};

static const struct play plays[] = {
    {{store_patterns, read_patterns, NULL}, PATTERNS},
    {{NULL, read_what_is_swapped, swap_patterns}, PATTERNS},
    {{store_upward, read_stored_upward, NULL}, ROUNDS},
    {{store_downward, read_stored_downward, NULL}, ROUNDS},
    {{load_patterns, write_patterns, NULL}, PATTERNS},
    {{load_rounds, write_rounds, NULL}, ROUNDS},
    {{look_at_two_free, write_two_freely, NULL}, ROUNDS},
    {{look_at_two_fenced, write_two_fenced, NULL}, ROUNDS},
    {{look_at_two_one_by_one, write_two_one_by_one, NULL}, ROUNDS},
    {{look_at_swap_fenced, write_and_swap_fenced, NULL}, ROUNDS},
    {{NULL, write_and_read, NULL}, ROUNDS},
    {{NULL, read_and_write, NULL}, ROUNDS},
    {{store_upward, read_twice, NULL}, ROUNDS},
    {{NULL, complete_two, NULL}, ROUNDS},
    {{store_the_word, peer_swaps, NULL}, ZEROS},
    {{NULL, write_the_word, second_swaps}, ZEROS},
    {{NULL, peer_counts, second_counts}, ZEROS},
    {{owner_counts, peer_counts_with_owner, NULL}, ZEROS},
    {{NULL, peer_writes_and_looks, second_writes_and_looks}, ROUNDS},
    {{look_when_told, write_and_tell, NULL}, ROUNDS},
    {{store_when_told, read_and_tell, NULL}, ROUNDS},
};

static void reset(struct litmus_stage *stage, unsigned what)
{
    uint64_t word = what == PATTERNS ? PATTERN_A : what == ROUNDS ? encode(0) : 0;
    for (uint64_t offset = 0; offset < LITMUS_BYTES; offset += 8)
        store(stage, offset, word);
    atomic_store(&stage->over, false);
    atomic_store(&stage->added, 0);
    atomic_store(&stage->rounds, 0);
}

void litmus_act(struct litmus_stage *stage, enum litmus_actor actor)
{
    for (unsigned i = 0; i < base_array_count(plays); i++) {
        if (actor == LITMUS_OWNER) {
            reset(stage, plays[i].begins_with);
            stage->alone = plays[i].actors[LITMUS_OWNER] == NULL && plays[i].actors[LITMUS_SECOND] == NULL;
        }
        stage->place->meet(stage);
        if (plays[i].actors[actor] != NULL)
            plays[i].actors[actor](stage);
        if (actor == LITMUS_PEER)
            atomic_store(&stage->over, true);
        stage->place->meet(stage);
    }
}

/* ---- opening and closing ------------------------------------------------------------------------ */

void litmus_open(struct litmus_stage *stage, enum litmus_actor side, struct tarn_node *node, const char *url)
{
    const struct tarn_fabric_domain_options options = {.writable_bytes =
                                                           side == LITMUS_OWNER ? LITMUS_BYTES : 0};
    const uint32_t rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP;
    base_assert(tarn_fabric_open(node, url, &stage->fabrics[side]) == 0);
    base_assert(tarn_fabric_domain_open(stage->fabrics[side], &options, &stage->domains[side]) == 0);
    if (side != LITMUS_OWNER)
        return;
    stage->info = *tarn_fabric_info(stage->fabrics[side]);
    base_assert(tarn_fabric_region_alloc(stage->domains[side], LITMUS_BYTES, rights, &stage->region) == 0);
    base_assert(tarn_fabric_listen(stage->fabrics[side], stage->address, &stage->listener) == 0);
}

void litmus_connect(struct litmus_stage *stage, enum litmus_actor side)
{
    struct tarn_fabric_incoming *incoming;
    for (unsigned i = 0; i < 2; i++) {
        if (side != LITMUS_OWNER) {
            base_assert(tarn_fabric_connect(stage->domains[side], stage->address, NULL, A_MINUTE,
                                            &stage->connections[i]) == 0);
            continue;
        }
        base_assert(tarn_fabric_listener_wait(stage->listener, A_MINUTE, &incoming) == 0);
        base_assert(tarn_fabric_accept(incoming, stage->domains[side], NULL, &stage->accepted[i]) == 0);
    }
}

void litmus_disconnect(struct litmus_stage *stage, enum litmus_actor side)
{
    for (unsigned i = 0; i < 2; i++)
        tarn_fabric_disconnect(side == LITMUS_OWNER ? stage->accepted[i] : stage->connections[i]);
}

void litmus_close(struct litmus_stage *stage, enum litmus_actor side)
{
    if (side == LITMUS_OWNER) {
        tarn_fabric_listener_close(stage->listener);
        tarn_fabric_region_free(stage->region);
    }
    tarn_fabric_domain_close(stage->domains[side]);
    tarn_fabric_close(stage->fabrics[side]);
}
