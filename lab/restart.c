/* `tarn-lab restart`: how fast a store opens, beside the drive's own speed. */
#include "bench/case.h"
#include "lab/child.h"
#include "lab/depot_store.h"
#include "lab/fio.h"
#include "lab/lab.h"
#include "lab/verbs.h"
#include "tree/store.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

enum {
    VALUE_BYTES_MAX = 1 << 20,
    SPACE_PERCENT = 150, /* of the records' bytes: overwriting them is not to be about collection */
    SPACE_ROOM_MIB = 64,
    TOUCHED = 1000, /* records that are overwritten before each kill: there is an open segment */
    FIO_BLOCK_BYTES = 1 << 20,
    FIO_DEPTH = 8,
    TASKS_MAX = 128,
};

/* The lock of a process that was killed is held for a while. */
#define AFTER_DEATH_NS (200 * BASE_NS_PER_MS)

#define PATIENCE_NS (24 * 3600 * BASE_NS_PER_SECOND)

struct options {
    struct bench_options common;
    struct base_setting_list only;
    const char *path;
    uint64_t records;
    uint64_t value_bytes;
    uint64_t spin_ns;
    unsigned direct;
    bool force;
    bool fio;
};

static const char *const cases[] = {"killed", "overwritten", "clean", "ordered", NULL};

static const struct base_setting table[] = {
    BENCH_OPTION(LIST, "only", only,
                 "Measure these alone: killed, overwritten, clean, ordered. They run in this order, whatever "
                 "yours is.",
                 .metavar = "NAME[,...]"),
    BENCH_OPTION(
        STRING, "path", path,
        "File or device to make the store on. A file that is not there is made, and removed afterwards.",
        .metavar = "FILE", .default_text = "tarn-bench.tarn"),
    BENCH_OPTION(UINT, "records", records, "Records that are in the store.", .min = TOUCHED,
                 .max = 1000000000, .default_text = "1000000"),
    BENCH_OPTION(SIZE, "value", value_bytes, "Length of a value.", .min = LAB_DEPOT_VALUE_BYTES_MIN,
                 .max = VALUE_BYTES_MAX, .default_text = "1K"),
    BENCH_OPTION(BOOL, "force", force, "Use a file or device that was there before: what it holds is lost."),
    LAB_FILE_SETTINGS(struct options),
    BENCH_COMMON_SETTINGS(struct options, "1s", "5"),
};

static const struct bench_list lists[] = {BENCH_WORDS("only", only, cases), {.setting = NULL}};

static int check_options(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    if (!base_is_aligned(options->value_bytes, sizeof(uint64_t)))
        return bench_fail(bench, 0, "--value: no multiple of %zu", sizeof(uint64_t));
    return lab_check_new_file(bench, options->path, options->force);
}

/* ---- the child that has the store open ----------------------------------------------------------- */

/* What it does with it. */
enum act {
    ACT_MAKE,      /* make it, with all records, and die */
    ACT_OPEN_DIE,  /* open it, overwrite a few records, and die */
    ACT_OVERWRITE, /* open it, overwrite all, and die */
    ACT_OPEN_CLOSE,
    ACT_ORDERED, /* open it as an ordered store, and close it */
};

static bool is_closed_after(enum act act)
{
    return act == ACT_OPEN_CLOSE || act == ACT_ORDERED;
}

/* What it tells, before it dies. */
struct answer {
    int error;
    bool direct;
    enum drive_provider_choice engine;
    uint64_t open_ns;
    uint64_t read_bytes; /* until it was open */
    uint64_t records;
};

struct job {
    struct lab_depot_store *store;
    uint64_t records;
    enum act act;
    struct answer answer;
};

/* The same of an ordered store, which has read all records. */
static int look_at_tree(struct job *job, struct tree_store *tree)
{
    const struct lab_depot_store *store = job->store;
    uint8_t name[LAB_DEPOT_KEY_BYTES];
    const struct tree_key key = {.bytes = name, .count = sizeof(name)};
    struct tree_store_stats stats;
    struct tarn_record_info info;
    tree_store_stats(tree, &stats);
    job->answer.records = stats.records;
    job->answer.read_bytes = job->records * store->record_bytes;
    if (stats.records != job->records)
        return -EBADMSG;
    uint8_t *value = base_alloc(store->bench->account, store->value_bytes);
    lab_depot_key(job->records - 1, name);
    int error = value == NULL ? -ENOMEM : tree_store_get(tree, key, value, store->value_bytes, &info);
    if (error == 0 && !lab_depot_value_check(store, job->records - 1, value, info.value_bytes, true))
        error = -EBADMSG;
    base_free(store->bench->account, value, store->value_bytes);
    return error;
}

