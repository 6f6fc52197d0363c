/* Does a listing show all there is, in the order of numbers, in as many pages as it takes, and end when it is told? */
#include "fabric/shm_testing.h"
#include "space/testing.h"

#define SOON TESTING_LATE
#define MANY 450 /* namespaces, and regions, of long names: more than two pages of each */

struct seen {
    uint32_t count;
    uint32_t last;    /* number of the last */
    uint32_t there;   /* servers that are there */
    uint32_t stop_at; /* rows after which to stop; 0: never */
    uint64_t free_bytes;
};

static int see(struct seen *seen, uint32_t number)
{
    assert_true(number > seen->last);
    seen->last = number;
    seen->count++;
    return seen->count == seen->stop_at ? 7 : 0;
}

static int see_server(void *arg, const struct tarn_space_server_row *row)
{
    struct seen *seen = arg;
    assert_memory_equal(row->name, "node", 4); /* which has which number is chance: they join together */
    assert_int_equal(row->bytes, TESTING_CHUNKS * TESTING_CHUNK_BYTES);
    seen->there += row->is_there;
    seen->free_bytes += row->free_bytes;
    return see(seen, row->number);
}

/* The name of the n-th thing. */
static const char *name_of(uint32_t number, char *ret_name)
{
    (void)snprintf(ret_name, TARN_SPACE_NAME_MAX + 1, "%063u", number);
    return ret_name;
}

static int see_namespace(void *arg, const struct tarn_space_namespace_row *row)
{
    char name[TARN_SPACE_NAME_MAX + 1];
    struct seen *seen = arg;
    assert_string_equal(row->name, name_of(seen->count, name));
    assert_int_equal(row->regions, 0);
    assert_int_equal(row->spare_bytes, 0);
    return see(seen, row->number);
}

static int see_region(void *arg, const struct tarn_space_region_row *row)
{
    struct seen *seen = arg;
    assert_string_equal(row->name, seen->count == 0 ? "" : "words");
    assert_int_equal(row->memory_class, seen->count == 0 ? TARN_SPACE_BULK : TARN_SPACE_WORDS);
    assert_int_equal(row->bytes, seen->count == 0 ? 5 : TESTING_CHUNK_BYTES + 1);
    assert_int_equal(row->address, seen->count == 0 ? 0 : TESTING_CHUNK_BYTES);
    assert_int_equal(row->holders, seen->count == 0 ? 1 : 2);
    return see(seen, row->number);
}

static void list_namespaces(struct space_testing *self)
{
    struct seen all = {.count = 0}, some = {.stop_at = 400};
    for (uint32_t i = 0; i < MANY; i++) {
        char name[TARN_SPACE_NAME_MAX + 1];
        tarn_space_leave_ns(space_testing_namespace(self->space, name_of(i, name), 0));
    }
    assert_int_equal(tarn_space_list_namespaces(self->space, see_namespace, &all, SOON), 0);
    assert_int_equal(all.count, MANY);
    assert_int_equal(tarn_space_list_namespaces(self->space, see_namespace, &some, SOON), 7);
    assert_int_equal(some.count, 400);
    space_testing_close_master(self);
    space_testing_open_master(self); /* which has read them in any order */
    all = (struct seen){.count = 0};
    assert_int_equal(tarn_space_list_namespaces(self->space, see_namespace, &all, SOON), 0);
    assert_int_equal(all.count, MANY);
}

static void all_namespaces_are_listed(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, list_namespaces);
}

static void list_regions(struct space_testing *self)
{
    const struct tarn_space_alloc_options words = {.name = "words", .memory_class = TARN_SPACE_WORDS};
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "graph", 3);
    struct tarn_space_region *bulk = space_testing_alloc(of, 5, TARN_SPACE_BULK), *named, *again;
    struct seen seen = {.count = 0}, none = {.count = 0};
    assert_int_equal(tarn_space_alloc(of, TESTING_CHUNK_BYTES + 1, &words, SOON, &named), 0);
    assert_int_equal(tarn_space_find(of, "words", SOON, &again), 0);
    assert_int_equal(tarn_space_list_regions(of, see_region, &seen, SOON), 0);
    assert_int_equal(seen.count, 2);
    assert_int_equal(tarn_space_free(named, SOON), 0);
    assert_int_equal(tarn_space_free(bulk, SOON), 0);
    assert_int_equal(tarn_space_list_regions(of, see_region, &none, SOON), 0);
    assert_int_equal(none.count, 0);
    tarn_space_drop(again);
    tarn_space_drop(named);
    tarn_space_drop(bulk);
    assert_int_equal(tarn_space_delete_ns(of, SOON), 0);
    assert_int_equal(tarn_space_list_regions(of, see_region, &none, SOON), -ENOENT);
    tarn_space_leave_ns(of);
}

static void regions_are_listed_with_their_holders(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, list_regions);
}

