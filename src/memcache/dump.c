/* Dumps of all keys, as memcached's tools ask for them: lru_crawler metadump, lru_crawler mgdump, stats cachedump. */
#include "kv/kv.h"
#include "memcache/base64.h"
#include "memcache/memcache_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* Room for a line: a key of memcached's clients, each byte of it as three characters, and numbers. */
#define LINE_ROOM (3 * MEMCACHE_KEY_BYTES_MAX + 256)
/* Keys that are shown before other tasks get their turn, because a store in memory never waits. */
#define KEYS_AT_ONCE 64
#define CLASSES_MAX  63 /* the most classes of memcached's slabs */

/* A form of a dump: the line of a key, and the text behind the last. */
struct form {
    /* @param line  room for LINE_ROOM @return its length; 0: this form cannot show the key */
    int (*print)(char *line, const uint8_t *key, size_t key_len, const struct tarn_record_info *info);
    const char *end;
};

struct dump {
    struct memcache_server *server;
    struct memcache_output *output;
    const struct form *form;
    uint64_t shown, limit; /* keys shown so far, and the most of them; a limit of 0: there is none */
};

/* ---- lines --------------------------------------------------------------------------------------- */

static bool is_unreserved(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~", c) != NULL);
}

/* @return bytes written, at most 3 for each byte of the key */
static size_t print_uri(char *to, const uint8_t *key, size_t key_len)
{
    static const char digits[] = "0123456789ABCDEF";
    char *end = to;
    for (size_t i = 0; i < key_len; i++) {
        if (is_unreserved(key[i])) {
            *end++ = (char)key[i];
        } else {
            *end++ = '%';
            *end++ = digits[key[i] >> 4];
            *end++ = digits[key[i] & 15];
        }
    }
    return (size_t)(end - to);
}

static int64_t expiry_seconds(const struct tarn_record_info *info, int64_t never)
{
    return info->expiry_ns == 0 ? never : (int64_t)(info->expiry_ns / BASE_NS_PER_SECOND);
}

/* Print a line of metadump. Times of reads are not kept. */
static int print_metadump(char *line, const uint8_t *key, size_t key_len, const struct tarn_record_info *info)
{
    char uri[3 * MEMCACHE_KEY_BYTES_MAX];
    return snprintf(line, LINE_ROOM,
                    "key=%.*s exp=%" PRId64 " la=0 cas=%" PRIu64 " fetch=no cls=1 size=%" PRIu64 "\n",
                    (int)print_uri(uri, key, key_len), uri, expiry_seconds(info, -1), info->version,
                    memcache_item_bytes(key_len, info->value_bytes, info->client_flags));
}

/* Whether a key may stand in a line unchanged. */
static bool is_plain(const uint8_t *key, size_t key_len)
{
    for (size_t i = 0; i < key_len; i++) {
        if (key[i] <= ' ' || key[i] == 0x7f)
            return false;
    }
    return true;
}

/* Print a request that fetches the key. A key that is too long in base64 cannot be requested, and is left out. */
static int print_mgdump(char *line, const uint8_t *key, size_t key_len, const struct tarn_record_info *info)
{
    char text[MEMCACHE_KEY_BYTES_MAX];
    (void)info;
    if (is_plain(key, key_len))
        return snprintf(line, LINE_ROOM, "mg %.*s\r\n", (int)key_len, (const char *)key);
    if (memcache_base64_len(key_len) > sizeof(text))
        return 0;
    return snprintf(line, LINE_ROOM, "mg %.*s b\r\n", (int)memcache_base64_encode(key, key_len, text), text);
}

static int print_cachedump(char *line, const uint8_t *key, size_t key_len,
                           const struct tarn_record_info *info)
{
    if (!is_plain(key, key_len))
        return 0;
    return snprintf(line, LINE_ROOM, "ITEM %.*s [%" PRIu32 " b; %" PRId64 " s]\r\n", (int)key_len,
                    (const char *)key, info->value_bytes, expiry_seconds(info, 0));
}

static const struct form metadump = {print_metadump, "END\r\n"}, mgdump = {print_mgdump, "EN\r\n"},
                         cachedump = {print_cachedump, "END\r\n"};

/* ---- all keys ------------------------------------------------------------------------------------ */

enum { ENOUGH = 1 }; /* ends a scan without an error */

/* Show a record. Keys of other protocols that memcached's clients cannot name are left out. */
static int visit_record(void *arg, const void *key, size_t key_len, const void *value,
                        const struct tarn_record_info *info)
{
    struct dump *dump = arg;
    char line[LINE_ROOM];
    (void)value;
    int len = key_len > MEMCACHE_KEY_BYTES_MAX ? 0 : dump->form->print(line, key, key_len, info);
    if (len > 0) {
        memcache_output_add(dump->server, dump->output, line, (size_t)len);
        dump->shown++;
    }
    if (dump->output->error != 0)
        return dump->output->error;
    if (dump->shown % KEYS_AT_ONCE == 0) {
        if (dump->server->host.ends(dump->server->host.arg))
            return -ESHUTDOWN;
        task_yield();
    }
    return dump->limit != 0 && dump->shown == dump->limit ? ENOUGH : 0;
}