/* What the store is to have, it has. */
static int look_at_store(struct job *job, struct tarn_depot *depot)
{
    const struct lab_depot_store *store = job->store;
    struct tarn_depot_stats stats;
    tarn_depot_stats(depot, &stats);
    job->answer.records = stats.records;
    if (stats.records != job->records)
        return -EBADMSG;
    uint8_t *value = base_alloc(store->bench->account, store->value_bytes);
    int error = value == NULL ? -ENOMEM : lab_depot_get(store, depot, 0, value, true);
    if (error == 0)
        error = lab_depot_get(store, depot, job->records - 1, value, true);
    base_free(store->bench->account, value, store->value_bytes);
    return error;
}

static int act_on_store(struct job *job, struct tarn_depot *depot)
{
    struct lab_depot_store *store = job->store;
    lab_depot_look(store, depot);
    job->answer.direct = store->direct;
    job->answer.engine = store->engine;
    if (job->act == ACT_MAKE)
        return lab_depot_put_all(store, depot, 0, job->records);
    int error = look_at_store(job, depot);
    if (error != 0 || job->act == ACT_OPEN_CLOSE)
        return error;
    return lab_depot_put_all(store, depot, 0, job->act == ACT_OVERWRITE ? job->records : TOUCHED);
}

/* An opening or a closing, by a plain thread on any processor: as a server's main thread does it, with threads that
 * help. */
struct step {
    struct job *job;
    struct tarn_node *node;
    struct tarn_depot *depot;
    struct tree_store *tree; /* of ACT_ORDERED, instead */
    bool closes;
    int error;
};

static int open_tree(struct step *step)
{
    const struct lab_depot_store *store = step->job->store;
    const struct tarn_depot_options depot = {.mode = TARN_MODE_DEVICE};
    const struct depot_opening opening = {.direct = store->setup->direct};
    const struct tree_store_options options = {.depot = &depot, .opening = &opening};
    return tree_store_open(step->node, store->file.path, &options, &step->tree);
}

static void *run_step(void *arg)
{
    struct step *step = arg;
    struct job *job = step->job;
    bench_unpin(&job->store->bench->machine);
    if (job->act == ACT_ORDERED)
        step->error = step->closes ? tree_store_close(step->tree) : open_tree(step);
    else
        step->error = step->closes
                          ? tarn_depot_close(step->depot)
                          : lab_depot_open(job->store, step->node, TARN_MODE_DEVICE, false, &step->depot);
    return NULL;
}

/* The task's scheduler has nothing else to do meanwhile. */
static int await_step(struct step *step, bool closes)
{
    pthread_t thread;
    step->closes = closes;
    int error = -pthread_create(&thread, NULL, run_step, step);
    if (error == 0)
        error = -pthread_join(thread, NULL);
    return error == 0 ? step->error : error;
}

static void open_main(void *arg)
{
    struct bench_world *world = arg;
    struct job *job = world->arg;
    struct answer *answer = &job->answer;
    struct step step = {.job = job, .node = world->node};
    if (job->act == ACT_MAKE)
        answer->error = lab_depot_format(job->store, world->node);
    (void)task_sleep(AFTER_DEATH_NS);
    uint64_t begin_ns = task_now();
    if (answer->error == 0)
        answer->error = await_step(&step, false);
    if (answer->error == 0) {
        answer->open_ns = task_now() - begin_ns;
        if (job->act == ACT_ORDERED) {
            answer->error = look_at_tree(job, step.tree);
        } else {
            answer->read_bytes = drive_moved_bytes(depot_drive(step.depot), DRIVE_READ);
            answer->error = act_on_store(job, step.depot);
        }
        if (is_closed_after(job->act)) {
            int closed = await_step(&step, true);
            answer->error = answer->error != 0 ? answer->error : closed;
        }
    }
    if (lab_child_answer(answer, sizeof(*answer)) != 0)
        world->error = -EPIPE;
    if (answer->error != 0 || !is_closed_after(job->act))
        (void)raise(SIGKILL); /* nothing is closed, nothing is flushed */
}

static int child_main(void *arg)
{
    struct job *job = arg;
    const struct bench_world_options options = {.sched = {.tasks_max = TASKS_MAX}};
    return bench_world_run(job->store->bench, &options, open_main, job) == 0 ? 0 : 1;
}

/* @return 0; negative errno: said */
static int run_child(struct job *job)
{
    struct bench *bench = job->store->bench;
    struct lab_child child;
    int error = lab_child_start(&child, &bench->machine, 0, child_main, job);
    if (error == 0) {
        error = lab_child_call(&child, NULL, 0, &job->answer, sizeof(job->answer), PATIENCE_NS);
        int stopped = lab_child_stop(&child); /* which fails where it has killed itself */
        if (error == 0 && job->answer.error == 0 && is_closed_after(job->act))
            error = stopped;
    }
    if (error == 0)
        error = job->answer.error;
    return error == 0 ? 0 : bench_fail(bench, error, "%s", job->store->file.path);
}

