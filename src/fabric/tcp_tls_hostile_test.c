/*
 * Who is let in under TLS and who is not, with the sentence that says why; and who is on the way and changes, cuts or
 * stalls what is said. In plain threads: here the others' sockets block.
 */
#include "fabric/tcp/backlog.h"
#include "fabric/tcp/connection.h"
#include "fabric/tcp_tls_testing.h"
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/ioctl.h>

/* A place where a fabric's URLs name files, and what is logged there. */
struct fixture {
    struct tcp_testing_files files;
    struct tarn_node *node;
    pthread_mutex_t lock;
    char log[8192];
    size_t log_bytes;
};

static void keep_log(void *arg, enum base_log_level level, const char *line, size_t len)
{
    struct fixture *fixture = arg;
    (void)level;
    pthread_mutex_lock(&fixture->lock);
    len = base_min(len, sizeof(fixture->log) - 1 - fixture->log_bytes);
    memcpy(fixture->log + fixture->log_bytes, line, len);
    fixture->log_bytes += len;
    fixture->log[fixture->log_bytes] = '\0';
    pthread_mutex_unlock(&fixture->lock);
}

/* Whether a sentence is logged: the one whom it is about may know sooner. */
static bool has_said(struct fixture *fixture, const char *sentence)
{
    bool said = false;
    for (uint64_t until_ns = TESTING_LATE; !said && task_now() < until_ns;) {
        pthread_mutex_lock(&fixture->lock);
        said = strstr(fixture->log, sentence) != NULL;
        pthread_mutex_unlock(&fixture->lock);
        if (!said)
            (void)task_sleep(BASE_NS_PER_MS);
    }
    if (!said)
        print_message("not in the log: %s\n%s\n", sentence, fixture->log);
    return said;
}

static void forget(struct fixture *fixture)
{
    pthread_mutex_lock(&fixture->lock);
    fixture->log_bytes = 0;
    fixture->log[0] = '\0';
    pthread_mutex_unlock(&fixture->lock);
}

/* Members of one authority, and others that are not. */
static void make_files(const struct tcp_testing_files *files)
{
    struct tcp_testing_identity ours = tcp_testing_certify("ours", NULL, -60, TCP_TESTING_DAY);
    struct tcp_testing_identity theirs = tcp_testing_certify("theirs", NULL, -60, TCP_TESTING_DAY);
    struct tcp_testing_identity member = tcp_testing_certify("member", &ours, -60, TCP_TESTING_DAY);
    struct tcp_testing_identity expired = tcp_testing_certify("expired", &ours, -3600, -60);
    struct tcp_testing_identity early = tcp_testing_certify("early", &ours, 3600, TCP_TESTING_DAY);
    struct tcp_testing_identity stranger = tcp_testing_certify("stranger", &theirs, -60, TCP_TESTING_DAY);
    struct tcp_testing_identity locked = tcp_testing_certify("locked", &ours, -60, TCP_TESTING_DAY);
    tcp_testing_save(files, "member", &member, NULL);
    tcp_testing_save(files, "expired", &expired, NULL);
    tcp_testing_save(files, "early", &early, NULL);
    tcp_testing_save(files, "stranger", &stranger, NULL);
    tcp_testing_save(files, "locked", &locked, "passphrase");
    tcp_testing_save(files, "ours", &ours, NULL);
    tcp_testing_save(files, "theirs", &theirs, NULL);
    tcp_testing_secret(files, "secret", "the quick brown fox");
    tcp_testing_secret(files, "wrong", "the quick brown dog");
    tcp_testing_secret(files, "short", "too short\n\n\n\n\n\n\n\n\n\n");
}

static int open_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    assert_int_equal(pthread_mutex_init(&fixture->lock, NULL), 0);
    const struct task_node_options options = {
        .log_level = BASE_LOG_WARN, .log_sink = keep_log, .log_arg = fixture};
    assert_int_equal(task_node_open(&options, &fixture->node), 0);
    tcp_testing_files_open(&fixture->files);
    make_files(&fixture->files);
    *state = fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    tcp_testing_files_close(&fixture->files);
    task_node_close(fixture->node);
    assert_int_equal(pthread_mutex_destroy(&fixture->lock), 0);
    free(fixture);
    return 0;
}

/* A URL, in which `*` stands for the folder. @return as tarn_fabric_open() */
static int open_url(const struct fixture *fixture, const char *pattern, struct tarn_fabric **ret_fabric)
{
    char url[512];
    size_t at = 0;
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '*')
            at += (size_t)snprintf(url + at, sizeof(url) - at, "%s", fixture->files.folder);
        else
            url[at++] = *pattern;
        assert_true(at < sizeof(url));
    }
    url[at] = '\0';
    return tarn_fabric_open(fixture->node, url, ret_fabric);
}

