/* Tests of the oracle: histories that it must explain, and others that it must refuse. */
#include "sim/depot_oracle.h"
#include "sim/testing.h"
#include <errno.h>

/* A script plays the store: what it answers, and whether the oracle can explain that. */
struct script {
    struct sim_world *world;
    struct sim_node *node;
    struct tarn_node *tarn;
    struct sim_oracle oracle;
    uint64_t version;
};

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static void let_pass(struct script *script, uint64_t ns)
{
    base_assert(sim_world_run(script->world, sim_world_now(script->world) + ns, never, NULL) == -ETIMEDOUT);
}

static void script_init(struct script *script)
{
    script->world = sim_test_world(1);
    script->node = sim_test_node(script->world, 1);
    script->tarn = sim_node_tarn(script->node);
    script->version = 100;
    base_assert(sim_oracle_init(&script->oracle, script->world) == 0);
}

/* @return the failure; NULL if all could be explained. What it says is kept in the world. */
static const char *script_check(struct script *script)
{
    sim_oracle_check(&script->oracle, 2);
    return sim_world_failure(script->world);
}

static void script_deinit(struct script *script)
{
    sim_oracle_deinit(&script->oracle);
    sim_node_kill(script->node); /* a world that has failed closes no node in good order */
    sim_world_close(script->world);
}

static void expect_explained(struct script *script)
{
    base_assert(script_check(script) == NULL);
    script_deinit(script);
}

static void expect_failure(struct script *script, const char *words)
{
    const char *failure = script_check(script);
    base_assert(failure != NULL && strstr(failure, words) != NULL);
    script_deinit(script);
}

static uint32_t begin(struct script *script, const struct sim_oracle_op *op)
{
    let_pass(script, 100);
    uint32_t number = sim_oracle_begin(&script->oracle, script->tarn, 0, op);
    let_pass(script, 100);
    return number;
}

static void end(struct script *script, uint32_t number, int error)
{
    bool stored = script->oracle.ops[number].kind == SIM_PUT && error == 0;
    sim_oracle_end(&script->oracle, script->tarn, number, error, stored ? ++script->version : 0);
    let_pass(script, 100);
}

static uint32_t put_with(struct script *script, const struct sim_oracle_op *op, int error)
{
    uint32_t number = begin(script, op);
    end(script, number, error);
    return number;
}

static uint32_t put(struct script *script, int error)
{
    const struct sim_oracle_op op = {.kind = SIM_PUT, .value_bytes = 10};
    return put_with(script, &op, error);
}

static void change(struct script *script, enum sim_oracle_kind kind, int error)
{
    const struct sim_oracle_op op = {.kind = kind, .key = kind == SIM_FLUSH_ALL ? SIM_ORACLE_ALL_KEYS : 0};
    end(script, begin(script, &op), error);
}

/* A get that finds a put as it was, or nothing: 0. */
static void get_found_of(struct script *script, uint64_t key, uint32_t number)
{
    const struct sim_oracle_op op = {.kind = SIM_GET, .key = key};
    const struct sim_oracle_op *found = &script->oracle.ops[number];
    uint32_t get = begin(script, &op);
    uint8_t value[16];
    sim_oracle_fill_value(key, number, value, found->value_bytes);
    const struct tarn_record_info info = {
        .version = found->version == 0 ? ++script->version : found->version,
        .client_flags = number,
        .value_bytes = found->value_bytes,
        .expiry_ns = found->expiry_ns,
    };
    sim_oracle_end_get(&script->oracle, script->tarn, get, number == 0 ? -ENOENT : 0, &info, value,
                       sizeof(value));
    let_pass(script, 100);
}

static void get_found(struct script *script, uint32_t number)
{
    get_found_of(script, 0, number);
}

static void restart(struct script *script)
{
    sim_oracle_end_epoch(&script->oracle, task_wall(script->tarn));
    let_pass(script, 100);
}

/* ---- acknowledged ---------------------------------------------------------------------------- */

