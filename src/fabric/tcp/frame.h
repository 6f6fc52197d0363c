/* Frames: what is sent once two sides have met. For the files of this folder. */
#ifndef FABRIC_TCP_FRAME_H
#define FABRIC_TCP_FRAME_H

#include "fabric/fabric_internal.h"

#define TCP_HEADER_BYTES  64
#define TCP_PAYLOAD_BYTES 16384 /* at most, of a frame */
#define TCP_FRAME_BYTES   (TCP_HEADER_BYTES + TCP_PAYLOAD_BYTES)

enum tcp_frame_kind {
    TCP_READ = 1,
    TCP_WRITE,
    TCP_WRITE_NOTIFY,
    TCP_CAS,
    TCP_FAA,
    TCP_SEND,
    TCP_DATA,  /* answers READ */
    TCP_WORD,  /* answers CAS and FAA */
    TCP_STATE, /* no more than what every frame says */
    TCP_BYE,   /* the last frame: enum tcp_farewell */
};

/* Why there are no more frames. */
enum tcp_farewell {
    TCP_STAYS,
    TCP_LEAVES,   /* it has disconnected */
    TCP_GIVES_UP, /* its side of the connection has failed */
    TCP_REFUSES,  /* a request that its regions do not grant */
};

/* What a frame says, but for its payload. README, "tcp", has the table. */
struct tcp_frame {
    enum tcp_frame_kind kind;
    bool last;      /* of the frames of one operation */
    bool probe;     /* the other side shall send something */
    uint32_t bytes; /* of payload */
    uint32_t value;
    uint64_t done;     /* requests of the other side that have been served */
    uint64_t received; /* its messages that have been received */
    uint64_t domain, key, offset, length;
};

/** Write the header before a payload that is there already. */
void tcp_frame_seal(const struct tcp_frame *frame, uint8_t *bytes);

/** Bytes of the frame that begins here, as its first 8 bytes say. @return 0: it is none */
uint32_t tcp_frame_bytes(const uint8_t *bytes);

/** Read a whole frame. @return 0; -EPROTO: it is none, or damaged */
base_must_check int tcp_frame_open(const uint8_t *bytes, struct tcp_frame *ret_frame);

#endif
