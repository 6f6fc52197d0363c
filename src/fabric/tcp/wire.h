/* Both sides' work on frames, without a socket: wire.c shares out, target.c serves requests, initiator.c makes them. For the files of this folder. */
#ifndef FABRIC_TCP_WIRE_H
#define FABRIC_TCP_WIRE_H

#include "fabric/fabric_internal.h"
#include "fabric/tcp/frame.h"

struct tcp_domain;

#define TCP_WINDOW    128 /* the most requests of one side that are not served yet */
#define TCP_OUT_BYTES (TCP_BULK_BYTES + 4 * TCP_HEADER_BYTES) /* room for tcp_wire_fill() */

/* An answer that is still to be sent. */
struct tcp_answer {
    uint64_t number; /* number of the request that it answers */
    bool is_word;
    uint64_t word;
    uint64_t key, offset, left; /* a READ's range of which the bytes are still to be sent */
};

#define TCP_MESSAGE_HEAD_BYTES 16 /* bytes in front of each message in its slot */

/* Messages that wait for their receiver: `count` slots of `slot_bytes`. */
struct tcp_messages {
    uint8_t *memory;
    uint64_t slot_bytes;
    uint32_t count;
    uint32_t bytes;    /* the most bytes of a message */
    uint64_t arrived;  /* number of messages that have arrived whole */
    uint64_t received; /* number of messages that the user has received */
    uint64_t told;     /* number of received messages that the other side knows of */
    uint64_t part;     /* bytes of the next message that have arrived */
    bool parted;       /* a part of the next message has arrived, and more will come */
};

#define TCP_LARGE_BYTES                                                                                      \
    8192 /* payload bytes from which on a frame is large: it passes the turn to the next socket */
#define TCP_SOCKETS_MAX 8

/* A frame whose payload is received where it belongs, piece by piece. */
struct tcp_arrival {
    struct tcp_frame frame;
    uint32_t left;     /* bytes of the payload that have not arrived; 0: no such frame is under way */
    uint32_t checksum; /* CRC-32C of those that have */
};

/* Room for the next bytes of such a payload. */
struct tcp_room {
    uint8_t *memory;
    size_t bytes;
    struct tcp_region *region; /* the region that it lies in; NULL: it is an operation's */
};

/*
 * All that two sides have in flight. The connection's lock guards it; code that changes it looks afterwards at
 * tcp_wire_has_output() and wakes the tasks that wait.
 */
struct tcp_wire {
    struct tcp_domain *domain;  /* the domain that the other side has access to */
    int error;                  /* the error that ended the connection; 0: it lives */
    const char *doing;          /* the step that failed, for the log */
    enum tcp_farewell farewell; /* the reason in the last frame, sent or to be sent */
    bool farewell_said;
    uint64_t refused; /* number of the refused request, with TCP_REFUSES */
    uint32_t sockets; /* number of sockets that frames take in turn; 0 and 1: there are no turns */
    uint32_t in_turn, out_turn;
    bool in_tls; /* TLS protects all bytes, so payloads have no checksums */
    struct tcp_arrival arrival;
    bool large_came; /* bytes of a large frame have come since connection.c has reset this */
    bool
        header_next; /* the latest frame was larger than those that are received whole: so may the next one be */
    bool request_next; /* the next frame to be sent is a request, if there is one, and not an answer */

    /* the target: requests of the other side */
    uint64_t requests; /* number of requests that were taken whole */
    uint64_t done_told;
    struct tcp_answer answers[TCP_WINDOW];
    uint32_t answers_first, answers_count;
    struct tcp_messages messages;
    bool probe_due, reply_due;

    /* the initiator: our own */
    struct fabric_queue waiting;    /* operations that wait for credit or for earlier ones */
    struct fabric_queue posted;     /* operations to be sent; a part of the first may have been sent */
    struct fabric_queue flight;     /* operations that were sent and are not done */
    struct fabric_queue done;       /* operations that are done, for their user to finish */
    struct tarn_fabric_op *culprit; /* the operation that the other side has refused, or NULL */
    uint64_t begun;                 /* operations moved out of `waiting` since the beginning */
    uint64_t sent;
    uint64_t served;    /* operations that the other side has served since the beginning */
    uint64_t out_bytes; /* bytes sent of the first operation in `posted` */
    uint64_t in_bytes;  /* bytes received for the first operation in flight that has an answer */
    bool answered;      /* that operation's answer has come whole */
    bool fence_set;     /* the first waiting operation has a fence, and begins when `served` is `fence_at` */
    uint64_t fence_at;
    uint64_t reads_begun; /* `begun` when the latest READ had begun */
    uint64_t messages_begun;
    uint64_t messages_received; /* messages that the other side's user has received since the beginning */
    uint32_t peer_messages;     /* the most messages that may wait at the other side */
    uint32_t peer_message_bytes;
};

