/* tarn space drain: a memory server gives what it has to the others, so that it can be stopped and nothing is lost. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/space.h"
#include "cli/store.h"
#include "space/space.h"
#include "task/task.h"
#include <errno.h>
#include <pthread.h>

#define LOOK_NS  (BASE_NS_PER_SECOND / 4) /* between two looks at the memory server */
#define STILL_NS (5 * BASE_NS_PER_SECOND) /* without a change, after which the cause of the delay is told */

struct drain_options {
    const char *secret_file;
    bool stop;
};

static const struct base_setting drain_settings[] = {
    {.name = "stop",
     .type = BASE_SETTING_BOOL,
     .help = "End draining: the memory server gets chunks again. What was moved stays where it is now.",
     .offset = offsetof(struct drain_options, stop)},
    {.name = "servers-secret-file",
     .type = BASE_SETTING_STRING,
     .metavar = "FILE",
     .help = "The file with the memory servers' secret, as their own --servers-secret-file (chmod 600).",
     .offset = offsetof(struct drain_options, secret_file)}};
static const struct cli_arguments arguments = {drain_settings, base_array_count(drain_settings)};

void cli_space_drain_help(FILE *file)
{
    (void)fputs(
        "Moves all that a memory server has to the others, which need room for it, and waits until it has\n"
        "nothing any more: then it can be stopped, and nothing is lost. It gets no chunks from now\n"
        "on. Regions that clients hold wait for these: one that is copy-on-write until they refresh or drop\n"
        "it, any other one until they drop it. Ctrl-C ends the waiting alone; draining goes on.\n\n",
        file);
    cli_print_options(&arguments, file);
}

/* ---- asking for it ------------------------------------------------------------------------------- */

/* Say why the master has refused. @return CLI_FAILED */
static int tell_refusal(const char *name, bool has_secret, int error)
{
    switch (error) {
    case -EACCES:
        return cli_failed(has_secret ? "the memory servers have another secret, or none"
                                     : "the memory servers have a secret: name the file that holds it with "
                                       "--servers-secret-file");
    case -ENOENT:
        return cli_failed("there is no memory server %s; `tarn space stat` has those there are", name);
    case -ENOSPC:
        return cli_failed(
            "the other memory servers have less free memory than %s has in use (`tarn space stat`): start "
            "another one, or drop regions and namespaces that nobody needs",
            name);
    default:
        return cli_failed("cannot drain %s: %s", name, cli_reason(error));
    }
}

static int ask_master(const struct cli_space *space, const char *name, const struct drain_options *options)
{
    uint8_t secret[TARN_SPACE_SECRET_MAX];
    uint32_t bytes = 0;
    const char *path = options->secret_file;
    const char *wrong = path == NULL ? NULL : space_secret_read(path, secret, &bytes);
    if (wrong != NULL)
        return cli_failed("--servers-secret-file: cannot use %s: %s", path, wrong);
    int error = tarn_space_drain(space->space, name, secret, bytes, !options->stop, cli_space_deadline());
    return error == 0 ? CLI_OK : tell_refusal(name, path != NULL, error);
}

/* ---- waiting ------------------------------------------------------------------------------------- */

/* What one look at all memory servers has found. */
struct look {
    const char *name;     /* of the one that is drained */
    uint64_t used_bytes;  /* of its memory, that namespaces have */
    uint64_t other_bytes; /* free on memory servers that get chunks */
    bool is_known, is_there, is_draining;
};

static int look_at_server(void *arg, const struct tarn_space_server_row *row)
{
    struct look *look = arg;
    if (strcmp(row->name, look->name) == 0) {
        look->is_known = true;
        look->is_there = row->is_there;
        look->is_draining = row->is_draining;
        look->used_bytes = row->used_bytes;
    } else if (!row->is_draining) {
        look->other_bytes += row->free_bytes;
    }
    return 0;
}

/* What holds draining up, to be said behind the bytes that are left. */
static const char *explain_delay(const struct look *look)
{
    if (!look->is_there)
        return "the memory server is not there, and what it alone has cannot be copied: if its process has "
               "ended, "
               "that is lost (drop the regions that had a part there); else have it reach its master";
    if (look->other_bytes == 0)
        return "the other memory servers have no free memory left: start another one, or drop what nobody "
               "needs";
    return "clients hold the regions that have it (`tarn space stat URL NAMESPACE` counts them), or have "
           "ended and "
           "their leases (10 s) have not; it moves when they drop the regions, or refresh those that are "
           "copy-on-write. Copies need a memory server that has no other copy of the same chunk";
}

