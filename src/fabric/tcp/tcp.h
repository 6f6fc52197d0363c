/* The provider `tcp`: any host that a stream socket reaches. For the files of this folder. */
#ifndef FABRIC_TCP_TCP_H
#define FABRIC_TCP_TCP_H

#include "fabric/fabric_internal.h"
#include "task/net.h"

struct tcp;
struct tcp_connection;
struct tcp_incoming;
struct tcp_options;
struct tcp_tls;
struct stat;

/* ---- gate.c: a lock, and sleeping until what it guards has changed -------------------------------- */

struct tcp_gate {
    struct base_spin lock;
    struct base_list sleepers; /* of struct task_wait */
};

/** Open, nobody sleeps. */
void tcp_gate_init(struct tcp_gate *gate);

/** Take the lock: for a few microseconds, and never across a yield. Any thread. */
void tcp_gate_lock(struct tcp_gate *gate);

/** Give it back. */
void tcp_gate_unlock(struct tcp_gate *gate);

/** Have all who sleep look again. */
void tcp_gate_wake_locked(struct tcp_gate *gate);

/** Sleep without the lock until woken. @return 0; -ETIMEDOUT; -ECANCELED. Yields. */
base_must_check int tcp_gate_sleep_locked(struct tcp_gate *gate, uint64_t deadline_ns);

/** The same, whatever happens. Yields. */
void tcp_gate_sleep_firmly_locked(struct tcp_gate *gate);

/* ---- domain.c: domains and regions --------------------------------------------------------------- */

/* Where a region's bytes are charged. */
enum tcp_place { TCP_READABLE, TCP_WRITABLE, TCP_PLACES };

struct tcp_region {
    uint64_t key; /* its low 16 bits are its place in the table */
    uint8_t *memory;
    uint64_t bytes;
    uint32_t rights;
    enum tcp_place place;
    bool borrowed;          /* the memory is the caller's */
    _Atomic uint32_t users; /* who are in the middle of a copy */
};

struct tcp_domain {
    struct tcp *tcp;
    uint64_t identity; /* in every handle */
    uint64_t bytes_max[TCP_PLACES];
    uint64_t charged_bytes;
    struct base_spin lock; /* of what follows */
    uint64_t bytes[TCP_PLACES];
    uint64_t keys; /* given out so far, from a random number on */
    uint32_t table_slots;
    struct tcp_region **table;
};

/** Of struct fabric_provider. */
int tcp_domain_open(void *state, const struct tarn_fabric_domain_options *options, void **ret_domain);

/** Of struct fabric_provider. */
void tcp_domain_close(void *state);

/** Of struct fabric_provider: region_alloc(), and region_register() if there is memory. */
int tcp_region_alloc(void *state, struct tarn_fabric_region *region);

/** Of struct fabric_provider. */
void tcp_region_free(void *state, struct tarn_fabric_region *region);

/**
 * Find a region that grants something; its memory stays until tcp_region_put(), which must come without a yield.
 *
 * @param offset, bytes  that must lie within it
 * @return NULL: there is none
 */
struct tcp_region *tcp_region_get(struct tcp_domain *domain, uint64_t identity, uint64_t key, uint32_t rights,
                                  uint64_t offset, uint64_t bytes);

/** Let go of it. */
void tcp_region_put(struct tcp_region *region);

/* ---- frame.c: what is sent ----------------------------------------------------------------------- */

#define TCP_HEADER_BYTES  64
#define TCP_PAYLOAD_BYTES 16384 /* at most, of a frame */
#define TCP_FRAME_BYTES   (TCP_HEADER_BYTES + TCP_PAYLOAD_BYTES)

enum tcp_frame_kind {
    TCP_READ = 1,
    TCP_WRITE,
    TCP_WRITE_NOTIFY,
    TCP_CAS,
    TCP_FAA,
    TCP_SEND,
    TCP_DATA,  /* answers READ */
    TCP_WORD,  /* answers CAS and FAA */
    TCP_STATE, /* no more than what every frame says */
    TCP_BYE,   /* the last frame: enum tcp_farewell */
};

/* Why there are no more frames. */
enum tcp_farewell {
    TCP_STAYS,
    TCP_LEAVES,   /* it has disconnected */
    TCP_GIVES_UP, /* its side of the connection has failed */
    TCP_REFUSES,  /* a request that its regions do not grant */
};

