/*
 * For the tests of this layer: a server over a store on a drive in memory, or over a cache, and conversations with it.
 * Sessions run in a task of a scheduler that the test steps by hand, so that requests are in flight together
 * and each run is like the last; cmocka's asserts are for the test itself, outside of tasks.
 */
#include "memcache/testing.h"

#define TALK_STORE_BYTES (UINT64_C(64) << 20)

/* ---- tasks -------------------------------------------------------------------------------------- */

struct talk_task {
    task_function *function;
    void *arg;
    bool ended;
};

static void talk_task_run(void *arg)
{
    struct talk_task *task = arg;
    task->function(task->arg);
    task->ended = true;
}

void talk_run(struct talk *talk, task_function *function, void *arg)
{
    struct talk_task task = {.function = function, .arg = arg};
    base_assert(task_spawn(talk->sched, NULL, "talk", talk_task_run, &task) == 0);
    while (!task.ended)
        (void)task_sched_step(talk->sched);
}

/* ---- whoever runs the server -------------------------------------------------------------------- */

static void talk_tell(void *arg, struct memcache_facts *ret_facts)
{
    (void)arg;
    *ret_facts = (struct memcache_facts){
        .pid = 4711, .threads = 3, .connections_max = 10, .connections = 2, .connections_total = 5};
}

static void talk_settings(void *arg, memcache_setting_function *visit, void *visit_arg)
{
    (void)arg;
    visit(visit_arg, "port", "11211");
    visit(visit_arg, "mode", "power");
    visit(visit_arg, "unix", "");
}

static void talk_connections(void *arg, memcache_setting_function *visit, void *visit_arg)
{
    (void)arg;
    visit(visit_arg, "1:addr", "tcp:127.0.0.1:4000");
    visit(visit_arg, "1:state", "conn_parse_cmd");
}

static void talk_drives(void *arg, memcache_setting_function *visit, void *visit_arg)
{
    (void)arg;
    visit(visit_arg, "0:path", "\"disk\"");
    visit(visit_arg, "0:failed", "no");
}

static void talk_calls(void *arg, memcache_setting_function *visit, void *visit_arg)
{
    (void)arg;
    visit(visit_arg, "0:calls", "7");
}

static void talk_shutdown(void *arg)
{
    struct talk *talk = arg;
    talk->ending = true;
}

/* Take sent pieces, after a yield, as a network would; this may change the pieces. */
static int talk_send(void *arg, struct iovec *pieces, uint32_t piece_count)
{
    struct talk *talk = arg;
    size_t bytes = 0;
    base_assert(piece_count > 0 && piece_count <= MEMCACHE_PIECES_MAX);
    task_yield();
    if (++talk->sends == talk->send_fails_at)
        return -EPIPE;
    base_assert(talk->send_fails_at == 0 ||
                talk->sends < talk->send_fails_at); /* no send follows one that has failed */
    for (uint32_t i = 0; i < piece_count; i++)
        bytes += pieces[i].iov_len;
    talk->said = realloc(talk->said, talk->said_bytes + bytes + 1);
    base_assert(talk->said != NULL);
    for (uint32_t i = 0; i < piece_count; i++) {
        base_assert(pieces[i].iov_len > 0);
        memcpy(talk->said + talk->said_bytes, pieces[i].iov_base, pieces[i].iov_len);
        talk->said_bytes += pieces[i].iov_len;
        pieces[i] = (struct iovec){.iov_base = NULL};
    }
    talk->said[talk->said_bytes] = '\0';
    return 0;
}

/* ---- conversations ------------------------------------------------------------------------------ */

struct talk_crowd {
    struct task_future over;
    struct task_group group;
};

static void talk_crowd_wait(void *arg)
{
    struct talk_crowd *crowd = arg;
    int value;
    int error = task_future_wait(&crowd->over, TASK_FOREVER, &value);
    base_assert(error == 0);
}

static void talk_crowd_begin(struct talk_crowd *crowd)
{
    task_future_init(&crowd->over);
    task_group_init(&crowd->group);
    while (task_spawn(NULL, &crowd->group, "crowd", talk_crowd_wait, crowd) == 0)
        continue;
}

static void talk_crowd_end(struct talk_crowd *crowd)
{
    task_future_set(&crowd->over, 0);
    int error = task_group_join(&crowd->group, TASK_FOREVER);
    base_assert(error == 0);
}

