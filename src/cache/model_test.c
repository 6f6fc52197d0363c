/*
 * Do random operations agree with a plain model, of which anything may be evicted? What is returned is the newest value
 * of its key, what was once missed does not come back, and the checker finds nothing. Memory is tiny: all goes round
 * all the time.
 */
#include "base/testing_slow.h"
#include "cache/testing.h"

enum {
    SEEDS = TESTING_SLOW ? 3000 : 40000,
    OPERATIONS = 200,
    KEYS = 40,
    KEY_ROOM = 300,
    VALUE_ROOM = 4096,
};

struct model_key {
    uint8_t key[KEY_ROOM];
    size_t key_len;
    bool present; /* as far as is known */
    uint8_t value[VALUE_ROOM];
    struct tarn_record_info info;
};

struct model {
    struct testing_cache testing;
    struct base_random random;
    uint64_t now_ns;
    uint64_t last_version;
    uint64_t flush_ns;
    struct model_key keys[KEYS];
};

static uint64_t below(struct model *model, uint64_t n)
{
    return base_random_below(&model->random, n);
}

/* What is there by the model's knowledge; the store may have evicted it. */
static bool is_there(const struct model *model, const struct model_key *key)
{
    return key->present && (key->info.expiry_ns == 0 || key->info.expiry_ns > model->now_ns);
}

/* The store said that a key is there, or not: the first must be so, the second is known from now on. */
static void learn(struct model *model, struct model_key *key, bool there)
{
    if (there)
        assert_true(is_there(model, key));
    else
        key->present = false;
}

static uint64_t random_expiry(struct model *model)
{
    return below(model, 3) == 0 ? model->now_ns / CACHE_EXPIRY_UNIT_NS * CACHE_EXPIRY_UNIT_NS +
                                      below(model, 20) * CACHE_EXPIRY_UNIT_NS
                                : 0;
}

/* Mostly short, sometimes as long as the store takes, and one more; often a number. */
static size_t random_value(struct model *model, const struct model_key *key, uint8_t *value)
{
    uint64_t most = cache_value_bytes_max(model->testing.partition, key->key_len);
    assert_true(most < VALUE_ROOM);
    switch (below(model, 8)) {
    case 0:
        return (size_t)snprintf((char *)value, VALUE_ROOM, "%u", (unsigned)below(model, 1000));
    case 1:
        base_random_fill(&model->random, value, most + 1);
        return most + (below(model, 4) == 0);
    default:
        base_random_fill(&model->random, value, 64);
        return below(model, 64);
    }
}

static void stored(struct model *model, struct model_key *key, const void *value, size_t value_len,
                   uint64_t version)
{
    assert_true(version > model->last_version);
    model->last_version = version;
    key->present = true;
    memmove(key->value, value, value_len);
    key->info.value_bytes = (uint32_t)value_len;
    key->info.version = version;
}

/* ---- operations ------------------------------------------------------------------------------------------- */

static void check_value(const struct model_key *key, const void *value, const struct tarn_record_info *info)
{
    assert_int_equal(info->version, key->info.version);
    assert_int_equal(info->value_bytes, key->info.value_bytes);
    assert_int_equal(info->client_flags, key->info.client_flags);
    assert_int_equal(info->expiry_ns, key->info.expiry_ns);
    assert_int_equal(info->note, key->info.note);
    if (info->value_bytes > 0)
        assert_memory_equal(value, key->value, info->value_bytes);
}

static void do_get(struct model *model, struct model_key *key)
{
    uint8_t value[VALUE_ROOM];
    struct tarn_record_info info;
    size_t room = below(model, 4) == 0 ? 16 : sizeof(value);
    int error =
        cache_get(model->testing.partition, key->key, key->key_len, model->now_ns, value, room, &info);
    learn(model, key, error != -ENOENT);
    if (error == -ENOENT)
        return;
    assert_int_equal(error, key->info.value_bytes > room ? -ENOBUFS : 0);
    if (error == -ENOBUFS)
        assert_int_equal(info.value_bytes, key->info.value_bytes);
    else
        check_value(key, value, &info);
}

static void do_find_many(struct model *model)
{
    struct cache_found found[100];
    uint64_t which[100];
    size_t count = below(model, 101);
    for (size_t i = 0; i < count; i++) {
        which[i] = below(model, KEYS);
        found[i] =
            (struct cache_found){.key = model->keys[which[i]].key, .key_len = model->keys[which[i]].key_len};
    }
    cache_find_many(model->testing.partition, model->now_ns, found, count);
    for (size_t i = 0; i < count; i++) {
        learn(model, &model->keys[which[i]], found[i].error == 0);
        if (found[i].error == 0)
            check_value(&model->keys[which[i]], found[i].value, &found[i].info);
        else
            assert_int_equal(found[i].error, -ENOENT);
    }
}

