/* Snapshots: a region is copied aside before its first change. README, "Snapshots of the index". */
#include "depot/index/index_internal.h"

struct depot_index_snapshot {
    const struct depot_index_directory *directory; /* of its moment */
    uint64_t bytes;
    _Atomic bool cancelled; /* what is not copied may have changed */
    /* By table and number; NULL: unchanged. Of the region's lock; of a region that did not live, of its
     * counterpart's. */
    _Atomic(const struct depot_index_copy *) copies[];
};

/* In place of the copy of a region that did not live. */
static const struct depot_index_copy did_not_live;

/* ---- copying aside ------------------------------------------------------------------------------ */

static uint64_t words_of(const struct depot_index *index, uint64_t number)
{
    return depot_index_region_end(index, number) - number * DEPOT_REGION_ENTRIES;
}

static uint64_t copy_bytes(const struct depot_index *index, uint64_t number)
{
    return sizeof(struct depot_index_copy) + words_of(index, number) * sizeof(uint64_t);
}

static _Atomic(const struct depot_index_copy *) *place_of(const struct depot_index *index,
                                                          struct depot_index_snapshot *snapshot,
                                                          uint64_t table, uint64_t number)
{
    return &snapshot->copies[table * index->regions + number];
}

/* The snapshot that a region may have to be copied for. Some region's lock is held, so that it is not freed.
 */
static struct depot_index_snapshot *snapshot_for(const struct depot_index *index, uint64_t table)
{
    /* acquire: pairs with the release in depot_index_snapshot_open() */
    struct depot_index_snapshot *snapshot = atomic_load_explicit(&index->snapshot, memory_order_acquire);
    if (base_likely(snapshot == NULL) ||
        /* relaxed: a reader of changed words has taken the region's lock after this */
        atomic_load_explicit(&snapshot->cancelled, memory_order_relaxed) || table > snapshot->directory->mask)
        return NULL;
    return snapshot;
}

bool depot_index_wants_copy(const struct depot_index *index, uint64_t table, uint64_t number)
{
    struct depot_index_snapshot *snapshot = snapshot_for(index, table);
    /* relaxed: under the lock */
    return base_unlikely(snapshot != NULL) &&
           atomic_load_explicit(place_of(index, snapshot, table, number), memory_order_relaxed) == NULL;
}

/* Relaxed, all of it: under the lock. The lock, and what counts entries, is nobody's in a copy. */
static void fill_copy(struct depot_index_copy *copy, const struct depot_index_region *region,
                      const _Atomic uint64_t *words, uint64_t count)
{
    uint8_t stashed = atomic_load_explicit(&region->stash_count, memory_order_relaxed);
    atomic_init(&copy->region.depth, atomic_load_explicit(&region->depth, memory_order_relaxed));
    atomic_init(&copy->region.stash_count, stashed);
    for (uint32_t i = 0; i < stashed; i++) {
        atomic_init(&copy->region.stash_homes[i],
                    atomic_load_explicit(&region->stash_homes[i], memory_order_relaxed));
        atomic_init(&copy->region.stash[i], depot_index_load_word(&region->stash[i]));
    }
    for (uint64_t i = 0; i < count; i++)
        atomic_init(&copy->words[i], depot_index_load_word(&words[i]));
}

void depot_index_preserve(struct depot_index *index, uint64_t tag, uint64_t number)
{
    uint64_t bytes = copy_bytes(index, number);
    struct depot_index_copy *copy = base_alloc_aligned(index->account, BASE_CACHE_LINE_BYTES, bytes);
    struct depot_index_part part = depot_index_lock_part(index, tag, number);
    if (depot_index_wants_copy(index, part.table, number)) {
        struct depot_index_snapshot *snapshot = snapshot_for(index, part.table);
        if (copy == NULL) { /* what is written counts for more */
            atomic_store_explicit(&snapshot->cancelled, true, memory_order_relaxed);
        } else {
            fill_copy(copy, part.region, part.words + number * DEPOT_REGION_ENTRIES, words_of(index, number));
            atomic_store_explicit(place_of(index, snapshot, part.table, number), copy, memory_order_relaxed);
            atomic_fetch_add_explicit(&index->copied_bytes, bytes, memory_order_relaxed);
            copy = NULL;
        }
    }
    base_spin_unlock(&part.region->lock);
    base_free(index->account, copy, bytes);
}

