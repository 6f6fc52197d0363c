/* Between the files of this folder: sessions find requests, execute.c and stats.c answer them. */
#ifndef MEMCACHE_MEMCACHE_INTERNAL_H
#define MEMCACHE_MEMCACHE_INTERNAL_H

#include "memcache/memcache.h"

/* Longest first line of a value: VALUE, key, flags, bytes, version and spaces. */
#define MEMCACHE_VALUE_LINE_MAX (6 + MEMCACHE_KEY_BYTES_MAX + 1 + 10 + 1 + 10 + 1 + 20 + 2)

/** Count one, or more. */
static inline void memcache_count(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

/** Gather bytes for the client. @param len  at most MEMCACHE_OUTPUT_BYTES. Yields when the room is full. */
void memcache_output_add(struct memcache_server *server, struct memcache_output *output, const void *data,
                         size_t len);

/** memcache_output_add() of a text. */
void memcache_output_text(struct memcache_server *server, struct memcache_output *output, const char *text);

/**
 * Send bytes at once, after what was gathered. Yields.
 *
 * @param data, len  borrowed until return
 */
void memcache_output_send(struct memcache_server *server, struct memcache_output *output, const void *data,
                          size_t len);

/**
 * Answer one key of a get with its value, or with nothing. Yields.
 *
 * @param ret_refusal  a line that ends the get in place of END; set on failure only
 * @return 0; a negative errno
 */
base_must_check int memcache_execute_get(struct memcache_server *server, struct memcache_output *output,
                                         const struct memcache_text *key, bool with_version,
                                         const char **ret_refusal);

/** Whether a value may be stored; else the answer is given. */
bool memcache_execute_accepts(struct memcache_server *server, struct memcache_output *output,
                              const struct memcache_request *request);

/**
 * Store a value. Yields.
 *
 * @param value  request->value_bytes and the two that should be a line end
 */
void memcache_execute_store(struct memcache_server *server, struct memcache_output *output,
                            const struct memcache_request *request, const void *value);

/** Execute a request without keys to get, value to wait for, or connection to end. Yields. */
void memcache_execute(struct memcache_server *server, struct memcache_output *output,
                      const struct memcache_request *request);

/** Answer a stats request. May yield. */
void memcache_stats(struct memcache_server *server, struct memcache_output *output,
                    const struct memcache_request *request);

#endif
