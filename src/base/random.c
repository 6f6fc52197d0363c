/* xoshiro256++ and Zipf's distribution, the same numbers on every machine. */
#include "base/random.h"

#include <math.h>

#include "base/hash.h"

static uint64_t rotate_left(uint64_t value, unsigned bits)
{
    return (value << bits) | (value >> (64 - bits));
}

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void base_random_init(struct base_random *random, uint64_t seed)
{
    /* Never all zero, from which xoshiro could not leave: splitmix64 is a bijection of a counter. */
    for (size_t i = 0; i < base_array_count(random->state); i++)
        random->state[i] = splitmix64(&seed);
}

struct base_random base_random_fork(struct base_random *random)
{
    struct base_random child;
    base_random_init(&child, base_random_u64(random));
    return child;
}

uint64_t base_random_u64(struct base_random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate_left(s[0] + s[3], 23) + s[0];
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t base_random_below(struct base_random *random, uint64_t n)
{
    base_assert(n > 0);
    /*
     * The high word of a random word times n is nearly uniform; it is exactly so once the products whose low
     * word is below 2^64 mod n are drawn again (D. Lemire, Fast Random Integer Generation in an
     * Interval, 2019).
     */
    unsigned __int128 product = (unsigned __int128)base_random_u64(random) * n;
    if ((uint64_t)product < n) {
        uint64_t excess = (0 - n) % n;
        while ((uint64_t)product < excess)
            product = (unsigned __int128)base_random_u64(random) * n;
    }
    return (uint64_t)(product >> 64);
}

double base_random_double(struct base_random *random)
{
    return (double)(base_random_u64(random) >> 11) * 0x1p-53;
}

void base_random_fill(struct base_random *random, void *buffer, size_t bytes)
{
    uint8_t *to = buffer;
    uint8_t word[8];
    for (; bytes >= sizeof(word); bytes -= sizeof(word), to += sizeof(word))
        base_store_le64(to, base_random_u64(random));
    if (bytes > 0) {
        base_store_le64(word, base_random_u64(random));
        memcpy(to, word, bytes);
    }
}

/* Terms of zeta that are added one by one; the integral from half a step before replaces the others. */
#define ZETA_TERMS_MAX 100000

static double zeta(uint64_t items, double theta)
{
    uint64_t terms = base_min(items, (uint64_t)ZETA_TERMS_MAX);
    double sum = 0;
    for (uint64_t k = terms; k > 0; k--)
        sum += pow((double)k, -theta);
    if (terms < items) {
        double from = (double)terms + 0.5;
        double to = (double)items + 0.5;
        sum += (pow(to, 1 - theta) - pow(from, 1 - theta)) / (1 - theta);
    }
    return sum;
}

void base_random_zipf_init(struct base_random_zipf *zipf, uint64_t items, double theta)
{
    base_assert(items > 0 && theta >= 0 && theta < 1);
    zipf->items = items;
    zipf->theta = theta;
    zipf->zeta_items = zeta(items, theta);
    zipf->alpha = 1 / (1 - theta);
    double zeta_2 = zeta(2, theta);
    /* Of one or two items the rank is decided before eta is used, where it would be 0 / 0. */
    zipf->eta = items <= 2 ? 0 : (1 - pow(2 / (double)items, 1 - theta)) / (1 - zeta_2 / zipf->zeta_items);
}

uint64_t base_random_zipf_rank(const struct base_random_zipf *zipf, struct base_random *random)
{
    double u = base_random_double(random);
    double scaled = u * zipf->zeta_items;
    uint64_t rank;
    if (scaled < 1)
        rank = 0;
    else if (scaled < 1 + pow(0.5, zipf->theta))
        rank = 1;
    else
        rank = (uint64_t)((double)zipf->items * pow(zipf->eta * u - zipf->eta + 1, zipf->alpha));
    return base_min(rank, zipf->items - 1);
}

uint64_t base_random_zipf_scattered(const struct base_random_zipf *zipf, struct base_random *random)
{
    uint8_t rank[8];
    base_store_le64(rank, base_random_zipf_rank(zipf, random));
    return base_hash64(rank, sizeof(rank), 0) % zipf->items;
}
