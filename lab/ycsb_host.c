/* The process of an engine: starting, stopping and continuing it, and its jobs. */
#include "lab/usage.h"
#include "lab/ycsb.h"

#include "task/task.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

enum {
    WARM_UP_SHARE = 4, /* this part of a measurement's length comes before it */
    QUIET_LOOKS = 5,   /* in a row, until it is believed that nothing goes on */
    LOOKS_MAX = 1200,
    QUIET_PERCENT = 3, /* of a processor */
};

#define LOOK_EACH_NS (50 * BASE_NS_PER_MS)

#define PATIENCE_NS (24 * 3600 * BASE_NS_PER_SECOND) /* a load takes what it takes */

int lab_ycsb_say(struct lab_ycsb_place *place, int error, const char *format, ...)
{
    va_list args;
    if (atomic_exchange(&place->said, true))
        return error;
    va_start(args, format);
    (void)vsnprintf(place->why, sizeof(place->why), format, args);
    va_end(args);
    return error;
}

int lab_ycsb_library(struct lab_ycsb_place *place, const struct lab_ycsb_engine *engine)
{
    void *library = dlopen(engine->library, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return lab_ycsb_say(place, -ELIBACC, "%s", dlerror());
    for (size_t i = 0; i < engine->name_count; i++) {
        void *call = dlsym(library, engine->names[i]);
        if (call == NULL)
            return lab_ycsb_say(place, -ELIBACC, "%s", dlerror());
        memcpy((uint8_t *)engine->calls + i * sizeof(call), &call, sizeof(call));
    }
    return 0;
}

int lab_ycsb_empty_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return -errno;
    int error = 0;
    const struct dirent *entry;
    while (error == 0 && (entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlinkat(dirfd(folder), entry->d_name, 0) != 0)
            error = -errno;
    }
    (void)closedir(folder);
    return error;
}

/* ---- the child ----------------------------------------------------------------------------------- */

static int close_store(struct lab_ycsb_load *load)
{
    void *store = load->store;
    if (store == NULL)
        return 0;
    load->store = NULL;
    int error = load->engine->close(store);
    base_free(load->place->account, store, load->engine->store_bytes);
    return error;
}

static int open_store(struct lab_ycsb_load *load, bool sync)
{
    const struct lab_ycsb_engine *engine = load->engine;
    int error = close_store(load);
    if (error == 0 && engine->library != NULL)
        error = lab_ycsb_library(load->place, engine);
    if (error != 0)
        return error;
    void *store = base_alloc(load->place->account, engine->store_bytes);
    if (store == NULL)
        return lab_ycsb_say(load->place, -ENOMEM, "no memory");
    error = engine->open(load->place, sync, store);
    load->sync = sync;
    if (error == 0)
        load->store = store;
    else
        base_free(load->place->account, store, engine->store_bytes);
    return error;
}

/* All that was stored goes. */
static int renew(struct lab_ycsb_load *load)
{
    int error = close_store(load);
    lab_ycsb_numbers_init(&load->numbers, 0);
    load->made = true;
    load->settled = false;
    if (error != 0)
        return error;
    return load->engine->renew != NULL ? load->engine->renew(load->place)
                                       : lab_ycsb_empty_folder(load->place->folder);
}

/* What loading has left to be done in the background is done: compactions, writing back. For a minute at
 * most. */
static int settle(void)
{
    struct lab_usage before;
    struct lab_usage after;
    int error = lab_usage_read(&before);
    int quiet = 0;
    for (int i = 0; i < LOOKS_MAX && quiet < QUIET_LOOKS && error == 0; i++) {
        (void)task_sleep(LOOK_EACH_NS);
        error = lab_usage_read(&after);
        bool is_quiet =
            error == 0 && after.processor_ns - before.processor_ns < LOOK_EACH_NS * QUIET_PERCENT / 100;
        quiet = is_quiet ? quiet + 1 : 0;
        before = after;
    }
    return error;
}

/* All records are there, and the store is open as the job says. */
static int prepare(struct lab_ycsb_load *load, const struct lab_ycsb_job *job, struct lab_ycsb_report *report)
{
    int error = load->made ? 0 : renew(load);
    if (error == 0 && atomic_load(&load->numbers.next) < load->records) {
        error = open_store(load, false);
        if (error == 0)
            error = lab_ycsb_run(load, job, NULL, 0, report);
        if (error == 0)
            error = close_store(load);
    }
    if (error == 0 && (load->store == NULL || load->sync != job->sync))
        error = open_store(load, job->sync);
    if (error == 0 && !load->settled)
        error = settle();
    load->settled = error == 0;
    return error;
}

