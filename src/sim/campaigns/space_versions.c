/*
 * Copy-on-write regions in campaign `space`: clients that publish versions, and readers that look for mixtures of them. Each
 * chunk that a draft has is filled with the draft's number, so what a version shows is known from where it came from.
 */
#include "sim/campaigns/space.h"
#include "space/client.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAGIC = 0x5a, CHUNK_WORDS = CHUNK_BYTES / 8, TRIES = 8 };

static struct sim_world *world_of(const struct user *user)
{
    return user->life->play->arena.world;
}

static uint64_t draw(struct user *user, uint64_t n)
{
    return sim_space_draw(user->life, n);
}

static uint64_t stamp_of(uint32_t number, uint64_t word)
{
    return MAGIC | (uint64_t)number << 8 | word << 40;
}

/* ---- what is known ------------------------------------------------------------------------------ */

static struct version *find_version(const struct play *play, uint32_t number)
{
    for (uint32_t i = play->version_count; i-- > 0;) {
        if (play->versions[i].number == number)
            return &play->versions[i];
    }
    return NULL;
}

/* Note a version that is made. @param base  NULL: it is the first of its region, and shows anything */
static struct version *add_version(struct play *play, struct lineage *of, uint32_t number,
                                   const struct version *base, uint32_t first, uint32_t count)
{
    struct version *version = &play->versions[play->version_count++];
    *version = (struct version){.of = of, .number = number, .base = base == NULL ? 0 : base->number};
    for (uint32_t i = 0; i < of->chunks && base != NULL; i++)
        version->stamps[i] = i >= first && i - first < count ? number : base->stamps[i];
    return version;
}

static bool may_be_gone(const struct lineage *of)
{
    return of->frees > 0 || of->fate->deletes > 0;
}

/* Whether an error of a call has a reason. */
static void check_error(const struct user *user, const char *what, int error, const int *usual)
{
    const struct play *play = user->life->play;
    bool is_right = error == 0 || error == -ETIME || sim_space_is_explained(play, error) ||
                    (error == -EIO && sim_space_may_fail(play)); /* after a WRITE that has failed */
    for (uint32_t i = 0; usual[i] != 0; i++)
        is_right = is_right || error == usual[i];
    if (!is_right)
        sim_fail(world_of(user), "a %s of versions ended with %d, and there is no reason", what, error);
}

/* Note a version that the master has made of another one. @return NULL: it is none that there can be */
static struct version *meet_version(const struct user *user, struct lineage *of, uint32_t number)
{
    struct play *play = user->life->play;
    if (!play->has_copies || play->version_count == VERSIONS_MAX)
        return NULL;
    struct version *version = add_version(play, of, number, NULL, 0, 0);
    version->may_be_published = version->is_unread = true;
    return version;
}

/* Find out which version a region is that a client holds. It was published, or may have been. */
static void note_held(const struct user *user, struct versioned *held, uint32_t at_least)
{
    struct tarn_space_info info;
    tarn_space_info(held->region, &info);
    held->version = find_version(user->life->play, info.number);
    if (held->version == NULL)
        held->version = meet_version(user, held->of, info.number);
    if (held->version == NULL || held->version->of != held->of)
        sim_fail(world_of(user), "a region shows version %" PRIu32 ", which is none of it", info.number);
    else if (!held->version->may_be_published)
        sim_fail(world_of(user), "version %" PRIu32 " was not published, and is there", info.number);
    if (info.number < at_least)
        sim_fail(world_of(user), "version %" PRIu32 " is found, though %" PRIu32 " was published",
                 info.number, at_least);
}

