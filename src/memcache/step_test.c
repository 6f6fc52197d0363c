/*
 * Are requests that are in flight together answered in their order, each as if it were alone: whatever sees
 * a change, however long the values, whatever fails? Nothing is left over when something does.
 */
#include "memcache/testing.h"

#define BIG (600 << 10)

#define K50          "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
#define KEY_TOO_LONG K50 K50 K50 K50 K50 "k"

/* A text that grows. */
struct script {
    char *text;
    size_t len;
    size_t room;
};

static void append(struct script *script, const char *format, ...) base_printf_like(2, 3);

static void append(struct script *script, const char *format, ...)
{
    va_list args;
    if (script->room - script->len < 2000) {
        script->room = 2 * script->room + 10000;
        script->text = realloc(script->text, script->room);
        base_assert(script->text != NULL);
    }
    va_start(args, format);
    int len = vsnprintf(script->text + script->len, script->room - script->len, format, args);
    va_end(args);
    base_assert(len >= 0 && (size_t)len < script->room - script->len);
    script->len += (size_t)len;
}

/* The same byte again and again. */
static void append_value(struct script *script, char byte, size_t bytes)
{
    script->room = script->len + bytes + 10000;
    script->text = realloc(script->text, script->room);
    base_assert(script->text != NULL);
    memset(script->text + script->len, byte, bytes);
    script->len += bytes;
    append(script, "\r\n");
}

/* Hold a conversation in pieces of several sizes, and with nobody else to help. */
static void expect_script(struct talk *talk, const struct script *words, const struct script *answer)
{
    static const size_t pieces[] = {100, 1999, TALK_INPUT_BYTES, TALK_INPUT_BYTES};
    for (size_t i = 0; i < base_array_count(pieces); i++) {
        talk->crowded = i == 3;
        talk_forget(talk);
        assert_int_equal(talk_say(talk, words->text, words->len, pieces[i]), 0);
        talk_expect_said(talk, words->text, answer->text, answer->len);
    }
    talk->crowded = false;
}

static void free_scripts(struct script *words, struct script *answer)
{
    free(words->text);
    free(answer->text);
}

/* ---- order -------------------------------------------------------------------------------------- */

