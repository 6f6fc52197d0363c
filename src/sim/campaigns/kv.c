/*
 * Campaign `kv`: servers offer a cache, a depot or a tree, which clients also read by themselves; clients get, put, delete and scan, while nodes are killed and stopped
 * and links are cut. The history of each key must be linearizable.
 */
#include "kv/kv.h"
#include "base/base.h"
#include "cache/cache.h"
#include "fabric/fabric.h"
#include "sim/arena.h"
#include "sim/campaigns/campaign_internal.h"
#include "sim/kv_history.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>

enum {
    SERVERS_MAX = 2,
    PARTITIONS_MAX = 3,
    USERS_MAX = 4, /* tasks and threads of a client */
    TOGETHER_MAX = 6,
    GETS_MAX = 4,    /* one after the other */
    ROUNDS_MAX = 40, /* operations of a user */
    NAME_BYTES = 24,
    URL_BYTES = 48,
    KEY_BYTES = 8,
    DEPOT_BYTES = 8 << 20,
    TREE_BYTES = 12 << 20,
    BALLAST = 80, /* keys of a tree that only its server knows … */
    BALLAST_MIN = 100,
    BALLAST_MAX = 900, /* … and their bytes: a node has few of them */
    LOOK_NS = 100000,
    VALUE_BYTES = 600, /* of most values: a small partition's log has gone round after a few */
    LONG_BYTES = 8192, /* others are so much shorter than the longest, at most: one request brings 16 KiB */
};

#define PATIENCE_NS (10 * BASE_NS_PER_SECOND)

struct play;
struct life;

/* A task or thread of a client, with memory for values as long as they get. */
struct user {
    struct life *life;
    uint8_t key[KEY_BYTES];
    uint8_t value[SIM_KV_BYTES_MAX];
};

/* One life of a node. */
struct life {
    struct life *next;
    struct play *play;
    struct sim_node *node;
    uint32_t number; /* of the node */
    uint32_t scheds;
    bool is_ready;       /* the users may begin */
    uint32_t users;      /* of a client, that run */
    struct user *memory; /* USERS_MAX */
    struct base_random random;
    struct tarn_fabric *fabric;
    struct tarn_kv *kvs[SERVERS_MAX]; /* of a client; NULL: it has not met that server */
    struct cache *cache;              /* of a server */
};

enum kind { CACHE, DEPOT, TREE };

/* What a server offers, in all its lives. */
struct server {
    enum kind kind;
    uint32_t partitions;
    uint64_t partition_bytes;
    uint32_t workers;
    char address[NAME_BYTES];
    char drive[NAME_BYTES], file[URL_BYTES], url[URL_BYTES];
};

struct play {
    struct sim_arena arena;
    struct sim_kv_history history;
    struct life *lives;
    struct life *current[SIM_ARENA_NODES_MAX];
    struct server servers[SERVERS_MAX];
    uint32_t server_count;
    uint32_t clients; /* lives of clients that go on */
    bool has_long;    /* some values are long */
    uint32_t bytes;   /* of each value: records take the places of others, to the byte; 0: as it comes */
    uint64_t timeout_ns;
};

static struct play *play_of(struct sim_arena *arena)
{
    return base_container_of(arena, struct play, arena);
}

static uint64_t draw_below(struct life *life, uint64_t n)
{
    return base_random_below(&life->random, n);
}

/* ---- keys and values ---------------------------------------------------------------------------- */

/* Key k belongs to server k mod servers. */
static void build_key(uint32_t key, uint8_t *ret_key)
{
    base_store_le64(ret_key, key * UINT64_C(0x9e3779b97f4a7c15));
}

static uint32_t draw_key(struct life *life)
{
    return (uint32_t)draw_below(life, life->play->history.keys);
}

/* Most puts are of a server's first key: the log goes round, and evicts what lives. */
static uint32_t draw_key_to_put(struct life *life)
{
    return draw_below(life, 3) == 0 ? draw_key(life) : (uint32_t)draw_below(life, life->play->server_count);
}

static struct tarn_kv *kv_of(const struct life *life, uint32_t key)
{
    return life->kvs[key % life->play->server_count];
}

