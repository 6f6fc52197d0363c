/*
 * The speed model against what follows from its constants: rates, latencies, bandwidth and turns, of every card.
 */
#include "fabric/fabric.h"
#include "lab/speed_run.h"
#include "sim/net/net.h"
#include "sim/testing.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define CARD "connectx3-40g"

enum { SMALL = 32, LARGE = 1 << 20, RUN_NS = 400000 };

static struct lab_speed_result measure(struct lab_speed_options options)
{
    struct lab_speed_result result;
    if (options.card == NULL)
        options.card = sim_card_find(CARD);
    if (options.run_ns == 0)
        options.run_ns = RUN_NS;
    options.seed = options.seed == 0 ? 1 : options.seed;
    base_assert(lab_speed_measure(&options, &result) == 0);
    return result;
}

/* Within so many thousandths. */
static void expect(const char *what, uint64_t got, uint64_t wanted, uint64_t thousandths)
{
    uint64_t off = got > wanted ? got - wanted : wanted - got;
    if (off * 1000 <= wanted * thousandths)
        return;
    (void)fprintf(stderr, "%s: %" PRIu64 ", not %" PRIu64 "\n", what, got, wanted);
    base_assert(false);
}

/* ---- rates -------------------------------------------------------------------------------------- */

/* RFP Figure 1(b): seven machines of five threads reach what a server serves; fewer, what they can issue. */
static void clients_reach_the_in_bound_rate(void)
{
    const struct sim_card *card = sim_card_find(CARD);
    for (uint32_t clients = 1; clients <= 7; clients += 2) {
        const struct lab_speed_result result =
            measure((struct lab_speed_options){.clients = clients, .threads = 5, .depth = 1, .bytes = SMALL});
        expect("in-bound", result.kops, base_min(clients * card->out_kops, card->in_kops), 10);
    }
}

/* RFP Table I: however many machines there are, a server issues what one card can; a thread alone, one operation
 * after the other. */
static void one_card_issues_at_the_out_bound_rate(void)
{
    const struct sim_card *card = sim_card_find(CARD);
    const uint64_t alone_kops = 1000000 / card->round_trip_ns;
    for (uint32_t clients = 1; clients <= 7; clients += 3) {
        for (uint32_t threads = 1; threads <= 4; threads *= 2) {
            const struct lab_speed_result result = measure((struct lab_speed_options){.out_bound = true,
                                                                                      .writes = true,
                                                                                      .clients = clients,
                                                                                      .threads = threads,
                                                                                      .depth = 1,
                                                                                      .bytes = SMALL});
            expect("out-bound", result.kops, base_min(threads * alone_kops, card->out_kops), 20);
        }
    }
}

static void every_card_reaches_its_rates(void)
{
    for (const struct sim_card *card = sim_cards; card->name != NULL; card++) {
        if (card->in_kops == 0)
            continue;
        struct lab_speed_options options = {
            .card = card, .clients = 7, .threads = 4, .depth = 64, .bytes = 8};
        options.run_ns = 2000000000 / card->in_kops;
        expect(card->name, measure(options).kops, base_min(7 * card->out_kops, card->in_kops), 10);
        options.out_bound = true;
        options.clients = 1; /* which serves no more than what one card does */
        options.threads = 8;
        expect(card->name, measure(options).kops, base_min(card->out_kops, card->in_kops), 10);
    }
}

/* ---- latency ------------------------------------------------------------------------------------ */

/* Alone it takes the round trip, and the time that its bytes take on the link, once. */
static void an_idle_network_takes_the_round_trip(void)
{
    static const uint64_t sizes[] = {1, 8, 4096, 100000};
    for (const struct sim_card *card = sim_cards; card->name != NULL; card++) {
        for (unsigned i = 0; i < 2 * base_array_count(sizes); i++) {
            const uint64_t bytes = sizes[i / 2];
            const struct lab_speed_result result = measure((struct lab_speed_options){.card = card,
                                                                                      .writes = i % 2 != 0,
                                                                                      .clients = 1,
                                                                                      .threads = 1,
                                                                                      .depth = 1,
                                                                                      .bytes = bytes,
                                                                                      .run_ns = 1000000});
            uint64_t wanted_ns = card->round_trip_ns + bytes * 8000 / card->link_mbps;
            base_assert(result.latency_ns + 4 >= wanted_ns && result.latency_ns <= wanted_ns + 4);
        }
    }
}

/* Where more is asked for than is served, operations wait for each other: as many as there are, at that rate. */
static void a_queue_takes_its_length(void)
{
    const struct sim_card *card = sim_card_find(CARD);
    const uint64_t under_way = UINT64_C(7) * 4 * 8;
    const struct lab_speed_result result =
        measure((struct lab_speed_options){.clients = 7, .threads = 4, .depth = 8, .bytes = SMALL});
    expect("latency", result.latency_ns, under_way * 1000000 / card->in_kops, 20);
}

/* ---- links -------------------------------------------------------------------------------------- */

