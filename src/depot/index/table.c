/* The memory of the index: directories and tables. */
#include "depot/index/index_internal.h"
#include <errno.h>
#include <sys/mman.h>

/* Tables from this size on take huge pages. */
#define HUGE_PAGE_BYTES ((uint64_t)2 << 20)
#define HUGE_FROM_BYTES (2 * HUGE_PAGE_BYTES)

/* What one table takes of a mapping: its words, and its regions' headers behind the words of all. */
static uint64_t words_bytes(const struct depot_index *index)
{
    return (((uint64_t)1 << index->widths.table_bits) + INDEX_EXTRA_WORDS) * sizeof(uint64_t);
}

static uint64_t regions_bytes(const struct depot_index *index)
{
    return index->regions * sizeof(struct depot_index_region);
}

/* Charged fresh zero pages, untouched. @return NULL: no memory */
static void *map_tables(const struct depot_index *index, uint64_t bytes)
{
    bool is_huge = bytes >= HUGE_FROM_BYTES;
    void *memory = base_map(index->account, is_huge ? HUGE_PAGE_BYTES : BASE_PAGE_BYTES, bytes);
    if (memory != NULL &&
        is_huge) /* keys hit a table all over: what misses are there, translations are most of */
        (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

struct depot_index_directory *depot_index_directory_make(struct depot_index *index,
                                                         struct depot_index_directory *previous)
{
    uint64_t old_tables = previous == NULL ? 0 : previous->mask + 1;
    uint64_t new_tables = previous == NULL ? 1 : old_tables;
    struct depot_index_directory shape = {
        .previous = previous,
        .bits = previous == NULL ? 0 : previous->bits + 1,
        .mask = old_tables + new_tables - 1,
        .memory_bytes =
            base_align_up(new_tables * (words_bytes(index) + regions_bytes(index)), BASE_PAGE_BYTES),
    };
    shape.untouched_bytes = shape.memory_bytes;
    struct depot_index_directory *made = base_alloc(index->account, depot_index_directory_bytes(&shape));
    if (made == NULL)
        return NULL;
    shape.memory = map_tables(index, shape.memory_bytes);
    if (shape.memory == NULL) {
        base_free(index->account, made, depot_index_directory_bytes(&shape));
        return NULL;
    }
    atomic_fetch_add_explicit(&index->table_bytes, shape.memory_bytes + depot_index_directory_bytes(&shape),
                              memory_order_relaxed);
    memcpy(made, &shape, sizeof(shape));
    for (uint64_t i = 0; i < old_tables; i++)
        made->tables[i] = previous->tables[i];
    uint8_t *words = made->memory;
    uint8_t *regions = words + new_tables * words_bytes(index);
    for (uint64_t i = 0; i < new_tables; i++) {
        made->tables[old_tables + i] = (struct depot_index_table){
            .words = (void *)(words + i * words_bytes(index)),
            .regions = (void *)(regions + i * regions_bytes(index)),
        };
    }
    return made;
}

/* The last page of words that has nothing else ends here. The headers behind them are kept. */
static uint64_t giveable_bytes(const struct depot_index *index, const struct depot_index_directory *directory)
{
    uint64_t tables = directory->previous == NULL ? 1 : directory->previous->mask + 1;
    return base_align_down(tables * words_bytes(index), BASE_PAGE_BYTES);
}

bool depot_index_directory_give(struct depot_index *index, struct depot_index_directory *directory)
{
    uint8_t *at = (uint8_t *)directory->memory + directory->given_bytes;
    uint64_t bytes =
        base_min(giveable_bytes(index, directory) - directory->given_bytes, (uint64_t)HUGE_PAGE_BYTES);
    /* Late readers find zeros there, as before: README, "Shrinking". */
    if (bytes == 0 || madvise(at, bytes, MADV_DONTNEED) != 0)
        return false;
    directory->given_bytes += bytes;
    index->given_bytes += bytes;
    atomic_fetch_sub_explicit(&index->table_bytes, bytes, memory_order_relaxed);
    base_account_give(index->account, bytes);
    return true;
}

/* A word is enough, and is zero; relaxed: late readers may look at it, no more. */
static void touch(uint8_t *memory, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += BASE_PAGE_BYTES)
        (void)atomic_fetch_or_explicit((_Atomic uint64_t *)(void *)(memory + at), 0, memory_order_relaxed);
}

int depot_index_directory_take(struct depot_index *index, struct depot_index_directory *directory)
{
    uint64_t given = directory->given_bytes;
    if (given > 0 && base_account_take(index->account, given) != 0)
        return -ENOMEM;
    atomic_fetch_add_explicit(&index->table_bytes, given, memory_order_relaxed);
    directory->given_bytes = 0;
    directory->untouched_bytes = base_max(directory->untouched_bytes, given);
    uint64_t bytes = base_min(directory->untouched_bytes, (uint64_t)HUGE_PAGE_BYTES);
    directory->untouched_bytes -= bytes;
    touch((uint8_t *)directory->memory + directory->untouched_bytes, bytes);
    return directory->untouched_bytes > 0;
}

void depot_index_directory_free(struct depot_index *index, struct depot_index_directory *directory)
{
    while (directory->next != NULL)
        directory = directory->next;
    while (directory != NULL) {
        struct depot_index_directory *previous = directory->previous;
        uint8_t *charged = (uint8_t *)directory->memory + directory->given_bytes;
        if (directory->given_bytes > 0)
            (void)munmap(directory->memory, directory->given_bytes);
        base_unmap(index->account, charged, directory->memory_bytes - directory->given_bytes);
        base_free(index->account, directory, depot_index_directory_bytes(directory));
        directory = previous;
    }
}
