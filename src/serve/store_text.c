/* Texts of stores, as in --store: reading and checking them. */
#include "base/log.h"
#include "serve/serve_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_BYTES       80
#define TREE_MEMORY_USUAL (UINT64_C(1) << 30) /* the most that a tree takes, where nothing is said */

#define AT(field) .offset = offsetof(struct serve_store_options, field)

const char *const serve_kind_names[SERVE_KINDS] = {
    [SERVE_DEPOT] = "depot", [SERVE_CACHE] = "cache", [SERVE_HASH] = "hash", [SERVE_TREE] = "tree"};

/* The options of a store; an empty path or a size of 0 is refused. */
static const struct base_setting table[] = {
    {.name = "path", .type = BASE_SETTING_REPEATED, .help = "", AT(paths)},
    {.name = "size", .type = BASE_SETTING_SIZE, .min = UINT64_C(1) << 20, .help = "", AT(size_bytes)},
    {.name = "dump", .type = BASE_SETTING_STRING, .min = 1, .help = "", AT(dump)},
    {.name = "memory", .type = BASE_SETTING_SIZE, .min = UINT64_C(1) << 20, .help = "", AT(memory_bytes)},
    {.name = "partitions", .type = BASE_SETTING_UINT, .min = 1, .max = 256, .help = "", AT(partitions)},
    {.name = "item",
     .type = BASE_SETTING_SIZE,
     .min = 1,
     .max = UINT64_C(1) << 30,
     .help = "",
     AT(item_bytes)},
    {.name = "port", .type = BASE_SETTING_UINT, .max = UINT16_MAX, .help = "", AT(port)},
    {.name = "unix", .type = BASE_SETTING_STRING, .min = 1, .help = "", AT(unix_path)},
};

/* The kind of store that has an option which this kind has not. @return NULL: it has it, or nobody has */
static const char *find_owner(enum serve_kind kind, const char *name)
{
    static const struct {
        const char *name, *owner;
        bool has[SERVE_KINDS];
    } owned[] = {{"path", "depot", {[SERVE_DEPOT] = true, [SERVE_TREE] = true}},
                 {"size", "depot", {[SERVE_DEPOT] = true, [SERVE_TREE] = true}},
                 {"dump", "depot", {[SERVE_DEPOT] = true}},
                 {"memory", "cache", {[SERVE_CACHE] = true, [SERVE_TREE] = true}},
                 {"partitions", "cache", {[SERVE_CACHE] = true}},
                 {"item", "cache", {[SERVE_CACHE] = true}}};
    for (size_t i = 0; i < base_array_count(owned); i++) {
        if (strcmp(owned[i].name, name) == 0)
            return owned[i].has[kind] ? NULL : owned[i].owner;
    }
    return NULL;
}

/* Cut a text at its first comma without a backslash. @return the text behind it; NULL: there is no such comma */
static char *cut_at_comma(char *text)
{
    while (*text != '\0' && *text != ',')
        text += text[0] == '\\' && text[1] == ',' ? 2 : 1;
    if (*text == '\0')
        return NULL;
    *text = '\0';
    return text + 1;
}

/* Remove the backslashes before commas. */
static void drop_backslashes(char *text)
{
    char *to = text;
    for (; *text != '\0'; text++) {
        if (text[0] != '\\' || text[1] != ',')
            *to++ = *text;
    }
    *to = '\0';
}

/* Read an option NAME=VALUE. Paths keep their backslashes, because the drive layer reads a list itself. */
static int read_option(const struct base_settings *settings, char *option, char *error, size_t room)
{
    struct serve_store_options *store = settings->options;
    char *value = strchr(option, '='), what[BASE_SETTINGS_ERROR_ROOM];
    if (value == NULL)
        return base_settings_fail(error, room,
                                  "store %s: \"%s\" is no option: they are NAME=VALUE, with commas between",
                                  store->name, option);
    *value++ = '\0';
    const char *owner = store->kind == SERVE_HASH ? NULL : find_owner(store->kind, option);
    if (owner != NULL)
        return base_settings_fail(error, room, "store %s: only a %s has the option %s", store->name, owner,
                                  option);
    if (strcmp(option, "path") != 0)
        drop_backslashes(value);
    int result = base_settings_set(settings, option, value, what, sizeof(what));
    return result == 0 ? 0 : base_settings_fail(error, room, "store %s: %s", store->name, what);
}

static int join_paths(struct serve_store_options *store, char *error, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < store->paths.count;
         i++) /* together they are shorter than the text that they come from */
        used += (size_t)snprintf(store->joined + used, sizeof(store->joined) - used, "%s%s",
                                 i == 0 ? "" : ",", store->paths.items[i]);
    store->path = store->joined;
    if (used == 0)
        return base_settings_fail(
            error, room, "store %s: where is it? Name a file or a device with path=FILE", store->name);
    return 0;
}

/* Whether an option is one of the URL of a hash store, as all are but the places of memcached's clients. */
static bool is_of_url(const struct serve_store_options *store, const char *option)
{
    return store->kind == SERVE_HASH && strncmp(option, "port=", 5) != 0 && strncmp(option, "unix=", 5) != 0;
}

/* Add to the URL of a hash store, which is no longer than the text that it comes from. */
static void add_to_url(struct serve_store_options *store, const char *separator, const char *text)
{
    const size_t used = strlen(store->joined);
    (void)snprintf(store->joined + used, sizeof(store->joined) - used, "%s%s", separator, text);
}

