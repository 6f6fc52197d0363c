/*
 * A writer of JSON, on one line, to a FILE or into a buffer. The first error is kept and reported by
 * base_json_finish; calls in between need no check. Inside an object every member has a key, elsewhere the
 * key is NULL; that and the balance of begin and end are asserted. One owner.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdio.h>

#include "base/define.h"

#define BASE_JSON_DEPTH_MAX 32

struct base_json {
    FILE *file; /* NULL: into the buffer */
    char *buffer;
    size_t room;
    size_t used; /* bytes written, terminating zero not counted */
    int error;
    unsigned depth;
    uint32_t in_object; /* a bit for each depth */
    uint32_t not_first; /* the same */
};

/**
 * Write to a FILE. It stays the caller's.
 */
void base_json_init_file(struct base_json *json, FILE *file);

/**
 * Write into a buffer, which is always terminated.
 *
 * @param room  at least 1
 */
void base_json_init_buffer(struct base_json *json, char *buffer, size_t room);

/**
 * Check that all is well and complete. A FILE is not flushed, and no newline is written.
 *
 * @param ret_bytes  length of the text; may be NULL
 * @return 0; -ENOSPC (the buffer was too small); -EIO
 */
int base_json_finish(struct base_json *json, size_t *ret_bytes) base_must_check;

/**
 * Begin an object.
 *
 * @param key  its name if it is a member of an object, else NULL
 */
void base_json_object_begin(struct base_json *json, const char *key);

/**
 * End the innermost object.
 */
void base_json_object_end(struct base_json *json);

/**
 * Begin an array.
 *
 * @param key  its name if it is a member of an object, else NULL
 */
void base_json_array_begin(struct base_json *json, const char *key);

/**
 * End the innermost array.
 */
void base_json_array_end(struct base_json *json);

/**
 * Write a string. Bytes that are not UTF-8 become U+FFFD.
 *
 * @param key    its name if it is a member of an object, else NULL
 * @param value  NULL is written as null
 */
void base_json_string(struct base_json *json, const char *key, const char *value);

/**
 * Write a number.
 *
 * @param key  its name if it is a member of an object, else NULL
 */
void base_json_u64(struct base_json *json, const char *key, uint64_t value);

/**
 * Write a number.
 *
 * @param key  its name if it is a member of an object, else NULL
 */
void base_json_i64(struct base_json *json, const char *key, int64_t value);

/**
 * Write a number with as many digits as it takes to read the same one back; infinite and undefined as null.
 *
 * @param key  its name if it is a member of an object, else NULL
 */
void base_json_double(struct base_json *json, const char *key, double value);

/**
 * Write true or false.
 *
 * @param key  its name if it is a member of an object, else NULL
 */
void base_json_bool(struct base_json *json, const char *key, bool value);

#endif
