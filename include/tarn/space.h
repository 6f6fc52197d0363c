/*
 * tarn/space.h: the memory of many machines as one mappable space. Memory servers contribute memory; a master knows which
 * part of it belongs to what; clients map parts of it, and read and write them by one-sided operations, without the
 * master and, but for `tcp`, without any processor of the memory servers. The calls are those of RStore's Table I.
 *
 *   connect    ─▶ create or join a namespace ─▶ reserve ─▶ alloc, or init ─▶ map ─▶ read and write
 *   with the      a flat address space of       memory      a range of         local    no allocation, no message
 *   master        64 bits, with a secret        servers     addresses          memory   to anybody's processor
 *
 * Threading: a space, and all that was made of it, is used by tasks of the scheduler whose task connected it, or by
 * one plain thread at a time. *Yields* means: blocks the calling thread, or lets other tasks run. Deadlines are moments of
 * tarn_now_ns(), TARN_FOREVER for none.
 * Errors: negative errno; output arguments stay untouched on failure. Every call that asks the master may return
 * -ETIMEDOUT, -ECANCELED, -ENOMEM, -ECONNRESET (the master was lost during a call that changes something: it may have
 * been done), -ESTALE (this space's session with the master has ended, as when the process stood still for longer than its
 * lease, and what the call names does not exist any more).
 * Consistency: bytes that one client writes while another reads or writes them are a mixture; clients agree among
 * themselves about when they use what (README, "What readers see"). A copy-on-write region is never written: a writer makes
 * its next version beside it, and readers go on with the one that they hold (tarn_space_begin()). A READ of one
 * aligned word of 8 bytes of a region of class `words` brings a value that the word had at one moment.
 */
#ifndef TARN_SPACE_H
#define TARN_SPACE_H

#include <tarn/fabric.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_SPACE_NAME_MAX   63                  /* the most bytes of a name */
#define TARN_SPACE_SECRET_MAX 64                  /* the most bytes of a secret */
#define TARN_SPACE_BYTES_MAX  (UINT64_C(1) << 46) /* the most bytes of a region */
#define TARN_SPACE_CHUNK_BYTES                                                                               \
    (UINT64_C(64) << 20) /* the size of a chunk, where nobody has asked for another */
#define TARN_SPACE_LEASE_NS                                                                                  \
    (UINT64_C(10) * 1000000000) /* the length of a lease, where nobody has asked for another */

#define TARN_SPACE_COPIES_MAX 4 /* the most copies of a region */

struct tarn_space;
struct tarn_space_namespace;
struct tarn_space_region;

/* ---- the master --------------------------------------------------------------------------------- */

struct tarn_space_options {
    uint64_t
        cache_bytes; /**< the most local memory that unmapped regions leave behind for the next ones that are mapped;
                               0: 1 GiB */
};

/**
 * Connect with the master of a space, and begin a session with it: until tarn_space_disconnect() a task of the caller's
 * scheduler, or a thread, renews the session's lease.
 *
 * @param fabric     outlives the space; the masters and the memory servers are reached through it
 * @param addresses  of the master, or of all masters with ',' between them, each as tarn_fabric_connect(); 1,023 bytes at
 *                   most, and each 107. Whichever of them leads is used
 * @param options    NULL: the defaults
 * @return 0; -EPROTO (it is no master); -EINVAL (no addresses); -ETIMEDOUT (none leads); what tarn_fabric_connect() returns, of
 *         the last, if none is reached. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_connect(struct tarn_fabric *fabric, const char *addresses,
                                                const struct tarn_space_options *options,
                                                uint64_t deadline_ns, struct tarn_space **ret_space);

/** End the session. All that was made of the space must have been given back: regions dropped, namespaces left. Yields. */
TARN_API void tarn_space_disconnect(struct tarn_space *space);

/**
 * The number of the present session with the master. No other session of this space gets it (but for chance: numbers have 64 bits),
 * and nobody learns from it what the session's connections are made with, so it may be told to anybody. It stays while the lease is
 * renewed, also by another master; when a session is lost and another one begun, that has another number.
 *
 * @return 0: there is none now. Never waits.
 */
TARN_API uint64_t tarn_space_session(const struct tarn_space *space);

/**
 * Give the present session up, as if its lease had ended: what was posted in it may arrive until tarn_space_session_ended(), and the next
 * call that needs a session begins another one, in which the space holds what it has held. For clients that are not told any more what
 * of theirs is still on its way. Yields.
 */
