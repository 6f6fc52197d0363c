/* tarn top: what a running server does, and where the time of its requests goes. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "memcache/client.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <tarn/depot.h>
#include <unistd.h>

#define DEFAULT_ADDRESS "127.0.0.1:11211"
#define REPLY_ROOM      (64 << 10)
#define VALUE_ROOM      64
#define VIEW_ROOM       (16 << 10) /* of text, whatever a server says */
#define PATIENCE_NS     (10 * BASE_NS_PER_SECOND)
#define AGAIN_NS        BASE_NS_PER_SECOND /* until a server that is gone is looked for again */
#define NAME_COLUMNS    8
#define TIME_COLUMNS    11 /* of a number and the space before it */

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
     .help = "End after this many; 0 is when interrupted.",
     AT(count)},
};
static const struct cli_arguments arguments = {top_settings, base_array_count(top_settings)};

void cli_top_help(FILE *file)
{
    (void)fputs(
        "Shows what the server at ADDRESS (HOST:PORT or unix:PATH; " DEFAULT_ADDRESS
        " if none is given) does:\n"
        "operations a second, and for each stage of its requests how often and how long. Times are in\n"
        "microseconds, since the server's start or the last `stats reset`. On a terminal one screen, again\n"
        "and again until q is typed, also when the server is started anew meanwhile; else one after the\n"
        "other. A server that is memcached has no stages.\n\n",
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

/* A server that is asked, and the terminal, whose user may not want to wait for it. */
struct watch {
    const char *address;
    const struct memcache_client_address *where;
    const struct top_options *options;
    struct cli_terminal terminal;
    int fd; /* -1: it is not connected */
    struct look looks[2];
};

/* @return bytes; 0: the connection is closed; -ECANCELED: nobody wants to know any more; else what went wrong */
static ssize_t receive_reply(const struct watch *watch, char *to, size_t room, uint64_t deadline_ns)
{
    switch (cli_terminal_wait(&watch->terminal, watch->fd, deadline_ns)) {
    case CLI_WAIT_QUIT:
        return -ECANCELED;
    case CLI_WAIT_LATE:
        return -ETIMEDOUT;
    default:
        break;
    }
    ssize_t bytes = recv(watch->fd, to, room, 0);
    return bytes < 0 ? -errno : bytes;
}

/* @return 0: statistics; -EOPNOTSUPP: another line, of an error; -ECANCELED; else the connection is over */
static int ask_server(const struct watch *watch, const char *command, char reply[REPLY_ROOM])
{
    const uint64_t deadline_ns = task_now() + PATIENCE_NS;
    size_t len = 0;
    if (send(watch->fd, command, strlen(command), MSG_NOSIGNAL) != (ssize_t)strlen(command))
        return -EPIPE;
    while (!is_whole(reply, len)) {
        if (len == REPLY_ROOM - 1)
            return -EMSGSIZE;
        ssize_t bytes = receive_reply(watch, reply + len, REPLY_ROOM - 1 - len, deadline_ns);
        if (bytes == -EINTR)
            continue;
        if (bytes <= 0)
            return bytes == 0 ? -ECONNRESET : (int)bytes;
        len += (size_t)bytes;
    }
    reply[len] = '\0';
    return memcmp(reply, "STAT ", 5) == 0 ? 0 : -EOPNOTSUPP;
}

/* The same of what not every server tells. */
static int ask_more(const struct watch *watch, const char *command, char reply[REPLY_ROOM])
{
    int error = ask_server(watch, command, reply);
    if (error != -EOPNOTSUPP)
        return error;
    reply[0] = '\0';
    return 0;
}

static int look_at_server(const struct watch *watch, struct look *ret_look)
{
    int error = ask_server(watch, "stats\r\n", ret_look->general);
    ret_look->at_ns = task_now();
    if (error == 0)
        error = ask_more(watch, "stats stages\r\n", ret_look->stages);
    if (error == 0)
        error = ask_more(watch, "stats calls\r\n", ret_look->calls);
    return error;
}

static double number(const char *reply, const char *name)
{
    char text[VALUE_ROOM], *end;
    const char *value;
    size_t len = memcache_client_find_stat(reply, name, &value);
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
    unsigned columns;
    FILE *file; /* where lines go */
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

static void show_size(const struct view *view, const char *label, double bytes, const char *behind)
{
    char size[BASE_UNITS_ROOM];
    (void)fprintf(view->file, "%s %s%s", label, base_format_size(size, sizeof(size), (uint64_t)bytes),
                  behind);
}

static void show_general(const struct view *view)
{
    const char *now = view->now->general, *version = "";
    char quoted[VALUE_ROOM], up[BASE_UNITS_ROOM];
    size_t len = memcache_client_find_stat(now, "version", &version);
    double gets = general_rate(view, "cmd_get"), hits = general_rate(view, "get_hits");
    (void)fprintf(view->file, "%s  version %s  up %s  %.0f threads  %.0f connections\n", view->address,
                  base_log_quote(quoted, sizeof(quoted), version, len),
                  base_format_duration(up, sizeof(up), (uint64_t)number(now, "uptime") * BASE_NS_PER_SECOND),
                  number(now, "threads"), number(now, "curr_connections"));
    (void)fprintf(view->file, "holds     %.0f records", number(now, "curr_items"));
    show_size(view, ",", number(now, "bytes"), "");
    show_size(view, " of", number(now, "limit_maxbytes"), "");
    show_size(view, ";  memory", number(now, "memory_used_bytes"), "\n");
    (void)fprintf(view->file, "a second  %.0f gets (%.1f %% hits)  %.0f sets  %.0f touches", gets,
                  gets > 0 ? 100 * hits / gets : 0, general_rate(view, "cmd_set"),
                  general_rate(view, "cmd_touch"));
    show_size(view, "  in", general_rate(view, "bytes_read"), "");
    show_size(view, "  out", general_rate(view, "bytes_written"), "\n");
    double found = general_rate(view, "store_hot_hits"), missed = general_rate(view, "store_hot_misses");
    if (number(now, "store_hot_bytes") > 0) {
        (void)fprintf(view->file, "hot       %.0f records", number(now, "store_hot_records"));
        show_size(view, ",", number(now, "store_hot_bytes"), "");
        (void)fprintf(view->file, ";  %.1f %% of records that were read\n",
                      found + missed > 0 ? 100 * found / (found + missed) : 0);
    }
    (void)fprintf(view->file, "drive     %.0f reads  %.0f writes  %.0f flushes a second",
                  general_rate(view, "store_reads"), general_rate(view, "store_writes"),
                  general_rate(view, "store_flushes"));
    show_size(view, ", writes", general_rate(view, "store_written_bytes"), " of it\n");
}

/* Tarn's own protocol, at each place where it is spoken. */
static void show_calls(const struct view *view)
{
    const char *before = view->before->calls, *now = view->now->calls, *found;
    for (unsigned place = 0;; place++) {
        static const char *const whats[] = {"calls", "fetched", "changes", "connections", "fabric"};
        char names[base_array_count(whats)][VALUE_ROOM], quoted[VALUE_ROOM];
        for (size_t i = 0; i < base_array_count(whats); i++)
            (void)snprintf(names[i], sizeof(names[i]), "%u:%s", place, whats[i]);
        size_t len = memcache_client_find_stat(now, names[4], &found);
        if (len == 0)
            return;
        (void)fprintf(
            view->file,
            "calls     %.0f a second (%.0f fetched)  %.0f changes in all  %.0f connections, over %s\n",
            rate(view, before, now, names[0]), rate(view, before, now, names[1]), number(now, names[2]),
            number(now, names[3]), base_log_quote(quoted, sizeof(quoted), found, len));
    }
}

/* Times of a stage; those that come first where there is no room for all. */
static const struct {
    const char *name, *title;
    unsigned columns; /* that the terminal has at least */
} times[] = {
    {"p50", "p50", 0}, {"p90", "p90", 64}, {"p99", "p99", 40}, {"p999", "p99.9", 75}, {"max", "max", 53}};

/* Of those that are measured, one in `interval`, tells how many there were in all. */
static void show_stage(const struct view *view, enum tarn_stage stage, double interval)
{
    bool whole = stage >= TARN_STAGE_GET, all = stage == TARN_STAGE_WRITE || stage == TARN_STAGE_FLUSH;
    const char *name = tarn_stage_name(stage);
    char full[VALUE_ROOM];
    (void)snprintf(full, sizeof(full), "%s_%s_count", whole ? "op" : "stage", name);
    (void)fprintf(view->file, "%-*s%*.0f", NAME_COLUMNS, name, TIME_COLUMNS - 1,
                  rate(view, view->before->stages, view->now->stages, full) * (all ? 1 : interval));
    for (size_t i = 0; i < base_array_count(times); i++) {
        (void)snprintf(full, sizeof(full), "%s_%s_%s_us", whole ? "op" : "stage", name, times[i].name);
        if (view->columns >= times[i].columns)
            (void)fprintf(view->file, " %*.1f", TIME_COLUMNS - 1, number(view->now->stages, full));
    }
    (void)putc('\n', view->file);
}

static void show_stages(const struct view *view)
{
    double interval = number(view->now->stages, "measure_interval");
    if (view->now->stages[0] == '\0') {
        (void)fputs("\nIt does not tell where the time goes: it is no tarn, or an older one.\n", view->file);
        return;
    }
    (void)fprintf(view->file, "\n%-*s%*s", NAME_COLUMNS, "us", TIME_COLUMNS - 1, "a second");
    for (size_t i = 0; i < base_array_count(times); i++) {
        if (view->columns >= times[i].columns)
            (void)fprintf(view->file, " %*s", TIME_COLUMNS - 1, times[i].title);
    }
    (void)putc('\n', view->file);
    for (unsigned stage = 0; stage < TARN_STAGE_COUNT; stage++) {
        if (stage == TARN_STAGE_GET)
            (void)putc('\n', view->file);
        show_stage(view, (enum tarn_stage)stage, interval);
    }
    (void)fprintf(view->file, "\nOne request in %.0f is measured; a second: about so many.\n", interval);
}

/* Print a view whole. @return CLI_OK; CLI_FAILED: said */
static int show(const struct watch *watch, const struct view *to_show)
{
    struct view view = *to_show;
    char text[VIEW_ROOM];
    view.columns = cli_terminal_columns(&watch->terminal);
    view.file = fmemopen(text, sizeof(text), "w");
    if (view.file == NULL)
        return cli_failed("cannot print: %s", strerrordesc_np(errno));
    show_general(&view);
    show_calls(&view);
    show_stages(&view);
    int error = fclose(view.file) == 0 ? cli_terminal_print(&watch->terminal, text) : -ENOSPC;
    return error == 0 ? CLI_OK : cli_failed("cannot print: %s", strerrordesc_np(-error));
}

/* ---- again and again ----------------------------------------------------------------------------- */

static const char *reason(int error)
{
    switch (error) {
    case -EOPNOTSUPP:
        return "it does not tell statistics";
    case -EMSGSIZE:
        return "its answer has no end";
    case -ECONNREFUSED:
        return "nobody listens there: start the server, or name its address (--listen, --port, --unix)";
    case -ENOENT:
        return "there is no such host or socket: name the server's address (--listen, --port, --unix)";
    case -EACCES:
        return "its socket is not for this user (--unix-mask and --unix-group of the server)";
    case -ECONNRESET:
    case -EPIPE:
        return "it has closed the connection: it has ended, or has as many connections as may be";
    case -ETIMEDOUT:
        return "it does not answer";
    default:
        return strerrordesc_np(-error);
    }
}

static void disconnect(struct watch *watch)
{
    if (watch->fd >= 0)
        (void)close(watch->fd);
    watch->fd = -1;
}

/* Connect, and look once. @return 0; -ECANCELED; what went wrong: it is not connected */
static int begin_look(struct watch *watch)
{
    watch->fd = memcache_client_connect(watch->where);
    if (watch->fd < 0)
        return watch->fd;
    int error = look_at_server(watch, &watch->looks[0]);
    if (error != 0)
        disconnect(watch);
    return error;
}

/* A server that was there is gone: look for it until it is there again. @return 0; -ECANCELED; else the reason: nobody waits */
static int await_server(struct watch *watch, int error)
{
    char text[256];
    disconnect(watch);
    while (error != 0 && error != -ECANCELED) {
        if (!watch->terminal.is_screen)
            return error;
        (void)snprintf(text, sizeof(text), "%s is gone: %s. Looking for it again; q ends this.\n",
                       watch->address, reason(error));
        if (cli_terminal_print(&watch->terminal, text) != 0)
            return error;
        error = cli_terminal_wait(&watch->terminal, -1, task_now() + AGAIN_NS) == CLI_WAIT_QUIT
                    ? -ECANCELED
                    : begin_look(watch);
    }
    return error;
}

/* One look after the other. @return CLI_OK; CLI_FAILED: said */
static int look_on(struct watch *watch)
{
    const struct top_options *options = watch->options;
    int error = begin_look(watch);
    uint64_t shown = 0;
    if (error != 0 && error != -ECANCELED)
        return cli_failed("cannot reach %s: %s", watch->address, reason(error));
    while (error == 0 && (options->count == 0 || shown < options->count)) {
        struct look *before = &watch->looks[0], *now = &watch->looks[1];
        if (cli_terminal_wait(&watch->terminal, -1, task_now() + options->interval_ns) == CLI_WAIT_QUIT)
            return CLI_OK;
        error = look_at_server(watch, now);
        if (error != 0) {
            error = error == -ECANCELED ? error : await_server(watch, error);
            continue;
        }
        const struct view view = {.address = watch->address,
                                  .before = before,
                                  .now = now,
                                  .seconds = base_max((double)(now->at_ns - before->at_ns), 1.0) /
                                             (double)BASE_NS_PER_SECOND};
        int status = show(watch, &view);
        if (status != CLI_OK)
            return status;
        *before = *now;
        shown++;
    }
    return error == 0 || error == -ECANCELED
               ? CLI_OK
               : cli_failed("cannot watch %s: %s", watch->address, reason(error));
}

static int watch_server(const char *address, const struct memcache_client_address *where,
                        const struct top_options *options)
{
    struct watch watch = {.address = address, .where = where, .options = options, .fd = -1};
    int error = cli_terminal_begin(&watch.terminal);
    if (error != 0)
        return cli_failed("cannot begin: %s", strerrordesc_np(-error));
    int status = look_on(&watch);
    cli_terminal_end(&watch.terminal);
    disconnect(&watch);
    return status;
}

static int run_top(const void *options, const char *const *words, size_t count)
{
    static const char prefix[] = "memcache://";
    const char *address = count == 0 ? DEFAULT_ADDRESS : words[0];
    struct memcache_client_address found;
    if (count > 1)
        return cli_usage("top takes the address of a server");
    if (strncmp(address, prefix, sizeof(prefix) - 1) == 0)
        address += sizeof(prefix) - 1;
    int error = memcache_client_address_read(address, &found);
    if (error == -EINVAL)
        return cli_usage("%s is no address: HOST:PORT or unix:PATH", address);
    return error == 0 ? watch_server(address, &found, options)
                      : cli_failed("cannot reach %s: %s", address, reason(error));
}

int cli_top(int argc, char **argv)
{
    struct top_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run_top);
}
