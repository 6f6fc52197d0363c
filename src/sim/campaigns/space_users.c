/*
 * The clients of campaign `space`: what they do, and what they may find. Each word that they write is a stamp, which tells
 * the namespace, the region, the slot and the number of the WRITE.
 */
#include "sim/campaigns/space.h"
#include "space/client.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAGIC 0xa5

/* Plain threads look for answers all the time, which takes the simulator long. */
#define THREADS_PATIENCE_NS (60 * BASE_NS_PER_MS)

enum { SLOT_WORDS = SLOT_BYTES / 8, LABEL_BYTES = 20 };

static struct sim_world *world_of(const struct user *user)
{
    return user->life->play->arena.world;
}

static uint64_t draw(struct user *user, uint64_t n)
{
    return sim_space_draw(user->life, n);
}

uint64_t sim_space_deadline(struct user *user)
{
    const bool is_impatient = (user->life->play->arena.events & SIM_ARENA_IMPATIENCE) != 0;
    const uint64_t patience_ns = task_is_thread() ? THREADS_PATIENCE_NS : PATIENCE_NS;
    return task_now() +
           (is_impatient && draw(user, 8) == 0 ? draw(user, UINT64_C(1) << draw(user, 25)) : patience_ns);
}

/* ---- stamps ------------------------------------------------------------------------------------- */

/* The number of a namespace in stamps. */
static uint32_t stamped_number(const struct record *record)
{
    return 1 + (uint32_t)(record->fate - &record->play->fates[0]);
}

static uint64_t stamp_of(const struct record *record, uint32_t slot, uint32_t count)
{
    const uint64_t number = stamped_number(record);
    return MAGIC | number << 8 | (uint64_t)(record->number & 0xffff) << 16 | (~number & 0xff) << 32 |
           (uint64_t)slot << 40 | (uint64_t)(count & 0xffff) << 48;
}

static void fill_slot(const struct record *record, uint32_t slot, uint32_t count, uint8_t *bytes)
{
    for (uint32_t i = 0; i < SLOT_WORDS; i++)
        base_store_le64(bytes + (uint64_t)i * 8, stamp_of(record, slot, count));
}

/* The namespace of a stamp. @return 0: it is none */
static uint32_t space_of_stamp(uint64_t word)
{
    const uint32_t number = (uint32_t)(word >> 8) & 0xff;
    return (word & 0xff) == MAGIC && ((word >> 32) & 0xff) == (~number & 0xff) ? number : 0;
}

/* A word alone may be what a WRITE that failed has left; the same word twice is another namespace's. */
static void look_for_others(const struct user *user, const struct record *record, const uint8_t *bytes,
                            uint64_t count)
{
    for (uint64_t at = 0; at + 16 <= count; at += 8) {
        const uint64_t word = base_load_le64(bytes + at);
        const uint32_t number = space_of_stamp(word);
        if (number != 0 && number != stamped_number(record) && base_load_le64(bytes + at + 8) == word)
            sim_fail(world_of(user),
                     "region %" PRIu32 " of namespace %" PRIu32 " shows bytes of namespace %" PRIu32,
                     record->number, stamped_number(record), number);
    }
}

/* ---- what calls may return ---------------------------------------------------------------------- */

bool sim_space_is_explained(const struct play *play, int error)
{
    static const int lost[] = {-ETIMEDOUT, -ECONNRESET, -ESTALE, -EHOSTUNREACH, -ENODATA};
    for (uint32_t i = 0; i < base_array_count(lost); i++) {
        if (error == lost[i])
            return sim_space_may_fail(play);
    }
    return false;
}

/* Whether an error of any call has a reason in this run. */
static void check_error(const struct user *user, const char *what, int error)
{
    if (error != 0 && error != -ENOENT && error != -EEXIST && error != -ENOSPC &&
        !sim_space_is_explained(user->life->play, error))
        sim_fail(world_of(user), "a %s ended with %d, and there is no reason", what, error);
}

/* Whether a region that a client holds may be gone. */
static bool may_be_gone(const struct record *record)
{
    return record->frees > 0 || record->fate->deletes > 0;
}

/* Whether a client that holds a region may lose it. While only masters end, a region that was freed waits for its holders;
 * but those of a namespace that was deleted cannot join that again. */
