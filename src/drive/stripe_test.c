/* Which drives are a stripe: making one, also cut off, opening it, and all that is refused. */
#include "drive/stripe_testing.h"
#include "drive/testing.h"

#define UNIT DRIVE_UNIT_BYTES_MIN

static const struct drive_options as_it_is;
static const struct drive_options to_read = {.read_only = true};
static const struct drive_options to_make = {.make_stripe = true};
static const struct drive_options to_overwrite = {.overwrite = true};

/* ---- opening ------------------------------------------------------------------------------------ */

static void test_any_order(void **state)
{
    (void)state;
    static const char *const orders[] = {"0,1,2", "2,1,0", "1,2,0", "0,2,1"};
    struct testing_members *all = testing_members_new();
    testing_stripe_fill(all, "0,1,2");
    for (size_t i = 0; i < base_array_count(orders); i++) {
        testing_stripe_expect(all, orders[i], &as_it_is);
        testing_stripe_expect(all, orders[i], &to_read);
        testing_stripe_expect(all, orders[i], &to_make); /* what is there stays */
    }
    testing_members_free(all);
}

/* A label may have been seen in a cache only, of a process that was killed: it is flushed before it counts.
 */
static void test_labels_are_flushed(void **state)
{
    (void)state;
    struct testing_members *all = testing_members_new();
    testing_stripe_fill(all, "0,1,2");
    for (int member = 0; member < 3; member++)
        atomic_store(&all->members[member].drive.flushes, 0);
    testing_stripe_expect(all, "0,1,2", &to_read);
    for (int member = 0; member < 3; member++)
        assert_int_equal(all->members[member].drive.flushes, 0);
    testing_stripe_expect(all, "0,1,2", &as_it_is);
    for (int member = 0; member < 3; member++)
        assert_int_equal(all->members[member].drive.flushes, 1);
    testing_members_free(all);
}

static void test_description(void **state)
{
    (void)state;
    struct testing_members *all = testing_members_new();
    struct tarn_node *node = testing_members_node(all);
    all->members[1].logical_block_bytes = 4096;
    all->members[2].drive.physical_block_bytes = 8192;
    all->members[1].drive.physical_block_bytes = 4096;
    all->members[0].fua = all->members[1].fua = true;
    all->members[2].write_cache = true;
    all->members[0].drive.discards = all->members[1].drive.discards = true;
    all->members[1].drive.size -= 3 * UNIT + 4096; /* the smallest counts */
    struct drive *drive = testing_stripe_make(node, "0,1,2");
    const struct drive_info *info = drive_info(drive);
    assert_string_equal(info->provider, "stripe");
    assert_int_equal(info->unit_bytes, UNIT);
    assert_int_equal(info->bytes, 3 * (TESTING_MEMBER_BYTES - 5 * UNIT));
    assert_int_equal(info->logical_block_bytes, 4096);
    assert_int_equal(info->physical_block_bytes, 8192);
    assert_true(info->direct && info->write_cache);
    assert_false(info->fua || info->discard || info->device || info->created);
    assert_int_equal(drive_zeroed_bytes(drive), info->bytes);
    assert_int_equal(drive_member_count(drive), 3);
    assert_string_equal(drive_name(drive_member(drive, 2)), "\"2\"");
    drive_close(drive);
    task_node_close(node);
    assert_non_null(strstr(all->lines.info, "drive open"));
    testing_members_free(all);
}

static void test_lists(void **state)
{
    (void)state;
    struct testing_members *all = testing_members_new();
    char long_list[2 * DRIVE_MEMBERS_MAX + 4] = "0";
    for (size_t i = 0; i < DRIVE_MEMBERS_MAX; i++)
        memcpy(long_list + 1 + 2 * i, ",1", 2);
    testing_stripe_refused(all, long_list, &to_make, -EINVAL, "32 drives at most");
    testing_stripe_refused(all, "0,,1", &to_make, -EINVAL, "between two commas");
    testing_stripe_refused(all, ",0", &to_make, -EINVAL, "between two commas");
    testing_stripe_refused(all, "0,", &to_make, -EINVAL, "between two commas");
    testing_stripe_refused(all, "0,1,0", &to_make, -EINVAL, "named twice");
    assert_int_equal(testing_stripe_try(all, "0,9", &to_make), -ENOENT);
    assert_int_equal(testing_stripe_try(all, "0\\,1", &to_make), -ENOENT); /* one drive of that name */
    assert_false(drive_path_is_list("a\\,b"));
    assert_true(drive_path_is_list("a\\,b,c"));
    char path[] = "\\,a\\\\,b\\";
    drive_path_unescape(path);
    assert_string_equal(path, ",a\\,b\\");
    testing_members_free(all);
}

