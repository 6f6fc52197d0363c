/* Histograms of the stages of the work, and requests on their way through them. */
#include "depot/stage.h"
#include "depot/depot.h"
#include "depot/depot_internal.h"
#include "task/sched.h"
#include <errno.h>

#define INTERVAL_DEFAULT 32

static const char *const names[TARN_STAGE_COUNT] = {
    [TARN_STAGE_QUEUE] = "queue",   [TARN_STAGE_ROOM] = "room",     [TARN_STAGE_LOCK] = "lock",
    [TARN_STAGE_INDEX] = "index",   [TARN_STAGE_READ] = "read",     [TARN_STAGE_VERIFY] = "verify",
    [TARN_STAGE_APPEND] = "append", [TARN_STAGE_COMMIT] = "commit", [TARN_STAGE_WRITE] = "write",
    [TARN_STAGE_FLUSH] = "flush",   [TARN_STAGE_GET] = "get",       [TARN_STAGE_PUT] = "put",
    [TARN_STAGE_UPDATE] = "update", [TARN_STAGE_TOUCH] = "touch",   [TARN_STAGE_DELETE] = "delete",
    [TARN_STAGE_BATCH] = "batch"};

const char *tarn_stage_name(enum tarn_stage stage)
{
    return (unsigned)stage < TARN_STAGE_COUNT ? names[stage] : NULL;
}

/* ---- lanes --------------------------------------------------------------------------------------- */

static void free_lanes(struct depot_stages *stages, uint32_t inited)
{
    for (uint32_t i = 0; i < inited; i++)
        base_stages_deinit(&stages->lanes[i].stages);
    base_free(stages->account, stages->lanes, stages->lane_count * sizeof(*stages->lanes));
}

int depot_stages_init(struct depot_stages *stages, struct base_account *account, uint32_t sched_count,
                      uint32_t interval)
{
    *stages = (struct depot_stages){.account = account, .lane_count = sched_count + 1};
    stages->lanes = base_alloc(account, stages->lane_count * sizeof(*stages->lanes));
    if (stages->lanes == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < stages->lane_count; i++) {
        struct depot_lane *lane = &stages->lanes[i];
        if (base_stages_init(&lane->stages, account, TARN_STAGE_COUNT) != 0) {
            free_lanes(stages, i);
            return -ENOMEM;
        }
        base_spin_init(&lane->lock);
        base_random_init(&lane->random, i);
        atomic_init(&lane->countdown, 1);
    }
    atomic_init(&stages->interval, interval == 0 ? INTERVAL_DEFAULT : interval);
    atomic_init(&stages->round, 1);
    return 0;
}

void depot_stages_deinit(struct depot_stages *stages)
{
    free_lanes(stages, stages->lane_count);
}

static struct depot_lane *own_lane(struct depot_stages *stages)
{
    const struct task_sched *sched = task_sched_self();
    uint32_t lane = sched == NULL ? 0 : task_sched_index(sched) + 1;
    return &stages->lanes[lane < stages->lane_count ? lane : 0];
}

void depot_stages_add(struct depot_stages *stages, enum tarn_stage stage, uint64_t ns)
{
    struct depot_lane *lane = own_lane(stages);
    bool shared = lane == stages->lanes;
    if (shared)
        base_spin_lock(&lane->lock);
    base_stages_add(&lane->stages, stage, &stages->round, ns);
    if (shared)
        base_spin_unlock(&lane->lock);
}

/*
 * How many requests lie between two that are measured is drawn, from 1 to twice the interval: with a fixed
 * number, the same place of batches that are as long would be met each time. In the first lane, a caller that takes
 * 1 away draws; until the next number is there, none of the others is measured.
 */
bool depot_stages_draw(struct depot_stages *stages)
{
    uint32_t interval = atomic_load_explicit(&stages->interval, memory_order_relaxed);
    if (interval == 1)
        return true;
    struct depot_lane *lane = own_lane(stages);
    int64_t left;
    if (lane == stages->lanes) {
        left = atomic_fetch_sub_explicit(&lane->countdown, 1, memory_order_acq_rel);
    } else {
        left = atomic_load_explicit(&lane->countdown, memory_order_relaxed);
        atomic_store_explicit(&lane->countdown, left - 1, memory_order_relaxed);
    }
    if (base_likely(left != 1))
        return false;
    int64_t next = 1 + (int64_t)base_random_below(&lane->random, 2 * (uint64_t)interval - 1);
    atomic_store_explicit(&lane->countdown, next, memory_order_release);
    return true;
}

