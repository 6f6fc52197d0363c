/* The command as a user runs it, with tiny durations: what it prints, and what it does to files. */
#include "lab/testing.h"

#include "bench/machine.h"
#include "lab/amplification.h"
#include <fcntl.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* ---- usage ------------------------------------------------------------------------------------- */

static void expect_status(int status, const char *const *arguments)
{
    struct run run;
    run_command(&run, &lab_program, arguments);
    assert_int_equal(run.status, status);
    if (status == 2) {
        assert_int_equal(run.out_bytes, 0);
        assert_true(run.err_bytes > 0);
    }
    free_run(&run);
}

#define EXPECT_STATUS(status, ...) expect_status(status, (const char *const[]){__VA_ARGS__, NULL})

static void test_usage(void **state)
{
    (void)state;
    EXPECT_STATUS(2, NULL);
    EXPECT_STATUS(2, "nothing");
    EXPECT_STATUS(2, "task", "--no-such-option");
    EXPECT_STATUS(2, "task", "positional");
    EXPECT_STATUS(2, "task", "--only=switch,swich");
    EXPECT_STATUS(2, "task", "--connections=0");
    EXPECT_STATUS(2, "task", "--repeats=0");
    EXPECT_STATUS(2, "drive", "--provider=floppy");
    EXPECT_STATUS(2, "drive", "--op=erase");
    EXPECT_STATUS(2, "drive", "--block=1000");
    EXPECT_STATUS(2, "drive", "--depth=x");
    EXPECT_STATUS(2, "drive", "--duration=1ms");
    EXPECT_STATUS(2, "depot", "--only=gets");
    EXPECT_STATUS(2, "depot", "--modes=weak");
    EXPECT_STATUS(2, "depot", "--keys=new");
    EXPECT_STATUS(2, "depot", "--sizes=1001");
    EXPECT_STATUS(2, "depot", "--sizes=56");
    EXPECT_STATUS(2, "depot", "--depths=0");
    EXPECT_STATUS(2, "depot", "--writers=1025");
    EXPECT_STATUS(2, "depot", "--duration=1ms");
    EXPECT_STATUS(2, "depot", "--two-cores", "--threads");
    EXPECT_STATUS(2, "index", "--threads=3");
    EXPECT_STATUS(2, "index", "--only=erase");
    EXPECT_STATUS(2, "index", "--keys=1");
    EXPECT_STATUS(2, "restart", "--only=dead");
    EXPECT_STATUS(2, "restart", "--records=999");
    EXPECT_STATUS(2, "restart", "--value=100");
    EXPECT_STATUS(2, "growth", "--only=shrink");
    EXPECT_STATUS(2, "growth", "--tables=list");
    EXPECT_STATUS(2, "growth", "--from=5000", "--to=5000");
    EXPECT_STATUS(2, "growth", "--from=5000", "--to=2000000");
    EXPECT_STATUS(2, "amplification", "--only=reads");
    EXPECT_STATUS(2, "amplification", "--sizes=32");
    EXPECT_STATUS(2, "amplification", "--blocks=1000");
    EXPECT_STATUS(2, "amplification", "--grain=48");
    EXPECT_STATUS(2, "rpc", "--sizes=8K");
    EXPECT_STATUS(2, "rpc", "--depths=65");
    EXPECT_STATUS(2, "fabric", "--only=memories");
    EXPECT_STATUS(2, "fabric", "--providers=pigeon");
    EXPECT_STATUS(2, "fabric", "--sizes=12");
    EXPECT_STATUS(2, "fabric", "--sizes=2M");
    EXPECT_STATUS(2, "fabric", "--depths=129");
    EXPECT_STATUS(0, "--help");
    EXPECT_STATUS(0, "task", "--help");
    EXPECT_STATUS(0, "drive", "--help");
    EXPECT_STATUS(0, "drive", "--man");
}

/* ---- results ----------------------------------------------------------------------------------- */

static void assert_text(struct base_json_value object, const char *name, const char *text)
{
    struct base_json_value value;
    assert_int_equal(base_json_member(object, name, &value), 0);
    assert_int_equal((size_t)(value.end - value.begin), strlen(text) + 2);
    assert_memory_equal(value.begin + 1, text, strlen(text));
}

