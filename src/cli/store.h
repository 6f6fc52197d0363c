/* The stores that a command line names. */
#ifndef CLI_STORE_H
#define CLI_STORE_H

#include "base/base.h"
#include <tarn/kv.h>

/* A store and the node that it hangs from. */
struct cli_store {
    struct tarn_node *node;
    struct tarn_kv *kv; /* NULL: it is shut */
    struct tarn_kv_info info;
    struct tarn_depot *depot; /* NULL: it is none of this process */
    bool has_file;            /* it is a depot of this process, or has one */
};

/**
 * The path that a URL names, for what works on files alone: file:PATH, or a path as it stands.
 *
 * @return CLI_OK; CLI_USAGE: said on standard error
 */
base_must_check int cli_store_path(const char *url, const char **ret_path);

/**
 * Open the store that a URL names, of whatever kind.
 *
 * @param options  of a depot, as of tarn_depot_open()
 * @return CLI_OK; CLI_FAILED, CLI_USAGE: said on standard error
 */
base_must_check int cli_store_open(const char *url, const struct tarn_depot_options *options,
                                   struct cli_store *ret_store);

/** The same for what works on files alone: there is a depot. */
base_must_check int cli_depot_open(const char *url, const struct tarn_depot_options *options,
                                   struct cli_store *ret_store);

/**
 * Close it before its node goes, as is necessary while a scheduler whose tasks have used it still runs.
 *
 * @param status  of the verb so far @return that, or CLI_FAILED: said on standard error
 */
int cli_store_shut(struct cli_store *store, int status);

/** Close it, unless it is shut, and its node. @param status  of the verb so far @return that, or CLI_FAILED: said on standard error */
int cli_store_close(struct cli_store *store, int status);

/**
 * Make a node for work on the store that a URL names, which is not opened.
 *
 * @return CLI_OK; CLI_FAILED, CLI_USAGE: said on standard error
 */
base_must_check int cli_node_open(const char *url, struct tarn_node **ret_node, const char **ret_path);

/** Say why an operation on a key failed. @return CLI_FAILED */
int cli_key_failed(const char *key, int error);

/** Why something failed, for people; what servers and their connections may say among it. */
const char *cli_reason(int error);

/**
 * Why a file or a device cannot be used, or a server not start, for people. The log has told the particulars before, on a
 * line of its own.
 */
const char *cli_file_reason(int error);

/** Say that standard output takes no more. @return CLI_FAILED */
int cli_output_failed(void);

/** Check the length of a key. @return CLI_OK; CLI_USAGE: said on standard error */
base_must_check int cli_check_key(const char *key);

#endif
