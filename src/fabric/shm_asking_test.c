/*
 * Peers of `shm` that ask for regions without end, or lie about their own. They hurt themselves alone: another client of
 * the same server works on all the time.
 */
#include "fabric/shm_attack_testing.h"
#include <fcntl.h>

/* ---- questions ---------------------------------------------------------------------------------- */

/* Questions without end, whose answers are not read: their connection ends, and nobody else's. */
static void questions_without_end_end_the_connection(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct attacker attacker;
    struct tarn_fabric_message message;
    uint8_t data[PAYLOAD];
    const unsigned descriptors = testing_descriptors();
    testing_pair_open(testing, &pair, NULL);
    struct tarn_fabric_connection *connection = get_in(&pair, &attacker);
    const struct shm_note question = {.kind = SHM_ASK, .key = pair.all->handle.key};
    for (unsigned i = 0; i < 100000 && tarn_fabric_error(connection) == 0; i++)
        (void)shm_note_send(attacker.socket, &question, -1);
    assert_int_equal(tarn_fabric_receive(connection, data, sizeof(data), TESTING_LATE, &message),
                     -ECONNRESET);
    expect_alive(&pair);
    tarn_fabric_disconnect(connection);
    dismiss(&attacker);
    testing_pair_close(&pair);
    testing_expect_descriptors(descriptors);
}

/* A peer that closes its socket has not let go of memory by that: what it has is not given to others, and counts. */
static void a_closed_socket_frees_no_memory(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct attacker attacker;
    struct tarn_fabric_message message;
    struct tarn_fabric_region *again;
    struct shm_note note;
    uint8_t data[PAYLOAD];
    testing_pair_open(testing, &pair, NULL);
    struct tarn_fabric_connection *connection = get_in(&pair, &attacker);
    int fd = ask(&attacker, pair.all->handle.key, &note);
    testing_disconnect(&pair); /* the good one goes */
    assert_int_equal(close(attacker.socket), 0);
    attacker.socket = -1;
    assert_int_equal(tarn_fabric_receive(connection, data, sizeof(data), TESTING_LATE, &message),
                     -ECONNRESET);
    assert_int_equal(tarn_fabric_fence(connection, TESTING_SOON), -ETIMEDOUT);
    tarn_fabric_disconnect(connection);
    tarn_fabric_region_free(pair.all);
    assert_int_equal(tarn_fabric_region_alloc(pair.server_domain, 4096, TARN_FABRIC_MAY_WRITE, &again),
                     -ENOSPC);
    tarn_fabric_region_free(pair.readable);
    assert_int_equal(close(fd), 0);
    dismiss(&attacker);
    tarn_fabric_listener_close(pair.listener);
    tarn_fabric_domain_close(pair.client_domain);
    tarn_fabric_domain_close(pair.server_domain); /* what it holds is its own now */
}

/* ---- answers ------------------------------------------------------------------------------------ */

/* The file that an answer brings. */
enum brought { GOOD, NO_FILE, READ_ONLY, UNSEALED, SHORT, DEVICE, THE_TABLE };

