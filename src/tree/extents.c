/* Room for extents. A *block* is a header of eight bytes and a piece; the header lies before a multiple of 16. */
#include "tree/extents.h"
#include <errno.h>
#include <string.h>

#define HEADER      8u
#define BLOCK_MIN   32u /* header, links and size of a free block */
#define FIRST_BLOCK HEADER
#define IS_FREE     UINT64_C(1) /* marks of a header, beside the block's size */
#define BEHIND_FREE                                                                                          \
    UINT64_C(2) /* the block before it is free, and its size stands in the eight bytes before the header */
#define SIZE (~UINT64_C(15))

/* Sizes of free blocks: classes by powers of two, each with LINES lines. */
#define LINE_SHIFT  5u
#define LINES       (1u << LINE_SHIFT)
#define CLASS_SHIFT 9u /* sizes below 1 << this have lines of 16 bytes, in class 0 */
#define CLASSES     26u

struct tree_extents {
    struct base_account *account;
    const struct tree_memory *memory;
    uint64_t top, used;
    uint64_t heads[CLASSES][LINES]; /* of lists of free blocks; 0: none */
    uint32_t class_bits;            /* classes with a free block */
    uint32_t line_bits[CLASSES];    /* and their lines */
};

/* ---- blocks ------------------------------------------------------------------------------------- */

static uint64_t word_at(const struct tree_extents *extents, uint64_t offset)
{
    return *(const uint64_t *)(const void *)(extents->memory->memory + offset);
}

static void set_word(const struct tree_extents *extents, uint64_t offset, uint64_t word)
{
    tree_memory_store64(extents->memory, offset, word);
}

static uint64_t size_of(const struct tree_extents *extents, uint64_t block)
{
    return word_at(extents, block) & SIZE;
}

static uint64_t next_of(const struct tree_extents *extents, uint64_t block)
{
    return word_at(extents, block + HEADER);
}

static uint64_t previous_of(const struct tree_extents *extents, uint64_t block)
{
    return word_at(extents, block + 2 * HEADER);
}

static void set_next(const struct tree_extents *extents, uint64_t block, uint64_t next)
{
    set_word(extents, block + HEADER, next);
}

static void set_previous(const struct tree_extents *extents, uint64_t block, uint64_t previous)
{
    set_word(extents, block + 2 * HEADER, previous);
}

/* ---- lists of free blocks ------------------------------------------------------------------------ */

/* The line that has free blocks of a size. */
static void find_line(uint64_t size, uint32_t *ret_class, uint32_t *ret_line)
{
    if (size < UINT64_C(1) << CLASS_SHIFT) {
        *ret_class = 0;
        *ret_line = (uint32_t)(size >> (CLASS_SHIFT - LINE_SHIFT));
        return;
    }
    const uint32_t power = 63u - (uint32_t)__builtin_clzll(size);
    *ret_class = base_min(power - CLASS_SHIFT + 1, CLASSES - 1);
    *ret_line = *ret_class == power - CLASS_SHIFT + 1 ? (uint32_t)(size >> (power - LINE_SHIFT)) & (LINES - 1)
                                                      : LINES - 1;
}

static void list_block(struct tree_extents *extents, uint64_t block)
{
    uint32_t class_number, line;
    find_line(size_of(extents, block), &class_number, &line);
    uint64_t *head = &extents->heads[class_number][line];
    set_next(extents, block, *head);
    set_previous(extents, block, 0);
    if (*head != 0)
        set_previous(extents, *head, block);
    *head = block;
    extents->class_bits |= 1u << class_number;
    extents->line_bits[class_number] |= 1u << line;
}

static void unlist_block(struct tree_extents *extents, uint64_t block)
{
    const uint64_t next = next_of(extents, block), previous = previous_of(extents, block);
    if (next != 0)
        set_previous(extents, next, previous);
    if (previous != 0) {
        set_next(extents, previous, next);
        return;
    }
    uint32_t class_number, line;
    find_line(size_of(extents, block), &class_number, &line);
    extents->heads[class_number][line] = next;
    if (next != 0)
        return;
    extents->line_bits[class_number] &= ~(1u << line);
    if (extents->line_bits[class_number] == 0)
        extents->class_bits &= ~(1u << class_number);
}

/* The first free block of the least line from a size on. @return 0: there is none */
static uint64_t first_from(const struct tree_extents *extents, uint64_t size)
{
    uint32_t class_number, line;
    find_line(size, &class_number, &line);
    uint32_t lines = extents->line_bits[class_number] & (UINT32_MAX << line);
    if (lines == 0) {
        const uint32_t classes =
            class_number + 1 < CLASSES ? extents->class_bits & (UINT32_MAX << (class_number + 1)) : 0;
        if (classes == 0)
            return 0;
        class_number = (uint32_t)__builtin_ctz(classes);
        lines = extents->line_bits[class_number];
    }
    return extents->heads[class_number][__builtin_ctz(lines)];
}

/* Find a free block of a size or more: the first of the line that such blocks are in, if that is one, as it is where sizes repeat;
 * else one of a line of which all are. @return 0: there is none */
static uint64_t find_block(const struct tree_extents *extents, uint64_t size)
{
    const uint32_t power = 63u - (uint32_t)__builtin_clzll(size);
    uint64_t block = first_from(extents, size);
    if (block != 0 && size_of(extents, block) < size)
        block = first_from(extents, size + (UINT64_C(1) << (power - LINE_SHIFT)) - 1);
    return block != 0 && size_of(extents, block) >= size ? block : 0;
}

