/*
 * Does a client that READs an owner's memory ever take for a value what is none? Word by word, while the owner changes
 * it, in any order that the fabric allows; and is what a hostile owner shows harmless?
 */
#include "base/testing_slow.h"
#include "cache/testing.h"
#include "fabric/fabric.h"
#include "lab/cache_remote.h"

enum {
    SMALL = 4096,
    READ_ROOM = 2048,
};

static uint8_t *at(struct testing_cache *testing, uint64_t offset)
{
    return testing->regions[0].memory + offset;
}

static void connect(struct testing_cache *testing, struct cache_header *remote)
{
    assert_int_equal(cache_header_unpack(at(testing, 0), testing->bytes, remote), 0);
}

/* A get with nobody in between. @return as lab_cache_get_take() */
static int get_whole(struct testing_cache *testing, const char *key, uint64_t now_ns, const void **ret_value,
                     struct tarn_record_info *ret_info)
{
    struct cache_header remote;
    struct lab_cache_get get;
    connect(testing, &remote);
    assert_int_equal(lab_cache_get_begin(&get, &remote, key, strlen(key)), 0);
    int error;
    do
        error = lab_cache_get_take(&get, at(testing, get.offset), now_ns, ret_value, ret_info);
    while (error == -EINPROGRESS);
    return error;
}

static void expect_remote(struct testing_cache *testing, const char *key, const char *value)
{
    const void *got;
    struct tarn_record_info info;
    int error = get_whole(testing, key, TESTING_NOW, &got, &info);
    assert_int_equal(error, value == NULL ? -ENOENT : 0);
    if (value == NULL)
        return;
    assert_int_equal(info.value_bytes, strlen(value));
    assert_memory_equal(got, value, strlen(value));
}

/* ---- whole READs --------------------------------------------------------------------------------------------- */

static void test_a_client_finds_what_the_owner_stored(void **state base_unused)
{
    struct testing_cache testing;
    struct tarn_record_info info;
    const void *value;
    uint64_t version;
    testing_begin(&testing, SMALL, true);
    expect_remote(&testing, "a", NULL);
    const struct tarn_put_options options = {
        .client_flags = 3, .note = 2, .expiry_ns = TESTING_NOW + TESTING_SECOND};
    assert_int_equal(testing_put_with(&testing, "a", "value", options, &version), 0);
    assert_int_equal(cache_testing_put(&testing, "b", ""), 0);
    expect_remote(&testing, "a", "value");
    expect_remote(&testing, "b", "");
    expect_remote(&testing, "c", NULL);
    assert_int_equal(get_whole(&testing, "a", TESTING_NOW, &value, &info), 0);
    assert_int_equal(info.version, version);
    assert_int_equal(info.client_flags, 3);
    assert_int_equal(info.note, 2);
    assert_int_equal(info.expiry_ns, TESTING_NOW + TESTING_SECOND);
    assert_int_equal(get_whole(&testing, "a", TESTING_NOW + TESTING_SECOND, &value, NULL), -ENOENT);
    assert_int_equal(cache_touch(testing.partition, "a", 1, 0, TESTING_NOW), 0);
    assert_int_equal(get_whole(&testing, "a", TESTING_NOW + TESTING_SECOND, &value, NULL), 0);
    assert_int_equal(cache_testing_put(&testing, "a", "another"), 0);
    expect_remote(&testing, "a", "another");
    assert_int_equal(cache_append(testing.partition, "a", 1, " one", 4, false, TESTING_NOW, NULL), 0);
    expect_remote(&testing, "a", "another one");
    assert_int_equal(cache_delete(testing.partition, "a", 1, TESTING_NOW), 0);
    expect_remote(&testing, "a", NULL);
    cache_flush(testing.partition, 0, TESTING_NOW);
    expect_remote(&testing, "b", NULL);
    cache_testing_end(&testing);
}