static int check_url(struct serve_store_options *store, char *error, size_t room)
{
    const char *wrong = kv_url_wrong(store->joined);
    if (wrong != NULL)
        return base_settings_fail(error, room, "store %s: %s", store->name, wrong);
    store->url = store->joined;
    store->memory_bytes = kv_url_memory(store->url);
    return 0;
}

static int read_options(struct serve_store_options *store, char *rest, char *error, size_t room)
{
    char *fabric = store->kind == SERVE_HASH && rest != NULL ? strchr(rest, '?') : NULL;
    const struct base_settings settings = {
        .table = table, .count = base_array_count(table), .options = store};
    int result = base_settings_set_defaults(&settings, error, room);
    store->port = SERVE_NO_PORT;
    if (fabric != NULL)
        *fabric++ = '\0';
    if (store->kind == SERVE_HASH)
        add_to_url(store, "", "hash:");
    for (bool is_first = true; result == 0 && rest != NULL;) {
        char *option = rest;
        rest = cut_at_comma(option);
        if (is_of_url(store, option)) {
            add_to_url(store, is_first ? "" : ",", option);
            is_first = false;
        } else {
            result = read_option(&settings, option, error, room);
        }
    }
    if (fabric != NULL)
        add_to_url(store, "?", fabric);
    if (result == 0 && (store->kind == SERVE_DEPOT || store->kind == SERVE_TREE))
        result = join_paths(store, error, room);
    else if (result == 0 && store->kind == SERVE_HASH)
        result = check_url(store, error, room);
    else if (result == 0 && store->memory_bytes == 0)
        result = base_settings_fail(error, room, "store %s: how much memory does it take? Say memory=SIZE",
                                    store->name);
    if (store->kind == SERVE_TREE && store->memory_bytes == 0)
        store->memory_bytes = TREE_MEMORY_USUAL;
    return result;
}

int serve_store_read(const char *text, struct serve_store_options *ret_store, char *error, size_t room)
{
    char shown[SHOWN_BYTES];
    const size_t len = strlen(text);
    (void)base_log_quote(shown, sizeof(shown), text, len);
    if (len >= sizeof(ret_store->text))
        return base_settings_fail(error, room, "store %s: the text is longer than %zu bytes", shown,
                                  sizeof(ret_store->text) - 1);
    *ret_store = (struct serve_store_options){.kind = SERVE_DEPOT};
    memcpy(ret_store->text, text, len + 1);
    for (size_t i = 0; i < len; i++) {
        if ((uint8_t)text[i] < ' ' || text[i] == 0x7f)
            return base_settings_fail(error, room, "store %s: there is a control character in it", shown);
    }
    char *kind = strchr(ret_store->text, ':');
    if (kind == NULL || !base_name_is_good(ret_store->text, (size_t)(kind - ret_store->text)))
        return base_settings_fail(error, room,
                                  "store %s: it is NAME:depot,path=FILE, NAME:cache,memory=SIZE, "
                                  "NAME:hash,memory=SIZE or NAME:tree,path=FILE; a name has 1 to %d "
                                  "letters, digits, '-', '_' and '.'",
                                  shown, KV_NAME_MAX);
    *kind++ = '\0';
    memcpy(ret_store->name, ret_store->text, strlen(ret_store->text) + 1);
    char *rest = cut_at_comma(kind);
    if (strcmp(kind, "cache") == 0)
        ret_store->kind = SERVE_CACHE;
    else if (strcmp(kind, "hash") == 0)
        ret_store->kind = SERVE_HASH;
    else if (strcmp(kind, "tree") == 0)
        ret_store->kind = SERVE_TREE;
    else if (strcmp(kind, "depot") != 0)
        return base_settings_fail(
            error, room,
            "store %s: there is no such kind: a depot keeps what it is given on a drive, a "
            "cache some of it in memory, a hash store all of it in memory, a tree all of it, in order, in "
            "both",
            shown);
    return read_options(ret_store, rest, error, room);
}

static bool has_data(const struct serve_options *options)
{
    return options->data != NULL && options->data[0] != '\0';
}

/* Whether the options have the store `default`, by --data or --memory-limit. */
static bool has_default(const struct serve_options *options)
{
    return has_data(options) || options->memory_limit_mib != 0;
}

bool serve_evicts(const struct serve_options *options, const struct serve_store_options *store)
{
    return store->kind == SERVE_CACHE || (options->cache && store->kind == SERVE_DEPOT);
}

uint32_t serve_stores_named(const struct serve_options *options)
{
    return (uint32_t)(options->stores.count + (has_default(options) ? 1 : 0));
}

int serve_store_at(const struct serve_options *options, uint32_t place, struct serve_store_options *ret_store,
                   char *error, size_t room)
{
    char text[64];
    if (!has_default(options))
        return serve_store_read(options->stores.items[place], ret_store, error, room);
    if (place > 0)
        return serve_store_read(options->stores.items[place - 1], ret_store, error, room);
    if (!has_data(options)) {
        (void)snprintf(text, sizeof(text), "default:cache,memory=%" PRIu64 "M", options->memory_limit_mib);
        return serve_store_read(text, ret_store, error, room);
    }
    *ret_store = (struct serve_store_options){
        .name = "default", .kind = SERVE_DEPOT, .path = options->data, .port = SERVE_NO_PORT};
    return 0;
}
