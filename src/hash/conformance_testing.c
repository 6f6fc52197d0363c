/* What hash stores must do on every provider: run by the tests of each, in tasks and in plain threads. */
#include "hash/conformance_testing.h"
#include "hash/hash_internal.h"
#include "space/client.h"

#define SOON TESTING_LATE

/* A store that is so small that it meets its limits. */
static const struct hash_shape small = {.slots = 256,
                                        .capacity = 8 * TESTING_CHUNK_BYTES,
                                        .slab_bytes = 8192,
                                        .locks = 64,
                                        .clients = 8,
                                        .filter_bits = 7,
                                        .operation_ns = 20 * BASE_NS_PER_MS,
                                        .lease_ns = 20 * BASE_NS_PER_MS};

enum { SLOWER = 25 }; /* round trips of a slow provider */

/* A client of its own session. */
struct client {
    struct tarn_space *space;
    struct tarn_space_namespace *of;
    struct hash *hash;
};

static void open_client(struct space_testing *self, struct client *client, const struct hash_shape *shape,
                        uint64_t cache_bytes)
{
    struct hash_shape made = shape == NULL ? (struct hash_shape){.slots = 0} : *shape;
    const struct hash_options options = {.shape = shape == NULL ? NULL : &made, .cache_bytes = cache_bytes};
    if (self->testing->subject->is_slow) { /* an operation that takes too long begins again */
        made.operation_ns *= SLOWER;
        made.lease_ns *= SLOWER;
    }
    client->space = space_testing_connect(self);
    int error = tarn_space_create_ns(client->space, "stores", NULL, 0, SOON, &client->of);
    if (error == -EEXIST)
        error = tarn_space_join_ns(client->space, "stores", NULL, 0, SOON, &client->of);
    assert_int_equal(error, 0);
    assert_int_equal(
        hash_open(self->testing->node, client->space, client->of, "users", &options, SOON, &client->hash), 0);
}

static void leave(struct client *client)
{
    tarn_space_leave_ns(client->of);
    tarn_space_disconnect(client->space);
}

static void close_client(struct client *client)
{
    hash_close(client->hash);
    leave(client);
}

/* ---- single operations -------------------------------------------------------------------------- */

static int put_if(struct client *client, const char *key, const void *value, size_t bytes,
                  struct tarn_put_options options, uint64_t *ret_version)
{
    struct hash_op op = {.kind = HASH_PUT,
                         .key = key,
                         .key_len = strlen(key),
                         .value = value,
                         .value_len = bytes,
                         .options = options};
    hash_run(client->hash, &op, 1, SOON);
    if (op.error == 0 && ret_version != NULL)
        *ret_version = op.info.version;
    return op.error;
}

static int put(struct client *client, const char *key, const char *value)
{
    return put_if(client, key, value, strlen(value), (struct tarn_put_options){.condition = TARN_PUT_ANY},
                  NULL);
}

static int delete (struct client *client, const char *key)
{
    struct hash_op op = {.kind = HASH_DELETE, .key = key, .key_len = strlen(key)};
    hash_run(client->hash, &op, 1, SOON);
    return op.error;
}

static int get(struct client *client, const char *key, char *room, size_t bytes)
{
    struct hash_op op = {
        .kind = HASH_GET, .key = key, .key_len = strlen(key), .room = room, .room_bytes = bytes - 1};
    hash_run(client->hash, &op, 1, SOON);
    if (op.error == 0)
        room[op.info.value_bytes] = 0;
    return op.error;
}

static void expect(struct client *client, const char *key, const char *value)
{
    char room[256];
    assert_int_equal(get(client, key, room, sizeof(room)), value == NULL ? -ENOENT : 0);
    if (value != NULL)
        assert_string_equal(room, value);
}

