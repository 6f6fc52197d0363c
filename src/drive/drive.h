/*
 * drive: a byte-addressed device behind a table of operations: a file, a block device, or the
 * simulator's. What a drive promises, and nothing more: a write is durable only after a flush that
 * was issued after the write completed, or when it was posted `durable` (FUA); until then any subset
 * of its 512-byte sectors may be on the medium. A read may fail or return damaged bytes. A failed
 * flush means that everything since the last good one is lost: from then on the drive refuses
 * writes and flushes with -EROFS, and says so in the log. A failed durable write counts as one.
 *
 * Threading: every function may be called from any task or thread, and drive_post() from the
 * scheduler's stack (in `done`) too. Tasks use their scheduler's engine; plain threads (and tasks of
 * that personality) do the same with preadv2 and pwritev2 in the calling thread. Reads and writes
 * that overlap while in flight have no order.
 * Yielding: as stated; a posted request cannot be recalled and has no deadline of its own. A caller that
 * waits with a deadline keeps the request and its memory until drive_wait() has returned its result.
 * Errors: negative errno, logged with the name of the drive where the drive is at fault.
 */
#ifndef DRIVE_DRIVE_H
#define DRIVE_DRIVE_H

#include "base/base.h"
#include "base/buffer.h"
#include "task/engine.h"
#include "task/node.h"
#include "task/sched.h"
#include "task/task.h"
#include <stdbool.h>
#include <stdint.h>

#define DRIVE_SECTOR_BYTES      512        /* the unit that a power cut leaves whole or unwritten */
#define DRIVE_BYTES_MIN         65536      /* a smaller file or device is refused */
#define DRIVE_REQUEST_BYTES_MAX 0x7ffff000 /* the most that Linux moves in one call */
#define DRIVE_MEMBERS_MAX       32         /* the most drives of a stripe */

/*
 * How long an opening waits for the lock. A killed process may still have writes in flight, and its lock is free
 * when they have landed: some 50 ms later, or seconds on a disk under load.
 */
#define DRIVE_LOCK_WAIT_NS (5 * BASE_NS_PER_SECOND)

struct drive;

enum drive_direct { DRIVE_DIRECT_AUTO, DRIVE_DIRECT_ON, DRIVE_DIRECT_OFF };

enum drive_provider_choice {
    DRIVE_PROVIDER_AUTO,  /* the schedulers' engine; `sync` for a file in memory, which is read through a
                           * mapping: a process that makes it shorter meanwhile ends this one (SIGBUS) */
    DRIVE_PROVIDER_URING, /* refused when the schedulers' engine is another one */
    DRIVE_PROVIDER_AIO,
    DRIVE_PROVIDER_SYNC, /* preadv2 and pwritev2 in the calling task or thread */
    DRIVE_PROVIDER_NVME, /* NVMe commands: for the character node of a namespace (/dev/ng0n1), where `auto`
                          * chooses it too and nothing else does; refused elsewhere */
};

struct drive_options {
    uint64_t
        create_bytes; /* > 0: make the file with this size if there is none; several files get equal shares of
                            * it; ignored for devices */
    uint64_t grow_bytes; /* > 0: make an existing file this long; not for devices and stripes */
    enum drive_direct direct;
    enum drive_provider_choice provider;
    uint64_t
        lock_wait_ns; /* nanoseconds to wait for another process to close the drive; 0: DRIVE_LOCK_WAIT_NS */
    bool read_only;   /* several processes may have the drive open to read, while none has it open to write */
    bool zero_ahead;  /* write zeros in the background to parts of a file that were never written */
    bool
        make_stripe; /* several blank drives may become a stripe, devices too; with create_bytes, files may without this */
    bool
        append; /* the one blank drive in the list may be appended to the stripe, or the single drive, that the others are;
                  * drive_establish() does it */
    bool overwrite; /* several drives become a new stripe, whatever they hold */
};

