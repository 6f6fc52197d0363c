/*
 * Measuring a hash store as Nessie does. Records are stored first, each by a client of the machine that has stored it last
 * where clients have accessed them as they will for long: mostly by its own machine's, if accesses are local.
 *
 *   fill ── for each point: meet ── begin together ── lead ── and then it is measured
 */
#include "lab/nessie_run.h"
#include "lab/hash_world.h"
#include "space/client.h"
#include <errno.h>
#include <string.h>

enum {
    BATCH = 16, /* records that a client of Nessie stores at the same time, while the store is filled */
    CHUNK_BYTES = 512 << 10,
    SLAB_BYTES = 256 << 10,
    RECORD_BYTES = 1280, /* that a record takes, with what slabs leave over */
    CACHED_BYTES = 1152, /* that it takes in a cache */
    LOOKS = 40,          /* times as many, that fill a client's cache before it is measured */
    SPARE_SLABS = 3,     /* of each client */
    BEGIN_NS = 50000,    /* after the last has come */
    CLIENTS_MAX = 12 * 12,
};

#define SPREAD UINT64_C(0x9e3779b97f4a7c15)

struct nessie {
    const struct lab_nessie_options *options;
    const struct lab_nessie_point *points;
    uint32_t point_count;
    struct lab_nessie_result *results;
    struct base_random_zipf zipf;
    uint64_t cache_bytes[CLIENTS_MAX];
    uint64_t known[2 * CLIENTS_MAX];         /* of each client the first and the last key that it stores */
    uint64_t from_ns[LAB_NESSIE_POINTS_MAX]; /* when it is measured; 0: nobody has come yet */
    struct base_histogram times[LAB_NESSIE_POINTS_MAX];
};

/* ---- records ------------------------------------------------------------------------------------ */

struct record {
    uint8_t key[LAB_NESSIE_KEY_BYTES], value[LAB_NESSIE_VALUE_BYTES];
};

static void build_key(struct record *record, uint64_t number)
{
    for (size_t at = 0; at < LAB_NESSIE_KEY_BYTES; at += 8)
        base_store_le64(record->key + at, (number + at) * SPREAD);
}

static uint8_t byte_of(uint64_t number)
{
    return (uint8_t)(number * SPREAD >> 56);
}

static void build_op(struct hash_op *op, enum hash_kind kind, uint64_t number, struct record *record)
{
    build_key(record, number);
    if (kind == HASH_PUT)
        memset(record->value, byte_of(number), LAB_NESSIE_VALUE_BYTES);
    *op = (struct hash_op){.kind = kind,
                           .key = record->key,
                           .key_len = LAB_NESSIE_KEY_BYTES,
                           .value = record->value,
                           .value_len = kind == HASH_PUT ? LAB_NESSIE_VALUE_BYTES : 0,
                           .room = record->value,
                           .room_bytes = kind == HASH_GET ? LAB_NESSIE_VALUE_BYTES : 0};
}

static void check_op(const struct lab_hash_client *client, const struct hash_op *op, uint64_t number)
{
    const uint8_t *value = op->room;
    int error = op->error;
    if (error == 0 && op->kind == HASH_GET &&
        (op->info.value_bytes != LAB_NESSIE_VALUE_BYTES || value[0] != byte_of(number) ||
         value[LAB_NESSIE_VALUE_BYTES - 1] != byte_of(number)))
        error = -EBADMSG;
    lab_hash_expect(client, "an operation", error);
}

/* ---- filling ------------------------------------------------------------------------------------ */

/* The keys of a machine's part: as many for each. */
static uint64_t draw_of_part(struct lab_hash_client *client, const struct lab_nessie_options *options)
{
    const uint64_t part = options->keys / options->machines;
    return client->machine * part + base_random_below(&client->random, part);
}

/* The client that has stored a key last: of the machine whose part it is of, but for a share of the accesses of all. */
static uint32_t writer_of(const struct lab_nessie_options *options, uint64_t number)
{
    const uint64_t drawn = base_hash64(&number, sizeof(number), options->seed);
    const uint64_t part = options->keys / options->machines;
    const uint64_t home = base_min(number / part, (uint64_t)options->machines - 1);
    const uint64_t machine = drawn % 100 < options->locality_percent ? home : drawn / 100 % options->machines;
    return (uint32_t)((drawn / 10000 % options->clients) * options->machines + machine);
}

