/*
 * tarn/fabric.h: one-sided memory between processes and machines. A process exports memory; other processes read it,
 * write it and swap its words while the owner's processor does no work. They can also send messages. Operations promise
 * this, and nothing more:
 *
 *  - The bytes of one READ or WRITE move in any order, and two operations take effect in any order, unless the
 *    first completed before the second was posted, or the second has `fence`.
 *  - When a message (SEND, notified WRITE) is received, all earlier WRITEs of its connection are visible.
 *  - Whether an aligned word of 8 bytes moves whole is reported (tarn_fabric_info.whole_words). A READ of one such word
 *    that asks for it (`whole`) takes a value that the word had at one moment, or is refused.
 *  - CAS and FAA are atomic among each other; with plain WRITEs and the owner's stores only if that is reported
 *    (tarn_fabric_info.atomics).
 *  - A posted operation cannot be recalled. The first error of any kind ends the connection: every operation posted on
 *    it completes with an error, once, and its memory is the caller's again.
 *  - A peer whose connection has ended may still write: memory that it could write may be used for other data only
 *    after tarn_fabric_fence().
 *
 * Threading: fabrics, domains, regions and listeners are for any thread, and for tasks of the node's schedulers. A
 * connection belongs to the scheduler whose task made it, or to plain threads, one at a time. Any number of plain
 * threads may also use a scheduler's connection: a task of that scheduler makes the call, and the thread waits for it.
 * *Yields* means: blocks the calling thread, or lets other tasks run. Deadlines are moments of tarn_now_ns(),
 * TARN_FOREVER for none.
 * Errors: negative errno; output arguments stay untouched on failure. An error that ends a connection is logged
 * with the operation and the peer.
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

#define TARN_FABRIC_BYTES_MAX (UINT64_C(1) << 30) /* the most bytes of one operation */
#define TARN_FABRIC_IOV_MAX   16                  /* the most vectors of one operation */
#define TARN_FABRIC_PRIVATE_BYTES_MAX                                                                        \
    56 /* the most private data: as much as the connection manager of verbs carries */
#define TARN_FABRIC_TAGS_MAX          16         /* number of tags under which operations are counted */
#define TARN_FABRIC_HANDLE_BYTES      32         /* bytes of a saved handle */
#define TARN_FABRIC_RECEIVE_BYTES_MAX (1U << 20) /* the most bytes of one message */
#define TARN_FABRIC_RECEIVE_COUNT_MAX 65536      /* the most messages that wait for their receiver */
#define TARN_FABRIC_REGIONS_MAX       65536      /* the most regions of one domain */
#define TARN_FABRIC_AWAIT_ANY_MAX     256        /* the most operations of one tarn_fabric_await_any() */

struct tarn_fabric;
struct tarn_fabric_connection;
struct tarn_fabric_domain;
struct tarn_fabric_incoming;
struct tarn_fabric_listener;

/* ---- providers, domains, regions ---------------------------------------------------------------- */

/** The accesses with which CAS and FAA are atomic, besides each other through one device. */
enum tarn_fabric_atomics {
    TARN_FABRIC_ATOMICS_NONE,   /**< CAS and FAA fail with -EOPNOTSUPP */
    TARN_FABRIC_ATOMICS_DEVICE, /**< no other accesses */
    TARN_FABRIC_ATOMICS_MEMORY, /**< the owner's loads, stores and swaps, and WRITEs of whole words */
};

/** The processor that carries out READs and WRITEs of a peer's memory. */
enum tarn_fabric_served_by {
    TARN_FABRIC_SERVED_BY_CARD, /**< the peer's card; no host's processor takes part */
    TARN_FABRIC_SERVED_BY_SELF, /**< the caller's, which copies; no other takes part */
    TARN_FABRIC_SERVED_BY_PEER, /**< one of the peer's host */
};

/**
 * The name of one of this build's providers, as in URLs.
 *
 * @param place  counted from 0
 * @return static text; NULL: there are no more. Any thread or task.
 */
