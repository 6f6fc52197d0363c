/* fio: writing its job, running it, and reading its result. */
#include "lab/fio.h"

#include "lab/command.h"
#include <errno.h>
#include <inttypes.h>

enum { OUTPUT_BYTES = 4 << 20, MS_MIN = 10 };

#define PATIENCE_NS (60 * BASE_NS_PER_SECOND) /* beyond the time that it is to run */

int lab_fio_check(struct bench *bench, bool is_wanted, uint64_t duration_ns)
{
    if (!is_wanted || duration_ns >= MS_MIN * BASE_NS_PER_MS)
        return 0;
    return bench_fail(bench, 0, "--duration below %d ms is too short for fio: give --no-fio", MS_MIN);
}

/* fio takes colons for the ends of names. */
static void add_path(struct lab_command *command, const char *path)
{
    char escaped[LAB_COMMAND_TEXT_ROOM / 2];
    size_t used = 0;
    for (; *path != '\0' && used + 2 < sizeof(escaped); path++) {
        if (*path == ':' || *path == '\\')
            escaped[used++] = '\\';
        escaped[used++] = *path;
    }
    escaped[used] = '\0';
    command->full = command->full || *path != '\0';
    lab_command_add(command, "--filename=%s", escaped);
}

const char *lab_fio_engine(enum drive_provider_choice provider)
{
    switch (provider) {
    case DRIVE_PROVIDER_URING:
        return "io_uring";
    case DRIVE_PROVIDER_AIO:
        return "libaio";
    default:
        return "psync";
    }
}

/*
 * The same job as Tarn's: one process, its batching left as it comes, random blocks drawn without a map of
 * what was drawn before. One latency is kept for a request, as here, not three.
 */
static int build_command(struct lab_command *command, const struct lab_drive_job *job)
{
    static const char *const always[] = {
        "--time_based",
        "--numjobs=1",
        "--allow_file_create=0",
        "--overwrite=1",
        "--fallocate=none",
        "--thread", /* a process of its own would be in a session of its own, scheduled as such */
        "--invalidate=0",
        "--norandommap",
        "--randrepeat=0",
        "--disable_slat=1",
        "--disable_clat=1",
        "--lat_percentiles=1",
        "--clat_percentiles=0",
        "--eta=never",
        "--output-format=json+"};
    *command = (struct lab_command){0};
    lab_command_add(command, "fio");
    lab_command_add(command, "--name=bench");
    add_path(command, job->path);
    lab_command_add(command, "--ioengine=%s", lab_fio_engine(job->provider));
    lab_command_add(command, "--rw=%s", lab_drive_op_name(job->op));
    lab_command_add(command, "--bs=%" PRIu32, job->block_bytes);
    lab_command_add(command, "--iodepth=%" PRIu32, job->depth);
    lab_command_add(command, "--size=%" PRIu64, job->bytes);
    lab_command_add(command, "--direct=%d", job->direct);
    lab_command_add(command, "--runtime=%" PRIu64 "ms", job->bench->options.duration_ns / BASE_NS_PER_MS);
    for (size_t i = 0; i < base_array_count(always); i++)
        lab_command_add(command, "%s", always[i]);
    if (job->provider == DRIVE_PROVIDER_URING) {
        lab_command_add(command, "--registerfiles");
        lab_command_add(command, "--fixedbufs");
    }
    if (job->flush_each)
        lab_command_add(command, "--fdatasync=1");
    return command->full ? -ENAMETOOLONG : 0;
}

/* ---- its outcome --------------------------------------------------------------------------------- */

static int add_bin(void *arg, struct base_json_value name, struct base_json_value value)
{
    uint64_t ns;
    uint64_t count;
    if (base_parse_u64_len(name.begin, (size_t)(name.end - name.begin), &ns) != 0 ||
        base_parse_u64_len(value.begin, (size_t)(value.end - value.begin), &count) != 0)
        return -EBADMSG;
    base_histogram_add_count(arg, ns, count);
    return 0;
}

static int number_member(struct base_json_value object, const char *name, double *ret_number)
{
    struct base_json_value value;
    int error = base_json_member(object, name, &value);
    return error != 0 ? error : base_json_number(value, ret_number);
}

static int read_job(struct base_json_value job, bool writes, struct bench_sample *sample)
{
    struct base_json_value part;
    struct base_json_value latency;
    struct base_json_value bins;
    double failed;
    double operations;
    double milliseconds;
    double user_percent;
    double system_percent;
    if (number_member(job, "error", &failed) != 0 || failed != 0 ||
        base_json_member(job, writes ? "write" : "read", &part) != 0 ||
        number_member(part, "total_ios", &operations) != 0 || operations < 1 ||
        number_member(part, "runtime", &milliseconds) != 0 || milliseconds < 1 ||
        number_member(job, "usr_cpu", &user_percent) != 0 ||
        number_member(job, "sys_cpu", &system_percent) != 0)
        return -EBADMSG;
    sample->operations = (uint64_t)operations;
    sample->elapsed_ns = (uint64_t)milliseconds * BASE_NS_PER_MS;
    sample->values[0] = (user_percent + system_percent) / 100 * milliseconds * 1e6 / operations;
    if (base_json_member(part, "lat_ns", &latency) != 0 || base_json_member(latency, "bins", &bins) != 0)
        return -EBADMSG;
    return base_json_visit(bins, add_bin, sample->latency) == 0 ? 0 : -EBADMSG;
}

int lab_fio_read(const char *text, size_t len, bool writes, struct bench_sample *sample)
{
    const char *begin = memchr(text, '{', len);
    struct base_json_value all;
    struct base_json_value jobs;
    struct base_json_value job;
    if (begin == NULL || base_json_parse(begin, len - (size_t)(begin - text), &all) != 0 ||
        base_json_member(all, "jobs", &jobs) != 0 || base_json_element(jobs, 0, &job) != 0)
        return -EBADMSG;
    return read_job(job, writes, sample);
}

int lab_fio_measure(void *arg, struct bench_sample *sample)
{
    const struct lab_drive_job *job = arg;
    struct bench *bench = job->bench;
    if (!job->opened) {
        sample->skipped = "there is nothing to compare it to";
        return 0;
    }
    struct lab_command command;
    int error = build_command(&command, job);
    if (error != 0)
        return error;
    char *text = base_alloc(bench->account, OUTPUT_BYTES);
    if (text == NULL)
        return -ENOMEM;
    size_t len = 0;
    bench_pin(&bench->machine, 0); /* what it starts inherits the core */
    error = lab_command_run(&command, task_now() + bench->options.duration_ns + PATIENCE_NS, text,
                            OUTPUT_BYTES, &len);
    bench_unpin(&bench->machine);
    if (error == -ENOENT) {
        sample->skipped = "fio is not installed";
        error = 0;
    } else if (error == 0) {
        error = lab_fio_read(text, len, lab_drive_op_writes(job->op), sample);
    }
    base_free(bench->account, text, OUTPUT_BYTES);
    return error;
}
