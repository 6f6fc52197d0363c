/*
 * A reader of JSON: checks a text as a whole, then finds values in it, without memory of its own. Strings
 * are compared as they stand in the text, escapes included.
 */
#ifndef BENCH_JSON_READ_H
#define BENCH_JSON_READ_H

#include "base/base.h"

/** Deepest nesting that is read. */
#define BENCH_JSON_DEPTH_MAX 32

/* A value of a text that was checked; points into it. */
struct bench_json_value {
    const char *begin;
    const char *end;
};

/**
 * Check that a text is one JSON value and nothing else.
 *
 * @param text, len  any bytes; borrowed for as long as values of it are used
 * @return 0; -EINVAL
 */
base_must_check int bench_json_parse(const char *text, size_t len, struct bench_json_value *ret_value);

/** The first member of an object with a name. @return 0; -ENOENT (none, or no object) */
base_must_check int bench_json_member(struct bench_json_value object, const char *name,
                                      struct bench_json_value *ret_value);

/** An element of an array. @return 0; -ENOENT (none, or no array) */
base_must_check int bench_json_element(struct bench_json_value array, size_t index,
                                       struct bench_json_value *ret_value);

/** A number. @return 0; -EINVAL (it is none) */
base_must_check int bench_json_number(struct bench_json_value value, double *ret_number);

/**
 * Call a function for each member of an object, in order.
 *
 * @param visit  gets the member's name, without quotes, and its value; what it returns ends the walk if not 0
 * @return 0; -ENOENT (no object); what `visit` returned
 */
base_must_check int bench_json_visit(struct bench_json_value object,
                                     int (*visit)(void *arg, struct bench_json_value name,
                                                  struct bench_json_value value),
                                     void *arg);

#endif
