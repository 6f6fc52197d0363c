/* The insides of drives, for the files of this folder. */
#ifndef DRIVE_DRIVE_INTERNAL_H
#define DRIVE_DRIVE_INTERNAL_H

#include "drive/drive.h"

#define DRIVE_QUOTED_BYTES 320 /* room for a path in quotes, as the log shows it */

/* ---- drive.c: what is common to all providers ------------------------------------------------- */

/* The flushes of one drive, one at a time; flush.c. */
struct drive_flushes {
    struct base_spin lock;
    struct drive_request *leader; /* the flush that the provider has, or NULL */
    struct base_list followers;   /* flushes posted before the leader was issued: they get its result */
    struct base_list waiting;     /* flushes posted since then: they share the next one */
};

struct drive {
    struct tarn_node *node;
    const struct drive_provider *provider;
    void *state; /* the provider's state of this drive */
    struct drive_info info;
    _Atomic uint64_t bytes; /* the present size; info.bytes is that of the opening */
    bool read_only;
    _Atomic bool failed;       /* set once, by the first failed flush or durable write */
    _Atomic uint64_t failures; /* number of requests that failed since the opening */
    struct base_counter
        moved_bytes[DRIVE_WRITE +
                    1]; /* bytes that successful requests moved since the opening, by operation */
    struct drive_flushes flushes;
    struct base_log_limit errors;    /* limits the lines about failed requests */
    char quoted[DRIVE_QUOTED_BYTES]; /* the name in quotes, for the log */
    size_t name_bytes;               /* bytes of memory that `name` takes */
    char name[];
};

/** Give the caller a result: to `done`, or to the task or thread that waits. In the request's own context. */
void drive_deliver(struct drive_request *request);

/**
 * Prepare a request to be put aside. Its next step is request->resume, which runs on its scheduler's
 * stack or in its thread after drive_resume(). In between, `request->io.link` belongs to the code that keeps it.
 *
 * @param wait  memory of the frame that calls drive_stay()
 */
void drive_put_aside(struct drive_request *request, struct task_wait *wait,
                     void (*resume)(struct drive_request *));

/** After the request was handed to the code that resumes it: return in a task, wait and resume in a thread. Yields
 * in a plain thread. */
void drive_stay(struct drive_request *request);

/** Let a request that was put aside go on. Any thread; its memory may be gone on return. */
void drive_resume(struct drive_request *request);

/** Log an event about a path, with a reason. */
void drive_note(struct tarn_node *node, enum base_log_level level, const char *path, const char *event,
                const char *reason);

/** Log why a path is refused and what the user can do. @return error, for the caller to return */
int drive_refuse(struct tarn_node *node, const char *path, int error, const char *reason);

/* ---- flush.c ---------------------------------------------------------------------------------- */

/** Begin with no flush in flight. */
void drive_flushes_init(struct drive_flushes *flushes);

/** Post a flush to the provider, or queue it for the next one. Yields in a plain thread. */
void drive_flush_post(struct drive *drive, struct drive_request *request);

/** Take the leader's result: its followers get it too, and the first waiting flush becomes the leader. */
void drive_flush_finish(struct drive *drive, int32_t result);

/* ---- file.c, probe.c: opening ----------------------------------------------------------------- */

/* A path on its way to becoming a drive. */
struct drive_opening {
    struct tarn_node *node;
    const char *path;
    const struct drive_options *options;
    int fd;      /* the locked file; -1 before it is open */
    bool memory; /* the file is in memory (tmpfs, ramfs) */
    struct drive_info info;
};

/** Open, lock and if need be make the file; refusals are logged. Yields while it waits for a lock. @return 0
 * or negative errno */
base_must_check int drive_file_acquire(struct drive_opening *opening);

/** Unlock and close, and remove the file if this opening made it. */
void drive_file_abandon(struct drive_opening *opening);

/** Read the present size of an open file or device, and reserve a file's space above `from`. Holds the thread.
 * @return 0 or negative errno */
base_must_check int drive_file_extend(int fd, uint64_t from, uint64_t *ret_bytes);

/** Whether the file is still to be made: there is none, or an empty one. */
bool drive_file_is_missing(const char *path);

