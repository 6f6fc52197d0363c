/* What every store must do behind <tarn/kv.h>: run by the tests of each kind, in tasks and in plain threads. */
#include "kv/conformance_testing.h"

const struct testing_kind *testing_kind;

/* that is tested now */

struct testing_kv *testing_kv_open(struct testing_fabric *testing)
{
    struct testing_kv *self = calloc(1, sizeof(*self));
    assert_non_null(self);
    self->testing = testing;
    testing_kind->open(testing, &self->kv);
    tarn_kv_info(self->kv, &self->info);
    return self;
}

void testing_kv_close(struct testing_kv *self)
{
    testing_kind->close(self->testing, self->kv);
    free(self);
}

uint64_t kv_testing_store(struct testing_kv *self, const char *key, size_t bytes, uint64_t round)
{
    uint64_t version = 0;
    testing_fill(self->value, bytes, round);
    assert_int_equal(tarn_kv_put(self->kv, key, strlen(key), self->value, bytes, NULL, &version), 0);
    assert_true(version != 0);
    return version;
}

void testing_expect_value(struct testing_kv *self, const char *key, size_t bytes, uint64_t round)
{
    struct tarn_record_info info;
    testing_fill(self->value, bytes, round);
    memset(self->got, 0xee, bytes);
    assert_int_equal(tarn_kv_get(self->kv, key, strlen(key), self->got, sizeof(self->got), &info), 0);
    assert_int_equal(info.value_bytes, bytes);
    assert_memory_equal(self->got, self->value, bytes);
}

int testing_get(struct testing_kv *self, const char *key, struct tarn_record_info *ret_info)
{
    return tarn_kv_get(self->kv, key, strlen(key), self->got, sizeof(self->got), ret_info);
}

/* ---- values ------------------------------------------------------------------------------------- */

static void values_come_back(struct testing_fabric *testing)
{
    struct testing_kv *self = testing_kv_open(testing);
    static const size_t lengths[] = {0,    1,    7,    100,  1000,  4000,  4030,   4040,
                                     4063, 4064, 4065, 4100, 16000, 65536, 200001, LONG_BYTES};
    char key[32];
    for (unsigned i = 0; i < base_array_count(lengths); i++) {
        (void)snprintf(key, sizeof(key), "key-%zu", lengths[i]);
        (void)kv_testing_store(self, key, lengths[i], i);
    }
    for (unsigned i = 0; i < base_array_count(lengths); i++) {
        struct tarn_record_info info = {.version = 0};
        (void)snprintf(key, sizeof(key), "key-%zu", lengths[i]);
        testing_expect_value(self, key, lengths[i], i);
        if (lengths[i] == 0)
            continue;
        assert_int_equal(tarn_kv_get(self->kv, key, strlen(key), self->got, lengths[i] - 1, &info), -ENOBUFS);
        assert_int_equal(info.value_bytes, lengths[i]);
        assert_int_equal(tarn_kv_get(self->kv, key, strlen(key), self->got, lengths[i], NULL), 0);
    }
    struct tarn_record_info untouched = {.version = 77};
    assert_int_equal(testing_get(self, "missing", &untouched), -ENOENT);
    assert_int_equal(untouched.version, 77);
    testing_kv_close(self);
}

static void keys_have_their_lengths(struct testing_fabric *testing)
{
    static const size_t lengths[] = {1, 2, 250, 1024, 4000, 4095, 4096, TARN_KEY_BYTES_MAX};
    struct testing_kv *self = testing_kv_open(testing);
    static uint8_t key[TARN_KEY_BYTES_MAX + 1];
    size_t bytes;
    testing_fill(key, sizeof(key), 3);
    const size_t longest =
        testing_kind->key_bytes_max == 0 ? TARN_KEY_BYTES_MAX : testing_kind->key_bytes_max;
    for (unsigned i = 0; i < base_array_count(lengths); i++)
        assert_int_equal(tarn_kv_put(self->kv, key, lengths[i], &i, sizeof(i), NULL, NULL),
                         lengths[i] <= longest ? 0 : -EMSGSIZE);
    for (unsigned i = 0; i < base_array_count(lengths); i++) {
        unsigned found = 0;
        if (lengths[i] > longest) {
            assert_int_equal(tarn_kv_get(self->kv, key, lengths[i], &found, sizeof(found), NULL), -ENOENT);
            assert_int_equal(tarn_kv_delete(self->kv, key, lengths[i]), -ENOENT);
            continue;
        }
        assert_int_equal(tarn_kv_get(self->kv, key, lengths[i], &found, sizeof(found), NULL), 0);
        assert_int_equal(found, i);
        assert_int_equal(tarn_kv_read(self->kv, key, lengths[i], 0, 0, &found, 4, &bytes, NULL), 0);
        assert_int_equal(tarn_kv_delete(self->kv, key, lengths[i]), 0);
        assert_int_equal(tarn_kv_delete(self->kv, key, lengths[i]), -ENOENT);
    }
    for (size_t len = 0; len <= TARN_KEY_BYTES_MAX + 1; len += TARN_KEY_BYTES_MAX + 1) {
        struct tarn_get one = {.key = key, .key_len = len};
        assert_int_equal(tarn_kv_put(self->kv, key, len, "x", 1, NULL, NULL), -EINVAL);
        assert_int_equal(tarn_kv_get(self->kv, key, len, self->got, 10, NULL), -EINVAL);
        assert_int_equal(tarn_kv_read(self->kv, key, len, 0, 0, self->got, 10, &bytes, NULL), -EINVAL);
        assert_int_equal(tarn_kv_delete(self->kv, key, len), -EINVAL);
        tarn_kv_get_many(self->kv, &one, 1);
        assert_int_equal(one.error, -EINVAL);
    }
    testing_kv_close(self);
}

