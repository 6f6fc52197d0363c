/*
 * Peers of `shm` that do not keep to the rules: what they send, what their files are, what they write into memory
 * that is shared. They hurt themselves alone: another client of the same server works on all the time.
 */
#include "fabric/shm_attack_testing.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* ---- hellos ------------------------------------------------------------------------------------- */

/* A hello as a good client's is: what shm_hello_send() makes of the attacker's. */
static size_t good_hello(struct attacker *attacker, uint8_t *ret_bytes, size_t room)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(shm_hello_send(ends[0], &attacker->hello, attacker->fds), 0);
    ssize_t bytes = recv(ends[1], ret_bytes, room, 0);
    assert_true(bytes > 0);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(ends[1]), 0);
    return (size_t)bytes;
}

#define NOTHING SIZE_MAX

struct rubbish {
    size_t bytes;  /* 0: all of it; NOTHING: an empty message */
    unsigned fds;  /* how many */
    unsigned at;   /* of a word that is changed */
    uint32_t word; /* to this; 0: it is not */
};

static void rubbish_is_no_hello(struct testing_fabric *testing)
{
    static const struct rubbish kinds[] = {
        {.bytes = 1, .fds = 2},
        {.bytes = 87, .fds = 2},
        {.bytes = 89, .fds = 2},
        {.bytes = 2000, .fds = 2},
        {.bytes = NOTHING, .fds = 2}, /* its descriptors come all the same */
        {.fds = 0},
        {.fds = 1},
        {.fds = 3},
        {.fds = 8},
        {.fds = 2, .at = 0, .word = 0x016d6873},
        {.fds = 2, .at = 4, .word = 1},
        {.fds = 0, .at = 4, .word = 1},
        {.fds = 2, .at = 4, .word = 77},
        {.fds = 2, .at = 28, .word = TARN_FABRIC_PRIVATE_BYTES_MAX + 1},
        {.fds = 2, .at = 28, .word = UINT32_MAX},
    };
    struct testing_pair pair;
    struct tarn_fabric_incoming *incoming;
    testing_pair_open(testing, &pair, NULL);
    unsigned descriptors = testing_descriptors();
    for (unsigned i = 0; i < base_array_count(kinds); i++) {
        struct attacker attacker;
        uint8_t bytes[2000] = {0};
        int fds[8];
        prepare(&attacker);
        reach(&attacker, testing->address);
        size_t count = good_hello(&attacker, bytes, sizeof(bytes));
        assert_int_equal(count, 88);
        for (unsigned k = 0; k < base_array_count(fds); k++)
            fds[k] = attacker.fds[k % SHM_HELLO_FDS];
        if (kinds[i].word != 0)
            memcpy(bytes + kinds[i].at, &kinds[i].word, sizeof(kinds[i].word));
        size_t sent = kinds[i].bytes == NOTHING ? 0 : kinds[i].bytes == 0 ? count : kinds[i].bytes;
        assert_true(shm_message_send(attacker.socket, bytes, sent, fds, kinds[i].fds));
        assert_int_equal(answer(&attacker), -ECONNREFUSED);
        dismiss(&attacker);
        expect_alive(&pair);
    }
    assert_int_equal(tarn_fabric_listener_wait(pair.listener, TESTING_SOON, &incoming), -ETIMEDOUT);
    testing_expect_descriptors(descriptors);
    testing_pair_close(&pair);
}

/* Those who say nothing keep nobody out. */
static void the_silent_are_dropped(struct testing_fabric *testing)
{
    enum { SILENT = 100 };
    struct testing_pair pair;
    struct attacker silent[SILENT];
    testing_pair_open(testing, &pair, NULL);
    unsigned descriptors = testing_descriptors();
    for (unsigned i = 0; i < SILENT; i++) {
        silent[i] = (struct attacker){.greeting = {.fds = {-1, -1}}};
        reach(&silent[i], testing->address);
    }
    testing_disconnect(&pair);
    testing_connect(&pair);
    expect_alive(&pair);
    assert_int_equal(answer(&silent[0]), -ECONNREFUSED);
    for (unsigned i = 0; i < SILENT; i++)
        assert_int_equal(close(silent[i].socket), 0);
    testing_expect_descriptors(descriptors);
    testing_pair_close(&pair);
}

/* ---- files -------------------------------------------------------------------------------------- */

static int disk_file(void)
{
    int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
    return fd;
}

static void put(struct attacker *attacker, unsigned place, int fd, int *ret_fd)
{
    attacker->fds[place] = fd;
    *ret_fd = fd;
}

