/*
 * memcache: memcached's text protocol in front of a store, without sockets: bytes of a client go in,
 * bytes for the client come out.
 *
 * Threading: a server is shared by all; a session belongs to one connection, and with its workspace is used
 * by one task at a time, never by a plain thread: its requests run in tasks beside it.
 * Yielding: as stated. What the store calls while others wait for it (kv_shows_under_lock()) takes no memory.
 * Errors: what goes wrong with a request is answered to the client; functions return only what ends
 * the connection.
 */
#ifndef MEMCACHE_MEMCACHE_H
#define MEMCACHE_MEMCACHE_H

#include "base/base.h"
#include "memcache/parse.h"
#include "task/engine.h"
#include "task/node.h"
#include "task/task.h"
#include <stdatomic.h>
#include <sys/uio.h>
#include <tarn/kv.h>

/** Requests of a session that are in flight at once; a get counts with each of its keys. */
#define MEMCACHE_REQUESTS_MAX 64

/** Room of answers that are gathered before they are sent. */
#define MEMCACHE_OUTPUT_BYTES (64 << 10)

/** Pieces of memory that answers lie in when they are sent. */
#define MEMCACHE_PIECES_MAX TASK_IOV_MAX

/** Values of this length or more are not copied: they are sent from where the drive has read them to. */
#define MEMCACHE_LEASE_BYTES_MIN 2048

/** Of such values none is begun to be read when so much of them waits to be sent. */
#define MEMCACHE_LEASED_BYTES (256 << 10)

/** What the server says that it is: the version of memcached whose protocol it speaks, then its own. Clients
 * decide by it what they may ask for. */
const char *memcache_version(void);

/* ---- the server --------------------------------------------------------------------------------- */

/* What a server counts, by memcached's names. */
struct memcache_counters {
    _Atomic uint64_t cmd_get, cmd_set, cmd_touch, cmd_flush, cmd_meta;
    _Atomic uint64_t get_hits, get_misses, delete_hits, delete_misses, touch_hits, touch_misses;
    _Atomic uint64_t incr_hits, incr_misses, decr_hits, decr_misses;
    _Atomic uint64_t cas_hits, cas_misses, cas_badval;
    _Atomic uint64_t store_too_large, store_no_memory, total_items;
    _Atomic uint64_t bytes_read, bytes_written;
};

/* What only the program around the server knows. */
struct memcache_facts {
    uint64_t pid;
    uint64_t threads;
    uint64_t connections_max;
    uint64_t connections;
    uint64_t connections_total;
    uint64_t connections_rejected;
    uint64_t yields;     /* of connections that had more to do, to others */
    uint64_t idle_kicks; /* connections that were closed because they said nothing */
};

typedef void memcache_setting_function(void *arg, const char *name, const char *value);

/* The program around the server. Its functions must not yield. */
struct memcache_host {
    void (*tell)(void *arg, struct memcache_facts *ret_facts);
    /* have `visit` called with the name and value of each setting */
    void (*settings)(void *arg, memcache_setting_function *visit, void *visit_arg);
    /* the same for each connection: names are NUMBER:WHAT */
    void (*connections)(void *arg, memcache_setting_function *visit, void *visit_arg);
    /* the same for each drive that the store lies on */
    void (*drives)(void *arg, memcache_setting_function *visit, void *visit_arg);
    /* the same for each place where Tarn's own protocol is spoken; yields */
    void (*calls)(void *arg, memcache_setting_function *visit, void *visit_arg);
    /* end in good order, as after SIGTERM; NULL: clients may not ask for it */
    void (*shutdown)(void *arg);
    /* whether it is about to end: what takes long is given up then */
    bool (*ends)(void *arg);
    bool refuses_flush; /* the command flush_all */
    bool refuses_dumps; /* of all keys */
    void *arg;
};

