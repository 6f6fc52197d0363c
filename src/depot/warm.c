/* Warming: what is read, how fast, and what is marked for the next time. */
#include "depot/warm.h"
#include "depot/depot_internal.h"
#include "task/worker.h"
#include <errno.h>
#include <inttypes.h>

#define READS_AT_ONCE 8
#define LOOKS_AHEAD                                                                                          \
    16 /* entries whose places are fetched into the processor's cache before they are asked for */

struct depot_warming {
    struct task_worker worker;
    uint64_t rate_bytes;
    uint64_t due_ns; /* no read before */
    uint64_t bytes;
    _Atomic uint64_t records;
    struct depot_read reads[READS_AT_ONCE];
    struct depot_index_item items[DEPOT_INDEX_BATCH_MAX];
};

/* ---- closing ------------------------------------------------------------------------------------- */

static bool is_hot(struct tarn_depot *depot, uint64_t grain)
{
    struct depot_hot_found found;
    if (!depot_hot_find(depot->hot, grain, seglog_stamp_at(depot->log, grain), false, &found))
        return false;
    depot_hot_unpin(found.page);
    return found.is_favoured;
}

void depot_warming_mark(struct tarn_depot *depot, struct depot_index_item *items, uint32_t count)
{
    if (depot->warming == NULL)
        return;
    for (uint32_t i = 0; i < count; i++) {
        if (i + LOOKS_AHEAD < count)
            depot_hot_prefetch(depot->hot, depot_index_address(&depot->index, items[i + LOOKS_AHEAD].word));
        items[i].word =
            depot_index_mark(items[i].word, is_hot(depot, depot_index_address(&depot->index, items[i].word)));
    }
}

/* ---- reading ------------------------------------------------------------------------------------- */

/* Read the records of some marked entries, several at once. @return the entry to go on with */
static uint32_t read_some(struct tarn_depot *depot, uint32_t next, uint32_t count)
{
    struct depot_warming *warming = depot->warming;
    uint64_t begin_ns = task_now(), bytes = 0;
    uint32_t posted = 0;
    for (; next < count && posted < READS_AT_ONCE; next++) {
        struct depot_read *read = &warming->reads[posted];
        const uint64_t word = warming->items[next].word;
        if (!depot_index_is_hit(word))
            continue;
        read->trace = NULL;
        read->warms = DEPOT_WARMS_AGAIN;
        if (!depot_read_post(depot, read, word, DEPOT_WANT_WHOLE, 0, posted == 0))
            break; /* all other buffers are in use */
        bytes += read->span_bytes;
        posted++;
    }
    for (uint32_t i = 0; i < posted; i++) {
        if (depot_read_finish(depot, &warming->reads[i]) != 0)
            continue; /* moved, or damaged: a get will tell */
        depot_record_release(&warming->reads[i].record);
        atomic_fetch_add_explicit(&warming->records, 1, memory_order_relaxed);
    }
    warming->bytes += bytes;
    warming->due_ns = task_worker_due(warming->due_ns, begin_ns, bytes, warming->rate_bytes);
    return next;
}

/* There may be less memory than before: nothing has to go for what was marked. */
static void run(void *arg)
{
    struct tarn_depot *depot = arg;
    struct depot_warming *warming = depot->warming;
    struct depot_index_cursor cursor = {.region = 0};
    uint64_t begin_ns = task_now();
    bool goes_on = true;
    while (goes_on && !cursor.end) {
        uint32_t count = depot_index_next(&depot->index, &cursor, warming->items);
        for (uint32_t next = 0; goes_on && next < count;) {
            next = read_some(depot, next, count);
            goes_on = depot_hot_has_room(depot->hot) && task_worker_await(&warming->worker, warming->due_ns);
        }
        task_yield();
    }
    base_info(&depot->node->log, "hot records were read back",
              "path=%s records=%" PRIu64 " bytes=%" PRIu64 " ms=%" PRIu64 " end=\"%s\"",
              drive_name(depot->drive), depot_warming_records(depot), warming->bytes,
              (task_now() - begin_ns) / BASE_NS_PER_MS,
              goes_on                               ? "all"
              : task_worker_stops(&warming->worker) ? "the store is closed"
                                                    : "there is no memory for more");
}

/* ---- its life ------------------------------------------------------------------------------------ */

int depot_warming_start(struct tarn_depot *depot, uint64_t rate_bytes)
{
    if (rate_bytes == 0 || depot->hot == NULL)
        return 0;
    struct depot_warming *warming = base_alloc(&depot->node->memory, sizeof(*warming));
    if (warming == NULL)
        return -ENOMEM;
    warming->rate_bytes = rate_bytes;
    task_worker_init(&warming->worker);
    depot->warming = warming;
    return task_worker_start(&warming->worker, "tarn-warm", run, depot);
}

void depot_warming_stop(struct tarn_depot *depot)
{
    if (depot->warming != NULL)
        task_worker_stop(&depot->warming->worker);
}

void depot_warming_wait(struct tarn_depot *depot)
{
    if (depot->warming == NULL)
        return;
    task_mutex_lock_firmly(&depot->warming->worker.alive);
    task_mutex_unlock(&depot->warming->worker.alive);
}

uint64_t depot_warming_records(const struct tarn_depot *depot)
{
    return depot->warming == NULL ? 0 : atomic_load_explicit(&depot->warming->records, memory_order_relaxed);
}

void depot_warming_deinit(struct tarn_depot *depot)
{
    if (depot->warming != NULL)
        base_free(&depot->node->memory, depot->warming, sizeof(*depot->warming));
    depot->warming = NULL;
}