static void large_operations_fill_the_link(void)
{
    static const bool both[] = {false, true};
    for (const struct sim_card *card = sim_cards; card->name != NULL; card++) {
        for (unsigned i = 0; i < 4 && card->ports == 0; i++) {
            const struct lab_speed_result result =
                measure((struct lab_speed_options){.card = card,
                                                   .writes = both[i % 2],
                                                   .out_bound = both[i / 2],
                                                   .clients = 3,
                                                   .threads = 2,
                                                   .depth = 2,
                                                   .bytes = LARGE / 8,
                                                   .run_ns = UINT64_C(200000000000) / card->link_mbps});
            expect(card->name, result.mbps, card->link_mbps, 30);
        }
    }
}

/* RStore Table II: connections have the ports of a card in turn, and each port has a link of its own. */
static void each_port_has_a_link(void)
{
    static const uint32_t connections[] = {1, 3, 6, 12};
    const struct sim_card *card = sim_card_find("iwarp-6x10g");
    for (unsigned i = 0; i < base_array_count(connections); i++) {
        const struct lab_speed_result result =
            measure((struct lab_speed_options){.card = card,
                                               .clients = 1,
                                               .threads = connections[i],
                                               .depth = 2,
                                               .bytes = LARGE / 8,
                                               .run_ns = UINT64_C(200000000000) / card->link_mbps});
        expect("ports", result.mbps, card->link_mbps * base_min(connections[i], card->ports), 30);
    }
}

/* RFP, at the end of III-B: above 1.5 KB the link is what limits, below it the operations. */
static void the_link_limits_from_a_size_on(void)
{
    const struct sim_card *card = sim_card_find(CARD);
    struct lab_speed_options options = {.clients = 7, .threads = 4, .depth = 2};
    for (options.bytes = 1024; options.bytes <= 2048; options.bytes += 1024) {
        options.out_bound = false;
        expect("in-bound", measure(options).mbps, card->link_mbps, 20);
        options.out_bound = true;
        const uint64_t issued_mbps = card->out_kops * options.bytes * 8 / 1000;
        expect("out-bound", measure(options).mbps, base_min(issued_mbps, card->link_mbps), 20);
    }
}

/* ---- turns -------------------------------------------------------------------------------------- */

/* Who has one operation at a time is not behind all those that another has posted at once. */
static void queues_are_served_in_turn(void)
{
    const struct sim_card *card = sim_card_find(CARD);
    struct lab_speed_options options = {.out_bound = true,
                                        .writes = true,
                                        .clients = 1,
                                        .threads = 2,
                                        .depth = 64,
                                        .bytes = SMALL,
                                        .first_bytes = SMALL};
    struct lab_speed_result result = measure(options);
    expect("all", result.kops, card->out_kops, 10);
    base_assert(result.first_latency_ns <= card->round_trip_ns + 2 * 1000000 / card->out_kops);
    /* nor behind the bytes of large ones: four others have a part before it */
    const uint64_t part_ns = 4096 * 8000 / card->link_mbps;
    options.bytes = LARGE;
    options.run_ns = 4000000;
    options.threads = 5;
    options.depth = 1;
    result = measure(options);
    base_assert(result.first_latency_ns <= card->round_trip_ns + 5 * part_ns);
    options.run_ns = 10000000;
    options.first_bytes = 0;
    options.threads = 4;
    options.depth = 2;
    result = measure(options);
    base_assert(result.least > 0 && result.most <= result.least + 1);
    options = (struct lab_speed_options){.clients = 7, .threads = 3, .depth = 8, .bytes = SMALL};
    result = measure(options);
    base_assert(result.most * 10 <= result.least * 11);
}

/* ---- processors --------------------------------------------------------------------------------- */

/* A machine whose processor takes a microsecond for each operation posts a million in a second. */
static void charges_limit_what_is_posted(void)
{
    struct lab_speed_options options = {
        .clients = 1, .threads = 4, .depth = 8, .bytes = SMALL, .post_ns = 1000};
    expect("with four threads", measure(options).kops, 1000, 20);
    options.clients = 3;
    expect("with three machines", measure(options).kops, 3000, 20);
    options =
        (struct lab_speed_options){.clients = 1, .threads = 1, .depth = 1, .bytes = SMALL, .post_ns = 5000};
    expect("alone", measure(options).kops, 1000000 / (5000 + sim_card_find(CARD)->round_trip_ns), 10);
}

struct charged {
    struct sim_world *world;
    uint64_t others_ns; /* when the other node's task has run */
    uint64_t next_ns;   /* and the next task of this one */
};

static void be_charged(void *arg)
{
    const struct charged *charged = arg;
    uint64_t before_ns = task_now();
    task_charge(500);
    task_charge(7000);
    base_assert(task_now() == before_ns + 7500);
    base_assert(sim_world_now(charged->world) == before_ns);
    (void)task_sleep(100);
    base_assert(task_now() == before_ns + 7600);
}

static void look_at_the_clock_here(void *arg)
{
    ((struct charged *)arg)->next_ns = task_now();
}