void depot_stages_read(struct depot_stages *stages, enum tarn_stage stage, struct base_histogram *into)
{
    uint32_t lane = 0;
    base_histogram_reset(into);
    while (lane < stages->lane_count) {
        if (base_stages_read(&stages->lanes[lane++].stages, stage, &stages->round, into))
            continue;
        base_histogram_reset(into); /* another round has begun */
        lane = 0;
    }
}

/* ---- requests ------------------------------------------------------------------------------------ */

void depot_trace_begin(struct depot_stages *stages, struct depot_trace *trace, uint64_t begin_ns)
{
    trace->begin_ns = 0;
    if (base_likely(!depot_stages_draw(stages)))
        return;
    uint64_t now_ns = task_now();
    *trace = (struct depot_trace){.begin_ns = begin_ns == 0 ? now_ns : begin_ns, .at_ns = now_ns};
}

void depot_trace_end(struct depot_stages *stages, const struct depot_trace *trace, enum tarn_stage whole)
{
    if (base_likely(trace->begin_ns == 0))
        return;
    uint64_t now_ns = task_now();
    for (unsigned stage = 0; stage < base_array_count(trace->ns); stage++) {
        if ((trace->passed & UINT32_C(1) << stage) != 0)
            depot_stages_add(stages, (enum tarn_stage)stage, trace->ns[stage]);
    }
    depot_stages_add(stages, whole, now_ns - trace->begin_ns);
}

/* ---- what others ask ------------------------------------------------------------------------------ */

bool depot_measures(struct tarn_depot *depot)
{
    return depot_stages_draw(&depot->stages);
}

void depot_queued(struct tarn_depot *depot, uint64_t ns)
{
    depot_stages_add(&depot->stages, TARN_STAGE_QUEUE, ns);
}

void depot_measure(struct tarn_depot *depot, uint32_t interval)
{
    atomic_store_explicit(&depot->stages.interval, interval, memory_order_relaxed);
    tarn_depot_forget_latency(depot);
}

uint32_t depot_measure_interval(const struct tarn_depot *depot)
{
    return atomic_load_explicit(&depot->stages.interval, memory_order_relaxed);
}

void tarn_depot_forget_latency(struct tarn_depot *depot)
{
    base_stages_forget(&depot->stages.round);
}

static struct base_histogram *read_stage(struct tarn_depot *depot, enum tarn_stage stage)
{
    struct base_histogram *histogram = base_alloc(&depot->node->memory, sizeof(*histogram));
    if (histogram != NULL)
        depot_stages_read(&depot->stages, stage, histogram);
    return histogram;
}

static void free_histogram(struct tarn_depot *depot, struct base_histogram *histogram)
{
    base_free(&depot->node->memory, histogram, sizeof(*histogram));
}

int tarn_depot_latency(struct tarn_depot *depot, enum tarn_stage stage, struct tarn_latency *ret_latency)
{
    if ((unsigned)stage >= TARN_STAGE_COUNT)
        return -EINVAL;
    struct base_histogram *histogram = read_stage(depot, stage);
    if (histogram == NULL)
        return -ENOMEM;
    *ret_latency = (struct tarn_latency){.count = base_histogram_count(histogram),
                                         .sum_ns = histogram->sum_low,
                                         .min_ns = base_histogram_min(histogram),
                                         .p50_ns = base_histogram_percentile(histogram, 50),
                                         .p90_ns = base_histogram_percentile(histogram, 90),
                                         .p99_ns = base_histogram_percentile(histogram, 99),
                                         .p999_ns = base_histogram_percentile(histogram, 99.9),
                                         .max_ns = base_histogram_max(histogram)};
    free_histogram(depot, histogram);
    return 0;
}

int depot_write_stages(struct tarn_depot *depot, struct base_json *json, const char *key)
{
    base_json_object_begin(json, key);
    for (unsigned stage = 0; stage < TARN_STAGE_COUNT; stage++) {
        struct base_histogram *histogram = read_stage(depot, (enum tarn_stage)stage);
        if (histogram == NULL)
            return -ENOMEM;
        base_histogram_write_json(histogram, json, names[stage]);
        free_histogram(depot, histogram);
    }
    base_json_object_end(json);
    return 0;
}