/* What a frame says, but for its payload. README, "tcp", has the table. */
struct tcp_frame {
    enum tcp_frame_kind kind;
    bool last;      /* of the frames of one operation */
    bool probe;     /* the other side shall send something */
    uint32_t bytes; /* of payload */
    uint32_t value;
    uint64_t done;     /* requests of the other side that have been served */
    uint64_t received; /* its messages that have been received */
    uint64_t domain, key, offset, length;
};

/** Write the header before a payload that is there already. */
void tcp_frame_seal(const struct tcp_frame *frame, uint8_t *bytes);

/** Bytes of the frame that begins here, as its first 8 bytes say. @return 0: it is none */
uint32_t tcp_frame_bytes(const uint8_t *bytes);

/** Read a whole frame. @return 0; -EPROTO: it is none, or damaged */
base_must_check int tcp_frame_open(const uint8_t *bytes, struct tcp_frame *ret_frame);

/* ---- wire.c, target.c, initiator.c: both sides' work, without a socket ------------------------------ */

#define TCP_WINDOW    128                                      /* requests that are not served yet, at most */
#define TCP_OUT_BYTES (2 * TCP_FRAME_BYTES + TCP_HEADER_BYTES) /* room for tcp_wire_fill() */

/* An answer that is to be sent. */
struct tcp_answer {
    uint64_t number; /* of the request */
    bool is_word;
    uint64_t word;
    uint64_t key, offset, left; /* of a READ: what is still to be sent */
};

#define TCP_MESSAGE_HEAD_BYTES 16 /* in front of each in its slot */

/* Messages that wait for their receiver: `count` slots of `slot_bytes`. */
struct tcp_messages {
    uint8_t *memory;
    uint64_t slot_bytes;
    uint32_t count;
    uint32_t bytes;    /* the longest */
    uint64_t arrived;  /* whole */
    uint64_t received; /* by their user */
    uint64_t told;     /* of those, the other side knows */
    uint64_t part;     /* bytes of the next one that are there */
    bool parted;       /* some are, and more will come */
};

#define TCP_LARGE_BYTES 8192 /* of payload: a frame that passes the turn to the next socket */
#define TCP_SOCKETS_MAX 8

/*
 * What two sides have in flight. The connection's lock guards it; who changes it looks afterwards at
 * tcp_wire_has_output() and wakes whoever waits.
 */
struct tcp_wire {
    struct tcp_domain *domain;  /* that the other side gets at */
    int error;                  /* what it died of */
    const char *doing;          /* when it died, for the log */
    enum tcp_farewell farewell; /* to be said, or said */
    bool farewell_said;
    uint64_t refused; /* the number of the request that was, with TCP_REFUSES */
    uint32_t sockets; /* that frames go by in turn; 0 and 1: there is no such */
    uint32_t in_turn, out_turn;

    /* the target: requests of the other side */
    uint64_t requests; /* taken whole */
    uint64_t done_told;
    struct tcp_answer answers[TCP_WINDOW];
    uint32_t answers_first, answers_count;
    struct tcp_messages messages;
    bool probe_due, reply_due;

    /* the initiator: our own */
    struct fabric_queue waiting;    /* for credit, or for those before */
    struct fabric_queue posted;     /* to be sent; of the first a part may have been */
    struct fabric_queue flight;     /* sent */
    struct fabric_queue done;       /* for their user to finish */
    struct tarn_fabric_op *culprit; /* was refused */
    uint64_t begun;                 /* that have left `waiting` */
    uint64_t sent;
    uint64_t served;    /* of those */
    uint64_t out_bytes; /* of the first posted, sent */
    uint64_t in_bytes;  /* of the first in flight that is answered, come */
    bool answered;      /* that one is, wholly */
    bool fence_set;     /* the first waiting has a fence, and goes when `served` is `fence_at` */
    uint64_t fence_at;
    uint64_t messages_begun;
    uint64_t messages_received; /* by the other side's user */
    uint32_t peer_messages;     /* that may wait there */
    uint32_t peer_message_bytes;
};

/** Begin: with the memory of `messages` set, and what the peer has said of itself. */
void tcp_wire_begin(struct tcp_wire *wire, struct tcp_domain *domain, uint32_t peer_messages,
                    uint32_t peer_message_bytes);

