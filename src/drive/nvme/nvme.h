/*
 * NVMe drives: commands passed through the kernel's driver to a namespace, by its character node
 * (/dev/ng0n1). For the files of this folder, and for drive.c and file.c, which ask whether a path is such a
 * node, and of which block device.
 */
#ifndef DRIVE_NVME_NVME_H
#define DRIVE_NVME_NVME_H

#include "drive/drive_internal.h"
#include <linux/nvme_ioctl.h>
#include <sys/stat.h>

/* ---- identify.c: what a device says that it is, and what its statuses mean ---------------------- */

#define NVME_IDENTIFY_BYTES 4096 /* of each data structure that identify returns */
#define NVME_MODEL_BYTES    40
#define NVME_FIRMWARE_BYTES 8

/* What a namespace and its controller say, checked. */
struct nvme_namespace {
    uint32_t nsid;
    uint32_t block_bytes; /* of the format in use */
    uint32_t write_bytes; /* what writes should end at: block_bytes or a larger power of two */
    uint64_t block_count;
    uint64_t transfer_bytes_max; /* of a command: the controller's, then also the kernel's */
    uint64_t discard_blocks_max; /* of a command; 0: it has no dataset management */
    bool write_cache;
    char model[NVME_MODEL_BYTES + 1]; /* as the device says: any bytes but NUL, without spaces at the end */
    char firmware[NVME_FIRMWARE_BYTES + 1];
};

/** Take what identify says of a controller (CNS 01h). Any bytes. */
void nvme_parse_controller(struct nvme_namespace *ns, const uint8_t data[NVME_IDENTIFY_BYTES]);

/** Take what identify says of the controller's limits of NVM commands (CNS 06h), which is optional. Any
 * bytes. */
void nvme_parse_limits(struct nvme_namespace *ns, const uint8_t data[NVME_IDENTIFY_BYTES]);

/**
 * Take what identify says of a namespace (CNS 00h). Any bytes.
 *
 * @return NULL; else why it cannot be a drive and what to do
 */
base_must_check const char *nvme_parse_namespace(struct nvme_namespace *ns,
                                                 const uint8_t data[NVME_IDENTIFY_BYTES]);

/**
 * What the outcome of a command is to its caller.
 *
 * @param outcome  the kernel's: 0, a negative errno, or the status that the device gave
 * @return 0; -ENOSPC; -EOPNOTSUPP; -EACCES; -EIO
 */
int32_t nvme_error(int outcome);

/** Its text, for the log. Never NULL. */
const char *nvme_outcome_text(int outcome);

#define NVME_STATUS_TYPE(outcome) ((unsigned)(outcome) >> 8 & 7)
#define NVME_STATUS_CODE(outcome) ((unsigned)(outcome)&0xff)

/* ---- command.c: requests cut into commands ------------------------------------------------------ */

/* A command, for the ioctl; all but its result is also what io_uring takes. */
struct nvme_command {
    struct nvme_passthru_cmd64 words;
    bool vectored; /* words.addr are vectors, words.vec_cnt many */
};

/** Begin to cut a request: request->cut is set up. */
void nvme_cut_begin(struct drive_request *request);

/** Whether some of the request has not become a command. */
bool nvme_cut_left(const struct drive_request *request);

/**
 * The next command of a request that has some left. None changes the request's vectors, so all may be in
 * flight together; but of a discard only one, as it has room for one range.
 */
void nvme_cut_next(const struct nvme_namespace *ns, struct drive_request *request,
                   struct nvme_command *ret_command);

/* ---- node.c: paths ------------------------------------------------------------------------------- */

#define NVME_NAME_BYTES 64

/* The block device of the same namespace, which is what gets locked. */
struct nvme_sibling {
    char path[NVME_NAME_BYTES];
    struct drive_queue queue;
};

/** Whether a path leads to the character node of a namespace. */
bool nvme_is_node(const char *path);

/** The number of the block device of a namespace whose character node this is; 0: it is none. */
dev_t nvme_block_number(const struct stat *status);

/**
 * Find the block device of a namespace.
 *
 * @return 0 or negative errno, logged
 */
base_must_check int nvme_find_sibling(struct tarn_node *node, const char *path,
                                      struct nvme_sibling *ret_sibling);

/* ---- nvme.c: the provider ------------------------------------------------------------------------- */

enum nvme_way { NVME_BY_IOCTL, NVME_BY_RING, NVME_BY_POLLED_RING };

struct nvme_ring;

struct nvme_drive {
    struct tarn_node *node;
    int fd;   /* of the character node */
    int lock; /* of the block device, exclusive */
    enum nvme_way way;
    struct nvme_namespace ns;
    _Atomic uint32_t
        references; /* the drive's, and one of each ring's; the last one closes the descriptors */
    struct base_log_limit errors; /* of lines about failed commands */
    char quoted[DRIVE_QUOTED_BYTES];
    /* By index of the scheduler, whose thread sets and reads its own; all change under node->lock. */
    struct nvme_ring *rings[TASK_SCHEDS_MAX];
};

extern const struct drive_provider drive_provider_nvme;

/** Give back a reference. Any thread. */
void nvme_drive_put(struct nvme_drive *drive);

/** Do a request in the calling thread, command by command. */
void nvme_run_here(struct nvme_drive *drive, struct drive_request *request);

/** Note the outcome of a command of a request: the first failure is the request's, and has a line in the log.
 */
void nvme_note_outcome(struct nvme_drive *drive, struct drive_request *request, int outcome);

/* ---- ring.c: a scheduler's own io_uring ------------------------------------------------------------- */

/** Whether such rings work here. @return 0 or negative errno */
base_must_check int nvme_ring_probe(bool polled);

/** Post a task's request to its scheduler's ring, which is made at first; by ioctl where it cannot be made.
 */
void nvme_ring_post(struct nvme_drive *drive, struct drive_request *request);

/** Have every scheduler close its ring, some time after this returns. No request may be in flight. Any
 * thread. */
void nvme_rings_close(struct nvme_drive *drive);

#endif
