/* `tarn-lab index`: its options and its cases. */
#include "bench/bench.h"
#include "bench/case.h"
#include "lab/index_tables.h"
#include "lab/usage.h"
#include "lab/verbs.h"

#include "task/task.h"
#include <errno.h>
#include <pthread.h>

enum {
    LOAD_PERCENT = 81, /* of Tarn's table; the others get as many keys */
    THREADS_MAX = BENCH_CORES_MAX,
    CHUNK = 1024,       /* lookups between two looks at the clock */
    WINDOW_SHARE = 256, /* this part of the keys is inserted and removed again */
    KEYS_MIN = 1 << 12,
    TABLE_BITS_MIN = 13,
};

struct options {
    struct bench_options common;
    struct base_setting_list only;
    struct base_setting_list threads;
    uint64_t keys;
};

static const char *const cases[] = {"hit", "miss", "insert", NULL};

static const struct base_setting table[] = {
    BENCH_OPTION(LIST, "only", only, "Measure only these: hit, miss, insert.", .metavar = "CASE[,...]"),
    BENCH_OPTION(UINT, "keys", keys,
                 "Keys in the tables, at least; so many more that Tarn's table is 81 % full.",
                 .min = KEYS_MIN, .max = (uint64_t)1 << 32, .default_text = "10000000"),
    BENCH_OPTION(LIST, "threads", threads, "Numbers of threads: 1, 2.", .metavar = "N[,...]",
                 .default_text = "1,2"),
    BENCH_COMMON_SETTINGS(struct options, "500ms", "7"),
};

static const struct lab_index_kind *const kinds[] = {&lab_index_tarn, &lab_index_ahead, &lab_index_ck,
                                                     &lab_index_lfht};

/* A table that stays filled while all cases are measured. */
struct subject {
    struct lab_index *run;
    const struct lab_index_kind *kind;
    struct lab_index_table *table;
    double entry_bytes;
};

/* One run of the verb. */
struct lab_index {
    struct bench *bench;
    uint64_t entries;
    uint64_t window; /* of a thread */
    uint32_t threads;
    const char *name; /* of the case that is measured */
    struct subject subjects[base_array_count(kinds)];
};

/* What one thread does in one measurement. */
struct worker {
    struct subject *subject;
    uint32_t number;
    struct base_random random;
    uint64_t operations;
    uint64_t elapsed_ns;
    int error;
};

static const char *const thread_counts[] = {"1", "2", NULL};

static const struct bench_list lists[] = {
    BENCH_WORDS("threads", threads, thread_counts),
    BENCH_WORDS("only", only, cases),
    {.setting = NULL},
};

/* ---- measuring ---------------------------------------------------------------------------------- */

static int look_up(struct worker *worker, bool is_hit)
{
    const struct subject *subject = worker->subject;
    uint64_t numbers[CHUNK];
    for (uint32_t i = 0; i < CHUNK; i++)
        numbers[i] = base_random_below(&worker->random, subject->run->entries) +
                     (is_hit ? 0 : subject->table->keys); /* numbers that are never inserted */
    uint64_t begin_ns = task_now();
    uint64_t found = subject->kind->find(subject->table, numbers, CHUNK);
    worker->elapsed_ns += task_now() - begin_ns;
    worker->operations += CHUNK;
    return found == (is_hit ? CHUNK : 0) ? 0 : -EUCLEAN;
}

static int insert(struct worker *worker)
{
    const struct subject *subject = worker->subject;
    uint64_t window = subject->run->window;
    uint64_t first = subject->run->entries + worker->number * window;
    uint64_t begin_ns = task_now();
    int error = subject->kind->insert(subject->table, first, window);
    worker->elapsed_ns += task_now() - begin_ns;
    worker->operations += window;
    if (error == 0)
        subject->kind->remove(subject->table, first, window);
    return error;
}

static void *run_worker(void *arg)
{
    struct worker *worker = arg;
    const struct subject *subject = worker->subject;
    const struct lab_index *run = subject->run;
    bench_pin(&run->bench->machine, (int)worker->number);
    if (subject->kind->thread_begin != NULL)
        subject->kind->thread_begin();
    while (worker->error == 0 && worker->elapsed_ns < run->bench->options.duration_ns)
        worker->error = strcmp(run->name, "insert") == 0 ? insert(worker)
                                                         : look_up(worker, strcmp(run->name, "hit") == 0);
    if (subject->kind->thread_end != NULL)
        subject->kind->thread_end();
    return NULL;
}

