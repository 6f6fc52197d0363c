/*
 * Damage at rest in campaign `depot`: in some runs, once, between an end of the store and its next opening, one sector of
 * the drive is damaged for good. From then on the store may refuse what the damage concerns, and itself; whatever it
 * answers must be as true as before.
 *
 *   clients have ended ──▶ mark: what is on the drive ──▶ vouch: a put on each scheduler ──▶ cut, kill or close ──▶ damage
 *
 * A write that was acknowledged last looks like one that was cut off once it is damaged, since nothing behind it vouches
 * for it. So only sectors are damaged that have not changed since the mark: each stream has acknowledged another group
 * since. The collector's stream cannot be made to, so its open segments are spared.
 */
#include "base/base.h"
#include "depot/depot.h"
#include "seglog/seglog_format.h"
#include "sim/campaigns/depot.h"
#include "sim/media.h"
#include <string.h>

enum { VOUCHER_KEY = 999, FLIPS_BITS_MAX = 4 };

/* What may come to stand in a sector. */
enum damage { DAMAGE_FLIP, DAMAGE_ZERO, DAMAGE_NOISE, DAMAGE_STALE, DAMAGE_COUNT };

void sim_play_draw_damage(struct play *play)
{
    base_random_init(&play->damage_random, base_hash64(play->random, sizeof(*play->random), 4));
    play->damage_epoch = base_random_below(&play->damage_random, 3) == 0
                             ? 1 + base_random_below(&play->damage_random, EPOCHS_MAX - 1)
                             : 0;
}

/* ---- images of the drive --------------------------------------------------------------------- */

static void take_image(struct play *play, uint8_t **image)
{
    if (*image == NULL)
        *image = base_alloc(sim_world_memory(play->world), play->disk_bytes[0]);
    base_assert(*image != NULL);
    sim_drive_peek(play->shared.disks[0], 0, *image, play->disk_bytes[0]);
}

void sim_play_remember_drive(struct play *play)
{
    if (play->damage_epoch > 0 && play->damage_mark.early == NULL)
        take_image(play, &play->damage_mark.early);
}

void sim_play_forget_drive(struct play *play)
{
    uint8_t *images[] = {play->damage_mark.early, play->damage_mark.marked};
    for (size_t i = 0; i < base_array_count(images); i++) {
        if (images[i] != NULL)
            base_free(sim_world_memory(play->world), images[i], play->disk_bytes[0]);
    }
}

/* ---- mark and vouch -------------------------------------------------------------------------- */

void sim_play_mark(struct play *play)
{
    struct sim_damage_mark *mark = &play->damage_mark;
    const struct seglog_superblock_format *superblock = depot_superblock(play->shared.depot);
    struct depot_segment_info info;
    mark->data_offset = superblock->data_offset;
    mark->segment_bytes = superblock->segment_bytes;
    memset(mark->segments, 0, sizeof(mark->segments));
    for (uint32_t i = 0; depot_segment(play->shared.depot, i, &info) == 0; i++) {
        base_assert(i < base_array_count(mark->segments));
        if (strcmp(info.state, "open") == 0 || strcmp(info.state, "closing") == 0)
            mark->segments[i] = strcmp(info.writer, "collector") == 0 ? SIM_SEGMENT_SPARED : SIM_SEGMENT_OPEN;
    }
    take_image(play, &mark->marked);
    mark->vouched = true;
}

void sim_play_vouch(void *arg)
{
    struct play *play = arg;
    const uint64_t key[2] = {VOUCHER_KEY, play->damage_mark.vouchers++};
    if (tarn_depot_put(play->shared.depot, key, sizeof(key), "", 0, NULL, NULL) != 0)
        play->damage_mark.vouched = false;
}

/* ---- damage ---------------------------------------------------------------------------------- */

static bool is_zero(const uint8_t *sector)
{
    static const uint8_t zeros[SIM_SECTOR_BYTES];
    return memcmp(sector, zeros, sizeof(zeros)) == 0;
}

/* Whether a sector may be damaged. @param in_tail  only if a client's open segment has it */
static bool may_rot(const struct play *play, uint64_t offset, bool in_tail)
{
    const struct sim_damage_mark *mark = &play->damage_mark;
    uint8_t now[SIM_SECTOR_BYTES];
    enum sim_segment segment = SIM_SEGMENT_OTHER;
    if (offset >= mark->data_offset &&
        (offset - mark->data_offset) / mark->segment_bytes < base_array_count(mark->segments))
        segment = mark->segments[(offset - mark->data_offset) / mark->segment_bytes];
    sim_drive_peek(play->shared.disks[0], offset, now, sizeof(now));
    return segment != SIM_SEGMENT_SPARED && (!in_tail || segment == SIM_SEGMENT_OPEN) && !is_zero(now) &&
           memcmp(now, mark->marked + offset, sizeof(now)) == 0;
}

/* @return offset of a sector; UINT64_MAX: none may be damaged */
static uint64_t draw_sector(struct play *play, bool in_tail)
{
    uint64_t chosen = UINT64_MAX, count = 0;
    for (uint64_t offset = 0; offset < play->disk_bytes[0]; offset += SIM_SECTOR_BYTES) {
        if (may_rot(play, offset, in_tail) && base_random_below(&play->damage_random, ++count) == 0)
            chosen = offset;
    }
    return chosen;
}

static void flip_bits(struct base_random *random, uint8_t *sector)
{
    for (uint64_t count = UINT64_C(1) << base_random_below(random, FLIPS_BITS_MAX + 1); count > 0; count--) {
        uint64_t bit = base_random_below(random, UINT64_C(8) * SIM_SECTOR_BYTES);
        sector[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
}

void sim_play_damage(struct play *play)
{
    struct base_random *random = &play->damage_random;
    uint64_t offset = draw_sector(play, base_random_below(random, 2) == 0);
    enum damage damage = (enum damage)base_random_below(random, DAMAGE_COUNT);
    uint8_t sector[SIM_SECTOR_BYTES] = {0};
    if (offset == UINT64_MAX)
        return;
    if (damage == DAMAGE_FLIP)
        sim_drive_peek(play->shared.disks[0], offset, sector, sizeof(sector));
    if (damage == DAMAGE_FLIP)
        flip_bits(random, sector);
    else if (damage == DAMAGE_NOISE)
        base_random_fill(random, sector, sizeof(sector));
    else if (damage == DAMAGE_STALE && play->damage_mark.early != NULL)
        memcpy(sector, play->damage_mark.early + offset, sizeof(sector));
    sim_drive_poke(play->shared.disks[0], offset, sector, sizeof(sector));
    play->shared.damages++;
    sim_note(play->world, "damaged", (uint64_t)damage, offset);
}
