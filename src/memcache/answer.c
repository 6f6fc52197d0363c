/* The answers to requests, in memcached's words, and the statistics that outcomes count for. */
#include "kv/kv.h"
#include "memcache/base64.h"
#include "memcache/memcache_internal.h"
#include <errno.h>
#include <tarn/tarn.h>

#define NUMBER_CHARS_MAX 20                    /* digits of a 64-bit number */
#define ROUNDED_NS       (10 * BASE_NS_PER_MS) /* tarn/depot.h: expiry is kept in hundredths of a second */

/* A text under construction; its room always suffices. */
struct text {
    char *begin;
    char *end;
};

static void put_bytes(struct text *text, const void *bytes, size_t len)
{
    memcpy(text->end, bytes, len);
    text->end += len;
}

static void put_text(struct text *text, const char *string)
{
    put_bytes(text, string, strlen(string));
}

static void put_u64(struct text *text, uint64_t number)
{
    char digits[NUMBER_CHARS_MAX];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put_bytes(text, digits + at, sizeof(digits) - at);
}

static void put_flag(struct text *text, char flag)
{
    *text->end++ = ' ';
    *text->end++ = flag;
}

const char *memcache_failure(int error)
{
    switch (error) {
    case -ENOSPC:
    case -ENOMEM:
        return "SERVER_ERROR out of memory storing object\r\n";
    case -EMSGSIZE:
        return "SERVER_ERROR object too large for cache\r\n";
    case -EROFS:
        return "SERVER_ERROR the store takes no more writes\r\n";
    case KV_IN_PIECES:
        return "SERVER_ERROR the value is longer than this server sends\r\n";
    case -EBADMSG:
        return "SERVER_ERROR the stored record is damaged\r\n";
    case -EOPNOTSUPP:
        return "SERVER_ERROR this store cannot do that\r\n";
    case -EHOSTUNREACH:
    case -ETIMEDOUT:
    case -ECONNRESET:
        return "SERVER_ERROR the store is not reached\r\n";
    default:
        return "SERVER_ERROR the drive has failed\r\n";
    }
}

bool memcache_wants_value(const struct memcache_request *request)
{
    return memcache_has_keys(request) ||
           (request->verb == MEMCACHE_META_GET && memcache_meta_has(request, 'v'));
}

const char *memcache_tail(const struct memcache_op *op)
{
    return memcache_has_keys(&op->request) && op->last ? "\r\nEND\r\n" : "\r\n";
}

/* ---- classic answers -------------------------------------------------------------------------------- */

static void answer_get(const struct memcache_op *op, struct text *text)
{
    const struct memcache_request *request = &op->request;
    if (op->outcome.error == -ENOENT || request->key.len == 0) {
        put_text(text, op->last ? "END\r\n" : "");
        return;
    }
    if (op->outcome.error != 0) {
        put_text(text, op->outcome.error == -ENOMEM ? "SERVER_ERROR out of memory writing get response\r\n"
                                                    : memcache_failure(op->outcome.error));
        return;
    }
    put_text(text, "VALUE ");
    put_bytes(text, request->key.text, request->key.len);
    *text->end++ = ' ';
    put_u64(text, op->outcome.info.client_flags);
    *text->end++ = ' ';
    put_u64(text, op->outcome.info.value_bytes);
    if (request->verb == MEMCACHE_GETS || request->verb == MEMCACHE_GATS) {
        *text->end++ = ' ';
        put_u64(text, op->outcome.info.version);
    }
    put_text(text, "\r\n");
}

