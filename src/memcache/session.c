/*
 * Sessions: what a connection's bytes mean, wherever the network has cut them.
 *
 *            line of get/gets longer than the buffer         line end
 *   LINE ───────────────────────────────────────▶ KEYS ────────────────▶ LINE
 *    │ line of set, value not there yet                      last byte
 *    ├────────────────────────────────────────▶ VALUE ────────────────▶ LINE
 *    │ line of set, refused                                  last byte
 *    ├──────────────────────────────────────▶ SWALLOW ────────────────▶ LINE
 *    │ bad key in KEYS                                       line end
 *    └─────────────────────────────────────────▶ SKIP ────────────────▶ LINE
 */
#include "memcache/memcache_internal.h"
#include <errno.h>

static const char bad_format[] = "CLIENT_ERROR bad command line format\r\n";
static const char no_memory[] = "SERVER_ERROR out of memory storing object\r\n";

/* ---- output ------------------------------------------------------------------------------------- */

int memcache_output_flush(struct memcache_server *server, struct memcache_output *output)
{
    if (output->error == 0 && output->used > 0) {
        output->error = output->send(output->arg, output->data, output->used);
        memcache_count(&server->counters.bytes_written, output->used);
    }
    output->used = 0;
    return output->error;
}

void memcache_output_add(struct memcache_server *server, struct memcache_output *output, const void *data,
                         size_t len)
{
    if (len > output->room - output->used && memcache_output_flush(server, output) != 0)
        return;
    memcpy(output->data + output->used, data, len);
    output->used += len;
}

void memcache_output_text(struct memcache_server *server, struct memcache_output *output, const char *text)
{
    memcache_output_add(server, output, text, strlen(text));
}

void memcache_output_send(struct memcache_server *server, struct memcache_output *output, const void *data,
                          size_t len)
{
    if (memcache_output_flush(server, output) != 0)
        return;
    output->error = output->send(output->arg, data, len);
    memcache_count(&server->counters.bytes_written, len);
}

/* ---- state -------------------------------------------------------------------------------------- */

void memcache_session_init(struct memcache_session *session, struct memcache_server *server)
{
    session->server = server;
    session->state = MEMCACHE_STATE_LINE;
    session->value = NULL;
}

static void free_value(struct memcache_session *session)
{
    if (session->value != NULL)
        base_free(&session->server->values, session->value, (size_t)session->request.value_bytes + 2);
    session->value = NULL;
}

void memcache_session_deinit(struct memcache_session *session)
{
    free_value(session);
}

bool memcache_session_is_idle(const struct memcache_session *session)
{
    return session->state == MEMCACHE_STATE_LINE;
}

/* ---- values ------------------------------------------------------------------------------------- */

static void swallow_value(struct memcache_session *session, const struct memcache_request *request)
{
    session->missing = (uint64_t)request->value_bytes + 2;
    session->state = MEMCACHE_STATE_SWALLOW;
}

/* A request with a value, of which some may be there. @return bytes of it that are done with */
static size_t begin_value(struct memcache_session *session, struct memcache_output *output,
                          const struct memcache_request *request, const char *data, size_t len)
{
    struct memcache_server *server = session->server;
    uint64_t bytes = (uint64_t)request->value_bytes + 2;
    if (!memcache_execute_accepts(server, output, request)) {
        swallow_value(session, request);
        return 0;
    }
    if (bytes <= len) {
        memcache_execute_store(server, output, request, data);
        return bytes;
    }
    session->value = base_alloc(&server->values, bytes);
    if (session->value == NULL) { /* told even to who wants no reply, as memcached does */
        memcache_count(&server->counters.store_no_memory, 1);
        memcache_output_text(server, output, no_memory);
        swallow_value(session, request);
        return 0;
    }
    session->request = *request;
    memcpy(session->key, request->key.text, request->key.len);
    session->missing = bytes;
    session->state = MEMCACHE_STATE_VALUE;
    return 0;
}

/* @return bytes that are done with */
static size_t take_value(struct memcache_session *session, struct memcache_output *output, const char *data,
                         size_t len)
{
    uint64_t bytes = (uint64_t)session->request.value_bytes + 2;
    size_t take = base_min(len, session->missing);
    memcpy(session->value + (bytes - session->missing), data, take);
    session->missing -= take;
    if (session->missing == 0) {
        session->request.key.text = session->key; /* the session may have been moved meanwhile */
        memcache_execute_store(session->server, output, &session->request, session->value);
        free_value(session);
        session->state = MEMCACHE_STATE_LINE;
    }
    return take;
}

static size_t swallow(struct memcache_session *session, size_t len)
{
    size_t take = base_min(len, session->missing);
    session->missing -= take;
    if (session->missing == 0)
        session->state = MEMCACHE_STATE_LINE;
    return take;
}

/* ---- keys --------------------------------------------------------------------------------------- */