#define MEMBER        "tcp:tls,cert=*/member.cert,key=*/member.key,ca=*/ours.cert"
#define OF(name, who) "tcp:tls,cert=*/" name ".cert,key=*/" name ".key,ca=*/" who ".cert"
#define SECRET        "tcp:secret=*/secret"
#define PATIENT       SECRET ",heartbeat=1m" /* no machine is slow enough for a client to be given up */

/* ---- who is let in ------------------------------------------------------------------------------- */

/* A listener, and somebody who comes. */
struct visit {
    struct fixture *fixture;
    struct testing_fabric testing;
    struct testing_pair pair;
    struct tarn_fabric *server, *client;
};

/* Two sides of two fabrics with the first, a connection of the pair, made with the second URL if there is one. */
static void open_visit(struct visit *visit, struct fixture *fixture, const char *server, const char *client)
{
    *visit = (struct visit){.fixture = fixture, .testing = {.node = fixture->node}};
    static const struct testing_subject subject = {.address = tcp_testing_address};
    assert_int_equal(open_url(fixture, server, &visit->server), 0);
    assert_int_equal(open_url(fixture, client, &visit->client), 0);
    visit->testing.subject = &subject;
    visit->testing.fabric = visit->server;
    tcp_testing_address(visit->testing.address, sizeof(visit->testing.address));
    visit->pair.testing = &visit->testing;
    visit->pair.server_domain = testing_domain(visit->server, TESTING_BYTES, TESTING_BYTES);
    visit->pair.client_domain = testing_domain(visit->client, 0, TESTING_BYTES);
    visit->pair.all = testing_region(visit->pair.server_domain, TESTING_BYTES,
                                     TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP);
    visit->pair.readable = testing_region(visit->pair.server_domain, TESTING_BYTES, TARN_FABRIC_MAY_READ);
    assert_int_equal(tarn_fabric_listen(visit->server, visit->testing.address, &visit->pair.listener), 0);
}

static void close_visit(struct visit *visit)
{
    testing_pair_close(&visit->pair);
    tarn_fabric_close(visit->client);
    tarn_fabric_close(visit->server);
}

/* @return what the client's connect comes to */
static int try_to_connect(struct visit *visit)
{
    struct tarn_fabric_connection *connection;
    struct tarn_fabric_incoming *incoming;
    int error = tarn_fabric_connect(visit->pair.client_domain, visit->testing.address, NULL, TESTING_LATE,
                                    &connection);
    assert_int_not_equal(error, 0);
    assert_int_equal(tarn_fabric_listener_wait(visit->pair.listener, task_now(), &incoming), -ETIMEDOUT);
    return error;
}

static void the_right_ones_work_together(void **state)
{
    static const char *const urls[][2] = {
        {MEMBER, MEMBER}, {SECRET, SECRET}, {SECRET, "tcp:tls,secret=*/secret"}};
    for (unsigned i = 0; i < base_array_count(urls); i++) {
        struct visit visit;
        uint64_t word;
        open_visit(&visit, *state, urls[i][0], urls[i][1]);
        testing_connect(&visit.pair);
        assert_int_equal(
            tarn_fabric_faa(visit.pair.client, 0, &visit.pair.all->handle, 0, 5, TESTING_LATE, &word), 0);
        assert_int_equal(tarn_fabric_mem_load64(visit.pair.all, 0), 5);
        close_visit(&visit);
    }
}

struct wrong_one {
    const char *server, *client;
    int error;
    const char *servers, *clients; /* sentences */
};

