/* A reader of JSON: a text is checked as a whole, then looked into without memory of its own. */
#include "base/json_read.h"

#include <errno.h>
#include <stdlib.h>

#include "base/utf8.h"

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
                             struct base_json_value *ret_name, struct base_json_value *ret_value)
{
    at = skip_space(at, end);
    if (in_object) {
        const char *name_end = scan_string(at, end);
        if (name_end == NULL)
            return NULL;
        *ret_name = (struct base_json_value){at + 1, name_end - 1};
        at = skip_space(name_end, end);
        if (at == end || *at != ':')
            return NULL;
        at = skip_space(at + 1, end);
    }
    const char *value_end = scan_value(at, end, depth);
    if (value_end == NULL)
        return NULL;
    *ret_value = (struct base_json_value){at, value_end};
    return skip_space(value_end, end);
}

static const char *scan_container(const char *at, const char *end, unsigned depth)
{
    bool in_object = *at == '{';
    char closing = in_object ? '}' : ']';
    struct base_json_value name;
    struct base_json_value value;
    if (depth == BASE_JSON_DEPTH_MAX)
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

int base_json_parse(const char *text, size_t len, struct base_json_value *ret_value)
{
    const char *end = text + len;
    const char *begin = skip_space(text, end);
    const char *value_end = scan_value(begin, end, 0);
    if (value_end == NULL || skip_space(value_end, end) != end)
        return -EINVAL;
    *ret_value = (struct base_json_value){begin, value_end};
    return 0;
}

/* ---- in a text that was checked ------------------------------------------------------------------ */

/*
 * Step through an object or array.
 *
 * @param inout_at  NULL at first
 * @return whether there was an item
 */
static bool next_item(struct base_json_value container, const char **inout_at,
                      struct base_json_value *ret_name, struct base_json_value *ret_value)
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

int base_json_visit(struct base_json_value object,
                    int (*visit)(void *arg, struct base_json_value name, struct base_json_value value),
                    void *arg)
{
    if (*object.begin != '{')
        return -ENOENT;
    struct base_json_value name;
    struct base_json_value value;
    const char *at = NULL;
    while (next_item(object, &at, &name, &value)) {
        int result = visit(arg, name, value);
        if (result != 0)
            return result;
    }
    return 0;
}

int base_json_member(struct base_json_value object, const char *name, struct base_json_value *ret_value)
{
    if (*object.begin != '{')
        return -ENOENT;
    size_t len = strlen(name);
    struct base_json_value found_name;
    struct base_json_value value;
    const char *at = NULL;
    while (next_item(object, &at, &found_name, &value)) {
        if ((size_t)(found_name.end - found_name.begin) == len && memcmp(found_name.begin, name, len) == 0) {
            *ret_value = value;
            return 0;
        }
    }
    return -ENOENT;
}

int base_json_element(struct base_json_value array, size_t index, struct base_json_value *ret_value)
{
    if (*array.begin != '[')
        return -ENOENT;
    struct base_json_value name;
    struct base_json_value value;
    const char *at = NULL;
    while (next_item(array, &at, &name, &value)) {
        if (index-- == 0) {
            *ret_value = value;
            return 0;
        }
    }
    return -ENOENT;
}

int base_json_number(struct base_json_value value, double *ret_number)
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

/* ---- strings ------------------------------------------------------------------------------------- */

enum { SURROGATE_HIGH = 0xd800, SURROGATE_LOW = 0xdc00, SURROGATE_END = 0xe000, CHAR_BYTES_MAX = 4 };

/* Four digits, which were checked. */
static uint32_t code_unit(const char *digits)
{
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        char c = digits[i];
        unit = unit << 4 | (uint32_t)(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return unit;
}

/* @return bytes of the character; 0 if there is no such character */
static size_t utf8_encode(uint32_t code, char to[CHAR_BYTES_MAX])
{
    size_t bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = bytes - 1; i > 0; i--, code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(marks[bytes] | code);
    return base_utf8_char_bytes((const uint8_t *)to, bytes);
}

/*
 * The character that an escape stands for.
 *
 * @param inout_at  behind the backslash; moved behind the escape
 * @param end       of the string's inside
 * @return its bytes; 0: half of a surrogate pair
 */
static size_t read_escape(const char **inout_at, const char *end, char to[CHAR_BYTES_MAX])
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    const char *at = *inout_at;
    char name = *at++;
    if (name != 'u') {
        to[0] = values[strchr(names, name) - names];
        *inout_at = at;
        return 1;
    }
    uint32_t code = code_unit(at);
    at += 4;
    if (code >= SURROGATE_HIGH && code < SURROGATE_LOW && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
        uint32_t low = code_unit(at + 2);
        if (low < SURROGATE_LOW || low >= SURROGATE_END)
            return 0;
        code = 0x10000 + ((code - SURROGATE_HIGH) << 10) + (low - SURROGATE_LOW);
        at += 6;
    }
    *inout_at = at;
    return utf8_encode(code, to);
}

int base_json_text(struct base_json_value value, void *to, size_t room, size_t *ret_bytes)
{
    if (*value.begin != '"')
        return -EINVAL;
    const char *end = value.end - 1;
    size_t used = 0;
    for (const char *at = value.begin + 1; at < end;) {
        char escaped[CHAR_BYTES_MAX];
        const char *from = at;
        size_t bytes;
        if (*at == '\\') {
            at++;
            bytes = read_escape(&at, end, escaped);
            from = escaped;
        } else {
            bytes = base_utf8_char_bytes((const uint8_t *)at, (size_t)(end - at));
            at += bytes;
        }
        if (bytes == 0)
            return -EINVAL;
        if (bytes > room - used)
            return -ENOBUFS;
        memcpy((char *)to + used, from, bytes);
        used += bytes;
    }
    *ret_bytes = used;
    return 0;
}
