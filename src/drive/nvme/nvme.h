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

#define NVME_IDENTIFY_BYTES 4096 /* size of each data structure that identify returns */
#define NVME_MODEL_BYTES    40
#define NVME_FIRMWARE_BYTES 8

/* The properties of a namespace and its controller, checked. */
struct nvme_namespace {
    uint32_t nsid;
    uint32_t block_bytes; /* block size of the format in use */
    uint32_t write_bytes; /* multiple at which writes should end: block_bytes or a larger power of two */
    uint64_t block_count;
    uint64_t
        transfer_bytes_max; /* the most bytes of a command: the controller's limit, later the smaller of that and the kernel's */
    uint64_t discard_blocks_max; /* the most blocks of a discard; 0: the device has no dataset management */
    bool write_cache;
    char model[NVME_MODEL_BYTES + 1]; /* the device's text: any bytes but NUL, without spaces at the end */
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
 * @return NULL; else a sentence that says why it cannot be a drive and what the user can do
 */
base_must_check const char *nvme_parse_namespace(struct nvme_namespace *ns,
                                                 const uint8_t data[NVME_IDENTIFY_BYTES]);

/**
 * Translate the outcome of a command for its caller.
 *
 * @param outcome  the kernel's answer: 0, a negative errno, or the device's status
 * @return 0; -ENOSPC; -EOPNOTSUPP; -EACCES; -EIO
 */
int32_t nvme_error(int outcome);

/** The text of an outcome, for the log. Never NULL. */
const char *nvme_outcome_text(int outcome);

#define NVME_STATUS_TYPE(outcome) ((unsigned)(outcome) >> 8 & 7)
#define NVME_STATUS_CODE(outcome) ((unsigned)(outcome)&0xff)

/* ---- command.c: requests cut into commands ------------------------------------------------------ */

/* A command in the ioctl's form; io_uring takes all of it but the result. */
struct nvme_command {
    struct nvme_passthru_cmd64 words;
    bool vectored; /* words.addr points to words.vec_cnt vectors */
};

/** Begin to cut a request: request->cut is set up. */
void nvme_cut_begin(struct drive_request *request);

/** Whether a part of the request has not yet become a command. */
bool nvme_cut_left(const struct drive_request *request);

/**
 * Make the next command of a request that is not cut to its end. Commands do not change the request's vectors, so all
 * may be in flight together; but only one command of a discard, because the request has room for one range.
 */
void nvme_cut_next(const struct nvme_namespace *ns, struct drive_request *request,
                   struct nvme_command *ret_command);

/* ---- node.c: paths ------------------------------------------------------------------------------- */

#define NVME_NAME_BYTES 64

/* The block device of the same namespace, which is the one that is locked. */
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
    int fd;   /* descriptor of the character node */
    int lock; /* descriptor of the block device, held exclusively */
    enum nvme_way way;
    struct nvme_namespace ns;
    _Atomic uint32_t
        references; /* one for the drive and one for each ring; the last one closes the descriptors */
    struct base_log_limit errors; /* limits the lines about failed commands */
    char quoted[DRIVE_QUOTED_BYTES];
    /* The ring of each scheduler, by the scheduler's index. Its thread sets and reads its own; changes need node->lock. */
    struct nvme_ring *rings[TASK_SCHEDS_MAX];
};

extern const struct drive_provider drive_provider_nvme;

/** Give back a reference. Any thread. */
void nvme_drive_put(struct nvme_drive *drive);

/** Do a request in the calling thread, command by command. */
void nvme_run_here(struct nvme_drive *drive, struct drive_request *request);

/** Note the outcome of one of a request's commands: the first failure becomes the request's result, and is logged. */
void nvme_note_outcome(struct nvme_drive *drive, struct drive_request *request, int outcome);

/* ---- ring.c: a scheduler's own io_uring ------------------------------------------------------------- */

/** Try whether rings for NVMe commands work on this machine. @return 0 or negative errno */
base_must_check int nvme_ring_probe(bool polled);

/** Post a task's request to its scheduler's ring, which the first request makes; do it by ioctl if there is no ring. */
void nvme_ring_post(struct nvme_drive *drive, struct drive_request *request);

/** Have every scheduler close its ring, some time after this call has returned. No request may be in flight. Any
 * thread. */
void nvme_rings_close(struct nvme_drive *drive);

#endif
