/*
 * A line of memcached's text protocol, taken apart: a pure function of its bytes. What is wrong with a
 * line is answered as memcached 1.6.18 answers it, to the byte.
 */
#ifndef MEMCACHE_PARSE_H
#define MEMCACHE_PARSE_H

#include "base/base.h"

#define MEMCACHE_KEY_BYTES_MAX 250

/* Longest line, but for the keys of a get: memcached hangs up on a longer one, too. */
#define MEMCACHE_LINE_BYTES_MAX 2048

enum memcache_verb {
    MEMCACHE_REFUSED, /* nothing to do but to answer `refusal` */
    MEMCACHE_GET,     /* `rest` holds the keys, at least one */
    MEMCACHE_GETS,
    MEMCACHE_SET, /* the first of those with a value … */
    MEMCACHE_ADD,
    MEMCACHE_REPLACE,
    MEMCACHE_CAS, /* … and the last */
    MEMCACHE_DELETE,
    MEMCACHE_TOUCH,
    MEMCACHE_FLUSH_ALL,
    MEMCACHE_STATS, /* `key` is the word behind it, empty if there is none */
    MEMCACHE_VERSION,
    MEMCACHE_VERBOSITY,
    MEMCACHE_QUIT,
};

struct memcache_text {
    const char *text;
    size_t len;
};

/* Texts are borrowed from the line. */
struct memcache_request {
    enum memcache_verb verb;
    bool noreply;
    const char *refusal; /* with its line end */
    struct memcache_text key;
    struct memcache_text rest;
    uint32_t client_flags;
    uint32_t value_bytes; /* without its line end */
    int64_t exptime;      /* as memcached reads it; of a FLUSH_ALL the delay */
    uint64_t cas;
};

/**
 * Take the next word of a text: what stands between spaces.
 *
 * @param text      the word and what is before it are taken off
 * @return false: there is none
 */
bool memcache_next_word(struct memcache_text *text, struct memcache_text *ret_word);

/**
 * Parse a line.
 *
 * @param text, len  any bytes, without the line end
 */
void memcache_parse(const char *text, size_t len, struct memcache_request *ret_request);

/** Whether the request is followed by a value and a line end. */
static inline bool memcache_has_value(const struct memcache_request *request)
{
    return request->verb >= MEMCACHE_SET && request->verb <= MEMCACHE_CAS;
}

/**
 * The moment that memcached means by an exptime: 0 is never, up to 30 days from now, larger ones count
 * from 1970, negative ones are over.
 *
 * @return nanoseconds since 1970, 0 for never
 */
uint64_t memcache_expiry_ns(int64_t exptime, uint64_t wall_ns);

#endif
