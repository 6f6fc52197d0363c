/* The operations of campaign `depot`'s clients: drawing them, calling the store, and judging each answer at once. */
#include "sim/depot_clients.h"
#include "base/base.h"
#include "depot/depot.h"
#include <errno.h>
#include <inttypes.h>
#include <tarn/depot.h>

enum {
    KEY_BYTES_MAX = 300,
    KEY_ROOM = KEY_BYTES_MAX + 2,
    LOOKS_MAX = SIM_DEPOT_KEYS_MAX,
    EXPIRY_BITS = 33,      /* up to some seconds */
    RECORD_OVERHEAD = 512, /* of header, padding and summary, at most */
    BATCH_KEYS_MAX = 5,
    BATCHES_OF_A_CUT = 8,
    CUT_NS_MAX = 1 << 16,  /* most batches take less */
    SHORT_BITS = 11,       /* of a value in one: so of a torn batch some records are whole */
    BATCH_OVERHEAD = 1024, /* of an item: its key, and what comes to it */
    INNER_OPS_MAX = 8,     /* while a snapshot is open */
    INDEX_ENTRIES_MAX = 1 << 16,
};

static void do_some(struct sim_depot_client *client, uint64_t ops);

uint64_t sim_depot_draw_log(struct base_random *random, uint64_t bits)
{
    return base_random_below(random, UINT64_C(1) << base_random_below(random, bits + 1));
}

static struct tarn_node *tarn_of(const struct sim_depot_client *client)
{
    return sim_node_tarn(client->shared->node);
}

uint64_t sim_depot_draw(struct sim_depot_client *client, uint64_t n)
{
    return base_random_below(&client->random, n);
}

static uint64_t draw_long(struct sim_depot_client *client, uint64_t n)
{
    return base_random_below(&client->long_random, n);
}

static uint64_t draw_size(struct sim_depot_client *client, uint64_t n)
{
    return base_random_below(&client->size_random, n);
}

static uint64_t draw_batch(struct sim_depot_client *client, uint64_t n)
{
    return base_random_below(&client->batch_random, n);
}

/* ---- keys and errors --------------------------------------------------------------------------- */

/* Keys of different lengths, of which some begin alike. */
static size_t fill_key(uint64_t key, uint8_t *ret_key)
{
    size_t bytes = key == 0 ? 1 : (size_t)(key * key * 37 % KEY_BYTES_MAX) + 2;
    memset(ret_key, 'k', bytes);
    ret_key[bytes - 1] = (uint8_t)key;
    return bytes;
}

/* @return the number; -1: not one of those */
static int key_number(const uint8_t *key, size_t len)
{
    uint8_t expected[KEY_ROOM];
    uint64_t number = key[len - 1];
    bool same =
        number < SIM_DEPOT_KEYS_MAX && fill_key(number, expected) == len && memcmp(expected, key, len) == 0;
    return same ? (int)number : -1;
}

uint64_t sim_depot_faults(const struct sim_depot_shared *shared, enum sim_fault fault)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < shared->disk_count; i++)
        count += sim_drive_faults(shared->disks[i], fault);
    return count;
}

uint64_t sim_depot_fault_count(const struct sim_depot_shared *shared)
{
    uint64_t count = 0;
    for (int fault = 0; fault < SIM_FAULT_COUNT; fault++)
        count += sim_depot_faults(shared, (enum sim_fault)fault);
    return count;
}

bool sim_depot_faulted(const struct sim_depot_shared *shared)
{
    return shared->damages > 0 || sim_depot_fault_count(shared) > shared->faults_before;
}

/* What lives, and what others want to add just now, must come near to what the store says it holds. */
static bool is_almost_full(const struct sim_depot_shared *shared)
{
    struct tarn_depot_stats stats;
    tarn_depot_stats(shared->depot, &stats);
    uint64_t ill_fitting =
        2 * stats.segment_bytes; /* records that are nearly as long as a segment leave gaps */
    return stats.live_bytes + shared->reserving_bytes + ill_fitting >= stats.capacity_bytes / 10 * 9;
}

/* Segments that cannot be read are set aside: then the store holds less than it says. What was left of the
 * collector's room may be used up then, and a restart find no free segment. */