TARN_API const char *tarn_fabric_provider_name(uint32_t place);

/** The properties of a provider. */
struct tarn_fabric_info {
    const char *provider;
    bool
        whole_words; /**< an aligned word of 8 bytes is read and written whole, unless a vector ends within it */
    bool whole_reads; /**< a READ of one word may ask to be whole (tarn_fabric_op.whole) */
    enum tarn_fabric_atomics atomics;
    enum tarn_fabric_served_by served_by;
};

/**
 * Open a provider: "shm:", the processes of this user on this host; "tcp:", any host, with options behind it;
 * "verbs:", hosts with RDMA cards, with a device and options behind it (README, "tcp", "verbs"). Under the simulator's
 * node any URL opens the simulator's. The choice is logged.
 *
 * @return 0; -EINVAL (no such provider or option; logged with the possible ones); -EACCES (other users may read the
 *         secret, or the key of the certificate); -ENODEV (there is no such RDMA device, or its port is down);
 *         -EOPNOTSUPP (this build has no verbs); -ENOMEM; errors of the kernel's
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_open(struct tarn_node *node, const char *url,
                                              struct tarn_fabric **ret_fabric);

/** Close a fabric whose domains and listeners are closed. Yields; tcp: blocks as long as a thread takes to end. */
TARN_API void tarn_fabric_close(struct tarn_fabric *fabric);

/** The properties of a fabric's provider. Valid until tarn_fabric_close(). */
TARN_API const struct tarn_fabric_info *tarn_fabric_info(const struct tarn_fabric *fabric);

/** The memory that a domain can export: charged to the node when the domain is opened, touched when regions are made. */
struct tarn_fabric_domain_options {
    uint64_t readable_bytes; /**< the most bytes of regions that peers only read */
    uint64_t writable_bytes; /**< the most bytes of regions that peers may change */
    uint32_t regions_max;    /**< the most regions, up to TARN_FABRIC_REGIONS_MAX; 0: 64 */
    uint64_t
        buffer_bytes; /**< the most bytes of buffers, charged as they are made, in multiples of 256 KiB; 0: 16 MiB */
};

/**
 * Make a domain, the unit of trust: every peer that is connected with it has access to all of its regions, within the
 * regions' rights. Peers that do not trust each other need a domain each.
 *
 * @param options  NULL: it exports nothing, as a client's domain
 * @return 0; -EINVAL; -ENOMEM; errors of the kernel's
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_domain_open(struct tarn_fabric *fabric,
                                                     const struct tarn_fabric_domain_options *options,
                                                     struct tarn_fabric_domain **ret_domain);

/** Close a domain whose regions are freed, whose connections are disconnected and whose buffers are put back. Memory that
 * a peer still has mapped lives on without this process. Yields. */
TARN_API void tarn_fabric_domain_close(struct tarn_fabric_domain *domain);

/** The rights of peers to a region. */
enum tarn_fabric_rights {
    TARN_FABRIC_MAY_READ = 1,
    TARN_FABRIC_MAY_WRITE = 2,
    TARN_FABRIC_MAY_SWAP = 4, /**< CAS and FAA */

    /**
     * No right, but what the region holds: bulk data, and no words that change while peers use them. Its words may move
     * in parts, also where whole_words is reported, and nobody changes bytes that a WRITE is changing (tcp: the WRITE may
     * fail, and end its connection). A WRITE that fails may leave any bytes where it was to write. In exchange tcp
     * receives WRITEs straight into the region. Not together with TARN_FABRIC_MAY_SWAP.
     */
    TARN_FABRIC_BULK = 8,
};

/** The name of a region for peers: a plain value, sent in the form that tarn_fabric_handle_save() writes. */
struct tarn_fabric_handle {
    uint64_t domain;
    uint64_t key; /**< of this region alone; no later region gets it */
    uint64_t bytes;
    uint32_t rights;
};

