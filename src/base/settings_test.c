/* Does a setting take what its help promises, and nothing else, from wherever it comes? */
#include "base/testing.h"

#include "base/settings.h"
#include "base/units.h"

struct options {
    bool help;
    bool cache;
    bool direct;
    uint64_t port;
    uint64_t memory;
    uint64_t timeout;
    const char *listen;
    const char *token;
    unsigned sync;
    struct base_setting_list data;
    struct base_setting_list stores;
};

static const char *const sync_choices[] = {"always", "batch", "never", NULL};

static const struct base_setting table[] = {
    {.name = "help",
     .type = BASE_SETTING_BOOL,
     .letter = 'h',
     .flags = BASE_SETTING_COMMAND_ONLY,
     .help = "Show this text.",
     .offset = offsetof(struct options, help)},
    {.name = "cache",
     .type = BASE_SETTING_BOOL,
     .letter = 'c',
     .help = "Evict when full.",
     .offset = offsetof(struct options, cache)},
    {.name = "direct",
     .type = BASE_SETTING_BOOL,
     .default_text = "yes",
     .help = "Use direct I/O.",
     .offset = offsetof(struct options, direct)},
    {.name = "port",
     .type = BASE_SETTING_UINT,
     .letter = 'p',
     .metavar = "PORT",
     .min = 1,
     .max = 65535,
     .default_text = "11211",
     .help = "Port to listen on.",
     .offset = offsetof(struct options, port)},
    {.name = "memory",
     .type = BASE_SETTING_SIZE,
     .letter = 'm',
     .min = 1 << 20,
     .default_text = "1G",
     .help = "Memory to use at most; every table, pool and stack counts, and what the kernel holds for the "
             "process does not. It is never passed.",
     .offset = offsetof(struct options, memory)},
    {.name = "idle-timeout",
     .type = BASE_SETTING_DURATION,
     .max = 3600 * BASE_NS_PER_SECOND,
     .default_text = "30s",
     .help = "Close connections that are idle.",
     .offset = offsetof(struct options, timeout)},
    {.name = "listen",
     .type = BASE_SETTING_STRING,
     .letter = 'l',
     .min = 1,
     .max = 10,
     .metavar = "ADDRESS",
     .help = "Address to listen on.",
     .offset = offsetof(struct options, listen)},
    {.name = "token",
     .type = BASE_SETTING_STRING,
     .max = 8,
     .flags = BASE_SETTING_SECRET | BASE_SETTING_HIDDEN,
     .help = "Secret.",
     .offset = offsetof(struct options, token)},
    {.name = "sync",
     .type = BASE_SETTING_ENUM,
     .choices = sync_choices,
     .default_text = "batch",
     .help = "When to flush.",
     .offset = offsetof(struct options, sync)},
    {.name = "data",
     .type = BASE_SETTING_LIST,
     .letter = 'd',
     .max = 3,
     .metavar = "FILE[,FILE...]",
     .help = "Where to keep the data.",
     .offset = offsetof(struct options, data)},
    {.name = "store",
     .type = BASE_SETTING_REPEATED,
     .letter = 's',
     .max = 3,
     .help = "A store.",
     .offset = offsetof(struct options, stores)},
    {.name = "slabs",
     .type = BASE_SETTING_STRING,
     .letter = 'f',
     .flags = BASE_SETTING_REFUSED | BASE_SETTING_HIDDEN,
     .help = "there are none"},
};

struct fixture {
    struct base_account account;
    struct base_settings_arena arena;
    struct options options;
    struct base_settings settings;
    char error[BASE_SETTINGS_ERROR_ROOM];
    char words[256]; /* of the last command line */
    const char *positional[16];
    size_t positional_count;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    base_account_init(&fixture->account, BASE_ACCOUNT_UNLIMITED);
    base_settings_arena_init(&fixture->arena, &fixture->account);
    memset(&fixture->options, 0xee, sizeof(fixture->options));
    fixture->settings =
        (struct base_settings){table, base_array_count(table), &fixture->options, &fixture->arena};
    *state = fixture;
    return base_settings_set_defaults(&fixture->settings, fixture->error, sizeof(fixture->error));
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    base_settings_arena_deinit(&fixture->arena);
    base_account_deinit(&fixture->account);
    free(fixture);
    return 0;
}

