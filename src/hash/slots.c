/*
 * Slots for records: slabs of tables that this client owns, and the way of a slot from one record to the next. A client alone writes to its
 * slabs. Nobody tells it when a record of its is replaced; it looks, when it has no other slots.
 *
 *   free ── hash_slot_take() ──▶ being written ── hash_slot_use() ──▶ used ── replaced ──▶ resting ── two operations later ──▶ free
 */
#include "hash/hash_internal.h"
#include <inttypes.h>
#include <stdio.h>

#define LOOK_SLOTS 32u /* that are looked at together for replaced records */
#define GOOD_PERCENT                                                                                         \
    30u /* replaced records among those: then it is worth to look at more before another slab is taken */
#define WORDS 512u

/* How long a slot rests: no operation that has read a word of before can count any more, whatever the drift of clocks. */
static uint64_t rest_ns(const struct hash *hash)
{
    return 2 * hash->shape.operation_ns;
}

/* ---- lists -------------------------------------------------------------------------------------- */

static bool grow_list(struct hash *hash, void **list, uint32_t *room, size_t entry_bytes)
{
    const uint32_t more = *room == 0 ? 64 : 2 * *room;
    void *longer = base_realloc(&hash->node->memory, *list, *room * entry_bytes, more * entry_bytes);
    if (longer == NULL)
        return false;
    *list = longer;
    *room = more;
    return true;
}

/* Note that a slot may be written. @return false: there is no memory for that, and it is used again after this client */
static bool add_free(struct hash *hash, struct hash_class *class, uint64_t address)
{
    if (class->free_count == class->free_room &&
        !grow_list(hash, (void **)&class->free, &class->free_room, sizeof(class->free[0])))
        return false;
    class->free[class->free_count++] = address;
    return true;
}

static void add_resting(struct hash *hash, struct hash_class *class, uint64_t address, uint64_t until_ns)
{
    if (class->resting_count == class->resting_room) {
        const uint32_t before = class->resting_room;
        if (!grow_list(hash, (void **)&class->resting, &class->resting_room, sizeof(class->resting[0])))
            return;
        for (uint32_t i = 0; i < class->resting_first;
             i++) /* what had wrapped around comes behind the rest */
            class->resting[before + i] = class->resting[i];
    }
    class->resting[(class->resting_first + class->resting_count++) % class->resting_room] =
        (struct hash_resting){.address = address, .until_ns = until_ns};
}

static void end_rests(struct hash *hash, struct hash_class *class)
{
    const uint64_t now = class->resting_count == 0 ? 0 : task_now();
    while (class->resting_count > 0 && class->resting[class->resting_first].until_ns <= now) {
        if (!add_free(hash, class, class->resting[class->resting_first].address))
            return;
        class->resting_first = (class->resting_first + 1) % class->resting_room;
        class->resting_count--;
    }
}

/* ---- slabs -------------------------------------------------------------------------------------- */

static struct hash_slab *slab_of(const struct hash *hash, uint64_t address, uint32_t *ret_slot)
{
    const uint32_t number = hash_slab_at_address(hash, address);
    struct hash_slab *slab = number < hash_slab_total(hash) ? hash->slabs[number] : NULL;
    *ret_slot = slab == NULL ? 0
                             : (uint32_t)(address % hash_slab_grains(&hash->shape)) /
                                   hash_class_grains(slab->class_number);
    return slab;
}

static uint64_t address_of(const struct hash *hash, const struct hash_slab *slab, uint32_t slot)
{
    return (uint64_t)slab->number * hash_slab_grains(&hash->shape) +
           (uint64_t)slot * hash_class_grains(slab->class_number);
}

static size_t slab_bytes(uint32_t slot_count)
{
    return sizeof(struct hash_slab) + slot_count;
}