/* A version was published: nothing that others have published since its base is lost. */
static void note_published(const struct user *user, struct version *version)
{
    const struct play *play = user->life->play;
    for (uint32_t i = 0; i < play->version_count; i++) {
        const struct version *other = &play->versions[i];
        if (other->of == version->of && other->is_published && other->number > version->base &&
            other->number < version->number)
            sim_fail(world_of(user), "version %" PRIu32 " of %" PRIu32 " takes no notice of %" PRIu32,
                     version->number, version->base, other->number);
    }
    version->is_published = true;
    version->of->newest = base_max(version->of->newest, version->number);
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* The first word of a chunk that was read and that is not as a version shows it. @return CHUNK_WORDS: there is none */
static uint64_t find_difference(const struct version *version, uint32_t chunk, const uint8_t *bytes)
{
    uint64_t i = version->stamps[chunk] == 0 ? CHUNK_WORDS : 0;
    while (i < CHUNK_WORDS && base_load_le64(bytes + i * 8) == stamp_of(version->stamps[chunk], i))
        i++;
    return i;
}

static void expect_chunk(const struct user *user, const struct version *version, uint32_t chunk,
                         const uint8_t *bytes)
{
    const uint64_t i = find_difference(version, chunk, bytes);
    if (i < CHUNK_WORDS)
        sim_fail(world_of(user),
                 "chunk %" PRIu32 " of version %" PRIu32 " has %016" PRIx64 " instead of %016" PRIx64, chunk,
                 version->number, base_load_le64(bytes + i * 8), stamp_of(version->stamps[chunk], i));
}

static int read_chunks(struct user *user, struct tarn_space_region *region, uint32_t first, uint32_t count)
{
    const uint64_t offset = (uint64_t)first * CHUNK_BYTES, bytes = (uint64_t)count * CHUNK_BYTES;
    if (draw(user, 2) == 0)
        return tarn_space_read_at(region, offset, user->bytes, bytes, sim_space_deadline(user));
    const struct iovec iov = {.iov_base = user->bytes, .iov_len = bytes};
    struct tarn_space_op op = {
        .kind = TARN_FABRIC_READ, .region = region, .offset = offset, .iov = &iov, .iov_count = 1};
    tarn_space_post(user->life->space, &op, 1);
    return tarn_space_wait(user->life->space, &op, 1, sim_space_deadline(user));
}

/* Whether all of a version was read as another one shows it. */
static bool shows(const struct user *user, const struct version *version)
{
    uint32_t chunk = 0;
    while (chunk < version->of->chunks &&
           find_difference(version, chunk, user->bytes + (uint64_t)chunk * CHUNK_BYTES) == CHUNK_WORDS)
        chunk++;
    return chunk == version->of->chunks;
}

/* Read all of a version that the master has made, and find out what it was made of. @param at_least  a version that was published before */
static void read_unread(struct user *user, const struct versioned *held, uint32_t at_least)
{
    const struct play *play = user->life->play;
    struct version *version = held->version;
    const uint32_t chunks = held->of->chunks;
    if (read_chunks(user, held->region, 0, chunks) != 0 || !version->is_unread)
        return;
    const struct version *of = NULL;
    for (uint32_t i = 0; i < play->version_count; i++) {
        const struct version *other = &play->versions[i];
        if (other->of == held->of && other->number < version->number && !other->is_unread &&
            other->may_be_published && (of == NULL || other->number > of->number) && shows(user, other))
            of = other;
    }
    if (of == NULL)
        sim_fail(world_of(user), "version %" PRIu32 " shows what none before it shows", version->number);
    else if (of->number < at_least)
        sim_fail(world_of(user),
                 "version %" PRIu32 " shows what %" PRIu32 " shows, though %" PRIu32 " was published",
                 version->number, of->number, at_least);
    else
        memcpy(version->stamps, of->stamps, sizeof(version->stamps));
    version->is_unread = false;
}

/* Find out which version a region is that a client has just taken hold of, and what that shows. */
static void learn_held(struct user *user, struct versioned *held, uint32_t at_least)
{
    note_held(user, held, at_least);
    if (held->version != NULL && held->version->is_unread)
        read_unread(user, held, at_least);
}

static void refresh_held(struct user *user, struct versioned *held)
{
    static const int usual[] = {-ENOENT, 0};
    const uint32_t newest = held->of->newest;
    int error = tarn_space_refresh(held->region, sim_space_deadline(user));
    check_error(user, "refresh", error, usual);
    if (error == -ENOENT && !may_be_gone(held->of))
        sim_fail(world_of(user), "a copy-on-write region is lost");
    if (error != 0)
        return;
    learn_held(user, held, newest);
}

/* Read what has two copies, of which never both were lost: of an old version they may have been, then the newest is read. */
static int read_sturdy(struct user *user, struct versioned *held, uint32_t first, uint32_t count)
{
    int error = read_chunks(user, held->region, first, count);
    for (uint32_t tries = 0; error == -ENODATA && tries < TRIES && !may_be_gone(held->of); tries++) {
        refresh_held(user, held);
        error = held->version == NULL ? -ENODATA : read_chunks(user, held->region, first, count);
    }
    if (error == -ENODATA && !may_be_gone(held->of) && held->region->error == 0)
        sim_fail(world_of(user), "version %" PRIu32 " had two copies, and is lost", held->version->number);
    return error;
}

/* Read some chunks of the version that is held. If they are told to be of the newest one, none was replaced before. */
static void read_held(struct user *user, struct versioned *held)
{
    static const int usual[] = {0};
    struct play *play = user->life->play;
    const uint32_t first = (uint32_t)draw(user, held->of->chunks);
    const uint32_t count = 1 + (uint32_t)draw(user, held->of->chunks - first);
    const struct version *newest = find_version(play, held->of->newest);
    int error = play->is_sturdy && held->of->copies > 1 ? read_sturdy(user, held, first, count)
                                                        : read_chunks(user, held->region, first, count);
    check_error(user, "read", error, usual);
    if (held->region->error != 0 && play->is_calm && held->of->fate->deletes == 0)
        sim_fail(world_of(user), "version %" PRIu32 " is gone, and there is no reason",
                 held->version->number);
    if (error != 0)
        return;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t chunk = first + i;
        expect_chunk(user, held->version, chunk, user->bytes + (uint64_t)i * CHUNK_BYTES);
        if (tarn_space_is_current(held->region) && newest->number > held->version->number &&
            newest->stamps[chunk] != held->version->stamps[chunk])
            sim_fail(world_of(user),
                     "chunk %" PRIu32 " of version %" PRIu32 " is told to be current after %" PRIu32
                     " was published",
                     chunk, held->version->number, newest->number);
    }
    play->version_reads++;
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* Fill a draft, in one WRITE or in one for each chunk, at leisure. */
static int write_draft(struct user *user, struct tarn_space_region *draft, uint32_t number, uint32_t chunks)
{
    const uint32_t step = draw(user, 2) == 0 ? 1 : chunks;
    int error = 0;
    for (uint64_t i = 0; i < (uint64_t)chunks * CHUNK_WORDS; i++)
        base_store_le64(user->bytes + i * 8, stamp_of(number, i % CHUNK_WORDS));
    for (uint32_t chunk = 0; chunk < chunks && error == 0; chunk += step) {
        const uint64_t offset = (uint64_t)chunk * CHUNK_BYTES;
        error = tarn_space_write_at(draft, offset, user->bytes + offset, (uint64_t)step * CHUNK_BYTES,
                                    sim_space_deadline(user));
        if (draw(user, 2) == 0)
            (void)task_sleep(draw(user, user->life->play->lease_ns >> draw(user, 8)));
    }
    return error;
}

static void publish_draft(struct user *user, struct tarn_space_region *draft, struct version *version)
{
    static const int usual[] = {-ENOENT, -ENOSPC, 0};
    struct play *play = user->life->play;
    version->may_be_published = true;
    int error = tarn_space_publish(draft, sim_space_deadline(user));
    check_error(user, "publish", error, usual);
    if (error == 0) {
        note_published(user, version);
        play->published++;
    }
    if (error == -ENOENT && !may_be_gone(version->of))
        sim_fail(world_of(user), "a copy-on-write region is lost under a draft");
    if (error == -ETIME || error == -EIO || error == -ENOENT || error == -EHOSTUNREACH || error == -ENODATA ||
        error == -ENOSPC)
        version->may_be_published = false;
}

/* Make a version of some chunks, or give it up on the way. */
static void write_version(struct user *user, const struct versioned *held)
{
    static const int usual[] = {-EBUSY, -EAGAIN, -ENOSPC, -ENOENT, 0}, of_write[] = {0};
    struct play *play = user->life->play;
    const struct version *base = held->version;
    const uint32_t first = (uint32_t)draw(user, held->of->chunks);
    const uint32_t count = 1 + (uint32_t)draw(user, held->of->chunks - first);
    struct tarn_space_region *draft;
    struct tarn_space_info info;
    int error = tarn_space_begin(held->region, (uint64_t)first * CHUNK_BYTES, (uint64_t)count * CHUNK_BYTES,
                                 sim_space_deadline(user), &draft);
    if (error == -ENOSPC && user->of[held->of->fate->name] != NULL &&
        tarn_space_reserve(user->of[held->of->fate->name], (uint64_t)count * held->of->copies * CHUNK_BYTES,
                           sim_space_deadline(user)) == 0)
        error = tarn_space_begin(held->region, (uint64_t)first * CHUNK_BYTES, (uint64_t)count * CHUNK_BYTES,
                                 sim_space_deadline(user), &draft);
    check_error(user, "begin", error, usual);
    if (error == -ENOENT && !may_be_gone(held->of))
        sim_fail(world_of(user), "a copy-on-write region is lost before a draft");
    if (error != 0)
        return;
    if (play->version_count == VERSIONS_MAX) {
        tarn_space_drop(draft);
        return;
    }
    tarn_space_info(draft, &info);
    struct version *version = add_version(play, held->of, info.number, base, first, count);
    error = write_draft(user, draft, info.number, count);
    check_error(user, "write", error, of_write);
    if (error == 0 ? draw(user, 8) > 0 : draft->is_in_doubt && draw(user, 2) == 0)
        publish_draft(user, draft, version);
    tarn_space_drop(draft);
}

/* ---- regions ------------------------------------------------------------------------------------ */

static struct versioned *find_place(struct user *user)
{
    for (uint32_t i = 0; i < VERSIONED_MAX; i++) {
        if (user->versioned[i].region == NULL)
            return &user->versioned[i];
    }
    return NULL;
}

static void drop_held(struct versioned *held)
{
    struct tarn_space_region *region = held->region;
    held->region = NULL;
    tarn_space_drop(region);
}

static void alloc_versioned(struct user *user, struct versioned *held, uint32_t name)
{
    static const int usual[] = {-ENOENT, -ENOSPC, 0};
    struct play *play = user->life->play;
    struct tarn_space_namespace *of = user->of[name];
    const struct tarn_space_alloc_options options = {
        .copy_on_write = true, .copies = play->has_copies ? 1 + (uint32_t)draw(user, 2) : 1};
    const uint64_t bytes = (1 + draw(user, 2)) * CHUNK_BYTES;
    struct tarn_space_region *region;
    struct tarn_space_info info;
    if (play->lineage_count == LINEAGES_MAX || play->version_count == VERSIONS_MAX)
        return;
    int error = tarn_space_alloc(of, bytes, &options, sim_space_deadline(user), &region);
    check_error(user, "alloc", error, usual);
    if (error == -ENOSPC)
        (void)!tarn_space_reserve(of, 3 * bytes * options.copies, sim_space_deadline(user));
    if (error != 0)
        return;
    if (play->lineage_count == LINEAGES_MAX || play->version_count == VERSIONS_MAX) {
        tarn_space_drop(region);
        return;
    }
    tarn_space_info(region, &info);
    struct lineage *lineage = &play->lineages[play->lineage_count++];
    *lineage = (struct lineage){.fate = sim_space_fate(play, name, of->number),
                                .address = info.address,
                                .chunks = (uint32_t)(info.bytes / CHUNK_BYTES),
                                .copies = info.copies,
                                .newest = info.number};
    *held = (struct versioned){.region = region, .of = lineage};
    held->version = add_version(play, lineage, info.number, NULL, 0, 0);
    held->version->may_be_published = held->version->is_published = true;
}

/* Choose one of the last regions of a namespace that may be there. @return NULL: there is none */
static struct lineage *choose_lineage(struct user *user, uint32_t name)
{
    struct play *play = user->life->play;
    for (uint32_t i = play->lineage_count, seen = 0; i-- > 0 && seen < 4; seen++) {
        struct lineage *of = &play->lineages[i];
        if (of->fate->number == user->of[name]->number && of->frees == 0 && draw(user, 3) > 0)
            return of;
    }
    return NULL;
}

static void hold_versioned(struct user *user, struct versioned *held, struct lineage *of)
{
    static const int usual[] = {-ENOENT, 0};
    const uint32_t newest = of->newest;
    struct tarn_space_region *region;
    int error = tarn_space_init(user->of[of->fate->name], of->address, 0, sim_space_deadline(user), &region);
    check_error(user, "init", error, usual);
    if (error == -ENOENT && !may_be_gone(of))
        sim_fail(world_of(user), "a copy-on-write region is not found");
    if (error != 0)
        return;
    *held = (struct versioned){.region = region, .of = of};
    learn_held(user, held, newest);
}

static void free_versioned(struct user *user, struct versioned *held)
{
    static const int usual[] = {-ENOENT, 0};
    struct lineage *of = held->of;
    of->frees++;
    int error = tarn_space_free(held->region, sim_space_deadline(user));
    check_error(user, "free", error, usual);
    if (error == -ENOENT && of->frees == 1 && of->fate->deletes == 0)
        sim_fail(world_of(user), "a copy-on-write region is lost before it is freed");
    drop_held(held);
}

static void act_on_held(struct user *user, struct versioned *held)
{
    /* a client that is cut off from the master reads on what it has */
    const uint64_t what = user->life->blind_ns != 0 ? 0 : draw(user, 32);
    if (what < 16)
        read_held(user, held);
    else if (what < 22)
        refresh_held(user, held);
    else if (what < 30 && held->region->error == 0)
        write_version(user, held);
    else if (what < 31)
        drop_held(held);
    else if (draw(user, 4) == 0)
        free_versioned(user, held);
}

/* Begin or end draining a memory server. */
static void drain_any(struct user *user)
{
    static const int usual[] = {-ENOENT, -ENOSPC, 0};
    const struct play *play = user->life->play;
    char name[16];
    (void)snprintf(name, sizeof(name), "server%" PRIu32, play->masters + (uint32_t)draw(user, play->servers));
    check_error(
        user, "drain",
        tarn_space_drain(user->life->space, name, NULL, 0, draw(user, 2) == 0, sim_space_deadline(user)),
        usual);
}

void sim_space_use_versions(struct user *user)
{
    if (user->life->play->has_copies && user->life->blind_ns == 0 && draw(user, 32) == 0)
        drain_any(user);
    const uint32_t name = (uint32_t)draw(user, NAMES);
    struct versioned *held = &user->versioned[draw(user, VERSIONED_MAX)];
    if (held->region != NULL) {
        act_on_held(user, held);
        return;
    }
    held = find_place(user);
    if (held == NULL || user->life->blind_ns != 0 || user->of[name] == NULL)
        return;
    struct lineage *of = choose_lineage(user, name);
    if (of != NULL)
        hold_versioned(user, held, of);
    else
        alloc_versioned(user, held, name);
}

void sim_space_drop_versions(struct user *user, uint32_t name)
{
    for (uint32_t i = 0; i < VERSIONED_MAX; i++) {
        if (user->versioned[i].region != NULL && user->versioned[i].of->fate->name == name)
            drop_held(&user->versioned[i]);
    }
}
