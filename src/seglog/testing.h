/*
 * For the tests of this layer: logs on a drive in memory, with an owner to whom all is right; segments that
 * are made by hand; what an opening finds.
 */
#ifndef SEGLOG_TESTING_H
#define SEGLOG_TESTING_H

#include "drive/memory_testing.h"
#include "seglog/seglog_internal.h"

/* ---- logs --------------------------------------------------------------------------------------- */

#define TESTING_SEGMENTS    SEGLOG_SEGMENTS_MIN
#define TESTING_BLOCK_BYTES SEGLOG_BLOCK_BYTES_MIN
#define TESTING_STORE_BYTES (6 * UINT64_C(4096) + TESTING_SEGMENTS * SEGLOG_SEGMENT_BYTES_MIN)

/* A log on a node of its own. */
struct testing_log {
    struct tarn_node *node;
    struct drive *drive;
    struct seglog *log;
    struct testing_lines lines;
};

/** A node with its drive open, and no log yet. */
void testing_drive_start(struct testing_log *log, struct testing_drive *drive);

/** Close both; asserts that no memory is leaked. */
void testing_drive_stop(struct testing_log *log);

int testing_format(struct testing_drive *drive, const struct seglog_format_options *options);

/** @return what the opening said; everything is closed again if that is not 0 */
int testing_log_try_open(struct testing_log *log, struct testing_drive *drive, bool read_only);

void testing_log_open(struct testing_log *log, struct testing_drive *drive, bool read_only);

/** Close a log that was not started. */
void testing_log_close(struct testing_log *log);

/* An owner whose records all live. */
enum seglog_verdict testing_judge(void *owner, const struct seglog_entry_format *entry, uint64_t grain);

bool testing_moved(void *owner, const struct seglog_entry_format *entry, uint64_t grain,
                   const struct seglog_place *place);

void testing_service(void *owner);

extern const struct seglog_owner_ops testing_ops;

/** Open a log and start it, with that owner. */
void testing_log_start(struct testing_log *log, struct testing_drive *drive);

/** Stop a log and close it. */
void testing_log_stop(struct testing_log *log);

/** Close a log that takes no more writes. */
void testing_log_close_failed(struct testing_log *log);

/** A small formatted drive. @param options  NULL: the defaults */
struct testing_drive testing_store_of(uint64_t bytes, const struct seglog_format_options *options);

struct testing_drive testing_store(void);

/* ---- stores made by hand ------------------------------------------------------------------------- */

struct seglog_superblock_format testing_superblock(const struct testing_drive *drive);

/** The newest slot of the state, in the drive's bytes. Once it is changed, it is none until it is sealed. */
struct seglog_state_format *testing_state(struct testing_drive *drive);

/** After changing what testing_state() returned: seal it, and make its twin equal. */
void testing_state_seal(struct testing_drive *drive);

/** Let the newest state allow sequences and stamps below these. */
void testing_state_bound(struct testing_drive *drive, uint64_t sequence_bound, uint64_t stamp_bound);

/* A segment that is being made by hand. */
struct testing_segment {
    struct testing_drive *drive;
    struct seglog_superblock_format superblock;
    struct seglog_segment_format header;
    uint8_t *bytes;    /* in the drive's */
    uint64_t position; /* of the next record, from the segment's beginning */
    uint64_t end;      /* of the last */
    uint32_t count;
    struct seglog_entry_format *entries;
};

void testing_segment_begin(struct testing_segment *segment, struct testing_drive *drive, uint32_t number,
                           uint64_t stamp);

/** Put a record at the position, whose key is its sequence in decimal. @param extension  with marks; else
 * NULL
 * @return where it lies in the segment */
uint64_t testing_segment_add_marked(struct testing_segment *segment, uint64_t sequence, uint32_t value_bytes,
                                    uint8_t marks, const void *extension);

uint64_t testing_segment_add(struct testing_segment *segment, uint64_t sequence, uint32_t value_bytes);

/** A write ends here: what follows begins at a block. */
void testing_segment_end_write(struct testing_segment *segment);

/** Write a summary of the records so far. @param flags  of the trailer */
void testing_segment_summarize(struct testing_segment *segment, uint32_t flags);

void testing_segment_end(struct testing_segment *segment);

/* ---- what an opening found ------------------------------------------------------------------------ */

#define TESTING_SEQUENCES 4096

/* Which sequences are in the summaries, and how often. */
struct testing_found {
    uint8_t times[TESTING_SEQUENCES];
    uint64_t count;
};

void testing_find(struct seglog *log, struct testing_found *ret_found);

/* ---- openings ------------------------------------------------------------------------------------ */

#define TESTING_SEQUENCE_BOUND 3000
#define TESTING_STAMP_BOUND    1000

struct testing_drive testing_bounded_store(void);

/* Records with these sequences, of some size, each write with `per_write` of them. */
void testing_segment_fill(struct testing_segment *segment, uint64_t begin, uint64_t end, uint32_t value_bytes,
                          uint64_t per_write);

void testing_expect_exactly(const struct testing_found *found, uint64_t begin, uint64_t end);

/* Open to read, then to write, then to read what that left: all three find the same. */
void testing_expect_opened(struct testing_drive *drive, uint64_t begin, uint64_t end);

void testing_expect_refused(struct testing_drive *drive, int error, const char *why);

#endif
