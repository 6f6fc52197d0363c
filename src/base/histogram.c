/* A log-linear histogram: buckets, percentiles, and merging while its one writer adds. */
#include "base/histogram.h"

#include "base/json.h"

#define SUB_BUCKETS (UINT64_C(1) << BASE_HISTOGRAM_PRECISION_BITS)
#define RANGE_END   (UINT64_C(1) << BASE_HISTOGRAM_RANGE_BITS)

/*
 * A value of n bits, n > 7, keeps its top 7: the bucket is (n - 7) * 64 plus those 7 bits, which begin with a
 * one. For n <= 7 the bucket is the value, and the two meet at 128 without a gap.
 */
static size_t bucket_of(uint64_t value)
{
    if (value >= RANGE_END)
        return BASE_HISTOGRAM_BUCKETS - 1;
    if (value < 2 * SUB_BUCKETS)
        return value;
    unsigned shift = 63 - BASE_HISTOGRAM_PRECISION_BITS - (unsigned)__builtin_clzll(value);
    return (size_t)shift * SUB_BUCKETS + (value >> shift);
}

static uint64_t middle_of(size_t bucket)
{
    if (bucket < 2 * SUB_BUCKETS)
        return bucket;
    unsigned shift = (unsigned)(bucket / SUB_BUCKETS) - 1;
    uint64_t first = (SUB_BUCKETS + bucket % SUB_BUCKETS) << shift;
    return first + (UINT64_C(1) << shift) / 2;
}

/*
 * There is one writer: what it stores is atomic for those who merge meanwhile. A bucket is stored last, with
 * release, and loaded first, with acquire: a reader that sees a value in it sees `min`, `max` and the sums with that
 * value.
 */
static void store(uint64_t *field, uint64_t value)
{
    __atomic_store_n(field, value, __ATOMIC_RELAXED);
}

static uint64_t load(const uint64_t *field)
{
    return __atomic_load_n(field, __ATOMIC_RELAXED);
}

static void add_to_sum(struct base_histogram *histogram, uint64_t low, uint64_t high)
{
    uint64_t sum_low = histogram->sum_low + low;
    store(&histogram->sum_low, sum_low);
    store(&histogram->sum_high, histogram->sum_high + high + (sum_low < low));
}

void base_histogram_reset(struct base_histogram *histogram)
{
    store(&histogram->count, 0);
    store(&histogram->min, UINT64_MAX);
    store(&histogram->max, 0);
    store(&histogram->sum_low, 0);
    store(&histogram->sum_high, 0);
    for (size_t i = 0; i < BASE_HISTOGRAM_BUCKETS; i++)
        __atomic_store_n(&histogram->buckets[i], UINT64_C(0), __ATOMIC_RELEASE); /* base_stages_read() */
}

void base_histogram_add(struct base_histogram *histogram, uint64_t value)
{
    base_histogram_add_count(histogram, value, 1);
}

void base_histogram_add_count(struct base_histogram *histogram, uint64_t value, uint64_t count)
{
    if (count == 0)
        return;
    uint64_t *bucket = &histogram->buckets[bucket_of(value)];
    unsigned __int128 sum = (unsigned __int128)value * count;
    add_to_sum(histogram, (uint64_t)sum, (uint64_t)(sum >> 64));
    store(&histogram->count, histogram->count + count);
    store(&histogram->min, base_min(histogram->min, value));
    store(&histogram->max, base_max(histogram->max, value));
    __atomic_store_n(bucket, *bucket + count, __ATOMIC_RELEASE);
}

void base_histogram_merge(struct base_histogram *into, const struct base_histogram *from)
{
    for (size_t i = 0; i < BASE_HISTOGRAM_BUCKETS; i++) {
        uint64_t count = __atomic_load_n(&from->buckets[i], __ATOMIC_ACQUIRE);
        into->buckets[i] += count;
        into->count += count;
    }
    into->min = base_min(into->min, load(&from->min));
    into->max = base_max(into->max, load(&from->max));
    add_to_sum(into, load(&from->sum_low), load(&from->sum_high));
}

uint64_t base_histogram_count(const struct base_histogram *histogram)
{
    return histogram->count;
}

uint64_t base_histogram_min(const struct base_histogram *histogram)
{
    return histogram->count == 0 ? 0 : histogram->min;
}

uint64_t base_histogram_max(const struct base_histogram *histogram)
{
    return histogram->max;
}

double base_histogram_mean(const struct base_histogram *histogram)
{
    if (histogram->count == 0)
        return 0;
    return ((double)histogram->sum_high * 0x1p64 + (double)histogram->sum_low) / (double)histogram->count;
}

/* Position, from 1, of the value that `percent` of `count` values do not exceed. */
static uint64_t rank_of(double percent, uint64_t count)
{
    /* The product of a decimal fraction may come out a hair above the whole number that is meant. */
    double exact = percent / 100 * (double)count * (1 - 1e-12);
    uint64_t rank = exact >= (double)count ? count : (uint64_t)exact;
    if ((double)rank < exact)
        rank++;
    return base_min(base_max(rank, UINT64_C(1)), count);
}

uint64_t base_histogram_percentile(const struct base_histogram *histogram, double percent)
{
    base_assert(percent >= 0 && percent <= 100);
    if (histogram->count == 0)
        return 0;
    uint64_t rank = rank_of(percent, histogram->count);
    if (rank == 1)
        return histogram->min;
    if (rank == histogram->count)
        return histogram->max;
    uint64_t seen = 0;
    size_t bucket = 0;
    while ((seen += histogram->buckets[bucket]) < rank)
        bucket++;
    return base_min(base_max(middle_of(bucket), histogram->min), histogram->max);
}

void base_histogram_write_json(const struct base_histogram *histogram, struct base_json *json,
                               const char *key)
{
    static const struct {
        const char *name;
        double percent;
    } percentiles[] = {{"p50", 50},     {"p90", 90},       {"p99", 99},
                       {"p99.9", 99.9}, {"p99.99", 99.99}, {"p99.999", 99.999}};
    base_json_object_begin(json, key);
    base_json_u64(json, "count", histogram->count);
    base_json_u64(json, "min", base_histogram_min(histogram));
    base_json_double(json, "mean", base_histogram_mean(histogram));
    for (size_t i = 0; i < base_array_count(percentiles); i++)
        base_json_u64(json, percentiles[i].name,
                      base_histogram_percentile(histogram, percentiles[i].percent));
    base_json_u64(json, "max", base_histogram_max(histogram));
    base_json_object_end(json);
}

int base_histogram_print_json(const struct base_histogram *histogram, char *buffer, size_t room)
{
    struct base_json json;
    base_json_init_buffer(&json, buffer, room);
    base_histogram_write_json(histogram, &json, NULL);
    size_t bytes;
    int error = base_json_finish(&json, &bytes);
    return error != 0 ? error : (int)bytes;
}
