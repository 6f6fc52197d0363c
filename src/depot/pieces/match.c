/* Matching pieces with heads: entries are gathered, sorted, and compared by their ids. */
#include "depot/pieces/match.h"
#include <errno.h>
#include <stdlib.h>

#define ITEMS_MIN 256

int depot_bigs_add(struct depot_bigs *bigs, const struct seglog_entry_format *entry, uint64_t grain)
{
    if ((entry->kind & SEGLOG_MARKS_PIECES) == 0)
        return 0;
    if (bigs->count == bigs->room) {
        uint64_t room = base_max(2 * bigs->room, (uint64_t)ITEMS_MIN);
        struct depot_big *items =
            base_realloc(bigs->account, bigs->items, bigs->room * sizeof(*items), room * sizeof(*items));
        if (items == NULL)
            return -ENOMEM;
        bigs->items = items;
        bigs->room = room;
    }
    bigs->items[bigs->count++] = (struct depot_big){.id = entry->superseded,
                                                    .hash = entry->hash[0],
                                                    .grain = grain,
                                                    .bytes = entry->bytes,
                                                    .number = entry->number,
                                                    .head = (entry->kind & SEGLOG_MARK_HEAD) != 0};
    return 0;
}

void depot_bigs_clear(struct depot_bigs *bigs)
{
    base_free(bigs->account, bigs->items, bigs->room * sizeof(*bigs->items));
    bigs->items = NULL;
    bigs->count = bigs->room = 0;
}

static int compare_grains(const void *a, const void *b)
{
    const struct depot_big *left = a, *right = b;
    return left->grain < right->grain ? -1 : left->grain > right->grain;
}

void depot_bigs_sort(struct depot_bigs *bigs)
{
    if (bigs->count > 0)
        qsort(bigs->items, bigs->count, sizeof(*bigs->items), compare_grains);
}

static int compare_ids(const void *a, const void *b)
{
    const struct depot_big *left = a, *right = b;
    if (left->id != right->id)
        return left->id < right->id ? -1 : 1;
    return compare_grains(a, b);
}

/* All of one id. At most one of the heads counts, since they have one key. */
static void match_value(const struct depot_big *items, uint64_t count, uint64_t gone_sequence,
                        depot_bigs_function *tell, void *arg)
{
    bool wanted = false;
    uint32_t pieces = 0;
    for (uint64_t i = 0; i < count; i++) {
        wanted = wanted || (items[i].head && items[i].counts && items[i].id >= gone_sequence);
        pieces += !items[i].head && items[i].counts;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (items[i].counts)
            tell(arg, &items[i], wanted, items[i].head ? pieces : 0);
    }
}

void depot_bigs_match(struct depot_bigs *bigs, uint64_t gone_sequence, depot_bigs_function *tell, void *arg)
{
    if (bigs->count > 0)
        qsort(bigs->items, bigs->count, sizeof(*bigs->items), compare_ids);
    for (uint64_t begin = 0, end; begin < bigs->count; begin = end) {
        for (end = begin + 1; end < bigs->count && bigs->items[end].id == bigs->items[begin].id;)
            end++;
        match_value(&bigs->items[begin], end - begin, gone_sequence, tell, arg);
    }
}
