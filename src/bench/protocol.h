/*
 * What a load speaks: memcached's text and redis' RESP for `tarn bench memcache`, and echoes. Requests are
 * written, and answers read strictly: what is not exactly what a right server sends is an error.
 */
#ifndef BENCH_PROTOCOL_H
#define BENCH_PROTOCOL_H

#include "bench/keys.h"

enum bench_protocol {
    BENCH_PROTOCOL_TEXT,
    BENCH_PROTOCOL_RESP,
    BENCH_PROTOCOL_ECHO, /* no gets: a set is the value alone, and what comes back is the same value */
};

enum {
    BENCH_PROTOCOL_LINE_ROOM = 256, /* longest line of an answer */
    BENCH_PROTOCOL_WHOLE_EACH = 64, /* one value in this many is looked at whole */
    BENCH_PARSER_WRONG_ROOM = 384,  /* for what is wrong with an answer */
};

/** Room that any request of key_count keys, or with one value, fits in. */
size_t bench_request_room(uint32_t key_count, uint32_t value_bytes);

/** Write a request for values. @param numbers  key_count, at least 1 @return its bytes */
size_t bench_write_get(enum bench_protocol protocol, const uint64_t *numbers, uint32_t key_count, char *to);

/** Write a request that stores a value. @return its bytes */
size_t bench_write_set(enum bench_protocol protocol, const struct bench_values *values, uint64_t number,
                       uint64_t generation, char *to);

/* Reads the answers of one connection, which may arrive in pieces of any size. */
struct bench_parser {
    enum bench_protocol protocol;
    const struct bench_values *values;
    char value_end[32]; /* of a line that announces a value: flags and length */
    size_t value_end_len;

    /* the answer under way */
    bool set;
    bool header;             /* RESP: the length of the array has been read */
    const uint64_t *numbers; /* of the keys asked for */
    uint32_t key_count;
    uint32_t next; /* keys that have been answered */
    uint32_t hits;
    enum {
        BENCH_PARSER_AT_LINE,
        BENCH_PARSER_AT_VALUE,
        BENCH_PARSER_AT_VALUE_END, /* CR LF after it */
    } place;
    struct bench_value_check check;
    uint64_t values_seen;
    size_t line_len;
    char line[BENCH_PROTOCOL_LINE_ROOM];

    char wrong[BENCH_PARSER_WRONG_ROOM]; /* after -EBADMSG: why, as text */
};

/** @param values  borrowed */
void bench_parser_init(struct bench_parser *parser, enum bench_protocol protocol,
                       const struct bench_values *values);

/** Say which request is answered next. @param numbers  of the keys of a get, borrowed until it is answered */
void bench_parser_expect(struct bench_parser *parser, bool set, const uint64_t *numbers, uint32_t key_count);

/**
 * Read what has arrived, up to the end of the answer.
 *
 * @param ret_used  how much of it that was
 * @return 1 (the answer is complete: parser->hits of the keys had their value); 0 (all was used, and more is
 *         to come); -EBADMSG (no such answer, an error, or a wrong value: parser->wrong)
 */
base_must_check int bench_parse(struct bench_parser *parser, const char *data, size_t bytes,
                                size_t *ret_used);

#endif
