#include "bench/json_read.h"

#include <errno.h>
#include <stdlib.h>

/* Every scan_ function returns what follows the thing, or NULL if it is not there. */

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hexadecimal(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static const char *scan_escape(const char *at, const char *end)
{
    if (at == end || memchr("\"\\/bfnrtu", *at, 9) == NULL)
        return NULL;
    if (*at++ != 'u')
        return at;
    for (int i = 0; i < 4; i++, at++) {
        if (at == end || !is_hexadecimal(*at))
            return NULL;
    }
    return at;
}

static const char *scan_string(const char *at, const char *end)
{
    if (at == end || *at != '"')
        return NULL;
    at++;
    while (at != NULL && at < end && *at != '"') {
        if ((unsigned char)*at < ' ')
            return NULL;
        at = *at == '\\' ? scan_escape(at + 1, end) : at + 1;
    }
    return at == NULL || at == end ? NULL : at + 1;
}

static const char *scan_digits(const char *at, const char *end)
{
    if (at == end || !is_digit(*at))
        return NULL;
    while (at < end && is_digit(*at))
        at++;
    return at;
}

static const char *scan_number(const char *at, const char *end)
{
    if (at < end && *at == '-')
        at++;
    const char *integer = at;
    at = scan_digits(at, end);
    if (at == NULL || (*integer == '0' && at > integer + 1))
        return NULL;
    if (at < end && *at == '.')
        at = scan_digits(at + 1, end);
    if (at == NULL || at == end || (*at != 'e' && *at != 'E'))
        return at;
    at++;
    if (at < end && (*at == '+' || *at == '-'))
        at++;
    return scan_digits(at, end);
}

static const char *scan_word(const char *at, const char *end, const char *word)
{
    size_t len = strlen(word);
    return (size_t)(end - at) >= len && memcmp(at, word, len) == 0 ? at + len : NULL;
}

static const char *scan_value(const char *at, const char *end, unsigned depth);

/* The next member or element, from behind the bracket or the comma before it. */
static const char *scan_item(const char *at, const char *end, bool in_object, unsigned depth,
                             struct bench_json_value *ret_name, struct bench_json_value *ret_value)
{
    at = skip_space(at, end);
    if (in_object) {
        const char *name_end = scan_string(at, end);
        if (name_end == NULL)
            return NULL;
        *ret_name = (struct bench_json_value){at + 1, name_end - 1};
        at = skip_space(name_end, end);
        if (at == end || *at != ':')
            return NULL;
        at = skip_space(at + 1, end);
    }
    const char *value_end = scan_value(at, end, depth);
    if (value_end == NULL)
        return NULL;
    *ret_value = (struct bench_json_value){at, value_end};
    return skip_space(value_end, end);
}

static const char *scan_container(const char *at, const char *end, unsigned depth)
{
    bool in_object = *at == '{';
    char closing = in_object ? '}' : ']';
    struct bench_json_value name;
    struct bench_json_value value;
    if (depth == BENCH_JSON_DEPTH_MAX)
        return NULL;
    at = skip_space(at + 1, end);
    if (at < end && *at == closing)
        return at + 1;
    for (;;) {
        at = scan_item(at, end, in_object, depth + 1, &name, &value);
        if (at == NULL || at == end)
            return NULL;
        if (*at == closing)
            return at + 1;
        if (*at++ != ',')
            return NULL;
    }
}

static const char *scan_value(const char *at, const char *end, unsigned depth)
{
    if (at == end)
        return NULL;
    switch (*at) {
    case '{':
    case '[':
        return scan_container(at, end, depth);
    case '"':
        return scan_string(at, end);
    case 't':
        return scan_word(at, end, "true");
    case 'f':
        return scan_word(at, end, "false");
    case 'n':
        return scan_word(at, end, "null");
    default:
        return scan_number(at, end);
    }
}

int bench_json_parse(const char *text, size_t len, struct bench_json_value *ret_value)
{
    const char *end = text + len;
    const char *begin = skip_space(text, end);
    const char *value_end = scan_value(begin, end, 0);
    if (value_end == NULL || skip_space(value_end, end) != end)
        return -EINVAL;
    *ret_value = (struct bench_json_value){begin, value_end};
    return 0;
}

/* ---- in a text that was checked ------------------------------------------------------------------ */

/*
 * Step through an object or array.
 *
 * @param inout_at  NULL at first
 * @return whether there was an item
 */
static bool next_item(struct bench_json_value container, const char **inout_at,
                      struct bench_json_value *ret_name, struct bench_json_value *ret_value)
{
    const char *end = container.end - 1; /* the bracket */
    const char *at = *inout_at;
    if (at == NULL) {
        at = skip_space(container.begin + 1, end);
        if (at == end)
            return false;
    } else if (at == end) {
        return false;
    } else {
        at++; /* the comma */
    }
    *inout_at = scan_item(at, end, *container.begin == '{', 0, ret_name, ret_value);
    base_assert(*inout_at != NULL);
    return true;
}

int bench_json_visit(struct bench_json_value object,
                     int (*visit)(void *arg, struct bench_json_value name, struct bench_json_value value),
                     void *arg)
{
    if (*object.begin != '{')
        return -ENOENT;
    struct bench_json_value name;
    struct bench_json_value value;
    const char *at = NULL;
    while (next_item(object, &at, &name, &value)) {
        int result = visit(arg, name, value);
        if (result != 0)
            return result;
    }
    return 0;
}

int bench_json_member(struct bench_json_value object, const char *name, struct bench_json_value *ret_value)
{
    if (*object.begin != '{')
        return -ENOENT;
    size_t len = strlen(name);
    struct bench_json_value found_name;
    struct bench_json_value value;
    const char *at = NULL;
    while (next_item(object, &at, &found_name, &value)) {
        if ((size_t)(found_name.end - found_name.begin) == len && memcmp(found_name.begin, name, len) == 0) {
            *ret_value = value;
            return 0;
        }
    }
    return -ENOENT;
}

int bench_json_element(struct bench_json_value array, size_t index, struct bench_json_value *ret_value)
{
    if (*array.begin != '[')
        return -ENOENT;
    struct bench_json_value name;
    struct bench_json_value value;
    const char *at = NULL;
    while (next_item(array, &at, &name, &value)) {
        if (index-- == 0) {
            *ret_value = value;
            return 0;
        }
    }
    return -ENOENT;
}

int bench_json_number(struct bench_json_value value, double *ret_number)
{
    char text[64];
    size_t len = (size_t)(value.end - value.begin);
    if (len >= sizeof(text) || (!is_digit(*value.begin) && *value.begin != '-'))
        return -EINVAL;
    memcpy(text, value.begin, len);
    text[len] = '\0';
    *ret_number = strtod(text, NULL);
    return 0;
}