/** Whether two paths lead to the same file or device, also by the two nodes of an NVMe namespace. */
bool drive_file_is_same(const char *a, const char *b);

/** Fill in opening->info (except provider and created) and set the descriptor's direct mode. @return 0 or
 * negative errno, logged */
base_must_check int drive_ask(struct drive_opening *opening);

/* The queue of a block device, in /sys; zero for file systems without one. A partition has the queue of its disk. */
struct drive_queue {
    unsigned device_major;
    unsigned device_minor;
};

/** Read an attribute of a queue. @return whether it is known */
base_must_check bool drive_queue_text(const struct drive_queue *queue, const char *attribute, char *ret_text,
                                      size_t room);

/** Read an attribute that is a number. @return `otherwise` if it is not known, or no number */
uint64_t drive_queue_number(const struct drive_queue *queue, const char *attribute, uint64_t otherwise);

/** Read a small file. @return bytes, without a line's end; negative errno */
base_must_check int drive_read_text(const char *path, char *ret_text, size_t room);

/* ---- kernel.c: the provider of files and devices ------------------------------------------------ */

/** Real files and devices, through the schedulers' engines or in the calling thread. */
extern const struct drive_provider drive_provider_kernel;

/* ---- discard.c: what devices are told not to keep -------------------------------------------------- */

/** Have a device discard a request's range: in a plain thread within the call, for a task in a thread of its
 * own, after which the request is finished on its scheduler. */
void drive_discard_post(struct tarn_node *node, int fd, struct drive_request *request);

/* ---- claims.c: which part of a file is whose while it is zeroed -------------------------------- */

#define DRIVE_CHUNK_BYTES (UINT64_C(1) << 20) /* the zeroer's unit */
#define DRIVE_CHUNK_NONE  UINT64_MAX

/*
 * One bit for each chunk: set for good when a request first writes into it. The zeroer takes chunks whose
 * bit is not set, one at a time, and a request that wants to write into that one waits.
 */
struct drive_claims {
    struct base_account *account;
    _Atomic bool over;        /* the zeroer has ended, and writers need not look at the bits */
    struct base_spin lock;    /* protects the fields below */
    uint64_t taken;           /* number of the chunk that is being zeroed, or DRIVE_CHUNK_NONE */
    struct base_list waiting; /* requests that want to write into the taken chunk */
    uint64_t chunk_count;
    uint64_t *written;
};

/** Begin with no chunk written and none taken. @return 0; -ENOMEM */
base_must_check int drive_claims_init(struct drive_claims *claims, struct base_account *account,
                                      uint64_t bytes);

/** Free the bits; no request may wait. */
void drive_claims_deinit(struct drive_claims *claims);

/**
 * Mark the chunks that a request writes into.
 *
 * @param request  put aside (drive_put_aside) beforehand
 * @return whether the request may go on now; otherwise it was queued and drive_claims_release() resumes it. Any
 * thread or task.
 */
base_must_check bool drive_claims_admit(struct drive_claims *claims, struct drive_request *request);

/** Take a chunk to zero it. @return false if a request wrote into it. The zeroer's thread. */
base_must_check bool drive_claims_take(struct drive_claims *claims, uint64_t chunk);

/** Give back the chunk that was taken, and resume the requests that wait for it. */
void drive_claims_release(struct drive_claims *claims);

/** Say that no more chunks will be taken. */
void drive_claims_end(struct drive_claims *claims);

/* ---- zero.c ------------------------------------------------------------------------------------ */

struct drive_zero;

/**
 * Start writing zeros where a file is reserved but was never written; in a thread of its own.
 *
 * @param path      lives as long as the drive
 * @param ret_zero  NULL when there is nothing to do, or it cannot be done (logged)
 */
void drive_zero_open(struct tarn_node *node, const char *path, int fd, const struct drive_info *info,
                     struct drive_zero **ret_zero);

/** Stop and free; NULL is allowed. Yields until the thread has ended. */
void drive_zero_close(struct drive_zero *zero);

/** The claims that writers must ask. */
struct drive_claims *drive_zero_claims(struct drive_zero *zero);

/** The zeroer's position, in bytes from the start of the file. */
uint64_t drive_zero_bytes(const struct drive_zero *zero);

#endif
