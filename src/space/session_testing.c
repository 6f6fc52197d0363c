/* The numbers of sessions: operations that are done in one session alone, and sessions that are over for good. */
#include "space/client.h"
#include "space/conformance_testing.h"

#define SOON TESTING_LATE

/* ---- what is asked ------------------------------------------------------------------------------ */

/* Ask until a session is over. */
static void await_ended(struct tarn_space_namespace *of, uint64_t number)
{
    int error;
    do
        error = tarn_space_session_ended(of, number, SOON);
    while (error == -EBUSY && task_sleep(BASE_NS_PER_MS) == 0);
    assert_int_equal(error, 0);
}

/* Wait until a session has expired. */
static void await_expired(const struct space_testing *self)
{
    struct space_master_stats stats;
    do {
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
        space_master_stats(self->master, &stats);
    } while (stats.expired == 0);
}

/* A session that is live is not over. It may expire meanwhile only on a busy machine. */
static void expect_live(struct space_testing *self, struct tarn_space_namespace *of, uint64_t number)
{
    struct space_master_stats stats;
    const int error = tarn_space_session_ended(of, number, SOON);
    space_master_stats(self->master, &stats);
    assert_true(error == -EBUSY || (error == 0 && stats.expired > 0 && self->testing->drive == NULL));
}

/* ---- numbers ------------------------------------------------------------------------------------ */

/* A number is that of the same session as before, and another one that of another session. */
static void expect_number(const struct space_testing *self, const uint8_t *session, uint64_t number)
{
    const bool is_same = memcmp(session, self->space->session, SPACE_SESSION_BYTES) == 0;
    assert_true(is_same || self->testing->drive == NULL); /* else this machine was too busy */
    assert_int_equal(tarn_space_session(self->space) == number, is_same);
}

static void keep_number(struct space_testing *self)
{
    struct tarn_space *other = space_testing_connect(self);
    const uint64_t number = tarn_space_session(self->space);
    struct tarn_space_namespace *of;
    uint8_t session[SPACE_SESSION_BYTES];
    memcpy(session, self->space->session, sizeof(session));
    assert_true(number != 0 && tarn_space_session(other) != 0 && tarn_space_session(other) != number);
    for (unsigned i = 0; i + 8 <= sizeof(session); i++) /* it shows nothing of the secret */
        assert_true(base_load_le64(session + i) != number);
    assert_int_equal(task_sleep(self->lease_ns), 0); /* which is renewed meanwhile */
    expect_number(self, session, number);
    for (unsigned i = 0; i < 2; i++) {
        space_testing_close_master(self);
        expect_number(self, session, number);
        space_testing_open_master(self);
        assert_int_equal(tarn_space_join_ns(self->space, "a", NULL, 0, SOON, &of), -ENOENT);
        expect_number(self, session, number);
    }
    tarn_space_disconnect(other);
}

static void a_session_keeps_its_number(struct testing_fabric *testing)
{
    space_testing_run(testing, 2 * BASE_NS_PER_SECOND, keep_number);
}

/* ---- operations of one session ------------------------------------------------------------------ */

/* Have a client begin another session, as it does when a WRITE is in doubt. @return the number of the one before */
static uint64_t change_session(struct tarn_space_namespace *of)
{
    struct tarn_space_region *doubtful = space_testing_alloc(of, 8, TARN_SPACE_BULK);
    const uint64_t number = tarn_space_session(of->space);
    doubtful->is_in_doubt = true;
    assert_int_equal(tarn_space_free(doubtful, SOON), 0);
    tarn_space_drop(doubtful);
    assert_int_equal(tarn_space_session(of->space), 0);
    return number;
}

/* Do something with a word in a session. */
static int do_in(struct tarn_space_region *region, enum tarn_fabric_op_kind kind, uint64_t session,
                 uint64_t *word)
{
    const struct iovec iov = {.iov_base = word, .iov_len = 8};
    struct tarn_space *space = region->of->space;
    struct tarn_space_op op = {.kind = kind,
                               .region = region,
                               .iov = &iov,
                               .iov_count = 1,
                               .compare = 5,
                               .operand = *word,
                               .session = session};
    do {
        tarn_space_post(space, &op, 1);
        (void)!tarn_space_wait(space, &op, 1, SOON);
    } while (op.result == -ESTALE && session == tarn_space_session(space)); /* a busy machine's lease */
    return op.result;
}