static bool may_be_lost(const struct play *play, const struct record *record)
{
    return play->is_calm ? record->fate->deletes > 0 : may_be_gone(record);
}

/* The same for what reads and writes a region. @return whether it has been done */
static bool check_data(const struct user *user, const struct held *held, const char *what, int error)
{
    const struct life *life = user->life;
    const struct play *play = life->play;
    check_error(user, what, error);
    if (error == 0 && life->blind_ns != 0 &&
        sim_world_now(play->arena.world) > life->blind_ns + play->lease_ns + play->lease_ns / 50)
        sim_fail(world_of(user), "a %s counts, though the lease has ended", what);
    if (error == -ENOENT || error == -EEXIST || error == -ENOSPC)
        sim_fail(world_of(user), "a %s ended with %d", what, error);
    if (held->region->error != 0 && !may_be_lost(play, held->record))
        sim_fail(world_of(user), "region %" PRIu32 " is gone, and there is no reason", held->record->number);
    return error == 0;
}

/* ---- reading and writing ------------------------------------------------------------------------ */

static uint64_t offset_of(uint32_t chunk, uint32_t slot)
{
    return (uint64_t)chunk * CHUNK_BYTES + (uint64_t)slot * SLOT_STEP;
}

/* Move bytes in one of the ways there are. */
static int move_bytes(struct user *user, const struct held *held, enum tarn_fabric_op_kind kind,
                      uint64_t offset, uint64_t bytes)
{
    const uint64_t deadline_ns = sim_space_deadline(user), way = draw(user, 4);
    struct tarn_space_region *region = held->region;
    uint8_t *memory = user->bytes + offset;
    if (way == 0) {
        struct iovec iov[2] = {{.iov_base = memory, .iov_len = bytes / 2},
                               {.iov_base = memory + bytes / 2, .iov_len = bytes - bytes / 2}};
        struct tarn_space_op op = {
            .kind = kind, .region = region, .offset = offset, .iov = iov, .iov_count = 2};
        tarn_space_post(user->life->space, &op, 1);
        return tarn_space_wait(user->life->space, &op, 1, deadline_ns);
    }
    if (way == 1 && region->memory != NULL) {
        uint8_t *mapped = (uint8_t *)region->memory->region->memory + offset;
        if (kind == TARN_FABRIC_WRITE) {
            memcpy(mapped, memory, bytes);
            return tarn_space_write(region, mapped, bytes, deadline_ns);
        }
        int error = tarn_space_read(region, mapped, bytes, deadline_ns);
        memcpy(memory, mapped, bytes);
        return error;
    }
    return kind == TARN_FABRIC_READ ? tarn_space_read_at(region, offset, memory, bytes, deadline_ns)
                                    : tarn_space_write_at(region, offset, memory, bytes, deadline_ns);
}

bool sim_space_is_writing(const struct life *life, const struct record *record)
{
    for (uint32_t i = 0; i < life->running; i++) {
        const struct record *written = life->users[i].written;
        if (written != NULL && (record == NULL || written == record))
            return true;
    }
    return false;
}

/* @return whether it has been done */
static bool write_slot(struct user *user, const struct held *held)
{
    struct record *record = held->record;
    const uint32_t chunk = (uint32_t)draw(user, record->chunks);
    struct slot *slot = &record->slots[chunk][user->slot];
    const uint64_t offset = offset_of(chunk, user->slot);
    const uint32_t count = ++slot->begun;
    fill_slot(record, user->slot, count, user->bytes + offset);
    user->written = record;
    int error = move_bytes(user, held, TARN_FABRIC_WRITE, offset, SLOT_BYTES);
    user->written = NULL;
    if (check_data(user, held, "write", error))
        slot->acknowledged = count;
    else
        slot->is_uncertain = true;
    user->life->play->writes++;
    return !slot->is_uncertain;
}

/* What a slot must hold, if none of its WRITEs is under way. @return whether that is known */
static bool is_known(const struct slot *slot)
{
    return !slot->is_uncertain && slot->begun == slot->acknowledged;
}

