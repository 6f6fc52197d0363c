/* The table of verbs. */
#include "cli/verbs.h"
#include "base/prose.h"
#include "cli/cli.h"
#include "cli/systemd.h"
#include "task/task.h"
#include <errno.h>
#include <stdarg.h>

#define HELP_ROOM (64 << 10) /* of the longest text */

static const struct cli_verb verbs[] = {
    {"serve", "--data=FILE|--store=STORE...|--space=FILE [OPTION...]",
     "serve stores by memcached's protocol and by Tarn's own, or a space", cli_serve, cli_serve_help},
    {"format", "file:PATH [--size=SIZE] [OPTION...]", "make a store", cli_format, cli_format_help},
    {"grow", "file:PATH [--size=SIZE]", "make a store larger", cli_grow, cli_grow_help},
    {"check", "file:PATH [OPTION...]", "prove that a store is sound, or repair it", cli_check,
     cli_check_help},
    {"stat", "file:PATH [OPTION...]", "tell what a store is, and what is in it", cli_stat, cli_stat_help},
    {"dump", "URL [OPTION...]", "print every record as a line of JSON", cli_dump, cli_dump_help},
    {"load", "URL [STREAM] [OPTION...]", "store what dump has printed", cli_load, cli_load_help},
    {"scan", "URL [OPTION...]", "print the keys", cli_scan, cli_scan_help},
    {"get", "URL KEY...", "print the value of a key, or of several", cli_get, cli_get_help},
    {"put", "URL KEY [VALUE] [OPTION...]", "store a value, by default from standard input", cli_put,
     cli_put_help},
    {"del", "URL KEY", "remove a key", cli_del, cli_del_help},
    {"top", "[ADDRESS] [OPTION...]", "watch a running server", cli_top, cli_top_help},
    {"bench", "VERB [OPTION...]", "load a store or a memcached server, and measure it", cli_bench,
     cli_bench_help},
    {"fabric", "VERB [ARGUMENT...]", "look at one-sided memory: what there is, a peer, this machine",
     cli_fabric, cli_fabric_help},
    {"space", "VERB [ARGUMENT...]", "use a space: the memory of many machines as one", cli_space,
     cli_space_help},
    {"sim", "[OPTION...]", "try the release code in a simulated world", cli_sim, cli_sim_help},
};

static int complain(int status, const char *format, va_list args)
{
    (void)fputs(base_progress_suits(stderr) ? "\033[K" : "", stderr); /* a bar may stand there */
    (void)fputs(cli_is_journal() ? "<3>tarn: " : "tarn: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    return status;
}

int cli_usage(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int status = complain(CLI_USAGE, format, args);
    va_end(args);
    return status;
}

static uint64_t read_clock(void *arg)
{
    (void)arg;
    return task_now();
}

void cli_progress_begin(struct base_progress *progress, const char *label, const char *unit, uint64_t total)
{
    base_progress_init(progress, stderr, label, unit, total, read_clock, NULL);
}

int cli_failed(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int status = complain(CLI_FAILED, format, args);
    va_end(args);
    return status;
}

void cli_print_verbs(FILE *file)
{
    (void)fputs("usage: tarn VERB [ARGUMENT...]\n\n", file);
    for (size_t i = 0; i < base_array_count(verbs); i++)
        (void)fprintf(file, "  %-6s  %s\n", verbs[i].name, verbs[i].help);
    (void)fputs("\n`tarn help VERB` tells more, `tarn --version` the version.\n", file);
}

/* The letters that two names have in common at their beginnings and their ends. */
static size_t common_letters(const char *a, const char *b)
{
    size_t a_len = strlen(a), b_len = strlen(b), shorter = base_min(a_len, b_len);
    size_t front = 0, back = 0;
    while (front < shorter && a[front] == b[front])
        front++;
    while (back < shorter - front && a[a_len - 1 - back] == b[b_len - 1 - back])
        back++;
    return front + back;
}

/* The verb that was probably meant: all but a letter or two of the longer name agree. */
static const struct cli_verb *nearest_verb(const char *name)
{
    for (size_t i = 0; i < base_array_count(verbs); i++) {
        size_t longer = base_max(strlen(name), strlen(verbs[i].name));
        size_t common = common_letters(name, verbs[i].name);
        if (common >= 2 && longer - common <= 2)
            return &verbs[i];
    }
    return NULL;
}

static const struct cli_verb *find_verb(const char *name)
{
    for (size_t i = 0; i < base_array_count(verbs); i++) {
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    }
    const struct cli_verb *near = nearest_verb(name);
    char quoted[64];
    (void)base_log_quote(quoted, sizeof(quoted), name, strlen(name));
    if (near != NULL)
        cli_usage("there is no verb %s; did you mean %s?", quoted, near->name);
    else
        cli_usage("there is no verb %s; `tarn help` lists them", quoted);
    return NULL;
}

int cli_print_help(const char *program, const struct cli_verb *verb, FILE *file)
{
    char text[HELP_ROOM];
    FILE *memory = fmemopen(text, sizeof(text), "w");
    if (memory == NULL)
        return cli_failed("cannot print: %s", strerrordesc_np(errno));
    verb->print_help(memory);
    base_assert(fclose(memory) == 0);
    (void)fprintf(file, "usage: %s %s %s\n\n", program, verb->name, verb->arguments);
    base_prose_print(text, file);
    return CLI_OK;
}

int cli_help(int argc, char **argv)
{
    if (argc == 0) {
        cli_print_verbs(stdout);
        return CLI_OK;
    }
    const struct cli_verb *verb = find_verb(argv[0]);
    return verb == NULL ? CLI_USAGE : cli_print_help("tarn", verb, stdout);
}

int cli_run(const char *name, int argc, char **argv)
{
    const struct cli_verb *verb = find_verb(name);
    if (verb == NULL)
        return CLI_USAGE;
    if (argc == 1 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0))
        return cli_print_help("tarn", verb, stdout);
    int status = verb->run(argc, argv);
    const bool tells_itself = verb->run == cli_bench || verb->run == cli_fabric || verb->run == cli_space;
    if (status == CLI_USAGE && !tells_itself) /* those tell of one of their own verbs */
        (void)fprintf(stderr, "usage: tarn %s %s\n", verb->name, verb->arguments);
    return status;
}

/* ---- verbs of verbs ------------------------------------------------------------------------------ */

void cli_print_verbs_of(const struct cli_verb *table, size_t count, FILE *file)
{
    for (size_t i = 0; i < count; i++)
        (void)fprintf(file, "  %-6s  %s\n", table[i].name, table[i].help);
}

int cli_run_verb_of(const char *name, const struct cli_verb *table, size_t count, int argc, char **argv)
{
    const struct cli_verb *verb = NULL;
    char program[64];
    (void)snprintf(program, sizeof(program), "tarn %s", name);
    for (size_t i = 0; i < count; i++) {
        if (argc > 0 && strcmp(argv[0], table[i].name) == 0)
            verb = &table[i];
    }
    if (verb == NULL) {
        (void)cli_usage("%s %s; `%s --help` lists them", name,
                        argc == 0 ? "takes a verb" : "has no such verb", program);
        (void)fprintf(stderr, "usage: %s VERB [ARGUMENT...]\n", program);
        return CLI_USAGE;
    }
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return cli_print_help(program, verb, stdout);
    int status = verb->run(argc - 1, argv + 1);
    if (status == CLI_USAGE)
        (void)fprintf(stderr, "usage: %s %s %s\n", program, verb->name, verb->arguments);
    return status;
}

sigset_t cli_ending_signals(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    return set;
}