/* ---- refusals ----------------------------------------------------------------------------------- */

static void test_wrong_members(void **state)
{
    (void)state;
    struct testing_members *all = testing_members_new();
    testing_stripe_fill(all, "0,1,2");
    testing_stripe_fill(all, "3,4");
    static const struct drive_options *const ways[] = {&as_it_is, &to_read};
    for (size_t i = 0; i < base_array_count(ways); i++) {
        testing_stripe_refused(all, "0,2", ways[i], -EUCLEAN, "has 3 drives, name all; missing is number 2");
        testing_stripe_refused(all, "0,1,5", ways[i], -EUCLEAN, "drive=\"5\"");
        testing_stripe_refused(all, "5,0,1", ways[i], -EUCLEAN,
                               "it is blank, but the others are of a stripe");
        testing_stripe_refused(all, "0,1,2,5", ways[i], -EUCLEAN, "it is blank");
        testing_stripe_refused(all, "0,1,4", ways[i], -EUCLEAN, "drive 2 of 2 of another stripe");
        testing_stripe_refused(all, "0,1,2,4", ways[i], -EUCLEAN, "drive 2 of 2 of another stripe");
    }
    testing_stripe_refused(all, "0,1,5", &to_make, -EUCLEAN, "it is blank");
    memset(all->members[5].drive.bytes, 1, TESTING_MEMBER_BYTES);
    testing_stripe_refused(all, "0,1,5", &as_it_is, -EUCLEAN, "it is not of a stripe");
    memcpy(all->members[5].drive.bytes, all->members[1].drive.bytes, TESTING_MEMBER_BYTES);
    testing_stripe_refused(all, "0,1,5", &as_it_is, -EUCLEAN, "one is a copy");
    testing_stripe_expect(all, "0,5,2", &as_it_is); /* a copy is as good as the drive */
    all->members[1].drive.size -= UNIT;
    testing_stripe_refused(all, "0,1,2", &as_it_is, -EUCLEAN, "give it its size back");
    all->members[1].drive.size += UNIT;
    all->members[1].drive.physical_block_bytes = 2 * UNIT;
    testing_stripe_refused(all, "0,1,2", &as_it_is, -EUCLEAN, "its blocks are larger");
    all->members[1].drive.physical_block_bytes = 0;
    all->members[1].logical_block_bytes = all->members[1].drive.physical_block_bytes = 8192;
    testing_stripe_refused(all, "0,1,2", &as_it_is, -ENOTSUP, "blocks of 4 KiB at most");
    testing_members_free(all);
}

static void test_not_yet_a_stripe(void **state)
{
    (void)state;
    struct testing_members *all = testing_members_new();
    const struct drive_options create = {.create_bytes = 1};
    testing_stripe_refused(all, "0,1", &as_it_is, -EUCLEAN, "these drives are no stripe yet");
    testing_stripe_refused(all, "0,1", &to_read, -EUCLEAN, "these drives are no stripe yet");
    all->members[1].drive.device = true;
    testing_stripe_refused(all, "0,1", &create, -EUCLEAN, "these drives are no stripe yet");
    all->members[1].drive.bytes[UNIT - 1] = 1;
    testing_stripe_refused(all, "0,1", &to_make, -EEXIST, "neither blank nor a drive of a stripe");
    all->members[1].drive.bytes[UNIT - 1] = 0;
    all->members[0].drive.bytes[512] = 1; /* as of a table of partitions */
    testing_stripe_refused(all, "0,1", &to_make, -EEXIST, "neither blank nor a drive of a stripe");
    assert_int_equal(testing_stripe_try(all, "0,1", &to_overwrite), 0);
    all->members[0].drive.bytes[512] = 0;
    assert_int_equal(testing_stripe_try(all, "0,1", &to_make), 0);
    assert_int_equal(all->writes, 0); /* nothing is written before it is established */
    all->members[0].drive.size = DRIVE_BYTES_MIN;
    all->members[0].drive.physical_block_bytes = (uint32_t)DRIVE_BYTES_MIN;
    testing_stripe_refused(all, "0,1", &to_make, -EINVAL, "too small for a stripe");
    testing_members_free(all);
}

