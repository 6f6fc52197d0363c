/*
 * Counting what operations of the hash store cost. Where trips are counted, a card takes the same time for everything and does
 * any number of things at once: so the time of an operation by that time is the number of things that waited for each
 * other.
 */
#include "lab/hash_costs.h"
#include "lab/hash_world.h"
#include "space/client.h"
#include <errno.h>
#include <string.h>

enum {
    MACHINES = 3,
    TRIP_NS = 2000,
    SLOTS = 4096,   /* where operations are counted */
    SAMPLES = 1000, /* of each kind */
    BATCH = 16,
    CHUNK_BYTES = 1 << 20,
    SLAB_BYTES = 1 << 16,
    RECORD_BYTES = 256, /* that a record takes at most, with what slabs leave over */
    CACHE_BYTES = 4 << 20,
};

#define MISSING (UINT64_C(1) << 40) /* keys from here on are never stored */

const char *lab_hash_kind_name(enum lab_hash_kind kind)
{
    static const char *const names[LAB_HASH_KINDS] = {
        [LAB_HASH_GET_CACHED] = "GET, cached", [LAB_HASH_GET] = "GET",
        [LAB_HASH_GET_MISS] = "GET, miss",     [LAB_HASH_OVERWRITE] = "PUT over",
        [LAB_HASH_DELETE] = "DELETE",          [LAB_HASH_NEW] = "PUT new",
        [LAB_HASH_NEW + 1] = "PUT, 1 move",    [LAB_HASH_NEW + 2] = "PUT, 2 moves",
        [LAB_HASH_NEW + 3] = "PUT, 3 moves",   [LAB_HASH_NEW + 4] = "PUT, more",
    };
    return names[kind];
}

/* ---- operations --------------------------------------------------------------------------------- */

/* Operations, with the memory that they borrow. */
struct batch {
    struct hash_op ops[BATCH];
    struct {
        uint8_t key[LAB_HASH_KEY_BYTES], value[LAB_HASH_VALUE_BYTES];
    } bytes[BATCH];
};

static void build_op(struct hash_op *op, enum hash_kind kind, uint64_t number, uint8_t *key, uint8_t *value)
{
    base_store_le64(key, number);
    base_store_le64(key + 8, ~number);
    if (kind == HASH_PUT)
        memset(value, (int)(number & 0xff), LAB_HASH_VALUE_BYTES);
    *op = (struct hash_op){.kind = kind,
                           .key = key,
                           .key_len = LAB_HASH_KEY_BYTES,
                           .value = value,
                           .value_len = kind == HASH_PUT ? LAB_HASH_VALUE_BYTES : 0,
                           .room = value,
                           .room_bytes = LAB_HASH_VALUE_BYTES};
}

static void run_one(struct lab_hash_client *client, enum hash_kind kind, uint64_t number, int wanted)
{
    struct hash_op op;
    uint8_t key[LAB_HASH_KEY_BYTES], value[LAB_HASH_VALUE_BYTES];
    build_op(&op, kind, number, key, value);
    hash_run(client->hash, &op, 1, TARN_FOREVER);
    if (op.error != wanted || (kind == HASH_GET && wanted == 0 && value[0] != (number & 0xff)))
        lab_hash_expect(client, "an operation", op.error == 0 ? -EBADMSG : op.error);
}

/* Whether a larger index has taken the place of the first, or is about to. */
static bool has_grown(const struct lab_hash_client *client, uint64_t slots)
{
    struct hash_stats stats;
    hash_stats(client->hash, &stats);
    return stats.grown > 0 || stats.slots != slots;
}

static uint64_t count_moves(const struct lab_hash_client *client)
{
    struct hash_stats stats;
    hash_stats(client->hash, &stats);
    return stats.moved;
}

static struct lab_hash_world_options usual_world(uint64_t slots, uint32_t ranks, uint32_t filter_bits)
{
    const uint64_t capacity = base_align_up(slots * RECORD_BYTES * 5 / 2 + SLOTS * RECORD_BYTES,
                                            (uint64_t)CHUNK_BYTES); /* until the second index is half full */
    const uint64_t memory =
        base_align_up((capacity + 64 * slots) / MACHINES, (uint64_t)CHUNK_BYTES) + 8 * (uint64_t)CHUNK_BYTES;
    return (struct lab_hash_world_options){
        .machines = MACHINES,
        .memory_bytes = memory,
        .chunk_bytes = CHUNK_BYTES,
        .shape = {.slots = slots,
                  .capacity = capacity,
                  .slab_bytes = SLAB_BYTES,
                  .ranks = ranks,
                  .filter_bits = filter_bits != 0 ? filter_bits : HASH_NO_FILTER}};
}

