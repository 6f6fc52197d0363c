#include "rpc/wire.h"
#include <errno.h>
#include <tarn/rpc.h>

enum {
    AT_SEQUENCE = 0,
    AT_EPOCH = 8,
    AT_BYTES = 16,
    AT_TIME = 20,
    AT_LEASE = 24,
    AT_WORD = 28,
    AT_FLAGS = 32,
    AT_BODY_CRC = 40,
    AT_CRC = 44,
};

_Static_assert(AT_CRC + 4 == RPC_HEADER_BYTES, "a header ends with its checksum");

static uint32_t body_crc(const void *body, uint32_t bytes)
{
    return bytes == 0 ? 0 : base_crc32c(0, body, bytes);
}

/* Two fields in one store: what is loaded as a word soon should have been stored as one. */
static void store_two(uint8_t *bytes, uint32_t first, uint32_t second)
{
    base_store_le64(bytes, first | (uint64_t)second << 32);
}

void rpc_header_save(const struct rpc_header *header, const void *body, uint8_t *bytes)
{
    const uint32_t of_body = body_crc(body, header->bytes);
    base_store_le64(bytes + AT_SEQUENCE, header->sequence);
    base_store_le64(bytes + AT_EPOCH, header->epoch);
    store_two(bytes + AT_BYTES, header->bytes, header->time);
    store_two(bytes + AT_LEASE, header->lease_ms, header->word);
    store_two(bytes + AT_FLAGS, header->flags, 0); /* and zeros */
    store_two(bytes + AT_BODY_CRC, of_body, 0);
    store_two(bytes + AT_BODY_CRC, of_body, base_crc32c(0, bytes, AT_CRC));
}

bool rpc_header_load(const uint8_t *bytes, struct rpc_header *ret_header)
{
    if (base_crc32c(0, bytes, AT_CRC) != base_load_le32(bytes + AT_CRC))
        return false;
    *ret_header = (struct rpc_header){.sequence = base_load_le64(bytes + AT_SEQUENCE),
                                      .body_crc = base_load_le32(bytes + AT_BODY_CRC),
                                      .bytes = base_load_le32(bytes + AT_BYTES),
                                      .time = base_load_le32(bytes + AT_TIME),
                                      .epoch = base_load_le64(bytes + AT_EPOCH),
                                      .lease_ms = base_load_le32(bytes + AT_LEASE),
                                      .word = base_load_le32(bytes + AT_WORD),
                                      .flags = base_load_le32(bytes + AT_FLAGS)};
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