/* Properties of a drive, read when it was opened. */
struct drive_info {
    const char *provider; /* "uring", "aio", "sync", "nvme", "stripe", "sim" */
    uint64_t
        bytes; /* size at the opening, a multiple of physical_block_bytes; drive_bytes() has the present one */
    uint32_t logical_block_bytes;  /* size of the smallest direct transfer */
    uint32_t physical_block_bytes; /* multiple at which writes should end; never below logical_block_bytes */
    uint32_t memory_alignment_bytes; /* alignment of the memory of a direct transfer; 1 if not direct */
    bool direct;                     /* transfers bypass the page cache */
    bool device;                     /* a block device or an NVMe namespace, not a file */
    bool mapped;                     /* reads are copies of memory: the file is in memory, and mapped */
    bool created;                    /* this opening made the file: it reads as zeros */
    bool write_cache;                /* completed writes may be lost without a flush */
    bool fua;                        /* durable writes cost less than write and flush */
    bool
        discard; /* drive_discard() is carried out; never so for files, where a later write would have to allocate the
                   * space again */
    uint32_t appended; /* number of drives that were appended to the stripe after it was made */
    bool
        appending; /* the last of the appended drives is not yet part of the stripe: drive_establish() makes it so */
    uint64_t unit_bytes; /* size of a stripe's unit; 0: no stripe */
    uint64_t stripe_identity[2];
};

enum drive_op { DRIVE_READ, DRIVE_WRITE, DRIVE_FLUSH, DRIVE_DISCARD };

/* The state of a request that its provider cuts into commands (nvme): the uncut rest, and the commands' results. */
struct drive_cut {
    struct base_list link;   /* place in the queue for a free entry of the ring */
    const struct iovec *iov; /* the vectors that are left; `taken_bytes` of the first have become commands */
    uint32_t iov_count;
    uint64_t taken_bytes;
    uint64_t offset;
    uint64_t left_bytes;
    uint32_t in_flight;            /* commands of the request in flight */
    int32_t result;                /* 0, or the error of the first command that failed */
    _Alignas(8) uint8_t range[16]; /* a discard's range in the device's form */
};

/*
 * A request: the caller fills the first part and keeps it, and the memory that iov names, until
 * drive_wait() returned or `done` was called. Offsets and lengths of a direct drive are multiples
 * of logical_block_bytes, and memory of memory_alignment_bytes, else -EINVAL.
 */
struct drive_request {
    enum drive_op op;
    bool durable; /* DRIVE_WRITE: on the medium when it completes */
    uint64_t offset;
    struct iovec *iov;  /* the memory to transfer; the drive changes the vectors */
    uint32_t iov_count; /* 1..TASK_IOV_MAX; 0 for DRIVE_FLUSH and DRIVE_DISCARD */
    uint64_t
        discard_bytes; /* DRIVE_DISCARD: bytes to discard from `offset` on, a multiple of logical_block_bytes */
    int32_t region;    /* registered region that all of iov lies in (base_buffer.region), or -1 */
    /* called with the result on the scheduler's stack, must not yield, may post; NULL: the poster calls drive_wait() */
    void (*done)(struct drive_request *request);
    void *arg;

    /* the drive's */
    struct drive *drive;
    int32_t result; /* 0 or negative errno: transfers are whole or failed */
    bool finished;
    uint64_t expected_bytes;
    struct task_sched *sched; /* the scheduler whose task posted the request; NULL: a plain thread did */
    struct task_wait *waiter;
    void (*resume)(struct drive_request *request); /* the next step of a request that was put aside */
    struct task_message message;
    union {
        struct task_io
            io; /* the engine's request; until it is posted its `link` belongs to the code that put the request aside */
        struct drive_cut cut;
    };
};

/**
 * Open a drive by path: a regular file, a block device, the character node of an NVMe namespace, or with
 * the simulator's node a simulated drive's name; or several of them, with commas between, in any order, which
 * are or become a stripe. A comma of a path itself is written "\,". A file is locked against a second opener,
 * in this process or another; the opening waits options->lock_wait_ns for a lock that another one holds.
 *
 * @param path  borrowed until return
 * @return 0; -ENOENT; -EACCES; -EBUSY (another opening has it); -ENOTSUP (an option asks for more than it has);
 *         -EINVAL; -ENOSPC; -ENOMEM; other errors of the kernel's; several: -EUCLEAN (they are
 *         no stripe, or not a whole one), -EEXIST (options->make_stripe: they are not blank); each with a
 *         sentence in the log
 *
 * Yields, and holds its thread while the kernel makes a file. Any task or thread. A file that is
 * made is reserved at full size and in its directory for good when this returns; after a crash in
 * the middle it is empty, and the next opening makes it.
 */
base_must_check int drive_open(struct tarn_node *node, const char *path, const struct drive_options *options,
                               struct drive **ret_drive);

/**
 * Make several drives that were blank, or of which nothing was to be kept, a stripe for good; or append the one that
 * shall be. Until then nothing has been written to them, and only reads are allowed. Cut off, it leaves a stripe or
 * drives that still count as blank; one that was appended or is blank. Nothing to do for all other drives.
 *
 * @return 0; -ENOMEM; what drive_write() returns: they are no stripe, close them. Yields.
 */