/* ---- damage ------------------------------------------------------------------------------------- */

static void set_newer(struct drive_label *label)
{
    label->version = DRIVE_LABEL_VERSION_APPENDED + 1;
}

static void set_more_members(struct drive_label *label)
{
    label->count = 3;
}

static void set_no_place(struct drive_label *label)
{
    label->place = label->count;
}

static void set_too_many(struct drive_label *label)
{
    label->count = DRIVE_MEMBERS_MAX + 1;
}

static void set_odd_unit(struct drive_label *label)
{
    label->unit_bytes += 512;
}

static void set_huge_unit(struct drive_label *label)
{
    label->unit_bytes = 2 * DRIVE_UNIT_BYTES_MAX;
}

static void set_odd_use(struct drive_label *label)
{
    label->used_bytes += 512;
}

static void set_no_use(struct drive_label *label)
{
    label->used_bytes = label->unit_bytes;
}

static void set_all_use(struct drive_label *label)
{
    label->used_bytes = UINT64_MAX - label->unit_bytes + 1;
}

static void set_state(struct drive_label *label)
{
    label->state = 3;
}

static void test_labels(void **state)
{
    (void)state;
    static const struct {
        void (*change)(struct drive_label *label);
        int copies;
        const char *why; /* NULL: it opens all the same */
    } cases[] = {
        {set_newer, 1, "use that version"},         {set_newer, 2, "use that version"},
        {set_more_members, 2, "contradicts those"}, {set_no_place, 1, NULL},
        {set_no_place, 2, "contradicts itself"},    {set_too_many, 2, "contradicts itself"},
        {set_odd_unit, 2, "contradicts itself"},    {set_huge_unit, 2, "contradicts itself"},
        {set_odd_use, 2, "contradicts itself"},     {set_no_use, 2, "contradicts itself"},
        {set_all_use, 2, "contradicts itself"},     {set_state, 2, "contradicts itself"},
    };
    struct testing_members *whole = testing_members_new();
    testing_stripe_fill(whole, "0,1");
    for (size_t i = 0; i < base_array_count(cases); i++) {
        struct testing_members *all = testing_members_copy(whole);
        testing_labels_change(all, 1, cases[i].change, cases[i].copies);
        if (cases[i].why == NULL)
            testing_stripe_expect(all, "0,1", &as_it_is);
        else
            testing_stripe_refused(all, "0,1", &as_it_is, -EUCLEAN, cases[i].why);
        testing_members_free(all);
    }
    for (uint64_t copy = 0; copy < DRIVE_LABEL_COPIES; copy++) {
        struct testing_members *all = testing_members_copy(whole);
        all->members[1].drive.bytes[copy * DRIVE_LABEL_COPY_BYTES + 100] ^= 1;
        testing_stripe_expect(all, "0,1", &to_read); /* one good copy is enough, */
        uint64_t writes = all->writes;
        testing_stripe_expect(all, "0,1", &as_it_is);
        assert_int_equal(all->writes, writes); /* and a damaged one is left as it is */
        all->members[1].drive.bytes[(1 - copy) * DRIVE_LABEL_COPY_BYTES + 16] ^= 1;
        testing_stripe_refused(all, "0,1", &as_it_is, -EUCLEAN, "is damaged, and so is the copy");
        testing_stripe_refused(all, "0,1", &to_make, -EUCLEAN, "is damaged, and so is the copy");
        testing_members_free(all);
    }
    testing_members_free(whole);
}