void depot_index_hold_to_change(struct depot_index *index, uint64_t hash, struct depot_index_held *ret_held)
{
    for (;;) {
        depot_index_hold(index, hash, ret_held);
        if (base_likely(!depot_index_held_wants_copy(index, ret_held)))
            return;
        depot_index_release(ret_held);
        depot_index_preserve_home(index, hash);
    }
}

bool depot_index_held_wants_copy(const struct depot_index *index, const struct depot_index_held *held)
{
    bool wants = false;
    if (base_likely(atomic_load_explicit(&index->snapshot, memory_order_relaxed) == NULL))
        return false;
    for (size_t i = 0; i < base_array_count(held->parts); i++)
        wants = wants || (held->parts[i].region != NULL &&
                          depot_index_wants_copy(index, held->parts[i].table, held->home.region + i));
    return wants;
}

void depot_index_preserve_home(struct depot_index *index, uint64_t hash)
{
    const struct depot_index_home home = depot_index_home_of(index, hash);
    depot_index_preserve(index, home.tag, home.region);
    if (home.region + 1 < index->regions)
        depot_index_preserve(index, home.tag, home.region + 1);
}

void depot_index_note_twin(const struct depot_index *index, uint64_t table, uint64_t number)
{
    struct depot_index_snapshot *snapshot = snapshot_for(index, table);
    const struct depot_index_copy *none = NULL; /* if there is a copy, it lived then and was merged since */
    if (base_unlikely(snapshot != NULL))        /* relaxed: the release of the twin's depth follows */
        (void)atomic_compare_exchange_strong_explicit(place_of(index, snapshot, table, number), &none,
                                                      &did_not_live, memory_order_relaxed,
                                                      memory_order_relaxed);
}

/* ---- opening, closing --------------------------------------------------------------------------- */

struct depot_index_snapshot *depot_index_snapshot_open(struct depot_index *index)
{
    const struct depot_index_directory *directory = depot_index_directory_now(index);
    uint64_t bytes = sizeof(struct depot_index_snapshot) +
                     (directory->mask + 1) * index->regions * sizeof(struct depot_index_copy *);
    struct depot_index_snapshot *snapshot = base_alloc(index->account, bytes);
    if (snapshot == NULL)
        return NULL;
    snapshot->directory = directory;
    snapshot->bytes = bytes;
    atomic_fetch_add_explicit(&index->copied_bytes, bytes, memory_order_relaxed);
    /* Sequentially consistent: README, "The moment". Pairs with the acquire in snapshot_for(). */
    atomic_store(&index->snapshot, snapshot);
    return snapshot;
}

bool depot_index_snapshot_is_whole(const struct depot_index_snapshot *snapshot)
{
    /* Relaxed: a reader of words that were changed without a copy took their lock after this was set. */
    return !atomic_load_explicit(&snapshot->cancelled, memory_order_relaxed);
}

void depot_index_snapshot_cancel(struct depot_index *index, struct depot_index_snapshot *snapshot)
{
    atomic_store_explicit(&snapshot->cancelled, true, memory_order_relaxed);
    for (uint64_t i = 0; i < (snapshot->directory->mask + 1) * index->regions; i++) {
        uint64_t number = i % index->regions;
        struct depot_index_region *region = &snapshot->directory->tables[i / index->regions].regions[number];
        base_spin_lock(&region->lock);
        const struct depot_index_copy *copy =
            atomic_exchange_explicit(&snapshot->copies[i], NULL, memory_order_relaxed);
        base_spin_unlock(&region->lock);
        if (copy == NULL || copy == &did_not_live)
            continue;
        base_free(index->account, (void *)(uintptr_t)copy, copy_bytes(index, number));
        atomic_fetch_sub_explicit(&index->copied_bytes, copy_bytes(index, number), memory_order_relaxed);
    }
}

/* A caller that still uses it holds a region's lock: once all locks were taken in turn, none does. */
static void await_users(const struct depot_index *index)
{
    const struct depot_index_directory *directory = depot_index_directory_now(index);
    for (uint64_t table = 0; table <= directory->mask; table++) {
        for (uint64_t number = 0; number < index->regions; number++) {
            base_spin_lock(&directory->tables[table].regions[number].lock);
            base_spin_unlock(&directory->tables[table].regions[number].lock);
        }
    }
}