/* ---- cases --------------------------------------------------------------------------------------- */

static int measure_restart(void *arg, struct bench_sample *sample)
{
    struct job *job = arg;
    job->answer = (struct answer){0};
    int error = run_child(job);
    if (error != 0)
        return error;
    sample->operations = job->answer.read_bytes;
    sample->elapsed_ns = job->answer.open_ns;
    sample->values[0] = (double)job->answer.open_ns / BASE_NS_PER_MS;
    sample->values[1] = (double)job->answer.read_bytes / (double)job->records;
    sample->values[2] = (double)job->records * BASE_NS_PER_SECOND / (double)job->answer.open_ns;
    return 0;
}

/* fio counts blocks. */
static int measure_fio(void *arg, struct bench_sample *sample)
{
    struct lab_drive_job *job = arg;
    int error = lab_fio_measure(job, sample);
    sample->operations *= job->block_bytes;
    sample->values[0] = 0; /* of opening it knows nothing */
    base_histogram_reset(sample->latency);
    return error;
}

static int run_case(struct bench *bench, const struct options *options, const char *name, struct job *job)
{
    struct lab_depot_store *store = job->store;
    struct lab_drive_job fio = {.bench = bench,
                                .path = store->file.path,
                                .provider = job->answer.engine,
                                .op = LAB_DRIVE_READ,
                                .block_bytes = FIO_BLOCK_BYTES,
                                .depth = FIO_DEPTH,
                                .opened = true,
                                .direct = job->answer.direct,
                                .bytes = job->records * store->record_bytes};
    struct bench_case *self;
    int error = bench_case_open(bench, name, "bytes/s", &self);
    if (error != 0)
        return error;
    bench_case_text(self, "file", store->file.memory ? "memory" : "disk");
    bench_case_text(self, "direct", job->answer.direct ? "yes" : "no");
    bench_case_number(self, "records", job->records);
    bench_case_number(self, "value_bytes", store->value_bytes);
    bench_case_value(self, "open_ms");
    bench_case_value(self, "read_bytes_per_record");
    bench_case_value(self, "records_per_s");
    bench_case_subject(self, "tarn", measure_restart, job);
    if (options->fio)
        bench_case_subject(self, "fio-read", measure_fio, &fio);
    return bench_case_finish(self);
}

/* Before each case something is done that is not measured; the first makes the store, wanted or not. */
static int run_store(struct bench *bench, const struct options *options, struct lab_depot_store *store)
{
    static const struct {
        enum act before, measured;
    } acts[] = {/* as cases[] */
                {ACT_MAKE, ACT_OPEN_DIE},
                {ACT_OVERWRITE, ACT_OPEN_DIE},
                {ACT_OPEN_CLOSE, ACT_OPEN_CLOSE},
                {ACT_OPEN_CLOSE, ACT_ORDERED}};
    struct job job = {.store = store, .records = options->records};
    int error = lab_depot_set_value_bytes(store, (uint32_t)options->value_bytes);
    if (error != 0)
        return bench_fail(bench, error, "values");
    for (size_t i = 0; i < base_array_count(acts) && error == 0; i++) {
        bool wanted = bench_is_wanted(&options->only, cases[i]);
        job.act = acts[i].before;
        if (wanted || job.act == ACT_MAKE)
            error = run_child(&job);
        job.act = acts[i].measured;
        if (error == 0 && wanted)
            error = run_case(bench, options, cases[i], &job);
    }
    return error;
}

static int run_restart(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    const struct lab_depot_setup setup = {.direct = (enum drive_direct)options->direct,
                                          .spin_ns = options->spin_ns};
    struct lab_depot_store store;
    uint64_t bytes = options->records * (options->value_bytes + BASE_PAGE_BYTES / 32) * SPACE_PERCENT / 100;
    bytes = base_align_up(bytes, 1 << 20) + ((uint64_t)SPACE_ROOM_MIB << 20);
    int error = lab_depot_store_open(bench, &setup, options->path, bytes, &store);
    if (error != 0)
        return error;
    error = run_store(bench, options, &store);
    lab_depot_store_close(&store);
    return error;
}

const struct bench_verb lab_verb_restart =
    BENCH_VERB("restart",
               "How fast a store opens: closed, killed, killed after it was overwritten, and as an ordered "
               "store; beside fio.",
               .lists = lists, .check = check_options, .run = run_restart);