/* ---- conditions --------------------------------------------------------------------------------- */

static int put_if(struct testing_kv *self, enum tarn_put_condition condition, uint64_t version,
                  const char *value, uint64_t *ret_version)
{
    const struct tarn_put_options options = {.condition = condition, .if_version = version};
    return tarn_kv_put(self->kv, "k", 1, value, strlen(value), &options, ret_version);
}

void conditions_decide(struct testing_fabric *testing)
{
    struct testing_kv *self = testing_kv_open(testing);
    uint64_t first = 0, second = 0, untouched = 5;
    struct tarn_record_info info;
    assert_true((self->info.abilities & TARN_KV_VERSIONS) != 0);
    assert_int_equal(put_if(self, TARN_PUT_IF_PRESENT, 0, "a", &untouched), -ENOENT);
    assert_int_equal(put_if(self, TARN_PUT_IF_VERSION, 1, "a", &untouched), -ENOENT);
    assert_int_equal(testing_get(self, "k", &info), -ENOENT);
    assert_int_equal(put_if(self, TARN_PUT_IF_ABSENT, 0, "b", &first), 0);
    assert_int_equal(put_if(self, TARN_PUT_IF_ABSENT, 0, "c", &untouched), -EEXIST);
    assert_int_equal(put_if(self, TARN_PUT_IF_VERSION, first + 1, "d", &untouched), -EEXIST);
    assert_int_equal(untouched, 5);
    assert_int_equal(testing_get(self, "k", &info), 0);
    assert_int_equal(self->got[0], 'b');
    assert_true(info.version == first);
    assert_int_equal(put_if(self, TARN_PUT_IF_VERSION, first, "e", &second), 0);
    assert_true(second != first && second != 0);
    assert_int_equal(put_if(self, TARN_PUT_IF_PRESENT, 0, "f", &second), 0);
    assert_int_equal(testing_get(self, "k", &info), 0);
    assert_true(self->got[0] == 'f' && info.version == second);
    assert_int_equal(put_if(self, (enum tarn_put_condition)(TARN_PUT_IF_VERSION + 1), 0, "g", NULL), -EINVAL);
    const struct tarn_put_options wrong = {.note = TARN_NOTE_MAX + 1};
    assert_int_equal(tarn_kv_put(self->kv, "k", 1, "g", 1, &wrong, NULL), -EINVAL);
    assert_int_equal(testing_get(self, "k", &info), 0);
    assert_int_equal(self->got[0], 'f');
    testing_kv_close(self);
}

static void what_stands_beside_a_value(struct testing_fabric *testing)
{
    struct testing_kv *self = testing_kv_open(testing);
    const uint64_t now_ns = task_wall(testing->node),
                   later_ns = now_ns / 10000000 * 10000000 + 900 * BASE_NS_PER_SECOND;
    const struct tarn_put_options options = {.expiry_ns = later_ns,
                                             .client_flags = 0xfedcba98,
                                             .note = 2,
                                             .version = UINT64_C(0x1122334455667788)};
    const struct tarn_put_options past = {.expiry_ns = 1};
    struct tarn_record_info info;
    uint64_t version;
    assert_int_equal(tarn_kv_put(self->kv, "k", 1, "v", 1, &options, &version), 0);
    assert_true(version == options.version);
    assert_int_equal(testing_get(self, "k", &info), 0);
    assert_true(info.version == version && info.expiry_ns == later_ns);
    assert_int_equal(info.client_flags, options.client_flags);
    assert_int_equal(info.note, 2);
    assert_int_equal(tarn_kv_put(self->kv, "k", 1, "v", 1, &past, NULL), 0);
    assert_int_equal(testing_get(self, "k", &info), -ENOENT);
    testing_kv_close(self);
}