static void stay_in_session(struct space_testing *self)
{
    static const enum tarn_fabric_op_kind kinds[] = {TARN_FABRIC_WRITE, TARN_FABRIC_CAS, TARN_FABRIC_FAA,
                                                     TARN_FABRIC_READ};
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 4);
    struct tarn_space_region *region = space_testing_alloc(of, TESTING_CHUNK_BYTES, TARN_SPACE_WORDS);
    uint64_t word = 5, before;
    assert_int_equal(do_in(region, TARN_FABRIC_WRITE, 0, &word), 0);
    assert_int_equal(do_in(region, TARN_FABRIC_WRITE, tarn_space_session(self->space), &word), 0);
    const uint64_t number = change_session(of);
    word = 6;
    for (unsigned round = 0; round < 2; round++) { /* while there is no session, and in the next one */
        for (unsigned i = 0; i < base_array_count(kinds); i++)
            assert_int_equal(do_in(region, kinds[i], number, &word), -ESTALE);
        assert_int_equal(tarn_space_faa(region, 0, 0, SOON, &before), 0); /* which begins it */
        assert_int_equal(before, 5);
    }
    const uint64_t next = tarn_space_session(self->space);
    assert_true(next != 0 && next != number);
    assert_int_equal(do_in(region, TARN_FABRIC_CAS, next, &word), 0);
    assert_int_equal(do_in(region, TARN_FABRIC_READ, next, &word), 0);
    assert_int_equal(word, 6);
    tarn_space_drop(region);
    space_testing_delete(of);
}

static void an_operation_stays_in_its_session(struct testing_fabric *testing)
{
    space_testing_run(testing, 60 * BASE_NS_PER_SECOND, stay_in_session);
}

/* What is read at a glance, where that can be, counts in the session of which it was, while its lease holds. */
static void glance_at(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 4);
    struct tarn_space_region *region = space_testing_alloc(of, TESTING_CHUNK_BYTES, TARN_SPACE_WORDS);
    uint64_t word = 5, found = 0;
    assert_false(tarn_space_glance(region, 0, &found, 8)); /* its server is not reached yet */
    assert_int_equal(do_in(region, TARN_FABRIC_WRITE, 0, &word), 0);
    assert_false(tarn_space_prefetch(region, TESTING_CHUNK_BYTES, 1));
    const bool can_prefetch = tarn_space_prefetch(region, 0, TESTING_CHUNK_BYTES);
    const bool can_glance = tarn_space_glance(region, 0, &found, 8);
    assert_int_equal(can_glance, strcmp(tarn_fabric_info(self->space->fabric)->provider, "shm") == 0);
    assert_int_equal(found, can_glance ? 5 : 0);
    assert_int_equal(can_prefetch, can_glance);
    assert_false(tarn_space_glance(region, TESTING_CHUNK_BYTES - 7, &found, 8));
    assert_false(tarn_space_glance(region, 0, &found, 0));
    const uint64_t number = tarn_space_session(self->space);
    uint64_t held_until_ns = self->space->held_until_ns;
    assert_true(tarn_space_holds(self->space, number, 0));
    assert_false(tarn_space_holds(self->space, number, held_until_ns + 3600 * BASE_NS_PER_SECOND));
    assert_false(tarn_space_holds(self->space, number + 1, 0));
    assert_false(tarn_space_holds(self->space, 0, 0));
    assert_int_equal(change_session(of), number);
    assert_false(tarn_space_holds(self->space, number, 0));
    assert_false(tarn_space_glance(region, 0, &found, 8));
    assert_int_equal(tarn_space_faa(region, 0, 0, SOON, &word), 0); /* which begins the next one */
    assert_false(tarn_space_holds(self->space, number, 0));
    assert_int_equal(tarn_space_glance(region, 0, &found, 8), can_glance);
    tarn_space_drop(region);
    space_testing_delete(of);
}

static void a_glance_counts_in_its_session(struct testing_fabric *testing)
{
    space_testing_run(testing, 60 * BASE_NS_PER_SECOND, glance_at);
}

enum { LONG = 43, OPS = 4, ALL_BYTES = LONG * (int)TESTING_CHUNK_BYTES };

_Static_assert(2 * LONG < CLIENT_PIECES && 3 * LONG > CLIENT_PIECES, "a part of the third op has to wait");

