/* The stores of the command line, used by a plain thread: opening them, and what is said when something fails. */
#include "cli/store.h"
#include "cli/cli.h"
#include "depot/depot.h"
#include "kv/kv.h"
#include <errno.h>

static const char file_scheme[] = "file:", tree_scheme[] = "tree:";

static int fail(const char *what, int error)
{
    return cli_failed("%s: %s", what, cli_reason(error));
}

/* Whether a text begins like a URL: two or more letters and a colon. */
static bool has_scheme(const char *url)
{
    size_t letters = strspn(url, "abcdefghijklmnopqrstuvwxyz");
    return letters >= 2 && url[letters] == ':';
}

static bool names_server(const char *url)
{
    return has_scheme(url) && strncmp(url, file_scheme, sizeof(file_scheme) - 1) != 0 &&
           strncmp(url, tree_scheme, sizeof(tree_scheme) - 1) != 0;
}

int cli_store_path(const char *url, const char **ret_path)
{
    const size_t scheme_len = sizeof(file_scheme) - 1;
    bool is_file = strncmp(url, file_scheme, scheme_len) == 0;
    if (!is_file && has_scheme(url))
        return cli_usage("a store is named as file:PATH; a path with a colon as ./PATH");
    const char *path = is_file ? url + scheme_len : url;
    if (path[0] == '\0')
        return cli_usage("a store is named as file:PATH, and the path is missing");
    *ret_path = path;
    return CLI_OK;
}

int cli_node_open(const char *url, struct tarn_node **ret_node, const char **ret_path)
{
    int status = cli_store_path(url, ret_path);
    int error = status == CLI_OK ? tarn_node_open(NULL, ret_node) : 0;
    return error == 0 ? status : fail("cannot begin", error);
}

/* What an opening that takes long shows of itself: a bar for each work, one below the other. */
struct opening {
    struct base_progress bar;
    const char *what; /* NULL: nothing has begun */
    uint64_t all;
};

static void end_bar(struct opening *opening)
{
    if (opening->what != NULL)
        base_progress_end(&opening->bar);
    opening->what = NULL;
}

static void show_opening(void *arg, const char *what, const char *unit, uint64_t done, uint64_t all)
{
    struct opening *opening = arg;
    if (opening->what == NULL || strcmp(opening->what, what) != 0) {
        end_bar(opening);
        cli_progress_begin(&opening->bar, what, unit, all);
        opening->what = what;
    }
    opening->all = all;
    base_progress_update(&opening->bar, done);
}

/* Of a URL that is good. */
static int open_store(const char *url, const struct tarn_depot_options *options, struct cli_store *ret_store)
{
    static const struct tarn_depot_options defaults = {.read_only = false};
    struct tarn_depot_options depot_options = options == NULL ? defaults : *options;
    const struct tarn_kv_options kv_options = {.depot = &depot_options};
    struct cli_store store;
    int error = tarn_node_open(NULL, &store.node);
    if (error != 0)
        return fail("cannot begin", error);
    struct opening progress = {.what = NULL};
    depot_options.serve_damaged = depot_options.read_only; /* what may be missing is an error, key by key */
    const struct depot_opening opening = {.progress = show_opening, .progress_arg = &progress};
    error = kv_open(store.node, url, &kv_options, &opening, &store.kv);
    end_bar(&progress);
    if (error != 0) { /* the log has said why */
        tarn_node_close(store.node);
        return cli_failed("cannot open the store: %s",
                          names_server(url) ? cli_reason(error) : cli_file_reason(error));
    }
    tarn_kv_info(store.kv, &store.info);
    store.depot = kv_depot_of(store.kv);
    store.has_file = (store.info.abilities & (TARN_KV_DURABLE | TARN_KV_REMOTE)) == TARN_KV_DURABLE;
    *ret_store = store;
    return CLI_OK;
}

int cli_store_open(const char *url, const struct tarn_depot_options *options, struct cli_store *ret_store)
{
    const char *wrong = kv_url_wrong(url);
    return wrong == NULL ? open_store(url, options, ret_store) : cli_usage("%s", wrong);
}

