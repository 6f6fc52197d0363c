/* Which operations and records are drawn, what the load does with an engine, and the command. */
#include "lab/testing.h"

#include "lab/ycsb.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>

enum { DRAWS = 200000, RECORDS = 40, RECORDS_MAX = 60, VALUE_BYTES = 64 };

/* ---- drawing ----------------------------------------------------------------------------------- */

static const struct lab_ycsb_workload *workload_of(const char *name)
{
    for (size_t i = 0; i < LAB_YCSB_WORKLOADS; i++) {
        if (strcmp(lab_ycsb_workloads[i].name, name) == 0)
            return &lab_ycsb_workloads[i];
    }
    fail();
    return NULL;
}

static void test_shares_of_operations(void **state)
{
    (void)state;
    struct base_random random;
    base_random_init(&random, 7);
    for (size_t i = 0; i < LAB_YCSB_WORKLOADS; i++) {
        const struct lab_ycsb_workload *workload = &lab_ycsb_workloads[i];
        uint64_t counts[LAB_YCSB_OP_COUNT] = {0};
        int percent = 0;
        for (int draw = 0; draw < DRAWS; draw++)
            counts[lab_ycsb_draw_op(workload, &random)]++;
        for (int op = 0; op < LAB_YCSB_OP_COUNT; op++) {
            double expected = DRAWS * workload->percent[op] / 100.0;
            assert_true(fabs((double)counts[op] - expected) < 5 * sqrt(expected) + 0.5);
            percent += workload->percent[op];
        }
        assert_int_equal(percent, 100);
    }
    assert_true(workload_of("a")->percent[LAB_YCSB_UPDATE] == 50);
    assert_true(workload_of("b")->percent[LAB_YCSB_READ] == 95);
    assert_true(workload_of("c")->percent[LAB_YCSB_READ] == 100);
    assert_true(workload_of("d")->percent[LAB_YCSB_INSERT] == 5 && workload_of("d")->latest);
    assert_true(workload_of("f")->percent[LAB_YCSB_MODIFY] == 50);
}

/* The share of rank 0 is 1 / zeta(items); that of the two first of D is the same, at the end of all numbers.
 */
static void test_latest_is_the_most_popular(void **state)
{
    (void)state;
    enum { ITEMS = 1000, PRESENT = 1500 };
    struct base_random_zipf zipf;
    struct base_random random;
    uint64_t newest = 0;
    double zeta = 0;
    base_random_init(&random, 7);
    base_random_zipf_init(&zipf, ITEMS, LAB_YCSB_EXPONENT);
    for (int k = 1; k <= ITEMS; k++)
        zeta += pow(k, -LAB_YCSB_EXPONENT);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t number = lab_ycsb_draw_number(workload_of("d"), &zipf, PRESENT, &random);
        assert_in_range(number, PRESENT - ITEMS, PRESENT - 1);
        newest += number == PRESENT - 1;
    }
    assert_true(fabs((double)newest - DRAWS / zeta) < 5 * sqrt(DRAWS / zeta));
}

/* The most popular record has at least rank 0's share, and is not at an end of the numbers; all are in range.
 */
static void test_popular_records_are_scattered(void **state)
{
    (void)state;
    enum { ITEMS = 1000 };
    struct base_random_zipf zipf;
    struct base_random random;
    uint64_t counts[ITEMS] = {0};
    size_t top = 0;
    base_random_init(&random, 7);
    base_random_zipf_init(&zipf, ITEMS, LAB_YCSB_EXPONENT);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t number = lab_ycsb_draw_number(workload_of("a"), &zipf, ITEMS, &random);
        assert_in_range(number, 0, ITEMS - 1);
        counts[number]++;
    }
    for (size_t i = 0; i < ITEMS; i++)
        top = counts[i] > counts[top] ? i : top;
    assert_true((double)counts[top] > DRAWS / zipf.zeta_items * 0.95);
    assert_in_range(top, 2, ITEMS - 3);
    assert_true(counts[top + 1] < counts[top] / 2 && counts[top - 1] < counts[top] / 2);
}

static void test_what_is_being_inserted_is_not_there(void **state)
{
    (void)state;
    struct lab_ycsb_numbers numbers;
    lab_ycsb_numbers_init(&numbers, 10);
    assert_int_equal(lab_ycsb_present(&numbers), 10);
    assert_int_equal(lab_ycsb_insert(&numbers, 0), 10);
    assert_int_equal(lab_ycsb_insert(&numbers, 1), 11);
    assert_int_equal(lab_ycsb_present(&numbers), 10);
    lab_ycsb_inserted(&numbers, 1);
    assert_int_equal(lab_ycsb_present(&numbers), 10); /* 11 is there, 10 is not */
    assert_int_equal(lab_ycsb_insert(&numbers, 1), 12);
    lab_ycsb_inserted(&numbers, 0);
    assert_int_equal(lab_ycsb_present(&numbers), 12);
    lab_ycsb_inserted(&numbers, 1);
    assert_int_equal(lab_ycsb_present(&numbers), 13);
}

