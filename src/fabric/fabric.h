/*
 * fabric: one-sided memory between processes and machines, behind a table of operations. What an operation
 * promises, and nothing more (README, "What an operation promises", has the sources):
 *
 *  - The bytes of one READ or WRITE move in any order, and two operations take effect in any order, unless the
 *    first completed before the second was posted, or the second has `fence`.
 *  - When a message (SEND, notified WRITE) is received, all earlier WRITEs of its connection are visible.
 *  - Whether an aligned word of 8 bytes moves whole is reported (fabric_info.whole_words).
 *  - CAS and FAA are atomic among each other; with plain WRITEs and the owner's stores only if that is reported
 *    (fabric_info.atomics).
 *  - A posted operation cannot be recalled. After the first error the connection is dead, whatever the error
 *    was: every operation posted on it completes with an error, once, and its memory is the caller's again.
 *  - A dead peer is not gone: memory that it could write is reused only after fabric_fence().
 *
 * Threading: fabrics, domains, regions and listeners are for any task or thread. A connection belongs to the
 * scheduler whose task made it, or to plain threads, one at a time.
 * Yielding: as stated; deadlines are moments of task_now(), TASK_FOREVER for none.
 * Errors: negative errno; output arguments stay untouched on failure. What kills a connection is logged with
 * the operation and the peer.
 */
#ifndef FABRIC_FABRIC_H
#define FABRIC_FABRIC_H

#include "base/base.h"
#include "task/node.h"
#include "task/sched.h"
#include "task/task.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define FABRIC_BYTES_MAX         (UINT64_C(1) << 30) /* of one operation */
#define FABRIC_IOV_MAX           16                  /* vectors of one operation */
#define FABRIC_PRIVATE_BYTES_MAX 56         /* of private data: what a connection manager of verbs carries */
#define FABRIC_TAGS_MAX          16         /* whom operations are counted for */
#define FABRIC_HANDLE_BYTES      32         /* of a handle that is sent to somebody */
#define FABRIC_RECEIVE_BYTES_MAX (1U << 20) /* of one message */
#define FABRIC_RECEIVE_COUNT_MAX 65536      /* messages that may wait for their receiver */
#define FABRIC_REGIONS_MAX       65536      /* of one domain */

struct fabric;
struct fabric_connection;
struct fabric_domain;
struct fabric_incoming;
struct fabric_listener;
struct fabric_provider;

/* ---- providers, domains, regions ---------------------------------------------------------------- */

/* What CAS and FAA are atomic with, besides each other through one device. */
enum fabric_atomics {
    FABRIC_ATOMICS_NONE,   /* there are none: -EOPNOTSUPP */
    FABRIC_ATOMICS_DEVICE, /* with nothing else */
    FABRIC_ATOMICS_MEMORY, /* with fabric_mem_load64() and store64(), and with WRITEs of whole words */
};

/* What a provider reports. */
struct fabric_info {
    const char *provider;
    bool whole_words; /* an aligned word of 8 bytes is read and written whole */
    enum fabric_atomics atomics;
};

/**
 * Open a provider: "shm:", the processes of this user on this host; "tcp:", any host, with options behind it
 * (README, "tcp"). Under the simulator's node it is the simulator's, whatever the URL. What is used is logged.
 *
 * @return 0; -EINVAL (no such provider or option, logged with those that there are); -EACCES (others may read the
 *         secret); -ENOMEM; errors of the kernel's
 */
base_must_check int fabric_open(struct tarn_node *node, const char *url, struct fabric **ret_fabric);

/** Close; its domains and listeners are closed. Yields; tcp: blocks for as long as a thread takes to end. */
void fabric_close(struct fabric *fabric);

/** What it is. Valid until fabric_close(). */
const struct fabric_info *fabric_info(const struct fabric *fabric);

/* How much memory a domain can export: charged to the node when it is opened, touched when regions are made. */
struct fabric_domain_options {
    uint64_t readable_bytes; /* of regions that peers only read */
    uint64_t writable_bytes; /* of regions that peers may change */
    uint32_t regions_max;    /* 0: 64; at most FABRIC_REGIONS_MAX */
};

/**
 * Make a domain of trust: the unit of rights. Whoever is connected with it may get at all of its regions, as
 * far as the regions' rights go; peers that do not trust each other get a domain each.
 *
 * @param options  NULL: it exports nothing, as that of a mere client
 * @return 0; -EINVAL; -ENOMEM; errors of the kernel's
 */