/* ---- costs -------------------------------------------------------------------------------------- */

struct counting {
    const struct lab_hash_costs_options *options;
    struct lab_hash_costs *costs;
    uint64_t keys;      /* that are stored */
    struct batch batch; /* of the client that fills the store */
};

/* What a client has done until now, and when. */
static struct lab_hash_cost look(const struct lab_hash_client *client)
{
    struct tarn_fabric_counters counters;
    struct lab_hash_cost cost = {.trips = task_now()};
    tarn_fabric_count(client->fabric, CLIENT_TAG, &counters);
    cost.reads = counters.operations[TARN_FABRIC_READ];
    cost.writes = counters.operations[TARN_FABRIC_WRITE];
    cost.swaps = counters.operations[TARN_FABRIC_CAS];
    for (unsigned kind = 0; kind < TARN_FABRIC_OP_KINDS; kind++)
        cost.bytes += counters.bytes[kind];
    return cost;
}

static void note(struct lab_hash_client *client, struct lab_hash_costs *costs, enum lab_hash_kind kind,
                 const struct lab_hash_cost *before)
{
    const struct lab_hash_cost now = look(client);
    struct lab_hash_cost *cost = &costs->kinds[kind];
    const uint64_t took_ns = now.trips - before->trips;
    if (took_ns % TRIP_NS != 0)
        lab_hash_expect(client, "a number of trips", -EUCLEAN);
    cost->count++;
    cost->trips += took_ns / TRIP_NS;
    cost->reads += now.reads - before->reads;
    cost->writes += now.writes - before->writes;
    cost->swaps += now.swaps - before->swaps;
    cost->bytes += now.bytes - before->bytes;
}

static void fill(struct lab_hash_client *client, struct counting *counting)
{
    struct batch *batch = &counting->batch;
    const uint64_t wanted = (uint64_t)SLOTS * counting->options->load_percent / 100;
    while (counting->keys < wanted && !counting->costs->has_grown) {
        const uint32_t count = (uint32_t)base_min(wanted - counting->keys, (uint64_t)BATCH);
        for (uint32_t i = 0; i < count; i++)
            build_op(&batch->ops[i], HASH_PUT, counting->keys++, batch->bytes[i].key, batch->bytes[i].value);
        hash_run(client->hash, batch->ops, count, TARN_FOREVER);
        for (uint32_t i = 0; i < count; i++)
            lab_hash_expect(client, "a put", batch->ops[i].error);
        counting->costs->has_grown = has_grown(client, SLOTS);
    }
}

/* A new key, which goes again, so that the index stays as full as it was. */
static void count_new(struct lab_hash_client *client, struct counting *counting, uint64_t number)
{
    const uint64_t moved = count_moves(client);
    const struct lab_hash_cost before = look(client);
    run_one(client, HASH_PUT, number, 0);
    const uint64_t moves = count_moves(client) - moved;
    if (has_grown(client, SLOTS))
        counting->costs->has_grown = true;
    else
        note(client, counting->costs, LAB_HASH_NEW + (uint32_t)base_min(moves, (uint64_t)LAB_HASH_MOVES_MAX),
             &before);
    run_one(client, HASH_DELETE, number, 0);
}

static void count_uncached(struct lab_hash_client *client, struct counting *counting)
{
    struct lab_hash_costs *costs = counting->costs;
    for (uint32_t i = 0; i < SAMPLES && !costs->has_grown; i++) {
        const uint64_t number = base_random_below(&client->random, counting->keys);
        struct lab_hash_cost before = look(client);
        run_one(client, HASH_GET, number, 0);
        note(client, costs, LAB_HASH_GET, &before);
        before = look(client);
        run_one(client, HASH_GET, MISSING + i, -ENOENT);
        note(client, costs, LAB_HASH_GET_MISS, &before);
        before = look(client);
        run_one(client, HASH_PUT, number, 0);
        note(client, costs, LAB_HASH_OVERWRITE, &before);
        before = look(client);
        run_one(client, HASH_DELETE, number, 0);
        note(client, costs, LAB_HASH_DELETE, &before);
        run_one(client, HASH_PUT, number, 0);
        costs->has_grown = has_grown(client, SLOTS);
        if (!costs->has_grown)
            count_new(client, counting, MISSING - 1 - i);
    }
}

/* The first get of a record brings it into the cache; the records beside it that the filter lets through, too. */
static void count_cached(struct lab_hash_client *client, struct counting *counting)
{
    for (uint32_t i = 0; i < SAMPLES; i++) {
        const uint64_t number = base_random_below(&client->random, counting->keys);
        run_one(client, HASH_GET, number, 0);
        const struct lab_hash_cost before = look(client);
        run_one(client, HASH_GET, number, 0);
        note(client, counting->costs, LAB_HASH_GET_CACHED, &before);
    }
}