static void what_is_too_long_is_refused(struct testing_fabric *testing)
{
    struct testing_kv *self = testing_kv_open(testing);
    const uint64_t bytes = base_min(self->info.value_bytes_max, UINT64_C(64) << 20) + 1;
    (void)kv_testing_store(self, "k", 1000, 1);
    uint8_t *value = calloc(1, bytes);
    assert_non_null(value);
    assert_int_equal(tarn_kv_put(self->kv, "k", 1, value, bytes, NULL, NULL), -EMSGSIZE);
    free(value);
    testing_expect_value(self, "k", 1000, 1);
    testing_kv_close(self);
}

/* ---- many, and parts ---------------------------------------------------------------------------- */

static size_t length_of(unsigned i)
{
    return i % 50 == 49 ? 5000 + i * 300 : i % 7 * 40;
}

/* What was asked for some keys is what each has. */
static void check_many(struct testing_kv *self, const struct tarn_get *gets, unsigned count,
                       const unsigned *which)
{
    for (unsigned i = 0; i < count; i++) {
        const unsigned number = which[i];
        const size_t bytes = length_of(number);
        if (number >= KEYS) {
            assert_int_equal(gets[i].error, -ENOENT);
            continue;
        }
        assert_int_equal(gets[i].error, bytes > gets[i].value_room ? -ENOBUFS : 0);
        assert_int_equal(gets[i].info.value_bytes, bytes);
        testing_fill(self->value, bytes, number);
        if (gets[i].error == 0)
            assert_memory_equal(gets[i].value, self->value, bytes);
    }
}

void many_are_fetched(struct testing_fabric *testing)
{
    enum { ASKED = 333, ROOM = 70000 };
    struct testing_kv *self = testing_kv_open(testing);
    static char keys[ASKED][16];
    static struct tarn_get gets[ASKED];
    unsigned which[ASKED];
    uint8_t *values = malloc((size_t)ASKED * ROOM);
    assert_non_null(values);
    for (unsigned i = 0; i < KEYS; i++) {
        (void)snprintf(keys[0], sizeof(keys[0]), "many-%u", i);
        (void)kv_testing_store(self, keys[0], length_of(i), i);
    }
    for (unsigned round = 0; round < 3; round++) {
        const unsigned count = round == 0 ? 1 : round == 1 ? 60 : ASKED;
        for (unsigned i = 0; i < count; i++) {
            which[i] = (i * 37 + round) % (KEYS + 20);
            (void)snprintf(keys[i], sizeof(keys[i]), "many-%u", which[i]);
            gets[i] = (struct tarn_get){.key = keys[i],
                                        .key_len = strlen(keys[i]),
                                        .value = values + (size_t)i * ROOM,
                                        .value_room = i % 11 == 10 ? 60 : ROOM};
        }
        tarn_kv_get_many(self->kv, gets, count);
        check_many(self, gets, count, which);
    }
    tarn_kv_get_many(self->kv, NULL, 0);
    free(values);
    testing_kv_close(self);
}

static void parts_are_read(struct testing_fabric *testing)
{
    static const size_t at[] = {0, 1, 4000, 100000, LONG_BYTES - 1, LONG_BYTES, LONG_BYTES + 1, SIZE_MAX};
    static const size_t rooms[] = {0, 1, 4064, 5000, 100000, LONG_BYTES};
    struct testing_kv *self = testing_kv_open(testing);
    struct tarn_record_info info;
    size_t bytes = 99;
    const uint64_t version = kv_testing_store(self, "long", LONG_BYTES, 1);
    for (unsigned i = 0; i < base_array_count(at) * base_array_count(rooms); i++) {
        const size_t offset = at[i / base_array_count(rooms)], room = rooms[i % base_array_count(rooms)];
        const size_t there = offset < LONG_BYTES ? base_min(room, LONG_BYTES - offset) : 0;
        assert_int_equal(tarn_kv_read(self->kv, "long", 4, i % 2 == 0 ? version : 0, offset, self->got, room,
                                      &bytes, &info),
                         0);
        assert_int_equal(bytes, there);
        assert_true(info.version == version && info.value_bytes == LONG_BYTES);
        if (there > 0)
            assert_memory_equal(self->got, self->value + offset, there);
    }
    assert_int_equal(tarn_kv_read(self->kv, "none", 4, 0, 0, self->got, 1, &bytes, NULL), -ENOENT);
    (void)kv_testing_store(self, "long", LONG_BYTES, 2);
    bytes = 99;
    assert_int_equal(tarn_kv_read(self->kv, "long", 4, version, 0, self->got, 9, &bytes, NULL), -ESTALE);
    assert_int_equal(bytes, 99);
    testing_kv_close(self);
}