static void expect_slot(const struct user *user, const struct record *record, uint32_t chunk, uint32_t number,
                        uint32_t count)
{
    const uint8_t *bytes = user->bytes + offset_of(chunk, number);
    const uint64_t expected = stamp_of(record, number, count);
    for (uint32_t i = 0; i < SLOT_WORDS; i++) {
        const uint64_t word = base_load_le64(bytes + (uint64_t)i * 8);
        if (word != expected)
            sim_fail(world_of(user),
                     "slot %" PRIu32 " of chunk %" PRIu32 " of region %" PRIu32 " has %016" PRIx64
                     " instead of %016" PRIx64,
                     number, chunk, record->number, word, expected);
    }
}

/* Expect what a slot must hold, if that was known before it was read, and is the same now. */
static void expect_if_known(const struct user *user, const struct record *record, uint32_t chunk,
                            uint32_t number, const struct slot *before)
{
    const struct slot *slot = &record->slots[chunk][number];
    if (slot->begun > 0 && is_known(before) && is_known(slot) && before->begun == slot->begun)
        expect_slot(user, record, chunk, number, slot->begun);
}

static void read_slot(struct user *user, const struct held *held)
{
    const struct record *record = held->record;
    const uint32_t chunk = (uint32_t)draw(user, record->chunks);
    const uint32_t number = draw(user, 2) == 0 ? user->slot : (uint32_t)draw(user, SLOTS);
    const struct slot before = record->slots[chunk][number];
    int error = move_bytes(user, held, TARN_FABRIC_READ, offset_of(chunk, number), SLOT_BYTES);
    if (!check_data(user, held, "read", error))
        return;
    expect_if_known(user, record, chunk, number, &before);
    user->life->play->reads++;
}

/* Read all of a region, and expect what is known. */
static bool read_all(struct user *user, const struct held *held)
{
    const struct record *record = held->record;
    const uint64_t bytes = (uint64_t)record->chunks * CHUNK_BYTES;
    struct slot before[CHUNKS_MAX][SLOTS];
    memcpy(before, record->slots, sizeof(before));
    if (!check_data(user, held, "read of all", move_bytes(user, held, TARN_FABRIC_READ, 0, bytes)))
        return false;
    look_for_others(user, record, user->bytes, bytes);
    for (uint32_t chunk = 0; chunk < record->chunks; chunk++) {
        for (uint32_t i = 0; i < SLOTS; i++)
            expect_if_known(user, record, chunk, i, &before[chunk][i]);
    }
    return true;
}

/* Write all slots of a region that only this user has. */
static bool write_all(struct user *user, const struct held *held)
{
    struct record *record = held->record;
    const uint64_t bytes = (uint64_t)record->chunks * CHUNK_BYTES;
    memset(user->bytes, 0, bytes);
    for (uint32_t chunk = 0; chunk < record->chunks; chunk++) {
        for (uint32_t i = 0; i < SLOTS; i++) {
            record->slots[chunk][i].begun = 1;
            fill_slot(record, i, 1, user->bytes + offset_of(chunk, i));
        }
    }
    const bool is_done =
        check_data(user, held, "write of all", move_bytes(user, held, TARN_FABRIC_WRITE, 0, bytes));
    for (uint32_t chunk = 0; chunk < record->chunks; chunk++) {
        for (uint32_t i = 0; i < SLOTS; i++) {
            record->slots[chunk][i].acknowledged = is_done;
            record->slots[chunk][i].is_uncertain = !is_done;
        }
    }
    return is_done;
}

/* A region that is new: nothing of other namespaces is there, and what is written stays. */
static void prove_region(struct user *user, const struct held *held)
{
    (void)read_all(user, held);
    const bool is_written = write_all(user, held);
    (void)task_sleep(draw(user, UINT64_C(1) << draw(user, 24)));
    if (is_written)
        (void)read_all(user, held);
}

/* ---- regions ------------------------------------------------------------------------------------ */

static struct held *find_place(struct user *user)
{
    for (uint32_t i = 0; i < HELD_MAX; i++) {
        if (user->held[i].region == NULL)
            return &user->held[i];
    }
    return NULL;
}

