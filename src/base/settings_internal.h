/* What the files of the settings share: settings.c has values, settings_parse.c input, settings_help.c
 * output. */
#ifndef BASE_SETTINGS_INTERNAL_H
#define BASE_SETTINGS_INTERNAL_H

#include "base/settings.h"

/**
 * The setting with exactly this name; NULL if there is none.
 */
const struct base_setting *base_settings_find(const struct base_settings *settings, const char *name);

/**
 * Write that there is no such option, with the nearest name if one is near.
 *
 * @param dashes  what stands before the names: "--" or ""
 * @return -EINVAL, for the caller to return
 */
int base_settings_fail_unknown(const struct base_settings *settings, const char *dashes, const char *name,
                               char *error, size_t room);

/**
 * A source of settings begins: what it repeats replaces what sources before it did.
 */
void base_settings_begin(const struct base_settings *settings);

/**
 * Check and store one value.
 *
 * @param value  borrowed for as long as the options are used
 * @return 0; -EINVAL; -ENOMEM
 */
int base_settings_store(const struct base_settings *settings, const struct base_setting *setting,
                        const char *value, char *error, size_t room) base_must_check;

/**
 * Write a number as text in the form of a type: UINT, SIZE or DURATION.
 *
 * @param buffer, room  BASE_UNITS_ROOM suffices
 * @return buffer
 */
const char *base_settings_format_number(enum base_setting_type type, char *buffer, size_t room,
                                        uint64_t value);

/**
 * Copy bytes to an arena and end them with a zero byte.
 *
 * @return the copy; NULL if there is no memory
 */
char *base_settings_arena_copy(struct base_settings_arena *arena, const char *text, size_t len)
    base_must_check;

#endif
