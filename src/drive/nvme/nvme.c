/*
 * The provider of NVMe namespaces: read, write, flush and dataset management as the device knows them,
 * without a block layer in between. A task's commands go through a ring of its scheduler's own (ring.c), a
 * plain thread's by ioctl in the call.
 */
#include "drive/nvme/nvme.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#define ERROR_LINES       8
#define ERROR_INTERVAL_NS (10 * BASE_NS_PER_SECOND)

enum {
    OPCODE_IDENTIFY = 0x06,
    IDENTIFY_NAMESPACE = 0x00,
    IDENTIFY_CONTROLLER = 0x01,
    IDENTIFY_LIMITS = 0x06,
    MEMORY_ALIGNMENT_BYTES = 4, /* alignment of the memory that a device addresses */
    SEGMENTS_MIN = 2,
};

/* ---- what the device is -------------------------------------------------------------------------- */

static int identify_device(int fd, uint32_t nsid, uint32_t what, uint8_t data[NVME_IDENTIFY_BYTES])
{
    struct nvme_admin_cmd command = {.opcode = OPCODE_IDENTIFY,
                                     .nsid = nsid,
                                     .addr = (uintptr_t)data,
                                     .data_len = NVME_IDENTIFY_BYTES,
                                     .cdw10 = what};
    memset(data, 0, NVME_IDENTIFY_BYTES);
    int outcome = ioctl(fd, NVME_IOCTL_ADMIN_CMD, &command);
    return outcome < 0 ? -errno : outcome;
}

static int refuse_identify(const struct drive_opening *opening, int outcome)
{
    if (outcome == -EACCES || outcome == -EPERM)
        return drive_refuse(
            opening->node, opening->path, -EACCES,
            "the kernel does not let this user send NVMe commands: before Linux 6.2 only root "
            "may (CAP_SYS_ADMIN)");
    return drive_refuse(opening->node, opening->path, outcome < 0 ? outcome : -EIO,
                        "the device does not say what it is");
}

/* Ask the namespace and its controller. @param data  room for an answer @return 0 or negative errno, logged
 */
static int ask_device(const struct drive_opening *opening, struct nvme_namespace *ns,
                      uint8_t data[NVME_IDENTIFY_BYTES])
{
    int nsid = ioctl(opening->fd, NVME_IOCTL_ID);
    if (nsid <= 0)
        return drive_refuse(opening->node, opening->path, nsid < 0 ? -errno : -ENOTSUP,
                            "the kernel does not say which namespace it is");
    ns->nsid = (uint32_t)nsid;
    int outcome = identify_device(opening->fd, 0, IDENTIFY_CONTROLLER, data);
    if (outcome != 0)
        return refuse_identify(opening, outcome);
    nvme_parse_controller(ns, data);
    outcome = identify_device(opening->fd, 0, IDENTIFY_LIMITS, data);
    if (outcome == 0) /* otherwise the controller has no such limits */
        nvme_parse_limits(ns, data);
    outcome = identify_device(opening->fd, ns->nsid, IDENTIFY_NAMESPACE, data);
    if (outcome != 0)
        return refuse_identify(opening, outcome);
    const char *reason = nvme_parse_namespace(ns, data);
    return reason == NULL ? 0 : drive_refuse(opening->node, opening->path, -ENOTSUP, reason);
}

/* The most bytes that the kernel takes in one command: it never cuts one. Memory may need a segment for each page. */
static uint64_t kernel_bytes_max(const struct drive_queue *queue)
{
    uint64_t kib = drive_queue_number(queue, "max_hw_sectors_kb", 128);
    uint64_t segments = base_max(drive_queue_number(queue, "max_segments", 32), (uint64_t)SEGMENTS_MIN);
    return base_min(base_min(kib, (uint64_t)DRIVE_REQUEST_BYTES_MAX >> 10) << 10,
                    (base_min(segments, (uint64_t)UINT16_MAX) - 1) * BASE_PAGE_BYTES);
}

