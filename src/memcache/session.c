/*
 * Sessions: they find the requests in a connection's bytes, wherever the network has cut them.
 *
 *            list of keys longer than the buffer             line end
 *   LINE ───────────────────────────────────────▶ KEYS ────────────────▶ LINE
 *    │ line of set, value not there yet                      last byte
 *    ├────────────────────────────────────────▶ VALUE ────────────────▶ LINE
 *    │ line of set, refused                                  last byte
 *    ├──────────────────────────────────────▶ SWALLOW ────────────────▶ LINE
 *    │ bad key in KEYS                                       line end
 *    └─────────────────────────────────────────▶ SKIP ────────────────▶ LINE
 */
#include "kv/kv.h"
#include "memcache/memcache_internal.h"
#include <errno.h>

#define LINE_BYTES_MIN 4 /* memcached takes no shorter line, with its end, for a command: not mn without \r */

/* The most spaces between two keys: more than a caller's room, so that the limit does not depend on how a line is cut. */
#define BLANKS_MAX (UINT64_C(64) << 10)

static const char bad_format[] = "CLIENT_ERROR bad command line format\r\n";
static const char bad_chunk[] = "CLIENT_ERROR bad data chunk\r\n";
static const char too_large[] = "SERVER_ERROR object too large for cache\r\n";
static const char no_memory[] = "SERVER_ERROR out of memory storing object\r\n";

/* ---- state -------------------------------------------------------------------------------------- */

void memcache_session_init(struct memcache_session *session, struct memcache_server *server)
{
    *session = (struct memcache_session){.server = server, .place = MEMCACHE_PLACE_LINE};
}

static void free_memory(struct memcache_session *session)
{
    if (session->memory != NULL)
        base_free(&session->server->values, session->memory, session->memory_bytes);
    session->memory = NULL;
}

void memcache_session_deinit(struct memcache_session *session)
{
    free_memory(session);
}

bool memcache_session_is_idle(const struct memcache_session *session)
{
    return session->place == MEMCACHE_PLACE_LINE;
}

/* Answer with a text, in order. */
static void refuse_line(struct memcache_session *session, struct memcache_work *work, const char *text,
                        bool noreply)
{
    const struct memcache_request refused = {.verb = MEMCACHE_REFUSED, .refusal = text, .noreply = noreply};
    (void)memcache_add(session, work, &refused);
}

/* ---- values ------------------------------------------------------------------------------------- */

static void swallow_value(struct memcache_session *session, const struct memcache_request *request)
{
    session->missing = (uint64_t)request->value_bytes + 2;
    session->place = MEMCACHE_PLACE_SWALLOW;
}

static void refuse_chunk(struct memcache_session *session, struct memcache_work *work,
                         const struct memcache_request *request)
{
    memcache_count(&session->server->counters.cmd_set, 1);
    refuse_line(session, work, bad_chunk, memcache_wants_no_refusal(request));
}

static void store_value(struct memcache_session *session, struct memcache_work *work,
                        const struct memcache_request *request, const char *value)
{
    if (memcmp(value + request->value_bytes, "\r\n", 2) != 0)
        refuse_chunk(session, work, request);
    else
        memcache_add(session, work, request)->value = value;
}

/* Take memory for a value and for the texts of its line. @return false: there is too little */
static bool take_memory(struct memcache_session *session, const struct memcache_request *request)
{
    size_t value_bytes = (size_t)request->value_bytes + 2;
    size_t bytes = value_bytes + request->key.len + request->rest.len;
    session->memory = base_alloc(&session->server->values, bytes);
    if (session->memory == NULL)
        return false;
    session->memory_bytes = bytes;
    session->request = *request;
    session->request.key.text = memcpy(session->memory + value_bytes, request->key.text, request->key.len);
    session->request.rest.text =
        memcpy(session->memory + value_bytes + request->key.len, request->rest.text, request->rest.len);
    return true;
}