/* ---- the load, on an engine that forgets ------------------------------------------------------------ */

/* Records by number; calls are counted, and one record may be lost or changed. */
struct fake {
    bool there[RECORDS_MAX + LAB_YCSB_THREADS_MAX];
    uint8_t values[RECORDS_MAX + LAB_YCSB_THREADS_MAX][VALUE_BYTES];
    uint64_t gets, puts, inserts;
    pthread_mutex_t lock;
};

static struct fake fake;

static uint64_t number_of_key(const void *key)
{
    uint8_t other[LAB_DEPOT_KEY_BYTES];
    for (uint64_t i = 0; i < base_array_count(fake.there); i++) {
        lab_depot_key(i, other);
        if (memcmp(key, other, sizeof(other)) == 0)
            return i;
    }
    fail();
    return 0;
}

static int fake_get(void *session, const void *key, size_t key_bytes, void *value)
{
    (void)session;
    assert_int_equal(key_bytes, LAB_DEPOT_KEY_BYTES);
    uint64_t number = number_of_key(key);
    (void)pthread_mutex_lock(&fake.lock);
    fake.gets++;
    int error = fake.there[number] ? 0 : -ENOENT;
    memcpy(value, fake.values[number], VALUE_BYTES);
    (void)pthread_mutex_unlock(&fake.lock);
    return error;
}

static int fake_put(void *session, const void *key, size_t key_bytes, const void *value)
{
    (void)session;
    assert_int_equal(key_bytes, LAB_DEPOT_KEY_BYTES);
    uint64_t number = number_of_key(key);
    (void)pthread_mutex_lock(&fake.lock);
    fake.puts++;
    fake.inserts += !fake.there[number];
    fake.there[number] = true;
    memcpy(fake.values[number], value, VALUE_BYTES);
    (void)pthread_mutex_unlock(&fake.lock);
    return 0;
}

static const struct lab_ycsb_engine fake_engine = {.name = "fake", .get = fake_get, .put = fake_put};

struct fixture {
    struct base_account account;
    struct bench bench;
    struct lab_ycsb_place place;
    struct lab_ycsb_load load;
    struct lab_ycsb_report report;
};

static int make_fixture(void **state)
{
    struct fixture *fixture = test_calloc(1, sizeof(*fixture));
    base_account_init(&fixture->account, BASE_ACCOUNT_UNLIMITED);
    fixture->bench =
        (struct bench){.program = &lab_program, .account = &fixture->account, .options = {.seed = 7}};
    fixture->place = (struct lab_ycsb_place){
        .account = &fixture->account, .records_max = RECORDS_MAX, .value_bytes = VALUE_BYTES};
    fixture->load = (struct lab_ycsb_load){
        .engine = &fake_engine, .place = &fixture->place, .store = &fake, .records = RECORDS};
    fixture->load.values.bench = &fixture->bench;
    lab_ycsb_numbers_init(&fixture->load.numbers, 0);
    base_random_zipf_init(&fixture->load.zipf, RECORDS, LAB_YCSB_EXPONENT);
    fake = (struct fake){.lock = PTHREAD_MUTEX_INITIALIZER};
    *state = fixture;
    return lab_depot_set_value_bytes(&fixture->load.values, VALUE_BYTES);
}

static int free_fixture(void **state)
{
    struct fixture *fixture = *state;
    lab_depot_store_close(&fixture->load.values);
    base_account_deinit(&fixture->account); /* nothing is left */
    test_free(fixture);
    return 0;
}

static int run_workload(struct fixture *fixture, const char *name, uint32_t threads, uint64_t duration_ns)
{
    const struct lab_ycsb_job job = {.threads = threads, .seed = 7};
    return lab_ycsb_run(&fixture->load, &job, workload_of(name), duration_ns, &fixture->report);
}

static int insert_all(struct fixture *fixture)
{
    const struct lab_ycsb_job job = {.workload = LAB_YCSB_LOAD, .threads = 1, .seed = 7};
    return lab_ycsb_run(&fixture->load, &job, NULL, 0, &fixture->report);
}