/* The bytes of a namespace that are used. @param write_bytes  writes end at a multiple of it */
static uint64_t namespace_bytes(const struct nvme_namespace *ns, uint32_t write_bytes)
{
    return base_align_down(ns->block_count * ns->block_bytes, write_bytes);
}

static int check_namespace(struct drive_opening *opening, const struct drive_queue *queue,
                           struct nvme_namespace *ns)
{
    char zoned[32];
    if (drive_queue_text(queue, "zoned", zoned, sizeof(zoned)) && strcmp(zoned, "none") != 0)
        return drive_refuse(opening->node, opening->path, -ENOTSUP,
                            "it is a zoned namespace, which can only be written in order");
    ns->transfer_bytes_max =
        base_align_down(base_min(ns->transfer_bytes_max, kernel_bytes_max(queue)), ns->block_bytes);
    if (ns->transfer_bytes_max == 0)
        return drive_refuse(opening->node, opening->path, -ENOTSUP,
                            "the device does not take as much as a block in one command");
    opening->info = (struct drive_info){
        .provider = "nvme",
        .bytes = namespace_bytes(ns, ns->write_bytes),
        .logical_block_bytes = ns->block_bytes,
        .physical_block_bytes = ns->write_bytes,
        .memory_alignment_bytes = MEMORY_ALIGNMENT_BYTES,
        .direct = true,
        .device = true,
        .write_cache = ns->write_cache,
        .fua = true, /* every write command has the bit */
        .discard = ns->discard_blocks_max > 0 && !opening->options->read_only,
    };
    if (opening->info.bytes < DRIVE_BYTES_MIN)
        return drive_refuse(opening->node, opening->path, -EINVAL, "the namespace is below 64 KiB");
    return 0;
}

/* ---- opening and closing ------------------------------------------------------------------------- */

/*
 * Hold the block device of the namespace, which keeps out mounts, other volumes and other servers. Reads and
 * writes go through the character node, which has no locks.
 */
static int lock_sibling(const struct drive_opening *opening, const struct nvme_sibling *sibling, int *ret_fd)
{
    const struct drive_options options = {.read_only = true, .lock_wait_ns = opening->options->lock_wait_ns};
    struct drive_opening block = {
        .node = opening->node, .path = sibling->path, .options = &options, .fd = -1};
    int error = drive_file_acquire(&block);
    if (error != 0)
        return error;
    if (!block.info.device) { /* a file has taken its place meanwhile */
        drive_file_abandon(&block);
        return drive_refuse(opening->node, opening->path, -EBUSY, "its block device was replaced: try again");
    }
    *ret_fd = block.fd;
    return 0;
}