static uint32_t draw_bytes(struct life *life)
{
    if (life->play->bytes > 0)
        return life->play->bytes;
    const bool is_long = life->play->has_long && draw_below(life, 2) == 0;
    return is_long ? SIM_KV_BYTES_MAX - (uint32_t)draw_below(life, LONG_BYTES)
                   : 1 + (uint32_t)draw_below(life, VALUE_BYTES);
}

/* ---- calls -------------------------------------------------------------------------------------- */

/* That calls fail needs a reason. */
static void check_error(struct life *life, const char *what, int error)
{
    const struct play *play = life->play;
    const bool is_lost = error == -EHOSTUNREACH || error == -ECONNRESET || error == -ETIMEDOUT;
    if (is_lost && play->arena.events == 0)
        sim_fail(play->arena.world, "a %s ended with %d, and there is no reason", what, error);
    if (error != 0 && !is_lost && error != -ENOENT && error != -EEXIST && error != -ESTALE &&
        error != -EMSGSIZE)
        sim_fail(play->arena.world, "a %s ended with %d", what, error);
}

static void get_one(struct user *user)
{
    struct life *life = user->life;
    struct sim_kv_history *history = &life->play->history;
    const struct sim_kv_op op = {.kind = SIM_KV_GET, .key = draw_key(life)};
    struct tarn_record_info info = {0};
    struct tarn_kv *kv = kv_of(life, op.key);
    if (kv == NULL)
        return;
    build_key(op.key, user->key);
    const uint32_t number = sim_kv_begin(history, &op);
    int error = tarn_kv_get(kv, user->key, KEY_BYTES, user->value, sizeof(user->value), &info);
    check_error(life, "get", error);
    (void)sim_kv_end_get(history, number, error, &info, 0, user->value, error == 0 ? info.value_bytes : 0);
}

static void get_part(struct user *user)
{
    struct life *life = user->life;
    struct sim_kv_history *history = &life->play->history;
    struct sim_kv_op op = {.kind = SIM_KV_GET, .key = draw_key(life)};
    const uint64_t offset = draw_below(life, UINT64_C(1) << draw_below(life, 14));
    const size_t room = (size_t)draw_below(life, SIM_KV_BYTES_MAX);
    struct tarn_record_info info = {0};
    struct tarn_kv *kv = kv_of(life, op.key);
    size_t bytes = 0;
    if (kv == NULL)
        return;
    if (draw_below(life, 2) == 0)
        op.if_number = sim_kv_known_put(history, op.key);
    build_key(op.key, user->key);
    const uint32_t number = sim_kv_begin(history, &op);
    const uint64_t if_version = op.if_number == 0 ? 0 : history->ops[op.if_number].version;
    int error = tarn_kv_read(kv, user->key, KEY_BYTES, if_version, offset, user->value, room, &bytes, &info);
    check_error(life, "get of a part", error);
    const uint64_t left = info.value_bytes - base_min(offset, (uint64_t)info.value_bytes);
    if (error == 0 && bytes != base_min(left, (uint64_t)room))
        sim_fail(life->play->arena.world, "of %" PRIu64 " bytes behind %" PRIu64 " came %zu", left, offset,
                 bytes);
    (void)sim_kv_end_get(history, number, error, &info, base_min(offset, (uint64_t)info.value_bytes),
                         user->value, bytes);
}

static void get_many(struct user *user)
{
    struct life *life = user->life;
    struct sim_kv_history *history = &life->play->history;
    const uint32_t servers = life->play->server_count, keys = history->keys / servers;
    const uint32_t server = (uint32_t)draw_below(life, servers),
                   count = 1 + (uint32_t)draw_below(life, TOGETHER_MAX);
    struct tarn_get gets[TOGETHER_MAX];
    uint32_t numbers[TOGETHER_MAX];
    uint8_t bytes[TOGETHER_MAX][KEY_BYTES];
    if (life->kvs[server] == NULL)
        return;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t key = server + servers * (uint32_t)draw_below(life, keys);
        build_key(key, bytes[i]);
        numbers[i] = sim_kv_begin(history, &(struct sim_kv_op){.kind = SIM_KV_GET, .key = key});
        gets[i] = (struct tarn_get){.key = bytes[i],
                                    .key_len = KEY_BYTES,
                                    .value = user->value + i * (SIM_KV_BYTES_MAX / TOGETHER_MAX),
                                    .value_room = SIM_KV_BYTES_MAX / TOGETHER_MAX};
    }
    tarn_kv_get_many(life->kvs[server], gets, count);
    for (uint32_t i = 0; i < count; i++) {
        const bool is_too_long = gets[i].error == -ENOBUFS;
        if (!is_too_long)
            check_error(life, "get of many", gets[i].error);
        (void)sim_kv_end_get(history, numbers[i], is_too_long ? 0 : gets[i].error, &gets[i].info, 0,
                             gets[i].value, gets[i].error == 0 ? gets[i].info.value_bytes : 0);
    }
}