/* Parse words between spaces; the options borrow from the copy in the fixture. */
static int parse(struct fixture *fixture, const char *line)
{
    char *words = fixture->words;
    char *argv[16];
    int argc = 0;
    snprintf(words, sizeof(fixture->words), "%s", line);
    for (char *rest = words, *word; (word = strsep(&rest, " ")) != NULL;) {
        if (*word != '\0')
            argv[argc++] = word;
    }
    fixture->error[0] = '\0';
    return base_settings_parse_arguments(&fixture->settings, argc, argv, fixture->positional,
                                         &fixture->positional_count, fixture->error, sizeof(fixture->error));
}

static int parse_text(struct fixture *fixture, const char *text)
{
    fixture->error[0] = '\0';
    return base_settings_parse_file_text(&fixture->settings, "t.conf", text, strlen(text), fixture->error,
                                         sizeof(fixture->error));
}

static void test_defaults(void **state)
{
    struct fixture *fixture = *state;
    const struct options *options = &fixture->options;
    assert_false(options->cache);
    assert_true(options->direct);
    assert_int_equal(options->port, 11211);
    assert_int_equal(options->memory, 1 << 30);
    assert_true(options->timeout == 30 * BASE_NS_PER_SECOND);
    assert_null(options->listen);
    assert_int_equal(options->sync, 1);
    assert_int_equal(options->data.count, 0);
}

static void test_command_line(void **state)
{
    struct fixture *fixture = *state;
    const struct options *options = &fixture->options;
    assert_int_equal(
        parse(fixture, "one --port=1 --cache --no-direct --memory 64M two --data=a,b -- --port three"), 0);
    assert_int_equal(options->port, 1);
    assert_true(options->cache);
    assert_false(options->direct);
    assert_int_equal(options->memory, 64 << 20);
    assert_int_equal(options->data.count, 2);
    assert_string_equal(options->data.items[0], "a");
    assert_string_equal(options->data.items[1], "b");
    assert_int_equal(fixture->positional_count, 4);
    assert_string_equal(fixture->positional[0], "one");
    assert_string_equal(fixture->positional[1], "two");
    assert_string_equal(fixture->positional[2], "--port");
    assert_string_equal(fixture->positional[3], "three");
    assert_int_equal(parse(fixture, "-p 7 -m2M -ch --direct=on --listen=x=y --sync never - --idle-timeout=0"),
                     0);
    assert_int_equal(options->port, 7);
    assert_int_equal(options->memory, 2 << 20);
    assert_true(options->help && options->direct);
    assert_string_equal(options->listen, "x=y");
    assert_int_equal(options->sync, 2);
    assert_int_equal(options->timeout, 0);
    assert_int_equal(fixture->positional_count, 1);
    assert_string_equal(fixture->positional[0], "-");
    /* A later list replaces, a cluster may end in a value, the value may look like an option. */
    assert_int_equal(parse(fixture, "-d a -cd b -l --x"), 0);
    assert_int_equal(options->data.count, 1);
    assert_string_equal(options->data.items[0], "b");
    assert_string_equal(options->listen, "--x");
    assert_int_equal(parse(fixture, ""), 0);
    assert_int_equal(fixture->positional_count, 0);
}

struct failing {
    const char *input;
    const char *error;
};

