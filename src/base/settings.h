/*
 * The typed table of settings. One array of struct base_setting feeds the command line, the file, --help, the
 * man page and the dump of values. The values lie in the caller's own options structure.
 *
 * Order of use: base_settings_set_defaults, then the file, then the command line; what comes later wins.
 * (Parse the command line, then the file that it names, then the command line again: that does no harm.)
 *
 * Every function that fails leaves one sentence, without newline, in the caller's error buffer. One owner.
 */
#ifndef BASE_SETTINGS_H
#define BASE_SETTINGS_H

#include <stdio.h>

#include "base/account.h"

/** Longest name of a setting; most items of a list; largest configuration file. */
#define BASE_SETTING_NAME_MAX        40
#define BASE_SETTING_LIST_MAX        64
#define BASE_SETTINGS_FILE_BYTES_MAX (1 << 20)

/** Room for an error sentence; a longer one is cut. */
#define BASE_SETTINGS_ERROR_ROOM 512

/** Room for the longest value that base_settings_format_value makes without cutting a string. */
#define BASE_SETTINGS_VALUE_ROOM 1024

/** Each with its field in the options structure, and what may be typed. */
enum base_setting_type {
    BASE_SETTING_BOOL,     /* bool: --name, --no-name, --name=yes|no|true|false|on|off|1|0 */
    BASE_SETTING_UINT,     /* uint64_t: decimal */
    BASE_SETTING_SIZE,     /* uint64_t, bytes: base_parse_size */
    BASE_SETTING_DURATION, /* uint64_t, nanoseconds: base_parse_duration */
    BASE_SETTING_STRING,   /* const char *: NULL if neither given nor defaulted */
    BASE_SETTING_ENUM,     /* unsigned: index of the word in choices */
    BASE_SETTING_LIST,     /* struct base_setting_list: between commas; a later one replaces it */
    BASE_SETTING_REPEATED, /* struct base_setting_list: given again and again, an item each time, commas and all. Those
                              of the command line together replace those of the file; an empty one, all before it */
};

enum base_setting_flag {
    BASE_SETTING_COMMAND_ONLY = 1, /* not in a configuration file (--help, --config) */
    BASE_SETTING_HIDDEN = 2,       /* neither in --help nor in the man page */
    BASE_SETTING_SECRET = 4,       /* the value is never shown */
    BASE_SETTING_REFUSED =
        8, /* of another program, for its users: giving it fails, and the help says why. It has no
                                      field, is in no dump, and is HIDDEN */
};

struct base_setting_list {
    const char *items[BASE_SETTING_LIST_MAX];
    size_t count;
    bool is_old; /* REPEATED: what is given next replaces all */
};

struct base_setting {
    const char *name; /* lower-case words with hyphens, at most BASE_SETTING_NAME_MAX, not "no-..." */
    enum base_setting_type type;
    char letter;         /* short option, or 0 */
    unsigned flags;      /* of enum base_setting_flag */
    const char *metavar; /* what stands for the value in help ("PORT"); NULL for the type's own word */
    const char *unit;    /* of a UINT, shown in help ("threads"); or NULL */
    uint64_t
        min; /* of UINT, SIZE, DURATION: the value; STRING: bytes; LIST, REPEATED: items (if any is given) */
    uint64_t max;               /* the same; 0 is no bound */
    const char *const *choices; /* of an ENUM, ends with NULL */
    const char
        *default_text; /* as it would be typed; NULL: STRING NULL, lists empty, BOOL no, ENUM first, else 0 */
    const char *help;  /* one or more sentences, plain text */
    size_t offset;     /* of the field in the options structure */
};

/** Memory for strings that are not borrowed from the command line. */
struct base_settings_arena {
    struct base_account *account;
    struct base_settings_chunk *chunks;
};

/** A table, where its values go, and where copies of strings live. */
struct base_settings {
    const struct base_setting *table;
    size_t count;
    void *options;
    struct base_settings_arena *arena; /* outlives the use of the options */
};

