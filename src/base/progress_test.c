/* Does the bar fit its terminal, wipe itself, and stay away where no line can be wiped? */
#include "base/testing.h"

#include <fcntl.h>
#include <termios.h>

#include "base/progress.h"
#include "base/units.h"

static uint64_t read_time(void *arg)
{
    return *(uint64_t *)arg;
}

/* A pseudo terminal: what is written to `screen` can be read from `master`. */
struct terminal {
    int master;
    FILE *screen;
};

static void terminal_open(struct terminal *terminal)
{
    terminal->master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(terminal->master >= 0);
    assert_int_equal(grantpt(terminal->master), 0);
    assert_int_equal(unlockpt(terminal->master), 0);
    int slave = open(ptsname(terminal->master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    struct termios raw;
    tcgetattr(slave, &raw);
    cfmakeraw(&raw);
    tcsetattr(slave, TCSANOW, &raw);
    terminal->screen = fdopen(slave, "w");
    assert_non_null(terminal->screen);
}

/* A terminal delivers in its own time: write a mark behind what is expected, and read up to it. */
static void assert_shown(struct terminal *terminal, const char *expected)
{
    char text[1024];
    size_t len = 0;
    fputc('$', terminal->screen);
    fflush(terminal->screen);
    do {
        ssize_t bytes = read(terminal->master, text + len, 1);
        assert_int_equal(bytes, 1);
    } while (text[len++] != '$');
    text[len - 1] = '\0';
    assert_string_equal(text, expected);
}

static void test_drawing(void **state base_unused)
{
    struct terminal terminal;
    struct base_progress progress;
    uint64_t now_ns = 500;
    terminal_open(&terminal);
    base_progress_init(&progress, terminal.screen, "load", "keys", 1000, read_time, &now_ns);
    now_ns += BASE_NS_PER_SECOND - 1;
    base_progress_update(&progress, 100);
    assert_shown(&terminal, "");
    now_ns += 1;
    base_progress_update(&progress, 100);
    assert_shown(&terminal, "load [##..................]  10%  100 of 1000 keys  100/s  9.00 s left\033[K\r");
    now_ns += 100 * BASE_NS_PER_MS - 1;
    base_progress_update(&progress, 200);
    assert_shown(&terminal, "");
    now_ns += 1 + 900 * BASE_NS_PER_MS;
    base_progress_update(&progress, 1000);
    assert_shown(&terminal, "load [####################] 100%  1000 of 1000 keys  500/s\033[K\r");
    base_progress_end(&progress);
    assert_shown(&terminal, "\033[K");
    base_progress_update(&progress, 1000);
    base_progress_end(&progress);
    assert_shown(&terminal, "");
    fclose(terminal.screen);
    close(terminal.master);
}

static void test_silent_when_short(void **state base_unused)
{
    struct terminal terminal;
    struct base_progress progress;
    uint64_t now_ns = 0;
    terminal_open(&terminal);
    base_progress_init(&progress, terminal.screen, "load", "keys", 1000, read_time, &now_ns);
    now_ns = 900 * BASE_NS_PER_MS;
    base_progress_update(&progress, 1000);
    now_ns = 5 * BASE_NS_PER_SECOND;
    base_progress_end(&progress);
    assert_shown(&terminal, "");
    fclose(terminal.screen);
    close(terminal.master);
}

static void test_silent_where_nothing_is_wiped(void **state base_unused)
{
    struct terminal terminal;
    struct base_progress progress;
    uint64_t now_ns = 0;
    terminal_open(&terminal);
    (void)setenv("TERM", "dumb", 1);
    base_progress_init(&progress, terminal.screen, "load", "keys", 1000, read_time, &now_ns);
    (void)setenv("TERM", "xterm", 1);
    now_ns = 5 * BASE_NS_PER_SECOND;
    base_progress_update(&progress, 500);
    base_progress_end(&progress);
    assert_shown(&terminal, "");
    fclose(terminal.screen);
    close(terminal.master);
}

static void test_silent_without_terminal(void **state base_unused)
{
    char *text = NULL;
    size_t len = 0;
    FILE *memory = open_memstream(&text, &len);
    FILE *file = tmpfile();
    FILE *const files[] = {memory, file};
    for (size_t i = 0; i < base_array_count(files); i++) {
        struct base_progress progress;
        uint64_t now_ns = 0;
        base_progress_init(&progress, files[i], "load", NULL, 1000, read_time, &now_ns);
        now_ns = 5 * BASE_NS_PER_SECOND;
        base_progress_update(&progress, 500);
        base_progress_end(&progress);
    }
    assert_int_equal(ftell(file), 0);
    fclose(memory);
    fclose(file);
    assert_int_equal(len, 0);
    free(text);
}

static void test_format(void **state base_unused)
{
    struct base_progress progress = {.label = "zero", .total = UINT64_C(4) << 30};
    char line[128];
    base_progress_format(&progress, line, sizeof(line), UINT64_C(1) << 30, 2 * BASE_NS_PER_SECOND);
    assert_string_equal(line,
                        "zero [#####...............]  25%  1.00 GiB of 4.00 GiB  512 MiB/s  6.00 s left");
    base_progress_format(&progress, line, sizeof(line), 0, 0);
    assert_string_equal(line, "zero [....................]   0%  0 B of 4.00 GiB  0 B/s");
    /* More than was announced is shown as it is, and the bar stays whole. */
    base_progress_format(&progress, line, sizeof(line), UINT64_C(5) << 30, BASE_NS_PER_SECOND);
    assert_string_equal(line, "zero [####################] 100%  5.00 GiB of 4.00 GiB  5.00 GiB/s");
    progress.total = 0;
    progress.unit = "keys";
    base_progress_format(&progress, line, sizeof(line), 30, 3 * BASE_NS_PER_SECOND);
    assert_string_equal(line, "zero  30 keys  10/s");
    assert_int_equal(strlen(base_progress_format(&progress, line, 6, 30, BASE_NS_PER_SECOND)), 5);
    /* So slow that no time can be told. */
    progress.total = UINT64_MAX;
    base_progress_format(&progress, line, sizeof(line), 1, UINT64_MAX);
    assert_null(strstr(line, "left"));
}

int main(void)
{
    (void)setenv("TERM", "xterm", 1); /* what it is here does not matter */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drawing),
        cmocka_unit_test(test_silent_when_short),
        cmocka_unit_test(test_silent_where_nothing_is_wiped),
        cmocka_unit_test(test_silent_without_terminal),
        cmocka_unit_test(test_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
