/* For the tests of `shm`: peers made by hand, each part of which can be made wrong, and what the server answers them. */
#include "fabric/shm_attack_testing.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

void prepare(struct attacker *attacker)
{
    *attacker = (struct attacker){.socket = -1, .greeting = {.fds = {-1, -1}}};
    assert_int_equal(
        shm_file_make("attack", shm_table_bytes(TABLE_SLOTS), true, NULL, &attacker->files[SHM_TABLE]), 0);
    assert_int_equal(
        shm_file_make("attack", shm_ring_bytes(SLOTS, PAYLOAD), false, NULL, &attacker->files[SHM_RING]), 0);
    for (unsigned i = 0; i < SHM_HELLO_FDS; i++)
        attacker->fds[i] = attacker->files[i].fd;
    attacker->hello = (struct shm_hello){
        .identity = 42, .table_slots = TABLE_SLOTS, .ring_slots = SLOTS, .ring_payload_bytes = PAYLOAD};
}

void reach(struct attacker *attacker, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    assert_int_equal(shm_socket(&attacker->socket), 0);
    assert_int_equal(connect(attacker->socket, (const struct sockaddr *)&address, sizeof(address)), 0);
}

/* What the server has answered. */
int answer(struct attacker *attacker)
{
    int error = -EAGAIN;
    for (uint64_t until_ns = TESTING_LATE; error == -EAGAIN && task_now() < until_ns;) {
        error = shm_hello_receive(-1, attacker->socket, &attacker->greeting);
        if (error == -EAGAIN)
            (void)task_sleep(1000000);
    }
    return error;
}

void dismiss(struct attacker *attacker)
{
    for (unsigned i = 0; i < SHM_HELLO_FDS; i++)
        shm_file_drop(&attacker->files[i]);
    if (attacker->out.file.memory != NULL)
        shm_file_drop(&attacker->out.file);
    shm_greeting_drop(-1, &attacker->greeting);
    if (attacker->socket >= 0)
        assert_int_equal(close(attacker->socket), 0);
}

/* The other client of the server. */
void expect_alive(struct testing_pair *pair)
{
    struct tarn_fabric_message message;
    uint8_t data[4096];
    uint64_t before;
    assert_int_equal(tarn_fabric_faa(pair->client, 0, &pair->all->handle, 0, 1, TESTING_LATE, &before), 0);
    assert_int_equal(tarn_fabric_send(pair->client, 0, "well", 4, TESTING_LATE), 0);
    assert_int_equal(tarn_fabric_receive(pair->server, data, sizeof(data), TESTING_LATE, &message), 0);
    assert_memory_equal(data, "well", 4);
}

/* Meet as a good client would, and hold what it is given. */
struct tarn_fabric_connection *get_in(struct testing_pair *pair, struct attacker *attacker)
{
    static const struct tarn_fabric_connect_options options = {.receive_count = SLOTS,
                                                               .receive_bytes = PAYLOAD};
    struct tarn_fabric_incoming *incoming;
    struct tarn_fabric_connection *connection;
    prepare(attacker);
    reach(attacker, pair->testing->address);
    assert_int_equal(shm_hello_send(attacker->socket, &attacker->hello, attacker->fds), 0);
    assert_int_equal(tarn_fabric_listener_wait(pair->listener, TESTING_LATE, &incoming), 0);
    assert_int_equal(tarn_fabric_accept(incoming, pair->server_domain, &options, &connection), 0);
    assert_int_equal(answer(attacker), 0);
    assert_int_equal(shm_file_take(attacker->greeting.fds[SHM_RING], shm_ring_bytes(SLOTS, PAYLOAD), true,
                                   &attacker->out.file),
                     0);
    shm_ring_begin(&attacker->out, SLOTS, PAYLOAD, false);
    return connection;
}

/* Another descriptor in place of a file: closed by the caller. */
int memory_file(uint64_t bytes, int seals)
{
    int fd = memfd_create("attack", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

void poke32(const struct shm_file *file, unsigned at, uint32_t value)
{
    __atomic_store_n((uint32_t *)(void *)(file->memory + at), value, __ATOMIC_SEQ_CST);
}

void poke64(const struct shm_file *file, unsigned at, uint64_t value)
{
    __atomic_store_n((uint64_t *)(void *)(file->memory + at), value, __ATOMIC_SEQ_CST);
}

/* Ask as a good peer would. @return the file; -1: it has none */
int ask(struct attacker *attacker, uint64_t key, struct shm_note *ret_note)
{
    const struct shm_note question = {.kind = SHM_ASK, .key = key};
    ssize_t bytes = -1;
    int fd = -1;
    assert_true(shm_note_send(attacker->socket, &question, -1));
    for (uint64_t until_ns = TESTING_LATE; bytes < 0 && task_now() < until_ns;) {
        bytes = shm_note_receive(-1, attacker->socket, ret_note, &fd);
        if (bytes < 0)
            (void)task_sleep(1000000);
    }
    assert_true(bytes > 0);
    assert_int_equal(ret_note->key, key);
    assert_int_equal(ret_note->kind, fd >= 0 ? SHM_FILE : SHM_NO_REGION);
    return fd;
}
