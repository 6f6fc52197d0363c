/* `tarn-lab depot`: its options and its cases. */
#include "bench/bench.h"
#include "bench/case.h"
#include "lab/depot_load.h"
#include "lab/fio.h"
#include "lab/lab.h"
#include "lab/verbs.h"

#include <errno.h>

enum {
    VALUE_BYTES_MAX = 1 << 20,
    PEER_SHARE = 4, /* fio's own file is that part of the store's */
    PATH_ROOM = 4096,
    NAME_ROOM = 32,
    PEERS_MAX = 2,
};

struct options {
    struct bench_options common;
    struct base_setting_list only;
    struct base_setting_list paths;
    struct base_setting_list sizes;
    struct base_setting_list depths;
    struct base_setting_list writers;
    struct base_setting_list modes;
    struct base_setting_list keys;
    uint64_t size_bytes;
    uint64_t fill_percent;
    uint64_t records;
    uint64_t spin_ns;
    unsigned engine;
    unsigned direct;
    bool disk;
    bool threads;
    bool two_cores;
    bool stages;
    bool fio;
    bool force;
};

static const char *const parts[] = {"get", "put", "memory", NULL};
static const char *const keys[] = {"overwrite", "insert", NULL};
static const char *const engines[] = {"auto", "uring", "aio", NULL}; /* as enum task_engine_choice */

static const struct base_setting table[] = {
    BENCH_OPTION(LIST, "only", only, "Measure these alone: get, put, memory.", .metavar = "NAME[,...]"),
    BENCH_OPTION(
        LIST, "path", paths,
        "Files or devices to make stores on. A file that is not there is made, and removed afterwards. "
        "For puts fio writes to another beside it, whose name ends in .fio.",
        .metavar = "FILE[,...]", .min = 1, .default_text = "/dev/shm/tarn-bench.tarn,tarn-bench.tarn"),
    BENCH_OPTION(BOOL, "disk", disk, "Measure all paths and not only the first.", .default_text = "yes"),
    BENCH_OPTION(SIZE, "size", size_bytes, "Size of a store's file that is made.", .min = 8 << 20,
                 .default_text = "1G"),
    BENCH_OPTION(BOOL, "force", force,
                 "Use files and devices that were there before: what they hold is lost."),
    BENCH_OPTION(UINT, "fill", fill_percent, "How full the store is when records are read and overwritten.",
                 .min = 1, .max = 80, .unit = "percent", .default_text = "50"),
    BENCH_OPTION(LIST, "sizes", sizes, "Lengths of values.", .metavar = "SIZE[,...]",
                 .default_text = "1K,4K"),
    BENCH_OPTION(
        LIST, "depths", depths,
        "Numbers of tasks that get at once; fio has as many requests in flight. Also of tasks that put in "
        "device and async mode.",
        .metavar = "N[,...]", .default_text = "1,32,128"),
    BENCH_OPTION(LIST, "writers", writers, "Numbers of tasks that put at once in power mode.",
                 .metavar = "N[,...]", .default_text = "1,4,16,64"),
    BENCH_OPTION(LIST, "modes", modes, "When a put is acknowledged: power, device, async.",
                 .metavar = "NAME[,...]", .default_text = "power,device"),
    BENCH_OPTION(LIST, "keys", keys,
                 "What is put: random records that are there, or new ones into an empty store.",
                 .metavar = "NAME[,...]", .default_text = "overwrite,insert"),
    BENCH_OPTION(BOOL, "threads", threads, "Have plain threads get and put instead of tasks."),
    BENCH_OPTION(BOOL, "two-cores", two_cores,
                 "Measure two schedulers, each on a core of its own with as many tasks, beside the one."),
    BENCH_OPTION(UINT, "records", records, "Records of 100 bytes of which the memory is measured.", .min = 1,
                 .max = 1000000000, .default_text = "1000000"),
    BENCH_OPTION(ENUM, "engine", engine, "Engine of Tarn's scheduler; fio has the same.", .choices = engines,
                 .default_text = "auto"),
    BENCH_OPTION(
        BOOL, "stages", stages,
        "Write how long each stage of the work took, too; looking at the clock so often costs a little."),
    LAB_FILE_SETTINGS(struct options),
    BENCH_COMMON_SETTINGS(struct options, "500ms", "5"),
};

/* ---- options -------------------------------------------------------------------------------------- */

static const struct bench_list lists[] = {
    BENCH_WORDS("only", only, parts),
    BENCH_WORDS("modes", modes, depot_mode_names),
    BENCH_WORDS("keys", keys, keys),
    BENCH_NUMBERS("sizes", sizes, LAB_DEPOT_VALUE_BYTES_MIN, VALUE_BYTES_MAX, sizeof(uint64_t)),
    BENCH_NUMBERS("depths", depths, 1, BENCH_DEPTH_MAX, 1),
    BENCH_NUMBERS("writers", writers, 1, BENCH_DEPTH_MAX, 1),
    {.setting = NULL},
};