static void share_records(struct space_testing *self)
{
    struct client one, two;
    open_client(self, &one, &small, 0);
    open_client(self, &two, &small, 65536);
    expect(&one, "a", NULL);
    assert_int_equal(put(&one, "a", "1"), 0);
    expect(&one, "a", "1");
    expect(&two, "a", "1");
    assert_int_equal(put(&two, "a", "2"), 0);
    expect(&two, "a", "2");
    expect(&one, "a", "2");
    assert_int_equal(put(&one, "a", "3"), 0);
    expect(&two, "a", "3");
    assert_int_equal(put(&one, "empty", ""), 0);
    expect(&two, "empty", "");
    assert_int_equal(delete (&two, "a"), 0);
    assert_int_equal(delete (&one, "a"), -ENOENT);
    expect(&one, "a", NULL);
    expect(&two, "a", NULL);
    close_client(&two);
    open_client(self, &two, NULL, 0);
    expect(&two, "empty", "");
    close_client(&two);
    close_client(&one);
}

static void clients_share_records(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, share_records);
}

/* ---- conditions --------------------------------------------------------------------------------- */

static int delete_if(struct client *client, const char *key, uint64_t version, uint64_t record)
{
    const enum tarn_put_condition condition = version != 0 ? TARN_PUT_IF_VERSION : TARN_PUT_ANY;
    struct hash_op op = {.kind = HASH_DELETE,
                         .key = key,
                         .key_len = strlen(key),
                         .options = {.condition = condition, .if_version = version},
                         .if_record = record};
    hash_run(client->hash, &op, 1, SOON);
    assert_int_equal(op.replaced_bytes > 0, op.error == 0);
    return op.error;
}

static void meet_conditions_of_records(struct space_testing *self)
{
    struct client client;
    open_client(self, &client, &small, 0);
    struct hash_op op = {.kind = HASH_PUT, .key = "k", .key_len = 1, .value = "1", .value_len = 1};
    assert_int_equal(delete_if(&client, "k", 1, 0), -ENOENT);
    hash_run(client.hash, &op, 1, SOON);
    assert_int_equal(op.error, 0);
    assert_int_equal(op.replaced_bytes, 0);
    const uint64_t version = op.info.version, first = op.record;
    op.options.version = version; /* a touch: another record of the same version */
    op.if_record = first;
    hash_run(client.hash, &op, 1, SOON);
    assert_int_equal(op.error, 0);
    assert_true(op.info.version == version && op.record != first);
    assert_int_equal(op.replaced_bytes, sizeof(struct hash_record) + 2);
    const uint64_t second = op.record;
    hash_run(client.hash, &op, 1, SOON);
    assert_int_equal(op.error, -EEXIST);
    assert_int_equal(delete_if(&client, "k", version + 1, 0), -EEXIST);
    assert_int_equal(delete_if(&client, "k", version, first), -EEXIST);
    expect(&client, "k", "1");
    assert_int_equal(delete_if(&client, "k", version, second), 0);
    assert_int_equal(delete_if(&client, "k", version, 0), -ENOENT);
    op.if_record = second;
    hash_run(client.hash, &op, 1, SOON);
    assert_int_equal(op.error, -ENOENT);
    close_client(&client);
}

static void records_meet_conditions(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, meet_conditions_of_records);
}

