/* What is asked of stores that this process calls, and what came of it. */
#include "base/progress.h"
#include "lab/hash.h"
#include "task/task.h"

#include <errno.h>

enum { TURNS = 16, WARM_UP_SHARE = 5, WHOLE_EACH = 64, FILL = 64 };

/* The keys of an operation, and their values. */
struct request {
    uint32_t numbers[LAB_HASH_BATCH_MAX];
    char keys[LAB_HASH_BATCH_MAX][BENCH_KEY_BYTES];
};

static void set_key(struct request *request, uint32_t i, uint32_t number)
{
    request->numbers[i] = number;
    bench_key(number, request->keys[i]);
}

int lab_hash_store_fill(struct lab_hash_store *store)
{
    struct lab_hash_job *job = store->job;
    struct base_progress progress;
    struct request request;
    int error = store->open(store);
    if (error == 0 && store->skipped != NULL)
        return 0;
    uint8_t *values = error == 0 ? base_alloc(job->bench->account, (uint64_t)FILL * job->values.bytes) : NULL;
    if (error != 0)
        return bench_fail(job->bench, error, "%s", store->name);
    if (values == NULL)
        return bench_fail(job->bench, -ENOMEM, "%s", store->name);
    bench_progress_init(job->bench, &progress, store->name, "records", job->keys.count);
    for (uint64_t first = 0; first < job->keys.count && error == 0; first += FILL) {
        const uint32_t count = (uint32_t)base_min(job->keys.count - first, (uint64_t)FILL);
        for (uint32_t i = 0; i < count; i++) {
            set_key(&request, i, (uint32_t)first + i);
            bench_value(&job->values, first + i, 0, values + (size_t)i * job->values.bytes);
        }
        error = store->put(store, (const char(*)[BENCH_KEY_BYTES])request.keys, count, values);
        base_progress_update(&progress, first + count);
    }
    base_progress_end(&progress);
    base_free(job->bench->account, values, (uint64_t)FILL * job->values.bytes);
    return error == 0 ? 0 : bench_fail(job->bench, error, "%s: storing all records", store->name);
}

/* ---- measuring ----------------------------------------------------------------------------------- */

struct load {
    struct lab_hash_store *store;
    struct bench_sample *sample;
    uint8_t *values;
    uint64_t place, checked; /* in the draws; values */
    struct request request;
};

static bool is_right(struct load *load, uint32_t i)
{
    const struct lab_hash_job *job = load->store->job;
    struct bench_value_check check;
    bench_value_check_begin(&check, load->request.numbers[i], load->checked++ % WHOLE_EACH == 0);
    return bench_value_check_bytes(&job->values, &check, load->values + (size_t)i * job->values.bytes,
                                   job->values.bytes);
}

/* @param ret_ns  what the call alone took; NULL: that is not looked at */
static int ask(struct load *load, uint64_t *ret_ns)
{
    struct lab_hash_store *store = load->store;
    struct lab_hash_job *job = store->job;
    const uint32_t count = job->is_put ? 1 : job->batch;
    for (uint32_t i = 0; i < count; i++)
        set_key(&load->request, i, job->draws[load->place++ % LAB_HASH_DRAWS]);
    if (job->is_put)
        bench_value(&job->values, load->request.numbers[0], ++job->generation, load->values);
    const char(*keys)[BENCH_KEY_BYTES] = (const char(*)[BENCH_KEY_BYTES])load->request.keys;
    const uint64_t begin_ns = ret_ns == NULL ? 0 : task_now();
    int error =
        job->is_put ? store->put(store, keys, 1, load->values) : store->get(store, keys, count, load->values);
    if (ret_ns != NULL)
        *ret_ns = task_now() - begin_ns;
    for (uint32_t i = 0; i < count && error == 0 && !job->is_put; i++)
        error = is_right(load, i) ? 0 : -EBADMSG;
    return error;
}

/* As many as take a time. One of TURNS is timed. */
static int ask_for(struct load *load, uint64_t duration_ns, bool is_warm_up)
{
    const uint64_t begin_ns = task_now();
    uint64_t operations = 0, took_ns;
    int error = 0;
    do {
        error = ask(load, &took_ns);
        for (unsigned i = 1; i < TURNS && error == 0; i++)
            error = ask(load, NULL);
        if (!is_warm_up)
            base_histogram_add(load->sample->latency, took_ns);
        operations += TURNS;
    } while (error == 0 && task_now() - begin_ns < duration_ns);
    load->sample->operations = operations * (load->store->job->is_put ? 1 : load->store->job->batch);
    load->sample->elapsed_ns = task_now() - begin_ns;
    return error;
}

int lab_hash_measure(void *arg, struct bench_sample *sample)
{
    struct lab_hash_store *store = arg;
    struct lab_hash_job *job = store->job;
    struct load load = {.store = store, .sample = sample};
    const uint64_t bytes = (uint64_t)LAB_HASH_BATCH_MAX * job->values.bytes;
    if (store->skipped != NULL) {
        sample->skipped = store->skipped;
        return 0;
    }
    load.values = base_alloc(job->bench->account, bytes);
    if (load.values == NULL)
        return bench_fail(job->bench, -ENOMEM, "%s", store->name);
    bench_pin(&job->bench->machine, 0);
    int error = ask_for(&load, job->bench->options.duration_ns / WARM_UP_SHARE, true);
    const uint64_t others_ns = store->others_ns == NULL ? 0 : store->others_ns(store);
    if (error == 0)
        error = ask_for(&load, job->bench->options.duration_ns, false);
    if (error == 0 && store->others_ns != NULL)
        sample->values[LAB_HASH_OTHERS_SHARE] =
            100 * (double)(store->others_ns(store) - others_ns) / (double)sample->elapsed_ns;
    sample->values[LAB_HASH_RECORD_BYTES] = (double)store->bytes(store) / (double)job->keys.count;
    bench_unpin(&job->bench->machine);
    base_free(job->bench->account, load.values, bytes);
    return error == 0 ? 0 : bench_fail(job->bench, error, "%s", store->name);
}

int lab_hash_measure_inserts(void *arg, struct bench_sample *sample)
{
    struct lab_hash_store *store = arg;
    struct lab_hash_job *job = store->job;
    struct request request;
    uint8_t *value = base_alloc(job->bench->account, job->values.bytes);
    int error = value == NULL ? -ENOMEM : store->open(store);
    bench_pin(&job->bench->machine, 0);
    const uint64_t begin_ns = task_now();
    uint64_t before_ns = begin_ns;
    for (uint64_t i = 0; i < job->keys.count && error == 0; i++) {
        set_key(&request, 0, (uint32_t)i);
        bench_value(&job->values, i, 0, value);
        error = store->put(store, (const char(*)[BENCH_KEY_BYTES])request.keys, 1, value);
        const uint64_t now_ns = task_now();
        base_histogram_add(sample->latency, now_ns - before_ns);
        before_ns = now_ns;
    }
    sample->operations = job->keys.count;
    sample->elapsed_ns = task_now() - begin_ns;
    bench_unpin(&job->bench->machine);
    if (error == 0)
        sample->values[LAB_HASH_RECORD_BYTES] = (double)store->bytes(store) / (double)job->keys.count;
    store->close(store);
    base_free(job->bench->account, value, job->values.bytes);
    return error == 0 ? 0 : bench_fail(job->bench, error, "%s: storing records", store->name);
}