/* The text that ends an incomplete dump: tools wait for END or ERROR. */
static const char *failure(int error)
{
    switch (error) {
    case -ESHUTDOWN:
        return "ERROR the server ends\r\n";
    case -ENOMEM:
        return "ERROR out of memory\r\n";
    default:
        return "ERROR there are records that cannot be read, and were left out\r\n";
    }
}

/* Dump all keys, for one client at a time, as memcached does, because each dump reads the whole store. @param limit  the
 * most keys; 0: no limit */
static void dump_all(struct memcache_server *server, struct memcache_output *output, const struct form *form,
                     uint64_t limit)
{
    struct dump dump = {.server = server, .output = output, .form = form, .limit = limit};
    if (atomic_exchange_explicit(&server->is_dumping, true, memory_order_acquire)) {
        memcache_output_text(server, output, "BUSY currently processing crawler request\r\n");
        return;
    }
    int error = tarn_kv_scan(server->kv, visit_record, &dump);
    atomic_store_explicit(&server->is_dumping, false, memory_order_release);
    bool is_whole = error == 0 || error == ENOUGH;
    memcache_output_text(server, output, is_whole ? form->end : failure(error));
}

/* ---- requests ------------------------------------------------------------------------------------ */

static bool is_word(const struct memcache_text *word, const char *text)
{
    return word->len == strlen(text) && memcmp(word->text, text, word->len) == 0;
}

/* @return false: it is no number of 32 bits */
static bool read_u32(const struct memcache_text *word, uint64_t *ret_value)
{
    return base_parse_u64_len(word->text, word->len, ret_value) == 0 && *ret_value <= UINT32_MAX;
}

/* Read the classes: all, or numbers with commas between. All items are of the first. @return false: no classes are named */
static bool read_classes(const struct memcache_text *word, bool *ret_first)
{
    *ret_first = is_word(word, "all") || is_word(word, "hash");
    if (*ret_first)
        return true;
    for (size_t at = 0; at < word->len;) {
        const char *comma = memchr(word->text + at, ',', word->len - at);
        size_t len = comma == NULL ? word->len - at : (size_t)(comma - (word->text + at));
        uint64_t number;
        if (!read_u32(&(struct memcache_text){word->text + at, len}, &number) || number < 1 ||
            number > CLASSES_MAX)
            return false;
        *ret_first |= number == 1;
        at += len + 1;
    }
    return word->len > 0;
}

/* Commands for memcached's crawler, which Tarn does not have. */
static bool is_for_crawler(const struct memcache_text *verb)
{
    static const char *const verbs[] = {"crawl", "tocrawl", "sleep", "enable", "disable"};
    for (size_t i = 0; i < base_array_count(verbs); i++) {
        if (is_word(verb, verbs[i]))
            return true;
    }
    return false;
}

void memcache_lru_crawler(struct memcache_server *server, struct memcache_output *output,
                          const struct memcache_request *request)
{
    struct memcache_text rest = request->rest, verb, classes, surplus;
    const struct form *form = NULL;
    bool is_first, is_there = memcache_next_word(&rest, &verb);
    const char *refusal = NULL;
    if (is_there && is_word(&verb, "metadump"))
        form = &metadump;
    else if (is_there && is_word(&verb, "mgdump"))
        form = &mgdump;
    if (form == NULL)
        refusal = is_there && is_for_crawler(&verb) ? "CLIENT_ERROR lru crawler disabled\r\n" : "ERROR\r\n";
    else if (!memcache_next_word(&rest, &classes) || memcache_next_word(&rest, &surplus))
        refusal = "ERROR\r\n";
    else if (server->host.refuses_dumps)
        refusal = form == &metadump ? "ERROR metadump not allowed\r\n" : "ERROR key dump not allowed\r\n";
    else if (!read_classes(&classes, &is_first))
        refusal = "BADCLASS invalid class id\r\n";
    if (refusal == NULL && is_first)
        dump_all(server, output, form, 0);
    else
        memcache_output_text(server, output, refusal != NULL ? refusal : form->end);
}

void memcache_cachedump(struct memcache_server *server, struct memcache_output *output,
                        const struct memcache_request *request)
{
    struct memcache_text rest = request->rest, name, class, limit;
    uint64_t number, most;
    bool is_there = memcache_next_word(&rest, &name) && memcache_next_word(&rest, &class) &&
                    memcache_next_word(&rest, &limit);
    if (server->host.refuses_dumps)
        memcache_output_text(server, output, "CLIENT_ERROR stats cachedump not allowed\r\n");
    else if (!is_there)
        memcache_output_text(server, output, "CLIENT_ERROR bad command line\r\n");
    else if (!read_u32(&class, &number) || !read_u32(&limit, &most))
        memcache_output_text(server, output, "CLIENT_ERROR bad command line format\r\n");
    else if (number > CLASSES_MAX)
        memcache_output_text(server, output, "CLIENT_ERROR Illegal slab id\r\n");
    else if (number == 1)
        dump_all(server, output, &cachedump, most);
    else
        memcache_output_text(server, output, cachedump.end);
}
