/*
 * Listeners, on the fabric's own scheduler. A client waits in the backlog until its hello has come, and further sockets
 * have joined it if it has promised any; then in a queue, as bare sockets, until a task of any scheduler accepts it. A
 * task of the listener ends clients that take too long.
 */
#include "fabric/tcp/listener.h"
#include "fabric/arrivals.h"
#include "fabric/tcp/backlog.h"
#include "fabric/tcp/hello.h"
#include "fabric/tcp/tcp.h"
#include "fabric/tcp/tls.h"
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <string.h>

#define PATIENCE_BEATS  4 /* heartbeats for which a client may stay at a stage of the backlog */
#define PATIENCE_MIN_NS BASE_NS_PER_SECOND   /* at least, because a handshake is work and has a round trip */
#define READY_MAX       1024                 /* clients that are let in; further ones are refused */
#define CLIENT_BYTES    (UINT64_C(40) << 10) /* about what a client takes whose handshake has begun */
#define STAGE_PART      8     /* a full stage takes so small a part of what the node may still take */
#define CONNECTIONS_MAX 65536 /* the most sockets of a listener at once */

struct tcp_listener {
    struct tcp *tcp;
    const char *address; /* the address to listen at; only while the listener is opened */
    struct net_listener *net;
    int error;                    /* the error of opening it */
    struct fabric_arrivals ready; /* of struct tcp_incoming */
    struct fabric_bell bell;      /* its lock guards the fields below */
    struct tcp_backlog backlog;   /* of struct tcp_incoming, as the next */
    struct base_list
        gathering;    /* clients of which sockets have yet to join; only the fabric's scheduler touches it */
    uint32_t sockets; /* number of incomings with a network connection: neither ready nor freed */
    bool keeps_time;  /* its task that ends late clients runs */
    bool closing;
};

/* A client that wants to connect, or a socket that wants to join. */
struct tcp_incoming {
    struct tarn_fabric_incoming base; /* its link: place in `ready` or `gathering` */
    struct tcp_waiting waiting;       /* its part in the backlog, before */
    struct tcp *tcp;
    struct tcp_listener *listener; /* its listener, until it is ready */
    struct net_connection *net;    /* its network connection, until it is ready */
    struct tcp_tls *tls;           /* its TLS; NULL: not yet, or in the clear */
    int fd;                        /* its bare socket when it is ready; -1 before */
    bool shaken;                   /* the handshake of TLS is done, or there is none */
    uint32_t bytes;                /* number of bytes in `input` */
    uint8_t input[TCP_HELLO_BYTES];
    struct tcp_hello hello;
    uint8_t ticket[TCP_TICKET_BYTES]; /* what sockets must show that want to join this one */
    uint32_t joined_count;
    struct tcp_incoming *joined[TCP_SOCKETS_MAX]; /* by a socket's number: it has joined, and was not taken */
};

static struct tcp_incoming *incoming_of(struct base_list *item)
{
    return base_container_of(item, struct tcp_incoming, base.link);
}

/* ---- those who come ----------------------------------------------------------------------------- */

/* End a client that the backlog has taken out; NULL: none. */
static void drop_client(struct tcp_waiting *client)
{
    if (client == NULL)
        return;
    struct tcp_incoming *incoming = base_container_of(client, struct tcp_incoming, waiting);
    if (incoming->net != NULL) {
        net_shutdown(incoming->net);
        return;
    }
    base_list_remove(&incoming->base.link); /* its sockets have not all come */
    tcp_reject(&incoming->base, -ECONNREFUSED);
}

/* Put a client at a stage of the backlog, or on to it. */
static void enter_stage(struct tcp_incoming *incoming, enum tcp_stage stage)
{
    struct tcp_listener *listener = incoming->listener;
    base_spin_lock(&listener->bell.lock);
    if (tcp_backlog_deadline(&listener->backlog) == TASK_FOREVER)
        fabric_bell_ring_locked(&listener->bell); /* keep_time() sleeps without a deadline */
    struct tcp_waiting *victim = tcp_backlog_enter(&listener->backlog, &incoming->waiting, stage, task_now());
    base_spin_unlock(&listener->bell.lock);
    drop_client(victim);
}

/* The same for a client that has come further, unless it was dropped meanwhile. */
static void advance_stage(struct tcp_incoming *incoming, enum tcp_stage stage)
{
    if (base_list_is_linked(&incoming->waiting.link) && incoming->waiting.stage < stage)
        enter_stage(incoming, stage);
}

