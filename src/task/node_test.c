/* Clocks, chance and memory of a node. */
#include "task/node.h"
#include "task/testing.h"
#include <string.h>
#include <time.h>

struct clock {
    uint64_t monotonic_ns;
    uint64_t wall_ns;
};

static uint64_t read_monotonic(void *arg)
{
    return ((struct clock *)arg)->monotonic_ns;
}

static uint64_t read_wall(void *arg)
{
    return ((struct clock *)arg)->wall_ns;
}

static void civil_time_never_goes_back(void **state)
{
    (void)state;
    struct clock clock = {.wall_ns = 1000};
    struct task_clock source = {.monotonic = read_monotonic, .wall = read_wall, .arg = &clock};
    struct task_node_options options = {.clock = &source, .log_level = BASE_LOG_ERROR};
    struct tarn_node *node;
    assert_int_equal(task_node_open(&options, &node), 0);
    assert_int_equal(task_wall(node), 1000);
    clock.wall_ns = 10;
    assert_int_equal(task_wall(node), 1000);
    task_wall_raise(node, 5000); /* what a store remembers from before a restart */
    assert_int_equal(task_wall(node), 5000);
    clock.wall_ns = 5001;
    assert_int_equal(task_wall(node), 5001);
    task_wall_raise(node, 1);
    assert_int_equal(task_wall(node), 5001);
    task_node_close(node);
}

static void the_machine_has_clocks(void **state)
{
    (void)state;
    struct tarn_node *node;
    assert_int_equal(task_node_open(NULL, &node), 0);
    uint64_t before_ns = task_now();
    assert_true(task_now() >= before_ns);
    time_t seconds = time(NULL);
    assert_true(task_wall(node) / 1000000000 - (uint64_t)seconds <= 2);
    task_node_close(node);
}

static void chance_comes_from_the_seed(void **state)
{
    (void)state;
    uint64_t drawn[4];
    for (int i = 0; i < 4; i++) {
        struct task_node_options options = {.seed = i < 2 ? 7 : 0, .log_level = BASE_LOG_ERROR};
        struct tarn_node *node;
        assert_int_equal(task_node_open(&options, &node), 0);
        drawn[i] = task_rng(node);
        assert_int_not_equal(drawn[i], task_rng(node));
        task_node_close(node);
    }
    assert_int_equal(drawn[0], drawn[1]);
    assert_int_not_equal(drawn[2], drawn[3]);
}

static void catch_line(void *arg, enum base_log_level level, const char *line, size_t length)
{
    (void)length;
    assert_int_equal(level, BASE_LOG_WARN);
    (void)strncpy(arg, line, 255);
}

static void memory_near_its_cap_is_told(void **state)
{
    (void)state;
    char line[256] = "";
    struct task_node_options options = {
        .memory_bytes = 1000, .log_level = BASE_LOG_WARN, .log_sink = catch_line, .log_arg = line};
    struct tarn_node *node;
    assert_int_equal(task_node_open(&options, &node), 0);
    assert_int_equal(base_account_take(&node->memory, 790), 0);
    assert_string_equal(line, "");
    assert_int_equal(base_account_take(&node->memory, 20), 0);
    assert_non_null(strstr(line, "cap_bytes=1000"));
    base_account_give(&node->memory, 810);
    task_node_close(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(civil_time_never_goes_back),
        cmocka_unit_test(the_machine_has_clocks),
        cmocka_unit_test(chance_comes_from_the_seed),
        cmocka_unit_test(memory_near_its_cap_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
