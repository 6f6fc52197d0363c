/* Clients that a listener has not let in yet: which of them give way, and when. For listener.c, under its lock. */
#ifndef FABRIC_TCP_BACKLOG_H
#define FABRIC_TCP_BACKLOG_H

#include "base/base.h"

#define TCP_BACKLOG_PLACES 1024 /* the most clients of a stage, where there is memory for them */

/* How far a client has come. It only goes on to a later stage. */
enum tcp_stage {
    TCP_SILENT,   /* it has sent nothing; in the clear: no whole hello */
    TCP_SPEAKING, /* its TLS handshake has begun */
    TCP_PROVED,   /* the handshake has verified its certificate or its secret */
    TCP_GATHERS,  /* its hello has come, and further sockets are to join */
    TCP_STAGES
};

/* A client's part in a backlog. All zero is a client that is in none. */
struct tcp_waiting {
    struct base_list link; /* place in the list of its stage */
    enum tcp_stage stage;
    uint64_t host;        /* of tcp_host_of() */
    uint64_t deadline_ns; /* the moment at which its time at this stage is over */
    uint32_t host_count;  /* number of clients of its host at its stage, itself included */
};

/*
 * Each stage has places of its own, and a newcomer to a stage always gets one: so clients that have come less far push
 * out none that have come further, and those that have come further lock out no newcomer.
 */
struct tcp_backlog {
    uint64_t patience_ns; /* how long a client may stay at a stage */
    uint32_t places;      /* the most clients of a stage */
    struct {
        struct base_list clients; /* of struct tcp_waiting, in the order in which they came to the stage */
        uint32_t count;
    } stages[TCP_STAGES];
};

/** Begin without clients. */
void tcp_backlog_init(struct tcp_backlog *backlog, uint64_t patience_ns, uint32_t places);

/**
 * Put a client, with its host set, at a stage: a new one, or one that comes from an earlier stage.
 *
 * @return a client that was taken out to make room: the oldest of the host that has most clients at this stage, never
 *         the one that comes; NULL: there was room
 */
struct tcp_waiting *tcp_backlog_enter(struct tcp_backlog *backlog, struct tcp_waiting *client,
                                      enum tcp_stage stage, uint64_t now_ns);

/** Take a client out, if it is still in. */
void tcp_backlog_leave(struct tcp_backlog *backlog, struct tcp_waiting *client);

/** Take out a client whose time at its stage is over. @return NULL: there is none */
struct tcp_waiting *tcp_backlog_expire(struct tcp_backlog *backlog, uint64_t now_ns);

/** The moment at which the next client's time is over. @return UINT64_MAX: there are no clients */
uint64_t tcp_backlog_deadline(const struct tcp_backlog *backlog);

/**
 * A number for the host behind a peer's address (net_peer()): the same for all its ports. All addresses of a network of
 * 64 bits of IPv6 count as one host, because one machine may use them all.
 */
uint64_t tcp_host_of(const char *peer);

#endif