/* End clients whose time is over. */
static void keep_time(void *arg)
{
    struct tcp_listener *listener = arg;
    int error = 0;
    base_spin_lock(&listener->bell.lock);
    while (!listener->closing && error != -ECANCELED) {
        struct tcp_waiting *late = tcp_backlog_expire(&listener->backlog, task_now());
        if (late == NULL) {
            error = fabric_bell_sleep_locked(&listener->bell, tcp_backlog_deadline(&listener->backlog));
            continue;
        }
        base_spin_unlock(&listener->bell.lock);
        drop_client(late); /* no other task runs before this one yields */
        base_spin_lock(&listener->bell.lock);
    }
    listener->keeps_time = false;
    fabric_bell_ring_locked(&listener->bell);
    base_spin_unlock(&listener->bell.lock);
}

static int begin_incoming(struct net_connection *net, void *arg)
{
    struct tcp_listener *listener = arg;
    struct tcp_incoming *incoming = base_alloc(&listener->tcp->node->memory, sizeof(*incoming));
    char peer[NET_ADDRESS_TEXT_MAX];
    if (incoming == NULL)
        return -ENOMEM;
    incoming->tcp = listener->tcp;
    incoming->listener = listener;
    incoming->net = net;
    incoming->fd = -1;
    base_list_init(&incoming->base.link);
    net_set_user(net, incoming);
    net_peer(net, peer, sizeof(peer));
    incoming->waiting.host = tcp_host_of(peer);
    base_spin_lock(&listener->bell.lock);
    listener->sockets++;
    base_spin_unlock(&listener->bell.lock);
    enter_stage(incoming, TCP_SILENT);
    return 0;
}

int tcp_incoming_take(struct tcp_incoming *incoming, uint32_t number, struct tcp_tls **ret_tls)
{
    struct tcp_incoming *holder = number == 0 ? incoming : incoming->joined[number];
    int fd = holder->fd;
    *ret_tls = holder->tls;
    holder->tls = NULL;
    holder->fd = -1;
    return fd;
}

/* Refuse the socket of an incoming, unless it was taken. */
static void refuse_socket(struct tcp_incoming *incoming, enum tcp_refusal why)
{
    struct tcp_tls *tls;
    if (incoming->fd < 0)
        return;
    int fd = tcp_incoming_take(incoming, 0, &tls);
    tcp_hello_refuse(fd, tls, why);
}

struct tcp_incoming *tcp_incoming_of(struct tarn_fabric_incoming *incoming)
{
    return base_container_of(incoming, struct tcp_incoming, base);
}

void tcp_reject(struct tarn_fabric_incoming *base, int error)
{
    struct tcp_incoming *incoming = tcp_incoming_of(base);
    for (unsigned i = 0; i < TCP_SOCKETS_MAX; i++) {
        if (incoming->joined[i] != NULL)
            tcp_reject(&incoming->joined[i]->base, error);
    }
    refuse_socket(incoming, tcp_refusal_of(error));
    tcp_tls_close(incoming->tls);
    base_free(&incoming->tcp->node->memory, incoming, sizeof(*incoming));
}

/* Refuse an incoming. @param reason  the reason that is logged, if TLS has no other */
static void turn_away(struct tcp_incoming *incoming, enum tcp_refusal why, const char *reason)
{
    reason = tcp_tls_reason(incoming->tls) != NULL ? tcp_tls_reason(incoming->tls) : reason;
    char peer[NET_ADDRESS_TEXT_MAX];
    net_peer(incoming->net, peer, sizeof(peer));
    base_warn_limited(&incoming->tcp->node->log, &incoming->tcp->refusals, "peer refused",
                      "fabric=tcp peer=%s reason=\"%s\"", peer, reason);
    bool mute =
        incoming->tls == NULL &&
        incoming->tcp->tls.library != NULL; /* there was no memory for its TLS: then no refusal can be sent */
    incoming->fd = mute ? -1 : net_duplicate(incoming->net);
    refuse_socket(incoming, why);
    net_close(incoming->net);
}

/* Send a client the ticket by which its further sockets join. @return false: there is none, or the socket does not take it */
static bool send_ticket(struct tcp_incoming *incoming)
{
    struct tcp_hello hello = {.kind = TCP_TICKET};
    uint8_t bytes[TCP_HELLO_BYTES];
    if (RAND_bytes(incoming->ticket, sizeof(incoming->ticket)) != 1)
        return false;
    memcpy(hello.ticket, incoming->ticket, sizeof(hello.ticket));
    tcp_hello_save(&hello, bytes);
    return tcp_write_now(incoming->fd, incoming->tls, bytes, sizeof(bytes));
}

/* Look at the hello of an incoming. Its network connection is closed in any case; if the hello is good, another
 * descriptor of the socket stays. */
