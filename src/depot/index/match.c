/*
 * Comparing the 32 words of a neighbourhood at once. A lookup is bound by how many words the processor can
 * ask for before it has to wait, so that fewer instructions mean more lookups in flight: vectors of 4 words
 * make a lookup in a large table twice as fast as words one by one.
 */
#include "depot/index/index_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* Only where the processor has it. What is torn or stale in a vector does no harm: readers look again at what
 * matched, and at the sequence; writers hold the lock. Assembly, because C has no such loads of words that
 * others write. */
static __attribute__((target("avx2"))) uint32_t match_wide(const _Atomic uint64_t *words, uint64_t mask,
                                                           uint64_t first, uint64_t step)
{
    struct four {
        uint64_t words[4];
    };
    uint32_t matches = 0;
    const __m256i masks = _mm256_set1_epi64x((long long)mask);
    const __m256i all_step = _mm256_set1_epi64x((long long)step);
    const __m256i steps = _mm256_slli_epi64(all_step, 2);
    __m256i wanted = _mm256_add_epi64(_mm256_set1_epi64x((long long)first),
                                      _mm256_mul_epu32(all_step, _mm256_set_epi64x(3, 2, 1, 0)));
#pragma GCC unroll 8
    for (uint32_t i = 0; i < DEPOT_NEIGHBOURHOOD; i += 4) {
        __m256i four;
        const void *at = &words[i];
        __asm__ volatile("vmovdqu %1, %0" : "=x"(four) : "m"(*(const struct four *)at));
        __m256i equal = _mm256_cmpeq_epi64(_mm256_and_si256(four, masks), wanted);
        matches |= (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(equal)) << i;
        wanted = _mm256_add_epi64(wanted, steps);
    }
    return matches;
}

#endif

static uint32_t match_plainly(const _Atomic uint64_t *words, uint64_t mask, uint64_t first, uint64_t step)
{
    uint32_t matches = 0;
    for (uint32_t i = 0; i < DEPOT_NEIGHBOURHOOD; i++)
        matches |= (uint32_t)((depot_index_load_word(&words[i]) & mask) == first + i * step) << i;
    return matches;
}

#if defined(__x86_64__)
bool depot_index_has_wide_vectors(void)
{
    return __builtin_cpu_supports("avx2");
}

uint32_t depot_index_match(const struct depot_index *index, const _Atomic uint64_t *words, uint64_t mask,
                           uint64_t first, uint64_t step)
{
    return index->has_wide_vectors ? match_wide(words, mask, first, step)
                                   : match_plainly(words, mask, first, step);
}
#else
bool depot_index_has_wide_vectors(void)
{
    return false;
}

uint32_t depot_index_match(const struct depot_index *index, const _Atomic uint64_t *words, uint64_t mask,
                           uint64_t first, uint64_t step)
{
    (void)index;
    return match_plainly(words, mask, first, step);
}
#endif
