/*
 * base64: RFC 4648's alphabet with padding.
 */
#ifndef MEMCACHE_BASE64_H
#define MEMCACHE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/** The number of characters that some bytes become. */
static inline size_t memcache_base64_len(size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}

/**
 * Encode.
 *
 * @param to  room for memcache_base64_len(bytes); no zero byte is added
 * @return characters written
 */
size_t memcache_base64_encode(const void *from, size_t bytes, char *to);

/**
 * Decode.
 *
 * @param to  room for len / 4 * 3; may be `text` itself
 * @return bytes written; 0: the text is empty, or not base64
 */
size_t memcache_base64_decode(const char *text, size_t len, void *to);

#endif