/* Begin to own a slab. @param is_used  it may have records of a client before */
static int own_slab(struct hash *hash, uint32_t number, uint32_t class_number, bool is_used)
{
    const uint32_t count = hash_slab_grains(&hash->shape) / hash_class_grains(class_number);
    struct hash_class *class = &hash->classes[class_number];
    if (hash->slabs[number] != NULL)
        return 0;
    struct hash_slab *slab = base_alloc(&hash->node->memory, slab_bytes(count));
    if (slab == NULL)
        return -ENOMEM;
    slab->number = number;
    slab->class_number = class_number;
    slab->slot_count = count;
    hash->slabs[number] = slab;
    hash->slab_classes[number] = (uint16_t)(class_number + 1);
    hash->own[hash->own_count++] = number;
    class->slab_count++;
    if (is_used) {
        memset(slab->slots, HASH_SLOT_USED, count);
        return 0;
    }
    for (uint32_t slot = count; slot > 0; slot--) {
        if (!add_free(hash, class, address_of(hash, slab, slot - 1)))
            return -ENOMEM;
    }
    return 0;
}

void hash_slots_forget(struct hash *hash)
{
    struct base_account *account = &hash->node->memory;
    for (uint32_t i = 0; i < hash->own_count; i++) {
        struct hash_slab *slab = hash->slabs[hash->own[i]];
        hash->slabs[hash->own[i]] = NULL;
        base_free(account, slab, slab_bytes(slab->slot_count));
    }
    hash->own_count = 0;
    for (uint32_t i = 0; i < HASH_CLASSES_MAX; i++) {
        struct hash_class *class = &hash->classes[i];
        base_free(account, class->free, class->free_room * sizeof(class->free[0]));
        base_free(account, class->resting, class->resting_room * sizeof(class->resting[0]));
        *class = (struct hash_class){.free = NULL};
    }
}

int hash_slabs_adopt(struct hash *hash, uint32_t client, uint64_t deadline_ns)
{
    uint64_t words[WORDS];
    const uint32_t total = hash->table_count * hash_slabs_of_table(&hash->shape);
    int error = 0;
    for (uint32_t first = 0; first < total && error == 0; first += WORDS) {
        const uint32_t count = base_min(total - first, WORDS);
        error =
            hash_read_words(hash, hash->head, hash_slab_at(&hash->shape, first), words, count, deadline_ns);
        for (uint32_t i = 0; i < count && error == 0; i++) {
            if (hash_slab_owner(words[i]) != client + 1)
                continue;
            const uint64_t mine = hash_slab_word(words[i], hash->client + 1, hash_slab_class(words[i]));
            if (client != hash->client)
                error = hash_swap(hash, hash->session, hash->head, hash_slab_at(&hash->shape, first + i),
                                  words[i], mine, mine, deadline_ns);
            if (error == 0)
                error = own_slab(hash, first + i, hash_slab_class(words[i]), true);
            hash->stats.adopted += error == 0;
            error = error == -EAGAIN ? 0 : error;
        }
    }
    return error;
}

/* Note that this client does not own a slab any more. */
static void disown_slab(struct hash *hash, struct hash_slab *slab)
{
    struct hash_class *class = &hash->classes[slab->class_number];
    uint32_t kept = 0, place = 0;
    for (uint32_t i = 0; i < class->free_count; i++) {
        if (hash_slab_at_address(hash, class->free[i]) != slab->number)
            class->free[kept++] = class->free[i];
    }
    class->free_count = kept;
    class->slab_count--;
    while (hash->own[place] != slab->number)
        place++;
    hash->own[place] = hash->own[--hash->own_count];
    hash->slabs[slab->number] = NULL;
    hash->slab_classes[slab->number] = 0;
    base_free(&hash->node->memory, slab, slab_bytes(slab->slot_count));
}

int hash_slab_learn(struct hash *hash, uint64_t address, uint64_t deadline_ns)
{
    const uint32_t number = hash_slab_at_address(hash, address);
    uint64_t word = 0;
    if (number >= hash_slab_total(hash))
        return -EUCLEAN;
    int error = hash_read(hash->head, hash_slab_at(&hash->shape, number), &word, sizeof(word), deadline_ns);
    if (error == 0 && number / hash_slabs_of_table(&hash->shape) >= hash->table_count)
        error = hash_learn_tables(hash, deadline_ns);
    if (error == 0)
        hash->slab_classes[number] = (uint16_t)(hash_slab_owner(word) == 0 ? 0 : hash_slab_class(word) + 1);
    return error;
}

/* ---- more slabs --------------------------------------------------------------------------------- */

/* The memory server that has the most free memory, of those that were shown. */
struct emptiest {
    char name[TARN_SPACE_NAME_MAX + 1];
    uint64_t free_bytes;
};

