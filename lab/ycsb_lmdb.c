/* LMDB as an engine of YCSB. */
#include "lab/ycsb_engine.h"

#ifdef LAB_LMDB
#include "lab/library.h"
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
    X(mdb_put)

#define LIBRARY "liblmdb.so.0"

enum {
    FILE_MODE = 0600,
    HEAD_BYTES = 64, /* of a record in a page, generously */
    MAP_FACTOR = 8,  /* addresses cost nothing */
    MAP_ROOM_MIB = 64,
};

LAB_LIBRARY_CALLS(CALLS)

struct store {
    struct calls calls;
    struct lab_ycsb_place *place;
    MDB_env *env;
    MDB_dbi dbi;
};

struct session {
    const struct store *store;
    MDB_txn *reading;
};

static int say(const struct store *store, const char *what, int result)
{
    return lab_ycsb_say(store->place, -EIO, "%s: %s", what, store->calls.mdb_strerror(result));
}

static int open_table(struct store *store)
{
    MDB_txn *txn;
    int result = store->calls.mdb_txn_begin(store->env, NULL, 0, &txn);
    if (result != 0)
        return result;
    result = store->calls.mdb_dbi_open(txn, NULL, MDB_CREATE, &store->dbi);
    if (result == 0)
        return store->calls.mdb_txn_commit(txn);
    store->calls.mdb_txn_abort(txn);
    return result;
}

/* It lives on the page cache. Without read-ahead, as its manual says for data that exceeds the memory. */
static int open_environment(struct store *store, bool sync)
{
    const struct calls *calls = &store->calls;
    const struct lab_ycsb_place *place = store->place;
    size_t map_bytes = ((size_t)MAP_ROOM_MIB << 20) +
                       MAP_FACTOR * place->records_max * ((size_t)place->value_bytes + HEAD_BYTES);
    int result = calls->mdb_env_create(&store->env);
    if (result != 0)
        return result;
    result = calls->mdb_env_set_mapsize(store->env, base_align_up(map_bytes, BASE_PAGE_BYTES));
    if (result == 0)
        result = calls->mdb_env_open(store->env, place->folder, MDB_NORDAHEAD | (sync ? 0 : MDB_NOSYNC),
                                     FILE_MODE);
    if (result == 0)
        result = open_table(store);
    if (result != 0)
        calls->mdb_env_close(store->env);
    return result;
}

static int open_lmdb(struct lab_ycsb_place *place, bool sync, void **ret_store)
{
    struct store *store = base_alloc(place->account, sizeof(*store));
    if (store == NULL)
        return lab_ycsb_say(place, -ENOMEM, "no memory");
    store->place = place;
    int error = lab_ycsb_library(place, LIBRARY, names, base_array_count(names), &store->calls);
    int result = error == 0 ? open_environment(store, sync) : 0;
    if (result != 0)
        error = say(store, "open", result);
    if (error != 0)
        base_free(place->account, store, sizeof(*store));
    else
        *ret_store = store;
    return error;
}

static int close_lmdb(void *arg)
{
    struct store *store = arg;
    store->calls.mdb_env_close(store->env);
    base_free(store->place->account, store, sizeof(*store));
    return 0;
}

/* A reader's transaction is made once, and then begun anew for each read. */
static int open_session(void *arg, void **ret_session)
{
    const struct store *store = arg;
    struct session *session = base_alloc(store->place->account, sizeof(*session));
    if (session == NULL)
        return lab_ycsb_say(store->place, -ENOMEM, "no memory");
    session->store = store;
    int result = store->calls.mdb_txn_begin(store->env, NULL, MDB_RDONLY, &session->reading);
    if (result != 0) {
        base_free(store->place->account, session, sizeof(*session));
        return say(store, "session", result);
    }
    store->calls.mdb_txn_reset(session->reading);
    *ret_session = session;
    return 0;
}

static void close_session(void *arg)
{
    struct session *session = arg;
    session->store->calls.mdb_txn_abort(session->reading);
    base_free(session->store->place->account, session, sizeof(*session));
}

static int get_record(void *arg, const void *key, size_t key_bytes, void *value)
{
    const struct session *session = arg;
    const struct store *store = session->store;
    MDB_val name = {.mv_size = key_bytes, .mv_data = (void *)(uintptr_t)key}; /* it has no const */
    MDB_val found;
    int result = store->calls.mdb_txn_renew(session->reading);
    if (result != 0)
        return say(store, "get", result);
    result = store->calls.mdb_get(session->reading, store->dbi, &name, &found);
    int error = result == MDB_NOTFOUND ? -ENOENT : result != 0 ? say(store, "get", result) : 0;
    if (error == 0 && found.mv_size != store->place->value_bytes)
        error = -EBADMSG;
    if (error == 0)
        memcpy(value, found.mv_data, found.mv_size);
    store->calls.mdb_txn_reset(session->reading);
    return error;
}

static int put_record(void *arg, const void *key, size_t key_bytes, const void *value)
{
    const struct session *session = arg;
    const struct store *store = session->store;
    MDB_val name = {.mv_size = key_bytes, .mv_data = (void *)(uintptr_t)key};
    MDB_val data = {.mv_size = store->place->value_bytes, .mv_data = (void *)(uintptr_t)value};
    MDB_txn *txn;
    int result = store->calls.mdb_txn_begin(store->env, NULL, 0, &txn);
    if (result != 0)
        return say(store, "put", result);
    result = store->calls.mdb_put(txn, store->dbi, &name, &data, 0);
    if (result != 0) {
        store->calls.mdb_txn_abort(txn);
        return say(store, "put", result);
    }
    result = store->calls.mdb_txn_commit(txn);
    return result == 0 ? 0 : say(store, "commit", result);
}

const struct lab_ycsb_engine lab_ycsb_lmdb = {
    .name = "lmdb",
    .open = open_lmdb,
    .close = close_lmdb,
    .session_open = open_session,
    .session_close = close_session,
    .get = get_record,
    .put = put_record,
};
#else
const struct lab_ycsb_engine lab_ycsb_lmdb = {
    .name = "lmdb", .skipped = "not built in: install liblmdb-dev, then build again (meson setup --wipe)"};
#endif
