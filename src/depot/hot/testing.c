/* The proof of the hot tier's invariants. */
#include "depot/hot/testing.h"
#include "base/testing.h"
#include "depot/hot/hot_internal.h"

/* Where a page may be. */
enum where { NOWHERE, OPEN, FULL, SPARE, PINNED, UNUSED };

struct proof {
    struct depot_hot *hot;
    struct hot_part *part;
    uint8_t *where; /* of each page */
    uint64_t records;
};

static void prove(bool holds, const char *sentence)
{
    if (!holds)
        fail_msg("the hot tier is wrong: %s", sentence);
}

static void note_page(struct proof *proof, uint32_t page, enum where where)
{
    prove(page >= proof->part->page_begin && page - proof->part->page_begin < proof->part->page_fresh,
          "a part has a page of another one, or one that it never borrowed");
    prove(proof->where[page] == NOWHERE, "a page is in two places");
    proof->where[page] = (uint8_t)where;
}

static void note_pages(struct proof *proof, const struct hot_pages *list, enum where where)
{
    uint32_t page = list->first;
    for (uint32_t i = 0; i < list->count; i++) {
        note_page(proof, page, where);
        prove(i + 1 < list->count || page == list->last, "the last page of a list is another one");
        page = proof->hot->pages[page].next;
    }
}

static void prove_pages(struct proof *proof)
{
    const struct hot_part *part = proof->part;
    for (uint32_t queue = 0; queue < HOT_QUEUES; queue++) {
        note_pages(proof, &part->full[queue], FULL);
        if (part->open[queue] != HOT_NO_PAGE)
            note_page(proof, part->open[queue], OPEN);
    }
    note_pages(proof, &part->spare, SPARE);
    note_pages(proof, &part->pinned, PINNED);
    note_pages(proof, &part->unused, UNUSED);
    uint32_t borrowed = 0;
    for (uint32_t i = 0; i < part->page_fresh; i++) {
        prove(proof->where[part->page_begin + i] != NOWHERE, "a page is lost");
        borrowed += proof->where[part->page_begin + i] != UNUSED;
    }
    prove(borrowed == atomic_load(&part->pages), "a part has not as many pages as it says");
}

static void prove_word(struct proof *proof, const struct hot_bucket *bucket, uint64_t word)
{
    struct depot_hot *hot = proof->hot;
    const struct hot_front *front = hot_front_of(hot, word);
    const struct depot_hot_page *page = hot_page_of(hot, front);
    uint8_t where = proof->where[page - hot->pages];
    uint64_t hash = hot_hash(hot_grain(front));
    uint64_t at = (uint64_t)((const uint8_t *)front - hot->memory) % hot->page_bytes / HOT_UNIT_BYTES;
    prove(where == OPEN || where == FULL, "a record lies in a page that has none");
    prove(at + front->units <= page->used_units, "a record lies behind the end of its page");
    prove(hot_word(hot, hash, front) == word, "the tag of a word is another place's");
    prove(hot_part_of(hot, hash) == proof->part && hot_bucket_of(proof->part, hash) == bucket,
          "a word is in another place's bucket");
    prove(atomic_load(&front->hits) <= HOT_HITS_MAX, "a record was asked for too often");
    for (uint32_t i = 0, same = 0; i < HOT_WORDS; i++) {
        uint64_t other = atomic_load(&bucket->words[i]);
        same += other != 0 && hot_grain(hot_front_of(hot, other)) == hot_grain(front);
        prove(same <= 1, "a grain has two records");
    }
    proof->records++;
}

void testing_hot_validate(struct depot_hot *hot)
{
    uint64_t borrowed = 0;
    for (uint32_t i = 0; i < hot->part_count; i++)
        base_spin_lock(&hot->parts[i].lock);
    struct proof proof = {.hot = hot, .where = test_calloc(hot->page_count, 1)};
    for (uint32_t i = 0; i < hot->part_count; i++) {
        struct hot_part *part = &hot->parts[i];
        uint64_t count = atomic_load(&part->bucket_count);
        proof.part = part;
        proof.records = 0;
        prove_pages(&proof);
        for (uint64_t at = 0; at < count; at++) {
            for (uint32_t word = 0; word < HOT_WORDS; word++) {
                if (atomic_load(&part->buckets[at].words[word]) != 0)
                    prove_word(&proof, &part->buckets[at], atomic_load(&part->buckets[at].words[word]));
            }
        }
        prove(proof.records == atomic_load(&part->records), "a part has not as many records as it says");
        prove(count * sizeof(struct hot_bucket) <= part->table_bytes,
              "a table is larger than what it has borrowed");
        borrowed +=
            part->table_bytes - hot->table_step_bytes + (uint64_t)atomic_load(&part->pages) * hot->page_bytes;
    }
    prove(borrowed == base_account_used(&hot->account), "the account says something else");
    for (uint32_t i = 0; i < hot->part_count; i++)
        base_spin_unlock(&hot->parts[i].lock);
    test_free(proof.where);
}
