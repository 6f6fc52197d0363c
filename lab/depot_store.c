/* The measured store: making and filling its file, and checking records by their number. */
#include "lab/depot_store.h"

#include "depot/index/index.h"
#include "seglog/length.h"
#include "seglog/seglog_format.h"
#include <errno.h>

enum {
    LOADERS = 64,
    SPARE_TASKS = 16,
    RECORDS_PERCENT_MAX = 85, /* above it is the collector that is measured */
    PROGRESS_EVERY = 256,
};

/* ---- records ------------------------------------------------------------------------------------ */

/* Beginning of a value. Its last 8 bytes are the tail of this. */
struct value_head {
    uint8_t key[LAB_DEPOT_KEY_BYTES];
    uint64_t generation;
};

void lab_depot_key(uint64_t number, uint8_t key[LAB_DEPOT_KEY_BYTES])
{
    struct base_hash128 hash = base_hash128(&number, sizeof(number), 0);
    memcpy(key, &hash.low, sizeof(hash.low));
    memcpy(key + sizeof(hash.low), &hash.high, sizeof(hash.high));
}

static uint64_t tail_of(uint64_t number, uint64_t generation)
{
    return ~number ^ (generation << 32 | generation >> 32);
}

void lab_depot_value_init(const struct lab_depot_store *store, uint8_t *value)
{
    memcpy(value, store->body, store->value_bytes);
}

void lab_depot_value_set(const struct lab_depot_store *store, uint64_t number, uint64_t generation,
                         uint8_t *value)
{
    struct value_head head = {.generation = generation};
    uint64_t tail = tail_of(number, generation);
    lab_depot_key(number, head.key);
    memcpy(value, &head, sizeof(head));
    memcpy(value + store->value_bytes - sizeof(tail), &tail, sizeof(tail));
}

bool lab_depot_value_check(const struct lab_depot_store *store, uint64_t number, const uint8_t *value,
                           uint64_t bytes, bool whole)
{
    struct value_head head;
    uint64_t tail;
    uint8_t key[LAB_DEPOT_KEY_BYTES];
    if (bytes != store->value_bytes)
        return false;
    memcpy(&head, value, sizeof(head));
    memcpy(&tail, value + bytes - sizeof(tail), sizeof(tail));
    lab_depot_key(number, key);
    if (memcmp(head.key, key, sizeof(key)) != 0 || tail != tail_of(number, head.generation))
        return false;
    return !whole ||
           memcmp(value + sizeof(head), store->body + sizeof(head), bytes - sizeof(head) - sizeof(tail)) == 0;
}

/* ---- the file ------------------------------------------------------------------------------------ */

int lab_depot_store_open(struct bench *bench, const struct lab_depot_setup *setup, const char *path,
                         uint64_t bytes, struct lab_depot_store *ret_store)
{
    struct lab_depot_store store = {.bench = bench, .setup = setup};
    int error = lab_drive_file_open(bench, path, bytes, &store.file);
    if (error == 0)
        *ret_store = store;
    return error;
}

static void free_body(struct lab_depot_store *store)
{
    base_free(store->bench->account, store->body, store->value_bytes);
    store->body = NULL;
}

void lab_depot_store_close(struct lab_depot_store *store)
{
    free_body(store);
    lab_drive_file_close(&store->file);
}

/* Nodes of a run have one seed: without drawing on, each store would get the seeds of the one before, and
 * take what that has left for its own. */
int lab_depot_format(struct lab_depot_store *store, struct tarn_node *node)
{
    for (uint64_t i = 0; i < store->formatted; i++)
        (void)task_rng(node);
    store->formatted++;
    const struct tarn_format_options options = {.force = true};
    return tarn_depot_format(node, store->file.path, &options);
}

int lab_depot_open(const struct lab_depot_store *store, struct tarn_node *node, enum tarn_mode mode,
                   bool read_only, struct tarn_depot **ret_depot)
{
    const struct tarn_depot_options options = {
        .mode = mode,
        .read_only = read_only,
        .hot_bytes = store->setup->memory_bytes == 0 ? TARN_HOT_OFF : 0 /* the drive is what is measured */
    };
    const struct depot_opening opening = {.direct = store->setup->direct};
    return depot_open(node, store->file.path, &options, &opening, ret_depot);
}

int lab_depot_set_value_bytes(struct lab_depot_store *store, uint32_t value_bytes)
{
    struct base_random random;
    uint8_t *body = base_alloc(store->bench->account, value_bytes);
    if (body == NULL)
        return -ENOMEM;
    base_random_init(&random, store->bench->options.seed);
    base_random_fill(&random, body, value_bytes);
    free_body(store);
    store->body = body;
    store->value_bytes = value_bytes;
    store->record_bytes = seglog_record_bytes(SEGLOG_VALUE, LAB_DEPOT_KEY_BYTES, value_bytes);
    return 0;
}

/* ---- filling it ---------------------------------------------------------------------------------- */

int lab_depot_get(const struct lab_depot_store *store, struct tarn_depot *depot, uint64_t number,
                  uint8_t *value, bool whole)
{
    struct tarn_record_info info;
    uint8_t key[LAB_DEPOT_KEY_BYTES];
    lab_depot_key(number, key);
    int error = tarn_depot_get(depot, key, sizeof(key), value, store->value_bytes, &info);
    if (error == 0 && !lab_depot_value_check(store, number, value, info.value_bytes, whole))
        error = -EBADMSG;
    return error;
}

int lab_depot_put(const struct lab_depot_store *store, struct tarn_depot *depot, uint64_t number,
                  uint64_t generation, uint8_t *value)
{
    uint8_t key[LAB_DEPOT_KEY_BYTES];
    lab_depot_key(number, key);
    lab_depot_value_set(store, number, generation, value);
    return tarn_depot_put(depot, key, sizeof(key), value, store->value_bytes, NULL, NULL);
}