TARN_API void tarn_space_renew_session(struct tarn_space *space);

/* ---- namespaces --------------------------------------------------------------------------------- */

/**
 * Make a namespace, and join it: a flat address space of 64 bits, and a domain of trust. Only clients that know its secret
 * reach its memory.
 *
 * @param name    1 to TARN_SPACE_NAME_MAX letters, digits, '-', '_' and '.'
 * @param secret  up to TARN_SPACE_SECRET_MAX bytes; the master keeps a salted hash of it. Of 0 bytes: any client that
 *                reaches the master may join
 * @return 0; -EEXIST; -EINVAL; -ENOSPC (the master's metadata is full). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_create_ns(struct tarn_space *space, const char *name,
                                                  const void *secret, uint32_t secret_bytes,
                                                  uint64_t deadline_ns,
                                                  struct tarn_space_namespace **ret_namespace);

/** Join a namespace that there is. @return 0; -ENOENT; -EACCES (another secret); -EINVAL. Yields. */
TARN_API TARN_MUST_CHECK int tarn_space_join_ns(struct tarn_space *space, const char *name,
                                                const void *secret, uint32_t secret_bytes,
                                                uint64_t deadline_ns,
                                                struct tarn_space_namespace **ret_namespace);

/** Leave a namespace whose regions this client has dropped; the namespace stays. Yields. */
TARN_API void tarn_space_leave_ns(struct tarn_space_namespace *space_namespace);

/**
 * Delete a namespace with all of its regions. What clients hold of them stays readable and writable to these clients until
 * they drop it, or their session ends; nobody can join, alloc or init any more. The caller leaves it afterwards.
 *
 * @return 0; -ENOENT (it was deleted before). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_delete_ns(struct tarn_space_namespace *space_namespace,
                                                  uint64_t deadline_ns);

/**
 * Ask whether a session is over for good, so that nothing which it has posted can arrive any more in the namespace's regions: its lease has
 * ended or its client has disconnected, it will never be resumed, and all memory servers have ended its connections. Memory of servers that
 * are lost for good is excepted, which has no place in any region that can be mapped.
 *
 * @param session  a tarn_space_session() of any client. A number that no session has is that of one that is over
 * @return 0: it is; -EBUSY: not yet, or not known yet: it is live; or a memory server has not fenced it, or is away and may still serve it
 *         (in both cases perhaps for the sake of another session of the namespace); or the master has led for less than a lease. Ask again;
 *         -ENOENT (the namespace was deleted). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_session_ended(struct tarn_space_namespace *space_namespace,
                                                      uint64_t session, uint64_t deadline_ns);

/**
 * Reserve memory for a namespace: chunks of memory servers, in turn, are made ready for its clients. Rounded up to chunks.
 *
 * @return 0; -ENOSPC (the memory servers have less than that: nothing was reserved). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_reserve(struct tarn_space_namespace *space_namespace, uint64_t bytes,
                                                uint64_t deadline_ns);

/** Give reserved memory that no region has back to the memory servers. Rounded up to chunks. @param bytes  UINT64_MAX: all
 * of it @return 0; -ENOSPC (less is reserved and free: nothing was released). Yields. */
TARN_API TARN_MUST_CHECK int tarn_space_release(struct tarn_space_namespace *space_namespace, uint64_t bytes,
                                                uint64_t deadline_ns);

/* ---- regions ------------------------------------------------------------------------------------ */

/** The memory of a region: what it may be used for. */
enum tarn_space_class {
    TARN_SPACE_BULK,  /**< bytes that change while nobody reads them: READ and WRITE */
    TARN_SPACE_WORDS, /**< words that clients swap: READ, WRITE, CAS, FAA */
};

/** The servers on which a region's chunks lie. */
enum tarn_space_placement {
    TARN_SPACE_STRIPED, /**< on all servers in turn */
    TARN_SPACE_ON_NODE, /**< on the one that is named */
};

struct tarn_space_alloc_options {
    const char *name; /**< a name for tarn_space_find(), of the same form as a namespace's; NULL: none */
    enum tarn_space_class memory_class;
    enum tarn_space_placement placement;
    const char *node; /**< TARN_SPACE_ON_NODE: the name of the memory server */
    bool
        copy_on_write; /**< it changes by new versions alone, as tarn_space_begin() makes them. Of TARN_SPACE_BULK, and of at most
                           24,576 chunks. New chunks lie where those that they replace do, if there are spare ones */
    uint32_t
        copies; /**< copy_on_write: of each chunk, on different memory servers, up to TARN_SPACE_COPIES_MAX; each takes a reserved
                    chunk. A version can be read, and the next be written and published, as long as each of its chunks has one copy;
                    lost ones are made again after six leases. 0: 1 */
};

