/* Lines of the text protocol, taken apart into requests, or refused; meta commands go on to parse_meta.c. */
#include "memcache/parse.h"

#define WORDS_MAX 8 /* the most words that a command reads; further ones are not counted */

static const char bad_format[] = "CLIENT_ERROR bad command line format\r\n";
static const char bad_exptime[] = "CLIENT_ERROR invalid exptime argument\r\n";
static const char bad_delta[] = "CLIENT_ERROR invalid numeric delta argument\r\n";
static const char error[] = "ERROR\r\n";

/* The words of a line; words[0] names the command. */
struct line {
    struct memcache_text words[WORDS_MAX];
    size_t count;
};

bool memcache_next_word(struct memcache_text *text, struct memcache_text *ret_word)
{
    while (text->len > 0 && *text->text == ' ') {
        text->text++;
        text->len--;
    }
    if (text->len == 0)
        return false;
    const char *space = memchr(text->text, ' ', text->len);
    struct memcache_text word = {text->text, space == NULL ? text->len : (size_t)(space - text->text)};
    text->text += word.len;
    text->len -= word.len;
    *ret_word = word;
    return true;
}

static bool is_word(const struct memcache_text *word, const char *text)
{
    return word->len == strlen(text) && memcmp(word->text, text, word->len) == 0;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Parse a number as strtol does: white space, sign, digits; then the end or white space. */
static bool parse_magnitude(const struct memcache_text *word, bool *ret_negative, uint64_t *ret_magnitude)
{
    size_t at = 0;
    while (at < word->len && is_blank(word->text[at]))
        at++;
    bool negative = at < word->len && word->text[at] == '-';
    if (at < word->len && (word->text[at] == '-' || word->text[at] == '+'))
        at++;
    size_t digits = at;
    while (at < word->len && word->text[at] >= '0' && word->text[at] <= '9')
        at++;
    if (at < word->len && !is_blank(word->text[at]))
        return false;
    *ret_negative = negative;
    return base_parse_u64_len(word->text + digits, at - digits, ret_magnitude) == 0;
}

bool memcache_parse_unsigned(const struct memcache_text *word, uint64_t max, uint64_t *ret_value)
{
    bool negative;
    uint64_t value;
    if (!parse_magnitude(word, &negative, &value) || (negative && value != 0) || value > max)
        return false;
    *ret_value = value;
    return true;
}

bool memcache_parse_number(const char *text, size_t len, uint64_t *ret_number)
{
    struct memcache_text number = {text, strnlen(text, len)};
    size_t at = 0;
    while (at < number.len && is_blank(text[at]))
        at++;
    while (at < number.len && !is_blank(text[at]))
        at++;
    number.len = at; /* text behind the number is ignored */
    return memcache_parse_unsigned(&number, UINT64_MAX, ret_number);
}

bool memcache_parse_signed(const struct memcache_text *word, int64_t *ret_value)
{
    bool negative;
    uint64_t value;
    if (!parse_magnitude(word, &negative, &value) || value > INT64_MAX)
        return false;
    *ret_value = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

bool memcache_parse_length(const struct memcache_text *word, uint32_t *ret_bytes)
{
    uint64_t bytes;
    bool negative = word->len > 0 && word->text[0] == '-';
    if (base_parse_u64_len(word->text + negative, word->len - negative, &bytes) != 0 ||
        bytes > (negative ? 0 : INT32_MAX - 2))
        return false;
    *ret_bytes = (uint32_t)bytes;
    return true;
}

/* Take the key, which follows the command's name. @return whether it is short enough */
static bool take_key(const struct line *line, struct memcache_request *request)
{
    request->key = line->words[1];
    if (request->key.len <= MEMCACHE_KEY_BYTES_MAX)
        return true;
    memcache_refuse(request, bad_format);
    return false;
}

/* Parse a storage command. Even if it is refused, a value whose length can be read is skipped, so that its bytes are not
 * taken for commands. */
static void parse_storage(const struct line *line, struct memcache_request *request)
{
    uint64_t flags;
    bool is_cas = request->verb == MEMCACHE_CAS;
    if (!memcache_parse_length(&line->words[4], &request->value_bytes)) {
        memcache_refuse_and_close(request, bad_format);
        return;
    }
    if (!take_key(line, request) || !memcache_parse_unsigned(&line->words[2], UINT32_MAX, &flags) ||
        !memcache_parse_signed(&line->words[3], &request->exptime) ||
        (is_cas &&
         (line->count < 6 || !memcache_parse_unsigned(&line->words[5], UINT64_MAX, &request->cas)))) {
        memcache_refuse(request, bad_format);
        request->swallow = true;
        return;
    }
    request->client_flags = (uint32_t)flags;
}

static void parse_delete(const struct line *line, struct memcache_request *request)
{
    (void)take_key(line, request);
}

static void parse_touch(const struct line *line, struct memcache_request *request)
{
    if (take_key(line, request) && !memcache_parse_signed(&line->words[2], &request->exptime))
        memcache_refuse(request, bad_exptime);
}

static void parse_delta(const struct line *line, struct memcache_request *request)
{
    if (take_key(line, request) && !memcache_parse_unsigned(&line->words[2], UINT64_MAX, &request->delta))
        memcache_refuse(request, bad_delta);
}

/* Parse a get-and-touch, whose exptime stands before the keys. */
static void parse_get_and_touch(const struct line *line, struct memcache_request *request)
{
    struct memcache_text word;
    bool has_exptime = memcache_next_word(&request->rest, &word);
    base_assert(has_exptime && line->count > 1);
    if (!memcache_parse_signed(&word, &request->exptime))
        memcache_refuse(request, bad_exptime);
}

static void parse_flush_all(const struct line *line, struct memcache_request *request)
{
    bool has_delay = line->count != (request->noreply ? 2 : 1);
    if (has_delay && !memcache_parse_signed(&line->words[1], &request->exptime))
        memcache_refuse(request, bad_exptime);
}

static void parse_verbosity(const struct line *line, struct memcache_request *request)
{
    uint64_t level;
    if (!memcache_parse_unsigned(&line->words[1], UINT64_MAX, &level))
        memcache_refuse(request, bad_format);
}

static void parse_shutdown(const struct line *line, struct memcache_request *request)
{
    if (line->count > 2 || (line->count == 2 && !is_word(&line->words[1], "graceful")))
        request->refusal = "CLIENT_ERROR invalid shutdown mode\r\n";
}

static void parse_watch(const struct line *line, struct memcache_request *request)
{
    (void)line;
    memcache_refuse(request, "CLIENT_ERROR watch commands not allowed\r\n");
}

static void parse_stats(const struct line *line, struct memcache_request *request)
{
    if (line->count > 1)
        request->key = line->words[1];
}

/* The commands. A line has at least words_min words, the command's name included; words that a command does not read are
 * ignored. */
static const struct command {
    const char *name;
    enum memcache_verb verb;
    size_t words_min;
    void (*parse)(const struct line *line, struct memcache_request *request);
    bool quiet; /* the command takes "noreply" as its last word */
} commands[] = {
    {"get", MEMCACHE_GET, 2, NULL, false},
    {"gets", MEMCACHE_GETS, 2, NULL, false},
    {"gat", MEMCACHE_GAT, 3, parse_get_and_touch, false},
    {"gats", MEMCACHE_GATS, 3, parse_get_and_touch, false},
    {"set", MEMCACHE_SET, 5, parse_storage, true},
    {"add", MEMCACHE_ADD, 5, parse_storage, true},
    {"replace", MEMCACHE_REPLACE, 5, parse_storage, true},
    {"append", MEMCACHE_APPEND, 5, parse_storage, true},
    {"prepend", MEMCACHE_PREPEND, 5, parse_storage, true},
    {"cas", MEMCACHE_CAS, 5, parse_storage, true},
    {"delete", MEMCACHE_DELETE, 2, parse_delete, true},
    {"incr", MEMCACHE_INCR, 3, parse_delta, true},
    {"decr", MEMCACHE_DECR, 3, parse_delta, true},
    {"touch", MEMCACHE_TOUCH, 3, parse_touch, true},
    {"flush_all", MEMCACHE_FLUSH_ALL, 1, parse_flush_all, true},
    {"stats", MEMCACHE_STATS, 1, parse_stats, false},
    {"lru_crawler", MEMCACHE_LRU_CRAWLER, 1, NULL, false},
    {"watch", MEMCACHE_REFUSED, 1, parse_watch, false},
    {"version", MEMCACHE_VERSION, 1, NULL, false},
    {"verbosity", MEMCACHE_VERBOSITY, 2, parse_verbosity, true},
    {"shutdown", MEMCACHE_SHUTDOWN, 1, parse_shutdown, false},
    {"quit", MEMCACHE_QUIT, 1, NULL, false},
};

static const struct command *find_command(const struct line *line)
{
    for (size_t i = 0; i < base_array_count(commands); i++) {
        const struct command *command = &commands[i];
        if (is_word(&line->words[0], command->name))
            return command;
    }
    return NULL;
}

/* Whether a line is HTTP: somebody makes a browser send requests here, whose lines might be made to look like commands. */
static bool is_http(const struct memcache_text *last)
{
    static const char version[] = "HTTP/";
    return last->len >= sizeof(version) && memcmp(last->text, version, sizeof(version) - 1) == 0;
}

/* Meta commands have names of two letters, and words of any number. */
static bool is_meta(const struct memcache_text *name)
{
    static const char letters[] = "gsdaen";
    return name->len == 2 && name->text[0] == 'm' && name->text[1] != '\0' &&
           strchr(letters, name->text[1]) != NULL;
}

/* The last word of a line. @param rest  the text behind line->words */
static struct memcache_text last_word(const struct line *line, struct memcache_text rest)
{
    struct memcache_text last = line->count == 0 ? rest : line->words[line->count - 1];
    while (memcache_next_word(&rest, &last))
        ;
    return last;
}

static void refuse_unknown(const struct line *line, struct memcache_text rest,
                           struct memcache_request *request)
{
    const struct memcache_text last = last_word(line, rest);
    if (is_http(&last))
        memcache_refuse_and_close(request, "");
    else
        memcache_refuse(request, error);
}

static void parse_command(const struct command *command, const struct line *line, struct memcache_text rest,
                          struct memcache_request *request)
{
    request->verb = command->verb;
    if (line->count < command->words_min) {
        if (memcache_has_value(request))
            memcache_refuse_and_close(request, bad_format);
        else
            memcache_refuse(request, bad_format);
        return;
    }
    if (command->quiet) {
        const struct memcache_text last = last_word(line, rest);
        request->noreply = is_word(&last, "noreply");
    }
    if (command->parse != NULL)
        command->parse(line, request);
}

void memcache_parse(char *text, size_t len, struct memcache_request *ret_request)
{
    struct memcache_text rest = {text, strnlen(text, len)}; /* memcached's lines end at a zero byte */
    struct memcache_request request = {.key = {.text = ""}};
    struct line line = {.count = 0};
    if (memcache_next_word(&rest, &line.words[0])) {
        line.count = 1;
        request.rest = rest;
    }
    if (line.count == 1 && is_meta(&line.words[0])) {
        memcache_parse_meta(rest, line.words[0].text[1], &request);
        *ret_request = request;
        return;
    }
    while (line.count > 0 && line.count < WORDS_MAX && memcache_next_word(&rest, &line.words[line.count]))
        line.count++;
    const struct command *command = line.count == 0 ? NULL : find_command(&line);
    if (command == NULL)
        refuse_unknown(&line, rest, &request);
    else
        parse_command(command, &line, rest, &request);
    *ret_request = request;
}

uint64_t memcache_expiry_ns(int64_t exptime, uint64_t wall_ns)
{
    const int64_t month_seconds = INT64_C(30) * 24 * 3600;
    if (exptime == 0)
        return 0;
    if (exptime < 0)
        return 1; /* one nanosecond after 1970 began: it has expired */
    uint64_t seconds = base_min((uint64_t)exptime, UINT64_MAX / BASE_NS_PER_SECOND);
    uint64_t ns = seconds * BASE_NS_PER_SECOND;
    return exptime > month_seconds ? ns : wall_ns + ns;
}