/* As long as it takes for enough operations: the machine may do something else. */
static void run_enough(struct fixture *fixture, const char *name, uint32_t threads)
{
    fixture->report.operations = 0;
    for (uint64_t ms = 20; fixture->report.operations < 100; ms *= 2) {
        fake.gets = fake.puts = 0;
        assert_int_equal(run_workload(fixture, name, threads, ms * BASE_NS_PER_MS), 0);
        assert_true(fixture->report.elapsed_ns >= ms * BASE_NS_PER_MS);
    }
}

static void test_load_does_what_it_says(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(insert_all(fixture), 0);
    assert_int_equal(fake.inserts, RECORDS);
    assert_int_equal(fixture->report.operations, RECORDS);
    assert_int_equal(base_histogram_count(&fixture->report.latency), RECORDS);
    assert_true(fixture->report.elapsed_ns > 0);

    run_enough(fixture, "c", 2);
    assert_true(fake.gets == fixture->report.operations && fake.puts == 0);
    run_enough(fixture, "f", 2);
    assert_int_equal(fake.gets, fixture->report.operations); /* a modification is a read, too */
    assert_in_range(fake.puts, 1, fixture->report.operations - 1);
    run_enough(fixture, "a", 1);
    assert_int_equal(fake.gets + fake.puts, fixture->report.operations);
    assert_in_range(fake.puts, 1, fixture->report.operations - 1);
    assert_int_equal(fake.inserts, RECORDS);
}

/* It ends where there is no room for more. */
static void test_inserts_end(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(insert_all(fixture), 0);
    assert_int_equal(run_workload(fixture, "d", 2, 60 * BASE_NS_PER_SECOND), 0);
    assert_in_range(fake.inserts, RECORDS_MAX, RECORDS_MAX + 1);
    assert_int_equal(lab_ycsb_present(&fixture->load.numbers), fake.inserts);
}

static void test_load_notices(void **state)
{
    struct fixture *fixture = *state;
    const uint64_t duration_ns = 60 * BASE_NS_PER_SECOND;
    assert_int_equal(insert_all(fixture), 0);
    memset(fake.there, 0, sizeof(fake.there));
    assert_int_equal(run_workload(fixture, "c", 1, duration_ns), -ENOENT);
    memset(fake.there, 1, sizeof(fake.there));
    memmove(fake.values[0], fake.values[1],
            (RECORDS - 1) * sizeof(fake.values[0])); /* each its neighbour's */
    assert_int_equal(run_workload(fixture, "c", 2, duration_ns), -EBADMSG);
}

/* ---- libraries and groups --------------------------------------------------------------------------- */

struct maths {
    double (*cos)(double);
};

static int load_library(const char *file, const char *name, struct maths *maths, struct lab_ycsb_place *place)
{
    const struct lab_ycsb_engine engine = {
        .library = file, .names = (const char *const[]){name}, .name_count = 1, .calls = maths};
    *place = (struct lab_ycsb_place){.folder = ""};
    return lab_ycsb_library(place, &engine);
}

static void test_libraries(void **state)
{
    (void)state;
    struct maths maths = {NULL};
    struct lab_ycsb_place place;
    assert_int_equal(load_library("libm.so.6", "cos", &maths, &place), 0);
    assert_true(maths.cos(0) == 1);
    assert_int_equal(load_library("libm.so.6", "no_such_function", &maths, &place), -ELIBACC);
    assert_non_null(strstr(place.why, "no_such_function"));
    assert_int_equal(load_library("libno-such.so", "cos", &maths, &place), -ELIBACC);
    assert_non_null(strstr(place.why, "libno-such.so"));
}

static int make_folder(void **state)
{
    struct folder *folder = test_calloc(1, sizeof(*folder));
    *state = folder;
    return make_folder_in(folder, in_memory(), "stores");
}

static int remove_folder(void **state)
{
    struct folder *folder = *state;
    int error = rmdir(folder->path); /* fails if anything was left behind */
    test_free(folder);
    return error;
}

/* A plain folder has no limits. */
static void test_no_memory_group(void **state)
{
    const struct folder *folder = *state;
    char option[128];
    struct run run;
    (void)snprintf(option, sizeof(option), "--memory-group=%s", folder->path);
    LAB_RUN(&run, "ycsb", folder->option, option, "--engines=tarn", "--data=100K");
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.err, "is no memory control group"));
    free_run(&run);
    LAB_RUN(&run, "ycsb", folder->option, "--memory-group=/no/such/group", "--engines=tarn", "--data=100K");
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.err, "making the control group /no/such/group/tarn-bench-tarn"));
    free_run(&run);
}

/* ---- the command -------------------------------------------------------------------------------------- */

