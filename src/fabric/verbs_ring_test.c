/* Tests of the ring of copies, without a device: requests that have memory there, and others between them. */
#include "base/random.h"
#include "base/testing.h"
#include "fabric/verbs/ring.h"

enum { RING_BYTES = 4096, FLIGHTS = 32, STEPS = 200000 };

/* A request in flight. */
struct flight {
    const uint8_t *memory; /* NULL: it has none in the ring */
    uint64_t bytes, end;
};

/* Requests complete in their order: a queue, oldest first. */
struct flights {
    struct flight flights[FLIGHTS];
    uint64_t begun, done;
};

static struct flight *flight_of(struct flights *flights, uint64_t number)
{
    return &flights->flights[number % FLIGHTS];
}

static void expect_apart(struct flights *flights, const struct verbs_ring *ring, const uint8_t *memory,
                         uint64_t bytes)
{
    assert_true(memory >= ring->memory && memory + bytes <= ring->memory + ring->bytes);
    for (uint64_t i = flights->done; i < flights->begun; i++) {
        const struct flight *other = flight_of(flights, i);
        assert_true(other->memory == NULL || memory + bytes <= other->memory ||
                    other->memory + other->bytes <= memory);
    }
}

/* @param bytes  0: a request without memory in the ring */
static bool begin_flight(struct flights *flights, struct verbs_ring *ring, uint64_t bytes)
{
    uint8_t *memory = bytes == 0 ? NULL : verbs_ring_reserve(ring, bytes);
    if (bytes > 0 && memory == NULL)
        return false;
    if (memory != NULL)
        expect_apart(flights, ring, memory, bytes);
    *flight_of(flights, flights->begun++) =
        (struct flight){.memory = memory, .bytes = bytes, .end = ring->head};
    return true;
}

static void end_flight(struct flights *flights, struct verbs_ring *ring)
{
    verbs_ring_release(ring, flight_of(flights, flights->done++)->end);
}

/* What is in flight keeps its memory, whatever requests without memory are in flight when the ring becomes empty. */
static void memory_in_flight_is_not_given_out_again(void **state)
{
    (void)state;
    static uint8_t memory[RING_BYTES];
    struct verbs_ring ring = {.memory = memory, .bytes = RING_BYTES};
    struct flights flights = {.begun = 0};
    assert_true(begin_flight(&flights, &ring, 64)); /* a copy, and a request without one behind it */
    assert_true(begin_flight(&flights, &ring, 0));
    end_flight(&flights, &ring); /* the copy is done, and the ring empty */
    assert_true(begin_flight(&flights, &ring, 64));
    end_flight(&flights, &ring); /* the request without a copy is done, and the last copy still in flight */
    assert_true(begin_flight(&flights, &ring, 64));
}

static void requests_of_any_kind_in_any_number(void **state)
{
    (void)state;
    static uint8_t memory[RING_BYTES];
    struct base_random random;
    base_random_init(&random, 1);
    struct verbs_ring ring = {.memory = memory, .bytes = RING_BYTES};
    struct flights flights = {.begun = 0};
    for (unsigned i = 0; i < STEPS; i++) {
        const uint64_t kind = base_random_below(&random, 4);
        const uint64_t in_flight = flights.begun - flights.done;
        if (kind == 0 && in_flight < FLIGHTS)
            (void)begin_flight(&flights, &ring, 0);
        else if (kind == 1 && in_flight < FLIGHTS)
            (void)begin_flight(&flights, &ring, 8 * (1 + base_random_below(&random, RING_BYTES / 32)));
        else if (in_flight > 0)
            end_flight(&flights, &ring);
    }
}

/* The longest message waits until the ring is empty, and not for ever. */
static void an_empty_ring_has_room_for_all_of_it(void **state)
{
    (void)state;
    static uint8_t memory[RING_BYTES];
    struct verbs_ring ring = {.memory = memory, .bytes = RING_BYTES};
    struct flights flights = {.begun = 0};
    for (uint64_t bytes = 8; bytes <= RING_BYTES; bytes += 8) {
        assert_true(begin_flight(&flights, &ring, bytes));
        assert_true(begin_flight(&flights, &ring, 0));
        assert_true(bytes <= 8 || !begin_flight(&flights, &ring, RING_BYTES));
        end_flight(&flights, &ring);
        assert_true(begin_flight(&flights, &ring, RING_BYTES));
        assert_false(begin_flight(&flights, &ring, 8));
        end_flight(&flights, &ring);
        end_flight(&flights, &ring);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_in_flight_is_not_given_out_again),
        cmocka_unit_test(requests_of_any_kind_in_any_number),
        cmocka_unit_test(an_empty_ring_has_room_for_all_of_it),
    };
    return cmocka_run_group_tests_name("fabric/verbs_ring", tests, NULL, NULL);
}