/* Each is turned away, and the log says on both sides what is wrong. */
static void the_wrong_ones_are_told_why(void **state)
{
    static const struct wrong_one wrong[] = {
        {MEMBER, OF("stranger", "ours"), -EACCES, "unable to get local issuer certificate",
         "does not accept this side's certificate or secret: tlsv1 alert unknown ca"},
        {OF("stranger", "ours"), MEMBER, -EACCES, "does not accept this side's certificate or secret",
         "its certificate is not accepted: unable to get local issuer certificate"},
        {MEMBER, OF("expired", "ours"), -EACCES, "its certificate is not accepted: certificate has expired",
         "certificate expired"},
        {OF("expired", "ours"), MEMBER, -EACCES, "certificate expired", "certificate has expired"},
        {MEMBER, OF("early", "ours"), -EACCES, "certificate is not yet valid", "bad certificate"},
        {MEMBER, OF("member", "theirs"), -EACCES, "unknown ca", "unable to get local issuer certificate"},
        {SECRET, "tcp:secret=*/wrong", -EACCES, "it has another secret", "does not accept this side's"},
        {MEMBER, SECRET, -EACCES, "unknown ca", "unable to get local issuer certificate"},
        {SECRET, MEMBER, -EACCES, "it wants to see a certificate, and here is a secret", "handshake failure"},
        {SECRET, "tcp:", -EPROTO, "it speaks no TLS", "asks for tls"},
        {"tcp:", SECRET, -EPROTO, "what it said is no hello", "it speaks no TLS"},
    };
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < base_array_count(wrong); i++) {
        struct visit visit;
        open_visit(&visit, fixture, wrong[i].server, wrong[i].client);
        forget(fixture);
        assert_int_equal(try_to_connect(&visit), wrong[i].error);
        assert_true(has_said(fixture, wrong[i].servers));
        assert_true(has_said(fixture, wrong[i].clients));
        close_visit(&visit);
    }
}

static void wrong_files_are_refused(void **state)
{
    static const struct {
        const char *url;
        int error;
        const char *sentence;
    } wrong[] = {
        {"tcp:tls", -EINVAL, "it takes cert=FILE, key=FILE and ca=FILE, or secret=FILE"},
        {MEMBER ",secret=*/secret", -EINVAL, "a secret or certificates, and not both"},
        {"tcp:secret=*/absent", -ENOENT, "No such file"},
        {"tcp:secret=*/short", -EINVAL, "16 to 4,096 bytes make a secret"},
        {"tcp:secret=*/early.key", -EACCES, "others may get at it: chmod 600"},
        {"tcp:tls=yes", -EINVAL, "there are secret=FILE, tls,"},
        {"tcp:tls,cert=*/member.cert,key=*/member.key", -EINVAL, "belong together"},
        {"tcp:cert=*/member.cert,key=*/member.key,ca=*/ours.cert", -EINVAL, "of no use without it"},
        {"tcp:tls,cert=*/absent,key=*/member.key,ca=*/ours.cert", -EINVAL, "no certificates in PEM"},
        {"tcp:tls,cert=*/secret,key=*/member.key,ca=*/ours.cert", -EINVAL, "no certificates in PEM"},
        {"tcp:tls,cert=*/member.cert,key=*/expired.key,ca=*/ours.cert", -EINVAL, "key values mismatch"},
        {"tcp:tls,cert=*/member.cert,key=*/absent,ca=*/ours.cert", -ENOENT, "No such file"},
        {"tcp:tls,cert=*/member.cert,key=*/member.cert,ca=*/ours.cert", -EINVAL, "no private key"},
        {"tcp:tls,cert=*/member.cert,key=*/member.key,ca=*/secret", -EINVAL, "no certificates in PEM"},
        {OF("locked", "ours"), -EINVAL, "without a passphrase"},
        {OF("early", "ours"), -EACCES, "others may get at it: chmod 600"},
    };
    struct fixture *fixture = *state;
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/early.key", fixture->files.folder);
    assert_int_equal(chmod(path, 0640), 0);
    for (unsigned i = 0; i < base_array_count(wrong); i++) {
        struct tarn_fabric *fabric;
        forget(fixture);
        assert_int_equal(open_url(fixture, wrong[i].url, &fabric), wrong[i].error);
        assert_true(has_said(fixture, wrong[i].sentence));
    }
    assert_int_equal(chmod(path, 0600), 0);
}

/* ---- who is on the way --------------------------------------------------------------------------- */

enum { WAY_KEEPS, WAY_CHANGES, WAY_CUTS };

/* Passes on what two sides say, until it does something else. */
struct way {
    int listener, ends[2];
    char address[108];
    const char *target;
    pthread_t thread;
    _Atomic int conduct;
    uint8_t seen[1 << 20]; /* from the first */
    size_t seen_bytes;
};

/* Pass on one piece. @return false: that was the last */
static bool pass(struct way *way, int from)
{
    uint8_t bytes[4096];
    ssize_t count = recv(way->ends[from], bytes, sizeof(bytes), 0);
    if (count <= 0)
        return false;
    if (from == 0) {
        size_t kept = base_min((size_t)count, sizeof(way->seen) - way->seen_bytes);
        memcpy(way->seen + way->seen_bytes, bytes, kept);
        way->seen_bytes += kept;
        if (atomic_load(&way->conduct) == WAY_CHANGES)
            bytes[count / 2] ^= 1;
        if (atomic_load(&way->conduct) == WAY_CUTS) {
            (void)send(way->ends[1], bytes, (size_t)count / 2, MSG_NOSIGNAL);
            return false;
        }
    }
    return send(way->ends[1 - from], bytes, (size_t)count, MSG_NOSIGNAL) == count;
}