static void meet_conditions(struct space_testing *self)
{
    struct client client;
    uint64_t version = 0, next = 0;
    char room[8];
    open_client(self, &client, &small, 0);
    assert_int_equal(
        put_if(&client, "k", "1", 1, (struct tarn_put_options){.condition = TARN_PUT_IF_PRESENT}, NULL),
        -ENOENT);
    assert_int_equal(put_if(&client, "k", "1", 1,
                            (struct tarn_put_options){.condition = TARN_PUT_IF_VERSION, .if_version = 1},
                            NULL),
                     -ENOENT);
    assert_int_equal(
        put_if(&client, "k", "1", 1, (struct tarn_put_options){.condition = TARN_PUT_IF_ABSENT}, &version),
        0);
    assert_int_equal(
        put_if(&client, "k", "2", 1, (struct tarn_put_options){.condition = TARN_PUT_IF_ABSENT}, NULL),
        -EEXIST);
    assert_int_equal(
        put_if(&client, "k", "2", 1,
               (struct tarn_put_options){.condition = TARN_PUT_IF_VERSION, .if_version = version + 1}, NULL),
        -EEXIST);
    expect(&client, "k", "1");
    assert_int_equal(
        put_if(&client, "k", "2", 1,
               (struct tarn_put_options){.condition = TARN_PUT_IF_VERSION, .if_version = version}, &next),
        0);
    assert_true(next != version);
    assert_int_equal(
        put_if(&client, "k", "3", 1, (struct tarn_put_options){.condition = TARN_PUT_IF_PRESENT}, NULL), 0);
    expect(&client, "k", "3");
    assert_int_equal(put_if(&client, "k", "old", 3, (struct tarn_put_options){.expiry_ns = 1}, NULL), 0);
    expect(&client, "k", NULL);
    assert_int_equal(delete (&client, "k"), -ENOENT);
    assert_int_equal(
        put_if(&client, "k", "new", 3, (struct tarn_put_options){.condition = TARN_PUT_IF_ABSENT}, NULL), 0);
    expect(&client, "k", "new");
    assert_int_equal(get(&client, "k", room, 3), -ENOBUFS);
    assert_int_equal(put_if(&client, "", "x", 1, (struct tarn_put_options){.note = 0}, NULL), -EINVAL);
    assert_int_equal(put_if(&client, "k", room, hash_value_bytes_max(client.hash, 1) + 1,
                            (struct tarn_put_options){.note = 0}, NULL),
                     -EMSGSIZE);
    expect(&client, "k", "new");
    close_client(&client);
}

static void conditions_are_met(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, meet_conditions);
}

/* ---- many records ------------------------------------------------------------------------------- */

enum { MANY = 1200, TOGETHER = 40, VALUE = 40 };

struct numbered {
    char key[16], value[VALUE];
};

static void name(struct numbered *record, unsigned number, unsigned version)
{
    (void)snprintf(record->key, sizeof(record->key), "key%u", number);
    (void)snprintf(record->value, sizeof(record->value), "value %u of %u", version, number);
}

static void put_many(struct client *client, unsigned first, unsigned version)
{
    struct numbered records[TOGETHER];
    struct hash_op ops[TOGETHER];
    for (unsigned i = 0; i < TOGETHER; i++) {
        name(&records[i], first + i, version);
        ops[i] = (struct hash_op){.kind = HASH_PUT,
                                  .key = records[i].key,
                                  .key_len = strlen(records[i].key),
                                  .value = records[i].value,
                                  .value_len = strlen(records[i].value)};
    }
    hash_run(client->hash, ops, TOGETHER, SOON);
    for (unsigned i = 0; i < TOGETHER; i++)
        assert_int_equal(ops[i].error, 0);
}

static void expect_many(struct client *client, unsigned first, unsigned version)
{
    struct numbered records[TOGETHER];
    struct hash_op ops[TOGETHER];
    char rooms[TOGETHER][VALUE];
    for (unsigned i = 0; i < TOGETHER; i++) {
        name(&records[i], first + i, version);
        ops[i] = (struct hash_op){.kind = HASH_GET,
                                  .key = records[i].key,
                                  .key_len = strlen(records[i].key),
                                  .room = rooms[i],
                                  .room_bytes = VALUE};
    }
    hash_run(client->hash, ops, TOGETHER, SOON);
    for (unsigned i = 0; i < TOGETHER; i++) {
        assert_int_equal(ops[i].error, 0);
        assert_int_equal(ops[i].info.value_bytes, strlen(records[i].value));
        assert_memory_equal(rooms[i], records[i].value, strlen(records[i].value));
    }
}

