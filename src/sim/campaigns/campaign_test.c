/* Tests of the campaigns' runner: seeds, budgets, failures and their lines. */
#include "base/base.h"
#include "sim/campaigns/campaign.h"
#include "sim/testing.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* ---- campaigns that end in all ways ---------------------------------------------------------- */

static const char *const no_mutations[] = {NULL};
static const char *const a_mutation[] = {"mutated", NULL};

/* The seed of a world, as a campaign finds it out: the first number drawn tells. */
static uint64_t draw_of(uint64_t seed)
{
    struct sim_world *world = sim_test_world(seed);
    uint64_t drawn = base_random_u64(sim_world_random(world));
    sim_world_close(world);
    return drawn;
}

static void run_good(struct sim_world *world, const char *mutation)
{
    if (mutation != NULL)
        sim_fail(world, "it is %s", mutation);
}

static void run_bad_from_137(struct sim_world *world, const char *mutation)
{
    (void)mutation;
    uint64_t drawn = base_random_u64(sim_world_random(world));
    for (uint64_t seed = 137; seed < 300; seed++) {
        if (drawn == draw_of(seed))
            sim_fail(world, "seed %" PRIu64 " is bad", seed);
    }
}

static void run_crash_at_60(struct sim_world *world, const char *mutation)
{
    (void)mutation;
    if (base_random_u64(sim_world_random(world)) == draw_of(60))
        abort();
}

static void run_exit_at_61(struct sim_world *world, const char *mutation)
{
    (void)mutation;
    if (base_random_u64(sim_world_random(world)) == draw_of(61))
        _exit(7);
}

static void run_hang_at_2(struct sim_world *world, const char *mutation)
{
    (void)mutation;
    while (base_random_u64(sim_world_random(world)) == draw_of(2)) {
        for (;;)
            (void)sleep(1);
    }
}

static void run_differently(struct sim_world *world, const char *mutation)
{
    static uint64_t runs;
    (void)mutation;
    sim_note(world, "run", runs++, 0);
}

static const struct sim_campaign good = {"good", "passes", a_mutation, run_good};
static const struct sim_campaign bad = {"bad", "fails", no_mutations, run_bad_from_137};
static const struct sim_campaign crash = {"crash", "crashes", no_mutations, run_crash_at_60};
static const struct sim_campaign leaves = {"exit", "exits", no_mutations, run_exit_at_61};
static const struct sim_campaign hang = {"hang", "hangs", no_mutations, run_hang_at_2};
static const struct sim_campaign vary = {"vary", "is never the same", no_mutations, run_differently};
static const struct sim_campaign *const test_campaigns[] = {&good, &bad, &crash, &leaves, &hang, &vary, NULL};

/* Run seeds and expect a result and some words in what is said. */
static void expect(const struct sim_run_options *given, int result, const char *const *words)
{
    char *text = NULL;
    size_t bytes = 0;
    struct sim_run_options options = *given;
    options.out = options.errors = open_memstream(&text, &bytes);
    base_assert(options.out != NULL);
    int got = sim_run(&options);
    base_assert(fclose(options.out) == 0);
    bool as_expected = got == result;
    for (size_t i = 0; words[i] != NULL; i++)
        as_expected = as_expected && strstr(text, words[i]) != NULL;
    if (!as_expected)
        (void)fprintf(stderr, "returned %d and said:\n%s", got, text);
    free(text);
    base_assert(as_expected);
}

static struct sim_run_options run_of(const char *campaign, uint64_t count)
{
    return (struct sim_run_options){
        .campaigns = test_campaigns, .campaign = campaign, .count = count, .jobs = 2};
}

/* ---- the runner ------------------------------------------------------------------------------ */

static void seeds_pass(void)
{
    struct sim_run_options options = run_of("good", 120);
    expect(&options, 0, (const char *const[]){"good: 120 seeds passed, none failed", NULL});
    options.no_fork = true;
    expect(&options, 0, (const char *const[]){"good: 120 seeds passed, none failed", NULL});
    options.count = 0;
    expect(&options, 0, (const char *const[]){"good: 0 seeds passed", NULL});
}

