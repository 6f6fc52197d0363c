/* Servers that are measured as children on the first core: their beginning, their end, and what they have used. */
#ifndef LAB_MEMCACHE_SERVER_H
#define LAB_MEMCACHE_SERVER_H

#include "bench/protocol.h"
#include "lab/child.h"
#include "lab/command.h"
#include "lab/lab.h"
#include "memcache/client.h"

enum { LAB_MEMCACHE_PATH_ROOM = 4096 };

/* A server that was started here. */
struct lab_memcache_server {
    struct bench *bench;
    const char *name;
    enum bench_protocol protocol;
    const char *memory_group;   /* directory of a control group that it joins, or NULL */
    struct lab_command command; /* its program is looked for in $PATH */
    struct memcache_client_address address;
    struct lab_child child;
    bool running;
    bool asked; /* to end */
};

/** Add memcached's command line, with one thread, up to where it listens. @param megabytes  for items */
void lab_memcache_add_memcached(struct lab_command *command, uint64_t connections, uint64_t keys,
                                uint64_t megabytes);

/** Add redis', without persistence, up to where it listens. */
void lab_memcache_add_redis(struct lab_command *command, uint64_t connections);

/** Whether there is such a program, in $PATH unless it has a slash. */
bool lab_memcache_is_installed(const char *program);

/**
 * Start the command as a child on the first core, and wait until it answers at server->address.
 *
 * @return 0; -ECHILD (it has ended: what it said is repeated); -ETIMEDOUT; negative errno: said. It does not
 *         run then.
 */
base_must_check int lab_memcache_server_start(struct lab_memcache_server *server);

/** Ask it to end, if it runs, so that several end at once. */
void lab_memcache_server_ask_to_stop(struct lab_memcache_server *server);

/** Have it end, and wait for that; it is killed if it does not. @return 0; -ECHILD (it failed): said */
int lab_memcache_server_stop(struct lab_memcache_server *server);

/* What a process has used so far; differences mean something. */
struct lab_memcache_usage {
    uint64_t processor_ns; /* of all its threads, kernel included; those that have ended are left out */
    uint64_t read_bytes;   /* from drives */
};

/** @return 0; negative errno, as where /proc does not tell */
base_must_check int lab_memcache_usage_read(pid_t pid, struct lab_memcache_usage *ret_usage);

#endif
