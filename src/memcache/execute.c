/* What requests do to the store, and what is answered. */
#include "memcache/memcache_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* An item in memcached's memory: header, key and its zero, flags if there are any, value and line end. */
#define ITEM_FIXED_BYTES 59
#define ITEM_FLAGS_BYTES 4

static void reply(struct memcache_server *server, struct memcache_output *output,
                  const struct memcache_request *request, const char *text)
{
    if (!request->noreply)
        memcache_output_text(server, output, text);
}

/* What a failure of the store is answered with; told even to who wants no reply, as memcached does. */
static const char *failure(int error)
{
    switch (error) {
    case -ENOSPC:
        return "SERVER_ERROR out of memory storing object\r\n";
    case -EROFS:
        return "SERVER_ERROR the store takes no more writes\r\n";
    case -EBADMSG:
        return "SERVER_ERROR the stored record is damaged\r\n";
    default:
        return "SERVER_ERROR the drive has failed\r\n";
    }
}

/* ---- get ---------------------------------------------------------------------------------------- */

static size_t print_value_line(char *line, size_t room, const struct memcache_text *key,
                               const struct tarn_record_info *info, bool with_version)
{
    char version[24] = "";
    if (with_version)
        (void)snprintf(version, sizeof(version), " %" PRIu64, info->version);
    memcpy(line, "VALUE ", 6);
    memcpy(line + 6, key->text, key->len);
    int tail = snprintf(line + 6 + key->len, room - 6 - key->len, " %" PRIu32 " %" PRIu32 "%s\r\n",
                        info->client_flags, info->value_bytes, version);
    base_assert(tail > 0 && (size_t)tail < room - 6 - key->len);
    return 6 + key->len + (size_t)tail;
}

/* A value that no output buffer holds: through memory of its own. */
static int get_large(struct memcache_server *server, struct memcache_output *output,
                     const struct memcache_text *key, bool with_version, struct tarn_record_info info,
                     const char **ret_refusal)
{
    char line[MEMCACHE_VALUE_LINE_MAX + 1];
    int error = -ENOBUFS;
    while (error == -ENOBUFS) { /* somebody may store a longer one in between */
        size_t room = (size_t)info.value_bytes + 2;
        char *value = base_alloc(&server->values, room);
        if (value == NULL) {
            *ret_refusal = "SERVER_ERROR out of memory writing get response\r\n";
            return -ENOMEM;
        }
        error = tarn_depot_get(server->depot, key->text, key->len, value, room - 2, &info);
        if (error == 0) {
            memcpy(value + info.value_bytes, "\r\n", 2);
            memcache_output_add(server, output, line,
                                print_value_line(line, sizeof(line), key, &info, with_version));
            memcache_output_send(server, output, value, (size_t)info.value_bytes + 2);
        }
        base_free(&server->values, value, room);
    }
    return error;
}

/* The value is read behind the longest possible first line, and moved up to the one that it has. */
static int get_small(struct memcache_server *server, struct memcache_output *output,
                     const struct memcache_text *key, bool with_version, struct tarn_record_info *ret_info)
{
    char line[MEMCACHE_VALUE_LINE_MAX + 1];
    const size_t around = MEMCACHE_VALUE_LINE_MAX + 2;
    if (output->room - output->used <= around && memcache_output_flush(server, output) != 0)
        return 0;
    char *begin = output->data + output->used;
    char *value = begin + MEMCACHE_VALUE_LINE_MAX;
    int error = tarn_depot_get(server->depot, key->text, key->len, value,
                               output->room - output->used - around, ret_info);
    if (error != 0)
        return error;
    size_t line_len = print_value_line(line, sizeof(line), key, ret_info, with_version);
    memmove(begin + line_len, value, ret_info->value_bytes);
    memcpy(begin, line, line_len);
    memcpy(begin + line_len + ret_info->value_bytes, "\r\n", 2);
    output->used += line_len + ret_info->value_bytes + 2;
    return 0;
}

int memcache_execute_get(struct memcache_server *server, struct memcache_output *output,
                         const struct memcache_text *key, bool with_version, const char **ret_refusal)
{
    struct tarn_record_info info;
    memcache_count(&server->counters.cmd_get, 1);
    int error = get_small(server, output, key, with_version, &info);
    if (error == -ENOBUFS && info.value_bytes <= output->room - MEMCACHE_VALUE_LINE_MAX - 2) {
        if (memcache_output_flush(server, output) != 0)
            return 0;
        error = get_small(server, output, key, with_version, &info);
    }
    if (error == -ENOBUFS)
        error = get_large(server, output, key, with_version, info, ret_refusal);
    if (error == 0)
        memcache_count(&server->counters.get_hits, 1);
    if (error == -ENOENT) {
        memcache_count(&server->counters.get_misses, 1);
        return 0;
    }
    if (error != 0 && error != -ENOMEM)
        *ret_refusal = failure(error);
    return error;
}

/* ---- set and its kin ---------------------------------------------------------------------------- */

static void refuse_size(struct memcache_server *server, struct memcache_output *output,
                        const struct memcache_request *request)
{
    memcache_count(&server->counters.store_too_large, 1);
    reply(server, output, request, "SERVER_ERROR object too large for cache\r\n");
}

bool memcache_execute_accepts(struct memcache_server *server, struct memcache_output *output,
                              const struct memcache_request *request)
{
    uint64_t item_bytes = ITEM_FIXED_BYTES + request->key.len + (uint64_t)request->value_bytes +
                          (request->client_flags != 0 ? ITEM_FLAGS_BYTES : 0);
    if (item_bytes <= server->item_bytes_max &&
        request->value_bytes <= tarn_depot_value_bytes_max(server->depot))
        return true;
    refuse_size(server, output, request);
    return false;
}

