/* Keys and values for people: a line each, whatever the bytes. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include "base/base.h"
#include <stdio.h>

/* Room for the text of the longest key or value. */
struct cli_text {
    struct base_account *account;
    char *buffer;
    size_t room;
};

/** Take the room. @param bytes  of the longest key and value together, which bounds what any record of a
 * drive can have @return CLI_OK; CLI_FAILED: said */
base_must_check int cli_text_init(struct cli_text *text, struct base_account *account, size_t bytes);

/** Free it. */
void cli_text_deinit(struct cli_text *text);

/**
 * Print some bytes: as they are if they are UTF-8 without control characters, quotes or backslashes, else
 * in double quotes with escapes (\" \\ \n \r \t \xNN).
 *
 * @return 0; -EIO
 */
base_must_check int cli_text_print(const struct cli_text *text, const void *bytes, size_t len, FILE *file);

/** Print a key, and behind a tab its value, if there is one to be shown (not NULL). @return 0; -EIO */
base_must_check int cli_text_print_record(const struct cli_text *text, const void *key, size_t key_len,
                                          const void *value, size_t value_len, FILE *file);

/** Write bytes as a member of a JSON object: `name` if they are UTF-8 without zero bytes, and `hex` is
 * false; else in hexadecimal digits as `name`_hex. */
void cli_text_write_json(const struct cli_text *text, struct base_json *json, const char *name,
                         const void *bytes, size_t len, bool hex);

#endif