struct counted {
    unsigned seen[MANY];
    unsigned count;
};

static int count_record(void *arg, const void *key, size_t key_len, const void *value,
                        const struct tarn_record_info *info)
{
    struct counted *counted = arg;
    char text[16] = "";
    unsigned number;
    assert_true(key_len < sizeof(text));
    memcpy(text, key, key_len);
    assert_int_equal(sscanf(text, "key%u", &number), 1);
    assert_true(number < MANY);
    assert_non_null(value);
    assert_true(info->version != 0);
    counted->seen[number]++;
    counted->count++;
    return 0;
}

/* More records than the index has slots, and more versions of them than the tables have room for. */
static void grow_and_reuse(struct space_testing *self)
{
    static struct counted counted;
    const bool is_slow = self->testing->subject->is_slow;
    const unsigned many = is_slow ? MANY / 6 : MANY;
    struct hash_shape shape = small;
    struct client one, two;
    struct hash_stats stats, other;
    shape.slots = is_slow ? 64 : small.slots;
    shape.capacity = is_slow ? 2 * TESTING_CHUNK_BYTES : small.capacity;
    memset(&counted, 0, sizeof(counted));
    open_client(self, &one, &shape, 0);
    open_client(self, &two, &shape, 0);
    for (unsigned first = 0; first < many; first += TOGETHER)
        put_many(first % (2 * TOGETHER) == 0 ? &one : &two, first, 1);
    for (unsigned first = 0; first < many; first += TOGETHER)
        expect_many(&two, first, 1);
    hash_stats(one.hash, &stats);
    hash_stats(two.hash, &other);
    assert_true(stats.slots > many);
    assert_true(stats.grown + other.grown >= stats.slots / 2 - shape.slots);
    assert_int_equal(hash_scan(two.hash, count_record, &counted, 60 * BASE_NS_PER_SECOND), 0);
    assert_int_equal(counted.count, many);
    for (unsigned i = 0; i < many; i++)
        assert_int_equal(counted.seen[i], 1);
    for (unsigned version = 2; version < 12; version++) { /* more than there is room for */
        for (unsigned first = 0; first < many; first += TOGETHER)
            put_many(version % 2 == 0 ? &one : &two, first, version);
        for (unsigned first = 0; first < many; first += TOGETHER)
            expect_many(version % 2 == 0 ? &two : &one, first, version);
    }
    hash_stats(one.hash, &stats);
    assert_true(stats.reclaimed > 0);
    uint64_t keys = 0;
    assert_int_equal(hash_check(one.hash, SOON, &keys), 0);
    assert_int_equal(keys, many);
    close_client(&one);
    close_client(&two);
}

static void the_index_grows_and_slots_are_used_again(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, grow_and_reuse);
}

/* ---- what clients leave ------------------------------------------------------------------------- */

static void take_over(struct space_testing *self)
{
    struct client one, two;
    struct hash_stats stats;
    open_client(self, &one, &small, 0);
    for (unsigned first = 0; first < MANY; first += TOGETHER)
        put_many(&one, first, 1);
    close_client(&one);
    open_client(self, &two, &small, 0);
    for (unsigned version = 2; version < 8; version++) {
        for (unsigned first = 0; first < MANY; first += TOGETHER)
            put_many(&two, first, version);
    }
    for (unsigned first = 0; first < MANY; first += TOGETHER)
        expect_many(&two, first, 7);
    hash_stats(two.hash, &stats);
    assert_true(stats.adopted > 0);
    close_client(&two);
}

static void slots_of_closed_clients_are_taken_over(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, take_over);
}

