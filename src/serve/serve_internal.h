/* Between the files of this folder. */
#ifndef SERVE_SERVE_INTERNAL_H
#define SERVE_SERVE_INTERNAL_H

#include "kv/kv.h"
#include "memcache/memcache.h"
#include "serve/serve.h"
#include "task/net.h"
#include "task/sched.h"
#include <stdatomic.h>

#define SERVE_INPUT_BYTES (32 << 10)
#define SERVE_WORK_MIN    16   /* fewest connections of one scheduler that are at work at once */
#define SERVE_WORK_MAX    1024 /* most of them; in between, as many as SERVE_WORK_SHARE is enough for */
#define SERVE_WORK_SHARE  8    /* one part in this many of the memory, which is taken at the start */
#define SERVE_STORE_BYTES 1024 /* of a store's text, with the zero byte behind it */
#define SERVE_NO_PORT     UINT64_MAX

#define SERVE_LISTENERS_MAX 256
#define SERVE_KV_LISTEN_MAX 8
#define SERVE_DOORS_MAX     (SERVE_KV_LISTEN_MAX + 1) /* and a Unix socket */

_Static_assert(SERVE_INPUT_BYTES > MEMCACHE_LINE_BYTES_MAX, "what a session leaves over fits");

/* ---- stores as they are named: store_text.c ------------------------------------------------------ */

enum serve_kind { SERVE_DEPOT, SERVE_CACHE };

/* What a store's text says. Strings lie in it, or in the options: it is not to be copied. */
struct serve_store_options {
    char name[KV_NAME_MAX + 1];
    enum serve_kind kind;
    const char *path;      /* of a depot: files and devices, as tarn_depot_open() takes them */
    const char *dump;      /* of a depot; NULL: none */
    uint64_t size_bytes;   /* of a depot; 0: not said */
    uint64_t memory_bytes; /* of a cache, and what follows; 0: not said */
    uint64_t partitions;
    uint64_t item_bytes;
    uint64_t port;         /* SERVE_NO_PORT: not said */
    const char *unix_path; /* NULL: not said */
    struct base_setting_list paths;
    char joined[SERVE_STORE_BYTES];
    char text[SERVE_STORE_BYTES];
};

/**
 * Read what a store is: NAME:depot,path=FILE… or NAME:cache,memory=SIZE…
 *
 * @param text         any; copied
 * @param error, room  for one sentence
 * @return 0; -EINVAL
 */
base_must_check int serve_store_read(const char *text, struct serve_store_options *ret_store, char *error,
                                     size_t room);

/** How many stores are named, that of --data counted. */
uint32_t serve_stores_named(const struct serve_options *options);

/** Read one of them: that of --data is the first. @return as serve_store_read() */
base_must_check int serve_store_at(const struct serve_options *options, uint32_t place,
                                   struct serve_store_options *ret_store, char *error, size_t room);

/* ---- the server ---------------------------------------------------------------------------------- */

/* What a connection needs while it is at work; an idle one has none. */
struct serve_work {
    char input[SERVE_INPUT_BYTES];
    struct memcache_work memcache;
};

/* A scheduler of the server, and what its connections share. */
struct serve_lane {
    struct serve *serve;
    struct task_sched *sched;
    struct base_pool work;    /* of struct serve_work */
    struct task_group keeper; /* one task, from the thread's beginning to its end */
    struct base_spin connections_lock;
    struct base_list connections; /* by rising number */
    uint64_t connections_number;  /* the last */
};

/* A store, and what memcached's clients of it share. */
struct serve_store {
    struct serve *serve;
    struct serve_store_options options;
    struct tarn_kv *kv;
    struct tarn_depot *depot; /* NULL: a cache */
    struct memcache_server memcache;
    _Atomic uint32_t connections;
    _Atomic uint64_t connections_total;
    _Atomic uint64_t yields;     /* of connections that have more to do */
    _Atomic uint64_t idle_kicks; /* connections that were closed because they said nothing */
};

/* What `stats conns` shows of a connection. */
struct serve_connection_info {
    uint64_t number; /* of its lane */
    uint64_t at_ns;  /* when something came last */
    bool is_at_work;
    char peer[NET_ADDRESS_TEXT_MAX];
};

struct serve_listener {
    struct net_bound bound;
    struct net_listener *net; /* NULL before it is open, and once closed, by the thread that accepts */
    struct serve_store *store;
    char address[NET_ADDRESS_TEXT_MAX]; /* empty until somebody has listened there */
};

/* A place where Tarn's own protocol is spoken. */
struct serve_door {
    struct kv_server *server;
    struct tarn_fabric *fabric;
    const char *address;
};

