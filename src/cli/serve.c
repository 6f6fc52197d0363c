/* tarn serve: settings, signals, and the server in between. */
#include "serve/serve.h"
#include "cli/cli.h"
#include "cli/fault.h"
#include "cli/process.h"
#include "cli/serve_dump.h"
#include "cli/store.h"
#include "cli/systemd.h"
#include <errno.h>
#include <signal.h>
#include <tarn/tarn.h>
#include <unistd.h>

static struct base_settings settings_of(struct serve_options *options, struct base_settings_arena *arena)
{
    return (struct base_settings){
        .table = serve_settings, .count = serve_settings_count, .options = options, .arena = arena};
}

void cli_serve_help(FILE *file)
{
    const struct base_settings settings = settings_of(NULL, NULL);
    base_settings_print_help(&settings, file);
}

/* ---- signals ------------------------------------------------------------------------------------- */

/* Those that end it, and those that ask for something. */
static sigset_t held_signals(void)
{
    sigset_t set = cli_ending_signals();
    (void)sigaddset(&set, SIGUSR1);
    (void)sigaddset(&set, SIGHUP);
    return set;
}

/* Before there are threads: they inherit that these wait for await_end(). */
static void hold_signals(void)
{
    const sigset_t set = held_signals();
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL); /* a client that is gone is an error of its connection */
}