/* A store that is full says so, and goes on when records have been removed. */
static void fill_up(struct space_testing *self)
{
    static char value[4000];
    struct client client;
    struct hash_shape shape = small;
    char key[16];
    unsigned stored = 0;
    int error = 0;
    shape.capacity = 2 * TESTING_CHUNK_BYTES;
    open_client(self, &client, &shape, 0);
    while (error == 0 && stored < 1000) {
        (void)snprintf(key, sizeof(key), "key%u", stored);
        error = put_if(&client, key, value, sizeof(value), (struct tarn_put_options){.note = 1}, NULL);
        stored += error == 0;
    }
    assert_int_equal(error, -ENOSPC);
    assert_true(stored >= 10);
    for (unsigned i = 0; i < stored; i += 2) {
        (void)snprintf(key, sizeof(key), "key%u", i);
        assert_int_equal(delete (&client, key), 0);
    }
    for (unsigned i = 0; i < stored / 2; i++) {
        (void)snprintf(key, sizeof(key), "new%u", i);
        assert_int_equal(
            put_if(&client, key, value, sizeof(value), (struct tarn_put_options){.note = 1}, NULL), 0);
    }
    close_client(&client);
}

static void a_full_store_says_so(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, fill_up);
}

/* ---- intents that are lost ------------------------------------------------------------------------ */

/* Nobody knows what is on its way to any of a client's intents: it goes on in another session. */
static void lose_intents(struct space_testing *self)
{
    struct client client;
    open_client(self, &client, &small, 0);
    assert_int_equal(put(&client, "a", "1"), 0);
    const uint64_t session = tarn_space_session(client.space);
    client.hash->intents = client.hash->lost_intents = HASH_INTENTS_ALL;
    assert_int_equal(put(&client, "b", "2"), 0);
    assert_true(tarn_space_session(client.space) != session);
    assert_int_equal(client.hash->intents, 0);
    expect(&client, "a", "1");
    expect(&client, "b", "2");
    close_client(&client);
}

static void lost_intents_cost_a_session(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, lose_intents);
}

/* ---- where records are ---------------------------------------------------------------------------- */

struct server {
    const char *name;
    uint32_t number;
};

static int note_number(void *arg, const struct tarn_space_server_row *row)
{
    struct server *server = arg;
    if (strcmp(row->name, server->name) == 0)
        server->number = row->number;
    return 0;
}

/* Store records of more than three tables, by a client that has a place for them. @return number of tables that a server has of it */
static unsigned put_at(struct space_testing *self, const char *node, struct server server)
{
    static char value[4000];
    char key[16];
    unsigned count = 0;
    struct client client;
    struct hash_shape shape = small;
    shape.capacity = 12 * TESTING_CHUNK_BYTES;
    const struct hash_options options = {.shape = &shape, .node = node};
    client.space = space_testing_connect(self);
    assert_int_equal(tarn_space_create_ns(client.space, "placed", NULL, 0, SOON, &client.of), 0);
    assert_int_equal(
        hash_open(self->testing->node, client.space, client.of, "users", &options, SOON, &client.hash), 0);
    for (unsigned i = 0; i < 3 * TESTING_CHUNK_BYTES / sizeof(value); i++) {
        (void)snprintf(key, sizeof(key), "key%u", i);
        assert_int_equal(
            put_if(&client, key, value, sizeof(value), (struct tarn_put_options){.note = 1}, NULL), 0);
    }
    assert_true(client.hash->table_count > 3);
    for (unsigned i = 0; i < client.hash->table_count; i++) {
        const struct client_link *link = client.hash->tables[i]->targets[0].link;
        count += link != NULL && link->server == server.number;
    }
    hash_close(client.hash);
    assert_int_equal(tarn_space_delete_ns(client.of, SOON), 0);
    leave(&client);
    return count;
}