static void put_value(struct user *user)
{
    struct life *life = user->life;
    struct sim_kv_history *history = &life->play->history;
    struct sim_kv_op op = {.kind = SIM_KV_PUT, .key = draw_key_to_put(life), .bytes = draw_bytes(life)};
    struct tarn_put_options options = {.condition = TARN_PUT_ANY};
    struct tarn_kv *kv = kv_of(life, op.key);
    uint64_t version = 0;
    if (kv == NULL)
        return;
    if (draw_below(life, 2) == 0)
        options.condition = (enum tarn_put_condition)draw_below(life, TARN_PUT_IF_VERSION + 1);
    if (options.condition == TARN_PUT_IF_VERSION) {
        op.if_number = sim_kv_known_put(history, op.key);
        if (op.if_number == 0)
            return;
        options.if_version = history->ops[op.if_number].version;
    }
    op.condition = options.condition;
    build_key(op.key, user->key);
    const uint32_t number = sim_kv_begin(history, &op);
    sim_kv_fill(number, user->value, op.bytes);
    options.client_flags = number;
    int error = tarn_kv_put(kv, user->key, KEY_BYTES, user->value, op.bytes, &options, &version);
    check_error(life, "put", error);
    sim_kv_end(history, number, error, version);
}

static void delete_one(struct user *user)
{
    struct life *life = user->life;
    struct sim_kv_history *history = &life->play->history;
    const struct sim_kv_op op = {.kind = SIM_KV_DELETE, .key = draw_key(life)};
    struct tarn_kv *kv = kv_of(life, op.key);
    if (kv == NULL)
        return;
    build_key(op.key, user->key);
    const uint32_t number = sim_kv_begin(history, &op);
    int error = tarn_kv_delete(kv, user->key, KEY_BYTES);
    check_error(life, "delete", error);
    sim_kv_end(history, number, error, 0);
}

/* ---- scans -------------------------------------------------------------------------------------- */

struct scan {
    struct life *life;
    uint32_t numbers[SIM_KV_KEYS_MAX]; /* of the keys' operations; 0: of another server */
    bool seen[SIM_KV_KEYS_MAX];
};

static int visit(void *arg, const void *key, size_t key_len, const void *value,
                 const struct tarn_record_info *info)
{
    struct scan *scan = arg;
    struct play *play = scan->life->play;
    uint8_t bytes[KEY_BYTES];
    for (uint32_t i = 0; i < play->history.keys; i++) {
        build_key(i, bytes);
        if (key_len != KEY_BYTES || memcmp(key, bytes, KEY_BYTES) != 0 || scan->numbers[i] == 0)
            continue;
        if (scan->seen[i])
            sim_fail(play->arena.world, "a scan has shown key %" PRIu32 " twice", i);
        scan->seen[i] = true;
        (void)sim_kv_end_get(&play->history, scan->numbers[i], 0, info, 0, value,
                             value == NULL ? 0 : info->value_bytes);
        return 0;
    }
    if (key_len >= BALLAST_MIN)
        return 0;
    sim_fail(play->arena.world, "a scan has shown a key that nobody has put");
    return -EUCLEAN;
}

static void scan_all(struct user *user)
{
    struct life *life = user->life;
    struct sim_kv_history *history = &life->play->history;
    const uint32_t servers = life->play->server_count, server = (uint32_t)draw_below(life, servers);
    struct scan scan = {.life = life};
    if (life->kvs[server] == NULL || life->play->servers[server].kind == CACHE)
        return;
    for (uint32_t i = server; i < history->keys; i += servers)
        scan.numbers[i] = sim_kv_begin(history, &(struct sim_kv_op){.kind = SIM_KV_SCAN, .key = i});
    int error = life->play->servers[server].kind == TREE && draw_below(life, 2) == 0
                    ? tarn_kv_range(life->kvs[server], &(struct tarn_kv_range){.limit = 0}, visit, &scan)
                    : tarn_kv_scan(life->kvs[server], visit, &scan);
    if (error != -EBUSY && error != -ESHUTDOWN)
        check_error(life, "scan", error);
    for (uint32_t i = server; i < history->keys; i += servers) {
        if (!scan.seen[i])
            (void)sim_kv_end_get(history, scan.numbers[i], error == 0 ? -ENOENT : error, NULL, 0, NULL, 0);
    }
}

