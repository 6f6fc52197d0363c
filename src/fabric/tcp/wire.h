/* Both sides' work on frames, without a socket: wire.c shares out, target.c serves requests, initiator.c makes them. For the files of this folder. */
#ifndef FABRIC_TCP_WIRE_H
#define FABRIC_TCP_WIRE_H

#include "fabric/fabric_internal.h"
#include "fabric/tcp/frame.h"

struct tcp_domain;

#define TCP_WINDOW    128                                      /* requests that are not served yet, at most */
#define TCP_OUT_BYTES (2 * TCP_FRAME_BYTES + TCP_HEADER_BYTES) /* room for tcp_wire_fill() */

/* An answer that is to be sent. */
struct tcp_answer {
    uint64_t number; /* of the request */
    bool is_word;
    uint64_t word;
    uint64_t key, offset, left; /* of a READ: what is still to be sent */
};

#define TCP_MESSAGE_HEAD_BYTES 16 /* in front of each in its slot */

/* Messages that wait for their receiver: `count` slots of `slot_bytes`. */
struct tcp_messages {
    uint8_t *memory;
    uint64_t slot_bytes;
    uint32_t count;
    uint32_t bytes;    /* the longest */
    uint64_t arrived;  /* whole */
    uint64_t received; /* by their user */
    uint64_t told;     /* of those, the other side knows */
    uint64_t part;     /* bytes of the next one that are there */
    bool parted;       /* some are, and more will come */
};

#define TCP_LARGE_BYTES 8192 /* of payload: a frame that passes the turn to the next socket */
#define TCP_SOCKETS_MAX 8

/*
 * What two sides have in flight. The connection's lock guards it; code that changes it looks afterwards at
 * tcp_wire_has_output() and wakes the tasks that wait.
 */
struct tcp_wire {
    struct tcp_domain *domain;  /* that the other side gets at */
    int error;                  /* what it died of */
    const char *doing;          /* when it died, for the log */
    enum tcp_farewell farewell; /* to be said, or said */
    bool farewell_said;
    uint64_t refused; /* the number of the request that was, with TCP_REFUSES */
    uint32_t sockets; /* that frames go by in turn; 0 and 1: there is no such */
    uint32_t in_turn, out_turn;

    /* the target: requests of the other side */
    uint64_t requests; /* taken whole */
    uint64_t done_told;
    struct tcp_answer answers[TCP_WINDOW];
    uint32_t answers_first, answers_count;
    struct tcp_messages messages;
    bool probe_due, reply_due;

    /* the initiator: our own */
    struct fabric_queue waiting;    /* for credit, or for those before */
    struct fabric_queue posted;     /* to be sent; of the first a part may have been */
    struct fabric_queue flight;     /* sent */
    struct fabric_queue done;       /* for their user to finish */
    struct tarn_fabric_op *culprit; /* was refused */
    uint64_t begun;                 /* that have left `waiting` */
    uint64_t sent;
    uint64_t served;    /* of those */
    uint64_t out_bytes; /* of the first posted, sent */
    uint64_t in_bytes;  /* of the first in flight that is answered, come */
    bool answered;      /* that one is, wholly */
    bool fence_set;     /* the first waiting has a fence, and goes when `served` is `fence_at` */
    uint64_t fence_at;
    uint64_t messages_begun;
    uint64_t messages_received; /* by the other side's user */
    uint32_t peer_messages;     /* that may wait there */
    uint32_t peer_message_bytes;
};

/** Begin: with the memory of `messages` set, and what the peer has said of itself. */
void tcp_wire_begin(struct tcp_wire *wire, struct tcp_domain *domain, uint32_t peer_messages,
                    uint32_t peer_message_bytes);

/**
 * It dies of an error, unless it is dead: nothing of the peer's is served from now on.
 *
 * @param farewell  what the peer shall be told
 */
void tcp_wire_die(struct tcp_wire *wire, int error, const char *doing, enum tcp_farewell farewell);

/** Take what has come by the socket whose turn it is, at most up to where that passes. @return how much of it was
 * whole frames */
size_t tcp_wire_take(struct tcp_wire *wire, const uint8_t *bytes, size_t count);

/** Whether tcp_wire_fill() would give something. */
bool tcp_wire_has_output(const struct tcp_wire *wire);

/** What is to be sent next, by the socket whose turn it was before. @param out  room for TCP_OUT_BYTES
 * @return its bytes */
size_t tcp_wire_fill(struct tcp_wire *wire, uint8_t *out);

/** Serve a request. */
void tcp_target_take(struct tcp_wire *wire, const struct tcp_frame *frame, const uint8_t *payload);

/** A part of an answer. @param to  room for a frame @return its bytes; 0: there is none */
size_t tcp_target_fill(struct tcp_wire *wire, uint8_t *to);

/** Requests of the other side that are served. */
uint64_t tcp_target_done(const struct tcp_wire *wire);

/** The next message. @return NULL: there is none; its bytes stay until tcp_target_received() */
const uint8_t *tcp_target_message(const struct tcp_wire *wire, struct tarn_fabric_message *ret_message);

/** It was received. */
void tcp_target_received(struct tcp_wire *wire);

/** Whether the other side should be told of messages that were received: it has little credit left. */
bool tcp_target_owes_credit(const struct tcp_wire *wire);

/** Begin an operation. @return 0; -EMSGSIZE */
base_must_check int tcp_initiator_post(struct tcp_wire *wire, struct tarn_fabric_op *op);

/** What the other side has served and received. */
void tcp_initiator_progress(struct tcp_wire *wire, const struct tcp_frame *frame, const uint8_t *payload);

/** A request of ours was refused. */
void tcp_initiator_refused(struct tcp_wire *wire, uint64_t number);

/** A part of a request. @param to  room for a frame @return its bytes; 0: there is none */
size_t tcp_initiator_fill(struct tcp_wire *wire, uint8_t *to);

/** Whether a request may be sent. */
bool tcp_initiator_has_output(const struct tcp_wire *wire);

/** Take a frame's own state: what it tells of both directions. */
void tcp_wire_head(struct tcp_wire *wire, struct tcp_frame *frame);

#endif
