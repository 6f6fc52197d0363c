/*
 * tarn/kv.h: one interface over every store, in this process or reached over the fabric, opened by URL:
 *
 *   file:PATH[,PATH…]                a depot (<tarn/depot.h>) on a file, a device, or several
 *   cache:memory=SIZE[,partitions=N][,item=SIZE]   a cache of that size in memory, which is lost when it is closed
 *   hash:memory=SIZE[,slots=N][,ranks=N][,filter=N]   a hash store of that size in memory, index included, which is lost when
 *                                    it is closed, and evicts nothing
 *   hash:space=MASTER,namespace=NAME,store=NAME[,secret=FILE][,node=NAME][,memory=SIZE…][?FABRIC]   a hash store in a space
 *                                    (<tarn/space.h>), which any number of processes may use at once; with memory= it is made
 *                                    if it is not there, for records of that size together, and so is the namespace. Of
 *                                    several masters, "\," is between them. FILE has the namespace's secret, and is its
 *                                    owner's alone. NAME is the memory server for the records put here, if it has room; "*" the
 *                                    one with the most free memory. A master is named as in tarn space, unix:PATH or
 *                                    tarn://HOST:PORT, or without these; the fabric is shm: for paths, else tcp:, if none is said
 *   tree:path=PATH[,memory=SIZE]     an ordered store: all records in memory, and each change in a depot on PATH, as file: has
 *                                    it, with "\," between several. SIZE is the most memory that it takes, 8M or more; if none is
 *                                    said what the node may take. Keys have at most 1,024 bytes
 *   tarn://HOST:PORT/STORE           a store of a server, over the fabric's tcp
 *   unix:PATH/STORE                  a store of a server on this machine, by its socket PATH, over the fabric's shm
 *   tarn://HOST:PORT,HOST:PORT,…/STORE, unix:PATH,PATH,…/STORE   a store that 2 to 64 servers hold together; a comma
 *                                    of a PATH itself is written "\,"
 *   tarn://…/STORE?tcp:OPTIONS, tarn://…/STORE?verbs:OPTIONS   over that fabric, with its options (<tarn/fabric.h>:
 *                                    tarn_fabric_open()); without this over tcp:
 *
 * With several servers each key belongs to one of them, by rendezvous hashing of the key and the address in the URL
 * (docs/wire.md, "Several servers"): all clients that name the same servers agree, in whatever order they name them. Each
 * server must have a store of that name, all of one kind. While a server is gone, calls for its own keys fail with
 * -EHOSTUNREACH, because no other server has them; a scan fails, too, after it has shown the other servers' records. Keys
 * do not move when servers are added: records that the new URL assigns elsewhere are not found any more.
 *
 * A text without a scheme (two or more letters and a colon) is the path of a file.
 *
 * Threading: every function may be called from any thread, and from tasks of the node's schedulers, any number at once.
 * *Yields* means: blocks the calling thread, or lets other tasks run.
 * Errors: negative errno; output arguments stay untouched on failure. Besides the errors that each function names, calls
 * to a store of a server return
 *   -EHOSTUNREACH  the server could not be reached in time: nothing was done
 *   -ENOMEM        the server, or this side, is out of memory: nothing was done
 *   -ECONNRESET    the connection ended; a put or a delete may have been done or not
 *   -ETIMEDOUT     no answer came in time; a put or a delete may have been done or not
 *   -ENXIO         the server has no store of that name any more, or one of another kind: nothing was done
 *   -EPROTO        the server has sent an invalid answer
 * When a connection ends, reads are repeated; a put or a delete is repeated only if the server has not begun with it.
 */
#ifndef TARN_KV_H
#define TARN_KV_H

#include <tarn/fabric.h>
#include <tarn/record.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tarn_depot_options; /* <tarn/depot.h> */
struct tarn_kv;
struct tarn_node;

/** How a client searches an ordered store of a server that shares its memory (Cell §2.4). */
enum tarn_kv_way {
    TARN_KV_WAY_ADAPTIVE, /**< it reads the store's memory by itself, or asks the server, whichever seems to be done first */
    TARN_KV_WAY_ASK,  /**< it asks */
    TARN_KV_WAY_READ, /**< it reads, and asks only where reading does not tell */
};