/* ---- longer than a request to a server ---------------------------------------------------------- */

/* Store bytes from wherever they lie in memory, and fetch them whole and in part. */
static void pass_long(struct testing_kv *self, const uint8_t *value, size_t bytes, uint8_t *got)
{
    const struct tarn_put_options absent = {.condition = TARN_PUT_IF_ABSENT, .client_flags = 7};
    struct tarn_record_info info;
    uint64_t version = 0;
    size_t part;
    assert_int_equal(tarn_kv_put(self->kv, "lo", 2, value, bytes, &absent, &version), 0);
    assert_int_equal(tarn_kv_put(self->kv, "lo", 2, value, bytes, &absent, NULL), -EEXIST);
    memset(got, 0xee, bytes);
    assert_int_equal(tarn_kv_get(self->kv, "lo", 2, got, bytes, &info), 0);
    assert_true(info.value_bytes == bytes && info.version == version && info.client_flags == 7);
    assert_memory_equal(got, value, bytes);
    assert_int_equal(tarn_kv_read(self->kv, "lo", 2, version, bytes - 1000, got, 2000, &part, NULL), 0);
    assert_int_equal(part, 1000);
    assert_memory_equal(got, value + bytes - 1000, part);
    assert_int_equal(tarn_kv_delete(self->kv, "lo", 2), 0);
}

void long_values_come_back(struct testing_fabric *testing)
{
    static const size_t lengths[] = {TARN_KV_REQUEST_BYTES - 2, TARN_KV_REQUEST_BYTES - 1, 1 << 20,
                                     (3 << 20) + 5};
    const size_t room = (3 << 20) + 16;
    struct testing_kv *self = testing_kv_open(testing);
    uint8_t *value = malloc(room), *got = malloc(room);
    const bool is_hash = self->info.kind == kv_kind_hash;
    const uint64_t longest = self->info.value_bytes_max - (is_hash ? 1 : 0); /* the key has two bytes */
    unsigned passed = 0;
    assert_true(value != NULL && got != NULL);
    testing_fill(value, room, 9);
    for (unsigned i = 0; i < base_array_count(lengths); i++) {
        if (lengths[i] > longest)
            continue;
        pass_long(self, value + i % 2 * 3, lengths[i], got); /* some begin where no word does */
        passed++;
    }
    assert_int_equal(passed, is_hash ? 1 : strcmp(self->info.kind, "cache") == 0 ? 3 : 4);
    free(value);
    free(got);
    testing_kv_close(self);
}

/* ---- piece by piece ----------------------------------------------------------------------------- */

static void write_parts(struct tarn_kv_writer *writer, const uint8_t *value, size_t bytes, size_t part)
{
    for (size_t done = 0; done < bytes; done += part)
        assert_int_equal(tarn_kv_writer_write(writer, value + done, base_min(part, bytes - done)), 0);
}

static void values_come_bit_by_bit(struct testing_fabric *testing)
{
    static const size_t lengths[] = {0, 1, 5000, LONG_BYTES}, parts[] = {777, 70000};
    struct testing_kv *self = testing_kv_open(testing);
    struct tarn_kv_writer *writer;
    uint64_t version = 0;
    for (unsigned i = 0; i < 2 * base_array_count(lengths); i++) {
        const size_t bytes = lengths[i / 2];
        testing_fill(self->value, bytes, i);
        assert_int_equal(
            tarn_kv_writer_open(self->kv, "w", 1, NULL, i % 2 == 0 ? bytes : TARN_LENGTH_UNKNOWN, &writer),
            0);
        write_parts(writer, self->value, bytes, parts[i % 2]);
        assert_int_equal(tarn_kv_writer_commit(writer, &version), 0);
        assert_true(version != 0);
        testing_expect_value(self, "w", bytes, i);
    }
    const uint64_t too_long = self->info.value_bytes_max + 1;
    const struct tarn_put_options absent = {.condition = TARN_PUT_IF_ABSENT},
                                  wrong = {.note = TARN_NOTE_MAX + 1};
    assert_int_equal(tarn_kv_writer_open(self->kv, "w", 1, NULL, too_long, &writer), -EMSGSIZE);
    assert_int_equal(tarn_kv_writer_open(self->kv, "w", 0, NULL, 1, &writer), -EINVAL);
    assert_int_equal(tarn_kv_writer_open(self->kv, "w", 1, &wrong, 1, &writer), -EINVAL);
    assert_int_equal(tarn_kv_writer_open(self->kv, "x", 1, &absent, 100, &writer), 0);
    write_parts(writer, self->value, 99, 99);
    assert_int_equal(testing_get(self, "x", NULL), -ENOENT);
    assert_int_equal(tarn_kv_writer_commit(writer, NULL), -ENODATA);
    assert_int_equal(tarn_kv_writer_open(self->kv, "x", 1, &absent, 100, &writer), 0);
    assert_int_equal(tarn_kv_writer_write(writer, self->value, 101), -EMSGSIZE);
    tarn_kv_writer_abort(writer);
    assert_int_equal(tarn_kv_writer_open(self->kv, "x", 1, &absent, TARN_LENGTH_UNKNOWN, &writer), 0);
    write_parts(writer, self->value, 200000, 100000);
    assert_int_equal(testing_get(self, "x", NULL), -ENOENT);
    (void)kv_testing_store(self, "x", 5, 1);
    assert_int_equal(tarn_kv_writer_commit(writer, NULL), -EEXIST);
    testing_expect_value(self, "x", 5, 1);
    testing_kv_close(self);
}

