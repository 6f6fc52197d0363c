/* Settings: the table, the values, their defaults, and the memory for strings. */
#include "base/settings.h"

#include <errno.h>
#include <stdarg.h>

#include "base/log.h"
#include "base/settings_internal.h"
#include "base/units.h"

#define CHUNK_BYTES 4096

/* Room for a quoted value or name in an error sentence. */
#define SHOWN_ROOM 80

struct base_settings_chunk {
    struct base_settings_chunk *next;
    size_t room;
    size_t used;
    char bytes[];
};

void base_settings_arena_init(struct base_settings_arena *arena, struct base_account *account)
{
    *arena = (struct base_settings_arena){.account = account};
}

void base_settings_arena_deinit(struct base_settings_arena *arena)
{
    while (arena->chunks != NULL) {
        struct base_settings_chunk *chunk = arena->chunks;
        arena->chunks = chunk->next;
        base_free(arena->account, chunk, sizeof(*chunk) + chunk->room);
    }
}

char *base_settings_arena_copy(struct base_settings_arena *arena, const char *text, size_t len)
{
    struct base_settings_chunk *chunk = arena->chunks;
    if (chunk == NULL || len >= chunk->room - chunk->used) {
        size_t room = base_max(len + 1, CHUNK_BYTES - sizeof(*chunk));
        chunk = base_alloc(arena->account, sizeof(*chunk) + room);
        if (chunk == NULL)
            return NULL;
        chunk->room = room;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    char *copy = chunk->bytes + chunk->used;
    memcpy(copy, text, len);
    copy[len] = '\0';
    chunk->used += len + 1;
    return copy;
}

int base_settings_fail(char *error, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error, room, format, args);
    va_end(args);
    return -EINVAL;
}

static int fail_memory(char *error, size_t room)
{
    base_settings_fail(error, room, "out of memory for settings");
    return -ENOMEM;
}

const struct base_setting *base_settings_find(const struct base_settings *settings, const char *name)
{
    for (size_t i = 0; i < settings->count; i++) {
        if (strcmp(settings->table[i].name, name) == 0)
            return &settings->table[i];
    }
    return NULL;
}

/* Letters to insert, delete or replace to make one name of the other (Levenshtein), row by row. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[BASE_SETTING_NAME_MAX + 1];
    size_t b_len = strlen(b);
    base_assert(b_len <= BASE_SETTING_NAME_MAX);
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b_len; j++) {
            size_t replaced = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = base_min(replaced, base_min(diagonal, row[j]) + 1);
        }
    }
    return row[b_len];
}

int base_settings_fail_unknown(const struct base_settings *settings, const char *dashes, const char *name,
                               char *error, size_t room)
{
    char shown[SHOWN_ROOM];
    size_t len = strlen(name);
    const char *nearest = NULL;
    /* Two letters swapped are a distance of 2. */
    size_t nearest_distance = base_max(len / 3, (size_t)2) + 1;
    for (size_t i = 0; i < settings->count && len <= BASE_SETTING_NAME_MAX; i++) {
        const struct base_setting *setting = &settings->table[i];
        size_t distance = edit_distance(name, setting->name);
        if ((setting->flags & BASE_SETTING_HIDDEN) == 0 && distance < nearest_distance && distance < len) {
            nearest = setting->name;
            nearest_distance = distance;
        }
    }
    base_log_quote(shown, sizeof(shown), name, len);
    if (nearest == NULL)
        return base_settings_fail(error, room, "there is no setting %s", shown);
    return base_settings_fail(error, room, "there is no setting %s; did you mean %s%s?", shown, dashes,
                              nearest);
}

const char *base_settings_format_number(enum base_setting_type type, char *buffer, size_t room,
                                        uint64_t value)
{
    if (type == BASE_SETTING_SIZE)
        return base_format_size_exact(buffer, room, value);
    if (type == BASE_SETTING_DURATION)
        return base_format_duration_exact(buffer, room, value);
    snprintf(buffer, room, "%llu", (unsigned long long)value);
    return buffer;
}