static int check_options(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    int error = 0;
    if (options->two_cores && options->threads)
        return bench_fail(bench, 0, "--two-cores is of tasks: give it without --threads");
    for (size_t i = 0; i < options->paths.count && error == 0; i++)
        error = lab_check_new_file(bench, options->paths.items[i], options->force);
    return error != 0 ? error : lab_fio_check(bench, options->fio, options->common.duration_ns);
}

/* ---- cases ---------------------------------------------------------------------------------------- */

/* What the cases of one store share. */
struct place {
    struct bench *bench;
    const struct options *options;
    struct lab_depot_store store;
    struct lab_drive_file peer_file; /* for fio to write to; path NULL: there is none */
    uint64_t peer_bytes;
};

/* One case: Tarn's job, the same on two cores if wanted, and its peers. */
struct set {
    struct lab_depot_job job;
    struct lab_depot_job on_two;
    struct lab_depot_peer peers[PEERS_MAX];
    char names[PEERS_MAX][NAME_ROOM];
    size_t peer_count;
};

/* Histograms of the stages, in a line of their own. */
static int write_stages(const struct set *set, const struct bench_case *self)
{
    const struct bench *bench = self->bench;
    struct base_json json;
    char head[2048];
    if (!bench->options.json) {
        (void)fprintf(bench->out, "  stages: %s\n", set->job.stages_text);
        return 0;
    }
    base_json_init_buffer(&json, head, sizeof(head));
    base_json_object_begin(&json, NULL);
    base_json_string(&json, "bench", bench->verb);
    base_json_string(&json, "name", "stages");
    bench_case_write_parameters(self, &json, self->name);
    base_json_string(&json, "unit", "ns");
    base_json_array_begin(&json, "subjects");
    base_json_array_end(&json);
    base_json_object_end(&json);
    int error = base_json_finish(&json, NULL);
    if (error != 0)
        return bench_fail(self->bench, error, "stages");
    head[strlen(head) - 1] = '\0'; /* one more member */
    (void)fprintf(bench->out, "%s,\"stages\":%s}\n", head, set->job.stages_text);
    return 0;
}

static int run_rates(struct set *set)
{
    const struct lab_depot_job *job = &set->job;
    const struct lab_depot_store *store = job->store;
    bool gets = job->op == LAB_DEPOT_GET;
    struct bench_case *self;
    int error = bench_case_open(store->bench, gets ? "get" : "put", gets ? "gets/s" : "puts/s", &self);
    if (error != 0)
        return error;
    bench_case_text(self, "file", store->file.memory ? "memory" : "disk");
    bench_case_text(self, "provider", store->provider);
    if (!gets) {
        bench_case_text(self, "mode", depot_mode_names[job->mode]);
        bench_case_text(self, "keys", keys[job->op == LAB_DEPOT_INSERT]);
        bench_case_text(self, "writers", job->threads ? "threads" : "tasks");
    } else if (job->threads) {
        bench_case_text(self, "readers", "threads");
    }
    bench_case_number(self, "value_bytes", store->value_bytes);
    if (set->peer_count > 0)
        bench_case_number(self, "fio_block_bytes", set->peers[0].drive.block_bytes);
    bench_case_number(self, "depth", job->depth);
    bench_case_value(self, "thread_ns");
    bench_case_value(self, gets ? "p50_ns" : "puts_per_write");
    bench_case_value(self, gets ? "reads_per_get" : "written_per_byte");
    bench_case_subject(self, "tarn", lab_depot_measure, &set->job);
    if (set->on_two.store != NULL)
        bench_case_subject(self, "tarn-two-cores", lab_depot_measure, &set->on_two);
    for (size_t i = 0; i < set->peer_count; i++)
        bench_case_subject(self, lab_depot_peer_name(&set->peers[i], set->names[i], sizeof(set->names[i])),
                           lab_depot_peer_measure, &set->peers[i]);
    error = bench_case_run(self);
    if (error == 0 && set->job.stages)
        error = write_stages(set, self);
    if (error == 0 && gets && set->job.depth == 1 && set->peer_count > 0)
        error = bench_case_write_times(self, LAB_DEPOT_P50_NS, "get-latency", "1/median latency");
    bench_case_close(self);
    return error;
}

/* ---- all cases of a store ---------------------------------------------------------------------------- */

static void add_peer(const struct place *place, struct set *set, enum lab_depot_peer_kind kind)
{
    bool reads = set->job.op == LAB_DEPOT_GET;
    lab_depot_peer_init(&set->peers[set->peer_count++], kind, &set->job,
                        reads ? &place->store.file : &place->peer_file,
                        reads ? place->store.used_bytes : place->peer_bytes);
}

static void add_peers(const struct place *place, struct set *set)
{
    if (set->job.op == LAB_DEPOT_GET) {
        if (place->options->fio)
            add_peer(place, set, LAB_DEPOT_PEER_READ);
        if (place->options->fio && strcmp(place->store.provider, "sync") == 0)
            add_peer(place, set, LAB_DEPOT_PEER_READ_SYNC); /* a file in memory is read by plain calls */
    } else if (place->peer_file.path != NULL) {
        bool flushes = set->job.mode == TARN_MODE_POWER;
        add_peer(place, set, flushes ? LAB_DEPOT_PEER_FLUSH : LAB_DEPOT_PEER_WRITE);
        if (!flushes && set->job.op == LAB_DEPOT_INSERT)
            add_peer(place, set, LAB_DEPOT_PEER_SEQUENTIAL);
    }
}

