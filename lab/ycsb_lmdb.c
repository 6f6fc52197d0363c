/* LMDB as an engine of YCSB. */
#include "lab/ycsb.h"

#ifdef LAB_LMDB
#include <errno.h>
#include <lmdb.h>

#define CALLS(X)                                                                                             \
    X(mdb_strerror)                                                                                          \
    X(mdb_env_create)                                                                                        \
    X(mdb_env_set_mapsize)                                                                                   \
    X(mdb_env_open)                                                                                          \
    X(mdb_env_close)                                                                                         \
    X(mdb_txn_begin)                                                                                         \
    X(mdb_txn_commit)                                                                                        \
    X(mdb_txn_abort)                                                                                         \
    X(mdb_txn_reset)                                                                                         \
    X(mdb_txn_renew)                                                                                         \
    X(mdb_dbi_open)                                                                                          \
    X(mdb_get)                                                                                               \
    X(mdb_put)                                                                                               \
    X(mdb_cursor_open)                                                                                       \
    X(mdb_cursor_renew)                                                                                      \
    X(mdb_cursor_get)                                                                                        \
    X(mdb_cursor_close)

enum {
    FILE_MODE = 0600,
    HEAD_BYTES = 64, /* of a record in a page, generously */
    MAP_FACTOR = 8,  /* addresses cost nothing */
    MAP_ROOM_MIB = 64,
};

LAB_YCSB_LIBRARY(CALLS)

struct store {
    struct lab_ycsb_place *place;
    MDB_env *env;
    MDB_dbi dbi;
};

struct session {
    const struct store *store;
    MDB_txn *reading;
    MDB_cursor *cursor; /* of scans; NULL: none has been yet */
};

static int say(const struct store *store, const char *what, int result)
{
    return lab_ycsb_say(store->place, -EIO, "%s: %s", what, calls.mdb_strerror(result));
}

static int open_table(struct store *store)
{
    MDB_txn *txn;
    int result = calls.mdb_txn_begin(store->env, NULL, 0, &txn);
    if (result != 0)
        return result;
    result = calls.mdb_dbi_open(txn, NULL, MDB_CREATE, &store->dbi);
    if (result == 0)
        return calls.mdb_txn_commit(txn);
    calls.mdb_txn_abort(txn);
    return result;
}

/* It lives on the page cache. Without read-ahead, as its manual says for data that exceeds the memory. */
static int open_environment(struct store *store, bool sync)
{
    const struct lab_ycsb_place *place = store->place;
    size_t map_bytes = ((size_t)MAP_ROOM_MIB << 20) +
                       MAP_FACTOR * place->records_max * ((size_t)place->value_bytes + HEAD_BYTES);
    int result = calls.mdb_env_create(&store->env);
    if (result != 0)
        return result;
    result = calls.mdb_env_set_mapsize(store->env, base_align_up(map_bytes, BASE_PAGE_BYTES));
    const unsigned flags = MDB_NORDAHEAD | (sync ? 0 : MDB_NOSYNC) | (place->in_memory ? MDB_WRITEMAP : 0);
    if (result == 0)
        result = calls.mdb_env_open(store->env, place->folder, flags, FILE_MODE);
    if (result == 0)
        result = open_table(store);
    if (result != 0)
        calls.mdb_env_close(store->env);
    return result;
}

static int open_lmdb(struct lab_ycsb_place *place, bool sync, void *arg)
{
    struct store *store = arg;
    store->place = place;
    int result = open_environment(store, sync);
    return result != 0 ? say(store, "open", result) : 0;
}

static int close_lmdb(void *arg)
{
    struct store *store = arg;
    calls.mdb_env_close(store->env);
    return 0;
}

/* A reader's transaction is made once, and then begun anew for each read. */
static int open_session(void *arg, void *ret_session)
{
    struct session *session = ret_session;
    session->store = arg;
    int result = calls.mdb_txn_begin(session->store->env, NULL, MDB_RDONLY, &session->reading);
    if (result != 0)
        return say(session->store, "session", result);
    calls.mdb_txn_reset(session->reading);
    return 0;
}