/* "port: "70000" is WHAT" */
static int refuse_value(const struct base_setting *setting, const char *value, const char *what, char *error,
                        size_t room)
{
    char shown[SHOWN_ROOM];
    if ((setting->flags & BASE_SETTING_SECRET) != 0)
        return base_settings_fail(error, room, "%s: the value is %s", setting->name, what);
    base_log_quote(shown, sizeof(shown), value, strlen(value));
    return base_settings_fail(error, room, "%s: %s is %s", setting->name, shown, what);
}

/* Compare a number, a length or a count with the bounds; `noun` is put behind the bound in the sentence. */
static int check_bounds(const struct base_setting *setting, uint64_t number, const char *value,
                        const char *noun, char *error, size_t room)
{
    bool too_small = number < setting->min;
    bool too_large = setting->max != 0 && number > setting->max;
    if (!too_small && !too_large)
        return 0;
    char bound[BASE_UNITS_ROOM], what[128];
    base_settings_format_number(setting->type, bound, sizeof(bound), too_small ? setting->min : setting->max);
    snprintf(what, sizeof(what), "%s: %s %s%s%s", too_small ? "too little" : "too much",
             too_small ? "at least" : "at most", bound, noun[0] == '\0' ? "" : " ", noun);
    return refuse_value(setting, value, what, error, room);
}

static int store_number(const struct base_setting *setting, uint64_t *field, const char *value, char *error,
                        size_t room)
{
    static const struct {
        int (*parse)(const char *text, uint64_t *ret_value);
        const char *complaint;
    } kinds[] = {
        [BASE_SETTING_UINT] = {base_parse_u64, "not a number"},
        [BASE_SETTING_SIZE] = {base_parse_size, "not a size, such as 512, 64K, 1G or 10MiB"},
        [BASE_SETTING_DURATION] = {base_parse_duration, "not a time, such as 100us, 10ms, 5s, 2m, 1h or 7d"},
    };
    uint64_t number;
    int parsed = kinds[setting->type].parse(value, &number);
    if (parsed == -ERANGE)
        return refuse_value(setting, value, "more than 64 bits hold", error, room);
    if (parsed != 0)
        return refuse_value(setting, value, kinds[setting->type].complaint, error, room);
    int result =
        check_bounds(setting, number, value, setting->unit == NULL ? "" : setting->unit, error, room);
    if (result == 0)
        *field = number;
    return result;
}

static int store_bool(const struct base_setting *setting, bool *field, const char *value, char *error,
                      size_t room)
{
    static const char *const words[2][4] = {{"no", "false", "off", "0"}, {"yes", "true", "on", "1"}};
    for (size_t i = 0; i < 8; i++) {
        if (strcmp(value, words[i / 4][i % 4]) == 0) {
            *field = i / 4 == 1;
            return 0;
        }
    }
    return refuse_value(setting, value, "neither yes nor no", error, room);
}

static int store_choice(const struct base_setting *setting, unsigned *field, const char *value, char *error,
                        size_t room)
{
    char what[256] = "not one of";
    size_t used = strlen(what);
    for (unsigned i = 0; setting->choices[i] != NULL; i++) {
        if (strcmp(value, setting->choices[i]) == 0) {
            *field = i;
            return 0;
        }
        if (used < sizeof(what))
            used += (size_t)snprintf(what + used, sizeof(what) - used, "%s %s", i == 0 ? "" : ",",
                                     setting->choices[i]);
    }
    return refuse_value(setting, value, what, error, room);
}

static int store_list(const struct base_settings *settings, const struct base_setting *setting,
                      struct base_setting_list *field, const char *value, char *error, size_t room)
{
    if (value[0] == '\0') {
        field->count = 0;
        return 0;
    }
    char *next = base_settings_arena_copy(settings->arena, value, strlen(value));
    if (next == NULL)
        return fail_memory(error, room);
    struct base_setting_list list = {.count = 0};
    while (next != NULL) {
        char *item = next + strspn(next, " \t");
        next = strchr(item, ',');
        if (next != NULL)
            *next++ = '\0';
        size_t len = strlen(item);
        while (len > 0 && (item[len - 1] == ' ' || item[len - 1] == '\t'))
            item[--len] = '\0';
        if (len == 0)
            return refuse_value(setting, value, "a list with an empty item", error, room);
        if (list.count == BASE_SETTING_LIST_MAX)
            return refuse_value(setting, value, "too long a list", error, room);
        list.items[list.count++] = item;
    }
    int result = check_bounds(setting, list.count, value, "items", error, room);
    if (result == 0)
        *field = list;
    return result;
}

