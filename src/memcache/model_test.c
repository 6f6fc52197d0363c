/*
 * Does a server answer pipelines of any requests as a memcached of a few arrays does, to the byte? Whatever
 * the seed, wherever the bytes are cut, however much of it is in flight at once.
 */
#include "memcache/model_testing.h"
#include <inttypes.h>

#define PIPELINES         (TESTING_SLOW ? 40 : 300)
#define LARGEST           40000
#define LARGEST_EVICTING  1500
#define REQUESTS_EVICTING 4000
#define REQUESTS          200 /* of a pipeline, at most */

/* Versions that the test gives begin here. Those that a depot gives stay below, and above 1; those of a cache are civil
 * time in nanoseconds. */
#define OWN_VERSIONS  (UINT64_C(1) << 40)
#define OTHER_VERSION (UINT64_C(1) << 62)

struct generator {
    struct base_random random;
    struct model model;
    struct model_text words;
    uint64_t own_version;
    bool evicts; /* the store may: what is said to it tells by its answer whether the key was there */
    size_t words_at[REQUESTS + 1];  /* where each begins … */
    size_t answer_at[REQUESTS + 1]; /* … and its answer */
    char value[LARGEST];
};

static bool chance(struct generator *generator, uint32_t of)
{
    return base_random_below(&generator->random, of) == 0;
}

static uint32_t below(struct generator *generator, uint32_t n)
{
    return (uint32_t)base_random_below(&generator->random, n);
}

/* ---- parts of requests -------------------------------------------------------------------------- */

static int64_t any_exptime(struct generator *generator)
{
    static const int64_t times[] = {0, 0, 0, 5, 30, 100, -1, 2591999};
    return times[below(generator, base_array_count(times))];
}

/* Numbers, texts, now and then something long. */
static void any_value(struct generator *generator, struct model_request *request)
{
    request->value = generator->value;
    if (chance(generator, 2)) {
        uint64_t number = base_random_u64(&generator->random) >> below(generator, 64);
        request->len = model_digits(generator->value, number, 0);
        return;
    }
    request->len = chance(generator, generator->evicts ? 2 : 30)
                       ? below(generator, generator->evicts ? LARGEST_EVICTING : LARGEST)
                       : below(generator, 40);
    memset(generator->value, 'a' + (int)below(generator, 26), request->len);
}

/* What is there, or what never was, below it or above. */
static uint64_t any_version(struct generator *generator, uint32_t key)
{
    const struct model_item *item = &generator->model.items[key];
    if (item->there && generator->model.versions[item->version] != 0 && !chance(generator, 4))
        return generator->model.versions[item->version];
    return chance(generator, 2) ? 1 : OTHER_VERSION;
}

static void add_word(struct generator *generator, struct model_request *request, const char *format,
                     uint64_t number)
{
    uint32_t at = below(generator, request->word_count + 1);
    memmove(request->words[at + 1], request->words[at], (request->word_count - at) * MODEL_WORD_ROOM);
    if (strchr(format, '%') == NULL)
        (void)snprintf(request->words[at], MODEL_WORD_ROOM, "%s", format);
    else
        (void)snprintf(request->words[at], MODEL_WORD_ROOM, "%c%" PRId64, format[0], (int64_t)number);
    request->word_count++;
}

/* Some of the flags that a command has, in any order. */
static void add_words(struct generator *generator, struct model_request *request, const char *flags)
{
    for (; *flags != '\0'; flags++) {
        char word[2] = {*flags, '\0'};
        if (!chance(generator, 4) || (*flags == 'N' && generator->evicts))
            continue;
        if (strchr("TN", *flags) != NULL)
            add_word(generator, request, *flags == 'T' ? "T%" : "N%", (uint64_t)any_exptime(generator));
        else if (*flags == 'R')
            add_word(generator, request, "R%", 20 + below(generator, 100));
        else if (*flags == 'O')
            add_word(generator, request, "O%", base_random_u64(&generator->random) >> 1);
        else if (*flags == 'F')
            add_word(generator, request, "F%", below(generator, UINT32_MAX));
        else if (*flags == 'J' || *flags == 'D')
            add_word(generator, request, *flags == 'J' ? "J%" : "D%", below(generator, 1000));
        else if (*flags == 'C')
            add_word(generator, request, "C%", any_version(generator, request->keys[0]));
        else if (*flags == 'E')
            add_word(generator, request, "E%", generator->own_version++);
        else
            add_word(generator, request, word, 0);
    }
}

/* ---- requests ----------------------------------------------------------------------------------- */

static void print_value(struct generator *generator, const struct model_request *request)
{
    model_put(&generator->words, request->value, request->len);
    model_print(&generator->words, "\r\n");
}