static size_t count_lines(const struct run *run, const char *text)
{
    size_t found = 0;
    for (const char *line = run->out; *line != '\0'; line += strcspn(line, "\n") + 1)
        found += memmem(line, strcspn(line, "\n"), text, strlen(text)) != NULL;
    return found;
}

/* A ratio is of the first subject's rate to this one's, not the other way round. */
static void check_ratio(struct base_json_value ratio, struct base_json_value first,
                        struct base_json_value rate)
{
    double median = number_of(ratio, "median");
    assert_true(number_of(ratio, "min") <= median && median <= number_of(ratio, "max"));
    const double rounding = 1e-9;
    assert_true(median >= number_of(first, "min") / number_of(rate, "max") * (1 - rounding));
    assert_true(median <= number_of(first, "max") / number_of(rate, "min") * (1 + rounding));
}

/* What every subject that was not skipped tells. `first` is the rate of the first, with NULLs if it has none.
 */
static void check_subject(struct base_json_value subject, struct base_json_value first)
{
    struct base_json_value rate;
    struct base_json_value samples;
    struct base_json_value value;
    assert_int_equal(base_json_member(subject, "name", &value), 0);
    if (base_json_member(subject, "skipped", &value) == 0 ||
        base_json_member(subject, "rate", &rate) != 0) /* about memory or idleness */
        return;
    double median = number_of(rate, "median");
    assert_true(number_of(rate, "max") > 0);
    assert_true(number_of(rate, "min") <= median && median <= number_of(rate, "max"));
    assert_int_equal(base_json_member(rate, "samples", &samples), 0);
    assert_int_equal(base_json_element(samples, 1, &value), 0);
    assert_int_equal(base_json_element(samples, 2, &value), -ENOENT);
    if (base_json_member(subject, "ratio", &value) == 0)
        check_ratio(value, first, rate);
    else /* it is the first, or there is no pair in which both did something in the time */
        assert_true(first.begin == NULL || first.begin == rate.begin || number_of(rate, "min") <= 0 ||
                    number_of(first, "min") <= 0);
    if (base_json_member(subject, "latency_ns", &value) == 0)
        assert_true(number_of(value, "count") > 0 && number_of(value, "max") > 0);
}

static void check_line(const char *line, size_t len, const char *verb)
{
    struct base_json_value all;
    struct base_json_value machine;
    struct base_json_value subjects;
    struct base_json_value value;
    assert_int_equal(base_json_parse(line, len, &all), 0);
    assert_text(all, "bench", verb);
    assert_true(number_of(all, "seed") == 7);
    assert_int_equal(base_json_member(all, "commit", &value), 0);
    assert_int_equal(base_json_member(all, "unit", &value), 0);
    assert_int_equal(base_json_member(all, "parameters", &value), 0);
    assert_int_equal(base_json_member(all, "machine", &machine), 0);
    assert_true(number_of(machine, "processors") >= 1);
    assert_true(number_of(machine, "memory_bytes") >= 1e6);
    assert_int_equal(base_json_member(machine, "disk", &value), 0);
    assert_int_equal(base_json_member(all, "subjects", &subjects), 0);
    struct base_json_value first = {NULL, NULL};
    assert_int_equal(base_json_element(subjects, 0, &value), 0);
    bool has_rate = base_json_member(value, "rate", &first) == 0;
    assert_true(has_rate || first.begin == NULL);
    for (size_t i = 0; base_json_element(subjects, i, &value) == 0; i++)
        check_subject(value, first);
}

/* Check a JSON line each. @return how many have that name */
static size_t check_lines(const struct run *run, const char *verb, const char *name)
{
    char wanted[64];
    size_t found = 0;
    (void)snprintf(wanted, sizeof(wanted), "\"name\":\"%s\",\"parameters\"", name);
    for (const char *line = run->out; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        check_line(line, len, verb);
        found += memmem(line, len, wanted, strlen(wanted)) != NULL;
        line += len;
        assert_int_equal(*line, '\n');
        line++;
    }
    return found;
}