/**
 * It dies of an error, unless it is dead: nothing of the peer's is served from now on.
 *
 * @param farewell  what the peer shall be told
 */
void tcp_wire_die(struct tcp_wire *wire, int error, const char *doing, enum tcp_farewell farewell);

/** Take what has come by the socket whose turn it is, at most up to where that passes. @return how much of it was
 * whole frames */
size_t tcp_wire_take(struct tcp_wire *wire, const uint8_t *bytes, size_t count);

/** Whether tcp_wire_fill() would give something. */
bool tcp_wire_has_output(const struct tcp_wire *wire);

/** What is to be sent next, by the socket whose turn it was before. @param out  room for TCP_OUT_BYTES
 * @return its bytes */
size_t tcp_wire_fill(struct tcp_wire *wire, uint8_t *out);

/** Serve a request. */
void tcp_target_take(struct tcp_wire *wire, const struct tcp_frame *frame, const uint8_t *payload);

/** A part of an answer. @param to  room for a frame @return its bytes; 0: there is none */
size_t tcp_target_fill(struct tcp_wire *wire, uint8_t *to);

/** Requests of the other side that are served. */
uint64_t tcp_target_done(const struct tcp_wire *wire);

/** The next message. @return NULL: there is none; its bytes stay until tcp_target_received() */
const uint8_t *tcp_target_message(const struct tcp_wire *wire, struct tarn_fabric_message *ret_message);

/** It was received. */
void tcp_target_received(struct tcp_wire *wire);

/** Whether the other side should be told of messages that were received: it has little credit left. */
bool tcp_target_owes_credit(const struct tcp_wire *wire);

/** Begin an operation. @return 0; -EMSGSIZE */
base_must_check int tcp_initiator_post(struct tcp_wire *wire, struct tarn_fabric_op *op);

/** What the other side has served and received. */
void tcp_initiator_progress(struct tcp_wire *wire, const struct tcp_frame *frame, const uint8_t *payload);

/** A request of ours was refused. */
void tcp_initiator_refused(struct tcp_wire *wire, uint64_t number);

/** A part of a request. @param to  room for a frame @return its bytes; 0: there is none */
size_t tcp_initiator_fill(struct tcp_wire *wire, uint8_t *to);

/** Whether a request may be sent. */
bool tcp_initiator_has_output(const struct tcp_wire *wire);

/** Take a frame's own state: what it tells of both directions. */
void tcp_wire_head(struct tcp_wire *wire, struct tcp_frame *frame);

/* ---- hello.c: how two sides meet ----------------------------------------------------------------- */

#define TCP_HELLO_BYTES      148
#define TCP_NONCE_BYTES      32
#define TCP_SECRET_BYTES_MIN 16
#define TCP_SECRET_BYTES_MAX 4096

enum tcp_hello_kind { TCP_HELLO = 1, TCP_CHALLENGE, TCP_PROOF, TCP_WELCOME, TCP_REFUSAL, TCP_JOIN };

enum tcp_refusal { TCP_REJECTED = 1, TCP_BUSY, TCP_NO_HELLO, TCP_WRONG_SECRET };

/* What a side says of itself. README, "tcp", has the table. */
struct tcp_hello {
    enum tcp_hello_kind kind;
    uint32_t receive_count, receive_bytes;
    uint32_t data_bytes;
    uint32_t number; /* TCP_HELLO: of sockets that will join; TCP_JOIN: of this one; TCP_REFUSAL: why */
    uint8_t nonce[TCP_NONCE_BYTES];
    uint8_t proof[TCP_NONCE_BYTES];
    uint8_t data[TARN_FABRIC_PRIVATE_BYTES_MAX];
};

/* Both sides' hellos as they were sent: what proofs are of. */
struct tcp_meeting {
    uint8_t hello[TCP_HELLO_BYTES];
    uint8_t challenge[TCP_HELLO_BYTES];
};

/* A secret that both sides share. */
struct tcp_secret {
    uint32_t bytes; /* 0: none */
    uint8_t text[TCP_SECRET_BYTES_MAX];
};

