/*
 * serve: stores for memcached's clients and for Tarn's own: schedulers, listeners, connections, and an end in good order.
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

struct serve;
struct tarn_depot;

/* What the settings below set. */
struct serve_options {
    const char *data;
    struct base_setting_list stores; /* as store_text.c reads them */
    uint64_t size_bytes;
    struct base_setting_list listen;
    uint64_t port;
    const char *unix_path;
    const char *unix_mask;  /* as memcached's: the mode, octal */
    const char *unix_group; /* NULL: the process's own */
    struct base_setting_list kv_listen;
    const char *kv_unix_path;
    const char *kv_fabric;
    bool insecure;
    bool enable_shutdown;
    uint64_t threads; /* 0: one for each processor */
    uint64_t memory_bytes;
    uint64_t connections_max;
    uint64_t item_bytes_max;
    uint64_t send_timeout_ns;
    struct base_setting_list extended; /* memcached's -o */
    uint64_t spin_ns;
    bool cache;
    uint64_t memory_limit_mib; /* of the store `default`, a cache; 0: there is none */
    bool disable_evictions;
    bool disable_flush_all;
    bool disable_dumping;
    bool disable_watching;
    uint64_t udp_port;
    unsigned protocol;
    uint64_t scrub_rate_bytes;      /* a second; 0: none */
    uint64_t checkpoint_rate_bytes; /* a second; 0: none while it runs */
    uint64_t over_provisioning_percent;
    uint64_t measure_interval;
    unsigned discard;   /* enum tarn_discard */
    unsigned damaged;   /* 1: tarn_depot_options.serve_damaged */
    unsigned mode;      /* 0: auto; else enum tarn_mode + 1 */
    unsigned direct;    /* enum drive_direct */
    unsigned engine;    /* enum task_engine_choice */
    unsigned log_level; /* enum base_log_level */
    const char *dump;   /* where a dump goes when one is asked for; NULL: nowhere */
    const char *config;
    bool daemon;
    const char *user;    /* to run as; NULL: the user who started it */
    const char *pidfile; /* NULL: none */
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
 * Say what is wrong with a set of options, beyond what the table checks.
 *
 * @param error, room  for one sentence
 * @return 0; -EINVAL
 */
base_must_check int serve_check_options(const struct serve_options *options, char *error, size_t room);

/** After how long without a request a connection is closed; 0: never. @param options  checked */
uint64_t serve_idle_timeout_ns(const struct serve_options *options);

/* What the program does about a server; each may be NULL. */
struct serve_hooks {
    void (*begin)(struct tarn_node *node); /* in a task of each thread, before its first request */
    void (*end)(struct tarn_node *node);   /* the same, after its last */
    /* How far the opening of a store is, as seglog_progress_function has it. */
    void (*progress)(void *arg, const char *store, const char *what, const char *unit, uint64_t done,
                     uint64_t all);
    void *progress_arg;
    base_log_sink_function *log_sink; /* NULL: standard error, as the lines are */
    void *log_arg;
};

/**
 * Open the stores, making files that there are not, and begin to serve. All threads that it starts
 * inherit the caller's signal mask.
 *
 * @param settings  with a checked struct serve_options; borrowed until serve_close()
 * @param pid       the process's number, for `stats`
 * @param hooks     borrowed until serve_close()
 * @return 0; what the node, the schedulers, the stores or the addresses say
 *
 * Plain threads. Blocks.
 */
base_must_check int serve_open(const struct base_settings *settings, uint64_t pid,
                               const struct serve_hooks *hooks, struct serve **ret_serve);

/** How many stores there are. */
uint32_t serve_store_count(const struct serve *serve);

/** One of them, if it is a depot. Until serve_close(). @return NULL: it is none */
struct tarn_depot *serve_depot(const struct serve *serve, uint32_t place);

/** Where a dump of it goes when one is asked for. @return NULL: nowhere */
const char *serve_dump_path(const struct serve *serve, uint32_t place);

/** The node of all that it does. Until serve_close(). */
struct tarn_node *serve_node(const struct serve *serve);

/**
 * Fit each depot to its drive and its index to its records: tarn_depot_extend(), then tarn_depot_shrink_index(). The log
 * says how it went. Blocks its caller, and nobody else.
 *
 * @param stops  asked now and then: whether to leave indexes as they are
 *
 * Plain threads.
 */
void serve_fit(struct serve *serve, bool (*stops)(void *arg), void *arg);

/**
 * Accept no more, let what has begun end, close the stores and free the server.
 *
 * @return 0; a store's error (what was acknowledged in device mode may not survive a power cut)
 *
 * Plain threads. Blocks.
 */
int serve_close(struct serve *serve);

#endif
