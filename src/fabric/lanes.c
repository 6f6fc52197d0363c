/* Copies whose aligned words are each moved whole. */
#include "fabric/lanes.h"

#if defined(__SANITIZE_THREAD__)
#define WORDS_ONLY 1 /* the sanitizer sees single words, not vectors */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WORDS_ONLY 1
#endif
#endif

#define WORD_BYTES FABRIC_WORD_BYTES

typedef uint64_t __attribute__((may_alias, aligned(1))) own_word;

/* Bytes until an address is aligned, at most `bytes`. */
static uint64_t until_aligned(uintptr_t address, uint64_t alignment, uint64_t bytes)
{
    return base_min((uint64_t)(-address & (alignment - 1)), bytes);
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
    while (bytes > 0) {
        bytes -= WORD_BYTES;
        __atomic_store_n((fabric_word *)(shared + bytes), *(const own_word *)(from + bytes),
                         __ATOMIC_RELAXED);
    }
}

#ifdef WORDS_ONLY

#define VECTOR_BYTES WORD_BYTES
#define BLOCK_BYTES  0 /* there are no vectors */

static void load_vectors(uint8_t *to, const uint8_t *shared, uint64_t bytes)
{
    (void)to;
    (void)shared;
    (void)bytes;
}

static void store_vectors(uint8_t *shared, const uint8_t *from, uint64_t bytes)
{
    (void)shared;
    (void)from;
    (void)bytes;
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

/* Load whole blocks, which are aligned in `shared`. */
static void load_vectors(uint8_t *to, const uint8_t *shared, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes; done += BLOCK_BYTES) {
        const volatile shared_vector *in = (const volatile shared_vector *)(shared + done);
        own_vector *out = (own_vector *)(to + done);
        shared_vector a = in[0], b = in[1], c = in[2], d = in[3];
        out[0] = a, out[1] = b, out[2] = c, out[3] = d;
    }
}

static void store_vectors(uint8_t *shared, const uint8_t *from, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes; done += BLOCK_BYTES) {
        const own_vector *in = (const own_vector *)(from + done);
        volatile shared_vector *out = (volatile shared_vector *)(shared + done);
        shared_vector a = in[0], b = in[1], c = in[2], d = in[3];
        out[0] = a, out[1] = b, out[2] = c, out[3] = d;
    }
}

#endif

/* Bytes of each part:   b b│w│v v v v│w│b   up to a word, up to a vector, vectors, words, the rest. */
struct parts {
    uint64_t first_bytes, first_words, vectors, last_words, last_bytes;
};

static inline struct parts split_parts(const void *shared, uint64_t bytes)
{
    const uintptr_t address = (uintptr_t)shared;
    struct parts parts = {.first_bytes = until_aligned(address, WORD_BYTES, bytes)};
    bytes -= parts.first_bytes;
    parts.first_words =
        base_align_down(until_aligned(address + parts.first_bytes, VECTOR_BYTES, bytes), WORD_BYTES);
    bytes -= parts.first_words;
    parts.vectors = BLOCK_BYTES == 0 ? 0 : base_align_down(bytes, BLOCK_BYTES);
    bytes -= parts.vectors;
    parts.last_words = base_align_down(bytes, WORD_BYTES);
    parts.last_bytes = bytes - parts.last_words;
    return parts;
}

void fabric_lanes_load_many(void *to, const void *shared, uint64_t bytes)
{
    const struct parts parts = split_parts(shared, bytes);
    const uint8_t *in = shared;
    uint8_t *out = to;
    load_bytes(out, in, parts.first_bytes);
    out += parts.first_bytes, in += parts.first_bytes;
    load_words(out, in, parts.first_words);
    out += parts.first_words, in += parts.first_words;
    load_vectors(out, in, parts.vectors);
    out += parts.vectors, in += parts.vectors;
    load_words(out, in, parts.last_words);
    load_bytes(out + parts.last_words, in + parts.last_words, parts.last_bytes);
}

void fabric_lanes_store_many(void *shared, const void *from, uint64_t bytes)
{
    const struct parts parts = split_parts(shared, bytes);
    uint8_t *out = (uint8_t *)shared + bytes - parts.last_bytes;
    const uint8_t *in = (const uint8_t *)from + bytes - parts.last_bytes;
    store_bytes(out, in, parts.last_bytes);
    out -= parts.last_words, in -= parts.last_words;
    store_words(out, in, parts.last_words);
    out -= parts.vectors, in -= parts.vectors;
    store_vectors(out, in, parts.vectors);
    out -= parts.first_words, in -= parts.first_words;
    store_words(out, in, parts.first_words);
    store_bytes(shared, from, parts.first_bytes);
}
