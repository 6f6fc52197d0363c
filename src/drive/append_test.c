/*
 * Stripes that become larger: with their members, and by a drive that is appended to them, or to a single drive with a
 * store. Each is cut off at each of its writes; what was stored stays, and what does not belong together is refused.
 */
#include "drive/stripe_testing.h"
#include "drive/testing.h"

#define UNIT   DRIVE_UNIT_BYTES_MIN
#define USED   (TESTING_MEMBER_BYTES - UNIT) /* of a member, behind its label */
#define LONGER (TESTING_MEMBER_BYTES + 5 * UNIT)

static const struct drive_options as_it_is;
static const struct drive_options to_read = {.read_only = true};
static const struct drive_options to_append = {.append = true};

/* ---- what is appended to -------------------------------------------------------------------------- */

/* Fill from some page on, or see that it is filled. */
static void fill(struct drive *drive, uint64_t from, uint64_t to)
{
    _Alignas(512) uint64_t page[BASE_PAGE_BYTES / 8];
    for (uint64_t offset = from; offset < to; offset += sizeof(page)) {
        drive_testing_fill(page, sizeof(page), offset, 7);
        assert_int_equal(drive_write(drive, offset, page, sizeof(page), false), 0);
    }
    assert_int_equal(drive_flush(drive), 0);
}

static void expect(struct drive *drive, uint64_t from, uint64_t to)
{
    _Alignas(512) uint64_t page[BASE_PAGE_BYTES / 8];
    for (uint64_t offset = from; offset < to; offset += sizeof(page)) {
        assert_int_equal(drive_read(drive, offset, page, sizeof(page)), 0);
        assert_true(testing_filled(page, sizeof(page), offset, 7));
    }
}

static struct drive *open_list(struct tarn_node *node, const char *list, const struct drive_options *options)
{
    struct drive *drive;
    assert_int_equal(drive_open(node, list, options, &drive), 0);
    return drive;
}

/* Append the one of a list that is blank. */
static struct drive *append(struct tarn_node *node, const char *list)
{
    struct drive *drive = open_list(node, list, &to_append);
    assert_true(drive_info(drive)->appending);
    assert_int_equal(drive_establish(drive), 0);
    assert_false(drive_info(drive)->appending);
    return drive;
}

static void append_once(struct testing_members *all, const char *list)
{
    struct tarn_node *node = testing_members_node(all);
    drive_close(append(node, list));
    task_node_close(node);
}

/* A stripe, or a single drive that begins as a store does; all of it is filled, but for where a store begins. */
static struct testing_members *filled(const char *list, uint64_t *ret_bytes)
{
    static const struct drive_options make = {.make_stripe = true};
    struct testing_members *all = testing_members_new();
    struct tarn_node *node = testing_members_node(all);
    if (strlen(list) == 1) /* all of it counts, to the last block */
        all->members[0].drive.size -= BASE_PAGE_BYTES;
    struct drive *drive = open_list(node, list, &make);
    assert_int_equal(drive_establish(drive), 0);
    *ret_bytes = drive_info(drive)->bytes;
    fill(drive, UNIT, *ret_bytes);
    drive_close(drive);
    task_node_close(node);
    if (strlen(list) > 1)
        return all;
    const uint64_t magic = DRIVE_STORE_MAGIC;
    for (uint32_t member = 0; member < 2; member++) { /* another one has another identity */
        for (uint64_t copy = 0; copy < DRIVE_LABEL_COPIES; copy++) {
            uint8_t *begin = all->members[5 * member].drive.bytes + copy * DRIVE_LABEL_COPY_BYTES;
            memcpy(begin, &magic, sizeof(magic));
            memset(begin + DRIVE_STORE_IDENTITY, (int)(1 + member), 16);
        }
    }
    return all;
}

static const struct {
    const char *before, *list, *other_order, *more;
} bases[] = {{"0", "0,1", "1,0", "0,1,2"},
             {"0,1", "0,1,2", "2,1,0", "0,1,2,3"},
             {"2,4,0", "0,2,4,1", "1,4,2,0", "0,4,1,2,3"}};