static void close_session(void *arg)
{
    struct session *session = arg;
    if (session->cursor != NULL)
        calls.mdb_cursor_close(session->cursor);
    calls.mdb_txn_abort(session->reading);
}

static int get_record(void *arg, const void *key, size_t key_bytes, void *value)
{
    const struct session *session = arg;
    const struct store *store = session->store;
    MDB_val name = {.mv_size = key_bytes, .mv_data = (void *)(uintptr_t)key}; /* it has no const */
    MDB_val found;
    int result = calls.mdb_txn_renew(session->reading);
    if (result != 0)
        return say(store, "get", result);
    result = calls.mdb_get(session->reading, store->dbi, &name, &found);
    int error = result == MDB_NOTFOUND ? -ENOENT : result != 0 ? say(store, "get", result) : 0;
    if (error == 0 && found.mv_size != store->place->value_bytes)
        error = -EBADMSG;
    if (error == 0)
        memcpy(value, found.mv_data, found.mv_size);
    calls.mdb_txn_reset(session->reading);
    return error;
}

static int put_record(void *arg, const void *key, size_t key_bytes, const void *value)
{
    const struct session *session = arg;
    const struct store *store = session->store;
    MDB_val name = {.mv_size = key_bytes, .mv_data = (void *)(uintptr_t)key};
    MDB_val data = {.mv_size = store->place->value_bytes, .mv_data = (void *)(uintptr_t)value};
    MDB_txn *txn;
    int result = calls.mdb_txn_begin(store->env, NULL, 0, &txn);
    if (result != 0)
        return say(store, "put", result);
    result = calls.mdb_put(txn, store->dbi, &name, &data, 0);
    if (result != 0) {
        calls.mdb_txn_abort(txn);
        return say(store, "put", result);
    }
    result = calls.mdb_txn_commit(txn);
    return result == 0 ? 0 : say(store, "commit", result);
}

/* A cursor is made once, and then begun anew with each transaction. */
static int begin_scan(struct session *session)
{
    int result = calls.mdb_txn_renew(session->reading);
    if (result == 0)
        result = session->cursor == NULL
                     ? calls.mdb_cursor_open(session->reading, session->store->dbi, &session->cursor)
                     : calls.mdb_cursor_renew(session->reading, session->cursor);
    return result;
}

static int scan_records(void *arg, const void *key, size_t key_bytes, uint32_t count,
                        lab_ycsb_show_function *show, void *show_arg)
{
    struct session *session = arg;
    MDB_val name = {.mv_size = key_bytes, .mv_data = (void *)(uintptr_t)key}; /* it has no const */
    MDB_val found;
    int result = begin_scan(session);
    if (result == 0)
        result = calls.mdb_cursor_get(session->cursor, &name, &found, MDB_SET_RANGE);
    for (uint32_t i = 0; i < count && result == 0; i++) {
        show(show_arg, name.mv_data, name.mv_size, found.mv_data, found.mv_size);
        result = calls.mdb_cursor_get(session->cursor, &name, &found, MDB_NEXT);
    }
    calls.mdb_txn_reset(session->reading);
    return result == 0 || result == MDB_NOTFOUND ? 0 : say(session->store, "scan", result);
}

const struct lab_ycsb_engine lab_ycsb_lmdb = {
    .name = "lmdb",
    .library = "liblmdb.so.0",
    .names = names,
    .name_count = base_array_count(names),
    .calls = &calls,
    .store_bytes = sizeof(struct store),
    .session_bytes = sizeof(struct session),
    .open = open_lmdb,
    .close = close_lmdb,
    .session_open = open_session,
    .session_close = close_session,
    .get = get_record,
    .put = put_record,
    .scan = scan_records,
};
#else
const struct lab_ycsb_engine lab_ycsb_lmdb = {
    .name = "lmdb", .skipped = "not built in: install liblmdb-dev, then build again (meson setup --wipe)"};
#endif
