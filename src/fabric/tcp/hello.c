/* Hellos, which two sides exchange before there are frames, and the proofs that a side knows the secret. */
#include "fabric/tcp/hello.h"
#include "fabric/tcp/tcp.h"
#include "fabric/tcp/tls.h"
#include "fabric/tcp/wire.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

/* format: README, "tcp", "Hellos" */
enum {
    AT_MARK = 0,
    AT_VERSION = 4,
    AT_KIND = 6,
    AT_RECEIVE_COUNT = 8,
    AT_RECEIVE_BYTES = 12,
    AT_DATA_BYTES = 16,
    AT_NUMBER = 20,
    AT_NONCE = 24,
    AT_PROOF = 56,
    AT_DATA = 88,
    AT_CHECKSUM = 144,
};

_Static_assert(AT_DATA + TARN_FABRIC_PRIVATE_BYTES_MAX == AT_CHECKSUM, "the table has no gaps");
_Static_assert(AT_CHECKSUM + 4 == TCP_HELLO_BYTES, "the table has no gaps");

#define MARK    UINT32_C(0x6e726174) /* "tarn" */
#define VERSION 2

int tcp_hello_make(enum tcp_hello_kind kind, const struct tarn_fabric_connect_options *options,
                   struct tcp_hello *ret_hello)
{
    struct tcp_hello hello = {.kind = kind};
    if (options != NULL) {
        hello.receive_count = options->receive_count;
        hello.receive_bytes = options->receive_bytes;
        hello.data_bytes = options->data_bytes;
        if (options->data_bytes > 0)
            memcpy(hello.data, options->data, options->data_bytes);
    }
    if (RAND_bytes(hello.nonce, sizeof(hello.nonce)) != 1)
        return -EIO;
    *ret_hello = hello;
    return 0;
}

void tcp_hello_save(const struct tcp_hello *hello, uint8_t *bytes)
{
    base_store_le32(bytes + AT_MARK, MARK);
    base_store_le16(bytes + AT_VERSION, VERSION);
    base_store_le16(bytes + AT_KIND, (uint16_t)hello->kind);
    base_store_le32(bytes + AT_RECEIVE_COUNT, hello->receive_count);
    base_store_le32(bytes + AT_RECEIVE_BYTES, hello->receive_bytes);
    base_store_le32(bytes + AT_DATA_BYTES, hello->data_bytes);
    base_store_le32(bytes + AT_NUMBER, hello->number);
    memcpy(bytes + AT_NONCE, hello->nonce, sizeof(hello->nonce));
    memcpy(bytes + AT_PROOF, hello->proof, sizeof(hello->proof));
    memcpy(bytes + AT_DATA, hello->data, sizeof(hello->data));
    base_store_le32(bytes + AT_CHECKSUM, base_crc32c(0, bytes, AT_CHECKSUM));
}

static int refusal_error(uint32_t refusal)
{
    switch (refusal) {
    case TCP_REJECTED:
        return -ECONNREFUSED;
    case TCP_OUT_OF_MEMORY:
        return -ENOBUFS;
    case TCP_WRONG_SECRET:
        return -EACCES;
    default:
        return -EPROTO;
    }
}

/* The highest number that a kind may have. */
static uint32_t most_of(enum tcp_hello_kind kind)
{
    return kind == TCP_HELLO || kind == TCP_JOIN ? TCP_SOCKETS_MAX - 1 : 0;
}

int tcp_hello_load(const uint8_t *bytes, enum tcp_hello_kind kind, struct tcp_hello *ret_hello)
{
    struct tcp_hello hello = {.kind = (enum tcp_hello_kind)base_load_le16(bytes + AT_KIND),
                              .receive_count = base_load_le32(bytes + AT_RECEIVE_COUNT),
                              .receive_bytes = base_load_le32(bytes + AT_RECEIVE_BYTES),
                              .data_bytes = base_load_le32(bytes + AT_DATA_BYTES),
                              .number = base_load_le32(bytes + AT_NUMBER)};
    if (base_load_le32(bytes + AT_CHECKSUM) != base_crc32c(0, bytes, AT_CHECKSUM) ||
        base_load_le32(bytes + AT_MARK) != MARK || base_load_le16(bytes + AT_VERSION) != VERSION)
        return -EPROTO;
    if (hello.kind == TCP_REFUSAL)
        return refusal_error(hello.number);
    if (hello.kind == TCP_JOIN && kind == TCP_HELLO)
        kind = TCP_JOIN; /* either kind may come first */
    if (hello.kind != kind || hello.number > most_of(kind) || (kind == TCP_JOIN && hello.number == 0) ||
        hello.data_bytes > TARN_FABRIC_PRIVATE_BYTES_MAX)
        return -EPROTO;
    bool tells = kind == TCP_HELLO || kind == TCP_WELCOME;
    if (tells && (hello.receive_count == 0 || hello.receive_count > TARN_FABRIC_RECEIVE_COUNT_MAX ||
                  hello.receive_bytes == 0 || hello.receive_bytes > TARN_FABRIC_RECEIVE_BYTES_MAX))
        return -EPROTO;
    memcpy(hello.nonce, bytes + AT_NONCE, sizeof(hello.nonce));
    memcpy(hello.proof, bytes + AT_PROOF, sizeof(hello.proof));
    memcpy(hello.data, bytes + AT_DATA, sizeof(hello.data));
    *ret_hello = hello;
    return 0;
}