/* Move a session to another workspace in the middle of a request, as a connection that waits does. */
static void talk_put_away(struct talk *talk)
{
    struct memcache_session moved = talk->session;
    memset(&talk->session, 0xdb, sizeof(talk->session));
    (void)memcache_output_flush(&talk->server, &talk->work->output);
    int error = talk->work->output.error;
    memset(talk->work, 0xdb, offsetof(struct memcache_work, output.data));
    memcache_work_init(talk->work, talk_send, talk);
    talk->work->output.error = error;
    talk->session = moved;
}

static size_t talk_piece(const struct talk_words *words, size_t room)
{
    size_t piece = words->piece;
    if (piece == 0)
        piece = 1 + base_random_below(words->random, base_random_below(words->random, 4) == 0 ? 8 : 2000);
    return base_min(piece, room);
}

static void talk_consume(struct talk_words *words)
{
    struct talk *talk = words->talk;
    size_t kept = 0, rounds = 0;
    for (size_t at = 0; at < words->len && words->error == 0; rounds++) {
        size_t consumed, more = talk_piece(words, base_min(words->len - at, TALK_INPUT_BYTES - kept)), room;
        char *place = rounds % 4 == 3 ? NULL : memcache_session_place(&talk->session, &room);
        talk->work->arrived_ns = task_now();
        if (place != NULL) {
            base_assert(kept == 0);
            more = base_min(more, room);
            memcpy(place, words->text + at, more);
            at += more;
            words->error = memcache_session_consume(&talk->session, talk->work, place, more, &consumed);
            base_assert(words->error != 0 || consumed == more);
            talk->placed += more;
            continue;
        }
        memcpy(talk->input + kept, words->text + at, more);
        at += more;
        words->error =
            memcache_session_consume(&talk->session, talk->work, talk->input, kept + more, &consumed);
        if (words->error != 0)
            break;
        kept += more - consumed;
        base_assert(kept <= MEMCACHE_LINE_BYTES_MAX);
        memmove(talk->input, talk->input + consumed, kept);
        memset(talk->input + kept, 0xdb, consumed);
        base_assert(!memcache_session_is_idle(&talk->session) || talk->session.memory == NULL);
        if (rounds % 3 == 2)
            talk_put_away(talk);
    }
}

static void talk_say_task(void *arg)
{
    struct talk_words *words = arg;
    struct talk *talk = words->talk;
    struct talk_crowd crowd;
    memcache_session_init(&talk->session, &talk->server);
    memcache_work_init(talk->work, talk_send, talk);
    if (talk->crowded)
        talk_crowd_begin(&crowd);
    if (talk->value_alloc_fails != 0)
        base_account_fail_at(&talk->server.values, talk->value_alloc_fails);
    if (talk->alloc_fails != 0)
        base_account_fail_at(&talk->node->memory, talk->alloc_fails);
    talk_consume(words);
    (void)memcache_output_flush(&talk->server, &talk->work->output);
    memcache_session_deinit(&talk->session);
    if (talk->crowded)
        talk_crowd_end(&crowd);
}

/* Assert that no byte was written behind the output. */
static void talk_check_guard(const struct talk *talk)
{
    const uint8_t *guard = (const uint8_t *)talk->work + sizeof(*talk->work);
    for (size_t i = 0; i < TALK_GUARD_BYTES; i++)
        base_assert(guard[i] == 0xdb);
}

int talk_say_words(struct talk_words *words)
{
    struct talk *talk = words->talk;
    talk->said_bytes = 0;
    talk->said = realloc(talk->said, 1);
    base_assert(talk->said != NULL);
    talk->said[0] = '\0';
    talk->sends = 0;
    words->error = 0;
    talk_run(talk, talk_say_task, words);
    base_assert(base_account_used(&talk->server.values) == 0);
    talk_check_guard(talk);
    return words->error;
}

int talk_say(struct talk *talk, const char *text, size_t len, size_t piece)
{
    struct talk_words words = {.talk = talk, .text = text, .len = len, .piece = piece};
    return talk_say_words(&words);
}

static void talk_forget_task(void *arg)
{
    struct talk *talk = arg;
    int error = kv_flush(talk->kv, 0);
    base_assert(error == 0);
}

void talk_forget(struct talk *talk)
{
    talk_run(talk, talk_forget_task, talk);
}

void talk_expect_said(struct talk *talk, const char *text, const char *answer, size_t len)
{
    if (talk->said_bytes == len && memcmp(talk->said, answer, len) == 0)
        return;
    print_error("client: %.2000s\n----\nserver: %.2000s\n----\nshould: %.2000s\n", text, talk->said, answer);
    fail();
}

