/* All records of a store as the stream that load reads: docs/dump.md. */
#ifndef CLI_RECORDS_H
#define CLI_RECORDS_H

#include "base/base.h"
#include <stdio.h>
#include <tarn/kv.h>

/* How values are written. */
enum cli_values { CLI_VALUES_TEXT, CLI_VALUES_HEX, CLI_VALUES_NONE };

/* What is to be written, and what was. */
struct cli_records {
    struct tarn_kv *kv;                   /* each as it is when its turn comes */
    struct tarn_depot_snapshot *snapshot; /* or all as they were then; else NULL */
    uint64_t whole_bytes_max;             /* of a value that a scan of it shows */
    enum cli_values values;
    FILE *file;
    bool (*stops)(void *arg); /* asked before each record and some parts of long ones; NULL: it goes on */
    void (*progress)(void *arg, uint64_t count); /* NULL: nobody looks */
    void *arg;                                   /* of both */
    uint64_t count;                              /* out: records that were written */
    bool damaged;                                /* out: records could not be read, and were left out */
};

/**
 * Write them, and the line that tells the end, and flush the file.
 *
 * @return 0: `damaged` says whether all are there; else it is cut off: -EINTR (`stops`), -ENOMEM, -ECANCELED
 *         (the snapshot was), -EIO and the like (ferror() says whether the file is to blame). Blocks
 */
base_must_check int cli_records_write(struct base_account *account, struct cli_records *records);

#endif