enum tcp_refusal tcp_refusal_of(int error)
{
    return error == -ENOMEM ? TCP_OUT_OF_MEMORY : TCP_REJECTED;
}

void tcp_hello_refuse(int fd, struct tcp_tls *tls, enum tcp_refusal why)
{
    const struct tcp_hello hello = {.kind = TCP_REFUSAL, .number = why};
    uint8_t bytes[TCP_HELLO_BYTES];
    tcp_hello_save(&hello, bytes);
    tcp_write_last(fd, tls, bytes, sizeof(bytes));
    tcp_tls_close(tls);
    (void)close(fd);
}

/* ---- the secret --------------------------------------------------------------------------------- */

static int log_refusal(struct base_log *log, const char *path, const char *reason, int error)
{
    char quoted[BASE_LOG_ROOM_MIN];
    base_error(log, "cannot use file of secrets", "file=%s reason=\"%s\"",
               base_log_quote(quoted, sizeof(quoted), path, strlen(path)), reason);
    return error;
}

int tcp_private_open(struct base_log *log, const char *path, struct stat *ret_file)
{
    int error = 0, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return log_refusal(log, path, strerrordesc_np(errno), -errno);
    if (fstat(fd, ret_file) != 0)
        error = log_refusal(log, path, strerrordesc_np(errno), -errno);
    else if (!S_ISREG(ret_file->st_mode) || (ret_file->st_mode & (S_IRWXG | S_IRWXO)) != 0)
        error = log_refusal(log, path, "others may get at it: chmod 600", -EACCES);
    if (error == 0)
        return fd;
    (void)close(fd);
    return error;
}

int tcp_secret_read(struct base_log *log, const char *path, struct tcp_secret *ret_secret)
{
    struct tcp_secret secret = {0};
    struct stat file = {0};
    int fd = tcp_private_open(log, path, &file);
    if (fd < 0)
        return fd;
    ssize_t bytes = file.st_size > TCP_SECRET_BYTES_MAX ? 0 : read(fd, secret.text, sizeof(secret.text));
    int error = errno;
    (void)close(fd);
    if (bytes < 0)
        return log_refusal(log, path, strerrordesc_np(error), -error);
    while (bytes > 0 && (secret.text[bytes - 1] == '\n' || secret.text[bytes - 1] == '\r'))
        bytes--; /* the line's end that an editor adds */
    if (bytes < TCP_SECRET_BYTES_MIN)
        return log_refusal(log, path, "16 to 4,096 bytes make a secret", -EINVAL);
    secret.bytes = (uint32_t)bytes;
    *ret_secret = secret;
    OPENSSL_cleanse(&secret, sizeof(secret));
    return 0;
}

int tcp_hello_prove(const struct tcp_secret *secret, const struct tcp_meeting *meeting,
                    const struct tcp_hello *welcome, uint8_t *ret_proof)
{
    uint8_t text[1 + 3 * TCP_HELLO_BYTES] = {
        0}; /* the proof covers the side that proves, and both hellos; the welcome counts without its proof */
    unsigned bytes = 0;
    memset(ret_proof, 0, TCP_NONCE_BYTES);
    if (secret->bytes == 0)
        return 0;
    text[0] = welcome == NULL ? 'C' : 'S';
    memcpy(text + 1, meeting->hello, TCP_HELLO_BYTES);
    memcpy(text + 1 + TCP_HELLO_BYTES, meeting->challenge, TCP_HELLO_BYTES);
    if (welcome != NULL) {
        struct tcp_hello bare = *welcome;
        memset(bare.proof, 0, sizeof(bare.proof));
        tcp_hello_save(&bare, text + 1 + (size_t)2 * TCP_HELLO_BYTES);
    }
    bool proved =
        HMAC(EVP_sha256(), secret->text, (int)secret->bytes, text, sizeof(text), ret_proof, &bytes) != NULL;
    base_assert(!proved || bytes == TCP_NONCE_BYTES);
    return proved ? 0 : -ENOMEM;
}

bool tcp_hello_is_proof(const struct tcp_secret *secret, const struct tcp_meeting *meeting,
                        const struct tcp_hello *welcome, const uint8_t *proof)
{
    uint8_t expected[TCP_NONCE_BYTES];
    return tcp_hello_prove(secret, meeting, welcome, expected) == 0 &&
           CRYPTO_memcmp(expected, proof, sizeof(expected)) == 0;
}