/** The constants of TARN_KV_WAY_ADAPTIVE; 0 everywhere: Cell's. */
struct tarn_kv_selector {
    uint32_t samples;        /**< over which times are averaged, at most 256; 0: 100 */
    double outliers;         /**< standard deviations from which on a sample does not count; 0: 3 */
    double exploration;      /**< the part of searches that go the way that seems slower; 0: 0.01 */
    uint64_t stale_ns;       /**< after a pause of this length nothing is known any more; 0: 3 s */
    double reads_per_search; /**< until searches were seen; 0: 5 */
};

#define TARN_CACHE_OFF UINT64_MAX /* node_cache_bytes: keep nothing */

struct tarn_kv_options {
    const struct tarn_depot_options
        *depot; /**< for file:; NULL: the defaults of tarn_depot_open(); borrowed until return */
    struct tarn_fabric
        *fabric; /**< the fabric to servers, open until the store is closed; must be NULL if the URL
                                     names one. NULL: the store opens its own */
    uint64_t
        timeout_ns; /**< time limit of a call to a server, all attempts together, in nanoseconds, and once more
                                     for each 16 MiB of a value; 0: 10 seconds */
    enum tarn_kv_way way;             /**< of searches of a server's ordered store */
    struct tarn_kv_selector selector; /**< for TARN_KV_WAY_ADAPTIVE */
    uint64_t
        node_cache_bytes; /**< the most that a scheduler, or a thread in a call, keeps of such a store's nodes above the leaves;
                            TARN_CACHE_OFF: nothing; 0: 128 MiB */
};

/** The abilities of a store, as bits. */
enum tarn_kv_abilities {
    TARN_KV_DURABLE = 1,  /**< acknowledged records survive a restart, and are not evicted */
    TARN_KV_SCANS = 2,    /**< tarn_kv_scan() works */
    TARN_KV_RANGES = 4,   /**< a part of a long value is read without the rest */
    TARN_KV_VERSIONS = 8, /**< TARN_PUT_IF_VERSION works, and parts of a value can be read by version */
    TARN_KV_REMOTE = 16,  /**< a server holds the store, and calls fail while the server is gone */
    TARN_KV_ORDERED = 32, /**< tarn_kv_range() works, and a scan shows keys in their order */
    TARN_KV_BATCHES = 64, /**< tarn_kv_write_batch() works */
};

struct tarn_kv_info {
    const char *kind;         /**< "depot", "cache", "hash" or "tree", static text */
    uint32_t abilities;       /**< bits of enum tarn_kv_abilities */
    uint32_t partitions;      /**< partitions of a cache, of all servers together; 1 for others */
    uint64_t value_bytes_max; /**< the longest value, for a key of one byte; of several servers the least */
    uint64_t whole_bytes_max; /**< the longest value that a scan shows; of several servers the least */
};

/**
 * Open a store.
 *
 * @param url      see above; borrowed until return
 * @param options  NULL: the defaults
 * @return 0; -EINVAL (a bad URL or option: logged); file: as tarn_depot_open(); cache: -ENOMEM, -EFBIG; hash: -ENOENT (no such
 *         store, or namespace, and it is not to be made), -EACCES (the namespace has another secret), -EHOSTUNREACH (it has no room for another
 *         client), -ENOSPC, -ENOMEM, the errors of tarn_fabric_open() and tarn_space_connect(); servers: -ENXIO
 *         (no such store), -EPROTO (not Tarn's service), the errors of tarn_fabric_open() and tarn_fabric_connect(), with
 *         several servers only if none can be reached, and -EINVAL if their stores are of different kinds
 *
 * Yields. A depot that a task opens is served by that task's scheduler until it is closed.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_open(struct tarn_node *node, const char *url,
                                          const struct tarn_kv_options *options, struct tarn_kv **ret_kv);

/**
 * Close a store. No call may be running, and every scheduler whose tasks have used the store must still run. Yields.
 *
 * @return 0; a depot: the error of the last flush. Closed in any case
 */
TARN_API int tarn_kv_close(struct tarn_kv *kv);

/** The properties of a store. */
TARN_API void tarn_kv_info(const struct tarn_kv *kv, struct tarn_kv_info *ret_info);

/** How searches of a server's ordered store went since it was opened. */
struct tarn_kv_reads {
    bool is_shared;    /**< whether the server lets clients read it */
    uint64_t asked;    /**< searches for which the server was chosen */
    uint64_t searched; /**< searches for which reading was chosen */
    uint64_t explored; /**< of both, those that went the way that seemed slower */
    uint64_t
        fallbacks; /**< searches that began with reading, and then asked: a record that expires, or too many changes */
    uint64_t reads;  /**< READs of nodes */
    uint64_t torn;   /**< of these, those that met a change */
    uint64_t cached; /**< nodes that were in the cache */
};

