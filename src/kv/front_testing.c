/* What stores of this process do for front ends. */
#include "kv/front_testing.h"

/* What a decision is to see and to say. */
struct testing_decision {
    const char *old; /* the value that is to be there; NULL: none */
    struct tarn_update update;
    int answer;
    unsigned asked;
    struct tarn_record_info info; /* that it saw */
};

static int testing_decide(void *arg, const struct tarn_record_info *old, const void *value,
                          struct tarn_update *update)
{
    struct testing_decision *decision = arg;
    decision->asked++;
    assert_int_equal(old != NULL, decision->old != NULL);
    assert_int_equal(value != NULL, decision->old != NULL);
    assert_true(update->version == 0 && update->value == NULL && !update->keep && !update->remove);
    if (old != NULL) {
        assert_int_equal(old->value_bytes, strlen(decision->old));
        assert_memory_equal(value, decision->old, old->value_bytes);
        assert_true(update->expiry_ns == old->expiry_ns && update->client_flags == old->client_flags);
        assert_int_equal(update->note, old->note);
        decision->info = *old;
    }
    *update = decision->update;
    return decision->answer;
}

static int testing_update(struct tarn_kv *kv, const char *old, struct tarn_update update, int answer,
                          uint64_t *ret_version)
{
    struct testing_decision decision = {.old = old, .update = update, .answer = answer};
    int error = kv_update(kv, "k", 1, testing_decide, &decision, ret_version);
    assert_int_equal(decision.asked, 1);
    return error;
}

#define TESTING_TEXT(text) .value = (text), .value_len = sizeof(text) - 1

static void testing_expect_text(struct tarn_kv *kv, const char *key, const char *text,
                                struct tarn_record_info *ret_info)
{
    char got[100] = "";
    int error = tarn_kv_get(kv, key, strlen(key), got, sizeof(got) - 1, ret_info);
    assert_int_equal(error, text == NULL ? -ENOENT : 0);
    assert_string_equal(got, text == NULL ? "" : text);
}

static void testing_decisions(struct tarn_kv *kv)
{
    uint64_t first = 0, second = 0, version = 77;
    struct tarn_record_info info;
    assert_int_equal(testing_update(kv, NULL, (struct tarn_update){TESTING_TEXT("a")}, 7, &version), 7);
    assert_int_equal(testing_update(kv, NULL, (struct tarn_update){TESTING_TEXT("a")}, -EDOM, &version),
                     -EDOM);
    assert_int_equal(testing_update(kv, NULL, (struct tarn_update){.keep = true}, 0, &version), -EINVAL);
    assert_int_equal(testing_update(kv, NULL, (struct tarn_update){.remove = true}, 0, &version), 0);
    assert_int_equal(version, 77);
    testing_expect_text(kv, "k", NULL, NULL);
    assert_int_equal(testing_update(kv, NULL, (struct tarn_update){TESTING_TEXT("one")}, 0, &first), 0);
    testing_expect_text(kv, "k", "one", &info);
    assert_true(first != 0 && info.version == first && info.expiry_ns == 0);
    assert_int_equal(
        testing_update(kv, "one",
                       (struct tarn_update){TESTING_TEXT("number 2"), .client_flags = 5, .note = 1}, 0,
                       &second),
        0);
    testing_expect_text(kv, "k", "number 2", &info);
    assert_true(second != first && info.version == second && info.client_flags == 5 && info.note == 1);
    assert_int_equal(testing_update(kv, "number 2",
                                    (struct tarn_update){.keep = true, .client_flags = 6, .version = second},
                                    0, &version),
                     0);
    testing_expect_text(kv, "k", "number 2", &info);
    assert_true(version == second && info.version == second && info.client_flags == 6 && info.note == 0);
    const struct tarn_update wrong = {TESTING_TEXT("x"), .note = TARN_NOTE_MAX + 1};
    assert_int_equal(testing_update(kv, "number 2", wrong, 0, NULL), -EINVAL);
    assert_int_equal(testing_update(kv, "number 2", (struct tarn_update){.remove = true}, 9, NULL), 9);
    testing_expect_text(kv, "k", "number 2", NULL);
    assert_int_equal(testing_update(kv, "number 2", (struct tarn_update){.remove = true}, 0, NULL), 0);
    testing_expect_text(kv, "k", NULL, NULL);
}

