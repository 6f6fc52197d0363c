/* A writer of JSON into memory or a file, which keeps commas and escapes right. */
#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/utf8.h"

static void put_text(struct base_json *json, const char *text, size_t len)
{
    if (json->error != 0)
        return;
    if (json->file != NULL) {
        if (fwrite(text, 1, len, json->file) != len)
            json->error = -EIO;
    } else if (len >= json->room - json->used) {
        json->error = -ENOSPC;
    } else {
        memcpy(json->buffer + json->used, text, len);
        json->buffer[json->used + len] = '\0';
    }
    if (json->error == 0)
        json->used += len;
}

static void put_quoted(struct base_json *json, const char *text)
{
    size_t len = strlen(text);
    put_text(json, "\"", 1);
    for (size_t i = 0; i < len;) {
        size_t bytes = base_utf8_char_bytes((const uint8_t *)text + i, len - i);
        uint8_t first = (uint8_t)text[i];
        if (bytes == 0) {
            put_text(json, "\xef\xbf\xbd", 3);
            bytes = 1;
        } else if (first == '"' || first == '\\') {
            put_text(json, (const char[]){'\\', text[i]}, 2);
        } else if (first < 0x20 || first == 0x7f) {
            char escape[8];
            snprintf(escape, sizeof(escape), "\\u%04x", first);
            put_text(json, escape, 6);
        } else {
            put_text(json, text + i, bytes);
        }
        i += bytes;
    }
    put_text(json, "\"", 1);
}

/* What stands before a value: a comma, and the key in an object. */
static void begin_value(struct base_json *json, const char *key)
{
    uint32_t bit = UINT32_C(1) << json->depth;
    base_assert((key != NULL) == ((json->in_object & bit) != 0));
    base_assert(json->depth > 0 || (json->not_first & bit) == 0);
    if ((json->not_first & bit) != 0)
        put_text(json, ",", 1);
    json->not_first |= bit;
    if (key != NULL) {
        put_quoted(json, key);
        put_text(json, ":", 1);
    }
}

static void begin_nested(struct base_json *json, const char *key, bool object)
{
    begin_value(json, key);
    put_text(json, object ? "{" : "[", 1);
    base_assert(json->depth + 1 < BASE_JSON_DEPTH_MAX);
    json->depth++;
    uint32_t bit = UINT32_C(1) << json->depth;
    json->not_first &= ~bit;
    json->in_object = object ? json->in_object | bit : json->in_object & ~bit;
}

static void end_nested(struct base_json *json, bool object)
{
    base_assert(json->depth > 0);
    base_assert(object == ((json->in_object & UINT32_C(1) << json->depth) != 0));
    json->depth--;
    put_text(json, object ? "}" : "]", 1);
}

void base_json_init_file(struct base_json *json, FILE *file)
{
    *json = (struct base_json){.file = file};
}

void base_json_init_buffer(struct base_json *json, char *buffer, size_t room)
{
    base_assert(room > 0);
    *json = (struct base_json){.buffer = buffer, .room = room};
    buffer[0] = '\0';
}

int base_json_finish(struct base_json *json, size_t *ret_bytes)
{
    base_assert(json->depth == 0);
    if (json->error != 0)
        return json->error;
    if (ret_bytes != NULL)
        *ret_bytes = json->used;
    return 0;
}

void base_json_object_begin(struct base_json *json, const char *key)
{
    begin_nested(json, key, true);
}

void base_json_object_end(struct base_json *json)
{
    end_nested(json, true);
}

void base_json_array_begin(struct base_json *json, const char *key)
{
    begin_nested(json, key, false);
}

void base_json_array_end(struct base_json *json)
{
    end_nested(json, false);
}

void base_json_string(struct base_json *json, const char *key, const char *value)
{
    begin_value(json, key);
    if (value == NULL)
        put_text(json, "null", 4);
    else
        put_quoted(json, value);
}

void base_json_u64(struct base_json *json, const char *key, uint64_t value)
{
    char text[24];
    begin_value(json, key);
    put_text(json, text, (size_t)snprintf(text, sizeof(text), "%llu", (unsigned long long)value));
}

void base_json_i64(struct base_json *json, const char *key, int64_t value)
{
    char text[24];
    begin_value(json, key);
    put_text(json, text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)value));
}

void base_json_double(struct base_json *json, const char *key, double value)
{
    begin_value(json, key);
    if (!isfinite(value)) {
        put_text(json, "null", 4);
        return;
    }
    char text[32];
    int len = 0;
    for (int digits = 15; digits <= 17; digits++) {
        len = snprintf(text, sizeof(text), "%.*g", digits, value);
        if (!islessgreater(strtod(text, NULL), value))
            break;
    }
    /* A program that sets a locale may have got another decimal point. */
    for (int i = 0; i < len; i++) {
        if (strchr("0123456789+-e", text[i]) == NULL)
            text[i] = '.';
    }
    put_text(json, text, (size_t)len);
}

void base_json_bool(struct base_json *json, const char *key, bool value)
{
    begin_value(json, key);
    if (value)
        put_text(json, "true", 4);
    else
        put_text(json, "false", 5);
}
