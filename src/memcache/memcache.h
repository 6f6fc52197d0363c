/*
 * memcache: memcached's text protocol in front of a store, without sockets: bytes of a client go in,
 * bytes for the client come out.
 *
 * Threading: a server is shared by all; a session belongs to one connection, and with its workspace is used
 * by one task at a time, never by a plain thread: its requests run in tasks beside it.
 * Yielding: as stated. Functions that the store calls with a lock held (kv_shows_under_lock()) take no memory.
 * Errors: a request's failure is answered to the client; functions return only errors that end the connection.
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

/** The most requests of a session in flight; each key of a get counts as one. */
#define MEMCACHE_REQUESTS_MAX 64

/** Room for answers that are gathered before they are sent. */
#define MEMCACHE_OUTPUT_BYTES (64 << 10)

/** The most pieces of memory in which gathered answers lie. */
#define MEMCACHE_PIECES_MAX TASK_IOV_MAX

/** Values of this length or more are not copied: they are sent from the memory into which the drive has read them. */
#define MEMCACHE_LEASE_BYTES_MIN 2048

/** No read of such a value begins while this many bytes of them wait to be sent. */
#define MEMCACHE_LEASED_BYTES (256 << 10)

/** The version that the server reports: that of memcached whose protocol it speaks, then its own. Clients decide by it
 * which commands they use. */
const char *memcache_version(void);

/* ---- the server --------------------------------------------------------------------------------- */

/* A server's counters, by memcached's names. */
struct memcache_counters {
    _Atomic uint64_t cmd_get, cmd_set, cmd_touch, cmd_flush, cmd_meta;
    _Atomic uint64_t get_hits, get_misses, delete_hits, delete_misses, touch_hits, touch_misses;
    _Atomic uint64_t incr_hits, incr_misses, decr_hits, decr_misses;
    _Atomic uint64_t cas_hits, cas_misses, cas_badval;
    _Atomic uint64_t store_too_large, store_no_memory, total_items;
    _Atomic uint64_t bytes_read, bytes_written;
};

/* Facts that only the program around the server knows. */
struct memcache_facts {
    uint64_t pid;
    uint64_t threads;
    uint64_t connections_max;
    uint64_t connections;
    uint64_t connections_total;
    uint64_t connections_rejected;
    uint64_t yields;     /* number of times that a connection with more to do let others go first */
    uint64_t idle_kicks; /* connections closed because they were idle for too long */
};

typedef void memcache_setting_function(void *arg, const char *name, const char *value);

/* The program around the server. Its functions must not yield. */
struct memcache_host {
    void (*tell)(void *arg, struct memcache_facts *ret_facts);
    /* call `visit` with the name and value of each setting */
    void (*settings)(void *arg, memcache_setting_function *visit, void *visit_arg);
    /* call `visit` for each connection; names are NUMBER:FIELD */
    void (*connections)(void *arg, memcache_setting_function *visit, void *visit_arg);
    /* call `visit` for each drive that the store lies on */
    void (*drives)(void *arg, memcache_setting_function *visit, void *visit_arg);
    /* call `visit` for each listener for Tarn's own protocol; yields */
    void (*calls)(void *arg, memcache_setting_function *visit, void *visit_arg);
    /* end the program in good order, as after SIGTERM; NULL: clients may not ask for that */
    void (*shutdown)(void *arg);
    /* whether the program is about to end: long work is given up then */
    bool (*ends)(void *arg);
    bool refuses_flush; /* the command flush_all is refused */
    bool refuses_dumps; /* dumps of all keys are refused */
    void *arg;
};

struct memcache_server {
    struct tarn_node *node;
    struct tarn_kv *kv;
    struct tarn_depot *depot;   /* the store's depot; NULL: it is no depot */
    bool shows_under_lock;      /* the result of kv_shows_under_lock() */
    struct base_account values; /* memory of values under way that no connection's buffer holds */
    uint64_t item_bytes_max;    /* the largest item, in memcached's count */
    uint64_t lease_bytes_min;   /* MEMCACHE_LEASE_BYTES_MIN, unless a test has changed it */
    uint64_t begin_ns;
    uint64_t begin_wall_ns;
    _Atomic bool is_dumping; /* a client is getting a dump of all keys */
    uint64_t hash_seed; /* seed of the hash that decides whether two requests may be in flight together */
    struct memcache_counters counters;
    /* the counts at the last `stats reset` */
    _Atomic uint64_t connections_forgotten, expired_forgotten, flushed_forgotten;
    struct memcache_host host;
};

/**
 * Make a server of a store.
 *
 * @param kv                open until the server is ended
 * @param item_bytes_max    memcached's limit of an item; the store's own limit holds as well
 * @param values_bytes_max  the most memory of values under way
 * @param host              copied
 * @return 0; -EOPNOTSUPP (a store of another server)
 */
base_must_check int memcache_server_init(struct memcache_server *server, struct tarn_node *node,
                                         struct tarn_kv *kv, uint64_t item_bytes_max,
                                         uint64_t values_bytes_max, const struct memcache_host *host);

/** End a server without sessions. */
void memcache_server_deinit(struct memcache_server *server);

/* ---- output ------------------------------------------------------------------------------------- */

/* A value of an answer, with the text behind it. */
struct memcache_value {
    struct memcache_value *next;
    size_t bytes; /* bytes of the whole structure */
    size_t len;   /* of `data` */
    char data[];
};