static void test_command_line_errors(void **state)
{
    struct fixture *fixture = *state;
    static const struct failing cases[] = {
        {"--prot=1", "there is no setting \"prot\"; did you mean --port?"},
        {"--no-cahce", "there is no setting \"cahce\"; did you mean --no-cache?"},
        {"--idle-timeuot 5s", "there is no setting \"idle-timeuot\"; did you mean --idle-timeout?"},
        {"--portal=5", "there is no setting \"portal\"; did you mean --port?"},
        {"--tokens=1", "there is no setting \"tokens\""},
        {"--zzzzzzzz", "there is no setting \"zzzzzzzz\""},
        {"--=5", "there is no setting \"\""},
        {"--nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
         "there is no setting \"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\""},
        {"--port", "--port needs a value"},
        {"-p", "-p needs a value"},
        {"-cp", "-p needs a value"},
        {"-x", "there is no option \"-x\""},
        {"--no-port", "--no-port: port cannot be switched off"},
        {"--no-cache=yes", "--no-cache takes no value"},
        {"--port=0", "port: \"0\" is too little: at least 1"},
        {"--port=65536", "port: \"65536\" is too much: at most 65535"},
        {"--port=99999999999999999999", "port: \"99999999999999999999\" is more than 64 bits hold"},
        {"--port=http", "port: \"http\" is not a number"},
        {"--port=", "port: \"\" is not a number"},
        {"--memory=1023K", "memory: \"1023K\" is too little: at least 1M"},
        {"--memory=1x", "memory: \"1x\" is not a size, such as 512, 64K, 1G or 10MiB"},
        {"--idle-timeout=61m", "idle-timeout: \"61m\" is too much: at most 1h"},
        {"--idle-timeout=5", "idle-timeout: \"5\" is not a time, such as 100us, 10ms, 5s, 2m, 1h or 7d"},
        {"--cache=maybe", "cache: \"maybe\" is neither yes nor no"},
        {"--sync=often", "sync: \"often\" is not one of always, batch, never"},
        {"--listen=", "listen: \"\" is too little: at least 1 bytes"},
        {"--listen=12345678901", "listen: \"12345678901\" is too much: at most 10 bytes"},
        {"--data=a,,b", "data: \"a,,b\" is a list with an empty item"},
        {"--data=a,b,c,d", "data: \"a,b,c,d\" is too much: at most 3 items"},
        {"--token=verysecret", "token: the value is too much: at most 8 bytes"},
        {"-f 1.25", "-f, --slabs: there are none"},
        {"--slabs=x", "-f, --slabs: there are none"},
        {"--port=1\n2", "port: \"1\\n2\" is not a number"},
    };
    for (size_t i = 0; i < base_array_count(cases); i++) {
        struct options before = fixture->options;
        fixture->positional_count = 99;
        assert_int_equal(parse(fixture, cases[i].input), -EINVAL);
        assert_string_equal(fixture->error, cases[i].error);
        assert_int_equal(fixture->positional_count, 99);
        /* -c stands before the failing letter of a cluster. */
        before.cache = fixture->options.cache;
        assert_memory_equal(&fixture->options, &before, sizeof(before));
    }
}

static void test_file(void **state)
{
    struct fixture *fixture = *state;
    const struct options *options = &fixture->options;
    assert_int_equal(parse_text(fixture, "# a comment\n"
                                         "\n"
                                         "  port = 80   # another\r\n"
                                         "memory=2M\n"
                                         "\tlisten =\"a # \\\"b\\\"\\n\\x41\"  # third\n"
                                         "token = x#y\n"
                                         "cache = yes\n"
                                         "data = a b , \"c\n"
                                         "idle-timeout = 5m"),
                     0);
    assert_int_equal(options->port, 80);
    assert_int_equal(options->memory, 2 << 20);
    assert_string_equal(options->listen, "a # \"b\"\nA");
    assert_string_equal(options->token, "x#y");
    assert_true(options->cache);
    assert_int_equal(options->data.count, 2);
    assert_string_equal(options->data.items[0], "a b");
    assert_string_equal(options->data.items[1], "\"c");
    assert_true(options->timeout == 300 * BASE_NS_PER_SECOND);
    assert_int_equal(parse_text(fixture, "data =\ntoken = # nothing\nlisten= a = b "), 0);
    assert_int_equal(options->data.count, 0);
    assert_string_equal(options->token, "");
    assert_string_equal(options->listen, "a = b");
    assert_int_equal(parse_text(fixture, ""), 0);
}

