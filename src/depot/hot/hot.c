/* The hot tier: opening, finding, adding. Its table is in table.c, its memory in pages.c, what stays in queues.c. */
#include "depot/hot/hot_internal.h"
#include <errno.h>
#include <sys/mman.h>

#define PAGE_BYTES_MIN        (UINT64_C(4) << 10)
#define PAGE_BYTES_MAX        (UINT64_C(256) << 10)
#define PAGES_OF_A_PART       32 /* at least, where there are several parts */
#define PAGES_MIN             64 /* of the whole, when it is as large as it may be */
#define TABLE_SHARE           3  /* of the memory, that a table of the smallest records takes */
#define TABLE_STEP_BYTES      (UINT64_C(64) << 10)
#define TABLE_HUGE_FROM_BYTES (UINT64_C(16) << 20) /* of a part's table, when it is as large as it may be */
#define HUGE_PAGE_BYTES       (UINT64_C(2) << 20)

/* ---- opening ------------------------------------------------------------------------------------- */

static uint32_t choose_page_bytes(uint64_t bytes_max)
{
    uint64_t bytes = PAGE_BYTES_MAX;
    while (bytes > PAGE_BYTES_MIN && bytes * PAGES_MIN > bytes_max)
        bytes /= 2;
    return (uint32_t)bytes;
}

static uint32_t choose_parts(uint64_t pages)
{
    uint32_t parts = 1;
    while (parts < HOT_PARTS_MAX && pages >= (uint64_t)2 * parts * PAGES_OF_A_PART)
        parts *= 2;
    return parts;
}

static bool give_back(void *arg)
{
    return depot_hot_give_back(arg);
}

static void init_part(struct depot_hot *hot, uint32_t number)
{
    struct hot_part *part = &hot->parts[number];
    uint32_t room = hot->page_count / hot->part_count;
    base_spin_init(&part->lock);
    part->buckets = (void *)(hot->tables + number * hot->table_room_bytes);
    part->bucket_room = hot->table_room_bytes / sizeof(struct hot_bucket);
    part->table_bytes = hot->table_step_bytes;
    atomic_init(&part->bucket_count, hot->table_step_bytes / sizeof(struct hot_bucket));
    part->page_begin = number * room;
    part->page_room = room;
    for (uint32_t queue = 0; queue < HOT_QUEUES; queue++)
        part->open[queue] = HOT_NO_PAGE;
}

static size_t hot_bytes(const struct depot_hot *hot)
{
    return sizeof(*hot) + hot->part_count * sizeof(hot->parts[0]);
}

/* The first step of each part's table is not borrowed: it is kept. */
static uint64_t least_table_bytes(const struct depot_hot *hot)
{
    return hot->part_count * hot->table_step_bytes;
}

static uint64_t memory_bytes(const struct depot_hot *hot)
{
    return (uint64_t)hot->page_count * hot->page_bytes;
}

/* Take the addresses, and what memory there is from the beginning. @return 0; -ENOMEM: what was taken is in hot */
static int take_memory(struct depot_hot *hot)
{
    struct base_account *account = hot->parent;
    hot->memory = base_map_part(account, HUGE_PAGE_BYTES, memory_bytes(hot), 0);
    hot->tables = base_map_part(account, HUGE_PAGE_BYTES, hot->part_count * hot->table_room_bytes,
                                least_table_bytes(hot));
    hot->pages = base_alloc(account, hot->page_count * sizeof(*hot->pages));
    if (hot->memory == NULL || hot->tables == NULL || hot->pages == NULL)
        return -ENOMEM;
    (void)madvise(hot->memory, memory_bytes(hot), MADV_HUGEPAGE);
    if (hot->table_step_bytes == HUGE_PAGE_BYTES)
        (void)madvise(hot->tables, hot->part_count * hot->table_room_bytes, MADV_HUGEPAGE);
    return 0;
}