/* Loaders at work. */
struct load {
    struct lab_depot_store *store;
    struct tarn_depot *depot;
    struct base_progress progress;
    uint64_t (*draw)(void *arg); /* the record that is put next; NULL: one after the other */
    void *arg;
    uint64_t next;
    uint64_t end;
    int error; /* the first */
};

static void load_records(void *arg)
{
    struct load *load = arg;
    struct lab_depot_store *store = load->store;
    uint8_t *value = base_alloc(store->bench->account, store->value_bytes);
    if (value == NULL) {
        load->error = -ENOMEM;
        return;
    }
    lab_depot_value_init(store, value);
    while (load->next < load->end && load->error == 0) {
        uint64_t place = load->next++;
        int error = load->draw == NULL
                        ? lab_depot_put(store, load->depot, place, 0, value)
                        : lab_depot_put(store, load->depot, load->draw(load->arg), place + 1, value);
        if (error != 0)
            load->error = error;
        if (place % PROGRESS_EVERY == 0)
            base_progress_update(&load->progress, place);
    }
    base_free(store->bench->account, value, store->value_bytes);
}

static int run_loaders(struct load *load)
{
    bench_progress_init(load->store->bench, &load->progress, load->store->file.path, "records", load->end);
    int error = bench_tasks_run(LOADERS, load_records, load);
    base_progress_end(&load->progress);
    return load->error != 0 ? load->error : error;
}

int lab_depot_put_all(struct lab_depot_store *store, struct tarn_depot *depot, uint64_t begin, uint64_t end)
{
    struct load load = {.store = store, .depot = depot, .next = begin, .end = end};
    return run_loaders(&load);
}

int lab_depot_put_drawn(struct lab_depot_store *store, struct tarn_depot *depot, uint64_t count,
                        uint64_t (*draw)(void *arg), void *arg)
{
    struct load load = {.store = store, .depot = depot, .draw = draw, .arg = arg, .end = count};
    return run_loaders(&load);
}

/* Bytes that a get reads, over all places in a block where a record may begin. */
static uint64_t mean_read_bytes(const struct lab_depot_store *store)
{
    uint64_t grains = base_align_up(store->record_bytes, SEGLOG_GRAIN_BYTES) / SEGLOG_GRAIN_BYTES;
    uint64_t room = seglog_length_rounded(grains) * SEGLOG_GRAIN_BYTES;
    uint64_t sum = 0;
    uint64_t places = 0;
    base_assert(store->block_bytes > 0);
    for (uint64_t place = 0; place < store->block_bytes; place += SEGLOG_GRAIN_BYTES, places++)
        sum += base_align_up(place + room, store->block_bytes);
    return sum / places;
}

void lab_depot_look(struct lab_depot_store *store, const struct tarn_depot *depot)
{
    const struct drive_info *info = depot_drive_info(depot);
    const char *engine = task_sched_engine_name(task_sched_self());
    store->direct = info->direct;
    store->block_bytes = info->logical_block_bytes;
    store->provider = strcmp(info->provider, "uring") == 0 ? "uring"
                      : strcmp(info->provider, "aio") == 0 ? "aio"
                                                           : "sync"; /* the drive's own word goes with it */
    store->engine = strcmp(engine, "uring") == 0 ? DRIVE_PROVIDER_URING : DRIVE_PROVIDER_AIO;
    store->read_bytes = mean_read_bytes(store);
}

/* What a first record takes tells how many there is room for. */
static int fill_open_store(struct lab_depot_store *store, struct tarn_depot *depot, uint64_t percent)
{
    struct tarn_depot_stats stats;
    lab_depot_look(store, depot);
    int error = lab_depot_put_all(store, depot, 0, 1);
    if (error != 0)
        return error;
    tarn_depot_stats(depot, &stats);
    uint64_t room = stats.capacity_bytes / stats.live_bytes;
    store->records_max = room * RECORDS_PERCENT_MAX / 100;
    store->records = base_max(room * percent / 100, UINT64_C(1));
    error = lab_depot_put_all(store, depot, 1, store->records);
    tarn_depot_stats(depot, &stats);
    store->used_bytes = (uint64_t)(stats.segments - stats.segments_free) * stats.segment_bytes;
    return error == 0 && stats.records != store->records ? -EBADMSG : error;
}

/* A filling under way. */
struct fill {
    struct lab_depot_store *store;
    uint64_t percent;
};

static void fill_main(void *arg)
{
    struct bench_world *world = arg;
    struct fill *fill = world->arg;
    struct tarn_depot *depot;
    world->error = lab_depot_format(fill->store, world->node);
    if (world->error == 0)
        world->error = lab_depot_open(fill->store, world->node, TARN_MODE_DEVICE, false, &depot);
    if (world->error != 0)
        return;
    world->error = fill_open_store(fill->store, depot, fill->percent);
    int closed = tarn_depot_close(depot);
    if (world->error == 0)
        world->error = closed;
}

int lab_depot_fill(struct lab_depot_store *store, uint32_t value_bytes, uint64_t percent)
{
    struct fill fill = {.store = store, .percent = percent};
    const struct bench_world_options options = {.engine = store->setup->engine,
                                                .sched = {.tasks_max = LOADERS + SPARE_TASKS}};
    int error = lab_depot_set_value_bytes(store, value_bytes);
    if (error == 0)
        error = bench_world_run(store->bench, &options, fill_main, &fill);
    return error == 0 ? 0 : bench_fail(store->bench, error, "%s: filling the store", store->file.path);
}