static int run_set(struct place *place, enum lab_depot_op op, enum tarn_mode mode, const char *depth)
{
    struct bench *bench = place->bench;
    struct set *set = base_alloc(bench->account, sizeof(*set));
    if (set == NULL)
        return bench_fail(bench, -ENOMEM, "a case");
    set->job = (struct lab_depot_job){.store = &place->store,
                                      .op = op,
                                      .mode = mode,
                                      .depth = bench_number(depth),
                                      .scheds = 1,
                                      .threads = place->options->threads,
                                      .stages = place->options->stages};
    if (place->options->two_cores) {
        set->on_two = set->job;
        set->on_two.scheds = BENCH_WORLD_SCHEDS_MAX;
        set->on_two.stages = false;
    }
    add_peers(place, set);
    int error = run_rates(set);
    base_free(bench->account, set, sizeof(*set));
    return error;
}

static int run_depths(struct place *place, enum lab_depot_op op, enum tarn_mode mode)
{
    const struct options *options = place->options;
    const struct base_setting_list *depths =
        op != LAB_DEPOT_GET && mode == TARN_MODE_POWER ? &options->writers : &options->depths;
    int error = 0;
    for (size_t i = 0; i < depths->count && error == 0; i++)
        error = run_set(place, op, mode, depths->items[i]);
    return error;
}

static int run_puts(struct place *place, enum lab_depot_op op)
{
    const struct options *options = place->options;
    int error = 0;
    if (!bench_is_wanted(&options->keys, keys[op == LAB_DEPOT_INSERT]))
        return 0;
    for (size_t i = 0; i < options->modes.count && error == 0; i++)
        error = run_depths(place, op,
                           (enum tarn_mode)bench_word_index(options->modes.items[i], depot_mode_names));
    return error;
}

/* Inserts come last: each begins with an empty store. */
static int run_size(struct place *place, const char *size)
{
    const struct options *options = place->options;
    bool gets = bench_is_wanted(&options->only, "get");
    bool puts = bench_is_wanted(&options->only, "put");
    bool full = gets || (puts && bench_is_wanted(&options->keys, "overwrite"));
    int error = lab_depot_fill(&place->store, bench_number(size), full ? options->fill_percent : 0);
    if (error == 0 && gets)
        error = run_depths(place, LAB_DEPOT_GET, TARN_MODE_DEVICE);
    if (error == 0 && puts)
        error = run_puts(place, LAB_DEPOT_OVERWRITE);
    if (error == 0 && puts)
        error = run_puts(place, LAB_DEPOT_INSERT);
    return error;
}

/* fio writes to a file beside the store: it would overwrite what we read. */
static int run_sizes(struct place *place)
{
    const struct options *options = place->options;
    char path[PATH_ROOM];
    int error = 0;
    if (options->fio && place->store.file.created && bench_is_wanted(&options->only, "put")) {
        (void)snprintf(path, sizeof(path), "%s.fio", place->store.file.path);
        place->peer_bytes = options->size_bytes / PEER_SHARE;
        error = lab_check_new_file(place->bench, path, options->force);
        if (error == 0)
            error = lab_drive_file_open(place->bench, path, place->peer_bytes, &place->peer_file);
    }
    for (size_t i = 0; i < options->sizes.count && error == 0; i++)
        error = run_size(place, options->sizes.items[i]);
    if (place->peer_file.path != NULL)
        lab_drive_file_close(&place->peer_file);
    return error;
}

static int run_path(struct bench *bench, const struct options *options, const struct lab_depot_setup *setup,
                    const char *path)
{
    struct place place = {.bench = bench, .options = options};
    int error = lab_depot_store_open(bench, setup, path, options->size_bytes, &place.store);
    if (error != 0)
        return error;
    error = run_sizes(&place);
    lab_depot_store_close(&place.store);
    return error;
}

static int run_depot(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    const struct lab_depot_setup setup = {.engine = (enum task_engine_choice)options->engine,
                                          .direct = (enum drive_direct)options->direct,
                                          .spin_ns = options->spin_ns};
    bool loads = bench_is_wanted(&options->only, "get") || bench_is_wanted(&options->only, "put");
    size_t paths = options->disk ? options->paths.count : 1;
    int error = 0;
    if (options->two_cores && !bench_has_two_cores(&bench->machine))
        return bench_fail(bench, 0, "--two-cores: there is one core");
    for (size_t i = 0; i < paths && error == 0 && loads; i++)
        error = run_path(bench, options, &setup, options->paths.items[i]);
    if (error == 0 && bench_is_wanted(&options->only, "memory"))
        error = lab_depot_memory(bench, &setup, options->paths.items[0], options->records);
    return error;
}

const struct bench_verb lab_verb_depot =
    BENCH_VERB("depot", "The store: gets, puts and memory, beside fio on its drive.", .lists = lists,
               .check = check_options, .run = run_depot);