base_must_check int fabric_domain_open(struct fabric *fabric, const struct fabric_domain_options *options,
                                       struct fabric_domain **ret_domain);

/** Close; its regions are freed and its connections disconnected. What a peer still has mapped lives on
 * without us. Yields. */
void fabric_domain_close(struct fabric_domain *domain);

/* What peers may do to a region. */
enum fabric_rights {
    FABRIC_MAY_READ = 1,
    FABRIC_MAY_WRITE = 2,
    FABRIC_MAY_SWAP = 4, /* CAS and FAA */
};

/* Names a region to a peer; a value, to be sent as fabric_handle_save() writes it. */
struct fabric_handle {
    uint64_t domain;
    uint64_t key; /* never given out again */
    uint64_t bytes;
    uint32_t rights;
};

/* How the owner gets at exported memory, where that is not plain memory: the simulator's. */
struct fabric_mem_operations;

/* Memory that peers may get at: the owner's view. */
struct fabric_region {
    struct fabric_domain *domain;
    uint8_t *memory; /* aligned to a page */
    uint64_t bytes;  /* a multiple of the page */
    struct fabric_handle handle;
    const struct fabric_mem_operations *mem; /* NULL: plain memory */
    void *state;                             /* the provider's */
};

/**
 * Make a region of a domain: zero, and there in memory.
 *
 * @param bytes   1 or more; rounded up to the page
 * @param rights  of enum fabric_rights; with FABRIC_MAY_WRITE or _SWAP it lies in the domain's writable memory
 * @return 0; -EINVAL; -ENOMEM; -ENOSPC (the domain's bytes or regions are used up, or wait for peers that could still
 *         write: fabric_region_free())
 *
 * Yields.
 */
base_must_check int fabric_region_alloc(struct fabric_domain *domain, uint64_t bytes, uint32_t rights,
                                        struct fabric_region **ret_region);

/**
 * Take a region back: from now on its handle is refused. Operations that began before may still end in its
 * memory, so that becomes part of another region only when the connections that the domain had are over.
 * Yields.
 */
void fabric_region_free(struct fabric_region *region);

/** Write a handle for sending: little-endian, FABRIC_HANDLE_BYTES. */
void fabric_handle_save(const struct fabric_handle *handle, void *bytes);

/** Read what fabric_handle_save() wrote, from whomever. @return 0; -EINVAL: it is none */
base_must_check int fabric_handle_load(const void *bytes, struct fabric_handle *ret_handle);

/* ---- the owner's side --------------------------------------------------------------------------- */

/*
 * Exported memory is touched by its owner only through these: relaxed accesses of whole words, which
 * fabric_mem_fence() orders. Offsets and lengths are the caller's to keep within the region (asserted).
 */
struct fabric_mem_operations {
    uint64_t (*load64)(const struct fabric_region *region, uint64_t offset);
    void (*store64)(struct fabric_region *region, uint64_t offset, uint64_t value);
    void (*copy_out)(const struct fabric_region *region, uint64_t offset, void *to, uint64_t bytes);
    void (*copy_in)(struct fabric_region *region, uint64_t offset, const void *from, uint64_t bytes);
};

/** Load an aligned word. */
uint64_t fabric_mem_load64(const struct fabric_region *region, uint64_t offset);

/** Store an aligned word. */
void fabric_mem_store64(struct fabric_region *region, uint64_t offset, uint64_t value);

/** Copy out of a region; bytes that change meanwhile come as a mixture of words. */
void fabric_mem_copy_out(const struct fabric_region *region, uint64_t offset, void *to, uint64_t bytes);

/** Copy into a region. */
void fabric_mem_copy_in(struct fabric_region *region, uint64_t offset, const void *from, uint64_t bytes);

/** What was loaded and stored before is so before all that comes after, for peers too. */
static inline void fabric_mem_fence(void)
{
    __sync_synchronize();
}

/* A word that somebody waits for. */
struct fabric_word {
    const struct fabric_region *region;
    uint64_t offset; /* a multiple of 8 */
    uint64_t old;
};

/**
 * Wait until one of some words is not `old` any more. Nobody signals a plain WRITE: the caller looks again and
 * again, at once, then after pauses that grow to a millisecond. Who wants to sleep without waking has peers
 * notify.
 *
 * @param ret_index  of the first such word
 * @return 0; -ETIMEDOUT; -ECANCELED. Yields.
 */
