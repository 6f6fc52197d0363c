/* Load on a drive: its tasks, and the file that is loaded. */
#include "lab/drive_load.h"
#include "lab/usage.h"

#include "bench/world.h"
#include <errno.h>
#include <inttypes.h>

enum { SPARE_TASKS = 16, SPARE_BUFFERS = 64 };

/* One measurement under way. */
struct drive_load {
    struct lab_drive_job *job;
    struct bench_sample *sample;
    struct drive *drive;
    struct base_buffer_pool *buffers;
    struct base_random random;
    struct bench_schedule schedule; /* of an open loop */
    uint64_t next;   /* number of the next request: sequential place, or place in the schedule */
    uint64_t blocks; /* of the file */
    uint64_t end_ns;
    uint64_t operations;
    int error; /* the first */
};

const char *lab_drive_op_name(enum lab_drive_op op)
{
    static const char *const names[] = {[LAB_DRIVE_RANDREAD] = "randread",
                                        [LAB_DRIVE_RANDWRITE] = "randwrite",
                                        [LAB_DRIVE_READ] = "read",
                                        [LAB_DRIVE_WRITE] = "write"};
    return names[op];
}

bool lab_drive_op_writes(enum lab_drive_op op)
{
    return op == LAB_DRIVE_RANDWRITE || op == LAB_DRIVE_WRITE;
}

/* One request in the blocking style, from the scheduler's registered memory. */
static int transfer(struct drive_load *load, struct base_buffer *buffer, uint64_t number)
{
    enum lab_drive_op op = load->job->op;
    bool sequential = op == LAB_DRIVE_READ || op == LAB_DRIVE_WRITE;
    uint64_t block = sequential ? number % load->blocks : base_random_below(&load->random, load->blocks);
    struct iovec vector = {.iov_base = buffer->data, .iov_len = load->job->block_bytes};
    struct drive_request request = {.op = lab_drive_op_writes(op) ? DRIVE_WRITE : DRIVE_READ,
                                    .offset = block * load->job->block_bytes,
                                    .iov = &vector,
                                    .iov_count = 1,
                                    .region = buffer->region};
    drive_post(load->drive, &request);
    return drive_wait(&request, TASK_FOREVER);
}

/* Each request begins when the one before has ended, so that one look at the clock tells both. */
static void work_closed(struct drive_load *load, struct base_buffer *buffer)
{
    uint64_t begin_ns = task_now();
    while (begin_ns < load->end_ns && load->error == 0) {
        int error = transfer(load, buffer, load->next++);
        uint64_t now_ns = task_now();
        if (error != 0)
            load->error = error;
        base_histogram_add(load->sample->latency, now_ns - begin_ns);
        load->operations++;
        begin_ns = now_ns;
    }
}

/* Each request has its moment; one that finds no task free begins late, and its latency counts that. */
static void work_open(struct drive_load *load, struct base_buffer *buffer)
{
    for (;;) {
        uint64_t number = load->next++;
        uint64_t when_ns = bench_schedule_at(&load->schedule, number);
        if (when_ns >= load->end_ns || load->error != 0)
            return;
        if (task_now() < when_ns)
            (void)task_sleep_until(when_ns);
        int error = transfer(load, buffer, number);
        uint64_t now_ns = task_now();
        if (error != 0)
            load->error = error;
        base_histogram_add(load->sample->latency, now_ns - when_ns);
        load->operations += now_ns < load->end_ns;
    }
}

static void worker(void *arg)
{
    struct drive_load *load = arg;
    struct base_buffer *buffer = base_buffer_get(load->buffers);
    if (buffer == NULL) {
        load->error = -ENOBUFS;
        return;
    }
    base_random_fill(&load->random, buffer->data, load->job->block_bytes);
    if (load->job->rate == 0)
        work_closed(load, buffer);
    else
        work_open(load, buffer);
    base_buffer_put(buffer);
}

static int run_workers(struct drive_load *load)
{
    const struct bench_options *options = &load->job->bench->options;
    struct task_group group;
    task_group_init(&group);
    uint64_t thread_ns = lab_thread_ns();
    uint64_t begin_ns = task_now();
    load->schedule = (struct bench_schedule){.start_ns = begin_ns, .rate = load->job->rate};
    load->end_ns = begin_ns + options->duration_ns;
    int error = 0;
    for (uint32_t i = 0; i < load->job->depth && error == 0; i++)
        error = task_spawn(NULL, &group, "worker", worker, load);
    if (error != 0)
        load->error = error;
    error = task_group_join(&group, TASK_FOREVER);
    base_assert(error == 0); /* nobody cancels */
    load->sample->operations = load->operations;
    if (load->operations > 0)
        load->sample->values[0] = (double)(lab_thread_ns() - thread_ns) / (double)load->operations;
    load->sample->elapsed_ns = load->job->rate == 0 ? task_now() - begin_ns : options->duration_ns;
    return load->error;
}

static void drive_main(void *arg)
{
    struct bench_world *world = arg;
    struct drive_load *load = world->arg;
    struct lab_drive_job *job = load->job;
    const struct drive_options options = {
        .direct = job->direct_choice, .provider = job->provider, .read_only = !lab_drive_op_writes(job->op)};
    world->error = drive_open(world->node, job->path, &options, &load->drive);
    if (world->error != 0)
        return;
    const struct drive_info *info = drive_info(load->drive);
    job->opened = true;
    job->direct = info->direct;
    job->bytes = info->bytes;
    load->blocks = info->bytes / job->block_bytes;
    load->buffers = task_sched_buffers(task_sched_self());
    base_random_init(&load->random, task_rng(world->node));
    world->error = load->blocks == 0 ? -EINVAL : run_workers(load);
    drive_close(load->drive);
}

int lab_drive_measure(void *arg, struct bench_sample *sample)
{
    struct drive_load load = {.job = arg, .sample = sample};
    struct lab_drive_job *job = load.job;
    struct bench_world_options options = {
        .engine = job->provider == DRIVE_PROVIDER_URING ? TASK_ENGINE_URING
                  : job->provider == DRIVE_PROVIDER_AIO ? TASK_ENGINE_AIO
                                                        : TASK_ENGINE_AUTO,
        .sched = {.tasks_max = job->depth + SPARE_TASKS,
                  .spin_ns = job->spin_ns,
                  .buffers_count = 4 * job->depth + SPARE_BUFFERS, /* the engine takes a share */
                  .buffer_bytes = (uint32_t)base_align_up(job->block_bytes, BASE_PAGE_BYTES)},
    };
    int error = bench_world_run(job->bench, &options, drive_main, &load);
    if (error != -ENOTSUP)
        return error;
    sample->skipped = "the kernel does not offer this provider here";
    return 0;
}