/* ---- clients ------------------------------------------------------------------------------------ */

static void act(struct user *user)
{
    const uint64_t what = draw_below(user->life, 20);
    if (what < 6)
        for (uint64_t i = draw_below(user->life, GETS_MAX); i < GETS_MAX; i++)
            get_one(user);
    else if (what < 8)
        get_many(user);
    else if (what < 10)
        get_part(user);
    else if (what < 15)
        put_value(user);
    else if (what < 16)
        delete_one(user);
    else
        scan_all(user);
}

static void be_user(void *arg)
{
    struct user *user = arg;
    struct life *life = user->life;
    struct play *play = life->play;
    while (!life->is_ready)
        (void)task_sleep(LOOK_NS);
    for (uint32_t i = 0; i < ROUNDS_MAX && !play->arena.stop; i++) {
        if (!sim_kv_history_has_room(&play->history, SIM_KV_KEYS_MAX))
            break;
        act(user);
        if (draw_below(life, 3) == 0)
            (void)task_sleep(draw_below(life, UINT64_C(1) << draw_below(life, 20)));
    }
    life->users--;
}

static void open_stores(struct life *life)
{
    struct play *play = life->play;
    const struct tarn_kv_options options = {.fabric = life->fabric,
                                            .timeout_ns = play->timeout_ns,
                                            .way = (enum tarn_kv_way)draw_below(life, 3),
                                            .selector = {.exploration = 0.2},
                                            .node_cache_bytes = draw_below(life, 2) == 0   ? TARN_CACHE_OFF
                                                                : draw_below(life, 2) == 0 ? 8192
                                                                                           : 0};
    for (uint32_t i = 0; i < play->server_count; i++) {
        if (life->kvs[i] == NULL)
            (void)!tarn_kv_open(sim_node_tarn(life->node), play->servers[i].url, &options, &life->kvs[i]);
    }
}

/* As a thread where there are threads among the users: their connections are a thread's to close. */
static void be_client(void *arg)
{
    struct life *life = arg;
    struct play *play = life->play;
    base_assert(tarn_fabric_open(sim_node_tarn(life->node), "shm:", &life->fabric) == 0);
    open_stores(life);
    life->is_ready = true;
    while (life->users > 0) {
        (void)task_sleep(LOOK_NS);
        if (!play->arena.stop)
            open_stores(life);
    }
    for (uint32_t i = 0; i < play->server_count; i++) {
        if (life->kvs[i] != NULL)
            base_assert(tarn_kv_close(life->kvs[i]) == 0);
    }
    tarn_fabric_close(life->fabric);
    play->clients--;
}

static void start_users(struct life *life)
{
    const bool has_threads = draw_below(life, 3) == 0;
    const uint64_t count = 1 + draw_below(life, USERS_MAX);
    life->play->clients++;
    life->memory = base_alloc(sim_world_memory(life->play->arena.world), USERS_MAX * sizeof(life->memory[0]));
    base_assert(life->memory != NULL);
    for (uint64_t i = 0; i < count; i++) {
        struct user *user = &life->memory[i];
        user->life = life;
        life->users++;
        if (has_threads && draw_below(life, 2) == 0)
            base_assert(sim_thread(life->node, "user", be_user, user) == 0);
        else
            base_assert(
                sim_spawn(life->node, (uint32_t)draw_below(life, life->scheds), "user", be_user, user) == 0);
    }
    if (has_threads)
        base_assert(sim_thread(life->node, "client", be_client, life) == 0);
    else
        base_assert(sim_spawn(life->node, 0, "client", be_client, life) == 0);
}

/* ---- servers ------------------------------------------------------------------------------------ */

static const struct server *server_of(const struct life *life)
{
    return &life->play->servers[life->number];
}