base_must_check int fabric_wait_any(const struct fabric_word *words, uint32_t count, uint64_t deadline_ns,
                                    uint32_t *ret_index);

/* ---- connections -------------------------------------------------------------------------------- */

/* What this side brings to a connection. */
struct fabric_connect_options {
    const void *data;       /* private data: the other side's fabric_peer_data(); borrowed until return */
    uint32_t data_bytes;    /* at most FABRIC_PRIVATE_BYTES_MAX */
    uint32_t receive_count; /* messages that may wait here, which is the peer's credit; 0: 16 */
    uint32_t receive_bytes; /* the longest of them; 0: 4,096 */
};

/**
 * Listen.
 *
 * @param address  shm: the path of a socket; the socket of a server that is gone is replaced. tcp: an address and a
 *                 port, "127.0.0.1:4711" or "[::1]:4711"
 * @return 0; -EINVAL; -ENOMEM; -EPERM (tcp: beyond this machine only if the URL says so); -EADDRINUSE, -EACCES and
 *         the like (logged). Yields.
 */
base_must_check int fabric_listen(struct fabric *fabric, const char *address,
                                  struct fabric_listener **ret_listener);

/** Listen no more; nobody waits in fabric_listener_wait(). Who was not accepted is refused. Yields. */
void fabric_listener_close(struct fabric_listener *listener);

/**
 * Wait for somebody who wants to connect: to be given to fabric_accept() or fabric_reject().
 *
 * @return 0; -ETIMEDOUT; -ECANCELED. Yields.
 */
base_must_check int fabric_listener_wait(struct fabric_listener *listener, uint64_t deadline_ns,
                                         struct fabric_incoming **ret_incoming);

/** What it said of itself. @return its bytes of private data */
uint32_t fabric_incoming_data(const struct fabric_incoming *incoming, const void **ret_data);

/**
 * Accept: the other side gets at the domain's regions from now on.
 *
 * @param incoming  gone on return, whatever happens
 * @param options   NULL: the defaults
 * @return 0; -EINVAL; -ENOMEM; -ECONNRESET (it did not wait); -EPROTO (what it has sent is no memory to be
 *         shared); each refuses it. Yields.
 */
base_must_check int fabric_accept(struct fabric_incoming *incoming, struct fabric_domain *domain,
                                  const struct fabric_connect_options *options,
                                  struct fabric_connection **ret_connection);

/** Refuse; its fabric_connect() returns -ECONNREFUSED. Yields. */
void fabric_reject(struct fabric_incoming *incoming);

/**
 * Connect.
 *
 * @param domain   what the other side may get at
 * @param options  NULL: the defaults
 * @return 0; -ECONNREFUSED (nobody listens, or it was rejected); -ENOENT; -EACCES (another user's; tcp: another
 *         secret); -EPERM (as fabric_listen()); -EINVAL; -ENOMEM; -ECONNRESET; -EPROTO; -ETIMEDOUT; -ECANCELED.
 *         Yields.
 */
base_must_check int fabric_connect(struct fabric_domain *domain, const char *address,
                                   const struct fabric_connect_options *options, uint64_t deadline_ns,
                                   struct fabric_connection **ret_connection);

/** The other side's private data. Valid until fabric_disconnect(). @return its bytes */
uint32_t fabric_peer_data(const struct fabric_connection *connection, const void **ret_data);

/** The other side, for the log. Valid until fabric_disconnect(). */
const char *fabric_peer_name(const struct fabric_connection *connection);

/** What the connection died of: 0 while it lives; -EPIPE (the peer has disconnected), -ECONNRESET (the peer has
 * died, or given the connection up), -ECONNABORTED (fabric_fence()), and what operations return. Any thread. */
int fabric_error(const struct fabric_connection *connection);

/**
 * End the connection if it lives (-ECONNABORTED), and wait until the peer cannot write here any more. shm: it has
 * disconnected too, or its process has ended. tcp: at once.
 *
 * @return 0; -ETIMEDOUT; -ECANCELED: it still could. Yields.
 */
base_must_check int fabric_fence(struct fabric_connection *connection, uint64_t deadline_ns);

/** End and free the connection; none of its operations is in flight, and nobody waits in it. What the peer
 * could still write stays out of use without us waiting for it (fabric_region_free()). Yields. */