static void pipelines(void **state)
{
    static const char *const talks[][2] = {
        {"mg a q v\r\nmg b q v\r\nmg c q v k\r\nmn\r\nset b 0 0 1\r\nx\r\nmg a q v\r\nmg b q v k O1\r\nmg c "
         "q v\r\nmn\r\n",
         "MN\r\nSTORED\r\nVA 1 kb O1\r\nx\r\nMN\r\n"},
        {"ms a 1 q\r\nx\r\nms b 1 q\r\ny\r\nmd a q\r\nmd none q\r\nma c N0 q\r\nma c q\r\nmn\r\nget a b "
         "c\r\n",
         "NF\r\nMN\r\nVALUE b 0 1\r\ny\r\nVALUE c 0 1\r\n1\r\nEND\r\n"},
        {"mn\r\nmn x\r\nmn\r\n", "MN\r\nMN\r\nMN\r\n"},
        {"set a 0 0 1\r\nx\r\nget a\r\nnonsense\r\nget a\r\nset a 0 x 1\r\nz\r\nget a\r\nset a 0 0 "
         "1\r\nxy\r\nget "
         "a\r\ndelete a\r\nget a\r\n",
         "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nERROR\r\nVALUE a 0 1\r\nx\r\nEND\r\nCLIENT_ERROR bad command "
         "line format\r\nVALUE a 0 1\r\nx\r\nEND\r\nCLIENT_ERROR bad data chunk\r\nCLIENT_ERROR bad command "
         "line format\r\nVALUE a 0 "
         "1\r\nx\r\nEND\r\nDELETED\r\nEND\r\n"},
        {"set a 0 0 1\r\n1\r\nget a b a\r\nset b 0 0 1\r\n2\r\nget a b a\r\nset a 0 0 1\r\n3\r\nget a "
         "b\r\nincr a 5\r\nincr a 5\r\nget a\r\nappend a 0 0 1\r\n0\r\nincr a 1\r\ndelete a\r\nadd a 0 0 "
         "1\r\n7\r\nget a b\r\n",
         "STORED\r\nVALUE a 0 1\r\n1\r\nVALUE a 0 1\r\n1\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\n1\r\nVALUE b 0 "
         "1\r\n2\r\nVALUE a 0 1\r\n1\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\n3\r\nVALUE b 0 "
         "1\r\n2\r\nEND\r\n8\r\n13\r\nVALUE a 0 "
         "2\r\n13\r\nEND\r\nSTORED\r\n131\r\nDELETED\r\nSTORED\r\nVALUE a 0 1\r\n7\r\nVALUE b 0 "
         "1\r\n2\r\nEND\r\n"},
        {"get a\r\nset a 0 0 1\r\n1\r\nget a\r\nset a 0 0 1\r\n2\r\nget a\r\nset b 0 0 1\r\nx\r\nget a "
         "b\r\nset a 0 0 1\r\n3\r\ngat 0 a b\r\nget a\r\ndelete a\r\nget a b\r\n",
         "END\r\nSTORED\r\nVALUE a 0 1\r\n1\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\n2\r\nEND\r\nSTORED\r\nVALUE a "
         "0 1\r\n2\r\nVALUE b 0 1\r\nx\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\n3\r\nVALUE b 0 "
         "1\r\nx\r\nEND\r\nVALUE a 0 1\r\n3\r\nEND\r\nDELETED\r\nVALUE b 0 1\r\nx\r\nEND\r\n"},
    };
    TALK_EXPECT_ALL(*state, talks);
}

/* More of them than may be in flight, on some keys: each sees those before it and none behind. */
static void many_in_a_packet(void **state)
{
    for (uint32_t keys = 1; keys <= 150; keys += 1 + keys / 2) {
        struct script words = {.len = 0}, answer = {.len = 0};
        uint32_t held[150] = {0};
        for (uint32_t i = 1; i <= 200; i++) {
            uint32_t key = i * 7 % keys;
            append(&words, "get k%u k%u\r\n", key, (key + 1) % keys);
            for (uint32_t j = key; j <= key + 1; j++) {
                if (held[j % keys] != 0)
                    append(&answer, "VALUE k%u %u 3\r\n%03u\r\n", j % keys, held[j % keys], held[j % keys]);
            }
            append(&answer, "END\r\n");
            held[key] = i;
            append(&words, i % 5 == 0 ? "set k%u %u 0 3 noreply\r\n%03u\r\n" : "set k%u %u 0 3\r\n%03u\r\n",
                   key, i, i);
            append(&answer, i % 5 == 0 ? "" : "STORED\r\n");
        }
        expect_script(*state, &words, &answer);
        free_scripts(&words, &answer);
    }
}

/* Changes alone, around the number that may be in flight. */
static void changes_in_a_packet(void **state)
{
    for (uint32_t count = MEMCACHE_REQUESTS_MAX - 1; count <= 2 * MEMCACHE_REQUESTS_MAX + 1; count++) {
        struct script words = {.len = 0}, answer = {.len = 0};
        for (uint32_t i = 0; i < count; i++) {
            append(&words, "ma k%u N0 J%u v k O%u\r\n", i, i * i, i);
            append(&answer, "VA %d kk%u O%u\r\n%u\r\n", snprintf(NULL, 0, "%u", i * i), i, i, i * i);
        }
        append(&words, "mn\r\n");
        append(&answer, "MN\r\n");
        talk_forget(*state);
        assert_int_equal(talk_say(*state, words.text, words.len, TALK_INPUT_BYTES), 0);
        talk_expect_said(*state, words.text, answer.text, answer.len);
        free_scripts(&words, &answer);
    }
}