static void free_memory(struct depot_hot *hot)
{
    struct base_account *account = hot->parent;
    base_free(account, hot->pages, hot->page_count * sizeof(*hot->pages));
    base_unmap_part(account, hot->tables, hot->part_count * hot->table_room_bytes, least_table_bytes(hot));
    base_unmap_part(account, hot->memory, memory_bytes(hot), 0);
    base_account_deinit(&hot->account);
    base_free(account, hot, hot_bytes(hot));
}

int depot_hot_open(struct base_account *account, const struct depot_hot_options *options,
                   struct depot_hot **ret_hot)
{
    uint64_t bytes_max = base_max(options->bytes_max, DEPOT_HOT_BYTES_MIN);
    uint32_t page_bytes = choose_page_bytes(bytes_max);
    uint32_t wanted =
        options->record_bytes_max == 0 ? DEPOT_HOT_RECORD_BYTES_DEFAULT : options->record_bytes_max;
    uint64_t pages = base_min(bytes_max / page_bytes,
                              (UINT64_C(1) << (HOT_LOCATION_BITS - 1)) / (page_bytes / HOT_UNIT_BYTES));
    struct depot_hot shape = {
        .parent = account,
        .spare_bytes = options->spare_bytes,
        .record_bytes_max = (uint32_t)base_min(wanted, page_bytes / 2 - sizeof(struct hot_front)),
        .page_bytes = page_bytes,
        .part_count = choose_parts(pages),
        .page_count = (uint32_t)pages,
    };
    uint64_t table_bytes = bytes_max / TABLE_SHARE / shape.part_count;
    shape.table_step_bytes = table_bytes < TABLE_HUGE_FROM_BYTES ? TABLE_STEP_BYTES : HUGE_PAGE_BYTES;
    shape.table_room_bytes = base_align_up(table_bytes, shape.table_step_bytes);
    struct depot_hot *hot = base_alloc_aligned(account, 2 * BASE_CACHE_LINE_BYTES, hot_bytes(&shape));
    if (hot == NULL)
        return -ENOMEM;
    memcpy(hot, &shape, sizeof(shape));
    base_account_init_user(&hot->account, account, "hot", bytes_max - least_table_bytes(hot));
    int error = take_memory(hot);
    if (error != 0) {
        free_memory(hot);
        return error;
    }
    for (uint32_t i = 0; i < hot->page_count; i++)
        hot->pages[i].hot = hot;
    for (uint32_t i = 0; i < hot->part_count; i++)
        init_part(hot, i);
    hot->borrower = (struct base_borrower){.give_back = give_back, .arg = hot};
    base_account_add_borrower(account, &hot->borrower);
    *ret_hot = hot;
    return 0;
}

void depot_hot_close(struct depot_hot *hot)
{
    if (hot == NULL)
        return;
    base_account_remove_borrower(hot->parent, &hot->borrower);
    for (uint32_t i = 0; i < hot->page_count; i++)
        base_assert(atomic_load_explicit(&hot->pages[i].pins, memory_order_relaxed) == 0);
    base_account_return(&hot->account, base_account_used(&hot->account));
    free_memory(hot);
}

/* ---- finding ------------------------------------------------------------------------------------- */

void depot_hot_unpin(struct depot_hot_page *page)
{
    /* Pairs with the load in hot_settle_pinned_locked(). */
    atomic_fetch_sub_explicit(&page->pins, 1, memory_order_release);
}

/*
 * Pin the page of a word's record, if the word is still there: then the record stays until the page is unpinned. Sequentially
 * consistent on either side: an evictor takes the word out and then looks at the pins, a reader pins and then looks at
 * the word, so at least one of them sees the other.
 */
static struct hot_front *pin(struct depot_hot *hot, const _Atomic uint64_t *at, uint64_t word)
{
    struct hot_front *front = hot_front_of(hot, word);
    struct depot_hot_page *page = hot_page_of(hot, front);
    atomic_fetch_add_explicit(&page->pins, 1, memory_order_seq_cst);
    if (base_likely(atomic_load_explicit(at, memory_order_seq_cst) == word))
        return front;
    depot_hot_unpin(page);
    return NULL;
}

