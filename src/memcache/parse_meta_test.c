/* Is every line of a meta command understood, or refused, as memcached does it? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "memcache/parse.h"
#include <stdlib.h>

#define FORMAT    "CLIENT_ERROR bad command line format\r\n"
#define INVALID   "CLIENT_ERROR invalid flag\r\n"
#define DUPLICATE "CLIENT_ERROR duplicate flag\r\n"
#define EITHER    "CLIENT_ERROR invalid or duplicate flag\r\n"
#define TOKEN     "CLIENT_ERROR bad token in command line format\r\n"
#define OPAQUE    "CLIENT_ERROR opaque token too long\r\n"
#define KEY       "CLIENT_ERROR error decoding key\r\n"

#define KEY50  "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
#define KEY250 KEY50 KEY50 KEY50 KEY50 KEY50

#define OPAQUE32 "O1123456789012345678901234567890"

/* The line is copied, so that a read behind its end is seen; whoever gets the request frees it. */
static struct memcache_request parse(const char *line, char **ret_copy)
{
    struct memcache_request request;
    size_t len = strlen(line);
    *ret_copy = malloc(len == 0 ? 1 : len);
    assert_non_null(*ret_copy);
    memcpy(*ret_copy, line, len);
    memcache_parse(*ret_copy, len, &request);
    return request;
}

static void expect_refusals(const char *const (*lines)[2], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *copy;
        struct memcache_request request = parse(lines[i][0], &copy);
        if (request.verb != MEMCACHE_REFUSED)
            print_error("%s\n", lines[i][0]);
        assert_int_equal(request.verb, MEMCACHE_REFUSED);
        assert_string_equal(request.refusal, lines[i][1]);
        assert_false(request.noreply);
        free(copy);
    }
}

static void verbs_and_keys(void **state)
{
    (void)state;
    const struct {
        const char *line;
        enum memcache_verb verb;
        const char *key;
    } lines[] = {
        {"mg a", MEMCACHE_META_GET, "a"},
        {"  mg  a  v  ", MEMCACHE_META_GET, "a"},
        {"ms a 5", MEMCACHE_META_SET, "a"},
        {"md " KEY250, MEMCACHE_META_DELETE, KEY250},
        {"ma a q", MEMCACHE_META_ARITHMETIC, "a"},
        {"me a", MEMCACHE_META_DEBUG, "a"},
        {"mn", MEMCACHE_META_NOOP, ""},
        {"mn x y z", MEMCACHE_META_NOOP, ""},
        {"mg YWJj b", MEMCACHE_META_GET, "abc"},
        {"ms YWI= 5 k b", MEMCACHE_META_SET, "ab"},
        {"md YQ== q b", MEMCACHE_META_DELETE, "a"},
        {"ma YQ== b", MEMCACHE_META_ARITHMETIC, "a"},
        {"me YWJj b", MEMCACHE_META_DEBUG, "abc"},
        {"me YWJj q b", MEMCACHE_META_DEBUG, "YWJj"},
        {"mg YWJj", MEMCACHE_META_GET, "YWJj"},
        {"me a !! k k", MEMCACHE_META_DEBUG, "a"},
    };
    for (size_t i = 0; i < base_array_count(lines); i++) {
        char *copy;
        struct memcache_request request = parse(lines[i].line, &copy);
        assert_int_equal(request.verb, lines[i].verb);
        assert_int_equal(request.key.len, strlen(lines[i].key));
        assert_memory_equal(request.key.text, lines[i].key, request.key.len);
        assert_int_equal(memcache_has_value(&request), request.verb == MEMCACHE_META_SET);
        assert_int_equal(memcache_is_meta(&request), request.verb != MEMCACHE_META_NOOP);
        assert_null(request.refusal);
        free(copy);
    }
}