struct serve {
    struct tarn_node *node;
    const struct base_settings *settings;
    const struct serve_options *options;
    const struct serve_hooks *hooks;
    uint64_t pid;
    struct serve_store *stores;
    uint32_t store_count; /* that are named */
    uint32_t store_room;
    struct serve_lane *lanes;
    uint32_t lane_count; /* with a scheduler */
    uint32_t lane_room;
    mode_t unix_mode; /* of the sockets of memcached's protocol */
    gid_t unix_group;
    struct serve_listener listeners[SERVE_LISTENERS_MAX];
    uint32_t listener_count;
    _Atomic uint32_t listeners_open;
    char kv_addresses[SERVE_KV_LISTEN_MAX][NET_ADDRESS_TEXT_MAX]; /* of --kv-listen, names found */
    uint32_t kv_address_count;
    struct tarn_fabric *fabrics[2];     /* of --kv-listen, and shm; NULL: not needed */
    struct base_log_limit binary_peers; /* of lines about clients of memcached's other protocol */
    struct base_spin doors_lock;        /* of how many there are */
    struct serve_door doors[SERVE_DOORS_MAX];
    uint32_t door_count;
    struct task_shared_future stop; /* what the keepers wait for */
    _Atomic bool is_stopping;       /* the same, for code that does not wait */
};

/** The lane of the calling thread. */
struct serve_lane *serve_lane_here(struct serve *serve);

/* ---- stores: store.c ----------------------------------------------------------------------------- */

/** Bytes that all caches are to take; UINT64_MAX if that is more than can be said. */
uint64_t serve_cache_bytes(const struct serve_options *options);

/** Read what stores there are. @return 0; -ENOMEM */
base_must_check int serve_stores_name(struct serve *serve);

/** Open all stores. Failed ones leave a line in the log. @return 0; what the store says */
base_must_check int serve_stores_open(struct serve *serve);

/** Close those that are open. Schedulers that used them do not run any more. @return 0; the first error of a store */
int serve_stores_close(struct serve *serve);

/** Leave with the files of depots how they are reached, or take that back. */
void serve_stores_set_doors(struct serve *serve, bool open);

/** Free what their connections had of them. The schedulers are closed. */
void serve_stores_free(struct serve *serve);

/** What the store lives by, for the line that says that it is served. */
enum tarn_mode serve_mode(const struct serve_options *options);

/* ---- listeners: listen.c ------------------------------------------------------------------------- */

/** Find what the names of --kv-listen stand for: before the lanes, whose tasks depend on how many there are. @return 0;
 * -EINVAL; as net_bind() */
base_must_check int serve_kv_addresses_find(struct serve *serve);

/** Take the addresses of all stores, and try those of the doors, before a file is made. Nobody is served yet. @return 0;
 * -EINVAL; as net_bind(): serve_listeners_unbind() is called in any case */
base_must_check int serve_listeners_bind(struct serve *serve);

/** Listen for memcached's clients of all stores. @return 0; as net_listen_at(): closing is serve_listeners_close() in any
 * case */
base_must_check int serve_listeners_open(struct serve *serve);

/** Give back the addresses at which nobody has listened. */
void serve_listeners_unbind(struct serve *serve);

/** The mode and the group of Unix sockets, as the settings say. @return 0; -EINVAL: no mode; -ENOENT: no such group */
base_must_check int serve_unix_access(const struct serve_options *options, mode_t *ret_mode,
                                      gid_t *ret_group);

/** Close those that a scheduler accepts for. In it, or when it does not run. */
void serve_listeners_close(struct serve *serve, const struct task_sched *sched);

/* ---- doors: kv_listen.c ------------------------------------------------------------------------------- */

/** Whether the addresses of --kv-fabric are ports of the machine's network. */
bool serve_fabric_has_ports(const char *url);

/** Whether --kv-fabric goes beyond this machine only to those who prove who they are. */
bool serve_fabric_is_secure(const char *url);

/** Tasks of a scheduler that all doors may need. */
uint32_t serve_door_tasks(const struct serve *serve);

/** Open the doors. The schedulers run. @return 0; what the fabric says: closing is serve_doors_close() in any case */
base_must_check int serve_doors_open(struct serve *serve);

/** Have no more calls come, and end those that run. The schedulers run. */
void serve_doors_close(struct serve *serve);

/** The schedulers have ended. */
void serve_fabrics_close(struct serve *serve);

/* ---- the limit of open files: limits.c ----------------------------------------------------------- */

/** Raise it as far as anybody may. Before anything is opened. */
void serve_files_raise(void);

/** Raise it for all connections that there may be, or say how many do not fit. Everything else is open. */
void serve_files_check(struct serve *serve);

/* ---- connections, and what statistics show of them ----------------------------------------------- */

/** What `stats` asks of a store's server. */
struct memcache_host serve_host(struct serve_store *store);

/**
 * What is known of a lane's connections with a store, in the order of their numbers.
 *
 * @param after  the numbers that are left out: it and all before
 * @return how many there were, up to `room`. Any thread.
 */
uint32_t serve_list_connections(struct serve_lane *lane, const struct serve_store *store, uint64_t after,
                                struct serve_connection_info *ret_infos, uint32_t room);

/** Close the connections of a lane that have said nothing for so long. In the lane's thread; does not yield. */
void serve_close_idle(struct serve_lane *lane, uint64_t idle_ns);

/** What net.h calls for the server's connections. */
extern const struct net_handler serve_handler;

/** A connection was accepted. @param arg  the store @return 0; -ENOMEM. Does not yield. */
int serve_accepted(struct net_connection *net, void *arg);

#endif