/* All keys that the owner has, after many were evicted, and none that it has not. */
static void test_a_client_sees_what_the_owner_sees(void **state base_unused)
{
    struct testing_cache testing;
    unsigned hits = 0;
    testing_begin(&testing, SMALL, true);
    for (unsigned i = 0; i < 1000; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%u", i);
        assert_int_equal(cache_testing_put(&testing, key, key), 0);
    }
    for (unsigned i = 0; i < 1000; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%u", i);
        struct cache_found found = {.key = key, .key_len = strlen(key)};
        bool there = cache_find(testing.partition, TESTING_NOW, &found) == 0;
        expect_remote(&testing, key, there ? key : NULL);
        hits += there;
    }
    assert_true(hits > 30);
    cache_testing_end(&testing);
}

static void test_keys_are_checked(void **state base_unused)
{
    struct testing_cache testing;
    struct cache_header remote;
    struct lab_cache_get get;
    static char key[TARN_KEY_BYTES_MAX + 1];
    testing_begin(&testing, SMALL, true);
    connect(&testing, &remote);
    assert_int_equal(lab_cache_get_begin(&get, &remote, key, 0), -EINVAL);
    assert_int_equal(lab_cache_get_begin(&get, &remote, key, sizeof(key)), -EINVAL);
    assert_int_equal(lab_cache_get_begin(&get, &remote, key, sizeof(key) - 1), 0);
    remote.partitions = 2;
    unsigned others = 0;
    for (unsigned i = 0; i < 100; i++) {
        bool mine = cache_partition_of(remote.seed, 2, &i, sizeof(i)) == 0;
        assert_int_equal(lab_cache_get_begin(&get, &remote, &i, sizeof(i)), mine ? 0 : -EXDEV);
        others += !mine;
    }
    assert_true(others > 20 && others < 80);
    cache_testing_end(&testing);
}

/* What was overwritten or removed does not verify where it lay, for a client that comes late with an old entry. */
static void test_what_is_gone_does_not_verify(void **state base_unused)
{
    struct testing_cache testing;
    struct cache_header remote;
    const void *value;
    testing_begin(&testing, SMALL, true);
    connect(&testing, &remote);
    for (int way = 0; way < 2; way++) {
        struct lab_cache_get get;
        assert_int_equal(cache_testing_put(&testing, "k", "old"), 0);
        assert_int_equal(lab_cache_get_begin(&get, &remote, "k", 1), 0);
        assert_int_equal(lab_cache_get_take(&get, at(&testing, get.offset), 0, &value, NULL), -EINPROGRESS);
        if (way == 0)
            assert_int_equal(cache_testing_put(&testing, "k", "new"), 0);
        else
            assert_int_equal(cache_delete(testing.partition, "k", 1, 0), 0);
        assert_int_equal(lab_cache_get_take(&get, at(&testing, get.offset), 0, &value, NULL), -EAGAIN);
        assert_int_equal(get.bytes, CACHE_BUCKET_BYTES); /* it has begun anew */
        expect_remote(&testing, "k", way == 0 ? "new" : NULL);
    }
    cache_testing_end(&testing);
}

/* An entry that leads to another key of its tag and bucket is no miss yet; one of any other key is a change. */
static void test_neighbours_and_strangers(void **state base_unused)
{
    struct testing_cache testing;
    struct cache_header remote;
    struct lab_cache_get get;
    struct cache_place place;
    const void *value;
    testing_begin(&testing, SMALL, true);
    connect(&testing, &remote);
    assert_int_equal(cache_testing_put(&testing, "a", "1"), 0);
    assert_int_equal(cache_look(testing.partition, "a", 1, &place), 0);
    assert_int_equal(lab_cache_get_begin(&get, &remote, "b", 1), 0);
    get.hash = place.hash; /* as if it were b's */
    get.offset = (uint64_t)((uint8_t *)place.bucket - testing.regions[0].memory);
    assert_int_equal(lab_cache_get_take(&get, place.bucket, 0, &value, NULL), -EINPROGRESS);
    assert_int_equal(lab_cache_get_take(&get, place.record, 0, &value, NULL), -ENOENT);
    uint64_t bucket[CACHE_BUCKET_ENTRIES] = {0};
    assert_int_equal(lab_cache_get_begin(&get, &remote, "b", 1), 0);
    bucket[5] =
        cache_entry_pack(cache_hash_tag(get.hash), 5, (uint64_t)(place.record - testing.partition->log));
    assert_int_equal(lab_cache_get_take(&get, bucket, 0, &value, NULL), -EINPROGRESS);
    assert_int_equal(lab_cache_get_take(&get, place.record, 0, &value, NULL), -EAGAIN);
    cache_testing_end(&testing);
}

