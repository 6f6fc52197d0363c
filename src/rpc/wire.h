/* Headers and hellos: README, "Formats". */
#ifndef RPC_WIRE_H
#define RPC_WIRE_H

#include "base/base.h"
#include <tarn/fabric.h>

#define RPC_MARK_BYTES   8 /* bytes of the mark before a result's header */
#define RPC_HEADER_BYTES 48
#define RPC_HELLO_BYTES  TARN_FABRIC_PRIVATE_BYTES_MAX

#define RPC_BY_REPLY 1U /* flag of a request: the result is wanted by reply */
#define RPC_WATCHED  1U /* flag of a result: the callee watches the connection */

enum rpc_message { RPC_REQUEST_IS_THERE = 1, RPC_RESULT_IS_THERE = 2 };

#define RPC_WANTED_BACK_BYTES 1 /* length of the message that asks for a connection's memory */

/** The value of a message. */
static inline uint32_t rpc_message_value(enum rpc_message kind, uint32_t slot)
{
    return (uint32_t)kind << 16 | slot;
}

struct rpc_header {
    uint64_t sequence;
    uint32_t body_crc;
    uint32_t bytes; /* bytes of the body */
    uint32_t time;  /* request: microseconds until the deadline; result: nanoseconds that the call took */
    uint64_t epoch;
    uint32_t lease_ms;
    uint32_t word; /* request: the method; result: the status */
    uint32_t flags;
};

/** Write a header, as RPC_HEADER_BYTES bytes. Its body_crc is computed from the body. */
void rpc_header_save(const struct rpc_header *header, const void *body, uint8_t *bytes);

/** The number in a header that may not be whole. */
static inline uint64_t rpc_header_sequence(const uint8_t *bytes)
{
    return base_load_le64(bytes);
}

/** Read a header. The bytes are a copy, because the other side can write the original. @return whether it is whole */
base_must_check bool rpc_header_load(const uint8_t *bytes, struct rpc_header *ret_header);

/** Whether a copy of a body matches its header. */
base_must_check bool rpc_body_is_whole(const struct rpc_header *header, const void *body);

#define RPC_ANY_WORKER UINT16_MAX

struct rpc_hello {
    uint16_t worker;     /* index of the wanted worker, or RPC_ANY_WORKER */
    uint16_t calls;      /* calls in flight of the side that connects */
    uint16_t calls_back; /* calls in flight of the side that accepts */
    uint32_t request_bytes, result_bytes;
    uint32_t workers;
    struct tarn_fabric_handle handle;
};

/** Write a hello, as RPC_HELLO_BYTES bytes. */
void rpc_hello_save(const struct rpc_hello *hello, uint8_t *bytes);

/** Read a hello of an unknown sender. @return 0; -EPROTO: it is none, or out of bounds */
base_must_check int rpc_hello_load(const void *bytes, uint32_t count, struct rpc_hello *ret_hello);

#endif
