/* tarn top: what a running server does, and where the time of its requests goes. */
#include "bench/memcache_server.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/time.h>
#include <tarn/depot.h>
#include <unistd.h>

#define DEFAULT_ADDRESS "127.0.0.1:11211"
#define REPLY_ROOM      (64 << 10)
#define VALUE_ROOM      64
#define PATIENCE_S      10
#define CLEAR           "\033[H\033[J" /* of a terminal: to its first line, and nothing below */

struct top_options {
    uint64_t interval_ns;
    uint64_t count;
};

#define AT(field) .offset = offsetof(struct top_options, field)

static const struct base_setting top_settings[] = {
    {.name = "interval",
     .type = BASE_SETTING_DURATION,
     .min = 10 * BASE_NS_PER_MS,
     .max = 3600 * BASE_NS_PER_SECOND,
     .default_text = "1s",
     .help = "Time between two looks; rates are of the time since the last one.",
     AT(interval_ns)},
    {.name = "count",
     .type = BASE_SETTING_UINT,
     .default_text = "0",
     .unit = "times",
     .help = "End after so many; 0 is when interrupted.",
     AT(count)},
};
static const struct cli_arguments arguments = {top_settings, base_array_count(top_settings)};

void cli_top_help(FILE *file)
{
    (void)fputs(
        "Shows what the server at ADDRESS (HOST:PORT or unix:PATH; " DEFAULT_ADDRESS
        " if none is given) does:\n"
        "operations a second, and for each stage of its requests how often and how long. Times are in\n"
        "microseconds, since the server's start or the last `stats reset`. On a terminal one screen, again "
        "and\n"
        "again; else one after the other. A server that is memcached has no stages.\n\n",
        file);
    cli_print_options(&arguments, file);
}

/* ---- asking -------------------------------------------------------------------------------------- */

/* What a server has answered to `stats`, `stats stages` and `stats calls`. */
struct look {
    uint64_t at_ns;
    char general[REPLY_ROOM];
    char stages[REPLY_ROOM]; /* "" if it has none */
    char calls[REPLY_ROOM];  /* the same */
};

/* Whether the last line of a reply is there. */
static bool is_whole(const char *reply, size_t len)
{
    static const char end[] = "\r\nEND\r\n";
    if (len >= 5 && memcmp(reply + len - 2, "\r\n", 2) == 0 && memcmp(reply, "STAT ", 5) != 0)
        return true; /* one line */
    return len >= sizeof(end) - 1 && memcmp(reply + len - (sizeof(end) - 1), end, sizeof(end) - 1) == 0;
}

/* @return 0: statistics; -EOPNOTSUPP: another line, of an error; else the connection is over */
static int ask(int fd, const char *command, char reply[REPLY_ROOM])
{
    size_t len = 0;
    if (send(fd, command, strlen(command), MSG_NOSIGNAL) != (ssize_t)strlen(command))
        return -EPIPE;
    while (!is_whole(reply, len)) {
        if (len == REPLY_ROOM - 1)
            return -EMSGSIZE;
        ssize_t bytes = recv(fd, reply + len, REPLY_ROOM - 1 - len, 0);
        if (bytes < 0 && errno == EINTR)
            continue;
        if (bytes <= 0)
            return bytes == 0 ? -ECONNRESET : errno == EAGAIN ? -ETIMEDOUT : -errno;
        len += (size_t)bytes;
    }
    reply[len] = '\0';
    return memcmp(reply, "STAT ", 5) == 0 ? 0 : -EOPNOTSUPP;
}

/* The same of what not every server tells. */
static int ask_more(int fd, const char *command, char reply[REPLY_ROOM])
{
    int error = ask(fd, command, reply);
    if (error != -EOPNOTSUPP)
        return error;
    reply[0] = '\0';
    return 0;
}

static int look(int fd, struct look *ret_look)
{
    int error = ask(fd, "stats\r\n", ret_look->general);
    ret_look->at_ns = task_now();
    if (error == 0)
        error = ask_more(fd, "stats stages\r\n", ret_look->stages);
    if (error == 0)
        error = ask_more(fd, "stats calls\r\n", ret_look->calls);
    return error;
}