static bool has_lost_segments(const struct sim_depot_shared *shared)
{
    struct tarn_depot_stats stats;
    tarn_depot_stats(shared->depot, &stats);
    if (stats.segments_free == 0)
        return shared->damages > 0 || sim_depot_fault_count(shared) > 0;
    return stats.segments_bad > 0 && sim_depot_faulted(shared);
}

void sim_depot_check_error(struct sim_depot_client *client, const char *what, int error, bool condition,
                           bool grows)
{
    struct sim_depot_shared *shared = client->shared;
    switch (error) {
    case 0:
    case -ENOENT:
        return;
    case -EEXIST:
        if (condition)
            return;
        break;
    case -EIO:
    case -EROFS:
    case -ENODEV:
    case -EBADMSG:
        shared->errors++;
        if (sim_depot_faulted(shared))
            return;
        break;
    case -ESTALE: /* of a writer: a flush or an eviction came in between */
        if (shared->flushes || shared->oracle.evicts)
            return;
        break;
    case -ENOSPC: /* a cache evicts; a store that was one may be too full even for a tombstone */
        if (!shared->oracle.evicts && (grows || shared->was_cache) &&
            (is_almost_full(shared) || (grows && shared->full_ns >= client->reserved_ns)))
            return;
        if (has_lost_segments(shared))
            return;
        break;
    default:
        break;
    }
    sim_fail(shared->world, "%s returned %s without a reason", what, strerrorname_np(-error));
}

/* What a value may take: pieces do not fill segments. */
static uint64_t room_of(const struct sim_depot_client *client, uint64_t bytes)
{
    bool in_pieces = bytes > tarn_depot_whole_bytes_max(client->shared->depot);
    return bytes + (in_pieces ? bytes / 4 : 0) + RECORD_OVERHEAD;
}

/* A long value may be refused before all of its pieces are gone, and a flush may come in between. */
static void look_how_full(struct sim_depot_shared *shared)
{
    if (is_almost_full(shared))
        shared->full_ns = sim_world_now(shared->world);
}

void sim_depot_reserve(struct sim_depot_client *client, uint64_t bytes)
{
    struct sim_depot_shared *shared = client->shared;
    shared->reserving_bytes += room_of(client, bytes);
    client->reserved_ns = sim_world_now(shared->world);
    look_how_full(shared);
}

void sim_depot_release(struct sim_depot_client *client, uint64_t bytes)
{
    look_how_full(client->shared);
    client->shared->reserving_bytes -= room_of(client, bytes);
}

/* An operation begins. @return its number */
static uint32_t begin_op(struct sim_depot_client *client, const struct sim_oracle_op *op)
{
    client->told++;
    return sim_oracle_begin(&client->shared->oracle, tarn_of(client), client->number, op);
}

/* The oracle, for the end of an operation. */
static struct sim_oracle *oracle_now(struct sim_depot_client *client)
{
    struct sim_depot_shared *shared = client->shared;
    shared->oracle.frail = shared->read_only || depot_failed(shared->depot);
    return &shared->oracle;
}

/* ---- looking ------------------------------------------------------------------------------------ */

static uint32_t begin_get(struct sim_depot_client *client, uint64_t key)
{
    return begin_op(client, &(struct sim_oracle_op){.kind = SIM_GET, .key = key});
}

/* The same as one get, but in two parts. */
static int get_parts(struct sim_depot_client *client, const uint8_t *name, size_t name_bytes, size_t room,
                     struct tarn_record_info *ret_info)
{
    struct tarn_depot *depot = client->shared->depot;
    size_t first, second = 0, half = draw_long(client, room + 1);
    int error = tarn_depot_read(depot, name, name_bytes, 0, 0, client->value, half, &first, ret_info);
    if (error != 0)
        return error;
    if (ret_info->value_bytes > room)
        return -ENOBUFS;
    if (first < ret_info->value_bytes)
        error = tarn_depot_read(depot, name, name_bytes, ret_info->version, first, client->value + first,
                                room - first, &second, ret_info);
    if (error == -ESTALE)
        return tarn_depot_get(depot, name, name_bytes, client->value, room, ret_info);
    if (error == 0 && first + second != ret_info->value_bytes)
        sim_fail(client->shared->world, "%zu and %zu bytes of a value of %u were read", first, second,
                 ret_info->value_bytes);
    return error;
}

