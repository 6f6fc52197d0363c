/* Load on a drive: its tasks, and the file that is loaded. */
#include "lab/drive_load.h"
#include "lab/usage.h"

#include "bench/world.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

enum { SPARE_TASKS = 16, SPARE_BUFFERS = 64, PIECE_BYTES = 1 << 20, FILE_MODE = 0600 };

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

/*
 * In a closed loop each request begins when the one before has ended, so that one look at the clock tells both. In an
 * open loop each has its moment; one that finds no task free begins late, and its latency counts that.
 */
static void send_requests(struct drive_load *load, struct base_buffer *buffer)
{
    const bool is_open = load->job->rate > 0;
    uint64_t now_ns = task_now();
    while (load->error == 0) {
        uint64_t number = load->next++;
        uint64_t begin_ns = is_open ? bench_schedule_at(&load->schedule, number) : now_ns;
        if (begin_ns >= load->end_ns)
            return;
        if (is_open && now_ns < begin_ns)
            (void)task_sleep_until(begin_ns);
        int error = transfer(load, buffer, number);
        now_ns = task_now();
        if (error != 0)
            load->error = error;
        base_histogram_add(load->sample->latency, now_ns - begin_ns);
        load->operations += !is_open || now_ns < load->end_ns;
    }
}

static void run_requests(void *arg)
{
    struct drive_load *load = arg;
    struct base_buffer *buffer = base_buffer_get(load->buffers);
    if (buffer == NULL) {
        load->error = -ENOBUFS;
        return;
    }
    base_random_fill(&load->random, buffer->data, load->job->block_bytes);
    send_requests(load, buffer);
    base_buffer_put(buffer);
}

static int run_workers(struct drive_load *load)
{
    const struct bench_options *options = &load->job->bench->options;
    uint64_t thread_ns = lab_thread_ns();
    uint64_t begin_ns = task_now();
    load->schedule = (struct bench_schedule){.start_ns = begin_ns, .rate = load->job->rate};
    load->end_ns = begin_ns + options->duration_ns;
    int error = bench_tasks_run(load->job->depth, run_requests, load);
    load->error = load->error != 0 ? load->error : error;
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

/* ---- the file ----------------------------------------------------------------------------------- */

static int write_all(int fd, const uint8_t *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(fd, data, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? -errno : -EIO;
        data += written;
        bytes -= (size_t)written;
    }
    return 0;
}

/* Random bytes from its beginning to its end, on the medium and not in the page cache. */
static int fill_file(struct bench *bench, int fd, const char *path, uint64_t bytes)
{
    struct base_random random;
    struct base_progress progress;
    uint8_t *piece = base_alloc(bench->account, PIECE_BYTES);
    int error = piece == NULL ? -ENOMEM : 0;
    base_random_init(&random, bench->options.seed);
    bench_progress_init(bench, &progress, path, NULL, bytes);
    uint64_t done = 0;
    while (error == 0 && done < bytes) {
        size_t now = (size_t)base_min(bytes - done, (uint64_t)PIECE_BYTES);
        base_random_fill(&random, piece, now);
        error = write_all(fd, piece, now);
        done += now;
        base_progress_update(&progress, done);
    }
    base_progress_end(&progress);
    base_free(bench->account, piece, PIECE_BYTES);
    if (error == 0 && fsync(fd) != 0)
        error = -errno;
    if (error == 0)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return error;
}

int lab_drive_file_open(struct bench *bench, const char *path, uint64_t bytes,
                        struct lab_drive_file *ret_file)
{
    struct lab_drive_file file = {.path = path};
    struct statfs system;
    int error = 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (fd >= 0) {
        file.created = true;
        error = fill_file(bench, fd, path, bytes);
        (void)close(fd);
    } else if (errno != EEXIST) {
        error = -errno;
    }
    if (error == 0 && statfs(path, &system) != 0)
        error = -errno;
    if (error != 0) {
        lab_drive_file_close(&file);
        return bench_fail(bench, error, "%s", path);
    }
    file.memory = system.f_type == TMPFS_MAGIC;
    *ret_file = file;
    return 0;
}

void lab_drive_file_close(struct lab_drive_file *file)
{
    if (file->created)
        (void)unlink(file->path);
    file->created = false;
}
