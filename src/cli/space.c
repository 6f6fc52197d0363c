/* tarn space: its verbs, connecting with a master, and what is said when something fails. */
#include "cli/space.h"
#include "cli/cli.h"
#include "cli/verbs.h"
#include "serve/serve.h"
#include "space/space.h"
#include "task/node.h"
#include "task/task.h"
#include <errno.h>

#define CONNECT_NS (10 * BASE_NS_PER_SECOND) /* the longest wait for a master */

static const struct cli_verb space_verbs[] = {
    {"create", "URL NAMESPACE [OPTION...]", "make a namespace", cli_space_create, cli_space_create_help},
    {"list", "URL [NAMESPACE] [OPTION...]", "print the namespaces, or the regions of one", cli_space_list,
     cli_space_list_help},
    {"stat", "URL [NAMESPACE] [OPTION...]", "tell of memory servers, namespaces, regions", cli_space_stat,
     cli_space_stat_help},
    {"put", "URL NAMESPACE/REGION [FILE] [OPTION...]", "make a region of a file", cli_space_put,
     cli_space_put_help},
    {"get", "URL NAMESPACE/REGION [FILE] [OPTION...]", "print a region, or make a file of it", cli_space_get,
     cli_space_get_help},
    {"drop", "URL NAMESPACE[/REGION] [OPTION...]", "delete a region, or a namespace", cli_space_drop,
     cli_space_drop_help},
    {"drain", "URL SERVER [OPTION...]", "empty a memory server, so that it can be stopped", cli_space_drain,
     cli_space_drain_help},
};

void cli_space_help(FILE *file)
{
    cli_print_verbs_of(space_verbs, base_array_count(space_verbs), file);
    (void)fputs(
        "\nA URL names the master: unix:PATH on its machine, tarn://ADDRESS:PORT elsewhere, with ?tcp:\n"
        "or ?verbs: and its options behind it if the master has others than tcp: alone. It names all\n"
        "masters of a space that has several: tarn://ADDRESS:PORT,ADDRESS:PORT. A NAMESPACE\n"
        "and a REGION have 1 to 63 letters, digits, '-', '_' and '.'.\n"
        "`tarn space VERB --help` tells more, `tarn serve --help` how to start a space.\n",
        file);
}

int cli_space(int argc, char **argv)
{
    return cli_run_verb_of("space", space_verbs, base_array_count(space_verbs), argc, argv);
}

/* ---- names -------------------------------------------------------------------------------------- */

/* @return whether it is a name */
static bool copy_name(char *to, const char *text, size_t len)
{
    if (!base_name_is_good(text, len))
        return false;
    memcpy(to, text, len);
    to[len] = '\0';
    return true;
}

int cli_space_read_name(const char *text, struct cli_region_name *ret_name)
{
    const char *slash = strchr(text, '/');
    const size_t len = slash == NULL ? strlen(text) : (size_t)(slash - text);
    char quoted[128];
    *ret_name = (struct cli_region_name){.region = ""};
    if (copy_name(ret_name->space, text, len) &&
        (slash == NULL || copy_name(ret_name->region, slash + 1, strlen(slash + 1))))
        return CLI_OK;
    return cli_usage(
        "%s is no NAMESPACE or NAMESPACE/REGION: a name has 1 to 63 letters, digits, '-', '_' and "
        "'.'",
        base_log_quote(quoted, sizeof(quoted), text, strlen(text)));
}

/* ---- errors ------------------------------------------------------------------------------------- */

uint64_t cli_space_deadline(void)
{
    return task_now() + CLI_SPACE_PATIENCE_NS;
}

static const char *explain_connecting(int error)
{
    switch (error) {
    case -ENOENT:
        return "there is no such socket: check the path (--space-listen of the master)";
    case -ECONNREFUSED:
    case -ECONNRESET:
    case -EPIPE:
        return "nobody listens there: is the master running?";
    case -EACCES:
    case -EPERM:
        return "it is not allowed: a socket is its master's user's alone, and a network may want a secret "
               "(?tcp:secret=FILE)";
    case -EHOSTDOWN:
    case -ETIMEDOUT:
        return "it has not answered in time, or does not lead";
    case -EPROTO:
        return "it is no master of a space";
    default:
        return strerrordesc_np(-error);
    }
}

