/* Regions: which thread makes them, what their owner is told meanwhile, and what is found out before memory is touched. */
#include "fabric/tcp/domain.h"
#include "fabric/testing.h"
#include "task/testing.h"
#include <sys/resource.h>

enum { LARGE = 1 << 20, SMALL = BASE_PAGE_BYTES };

static const uint32_t all_rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP;

/* ---- a provider that makes half of a region, and the rest when that was told --------------------- */

struct fake {
    int error;                       /* the outcome of making */
    bool waits;                      /* makes the rest only when half was told */
    struct task_shared_future told;  /* half was told */
    pthread_t maker, teller, freer;  /* the threads that made, that were told, and that freed */
    uint64_t told_count, told_bytes; /* calls of the owner's function, and its last argument */
};

static int fake_open(struct tarn_node *node, void *provider_arg, struct tarn_fabric_info *ret_info,
                     void **ret_state)
{
    (void)node;
    *ret_info = (struct tarn_fabric_info){.provider = "fake"};
    *ret_state = provider_arg;
    return 0;
}

static int fake_domain_open(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain)
{
    (void)options;
    *ret_domain = state;
    return 0;
}

static int fake_make(void *domain, struct tarn_fabric_region *region)
{
    struct fake *fake = domain;
    int value;
    fake->maker = pthread_self();
    atomic_fetch_add((_Atomic uint64_t *)region->making, region->bytes / 2);
    return fake->waits && task_shared_future_wait(&fake->told, TESTING_LATE, &value) != 0 ? -ETIMEDOUT
                                                                                          : fake->error;
}

static void fake_region_free(void *domain, struct tarn_fabric_region *region)
{
    (void)region;
    struct fake *fake = domain;
    fake->freer = pthread_self();
}

static void fake_close(void *state)
{
    (void)state;
}

/* Its regions take time, and registering takes none, as with `tcp`. */
static const struct fabric_provider plain = {.name = "fake",
                                             .open = fake_open,
                                             .close = fake_close,
                                             .domain_open = fake_domain_open,
                                             .domain_close = fake_close,
                                             .regions_take_time = true,
                                             .region_alloc = fake_make,
                                             .region_register = fake_make,
                                             .region_free = fake_region_free};

/* Registering takes time, as with `verbs`. */
static const struct fabric_provider device = {.name = "fake",
                                              .open = fake_open,
                                              .close = fake_close,
                                              .domain_open = fake_domain_open,
                                              .domain_close = fake_close,
                                              .regions_take_time = true,
                                              .registering_takes_time = true,
                                              .region_alloc = fake_make,
                                              .region_register = fake_make,
                                              .region_free = fake_region_free};

static void note_progress(void *arg, uint64_t done_bytes, uint64_t bytes)
{
    struct fake *fake = arg;
    fake->teller = pthread_self();
    fake->told_count++;
    fake->told_bytes = done_bytes;
    assert_true(done_bytes <= bytes);
    if (fake->waits && done_bytes == bytes / 2 && !fake->told.set)
        task_shared_future_set(&fake->told, 0);
}

/* A domain of a fake provider. */
struct place {
    struct fake fake;
    struct tarn_fabric *fabric;
    struct tarn_fabric_domain *domain;
};

static void open_place(struct place *place, struct tarn_node *node)
{
    assert_int_equal(tarn_fabric_open(node, "shm:", &place->fabric), 0); /* any URL: the node has its own */
    place->domain = testing_domain(place->fabric, 0, LARGE);
    task_shared_future_init(&place->fake.told);
}

static void close_place(struct place *place)
{
    tarn_fabric_domain_close(place->domain);
    tarn_fabric_close(place->fabric);
}

/* ---- progress ------------------------------------------------------------------------------------ */

