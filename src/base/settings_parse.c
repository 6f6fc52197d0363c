/* Settings from a command line and from a configuration file. */
#include <errno.h>

#include "base/log.h"
#include "base/settings.h"
#include "base/settings_internal.h"

/* The command line while it is read. */
struct arguments {
    const struct base_settings *settings;
    char *const *argv;
    int argc;
    int next; /* not yet looked at */
    char *error;
    size_t room;
};

static int fail_needs_value(struct arguments *arguments, const char *option)
{
    return base_settings_fail(arguments->error, arguments->room, "%s needs a value", option);
}

static int store_next(struct arguments *arguments, const struct base_setting *setting, const char *option)
{
    if (arguments->next == arguments->argc)
        return fail_needs_value(arguments, option);
    return base_settings_store(arguments->settings, setting, arguments->argv[arguments->next++],
                               arguments->error, arguments->room);
}

/* --name=value, --name value, --flag, --no-flag */
static int parse_long(struct arguments *arguments, const char *argument)
{
    char name[BASE_SETTING_NAME_MAX + sizeof("no-")];
    const char *text = argument + 2;
    size_t len = strcspn(text, "=");
    const char *value = text[len] == '=' ? text + len + 1 : NULL;
    snprintf(name, sizeof(name), "%.*s", (int)base_min(len, sizeof(name)), text);
    if (len >= sizeof(name))
        return base_settings_fail_unknown(arguments->settings, "--", text, arguments->error, arguments->room);
    const struct base_setting *setting = base_settings_find(arguments->settings, name);
    bool negated = setting == NULL && strncmp(name, "no-", 3) == 0;
    if (negated)
        setting = base_settings_find(arguments->settings, name + 3);
    if (setting == NULL)
        return base_settings_fail_unknown(arguments->settings, negated ? "--no-" : "--",
                                          negated ? name + 3 : name, arguments->error, arguments->room);
    if (negated && setting->type != BASE_SETTING_BOOL)
        return base_settings_fail(arguments->error, arguments->room, "--%s: %s cannot be switched off", name,
                                  setting->name);
    if (negated && value != NULL)
        return base_settings_fail(arguments->error, arguments->room, "--%s takes no value", name);
    if (value == NULL && setting->type == BASE_SETTING_BOOL)
        value = negated ? "no" : "yes";
    if (value == NULL)
        return store_next(arguments, setting, argument);
    return base_settings_store(arguments->settings, setting, value, arguments->error, arguments->room);
}

static const struct base_setting *find_letter(const struct base_settings *settings, char letter)
{
    for (size_t i = 0; i < settings->count; i++) {
        if (settings->table[i].letter == letter)
            return &settings->table[i];
    }
    return NULL;
}

/* -x value, -xvalue, -xyz (flags, of which the last may take a value) */
static int parse_short(struct arguments *arguments, const char *argument)
{
    for (const char *letter = argument + 1; *letter != '\0'; letter++) {
        const struct base_setting *setting = find_letter(arguments->settings, *letter);
        if (setting == NULL) {
            char shown[32];
            base_log_quote(shown, sizeof(shown), argument, strlen(argument));
            return base_settings_fail(arguments->error, arguments->room, "there is no option %s", shown);
        }
        if (setting->type != BASE_SETTING_BOOL) {
            char option[] = {'-', *letter, '\0'};
            return letter[1] == '\0' ? store_next(arguments, setting, option)
                                     : base_settings_store(arguments->settings, setting, letter + 1,
                                                           arguments->error, arguments->room);
        }
        int result =
            base_settings_store(arguments->settings, setting, "yes", arguments->error, arguments->room);
        if (result != 0)
            return result;
    }
    return 0;
}

int base_settings_parse_arguments(const struct base_settings *settings, int argc, char *const *argv,
                                  const char **ret_positional, size_t *ret_count, char *error, size_t room)
{
    struct arguments arguments = {settings, argv, argc, 0, error, room};
    size_t count = 0;
    bool options_ended = false;
    base_settings_begin(settings);
    while (arguments.next < argc) {
        const char *argument = argv[arguments.next++];
        int result = 0;
        if (options_ended || argument[0] != '-' || argument[1] == '\0')
            ret_positional[count++] = argument;
        else if (strcmp(argument, "--") == 0)
            options_ended = true;
        else if (argument[1] == '-')
            result = parse_long(&arguments, argument);
        else
            result = parse_short(&arguments, argument);
        if (result != 0)
            return result;
    }
    *ret_count = count;
    return 0;
}

