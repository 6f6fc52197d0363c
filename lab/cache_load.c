/* What is asked, and what came of it: the same for all of Tarn's ways. */
#include "lab/cache.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>

enum {
    TURNS = 16,         /* requests between two looks at the clock */
    WARM_UP_SHARE = 10, /* as of the load that the peers get */
    HITS_MIN_PERCENT = 90,
};

void lab_cache_job_draw(struct lab_cache_job *job)
{
    struct base_random random;
    const uint64_t read_below = (uint64_t)(job->read_share * (double)(UINT64_C(1) << 63));
    base_random_init(&random, job->bench->options.seed);
    for (uint32_t i = 0; i < LAB_CACHE_DRAWS; i++) {
        const bool is_put = base_random_u64(&random) >> 1 >= read_below;
        job->draws[i] = (uint32_t)bench_keys_draw(&job->keys, &random) | (is_put ? LAB_CACHE_PUT : 0);
    }
}

void lab_cache_load_begin(struct lab_cache_load *load, const struct lab_cache_job *job)
{
    const uint64_t now_ns = task_now();
    *load = (struct lab_cache_load){.job = job, .per_get = job->per_get};
    load->generation = (job->measured + 1) << 32;
    load->warm_ns = now_ns + job->bench->options.duration_ns / WARM_UP_SHARE;
}

static void look_at_clock(struct lab_cache_load *load)
{
    const uint64_t now_ns = task_now();
    const uint64_t keys = load->gets + load->puts;
    if (load->begin_ns == 0) {
        if (now_ns >= load->warm_ns && keys > 0) {
            load->begin_ns = now_ns;
            load->before = keys;
        }
    } else if (now_ns >= load->begin_ns + load->job->bench->options.duration_ns && keys > load->before) {
        load->end_ns = now_ns;
        load->done = keys - load->before;
        load->is_over = true;
    }
}

static void add_key(struct lab_cache_request *request, uint32_t number)
{
    request->numbers[request->count] = number;
    bench_key(number, request->keys[request->count++]);
}

static uint32_t draw_key(struct lab_cache_load *load)
{
    return load->job->draws[load->place++ % LAB_CACHE_DRAWS];
}

bool lab_cache_load_next(struct lab_cache_load *load, struct lab_cache_request *request)
{
    if (load->turns++ % TURNS == 0)
        look_at_clock(load);
    if (load->is_over)
        return false;
    uint32_t drawn = load->missing == 0 ? draw_key(load) : (uint32_t)(load->missing - 1) | LAB_CACHE_PUT;
    load->missing = 0;
    request->count = 0;
    request->is_put = (drawn & LAB_CACHE_PUT) != 0;
    add_key(request, drawn & ~LAB_CACHE_PUT);
    if (request->is_put)
        bench_value(&load->job->values, request->numbers[0], load->generation++, request->value);
    while (!request->is_put && request->count < load->per_get)
        add_key(request, draw_key(load) & ~LAB_CACHE_PUT);
    return true;
}

int lab_cache_load_take(struct lab_cache_load *load, uint32_t number, const void *value, size_t bytes)
{
    struct bench_value_check check;
    load->gets++;
    if (value == NULL) {
        load->missing = (uint64_t)number + 1;
        return 0;
    }
    load->hits++;
    if (bytes != LAB_CACHE_VALUE_BYTES)
        return -EBADMSG;
    bench_value_check_begin(&check, number, load->hits % BENCH_PROTOCOL_WHOLE_EACH == 0);
    return bench_value_check_bytes(&load->job->values, &check, value, bytes) ? 0 : -EBADMSG;
}

int lab_cache_hits(const struct lab_cache_job *job, const char *who, uint64_t gets, uint64_t hits,
                   struct bench_sample *sample)
{
    if (gets == 0)
        return 0;
    sample->values[LAB_CACHE_HIT_PERCENT] = 100 * (double)hits / (double)gets;
    if (hits >= gets / 100 * HITS_MIN_PERCENT)
        return 0;
    return bench_fail(job->bench, -ENODATA, "%s: of %" PRIu64 " gets only %" PRIu64 " found something", who,
                      gets, hits);
}

int lab_cache_load_end(const struct lab_cache_load *load, struct bench_sample *sample)
{
    sample->operations = load->done;
    sample->elapsed_ns = load->end_ns - load->begin_ns;
    if (load->gets + load->puts > 0)
        sample->values[LAB_CACHE_READS] = (double)load->reads / (double)(load->gets + load->puts);
    return lab_cache_hits(load->job, "tarn", load->gets, load->hits, sample);
}