static void watch(struct place *place, struct tarn_node *node)
{
    struct fake *fake = &place->fake;
    struct tarn_fabric_region *region;
    open_place(place, node);
    fake->waits = true;
    assert_int_equal(tarn_fabric_region_alloc_with_progress(place->domain, LARGE, all_rights, note_progress,
                                                            fake, &region),
                     0);
    assert_true(fake->told.set && fake->told_count >= 2); /* half, and in the end all */
    assert_int_equal(fake->told_bytes, LARGE);
    assert_true(pthread_equal(fake->teller, pthread_self()) && !pthread_equal(fake->maker, pthread_self()));
    tarn_fabric_region_free(region);

    fake->waits = false; /* a small one is made at once, and its owner is told in the end */
    fake->told_count = 0;
    assert_int_equal(tarn_fabric_region_alloc_with_progress(place->domain, SMALL, all_rights, note_progress,
                                                            fake, &region),
                     0);
    assert_true(fake->told_count == 1 && fake->told_bytes == SMALL);
    assert_true(pthread_equal(fake->maker, pthread_self()));
    tarn_fabric_region_free(region);

    fake->error = -ENOMEM; /* one that fails is not told as made */
    fake->told_count = 0;
    assert_int_equal(tarn_fabric_region_alloc_with_progress(place->domain, SMALL, all_rights, note_progress,
                                                            fake, &region),
                     -ENOMEM);
    assert_int_equal(fake->told_count, 0);
    close_place(place);
}

static void threads_are_told_how_far_it_is(void **state)
{
    (void)state;
    struct place place = {.fabric = NULL};
    struct tarn_node *node;
    const struct task_node_options options = {.fabric = &plain, .fabric_arg = &place.fake};
    assert_int_equal(task_node_open(&options, &node), 0);
    watch(&place, node);
    task_node_close(node);
}

static void watch_in_task(void *arg)
{
    struct task_testing *testing = arg;
    watch(testing->arg, testing->node);
}

static void tasks_are_told_how_far_it_is(void **state)
{
    (void)state;
    struct place place = {.fabric = NULL};
    const struct task_node_options options = {.fabric = &plain, .fabric_arg = &place.fake};
    task_testing_run(&options, NULL, watch_in_task, &place);
}

static void real_ones_tell_all_bytes(void **state)
{
    (void)state;
    static const char *const urls[] = {"shm:", "tcp:"};
    struct tarn_node *node;
    assert_int_equal(task_node_open(NULL, &node), 0);
    for (unsigned i = 0; i < base_array_count(urls); i++) {
        struct place place = {.fabric = NULL};
        struct tarn_fabric_region *region;
        assert_int_equal(tarn_fabric_open(node, urls[i], &place.fabric), 0);
        place.domain = testing_domain(place.fabric, 0, LARGE);
        assert_int_equal(tarn_fabric_region_alloc_with_progress(place.domain, LARGE, all_rights,
                                                                note_progress, &place.fake, &region),
                         0);
        assert_int_equal(place.fake.told_bytes, LARGE);
        tarn_fabric_region_free(region);
        close_place(&place);
    }
    task_node_close(node);
}

/* ---- threads ------------------------------------------------------------------------------------- */

static void make_both(void *arg)
{
    struct task_testing *testing = arg;
    struct place *place = testing->arg;
    struct tarn_fabric_region *region;
    static uint64_t memory[LARGE / sizeof(uint64_t)];
    open_place(place, testing->node);
    assert_int_equal(tarn_fabric_region_alloc(place->domain, LARGE, all_rights, &region), 0);
    assert_false(pthread_equal(place->fake.maker, pthread_self()));
    tarn_fabric_region_free(region);
    assert_false(pthread_equal(place->fake.freer, pthread_self()));
    assert_int_equal(tarn_fabric_region_alloc(place->domain, SMALL, all_rights, &region), 0);
    tarn_fabric_region_free(region);
    assert_true(pthread_equal(place->fake.maker, pthread_self()));
    assert_true(pthread_equal(place->fake.freer, pthread_self()));
    assert_int_equal(tarn_fabric_region_register(place->domain, memory, LARGE, all_rights, &region), 0);
    tarn_fabric_region_free(region);
    place->fake.teller = pthread_self();
    close_place(place);
}

