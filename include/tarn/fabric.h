/*
 * tarn/fabric.h: one-sided memory between processes and machines. A process exports memory; others read it, write it
 * and swap its words while it does no work, and send messages besides. What an operation promises, and nothing more:
 *
 *  - The bytes of one READ or WRITE move in any order, and two operations take effect in any order, unless the
 *    first completed before the second was posted, or the second has `fence`.
 *  - When a message (SEND, notified WRITE) is received, all earlier WRITEs of its connection are visible.
 *  - Whether an aligned word of 8 bytes moves whole is reported (tarn_fabric_info.whole_words).
 *  - CAS and FAA are atomic among each other; with plain WRITEs and the owner's stores only if that is reported
 *    (tarn_fabric_info.atomics).
 *  - A posted operation cannot be recalled. After the first error the connection is dead, whatever the error
 *    was: every operation posted on it completes with an error, once, and its memory is the caller's again.
 *  - A dead peer is not gone: memory that it could write is reused only after tarn_fabric_fence().
 *
 * Threading: fabrics, domains, regions and listeners are for any thread, and for tasks of the node's schedulers. A
 * connection belongs to the scheduler whose task made it, or to plain threads, one at a time. Plain threads may
 * use that of a scheduler too, any number at once: a task of that scheduler makes the call, and the thread waits for it.
 * *Yields* means: blocks the calling thread, or lets other tasks run. Deadlines are moments of tarn_now_ns(),
 * TARN_FOREVER for none.
 * Errors: negative errno; output arguments stay untouched on failure. What kills a connection is logged with
 * the operation and the peer.
 */
#ifndef TARN_FABRIC_H
#define TARN_FABRIC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>
#include <tarn/tarn.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_FABRIC_BYTES_MAX         (UINT64_C(1) << 30) /* of one operation */
#define TARN_FABRIC_IOV_MAX           16                  /* vectors of one operation */
#define TARN_FABRIC_PRIVATE_BYTES_MAX 56 /* of private data: what a connection manager of verbs carries */
#define TARN_FABRIC_TAGS_MAX          16 /* whom operations are counted for */
#define TARN_FABRIC_HANDLE_BYTES      32 /* of a handle that is sent to somebody */
#define TARN_FABRIC_RECEIVE_BYTES_MAX (1U << 20) /* of one message */
#define TARN_FABRIC_RECEIVE_COUNT_MAX 65536      /* messages that may wait for their receiver */
#define TARN_FABRIC_REGIONS_MAX       65536      /* of one domain */

struct tarn_fabric;
struct tarn_fabric_connection;
struct tarn_fabric_domain;
struct tarn_fabric_incoming;
struct tarn_fabric_listener;

/* ---- providers, domains, regions ---------------------------------------------------------------- */

/** What CAS and FAA are atomic with, besides each other through one device. */
enum tarn_fabric_atomics {
    TARN_FABRIC_ATOMICS_NONE,   /**< there are none: -EOPNOTSUPP */
    TARN_FABRIC_ATOMICS_DEVICE, /**< with nothing else */
    TARN_FABRIC_ATOMICS_MEMORY, /**< with tarn_fabric_mem_load64() and store64(), and with WRITEs of whole words */
};

/** What carries out READs and WRITEs of a peer's memory. */
enum tarn_fabric_served_by {
    TARN_FABRIC_SERVED_BY_CARD, /**< the peer's card: nobody's processor has to do with it */
    TARN_FABRIC_SERVED_BY_SELF, /**< who posts them copies: nobody else has to do with it */
    TARN_FABRIC_SERVED_BY_PEER, /**< a processor of the peer's host */
};

/**
 * The names of the providers that this build has, for URLs.
 *
 * @param place  from 0 on
 * @return static; NULL: there are no more. Any thread or task.
 */
TARN_API const char *tarn_fabric_provider_name(uint32_t place);

/** What a provider reports. */
struct tarn_fabric_info {
    const char *provider;
    bool whole_words; /**< an aligned word of 8 bytes is read and written whole */
    enum tarn_fabric_atomics atomics;
    enum tarn_fabric_served_by served_by;
};

