/* All that drives have in common: opening, checks, the life of a request, and failure. Transfers are the providers'. */
#include "drive/nvme/nvme.h"
#include "drive/stripe.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* The most lines about failed requests in a while: a dying disk fails thousands. */
#define ERROR_LINES       8
#define ERROR_INTERVAL_NS (10 * BASE_NS_PER_SECOND)

static const char *op_name(const struct drive_request *request)
{
    switch (request->op) {
    case DRIVE_READ:
        return "read";
    case DRIVE_WRITE:
        return request->durable ? "durable write" : "write";
    case DRIVE_FLUSH:
        return "flush";
    case DRIVE_DISCARD:
        return "discard";
    }
    return "unknown";
}

static const char *error_text(int error)
{
    const char *text = strerrordesc_np(-error);
    return text == NULL ? "unknown error" : text;
}

int drive_refuse(struct tarn_node *node, const char *path, int error, const char *reason)
{
    char quoted[DRIVE_QUOTED_BYTES];
    base_error(&node->log, "cannot open drive", "drive=%s error=\"%s\" reason=\"%s\"",
               base_log_quote(quoted, sizeof(quoted), path, strlen(path)), error_text(error), reason);
    return error;
}

void drive_note(struct tarn_node *node, enum base_log_level level, const char *path, const char *event,
                const char *reason)
{
    char quoted[DRIVE_QUOTED_BYTES];
    BASE_LOG_AT(&node->log, level, event, "drive=%s reason=\"%s\"",
                base_log_quote(quoted, sizeof(quoted), path, strlen(path)), reason);
}

/* ---- opening and closing ----------------------------------------------------------------------- */

static void log_opened(const struct drive *drive)
{
    const struct drive_info *info = &drive->info;
    base_info(&drive->node->log, "drive open",
              "drive=%s provider=%s bytes=%" PRIu64 " logical_block=%" PRIu32 " physical_block=%" PRIu32
              " direct=%s write_cache=%s fua=%s discard=%s read_only=%s created=%s",
              drive->quoted, info->provider, info->bytes, info->logical_block_bytes,
              info->physical_block_bytes, info->direct ? "yes" : "no", info->write_cache ? "yes" : "no",
              info->fua ? "yes" : "no", info->discard ? "yes" : "no", drive->read_only ? "yes" : "no",
              info->created ? "yes" : "no");
}

static const struct drive_provider *choose_provider(const struct tarn_node *node, const char *path,
                                                    const struct drive_options *options)
{
    if (node->options.drives != NULL)
        return node->options.drives;
    return options->provider == DRIVE_PROVIDER_NVME || nvme_is_node(path) ? &drive_provider_nvme
                                                                          : &drive_provider_kernel;
}

int drive_open(struct tarn_node *node, const char *path, const struct drive_options *options,
               struct drive **ret_drive)
{
    size_t name_bytes = strlen(path) + 1;
    struct drive *drive = base_alloc(&node->memory, sizeof(*drive) + name_bytes);
    if (drive == NULL)
        return drive_refuse(node, path, -ENOMEM, "the memory cap is reached");
    drive->name_bytes = name_bytes;
    memcpy(drive->name, path, name_bytes);
    drive->node = node;
    drive->read_only = options->read_only;
    bool list = drive_path_is_list(path);
    if (list && options->grow_bytes > 0) {
        base_free(&node->memory, drive, sizeof(*drive) + name_bytes);
        return drive_refuse(
            node, path, -EINVAL,
            "a size is for a single file: make the files of a stripe longer yourself (fallocate "
            "-l SIZE FILE)");
    }
    if (!list)
        drive_path_unescape(drive->name);
    (void)base_log_quote(drive->quoted, sizeof(drive->quoted), drive->name, strlen(drive->name));
    drive->provider = list ? &drive_provider_stripe : choose_provider(node, drive->name, options);
    drive_flushes_init(&drive->flushes);
    base_log_limit_init(&drive->errors, ERROR_LINES, ERROR_INTERVAL_NS);
    int error = drive->provider->open(node, node->options.drives_arg, drive->name, options, &drive->info,
                                      &drive->state);
    if (error != 0) {
        base_free(&node->memory, drive, sizeof(*drive) + name_bytes);
        return error;
    }
    base_assert(base_is_power_of_two(drive->info.logical_block_bytes) &&
                base_is_power_of_two(drive->info.physical_block_bytes) &&
                base_is_power_of_two(drive->info.memory_alignment_bytes) &&
                drive->info.physical_block_bytes >= drive->info.logical_block_bytes &&
                base_is_aligned(drive->info.bytes, drive->info.physical_block_bytes));
    atomic_init(&drive->bytes, drive->info.bytes);
    log_opened(drive);
    *ret_drive = drive;
    return 0;
}