/* One change has no task of its own; many have, and reach the drive together. */
static void changes_go_together(void **state)
{
    struct talk *talk = *state;
    struct task_sched_stats before, after;
    struct script words = {.len = 0};
    for (uint32_t i = 0; i < MEMCACHE_REQUESTS_MAX; i++) {
        append(&words, "set k%u 0 0 1 noreply\r\nx\r\n", i);
        if (i > 0 && i + 1 < MEMCACHE_REQUESTS_MAX)
            continue;
        uint64_t writes = atomic_load(&talk->drive.writes);
        task_sched_stats(talk->sched, &before);
        assert_int_equal(talk_say(talk, words.text, words.len, TALK_INPUT_BYTES), 0);
        task_sched_stats(talk->sched, &after);
        uint64_t tasks = after.spawned - before.spawned - 1; /* but for the session's own */
        if (i == 0)
            assert_int_equal(tasks, 0);
        else /* two keys that look alike may have parted them, and one may have been left alone */
            assert_in_range(tasks, MEMCACHE_REQUESTS_MAX - 4, MEMCACHE_REQUESTS_MAX);
        assert_in_range(atomic_load(&talk->drive.writes) - writes, 1, 8);
    }
    free(words.text);
}

/* Two hundred keys at once, of which a third is there. */
static void many_keys_of_a_list(void **state)
{
    static const char *const lists[] = {"get", "gets", "gat 0", "gats 0"};
    for (size_t list = 0; list < base_array_count(lists); list++) {
        struct script words = {.len = 0}, answer = {.len = 0};
        bool versions = list % 2 == 1;
        for (uint32_t i = 0; i < 200; i += 3) {
            append(&words, "ms key%u 4 F%u E%u q\r\n%04u\r\n", i, i, 1000 + i, i);
        }
        append(&words, "%s", lists[list]);
        for (uint32_t i = 0; i < 200; i++) {
            append(&words, " key%u", i);
            if (i % 3 == 0 && versions)
                append(&answer, "VALUE key%u %u 4 %u\r\n%04u\r\n", i, i, 1000 + i, i);
            else if (i % 3 == 0)
                append(&answer, "VALUE key%u %u 4\r\n%04u\r\n", i, i, i);
        }
        append(&words, "\r\nmn\r\n");
        append(&answer, "END\r\nMN\r\n");
        expect_script(*state, &words, &answer);
        free_scripts(&words, &answer);
    }
}

/* ---- length ------------------------------------------------------------------------------------- */

/* Some that no output holds between some that are small, by all that fetches. */
static void large_between_small(void **state)
{
    static const size_t sizes[] = {10,    BIG,   0,     70000, 64000, 1,   65535,
                                   65000, 30000, 30000, 30000, 30000, BIG, 3};
    static const char *const ends[] = {"get", "gat 0", "mg", "get"};
    for (size_t end = 0; end < base_array_count(ends); end++) {
        struct script words = {.len = 0}, answer = {.len = 0};
        bool meta = end == 2;
        for (size_t i = 0; i < base_array_count(sizes); i++) {
            append(&words, "set k%zu 0 0 %zu noreply\r\n", i, sizes[i]);
            append_value(&words, (char)('a' + i), sizes[i]);
        }
        append(&words, "%s", meta ? "mn\r\n" : ends[end]);
        append(&answer, "%s", meta ? "MN\r\n" : "");
        for (size_t i = 0; i < 2 * base_array_count(sizes); i++) {
            size_t at = i / 2;
            append(&words, meta ? "mg k%zu v q\r\n" : " k%zu", i % 2 == 0 ? at : at + 100);
            if (i % 2 == 1)
                continue;
            append(&answer, meta ? "VA " : "VALUE k%zu 0 ", at);
            append(&answer, "%zu\r\n", sizes[at]);
            append_value(&answer, (char)('a' + at), sizes[at]);
        }
        append(&words, meta ? "mn\r\n" : "\r\nmn\r\n");
        append(&answer, meta ? "MN\r\n" : "END\r\nMN\r\n");
        expect_script(*state, &words, &answer);
        free_scripts(&words, &answer);
    }
}