/** Read one from a file that only its owner may read. @return 0; -EACCES, -EINVAL, -ENOENT and the like (logged) */
base_must_check int tcp_secret_read(struct base_log *log, const char *path, struct tcp_secret *ret_secret);

/** Open a file that only its owner may read. @return descriptor; -EACCES, -ENOENT and the like (logged) */
base_must_check int tcp_private_open(struct base_log *log, const char *path, struct stat *ret_file);

/** A hello of a kind with these options, and a nonce that nobody guesses. @param options  NULL: of neither
 * @return 0; -EIO: there is no chance to be had */
base_must_check int tcp_hello_make(enum tcp_hello_kind kind,
                                   const struct tarn_fabric_connect_options *options,
                                   struct tcp_hello *ret_hello);

/** Write one: TCP_HELLO_BYTES. */
void tcp_hello_save(const struct tcp_hello *hello, uint8_t *bytes);

/** Read one of a kind. @return 0; -EPROTO; with TCP_REFUSAL: what it means */
base_must_check int tcp_hello_load(const uint8_t *bytes, enum tcp_hello_kind kind,
                                   struct tcp_hello *ret_hello);

/** What shows that a side knows the secret; zero if there is none. @param welcome  NULL: the client's @return 0;
 * -ENOMEM */
base_must_check int tcp_hello_prove(const struct tcp_secret *secret, const struct tcp_meeting *meeting,
                                    const struct tcp_hello *welcome, uint8_t *ret_proof);

/** Whether a proof is what tcp_hello_prove() gives. */
bool tcp_hello_is_proof(const struct tcp_secret *secret, const struct tcp_meeting *meeting,
                        const struct tcp_hello *welcome, const uint8_t *proof);

/** Say that there will be no connection, as far as the socket takes it at once, and close it and its TLS. */
void tcp_hello_refuse(int fd, struct tcp_tls *tls, enum tcp_refusal why);

/* ---- tls_context.c, tls.c: TLS under hellos and frames -------------------------------------------- */

/* What all connections of a fabric share: `struct ssl_ctx_st` and `bio_method_st` are the library's. */
struct tcp_tls_context {
    struct ssl_ctx_st *library; /* NULL: connections are in the clear */
    struct bio_method_st *method;
};

/**
 * Make what the options say, with certificates or with the secret.
 *
 * @param secret  borrowed for as long as the context lives
 * @return 0; -ENOMEM; -EINVAL, -EACCES and the like (logged)
 */
base_must_check int tcp_tls_context_open(struct base_log *log, const struct tcp_options *options,
                                         const struct tcp_secret *secret,
                                         struct tcp_tls_context *ret_context);

/** No connection of it is left. Nothing, if it was never made. */
void tcp_tls_context_close(struct tcp_tls_context *context);

/** How the library reads and writes. @return NULL: no memory */
struct bio_method_st *tcp_tls_method(void);

/** One side of a connection, without a handshake yet. @return 0; -ENOMEM */
base_must_check int tcp_tls_open(struct tcp *tcp, bool is_server, struct tcp_tls **ret_tls);

/** Free it; NULL: nothing. */
void tcp_tls_close(struct tcp_tls *tls);

/** From now on it reads from this connection. NULL: nothing. */
void tcp_tls_attach(struct tcp_tls *tls, struct net_connection *net);

/** The next write takes a new key. */
void tcp_tls_change_key(struct tcp_tls *tls);

/** Why the other side is not who it should be, for the log. @return NULL: nothing is known; so of `tls` NULL */
const char *tcp_tls_reason(const struct tcp_tls *tls);

/* Of the next ones the task that serves the connection calls one that reads and one that writes at a time; `tls` NULL
 * means in the clear. */

/** As net_read_try(); -EPROTO: what came is no TLS; -EACCES: the other side says that this one is not let in. */
ssize_t tcp_read_try(struct net_connection *net, struct tcp_tls *tls, void *buffer, size_t room);

/** As net_read(), and tcp_read_try(). Yields. */
ssize_t tcp_read(struct net_connection *net, struct tcp_tls *tls, void *buffer, size_t room,
                 uint64_t deadline_ns);

/** As net_write(). @param bytes  TCP_OUT_BYTES at most. Yields. */
base_must_check int tcp_write(struct net_connection *net, struct tcp_tls *tls, const void *data, size_t bytes,
                              uint64_t deadline_ns);

