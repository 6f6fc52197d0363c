/* The lines of meta commands. */
#include "memcache/base64.h"
#include "memcache/parse.h"

#define WORDS_MAX 19 /* the most words of a line: command, key, length, flags */

static const char bad_format[] = "CLIENT_ERROR bad command line format\r\n";
static const char duplicate_flag[] = "CLIENT_ERROR duplicate flag\r\n";
static const char invalid_flag[] = "CLIENT_ERROR invalid flag\r\n";
static const char many_flags[] = "CLIENT_ERROR options flags too long\r\n";
static const char bad_flag[] = "CLIENT_ERROR invalid or duplicate flag\r\n";
static const char bad_token[] = "CLIENT_ERROR bad token in command line format\r\n";
static const char bad_key[] = "CLIENT_ERROR error decoding key\r\n";
static const char long_opaque[] = "CLIENT_ERROR opaque token too long\r\n";

/* Every command accepts every flag, and ignores those that mean nothing to it. */
static const char known_flags[] = "CDEFIJLMNOPRTbcfhklqstuvx";

/* @return the refusal, or NULL */
static const char *take_numbers(const struct memcache_text *value, char flag,
                                struct memcache_request *request)
{
    uint64_t number;
    switch (flag) {
    case 'N':
        return memcache_parse_signed(value, &request->meta.vivify) ? NULL : bad_token;
    case 'R':
        return memcache_parse_signed(value, &request->meta.recache) ? NULL : bad_token;
    case 'T':
        return memcache_parse_signed(value, &request->exptime) ? NULL : bad_token;
    case 'C':
        return memcache_parse_unsigned(value, UINT64_MAX, &request->cas) ? NULL : bad_token;
    case 'E':
        return memcache_parse_unsigned(value, UINT64_MAX, &request->meta.version) ? NULL : bad_token;
    case 'F':
        if (!memcache_parse_unsigned(value, UINT32_MAX, &number))
            return bad_format;
        request->client_flags = (uint32_t)number;
        return NULL;
    case 'J':
        return memcache_parse_unsigned(value, UINT64_MAX, &request->meta.initial)
                   ? NULL
                   : "CLIENT_ERROR invalid numeric initial value\r\n";
    case 'D':
        return memcache_parse_unsigned(value, UINT64_MAX, &request->delta)
                   ? NULL
                   : "CLIENT_ERROR invalid numeric delta value\r\n";
    default:
        return NULL;
    }
}

static const char *take_flag(const struct memcache_text *word, struct memcache_request *request)
{
    char flag = word->text[0];
    struct memcache_text value = {word->text + 1, word->len - 1};
    bool known = flag != '\0' && strchr(known_flags, flag) != NULL;
    if ((unsigned char)flag >= 127 || (known && memcache_meta_has(request, flag)))
        return duplicate_flag;
    if (!known)
        return invalid_flag;
    request->meta.flags |= memcache_meta_bit(flag);
    if (flag == 'M')
        request->meta.mode = value.len > 0 ? value.text[0] : ' '; /* a space is no mode */
    return take_numbers(&value, flag, request);
}

/* Decode a key in place: the decoded key is shorter. */
static const char *decode_key(struct memcache_request *request)
{
    char *key = (char *)(uintptr_t)request->key.text;
    request->key.len = memcache_base64_decode(key, request->key.len, key);
    return request->key.len == 0 ? bad_key : NULL;
}

static bool has_too_many_words(const struct memcache_request *request)
{
    struct memcache_text rest = request->rest, word;
    int count = request->verb == MEMCACHE_META_SET ? 3 : 2;
    while (memcache_next_word(&rest, &word))
        count++;
    return count > WORDS_MAX;
}

/* Take the flags. If several are wrong, memcached reports the last one; but an unknown flag it reports at once.
 * @return the refusal; NULL: flags and key are good */
