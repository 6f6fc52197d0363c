/* Who is measured by `tarn bench memcache`: command lines, beginning and end. */
#include "bench/memcache.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

enum {
    ITEM_SPARE_BYTES = 160,  /* what a server adds to a value, key included */
    TARN_INDEX_BYTES = 192,  /* for each key */
    SLAB_LOSS_PERCENT = 135, /* memcached's size classes are 25 % apart */
    HASH_POWER_MIN = 16,
};

#define MEBIBYTE (UINT64_C(1) << 20)

static const char self_program[] = "/proc/self/exe";

static uint64_t data_bytes(const struct bench_memcache_contest *contest)
{
    return contest->options->keys * (contest->values.bytes + (uint64_t)ITEM_SPARE_BYTES);
}

/* ---- command lines ------------------------------------------------------------------------------- */

static int prepare_tarn(struct bench_memcache_contestant *contestant, uint16_t port)
{
    const struct bench_memcache_contest *contest = contestant->contest;
    const struct bench_memcache_options *options = contest->options;
    struct bench_command *command = &contestant->server.command;
    uint64_t size = options->size_bytes > 0 ? options->size_bytes : 2 * data_bytes(contest) + 256 * MEBIBYTE;
    bench_command_add(command, "%s", options->program != NULL ? options->program : self_program);
    bench_command_add(command, "serve");
    bench_command_add(command, "--data=%s", contest->path);
    bench_command_add(command, "--size=%" PRIu64, base_align_up(size, MEBIBYTE));
    bench_command_add(command, "--listen=127.0.0.1:%" PRIu16, port);
    bench_command_add(command, "--threads=1");
    bench_command_add(command, "--max-connections=%" PRIu64, options->connections + 64);
    bench_command_add(command, "--memory=%" PRIu64,
                      256 * MEBIBYTE + options->keys * (uint64_t)TARN_INDEX_BYTES);
    bench_command_add(command, "--log-level=warn");
    for (size_t i = 0; i < options->serve.count; i++)
        bench_command_add(command, "--%s", options->serve.items[i]);
    return 0;
}

void bench_memcache_add_memcached(struct bench_command *command, uint64_t connections, uint64_t keys,
                                  uint64_t megabytes)
{
    bench_command_add(command, "memcached");
    if (geteuid() == 0) /* it refuses to be root unless told to */
        bench_command_add(command, "--user=root");
    bench_command_add(command, "--threads=1");
    bench_command_add(command, "--conn-limit=%" PRIu64, connections + 64);
    bench_command_add(command, "--memory-limit=%" PRIu64, megabytes);
    uint64_t power = HASH_POWER_MIN;
    while (power < 32 && (UINT64_C(1) << power) < keys)
        power++;
    bench_command_add(command, "--extended=hashpower=%" PRIu64, power);
}

void bench_memcache_add_redis(struct bench_command *command, uint64_t connections)
{
    bench_command_add(command, "redis-server");
    bench_command_add(command, "--save");
    bench_command_add(command, "%s", "");
    bench_command_add(command, "--appendonly");
    bench_command_add(command, "no");
    bench_command_add(command, "--maxclients");
    bench_command_add(command, "%" PRIu64, connections + 64);
    bench_command_add(command, "--loglevel");
    bench_command_add(command, "warning");
}

void bench_memcache_add_tcp(struct bench_memcache_contestant *contestant, uint16_t port, uint64_t megabytes)
{
    const struct bench_memcache_options *options = contestant->contest->options;
    struct bench_command *command = &contestant->server.command;
    bench_memcache_add_memcached(command, options->connections, options->keys, megabytes);
    bench_command_add(command, "--listen=127.0.0.1");
    bench_command_add(command, "--port=%" PRIu16, port);
    bench_command_add(command, "--udp-port=0");
}

static int prepare_memcached(struct bench_memcache_contestant *contestant, uint16_t port)
{
    uint64_t bytes = data_bytes(contestant->contest) * SLAB_LOSS_PERCENT / 100;
    bench_memcache_add_tcp(contestant, port, bytes / MEBIBYTE + 128);
    return 0;
}

static int prepare_redis(struct bench_memcache_contestant *contestant, uint16_t port)
{
    struct bench_command *command = &contestant->server.command;
    bench_memcache_add_redis(command, contestant->contest->options->connections);
    bench_command_add(command, "--bind");
    bench_command_add(command, "127.0.0.1");
    bench_command_add(command, "--port");
    bench_command_add(command, "%" PRIu16, port);
    return 0;
}

/* ---- beginning ----------------------------------------------------------------------------------- */

/* A port that is free now may be taken a moment later: then the server says so and ends, and so does the
 * bench. */
static int start_server(struct bench_memcache_contestant *contestant)
{
    struct bench_memcache_server *server = &contestant->server;
    uint16_t port;
    int error = bench_find_port(&port);
    if (error != 0)
        return bench_fail(server->bench, error, "a free port");
    server->command = (struct bench_command){.count = 0};
    server->address = bench_memcache_address_of_port(port);
    error = contestant->kind->prepare(contestant, port);
    return error != 0 ? error : bench_memcache_server_start(server);
}

static int fill(struct bench_memcache_contestant *contestant)
{
    struct bench_memcache_contest *contest = contestant->contest;
    bench_memcache_keys_init(&contest->keys, contest->options->keys, 0);
    const struct bench_memcache_load load = bench_memcache_load_of(contestant);
    return bench_memcache_load_fill(&load);
}