static void drop_region(struct user *user, struct held *held)
{
    struct tarn_space_region *region = held->region;
    bool is_last = true;
    held->region = NULL;
    for (uint32_t k = 0; k < USERS_MAX; k++) {
        for (uint32_t i = 0; i < HELD_MAX; i++)
            is_last = is_last && (user->life->users[k].held[i].region == NULL ||
                                  user->life->users[k].held[i].record != held->record);
    }
    if (is_last)
        held->record->holders &= ~(1u << user->life->number);
    if (region->memory != NULL)
        tarn_space_unmap(region);
    tarn_space_drop(region);
}

static struct record *add_record(struct user *user, const struct tarn_space_namespace *of, uint32_t name,
                                 const struct tarn_space_info *info)
{
    struct play *play = user->life->play;
    for (uint32_t i = 0; i < play->record_count; i++) {
        if (play->records[i].number == info->number)
            sim_fail(world_of(user), "region %" PRIu32 " was made twice", info->number);
    }
    struct record *record = &play->records[play->record_count++];
    *record = (struct record){.number = info->number,
                              .play = play,
                              .fate = sim_space_fate(play, name, of->number),
                              .address = info->address,
                              .chunks = (uint32_t)(info->bytes / CHUNK_BYTES)};
    return record;
}

static const char *print_label(uint32_t label, char ret_text[LABEL_BYTES])
{
    (void)snprintf(ret_text, LABEL_BYTES, "region-%" PRIu32, label);
    return ret_text;
}

static void alloc_region(struct user *user, uint32_t name)
{
    struct play *play = user->life->play;
    struct tarn_space_namespace *of = user->of[name];
    struct held *held = find_place(user);
    const uint64_t chunks = play->victim != NULL ? 1 : 1 + draw(user, CHUNKS_MAX);
    char text[LABEL_BYTES];
    const uint32_t label = draw(user, 2) == 0 ? ++play->labels : 0;
    const struct tarn_space_alloc_options options = {.name = label == 0 ? NULL : print_label(label, text),
                                                     .memory_class = draw(user, 2) == 0 ? TARN_SPACE_WORDS
                                                                                        : TARN_SPACE_BULK};
    struct tarn_space_info info;
    struct tarn_space_region *region;
    if (held == NULL || play->record_count == RECORDS_MAX)
        return;
    int error = tarn_space_alloc(of, chunks * CHUNK_BYTES, &options, sim_space_deadline(user), &region);
    check_error(user, "alloc", error);
    if (error == -ENOSPC) {
        error = tarn_space_reserve(of, chunks * CHUNK_BYTES, sim_space_deadline(user));
        check_error(user, "reserve", error);
        return;
    }
    if (error != 0 || play->record_count == RECORDS_MAX) {
        if (error == 0)
            tarn_space_drop(region);
        return;
    }
    tarn_space_info(region, &info);
    held->record = add_record(user, of, name, &info);
    held->record->label = label;
    held->record->holders = 1u << user->life->number;
    held->region = region;
    prove_region(user, held);
    held->record->is_published = true;
    play->allocs++;
}

/* Whether others are to free a region because a client that can do nothing holds it: first those to which that client is writing. */
static bool is_wanted(const struct play *play, const struct record *record)
{
    const struct life *victim = play->victim;
    if (victim == NULL || record->frees > 0)
        return false;
    return sim_space_is_writing(victim, NULL) ? sim_space_is_writing(victim, record)
                                              : (record->holders & 1u << victim->number) != 0;
}

/* Choose a region that others may hold, and that is perhaps no more. */
static struct record *choose_record(struct user *user)
{
    struct play *play = user->life->play;
    struct record *chosen = NULL;
    uint64_t seen = 0;
    for (uint32_t i = play->record_count; i-- > 0 && seen < 16;) {
        struct record *record = &play->records[i];
        if (!record->is_published || (record->is_free && draw(user, 8) > 0))
            continue;
        seen++;
        if (is_wanted(play, record))
            return record;
        if (draw(user, seen) == 0)
            chosen = record;
    }
    return chosen;
}

