/* The stream of dump and load: its lines, and what they say. */
#include "cli/stream.h"
#include <errno.h>
#include <tarn/depot.h>

/* A byte of a string takes six at most, and what else dump writes in a line this much. Other programs may
 * have written more, which is not looked at. */
#define ESCAPE_BYTES_MAX 6
#define REST_BYTES_MAX   512
#define UNKNOWN_ROOM     (64 << 10)

#define READ_BYTES_MAX (256 << 10) /* at once, so that there is progress to be seen */

#define EXPIRY_MS_MAX (UINT64_MAX / BASE_NS_PER_MS)

/* ---- lines --------------------------------------------------------------------------------------- */

size_t cli_stream_line_bytes_max(uint64_t value_bytes_max)
{
    return ESCAPE_BYTES_MAX * (value_bytes_max + TARN_KEY_BYTES_MAX) + REST_BYTES_MAX;
}

int cli_stream_init(struct cli_stream *stream, struct base_account *account, uint64_t value_bytes_max,
                    cli_stream_read_function *read, void *read_arg)
{
    size_t room = cli_stream_line_bytes_max(value_bytes_max) + UNKNOWN_ROOM;
    char *buffer = base_alloc(account, room);
    if (buffer == NULL)
        return -ENOMEM;
    *stream = (struct cli_stream){
        .account = account, .read = read, .read_arg = read_arg, .buffer = buffer, .room = room};
    return 0;
}

void cli_stream_deinit(struct cli_stream *stream)
{
    base_free(stream->account, stream->buffer, stream->room);
}

/* Read behind the line that has begun, which moves to the front, once. @return 0; -EMSGSIZE (it has taken all
 * the room); the error of reading */
static int fill_room(struct cli_stream *stream)
{
    if (stream->begin > 0) {
        memmove(stream->buffer, stream->buffer + stream->begin, stream->end - stream->begin);
        stream->searched -= stream->begin;
        stream->end -= stream->begin;
        stream->begin = 0;
    }
    size_t room = base_min(stream->room - stream->end, (size_t)READ_BYTES_MAX);
    if (room == 0)
        return -EMSGSIZE;
    ssize_t bytes = stream->read(stream->read_arg, stream->buffer + stream->end, room);
    if (bytes < 0)
        return (int)bytes;
    base_assert((size_t)bytes <= room);
    stream->at_end = bytes == 0;
    stream->end += (size_t)bytes;
    stream->read_bytes += (uint64_t)bytes;
    return 0;
}

/* Tell what stands before `line_end`, and go on at `next`. */
static void tell_line(struct cli_stream *stream, size_t line_end, size_t next, const char **ret_line,
                      size_t *ret_len)
{
    *ret_line = stream->buffer + stream->begin;
    *ret_len = line_end - stream->begin;
    stream->begin = stream->searched = next;
}

int cli_stream_next(struct cli_stream *stream, const char **ret_line, size_t *ret_len, bool *ret_cut)
{
    for (;;) {
        const char *from = stream->buffer + stream->searched;
        const char *found = memchr(from, '\n', stream->end - stream->searched);
        if (found != NULL) {
            size_t line_end = (size_t)(found - stream->buffer);
            stream->line++;
            *ret_cut = false;
            tell_line(stream, line_end, line_end + 1, ret_line, ret_len);
            return 0;
        }
        stream->searched = stream->end;
        if (stream->at_end && stream->begin == stream->end)
            return -ENODATA;
        if (stream->at_end) {
            stream->line++;
            *ret_cut = true;
            tell_line(stream, stream->end, stream->end, ret_line, ret_len);
            return 0;
        }
        int error = fill_room(stream);
        if (error == -EMSGSIZE)
            stream->line++;
        if (error != 0)
            return error;
    }
}

/* ---- what a line says ---------------------------------------------------------------------------- */

/* What a line may have once. */
enum part {
    PART_KEY,
    PART_VERSION,
    PART_EXPIRY,
    PART_FLAGS,
    PART_NOTE,
    PART_BYTES,
    PART_VALUE,
    PART_END,
    PART_RECORDS,
    PART_DAMAGED,
    PART_LONG,
    PART_OFFSET,
    PART_VOID
};

/* A line under way. */
struct parse {
    struct cli_stream_item *item;
    const char *why;
    unsigned seen; /* bits of enum part */
    uint64_t bytes;
};

/* Each returns NULL, or what is wrong. */
typedef const char *take_function(struct parse *parse, struct base_json_value value);

static bool has(const struct parse *parse, enum part part)
{
    return (parse->seen & 1U << part) != 0;
}

static bool is_number(struct base_json_value value, uint64_t max, uint64_t *ret_number)
{
    return base_parse_u64_len(value.begin, (size_t)(value.end - value.begin), ret_number) == 0 &&
           *ret_number <= max;
}

