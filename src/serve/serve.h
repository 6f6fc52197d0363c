/*
 * serve: stores for memcached's clients and for Tarn's own: schedulers, listeners, connections, and an end in good order.
 * Or, in a process of its own, a part of a space: its master, a memory server, or both.
 *
 * Threading: one plain thread opens, stops and closes a server; its requests run in the threads of its
 * schedulers.
 * Errors: negative errno, with a sentence in the log.
 */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include "base/base.h"
#include "task/node.h"
#include "task/task.h"
#include <tarn/space.h>

#define SERVE_ADDRESSES_ROOM 1024 /* of a list of them */
#define SERVE_ADDRESS_ROOM   108  /* of an address as tarn_fabric_connect() takes it */
#define SERVE_FABRIC_ROOM    1024

struct serve;
struct serve_space;
struct tarn_depot;

/* The options of a server, as the settings below set them. */
struct serve_options {
    const char *data;
    struct base_setting_list stores; /* texts of stores, which store_text.c reads */
    uint64_t size_bytes;
    struct base_setting_list listen;
    uint64_t port;
    const char *unix_path;
    const char *unix_mask;  /* memcached's --unix-mask: the mode in octal */
    const char *unix_group; /* group of Unix sockets; NULL: the process's own */
    struct base_setting_list kv_listen;
    const char *kv_unix_path;
    const char *kv_fabric;
    const char *space; /* the file, or the cluster, with a space's metadata: be its master; NULL: be none */
    const char *space_listen;
    bool memory_server;
    const char *memory_file; /* where a memory server's contents survive a restart; NULL: nowhere */
    const char *join;        /* URL of the master; NULL: it is of this process */
    uint64_t chunk_bytes;
    const char *servers_secret_file; /* path of what memory servers prove themselves with; NULL: none */
    bool insecure;
    bool enable_shutdown;
    uint64_t threads; /* number of threads; 0: one for each processor */
    uint64_t memory_bytes;
    const char
        *hot; /* "auto", "off" or a size: tarn_depot_options.hot_bytes, as serve_hot_bytes() reads it */
    uint64_t hot_record_bytes;
    uint64_t hot_warm_rate_bytes; /* hot records read back in a second after a start; 0: none */
    uint64_t connections_max;
    uint64_t item_bytes_max;
    uint64_t send_timeout_ns;
    struct base_setting_list extended; /* memcached's -o */
    uint64_t spin_ns;
    bool cache;
    uint64_t memory_limit_mib; /* size of the store `default`, which is then a cache, in MiB; 0: not set */
    bool disable_evictions;
    bool disable_flush_all;
    bool disable_dumping;
    bool disable_watching;
    uint64_t udp_port;
    unsigned protocol;
    uint64_t scrub_rate_bytes; /* bytes scrubbed in a second; 0: none */
    uint64_t
        checkpoint_rate_bytes; /* bytes of a checkpoint in a second; 0: no checkpoint while the server runs */
    uint64_t over_provisioning_percent;
    uint64_t measure_interval;
    unsigned discard;   /* enum tarn_discard */
    unsigned damaged;   /* 1: tarn_depot_options.serve_damaged */
    unsigned mode;      /* 0: auto; else enum tarn_mode + 1 */
    unsigned direct;    /* enum drive_direct */
    unsigned engine;    /* enum task_engine_choice */
    unsigned log_level; /* enum base_log_level */
    const char *dump;   /* path of dumps, which a signal asks for; NULL: none are made */
    const char *config;
    bool daemon;
    const char *user;    /* the user to run as; NULL: the user who has started it */
    const char *pidfile; /* file for the process's number; NULL: none */
    bool lock_memory;
    bool verbose;
    bool version;
    bool help;
    bool man;
};

/** The table of settings; its values go to a struct serve_options. */
extern const struct base_setting serve_settings[];

/** Number of entries of the table. */
extern const size_t serve_settings_count;

/**
 * Check a set of options beyond the checks of the table.
 *
 * @param error, room  gets a sentence about the fault
 * @return 0; -EINVAL
 */
base_must_check int serve_check_options(const struct serve_options *options, char *error, size_t room);