static void any_list(struct generator *generator, struct model_request *request)
{
    static const char *const verbs[] = {"get", "gets", "get", "gets", "gat", "gats"};
    request->verb = verbs[below(generator, base_array_count(verbs))];
    request->key_count = 1 + below(generator, generator->evicts ? 1 : chance(generator, 3) ? MODEL_KEYS : 2);
    model_print(&generator->words, "%s", request->verb);
    if (strncmp(request->verb, "gat", 3) == 0) {
        request->exptime = any_exptime(generator);
        model_print(&generator->words, " %" PRId64, request->exptime);
    }
    for (uint32_t i = 0; i < request->key_count; i++) {
        request->keys[i] = below(generator, MODEL_KEYS);
        model_print(&generator->words, " k%u", request->keys[i]);
    }
    model_print(&generator->words, "\r\n");
}

static void any_storage(struct generator *generator, struct model_request *request)
{
    static const char *const verbs[] = {"set", "set", "set", "add", "replace", "append", "prepend", "cas"};
    request->verb = verbs[below(generator, base_array_count(verbs))];
    request->flags = chance(generator, 2) ? 0 : below(generator, UINT32_MAX);
    request->exptime = any_exptime(generator);
    request->number = any_version(generator, request->keys[0]);
    any_value(generator, request);
    model_print(&generator->words, "%s k%u %u %" PRId64 " %zu", request->verb, request->keys[0],
                request->flags, request->exptime, request->len);
    if (request->verb[0] == 'c')
        model_print(&generator->words, " %" PRIu64, request->number);
    model_print(&generator->words, request->noreply ? " noreply\r\n" : "\r\n");
    print_value(generator, request);
}

static void any_change(struct generator *generator, struct model_request *request)
{
    static const char *const verbs[] = {"delete", "touch", "incr", "incr", "decr", "decr"};
    request->verb = verbs[below(generator, base_array_count(verbs))];
    request->exptime = any_exptime(generator);
    request->number = base_random_u64(&generator->random) >> below(generator, 64);
    model_print(&generator->words, "%s k%u", request->verb, request->keys[0]);
    if (request->verb[0] == 't')
        model_print(&generator->words, " %" PRId64, request->exptime);
    else if (request->verb[1] != 'e' || request->verb[2] == 'c')
        model_print(&generator->words, " %" PRIu64, request->number);
    model_print(&generator->words, request->noreply ? " noreply\r\n" : "\r\n");
}

static void any_meta(struct generator *generator, struct model_request *request)
{
    static const struct {
        const char *verb, *flags, *modes;
    } verbs[] = {
        {"mg", "vkstfcqOTNREhl", NULL},
        {"mg", "vkstfc", NULL},
        {"ms", "kcsqOTFICEN", "EAPRS"},
        {"ms", "kcTFq", NULL},
        {"ms", "ECI", NULL},
        {"md", "kqOCITExF", NULL},
        {"md", "IT", NULL},
        {"ma", "vktcqONJDTCE", "ID+-"},
        {"me", "", NULL},
    };
    uint32_t at = below(generator, base_array_count(verbs));
    request->verb = verbs[at].verb;
    request->noreply = false;
    add_words(generator, request, verbs[at].flags);
    if (verbs[at].modes != NULL && chance(generator, 2)) {
        const char mode[3] = {'M', verbs[at].modes[below(generator, (uint32_t)strlen(verbs[at].modes))]};
        add_word(generator, request, mode, 0);
    }
    model_print(&generator->words, "%s k%u", request->verb, request->keys[0]);
    if (request->verb[1] == 's') {
        any_value(generator, request);
        model_print(&generator->words, " %zu", request->len);
    }
    for (uint32_t i = 0; i < request->word_count; i++)
        model_print(&generator->words, " %s", request->words[i]);
    model_print(&generator->words, "\r\n");
    if (request->verb[1] == 's')
        print_value(generator, request);
}

/* What no item has to do with. */
static void any_other(struct generator *generator)
{
    static const char *const talks[][2] = {
        {"mn\r\n", "MN\r\n"},
        {"version\r\n", "VERSION " TALK_VERSION "\r\n"},
        {"nonsense\r\n", "ERROR\r\n"},
        {"set k1 x 0 1\r\nz\r\n", "CLIENT_ERROR bad command line format\r\n"},
        {"set k1 0 0 2\r\nxyz\n", "CLIENT_ERROR bad data chunk\r\n"},
        {"ms k1 3 !\r\nget\r\n", "CLIENT_ERROR invalid flag\r\n"},
        {"verbosity 1\r\n", "OK\r\n"},
        {"flush_all\r\n", "OK\r\n"},
    };
    uint32_t at = below(generator, base_array_count(talks));
    if (talks[at][0][0] == 'f' && !chance(generator, 10))
        return;
    for (uint32_t key = 0; talks[at][0][0] == 'f' && key < MODEL_KEYS; key++)
        generator->model.items[key].there = false;
    model_print(&generator->words, "%s", talks[at][0]);
    model_print(&generator->model.answer, "%s", talks[at][1]);
}