static void test_task_results(void **state)
{
    (void)state;
    struct run run;
    LAB_RUN(&run, "task", "--json", "--duration=2ms", "--repeats=2", "--connections=1,5",
            "--idle-connections=9", "--seed=7");
    assert_success(&run);
    assert_int_equal(run.err_bytes, 0);
    assert_int_equal(check_lines(&run, "task", "switch"), 3);
    assert_int_equal(check_lines(&run, "task", "spawn"), 2);
    assert_int_equal(check_lines(&run, "task", "future"), 1);
    assert_in_range(check_lines(&run, "task", "wake"), 1, 2);
    assert_int_equal(check_lines(&run, "task", "timer"), 2);
    assert_int_equal(check_lines(&run, "task", "echo"), 4); /* two numbers of connections, two loops */
    assert_int_equal(check_lines(&run, "task", "echo-memory"), 1);
    assert_int_equal(check_lines(&run, "task", "echo-idle"), 1);
    free_run(&run);
}

static void test_task_only(void **state)
{
    (void)state;
    struct run run;
    LAB_RUN(&run, "task", "--json", "--duration=1ms", "--repeats=2", "--only=echo,future", "--connections=3",
            "--engine=aio", "--rate=2000", "--seed=7");
    assert_success(&run);
    assert_int_equal(check_lines(&run, "task", "future"), 1);
    assert_int_equal(check_lines(&run, "task", "echo"), 2);
    assert_int_equal(check_lines(&run, "task", "switch"), 0);
    assert_non_null(strstr(run.out, "\"engine\":\"aio\""));
    assert_non_null(strstr(run.out, "\"rate\":2000"));
    free_run(&run);
}

static void test_echo_beyond_the_limit_of_files(void **state)
{
    (void)state;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max >= 100000)
        skip(); /* no number of connections is too large */
    struct run run;
    LAB_RUN(&run, "task", "--json", "--duration=1ms", "--repeats=2", "--only=echo", "--connections=100000",
            "--seed=7");
    assert_success(&run);
    assert_int_equal(check_lines(&run, "task", "echo"), 2);
    assert_non_null(strstr(run.out, "\"skipped\":\"more connections"));
    free_run(&run);
}

static void test_tables(void **state)
{
    (void)state;
    struct run run;
    LAB_RUN(&run, "task", "--duration=1ms", "--repeats=1", "--only=switch");
    assert_success(&run);
    assert_non_null(strstr(run.out, "switch tasks=2 code=same: switches/s\n"));
    assert_non_null(strstr(run.out, "  bare "));
    free_run(&run);
}

/* ---- index ------------------------------------------------------------------------------------- */

static void test_index_results(void **state)
{
    (void)state;
    struct run run;
    LAB_RUN(&run, "index", "--json", "--duration=2ms", "--repeats=2", "--keys=20000", "--seed=7");
    assert_success(&run);
    assert_int_equal(check_lines(&run, "index", "hit"), 2);
    assert_int_equal(check_lines(&run, "index", "miss"), 2);
    assert_int_equal(check_lines(&run, "index", "insert"), 2);
    assert_non_null(strstr(run.out, "\"keys\":26542,\"load_percent\":81,\"threads\":2"));
    free_run(&run);
}

static void test_index_only(void **state)
{
    (void)state;
    struct run run;
    LAB_RUN(&run, "index", "--duration=1ms", "--repeats=1", "--keys=4096", "--only=miss", "--threads=2",
            "--seed=7");
    assert_success(&run);
    assert_non_null(strstr(run.out, "miss keys=6635 load_percent=81 threads=2: lookups/s\n"));
    assert_null(strstr(run.out, "threads=1"));
    assert_null(strstr(run.out, "insert"));
    assert_non_null(strstr(run.out, "  tarn-ahead "));
    free_run(&run);
}

/* ---- drives ------------------------------------------------------------------------------------ */

/* Its name has what fio takes for the end of one. */
static int make_folder_at(void **state, const char *parent)
{
    struct folder *folder = test_calloc(1, sizeof(*folder));
    *state = folder;
    return make_folder_in(folder, parent, "a:b.data");
}

static int make_folder(void **state)
{
    return make_folder_at(state, "");
}

/* In memory where there is such a folder: a store is flushed often. */
static int make_memory_folder(void **state)
{
    return make_folder_at(state, in_memory());
}

static int remove_folder(void **state)
{
    struct folder *folder = *state;
    (void)unlink(folder->file);
    int error = rmdir(folder->path); /* fails if anything was left behind */
    test_free(folder);
    return error;
}