static void *stand_on_the_way(void *arg)
{
    struct way *way = arg;
    way->ends[0] = accept(way->listener, NULL, NULL);
    assert_true(way->ends[0] >= 0);
    way->ends[1] = tcp_testing_dial(way->target);
    bool open = true;
    while (open) {
        struct pollfd polls[2] = {{.fd = way->ends[0], .events = POLLIN},
                                  {.fd = way->ends[1], .events = POLLIN}};
        assert_true(poll(polls, 2, 20000) > 0);
        for (int i = 0; i < 2 && open; i++)
            open = polls[i].revents == 0 || pass(way, i);
    }
    assert_int_equal(close(way->ends[0]), 0);
    assert_int_equal(close(way->ends[1]), 0);
    return NULL;
}

static int listen_by_hand(char *ret_address, size_t room)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    tcp_testing_address(ret_address, room);
    struct sockaddr_in where = tcp_testing_read(ret_address);
    assert_int_equal(bind(fd, (const struct sockaddr *)&where, sizeof(where)), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

/* Connect the pair of a visit through somebody. */
static void connect_through(struct visit *visit, struct way *way)
{
    struct testing_job job;
    *way = (struct way){.target = visit->testing.address};
    way->listener = listen_by_hand(way->address, sizeof(way->address));
    assert_int_equal(pthread_create(&way->thread, NULL, stand_on_the_way, way), 0);
    testing_start(&visit->testing, &job, 0, testing_accept, &visit->pair);
    assert_int_equal(
        tarn_fabric_connect(visit->pair.client_domain, way->address, NULL, TESTING_LATE, &visit->pair.client),
        0);
    testing_join(&job);
}

static void leave(struct way *way)
{
    assert_int_equal(pthread_join(way->thread, NULL), 0);
    assert_int_equal(close(way->listener), 0);
}

static void nothing_is_readable_on_the_way(void **state)
{
    struct visit visit;
    static struct way way;
    uint8_t pattern[256];
    const char *const urls[] = {SECRET, MEMBER};
    testing_fill(pattern, sizeof(pattern), 1);
    for (unsigned i = 0; i < base_array_count(urls); i++) {
        open_visit(&visit, *state, urls[i], urls[i]);
        connect_through(&visit, &way);
        assert_int_equal(tarn_fabric_write(visit.pair.client, 0, &visit.pair.all->handle, 64, pattern,
                                           sizeof(pattern), TESTING_LATE),
                         0);
        testing_expect(visit.pair.all, 64, pattern, sizeof(pattern));
        testing_disconnect(&visit.pair);
        leave(&way);
        assert_true(way.seen_bytes > TCP_HELLO_BYTES + sizeof(pattern));
        assert_null(memmem(way.seen, way.seen_bytes, pattern, 16));
        assert_null(memmem(way.seen, way.seen_bytes, &visit.pair.all->handle.key, 8));
        assert_null(memmem(way.seen, way.seen_bytes, "tarn\3\0", 6)); /* a hello begins so */
        close_visit(&visit);
    }
}

/* A changed bit, or a cut in the middle of a record: nothing of it is done, and both sides know. */
static void what_is_changed_or_cut_is_not_taken(void **state)
{
    static const int conducts[] = {WAY_CHANGES, WAY_CUTS};
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < base_array_count(conducts); i++) {
        struct visit visit;
        struct tarn_fabric_message message;
        static struct way way;
        static uint8_t data[4096];
        uint64_t word = UINT64_MAX;
        open_visit(&visit, fixture, SECRET, SECRET);
        connect_through(&visit, &way);
        forget(fixture);
        atomic_store(&way.conduct, conducts[i]);
        assert_int_equal(
            tarn_fabric_write(visit.pair.client, 0, &visit.pair.all->handle, 0, &word, 8, TESTING_LATE),
            -ECONNRESET);
        assert_int_equal(tarn_fabric_receive(visit.pair.server, data, sizeof(data), TESTING_LATE, &message),
                         conducts[i] == WAY_CHANGES ? -EPROTO : -ECONNRESET);
        assert_int_equal(tarn_fabric_mem_load64(visit.pair.all, 0), 0);
        testing_disconnect(&visit.pair);
        leave(&way);
        close_visit(&visit);
    }
}