/**
 * Take a range of addresses, and bind reserved chunks to it. The content is undefined: what earlier regions of the
 * namespace left there, or zero. The caller holds the region until tarn_space_drop().
 *
 * @param bytes    1 to TARN_SPACE_BYTES_MAX; the region has whole chunks
 * @param options  NULL: no name, TARN_SPACE_BULK, TARN_SPACE_STRIPED
 * @return 0; -ENOSPC (less is reserved and free, there or at all: tarn_space_reserve()); -EEXIST (the name); -ENOENT (no
 *         such node, or the namespace was deleted); -EHOSTUNREACH (copy_on_write: a memory server did not take part); -EINVAL.
 *         Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_alloc(struct tarn_space_namespace *space_namespace, uint64_t bytes,
                                              const struct tarn_space_alloc_options *options,
                                              uint64_t deadline_ns, struct tarn_space_region **ret_region);

/**
 * Hold a range of addresses that there is, or a part of one region's: bytes and offsets of the result count from
 * `address`.
 *
 * @param bytes  0: up to the region's end
 * @return 0; -ENOENT (no region has all of these addresses); -EINVAL. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_init(struct tarn_space_namespace *space_namespace, uint64_t address,
                                             uint64_t bytes, uint64_t deadline_ns,
                                             struct tarn_space_region **ret_region);

/** Hold the region of a name. @return 0; -ENOENT; -EINVAL. Yields. */
TARN_API TARN_MUST_CHECK int tarn_space_find(struct tarn_space_namespace *space_namespace, const char *name,
                                             uint64_t deadline_ns, struct tarn_space_region **ret_region);

/**
 * Delete a region: nobody can init or find it any more, and its chunks are the namespace's again when all clients have
 * dropped it. The caller still holds it.
 *
 * @return 0; -ENOENT (it was deleted before). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_free(struct tarn_space_region *region, uint64_t deadline_ns);

/** Hold a region no longer, which is not mapped, and on which no operation is posted. The master learns of it before long.
 * Yields. */
TARN_API void tarn_space_drop(struct tarn_space_region *region);

/** What a client knows of a region. */
struct tarn_space_info {
    uint64_t address;     /**< where it begins in its namespace */
    uint64_t bytes;       /**< how many it has */
    uint64_t chunk_bytes; /**< size of a chunk */
    uint32_t
        number; /**< of the region, which no other one gets, in the whole space; of a copy-on-write one its
                             version's: a later version has a higher one */
    uint32_t servers; /**< memory servers that have chunks of it */
    uint32_t copies;  /**< of each chunk that it is to have */
    enum tarn_space_class memory_class;
    bool copy_on_write;
    bool
        whole_words; /**< of TARN_SPACE_WORDS: a READ of several words brings of each a value that it had at one moment. Else only
                          a READ of one word does (tarn_fabric_info.whole_words), which may be made by a swap: so it is for words
                          that nobody WRITEs meanwhile, and a longer one is never cut into such */
};

/** Tell of a region. */
TARN_API void tarn_space_info(const struct tarn_space_region *region, struct tarn_space_info *ret_info);

/* ---- copy-on-write regions ---------------------------------------------------------------------- */

