/*
 * Any messages from a peer of the fabric's `shm`: as a hello, and as notes after a good one, each with one of several
 * descriptors. What is refused ends that connection alone; a region that may only be read keeps its bytes; descriptors
 * are not lost; and another peer is let in afterwards.
 */
#include "fabric/shm/shm.h"
#include "testing.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    REGION_BYTES = 8192,
    SLOTS = 4,
    PAYLOAD_BYTES = 100,
    TABLE_SLOTS = 8,
    NOTE_BYTES = 40,
    HELLO_BYTES_MAX = 512
};

/* The side that the messages come to: the same for all inputs. */
struct side {
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *all, *readable;
    struct tarn_fabric_listener *listener;
    char address[64];
};

/* The peer, whose files are good. */
struct peer {
    int socket;
    struct shm_file files[SHM_HELLO_FDS];
    int others[4]; /* descriptors that are no files of a fabric */
};

static unsigned count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;
    base_assert(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    (void)closedir(folder);
    return count;
}

static struct side *open_side(void)
{
    const struct task_node_options options = {.log_level = BASE_LOG_ERROR, .log_sink = fuzz_sink};
    const struct tarn_fabric_domain_options domain_options = {
        .readable_bytes = REGION_BYTES, .writable_bytes = REGION_BYTES, .regions_max = TABLE_SLOTS};
    const uint32_t plain = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE;
    struct side *side = calloc(1, sizeof(*side));
    base_assert(side != NULL && task_node_open(&options, &side->node) == 0);
    base_assert(tarn_fabric_open(side->node, "shm:", &side->fabric) == 0);
    base_assert(tarn_fabric_domain_open(side->fabric, &domain_options, &side->domain) == 0);
    base_assert(tarn_fabric_region_alloc(side->domain, REGION_BYTES, plain, &side->all) == 0);
    base_assert(tarn_fabric_region_alloc(side->domain, REGION_BYTES, TARN_FABRIC_MAY_READ, &side->readable) ==
                0);
    memset(side->readable->memory, 0x11, REGION_BYTES);
    (void)snprintf(side->address, sizeof(side->address), "/tmp/tarn-fuzz-%d.socket", (int)getpid());
    base_assert(tarn_fabric_listen(side->fabric, side->address, &side->listener) == 0);
    return side;
}

/* ---- the peer ------------------------------------------------------------------------------------ */

static void prepare_peer(struct peer *peer, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    base_assert(shm_file_make("fuzz", shm_table_bytes(TABLE_SLOTS), true, NULL, &peer->files[SHM_TABLE]) ==
                0);
    base_assert(shm_file_make("fuzz", shm_ring_bytes(SLOTS, PAYLOAD_BYTES), false, NULL,
                              &peer->files[SHM_RING]) == 0);
    peer->others[0] = memfd_create("fuzz", MFD_CLOEXEC);
    peer->others[1] = open("/dev/null", O_RDWR | O_CLOEXEC);
    peer->others[2] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    base_assert(shm_socket(&peer->socket) == 0);
    peer->others[3] = fcntl(peer->socket, F_DUPFD_CLOEXEC, 0);
    base_assert(connect(peer->socket, (const struct sockaddr *)&address, sizeof(address)) == 0);
}

static void dismiss_peer(struct peer *peer)
{
    for (unsigned i = 0; i < SHM_HELLO_FDS; i++)
        shm_file_drop(&peer->files[i]);
    for (unsigned i = 0; i < base_array_count(peer->others); i++)
        (void)close(peer->others[i]);
    (void)close(peer->socket);
}

/* One of what the peer has; -1: none. */
static int choose_descriptor(const struct peer *peer, uint8_t choice)
{
    const int all[] = {-1,
                       peer->files[SHM_TABLE].fd,
                       peer->files[SHM_RING].fd,
                       peer->others[0],
                       peer->others[1],
                       peer->others[2],
                       peer->others[3]};
    return all[choice % base_array_count(all)];
}

static void say_good_hello(const struct peer *peer)
{
    const struct shm_hello hello = {
        .identity = 42, .table_slots = TABLE_SLOTS, .ring_slots = SLOTS, .ring_payload_bytes = PAYLOAD_BYTES};
    const int fds[] = {peer->files[SHM_TABLE].fd, peer->files[SHM_RING].fd};
    base_assert(shm_hello_send(peer->socket, &hello, fds) == 0);
}

/* Any bytes, with any descriptors. */
static void say_any_hello(const struct peer *peer, const uint8_t *data, size_t size)
{
    const int chosen[] = {choose_descriptor(peer, data[0]), choose_descriptor(peer, data[1])};
    int fds[2];
    unsigned count = 0;
    for (unsigned i = 0; i < 2; i++) {
        if (chosen[i] >= 0)
            fds[count++] = chosen[i];
    }
    (void)shm_message_send(peer->socket, data + 2, base_min(size - 2, (size_t)HELLO_BYTES_MAX), fds, count);
}

/* ---- meeting ------------------------------------------------------------------------------------- */

