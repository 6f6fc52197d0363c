/*
 * TLS under hellos and frames. A connection has one state for both directions; only tasks of its scheduler touch it,
 * and never across a yield. The library has no socket: it takes its input from the network connection, and its output
 * lies in `out` until a task writes it.
 */
#include "fabric/tcp/tls.h"
#include "fabric/tcp/tcp.h"
#include "fabric/tcp/wire.h"
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* About the memory that the library takes for a connection: 15 KiB, and two buffers of 17 KiB while records are read and
 * written. */
#define LIBRARY_BYTES (UINT64_C(32) << 10)
#define WRITES_PER_KEY                                                                                       \
    (1 << 21) /* writes with one key, of 4 records at most: AES-GCM allows 2^24 records (RFC 8446, 5.5) */

#define SPARE_BYTES                                                                                          \
    (TCP_BUFFER_BYTES - TCP_OUT_BYTES) /* room besides a write: records' heads, other output */

struct tcp_tls {
    struct tcp *tcp;
    SSL *ssl;
    struct net_connection *net; /* the network connection from which it reads */
    bool ended;                 /* the network connection has ended */
    int end_error;              /* the error of that end; 0: in good order */
    uint32_t writes_left;       /* writes that this key is still good for */
    uint32_t out_bytes;
    char reason[160]; /* why the other side's identity was refused */
    bool starved;     /* there was no buffer for `out` */
    uint8_t *out;     /* a buffer; NULL while there is no output */
};

/* ---- what the library reads and writes ---------------------------------------------------------- */

static int take_in(BIO *bio, char *bytes, int room)
{
    struct tcp_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t taken = tls->ended ? 0 : net_read_try(tls->net, bytes, (size_t)room);
    if (taken > 0)
        return (int)taken;
    if (taken == -EAGAIN) {
        BIO_set_retry_read(bio);
        return -1;
    }
    tls->ended = true;
    tls->end_error = tls->end_error != 0 ? tls->end_error : (int)taken;
    return 0;
}

static void free_output(struct tcp_tls *tls)
{
    tcp_buffer_put(tls->tcp, tls->out);
    tls->out = NULL;
    tls->out_bytes = 0;
}

static int put_out(BIO *bio, const char *bytes, int count)
{
    struct tcp_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (tls->out == NULL && (tls->out = tcp_buffer_get(tls->tcp)) == NULL) {
        tls->starved = true;
        return -1;
    }
    if ((size_t)count > TCP_BUFFER_BYTES - tls->out_bytes) {
        BIO_set_retry_write(bio);
        return -1;
    }
    memcpy(tls->out + tls->out_bytes, bytes, (size_t)count);
    tls->out_bytes += (uint32_t)count;
    return count;
}

