/*
 * memcached with extstore, every get cold: its items are written to the disk at once and stay there, and the
 * page cache of its file is emptied before each measurement, and again and again during it.
 */
#include "lab/memcache.h"

#include "task/task.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <unistd.h>

enum {
    COOL_EACH_MS = 10,
    DRAIN_EACH_MS = 50,
    PAGE_MEBIBYTES = 64,    /* of extstore */
    PAGE_BYTES = 4096,      /* of the page cache */
    ITEM_HEAD_BYTES = 75,   /* its own 48, an 8-byte cas, the key and what ends key and value */
    INDEX_BYTES = 144,      /* what stays in memory for each key, slab classes included */
    SPARE_PAGES_FACTOR = 4, /* below a quarter of free pages it compacts */
    ITEM_BYTES_MIN = 256,   /* smaller ones stay in memory */
    FOREVER = 1000000000,   /* accesses after which an item is kept in memory again */
    WARM_BUCKET_BYTES = 16,
    WARM_SPARE_MEBIBYTES = 96,
    MAX_SLEEP_US = 100000, /* of the thread that writes: items leave the memory sooner */
};

#define MEBIBYTE          (UINT64_C(1) << 20)
#define DRAIN_PATIENCE_NS (30 * BASE_NS_PER_SECOND) /* without any progress */

/* ---- cold ---------------------------------------------------------------------------------------- */