/* Begin a request with a value, a part of which may have come. @return bytes of the value that were taken */
static size_t begin_value(struct memcache_session *session, struct memcache_work *work,
                          const struct memcache_request *request, const char *data, size_t len)
{
    struct memcache_server *server = session->server;
    uint64_t bytes = (uint64_t)request->value_bytes + 2;
    if (!memcache_item_fits(server, request->key.len, request->value_bytes, request->client_flags)) {
        memcache_count(&server->counters.store_too_large, 1);
        refuse_line(session, work, too_large, memcache_wants_no_refusal(request));
        swallow_value(session, request);
        return 0;
    }
    if (bytes <= len) {
        store_value(session, work, request, data);
        return bytes;
    }
    if (!take_memory(session,
                     request)) { /* answered even to a client that wants no reply, as memcached does */
        memcache_count(&server->counters.store_no_memory, 1);
        refuse_line(session, work, no_memory, false);
        swallow_value(session, request);
        return 0;
    }
    session->missing = bytes;
    session->place = MEMCACHE_PLACE_VALUE;
    return 0;
}

/* The least missing bytes of a value that are received in place; fewer are read together with the input behind them, which
 * saves a read. */
#define PLACE_BYTES_MIN 4096

/* The place of the value's next byte. */
static char *value_end(const struct memcache_session *session)
{
    return session->memory + ((uint64_t)session->request.value_bytes + 2 - session->missing);
}

char *memcache_session_place(const struct memcache_session *session, size_t *ret_room)
{
    if (session->place != MEMCACHE_PLACE_VALUE || session->missing < PLACE_BYTES_MIN)
        return NULL;
    *ret_room = session->missing;
    return value_end(session);
}

/* @return bytes that were taken */
static size_t take_value(struct memcache_session *session, struct memcache_work *work, const char *data,
                         size_t len)
{
    size_t take = base_min(len, session->missing);
    char *end = value_end(session);
    if (end != data) /* otherwise the bytes were received in place */
        memcpy(end, data, take);
    session->missing -= take;
    if (session->missing == 0) {
        session->place = MEMCACHE_PLACE_LINE;
        store_value(session, work, &session->request, session->memory);
        memcache_step(session, work); /* carried out now, because the value's memory is freed next */
        free_memory(session);
    }
    return take;
}

static size_t skip_value(struct memcache_session *session, size_t len)
{
    size_t take = base_min(len, session->missing);
    session->missing -= take;
    if (session->missing == 0)
        session->place = MEMCACHE_PLACE_LINE;
    return take;
}

/* ---- keys --------------------------------------------------------------------------------------- */

/* End a list, unless it has ended early. @param refusal  the answer; NULL: END */
static void end_keys(struct memcache_session *session, struct memcache_work *work,
                     const struct memcache_request *list, const char *refusal)
{
    struct memcache_request request = *list;
    request.key = (struct memcache_text){.text = ""};
    request.refusal = refusal;
    memcache_add(session, work, &request)->last = true;
}

/* Add each key of a list as a request of its own; END follows the last. @param list  the request of the list */
static void add_keys(struct memcache_session *session, struct memcache_work *work,
                     const struct memcache_request *list, struct memcache_text keys, bool ends)
{
    struct memcache_request request = *list;
    struct memcache_op *last = NULL;
    while (memcache_next_word(&keys, &request.key))
        last = memcache_add(session, work, &request);
    if (ends && last != NULL)
        last->last = true;
    else if (ends)
        end_keys(session, work, list, NULL);
}

static bool keys_are_valid(struct memcache_text keys)
{
    struct memcache_text key;
    while (memcache_next_word(&keys, &key)) {
        if (key.len > MEMCACHE_KEY_BYTES_MAX)
            return false;
    }
    return true;
}

/* @return number of spaces at the end of a text */
static size_t blanks_behind(struct memcache_text keys)
{
    size_t count = 0;
    while (count < keys.len && keys.text[keys.len - 1 - count] == ' ')
        count++;
    return count;
}

/* Take a list whose whole line has come: no key is answered before all are known to be valid. */
static void take_list(struct memcache_session *session, struct memcache_work *work,
                      const struct memcache_request *request)
{
    if (keys_are_valid(request->rest))
        add_keys(session, work, request, request->rest, true);
    else
        refuse_line(session, work, bad_format, false);
}

