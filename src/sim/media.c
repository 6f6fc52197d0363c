/* The medium of a simulated drive: writes, reads, flushes, and the versions that a power cut leaves. */
#include "sim/media.h"
#include <errno.h>

enum {
    PAGE_BYTES = SIM_PAGE_SECTORS * SIM_SECTOR_BYTES,
    VERSIONS_GROW_BY = 256,
};

#define VERSIONS_MAX (1u << 20) /* half a gigabyte of undurable sectors is a runaway test */

/* What a write left in a sector, not durable yet. */
struct sim_version {
    struct sim_version *older;
    struct base_list link; /* in media->undurable */
    uint64_t sector;
    uint64_t completed; /* when its write completed */
    uint64_t write;
    uint8_t data[SIM_SECTOR_BYTES];
    bool out_of_reach; /* a flush of it failed: readers find it, and no later flush covers it */
};

/* What a power cut leaves, drawn once for all sectors, so that rare patterns are not rare. */
enum survival { SURVIVE_MEDIUM, SURVIVE_NEWEST, SURVIVE_ANY, SURVIVE_BY_WRITE, SURVIVAL_COUNT };

/* What becomes of sectors whose flush failed. */
enum flush_loss { LOSS_AT_ONCE, LOSS_OUT_OF_REACH, LOSS_IN_DOUBT, LOSS_COUNT };

int sim_media_init(struct sim_media *media, struct base_account *account, uint64_t bytes)
{
    *media = (struct sim_media){.account = account, .bytes = bytes, .page_count = bytes / PAGE_BYTES};
    base_assert(base_is_aligned(bytes, PAGE_BYTES));
    media->pages = base_alloc(account, media->page_count * sizeof(media->pages[0]));
    if (media->pages == NULL)
        return -ENOMEM;
    base_pool_init(&media->versions, account, sizeof(struct sim_version), 0, VERSIONS_MAX, VERSIONS_GROW_BY);
    base_list_init(&media->undurable);
    return 0;
}

uint64_t sim_media_tick(struct sim_media *media)
{
    return ++media->clock;
}

/* ---- sectors --------------------------------------------------------------------------------- */

static struct sim_page *find_page(const struct sim_media *media, uint64_t sector)
{
    return media->pages[sector / SIM_PAGE_SECTORS];
}

static struct sim_page *make_page(struct sim_media *media, uint64_t sector)
{
    struct sim_page **page = &media->pages[sector / SIM_PAGE_SECTORS];
    if (*page == NULL)
        *page = base_alloc(media->account, sizeof(**page));
    base_assert(*page != NULL);
    return *page;
}

static uint8_t *medium_of(struct sim_page *page, uint64_t sector)
{
    return page->data + sector % SIM_PAGE_SECTORS * SIM_SECTOR_BYTES;
}

static struct sim_version **newest_of(struct sim_page *page, uint64_t sector)
{
    return &page->newest[sector % SIM_PAGE_SECTORS];
}

/* Forget the version that a link of a sector's chain points to. */
static void drop_version(struct sim_media *media, struct sim_version **where)
{
    struct sim_version *version = *where;
    *where = version->older;
    base_list_remove(&version->link);
    base_pool_put(&media->versions, version);
}

/* Forget the version that `where` points to and all older ones. */
static void drop_from(struct sim_media *media, struct sim_page *page, uint64_t sector,
                      struct sim_version **where)
{
    while (*where != NULL)
        drop_version(media, where);
    if (*newest_of(page, sector) == NULL)
        media->undurable_sectors--;
}

/* The version that `where` points to is on the medium now, and what it replaced is gone. */
static void harden(struct sim_media *media, struct sim_page *page, uint64_t sector,
                   struct sim_version **where)
{
    memcpy(medium_of(page, sector), (*where)->data, SIM_SECTOR_BYTES);
    drop_from(media, page, sector, where);
}

static void read_sector(const struct sim_media *media, uint64_t sector, uint8_t *data)
{
    struct sim_page *page = find_page(media, sector);
    if (page == NULL)
        memset(data, 0, SIM_SECTOR_BYTES);
    else if (*newest_of(page, sector) != NULL)
        memcpy(data, (*newest_of(page, sector))->data, SIM_SECTOR_BYTES);
    else
        memcpy(data, medium_of(page, sector), SIM_SECTOR_BYTES);
}

void sim_media_deinit(struct sim_media *media)
{
    for (uint64_t i = 0; i < media->page_count; i++) {
        struct sim_page *page = media->pages[i];
        if (page == NULL)
            continue;
        for (uint64_t j = 0; j < SIM_PAGE_SECTORS; j++) {
            if (page->newest[j] != NULL)
                drop_from(media, page, j, &page->newest[j]);
        }
        base_free(media->account, page, sizeof(*page));
    }
    base_free(media->account, media->pages, media->page_count * sizeof(media->pages[0]));
    base_pool_deinit(&media->versions);
}

/* ---- reading and writing --------------------------------------------------------------------- */

void sim_media_read(const struct sim_media *media, uint64_t offset, void *data, size_t bytes)
{
    base_assert(offset <= media->bytes && bytes <= media->bytes - offset);
    uint8_t *to = data;
    while (bytes > 0) {
        uint8_t sector[SIM_SECTOR_BYTES];
        size_t skip = offset % SIM_SECTOR_BYTES;
        size_t part = base_min(bytes, SIM_SECTOR_BYTES - skip);
        read_sector(media, offset / SIM_SECTOR_BYTES, sector);
        memcpy(to, sector + skip, part);
        to += part;
        offset += part;
        bytes -= part;
    }
}