static void open_cache(struct life *life)
{
    const struct server *server = server_of(life);
    const struct cache_options options = {.memory_bytes = server->partitions * server->partition_bytes,
                                          .partitions = server->partitions};
    base_assert(cache_open(sim_node_tarn(life->node), &options, &life->cache) == 0);
}

static struct tarn_kv *open_store(struct life *life)
{
    const struct server *server = server_of(life);
    const struct tarn_depot_options depot = {.create_bytes = DEPOT_BYTES};
    const struct tarn_kv_options options = {.depot = &depot};
    struct tarn_kv *kv = NULL;
    int error;
    if (server->kind == DEPOT) {
        error = tarn_kv_open(sim_node_tarn(life->node), server->file, &options, &kv);
    } else if (server->kind == TREE) {
        error = kv_open_tree(sim_node_tarn(life->node), server->drive, TREE_BYTES, &depot, NULL, &kv);
    } else {
        open_cache(life);
        error = kv_wrap_cache(sim_node_tarn(life->node), life->cache, &kv);
    }
    if (error != 0)
        sim_fail(life->play->arena.world, "a store could not be opened: %d", error);
    return error == 0 ? kv : NULL;
}

static void close_cache(struct life *life)
{
    for (uint32_t i = 0; i < server_of(life)->partitions; i++) {
        const char *wrong = cache_check(cache_partition(life->cache, i));
        if (wrong != NULL)
            sim_fail(life->play->arena.world, "a cache is wrong: %s", wrong);
    }
    cache_close(life->cache);
}

/* Have a tree's nodes be cut and merged between the clients' keys. */
static void churn(struct life *life, struct tarn_kv *kv)
{
    uint8_t key[BALLAST_MAX];
    const uint64_t number = draw_below(life, BALLAST);
    memset(key, (int)number, sizeof(key));
    base_store_le64(key, number * UINT64_C(0xd1b54a32d192ed03));
    const size_t bytes = BALLAST_MIN + number * 7919 % (BALLAST_MAX - BALLAST_MIN);
    int error = draw_below(life, 5) < 3 ? tarn_kv_put(kv, key, bytes, key, draw_below(life, 50), NULL, NULL)
                                        : tarn_kv_delete(kv, key, bytes);
    if (error != 0 && error != -ENOENT)
        sim_fail(life->play->arena.world, "a tree could not be changed: %d", error);
}

static void be_server(void *arg)
{
    struct life *life = arg;
    struct play *play = life->play;
    const struct server *server = server_of(life);
    const struct tarn_rpc_serve_options options = {
        .workers = server->workers, .spin_ns = 1 + draw_below(life, UINT64_C(1) << draw_below(life, 17))};
    struct task_sched *scheds[2] = {sim_node_sched(life->node, 0),
                                    sim_node_sched(life->node, life->scheds - 1)};
    struct kv_server *service;
    base_assert(tarn_fabric_open(sim_node_tarn(life->node), "shm:", &life->fabric) == 0);
    const struct kv_served served = {.name = "s", .kv = open_store(life)};
    if (served.kv == NULL)
        return;
    base_assert(kv_serve(life->fabric, server->address, &served, 1, &options, scheds, server->workers,
                         &service) == 0);
    while (!play->arena.stop || play->clients > 0) {
        if (server->kind == TREE)
            churn(life, served.kv);
        (void)task_sleep(server->kind == TREE ? draw_below(life, UINT64_C(1) << draw_below(life, 20))
                                              : 1000000);
    }
    kv_server_close(service);
    base_assert(tarn_kv_close(served.kv) == 0);
    if (life->cache != NULL)
        close_cache(life);
    tarn_fabric_close(life->fabric);
}

/* ---- lives -------------------------------------------------------------------------------------- */

static bool is_server(const struct play *play, uint32_t number)
{
    return number < play->server_count;
}

static void begin_life(struct sim_arena *arena, uint32_t number)
{
    struct play *play = play_of(arena);
    struct life *life = base_alloc(sim_world_memory(arena->world), sizeof(*life));
    base_assert(life != NULL);
    *life =
        (struct life){.next = play->lives,
                      .play = play,
                      .number = number,
                      .scheds = is_server(play, number) ? play->servers[number].workers
                                                        : 1 + (uint32_t)base_random_below(arena->random, 2),
                      .random = base_random_fork(arena->random)};
    play->lives = play->current[number] = life;
    const struct sim_node_options options = {.name = arena->names[number], .scheds = life->scheds};
    base_assert(sim_node_open(arena->world, &options, &life->node) == 0);
    arena->current[number] = life->node;
    if (is_server(play, number))
        base_assert(sim_spawn(life->node, 0, "server", be_server, life) == 0);
    else
        start_users(life);
}