static int note_emptiest(void *arg, const struct tarn_space_server_row *server)
{
    struct emptiest *emptiest = arg;
    if (server->is_there && !server->is_draining && server->free_bytes > emptiest->free_bytes) {
        (void)snprintf(emptiest->name, sizeof(emptiest->name), "%s", server->name);
        emptiest->free_bytes = server->free_bytes;
    }
    return 0;
}

/* Take a region for a table, where it is to be. */
static int alloc_table(struct hash *hash, const char *name, uint64_t deadline_ns,
                       struct tarn_space_region **ret_region)
{
    struct emptiest emptiest = {.free_bytes = 0};
    int error =
        hash->is_least_full ? tarn_space_list_servers(hash->space, note_emptiest, &emptiest, deadline_ns) : 0;
    return error != 0
               ? error
               : hash_alloc(hash, name, hash->shape.table_bytes, false,
                            hash->is_least_full ? emptiest.name : hash->place, deadline_ns, ret_region);
}

/* Make another table known that there is to be. @return 0; -EAGAIN: another client has done it; -ENOSPC */
static int make_table(struct hash *hash, uint64_t deadline_ns)
{
    const uint32_t table = hash->table_count;
    char name[TARN_SPACE_NAME_MAX + 1];
    struct tarn_space_region *region;
    struct tarn_space_info info;
    if (table == hash_tables(&hash->shape))
        return -ENOSPC;
    (void)snprintf(name, sizeof(name), "%s.table.%u", hash->name, table);
    int error = alloc_table(hash, name, deadline_ns, &region);
    if (error == -EEXIST) /* another client is at it, or was; what it made is as good */
        error = tarn_space_find(hash->of, name, deadline_ns, &region);
    if (error != 0)
        return error == -ENOENT && *hash->place == '\0' ? -EAGAIN : error;
    tarn_space_info(region, &info);
    const uint64_t word = info.address | (uint64_t)hash->place_tag << 2 | HASH_IS_THERE;
    error = hash_swap(hash, hash->session, hash->head, hash_table_at(table), 0, word, word, deadline_ns);
    tarn_space_drop(region);
    return error == 0 || error == -EAGAIN ? hash_learn_tables(hash, deadline_ns) : error;
}

/* Whether slabs of a table are where this client's records are to be, as far as it is known. */
static bool is_placed(const struct hash *hash, uint64_t table_word)
{
    return *hash->place == '\0' || (table_word >> 2 & 0x3fff) == hash->place_tag;
}

/* Take a slab that nobody has. @param word  its @return 0; -EAGAIN: another client was faster; errors */
static int take_free_slab(struct hash *hash, uint32_t number, uint64_t word, uint32_t class_number,
                          uint64_t deadline_ns)
{
    const uint64_t mine = hash_slab_word(word, hash->client + 1, class_number);
    const uint64_t bytes = word == 0 ? 0 : hash->shape.slab_bytes; /* 0: nobody has had it yet */
    uint64_t offset;
    struct tarn_space_region *table =
        hash_table_of(hash, (uint64_t)number * hash_slab_grains(&hash->shape), &offset);
    uint8_t *before = bytes == 0 ? NULL : base_alloc(&hash->node->memory, bytes);
    int error = bytes != 0 && before == NULL ? -ENOMEM : 0;
    if (error == 0 && bytes != 0)
        error = hash_read(table, offset, before, bytes, deadline_ns);
    if (error == 0)
        error = hash_swap(hash, hash->session, hash->head, hash_slab_at(&hash->shape, number), word, mine,
                          mine, deadline_ns);
    if (error == 0)
        error = own_slab(hash, number, class_number, false);
    struct hash_slab *slab = hash->slabs[number];
    for (uint32_t i = 0; error == 0 && bytes != 0 && i < slab->slot_count;
         i++) /* generations of records that were there */
        slab->slots[i] =
            before[(uint64_t)i * hash_class_grains(class_number) * HASH_GRAIN_BYTES] & HASH_SLOT_GENERATION;
    base_free(&hash->node->memory, before, bytes);
    return error;
}