int bench_memcache_contestant_start(struct bench_memcache_contestant *contestant)
{
    int error = start_server(contestant);
    return error != 0 ? error : fill(contestant);
}

/* ---- who there is -------------------------------------------------------------------------------- */

static const struct bench_memcache_kind kind_named = {
    .name = "server",
    .serves = true,
    .measure = bench_memcache_measure,
};

static const struct bench_memcache_kind kind_tarn = {
    .name = "tarn",
    .serves = true,
    .protocol = BENCH_MEMCACHE_TEXT,
    .prepare = prepare_tarn,
    .start = bench_memcache_contestant_start,
    .measure = bench_memcache_measure,
};

static const struct bench_memcache_kind peers_in_memory[] = {
    {
        .name = "memcached",
        .program = "memcached",
        .serves = true,
        .protocol = BENCH_MEMCACHE_TEXT,
        .prepare = prepare_memcached,
        .start = bench_memcache_contestant_start,
        .measure = bench_memcache_measure,
    },
    {
        .name = "redis",
        .program = "redis-server",
        .serves = true,
        .protocol = BENCH_MEMCACHE_RESP,
        .prepare = prepare_redis,
        .start = bench_memcache_contestant_start,
        .measure = bench_memcache_measure,
    },
};

static const struct bench_memcache_kind peers_on_disk[] = {
    {.name = "fio", .program = "fio", .measure = bench_memcache_measure_fio},
    {
        .name = "extstore",
        .program = "memcached",
        .serves = true,
        .protocol = BENCH_MEMCACHE_TEXT,
        .prepare = bench_memcache_extstore_prepare,
        .start = bench_memcache_extstore_start,
        .measure = bench_memcache_extstore_measure,
    },
};

static struct bench_memcache_contestant *add(struct bench_memcache_contest *contest,
                                             const struct bench_memcache_kind *kind)
{
    struct bench_memcache_contestant *contestant = &contest->contestants[contest->count++];
    *contestant = (struct bench_memcache_contestant){
        .contest = contest,
        .kind = kind,
        .server = {.bench = contest->bench, .name = kind->name, .protocol = kind->protocol}};
    return contestant;
}

static void add_peers(struct bench_memcache_contest *contest, const struct bench_memcache_kind *kinds,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!bench_is_wanted(&contest->options->peers, kinds[i].name))
            continue;
        struct bench_memcache_contestant *contestant = add(contest, &kinds[i]);
        if (!bench_memcache_is_installed(kinds[i].program))
            contestant->skipped = "not installed";
    }
}

static int open_named(struct bench_memcache_contest *contest)
{
    const struct bench_memcache_options *options = contest->options;
    struct bench_memcache_contestant *contestant = add(contest, &kind_named);
    int error = bench_memcache_address_read(options->server, &contestant->server.address);
    contestant->server.name = options->server;
    contestant->server.protocol = (enum bench_memcache_protocol)options->protocol;
    if (error != 0)
        return bench_fail(contest->bench, error, "%s", options->server);
    return options->fill ? fill(contestant) : 0;
}

/* A path in a file system in memory is compared with servers that keep all in memory, others with what reads
 * a disk. */
static int look_at_path(struct bench_memcache_contest *contest)
{
    char folder[BENCH_MEMCACHE_PATH_ROOM];
    struct statfs system;
    const char *slash = strrchr(contest->path, '/');
    int len = slash == NULL ? 1 : (int)base_max((size_t)(slash - contest->path), (size_t)1);
    (void)snprintf(folder, sizeof(folder), "%.*s", len, slash == NULL ? "." : contest->path);
    if (statfs(folder, &system) != 0)
        return bench_fail(contest->bench, -errno, "%s", folder);
    contest->disk = system.f_type != TMPFS_MAGIC;
    return 0;
}

int bench_memcache_contest_open(struct bench_memcache_contest *contest)
{
    if (contest->path == NULL)
        return open_named(contest);
    int error = look_at_path(contest);
    if (error != 0)
        return error;
    add(contest, &kind_tarn);
    if (contest->disk)
        add_peers(contest, peers_on_disk, base_array_count(peers_on_disk));
    else
        add_peers(contest, peers_in_memory, base_array_count(peers_in_memory));
    for (size_t i = 0; i < contest->count && error == 0; i++) {
        struct bench_memcache_contestant *contestant = &contest->contestants[i];
        if (contestant->skipped == NULL && contestant->kind->start != NULL)
            error = contestant->kind->start(contestant);
    }
    return error;
}

/* ---- end ----------------------------------------------------------------------------------------- */

int bench_memcache_contest_close(struct bench_memcache_contest *contest, int error)
{
    for (size_t i = 0; i < contest->count; i++)
        bench_memcache_server_ask_to_stop(&contest->contestants[i].server);
    for (size_t i = 0; i < contest->count; i++) {
        int stopping = bench_memcache_server_stop(&contest->contestants[i].server);
        error = error != 0 ? error : stopping;
    }
    if (contest->path != NULL)
        (void)unlink(contest->path);
    if (contest->extstore.path[0] != '\0')
        (void)unlink(contest->extstore.path);
    contest->count = 0;
    return error;
}