static double number(const char *reply, const char *name)
{
    char text[VALUE_ROOM], *end;
    const char *value;
    size_t len = bench_memcache_find_stat(reply, name, &value);
    if (len == 0 || len >= sizeof(text))
        return 0;
    memcpy(text, value, len);
    text[len] = '\0';
    double found = strtod(text, &end);
    return *end == '\0' && found >= 0 && found < 0x1p63 ? found : 0;
}

/* ---- showing ------------------------------------------------------------------------------------- */

/* Two looks, the second one just now. */
struct view {
    const char *address;
    const struct look *before, *now;
    double seconds;
};

/* What a counter has grown by each second; from 0 if it was set back. */
static double rate(const struct view *view, const char *before, const char *now, const char *name)
{
    double from = number(before, name), to = number(now, name);
    return (to >= from ? to - from : to) / view->seconds;
}

static double general_rate(const struct view *view, const char *name)
{
    return rate(view, view->before->general, view->now->general, name);
}

static void show_size(const char *label, double bytes, const char *behind)
{
    char size[BASE_UNITS_ROOM];
    (void)printf("%s %s%s", label, base_format_size(size, sizeof(size), (uint64_t)bytes), behind);
}

static void show_general(const struct view *view)
{
    const char *now = view->now->general, *version = "";
    char quoted[VALUE_ROOM], up[BASE_UNITS_ROOM];
    size_t len = bench_memcache_find_stat(now, "version", &version);
    double gets = general_rate(view, "cmd_get"), hits = general_rate(view, "get_hits");
    (void)printf("%s  version %s  up %s  %.0f threads  %.0f connections\n", view->address,
                 base_log_quote(quoted, sizeof(quoted), version, len),
                 base_format_duration(up, sizeof(up), (uint64_t)number(now, "uptime") * BASE_NS_PER_SECOND),
                 number(now, "threads"), number(now, "curr_connections"));
    (void)printf("holds     %.0f records", number(now, "curr_items"));
    show_size(",", number(now, "bytes"), "");
    show_size(" of", number(now, "limit_maxbytes"), "");
    show_size(";  memory", number(now, "memory_used_bytes"), "\n");
    (void)printf("a second  %.0f gets (%.1f %% hits)  %.0f sets  %.0f touches", gets,
                 gets > 0 ? 100 * hits / gets : 0, general_rate(view, "cmd_set"),
                 general_rate(view, "cmd_touch"));
    show_size("  in", general_rate(view, "bytes_read"), "");
    show_size("  out", general_rate(view, "bytes_written"), "\n");
    (void)printf("drive     %.0f reads  %.0f writes  %.0f flushes a second",
                 general_rate(view, "store_reads"), general_rate(view, "store_writes"),
                 general_rate(view, "store_flushes"));
    show_size(", writes", general_rate(view, "store_written_bytes"), " of it\n");
}

/* Tarn's own protocol, at each place where it is spoken. */
static void show_calls(const struct view *view)
{
    const char *before = view->before->calls, *now = view->now->calls, *found;
    for (unsigned door = 0;; door++) {
        static const char *const whats[] = {"calls", "fetched", "changes", "connections", "fabric"};
        char names[base_array_count(whats)][VALUE_ROOM], quoted[VALUE_ROOM];
        for (size_t i = 0; i < base_array_count(whats); i++)
            (void)snprintf(names[i], sizeof(names[i]), "%u:%s", door, whats[i]);
        size_t len = bench_memcache_find_stat(now, names[4], &found);
        if (len == 0)
            return;
        (void)printf(
            "calls     %.0f a second (%.0f fetched)  %.0f changes in all  %.0f connections, over %s\n",
            rate(view, before, now, names[0]), rate(view, before, now, names[1]), number(now, names[2]),
            number(now, names[3]), base_log_quote(quoted, sizeof(quoted), found, len));
    }
}

