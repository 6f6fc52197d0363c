/* What the verbs of `tarn space` share: their entries, and the space that a command line names. */
#ifndef CLI_SPACE_H
#define CLI_SPACE_H

#include "base/base.h"
#include <stdio.h>
#include <tarn/space.h>

#define CLI_SPACE_PATIENCE_NS      (30 * BASE_NS_PER_SECOND) /* the longest wait for an answer of the master */
#define CLI_SPACE_DATA_PATIENCE_NS (10 * BASE_NS_PER_SECOND) /* the longest wait for a memory server */

/** Make a namespace. */
int cli_space_create(int argc, char **argv);

/** About create. */
void cli_space_create_help(FILE *file);

/** Delete a region, or a namespace. */
int cli_space_drop(int argc, char **argv);

/** About drop. */
void cli_space_drop_help(FILE *file);

/** Empty a memory server, so that it can be stopped. */
int cli_space_drain(int argc, char **argv);

/** About drain. */
void cli_space_drain_help(FILE *file);

/** Print names. */
int cli_space_list(int argc, char **argv);

/** About list. */
void cli_space_list_help(FILE *file);

/** Tell what there is. */
int cli_space_stat(int argc, char **argv);

/** About stat. */
void cli_space_stat_help(FILE *file);

/** Make a region of a file. */
int cli_space_put(int argc, char **argv);

/** About put. */
void cli_space_put_help(FILE *file);

/** Print a region, or make a file of it. */
int cli_space_get(int argc, char **argv);

/** About get. */
void cli_space_get_help(FILE *file);

/* ---- the space ---------------------------------------------------------------------------------- */

/* A space, a namespace of it perhaps, and what they hang from. */
struct cli_space {
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    struct tarn_space *space;
    struct tarn_space_namespace *joined; /* NULL: none is */
};

/* The names of a region and its namespace. */
struct cli_region_name {
    char space[TARN_SPACE_NAME_MAX + 1];
    char region[TARN_SPACE_NAME_MAX + 1]; /* "": a namespace alone */
};

/**
 * Read NAMESPACE or NAMESPACE/REGION.
 *
 * @return CLI_OK; CLI_USAGE: said on standard error
 */
base_must_check int cli_space_read_name(const char *text, struct cli_region_name *ret_name);

/**
 * Connect with the master that a URL names.
 *
 * @return CLI_OK; CLI_FAILED, CLI_USAGE: said on standard error
 */
base_must_check int cli_space_open(const char *url, struct cli_space *ret_space);

/**
 * Join a namespace, or make it.
 *
 * @param secret_file  path of its secret; NULL: it has none
 * @return CLI_OK; CLI_FAILED: said on standard error
 */
base_must_check int cli_space_enter(struct cli_space *space, const char *name, const char *secret_file,
                                    bool create);

/** cli_space_open() and cli_space_enter() for a namespace that there is. */
base_must_check int cli_space_open_joined(const char *url, const char *name, const char *secret_file,
                                          struct cli_space *ret_space);

/** Leave the namespace, and disconnect. */
void cli_space_close(struct cli_space *space);

/** The moment until which an answer of the master is waited for: it gives nothing new for a lease when it begins. */
uint64_t cli_space_deadline(void);

/** Print all numbers that a master tells, as Prometheus reads them. @return 0; errors of the space's */
int cli_space_print_metrics(const struct cli_space *space);

/** Say why something with a namespace or a region failed. @return CLI_FAILED */
int cli_space_failed(const struct cli_region_name *name, int error);

/* An option of all verbs that join a namespace: where its secret is. */
#define CLI_SPACE_SECRET_SETTING(field_offset)                                                               \
    {                                                                                                        \
        .name = "secret-file", .type = BASE_SETTING_STRING, .metavar = "FILE",                               \
        .help = "The file with the namespace's secret, which is yours alone (chmod 600): 1 to 64 bytes.",    \
        .offset = (field_offset)                                                                             \
    }

#endif