static void flags_and_tokens(void **state)
{
    char *copy;
    (void)state;
    struct memcache_request request =
        parse("ms a 7 T100 F4294967295 C18446744073709551615 E5 I ME q N-5 R30 J6 D9 k c s " OPAQUE32, &copy);
    assert_int_equal(request.verb, MEMCACHE_META_SET);
    assert_int_equal(request.value_bytes, 7);
    assert_int_equal(request.exptime, 100);
    assert_int_equal(request.client_flags, UINT32_MAX);
    assert_int_equal(request.cas, UINT64_MAX);
    assert_int_equal(request.meta.version, 5);
    assert_int_equal(request.meta.mode, 'E');
    assert_int_equal(request.meta.vivify, -5);
    assert_int_equal(request.meta.recache, 30);
    assert_int_equal(request.meta.initial, 6);
    assert_int_equal(request.delta, 9);
    assert_true(request.noreply);
    for (char flag = 'A'; flag <= 'z'; flag++)
        assert_int_equal(memcache_meta_has(&request, flag), strchr("TFCEIMqNRJDkcsO", flag) != NULL);
    assert_int_equal(
        request.rest.len,
        strlen(" T100 F4294967295 C18446744073709551615 E5 I ME q N-5 R30 J6 D9 k c s " OPAQUE32));
    free(copy);
    request = parse("ma a", &copy);
    assert_int_equal(request.delta, 1);
    assert_int_equal(request.meta.flags, 0);
    assert_int_equal(request.meta.mode, 0);
    assert_int_equal(request.meta.initial, 0);
    assert_false(request.noreply);
    free(copy);
}

/* What has no meaning for a command is passed over, and so is a text behind a flag that takes none. */
static void flags_that_mean_nothing_here(void **state)
{
    (void)state;
    const char *const lines[] = {"mg a I",  "mg a MX", "md a MX",          "mg a Pabc L/x", "ma a F5",
                                 "mg a kx", "mg a vv", "md a N5 R6 J7 D8", "mg a h l t u x"};
    for (size_t i = 0; i < base_array_count(lines); i++) {
        char *copy;
        struct memcache_request request = parse(lines[i], &copy);
        assert_int_not_equal(request.verb, MEMCACHE_REFUSED);
        free(copy);
    }
}

static void refused_lines(void **state)
{
    (void)state;
    static const char *const lines[][2] = {
        {"mg", FORMAT},
        {"ms", FORMAT},
        {"md ", FORMAT},
        {"ma", FORMAT},
        {"me", FORMAT},
        {"mg " KEY250 "k", FORMAT},
        {"ms " KEY250 "k 5", FORMAT},
        {"me " KEY250 "k", FORMAT},
        {"ms a", FORMAT},
        {"ms a x", FORMAT},
        {"ms a -1 q", FORMAT},
        {"ms a 2147483646", FORMAT},
        {"ms a k 5", FORMAT},
        {"mg a !", INVALID},
        {"mg a z", INVALID},
        {"mg a q A", INVALID},
        {"mg a \x80", DUPLICATE},
        {"mg a k k", DUPLICATE},
        {"mg a q v q", DUPLICATE},
        {"ms a 5 z", INVALID},
        {"ms a 5 k k", DUPLICATE},
        {"md a z", INVALID},
        {"ma a k k", EITHER},
        {"mg a k \x7f", DUPLICATE},
        {"mg a ~", INVALID},
        {"mg a " OPAQUE32 "1", OPAQUE},
        {"md a q " OPAQUE32 "1", OPAQUE},
        {"ms a 5 q " OPAQUE32 "1", OPAQUE},
        {"mg a T", TOKEN},
        {"mg a Tx", TOKEN},
        {"mg a N", TOKEN},
        {"mg a Rx", TOKEN},
        {"ms a 5 C-1", TOKEN},
        {"ms a 5 C18446744073709551616", TOKEN},
        {"ms a 5 E", TOKEN},
        {"ms a 5 F4294967296", FORMAT},
        {"ms a 5 Jx", "CLIENT_ERROR invalid numeric initial value\r\n"},
        {"ms a 5 Dx", "CLIENT_ERROR invalid numeric delta value\r\n"},
        {"ma a Dx", EITHER},
        {"md a Cx", TOKEN},
        {"ms a 5 M", "CLIENT_ERROR invalid mode for ms M token\r\n"},
        {"ms a 5 Tx Dx F-1", "CLIENT_ERROR invalid numeric delta value\r\n"},
        {"ms a 5 Tx z Dx", INVALID},
        {"mg YQ b Tx", TOKEN},
        {"mg YQ Tx b", KEY},
        {"ms a 5 MX", "CLIENT_ERROR invalid mode for ms M token\r\n"},
        {"ms a 5 Me q", "CLIENT_ERROR invalid mode for ms M token\r\n"},
        {"ma a MX", "CLIENT_ERROR invalid mode for ma M token\r\n"},
        {"ma a MS q", "CLIENT_ERROR invalid mode for ma M token\r\n"},
        {"ma a M", "CLIENT_ERROR invalid mode for ma M token\r\n"},
        {"mg !!! b", KEY},
        {"mg YQ b", KEY},
        {"mg YR== b", KEY},
        {"ms YQ=== 5 b", KEY},
        {"ma YQ=a b", EITHER},
        {"me !!! b", FORMAT},
    };
    expect_refusals(lines, base_array_count(lines));
}