static void get_value(struct sim_depot_client *client, uint64_t key, size_t room)
{
    struct sim_depot_shared *shared = client->shared;
    uint8_t name[KEY_ROOM];
    size_t name_bytes = fill_key(key, name);
    uint32_t number = begin_get(client, key);
    struct tarn_record_info info = {0};
    int error = draw_long(client, 4) == 0
                    ? get_parts(client, name, name_bytes, room, &info)
                    : tarn_depot_get(shared->depot, name, name_bytes, client->value, room, &info);
    sim_oracle_end_get(oracle_now(client), tarn_of(client), number, error, &info, client->value, room);
    if (error != -ENOBUFS)
        sim_depot_check_error(client, "get", error, false, false);
}

/* Several keys, perhaps one twice, in one call. The values share the client's memory. */
static void get_many(struct sim_depot_client *client, const uint64_t *keys, size_t count)
{
    struct sim_depot_shared *shared = client->shared;
    struct tarn_get gets[LOOKS_MAX];
    uint8_t names[LOOKS_MAX][KEY_ROOM];
    uint32_t numbers[LOOKS_MAX];
    const size_t room = SIM_DEPOT_VALUE_BYTES_MAX / LOOKS_MAX;
    for (size_t i = 0; i < count; i++) {
        gets[i] = (struct tarn_get){
            .key = names[i], .key_len = fill_key(keys[i], names[i]), .value = client->value + i * room};
        gets[i].value_room = room;
        numbers[i] = begin_get(client, keys[i]);
    }
    tarn_depot_get_many(shared->depot, gets, count);
    for (size_t i = 0; i < count; i++) {
        sim_oracle_end_get(oracle_now(client), tarn_of(client), numbers[i], gets[i].error, &gets[i].info,
                           gets[i].value, room);
        if (gets[i].error != -ENOBUFS)
            sim_depot_check_error(client, "get_many", gets[i].error, false, false);
    }
}

/* A scan: what it has visited, and the gets that it stands for. */
struct scan {
    struct sim_depot_client *client;
    uint32_t numbers[SIM_DEPOT_KEYS_MAX];
    bool visited[SIM_DEPOT_KEYS_MAX];
    uint64_t left; /* visits until it is ended; 0: never */
};

static int visit(void *arg, const void *key, size_t key_len, const void *value,
                 const struct tarn_record_info *info)
{
    struct scan *scan = arg;
    struct sim_depot_shared *shared = scan->client->shared;
    int number = key_number(key, key_len);
    if (number >= 0 && (uint64_t)number < shared->keys) {
        size_t room = value == NULL ? 0 : info->value_bytes; /* in pieces: the gets read it */
        if (!scan->visited[number])                          /* else it was removed and stored again */
            sim_oracle_end_get(oracle_now(scan->client), tarn_of(scan->client), scan->numbers[number],
                               room < info->value_bytes ? -ENOBUFS : 0, info, value, room);
        scan->visited[number] = true;
    }
    return scan->left > 0 && --scan->left == 0 ? SIM_ORACLE_REFUSED : 0;
}

static void scan_all(struct sim_depot_client *client, uint64_t visits)
{
    struct sim_depot_shared *shared = client->shared;
    struct scan scan = {.client = client, .left = visits};
    for (uint64_t key = 0; key < shared->keys; key++)
        scan.numbers[key] = begin_get(client, key);
    int error = tarn_depot_scan(shared->depot, visit, &scan);
    for (uint64_t key = 0; key < shared->keys; key++) {
        if (!scan.visited[key])
            sim_oracle_end_unvisited(oracle_now(client), tarn_of(client), scan.numbers[key], error == 0);
    }
    if (error != SIM_ORACLE_REFUSED || visits == 0)
        sim_depot_check_error(client, "scan", error, false, false);
}

/* ---- looking back ------------------------------------------------------------------------------- */

static int visit_past(void *arg, const void *key, size_t key_len, const void *value,
                      const struct tarn_record_info *info)
{
    struct scan *scan = arg;
    struct sim_depot_shared *shared = scan->client->shared;
    int number = key_number(key, key_len);
    if (number >= 0 && (uint64_t)number < shared->keys) {
        size_t room = value == NULL ? 0 : info->value_bytes;
        if (scan->visited[number])
            sim_fail(shared->world, "a scan of a snapshot has visited key %d twice", number);
        else
            sim_oracle_end_get(oracle_now(scan->client), tarn_of(scan->client), scan->numbers[number],
                               room < info->value_bytes ? -ENOBUFS : 0, info, value, room);
        scan->visited[number] = true;
    }
    return 0;
}

