/*
 * The library's context, made from the URL's options: one for all connections of a fabric, as client and as server.
 * Both sides prove that they belong together, by certificates of one authority or by the secret. One connection's TLS
 * is tls.c's.
 */
#include "fabric/tcp/hello.h"
#include "fabric/tcp/tcp.h"
#include "fabric/tcp/tls.h"
#include <errno.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_BYTES 32 /* size of the hash of the cipher suite */

static const char suite[] = "TLS_AES_128_GCM_SHA256";
static const uint8_t suite_number[] = {0x13, 0x01};
static const uint8_t identity[] = "tarn";

/* ---- the secret --------------------------------------------------------------------------------- */

/* Make the session that both sides know beforehand: TLS calls it an external pre-shared key. */
static SSL_SESSION *session_of_secret(SSL *ssl)
{
    static const uint8_t use[] = "tarn fabric, tls 1.3";
    const struct tcp_secret *secret = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    uint8_t key[EVP_MAX_MD_SIZE];
    unsigned bytes = 0;
    SSL_SESSION *session = SSL_SESSION_new();
    if (session == NULL)
        return NULL;
    bool made = HMAC(EVP_sha256(), secret->text, (int)secret->bytes, use, sizeof(use), key, &bytes) != NULL &&
                SSL_SESSION_set1_master_key(session, key, KEY_BYTES) == 1 &&
                SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, suite_number)) == 1 &&
                SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1 &&
                SSL_SESSION_set1_id_context(session, identity, sizeof(identity)) == 1;
    OPENSSL_cleanse(key, sizeof(key));
    if (made)
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

/* Give the session that a client offers. @param hash  the suite's, once it is known */
static int offer_session(SSL *ssl, const EVP_MD *hash, const unsigned char **ret_identity, size_t *ret_bytes,
                         SSL_SESSION **ret_session)
{
    (void)hash;
    *ret_session = session_of_secret(ssl);
    *ret_identity = identity;
    *ret_bytes = sizeof(identity);
    return *ret_session != NULL;
}

/* Give the session that a server knows by a name. */
static int find_session(SSL *ssl, const unsigned char *name, size_t bytes, SSL_SESSION **ret_session)
{
    *ret_session = NULL;
    if (bytes != sizeof(identity) || memcmp(name, identity, bytes) != 0)
        return 1;
    *ret_session = session_of_secret(ssl);
    return *ret_session != NULL;
}

/* ---- certificates ------------------------------------------------------------------------------- */

static int log_refusal(struct base_log *log, const char *path, const char *what)
{
    char quoted[BASE_LOG_ROOM_MIN];
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    base_error(log, "cannot use TLS", "file=%s reason=\"%s%s%s\"",
               base_log_quote(quoted, sizeof(quoted), path, strlen(path)), what, reason == NULL ? "" : ": ",
               reason == NULL ? "" : reason);
    ERR_clear_error();
    return -EINVAL;
}

/* Refuse to ask for a passphrase: a server has no user to ask. */
static int no_passphrase(char *text, int room, int writing, void *arg)
{
    (void)text, (void)room, (void)writing, (void)arg;
    return -1;
}

static int use_key(struct base_log *log, const char *path, SSL_CTX *library)
{
    struct stat file;
    int fd = tcp_private_open(log, path, &file);
    if (fd < 0)
        return fd;
    BIO *bio = BIO_new_fd(fd, BIO_CLOSE);
    if (bio == NULL) {
        (void)close(fd);
        return -ENOMEM;
    }
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
    bool used = key != NULL && SSL_CTX_use_PrivateKey(library, key) == 1;
    EVP_PKEY_free(key);
    BIO_free(bio);
    return used ? 0
                : log_refusal(log, path,
                              "no private key of this certificate, in PEM and without a passphrase");
}

static int use_certificates(struct base_log *log, const struct tcp_options *options, SSL_CTX *library)
{
    if (SSL_CTX_use_certificate_chain_file(library, options->cert_path) != 1)
        return log_refusal(log, options->cert_path, "no certificates in PEM, one's own first");
    int error = use_key(log, options->key_path, library);
    if (error != 0)
        return error;
    if (SSL_CTX_load_verify_file(library, options->ca_path) != 1)
        return log_refusal(log, options->ca_path, "no certificates in PEM");
    return 0;
}

/* ---- the context -------------------------------------------------------------------------------- */

static int set_up(struct base_log *log, const struct tcp_options *options, const struct tcp_secret *secret,
                  SSL_CTX *library)
{
    if (SSL_CTX_set_min_proto_version(library, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(library, suite) != 1 || SSL_CTX_set_num_tickets(library, 0) != 1 ||
        SSL_CTX_set_session_id_context(library, identity, sizeof(identity)) != 1)
        return -ENOMEM;
    (void)SSL_CTX_set_options(library, SSL_OP_NO_TICKET);
    (void)SSL_CTX_set_mode(library, SSL_MODE_NO_AUTO_CHAIN | SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_session_cache_mode(library, SSL_SESS_CACHE_OFF);
    /* also with a secret: a server that shows a certificate instead is not verified, and so refused */
    SSL_CTX_set_verify(library, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    if (options->cert_path[0] != '\0')
        return use_certificates(log, options, library);
    (void)SSL_CTX_set_app_data(library, (void *)(uintptr_t)secret);
    SSL_CTX_set_psk_use_session_callback(library, offer_session);
    SSL_CTX_set_psk_find_session_callback(library, find_session);
    return 0;
}

int tcp_tls_context_open(struct base_log *log, const struct tcp_options *options,
                         const struct tcp_secret *secret, struct tcp_tls_context *ret_context)
{
    ERR_clear_error();
    struct tcp_tls_context context = {.library = SSL_CTX_new(TLS_method()), .method = tcp_tls_method()};
    int error = -ENOMEM;
    if (context.library != NULL && context.method != NULL)
        error = set_up(log, options, secret, context.library);
    if (error != 0)
        tcp_tls_context_close(&context);
    else
        *ret_context = context;
    return error;
}

void tcp_tls_context_close(struct tcp_tls_context *context)
{
    SSL_CTX_free(context->library);
    BIO_meth_free(context->method);
}
