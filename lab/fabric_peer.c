/* Other people's programs that measure the same: two processes each, one on each core, as many operations as take the
 * time of a measurement. */
#include "lab/fabric.h"
#include "lab/usage.h"

#include "base/json_read.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum { OUTPUT_BYTES = 1 << 20, TRIAL = 2000 };

#define PATIENCE_NS (20 * BASE_NS_PER_SECOND) /* beyond the time of a measurement */
#define LISTEN_NS   (5 * BASE_NS_PER_SECOND)

/* ---- what they print ----------------------------------------------------------------------------- */

/* The n-th number, from 0, of a line of several. */
static double number_at(const char *line, const char *between, unsigned n)
{
    for (; n > 0 && *line != '\0'; n--) {
        line += strcspn(line, between);
        line += strspn(line, between);
    }
    char *end;
    double number = strtod(line, &end);
    return end == line || !(number > 0) ? 0 : number;
}

/* The last line that begins with a number, perhaps behind blanks. @return NULL: there is none */
static const char *last_line(const char *text)
{
    const char *last = NULL;
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n' ? 1 : 0) {
        const char *begin = line + strspn(line, " ");
        if (*begin >= '0' && *begin <= '9')
            last = begin;
    }
    return last;
}

/* iterations, 50 %, average and overall latency, average and overall bandwidth, average and overall rate */
double lab_fabric_read_ucx(const char *text)
{
    const char *line = last_line(text);
    return line == NULL ? 0 : number_at(line, ",", 7);
}

/* bytes, sent, acknowledged, total, time, bandwidth, microseconds of a transfer, transfers */
double lab_fabric_read_libfabric(const char *text)
{
    const char *line = last_line(text);
    return line == NULL ? 0 : number_at(line, " ", 6);
}

int lab_fabric_read_iperf3(const char *text, size_t len, double *ret_bytes, double *ret_seconds)
{
    struct base_json_value all, end, sum, value;
    double bytes, seconds;
    if (base_json_parse(text, len, &all) != 0 || base_json_member(all, "end", &end) != 0 ||
        base_json_member(end, "sum_received", &sum) != 0 || base_json_member(sum, "bytes", &value) != 0 ||
        base_json_number(value, &bytes) != 0 || base_json_member(sum, "seconds", &value) != 0 ||
        base_json_number(value, &seconds) != 0 || !(bytes > 0) || !(seconds > 0))
        return -EBADMSG;
    *ret_bytes = bytes;
    *ret_seconds = seconds;
    return 0;
}

/* ---- running two --------------------------------------------------------------------------------- */

/* Whether somebody listens on a port: to connect would be to be served. */
static bool is_listened_on(uint16_t port)
{
    static const char *const paths[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    char line[512], wanted[8];
    bool found = false;
    (void)snprintf(wanted, sizeof(wanted), ":%04X", port);
    for (size_t i = 0; i < base_array_count(paths); i++) {
        FILE *file = fopen(paths[i], "re");
        while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
            const char *local = strchr(line, ':');
            local = local == NULL ? NULL : strchr(local + 1, ':');
            found = local != NULL && strncmp(local, wanted, 5) == 0 && strstr(local, " 0A ") != NULL;
        }
        if (file != NULL)
            (void)fclose(file);
    }
    return found;
}

/* A program that serves one client, and its client. */
struct pair {
    struct lab_command server;
    struct lab_command client;
    uint16_t port;
};

/* @return 0; -ENOENT: not installed; -ETIMEDOUT; negative errno */
static int run_pair(const struct bench *bench, struct pair *pair, char *text, size_t *ret_len)
{
    pid_t pid;
    if (pair->server.full || pair->client.full)
        return -ENAMETOOLONG;
    pair->client.quiet = true;
    bench_pin(&bench->machine, 1); /* what is started inherits the core */
    int error = lab_command_start(&pair->server, &pid);
    bench_unpin(&bench->machine);
    if (error != 0)
        return error;
    uint64_t until_ns = task_now() + LISTEN_NS;
    while (!is_listened_on(pair->port) && task_now() < until_ns)
        (void)task_sleep(BASE_NS_PER_MS);
    bench_pin(&bench->machine, 0);
    error = lab_command_run(&pair->client, task_now() + 2 * bench->options.duration_ns + PATIENCE_NS, text,
                            OUTPUT_BYTES - 1, ret_len);
    bench_unpin(&bench->machine);
    lab_command_end(pid, task_now() + (error == 0 ? BASE_NS_PER_SECOND : 0));
    if (error == 0)
        text[*ret_len] = '\0';
    return error;
}

/* A program that measures: operations a second, of `count` of them. 0: it does not tell. */
typedef double measure_count(const struct lab_fabric_job *job, uint64_t count, struct pair *pair, char *text,
                             int *ret_error);

/* Why there is no rate. NULL: that ends the run */
static const char *skip_reason(int error)
{
    switch (error) {
    case -ENOENT:
        return "it is not installed";
    case -ECHILD:
        return "it fails here";
    case -ETIMEDOUT:
        return "it does not end here";
    case -EBADMSG:
        return "it tells no rate";
    default:
        return NULL;
    }
}