/* ---- scans -------------------------------------------------------------------------------------- */

struct testing_scan {
    struct testing_kv *self;
    unsigned seen[KEYS];
    unsigned visits, last; /* ends with 7 after so many; 0: with the last */
};

static int visit_record(void *arg, const void *key, size_t key_len, const void *value,
                        const struct tarn_record_info *info)
{
    struct testing_scan *scan = arg;
    char text[16] = "";
    unsigned number;
    assert_true(key_len < sizeof(text));
    memcpy(text, key, key_len);
    assert_int_equal(sscanf(text, "scan-%u", &number), 1);
    assert_true(number < KEYS);
    assert_int_equal(info->value_bytes, length_of(number));
    assert_true(info->version != 0);
    assert_int_equal(value == NULL, info->value_bytes > scan->self->info.whole_bytes_max);
    testing_fill(scan->self->value, info->value_bytes, number);
    if (value != NULL)
        assert_memory_equal(value, scan->self->value, info->value_bytes);
    testing_expect_value(scan->self, text, length_of(number), number); /* it may call the store */
    scan->seen[number]++;
    return ++scan->visits == scan->last ? 7 : 0;
}

static void all_is_scanned(struct testing_fabric *testing)
{
    struct testing_kv *self = testing_kv_open(testing);
    struct testing_scan scan = {.self = self};
    char key[16];
    assert_int_equal(tarn_kv_scan(self->kv, visit_record, &scan), 0);
    assert_int_equal(scan.visits, 0);
    for (unsigned i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof(key), "scan-%u", i);
        (void)kv_testing_store(self, key, length_of(i), i);
    }
    for (unsigned round = 0; round < 20; round++) {
        scan = (struct testing_scan){.self = self, .last = round == 0 ? 0 : round * 9};
        assert_int_equal(tarn_kv_scan(self->kv, visit_record, &scan), round == 0 ? 0 : 7);
        assert_int_equal(scan.visits, round == 0 ? KEYS : round * 9);
        for (unsigned i = 0; i < KEYS && round == 0; i++)
            assert_int_equal(scan.seen[i], 1);
    }
    testing_kv_close(self);
}

/* ---- together ----------------------------------------------------------------------------------- */

struct testing_counting {
    struct testing_kv *self;
    _Atomic unsigned next;
    _Atomic unsigned lost; /* puts that came too late */
};

int count_one(void *arg, const struct tarn_record_info *old, const void *value, struct tarn_update *update)
{
    uint64_t *number = arg;
    assert_int_equal(old->value_bytes, sizeof(*number));
    memcpy(number, value, sizeof(*number));
    ++*number;
    update->value = number;
    update->value_len = sizeof(*number);
    return 0;
}

/* Count numbers up that others count, too: none is lost, none counted twice. */
static void count_up(void *arg)
{
    struct testing_counting *counting = arg;
    struct tarn_kv *kv = counting->self->kv;
    for (unsigned i = 0; i < STEPS; i++) {
        const char key[] = {'c', (char)('0' + i % COUNTERS)};
        uint64_t number;
        int error;
        if (i % 4 == 3 && kv_is_local(kv)) {
            assert_int_equal(kv_update(kv, key, 2, count_one, &number, NULL), 0);
            continue;
        }
        do {
            struct tarn_put_options options = {.condition = TARN_PUT_IF_VERSION};
            struct tarn_record_info info;
            assert_int_equal(tarn_kv_get(kv, key, 2, &number, sizeof(number), &info), 0);
            number++;
            options.if_version = info.version;
            error = tarn_kv_put(kv, key, 2, &number, sizeof(number), &options, NULL);
            assert_true(error == 0 || error == -EEXIST);
            counting->lost += error != 0;
        } while (error != 0);
    }
}

