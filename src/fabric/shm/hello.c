/*
 * What two processes say to each other over a Unix socket that keeps message boundaries: first each sends a hello, with
 * credentials that the kernel vouches for and two descriptors; then notes.
 */
#include "fabric/shm/shm.h"
#include "task/net.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO_MARK UINT32_C(0x026d6873)

enum refusal { NOT_WANTED = 1, OUT_OF_MEMORY };

#define MESSAGE_FDS_MAX 253 /* the kernel's SCM_MAX_FD */

/* Room for a message's credentials, and for as many descriptors as may come with one: those without room are closed by
 * the kernel in this thread. */
union control {
    struct cmsghdr header;
    uint8_t room[CMSG_SPACE(MESSAGE_FDS_MAX * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

/* ---- messages ----------------------------------------------------------------------------------- */

int shm_socket(int *ret_socket)
{
    const int on = 1;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0) {
        int error = -errno;
        (void)close(fd);
        return error;
    }
    *ret_socket = fd;
    return 0;
}

bool shm_message_send(int fd, const void *bytes, size_t count, const int *fds, unsigned fd_count)
{
    struct iovec vector = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = count};
    union control control = {0};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (fd_count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        control.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(fd_count * sizeof(int))};
        memcpy(CMSG_DATA(&control.header), fds, fd_count * sizeof(int));
    }
    return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)count;
}

int shm_hello_send(int fd, const struct shm_hello *hello, const int *fds)
{
    struct shm_hello marked = *hello;
    marked.mark = HELLO_MARK;
    return shm_message_send(fd, &marked, sizeof(marked), fds, SHM_HELLO_FDS) ? 0 : -ECONNRESET;
}

void shm_hello_refuse(int fd, int error)
{
    const struct shm_hello refusal = {.mark = HELLO_MARK,
                                      .refused = error == -ENOMEM ? OUT_OF_MEMORY : NOT_WANTED};
    (void)send(fd, &refusal, sizeof(refusal), MSG_DONTWAIT | MSG_NOSIGNAL); /* the peer may be gone */
}

void shm_greeting_drop(int closer, struct shm_greeting *greeting)
{
    for (unsigned i = 0; i < SHM_HELLO_FDS; i++) {
        if (greeting->fds[i] >= 0)
            shm_close_later(closer, greeting->fds[i]);
        greeting->fds[i] = -1;
    }
}

/* A message that was received. */
struct received {
    struct iovec vector;
    struct msghdr header;
    union control control;
};

/* @return as recvmsg() */
static ssize_t receive_message(int fd, void *bytes, size_t room, struct received *ret_message)
{
    ret_message->vector = (struct iovec){.iov_base = bytes, .iov_len = room};
    ret_message->header = (struct msghdr){.msg_iov = &ret_message->vector,
                                          .msg_iovlen = 1,
                                          .msg_control = &ret_message->control,
                                          .msg_controllen = sizeof(ret_message->control)};
    return recvmsg(fd, &ret_message->header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
}

/* Keep the first descriptors, and close any more than a hello's. @return number of descriptors that came */
static unsigned keep_descriptors(int closer, const struct cmsghdr *header, unsigned kept,
                                 struct shm_greeting *greeting)
{
    const uint8_t *data = CMSG_DATA(header);
    unsigned count = (unsigned)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (unsigned i = 0; i < count; i++, kept++) {
        int fd;
        memcpy(&fd, data + i * sizeof(fd), sizeof(fd));
        if (kept < SHM_HELLO_FDS)
            greeting->fds[kept] = fd;
        else
            shm_close_later(closer, fd);
    }
    return kept;
}

/* Take a message's credentials and descriptors. @return 0; -EACCES; -EPROTO */
static int take_control(int closer, struct msghdr *message, bool refused, struct shm_greeting *greeting)
{
    struct ucred who = {.uid = (uid_t)-1};
    unsigned fds = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
            fds = keep_descriptors(closer, header, fds, greeting);
        else if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_CREDENTIALS)
            memcpy(&who, CMSG_DATA(header), sizeof(who));
    }
    if (who.uid != getuid() || who.pid <= 0)
        return -EACCES;
    greeting->pid = who.pid;
    return fds == (refused ? 0 : SHM_HELLO_FDS) ? 0 : -EPROTO;
}

int shm_hello_receive(int closer, int fd, struct shm_greeting *ret_greeting)
{
    struct shm_greeting greeting = {.fds = {-1, -1}};
    const struct shm_hello *hello = &greeting.hello;
    struct received message;
    ssize_t bytes = receive_message(fd, &greeting.hello, sizeof(greeting.hello), &message);
    if (bytes < 0)
        return errno == EAGAIN || errno == EINTR ? -EAGAIN : -ECONNRESET;
    bool refused = hello->refused != 0;
    int error = take_control(closer, &message.header, refused, &greeting);
    if (bytes == 0)
        error = -ECONNRESET; /* the end, or an empty message, with which descriptors may have come */
    if (error == 0 &&
        (bytes != sizeof(*hello) || hello->mark != HELLO_MARK || hello->refused > OUT_OF_MEMORY ||
         (message.header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
         hello->data_bytes > TARN_FABRIC_PRIVATE_BYTES_MAX))
        error = -EPROTO;
    if (error == 0 && refused)
        error = hello->refused == OUT_OF_MEMORY ? -ENOBUFS : -ECONNREFUSED;
    if (error != 0) {
        shm_greeting_drop(closer, &greeting);
        return error;
    }
    *ret_greeting = greeting;
    return 0;
}

/* ---- notes -------------------------------------------------------------------------------------- */

bool shm_note_send(int socket, const struct shm_note *note, int fd)
{
    return shm_message_send(socket, note, sizeof(*note), &fd, fd < 0 ? 0 : 1);
}

ssize_t shm_note_receive(int closer, int socket, struct shm_note *ret_note, int *ret_fd)
{
    struct shm_greeting came = {.fds = {-1, -1}};
    struct shm_note note;
    struct received message;
    ssize_t count = receive_message(socket, &note, sizeof(note), &message);
    *ret_note = (struct shm_note){.kind = SHM_LOOK};
    *ret_fd = -1;
    if (count >= 0)
        (void)take_control(closer, &message.header, true,
                           &came); /* the socket's other end is known by its hello */
    if (count == (ssize_t)sizeof(note) && (message.header.msg_flags & MSG_TRUNC) == 0 &&
        note.kind <= SHM_DROPPED) {
        *ret_note = note;
        *ret_fd = came.fds[0];
        came.fds[0] = -1;
    }
    shm_greeting_drop(closer, &came);
    return count;
}