void sim_media_read_durable(const struct sim_media *media, uint64_t sector, void *ret_data)
{
    struct sim_page *page = find_page(media, sector);
    if (page == NULL)
        memset(ret_data, 0, SIM_SECTOR_BYTES);
    else
        memcpy(ret_data, medium_of(page, sector), SIM_SECTOR_BYTES);
}

/* Where in a sector's chain a piece takes effect. A part of a sector goes on top: it was merged with that. */
static struct sim_version **place_of(struct sim_version **newest, const struct sim_piece *piece,
                                     struct base_random *random)
{
    struct sim_version **where = newest;
    if (piece->bytes < SIM_SECTOR_BYTES)
        return where;
    while (*where != NULL && (*where)->completed > piece->posted && base_random_below(random, 2) == 0)
        where = &(*where)->older;
    return where;
}

void sim_media_write(struct sim_media *media, const struct sim_piece *piece, struct base_random *random)
{
    media->changes++;
    uint64_t sector = piece->offset / SIM_SECTOR_BYTES;
    size_t skip = piece->offset % SIM_SECTOR_BYTES;
    base_assert(skip + piece->bytes <= SIM_SECTOR_BYTES && piece->offset + piece->bytes <= media->bytes);
    struct sim_version *version = base_pool_get(&media->versions);
    base_assert(version != NULL);
    read_sector(media, sector, version->data);
    memcpy(version->data + skip, piece->data, piece->bytes);
    version->link = (struct base_list){0};
    version->sector = sector;
    version->completed = sim_media_tick(media);
    version->out_of_reach = false;
    version->write = piece->write;

    struct sim_page *page = make_page(media, sector);
    struct sim_version **newest = newest_of(page, sector);
    if (*newest == NULL)
        media->undurable_sectors++;
    struct sim_version **where = place_of(newest, piece, random);
    version->older = *where;
    *where = version;
    base_list_push_back(&media->undurable, &version->link);
    if (piece->durable)
        harden(media, page, sector, where);
}

/* ---- flushing and power cuts ----------------------------------------------------------------- */

static bool is_covered(const struct sim_version *version, uint64_t before)
{
    return version->completed < before && !version->out_of_reach;
}

/* The newest version of a sector that a flush covers; points to NULL if none is. */
static struct sim_version **find_covered(struct sim_page *page, uint64_t sector, uint64_t before)
{
    struct sim_version **where = newest_of(page, sector);
    while (*where != NULL && !is_covered(*where, before))
        where = &(*where)->older;
    return where;
}

/* A version that a flush covers, NULL if there is none. */
static struct sim_version *first_covered(const struct sim_media *media, uint64_t before)
{
    base_list_for_each(item, &media->undurable) {
        struct sim_version *version = base_container_of(item, struct sim_version, link);
        if (is_covered(version, before))
            return version;
    }
    return NULL;
}

void sim_media_flush(struct sim_media *media, uint64_t before)
{
    struct sim_version *version;
    while ((version = first_covered(media, before)) != NULL) {
        struct sim_page *page = find_page(media, version->sector);
        harden(media, page, version->sector, find_covered(page, version->sector, before));
    }
}

void sim_media_flush_failed(struct sim_media *media, uint64_t before, struct base_random *random)
{
    enum flush_loss loss = (enum flush_loss)base_random_below(random, LOSS_COUNT);
    uint64_t durable_of_4 = base_random_below(random, 4); /* sectors that it had made durable */
    struct base_list kept;                                /* out of the list, so that each is met once */
    base_list_init(&kept);
    media->changes++; /* readers may find less than before */
    struct sim_version *version;
    while ((version = first_covered(media, before)) != NULL) {
        uint64_t sector = version->sector;
        struct sim_page *page = find_page(media, sector);
        struct sim_version **covered = find_covered(page, sector, before);
        if (base_random_below(random, 4) < durable_of_4) {
            harden(media, page, sector, covered);
        } else if (loss == LOSS_AT_ONCE) {
            drop_from(media, page, sector, covered);
        } else {
            for (version = *covered; version != NULL; version = version->older) {
                base_list_remove(&version->link);
                base_list_push_back(&kept, &version->link);
                version->out_of_reach = version->out_of_reach || loss == LOSS_OUT_OF_REACH;
            }
        }
    }
    base_list_move_all(&media->undurable, &kept);
}

/* The link of a sector's chain that survives a cut; points to NULL: the medium does. */
static struct sim_version **find_survivor(struct sim_version **newest, enum survival survival, uint64_t salt,
                                          struct base_random *random)
{
    struct sim_version **where = newest;
    uint64_t count = 0;
    switch (survival) {
    case SURVIVE_NEWEST:
        break;
    case SURVIVE_BY_WRITE:
        while (*where != NULL && (base_hash64(&(*where)->write, sizeof((*where)->write), salt) & 1) == 0)
            where = &(*where)->older;
        break;
    case SURVIVE_ANY:
        for (const struct sim_version *version = *newest; version != NULL; version = version->older)
            count++;
        for (count = base_random_below(random, count + 1); count > 0; count--)
            where = &(*where)->older;
        break;
    default:
        while (*where != NULL)
            where = &(*where)->older;
    }
    return where;
}

void sim_media_cut(struct sim_media *media, struct base_random *random)
{
    enum survival survival = (enum survival)base_random_below(random, SURVIVAL_COUNT);
    uint64_t salt = base_random_u64(random);
    struct base_list *first;
    while ((first = base_list_first(&media->undurable)) != NULL) {
        uint64_t sector = base_container_of(first, struct sim_version, link)->sector;
        struct sim_page *page = find_page(media, sector);
        struct sim_version **newest = newest_of(page, sector);
        const struct sim_version *survivor = *find_survivor(newest, survival, salt, random);
        if (survivor != NULL)
            memcpy(medium_of(page, sector), survivor->data, SIM_SECTOR_BYTES);
        drop_from(media, page, sector, newest);
    }
}
