/* For the tests of `shm`: it as a subject, with a socket for each listener. */
#include "fabric/shm_testing.h"
#include <netinet/in.h>
#include <sys/socket.h>

static void shm_testing_address(char *ret_address, size_t room)
{
    static unsigned count;
    int length = snprintf(ret_address, room, "/tmp/fabric-test-%d-%u.socket", (int)getpid(), count++);
    assert_true(length > 0 && length < (int)room);
}

int shm_testing_setup(void **state)
{
    static const struct testing_subject subject = {.url = "shm:", .address = shm_testing_address};
    *state = (void *)(uintptr_t)&subject;
    return 0;
}

int shm_testing_linger(int *ret_other)
{
    const struct linger hour = {.l_onoff = 1, .l_linger = 3600};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    uint8_t block[65536] = {0};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    *ret_other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(*ret_other >= 0);
    assert_int_equal(close(listener), 0);
    while (send(fd, block, sizeof(block), MSG_DONTWAIT) > 0)
        continue;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hour, sizeof(hour)), 0);
    return fd;
}

void shm_testing_linger_end(int other)
{
    const struct linger none = {.l_onoff = 1, .l_linger = 0};
    assert_int_equal(setsockopt(other, SOL_SOCKET, SO_LINGER, &none, sizeof(none)), 0);
    assert_int_equal(close(other), 0);
}