static void test_drive_results(void **state)
{
    const struct folder *folder = *state;
    struct run run;
    LAB_RUN(&run, "drive", "--json", "--duration=2ms", "--repeats=2", "--no-fio", "--size=1M", "--depth=1,7",
            "--block=4K,16K", "--op=randread,randwrite,read,write", "--seed=7", folder->option);
    assert_success(&run);
    /* 4 operations, 2 blocks: 2 depths of uring and aio, each closed and open unless skipped; 1 of sync */
    assert_in_range(check_lines(&run, "drive", "drive"), 8 * (2 * 2 + 2) - 8 * 2, 8 * (4 + 4 + 2));
    assert_int_equal(access(folder->file, F_OK), -1);
    free_run(&run);
}

static void test_drive_beside_fio(void **state)
{
    const struct folder *folder = *state;
    struct run run;
    LAB_RUN(&run, "drive", "--json", "--duration=50ms", "--repeats=2", "--size=1M", "--depth=4",
            "--provider=aio", "--op=randread", "--no-open-loop", "--seed=7", folder->option);
    assert_success(&run);
    assert_int_equal(check_lines(&run, "drive", "drive"), 1);
    assert_non_null(strstr(run.out, "\"name\":\"fio\""));
    free_run(&run);
}

static void write_old_file(const char *path, const char *text, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    (void)close(fd);
}

static bool file_begins_with(const char *path, const char *text)
{
    char begin[64] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t got = read(fd, begin, strlen(text));
    (void)close(fd);
    return got == (ssize_t)strlen(text) && memcmp(begin, text, strlen(text)) == 0;
}

/* A file that was there is read, but written to only by order, and never removed. */
static void test_drive_spares_old_files(void **state)
{
    const struct folder *folder = *state;
    static const char treasure[] = "what somebody keeps";
    const size_t bytes = 1 << 20;
    struct run run;
    write_old_file(folder->file, treasure, bytes);
    EXPECT_STATUS(2, "drive", "--op=randread,randwrite", folder->option);
    EXPECT_STATUS(2, "drive", "--op=write", folder->option);
    LAB_RUN(&run, "drive", "--duration=1ms", "--repeats=1", "--no-fio", "--op=randread", "--depth=1",
            folder->option);
    assert_success(&run);
    free_run(&run);
    assert_true(file_begins_with(folder->file, treasure));
    LAB_RUN(&run, "drive", "--duration=1ms", "--repeats=1", "--no-fio", "--op=write", "--depth=1", "--force",
            folder->option);
    assert_success(&run);
    free_run(&run);
    assert_false(file_begins_with(folder->file, treasure));
    struct stat status;
    assert_int_equal(stat(folder->file, &status), 0);
    assert_int_equal(status.st_size, bytes);
}

static void test_drive_failure(void **state)
{
    (void)state;
    struct run run;
    LAB_RUN(&run, "drive", "--no-fio", "--path=no-such-folder/file", "--op=read");
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.err, "no-such-folder/file"));
    free_run(&run);
}

/* ---- stores ------------------------------------------------------------------------------------ */

/* Gets at two depths; puts of old and new keys, by one number of writers in `power` mode and at two depths in
 * `device` mode; each with its stages, of which gets have no "commit". */
static void test_depot_results(void **state)
{
    const struct folder *folder = *state;
    struct run run;
    LAB_RUN(&run, "depot", "--json", "--duration=2ms", "--repeats=2", "--no-fio", "--size=32M",
            "--depths=1,7", "--writers=3", "--sizes=1000", "--fill=5", "--only=get,put", "--stages",
            "--seed=7", folder->option);
    assert_success(&run);
    assert_int_equal(count_lines(&run, "\"name\":\"stages\""), 2 + 2 * 1 + 2 * 2);
    assert_int_equal(count_lines(&run, "\"commit\":{\"count\":0"), 2);
    assert_int_equal(count_lines(&run, "\"name\":\"get\",\"parameters\""), 2);
    assert_int_equal(count_lines(&run, "\"name\":\"put\",\"parameters\""), 2 * 1 + 2 * 2);
    assert_int_equal(count_lines(&run, "\"subjects\":[{\"name\":\"tarn\",\"rate\":{\"median\":"), 8);
    assert_int_equal(count_lines(&run, "\"latency_ns\":{\"count\":"), 8);
    assert_int_equal(count_lines(&run, "\"mode\":\"power\",\"keys\":\"overwrite\""), 2);
    assert_int_equal(count_lines(&run, "\"mode\":\"device\",\"keys\":\"insert\""), 2 * 2);
    assert_int_equal(access(folder->file, F_OK), -1);
    free_run(&run);
}

