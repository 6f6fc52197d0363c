/* URLs of stores: their kinds, their parts, and the faults that a URL can have. kv.c opens the store. */
#include "hash/hash.h"
#include "kv/kv_internal.h"
#include "tree/store.h"
#include <errno.h>
#include <stddef.h>
#include <string.h>

#define OPTION_ROOM 64

static int log_refusal(struct base_log *log, const char *url, const char *reason)
{
    char quoted[BASE_LOG_ROOM_MIN];
    base_error(log, "cannot use a store's URL", "url=%s reason=\"%s\"",
               base_log_quote(quoted, sizeof(quoted), url, strlen(url)), reason);
    return -EINVAL;
}

/* ---- cache: and hash: --------------------------------------------------------------------------- */

enum option_type { SIZE, COUNT, TEXT };

/* An option NAME=VALUE, and its place in a URL's parts. */
struct option {
    const char *name;
    enum option_type type;
    size_t offset, room; /* room: of a text */
};

#define AT(field) offsetof(struct kv_url, field), sizeof(((struct kv_url *)NULL)->field)

static const struct option cache_options[] = {{"memory", SIZE, AT(memory_bytes)},
                                              {"partitions", COUNT, AT(partitions)},
                                              {"item", SIZE, AT(item_bytes)},
                                              {.name = NULL}};
static const struct option hash_options[] = {
    {"memory", SIZE, AT(memory_bytes)}, {"slots", COUNT, AT(slots)},
    {"ranks", COUNT, AT(ranks)},        {"filter", COUNT, AT(filter_bits)},
    {"space", TEXT, AT(masters)},       {"namespace", TEXT, AT(space_namespace)},
    {"store", TEXT, AT(name)},          {"secret", TEXT, AT(secret_path)},
    {"node", TEXT, AT(node)},           {.name = NULL}};

static const struct option tree_options[] = {
    {"path", TEXT, AT(tree_path)}, {"memory", SIZE, AT(memory_bytes)}, {.name = NULL}};

/* Copy a text without the backslashes before its commas. @return NULL; what is wrong */
static const char *copy_text(const char *from, size_t len, char *to, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < len; i++) {
        if (from[i] == '\\' && i + 1 < len && from[i + 1] == ',')
            i++;
        if (used + 1 >= room)
            return "an option is too long";
        to[used++] = from[i];
    }
    to[used] = '\0';
    return used == 0 ? "an option has no value" : NULL;
}

/* @param form  how a URL of this kind looks @return NULL; what is wrong */
static const char *read_option(const char *text, size_t len, const struct option *options, const char *form,
                               struct kv_url *url)
{
    const char *equals = memchr(text, '=', len);
    const size_t name_len = equals == NULL ? len : (size_t)(equals - text);
    char number[OPTION_ROOM];
    while (options->name != NULL &&
           (strlen(options->name) != name_len || memcmp(options->name, text, name_len) != 0))
        options++;
    if (options->name == NULL || equals == NULL)
        return form;
    void *to = (uint8_t *)url + options->offset;
    const bool is_text = options->type == TEXT;
    const char *wrong = copy_text(equals + 1, len - name_len - 1, is_text ? to : number,
                                  is_text ? options->room : sizeof(number));
    if (wrong != NULL || is_text)
        return wrong;
    uint64_t *value = to;
    const int error = options->type == SIZE ? base_parse_size(number, value) : base_parse_u64(number, value);
    if (error == 0 && *value != 0)
        return NULL;
    return options->type == SIZE ? "memory and item take a size, as in 64M"
                                 : "partitions, slots, ranks and filter take a number from 1 on";
}

/* @return NULL; what is wrong */
static const char *read_options(const char *text, const char *end, const struct option *options,
                                const char *form, struct kv_url *url)
{
    const char *wrong = NULL;
    while (wrong == NULL && text < end) {
        size_t len = 0;
        while (text + len < end && text[len] != ',')
            len += text[len] == '\\' && text + len + 1 < end ? 2 : 1;
        wrong = read_option(text, len, options, form, url);
        text += len + 1;
        if (wrong == NULL && text == end)
            wrong = "an option is missing behind the last comma";
    }
    return wrong;
}

static const char *read_cache(const char *text, struct kv_url *url)
{
    url->partitions = 1;
    const char *wrong = read_options(text, text + strlen(text), cache_options,
                                     "a cache is named as cache:memory=SIZE[,partitions=N][,item=SIZE]", url);
    if (wrong == NULL && url->memory_bytes == 0)
        wrong = "say how much memory the cache takes: cache:memory=SIZE";
    if (wrong == NULL && (url->partitions > KV_PARTITIONS_MAX || url->item_bytes > UINT32_MAX))
        wrong = "a cache has 1 to 256 partitions, and items of less than 4 GiB";
    return wrong;
}