/* Operations that wait for free pieces when their session ends: those that are posted later are not. */
static void wait_for_pieces(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", LONG + 1);
    struct tarn_space_region *region = space_testing_alloc(of, ALL_BYTES, TARN_SPACE_BULK);
    uint8_t *bytes[OPS];
    struct iovec iov[OPS];
    struct tarn_space_op ops[OPS];
    void *mapped;
    assert_int_equal(tarn_space_map(region, SOON, &mapped), 0);
    memset(mapped, OPS, ALL_BYTES);
    assert_int_equal(tarn_space_write(region, mapped, ALL_BYTES, SOON), 0);
    const uint64_t number = tarn_space_session(self->space);
    for (unsigned i = 0; i < OPS; i++) {
        bytes[i] = test_malloc(ALL_BYTES);
        memset(bytes[i], (int)i, ALL_BYTES);
        iov[i] = (struct iovec){.iov_base = bytes[i], .iov_len = ALL_BYTES};
        ops[i] = (struct tarn_space_op){
            .kind = TARN_FABRIC_WRITE, .region = region, .iov = &iov[i], .iov_count = 1, .session = number};
    }
    struct tarn_space_region *doubtful = space_testing_alloc(of, 8, TARN_SPACE_BULK);
    tarn_space_post(self->space, ops, OPS);
    doubtful->is_in_doubt = true;
    tarn_space_drop(doubtful);
    (void)!tarn_space_wait(self->space, ops, OPS, SOON);
    assert_true(ops[2].finished && ops[2].result != 0);
    assert_int_equal(ops[3].result, -ESTALE);
    assert_int_equal(tarn_space_read(region, mapped, ALL_BYTES, SOON), 0);
    assert_true(tarn_space_session(self->space) != number);
    for (uint64_t i = 0; i < ALL_BYTES; i++) {
        const uint8_t found = ((const uint8_t *)mapped)[i];
        assert_true(found != 3 && (found != 2 || i < ALL_BYTES - TESTING_CHUNK_BYTES));
    }
    for (unsigned i = 0; i < OPS; i++)
        test_free(bytes[i]);
    tarn_space_unmap(region);
    tarn_space_drop(region);
    space_testing_delete(of);
}

static void what_waits_ends_with_its_session(struct testing_fabric *testing)
{
    space_testing_run(testing, 60 * BASE_NS_PER_SECOND, wait_for_pieces);
}

/* ---- sessions that are over --------------------------------------------------------------------- */

/* A client disconnects; and numbers that no session has. */
static void end_well(struct space_testing *self)
{
    static const uint64_t rubbish[] = {0, 1, UINT64_MAX, UINT64_C(0x123456789abcdef)};
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 3), *joined;
    const uint64_t number = tarn_space_session(other);
    uint64_t word = 5;
    assert_int_equal(tarn_space_join_ns(other, "a", NULL, 0, SOON, &joined), 0);
    struct tarn_space_region *region = space_testing_alloc(joined, 8, TARN_SPACE_BULK);
    assert_int_equal(tarn_space_write_at(region, 0, &word, 8, SOON), 0);
    expect_live(self, of, number);
    expect_live(self, of, tarn_space_session(self->space));
    for (unsigned i = 0; i < base_array_count(rubbish); i++)
        assert_int_equal(tarn_space_session_ended(of, rubbish[i], SOON), 0);
    tarn_space_drop(region);
    tarn_space_leave_ns(joined);
    expect_live(self, of, number);
    tarn_space_disconnect(other);
    await_ended(of, number);
    assert_int_equal(tarn_space_delete_ns(of, SOON), 0);
    assert_int_equal(tarn_space_session_ended(of, number, SOON), 0);
    tarn_space_leave_ns(of);
}

static void a_session_ends_with_its_client(struct testing_fabric *testing)
{
    space_testing_run(testing, 60 * BASE_NS_PER_SECOND, end_well);
}