/**
 * Open a provider: "shm:", the processes of this user on this host; "tcp:", any host, with options behind it;
 * "verbs:", hosts with RDMA cards, with a device and options behind it (README, "tcp", "verbs"). Under the simulator's
 * node it is the simulator's, whatever the URL. What is used is logged.
 *
 * @return 0; -EINVAL (no such provider or option, logged with those that there are); -EACCES (others may read the
 *         secret, or the key of the certificate); -ENODEV (there is no such RDMA device, or its port is down);
 *         -EOPNOTSUPP (this build has no verbs); -ENOMEM; errors of the kernel's
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_open(struct tarn_node *node, const char *url,
                                              struct tarn_fabric **ret_fabric);

/** Close; its domains and listeners are closed. Yields; tcp: blocks for as long as a thread takes to end. */
TARN_API void tarn_fabric_close(struct tarn_fabric *fabric);

/** What it is. Valid until tarn_fabric_close(). */
TARN_API const struct tarn_fabric_info *tarn_fabric_info(const struct tarn_fabric *fabric);

/** How much memory a domain can export: charged to the node when it is opened, touched when regions are made. */
struct tarn_fabric_domain_options {
    uint64_t readable_bytes; /**< of regions that peers only read */
    uint64_t writable_bytes; /**< of regions that peers may change */
    uint32_t regions_max;    /**< 0: 64; at most TARN_FABRIC_REGIONS_MAX */
    uint64_t buffer_bytes;   /**< of buffers, charged as they are made; 0: 16 MiB; rounded up to 256 KiB */
};

/**
 * Make a domain of trust: the unit of rights. Every peer that is connected with it may get at all of its regions, as
 * far as the regions' rights go; peers that do not trust each other get a domain each.
 *
 * @param options  NULL: it exports nothing, as that of a mere client
 * @return 0; -EINVAL; -ENOMEM; errors of the kernel's
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_domain_open(struct tarn_fabric *fabric,
                                                     const struct tarn_fabric_domain_options *options,
                                                     struct tarn_fabric_domain **ret_domain);

/** Close; its regions are freed, its connections disconnected and its buffers put back. What a peer still has mapped
 * lives on without us. Yields. */
TARN_API void tarn_fabric_domain_close(struct tarn_fabric_domain *domain);

/** What peers may do to a region. */
enum tarn_fabric_rights {
    TARN_FABRIC_MAY_READ = 1,
    TARN_FABRIC_MAY_WRITE = 2,
    TARN_FABRIC_MAY_SWAP = 4, /**< CAS and FAA */
};

/** Names a region to a peer; a value, to be sent as tarn_fabric_handle_save() writes it. */
struct tarn_fabric_handle {
    uint64_t domain;
    uint64_t key; /**< never given out again */
    uint64_t bytes;
    uint32_t rights;
};

/** How the owner gets at exported memory, where that is not plain memory: the simulator's. */
struct tarn_fabric_mem_operations;

/** Memory that peers may get at: the owner's view. */
struct tarn_fabric_region {
    struct tarn_fabric_domain *domain;
    uint8_t *memory; /**< aligned to a page */
    uint64_t bytes;  /**< a multiple of the page */
    struct tarn_fabric_handle handle;
    const struct tarn_fabric_mem_operations *mem; /**< NULL: plain memory */
    void *state;                                  /**< the provider's */
};