static void look_at_the_clock_elsewhere(void *arg)
{
    ((struct charged *)arg)->others_ns = task_now();
}

static void a_charge_delays_its_scheduler_alone(void)
{
    const struct sim_world_options options = {.seed = 1, .timed = true};
    struct charged charged = {0};
    base_assert(sim_world_open(&options, &charged.world) == 0);
    struct sim_node *here = sim_test_node(charged.world, 1), *elsewhere = sim_test_node(charged.world, 1);
    uint64_t begun_ns = sim_world_now(charged.world);
    base_assert(sim_spawn(here, 0, "charged", be_charged, &charged) == 0);
    base_assert(sim_spawn(here, 0, "next", look_at_the_clock_here, &charged) == 0);
    base_assert(sim_spawn(elsewhere, 0, "other", look_at_the_clock_elsewhere, &charged) == 0);
    base_assert(sim_world_run(charged.world, TASK_FOREVER, NULL, NULL) == 0);
    base_assert(charged.others_ns == begun_ns && charged.next_ns == begun_ns + 7500);
    base_assert(sim_node_close(here) == 0 && sim_node_close(elsewhere) == 0);
    sim_world_close(charged.world);
}

/* ---- the rest ----------------------------------------------------------------------------------- */

static void equal_seeds_give_equal_runs(void)
{
    struct lab_speed_options options = {.out_bound = true,
                                        .clients = 5,
                                        .threads = 2,
                                        .depth = 3,
                                        .bytes = 5000,
                                        .run_ns = 100000,
                                        .seed = 9};
    const struct lab_speed_result first = measure(options);
    void *shift_the_heap = malloc(5000);
    base_assert(shift_the_heap != NULL);
    base_assert(measure(options).hash == first.hash);
    options.seed = 10;
    base_assert(measure(options).hash != first.hash);
    free(shift_the_heap);
}

/* Figures are drawn from them: who changes one changes what was printed. */
static void constants_are_frozen(void)
{
    static const struct sim_card printed[SIM_CARDS] = {
        {"connectx3-40g", NULL, 11260, 2110, 25928, 1613},
        {"cell-1g", NULL, 1040, 750, 11796, 3000},
        {"cell-64m", NULL, 1440, 750, 11796, 3000},
        {"roce-10g", NULL, 11260, 2110, 10000, 1613},
        {"iwarp-10g", NULL, 0, 0, 9850, 9600, 2500000, 0},
        {"iwarp-6x10g", NULL, 0, 0, 9850, 9600, 2500000, 6},
        {"connectx6-200g", NULL, 215000, 215000, 200000, 1200},
    };
    for (unsigned i = 0; i < SIM_CARDS; i++) {
        const struct sim_card *card = sim_card_find(printed[i].name);
        base_assert(card != NULL && card->in_kops == printed[i].in_kops &&
                    card->out_kops == printed[i].out_kops && card->link_mbps == printed[i].link_mbps &&
                    card->round_trip_ns == printed[i].round_trip_ns &&
                    card->connect_ns == printed[i].connect_ns && card->ports == printed[i].ports);
    }
    base_assert(sim_pages_rstore.touched_ns == 194791666 && sim_pages_rstore.registered_ns == 10625000);
}

static void cards_have_names_and_sources(void)
{
    const struct lab_speed_options wrong[] = {
        {.clients = 1, .threads = 1, .depth = 1, .bytes = 1, .run_ns = 1},
        {.card = sim_cards, .threads = 1, .depth = 1, .bytes = 1, .run_ns = 1},
        {.card = sim_cards, .clients = 64, .threads = 1, .depth = 1, .bytes = 1, .run_ns = 1},
        {.card = sim_cards, .clients = 1, .threads = 1, .depth = 257, .bytes = 1, .run_ns = 1},
        {.card = sim_cards, .clients = 1, .threads = 1, .depth = 1, .run_ns = 1},
    };
    struct lab_speed_result result;
    for (const struct sim_card *card = sim_cards; card->name != NULL; card++)
        base_assert(sim_card_find(card->name) == card && card->source[0] != '\0');
    base_assert(sim_card_find("a brick") == NULL);
    for (unsigned i = 0; i < base_array_count(wrong); i++)
        base_assert(lab_speed_measure(&wrong[i], &result) == -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIM_TEST(clients_reach_the_in_bound_rate),
        SIM_TEST(one_card_issues_at_the_out_bound_rate),
        SIM_TEST(every_card_reaches_its_rates),
        SIM_TEST(an_idle_network_takes_the_round_trip),
        SIM_TEST(a_queue_takes_its_length),
        SIM_TEST(large_operations_fill_the_link),
        SIM_TEST(each_port_has_a_link),
        SIM_TEST(the_link_limits_from_a_size_on),
        SIM_TEST(queues_are_served_in_turn),
        SIM_TEST(charges_limit_what_is_posted),
        SIM_TEST(a_charge_delays_its_scheduler_alone),
        SIM_TEST(equal_seeds_give_equal_runs),
        SIM_TEST(cards_have_names_and_sources),
        SIM_TEST(constants_are_frozen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