/* A client is silent for longer than its lease: its session is over when nothing of it can arrive any more. */
static void fall_silent(struct space_testing *self)
{
    const bool fences_alone = self->testing->subject->fences_alone;
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 1), *joined;
    struct tarn_space_region *region = space_testing_alloc(of, 8, TARN_SPACE_BULK), *same, *next;
    struct tarn_space_info info;
    uint64_t word = 5, found;
    tarn_space_info(region, &info);
    assert_int_equal(tarn_space_join_ns(other, "a", NULL, 0, SOON, &joined), 0);
    assert_int_equal(tarn_space_init(joined, info.address, 0, SOON, &same), 0);
    assert_int_equal(do_in(same, TARN_FABRIC_WRITE, 0, &word), 0);
    const uint64_t number = tarn_space_session(other);
    struct tarn_fabric_connection *old = same->targets[0].link->connection;
    const struct tarn_fabric_handle handle = same->targets[0].handle;
    task_worker_stop(&other->keeper);
    expect_live(self, of, number);
    await_expired(self);
    if (fences_alone) {
        await_ended(of, number);
        word = 7; /* past all checks of the lease and of the session */
        assert_true(tarn_fabric_write(old, 0, &handle, 0, &word, 8, SOON) != 0);
    } else { /* it has the memory mapped */
        for (unsigned i = 0; i < 20; i++) {
            assert_int_equal(tarn_space_session_ended(of, number, SOON), -EBUSY);
            assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
        }
    }
    assert_int_equal(tarn_space_session(other), number); /* it has heard nothing yet */
    assert_int_equal(tarn_space_find(joined, "none", SOON, &next), -ENOENT);
    assert_true(tarn_space_session(other) != number && tarn_space_session(other) != 0);
    await_ended(of, number);
    word = 8;
    assert_int_equal(do_in(same, TARN_FABRIC_WRITE, number, &word), -ESTALE);
    do
        word = (uint64_t)(int64_t)tarn_space_read_at(region, 0, &found, 8, SOON);
    while (word != 0);
    assert_int_equal(found, 5);
    tarn_space_drop(same);
    tarn_space_leave_ns(joined);
    tarn_space_disconnect(other);
    tarn_space_drop(region);
    space_testing_delete(of);
}

static void the_silent_are_over_when_fenced(struct testing_fabric *testing)
{
    space_testing_run(testing, 500 * BASE_NS_PER_MS, fall_silent);
}

/* A session of which others were told that it is over is not resumed: neither by the same master nor by the next. */
static void resume_too_late(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 1), *joined;
    for (unsigned i = 0; i < 3; i++) {
        struct tarn_space *other = space_testing_connect(self);
        const uint64_t number = tarn_space_session(other), mine = tarn_space_session(self->space);
        assert_int_equal(tarn_space_join_ns(other, "a", NULL, 0, SOON, &joined), 0);
        task_worker_stop(&other->keeper);
        if (i == 1) { /* it expires by not being resumed in time */
            space_testing_close_master(self);
            space_testing_open_master(self);
        }
        await_ended(of, number);
        if (i == 2) {
            space_testing_close_master(self);
            space_testing_open_master(self);
        }
        assert_int_equal(tarn_space_session(other), number);
        tarn_space_leave_ns(joined);
        assert_int_equal(tarn_space_join_ns(other, "a", NULL, 0, SOON, &joined), 0);
        assert_true(tarn_space_session(other) != number && tarn_space_session(other) != 0);
        tarn_space_leave_ns(joined);
        tarn_space_disconnect(other);
        await_ended(of, number);
        if (self->testing->drive != NULL) /* no busy machine: the others go on */
            assert_int_equal(tarn_space_session(self->space), mine);
    }
    space_testing_delete(of);
}

static void what_is_over_is_not_resumed(struct testing_fabric *testing)
{
    space_testing_run(testing, BASE_NS_PER_SECOND, resume_too_late);
}

/* A master that has begun knows nothing of sessions that may still come. */
static void ask_new_master(struct space_testing *self)
{
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 1);
    const uint64_t number = tarn_space_session(other);
    const uint64_t begin_ns = task_now();
    space_testing_close_master(self);
    space_testing_open_master(self);
    const int error = tarn_space_session_ended(of, 1, SOON);
    assert_true(error == -EBUSY || task_now() - begin_ns > self->lease_ns);
    await_ended(of, 1);
    assert_true(task_now() - begin_ns > self->lease_ns);
    if (tarn_space_session(other) == number) /* else this machine was too busy */
        expect_live(self, of, number);
    tarn_space_disconnect(other);
    await_ended(of, number);
    space_testing_delete(of);
}

static void a_new_master_waits_for_sessions(struct testing_fabric *testing)
{
    space_testing_run(testing, BASE_NS_PER_SECOND, ask_new_master);
}

/* A memory server that is away may still serve a session that is over. */
static void lose_sight(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 3);
    struct tarn_space_namespace *empty = space_testing_namespace(self->space, "b", 0);
    struct tarn_space_region *region = space_testing_alloc(of, 3 * TESTING_CHUNK_BYTES, TARN_SPACE_BULK);
    assert_int_equal(tarn_space_session_ended(of, 1, SOON), 0);
    space_testing_close_server(self, 1);
    space_testing_await_servers(self, TESTING_SERVERS - 1);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(tarn_space_session_ended(of, 1, SOON), -EBUSY);
        assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    }
    await_ended(empty, 1);              /* which has nothing there */
    space_testing_open_server(self, 1); /* of the same name, and empty: what it had is lost for good */
    space_testing_await_servers(self, TESTING_SERVERS);
    await_ended(of, 1);
    tarn_space_drop(region);
    space_testing_delete(empty);
    space_testing_delete(of);
}