void talk_expect(struct talk *talk, const char *text, const char *answer)
{
    static const size_t pieces[] = {1, 2, 3, 5, 7, 11, 64, 1000, 100000};
    for (size_t i = 0; i <= base_array_count(pieces); i++) {
        talk->crowded = i == base_array_count(pieces);
        talk_forget(talk);
        assert_int_equal(talk_say(talk, text, strlen(text), pieces[base_min(i, (size_t)8)]), 0);
        talk_expect_said(talk, text, answer, strlen(answer));
    }
    talk->crowded = false;
}

void talk_expect_once(struct talk *talk, const char *text, const char *answer)
{
    assert_int_equal(talk_say(talk, text, strlen(text), TALK_INPUT_BYTES), 0);
    talk_expect_said(talk, text, answer, strlen(answer));
}

/* ---- the fixture -------------------------------------------------------------------------------- */

static void talk_open_task(void *arg)
{
    struct talk *talk = arg;
    if (talk->url != NULL) {
        base_assert(tarn_kv_open(talk->node, talk->url, NULL, &talk->kv) == 0);
        return;
    }
    int error = tarn_depot_open(talk->node, "store", &talk->store, &talk->depot);
    base_assert(error == 0);
    error = kv_wrap_depot(talk->node, talk->depot, &talk->kv);
    base_assert(error == 0);
}

static void talk_close_task(void *arg)
{
    struct talk *talk = arg;
    (void)tarn_kv_close(talk->kv);
    if (talk->depot != NULL)
        (void)tarn_depot_close(talk->depot);
}

static bool talk_ends(void *arg)
{
    const struct talk *talk = arg;
    return talk->ending;
}

void talk_begin(struct talk *talk)
{
    const struct task_clock clock = testing_task_clock(&talk->clock);
    const struct task_node_options node_options = {.clock = &clock,
                                                   .drives = &testing_provider,
                                                   .drives_arg = &talk->drive,
                                                   .seed = 1,
                                                   .log_level = BASE_LOG_DEBUG,
                                                   .log_sink = testing_sink};
    const struct task_sched_options options = {.tasks_max = TALK_TASKS_MAX};
    const struct memcache_host host = {.tell = talk_tell,
                                       .ends = talk_ends,
                                       .settings = talk_settings,
                                       .connections = talk_connections,
                                       .drives = talk_drives,
                                       .calls = talk_calls,
                                       .shutdown = talk_shutdown,
                                       .arg = talk};
    talk->clock.wall_ns = TESTING_BEGIN;
    if (talk->store.create_bytes == 0)
        talk->store.create_bytes = TALK_STORE_BYTES;
    if (talk->store.hot_bytes == 0) /* gets read the drive, unless a test asks for a tier */
        talk->store.hot_bytes = TARN_HOT_OFF;
    base_assert(task_node_open(&node_options, &talk->node) == 0);
    base_assert(task_sched_open(talk->node, &options, &talk->sched) == 0);
    talk->work = malloc(sizeof(*talk->work) + TALK_GUARD_BYTES);
    talk->input = malloc(TALK_INPUT_BYTES);
    base_assert(talk->work != NULL && talk->input != NULL);
    memset((uint8_t *)talk->work + sizeof(*talk->work), 0xdb, TALK_GUARD_BYTES);
    talk_run(talk, talk_open_task, talk);
    base_assert(memcache_server_init(&talk->server, talk->node, talk->kv, 1 << 20, 8 << 20, &host) == 0);
    if (talk->url != NULL)
        testing_frugal_begin(&talk->frugal, talk->kv);
}

void talk_end(struct talk *talk)
{
    memcache_server_deinit(&talk->server);
    talk_run(talk, talk_close_task, talk);
    task_sched_stop(talk->sched);
    task_sched_run(talk->sched);
    task_sched_close(talk->sched);
    task_node_close(talk->node);
    testing_drive_free(&talk->drive);
    free(talk->said);
    free(talk->input);
    free(talk->work);
}

int talk_setup_url(void **state, const char *url)
{
    struct talk *talk = calloc(1, sizeof(*talk));
    assert_non_null(talk);
    talk->url = url;
    talk_begin(talk);
    *state = talk;
    return 0;
}

int talk_setup(void **state)
{
    return talk_setup_url(state, NULL);
}

int talk_setup_cache(void **state)
{
    return talk_setup_url(state, "cache:memory=18M,partitions=3,item=1K");
}

int talk_teardown(void **state)
{
    talk_end(*state);
    free(*state);
    return 0;
}
