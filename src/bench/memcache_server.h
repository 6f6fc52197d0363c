/*
 * Servers for `tarn bench memcache`: where one listens, starting one as a child on the first core, talking
 * to it, and what it has used.
 */
#ifndef BENCH_MEMCACHE_SERVER_H
#define BENCH_MEMCACHE_SERVER_H

#include "bench/bench_internal.h"
#include "bench/child.h"
#include "bench/command.h"
#include "bench/memcache_protocol.h"
#include <sys/socket.h>

enum { BENCH_MEMCACHE_PATH_ROOM = 4096 };

/* Where a server listens. */
struct bench_memcache_address {
    struct sockaddr_storage address;
    socklen_t bytes;
};

/**
 * Read an address: HOST:PORT, [IPv6]:PORT or unix:PATH.
 *
 * @return 0; -EINVAL (it is none); -ENOENT (no such host). Blocks on the resolver.
 */
base_must_check int bench_memcache_address_read(const char *text, struct bench_memcache_address *ret_address);

/** 127.0.0.1 and a port. */
struct bench_memcache_address bench_memcache_address_of_port(uint16_t port);

/**
 * Connect.
 *
 * @return the socket, which blocks; -ECONNREFUSED, -ETIMEDOUT (5 s) and the like
 */
base_must_check int bench_memcache_connect(const struct bench_memcache_address *address);

/* A server that was started here. */
struct bench_memcache_server {
    struct bench *bench;
    const char *name;
    enum bench_memcache_protocol protocol;
    const char *memory_group;     /* directory of a control group that it joins, or NULL */
    struct bench_command command; /* its program is looked for in $PATH */
    struct bench_memcache_address address;
    struct bench_child child;
    bool running;
    bool asked; /* to end */
};

/** Add memcached's command line, with one thread, up to where it listens. @param megabytes  for items */
void bench_memcache_add_memcached(struct bench_command *command, uint64_t connections, uint64_t keys,
                                  uint64_t megabytes);

/** Add redis', without persistence, up to where it listens. */
void bench_memcache_add_redis(struct bench_command *command, uint64_t connections);

/** Whether there is such a program, in $PATH unless it has a slash. */
bool bench_memcache_is_installed(const char *program);

/**
 * Start the command as a child on the first core, and wait until it answers at server->address.
 *
 * @return 0; -ECHILD (it has ended: what it said is repeated); -ETIMEDOUT; negative errno: said. It does not
 *         run then.
 */
base_must_check int bench_memcache_server_start(struct bench_memcache_server *server);

/** Ask it to end, if it runs, so that several end at once. */
void bench_memcache_server_ask_to_stop(struct bench_memcache_server *server);

/** Have it end, and wait for that; it is killed if it does not. @return 0; -ECHILD (it failed): said */
int bench_memcache_server_stop(struct bench_memcache_server *server);

/* What a process has used so far; differences mean something. */
struct bench_memcache_usage {
    uint64_t processor_ns; /* of all its threads, kernel included; those that have ended are left out */
    uint64_t read_bytes;   /* from drives */
};

/** @return 0; negative errno, as where /proc does not tell */
base_must_check int bench_memcache_usage_read(pid_t pid, struct bench_memcache_usage *ret_usage);

/**
 * Find a statistic in what a server has answered.
 *
 * @param answer  to `stats`, as it came
 * @return length of the value; 0 if there is none
 */
size_t bench_memcache_find_stat(const char *answer, const char *name, const char **ret_value);

/**
 * Ask a server that speaks memcached's text for one number of `stats`.
 *
 * @return 0; -ENOENT (it has no such number); -EBADMSG; errors of sockets
 */
base_must_check int bench_memcache_stat(const struct bench_memcache_address *address, const char *name,
                                        uint64_t *ret_value);

#endif