static void tell_unsealed(struct attacker *attacker, int *ret_fd)
{
    put(attacker, SHM_RING, memory_file(shm_ring_bytes(SLOTS, PAYLOAD), 0), ret_fd);
}

static void tell_half_sealed(struct attacker *attacker, int *ret_fd)
{
    put(attacker, SHM_RING, memory_file(shm_ring_bytes(SLOTS, PAYLOAD), F_SEAL_GROW), ret_fd);
}

static void tell_table_unsealed(struct attacker *attacker, int *ret_fd)
{
    put(attacker, SHM_TABLE, memory_file(shm_table_bytes(TABLE_SLOTS), F_SEAL_FUTURE_WRITE), ret_fd);
}

static void tell_shorter(struct attacker *attacker, int *ret_fd)
{
    put(attacker, SHM_TABLE, memory_file(2048, F_SEAL_SHRINK | F_SEAL_GROW), ret_fd);
}

static void tell_not_to_be_written(struct attacker *attacker, int *ret_fd)
{
    put(attacker, SHM_RING,
        memory_file(shm_ring_bytes(SLOTS, PAYLOAD), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), ret_fd);
}

static void tell_disk(struct attacker *attacker, int *ret_fd)
{
    put(attacker, SHM_TABLE, disk_file(), ret_fd);
}

static void tell_device(struct attacker *attacker, int *ret_fd)
{
    put(attacker, SHM_TABLE, open("/dev/zero", O_RDWR | O_CLOEXEC), ret_fd);
}

static void tell_no_table(struct attacker *attacker, int *ret_fd)
{
    (void)ret_fd;
    attacker->hello.table_slots = 0;
}

static void tell_long_table(struct attacker *attacker, int *ret_fd)
{
    (void)ret_fd;
    attacker->hello.table_slots = 4096 / 8 + 1;
}

static void tell_endless_table(struct attacker *attacker, int *ret_fd)
{
    (void)ret_fd;
    attacker->hello.table_slots = UINT32_MAX;
}

static void tell_no_slots(struct attacker *attacker, int *ret_fd)
{
    (void)ret_fd;
    attacker->hello.ring_slots = 0;
}

static void tell_many_slots(struct attacker *attacker, int *ret_fd)
{
    (void)ret_fd;
    attacker->hello.ring_slots = UINT32_MAX;
}

static void tell_long_slots(struct attacker *attacker, int *ret_fd)
{
    (void)ret_fd;
    attacker->hello.ring_payload_bytes = UINT32_MAX - 15;
}

static void files_are_checked(struct testing_fabric *testing)
{
    static void (*const lies[])(struct attacker * attacker, int *ret_fd) = {
        tell_unsealed, tell_half_sealed, tell_table_unsealed, tell_shorter,    tell_not_to_be_written,
        tell_disk,     tell_device,      tell_no_table,       tell_long_table, tell_endless_table,
        tell_no_slots, tell_many_slots,  tell_long_slots,
    };
    struct testing_pair pair;
    struct tarn_fabric_incoming *incoming;
    struct tarn_fabric_connection *connection;
    testing_pair_open(testing, &pair, NULL);
    unsigned descriptors = testing_descriptors();
    for (unsigned i = 0; i < base_array_count(lies); i++) {
        struct attacker attacker;
        int fd = -1;
        prepare(&attacker);
        reach(&attacker, testing->address);
        lies[i](&attacker, &fd);
        assert_int_equal(shm_hello_send(attacker.socket, &attacker.hello, attacker.fds), 0);
        assert_int_equal(tarn_fabric_listener_wait(pair.listener, TESTING_LATE, &incoming), 0);
        assert_int_equal(tarn_fabric_accept(incoming, pair.server_domain, NULL, &connection), -EPROTO);
        assert_int_equal(answer(&attacker), -ECONNREFUSED);
        if (fd >= 0)
            assert_int_equal(close(fd), 0);
        dismiss(&attacker);
        expect_alive(&pair);
    }
    testing_expect_descriptors(descriptors);
    testing_pair_close(&pair);
}

/* ---- rights ------------------------------------------------------------------------------------- */

/* ---- what is closed slowly ---------------------------------------------------------------------- */

/* The service still answers: with a refusal. */
static void expect_service(const char *path)
{
    struct attacker attacker;
    prepare(&attacker);
    reach(&attacker, path);
    assert_true(shm_message_send(attacker.socket, "", 1, NULL, 0));
    assert_int_equal(answer(&attacker), -ECONNREFUSED);
    dismiss(&attacker);
}

/* What it takes long to close comes with a hello that is refused, with one that has too many, and after one; then the
 * fabric ends while all of these still wait. */