static void test_file_errors(void **state)
{
    struct fixture *fixture = *state;
    static const struct failing cases[] = {
        {"port", "t.conf:1: a line must be: name = value"},
        {"\n\n= 5", "t.conf:3: a line must be: name = value"},
        {"port 5", "t.conf:1: a line must be: name = value"},
        {"cache = yes\npotr = 5\n", "t.conf:2: there is no setting \"potr\"; did you mean port?"},
        {"--port = 5", "t.conf:1: there is no setting \"--port\"; did you mean port?"},
        {"help = yes", "t.conf:1: help belongs on the command line, not in a file"},
        {"port = \"5", "t.conf:1: a quote that is not closed"},
        {"port = \"5\\\"", "t.conf:1: a quote that is not closed"},
        {"port = \"5\" 6", "t.conf:1: something behind the closing quote"},
        {"port = \"\\q\"", "t.conf:1: an unknown escape in the quotes"},
        {"port = \"\\x4\"", "t.conf:1: an unknown escape in the quotes"},
        {"port = \"\\x00\"", "t.conf:1: an unknown escape in the quotes"},
        {"port = \"\\", "t.conf:1: an unknown escape in the quotes"},
        {"port = 5 6", "t.conf:1: port: \"5 6\" is not a number"},
        {"port =", "t.conf:1: port: \"\" is not a number"},
        {"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn = 1",
         "t.conf:1: there is no setting \"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\""},
    };
    for (size_t i = 0; i < base_array_count(cases); i++) {
        assert_int_equal(parse_text(fixture, cases[i].input), -EINVAL);
        assert_string_equal(fixture->error, cases[i].error);
    }
    assert_int_equal(base_settings_parse_file_text(&fixture->settings, "z", "a\0b", 3, fixture->error,
                                                   sizeof(fixture->error)),
                     -EINVAL);
    assert_string_equal(fixture->error, "z:1: the line has a zero byte");
}

static void write_file(const char *path, const char *text, size_t repeat)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < repeat; i++)
        fputs(text, file);
    fclose(file);
}

static void test_file_on_disk(void **state)
{
    struct fixture *fixture = *state;
    char path[] = "/tmp/settings_test_XXXXXX";
    char expected[BASE_SETTINGS_ERROR_ROOM];
    size_t room = sizeof(fixture->error);
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    close(descriptor);
    write_file(path, "port = 81\n", 1);
    assert_int_equal(base_settings_parse_file(&fixture->settings, path, fixture->error, room), 0);
    assert_int_equal(fixture->options.port, 81);
    write_file(path, "# 789\n", 0);
    assert_int_equal(base_settings_parse_file(&fixture->settings, path, fixture->error, room), 0);
    write_file(path, "# 345678901234\n", BASE_SETTINGS_FILE_BYTES_MAX / 15 + 1);
    assert_int_equal(base_settings_parse_file(&fixture->settings, path, fixture->error, room), -EFBIG);
    snprintf(expected, sizeof(expected), "cannot read %s: File too large", path);
    assert_string_equal(fixture->error, expected);
    unlink(path);
    assert_int_equal(base_settings_parse_file(&fixture->settings, path, fixture->error, room), -ENOENT);
    snprintf(expected, sizeof(expected), "cannot read %s: No such file or directory", path);
    assert_string_equal(fixture->error, expected);
    assert_int_equal(base_settings_parse_file(&fixture->settings, "/", fixture->error, room), -EISDIR);
}

static void append_line(void *arg, const char *name, const char *value)
{
    char *text = arg;
    size_t used = strlen(text);
    snprintf(text + used, 2048 - used, "%s = %s\n", name, value);
}

static void test_dump(void **state)
{
    struct fixture *fixture = *state;
    char text[2048] = "";
    assert_int_equal(parse(fixture, "--memory=1536M --data=a,b --token=abc --cache --idle-timeout=90s"), 0);
    assert_int_equal(base_settings_set(&fixture->settings, "listen", " a#\t\"\\\x80", fixture->error, 100),
                     0);
    base_settings_dump(&fixture->settings, append_line, text);
    assert_string_equal(text, "help = no\n"
                              "cache = yes\n"
                              "direct = yes\n"
                              "port = 11211\n"
                              "memory = 1536M\n"
                              "idle-timeout = 90s\n"
                              "listen = \" a#\\t\\\"\\\\\\x80\"\n"
                              "token = (secret)\n"
                              "sync = batch\n"
                              "data = a,b\n"
                              "store = \n");
    /* A dump is a configuration file again, but for what belongs on the command line. */
    fixture->options.listen = NULL;
    fixture->options.memory = 0;
    assert_int_equal(parse_text(fixture, strchr(text, '\n') + 1), 0);
    assert_string_equal(fixture->options.listen, " a#\t\"\\\x80");
    assert_int_equal(fixture->options.memory, 1536 << 20);
}

static void test_set(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(base_settings_set(&fixture->settings, "port", "99", fixture->error, 100), 0);
    assert_int_equal(fixture->options.port, 99);
    assert_int_equal(base_settings_set(&fixture->settings, "ports", "99", fixture->error, 100), -EINVAL);
    assert_string_equal(fixture->error, "there is no setting \"ports\"; did you mean port?");
    /* A short buffer is no danger. */
    assert_int_equal(base_settings_set(&fixture->settings, "ports", "99", fixture->error, 6), -EINVAL);
    assert_string_equal(fixture->error, "there");
}