/* Sanitizers know nothing of what other people's libraries do. */
#ifdef TESTING_SANITIZED
#define ENGINES "--engines=tarn"
#else
#define ENGINES "--engines=tarn,rocksdb,lmdb,wiredtiger"
#endif

/* @return subjects that have a rate: on a busy machine one may do nothing in so short a time */
static size_t check_line(const char *line, size_t len, size_t subjects)
{
    size_t rates = 0;
    struct base_json_value all;
    struct base_json_value list;
    struct base_json_value subject;
    struct base_json_value member;
    assert_int_equal(base_json_parse(line, len, &all), 0);
    assert_int_equal(base_json_member(all, "subjects", &list), 0);
    assert_int_equal(base_json_element(list, subjects, &subject), -ENOENT);
    for (size_t i = 0; i < subjects; i++) {
        assert_int_equal(base_json_element(list, i, &subject), 0);
        if (base_json_member(subject, "skipped", &member) == 0)
            continue;
        if (base_json_member(subject, "rate", &member) == 0) {
            assert_true(number_of(member, "max") > 0); /* inserts may come to their end in the first repeat */
            rates++;
        }
        assert_int_equal(base_json_member(subject, "values", &member), 0);
        assert_int_equal(base_json_member(member, "memory_bytes", &member), 0);
        assert_true(number_of(member, "min") > 0);
    }
    return rates;
}

static void test_results(void **state)
{
    const struct folder *folder = *state;
    struct run run;
    LAB_RUN(&run, "ycsb", "--json", folder->option, ENGINES, "--memory=32M", "--data=1M", "--duration=20ms",
            "--repeats=2", "--seed=7", "--no-direct");
    assert_success(&run);
    assert_non_null(strstr(run.err, "no --memory-group")); /* never without a word */
    size_t lines = 0, rates = 0;
    for (const char *line = run.out; *line != '\0'; line += strcspn(line, "\n") + 1, lines++)
        rates += check_line(line, strcspn(line, "\n"), count_of(ENGINES, ",") + 1);
    assert_int_equal(lines, 6 * 2 * 2); /* load and workloads, threads, sync */
    assert_true(rates > lines / 2);
    assert_int_equal(count_of(run.out, "\"memory_limit\":\"options\""), lines);
    assert_int_equal(count_of(run.out, "\"name\":\"load\""), 4);
    assert_int_equal(count_of(run.out, "\"sync\":\"yes\",\"threads\":2"), 6);
    assert_int_equal(access(folder->file, F_OK), -1);
    free_run(&run);
}

static void test_only(void **state)
{
    const struct folder *folder = *state;
    struct run run;
    LAB_RUN(&run, "ycsb", folder->option, "--engines=tarn", "--only=d,c", "--threads=3", "--sync=no",
            "--data=500K", "--duration=5ms", "--repeats=1", "--value=256", "--no-direct");
    assert_success(&run);
    assert_non_null(strstr(run.out, "note: no --memory-group"));
    const char *c = strstr(run.out, "c sync=no threads=3 records=1882 value_bytes=256");
    const char *d = strstr(run.out, "d sync=no threads=3 ");
    assert_true(c != NULL && d > c);
    assert_null(strstr(run.out, "load "));
    free_run(&run);
}

static void expect_usage(const char *option)
{
    struct run run;
    LAB_RUN(&run, "ycsb", option);
    assert_int_equal(run.status, 2);
    assert_true(run.err_bytes > 0);
    free_run(&run);
}

static void test_usage(void **state)
{
    const struct folder *folder = *state;
    char option[128];
    expect_usage("--only=e");
    expect_usage("--engines=bdb");
    expect_usage("--threads=0");
    expect_usage("--threads=65");
    expect_usage("--sync=maybe");
    expect_usage("--value=65");
    expect_usage("--value=32");
    expect_usage("--data=1K");
    expect_usage("--memory=1M");
    (void)snprintf(option, sizeof(option), "--path=%s", folder->path); /* somebody's */
    expect_usage(option);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_of_operations),
        cmocka_unit_test(test_latest_is_the_most_popular),
        cmocka_unit_test(test_popular_records_are_scattered),
        cmocka_unit_test(test_what_is_being_inserted_is_not_there),
        cmocka_unit_test_setup_teardown(test_load_does_what_it_says, make_fixture, free_fixture),
        cmocka_unit_test_setup_teardown(test_inserts_end, make_fixture, free_fixture),
        cmocka_unit_test_setup_teardown(test_load_notices, make_fixture, free_fixture),
        cmocka_unit_test(test_libraries),
        cmocka_unit_test_setup_teardown(test_no_memory_group, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_results, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_only, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_usage, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
