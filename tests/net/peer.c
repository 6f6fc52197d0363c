/*
 * peer: one side of a connection over `tcp`, led by a script: it does what the lines that it reads say, one by one, and
 * answers each with a line `ERROR MILLISECONDS NUMBER`, of which ERROR is 0 or the name of an errno.
 *
 *     peer URL
 *
 *     listen ADDRESS       accept MS          connect ADDRESS MS     work ROUNDS MS    flood MS     await MS
 *     fence                disconnect         store OFFSET NUMBER    load OFFSET       renew
 *     write MS             read MS            moves 1 MiB, four times at once, for that long; NUMBER is the bytes
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/fabric.h>

enum { REGION_BYTES = 1 << 20, PART_BYTES = 100000, FLOODING = 8, MOVING = 4, NS_PER_MS = 1000000 };

struct peer {
    struct tarn_fabric *fabric;
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *region;
    struct tarn_fabric_listener *listener;
    struct tarn_fabric_connection *connection;
    struct tarn_fabric_handle theirs;
    uint8_t handle[TARN_FABRIC_HANDLE_BYTES];
};

static uint64_t in_ms(const char *text)
{
    return tarn_now_ns() + strtoull(text, NULL, 10) * NS_PER_MS;
}

static int make_region(struct peer *peer)
{
    return tarn_fabric_region_alloc(peer->domain, REGION_BYTES,
                                    TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP,
                                    &peer->region);
}

/* Both sides tell the handle of their region. */
static struct tarn_fabric_connect_options tell(struct peer *peer)
{
    tarn_fabric_handle_save(&peer->region->handle, peer->handle);
    return (struct tarn_fabric_connect_options){.data = peer->handle, .data_bytes = sizeof(peer->handle)};
}

static int told(struct peer *peer, int error)
{
    const void *data;
    if (error != 0)
        return error;
    return tarn_fabric_peer_data(peer->connection, &data) == TARN_FABRIC_HANDLE_BYTES
               ? tarn_fabric_handle_load(data, &peer->theirs)
               : -EPROTO;
}

static int do_accept(struct peer *peer, uint64_t deadline_ns)
{
    struct tarn_fabric_incoming *incoming;
    int error = tarn_fabric_listener_wait(peer->listener, deadline_ns, &incoming);
    if (error != 0)
        return error;
    const struct tarn_fabric_connect_options options = tell(peer);
    return told(peer, tarn_fabric_accept(incoming, peer->domain, &options, &peer->connection));
}

static int do_connect(struct peer *peer, const char *address, uint64_t deadline_ns)
{
    const struct tarn_fabric_connect_options options = tell(peer);
    return told(peer, tarn_fabric_connect(peer->domain, address, &options, deadline_ns, &peer->connection));
}

/* ---- operations --------------------------------------------------------------------------------- */

/* What is written is there, whole and once: WRITEs of all lengths, read back; a counter; messages. */
static int work(struct peer *peer, uint64_t rounds, uint64_t deadline_ns)
{
    static uint8_t out[PART_BYTES], back[PART_BYTES];
    struct tarn_fabric_connection *connection = peer->connection;
    const struct tarn_fabric_handle *theirs = &peer->theirs;
    uint64_t before, first = 0;
    int error = tarn_fabric_faa(connection, 0, theirs, 0, 0, deadline_ns, &first);
    for (uint64_t round = 0; round < rounds && error == 0; round++) {
        uint64_t bytes = (round * 7919 + 1) % PART_BYTES,
                 offset = 64 + round * 13 % (REGION_BYTES - 64 - PART_BYTES);
        for (uint64_t i = 0; i < bytes; i++)
            out[i] = (uint8_t)(i * 31 + i / 251 + round);
        error = tarn_fabric_write(connection, 0, theirs, offset, out, bytes, deadline_ns);
        if (error == 0)
            error = tarn_fabric_read(connection, 0, theirs, offset, back, bytes, deadline_ns);
        if (error == 0 && memcmp(out, back, bytes) != 0)
            error = -EBADMSG;
        if (error == 0)
            error = tarn_fabric_faa(connection, 0, theirs, 0, 1, deadline_ns, &before);
        if (error == 0 && before != first + round)
            error = -EBADMSG;
    }
    return error;
}

/* WRITE without end, many at a time, all of it not zero. @return what ended it */
static int flood(struct peer *peer, uint64_t deadline_ns)
{
    static uint8_t bytes[PART_BYTES];
    struct tarn_fabric_op ops[FLOODING];
    const struct iovec vector = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    int error = 0;
    memset(bytes, 0xee, sizeof(bytes));
    while (error == 0) {
        for (unsigned i = 0; i < FLOODING; i++)
            ops[i] = (struct tarn_fabric_op){.kind = TARN_FABRIC_WRITE,
                                             .handle = &peer->theirs,
                                             .offset = 64 + (uint64_t)i * PART_BYTES,
                                             .iov = &vector,
                                             .iov_count = 1};
        tarn_fabric_post(peer->connection, ops, FLOODING);
        error = tarn_fabric_wait(ops, FLOODING, deadline_ns);
    }
    return error;
}