/* The answer to a change of one key that has not failed; NULL: it has failed. */
static const char *classic_word(const struct memcache_op *op)
{
    int error = op->outcome.error;
    bool absent = error == -ENOENT;
    switch (op->request.verb) {
    case MEMCACHE_CAS:
        return error == 0 ? "STORED" : absent ? "NOT_FOUND" : error == -EEXIST ? "EXISTS" : NULL;
    case MEMCACHE_APPEND:
    case MEMCACHE_PREPEND:
        if (error == -EMSGSIZE)
            return "NOT_STORED";
        return error == 0 ? "STORED" : absent ? "NOT_STORED" : NULL;
    case MEMCACHE_DELETE:
        return error == 0 ? "DELETED" : absent ? "NOT_FOUND" : NULL;
    case MEMCACHE_TOUCH:
        return error == 0 ? "TOUCHED" : absent ? "NOT_FOUND" : NULL;
    case MEMCACHE_INCR:
    case MEMCACHE_DECR:
        return error == 0 ? "" : absent ? "NOT_FOUND" : NULL;
    default:
        return error == 0 ? "STORED" : absent || error == -EEXIST ? "NOT_STORED" : NULL;
    }
}

/* Answer a change. A client that wants no reply still gets failures. */
static void answer_change(const struct memcache_op *op, struct text *text)
{
    const char *word = classic_word(op);
    if (word == NULL) {
        put_text(text, memcache_failure(op->outcome.error));
        return;
    }
    if (op->request.noreply)
        return;
    if (word[0] == '\0')
        put_u64(text, op->outcome.number);
    put_text(text, word);
    put_text(text, "\r\n");
}

/* ---- meta answers ------------------------------------------------------------------------------------ */

static void put_key(const struct memcache_op *op, struct text *text)
{
    const struct memcache_text *key = &op->request.key;
    if (!memcache_meta_has(&op->request, 'b'))
        put_bytes(text, key->text, key->len);
    else
        text->end += memcache_base64_encode(key->text, key->len, text->end);
}

/* Append the seconds until an item's expiry, rounded up, but without the fraction by which the store has rounded it up. */
static void put_time_left(const struct memcache_op *op, uint64_t expiry_ns, struct text *text)
{
    uint64_t now_ns = task_wall(op->server->node) + ROUNDED_NS;
    if (expiry_ns == 0)
        put_text(text, "-1");
    else
        put_u64(text,
                expiry_ns <= now_ns ? 0 : (expiry_ns - now_ns + BASE_NS_PER_SECOND - 1) / BASE_NS_PER_SECOND);
}

static void put_returned_flag(const struct memcache_op *op, struct text *text, char flag, uint64_t expiry_ns)
{
    put_flag(text, flag);
    switch (flag) {
    case 'c':
        put_u64(text, op->outcome.info.version);
        break;
    case 'f':
        put_u64(text, op->outcome.info.client_flags);
        break;
    case 's':
        put_u64(text, op->outcome.info.value_bytes);
        break;
    case 't':
        put_time_left(op, expiry_ns, text);
        break;
    default: /* h and l: times of accesses are not kept */
        put_text(text, "0");
        break;
    }
}

/* Append the flags that the client wants back, in its order; t shows the effect of the flags before it. @param known
 * the flags that have an answer here */
static void put_flags(const struct memcache_op *op, struct text *text, const char *known)
{
    struct memcache_text rest = op->request.rest, word;
    uint64_t expiry_ns = op->outcome.old_expiry_ns;
    while (memcache_next_word(&rest, &word)) {
        char flag = word.text[0];
        expiry_ns = memcache_expiry_behind(op, flag, expiry_ns);
        if (flag == 'O') {
            *text->end++ = ' ';
            put_bytes(text, word.text, word.len);
        } else if (flag == 'k') {
            put_flag(text, 'k');
            put_key(op, text);
            put_text(text, memcache_meta_has(&op->request, 'b') ? " b" : "");
        } else if (strchr(known, flag) != NULL) {
            put_returned_flag(op, text, flag, expiry_ns);
        }
    }
}

static void answer_meta_get(const struct memcache_op *op, struct text *text)
{
    const struct memcache_outcome *outcome = &op->outcome;
    if (outcome->error == -ENOENT) {
        if (op->request.noreply)
            return;
        put_text(text, "EN");
        put_flags(op, text, "");
        put_text(text, "\r\n");
        return;
    }
    if (memcache_meta_has(&op->request, 'v')) {
        put_text(text, "VA ");
        put_u64(text, outcome->info.value_bytes);
    } else {
        put_text(text, "HD");
    }
    put_flags(op, text, "cfhlst");
    put_text(text, (outcome->info.note & MEMCACHE_NOTE_SENT) != 0 ? " Z" : "");
    put_text(text, (outcome->info.note & MEMCACHE_NOTE_STALE) != 0 ? " X" : "");
    put_text(text, outcome->won ? " W\r\n" : "\r\n");
}

