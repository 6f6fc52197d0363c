/*
 * A client of memcached's text protocol for tools: where a server listens, connecting to it, one question and its
 * answer, and what `stats` says.
 *
 * Threading, yielding: every function blocks, and is for plain threads alone.
 */
#ifndef MEMCACHE_CLIENT_H
#define MEMCACHE_CLIENT_H

#include "base/base.h"
#include <sys/socket.h>

/* Where a server listens. */
struct memcache_client_address {
    struct sockaddr_storage address;
    socklen_t bytes;
};

/**
 * Read an address: HOST:PORT, [IPv6]:PORT or unix:PATH.
 *
 * @return 0; -EINVAL (it is none); -ENOENT (no such host). Blocks on the resolver.
 */
base_must_check int memcache_client_address_read(const char *text,
                                                 struct memcache_client_address *ret_address);

/** 127.0.0.1 and a port. */
struct memcache_client_address memcache_client_address_of_port(uint16_t port);

/**
 * Connect.
 *
 * @return the socket, which blocks; -ECONNREFUSED, -ETIMEDOUT (5 s) and the like
 */
base_must_check int memcache_client_connect(const struct memcache_client_address *address);

/**
 * Connect, send some text and receive the answer, up to and with `end`.
 *
 * @param ret_answer, room  the answer, with a NUL behind it
 * @return 0; -EPIPE (the server closed); -ETIMEDOUT (5 s without anything); -EBADMSG (longer than `room`); errors of
 *         connecting
 */
base_must_check int memcache_client_ask(const struct memcache_client_address *address, const char *text,
                                        const char *end, char *ret_answer, size_t room);

/**
 * Find a statistic in an answer to `stats`.
 *
 * @return length of the value; 0 if there is none
 */
size_t memcache_client_find_stat(const char *answer, const char *name, const char **ret_value);

/**
 * Ask a server for one number of `stats`.
 *
 * @return 0; -ENOENT (it has no such number); -EBADMSG (it is no number); as memcache_client_ask()
 */
base_must_check int memcache_client_stat(const struct memcache_client_address *address, const char *name,
                                         uint64_t *ret_value);

#endif