/* @return whether it is for the model to answer: else it is answered */
static bool any_request(struct generator *generator, struct model_request *request)
{
    *request = (struct model_request){.keys = {below(generator, MODEL_KEYS)},
                                      .key_count = 1,
                                      .noreply = chance(generator, 6) && !generator->evicts};
    uint32_t kind = below(generator, 16);
    if (kind == 0)
        any_other(generator);
    else if (kind < 5)
        any_list(generator, request);
    else if (kind < 8)
        any_storage(generator, request);
    else if (kind < 10)
        any_change(generator, request);
    else
        any_meta(generator, request);
    return kind != 0;
}

/* ---- comparing ---------------------------------------------------------------------------------- */

/* A version that was not known before is none of those that were. @return whether it may be this one */
static bool is_version(struct model *model, uint32_t number, uint64_t version)
{
    if (model->versions[number] != 0)
        return model->versions[number] == version;
    for (uint32_t i = number < 200 ? 0 : number - 200; i < model->version_count; i++) {
        if (model->versions[i] == version)
            return false;
    }
    model->versions[number] = version;
    return version >= model->version_min && version <= model->version_max;
}

/* @return how much of what should be said was said; all of it, and no more: SIZE_MAX @param ret_at  where not
 */
static size_t agrees(struct model *model, const char *said, size_t len, size_t *ret_at)
{
    const char *at = said, *wanted = model->answer.text, *end = wanted + model->answer.len;
    while (wanted < end && at < said + len) {
        size_t same = (size_t)(wanted - model->answer.text);
        *ret_at = (size_t)(at - said);
        char *behind;
        if (*wanted != MODEL_MARK) {
            if (*at++ != *wanted++)
                return same;
            continue;
        }
        uint32_t number = (uint32_t)strtoul(wanted + 1, &behind, 10);
        wanted = behind + 1;
        uint64_t version = strtoull(at, &behind, 10);
        if (behind == at || !is_version(model, number, version))
            return same;
        at = behind;
    }
    return wanted == end && at == said + len ? SIZE_MAX : (size_t)(wanted - model->answer.text);
}

/* Tell of the request whose answer is wrong. */
static void complain(const struct talk *talk, const struct generator *generator, uint32_t requests, size_t at,
                     size_t said_at)
{
    uint32_t i = 0;
    while (i + 1 < requests && generator->answer_at[i + 1] <= at)
        i++;
    const char *words = generator->words.text + generator->words_at[i];
    size_t words_len =
        (i + 1 < requests ? generator->words_at[i + 1] : generator->words.len) - generator->words_at[i];
    print_error("request %u of %u:\n%.*s\n----\n", i, requests, (int)base_min(words_len, (size_t)500), words);
    print_error("should, from %zu on:\n%.300s\n----\n", at,
                generator->model.answer.text + generator->answer_at[i]);
    print_error("server:\n%.300s\n----\n", talk->said + (said_at < 100 ? 0 : said_at - 100));
}

static void say(struct talk *talk, struct generator *generator)
{
    struct talk_words words = {.talk = talk,
                               .text = generator->words.text,
                               .len = generator->words.len,
                               .piece = chance(generator, 3) ? TALK_INPUT_BYTES : 0,
                               .random = &generator->random};
    talk->crowded = chance(generator, 6);
    assert_int_equal(talk_say_words(&words), 0);
}

static void run_pipeline(struct talk *talk, struct generator *generator, uint32_t requests)
{
    struct model_request request;
    generator->words.len = generator->model.answer.len = 0;
    model_print(&generator->words, "mn\r\n");
    model_print(&generator->model.answer, "MN\r\n");
    for (uint32_t i = 0; i < requests; i++) {
        generator->words_at[i] = generator->words.len;
        generator->answer_at[i] = generator->model.answer.len;
        if (any_request(generator, &request))
            model_do(&generator->model, &request);
    }
    say(talk, generator);
    size_t said_at = 0;
    size_t at = agrees(&generator->model, talk->said, talk->said_bytes, &said_at);
    if (at != SIZE_MAX) {
        complain(talk, generator, requests, at, said_at);
        fail();
    }
}

