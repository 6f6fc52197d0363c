/*
 * memcache: memcached's text protocol in front of a store, without sockets: bytes of a client go in,
 * bytes for the client come out.
 *
 * Threading: a server is shared by all; a session belongs to one connection and is used by one task at
 * a time.
 * Yielding: as stated.
 * Errors: what goes wrong with a request is answered to the client; functions return only what ends
 * the connection.
 */
#ifndef MEMCACHE_MEMCACHE_H
#define MEMCACHE_MEMCACHE_H

#include "base/base.h"
#include "memcache/parse.h"
#include "task/node.h"
#include <stdatomic.h>
#include <tarn/depot.h>

/** Room of an output: a reply's first line and a small value fit. */
#define MEMCACHE_OUTPUT_BYTES (16 << 10)

/* ---- the server --------------------------------------------------------------------------------- */

/* What a server counts, by memcached's names. */
struct memcache_counters {
    _Atomic uint64_t cmd_get, cmd_set, cmd_touch, cmd_flush;
    _Atomic uint64_t get_hits, get_misses, delete_hits, delete_misses, touch_hits, touch_misses;
    _Atomic uint64_t cas_hits, cas_misses, cas_badval;
    _Atomic uint64_t store_too_large, store_no_memory, total_items;
    _Atomic uint64_t bytes_read, bytes_written;
};

/* What only whoever runs the server knows. */
struct memcache_facts {
    uint64_t pid;
    uint64_t threads;
    uint64_t connections_max;
    uint64_t connections;
    uint64_t connections_total;
};

typedef void memcache_setting_function(void *arg, const char *name, const char *value);

/* Whoever runs the server. Its functions must not yield. */
struct memcache_host {
    void (*tell)(void *arg, struct memcache_facts *ret_facts);
    /* have `visit` called with the name and value of each setting */
    void (*settings)(void *arg, memcache_setting_function *visit, void *visit_arg);
    void *arg;
};

struct memcache_server {
    struct tarn_node *node;
    struct tarn_depot *depot;
    struct base_account values; /* values on their way in or out that no connection's buffer holds */
    uint64_t item_bytes_max;    /* as memcached counts an item */
    uint64_t begin_ns;
    struct memcache_counters counters;
    struct memcache_host host;
};

/**
 * Make a server of a store.
 *
 * @param item_bytes_max    memcached's limit of an item; the store's own limit holds as well
 * @param values_bytes_max  memory for values on their way
 * @param host              copied
 */
void memcache_server_init(struct memcache_server *server, struct tarn_node *node, struct tarn_depot *depot,
                          uint64_t item_bytes_max, uint64_t values_bytes_max,
                          const struct memcache_host *host);

/** End a server without sessions. */
void memcache_server_deinit(struct memcache_server *server);

/* ---- output ------------------------------------------------------------------------------------- */

/* Bytes for the client: gathered, and handed on when the room is used up. */
struct memcache_output {
    char *data;
    size_t used;
    size_t room; /* MEMCACHE_OUTPUT_BYTES or more */
    /* Hand bytes on. Yields. @return 0, or what ends the connection */
    int (*send)(void *arg, const void *data, size_t bytes);
    void *arg;
    int error; /* of the first send that failed; nothing is sent after it */
};

/** Send what was gathered. Yields. @return output->error */
int memcache_output_flush(struct memcache_server *server, struct memcache_output *output);

/* ---- sessions ----------------------------------------------------------------------------------- */

enum memcache_state {
    MEMCACHE_STATE_LINE,    /* at the beginning of a request */
    MEMCACHE_STATE_KEYS,    /* within the keys of a get whose line is longer than a buffer */
    MEMCACHE_STATE_VALUE,   /* within a value */
    MEMCACHE_STATE_SWALLOW, /* within a value that was refused */
    MEMCACHE_STATE_SKIP,    /* within a line that was refused */
};

/* The protocol's state of a connection. May be copied, as long as one copy is used. */
struct memcache_session {
    struct memcache_server *server;
    enum memcache_state state;
    struct memcache_request request;  /* KEYS, VALUE */
    char key[MEMCACHE_KEY_BYTES_MAX]; /* VALUE: the request's */
    uint8_t *value;                   /* VALUE: request.value_bytes + 2 */
    uint64_t missing;                 /* VALUE, SWALLOW: bytes still to come */
};

/** A new connection's state. */
void memcache_session_init(struct memcache_session *session, struct memcache_server *server);

/** Free what a session holds. */
void memcache_session_deinit(struct memcache_session *session);

/** Whether it is between two requests, and so holds nothing. */
bool memcache_session_is_idle(const struct memcache_session *session);

/**
 * Execute what the client has sent.
 *
 * @param data, len     what came, with what an earlier call left
 * @param ret_consumed  bytes that are done with; the rest, at most MEMCACHE_LINE_BYTES_MAX, is the
 *                      beginning of a line and belongs in front of what comes next
 * @return 0; -ESHUTDOWN (the client has quit); -EPROTO (a line without end); what `send` said
 *
 * Yields.
 */
base_must_check int memcache_session_consume(struct memcache_session *session, const void *data, size_t len,
                                             struct memcache_output *output, size_t *ret_consumed);

#endif