static void what_is_closed_slowly_holds_up_nobody(struct testing_fabric *testing)
{
    static const unsigned counts[] = {2, 8, 0};
    struct testing_pair pair;
    struct fabric_service *service = &((struct shm *)testing->fabric->state)->service;
    struct tarn_fabric_connection *met = NULL;
    struct attacker attackers[base_array_count(counts)];
    int others[base_array_count(counts)];
    const unsigned descriptors = testing_descriptors();
    testing_pair_open(testing, &pair, NULL);
    for (unsigned i = 0; i < base_array_count(counts); i++) {
        struct attacker *attacker = &attackers[i];
        int fds[8];
        for (unsigned k = 0; k < base_array_count(fds); k++)
            fds[k] = k == 0 ? shm_testing_linger(&others[i]) : fds[0];
        if (counts[i] == 0) {
            met = get_in(&pair, attacker);
        } else {
            prepare(attacker);
            reach(attacker, testing->address);
        }
        task_mutex_lock_firmly(&service->lock); /* its close is the last, which waits, and not this test's */
        assert_true(shm_message_send(attacker->socket, "", 1, fds, base_max(counts[i], 1U)));
        assert_int_equal(close(fds[0]), 0);
        task_mutex_unlock(&service->lock);
        expect_service(testing->address);
        expect_alive(&pair);
    }
    tarn_fabric_disconnect(met);
    for (unsigned i = 0; i < base_array_count(counts); i++)
        dismiss(&attackers[i]);
    testing_pair_close(&pair);
    for (unsigned i = 0; i < base_array_count(counts); i++)
        shm_testing_linger_end(others[i]);
    testing_expect_descriptors(descriptors);
}

static bool can_map_to_write(int fd, uint64_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return false;
    assert_int_equal(munmap(memory, bytes), 0);
    return true;
}

static bool can_turn_to_write(int fd, uint64_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    bool can = mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0;
    assert_int_equal(munmap(memory, bytes), 0);
    return can;
}

/* What a descriptor gives, tried in every way that there is; and that nobody can change its length or seals. */
static void expect_rights(int fd, uint64_t bytes, bool writable)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int again = open(path, O_RDWR | O_CLOEXEC);
    assert_true(again >= 0); /* the same user's file: only seals help */
    const int ways[] = {fd, again};
    for (unsigned i = 0; i < base_array_count(ways); i++) {
        assert_int_equal(can_map_to_write(ways[i], bytes), writable);
        assert_int_equal(can_turn_to_write(ways[i], bytes), writable);
        assert_int_equal(pwrite(ways[i], "", 1, (off_t)bytes - 1) == 1, writable);
        assert_int_equal(
            fallocate(ways[i], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)bytes - 4096, 4096) == 0,
            writable);
        assert_int_not_equal(ftruncate(ways[i], (off_t)bytes - 4096), 0);
        assert_int_not_equal(ftruncate(ways[i], (off_t)bytes + 4096), 0);
        assert_int_not_equal(fcntl(ways[i], F_ADD_SEALS, F_SEAL_WRITE), 0);
    }
    assert_int_equal(close(again), 0);
}

static void expect_file(struct attacker *attacker, const struct tarn_fabric_region *region, bool writable)
{
    struct stat status;
    struct shm_note note;
    int fd = ask(attacker, region->handle.key, &note);
    assert_true(fd >= 0);
    assert_int_equal(note.bytes, region->bytes);
    assert_int_equal(note.rights, region->handle.rights);
    expect_rights(fd, note.bytes, writable);
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(close(fd), 0);
}

static void a_peer_gets_no_more_than_was_granted(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct attacker attacker;
    struct stat status;
    struct shm_note note;
    testing_pair_open(testing, &pair, NULL);
    struct tarn_fabric_connection *connection = get_in(&pair, &attacker);
    expect_rights(attacker.greeting.fds[SHM_TABLE], shm_table_bytes(attacker.greeting.hello.table_slots),
                  false);
    expect_rights(attacker.greeting.fds[SHM_RING], shm_ring_bytes(SLOTS, PAYLOAD), true);
    for (unsigned i = 0; i < SHM_HELLO_FDS; i++) {
        assert_int_equal(fstat(attacker.greeting.fds[i], &status), 0);
        assert_int_equal(status.st_mode & 07777, 0600);
    }
    expect_file(&attacker, pair.readable, false);
    expect_file(&attacker, pair.all, true);
    for (uint64_t slot = 0; slot < 4; slot++) /* a key cannot be guessed by its slot */
        assert_int_equal(ask(&attacker, (pair.all->handle.key ^ UINT64_C(1) << 40) + slot, &note), -1);
    assert_int_equal(ask(&attacker, UINT64_MAX, &note), -1);
    assert_int_equal(ask(&attacker, 0, &note), -1);
    /* the owner still writes there, and what others of the domain hold is what they had */
    tarn_fabric_mem_copy_in(pair.readable, 0, "new", 3);
    char back[3];
    assert_int_equal(tarn_fabric_read(pair.client, 0, &pair.readable->handle, 0, back, 3, TESTING_LATE), 0);
    assert_memory_equal(back, "new", 3);
    tarn_fabric_disconnect(connection);
    dismiss(&attacker);
    testing_pair_close(&pair);
}