/* Take a slab of a table that nobody has. @return 0; -ENOSPC; errors */
static int take_slab_of(struct hash *hash, uint32_t table, uint32_t class_number, uint64_t deadline_ns)
{
    uint64_t words[WORDS];
    const uint32_t all = hash_slabs_of_table(&hash->shape),
                   skipped = table == 0 ? hash_intent_slabs(&hash->shape) : 0;
    for (uint32_t first = skipped; first < all; first += WORDS) {
        const uint32_t count = base_min(all - first, WORDS);
        int error = hash_read_words(hash, hash->head, hash_slab_at(&hash->shape, table * all + first), words,
                                    count, deadline_ns);
        for (uint32_t i = 0; i < count && error == 0; i++) {
            if (hash_slab_owner(words[i]) != 0)
                continue;
            error = take_free_slab(hash, table * all + first + i, words[i], class_number, deadline_ns);
            if (error == 0)
                return 0;
            error = error == -EAGAIN || error == -ECONNRESET ? 0 : error;
        }
        if (error != 0)
            return error;
    }
    return -ENOSPC;
}

/* Take another slab. @return 0; -ENOSPC: the tables are full; errors */
static int take_slab(struct hash *hash, uint32_t class_number, uint64_t deadline_ns)
{
    for (;;) {
        int error = hash_learn_tables(hash, deadline_ns);
        for (uint32_t pass = 0; pass < 2 && error == 0; pass++) { /* at the own place first, then anywhere */
            for (uint32_t table = hash->table_count; table > 0 && error == 0; table--) {
                uint64_t word = 0;
                error = hash_read(hash->head, hash_table_at(table - 1), &word, sizeof(word), deadline_ns);
                if (error != 0 || is_placed(hash, word) != (pass == 0))
                    continue;
                error = take_slab_of(hash, table - 1, class_number, deadline_ns);
                if (error == 0)
                    return 0;
                error = error == -ENOSPC ? 0 : error;
            }
            if (error == 0 && pass == 0) {
                error = make_table(hash, deadline_ns);
                if (error == 0)
                    break;
                error = error == -ENOSPC || error == -EAGAIN ? 0 : error;
            }
            if (pass == 1 && error == 0)
                return -ENOSPC;
        }
        if (error != 0)
            return error;
    }
}

/* ---- looking for replaced records --------------------------------------------------------------- */

/* A slot that is looked at. */
struct looked {
    uint64_t address;
    uint8_t state; /* of the slot when it was chosen, which tells its record from any that is there later */
    struct hash_record record;
    struct hash_places places;
    uint64_t words[2][HASH_WORDS_MAX];
};

struct look {
    uint32_t count;
    uint64_t view[2];
    struct looked slots[LOOK_SLOTS];
};

/* Choose used slots of a class, one after the other. */
static void choose_slots(struct hash *hash, struct hash_class *class, uint32_t class_number,
                         struct look *look)
{
    look->count = 0;
    for (uint32_t tried = 0; tried < hash->own_count + 1 && hash->own_count > 0 && look->count < LOOK_SLOTS;
         tried++) {
        class->swept_slab = class->swept_slab >= hash->own_count ? 0 : class->swept_slab;
        struct hash_slab *slab = hash->slabs[hash->own[class->swept_slab]];
        if (slab->class_number == class_number) {
            for (; slab->swept < slab->slot_count && look->count < LOOK_SLOTS; slab->swept++) {
                if ((slab->slots[slab->swept] & HASH_SLOT_USED) == 0)
                    continue;
                struct looked *looked = &look->slots[look->count++];
                looked->address = address_of(hash, slab, slab->swept);
                looked->state = slab->slots[slab->swept];
            }
            if (slab->swept < slab->slot_count)
                return;
            slab->swept = 0;
        }
        class->swept_slab++;
    }
}