static int bring(const struct attacker *attacker, enum brought brought)
{
    switch (brought) {
    case NO_FILE:
        return -1;
    case READ_ONLY:
        return memory_file(FILE_BYTES, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    case UNSEALED:
        return memory_file(FILE_BYTES, 0);
    case SHORT:
        return memory_file(FILE_BYTES / 2, F_SEAL_SHRINK | F_SEAL_GROW);
    case DEVICE:
        return open("/dev/zero", O_RDWR | O_CLOEXEC);
    case THE_TABLE:
        return dup(attacker->files[SHM_TABLE].fd);
    default:
        return memory_file(FILE_BYTES, F_SEAL_SHRINK | F_SEAL_GROW);
    }
}

/* Wait until the server asks. */
static void expect_question(struct attacker *attacker, uint64_t key)
{
    struct shm_note note = {.kind = SHM_LOOK};
    int fd;
    for (uint64_t until_ns = TESTING_LATE; note.kind != SHM_ASK && task_now() < until_ns;) {
        if (shm_note_receive(-1, attacker->socket, &note, &fd) < 0)
            (void)task_sleep(1000000);
    }
    assert_int_equal(note.kind, SHM_ASK);
    assert_int_equal(note.key, key);
}

/* Lies about a region: the operation or its connection ends with an error, and nothing of it is touched. */
static void lies_about_regions_are_refused(struct testing_fabric *testing)
{
    static const struct {
        struct shm_note note;
        enum brought brought;
        enum tarn_fabric_op_kind kind;
        int error;
    } lies[] = {
        {{.kind = SHM_FILE, .key = 7, .generation = 1, .bytes = FILE_BYTES, .rights = 7},
         GOOD,
         TARN_FABRIC_WRITE,
         0},
        {{.kind = SHM_FILE, .key = 7, .generation = 2, .bytes = FILE_BYTES, .rights = 7},
         GOOD,
         TARN_FABRIC_WRITE,
         -EACCES},
        {{.kind = SHM_FILE, .key = 7, .generation = 0, .bytes = FILE_BYTES, .rights = 7},
         GOOD,
         TARN_FABRIC_READ,
         -EPROTO},
        {{.kind = SHM_FILE, .key = 8, .generation = 1, .bytes = FILE_BYTES, .rights = 7},
         GOOD,
         TARN_FABRIC_READ,
         -EPROTO},
        {{.kind = SHM_FILE, .key = 7, .slot = TABLE_SLOTS, .generation = 1, .bytes = FILE_BYTES, .rights = 7},
         GOOD,
         TARN_FABRIC_READ,
         -EPROTO},
        {{.kind = SHM_FILE, .key = 7, .slot = UINT32_MAX, .generation = 1, .bytes = FILE_BYTES, .rights = 7},
         GOOD,
         TARN_FABRIC_READ,
         -EPROTO},
        {{.kind = SHM_FILE, .key = 7, .generation = 1, .bytes = FILE_BYTES + 4096, .rights = 7},
         GOOD,
         TARN_FABRIC_READ,
         -EPROTO},
        {{.kind = SHM_FILE, .key = 7, .generation = 1, .bytes = UINT64_MAX, .rights = 7},
         GOOD,
         TARN_FABRIC_READ,
         -EPROTO},
        {{.kind = SHM_FILE, .key = 7, .generation = 1, .bytes = 0, .rights = 7},
         GOOD,
         TARN_FABRIC_READ,
         -EPROTO},
        {{.kind = SHM_FILE, .key = 7, .generation = 1, .bytes = FILE_BYTES, .rights = 23},
         GOOD,
         TARN_FABRIC_READ,
         -EPROTO},
        {{.kind = SHM_FILE, .key = 7, .generation = 1, .bytes = FILE_BYTES, .rights = 7},
         NO_FILE,
         TARN_FABRIC_READ,
         -EPROTO},
        {{.kind = SHM_FILE, .key = 7, .generation = 1, .bytes = FILE_BYTES, .rights = 7},
         READ_ONLY,
         TARN_FABRIC_WRITE,
         -EPROTO},
        {{.kind = SHM_FILE, .key = 7, .generation = 1, .bytes = FILE_BYTES, .rights = 7},
         UNSEALED,
         TARN_FABRIC_READ,
         -EPROTO},
        {{.kind = SHM_FILE, .key = 7, .generation = 1, .bytes = FILE_BYTES, .rights = 7},
         SHORT,
         TARN_FABRIC_READ,
         -EPROTO},
        {{.kind = SHM_FILE, .key = 7, .generation = 1, .bytes = FILE_BYTES, .rights = 7},
         DEVICE,
         TARN_FABRIC_READ,
         -EPROTO},
        {{.kind = SHM_FILE, .key = 7, .generation = 1, .bytes = 4096, .rights = 7},
         THE_TABLE,
         TARN_FABRIC_WRITE,
         -EPROTO},
        {{.kind = SHM_FILE, .key = 7, .generation = 1, .bytes = FILE_BYTES, .rights = 1},
         GOOD,
         TARN_FABRIC_WRITE,
         -EACCES},
        {{.kind = SHM_FILE, .key = 7, .generation = 1, .bytes = FILE_BYTES, .rights = 3},
         GOOD,
         TARN_FABRIC_FAA,
         -EACCES},
        {{.kind = SHM_NO_REGION, .key = 7}, NO_FILE, TARN_FABRIC_READ, -EACCES},
        {{.kind = SHM_NO_REGION, .key = 8}, NO_FILE, TARN_FABRIC_READ, -EPROTO},
    };
    static const struct tarn_fabric_handle handle = {
        .domain = 42, .key = 7, .bytes = FILE_BYTES, .rights = 7};
    struct testing_pair pair;
    testing_pair_open(testing, &pair, NULL);
    const unsigned descriptors = testing_descriptors();
    for (unsigned i = 0; i < base_array_count(lies); i++) {
        struct attacker attacker;
        struct tarn_fabric_connection *connection = get_in(&pair, &attacker);
        uint64_t word = 1;
        const struct iovec vector = {.iov_base = &word, .iov_len = 8};
        struct tarn_fabric_op op = {.kind = lies[i].kind, .handle = &handle, .operand = 1};
        if (op.kind != TARN_FABRIC_FAA) {
            op.iov = &vector;
            op.iov_count = 1;
        }
        poke64(&attacker.files[SHM_TABLE], 0, 1);
        tarn_fabric_post(connection, &op, 1);
        expect_question(&attacker, handle.key);
        int fd = bring(&attacker, lies[i].brought);
        assert_true(shm_note_send(attacker.socket, &lies[i].note, fd));
        int error = tarn_fabric_wait(&op, 1, TESTING_LATE);
        if (error != lies[i].error)
            print_message("lie %u: %d\n", i, error);
        assert_int_equal(error, lies[i].error);
        tarn_fabric_disconnect(connection);
        if (fd >= 0)
            assert_int_equal(close(fd), 0);
        dismiss(&attacker);
        expect_alive(&pair);
    }
    testing_expect_descriptors(descriptors);
    testing_pair_close(&pair);
}

/* Answers to no question, and news of regions that there are not. */
static void answers_without_question_end_the_connection(struct testing_fabric *testing)
{
    static const struct shm_note notes[] = {
        {.kind = SHM_FILE, .key = 7, .generation = 1, .bytes = 4096, .rights = 7},
        {.kind = SHM_NO_REGION, .key = 7},
        {.kind = SHM_NO_REGION}};
    struct testing_pair pair;
    struct tarn_fabric_message message;
    uint8_t data[PAYLOAD];
    testing_pair_open(testing, &pair, NULL);
    for (unsigned i = 0; i < base_array_count(notes); i++) {
        struct attacker attacker;
        const struct shm_note freed = {.kind = SHM_FREED},
                              dropped = {.kind = SHM_DROPPED, .key = pair.all->handle.key};
        struct tarn_fabric_connection *connection = get_in(&pair, &attacker);
        assert_true(shm_note_send(attacker.socket, &freed, -1));
        assert_true(shm_note_send(attacker.socket, &dropped, -1));
        assert_true(shm_note_send(attacker.socket, &notes[i], -1));
        assert_int_equal(tarn_fabric_receive(connection, data, sizeof(data), TESTING_LATE, &message),
                         -EPROTO);
        tarn_fabric_disconnect(connection);
        dismiss(&attacker);
        expect_alive(&pair);
    }
    testing_pair_close(&pair);
}

/* ---- freed memory ------------------------------------------------------------------------------- */

/* Memory of a freed region is there again at once where no peer has used it, and otherwise when the peer has learned of
 * that, by whatever it does next. */
static void freed_memory_is_there_again(struct testing_fabric *testing)
{
    struct testing_pair pair;
    struct tarn_fabric_region *again;
    const uint32_t rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE;
    uint8_t zeros[11] = {0};
    testing_pair_open(testing, &pair, NULL);
    for (unsigned i = 0; i < 4; i++) { /* with a peer that is idle */
        tarn_fabric_mem_copy_in(pair.all, 1000, "left behind", 11);
        tarn_fabric_region_free(pair.all);
        assert_int_equal(tarn_fabric_region_alloc(pair.server_domain, TESTING_BYTES, rights, &pair.all), 0);
        testing_expect(pair.all, 1000, zeros, sizeof(zeros));
    }
    for (unsigned i = 0; i < 4; i++) { /* with one that has written there, and that does something */
        assert_int_equal(
            tarn_fabric_write(pair.client, 0, &pair.all->handle, 1000, "left behind", 11, TESTING_LATE), 0);
        tarn_fabric_region_free(pair.all);
        assert_int_equal(tarn_fabric_region_alloc(pair.server_domain, 4096, rights, &again), -ENOSPC);
        uint64_t word;
        do /* until it has learned of it */
            assert_int_equal(
                tarn_fabric_read(pair.client, 0, &pair.readable->handle, 0, &word, 8, TESTING_LATE), 0);
        while (tarn_fabric_region_alloc(pair.server_domain, TESTING_BYTES, rights, &pair.all) != 0);
        testing_expect(pair.all, 1000, zeros, sizeof(zeros));
    }
    testing_pair_close(&pair);
}

/* Memory in two domains is there again when no peer of either has it, and its file goes to none with more rights. */
static void shared_memory_is_there_again(struct testing_fabric *testing)
{
    struct testing_pair pair, second;
    struct tarn_fabric_region *shared, *again;
    const uint32_t rights = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE;
    uint64_t word = 1;
    testing_pair_open(testing, &pair, NULL);
    second = pair;
    second.server_domain = testing_domain(testing->fabric, 0, 4096);
    second.client_domain = testing_domain(testing->fabric, 0, 4096);
    assert_int_equal(tarn_fabric_region_register(second.server_domain, pair.readable->memory,
                                                 pair.readable->bytes, rights, &shared),
                     -EOPNOTSUPP);
    assert_int_equal(tarn_fabric_region_register(second.server_domain, pair.all->memory, pair.all->bytes,
                                                 TARN_FABRIC_MAY_READ, &shared),
                     -EOPNOTSUPP);
    assert_int_equal(
        tarn_fabric_region_register(second.server_domain, pair.all->memory, pair.all->bytes, rights, &shared),
        0);
    second.all = testing_region(second.server_domain, 4096, rights);
    testing_connect(&second);
    assert_int_equal(
        tarn_fabric_write(second.client, 0, &shared->handle, 0, &word, sizeof(word), TESTING_LATE), 0);
    tarn_fabric_region_free(shared);
    tarn_fabric_region_free(pair.all);
    assert_int_equal(tarn_fabric_region_alloc(pair.server_domain, 4096, rights, &again), -ENOSPC);
    do /* until it has learned of it */
        assert_int_equal(
            tarn_fabric_write(second.client, 0, &second.all->handle, 0, &word, sizeof(word), TESTING_LATE),
            0);
    while (tarn_fabric_region_alloc(pair.server_domain, TESTING_BYTES, rights, &pair.all) != 0);

    /* a ghost of the second domain's outlives the first domain */
    assert_int_equal(
        tarn_fabric_region_register(second.server_domain, pair.all->memory, pair.all->bytes, rights, &shared),
        0);
    assert_int_equal(
        tarn_fabric_write(second.client, 0, &shared->handle, 0, &word, sizeof(word), TESTING_LATE), 0);
    tarn_fabric_disconnect(second.server);
    tarn_fabric_region_free(shared);
    testing_pair_close(&pair);
    tarn_fabric_disconnect(second.client);
    tarn_fabric_region_free(second.all);
    tarn_fabric_domain_close(second.client_domain);
    tarn_fabric_domain_close(second.server_domain);
}

/* ---- all of it ---------------------------------------------------------------------------------- */

/* Attackers are plain threads' work: a task would be no other. */
#define IN_THREADS(test)                                                                                     \
    static void test##_here(void **state)                                                                    \
    {                                                                                                        \
        testing_run(state, test, false);                                                                     \
    }

IN_THREADS(questions_without_end_end_the_connection)
IN_THREADS(freed_memory_is_there_again)
IN_THREADS(shared_memory_is_there_again)
IN_THREADS(a_closed_socket_frees_no_memory)
IN_THREADS(lies_about_regions_are_refused)
IN_THREADS(answers_without_question_end_the_connection)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(questions_without_end_end_the_connection_here),
        cmocka_unit_test(freed_memory_is_there_again_here),
        cmocka_unit_test(shared_memory_is_there_again_here),
        cmocka_unit_test(a_closed_socket_frees_no_memory_here),
        cmocka_unit_test(lies_about_regions_are_refused_here),
        cmocka_unit_test(answers_without_question_end_the_connection_here),
    };
    return cmocka_run_group_tests(tests, shm_testing_setup, NULL);
}
