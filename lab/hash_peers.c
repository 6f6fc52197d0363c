/* Servers behind Unix sockets beside the hash store: on the first core, with what loads them on the second. */
#include "bench/load.h"
#include "lab/hash.h"
#include "lab/memcache_server.h"
#include "lab/server.h"
#include "lab/usage.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

enum {
    ITEM_BYTES = 80,
    LOSS_PERCENT = 125
}; /* of memcached: head and index of an item; its classes are 25 % apart */

#define MEBIBYTE (UINT64_C(1) << 20)

struct kind {
    const char *name, *program;
    enum bench_protocol protocol;
    void (*prepare)(struct lab_hash_peer *peer);
};

struct lab_hash_peer {
    struct lab_hash_job *job;
    const struct kind *kind;
    const char *skipped;
    char path[64];
    struct lab_memcache_server server;
};

static void prepare_memcached(struct lab_hash_peer *peer)
{
    const struct lab_hash_job *job = peer->job;
    const uint64_t bytes = job->keys.count * (job->values.bytes + (uint64_t)ITEM_BYTES) * LOSS_PERCENT / 100;
    lab_memcache_add_memcached(&peer->server.command, 64, job->keys.count, bytes / MEBIBYTE + 128);
    lab_command_add(&peer->server.command, "--unix-socket=%s", peer->path);
}

static void prepare_redis(struct lab_hash_peer *peer)
{
    lab_memcache_add_redis(&peer->server.command, 64);
    lab_command_add_words(&peer->server.command, "--port 0 --unixsocket %s", peer->path);
}

static const struct kind kinds[LAB_HASH_PEERS] = {
    {"memcached", "memcached", BENCH_PROTOCOL_TEXT, prepare_memcached},
    {"redis", "redis-server", BENCH_PROTOCOL_RESP, prepare_redis},
};

static struct bench_load load_of(const struct lab_hash_peer *peer)
{
    const struct lab_hash_job *job = peer->job;
    return (struct bench_load){.bench = job->bench,
                               .name = peer->kind->name,
                               .address = &peer->server.address,
                               .protocol = peer->kind->protocol,
                               .values = &job->values,
                               .keys = &job->keys,
                               .connections = 1,
                               .pipeline = 1,
                               .keys_per_get = base_max(job->batch, 1u),
                               .read_share = job->is_put ? 0 : 1,
                               .seed = job->bench->options.seed};
}

static int measure_peer(void *arg, struct bench_sample *sample)
{
    struct lab_hash_peer *peer = arg;
    const struct bench_load load = load_of(peer);
    struct bench_load_outcome outcome = {.latency = sample->latency};
    uint64_t kibibytes = 0;
    char path[64];
    sample->skipped = peer->skipped;
    if (peer->skipped != NULL)
        return 0;
    int error = bench_load_run(&load, &outcome);
    if (error == 0 && outcome.hits < outcome.gets)
        error = bench_fail(peer->job->bench, -ENODATA, "%s has lost records", peer->kind->name);
    sample->operations = outcome.keys;
    sample->elapsed_ns = outcome.elapsed_ns;
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)peer->server.child.pid);
    if (error == 0 && bench_number_read(path, "VmRSS:", &kibibytes) == 0)
        sample->values[LAB_HASH_RECORD_BYTES] = (double)(kibibytes << 10) / (double)peer->job->keys.count;
    return error;
}

void lab_hash_peer_add(struct lab_hash_peer *peer, struct bench_case *self)
{
    bench_case_subject(self, peer->kind->name, measure_peer, peer);
}

static int start(struct lab_hash_peer *peer)
{
    struct lab_hash_job *job = peer->job;
    char address[sizeof(peer->path) + 8];
    uint16_t port; /* a number for the name */
    int error = lab_find_port(&port);
    (void)snprintf(peer->path, sizeof(peer->path), "/tmp/tarn-bench-%u-%s", error == 0 ? port : 0,
                   peer->kind->name);
    (void)snprintf(address, sizeof(address), "unix:%s", peer->path);
    if (error == 0)
        error = memcache_client_address_read(address, &peer->server.address);
    if (error != 0)
        return bench_fail(job->bench, error, "%s", address);
    peer->kind->prepare(peer);
    error = lab_memcache_server_start(&peer->server);
    if (error != 0)
        return error;
    struct bench_load load = load_of(peer);
    load.pipeline = 64;
    return bench_load_fill(&load);
}

int lab_hash_peer_start(struct lab_hash_job *job, unsigned number, struct lab_hash_peer **ret_peer)
{
    struct lab_hash_peer *peer = base_alloc(job->bench->account, sizeof(*peer));
    if (peer == NULL)
        return bench_fail(job->bench, -ENOMEM, "%s", kinds[number].name);
    *peer = (struct lab_hash_peer){
        .job = job,
        .kind = &kinds[number],
        .skipped = lab_memcache_is_installed(kinds[number].program) ? NULL : "it is not installed",
        .server = {.bench = job->bench, .name = kinds[number].name, .protocol = kinds[number].protocol}};
    *ret_peer = peer;
    return peer->skipped == NULL ? start(peer) : 0;
}

int lab_hash_peer_stop(struct lab_hash_peer *peer)
{
    if (peer == NULL)
        return 0;
    struct base_account *account = peer->job->bench->account;
    int error = lab_memcache_server_stop(&peer->server);
    (void)unlink(peer->path);
    base_free(account, peer, sizeof(*peer));
    return error;
}