/* Nineteen words at most. */
static void lines_of_many_words(void **state)
{
    static const char flags[] = " C1 D2 E3 F4 I J5 L M+ N6 O7 P R8 T9 b c f h k l q s t";
    static const char *const commands[] = {"mg YQ==", "ma YQ==", "md YQ==", "me YQ=="};
    (void)state;
    for (size_t i = 0; i < base_array_count(commands); i++) {
        for (size_t count = 0; count <= 22; count++) {
            char line[200];
            size_t len = 0;
            for (size_t spaces = 0; flags[len] != '\0' && (flags[len] != ' ' || ++spaces <= count); len++)
                continue;
            (void)snprintf(line, sizeof(line), "%s%.*s", commands[i], (int)len, flags);
            char *copy;
            struct memcache_request request = parse(line, &copy);
            if (count <= 17 || i == 3) {
                assert_int_not_equal(request.verb, MEMCACHE_REFUSED);
            } else {
                assert_int_equal(request.verb, MEMCACHE_REFUSED);
                assert_string_equal(request.refusal, i == 0 ? "CLIENT_ERROR options flags are too long\r\n"
                                                            : "CLIENT_ERROR options flags too long\r\n");
            }
            free(copy);
        }
    }
}

/* The value behind a line that was refused is skipped if its length is known. */
static void refused_values(void **state)
{
    (void)state;
    const struct {
        const char *line;
        bool swallow;
        uint32_t bytes;
    } lines[] = {
        {"ms a 5 z", true, 5},
        {"ms a 7 MX q", true, 7},
        {"ms !!! 9 b", true, 9},
        {"ms a x z", false, 0},
        {"ms a", false, 0},
        {"mg a z", false, 0},
        {"ma a MX", false, 0},
        {"ms " KEY250 "k 5", true, 5},
        {"ms a 5 k 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7", true, 5},
    };
    for (size_t i = 0; i < base_array_count(lines); i++) {
        char *copy;
        struct memcache_request request = parse(lines[i].line, &copy);
        assert_int_equal(request.verb, MEMCACHE_REFUSED);
        assert_int_equal(request.swallow, lines[i].swallow);
        if (request.swallow)
            assert_int_equal(request.value_bytes, lines[i].bytes);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verbs_and_keys),
        cmocka_unit_test(flags_and_tokens),
        cmocka_unit_test(flags_that_mean_nothing_here),
        cmocka_unit_test(refused_lines),
        cmocka_unit_test(lines_of_many_words),
        cmocka_unit_test(refused_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