/* Read the headers, and then twice the words of the keys' slots. */
static int look_at_slots(struct hash *hash, struct hash_io *io, struct look *look, uint64_t deadline_ns)
{
    io->count = 0;
    for (uint32_t i = 0; i < look->count; i++) {
        uint64_t offset;
        struct tarn_space_region *table = hash_table_of(hash, look->slots[i].address, &offset);
        hash_io_read(io, table, offset, &look->slots[i].record, sizeof(look->slots[i].record));
    }
    int error = hash_io_run(hash, io, deadline_ns);
    for (uint32_t i = 0; i < look->count && error == 0; i++)
        hash_places_of(hash, look->slots[i].record.key, &look->slots[i].places);
    for (uint32_t pass = 0; pass < 2 && error == 0; pass++) {
        uint32_t next = 0;
        while (next < look->count && error == 0) {
            io->count = 0;
            for (; next < look->count && io->count + HASH_WORDS_MAX < HASH_IO_MAX; next++) {
                struct looked *looked = &look->slots[next];
                for (uint32_t i = 0; i < looked->places.count; i++)
                    hash_io_read(io, looked->places.regions[i], looked->places.at[i].slot * 8,
                                 &looked->words[pass][i], 8);
            }
            error = hash_io_run(hash, io, deadline_ns);
        }
        if (error == 0)
            error = hash_read(hash->head, HASH_HEAD_VIEW, &look->view[pass], 8, deadline_ns);
    }
    return error;
}

/* Whether no word refers to a record, and none ever will. */
static bool is_replaced(const struct hash *hash, const struct look *look, const struct looked *looked)
{
    if (!hash_header_is_whole(&looked->record, looked->address))
        return true; /* it was never written as a whole */
    if (look->view[1] != looked->places.view)
        return false;
    for (uint32_t i = 0; i < looked->places.count; i++) {
        const uint64_t word = looked->words[0][i];
        if (word != looked->words[1][i] ||
            (hash_has_record(word) && hash_address_of(&hash->layout, word) == looked->address))
            return false;
    }
    return true;
}

/* Look at some slots. @return 0: at least one was found; -ENOENT; errors */
static int look_for_replaced(struct hash *hash, uint32_t class_number, uint64_t deadline_ns)
{
    struct hash_class *class = &hash->classes[class_number];
    struct look *look = base_alloc(&hash->node->memory, sizeof(*look));
    struct hash_io *io = hash_io_get(hash);
    const uint64_t session = hash->session;
    uint32_t found = 0;
    int error = look == NULL || io == NULL ? -ENOMEM : 0;
    if (error == 0)
        choose_slots(hash, class, class_number, look);
    if (error == 0 && look->count > 0)
        error = look_at_slots(hash, io, look, deadline_ns);
    for (uint32_t i = 0; error == 0 && i < look->count && session == hash->session; i++) {
        if (!is_replaced(hash, look, &look->slots[i]))
            continue;
        uint32_t slot;
        const struct hash_slab *slab = slab_of(hash, look->slots[i].address, &slot);
        if (slab == NULL || slab->slots[slot] != look->slots[i].state)
            continue; /* this client has replaced it itself meanwhile, and may have put another record there since */
        hash_slot_give(hash, look->slots[i].address, true);
        hash->stats.reclaimed++;
        found++;
    }
    if (error == 0)
        class->found_percent = look->count == 0 ? 0 : found * 100 / look->count;
    if (error == 0 && hash->view != look->view[1] && look->count > 0)
        error = hash_learn_view(hash, deadline_ns);
    if (io != NULL)
        hash_io_put(hash, io);
    base_free(&hash->node->memory, look, sizeof(*look));
    return error != 0 ? error : found > 0 ? 0 : -ENOENT;
}

/* Look at all slots of a class. @param until_found  until one is found @return 0: one was found, and rests; -ENOENT; errors */
static int look_at_all(struct hash *hash, uint32_t class_number, bool until_found, uint64_t deadline_ns)
{
    const uint32_t slots = hash_slab_grains(&hash->shape) / hash_class_grains(class_number);
    const uint64_t rounds = (uint64_t)hash->classes[class_number].slab_count * (slots / LOOK_SLOTS + 1) + 1;
    bool is_found = false;
    int error = -ENOENT;
    for (uint64_t i = 0; i < rounds && error == -ENOENT; i++) {
        error = look_for_replaced(hash, class_number, deadline_ns);
        is_found = is_found || error == 0;
        error = error == 0 && !until_found ? -ENOENT : error;
    }
    return is_found && error == -ENOENT ? 0 : error;
}

/* ---- slabs that are given back ------------------------------------------------------------------ */

