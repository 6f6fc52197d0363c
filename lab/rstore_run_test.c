/* A space as RStore measures it: which operations reads and calls take, what time they take, and that equal options give
 * equal runs. */
#include "lab/rstore_run.h"
#include "sim/testing.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum { CHUNK = 1 << 20, CHUNKS = 4, SERVERS = 4, READS = 5 };

#define GIGABYTE (UINT64_C(1) << 30)

static struct lab_rstore_options small(void)
{
    return (struct lab_rstore_options){.server_card = sim_card_find("iwarp-10g"),
                                       .client_card = sim_card_find("iwarp-6x10g"),
                                       .seed = 1,
                                       .machines = 2,
                                       .servers = SERVERS,
                                       .clients = 2,
                                       .chunk_bytes = CHUNK,
                                       .chunks = CHUNKS,
                                       .reads = READS,
                                       .read_bytes = 8};
}

static struct lab_rstore_result measure(const struct lab_rstore_options *options)
{
    struct lab_rstore_result result;
    base_assert(lab_rstore_measure(options, &result) == 0);
    base_assert(result.connections == options->clients * (uint64_t)SERVERS);
    return result;
}

/* So many thousandths more or less at most. */
static void expect(const char *what, uint64_t value, uint64_t wanted, uint64_t permille)
{
    if (value * 1000 >= wanted * (1000 - permille) && value * 1000 <= wanted * (1000 + permille))
        return;
    (void)fprintf(stderr, "%s: %" PRIu64 " instead of %" PRIu64 "\n", what, value, wanted);
    base_assert(false);
}

/* RStore §III-F: a read is cut at the borders of chunks, each part is one READ, and nobody is asked anything. */
static void a_read_is_a_read_of_each_chunk(void)
{
    struct lab_rstore_options options = small();
    for (uint64_t chunks = 1; chunks <= CHUNKS; chunks *= 2) {
        options.read_bytes = chunks * CHUNK;
        const struct lab_rstore_result result = measure(&options);
        base_assert(result.spans[LAB_RSTORE_READ].reads == options.clients * READS * chunks);
        base_assert(result.spans[LAB_RSTORE_READ].calls == 0);
    }
}

/* An idle card's round trip, and the bytes on the link. */
static void a_small_read_takes_the_round_trip(void)
{
    const struct lab_rstore_options options = small();
    const struct lab_rstore_result result = measure(&options);
    base_assert(result.spans[LAB_RSTORE_READ].reads == options.clients * (uint64_t)READS);
    expect("a read", result.read_ns, options.client_card->round_trip_ns, 2);
}

/* RStore §IV-C: chunks have the ports of the client's machine in turn, and the fullest port is the last. */
static void chunks_go_through_ports_in_turn(void)
{
    struct lab_rstore_options options = small();
    const uint64_t mbps = options.client_card->link_mbps;
    options.machines = options.clients = options.reads = 1;
    options.chunk_bytes = 16 * (uint64_t)CHUNK;
    for (options.chunks = 1; options.chunks <= 13; options.chunks += 3) {
        struct lab_rstore_result result;
        const uint64_t ports = options.client_card->ports, turns = (options.chunks + ports - 1) / ports;
        options.servers = options.chunks;
        options.read_bytes = options.chunks * options.chunk_bytes;
        base_assert(lab_rstore_measure(&options, &result) == 0);
        expect("bandwidth", result.mbps, options.chunks * mbps / turns, 5);
    }
}

/* RStore §IV-B: memory and connections are kept. What was unmapped is mapped again without any operation; what was freed, and
 * what was released, is there again without its pages being touched. */
static void what_is_cached_costs_no_pages(void)
{
    struct lab_rstore_options options = small();
    options.reads = 0;
    options.pages = &sim_pages_rstore;
    const struct lab_rstore_result result = measure(&options);
    const struct lab_rstore_span *again = &result.spans[LAB_RSTORE_MAP_AGAIN];
    const uint64_t touched_ns = options.pages->touched_ns * (CHUNKS * (uint64_t)CHUNK) / GIGABYTE;
    base_assert(again->ns == 0 && again->reads == 0 && again->calls == 0);
    base_assert(result.spans[LAB_RSTORE_MAP].ns > touched_ns);
    base_assert(result.spans[LAB_RSTORE_RESERVE_AGAIN].ns < touched_ns);
    base_assert(result.spans[LAB_RSTORE_ALLOC_AGAIN].ns < touched_ns);
}

/* A machine's pages are made in turn: as long as two clients on one machine take two on two machines for twice as much. */
static void pages_take_time_of_their_machine(void)
{
    const struct sim_pages pages = {.touched_ns = UINT64_C(40) * BASE_NS_PER_SECOND};
    struct lab_rstore_options options = small();
    options.reads = 0;
    options.pages = &pages;
    options.machines = 1;
    options.chunk_bytes = 16 * (uint64_t)CHUNK; /* beside which the memory of calls is small */
    const uint64_t chunk_ns = pages.touched_ns * options.chunk_bytes / GIGABYTE;
    const struct lab_rstore_result one = measure(&options);
    expect("making", one.made_ns, options.clients * CHUNKS * chunk_ns, 20);
    expect("mapping", one.spans[LAB_RSTORE_MAP].ns, options.clients * CHUNKS * chunk_ns, 20);
    options.machines = 2;
    const struct lab_rstore_result two = measure(&options);
    expect("making on two machines", two.made_ns, CHUNKS * chunk_ns, 20);
    expect("mapping on two machines", two.spans[LAB_RSTORE_MAP].ns, CHUNKS * chunk_ns, 20);
}

static void equal_options_give_equal_runs(void)
{
    struct lab_rstore_options options = small();
    const struct lab_rstore_result first = measure(&options), second = measure(&options);
    base_assert(first.hash == second.hash);
    options.seed++;
    const struct lab_rstore_result other = measure(&options);
    base_assert(other.hash != first.hash);
}

static void refuse(struct lab_rstore_options options)
{
    struct lab_rstore_result result;
    base_assert(lab_rstore_measure(&options, &result) == -EINVAL);
}

static void nonsense_is_refused(void)
{
    struct lab_rstore_options options = small();
    options.servers = LAB_RSTORE_SERVERS_MAX + 1;
    refuse(options);
    options = small();
    options.clients = 0;
    refuse(options);
    options = small();
    options.read_bytes = CHUNKS * CHUNK + 1;
    refuse(options);
    options = small();
    options.chunk_bytes = CHUNK + 4096;
    refuse(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIM_TEST(a_read_is_a_read_of_each_chunk),
        SIM_TEST(a_small_read_takes_the_round_trip),
        SIM_TEST(chunks_go_through_ports_in_turn),
        SIM_TEST(what_is_cached_costs_no_pages),
        SIM_TEST(pages_take_time_of_their_machine),
        SIM_TEST(equal_options_give_equal_runs),
        SIM_TEST(nonsense_is_refused),
    };
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return cmocka_run_group_tests_name("rstore", tests, NULL, NULL);
}
