/* For the tests of stripes: several drives in memory, named "0", "1" and so on, whose writes end at a moment.
 */
#include "drive/stripe_testing.h"

static int testing_member_open(struct tarn_node *node, void *arg, const char *path,
                               const struct drive_options *options, struct drive_info *ret_info,
                               void **ret_state)
{
    struct testing_members *all = arg;
    uint32_t number = (uint32_t)(path[0] - '0');
    if (number >= TESTING_MEMBERS || path[1] != '\0')
        return -ENOENT;
    struct testing_member *member = &all->members[number];
    if (member->open)
        return -EBUSY;
    int error = testing_drive_open(node, &member->drive, path, options, ret_info, ret_state);
    if (error != 0)
        return error;
    member->open = true;
    ret_info->write_cache = member->write_cache;
    ret_info->fua = member->fua;
    if (member->logical_block_bytes != 0)
        ret_info->logical_block_bytes = member->logical_block_bytes;
    *ret_state = member;
    return 0;
}

static void testing_member_close(void *state)
{
    ((struct testing_member *)state)->open = false;
}

/* Whether the power is still there for a write. */
static bool testing_member_writes(struct testing_member *member, struct drive_request *request)
{
    struct testing_members *all = member->all;
    uint64_t number = atomic_fetch_add(&all->writes, 1) + 1;
    if (all->writes_max == 0 || number < all->writes_max)
        return true;
    if (number > all->writes_max || !all->tears)
        return number == all->writes_max;
    base_spin_lock(&member->drive.lock);
    testing_drive_move_locked(&member->drive, request, request->iov[0].iov_len / 2);
    base_spin_unlock(&member->drive.lock);
    return false;
}

/* In a plain thread: wait until all members are in here. */
static void testing_member_meet(struct testing_members *all)
{
    uint64_t deadline_ns = task_now() + 20 * BASE_NS_PER_SECOND;
    atomic_fetch_add(&all->met, 1);
    while (atomic_load(&all->met) < all->meet && task_now() < deadline_ns)
        task_yield();
    if (atomic_load(&all->met) < all->meet)
        atomic_fetch_add(&all->missed, 1);
}

static void testing_member_post(void *state, struct drive_request *request)
{
    struct testing_member *member = state;
    if (request->op == DRIVE_FLUSH && member->all->meet > 0)
        testing_member_meet(member->all);
    if (request->op == DRIVE_WRITE && !testing_member_writes(member, request))
        drive_finish_now(request, -EIO);
    else
        testing_drive_post(&member->drive, request);
}

static int testing_member_extend(void *state, uint64_t *inout_bytes)
{
    return testing_drive_extend(&((struct testing_member *)state)->drive, inout_bytes);
}

static const struct drive_provider testing_member_provider = {.name = "member",
                                                              .open = testing_member_open,
                                                              .close = testing_member_close,
                                                              .post = testing_member_post,
                                                              .extend = testing_member_extend};

struct testing_members *testing_members_new(void)
{
    struct testing_members *all = calloc(1, sizeof(*all));
    assert_non_null(all);
    for (uint32_t i = 0; i < TESTING_MEMBERS; i++)
        all->members[i] =
            (struct testing_member){.drive = testing_drive_new(TESTING_MEMBER_BYTES), .all = all};
    return all;
}

struct testing_members *testing_members_copy(struct testing_members *from)
{
    struct testing_members *all = calloc(1, sizeof(*all));
    assert_non_null(all);
    for (uint32_t i = 0; i < TESTING_MEMBERS; i++)
        all->members[i] =
            (struct testing_member){.drive = testing_drive_copy(&from->members[i].drive), .all = all};
    return all;
}

void testing_members_free(struct testing_members *all)
{
    for (uint32_t i = 0; i < TESTING_MEMBERS; i++)
        testing_drive_free(&all->members[i].drive);
    free(all);
}

struct task_node_options testing_members_options(struct testing_members *all)
{
    return (struct task_node_options){.drives = &testing_member_provider,
                                      .drives_arg = all,
                                      .log_level = BASE_LOG_DEBUG,
                                      .log_sink = testing_sink,
                                      .log_arg = &all->lines};
}

struct tarn_node *testing_members_node(struct testing_members *all)
{
    const struct task_node_options options = testing_members_options(all);
    struct tarn_node *node;
    assert_int_equal(task_node_open(&options, &node), 0);
    return node;
}

struct drive *testing_stripe_make(struct tarn_node *node, const char *list)
{
    static const struct drive_options options = {.make_stripe = true};
    struct drive *drive;
    assert_int_equal(drive_open(node, list, &options, &drive), 0);
    assert_int_equal(drive_establish(drive), 0);
    return drive;
}