void drive_close(struct drive *drive)
{
    base_assert(drive->flushes.leader == NULL);
    drive->provider->close(drive->state);
    base_free(&drive->node->memory, drive, sizeof(*drive) + drive->name_bytes);
}

const struct drive_info *drive_info(const struct drive *drive)
{
    return &drive->info;
}

uint64_t drive_bytes(const struct drive *drive)
{
    /* acquire: pairs with the store in drive_extend(), before which the added space was reserved */
    return atomic_load_explicit(&drive->bytes, memory_order_acquire);
}

static const char *extend_reason(int error)
{
    switch (error) {
    case -EOPNOTSUPP:
        return "its size is not asked for while it is open: close it first";
    case -EROFS:
        return "it takes no writes";
    case -ENOSPC:
    case -EDQUOT:
        return "there is no room for what the file has become longer by: free some space, or make it shorter";
    default:
        return "the kernel refuses it";
    }
}

int drive_extend(struct drive *drive, uint64_t *ret_bytes)
{
    const uint64_t before = drive_bytes(drive);
    uint64_t bytes = before;
    int error = drive->read_only || drive_failed(drive) ? -EROFS
                : drive->provider->extend == NULL       ? -EOPNOTSUPP
                                                        : drive->provider->extend(drive->state, &bytes);
    if (error != 0) {
        base_error(&drive->node->log, "the drive does not become larger",
                   "drive=%s error=\"%s\" reason=\"%s\"", drive->quoted, error_text(error),
                   extend_reason(error));
        return error;
    }
    base_assert(bytes >= before && base_is_aligned(bytes, drive->info.physical_block_bytes));
    if (bytes > before)
        base_info(&drive->node->log, "drive larger", "drive=%s before=%" PRIu64 " bytes=%" PRIu64,
                  drive->quoted, before, bytes);
    atomic_store_explicit(&drive->bytes, bytes, memory_order_release);
    *ret_bytes = bytes;
    return 0;
}

const char *drive_name(const struct drive *drive)
{
    return drive->quoted;
}

const char *drive_path(const struct drive *drive)
{
    return drive->name;
}

bool drive_failed(const struct drive *drive)
{
    return atomic_load_explicit(&drive->failed, memory_order_acquire);
}

uint64_t drive_failures(const struct drive *drive)
{
    return atomic_load_explicit(&drive->failures, memory_order_relaxed);
}

uint64_t drive_moved_bytes(const struct drive *drive, enum drive_op op)
{
    base_assert(op == DRIVE_READ || op == DRIVE_WRITE);
    return base_counter_sum(&drive->moved_bytes[op]);
}

uint64_t drive_zeroed_bytes(const struct drive *drive)
{
    return drive->provider->zeroed_bytes == NULL ? drive->info.bytes
                                                 : drive->provider->zeroed_bytes(drive->state);
}

/* ---- requests that are put aside --------------------------------------------------------------- */

static void run_resume(struct task_message *message)
{
    struct drive_request *request = base_container_of(message, struct drive_request, message);
    request->resume(request);
}

static void resume_on_sched(struct drive_request *request)
{
    request->message.run = run_resume;
    /* a scheduler does not end while one of its tasks waits or one of its requests is in flight */
    base_assert(task_sched_post(request->sched, &request->message));
}

void drive_put_aside(struct drive_request *request, struct task_wait *wait,
                     void (*resume)(struct drive_request *))
{
    request->resume = resume;
    if (request->sched == NULL) {
        task_wait_init(wait);
        request->waiter = wait;
    }
}

void drive_stay(struct drive_request *request)
{
    if (request->sched != NULL)
        return;
    (void)task_wait_park_firmly(request->waiter);
    request->waiter = NULL;
    request->resume(request);
}

void drive_resume(struct drive_request *request)
{
    if (request->sched == NULL)
        (void)task_wait_wake(request->waiter, 0);
    else
        resume_on_sched(request);
}

/* ---- outcomes ---------------------------------------------------------------------------------- */

void drive_deliver(struct drive_request *request)
{
    request->finished = true;
    if (request->done != NULL)
        request->done(request);
    else if (request->sched != NULL && request->waiter != NULL)
        (void)task_wait_wake(request->waiter, 0);
}

/* Deliver a result from inside drive_post(): a task's `done` is not called before that has returned. */
static void deliver_now(struct drive_request *request)
{
    if (request->sched != NULL && request->done != NULL) {
        request->resume = drive_deliver;
        resume_on_sched(request);
    } else {
        drive_deliver(request);
    }
}

/* Whether the request's success promises that data are on the medium. */
static bool promises_durability(const struct drive_request *request)
{
    return request->op == DRIVE_FLUSH || (request->op == DRIVE_WRITE && request->durable);
}