static const char *read_tree(const char *text, struct kv_url *url)
{
    const char *wrong = read_options(text, text + strlen(text), tree_options,
                                     "an ordered store is named as tree:path=PATH[,memory=SIZE]", url);
    if (wrong == NULL && url->tree_path[0] == '\0')
        wrong = "say where the ordered store remembers its records: tree:path=PATH";
    if (wrong == NULL && url->memory_bytes != 0 && url->memory_bytes < TREE_STORE_BYTES_MIN)
        wrong = "an ordered store takes 8M of memory, or more";
    return wrong;
}

/* @return NULL; what is wrong */
static const char *check_hash(const struct kv_url *url)
{
    const bool is_shared = url->masters[0] != '\0';
    if (is_shared != (url->space_namespace[0] != '\0') || is_shared != (url->name[0] != '\0') ||
        (!is_shared && (url->secret_path[0] != '\0' || url->node[0] != '\0')))
        return "a hash store of a space is named as "
               "hash:space=ADDRESS,namespace=NAME,store=NAME[,secret=FILE][,node=NAME]";
    if (strlen(url->name) > HASH_NAME_MAX)
        return "a hash store's name has 1 to 32 letters, digits, '-', '_' and '.'";
    if (!is_shared && url->fabric != NULL)
        return "a hash store of this process alone uses no fabric";
    if (!is_shared && url->memory_bytes < KV_HASH_BYTES_MIN)
        return "say how much memory the hash store takes, 1M or more: hash:memory=SIZE";
    if (url->memory_bytes == 0 && (url->slots != 0 || url->ranks != 0 || url->filter_bits != 0))
        return "slots, ranks and filter are of a store that is made: say memory=SIZE, too";
    if (url->ranks > HASH_RANKS_MAX || url->filter_bits > HASH_FILTER_BITS_MAX)
        return "a hash store has 2 to 8 ranks, and a filter of at most 11 bits";
    return NULL;
}

/* Masters may be named as `tarn space` has them, too, with unix: or tarn:// before each address. */
static void skip_schemes_of_masters(struct kv_url *url)
{
    static const char *const schemes[] = {"unix:", "tarn://"};
    static const char *const fabrics[] = {"shm:", "tcp:"};
    const char *from = url->masters;
    char *to = url->masters;
    do {
        for (unsigned i = 0; i < base_array_count(schemes); i++) {
            if (strncmp(from, schemes[i], strlen(schemes[i])) != 0)
                continue;
            from += strlen(schemes[i]);
            url->fabric = url->fabric == NULL ? fabrics[i] : url->fabric;
            break;
        }
        const size_t len = strcspn(from, ",") + 1;
        memmove(to, from, len);
        from += len;
        to += len;
    } while (to[-1] == ',');
}

static const char *read_hash(const char *text, struct kv_url *url)
{
    const char *mark = strchr(text, '?');
    url->fabric = mark == NULL ? NULL : mark + 1;
    const char *wrong =
        read_options(text, mark == NULL ? text + strlen(text) : mark, hash_options,
                     "a hash store is named as hash:memory=SIZE[,slots=N][,ranks=N][,filter=N], or as "
                     "hash:space=ADDRESS,namespace=NAME,store=NAME[,secret=FILE][,node=NAME][,memory=SIZE…]",
                     url);
    skip_schemes_of_masters(url);
    return wrong == NULL ? check_hash(url) : wrong;
}

/* ---- servers ------------------------------------------------------------------------------------ */

/* Copy the next address of a list, without the backslashes before its commas. @return number of bytes that it takes in the
 * text; *ret_len is KV_ADDRESS_ROOM or more if it is too long */
static size_t next_address(const char *text, size_t bytes, char *ret_address, size_t *ret_len)
{
    size_t at = 0, len = 0;
    for (; at < bytes && text[at] != ','; at++) {
        if (text[at] == '\\' && at + 1 < bytes && text[at + 1] == ',')
            at++;
        if (len < KV_ADDRESS_ROOM - 1)
            ret_address[len] = text[at];
        len++;
    }
    ret_address[base_min(len, (size_t)KV_ADDRESS_ROOM - 1)] = '\0';
    *ret_len = len;
    return at;
}

void kv_url_server(const struct kv_url *url, uint32_t place, char *ret_address)
{
    size_t at = 0, len;
    for (uint32_t i = 0; i <= place; i++)
        at += next_address(url->addresses + at, url->addresses_len - at, ret_address, &len) + 1;
}