/* The child that cools: the pages that have been read leave the memory. */
static int cool(void *arg)
{
    const struct lab_memcache_extstore *extstore = arg;
    int fd = open(extstore->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 1;
    struct pollfd poll_one = {.fd = LAB_CHILD_CHANNEL, .events = POLLIN};
    do
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    while (poll(&poll_one, 1, COOL_EACH_MS) == 0);
    (void)close(fd);
    return 0;
}

/* All of the file leaves the memory; only what is on the disk can. */
static int drop_pages(const struct lab_memcache_extstore *extstore)
{
    int fd = open(extstore->path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int error = fdatasync(fd) != 0 ? -errno : -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    (void)close(fd);
    return error;
}

/* With a memory control group it is the group's limit that keeps the page cache small. */
static int begin_cold(struct lab_memcache_contest *contest)
{
    struct lab_memcache_extstore *extstore = &contest->extstore;
    if (lab_memcache_is_warm(contest))
        return 0;
    int error = drop_pages(extstore);
    if (error == 0 && contest->options->memory_group == NULL) {
        error = lab_child_start(&extstore->cooler, &contest->bench->machine, 1, cool, extstore);
        extstore->cools = error == 0;
    }
    return error != 0 ? bench_fail(contest->bench, error, "%s", extstore->path) : 0;
}

static int end_cold(struct lab_memcache_contest *contest)
{
    struct lab_memcache_extstore *extstore = &contest->extstore;
    if (!extstore->cools)
        return 0;
    extstore->cools = false;
    int error = lab_child_stop(&extstore->cooler);
    return error != 0 ? bench_fail(contest->bench, error, "emptying the page cache of %s", extstore->path)
                      : 0;
}

double lab_memcache_from_memory_percent(uint64_t gets, uint64_t from_file, double read_bytes_per_get,
                                        uint32_t value_bytes)
{
    if (gets == 0)
        return 0;
    double counted = 1 - (double)from_file / (double)gets;
    double read = 1 - read_bytes_per_get / (PAGE_BYTES + value_bytes + ITEM_HEAD_BYTES - 1);
    double share = counted > read ? counted : read;
    return share > 0 ? 100 * share : 0;
}

int lab_memcache_extstore_measure(struct lab_memcache_contestant *contestant, struct bench_sample *sample)
{
    struct lab_memcache_contest *contest = contestant->contest;
    const struct memcache_client_address *address = &contestant->server.address;
    uint64_t read_before, read_after, gets_before, gets_after;
    int error = memcache_client_stat(address, "get_extstore", &read_before);
    if (error == 0)
        error = memcache_client_stat(address, "cmd_get", &gets_before);
    if (error == 0)
        error = begin_cold(contest);
    if (error == 0)
        error = lab_memcache_measure(contestant, sample);
    int ending = end_cold(contest);
    if (error == 0)
        error = ending;
    if (error == 0)
        error = memcache_client_stat(address, "get_extstore", &read_after);
    if (error == 0)
        error = memcache_client_stat(address, "cmd_get", &gets_after);
    if (error != 0)
        return error;
    double read_bytes = sample->values[LAB_MEMCACHE_BYTES]; /* for a key, of sets too, which read nothing */
    sample->values[LAB_MEMCACHE_FROM_MEMORY] =
        lab_memcache_from_memory_percent(gets_after - gets_before, read_after - read_before,
                                         read_bytes / contest->contest.share, contest->contest.values.bytes);
    return 0;
}

/* ---- beginning ----------------------------------------------------------------------------------- */

/* For items: what the group has, but for a bucket and a half for each key, its write buffers, and some for the page cache. */
static uint64_t warm_megabytes(const struct lab_memcache_options *options)
{
    return (options->memory_bytes - options->load.keys * WARM_BUCKET_BYTES) / MEBIBYTE - WARM_SPARE_MEBIBYTES;
}

void lab_memcache_extstore_prepare(struct lab_memcache_contestant *contestant, uint16_t port)
{
    struct lab_memcache_contest *contest = contestant->contest;
    struct lab_command *command = &contestant->server.command;
    const struct lab_memcache_options *options = contest->options;
    uint64_t data = options->load.keys * (contest->contest.values.bytes + (uint64_t)INDEX_BYTES);
    uint64_t pages = (SPARE_PAGES_FACTOR * data / MEBIBYTE) / PAGE_MEBIBYTES + 8;
    bool warm = lab_memcache_is_warm(contest);
    if (!warm)
        contestant->server.memory_group = options->memory_group;
    lab_memcache_add_tcp(contestant, port,
                         warm ? warm_megabytes(options) : options->load.keys * INDEX_BYTES / MEBIBYTE + 128);
    lab_command_add(command,
                    "--extended=ext_page_size=%d,ext_path=%s:%" PRIu64 "M,ext_threads=%" PRIu64
                    ",ext_item_size=%d",
                    PAGE_MEBIBYTES, contest->extstore.path, pages * PAGE_MEBIBYTES, contest->extstore.threads,
                    ITEM_BYTES_MIN);
    if (!warm)
        lab_command_add(
            command,
            "--extended=ext_item_age=0,ext_recache_rate=%d,hot_lru_pct=1,warm_lru_pct=1,ext_max_sleep=%d",
            FOREVER, MAX_SLEEP_US);
}

/* Wait until all items are in its file. */
static int drain(struct lab_memcache_contestant *contestant)
{
    struct bench *bench = contestant->contest->bench;
    uint64_t keys = contestant->contest->options->load.keys;
    uint64_t most = 0;
    uint64_t since_ns = task_now();
    for (;;) {
        uint64_t written;
        int error = memcache_client_stat(&contestant->server.address, "extstore_objects_used", &written);
        if (error != 0)
            return bench_fail(bench, error, "extstore's statistics");
        if (written >= keys)
            return 0;
        if (written > most)
            since_ns = task_now();
        most = base_max(most, written);
        if (task_now() > since_ns + DRAIN_PATIENCE_NS)
            return bench_fail(bench, 0, "extstore keeps %" PRIu64 " of %" PRIu64 " items in memory",
                              keys - written, keys);
        (void)task_sleep(DRAIN_EACH_MS * BASE_NS_PER_MS);
    }
}

static int start_with(struct lab_memcache_contestant *contestant, uint64_t threads)
{
    contestant->contest->extstore.threads = threads;
    int error = lab_memcache_contestant_start(contestant);
    return error != 0 || lab_memcache_is_warm(contestant->contest) ? error : drain(contestant);
}

/* ---- the best number of threads ------------------------------------------------------------------ */

/* One number that is tried: a server of its own. */
struct trial {
    struct lab_memcache_contestant *contestant;
    uint64_t threads;
    char name[32];
};

static int measure_trial(void *arg, struct bench_sample *sample)
{
    struct trial *trial = arg;
    int error = start_with(trial->contestant, trial->threads);
    if (error == 0)
        error = lab_memcache_extstore_measure(trial->contestant, sample);
    int stopping = lab_memcache_server_stop(&trial->contestant->server);
    return error != 0 ? error : stopping;
}

static int open_trials(struct lab_memcache_contest *contest, struct trial *trials, size_t count,
                       struct bench_case **ret_case)
{
    int error = bench_case_open(contest->bench, "extstore", "keys/s", ret_case);
    if (error != 0)
        return error;
    struct bench_case *self = *ret_case;
    self->repeats = 1;
    bench_case_number(self, "connections", contest->options->load.connections);
    bench_case_number(self, "pipeline", contest->contest.pattern.pipeline);
    bench_case_number(self, "keys_per_get", contest->contest.pattern.keys_per_get);
    bench_case_number(self, "value_bytes", contest->contest.values.bytes);
    bench_case_text(self, "read_share", contest->options->disk_read_share);
    bench_case_number(self, "keys", contest->options->load.keys);
    bench_case_value(self, "server_ns");
    bench_case_value(self, "load_percent");
    bench_case_value(self, "read_bytes");
    bench_case_value(self, "from_memory_percent");
    bench_case_value(self, "hit_percent");
    for (size_t i = 0; i < count; i++)
        bench_case_subject(self, trials[i].name, measure_trial, &trials[i]);
    return 0;
}

/* Try all with the deepest pattern there is, and take the fastest. */
static int find_threads(struct lab_memcache_contestant *contestant, uint64_t *ret_threads)
{
    struct lab_memcache_contest *contest = contestant->contest;
    const struct base_setting_list *list = &contest->options->ext_threads;
    struct trial trials[LAB_MEMCACHE_EXT_THREADS_MAX];
    struct bench_case *self;
    for (size_t i = 0; i < list->count; i++) {
        trials[i] = (struct trial){.contestant = contestant};
        if (base_parse_u64(list->items[i], &trials[i].threads) != 0)
            return -EINVAL;
        (void)snprintf(trials[i].name, sizeof(trials[i].name), "threads=%" PRIu64, trials[i].threads);
    }
    int error = open_trials(contest, trials, list->count, &self);
    if (error != 0)
        return bench_fail(contest->bench, error, "extstore");
    error = bench_case_run(self);
    double best = 0;
    for (size_t i = 0; i < list->count && error == 0; i++) {
        if (self->subjects[i].rates[0] > best) {
            best = self->subjects[i].rates[0];
            *ret_threads = trials[i].threads;
        }
    }
    bench_case_close(self);
    return error == 0 && best <= 0 ? bench_fail(contest->bench, 0, "extstore has answered nothing") : error;
}

int lab_memcache_extstore_start(struct lab_memcache_contestant *contestant)
{
    struct lab_memcache_contest *contest = contestant->contest;
    const struct lab_memcache_options *options = contest->options;
    uint64_t threads = 0;
    if (contest->contest.values.bytes < 2 * ITEM_BYTES_MIN) {
        contestant->skipped = "it keeps such small values in memory";
        return 0;
    }
    (void)snprintf(contest->extstore.path, sizeof(contest->extstore.path), "%s.extstore", contest->path);
    int error = 0;
    if (options->ext_threads.count > 1)
        error = find_threads(contestant, &threads);
    else
        error = base_parse_u64(options->ext_threads.items[0], &threads);
    return error != 0 ? error : start_with(contestant, threads);
}