static long control_bio(BIO *bio, int command, long number, void *arg)
{
    (void)bio, (void)number, (void)arg;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD *tcp_tls_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tarn");
    if (method != NULL && BIO_meth_set_read(method, take_in) == 1 &&
        BIO_meth_set_write(method, put_out) == 1 && BIO_meth_set_ctrl(method, control_bio) == 1)
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* ---- opening and closing ------------------------------------------------------------------------ */

int tcp_tls_open(struct tcp *tcp, bool is_server, struct tcp_tls **ret_tls)
{
    struct base_account *account = &tcp->node->memory;
    if (base_account_take(account, LIBRARY_BYTES) != 0)
        return -ENOMEM;
    struct tcp_tls *tls = base_alloc(account, sizeof(*tls));
    BIO *bio = tls == NULL ? NULL : BIO_new(tcp->tls.method);
    SSL *ssl = bio == NULL ? NULL : SSL_new(tcp->tls.library);
    if (ssl == NULL) {
        (void)BIO_free(bio);
        base_free(account, tls, sizeof(*tls));
        base_account_give(account, LIBRARY_BYTES);
        return -ENOMEM;
    }
    tls->tcp = tcp;
    tls->ssl = ssl;
    tls->writes_left = WRITES_PER_KEY;
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    if (is_server)
        SSL_set_accept_state(ssl);
    else
        SSL_set_connect_state(ssl);
    *ret_tls = tls;
    return 0;
}

void tcp_tls_close(struct tcp_tls *tls)
{
    if (tls == NULL)
        return;
    struct base_account *account = &tls->tcp->node->memory;
    SSL_free(tls->ssl);
    free_output(tls);
    base_free(account, tls, sizeof(*tls));
    base_account_give(account, LIBRARY_BYTES);
}

void tcp_tls_attach(struct tcp_tls *tls, struct net_connection *net)
{
    if (tls != NULL)
        tls->net = net;
}

void tcp_tls_change_key(struct tcp_tls *tls)
{
    tls->writes_left = 1;
}

/* ---- what went wrong ---------------------------------------------------------------------------- */

struct cause {
    int reason;
    int error;
    const char *sentence;
};

static const struct cause causes[] = {
    {SSL_R_WRONG_VERSION_NUMBER, -EPROTO,
     "it speaks no TLS: both sides have secret=FILE or tls in their URLs, or neither"},
    {SSL_R_UNSUPPORTED_PROTOCOL, -EPROTO, "it knows no TLS 1.3"},
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, -EACCES, "it shows no certificate"},
    {SSL_R_BINDER_DOES_NOT_VERIFY, -EACCES, "it has another secret"},
    {SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, -EACCES, "it wants to see a certificate, and here is a secret"},
};

/* The library's latest error; older ones may be queued before it. */
static unsigned long next_error(void)
{
    unsigned long first = ERR_peek_error(), error;
    while ((error = ERR_get_error()) != 0 && ERR_GET_LIB(error) != ERR_LIB_SSL)
        continue;
    return error != 0 ? error : first;
}

/* Keep the reason of a failure for the log. @return negative errno */
static int explain_failure(struct tcp_tls *tls)
{
    unsigned long error = next_error();
    int reason = ERR_GET_REASON(error);
    const char *text = ERR_reason_error_string(error);
    ERR_clear_error();
    for (unsigned i = 0; i < base_array_count(causes); i++) {
        if (causes[i].reason == reason) {
            (void)snprintf(tls->reason, sizeof(tls->reason), "%s", causes[i].sentence);
            return causes[i].error;
        }
    }
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        (void)snprintf(tls->reason, sizeof(tls->reason), "its certificate is not accepted: %s",
                       X509_verify_cert_error_string(SSL_get_verify_result(tls->ssl)));
        return -EACCES;
    }
    bool told = reason > SSL_AD_REASON_OFFSET; /* the other side has sent this alert */
    (void)snprintf(tls->reason, sizeof(tls->reason), "%s: %s",
                   told ? "it does not accept this side's certificate or secret" : "what it sends is no TLS",
                   text == NULL ? "no memory" : text);
    return told ? -EACCES : -EPROTO;
}

const char *tcp_tls_reason(const struct tcp_tls *tls)
{
    return tls == NULL || tls->reason[0] == '\0' ? NULL : tls->reason;
}