static struct generator *begin_seed(const struct talk *talk, uint64_t seed)
{
    struct generator *generator = calloc(1, sizeof(*generator));
    assert_non_null(generator);
    base_random_init(&generator->random, seed);
    generator->model.version_count = 1;
    generator->model.version_min = talk->depot != NULL ? 2 : TESTING_BEGIN;
    generator->model.version_max = (talk->depot != NULL ? OWN_VERSIONS : OTHER_VERSION) - 1;
    generator->model.joined_max = kv_whole_bytes_max(talk->kv, 1) + 1;
    generator->own_version = OWN_VERSIONS;
    return generator;
}

static void end_seed(struct generator *generator)
{
    for (uint32_t key = 0; key < MODEL_KEYS; key++)
        free(generator->model.items[key].value);
    free(generator->model.answer.text);
    free(generator->words.text);
    free(generator);
}

static void run_seed(struct talk *talk, uint64_t seed)
{
    struct generator *generator = begin_seed(talk, seed);
    talk_expect_once(talk, "set version 0 0 1\r\n1\r\n", "STORED\r\n"); /* which is gone then */
    talk_forget(talk);
    for (uint32_t i = 0; i < PIPELINES; i++) {
        generator->model.now_s = talk->clock.wall_ns / BASE_NS_PER_SECOND;
        run_pipeline(talk, generator, 1 + below(generator, chance(generator, 4) ? REQUESTS : 70));
        talk->clock.wall_ns += base_random_below(&generator->random, 12) * BASE_NS_PER_SECOND;
    }
    end_seed(generator);
}

static void pipelines_agree_with_the_model(void **state)
{
    for (uint64_t seed = 1; seed <= 8; seed++)
        run_seed(*state, seed);
}

/* ---- evictions ---------------------------------------------------------------------------------- */

static bool is_said(struct talk *talk, struct generator *generator)
{
    size_t said_at;
    return agrees(&generator->model, talk->said, talk->said_bytes, &said_at) == SIZE_MAX;
}

/* A key's item and all else that a request changes of the model. */
static void go_back(struct model *model, uint32_t key, const struct model_item *before, uint32_t versions)
{
    free(model->items[key].value);
    model->items[key] = *before;
    memset(&model->versions[versions], 0, (model->version_count - versions) * sizeof(model->versions[0]));
    model->version_count = versions;
    model->answer.len = 0;
}

/* A request is answered as if its key were there, or as if it were not, from then on. @return whether it was evicted */
static bool run_request(struct talk *talk, struct generator *generator)
{
    struct model *model = &generator->model;
    struct model_request request;
    generator->words.len = model->answer.len = 0;
    const bool has_key = any_request(generator, &request);
    const uint32_t key = request.keys[0], versions = model->version_count;
    struct model_item before = model->items[key];
    if (generator->words.len == 0)
        return false;
    if (has_key) {
        before.value =
            before.value == NULL ? NULL : memcpy(malloc(before.len + 1), before.value, before.len + 1);
        model_do(model, &request);
    }
    say(talk, generator);
    if (is_said(talk, generator)) {
        if (has_key)
            free(before.value);
        return false;
    }
    assert_true(has_key && before.there);
    before.there = false;
    go_back(model, key, &before, versions);
    model_do(model, &request);
    if (!is_said(talk, generator))
        talk_expect_said(talk, generator->words.text, model->answer.text, model->answer.len);
    return true;
}

/* A cache that is far too small for what is stored: a miss may always be, but no old value, and none of another key. */
static void what_is_evicted_is_missed(void **state)
{
    struct talk *talk = *state;
    struct kv_stats stats;
    uint64_t evicted = 0;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct generator *generator = begin_seed(talk, seed);
        generator->evicts = true;
        talk_forget(talk);
        for (uint32_t i = 0; i < REQUESTS_EVICTING; i++) {
            generator->model.now_s = talk->clock.wall_ns / BASE_NS_PER_SECOND;
            evicted += run_request(talk, generator);
            talk->clock.wall_ns += chance(generator, 10) ? 3 * BASE_NS_PER_SECOND : 0;
        }
        end_seed(generator);
    }
    assert_int_equal(kv_stats(talk->kv, &stats), 0);
    assert_in_range(evicted, 50, stats.evictions);
}

static int begin_cache(void **state) /* one partition: then versions are of the whole store */
{
    return talk_setup_url(state, "cache:memory=32M,item=1K");
}

static int begin_small_cache(void **state)
{
    return talk_setup_url(state, "cache:memory=8K");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TALK_TEST(pipelines_agree_with_the_model),
        {"pipelines_agree_with_the_model (cache)", pipelines_agree_with_the_model, begin_cache, talk_teardown,
         NULL},
        cmocka_unit_test_setup_teardown(what_is_evicted_is_missed, begin_small_cache, talk_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