static void front_ends_decide(struct testing_fabric *testing)
{
    struct testing_kv *self = testing_kv_open(testing);
    struct testing_decision never = {.asked = 0};
    assert_true(kv_is_local(self->kv));
    testing_decisions(self->kv);
    assert_int_equal(kv_update(self->kv, "k", 0, testing_decide, &never, NULL), -EINVAL);
    assert_int_equal(kv_update(self->kv, "k", TARN_KEY_BYTES_MAX + 1, testing_decide, &never, NULL), -EINVAL);
    assert_int_equal(kv_touch(self->kv, "k", 0, 0), -EINVAL);
    assert_int_equal(never.asked, 0);
    testing_kv_close(self);
}

/* A key each. */
static void testing_store_letters(struct testing_kv *self)
{
    for (char letter = 'a'; letter <= 'z'; letter++)
        (void)kv_testing_store(self, (char[]){letter, '\0'}, 10, (uint64_t)letter);
}

static void testing_expect_no_letters(struct testing_kv *self)
{
    for (char letter = 'a'; letter <= 'z'; letter++)
        assert_int_equal(testing_get(self, (char[]){letter, '\0'}, NULL), -ENOENT);
}

static void front_ends_touch(struct testing_fabric *testing)
{
    struct testing_kv *self = testing_kv_open(testing);
    const uint64_t unit_ns = 10 * BASE_NS_PER_MS;
    const uint64_t later_ns = (task_wall(testing->node) / unit_ns + 90000) * unit_ns;
    struct tarn_record_info info;
    assert_int_equal(kv_touch(self->kv, "k", 1, 0), -ENOENT);
    const uint64_t version = kv_testing_store(self, "k", 10, 1);
    assert_int_equal(kv_touch(self->kv, "k", 1, later_ns), 0);
    assert_int_equal(testing_get(self, "k", &info), 0);
    assert_true(info.expiry_ns == later_ns && info.version == version);
    assert_int_equal(kv_touch(self->kv, "k", 1, 1), 0); /* long over */
    assert_int_equal(testing_get(self, "k", &info), -ENOENT);
    testing_kv_close(self);
}

/* Now, and at a moment that is still to come when all is stored. */
static void front_ends_flush(struct testing_fabric *testing)
{
    struct testing_kv *self = testing_kv_open(testing);
    uint64_t when_ns, delay_ns = 10 * BASE_NS_PER_MS;
    testing_store_letters(self);
    assert_int_equal(kv_flush(self->kv, 0), 0);
    testing_expect_no_letters(self);
    assert_int_equal(kv_flush(self->kv, task_wall(testing->node) + 900 * BASE_NS_PER_SECOND), 0);
    testing_store_letters(self);
    testing_expect_value(self, "a", 10, 'a');
    do {
        delay_ns *= 2;
        when_ns = task_wall(testing->node) + delay_ns;
        assert_int_equal(kv_flush(self->kv, when_ns), 0);
        testing_store_letters(self);
    } while (task_wall(testing->node) >= when_ns);
    while (testing_get(self, "a", NULL) == 0)
        continue;
    testing_expect_no_letters(self);
    testing_store_letters(self);
    testing_expect_value(self, "a", 10, 'a');
    testing_kv_close(self);
}

/* Values that are shown in the order of their keys. */
struct testing_showing {
    struct testing_kv *self;
    struct tarn_get *gets;
    size_t shown, last; /* the visitor has room for so many */
    unsigned kept;
};