static void test_depot_threads(void **state)
{
    const struct folder *folder = *state;
    struct run run;
    LAB_RUN(&run, "depot", "--json", "--duration=2ms", "--repeats=2", "--no-fio", "--size=32M", "--writers=3",
            "--sizes=1K", "--only=put", "--modes=power,async", "--keys=insert", "--threads", "--seed=7",
            "--depths=2", folder->option);
    assert_success(&run);
    assert_int_equal(check_lines(&run, "depot", "put"), 2);
    assert_int_equal(count_lines(&run, "\"writers\":\"threads\""), 2);
    free_run(&run);
}

static void test_depot_two_cores(void **state)
{
    const struct folder *folder = *state;
    struct run run;
    LAB_RUN(&run, "depot", "--json", "--duration=2ms", "--repeats=2", "--no-fio", "--size=32M",
            "--depths=1,3", "--sizes=1K", "--fill=5", "--only=get,put", "--modes=device", "--two-cores",
            "--seed=7", folder->option);
    if (sysconf(_SC_NPROCESSORS_ONLN) > 1 || run.status == 0) {
        assert_success(&run);
        assert_int_equal(count_lines(&run, "\"name\":\"tarn-two-cores\",\"rate\":{"), 3 * 2);
        assert_int_equal(count_lines(&run, "\"ratio\":{"), 3 * 2);
    }
    free_run(&run);
}

static void test_depot_beside_fio(void **state)
{
    const struct folder *folder = *state;
    struct run run;
    LAB_RUN(&run, "depot", "--json", "--duration=30ms", "--repeats=2", "--size=32M", "--depths=1",
            "--writers=2", "--sizes=1K", "--fill=5", "--only=get,put", "--modes=power", "--keys=overwrite",
            "--seed=7", folder->option);
    assert_success(&run);
    assert_int_equal(check_lines(&run, "depot", "get"), 1);
    assert_int_equal(check_lines(&run, "depot", "get-latency"), 1);
    assert_int_equal(check_lines(&run, "depot", "put"), 1);
    assert_int_equal(count_lines(&run, "\"name\":\"fio-flush-x2\""), 1);
    if (strstr(run.out, "fio is not installed") == NULL) {
        assert_int_equal(count_lines(&run, "\"ratio\":{"), 3);
        assert_int_equal(count_lines(&run, "\"skipped\""), 0);
    }
    free_run(&run);
}

static void test_depot_memory(void **state)
{
    const struct folder *folder = *state;
    struct run run;
    LAB_RUN(&run, "depot", "--json", "--only=memory", "--records=2000", "--repeats=2", "--seed=7",
            folder->option);
    assert_success(&run);
    assert_int_equal(check_lines(&run, "depot", "memory"), 12);
    free_run(&run);
    LAB_RUN(&run, "depot", "--only=memory", "--records=2000", folder->option);
    assert_success(&run);
    assert_non_null(strstr(run.out, "\n  index "));
    free_run(&run);
}

static void test_depot_spares_old_files(void **state)
{
    const struct folder *folder = *state;
    write_old_file(folder->file, "what somebody keeps", 1 << 20);
    EXPECT_STATUS(2, "depot", "--no-fio", "--only=get", folder->option);
    assert_true(file_begins_with(folder->file, "what somebody keeps"));
}

/* ---- restarts ---------------------------------------------------------------------------------- */

static void test_restart_results(void **state)
{
    const struct folder *folder = *state;
    struct run run;
    LAB_RUN(&run, "restart", "--json", "--records=1000", "--repeats=2", "--no-fio", "--seed=7",
            folder->option);
    assert_success(&run);
    assert_int_equal(check_lines(&run, "restart", "killed"), 1);
    assert_int_equal(check_lines(&run, "restart", "overwritten"), 1);
    assert_int_equal(check_lines(&run, "restart", "clean"), 1);
    assert_int_equal(check_lines(&run, "restart", "ordered"), 1);
    assert_int_equal(count_lines(&run, "\"open_ms\":{\"median\":0"), 0);
    assert_int_equal(access(folder->file, F_OK), -1);
    free_run(&run);
}