base_must_check int drive_establish(struct drive *drive);

/**
 * Leave with a file how a server of it is reached, for those that find it locked, or take that back. Nothing happens where
 * the file system has no extended attributes, and with devices. Any thread.
 *
 * @param path  of a drive that is open
 * @param url   NULL: none any more
 */
void drive_file_set_url(const char *path, const char *url);

/** How many drives it is made of; 1: it is no stripe. */
uint32_t drive_member_count(const struct drive *drive);

/* A drive that was appended. */
struct drive_appended {
    uint64_t begin_bytes; /* the first byte of the whole that lies on it */
    uint64_t nonce;       /* by which it is known, not 0 */
};

/** One of the drives that were appended, in turn. @param number  from 0, below drive_info's `appended` */
struct drive_appended drive_appended(const struct drive *drive, uint32_t number);

/** One of them: of a stripe by its place, from 0; else the drive itself. Only to be asked about. */
const struct drive *drive_member(const struct drive *drive, uint32_t place);

/*
 * What a store on a single drive begins with, "TarnStor", and at DRIVE_STORE_IDENTITY its 16 random bytes: by them the
 * drive is known when another one is appended to it.
 */
#define DRIVE_STORE_MAGIC    UINT64_C(0x726f74536e726154)
#define DRIVE_STORE_IDENTITY 16

/** Whether what a drive begins with (512 bytes) is the label of a member of a stripe, good or not. */
bool drive_is_member(const void *begin);

/** Close; no request may be in flight. Yields while the zeroing ends. Any task or thread. */
void drive_close(struct drive *drive);

/** What it is. Valid until drive_close(). */
const struct drive_info *drive_info(const struct drive *drive);

/** How large it is: what it was when it was opened, or what drive_extend() has found since. */
uint64_t drive_bytes(const struct drive *drive);

/**
 * Look whether the file or device has become larger, and take what it has more: requests may go there from now
 * on. What a file has more is reserved first, as far as it is not; its length is durable after the next flush. One
 * that became smaller counts as it was. A stripe becomes larger with the last drive that was appended, or, if none
 * was, with the smallest of its drives. Not from several at once; others may read and write meanwhile.
 *
 * @param ret_bytes  drive_bytes() now
 * @return 0; -EOPNOTSUPP (its provider cannot tell); -ENOSPC (there is no room for what the file shall have: it is as
 *         it was); -EROFS; other errors of the kernel's; each logged
 *
 * Yields, and holds its thread while the kernel reserves. Any task or thread.
 */
base_must_check int drive_extend(struct drive *drive, uint64_t *ret_bytes);

/** What memory for transfers is aligned to: a page, or more if the drive asks for it. */
static inline size_t drive_memory_alignment(const struct drive *drive)
{
    return base_max((size_t)BASE_PAGE_BYTES, (size_t)drive_info(drive)->memory_alignment_bytes);
}

/** Memory for transfers: charged to the node, touched, zero. @return NULL: -ENOMEM */
static inline void *drive_memory_alloc(struct tarn_node *node, const struct drive *drive, size_t bytes)
{
    return base_alloc_aligned(&node->memory, drive_memory_alignment(drive), bytes);
}

/** Its path in double quotes, as a line of the log takes it. Valid until drive_close(). */
const char *drive_name(const struct drive *drive);

/** Its path as it is, of a stripe the list. Valid until drive_close(). */
const char *drive_path(const struct drive *drive);

/**
 * Start a request. Its outcome, also -EINVAL and -EROFS, comes through drive_wait() or `done`.
 * In a plain thread the request is finished when this returns. `done` is never called before this
 * returns in a task, and always before it returns in a plain thread.
 */
void drive_post(struct drive *drive, struct drive_request *request);

/**
 * Wait for a request posted without `done` by a task of this scheduler, or by this thread.
 *
 * @return its result: 0 or negative errno; -ETIMEDOUT (it is still in flight: wait again)
 *
 * Yields. Not cancelled, the drive has the memory: a cancelled task waits without its deadline.
 */
base_must_check int drive_wait(struct drive_request *request, uint64_t deadline_ns);

/**
 * Read into contiguous memory and wait.
 *
 * @param bytes  1..DRIVE_REQUEST_BYTES_MAX
 * @return 0; -EINVAL (outside of the drive, not aligned); -EIO and the like: contents undefined
 *
 * Yields.
 */
