/* Memory that several change at once: copies in whole words, the owner's side, waiting for a word. */
#include "fabric/fabric_internal.h"
#include <errno.h>

/* ---- lanes -------------------------------------------------------------------------------------- */

#if defined(__SANITIZE_THREAD__)
#define WORDS_ONLY 1 /* that it sees who reads and writes what */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WORDS_ONLY 1
#endif
#endif

#define WORD_BYTES 8

/* Memory of any type is looked at through these. */
typedef uint64_t __attribute__((may_alias)) shared_word;
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
        *(own_word *)(to + i) = __atomic_load_n((const shared_word *)(shared + i), __ATOMIC_RELAXED);
}

static void store_words(uint8_t *shared, const uint8_t *from, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += WORD_BYTES)
        __atomic_store_n((shared_word *)(shared + i), *(const own_word *)(from + i), __ATOMIC_RELAXED);
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
void fabric_lanes_load(void *to, const void *shared, uint64_t bytes)
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

void fabric_lanes_store(void *shared, const void *from, uint64_t bytes)
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

/* ---- the owner's side --------------------------------------------------------------------------- */

static bool lies_within(const struct tarn_fabric_region *region, uint64_t offset, uint64_t bytes)
{
    return offset <= region->bytes && bytes <= region->bytes - offset;
}

static void check_word(const struct tarn_fabric_region *region, uint64_t offset)
{
    base_assert(base_is_aligned(offset, WORD_BYTES) && lies_within(region, offset, WORD_BYTES));
}

uint64_t tarn_fabric_mem_load64(const struct tarn_fabric_region *region, uint64_t offset)
{
    check_word(region, offset);
    if (base_unlikely(region->mem != NULL))
        return region->mem->load64(region, offset);
    return __atomic_load_n((const shared_word *)(region->memory + offset), __ATOMIC_RELAXED);
}

void tarn_fabric_mem_store64(struct tarn_fabric_region *region, uint64_t offset, uint64_t value)
{
    check_word(region, offset);
    if (base_unlikely(region->mem != NULL))
        region->mem->store64(region, offset, value);
    else
        __atomic_store_n((shared_word *)(region->memory + offset), value, __ATOMIC_RELAXED);
}

void tarn_fabric_mem_copy_out(const struct tarn_fabric_region *region, uint64_t offset, void *to,
                              uint64_t bytes)
{
    base_assert(lies_within(region, offset, bytes));
    if (base_unlikely(region->mem != NULL))
        region->mem->copy_out(region, offset, to, bytes);
    else
        fabric_lanes_load(to, region->memory + offset, bytes);
}

void tarn_fabric_mem_copy_in(struct tarn_fabric_region *region, uint64_t offset, const void *from,
                             uint64_t bytes)
{
    base_assert(lies_within(region, offset, bytes));
    if (base_unlikely(region->mem != NULL))
        region->mem->copy_in(region, offset, from, bytes);
    else
        fabric_lanes_store(region->memory + offset, from, bytes);
}

/* ---- waiting for a word ------------------------------------------------------------------------- */

#define LOOKS_WITHOUT_PAUSE 1000 /* each a turn for other tasks or threads */
#define PAUSE_NS_MIN        UINT64_C(10000)
#define PAUSE_NS_MAX        UINT64_C(1000000)

/* @return the first word that has changed; `count`: none has */
static uint32_t changed(const struct tarn_fabric_word *words, uint32_t count)
{
    uint32_t i = 0;
    while (i < count && tarn_fabric_mem_load64(words[i].region, words[i].offset) == words[i].old)
        i++;
    return i;
}

/* The next look's pause. @return 0; -ETIMEDOUT; -ECANCELED */
static int pause_before_look(uint32_t look, uint64_t *inout_pause_ns, uint64_t deadline_ns)
{
    if (task_cancelled())
        return -ECANCELED;
    if (look < LOOKS_WITHOUT_PAUSE) {
        task_yield();
        return deadline_ns != TASK_FOREVER && task_now() >= deadline_ns ? -ETIMEDOUT : 0;
    }
    uint64_t now_ns = task_now();
    if (now_ns >= deadline_ns)
        return -ETIMEDOUT;
    uint64_t pause_ns = *inout_pause_ns;
    *inout_pause_ns = base_min(2 * pause_ns, PAUSE_NS_MAX);
    return task_sleep_until(now_ns + base_min(pause_ns, deadline_ns - now_ns));
}

int tarn_fabric_wait_any(const struct tarn_fabric_word *words, uint32_t count, uint64_t deadline_ns,
                         uint32_t *ret_index)
{
    if (count == 0)
        return -EINVAL;
    struct tarn_fabric *fabric = words[0].region->domain->fabric;
    if (fabric->provider->wait_any != NULL)
        return fabric->provider->wait_any(fabric->state, words, count, deadline_ns, ret_index);
    uint64_t pause_ns = PAUSE_NS_MIN;
    for (uint32_t look = 0;; look++) {
        uint32_t index = changed(words, count);
        if (index < count) {
            tarn_fabric_mem_fence(); /* what was written before the word is seen after it */
            *ret_index = index;
            return 0;
        }
        int error = pause_before_look(look, &pause_ns, deadline_ns);
        if (error != 0)
            return error;
    }
}
