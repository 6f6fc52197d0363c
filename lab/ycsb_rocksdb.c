/* RocksDB as an engine of YCSB. */
#include "lab/ycsb.h"

#ifdef LAB_ROCKSDB
#include <errno.h>
#include <malloc.h>
#include <rocksdb/c.h>

#define CALLS(X)                                                                                             \
    X(rocksdb_open)                                                                                          \
    X(rocksdb_close)                                                                                         \
    X(rocksdb_put)                                                                                           \
    X(rocksdb_get_pinned)                                                                                    \
    X(rocksdb_pinnableslice_value)                                                                           \
    X(rocksdb_pinnableslice_destroy)                                                                         \
    X(rocksdb_free)                                                                                          \
    X(rocksdb_options_create)                                                                                \
    X(rocksdb_options_destroy)                                                                               \
    X(rocksdb_options_set_create_if_missing)                                                                 \
    X(rocksdb_options_set_compression)                                                                       \
    X(rocksdb_options_set_write_buffer_size)                                                                 \
    X(rocksdb_options_set_db_write_buffer_size)                                                              \
    X(rocksdb_options_set_max_background_jobs)                                                               \
    X(rocksdb_options_set_use_direct_reads)                                                                  \
    X(rocksdb_options_set_use_direct_io_for_flush_and_compaction)                                            \
    X(rocksdb_options_set_block_based_table_factory)                                                         \
    X(rocksdb_block_based_options_create)                                                                    \
    X(rocksdb_block_based_options_destroy)                                                                   \
    X(rocksdb_block_based_options_set_block_cache)                                                           \
    X(rocksdb_block_based_options_set_cache_index_and_filter_blocks)                                         \
    X(rocksdb_block_based_options_set_filter_policy)                                                         \
    X(rocksdb_cache_create_lru)                                                                              \
    X(rocksdb_cache_destroy)                                                                                 \
    X(rocksdb_filterpolicy_create_bloom_full)                                                                \
    X(rocksdb_readoptions_create)                                                                            \
    X(rocksdb_readoptions_destroy)                                                                           \
    X(rocksdb_writeoptions_create)                                                                           \
    X(rocksdb_writeoptions_destroy)                                                                          \
    X(rocksdb_writeoptions_set_sync)                                                                         \
    X(rocksdb_writeoptions_disable_WAL)                                                                      \
    X(rocksdb_create_iterator)                                                                               \
    X(rocksdb_iter_destroy)                                                                                  \
    X(rocksdb_iter_seek)                                                                                     \
    X(rocksdb_iter_next)                                                                                     \
    X(rocksdb_iter_valid)                                                                                    \
    X(rocksdb_iter_key)                                                                                      \
    X(rocksdb_iter_value)                                                                                    \
    X(rocksdb_iter_get_error)

enum {
    CACHE_SHARE = 3,     /* the part of the memory for blocks: with a half it is killed within minutes */
    BUFFERS_SHARE = 4,   /* all memtables */
    BUFFER_SHARE = 8,    /* one memtable */
    BUFFER_MIB_MAX = 64, /* its default */
    FILTER_BITS = 10,    /* of a key */
    BACKGROUND_JOBS = 2, /* its default */
};

LAB_YCSB_LIBRARY(CALLS)

struct store {
    struct lab_ycsb_place *place;
    rocksdb_t *db;
    rocksdb_options_t *options;
    rocksdb_cache_t *cache;
    rocksdb_readoptions_t *reading;
    rocksdb_writeoptions_t *writing;
};

/* An error's text is its library's memory. @return 0; -EIO: said */
static int take_error(const struct store *store, const char *what, char *text)
{
    if (text == NULL)
        return 0;
    (void)lab_ycsb_say(store->place, -EIO, "%s: %s", what, text);
    calls.rocksdb_free(text);
    return -EIO;
}

static void set_options(struct store *store)
{
    const struct lab_ycsb_place *place = store->place;
    uint64_t memory = place->memory_bytes;
    rocksdb_options_t *options = store->options;
    calls.rocksdb_options_set_create_if_missing(options, 1);
    calls.rocksdb_options_set_compression(options, rocksdb_no_compression);
    if (place->in_memory) { /* one memtable, which is never full */
        calls.rocksdb_options_set_write_buffer_size(options, memory);
        calls.rocksdb_writeoptions_disable_WAL(store->writing, 1);
    } else {
        calls.rocksdb_options_set_write_buffer_size(
            options, base_min(memory / BUFFER_SHARE, (uint64_t)BUFFER_MIB_MAX << 20));
        calls.rocksdb_options_set_db_write_buffer_size(options, memory / BUFFERS_SHARE);
    }
    calls.rocksdb_options_set_max_background_jobs(options, BACKGROUND_JOBS);
    calls.rocksdb_options_set_use_direct_reads(options, place->direct);
    calls.rocksdb_options_set_use_direct_io_for_flush_and_compaction(options, place->direct);
    rocksdb_block_based_table_options_t *tables = calls.rocksdb_block_based_options_create();
    calls.rocksdb_block_based_options_set_block_cache(tables, store->cache);
    calls.rocksdb_block_based_options_set_cache_index_and_filter_blocks(tables, 1);
    calls.rocksdb_block_based_options_set_filter_policy(
        tables, calls.rocksdb_filterpolicy_create_bloom_full(FILTER_BITS));
    calls.rocksdb_options_set_block_based_table_factory(options, tables);
    calls.rocksdb_block_based_options_destroy(tables);
}