/** The owner's access to exported memory that is not plain memory: the simulator's. */
struct tarn_fabric_mem_operations;

/** Memory that peers have access to, as the owner sees it. */
struct tarn_fabric_region {
    struct tarn_fabric_domain *domain;
    uint8_t *memory; /**< the memory, aligned to a page */
    uint64_t bytes;  /**< its size, a multiple of the page */
    struct tarn_fabric_handle handle;
    const struct tarn_fabric_mem_operations *mem; /**< NULL: plain memory */
    void *state;                                  /**< private to the provider */
    void *making;                                 /**< private, while the region is made */
    bool is_callers; /**< the memory is the caller's (tarn_fabric_region_register()) */
};

/**
 * Make a region of a domain. Its memory is zero, and all pages are present.
 *
 * @param bytes   1 or more; rounded up to the page
 * @param rights  bits of enum tarn_fabric_rights; a region with TARN_FABRIC_MAY_WRITE or _SWAP counts as writable. 0: memory
 *                for the vectors of this side's own operations, as tarn_fabric_region_register() makes it, which takes
 *                nothing of the domain's bytes and regions
 * @return 0; -EINVAL; -ENOMEM; -ENOSPC (the domain's bytes or regions are used up, or still wait for peers that could
 *         write there: tarn_fabric_region_free())
 *
 * Yields: a task's region of 1 MiB or more is made by a thread. A gigabyte takes some half a second of one processor.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_region_alloc(struct tarn_fabric_domain *domain, uint64_t bytes,
                                                      uint32_t rights,
                                                      struct tarn_fabric_region **ret_region);

/**
 * Make a region as tarn_fabric_region_alloc() does, and tell the caller how far it is: for owners of much memory.
 *
 * @param progress  called in the calling task or thread, about ten times a second and when the region is made, with the
 *                  bytes whose pages are present so far, of `bytes`; it may yield. At the end of these, verbs: has the
 *                  device register all of them in one call, of which nothing is told
 * @param arg       handed to `progress`
 * @return as tarn_fabric_region_alloc()
 *
 * Yields.
 */
TARN_API TARN_MUST_CHECK int
tarn_fabric_region_alloc_with_progress(struct tarn_fabric_domain *domain, uint64_t bytes, uint32_t rights,
                                       void (*progress)(void *arg, uint64_t done_bytes, uint64_t bytes),
                                       void *arg, struct tarn_fabric_region **ret_region);

/**
 * Make a region of the caller's memory, which stays the caller's and must exist until tarn_fabric_region_free(). It is
 * not charged, and takes nothing of the domain's bytes. It may be a region of another domain: then peers of both see
 * the same bytes. Without rights it is memory for the vectors of this side's own operations, which peers cannot reach; it
 * takes no place among the domain's regions, and every provider takes it. With verbs operations on the domain's
 * connections then need no copy; so a caller registers once what it uses often.
 *
 * @param memory, bytes  multiples of 8, unless there are no rights
 * @param rights         bits of enum tarn_fabric_rights; 0: for this side alone
 * @return 0; -EINVAL; -ENOMEM; -ENOSPC (the domain has no more regions); -EOPNOTSUPP (shm, whose peers map a
 *         file and are kept from nothing in it: this is not all of a region of the same fabric whose peers may change it
 *         if these may, and else may not); errors of the kernel's
 *
 * Yields: where a device registers 1 MiB or more for a task (verbs:), a thread has it do so, in one call.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_region_register(struct tarn_fabric_domain *domain, void *memory,
                                                         uint64_t bytes, uint32_t rights,
                                                         struct tarn_fabric_region **ret_region);

/**
 * Take a region back: from now on its handle is refused. Operations that began before may still end in its memory;
 * so that memory is of no other region while they could. shm: it is never of another; its bytes are the domain's again at
 * once where no peer has used the region, otherwise when those peers have called the fabric next, have disconnected or
 * ended; and an operation that moves bytes there later than a millisecond after the return ends with -EACCES. On return no
 * operation uses memory of the caller's any more. verbs: waits until the device has finished with this side's operations
 * whose vectors lie there; the parts of them that are not yet posted are copied. Yields: a thread gives back a task's
 * region of 1 MiB or more.
 */
