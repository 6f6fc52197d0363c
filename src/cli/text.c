/* Keys and values for people. */
#include "cli/text.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include <errno.h>

/* An escape is four bytes at most; and what base_log_quote() keeps back. */
#define ESCAPE_BYTES_MAX 4
#define QUOTES_ROOM      32

int cli_text_init(struct cli_text *text, struct base_account *account, size_t bytes)
{
    size_t room = bytes * ESCAPE_BYTES_MAX + QUOTES_ROOM;
    char *buffer = base_alloc(account, room);
    if (buffer == NULL)
        return cli_failed("out of memory");
    *text = (struct cli_text){.account = account, .buffer = buffer, .room = room};
    return CLI_OK;
}

void cli_text_deinit(struct cli_text *text)
{
    base_free(text->account, text->buffer, text->room);
}

int cli_text_print(const struct cli_text *text, const void *bytes, size_t len, FILE *file)
{
    const char *quoted = base_log_quote(text->buffer, text->room, bytes, len);
    size_t quoted_len = strlen(quoted);
    bool plain = len > 0 && quoted_len == len + 2 && memcmp(quoted + 1, bytes, len) == 0;
    if (plain)
        return fwrite(bytes, 1, len, file) == len ? 0 : -EIO;
    return fwrite(quoted, 1, quoted_len, file) == quoted_len ? 0 : -EIO;
}

int cli_text_print_record(const struct cli_text *text, const void *key, size_t key_len, const void *value,
                          size_t value_len, FILE *file)
{
    int error = cli_text_print(text, key, key_len, file);
    if (error == 0 && value != NULL)
        error = fputc('\t', file) == EOF ? -EIO : cli_text_print(text, value, value_len, file);
    if (error == 0 && fputc('\n', file) == EOF)
        error = -EIO;
    return error;
}

static bool is_text(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t char_bytes = bytes[i] == 0 ? 0 : base_utf8_char_bytes(bytes + i, len - i);
        if (char_bytes == 0)
            return false;
        i += char_bytes;
    }
    return true;
}

void cli_text_write_json(const struct cli_text *text, struct base_json *json, const char *name,
                         const void *bytes, size_t len, bool hex)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *from = bytes;
    base_assert(text->room > 2 * len);
    if (!hex && is_text(from, len)) {
        if (len > 0)
            memcpy(text->buffer, from, len);
        text->buffer[len] = '\0';
        base_json_string(json, name, text->buffer);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        text->buffer[2 * i] = digits[from[i] >> 4];
        text->buffer[2 * i + 1] = digits[from[i] & 15];
    }
    text->buffer[2 * len] = '\0';
    char hex_name[32];
    (void)snprintf(hex_name, sizeof(hex_name), "%s_hex", name);
    base_json_string(json, hex_name, text->buffer);
}