/* Only this may be said of a snapshot, and not of a store. @return whether it was */
static bool was_cancelled(struct sim_depot_client *client, const char *what, int error)
{
    if (error != -ECANCELED)
        sim_depot_check_error(client, what, error, false, false);
    return error == -ECANCELED;
}

static void get_past(struct sim_depot_client *client, struct tarn_depot_snapshot *snapshot, uint64_t key,
                     uint32_t number, bool again)
{
    struct sim_depot_shared *shared = client->shared;
    const struct sim_oracle_op *op = &shared->oracle.ops[number];
    uint8_t name[KEY_ROOM];
    size_t name_bytes = fill_key(key, name);
    struct tarn_record_info info = {0};
    int error =
        tarn_depot_snapshot_get(snapshot, name, name_bytes, client->value, SIM_DEPOT_VALUE_BYTES_MAX, &info);
    if (!again) {
        sim_oracle_end_get(oracle_now(client), tarn_of(client), number, error, &info, client->value,
                           SIM_DEPOT_VALUE_BYTES_MAX);
        (void)was_cancelled(client, "get of a snapshot", error);
    } else if (!was_cancelled(client, "another get of a snapshot", error) && error == 0 && op->error == 0 &&
               op->found != info.client_flags) {
        sim_fail(shared->world, "key %" PRIu64 " of a snapshot was %u, and is %u", key, op->found,
                 info.client_flags);
    } else if ((error == 0 && op->error == -ENOENT) || (error == -ENOENT && op->error == 0)) {
        sim_fail(shared->world, "key %" PRIu64 " of a snapshot has come or gone", key);
    }
}

static void scan_past(struct sim_depot_client *client, struct tarn_depot_snapshot *snapshot,
                      const uint32_t *numbers)
{
    struct sim_depot_shared *shared = client->shared;
    struct scan scan = {.client = client};
    memcpy(scan.numbers, numbers, sizeof(scan.numbers));
    int error = tarn_depot_snapshot_scan(snapshot, visit_past, &scan);
    for (uint64_t key = 0; key < shared->keys; key++) {
        if (!scan.visited[key])
            sim_oracle_end(oracle_now(client), tarn_of(client), numbers[key],
                           error == 0 ? -ENOENT : -ECANCELED, 0);
    }
    (void)was_cancelled(client, "scan of a snapshot", error);
}

/* The store as it is now is read later. So each key is as a get found it that took place while the snapshot
 * was opened. */
static void look_back(struct sim_depot_client *client)
{
    struct sim_depot_shared *shared = client->shared;
    struct tarn_depot_snapshot *snapshot;
    uint32_t numbers[SIM_DEPOT_KEYS_MAX] = {0};
    for (uint64_t key = 0; key < shared->keys; key++)
        numbers[key] = begin_get(client, key);
    int error =
        tarn_depot_snapshot_open(shared->depot, draw_long(client, 2) * SIM_DEPOT_VALUE_BYTES_MAX, &snapshot);
    for (uint64_t key = 0; key < shared->keys; key++) {
        if (error == 0)
            sim_oracle_note_past(&shared->oracle, tarn_of(client), numbers[key]);
        else
            sim_oracle_end(oracle_now(client), tarn_of(client), numbers[key], -ECANCELED, 0);
    }
    if (error != 0) {
        if (error != -EBUSY)
            sim_depot_check_error(client, "opening a snapshot", error, false, false);
        return;
    }
    client->looks_back = true;
    do_some(client, draw_long(client, INNER_OPS_MAX));
    client->looks_back = false;
    bool scans = draw_long(client, 2) == 0;
    if (scans)
        scan_past(client, snapshot, numbers);
    for (uint64_t key = 0; key < shared->keys; key++)
        get_past(client, snapshot, key, numbers[key], scans);
    tarn_depot_snapshot_close(snapshot);
}