/* WRITE or READ all of the region again and again for a while, several times at once. */
static int move(struct peer *peer, enum tarn_fabric_op_kind kind, uint64_t until_ns, uint64_t *ret_bytes)
{
    static uint8_t bytes[MOVING][REGION_BYTES];
    struct iovec vectors[MOVING];
    struct tarn_fabric_op ops[MOVING];
    int error = 0;
    for (unsigned i = 0; i < MOVING; i++) {
        vectors[i] = (struct iovec){.iov_base = bytes[i], .iov_len = REGION_BYTES};
        ops[i] = (struct tarn_fabric_op){
            .kind = kind, .handle = &peer->theirs, .iov = &vectors[i], .iov_count = 1};
    }
    tarn_fabric_post(peer->connection, ops, MOVING);
    for (unsigned i = 0; error == 0 && tarn_now_ns() < until_ns; i = (i + 1) % MOVING) {
        error = tarn_fabric_wait(&ops[i], 1, UINT64_MAX);
        *ret_bytes += REGION_BYTES;
        tarn_fabric_post(peer->connection, &ops[i], 1);
    }
    *ret_bytes += (uint64_t)MOVING * REGION_BYTES;
    return error != 0 ? error : tarn_fabric_wait(ops, MOVING, UINT64_MAX);
}

static int await_end(struct peer *peer, uint64_t deadline_ns)
{
    static uint8_t room[4096];
    struct tarn_fabric_message message;
    int error = 0;
    while (error == 0)
        error = tarn_fabric_receive(peer->connection, room, sizeof(room), deadline_ns, &message);
    return error;
}

/* Put another region in the place of this one. @return 0; -EBADMSG: it is not all zero after a while */
static int renew(struct peer *peer, uint64_t deadline_ns)
{
    tarn_fabric_region_free(peer->region);
    int error = make_region(peer);
    while (error == 0 && tarn_now_ns() < deadline_ns) {
        for (uint64_t at = 0; at < REGION_BYTES; at += 8)
            error = tarn_fabric_mem_load64(peer->region, at) == 0 ? error : -EBADMSG;
    }
    return error;
}

/* ---- lines -------------------------------------------------------------------------------------- */

static int disconnect(struct peer *peer)
{
    if (peer->connection != NULL)
        tarn_fabric_disconnect(peer->connection);
    peer->connection = NULL;
    return 0;
}

/* @return 0 or negative errno */
static int obey(struct peer *peer, const char *verb, const char *first, const char *second,
                uint64_t *ret_number)
{
    const uint64_t number = strtoull(first, NULL, 10);
    if (strcmp(verb, "listen") == 0)
        return tarn_fabric_listen(peer->fabric, first, &peer->listener);
    if (strcmp(verb, "accept") == 0)
        return do_accept(peer, in_ms(first));
    if (strcmp(verb, "connect") == 0)
        return do_connect(peer, first, in_ms(second));
    if (strcmp(verb, "work") == 0)
        return work(peer, number, in_ms(second));
    if (strcmp(verb, "flood") == 0)
        return flood(peer, in_ms(first));
    if (strcmp(verb, "write") == 0)
        return move(peer, TARN_FABRIC_WRITE, in_ms(first), ret_number);
    if (strcmp(verb, "read") == 0)
        return move(peer, TARN_FABRIC_READ, in_ms(first), ret_number);
    if (strcmp(verb, "await") == 0)
        return await_end(peer, in_ms(first));
    if (strcmp(verb, "fence") == 0)
        return tarn_fabric_fence(peer->connection, tarn_now_ns() + NS_PER_MS);
    if (strcmp(verb, "disconnect") == 0)
        return disconnect(peer);
    if (strcmp(verb, "renew") == 0)
        return renew(peer, in_ms(first));
    if (strcmp(verb, "store") == 0)
        tarn_fabric_mem_store64(peer->region, number, strtoull(second, NULL, 10));
    else if (strcmp(verb, "load") == 0)
        *ret_number = tarn_fabric_mem_load64(peer->region, number);
    else
        return -ENOSYS;
    return 0;
}

static void obey_all(struct peer *peer)
{
    char line[256];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        char verb[32] = "", first[128] = "", second[32] = "";
        uint64_t number = 0, begin_ns = tarn_now_ns();
        (void)sscanf(line, "%31s %127s %31s", verb, first, second);
        int error = obey(peer, verb, first, second, &number);
        (void)printf("%s %" PRIu64 " %" PRIu64 "\n", error == 0 ? "0" : strerrorname_np(-error),
                     (tarn_now_ns() - begin_ns) / NS_PER_MS, number);
        (void)fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    const struct tarn_fabric_domain_options options = {.writable_bytes = REGION_BYTES};
    struct tarn_node *node;
    struct peer peer = {0};
    if (argc != 2 || tarn_node_open(NULL, &node) != 0)
        return 2;
    int error = tarn_fabric_open(node, argv[1], &peer.fabric);
    if (error == 0)
        error = tarn_fabric_domain_open(peer.fabric, &options, &peer.domain);
    if (error == 0)
        error = make_region(&peer);
    if (error != 0) {
        (void)fprintf(stderr, "peer: %s: %s\n", argv[1], strerrordesc_np(-error));
        return 1;
    }
    obey_all(&peer);
    (void)disconnect(&peer);
    if (peer.listener != NULL)
        tarn_fabric_listener_close(peer.listener);
    tarn_fabric_region_free(peer.region);
    tarn_fabric_domain_close(peer.domain);
    tarn_fabric_close(peer.fabric);
    tarn_node_close(node); /* asserts that all memory was given back */
    return 0;
}