/* ---- mixtures --------------------------------------------------------------------------------------------------- */

enum { IMAGES = 8, IMAGE_WORDS = 14, MIXTURES = TESTING_SLOW ? 300000 : 3000000 };

/* Records of one key that lay at one place, one after the other, and any mixture of their words. */
static void test_no_mixture_of_records_verifies(void **state base_unused)
{
    struct testing_cache testing;
    struct cache_header remote;
    struct lab_cache_get get;
    struct base_random random;
    uint64_t images[IMAGES][IMAGE_WORDS], mixture[IMAGE_WORDS];
    const void *value;
    base_random_init(&random, 7);
    testing_begin(&testing, SMALL, true);
    connect(&testing, &remote);
    for (unsigned i = 0; i < IMAGES; i++) {
        char text[80];
        memset(text, 'v', sizeof(text)); /* alike but for a few words */
        text[base_random_below(&random, 75)] = (char)i;
        cache_flush(testing.partition, 0, 0);
        assert_int_equal(cache_put(testing.partition, "key", 3, text, 77, NULL, 0, NULL), 0);
        memcpy(images[i], testing.partition->log, sizeof(images[i]));
    }
    assert_int_equal(lab_cache_get_begin(&get, &remote, "key", 3), 0);
    assert_int_equal(lab_cache_get_take(&get, at(&testing, get.offset), 0, &value, NULL), -EINPROGRESS);
    assert_int_equal(get.bytes, sizeof(mixture));
    const struct lab_cache_get begun = get;
    unsigned whole = 0;
    for (unsigned try = 0; try < MIXTURES; try++) {
        unsigned a = (unsigned)base_random_below(&random, IMAGES),
                 b = (unsigned)base_random_below(&random, IMAGES);
        uint64_t from_b = base_random_u64(&random) & base_random_u64(&random);
        for (unsigned i = 0; i < IMAGE_WORDS; i++)
            mixture[i] = (from_b >> i & 1) != 0 ? images[b][i] : images[a][i];
        bool is_whole = memcmp(mixture, images[a], sizeof(mixture)) == 0 ||
                        memcmp(mixture, images[b], sizeof(mixture)) == 0;
        get = begun;
        assert_int_equal(lab_cache_get_take(&get, mixture, 0, &value, NULL), is_whole ? 0 : -EAGAIN);
        whole += is_whole;
    }
    assert_true(whole > 1000 && whole < MIXTURES / 2);
    cache_testing_end(&testing);
}

/* Whatever an owner shows, what is READ next lies in its region, and a value in what was READ. */
static void test_a_hostile_owner_is_harmless(void **state base_unused)
{
    struct testing_cache testing;
    struct cache_header remote;
    struct base_random random;
    base_random_init(&random, 11);
    testing_begin(&testing, SMALL, true);
    connect(&testing, &remote);
    uint8_t *data = base_alloc(&testing.node->memory, SMALL);
    for (unsigned try = 0; try < 300000; try++) {
        struct lab_cache_get get;
        const void *value = NULL;
        struct tarn_record_info info;
        assert_int_equal(lab_cache_get_begin(&get, &remote, &try, sizeof(try)), 0);
        for (unsigned step = 0; step < 12; step++) {
            assert_true(get.offset <= SMALL && get.bytes <= SMALL - get.offset &&
                        get.bytes >= CACHE_RECORD_HEADER_BYTES);
            assert_true(get.offset % 8 == 0 && get.bytes % 8 == 0);
            uint8_t *end = data + SMALL - get.bytes; /* a sanitizer sees what is read behind it */
            base_random_fill(&random, end, base_min(get.bytes, (uint64_t)64));
            if (!get.reads_record) { /* tags that fit, places all over */
                for (unsigned i = 0; i < 8; i++)
                    base_store_le64(end + 8 * i, (base_random_u64(&random) & UINT64_C(0xfff00001ff)) |
                                                     (uint64_t)cache_hash_tag(get.hash)
                                                         << CACHE_ENTRY_TAG_SHIFT);
            }
            int error = lab_cache_get_take(&get, end, 0, &value, &info);
            assert_true(error == -EINPROGRESS || error == -EAGAIN);
        }
    }
    base_free(&testing.node->memory, data, SMALL);
    cache_testing_end(&testing);
}