/* @return NULL; what is wrong */
static const char *read_addresses(struct kv_url *url)
{
    char address[KV_ADDRESS_ROOM], other[KV_ADDRESS_ROOM];
    size_t at = 0, len;
    do {
        at += next_address(url->addresses + at, url->addresses_len - at, address, &len) + 1;
        if (len == 0)
            return "an address is missing between two commas";
        if (len >= KV_ADDRESS_ROOM)
            return "the address is too long";
        if (url->servers == KV_SERVERS_MAX)
            return "a store has 64 servers at most";
        for (uint32_t i = 0; i < url->servers; i++) {
            kv_url_server(url, i, other);
            if (strcmp(address, other) == 0)
                return "a server is named twice";
        }
        url->servers++;
    } while (at <= url->addresses_len);
    return NULL;
}

/* @return the text behind a scheme; NULL: it has another scheme */
static const char *skip_scheme(const char *text, const char *scheme)
{
    const size_t len = strlen(scheme);
    return strncmp(text, scheme, len) == 0 ? text + len : NULL;
}

static const char *read_server(const char *text, struct kv_url *url)
{
    const char *mark = url->scheme == KV_TARN ? strchr(text, '?') : NULL;
    const size_t len = mark == NULL ? strlen(text) : (size_t)(mark - text);
    const char *slash = memrchr(text, '/', len);
    if (slash == NULL || slash == text)
        return url->scheme == KV_TARN ? "a server's store is named as tarn://HOST:PORT[,HOST:PORT…]/STORE"
                                      : "a server's store is named as unix:PATH[,PATH…]/STORE";
    const size_t name_len = len - (size_t)(slash + 1 - text);
    if (!base_name_is_good(slash + 1, name_len))
        return "a store's name has 1 to 63 letters, digits, '-', '_' and '.'";
    if (mark != NULL && skip_scheme(mark + 1, "tcp:") == NULL && skip_scheme(mark + 1, "verbs:") == NULL)
        return "behind the ? stands tcp: or verbs:, with its options";
    url->fabric = mark == NULL ? NULL : mark + 1;
    memcpy(url->name, slash + 1, name_len);
    url->name[name_len] = '\0';
    url->addresses = text;
    url->addresses_len = (size_t)(slash - text);
    return read_addresses(url);
}

/* ---- all ---------------------------------------------------------------------------------------- */

/* @return NULL; what is wrong */
static const char *read_url(const char *url, struct kv_url *ret_url)
{
    const size_t letters = strspn(url, "abcdefghijklmnopqrstuvwxyz");
    struct kv_url parts = {.scheme = KV_FILE, .path = url};
    const char *wrong = NULL, *rest;
    if ((rest = skip_scheme(url, "file:")) != NULL) {
        parts.path = rest;
    } else if ((rest = skip_scheme(url, "cache:")) != NULL) {
        parts.scheme = KV_CACHE;
        wrong = read_cache(rest, &parts);
    } else if ((rest = skip_scheme(url, "hash:")) != NULL) {
        parts.scheme = KV_HASH;
        wrong = read_hash(rest, &parts);
    } else if ((rest = skip_scheme(url, "tree:")) != NULL) {
        parts.scheme = KV_TREE;
        wrong = read_tree(rest, &parts);
    } else if ((rest = skip_scheme(url, "tarn://")) != NULL) {
        parts.scheme = KV_TARN;
        wrong = read_server(rest, &parts);
    } else if ((rest = skip_scheme(url, "unix:")) != NULL) {
        parts.scheme = KV_UNIX;
        wrong = read_server(rest, &parts);
    } else if (letters >= 2 && url[letters] == ':') {
        wrong = "a store is named as file:PATH, cache:memory=SIZE, hash:memory=SIZE, tree:path=PATH, "
                "tarn://HOST:PORT/STORE or unix:PATH/STORE; a path with a colon as ./PATH";
    }
    if (wrong == NULL && parts.scheme == KV_FILE && parts.path[0] == '\0')
        wrong = "a store is named as file:PATH, and the path is missing";
    *ret_url = parts;
    return wrong;
}

int kv_url_read(struct base_log *log, const char *url, struct kv_url *ret_url)
{
    struct kv_url parts;
    const char *wrong = read_url(url, &parts);
    if (wrong != NULL)
        return log_refusal(log, url, wrong);
    *ret_url = parts;
    return 0;
}

uint64_t kv_url_memory(const char *url)
{
    struct kv_url parts;
    return read_url(url, &parts) == NULL && parts.masters[0] == '\0' ? parts.memory_bytes : 0;
}

const char *kv_url_wrong(const char *url)
{
    struct kv_url parts;
    return read_url(url, &parts);
}