/* Find a slab of another class that no record is in. @param ret_rests  whether there is one whose slots rest as yet @return NULL: there is none */
static struct hash_slab *find_unused(struct hash *hash, uint32_t class_number, bool *ret_rests)
{
    uint32_t slot;
    *ret_rests = false;
    for (uint32_t i = 0; i < hash->own_count; i++)
        hash->slabs[hash->own[i]]->free_count = hash->slabs[hash->own[i]]->resting_count = 0;
    for (uint32_t number = 0; number < HASH_CLASSES_MAX; number++) {
        struct hash_class *class = &hash->classes[number];
        if (number == class_number)
            continue;
        end_rests(hash, class);
        for (uint32_t i = 0; i < class->free_count; i++)
            slab_of(hash, class->free[i], &slot)->free_count++;
        for (uint32_t i = 0; i < class->resting_count; i++)
            slab_of(hash, class->resting[(class->resting_first + i) % class->resting_room].address, &slot)
                ->resting_count++;
    }
    for (uint32_t i = 0; i < hash->own_count; i++) {
        struct hash_slab *slab = hash->slabs[hash->own[i]];
        if (slab->free_count == slab->slot_count)
            return slab;
        *ret_rests = *ret_rests || slab->free_count + slab->resting_count == slab->slot_count;
    }
    return NULL;
}

/* Give a slab of another class back that no record is in. @return 0; -EAGAIN: one can be given back before long; -ENOENT; errors */
static int give_slab_back(struct hash *hash, uint32_t class_number, uint64_t deadline_ns)
{
    bool rests;
    uint64_t word = 0;
    struct hash_slab *slab = find_unused(hash, class_number, &rests);
    if (slab == NULL)
        return rests ? -EAGAIN : -ENOENT;
    const uint64_t at = hash_slab_at(&hash->shape, slab->number), session = hash->session;
    disown_slab(hash, slab);
    int error = hash_read(hash->head, at, &word, sizeof(word), deadline_ns);
    const uint64_t nobodys = hash_slab_word(word, 0, hash_slab_class(word));
    if (error == 0 && hash_slab_owner(word) == hash->client + 1)
        error = hash_swap(hash, session, hash->head, at, word, nobodys, nobodys, deadline_ns);
    return error;
}

/* Take a slab for one of another class. @return 0: one was taken, or can be before long; -ENOSPC, -ENOENT; errors */
static int exchange_slab(struct hash *hash, uint32_t class_number, uint64_t deadline_ns)
{
    int error = give_slab_back(hash, class_number, deadline_ns);
    if (error == -ENOENT) {
        for (uint32_t i = 0; i < HASH_CLASSES_MAX && error == -ENOENT; i++) {
            if (i == class_number || hash->classes[i].slab_count == 0)
                continue;
            error = look_at_all(hash, i, false, deadline_ns);
            error = error == 0 ? -ENOENT : error;
        }
        if (error == -ENOENT)
            error = give_slab_back(hash, class_number, deadline_ns);
    }
    if (error == 0)
        error = take_slab(hash, class_number, deadline_ns);
    return error == -EAGAIN ? 0 : error;
}

/* ---- slots -------------------------------------------------------------------------------------- */

/* Look everywhere for slots, because all slabs have owners. @return 0; -ENOSPC; errors */
static int find_last_slots(struct hash *hash, uint32_t class_number, uint64_t deadline_ns)
{
    struct hash_class *class = &hash->classes[class_number];
    if (class->resting_count > 0)
        return 0;
    if (task_now() < class->full_ns)
        return -ENOSPC;
    int error = look_at_all(hash, class_number, true, deadline_ns);
    if (error == -ENOENT) {
        error = hash_inherit(hash, deadline_ns);
        if (error == 0)
            error = look_at_all(hash, class_number, true, deadline_ns);
    }
    if (error == -ENOENT)
        error = exchange_slab(hash, class_number, deadline_ns);
    if (error != -ENOENT && error != -ENOSPC)
        return error;
    class->full_ns = task_now() + rest_ns(hash);
    BASE_LOG_LIMITED_AT(
        &hash->node->log, &hash->full_limit, BASE_LOG_ERROR, "a hash store has no room for a record",
        "store=\"%s\" memory=%" PRIu64 " slot_bytes=%" PRIu64
        " remedy=\"remove records, or put them into a store that was made with more memory; a "
        "client cannot use what other clients' slabs have free\"",
        hash->name, hash->shape.capacity, (uint64_t)hash_class_grains(class_number) * HASH_GRAIN_BYTES);
    return -ENOSPC;
}

