/*
 * A memcached in a few arrays: what a request does to the items, and what is answered. A version that only
 * the server knows stands in an answer as a mark with its number among all versions.
 */
#ifndef MEMCACHE_MODEL_TESTING_H
#define MEMCACHE_MODEL_TESTING_H

#include "memcache/testing.h"

#define MODEL_KEYS         12
#define MODEL_WORDS_MAX    17
#define MODEL_WORD_ROOM    40
#define MODEL_VERSIONS_MAX 60000
#define MODEL_MARK         '\1' /* in front of a version's number, and behind it */

struct model_item {
    bool there;
    char *value;
    size_t len;
    uint32_t flags;
    uint64_t expiry_s; /* 0: never */
    uint32_t version;  /* its number among all */
    bool stale, sent;
};

/* A text that grows. */
struct model_text {
    char *text;
    size_t len, room;
};

struct model {
    uint64_t now_s;
    struct model_item items[MODEL_KEYS];
    uint64_t versions[MODEL_VERSIONS_MAX]; /* as clients know them; 0: not yet */
    uint32_t version_count;
    uint64_t version_min, version_max; /* that the server gives */
    size_t joined_max;                 /* key and value together of what was joined have no more bytes */
    struct model_text answer;
};

/* A request. Meta flags are words, the first letter of each is the flag. */
struct model_request {
    const char *verb;
    uint32_t keys[MODEL_KEYS];
    uint32_t key_count;
    bool noreply;
    uint32_t flags;
    int64_t exptime;
    uint64_t number; /* what cas compares; of incr and decr */
    char *value;
    size_t len;
    char words[MODEL_WORDS_MAX][MODEL_WORD_ROOM];
    uint32_t word_count;
};

void model_put(struct model_text *text, const void *bytes, size_t len);

/** Add text, as a printf format. */
void model_print(struct model_text *text, const char *format, ...) base_printf_like(2, 3);

/** A number as text, with spaces behind it up to `width`. @return its length */
size_t model_digits(char to[32], uint64_t number, size_t width);

/* ---- classic requests --------------------------------------------------------------------------- */

/* ---- meta requests ------------------------------------------------------------------------------ */

/** Carry out a request, and append what is answered. */
void model_do(struct model *model, const struct model_request *request);

#endif
