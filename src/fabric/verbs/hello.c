/* Hellos, which travel as the connection manager's private data. README, "verbs", has the tables. */
#include "fabric/verbs/verbs.h"
#include <errno.h>
#include <string.h>

#define MARK     UINT32_C(0x6e726174) /* "tarn" */
#define VERSION  1
#define NONCE_AT 48 /* offset of the nonce of a VERBS_REST, behind the data */

/* The most bytes of private data of each kind. */
static const uint32_t data_bytes_max[] = {
    [VERBS_HELLO] = VERBS_REQUEST_DATA,
    [VERBS_PART] = VERBS_REQUEST_DATA,
    [VERBS_REST] = TARN_FABRIC_PRIVATE_BYTES_MAX - VERBS_REQUEST_DATA,
    [VERBS_WELCOME] = TARN_FABRIC_PRIVATE_BYTES_MAX,
    [VERBS_OUT_OF_MEMORY] = 0,
};

uint8_t verbs_hello_save(const struct verbs_hello *hello, uint8_t *bytes)
{
    const uint8_t count = hello->kind == VERBS_WELCOME ? VERBS_WELCOME_BYTES : VERBS_REQUEST_BYTES;
    base_assert(hello->data_bytes <= data_bytes_max[hello->kind]);
    memset(bytes, 0, count);
    base_store_le32(bytes, MARK);
    bytes[4] = VERSION;
    bytes[5] = (uint8_t)hello->kind;
    bytes[6] = (uint8_t)hello->data_bytes;
    if (hello->kind == VERBS_PART) {
        base_store_le64(bytes + 8, hello->nonce);
    } else {
        base_store_le32(bytes + 8, hello->receive_count);
        base_store_le32(bytes + 12, hello->receive_bytes);
        base_store_le64(bytes + 16, hello->domain);
    }
    memcpy(bytes + VERBS_HELLO_BYTES, hello->data, hello->data_bytes);
    if (hello->kind == VERBS_REST)
        base_store_le64(bytes + NONCE_AT, hello->nonce);
    return count;
}

int verbs_hello_load(const uint8_t *bytes, size_t count, struct verbs_hello *ret_hello)
{
    struct verbs_hello hello = {0};
    if (count < VERBS_REQUEST_BYTES || base_load_le32(bytes) != MARK || bytes[4] != VERSION)
        return -EPROTO;
    hello.kind = bytes[5];
    hello.data_bytes = bytes[6];
    if (hello.kind < VERBS_HELLO || hello.kind >= base_array_count(data_bytes_max) ||
        hello.data_bytes > data_bytes_max[hello.kind] || bytes[7] != 0 ||
        (hello.kind == VERBS_WELCOME && count < VERBS_WELCOME_BYTES))
        return -EPROTO;
    if (hello.kind == VERBS_PART) {
        hello.nonce = base_load_le64(bytes + 8);
    } else {
        hello.receive_count = base_load_le32(bytes + 8);
        hello.receive_bytes = base_load_le32(bytes + 12);
        hello.domain = base_load_le64(bytes + 16);
    }
    if (hello.kind == VERBS_REST)
        hello.nonce = base_load_le64(bytes + NONCE_AT);
    bool is_whole = hello.kind == VERBS_HELLO || hello.kind == VERBS_REST || hello.kind == VERBS_WELCOME;
    if (is_whole && (hello.receive_count == 0 || hello.receive_count > TARN_FABRIC_RECEIVE_COUNT_MAX ||
                     hello.receive_bytes == 0 || hello.receive_bytes > TARN_FABRIC_RECEIVE_BYTES_MAX))
        return -EPROTO;
    memcpy(hello.data, bytes + VERBS_HELLO_BYTES, hello.data_bytes);
    *ret_hello = hello;
    return 0;
}