static void admit_incoming(struct tcp_incoming *incoming)
{
    int error = tcp_hello_load(incoming->input, TCP_HELLO, &incoming->hello);
    if (error != 0) {
        turn_away(incoming, TCP_NO_HELLO,
                  error == -EPROTONOSUPPORT ? "it speaks another version of this protocol"
                                            : "what it said is no hello");
        return;
    }
    incoming->fd = net_duplicate(incoming->net);
    if (incoming->fd < 0) {
        turn_away(incoming, TCP_OUT_OF_MEMORY, "there is no descriptor for it");
        return;
    }
    if (incoming->hello.kind == TCP_HELLO && incoming->hello.number > 0) {
        base_list_push_back(&incoming->listener->gathering, &incoming->base.link);
        if (!send_ticket(incoming))
            refuse_socket(incoming, TCP_REJECTED);
    }
    net_close(incoming->net);
}

/* Do the handshake before the first hello. @return whether hellos may follow */
static bool shake_hands(struct tcp_incoming *incoming)
{
    struct tcp *tcp = incoming->tcp;
    if (incoming->shaken || tcp->tls.library == NULL)
        return true;
    if (incoming->tls == NULL && tcp_tls_open(tcp, true, &incoming->tls) != 0) {
        turn_away(incoming, TCP_OUT_OF_MEMORY, "there is no memory for it");
        return false;
    }
    tcp_tls_attach(incoming->tls, incoming->net);
    advance_stage(incoming,
                  TCP_SPEAKING); /* now: the answer may be there before the call that sends it returns */
    int error = tcp_shake_try(incoming->net, incoming->tls, task_now() + tcp->options.heartbeat_ns);
    incoming->shaken = error == 0;
    if (error == 0) {
        advance_stage(incoming, TCP_PROVED);
        return true;
    }
    if (tcp_tls_reason(incoming->tls) != NULL)
        turn_away(incoming, TCP_NO_HELLO, NULL);
    else if (error != -EAGAIN)
        net_close(incoming->net);
    return false;
}

static void incoming_ready(struct net_connection *net)
{
    struct tcp_incoming *incoming = net_user(net);
    if (!shake_hands(incoming))
        return;
    while (incoming->bytes < sizeof(incoming->input)) {
        ssize_t bytes = tcp_read_try(net, incoming->tls, incoming->input + incoming->bytes,
                                     sizeof(incoming->input) - incoming->bytes);
        if (tcp_tls_reason(incoming->tls) != NULL) {
            turn_away(incoming, TCP_NO_HELLO, NULL);
            return;
        }
        if (bytes <= 0)
            return; /* no input now; if the stream has ended, the connection is closed on return */
        incoming->bytes += (uint32_t)bytes;
    }
    admit_incoming(incoming);
}

/* The client that has a ticket and waits for a socket of this number. @return NULL: none */
static struct tcp_incoming *find_gathering(const struct tcp_listener *listener, const struct tcp_hello *join)
{
    base_list_for_each(item, &listener->gathering) {
        struct tcp_incoming *incoming = incoming_of(item);
        if (CRYPTO_memcmp(incoming->ticket, join->ticket, sizeof(join->ticket)) == 0)
            return join->number <= incoming->hello.number && incoming->joined[join->number] == NULL ? incoming
                                                                                                    : NULL;
    }
    return NULL;
}

/* Take a client whose socket, or one that has joined it, has come off the network's connection: it is ready when all have. */
static void settle_client(struct tcp_incoming *incoming)
{
    struct tcp_listener *listener = incoming->listener;
    if (incoming->net != NULL || incoming->fd < 0)
        return; /* it is looked at again, and freed then */
    if (incoming->joined_count < incoming->hello.number && !listener->closing) {
        if (incoming->waiting.stage != TCP_GATHERS)
            enter_stage(incoming, TCP_GATHERS);
        return;
    }
    base_list_remove(&incoming->base.link);
    base_spin_lock(&listener->bell.lock);
    tcp_backlog_leave(&listener->backlog, &incoming->waiting);
    const bool closing = listener->closing;
    base_spin_unlock(&listener->bell.lock);
    incoming->base.data = incoming->hello.data;
    incoming->base.data_bytes = incoming->hello.data_bytes;
    if (closing || !fabric_arrivals_push(&listener->ready, &incoming->base))
        tcp_reject(&incoming->base, -ECONNREFUSED);
}

/* Add a socket to the client that it wants to join. */
static void join_client(struct tcp_incoming *incoming)
{
    struct tcp_incoming *first = find_gathering(incoming->listener, &incoming->hello);
    if (first == NULL) {
        tcp_reject(&incoming->base, -ECONNREFUSED);
        return;
    }
    first->joined[incoming->hello.number] = incoming;
    first->joined_count++;
    settle_client(first);
}