/* Whatever the labels say, the drives open or are refused, and what opens can be read to its end. */
static void test_any_labels(void **state)
{
    (void)state;
    struct testing_members *whole = testing_members_new();
    struct base_random random;
    unsigned opened = 0;
    testing_stripe_fill(whole, "0,1,2");
    base_random_init(&random, 1);
    for (int i = 0; i < 1500; i++) {
        struct testing_members *all = testing_members_copy(whole);
        for (uint64_t edits = 1 + base_random_below(&random, 4); edits > 0; edits--)
            testing_label_edit(&random, all->members[base_random_below(&random, 3)].drive.bytes +
                                            base_random_below(&random, 2) * DRIVE_LABEL_COPY_BYTES);
        opened += testing_stripe_read_all(all, "0,1,2", i % 2 == 0 ? &as_it_is : &to_read);
        testing_members_free(all);
    }
    assert_in_range(opened, 100, 1400);
    testing_members_free(whole);
}

/* Reads that fail or lie once are tried again; those that go on failing are told. */
static void test_reads(void **state)
{
    (void)state;
    static const enum testing_lie lies[] = {TESTING_TRUTH, TESTING_NOISE, TESTING_CHANGING};
    struct testing_members *all = testing_members_new();
    testing_stripe_fill(all, "0,1");
    for (size_t i = 0; i < base_array_count(lies); i++) {
        if (lies[i] == TESTING_TRUTH)
            testing_drive_fail_at(&all->members[1].drive, DRIVE_READ, 1, false);
        else
            testing_drive_lie_at(&all->members[1].drive, lies[i], 1, 0, 8192);
        testing_stripe_expect(all, "0,1", &as_it_is);
    }
    testing_drive_fail_at(&all->members[1].drive, DRIVE_READ, 1, true);
    testing_stripe_refused(all, "0,1", &as_it_is, -EIO, "cannot be read");
    testing_members_free(all);
}

static void test_failing_allocations(void **state)
{
    (void)state;
    struct testing_members *all = testing_members_new();
    struct tarn_node *node = testing_members_node(all);
    int error = -ENOMEM;
    for (uint64_t n = 1; error != 0; n++) {
        struct drive *drive;
        base_account_fail_at(&node->memory, n);
        error = drive_open(node, "0,1", &to_make, &drive);
        if (error == 0) {
            error = drive_establish(drive);
            drive_close(drive);
        }
        base_account_fail_at(&node->memory, 0);
        assert_true(error == 0 || (error == -ENOMEM && n < 100));
    }
    task_node_close(node);
    testing_members_free(all);
}

/* ---- making, cut off at each write ---------------------------------------------------------------- */

/* Make a stripe until the power goes. @return whether it was made */
static bool make_until(struct testing_members *all, const struct drive_options *options, uint64_t writes_max,
                       bool tears)
{
    struct tarn_node *node = testing_members_node(all);
    struct drive *drive;
    all->writes = 0;
    all->writes_max = writes_max;
    all->tears = tears;
    assert_int_equal(drive_open(node, "0,1,2", options, &drive), 0);
    int error = drive_establish(drive);
    assert_true(error == 0 || error == -EIO || error == -EROFS);
    drive_close(drive);
    task_node_close(node);
    return error == 0;
}

static int whole_copies(struct testing_members *all, uint32_t member)
{
    int count = 0;
    for (int copy = 0; copy < DRIVE_LABEL_COPIES; copy++) {
        struct drive_label label;
        memcpy(&label, all->members[member].drive.bytes + copy * DRIVE_LABEL_COPY_BYTES, sizeof(label));
        count += label.state == DRIVE_LABEL_WHOLE;
    }
    return count;
}