static char *print(struct fixture *fixture, void (*printer)(const struct base_settings *, FILE *))
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    printer(&fixture->settings, file);
    fclose(file);
    return text;
}

static void test_help(void **state)
{
    char *text = print(*state, base_settings_print_help);
    assert_string_equal(text,
                        "  -h, --help                  Show this text.\n"
                        "  -c, --cache                 Evict when full.\n"
                        "      --[no-]direct           Use direct I/O. [default yes]\n"
                        "  -p, --port=PORT             Port to listen on. [1 to 65535; default 11211]\n"
                        "  -m, --memory=SIZE           Memory to use at most; every table, pool and\n"
                        "                              stack counts, and what the kernel holds for the\n"
                        "                              process does not. It is never passed. [at least\n"
                        "                              1M; default 1G]\n"
                        "      --idle-timeout=TIME     Close connections that are idle. [0s to 1h;\n"
                        "                              default 30s]\n"
                        "  -l, --listen=ADDRESS        Address to listen on.\n"
                        "      --sync=always|batch|never\n"
                        "                              When to flush. [default batch]\n"
                        "  -d, --data=FILE[,FILE...]   Where to keep the data.\n"
                        "  -s, --store=ITEM            A store.\n");
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") < 80);
    free(text);
}

static void test_man(void **state)
{
    struct fixture *fixture = *state;
    char *text = print(fixture, base_settings_print_man);
    assert_non_null(strstr(text, ".TP\n\\fB\\-p\\fR, \\fB\\-\\-port\\fR=\\fIPORT\\fR\n"
                                 "Port to listen on. [1 to 65535; default 11211]\n"));
    assert_non_null(strstr(text, ".TP\n\\fB\\-\\-[no\\-]direct\\fR\n"));
    assert_non_null(strstr(text, "\\fB\\-\\-idle\\-timeout\\fR=\\fITIME\\fR\n"));
    assert_null(strstr(text, "token"));
    free(text);
    /* What roff would take for a request or an escape. */
    static const struct base_setting odd[] = {
        {.name = "odd", .type = BASE_SETTING_STRING, .help = ".so a\\nb\n'x", .default_text = "-"}};
    struct base_settings settings = {odd, 1, &fixture->options.listen, &fixture->arena};
    fixture->settings = settings;
    text = print(fixture, base_settings_print_man);
    assert_string_equal(text, ".TP\n\\fB\\-\\-odd\\fR=\\fITEXT\\fR\n\\&.so a\\enb\n\\&'x [default \\-]\n");
    free(text);
}

