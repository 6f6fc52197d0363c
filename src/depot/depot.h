/*
 * depot: what other layers of Tarn may ask of a store besides <tarn/depot.h>, whose rules hold here.
 */
#ifndef DEPOT_DEPOT_H
#define DEPOT_DEPOT_H

#include "base/base.h"
#include <errno.h>
#include <tarn/depot.h>

struct drive;
struct drive_info;
struct seglog_superblock_format;

/* Names of enum tarn_mode for settings and lines of the log, NULL at the end. */
extern const char *const depot_mode_names[];

/* Of a struct base_setting for over_provisioning_percent, all but its help and its place. */
#define DEPOT_OVER_PROVISIONING_SETTING                                                                      \
    .name = "over-provisioning", .type = BASE_SETTING_UINT, .metavar = "PERCENT",                            \
    .min = TARN_OVER_PROVISIONING_MIN, .max = TARN_OVER_PROVISIONING_MAX,                                    \
    .default_text = base_text_of(TARN_OVER_PROVISIONING_DEFAULT), .unit = "percent"

/* Choices that the public options do not offer. */
struct depot_opening {
    unsigned direct; /* enum drive_direct; overrules tarn_depot_options.direct_off unless it is `auto` */
    uint64_t
        lock_wait_ns; /* nanoseconds to wait for another process to close the drive; 0: the drive's default */
    /* Told how far it is, as seglog_progress_function; NULL: nobody asks */
    void (*progress)(void *arg, const char *what, const char *unit, uint64_t done, uint64_t all);
    void *progress_arg;
    struct depot_repair *repair; /* depot_repair()'s */
    bool size_unasked;           /* nobody has asked for create_bytes: an existing store may have any size */
};

/**
 * As tarn_depot_shrink_index().
 *
 * @param stops  asked now and then: whether to leave it (-ECANCELED). Must not yield
 */
int depot_shrink_index(struct tarn_depot *depot, bool (*stops)(void *arg), void *arg, uint64_t *ret_bytes);

/** Let the index double, if it has room for fewer entries than that, though its load does not ask for it: for tests.
 * @return 0; -ENOMEM; -ENOSPC (it is as large as it may be). Yields. */
base_must_check int depot_grow_index(struct tarn_depot *depot, uint64_t entries);

/** As tarn_depot_open(). @param opening  NULL: the defaults. Yields. */
base_must_check int depot_open(struct tarn_node *node, const char *path,
                               const struct tarn_depot_options *options, const struct depot_opening *opening,
                               struct tarn_depot **ret_depot);

/* Memory that a store has been charged with, by what it is for. */
struct depot_memory {
    uint64_t index_bytes;
    uint64_t key_lock_bytes;
    uint64_t read_buffer_bytes;
    uint64_t ring_bytes; /* the log's, as seglog_memory() tells it, and the three that follow */
    uint64_t summary_bytes;
    uint64_t collector_bytes;
    uint64_t segment_bytes;
};

/** What it takes. Any thread or task. */
void depot_memory(const struct tarn_depot *depot, struct depot_memory *ret_memory);

/* A segment as `tarn stat` shows it. */
struct depot_segment_info {
    uint64_t stamp;
    uint64_t session;
    const char *state;
    const char *writer; /* "users", "collector", or "" if it is not known; of one that has records */
    uint64_t live_bytes, tombstone_bytes;
    uint64_t used_bytes; /* up to the end of its last record; not of one that is open */
    uint32_t entries;
    bool sealed;
};

/** One of the store's segments. @return 0; -ENOENT (no more). Any thread or task. */
base_must_check int depot_segment(struct tarn_depot *depot, uint32_t segment,
                                  struct depot_segment_info *ret_info);

/* ---- check.c ----------------------------------------------------------------------------------- */

/* What a check has found. */
struct depot_check_report {
    uint64_t records, tombstones; /* that count: the newest of their keys */
    uint64_t superseded;          /* that do not */
    uint64_t pieces;              /* of long values that count */
    uint64_t orphans; /* pieces of values that were never committed, or are gone: room, no damage */
    uint64_t bytes_read;
    uint64_t faults; /* invariants that do not hold, by how often */
    uint32_t segments, segments_free, segments_unsealed;
    uint32_t segments_unsure; /* whose summary is damaged, and it cannot be told whether all that it had was
                                 found */
};

/**
 * Read all of a store and prove its invariants (README numbers them), without writing anything.
 *
 * @param tell      called for each fault: the number of the invariant and a sentence; NULL: nobody
 * @param progress  called now and then, with bytes done and bytes in all; NULL: nobody
 * @return 0: it was read to the end, and ret_report->faults says whether it is sound; -EUCLEAN, -ENOTSUP and
 * the like as tarn_depot_open(); the drive's error
 *
 * Yields.
 */
base_must_check int depot_check(struct tarn_node *node, const char *path, bool direct_off,
                                void (*tell)(void *arg, unsigned invariant, const char *sentence),
                                void (*progress)(void *arg, uint64_t done, uint64_t all), void *arg,
                                struct depot_check_report *ret_report);

/* ---- repair.c ---------------------------------------------------------------------------------- */

/* A record that counted, and is lost. */
struct depot_lost {
    const void *key; /* NULL: it cannot be told */
    size_t key_bytes;
    uint64_t hash[2]; /* of the key */
    uint64_t sequence;
    uint64_t grain; /* where it was */
};

