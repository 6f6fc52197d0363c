/* The load in an engine's process: YCSB's workloads, and threads that do what they draw and check the values. */
#include "lab/usage.h"
#include "lab/ycsb.h"

#include "task/task.h"
#include <errno.h>
#include <pthread.h>

enum { WHOLE_EVERY = 64 }; /* one in this many values is checked from end to end */

/* ---- drawing ------------------------------------------------------------------------------------- */

const struct lab_ycsb_workload lab_ycsb_workloads[LAB_YCSB_WORKLOADS] = {
    {.name = "a", .percent = {[LAB_YCSB_READ] = 50, [LAB_YCSB_UPDATE] = 50}},
    {.name = "b", .percent = {[LAB_YCSB_READ] = 95, [LAB_YCSB_UPDATE] = 5}},
    {.name = "c", .percent = {[LAB_YCSB_READ] = 100}},
    {.name = "f", .percent = {[LAB_YCSB_READ] = 50, [LAB_YCSB_MODIFY] = 50}},
    {.name = "d", .percent = {[LAB_YCSB_READ] = 95, [LAB_YCSB_INSERT] = 5}, .latest = true},
};

enum lab_ycsb_op lab_ycsb_draw_op(const struct lab_ycsb_workload *workload, struct base_random *random)
{
    uint64_t place = base_random_below(random, 100);
    enum lab_ycsb_op op = LAB_YCSB_READ;
    while (place >= workload->percent[op])
        place -= workload->percent[op++];
    return op;
}

void lab_ycsb_numbers_init(struct lab_ycsb_numbers *numbers, uint64_t count)
{
    atomic_init(&numbers->next, count);
    for (size_t i = 0; i < LAB_YCSB_THREADS_MAX; i++)
        atomic_init(&numbers->inserting[i], UINT64_MAX);
}

/* The bound is stored before the number is taken: a thread that sees a later `next` in lab_ycsb_present() sees the
 * bound, too. */
uint64_t lab_ycsb_insert(struct lab_ycsb_numbers *numbers, uint32_t thread)
{
    atomic_store(&numbers->inserting[thread], atomic_load(&numbers->next));
    return atomic_fetch_add(&numbers->next, 1);
}

void lab_ycsb_inserted(struct lab_ycsb_numbers *numbers, uint32_t thread)
{
    atomic_store(&numbers->inserting[thread], UINT64_MAX);
}

uint64_t lab_ycsb_present(struct lab_ycsb_numbers *numbers)
{
    uint64_t present = atomic_load(&numbers->next);
    for (size_t i = 0; i < LAB_YCSB_THREADS_MAX; i++)
        present = base_min(present, atomic_load(&numbers->inserting[i]));
    return present;
}

uint64_t lab_ycsb_draw_number(const struct lab_ycsb_workload *workload, const struct base_random_zipf *zipf,
                              uint64_t present, struct base_random *random)
{
    if (workload->latest)
        return present - 1 - base_random_zipf_rank(zipf, random);
    return base_random_zipf_scattered(zipf, random);
}

/* ---- operations ---------------------------------------------------------------------------------- */

/* What the threads of one run share. */
struct run {
    struct lab_ycsb_load *load;
    const struct lab_ycsb_workload *workload; /* NULL: inserts alone */
    uint64_t insert_end;                      /* no record from that number on is inserted */
    uint64_t end_ns;
};

struct worker {
    struct run *run;
    uint32_t number;
    void *session;
    struct base_random random;
    uint8_t *value;
    uint64_t operations;
    uint64_t ended_ns; /* its last */
    int error;         /* its first */
    struct base_histogram latency;
};

static int put_record(struct worker *worker, uint64_t number)
{
    const struct lab_ycsb_load *load = worker->run->load;
    uint8_t key[LAB_DEPOT_KEY_BYTES];
    lab_depot_key(number, key);
    lab_depot_value_set(&load->values, number, worker->operations, worker->value);
    return load->engine->put(worker->session, key, sizeof(key), worker->value);
}