struct memcache_server {
    struct tarn_node *node;
    struct tarn_kv *kv;
    struct tarn_depot *depot;   /* the same; NULL: it is none */
    bool shows_under_lock;      /* kv_shows_under_lock() */
    struct base_account values; /* values on their way in or out that no connection's buffer holds */
    uint64_t item_bytes_max;    /* as memcached counts an item */
    uint64_t lease_bytes_min;   /* MEMCACHE_LEASE_BYTES_MIN, unless a test says otherwise */
    uint64_t begin_ns;
    uint64_t begin_wall_ns;
    _Atomic bool is_dumping; /* all keys, for one client */
    uint64_t hash_seed;      /* of what tells whether two requests may be in flight together */
    struct memcache_counters counters;
    /* before the last `stats reset` */
    _Atomic uint64_t connections_forgotten, expired_forgotten, flushed_forgotten;
    struct memcache_host host;
};

/**
 * Make a server of a store.
 *
 * @param kv                there until the server is ended
 * @param item_bytes_max    memcached's limit of an item; the store's own limit holds as well
 * @param values_bytes_max  memory for values on their way
 * @param host              copied
 * @return 0; -EOPNOTSUPP (a store of another server)
 */
base_must_check int memcache_server_init(struct memcache_server *server, struct tarn_node *node,
                                         struct tarn_kv *kv, uint64_t item_bytes_max,
                                         uint64_t values_bytes_max, const struct memcache_host *host);

/** End a server without sessions. */
void memcache_server_deinit(struct memcache_server *server);

/* ---- output ------------------------------------------------------------------------------------- */

/* A value on its way out, with what stands behind it. */
struct memcache_value {
    struct memcache_value *next;
    size_t bytes; /* of all of it */
    size_t len;   /* of `data` */
    char data[];
};

/* Answers in order, gathered until they are sent. */
struct memcache_output {
    /* Hand on what the pieces hold, which the call may change. Yields. @return 0, or what ends the connection
     */
    int (*send)(void *arg, struct iovec *pieces, uint32_t piece_count);
    void *arg;
    int error; /* of the first send that failed; nothing is sent after it */
    uint32_t piece_count;
    size_t used;                   /* of `data` */
    struct memcache_value *values; /* that pieces lie in: freed when they were sent, … */
    uint32_t lease_count;          /* … as these are ended */
    uint64_t leased_bytes;
    struct tarn_lease leases[MEMCACHE_REQUESTS_MAX];
    struct iovec pieces[MEMCACHE_PIECES_MAX];
    char data[MEMCACHE_OUTPUT_BYTES];
};

/** Make one. */
void memcache_output_init(struct memcache_output *output,
                          int (*send)(void *arg, struct iovec *pieces, uint32_t piece_count), void *arg);

/** Send what was gathered. Yields. @return output->error */
int memcache_output_flush(struct memcache_server *server, struct memcache_output *output);

/* ---- requests in flight -------------------------------------------------------------------------- */

/* What became of a request. */
struct memcache_outcome {
    int error;                    /* 0, or negative errno of the store */
    bool hit;                     /* the key was there */
    bool made;                    /* by this request, as the flag N asks: then it was not */
    bool won;                     /* the client shall fetch the item anew: meta W */
    const char *text;             /* the whole answer, with its line end; NULL: made of the rest */
    struct tarn_record_info info; /* of the item as it is now, where there is one */
    uint64_t old_expiry_ns;       /* META_GET, META_ARITHMETIC: before; 0: never, or there was none */
    uint64_t number;              /* INCR, DECR, META_ARITHMETIC */
    struct memcache_value *value; /* GAT, META_GET; of others memory for what they make */
    size_t needed_bytes;          /* of it: MEMCACHE_NEEDS_MEMORY */
};

enum memcache_state {
    MEMCACHE_WAITING,  /* to be done */
    MEMCACHE_DONE,     /* the outcome is there */
    MEMCACHE_ANSWERED, /* `begin`, `len`, `leased` and outcome.value are the answer */
};

struct memcache_work;