static void log_failed_request(struct drive *drive, const struct drive_request *request, int32_t result)
{
    base_error_limited(&drive->node->log, &drive->errors, "drive request failed",
                       "drive=%s op=\"%s\" offset=%" PRIu64 " bytes=%" PRIu64 " error=\"%s\"", drive->quoted,
                       op_name(request), request->offset, request->expected_bytes, error_text(result));
}

/* Let the drive take no more writes; the first failure is logged. */
static void fail_drive(struct drive *drive, const struct drive_request *request, int32_t result)
{
    if (atomic_exchange_explicit(&drive->failed, true, memory_order_acq_rel))
        return;
    base_error(
        &drive->node->log, "drive failed",
        "drive=%s op=\"%s\" error=\"%s\" reason=\"what was written since the last good flush may be lost; it "
        "takes no more writes: replace it, or restart to recover what it holds\"",
        drive->quoted, op_name(request), error_text(result));
}

/* Apply a provider's result to the drive's state, and store the result that the caller gets. */
static void settle_request(struct drive_request *request, int32_t result)
{
    struct drive *drive = request->drive;
    bool promises = promises_durability(request);
    if (result < 0)
        atomic_fetch_add_explicit(&drive->failures, 1, memory_order_relaxed);
    if (promises && result < 0)
        fail_drive(drive, request, result);
    else if (result < 0)
        log_failed_request(drive, request, result);
    else if (promises && drive_failed(drive))
        result = -EROFS; /* it was in flight when another one failed: its success cannot be trusted */
    else if (request->op <= DRIVE_WRITE)
        base_counter_add(&drive->moved_bytes[request->op], request->expected_bytes);
    request->result = result;
    if (request->op == DRIVE_FLUSH)
        drive_flush_finish(drive, result);
}

void drive_finish(struct drive_request *request, int32_t result)
{
    settle_request(request, result);
    drive_deliver(request);
}

void drive_finish_now(struct drive_request *request, int32_t result)
{
    settle_request(request, result);
    deliver_now(request);
}

/* ---- posting and waiting ----------------------------------------------------------------------- */

/* Sum and check the vectors of a transfer. @return bytes; 0 if a length or an alignment is not allowed */
static uint64_t check_vectors(const struct drive_info *info, const struct drive_request *request)
{
    uint64_t bytes = 0;
    uint64_t address_mask = 0;
    uint64_t length_mask = 0;
    if (request->iov_count == 0 || request->iov_count > TASK_IOV_MAX)
        return 0;
    for (uint32_t i = 0; i < request->iov_count; i++) {
        const struct iovec *vector = &request->iov[i];
        if (vector->iov_len > DRIVE_REQUEST_BYTES_MAX - bytes)
            return 0;
        bytes += vector->iov_len;
        address_mask |= (uintptr_t)vector->iov_base;
        length_mask |= vector->iov_len;
    }
    bool aligned =
        !info->direct || (base_is_aligned(request->offset | length_mask, info->logical_block_bytes) &&
                          base_is_aligned(address_mask, info->memory_alignment_bytes));
    return aligned ? bytes : 0;
}

/* Whether a range consists of whole blocks of the drive, one or more. */
static bool is_range(const struct drive_info *info, uint64_t all, uint64_t offset, uint64_t bytes)
{
    return bytes > 0 && base_is_aligned(offset | bytes, info->logical_block_bytes) && offset <= all &&
           bytes <= all - offset;
}

/* Check a request. Offsets and lengths may come from a file, so nothing is asserted. */
static int check_request(struct drive *drive, struct drive_request *request)
{
    const struct drive_info *info = &drive->info;
    const uint64_t all = drive_bytes(drive);
    request->expected_bytes = 0;
    switch (request->op) {
    case DRIVE_READ:
    case DRIVE_WRITE:
        request->expected_bytes = check_vectors(info, request);
        if (request->expected_bytes == 0 || request->offset > all ||
            request->expected_bytes > all - request->offset)
            return -EINVAL;
        break;
    case DRIVE_FLUSH:
        if (request->iov_count != 0)
            return -EINVAL;
        break;
    case DRIVE_DISCARD:
        request->expected_bytes = request->discard_bytes;
        if (request->iov_count != 0 || !is_range(info, all, request->offset, request->discard_bytes))
            return -EINVAL;
        if (!info->discard)
            return -EOPNOTSUPP;
        break;
    default:
        return -EINVAL;
    }
    if (request->op != DRIVE_READ && (drive->read_only || drive_failed(drive)))
        return -EROFS;
    return 0;
}

