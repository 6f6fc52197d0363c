/* The structures and functions that the files of this folder share. */
#ifndef SERVE_SERVE_INTERNAL_H
#define SERVE_SERVE_INTERNAL_H

#include "kv/kv.h"
#include "memcache/memcache.h"
#include "serve/serve.h"
#include "task/net.h"
#include "task/sched.h"
#include <stdatomic.h>

#define SERVE_INPUT_BYTES (32 << 10)
#define SERVE_WORK_MIN    16   /* the fewest connections of a scheduler that may be at work at once */
#define SERVE_WORK_MAX    1024 /* the most of them; in between, as many as SERVE_WORK_SHARE has room for */
#define SERVE_WORK_SHARE  8 /* their share of the memory, one part in this many, which is taken at the start */
#define SERVE_STACK_SHARE 8    /* likewise of tasks' stacks for requests, taken when they are needed */
#define SERVE_CALLS_SHARE 8    /* likewise of the memory of kv connections, for their calls */
#define SERVE_STORE_BYTES 1024 /* room for a store's text, with its zero byte */
#define SERVE_NO_PORT     UINT64_MAX

#define SERVE_LISTENERS_MAX    256
#define SERVE_KV_LISTEN_MAX    8
#define SERVE_KV_LISTENERS_MAX (SERVE_KV_LISTEN_MAX + 1) /* the addresses, and a Unix socket */

_Static_assert(SERVE_INPUT_BYTES > MEMCACHE_LINE_BYTES_MAX, "what a session leaves over fits");

/* ---- stores as they are named: store_text.c ------------------------------------------------------ */

enum serve_kind { SERVE_DEPOT, SERVE_CACHE, SERVE_HASH, SERVE_TREE, SERVE_KINDS };

/* Their names. */
extern const char *const serve_kind_names[SERVE_KINDS];

/* The options of a store. Strings lie in its own text, or in the server's options, so it must not be copied. */
struct serve_store_options {
    char name[KV_NAME_MAX + 1];
    enum serve_kind kind;
    const char *path;    /* depot, tree: files and devices, as tarn_depot_open() takes them */
    const char *dump;    /* depot: path of dumps; NULL: none */
    uint64_t size_bytes; /* depot, tree: size of a new file; 0: not set */
    const char *url;     /* hash: its URL */
    uint64_t
        memory_bytes; /* all but a depot: its memory in this process; 0: not set, or a hash store of a space */
    uint64_t partitions; /* cache: these two */
    uint64_t item_bytes;
    uint64_t port;         /* the store's own port; SERVE_NO_PORT: not set */
    const char *unix_path; /* the store's Unix socket; NULL: not set */
    struct base_setting_list paths;
    char joined[SERVE_STORE_BYTES];
    char text[SERVE_STORE_BYTES];
};

/**
 * Read a store's text: NAME:depot,path=FILE…, NAME:cache,memory=SIZE…, NAME:tree,path=FILE…, or NAME:hash, and behind a comma what a hash store's URL has
 *
 * @param text         any text; copied
 * @param error, room  gets a sentence about the fault
 * @return 0; -EINVAL
 */
base_must_check int serve_store_read(const char *text, struct serve_store_options *ret_store, char *error,
                                     size_t room);

/** The number of stores that the options name, that of --data included. */
uint32_t serve_stores_named(const struct serve_options *options);

/** Whether a store is a cache, in memory or on a drive, and evicts. */
bool serve_evicts(const struct serve_options *options, const struct serve_store_options *store);

/** Read a store of the options; that of --data is the first. @return as serve_store_read() */
base_must_check int serve_store_at(const struct serve_options *options, uint32_t place,
                                   struct serve_store_options *ret_store, char *error, size_t room);

/* ---- the server ---------------------------------------------------------------------------------- */

/* The workspace of a connection at work; an idle one has none. */
struct serve_work {
    char input[SERVE_INPUT_BYTES];
    struct memcache_work memcache;
};

/* A scheduler of the server, with the state that its connections share. */
struct serve_lane {
    struct serve *serve;
    struct task_sched *sched;
    struct base_pool work;    /* the pool of struct serve_work */
    struct task_group keeper; /* the task keep_lane(), from the lane's beginning to its end */
    struct base_spin connections_lock;
    struct base_list connections; /* of struct connection, ordered by number */
    uint64_t connections_number;  /* number of the newest connection */
};