/**
 * Begin the next version of a copy-on-write region: a draft of it, of some of the region's chunks, whose content is
 * undefined. The caller writes all of the draft, in any of the ways there are: also what is not to change, which it reads before. Then it
 * publishes it, or drops it. One draft of a region is under way at a time.
 *
 * @param region         not freed, and its newest version: so nothing that others have published is lost
 * @param offset, bytes  in the region: whole chunks (tarn_space_info.chunk_bytes) of it, the last one up to its end
 * @param ret_draft      a region that begins at `offset`, which only this client has; it is to be published before the lease (10 s) has
 *                       ended
 * @return 0; -EBUSY (another draft is under way, and its lease has not ended); -EAGAIN (there is a newer version:
 *         tarn_space_refresh()); -ENOSPC (less is reserved and free than the draft takes); -EHOSTUNREACH (a memory server did
 *         not take part); -ENOENT (the region was freed); -EINVAL. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_begin(struct tarn_space_region *region, uint64_t offset,
                                              uint64_t bytes, uint64_t deadline_ns,
                                              struct tarn_space_region **ret_draft);

/**
 * Publish a draft of which all has been written, and on which no operation is posted: from now on its chunks have the place of
 * those before, all at once, for clients that take hold of the region, or refresh what they hold; the caller refreshes its own, too. The
 * draft is a held part of the new version then, which is read and dropped as any. After an error the last version is as it was,
 * and the draft can only be dropped, but for -EHOSTUNREACH and -ENOSPC, after which it may be published again.
 *
 * @return 0; -ETIME (its lease has ended); -EIO (a write of it has failed); -ENOENT (the region was freed); -EHOSTUNREACH (a
 *         memory server that has replaced chunks is not there); -ENODATA (one is lost: free the region); -ENOSPC (the master's metadata
 *         is full); -EINVAL (it is no draft); -ESTALE, -ETIMEDOUT, -ECANCELED (it may have been published). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_publish(struct tarn_space_region *draft, uint64_t deadline_ns);

/**
 * Hold the newest version of a copy-on-write region instead of the one that is held; that is dropped. It stays mapped. No
 * operation is posted on it. A region that is gone (-ESTALE), because the session has ended, is held again.
 *
 * @return 0, also where it was the newest already; -ENOENT (the region was freed; the version that is held stays); -EINVAL (it is no
 *         such region, or a draft). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_refresh(struct tarn_space_region *region, uint64_t deadline_ns);

/**
 * Whether all READs of a copy-on-write region, since it was held or refreshed, have found that what they read was of its newest
 * version when they had read it. false: there is a newer one (or a publication of one has failed, or the master was another
 * meanwhile); the one that is held can still be read, and is never mixed with others. A newer version of chunks that
 * were not read is not seen. Never waits.
 */
TARN_API bool tarn_space_is_current(const struct tarn_space_region *region);

/* ---- what there is ------------------------------------------------------------------------------ */

/** A memory server, as the master knows it. Texts are borrowed until the visit returns, here and below. */
struct tarn_space_server_row {
    const char *name;
    const char *address; /**< where clients reach it, as tarn_fabric_connect() */
    uint64_t bytes;      /**< of memory that it contributes */
    uint64_t free_bytes; /**< of these, what no namespace has; 0 while it is not there */
    uint32_t number;
    bool is_there;    /**< the master is in contact with it */
    bool is_draining; /**< what it has is being moved to others (tarn_space_drain()) */
    uint64_t
        used_bytes; /**< what namespaces have of it, also while it is not there. Of one that is drained 0: it may be closed */

    /* what the server tells of itself, up to a quarter of a lease ago */
    uint32_t connections; /**< of clients; each has one for each namespace */
    uint64_t dirty_bytes; /**< what is to be zeroed before another namespace has it */
    uint64_t refused;     /**< connections of clients that it has refused since it was started */
};

/** A namespace, as clients see it that have not joined it. */
struct tarn_space_namespace_row {
    const char *name;
    uint64_t spare_bytes;  /**< reserved, and of no region */
    uint64_t region_bytes; /**< of its regions' chunks */
    uint32_t number;
    uint32_t regions; /**< with those that were freed and that clients still hold */
};

/** A region that was not freed. */
struct tarn_space_region_row {
    const char *name; /**< "": none */
    uint64_t address;
    uint64_t bytes;
    uint32_t number;
    uint32_t holders; /**< sessions that hold it */
    uint32_t copies;  /**< of each chunk */
    enum tarn_space_class memory_class;
};

/** A number that the master tells of itself. */
struct tarn_space_statistic_row {
    const char *
        name; /**< in the form of Prometheus: a counter, which began at 0 with the master, ends with _total */
    uint64_t value;
};

/** What a listing shows things to. May call the space. @return 0: go on; anything else ends the listing, which returns it */
typedef int tarn_space_server_function(void *arg, const struct tarn_space_server_row *server);
typedef int tarn_space_namespace_function(void *arg, const struct tarn_space_namespace_row *space_namespace);
typedef int tarn_space_region_function(void *arg, const struct tarn_space_region_row *region);
typedef int tarn_space_statistic_function(void *arg, const struct tarn_space_statistic_row *statistic);

/** Show all memory servers, in the order of their numbers. @return 0; what `visit` returns. Yields. */
TARN_API TARN_MUST_CHECK int tarn_space_list_servers(struct tarn_space *space,
                                                     tarn_space_server_function *visit, void *arg,
                                                     uint64_t deadline_ns);