TARN_API void tarn_fabric_region_free(struct tarn_fabric_region *region);

/* ---- local memory ------------------------------------------------------------------------------- */

/**
 * Memory for the vectors of operations, from a domain's pool. With verbs it is registered with the device, so that
 * operations on the domain's connections need no copy; elsewhere it is plain memory. None of it is exported.
 */
struct tarn_fabric_buffer {
    uint8_t *memory; /**< the memory, aligned to 512 bytes, and from 4 KiB on to a page */
    uint64_t bytes;  /**< its size, at least as large as was asked for */
    struct tarn_fabric_domain *domain;
    void *state;                     /**< private to the pool */
    struct tarn_fabric_buffer *next; /**< private to the pool */
};

/**
 * Take a buffer. Its content is undefined: an earlier user's, or zero.
 *
 * @param bytes       1 to TARN_FABRIC_BYTES_MAX; rounded up to a power of two, 512 at least
 * @param ret_buffer  the caller's until tarn_fabric_buffer_put()
 * @return 0; -EINVAL; -ENOSPC (the domain's buffer_bytes are used up); -ENOMEM; errors of the kernel's, as when the
 *         process may not lock memory. Any thread or task. Does not yield; if no buffer of that size is free, the kernel
 *         is asked for at least 256 KiB of memory, which the domain keeps.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_buffer_get(struct tarn_fabric_domain *domain, uint64_t bytes,
                                                    struct tarn_fabric_buffer **ret_buffer);

/** Give a buffer back. The caller has waited for all operations that used it. Any thread or task; never waits. */
TARN_API void tarn_fabric_buffer_put(struct tarn_fabric_buffer *buffer);

/* ---- handles ------------------------------------------------------------------------------------ */

/** Write a handle in the form in which it is sent: little-endian, TARN_FABRIC_HANDLE_BYTES bytes. */
TARN_API void tarn_fabric_handle_save(const struct tarn_fabric_handle *handle, void *bytes);

/** Read a handle that an unknown sender may have written. @return 0; -EINVAL: it is none */
TARN_API TARN_MUST_CHECK int tarn_fabric_handle_load(const void *bytes,
                                                     struct tarn_fabric_handle *ret_handle);

/* ---- the owner's side --------------------------------------------------------------------------- */

/*
 * The owner touches exported memory only through these functions: relaxed accesses of whole words, which
 * tarn_fabric_mem_fence() orders. The caller keeps offsets and lengths within the region (asserted).
 */

/** Load an aligned word. */
TARN_API uint64_t tarn_fabric_mem_load64(const struct tarn_fabric_region *region, uint64_t offset);

/** Store an aligned word. */
TARN_API void tarn_fabric_mem_store64(struct tarn_fabric_region *region, uint64_t offset, uint64_t value);

/** Copy out of a region; if bytes change meanwhile, the copy is a mixture of old and new words. */
TARN_API void tarn_fabric_mem_copy_out(const struct tarn_fabric_region *region, uint64_t offset, void *to,
                                       uint64_t bytes);

/** Copy into a region. */
TARN_API void tarn_fabric_mem_copy_in(struct tarn_fabric_region *region, uint64_t offset, const void *from,
                                      uint64_t bytes);

/**
 * Compare and swap an aligned word, atomically also for the peers' CAS and FAA: a word that is `compare` becomes
 * `operand`.
 *
 * @param ret_before  the word before the operation; it was swapped if that is `compare`
 * @return 0; -EOPNOTSUPP: tarn_fabric_info.atomics is not TARN_FABRIC_ATOMICS_MEMORY, so the processor's swap and the
 *         device's do not see each other (logged). Then connect to a listener of this process, and swap by
 *         tarn_fabric_cas() over that connection: it goes through the device, as the peers' do
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_mem_cas64(struct tarn_fabric_region *region, uint64_t offset,
                                                   uint64_t compare, uint64_t operand, uint64_t *ret_before);

/** Add to an aligned word, atomically also for the peers' CAS and FAA. @param ret_before  the word before the operation
 * @return as tarn_fabric_mem_cas64(); then tarn_fabric_faa() over a connection with oneself does it */