/* A task's large region is made and freed by a thread; its own memory is registered by one if a device does it; else there is nothing to wait for. */
static void only_devices_register_in_threads(void **state)
{
    (void)state;
    const struct fabric_provider *const providers[] = {&plain, &device};
    for (unsigned i = 0; i < base_array_count(providers); i++) {
        struct place place = {.fabric = NULL};
        const struct task_node_options options = {.fabric = providers[i], .fabric_arg = &place.fake};
        task_testing_run(&options, NULL, make_both, &place);
        assert_int_equal(pthread_equal(place.fake.maker, place.fake.teller), providers[i] == &plain);
        assert_int_equal(pthread_equal(place.fake.freer, place.fake.teller), providers[i] == &plain);
    }
    assert_false(fabric_provider_tcp.registering_takes_time);
}

/* ---- before memory is touched -------------------------------------------------------------------- */

static uint64_t peak_kilobytes(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (uint64_t)usage.ru_maxrss;
}

/* That there is no place for a region, or no more bytes, is known before its pages are. */
static void refuse_untouched(const char *url)
{
    enum { MANY = 256 << 20 };
    const struct tarn_fabric_domain_options options[] = {
        {.writable_bytes = 2 * (uint64_t)MANY, .regions_max = 1}, {.writable_bytes = MANY, .regions_max = 2}};
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    assert_int_equal(task_node_open(NULL, &node), 0);
    assert_int_equal(tarn_fabric_open(node, url, &fabric), 0);
    for (unsigned i = 0; i < base_array_count(options); i++) {
        struct tarn_fabric_domain *domain;
        struct tarn_fabric_region *first, *second;
        assert_int_equal(tarn_fabric_domain_open(fabric, &options[i], &domain), 0);
        assert_int_equal(tarn_fabric_region_alloc(domain, SMALL, all_rights, &first), 0);
        const uint64_t before = peak_kilobytes();
        assert_int_equal(tarn_fabric_region_alloc(domain, MANY, all_rights, &second), -ENOSPC);
        assert_true(peak_kilobytes() - before < MANY / 2 / 1024);
        tarn_fabric_region_free(first);
        assert_int_equal(tarn_fabric_region_alloc(domain, SMALL, all_rights, &first), 0);
        tarn_fabric_region_free(first);
        tarn_fabric_domain_close(domain);
    }
    tarn_fabric_close(fabric);
    task_node_close(node);
}

static void a_region_without_a_place_is_not_touched(void **state)
{
    (void)state;
    refuse_untouched("tcp:");
    refuse_untouched("shm:");
}

/* While its pages are made it has a place and a key, and no peer finds it. */
static void a_region_is_found_when_it_is_there(void **state)
{
    (void)state;
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    assert_int_equal(task_node_open(NULL, &node), 0);
    assert_int_equal(tarn_fabric_open(node, "tcp:", &fabric), 0);
    struct tarn_fabric_domain *domain = testing_domain(fabric, 0, SMALL);
    struct tarn_fabric_region *region = testing_region(domain, SMALL, all_rights);
    const struct tarn_fabric_handle *handle = &region->handle;
    struct tcp_region *own = region->state;
    assert_ptr_equal(tcp_region_get(domain->state, handle->domain, handle->key, all_rights, 0, SMALL), own);
    tcp_region_put(own);
    own->published = false;
    assert_null(tcp_region_get(domain->state, handle->domain, handle->key, all_rights, 0, SMALL));
    tarn_fabric_region_free(region);
    tarn_fabric_domain_close(domain);
    tarn_fabric_close(fabric);
    task_node_close(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_region_without_a_place_is_not_touched), /* first: memory's peak was low */
        cmocka_unit_test(a_region_is_found_when_it_is_there),
        cmocka_unit_test(threads_are_told_how_far_it_is),
        cmocka_unit_test(tasks_are_told_how_far_it_is),
        cmocka_unit_test(real_ones_tell_all_bytes),
        cmocka_unit_test(only_devices_register_in_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