/* A request in flight: of a list of keys one key. */
struct memcache_op {
    struct memcache_request request;
    const char *value; /* request.value_bytes and the two that should be a line end */
    bool last;         /* of a list: END follows. One without a key is nothing but that END */
    enum memcache_state state;
    struct memcache_outcome outcome;
    size_t begin, len;  /* of the answer's text in output->data */
    const void *leased; /* the value that belongs into it, before the last tail_len bytes of the text */
    size_t tail_len; /* bytes of text behind the value; `leased` NULL: there is no value, or it is copied */
    struct memcache_server *server;
    struct memcache_work *work;
    uint64_t arrived_ns; /* 0: the store was asked, or it is not measured */
};

/*
 * What a session needs while it is at work: requests in flight, no two of which touch one key unless both
 * only read, and their answers.
 */
struct memcache_work {
    uint64_t arrived_ns; /* the caller's: when the input had come */
    uint32_t op_count;
    uint32_t queued;          /* of the ops, those whose answers are in the output's pieces */
    bool hashed;              /* all keys are in the sets */
    uint64_t read_set[16];    /* bits of hashes: keys that are read, and … */
    uint64_t write_set[16];   /* … that are written */
    uint32_t running;         /* ops in tasks of their own, on this scheduler */
    struct task_wait *waiter; /* for them */
    size_t reserved;          /* of the output, for the answers of ops that change something */
    bool lease_refused;       /* in this step: what is read is copied */
    struct memcache_op ops[MEMCACHE_REQUESTS_MAX];
    struct tarn_get gets[MEMCACHE_REQUESTS_MAX];
    uint32_t get_ops[MEMCACHE_REQUESTS_MAX];
    struct memcache_output output;
};

/** Make one. */
void memcache_work_init(struct memcache_work *work,
                        int (*send)(void *arg, struct iovec *pieces, uint32_t piece_count), void *arg);

/* ---- sessions ----------------------------------------------------------------------------------- */

enum memcache_place {
    MEMCACHE_PLACE_LINE,    /* at the beginning of a request */
    MEMCACHE_PLACE_KEYS,    /* within the keys of a list whose line is longer than a buffer */
    MEMCACHE_PLACE_VALUE,   /* within a value */
    MEMCACHE_PLACE_SWALLOW, /* within a value that was refused */
    MEMCACHE_PLACE_SKIP,    /* within a line that was refused */
};

/* The protocol's state of a connection between two pieces of input. May be copied, as long as one copy is
 * used. */
struct memcache_session {
    struct memcache_server *server;
    enum memcache_place place;
    struct memcache_request request; /* KEYS, VALUE */
    bool failed_list;                /* a list has ended early, no END follows; between calls only in KEYS */
    char *memory;                    /* VALUE: the value, then what the request's texts need */
    size_t memory_bytes;
    uint64_t missing; /* VALUE, SWALLOW: bytes still to come; KEYS: spaces since the last key */
};

/** A new connection's state. */
void memcache_session_init(struct memcache_session *session, struct memcache_server *server);

/** Free what a session holds. */
void memcache_session_deinit(struct memcache_session *session);

/** Whether it is between two requests, and so holds nothing. */
bool memcache_session_is_idle(const struct memcache_session *session);

/**
 * Where what the client sends next belongs, if that is the rest of a long value.
 *
 * @param ret_room  how much of it is missing
 * @return NULL: it is not, or hardly any is missing; else so much at most may be put there, and
 * memcache_session_consume() be told so
 */
char *memcache_session_place(const struct memcache_session *session, size_t *ret_room);

/**
 * Execute what the client has sent; work->arrived_ns says when it had come. All answers are in the output
 * when this returns, or sent.
 *
 * @param data, len     what came, with what an earlier call left; changed. Or memcache_session_place(), and what
 *                      came there: then it is all consumed
 * @param ret_consumed  bytes that are done with; the rest, at most MEMCACHE_LINE_BYTES_MAX, is the
 *                      beginning of a line and belongs in front of what comes next
 * @return 0; -ESHUTDOWN (the client has quit); -EPROTO (a line without end, or one behind which a value
 * of unknown length may come); -EPROTONOSUPPORT (the client speaks memcached's binary protocol, and was told); what `send` said
 *
 * Yields.
 */
base_must_check int memcache_session_consume(struct memcache_session *session, struct memcache_work *work,
                                             char *data, size_t len, size_t *ret_consumed);

#endif