/* What the master has answered is there, also if another one is asked. */
static struct held *hold_region(struct user *user)
{
    struct record *record = choose_record(user);
    struct held *held = find_place(user);
    struct tarn_space_info info;
    if (record == NULL || held == NULL)
        return NULL;
    struct tarn_space_namespace *of = user->of[record->fate->name];
    if (of == NULL || of->number != record->fate->number)
        return NULL;
    const bool was_gone = record->is_free || record->fate->is_deleted;
    struct tarn_space_region *region;
    char text[LABEL_BYTES];
    const bool is_named = record->label != 0 && draw(user, 2) == 0;
    int error = is_named
                    ? tarn_space_find(of, print_label(record->label, text), sim_space_deadline(user), &region)
                    : tarn_space_init(of, record->address, 0, sim_space_deadline(user), &region);
    check_error(user, is_named ? "find" : "init", error);
    if (error == -ENOENT && !may_be_gone(record))
        sim_fail(world_of(user), "region %" PRIu32 " is lost", record->number);
    if (error != 0)
        return NULL;
    tarn_space_info(region, &info);
    if (info.number != record->number || was_gone)
        sim_fail(world_of(user), "region %" PRIu32 " was asked for, which is %s, and %" PRIu32 " was found",
                 record->number, was_gone ? "gone" : "there", info.number);
    held->region = region;
    held->record = record;
    record->holders |= 1u << user->life->number;
    return held;
}

static void free_region(struct user *user, const struct held *held)
{
    struct record *record = held->record;
    record->frees++;
    int error = tarn_space_free(held->region, sim_space_deadline(user));
    check_error(user, "free", error);
    if (error == -ENOENT && record->frees == 1 && record->fate->deletes == 0)
        sim_fail(world_of(user), "region %" PRIu32 " is lost before it is freed", record->number);
    record->is_free = record->is_free || error == 0 || error == -ENOENT;
}

/* What a WRITE that failed may still do must not meet what comes to these chunks next. */
static void give_up_region(struct user *user, struct held *held)
{
    free_region(user, held);
    drop_region(user, held);
}

static void map_region(struct user *user, const struct held *held)
{
    void *memory;
    if (held->region->memory != NULL) {
        tarn_space_unmap(held->region);
        return;
    }
    int error = tarn_space_map(held->region, sim_space_deadline(user), &memory);
    (void)check_data(user, held, "map", error);
}

/* ---- namespaces --------------------------------------------------------------------------------- */

struct fate *sim_space_fate(struct play *play, uint32_t name, uint32_t number)
{
    for (uint32_t i = 0; i < play->fate_count; i++) {
        if (play->fates[i].number == number)
            return &play->fates[i];
    }
    base_assert(play->fate_count < FATES_MAX);
    struct fate *fate = &play->fates[play->fate_count++];
    *fate = (struct fate){.number = number, .name = name};
    return fate;
}

static void enter_namespace(struct user *user, uint32_t name)
{
    struct play *play = user->life->play;
    const char *text = name == 0 ? "one" : "other";
    struct tarn_space *space = user->life->space;
    const uint64_t begun_ns = sim_world_now(world_of(user));
    int error = tarn_space_join_ns(space, text, text, name * 3, sim_space_deadline(user), &user->of[name]);
    check_error(user, "join", error);
    if (error == -ENOENT) {
        error = tarn_space_create_ns(space, text, text, name * 3, sim_space_deadline(user), &user->of[name]);
        check_error(user, "create", error);
    }
    if (error != 0)
        return;
    const struct fate *fate = sim_space_fate(play, name, user->of[name]->number);
    if (fate->is_deleted && fate->deleted_ns < begun_ns)
        sim_fail(world_of(user), "namespace %" PRIu32 " was deleted, and is there", fate->number);
}

/* Leave a namespace, and drop all of its regions. */
static void leave_namespace(struct user *user, uint32_t name)
{
    for (uint32_t i = 0; i < HELD_MAX; i++) {
        if (user->held[i].region != NULL && user->held[i].record->fate->name == name)
            drop_region(user, &user->held[i]);
    }
    sim_space_drop_versions(user, name);
    tarn_space_leave_ns(user->of[name]);
    user->of[name] = NULL;
}

static void note_deleted(const struct user *user, struct fate *fate)
{
    if (!fate->is_deleted)
        fate->deleted_ns = sim_world_now(world_of(user));
    fate->is_deleted = true;
}

