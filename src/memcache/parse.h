/*
 * A line of memcached's text protocol, classic or meta, taken apart: a pure function of its bytes. What is
 * wrong with a line is answered as memcached answers it, to the byte.
 */
#ifndef MEMCACHE_PARSE_H
#define MEMCACHE_PARSE_H

#include "base/base.h"

#define MEMCACHE_KEY_BYTES_MAX 250

/* Longest line, but for the keys of a get: memcached hangs up on a longer one, too. */
#define MEMCACHE_LINE_BYTES_MAX 2048

#define MEMCACHE_OPAQUE_BYTES_MAX 32 /* of a meta request, with its O */

enum memcache_verb {
    MEMCACHE_REFUSED, /* nothing to do but to answer `refusal` */
    /* of many keys: `rest` holds them, at least one */
    MEMCACHE_GET,
    MEMCACHE_GETS,
    MEMCACHE_GAT,
    MEMCACHE_GATS,
    /* of one key, with a value behind the line */
    MEMCACHE_SET,
    MEMCACHE_ADD,
    MEMCACHE_REPLACE,
    MEMCACHE_APPEND,
    MEMCACHE_PREPEND,
    MEMCACHE_CAS,
    MEMCACHE_META_SET,
    /* of one key */
    MEMCACHE_DELETE,
    MEMCACHE_INCR,
    MEMCACHE_DECR,
    MEMCACHE_TOUCH,
    MEMCACHE_META_GET,
    MEMCACHE_META_DELETE,
    MEMCACHE_META_ARITHMETIC,
    MEMCACHE_META_DEBUG,
    /* of none */
    MEMCACHE_META_NOOP,
    MEMCACHE_VERSION,
    MEMCACHE_VERBOSITY,
    MEMCACHE_FLUSH_ALL,
    MEMCACHE_STATS,       /* `key` is the word behind it, empty if there is none; `rest` all of them */
    MEMCACHE_LRU_CRAWLER, /* `rest` is what stands behind it */
    MEMCACHE_SHUTDOWN,
    MEMCACHE_QUIT,
};

struct memcache_text {
    const char *text;
    size_t len;
};

/* What a meta request says. */
struct memcache_meta {
    uint64_t flags;   /* memcache_meta_bit() of each */
    char mode;        /* of M: the character; 0: none was given */
    int64_t vivify;   /* N: exptime of what is made */
    int64_t recache;  /* R: a time to live, as an exptime */
    uint64_t version; /* E: the new cas unique */
    uint64_t initial; /* J */
};

/* Texts are borrowed from the line. */
struct memcache_request {
    enum memcache_verb verb;
    bool noreply;        /* of a meta request: q, which silences only the usual answer */
    const char *refusal; /* with its line end; of a SHUTDOWN what is wrong with it if it is enabled */
    struct memcache_text key;
    struct memcache_text rest; /* keys; of a meta request its flags */
    uint32_t client_flags;
    uint32_t value_bytes; /* without its line end */
    bool closes;          /* REFUSED: what follows cannot be told from commands, so nothing more is taken */
    bool swallow;         /* REFUSED: a value of value_bytes is to be skipped, with its line end */
    int64_t exptime;      /* as memcached reads it; of a FLUSH_ALL the delay */
    uint64_t cas;         /* what it must be: CAS, and the meta flag C */
    uint64_t delta;       /* INCR, DECR, META_ARITHMETIC */
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
 * Take the next word of a text: what stands between spaces.
 *
 * @param text      the word and what is before it are taken off
 * @return false: there is none
 */
bool memcache_next_word(struct memcache_text *text, struct memcache_text *ret_word);

/**
 * Parse a line.
 *
 * @param text, len  any bytes, without the line end; a key in base64 is decoded where it stands
 */
void memcache_parse(char *text, size_t len, struct memcache_request *ret_request);

/** Whether the request is followed by a value and a line end. */
static inline bool memcache_has_value(const struct memcache_request *request)
{
    return request->verb >= MEMCACHE_SET && request->verb <= MEMCACHE_META_SET;
}

/** Whether the request is a list of keys, each answered for itself. */
static inline bool memcache_has_keys(const struct memcache_request *request)
{
    return request->verb >= MEMCACHE_GET && request->verb <= MEMCACHE_GATS;
}

/** Whether it is a meta request of a key. */
static inline bool memcache_is_meta(const struct memcache_request *request)
{
    return request->verb == MEMCACHE_META_SET ||
           (request->verb >= MEMCACHE_META_GET && request->verb <= MEMCACHE_META_DEBUG);
}

/** Whether not even a refusal is answered; a quiet meta request hears of errors. */
static inline bool memcache_wants_no_refusal(const struct memcache_request *request)
{
    return request->noreply && !memcache_is_meta(request);
}

/** Whether it fetches and changes nothing. What it finds may ask for a change after all. */
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
 * @return false: there is none of 64 bits
 */
bool memcache_parse_number(const char *text, size_t len, uint64_t *ret_number);

/**
 * The moment that memcached means by an exptime: 0 is never, up to 30 days from now, larger ones count
 * from 1970, negative ones are over.
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

/** parse.c and parse_meta.c: make one whose connection is closed behind the text, which nobody may be spared. */
static inline void memcache_refuse_and_close(struct memcache_request *request, const char *refusal)
{
    memcache_refuse(request, refusal);
    request->noreply = false;
    request->closes = true;
}

/** Read the length of a value: digits alone, as memcached takes them. @return false: it is none */
bool memcache_parse_length(const struct memcache_text *word, uint32_t *ret_bytes);

/** parse_meta.c: parse a meta command's words, the command itself taken off. @param letter  its second */
void memcache_parse_meta(struct memcache_text words, char letter, struct memcache_request *request);

/** Read a number of the protocol, none below 0 or above `max`. @return false: it is none */
bool memcache_parse_unsigned(const struct memcache_text *word, uint64_t max, uint64_t *ret_value);

/** Read one that may be negative. @return false: it is none */
bool memcache_parse_signed(const struct memcache_text *word, int64_t *ret_value);

#endif