static const char *explain_failure(int error)
{
    switch (error) {
    case -ENOSPC:
        return "the memory servers have too little left for this (`tarn space stat`)";
    case -EHOSTUNREACH:
        return "a memory server that has a part of it cannot be reached (`tarn space stat` tells which are "
               "there)";
    case -ENODATA:
        return "a memory server has ended, and with it a part of the content: drop it";
    case -ETIME:
        return "a part of it was not written within 10 s, which is a version's time: try again";
    case -EIO:
        return "a part of it could not be written to any copy: try again";
    case -ESTALE:
        return "it was dropped meanwhile, or this process stood still for too long: try again";
    case -ETIMEDOUT:
        return "the master or a memory server has not answered in time";
    case -ECONNRESET:
        return "the connection with the master ended; nobody knows what it has done";
    case -ENOMEM:
        return "there is no memory left for this, here or at the master";
    case -EMFILE:
        return "too many files are open: raise the limit (ulimit -n)";
    default:
        return strerrordesc_np(-error);
    }
}

int cli_space_failed(const struct cli_region_name *name, int error)
{
    const bool is_region = name->region[0] != '\0';
    if (error == -ENOENT)
        return is_region ? cli_failed("there is no region %s in the namespace %s", name->region, name->space)
                         : cli_failed("there is no namespace %s; `tarn space list` has those there are",
                                      name->space);
    if (error == -EEXIST)
        return is_region
                   ? cli_failed("there already is a region %s in the namespace %s", name->region, name->space)
                   : cli_failed("there already is a namespace %s", name->space);
    return cli_failed("%s%s%s: %s", name->space, is_region ? "/" : "", name->region, explain_failure(error));
}

/* ---- opening ------------------------------------------------------------------------------------ */

int cli_space_open(const char *url, struct cli_space *ret_space)
{
    const struct task_node_options options = {.log_level = BASE_LOG_WARN};
    struct cli_space space = {.joined = NULL};
    struct serve_space_url read;
    const char *wrong = serve_space_url_read(url, &read);
    if (wrong != NULL)
        return cli_usage("%s", wrong);
    serve_files_raise(); /* over shm, what is read and written is a file for each chunk */
    int error = task_node_open(&options, &space.node);
    if (error != 0)
        return cli_failed("cannot begin: %s", strerrordesc_np(-error));
    error = tarn_fabric_open(space.node, read.fabric, &space.fabric);
    if (error == 0)
        error = tarn_space_connect(space.fabric, read.addresses, NULL, task_now() + CONNECT_NS, &space.space);
    if (error != 0) {
        (void)cli_failed("cannot reach the master at %s: %s", read.addresses, explain_connecting(error));
        cli_space_close(&space);
        return CLI_FAILED;
    }
    *ret_space = space;
    return CLI_OK;
}

int cli_space_enter(struct cli_space *space, const char *name, const char *secret_file, bool create)
{
    struct cli_region_name names = {.region = ""};
    uint8_t secret[TARN_SPACE_SECRET_MAX];
    uint32_t bytes = 0;
    const char *wrong = secret_file == NULL ? NULL : space_secret_read(secret_file, secret, &bytes);
    if (wrong != NULL)
        return cli_failed("--secret-file: cannot use %s: %s", secret_file, wrong);
    int error =
        create ? tarn_space_create_ns(space->space, name, secret, bytes, cli_space_deadline(), &space->joined)
               : tarn_space_join_ns(space->space, name, secret, bytes, cli_space_deadline(), &space->joined);
    (void)snprintf(names.space, sizeof(names.space), "%s", name);
    if (error == -EACCES)
        return cli_failed(
            secret_file == NULL
                ? "the namespace %s has a secret: name the file that holds it with --secret-file"
                : "the namespace %s has another secret, or none",
            name);
    return error == 0 ? CLI_OK : cli_space_failed(&names, error);
}

int cli_space_open_joined(const char *url, const char *name, const char *secret_file,
                          struct cli_space *ret_space)
{
    struct cli_space space = {.joined = NULL};
    int status = cli_space_open(url, &space);
    if (status != CLI_OK)
        return status;
    status = cli_space_enter(&space, name, secret_file, false);
    if (status == CLI_OK)
        *ret_space = space;
    else
        cli_space_close(&space);
    return status;
}

void cli_space_close(struct cli_space *space)
{
    if (space->joined != NULL)
        tarn_space_leave_ns(space->joined);
    if (space->space != NULL)
        tarn_space_disconnect(space->space);
    if (space->fabric != NULL)
        tarn_fabric_close(space->fabric);
    tarn_node_close(space->node);
}