static void what_was_acknowledged_is_there(void)
{
    struct script script;
    script_init(&script);
    uint32_t first = put(&script, 0);
    get_found(&script, first);
    restart(&script);
    get_found(&script, first);
    uint32_t second = put(&script, 0);
    restart(&script);
    restart(&script);
    get_found(&script, second);
    change(&script, SIM_DELETE, 0);
    get_found(&script, 0);
    expect_explained(&script);

    script_init(&script);
    (void)put(&script, 0);
    restart(&script);
    get_found(&script, 0);
    expect_failure(&script, "nothing explains it");

    script_init(&script);
    first = put(&script, 0);
    (void)put(&script, 0);
    restart(&script);
    get_found(&script, first);
    expect_failure(&script, "nothing explains it");

    script_init(&script);
    first = put(&script, 0);
    change(&script, SIM_DELETE, 0);
    restart(&script);
    get_found(&script, first);
    expect_failure(&script, "nothing explains it");
}

/* ---- in flight ------------------------------------------------------------------------------- */

static void what_was_cut_off_happened_or_not(void)
{
    for (int seen = 0; seen < 2; seen++) {
        for (int again = 0; again < 2; again++) {
            struct script script;
            script_init(&script);
            uint32_t first = put(&script, 0);
            uint32_t second = begin(&script, &(struct sim_oracle_op){.kind = SIM_PUT, .value_bytes = 10});
            restart(&script);
            get_found(&script, seen == 1 ? second : first);
            restart(&script);
            get_found(&script, again == 1 ? second : first);
            if (seen == again)
                expect_explained(&script);
            else
                expect_failure(&script, "nothing explains it"); /* shown or hidden once, it stays so */
        }
    }
}

static void a_read_makes_it_durable(void)
{
    struct script script;
    script_init(&script);
    uint32_t number = begin(&script, &(struct sim_oracle_op){.kind = SIM_PUT, .value_bytes = 10});
    get_found(&script, number);
    restart(&script);
    get_found(&script, 0);
    expect_failure(&script, "nothing explains it");
}

/* ---- rejected -------------------------------------------------------------------------------- */

static void what_was_rejected_never_appears(void)
{
    static const int errors[] = {-ENOSPC, -EROFS};
    for (size_t i = 0; i < base_array_count(errors); i++) {
        struct script script;
        script_init(&script);
        uint32_t number = put(&script, errors[i]);
        restart(&script);
        get_found(&script, number);
        expect_failure(&script, "nothing explains it");
    }
    struct script script;
    script_init(&script);
    uint32_t first = put(&script, 0);
    const struct sim_oracle_op add = {.kind = SIM_PUT, .condition = TARN_PUT_IF_ABSENT, .value_bytes = 5};
    uint32_t second = put_with(&script, &add, -EEXIST);
    get_found(&script, first);
    get_found(&script, second);
    expect_failure(&script, "nothing explains it");
}

static void conditions_must_hold(void)
{
    struct script script;
    script_init(&script);
    const struct sim_oracle_op add = {.kind = SIM_PUT, .condition = TARN_PUT_IF_ABSENT};
    (void)put_with(&script, &add, -EEXIST);
    expect_failure(&script, "nothing explains it");

    script_init(&script);
    const struct sim_oracle_op replace = {.kind = SIM_PUT, .condition = TARN_PUT_IF_PRESENT};
    (void)put_with(&script, &replace, -ENOENT);
    uint32_t first = put(&script, 0);
    uint32_t second = put_with(&script, &replace, 0);
    struct sim_oracle_op swap = {.kind = SIM_PUT, .condition = TARN_PUT_IF_VERSION, .if_number = first};
    (void)put_with(&script, &swap, -EEXIST);
    swap.if_number = second;
    (void)put_with(&script, &swap, 0);
    expect_explained(&script);

    script_init(&script);
    first = put(&script, 0);
    (void)put(&script, 0);
    swap.if_number = first;
    (void)put_with(&script, &swap, 0);
    expect_failure(&script, "nothing explains it");
}

/* ---- failed ---------------------------------------------------------------------------------- */

static void what_failed_is_not_seen_before_the_epoch_ends(void)
{
    for (int seen = 0; seen < 2; seen++) {
        struct script script;
        script_init(&script);
        uint32_t first = put(&script, 0);
        uint32_t second = put(&script, -EIO);
        get_found(&script, first);
        restart(&script);
        get_found(&script, seen == 1 ? second : first);
        expect_explained(&script);
    }
    struct script script;
    script_init(&script);
    uint32_t number = put(&script, -EIO);
    get_found(&script, number);
    restart(&script);
    expect_failure(&script, "nothing explains it");
}

/* ---- lost ------------------------------------------------------------------------------------ */