/* ---- who keeps to nothing ------------------------------------------------------------------------ */

static const uint8_t beginning[] = {0x16, 3, 1, 2, 0, 1, 0}; /* of a record that does not come */

/* Those who stall in the middle of a handshake take no place from others; and who listens and says nothing is not
 * waited for. */
static void a_handshake_that_stalls_holds_up_nobody(void **state)
{
    enum { STALLED = TCP_BACKLOG_PLACES + 6 };
    struct visit visit;
    struct tarn_fabric_connection *connection;
    int fds[STALLED];
    open_visit(&visit, *state, PATIENT, PATIENT);
    for (unsigned i = 0; i < STALLED; i++) {
        fds[i] = tcp_testing_dial(visit.testing.address);
        tcp_testing_say(fds[i], beginning, sizeof(beginning));
    }
    testing_connect(&visit.pair);
    assert_true(tcp_testing_ends(fds[0])); /* the oldest was dropped */
    for (unsigned i = 0; i < STALLED; i++)
        assert_int_equal(close(fds[i]), 0);

    char address[108];
    int mute = listen_by_hand(address, sizeof(address));
    assert_int_equal(tarn_fabric_connect(visit.pair.client_domain, address, NULL,
                                         task_now() + 50 * BASE_NS_PER_MS, &connection),
                     -ETIMEDOUT);
    assert_int_equal(close(mute), 0);
    close_visit(&visit);
}

/* A client made by hand, with blocking sockets, that knows the secret. */
struct hand {
    int fd;
    struct tcp_tls_context context;
    struct tcp_secret secret;
    SSL *ssl;
};

static void open_hand(struct hand *hand, const struct visit *visit)
{
    char path[96];
    struct base_log *log = &visit->fixture->node->log;
    (void)snprintf(path, sizeof(path), "%s/secret", visit->fixture->files.folder);
    assert_int_equal(tcp_secret_read(log, path, &hand->secret), 0);
    assert_int_equal(tcp_tls_context_open(log, &(struct tcp_options){0}, &hand->secret, &hand->context), 0);
    hand->fd = tcp_testing_dial(visit->testing.address);
    hand->ssl = SSL_new(hand->context.library);
    assert_non_null(hand->ssl);
    assert_int_equal(SSL_set_fd(hand->ssl, hand->fd), 1);
}

static void close_hand(struct hand *hand)
{
    SSL_free(hand->ssl);
    tcp_tls_context_close(&hand->context);
    assert_int_equal(close(hand->fd), 0);
}

static void open_with_hand(struct visit *visit, struct hand *hand, struct fixture *fixture)
{
    open_visit(visit, fixture, PATIENT, PATIENT);
    open_hand(hand, visit);
}

static void part(struct visit *visit, struct hand *hand)
{
    close_hand(hand);
    tarn_fabric_disconnect(visit->pair.server);
    visit->pair.server = NULL;
    close_visit(visit);
}

/* As SSL_read(), of which a receive with a deadline is not begun again by the kernel. */
static int hear(SSL *ssl, uint8_t *bytes, int count)
{
    int got;
    do
        got = SSL_read(ssl, bytes, count);
    while (got <= 0 && SSL_get_error(ssl, got) == SSL_ERROR_WANT_READ && errno == EINTR);
    return got;
}

/* As SSL_connect(), likewise. */
static void shake_hands(struct hand *hand)
{
    int done;
    do
        done = SSL_connect(hand->ssl);
    while (done <= 0 && SSL_get_error(hand->ssl, done) == SSL_ERROR_WANT_READ && errno == EINTR);
    assert_int_equal(done, 1);
}

/* Send the handshake's first message alone, and wait until it is answered. */
static void begin_to_shake(struct hand *hand)
{
    uint8_t *bytes, byte;
    BIO *out = BIO_new(BIO_s_mem());
    SSL_set_bio(hand->ssl, BIO_new(BIO_s_mem()), out);
    assert_int_equal(SSL_connect(hand->ssl), -1); /* nothing comes to its memory */
    long count = BIO_get_mem_data(out, &bytes);
    tcp_testing_say(hand->fd, bytes, (size_t)count);
    while (recv(hand->fd, &byte, 1, MSG_PEEK) != 1)
        assert_int_equal(errno, EINTR); /* the kernel does not begin it again */
    assert_int_equal(SSL_set_fd(hand->ssl, hand->fd), 1);
}

