/* WiredTiger as an engine of YCSB. */
#include "lab/ycsb.h"

#ifdef LAB_WIREDTIGER
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <wiredtiger.h>

/* Everything else is reached through what these return. */
#define CALLS(X)                                                                                             \
    X(wiredtiger_open)                                                                                       \
    X(wiredtiger_strerror)

#define TABLE "table:records"

enum {
    CACHE_SHARE_MIN = 8, /* its cache has that part of the memory at least, */
    CACHE_SHARE_MAX = 4, /* and that at most: it is killed with more */
    OTHER_MIB = 136,     /* what it takes beside: seen with two threads and one arena */
    LOG_SHARE = 8,       /* a file of its log */
    LOG_MIB_MAX = 100,   /* its default */
    CHECKPOINT_LOGS = 4, /* files of the log that are written from one checkpoint to the next */
    CHECKPOINT_SECONDS = 60,
    PAGE_KIB = 4, /* of a leaf: a read of it is as long as the others' */
    CONFIGURATION_ROOM = 512,
};

LAB_YCSB_LIBRARY(CALLS)

struct store {
    struct lab_ycsb_place *place;
    WT_CONNECTION *connection;
};

struct session {
    const struct store *store;
    WT_SESSION *session;
    WT_CURSOR *cursor;
};

static int say(const struct store *store, const char *what, int result)
{
    return lab_ycsb_say(store->place, -EIO, "%s: %s", what, calls.wiredtiger_strerror(result));
}

static int make_table(const struct store *store)
{
    char configuration[CONFIGURATION_ROOM];
    WT_SESSION *session;
    int result = store->connection->open_session(store->connection, NULL, NULL, &session);
    if (result != 0)
        return result;
    (void)snprintf(configuration, sizeof(configuration), "key_format=u,value_format=u,leaf_page_max=%dKB",
                   PAGE_KIB);
    result = session->create(session, TABLE, configuration);
    int closed = session->close(session, NULL);
    return result != 0 ? result : closed;
}

static int open_connection(struct store *store, bool sync)
{
    char configuration[CONFIGURATION_ROOM];
    const struct lab_ycsb_place *place = store->place;
    uint64_t memory = place->memory_bytes;
    uint64_t other = base_max((uint64_t)OTHER_MIB << 20, memory - memory / CACHE_SHARE_MAX);
    other = base_min(other, memory - memory / CACHE_SHARE_MIN);
    uint64_t log_bytes = base_min(memory / LOG_SHARE, (uint64_t)LOG_MIB_MAX << 20);
    (void)snprintf(configuration, sizeof(configuration),
                   "create,config_base=false,cache_size=%" PRIu64 ",log=(enabled=true,file_max=%" PRIu64
                   "),transaction_sync=(enabled=%s,method=fsync),checkpoint=(wait=%d,log_size=%" PRIu64 ")%s",
                   memory - other, log_bytes, sync ? "true" : "false", CHECKPOINT_SECONDS,
                   CHECKPOINT_LOGS * log_bytes, place->direct ? ",direct_io=[data]" : "");
    if (place->in_memory)
        (void)snprintf(configuration, sizeof(configuration),
                       "create,config_base=false,in_memory=true,cache_size=%" PRIu64, memory);
    else
        (void)mallopt(M_ARENA_MAX, 1); /* its process is its own; with more it takes half as much again */
    int result = calls.wiredtiger_open(place->folder, NULL, configuration, &store->connection);
    if (result != 0)
        return result;
    result = make_table(store);
    if (result != 0)
        (void)store->connection->close(store->connection, NULL);
    return result;
}

static int open_wiredtiger(struct lab_ycsb_place *place, bool sync, void *arg)
{
    struct store *store = arg;
    store->place = place;
    int result = open_connection(store, sync);
    return result != 0 ? say(store, "open", result) : 0;
}

static int close_wiredtiger(void *arg)
{
    struct store *store = arg;
    int result = store->connection->close(store->connection, NULL);
    return result != 0 ? say(store, "close", result) : 0;
}