void depot_index_snapshot_close(struct depot_index *index, struct depot_index_snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    atomic_store(&index->snapshot, NULL);
    await_users(index);
    depot_index_snapshot_cancel(index, snapshot);
    atomic_fetch_sub_explicit(&index->copied_bytes, snapshot->bytes, memory_order_relaxed);
    base_free(index->account, snapshot, snapshot->bytes);
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* A region of the snapshot's directory as it was; it is locked. @return false: it did not live, and is not */
static bool lock_image(const struct depot_index *index, struct depot_index_snapshot *snapshot, uint64_t table,
                       uint64_t number, struct depot_index_image *ret_image)
{
    const struct depot_index_table *tables = snapshot->directory->tables;
    struct depot_index_region *region = &tables[table].regions[number];
    base_spin_lock(&region->lock);
    /* Acquire: pairs with the release in depot_index_split_locked(). If it lives only since, that is noted.
     */
    bool lives = atomic_load_explicit(&region->depth, memory_order_acquire) != 0;
    const struct depot_index_copy *copy =
        atomic_load_explicit(place_of(index, snapshot, table, number), memory_order_relaxed);
    *ret_image = (struct depot_index_image){.locked = region, .region = region, .table = table};
    ret_image->words = tables[table].words + number * DEPOT_REGION_ENTRIES;
    if (copy != NULL) {
        ret_image->region = &copy->region;
        ret_image->words = copy->words;
        lives = copy != &did_not_live;
    }
    if (!lives)
        base_spin_unlock(&region->lock);
    return lives;
}

struct depot_index_image depot_index_lock_image(const struct depot_index *index,
                                                struct depot_index_snapshot *snapshot, uint64_t tag,
                                                uint64_t number)
{
    struct depot_index_image image;
    uint64_t mask = snapshot->directory->mask;
    /* Once at most, unless it is not whole any more and the index has shrunk much. */
    for (; !lock_image(index, snapshot, tag & mask, number, &image); mask >>= 1)
        base_assert(mask > 0);
    return image;
}

static void take_candidate(const struct depot_index *index, const struct depot_index_home *home,
                           uint64_t word, uint64_t offset, struct depot_index_view *view)
{
    uint64_t wanted = home->tag << index->tag_shift | offset;
    if (word != 0 && ((word ^ wanted) & index->match_mask) == 0 && !depot_index_word_is_reserved(index, word))
        view->words[view->count++] = word;
}

/* What matches of a neighbourhood from one offset to another, in one region. */
static void take_words(const struct depot_index *index, const struct depot_index_home *home,
                       const struct depot_index_image *image, uint32_t begin, uint32_t end,
                       struct depot_index_view *view)
{
    for (uint32_t i = begin; i < end; i++) {
        uint64_t place = home->position + i - (home->region + (begin > 0)) * DEPOT_REGION_ENTRIES;
        take_candidate(index, home, depot_index_load_word(&image->words[place]), i, view);
    }
}

void depot_index_snapshot_find(struct depot_index *index, struct depot_index_snapshot *snapshot,
                               uint64_t hash, struct depot_index_view *ret_view)
{
    const struct depot_index_home home = depot_index_home_of(index, hash);
    *ret_view = (struct depot_index_view){.hash = hash};
    struct depot_index_image image = depot_index_lock_image(index, snapshot, home.tag, home.region);
    take_words(index, &home, &image, 0, home.first, ret_view);
    /* Relaxed: under the lock. */
    uint32_t count = atomic_load_explicit(&image.region->stash_count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        if (atomic_load_explicit(&image.region->stash_homes[i], memory_order_relaxed) ==
            home.position % DEPOT_REGION_ENTRIES)
            take_candidate(index, &home, depot_index_load_word(&image.region->stash[i]), 0, ret_view);
    }
    base_spin_unlock(&image.locked->lock);
    if (home.first == DEPOT_NEIGHBOURHOOD)
        return;
    image = depot_index_lock_image(index, snapshot, home.tag, home.region + 1);
    take_words(index, &home, &image, home.first, DEPOT_NEIGHBOURHOOD, ret_view);
    base_spin_unlock(&image.locked->lock);
}