/* ---- clients beside the owner ------------------------------------------------------------------------------------ */

enum {
    READERS = 5,
    KEYS = 12,
    PUTS_MAX = 1000,
    OPERATIONS = 400,
    SEEDS = TESTING_SLOW ? 100 : 1500,
    NOT_YET = 0,
};

/* A put, by number; times are ticks of the world. */
struct history {
    uint64_t key, value_len;
    uint64_t began, ended; /* ended: NOT_YET while the owner is at it */
    uint64_t replaced;     /* when the change ended that replaced or removed it; NOT_YET */
};

struct reader {
    bool busy, posted;
    uint64_t sleeps_to; /* before it posts its READ */
    uint64_t key, began;
    uint64_t newest; /* of its key, that any get had seen that was over when this one began */
    struct lab_cache_get get;
    uint64_t read_offset, read_bytes;
    uint8_t data[READ_ROOM];
};

/* The owner, its memory, and clients whose READs take each word when they like. */
struct world {
    struct testing_cache testing;
    struct cache_header remote;
    struct base_random random;
    uint64_t tick;
    struct reader readers[READERS];
    struct history puts[PUTS_MAX];
    uint64_t put_count;
    uint64_t current[KEYS]; /* put that counts, PUTS_MAX: none */
    uint64_t seen[KEYS];    /* newest put, plus 1, that any finished get has seen */
    uint64_t keys;          /* that are used */
    uint64_t lengths;       /* of values: how many there are */
    uint64_t flush_percent;
    uint64_t changing; /* key that the owner is at, KEYS: none */
    uint64_t hits, misses, again;
};

static uint64_t below(struct world *world, uint64_t n)
{
    return base_random_below(&world->random, n);
}

/* What a put stores: its number, then bytes that follow from it. */
static void make_value(uint64_t number, uint8_t *value, uint64_t value_len)
{
    struct base_random random;
    base_random_init(&random, number);
    base_random_fill(&random, value, value_len);
    memcpy(value, &number, sizeof(number));
}

static void key_of(uint64_t key, char text[8])
{
    (void)snprintf(text, 8, "key%02u", (unsigned)key);
}

/* A client may take its time before each READ: the log has gone round then, or was flushed. */
static void plan_read(struct world *world, struct reader *reader)
{
    reader->posted = false;
    reader->sleeps_to = world->tick + (below(world, world->keys) == 0 ? below(world, 800) : 0);
}

static void post_read(struct world *world, struct reader *reader)
{
    if (world->tick < reader->sleeps_to)
        return;
    reader->posted = true;
    reader->read_offset = reader->get.offset;
    reader->read_bytes = reader->get.bytes;
    assert_true(reader->read_bytes <= READ_ROOM);
    memcpy(reader->data, at(&world->testing, reader->read_offset), reader->read_bytes);
}

static void begin_get(struct world *world, struct reader *reader)
{
    static char keys[READERS][8];
    char *key = keys[reader - world->readers];
    reader->busy = true;
    reader->began = world->tick;
    reader->key = below(world, world->keys);
    reader->newest = world->seen[reader->key];
    key_of(reader->key, key);
    assert_int_equal(lab_cache_get_begin(&reader->get, &world->remote, key, 5), 0);
    plan_read(world, reader);
}

/* A hit is of a put that had begun, and that nothing had replaced before the get began; and of none older than what
 * was seen before. */
