/*
 * Numbers, sizes and times as text. Reading is strict: the whole text must be the number, in decimal digits,
 * without sign, space or fraction. Any thread.
 */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include "base/define.h"

/** Room that every base_format_ function below needs at most, with the terminating zero. */
#define BASE_UNITS_ROOM 32

#define BASE_NS_PER_US     UINT64_C(1000)
#define BASE_NS_PER_MS     UINT64_C(1000000)
#define BASE_NS_PER_SECOND UINT64_C(1000000000)

/**
 * Read a decimal number that ends with the text.
 *
 * @return 0; -EINVAL (not a number); -ERANGE (above 2^64 - 1)
 */
int base_parse_u64(const char *text, uint64_t *ret_value) base_must_check;

/**
 * Read a decimal number that fills exactly `len` bytes.
 *
 * @param text, len  need not end with a zero byte
 * @return 0; -EINVAL (not a number); -ERANGE (above 2^64 - 1)
 */
int base_parse_u64_len(const char *text, size_t len, uint64_t *ret_value) base_must_check;

/**
 * Read a size: a number and, without a space, nothing or B (bytes), K M G T P or KiB MiB GiB TiB PiB (powers
 * of 1,024), or KB MB GB TB PB (powers of 1,000). Case does not matter.
 *
 * @return 0; -EINVAL (not a size); -ERANGE (2^64 bytes or more)
 */
int base_parse_size(const char *text, uint64_t *ret_bytes) base_must_check;

/**
 * Read a duration: a number and, without a space, ns us ms s m h or d. Only 0 may stand without a unit.
 *
 * @return 0; -EINVAL (not a duration); -ERANGE (2^64 ns or more)
 */
int base_parse_duration(const char *text, uint64_t *ret_ns) base_must_check;

/**
 * Write a size for people, rounded to three or four digits: "17 B", "1.50 GiB".
 *
 * @param buffer, room  BASE_UNITS_ROOM suffices; cut off, and always terminated, if less
 * @return buffer
 */
const char *base_format_size(char *buffer, size_t room, uint64_t bytes);

/**
 * Write a size so that base_parse_size reads it back: in the largest of B K M G T P that divides it
 * ("1536M").
 *
 * @param buffer, room  BASE_UNITS_ROOM suffices; cut off, and always terminated, if less
 * @return buffer
 */
const char *base_format_size_exact(char *buffer, size_t room, uint64_t bytes);

/**
 * Write a duration for people, rounded to three digits or as hours and minutes: "1.50 ms", "2h05m".
 *
 * @param buffer, room  BASE_UNITS_ROOM suffices; cut off, and always terminated, if less
 * @return buffer
 */
const char *base_format_duration(char *buffer, size_t room, uint64_t ns);

/**
 * Write a duration so that base_parse_duration reads it back: in the largest unit that divides it ("1500us").
 *
 * @param buffer, room  BASE_UNITS_ROOM suffices; cut off, and always terminated, if less
 * @return buffer
 */
const char *base_format_duration_exact(char *buffer, size_t room, uint64_t ns);

#endif