static void run_batch(struct lab_hash_client *client, struct hash_op *ops, uint32_t count)
{
    if (client->hash != NULL)
        hash_run(client->hash, ops, count, TARN_FOREVER);
    for (uint32_t i = 0; i < count; i++) {
        if (client->hash == NULL)
            lab_hash_do(client, &ops[i]);
        lab_hash_expect(client, "an operation of a batch", ops[i].error);
    }
}

static void fill(struct lab_hash_client *client)
{
    const struct nessie *nessie = client->arg;
    struct hash_op ops[BATCH];
    struct record records[BATCH];
    uint32_t count = 0;
    for (uint64_t number = 0; number < nessie->options->keys; number++) {
        if (writer_of(nessie->options, number) != client->number)
            continue;
        build_op(&ops[count], HASH_PUT, number, &records[count]);
        if (++count == BATCH) {
            run_batch(client, ops, count);
            count = 0;
        }
    }
    run_batch(client, ops, count);
}

static uint64_t draw_key(struct lab_hash_client *client, const struct nessie *nessie)
{
    const struct lab_nessie_options *options = nessie->options;
    if (options->zipf > 0)
        return base_random_zipf_scattered(&nessie->zipf, &client->random);
    if (base_random_below(&client->random, 100) < options->locality_percent)
        return draw_of_part(client, options);
    return base_random_below(&client->random, options->keys);
}

/* Clients of Nessie read the first and the last record of each client, so that they know all slabs, and have all connections, before
 * they are measured; and what fills their cache. */
static void look_around(struct lab_hash_client *client)
{
    const struct nessie *nessie = client->arg;
    const uint32_t known = 2 * nessie->options->clients * nessie->options->machines;
    const uint32_t all = known + (nessie->options->cache_permille > 0 ? LOOKS * BATCH : 0);
    struct hash_op ops[BATCH];
    struct record records[BATCH];
    for (uint32_t i = 0; i < all && client->hash != NULL; i += BATCH) {
        const uint32_t count = base_min(all - i, (uint32_t)BATCH);
        for (uint32_t k = 0; k < count; k++)
            build_op(&ops[k], HASH_GET, i + k < known ? nessie->known[i + k] : draw_key(client, nessie),
                     &records[k]);
        run_batch(client, ops, count);
    }
}

/* ---- measuring ---------------------------------------------------------------------------------- */

/* What a client's machine has done until now. Clients of one machine share its fabric: the first of each counts. */
static void add_counts(struct lab_hash_client *client, struct lab_nessie_result *result, bool is_begin)
{
    struct tarn_fabric_counters counters;
    struct hash_stats stats = {.gets = 0};
    const uint64_t sign = is_begin ? UINT64_MAX : 1; /* what was before is taken away */
    if (client->hash != NULL)
        hash_stats(client->hash, &stats);
    result->cached += sign * stats.cached;
    result->repeated += sign * stats.repeated;
    if (client->number != client->machine)
        return;
    tarn_fabric_count(client->fabric, CLIENT_TAG, &counters);
    for (unsigned kind = 0; kind < TARN_FABRIC_OP_KINDS; kind++) {
        result->posted += sign * counters.operations[kind];
        result->bytes += sign * counters.bytes[kind];
    }
}

/* Ask as fast as can be, from the beginning to the end of a point. */
static void run_point(struct lab_hash_client *client, uint32_t number)
{
    struct nessie *nessie = client->arg;
    const struct lab_nessie_point *point = &nessie->points[number];
    struct lab_nessie_result *result = &nessie->results[number];
    const uint64_t from_ns = nessie->from_ns[number], until_ns = from_ns + point->run_ns;
    struct record record;
    struct hash_op op;
    bool is_measured = false;
    (void)task_sleep_until(from_ns - point->lead_ns);
    while (task_now() < until_ns) {
        if (!is_measured && task_now() >= from_ns) {
            is_measured = true;
            add_counts(client, result, true);
        }
        const uint64_t key = draw_key(client, nessie), begin_ns = task_now();
        const bool gets = base_random_below(&client->random, 1000) < point->get_permille;
        task_charge(point->work_ns);
        build_op(&op, gets ? HASH_GET : HASH_PUT, key, &record);
        lab_hash_do(client, &op);
        check_op(client, &op, key);
        const uint64_t now_ns = task_now();
        if (now_ns >= from_ns && now_ns < until_ns) {
            result->operations++;
            base_histogram_add(&nessie->times[number], now_ns - begin_ns);
        }
    }
    if (is_measured)
        add_counts(client, result, false);
}