/* Take more keys of a line whose end has not come. @return bytes that were taken, or -EPROTO */
static ssize_t take_keys(struct memcache_session *session, struct memcache_work *work, const char *data,
                         size_t len)
{
    const char *newline = memchr(data, '\n', len);
    const char *last_space = memrchr(data, ' ', len);
    const char *last = newline != NULL ? newline : last_space;
    size_t end = last == NULL ? 0 : (size_t)(last - data);
    bool carriage = newline != NULL && end > 0 && data[end - 1] == '\r';
    struct memcache_text keys = {data, end - carriage};
    bool endless = newline == NULL && len - end > MEMCACHE_KEY_BYTES_MAX + 2;
    bool well = keys_are_valid(keys) && !endless;
    size_t blanks = blanks_behind(keys);
    session->missing = blanks + (blanks == keys.len ? session->missing : 0);
    if (session->missing > BLANKS_MAX) /* the line has too many spaces in a row */
        return -EPROTO;
    if (well)
        add_keys(session, work, &session->request, keys, newline != NULL);
    else
        end_keys(session, work, &session->request, bad_format);
    if (newline != NULL) {
        session->place = MEMCACHE_PLACE_LINE;
        return (ssize_t)end + 1;
    }
    if (!well)
        session->place = MEMCACHE_PLACE_SKIP;
    return (ssize_t)end;
}

/* ---- lines -------------------------------------------------------------------------------------- */

/*
 * Flush all items. The times at which items were stored are not kept: so a moment since the server's start flushes all
 * items, and an earlier moment flushes none, as in memcached.
 */
static int flush_all(struct memcache_server *server, int64_t exptime)
{
    uint64_t when_ns = memcache_expiry_ns(exptime, task_wall(server->node));
    if (exptime > 0 && when_ns < server->begin_wall_ns)
        return 0;
    return kv_flush(server->kv, when_ns);
}

/* Execute a request that concerns all keys, or none, while no other request is in flight. */
static void execute_alone(struct memcache_session *session, struct memcache_work *work,
                          const struct memcache_request *request)
{
    struct memcache_server *server = session->server;
    memcache_step(session, work);
    if (request->verb == MEMCACHE_STATS) {
        memcache_stats(server, &work->output, request);
    } else if (request->verb == MEMCACHE_LRU_CRAWLER) {
        memcache_lru_crawler(server, &work->output, request);
    } else if (request->verb == MEMCACHE_SHUTDOWN) {
        if (server->host.shutdown == NULL)
            memcache_output_text(server, &work->output, "SERVER_ERROR: shutdown not enabled\r\n");
        else if (request->refusal != NULL)
            memcache_output_text(server, &work->output, request->refusal);
        else
            server->host.shutdown(server->host.arg);
    } else {
        if (server->host.refuses_flush) {
            memcache_output_text(server, &work->output, "CLIENT_ERROR flush_all not allowed\r\n");
            return;
        }
        memcache_count(&server->counters.cmd_flush, 1);
        int error = flush_all(server, request->exptime);
        if (error != 0)
            memcache_output_text(server, &work->output, memcache_failure(error));
        else if (!request->noreply)
            memcache_output_text(server, &work->output, "OK\r\n");
    }
}

/* Take a whole line, and a value behind it. @return bytes behind the line that were taken, or an error that ends the
 * connection */
static ssize_t take_request(struct memcache_session *session, struct memcache_work *work, char *line,
                            size_t line_len, const char *behind, size_t behind_len)
{
    struct memcache_request request;
    memcache_parse(line, line_len, &request);
    if (memcache_has_value(&request))
        return (ssize_t)begin_value(session, work, &request, behind, behind_len);
    switch (request.verb) {
    case MEMCACHE_QUIT:
        return -ESHUTDOWN;
    case MEMCACHE_STATS:
    case MEMCACHE_LRU_CRAWLER:
    case MEMCACHE_SHUTDOWN:
    case MEMCACHE_FLUSH_ALL:
        execute_alone(session, work, &request);
        break;
    default:
        if (memcache_has_keys(&request))
            take_list(session, work, &request);
        else
            (void)memcache_add(session, work, &request);
        if (request.closes)
            return -EPROTO;
        if (request.swallow)
            swallow_value(session, &request);
        break;
    }
    return 0;
}

/* Take as much as possible of a line whose end has not come. @return bytes that were taken, or -EPROTO */
static ssize_t wait_for_line(struct memcache_session *session, char *data, size_t len)
{
    const char *last_space = memrchr(data, ' ', len);
    if (len <= MEMCACHE_LINE_BYTES_MAX)
        return 0;
    memcache_parse(data, len, &session->request);
    if (!memcache_has_keys(&session->request) || last_space == NULL)
        return -EPROTO;
    session->place = MEMCACHE_PLACE_KEYS;
    session->missing = 0;
    return session->request.rest.text - data;
}

/* ---- the binary protocol ------------------------------------------------------------------------- */