/* Accept the peer, if it is let in; or wait until it is refused. @return NULL: it was */
static struct tarn_fabric_connection *accept_peer(const struct side *side, const struct peer *peer)
{
    const struct tarn_fabric_connect_options options = {.receive_count = SLOTS,
                                                        .receive_bytes = PAYLOAD_BYTES};
    struct tarn_fabric_incoming *incoming;
    struct tarn_fabric_connection *connection;
    uint8_t byte;
    while (tarn_fabric_listener_wait(side->listener, task_now() + BASE_NS_PER_MS, &incoming) != 0) {
        if (recv(peer->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN)
            return NULL;
    }
    return tarn_fabric_accept(incoming, side->domain, &options, &connection) == 0 ? connection : NULL;
}

/* Notes of any bytes. A byte before each says which descriptor comes with it, and whether the key is a known one. */
static void say_notes(const struct side *side, const struct peer *peer, const uint8_t *data, size_t size)
{
    for (size_t at = 0; at < size; at += NOTE_BYTES + 1) {
        uint8_t note[NOTE_BYTES] = {0};
        const size_t count = base_min(size - at - 1, (size_t)NOTE_BYTES);
        const uint64_t known[] = {0, side->all->handle.key, side->readable->handle.key, 7};
        const int fd = choose_descriptor(peer, data[at] & 0xf);
        memcpy(note, data + at + 1, count);
        if (data[at] >> 6 != 0)
            memcpy(note + 8, &known[data[at] >> 6], sizeof(known[0]));
        if (!shm_message_send(peer->socket, note, data[at] & 0x20 ? count : sizeof(note), &fd, fd >= 0))
            return;
    }
}

/* Tell the side that its peer has nothing mapped any more: this process goes on, so that nothing else ends what the side
 * keeps for a peer that has asked for a region. */
static void leave_side(const struct peer *peer)
{
    struct shm_greeting greeting;
    struct shm_ring ring = {.file = {.fd = -1}};
    base_assert(shm_hello_receive(-1, peer->socket, &greeting) == 0);
    base_assert(
        shm_file_take(greeting.fds[SHM_RING], shm_ring_bytes(SLOTS, PAYLOAD_BYTES), true, &ring.file) == 0);
    shm_ring_begin(&ring, SLOTS, PAYLOAD_BYTES, false);
    shm_ring_tell(&ring, SHM_LEFT);
    shm_file_drop(&ring.file);
    shm_greeting_drop(-1, &greeting);
}

/* The side's own operation, on a region that the peer may tell of. */
static void begin_read(struct tarn_fabric_connection *connection, const struct tarn_fabric_handle *handle,
                       struct tarn_fabric_op *op, const struct iovec *vector)
{
    *op = (struct tarn_fabric_op){.kind = TARN_FABRIC_READ, .handle = handle, .iov = vector, .iov_count = 1};
    tarn_fabric_post(connection, op, 1);
}

static void converse(const struct side *side, struct peer *peer, struct tarn_fabric_connection *connection,
                     const uint8_t *data, size_t size)
{
    static uint8_t bytes[PAYLOAD_BYTES];
    const struct tarn_fabric_handle handle = {
        .domain = 42, .key = 7, .bytes = 8, .rights = TARN_FABRIC_MAY_READ};
    const struct iovec vector = {.iov_base = bytes, .iov_len = 8};
    struct tarn_fabric_message message;
    struct tarn_fabric_op op;
    begin_read(connection, &handle, &op, &vector);
    say_notes(side, peer, data, size);
    (void)shutdown(peer->socket, SHUT_WR);
    while (tarn_fabric_receive(connection, bytes, sizeof(bytes), TARN_FOREVER, &message) == 0)
        continue;
    (void)tarn_fabric_wait(&op, 1, TARN_FOREVER);
    leave_side(peer);
}

/* A good peer is let in, whatever came before. @param descriptors  as many as were open before */
static void check_side(const struct side *side, unsigned descriptors)
{
    static uint8_t bytes[PAYLOAD_BYTES];
    struct tarn_fabric_message message;
    struct peer peer;
    prepare_peer(&peer, side->address);
    say_good_hello(&peer);
    struct tarn_fabric_connection *connection = accept_peer(side, &peer);
    base_assert(connection != NULL);
    dismiss_peer(&peer);
    while (tarn_fabric_receive(connection, bytes, sizeof(bytes), TARN_FOREVER, &message) == 0)
        continue;
    tarn_fabric_disconnect(connection);
    for (unsigned i = 0; i < REGION_BYTES; i++)
        base_assert(side->readable->memory[i] == 0x11);
    while (count_descriptors() != descriptors)
        (void)usleep(1000); /* threads of the fabric close what they were given; a lost one hangs here */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct side *side;
    struct peer peer;
    if (size < 3)
        return 0;
    if (side == NULL)
        side = open_side();
    const unsigned descriptors = count_descriptors();
    prepare_peer(&peer, side->address);
    if (data[0] % 4 == 0)
        say_any_hello(&peer, data + 1, size - 1);
    else
        say_good_hello(&peer);
    struct tarn_fabric_connection *connection = accept_peer(side, &peer);
    if (connection != NULL)
        converse(side, &peer, connection, data + 1, size - 1);
    dismiss_peer(&peer);
    if (connection != NULL)
        tarn_fabric_disconnect(connection);
    check_side(side, descriptors);
    return 0;
}