static void run_client(struct lab_hash_client *client)
{
    struct nessie *nessie = client->arg;
    fill(client);
    lab_hash_meet(client);
    look_around(client);
    for (uint32_t i = 0; i < nessie->point_count; i++) {
        const struct lab_nessie_point *point = &nessie->points[i];
        lab_hash_meet(client);
        if (nessie->from_ns[i] == 0) {
            const struct lab_hash_cores cores = {.cores = point->cores,
                                                 .others = point->others,
                                                 .turn_ns = nessie->options->turn_ns,
                                                 .are_reserved = point->are_reserved};
            nessie->from_ns[i] = task_now() + BEGIN_NS + point->lead_ns;
            lab_hash_share(client, &cores);
        }
        run_point(client, i);
    }
}

static struct lab_hash_world_options world_of(const struct lab_nessie_options *options)
{
    const uint64_t machines = options->workers > 0 ? 1 : options->machines; /* that share a store */
    const uint64_t stores = options->machines / machines, chunk = CHUNK_BYTES;
    const uint64_t users =
        options->workers > 0 ? options->workers : (uint64_t)options->clients * options->machines;
    const uint64_t capacity =
        base_align_up(2 * options->keys / stores * RECORD_BYTES + users * SPARE_SLABS * SLAB_BYTES, chunk);
    return (struct lab_hash_world_options){
        .card = options->card,
        .seed = options->seed,
        .machines = options->machines,
        .workers = options->workers,
        .clients = options->clients * options->machines,
        .item_bytes = LAB_NESSIE_KEY_BYTES + LAB_NESSIE_VALUE_BYTES,
        .memory_bytes =
            base_align_up(capacity * 5 / 4 / machines + options->slots * 8 / stores, chunk) + 8 * chunk,
        .chunk_bytes = CHUNK_BYTES,
        .shape = {.seed = options->seed,
                  .slots = base_power_of_two_from(options->slots / stores),
                  .capacity = capacity,
                  .slab_bytes = SLAB_BYTES,
                  .ranks = options->ranks,
                  .filter_bits = options->filter_bits != 0 ? options->filter_bits : HASH_NO_FILTER,
                  .clients = 128},
        .is_local = options->workers == 0,
        .owns_bulk = options->owns_bulk,
        .is_charged = true,
        .run = run_client};
}

static void add_up(const struct nessie *nessie)
{
    for (uint32_t i = 0; i < nessie->point_count; i++) {
        struct lab_nessie_result *result = &nessie->results[i];
        result->kops = (uint64_t)((double)result->operations * 1e6 / (double)nessie->points[i].run_ns + 0.5);
        result->p50_ns = base_histogram_percentile(&nessie->times[i], 50);
        result->p99_ns = base_histogram_percentile(&nessie->times[i], 99);
    }
}

int lab_nessie_measure(const struct lab_nessie_options *options, const struct lab_nessie_point *points,
                       uint32_t count, struct lab_nessie_result *results)
{
    struct base_account account;
    struct lab_hash_world_options world = world_of(options);
    base_assert(world.clients <= CLIENTS_MAX && count <= LAB_NESSIE_POINTS_MAX);
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    struct nessie *nessie = base_alloc(&account, sizeof(*nessie));
    int error = nessie == NULL ? -ENOMEM : 0;
    memset(results, 0, count * sizeof(*results));
    if (error == 0) {
        *nessie =
            (struct nessie){.options = options, .points = points, .point_count = count, .results = results};
        for (uint32_t i = 0; i < world.clients; i++)
            nessie->cache_bytes[i] = options->keys * options->cache_permille / 1000 * CACHED_BYTES;
        for (uint32_t i = 0; i < count; i++)
            base_histogram_reset(&nessie->times[i]);
        if (options->zipf > 0)
            base_random_zipf_init(&nessie->zipf, options->keys, options->zipf);
        for (uint64_t number = 0; number < options->keys; number++) {
            uint64_t *known = &nessie->known[2 * (uint64_t)writer_of(options, number)];
            known[0] = known[1] == 0 ? number : known[0];
            known[1] = number;
        }
        world.cache_bytes = nessie->cache_bytes;
        world.arg = nessie;
        error = lab_hash_world_run(&world);
    }
    if (error == 0)
        add_up(nessie);
    base_free(&account, nessie, sizeof(*nessie));
    base_account_deinit(&account);
    return error;
}