/* Answers in order, gathered until they are sent. */
struct memcache_output {
    /* Send the pieces, which the call may change. Yields. @return 0, or an error that ends the connection */
    int (*send)(void *arg, struct iovec *pieces, uint32_t piece_count);
    void *arg;
    int error; /* error of the first send that failed, after which nothing is sent; 0: none */
    uint32_t piece_count;
    size_t used;                   /* of `data` */
    struct memcache_value *values; /* values in which pieces lie; they are freed when all was sent */
    uint32_t lease_count; /* number of leases in which pieces lie; they are ended when all was sent */
    uint64_t leased_bytes;
    struct tarn_lease leases[MEMCACHE_REQUESTS_MAX];
    struct iovec pieces[MEMCACHE_PIECES_MAX];
    char data[MEMCACHE_OUTPUT_BYTES];
};

/** Begin an empty output. */
void memcache_output_init(struct memcache_output *output,
                          int (*send)(void *arg, struct iovec *pieces, uint32_t piece_count), void *arg);

/** Send the gathered answers. Yields. @return output->error */
int memcache_output_flush(struct memcache_server *server, struct memcache_output *output);

/* ---- requests in flight -------------------------------------------------------------------------- */

/* The outcome of a request. */
struct memcache_outcome {
    int error;        /* 0, or negative errno of the store */
    bool hit;         /* the item was there */
    bool made;        /* this request has made the item, as the flag N asks, because it was not there */
    bool won;         /* this client is the one that shall fetch the item anew: meta W */
    const char *text; /* the whole answer, with its line end; NULL: it is made of the other fields */
    struct tarn_record_info info; /* the item as it is now, if there is one */
    uint64_t
        old_expiry_ns; /* META_GET, META_ARITHMETIC: expiry before the request; 0: never, or there was no item */
    uint64_t number; /* INCR, DECR, META_ARITHMETIC: the new number */
    struct memcache_value
        *value; /* GAT, META_GET: the item's value; other requests: memory for the value that they make */
    size_t needed_bytes; /* size that `value` must have, after MEMCACHE_NEEDS_MEMORY */
};

enum memcache_state {
    MEMCACHE_WAITING,  /* it is still to be carried out */
    MEMCACHE_DONE,     /* the outcome is set */
    MEMCACHE_ANSWERED, /* `begin`, `len`, `leased` and outcome.value are the answer */
};

struct memcache_work;

/* A request in flight, or one key of a list. */
struct memcache_op {
    struct memcache_request request;
    const char *value; /* the value: request.value_bytes, then two bytes that should be a line end */
    bool last;         /* it ends a list, and END follows; an op without a key is just that END */
    enum memcache_state state;
    struct memcache_outcome outcome;
    size_t begin, len; /* place of the answer's text in output->data */
    const void *
        leased; /* the value that is sent before the last tail_len bytes of the text; NULL: there is none, or it is copied */
    size_t tail_len; /* bytes of text behind `leased` */
    struct memcache_server *server;
    struct memcache_work *work;
    uint64_t
        arrived_ns; /* arrival of the request; 0: the store was asked already, or the op is not measured */
};

/*
 * The workspace of a session at work: requests in flight, no two of which touch the same key unless both
 * only read, and their answers.
 */
struct memcache_work {
    uint64_t arrived_ns; /* arrival of the input, set by the caller */
    uint32_t op_count;
    uint32_t queued;          /* number of ops whose answers are in the output's pieces */
    bool hashed;              /* all keys are in the sets */
    uint64_t read_set[16];    /* one bit for each hash of a key that is read */
    uint64_t write_set[16];   /* one bit for each hash of a key that is written */
    uint32_t running;         /* number of ops that run in tasks of their own, on this scheduler */
    struct task_wait *waiter; /* the session's wait for these tasks */
    size_t reserved;          /* bytes of the output kept for the answers of ops that change something */
    bool lease_refused;       /* a lease was refused in this step, so values are copied */
    struct memcache_op ops[MEMCACHE_REQUESTS_MAX];
    struct tarn_get gets[MEMCACHE_REQUESTS_MAX];
    uint32_t get_ops[MEMCACHE_REQUESTS_MAX];
    struct memcache_output output;
};

/** Begin an empty workspace. */
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

/** Begin the state of a new connection. */
void memcache_session_init(struct memcache_session *session, struct memcache_server *server);

/** Free the memory of a session. */
void memcache_session_deinit(struct memcache_session *session);

/** Whether a session is between two requests, and so holds no memory. */
bool memcache_session_is_idle(const struct memcache_session *session);

/**
 * The place for the next bytes of the client, if they are the rest of a long value: the caller may receive into it and
 * then pass it to memcache_session_consume().
 *
 * @param ret_room  the most bytes that may be put there
 * @return NULL: no value is under way, or little of it is missing
 */
char *memcache_session_place(const struct memcache_session *session, size_t *ret_room);

/**
 * Execute the requests that the client has sent, with their arrival in work->arrived_ns. All answers are in the output
 * when this returns, or sent.
 *
 * @param data, len     the rest of an earlier call and the new input; changed. Or memcache_session_place() and the
 *                      number of bytes received there, all of which are consumed
 * @param ret_consumed  number of bytes consumed; the rest, at most MEMCACHE_LINE_BYTES_MAX, is the beginning of
 *                      a line and belongs in front of the next input
 * @return 0; -ESHUTDOWN (the client has quit); -EPROTO (a line without end, or one that a value of unknown length may
 *         follow); -EPROTONOSUPPORT (the client speaks memcached's binary protocol, and got an error); the error of
 *         `send`
 *
 * Yields.
 */
base_must_check int memcache_session_consume(struct memcache_session *session, struct memcache_work *work,
                                             char *data, size_t len, size_t *ret_consumed);

#endif
