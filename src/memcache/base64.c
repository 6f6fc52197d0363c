/* Base64 of RFC 4648, for keys of meta commands; decoding may be done in place. */
#include "memcache/base64.h"
#include <stdint.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t memcache_base64_encode(const void *from, size_t bytes, char *to)
{
    const uint8_t *byte = from;
    char *begin = to;
    for (size_t at = 0; at < bytes; at += 3) {
        size_t count = bytes - at < 3 ? bytes - at : 3;
        uint32_t group = (uint32_t)byte[at] << 16;
        group |= count > 1 ? (uint32_t)byte[at + 1] << 8 : 0;
        group |= count > 2 ? byte[at + 2] : 0;
        *to++ = alphabet[group >> 18];
        *to++ = alphabet[group >> 12 & 63];
        *to++ = count > 1 ? alphabet[group >> 6 & 63] : '=';
        *to++ = count > 2 ? alphabet[group & 63] : '=';
    }
    return (size_t)(to - begin);
}

/* @return the six bits of a character, or 64 */
static uint32_t digit_of(char character)
{
    const char *place = character == '\0' ? NULL : strchr(alphabet, character);
    return place == NULL ? 64 : (uint32_t)(place - alphabet);
}

/* Decode. Bits that padding leaves over must be zero, so that each key has exactly one text. */
size_t memcache_base64_decode(const char *text, size_t len, void *to)
{
    uint8_t *byte = to, *begin = to;
    for (size_t at = 0; at < len; at += 4) {
        if (len - at < 4)
            return 0;
        bool last = len - at == 4;
        size_t padding = last && text[at + 3] == '=' ? (text[at + 2] == '=' ? 2 : 1) : 0;
        uint32_t group = 0;
        for (size_t i = 0; i < 4; i++) {
            uint32_t six = i >= 4 - padding ? 0 : digit_of(text[at + i]);
            if (six == 64)
                return 0;
            group = group << 6 | six;
        }
        if ((group & ((UINT32_C(1) << 8 * padding) - 1)) != 0)
            return 0;
        for (size_t i = 0; i < 3 - padding; i++)
            *byte++ = (uint8_t)(group >> (16 - 8 * i));
    }
    return (size_t)(byte - begin);
}