static void test_restart_beside_fio(void **state)
{
    const struct folder *folder = *state;
    struct run run;
    LAB_RUN(&run, "restart", "--json", "--records=1000", "--repeats=2", "--duration=30ms", "--only=clean",
            "--seed=7", folder->option);
    assert_success(&run);
    assert_int_equal(check_lines(&run, "restart", "clean"), 1);
    assert_int_equal(check_lines(&run, "restart", "killed"), 0);
    if (strstr(run.out, "fio is not installed") == NULL)
        assert_int_equal(count_lines(&run, "\"ratio\":{"), 1);
    free_run(&run);
}

static void test_restart_spares_old_files(void **state)
{
    const struct folder *folder = *state;
    write_old_file(folder->file, "what somebody keeps", 1 << 20);
    EXPECT_STATUS(2, "restart", folder->option);
    assert_true(file_begins_with(folder->file, "what somebody keeps"));
}

/* ---- growth ------------------------------------------------------------------------------------ */

/* The thread sanitizer takes what lfht's own threads do, of which it knows nothing, for races. */
#ifdef TESTING_SANITIZED
#define TABLES "--tables=tarn,ck_ht"
#else
#define TABLES "--tables=tarn,ck_ht,lfht"
#endif

static void test_growth_results(void **state)
{
    const struct folder *folder = *state;
    struct run run;
    LAB_RUN(&run, "growth", "--json", "--from=10000", "--to=60000", "--size=32M", "--duration=20ms",
            "--repeats=2", "--depth=3", TABLES, "--seed=7", folder->option);
    assert_success(&run);
    assert_int_equal(check_lines(&run, "growth", "index"), 1);
    assert_int_equal(check_lines(&run, "growth", "put"), 1);
    assert_int_equal(check_lines(&run, "growth", "put-p99.99"), 1);
    assert_int_equal(count_lines(&run, "\"name\":\"tarn\",\"rate\""), 1);
    assert_int_equal(count_lines(&run, "\"count\":100000,"), 1); /* 50,000 inserts, twice */
    assert_int_equal(count_lines(&run, "\"name\":\"collection\",\"rate\""), 2);
    assert_int_equal(access(folder->file, F_OK), -1);
    free_run(&run);
}

static void test_growth_spares_old_files(void **state)
{
    const struct folder *folder = *state;
    struct run run;
    write_old_file(folder->file, "what somebody keeps", 1 << 20);
    LAB_RUN(&run, "growth", "--only=put", folder->option);
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.err, "--force makes a store of it"));
    assert_true(file_begins_with(folder->file, "what somebody keeps"));
    free_run(&run);
}

/* ---- amplification ----------------------------------------------------------------------------- */

/* The paper's own figure; and c = 1/e gives 1 - 1/e of live bytes. */
static void test_greedy_bound(void **state)
{
    (void)state;
    const double e = 2.718281828459045;
    assert_true(fabs(lab_greedy_bound(1 / 1.3) - 2.36) < 0.005);
    assert_true(fabs(lab_greedy_bound(1 - 1 / e) - 1 / (1 - 1 / e)) < 1e-9);
    assert_true(fabs(lab_greedy_bound(0) - 1) < 1e-6);
}

/* A value of the only case with that name and, in its line, that text. */
static double value_of(const struct run *run, const char *text, const char *name)
{
    struct base_json_value all;
    struct base_json_value value;
    for (const char *line = run->out; *line != '\0'; line += strcspn(line, "\n") + 1) {
        size_t len = strcspn(line, "\n");
        if (memmem(line, len, text, strlen(text)) == NULL)
            continue;
        assert_int_equal(base_json_parse(line, len, &all), 0);
        assert_int_equal(base_json_member(all, "subjects", &value), 0);
        assert_int_equal(base_json_element(value, 0, &value), 0);
        assert_int_equal(base_json_member(value, "values", &value), 0);
        assert_int_equal(base_json_member(value, name, &value), 0);
        return number_of(value, "median");
    }
    fail_msg("no %s", text);
    return 0;
}

/* What must be moved in any case bounds what was: a get reads a whole value in whole blocks, a put writes it.
 */
