/*
 * A log-linear histogram of latencies: values below 128 exactly, then 64 equal buckets for each doubling.
 * A value is reported as the middle of its bucket, at most 1/128 (0.8 %) away from it. Fixed memory of
 * BASE_HISTOGRAM_BYTES, no allocation. One writer at a time. Another thread that wants to read while there is
 * one takes a copy first, with base_histogram_merge().
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include "base/define.h"

struct base_json;

/** Each doubling has 2^6 buckets; the range ends at 2^42 ns, that is 73 minutes. */
#define BASE_HISTOGRAM_PRECISION_BITS 6
#define BASE_HISTOGRAM_RANGE_BITS     42
#define BASE_HISTOGRAM_BUCKETS                                                                               \
    ((BASE_HISTOGRAM_RANGE_BITS - BASE_HISTOGRAM_PRECISION_BITS + 1) << BASE_HISTOGRAM_PRECISION_BITS)

/** Size of one histogram: 18,984 bytes. */
#define BASE_HISTOGRAM_BYTES 18984

struct base_histogram {
    uint64_t count;
    uint64_t min;               /* exact; UINT64_MAX while count is 0 */
    uint64_t max;               /* exact, also beyond the range */
    uint64_t sum_low, sum_high; /* 128 bits, so that the mean is exact */
    uint64_t buckets[BASE_HISTOGRAM_BUCKETS];
};

_Static_assert(sizeof(struct base_histogram) == BASE_HISTOGRAM_BYTES, "BASE_HISTOGRAM_BYTES is stale");

/**
 * Empty a histogram; also its initialiser.
 */
void base_histogram_reset(struct base_histogram *histogram);

/**
 * Count one value. Values of 2^42 and more are counted in the last bucket.
 */
void base_histogram_add(struct base_histogram *histogram, uint64_t value);

/**
 * Count a value several times over.
 *
 * @param count  times; 0 does nothing
 */
void base_histogram_add_count(struct base_histogram *histogram, uint64_t value, uint64_t count);

/**
 * Add everything counted in `from` to `into`. Others may be counting in `from` or emptying it: what is added
 * then was there, and its count is that of its buckets; the mean may be off by what is being counted.
 */
void base_histogram_merge(struct base_histogram *into, const struct base_histogram *from);

/**
 * Number of values counted.
 */
uint64_t base_histogram_count(const struct base_histogram *histogram);

/**
 * The smallest value, exactly; 0 if there is none.
 */
uint64_t base_histogram_min(const struct base_histogram *histogram);

/**
 * The largest value, exactly; 0 if there is none.
 */
uint64_t base_histogram_max(const struct base_histogram *histogram);

/**
 * The arithmetic mean; 0 if there is no value.
 */
double base_histogram_mean(const struct base_histogram *histogram);

/**
 * The value that `percent` of all values do not exceed (nearest rank), within 0.8 %.
 *
 * @param percent  0 to 100; 0 is the minimum, 100 the maximum
 * @return the value; 0 if there is none
 */
uint64_t base_histogram_percentile(const struct base_histogram *histogram, double percent);

/**
 * Write count, min, mean, p50, p90, p99, p99.9, p99.99, p99.999 and max as one JSON object.
 *
 * @param json  where to
 * @param key   name of the object in its parent, or NULL
 */
void base_histogram_write_json(const struct base_histogram *histogram, struct base_json *json,
                               const char *key);

/**
 * The same object as text in a buffer.
 *
 * @return its length without the terminating zero; -ENOSPC
 */
int base_histogram_print_json(const struct base_histogram *histogram, char *buffer, size_t room)
    base_must_check;

#endif