static void run_counting(struct lab_hash_client *client)
{
    struct counting *counting = client->arg;
    if (client->number == 0) {
        fill(client, counting);
        count_uncached(client, counting);
    }
    lab_hash_meet(client);
    if (client->number == 1 && !counting->costs->has_grown)
        count_cached(client, counting);
}

int lab_hash_costs_measure(const struct lab_hash_costs_options *options, struct lab_hash_costs *ret_costs)
{
    static const uint64_t cache_bytes[] = {0, CACHE_BYTES};
    static const struct sim_card card = {.name = "trips", .round_trip_ns = TRIP_NS};
    struct counting counting = {.options = options, .costs = ret_costs};
    struct lab_hash_world_options world = usual_world(SLOTS, options->ranks, options->filter_bits);
    world.card = &card;
    world.seed = options->seed;
    world.shape.seed = options->seed;
    world.clients = 2;
    world.cache_bytes = cache_bytes;
    world.run = run_counting;
    world.arg = &counting;
    *ret_costs = (struct lab_hash_costs){.has_grown = false};
    int error = lab_hash_world_run(&world);
    ret_costs->hash = base_hash64(ret_costs->kinds, sizeof(ret_costs->kinds), options->seed);
    return error;
}

/* ---- load --------------------------------------------------------------------------------------- */

struct loading {
    const struct lab_hash_load_options *options;
    struct lab_hash_load *load;
    uint64_t next; /* key */
    bool has_grown;
    struct base_histogram times[LAB_HASH_BINS + 1]; /* of puts; the last: while the index grows */
};

static bool is_replaced(const struct lab_hash_client *client, uint64_t slots)
{
    struct hash_stats stats;
    hash_stats(client->hash, &stats);
    return stats.slots != slots;
}

static void run_loading(struct lab_hash_client *client)
{
    struct loading *loading = client->arg;
    const uint64_t slots = loading->options->slots;
    while (!is_replaced(client, slots)) {
        const uint64_t number = loading->next++, moved = count_moves(client), begin_ns = task_now();
        run_one(client, HASH_PUT, number, 0);
        const uint64_t took_ns = task_now() - begin_ns;
        if (!loading->has_grown && has_grown(client, slots)) {
            loading->has_grown = true;
            loading->load->stored = number;
        }
        const uint64_t bin = loading->has_grown
                                 ? LAB_HASH_BINS
                                 : base_min(number * LAB_HASH_BINS / slots, (uint64_t)LAB_HASH_BINS - 1);
        base_histogram_add(&loading->times[bin], took_ns);
        if (loading->has_grown)
            continue;
        loading->load->bins[bin].puts++;
        loading->load->bins[bin].moves += count_moves(client) - moved;
    }
}

static void add_up_bins(const struct loading *loading)
{
    struct lab_hash_load *load = loading->load;
    const struct base_histogram *growing = &loading->times[LAB_HASH_BINS];
    for (uint32_t i = 0; i < LAB_HASH_BINS; i++) {
        struct lab_hash_bin *bin = &load->bins[i];
        bin->p50_ns = base_histogram_percentile(&loading->times[i], 50);
        bin->p99_ns = base_histogram_percentile(&loading->times[i], 99);
        bin->p999_ns = base_histogram_percentile(&loading->times[i], 99.9);
        bin->max_ns = base_histogram_max(&loading->times[i]);
    }
    load->growing_puts = base_histogram_count(growing);
    load->growing_p999_ns = base_histogram_percentile(growing, 99.9);
    load->growing_ns = base_histogram_max(growing);
}

int lab_hash_load_measure(const struct lab_hash_load_options *options, struct lab_hash_load *ret_load)
{
    struct base_account account;
    struct lab_hash_world_options world = usual_world(options->slots, options->ranks, options->filter_bits);
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    struct loading *loading = base_alloc(&account, sizeof(*loading));
    int error = loading == NULL ? -ENOMEM : 0;
    world.card = options->card;
    world.seed = options->seed;
    world.shape.seed = options->seed;
    world.clients = options->clients;
    world.run = run_loading;
    world.arg = loading;
    *ret_load = (struct lab_hash_load){.stored = 0};
    if (error == 0) {
        loading->options = options;
        loading->load = ret_load;
        for (uint32_t i = 0; i <= LAB_HASH_BINS; i++)
            base_histogram_reset(&loading->times[i]);
        error = lab_hash_world_run(&world);
    }
    if (error == 0)
        add_up_bins(loading);
    base_free(&account, loading, sizeof(*loading));
    base_account_deinit(&account);
    return error;
}
