/* Copies whose aligned words are each moved whole. */
#include "fabric/lanes.h"

#if defined(__SANITIZE_THREAD__)
#define WORDS_ONLY 1 /* that it sees who reads and writes what */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WORDS_ONLY 1
#endif
#endif

#define WORD_BYTES FABRIC_WORD_BYTES

typedef uint64_t __attribute__((may_alias, aligned(1))) own_word;

/* Bytes until an address is aligned, at most `bytes`. */
static uint64_t until_aligned(const void *address, uint64_t alignment, uint64_t bytes)
{
    return base_min((uint64_t)(-(uintptr_t)address & (alignment - 1)), bytes);
}

static void load_bytes(uint8_t *to, const uint8_t *shared, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = __atomic_load_n(&shared[i], __ATOMIC_RELAXED);
}

static void store_bytes(uint8_t *shared, const uint8_t *from, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        __atomic_store_n(&shared[i], from[i], __ATOMIC_RELAXED);
}

static void load_words(uint8_t *to, const uint8_t *shared, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += WORD_BYTES)
        *(own_word *)(to + i) = __atomic_load_n((const fabric_word *)(shared + i), __ATOMIC_RELAXED);
}

static void store_words(uint8_t *shared, const uint8_t *from, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += WORD_BYTES)
        __atomic_store_n((fabric_word *)(shared + i), *(const own_word *)(from + i), __ATOMIC_RELAXED);
}

#ifdef WORDS_ONLY

static uint64_t load_vectors(uint8_t *to, const uint8_t *shared, uint64_t bytes)
{
    (void)to;
    (void)shared;
    (void)bytes;
    return 0;
}

static uint64_t store_vectors(uint8_t *shared, const uint8_t *from, uint64_t bytes)
{
    (void)shared;
    (void)from;
    (void)bytes;
    return 0;
}

#else

/*
 * A vector is two words. x86-64 and aarch64 move each half of an aligned one whole; volatile keeps the compiler
 * from taking it apart, leaving it out or doing it twice.
 */
typedef uint64_t __attribute__((vector_size(16), may_alias)) shared_vector;
typedef uint64_t __attribute__((vector_size(16), may_alias, aligned(1))) own_vector;

#define VECTOR_BYTES 16
#define BLOCK_BYTES  64 /* in one go */

/* @return how many bytes were copied: whole blocks, none before `shared` is aligned */
static uint64_t load_vectors(uint8_t *to, const uint8_t *shared, uint64_t bytes)
{
    uint64_t done = 0;
    for (; bytes - done >= BLOCK_BYTES; done += BLOCK_BYTES) {
        const volatile shared_vector *in = (const volatile shared_vector *)(shared + done);
        own_vector *out = (own_vector *)(to + done);
        shared_vector a = in[0], b = in[1], c = in[2], d = in[3];
        out[0] = a, out[1] = b, out[2] = c, out[3] = d;
    }
    return done;
}

static uint64_t store_vectors(uint8_t *shared, const uint8_t *from, uint64_t bytes)
{
    uint64_t done = 0;
    for (; bytes - done >= BLOCK_BYTES; done += BLOCK_BYTES) {
        const own_vector *in = (const own_vector *)(from + done);
        volatile shared_vector *out = (volatile shared_vector *)(shared + done);
        shared_vector a = in[0], b = in[1], c = in[2], d = in[3];
        out[0] = a, out[1] = b, out[2] = c, out[3] = d;
    }
    return done;
}

#endif

#ifndef VECTOR_BYTES
#define VECTOR_BYTES WORD_BYTES
#endif

/*
 * bytes up to a word, words up to a vector, vectors, words, bytes:   b b│w│v v v v│w│b
 */
void fabric_lanes_load_many(void *to, const void *shared, uint64_t bytes)
{
    uint8_t *out = to;
    const uint8_t *in = shared;
    uint64_t part = until_aligned(in, WORD_BYTES, bytes);
    load_bytes(out, in, part);
    out += part, in += part, bytes -= part;
    part = base_align_down(until_aligned(in, VECTOR_BYTES, bytes), WORD_BYTES);
    load_words(out, in, part);
    out += part, in += part, bytes -= part;
    part = load_vectors(out, in, bytes);
    out += part, in += part, bytes -= part;
    part = base_align_down(bytes, WORD_BYTES);
    load_words(out, in, part);
    load_bytes(out + part, in + part, bytes - part);
}

void fabric_lanes_store_many(void *shared, const void *from, uint64_t bytes)
{
    uint8_t *out = shared;
    const uint8_t *in = from;
    uint64_t part = until_aligned(out, WORD_BYTES, bytes);
    store_bytes(out, in, part);
    out += part, in += part, bytes -= part;
    part = base_align_down(until_aligned(out, VECTOR_BYTES, bytes), WORD_BYTES);
    store_words(out, in, part);
    out += part, in += part, bytes -= part;
    part = store_vectors(out, in, bytes);
    out += part, in += part, bytes -= part;
    part = base_align_down(bytes, WORD_BYTES);
    store_words(out, in, part);
    store_bytes(out + part, in + part, bytes - part);
}
