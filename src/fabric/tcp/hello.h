/* The meeting of two sides: hellos; and the file of the secret. For the files of this folder. */
#ifndef FABRIC_TCP_HELLO_H
#define FABRIC_TCP_HELLO_H

#include "fabric/fabric_internal.h"

struct stat;
struct tcp_tls;

#define TCP_HELLO_BYTES      148
#define TCP_TICKET_BYTES     32
#define TCP_SECRET_BYTES_MIN 16
#define TCP_SECRET_BYTES_MAX 4096

enum tcp_hello_kind { TCP_HELLO = 1, TCP_TICKET, TCP_JOIN, TCP_WELCOME, TCP_REFUSAL };

enum tcp_refusal { TCP_REJECTED = 1, TCP_OUT_OF_MEMORY, TCP_NO_HELLO };

/* A side's description of itself. README, "tcp", has the table. */
struct tcp_hello {
    enum tcp_hello_kind kind;
    uint32_t receive_count, receive_bytes;
    uint32_t data_bytes;
    uint32_t
        number; /* TCP_HELLO: number of sockets that will join; TCP_JOIN: this socket's number; TCP_REFUSAL: the reason */
    uint8_t ticket[TCP_TICKET_BYTES]; /* TCP_TICKET, TCP_JOIN: the connection that further sockets join */
    uint8_t data[TARN_FABRIC_PRIVATE_BYTES_MAX];
};

/* A secret that both sides share. */
struct tcp_secret {
    uint32_t bytes; /* 0: none */
    uint8_t text[TCP_SECRET_BYTES_MAX];
};

/** Read a secret from a file that only its owner may read. @return 0; -EACCES, -EINVAL, -ENOENT and the like (logged) */
base_must_check int tcp_secret_read(struct base_log *log, const char *path, struct tcp_secret *ret_secret);

/** Open a file that only its owner may read. @return descriptor; -EACCES, -ENOENT and the like (logged) */
base_must_check int tcp_private_open(struct base_log *log, const char *path, struct stat *ret_file);

/** Make a hello of a kind with these options, and no ticket. */
struct tcp_hello tcp_hello_make(enum tcp_hello_kind kind, const struct tarn_fabric_connect_options *options);

/** Write a hello, as TCP_HELLO_BYTES bytes. */
void tcp_hello_save(const struct tcp_hello *hello, uint8_t *bytes);

/** Read a hello of a kind. @return 0; -EPROTO; -EPROTONOSUPPORT: it is of another version; of a TCP_REFUSAL the error that it
 * means */
base_must_check int tcp_hello_load(const uint8_t *bytes, enum tcp_hello_kind kind,
                                   struct tcp_hello *ret_hello);

/** The refusal that stands for an error. */
enum tcp_refusal tcp_refusal_of(int error);

/** Send a refusal, if the socket takes it at once, and close the socket and its TLS. */
void tcp_hello_refuse(int fd, struct tcp_tls *tls, enum tcp_refusal why);

#endif