static int insert(struct worker *worker)
{
    struct lab_ycsb_numbers *numbers = &worker->run->load->numbers;
    int error = put_record(worker, lab_ycsb_insert(numbers, worker->number));
    if (error == 0) /* else it stays the first that is not there */
        lab_ycsb_inserted(numbers, worker->number);
    return error;
}

static int get_record(struct worker *worker, uint64_t number)
{
    const struct lab_ycsb_load *load = worker->run->load;
    uint8_t key[LAB_DEPOT_KEY_BYTES];
    lab_depot_key(number, key);
    int error = load->engine->get(worker->session, key, sizeof(key), worker->value);
    if (error == 0 && !lab_depot_value_check(&load->values, number, worker->value, load->values.value_bytes,
                                             worker->operations % WHOLE_EVERY == 0))
        error = -EBADMSG;
    return error;
}

static int operate(struct worker *worker)
{
    const struct run *run = worker->run;
    struct lab_ycsb_load *load = run->load;
    if (run->workload == NULL)
        return insert(worker);
    enum lab_ycsb_op op = lab_ycsb_draw_op(run->workload, &worker->random);
    if (op == LAB_YCSB_INSERT)
        return insert(worker);
    uint64_t present = run->workload->latest ? lab_ycsb_present(&load->numbers) : load->records;
    uint64_t number = lab_ycsb_draw_number(run->workload, &load->zipf, present, &worker->random);
    int error = op == LAB_YCSB_UPDATE ? 0 : get_record(worker, number);
    return error != 0 || op == LAB_YCSB_READ ? error : put_record(worker, number);
}

/* ---- threads ------------------------------------------------------------------------------------- */

/* Whether a worker goes on. Each does one operation at least, however late it was begun. Two that look at the same time
 * may insert a record more than there were to be. */
static bool has_time(const struct worker *worker, uint64_t now_ns)
{
    const struct run *run = worker->run;
    return worker->error == 0 && atomic_load(&run->load->numbers.next) < run->insert_end &&
           (now_ns < run->end_ns || worker->operations == 0);
}

int lab_ycsb_session_open(struct lab_ycsb_place *place, const struct lab_ycsb_engine *engine, void *store,
                          void **ret_session)
{
    const bool has_sessions = engine->session_bytes > 0;
    void *session = has_sessions ? base_alloc(place->account, engine->session_bytes) : store;
    if (session == NULL)
        return lab_ycsb_say(place, -ENOMEM, "no memory");
    int error = has_sessions ? engine->session_open(store, session) : 0;
    if (error == 0)
        *ret_session = session;
    else
        base_free(place->account, session, engine->session_bytes);
    return error;
}

void lab_ycsb_session_close(struct lab_ycsb_place *place, const struct lab_ycsb_engine *engine, void *session)
{
    if (engine->session_bytes == 0)
        return;
    engine->session_close(session);
    base_free(place->account, session, engine->session_bytes);
}

struct thread {
    pthread_t id;
    void *worker;
    int (*run)(void *worker);
    int error;
};

static void *run_thread(void *arg)
{
    struct thread *thread = arg;
    thread->error = thread->run(thread->worker);
    return NULL;
}

int lab_ycsb_threads_run(void *workers, size_t bytes, uint32_t count, int (*run)(void *worker))
{
    struct thread threads[LAB_YCSB_THREADS_MAX];
    uint32_t started = 0;
    int error = 0;
    while (started < count && error == 0) {
        struct thread *thread = &threads[started];
        *thread = (struct thread){.worker = (uint8_t *)workers + started * bytes, .run = run};
        error = -pthread_create(&thread->id, NULL, run_thread, thread);
        started += error == 0;
    }
    for (uint32_t i = 0; i < started; i++) {
        (void)pthread_join(threads[i].id, NULL);
        error = error != 0 ? error : threads[i].error;
    }
    return error;
}