static void answer_meta_change(struct memcache_op *op, struct text *text)
{
    int error = op->outcome.error;
    bool sets = op->request.verb == MEMCACHE_META_SET;
    char mode = op->request.meta.mode;
    bool conditional = sets && !memcache_meta_has(&op->request, 'C') && mode != '\0' && mode != 'S';
    bool joins = sets && (mode == 'A' || mode == 'P');
    const char *word = "HD";
    if (error == -ENOENT)
        word = conditional || joins ? "NS" : "NF";
    else if (error == -EEXIST)
        word = mode == 'E' ? "NS" : "EX";
    else if (error == -EMSGSIZE && joins)
        word = "NS";
    if (error == 0 && op->request.noreply)
        return;
    if (error != 0)
        op->outcome.info.value_bytes =
            op->request.value_bytes; /* the length of the value that was not stored */
    put_text(text, word);
    put_flags(op, text, sets ? "cs" : "");
    put_text(text, "\r\n");
}

static void answer_meta_arithmetic(const struct memcache_op *op, struct text *text)
{
    char digits[NUMBER_CHARS_MAX];
    struct text number = {digits, digits};
    if (op->outcome.error != 0) {
        put_text(text, op->outcome.error == -ENOENT ? "NF" : "EX");
        put_flags(op, text, "");
        put_text(text, "\r\n");
        return;
    }
    if (op->request.noreply)
        return;
    put_u64(&number, op->outcome.number);
    size_t len = (size_t)(number.end - number.begin);
    bool shows = memcache_meta_has(&op->request, 'v');
    put_text(text, shows ? "VA " : "HD");
    if (shows)
        put_u64(text, len);
    put_flags(op, text, "ct");
    put_text(text, "\r\n");
    if (!shows)
        return;
    put_bytes(text, digits, len);
    put_text(text, "\r\n");
}

static void answer_debug(const struct memcache_op *op, struct text *text)
{
    if (op->outcome.error == -ENOENT) {
        put_text(text, "EN\r\n");
        return;
    }
    put_text(text, "ME ");
    put_key(op, text);
    put_text(text, " exp=");
    put_time_left(op, op->outcome.info.expiry_ns, text);
    put_text(text, " la=0 cas=");
    put_u64(text, op->outcome.info.version);
    put_text(text, " fetch=no cls=1 size=");
    put_u64(text, memcache_item_bytes(op->request.key.len, op->outcome.info.value_bytes,
                                      op->outcome.info.client_flags));
    put_text(text, "\r\n");
}

static bool is_answer(int error)
{
    return error == 0 || error == -ENOENT || error == -EEXIST;
}

static void answer_meta(struct memcache_op *op, struct text *text)
{
    char mode = op->request.meta.mode;
    bool too_long = op->outcome.error == -EMSGSIZE && (mode == 'A' || mode == 'P');
    if (!is_answer(op->outcome.error) && !too_long)
        put_text(text, memcache_failure(op->outcome.error));
    else if (op->request.verb == MEMCACHE_META_GET)
        answer_meta_get(op, text);
    else if (op->request.verb == MEMCACHE_META_ARITHMETIC)
        answer_meta_arithmetic(op, text);
    else if (op->request.verb == MEMCACHE_META_DEBUG)
        answer_debug(op, text);
    else
        answer_meta_change(op, text);
}

