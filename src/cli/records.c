/* Writing all records of a store, or of a snapshot, as the stream that load reads. */
#include "cli/records.h"

#include "cli/stream.h"
#include "cli/text.h"
#include <errno.h>
#include <tarn/depot.h>

#define PARTS_AT_ONCE 256 /* are read of a long value */
#define LONG_TRIES    16  /* to read a long value that others replace */
#define PART_ROOM     (CLI_STREAM_PART_BYTES * PARTS_AT_ONCE)

struct dump {
    struct cli_records *records;
    uint8_t *part; /* PART_ROOM: of a long value */
    struct cli_text text;
    char *line;
    size_t line_room;
};

static bool stops(const struct dump *dump)
{
    return dump->records->stops != NULL && dump->records->stops(dump->records->arg);
}

static int write_line(const struct dump *dump, struct base_json *json)
{
    FILE *file = dump->records->file;
    size_t bytes;
    int error = base_json_finish(json, &bytes);
    if (error == 0 && (fwrite(dump->line, 1, bytes, file) != bytes || putc('\n', file) == EOF))
        error = -EIO;
    return error;
}

/* The parts of a long value that lie in the buffer. */
static int write_parts(const struct dump *dump, uint64_t offset, size_t bytes)
{
    int error = 0;
    for (size_t at = 0; error == 0 && at < bytes; at += CLI_STREAM_PART_BYTES) {
        struct base_json json;
        base_json_init_buffer(&json, dump->line, dump->line_room);
        base_json_object_begin(&json, NULL);
        base_json_u64(&json, "part", offset + at);
        cli_text_write_json(&dump->text, &json, "value", dump->part + at,
                            base_min(bytes - at, CLI_STREAM_PART_BYTES),
                            dump->records->values == CLI_VALUES_HEX);
        base_json_object_end(&json);
        error = write_line(dump, &json);
    }
    return error;
}

static int write_void(const struct dump *dump)
{
    struct base_json json;
    base_json_init_buffer(&json, dump->line, dump->line_room);
    base_json_object_begin(&json, NULL);
    base_json_bool(&json, "void", true);
    base_json_object_end(&json);
    return write_line(dump, &json);
}

static int read_part(const struct dump *dump, const void *key, size_t key_len, uint64_t offset,
                     struct tarn_record_info *info, size_t *ret_bytes)
{
    const struct cli_records *records = dump->records;
    if (records->snapshot != NULL)
        return tarn_depot_snapshot_read(records->snapshot, key, key_len, offset, dump->part, PART_ROOM,
                                        ret_bytes, NULL);
    return tarn_kv_read(records->kv, key, key_len, info->version, offset, dump->part, PART_ROOM, ret_bytes,
                        info);
}

/*
 * Part after part.
 *
 * @return 0; -EINTR, -EIO (of the file), -ENOMEM: the dump is over; with *ret_trouble what ended the reading of the value
 */
static int write_all_parts(const struct dump *dump, const void *key, size_t key_len,
                           const struct tarn_record_info *info, int *ret_trouble)
{
    struct tarn_record_info now = *info;
    int error = 0;
    size_t bytes;
    *ret_trouble = 0;
    for (uint64_t done = 0; error == 0 && done < info->value_bytes; done += bytes) {
        if (stops(dump))
            return -EINTR;
        *ret_trouble = read_part(dump, key, key_len, done, &now, &bytes);
        if (*ret_trouble != 0)
            return 0;
        error = write_parts(dump, done, bytes);
    }
    return error;
}

/* All of a record but its parts. @param value  NULL: there are parts, or values are not asked for */
static int write_head(const struct dump *dump, const void *key, size_t key_len, const void *value,
                      const struct tarn_record_info *info)
{
    const struct cli_records *records = dump->records;
    struct base_json json;
    bool in_parts = value == NULL && records->values != CLI_VALUES_NONE;
    base_json_init_buffer(&json, dump->line, dump->line_room);
    base_json_object_begin(&json, NULL);
    cli_text_write_json(&dump->text, &json, in_parts ? "long_key" : "key", key, key_len, false);
    base_json_u64(&json, "version", info->version);
    base_json_u64(&json, "expiry_ms", info->expiry_ns / BASE_NS_PER_MS);
    base_json_u64(&json, "flags", info->client_flags);
    if (info->note != 0)
        base_json_u64(&json, "note", info->note);
    base_json_u64(&json, "bytes", info->value_bytes);
    if (records->values != CLI_VALUES_NONE && !in_parts)
        cli_text_write_json(&dump->text, &json, "value", value, info->value_bytes,
                            records->values == CLI_VALUES_HEX);
    base_json_object_end(&json);
    return write_line(dump, &json);
}

