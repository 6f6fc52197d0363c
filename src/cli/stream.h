/* The stream that dump writes and load reads, line by line: docs/dump.md has its tables. */
#ifndef CLI_STREAM_H
#define CLI_STREAM_H

#include "base/base.h"
#include <sys/types.h>

/* ---- lines --------------------------------------------------------------------------------------- */

/** Bytes for a line, of at most `room`. @return how many; 0 at the end; a negative errno */
typedef ssize_t cli_stream_read_function(void *arg, void *to, size_t room);

/* A stream that is cut into lines. Its memory is taken once, whatever comes. */
struct cli_stream {
    struct base_account *account;
    cli_stream_read_function *read;
    void *read_arg;
    char *buffer;
    size_t room;
    size_t begin;    /* of what was read and not yet told */
    size_t searched; /* there is no line end before it */
    size_t end;
    uint64_t line;       /* number of the line that was told last; 0 at first */
    uint64_t read_bytes; /* so far */
    bool at_end;         /* nothing more is to be read */
};

/** The longest line that is written for a record of a store, without its end. */
size_t cli_stream_line_bytes_max(uint64_t value_bytes_max);

/**
 * Begin to read.
 *
 * @param value_bytes_max  of the store that it is for: bounds the length of lines
 * @param read, read_arg   where it comes from
 * @return 0; -ENOMEM
 */
base_must_check int cli_stream_init(struct cli_stream *stream, struct base_account *account,
                                    uint64_t value_bytes_max, cli_stream_read_function *read, void *read_arg);

/** Free it. */
void cli_stream_deinit(struct cli_stream *stream);

/**
 * The next line.
 *
 * @param ret_line  without its end; valid until the next call. Not terminated
 * @param ret_cut   whether the stream ends before the line does
 * @return 0; -ENODATA (there is none); -EMSGSIZE (it is longer than any record's: stream->line is its
 * number); what `read` failed with
 */
base_must_check int cli_stream_next(struct cli_stream *stream, const char **ret_line, size_t *ret_len,
                                    bool *ret_cut);

/* ---- what a line says ---------------------------------------------------------------------------- */

/* Of a long value stands in a line. So each line fits where any store can be loaded to. */
#define CLI_STREAM_PART_BYTES (UINT64_C(32) << 10)

enum cli_stream_kind {
    CLI_STREAM_RECORD,
    CLI_STREAM_LONG, /* a record whose value follows in parts */
    CLI_STREAM_PART, /* of that value: `offset` and value count */
    CLI_STREAM_VOID, /* that value could not be read to its end */
    CLI_STREAM_END,  /* of the stream: `damaged` and `records` count */
};

/* A line. */
struct cli_stream_item {
    enum cli_stream_kind kind;
    uint8_t *key;      /* the caller's memory: TARN_KEY_BYTES_MAX */
    uint8_t *value;    /* the caller's, too: value_room */
    size_t value_room; /* what the store takes */
    size_t key_len;
    size_t value_len;
    uint64_t version;   /* 0: the store's choice */
    uint64_t expiry_ns; /* 0: never */
    uint32_t client_flags;
    uint8_t note;
    uint64_t value_bytes; /* of a long value, all of it */
    uint64_t offset;      /* of a part */
    bool damaged;         /* records were damaged, and left out */
    uint64_t records;     /* that the stream has had */
};

/**
 * Read a line.
 *
 * @param line, len  any bytes, borrowed until return
 * @param item       its memory in, the rest out; undefined on failure
 * @param ret_why    on failure: what is wrong with it, and what to do, as a part of a sentence
 * @return 0; -EINVAL
 */
base_must_check int cli_stream_parse(const char *line, size_t len, struct cli_stream_item *item,
                                     const char **ret_why);

/** Write the last line of a stream, without its end. */
void cli_stream_write_end(struct base_json *json, uint64_t records, bool damaged);

#endif