static void test_amplification_results(void **state)
{
    (void)state;
    struct run run;
    LAB_RUN(&run, "amplification", "--json", "--size=32M", "--sizes=4096,400", "--gets=1000", "--repeats=1",
            "--seed=7");
    assert_success(&run);
    assert_int_equal(check_lines(&run, "amplification", "read"), 4);
    assert_int_equal(check_lines(&run, "amplification", "write"), 4);
    assert_int_equal(check_lines(&run, "amplification", "collection"), 2);
    double large =
        value_of(&run, "\"read\",\"parameters\":{\"value_bytes\":4096,\"block_bytes\":512", "amplification");
    assert_true(large > 1 && large < 1.3);
    double blocks =
        value_of(&run, "\"read\",\"parameters\":{\"value_bytes\":400,\"block_bytes\":4096", "blocks_per_get");
    assert_true(blocks >= 1 && blocks < 1.2);
    assert_true(value_of(&run, "\"write\",\"parameters\":{\"value_bytes\":400,", "amplification") > 1);
    double uniform = value_of(&run, "\"keys\":\"uniform\"", "collection_alone");
    double skewed = value_of(&run, "\"keys\":\"90/10\"", "collection_alone");
    assert_true(uniform > skewed && skewed > 1);
    assert_in_range(value_of(&run, "\"keys\":\"uniform\"", "live_percent"), 50, 80);
    free_run(&run);
}

static bool has_two_cores(void)
{
    struct bench_machine machine;
    bench_machine_read(&machine);
    return bench_has_two_cores(&machine);
}

static void test_fabric_results(void **state)
{
    (void)state;
    struct run run;
    LAB_RUN(&run, "fabric", "--json", "--duration=1ms", "--repeats=2", "--sizes=8,64K", "--depths=1,4",
            "--region=1M", "--making=2M", "--no-peers", "--seed=7");
    assert_success(&run);
    assert_int_equal(check_lines(&run, "fabric", "memory"),
                     10); /* two sizes, hot and cold; and CAS of the first */
    assert_int_equal(count_lines(&run, "\"op\":\"cas\",\"bytes\":8,"), 2);
    bool two = has_two_cores();
    assert_int_equal(check_lines(&run, "fabric", "message"), two ? 2 : 0);
    assert_int_equal(check_lines(&run, "fabric", "operation"), two ? 8 : 0);
    assert_int_equal(check_lines(&run, "fabric", "region"), two ? 2 : 0);
    assert_int_equal(count_lines(&run, "skipped"), 0);
    free_run(&run);
}

/*
 * In place of the programs that are measured beside it, as they print: 2 million one-way messages a second,
 * 8.80 us a way, 3,000,000,000 bytes in 1.5 s.
 */
static const char fake_peer[] =
    "#!/usr/bin/python3 -IS\n"
    "import re, socket, sys\n"
    "port = int(re.search(r' -[pBP](\\d+)', ' '.join(sys.argv)).group(1))\n"
    "if '127.0.0.1' not in ' '.join(sys.argv):\n"
    "    socket.create_server(('127.0.0.1', port)).accept()\n"
    "    sys.exit()\n"
    "socket.create_connection(('127.0.0.1', port))\n"
    "if 'ucx' in sys.argv[0]:\n"
    "    print('a,b,c,d,e,f,g,h\\n9,1,1,1,1,1,1,2000000')\n"
    "elif 'fi_' in sys.argv[0]:\n"
    "    print('bytes #sent\\n8 1k =1k 1m 1.76s 0.91 8.80 0.11')\n"
    "else:\n"
    "    print('{\"end\":{\"sum_received\":{\"bytes\":3000000000,\"seconds\":1.5}}}')\n";

/* Of a subject of the first case whose line has that text. */
static double median_of(const struct run *run, const char *text, const char *subject)
{
    struct base_json_value all, subjects, one, rate, name;
    const char *line = run->out;
    while (*line != '\0' && memmem(line, strcspn(line, "\n"), text, strlen(text)) == NULL)
        line += strcspn(line, "\n") + 1;
    assert_int_equal(base_json_parse(line, strcspn(line, "\n"), &all), 0);
    assert_int_equal(base_json_member(all, "subjects", &subjects), 0);
    for (size_t i = 0; base_json_element(subjects, i, &one) == 0; i++) {
        assert_int_equal(base_json_member(one, "name", &name), 0);
        if (strncmp(name.begin + 1, subject, strlen(subject)) != 0)
            continue;
        assert_int_equal(base_json_member(one, "rate", &rate), 0);
        return number_of(rate, "median");
    }
    fail_msg("no %s", subject);
    return 0;
}

