/* Choosing whether to read or to ask. */
#include "tree/selector.h"
#include <math.h>

#define EXPLORED_TOGETHER                                                                                    \
    4u /* one call alone finds a server asleep, and tells nothing of one that is called often */

const struct tree_selector_settings tree_selector_usual = {.samples = 100,
                                                           .outliers = 3,
                                                           .exploration = 0.01,
                                                           .stale_ns = 3 * BASE_NS_PER_SECOND,
                                                           .reads_per_search = 5};

void tree_selector_init(struct tree_selector *selector, const struct tree_selector_settings *settings)
{
    *selector = (struct tree_selector){.settings = settings == NULL ? tree_selector_usual : *settings};
    selector->reads_per_search = selector->settings.reads_per_search;
}

/* ---- times ---------------------------------------------------------------------------------------- */

static void forget(struct tree_average *average)
{
    *average = (struct tree_average){.count = 0};
}

static double mean(const struct tree_average *average)
{
    return average->sum / average->count;
}

static bool is_outlier(const struct tree_average *average, double ns, double outliers)
{
    const double mu = mean(average);
    const double variance = average->squares / average->count - mu * mu;
    return fabs(ns - mu) >= outliers * sqrt(fmax(variance, 0));
}

/* Take a sample; where more are outliers than not, all that is known is wrong. */
static void take_sample(const struct tree_selector *selector, struct tree_average *average, double ns)
{
    const uint32_t samples = selector->settings.samples;
    if (average->count == samples && is_outlier(average, ns, selector->settings.outliers)) {
        if (++average->discarded <= samples / 2)
            return;
        forget(average);
    }
    if (++average->taken == samples)
        average->taken = average->discarded = 0;
    if (average->count == samples) {
        const double old = average->ns[average->next];
        average->sum -= old;
        average->squares -= old * old;
    } else {
        average->count++;
    }
    average->ns[average->next] = ns;
    average->sum += ns;
    average->squares += ns * ns;
    average->next = (average->next + 1) % samples;
}

void tree_selector_called(struct tree_selector *selector, uint64_t ns)
{
    if (selector->call_wakes && selector->call.count > 0) {
        selector->call_wakes = false;
        return;
    }
    take_sample(selector, &selector->call, (double)ns);
}

void tree_selector_read(struct tree_selector *selector, uint64_t ns)
{
    if (selector->settings.reads_are_work)
        return;
    if (selector->round_trip_ns == 0 || (double)ns < selector->round_trip_ns)
        selector->round_trip_ns = (double)ns;
    take_sample(selector, &selector->read, (double)ns);
}

void tree_selector_searched(struct tree_selector *selector, uint32_t reads, uint64_t ns)
{
    if (selector->settings.reads_are_work)
        take_sample(selector, &selector->read, (double)ns);
    else
        selector->reads_per_search += (reads - selector->reads_per_search) / selector->settings.samples;
}

/* ---- the choice ----------------------------------------------------------------------------------- */

static bool reading_seems_better(const struct tree_selector *selector)
{
    if (selector->call.count == 0)
        return false; /* so that both are known soon */
    if (selector->read.count == 0)
        return true;
    if (selector->settings.reads_are_work)
        return mean(&selector->call) >= mean(&selector->read);
    const double queue_of_server = mean(&selector->call) - selector->round_trip_ns;
    const double queue_of_card = mean(&selector->read) - selector->round_trip_ns;
    return queue_of_server >= selector->reads_per_search * queue_of_card;
}

bool tree_selector_reads(struct tree_selector *selector, uint64_t now_ns, uint64_t random)
{
    if (selector->last_ns != 0 && now_ns - selector->last_ns > selector->settings.stale_ns) {
        forget(&selector->call);
        forget(&selector->read);
        selector->round_trip_ns = 0;
        selector->forgotten++;
    }
    selector->last_ns = now_ns;
    bool reads = reading_seems_better(selector);
    if (selector->explores_left == 0 &&
        (double)(random >> 11) * 0x1p-53 < selector->settings.exploration / EXPLORED_TOGETHER) {
        selector->explores_left = EXPLORED_TOGETHER;
        selector->call_wakes = reads;
    }
    if (selector->explores_left > 0) {
        selector->explores_left--;
        reads = !reads;
        selector->explored++;
    }
    if (reads)
        selector->read_by_itself++;
    else
        selector->asked++;
    return reads;
}