int testing_stripe_try(struct testing_members *all, const char *list, const struct drive_options *options)
{
    struct tarn_node *node = testing_members_node(all);
    struct drive *drive;
    int error = drive_open(node, list, options, &drive);
    if (error == 0)
        drive_close(drive);
    task_node_close(node);
    for (uint32_t i = 0; i < TESTING_MEMBERS; i++)
        assert_false(all->members[i].open);
    return error;
}

void testing_stripe_refused(struct testing_members *all, const char *list,
                            const struct drive_options *options, int error, const char *why)
{
    uint64_t writes = all->writes;
    assert_int_equal(testing_stripe_try(all, list, options), error);
    assert_int_equal(all->writes, writes);
    if (strstr(all->lines.error, why) == NULL)
        fail_msg("%s is not in %s", why, all->lines.error);
}

void testing_stripe_fill(struct testing_members *all, const char *list)
{
    struct tarn_node *node = testing_members_node(all);
    struct drive *drive = testing_stripe_make(node, list);
    _Alignas(512) uint64_t unit[DRIVE_UNIT_BYTES_MIN / 8];
    for (uint64_t offset = 0; offset < drive_info(drive)->bytes; offset += DRIVE_UNIT_BYTES_MIN) {
        drive_testing_fill(unit, DRIVE_UNIT_BYTES_MIN, offset, 7);
        assert_int_equal(drive_write(drive, offset, unit, DRIVE_UNIT_BYTES_MIN, false), 0);
    }
    assert_int_equal(drive_flush(drive), 0);
    drive_close(drive);
    task_node_close(node);
}

void testing_stripe_expect(struct testing_members *all, const char *list, const struct drive_options *options)
{
    struct tarn_node *node = testing_members_node(all);
    struct drive *drive;
    _Alignas(512) uint64_t unit[DRIVE_UNIT_BYTES_MIN / 8];
    assert_int_equal(drive_open(node, list, options, &drive), 0);
    for (uint64_t offset = 0; offset < drive_info(drive)->bytes; offset += DRIVE_UNIT_BYTES_MIN) {
        assert_int_equal(drive_read(drive, offset, unit, DRIVE_UNIT_BYTES_MIN), 0);
        assert_true(testing_filled(unit, DRIVE_UNIT_BYTES_MIN, offset, 7));
    }
    drive_close(drive);
    task_node_close(node);
}

void testing_labels_change(struct testing_members *all, uint32_t member, void (*change)(struct drive_label *),
                           int copies)
{
    for (int copy = 0; copy < copies; copy++) {
        struct drive_label *label =
            (void *)(all->members[member].drive.bytes + copy * DRIVE_LABEL_COPY_BYTES);
        change(label);
        label->check = 0;
        label->check = base_crc32c(0, label, sizeof(*label));
    }
}

void testing_label_edit(struct base_random *random, uint8_t *bytes)
{
    static const uint64_t numbers[] = {0,
                                       1,
                                       2,
                                       3,
                                       32,
                                       33,
                                       DRIVE_UNIT_BYTES_MIN,
                                       DRIVE_UNIT_BYTES_MIN / 2,
                                       2 * DRIVE_UNIT_BYTES_MIN,
                                       UINT32_MAX,
                                       INT64_MAX,
                                       UINT64_MAX,
                                       1 << 17,
                                       1 << 18,
                                       16 * DRIVE_UNIT_BYTES_MIN,
                                       15 * DRIVE_UNIT_BYTES_MIN};
    static const size_t sizes[] = {1, 4, 8};
    struct drive_label label;
    memcpy(&label, bytes, sizeof(label));
    for (uint64_t edits = 1 + base_random_below(random, 3); edits > 0; edits--) {
        size_t size = sizes[base_random_below(random, base_array_count(sizes))];
        uint64_t number = numbers[base_random_below(random, base_array_count(numbers))];
        memcpy((uint8_t *)&label + size * base_random_below(random, 96 / size), &number, size);
    }
    if (base_random_below(random, 4) != 0) {
        label.check = 0;
        label.check = base_crc32c(0, &label, sizeof(label));
    }
    memcpy(bytes, &label, sizeof(label));
}

unsigned testing_stripe_read_all(struct testing_members *all, const char *list,
                                 const struct drive_options *options)
{
    struct tarn_node *node = testing_members_node(all);
    struct drive *drive;
    const bool opened = drive_open(node, list, options, &drive) == 0;
    if (opened) {
        uint8_t *memory = testing_pages(TESTING_MEMBERS * TESTING_MEMBER_BYTES);
        assert_in_range(drive_info(drive)->bytes, 1, TESTING_MEMBERS * TESTING_MEMBER_BYTES);
        assert_int_equal(drive_read(drive, 0, memory, drive_info(drive)->bytes), 0);
        free(memory);
        drive_close(drive);
    }
    task_node_close(node);
    return opened;
}