static void look_at_key(struct sim_depot_client *client)
{
    uint64_t keys[LOOKS_MAX] = {0};
    uint64_t count = 1 + sim_depot_draw(client, LOOKS_MAX);
    if (sim_depot_draw(client, 3) == 0) {
        scan_all(client, sim_depot_draw(client, 4) == 0 ? 1 + sim_depot_draw(client, 4) : 0);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        keys[i] = sim_depot_draw(client, client->shared->keys);
    get_many(client, keys, count);
}

/* ---- changing ----------------------------------------------------------------------------------- */

static uint64_t draw_expiry(struct sim_depot_client *client)
{
    if (sim_depot_draw(client, 8) != 0)
        return 0;
    return task_wall(tarn_of(client)) + sim_depot_draw_log(&client->random, EXPIRY_BITS);
}

static uint32_t draw_value_bytes(struct sim_depot_client *client)
{
    uint64_t longest =
        base_min(tarn_depot_whole_bytes_max(client->shared->depot), (uint64_t)SIM_DEPOT_VALUE_BYTES_MAX);
    uint64_t bytes = sim_depot_draw(client, 4) < client->shared->long_of_4
                         ? sim_depot_draw(client, longest + 1)
                         : base_min(sim_depot_draw_log(&client->random, 13), longest);
    if (longest < SIM_DEPOT_VALUE_BYTES_MAX && draw_long(client, 8) <= client->shared->long_of_4)
        bytes = longest + 1 + draw_long(client, SIM_DEPOT_VALUE_BYTES_MAX - longest);
    return (uint32_t)bytes;
}

/* Bytes to a writer, some at a time. */
static int write_parts(struct sim_depot_client *client, struct tarn_depot_writer *writer, uint64_t bytes)
{
    int error = 0;
    for (uint64_t at = 0, part; at < bytes && error == 0; at += part) {
        part = base_min(bytes - at, 1 + draw_long(client, bytes));
        error = tarn_depot_writer_write(writer, client->value + at, part);
        if (draw_long(client, 4) == 0)
            (void)task_sleep(sim_depot_draw_log(&client->long_random, client->shared->sleep_bits));
    }
    return error;
}

/* A value that is not to be: nobody may ever see it. */
static void abandon(struct sim_depot_client *client, const uint8_t *name, size_t name_bytes)
{
    struct tarn_depot_writer *writer;
    uint64_t bytes = draw_long(client, SIM_DEPOT_VALUE_BYTES_MAX);
    memset(client->value, 0xee, bytes);
    sim_depot_reserve(client, SIM_DEPOT_VALUE_BYTES_MAX);
    int error = tarn_depot_writer_open(
        client->shared->depot, name, name_bytes, NULL,
        draw_long(client, 2) == 0 ? TARN_LENGTH_UNKNOWN : SIM_DEPOT_VALUE_BYTES_MAX, &writer);
    if (error == 0) {
        error = write_parts(client, writer, bytes);
        tarn_depot_writer_abort(writer);
    }
    sim_depot_check_error(client, "an abandoned writer", error, false, true);
    sim_depot_release(client, SIM_DEPOT_VALUE_BYTES_MAX);
}

/* As tarn_depot_put(), by a writer. */
static int put_parts(struct sim_depot_client *client, const uint8_t *name, size_t name_bytes, uint64_t bytes,
                     const struct tarn_put_options *options, uint64_t *ret_version)
{
    struct tarn_depot_writer *writer;
    int error = tarn_depot_writer_open(client->shared->depot, name, name_bytes, options,
                                       draw_long(client, 2) == 0 ? TARN_LENGTH_UNKNOWN : bytes, &writer);
    if (error != 0)
        return error;
    error = write_parts(client, writer, bytes);
    if (error == 0)
        return tarn_depot_writer_commit(writer, ret_version);
    tarn_depot_writer_abort(writer);
    return error;
}

static struct sim_oracle_op draw_put(struct sim_depot_client *client, uint64_t key)
{
    struct sim_oracle_op op = {.kind = SIM_PUT, .key = key, .expiry_ns = draw_expiry(client)};
    op.value_bytes = draw_value_bytes(client);
    if (sim_depot_draw(client, 2) == 0)
        op.condition = (enum tarn_put_condition)sim_depot_draw(client, 4);
    if (op.condition == TARN_PUT_IF_VERSION) {
        op.if_number = sim_oracle_known_put(&client->shared->oracle, key);
        if (op.if_number == 0)
            op.condition = TARN_PUT_IF_ABSENT;
    }
    return op;
}

/* What is stored or removed, and how that is asked for. */
struct batch {
    struct sim_oracle_op ops[BATCH_KEYS_MAX];
    uint32_t numbers[BATCH_KEYS_MAX];
    uint8_t names[BATCH_KEYS_MAX][KEY_ROOM];
    struct tarn_put_options options[BATCH_KEYS_MAX];
    struct tarn_batch_item items[BATCH_KEYS_MAX];
    uint32_t count;
    uint64_t bytes;
    bool conditional;
};

/* Different keys, of which some are removed, and few have a condition: one that fails refuses all. */
static void draw_items(struct sim_depot_client *client, struct batch *batch)
{
    const struct sim_depot_shared *shared = client->shared;
    uint64_t first = draw_batch(client, shared->keys),
             most = base_min(shared->keys, (uint64_t)BATCH_KEYS_MAX);
    batch->count = (uint32_t)(1 + draw_batch(client, most));
    uint64_t longest = tarn_depot_batch_bytes_max(shared->depot) / batch->count - BATCH_OVERHEAD;
    bool long_ones = draw_batch(client, 4) == 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct sim_oracle_op *op = &batch->ops[i];
        op->key = (first + i) % shared->keys;
        op->kind = draw_batch(client, 4) == 0 ? SIM_DELETE : SIM_PUT;
        if (op->kind == SIM_DELETE)
            continue;
        if (draw_batch(client, 8) == 0)
            op->expiry_ns =
                task_wall(tarn_of(client)) + sim_depot_draw_log(&client->batch_random, EXPIRY_BITS);
        if (draw_batch(client, 8) == 0)
            op->condition = TARN_PUT_IF_ABSENT + (enum tarn_put_condition)draw_batch(client, 2);
        op->value_bytes = (uint32_t)(long_ones ? draw_batch(client, longest + 1)
                                               : sim_depot_draw_log(&client->batch_random, SHORT_BITS));
    }
}