static int measure_table(void *arg, struct bench_sample *sample)
{
    struct subject *subject = arg;
    const struct lab_index *run = subject->run;
    struct worker workers[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    uint32_t started = 0;
    int error = 0;
    for (; started < run->threads && error == 0; started += error == 0) {
        workers[started] = (struct worker){.subject = subject, .number = started};
        base_random_init(&workers[started].random, run->bench->options.seed + started);
        error = -pthread_create(&threads[started], NULL, run_worker, &workers[started]);
    }
    sample->elapsed_ns = run->bench->options.duration_ns;
    for (uint32_t i = 0; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
        error = error != 0 ? error : workers[i].error;
        sample->operations += (uint64_t)((double)workers[i].operations * (double)sample->elapsed_ns /
                                         (double)base_max(workers[i].elapsed_ns, (uint64_t)1));
    }
    sample->values[0] = subject->entry_bytes;
    return error;
}

/* ---- tables and cases --------------------------------------------------------------------------- */

static int fill_table(struct subject *subject)
{
    const struct lab_index_kind *kind = subject->kind;
    if (kind->thread_begin != NULL)
        kind->thread_begin();
    int error = kind->insert(subject->table, 0, subject->run->entries);
    if (kind->thread_end != NULL)
        kind->thread_end();
    return error;
}

/* Open and fill a table; what the process has grown by is its size. */
static int open_subject(struct lab_index *run, struct subject *subject)
{
    struct lab_usage before;
    struct lab_usage after;
    const struct lab_index_table options = {
        .account = run->bench->account,
        .seed = run->bench->options.seed,
        .keys = run->entries + THREADS_MAX * run->window,
    };
    if (subject->kind->skipped != NULL)
        return 0;
    int error = lab_usage_read(&before);
    if (error == 0)
        error = subject->kind->open(&options, options.keys, &subject->table);
    if (error == 0)
        error = fill_table(subject);
    if (error == 0)
        error = lab_usage_read(&after);
    if (error == 0)
        subject->entry_bytes = (double)(after.resident_bytes - before.resident_bytes) / (double)run->entries;
    return error == 0 ? 0 : bench_fail(run->bench, error, "%s: fill", subject->kind->name);
}

static int run_case(struct lab_index *run, const char *name, uint32_t threads)
{
    struct bench_case *self;
    int error =
        bench_case_open(run->bench, name, strcmp(name, "insert") == 0 ? "inserts/s" : "lookups/s", &self);
    if (error != 0)
        return error;
    run->name = name;
    run->threads = threads;
    bench_case_number(self, "keys", run->entries);
    bench_case_number(self, "load_percent", LOAD_PERCENT);
    bench_case_number(self, "threads", threads);
    bench_case_value(self, "entry_bytes");
    for (size_t i = 0; i < base_array_count(run->subjects); i++) {
        bench_case_subject(self, run->subjects[i].kind->name, measure_table, &run->subjects[i]);
        bench_case_skip(self, run->subjects[i].kind->skipped);
    }
    return bench_case_finish(self);
}

static int run_cases(struct lab_index *run, const struct options *options)
{
    int error = 0;
    for (size_t i = 0; cases[i] != NULL; i++) {
        for (uint32_t threads = 1; threads <= THREADS_MAX; threads++) {
            if (error == 0 && bench_is_wanted(&options->only, cases[i]) &&
                bench_is_wanted(&options->threads, thread_counts[threads - 1]))
                error = run_case(run, cases[i], threads);
        }
    }
    return error;
}

static int run_index(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    struct lab_index self = {.bench = bench};
    uint64_t capacity = (uint64_t)1 << TABLE_BITS_MIN;
    int error = 0;
    while (capacity * LOAD_PERCENT / 100 < options->keys)
        capacity *= 2;
    self.entries = capacity * LOAD_PERCENT / 100;
    self.window = self.entries / WINDOW_SHARE;
    for (size_t i = 0; i < base_array_count(kinds) && error == 0; i++) {
        self.subjects[i] = (struct subject){.run = &self, .kind = kinds[i]};
        error = open_subject(&self, &self.subjects[i]);
    }
    if (error == 0)
        error = run_cases(&self, options);
    for (size_t i = 0; i < base_array_count(kinds); i++) {
        if (self.subjects[i].table != NULL)
            self.subjects[i].kind->close(self.subjects[i].table);
    }
    return error;
}

const struct bench_verb lab_verb_index =
    BENCH_VERB("index", "The depot's index: lookups and inserts, beside ck_ht and liburcu's hash table.",
               .lists = lists, .run = run_index);