static void delete_namespace(struct user *user, uint32_t name)
{
    struct fate *fate = sim_space_fate(user->life->play, name, user->of[name]->number);
    fate->deletes++;
    int error = tarn_space_delete_ns(user->of[name], sim_space_deadline(user));
    check_error(user, "delete", error);
    if (error == -ENOENT && fate->deletes == 1)
        sim_fail(world_of(user), "namespace %" PRIu32 " is lost", fate->number);
    if (error == 0 || error == -ENOENT)
        note_deleted(user, fate);
    leave_namespace(user, name);
}

/* ---- acting ------------------------------------------------------------------------------------- */

static void act_on_region(struct user *user, struct held *held)
{
    /* a client that is cut off from the master goes on where it does not need it */
    const uint64_t what = draw(user, user->life->blind_ns != 0 ? 25 : 32);
    if (held->region->error != 0)
        drop_region(user, held);
    else if (what < 14 && !write_slot(user, held) && draw(user, 3) == 0)
        give_up_region(user, held);
    else if (what < 14)
        return;
    else if (what < 25)
        read_slot(user, held);
    else if (what < 26)
        map_region(user, held);
    else if (what < 28)
        (void)read_all(user, held);
    else if (what < 30)
        drop_region(user, held);
    else
        free_region(user, held);
}

/* Choose a namespace: where a client that can do nothing is writing to a region, the region's; else any. */
static uint32_t choose_name(struct user *user)
{
    const struct life *victim = user->life->play->victim;
    for (uint32_t i = 0; victim != NULL && i < victim->running; i++) {
        if (victim->users[i].written != NULL)
            return victim->users[i].written->fate->name;
    }
    return (uint32_t)draw(user, NAMES);
}

static void act_on_namespace(struct user *user, uint32_t name)
{
    const uint64_t what = draw(user, user->life->play->victim != NULL ? 56 : 64);
    if (user->of[name] == NULL) {
        enter_namespace(user, name);
    } else if (what < 40) {
        if (user->life->play->victim != NULL && find_place(user) == NULL) /* which keeps its chunks */
            drop_region(user, &user->held[draw(user, HELD_MAX)]);
        alloc_region(user, name);
    } else if (what < 56) {
        struct held *held = hold_region(user);
        if (held != NULL && (user->life->play->victim != NULL || draw(user, 3) == 0))
            give_up_region(user, held);
    } else if (what < 62) {
        int error = tarn_space_release(user->of[name], draw(user, 2) == 0 ? UINT64_MAX : CHUNK_BYTES,
                                       sim_space_deadline(user));
        check_error(user, "release", error);
    } else if (what < 63) {
        leave_namespace(user, name);
    } else {
        delete_namespace(user, name);
    }
}

/* Look at all regions that a user holds. */
static void read_held(struct user *user)
{
    for (uint32_t i = 0; i < HELD_MAX; i++) {
        if (user->held[i].region != NULL && user->held[i].region->error == 0)
            (void)read_all(user, &user->held[i]);
    }
    user->arrivals = user->life->play->arrivals;
}

static bool has_region(const struct user *user)
{
    bool has = false;
    for (uint32_t i = 0; i < HELD_MAX; i++)
        has = has || user->held[i].region != NULL;
    return has;
}

void sim_space_use(void *arg)
{
    struct user *user = arg;
    struct life *life = user->life;
    const uint64_t pause_ns = life->play->lease_ns / 16;
    while (!life->play->arena.stop) {
        struct held *held = &user->held[draw(user, HELD_MAX)];
        if (user->arrivals != life->play->arrivals)
            read_held(user);
        else if (life->play->has_versions && draw(user, 4) == 0)
            sim_space_use_versions(user);
        else if (held->region != NULL &&
                 (life->blind_ns != 0 || draw(user, life->play->victim != NULL ? 2 : 8) > 0))
            act_on_region(user, held);
        else if (life->blind_ns == 0 || !has_region(user))
            act_on_namespace(user, choose_name(user));
        (void)task_sleep(draw(user, pause_ns >> draw(user, 8)));
    }
    for (uint32_t i = 0; i < NAMES; i++) {
        if (user->of[i] != NULL)
            leave_namespace(user, i);
    }
    life->running--;
}