static void fill_items(struct sim_depot_client *client, struct batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct sim_oracle_op *op = &batch->ops[i];
        struct tarn_batch_item *item = &batch->items[i];
        batch->numbers[i] = begin_op(client, op);
        batch->options[i] = (struct tarn_put_options){
            .condition = op->condition, .expiry_ns = op->expiry_ns, .client_flags = batch->numbers[i]};
        *item = (struct tarn_batch_item){.key = batch->names[i],
                                         .key_len = fill_key(op->key, batch->names[i]),
                                         .value = client->value + batch->bytes,
                                         .value_len = op->value_bytes,
                                         .options = &batch->options[i],
                                         .remove = op->kind == SIM_DELETE};
        sim_oracle_fill_value(op->key, batch->numbers[i], client->value + batch->bytes, op->value_bytes);
        batch->bytes += op->value_bytes;
        batch->conditional = batch->conditional || op->condition != TARN_PUT_ANY;
    }
    sim_oracle_join(&client->shared->oracle, batch->numbers[0], batch->count);
}

static void write_batch(struct sim_depot_client *client)
{
    struct sim_depot_shared *shared = client->shared;
    struct batch batch = {.count = 0};
    draw_items(client, &batch);
    fill_items(client, &batch);
    uint64_t room = batch.bytes + batch.count * BATCH_OVERHEAD;
    sim_depot_reserve(client, room);
    if (shared->cuts_batches && draw_batch(client, BATCHES_OF_A_CUT) == 0)
        shared->cut_soon(shared, draw_batch(client, CUT_NS_MAX));
    int error = tarn_depot_write_batch(shared->depot, batch.items, batch.count);
    for (uint32_t i = 0; i < batch.count; i++) {
        const struct tarn_batch_item *item = &batch.items[i];
        bool idle = error == 0 && item->remove && item->version == 0;
        sim_oracle_end(oracle_now(client), tarn_of(client), batch.numbers[i], idle ? -ENOENT : item->error,
                       item->version);
    }
    sim_depot_check_error(client, "write_batch", error, batch.conditional, true);
    sim_depot_release(client, room);
}