static void check_list(struct testing_members *all, const char *list, const struct drive_options *options,
                       uint64_t bytes, uint64_t filled_bytes)
{
    struct tarn_node *node = testing_members_node(all);
    struct drive *drive = open_list(node, list, options);
    assert_int_equal(drive_info(drive)->bytes, bytes);
    expect(drive, UNIT, filled_bytes);
    drive_close(drive);
    task_node_close(node);
}

/* ---- appending ------------------------------------------------------------------------------------ */

/* Two, one after the other; what lies on both sides of where one ends is written and read in one. */
static void test_append(void **state)
{
    (void)state;
    for (size_t i = 0; i < base_array_count(bases); i++) {
        uint64_t before, bytes;
        struct testing_members *all = filled(bases[i].before, &before);
        struct tarn_node *node = testing_members_node(all);
        struct drive *drive = append(node, bases[i].list);
        bytes = before + USED;
        assert_int_equal(drive_info(drive)->bytes, bytes);
        assert_int_equal(drive_info(drive)->appended, 1);
        assert_int_equal(drive_appended(drive, 0).begin_bytes, before);
        assert_int_equal(drive_zeroed_bytes(drive), bytes);
        expect(drive, UNIT, before);
        fill(drive, before, bytes);
        _Alignas(512) uint64_t across[2 * UNIT / 8];
        assert_int_equal(drive_read(drive, before - UNIT, across, 2 * UNIT), 0);
        assert_true(testing_filled(across, 2 * UNIT, before - UNIT, 7));
        drive_close(drive);
        task_node_close(node);
        uint64_t writes = all->writes;
        check_list(all, bases[i].list, &as_it_is, bytes, bytes);
        check_list(all, bases[i].other_order, &to_read, bytes, bytes);
        check_list(all, bases[i].list, &to_append, bytes, bytes); /* there is nothing to append */
        assert_int_equal(all->writes, writes);
        append_once(all, bases[i].more);
        check_list(all, bases[i].more, &as_it_is, bytes + USED, bytes);
        testing_members_free(all);
    }
}

/* A cut leaves what there was; and from when one of the copies of its label is whole on the drive belongs to it. */
static void test_append_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < base_array_count(bases); i++) {
        for (uint64_t writes = 1; writes <= 2 * DRIVE_LABEL_COPIES; writes++) {
            const bool tears = writes % 2 == 0;
            uint64_t before;
            struct testing_members *all = filled(bases[i].before, &before);
            struct tarn_node *node = testing_members_node(all);
            struct drive *drive;
            all->writes = 0;
            all->writes_max = (writes + 1) / 2;
            all->tears = tears;
            assert_int_equal(drive_open(node, bases[i].list, &to_append, &drive), 0);
            int error = drive_establish(drive);
            assert_int_equal(error, writes == 2 * DRIVE_LABEL_COPIES - 1 ? 0 : -EIO);
            drive_close(drive);
            task_node_close(node);
            all->writes_max = 0;
            if (strlen(bases[i].before) > 1)
                check_list(all, bases[i].before, &as_it_is, before, before);
            node = testing_members_node(all);
            drive = open_list(node, bases[i].list, &to_append);
            assert_int_equal(drive_establish(drive), 0);
            drive_close(drive);
            task_node_close(node);
            check_list(all, bases[i].list, &to_read, before + USED, before);
            testing_members_free(all);
        }
    }
}

static void refuse_appending(struct testing_members *all, const char *list, int error, const char *why)
{
    testing_stripe_refused(all, list, &to_append, error, why);
}