/* A wait for a memory server to have nothing any more. */
struct waiting {
    const struct cli_space *space;
    struct base_progress progress;
    uint64_t most_bytes; /* that it has had in use */
    uint64_t left_bytes; /* that it had in use at the last look */
    const char *cause;   /* of the delay, as the last look has it */
    uint64_t changed_ns; /* the moment at which a look found another number or cause */
    bool is_told;        /* the cause was told since then */
};

/* Show what has become of it. */
static void show_look(struct waiting *waiting, const struct look *look)
{
    char left[BASE_UNITS_ROOM];
    const uint64_t now_ns = task_now();
    const char *cause = explain_delay(look);
    waiting->most_bytes = base_max(waiting->most_bytes, look->used_bytes);
    waiting->progress.total = waiting->most_bytes;
    base_progress_update(&waiting->progress, waiting->most_bytes - look->used_bytes);
    if (look->used_bytes != waiting->left_bytes || cause != waiting->cause) {
        waiting->left_bytes = look->used_bytes;
        waiting->cause = cause;
        waiting->changed_ns = now_ns;
        waiting->is_told = false;
    } else if (!waiting->is_told && now_ns - waiting->changed_ns >= STILL_NS) {
        (void)cli_failed("%s of %s are still to be moved: %s",
                         base_format_size(left, sizeof(left), look->used_bytes), look->name, cause);
        waiting->is_told = true;
    }
}

/* Look until the memory server has nothing, or a signal asks for the end. A master that forgets it knew that it had nothing. */
static int await_nothing(struct waiting *waiting, const char *name, const sigset_t *signals)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    uint64_t patience_ns = cli_space_deadline();
    do {
        struct look look = {.name = name};
        int error = tarn_space_list_servers(waiting->space->space, look_at_server, &look,
                                            task_now() + BASE_NS_PER_SECOND);
        if (error == -ETIMEDOUT && task_now() < patience_ns)
            continue; /* another master may come, and a signal is to be heard meanwhile */
        if (error != 0)
            return cli_failed("cannot see how far draining %s is, which goes on: %s", name,
                              cli_reason(error));
        if (look.is_known && !look.is_draining)
            return cli_failed("draining %s was ended by another command: what it still has stays there",
                              name);
        if (look.used_bytes == 0)
            return CLI_OK;
        show_look(waiting, &look);
        patience_ns = cli_space_deadline();
    } while (sigtimedwait(signals, NULL, &pause) < 0);
    return cli_failed("draining %s goes on: the same command waits again, and with --stop it ends draining",
                      name);
}

/* Wait with a bar. The signals that end it wait for their turn meanwhile. */
static int await_drained(const struct cli_space *space, const char *name)
{
    const sigset_t signals = cli_ending_signals();
    sigset_t before;
    struct waiting waiting = {.space = space};
    (void)pthread_sigmask(SIG_BLOCK, &signals, &before);
    cli_progress_begin(&waiting.progress, "drain", NULL, 0);
    int status = await_nothing(&waiting, name, &signals);
    base_progress_end(&waiting.progress);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* ---- the verb ------------------------------------------------------------------------------------ */

static int run_drain(const void *parsed, const char *const *words, size_t count)
{
    const struct drain_options *options = parsed;
    struct cli_space space = {.joined = NULL};
    if (count != 2 || !base_name_is_good(words[1], strlen(words[1])))
        return cli_usage("drain takes a URL and the name of a memory server, as `tarn space stat` has it");
    int status = cli_space_open(words[0], &space);
    if (status != CLI_OK)
        return status;
    status = ask_master(&space, words[1], options);
    if (status == CLI_OK && !options->stop)
        status = await_drained(&space, words[1]);
    cli_space_close(&space);
    if (status == CLI_OK)
        (void)printf(options->stop ? "%s gets chunks again\n"
                                   : "%s has nothing any more: it can be stopped\n",
                     words[1]);
    return status == CLI_OK && (ferror(stdout) || fflush(stdout) != 0) ? cli_output_failed() : status;
}

int cli_space_drain(int argc, char **argv)
{
    struct drain_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run_drain);
}
