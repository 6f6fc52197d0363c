/* Checksums of stored and sent bytes, by ISA-L. Both compose: f(f(0, a), b) == f(0, ab). */
#ifndef BASE_CHECKSUM_H
#define BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/**
 * CRC-32C (Castagnoli, reflected, inverted in and out). Of "123456789" it is 0xe3069283.
 *
 * @param crc        0 to begin, or the checksum of the bytes before these
 * @param data, len  may be NULL if len is 0
 *
 * Any thread.
 */
uint32_t base_crc32c(uint32_t crc, const void *data, size_t len);

/**
 * CRC-64/XZ (ECMA-182 polynomial, reflected, inverted in and out). Of "123456789" it is 0x995dc9bbdf1939fa.
 *
 * @param crc        0 to begin, or the checksum of the bytes before these
 * @param data, len  may be NULL if len is 0
 *
 * Any thread.
 */
uint64_t base_crc64(uint64_t crc, const void *data, size_t len);

#endif