/** tarn_depot_options.hot_bytes. @param options  checked */
uint64_t serve_hot_bytes(const struct serve_options *options);

/** The idle time after which a connection is closed; 0: never. @param options  checked */
uint64_t serve_idle_timeout_ns(const struct serve_options *options);

/* Functions of the program around a server; each may be NULL. */
struct serve_hooks {
    void (*begin)(struct tarn_node *node); /* called in a task of each thread, before its first request */
    void (*end)(struct tarn_node *node);   /* called in a task of each thread, after its last request */
    /* Reports the progress of a store's opening, as seglog_progress_function does. */
    void (*progress)(void *arg, const char *store, const char *what, const char *unit, uint64_t done,
                     uint64_t all);
    void *progress_arg;
    base_log_sink_function *log_sink; /* receives log lines; NULL: they go to standard error */
    void *log_arg;
};

/**
 * Open the stores, make missing files, and begin to serve. All threads that this starts inherit the
 * caller's signal mask.
 *
 * @param settings  with a checked struct serve_options; borrowed until serve_close()
 * @param pid       the process's number, for `stats`
 * @param hooks     borrowed until serve_close()
 * @return 0; an error of the node, a scheduler, a store or an address
 *
 * Plain threads. Blocks.
 */
base_must_check int serve_open(const struct base_settings *settings, uint64_t pid,
                               const struct serve_hooks *hooks, struct serve **ret_serve);

/** The number of stores. */
uint32_t serve_store_count(const struct serve *serve);

/** A store's depot, valid until serve_close(). @return NULL: the store is no depot */
struct tarn_depot *serve_depot(const struct serve *serve, uint32_t place);

/** The path of a store's dumps. @return NULL: none are made */
const char *serve_dump_path(const struct serve *serve, uint32_t place);

/** The server's node, valid until serve_close(). */
struct tarn_node *serve_node(const struct serve *serve);

/**
 * Fit each depot to its drive and its index to its records: tarn_depot_extend(), then tarn_depot_shrink_index(). The log
 * has the outcome. Blocks only its caller.
 *
 * @param stops  called now and then; true: leave the remaining indexes as they are
 *
 * Plain threads.
 */
void serve_fit(struct serve *serve, bool (*stops)(void *arg), void *arg);

/**
 * Accept no more, let requests that have begun end, close the stores and free the server.
 *
 * @return 0; a store's error (what was acknowledged in device mode may not survive a power cut)
 *
 * Plain threads. Blocks.
 */
int serve_close(struct serve *serve);

/* ---- spaces ------------------------------------------------------------------------------------- */

/* The addresses of masters, or of a memory server, as a URL says them. */
struct serve_space_url {
    bool is_shm;                          /* they are paths of this machine */
    bool says_fabric;                     /* the fabric was not left to the default */
    char fabric[SERVE_FABRIC_ROOM];       /* as tarn_fabric_open() takes it */
    char addresses[SERVE_ADDRESSES_ROOM]; /* as tarn_space_connect() takes them */
};

/**
 * Read a URL: unix:PATH, or tarn://ADDRESS:PORT[?FABRIC]; of several masters unix:PATH,PATH, or
 * tarn://ADDRESS:PORT,ADDRESS:PORT[?FABRIC].
 *
 * @return NULL; what is wrong, for people
 */
const char *serve_space_url_read(const char *url, struct serve_space_url *ret_url);

/** Raise the limit of open files as far as this user may. Called before anything is opened. */
void serve_files_raise(void);

/** Whether the options are of a space, not of stores. */
bool serve_is_of_space(const struct serve_options *options);

/**
 * Open a part of a space: a master, a memory server, whose memory is made meanwhile, or both. All threads that this starts
 * inherit the caller's signal mask.
 *
 * @param options  checked, of a space; borrowed until serve_space_close()
 * @param hooks    borrowed until serve_space_close()
 * @return 0; an error of the node, a scheduler, the fabric, the cluster or the space (logged)
 *
 * Plain threads. Blocks.
 */
base_must_check int serve_space_open(const struct serve_options *options, const struct serve_hooks *hooks,
                                     struct serve_space **ret_space);

/** Close what was opened. Plain threads. Blocks. */
void serve_space_close(struct serve_space *space);

#endif