static const char *take_flags(struct memcache_request *request)
{
    struct memcache_text rest = request->rest, word;
    const char *wrong = NULL;
    if (request->key.len > MEMCACHE_KEY_BYTES_MAX)
        return bad_format;
    if (has_too_many_words(request))
        return request->verb == MEMCACHE_META_GET ? "CLIENT_ERROR options flags are too long\r\n"
                                                  : many_flags;
    while (memcache_next_word(&rest, &word)) {
        const char *wrong_here = take_flag(&word, request);
        if (wrong_here == duplicate_flag || wrong_here == invalid_flag)
            return wrong_here;
        if (wrong_here == NULL && word.text[0] == 'b')
            wrong_here = decode_key(request);
        if (wrong_here != NULL && (wrong == NULL || wrong_here != bad_format))
            wrong = wrong_here;
    }
    request->noreply = memcache_meta_has(request, 'q');
    return wrong;
}

/* @return the refusal of an opaque, or NULL */
static const char *wrong_opaque(const struct memcache_request *request)
{
    struct memcache_text rest = request->rest, word;
    while (memcache_next_word(&rest, &word)) {
        if (word.text[0] == 'O' && word.len > MEMCACHE_OPAQUE_BYTES_MAX)
            return long_opaque;
    }
    return NULL;
}

static const char *wrong_mode(const struct memcache_request *request)
{
    if (request->meta.mode == '\0')
        return NULL;
    if (request->verb == MEMCACHE_META_SET && strchr("EAPRS", request->meta.mode) == NULL)
        return "CLIENT_ERROR invalid mode for ms M token\r\n";
    if (request->verb == MEMCACHE_META_ARITHMETIC && strchr("ID+-", request->meta.mode) == NULL)
        return "CLIENT_ERROR invalid mode for ma M token\r\n";
    return NULL;
}

static void parse_flags(struct memcache_request *request)
{
    const char *wrong = take_flags(request);
    if (wrong != NULL && wrong != many_flags && wrong != bad_format &&
        request->verb == MEMCACHE_META_ARITHMETIC)
        wrong = bad_flag;
    if (wrong == NULL)
        wrong = wrong_mode(request);
    if (wrong == NULL)
        wrong = wrong_opaque(request);
    if (wrong == NULL)
        return;
    request->swallow = memcache_has_value(request);
    request->noreply = false; /* a quiet request gets errors */
    memcache_refuse(request, wrong);
}

/* Parse a debug request, in which only the first word may be a flag, and only that of an encoded key. */
static void parse_debug(struct memcache_request *request)
{
    struct memcache_text rest = request->rest, word;
    if (request->key.len > MEMCACHE_KEY_BYTES_MAX) {
        memcache_refuse(request, bad_format);
        return;
    }
    if (!memcache_next_word(&rest, &word) || word.len != 1 || word.text[0] != 'b')
        return;
    request->meta.flags = memcache_meta_bit('b');
    if (decode_key(request) != NULL)
        memcache_refuse(request, bad_format);
}

static const enum memcache_verb verbs[] = {
    ['g'] = MEMCACHE_META_GET,        ['s'] = MEMCACHE_META_SET,   ['d'] = MEMCACHE_META_DELETE,
    ['a'] = MEMCACHE_META_ARITHMETIC, ['e'] = MEMCACHE_META_DEBUG,
};

void memcache_parse_meta(struct memcache_text words, char letter, struct memcache_request *request)
{
    if (letter == 'n') {
        request->verb = MEMCACHE_META_NOOP;
        return;
    }
    request->verb = verbs[(unsigned char)letter];
    request->delta = 1;
    struct memcache_text length;
    bool has_key = memcache_next_word(&words, &request->key);
    /* the length is read first, so that the value can be skipped even if the rest is wrong */
    if (letter == 's' && (!has_key || !memcache_next_word(&words, &length) ||
                          !memcache_parse_length(&length, &request->value_bytes))) {
        memcache_refuse_and_close(request, bad_format);
        return;
    }
    request->rest = words;
    if (!has_key)
        memcache_refuse(request, bad_format);
    else if (letter == 'e')
        parse_debug(request);
    else
        parse_flags(request);
}