static int close_rocksdb(void *arg)
{
    struct store *store = arg;
    if (store->db != NULL)
        calls.rocksdb_close(store->db);
    calls.rocksdb_writeoptions_destroy(store->writing);
    calls.rocksdb_readoptions_destroy(store->reading);
    calls.rocksdb_options_destroy(store->options);
    calls.rocksdb_cache_destroy(store->cache);
    return 0;
}

static int open_rocksdb(struct lab_ycsb_place *place, bool sync, void *arg)
{
    struct store *store = arg;
    char *text = NULL;
    store->place = place;
    if (!place->in_memory)
        (void)mallopt(M_ARENA_MAX, 1); /* as WiredTiger has */
    store->cache = calls.rocksdb_cache_create_lru(place->memory_bytes / CACHE_SHARE);
    store->options = calls.rocksdb_options_create();
    store->reading = calls.rocksdb_readoptions_create();
    store->writing = calls.rocksdb_writeoptions_create();
    calls.rocksdb_writeoptions_set_sync(store->writing, sync);
    set_options(store);
    store->db = calls.rocksdb_open(store->options, place->folder, &text);
    int error = take_error(store, "open", text);
    if (error != 0)
        (void)close_rocksdb(store);
    return error;
}

static int get_record(void *session, const void *key, size_t key_bytes, void *value)
{
    const struct store *store = session;
    char *text = NULL;
    size_t bytes;
    rocksdb_pinnableslice_t *slice =
        calls.rocksdb_get_pinned(store->db, store->reading, key, key_bytes, &text);
    if (slice == NULL)
        return text == NULL ? -ENOENT : take_error(store, "get", text);
    const char *found = calls.rocksdb_pinnableslice_value(slice, &bytes);
    int error = bytes == store->place->value_bytes ? 0 : -EBADMSG;
    if (error == 0)
        memcpy(value, found, bytes);
    calls.rocksdb_pinnableslice_destroy(slice);
    return error;
}

static int put_record(void *session, const void *key, size_t key_bytes, const void *value)
{
    const struct store *store = session;
    char *text = NULL;
    calls.rocksdb_put(store->db, store->writing, key, key_bytes, value, store->place->value_bytes, &text);
    return take_error(store, "put", text);
}

static int scan_records(void *session, const void *key, size_t key_bytes, uint32_t count,
                        lab_ycsb_show_function *show, void *arg)
{
    const struct store *store = session;
    char *text = NULL;
    size_t name_bytes, bytes;
    rocksdb_iterator_t *iterator = calls.rocksdb_create_iterator(store->db, store->reading);
    calls.rocksdb_iter_seek(iterator, key, key_bytes);
    for (uint32_t i = 0; i < count && calls.rocksdb_iter_valid(iterator); i++) {
        const char *name = calls.rocksdb_iter_key(iterator, &name_bytes);
        const char *value = calls.rocksdb_iter_value(iterator, &bytes);
        show(arg, name, name_bytes, value, bytes);
        calls.rocksdb_iter_next(iterator);
    }
    calls.rocksdb_iter_get_error(iterator, &text);
    calls.rocksdb_iter_destroy(iterator);
    return take_error(store, "scan", text);
}

const struct lab_ycsb_engine lab_ycsb_rocksdb = {
    .name = "rocksdb",
    .library = "librocksdb.so", /* of the development package: the one whose headers these are */
    .names = names,
    .name_count = base_array_count(names),
    .calls = &calls,
    .store_bytes = sizeof(struct store),
    .open = open_rocksdb,
    .close = close_rocksdb,
    .get = get_record,
    .put = put_record,
    .scan = scan_records,
};
#else
const struct lab_ycsb_engine lab_ycsb_rocksdb = {
    .name = "rocksdb",
    .skipped = "not built in: install librocksdb-dev, then build again (meson setup --wipe)"};
#endif