TARN_API TARN_MUST_CHECK int tarn_fabric_mem_faa64(struct tarn_fabric_region *region, uint64_t offset,
                                                   uint64_t add, uint64_t *ret_before);

/** Order memory accesses: all loads and stores before this call take effect before all after it, also for peers. */
static inline void tarn_fabric_mem_fence(void)
{
    __sync_synchronize();
}

/** A word of a region, and the value that it has now. */
struct tarn_fabric_word {
    const struct tarn_fabric_region *region;
    uint64_t offset; /**< a multiple of 8 */
    uint64_t old;
};

/**
 * Wait until one of several words differs from its `old`. A plain WRITE sends no signal: the caller polls, at first
 * without pauses, then with pauses that grow to a millisecond. To sleep until something comes, let peers use notified
 * WRITEs instead.
 *
 * @param ret_index  index of the first word that has changed
 * @return 0; -ETIMEDOUT; -ECANCELED. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_wait_any(const struct tarn_fabric_word *words, uint32_t count,
                                                  uint64_t deadline_ns, uint32_t *ret_index);

/* ---- connections -------------------------------------------------------------------------------- */

/** This side's part of a connection. */
struct tarn_fabric_connect_options {
    const void *
        data; /**< private data, which the other side gets by tarn_fabric_peer_data(); borrowed until return */
    uint32_t data_bytes;    /**< length of the private data, at most TARN_FABRIC_PRIVATE_BYTES_MAX */
    uint32_t receive_count; /**< the most messages that wait here, which is the peer's credit; 0: 16 */
    uint32_t receive_bytes; /**< the most bytes of each; 0: 4,096 */
    bool
        messages_are_rare; /**< a receiver sleeps at once, and takes no processor time until it is woken, which
                                 takes longer. For many connections that have few messages */
};

/**
 * Listen.
 *
 * @param address  shm: the path of a socket; the socket of a server that has ended is replaced. tcp, verbs: an address
 *                 and a port, "127.0.0.1:4711" or "[::1]:4711"
 * @return 0; -EINVAL; -ENOMEM; -EPERM (tcp: addresses beyond this machine need tls, or insecure); -EADDRINUSE, -EACCES
 *         and the like (logged). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_listen(struct tarn_fabric *fabric, const char *address,
                                                struct tarn_fabric_listener **ret_listener);

/** Close a listener, in whose tarn_fabric_listener_wait() no caller waits. Peers that were not accepted are refused.
 * Yields. */
TARN_API void tarn_fabric_listener_close(struct tarn_fabric_listener *listener);

/**
 * Wait for a peer that wants to connect; it must be given to tarn_fabric_accept() or tarn_fabric_reject().
 *
 * @return 0; -ETIMEDOUT; -ECANCELED. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_listener_wait(struct tarn_fabric_listener *listener,
                                                       uint64_t deadline_ns,
                                                       struct tarn_fabric_incoming **ret_incoming);

/** The private data of a peer that wants to connect. @return its length */
TARN_API uint32_t tarn_fabric_incoming_data(const struct tarn_fabric_incoming *incoming,
                                            const void **ret_data);

/**
 * Accept a peer, which has access to the domain's regions from now on.
 *
 * @param incoming  freed on return, also on failure
 * @param options   NULL: the defaults
 * @return 0; -EINVAL; -ENOMEM; -ECONNRESET (the peer did not wait); -EPROTO (the peer has sent memory that cannot be
 *         shared). After an error the peer is refused. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_accept(struct tarn_fabric_incoming *incoming,
                                                struct tarn_fabric_domain *domain,
                                                const struct tarn_fabric_connect_options *options,
                                                struct tarn_fabric_connection **ret_connection);

/**
 * Refuse a peer. Yields.
 *
 * @param error  why: -ENOMEM: out of memory, and the peer's tarn_fabric_connect() returns -ENOBUFS; anything else: it is not
 *               wanted, and that returns -ECONNREFUSED
 */