int cli_depot_open(const char *url, const struct tarn_depot_options *options, struct cli_store *ret_store)
{
    const char *path;
    int status = cli_store_path(url, &path);
    return status == CLI_OK ? open_store(url, options, ret_store) : status;
}

int cli_store_shut(struct cli_store *store, int status)
{
    int error = tarn_kv_close(store->kv);
    store->kv = NULL;
    return error == 0 || status != CLI_OK ? status : fail("cannot close the store", error);
}

int cli_store_close(struct cli_store *store, int status)
{
    if (store->kv != NULL)
        status = cli_store_shut(store, status);
    tarn_node_close(store->node);
    return status;
}

const char *cli_reason(int error)
{
    switch (error) {
    case -EHOSTUNREACH:
        return "the server cannot be reached";
    case -ECONNREFUSED:
        return "nobody listens at that address, or there are as many connections as may be";
    case -ENOMEM:
        return "the server has no memory left for this (more --memory there, or fewer clients), or this side "
               "has none";
    case -ENOENT:
        return "there is no such socket: check the path (--kv-unix of the server); or no such hash store in "
               "the space: with memory=SIZE it is made";
    case -EACCES:
    case -EPERM:
        return "it is not allowed: a socket is its server's user's alone; of other reasons the log above "
               "tells";
    case -ECONNRESET:
        return "the connection with the server ended; nobody knows what it has done";
    case -ETIMEDOUT:
        return "the server has not answered in time; nobody knows what it has done";
    case -ENXIO:
        return "the server has no such store";
    case -EPROTO:
        return "the server does not answer as one with stores does";
    case -EOPNOTSUPP:
        return "this store cannot do that";
    default:
        return strerrordesc_np(-error);
    }
}

const char *cli_file_reason(int error)
{
    switch (error) {
    case -EUCLEAN:
        return "there is no Tarn store, or a damaged one: the log above says which, and what to do";
    case -EBUSY:
        return "another process has it open: the log above says how to reach it";
    case -ENOENT:
        return "there is no such file or folder: the log above says which";
    case -EACCES:
    case -EPERM:
        return "it is not allowed: the log above says what to change";
    case -ENOSPC:
    case -EDQUOT:
        return "there is no room: the log above says for what";
    case -ENOMEM:
        return "there is too little memory: the log above says for what, or the machine has no more";
    case -EADDRINUSE:
    case -EADDRNOTAVAIL:
        return "its address cannot be had: the log above says why, and what to do";
    case -EMFILE:
    case -ENFILE:
        return "too many files are open: raise the limit (ulimit -n)";
    case -EIO:
        return "the drive cannot be read or written: the log above says where";
    case -EISDIR:
        return "it is a folder: name a file in it";
    case -EINVAL:
    case -ENOTDIR:
    case -ENOTSUP:
    case -EROFS:
    case -EFBIG:
    case -ENOLCK:
        return "it cannot be used as it is: the log above says why";
    default:
        return strerrordesc_np(-error);
    }
}

int cli_key_failed(const char *key, int error)
{
    char quoted[128];
    (void)base_log_quote(quoted, sizeof(quoted), key, strlen(key));
    switch (error) {
    case -ENOENT:
        return cli_failed("there is no key %s", quoted);
    case -EEXIST:
        return cli_failed("there already is a key %s", quoted);
    case -ENOSPC:
        return cli_failed("the store is full: %s was not stored", quoted);
    case -EMSGSIZE:
        return cli_failed("the value of %s is longer than this store takes", quoted);
    case -ESTALE:
        return cli_failed("%s was changed while it was read, or flushed while it was written: try again",
                          quoted);
    case -EBADMSG:
        return cli_failed("the record of %s is damaged", quoted);
    default:
        return cli_failed("%s: %s", quoted, cli_reason(error));
    }
}

int cli_output_failed(void)
{
    return cli_failed("cannot write to standard output: %s", strerrordesc_np(errno));
}

int cli_check_key(const char *key)
{
    size_t len = strlen(key);
    return len > 0 && len <= TARN_KEY_BYTES_MAX ? CLI_OK : cli_usage("a key has 1 to 65,535 bytes");
}
