/*
 * Any bytes as what a client says, cut as the first of them tell: the server answers with a row of
 * well-formed answers, however the bytes are cut and whether a depot or a cache is behind it with the same
 * ones, but for versions, and nothing is left over.
 */
#include "base/random.h"
#include "kv/kv.h"
#include "memcache/memcache.h"
#include "testing.h"
#include <errno.h>
#include <stdlib.h>
#include <tarn/depot.h>

#define STORE_BYTES         (UINT64_C(16) << 20)
#define INPUT_BYTES         (16 << 10)
#define ITEM_BYTES_MAX      (100 << 10)
#define BINARY_ANSWER_BYTES 39 /* what ends a client that speaks the binary protocol */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- a server ----------------------------------------------------------------------------------- */

static void tell(void *arg, struct memcache_facts *ret_facts)
{
    (void)arg;
    *ret_facts = (struct memcache_facts){.pid = 1};
}

static void list(void *arg, memcache_setting_function *visit, void *visit_arg)
{
    (void)arg;
    visit(visit_arg, "name", "value");
}

static void shut_down(void *arg)
{
    (void)arg;
}

/* A text that grows. */
struct text {
    char *bytes;
    size_t len;
};

static void append(struct text *text, const void *bytes, size_t len)
{
    text->bytes = realloc(text->bytes, text->len + len + 1);
    base_assert(text->bytes != NULL);
    memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
    text->bytes[text->len] = '\0';
}

static int send_output(void *arg, struct iovec *pieces, uint32_t piece_count)
{
    base_assert(piece_count > 0 && piece_count <= MEMCACHE_PIECES_MAX);
    task_yield();
    for (uint32_t i = 0; i < piece_count; i++) {
        append(arg, pieces[i].iov_base, pieces[i].iov_len);
        pieces[i] = (struct iovec){.iov_base = NULL};
    }
    return 0;
}

/* Servers, which are kept from one input to the next as long as the depot has room. */
struct world {
    struct fuzz_drive drive;
    struct tarn_node *node;
    struct task_sched *sched;
    struct tarn_depot *depot;
    struct tarn_kv *kv, *cache;
    struct memcache_server server, cache_server;
    struct memcache_work *work;
    char *input;
};

struct job {
    void (*function)(void *arg);
    void *arg;
    bool ended;
};

static void run_job(void *arg)
{
    struct job *job = arg;
    job->function(job->arg);
    job->ended = true;
}

static void run_in_task(struct world *world, void (*function)(void *arg), void *arg)
{
    struct job job = {.function = function, .arg = arg};
    base_assert(task_spawn(world->sched, NULL, "job", run_job, &job) == 0);
    while (!job.ended)
        (void)task_sched_step(world->sched);
}

static void open_task(void *arg)
{
    struct world *world = arg;
    const struct tarn_format_options format = {.force = true};
    base_assert(tarn_depot_format(world->node, "store", &format) == 0);
    base_assert(tarn_depot_open(world->node, "store", NULL, &world->depot) == 0);
    base_assert(kv_wrap_depot(world->node, world->depot, &world->kv) == 0);
    base_assert(tarn_kv_open(world->node, "cache:memory=4M,partitions=2,item=1K", NULL, &world->cache) == 0);
}

static void close_task(void *arg)
{
    struct world *world = arg;
    base_assert(tarn_kv_close(world->cache) == 0);
    base_assert(tarn_kv_close(world->kv) == 0);
    base_assert(tarn_depot_close(world->depot) == 0);
}

static bool ends(void *arg)
{
    (void)arg;
    return false;
}

static void begin(struct world *world)
{
    const struct memcache_host host = {.tell = tell,
                                       .ends = ends,
                                       .settings = list,
                                       .connections = list,
                                       .drives = list,
                                       .calls = list,
                                       .shutdown = shut_down};
    world->drive = (struct fuzz_drive){.bytes = calloc(1, STORE_BYTES), .size = STORE_BYTES, .yields = true};
    world->work = malloc(sizeof(*world->work));
    world->input = malloc(INPUT_BYTES);
    base_assert(world->drive.bytes != NULL && world->work != NULL && world->input != NULL);
    fuzz_begin(&world->drive, 0, BASE_LOG_ERROR, &world->node, &world->sched);
    run_in_task(world, open_task, world);
    base_assert(memcache_server_init(&world->server, world->node, world->kv, ITEM_BYTES_MAX,
                                     UINT64_C(64) * ITEM_BYTES_MAX, &host) == 0);
    base_assert(memcache_server_init(&world->cache_server, world->node, world->cache, ITEM_BYTES_MAX,
                                     UINT64_C(64) * ITEM_BYTES_MAX, &host) == 0);
}