/* Values of all lengths around an output's, alone and behind another. */
static void lengths_around_the_output(void **state)
{
    struct talk *talk = *state;
    for (size_t size = MEMCACHE_OUTPUT_BYTES - 1500; size < MEMCACHE_OUTPUT_BYTES + 100; size += 71) {
        struct script words = {.len = 0}, answer = {.len = 0};
        append(&words, "set a 0 0 %zu noreply\r\n", size);
        append_value(&words, 'x', size);
        append(&words, "get a\r\nversion\r\nget none a\r\nmg a v s\r\n");
        append(&answer, "VALUE a 0 %zu\r\n", size);
        append_value(&answer, 'x', size);
        append(&answer, "END\r\nVERSION " TALK_VERSION "\r\nVALUE a 0 %zu\r\n", size);
        append_value(&answer, 'x', size);
        append(&answer, "END\r\nVA %zu s%zu\r\n", size, size);
        append_value(&answer, 'x', size);
        assert_int_equal(talk_say(talk, words.text, words.len, TALK_INPUT_BYTES), 0);
        talk_expect_said(talk, words.text, answer.text, answer.len);
        free_scripts(&words, &answer);
    }
}

/* Answers that fill the output many times, among changes whose answers wait for them. */
static void answers_longer_than_the_output(void **state)
{
    struct script words = {.len = 0}, answer = {.len = 0};
    append(&words, "set a 0 0 9000 noreply\r\n");
    append_value(&words, 'x', 9000);
    for (uint32_t i = 0; i < 300; i++) {
        append(&words, "mg a v k O%u\r\nma n%u N0 J7 v\r\nget none a\r\n", i, i % 50);
        append(&answer, "VA 9000 ka O%u\r\n", i);
        append_value(&answer, 'x', 9000);
        uint32_t number = 7 + i / 50;
        append(&answer, "VA %d\r\n%u\r\nVALUE a 0 9000\r\n", number < 10 ? 1 : 2, number);
        append_value(&answer, 'x', 9000);
        append(&answer, "END\r\n");
    }
    expect_script(*state, &words, &answer);
    free_scripts(&words, &answer);
}

/* What is sent from where it was read goes out together; what is copied, in parts that the output holds. */
static void values_are_sent_from_where_they_lie(void **state)
{
    struct talk *talk = *state;
    struct script words = {.len = 0}, answer = {.len = 0};
    append(&words, "set a 0 0 9000 noreply\r\n");
    append_value(&words, 'x', 9000);
    append(&words, "set b 0 0 300000 noreply\r\n");
    append_value(&words, 'y', 300000);
    assert_int_equal(talk_say(talk, words.text, words.len, TALK_INPUT_BYTES), 0);
    words.len = 0;
    append(&words, "get");
    for (uint32_t i = 0; i < 20; i++) {
        append(&words, " a");
        append(&answer, "VALUE a 0 9000\r\n");
        append_value(&answer, 'x', 9000);
    }
    append(&words, " b\r\nget a\r\n");
    append(&answer, "VALUE b 0 300000\r\n");
    append_value(&answer, 'y', 300000);
    append(&answer, "END\r\nVALUE a 0 9000\r\n");
    append_value(&answer, 'x', 9000);
    append(&answer, "END\r\n");
    for (uint32_t copied = 0; copied < 2; copied++) {
        talk->server.lease_bytes_min = copied == 0 ? MEMCACHE_LEASE_BYTES_MIN : UINT64_MAX;
        assert_int_equal(talk_say(talk, words.text, words.len, TALK_INPUT_BYTES), 0);
        talk_expect_said(talk, words.text, answer.text, answer.len);
        assert_int_equal(talk->sends, copied == 0 ? 3 : 5);
    }
    free_scripts(&words, &answer);
}