/**
 * Make a region of a domain: zero, and there in memory.
 *
 * @param bytes   1 or more; rounded up to the page
 * @param rights  of enum tarn_fabric_rights; with TARN_FABRIC_MAY_WRITE or _SWAP it lies in the domain's writable memory
 * @return 0; -EINVAL; -ENOMEM; -ENOSPC (the domain's bytes or regions are used up, or wait for peers that could still
 *         write: tarn_fabric_region_free())
 *
 * Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_region_alloc(struct tarn_fabric_domain *domain, uint64_t bytes,
                                                      uint32_t rights,
                                                      struct tarn_fabric_region **ret_region);

/**
 * Make a region of the caller's memory, which stays his, and is there until tarn_fabric_region_free(). It is not
 * charged, and takes nothing of the domain's bytes.
 *
 * @param memory, bytes  multiples of 8
 * @param rights         of enum tarn_fabric_rights
 * @return 0; -EINVAL; -ENOMEM; -ENOSPC (the domain has no more regions); -EOPNOTSUPP (a provider that exports only its
 *         own memory: shm, where it must lie in a file that others map, and the simulator's)
 *
 * Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_region_register(struct tarn_fabric_domain *domain, void *memory,
                                                         uint64_t bytes, uint32_t rights,
                                                         struct tarn_fabric_region **ret_region);

/**
 * Take a region back: from now on its handle is refused. Operations that began before may still end in its
 * memory, so that becomes part of another region only when the connections that the domain had are over;
 * memory of the caller's is free of them on return. verbs: waits for what the device is doing of operations of this
 * side that have their vectors there; what is left of them is copied. Yields.
 */
TARN_API void tarn_fabric_region_free(struct tarn_fabric_region *region);

/* ---- local memory ------------------------------------------------------------------------------- */

/**
 * Memory for the vectors of operations, of a domain's pool. With verbs the device knows it, and moves what lies there
 * without a copy, on connections of that domain; elsewhere it is plain memory. Nothing of it is exported.
 */
struct tarn_fabric_buffer {
    uint8_t *memory; /**< aligned to 512 bytes; from 4 KiB on to a page */
    uint64_t bytes;  /**< at least what was asked for */
    struct tarn_fabric_domain *domain;
    void *state;                     /**< the pool's */
    struct tarn_fabric_buffer *next; /**< the pool's */
};

/**
 * Take a buffer. Its contents are undefined: those of an earlier user, or zero.
 *
 * @param bytes       1 to TARN_FABRIC_BYTES_MAX; rounded up to a power of two, 512 at least
 * @param ret_buffer  the caller's until tarn_fabric_buffer_put()
 * @return 0; -EINVAL; -ENOSPC (buffer_bytes of the domain are used up); -ENOMEM; errors of the kernel's, as when it may
 *         not lock memory. Any thread or task. Does not yield; where no free one of that size is left, the kernel is
 *         asked for memory, at least 256 KiB, which the domain keeps.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_buffer_get(struct tarn_fabric_domain *domain, uint64_t bytes,
                                                    struct tarn_fabric_buffer **ret_buffer);

/** Give a buffer back that no operation uses: those that did have been waited for. Any thread or task; never waits. */
TARN_API void tarn_fabric_buffer_put(struct tarn_fabric_buffer *buffer);

/* ---- handles ------------------------------------------------------------------------------------ */

/** Write a handle for sending: little-endian, TARN_FABRIC_HANDLE_BYTES. */
TARN_API void tarn_fabric_handle_save(const struct tarn_fabric_handle *handle, void *bytes);

/** Read what tarn_fabric_handle_save() wrote, from whomever. @return 0; -EINVAL: it is none */
TARN_API TARN_MUST_CHECK int tarn_fabric_handle_load(const void *bytes,
                                                     struct tarn_fabric_handle *ret_handle);

/* ---- the owner's side --------------------------------------------------------------------------- */

/*
 * Exported memory is touched by its owner only through these: relaxed accesses of whole words, which
 * tarn_fabric_mem_fence() orders. Offsets and lengths are the caller's to keep within the region (asserted).
 */

/** Load an aligned word. */
TARN_API uint64_t tarn_fabric_mem_load64(const struct tarn_fabric_region *region, uint64_t offset);

/** Store an aligned word. */
TARN_API void tarn_fabric_mem_store64(struct tarn_fabric_region *region, uint64_t offset, uint64_t value);

/** Copy out of a region; bytes that change meanwhile come as a mixture of words. */
TARN_API void tarn_fabric_mem_copy_out(const struct tarn_fabric_region *region, uint64_t offset, void *to,
                                       uint64_t bytes);