/* A store, with the state that memcached's clients of it share. */
struct serve_store {
    struct serve *serve;
    struct serve_store_options options;
    struct tarn_kv *kv;
    struct tarn_depot *depot; /* the store's depot; NULL: it is a cache */
    struct memcache_server memcache;
    _Atomic uint32_t connections;
    _Atomic uint64_t connections_total;
    _Atomic uint64_t yields;     /* number of times that a connection with more to do let others go first */
    _Atomic uint64_t idle_kicks; /* connections closed because they were idle for too long */
};

/* A connection's properties that `stats conns` shows. */
struct serve_connection_info {
    uint64_t number; /* its number in its lane */
    uint64_t at_ns;  /* time of the last input */
    bool is_at_work;
    char peer[NET_ADDRESS_TEXT_MAX];
};

struct serve_listener {
    struct net_bound bound;
    struct net_listener *
        net; /* the listener; NULL before it is opened and after it was closed. The accepting thread sets it */
    struct serve_store *store;
    char address[NET_ADDRESS_TEXT_MAX]; /* its address; empty until it was opened */
};

/* A listener for Tarn's own protocol. */
struct serve_kv_listener {
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
    uint32_t store_count; /* number of stores that the options name */
    uint32_t store_room;
    struct serve_lane *lanes;
    uint32_t lane_count; /* number of lanes that have a scheduler */
    uint32_t lane_room;
    mode_t unix_mode; /* mode of the Unix sockets for memcached's protocol */
    gid_t unix_group;
    struct serve_listener listeners[SERVE_LISTENERS_MAX];
    uint32_t listener_count;
    _Atomic uint32_t listeners_open;
    char kv_addresses[SERVE_KV_LISTEN_MAX]
                     [NET_ADDRESS_TEXT_MAX]; /* the addresses of --kv-listen, with names resolved */
    uint32_t kv_address_count;
    struct tarn_fabric *fabrics[2];     /* the fabric of --kv-listen, and shm; NULL: not needed */
    struct base_log_limit binary_peers; /* limits the lines about clients of memcached's binary protocol */
    struct base_spin kv_listeners_lock; /* protects kv_listener_count */
    struct serve_kv_listener kv_listeners[SERVE_KV_LISTENERS_MAX];
    uint32_t kv_listener_count;
    struct task_shared_future stop; /* set when the server stops; the keepers wait for it */
    _Atomic bool is_stopping;       /* the server stops; for code that does not wait */
};

/** The lane of the calling thread. */
struct serve_lane *serve_lane_here(struct serve *serve);

/* ---- stores: store.c ----------------------------------------------------------------------------- */

/** The bytes that all caches together may take; UINT64_MAX if the sum does not fit. */
uint64_t serve_cache_bytes(const struct serve_options *options);

/** Read the options of all stores. @return 0; -ENOMEM */
base_must_check int serve_stores_name(struct serve *serve);

/** Open all stores. A failure is logged. @return 0; the store's error */
base_must_check int serve_stores_open(struct serve *serve);

/** Give back what the stores have on the caller's scheduler, which is about to end. By a task. Yields. */
void serve_stores_leave(struct serve *serve);

/** Close the open stores. Schedulers that used them do not run any more. @return 0; the first error of a store */
int serve_stores_close(struct serve *serve);

/** Leave each depot's URL with its files, or remove it. */
void serve_stores_set_urls(struct serve *serve, bool open);

/** Free the stores, and their servers of memcached's protocol. The schedulers are closed. */
void serve_stores_free(struct serve *serve);

/** The durability mode of the stores. */
enum tarn_mode serve_mode(const struct serve_options *options);

/* ---- listeners: listen.c ------------------------------------------------------------------------- */

/** Resolve the names of --kv-listen, before the lanes are made, whose tasks depend on the number of addresses. @return 0;
 * -EINVAL; as net_bind() */
base_must_check int serve_kv_addresses_find(struct serve *serve);

/** Bind the addresses of all stores, and try those of the kv listeners, before a file is made; no client is served yet.
 * @return 0; -EINVAL; as net_bind(). serve_listeners_unbind() follows in any case */
base_must_check int serve_listeners_bind(struct serve *serve);