static void end(struct world *world)
{
    memcache_server_deinit(&world->server);
    memcache_server_deinit(&world->cache_server);
    run_in_task(world, close_task, world);
    task_sched_stop(world->sched);
    fuzz_end(world->node, world->sched);
    free(world->drive.bytes);
    free(world->work);
    free(world->input);
    *world = (struct world){.node = NULL};
}

static struct world *ready_world(void)
{
    static struct world world;
    struct tarn_depot_stats stats;
    if (world.node == NULL) {
        begin(&world);
        return &world;
    }
    tarn_depot_stats(world.depot, &stats);
    if (stats.segments_free < stats.segments / 2) {
        end(&world);
        begin(&world);
    }
    return &world;
}

/* ---- conversations ------------------------------------------------------------------------------ */

/* What a client says, and what it hears. */
struct talk {
    struct world *world;
    struct memcache_server *server;
    const uint8_t *said;
    size_t len;
    bool cut;
    struct base_random random;
    struct text answers;
    int end;
};

static void converse(void *arg)
{
    struct talk *talk = arg;
    struct memcache_server *server = talk->server;
    struct memcache_work *work = talk->world->work;
    char *input = talk->world->input;
    struct memcache_session session;
    size_t kept = 0, consumed;
    base_assert(kv_flush(server->kv, 0) == 0);
    memcache_session_init(&session, server);
    memcache_work_init(work, send_output, &talk->answers);
    for (size_t at = 0; at < talk->len && talk->end == 0;) {
        size_t more = base_min(talk->len - at, INPUT_BYTES - kept);
        if (talk->cut)
            more = base_min(more, 1 + base_random_below(&talk->random, at % 3 == 0 ? 8 : 300));
        memcpy(input + kept, talk->said + at, more);
        at += more;
        talk->end = memcache_session_consume(&session, work, input, kept + more, &consumed);
        if (talk->end != 0)
            break;
        base_assert(consumed <= kept + more);
        kept += more - consumed;
        base_assert(kept <= MEMCACHE_LINE_BYTES_MAX);
        memmove(input, input + consumed, kept);
        memset(input + kept, 0xdb, consumed);
    }
    base_assert(memcache_output_flush(server, &work->output) == 0);
    memcache_session_deinit(&session);
    base_assert(base_account_used(&server->values) == 0);
}

/* ---- answers ------------------------------------------------------------------------------------ */

static bool starts(const char *line, const char *word)
{
    return strncmp(line, word, strlen(word)) == 0;
}

/* Lines that have no value behind them. */
static bool is_line(const char *line)
{
    static const char *const words[] = {"END\r\n",
                                        "STORED\r\n",
                                        "NOT_STORED\r\n",
                                        "EXISTS\r\n",
                                        "NOT_FOUND\r\n",
                                        "DELETED\r\n",
                                        "TOUCHED\r\n",
                                        "OK\r\n",
                                        "ERROR\r\n",
                                        "RESET\r\n",
                                        "CLIENT_ERROR ",
                                        "VERSION ",
                                        "MN\r\n",
                                        "HD\r\n",
                                        "HD ",
                                        "EN\r\n",
                                        "EN ",
                                        "NS\r\n",
                                        "NS ",
                                        "NF\r\n",
                                        "NF ",
                                        "EX\r\n",
                                        "EX ",
                                        "ME ",
                                        "STAT ",
                                        "SERVER_ERROR a store in memory measures no stages\r\n",
                                        "SERVER_ERROR out of memory storing object\r\n",
                                        "SERVER_ERROR object too large for cache\r\n"};
    size_t digits = strspn(line, "0123456789");
    for (size_t i = 0; i < base_array_count(words); i++) {
        if (starts(line, words[i]))
            return true;
    }
    return digits > 0 && digits <= 20 && starts(line + digits, "\r\n");
}

static size_t take_number(const char **at)
{
    char *end;
    base_assert(**at >= '0' && **at <= '9');
    size_t number = strtoull(*at, &end, 10);
    *at = end;
    return number;
}