/* To what there is, whatever that is, and with everything that there is. */
static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const bool single = i == 0;
        uint64_t bytes;
        struct testing_members *all = filled(bases[i].before, &bytes);
        const char *with_two = single ? "0,3,4" : "0,1,3,4", *with = single ? "0,3" : "0,1,3";
        testing_stripe_refused(all, with, &as_it_is, -EUCLEAN,
                               single ? "neither blank nor" : "or append this one");
        refuse_appending(all, with_two, -EINVAL, "another one that is named is blank");
        all->members[3].drive.bytes[UNIT - 1] = 1;
        refuse_appending(all, with, -EUCLEAN, "it is neither blank nor");
        all->members[3].drive.bytes[UNIT - 1] = 0;
        all->members[3].drive.physical_block_bytes = 8192;
        refuse_appending(all, with, -ENOTSUP, "its blocks are larger than those");
        all->members[3].drive.physical_block_bytes = 0;
        all->members[3].drive.size = 2 * UNIT - BASE_PAGE_BYTES;
        refuse_appending(all, with, -EINVAL, "too small to be appended");
        all->members[3].drive.size = TESTING_MEMBER_BYTES;
        refuse_appending(all, "3,4", -EUCLEAN, "there is no store on these drives");
        const struct drive_options read_append = {.read_only = true, .append = true};
        testing_stripe_refused(all, with, &read_append, -EROFS, "opened to write");
        assert_int_equal(testing_stripe_try(all, single ? "0,9" : "0,1,9", &to_append), -ENOENT);
        testing_members_free(all);
    }
}

/* Of two that were appended in the same place only one is what the next one follows. */
static void test_wrong_turn(void **state)
{
    (void)state;
    uint64_t bytes;
    struct testing_members *all = filled("0", &bytes);
    append_once(all, "0,3");
    append_once(all, "0,1");
    append_once(all, "0,1,2");
    assert_int_equal(testing_stripe_try(all, "0,3", &as_it_is), 0);
    testing_stripe_refused(all, "0,3,2", &as_it_is, -EUCLEAN, "another drive than the one before it");
    testing_stripe_refused(all, "0,3,1,2", &as_it_is, -EUCLEAN, "one is a copy");
    check_list(all, "2,0,1", &as_it_is, bytes + 2 * USED, bytes);
    testing_members_free(all);
}

/* Drives that were appended: one is missing, foreign, a copy, or was appended to something else. */
static void test_wrong_drives(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const bool single = i == 0;
        uint64_t bytes;
        struct testing_members *all = filled(bases[i].before, &bytes);
        const char *with = single ? "0,3" : "0,1,3";
        append_once(all, with);
        append_once(all, single ? "0,3,4" : "0,1,3,4");
        testing_stripe_refused(all, single ? "0,4" : "0,1,4", &as_it_is, -EUCLEAN,
                               single ? "has 3 drives, name all; missing is number 2"
                                      : "has 4 drives, name all; missing is number 3");
        testing_stripe_refused(all, "3,4", &as_it_is, -EUCLEAN,
                               "it was appended to another drive, or to a stripe");
        const struct drive_options make = {.make_stripe = true};
        testing_stripe_refused(all, "2,4", &make, -EEXIST,
                               "it was appended to another drive, or to a stripe");
        testing_stripe_refused(all, single ? "5,3" : "0,3", &as_it_is, -EUCLEAN,
                               single ? "of another stripe" : "has 3 drives, name all; missing is number 2");
        if (single)
            testing_stripe_refused(all, "0,5,3", &as_it_is, -EUCLEAN, "it is neither blank nor");
        memcpy(all->members[2].drive.bytes, all->members[4].drive.bytes, TESTING_MEMBER_BYTES);
        testing_stripe_refused(all, single ? "0,3,4,2" : "0,1,3,4,2", &as_it_is, -EUCLEAN, "one is a copy");
        all->members[0].drive.size -= UNIT; /* what others follow has lost its end, */
        testing_stripe_refused(all, with, &as_it_is, -EUCLEAN, "give it its size back");
        all->members[0].drive.size += UNIT;
        all->members[3].drive.size -= UNIT; /* or the one that was appended */
        testing_stripe_refused(all, with, &as_it_is, -EUCLEAN, "give it its size back");
        testing_members_free(all);
    }
}

static void set_more(struct drive_label *label)
{
    label->count++;
}

static void set_no_begin(struct drive_label *label)
{
    label->begin_bytes = 0;
}

static void set_odd_begin(struct drive_label *label)
{
    label->begin_bytes += 8;
}

static void set_far_begin(struct drive_label *label)
{
    label->begin_bytes = INT64_MAX - 511;
}

static void set_part_of_a_block(struct drive_label *label)
{
    label->begin_bytes -= 512;
}