static void counters_lose_nothing(struct testing_fabric *testing)
{
    struct testing_counting counting = {.self = testing_kv_open(testing)};
    struct tarn_kv *kv = counting.self->kv;
    struct testing_job jobs[JOBS];
    uint64_t number = 0, all = 0;
    for (unsigned i = 0; i < COUNTERS; i++)
        assert_int_equal(
            tarn_kv_put(kv, (char[]){'c', (char)('0' + i)}, 2, &number, sizeof(number), NULL, NULL), 0);
    for (unsigned i = 0; i < JOBS; i++)
        testing_start(testing, &jobs[i], i, count_up, &counting);
    for (unsigned i = 0; i < JOBS; i++)
        testing_join(&jobs[i]);
    for (unsigned i = 0; i < COUNTERS; i++) {
        assert_int_equal(tarn_kv_get(kv, (char[]){'c', (char)('0' + i)}, 2, &number, sizeof(number), NULL),
                         0);
        all += number;
    }
    assert_int_equal(all, JOBS * STEPS);
    testing_kv_close(counting.self);
}

static void model_put(struct testing_kv *self, struct testing_model *model, const char *key, uint64_t random,
                      uint64_t round)
{
    const struct tarn_put_options options = {.condition = (enum tarn_put_condition)(random % 4),
                                             .if_version = random % 3 == 0 ? 1 : model->version};
    const size_t bytes = random % 20 == 0 ? 4000 + random % 3000 : random % 200;
    const bool absent_fails =
        options.condition == TARN_PUT_IF_PRESENT || options.condition == TARN_PUT_IF_VERSION;
    const bool other = options.condition == TARN_PUT_IF_VERSION && options.if_version != model->version;
    const int wanted = model->present ? (options.condition == TARN_PUT_IF_ABSENT || other ? -EEXIST : 0)
                                      : (absent_fails ? -ENOENT : 0);
    uint64_t version = 0;
    testing_fill(self->value, bytes, round);
    assert_int_equal(tarn_kv_put(self->kv, key, strlen(key), self->value, bytes, &options, &version), wanted);
    if (wanted == 0)
        *model = (struct testing_model){.present = true, .bytes = bytes, .round = round, .version = version};
}

void agrees_with_a_model(struct testing_fabric *testing)
{
    struct testing_kv *self = testing_kv_open(testing);
    struct testing_model models[MODEL_KEYS] = {0};
    struct base_random random;
    base_random_init(&random, 7);
    for (uint64_t round = 0; round < testing_times(testing, MODEL_STEPS); round++) {
        const uint64_t draw = base_random_u64(&random) >> 8;
        struct testing_model *model = &models[draw % MODEL_KEYS];
        char key[16];
        (void)snprintf(key, sizeof(key), "model-%u", (unsigned)(draw % MODEL_KEYS));
        if (draw / MODEL_KEYS % 8 == 0) {
            assert_int_equal(tarn_kv_delete(self->kv, key, strlen(key)), model->present ? 0 : -ENOENT);
            *model = (struct testing_model){.present = false};
        } else if (draw / MODEL_KEYS % 8 < 4) {
            model_put(self, model, key, draw / MODEL_KEYS / 8, round);
        } else if (model->present) {
            testing_expect_value(self, key, model->bytes, model->round);
        } else {
            assert_int_equal(testing_get(self, key, NULL), -ENOENT);
        }
    }
    testing_kv_close(self);
}

/* ---- ranges ------------------------------------------------------------------------------------- */

enum { RANGE_KEYS = 600, RANGE_STOPS = 77 };

/* What a range is to show: keys "0000" to "0599" in their order. */
struct testing_ranging {
    unsigned next, shown, stop_at;
    bool reverse;
};

static int testing_expect_next(void *arg, const void *key, size_t key_len, const void *value,
                               const struct tarn_record_info *info)
{
    struct testing_ranging *ranging = arg;
    const unsigned number = ranging->reverse ? --ranging->next : ranging->next++;
    char wanted[8];
    uint8_t byte = 0;
    assert_int_equal(snprintf(wanted, sizeof(wanted), "%04u", number), 4);
    assert_int_equal(key_len, 4);
    assert_memory_equal(key, wanted, 4);
    assert_int_equal(info->value_bytes, number * 3);
    assert_true(value != NULL);
    for (uint32_t i = 0; i < info->value_bytes; i++)
        byte |= ((const uint8_t *)value)[i] ^ 0x77;
    assert_int_equal(byte, 0);
    return ++ranging->shown == ranging->stop_at ? RANGE_STOPS : 0;
}