/* Find slots that may be written, or that rest. @return 0; -ENOSPC; errors */
static int find_slots(struct hash *hash, uint32_t class_number, uint64_t deadline_ns)
{
    struct hash_class *class = &hash->classes[class_number];
    int error = -ENOENT;
    if (class->slab_count > 0 && class->found_percent >= GOOD_PERCENT)
        error = look_for_replaced(hash, class_number, deadline_ns);
    if (error == -ENOENT || (error == 0 && class->found_percent < GOOD_PERCENT))
        error = take_slab(hash, class_number, deadline_ns);
    return error == -ENOSPC ? find_last_slots(hash, class_number, deadline_ns) : error;
}

/* Take a free slot, if there is one. */
static bool pop_free(struct hash *hash, uint32_t class_number, uint64_t *ret_address,
                     uint64_t *ret_generation)
{
    struct hash_class *class = &hash->classes[class_number];
    uint32_t slot;
    if (class->free_count == 0)
        end_rests(hash, class);
    if (class->free_count == 0)
        return false;
    const uint64_t address = class->free[--class->free_count];
    struct hash_slab *slab = slab_of(hash, address, &slot);
    do /* another one than the slot's last record had, also in the bits that words have */
        hash->counter++;
    while ((hash->counter & HASH_SLOT_GENERATION) == (slab->slots[slot] & HASH_SLOT_GENERATION));
    slab->slots[slot] = (uint8_t)(hash->counter & HASH_SLOT_GENERATION);
    *ret_address = address;
    *ret_generation = hash->number + hash->counter;
    return true;
}

/* Take a free slot that is longer than need be. */
static bool pop_longer(struct hash *hash, uint32_t class_number, uint64_t *ret_address,
                       uint64_t *ret_generation)
{
    do
        class_number++;
    while (class_number < HASH_CLASSES_MAX && !pop_free(hash, class_number, ret_address, ret_generation));
    return class_number < HASH_CLASSES_MAX;
}

int hash_slot_take(struct hash *hash, uint64_t bytes, uint64_t deadline_ns, uint64_t *ret_address,
                   uint64_t *ret_generation)
{
    uint64_t pause_ns = 0;
    if (bytes > hash->shape.slab_bytes)
        return -EMSGSIZE;
    uint32_t class_number = hash_class_for((bytes + HASH_GRAIN_BYTES - 1) / HASH_GRAIN_BYTES);
    if (hash_class_grains(class_number) > hash_slab_grains(&hash->shape))
        class_number = hash_class_for(hash_slab_grains(&hash->shape));
    while (!pop_free(hash, class_number, ret_address, ret_generation)) {
        int error = task_mutex_lock(&hash->control, deadline_ns);
        if (error != 0)
            return error;
        if (!hash_is_entered(hash))
            error = -ESTALE;
        else if (hash->classes[class_number].free_count == 0)
            error = find_slots(hash, class_number, deadline_ns);
        task_mutex_unlock(&hash->control);
        if (error == -ENOSPC && pop_longer(hash, class_number, ret_address, ret_generation))
            return 0;
        if (error != 0)
            return error;
        if (hash->classes[class_number].free_count == 0 && task_back_off(&pause_ns, deadline_ns) != 0)
            return -ETIMEDOUT;
    }
    return 0;
}

void hash_slot_use(struct hash *hash, uint64_t address)
{
    uint32_t slot;
    struct hash_slab *slab = slab_of(hash, address, &slot);
    if (slab != NULL)
        slab->slots[slot] |= HASH_SLOT_USED;
}

void hash_slot_give(struct hash *hash, uint64_t address, bool is_seen)
{
    uint32_t slot;
    struct hash_slab *slab = slab_of(hash, address, &slot);
    if (slab == NULL)
        return;
    if (is_seen && (slab->slots[slot] & HASH_SLOT_USED) == 0)
        return; /* it was given back before; or the task that has put it in use is about to note that: then it is found later */
    slab->slots[slot] = (uint8_t)(slab->slots[slot] & ~HASH_SLOT_USED);
    if (is_seen)
        add_resting(hash, &hash->classes[slab->class_number], address, task_now() + rest_ns(hash));
    else if (!add_free(hash, &hash->classes[slab->class_number], address))
        slab->slots[slot] |= HASH_SLOT_USED; /* it is found again when slots are looked at */
}
