/*
 * Any bytes as a configuration file or as a command line: the parser reads and writes nothing it must not, a
 * refusal is one clean sentence, an accepted value keeps its bounds, and a dump parses to the same
 * values again.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/base.h"

struct options {
    bool cache;
    bool direct;
    uint64_t port;
    uint64_t memory;
    uint64_t timeout;
    const char *listen;
    const char *name;
    unsigned sync;
    struct base_setting_list data;
    struct base_setting_list stores;
};

#define PORT_MAX             65535
#define MEMORY_MIN           (1 << 20)
#define TIMEOUT_MAX          (3600 * BASE_NS_PER_SECOND)
#define LISTEN_MAX           40
#define DATA_MAX             5
#define DUMP_ROOM            (16 * BASE_SETTINGS_VALUE_ROOM)
#define ARGUMENTS            64
#define ROUND_TRIP_BYTES_MAX 200 /* longer values may be cut in a dump */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const sync_choices[] = {"always", "batch", "never", NULL};

static const struct base_setting table[] = {
    {.name = "cache",
     .type = BASE_SETTING_BOOL,
     .letter = 'c',
     .help = "",
     .offset = offsetof(struct options, cache)},
    {.name = "direct",
     .type = BASE_SETTING_BOOL,
     .default_text = "yes",
     .help = "",
     .offset = offsetof(struct options, direct)},
    {.name = "port",
     .type = BASE_SETTING_UINT,
     .letter = 'p',
     .min = 1,
     .max = PORT_MAX,
     .default_text = "11211",
     .help = "",
     .offset = offsetof(struct options, port)},
    {.name = "memory",
     .type = BASE_SETTING_SIZE,
     .letter = 'm',
     .min = MEMORY_MIN,
     .default_text = "1G",
     .help = "",
     .offset = offsetof(struct options, memory)},
    {.name = "timeout",
     .type = BASE_SETTING_DURATION,
     .max = TIMEOUT_MAX,
     .default_text = "30s",
     .help = "",
     .offset = offsetof(struct options, timeout)},
    {.name = "listen",
     .type = BASE_SETTING_STRING,
     .letter = 'l',
     .max = LISTEN_MAX,
     .help = "",
     .offset = offsetof(struct options, listen)},
    {.name = "name", .type = BASE_SETTING_STRING, .help = "", .offset = offsetof(struct options, name)},
    {.name = "sync",
     .type = BASE_SETTING_ENUM,
     .choices = sync_choices,
     .help = "",
     .offset = offsetof(struct options, sync)},
    {.name = "data",
     .type = BASE_SETTING_LIST,
     .letter = 'd',
     .max = DATA_MAX,
     .help = "",
     .offset = offsetof(struct options, data)},
    {.name = "store",
     .type = BASE_SETTING_REPEATED,
     .letter = 's',
     .max = DATA_MAX,
     .help = "",
     .offset = offsetof(struct options, stores)},
};

static void check_values(const struct options *options)
{
    base_assert(options->port >= 1 && options->port <= PORT_MAX);
    base_assert(options->memory >= MEMORY_MIN);
    base_assert(options->timeout <= TIMEOUT_MAX);
    base_assert(options->listen == NULL || strlen(options->listen) <= LISTEN_MAX);
    base_assert(options->sync < 3);
    base_assert(options->data.count <= DATA_MAX);
    for (size_t i = 0; i < options->data.count; i++)
        base_assert(options->data.items[i][0] != '\0' && strchr(options->data.items[i], ',') == NULL);
    base_assert(options->stores.count <= DATA_MAX);
    for (size_t i = 0; i < options->stores.count; i++)
        base_assert(options->stores.items[i][0] != '\0');
}

static void check_sentence(const char *error, size_t room)
{
    size_t len = strnlen(error, room);
    base_assert(len > 0 && len < room);
    for (size_t i = 0; i < len; i++)
        base_assert((uint8_t)error[i] >= 0x20 && error[i] != 0x7f);
}

static void append_line(void *arg, const char *name, const char *value)
{
    char *text = arg;
    size_t used = strlen(text);
    int printed = snprintf(text + used, DUMP_ROOM - used, "%s = %s\n", name, value);
    base_assert(printed > 0 && (size_t)printed < DUMP_ROOM - used);
}

static void check_round_trip(const struct base_settings *settings)
{
    char *first = calloc(2, DUMP_ROOM);
    char *second = first + DUMP_ROOM;
    char error[BASE_SETTINGS_ERROR_ROOM];
    struct options options;
    struct base_settings again = {settings->table, settings->count, &options, settings->arena};
    base_settings_dump(settings, append_line, first);
    base_assert(base_settings_set_defaults(&again, error, sizeof(error)) == 0);
    base_assert(base_settings_parse_file_text(&again, "dump", first, strlen(first), error, sizeof(error)) ==
                0);
    base_settings_dump(&again, append_line, second);
    base_assert(strcmp(first, second) == 0);
    free(first);
}

/* Words end at zero bytes; each lies in memory of its own. */
static int parse_words(const struct base_settings *settings, char **words, const char *text, size_t len,
                       char *error, size_t room)
{
    const char *positional[ARGUMENTS];
    size_t count = 0;
    int argc = 0;
    for (size_t at = 0; at < len && argc < ARGUMENTS; argc++) {
        size_t word_len = strnlen(text + at, len - at);
        words[argc] = strndup(text + at, word_len);
        at += word_len + 1;
    }
    int result = base_settings_parse_arguments(settings, argc, words, positional, &count, error, room);
    base_assert(result != 0 || count <= (size_t)argc);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct base_account account;
    struct base_settings_arena arena;
    struct options options;
    struct base_settings settings = {table, base_array_count(table), &options, &arena};
    char *words[ARGUMENTS] = {NULL};
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    base_settings_arena_init(&arena, &account);
    /* The first byte chooses the kind of input, the second the room for the sentence. */
    size_t room = 1 + data[1];
    char *error = malloc(room);
    char *text = malloc(size - 2);
    memcpy(text, data + 2, size - 2);
    int result = base_settings_set_defaults(&settings, error, room);
    base_assert(result == 0);
    if (data[0] % 2 == 0)
        result = base_settings_parse_file_text(&settings, "fuzz.conf", text, size - 2, error, room);
    else
        result = parse_words(&settings, words, text, size - 2, error, room);
    base_assert(result == 0 || result == -EINVAL);
    if (result != 0 && room > 1)
        check_sentence(error, room);
    check_values(&options);
    if (size < ROUND_TRIP_BYTES_MAX)
        check_round_trip(&settings);
    for (size_t i = 0; i < ARGUMENTS; i++)
        free(words[i]);
    free(text);
    free(error);
    base_settings_arena_deinit(&arena);
    base_account_deinit(&account);
    return 0;
}