/* One line of a file, without its end. */
struct line {
    const char *at;
    const char *end;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void skip_spaces(struct line *line)
{
    while (line->at < line->end && is_space(*line->at))
        line->at++;
}

static bool is_comment_or_end(const struct line *line)
{
    return line->at == line->end || *line->at == '#';
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The character that an escape stands for, moved past; 0 if it is none (or one for a zero byte). */
static char parse_escape(struct line *line)
{
    static const char names[] = "\"\\nrt";
    static const char values[] = "\"\\\n\r\t";
    char c = line->at < line->end ? *line->at++ : '\0';
    if (c == 'x' && line->end - line->at >= 2) {
        int high = hex_digit(line->at[0]);
        int low = hex_digit(line->at[1]);
        int code = high < 0 || low < 0 ? 0 : 16 * high + low;
        line->at += 2;
        return (char)code;
    }
    const char *name = c == '\0' ? NULL : strchr(names, c);
    return name == NULL ? '\0' : values[name - names];
}

/* The inside of quotes, written over `to`, which has room for the whole line; NULL or what is wrong. */
static const char *parse_quoted(struct line *line, char *to)
{
    for (line->at++; line->at < line->end && *line->at != '"';) {
        char c = *line->at++;
        if (c == '\\') {
            c = parse_escape(line);
            if (c == '\0')
                return "an unknown escape in the quotes";
        }
        *to++ = c;
    }
    *to = '\0';
    if (line->at == line->end)
        return "a quote that is not closed";
    line->at++;
    skip_spaces(line);
    return is_comment_or_end(line) ? NULL : "something behind the closing quote";
}

static void parse_plain(struct line *line, char *to)
{
    char *end = to;
    bool after_space = true;
    for (; line->at < line->end && !(*line->at == '#' && after_space); line->at++) {
        after_space = is_space(*line->at);
        *to++ = *line->at;
        if (!after_space)
            end = to;
    }
    *end = '\0';
}

/* `name = value`; NULL or what is wrong with the form. */
static const char *split_line(struct line *line, char *name, size_t name_room, char *value)
{
    const char *begin = line->at;
    while (line->at < line->end && *line->at != '=' && !is_space(*line->at) && *line->at != '#')
        line->at++;
    size_t len = (size_t)(line->at - begin);
    skip_spaces(line);
    if (len == 0 || line->at == line->end || *line->at != '=')
        return "a line must be: name = value";
    line->at++;
    skip_spaces(line);
    /* A name that does not fit is unknown, and shown as far as it fits. */
    len = base_min(len, name_room - 1);
    memcpy(name, begin, len);
    name[len] = '\0';
    if (line->at < line->end && *line->at == '"')
        return parse_quoted(line, value);
    parse_plain(line, value);
    return NULL;
}

static int parse_line(const struct base_settings *settings, struct line line, char *error, size_t room)
{
    skip_spaces(&line);
    if (is_comment_or_end(&line))
        return 0;
    if (memchr(line.at, '\0', (size_t)(line.end - line.at)) != NULL)
        return base_settings_fail(error, room, "the line has a zero byte");
    char name[BASE_SETTING_NAME_MAX + 2];
    /* A value is shorter than its line; the copy is what the options keep. */
    char *value = base_settings_arena_copy(settings->arena, line.at, (size_t)(line.end - line.at));
    if (value == NULL) {
        base_settings_fail(error, room, "out of memory for settings");
        return -ENOMEM;
    }
    const char *wrong = split_line(&line, name, sizeof(name), value);
    if (wrong != NULL)
        return base_settings_fail(error, room, "%s", wrong);
    const struct base_setting *setting = base_settings_find(settings, name);
    if (setting == NULL)
        return base_settings_fail_unknown(settings, "", name, error, room);
    if ((setting->flags & BASE_SETTING_COMMAND_ONLY) != 0)
        return base_settings_fail(error, room, "%s belongs on the command line, not in a file", name);
    return base_settings_store(settings, setting, value, error, room);
}

int base_settings_parse_file_text(const struct base_settings *settings, const char *file_name,
                                  const char *text, size_t len, char *error, size_t room)
{
    const char *end = text + len;
    base_settings_begin(settings);
    for (unsigned number = 1; text < end; number++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        struct line line = {text, newline == NULL ? end : newline};
        char what[BASE_SETTINGS_ERROR_ROOM];
        int result = parse_line(settings, line, what, sizeof(what));
        if (result != 0) {
            base_settings_fail(error, room, "%s:%u: %s", file_name, number, what);
            return result;
        }
        text = newline == NULL ? end : newline + 1;
    }
    return 0;
}

static int read_file(const char *path, char *text, size_t room, size_t *ret_len)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -errno;
    size_t len = fread(text, 1, room, file);
    int result = ferror(file) ? (errno == 0 ? -EIO : -errno) : len == room ? -EFBIG : 0;
    fclose(file);
    if (result == 0)
        *ret_len = len;
    return result;
}

int base_settings_parse_file(const struct base_settings *settings, const char *path, char *error, size_t room)
{
    struct base_account *account = settings->arena->account;
    size_t text_room = BASE_SETTINGS_FILE_BYTES_MAX + 1;
    char *text = base_alloc(account, text_room);
    if (text == NULL) {
        base_settings_fail(error, room, "out of memory for settings");
        return -ENOMEM;
    }
    size_t len = 0;
    int result = read_file(path, text, text_room, &len);
    if (result == 0)
        result = base_settings_parse_file_text(settings, path, text, len, error, room);
    else
        base_settings_fail(error, room, "cannot read %s: %s", path, strerrordesc_np(-result));
    base_free(account, text, text_room);
    return result;
}