static bool is_true(struct base_json_value value)
{
    return *value.begin == 't';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* As base_json_text(), for a string of hexadecimal digits. */
static int hex_text(struct base_json_value value, uint8_t *to, size_t room, size_t *ret_bytes)
{
    if (*value.begin != '"' || (value.end - value.begin) % 2 != 0)
        return -EINVAL;
    const char *digits = value.begin + 1;
    size_t bytes = (size_t)(value.end - value.begin - 2) / 2;
    if (bytes > room)
        return -ENOBUFS;
    for (size_t i = 0; i < bytes; i++) {
        int high = hex_digit(digits[2 * i]), low = hex_digit(digits[2 * i + 1]);
        if (high < 0 || low < 0)
            return -EINVAL;
        to[i] = (uint8_t)(high << 4 | low);
    }
    *ret_bytes = bytes;
    return 0;
}

static const char *check_key(const struct parse *parse, int error)
{
    if (error == -ENOBUFS || (error == 0 && parse->item->key_len == 0))
        return "a key has 1 to 65,535 bytes, and this one has not";
    return error == 0 ? NULL : "its key is no string of UTF-8: other bytes stand in key_hex";
}

static const char *take_key(struct parse *parse, struct base_json_value value)
{
    struct cli_stream_item *item = parse->item;
    return check_key(parse, base_json_text(value, item->key, TARN_KEY_BYTES_MAX, &item->key_len));
}

static const char *take_key_hex(struct parse *parse, struct base_json_value value)
{
    struct cli_stream_item *item = parse->item;
    int error = hex_text(value, item->key, TARN_KEY_BYTES_MAX, &item->key_len);
    return error == -EINVAL ? "its key_hex is no string of pairs of hexadecimal digits"
                            : check_key(parse, error);
}

static const char *check_value(int error)
{
    if (error == -ENOBUFS)
        return "its value is longer than this store takes: load it into a larger one";
    return error == 0 ? NULL : "its value is no string of UTF-8: other bytes stand in value_hex";
}

static const char *take_value(struct parse *parse, struct base_json_value value)
{
    struct cli_stream_item *item = parse->item;
    return check_value(base_json_text(value, item->value, item->value_room, &item->value_len));
}

static const char *take_value_hex(struct parse *parse, struct base_json_value value)
{
    struct cli_stream_item *item = parse->item;
    int error = hex_text(value, item->value, item->value_room, &item->value_len);
    return error == -EINVAL ? "its value_hex is no string of pairs of hexadecimal digits"
                            : check_value(error);
}

static const char *take_version(struct parse *parse, struct base_json_value value)
{
    bool is_good = is_number(value, UINT64_MAX, &parse->item->version);
    return is_good ? NULL : "its version is no number from 0 to 2^64 - 1";
}

static const char *take_expiry(struct parse *parse, struct base_json_value value)
{
    uint64_t expiry_ms;
    if (!is_number(value, EXPIRY_MS_MAX, &expiry_ms))
        return "its expiry_ms is no number of milliseconds since 1970, or too large";
    parse->item->expiry_ns = expiry_ms * BASE_NS_PER_MS;
    return NULL;
}

static const char *take_flags(struct parse *parse, struct base_json_value value)
{
    uint64_t flags;
    if (!is_number(value, UINT32_MAX, &flags))
        return "its flags are no number from 0 to 2^32 - 1";
    parse->item->client_flags = (uint32_t)flags;
    return NULL;
}

static const char *take_note(struct parse *parse, struct base_json_value value)
{
    uint64_t note;
    if (!is_number(value, TARN_NOTE_MAX, &note))
        return "its note is no number from 0 to 3";
    parse->item->note = (uint8_t)note;
    return NULL;
}

static const char *take_bytes(struct parse *parse, struct base_json_value value)
{
    return is_number(value, UINT64_MAX, &parse->bytes) ? NULL : "its bytes are no number";
}

static const char *take_end(struct parse *parse, struct base_json_value value)
{
    (void)parse;
    return is_true(value) ? NULL : "its end is not true";
}

static const char *take_void(struct parse *parse, struct base_json_value value)
{
    (void)parse;
    return is_true(value) ? NULL : "its void is not true";
}

static const char *take_offset(struct parse *parse, struct base_json_value value)
{
    return is_number(value, UINT64_MAX, &parse->item->offset) ? NULL : "its part is no number";
}

static const char *take_records(struct parse *parse, struct base_json_value value)
{
    return is_number(value, UINT64_MAX, &parse->item->records) ? NULL : "its records are no number";
}

static const char *take_damaged(struct parse *parse, struct base_json_value value)
{
    parse->item->damaged = is_true(value);
    return is_true(value) || *value.begin == 'f' ? NULL : "its damaged is neither true nor false";
}

static const struct member {
    const char *name;
    enum part part;
    take_function *take;
} members[] = {
    {"key", PART_KEY, take_key},
    {"key_hex", PART_KEY, take_key_hex},
    {"version", PART_VERSION, take_version},
    {"expiry_ms", PART_EXPIRY, take_expiry},
    {"flags", PART_FLAGS, take_flags},
    {"note", PART_NOTE, take_note},
    {"bytes", PART_BYTES, take_bytes},
    {"value", PART_VALUE, take_value},
    {"value_hex", PART_VALUE, take_value_hex},
    {"end", PART_END, take_end},
    {"records", PART_RECORDS, take_records},
    {"damaged", PART_DAMAGED, take_damaged},
    {"long_key", PART_LONG, take_key},
    {"long_key_hex", PART_LONG, take_key_hex},
    {"part", PART_OFFSET, take_offset},
    {"void", PART_VOID, take_void},
};

/* Those that are not known are passed over. */
static int take_member(void *arg, struct base_json_value name, struct base_json_value value)
{
    struct parse *parse = arg;
    size_t len = (size_t)(name.end - name.begin);
    for (size_t i = 0; i < base_array_count(members); i++) {
        const struct member *member = &members[i];
        if (strlen(member->name) != len || memcmp(member->name, name.begin, len) != 0)
            continue;
        parse->why = has(parse, member->part) ? "it says the same thing twice" : member->take(parse, value);
        parse->seen |= 1U << member->part;
        return parse->why == NULL ? 0 : -EINVAL;
    }
    return 0;
}

/* What a line is, by the member that only such a line has. @return NULL; what does not go together */
static const char *find_kind(const struct parse *parse)
{
    static const enum part parts[] = {[CLI_STREAM_RECORD] = PART_KEY,
                                      [CLI_STREAM_LONG] = PART_LONG,
                                      [CLI_STREAM_PART] = PART_OFFSET,
                                      [CLI_STREAM_VOID] = PART_VOID,
                                      [CLI_STREAM_END] = PART_END};
    unsigned found = 0;
    for (unsigned kind = 0; kind < base_array_count(parts); kind++) {
        if (!has(parse, parts[kind]))
            continue;
        parse->item->kind = (enum cli_stream_kind)kind;
        found++;
    }
    if (found == 0)
        return "it has neither key nor key_hex: tarn dump has not written it, or a newer version of Tarn has";
    if (found > 1)
        return has(parse, PART_END) ? "it is the end of the stream, and has a key all the same"
                                    : "it is two things at once: something has changed the stream";
    return NULL;
}

/* @return NULL; what is missing, or does not go together */
static const char *check_whole(const struct parse *parse)
{
    const char *why = find_kind(parse);
    if (why != NULL)
        return why;
    switch (parse->item->kind) {
    case CLI_STREAM_END:
        return has(parse, PART_RECORDS)
                   ? NULL
                   : "it is the end of the stream, and does not tell how many records it had";
    case CLI_STREAM_VOID:
        return NULL;
    case CLI_STREAM_LONG:
        parse->item->value_bytes = parse->bytes;
        return has(parse, PART_BYTES) ? NULL : "it has a long value, and does not tell how many bytes";
    case CLI_STREAM_PART:
        return has(parse, PART_VALUE) ? NULL : "it is a part of a value, and has none";
    case CLI_STREAM_RECORD:
        break;
    }
    if (!has(parse, PART_VALUE))
        return "it has no value: dump without --values=none";
    if (has(parse, PART_BYTES) && parse->bytes != parse->item->value_len)
        return "its value has not as many bytes as it says: something has changed the stream";
    return NULL;
}

int cli_stream_parse(const char *line, size_t len, struct cli_stream_item *item, const char **ret_why)
{
    struct parse parse = {.item = item};
    struct base_json_value value;
    *item = (struct cli_stream_item){.key = item->key, .value = item->value, .value_room = item->value_room};
    if (base_json_parse(line, len, &value) != 0)
        parse.why = "it is no JSON, or cut off";
    else if (base_json_visit(value, take_member, &parse) == -ENOENT)
        parse.why = "it is no JSON object";
    else if (parse.why == NULL)
        parse.why = check_whole(&parse);
    if (parse.why == NULL)
        return 0;
    *ret_why = parse.why;
    return -EINVAL;
}

void cli_stream_write_end(struct base_json *json, uint64_t records, bool damaged)
{
    base_json_object_begin(json, NULL);
    base_json_bool(json, "end", true);
    base_json_u64(json, "records", records);
    if (damaged)
        base_json_bool(json, "damaged", true);
    base_json_object_end(json);
}