/** Listen for memcached's clients of all stores. @return 0; as net_listen_at(). serve_listeners_close() follows in any
 * case */
base_must_check int serve_listeners_open(struct serve *serve);

/** Give back the bound addresses at which no listener was opened. */
void serve_listeners_unbind(struct serve *serve);

/** Read the mode and the group of Unix sockets. @return 0; -EINVAL (it is no mode); -ENOENT (no such group) */
base_must_check int serve_unix_access(const struct serve_options *options, mode_t *ret_mode,
                                      gid_t *ret_group);

/** Close the listeners for which a scheduler accepts. Called in it, or when it does not run. */
void serve_listeners_close(struct serve *serve, const struct task_sched *sched);

/* ---- kv listeners: kv_listen.c -------------------------------------------------------------------------- */

/** Whether the fabric of --kv-fabric listens at ports of the machine's network. */
bool serve_fabric_has_ports(const char *url);

/** Whether a fabric lets clients of other machines in only with a proof of identity. */
bool serve_fabric_is_secure(const char *url);

/** Open a fabric. @param insecure  allow other machines @return 0; as tarn_fabric_open() */
base_must_check int serve_fabric_open(struct tarn_node *node, const char *url, bool insecure,
                                      struct tarn_fabric **ret_fabric);

/** The most tasks that all kv listeners may need on a scheduler. */
uint32_t serve_kv_listener_tasks(const struct serve *serve);

/** Open the kv listeners. The schedulers run. @return 0; the fabric's errors. serve_kv_listeners_close() follows in any
 * case */
base_must_check int serve_kv_listeners_open(struct serve *serve);

/** Close the kv listeners: no more calls come, and those that run end. The schedulers run. */
void serve_kv_listeners_close(struct serve *serve);

/** Close the fabrics. The schedulers have ended. */
void serve_fabrics_close(struct serve *serve);

/* ---- spaces: space_options.c ---------------------------------------------------------------------- */

/* What the options of a space come to. */
#define SERVE_CLUSTER_ROOM 4096 /* of a cluster's URL */

struct serve_space_plan {
    struct serve_space_url listen;        /* of the master, or else of the memory server: one address */
    char cluster[SERVE_CLUSTER_ROOM];     /* of the master, as cluster_join() */
    char member[TARN_SPACE_NAME_MAX + 1]; /* the master's name there */
    char masters[SERVE_ADDRESSES_ROOM];   /* where the memory server finds them */
    char memory[SERVE_ADDRESS_ROOM];      /* where the memory server is reached */
    char name[TARN_SPACE_NAME_MAX + 1];   /* of the memory server */
};

/** Check the options of a space, and read what they come to. @return 0; -EINVAL */
base_must_check int serve_space_plan(const struct serve_options *options, struct serve_space_plan *ret_plan,
                                     char *error, size_t room);

/** Check that a server of stores was told nothing that is for spaces. @return 0; -EINVAL */
base_must_check int serve_check_no_space(const struct serve_options *options, char *error, size_t room);

/* ---- the limit of open files: limits.c ----------------------------------------------------------- */

/** Count open files. */
uint64_t serve_files_open(void);

/** Check that the limit suffices for all connections that the options allow, and log how many do not fit. Called when all
 * else is open. */
void serve_files_check(struct serve *serve);

/* ---- connections, and what statistics show of them ----------------------------------------------- */

/** Make the functions by which a store's `stats` asks the server. */
struct memcache_host serve_host(struct serve_store *store);

/**
 * List a lane's connections with a store, in the order of their numbers.
 *
 * @param after  begin behind this number
 * @return number of connections listed, up to `room`. Any thread.
 */
uint32_t serve_list_connections(struct serve_lane *lane, const struct serve_store *store, uint64_t after,
                                struct serve_connection_info *ret_infos, uint32_t room);

/** Close the connections of a lane that have been idle for `idle_ns`. In the lane's thread; does not yield. */
void serve_close_idle(struct serve_lane *lane, uint64_t idle_ns);

/** The handler of the server's connections. */
extern const struct net_handler serve_handler;

/** Begin an accepted connection. @param arg  the store @return 0; -ENOMEM. Does not yield. */
int serve_accepted(struct net_connection *net, void *arg);

#endif
