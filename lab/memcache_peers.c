/* The servers that `tarn-lab memcache` measures: command lines, beginning and end. */
#include "lab/memcache.h"
#include "lab/server.h"
#include "lab/usage.h"

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
    GROUP_SPARE_SHARE = 16, /* of a group's memory, beside what a server says that it takes */
};

#define MEBIBYTE (UINT64_C(1) << 20)

static uint64_t data_bytes(const struct lab_memcache_contest *contest)
{
    return contest->options->load.keys * (contest->contest.values.bytes + (uint64_t)ITEM_SPARE_BYTES);
}

/* ---- command lines ------------------------------------------------------------------------------- */

static void prepare_tarn(struct lab_memcache_contestant *contestant, uint16_t port)
{
    const struct lab_memcache_contest *contest = contestant->contest;
    const struct lab_memcache_options *options = contest->options;
    struct lab_command *command = &contestant->server.command;
    bool warm = lab_memcache_is_warm(contest);
    uint64_t size = options->size_bytes > 0 ? options->size_bytes : 2 * data_bytes(contest) + 256 * MEBIBYTE;
    lab_command_add_tarn(command, options->program);
    lab_command_add_words(command,
                          "serve --size=%" PRIu64 " --listen=127.0.0.1:%" PRIu16
                          " --threads=1 --max-connections=%" PRIu64 " --memory=%" PRIu64
                          " --log-level=warn --hot=%s",
                          base_align_up(size, MEBIBYTE), port, options->load.connections + 64,
                          warm ? options->memory_bytes - options->memory_bytes / GROUP_SPARE_SHARE
                               : 256 * MEBIBYTE + options->load.keys * (uint64_t)TARN_INDEX_BYTES,
                          warm ? "auto" : "off");
    lab_command_add(command, "--data=%s", contest->path);
    for (size_t i = 0; i < options->serve.count; i++)
        lab_command_add(command, "--%s", options->serve.items[i]);
}

void lab_memcache_add_memcached(struct lab_command *command, uint64_t connections, uint64_t keys,
                                uint64_t megabytes)
{
    lab_command_add(command, "memcached");
    if (geteuid() == 0) /* it refuses to be root unless told to */
        lab_command_add(command, "--user=root");
    unsigned power = HASH_POWER_MIN;
    while (power < 32 && (UINT64_C(1) << power) < keys)
        power++;
    lab_command_add_words(
        command, "--threads=1 --conn-limit=%" PRIu64 " --memory-limit=%" PRIu64 " --extended=hashpower=%u",
        connections + 64, megabytes, power);
}

void lab_memcache_add_redis(struct lab_command *command, uint64_t connections)
{
    lab_command_add_words(command, "redis-server --save");
    lab_command_add(command, "%s", "");
    lab_command_add_words(command, "--appendonly no --maxclients %" PRIu64 " --loglevel warning",
                          connections + 64);
}

void lab_memcache_add_tcp(struct lab_memcache_contestant *contestant, uint16_t port, uint64_t megabytes)
{
    const struct lab_memcache_options *options = contestant->contest->options;
    struct lab_command *command = &contestant->server.command;
    lab_memcache_add_memcached(command, options->load.connections, options->load.keys, megabytes);
    lab_command_add_words(command, "--listen=127.0.0.1 --port=%" PRIu16 " --udp-port=0", port);
}

static void prepare_memcached(struct lab_memcache_contestant *contestant, uint16_t port)
{
    uint64_t bytes = data_bytes(contestant->contest) * SLAB_LOSS_PERCENT / 100;
    lab_memcache_add_tcp(contestant, port, bytes / MEBIBYTE + 128);
}

static void prepare_redis(struct lab_memcache_contestant *contestant, uint16_t port)
{
    struct lab_command *command = &contestant->server.command;
    lab_memcache_add_redis(command, contestant->contest->options->load.connections);
    lab_command_add_words(command, "--bind 127.0.0.1 --port %" PRIu16, port);
}

/* ---- beginning ----------------------------------------------------------------------------------- */

/* A port that is free now may be taken a moment later: then the server says so and ends, and so does the
 * bench. */
static int start_server(struct lab_memcache_contestant *contestant)
{
    struct lab_memcache_server *server = &contestant->server;
    uint16_t port;
    int error = lab_find_port(&port);
    if (error != 0)
        return bench_fail(server->bench, error, "a free port");
    server->command = (struct lab_command){.count = 0};
    server->address = memcache_client_address_of_port(port);
    contestant->kind->prepare(contestant, port);
    return lab_memcache_server_start(server);
}

/* A group outlives its server, which may be started more than once. */
static int open_group(struct lab_memcache_contestant *contestant)
{
    const struct lab_memcache_options *options = contestant->contest->options;
    if (!lab_memcache_is_warm(contestant->contest) || contestant->group.path[0] != '\0')
        return 0;
    int error = lab_memory_group_open(contestant->contest->bench, options->memory_group,
                                      contestant->kind->name, options->memory_bytes, &contestant->group);
    if (error == 0)
        contestant->server.memory_group = contestant->group.path;
    return error;
}

