/* A node: what all its schedulers share, from its memory to its log, and its beginning and end. */
#include "task/node.h"
#include "base/base.h"
#include "base/hash.h"
#include "task/sched_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <tarn/tarn.h>
#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    base_assert(clock_gettime(clock, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t machine_monotonic(void *arg)
{
    (void)arg;
    return read_clock(CLOCK_MONOTONIC);
}

static uint64_t machine_wall(void *arg)
{
    (void)arg;
    return read_clock(CLOCK_REALTIME);
}

/* The identity that the kernel draws at each boot. @return 0: the kernel does not show it */
static uint64_t machine_boot(void)
{
    char identity[64];
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t bytes = file == NULL ? 0 : fread(identity, 1, sizeof(identity), file);
    if (file != NULL)
        (void)fclose(file);
    return bytes == 0 ? 0 : base_hash64(identity, bytes, 0);
}

static const struct task_clock machine_clock = {.monotonic = machine_monotonic, .wall = machine_wall};

static void warn_of_memory(void *arg, uint64_t used_bytes, uint64_t cap_bytes)
{
    struct tarn_node *node = arg;
    base_warn(&node->log, "memory is running out", "used_bytes=%" PRIu64 " cap_bytes=%" PRIu64, used_bytes,
              cap_bytes);
}

static uint64_t log_clock(void *arg)
{
    struct tarn_node *node = arg;
    return node->clock.wall(node->clock.arg);
}

int task_node_open(const struct task_node_options *options, struct tarn_node **ret_node)
{
    static const struct task_node_options defaults = {.log_level = BASE_LOG_INFO};
    if (options == NULL)
        options = &defaults;
    uint64_t seed = options->seed;
    while (seed == 0) {
        if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed) && errno != EINTR)
            return -errno;
    }
    struct base_account own;
    base_account_init(&own, BASE_ACCOUNT_UNLIMITED);
    struct tarn_node *node = base_alloc(&own, sizeof(*node));
    if (node == NULL)
        return -ENOMEM;
    base_account_init(&node->memory,
                      options->memory_bytes == 0 ? BASE_ACCOUNT_UNLIMITED : options->memory_bytes);
    base_account_set_warning(&node->memory, warn_of_memory, node);
    node->options = *options;
    node->clock = options->clock == NULL ? machine_clock : *options->clock;
    base_log_init(&node->log, options->log_level,
                  options->log_sink == NULL ? base_log_sink_file : options->log_sink,
                  options->log_sink == NULL ? stderr : options->log_arg, log_clock, node);
    base_spin_init(&node->lock);
    base_random_init(&node->random, seed);
    node->boot = options->drives == NULL ? machine_boot() : 0;
    *ret_node = node;
    return 0;
}

void task_node_close(struct tarn_node *node)
{
    base_assert(node->sched_count == 0 && node->files_used == 0);
    base_account_deinit(&node->memory); /* asserts that everything was given back */
    struct base_account own;
    base_account_init(&own, sizeof(*node));
    base_assert(base_account_take(&own, sizeof(*node)) == 0);
    base_free(&own, node, sizeof(*node));
}

uint64_t task_now(void)
{
    struct task_sched *sched = task_thread_sched();
    if (sched == NULL)
        return machine_monotonic(NULL);
    return sched->node->clock.monotonic(sched->node->clock.arg);
}

uint64_t tarn_now_ns(void)
{
    return task_now();
}

void task_wall_raise(struct tarn_node *node, uint64_t wall_ns)
{
    uint64_t high_ns = atomic_load_explicit(&node->wall_high_ns, memory_order_relaxed);
    while (wall_ns > high_ns &&
           !atomic_compare_exchange_weak_explicit(&node->wall_high_ns, &high_ns, wall_ns,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

uint64_t task_wall(struct tarn_node *node)
{
    task_wall_raise(node, node->clock.wall(node->clock.arg));
    return atomic_load_explicit(&node->wall_high_ns, memory_order_relaxed);
}

uint64_t task_rng(struct tarn_node *node)
{
    struct task_sched *sched = task_thread_sched();
    if (sched != NULL && sched->node == node)
        return base_random_u64(&sched->random);
    base_spin_lock(&node->lock);
    uint64_t value = base_random_u64(&node->random);
    base_spin_unlock(&node->lock);
    return value;
}

int task_random_bytes(struct tarn_node *node, void *bytes, size_t count)
{
    uint8_t *to = bytes;
    for (size_t done = 0; node->options.seed == 0 && done < count;) {
        const ssize_t more = getrandom(to + done, count - done, 0);
        if (more < 0 && errno != EINTR)
            return -errno;
        done += more < 0 ? 0 : (size_t)more;
    }
    for (size_t i = 0; node->options.seed != 0 && i < count; i++)
        to[i] = (uint8_t)task_rng(node);
    return 0;
}