static int store_repeated(const struct base_setting *setting, struct base_setting_list *field,
                          const char *value, char *error, size_t room)
{
    const size_t before = field->is_old || value[0] == '\0' ? 0 : field->count;
    if (before == BASE_SETTING_LIST_MAX)
        return refuse_value(setting, value, "one too many", error, room);
    if (value[0] != '\0') {
        int result = check_bounds(setting, before + 1, value, "items", error, room);
        if (result != 0)
            return result;
        field->items[before] = value;
    }
    field->count = before + (value[0] != '\0');
    field->is_old = false;
    return 0;
}

void base_settings_begin(const struct base_settings *settings)
{
    for (size_t i = 0; i < settings->count; i++) {
        const struct base_setting *setting = &settings->table[i];
        if (setting->type == BASE_SETTING_REPEATED)
            ((struct base_setting_list *)((uint8_t *)settings->options + setting->offset))->is_old = true;
    }
}

static int refuse_other(const struct base_setting *setting, char *error, size_t room)
{
    const char letter[] = {'-', setting->letter, '\0'};
    return base_settings_fail(error, room, "%s%s--%s: %s", setting->letter == 0 ? "" : letter,
                              setting->letter == 0 ? "" : ", ", setting->name, setting->help);
}

int base_settings_store(const struct base_settings *settings, const struct base_setting *setting,
                        const char *value, char *error, size_t room)
{
    if ((setting->flags & BASE_SETTING_REFUSED) != 0)
        return refuse_other(setting, error, room);
    void *field = (uint8_t *)settings->options + setting->offset;
    switch (setting->type) {
    case BASE_SETTING_BOOL:
        return store_bool(setting, field, value, error, room);
    case BASE_SETTING_UINT:
    case BASE_SETTING_SIZE:
    case BASE_SETTING_DURATION:
        return store_number(setting, field, value, error, room);
    case BASE_SETTING_ENUM:
        return store_choice(setting, field, value, error, room);
    case BASE_SETTING_LIST:
        return store_list(settings, setting, field, value, error, room);
    case BASE_SETTING_REPEATED:
        return store_repeated(setting, field, value, error, room);
    case BASE_SETTING_STRING:
        break;
    }
    int result = check_bounds(setting, strlen(value), value, "bytes", error, room);
    if (result == 0)
        *(const char **)field = value;
    return result;
}