/* Relaxed: one of two that count at once may be lost. */
static void count_hit(struct hot_front *front)
{
    uint8_t hits = atomic_load_explicit(&front->hits, memory_order_relaxed);
    if (hits < HOT_HITS_MAX)
        atomic_store_explicit(&front->hits, (uint8_t)(hits + 1), memory_order_relaxed);
}

static bool is_favoured(const struct depot_hot *hot, const struct hot_front *front)
{
    return hot_page_of(hot, front)->queue == HOT_MAIN ||
           atomic_load_explicit(&front->hits, memory_order_relaxed) > 1;
}

bool depot_hot_find(struct depot_hot *hot, uint64_t grain, uint64_t stamp, bool counts,
                    struct depot_hot_found *ret_found)
{
    uint64_t hash = hot_hash(grain), tag = hot_tag(hash);
    const struct hot_bucket *bucket = hot_bucket_of(hot_part_of(hot, hash), hash);
    for (uint32_t i = 0; i < HOT_WORDS; i++) {
        /* Relaxed: pin() looks again. */
        uint64_t word = atomic_load_explicit(&bucket->words[i], memory_order_relaxed);
        if (word >> HOT_LOCATION_BITS != tag || word == 0)
            continue;
        struct hot_front *front = pin(hot, &bucket->words[i], word);
        if (front == NULL)
            continue;
        if (base_likely(hot_grain(front) == grain && front->stamp == stamp)) {
            if (counts)
                count_hit(front);
            *ret_found = (struct depot_hot_found){
                .record = front->record,
                .room = (uint64_t)front->units * HOT_UNIT_BYTES - sizeof(*front),
                .page = hot_page_of(hot, front),
                .is_favoured = is_favoured(hot, front),
            };
            return true;
        }
        depot_hot_unpin(hot_page_of(hot, front));
    }
    return false;
}

void depot_hot_prefetch(struct depot_hot *hot, uint64_t grain)
{
    uint64_t hash = hot_hash(grain);
    hot_prefetch_bucket(hot_part_of(hot, hash), hash);
}

bool depot_hot_keep(struct depot_hot_page *page)
{
    struct depot_hot *hot = page->hot;
    uint32_t most = base_max(hot->page_count / HOT_KEPT_SHARE, 1U);
    if (atomic_fetch_add_explicit(&hot->kept, 1, memory_order_relaxed) < most)
        return true;
    atomic_fetch_sub_explicit(&hot->kept, 1, memory_order_relaxed);
    return false;
}

void depot_hot_unkeep(struct depot_hot_page *page)
{
    atomic_fetch_sub_explicit(&page->hot->kept, 1, memory_order_relaxed);
    depot_hot_unpin(page);
}

/* ---- adding and dropping ------------------------------------------------------------------------- */

static void add_locked(struct depot_hot *hot, struct hot_part *part, uint64_t hash, uint64_t grain,
                       uint64_t stamp, const struct depot_hot_part *parts, uint32_t count, uint32_t units,
                       bool favoured)
{
    base_spin_assert_held(&part->lock);
    _Atomic uint64_t *old = hot_find_locked(hot, part, hash, grain);
    if (old != NULL) {
        if (hot_front_of(hot, atomic_load_explicit(old, memory_order_relaxed))->stamp == stamp)
            return;
        hot_take_locked(part, hash, old, false); /* of a segment that was there before */
    }
    bool main = favoured || hot_take_ghost_locked(part, hash);
    struct hot_front *front = hot_room_locked(hot, part, main ? HOT_MAIN : HOT_TRIAL, units, true);
    if (front == NULL)
        return;
    front->stamp = stamp;
    front->grain_low = (uint32_t)grain;
    front->grain_high = (uint8_t)(grain >> 32);
    front->units = (uint16_t)units;
    atomic_store_explicit(&front->hits, 0, memory_order_relaxed);
    uint8_t *to = front->record;
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i].len > 0)
            memcpy(to, parts[i].bytes, parts[i].len);
        to += parts[i].len;
    }
    hot_put_locked(hot, part, hash, hot_word(hot, hash, front));
    atomic_fetch_add_explicit(&part->additions, 1, memory_order_relaxed);
    hot_resize_locked(hot, part);
}