/**
 * Make an empty arena.
 *
 * @param account  outlives the arena
 */
void base_settings_arena_init(struct base_settings_arena *arena, struct base_account *account);

/**
 * Free an arena; strings and lists in the options that came from it are gone.
 */
void base_settings_arena_deinit(struct base_settings_arena *arena);

/**
 * Check the table itself (names, letters, choices, bounds, defaults) and give every field its default. A
 * wrong table is a bug, and asserted.
 *
 * @param error, room  for the sentence
 * @return 0; -ENOMEM
 */
int base_settings_set_defaults(const struct base_settings *settings, char *error, size_t room)
    base_must_check;

/**
 * Set one value from text.
 *
 * @param name         without hyphens in front
 * @param value        borrowed for as long as the options are used
 * @param error, room  for the sentence
 * @return 0; -EINVAL (no such setting, or a value that it refuses); -ENOMEM
 */
int base_settings_set(const struct base_settings *settings, const char *name, const char *value, char *error,
                      size_t room) base_must_check;

/**
 * Parse a command line: --name=value, --name value, --flag, --no-flag, -x value, -xvalue, -xyz (flags); "--"
 * ends options; what is no option is positional.
 *
 * @param argc, argv      without the program's name; strings are borrowed for as long as the options are used
 * @param ret_positional  room for argc pointers; the positional arguments in order
 * @param ret_count       how many there are
 * @param error, room     for the sentence; an unknown option suggests the nearest name
 * @return 0; -EINVAL; -ENOMEM. On failure some options may already be set.
 */
int base_settings_parse_arguments(const struct base_settings *settings, int argc, char *const *argv,
                                  const char **ret_positional, size_t *ret_count, char *error, size_t room)
    base_must_check;

/**
 * Parse the text of a configuration file: lines of `name = value`; # begins a comment at the start of a line
 * or after a space; a value may stand in double quotes, where \" \\ \n \t are known. Any bytes are safe.
 *
 * @param file_name    for messages ("NAME:LINE: ...")
 * @param text, len    borrowed until return; strings are copied to the arena
 * @param error, room  for the sentence
 * @return 0; -EINVAL; -ENOMEM. On failure some options may already be set.
 */
int base_settings_parse_file_text(const struct base_settings *settings, const char *file_name,
                                  const char *text, size_t len, char *error, size_t room) base_must_check;

/**
 * Read and parse a configuration file. Blocks on the file: for start-up.
 *
 * @param error, room  for the sentence
 * @return 0; -EINVAL; -ENOMEM; -EFBIG (over BASE_SETTINGS_FILE_BYTES_MAX); errors of opening and reading
 */
int base_settings_parse_file(const struct base_settings *settings, const char *path, char *error, size_t room)
    base_must_check;

/**
 * Print one entry for each setting, 80 columns wide, with bounds and default, as --help shows them.
 */
void base_settings_print_help(const struct base_settings *settings, FILE *file);

/**
 * Print the settings as entries of a man page (roff, man macros: .TP and text), for a section of the page.
 */
void base_settings_print_man(const struct base_settings *settings, FILE *file);

/**
 * Write an error sentence, as the functions above leave one: for callers that check more than the table does.
 *
 * @return -EINVAL, for the caller to return
 */
int base_settings_fail(char *error, size_t room, const char *format, ...) base_printf_like(3, 4);

/**
 * Write the current value of a setting as it could be typed; a secret as "(secret)", an unset string as "".
 *
 * @param buffer, room  BASE_SETTINGS_VALUE_ROOM; cut off if too long
 * @return buffer
 */
const char *base_settings_format_value(const struct base_settings *settings,
                                       const struct base_setting *setting, char *buffer, size_t room);

/**
 * Call a function with the name and the current value of each setting, in the order of the table; of what is repeated for
 * each item, or once with an empty one.
 *
 * @param visit  its strings are borrowed until it returns
 */
void base_settings_dump(const struct base_settings *settings,
                        void (*visit)(void *arg, const char *name, const char *value), void *arg);

#endif