/** Send the last that is said on a socket, as far as it takes it at once. Where TLS has failed that is its alert, or
 * the same in the clear if the other side spoke in the clear. */
void tcp_write_last(int fd, struct tcp_tls *tls, const void *data, size_t bytes);

/** Go on with the handshake. @return 0: done; -EAGAIN: when more has come; -EACCES, -EPROTO (tcp_tls_reason());
 * -ECONNRESET and the like; -ETIMEDOUT; -ECANCELED. Yields. */
base_must_check int tcp_shake_try(struct net_connection *net, struct tcp_tls *tls, uint64_t deadline_ns);

/** Go through with it. @return the same but -EAGAIN. Yields. */
base_must_check int tcp_shake(struct net_connection *net, struct tcp_tls *tls, uint64_t deadline_ns);

/* ---- listener.c ---------------------------------------------------------------------------------- */

/** Of struct fabric_provider. */
int tcp_listen(void *state, const char *address, void **ret_listener);

/** Of struct fabric_provider. */
void tcp_listener_close(void *state);

/** Of struct fabric_provider. */
int tcp_listener_wait(void *state, uint64_t deadline_ns, void **ret_incoming);

/** Of struct fabric_provider. */
uint32_t tcp_incoming_data(const void *state, const void **ret_data);

/** Of struct fabric_provider. */
void tcp_reject(void *state);

/** Free one; @return its socket, the caller's, as is its TLS. */
int tcp_incoming_take(void *state, struct tcp_meeting *ret_meeting, struct tcp_hello *ret_hello,
                      struct tcp_tls **ret_tls);

/*
 * Who waits for the other sockets of a connection that it accepts. Its ticket is the nonce of its welcome: nobody else
 * knows it.
 */
struct tcp_party {
    struct base_list link; /* tcp.parties, whose gate guards this */
    uint8_t ticket[TCP_NONCE_BYTES];
    uint32_t count;                               /* of sockets */
    bool known[TCP_SOCKETS_MAX];                  /* has joined */
    struct tcp_incoming *joined[TCP_SOCKETS_MAX]; /* and was not taken yet */
};

/** What somebody has said first. */
const struct tcp_hello *tcp_incoming_hello(const struct tcp_incoming *incoming);

/* ---- party.c: sockets that join a connection ------------------------------------------------------ */

/** Wait for sockets from 1 on, whoever accepts. */
void tcp_party_open(struct tcp *tcp, struct tcp_party *party, const struct tcp_hello *welcome,
                    uint32_t count);

/** Wait no more; who has joined and was not taken is refused. */
void tcp_party_close(struct tcp *tcp, struct tcp_party *party);

/** Give somebody to the party that it has the ticket of. @return false: there is none, or it has such a socket */
bool tcp_party_give(struct tcp *tcp, struct tcp_incoming *incoming);

/** Take one who has joined. @return 0; -ETIMEDOUT; -ECANCELED. Yields. */
base_must_check int tcp_party_take(struct tcp *tcp, struct tcp_party *party, uint64_t deadline_ns,
                                   uint32_t *ret_number, struct tcp_incoming **ret_incoming);

/* ---- connection.c, connect.c --------------------------------------------------------------------- */

#define TCP_IN_BYTES (4 * TCP_FRAME_BYTES)

/*
 * A connection. Its sockets belong to a scheduler: that of its user's tasks, or the fabric's own if its users are
 * plain threads. What happens there wakes the user through the gate. What is in struct tcp_socket is the scheduler's
 * alone, but for what is said.
 */
struct tcp_socket {
    struct tcp_connection *connection;
    uint32_t number;
    struct net_connection *net; /* NULL: not yet, or gone */
    struct tcp_tls *tls;        /* NULL: in the clear */
    bool sending;               /* a task sends; of this the gate is the connection's */
    uint32_t in_bytes;          /* that are not taken yet */
    uint8_t in[TCP_IN_BYTES];
    uint8_t out[TCP_OUT_BYTES];
};