/* ---- taking and giving --------------------------------------------------------------------------- */

/* Have a block be free, and the one behind it know. */
static void set_free(struct tree_extents *extents, uint64_t block, uint64_t size)
{
    set_word(extents, block, size | IS_FREE | (word_at(extents, block) & BEHIND_FREE));
    set_word(extents, block + size - HEADER, size);
    set_word(extents, block + size, word_at(extents, block + size) | BEHIND_FREE);
    list_block(extents, block);
}

uint64_t tree_extents_take(struct tree_extents *extents, uint64_t bytes)
{
    base_assert(bytes > 0 && bytes <= TREE_EXTENT_BYTES_MAX);
    const uint64_t size =
        base_max(base_align_up(bytes + HEADER, (uint64_t)TREE_EXTENT_ALIGNMENT), (uint64_t)BLOCK_MIN);
    uint64_t block = find_block(extents, size);
    if (block != 0) {
        const uint64_t all = size_of(extents, block);
        unlist_block(extents, block);
        if (all - size >= BLOCK_MIN) {
            set_word(extents, block + size, 0);
            set_free(extents, block + size, all - size);
            set_word(extents, block, size);
        } else {
            set_word(extents, block, all);
            set_word(extents, block + all, word_at(extents, block + all) & ~BEHIND_FREE);
        }
    } else {
        block = extents->top - HEADER;
        if (size > extents->memory->bytes - extents->top)
            return 0;
        set_word(extents, block, size);
        extents->top += size;
        set_word(extents, extents->top - HEADER, 0);
    }
    extents->used += size_of(extents, block);
    return block + HEADER;
}

void tree_extents_give(struct tree_extents *extents, uint64_t offset)
{
    uint64_t block = offset - HEADER, size = size_of(extents, block);
    base_assert((word_at(extents, block) & IS_FREE) == 0 && size >= BLOCK_MIN);
    extents->used -= size;
    if ((word_at(extents, block) & BEHIND_FREE) != 0) {
        const uint64_t before = word_at(extents, block - HEADER);
        block -= before;
        size += before;
        unlist_block(extents, block);
    }
    const uint64_t next = block + size;
    if (next + HEADER == extents->top) {
        extents->top = block + HEADER;
        set_word(extents, block, 0); /* what is before it is taken: two free blocks do not lie together */
        return;
    }
    if ((word_at(extents, next) & IS_FREE) != 0) {
        size += size_of(extents, next);
        unlist_block(extents, next);
    }
    set_free(extents, block, size);
}

/* ---- beginning, end and a look ------------------------------------------------------------------- */

void tree_extents_clear(struct tree_extents *extents)
{
    memset(extents->heads, 0, sizeof(extents->heads));
    memset(extents->line_bits, 0, sizeof(extents->line_bits));
    extents->class_bits = 0;
    extents->used = 0;
    extents->top = FIRST_BLOCK + HEADER; /* behind the header of the block that comes next */
    set_word(extents, FIRST_BLOCK, 0);
}

int tree_extents_open(struct base_account *account, const struct tree_memory *memory,
                      struct tree_extents **ret_extents)
{
    struct tree_extents *extents = base_alloc(account, sizeof(*extents));
    base_assert(base_is_aligned((uintptr_t)memory->memory | memory->bytes, TREE_EXTENT_ALIGNMENT) &&
                memory->bytes >= FIRST_BLOCK + HEADER);
    if (extents == NULL)
        return -ENOMEM;
    extents->account = account;
    extents->memory = memory;
    tree_extents_clear(extents);
    *ret_extents = extents;
    return 0;
}

void tree_extents_close(struct tree_extents *extents)
{
    if (extents != NULL)
        base_free(extents->account, extents, sizeof(*extents));
}

uint64_t tree_extents_top(const struct tree_extents *extents)
{
    return extents->top;
}

uint64_t tree_extents_used(const struct tree_extents *extents)
{
    return extents->used;
}

/* Whether a free block stands in the list of its size. */
static bool is_listed(const struct tree_extents *extents, uint64_t block)
{
    uint32_t class_number, line;
    find_line(size_of(extents, block), &class_number, &line);
    uint64_t at = extents->heads[class_number][line];
    while (at != 0 && at != block)
        at = next_of(extents, at);
    return at == block;
}

int tree_extents_check(const struct tree_extents *extents, const char **ret_why)
{
    uint64_t used = 0, end = extents->top - HEADER;
    bool was_free = false;
    for (uint64_t block = FIRST_BLOCK; block < end; block += size_of(extents, block)) {
        const uint64_t word = word_at(extents, block), size = word & SIZE;
        const bool is_free = (word & IS_FREE) != 0;
        const char *why = NULL;
        if (size < BLOCK_MIN || size > end - block)
            why = "a piece has an impossible size";
        else if (((word & BEHIND_FREE) != 0) != was_free)
            why = "a piece is wrong about the one before it";
        else if (is_free && was_free)
            why = "two free pieces lie together";
        else if (is_free && (word_at(extents, block + size - HEADER) != size || !is_listed(extents, block)))
            why = "a free piece is not in its list";
        if (why != NULL) {
            *ret_why = why;
            return -EUCLEAN;
        }
        used += is_free ? 0 : size;
        was_free = is_free;
    }
    if (was_free || used != extents->used) {
        *ret_why = was_free ? "the last piece is free" : "other bytes are taken than are counted";
        return -EUCLEAN;
    }
    return 0;
}
