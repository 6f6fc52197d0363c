/* Medians with their spread, ratios of pairs, and the schedule of an open loop. */
#include "bench/statistics.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

struct bench_summary bench_summarize(const double *values, size_t count)
{
    base_assert(count >= 1 && count <= BENCH_REPEATS_MAX);
    double sorted[BENCH_REPEATS_MAX];
    memcpy(sorted, values, count * sizeof(*values));
    qsort(sorted, count, sizeof(*sorted), compare);
    double upper = sorted[count / 2];
    double lower = sorted[(count - 1) / 2];
    return (struct bench_summary){.median = (lower + upper) / 2, .min = sorted[0], .max = sorted[count - 1]};
}

struct bench_summary bench_summarize_ratios(const double *values, const double *others, size_t count)
{
    base_assert(count <= BENCH_REPEATS_MAX);
    double ratios[BENCH_REPEATS_MAX];
    size_t pairs = 0;
    for (size_t i = 0; i < count; i++) {
        if (values[i] > 0 && others[i] > 0)
            ratios[pairs++] = values[i] / others[i];
    }
    return pairs == 0 ? (struct bench_summary){0} : bench_summarize(ratios, pairs);
}

uint64_t bench_schedule_at(const struct bench_schedule *schedule, uint64_t number)
{
    unsigned __int128 after_ns = (unsigned __int128)number * BASE_NS_PER_SECOND / schedule->rate;
    return schedule->start_ns + (uint64_t)after_ns;
}

uint64_t bench_schedule_due(const struct bench_schedule *schedule, uint64_t now_ns)
{
    if (now_ns < schedule->start_ns)
        return 0;
    /* The first number whose start, rounded down, lies behind now: ceil((elapsed + 1) * rate / second). */
    unsigned __int128 scaled = ((unsigned __int128)(now_ns - schedule->start_ns) + 1) * schedule->rate;
    return (uint64_t)((scaled + BASE_NS_PER_SECOND - 1) / BASE_NS_PER_SECOND);
}
