/*
 * Parsing a line of memcached's text protocol, classic or meta: a pure function of its bytes. The answer to a wrong
 * line is memcached's, byte for byte.
 */
#ifndef MEMCACHE_PARSE_H
#define MEMCACHE_PARSE_H

#include "base/base.h"

#define MEMCACHE_KEY_BYTES_MAX 250

/* The longest line, except for the keys of a get: memcached closes the connection at a longer one, too. */
#define MEMCACHE_LINE_BYTES_MAX 2048

#define MEMCACHE_OPAQUE_BYTES_MAX 32 /* the longest opaque of a meta request, with its O */

enum memcache_verb {
    MEMCACHE_REFUSED, /* the line is answered with `refusal`, and has no other effect */
    /* requests with a list of keys: `rest` holds them, at least one */
    MEMCACHE_GET,
    MEMCACHE_GETS,
    MEMCACHE_GAT,
    MEMCACHE_GATS,
    /* requests with one key, and a value behind the line */
    MEMCACHE_SET,
    MEMCACHE_ADD,
    MEMCACHE_REPLACE,
    MEMCACHE_APPEND,
    MEMCACHE_PREPEND,
    MEMCACHE_CAS,
    MEMCACHE_META_SET,
    /* requests with one key */
    MEMCACHE_DELETE,
    MEMCACHE_INCR,
    MEMCACHE_DECR,
    MEMCACHE_TOUCH,
    MEMCACHE_META_GET,
    MEMCACHE_META_DELETE,
    MEMCACHE_META_ARITHMETIC,
    MEMCACHE_META_DEBUG,
    /* requests without a key */
    MEMCACHE_META_NOOP,
    MEMCACHE_VERSION,
    MEMCACHE_VERBOSITY,
    MEMCACHE_FLUSH_ALL,
    MEMCACHE_STATS,       /* `key` is the word behind the command, or empty; `rest` has all words */
    MEMCACHE_LRU_CRAWLER, /* `rest` has all words behind the command */
    MEMCACHE_SHUTDOWN,
    MEMCACHE_QUIT,
};

struct memcache_text {
    const char *text;
    size_t len;
};

/* The flags of a meta request. */
struct memcache_meta {
    uint64_t flags;   /* the memcache_meta_bit() of each flag */
    char mode;        /* M: its character; 0: it was not given */
    int64_t vivify;   /* N: exptime of an item that is made */
    int64_t recache;  /* R: a time to live, as an exptime */
    uint64_t version; /* E: the new cas unique */
    uint64_t initial; /* J: the first number */
};

/* Texts are borrowed from the line. */
struct memcache_request {
    enum memcache_verb verb;
    bool noreply; /* a meta request's q, which silences only the usual answer */
    const char *
        refusal; /* REFUSED: the answer, with its line end; SHUTDOWN: the answer to a wrong form of it, where it is enabled */
    struct memcache_text key;
    struct memcache_text rest; /* the keys; a meta request's flags */
    uint32_t client_flags;
    uint32_t value_bytes; /* length of the value, without its line end */
    bool closes;     /* REFUSED: the next bytes cannot be told from commands, so the connection is closed */
    bool swallow;    /* REFUSED: a value of value_bytes and its line end are to be skipped */
    int64_t exptime; /* the exptime as memcached reads it; FLUSH_ALL: the delay */
    uint64_t cas;    /* CAS, and the meta flag C: the version that the item must have */
    uint64_t delta;  /* INCR, DECR, META_ARITHMETIC: the difference */
    struct memcache_meta meta;
};

/** The bit of a meta flag. @param flag  a letter */
static inline uint64_t memcache_meta_bit(char flag)
{
    return UINT64_C(1) << (flag - 'A');
}

/** Whether a meta request has a flag. */
static inline bool memcache_meta_has(const struct memcache_request *request, char flag)
{
    return (request->meta.flags & memcache_meta_bit(flag)) != 0;
}

/**
 * Take the next word, which ends at a space, off a text.
 *
 * @param text      loses the word and all before it
 * @return false: there is none
 */
bool memcache_next_word(struct memcache_text *text, struct memcache_text *ret_word);

/**
 * Parse a line.
 *
 * @param text, len  any bytes, without the line end; a key in base64 is decoded in place
 */
void memcache_parse(char *text, size_t len, struct memcache_request *ret_request);

/** Whether a value and a line end follow the request. */
static inline bool memcache_has_value(const struct memcache_request *request)
{
    return request->verb >= MEMCACHE_SET && request->verb <= MEMCACHE_META_SET;
}

/** Whether the request is a list of keys, each of which gets an answer of its own. */
static inline bool memcache_has_keys(const struct memcache_request *request)
{
    return request->verb >= MEMCACHE_GET && request->verb <= MEMCACHE_GATS;
}

/** Whether the request is a meta request with a key. */
static inline bool memcache_is_meta(const struct memcache_request *request)
{
    return request->verb == MEMCACHE_META_SET ||
           (request->verb >= MEMCACHE_META_GET && request->verb <= MEMCACHE_META_DEBUG);
}

/** Whether even a refusal is not answered; a quiet meta request does get errors. */
static inline bool memcache_wants_no_refusal(const struct memcache_request *request)
{
    return request->noreply && !memcache_is_meta(request);
}

/** Whether the request only reads. The item that it finds may make a change necessary after all. */
static inline bool memcache_only_reads(const struct memcache_request *request)
{
    uint64_t changing = memcache_meta_bit('T') | memcache_meta_bit('N');
    return request->verb == MEMCACHE_GET || request->verb == MEMCACHE_GETS ||
           request->verb == MEMCACHE_META_DEBUG ||
           (request->verb == MEMCACHE_META_GET && (request->meta.flags & changing) == 0);
}

/**
 * Read the number that a value begins with, as strtoull does: white space, sign, digits, then white space, a
 * zero byte or the end.
 *
 * @return false: there is no number of at most 64 bits
 */
bool memcache_parse_number(const char *text, size_t len, uint64_t *ret_number);

/**
 * The moment that an exptime of memcached means: 0 is never; up to 30 days it counts from now, a larger one from
 * 1970; a negative one has passed.
 *
 * @return nanoseconds since 1970, 0 for never
 */
uint64_t memcache_expiry_ns(int64_t exptime, uint64_t wall_ns);

/** parse.c and parse_meta.c: make a request that is answered with a text. */
static inline void memcache_refuse(struct memcache_request *request, const char *refusal)
{
    request->verb = MEMCACHE_REFUSED;
    request->refusal = refusal;
}

/** parse.c and parse_meta.c: make a request that is answered with a text, also against a wish for no reply, and after
 * which the connection is closed. */
static inline void memcache_refuse_and_close(struct memcache_request *request, const char *refusal)
{
    memcache_refuse(request, refusal);
    request->noreply = false;
    request->closes = true;
}

/** Read the length of a value: digits alone, as in memcached. @return false: it is no length */
bool memcache_parse_length(const struct memcache_text *word, uint32_t *ret_bytes);

/** parse_meta.c: parse the words of a meta command, without the command itself. @param letter  its second letter */
void memcache_parse_meta(struct memcache_text words, char letter, struct memcache_request *request);

/** Read a number of the protocol from 0 to `max`. @return false: it is none */
bool memcache_parse_unsigned(const struct memcache_text *word, uint64_t max, uint64_t *ret_value);

/** Read a number that may be negative. @return false: it is none */
bool memcache_parse_signed(const struct memcache_text *word, int64_t *ret_value);

#endif