/* Translate the result of a call of the library that did not succeed. @return as net_read_try() */
static ssize_t translate_outcome(struct tcp_tls *tls, int result)
{
    switch (SSL_get_error(tls->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0; /* an end without TLS's own notice is accepted, because BYE tells an end from a cut */
    case SSL_ERROR_WANT_WRITE:
        (void)snprintf(tls->reason, sizeof(tls->reason), "it asks for keys again and again and takes none");
        return -EPROTO;
    default:
        if (tls->starved)
            return -ENOMEM;
        return tls->ended ? tls->end_error : explain_failure(tls);
    }
}

/* ---- reading and writing ------------------------------------------------------------------------ */

ssize_t tcp_read_try(struct net_connection *net, struct tcp_tls *tls, void *buffer, size_t room)
{
    size_t bytes;
    if (tls == NULL)
        return net_read_try(net, buffer, room);
    ERR_clear_error();
    if (SSL_read_ex(tls->ssl, buffer, room, &bytes) == 1)
        return (ssize_t)bytes;
    return translate_outcome(tls, 0);
}

ssize_t tcp_read(struct net_connection *net, struct tcp_tls *tls, void *buffer, size_t room,
                 uint64_t deadline_ns)
{
    for (;;) {
        ssize_t bytes = tcp_read_try(net, tls, buffer, room);
        if (bytes != -EAGAIN)
            return bytes;
        int error = net_await(net, deadline_ns);
        if (error != 0)
            return error;
    }
}

/* Write the library's output. */
static int flush_output(struct net_connection *net, struct tcp_tls *tls, uint64_t deadline_ns)
{
    int error = 0;
    while (error == 0 && tls->out_bytes > 0) {
        uint32_t bytes =
            tls->out_bytes; /* output that is added meanwhile, in answer to input, comes behind this */
        error = net_write(net, tls->out, bytes, deadline_ns);
        tls->out_bytes -= bytes;
        memmove(tls->out, tls->out + bytes, tls->out_bytes);
    }
    if (tls->out_bytes == 0)
        free_output(tls);
    return error;
}

/* Encrypt bytes into `out`, which has room for them unless half of the spare room is taken. @return 0; -EPIPE */
static int encrypt_bytes(struct tcp_tls *tls, const void *data, size_t bytes)
{
    size_t written;
    ERR_clear_error();
    if (--tls->writes_left == 0) {
        tls->writes_left = WRITES_PER_KEY;
        if (SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1)
            return -EPIPE;
    }
    return SSL_write_ex(tls->ssl, data, bytes, &written) == 1 ? 0 : -EPIPE;
}

int tcp_write(struct net_connection *net, struct tcp_tls *tls, const void *data, size_t bytes,
              uint64_t deadline_ns)
{
    if (tls == NULL)
        return net_write(net, data, bytes, deadline_ns);
    int error = tls->out_bytes > SPARE_BYTES / 2 ? flush_output(net, tls, deadline_ns) : 0;
    if (error == 0)
        error = encrypt_bytes(tls, data, bytes);
    if (error == 0)
        error = flush_output(net, tls, deadline_ns);
    return error;
}

bool tcp_write_now(int fd, struct tcp_tls *tls, const void *data, size_t bytes)
{
    if (tls != NULL && SSL_is_init_finished(tls->ssl) && encrypt_bytes(tls, data, bytes) != 0)
        return false;
    const bool other =
        tls != NULL && tls->out_bytes > 0; /* after a failed handshake it is the alert that says why */
    const size_t count = other ? tls->out_bytes : bytes;
    const bool sent = send(fd, other ? tls->out : data, count, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)count;
    if (other)
        free_output(tls);
    return sent;
}

/* ---- the handshake ------------------------------------------------------------------------------ */

/* Whether the other side's identity was checked: the library checks it, and this checks that it was asked to. */
static bool is_known(const struct tcp_tls *tls)
{
    return SSL_session_reused(tls->ssl) == 1 ||
           (SSL_get0_peer_certificate(tls->ssl) != NULL && SSL_get_verify_result(tls->ssl) == X509_V_OK);
}

int tcp_shake_try(struct net_connection *net, struct tcp_tls *tls, uint64_t deadline_ns)
{
    ERR_clear_error();
    int result = SSL_do_handshake(tls->ssl);
    if (result == 1)
        return is_known(tls) ? 0 : -EACCES; /* a client's last message goes with its hello */
    int error = (int)translate_outcome(tls, result);
    if (error == 0)
        error = -ECONNRESET;
    int flushed = flush_output(net, tls, deadline_ns);
    if (error == -EAGAIN && (flushed == -ETIMEDOUT || flushed == -ECANCELED))
        return flushed; /* another failure is left to the next read, which has its reason */
    return error;
}

int tcp_shake(struct net_connection *net, struct tcp_tls *tls, uint64_t deadline_ns)
{
    for (;;) {
        int error = tcp_shake_try(net, tls, deadline_ns);
        if (error == -EAGAIN)
            error = net_await(net, deadline_ns);
        else
            return error;
        if (error != 0)
            return error;
    }
}
