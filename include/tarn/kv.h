/*
 * tarn/kv.h: one interface over every store, in this process or reached over the fabric, opened by URL:
 *
 *   file:PATH[,PATH…]                a depot (<tarn/depot.h>) on a file, a device, or several
 *   cache:memory=SIZE[,partitions=N][,item=SIZE]   a cache of that size in memory, which ends when it is closed
 *   tarn://HOST:PORT/STORE           a store of a server, over the fabric's tcp
 *   unix:PATH/STORE                  the same, by the server's socket PATH, over the fabric's shm
 *   tarn://HOST:PORT,HOST:PORT,…/STORE, unix:PATH,PATH,…/STORE   a store that 2 to 64 servers have together; a comma
 *                                    of a PATH itself is written "\,"
 *   tarn://…/STORE?tcp:OPTIONS, tarn://…/STORE?verbs:OPTIONS   over that fabric, with its options (<tarn/fabric.h>:
 *                                    tarn_fabric_open()); tcp: if nothing is said
 *
 * Of several servers each key is of one, by rendezvous hashing of key and address, as the URL has it (docs/wire.md, "Several
 * servers"): all who name the same servers agree, in whatever order. They have a store of that name and of one kind each. A
 * server that is gone fails its own keys (-EHOSTUNREACH), which are looked for nowhere else, and a scan, when it has shown
 * what the others have. Keys do not move when servers are added: only what is new goes there.
 *
 * What begins with no scheme (two or more letters and a colon) is the path of a file.
 *
 * Threading: every function may be called from any thread, and from tasks of the node's schedulers, any number at once.
 * *Yields* means: blocks the calling thread, or lets other tasks run.
 * Errors: negative errno; output arguments stay untouched on failure. Besides what each function names, calls to a
 * store of a server return
 *   -EHOSTUNREACH  the server was not to be had in time: nothing was done
 *   -ECONNRESET    the connection ended. Of a put or a delete nobody knows whether it was done
 *   -ETIMEDOUT     no answer in time. The same
 *   -ENXIO         the server has no store of that name any more, or one of another kind: nothing was done
 *   -EPROTO        the server answers what it must not
 * What reads is asked again when a connection ends; a put or a delete only if the server has not begun with it.
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

struct tarn_kv_options {
    const struct tarn_depot_options
        *depot; /**< of file:; NULL: as tarn_depot_open(); borrowed until return */
    struct tarn_fabric
        *fabric; /**< to reach a server by, there until it is closed. NULL: one of its own. A URL that
                                     names one takes no other */
    uint64_t
        timeout_ns; /**< of each call to a server, all attempts together; as long again for each 16 MiB of a
                                     value; 0: 10 seconds */
};

/** What a store can do; bits. */
enum tarn_kv_abilities {
    TARN_KV_DURABLE = 1,  /**< what was acknowledged survives, and is not evicted */
    TARN_KV_SCANS = 2,    /**< tarn_kv_scan() */
    TARN_KV_RANGES = 4,   /**< a part of a long value is read without reading the rest */
    TARN_KV_VERSIONS = 8, /**< TARN_PUT_IF_VERSION, and parts of one version */
    TARN_KV_REMOTE = 16,  /**< a server has it: calls fail with it */
};

struct tarn_kv_info {
    const char *kind;   /**< "depot", "cache"; static */
    uint32_t abilities; /**< of enum tarn_kv_abilities */
    uint32_t
        partitions; /**< of a cache; else 1. Of several servers: of all, and what follows is the least of them */
    uint64_t value_bytes_max; /**< the longest value that it takes, under a key of one byte */
    uint64_t whole_bytes_max; /**< the longest value that a scan shows */
};

/**
 * Open a store.
 *
 * @param url      see above; borrowed until return
 * @param options  NULL: the defaults
 * @return 0; -EINVAL (a URL or option that there is not: logged); of file: as tarn_depot_open(); of cache: -ENOMEM, -EFBIG;
 *         of a server -ENXIO (it has no such store), -EPROTO (it is none), what tarn_fabric_open() and
 *         tarn_fabric_connect() return; of several, if none of them is reached. -EINVAL also if they are of different kinds
 *
 * Yields. A depot that a task opens is served by that task's scheduler until it is closed.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_open(struct tarn_node *node, const char *url,
                                          const struct tarn_kv_options *options, struct tarn_kv **ret_kv);

/**
 * Close. No call may be running, and every scheduler whose tasks have called it still runs. Yields.
 *
 * @return 0; of a depot the last flush's error. Closed in any case
 */
TARN_API int tarn_kv_close(struct tarn_kv *kv);

/** What it is. */
TARN_API void tarn_kv_info(const struct tarn_kv *kv, struct tarn_kv_info *ret_info);