static int open_node(struct drive_opening *opening)
{
    int flags = (opening->options->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC;
    opening->fd = open(opening->path, flags);
    if (opening->fd < 0)
        return drive_refuse(opening->node, opening->path, -errno,
                            errno == EACCES || errno == EPERM
                                ? "its permissions do not allow it: check owner and mode of the node"
                                : "the kernel refuses to open it");
    return 0;
}

/*
 * Whether this kernel may be asked to poll. Before Linux 6.5 the address at which a command is polled and the
 * callback of a finished one share a word: polling reads the callback, and the kernel crashes. A flush causes
 * that, and so does every command that fails while another is in flight.
 */
static bool kernel_polls(void)
{
    struct utsname name;
    unsigned version = 0, level = 0;
    return uname(&name) == 0 && sscanf(name.release, "%u.%u", &version, &level) == 2 &&
           (version > 6 || (version == 6 && level >= 5));
}

/* Ask the namespace for its properties, and decide how commands travel. @return 0 or negative errno, logged */
static int describe_namespace(struct drive_opening *opening, const struct nvme_sibling *sibling,
                              struct nvme_drive *drive)
{
    uint8_t *data = base_alloc(&opening->node->memory, NVME_IDENTIFY_BYTES);
    if (data == NULL)
        return drive_refuse(opening->node, opening->path, -ENOMEM, "the memory cap is reached");
    int error = ask_device(opening, &drive->ns, data);
    base_free(&opening->node->memory, data, NVME_IDENTIFY_BYTES);
    if (error == 0)
        error = check_namespace(opening, &sibling->queue, &drive->ns);
    if (error != 0)
        return error;
    bool polled = drive_queue_number(&sibling->queue, "io_poll", 0) == 1;
    if (polled && !kernel_polls()) {
        drive_note(
            opening->node, BASE_LOG_INFO, opening->path, "interrupts are used",
            "Linux before 6.5 may crash when it polls for commands that fail; the queues that are polled "
            "stay idle");
        polled = false;
    }
    drive->way = polled ? NVME_BY_POLLED_RING : NVME_BY_RING;
    int ring_error = nvme_ring_probe(polled);
    if (ring_error != 0) {
        drive->way = NVME_BY_IOCTL;
        base_warn(&opening->node->log, "commands are sent one at a time",
                  "drive=%s error=\"%s\" reason=\"io_uring is not permitted or older than Linux 5.19: each "
                  "request holds its scheduler until it is done\"",
                  drive->quoted, strerrordesc_np(-ring_error));
    }
    return 0;
}

static void log_namespace(const struct nvme_drive *drive)
{
    static const char *const ways[] = {
        [NVME_BY_IOCTL] = "ioctl", [NVME_BY_RING] = "uring", [NVME_BY_POLLED_RING] = "uring, polled"};
    char model[4 * NVME_MODEL_BYTES], firmware[4 * NVME_FIRMWARE_BYTES];
    base_info(&drive->node->log, "nvme namespace",
              "drive=%s model=%s firmware=%s nsid=%" PRIu32 " transfer_max=%" PRIu64 " discard_max=%" PRIu64
              " commands=\"%s\"",
              drive->quoted, base_log_quote(model, sizeof(model), drive->ns.model, strlen(drive->ns.model)),
              base_log_quote(firmware, sizeof(firmware), drive->ns.firmware, strlen(drive->ns.firmware)),
              drive->ns.nsid, drive->ns.transfer_bytes_max,
              drive->ns.discard_blocks_max * drive->ns.block_bytes, ways[drive->way]);
}

/* Open the node of a locked namespace and read its properties. */
static int open_namespace(struct drive_opening *opening, const struct nvme_sibling *sibling,
                          struct nvme_drive *drive)
{
    int error = open_node(opening);
    if (error != 0)
        return error;
    error = describe_namespace(opening, sibling, drive);
    if (error != 0) {
        (void)close(opening->fd);
        return error;
    }
    drive->fd = opening->fd;
    log_namespace(drive);
    return 0;
}

static int nvme_open(struct tarn_node *node, void *provider_arg, const char *path,
                     const struct drive_options *options, struct drive_info *ret_info, void **ret_state)
{
    (void)provider_arg;
    struct drive_opening opening = {.node = node, .path = path, .options = options, .fd = -1};
    struct nvme_sibling sibling;
    int error = nvme_find_sibling(node, path, &sibling);
    if (error != 0)
        return error;
    if (options->provider != DRIVE_PROVIDER_AUTO && options->provider != DRIVE_PROVIDER_NVME)
        return drive_refuse(
            node, path, -ENOTSUP,
            "the character node of an NVMe namespace takes NVMe commands alone (nvme): name its "
            "block device, or leave the choice open");
    struct nvme_drive *drive = base_alloc(&node->memory, sizeof(*drive));
    if (drive == NULL)
        return drive_refuse(node, path, -ENOMEM, "the memory cap is reached");
    drive->node = node;
    atomic_init(&drive->references, 1);
    base_log_limit_init(&drive->errors, ERROR_LINES, ERROR_INTERVAL_NS);
    (void)base_log_quote(drive->quoted, sizeof(drive->quoted), path, strlen(path));
    error = lock_sibling(&opening, &sibling, &drive->lock);
    if (error == 0) {
        error = open_namespace(&opening, &sibling, drive);
        if (error != 0)
            (void)close(drive->lock);
    }
    if (error != 0) {
        base_free(&node->memory, drive, sizeof(*drive));
        return error;
    }
    *ret_info = opening.info;
    *ret_state = drive;
    return 0;
}

void nvme_drive_put(struct nvme_drive *drive)
{
    if (atomic_fetch_sub_explicit(&drive->references, 1, memory_order_acq_rel) > 1)
        return;
    (void)close(drive->fd);
    (void)close(drive->lock);
    base_free(&drive->node->memory, drive, sizeof(*drive));
}

static void nvme_close(void *state)
{
    nvme_rings_close(state);
    nvme_drive_put(state);
}

/* Ask the namespace for its size again. */
static int nvme_extend(void *state, uint64_t *inout_bytes)
{
    const struct nvme_drive *drive = state;
    struct nvme_namespace now = drive->ns;
    uint8_t *data = base_alloc(&drive->node->memory, NVME_IDENTIFY_BYTES);
    if (data == NULL)
        return -ENOMEM;
    const int outcome = identify_device(drive->fd, now.nsid, IDENTIFY_NAMESPACE, data);
    const bool parsed = outcome == 0 && nvme_parse_namespace(&now, data) == NULL;
    base_free(&drive->node->memory, data, NVME_IDENTIFY_BYTES);
    if (!parsed || now.block_bytes != drive->ns.block_bytes)
        return outcome < 0 ? outcome : -EIO;
    *inout_bytes = base_max(*inout_bytes, namespace_bytes(&now, drive->ns.write_bytes));
    return 0;
}

/* ---- requests -------------------------------------------------------------------------------------- */

void nvme_note_outcome(struct nvme_drive *drive, struct drive_request *request, int outcome)
{
    static const char *const ops[] = {[DRIVE_READ] = "read",
                                      [DRIVE_WRITE] = "write",
                                      [DRIVE_FLUSH] = "flush",
                                      [DRIVE_DISCARD] = "dataset management"};
    if (base_likely(outcome == 0) || request->cut.result != 0)
        return;
    request->cut.result = nvme_error(outcome);
    request->cut.left_bytes = 0; /* the rest is not tried */
    int status = base_max(outcome, 0);
    base_error_limited(&drive->node->log, &drive->errors, "nvme command failed",
                       "drive=%s op=\"%s%s\" lba=%" PRIu64 " blocks=%" PRIu64
                       " status_type=%u status_code=0x%02x error=\"%s\"",
                       drive->quoted, request->op == DRIVE_WRITE && request->durable ? "durable " : "",
                       ops[request->op], request->offset / drive->ns.block_bytes,
                       request->expected_bytes / drive->ns.block_bytes, NVME_STATUS_TYPE(status),
                       NVME_STATUS_CODE(status), nvme_outcome_text(outcome));
}

void nvme_run_here(struct nvme_drive *drive, struct drive_request *request)
{
    nvme_cut_begin(request);
    while (nvme_cut_left(request)) {
        struct nvme_command command;
        nvme_cut_next(&drive->ns, request, &command);
        int outcome = ioctl(drive->fd, command.vectored ? NVME_IOCTL_IO64_CMD_VEC : NVME_IOCTL_IO64_CMD,
                            &command.words);
        nvme_note_outcome(drive, request, outcome < 0 ? -errno : outcome);
    }
    drive_finish_now(request, request->cut.result);
}

static void nvme_post(void *state, struct drive_request *request)
{
    struct nvme_drive *drive = state;
    if (request->sched == NULL || drive->way == NVME_BY_IOCTL)
        nvme_run_here(drive, request);
    else
        nvme_ring_post(drive, request);
}

const struct drive_provider drive_provider_nvme = {
    .name = "nvme",
    .open = nvme_open,
    .close = nvme_close,
    .post = nvme_post,
    .extend = nvme_extend,
};