/** Copy into a region. */
TARN_API void tarn_fabric_mem_copy_in(struct tarn_fabric_region *region, uint64_t offset, const void *from,
                                      uint64_t bytes);

/** What was loaded and stored before is so before all that comes after, for peers too. */
static inline void tarn_fabric_mem_fence(void)
{
    __sync_synchronize();
}

/** A word that somebody waits for. */
struct tarn_fabric_word {
    const struct tarn_fabric_region *region;
    uint64_t offset; /**< a multiple of 8 */
    uint64_t old;
};

/**
 * Wait until one of some words is not `old` any more. Nobody signals a plain WRITE: the caller looks again and
 * again, at once, then after pauses that grow to a millisecond. A caller that wants to sleep without waking has peers
 * notify.
 *
 * @param ret_index  of the first such word
 * @return 0; -ETIMEDOUT; -ECANCELED. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_wait_any(const struct tarn_fabric_word *words, uint32_t count,
                                                  uint64_t deadline_ns, uint32_t *ret_index);

/**< ---- connections -------------------------------------------------------------------------------- */

/** What this side brings to a connection. */
struct tarn_fabric_connect_options {
    const void *data;    /**< private data: the other side's tarn_fabric_peer_data(); borrowed until return */
    uint32_t data_bytes; /**< at most TARN_FABRIC_PRIVATE_BYTES_MAX */
    uint32_t receive_count; /**< messages that may wait here, which is the peer's credit; 0: 16 */
    uint32_t receive_bytes; /**< the longest of them; 0: 4,096 */
    bool
        messages_are_rare; /**< who receives here sleeps at once, and costs nothing until he is woken: that takes
                                 longer. For many connections of which few say something */
};

/**
 * Listen.
 *
 * @param address  shm: the path of a socket; the socket of a server that is gone is replaced. tcp, verbs: an address
 *                 and a port, "127.0.0.1:4711" or "[::1]:4711"
 * @return 0; -EINVAL; -ENOMEM; -EPERM (tcp: beyond this machine only with tls, or insecure); -EADDRINUSE, -EACCES and
 *         the like (logged). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_listen(struct tarn_fabric *fabric, const char *address,
                                                struct tarn_fabric_listener **ret_listener);

/** Listen no more; nobody waits in tarn_fabric_listener_wait(). Peers that were not accepted are refused. Yields. */
TARN_API void tarn_fabric_listener_close(struct tarn_fabric_listener *listener);

/**
 * Wait for somebody who wants to connect: to be given to tarn_fabric_accept() or tarn_fabric_reject().
 *
 * @return 0; -ETIMEDOUT; -ECANCELED. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_listener_wait(struct tarn_fabric_listener *listener,
                                                       uint64_t deadline_ns,
                                                       struct tarn_fabric_incoming **ret_incoming);

/** What it said of itself. @return its bytes of private data */
TARN_API uint32_t tarn_fabric_incoming_data(const struct tarn_fabric_incoming *incoming,
                                            const void **ret_data);

/**
 * Accept: the other side gets at the domain's regions from now on.
 *
 * @param incoming  gone on return, whatever happens
 * @param options   NULL: the defaults
 * @return 0; -EINVAL; -ENOMEM; -ECONNRESET (it did not wait); -EPROTO (what it has sent is no memory to be
 *         shared); each refuses it. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_accept(struct tarn_fabric_incoming *incoming,
                                                struct tarn_fabric_domain *domain,
                                                const struct tarn_fabric_connect_options *options,
                                                struct tarn_fabric_connection **ret_connection);

/** Refuse; its tarn_fabric_connect() returns -ECONNREFUSED. Yields. */
TARN_API void tarn_fabric_reject(struct tarn_fabric_incoming *incoming);

