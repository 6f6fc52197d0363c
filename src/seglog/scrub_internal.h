/* The scrubber, for the files of this folder. */
#ifndef SEGLOG_SCRUB_INTERNAL_H
#define SEGLOG_SCRUB_INTERNAL_H

#include "seglog/seglog_internal.h"

/** Its memory, if the options ask for scrubbing. @return 0; -ENOMEM */
base_must_check int seglog_scrub_init(struct seglog *log, const struct seglog_options *options);

/** Free it. */
void seglog_scrub_deinit(struct seglog *log);

/** What it was charged. */
uint64_t seglog_scrub_memory_bytes(const struct seglog *log);

/** Start, if there is one. @return 0; -ENOMEM; pthread_create's error */
base_must_check int seglog_scrub_start(struct seglog *log);

/** Stop, if it runs: after the read that is under way. Yields. */
void seglog_scrub_stop(struct seglog *log);

/**
 * Collect or evict a segment that the scrubber has found damaged, if there is one. Called by the service
 * only.
 *
 * @param ret_when_ns  lowered to when to look again, if one has to wait
 * @return whether one was. Yields.
 */
bool seglog_scrub_collect(struct seglog *log, uint64_t *ret_when_ns);

/** What it tells about itself. */
void seglog_scrub_tell(const struct seglog *log, struct seglog_scrub_stats *ret_stats);

#endif