int lab_memcache_contestant_start(struct lab_memcache_contestant *contestant)
{
    int error = open_group(contestant);
    if (error == 0)
        error = start_server(contestant);
    if (error != 0)
        return error;
    return bench_contest_fill(&contestant->contest->contest, lab_memcache_load_of(contestant));
}

/* ---- who there is -------------------------------------------------------------------------------- */

#define SERVER(server_name, program_name, protocol_name, prepare_it)                                         \
    {                                                                                                        \
        .name = (server_name), .program = (program_name), .serves = true,                                    \
        .protocol = BENCH_PROTOCOL_##protocol_name, .prepare = (prepare_it),                                 \
        .start = lab_memcache_contestant_start, .measure = lab_memcache_measure                              \
    }

static const struct lab_memcache_kind kind_tarn = SERVER("tarn", NULL, TEXT, prepare_tarn);

static const struct lab_memcache_kind peers[] = {
    SERVER("memcached", "memcached", TEXT, prepare_memcached),
    SERVER("redis", "redis-server", RESP, prepare_redis),
    {.name = "fio", .program = "fio", .on_disk = true, .measure = lab_memcache_measure_fio},
    {.name = "extstore",
     .program = "memcached",
     .on_disk = true,
     .serves = true,
     .protocol = BENCH_PROTOCOL_TEXT,
     .prepare = lab_memcache_extstore_prepare,
     .start = lab_memcache_extstore_start,
     .measure = lab_memcache_extstore_measure},
};

static int measure_contestant(void *arg, struct bench_sample *sample)
{
    struct lab_memcache_contestant *contestant = arg;
    sample->skipped = contestant->skipped;
    return contestant->skipped == NULL ? contestant->kind->measure(contestant, sample) : 0;
}

static void add_contestant(struct lab_memcache_contest *contest, const struct lab_memcache_kind *kind)
{
    struct bench_contest *common = &contest->contest;
    struct lab_memcache_contestant *contestant = &contest->contestants[common->count];
    *contestant = (struct lab_memcache_contestant){
        .contest = contest,
        .kind = kind,
        .skipped = kind->program == NULL || lab_memcache_is_installed(kind->program) ? NULL : "not installed",
        .server = {.bench = contest->bench, .name = kind->name, .protocol = kind->protocol}};
    common->contestants[common->count].name = kind->name;
    common->contestants[common->count].serves = kind->serves;
    common->contestants[common->count].measure = measure_contestant;
    common->contestants[common->count].arg = contestant;
    common->count++;
}

/* A path in a file system in memory is compared with servers that keep all in memory, others with what reads
 * a disk. */
int lab_memcache_contest_look(struct lab_memcache_contest *contest)
{
    struct bench_contest *common = &contest->contest;
    char folder[LAB_MEMCACHE_PATH_ROOM];
    struct statfs system;
    const char *slash = strrchr(contest->path, '/');
    int len = slash == NULL ? 1 : (int)base_max((size_t)(slash - contest->path), (size_t)1);
    (void)snprintf(folder, sizeof(folder), "%.*s", len, slash == NULL ? "." : contest->path);
    if (statfs(folder, &system) != 0)
        return bench_fail(contest->bench, -errno, "%s", folder);
    contest->disk = system.f_type != TMPFS_MAGIC;
    common->read_share =
        contest->disk ? contest->options->disk_read_share : contest->options->load.read_share;
    common->value_names[LAB_MEMCACHE_SERVER_NS] = "server_ns";
    common->value_names[LAB_MEMCACHE_LOAD_PERCENT] = "load_percent";
    common->value_names[LAB_MEMCACHE_BYTES] = contest->disk ? "read_bytes" : "bytes_per_s";
    common->value_names[LAB_MEMCACHE_FROM_MEMORY] = contest->disk ? "from_memory_percent" : NULL;
    common->value_names[LAB_MEMCACHE_HITS] = contest->disk ? "hit_percent" : NULL;
    return 0;
}

int lab_memcache_contest_open(struct lab_memcache_contest *contest)
{
    int error = 0;
    add_contestant(contest, &kind_tarn);
    for (size_t i = 0; i < base_array_count(peers); i++) {
        if (peers[i].on_disk == contest->disk && (peers[i].serves || !lab_memcache_is_warm(contest)) &&
            bench_is_wanted(&contest->options->peers, peers[i].name))
            add_contestant(contest, &peers[i]);
    }
    for (size_t i = 0; i < contest->contest.count && error == 0; i++) {
        struct lab_memcache_contestant *contestant = &contest->contestants[i];
        if (contestant->skipped == NULL && contestant->kind->start != NULL)
            error = contestant->kind->start(contestant);
    }
    return error;
}

/* ---- end ----------------------------------------------------------------------------------------- */

int lab_memcache_contest_close(struct lab_memcache_contest *contest, int error)
{
    for (size_t i = 0; i < contest->contest.count; i++)
        lab_memcache_server_ask_to_stop(&contest->contestants[i].server);
    for (size_t i = 0; i < contest->contest.count; i++) {
        int stopping = lab_memcache_server_stop(&contest->contestants[i].server);
        error = error != 0 ? error : stopping;
        lab_memory_group_close(contest->bench, &contest->contestants[i].group);
    }
    (void)unlink(contest->path);
    if (contest->extstore.path[0] != '\0')
        (void)unlink(contest->extstore.path);
    return error;
}