static void do_put(struct model *model, struct model_key *key)
{
    uint8_t value[VALUE_ROOM];
    size_t value_len = random_value(model, key, value);
    struct tarn_put_options options = {.condition = (enum tarn_put_condition)below(model, 4),
                                       .expiry_ns = random_expiry(model),
                                       .client_flags = (uint32_t)base_random_u64(&model->random),
                                       .note = (uint8_t)below(model, 4)};
    options.if_version = below(model, 3) == 0 ? 7 : key->info.version;
    uint64_t version = 0;
    int error = cache_put(model->testing.partition, key->key, key->key_len, value, value_len, &options,
                          model->now_ns, &version);
    switch (options.condition) {
    case TARN_PUT_IF_ABSENT:
        learn(model, key, error == -EEXIST);
        break;
    case TARN_PUT_IF_PRESENT:
        learn(model, key, error != -ENOENT);
        break;
    case TARN_PUT_IF_VERSION:
        learn(model, key, error != -ENOENT);
        if (error != -ENOENT)
            assert_true((error == -EEXIST) == (options.if_version != key->info.version));
        break;
    default:
        break;
    }
    if (error == -EMSGSIZE) {
        assert_true(value_len > cache_value_bytes_max(model->testing.partition, key->key_len));
        return;
    }
    if (error != 0)
        return;
    stored(model, key, value, value_len, version);
    key->info.expiry_ns = options.expiry_ns;
    key->info.client_flags = options.client_flags;
    key->info.note = options.note;
}

static void do_delete(struct model *model, struct model_key *key)
{
    int error = cache_delete(model->testing.partition, key->key, key->key_len, model->now_ns);
    learn(model, key, error == 0);
    key->present = false;
}

static void do_touch(struct model *model, struct model_key *key)
{
    uint64_t expiry_ns = random_expiry(model);
    int error = cache_touch(model->testing.partition, key->key, key->key_len, expiry_ns, model->now_ns);
    learn(model, key, error == 0);
    if (error == 0)
        key->info.expiry_ns = expiry_ns;
}

static void do_append(struct model *model, struct model_key *key)
{
    uint8_t data[VALUE_ROOM], joined[2 * VALUE_ROOM];
    size_t data_len = random_value(model, key, data), old_len = key->info.value_bytes;
    bool in_front = below(model, 2) == 0;
    uint64_t version;
    int error = cache_append(model->testing.partition, key->key, key->key_len, data, data_len, in_front,
                             model->now_ns, &version);
    learn(model, key, error != -ENOENT);
    if (error == -ENOENT)
        return;
    assert_int_equal(error, old_len + data_len > cache_value_bytes_max(model->testing.partition, key->key_len)
                                ? -EMSGSIZE
                                : 0);
    if (error != 0)
        return;
    memcpy(joined + (in_front ? data_len : 0), key->value, old_len);
    memcpy(joined + (in_front ? 0 : old_len), data, data_len);
    stored(model, key, joined, old_len + data_len, version);
    key->info.note = 0;
}

static void do_count(struct model *model, struct model_key *key)
{
    struct cache_count count = {.delta = below(model, 2000), .down = below(model, 2) == 0};
    int error = cache_count(model->testing.partition, key->key, key->key_len, model->now_ns, &count);
    learn(model, key, error != -ENOENT);
    if (error != 0)
        return; /* what is a number, update_test knows */
    char text[80];
    key->value[key->info.value_bytes] = '\0';
    uint64_t before = strtoull((char *)key->value, NULL, 10);
    uint64_t after = !count.down ? before + count.delta : before < count.delta ? 0 : before - count.delta;
    assert_int_equal(count.number, after);
    int len = snprintf(text, sizeof(text), "%-*llu", (int)key->info.value_bytes, (unsigned long long)after);
    stored(model, key, text, (size_t)len, count.version);
    key->info.note = 0;
}

struct decision {
    struct model *model;
    struct model_key *key;
    struct tarn_update update;
    bool was_there;
};

static int decide(void *arg, const struct tarn_record_info *old, const void *value,
                  struct tarn_update *update)
{
    struct decision *decision = arg;
    struct model *model = decision->model;
    struct model_key *key = decision->key;
    decision->was_there = old != NULL;
    learn(model, key, old != NULL);
    if (old != NULL) {
        check_value(key, value, old);
        assert_int_equal(update->expiry_ns, old->expiry_ns);
        assert_int_equal(update->client_flags, old->client_flags);
        assert_int_equal(update->note, old->note);
    }
    switch (below(model, 4)) {
    case 0:
        update->remove = true;
        break;
    case 1:
        update->keep = old != NULL;
        update->value = "new";
        update->value_len = 3;
        break;
    case 2: /* a part of the old one */
        update->value_len = old == NULL ? 0 : below(model, old->value_bytes + 1);
        update->value = old == NULL
                            ? NULL
                            : (const uint8_t *)value + below(model, old->value_bytes - update->value_len + 1);
        break;
    default:
        return -ECANCELED;
    }
    update->expiry_ns = random_expiry(model);
    update->client_flags ^= 1;
    update->note = (uint8_t)below(model, 4);
    decision->update = *update;
    return 0;
}