static void test_rpc_results(void **state)
{
    (void)state;
    struct run run;
    LAB_RUN(&run, "rpc", "--json", "--duration=1ms", "--repeats=2", "--sizes=8,4K", "--depths=1,5",
            "--no-peers", "--seed=7");
    assert_success(&run);
    assert_int_equal(check_lines(&run, "rpc", "call"), has_two_cores() ? 8 : 0);
    assert_int_equal(count_lines(&run, "skipped"), 0);
    assert_int_equal(count_lines(&run, "\"epoll\""), has_two_cores() ? 4 : 0);
    free_run(&run);
}

static void test_fabric_beside_peers(void **state)
{
    const struct folder *folder = *state;
    static const char *const names[] = {"ucx_perftest", "fi_pingpong", "iperf3"};
    char path[128], old[4096];
    struct run run;
    if (!has_two_cores())
        skip();
    (void)snprintf(old, sizeof(old), "%s", getenv("PATH"));
    for (unsigned there = 0; there < 2; there++) {
        for (size_t i = 0; i < base_array_count(names) && there == 1; i++) {
            (void)snprintf(path, sizeof(path), "%s/%s", folder->path, names[i]);
            int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
            assert_int_equal(write(fd, fake_peer, sizeof(fake_peer) - 1), sizeof(fake_peer) - 1);
            assert_int_equal(close(fd), 0);
        }
        assert_int_equal(setenv("PATH", folder->path, 1), 0);
        LAB_RUN(&run, "fabric", "--json", "--duration=1ms", "--repeats=1", "--sizes=64K,8", "--depths=1",
                "--region=1M", "--only=message,operation", "--providers=tcp", "--seed=7");
        assert_int_equal(setenv("PATH", old, 1), 0);
        assert_success(&run);
        if (there == 0) {
            assert_int_equal(count_lines(&run, "\"ucx\",\"skipped\":\"it is not installed\""), 5);
            assert_int_equal(count_lines(&run, "\"iperf3\",\"skipped\":\"it is not installed\""), 2);
        } else {
            static const char large[] = "\"op\":\"read\",\"bytes\":65536,";
            assert_in_range(median_of(&run, "\"op\":\"message\"", "ucx"), 999000, 1001000);
            assert_in_range(median_of(&run, "\"op\":\"message\"", "libfabric"), 56000, 57000);
            assert_in_range(median_of(&run, large, "ucx"), 1998000, 2002000);
            assert_in_range(median_of(&run, large, "iperf3"), 29900, 31100);
            assert_int_equal(count_lines(&run, "ping-pong alone"), 2);
        }
        free_run(&run);
    }
    for (size_t i = 0; i < base_array_count(names); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder->path, names[i]);
        assert_int_equal(unlink(path), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_task_results),
        cmocka_unit_test(test_task_only),
        cmocka_unit_test(test_echo_beyond_the_limit_of_files),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_index_results),
        cmocka_unit_test(test_index_only),
        cmocka_unit_test_setup_teardown(test_drive_results, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_drive_beside_fio, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_drive_spares_old_files, make_folder, remove_folder),
        cmocka_unit_test(test_drive_failure),
        cmocka_unit_test_setup_teardown(test_depot_results, make_memory_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_depot_threads, make_memory_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_depot_two_cores, make_memory_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_depot_beside_fio, make_memory_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_depot_memory, make_memory_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_depot_spares_old_files, make_memory_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_restart_results, make_memory_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_restart_beside_fio, make_memory_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_restart_spares_old_files, make_memory_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_growth_results, make_memory_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_growth_spares_old_files, make_memory_folder, remove_folder),
        cmocka_unit_test(test_greedy_bound),
        cmocka_unit_test(test_amplification_results),
        cmocka_unit_test(test_fabric_results),
        cmocka_unit_test(test_rpc_results),
        cmocka_unit_test_setup_teardown(test_fabric_beside_peers, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