/* Whether a value that cannot be read is one record less, and no reason to end the dump. */
static bool is_left_out(int trouble)
{
    return trouble == -ENOENT || trouble == -EBADMSG || trouble == -EIO;
}

/* A long value; when another has come in its place while it was read, that one: what is not whole is no record. */
static int write_long(const struct dump *dump, const void *key, size_t key_len,
                      const struct tarn_record_info *first)
{
    struct cli_records *records = dump->records;
    struct tarn_record_info info = *first;
    int trouble = -ESTALE, error = 0;
    for (int tries = 0; tries < LONG_TRIES && trouble == -ESTALE; tries++) {
        size_t bytes;
        error = write_head(dump, key, key_len, info.value_bytes == 0 ? "" : NULL, &info);
        if (error == 0)
            error = write_all_parts(dump, key, key_len, &info, &trouble);
        if (error == 0 && trouble != 0 && trouble != -ECANCELED)
            error = write_void(dump);
        if (error != 0 || trouble != -ESTALE)
            break;
        info.version = 0; /* whatever is there now */
        trouble = read_part(dump, key, key_len, 0, &info, &bytes);
        trouble = trouble == 0 ? -ESTALE : trouble;
    }
    if (error != 0 || trouble == 0 || !is_left_out(trouble))
        return error != 0 ? error : trouble;
    records->count--;
    records->damaged |= trouble != -ENOENT;
    return 0;
}

static int visit_record(void *arg, const void *key, size_t key_len, const void *value,
                        const struct tarn_record_info *info)
{
    const struct dump *dump = arg;
    struct cli_records *records = dump->records;
    if (stops(dump))
        return -EINTR;
    records->count++;
    if (records->progress != NULL)
        records->progress(records->arg, records->count);
    return value == NULL && records->values != CLI_VALUES_NONE ? write_long(dump, key, key_len, info)
                                                               : write_head(dump, key, key_len, value, info);
}

/* The last line, but for a scan that was cut off. @param error  of the scan */
static int write_end(const struct dump *dump, int error)
{
    struct cli_records *records = dump->records;
    struct base_json json;
    /* it came to its end, though without records that could not be read */
    if (error == -EBADMSG || (error == -EIO && !ferror(records->file))) {
        records->damaged = true;
        error = 0;
    }
    if (error != 0)
        return error;
    base_json_init_buffer(&json, dump->line, dump->line_room);
    cli_stream_write_end(&json, records->count, records->damaged);
    error = write_line(dump, &json);
    return error == 0 && fflush(records->file) != 0 ? -EIO : error;
}

int cli_records_write(struct base_account *account, struct cli_records *records)
{
    const uint64_t value_max = records->whole_bytes_max;
    struct dump dump = {.records = records, .line_room = cli_stream_line_bytes_max(value_max) + 1};
    records->count = 0;
    records->damaged = false;
    if (cli_text_init(&dump.text, account, value_max + TARN_KEY_BYTES_MAX) != 0)
        return -ENOMEM;
    dump.line = base_alloc(account, dump.line_room);
    dump.part = base_alloc(account, PART_ROOM);
    int error = -ENOMEM;
    if (dump.line != NULL && dump.part != NULL) {
        error = records->snapshot != NULL ? tarn_depot_snapshot_scan(records->snapshot, visit_record, &dump)
                                          : tarn_kv_scan(records->kv, visit_record, &dump);
        error = write_end(&dump, error);
    }
    base_free(account, dump.part, PART_ROOM);
    base_free(account, dump.line, dump.line_room);
    cli_text_deinit(&dump.text);
    return error;
}