/**
 * Connect.
 *
 * @param domain   what the other side may get at
 * @param options  NULL: the defaults
 * @return 0; -ECONNREFUSED (nobody listens, or it was rejected); -ENOENT; -EACCES (another user's; tcp: another
 *         secret, or a certificate that is not accepted; logged); -EPERM (as tarn_fabric_listen()); -EINVAL;
 *         -ENOMEM; -ECONNRESET; -EPROTO; -ETIMEDOUT; -ECANCELED. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_connect(struct tarn_fabric_domain *domain, const char *address,
                                                 const struct tarn_fabric_connect_options *options,
                                                 uint64_t deadline_ns,
                                                 struct tarn_fabric_connection **ret_connection);

/** The other side's private data. Valid until tarn_fabric_disconnect(). @return its bytes */
TARN_API uint32_t tarn_fabric_peer_data(const struct tarn_fabric_connection *connection,
                                        const void **ret_data);

/** The other side, for the log. Valid until tarn_fabric_disconnect(). */
TARN_API const char *tarn_fabric_peer_name(const struct tarn_fabric_connection *connection);

/** What the connection died of: 0 while it lives; -EPIPE (the peer has disconnected), -ECONNRESET (the peer has
 * died, or given the connection up), -ECONNABORTED (tarn_fabric_fence()), and what operations return. Any thread. */
TARN_API int tarn_fabric_error(const struct tarn_fabric_connection *connection);

/**
 * End the connection if it lives (-ECONNABORTED), and wait until the peer cannot write here any more. shm: it has
 * disconnected too, or its process has ended. tcp, verbs: at once.
 *
 * @return 0; -ETIMEDOUT; -ECANCELED: it still could. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_fence(struct tarn_fabric_connection *connection,
                                               uint64_t deadline_ns);

/** End and free the connection; none of its operations is in flight, and nobody waits in it. What the peer
 * could still write stays out of use without us waiting for it (tarn_fabric_region_free()). Yields. */
TARN_API void tarn_fabric_disconnect(struct tarn_fabric_connection *connection);

/* ---- operations --------------------------------------------------------------------------------- */

enum tarn_fabric_op_kind {
    TARN_FABRIC_READ,
    TARN_FABRIC_WRITE,
    TARN_FABRIC_WRITE_NOTIFY, /**< and a message of `value`; takes a credit */
    TARN_FABRIC_CAS,          /**< the word, if it is `compare`, becomes `operand` */
    TARN_FABRIC_FAA,          /**< `operand` is added to the word */
    TARN_FABRIC_SEND,         /**< takes a credit */
    TARN_FABRIC_OP_KINDS,
};

/*
 * An operation: the caller fills the first part and keeps it, the handle, and the memory that iov names, until
 * tarn_fabric_wait() has returned it.
 */
struct tarn_fabric_op {
    enum tarn_fabric_op_kind kind;
    bool fence;  /**< begins when all before it on the connection have completed */
    uint8_t tag; /**< whom it is counted for, below TARN_FABRIC_TAGS_MAX */
    const struct tarn_fabric_handle *handle; /**< all but SEND */
    uint64_t offset;                         /**< in the region; of CAS and FAA a multiple of 8 */
    const struct iovec
        *iov; /**< READ, WRITE and SEND: at most TARN_FABRIC_IOV_MAX, and 0 bytes are allowed */
    uint32_t iov_count;
    uint32_t value; /**< WRITE_NOTIFY */
    uint64_t compare;
    uint64_t operand;

    /**< the fabric's */
    uint64_t before; /**< CAS and FAA: what the word was */
    int32_t result;  /**< 0 or negative errno */
    bool finished;
    uint32_t copied_bytes; /**< of the next, that went through memory of the fabric's */
    uint64_t bytes;        /**< of iov */
    struct tarn_fabric_connection *connection;
    struct tarn_fabric_op *next; /**< in a queue of its connection */
};

/**
 * Start operations, one behind the other. Never waits; what one comes to, errors too, tarn_fabric_wait() returns.
 * Each must be waited for.
 */
TARN_API void tarn_fabric_post(struct tarn_fabric_connection *connection, struct tarn_fabric_op *ops,
                               uint32_t count);

