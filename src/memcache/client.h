/*
 * A client of memcached's text protocol for tools: it reads a server's address, connects, asks one question, and finds
 * numbers in the answer to `stats`.
 *
 * Threading, yielding: every function blocks, and is for plain threads alone.
 */
#ifndef MEMCACHE_CLIENT_H
#define MEMCACHE_CLIENT_H

#include "base/base.h"
#include <sys/socket.h>

/* The address of a server. */
struct memcache_client_address {
    struct sockaddr_storage address;
    socklen_t bytes;
};

/**
 * Read an address: HOST:PORT, [IPv6]:PORT or unix:PATH.
 *
 * @return 0; -EINVAL (it is no address); -ENOENT (no such host). Blocks on the resolver.
 */
base_must_check int memcache_client_address_read(const char *text,
                                                 struct memcache_client_address *ret_address);

/** The address of a port at 127.0.0.1. */
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
 * @return 0; -EPIPE (the server closed); -ETIMEDOUT (no byte for 5 s); -EBADMSG (longer than `room`); errors of
 *         connecting
 */
base_must_check int memcache_client_ask(const struct memcache_client_address *address, const char *text,
                                        const char *end, char *ret_answer, size_t room);

/**
 * Find a statistic in an answer to `stats`.
 *
 * @return length of the value; 0: there is none
 */
size_t memcache_client_find_stat(const char *answer, const char *name, const char **ret_value);

/**
 * Ask a server for one number of `stats`.
 *
 * @return 0; -ENOENT (no such name); -EBADMSG (its value is no number); as memcache_client_ask()
 */
base_must_check int memcache_client_stat(const struct memcache_client_address *address, const char *name,
                                         uint64_t *ret_value);

#endif