size_t memcache_answer(struct memcache_op *op, char *to)
{
    struct text text = {to, to};
    const struct memcache_request *request = &op->request;
    if (op->outcome.text != NULL)
        put_text(&text, memcache_wants_no_refusal(request) ? "" : op->outcome.text);
    else if (memcache_has_keys(request))
        answer_get(op, &text);
    else if (memcache_is_meta(request))
        answer_meta(op, &text);
    else if (request->verb == MEMCACHE_META_NOOP)
        put_text(&text, "MN\r\n");
    else if (request->verb ==
             MEMCACHE_VERBOSITY) /* accepted without effect: the log has a setting of its own */
        put_text(&text, request->noreply ? "" : "OK\r\n");
    else if (request->verb == MEMCACHE_VERSION) {
        put_text(&text, "VERSION ");
        put_text(&text, memcache_version());
        put_text(&text, "\r\n");
    } else {
        answer_change(op, &text);
    }
    base_assert(text.end <= to + MEMCACHE_ANSWER_MAX);
    return (size_t)(text.end - text.begin);
}

/* ---- statistics -----------------------------------------------------------------------------------------
 */

/* Count a get. One that touches counts as a touch, unless it is a meta get that has found no item. */
static void count_get(struct memcache_counters *counters, const struct memcache_op *op)
{
    bool hit = op->outcome.error == 0;
    bool touches = op->request.verb == MEMCACHE_GAT || op->request.verb == MEMCACHE_GATS ||
                   (op->request.verb == MEMCACHE_META_GET && memcache_meta_has(&op->request, 'T') && hit);
    memcache_count(touches ? &counters->cmd_touch : &counters->cmd_get, 1);
    if (touches)
        memcache_count(hit ? &counters->touch_hits : &counters->touch_misses, 1);
    else
        memcache_count(hit ? &counters->get_hits : &counters->get_misses, 1);
}

static void count_store(struct memcache_counters *counters, const struct memcache_op *op)
{
    int error = op->outcome.error;
    memcache_count(&counters->cmd_set, 1);
    memcache_count(&counters->total_items, error == 0);
    memcache_count(&counters->store_no_memory, error == -ENOSPC || error == -ENOMEM);
    memcache_count(&counters->store_too_large, error == -EMSGSIZE);
    if (op->request.verb != MEMCACHE_CAS && !memcache_meta_has(&op->request, 'C'))
        return;
    memcache_count(error == 0         ? &counters->cas_hits
                   : error == -EEXIST ? &counters->cas_badval
                                      : &counters->cas_misses,
                   1);
}

static void count_arithmetic(struct memcache_counters *counters, const struct memcache_op *op)
{
    bool down =
        op->request.verb == MEMCACHE_DECR || op->request.meta.mode == 'D' || op->request.meta.mode == '-';
    bool hit = op->outcome.hit, miss = op->outcome.error == -ENOENT;
    memcache_count(down ? &counters->decr_hits : &counters->incr_hits, hit);
    memcache_count(down ? &counters->decr_misses : &counters->incr_misses, miss);
}

void memcache_count_outcome(const struct memcache_op *op)
{
    struct memcache_counters *counters = &op->server->counters;
    bool hit = op->outcome.error == 0;
    if (memcache_is_meta(&op->request) || op->request.verb == MEMCACHE_META_NOOP)
        memcache_count(&counters->cmd_meta, 1);
    if (memcache_has_value(&op->request)) {
        count_store(counters, op);
        return;
    }
    switch (op->request.verb) {
    case MEMCACHE_GET:
    case MEMCACHE_GETS:
    case MEMCACHE_GAT:
    case MEMCACHE_GATS:
    case MEMCACHE_META_GET:
        if (op->request.key.len > 0)
            count_get(counters, op);
        break;
    case MEMCACHE_DELETE:
    case MEMCACHE_META_DELETE:
        if (hit && memcache_meta_has(&op->request, 'I'))
            break; /* the item is still there */
        memcache_count(hit ? &counters->delete_hits : &counters->delete_misses, 1);
        break;
    case MEMCACHE_TOUCH:
        memcache_count(&counters->cmd_touch, 1);
        memcache_count(hit ? &counters->touch_hits : &counters->touch_misses, 1);
        break;
    case MEMCACHE_INCR:
    case MEMCACHE_DECR:
    case MEMCACHE_META_ARITHMETIC:
        count_arithmetic(counters, op);
        break;
    default:
        break;
    }
}