/* Of those that are measured, one in `interval`, tells how many there were in all. */
static void show_stage(const struct view *view, enum tarn_stage stage, double interval)
{
    static const char *const times[] = {"p50", "p90", "p99", "p999", "max"};
    bool whole = stage >= TARN_STAGE_GET, all = stage == TARN_STAGE_WRITE || stage == TARN_STAGE_FLUSH;
    const char *name = tarn_stage_name(stage);
    char full[VALUE_ROOM];
    (void)snprintf(full, sizeof(full), "%s_%s_count", whole ? "op" : "stage", name);
    (void)printf("%-8s %12.0f", name,
                 rate(view, view->before->stages, view->now->stages, full) * (all ? 1 : interval));
    for (size_t i = 0; i < base_array_count(times); i++) {
        (void)snprintf(full, sizeof(full), "%s_%s_%s_us", whole ? "op" : "stage", name, times[i]);
        (void)printf(" %11.1f", number(view->now->stages, full));
    }
    (void)putchar('\n');
}

static void show_stages(const struct view *view)
{
    double interval = number(view->now->stages, "measure_interval");
    if (view->now->stages[0] == '\0') {
        (void)puts("\nIt does not tell where the time goes: it is no tarn, or an older one.");
        return;
    }
    (void)printf("\n%-8s %12s %11s %11s %11s %11s %11s\n", "us", "a second", "p50", "p90", "p99", "p99.9",
                 "max");
    for (unsigned stage = 0; stage < TARN_STAGE_COUNT; stage++) {
        if (stage == TARN_STAGE_GET)
            (void)putchar('\n');
        show_stage(view, (enum tarn_stage)stage, interval);
    }
    (void)printf("\nOne request in %.0f is measured; a second: about so many.\n", interval);
}

static int show(const struct view *view)
{
    (void)fputs(isatty(STDOUT_FILENO) ? CLEAR : "", stdout);
    show_general(view);
    show_calls(view);
    show_stages(view);
    if (ferror(stdout) || fflush(stdout) != 0)
        return cli_failed("cannot print: %s", strerrordesc_np(errno));
    return CLI_OK;
}

/* ---- again and again ----------------------------------------------------------------------------- */

static int lost(const char *address, int error)
{
    const char *why = error == -EOPNOTSUPP ? "it does not tell statistics"
                      : error == -EMSGSIZE ? "its answer has no end"
                                           : strerrordesc_np(-error);
    return cli_failed("cannot watch %s: %s", address, why);
}

static int watch(const char *address, int fd, const struct top_options *options)
{
    struct look looks[2];
    int error = look(fd, &looks[0]), status = CLI_OK;
    for (uint64_t i = 0; error == 0 && status == CLI_OK && (options->count == 0 || i < options->count); i++) {
        const struct look *before = &looks[i % 2];
        struct look *now = &looks[(i + 1) % 2];
        (void)task_sleep(options->interval_ns);
        error = look(fd, now);
        const struct view view = {address, before, now,
                                  base_max((double)(now->at_ns - before->at_ns), 1.0) /
                                      (double)BASE_NS_PER_SECOND};
        if (error == 0)
            status = show(&view);
    }
    return error == 0 ? status : lost(address, error);
}

static int run(const void *options, const char *const *words, size_t count)
{
    static const char prefix[] = "memcache://";
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    const char *address = count == 0 ? DEFAULT_ADDRESS : words[0];
    struct bench_memcache_address found;
    if (count > 1)
        return cli_usage("top takes the address of a server");
    if (strncmp(address, prefix, sizeof(prefix) - 1) == 0)
        address += sizeof(prefix) - 1;
    int error = bench_memcache_address_read(address, &found);
    if (error == -EINVAL)
        return cli_usage("%s is no address: HOST:PORT or unix:PATH", address);
    int fd = error == 0 ? bench_memcache_connect(&found) : error;
    if (fd < 0)
        return cli_failed("cannot reach %s: %s", address,
                          error == -ENOENT ? "no such host" : strerrordesc_np(-fd));
    int status;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0)
        status = lost(address, -errno);
    else
        status = watch(address, fd, options);
    (void)close(fd);
    return status;
}

int cli_top(int argc, char **argv)
{
    struct top_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run);
}