/** How searches went. @return 0; -EOPNOTSUPP: it is no store of one server. Any thread. */
TARN_API TARN_MUST_CHECK int tarn_kv_reads(const struct tarn_kv *kv, struct tarn_kv_reads *ret_reads);

/**
 * Fetch the value of a key.
 *
 * @param key, key_len       1 to TARN_KEY_BYTES_MAX bytes, borrowed until return; so in all calls
 * @param value, value_room  receives the value
 * @param ret_info           its length and other properties; may be NULL. Also written when -ENOBUFS is returned
 * @return 0; -ENOENT; -ENOBUFS (longer than value_room); -EINVAL (key length); -EIO, -EBADMSG (the record is damaged);
 *         -ENOMEM. After an error `value` may hold anything
 *
 * Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_get(struct tarn_kv *kv, const void *key, size_t key_len, void *value,
                                         size_t value_room, struct tarn_record_info *ret_info);

/**
 * Fetch the values of many keys, with as few round trips as possible.
 *
 * @param gets  in: keys and room; out: values, infos and errors, each as of tarn_kv_get(). Keys may repeat
 *
 * Yields. The values need not have been in the store at the same moment.
 */
TARN_API void tarn_kv_get_many(struct tarn_kv *kv, struct tarn_get *gets, size_t count);

/**
 * Fetch a part of a value.
 *
 * @param if_version       the version that the value must have, so that all parts are of one value. 0: any version
 * @param offset           first byte of the part; beyond the value's end the part is empty
 * @param data, data_room  receives the part
 * @param ret_bytes        number of bytes of the part: less than data_room only at the value's end
 * @param ret_info         the value's length and other properties; may be NULL
 * @return 0; -ENOENT; -ESTALE (the version is another one, or has changed meanwhile: begin again); as tarn_kv_get()
 *
 * Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_read(struct tarn_kv *kv, const void *key, size_t key_len,
                                          uint64_t if_version, uint64_t offset, void *data, size_t data_room,
                                          size_t *ret_bytes, struct tarn_record_info *ret_info);

/**
 * Store a value under a key, when the condition holds.
 *
 * @param value        borrowed until return
 * @param options      NULL: TARN_PUT_ANY, no expiry, flags 0
 * @param ret_version  the new version; may be NULL
 * @return 0; nothing is stored: -EEXIST (IF_ABSENT: present; IF_VERSION: another version), -ENOENT (IF_PRESENT, IF_VERSION:
 *         absent), -EMSGSIZE (longer than the store takes), -EINVAL (key length, condition, note), -ENOSPC, -EROFS, -ENOMEM;
 *         servers: -EBUSY (too many clients store long values at the same time); -EIO (the put may be stored or not, and the
 *         depot takes no more writes)
 *
 * Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_put(struct tarn_kv *kv, const void *key, size_t key_len,
                                         const void *value, size_t value_len,
                                         const struct tarn_put_options *options, uint64_t *ret_version);

/** The most bytes of key and value together that a put to a server sends in one request. A longer value is READ by the
 * server from the caller's memory, over a connection of its own; over shm, and if its address is no multiple of 8, from a
 * copy. */
#define TARN_KV_REQUEST_BYTES ((UINT32_C(1) << 20) - 64)

/* ---- values that are written piece by piece -------------------------------------------------------- */

struct tarn_kv_writer;