/* Answer keys in order. @return whether all was well; else the refusal is given */
static bool get_keys(struct memcache_session *session, struct memcache_output *output, bool with_version,
                     struct memcache_text keys)
{
    struct memcache_text key;
    const char *refusal;
    while (memcache_next_word(&keys, &key) && output->error == 0) {
        if (memcache_execute_get(session->server, output, &key, with_version, &refusal) != 0) {
            memcache_output_text(session->server, output, refusal);
            return false;
        }
    }
    return true;
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

/* A get whose line is there as a whole: nothing is answered before all keys are known to be valid. */
static void get_line(struct memcache_session *session, struct memcache_output *output,
                     const struct memcache_request *request)
{
    if (!keys_are_valid(request->rest))
        memcache_output_text(session->server, output, bad_format);
    else if (get_keys(session, output, request->verb == MEMCACHE_GETS, request->rest))
        memcache_output_text(session->server, output, "END\r\n");
}

/* More keys of a line that is longer than what is there. @return bytes that are done with */
static size_t take_keys(struct memcache_session *session, struct memcache_output *output, const char *data,
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
    if (!well)
        memcache_output_text(session->server, output, bad_format);
    else
        well = get_keys(session, output, session->request.verb == MEMCACHE_GETS, keys);
    if (newline != NULL) {
        if (well)
            memcache_output_text(session->server, output, "END\r\n");
        session->state = MEMCACHE_STATE_LINE;
        return end + 1;
    }
    if (!well)
        session->state = MEMCACHE_STATE_SKIP;
    return end;
}

/* ---- lines -------------------------------------------------------------------------------------- */

/* A whole line, and what lies behind it. @return bytes of that which are done with, or what ends it all */
static ssize_t execute_line(struct memcache_session *session, struct memcache_output *output,
                            const char *line, size_t line_len, const char *behind, size_t behind_len)
{
    struct memcache_request request;
    memcache_parse(line, line_len, &request);
    if (memcache_has_value(&request))
        return (ssize_t)begin_value(session, output, &request, behind, behind_len);
    if (request.verb == MEMCACHE_GET || request.verb == MEMCACHE_GETS)
        get_line(session, output, &request);
    else if (request.verb == MEMCACHE_QUIT)
        return -ESHUTDOWN;
    else
        memcache_execute(session->server, output, &request);
    return 0;
}

/* A line whose end is not there. @return bytes that are done with, or -EPROTO */
static ssize_t wait_for_line(struct memcache_session *session, const char *data, size_t len)
{
    struct memcache_request request;
    const char *last_space = memrchr(data, ' ', len);
    if (len <= MEMCACHE_LINE_BYTES_MAX)
        return 0;
    memcache_parse(data, len, &request);
    if ((request.verb != MEMCACHE_GET && request.verb != MEMCACHE_GETS) || last_space == NULL)
        return -EPROTO;
    session->request = request;
    session->state = MEMCACHE_STATE_KEYS;
    return request.rest.text - data;
}

/* @param ret_stuck  set when nothing can be done before more has come */
static ssize_t take_line(struct memcache_session *session, struct memcache_output *output, const char *data,
                         size_t len, bool *ret_stuck)
{
    const char *newline = memchr(data, '\n', len);
    if (newline == NULL) {
        ssize_t taken = wait_for_line(session, data, len);
        *ret_stuck = taken == 0;
        return taken;
    }
    size_t line_len = (size_t)(newline - data);
    size_t with_end = line_len + 1;
    if (line_len > 0 && data[line_len - 1] == '\r')
        line_len--;
    ssize_t taken = execute_line(session, output, data, line_len, data + with_end, len - with_end);
    return taken < 0 ? taken : (ssize_t)with_end + taken;
}

static size_t skip(struct memcache_session *session, const char *data, size_t len)
{
    const char *newline = memchr(data, '\n', len);
    if (newline == NULL)
        return len;
    session->state = MEMCACHE_STATE_LINE;
    return (size_t)(newline - data) + 1;
}

static ssize_t take(struct memcache_session *session, struct memcache_output *output, const char *data,
                    size_t len, bool *ret_stuck)
{
    size_t taken = 0;
    switch (session->state) {
    case MEMCACHE_STATE_LINE:
        return take_line(session, output, data, len, ret_stuck);
    case MEMCACHE_STATE_KEYS:
        taken = take_keys(session, output, data, len);
        *ret_stuck = taken == 0 && session->state == MEMCACHE_STATE_KEYS;
        break;
    case MEMCACHE_STATE_VALUE:
        taken = take_value(session, output, data, len);
        break;
    case MEMCACHE_STATE_SWALLOW:
        taken = swallow(session, len);
        break;
    case MEMCACHE_STATE_SKIP:
        taken = skip(session, data, len);
        break;
    }
    return (ssize_t)taken;
}

int memcache_session_consume(struct memcache_session *session, const void *data, size_t len,
                             struct memcache_output *output, size_t *ret_consumed)
{
    const char *text = data;
    size_t consumed = 0;
    bool stuck = false;
    while (consumed < len && !stuck && output->error == 0) {
        ssize_t taken = take(session, output, text + consumed, len - consumed, &stuck);
        if (taken < 0)
            return (int)taken;
        consumed += (size_t)taken;
    }
    if (output->error != 0)
        return output->error;
    *ret_consumed = consumed;
    return 0;
}
