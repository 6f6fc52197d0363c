/* The command as a user runs it, with a small script for Tarn's server: this program is not tarn. */
#include "lab/testing.h"

#include "lab/memcache.h"
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#define EXPECT(status, text, ...)                                                                            \
    expect_run(status, &lab_program, (const char *const[]){"memcache", __VA_ARGS__, NULL}, text)

/* ---- usage --------------------------------------------------------------------------------------- */

static void test_usage(void **state)
{
    (void)state;
    EXPECT(2, "--disk-read-share: ''", "--disk-read-share=");
    EXPECT(2, "--ext-threads: '65'", "--ext-threads=65");
    EXPECT(2, "--ext-threads: '0'", "--ext-threads=1,0");
    EXPECT(2, "ext-threads", "--ext-threads=1,2,3,4,5");
    EXPECT(2, "--peers has no 'mysql'", "--peers=mysql");
    EXPECT(2, "no ':' or ','", "--path=a:b");
    EXPECT(2, "/dev/null is there already", "--path=/dev/null");
    EXPECT(0, "--ext-threads", "--help");
}

/* ---- servers that are started -------------------------------------------------------------------- */

/* A folder, and the program there that takes the part of Tarn's server. */
struct place {
    struct folder folder;
    char program[96];
    char program_option[128];
};

static int make_place_at(void **state, const char *parent)
{
    struct place *place = test_calloc(1, sizeof(*place));
    *state = place;
    int error = make_folder_in(&place->folder, parent, "data");
    (void)snprintf(place->program, sizeof(place->program), "%s%s/program", parent[0] == '/' ? "" : "./",
                   place->folder.path);
    (void)snprintf(place->program_option, sizeof(place->program_option), "--program=%s", place->program);
    return error;
}

static int make_place(void **state)
{
    return make_place_at(state, "");
}

static int make_memory_place(void **state)
{
    return make_place_at(state, in_memory());
}

static int remove_place(void **state)
{
    struct place *place = *state;
    (void)unlink(place->program);
    int error = rmdir(place->folder.path); /* fails if anything was left behind */
    test_free(place);
    return error;
}

/* @param body  of a shell script, where $port and $data are what it was told */
static void write_program(const struct place *place, const char *body)
{
    FILE *file = fopen(place->program, "we");
    assert_non_null(file);
    (void)fprintf(
        file,
        "#!/bin/sh\nfor option; do case $option in\n"
        "--listen=127.0.0.1:*) port=${option##*:};;\n--data=*) data=${option#--data=};;\nesac; done\n"
        ": >$data\n%s\n",
        body);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(place->program, 0700), 0);
}

static const char memcached_script[] = "user=; test $(id -u) = 0 && user='-u root'\n"
                                       "exec memcached $user -l 127.0.0.1 -p $port -U 0 -t 1 -m 64";

static void test_beside_memcached(void **state)
{
    const struct place *place = *state;
    struct run run;
    if (!lab_memcache_is_installed("memcached"))
        skip();
    write_program(place, memcached_script);
    LAB_RUN(&run, "memcache", place->folder.option, place->program_option, "--json", "--keys=2000",
            "--connections=4", "--duration=150ms", "--repeats=2", "--pipeline=4,1x5",
            "--seed=7"); /* long enough to be served on a busy machine */
    assert_success(&run);
    assert_int_equal(run.err_bytes, 0);
    assert_int_equal(count_of(run.out, "\"subjects\":[{\"name\":\"tarn\",\"rate\":"), 4);
    assert_int_equal(count_of(run.out, "{\"name\":\"memcached\",\"rate\":"), 4);
    assert_int_equal(count_of(run.out, "\"name\":\"redis\""), 4);
    assert_int_equal(count_of(run.out, "\"ratio\":"),
                     lab_memcache_is_installed("redis-server") ? 8 : 4); /* or "not installed" */
    assert_int_equal(count_of(run.out, "\"p99.9\":"), lab_memcache_is_installed("redis-server") ? 12 : 8);
    free_run(&run);
}

/* Skips the test unless there is memcached, and the folder is on a disk. */
static void begin_extstore(const struct place *place)
{
    struct statfs system;
    if (!lab_memcache_is_installed("memcached") || statfs(place->folder.path, &system) != 0 ||
        system.f_type == TMPFS_MAGIC)
        skip();
    write_program(place, memcached_script);
}

static void assert_near(double value, double expected)
{
    assert_true(value > expected - 0.5 && value < expected + 0.5);
}

/* An item of 1,099 bytes lies in 1.27 pages, on average. */
static void test_from_memory_percent(void **state)
{
    (void)state;
    assert_near(lab_memcache_from_memory_percent(1000, 1000, 5194, 1024), 0);
    assert_near(lab_memcache_from_memory_percent(1000, 900, 5194, 1024), 10);
    assert_near(lab_memcache_from_memory_percent(1000, 1000, 5194 * 0.75, 1024), 25);
    assert_near(lab_memcache_from_memory_percent(1000, 600, 5194 * 0.75, 1024), 40);
    assert_near(lab_memcache_from_memory_percent(1000, 1000, 0, 1024), 100);
    assert_near(lab_memcache_from_memory_percent(1000, 1000, 20000, 1024), 0);
    assert_near(lab_memcache_from_memory_percent(0, 0, 0, 1024), 0);
}