static void put_value(struct sim_depot_client *client, uint64_t key)
{
    struct sim_depot_shared *shared = client->shared;
    uint8_t name[KEY_ROOM];
    size_t name_bytes = fill_key(key, name);
    const struct sim_oracle_op op = draw_put(client, key);
    if (draw_long(client, 16) == 0)
        abandon(client, name, name_bytes);
    if (draw_batch(client, 8) < client->shared->batches_of_8)
        write_batch(client);
    uint32_t number = begin_op(client, &op);
    sim_oracle_fill_value(key, number, client->value, op.value_bytes);
    const struct tarn_put_options options = {
        .condition = op.condition,
        .if_version = op.condition == TARN_PUT_IF_VERSION ? shared->oracle.ops[op.if_number].version : 0,
        .expiry_ns = op.expiry_ns,
        .client_flags = number,
    };
    uint64_t version = 0;
    sim_depot_reserve(client, op.value_bytes);
    int error = draw_long(client, 3) == 0
                    ? put_parts(client, name, name_bytes, op.value_bytes, &options, &version)
                    : tarn_depot_put(shared->depot, name, name_bytes, client->value, op.value_bytes, &options,
                                     &version);
    sim_oracle_end(oracle_now(client), tarn_of(client), number, error, version);
    sim_depot_check_error(client, "put", error, op.condition != TARN_PUT_ANY, true);
    sim_depot_release(client, op.value_bytes);
}

static void touch_or_delete(struct sim_depot_client *client, enum sim_oracle_kind kind, uint64_t key)
{
    struct sim_depot_shared *shared = client->shared;
    uint8_t name[KEY_ROOM];
    size_t name_bytes = fill_key(key, name);
    struct sim_oracle_op op = {.kind = kind, .key = key};
    if (kind == SIM_TOUCH)
        op.expiry_ns = draw_expiry(client);
    /* whose tombstone is damaged may be found, and is then removed: README of depot, "Records that are missing" */
    op.unconditional = kind == SIM_DELETE && shared->damages > 0;
    uint64_t bytes = kind == SIM_TOUCH ? tarn_depot_whole_bytes_max(shared->depot) : 0;
    uint32_t number = begin_op(client, &op);
    sim_depot_reserve(client, bytes);
    int error = kind == SIM_TOUCH ? tarn_depot_touch(shared->depot, name, name_bytes, op.expiry_ns)
                                  : tarn_depot_delete(shared->depot, name, name_bytes);
    sim_oracle_end(oracle_now(client), tarn_of(client), number, error, 0);
    sim_depot_check_error(client, kind == SIM_TOUCH ? "touch" : "delete", error, false, kind == SIM_TOUCH);
    sim_depot_release(client, bytes);
}

static void update(struct sim_depot_client *client, uint64_t key)
{
    static const enum sim_oracle_answer answers[] = {SIM_STORE, SIM_STORE, SIM_REMOVE, SIM_REFUSE};
    struct sim_depot_shared *shared = client->shared;
    uint8_t name[KEY_ROOM];
    size_t name_bytes = fill_key(key, name);
    const struct sim_oracle_op op = {.kind = SIM_UPDATE, .key = key};
    struct sim_oracle_update own = {.oracle = &shared->oracle,
                                    .decided = {.key = key, .expiry_ns = draw_expiry(client)},
                                    .value = client->value};
    own.decided.answer = answers[sim_depot_draw(client, base_array_count(answers))];
    own.decided.value_bytes = draw_value_bytes(client);
    own.number = begin_op(client, &op);
    sim_oracle_fill_value(key, own.number, client->value, own.decided.value_bytes);
    uint64_t version = 0;
    sim_depot_reserve(client, own.decided.value_bytes);
    int error = tarn_depot_update(shared->depot, name, name_bytes, sim_oracle_run_update, &own, &version);
    sim_oracle_end(oracle_now(client), tarn_of(client), own.number, error, version);
    if (error != SIM_ORACLE_REFUSED || own.decided.answer != SIM_REFUSE)
        sim_depot_check_error(client, "update", error, false, own.decided.answer == SIM_STORE);
    sim_depot_release(client, own.decided.value_bytes);
}

static void flush_all(struct sim_depot_client *client)
{
    struct sim_depot_shared *shared = client->shared;
    struct sim_oracle_op op = {.kind = SIM_FLUSH_ALL, .key = SIM_ORACLE_ALL_KEYS};
    op.expiry_ns = task_wall(tarn_of(client));
    if (sim_depot_draw(client, 2) == 0)
        op.expiry_ns += sim_depot_draw_log(&client->random, EXPIRY_BITS);
    uint32_t number = begin_op(client, &op);
    int error = tarn_depot_flush_all(shared->depot, op.expiry_ns);
    sim_oracle_end(oracle_now(client), tarn_of(client), number, error, 0);
    sim_depot_check_error(client, "flush_all", error, false, false);
}