/* A server that comes back empty has a greater number than those that came after it at first. */
static void list_servers(struct space_testing *self)
{
    struct seen all = {.count = 0}, fewer = {.count = 0}, again = {.stop_at = TESTING_SERVERS + 1};
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "graph", TESTING_SERVERS);
    const uint64_t free_bytes = TESTING_SERVERS * (TESTING_CHUNKS - 1) * TESTING_CHUNK_BYTES;
    assert_int_equal(tarn_space_list_servers(self->space, see_server, &all, SOON), 0);
    assert_int_equal(all.count, TESTING_SERVERS);
    assert_int_equal(all.there, TESTING_SERVERS);
    assert_int_equal(all.free_bytes, free_bytes);
    space_testing_close_server(self, 0);
    space_testing_await_servers(self, TESTING_SERVERS - 1);
    assert_int_equal(tarn_space_list_servers(self->space, see_server, &fewer, SOON), 0);
    assert_int_equal(fewer.there, TESTING_SERVERS - 1);
    assert_int_equal(fewer.free_bytes, free_bytes / TESTING_SERVERS * (TESTING_SERVERS - 1));
    space_testing_open_server(self, 0);
    space_testing_await_servers(self, TESTING_SERVERS);
    assert_int_equal(tarn_space_list_servers(self->space, see_server, &again, SOON), 0);
    assert_int_equal(again.count, TESTING_SERVERS);
    assert_true(again.last > all.last);
    tarn_space_leave_ns(of);
}

static void servers_are_listed_in_the_order_of_their_numbers(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, list_servers);
}

static int see_statistic(void *arg, const struct tarn_space_statistic_row *row)
{
    const struct {
        const char *name;
        uint64_t value;
    } expected[] = {{"servers", TESTING_SERVERS},
                    {"memory_bytes", TESTING_SERVERS * TESTING_CHUNKS * TESTING_CHUNK_BYTES},
                    {"free_bytes", (TESTING_SERVERS * TESTING_CHUNKS - 3) * TESTING_CHUNK_BYTES},
                    {"namespaces", 1},
                    {"regions", 1},
                    {"sessions", 1},
                    {"secrets_refused_total", 1},
                    {"connections_refused_total", 0}};
    for (unsigned i = 0; i < base_array_count(expected); i++) {
        if (strcmp(expected[i].name, row->name) == 0)
            assert_int_equal(row->value, expected[i].value);
        *(unsigned *)arg += strcmp(expected[i].name, row->name) == 0;
    }
    assert_true(row->value > 0 || strcmp(row->name, "epoch") != 0);
    return 0;
}

/* What the servers tell of themselves, and of namespaces. */
struct told {
    uint64_t connections;
    uint64_t spare_bytes, region_bytes;
};

static int sum_server(void *arg, const struct tarn_space_server_row *row)
{
    ((struct told *)arg)->connections += row->connections;
    assert_int_equal(row->refused, 0);
    assert_int_equal(row->dirty_bytes, 0);
    return 0;
}

static int sum_namespace(void *arg, const struct tarn_space_namespace_row *row)
{
    struct told *told = arg;
    told->spare_bytes += row->spare_bytes;
    told->region_bytes += row->region_bytes;
    return 0;
}

static void list_statistics(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "graph", 3), *none;
    struct tarn_space_region *region = space_testing_alloc(of, TESTING_CHUNK_BYTES + 1, TARN_SPACE_BULK);
    struct told told = {.connections = 0};
    const uint64_t deadline_ns = SOON;
    unsigned seen = 0;
    void *memory;
    assert_int_equal(tarn_space_map(region, SOON, &memory), 0); /* connects with two servers */
    assert_int_equal(tarn_space_join_ns(self->space, "graph", "x", 1, SOON, &none), -EACCES);
    assert_int_equal(tarn_space_list_statistics(self->space, see_statistic, &seen, SOON), 0);
    assert_int_equal(seen, 8);
    while (told.connections != 2) { /* they tell before long */
        assert_true(task_now() < deadline_ns);
        told.connections = 0;
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
        assert_int_equal(tarn_space_list_servers(self->space, sum_server, &told, SOON), 0);
    }
    assert_int_equal(tarn_space_list_namespaces(self->space, sum_namespace, &told, SOON), 0);
    assert_int_equal(told.spare_bytes, TESTING_CHUNK_BYTES);
    assert_int_equal(told.region_bytes, 2 * TESTING_CHUNK_BYTES);
    tarn_space_unmap(region);
    tarn_space_drop(region);
    tarn_space_leave_ns(of);
}

static void numbers_are_told(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, list_statistics);
}

#define SUITE(EACH)                                                                                          \
    EACH(all_namespaces_are_listed)                                                                          \
    EACH(regions_are_listed_with_their_holders)                                                              \
    EACH(servers_are_listed_in_the_order_of_their_numbers)                                                   \
    EACH(numbers_are_told)

SUITE(TESTING_BOTH)

static const struct CMUnitTest listing_tests[] = {SUITE(TESTING_EACH)};

int main(void)
{
    const struct testing_suite suites[] = {TESTING_SUITE(listing_tests), {0}};
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return testing_run_suites("tests", suites, NULL, shm_testing_setup, NULL);
}