TARN_API void tarn_fabric_reject(struct tarn_fabric_incoming *incoming, int error);

/**
 * Connect.
 *
 * @param domain   the domain that the other side has access to
 * @param options  NULL: the defaults
 * @return 0; -ECONNREFUSED (no process listens, or the peer has refused); -ENOBUFS (the peer is out of memory); -ENOENT;
 *         -EACCES (the peer is another user's; tcp: another secret, or a certificate that is not accepted; logged);
 *         -EPERM (as tarn_fabric_listen()); -EINVAL; -ENOMEM; -ECONNRESET; -EPROTO; -ETIMEDOUT; -ECANCELED. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_connect(struct tarn_fabric_domain *domain, const char *address,
                                                 const struct tarn_fabric_connect_options *options,
                                                 uint64_t deadline_ns,
                                                 struct tarn_fabric_connection **ret_connection);

/** The other side's private data. Valid until tarn_fabric_disconnect(). @return its length */
TARN_API uint32_t tarn_fabric_peer_data(const struct tarn_fabric_connection *connection,
                                        const void **ret_data);

/** The other side's name, for the log. Valid until tarn_fabric_disconnect(). */
TARN_API const char *tarn_fabric_peer_name(const struct tarn_fabric_connection *connection);

/** The error that ended a connection; 0 while it lives. -EPIPE: the peer has disconnected; -ECONNRESET: the peer has died,
 * or given the connection up; -ECONNABORTED: tarn_fabric_fence(); otherwise an operation's error. Any thread. */
TARN_API int tarn_fabric_error(const struct tarn_fabric_connection *connection);

/**
 * End the connection, if it lives, with -ECONNABORTED, and wait until the peer cannot write into this side's memory any
 * more. shm: until the peer has disconnected, too, or its process has ended. tcp, verbs: that is so at once.
 *
 * @return 0; -ETIMEDOUT, -ECANCELED: the peer could still write. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_fence(struct tarn_fabric_connection *connection,
                                               uint64_t deadline_ns);

/** End and free a connection that has no operation in flight and no caller waiting. Memory that the peer could still
 * write stays out of use until it cannot (tarn_fabric_region_free()); this call does not wait for that. Yields. */
TARN_API void tarn_fabric_disconnect(struct tarn_fabric_connection *connection);

/* ---- operations --------------------------------------------------------------------------------- */

enum tarn_fabric_op_kind {
    TARN_FABRIC_READ,
    TARN_FABRIC_WRITE,
    TARN_FABRIC_WRITE_NOTIFY, /**< a WRITE that also sends `value` as a message; takes a credit */
    TARN_FABRIC_CAS,          /**< compare and swap: a word that is `compare` becomes `operand` */
    TARN_FABRIC_FAA,          /**< fetch and add: `operand` is added to a word */
    TARN_FABRIC_SEND,         /**< a message; takes a credit */
    TARN_FABRIC_OP_KINDS,
};

/*
 * An operation. The caller fills in the fields of the first part, and keeps the operation, its handle and the memory of
 * its vectors until it is known to have completed (tarn_fabric_post()).
 */