/* @return bytes of the value behind a line; SIZE_MAX: it has none */
static size_t value_bytes(const char *line)
{
    const char *at = line;
    if (starts(line, "VA ")) {
        at += 3;
        return take_number(&at);
    }
    if (!starts(line, "VALUE "))
        return SIZE_MAX;
    at += 6;
    size_t key = strcspn(at, " ");
    base_assert(key > 0 && key <= MEMCACHE_KEY_BYTES_MAX);
    at += key + 1;
    base_assert(take_number(&at) <= UINT32_MAX && *at++ == ' ');
    size_t bytes = take_number(&at);
    if (*at == ' ') {
        at++;
        take_number(&at);
    }
    base_assert(starts(at, "\r\n"));
    return bytes;
}

/* Versions, and what statistics say, may differ from run to run: they are left out. */
static void append_line(struct text *to, const char *line, size_t len)
{
    if (starts(line, "STAT ")) {
        append(to, "STAT\r\n", 6);
        return;
    }
    bool value = starts(line, "VALUE "), debug = starts(line, "ME ");
    size_t word_count = 0;
    for (size_t at = 0; at < len; word_count++) {
        size_t word = strcspn(line + at, " \n");
        word += at + word < len;
        bool version = value   ? word_count == 4
                       : debug ? starts(line + at, "cas=")
                               : word_count > 0 && line[at] == 'c';
        append(to, version ? "c " : line + at, version ? 2 : word);
        at += word;
    }
}

/* Take a row of answers apart. @return what must be the same in every run */
static struct text check_answers(const struct text *answers)
{
    struct text same = {.bytes = NULL};
    append(&same, "", 0);
    for (size_t at = 0; at < answers->len;) {
        const char *line = answers->bytes + at, *newline = memchr(line, '\n', answers->len - at);
        base_assert(newline != NULL && newline > line && newline[-1] == '\r');
        size_t len = (size_t)(newline + 1 - line), bytes = value_bytes(line);
        base_assert(bytes != SIZE_MAX || is_line(line));
        append_line(&same, line, len);
        at += len;
        if (bytes == SIZE_MAX)
            continue;
        base_assert(bytes <= ITEM_BYTES_MAX && bytes + 2 <= answers->len - at);
        append(&same, answers->bytes + at, bytes);
        at += bytes;
        base_assert(starts(answers->bytes + at, "\r\n"));
        at += 2;
    }
    return same;
}

/* Where a line is longer than a buffer, or compares versions, the cuts and chance may be seen. */
static bool is_same_however_cut(const uint8_t *said, size_t len)
{
    for (size_t begin = 0, at = 0; at < len; at++) {
        begin = said[at] == '\n' ? at : begin;
        if (at - begin >= MEMCACHE_LINE_BYTES_MAX)
            return false;
    }
    return memmem(said, len, "cas", 3) == NULL && memmem(said, len, " C", 2) == NULL;
}

/* @return what must be the same in every run */
static struct text hear(struct talk *talk)
{
    append(&talk->answers, "", 0);
    run_in_task(talk->world, converse, talk);
    if (talk->end == -EPROTONOSUPPORT) {
        base_assert(talk->answers.len >= BINARY_ANSWER_BYTES);
        talk->answers.len -= BINARY_ANSWER_BYTES;
        base_assert((uint8_t)talk->answers.bytes[talk->answers.len] == 0x81);
    }
    struct text same = check_answers(&talk->answers);
    free(talk->answers.bytes);
    return same;
}

static void expect_same(const struct talk *one, const struct text *one_same, const struct talk *other,
                        const struct text *other_same)
{
    base_assert(one->end == other->end);
    base_assert(one_same->len == other_same->len);
    base_assert(memcmp(one_same->bytes, other_same->bytes, one_same->len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct world *world = ready_world();
    struct talk cut = {
        .world = world, .server = &world->server, .said = data + 2, .len = size - 2, .cut = true};
    base_random_init(&cut.random, (uint64_t)data[0] << 8 | data[1]);
    struct talk whole = cut, cached = cut;
    whole.cut = false;
    cached.server = &world->cache_server;
    struct text cut_same = hear(&cut), whole_same = hear(&whole), cached_same = hear(&cached);
    if (is_same_however_cut(cut.said, cut.len)) {
        expect_same(&cut, &cut_same, &whole, &whole_same);
        if (memmem(cut.said, cut.len, "stats", 5) == NULL) /* each store has its own */
            expect_same(&cut, &cut_same, &cached, &cached_same);
    }
    free(cut_same.bytes);
    free(whole_same.bytes);
    free(cached_same.bytes);
    return 0;
}
