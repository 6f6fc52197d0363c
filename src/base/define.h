/*
 * The small things that every file uses: attributes, checked macros, alignment, byte order, assert.
 * Other layers get them through base/base.h.
 */
#ifndef BASE_DEFINE_H
#define BASE_DEFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(sizeof(size_t) == 8, "Tarn is for machines with 64-bit addresses");

#define base_must_check                       __attribute__((warn_unused_result))
#define base_unused                           __attribute__((unused))
#define base_noreturn                         __attribute__((noreturn))
#define base_printf_like(format_index, first) __attribute__((format(printf, format_index, first)))

#define base_likely(condition)   __builtin_expect(!!(condition), 1)
#define base_unlikely(condition) __builtin_expect(!!(condition), 0)

/** What false sharing must be kept apart by. */
#define BASE_CACHE_LINE_BYTES 64

/** Unit of direct I/O, of registered memory and of mappings. */
#define BASE_PAGE_BYTES 4096

/** A clock: nanoseconds, monotonic or civil as the receiver says. Any thread, never waits. */
typedef uint64_t base_clock_function(void *arg);

/** The structure whose `member` lies at `pointer`; a pointer to anything else does not compile. */
#define base_container_of(pointer, type, member)                                                             \
    (__extension__({                                                                                         \
        _Static_assert(                                                                                      \
            __builtin_types_compatible_p(__typeof__(*(pointer)), __typeof__(((type *)0)->member)),           \
            "pointer is not to that member");                                                                \
        (type *)((uintptr_t)(pointer)-offsetof(type, member));                                               \
    }))

/** Elements of an array; a pointer does not compile. */
#define base_array_count(array)                                                                              \
    (sizeof(array) / sizeof((array)[0]) +                                                                    \
     0 * sizeof(char[1 - 2 * __builtin_types_compatible_p(__typeof__(array), __typeof__(&(array)[0]))]))

#define BASE_DEFINE_MIN_MAX(suffix, type)                                                                    \
    static inline type base_min_##suffix(type a, type b)                                                     \
    {                                                                                                        \
        return a < b ? a : b;                                                                                \
    }                                                                                                        \
    static inline type base_max_##suffix(type a, type b)                                                     \
    {                                                                                                        \
        return a > b ? a : b;                                                                                \
    }
BASE_DEFINE_MIN_MAX(int, int)
BASE_DEFINE_MIN_MAX(unsigned, unsigned)
BASE_DEFINE_MIN_MAX(long, long)
BASE_DEFINE_MIN_MAX(unsigned_long, unsigned long)
BASE_DEFINE_MIN_MAX(long_long, long long)
BASE_DEFINE_MIN_MAX(unsigned_long_long, unsigned long long)
BASE_DEFINE_MIN_MAX(double, double)
#undef BASE_DEFINE_MIN_MAX

/* The functions take their common type, so that a mix of signs is a conversion the compiler refuses. */
#define BASE_PICK_BY_TYPE(name, a, b)                                                                        \
    _Generic((a) + (b), int                                                                                  \
             : base_##name##_int, unsigned                                                                   \
             : base_##name##_unsigned, long                                                                  \
             : base_##name##_long, unsigned long                                                             \
             : base_##name##_unsigned_long, long long                                                        \
             : base_##name##_long_long, unsigned long long                                                   \
             : base_##name##_unsigned_long_long, double                                                      \
             : base_##name##_double)

/** The smaller of two numbers in their common type; each argument is evaluated once. */
#define base_min(a, b) BASE_PICK_BY_TYPE(min, a, b)((a), (b))

/** The larger of two numbers in their common type; each argument is evaluated once. */
#define base_max(a, b) BASE_PICK_BY_TYPE(max, a, b)((a), (b))

/**
 * Print the failed expression to standard error and abort. Called by base_assert only.
 */
void base_assert_failed(const char *expression, const char *file, int line) base_noreturn;

/** State what only a bug can break. Stays on in release builds; never for input from outside. */
#define base_assert(condition)                                                                               \
    (base_likely(condition) ? (void)0 : base_assert_failed(#condition, __FILE__, __LINE__))

/** The value of a macro as a string literal. */
#define base_text_of(macro)    base_text_of_it(macro)
#define base_text_of_it(value) #value

/**
 * Whether a number has exactly one bit set.
 */
static inline bool base_is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/**
 * The largest multiple of a power of two that is not above the value.
 */
static inline uint64_t base_align_down(uint64_t value, uint64_t alignment)
{
    return value & ~(alignment - 1);
}

/**
 * The smallest multiple of a power of two that is not below the value; the value must be at most
 * UINT64_MAX - alignment + 1, else the result wraps to 0.
 */
static inline uint64_t base_align_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

/**
 * The smallest power of two that is not below the value, which is at most 2^63.
 */
static inline uint64_t base_power_of_two_from(uint64_t value)
{
    return value <= 1 ? 1 : UINT64_C(1) << (64 - __builtin_clzll(value - 1));
}

/**
 * Whether a value is a multiple of a power of two.
 */
static inline bool base_is_aligned(uint64_t value, uint64_t alignment)
{
    return (value & (alignment - 1)) == 0;
}

/** Whether all of some bytes are zero. */
bool base_is_zero(const void *bytes, size_t len);

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define BASE_LITTLE_ENDIAN(bits, value) (value)
#else
#define BASE_LITTLE_ENDIAN(bits, value) __builtin_bswap##bits(value)
#endif

/**
 * Load a little-endian number from any address.
 */
static inline uint16_t base_load_le16(const void *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof(value));
    return BASE_LITTLE_ENDIAN(16, value);
}

/**
 * Load a little-endian number from any address.
 */
static inline uint32_t base_load_le32(const void *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof(value));
    return BASE_LITTLE_ENDIAN(32, value);
}

/**
 * Load a little-endian number from any address.
 */
static inline uint64_t base_load_le64(const void *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof(value));
    return BASE_LITTLE_ENDIAN(64, value);
}

/**
 * Store a number as little-endian at any address.
 */
static inline void base_store_le16(void *to, uint16_t value)
{
    value = BASE_LITTLE_ENDIAN(16, value);
    memcpy(to, &value, sizeof(value));
}

/**
 * Store a number as little-endian at any address.
 */
static inline void base_store_le32(void *to, uint32_t value)
{
    value = BASE_LITTLE_ENDIAN(32, value);
    memcpy(to, &value, sizeof(value));
}

/**
 * Store a number as little-endian at any address.
 */
static inline void base_store_le64(void *to, uint64_t value)
{
    value = BASE_LITTLE_ENDIAN(64, value);
    memcpy(to, &value, sizeof(value));
}

#endif
