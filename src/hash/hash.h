/*
 * hash: a hash store in a space, whose clients do everything: they find, store, remove and move records by READ, by WRITE to slots
 * that they own, and by CAS. No processor but theirs takes part. README has the protocol. Paper: Nessie, §4.
 *
 * Threading: as the space's (<tarn/space.h>): a client is used by tasks of the scheduler whose task opened it, any number at once, or
 * by one plain thread at a time. *Yields* means: blocks the calling thread, or lets other tasks run.
 * Errors: negative errno; output arguments stay untouched on failure.
 */
#ifndef HASH_HASH_H
#define HASH_HASH_H

#include "hash/layout.h"
#include "task/node.h"
#include <tarn/space.h>

#define HASH_NAME_MAX   32u /* bytes of a store's name, of the form of a namespace's */
#define HASH_LEAST_FULL "*" /* instead of a memory server's name: the one that has the most free memory */

struct hash;

/* What a client wants of a store. */
struct hash_options {
    const struct hash_shape *
        shape; /* what it is made with, if it is not there; a 0 is replaced by the default. NULL: it must be there */
    const char *
        node; /* the memory server on which this client's records are put, or HASH_LEAST_FULL; NULL: on all in turn. Borrowed until return */
    uint64_t cache_bytes; /* of records that this client keeps, at most; 0: none */
};

/**
 * Open a store, and make it if it is not there: become one of its clients.
 *
 * @param of    the namespace in which its regions are; joined until the store is closed
 * @param name  1 to HASH_NAME_MAX bytes, of the form of a namespace's name
 * @return 0; -ENOENT (it is not there, and is not to be made); -EINVAL (name or shape: logged); -EUSERS (it has as many clients as it was
 *         made for, and none of them is gone: logged); -ENOSPC (the space has no memory for it); -ENOMEM; -ETIMEDOUT; errors of the space.
 *         Yields.
 */
base_must_check int hash_open(struct tarn_node *node, struct tarn_space *space,
                              struct tarn_space_namespace *of, const char *name,
                              const struct hash_options *options, uint64_t deadline_ns,
                              struct hash **ret_hash);

/** End being a client. The records stay. No call runs. Yields. */
void hash_close(struct hash *hash);

/** Delete a store with all that is in it. Clients that have it open get -ESTALE before long. @return 0; -ENOENT; errors of the space. Yields. */
base_must_check int hash_destroy(struct tarn_space_namespace *of, const char *name, uint64_t deadline_ns);

enum hash_kind {
    HASH_GET,
    HASH_PUT,
    HASH_DELETE,
};

/* An operation. The caller fills in the first part. */
struct hash_op {
    enum hash_kind kind;
    const void *key; /* 1 to 65,535 bytes, borrowed until return */
    size_t key_len;
    const void *value; /* of a put: borrowed until return */
    size_t value_len;
    void *room; /* of a get: receives the value */
    size_t room_bytes;
    struct tarn_put_options
        options; /* of a put; of a delete its condition, which is none or TARN_PUT_IF_VERSION */
    uint64_t
        if_record; /* of a put or a delete: the `record` that it must find, which a touch changes, too; 0: any, or none */

    /* set by the store */
    int error; /* a get: 0, -ENOENT, -ENOBUFS (room_bytes is less than the value has; `info` is set). A put: 0, -EEXIST, -ENOENT
                * (its condition), -EMSGSIZE (longer than a slab), -ENOSPC (logged, with the cure). A delete: 0, -ENOENT, -EEXIST (its condition). All: -EINVAL
                * (key length, options), -ENOMEM, -EHOSTUNREACH (nothing was done), -ETIMEDOUT (nothing was done), -ECONNRESET (a put or
                * a delete may have been done or not), -ENODATA (a memory server was lost, with a part of the store; nothing was done), -ESTALE (the store is gone), -ECANCELED */
    struct tarn_record_info
        info;        /* of the record that was found or stored; of a get also of one that has expired */
    uint64_t record; /* the number of that record, which no other one of the store ever has */
    uint64_t
        replaced_bytes; /* of a put or a delete: bytes of key, value and header of the record that went, also of one that had
                              * expired; 0: there was none */
};

/**
 * Carry out operations, all steps of all of them in flight at once, as far as they do not depend on each other. On different keys they take
 * effect in any order; of two on one key, too.
 *
 * Yields. Every one has its `error` at the return.
 */
void hash_run(struct hash *hash, struct hash_op *ops, size_t count, uint64_t deadline_ns);

/**
 * Visit every record, in no order. A key that is there from beginning to end is visited once, with a value that it has had meanwhile; a key
 * that is stored or removed meanwhile may be visited or not.
 *
 * @param timeout_ns  for each of its READs; together they, and `visit`, may take any time
 * @return 0; what `visit` returns; -ENOMEM; errors of the space. Yields.
 */
base_must_check int hash_scan(struct hash *hash, tarn_scan_function *visit, void *arg, uint64_t timeout_ns);

/**
 * Look at every word of the index, while nobody changes the store and no lock is left by a client that is gone: each leads to a record, none
 * is frozen, and no two have the same key.
 *
 * @param ret_keys  how many there are, with those that have expired
 * @return 0; -EUCLEAN: it is not so (logged); -ENOMEM; errors of the space. Yields.
 */
base_must_check int hash_check(struct hash *hash, uint64_t deadline_ns, uint64_t *ret_keys);

/** The longest value, for a key of that length. Any thread or task. */
uint64_t hash_value_bytes_max(const struct hash *hash, size_t key_len);

/* What a client has done since it was opened, and what it has. */
struct hash_stats {
    uint64_t gets, puts, deletes;
    uint64_t cached;     /* records that were taken from the client's own cache */
    uint64_t repeated;   /* operations that began again, because others were faster, or they took too long */
    uint64_t moved;      /* keys that were moved, by this client */
    uint64_t recovered;  /* locks of clients that were gone, or slow */
    uint64_t grown;      /* slots of indexes that were replaced, that this client has closed */
    uint64_t reclaimed;  /* slots of tables whose records were found to be replaced */
    uint64_t adopted;    /* slabs of clients that are gone */
    uint64_t locking;    /* locks that it is about to take, or may have, now */
    uint64_t slots;      /* of the index */
    uint64_t slab_bytes; /* of tables, that this client owns */
};

/** Any thread or task. */
void hash_stats(const struct hash *hash, struct hash_stats *ret_stats);

/** What it was made with. Any thread or task. */
const struct hash_shape *hash_shape_of(const struct hash *hash);

#endif