/* Whether the end was asked for. */
static bool is_to_end(void *arg)
{
    (void)arg;
    sigset_t pending;
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

/* SIGUSR1: this thread has nothing else to do. */
static void dump(const struct serve *server)
{
    bool is_any = false;
    for (uint32_t i = 0; i < serve_store_count(server); i++) {
        if (serve_dump_path(server, i) == NULL)
            continue;
        cli_serve_dump(server, i, is_to_end, NULL);
        is_any = true;
    }
    if (!is_any)
        base_warn(&serve_node(server)->log, "SIGUSR1 asks for a dump",
                  "remedy=\"name a file with --dump, or with dump=FILE in --store\"");
}

/* A signal that does not ask for the end. @param server  NULL: it is a space's, which has nothing to do then */
static void obey(struct serve *server, int number)
{
    if (server == NULL)
        return;
    if (number == SIGUSR1)
        dump(server);
    else if (number == SIGHUP)
        serve_fit(server, is_to_end, NULL);
}

/* The first one asks for the end; from then on one ends the process at once. */
static void await_end(struct serve *server)
{
    const sigset_t set = cli_ending_signals(), held = held_signals();
    struct sigaction action = {.sa_handler = SIG_DFL};
    int number;
    do {
        while (sigwait(&held, &number) != 0) {
        }
        obey(server, number);
    } while (sigismember(&set, number) != 1);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* ---- serving ------------------------------------------------------------------------------------- */

/* A server that is open, until its end is asked for. @param server  NULL: it is a space's */
static int serve_ready(struct serve *server, struct cli_process *process, struct cli_notify *notify)
{
    int status = cli_process_ready(process);
    if (status != CLI_OK)
        return status;
    cli_notify(notify, "READY=1\nSTATUS=serving\n");
    await_end(server);
    cli_notify(notify, server == NULL
                           ? "STOPPING=1\nSTATUS=waiting for clients to let go\n"
                           : "STOPPING=1\nSTATUS=finishing what has begun, and closing the stores\n");
    cli_process_end(process);
    return CLI_OK;
}

static int serve_stores(const struct base_settings *settings, const struct serve_hooks *hooks,
                        struct cli_process *process, struct cli_notify *notify)
{
    struct serve *server;
    cli_notify(notify, "STATUS=opening the stores\n");
    int error = serve_open(settings, (uint64_t)getpid(), hooks, &server);
    if (error != 0)
        return cli_failed("cannot serve: %s", cli_file_reason(error));
    int status = serve_ready(server, process, notify);
    error = serve_close(server);
    return error == 0 ? status : cli_failed("a store did not close well: %s", cli_file_reason(error));
}

static int serve_space(const struct serve_options *options, const struct serve_hooks *hooks,
                       struct cli_process *process, struct cli_notify *notify)
{
    struct serve_space *space;
    cli_notify(notify, options->memory_server ? "STATUS=making memory\n" : "STATUS=opening the metadata\n");
    int error = serve_space_open(options, hooks, &space);
    if (error != 0)
        return cli_failed("cannot serve: %s", cli_file_reason(error));
    int status = serve_ready(NULL, process, notify);
    serve_space_close(space);
    return status;
}

static int serve_until_the_end(const struct base_settings *settings, struct cli_process *process,
                               struct cli_notify *notify)
{
    const struct serve_hooks hooks = {.begin = cli_fault_begin_thread,
                                      .end = cli_fault_end_thread,
                                      .progress = cli_notify_progress,
                                      .progress_arg = notify,
                                      .log_sink = cli_is_journal() ? cli_journal_sink : NULL};
    return serve_is_of_space(settings->options) ? serve_space(settings->options, &hooks, process, notify)
                                                : serve_stores(settings, &hooks, process, notify);
}

static int serve_until_stopped(const struct base_settings *settings)
{
    struct cli_notify notify;
    struct cli_process process;
    int status = cli_process_begin(&process, settings->options);
    if (status != CLI_OK)
        return status;
    hold_signals();
    cli_fault_install();
    cli_notify_open(&notify);
    status = serve_until_the_end(settings, &process, &notify);
    cli_notify_close(&notify);
    return status;
}

/* ---- settings ------------------------------------------------------------------------------------ */

/* Defaults, then the file, then the command line. @return 0; -EINVAL and the like: said in `error` */
static int parse(const struct base_settings *settings, int argc, char **argv, char *error, size_t room)
{
    struct serve_options *options = settings->options;
    const char *words[1 + BASE_SETTING_LIST_MAX];
    size_t count;
    if ((size_t)argc > base_array_count(words)) {
        (void)snprintf(error, room, "too many arguments");
        return -EINVAL;
    }
    int failed = base_settings_set_defaults(settings, error, room);
    if (failed == 0)
        failed = base_settings_parse_arguments(settings, argc, argv, words, &count, error, room);
    if (failed == 0 && options->config != NULL) {
        failed = base_settings_parse_file(settings, options->config, error, room);
        if (failed == 0)
            failed = base_settings_parse_arguments(settings, argc, argv, words, &count, error, room);
    }
    if (failed == 0 && count > 0) {
        (void)snprintf(error, room, "serve takes options only");
        return -EINVAL;
    }
    return failed;
}

static int run_server(const struct base_settings *settings, int argc, char **argv)
{
    const struct serve_options *options = settings->options;
    char error[BASE_SETTINGS_ERROR_ROOM];
    if (parse(settings, argc, argv, error, sizeof(error)) != 0)
        return cli_usage("%s", error);
    if (options->version) {
        (void)printf("tarn %s\n", tarn_version());
        return CLI_OK;
    }
    if (options->help || options->man) {
        if (options->man)
            base_settings_print_man(settings, stdout);
        else
            base_settings_print_help(settings, stdout);
        return CLI_OK;
    }
    if (serve_check_options(options, error, sizeof(error)) != 0)
        return cli_usage("%s", error);
    return serve_until_stopped(settings);
}

int cli_serve(int argc, char **argv)
{
    struct base_account account;
    struct base_settings_arena arena;
    struct serve_options options;
    base_account_init(&account, BASE_ACCOUNT_UNLIMITED);
    base_settings_arena_init(&arena, &account);
    const struct base_settings settings = settings_of(&options, &arena);
    int status = run_server(&settings, argc, argv);
    base_settings_arena_deinit(&arena);
    base_account_deinit(&account);
    return status;
}