static void end_life(struct sim_arena *arena, uint32_t number)
{
    struct play *play = play_of(arena);
    struct life *life = play->current[number];
    if (!is_server(play, number) && sim_node_running(life->node) > 0)
        play->clients--;
    play->current[number] = NULL;
}

/* ---- a run -------------------------------------------------------------------------------------- */

static void draw_server(struct play *play, uint32_t number)
{
    struct base_random *random = play->arena.random;
    struct server *server = &play->servers[number];
    struct sim_drive *drive;
    *server =
        (struct server){.kind = base_random_below(random, 2) > 0   ? CACHE
                                : base_random_below(random, 2) > 0 ? TREE
                                                                   : DEPOT,
                        .partitions = 1 + (uint32_t)base_random_below(random, PARTITIONS_MAX),
                        .partition_bytes = play->bytes > 0  ? UINT64_C(4096)
                                           : play->has_long ? UINT64_C(128) << 10
                                                            : UINT64_C(4096) << base_random_below(random, 3),
                        .workers = 1 + (uint32_t)base_random_below(random, 2)};
    (void)snprintf(server->address, sizeof(server->address), "server %" PRIu32, number);
    (void)snprintf(server->drive, sizeof(server->drive), "drive%" PRIu32, number);
    (void)snprintf(server->file, sizeof(server->file), "file:drive%" PRIu32, number);
    (void)snprintf(server->url, sizeof(server->url), "unix:server %" PRIu32 "/s", number);
    if (server->kind != CACHE) {
        const struct sim_drive_options options = {.bytes = DEPOT_BYTES, .write_cache = true};
        base_assert(sim_drive_add(play->arena.world, server->drive, &options, &drive) == 0);
    }
    for (uint32_t i = number; i < play->history.keys; i += play->server_count)
        play->history.evicts[i] = server->kind == CACHE;
}

static void init(struct play *play, struct sim_world *world)
{
    *play = (struct play){
        .arena = {.world = world, .random = sim_world_random(world), .begin = begin_life, .end = end_life}};
    struct base_random *random = play->arena.random;
    base_assert(sim_kv_history_init(&play->history, world) == 0);
    play->server_count = 1 + (uint32_t)base_random_below(random, SERVERS_MAX);
    play->arena.nodes = play->server_count + 1 + (uint32_t)base_random_below(random, 2);
    play->history.keys = play->server_count * (1 + (uint32_t)base_random_below(random, 8));
    play->has_long = base_random_below(random, 3) == 0;
    if (base_random_below(random, 3) == 0)
        play->bytes = 1 + (uint32_t)base_random_below(random, 2 * VALUE_BYTES);
    sim_arena_draw(&play->arena);
    play->timeout_ns = PATIENCE_NS;
    if ((play->arena.events & SIM_ARENA_IMPATIENCE) != 0)
        play->timeout_ns = UINT64_C(100000) << base_random_below(random, 9);
    for (uint32_t i = 0; i < play->server_count; i++)
        draw_server(play, i);
}

static void deinit(struct play *play)
{
    struct base_account *memory = sim_world_memory(play->arena.world);
    while (play->lives != NULL) {
        struct life *life = play->lives;
        play->lives = life->next;
        base_free(memory, life->memory, life->memory == NULL ? 0 : USERS_MAX * sizeof(life->memory[0]));
        base_free(memory, life, sizeof(*life));
    }
    sim_kv_history_deinit(&play->history);
}

static void run_kv(struct sim_world *world, const char *mutation)
{
    (void)mutation;
    struct play play;
    init(&play, world);
    sim_arena_play(&play.arena);
    sim_note(world, "operations, hits", play.history.count, play.history.hits);
    if (sim_world_failure(world) == NULL)
        sim_kv_check(&play.history);
    deinit(&play);
}

const struct sim_campaign sim_campaign_kv = {
    .name = "kv",
    .help = "clients of stores, whose servers are killed, stopped and cut off",
    .mutations = (const char *const[]){NULL},
    .run = run_kv,
};