/* What a cut has left is a whole stripe, or one that can be made anew. Nothing else is said to be either. */
static void check_after_cut(struct testing_members *cut)
{
    struct testing_members *all = testing_members_copy(cut);
    int error = testing_stripe_try(all, "0,1,2", &to_read);
    assert_int_equal(all->writes, 0);
    assert_true(error == 0 || error == -EUCLEAN);
    if (error == 0) { /* whole: it is completed, and stays what it is */
        assert_int_equal(testing_stripe_try(all, "2,0,1", &as_it_is), 0);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(whole_copies(all, i), DRIVE_LABEL_COPIES);
        uint64_t writes = all->writes;
        assert_int_equal(testing_stripe_try(all, "0,1,2", &to_make), 0);
        assert_int_equal(all->writes, writes);
        testing_stripe_refused(all, "0,1,5", &to_make, -EUCLEAN, "it is blank");
    }
    testing_stripe_fill(all, "0,1,2");
    testing_stripe_expect(all, "2,1,0", &as_it_is);
    testing_members_free(all);
}

static void test_cut_while_made(void **state)
{
    (void)state;
    bool made = false;
    for (uint64_t cut = 2; !made; cut++) {
        struct testing_members *all = testing_members_new();
        made = make_until(all, &to_make, cut / 2, cut % 2 == 1);
        check_after_cut(all);
        testing_members_free(all);
        assert_true(cut < 100);
    }
}

/* By force, over a stripe with data: until that has gone it is there, and then it is not. */
static void test_cut_while_overwritten(void **state)
{
    (void)state;
    struct testing_members *old = testing_members_new();
    testing_stripe_fill(old, "0,1,2");
    struct drive_label label;
    memcpy(&label, old->members[0].drive.bytes, sizeof(label));
    bool made = false;
    for (uint64_t cut = 2; !made; cut++) {
        struct testing_members *all = testing_members_copy(old);
        made = make_until(all, &to_overwrite, cut / 2, cut % 2 == 1);
        bool whole = testing_stripe_try(all, "0,1,2", &to_read) == 0;
        struct drive_label now;
        memcpy(&now, all->members[0].drive.bytes, sizeof(now));
        if (whole && memcmp(now.identity, label.identity, sizeof(now.identity)) == 0)
            testing_stripe_expect(all, "0,1,2", &to_read);
        assert_true(whole || !made);
        assert_true(make_until(all, &to_overwrite, 0, false));
        assert_int_equal(testing_stripe_try(all, "0,1,2", &as_it_is), 0);
        testing_members_free(all);
        assert_true(cut < 100);
    }
    testing_members_free(old);
}

/* ---- files -------------------------------------------------------------------------------------- */

struct files {
    struct testing_folder folder;
    struct testing_log log;
    char list[4 * TESTING_PATH_BYTES];
};

/* @param names  with commas between; each gets the folder before it */
static const char *list_of(struct files *files, const char *names)
{
    size_t used = 0;
    for (const char *name = names; name != NULL;) {
        const char *comma = strchr(name, ',');
        while (comma != NULL && comma[-1] == '\\')
            comma = strchr(comma + 1, ',');
        int len = comma == NULL ? (int)strlen(name) : (int)(comma - name);
        used += (size_t)snprintf(files->list + used, sizeof(files->list) - used, "%s%s/%.*s",
                                 used == 0 ? "" : ",", files->folder.path, len, name);
        name = comma == NULL ? NULL : comma + 1;
    }
    return files->list;
}

static int open_files(struct files *files, const char *names, const struct drive_options *options)
{
    struct tarn_node *node = testing_log_node(&files->log);
    struct drive *drive;
    int error = drive_open(node, list_of(files, names), options, &drive);
    if (error == 0) {
        error = options->read_only ? 0 : drive_establish(drive);
        drive_close(drive);
    }
    task_node_close(node);
    return error;
}

static bool is_there(struct files *files, const char *name)
{
    char path[TESTING_PATH_BYTES];
    return access(testing_path(&files->folder, name, path), F_OK) == 0;
}