/** Show all namespaces, in the order of their numbers. @return 0; what `visit` returns. Yields. */
TARN_API TARN_MUST_CHECK int tarn_space_list_namespaces(struct tarn_space *space,
                                                        tarn_space_namespace_function *visit, void *arg,
                                                        uint64_t deadline_ns);

/** Show all regions of a namespace, in the order of their numbers. @return 0; what `visit` returns; -ENOENT (the namespace
 * was deleted). Yields. */
TARN_API TARN_MUST_CHECK int tarn_space_list_regions(struct tarn_space_namespace *space_namespace,
                                                     tarn_space_region_function *visit, void *arg,
                                                     uint64_t deadline_ns);

/** Show what the master tells of itself; docs/space.md has the names. @return 0; what `visit` returns. Yields. */
TARN_API TARN_MUST_CHECK int tarn_space_list_statistics(struct tarn_space *space,
                                                        tarn_space_statistic_function *visit, void *arg,
                                                        uint64_t deadline_ns);

/**
 * Drain a memory server, or end that: it gets no chunks any more, and what it has is moved to others, so that it can be closed and nothing
 * is lost. Copy-on-write regions get other versions with the same contents, and what readers have of earlier ones stays until they refresh
 * or drop them; all other regions are moved while no client holds them. When it has nothing any more (its row's `used_bytes`) and has been closed,
 * the master forgets it.
 *
 * @param server  its name
 * @param secret  of memory servers, which not every client knows
 * @return 0: it has begun, and goes on by itself; -EACCES (another secret); -ENOENT (no such server); -ENOSPC (the others have less free
 *         memory than this one has in use: nothing was changed); -EINVAL. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_drain(struct tarn_space *space, const char *server,
                                              const void *secret, uint32_t secret_bytes, bool is_draining,
                                              uint64_t deadline_ns);

/* ---- local memory ------------------------------------------------------------------------------- */

/**
 * Provide local memory for a region, as large as it is, from which and to which operations need no copy; and connect with
 * its memory servers. Nothing is read. Its content is undefined. What an earlier region of this space left behind is used
 * again.
 *
 * @param ret_memory  aligned to a page; until tarn_space_unmap()
 * @return 0; -EBUSY (it is mapped); -ENOMEM; -EHOSTUNREACH (a memory server that has chunks of it cannot be reached);
 *         -ENODATA (one has been lost, with what it had of it: free the region). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_map(struct tarn_space_region *region, uint64_t deadline_ns,
                                            void **ret_memory);

/** Give the local memory back; the region stays held. No operation uses the memory. Yields. */
TARN_API void tarn_space_unmap(struct tarn_space_region *region);

/* ---- data --------------------------------------------------------------------------------------- */

/**
 * Read into mapped memory: its bytes become those of the region at the same place.
 *
 * @param memory, bytes  any part of the memory that tarn_space_map() returned
 * @return 0; -EINVAL; the errors of tarn_space_wait(). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_read(struct tarn_space_region *region, void *memory, uint64_t bytes,
                                             uint64_t deadline_ns);

/** Write mapped memory: the region's bytes become those of the memory, at the same place. @return as tarn_space_read().
 * Yields. */
TARN_API TARN_MUST_CHECK int tarn_space_write(struct tarn_space_region *region, const void *memory,
                                              uint64_t bytes, uint64_t deadline_ns);

/** Read into any memory. @param offset  in the region @return as tarn_space_read(). Yields. */
TARN_API TARN_MUST_CHECK int tarn_space_read_at(struct tarn_space_region *region, uint64_t offset,
                                                void *memory, uint64_t bytes, uint64_t deadline_ns);

/** Write from any memory. @param offset  in the region @return as tarn_space_read(). Yields. */
TARN_API TARN_MUST_CHECK int tarn_space_write_at(struct tarn_space_region *region, uint64_t offset,
                                                 const void *memory, uint64_t bytes, uint64_t deadline_ns);

/** Compare and swap a word of a region of class `words`. @param ret_before  the word before @return as tarn_space_read();
 * -EACCES (another class). Yields. */
TARN_API TARN_MUST_CHECK int tarn_space_cas(struct tarn_space_region *region, uint64_t offset,
                                            uint64_t compare, uint64_t operand, uint64_t deadline_ns,
                                            uint64_t *ret_before);

/** Add to a word of a region of class `words`. @param ret_before  the word before @return as tarn_space_cas(). Yields. */
TARN_API TARN_MUST_CHECK int tarn_space_faa(struct tarn_space_region *region, uint64_t offset, uint64_t add,
                                            uint64_t deadline_ns, uint64_t *ret_before);

