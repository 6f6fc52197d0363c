/* For the tests of `tcp`: it as a subject, with a port of this machine for each listener; and peers made by hand. */
#ifndef FABRIC_TCP_TESTING_H
#define FABRIC_TCP_TESTING_H

#include "fabric/tcp/frame.h"
#include "fabric/tcp/hello.h"
#include "fabric/tcp/tcp.h"
#include "fabric/testing.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

/** What an address says. */
struct sockaddr_in tcp_testing_read(const char *text);

/** A port that nobody listens on, of a loopback address that only this process uses: others run at the same time. */
void tcp_testing_address(char *ret_address, size_t room);

int tcp_testing_setup(void **state);

/** Let this process have as many sockets as it may: a crowd needs more than usual. */
void tcp_testing_allow_sockets(void);

/* ---- peers made by hand: blocking sockets, for tests in plain threads --------------------------- */

/** Connect with a listener. @return the socket */
int tcp_testing_dial(const char *address);

void tcp_testing_say(int fd, const uint8_t *bytes, size_t count);

/** @return whether all of it came before the end */
bool tcp_testing_hear(int fd, uint8_t *bytes, size_t count);

/** Whether the other side ends the connection; what it still says is dropped. */
bool tcp_testing_ends(int fd);

/** Say a hello. */
void tcp_testing_ask(int fd, const struct tcp_hello *hello);

/** Hear what the server makes of it. @return 0 and a hello of that kind; or as tcp_hello_load() */
int tcp_testing_hear_hello(int fd, enum tcp_hello_kind kind, struct tcp_hello *ret_hello);

/** Say a usual hello, and hear the welcome. @return as above */
int tcp_testing_greet(int fd);

/** Be the client of a pair whose own is not connected. @return the socket */
int tcp_testing_meet(struct testing_pair *pair);

/** Close the sockets of peers made by hand, and the server's side of their connection, if it is still there. */
void tcp_testing_leave(struct testing_pair *pair, const int *fds, unsigned count);

/** The same, and then close the pair. */
void tcp_testing_end(struct testing_pair *pair, const int *fds, unsigned count);

/** Send a frame. @param payload  of frame.bytes; NULL: none */
void tcp_testing_send(int fd, struct tcp_frame frame, const void *payload);

/** Receive the next frame but STATE. @return false: there are no more */
bool tcp_testing_receive(int fd, struct tcp_frame *ret_frame, uint8_t *payload);

#endif