static void settle(struct script *script, enum sim_oracle_kind kind)
{
    restart(script);
    sim_oracle_settle(&script->oracle, kind, sim_world_now(script->world));
    let_pass(script, 100);
}

/* Puts and a delete, of which the first two are known to be durable; then a loss. */
static void lose(struct script *script, uint32_t *ret_numbers)
{
    script_init(script);
    script->oracle.lossy = true;
    for (int i = 0; i < 4; i++) {
        ret_numbers[i] = put(script, 0);
        if (i == 1)
            settle(script, SIM_DURABLE);
    }
    change(script, SIM_DELETE, 0);
    get_found(script, 0);
    settle(script, SIM_LOSS);
}

static void a_loss_leaves_what_was_durable_or_later(void)
{
    struct script script;
    uint32_t numbers[4];
    for (int seen = 1; seen < 4; seen++) {
        lose(&script, numbers);
        get_found(&script, numbers[seen]);
        restart(&script);
        get_found(&script, numbers[seen]);
        expect_explained(&script);
    }
    lose(&script, numbers);
    get_found(&script, 0);
    restart(&script);
    get_found(&script, 0);
    expect_explained(&script);

    lose(&script, numbers);
    get_found(&script, numbers[0]); /* older than what was durable */
    expect_failure(&script, "nothing explains it");

    lose(&script, numbers);
    get_found(&script, 0);
    get_found(&script, numbers[2]); /* what was hidden stays hidden */
    expect_failure(&script, "nothing explains it");
}

static void without_a_loss_nothing_is_lost(void)
{
    struct script script;
    script_init(&script);
    script.oracle.lossy = true;
    uint32_t first = put(&script, 0);
    (void)put(&script, 0);
    settle(&script, SIM_DURABLE);
    get_found(&script, first);
    expect_failure(&script, "nothing explains it");

    script_init(&script);
    first = put(&script, 0); /* in TARN_MODE_POWER */
    (void)put(&script, 0);
    settle(&script, SIM_LOSS);
    get_found(&script, first);
    expect_failure(&script, "nothing explains it");
}

static void a_flush_is_never_lost(void)
{
    struct script script;
    script_init(&script);
    script.oracle.lossy = true;
    uint32_t first = put(&script, 0);
    const struct sim_oracle_op flush = {
        .kind = SIM_FLUSH_ALL, .key = SIM_ORACLE_ALL_KEYS, .expiry_ns = sim_world_wall(script.world)};
    end(&script, begin(&script, &flush), 0);
    settle(&script, SIM_LOSS);
    get_found(&script, first);
    expect_failure(&script, "nothing explains it");
}

/* ---- updates --------------------------------------------------------------------------------- */

static uint32_t update(struct script *script, uint32_t found, enum sim_oracle_answer answer, int error)
{
    const struct sim_oracle_op op = {.kind = SIM_UPDATE};
    const struct sim_oracle_op decided = {.kind = SIM_UPDATE, .answer = answer, .value_bytes = 8};
    const struct sim_oracle_op *old = &script->oracle.ops[found];
    uint32_t number = begin(script, &op);
    uint8_t value[16];
    sim_oracle_fill_value(0, found, value, old->value_bytes);
    const struct tarn_record_info info = {.version = old->version,
                                          .client_flags = found,
                                          .value_bytes = old->value_bytes,
                                          .expiry_ns = old->expiry_ns};
    sim_oracle_decide(&script->oracle, number, found == 0 ? NULL : &info, value, &decided);
    sim_oracle_end(&script->oracle, script->tarn, number, error,
                   answer == SIM_STORE && error == 0 ? ++script->version : 0);
    let_pass(script, 100);
    return number;
}

static void updates_read_and_write_at_once(void)
{
    struct script script;
    script_init(&script);
    uint32_t first = update(&script, 0, SIM_STORE, 0);
    get_found(&script, first);
    uint32_t second = update(&script, first, SIM_STORE, 0);
    (void)update(&script, second, SIM_REFUSE, SIM_ORACLE_REFUSED);
    get_found(&script, second);
    (void)update(&script, second, SIM_REMOVE, 0);
    (void)update(&script, 0, SIM_REMOVE, 0);
    (void)update(&script, 0, SIM_REFUSE, SIM_ORACLE_REFUSED);
    get_found(&script, 0);
    (void)begin(&script,
                &(struct sim_oracle_op){.kind = SIM_UPDATE}); /* cut off undecided: it never happened */
    restart(&script);
    get_found(&script, 0);
    expect_explained(&script);

    static const enum sim_oracle_answer answers[] = {SIM_STORE, SIM_REMOVE, SIM_REFUSE};
    for (size_t i = 0; i < base_array_count(answers); i++) {
        int error = answers[i] == SIM_REFUSE ? SIM_ORACLE_REFUSED : 0;
        script_init(&script);
        first = put(&script, 0);
        (void)put(&script, 0);
        (void)update(&script, first, answers[i], error); /* which another has replaced */
        expect_failure(&script, "nothing explains it");

        script_init(&script);
        (void)put(&script, 0);
        (void)update(&script, 0, answers[i], error);
        expect_failure(&script, "nothing explains it");
    }
}