/* ---- rings -------------------------------------------------------------------------------------- */

/* Places in a ring, as ring.c has them. */
enum {
    AT_WRITTEN = 0,
    AT_PRESENCE = 12,
    AT_READ = 64,
    AT_KIND = 128,
    AT_BYTES = 136,
};

static void fake_message(struct attacker *attacker, uint32_t kind, uint32_t bytes, uint64_t written)
{
    poke32(&attacker->out.file, AT_KIND, kind);
    poke32(&attacker->out.file, AT_BYTES, bytes);
    poke64(&attacker->out.file, AT_WRITTEN, written);
}

static void rubbish_in_rings_ends_the_connection(struct testing_fabric *testing)
{
    static const struct {
        uint32_t kind;
        uint32_t bytes;
        uint64_t written;
    } messages[] = {{1, 0, SLOTS + 1},
                    {1, 0, UINT64_MAX},
                    {1, PAYLOAD + 1, 1},
                    {1, UINT32_MAX, 1},
                    {2, 1, 1},
                    {0, 0, 1},
                    {3, 0, 1},
                    {UINT32_MAX, UINT32_MAX, 1},
                    {1, 0, UINT64_MAX - 100}};
    struct testing_pair pair;
    struct tarn_fabric_message message;
    uint8_t data[PAYLOAD];
    testing_pair_open(testing, &pair, NULL);
    for (unsigned i = 0; i < base_array_count(messages); i++) {
        struct attacker attacker;
        struct tarn_fabric_connection *connection = get_in(&pair, &attacker);
        fake_message(&attacker, messages[i].kind, messages[i].bytes, messages[i].written);
        assert_int_equal(tarn_fabric_receive(connection, data, sizeof(data), TESTING_LATE, &message),
                         -EPROTO);
        assert_int_equal(tarn_fabric_receive(connection, data, sizeof(data), TESTING_LATE, &message),
                         -EPROTO);
        tarn_fabric_disconnect(connection);
        dismiss(&attacker);
        expect_alive(&pair);
    }
    /* what was read is looked at when no slot is left that is known to be free */
    static const uint64_t reads[] = {SLOTS + 1, 2 * SLOTS, UINT64_MAX - SLOTS - 1, UINT64_C(1) << 63};
    for (unsigned i = 0; i < base_array_count(reads); i++) {
        struct attacker attacker;
        struct tarn_fabric_connection *connection = get_in(&pair, &attacker);
        for (unsigned sent = 0; sent < SLOTS; sent++)
            assert_int_equal(tarn_fabric_send(connection, 0, "x", 1, TESTING_LATE), 0);
        poke64(&attacker.files[SHM_RING], AT_READ, reads[i]);
        assert_int_equal(tarn_fabric_send(connection, 0, "x", 1, TESTING_LATE), -EPROTO);
        tarn_fabric_disconnect(connection);
        dismiss(&attacker);
        expect_alive(&pair);
    }
    testing_pair_close(&pair);
}