static void expect_range(struct tarn_kv *kv, unsigned from, unsigned below, uint64_t limit)
{
    char from_text[8], below_text[8];
    (void)snprintf(from_text, sizeof(from_text), "%04u", from);
    (void)snprintf(below_text, sizeof(below_text), "%04u", below);
    for (unsigned way = 0; way < 2; way++) {
        const struct tarn_kv_range range = {.from = from_text,
                                            .from_len = from == 0 ? 0 : 4,
                                            .below = below_text,
                                            .below_len = below == RANGE_KEYS ? 0 : 4,
                                            .reverse = way == 1,
                                            .limit = limit};
        struct testing_ranging ranging = {.next = way == 0 ? from : below, .reverse = way == 1};
        const unsigned wanted = from >= below ? 0 : below - from;
        assert_int_equal(tarn_kv_range(kv, &range, testing_expect_next, &ranging), 0);
        assert_int_equal(ranging.shown, limit == 0 ? wanted : base_min((uint64_t)wanted, limit));
        if (wanted < 2 || limit == 1)
            continue;
        ranging =
            (struct testing_ranging){.next = way == 0 ? from : below, .reverse = way == 1, .stop_at = 2};
        assert_int_equal(tarn_kv_range(kv, &range, testing_expect_next, &ranging), RANGE_STOPS);
        assert_int_equal(ranging.shown, 2);
    }
}

void kv_testing_expect_ranges(struct testing_kv *self)
{
    static const unsigned bounds[] = {0, 1, 77, 300, 599, RANGE_KEYS};
    char key[8];
    memset(self->value, 0x77, RANGE_KEYS * 3);
    expect_range(self->kv, 0, 0, 0);
    for (unsigned i = 0; i < RANGE_KEYS; i++) { /* in no order */
        const unsigned number = i * 7 % RANGE_KEYS;
        (void)snprintf(key, sizeof(key), "%04u", number);
        assert_int_equal(tarn_kv_put(self->kv, key, 4, self->value, number * 3, NULL, NULL), 0);
    }
    for (unsigned i = 0; i < base_array_count(bounds); i++) {
        for (unsigned k = 0; k < base_array_count(bounds); k++) {
            expect_range(self->kv, bounds[i], bounds[k], 0);
            expect_range(self->kv, bounds[i], bounds[k], 1);
            expect_range(self->kv, bounds[i], bounds[k], 150);
        }
    }
    const struct tarn_kv_range endless = {.from = self->value, .from_len = 2000};
    assert_int_equal(tarn_kv_range(self->kv, &endless, testing_expect_next, NULL), -EINVAL);
}

static void ranges_are_in_order(struct testing_fabric *testing)
{
    struct testing_kv *self = testing_kv_open(testing);
    if ((self->info.abilities & TARN_KV_ORDERED) != 0)
        kv_testing_expect_ranges(self);
    else
        assert_int_equal(
            tarn_kv_range(self->kv, &(struct tarn_kv_range){.limit = 0}, testing_expect_next, NULL),
            -EOPNOTSUPP);
    testing_kv_close(self);
}

/* ---- several keys at once ------------------------------------------------------------------------- */

enum { TOO_MUCH = 2 << 20 }; /* for a batch */

static void expect_text(struct tarn_kv *kv, const char *key, const char *wanted, uint64_t *ret_version)
{
    char value[16];
    struct tarn_record_info info;
    const int error = tarn_kv_get(kv, key, strlen(key), value, sizeof(value), &info);
    assert_int_equal(error, wanted == NULL ? -ENOENT : 0);
    if (wanted == NULL)
        return;
    assert_int_equal(info.value_bytes, strlen(wanted));
    assert_memory_equal(value, wanted, info.value_bytes);
    if (ret_version != NULL)
        *ret_version = info.version;
}

static struct tarn_batch_item item_of(const char *key, const char *value)
{
    return (struct tarn_batch_item){
        .key = key, .key_len = strlen(key), .value = value, .value_len = value == NULL ? 0 : strlen(value)};
}