/* Each operation begins when the one before has ended, so that one look at the clock tells both. */
static int run_worker(void *arg)
{
    struct worker *worker = arg;
    const struct lab_ycsb_load *load = worker->run->load;
    worker->error = lab_ycsb_session_open(load->place, load->engine, load->store, &worker->session);
    if (worker->error != 0)
        return worker->error;
    uint64_t begin_ns = task_now();
    while (has_time(worker, begin_ns)) {
        worker->error = operate(worker);
        uint64_t now_ns = task_now();
        base_histogram_add(&worker->latency, now_ns - begin_ns);
        worker->operations++;
        begin_ns = now_ns;
    }
    worker->ended_ns = begin_ns;
    lab_ycsb_session_close(load->place, load->engine, worker->session);
    return worker->error;
}

static struct worker *make_workers(struct run *run, const struct lab_ycsb_job *job)
{
    struct lab_ycsb_load *load = run->load;
    uint32_t value_bytes = load->values.value_bytes;
    struct worker *workers =
        base_alloc(load->place->account, job->threads * (sizeof(*workers) + value_bytes));
    for (uint32_t i = 0; workers != NULL && i < job->threads; i++) {
        struct worker *worker = &workers[i];
        worker->run = run;
        worker->number = i;
        worker->value = (uint8_t *)(workers + job->threads) + (size_t)i * value_bytes;
        base_random_init(&worker->random, job->seed + i);
        base_histogram_reset(&worker->latency);
        lab_depot_value_init(&load->values, worker->value);
    }
    return workers;
}

/* ---- what it came to ----------------------------------------------------------------------------- */

struct used {
    struct lab_usage usage;
    uint64_t read_bytes;
    uint64_t written_bytes;
};

static int read_used(struct used *ret_used)
{
    static const char file[] = "/proc/self/io";
    int error = lab_usage_read(&ret_used->usage);
    if (error == 0)
        error = bench_number_read(file, "read_bytes: ", &ret_used->read_bytes);
    if (error == 0)
        error = bench_number_read(file, "write_bytes: ", &ret_used->written_bytes);
    return error;
}

static void sum_up(const struct worker *workers, uint32_t count, uint64_t begin_ns, const struct used *before,
                   const struct used *after, struct lab_ycsb_report *report)
{
    uint64_t ended_ns = begin_ns;
    base_histogram_reset(&report->latency);
    report->operations = 0;
    for (uint32_t i = 0; i < count; i++) {
        report->operations += workers[i].operations;
        ended_ns = base_max(ended_ns, workers[i].ended_ns);
        base_histogram_merge(&report->latency, &workers[i].latency);
    }
    report->elapsed_ns = ended_ns - begin_ns;
    report->processor_ns = after->usage.processor_ns - before->usage.processor_ns;
    report->read_bytes = after->read_bytes - before->read_bytes;
    report->written_bytes = after->written_bytes - before->written_bytes;
    report->resident_bytes = after->usage.resident_bytes;
}

int lab_ycsb_run(struct lab_ycsb_load *load, const struct lab_ycsb_job *job,
                 const struct lab_ycsb_workload *workload, uint64_t duration_ns,
                 struct lab_ycsb_report *report)
{
    struct run run = {.load = load,
                      .workload = workload,
                      .insert_end = workload == NULL ? load->records : load->place->records_max};
    struct used before = {0}, after = {0};
    struct worker *workers = make_workers(&run, job);
    if (workers == NULL)
        return -ENOMEM;
    int error = read_used(&before);
    uint64_t begin_ns = task_now();
    run.end_ns = duration_ns == 0 ? UINT64_MAX : begin_ns + duration_ns;
    if (error == 0)
        error = lab_ycsb_threads_run(workers, sizeof(*workers), job->threads, run_worker);
    if (error == 0)
        error = read_used(&after);
    if (error == 0)
        sum_up(workers, job->threads, begin_ns, &before, &after, report);
    base_free(load->place->account, workers, job->threads * (sizeof(*workers) + load->values.value_bytes));
    return error;
}