/**
 * Fetch the value of a key.
 *
 * @param key, key_len       1 to TARN_KEY_BYTES_MAX bytes, borrowed until return; so in all calls
 * @param value, value_room  where it goes
 * @param ret_info           its length and the rest; may be NULL. Also written when -ENOBUFS is returned
 * @return 0; -ENOENT; -ENOBUFS (longer than value_room); -EINVAL (key length); -EIO, -EBADMSG (the record is damaged);
 *         -ENOMEM. After -ENOBUFS and failures behind it `value` may hold anything
 *
 * Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_get(struct tarn_kv *kv, const void *key, size_t key_len, void *value,
                                         size_t value_room, struct tarn_record_info *ret_info);

/**
 * Fetch the values of many keys, with as few round trips as can be.
 *
 * @param gets  keys and room in; values, infos and errors out, each as by tarn_kv_get(); the keys may repeat
 *
 * Yields. They are not one moment together.
 */
TARN_API void tarn_kv_get_many(struct tarn_kv *kv, struct tarn_get *gets, size_t count);

/**
 * Fetch a part of a value.
 *
 * @param if_version       of the value that is meant: all parts with it are of one value. 0: whatever is there
 * @param offset           of the part in the value; behind its end there is nothing
 * @param data, data_room  where it goes, and how much at most
 * @param ret_bytes        how much there was: less than data_room only at the value's end
 * @param ret_info         the value's length and the rest; may be NULL
 * @return 0; -ENOENT; -ESTALE (there is another version, or it changed while it came: begin anew); else as tarn_kv_get()
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
 * @return 0; nothing stored: -EEXIST (IF_ABSENT: present; IF_VERSION: another version), -ENOENT (IF_PRESENT, IF_VERSION:
 *         absent), -EMSGSIZE (longer than the store takes), -EINVAL (key length, condition, note), -ENOSPC, -EROFS, -ENOMEM;
 *         of a server -EBUSY (too many others store long values there); -EIO (not acknowledged: a depot takes no more writes)
 *
 * Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_put(struct tarn_kv *kv, const void *key, size_t key_len,
                                         const void *value, size_t value_len,
                                         const struct tarn_put_options *options, uint64_t *ret_version);

/** Key and value together of a put to a server go in one request if they have no more bytes. Else the server READs the value
 * where it lies, or in a copy (over shm, and where it does not begin at a multiple of 8), by a connection for that alone. */
#define TARN_KV_REQUEST_BYTES ((UINT32_C(1) << 20) - 64)

/* ---- values that come bit by bit ------------------------------------------------------------------ */

struct tarn_kv_writer;

/**
 * Begin to store a value that is not in memory as a whole. What is written cannot be seen before tarn_kv_writer_commit();
 * what was not committed leaves nothing, however it ends.
 *
 * @param key          borrowed until return
 * @param options      as for tarn_kv_put(); copied
 * @param value_bytes  that will be written, or TARN_LENGTH_UNKNOWN
 * @return 0; -EMSGSIZE (longer than the store takes); -EINVAL; -ENOMEM; of a depot as tarn_depot_writer_open()
 *
 * Yields. Until it is committed or aborted the writer is one caller's at a time, and the store stays open. To a depot of
 * this process the value goes piece by piece: 2 MiB of memory are taken at most. Any other store gets it at once, with the
 * commit: until then it is in memory.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_writer_open(struct tarn_kv *kv, const void *key, size_t key_len,
                                                 const struct tarn_put_options *options, uint64_t value_bytes,
                                                 struct tarn_kv_writer **ret_writer);

/**
 * Write the next bytes of the value. After an error nothing is left but to abort it.
 *
 * @param data  borrowed until return
 * @return 0; -EMSGSIZE (more than was announced, or than the store takes); -ENOMEM; of a depot as
 *         tarn_depot_writer_write(). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_writer_write(struct tarn_kv_writer *writer, const void *data,
                                                  size_t bytes);

/**
 * Store what was written, when the condition holds.
 *
 * @param ret_version  the new version; may be NULL
 * @return as tarn_kv_put(); -ENODATA (less was written than announced); of a depot as tarn_depot_writer_commit(). The
 *         writer is gone in any case. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_writer_commit(struct tarn_kv_writer *writer, uint64_t *ret_version);

/** Forget a writer and what was written to it. Yields. */
TARN_API void tarn_kv_writer_abort(struct tarn_kv_writer *writer);

/** Remove a key. @return 0 (it was there); -ENOENT; -EINVAL (key length); -ENOSPC; -EROFS; -EIO. Yields. */
TARN_API TARN_MUST_CHECK int tarn_kv_delete(struct tarn_kv *kv, const void *key, size_t key_len);

/**
 * Visit every record, in no order. A key that is there from beginning to end is visited once, with a value
 * that it has had meanwhile; what is stored or removed meanwhile may or may not be.
 *
 * @param visit  its value is NULL if it is longer than tarn_kv_info.whole_bytes_max: tarn_kv_read() has it. May call
 *               the store, except to close it
 * @return 0; what `visit` returned; -EOPNOTSUPP (TARN_KV_SCANS is missing); -ENOMEM; -EIO, -EBADMSG (a record is
 *         damaged: it is left out, the others were visited); of a server -EBUSY (too many scans go on), -ESTALE (it has
 *         forgotten this one, as nothing was heard for too long, or it has begun anew)
 *
 * Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_kv_scan(struct tarn_kv *kv, tarn_scan_function *visit, void *arg);

#ifdef __cplusplus
}
#endif

#endif