/* The median of a value of a subject of a case. */
static double value_of(struct base_json_value line, uint32_t subject, const char *name)
{
    struct base_json_value value;
    assert_int_equal(base_json_member(line, "subjects", &value), 0);
    assert_int_equal(base_json_element(value, subject, &value), 0);
    assert_int_equal(base_json_member(value, "values", &value), 0);
    assert_int_equal(base_json_member(value, name, &value), 0);
    return number_of(value, "median");
}

/* The first line is of the numbers of threads that are tried. A fifth of the items is in the write buffer,
 * and all the others are on the disk; what a file system says that tells of no reads says nothing. */
static void check_cold(const char *out)
{
    struct base_json_value line;
    assert_int_equal(base_json_parse(out, strcspn(out, "\n"), &line), 0);
    for (uint32_t i = 0; i < 2; i++) {
        if (value_of(line, i, "read_bytes") > 0)
            assert_true(value_of(line, i, "from_memory_percent") < 40);
    }
}

/* extstore, every get cold; nobody reads Tarn's file, so that fio is not told to either. */
static void test_beside_extstore(void **state)
{
    const struct place *place = *state;
    struct run run;
    begin_extstore(place);
    LAB_RUN(&run, "memcache", place->folder.option, place->program_option, "--json", "--keys=20000",
            "--connections=4", "--duration=50ms", "--repeats=2", "--pipeline=4", "--ext-threads=1,2",
            "--seed=7");
    assert_success(&run);
    assert_int_equal(count_of(run.out, "\"name\":\"extstore\",\"parameters\""), 1);
    assert_int_equal(count_of(run.out, "\"name\":\"threads=2\",\"rate\""), 1);
    assert_int_equal(count_of(run.out, "{\"name\":\"extstore\",\"rate\":"), 2);
    assert_int_equal(count_of(run.out, "\"page_cache\":\"fadvise\""), 2);
    assert_int_equal(count_of(run.out, "\"from_memory_percent\":{\"median\":"), 6);
    assert_int_equal(count_of(run.out, "{\"name\":\"fio\",\"skipped\":\""), 1); /* closed loop */
    check_cold(run.out);
    free_run(&run);
}

static void test_small_values_are_not_for_extstore(void **state)
{
    const struct place *place = *state;
    begin_extstore(place);
    EXPECT(0, "skipped: it keeps such small values in memory", place->folder.option, place->program_option,
           "--keys=200", "--connections=4", "--duration=50ms", "--repeats=1", "--pipeline=1", "--sizes=100",
           "--peers=extstore", "--no-open-loop");
}

/* What a server says on its last breath is repeated. */
static void test_server_does_not_start(void **state)
{
    const struct place *place = *state;
    struct run run;
    write_program(place, "echo 'no luck today' >&2; exit 3");
    LAB_RUN(&run, "memcache", place->folder.option, place->program_option, "--keys=10");
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.err, "no luck today\n"));
    assert_non_null(strstr(run.err, "tarn ended instead of serving"));
    assert_int_equal(access(place->folder.file, F_OK), -1);
    free_run(&run);
    EXPECT(1, "/no/such/program: No such file", place->folder.option, "--program=/no/such/program",
           "--keys=10");
}

/* A group that cannot be joined: said, before anything is measured. */
static void test_no_such_group(void **state)
{
    const struct place *place = *state;
    begin_extstore(place);
    EXPECT(1, "/no/such/group/cgroup.procs: No such file", place->folder.option, place->program_option,
           "--keys=10", "--connections=1", "--duration=50ms", "--ext-threads=1",
           "--memory-group=/no/such/group");
}

/* The group's list of processes is written to; then its limit keeps the cache small, and no child does. */
static void test_group(void **state)
{
    const struct place *place = *state;
    char procs[96];
    char option[96];
    struct run run;
    begin_extstore(place);
    (void)snprintf(procs, sizeof(procs), "%s/cgroup.procs", place->folder.path);
    (void)snprintf(option, sizeof(option), "--memory-group=%s", place->folder.path);
    int fd = open(procs, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    LAB_RUN(&run, "memcache", place->folder.option, place->program_option, option, "--keys=500",
            "--connections=2", "--duration=50ms", "--repeats=1", "--pipeline=1", "--ext-threads=1",
            "--peers=extstore", "--json");
    char written[4] = "";
    assert_int_equal(read(fd, written, sizeof(written)), 2);
    assert_string_equal(written, "0\n");
    (void)close(fd);
    (void)unlink(procs);
    assert_success(&run);
    assert_int_equal(count_of(run.out, "\"page_cache\":\"memory-group\""), 2);
    free_run(&run);
}

static void test_spares_old_files(void **state)
{
    const struct place *place = *state;
    char other[128];
    (void)snprintf(other, sizeof(other), "%s.extstore", place->folder.file);
    int fd = open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    EXPECT(2, "data.extstore is there already", place->folder.option, "--keys=10");
    assert_int_equal(unlink(other), 0);
}

#define IN_PLACE(name, make) cmocka_unit_test_setup_teardown(name, make, remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_from_memory_percent),
        IN_PLACE(test_beside_memcached, make_memory_place),
        IN_PLACE(test_beside_extstore, make_place),
        IN_PLACE(test_small_values_are_not_for_extstore, make_place),
        IN_PLACE(test_server_does_not_start, make_memory_place),
        IN_PLACE(test_no_such_group, make_place),
        IN_PLACE(test_group, make_place),
        IN_PLACE(test_spares_old_files, make_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