static void check_hit(struct world *world, const struct reader *reader, const void *value, uint64_t value_len)
{
    uint64_t number;
    uint8_t wanted[READ_ROOM];
    assert_true(value_len >= sizeof(number));
    memcpy(&number, value, sizeof(number));
    assert_true(number < world->put_count);
    const struct history *put = &world->puts[number];
    assert_int_equal(put->key, reader->key);
    assert_int_equal(put->value_len, value_len);
    make_value(number, wanted, value_len);
    assert_memory_equal(value, wanted, value_len);
    assert_true(put->replaced == NOT_YET || put->replaced >= reader->began);
    assert_true(number + 1 >= reader->newest);
    world->seen[reader->key] = base_max(world->seen[reader->key], number + 1);
    world->hits++;
}

/* What was there all the time is no miss; nor is what was seen of a put that the owner is still at. */
static void check_miss(struct world *world, const struct reader *reader)
{
    if (reader->newest > 0)
        assert_true(world->puts[reader->newest - 1].ended != NOT_YET);
    struct cache_place place;
    char key[8];
    uint64_t number = world->current[reader->key];
    world->misses++;
    if (number == PUTS_MAX || world->changing == reader->key || world->puts[number].ended == NOT_YET ||
        world->puts[number].ended > reader->began)
        return;
    key_of(reader->key, key);
    assert_int_equal(cache_look(world->testing.partition, key, 5, &place), 0);
    assert_true(place.slot == CACHE_NONE || place.header.killed); /* evicted */
}

/* A reader's READ completes or is posted, or it begins a get. */
static void step_reader(struct world *world, struct reader *reader)
{
    const void *value;
    struct tarn_record_info info;
    if (!reader->busy) {
        begin_get(world, reader);
        return;
    }
    if (!reader->posted) {
        post_read(world, reader);
        return;
    }
    int error = lab_cache_get_take(&reader->get, reader->data, TESTING_NOW, &value, &info);
    world->again += error == -EAGAIN;
    if (error == -EINPROGRESS || error == -EAGAIN) {
        plan_read(world, reader);
        return;
    }
    reader->busy = false;
    if (error == 0) {
        check_hit(world, reader, value, info.value_bytes);
    } else {
        assert_int_equal(error, -ENOENT);
        check_miss(world, reader);
    }
}

/* Between any two stores; now and then the owner is paused, and clients do much. */
static void step_readers(struct world *world)
{
    for (uint64_t rounds = below(world, 4 * world->keys) == 0 ? 40 : 1; rounds > 0; rounds--) {
        world->tick++;
        for (unsigned i = 0; i < READERS; i++) {
            if (below(world, 4) == 0)
                step_reader(world, &world->readers[i]);
        }
    }
}

/* ---- the owner's memory */

static uint64_t load64(const struct tarn_fabric_region *region, uint64_t offset)
{
    uint64_t value;
    memcpy(&value, region->memory + offset, sizeof(value));
    return value;
}

/* READs that are on their way may or may not see it. */
static void store64(struct tarn_fabric_region *region, uint64_t offset, uint64_t value)
{
    struct world *world = region->state;
    memcpy(region->memory + offset, &value, sizeof(value));
    for (unsigned i = 0; i < READERS; i++) {
        struct reader *reader = &world->readers[i];
        if (reader->busy && reader->posted && offset - reader->read_offset < reader->read_bytes &&
            below(world, 2) == 0)
            memcpy(reader->data + (offset - reader->read_offset), &value, sizeof(value));
    }
    step_readers(world);
}

static void copy_out(const struct tarn_fabric_region *region, uint64_t offset, void *to, uint64_t bytes)
{
    memcpy(to, region->memory + offset, bytes);
}

/* Words in some order: from any of them on, forwards or backwards. */
static void copy_in(struct tarn_fabric_region *region, uint64_t offset, const void *from, uint64_t bytes)
{
    struct world *world = region->state;
    uint64_t first = offset / 8, words = (offset + bytes + 7) / 8 - first;
    uint64_t start = below(world, words), step = words == 1 || below(world, 2) == 0 ? 1 : words - 1;
    for (uint64_t i = 0; i < words; i++) {
        uint64_t word = first + (start + i * step) % words;
        uint64_t low = base_max(word * 8, offset), high = base_min(word * 8 + 8, offset + bytes);
        uint64_t value = load64(region, word * 8);
        memcpy((uint8_t *)&value + (low - word * 8), (const uint8_t *)from + (low - offset), high - low);
        store64(region, word * 8, value);
    }
}