static void with_files(struct testing_folder *folder)
{
    static const struct drive_options create = {.create_bytes = 3 * TESTING_MEMBER_BYTES};
    static const char *const names[] = {"a", "b", "c", "d,e", "link"};
    struct files files = {.folder = *folder, .log = {.text = "event=\"cannot open drive\""}};
    char path[TESTING_PATH_BYTES], other[TESTING_PATH_BYTES];
    assert_int_equal(open_files(&files, "a,b,c", &to_make), -ENOENT);
    assert_int_equal(open_files(&files, "a,b,nowhere/c", &create), -ENOENT);
    assert_false(is_there(&files, "a")); /* what came to nothing is removed again */
    assert_int_equal(open_files(&files, "a,b,d\\,e", &create), 0);
    struct stat status;
    assert_int_equal(stat(testing_path(folder, "d,e", path), &status), 0);
    assert_int_equal(status.st_size, TESTING_MEMBER_BYTES);
    assert_int_equal(open_files(&files, "d\\,e,b,a", &as_it_is), 0);
    assert_int_equal(open_files(&files, "a,b,c", &create), -ENOENT); /* not made beside members */
    assert_false(is_there(&files, "c"));
    assert_int_equal(symlink("b", testing_path(folder, "link", path)), 0);
    assert_int_equal(open_files(&files, "a,b,link", &as_it_is), -EINVAL);
    assert_non_null(strstr(files.log.last, "named twice"));
    assert_int_equal(open_files(&files, "a,link,d\\,e", &as_it_is), 0);
    (void)testing_path(folder, "a,b", path); /* meant as one file before, and still there */
    assert_int_equal(rename(testing_path(folder, "a", other), path), 0);
    struct tarn_node *node = testing_log_node(&files.log);
    struct drive *drive;
    assert_int_equal(drive_open(node, path, &create, &drive), -EINVAL);
    assert_non_null(strstr(files.log.last, "there is a file of just this name"));
    task_node_close(node);
    assert_int_equal(rename(path, other), 0);
    for (size_t i = 0; i < base_array_count(names); i++)
        (void)unlink(testing_path(folder, names[i], path));
}

static void test_files(void **state)
{
    (void)state;
    testing_in_each_place(with_files);
}

/* All members are locked as single drives are: by whoever has the stripe, and one of them by anybody. */
static void with_locks(struct testing_folder *folder)
{
    static const struct drive_options create = {.create_bytes = 2 * TESTING_MEMBER_BYTES, .lock_wait_ns = 1};
    static const struct drive_options read_now = {.read_only = true, .lock_wait_ns = 1};
    struct files files = {.folder = *folder, .log = {.text = "event=\"cannot open drive\""}};
    struct tarn_node *node = testing_log_node(&files.log);
    char path[TESTING_PATH_BYTES];
    struct drive *drive, *second;
    assert_int_equal(open_files(&files, "a,b", &create), 0);
    assert_int_equal(drive_open(node, list_of(&files, "a,b"), &create, &drive), 0);
    assert_int_equal(open_files(&files, "b,a", &read_now), -EBUSY);
    assert_int_equal(drive_open(node, testing_path(folder, "b", path), &read_now, &second), -EBUSY);
    drive_close(drive);
    assert_int_equal(drive_open(node, testing_path(folder, "b", path), &create, &second), 0);
    assert_int_equal(open_files(&files, "a,b", &create), -EBUSY);
    drive_close(second);
    assert_int_equal(open_files(&files, "a,b", &create), 0);
    assert_int_equal(drive_open(node, list_of(&files, "a,b"), &read_now, &drive), 0);
    assert_int_equal(open_files(&files, "b,a", &read_now), 0);
    drive_close(drive);
    task_node_close(node);
    assert_int_equal(unlink(testing_path(folder, "a", path)), 0);
    assert_int_equal(unlink(testing_path(folder, "b", path)), 0);
}

static void test_locks(void **state)
{
    (void)state;
    testing_in_each_place(with_locks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),      cmocka_unit_test(test_labels_are_flushed),
        cmocka_unit_test(test_description),    cmocka_unit_test(test_lists),
        cmocka_unit_test(test_wrong_members),  cmocka_unit_test(test_not_yet_a_stripe),
        cmocka_unit_test(test_labels),         cmocka_unit_test(test_any_labels),
        cmocka_unit_test(test_reads),          cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_cut_while_made), cmocka_unit_test(test_cut_while_overwritten),
        cmocka_unit_test(test_files),          cmocka_unit_test(test_locks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