static void expect_stores(const struct fixture *fixture, size_t count, ...)
{
    va_list args;
    va_start(args, count);
    assert_int_equal(fixture->options.stores.count, count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(fixture->options.stores.items[i], va_arg(args, const char *));
    va_end(args);
}

/* Each source adds up; a later one replaces an earlier one, also when the command line is read before and after a file. */
static void test_repeated(void **state)
{
    struct fixture *fixture = *state;
    char text[2048] = "";
    expect_stores(fixture, 0);
    assert_int_equal(parse(fixture, "--store=a,x=1 -sb --store c"), 0);
    expect_stores(fixture, 3, "a,x=1", "b", "c");
    assert_int_equal(parse_text(fixture, "port = 80"), 0);
    expect_stores(fixture, 3, "a,x=1", "b", "c");
    base_settings_dump(&fixture->settings, append_line, text);
    assert_non_null(strstr(text, "store = a,x=1\nstore = b\nstore = c\n"));
    assert_int_equal(parse_text(fixture, "store = d\nport = 81\nstore = \"e, #\"\n"), 0);
    expect_stores(fixture, 2, "d", "e, #");
    assert_int_equal(parse(fixture, "-s f"), 0);
    expect_stores(fixture, 1, "f");
    assert_int_equal(base_settings_set(&fixture->settings, "store", "g", fixture->error, 100), 0);
    expect_stores(fixture, 2, "f", "g");
    assert_int_equal(parse(fixture, "-s h --store= --store=j"), 0);
    expect_stores(fixture, 1, "j");
    assert_int_equal(parse(fixture, "-sk -sl -sm -sn"), -EINVAL);
    assert_string_equal(fixture->error, "store: \"n\" is too much: at most 3 items");
    expect_stores(fixture, 3, "k", "l", "m");
    assert_int_equal(parse(fixture, "--store="), 0);
    expect_stores(fixture, 0);
}

static void a_list_ends(void **state)
{
    static const struct base_setting one[] = {{.name = "many", .type = BASE_SETTING_REPEATED, .help = ""}};
    struct fixture *fixture = *state;
    struct base_setting_list list;
    const struct base_settings settings = {one, 1, &list, &fixture->arena};
    assert_int_equal(base_settings_set_defaults(&settings, fixture->error, 100), 0);
    for (size_t i = 0; i < BASE_SETTING_LIST_MAX; i++)
        assert_int_equal(base_settings_set(&settings, "many", "x", fixture->error, 100), 0);
    assert_int_equal(base_settings_set(&settings, "many", "y", fixture->error, 100), -EINVAL);
    assert_string_equal(fixture->error, "many: \"y\" is one too many");
    assert_int_equal(list.count, BASE_SETTING_LIST_MAX);
}

static void test_no_memory(void **state)
{
    struct fixture *fixture = *state;
    char value[5000];
    memset(value, 'v', sizeof(value));
    value[sizeof(value) - 1] = '\0';
    base_account_fail_at(&fixture->account, 1);
    assert_int_equal(base_settings_set(&fixture->settings, "data", value, fixture->error, 100), -ENOMEM);
    assert_string_equal(fixture->error, "out of memory for settings");
    assert_int_equal(base_settings_set(&fixture->settings, "data", value, fixture->error, 100), 0);
    assert_string_equal(fixture->options.data.items[0], value);
    base_account_fail_at(&fixture->account, 1);
    assert_int_equal(base_settings_parse_file(&fixture->settings, "/dev/null", fixture->error, 100), -ENOMEM);
    base_settings_arena_deinit(&fixture->arena);
    base_settings_arena_init(&fixture->arena, &fixture->account);
    base_account_fail_at(&fixture->account, 1);
    assert_int_equal(parse_text(fixture, "port = 5"), -ENOMEM);
    assert_string_equal(fixture->error, "t.conf:1: out of memory for settings");
    assert_int_equal(base_settings_set(&fixture->settings, "data", "x", fixture->error, 100), 0);
}

static void set_defaults(void *arg)
{
    struct options options;
    struct base_settings_arena arena = {0};
    char error[64];
    struct base_settings settings = {arg, 2, &options, &arena};
    if (base_settings_set_defaults(&settings, error, sizeof(error)) != 0)
        exit(1);
}

static void test_wrong_tables_abort(void **state base_unused)
{
    struct base_setting right[2] = {
        {.name = "aa", .type = BASE_SETTING_UINT, .letter = 'a', .help = "", .offset = 8},
        {.name = "bb", .type = BASE_SETTING_UINT, .help = "", .offset = 16},
    };
    struct base_setting wrong[7][2];
    for (size_t i = 0; i < base_array_count(wrong); i++)
        memcpy(wrong[i], right, sizeof(right));
    wrong[0][1].name = "aa";
    wrong[1][1].letter = 'a';
    wrong[2][1].name = "Bb";
    wrong[3][1].name = "no-b";
    wrong[4][1].type = BASE_SETTING_ENUM;
    wrong[5][1].default_text = "x";
    wrong[6][1].min = 2;
    wrong[6][1].max = 1;
    assert_false(testing_aborts(set_defaults, right));
    for (size_t i = 0; i < base_array_count(wrong); i++)
        assert_true(testing_aborts(set_defaults, wrong[i]));
}

#define with_fixture(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(test_defaults),
        with_fixture(test_command_line),
        with_fixture(test_command_line_errors),
        with_fixture(test_file),
        with_fixture(test_file_errors),
        with_fixture(test_file_on_disk),
        with_fixture(test_dump),
        with_fixture(test_set),
        with_fixture(test_help),
        with_fixture(test_man),
        with_fixture(test_repeated),
        with_fixture(a_list_ends),
        with_fixture(test_no_memory),
        cmocka_unit_test(test_wrong_tables_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