/* The longest texts that there are, as many as go together. */
static void longest_answers(void **state)
{
    struct script words = {.len = 0}, answer = {.len = 0};
    for (uint32_t i = 0; i < 5 * MEMCACHE_REQUESTS_MAX; i++) {
        append(&words, "ms %0248u 1 b F4294967295 E18446744073709%06u T2591999 k c s O%031u\r\nx\r\n",
               40 * i + 4, 100 + i, i);
        append(&answer, "HD k%0248u b c18446744073709%06u s1 O%031u\r\n", 40 * i + 4, 100 + i, i);
    }
    for (uint32_t i = 0; i < 5 * MEMCACHE_REQUESTS_MAX; i++) {
        append(&words, "mg %0248u b k c s f t h l O%031u\r\n", 40 * i + 4, i);
        append(&answer, "HD k%0248u b c18446744073709%06u s1 f4294967295 t2591999 h0 l0 O%031u\r\n",
               40 * i + 4, 100 + i, i);
    }
    expect_script(*state, &words, &answer);
    free_scripts(&words, &answer);
}

/* A get that wins behind one whose value has left the output hardly any room. */
static void a_change_at_the_end_of_the_output(void **state)
{
    struct talk *talk = *state;
    for (size_t size = MEMCACHE_OUTPUT_BYTES - 1400; size < MEMCACHE_OUTPUT_BYTES - 500; size += 7) {
        struct script words = {.len = 0}, answer = {.len = 0};
        append(&words, "ms %0249d1 %zu F4294967295 T2591999 E18446744073709551615 q\r\n", 0, size);
        append_value(&words, 'x', size);
        append(&words, "ms %0249d2 1 F4294967295 T2591999 q\r\ny\r\nmd %0249d2 I q E18446744073709551614\r\n",
               0, 0);
        assert_int_equal(talk_say(talk, words.text, words.len, TALK_INPUT_BYTES), 0);
        words.len = 0;
        append(&words,
               "mg %0249d1 v k O%031u c f t s h l\r\nmg %0249d2 v k O%031u c f t s h l\r\nmg %0249d2\r\n", 0,
               1, 0, 2, 0);
        append(&answer, "VA %zu k%0249d1 O%031u c18446744073709551615 f4294967295 t2591999 s%zu h0 l0\r\n",
               size, 0, 1, size);
        append_value(&answer, 'x', size);
        append(
            &answer,
            "VA 1 k%0249d2 O%031u c18446744073709551614 f4294967295 t2591999 s1 h0 l0 X W\r\ny\r\nHD Z X\r\n",
            0, 2);
        assert_int_equal(talk_say(talk, words.text, words.len, TALK_INPUT_BYTES), 0);
        talk_expect_said(talk, words.text, answer.text, answer.len);
        free_scripts(&words, &answer);
    }
}

/* Answers longer than what was asked, until no room is left for them. */
static void answers_longer_than_requests(void **state)
{
    struct script words = {.len = 0}, answer = {.len = 0};
    for (uint32_t i = 0; i < 3 * MEMCACHE_OUTPUT_BYTES / 7; i++) {
        append(&words, "xyz\n");
        append(&answer, "ERROR\r\n");
    }
    expect_script(*state, &words, &answer);
    free_scripts(&words, &answer);
}

/* Changes whose long answers wait while values fill the output. */
static void long_answers_among_values(void **state)
{
    struct script words = {.len = 0}, answer = {.len = 0};
    append(&words, "set a 0 0 1000 noreply\r\n");
    append_value(&words, 'x', 1000);
    for (uint32_t i = 0; i < 6 * MEMCACHE_REQUESTS_MAX; i++) {
        append(&words, i % 2 == 0 ? "ma %0250u N0 k O%031u\r\n" : "mg a v k O%u\r\n", i, i);
        append(&answer, i % 2 == 0 ? "HD k%0250u O%031u\r\n" : "VA 1000 ka O%u\r\n", i, i);
        if (i % 2 == 1)
            append_value(&answer, 'x', 1000);
    }
    expect_script(*state, &words, &answer);
    free_scripts(&words, &answer);
}