static void hear_welcome(const struct hand *hand)
{
    struct tcp_hello welcome;
    uint8_t bytes[TCP_HELLO_BYTES];
    assert_int_equal(hear(hand->ssl, bytes, TCP_HELLO_BYTES), TCP_HELLO_BYTES);
    assert_int_equal(tcp_hello_load(bytes, TCP_WELCOME, &welcome), 0);
}

/* Say a hello, and hear the welcome. */
static void meet(const struct hand *hand)
{
    const struct tarn_fabric_connect_options options = {.receive_count = 1, .receive_bytes = 1};
    const struct tcp_hello hello = tcp_hello_make(TCP_HELLO, &options);
    uint8_t bytes[TCP_HELLO_BYTES];
    tcp_hello_save(&hello, bytes);
    assert_int_equal(SSL_write(hand->ssl, bytes, TCP_HELLO_BYTES), TCP_HELLO_BYTES);
    hear_welcome(hand);
}

/* Silent clients push out none whose handshake has begun, and neither they nor begun handshakes push out one that has
 * proved itself; all of one host. */
static void who_has_come_further_is_not_pushed_out(void **state)
{
    enum { OTHERS = TCP_BACKLOG_PLACES + 6 };
    struct visit visit;
    struct testing_job job;
    struct hand hand;
    int fds[2][OTHERS];
    open_visit(&visit, *state, PATIENT, PATIENT);
    open_hand(&hand, &visit);
    begin_to_shake(&hand);
    for (unsigned i = 0; i < OTHERS; i++)
        fds[0][i] = tcp_testing_dial(visit.testing.address);
    assert_true(tcp_testing_ends(fds[0][0]));
    shake_hands(&hand);
    testing_connect(
        &visit.pair); /* the listener's scheduler serves its clients in turn: so it has verified this one */
    testing_disconnect(&visit.pair);
    for (unsigned i = 0; i < OTHERS; i++) {
        fds[1][i] = tcp_testing_dial(visit.testing.address);
        tcp_testing_say(fds[1][i], beginning, sizeof(beginning));
    }
    assert_true(tcp_testing_ends(fds[1][0]));
    testing_start(&visit.testing, &job, 0, testing_accept, &visit.pair);
    meet(&hand);
    testing_join(&job);
    for (unsigned i = 0; i < OTHERS; i++) {
        assert_int_equal(close(fds[0][i]), 0);
        assert_int_equal(close(fds[1][i]), 0);
    }
    part(&visit, &hand);
}

/* Clients that have proved themselves and say nothing more lock nobody out, and have an end: they are known, not good. */
static void the_proved_lock_nobody_out(void **state)
{
    enum { PROVED = TCP_BACKLOG_PLACES + 6 };
    struct visit visit;
    static struct hand hands[PROVED];
    open_visit(&visit, *state, SECRET, SECRET);
    for (unsigned i = 0; i < PROVED; i++) {
        open_hand(&hands[i], &visit);
        shake_hands(&hands[i]);
    }
    assert_true(tcp_testing_ends(hands[0].fd));
    testing_connect(&visit.pair);
    assert_true(tcp_testing_ends(hands[PROVED - 1].fd)); /* its time is over */
    for (unsigned i = 0; i < PROVED; i++)
        close_hand(&hands[i]);
    close_visit(&visit);
}

/* Rubbish comes through TLS too: it is refused there, in words. */
static void rubbish_under_tls_is_refused(void **state)
{
    struct visit visit;
    struct hand hand;
    struct tcp_hello hello;
    uint8_t bytes[TCP_HELLO_BYTES + 1] = {0};
    open_with_hand(&visit, &hand, *state);
    shake_hands(&hand);
    assert_int_equal(SSL_write(hand.ssl, bytes, TCP_HELLO_BYTES), TCP_HELLO_BYTES);
    assert_int_equal(hear(hand.ssl, bytes, TCP_HELLO_BYTES), TCP_HELLO_BYTES);
    assert_true(hear(hand.ssl, bytes + TCP_HELLO_BYTES, 1) <= 0);
    assert_int_equal(tcp_hello_load(bytes, TCP_WELCOME, &hello), -EPROTO);
    close_hand(&hand);
    testing_connect(&visit.pair);
    close_visit(&visit);
}