void fabric_disconnect(struct fabric_connection *connection);

/* ---- operations --------------------------------------------------------------------------------- */

enum fabric_op_kind {
    FABRIC_READ,
    FABRIC_WRITE,
    FABRIC_WRITE_NOTIFY, /* and a message of `value`; takes a credit */
    FABRIC_CAS,          /* the word, if it is `compare`, becomes `operand` */
    FABRIC_FAA,          /* `operand` is added to the word */
    FABRIC_SEND,         /* takes a credit */
    FABRIC_OP_KINDS,
};

/*
 * An operation: the caller fills the first part and keeps it, the handle, and the memory that iov names, until
 * fabric_wait() has returned it.
 */
struct fabric_op {
    enum fabric_op_kind kind;
    bool fence;                         /* begins when all before it on the connection have completed */
    uint8_t tag;                        /* whom it is counted for, below FABRIC_TAGS_MAX */
    const struct fabric_handle *handle; /* all but SEND */
    uint64_t offset;                    /* in the region; of CAS and FAA a multiple of 8 */
    const struct iovec *iov; /* READ, WRITE and SEND: at most FABRIC_IOV_MAX, and 0 bytes are allowed */
    uint32_t iov_count;
    uint32_t value; /* WRITE_NOTIFY */
    uint64_t compare;
    uint64_t operand;

    /* the fabric's */
    uint64_t before; /* CAS and FAA: what the word was */
    int32_t result;  /* 0 or negative errno */
    bool finished;
    uint64_t bytes; /* of iov */
    struct fabric_connection *connection;
    struct base_list link; /* while it waits for credit or for those before it */
};

/**
 * Start operations, one behind the other. Never waits; what one comes to, errors too, fabric_wait() returns.
 * Each must be waited for.
 */
void fabric_post(struct fabric_connection *connection, struct fabric_op *ops, uint32_t count);

/**
 * Wait until all of some operations have completed; they may be of several connections. A connection whose
 * operation has not when the deadline passes, or the task is cancelled, is given up (-ETIMEDOUT, -ECANCELED).
 *
 * @return 0; the first error among them: -EINVAL (not as above); -EACCES (the handle is not of the peer's
 *         domain, was taken back, or does not grant it, or not there); -EMSGSIZE (longer than the peer
 *         receives); -EOPNOTSUPP; -ETIMEDOUT; -ECANCELED; what the connection had died of before. Yields.
 */
base_must_check int fabric_wait(struct fabric_op *ops, uint32_t count, uint64_t deadline_ns);

/** READ into contiguous memory and wait. Yields. @return as fabric_wait() */
base_must_check int fabric_read(struct fabric_connection *connection, uint8_t tag,
                                const struct fabric_handle *handle, uint64_t offset, void *data,
                                uint64_t bytes, uint64_t deadline_ns);

/** WRITE contiguous memory and wait. Yields. @return as fabric_wait() */
base_must_check int fabric_write(struct fabric_connection *connection, uint8_t tag,
                                 const struct fabric_handle *handle, uint64_t offset, const void *data,
                                 uint64_t bytes, uint64_t deadline_ns);

/** CAS and wait. @param ret_before  what the word was: `compare` if it was swapped. Yields. @return as
 * fabric_wait() */
base_must_check int fabric_cas(struct fabric_connection *connection, uint8_t tag,
                               const struct fabric_handle *handle, uint64_t offset, uint64_t compare,
                               uint64_t operand, uint64_t deadline_ns, uint64_t *ret_before);

/** FAA and wait; of 0 it reads a word whole on every provider. Yields. @return as fabric_wait() */
base_must_check int fabric_faa(struct fabric_connection *connection, uint8_t tag,
                               const struct fabric_handle *handle, uint64_t offset, uint64_t add,
                               uint64_t deadline_ns, uint64_t *ret_before);

/** SEND contiguous memory and wait until there was credit. Yields. @return as fabric_wait() */
base_must_check int fabric_send(struct fabric_connection *connection, uint8_t tag, const void *data,
                                uint32_t bytes, uint64_t deadline_ns);

/* What was received. */
struct fabric_message {
    bool notified;  /* by a notified WRITE: `value` is its, and there are no bytes */
    uint32_t value; /* else 0 */
    uint32_t bytes;
};