/* ---- what fails ---------------------------------------------------------------------------------- */

static const char failing_talk[] = "set a 0 0 3\r\nabc\r\nget a b\r\nset b 0 0 70000\r\n%70000d\r\nget a b "
                                   "c\r\nappend a 0 0 2\r\nde\r\ngat 0 b "
                                   "a\r\nmg b v k\r\nmd a I q\r\nmg a v\r\nmg a v\r\nma n N0 J5 v\r\nincr n "
                                   "2\r\nms b 2 MA\r\nxy\r\nmg none N90 v\r\nget b "
                                   "n\r\ntouch n 0\r\ndelete b\r\nget a b n\r\nmn\r\n";

/* The answer is made of the pieces of the right one, or a piece of it is a line that says what failed. */
static bool is_right_or_tells(const char *said, const char *right)
{
    static const char *const refusals[] = {"SERVER_ERROR out of memory storing object\r\n",
                                           "SERVER_ERROR out of memory writing get response\r\n",
                                           "SERVER_ERROR the drive has failed\r\n",
                                           "SERVER_ERROR the store takes no more writes\r\n"};
    size_t same = 0;
    while (said[same] != '\0' && said[same] == right[same])
        same++;
    if (said[same] == '\0' && right[same] == '\0')
        return true;
    while (same > 0 && said[same - 1] != '\n')
        same--;
    for (size_t i = 0; i < base_array_count(refusals); i++) {
        if (strncmp(said + same, refusals[i], strlen(refusals[i])) == 0)
            return strcmp(said + strlen(said) - 4, "MN\r\n") == 0;
    }
    return false;
}

/* What is said when nothing fails. */
static char *right_answer(struct talk *talk, const char *words, size_t len)
{
    talk_forget(talk);
    assert_int_equal(talk_say(talk, words, len, 4000), 0);
    assert_non_null(strstr(talk->said, "\r\nEND\r\nMN\r\n"));
    assert_null(strstr(talk->said, "ERROR"));
    char *right = strdup(talk->said);
    assert_non_null(right);
    return right;
}

/* The n-th allocation fails, of values or of anything, for every n. */
static void memory_fails(void **state)
{
    struct talk *talk = *state;
    char *words;
    int len = asprintf(&words, failing_talk, 7);
    assert_true(len > 0);
    char *right = right_answer(talk, words, (size_t)len);
    for (int kind = 0; kind < 3; kind++) {
        uint64_t *fails = kind == 0 ? &talk->value_alloc_fails : &talk->alloc_fails, told = 0;
        struct base_account *account = kind == 0 ? &talk->server.values : &talk->node->memory;
        for (*fails = 1; atomic_load(&account->fail_at) == 0; ++*fails) {
            talk_forget(talk);
            int error = talk_say(talk, words, (size_t)len, kind == 2 ? 300 : 4000);
            assert_int_equal(error, 0);
            if (!is_right_or_tells(talk->said, right))
                talk_expect_said(talk, words, right, strlen(right));
            told += strstr(talk->said, "SERVER_ERROR") != NULL;
        }
        *fails = 0;
        base_account_fail_at(account, 0);
        assert_in_range(told, 2, 100);
    }
    free(right);
    free(words);
}

