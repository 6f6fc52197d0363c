/* Frames: the form of all that is sent after the hellos. For the files of this folder. */
#ifndef FABRIC_TCP_FRAME_H
#define FABRIC_TCP_FRAME_H

#include "fabric/fabric_internal.h"

#define TCP_HEADER_BYTES  72
#define TCP_PAYLOAD_BYTES 16384 /* the most payload bytes of a frame that is received whole */
#define TCP_FRAME_BYTES   (TCP_HEADER_BYTES + TCP_PAYLOAD_BYTES)

/* The most payload bytes of a frame whose payload is received where it belongs. With its header such a frame fits into one
 * segment of the loopback device, which has 65,483 bytes: a rest of its own would cost as much to send, and wake the
 * receiver once more. */
#define TCP_BULK_BYTES 61440

enum tcp_frame_kind {
    TCP_READ = 1,
    TCP_WRITE,
    TCP_WRITE_NOTIFY,
    TCP_CAS,
    TCP_FAA,
    TCP_SEND,
    TCP_DATA,  /* the answer to READ, or a part of it */
    TCP_WORD,  /* the answer to CAS and FAA */
    TCP_STATE, /* nothing but the fields that every frame has */
    TCP_BYE,   /* the last frame: enum tcp_farewell */
};

/* The reason why no more frames follow. */
enum tcp_farewell {
    TCP_STAYS,
    TCP_LEAVES,   /* the sender has disconnected */
    TCP_GIVES_UP, /* the sender's side of the connection has failed */
    TCP_REFUSES,  /* the sender refuses a request that its regions do not grant */
};

/* A frame's header. README, "tcp", has the table. */
struct tcp_frame {
    enum tcp_frame_kind kind;
    bool last;      /* it is the last frame of its operation */
    bool probe;     /* the other side is asked to send something */
    bool bulk;      /* the payload is received straight into the region */
    uint32_t bytes; /* bytes of payload */
    uint32_t value;
    uint64_t done; /* number of the receiver's requests that the sender has served since the beginning */
    uint64_t
        received; /* number of the receiver's messages that the sender's user has received since the beginning */
    uint64_t domain, key, offset, length;
    uint32_t checksum; /* CRC-32C of the payload; 0 where TLS protects it */
};

/** The checksum of a payload; many frames have none. */
static inline uint32_t tcp_payload_checksum(const uint8_t *payload, uint32_t bytes)
{
    return bytes == 0 ? 0 : base_crc32c(0, payload, bytes);
}

/** Write the header before a payload that is there already. @param checks  whether the payload gets a checksum */
void tcp_frame_seal(const struct tcp_frame *frame, bool checks, uint8_t *bytes);

/** Read a header. @return 0; -EPROTO: it is none, or damaged */
base_must_check int tcp_frame_open(const uint8_t *bytes, struct tcp_frame *ret_frame);

#endif