/** Begin, with the memory of `messages` set and the sizes that the peer's hello has. */
void tcp_wire_begin(struct tcp_wire *wire, struct tcp_domain *domain, uint32_t peer_messages,
                    uint32_t peer_message_bytes);

/**
 * End the connection with an error, unless it has ended: none of the peer's requests is served from now on.
 *
 * @param farewell  the reason that the peer gets
 */
void tcp_wire_die(struct tcp_wire *wire, int error, const char *doing, enum tcp_farewell farewell);

/** End the connection: a frame breaks the protocol. */
void tcp_wire_refuse(struct tcp_wire *wire);

/** Take the whole frames that have come by the socket whose turn it is, up to the one that passes the turn. @return bytes
 * taken */
size_t tcp_wire_take(struct tcp_wire *wire, const uint8_t *bytes, size_t count);

/**
 * Find room into which the next bytes may be received at once, because they are payload that belongs there. The caller
 * does not yield, and keeps the lock, until it has called tcp_wire_room_put().
 *
 * @return false: there is none, and the next bytes are for tcp_wire_take()
 */
bool tcp_wire_room_get(struct tcp_wire *wire, struct tcp_room *ret_room);

/** Give room back, with the bytes that were received into it. @param bytes  0 is allowed */
void tcp_wire_room_put(struct tcp_wire *wire, const struct tcp_room *room, size_t bytes);

/** Whether tcp_wire_fill() would give any bytes. */
bool tcp_wire_has_output(const struct tcp_wire *wire);

/** Fill in the frames to be sent next, by the socket that has the turn at the beginning. @param out  room for
 * TCP_OUT_BYTES @return bytes to send */
size_t tcp_wire_fill(struct tcp_wire *wire, uint8_t *out);

/** Serve a request's frame. */
void tcp_target_take(struct tcp_wire *wire, const struct tcp_frame *frame, const uint8_t *payload);

/** Begin to serve a WRITE's frame whose payload is received straight into its region. */
void tcp_target_begin(struct tcp_wire *wire, const struct tcp_frame *frame);

/** The room for that payload from a byte on; its region is to be given back by tcp_region_put(). @return false: the region has
 * gone, and the request is refused */
bool tcp_target_room_get(struct tcp_wire *wire, const struct tcp_frame *frame, uint64_t at,
                         struct tcp_room *ret_room);

/** Serve a WRITE's frame whose bytes are stored. */
void tcp_target_end(struct tcp_wire *wire, const struct tcp_frame *frame);

/** Fill in the next frame of the answers. @param room  of `to`, for a frame at least @return its bytes; 0: there is none */
size_t tcp_target_fill(struct tcp_wire *wire, uint8_t *to, size_t room);

/** Number of the other side's requests that are served. */
uint64_t tcp_target_done(const struct tcp_wire *wire);

/** Whether there is a message that was not received. */
bool tcp_target_has_message(const struct tcp_wire *wire);

/** The next message. @return NULL: there is none; its bytes stay until tcp_target_received() */
const uint8_t *tcp_target_message(const struct tcp_wire *wire, struct tarn_fabric_message *ret_message);

/** Release the message that tcp_target_message() has returned. */
void tcp_target_received(struct tcp_wire *wire);

/** Whether the other side should be told of messages that were received: it has no more credit left than that. */
bool tcp_target_owes_credit(const struct tcp_wire *wire);

/** Begin an operation. @return 0; -EMSGSIZE */
base_must_check int tcp_initiator_post(struct tcp_wire *wire, struct tarn_fabric_op *op);

/** Take the counts of the other side, and an answer; of DATA its beginning alone. @param payload  not for DATA */
void tcp_initiator_progress(struct tcp_wire *wire, const struct tcp_frame *frame, const uint8_t *payload);

/** The room for DATA's payload from a byte on. */
void tcp_initiator_room(const struct tcp_wire *wire, uint64_t at, struct tcp_room *ret_room);

/** Take DATA, whose payload has come whole. */
void tcp_initiator_end(struct tcp_wire *wire, const struct tcp_frame *frame);

/** Take the refusal of one of this side's requests. */
void tcp_initiator_refused(struct tcp_wire *wire, uint64_t number);

/** Fill in the next frame of the requests. @param room  of `to`, for a frame at least @return its bytes; 0: there is
 * none */
size_t tcp_initiator_fill(struct tcp_wire *wire, uint8_t *to, size_t room);

/** Whether a request may be sent. */
bool tcp_initiator_has_output(const struct tcp_wire *wire);

/** Write the header of a frame whose payload is there, with the counts of both directions. @return the frame's bytes */
size_t tcp_wire_seal(struct tcp_wire *wire, struct tcp_frame *frame, uint8_t *to);

/** Payload bytes of the next of several frames. @param offset  in the region, where no lane may be cut @param bytes_max  of
 * a payload of that kind @param room  for the frame */
uint32_t tcp_wire_part(uint64_t left, uint64_t offset, uint64_t bytes_max, size_t room);

#endif