/* A value for which there is no memory is told of where it belongs; its list ends. */
static void values_without_memory_are_told(void **state)
{
    struct talk *talk = *state;
    char *words;
    int len = asprintf(&words, "set a 0 0 1\r\nx\r\nset b 0 0 70000\r\n%070000d\r\n", 7);
    assert_true(len > 0);
    assert_int_equal(talk_say(talk, words, (size_t)len, 100), 0);
    talk->server.values.cap_bytes = 1000;
    talk->server.lease_bytes_min = UINT64_MAX;
    talk_expect_once(
        talk,
        "get a b a\r\nget a\r\nmg a v k\r\nmg b v q\r\nmg b s\r\nappend b 0 0 1\r\nx\r\ngat 9 b a\r\nmg b t "
        "T7 v\r\nmg b t\r\n",
        "VALUE a 0 1\r\nx\r\nSERVER_ERROR out of memory writing get response\r\nVALUE a 0 "
        "1\r\nx\r\nEND\r\nVA 1 ka\r\nx\r\nSERVER_ERROR out of memory storing object\r\nHD s70000\r\n"
        "SERVER_ERROR out of memory storing object\r\nSERVER_ERROR out of memory writing get response\r\n"
        "SERVER_ERROR out of memory storing object\r\nHD t-1\r\n");
    free(words);
}

/* The n-th send fails: nothing more is sent, and nothing is left. */
static void sends_fail(void **state)
{
    struct talk *talk = *state;
    struct script words = {.len = 0};
    append(&words, "set a 0 0 90000 noreply\r\n");
    append_value(&words, 'x', 90000);
    append(&words, "set b 0 0 30000 noreply\r\n");
    append_value(&words, 'x', 30000);
    for (int i = 0; i < 20; i++)
        append(&words, "get a b\r\ngat 0 a none\r\nma n N0\r\nmg b v\r\n");
    assert_int_equal(talk_say(talk, words.text, words.len, TALK_INPUT_BYTES), 0);
    uint64_t sends = talk->sends;
    assert_in_range(sends, 10, 60);
    for (uint64_t n = 1; n <= sends; n++) {
        talk->send_fails_at = n;
        int error = talk_say(talk, words.text, words.len, TALK_INPUT_BYTES);
        assert_true(error == -EPIPE || (n == sends && error == 0));
        assert_int_equal(talk->sends, n);
    }
    free(words.text);
}

/* ---- a failing drive ----------------------------------------------------------------------------- */

/* A list ends with its first error, and no END; what is behind it is answered all the same. */
static void lists_end_with_an_error(void **state)
{
    struct talk *talk = *state;
    talk_expect_once(talk, "set a 0 0 1\r\nx\r\nset b 0 0 1\r\ny\r\n", "STORED\r\nSTORED\r\n");
    testing_drive_fail_at(&talk->drive, DRIVE_READ, 1, true);
    talk_expect_once(
        talk,
        "get none a none b\r\nget none\r\ngat 0 none a b none\r\nmg a v k\r\nmg b q\r\nversion\r\nget "
        "a\r\nincr a "
        "1\r\nms a 1 q MA\r\nx\r\nme a\r\nmd a C7 k\r\nget none a\r\n",
        "SERVER_ERROR the drive has failed\r\nEND\r\nSERVER_ERROR the drive has failed\r\nSERVER_ERROR the "
        "drive has failed\r\nSERVER_ERROR the drive has failed\r\nVERSION " TALK_VERSION
        "\r\nSERVER_ERROR the drive "
        "has "
        "failed\r\nSERVER_ERROR the drive has failed\r\nSERVER_ERROR the drive has failed\r\nSERVER_ERROR "
        "the "
        "drive has failed\r\nSERVER_ERROR the drive has failed\r\nSERVER_ERROR the drive has failed\r\n");
    testing_drive_fail_at(&talk->drive, DRIVE_READ, 0, false);
    talk_expect_once(talk, "get none a b\r\n", "VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\ny\r\nEND\r\n");
}

/* From now on nobody can read where a text lies. */
static void fail_reads_of(struct talk *talk, const char *text)
{
    const uint8_t *at = memmem(talk->drive.bytes, talk->drive.size, text, strlen(text));
    assert_non_null(at);
    testing_drive_fail_at(&talk->drive, DRIVE_READ, 1, true);
    talk->drive.fail_begin = (uint64_t)(at - talk->drive.bytes);
    talk->drive.fail_end = talk->drive.fail_begin + strlen(text);
}