void drive_post(struct drive *drive, struct drive_request *request)
{
    request->drive = drive;
    request->finished = false;
    request->waiter = NULL;
    request->sched = task_is_thread() ? NULL : task_sched_self();
    request->result = check_request(drive, request);
    if (base_unlikely(request->result != 0))
        deliver_now(request);
    else if (request->op == DRIVE_FLUSH)
        drive_flush_post(drive, request);
    else
        drive->provider->post(drive->state, request);
}

int drive_wait(struct drive_request *request, uint64_t deadline_ns)
{
    struct task_wait wait;
    while (
        !request
             ->finished) { /* only a task gets here: a plain thread's request is finished when it was posted */
        task_wait_init(&wait);
        request->waiter = &wait;
        int ended =
            deadline_ns == TASK_FOREVER ? task_wait_park_firmly(&wait) : task_wait_park(&wait, deadline_ns);
        request->waiter = NULL;
        if (ended == -ETIMEDOUT && !request->finished)
            return -ETIMEDOUT;
        deadline_ns = TASK_FOREVER; /* cancelled, but the drive still uses the memory */
    }
    return request->result;
}

/* ---- in one call ------------------------------------------------------------------------------- */

static int post_and_wait(struct drive *drive, struct drive_request *request)
{
    drive_post(drive, request);
    return drive_wait(request, TASK_FOREVER);
}

int drive_read(struct drive *drive, uint64_t offset, void *data, size_t bytes)
{
    struct iovec vector = {.iov_base = data, .iov_len = bytes};
    struct drive_request request = {
        .op = DRIVE_READ, .offset = offset, .iov = &vector, .iov_count = 1, .region = -1};
    return post_and_wait(drive, &request);
}

int drive_write(struct drive *drive, uint64_t offset, const void *data, size_t bytes, bool durable)
{
    struct iovec vector = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes}; /* an iovec has no const */
    struct drive_request request = {.op = DRIVE_WRITE,
                                    .durable = durable,
                                    .offset = offset,
                                    .iov = &vector,
                                    .iov_count = 1,
                                    .region = -1};
    return post_and_wait(drive, &request);
}

int drive_flush(struct drive *drive)
{
    struct drive_request request = {.op = DRIVE_FLUSH, .region = -1};
    return post_and_wait(drive, &request);
}

int drive_discard(struct drive *drive, uint64_t offset, uint64_t bytes)
{
    struct drive_request request = {
        .op = DRIVE_DISCARD, .offset = offset, .discard_bytes = bytes, .region = -1};
    return post_and_wait(drive, &request);
}

/*
 * Do one request over the next buffers of a list: it writes their content, or reads into all of their room.
 *
 * @param inout_buffer  the first buffer; on return the one after the last
 * @param ret_bytes     number of bytes moved
 */
static int move_buffers(struct drive *drive, struct drive_request *request, struct base_buffer **inout_buffer,
                        uint64_t *ret_bytes)
{
    struct iovec vectors[TASK_IOV_MAX];
    struct base_buffer *buffer = *inout_buffer;
    request->iov = vectors;
    request->iov_count = 0;
    request->region = buffer == NULL ? -1 : buffer->region;
    for (; buffer != NULL && request->iov_count < TASK_IOV_MAX; buffer = buffer->next) {
        bool reads = request->op == DRIVE_READ;
        vectors[request->iov_count].iov_base = buffer->data + (reads ? buffer->end : buffer->begin);
        vectors[request->iov_count].iov_len = reads ? base_buffer_room(buffer) : base_buffer_bytes(buffer);
        request->iov_count++;
        if (buffer->region != request->region)
            request->region = -1;
    }
    int error = post_and_wait(drive, request);
    request->iov = NULL; /* the vectors' memory ends with this frame */
    if (error != 0)
        return error;
    *ret_bytes = request->expected_bytes;
    *inout_buffer = buffer;
    return 0;
}

static int move_list(struct drive *drive, struct drive_request *request, const struct base_buffer_list *list)
{
    struct base_buffer *buffer = list->head;
    do {
        uint64_t bytes;
        int error = move_buffers(drive, request, &buffer, &bytes);
        if (error != 0)
            return error;
        request->offset += bytes;
    } while (buffer != NULL);
    return 0;
}

int drive_read_list(struct drive *drive, uint64_t offset, struct base_buffer_list *list)
{
    struct drive_request request = {.op = DRIVE_READ, .offset = offset};
    int error = move_list(drive, &request, list);
    if (error != 0)
        return error;
    for (struct base_buffer *buffer = list->head; buffer != NULL; buffer = buffer->next) {
        list->bytes += base_buffer_room(buffer);
        buffer->end = buffer->capacity;
    }
    return 0;
}

int drive_write_list(struct drive *drive, uint64_t offset, const struct base_buffer_list *list, bool durable)
{
    struct drive_request request = {.op = DRIVE_WRITE, .durable = durable, .offset = offset};
    return move_list(drive, &request, list);
}
