/*
 * `tarn-lab cache`: the structures that its files share: the caches' process, the clients, and their requests.
 */
#ifndef LAB_CACHE_H
#define LAB_CACHE_H

#include "bench/case.h"
#include "bench/load.h"
#include "lab/memcache_server.h"
#include "lab/server.h"

enum {
    LAB_CACHE_VALUE_BYTES = 32,
    LAB_CACHE_REQUESTS_MAX = 64, /* under way at once, */
    LAB_CACHE_KEYS_MAX = 64,     /* of as many keys each */
    LAB_CACHE_DRAWS = 1 << 20,   /* which come again and again */
};

/* The process that has Tarn's caches: one for requests, and one whose memory is exported. */
struct lab_cache_server {
    struct lab_server server;
    uint64_t keys;
    const struct bench_values *values;
};

#define LAB_CACHE_STORE "c"

/** What is added to the server's address: of calls that put into the exported cache, and of its memory. */
#define LAB_CACHE_PUTS   "-puts"
#define LAB_CACHE_MEMORY "-memory"

/** Of calls at LAB_CACHE_PUTS: key and value one behind the other. */
#define LAB_CACHE_PUT_BYTES (BENCH_KEY_BYTES + LAB_CACHE_VALUE_BYTES)

/** Bytes of a cache for a number of keys: the puts of a second do not evict the records that were filled in. */
uint64_t lab_cache_memory(uint64_t keys);

/** Start it, with all keys stored; keys and values are set. @return 0; negative errno: said */
base_must_check int lab_cache_server_start(struct lab_cache_server *server, struct bench *bench);

/** End it. @return 0; -ECHILD: said */
int lab_cache_server_stop(struct lab_cache_server *server);

/* What is asked in the case under way, by all alike. */
struct lab_cache_job {
    struct bench *bench;
    struct lab_cache_server *server;
    struct bench_values values;
    struct bench_keys keys;
    uint32_t *draws;     /* LAB_CACHE_DRAWS numbers of keys, with LAB_CACHE_PUT added or not */
    uint32_t depth;      /* requests under way */
    uint32_t per_get;    /* keys of each */
    double read_share;   /* of the requests; the others put one value */
    const char *program; /* the tarn that serves behind a socket */
    uint64_t measured;   /* times so far, so that each has other random numbers */
};

#define LAB_CACHE_PUT (UINT32_C(1) << 31)

/** Draw what is asked, from the seed. */
void lab_cache_job_draw(struct lab_cache_job *job);

/* The values of a sample, by their place. */
enum lab_cache_value {
    LAB_CACHE_HIT_PERCENT,
    LAB_CACHE_READS, /* of memory, for a key */
};

/* ---- a load ---------------------------------------------------------------------------------------- */

/* What one request asks. */
struct lab_cache_request {
    bool is_put;
    uint32_t count; /* of keys */
    uint32_t numbers[LAB_CACHE_KEYS_MAX];
    char keys[LAB_CACHE_KEYS_MAX][BENCH_KEY_BYTES];
    uint8_t value[LAB_CACHE_VALUE_BYTES]; /* of a put */
};

/* A load of one thread: what it asks next, and what came of it. */
struct lab_cache_load {
    const struct lab_cache_job *job;
    uint32_t per_get;    /* keys of a request */
    uint32_t place;      /* in the draws */
    uint64_t generation; /* of the next value */
    uint64_t missing;    /* a key that was missed, and is stored next, and 1; 0: none */
    uint64_t gets, hits; /* keys */
    uint64_t puts;       /* puts, counted by the client, like the next field */
    uint64_t reads;      /* of memory */
    uint64_t turns;      /* requests begun */
    uint64_t warm_ns, begin_ns, end_ns;
    uint64_t before, done; /* keys when it was warm; between that and the end */
    bool is_over;
};

/** Begin: a tenth of the duration of the options is to get warm. */
void lab_cache_load_begin(struct lab_cache_load *load, const struct lab_cache_job *job);

/** What is asked next. @return false: nothing more, the time is over */
bool lab_cache_load_next(struct lab_cache_load *load, struct lab_cache_request *request);

/**
 * Take what a get of a key has brought, or that it is not there, which a put of that key follows.
 *
 * @param value  NULL: a miss
 * @return 0; -EBADMSG: it is not its value
 */
base_must_check int lab_cache_load_take(struct lab_cache_load *load, uint32_t number, const void *value,
                                        size_t bytes);

/** Tell what came of it. @return 0; -ENODATA (less than nine of ten were found): said */
base_must_check int lab_cache_load_end(const struct lab_cache_load *load, struct bench_sample *sample);

/** Tell how many gets have found something. @return as lab_cache_load_end() */
base_must_check int lab_cache_hits(const struct lab_cache_job *job, const char *who, uint64_t gets,
                                   uint64_t hits, struct bench_sample *sample);

/* Each measures once, as bench_subject.measure; `arg` is a struct lab_cache_job. */

/** Tarn's client, <tarn/kv.h>: as many tasks as requests. */
int lab_cache_kv(void *arg, struct bench_sample *sample);
/** The same requests, posted by one thread, with results that are fetched. */
int lab_cache_fetch(void *arg, struct bench_sample *sample);
/** The same with results that are written. */
int lab_cache_reply(void *arg, struct bench_sample *sample);
/** READs of the index and of the record; puts are calls. */
int lab_cache_bypass(void *arg, struct bench_sample *sample);

/* ---- peers ------------------------------------------------------------------------------------------ */

/* One behind a Unix socket. */
struct lab_cache_peer {
    struct lab_cache_job *job;
    const struct lab_cache_peer_kind *kind;
    const char *skipped; /* why it is not measured, or NULL */
    char path[64];
    struct lab_memcache_server server;
};

enum { LAB_CACHE_PEERS_MAX = 3 };

struct lab_cache_peers {
    struct lab_cache_peer items[LAB_CACHE_PEERS_MAX];
    size_t count;
};

/** Start all that there are, and store the keys. @return 0; negative errno: said. lab_cache_peers_stop() in any case */
base_must_check int lab_cache_peers_start(struct lab_cache_peers *peers, struct lab_cache_job *job);

/** End all. @return 0; -ECHILD: said */
int lab_cache_peers_stop(struct lab_cache_peers *peers);

/** Add each to a case: with its requests pipelined on one connection, and, if there are more than one, with a connection
 * for each. */
void lab_cache_peers_add(struct lab_cache_peers *peers, struct bench_case *self);

#endif