struct tcp_connection {
    struct base_list link; /* tcp.connections */
    struct tcp *tcp;
    struct tarn_fabric_connection *owner;
    struct task_sched *sched;
    struct tcp_gate gate; /* of what follows */
    struct tcp_wire wire;
    uint32_t socket_count;
    uint32_t open_count; /* of those that are not gone */
    struct tcp_socket *sockets;
    struct task_message poke; /* has the scheduler look at what is below */
    bool poked;               /* it is on its way */
    bool beat;                /* the worker's clock has ticked */
    uint32_t senders;         /* tasks that send */
    bool deaf;                /* the other side takes nothing any more */
    bool leaving;             /* the user has gone */
    bool shut;                /* the sockets are to be shut */
    bool ending;              /* they are, and about to be closed */
    uint32_t silent_beats;    /* since something came, or of one who leaves since he does */
    uint32_t data_bytes;      /* the peer's */
    uint8_t data[TARN_FABRIC_PRIVATE_BYTES_MAX];
};

/** What serves the socket of a connection that has one, and those of others. */
extern const struct net_handler tcp_connection_handler, tcp_sockets_handler;

/** Have all sockets that have room receive. On the connection's scheduler. */
void tcp_connection_demand(struct tcp_connection *connection);

/** Once, before any of these. */
void tcp_connection_prepare(struct tcp_connection *connection);

/** Have the scheduler look: there is something to send, or to end. Any thread. */
void tcp_connection_poke(struct tcp_connection *connection);

/** The clock has ticked: is somebody silent? Any thread. */
void tcp_connection_beat(struct tcp_connection *connection);

/** Of struct fabric_provider. */
int tcp_accept(void *incoming, void *state, const struct tarn_fabric_connect_options *options,
               struct tarn_fabric_connection *owner, void **ret_connection);

/** Of struct fabric_provider. */
int tcp_connect(void *state, const char *address, const struct tarn_fabric_connect_options *options,
                uint64_t deadline_ns, struct tarn_fabric_connection *owner, void **ret_connection);

/** Free one whose socket is closed. Yields. */
void tcp_connection_free(struct tcp_connection *connection);

/** Of struct fabric_provider. */
uint32_t tcp_peer_data(const void *state, const void **ret_data);

/** Of struct fabric_provider. */
void tcp_post(void *state, struct tarn_fabric_op *op);

/** Of struct fabric_provider. */
void tcp_progress(void *state);

/** Of struct fabric_provider. */
int tcp_wait(void *state, struct tarn_fabric_op *op, uint64_t deadline_ns);

/** Of struct fabric_provider. */
int tcp_receive(void *state, void *data, uint32_t room, uint64_t deadline_ns,
                struct tarn_fabric_message *ret_message);

/** Of struct fabric_provider. */
void tcp_fail(void *state);

/** Of struct fabric_provider. */
int tcp_fence(void *state, uint64_t deadline_ns);

/** Of struct fabric_provider. */
void tcp_disconnect(void *state);

/* ---- tcp.c --------------------------------------------------------------------------------------- */

#define TCP_PATH_BYTES 256

/* What the URL says. */
struct tcp_options {
    bool insecure;    /* reach beyond this machine */
    uint32_t sockets; /* of a connection that is made here */
    bool tls;
    uint64_t heartbeat_ns;
    char secret_path[TCP_PATH_BYTES]; /* "": none, of all four */
    char cert_path[TCP_PATH_BYTES], key_path[TCP_PATH_BYTES], ca_path[TCP_PATH_BYTES];
};

struct tcp {
    struct tarn_node *node;
    struct tcp_options options;
    struct tcp_secret secret;
    struct tcp_tls_context tls;
    struct task_sched *sched; /* of its own: listeners, the connections of plain threads, the clock */
    struct base_log_limit refusals;
    struct tcp_gate gate;         /* of what follows */
    struct base_list connections; /* of struct tcp_connection */
    struct base_list parties;     /* of struct tcp_party */
    bool closing;
};

/** Read what follows "tcp:". @return 0; -EINVAL (logged) */
base_must_check int tcp_options_read(struct base_log *log, const char *text, struct tcp_options *ret_options);

/** Whether an address may be listened on or connected with. @return 0; -EINVAL; -EPERM (both logged) */
base_must_check int tcp_check_address(struct tcp *tcp, const char *address);

/** As fabric_run_on(), where the caller's connections belong: in the caller, or, for a plain thread, on the fabric's
 * own. */
base_must_check int tcp_run(struct tcp *tcp, task_function *function, void *arg);

#endif
