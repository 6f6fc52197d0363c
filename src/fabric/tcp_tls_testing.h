/* For the tests of TLS: files of secrets, and certificates made for the occasion. */
#ifndef FABRIC_TCP_TLS_TESTING_H
#define FABRIC_TCP_TLS_TESTING_H

#include "fabric/tcp_testing.h"
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

/* An authority, or who has its certificate. */
struct tcp_testing_identity {
    EVP_PKEY *key;
    X509 *certificate;
};

/* A folder of files that URLs name. */
struct tcp_testing_files {
    char folder[32];
};

void tcp_testing_files_open(struct tcp_testing_files *files);

void tcp_testing_files_close(const struct tcp_testing_files *files);

void tcp_testing_secret(const struct tcp_testing_files *files, const char *name, const char *text);

/**
 * Make a key and a certificate.
 *
 * @param by           who signs it; NULL: an authority of its own
 * @param begins, ends in seconds from now
 */
struct tcp_testing_identity tcp_testing_certify(const char *name, const struct tcp_testing_identity *by,
                                                long begins, long ends);

/** Save it as NAME.cert and NAME.key, and free it. @param passphrase  of the key; NULL: none */
void tcp_testing_save(const struct tcp_testing_files *files, const char *name,
                      struct tcp_testing_identity *identity, const char *passphrase);

#define TCP_TESTING_DAY (24L * 3600)

#endif