static void do_update(struct model *model, struct model_key *key)
{
    struct decision decision = {.model = model, .key = key};
    uint8_t before[VALUE_ROOM];
    uint64_t version;
    size_t at = 0;
    memcpy(before, key->value, sizeof(before));
    int error = cache_update(model->testing.partition, key->key, key->key_len, decide, &decision,
                             model->now_ns, &version);
    const struct tarn_update *update = &decision.update;
    if (error != 0) {
        assert_int_equal(error, -ECANCELED);
        return;
    }
    if (update->remove) {
        key->present = false;
        return;
    }
    if (update->keep) {
        stored(model, key, before, key->info.value_bytes, version);
    } else if (update->value_len == 0 || !decision.was_there) {
        stored(model, key, update->value_len == 0 ? (const void *)"" : update->value, update->value_len,
               version);
    } else if (update->value_len == 3 && !cache_in_log(model->testing.partition, update->value)) {
        stored(model, key, "new", 3, version);
    } else { /* where the part began, its place in the old record told */
        while (at + update->value_len <= key->info.value_bytes) {
            struct cache_found found = {.key = key->key, .key_len = key->key_len};
            if (cache_find(model->testing.partition, 1, &found) == 0 &&
                memcmp(before + at, found.value, update->value_len) == 0)
                break;
            at++;
        }
        assert_true(at + update->value_len <= key->info.value_bytes);
        stored(model, key, before + at, update->value_len, version);
    }
    key->info.expiry_ns = update->expiry_ns;
    key->info.client_flags = update->client_flags;
    key->info.note = update->note;
}

static void flush_due(struct model *model)
{
    if (model->flush_ns > model->now_ns)
        return;
    for (size_t i = 0; i < KEYS; i++)
        model->keys[i].present = false;
    model->flush_ns = UINT64_MAX;
}

static void do_flush(struct model *model)
{
    model->flush_ns = model->now_ns + below(model, 3) * 5 * CACHE_EXPIRY_UNIT_NS;
    cache_flush(model->testing.partition, model->flush_ns, model->now_ns);
    flush_due(model);
}

static void operate(struct model *model)
{
    struct model_key *key = &model->keys[below(model, KEYS)];
    uint64_t kind = below(model, 100);
    if (below(model, 3) == 0)
        model->now_ns += below(model, 3 * CACHE_EXPIRY_UNIT_NS);
    flush_due(model);
    if (kind < 30)
        do_get(model, key);
    else if (kind < 65)
        do_put(model, key);
    else if (kind < 70)
        do_delete(model, key);
    else if (kind < 75)
        do_touch(model, key);
    else if (kind < 82)
        do_append(model, key);
    else if (kind < 87)
        do_count(model, key);
    else if (kind < 95)
        do_update(model, key);
    else if (kind < 99)
        do_find_many(model);
    else
        do_flush(model);
}

/* ---- seeds ------------------------------------------------------------------------------------------------- */

static void make_keys(struct model *model)
{
    for (size_t i = 0; i < KEYS; i++) {
        struct model_key *key = &model->keys[i];
        key->key_len = i == 0 ? 250 : 2 + below(model, below(model, 8) == 0 ? 100 : 20);
        memset(key->key, 'k', key->key_len); /* alike but for two bytes */
        key->key[below(model, 2) == 0 ? 0 : key->key_len - 2] = (uint8_t)i;
        key->key[key->key_len - 1] = (uint8_t)i;
        key->present = false;
        key->info = (struct tarn_record_info){.version = 0};
    }
}

static void run_seed(struct model *model, struct tarn_node *node, uint64_t seed)
{
    base_random_init(&model->random, seed);
    model->now_ns = TESTING_NOW;
    model->last_version = 0;
    model->flush_ns = UINT64_MAX;
    uint64_t bytes = CACHE_PARTITION_BYTES_MIN + below(model, 3) * 1000 / 8 * 8;
    cache_testing_open(&model->testing, node, 1, bytes, seed % 2 == 1, NULL, seed + 1);
    make_keys(model);
    for (int i = 0; i < OPERATIONS; i++) {
        operate(model);
        if (i % 64 == 0)
            cache_testing_check(&model->testing);
    }
    cache_testing_close(&model->testing);
}

static void test_random_operations_agree_with_the_model(void **state base_unused)
{
    static struct model model;
    struct tarn_node *node = cache_testing_node();
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        run_seed(&model, node, seed);
    task_node_close(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_operations_agree_with_the_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