static void incoming_closed(struct net_connection *net)
{
    struct tcp_incoming *incoming = net_user(net);
    struct tcp_listener *listener = incoming->listener;
    incoming->net = NULL;
    base_spin_lock(&listener->bell.lock);
    tcp_backlog_leave(&listener->backlog, &incoming->waiting);
    base_spin_unlock(&listener->bell.lock);
    if (incoming->fd < 0) {
        base_list_remove(&incoming->base.link);
        tcp_reject(&incoming->base, -ECONNREFUSED);
    } else if (incoming->hello.kind == TCP_JOIN) {
        join_client(incoming);
    } else {
        settle_client(incoming);
    }
    base_spin_lock(&listener->bell.lock);
    listener->sockets--;
    fabric_bell_ring_locked(&listener->bell);
    base_spin_unlock(&listener->bell.lock);
}

static const struct net_handler incoming_handler = {
    .ready = incoming_ready, .closed = incoming_closed, .task_name = "fabric-hello"};

/* ---- listening ---------------------------------------------------------------------------------- */

/* End the task that ends late clients. */
static void stop_time(struct tcp_listener *listener)
{
    base_spin_lock(&listener->bell.lock);
    listener->closing = true;
    fabric_bell_ring_locked(&listener->bell);
    while (listener->keeps_time)
        fabric_bell_sleep_firmly_locked(&listener->bell);
    base_spin_unlock(&listener->bell.lock);
}

static void open_task(void *arg)
{
    struct tcp_listener *listener = arg;
    struct task_sched *sched = listener->tcp->sched;
    listener->keeps_time = true;
    listener->error = task_spawn(sched, NULL, "fabric-backlog", keep_time, listener);
    if (listener->error != 0)
        return;
    listener->error = net_listen(sched, listener->address, &sched, 1, &incoming_handler, begin_incoming,
                                 listener, CONNECTIONS_MAX, &listener->net);
    if (listener->error != 0)
        stop_time(listener);
}

int tcp_listen(void *state, const char *address, void **ret_listener)
{
    struct tcp *tcp = state;
    int error = tcp_check_address(tcp, address);
    if (error != 0)
        return error;
    struct tcp_listener *listener = base_alloc(&tcp->node->memory, sizeof(*listener));
    if (listener == NULL)
        return -ENOMEM;
    listener->tcp = tcp;
    listener->address = address;
    fabric_bell_init(&listener->bell);
    const uint64_t room = base_account_left(&tcp->node->memory) / STAGE_PART / CLIENT_BYTES;
    tcp_backlog_init(&listener->backlog,
                     base_max(PATIENCE_BEATS * tcp->options.heartbeat_ns, PATIENCE_MIN_NS),
                     (uint32_t)base_min(base_max(room, UINT64_C(64)), (uint64_t)TCP_BACKLOG_PLACES));
    fabric_arrivals_init(&listener->ready, READY_MAX);
    base_list_init(&listener->gathering);
    error = fabric_run_on(tcp->sched, open_task, listener);
    if (error == 0)
        error = listener->error;
    if (error != 0) {
        base_free(&tcp->node->memory, listener, sizeof(*listener));
        return error;
    }
    *ret_listener = listener;
    return 0;
}

static void close_task(void *arg)
{
    struct tcp_listener *listener = arg;
    struct tcp_waiting *client;
    net_listener_close(listener->net);
    stop_time(listener);
    base_spin_lock(&listener->bell.lock);
    while ((client = tcp_backlog_expire(&listener->backlog, UINT64_MAX)) != NULL) {
        base_spin_unlock(&listener->bell.lock);
        drop_client(client);
        base_spin_lock(&listener->bell.lock);
    }
    while (listener->sockets > 0)
        fabric_bell_sleep_firmly_locked(&listener->bell);
    base_spin_unlock(&listener->bell.lock);
}

void tcp_listener_close(void *state)
{
    struct tcp_listener *listener = state;
    struct tcp *tcp = listener->tcp;
    struct tarn_fabric_incoming *client;
    while (fabric_run_on(tcp->sched, close_task, listener) != 0)
        (void)task_sleep(BASE_NS_PER_MS); /* there is no memory to post the task's end: try again */
    while ((client = fabric_arrivals_pop(&listener->ready)) != NULL)
        tcp_reject(client, -ECONNREFUSED);
    base_free(&tcp->node->memory, listener, sizeof(*listener));
}

int tcp_listener_wait(void *state, uint64_t deadline_ns, struct tarn_fabric_incoming **ret_incoming)
{
    struct tcp_listener *listener = state;
    return fabric_arrivals_wait(&listener->ready, deadline_ns, ret_incoming);
}

const struct tcp_hello *tcp_incoming_hello(const struct tcp_incoming *incoming)
{
    return &incoming->hello;
}
