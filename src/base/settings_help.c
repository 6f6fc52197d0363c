/* Settings for people: the text of --help and the entries of the man page. */
#include "base/prose.h"
#include "base/settings.h"
#include "base/settings_internal.h"
#include "base/units.h"

#define TEXT_COLUMN 30
#define TEXT_ROOM   1024

static bool is_shown(const struct base_setting *setting)
{
    return (setting->flags & BASE_SETTING_HIDDEN) == 0;
}

/* A flag that is on unless switched off. */
static bool is_on_by_default(const struct base_setting *setting)
{
    return setting->type == BASE_SETTING_BOOL && setting->default_text != NULL &&
           strcmp(setting->default_text, "yes") == 0;
}

/* What stands for the value; "" for a flag. */
static const char *value_word(const struct base_setting *setting, char *buffer, size_t room)
{
    static const char *const words[] = {
        [BASE_SETTING_BOOL] = "",           [BASE_SETTING_UINT] = "N",        [BASE_SETTING_SIZE] = "SIZE",
        [BASE_SETTING_DURATION] = "TIME",   [BASE_SETTING_STRING] = "TEXT",   [BASE_SETTING_ENUM] = "",
        [BASE_SETTING_LIST] = "ITEM[,...]", [BASE_SETTING_REPEATED] = "ITEM",
    };
    if (setting->metavar != NULL || setting->type != BASE_SETTING_ENUM) {
        snprintf(buffer, room, "%s", setting->metavar != NULL ? setting->metavar : words[setting->type]);
        return buffer;
    }
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t i = 0; setting->choices[i] != NULL && used < room; i++)
        used += (size_t)snprintf(buffer + used, room - used, "%s%s", i == 0 ? "" : "|", setting->choices[i]);
    return buffer;
}

/* Append to a text of TEXT_ROOM bytes; what does not fit is left out. */
static void append(char *text, const char *before, const char *word, const char *after)
{
    size_t used = strlen(text);
    snprintf(text + used, TEXT_ROOM - used, "%s%s%s", before, word, after);
}

/* The help, and behind it in brackets the bounds and the default. */
static void describe_values(const struct base_setting *setting, char *text)
{
    bool numeric = setting->type == BASE_SETTING_UINT || setting->type == BASE_SETTING_SIZE ||
                   setting->type == BASE_SETTING_DURATION;
    char min[BASE_UNITS_ROOM], max[BASE_UNITS_ROOM];
    const char *separator = "";
    base_settings_format_number(setting->type, min, sizeof(min), setting->min);
    base_settings_format_number(setting->type, max, sizeof(max), setting->max);
    snprintf(text, TEXT_ROOM, "%s", setting->help);
    size_t help_len = strlen(text);
    if (numeric && setting->max != 0) {
        append(text, min, " to ", max);
        separator = "; ";
    } else if (numeric && setting->min != 0) {
        append(text, "at least ", min, "");
        separator = "; ";
    }
    if (separator[0] != '\0' && setting->unit != NULL)
        append(text, " ", setting->unit, "");
    const char *value = setting->default_text;
    if (value != NULL && value[0] != '\0' &&
        (setting->type != BASE_SETTING_BOOL || is_on_by_default(setting)))
        append(text, separator, "default ", value);
    size_t len = strlen(text);
    if (len == help_len || len + 4 > TEXT_ROOM)
        return;
    memmove(text + help_len + 2, text + help_len, len - help_len + 1);
    memcpy(text + help_len, " [", 2);
    append(text, "", "]", "");
}

void base_settings_print_help(const struct base_settings *settings, FILE *file)
{
    char text[TEXT_ROOM], word[128], option[256];
    for (size_t i = 0; i < settings->count; i++) {
        const struct base_setting *setting = &settings->table[i];
        if (!is_shown(setting))
            continue;
        value_word(setting, word, sizeof(word));
        snprintf(option, sizeof(option), "  %c%c%s --%s%s%s%s", setting->letter == 0 ? ' ' : '-',
                 setting->letter == 0 ? ' ' : setting->letter, setting->letter == 0 ? " " : ",",
                 is_on_by_default(setting) ? "[no-]" : "", setting->name, word[0] == '\0' ? "" : "=", word);
        size_t len = strlen(option);
        if (len + 2 <= TEXT_COLUMN)
            fprintf(file, "%-*s", TEXT_COLUMN, option);
        else
            fprintf(file, "%s\n%*s", option, TEXT_COLUMN, "");
        describe_values(setting, text);
        base_prose_print_words(text, strlen(text), TEXT_COLUMN, TEXT_COLUMN, file);
    }
}

/* Print text so that roff changes nothing in it. */
static void print_roff(const char *text, FILE *file)
{
    bool line_begins = true;
    for (; *text != '\0'; text++) {
        if (line_begins && (*text == '.' || *text == '\''))
            fputs("\\&", file);
        if (*text == '\\')
            fputs("\\e", file);
        else if (*text == '-')
            fputs("\\-", file);
        else
            fputc(*text, file);
        line_begins = *text == '\n';
    }
}

void base_settings_print_man(const struct base_settings *settings, FILE *file)
{
    char text[TEXT_ROOM], word[128];
    for (size_t i = 0; i < settings->count; i++) {
        const struct base_setting *setting = &settings->table[i];
        if (!is_shown(setting))
            continue;
        fputs(".TP\n", file);
        if (setting->letter != 0)
            fprintf(file, "\\fB\\-%c\\fR, ", setting->letter);
        fputs("\\fB\\-\\-", file);
        fputs(is_on_by_default(setting) ? "[no\\-]" : "", file);
        print_roff(setting->name, file);
        fputs("\\fR", file);
        if (value_word(setting, word, sizeof(word))[0] != '\0') {
            fputs("=\\fI", file);
            print_roff(word, file);
            fputs("\\fR", file);
        }
        fputc('\n', file);
        describe_values(setting, text);
        print_roff(text, file);
        fputc('\n', file);
    }
}