static void a_server_that_is_away_may_serve(struct testing_fabric *testing)
{
    space_testing_run(testing, 60 * BASE_NS_PER_SECOND, lose_sight);
}

/* ---- those that lie ----------------------------------------------------------------------------- */

/* Requests of a session, of any bytes behind its own. */
struct asked {
    uint32_t method;
    uint32_t bytes;
    uint8_t request[64];
    bool is_stranger; /* of a session that there is not */
    int expected;
};

static void ask_wrongly(struct space_testing *self)
{
    struct tarn_space_namespace *of = space_testing_namespace(self->space, "a", 0);
    struct tarn_space *other = space_testing_connect(self);
    struct tarn_space_namespace *theirs = space_testing_namespace(other, "b", 0);
    const struct tarn_rpc_connect_options options = {.request_bytes = 128, .result_bytes = 64};
    const uint8_t mine = (uint8_t)of->number, not_mine = (uint8_t)theirs->number;
    const struct asked asked[] = {{SPACE_ENDED, 16, {mine, [8] = 1}, false, 0},
                                  {SPACE_ENDED, 15, {mine, [8] = 1}, false, -EINVAL},
                                  {SPACE_ENDED, 17, {mine, [8] = 1}, false, -EINVAL},
                                  {SPACE_ENDED, 0, {0}, false, -EINVAL},
                                  {SPACE_ENDED, 16, {mine, [4] = 1}, false, -EINVAL},
                                  {SPACE_ENDED, 16, {not_mine, [8] = 1}, false, -ENOENT},
                                  {SPACE_ENDED, 16, {77, [8] = 1}, false, -ENOENT},
                                  {SPACE_ENDED, 16, {mine, [8] = 1}, true, -ESTALE},
                                  {SPACE_HELLO, 4, {0}, true, -EINVAL},
                                  {SPACE_HELLO, 20, {2}, true, -EINVAL},
                                  {SPACE_HELLO, 20, {SPACE_RESUMES}, true, -EEXIST}};
    struct tarn_rpc_connection *connection;
    uint8_t result[64];
    assert_int_equal(
        tarn_rpc_connect(testing_clients(self->testing), self->masters[0], &options, SOON, &connection), 0);
    for (unsigned i = 0; i < base_array_count(asked); i++) {
        uint8_t request[128] = {9};
        struct tarn_rpc_call call = {.method = asked[i].method,
                                     .request = request,
                                     .request_bytes = SPACE_SESSION_BYTES + asked[i].bytes,
                                     .result = result,
                                     .room = sizeof(result),
                                     .deadline_ns = SOON};
        if (!asked[i].is_stranger)
            memcpy(request, self->space->session, SPACE_SESSION_BYTES);
        memcpy(request + SPACE_SESSION_BYTES, asked[i].request, sizeof(asked[i].request));
        assert_int_equal(tarn_rpc_call(connection, &call), asked[i].expected);
    }
    tarn_rpc_disconnect(connection);
    space_testing_delete(theirs);
    tarn_space_disconnect(other);
    space_testing_delete(of);
}

static void wrong_questions_are_refused(struct testing_fabric *testing)
{
    space_testing_run(testing, 60 * BASE_NS_PER_SECOND, ask_wrongly);
}

#define SUITE(EACH)                                                                                          \
    EACH(a_session_keeps_its_number)                                                                         \
    EACH(an_operation_stays_in_its_session)                                                                  \
    EACH(a_glance_counts_in_its_session)                                                                     \
    EACH(what_waits_ends_with_its_session)                                                                   \
    EACH(a_session_ends_with_its_client)                                                                     \
    EACH(the_silent_are_over_when_fenced)                                                                    \
    EACH(what_is_over_is_not_resumed)                                                                        \
    EACH(a_new_master_waits_for_sessions)                                                                    \
    EACH(a_server_that_is_away_may_serve)                                                                    \
    EACH(wrong_questions_are_refused)

SUITE(TESTING_BOTH)

static const struct CMUnitTest space_session_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite space_session = TESTING_SUITE(space_session_tests);