/* Have a handshake all but end, with the client's last message and the hello behind it still to be sent. */
static long begin_to_finish(struct hand *hand, uint8_t **ret_bytes, long *ret_last)
{
    const struct tarn_fabric_connect_options options = {.receive_count = 1, .receive_bytes = 1};
    const struct tcp_hello hello = tcp_hello_make(TCP_HELLO, &options);
    BIO *out = BIO_new(BIO_s_mem());
    uint8_t bytes[TCP_HELLO_BYTES];
    begin_to_shake(hand);
    SSL_set0_wbio(hand->ssl, out);
    shake_hands(hand);
    *ret_last = BIO_get_mem_data(out, ret_bytes);
    tcp_hello_save(&hello, bytes);
    assert_int_equal(SSL_write(hand->ssl, bytes, TCP_HELLO_BYTES), TCP_HELLO_BYTES);
    return BIO_get_mem_data(out, ret_bytes);
}

/* The hello may come together with the client's last message. If that does not prove what the client claims, the hello
 * behind it, which is whole, lets nobody in. */
static void a_hello_counts_only_behind_a_whole_handshake(void **state)
{
    struct visit visit;
    struct testing_job job;
    struct hand hand;
    struct tarn_fabric_incoming *incoming;
    uint8_t *said;
    long last;
    open_with_hand(&visit, &hand, *state);
    forget(visit.fixture);
    long count = begin_to_finish(&hand, &said, &last);
    said[last - 1] ^= 1;
    tcp_testing_say(hand.fd, said, (size_t)count);
    assert_true(has_said(visit.fixture, "what it sends is no TLS"));
    assert_true(tcp_testing_ends(hand.fd));
    assert_int_equal(tarn_fabric_listener_wait(visit.pair.listener, task_now(), &incoming), -ETIMEDOUT);
    close_hand(&hand);
    open_hand(&hand, &visit);
    count = begin_to_finish(&hand, &said, &last);
    testing_start(&visit.testing, &job, 0, testing_accept, &visit.pair);
    tcp_testing_say(hand.fd, said, (size_t)count);
    assert_int_equal(SSL_set_fd(hand.ssl, hand.fd), 1);
    hear_welcome(&hand);
    testing_join(&job);
    part(&visit, &hand);
}

static void older_versions_are_refused(void **state)
{
    struct visit visit;
    struct hand hand;
    open_visit(&visit, *state, MEMBER, MEMBER);
    open_hand(&hand, &visit);
    forget(visit.fixture);
    assert_int_equal(SSL_set_min_proto_version(hand.ssl, TLS1_2_VERSION), 1);
    assert_int_equal(SSL_set_max_proto_version(hand.ssl, TLS1_2_VERSION), 1);
    assert_true(SSL_connect(hand.ssl) <= 0);
    assert_true(has_said(visit.fixture, "it knows no TLS 1.3"));
    close_hand(&hand);
    close_visit(&visit);
}

/* Who asks for new keys without end, and takes none of them, is given up; the memory for answers has an end. */
static void a_flood_of_key_updates_is_given_up(void **state)
{
    struct visit visit;
    struct hand hand;
    uint8_t byte;
    open_with_hand(&visit, &hand, *state);
    shake_hands(&hand);
    forget(visit.fixture);
    for (bool going = true; going;) /* until it hears nothing any more, or is cut off */
        going = SSL_key_update(hand.ssl, SSL_KEY_UPDATE_REQUESTED) == 1 && SSL_do_handshake(hand.ssl) == 1;
    assert_true(has_said(visit.fixture, "it asks for keys again and again and takes none"));
    assert_true(hear(hand.ssl, &byte, 1) <= 0);
    close_hand(&hand);
    close_visit(&visit);
}

static void send_by_hand(struct hand *hand, struct tcp_frame frame, const struct visit *visit,
                         const void *payload)
{
    uint8_t bytes[TCP_HEADER_BYTES + 8];
    frame.last = true;
    frame.domain = visit->pair.all->handle.domain;
    frame.key = visit->pair.all->handle.key;
    memcpy(bytes + TCP_HEADER_BYTES, payload, 8);
    tcp_frame_seal(&frame, true, bytes);
    int count = (int)(TCP_HEADER_BYTES + frame.bytes);
    assert_int_equal(SSL_write(hand->ssl, bytes, count), count);
}

/* Until who sends is held up in the middle of it: he has begun, and nothing more comes. */
static void await_full(int fd, const struct tarn_fabric_connection *sends)
{
    struct tcp_connection *connection = sends->state;
    bool sending;
    int before, now = 0;
    do {
        before = now;
        (void)task_sleep(20 * BASE_NS_PER_MS);
        assert_int_equal(ioctl(fd, FIONREAD, &now), 0);
        base_spin_lock(&connection->bell.lock);
        sending = connection->sockets[0].sending;
        base_spin_unlock(&connection->bell.lock);
    } while (!sending || now == 0 || now != before);
}

