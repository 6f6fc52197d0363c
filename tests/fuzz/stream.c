/*
 * Any bytes as a stream for `tarn load`, cut wherever they like: each line is told as it stands, and what a
 * line says fits where it goes and comes back the same when it is written as dump writes it.
 */
#include "cli/stream.h"
#include "base/base.h"
#include "cli/text.h"
#include <errno.h>
#include <stdlib.h>
#include <tarn/depot.h>

enum { VALUE_MAX = 300 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes, read so many at a time. */
struct source {
    const uint8_t *data;
    size_t left;
    size_t at_once;
};

static ssize_t read_source(void *arg, void *to, size_t room)
{
    struct source *source = arg;
    size_t bytes = base_min(base_min(source->left, source->at_once), room);
    if (bytes == 0)
        return 0;
    memcpy(to, source->data, bytes);
    source->data += bytes;
    source->left -= bytes;
    return (ssize_t)bytes;
}

static void take_item(struct cli_stream_item *item)
{
    *item = (struct cli_stream_item){
        .key = malloc(TARN_KEY_BYTES_MAX), .value = malloc(VALUE_MAX), .value_room = VALUE_MAX};
}

static void free_item(struct cli_stream_item *item)
{
    free(item->key);
    free(item->value);
}

/* Write a record as dump does. @return its length */
static size_t write_record(const struct cli_text *text, const struct cli_stream_item *item, bool hex,
                           char *line, size_t room)
{
    struct base_json json;
    size_t len = 0;
    base_json_init_buffer(&json, line, room);
    base_json_object_begin(&json, NULL);
    cli_text_write_json(text, &json, "key", item->key, item->key_len, false);
    base_json_u64(&json, "version", item->version);
    base_json_u64(&json, "expiry_ms", item->expiry_ns / BASE_NS_PER_MS);
    base_json_u64(&json, "flags", item->client_flags);
    base_json_u64(&json, "note", item->note);
    base_json_u64(&json, "bytes", item->value_len);
    cli_text_write_json(text, &json, "value", item->value, item->value_len, hex);
    base_json_object_end(&json);
    base_assert(base_json_finish(&json, &len) == 0);
    return len;
}

static void check_record(const struct cli_text *text, const struct cli_stream_item *item, bool hex)
{
    size_t room = cli_stream_line_bytes_max(VALUE_MAX) + 1;
    char *line = malloc(room);
    struct cli_stream_item again;
    const char *why;
    base_assert(item->key_len >= 1 && item->key_len <= TARN_KEY_BYTES_MAX);
    base_assert(item->value_len <= item->value_room && item->note <= TARN_NOTE_MAX);
    size_t len = write_record(text, item, hex, line, room);
    take_item(&again);
    base_assert(cli_stream_parse(line, len, &again, &why) == 0 && again.kind == CLI_STREAM_RECORD);
    base_assert(again.key_len == item->key_len && memcmp(again.key, item->key, item->key_len) == 0);
    base_assert(again.value_len == item->value_len && memcmp(again.value, item->value, item->value_len) == 0);
    base_assert(again.version == item->version && again.expiry_ns == item->expiry_ns);
    base_assert(again.client_flags == item->client_flags && again.note == item->note);
    free_item(&again);
    free(line);
}

/* Take apart a line that lies in memory of just its size. */
static void check_line(const struct cli_text *text, const char *line, size_t len)
{
    struct cli_stream_item item;
    const char *why = NULL;
    char *copy = malloc(len);
    if (len > 0)
        memcpy(copy, line, len);
    take_item(&item);
    if (cli_stream_parse(copy, len, &item, &why) != 0)
        base_assert(why != NULL && why[0] != '\0');
    else if (item.kind == CLI_STREAM_RECORD)
        check_record(text, &item, len % 2 == 0);
    free_item(&item);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct source source = {.data = data + 1, .left = size - 1, .at_once = 1 + (size_t)data[0] * 4};
    struct base_account account;
    struct cli_stream stream;
    struct cli_text text;
    const char *line;
    size_t len, at = 1;
    bool cut = false;
    int error;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    base_assert(cli_text_init(&text, &account, TARN_KEY_BYTES_MAX + VALUE_MAX) == 0);
    base_assert(cli_stream_init(&stream, &account, VALUE_MAX, read_source, &source) == 0);
    while ((error = cli_stream_next(&stream, &line, &len, &cut)) == 0) {
        base_assert(len <= size - at && (len == 0 || memcmp(line, data + at, len) == 0));
        base_assert(cut ? at + len == size : data[at + len] == '\n');
        at += len + (cut ? 0 : 1);
        check_line(&text, line, len);
    }
    base_assert(error == -EMSGSIZE || (error == -ENODATA && at == size));
    cli_stream_deinit(&stream);
    cli_text_deinit(&text);
    base_account_deinit(&account);
    return 0;
}
