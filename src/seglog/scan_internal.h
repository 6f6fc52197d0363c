/* Recovery, for scan.c, headers.c and missing.c. */
#ifndef SEGLOG_SCAN_INTERNAL_H
#define SEGLOG_SCAN_INTERNAL_H

#include "seglog/seglog_internal.h"

#define SCAN_HEADERS_AT_ONCE 32

struct scan_header; /* headers.c */

/* One opening's. */
struct scan_recovery {
    struct seglog *log;
    struct scan_header *reads; /* SCAN_HEADERS_AT_ONCE */
    uint8_t *headers;          /* their memory, header_bytes each, and of one more */
    uint64_t header_bytes;
    uint8_t *summary; /* NULL until a header is damaged */
    uint64_t *stamps; /* of all that is live: a table with open addressing, 0 is empty */
    uint64_t stamps_count;
    uint64_t live_segments, summary_records;
    struct seglog_salvage salvage;
};

/** Say that there is too little memory. @return -ENOMEM */
int scan_refuse_memory(const struct seglog *log);

/** Bytes of memory of the headers that are read at once. */
uint64_t scan_headers_bytes(void);

/** Read the headers of all segments, and their ends: which are live, by either. @return 0; -EUCLEAN; the drive's
 * error; logged. Yields. */
base_must_check int scan_read_headers(struct scan_recovery *recovery);

/** The header of a live segment is damaged, and was found elsewhere: take it. @return 0; -EUCLEAN; logged */
base_must_check int scan_take_headerless(struct scan_recovery *recovery, uint32_t number,
                                         const struct seglog_segment_format *header);

/** Put a header back, in the block that it shares with records, if the log is opened to write. @return 0; the drive's
 * error, logged. Yields. */
base_must_check int scan_put_header(struct scan_recovery *recovery, uint32_t number,
                                    const struct seglog_segment_format *header);

/** The header of a segment that only a checkpoint knows. */
struct seglog_segment_format scan_missing_header(const struct seglog *log, uint32_t number);

/** Whether segments are missing that a checkpoint, or the state of a good end, knows of; or records, as an earlier
 * opening has found. @return 0; as seglog_loss_note(). Yields. */
base_must_check int scan_check_missing(struct scan_recovery *recovery);

#endif
