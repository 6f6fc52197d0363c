/* Checksums of stored and sent bytes, by ISA-L. Both compose: f(f(0, a), b) == f(0, ab). */
#ifndef BASE_CHECKSUM_H
#define BASE_CHECKSUM_H

#include "base/define.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * CRC-64/XZ (ECMA-182 polynomial, reflected, inverted in and out). Of "123456789" it is 0x995dc9bbdf1939fa.
 *
 * @param crc        0 to begin, or the checksum of the bytes before these
 * @param data, len  may be NULL if len is 0
 *
 * Any thread.
 */
uint64_t base_crc64(uint64_t crc, const void *data, size_t len);

/*
 * CRC-32C word by word, for what lies in registers: from BASE_CRC32C_BEGIN on, each step takes the next bytes, in the order in
 * which they would be stored little-endian; ~ of the last one is the checksum. Only where the processor has the instruction.
 */
#define BASE_CRC32C_BEGIN UINT32_MAX

#if defined(__x86_64__)

/** Whether there are steps. Any thread. */
static inline bool base_crc32c_has_steps(void)
{
    return __builtin_cpu_supports("sse4.2") != 0;
}

/** Take eight bytes. */
static inline uint32_t base_crc32c_step64(uint32_t before, uint64_t word)
{
    uint64_t crc = before;
    __asm__("crc32q %1, %0" : "+r"(crc) : "rm"(word));
    return (uint32_t)crc;
}

/** Take four bytes. */
static inline uint32_t base_crc32c_step32(uint32_t before, uint32_t word)
{
    __asm__("crc32l %1, %0" : "+r"(before) : "rm"(word));
    return before;
}

/** Take one byte. */
static inline uint32_t base_crc32c_step8(uint32_t before, uint8_t byte)
{
    __asm__("crc32b %1, %0" : "+r"(before) : "qm"(byte));
    return before;
}

#else

/** Whether there are steps: there are none here. */
static inline bool base_crc32c_has_steps(void)
{
    return false;
}

/** Never called. */
static inline uint32_t base_crc32c_step64(uint32_t before, uint64_t word)
{
    (void)word;
    return before;
}

/** Never called. */
static inline uint32_t base_crc32c_step32(uint32_t before, uint32_t word)
{
    (void)word;
    return before;
}

/** Never called. */
static inline uint32_t base_crc32c_step8(uint32_t before, uint8_t byte)
{
    (void)byte;
    return before;
}

#endif

/* What is up to so long, the instruction is faster for than ISA-L. */
#define BASE_CRC32C_SHORT_BYTES 256

/** base_crc32c() of what is long, or where there are no steps. */
uint32_t base_crc32c_long(uint32_t crc, const void *data, size_t len);

/**
 * CRC-32C (Castagnoli, reflected, inverted in and out). Of "123456789" it is 0xe3069283.
 *
 * @param crc        0 to begin, or the checksum of the bytes before these
 * @param data, len  may be NULL if len is 0
 *
 * Any thread.
 */
static inline uint32_t base_crc32c(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    size_t i = 0;
    if (len > BASE_CRC32C_SHORT_BYTES || !base_crc32c_has_steps())
        return base_crc32c_long(crc, data, len);
    crc = ~crc;
    for (; i + 8 <= len; i += 8)
        crc = base_crc32c_step64(crc, base_load_le64(bytes + i));
    for (; i + 4 <= len; i += 4)
        crc = base_crc32c_step32(crc, base_load_le32(bytes + i));
    for (; i < len; i++)
        crc = base_crc32c_step8(crc, bytes[i]);
    return ~crc;
}

#endif
