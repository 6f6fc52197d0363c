/* Tarn's index as one of the measured tables. */
#include "lab/index_tables.h"

#include "depot/index/index.h"
#include <errno.h>
#include <sys/mman.h>

enum {
    AHEAD = 12,            /* keys from prefetching to looking up */
    LOAD_PERCENT_MAX = 84, /* of a table that is as small as it may be */
    ADDRESS_BITS = 34,     /* as of a store of 1 TB */
    TAG_BITS = 14,
    GROWTH_REGIONS = 8, /* split at once */
};

struct tarn {
    struct lab_index_table table;
    struct depot_index index;
};

void *lab_index_map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

void lab_index_unmap(void *memory, size_t bytes)
{
    (void)munmap(memory, bytes);
}

static int open_tarn(const struct lab_index_table *options, uint64_t entries,
                     struct lab_index_table **ret_table)
{
    struct depot_index_widths widths = {.address_bits = ADDRESS_BITS, .tag_bits = TAG_BITS, .table_bits = 13};
    while (entries * 100 >> widths.table_bits > LOAD_PERCENT_MAX)
        widths.table_bits++;
    struct tarn *tarn = base_alloc(options->account, sizeof(*tarn));
    if (tarn == NULL)
        return -ENOMEM;
    tarn->table = *options;
    int error = depot_index_init(&tarn->index, options->account, &widths);
    if (error != 0) {
        base_free(options->account, tarn, sizeof(*tarn));
        return error;
    }
    *ret_table = &tarn->table;
    return 0;
}

static struct tarn *tarn_of(struct lab_index_table *table)
{
    return base_container_of(table, struct tarn, table);
}

static void close_tarn(struct lab_index_table *table)
{
    struct tarn *tarn = tarn_of(table);
    depot_index_deinit(&tarn->index);
    base_free(table->account, tarn, sizeof(*tarn));
}

static uint64_t find_one(struct tarn *tarn, uint64_t number)
{
    struct depot_index_view view;
    depot_index_find(&tarn->index, lab_index_hash(&tarn->table, number), &view);
    for (uint32_t i = 0; i < view.count; i++) { /* another key's may look alike */
        if (depot_index_address(&tarn->index, view.words[i]) == number + 1)
            return 1;
    }
    return 0;
}

static uint64_t find_tarn(struct lab_index_table *table, const uint64_t *numbers, uint64_t count)
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; i++)
        found += find_one(tarn_of(table), numbers[i]);
    return found;
}

static uint64_t find_ahead(struct lab_index_table *table, const uint64_t *numbers, uint64_t count)
{
    struct tarn *tarn = tarn_of(table);
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            depot_index_prefetch(&tarn->index, lab_index_hash(table, numbers[i + AHEAD]));
        found += find_one(tarn, numbers[i]);
    }
    return found;
}

static int insert_one(struct tarn *tarn, uint64_t number)
{
    uint64_t hash = lab_index_hash(&tarn->table, number);
    int error = depot_index_reserve(&tarn->index, hash);
    if (error == 0)
        depot_index_publish(&tarn->index, hash, number + 1, 1);
    return error;
}

static int insert_tarn(struct lab_index_table *table, uint64_t first, uint64_t count)
{
    int error = 0;
    for (uint64_t i = 0; i < count && error == 0; i++)
        error = insert_one(tarn_of(table), first + i);
    return error;
}

/* As the store's service does it. */
static int grow_tarn(struct lab_index_table *table, bool now)
{
    struct depot_index *index = &tarn_of(table)->index;
    if (!depot_index_wants_growth(index) && !now)
        return 0;
    int error = depot_index_grow_begin(index);
    while (error == 0 && depot_index_grow_step(index, GROWTH_REGIONS))
        ;
    return error;
}

static int insert_ahead(struct lab_index_table *table, uint64_t first, uint64_t count)
{
    struct tarn *tarn = tarn_of(table);
    int error = 0;
    for (uint64_t i = 0; i < count && error == 0; i++) {
        depot_index_prefetch(&tarn->index, lab_index_hash(table, first + i + AHEAD));
        error = insert_one(tarn, first + i);
    }
    return error;
}

static void remove_tarn(struct lab_index_table *table, uint64_t first, uint64_t count)
{
    struct tarn *tarn = tarn_of(table);
    for (uint64_t i = first; i < first + count; i++) {
        bool is_there = depot_index_remove(&tarn->index, lab_index_hash(table, i), i + 1);
        base_assert(is_there);
    }
}

const struct lab_index_kind lab_index_tarn = {
    .name = "tarn",
    .open = open_tarn,
    .close = close_tarn,
    .grow = grow_tarn,
    .find = find_tarn,
    .insert = insert_tarn,
    .remove = remove_tarn,
};

const struct lab_index_kind lab_index_ahead = {
    .name = "tarn-ahead",
    .open = open_tarn,
    .close = close_tarn,
    .find = find_ahead,
    .insert = insert_ahead,
    .remove = remove_tarn,
};