static void check_name(const struct base_setting *setting)
{
    size_t len = strlen(setting->name);
    base_assert(len >= 2 && len <= BASE_SETTING_NAME_MAX);
    base_assert(strspn(setting->name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len);
    base_assert(setting->name[0] != '-' && strncmp(setting->name, "no-", 3) != 0);
}

static void check_table(const struct base_settings *settings)
{
    for (size_t i = 0; i < settings->count; i++) {
        const struct base_setting *setting = &settings->table[i];
        check_name(setting);
        base_assert(base_settings_find(settings, setting->name) == setting);
        base_assert((setting->type == BASE_SETTING_ENUM) == (setting->choices != NULL));
        base_assert((setting->flags & BASE_SETTING_REFUSED) == 0 ||
                    (setting->flags & BASE_SETTING_HIDDEN) != 0);
        base_assert(setting->max == 0 || setting->min <= setting->max);
        for (size_t j = 0; j < i && setting->letter != 0; j++)
            base_assert(settings->table[j].letter != setting->letter);
    }
}

static int store_default(const struct base_settings *settings, const struct base_setting *setting,
                         char *error, size_t room)
{
    static const size_t field_bytes[] = {
        [BASE_SETTING_BOOL] = sizeof(bool),
        [BASE_SETTING_UINT] = sizeof(uint64_t),
        [BASE_SETTING_SIZE] = sizeof(uint64_t),
        [BASE_SETTING_DURATION] = sizeof(uint64_t),
        [BASE_SETTING_STRING] = sizeof(char *),
        [BASE_SETTING_ENUM] = sizeof(unsigned),
        [BASE_SETTING_LIST] = sizeof(struct base_setting_list),
        [BASE_SETTING_REPEATED] = sizeof(struct base_setting_list),
    };
    if ((setting->flags & BASE_SETTING_REFUSED) != 0)
        return 0;
    if (setting->default_text == NULL) {
        memset((uint8_t *)settings->options + setting->offset, 0, field_bytes[setting->type]);
        return 0;
    }
    int result = base_settings_store(settings, setting, setting->default_text, error, room);
    base_assert(result != -EINVAL);
    return result;
}

int base_settings_set_defaults(const struct base_settings *settings, char *error, size_t room)
{
    check_table(settings);
    for (size_t i = 0; i < settings->count; i++) {
        int result = store_default(settings, &settings->table[i], error, room);
        if (result != 0)
            return result;
    }
    base_settings_begin(settings);
    return 0;
}

int base_settings_set(const struct base_settings *settings, const char *name, const char *value, char *error,
                      size_t room)
{
    const struct base_setting *setting = base_settings_find(settings, name);
    if (setting == NULL)
        return base_settings_fail_unknown(settings, "", name, error, room);
    return base_settings_store(settings, setting, value, error, room);
}

/* A text as a configuration file would need it: in quotes only if it must be. */
static void format_text(const char *text, char *buffer, size_t room)
{
    size_t len = strlen(text);
    base_log_quote(buffer, room, text, len);
    bool plain = strlen(buffer) == len + 2 && strchr(text, '#') == NULL;
    if (plain && (len == 0 || (text[0] != ' ' && text[len - 1] != ' ')))
        snprintf(buffer, room, "%s", text);
}

static void format_list(const struct base_setting_list *list, char *buffer, size_t room)
{
    char joined[BASE_SETTINGS_VALUE_ROOM] = "";
    size_t used = 0;
    for (size_t i = 0; i < list->count && used < sizeof(joined); i++)
        used +=
            (size_t)snprintf(joined + used, sizeof(joined) - used, "%s%s", i == 0 ? "" : ",", list->items[i]);
    format_text(joined, buffer, room);
}

const char *base_settings_format_value(const struct base_settings *settings,
                                       const struct base_setting *setting, char *buffer, size_t room)
{
    base_assert(room >= BASE_UNITS_ROOM);
    const void *field = (const uint8_t *)settings->options + setting->offset;
    const char *text = NULL;
    if ((setting->flags & BASE_SETTING_SECRET) != 0) {
        snprintf(buffer, room, "(secret)");
        return buffer;
    }
    switch (setting->type) {
    case BASE_SETTING_BOOL:
        snprintf(buffer, room, "%s", *(const bool *)field ? "yes" : "no");
        break;
    case BASE_SETTING_UINT:
    case BASE_SETTING_SIZE:
    case BASE_SETTING_DURATION:
        base_settings_format_number(setting->type, buffer, room, *(const uint64_t *)field);
        break;
    case BASE_SETTING_ENUM:
        snprintf(buffer, room, "%s", setting->choices[*(const unsigned *)field]);
        break;
    case BASE_SETTING_LIST:
    case BASE_SETTING_REPEATED:
        format_list(field, buffer, room);
        break;
    case BASE_SETTING_STRING:
        text = *(const char *const *)field;
        format_text(text == NULL ? "" : text, buffer, room);
        break;
    }
    return buffer;
}

static void dump_repeated(const struct base_setting *setting, const struct base_setting_list *list,
                          void (*visit)(void *arg, const char *name, const char *value), void *arg)
{
    char value[BASE_SETTINGS_VALUE_ROOM];
    for (size_t i = 0; i < base_max(list->count, (size_t)1); i++) {
        format_text(i < list->count ? list->items[i] : "", value, sizeof(value));
        visit(arg, setting->name, value);
    }
}

void base_settings_dump(const struct base_settings *settings,
                        void (*visit)(void *arg, const char *name, const char *value), void *arg)
{
    char value[BASE_SETTINGS_VALUE_ROOM];
    for (size_t i = 0; i < settings->count; i++) {
        const struct base_setting *setting = &settings->table[i];
        if ((setting->flags & BASE_SETTING_REFUSED) != 0)
            continue;
        if (setting->type == BASE_SETTING_REPEATED)
            dump_repeated(setting, (const void *)((const uint8_t *)settings->options + setting->offset),
                          visit, arg);
        else
            visit(arg, setting->name, base_settings_format_value(settings, setting, value, sizeof(value)));
    }
}
