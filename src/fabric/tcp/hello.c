/* Hellos, which two sides exchange before there are frames; and the file of the secret, which tls_context.c uses. */
#include "fabric/tcp/hello.h"
#include "fabric/tcp/tcp.h"
#include "fabric/tcp/tls.h"
#include "fabric/tcp/wire.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
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
    AT_TICKET = 24,
    AT_ZERO = 56, /* 32 bytes */
    AT_DATA = 88,
    AT_CHECKSUM = 144,
};

_Static_assert(AT_DATA + TARN_FABRIC_PRIVATE_BYTES_MAX == AT_CHECKSUM, "the table has no gaps");
_Static_assert(AT_CHECKSUM + 4 == TCP_HELLO_BYTES, "the table has no gaps");

#define MARK    UINT32_C(0x6e726174) /* "tarn" */
#define VERSION 3

struct tcp_hello tcp_hello_make(enum tcp_hello_kind kind, const struct tarn_fabric_connect_options *options)
{
    struct tcp_hello hello = {.kind = kind,
                              .receive_count = options->receive_count,
                              .receive_bytes = options->receive_bytes,
                              .data_bytes = options->data_bytes};
    if (options->data_bytes > 0)
        memcpy(hello.data, options->data, options->data_bytes);
    return hello;
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
    memcpy(bytes + AT_TICKET, hello->ticket, sizeof(hello->ticket));
    memset(bytes + AT_ZERO, 0, AT_DATA - AT_ZERO);
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
        base_load_le32(bytes + AT_MARK) != MARK)
        return -EPROTO;
    if (base_load_le16(bytes + AT_VERSION) != VERSION)
        return -EPROTONOSUPPORT;
    if (hello.kind == TCP_REFUSAL)
        return refusal_error(hello.number);
    if (hello.kind == TCP_JOIN && kind == TCP_HELLO)
        kind = TCP_JOIN; /* either kind may come first */
    if (hello.kind != kind || hello.number > most_of(kind) || (kind == TCP_JOIN && hello.number == 0) ||
        hello.data_bytes > TARN_FABRIC_PRIVATE_BYTES_MAX || !base_is_zero(bytes + AT_ZERO, AT_DATA - AT_ZERO))
        return -EPROTO;
    bool tells = kind == TCP_HELLO || kind == TCP_WELCOME;
    if (tells && (hello.receive_count == 0 || hello.receive_count > TARN_FABRIC_RECEIVE_COUNT_MAX ||
                  hello.receive_bytes == 0 || hello.receive_bytes > TARN_FABRIC_RECEIVE_BYTES_MAX))
        return -EPROTO;
    memcpy(hello.ticket, bytes + AT_TICKET, sizeof(hello.ticket));
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
    (void)tcp_write_now(fd, tls, bytes, sizeof(bytes));
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
