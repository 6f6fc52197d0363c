/* Frames: their headers, and the checksums of header and payload. */
#include "fabric/tcp/frame.h"
#include "fabric/tcp/tcp.h"
#include <errno.h>

/* format: README, "tcp", "Frames" */
enum {
    AT_CHECKSUM = 0,
    AT_BYTES = 4,
    AT_KIND = 8,
    AT_FLAGS = 9,
    AT_ZERO = 10,
    AT_VALUE = 12,
    AT_DONE = 16,
    AT_RECEIVED = 24,
    AT_DOMAIN = 32,
    AT_KEY = 40,
    AT_OFFSET = 48,
    AT_LENGTH = 56,
    AT_PAYLOAD_CHECKSUM = 64,
    AT_ZERO_AGAIN = 68,
};

enum { FLAG_LAST = 1, FLAG_PROBE = 2, FLAG_BULK = 4, FLAGS = FLAG_LAST | FLAG_PROBE | FLAG_BULK };

static uint32_t compute_checksum(const uint8_t *bytes)
{
    return base_crc32c(0, bytes + AT_BYTES, TCP_HEADER_BYTES - AT_BYTES);
}

void tcp_frame_seal(const struct tcp_frame *frame, bool checks, uint8_t *bytes)
{
    const uint32_t checksum = checks ? tcp_payload_checksum(bytes + TCP_HEADER_BYTES, frame->bytes) : 0;
    const int flags =
        (frame->last ? FLAG_LAST : 0) | (frame->probe ? FLAG_PROBE : 0) | (frame->bulk ? FLAG_BULK : 0);
    base_store_le32(bytes + AT_BYTES, frame->bytes);
    bytes[AT_KIND] = (uint8_t)frame->kind;
    bytes[AT_FLAGS] = (uint8_t)flags;
    base_store_le16(bytes + AT_ZERO, 0);
    base_store_le32(bytes + AT_VALUE, frame->value);
    base_store_le64(bytes + AT_DONE, frame->done);
    base_store_le64(bytes + AT_RECEIVED, frame->received);
    base_store_le64(bytes + AT_DOMAIN, frame->domain);
    base_store_le64(bytes + AT_KEY, frame->key);
    base_store_le64(bytes + AT_OFFSET, frame->offset);
    base_store_le64(bytes + AT_LENGTH, frame->length);
    base_store_le32(bytes + AT_PAYLOAD_CHECKSUM, checksum);
    base_store_le32(bytes + AT_ZERO_AGAIN, 0);
    base_store_le32(bytes + AT_CHECKSUM, compute_checksum(bytes));
}

int tcp_frame_open(const uint8_t *bytes, struct tcp_frame *ret_frame)
{
    uint32_t payload_bytes = base_load_le32(bytes + AT_BYTES);
    uint8_t kind = bytes[AT_KIND], flags = bytes[AT_FLAGS];
    if (payload_bytes > TCP_BULK_BYTES || kind < TCP_READ || kind > TCP_BYE || (flags & ~FLAGS) != 0 ||
        ((flags & FLAG_BULK) != 0 && kind != TCP_WRITE && kind != TCP_WRITE_NOTIFY) ||
        base_load_le16(bytes + AT_ZERO) != 0 || base_load_le32(bytes + AT_ZERO_AGAIN) != 0 ||
        base_load_le32(bytes + AT_CHECKSUM) != compute_checksum(bytes))
        return -EPROTO;
    *ret_frame = (struct tcp_frame){.kind = (enum tcp_frame_kind)kind,
                                    .last = (flags & FLAG_LAST) != 0,
                                    .probe = (flags & FLAG_PROBE) != 0,
                                    .bulk = (flags & FLAG_BULK) != 0,
                                    .bytes = payload_bytes,
                                    .value = base_load_le32(bytes + AT_VALUE),
                                    .done = base_load_le64(bytes + AT_DONE),
                                    .received = base_load_le64(bytes + AT_RECEIVED),
                                    .domain = base_load_le64(bytes + AT_DOMAIN),
                                    .key = base_load_le64(bytes + AT_KEY),
                                    .offset = base_load_le64(bytes + AT_OFFSET),
                                    .length = base_load_le64(bytes + AT_LENGTH),
                                    .checksum = base_load_le32(bytes + AT_PAYLOAD_CHECKSUM)};
    return 0;
}