#define BINARY_REQUEST                                                                                       \
    0x80 /* the first byte of each request of memcached's binary protocol; no command begins with it */
#define BINARY_RESPONSE     0x81
#define BINARY_HEADER_BYTES 24
#define BINARY_UNKNOWN      0x81 /* the status "Unknown command" */

/*
 * OFFSET  SIZE  MEANING
 *      0     1  BINARY_REQUEST, BINARY_RESPONSE
 *      1     1  opcode, the same in the response
 *      6     2  status of the response
 *      8     4  length of what stands behind the header
 *     12     4  opaque, the same in the response
 *
 * All other bytes are 0 in a response that has only a text.
 */
static ssize_t refuse_binary(struct memcache_session *session, struct memcache_work *work, const char *data,
                             size_t len, bool *ret_stuck)
{
    static const char text[] = "Unknown command";
    char packet[BINARY_HEADER_BYTES + sizeof(text) - 1] = {(char)BINARY_RESPONSE};
    if (len < BINARY_HEADER_BYTES) {
        *ret_stuck = true;
        return 0;
    }
    packet[1] = data[1];
    packet[7] = (char)BINARY_UNKNOWN;
    packet[11] = sizeof(text) - 1;
    memcpy(packet + 12, data + 12, 4);
    memcpy(packet + BINARY_HEADER_BYTES, text, sizeof(text) - 1);
    memcache_step(session, work);
    memcache_output_add(session->server, &work->output, packet, sizeof(packet));
    return -EPROTONOSUPPORT;
}

/* Take the next line. @param ret_stuck  set when more input is needed */
static ssize_t take_line(struct memcache_session *session, struct memcache_work *work, char *data, size_t len,
                         bool *ret_stuck)
{
    if ((unsigned char)data[0] == BINARY_REQUEST)
        return refuse_binary(session, work, data, len, ret_stuck);
    const char *newline = memchr(data, '\n', len);
    if (newline == NULL) {
        ssize_t taken = wait_for_line(session, data, len);
        *ret_stuck = taken == 0;
        return taken;
    }
    size_t line_len = (size_t)(newline - data);
    size_t with_end = line_len + 1;
    if (with_end < LINE_BYTES_MIN) {
        refuse_line(session, work, bad_format, false);
        return (ssize_t)with_end;
    }
    if (line_len > 0 && data[line_len - 1] == '\r')
        line_len--;
    ssize_t taken = take_request(session, work, data, line_len, data + with_end, len - with_end);
    return taken < 0 ? taken : (ssize_t)with_end + taken;
}

static size_t skip_line(struct memcache_session *session, const char *data, size_t len)
{
    const char *newline = memchr(data, '\n', len);
    if (newline == NULL)
        return len;
    session->place = MEMCACHE_PLACE_LINE;
    return (size_t)(newline - data) + 1;
}

static ssize_t take_input(struct memcache_session *session, struct memcache_work *work, char *data,
                          size_t len, bool *ret_stuck)
{
    ssize_t taken = 0;
    switch (session->place) {
    case MEMCACHE_PLACE_LINE:
        return take_line(session, work, data, len, ret_stuck);
    case MEMCACHE_PLACE_KEYS:
        taken = take_keys(session, work, data, len);
        *ret_stuck = taken == 0 && session->place == MEMCACHE_PLACE_KEYS;
        break;
    case MEMCACHE_PLACE_VALUE:
        taken = (ssize_t)take_value(session, work, data, len);
        break;
    case MEMCACHE_PLACE_SWALLOW:
        taken = (ssize_t)skip_value(session, len);
        break;
    case MEMCACHE_PLACE_SKIP:
        taken = (ssize_t)skip_line(session, data, len);
        break;
    }
    return taken;
}

int memcache_session_consume(struct memcache_session *session, struct memcache_work *work, char *data,
                             size_t len, size_t *ret_consumed)
{
    size_t consumed = 0;
    bool stuck = false;
    ssize_t taken = 0;
    while (consumed < len && !stuck && work->output.error == 0) {
        taken = take_input(session, work, data + consumed, len - consumed, &stuck);
        if (taken < 0)
            break;
        consumed += (size_t)taken;
    }
    memcache_step(session, work); /* carried out before `data` changes */
    memcache_count(&session->server->counters.bytes_read, consumed);
    if (taken < 0)
        return (int)taken;
    if (work->output.error != 0)
        return work->output.error;
    *ret_consumed = consumed;
    return 0;
}