/**
 * Receive the next message, in the order of sending, and give its credit back. What came before the end of a
 * connection is still received.
 *
 * @param room  at least receive_bytes of the options
 * @return 0; -EINVAL; -ETIMEDOUT; -ECANCELED: nothing is lost; what the connection died of. Yields.
 */
base_must_check int fabric_receive(struct fabric_connection *connection, void *data, uint32_t room,
                                   uint64_t deadline_ns, struct fabric_message *ret_message);

/* What was done for a tag. */
struct fabric_counters {
    uint64_t operations[FABRIC_OP_KINDS]; /* that succeeded */
    uint64_t bytes[FABRIC_OP_KINDS];
    uint64_t failed;
    uint64_t refused; /* of those: -EACCES */
    uint64_t waits;   /* round trips: fabric_wait() calls, counted for their first operation */
};

/** What was done for a tag on all connections, those that are over too. Any thread; exact when nobody posts. */
void fabric_count(struct fabric *fabric, uint8_t tag, struct fabric_counters *ret_counters);

/* ---- for providers ------------------------------------------------------------------------------ */

/*
 * The table that a provider fills; the simulator's is handed in through task_node_options.fabric. States are
 * the provider's own. What is common to all (checks of operations, counting, the first error) is done before
 * and after; see README, "Providers".
 */
struct fabric_provider {
    const char *name;

    /** @param provider_arg  the node's fabric_arg; of real ones what stands behind the colon, or NULL */
    int (*open)(struct tarn_node *node, void *provider_arg, struct fabric_info *ret_info, void **ret_state);
    void (*close)(void *state);

    int (*domain_open)(void *state, const struct fabric_domain_options *options, void **ret_domain);
    void (*domain_close)(void *domain);

    /** Fill memory, bytes, handle, mem and state. @param region  bytes and rights are checked */
    int (*region_alloc)(void *domain, struct fabric_region *region);
    void (*region_free)(void *domain, struct fabric_region *region);

    int (*listen)(void *state, const char *address, void **ret_listener);
    void (*listener_close)(void *listener);
    int (*listener_wait)(void *listener, uint64_t deadline_ns, void **ret_incoming);
    uint32_t (*incoming_data)(const void *incoming, const void **ret_data);

    /** Ends the incoming in any case. @param owner  for fabric_connection_name() and _fail() */
    int (*accept)(void *incoming, void *domain, const struct fabric_connect_options *options,
                  struct fabric_connection *owner, void **ret_connection);
    void (*reject)(void *incoming);
    int (*connect)(void *domain, const char *address, const struct fabric_connect_options *options,
                   uint64_t deadline_ns, struct fabric_connection *owner, void **ret_connection);
    uint32_t (*peer_data)(const void *connection, const void **ret_data);

    /** Start a checked operation of a live connection; fabric_op_finish() is called once for it: now, in
     * wait(), in receive(), or in fail(). */
    void (*post)(void *connection, struct fabric_op *op);

    /** Wait until it is finished. @return 0; -ETIMEDOUT; -ECANCELED: it is not */
    int (*wait)(void *connection, struct fabric_op *op, uint64_t deadline_ns);

    /** As fabric_receive(). */
    int (*receive)(void *connection, void *data, uint32_t room, uint64_t deadline_ns,
                   struct fabric_message *ret_message);

    /** The connection has failed, for the reason that fabric_error() has: tell the peer, and finish with it
     * what was posted. By the connection's user; may be called again. */
    void (*fail)(void *connection);

    /** Of a failed connection, as fabric_fence(). */
    int (*fence)(void *connection, uint64_t deadline_ns);

    void (*disconnect)(void *connection);

    /** As fabric_wait_any(). NULL: by looking again and again. */
    int (*wait_any)(void *state, const struct fabric_word *words, uint32_t count, uint64_t deadline_ns,
                    uint32_t *ret_index);
};

/** For providers: an operation has its result; an error kills the connection. By the connection's user. */
void fabric_op_finish(struct fabric_op *op, int32_t result);

/** For providers: what the peer is called. Before anything can fail. */
void fabric_connection_name(struct fabric_connection *connection, const char *name);

/**
 * For providers: the connection dies of an error, unless it is dead.
 *
 * @param what  was being done, for the log
 * @return whether this was the first. Any thread.
 */
bool fabric_connection_fail(struct fabric_connection *connection, const char *what, int error);

#endif