static int load_anew(struct lab_ycsb_load *load, const struct lab_ycsb_job *job,
                     struct lab_ycsb_report *report)
{
    int error = renew(load);
    if (error == 0)
        error = open_store(load, job->sync);
    return error == 0 ? lab_ycsb_run(load, job, NULL, job->duration_ns, report) : error;
}

static int do_job(struct lab_ycsb_load *load, const struct lab_ycsb_job *job, struct lab_ycsb_report *report)
{
    if (job->workload == LAB_YCSB_LOAD)
        return load_anew(load, job, report);
    const struct lab_ycsb_workload *workload = &lab_ycsb_workloads[job->workload];
    struct lab_ycsb_job warm_up = *job;
    warm_up.seed = ~job->seed; /* else it would be the same reads that come next */
    int error = prepare(load, job, report);
    if (error == 0)
        error = lab_ycsb_run(load, &warm_up, workload, job->duration_ns / WARM_UP_SHARE, report);
    return error == 0 ? lab_ycsb_run(load, job, workload, job->duration_ns, report) : error;
}

static void serve_jobs(struct lab_ycsb_load *load, struct lab_ycsb_report *report, int joined)
{
    struct lab_ycsb_job job;
    while (lab_child_receive(&job, sizeof(job)) == 0) {
        *report = (struct lab_ycsb_report){0};
        report->error = joined == 0 ? do_job(load, &job, report)
                                    : lab_ycsb_say(load->place, joined, "joining its control group");
        memcpy(report->why, load->place->why, sizeof(report->why));
        if (lab_child_answer(report, sizeof(*report)) != 0)
            break;
    }
}

static int host_main(void *arg)
{
    struct lab_ycsb_host *host = arg;
    struct base_account *account = host->bench->account;
    struct lab_ycsb_load *load = base_alloc(account, sizeof(*load));
    struct lab_ycsb_report *report = base_alloc(account, sizeof(*report));
    if (load == NULL || report == NULL)
        return 1;
    bench_unpin(&host->bench->machine); /* what it does in the background may have the other core */
    load->engine = host->engine;
    load->place = &host->place;
    load->records = host->records;
    load->values.bench = host->bench;
    lab_ycsb_numbers_init(&load->numbers, 0);
    base_random_zipf_init(&load->zipf, host->records, LAB_YCSB_EXPONENT);
    int error = lab_depot_set_value_bytes(&load->values, host->place.value_bytes);
    if (error == 0 && host->group.path[0] != '\0')
        error = lab_memory_group_join(host->group.path);
    serve_jobs(load, report, error);
    return 0; /* what is stored is removed anyway */
}

/* ---- its parent ---------------------------------------------------------------------------------- */

int lab_ycsb_host_start(struct lab_ycsb_host *host)
{
    host->place.folder = host->folder;
    host->place.account = host->bench->account;
    int error = lab_child_start(&host->child, &host->bench->machine, 0, host_main, host);
    if (error != 0)
        return bench_fail(host->bench, error, "%s: starting its process", host->engine->name);
    lab_child_pause(&host->child);
    return 0;
}

/* What others have left in the page cache is written in nobody's time. */
static int write_back(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int error = syncfs(fd) == 0 ? 0 : -errno;
    (void)close(fd);
    return error;
}

int lab_ycsb_host_run(struct lab_ycsb_host *host, const struct lab_ycsb_job *job,
                      struct lab_ycsb_report *ret_report)
{
    int error = write_back(host->folder);
    if (error != 0)
        return bench_fail(host->bench, error, "%s", host->folder);
    lab_child_resume(&host->child);
    error = lab_child_call(&host->child, job, sizeof(*job), ret_report, sizeof(*ret_report), PATIENCE_NS);
    lab_child_pause(&host->child);
    if (error == -EPIPE) {
        (void)lab_child_stop(&host->child); /* how it ended changes nothing: the others go on without it */
        return bench_fail(host->bench, error, "%s ended: was it given too little --memory?",
                          host->engine->name);
    }
    if (error != 0)
        return bench_fail(host->bench, error, "%s", host->engine->name);
    if (ret_report->error == -ELIBACC)
        return ret_report->error;
    if (ret_report->error == -ENOENT || ret_report->error == -EBADMSG)
        return bench_fail(host->bench, ret_report->error, "%s: a record is not there as it was stored: %s",
                          host->engine->name, ret_report->why);
    if (ret_report->error != 0)
        return bench_fail(host->bench, ret_report->error, "%s: %s", host->engine->name, ret_report->why);
    return 0;
}

int lab_ycsb_host_stop(struct lab_ycsb_host *host)
{
    if (host->child.pid == 0)
        return 0;
    lab_child_resume(&host->child);
    int error = lab_child_stop(&host->child);
    return error == 0 ? 0 : bench_fail(host->bench, error, "%s did not end as it should", host->engine->name);
}