/* Also a list that goes on and on, wherever it is cut and whatever comes last. */
static void endless_lists_end_with_an_error(void **state)
{
    static const char *const ends[] = {"b\r\n", "\r\n", KEY_TOO_LONG "\r\n", "b " KEY_TOO_LONG " b b\r\n"};
    static const char answer[] = "SERVER_ERROR the drive has failed\r\nVALUE b 0 1\r\ny\r\nEND\r\n";
    struct talk *talk = *state;
    struct script words = {.len = 0};
    append(&words, "set a 0 0 8 noreply\r\n<here a>\r\nset c 0 0 9000 noreply\r\n");
    append_value(&words, 'x', 9000);
    append(&words, "set b 0 0 1 noreply\r\ny\r\n");
    assert_int_equal(talk_say(talk, words.text, words.len, TALK_INPUT_BYTES), 0);
    fail_reads_of(talk, "<here a>");
    for (size_t end = 0; end < base_array_count(ends); end++) {
        words.len = 0;
        append(&words, "get none a ");
        for (int i = 0; i < 3000; i++)
            append(&words, "none ");
        append(&words, "%sget b none\r\n", ends[end]);
        for (size_t piece = 1; piece < TALK_INPUT_BYTES; piece = 3 * piece + 1) {
            assert_int_equal(talk_say(talk, words.text, words.len, piece), 0);
            talk_expect_said(talk, words.text, answer, strlen(answer));
        }
    }
    free(words.text);
}

/* Every request of the drive fails once, and then the store takes no more writes, or not. */
static void the_drive_fails(void **state)
{
    (void)state;
    char *words, *right = NULL;
    int len = asprintf(&words, failing_talk, 7);
    assert_true(len > 0);
    for (int kind = 0; kind < 2; kind++) {
        const enum drive_op op = kind == 0 ? DRIVE_READ : DRIVE_WRITE;
        uint64_t told = 0;
        for (uint64_t n = 1, left = 0; left == 0; n++) {
            struct talk talk = {.crowded = false};
            talk_begin(&talk);
            if (right == NULL)
                right = right_answer(&talk, words, (size_t)len);
            talk_forget(&talk);
            testing_drive_fail_at(&talk.drive, op, n, n % 2 == 0);
            assert_int_equal(talk_say(&talk, words, (size_t)len, 4000), 0);
            left =
                atomic_load(&talk.drive.fail_at) > 1 || (n % 2 == 1 && atomic_load(&talk.drive.fail_at) > 0);
            testing_drive_fail_at(&talk.drive, op, 0, false);
            if (!is_right_or_tells(talk.said, right))
                talk_expect_said(&talk, words, right, strlen(right));
            told += strstr(talk.said, "SERVER_ERROR") != NULL;
            talk_end(&talk);
        }
        assert_in_range(told, 1, 1000);
    }
    free(right);
    free(words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TALK_TESTS(pipelines),
        TALK_TESTS(many_in_a_packet),
        TALK_TESTS(changes_in_a_packet),
        TALK_TEST(changes_go_together),
        TALK_TESTS(many_keys_of_a_list),
        TALK_TESTS(large_between_small),
        TALK_TESTS(lengths_around_the_output),
        TALK_TESTS(answers_longer_than_the_output),
        TALK_TEST(values_are_sent_from_where_they_lie),
        TALK_TESTS(longest_answers),
        TALK_TESTS(a_change_at_the_end_of_the_output),
        TALK_TESTS(answers_longer_than_requests),
        TALK_TESTS(long_answers_among_values),
        TALK_TESTS(memory_fails),
        TALK_TESTS(values_without_memory_are_told),
        TALK_TESTS(sends_fail),
        TALK_TEST(lists_end_with_an_error),
        TALK_TEST(endless_lists_end_with_an_error),
        cmocka_unit_test(the_drive_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