static void rubbish_on_the_socket_ends_nothing_else(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct attacker attacker;
    struct tarn_fabric_message message;
    uint8_t data[PAYLOAD];
    testing_pair_open(testing, &pair, NULL);
    struct tarn_fabric_connection *connection = get_in(&pair, &attacker);
    for (unsigned i = 0; i < 3000; i++) { /* more than its buffer has room for, and with descriptors */
        uint8_t rubbish[200] = {0};
        if (i % 100 == 0) {
            while (!shm_message_send(attacker.socket, rubbish, 1, attacker.fds, SHM_HELLO_FDS))
                (void)task_sleep(BASE_NS_PER_MS);
        } else {
            (void)send(attacker.socket, rubbish, i % sizeof(rubbish) + 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
    }
    expect_alive(&pair);
    assert_int_equal(tarn_fabric_receive(connection, data, sizeof(data), TESTING_SOON, &message), -ETIMEDOUT);
    assert_int_equal(tarn_fabric_error(connection), 0);
    poke32(&attacker.out.file, AT_PRESENCE, 99);
    assert_int_equal(send(attacker.socket, "", 1, MSG_NOSIGNAL), 1);
    assert_int_equal(tarn_fabric_receive(connection, data, sizeof(data), TESTING_LATE, &message),
                     -ECONNRESET);
    tarn_fabric_disconnect(connection);
    dismiss(&attacker);
    expect_alive(&pair);
    testing_pair_close(&pair);
}

/* ---- other users -------------------------------------------------------------------------------- */

enum { NOBODY = 65534 };

/* As another user: @return 0 if all is as it must be, else a line */
static int try_as_nobody(const char *path, int ready, int tried)
{
    struct attacker attacker;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char byte;
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (setuid(NOBODY) != 0 || read(ready, &byte, 1) != 1)
        return __LINE__;
    prepare(&attacker);
    if (shm_socket(&attacker.socket) != 0)
        return __LINE__;
    const struct sockaddr *where = (const struct sockaddr *)&address;
    if (connect(attacker.socket, where, sizeof(address)) == 0 || errno != EACCES)
        return __LINE__; /* the socket's mode */
    if (write(tried, "1", 1) != 1 || read(ready, &byte, 1) != 1 ||
        connect(attacker.socket, where, sizeof(address)) != 0)
        return __LINE__;
    if (shm_hello_send(attacker.socket, &attacker.hello, attacker.fds) != 0)
        return __LINE__;
    return answer(&attacker) == -EACCES ? 0 : __LINE__; /* it trusts us as little */
}

static void other_users_are_refused(void **state)
{
    const struct task_node_options quiet = {.log_level = BASE_LOG_ERROR};
    struct testing_fabric testing = {.subject = *state};
    struct testing_pair pair;
    struct tarn_fabric_incoming *incoming;
    int ready[2], tried[2], status;
    char byte;
    if (getuid() != 0) {
        print_message("only root can become another user\n");
        skip();
    }
    testing.subject->address(testing.address, sizeof(testing.address));
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(tried, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(try_as_nobody(testing.address, ready[0], tried[1]) == 0 ? 0 : 1);
    assert_int_equal(close(tried[1]), 0);
    assert_int_equal(task_node_open(&quiet, &testing.node), 0);
    assert_int_equal(tarn_fabric_open(testing.node, "shm:", &testing.fabric), 0);
    testing_pair_open(&testing, &pair, NULL);
    assert_int_equal(write(ready[1], "1", 1), 1);
    assert_int_equal(read(tried[0], &byte, 1), 1);
    assert_int_equal(chmod(testing.address, 0777), 0);
    assert_int_equal(write(ready[1], "2", 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(tarn_fabric_listener_wait(pair.listener, TESTING_SOON, &incoming), -ETIMEDOUT);
    expect_alive(&pair);
    testing_pair_close(&pair);
    tarn_fabric_close(testing.fabric);
    task_node_close(testing.node);
    assert_int_equal(close(ready[0]), 0);
    assert_int_equal(close(tried[0]), 0);
    assert_int_equal(close(ready[1]), 0);
}

/* Attackers are plain threads' work: a task would be no other. */
#define IN_THREADS(test)                                                                                     \
    static void test##_here(void **state)                                                                    \
    {                                                                                                        \
        testing_run(state, test, false);                                                                     \
    }

IN_THREADS(rubbish_is_no_hello)
IN_THREADS(the_silent_are_dropped)
IN_THREADS(files_are_checked)
IN_THREADS(what_is_closed_slowly_holds_up_nobody)
IN_THREADS(a_peer_gets_no_more_than_was_granted)
IN_THREADS(rubbish_in_rings_ends_the_connection)
IN_THREADS(rubbish_on_the_socket_ends_nothing_else)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_users_are_refused), /* it forks: before there are threads */
        cmocka_unit_test(rubbish_is_no_hello_here),
        cmocka_unit_test(the_silent_are_dropped_here),
        cmocka_unit_test(files_are_checked_here),
        cmocka_unit_test(what_is_closed_slowly_holds_up_nobody_here),
        cmocka_unit_test(a_peer_gets_no_more_than_was_granted_here),
        cmocka_unit_test(rubbish_in_rings_ends_the_connection_here),
        cmocka_unit_test(rubbish_on_the_socket_ends_nothing_else_here),
    };
    return cmocka_run_group_tests(tests, shm_testing_setup, NULL);
}