static bool testing_show(void *arg, struct tarn_get *get, struct tarn_lease *lease)
{
    struct testing_showing *showing = arg;
    const size_t number = (size_t)(get - showing->gets);
    assert_int_equal(number, showing->shown);
    if (showing->shown == showing->last)
        return false;
    showing->shown++;
    assert_int_equal(get->error, number % 3 == 2 ? -ENOENT : number == 7 ? -EINVAL : 0);
    if (get->error != 0) {
        assert_int_equal(lease->bytes, 0);
        return true;
    }
    assert_int_equal(get->info.value_bytes, 100 * number);
    assert_int_equal(lease->bytes, 100 * number);
    testing_fill(showing->self->value, 100 * number, number);
    if (number > 0)
        assert_memory_equal(lease->data, showing->self->value, 100 * number);
    if (number == 40 && kv_lease_keep(lease)) {
        struct tarn_lease kept = *lease;
        kv_lease_end(&kept);
        showing->kept++;
    }
    return true;
}

static void front_ends_are_shown_values(struct testing_fabric *testing)
{
    enum { GETS = 64 };
    struct testing_kv *self = testing_kv_open(testing);
    const struct kv_room room = {.bytes = UINT64_MAX, .lease_bytes = UINT64_MAX, .lease_from = 2048};
    struct tarn_get gets[GETS];
    static const size_t rooms[] = {0, 1, 7, 8, 40, 41, GETS};
    char keys[GETS][8];
    for (unsigned i = 0; i < GETS; i++) {
        gets[i] =
            (struct tarn_get){.key = keys[i], .key_len = (size_t)snprintf(keys[i], sizeof(keys[i]), "%u", i)};
        if (i % 3 != 2)
            (void)kv_testing_store(self, keys[i], 100 * i, i);
    }
    gets[7].key_len = 0;
    for (unsigned i = 0; i < base_array_count(rooms); i++) {
        struct testing_showing showing = {.self = self, .gets = gets, .last = rooms[i]};
        assert_int_equal(kv_get_each(self->kv, gets, GETS, &room, testing_show, &showing), rooms[i]);
        assert_int_equal(showing.shown, rooms[i]);
        assert_int_equal(showing.kept, rooms[i] > 40 && kv_depot_of(self->kv) != NULL);
    }
    assert_int_equal(kv_shows_under_lock(self->kv),
                     self->info.kind == kv_kind_cache || self->info.kind == kv_kind_tree);
    testing_kv_close(self);
}

static void front_ends_are_told_counters(struct testing_fabric *testing)
{
    struct testing_kv *self = testing_kv_open(testing);
    const struct tarn_put_options past = {.expiry_ns = 1};
    struct kv_stats before, after;
    assert_int_equal(kv_stats(self->kv, &before), 0);
    assert_true(before.records == 0 && before.live_bytes == 0 && before.capacity_bytes > UINT64_C(8) << 20);
    for (unsigned i = 0; i < 20; i++)
        (void)kv_testing_store(self, (char[]){(char)('a' + i), '\0'}, 1000, i);
    assert_int_equal(tarn_kv_put(self->kv, "z", 1, "v", 1, &past, NULL), 0);
    assert_int_equal(testing_get(self, "z", NULL), -ENOENT);
    assert_int_equal(kv_stats(self->kv, &after), 0);
    assert_int_equal(after.records, 21);
    assert_in_range(after.live_bytes, 20 * 1000, 21 * 1200);
    assert_int_equal(after.gets_expired, 1);
    assert_true(after.index_bytes > 0 && after.evictions == 0 &&
                after.capacity_bytes == before.capacity_bytes);
    const uint64_t whole = kv_whole_bytes_max(self->kv, 1);
    assert_in_range(whole, self->info.whole_bytes_max, self->info.value_bytes_max);
    assert_true(kv_whole_bytes_max(self->kv, TARN_KEY_BYTES_MAX) <= whole);
    testing_kv_close(self);
}

#define SUITE(EACH)                                                                                          \
    EACH(front_ends_decide)                                                                                  \
    EACH(front_ends_touch)                                                                                   \
    EACH(front_ends_flush)                                                                                   \
    EACH(front_ends_are_shown_values)                                                                        \
    EACH(front_ends_are_told_counters)

SUITE(TESTING_BOTH)

static const struct CMUnitTest kv_front_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite kv_front = TESTING_SUITE(kv_front_tests);