void kv_testing_expect_batches(struct testing_kv *self)
{
    static const struct tarn_put_options absent = {.condition = TARN_PUT_IF_ABSENT},
                                         flags = {.client_flags = 77, .note = 2},
                                         bad = {.note = TARN_NOTE_MAX + 1};
    struct tarn_kv *kv = self->kv;
    struct tarn_record_info info;
    uint64_t version;
    char byte;
    assert_int_equal(tarn_kv_write_batch(kv, NULL, 0), 0);
    struct tarn_batch_item items[] = {item_of("batch a", "1"), item_of("batch b", "22"),
                                      item_of("batch c", "")};
    items[1].options = &flags;
    assert_int_equal(tarn_kv_write_batch(kv, items, 3), 0);
    expect_text(kv, "batch a", "1", &version);
    assert_true(version == items[0].version && items[0].error == 0);
    expect_text(kv, "batch b", "22", NULL);
    expect_text(kv, "batch c", "", NULL);
    assert_int_equal(tarn_kv_get(kv, "batch b", 7, &byte, 0, &info), -ENOBUFS);
    assert_true(info.client_flags == 77 && info.note == 2 && info.version == items[1].version);

    /* a transaction: what was read is still there */
    const struct tarn_put_options same = {.condition = TARN_PUT_IF_VERSION, .if_version = version};
    items[0] = item_of("batch a", NULL);
    items[0].check = true;
    items[0].options = &same;
    items[1] = item_of("batch b", NULL);
    items[1].remove = true;
    items[2] = item_of("batch d", "4");
    items[2].options = &absent;
    assert_int_equal(tarn_kv_write_batch(kv, items, 3), 0);
    assert_int_equal(items[0].version, version);
    expect_text(kv, "batch a", "1", NULL);
    expect_text(kv, "batch b", NULL, NULL);
    expect_text(kv, "batch d", "4", NULL);

    /* or it is not: each item says what is with it */
    assert_int_equal(tarn_kv_put(kv, "batch a", 7, "5", 1, NULL, NULL), 0);
    items[1] = item_of("batch c", "6");
    assert_int_equal(tarn_kv_write_batch(kv, items, 3), -EEXIST);
    assert_int_equal(items[0].error, -EEXIST);
    assert_int_equal(items[1].error, -ECANCELED);
    assert_int_equal(items[2].error, -EEXIST);
    expect_text(kv, "batch a", "5", NULL);
    expect_text(kv, "batch c", "", NULL);
    expect_text(kv, "batch d", "4", NULL);

    /* what is no batch */
    items[0] = item_of("batch a", "7");
    items[1] = item_of("batch a", "8");
    assert_int_equal(tarn_kv_write_batch(kv, items, 2), -EINVAL);
    items[1] = item_of("", "8");
    assert_int_equal(tarn_kv_write_batch(kv, items, 2), -EINVAL);
    items[1] = item_of("batch c", "8");
    items[1].options = &bad;
    assert_int_equal(tarn_kv_write_batch(kv, items, 2), -EINVAL);
    assert_int_equal(items[0].error, -ECANCELED);
    assert_int_equal(items[1].error, -EINVAL);
    items[1].options = NULL;
    uint8_t *much = calloc(1, TOO_MUCH);
    assert_non_null(much);
    items[1].value = much;
    items[1].value_len = TOO_MUCH;
    assert_int_equal(tarn_kv_write_batch(kv, items, 2), -E2BIG);
    free(much);
    expect_text(kv, "batch a", "5", NULL);
    expect_text(kv, "batch c", "", NULL);
}

static void batches_are_all_or_nothing(struct testing_fabric *testing)
{
    struct testing_kv *self = testing_kv_open(testing);
    struct tarn_batch_item item = item_of("a", "1");
    if ((self->info.abilities & TARN_KV_BATCHES) != 0)
        kv_testing_expect_batches(self);
    else
        assert_int_equal(tarn_kv_write_batch(self->kv, &item, 1), -EOPNOTSUPP);
    testing_kv_close(self);
}

#define SUITE(EACH)                                                                                          \
    EACH(values_come_back)                                                                                   \
    EACH(keys_have_their_lengths)                                                                            \
    EACH(conditions_decide)                                                                                  \
    EACH(what_stands_beside_a_value)                                                                         \
    EACH(what_is_too_long_is_refused)                                                                        \
    EACH(many_are_fetched)                                                                                   \
    EACH(parts_are_read)                                                                                     \
    EACH(long_values_come_back)                                                                              \
    EACH(values_come_bit_by_bit)                                                                             \
    EACH(all_is_scanned)                                                                                     \
    EACH(counters_lose_nothing)                                                                              \
    EACH(ranges_are_in_order)                                                                                \
    EACH(batches_are_all_or_nothing)                                                                         \
    EACH(agrees_with_a_model)

SUITE(TESTING_BOTH)

static const struct CMUnitTest kv_conformance_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite kv_conformance = TESTING_SUITE(kv_conformance_tests);
