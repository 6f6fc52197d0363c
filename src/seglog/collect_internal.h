/* The collector: collect.c decides what is collected and frees it, move.c moves what lives. */
#ifndef SEGLOG_COLLECT_INTERNAL_H
#define SEGLOG_COLLECT_INTERNAL_H

#include "seglog/seglog_internal.h"

#define SEGLOG_VICTIMS_MAX 64 /* freed by one state */

enum seglog_move_kind {
    SEGLOG_MOVE_VALUE,
    SEGLOG_MOVE_ENDED,     /* an expired value: a tombstone takes its place */
    SEGLOG_MOVE_TOMBSTONE, /* that is still needed */
};

/* A record on its way from a victim to the relocation stream. */
struct seglog_move {
    struct seglog_entry_format entry;
    uint64_t grain;            /* where it was */
    struct seglog_place place; /* where it, or its tombstone, is now */
    struct seglog_place grave; /* where the tombstone of an unwanted copy is */
    enum seglog_move_kind kind;
};

struct seglog_victim {
    uint32_t segment;
    bool bad;        /* something in it cannot be read: it stays */
    bool unfinished; /* something in it was not moved: it stays until another round */
};

/* How far a victim is emptied, beside how far users have used the room there was when it was begun. */
struct seglog_pace {
    uint64_t work_bytes;  /* to move, estimated */
    uint64_t moved_bytes; /* of them */
    uint64_t room_bytes;  /* for users, at the beginning */
};

/* The service's alone. */
struct seglog_collector {
    uint8_t *summary; /* seglog_summary_memory_bytes() */
    uint8_t *window;  /* of the victim that is being read */
    uint64_t window_bytes;
    struct seglog_move *moves;
    uint32_t moves_max;
    uint32_t unburied; /* the first of them: nobody wants the copy, and it has no tombstone yet */
    uint32_t count;    /* these, and behind them what is appended and not yet published */
    uint32_t planned;  /* behind all: in the window */
    /* Those of the present batch, and those before that wait for a tombstone. */
    struct seglog_victim victims[SEGLOG_VICTIMS_MAX];
    uint32_t victim_count;
    uint64_t
        oldest_other; /* the lowest stamp of any segment that is not free, the present victim's left out */
    uint64_t gone_sequence; /* lower sequences are gone, by a flush or the eviction horizon */
    bool gives_up;        /* of the victim: what is damaged is replaced by tombstones, see seglog_give_up() */
    uint64_t share_bytes; /* footprints that may still be written again of a segment that is evicted */
    uint32_t refused;     /* records of it whose keys were locked by others */
    struct seglog_exhaustion exhaustion;
    struct seglog_pace pace;

    /* oldest first: a round over all stamps that were issued before it began */
    uint64_t round_stamp;           /* 0: there is none */
    uint64_t round_tombstone_bytes; /* when it began */
    uint64_t round_dropped_bytes;   /* of tombstones, since then */
    uint64_t tombstone_floor;       /* no round while there are fewer … */
    uint64_t floor_stamp;           /* … and this is still the lowest stamp of all */
    uint32_t rounds_in_vain;

    /* progress: what was freed, all told */
    uint64_t best_bytes;
    uint64_t grants;
    uint64_t victims_in_vain;
};

/* Whether the collector wants a record, and what becomes of it. */
typedef bool seglog_move_wants(struct seglog *log, struct seglog_collector *collector,
                               const struct seglog_entry_format *entry, uint64_t grain,
                               enum seglog_move_kind *ret_kind);

/**
 * Plan what fits in one window, from entry `next` on: `planned` moves behind the others.
 *
 * @param ret_begin, ret_end  what has to be read of the drive
 * @return the entry to go on with
 */
uint32_t seglog_move_plan(struct seglog *log, struct seglog_collector *collector, uint32_t segment,
                          const struct seglog_entry_format *entries, uint32_t count, uint32_t next,
                          seglog_move_wants *wants_it, uint64_t *ret_begin, uint64_t *ret_end);

/** Find a record in the window, and read it again if it is not good. @return NULL: it is lost. Yields. */
const uint8_t *seglog_move_record(struct seglog *log, struct seglog_collector *collector,
                                  uint64_t window_begin, const struct seglog_move *move,
                                  struct seglog_record_format *ret_header);

/** Begin a victim that has so much to move. */
void seglog_pace_begin(struct seglog *log, uint64_t work_bytes);

/**
 * After so much was moved, sleep until users have used as much of their room, or for as long as moving it
 * takes at the slowest pace. Not at all when somebody waits for space.
 *
 * @return 0; -ECANCELED (the service stops); -EROFS. Yields.
 */
base_must_check int seglog_pace(struct seglog *log, uint64_t moved_bytes);

/** A collected segment counts as empty. */
void seglog_victim_set_state(struct seglog *log, uint32_t segment, enum seglog_segment_state state);

/** What is appended for a record. Marks of batches end here: what lives is committed. */
struct seglog_draft seglog_move_draft(const struct seglog_move *move,
                                      const struct seglog_record_format *header, const uint8_t *record);

/**
 * Move what lives in the last of the victims. Moves may remain to be published.
 *
 * @return 0 (also when the victim is bad); -ENOSPC (no segment to move to); -ECANCELED (the service stops);
 * -EIO; -EROFS. Yields.
 */
base_must_check int seglog_move_victim(struct seglog *log, struct seglog_collector *collector);

/**
 * Publish what was moved, and bury what the owner does not want. Victims may become bad.
 *
 * @return 0 (though there may have been no room for tombstones: seglog_victim_is_held()); -EIO; -EROFS.
 * Yields.
 */
base_must_check int seglog_move_publish(struct seglog *log, struct seglog_collector *collector);

/** Whether a copy of something in a victim has no tombstone yet, so that it cannot be freed. */
bool seglog_victim_is_held(const struct seglog *log, const struct seglog_collector *collector,
                           const struct seglog_victim *victim);

#endif
