/* Headers, marks and hellos of calls, as bytes; README.md has the tables. */
#include "rpc/wire.h"
#include <errno.h>
#include <tarn/rpc.h>

enum {
    AT_SEQUENCE = 0,
    AT_EPOCH = 8,
    AT_BYTES = 16, /* followed by the time */
    AT_LEASE = 24, /* followed by the word */
    AT_FLAGS = 32, /* followed by zeros */
    AT_BODY_CRC = 40,
    AT_CRC = 44,
};

_Static_assert(AT_CRC + 4 == RPC_HEADER_BYTES, "a header ends with its checksum");

static uint32_t body_crc(const void *body, uint32_t bytes)
{
    return bytes == 0 ? 0 : base_crc32c(0, body, bytes);
}

static uint64_t join_halves(uint32_t first, uint32_t second)
{
    return first | (uint64_t)second << 32;
}

/* A header as words, which stay in registers; an array would go through memory. */
struct words {
    uint64_t sequence, epoch, bytes_time, lease_word, flags;
    uint32_t body_crc;
};

/* Compute the CRC of all but the last four bytes. @param bytes  the same words as they are stored */
static inline __attribute__((always_inline)) uint32_t header_crc(struct words words, const uint8_t *bytes)
{
    if (!base_crc32c_has_steps())
        return base_crc32c(0, bytes, AT_CRC);
    uint32_t crc = base_crc32c_step64(BASE_CRC32C_BEGIN, words.sequence);
    crc = base_crc32c_step64(crc, words.epoch);
    crc = base_crc32c_step64(crc, words.bytes_time);
    crc = base_crc32c_step64(crc, words.lease_word);
    crc = base_crc32c_step64(crc, words.flags);
    return ~base_crc32c_step32(crc, words.body_crc);
}

/* Store whole words, because the other side loads them as words soon after. */
void rpc_header_save(const struct rpc_header *header, const void *body, uint8_t *bytes)
{
    const struct words words = {.sequence = header->sequence,
                                .epoch = header->epoch,
                                .bytes_time = join_halves(header->bytes, header->time),
                                .lease_word = join_halves(header->lease_ms, header->word),
                                .flags = header->flags, /* and zeros */
                                .body_crc = body_crc(body, header->bytes)};
    base_store_le64(bytes + AT_SEQUENCE, words.sequence);
    base_store_le64(bytes + AT_EPOCH, words.epoch);
    base_store_le64(bytes + AT_BYTES, words.bytes_time);
    base_store_le64(bytes + AT_LEASE, words.lease_word);
    base_store_le64(bytes + AT_FLAGS, words.flags);
    base_store_le64(bytes + AT_BODY_CRC, words.body_crc);
    base_store_le64(bytes + AT_BODY_CRC, join_halves(words.body_crc, header_crc(words, bytes)));
}

bool rpc_header_load(const uint8_t *bytes, struct rpc_header *ret_header)
{
    const uint64_t crcs = base_load_le64(bytes + AT_BODY_CRC);
    const struct words words = {.sequence = base_load_le64(bytes + AT_SEQUENCE),
                                .epoch = base_load_le64(bytes + AT_EPOCH),
                                .bytes_time = base_load_le64(bytes + AT_BYTES),
                                .lease_word = base_load_le64(bytes + AT_LEASE),
                                .flags = base_load_le64(bytes + AT_FLAGS),
                                .body_crc = (uint32_t)crcs};
    if (header_crc(words, bytes) != crcs >> 32)
        return false;
    *ret_header = (struct rpc_header){.sequence = words.sequence,
                                      .body_crc = words.body_crc,
                                      .bytes = (uint32_t)words.bytes_time,
                                      .time = (uint32_t)(words.bytes_time >> 32),
                                      .epoch = words.epoch,
                                      .lease_ms = (uint32_t)words.lease_word,
                                      .word = (uint32_t)(words.lease_word >> 32),
                                      .flags = (uint32_t)words.flags};
    return true;
}

bool rpc_body_is_whole(const struct rpc_header *header, const void *body)
{
    return body_crc(body, header->bytes) == header->body_crc;
}

/* ---- hellos ------------------------------------------------------------------------------------- */

#define HELLO_MARK UINT32_C(0x6c616374) /* "tcal" */
#define VERSION    1

enum {
    AT_VERSION = 4,
    AT_WORKER = 6,
    AT_CALLS = 8,
    AT_CALLS_BACK = 10,
    AT_REQUEST_BYTES = 12,
    AT_RESULT_BYTES = 16,
    AT_WORKERS = 20,
    AT_HANDLE = 24,
};

_Static_assert(AT_HANDLE + TARN_FABRIC_HANDLE_BYTES == RPC_HELLO_BYTES, "a hello ends with the handle");

void rpc_hello_save(const struct rpc_hello *hello, uint8_t *bytes)
{
    base_store_le32(bytes, HELLO_MARK);
    base_store_le16(bytes + AT_VERSION, VERSION);
    base_store_le16(bytes + AT_WORKER, hello->worker);
    base_store_le16(bytes + AT_CALLS, hello->calls);
    base_store_le16(bytes + AT_CALLS_BACK, hello->calls_back);
    base_store_le32(bytes + AT_REQUEST_BYTES, hello->request_bytes);
    base_store_le32(bytes + AT_RESULT_BYTES, hello->result_bytes);
    base_store_le32(bytes + AT_WORKERS, hello->workers);
    tarn_fabric_handle_save(&hello->handle, bytes + AT_HANDLE);
}

static bool is_count(uint32_t calls)
{
    return calls <= TARN_RPC_CALLS_MAX && base_is_power_of_two(calls);
}

static bool is_length(uint32_t bytes)
{
    return bytes <= TARN_RPC_BYTES_MAX && bytes % 8 == 0;
}

int rpc_hello_load(const void *bytes, uint32_t count, struct rpc_hello *ret_hello)
{
    const uint8_t *from = bytes;
    struct rpc_hello hello;
    if (count != RPC_HELLO_BYTES || base_load_le32(from) != HELLO_MARK ||
        base_load_le16(from + AT_VERSION) != VERSION ||
        tarn_fabric_handle_load(from + AT_HANDLE, &hello.handle) != 0)
        return -EPROTO;
    hello.worker = base_load_le16(from + AT_WORKER);
    hello.calls = base_load_le16(from + AT_CALLS);
    hello.calls_back = base_load_le16(from + AT_CALLS_BACK);
    hello.request_bytes = base_load_le32(from + AT_REQUEST_BYTES);
    hello.result_bytes = base_load_le32(from + AT_RESULT_BYTES);
    hello.workers = base_load_le32(from + AT_WORKERS);
    if (!is_count(hello.calls) || (hello.calls_back != 0 && !is_count(hello.calls_back)) ||
        !is_length(hello.request_bytes) || !is_length(hello.result_bytes) ||
        hello.workers > TARN_RPC_WORKERS_MAX)
        return -EPROTO;
    *ret_hello = hello;
    return 0;
}