static void set_no_nonce(struct drive_label *label)
{
    label->nonce = 0;
}

static void set_making(struct drive_label *label)
{
    label->state = DRIVE_LABEL_MAKING;
}

static void set_first_version(struct drive_label *label)
{
    label->version = DRIVE_LABEL_VERSION;
}

static void test_labels(void **state)
{
    (void)state;
    static void (*const changes[])(struct drive_label *) = {
        set_more,   set_no_begin,      set_odd_begin, set_far_begin,
        set_making, set_first_version, set_no_nonce,  set_part_of_a_block};
    uint64_t bytes;
    struct testing_members *whole = filled("0", &bytes);
    whole->members[0].drive.physical_block_bytes = BASE_PAGE_BYTES;
    append_once(whole, "0,1");
    for (size_t i = 0; i < base_array_count(changes); i++) {
        struct testing_members *all = testing_members_copy(whole);
        testing_labels_change(all, 1, changes[i], DRIVE_LABEL_COPIES);
        testing_stripe_refused(all, "0,1", &to_append, -EUCLEAN, "contradicts");
        testing_members_free(all);
    }
    testing_members_free(whole);
}

/* Whatever the labels say, the drives open or are refused, and what opens can be read to its end. */
static void test_any_labels(void **state)
{
    (void)state;
    struct base_random random;
    base_random_init(&random, 2);
    for (size_t i = 0; i < 2; i++) {
        uint64_t bytes;
        unsigned opened = 0;
        struct testing_members *whole = filled(bases[i].before, &bytes);
        const char *list = bases[i].more;
        append_once(whole, bases[i].list);
        append_once(whole, list);
        for (int n = 0; n < 1000; n++) {
            struct testing_members *all = testing_members_copy(whole);
            for (uint64_t edits = 1 + base_random_below(&random, 4); edits > 0; edits--)
                testing_label_edit(&random, all->members[base_random_below(&random, 4)].drive.bytes +
                                                base_random_below(&random, 2) * DRIVE_LABEL_COPY_BYTES);
            opened += testing_stripe_read_all(all, list, n % 2 == 0 ? &as_it_is : &to_read);
            testing_members_free(all);
        }
        assert_in_range(opened, 50, 950);
        testing_members_free(whole);
    }
}

/* ---- becoming larger ------------------------------------------------------------------------------ */

static void keep_room(struct testing_members *all)
{
    for (uint32_t i = 0; i < TESTING_MEMBERS; i++)
        testing_drive_keep_room(&all->members[i].drive, LONGER, 0xee);
}

/* With its members, as far as all have become larger; with the last that was appended alone. */
static void test_extend(void **state)
{
    (void)state;
    uint64_t bytes, now;
    struct testing_members *all = filled("0,1,2", &bytes);
    keep_room(all);
    struct tarn_node *node = testing_members_node(all);
    struct drive *drive = open_list(node, "0,1,2", &as_it_is);
    all->members[0].drive.size = all->members[2].drive.size = LONGER;
    assert_int_equal(drive_extend(drive, &now), 0);
    assert_int_equal(now, bytes);
    all->members[1].drive.size = TESTING_MEMBER_BYTES + UNIT + 4096;
    for (int again = 0; again < 2; again++) {
        const uint64_t writes = all->writes;
        assert_int_equal(drive_extend(drive, &now), 0);
        assert_int_equal(all->writes - writes, again == 0 ? 3 * DRIVE_LABEL_COPIES : 0);
        assert_int_equal(now, bytes + 3 * UNIT);
        assert_int_equal(drive_bytes(drive), now);
    }
    fill(drive, bytes, now);
    expect(drive, UNIT, now);
    drive_close(drive);
    task_node_close(node);
    check_list(all, "2,0,1", &as_it_is, now, now);
    all->members[1].drive.size = LONGER; /* not by itself */
    check_list(all, "2,0,1", &as_it_is, now, now);

    node = testing_members_node(all);
    all->members[3].drive.size = TESTING_MEMBER_BYTES;
    drive = append(node, "0,1,2,3");
    bytes = now + USED;
    assert_int_equal(drive_info(drive)->bytes, bytes);
    assert_int_equal(drive_extend(drive, &now), 0);
    assert_int_equal(now, bytes);
    all->members[3].drive.size = LONGER;
    assert_int_equal(drive_extend(drive, &now), 0);
    assert_int_equal(now, bytes + LONGER - TESTING_MEMBER_BYTES);
    fill(drive, bytes - USED, now);
    drive_close(drive);
    task_node_close(node);
    check_list(all, "0,1,2,3", &to_read, now, now);
    testing_members_free(all);
}

