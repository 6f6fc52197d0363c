/* For the tests of `tcp`: it as a subject, with a port of this machine for each listener; and peers made by hand. */
#include "fabric/tcp_testing.h"
#include <sys/resource.h>

struct sockaddr_in tcp_testing_read(const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    char host[INET_ADDRSTRLEN];
    const char *colon = strrchr(text, ':');
    assert_true(colon != NULL && colon - text < INET_ADDRSTRLEN);
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    assert_int_equal(inet_pton(AF_INET, host, &address.sin_addr), 1);
    address.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    return address;
}

void tcp_testing_address(char *ret_address, size_t room)
{
    const uint32_t own = UINT32_C(0x7f000000) | ((uint32_t)getpid() & 0xffffff);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(own)};
    char host[INET_ADDRSTRLEN];
    socklen_t bytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, bytes), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    assert_int_equal(close(fd), 0);
    assert_non_null(inet_ntop(AF_INET, &address.sin_addr, host, sizeof(host)));
    assert_true(snprintf(ret_address, room, "%s:%u", host, ntohs(address.sin_port)) < (int)room);
}

int tcp_testing_setup(void **state)
{
    /* beats are rare, so that no machine is slow enough for a peer to be given up */
    static const struct testing_subject subject = {.url = "tcp:heartbeat=20s",
                                                   .address = tcp_testing_address,
                                                   .registers = true,
                                                   .is_served = true,
                                                   .fences_alone = true};
    *state = (void *)(uintptr_t)&subject;
    return 0;
}

void tcp_testing_allow_sockets(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* ---- peers made by hand: blocking sockets, for tests in plain threads --------------------------- */

int tcp_testing_dial(const char *address)
{
    struct sockaddr_in where = tcp_testing_read(address);
    const struct timeval patience = {.tv_sec = 20};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&where, sizeof(where)), 0);
    return fd;
}

void tcp_testing_say(int fd, const uint8_t *bytes, size_t count)
{
    assert_int_equal(send(fd, bytes, count, MSG_NOSIGNAL), count);
}

bool tcp_testing_hear(int fd, uint8_t *bytes, size_t count)
{
    for (size_t at = 0; at < count;) {
        ssize_t taken = recv(fd, bytes + at, count - at, 0);
        if (taken < 0 && errno == EINTR)
            continue; /* with a deadline of its own the kernel does not begin it again */
        if (taken <= 0)
            return false;
        at += (size_t)taken;
    }
    return true;
}

bool tcp_testing_ends(int fd)
{
    uint8_t bytes[256];
    ssize_t taken;
    do
        taken = recv(fd, bytes, sizeof(bytes), 0);
    while (taken > 0 || (taken < 0 && errno == EINTR));
    return taken == 0 || errno == ECONNRESET;
}

void tcp_testing_ask(int fd, const struct tcp_hello *hello)
{
    uint8_t bytes[TCP_HELLO_BYTES];
    tcp_hello_save(hello, bytes);
    tcp_testing_say(fd, bytes, sizeof(bytes));
}

int tcp_testing_hear_hello(int fd, enum tcp_hello_kind kind, struct tcp_hello *ret_hello)
{
    uint8_t bytes[TCP_HELLO_BYTES];
    return tcp_testing_hear(fd, bytes, sizeof(bytes)) ? tcp_hello_load(bytes, kind, ret_hello) : -ECONNRESET;
}

int tcp_testing_greet(int fd)
{
    const struct tarn_fabric_connect_options options = {.receive_count = 4, .receive_bytes = 64};
    const struct tcp_hello hello = tcp_hello_make(TCP_HELLO, &options);
    struct tcp_hello welcome;
    tcp_testing_ask(fd, &hello);
    return tcp_testing_hear_hello(fd, TCP_WELCOME, &welcome);
}

int tcp_testing_meet(struct testing_pair *pair)
{
    struct testing_job job;
    testing_start(pair->testing, &job, 0, testing_accept, pair);
    int fd = tcp_testing_dial(pair->testing->address);
    assert_int_equal(tcp_testing_greet(fd), 0);
    testing_join(&job);
    return fd;
}

void tcp_testing_leave(struct testing_pair *pair, const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(close(fds[i]), 0);
    if (pair->server != NULL)
        tarn_fabric_disconnect(pair->server);
    pair->server = NULL;
}

void tcp_testing_end(struct testing_pair *pair, const int *fds, unsigned count)
{
    tcp_testing_leave(pair, fds, count);
    testing_pair_close(pair);
}

void tcp_testing_send(int fd, struct tcp_frame frame, const void *payload)
{
    static uint8_t bytes[TCP_HEADER_BYTES + TCP_BULK_BYTES];
    if (payload != NULL)
        memcpy(bytes + TCP_HEADER_BYTES, payload, frame.bytes);
    tcp_frame_seal(&frame, true, bytes);
    tcp_testing_say(fd, bytes, TCP_HEADER_BYTES + frame.bytes);
}

bool tcp_testing_receive(int fd, struct tcp_frame *ret_frame, uint8_t *payload)
{
    uint8_t bytes[TCP_HEADER_BYTES + TCP_BULK_BYTES];
    do {
        if (!tcp_testing_hear(fd, bytes, TCP_HEADER_BYTES))
            return false;
        assert_int_equal(tcp_frame_open(bytes, ret_frame), 0);
        assert_true(tcp_testing_hear(fd, bytes + TCP_HEADER_BYTES, ret_frame->bytes));
        assert_int_equal(base_crc32c(0, bytes + TCP_HEADER_BYTES, ret_frame->bytes), ret_frame->checksum);
    } while (ret_frame->kind == TCP_STATE);
    if (payload != NULL)
        memcpy(payload, bytes + TCP_HEADER_BYTES, ret_frame->bytes);
    return true;
}
