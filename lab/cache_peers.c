/* The peers of Tarn's cache: servers behind Unix sockets, on the first core, with the load on the second. */
#include "lab/cache.h"

#include <inttypes.h>
#include <unistd.h>

enum { ITEM_BYTES = 160 }; /* that memcached takes for a key at most, before its size classes */

#define MEBIBYTE (UINT64_C(1) << 20)

struct lab_cache_peer_kind {
    const char *name;        /* where requests are pipelined, or there is one */
    const char *name_single; /* where each has a connection of its own */
    const char *program;     /* NULL: the tarn beside this program */
    enum bench_protocol protocol;
    void (*prepare)(struct lab_cache_peer *peer);
};

/* ---- command lines ------------------------------------------------------------------------------ */

static void prepare_memcached(struct lab_cache_peer *peer)
{
    struct lab_command *command = &peer->server.command;
    const uint64_t keys = peer->job->server->keys;
    lab_memcache_add_memcached(command, LAB_CACHE_REQUESTS_MAX, keys, keys * ITEM_BYTES / MEBIBYTE + 128);
    lab_command_add(command, "--unix-socket=%s", peer->path);
}

static void prepare_redis(struct lab_cache_peer *peer)
{
    struct lab_command *command = &peer->server.command;
    lab_memcache_add_redis(command, LAB_CACHE_REQUESTS_MAX);
    lab_command_add_words(command, "--port 0 --unixsocket %s", peer->path);
}

static void prepare_tarn(struct lab_cache_peer *peer)
{
    struct lab_command *command = &peer->server.command;
    lab_command_add_tarn(command, peer->job->program);
    lab_command_add_words(command,
                          "serve --store=" LAB_CACHE_STORE ":cache,memory=%" PRIu64
                          ",partitions=1,item=%d --unix=%s --threads=1 --max-connections=%d --log-level=warn",
                          lab_cache_memory(peer->job->server->keys), LAB_CACHE_PUT_BYTES, peer->path,
                          LAB_CACHE_REQUESTS_MAX + 64);
}

static const struct lab_cache_peer_kind kinds[] = {
    {"socket", "socket-single", NULL, BENCH_PROTOCOL_TEXT, prepare_tarn},
    {"memcached", "memcached-single", "memcached", BENCH_PROTOCOL_TEXT, prepare_memcached},
    {"redis", "redis-single", "redis-server", BENCH_PROTOCOL_RESP, prepare_redis},
};

_Static_assert(base_array_count(kinds) <= (size_t)LAB_CACHE_PEERS_MAX, "all have a place");

/* ---- measuring ---------------------------------------------------------------------------------- */

/* @param is_single  a connection for each request, else one for all */
static struct bench_load load_of(const struct lab_cache_peer *peer, bool is_single)
{
    const struct lab_cache_job *job = peer->job;
    return (struct bench_load){.bench = job->bench,
                               .name = peer->kind->name,
                               .address = &peer->server.address,
                               .protocol = peer->kind->protocol,
                               .values = &job->values,
                               .keys = &job->keys,
                               .connections = is_single ? job->depth : 1,
                               .pipeline = is_single ? 1 : job->depth,
                               .keys_per_get = job->per_get,
                               .read_share = job->read_share,
                               .seed = job->bench->options.seed + job->measured};
}

static int measure_peer(struct lab_cache_peer *peer, bool is_single, struct bench_sample *sample)
{
    const struct bench_load load = load_of(peer, is_single);
    struct bench_load_outcome outcome = {.latency = sample->latency};
    sample->skipped = peer->skipped;
    if (peer->skipped != NULL)
        return 0;
    int error = bench_load_run(&load, &outcome);
    peer->job->measured++;
    if (error != 0)
        return error;
    sample->operations = outcome.keys;
    sample->elapsed_ns = outcome.elapsed_ns;
    return lab_cache_hits(peer->job, peer->kind->name, outcome.gets, outcome.hits, sample);
}

static int measure_pipelined(void *arg, struct bench_sample *sample)
{
    return measure_peer(arg, false, sample);
}

static int measure_single(void *arg, struct bench_sample *sample)
{
    return measure_peer(arg, true, sample);
}

void lab_cache_peers_add(struct lab_cache_peers *peers, struct bench_case *self)
{
    for (size_t i = 0; i < peers->count; i++) {
        struct lab_cache_peer *peer = &peers->items[i];
        bench_case_subject(self, peer->kind->name, measure_pipelined, peer);
        if (peer->job->depth > 1)
            bench_case_subject(self, peer->kind->name_single, measure_single, peer);
    }
}

/* ---- beginning and end -------------------------------------------------------------------------- */

static int start(struct lab_cache_peer *peer)
{
    char address[sizeof(peer->path) + 8];
    (void)snprintf(peer->path, sizeof(peer->path), "%.40s-%s", peer->job->server->server.address,
                   peer->kind->name);
    (void)snprintf(address, sizeof(address), "unix:%s", peer->path);
    int error = memcache_client_address_read(address, &peer->server.address);
    if (error != 0)
        return bench_fail(peer->job->bench, error, "%s", address);
    peer->kind->prepare(peer);
    error = lab_memcache_server_start(&peer->server);
    if (error != 0)
        return error;
    const struct bench_load load = load_of(peer, false);
    return bench_load_fill(&load);
}

int lab_cache_peers_start(struct lab_cache_peers *peers, struct lab_cache_job *job)
{
    int error = 0;
    for (size_t i = 0; i < base_array_count(kinds) && error == 0; i++) {
        struct lab_cache_peer *peer = &peers->items[peers->count++];
        *peer = (struct lab_cache_peer){
            .job = job,
            .kind = &kinds[i],
            .server = {.bench = job->bench, .name = kinds[i].name, .protocol = kinds[i].protocol}};
        if (kinds[i].program != NULL && !lab_memcache_is_installed(kinds[i].program))
            peer->skipped = "it is not installed";
        else
            error = start(peer);
    }
    return error;
}

int lab_cache_peers_stop(struct lab_cache_peers *peers)
{
    int error = 0;
    for (size_t i = 0; i < peers->count; i++)
        lab_memcache_server_ask_to_stop(&peers->items[i].server);
    for (size_t i = 0; i < peers->count; i++) {
        int stopping = lab_memcache_server_stop(&peers->items[i].server);
        error = error != 0 ? error : stopping;
        (void)unlink(peers->items[i].path);
    }
    return error;
}