/* A drive whose label, written after its copy, does not say more may be as short as before: nothing has made its length durable. @return whether
 * all of these say more */
static bool forget_lengths(struct testing_members *all, uint32_t first, uint32_t count)
{
    bool longer = true;
    for (uint32_t i = first; i < first + count; i++) {
        const struct drive_label *label = (const void *)all->members[i].drive.bytes;
        if (label->used_bytes != LONGER) {
            all->members[i].drive.size = TESTING_MEMBER_BYTES;
            longer = false;
        }
    }
    return longer;
}

static void expect_size(struct testing_members *all, const char *list, uint64_t bytes)
{
    struct tarn_node *node = testing_members_node(all);
    struct drive *drive = open_list(node, list, &as_it_is);
    assert_int_equal(drive_info(drive)->bytes, bytes);
    drive_close(drive);
    task_node_close(node);
}

/* What was there stays, whatever of the labels has been written; and the next attempt succeeds. */
static void test_extend_cut(void **state)
{
    (void)state;
    static const struct {
        const char *before, *list;
        uint32_t first, labels; /* that are written */
    } cases[] = {{"0,1,2", "0,1,2", 0, 3}, {"0,1", "0,1,2", 2, 1}, {"0", "0,1", 1, 1}};
    for (size_t i = 0; i < base_array_count(cases); i++) {
        const uint64_t more = (LONGER - TESTING_MEMBER_BYTES) * cases[i].labels;
        for (uint64_t writes = 1; writes <= 2 * DRIVE_LABEL_COPIES * cases[i].labels; writes++) {
            uint64_t bytes, now;
            struct testing_members *all = filled(cases[i].before, &bytes);
            if (cases[i].list != cases[i].before) {
                append_once(all, cases[i].list);
                bytes += USED;
            }
            const uint64_t filled_bytes = bytes - (cases[i].list != cases[i].before ? USED : 0);
            keep_room(all);
            struct tarn_node *node = testing_members_node(all);
            struct drive *drive = open_list(node, cases[i].list, &as_it_is);
            for (uint32_t member = 0; member < TESTING_MEMBERS; member++)
                all->members[member].drive.size = LONGER;
            all->writes = 0;
            all->writes_max = (writes + 1) / 2;
            all->tears = writes % 2 == 0;
            bool whole = drive_extend(drive, &now) == 0;
            assert_true(whole == (writes == 2 * DRIVE_LABEL_COPIES * cases[i].labels - 1));
            drive_close(drive);
            task_node_close(node);
            all->writes_max = 0;
            const bool longer = forget_lengths(all, cases[i].first, cases[i].labels);
            assert_true(longer || !whole);
            expect_size(all, cases[i].list, longer ? bytes + more : bytes);
            for (uint32_t member = 0; member < TESTING_MEMBERS; member++)
                all->members[member].drive.size = LONGER;
            node = testing_members_node(all);
            drive = open_list(node, cases[i].list, &as_it_is);
            expect(drive, UNIT, filled_bytes);
            assert_int_equal(drive_extend(drive, &now), 0);
            assert_int_equal(now, bytes + more);
            drive_close(drive);
            task_node_close(node);
            check_list(all, cases[i].list, &to_read, bytes + more, filled_bytes);
            testing_members_free(all);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),       cmocka_unit_test(test_append_cut),
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_wrong_turn),
        cmocka_unit_test(test_wrong_drives), cmocka_unit_test(test_labels),
        cmocka_unit_test(test_any_labels),   cmocka_unit_test(test_extend),
        cmocka_unit_test(test_extend_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