/* A few first, then as many as take the time. */
static int measure_program(struct lab_fabric_job *job, measure_count *measure_some,
                           struct bench_sample *sample)
{
    struct bench *bench = job->bench;
    struct pair *pair = base_alloc(bench->account, sizeof(*pair));
    char *text = base_alloc(bench->account, OUTPUT_BYTES);
    int error = pair == NULL || text == NULL ? -ENOMEM : 0;
    double seconds = (double)bench->options.duration_ns / 1e9, rate = 0, count = TRIAL;
    for (unsigned turn = 0; turn < 2 && error == 0; turn++) {
        *pair = (struct pair){0};
        error = lab_find_port(&pair->port);
        if (error == 0)
            rate = measure_some(job, (uint64_t)count, pair, text, &error);
        if (error == 0 && !(rate > 0))
            error = -EBADMSG;
        if (turn == 0)
            count = base_max(rate * seconds, 100.0);
    }
    base_free(bench->account, text, OUTPUT_BYTES);
    base_free(bench->account, pair, sizeof(*pair));
    sample->skipped = skip_reason(error);
    if (error != 0)
        return sample->skipped != NULL ? 0 : bench_fail(bench, error, "run a program beside it");
    sample->operations = (uint64_t)base_max(rate * seconds, 1.0);
    sample->elapsed_ns = (uint64_t)((double)sample->operations / rate * 1e9);
    return 0;
}

/* ---- the programs -------------------------------------------------------------------------------- */

static double measure_ucx(const struct lab_fabric_job *job, uint64_t count, struct pair *pair, char *text,
                          int *ret_error)
{
    static const char *const tests[] = {"ucp_get", "ucp_put_bw", "ucp_cswap", "tag_lat"};
    const bool is_message = job->op == LAB_FABRIC_MESSAGE;
    size_t len;
    lab_command_add_words(&pair->server, "ucx_perftest -p%u", pair->port);
    lab_command_add_words(&pair->client,
                          "ucx_perftest 127.0.0.1 -p%u -t%s -s%" PRIu32 " -n%" PRIu64 " -w%" PRIu64 " -f -v",
                          pair->port, tests[job->op], job->bytes, count, count / 10);
    if (!is_message)
        lab_command_add(&pair->client, "-O%" PRIu32, job->depth);
    (void)setenv("UCX_TLS", lab_server_is_shm(job->server) ? "shm,self" : "tcp,self",
                 1); /* both inherit it */
    *ret_error = run_pair(job->bench, pair, text, &len);
    (void)unsetenv("UCX_TLS");
    double rate = *ret_error == 0 ? lab_fabric_read_ucx(text) : 0;
    return is_message ? rate / 2 : rate; /* of one way */
}

static double measure_libfabric(const struct lab_fabric_job *job, uint64_t count, struct pair *pair,
                                char *text, int *ret_error)
{
    char common[96];
    size_t len;
    (void)snprintf(common, sizeof(common), "fi_pingpong %s -I%" PRIu64 " -S%" PRIu32,
                   lab_server_is_shm(job->server) ? "-pshm -erdm" : "-ptcp -emsg", count, job->bytes);
    lab_command_add_words(&pair->server, "%s -B%u", common, pair->port);
    lab_command_add_words(&pair->client, "%s -P%u 127.0.0.1", common, pair->port);
    *ret_error = run_pair(job->bench, pair, text, &len);
    double us = *ret_error == 0 ? lab_fabric_read_libfabric(text) : 0;
    return us > 0 ? 1e6 / (2 * us) : 0;
}

/* It runs for whole seconds, however many are asked for. */
static double measure_streams(const struct lab_fabric_job *job, uint32_t streams, uint64_t count,
                              struct pair *pair, char *text, int *ret_error)
{
    double bytes, seconds;
    size_t len;
    if (count == TRIAL)
        return 1; /* there is nothing to try */
    lab_command_add_words(&pair->server, "iperf3 -s -1 -p%u", pair->port);
    lab_command_add_words(&pair->client, "iperf3 -c127.0.0.1 -p%u -t%" PRIu64 " -P%" PRIu32 " -J", pair->port,
                          base_max(job->bench->options.duration_ns / BASE_NS_PER_SECOND, UINT64_C(1)),
                          streams);
    *ret_error = run_pair(job->bench, pair, text, &len);
    if (*ret_error == 0)
        *ret_error = lab_fabric_read_iperf3(text, len, &bytes, &seconds);
    return *ret_error == 0 ? bytes / seconds / job->bytes : 0;
}

static double measure_iperf3(const struct lab_fabric_job *job, uint64_t count, struct pair *pair, char *text,
                             int *ret_error)
{
    return measure_streams(job, 1, count, pair, text, ret_error);
}

static double measure_iperf3_streams(const struct lab_fabric_job *job, uint64_t count, struct pair *pair,
                                     char *text, int *ret_error)
{
    return measure_streams(job, job->depth, count, pair, text, ret_error);
}

int lab_fabric_ucx(void *arg, struct bench_sample *sample)
{
    return measure_program(arg, measure_ucx, sample);
}

int lab_fabric_libfabric(void *arg, struct bench_sample *sample)
{
    const struct lab_fabric_job *job = arg;
    if (job->op == LAB_FABRIC_MESSAGE && job->depth == 1)
        return measure_program(arg, measure_libfabric, sample);
    sample->skipped = "its program does ping-pong alone";
    return 0;
}

int lab_fabric_iperf3(void *arg, struct bench_sample *sample)
{
    return measure_program(arg, measure_iperf3, sample);
}

int lab_fabric_iperf3_streams(void *arg, struct bench_sample *sample)
{
    return measure_program(arg, measure_iperf3_streams, sample);
}