/* ---- clients ------------------------------------------------------------------------------------ */

void sim_depot_read_all(struct sim_depot_client *client)
{
    uint64_t keys[SIM_DEPOT_KEYS_MAX] = {0};
    uint64_t count = client->shared->keys;
    switch (sim_depot_draw(client, 4)) {
    case 0:
        scan_all(client, 0);
        break;
    case 1:
        for (uint64_t key = 0; key < count; key++)
            keys[key] = key;
        get_many(client, keys, count);
        break;
    default:
        break;
    }
    for (uint64_t key = 0; key < count; key++)
        get_value(client, key, SIM_DEPOT_VALUE_BYTES_MAX);
    sim_depot_check_all_churned(client);
}

/* What the store must refuse before it looks at anything. */
static void misuse(struct sim_depot_client *client)
{
    struct sim_depot_shared *shared = client->shared;
    struct tarn_record_info info;
    uint64_t longest = tarn_depot_value_bytes_max(shared->depot);
    if (tarn_depot_get(shared->depot, "", 0, client->value, 1, &info) != -EINVAL ||
        tarn_depot_delete(shared->depot, "", 0) != -EINVAL ||
        tarn_depot_touch(shared->depot, "", 0, 0) != -EINVAL ||
        tarn_depot_put(shared->depot, "", 0, "", 0, NULL, NULL) != -EINVAL ||
        tarn_depot_put(shared->depot, "k", 1, client->value, longest + 1, NULL, NULL) != -EMSGSIZE)
        sim_fail(shared->world, "the store took an empty key or a value that is too long");
}

/* The few keys need one table. It becomes larger all the same, so that there is something to give back; a client that lets
 * it grow while another shrinks it turns that. */
static void resize_index(struct sim_depot_client *client)
{
    struct sim_depot_shared *shared = client->shared;
    uint64_t bytes;
    bool grows = draw_size(client, 2) == 0;
    int error = grows ? depot_grow_index(shared->depot, INDEX_ENTRIES_MAX)
                      : tarn_depot_shrink_index(shared->depot, &bytes);
    if (error != 0 && error != (grows ? -ENOSPC : -EAGAIN) && (grows || error != -EBUSY))
        sim_fail(shared->world, "the index was to be %s: %s", grows ? "larger" : "smaller",
                 strerrorname_np(-error));
}

static void do_one(struct sim_depot_client *client)
{
    uint64_t key = sim_depot_draw(client, client->shared->keys);
    uint64_t choice = sim_depot_draw(client, 100);
    if (client->shared->deletes_much && sim_depot_draw(client, 3) == 0)
        touch_or_delete(client, SIM_DELETE, key);
    else if (choice < 30)
        get_value(client, key, SIM_DEPOT_VALUE_BYTES_MAX);
    else if (choice < 33)
        get_value(client, key, sim_depot_draw_log(&client->random, 13));
    else if (choice < 37)
        look_at_key(client);
    else if (choice < 72)
        put_value(client, key);
    else if (choice < 81)
        touch_or_delete(client, SIM_DELETE, key);
    else if (choice < 88)
        touch_or_delete(client, SIM_TOUCH, key);
    else if (choice < 97)
        update(client, key);
    else if (choice == 99)
        misuse(client);
    else if (client->shared->flushes)
        flush_all(client);
}

static void do_some(struct sim_depot_client *client, uint64_t ops)
{
    for (; ops > 0 && client->told + 2 * LOOKS_MAX <= SIM_ORACLE_OPS_MAX; ops--) {
        if (draw_size(client, 8) == 0)
            resize_index(client);
        if (!client->looks_back && draw_long(client, 16) == 0)
            look_back(client);
        else if (sim_depot_draw(client, 8) < client->shared->churn_of_8)
            sim_depot_churn(client);
        else
            do_one(client);
        if (sim_depot_draw(client, 4) == 0)
            (void)task_sleep(sim_depot_draw_log(&client->random, client->shared->sleep_bits));
    }
}

void sim_depot_run_client(void *arg)
{
    struct sim_depot_client *client = arg;
    do_some(client, sim_depot_draw(client, client->shared->ops_max));
}
