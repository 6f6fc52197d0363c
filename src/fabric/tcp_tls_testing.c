/* For the tests of TLS: files of secrets, and certificates made for the occasion. */
#include "fabric/tcp_tls_testing.h"

void tcp_testing_files_open(struct tcp_testing_files *files)
{
    (void)snprintf(files->folder, sizeof(files->folder), "/tmp/fabric-tls-XXXXXX");
    assert_non_null(mkdtemp(files->folder));
}

void tcp_testing_files_close(const struct tcp_testing_files *files)
{
    DIR *folder = opendir(files->folder);
    const struct dirent *entry;
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL)
        (void)unlinkat(dirfd(folder), entry->d_name, 0);
    assert_int_equal(closedir(folder), 0);
    assert_int_equal(rmdir(files->folder), 0);
}

/** Make a file that only its owner may read. */
static FILE *tcp_testing_create(const struct tcp_testing_files *files, const char *name)
{
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/%s", files->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    return file;
}

void tcp_testing_secret(const struct tcp_testing_files *files, const char *name, const char *text)
{
    FILE *file = tcp_testing_create(files, name);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void add_constraint(X509 *certificate, int which, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, which, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

struct tcp_testing_identity tcp_testing_certify(const char *name, const struct tcp_testing_identity *by,
                                                long begins, long ends)
{
    struct tcp_testing_identity identity = {.key = EVP_EC_gen("P-256"), .certificate = X509_new()};
    assert_true(identity.key != NULL && identity.certificate != NULL);
    X509 *certificate = identity.certificate;
    X509_NAME *subject = X509_get_subject_name(certificate);
    assert_int_equal(X509_set_version(certificate, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(certificate), begins));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), ends));
    assert_int_equal(
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const uint8_t *)name, -1, -1, 0), 1);
    assert_int_equal(
        X509_set_issuer_name(certificate, by == NULL ? subject : X509_get_subject_name(by->certificate)), 1);
    assert_int_equal(X509_set_pubkey(certificate, identity.key), 1);
    if (by == NULL)
        add_constraint(certificate, NID_basic_constraints, "critical,CA:TRUE");
    assert_true(X509_sign(certificate, by == NULL ? identity.key : by->key, EVP_sha256()) > 0);
    return identity;
}

void tcp_testing_save(const struct tcp_testing_files *files, const char *name,
                      struct tcp_testing_identity *identity, const char *passphrase)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "%s.cert", name);
    FILE *file = tcp_testing_create(files, path);
    assert_int_equal(PEM_write_X509(file, identity->certificate), 1);
    assert_int_equal(fclose(file), 0);
    (void)snprintf(path, sizeof(path), "%s.key", name);
    file = tcp_testing_create(files, path);
    assert_int_equal(PEM_write_PrivateKey(file, identity->key, passphrase == NULL ? NULL : EVP_aes_128_cbc(),
                                          NULL, 0, NULL, (void *)(uintptr_t)passphrase),
                     1);
    assert_int_equal(fclose(file), 0);
    X509_free(identity->certificate);
    EVP_PKEY_free(identity->key);
}
