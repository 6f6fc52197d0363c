/*
 * Any bytes as a line of memcached's protocol: nothing outside of it is read, what is found lies within it or
 * in the key that was decoded there, and says the same as the line.
 */
#include "base/base.h"
#include "memcache/base64.h"
#include "memcache/parse.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_within(const struct memcache_text *text, const char *line, size_t len)
{
    if (text->len > 0)
        base_assert(text->text >= line && text->text + text->len <= line + len);
}

static bool is_of_a_key(const struct memcache_request *request)
{
    return request->verb >= MEMCACHE_SET && request->verb <= MEMCACHE_META_DEBUG;
}

/* A key in base64 was decoded where it stood: `original` still has it as it came. */
static void check_key(const struct memcache_request *request, const char *line, const char *original)
{
    char encoded[(MEMCACHE_KEY_BYTES_MAX + 2) / 3 * 4];
    const struct memcache_text *key = &request->key;
    base_assert(key->len > 0 && key->len <= MEMCACHE_KEY_BYTES_MAX);
    bool decoded = memcache_is_meta(request) && memcache_meta_has(request, 'b');
    const char *came = original + (key->text - line);
    if (!decoded) {
        base_assert(memcmp(came, key->text, key->len) == 0);
        base_assert(memchr(key->text, ' ', key->len) == NULL && memchr(key->text, '\0', key->len) == NULL);
        return;
    }
    size_t len = memcache_base64_encode(key->text, key->len, encoded);
    base_assert(len <= MEMCACHE_KEY_BYTES_MAX && memcmp(came, encoded, len) == 0);
}

/* Each word is a flag that is noted, and none is noted that is no word. */
static void check_flags(const struct memcache_request *request)
{
    struct memcache_text rest = request->rest, word;
    uint64_t flags = 0;
    while (memcache_next_word(&rest, &word)) {
        base_assert(memcache_meta_has(request, word.text[0]));
        base_assert((flags & memcache_meta_bit(word.text[0])) == 0);
        base_assert(word.text[0] != 'O' || word.len <= MEMCACHE_OPAQUE_BYTES_MAX);
        flags |= memcache_meta_bit(word.text[0]);
    }
    base_assert(flags == request->meta.flags);
    base_assert(request->noreply == memcache_meta_has(request, 'q'));
    base_assert((request->meta.mode != '\0') == memcache_meta_has(request, 'M'));
    if (request->verb == MEMCACHE_META_SET && request->meta.mode != '\0')
        base_assert(strchr("EAPRS", request->meta.mode) != NULL);
}

/* What announces a value is refused so that none of it can be taken for a command. */
static void check_refusal(const struct memcache_request *request, const char *original, size_t line_len)
{
    size_t len = strlen(request->refusal);
    if (line_len >= 4 && (memcmp(original, "set ", 4) == 0 || memcmp(original, "ms ", 3) == 0))
        base_assert(request->swallow != request->closes);
    if (len == 0) {
        base_assert(request->closes); /* another protocol */
        return;
    }
    base_assert(len > 2 && strcmp(request->refusal + len - 2, "\r\n") == 0);
    base_assert(strchr(request->refusal, '\n') == request->refusal + len - 1);
}

static void check_request(const struct memcache_request *request, const char *line, const char *original,
                          size_t len)
{
    struct memcache_text rest = request->rest, word;
    base_assert(request->value_bytes <= INT32_MAX - 2);
    base_assert(!request->swallow || request->verb == MEMCACHE_REFUSED);
    base_assert((request->verb == MEMCACHE_REFUSED) == (request->refusal != NULL) ||
                request->verb == MEMCACHE_SHUTDOWN);
    base_assert(!memcache_only_reads(request) || !memcache_has_value(request));
    if (request->verb == MEMCACHE_REFUSED) {
        check_refusal(request, original, len);
        return;
    }
    check_within(&request->key, line, len);
    check_within(&request->rest, line, len);
    while (memcache_next_word(&rest, &word))
        check_within(&word, line, len);
    if (is_of_a_key(request))
        check_key(request, line, original);
    if (memcache_is_meta(request) && request->verb != MEMCACHE_META_DEBUG)
        check_flags(request);
    if (request->verb == MEMCACHE_GET || request->verb == MEMCACHE_GETS)
        base_assert(
            memcache_next_word(&(struct memcache_text){request->rest.text, request->rest.len}, &word));
}

/* Numbers are digits with something around them, whatever is behind them is not read. */
static void check_numbers(const char *line, size_t len)
{
    const struct memcache_text text = {line, len};
    uint64_t number, same;
    int64_t with_sign;
    if (memcache_parse_unsigned(&text, UINT64_MAX, &number)) {
        base_assert(!memcache_parse_unsigned(&text, number - 1, &same) || number == 0);
        base_assert(memcache_parse_number(line, len, &same) && same == number);
        base_assert(memcache_parse_signed(&text, &with_sign) == (number <= INT64_MAX));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memcache_request request, again;
    char *line = malloc(size), *copy = malloc(size);
    base_assert(line != NULL && copy != NULL);
    memcpy(line, data, size);
    memcpy(copy, data, size);
    check_numbers(line, size);
    memcache_parse(line, size, &request);
    memcache_parse(copy, size, &again);
    check_request(&request, line, (const char *)data, size);
    base_assert(request.verb == again.verb && request.refusal == again.refusal);
    base_assert(memcmp(line, copy, size) == 0);
    free(line);
    free(copy);
    return 0;
}