/* An operation, for those that have several under way. The caller fills in the first part, and keeps it with the memory
 * until the operation has finished. */
struct tarn_space_op {
    enum tarn_fabric_op_kind kind; /**< TARN_FABRIC_READ, _WRITE, _CAS or _FAA */
    struct tarn_space_region *region;
    uint64_t offset;         /**< in the region; for CAS and FAA a multiple of 8 */
    const struct iovec *iov; /**< READ and WRITE: local memory */
    uint32_t iov_count;      /**< at most TARN_FABRIC_IOV_MAX */
    uint64_t compare, operand;
    uint64_t
        session; /**< the session in which it must be done (tarn_space_session()); 0: any. Once another one is present nothing of it is
                        posted any more, also none of its later parts, and it ends with -ESTALE */

    /* set by the space */
    uint64_t before; /**< CAS and FAA: the word before */
    int32_t result;  /**< 0 or negative errno, once it has finished */
    bool finished;
    bool has_run;               /* CAS and FAA: `before` is known, also where it does not count */
    uint64_t done_in;           /* it was carried out at once, in this session; 0: it was not */
    uint64_t done_bytes;        /* bytes whose operations were posted */
    uint32_t words_left;        /* version words whose READs are to be posted when all bytes have been read */
    uint64_t bytes;             /* of all vectors */
    uint32_t pieces;            /* operations of the fabric that are posted for it */
    uint32_t copy;              /* of a WRITE: the copy to which the next part goes */
    struct tarn_space_op *next; /* in the list of those that have more to post */
};

/**
 * READ a part of a region at once, where its memory can be loaded: over `shm`, from one chunk. The cheapest of all ways to read, which
 * brings something that counts only if tarn_space_holds() says so afterwards.
 *
 * @return false: it cannot be, or the server is not reached yet: tarn_space_post(). Never waits.
 */
TARN_API TARN_MUST_CHECK bool tarn_space_glance(struct tarn_space_region *region, uint64_t offset,
                                                void *memory, uint64_t bytes);

/** Have a part of a region fetched into the processor's cache, where tarn_space_glance() can read it: what several glances are to read is
 * fetched in the time of one. @return whether it can be. Never waits. */
TARN_API bool tarn_space_prefetch(const struct tarn_space_region *region, uint64_t offset, uint64_t bytes);

/** Whether a session (tarn_space_session()) is present, and its lease holds at a moment (tarn_now_ns()), so that what was glanced at in it
 * before counts. Never waits. */
TARN_API bool tarn_space_holds(const struct tarn_space *space, uint64_t session, uint64_t now_ns);

/** Start operations. Never waits. Those on different places take effect in any order. */
TARN_API void tarn_space_post(struct tarn_space *space, struct tarn_space_op *ops, uint32_t count);

/**
 * Wait until operations have finished.
 *
 * @return 0; the first error among them: -EINVAL (beyond the region, or a field is not as above); -EHOSTUNREACH (a memory
 *         server is not reached; a WRITE may have been done in part); -ENODATA (it was lost, with the region's content);
 *         -ESTALE (the lease ended meanwhile, so that the result does not count: a WRITE may have been done in part; or the operation's
 *         `session` is not the present one); -EACCES
 *         (a swap in a region of another class); -EROFS (a WRITE to a copy-on-write region that is no draft);
 *         -ETIMEDOUT, -ECANCELED: the connections of those that have not finished are given up. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_wait(struct tarn_space *space, struct tarn_space_op *ops,
                                             uint32_t count, uint64_t deadline_ns);

/**
 * Wait until one of some operations has finished, and give nothing up: the others stay posted, also where the deadline
 * passes, and can be waited for again.
 *
 * @param ops        posted operations; those that have been told before are left out by the caller
 * @param ret_index  the place of the first that has finished, and has its `result`
 * @return 0; -EINVAL (there are none); -ETIMEDOUT; -ECANCELED. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_space_wait_any(struct tarn_space *space, struct tarn_space_op *ops,
                                                 uint32_t count, uint64_t deadline_ns, uint32_t *ret_index);

/** Whether an operation has finished. Never waits: one whose memory server is not connected finishes with -ENOTCONN. */
TARN_API bool tarn_space_test(struct tarn_space *space, struct tarn_space_op *op);

#ifdef __cplusplus
}
#endif

#endif