/* What a repair has done. */
struct depot_repair_report {
    uint64_t lost;       /* records that counted */
    uint64_t unnamed;    /* of them, whose keys cannot be told */
    uint64_t tombstones; /* that were damaged, and stand elsewhere now */
    uint32_t segments;   /* that were emptied, for something in them was damaged */
};

/**
 * Open a store, give up what is damaged, and close it. Whatever can be read stays, a tombstone takes the
 * place of what cannot, so that no older value of its key comes back. README, "Repair".
 *
 * @param tell        called for each record that is lost, before it is: told twice if the first repair was
 *                    killed in between; NULL: nobody
 * @param progress    as that of depot_check()
 * @param ret_report  also set on failure
 * @return 0; -ENOSPC (no free segment to move what can be read to); -EBADMSG (a summary cannot be read any
 * more); as tarn_depot_open(); -EIO; -EROFS
 *
 * Yields.
 */
base_must_check int depot_repair(struct tarn_node *node, const char *path, bool direct_off,
                                 void (*tell)(void *arg, const struct depot_lost *lost),
                                 void (*progress)(void *arg, uint64_t done, uint64_t all), void *arg,
                                 struct depot_repair_report *ret_report);

/** Whether it makes room by evicting. */
bool depot_is_cache(const struct tarn_depot *depot);

/** What the store's drive is. Valid until the store is closed. */
const struct drive_info *depot_drive_info(const struct tarn_depot *depot);

/** The store's drive, only to be asked about. Valid until the store is closed. */
const struct drive *depot_drive(const struct tarn_depot *depot);

/** How the store was made. Valid until the store is closed. */
const struct seglog_superblock_format *depot_superblock(const struct tarn_depot *depot);

/** Whether a write failed, so that the store takes no more. Any thread or task. */
bool depot_failed(struct tarn_depot *depot);

/** Have one request in `interval` measured from now on, and forget what was. Any thread or task. */
void depot_measure(struct tarn_depot *depot, uint32_t interval);

/** The measured share of requests: one in this many. */
uint32_t depot_measure_interval(const struct tarn_depot *depot);

/** Whether the caller is to measure a request that has come to it: depot_queued() when it asks the store. */
bool depot_measures(struct tarn_depot *depot);

/** A request has waited so long before the store was asked: TARN_STAGE_QUEUE. Any thread or task. */
void depot_queued(struct tarn_depot *depot, uint64_t ns);

/**
 * Write the histograms of the stages as a JSON object.
 *
 * @param key  name of the object in its parent, or NULL
 * @return 0; -ENOMEM. Any thread or task.
 */
base_must_check int depot_write_stages(struct tarn_depot *depot, struct base_json *json, const char *key);

/** Civil time at which an order of tarn_depot_flush_all() is carried out; 0: none is pending. Any thread or task. */
uint64_t depot_flush_when(const struct tarn_depot *depot);

/**
 * Look at the items of a batch before anything else is: their keys, notes, and lengths.
 *
 * @param ret_bytes  the sum of tarn_depot_batch_bytes()
 * @return 0; -EINVAL (each item that is wrong says so in its error, and all others have 0); -E2BIG; -EROFS
 */
base_must_check int depot_batch_check(const struct tarn_depot *depot, struct tarn_batch_item *items,
                                      size_t count, uint64_t *ret_bytes);

/** A batch has failed: tell it the items whose error is 0, or that others are to blame; those that were told before stay as they are. @return what the first to blame says;
 * `error`, if none is */
int depot_batch_tell(struct tarn_batch_item *items, size_t count, int error);

/** The sequence below which all records were flushed: it changes with each flush that is carried out. */
uint64_t depot_gone_sequence(const struct tarn_depot *depot);

/* A get's error: the key is there, its info is set, and its value lies in pieces: tarn_depot_read() has it.
 */
#define DEPOT_IN_PIECES (-E2BIG)

/**
 * Called for a get, in their order. Must not yield, nor call the store, but for depot_lease_keep().
 *
 * @param get    its error and info are set
 * @param lease  if there was no error: of the value, borrowed until return unless it is kept
 * @return false: there is no room for it now. It is not counted, and no other is shown
 */
typedef bool depot_get_function(void *arg, struct tarn_get *get, struct tarn_lease *lease);

/**
 * Keep a shown value beyond the return of the function that it is shown to. The lease is copied then, and ended later.
 *
 * @return false: too much is on lease, or there is no memory; it may be copied
 */
base_must_check bool depot_lease_keep(struct tarn_lease *lease);

/* The room that a caller has for shown values. */
struct depot_room {
    uint64_t bytes;       /* for values that are copied */
    uint64_t extra_bytes; /* of that, what each get takes besides */
    uint64_t lease_bytes; /* of values that are kept: those in records of … */
    uint64_t lease_from;  /* the least bytes of a value that is kept; UINT64_MAX: none are */
};

/**
 * Show the values of keys where they were read, with all reads in flight at once, as long as there is room.
 *
 * @param gets  only their keys are read
 * @param room  none is read that would not fit with those before it, but for the first
 * @return how many were shown, from the first on; less than count only if the room has ended
 *
 * Yields, and holds buffers of the store only while it runs, but for those that are kept.
 */
size_t depot_get_each(struct tarn_depot *depot, struct tarn_get *gets, size_t count,
                      const struct depot_room *room, depot_get_function *visit, void *arg);

#endif