/**
 * Wait until all of some operations have completed; they may be of several connections. A connection whose
 * operation has not when the deadline passes, or the task is cancelled, is given up (-ETIMEDOUT, -ECANCELED).
 *
 * @return 0; the first error among them: -EINVAL (not as above); -EACCES (the handle is not of the peer's
 *         domain, was taken back, or does not grant it, or not there); -EMSGSIZE (longer than the peer
 *         receives); -EOPNOTSUPP; -ETIMEDOUT; -ECANCELED; what the connection had died of before. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_wait(struct tarn_fabric_op *ops, uint32_t count,
                                              uint64_t deadline_ns);

/** READ into contiguous memory and wait. Yields. @return as tarn_fabric_wait() */
TARN_API TARN_MUST_CHECK int tarn_fabric_read(struct tarn_fabric_connection *connection, uint8_t tag,
                                              const struct tarn_fabric_handle *handle, uint64_t offset,
                                              void *data, uint64_t bytes, uint64_t deadline_ns);

/** WRITE contiguous memory and wait. Yields. @return as tarn_fabric_wait() */
TARN_API TARN_MUST_CHECK int tarn_fabric_write(struct tarn_fabric_connection *connection, uint8_t tag,
                                               const struct tarn_fabric_handle *handle, uint64_t offset,
                                               const void *data, uint64_t bytes, uint64_t deadline_ns);

/** CAS and wait. @param ret_before  what the word was: `compare` if it was swapped. Yields. @return as
 * tarn_fabric_wait() */
TARN_API TARN_MUST_CHECK int tarn_fabric_cas(struct tarn_fabric_connection *connection, uint8_t tag,
                                             const struct tarn_fabric_handle *handle, uint64_t offset,
                                             uint64_t compare, uint64_t operand, uint64_t deadline_ns,
                                             uint64_t *ret_before);

/** FAA and wait; of 0 it reads a word whole on every provider. Yields. @return as tarn_fabric_wait() */
TARN_API TARN_MUST_CHECK int tarn_fabric_faa(struct tarn_fabric_connection *connection, uint8_t tag,
                                             const struct tarn_fabric_handle *handle, uint64_t offset,
                                             uint64_t add, uint64_t deadline_ns, uint64_t *ret_before);

/** SEND contiguous memory and wait until there was credit. Yields. @return as tarn_fabric_wait() */
TARN_API TARN_MUST_CHECK int tarn_fabric_send(struct tarn_fabric_connection *connection, uint8_t tag,
                                              const void *data, uint32_t bytes, uint64_t deadline_ns);

/**< What was received. */
struct tarn_fabric_message {
    bool notified;  /**< by a notified WRITE: `value` is its, and there are no bytes */
    uint32_t value; /**< else 0 */
    uint32_t bytes;
};

/**
 * Receive the next message, in the order of sending, and give its credit back. What came before the end of a
 * connection is still received.
 *
 * @param room  at least receive_bytes of the options
 * @return 0; -EINVAL; -ETIMEDOUT; -ECANCELED: nothing is lost; what the connection died of. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_receive(struct tarn_fabric_connection *connection, void *data,
                                                 uint32_t room, uint64_t deadline_ns,
                                                 struct tarn_fabric_message *ret_message);

/**< What was done for a tag. */
struct tarn_fabric_counters {
    uint64_t operations[TARN_FABRIC_OP_KINDS]; /**< that succeeded */
    uint64_t bytes[TARN_FABRIC_OP_KINDS];
    uint64_t failed;
    uint64_t refused;      /**< of those: -EACCES */
    uint64_t waits;        /**< round trips: tarn_fabric_wait() calls, counted for their first operation */
    uint64_t copied_bytes; /**< verbs: of the bytes above, that went through memory of the fabric's */
};

/** What was done for a tag on all connections, those that are over too. Any thread; exact when nobody posts. */
TARN_API void tarn_fabric_count(struct tarn_fabric *fabric, uint8_t tag,
                                struct tarn_fabric_counters *ret_counters);

#ifdef __cplusplus
}
#endif

#endif