/* What is answered to a request for keys while much is on its way goes behind that, whole. */
static void keys_are_answered_behind_what_is_on_its_way(void **state)
{
    enum { READS = 100 };
    const int room = 65536;
    struct visit visit;
    struct hand hand;
    struct testing_job job;
    static uint8_t bytes[TCP_PAYLOAD_BYTES];
    const uint64_t word = 1;
    uint64_t heard = 0;
    open_visit(&visit, *state, SECRET, SECRET);
    testing_start(&visit.testing, &job, 0, testing_accept, &visit.pair);
    open_hand(&hand, &visit);
    assert_int_equal(setsockopt(hand.fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)), 0);
    assert_int_equal(setsockopt(hand.fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)), 0);
    shake_hands(&hand);
    meet(&hand);
    testing_join(&job);
    for (unsigned i = 0; i < READS; i++) /* more than sockets hold */
        send_by_hand(&hand, (struct tcp_frame){.kind = TCP_READ, .length = TESTING_BYTES}, &visit, &word);
    await_full(hand.fd, visit.pair.server);
    for (unsigned i = 0; i < 3;
         i++) { /* the library answers one when the next has come, or with what is sent next */
        assert_int_equal(SSL_key_update(hand.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        assert_int_equal(SSL_do_handshake(hand.ssl), 1);
    }
    send_by_hand(&hand, (struct tcp_frame){.kind = TCP_WRITE, .bytes = 8, .length = 8}, &visit, &word);
    assert_int_equal(testing_await_word(visit.pair.all, 0, 0), word); /* so the request was read, too */
    while (heard < READS * TESTING_BYTES) {
        int got = hear(hand.ssl, bytes, sizeof(bytes));
        assert_true(got > 0);
        heard += (uint64_t)got;
    }
    part(&visit, &hand);
}

/* ---- keys ---------------------------------------------------------------------------------------- */

static void change_keys(void *arg)
{
    struct task_testing *testing = arg;
    struct fixture *fixture = testing->arg;
    static uint8_t data[TESTING_BYTES], back[TESTING_BYTES];
    struct visit visit;
    fixture->node = testing->node;
    open_visit(&visit, fixture, SECRET, SECRET);
    visit.testing.tasks = testing;
    testing_connect(&visit.pair);
    for (unsigned round = 0; round < 8; round++) {
        struct tarn_fabric_connection *sides[] = {visit.pair.client, visit.pair.server};
        for (unsigned i = 0; i < base_array_count(sides); i++)
            tcp_tls_change_key(((struct tcp_connection *)sides[i]->state)
                                   ->sockets[0]
                                   .tls); /* this task's scheduler has both */
        testing_fill(data, sizeof(data), round);
        const struct tarn_fabric_handle *handle = &visit.pair.all->handle;
        assert_int_equal(tarn_fabric_write(visit.pair.client, 0, handle, 0, data, sizeof(data), TESTING_LATE),
                         0);
        assert_int_equal(tarn_fabric_read(visit.pair.client, 0, handle, 0, back, sizeof(back), TESTING_LATE),
                         0);
        assert_memory_equal(data, back, sizeof(back));
    }
    close_visit(&visit);
}

/* A key is not used for ever: the two sides go on with the next. */
static void keys_change(void **state)
{
    struct fixture *fixture = *state;
    struct tarn_node *node = fixture->node;
    task_testing_run(NULL, NULL, change_keys, fixture);
    fixture->node = node;
}

int main(void)
{
    tcp_testing_allow_sockets();
    (void)signal(SIGPIPE, SIG_IGN); /* the library's own sockets write without MSG_NOSIGNAL */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_right_ones_work_together),
        cmocka_unit_test(the_wrong_ones_are_told_why),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(nothing_is_readable_on_the_way),
        cmocka_unit_test(what_is_changed_or_cut_is_not_taken),
        cmocka_unit_test(a_handshake_that_stalls_holds_up_nobody),
        cmocka_unit_test(who_has_come_further_is_not_pushed_out),
        cmocka_unit_test(the_proved_lock_nobody_out),
        cmocka_unit_test(rubbish_under_tls_is_refused),
        cmocka_unit_test(a_hello_counts_only_behind_a_whole_handshake),
        cmocka_unit_test(older_versions_are_refused),
        cmocka_unit_test(a_flood_of_key_updates_is_given_up),
        cmocka_unit_test(keys_are_answered_behind_what_is_on_its_way),
        cmocka_unit_test(keys_change),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