struct tarn_fabric_op {
    enum tarn_fabric_op_kind kind;
    bool fence; /**< it begins when all earlier ones of the connection have completed */
    bool
        whole; /**< READ of one aligned word of 8 bytes into one vector, with the right to read: it takes the value that
                    the word had at one moment. Else it fails: -EOPNOTSUPP unless tarn_fabric_info.whole_reads, and of a bulk region */
    uint8_t tag; /**< the tag under which it is counted, below TARN_FABRIC_TAGS_MAX */
    const struct tarn_fabric_handle *handle; /**< the peer's region; not for SEND */
    uint64_t offset;                         /**< offset in the region; for CAS and FAA a multiple of 8 */
    const struct iovec *
        iov; /**< READ, WRITE and SEND: this side's memory, in at most TARN_FABRIC_IOV_MAX vectors; 0 bytes are allowed */
    uint32_t iov_count;
    uint32_t value; /**< WRITE_NOTIFY: the message */
    uint64_t compare;
    uint64_t operand;

    /* set by the fabric */
    uint64_t before; /**< CAS and FAA: the word before the operation */
    int32_t result;  /**< 0 or negative errno */
    bool finished;
    bool trip; /**< its fence let it be sent only when all before it had been answered: a round trip more */
    uint32_t copied_bytes; /**< bytes of the operation that went through memory of the fabric's */
    uint64_t bytes;        /**< bytes of all vectors */
    struct tarn_fabric_connection *connection;
    struct tarn_fabric_op *next; /**< the next operation in a queue of its connection */
};

/**
 * Start operations, in their order. Never waits. What cannot go yet goes on in later calls for the connection: with shm
 * what waits for credit, and the first operation on a region, whose memory its owner has to send. Each is the fabric's,
 * with its memory, until it is known to have completed by tarn_fabric_wait(), tarn_fabric_await() or tarn_fabric_test();
 * then its `result` is its outcome, also an error of the start. So until then no other operation, not even one with a
 * fence, can send what a READ brings, or READ into the same memory.
 */
TARN_API void tarn_fabric_post(struct tarn_fabric_connection *connection, struct tarn_fabric_op *ops,
                               uint32_t count);

/**
 * Wait until several operations have completed; they may be of several connections. If an operation has not completed
 * when the deadline passes or the task is cancelled, its connection is given up (-ETIMEDOUT, -ECANCELED).
 *
 * @return 0; the first error among them: -EINVAL (a field is not as above); -EACCES (the handle is not of the peer's
 *         domain, its region was taken back, or it does not grant this access); -EMSGSIZE (longer than the peer
 *         receives); -EOPNOTSUPP; -ETIMEDOUT; -ECANCELED; the error that ended the connection before. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_wait(struct tarn_fabric_op *ops, uint32_t count,
                                              uint64_t deadline_ns);

/**
 * Wait until several operations have completed, in whatever way, and give nothing up: what has not completed when the
 * deadline passes or the task is cancelled stays posted, with its memory, and can be waited for again.
 *
 * @return 0: all have, and each has its `result`; -ETIMEDOUT; -ECANCELED. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_await(struct tarn_fabric_op *ops, uint32_t count,
                                               uint64_t deadline_ns);

/**
 * Wait until one of several operations has completed, in whatever way, and give nothing up. They may be of several
 * connections, all of one scheduler or all of plain threads.
 *
 * @param ops        posted operations, in any order, best with those of one connection side by side
 * @param count      1 to TARN_FABRIC_AWAIT_ANY_MAX
 * @param ret_index  the place in `ops` of the first that has completed, and has its `result`
 * @return 0, also at a deadline that has passed, if one has completed; -ETIMEDOUT; -ECANCELED; -EINVAL (the count, or
 *         connections that are not all of one scheduler or all of plain threads). Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_await_any(struct tarn_fabric_op *const *ops, uint32_t count,
                                                   uint64_t deadline_ns, uint32_t *ret_index);

/** Whether a posted operation has completed, in whatever way. Never waits, but that a plain thread asks the scheduler of
 * a scheduler's connection. */
TARN_API bool tarn_fabric_test(struct tarn_fabric_op *op);

/** READ into contiguous memory and wait. Yields. @return as tarn_fabric_wait() */
TARN_API TARN_MUST_CHECK int tarn_fabric_read(struct tarn_fabric_connection *connection, uint8_t tag,
                                              const struct tarn_fabric_handle *handle, uint64_t offset,
                                              void *data, uint64_t bytes, uint64_t deadline_ns);