static void close_session(void *arg)
{
    struct session *session = arg;
    if (session->session != NULL)
        (void)session->session->close(session->session, NULL);
}

static int open_session(void *arg, void *ret_session)
{
    struct session *session = ret_session;
    session->store = arg;
    WT_CONNECTION *connection = session->store->connection;
    int result = connection->open_session(connection, NULL, NULL, &session->session);
    if (result == 0)
        result = session->session->open_cursor(session->session, TABLE, NULL, NULL, &session->cursor);
    if (result == 0)
        return 0;
    close_session(session);
    return say(session->store, "session", result);
}

static int get_record(void *arg, const void *key, size_t key_bytes, void *value)
{
    const struct session *session = arg;
    const struct store *store = session->store;
    WT_CURSOR *cursor = session->cursor;
    WT_ITEM name = {.data = key, .size = key_bytes};
    WT_ITEM found;
    cursor->set_key(cursor, &name);
    int result = cursor->search(cursor);
    if (result == WT_NOTFOUND)
        return -ENOENT;
    if (result == 0)
        result = cursor->get_value(cursor, &found);
    int error = result != 0 ? say(store, "get", result) : 0;
    if (error == 0 && found.size != store->place->value_bytes)
        error = -EBADMSG;
    if (error == 0)
        memcpy(value, found.data, found.size);
    result = cursor->reset(cursor);
    return error == 0 && result != 0 ? say(store, "get", result) : error;
}

/* What another thread changes at the same time is to be tried again. */
static int put_record(void *arg, const void *key, size_t key_bytes, const void *value)
{
    const struct session *session = arg;
    const struct store *store = session->store;
    WT_CURSOR *cursor = session->cursor;
    WT_ITEM name = {.data = key, .size = key_bytes};
    WT_ITEM data = {.data = value, .size = store->place->value_bytes};
    int result;
    do {
        cursor->set_key(cursor, &name);
        cursor->set_value(cursor, &data);
        result = cursor->insert(cursor); /* overwrites */
    } while (result == WT_ROLLBACK);
    return result == 0 ? 0 : say(store, "put", result);
}

static int scan_records(void *arg, const void *key, size_t key_bytes, uint32_t count,
                        lab_ycsb_show_function *show, void *show_arg)
{
    const struct session *session = arg;
    WT_CURSOR *cursor = session->cursor;
    WT_ITEM name = {.data = key, .size = key_bytes};
    WT_ITEM value;
    int order = 0;
    cursor->set_key(cursor, &name);
    int result = cursor->search_near(cursor, &order);
    if (result == 0 && order < 0)
        result = cursor->next(cursor);
    for (uint32_t i = 0; i < count && result == 0; i++) {
        result = cursor->get_key(cursor, &name);
        if (result == 0)
            result = cursor->get_value(cursor, &value);
        if (result == 0)
            show(show_arg, name.data, name.size, value.data, value.size);
        if (result == 0)
            result = cursor->next(cursor);
    }
    int error = result == 0 || result == WT_NOTFOUND ? 0 : say(session->store, "scan", result);
    result = cursor->reset(cursor);
    return error == 0 && result != 0 ? say(session->store, "scan", result) : error;
}

const struct lab_ycsb_engine lab_ycsb_wiredtiger = {
    .name = "wiredtiger",
    .library = "libwiredtiger.so.0",
    .names = names,
    .name_count = base_array_count(names),
    .calls = &calls,
    .store_bytes = sizeof(struct store),
    .session_bytes = sizeof(struct session),
    .open = open_wiredtiger,
    .close = close_wiredtiger,
    .session_open = open_session,
    .session_close = close_session,
    .get = get_record,
    .put = put_record,
    .scan = scan_records,
};
#else
const struct lab_ycsb_engine lab_ycsb_wiredtiger = {
    .name = "wiredtiger",
    .skipped = "not built in: install libwiredtiger-dev, then build again (meson setup --wipe)"};
#endif
