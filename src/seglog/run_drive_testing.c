/*
 * For the tests of the running side: a drive in memory that keeps a history of its requests, holds writes
 * back until it is told to let them go, and knows what a power cut would leave.
 */
#include "seglog/run_drive_testing.h"

static int run_drive_open(struct tarn_node *node, void *arg, const char *path,
                          const struct drive_options *options, struct drive_info *ret_info, void **ret_state)
{
    struct run_drive *drive = arg;
    int error = testing_drive_open(node, &drive->base, path, options, ret_info, ret_state);
    ret_info->write_cache = true;
    ret_info->fua = drive->fua;
    *ret_state = drive;
    return error;
}

static void run_drive_note(struct run_drive *drive, const struct drive_request *request, uint64_t bytes)
{
    base_spin_lock(&drive->lock);
    if (request->op != DRIVE_READ && drive->event_count < RUN_EVENTS_MAX)
        drive->events[drive->event_count++] = (struct run_event){
            .op = request->op, .durable = request->durable, .offset = request->offset, .bytes = bytes};
    base_spin_unlock(&drive->lock);
}

/* Wait at a gate, if writes are held. */
static void run_drive_hold(struct run_drive *drive)
{
    struct task_semaphore *gate = NULL;
    base_spin_lock(&drive->lock);
    if (drive->held > 0) {
        drive->held--;
        gate = &drive->gates[drive->arrived++];
    }
    base_spin_unlock(&drive->lock);
    if (gate != NULL)
        assert_int_equal(task_semaphore_wait(gate, TASK_FOREVER), 0);
}

static void run_drive_post(void *state, struct drive_request *request)
{
    struct run_drive *drive = state;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < request->iov_count; i++)
        bytes += request->iov[i].iov_len;
    if (request->op == DRIVE_WRITE)
        run_drive_hold(drive);
    run_drive_note(drive, request, bytes);
    uint64_t offset = request->offset;
    bool durable = request->durable;
    enum drive_op op = request->op;
    testing_drive_post(&drive->base, request);
    if (drive->stable == NULL || request->result != 0)
        return;
    if (op == DRIVE_FLUSH)
        memcpy(drive->stable, drive->base.bytes, drive->base.size);
    else if (op == DRIVE_WRITE && durable)
        memcpy(drive->stable + offset, drive->base.bytes + offset, bytes);
}

void run_keep_stable(struct run_drive *drive)
{
    drive->stable = malloc(drive->base.size);
    assert_non_null(drive->stable);
    memcpy(drive->stable, drive->base.bytes, drive->base.size);
}

static int run_drive_extend(void *state, uint64_t *inout_bytes)
{
    struct run_drive *drive = state;
    return testing_drive_extend(&drive->base, inout_bytes);
}

const struct drive_provider run_provider = {.name = "run",
                                            .open = run_drive_open,
                                            .close = testing_drive_close,
                                            .post = run_drive_post,
                                            .extend = run_drive_extend};

void run_hold(struct run_drive *drive, uint32_t count)
{
    base_spin_lock(&drive->lock);
    drive->held = count;
    drive->arrived = 0;
    for (uint32_t i = 0; i < RUN_GATES; i++)
        task_semaphore_init(&drive->gates[i], 0);
    base_spin_unlock(&drive->lock);
}

void run_let_go(struct run_drive *drive, uint32_t gate)
{
    task_semaphore_post(&drive->gates[gate]);
}

uint32_t run_arrived(struct run_drive *drive)
{
    base_spin_lock(&drive->lock);
    uint32_t arrived = drive->arrived;
    base_spin_unlock(&drive->lock);
    return arrived;
}

void run_wait_for_arrivals(struct run_drive *drive, uint32_t count)
{
    while (run_arrived(drive) < count)
        task_yield();
}