static void the_first_failure_is_told(void)
{
    struct sim_run_options options = run_of("bad", 300);
    options.program = "build/tarn";
    const char *const words[] = {"bad: seed 137 failed: seed 137 is bad",
                                 "gdb --args build/tarn sim --campaign=bad --seed=137 --count=1 --no-fork",
                                 "1 FAILED", NULL};
    expect(&options, 1, words);
    options.jobs = 7;
    expect(&options, 1, words);
    options.no_fork = true;
    expect(&options, 1, words);
    options.seed = 138;
    options.no_fork = false;
    expect(&options, 1, (const char *const[]){"seed 138 is bad", NULL});
    options.seed = 0;
    options.count = 137;
    expect(&options, 0, (const char *const[]){"137 seeds passed", NULL});
}

static void a_mutation_is_handed_over(void)
{
    struct sim_run_options options = run_of("good", 10);
    options.mutation = "mutated";
    expect(&options, 1, (const char *const[]){"seed 0 failed: it is mutated", "--mutation=mutated", NULL});
    options.mutation = "other";
    expect(&options, -EINVAL, (const char *const[]){"no mutation 'other'", "mutated", NULL});
    options = run_of("none", 10);
    expect(&options, -EINVAL, (const char *const[]){"no campaign 'none'", "good", "hang", NULL});
}

static void crashes_are_failures(void)
{
    struct sim_run_options options = run_of("crash", 100);
    expect(&options, 1, (const char *const[]){"crash: seed 60 failed: the process died of signal 6", NULL});
    options = run_of("exit", 100);
    expect(&options, 1, (const char *const[]){"exit: seed 61 failed: the process ended with status 7", NULL});
}

static void hangs_are_failures(void)
{
    struct sim_run_options options = run_of("hang", 10);
    options.hang_ns = 300000000;
    expect(&options, 1, (const char *const[]){"hang: seed 2 failed: no end", NULL});
}

static void two_runs_must_be_equal(void)
{
    struct sim_run_options options = run_of("vary", 10);
    expect(&options, 1, (const char *const[]){"vary: seed 0 failed: two runs of one seed differ", NULL});
}

/* ---- the campaigns --------------------------------------------------------------------------- */

static void campaigns_pass(void)
{
    for (size_t i = 0; sim_campaigns[i] != NULL; i++) {
        const struct sim_run_options options = {
            .campaign = sim_campaigns[i]->name, .seed = 1000, .count = TESTING_SLOW ? 20 : 60, .jobs = 2};
        expect(&options, 0, (const char *const[]){"0 seeds passed, none failed", NULL});
        base_assert(sim_campaigns[i]->help[0] != '\0');
    }
}

static void a_missing_flush_is_caught_soon(void)
{
    const struct sim_run_options options = {
        .campaign = "depot", .count = TESTING_SLOW ? 50 : 200, .jobs = 2, .mutation = "flush-ignored"};
    expect(&options, 1, (const char *const[]){"1 FAILED", NULL});
}

/* How sharp the campaigns are does not depend on how they were built. */
#if !TESTING_SLOW
static void mutations_are_caught(void)
{
    size_t caught = 0;
    for (size_t i = 0; sim_campaigns[i] != NULL; i++) {
        for (const char *const *mutation = sim_campaigns[i]->mutations; *mutation != NULL; mutation++) {
            const struct sim_run_options options = {
                .campaign = sim_campaigns[i]->name, .count = 1000, .jobs = 2, .mutation = *mutation};
            expect(&options, 1, (const char *const[]){"failed", *mutation, NULL});
            caught++;
        }
    }
    base_assert(caught >= 4);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIM_TEST(seeds_pass),
        SIM_TEST(the_first_failure_is_told),
        SIM_TEST(a_mutation_is_handed_over),
        SIM_TEST(crashes_are_failures),
        SIM_TEST(hangs_are_failures),
        SIM_TEST(two_runs_must_be_equal),
        SIM_TEST(campaigns_pass),
        SIM_TEST(a_missing_flush_is_caught_soon),
#if !TESTING_SLOW
        SIM_TEST(mutations_are_caught),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
