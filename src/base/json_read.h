/*
 * A reader of JSON: checks a text as a whole, then finds values in it, without memory of its own. Strings
 * are compared as they stand in the text, escapes included; base_json_text() says what they stand for.
 */
#ifndef BASE_JSON_READ_H
#define BASE_JSON_READ_H

#include "base/json.h"

/* A value of a text that was checked; points into it. */
struct base_json_value {
    const char *begin;
    const char *end;
};

/**
 * Check that a text is one JSON value and nothing else, nested no deeper than BASE_JSON_DEPTH_MAX. Whether
 * its strings are UTF-8 is not looked at.
 *
 * @param text, len  any bytes; borrowed for as long as values of it are used
 * @return 0; -EINVAL
 */
base_must_check int base_json_parse(const char *text, size_t len, struct base_json_value *ret_value);

/** The first member of an object with a name. @return 0; -ENOENT (none, or no object) */
base_must_check int base_json_member(struct base_json_value object, const char *name,
                                     struct base_json_value *ret_value);

/** An element of an array. @return 0; -ENOENT (none, or no array) */
base_must_check int base_json_element(struct base_json_value array, size_t index,
                                      struct base_json_value *ret_value);

/** A number. @return 0; -EINVAL (it is none) */
base_must_check int base_json_number(struct base_json_value value, double *ret_number);

/**
 * The bytes that a string stands for: UTF-8, with zero bytes where it has \u0000.
 *
 * @param to, room  destination; no zero byte is added
 * @return 0; -EINVAL (no string, or none of Unicode: bytes that are not UTF-8, half of a surrogate pair);
 *         -ENOBUFS (too little room)
 */
base_must_check int base_json_text(struct base_json_value value, void *to, size_t room, size_t *ret_bytes);

/**
 * Call a function for each member of an object, in order.
 *
 * @param visit  gets the member's name, without quotes, and its value; what it returns ends the walk if not 0
 * @return 0; -ENOENT (no object); what `visit` returned
 */
base_must_check int base_json_visit(struct base_json_value object,
                                    int (*visit)(void *arg, struct base_json_value name,
                                                 struct base_json_value value),
                                    void *arg);

#endif