/**
 * Begin to store a value that is not in memory as a whole. No reader sees it before tarn_kv_writer_commit(), and without
 * a commit nothing of it stays, also after a crash.
 *
 * @param key          borrowed until return
 * @param options      as for tarn_kv_put(); copied
 * @param value_bytes  length of the value, or TARN_LENGTH_UNKNOWN
 * @return 0; -EMSGSIZE (longer than the store takes); -EINVAL; -ENOMEM; a depot: as tarn_depot_writer_open()
 *
 * Yields. One caller at a time may use the writer, and the store stays open until it is committed or aborted. A depot of
 * this process stores the pieces as they come, with at most 2 MiB of memory. Any other store gets the whole value at the
 * commit, and it is in memory until then.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_writer_open(struct tarn_kv *kv, const void *key, size_t key_len,
                                                 const struct tarn_put_options *options, uint64_t value_bytes,
                                                 struct tarn_kv_writer **ret_writer);

/**
 * Write the next bytes of the value. After an error the writer can only be aborted.
 *
 * @param data  borrowed until return
 * @return 0; -EMSGSIZE (more than was announced, or than the store takes); -ENOMEM; a depot: as
 *         tarn_depot_writer_write(). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_writer_write(struct tarn_kv_writer *writer, const void *data,
                                                  size_t bytes);

/**
 * Store the written value, when the condition holds, and free the writer in any case.
 *
 * @param ret_version  the new version; may be NULL
 * @return as tarn_kv_put(); -ENODATA (less was written than announced); a depot: as tarn_depot_writer_commit(). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_writer_commit(struct tarn_kv_writer *writer, uint64_t *ret_version);

/** Free a writer and drop the bytes written to it. Yields. */
TARN_API void tarn_kv_writer_abort(struct tarn_kv_writer *writer);

/** Remove a key. @return 0 (it was present); -ENOENT; -EINVAL (key length); -ENOSPC; -EROFS; -EIO. Yields. */
TARN_API TARN_MUST_CHECK int tarn_kv_delete(struct tarn_kv *kv, const void *key, size_t key_len);

/**
 * Change several keys, if the conditions of all items hold: either all changes are stored or none, also after a crash.
 *
 * A *transaction* is a batch, too: get what it depends on, with versions; decide; then write, on the condition that what was
 * read is still there: each key with TARN_PUT_IF_VERSION, or TARN_PUT_IF_ABSENT if it was not there, and those that do not change
 * as a `check`. -EEXIST and -ENOENT mean that somebody was faster: begin again. Transactions that are all made so are
 * serialisable, and none waits for another that does not end.
 *
 * @param items  at most TARN_BATCH_ITEMS_MAX, each with another key, in any order. The memory that they point to is borrowed
 *               until return
 * @return 0; nothing is written: -EEXIST, -ENOENT (a condition of an item does not hold), -EINVAL (a bad key or note, or the
 *         same key twice), -EMSGSIZE (a key or a value is too long), -E2BIG (more items or bytes than a batch takes: about a
 *         mebibyte), -EOPNOTSUPP (TARN_KV_BATCHES is missing), -ENOSPC, -EROFS, -ENOMEM; -EIO, and of a server -ECONNRESET, -ETIMEDOUT:
 *         all of it may have been stored, or nothing. Each item says in `error` what is with it. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_write_batch(struct tarn_kv *kv, struct tarn_batch_item *items,
                                                 size_t count);

/**
 * Visit every record, in no order. A key that is present from beginning to end is visited once, with a value that it
 * has had meanwhile; a key that is stored or removed meanwhile may be visited or not.
 *
 * @param visit  gets no value (NULL) if it is longer than tarn_kv_info.whole_bytes_max; tarn_kv_read() reads it. May
 *               call the store, except to close it
 * @return 0; the result of `visit`; -EOPNOTSUPP (TARN_KV_SCANS is missing); -ENOMEM; -EIO, -EBADMSG (a damaged record was
 *         left out, and all others were visited); servers: -EBUSY (too many scans at the same time), -ESTALE (the server
 *         has ended this scan, because it was idle for too long or the server was restarted)
 *
 * Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_scan(struct tarn_kv *kv, tarn_scan_function *visit, void *arg);

/** A range of keys. Keys are compared as memcmp() does, a shorter one before a longer one that begins with it. */
struct tarn_kv_range {
    const void *from;  /**< the least key; borrowed until return, as the other */
    size_t from_len;   /**< 0: from the first of all */
    const void *below; /**< where it ends: no key that is not less */
    size_t below_len;  /**< 0: at the last of all */
    bool reverse;      /**< from the greatest key down */
    uint64_t limit;    /**< the most records; 0: any number */
};

/**
 * Show the records of a range in the order of their keys. A key that is there from beginning to end is shown once, none twice;
 * each as it was at one moment of the call, not all at the same.
 *
 * @param visit  as for tarn_kv_scan()
 * @return 0; the result of `visit`; -EOPNOTSUPP (TARN_KV_ORDERED is missing); -EINVAL (`from` or `below` is longer than the
 *         store's keys can be); -ENOMEM
 *
 * Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_range(struct tarn_kv *kv, const struct tarn_kv_range *range,
                                           tarn_scan_function *visit, void *arg);

#ifdef __cplusplus
}
#endif

#endif
