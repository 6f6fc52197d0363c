/*
 * `tarn bench cache`: what its files share: who has the caches, who asks, and what is asked.
 */
#ifndef BENCH_CACHE_H
#define BENCH_CACHE_H

#include "bench/case.h"
#include "bench/memcache_load.h"
#include "bench/server.h"

enum {
    BENCH_CACHE_VALUE_BYTES = 32,
    BENCH_CACHE_REQUESTS_MAX = 64, /* under way at once, */
    BENCH_CACHE_KEYS_MAX = 64,     /* of as many keys each */
    BENCH_CACHE_DRAWS = 1 << 20,   /* which come again and again */
};

/* The process that has Tarn's caches: one for requests, and one whose memory is exported. */
struct bench_cache_server {
    struct bench_server server;
    uint64_t keys;
    const struct bench_memcache_values *values;
};

#define BENCH_CACHE_STORE "c"

/** What is added to the server's address: of calls that put into the exported cache, and of its memory. */
#define BENCH_CACHE_PUTS   "-puts"
#define BENCH_CACHE_MEMORY "-memory"

/** Of calls at BENCH_CACHE_PUTS: key and value one behind the other. */
#define BENCH_CACHE_PUT_BYTES (BENCH_MEMCACHE_KEY_BYTES + BENCH_CACHE_VALUE_BYTES)

/** Bytes of a cache for so many keys: the puts of a second do not evict what was filled in. */
uint64_t bench_cache_memory(uint64_t keys);

/** Start it, with all keys stored. @return 0; negative errno: said */
base_must_check int bench_cache_server_start(struct bench_cache_server *server, struct bench *bench,
                                             uint64_t keys, const struct bench_memcache_values *values);

/** End it. @return 0; -ECHILD: said */
int bench_cache_server_stop(struct bench_cache_server *server);

/* What is asked in the case under way, by all alike. */
struct bench_cache_job {
    struct bench *bench;
    struct bench_cache_server *server;
    struct bench_memcache_values values;
    struct bench_memcache_keys keys;
    uint32_t *draws;     /* BENCH_CACHE_DRAWS numbers of keys, with BENCH_CACHE_PUT added or not */
    uint32_t depth;      /* requests under way */
    uint32_t per_get;    /* keys of each */
    double read_share;   /* of the requests; the others put one value */
    const char *program; /* the tarn that serves behind a socket */
    uint64_t measured;   /* times so far, so that each has other random numbers */
};

#define BENCH_CACHE_PUT (UINT32_C(1) << 31)

/** Draw what is asked, from the seed. */
void bench_cache_job_draw(struct bench_cache_job *job);

/* The values of a sample, by their place. */
enum bench_cache_value {
    BENCH_CACHE_HIT_PERCENT,
    BENCH_CACHE_READS, /* of memory, for a key */
};

/* ---- a load ---------------------------------------------------------------------------------------- */

/* What one request asks. */
struct bench_cache_request {
    bool is_put;
    uint32_t count; /* of keys */
    uint32_t numbers[BENCH_CACHE_KEYS_MAX];
    char keys[BENCH_CACHE_KEYS_MAX][BENCH_MEMCACHE_KEY_BYTES];
    uint8_t value[BENCH_CACHE_VALUE_BYTES]; /* of a put */
};

/* A load of one thread: what it asks next, and what came of it. */
struct bench_cache_load {
    const struct bench_cache_job *job;
    uint32_t per_get;    /* keys of a request */
    uint32_t place;      /* in the draws */
    uint64_t generation; /* of the next value */
    uint64_t missing;    /* a key that was missed, and is stored next, and 1; 0: none */
    uint64_t gets, hits; /* keys */
    uint64_t puts;       /* counted by who asks, as the next */
    uint64_t reads;      /* of memory */
    uint64_t turns;      /* requests begun */
    uint64_t warm_ns, begin_ns, end_ns;
    uint64_t before, done; /* keys when it was warm; between that and the end */
    bool is_over;
};

/** Begin: a tenth of the duration of the options is to get warm. */
void bench_cache_load_begin(struct bench_cache_load *load, const struct bench_cache_job *job);

/** What is asked next. @return false: nothing more, the time is over */
bool bench_cache_load_next(struct bench_cache_load *load, struct bench_cache_request *request);

/**
 * Take what a get of a key has brought, or that it is not there, which a put of that key follows.
 *
 * @param value  NULL: a miss
 * @return 0; -EBADMSG: it is not its value
 */
base_must_check int bench_cache_load_take(struct bench_cache_load *load, uint32_t number, const void *value,
                                          size_t bytes);

/** Tell what came of it. @return 0; -ENODATA (less than nine of ten were found): said */
base_must_check int bench_cache_load_end(const struct bench_cache_load *load, struct bench_sample *sample);

/** Tell how many gets have found something. @return as bench_cache_load_end() */
base_must_check int bench_cache_hits(const struct bench_cache_job *job, const char *who, uint64_t gets,
                                     uint64_t hits, struct bench_sample *sample);

/* Each measures once, as bench_subject.measure; `arg` is a struct bench_cache_job. */

/** Tarn's client, <tarn/kv.h>: as many tasks as requests. */
int bench_cache_kv(void *arg, struct bench_sample *sample);

/** The same requests, posted by one thread, with results that are fetched. */
int bench_cache_fetch(void *arg, struct bench_sample *sample);

/** The same with results that are written. */
int bench_cache_reply(void *arg, struct bench_sample *sample);

/** READs of the index and of the record; puts are calls. */
int bench_cache_bypass(void *arg, struct bench_sample *sample);

/* ---- peers ------------------------------------------------------------------------------------------ */

struct bench_cache_peer_kind;

/* One behind a Unix socket. */
struct bench_cache_peer {
    struct bench_cache_job *job;
    const struct bench_cache_peer_kind *kind;
    const char *skipped; /* why it is not measured, or NULL */
    char path[64];
    struct bench_memcache_server server;
};

enum { BENCH_CACHE_PEERS_MAX = 3 };

struct bench_cache_peers {
    struct bench_cache_peer items[BENCH_CACHE_PEERS_MAX];
    size_t count;
};

/** Start all that there are, and store the keys. @return 0; negative errno: said. bench_cache_peers_stop() in any case */
base_must_check int bench_cache_peers_start(struct bench_cache_peers *peers, struct bench_cache_job *job);

/** End all. @return 0; -ECHILD: said */
int bench_cache_peers_stop(struct bench_cache_peers *peers);

/** Add each to a case: with its requests pipelined on one connection, and, if there are more than one, with a connection
 * for each. */
void bench_cache_peers_add(struct bench_cache_peers *peers, struct bench_case *self);

#endif