static const struct tarn_fabric_mem_operations adversary = {
    .load64 = load64, .store64 = store64, .copy_out = copy_out, .copy_in = copy_in};

/* ---- what the owner does */

/* A change of a key is over. */
static void replaced(struct world *world, uint64_t key, uint64_t number)
{
    if (world->current[key] != PUTS_MAX)
        world->puts[world->current[key]].replaced = world->tick;
    world->current[key] = number;
    world->changing = KEYS;
}

static void do_put(struct world *world, uint64_t key, const char *text)
{
    uint8_t value[READ_ROOM];
    uint64_t number = world->put_count;
    struct history *put = &world->puts[number];
    if (number == PUTS_MAX)
        return;
    *put =
        (struct history){.key = key, .began = ++world->tick, .value_len = 8 + below(world, world->lengths)};
    world->put_count++;
    make_value(number, value, put->value_len);
    assert_int_equal(
        cache_put(world->testing.partition, text, 5, value, put->value_len, NULL, TESTING_NOW, NULL), 0);
    put->ended = ++world->tick;
    replaced(world, key, number);
}

static void operate(struct world *world)
{
    char text[8];
    uint64_t key = below(world, world->keys), kind = below(world, 20);
    key_of(key, text);
    world->changing = key;
    if (kind < 13) {
        do_put(world, key, text);
    } else if (kind < 16) {
        (void)!cache_delete(world->testing.partition, text, 5, TESTING_NOW);
        world->tick++;
        replaced(world, key, PUTS_MAX);
    } else if (kind < 19) {
        (void)!cache_touch(world->testing.partition, text, 5, TESTING_NOW * (2 + below(world, 10000)),
                           TESTING_NOW);
    } else if (below(world, 100) < world->flush_percent) {
        cache_flush(world->testing.partition, 0, TESTING_NOW);
        world->tick++;
        for (uint64_t i = 0; i < KEYS; i++)
            replaced(world, i, PUTS_MAX);
    }
    world->changing = KEYS;
    for (uint64_t i = below(world, 4); i > 0; i--)
        step_readers(world);
}

static void run_seed(struct world *world, struct tarn_node *node, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    base_random_init(&world->random, seed);
    cache_testing_open(&world->testing, node, 1, SMALL, true, NULL, 1 + seed);
    world->testing.regions[0].mem = &adversary;
    world->testing.regions[0].state = world;
    connect(&world->testing, &world->remote);
    for (uint64_t i = 0; i < KEYS; i++)
        world->current[i] = PUTS_MAX;
    world->changing = KEYS;
    world->lengths = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 40 : 300; /* of one length: places come again */
    world->keys = seed % 3 == 0 ? 3 : KEYS;
    world->flush_percent = seed % 2 == 0 ? 10 : 100;
    for (int i = 0; i < OPERATIONS; i++)
        operate(world);
    cache_testing_close(&world->testing);
}

static void test_clients_beside_a_busy_owner(void **state base_unused)
{
    static struct world world;
    uint64_t hits = 0, misses = 0, again = 0;
    struct tarn_node *node = cache_testing_node();
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        run_seed(&world, node, seed);
        hits += world.hits, misses += world.misses, again += world.again;
    }
    task_node_close(node);
    print_message("%llu hits, %llu misses, %llu times again\n", (unsigned long long)hits,
                  (unsigned long long)misses, (unsigned long long)again);
    assert_true(hits > SEEDS * 50 && misses > SEEDS * 20 && again > SEEDS * 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_client_finds_what_the_owner_stored),
        cmocka_unit_test(test_a_client_sees_what_the_owner_sees),
        cmocka_unit_test(test_keys_are_checked),
        cmocka_unit_test(test_what_is_gone_does_not_verify),
        cmocka_unit_test(test_neighbours_and_strangers),
        cmocka_unit_test(test_no_mixture_of_records_verifies),
        cmocka_unit_test(test_a_hostile_owner_is_harmless),
        cmocka_unit_test(test_clients_beside_a_busy_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