base_must_check int drive_read(struct drive *drive, uint64_t offset, void *data, size_t bytes);

/**
 * Write contiguous memory and wait.
 *
 * @param bytes    1..DRIVE_REQUEST_BYTES_MAX
 * @param durable  on the medium on return
 * @return 0; -EINVAL; -EROFS (a flush failed, or opened to read); -ENOSPC (a sparse file); -EIO.
 *         After an error any part may be written. If it was not durable the drive goes on: the
 *         failure says nothing about other writes
 *
 * Yields.
 */
base_must_check int drive_write(struct drive *drive, uint64_t offset, const void *data, size_t bytes,
                                bool durable);

/**
 * Read into the buffers of a list, all of their room, which becomes content. More than TASK_IOV_MAX
 * buffers take several requests. Yields.
 *
 * @return as drive_read(); the list is unchanged on failure
 */
base_must_check int drive_read_list(struct drive *drive, uint64_t offset, struct base_buffer_list *list);

/**
 * Write what the buffers of a list hold; more than TASK_IOV_MAX buffers take several requests, one
 * after the other. Yields.
 *
 * @return as drive_write()
 */
base_must_check int drive_write_list(struct drive *drive, uint64_t offset,
                                     const struct base_buffer_list *list, bool durable);

/**
 * Make durable what completed before this call. Callers share: while one flush is in flight, all
 * that come wait for the next one.
 *
 * @return 0; an error (everything since the last good flush is lost, never tried again); -EROFS (an
 *         earlier one failed, or opened to read)
 *
 * Yields.
 */
base_must_check int drive_flush(struct drive *drive);

/**
 * Tell a device that what lies there is not needed any more. Until it is written again, reads of it succeed
 * and give zeros, what was there, or anything else, each sector for itself, the same at each reading; a power
 * cut may bring back what was there. No read or write of the same bytes may be in flight that somebody relies
 * on.
 *
 * @param offset, bytes  multiples of logical_block_bytes
 * @return 0; -EINVAL; -EROFS; -EOPNOTSUPP (info->discard is not set, or the device refuses after all); -EIO:
 * nothing has failed but this
 *
 * Yields. A device may take long; in a task of a block device's a thread of its own waits for it.
 */
base_must_check int drive_discard(struct drive *drive, uint64_t offset, uint64_t bytes);

/** Whether a flush or a durable write failed: no more are taken. */
bool drive_failed(const struct drive *drive);

/** How many requests have failed since it was opened. */
uint64_t drive_failures(const struct drive *drive);

/**
 * How many bytes requests have moved since it was opened: those that have failed count nothing.
 *
 * @param op  DRIVE_READ or DRIVE_WRITE
 */
uint64_t drive_moved_bytes(const struct drive *drive, enum drive_op op);

/**
 * How far the background zeroing of a file has come, for the log and statistics: bytes from the
 * start. Equal to drive_info()->bytes when there is nothing (more) to do; what came later is not zeroed.
 */
uint64_t drive_zeroed_bytes(const struct drive *drive);

/* ---- providers ------------------------------------------------------------------------------- */

/* The table that a provider fills; the simulator's is handed in through task_node_options.drives. */
struct drive_provider {
    const char *name;

    /** Open and describe. @param path  lives until close @param ret_state  the provider's own @return 0 or
     * negative errno, logged */
    int (*open)(struct tarn_node *node, void *provider_arg, const char *path,
                const struct drive_options *options, struct drive_info *ret_info, void **ret_state);

    void (*close)(void *state);

    /**
     * Start a checked request and have drive_finish() called exactly once, for a task (request->sched
     * is not NULL) on its scheduler's stack later, for a plain thread before this returns; or in both
     * call drive_finish_now() before this returns. At most one DRIVE_FLUSH is in flight at a time. Called
     * by the poster, or later on its scheduler's stack.
     */
    void (*post)(void *state, struct drive_request *request);

    /** How far zeroing has come; NULL: there is none. */
    uint64_t (*zeroed_bytes)(const void *state);

    /** As drive_extend(). Sizes are whole physical blocks. NULL: it cannot.
     * @param inout_bytes  more, or left as it is @return 0 or negative errno */
    int (*extend)(void *state, uint64_t *inout_bytes);
};

/** For providers: the request has its result. On its scheduler's stack, or in the thread that posted. */
void drive_finish(struct drive_request *request, int32_t result);

/** For providers: the same from inside post(). */
void drive_finish_now(struct drive_request *request, int32_t result);

#endif