/** READ an aligned word of 8 bytes whole (tarn_fabric_op.whole) and wait. Yields. @return as tarn_fabric_wait() */
TARN_API TARN_MUST_CHECK int tarn_fabric_read_word(struct tarn_fabric_connection *connection, uint8_t tag,
                                                   const struct tarn_fabric_handle *handle, uint64_t offset,
                                                   uint64_t deadline_ns, uint64_t *ret_word);

/** WRITE contiguous memory and wait. Yields. @return as tarn_fabric_wait() */
TARN_API TARN_MUST_CHECK int tarn_fabric_write(struct tarn_fabric_connection *connection, uint8_t tag,
                                               const struct tarn_fabric_handle *handle, uint64_t offset,
                                               const void *data, uint64_t bytes, uint64_t deadline_ns);

/** CAS and wait. @param ret_before  the word before the operation; it was swapped if that is `compare`. Yields. @return as
 * tarn_fabric_wait() */
TARN_API TARN_MUST_CHECK int tarn_fabric_cas(struct tarn_fabric_connection *connection, uint8_t tag,
                                             const struct tarn_fabric_handle *handle, uint64_t offset,
                                             uint64_t compare, uint64_t operand, uint64_t deadline_ns,
                                             uint64_t *ret_before);

/** FAA and wait. Adding 0 reads a word whole on every provider, with the right to swap. Yields. @return as tarn_fabric_wait() */
TARN_API TARN_MUST_CHECK int tarn_fabric_faa(struct tarn_fabric_connection *connection, uint8_t tag,
                                             const struct tarn_fabric_handle *handle, uint64_t offset,
                                             uint64_t add, uint64_t deadline_ns, uint64_t *ret_before);

/** SEND contiguous memory and wait, also for credit. Yields. @return as tarn_fabric_wait() */
TARN_API TARN_MUST_CHECK int tarn_fabric_send(struct tarn_fabric_connection *connection, uint8_t tag,
                                              const void *data, uint32_t bytes, uint64_t deadline_ns);

/** A received message. */
struct tarn_fabric_message {
    bool notified;  /**< it is of a notified WRITE, has that one's `value`, and no bytes */
    uint32_t value; /**< the value of a notified WRITE; 0 in other messages */
    uint32_t bytes;
};

/**
 * Receive the next message, in the order of sending, and give its credit back. Messages that came before the end of
 * the connection are still received.
 *
 * @param room  at least receive_bytes of the options
 * @return 0; -EINVAL; -ETIMEDOUT, -ECANCELED: no message is lost; the error that ended the connection. Yields.
 */
TARN_API TARN_MUST_CHECK int tarn_fabric_receive(struct tarn_fabric_connection *connection, void *data,
                                                 uint32_t room, uint64_t deadline_ns,
                                                 struct tarn_fabric_message *ret_message);

/** The operations under a tag. */
struct tarn_fabric_counters {
    uint64_t operations[TARN_FABRIC_OP_KINDS]; /**< successful operations of each kind */
    uint64_t bytes[TARN_FABRIC_OP_KINDS];      /**< bytes that they moved */
    uint64_t failed;                           /**< failed operations */
    uint64_t refused;                          /**< failed operations with -EACCES */
    uint64_t
        waits; /**< round trips, under the first operation's tag: one for each tarn_fabric_wait(), _await() or _await_any(), and one more for
                       each fence that had to wait for answers, in the longest chain of a connection */
    uint64_t copied_bytes; /**< verbs: bytes that went through memory of the fabric's */
};

/** Count the operations under a tag, on all connections since the fabric was opened. Any thread; exact while no operation
 * is posted. */
TARN_API void tarn_fabric_count(struct tarn_fabric *fabric, uint8_t tag,
                                struct tarn_fabric_counters *ret_counters);

#ifdef __cplusplus
}
#endif

#endif
