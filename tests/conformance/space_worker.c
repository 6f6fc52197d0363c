/*
 * A client of a space that goes on whatever happens to its masters, for tests:
 *
 *   space_worker FABRIC ADDRESSES    until its standard input ends
 *
 * One thread makes regions, fills them, and frees the oldest; another one reads a region all the time. What they read must be
 * what was written, and no call may fail but one that changes something and whose master was lost meanwhile: then it is
 * looked up what has become of it. Prints a line for each round, and at the end `done ROUNDS READS MSEC`, the longest that a
 * read has taken; or what went wrong, and ends with 1.
 */
#include "base/base.h"
#include "task/node.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/space.h>
#include <unistd.h>

#define CHUNKS 3
#define KEPT   8
#define SOON   (task_now() + 120 * BASE_NS_PER_SECOND)

struct worker {
    struct tarn_space *space;
    struct tarn_space_namespace *of;
    uint64_t chunk_bytes;
    uint64_t *bytes;                         /* of a region */
    struct tarn_space_region *regions[KEPT]; /* of the last rounds */
};

static struct tarn_node *node;
static struct tarn_fabric *fabric;
static const char *addresses;
static _Atomic bool stops;
static uint64_t reads, longest_ns;

static void must(int error, const char *what, uint64_t number)
{
    if (error == 0)
        return;
    (void)printf("%s %" PRIu64 " fails: %s\n", what, number, strerrorname_np(-error));
    exit(1);
}

/* ---- the one that reads -------------------------------------------------------------------------- */

static void *read_on(void *arg)
{
    struct tarn_space_region *region;
    struct tarn_space_namespace *of;
    struct tarn_space *space;
    (void)arg;
    must(tarn_space_connect(fabric, addresses, NULL, SOON, &space), "connect", 0);
    must(tarn_space_create_ns(space, "read", NULL, 0, SOON, &of), "create", 0);
    must(tarn_space_reserve(of, 1, SOON), "reserve", 0);
    must(tarn_space_alloc(of, 1, NULL, SOON, &region), "alloc", 0);
    for (uint64_t value = 0; !atomic_load(&stops); value++) {
        uint64_t found;
        const uint64_t begin_ns = task_now();
        must(tarn_space_write_at(region, 0, &value, 1, SOON), "write", value);
        must(tarn_space_read_at(region, 0, &found, 1, SOON), "read", value);
        if ((found & 255) != (value & 255))
            must(-EILSEQ, "read", value);
        reads++;
        longest_ns = base_max(longest_ns, task_now() - begin_ns);
        (void)task_sleep(BASE_NS_PER_MS);
    }
    tarn_space_drop(region);
    must(tarn_space_delete_ns(of, SOON), "delete", 0);
    tarn_space_leave_ns(of);
    tarn_space_disconnect(space);
    return NULL;
}

/* ---- the one that makes regions ------------------------------------------------------------------ */

/* Whether a call is to be made again: its master was lost, and it may have been done. */
static bool is_unknown(int error, const char *what, uint64_t number)
{
    if (error != -ECONNRESET)
        must(error, what, number);
    return error != 0;
}

static void make_region(struct worker *worker, uint64_t round)
{
    char name[32];
    const struct tarn_space_alloc_options options = {.name = name};
    struct tarn_space_region **region = &worker->regions[round % KEPT];
    int error;
    (void)snprintf(name, sizeof(name), "round-%" PRIu64, round);
    while (is_unknown(tarn_space_alloc(worker->of, CHUNKS * worker->chunk_bytes, &options, SOON, region),
                      "alloc", round)) {
        error = tarn_space_find(worker->of, name, SOON, region);
        if (error == 0)
            break;
        if (error != -ENOENT)
            must(error, "find", round);
    }
}

static uint64_t stamp(uint64_t round, uint64_t place)
{
    return round * UINT64_C(0x9E3779B97F4A7C15) + place;
}

static void fill_region(const struct worker *worker, uint64_t round)
{
    const uint64_t bytes = CHUNKS * worker->chunk_bytes;
    for (uint64_t i = 0; i < bytes / 8; i++)
        worker->bytes[i] = stamp(round, i);
    must(tarn_space_write_at(worker->regions[round % KEPT], 0, worker->bytes, bytes, SOON), "write", round);
}

static void check_region(const struct worker *worker, uint64_t round)
{
    const uint64_t bytes = CHUNKS * worker->chunk_bytes;
    must(tarn_space_read_at(worker->regions[round % KEPT], 0, worker->bytes, bytes, SOON), "read", round);
    for (uint64_t i = 0; i < bytes / 8; i++) {
        if (worker->bytes[i] != stamp(round, i))
            must(-EILSEQ, "region", round);
    }
}

static void free_region(const struct worker *worker, uint64_t round)
{
    struct tarn_space_region *region = worker->regions[round % KEPT];
    int error;
    do
        error = tarn_space_free(region, SOON);
    while (error == -ECONNRESET);
    if (error != -ENOENT) /* it was done the time before */
        must(error, "free", round);
    tarn_space_drop(region);
}

static bool is_told_to_stop(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&in, 1, 0) > 0;
}

static uint64_t work(struct worker *worker)
{
    uint64_t round = 0;
    for (; !is_told_to_stop(); round++) {
        if (round >= KEPT) {
            check_region(worker, round - KEPT);
            free_region(worker, round - KEPT);
        }
        make_region(worker, round);
        fill_region(worker, round);
        check_region(worker, round);
        (void)printf("round %" PRIu64 "\n", round);
    }
    for (uint64_t old = round - base_min(round, KEPT); old < round; old++) {
        check_region(worker, old);
        free_region(worker, old);
    }
    return round;
}

int main(int argc, char **argv)
{
    struct worker worker = {.space = NULL};
    struct tarn_space_info info;
    struct tarn_space_region *region;
    pthread_t reader;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 3 || task_node_open(NULL, &node) != 0)
        return 2;
    addresses = argv[2];
    must(tarn_fabric_open(node, argv[1], &fabric), "fabric", 0);
    must(tarn_space_connect(fabric, addresses, NULL, SOON, &worker.space), "connect", 0);
    must(tarn_space_create_ns(worker.space, "work", NULL, 0, SOON, &worker.of), "create", 0);
    must(tarn_space_reserve(worker.of, 1, SOON), "reserve", 0);
    must(tarn_space_alloc(worker.of, 1, NULL, SOON, &region), "alloc", 0);
    tarn_space_info(region, &info);
    worker.chunk_bytes = info.chunk_bytes;
    must(tarn_space_reserve(worker.of, (uint64_t)(KEPT + 1) * CHUNKS * info.chunk_bytes, SOON), "reserve", 1);
    worker.bytes = calloc(CHUNKS, info.chunk_bytes);
    if (worker.bytes == NULL || pthread_create(&reader, NULL, read_on, NULL) != 0)
        return 2;
    const uint64_t rounds = work(&worker);
    atomic_store(&stops, true);
    (void)pthread_join(reader, NULL);
    tarn_space_drop(region);
    must(tarn_space_delete_ns(worker.of, SOON), "delete", 0);
    tarn_space_leave_ns(worker.of);
    tarn_space_disconnect(worker.space);
    tarn_fabric_close(fabric);
    task_node_close(node);
    free(worker.bytes);
    (void)printf("done %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", rounds, reads, longest_ns / BASE_NS_PER_MS);
    return 0;
}
