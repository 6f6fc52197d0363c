/*
 * What a simulated drive holds: the medium, and for each 512-byte sector that was written since, the
 * versions that a power cut may leave there instead.
 *
 *   sector ──▶ newest version ──▶ older ──▶ oldest ──▶ medium
 *              (what reads see)                        (what surely survives)
 *
 * Postings and completions are numbered by one clock: two writes are concurrent when one was posted
 * before the other completed, and only then may they take effect in either order.
 */
#ifndef SIM_MEDIA_H
#define SIM_MEDIA_H

#include "base/base.h"

#define SIM_SECTOR_BYTES 512
#define SIM_PAGE_SECTORS 8

struct sim_version;

/* A piece of the medium, made when it is first written. */
struct sim_page {
    struct sim_version *newest[SIM_PAGE_SECTORS];
    uint8_t data[SIM_PAGE_SECTORS * SIM_SECTOR_BYTES];
};

struct sim_media {
    struct base_account *account;
    uint64_t bytes;
    struct sim_page **pages; /* NULL: zeros */
    uint64_t page_count;
    struct base_pool versions;
    struct base_list undurable; /* of struct sim_version */
    uint64_t undurable_sectors;
    uint64_t clock;
    uint64_t changes; /* so far: equal numbers, equal content for readers */
};

/* A piece of a write that lies in one sector. */
struct sim_piece {
    uint64_t offset; /* on the drive */
    size_t bytes;    /* does not cross the sector's end */
    const uint8_t *data;
    uint64_t posted; /* when its write was posted, sim_media_tick() */
    uint64_t write;  /* number of its write */
    bool durable;
};

/** A medium full of zeros. @param bytes  a multiple of 4,096 @return 0; -ENOMEM */
base_must_check int sim_media_init(struct sim_media *media, struct base_account *account, uint64_t bytes);

/** Free it. */
void sim_media_deinit(struct sim_media *media);

/** The next number of the clock: for a posting, or a completion. */
uint64_t sim_media_tick(struct sim_media *media);

/** What a read of quiet sectors returns. */
void sim_media_read(const struct sim_media *media, uint64_t offset, void *data, size_t bytes);

/** What is on the medium itself in a sector. @param ret_data  SIM_SECTOR_BYTES */
void sim_media_read_durable(const struct sim_media *media, uint64_t sector, void *ret_data);

/** Let a piece of a write take effect, over or, drawn, under those that it was concurrent with. */
void sim_media_write(struct sim_media *media, const struct sim_piece *piece, struct base_random *random);

/** Make durable what completed before a moment of the clock. */
void sim_media_flush(struct sim_media *media, uint64_t before);

/**
 * Fail to: drawn sectors become durable; all others are, drawn once, dropped at once, or kept for readers
 * but out of reach of later flushes, or kept as they were.
 */
void sim_media_flush_failed(struct sim_media *media, uint64_t before, struct base_random *random);

/** Power cut: each sector keeps the medium's content or, drawn, that of any version since. */
void sim_media_cut(struct sim_media *media, struct base_random *random);

#endif