void depot_hot_add(struct depot_hot *hot, uint64_t grain, uint64_t stamp, const struct depot_hot_part *parts,
                   uint32_t count, bool favoured)
{
    uint64_t hash = hot_hash(grain), bytes = 0;
    struct hot_part *part = hot_part_of(hot, hash);
    for (uint32_t i = 0; i < count; i++)
        bytes += parts[i].len;
    if (bytes > hot->record_bytes_max || !base_spin_lock_try(&part->lock))
        return;
    uint32_t units = (uint32_t)((sizeof(struct hot_front) + bytes + HOT_UNIT_BYTES - 1) / HOT_UNIT_BYTES);
    add_locked(hot, part, hash, grain, stamp, parts, count, units, favoured);
    base_spin_unlock(&part->lock);
}

bool depot_hot_drop(struct depot_hot *hot, uint64_t grain)
{
    uint64_t hash = hot_hash(grain);
    struct hot_part *part = hot_part_of(hot, hash);
    bool favoured = false;
    if (!base_spin_lock_try(&part->lock))
        return false;
    _Atomic uint64_t *word = hot_find_locked(hot, part, hash, grain);
    if (word != NULL) {
        const struct hot_front *front = hot_front_of(hot, atomic_load_explicit(word, memory_order_relaxed));
        favoured = is_favoured(hot, front);
        hot_take_locked(part, hash, word, false);
    }
    base_spin_unlock(&part->lock);
    return favoured;
}

/* ---- giving back --------------------------------------------------------------------------------- */

/* The part that has most, as far as can be seen without its lock. */
static struct hot_part *largest_part(struct depot_hot *hot)
{
    struct hot_part *largest = &hot->parts[0];
    for (uint32_t i = 1; i < hot->part_count; i++) {
        if (atomic_load_explicit(&hot->parts[i].pages, memory_order_relaxed) >
            atomic_load_explicit(&largest->pages, memory_order_relaxed))
            largest = &hot->parts[i];
    }
    return largest;
}

/* Return a page of one part. What is pinned is left. */
static bool return_from(struct depot_hot *hot, struct hot_part *part)
{
    base_spin_lock(&part->lock);
    hot_settle_pinned_locked(hot, part);
    while (part->spare.count == 0 && hot_evict_locked(hot, part, false)) {
    }
    bool returned = hot_return_page_locked(hot, part);
    base_spin_unlock(&part->lock);
    return returned;
}

bool depot_hot_give_back(struct depot_hot *hot)
{
    if (return_from(hot, largest_part(hot)))
        return true;
    for (uint32_t i = 0; i < hot->part_count; i++) {
        if (return_from(hot, &hot->parts[i]))
            return true;
    }
    return false;
}

bool depot_hot_has_room(const struct depot_hot *hot)
{
    return base_account_unused(&hot->account) >= hot->page_bytes &&
           base_account_unused(hot->parent) >= hot_spare_bytes(hot) + hot->page_bytes;
}

void depot_hot_hold_off(struct depot_hot *hot, uint64_t bytes)
{
    atomic_store_explicit(&hot->held_off_bytes, bytes, memory_order_relaxed);
}

void depot_hot_stats(struct depot_hot *hot, struct depot_hot_stats *ret_stats)
{
    *ret_stats = (struct depot_hot_stats){.bytes = base_account_used(&hot->account) + least_table_bytes(hot)};
    for (uint32_t i = 0; i < hot->part_count; i++) {
        struct hot_part *part = &hot->parts[i];
        ret_stats->records += atomic_load_explicit(&part->records, memory_order_relaxed);
        ret_stats->additions += atomic_load_explicit(&part->additions, memory_order_relaxed);
        ret_stats->evictions += atomic_load_explicit(&part->evictions, memory_order_relaxed);
    }
}