/* ---- scans ----------------------------------------------------------------------------------- */

static void what_is_at_rest_is_visited(void)
{
    const struct sim_oracle_op op = {.kind = SIM_GET};
    for (int missed = 0; missed < 2; missed++) {
        struct script script;
        script_init(&script);
        if (missed == 1)
            (void)put(&script, 0);
        uint32_t number = begin(&script, &op);
        sim_oracle_end_unvisited(&script.oracle, script.tarn, number, true);
        if (missed == 0)
            expect_explained(&script);
        else
            expect_failure(&script, "nothing explains it");
    }
    for (int ended_early = 0; ended_early < 2; ended_early++) {
        struct script script;
        script_init(&script);
        (void)put(&script, 0);
        uint32_t number = begin(&script, &op);
        if (ended_early == 0)
            (void)put(&script, 0); /* meanwhile */
        sim_oracle_end_unvisited(&script.oracle, script.tarn, number, ended_early == 0);
        expect_explained(&script);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

static void records_end_with_their_expiry(void)
{
    struct script script;
    script_init(&script);
    const struct sim_oracle_op brief = {
        .kind = SIM_PUT, .value_bytes = 3, .expiry_ns = sim_world_wall(script.world) + 100000};
    uint32_t number = put_with(&script, &brief, 0); /* until the next hundredth of a second */
    get_found(&script, number);
    let_pass(&script, UINT64_C(10000000));
    get_found(&script, 0);
    expect_explained(&script);

    script_init(&script);
    (void)put_with(&script, &brief, 0);
    get_found(&script, 0); /* too early */
    expect_failure(&script, "nothing explains it");

    script_init(&script);
    number = put_with(&script, &brief, 0);
    let_pass(&script, UINT64_C(10000000));
    get_found(&script, number); /* too late */
    expect_failure(&script, "nothing explains it");
}

/* A clock that is set back, while nobody runs, does not bring back what was seen to have ended. */
static void what_was_seen_to_end_stays_gone(void)
{
    static const enum sim_oracle_kind kinds[] = {SIM_GET, SIM_TOUCH, SIM_DELETE};
    for (size_t i = 0; i < base_array_count(kinds); i++) {
        for (int looked = 0; looked < 2; looked++) {
            struct script script;
            script_init(&script);
            const struct sim_oracle_op brief = {
                .kind = SIM_PUT, .value_bytes = 3, .expiry_ns = sim_world_wall(script.world) + 1000000000};
            uint32_t number = put_with(&script, &brief, 0);
            sim_world_wall_jump(script.world, 2000000000);
            if (looked == 1)
                get_found(&script, 0);
            restart(&script);
            sim_world_wall_jump(script.world, -2000000000);
            sim_node_kill(script.node);
            script.node = sim_test_node(script.world, 1);
            script.tarn = sim_node_tarn(script.node);
            if (kinds[i] == SIM_GET)
                get_found(&script, number);
            else
                change(&script, kinds[i], 0);
            if (looked == 1)
                expect_failure(&script, "nothing explains it");
            else
                expect_explained(&script);
        }
    }
}

static void flush_all_takes_what_was_there(void)
{
    struct script script;
    script_init(&script);
    uint32_t first = put(&script, 0);
    struct sim_oracle_op flush = {.kind = SIM_FLUSH_ALL,
                                  .key = SIM_ORACLE_ALL_KEYS,
                                  .expiry_ns = sim_world_wall(script.world) + 1000000};
    end(&script, begin(&script, &flush), 0);
    get_found(&script, first);
    let_pass(&script, 1000000);
    get_found(&script, 0);
    uint32_t second = put(&script, 0);
    get_found(&script, second);
    expect_explained(&script);

    script_init(&script);
    first = put(&script, 0);
    flush.expiry_ns = sim_world_wall(script.world);
    end(&script, begin(&script, &flush), 0);
    let_pass(&script, 1000000);
    get_found(&script, first);
    expect_failure(&script, "nothing explains it");
}

/* An order for later leaves alone what has expired unseen, and a clock that is set back may show it again. */
static void an_order_for_later_looks_at_nothing(void)
{
    struct script script;
    script_init(&script);
    uint64_t wall_ns = sim_world_wall(script.world);
    const struct sim_oracle_op brief = {.kind = SIM_PUT, .value_bytes = 3, .expiry_ns = wall_ns + 1000000000};
    uint32_t number = put_with(&script, &brief, 0);
    sim_world_wall_jump(script.world, 2000000000);
    const struct sim_oracle_op flush = {
        .kind = SIM_FLUSH_ALL, .key = SIM_ORACLE_ALL_KEYS, .expiry_ns = wall_ns + UINT64_C(3000000000)};
    end(&script, begin(&script, &flush), 0);
    restart(&script);
    sim_world_wall_jump(script.world, -2000000000);
    sim_node_kill(script.node);
    script.node = sim_test_node(script.world, 1);
    script.tarn = sim_node_tarn(script.node);
    get_found(&script, number);
    expect_explained(&script);
}

/*
 * A write that failed may be in the log before the order that had come was carried out. Then an opening carries it
 * out; who only reads cannot note that, and where the clock is set back what was gone is there.
 */
static void a_failed_write_may_be_flushed_and_come_back(void)
{
    for (int failed = 0; failed < 2; failed++) {
        struct script script;
        script_init(&script);
        const struct sim_oracle_op flush = {.kind = SIM_FLUSH_ALL,
                                            .key = SIM_ORACLE_ALL_KEYS,
                                            .expiry_ns = sim_world_wall(script.world) + BASE_NS_PER_SECOND};
        end(&script, begin(&script, &flush), 0);
        sim_world_wall_jump(script.world, 2 * (int64_t)BASE_NS_PER_SECOND);
        uint32_t number = put(&script, failed ? -EIO : 0);
        restart(&script);
        script.oracle.frail = true;
        get_found(&script, 0);
        restart(&script);
        sim_world_wall_jump(script.world, -2 * (int64_t)BASE_NS_PER_SECOND);
        sim_node_kill(script.node);
        script.node = sim_test_node(script.world, 1);
        script.tarn = sim_node_tarn(script.node);
        get_found(&script, number);
        if (failed)
            expect_explained(&script);
        else
            expect_failure(&script, "nothing explains it");
    }
}

/* ---- batches ----------------------------------------------------------------------------------- */

/* Of keys 0 and 1. @return number of the first */
static uint32_t begin_batch(struct script *script, enum sim_oracle_kind second)
{
    uint32_t first = begin(script, &(struct sim_oracle_op){.kind = SIM_PUT, .value_bytes = 10});
    (void)begin(script, &(struct sim_oracle_op){.kind = second, .key = 1, .value_bytes = 10});
    sim_oracle_join(&script->oracle, first, 2);
    return first;
}

enum fault { CUT_OFF, FAILED, LOST, FAULTS };

/* Of a batch that nobody has acknowledged, or that was lost, all is there or nothing. */
static void a_batch_has_one_fate(void)
{
    for (int fault = 0; fault < FAULTS; fault++) {
        for (int found = 0; found < 4; found++) {
            struct script script;
            script_init(&script);
            script.oracle.lossy = fault == LOST;
            uint32_t old[2], first;
            for (uint32_t key = 0; key < 2; key++)
                old[key] = put_with(
                    &script, &(struct sim_oracle_op){.kind = SIM_PUT, .key = key, .value_bytes = 9}, 0);
            if (fault == LOST)
                sim_oracle_end_epoch(&script.oracle, task_wall(script.tarn));
            if (fault == LOST)
                sim_oracle_settle(&script.oracle, SIM_DURABLE, sim_world_now(script.world));
            first = begin_batch(&script, SIM_PUT);
            for (uint32_t i = 0; i < 2 && fault != CUT_OFF; i++)
                end(&script, first + i, fault == LOST ? 0 : -EIO);
            restart(&script);
            if (fault == LOST)
                sim_oracle_settle(&script.oracle, SIM_LOSS, sim_world_now(script.world));
            for (uint32_t key = 0; key < 2; key++)
                get_found_of(&script, key, (found >> key & 1) != 0 ? first + key : old[key]);
            if (found == 0 || found == 3)
                expect_explained(&script);
            else
                expect_failure(&script, "is there in part");
        }
    }
}

/* What was acknowledged and not lost is there, whatever it was part of. */
static void a_batch_that_was_acknowledged_is_there(void)
{
    for (int lossy = 0; lossy < 2; lossy++) {
        struct script script;
        script_init(&script);
        script.oracle.lossy = lossy != 0;
        uint32_t first = begin_batch(&script, SIM_PUT);
        for (uint32_t i = 0; i < 2; i++)
            end(&script, first + i, 0);
        restart(&script);
        if (lossy)
            sim_oracle_settle(&script.oracle, SIM_DURABLE, sim_world_now(script.world));
        for (uint32_t key = 0; key < 2; key++)
            get_found_of(&script, key, 0);
        expect_failure(&script, "nothing explains it");
    }
}

/* A removal that met nothing is part of it all the same; and what a failed one could publish is seen. */
static void of_a_batch_not_all_must_be_seen(void)
{
    struct script script;
    script_init(&script);
    uint32_t first = begin_batch(&script, SIM_DELETE);
    restart(&script);
    get_found_of(&script, 0, first);
    get_found_of(&script, 1, 0);
    expect_explained(&script);

    for (int whole = 0; whole < 2; whole++) {
        script_init(&script);
        first = begin_batch(&script, SIM_PUT);
        for (uint32_t i = 0; i < 2; i++)
            end(&script, first + i, -EIO);
        get_found_of(&script, 0, first);
        get_found_of(&script, 1, 0);
        restart(&script);
        get_found_of(&script, 1, whole ? first + 1 : 0);
        if (whole)
            expect_explained(&script);
        else
            expect_failure(&script, "is there in part");
    }
}

/* ---- what a record must be ------------------------------------------------------------------- */

static void records_must_be_whole(void)
{
    for (int wrong = 0; wrong < 4; wrong++) {
        struct script script;
        script_init(&script);
        uint32_t number = put(&script, 0);
        uint32_t other = put(&script, 0);
        uint8_t value[10];
        sim_oracle_fill_value(0, other, value, sizeof(value));
        struct tarn_record_info info = {
            .version = script.oracle.ops[other].version, .client_flags = other, .value_bytes = sizeof(value)};
        const char *const words[] = {"other bytes", "bytes, 9 are found", "had version",
                                     "no put of this key"};
        if (wrong == 0)
            value[9] ^= 1;
        else if (wrong == 1)
            info.value_bytes = 9;
        else if (wrong == 2)
            info.version = script.oracle.ops[number].version;
        else
            info.client_flags = 77;
        uint32_t get = begin(&script, &(struct sim_oracle_op){.kind = SIM_GET});
        sim_oracle_end_get(&script.oracle, script.tarn, get, 0, &info, value, sizeof(value));
        expect_failure(&script, words[wrong]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIM_TEST(what_was_acknowledged_is_there),
        SIM_TEST(what_was_cut_off_happened_or_not),
        SIM_TEST(a_read_makes_it_durable),
        SIM_TEST(what_was_rejected_never_appears),
        SIM_TEST(conditions_must_hold),
        SIM_TEST(what_failed_is_not_seen_before_the_epoch_ends),
        SIM_TEST(a_loss_leaves_what_was_durable_or_later),
        SIM_TEST(without_a_loss_nothing_is_lost),
        SIM_TEST(a_flush_is_never_lost),
        SIM_TEST(updates_read_and_write_at_once),
        SIM_TEST(what_is_at_rest_is_visited),
        SIM_TEST(records_end_with_their_expiry),
        SIM_TEST(what_was_seen_to_end_stays_gone),
        SIM_TEST(flush_all_takes_what_was_there),
        SIM_TEST(an_order_for_later_looks_at_nothing),
        SIM_TEST(a_failed_write_may_be_flushed_and_come_back),
        SIM_TEST(a_batch_has_one_fate),
        SIM_TEST(a_batch_that_was_acknowledged_is_there),
        SIM_TEST(of_a_batch_not_all_must_be_seen),
        SIM_TEST(records_must_be_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