static enum tarn_put_condition condition_of(enum memcache_verb verb)
{
    switch (verb) {
    case MEMCACHE_ADD:
        return TARN_PUT_IF_ABSENT;
    case MEMCACHE_REPLACE:
        return TARN_PUT_IF_PRESENT;
    case MEMCACHE_CAS:
        return TARN_PUT_IF_VERSION;
    default:
        return TARN_PUT_ANY;
    }
}

static void answer_cas(struct memcache_server *server, struct memcache_output *output,
                       const struct memcache_request *request, int outcome)
{
    struct memcache_counters *counters = &server->counters;
    memcache_count(outcome == 0         ? &counters->cas_hits
                   : outcome == -EEXIST ? &counters->cas_badval
                                        : &counters->cas_misses,
                   1);
    reply(server, output, request,
          outcome == 0         ? "STORED\r\n"
          : outcome == -EEXIST ? "EXISTS\r\n"
                               : "NOT_FOUND\r\n");
}

void memcache_execute_store(struct memcache_server *server, struct memcache_output *output,
                            const struct memcache_request *request, const void *value)
{
    if (memcmp((const char *)value + request->value_bytes, "\r\n", 2) != 0) {
        reply(server, output, request, "CLIENT_ERROR bad data chunk\r\n");
        return;
    }
    memcache_count(&server->counters.cmd_set, 1);
    const struct tarn_put_options options = {
        .condition = condition_of(request->verb),
        .if_version = request->cas,
        .expiry_ns = memcache_expiry_ns(request->exptime, task_wall(server->node)),
        .client_flags = request->client_flags,
    };
    int outcome = tarn_depot_put(server->depot, request->key.text, request->key.len, value,
                                 request->value_bytes, &options, NULL);
    if (outcome == 0)
        memcache_count(&server->counters.total_items, 1);
    if (outcome == -ENOSPC)
        memcache_count(&server->counters.store_no_memory, 1);
    if (outcome == -EMSGSIZE)
        refuse_size(server, output, request);
    else if (outcome != 0 && outcome != -EEXIST && outcome != -ENOENT)
        memcache_output_text(server, output, failure(outcome));
    else if (request->verb == MEMCACHE_CAS)
        answer_cas(server, output, request, outcome);
    else
        reply(server, output, request, outcome == 0 ? "STORED\r\n" : "NOT_STORED\r\n");
}

/* ---- the others --------------------------------------------------------------------------------- */

static void execute_delete(struct memcache_server *server, struct memcache_output *output,
                           const struct memcache_request *request)
{
    int outcome = tarn_depot_delete(server->depot, request->key.text, request->key.len);
    if (outcome != 0 && outcome != -ENOENT) {
        memcache_output_text(server, output, failure(outcome));
        return;
    }
    memcache_count(outcome == 0 ? &server->counters.delete_hits : &server->counters.delete_misses, 1);
    reply(server, output, request, outcome == 0 ? "DELETED\r\n" : "NOT_FOUND\r\n");
}

static void execute_touch(struct memcache_server *server, struct memcache_output *output,
                          const struct memcache_request *request)
{
    memcache_count(&server->counters.cmd_touch, 1);
    int outcome = tarn_depot_touch(server->depot, request->key.text, request->key.len,
                                   memcache_expiry_ns(request->exptime, task_wall(server->node)));
    if (outcome != 0 && outcome != -ENOENT) {
        memcache_output_text(server, output, failure(outcome));
        return;
    }
    memcache_count(outcome == 0 ? &server->counters.touch_hits : &server->counters.touch_misses, 1);
    reply(server, output, request, outcome == 0 ? "TOUCHED\r\n" : "NOT_FOUND\r\n");
}

static void execute_flush_all(struct memcache_server *server, struct memcache_output *output,
                              const struct memcache_request *request)
{
    memcache_count(&server->counters.cmd_flush, 1);
    /* 0, and what is past, is now */
    uint64_t when_ns = memcache_expiry_ns(request->exptime, task_wall(server->node));
    int outcome = tarn_depot_flush_all(server->depot, when_ns);
    if (outcome != 0)
        memcache_output_text(server, output, failure(outcome));
    else
        reply(server, output, request, "OK\r\n");
}

static void execute_version(struct memcache_server *server, struct memcache_output *output)
{
    memcache_output_text(server, output, "VERSION ");
    memcache_output_text(server, output, tarn_version());
    memcache_output_text(server, output, "\r\n");
}

void memcache_execute(struct memcache_server *server, struct memcache_output *output,
                      const struct memcache_request *request)
{
    switch (request->verb) {
    case MEMCACHE_DELETE:
        execute_delete(server, output, request);
        break;
    case MEMCACHE_TOUCH:
        execute_touch(server, output, request);
        break;
    case MEMCACHE_FLUSH_ALL:
        execute_flush_all(server, output, request);
        break;
    case MEMCACHE_STATS:
        memcache_stats(server, output, request);
        break;
    case MEMCACHE_VERSION:
        execute_version(server, output);
        break;
    case MEMCACHE_VERBOSITY: /* accepted for the clients' sake: the log has its own setting */
        reply(server, output, request, "OK\r\n");
        break;
    default:
        reply(server, output, request, request->refusal);
        break;
    }
}