/* Tables are made at the server that is named; or where the most memory is free. */
static void place_records(struct space_testing *self)
{
    struct server server = {.name = space_testing_server_options(self, 1).name};
    assert_int_equal(tarn_space_list_servers(self->space, note_number, &server, SOON), 0);
    assert_true(put_at(self, server.name, server) > 3);
    space_testing_await_free(self, TESTING_ALL_CHUNKS);
    const struct tarn_space_alloc_options there = {.placement = TARN_SPACE_ON_NODE, .node = server.name};
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 24);
    struct tarn_space_region *region;
    assert_int_equal(tarn_space_alloc(of, 8 * TESTING_CHUNK_BYTES, &there, SOON, &region), 0);
    assert_int_equal(tarn_space_release(of, UINT64_MAX, SOON), 0);
    space_testing_await_free(self, TESTING_ALL_CHUNKS - 8);
    assert_int_equal(put_at(self, HASH_LEAST_FULL, server), 0);
    tarn_space_drop(region);
    space_testing_delete(of);
}

static void records_are_put_in_their_place(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, place_records);
}

/* ---- other lengths ------------------------------------------------------------------------------ */

/* Put records of a length until the store is full. @return number of records */
static unsigned put_until_full(struct client *client, char letter, size_t bytes)
{
    static char value[4000];
    char key[16];
    unsigned stored = 0;
    int error = 0;
    memset(value, letter, sizeof(value));
    while (error == 0) {
        (void)snprintf(key, sizeof(key), "%c%u", letter, stored);
        error = put_if(client, key, value, bytes, (struct tarn_put_options){.condition = TARN_PUT_ANY}, NULL);
        stored += error == 0;
    }
    assert_int_equal(error, -ENOSPC);
    return stored;
}

static void expect_letters(struct client *client, char letter, unsigned count, size_t bytes)
{
    char key[16], room[4001];
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(key, sizeof(key), "%c%u", letter, i);
        assert_int_equal(get(client, key, room, sizeof(room)), 0);
        assert_int_equal(strlen(room), bytes);
        assert_int_equal(strspn(room, (char[]){letter, 0}), bytes);
    }
}

static void delete_letters(struct client *client, char letter, unsigned count)
{
    char key[16];
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(key, sizeof(key), "%c%u", letter, i);
        assert_int_equal(delete (client, key), 0);
    }
}

/* A full store that was emptied has room for records of any other length, and clients that have seen the former ones read those. */
static void change_lengths(struct space_testing *self)
{
    struct client one, two;
    struct hash_shape shape = small;
    shape.capacity = 2 * TESTING_CHUNK_BYTES;
    open_client(self, &one, &shape, 0);
    open_client(self, &two, &shape, 0);
    const bool is_slow = self->testing->subject->is_slow;
    const size_t bytes = is_slow ? 900 : 100;
    for (unsigned round = 0; round < (is_slow ? 1u : 2u); round++) {
        const unsigned shorts = put_until_full(&one, 's', bytes);
        expect_letters(&two, 's', shorts, bytes);
        delete_letters(round == 0 ? &one : &two, 's', shorts);
        const unsigned longs = put_until_full(&one, 'l', 3900);
        expect_letters(&two, 'l', longs, 3900);
        assert_true(shorts > 2 * longs && longs >= 8);
        delete_letters(round == 0 ? &two : &one, 'l', longs);
    }
    close_client(&one);
    close_client(&two);
}

static void records_change_their_lengths(struct testing_fabric *testing)
{
    space_testing_run(testing, 0, change_lengths);
}

#define SUITE(EACH)                                                                                          \
    EACH(clients_share_records)                                                                              \
    EACH(conditions_are_met)                                                                                 \
    EACH(records_meet_conditions)                                                                            \
    EACH(the_index_grows_and_slots_are_used_again)                                                           \
    EACH(lost_intents_cost_a_session)                                                                        \
    EACH(records_are_put_in_their_place)                                                                     \
    EACH(slots_of_closed_clients_are_taken_over)                                                             \
    EACH(a_full_store_says_so)                                                                               \
    EACH(records_change_their_lengths)

SUITE(TESTING_BOTH)

static const struct CMUnitTest hash_conformance_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite hash_conformance = TESTING_SUITE(hash_conformance_tests);
