/*
 * Repair: a store is opened, all of it is read, and the segments in which something is damaged are given up:
 * what can be read is moved, tombstones take the place of the rest.
 */
#include "depot/repair.h"
#include <errno.h>
#include <stdlib.h>

#define GRAINS_MIN 256

/* ---- places --------------------------------------------------------------------------------------- */

static int compare_grains(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static int grains_add(struct depot_grains *grains, uint64_t grain)
{
    if (grains->count == grains->room) {
        uint64_t room = base_max(2 * grains->room, (uint64_t)GRAINS_MIN);
        uint64_t *items = base_realloc(grains->account, grains->items, grains->room * sizeof(*items),
                                       room * sizeof(*items));
        if (items == NULL)
            return -ENOMEM;
        grains->items = items;
        grains->room = room;
    }
    grains->items[grains->count++] = grain;
    return 0;
}

static bool grains_have(const struct depot_grains *grains, uint64_t grain)
{
    return grains->count > 0 &&
           bsearch(&grain, grains->items, grains->count, sizeof(*grains->items), compare_grains) != NULL;
}

bool depot_repair_is_damaged(const struct tarn_depot *depot, uint64_t grain)
{
    return depot->repair != NULL && grains_have(&depot->repair->damaged, grain);
}

bool depot_repair_is_doomed(const struct tarn_depot *depot, uint64_t grain)
{
    return depot->repair != NULL && grains_have(&depot->repair->doomed, grain);
}

int depot_repair_doom(struct tarn_depot *depot, uint64_t grain)
{
    struct depot_repair *repair = depot->repair;
    const struct seglog_superblock_format *superblock = seglog_superblock(depot->log);
    repair->given_up[((grain << depot->grain_shift) - superblock->data_offset) / superblock->segment_bytes] =
        true;
    return grains_add(&repair->doomed, grain);
}

/* ---- finding -------------------------------------------------------------------------------------- */

struct search {
    struct depot_repair *repair;
    int error;
};

/* Segments come by rising number, and their records by rising grain. */
static void look_at(void *arg, const struct seglog_entry_format *entry, uint64_t grain, int error,
                    const struct seglog_record_format *header, const uint8_t *record)
{
    struct search *search = arg;
    struct depot_repair *repair = search->repair;
    (void)entry;
    (void)header;
    (void)record;
    if (error == 0)
        return;
    repair->given_up[repair->segment] = true;
    if (search->error == 0)
        search->error = grains_add(&repair->damaged, grain);
}

int depot_repair_find(struct tarn_depot *depot)
{
    struct depot_repair *repair = depot->repair;
    const struct seglog_superblock_format *superblock = seglog_superblock(depot->log);
    const uint64_t all = superblock->segment_count * superblock->segment_bytes;
    struct search search = {.repair = repair};
    while (search.error == 0 && seglog_checkpoint_found(depot->log))
        search.error = seglog_checkpoint_reject(depot->log);
    repair->segments = superblock->segment_count;
    repair->given_up = base_alloc(&depot->node->memory, repair->segments * sizeof(*repair->given_up));
    if (repair->given_up == NULL)
        return -ENOMEM;
    for (uint32_t *i = &repair->segment; search.error == 0 && *i < repair->segments; ++*i) {
        int error = seglog_check_segment(depot->log, *i, look_at, &search);
        if (error == -EUCLEAN)
            repair->given_up[*i] = true;
        else if (search.error == 0)
            search.error = error;
        if (repair->progress != NULL)
            repair->progress(repair->arg, (*i + 1) * superblock->segment_bytes, all);
    }
    return search.error;
}

/* ---- giving up ------------------------------------------------------------------------------------ */

bool depot_repair_note(struct tarn_depot *depot, const struct seglog_entry_format *entry, uint64_t grain,
                       const void *key, size_t key_bytes)
{
    struct depot_repair *repair = depot->repair;
    if (!depot_repair_is_damaged(depot, grain) && !depot_repair_is_doomed(depot, grain))
        return false;
    if ((entry->kind & SEGLOG_KIND_MASK) == SEGLOG_TOMBSTONE) {
        repair->report.tombstones++;
        return true;
    }
    const struct depot_lost lost = {.key = key,
                                    .key_bytes = key_bytes,
                                    .hash = {entry->hash[0], entry->hash[1]},
                                    .sequence = entry->sequence,
                                    .grain = grain};
    repair->report.lost++;
    repair->report.unnamed += key == NULL;
    if (repair->tell != NULL)
        repair->tell(repair->arg, &lost);
    return true;
}

/* Each of them, though one may fail. @return the first error */
static int give_up_all(struct tarn_depot *depot)
{
    struct depot_repair *repair = depot->repair;
    int first_error = 0;
    for (uint32_t i = 0; i < repair->segments; i++) {
        int error = repair->given_up[i] ? seglog_give_up(depot->log, i) : 0;
        repair->report.segments += repair->given_up[i] && error == 0;
        first_error = first_error == 0 ? error : first_error;
    }
    return first_error;
}

void depot_repair_serve(struct tarn_depot *depot)
{
    struct depot_repair *repair = depot->repair;
    if (repair == NULL || repair->served)
        return;
    repair->served = true;
    if (repair->doomed.count > 0)
        qsort(repair->doomed.items, repair->doomed.count, sizeof(*repair->doomed.items), compare_grains);
    int error = give_up_all(depot);
    if (error == 0) /* the check has said that something is missing */
        depot_loss_forget(depot);
    base_assert(task_wait_wake(&repair->done, error));
}

int depot_repair(struct tarn_node *node, const char *path, bool direct_off,
                 void (*tell)(void *arg, const struct depot_lost *lost),
                 void (*progress)(void *arg, uint64_t done, uint64_t all), void *arg,
                 struct depot_repair_report *ret_report)
{
    struct base_account *account = &node->memory;
    struct depot_repair repair = {.tell = tell,
                                  .progress = progress,
                                  .arg = arg,
                                  .damaged = {.account = account},
                                  .doomed = {.account = account}};
    struct tarn_depot *depot;
    task_wait_init(&repair.done);
    const struct depot_opening opening = {.direct = direct_off ? DRIVE_DIRECT_OFF : DRIVE_DIRECT_AUTO,
                                          .repair = &repair};
    int error = depot_open(node, path, NULL, &opening, &depot);
    if (error == 0) {
        error = task_wait_park_firmly(&repair.done);
        int closed = tarn_depot_close(depot);
        error = error == 0 ? closed : error;
    }
    base_free(account, repair.damaged.items, repair.damaged.room * sizeof(uint64_t));
    base_free(account, repair.doomed.items, repair.doomed.room * sizeof(uint64_t));
    base_free(account, repair.given_up, repair.segments * sizeof(*repair.given_up));
    *ret_report = repair.report;
    return error;
}
