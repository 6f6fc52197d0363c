/*
 * Checks of campaign `space`: the tables of the master and of the memory servers, in the middle of it all, and what is there
 * at its end.
 */
#include "sim/campaigns/space.h"
#include "sim/sim_internal.h"
#include "space/client.h"
#include "space/master.h"
#include "space/server.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum { LOOK_NS = 1000000 };

bool sim_space_does_lead(const struct life *life)
{
    const struct space_master *master = life->master;
    const uint64_t now = sim_node_clock(life->node, sim_world_now(life->play->arena.world));
    return atomic_load(&master->epoch) != 0 && master->failed == 0 &&
           now < cluster_held_until(master->cluster);
}

/* ---- tables ------------------------------------------------------------------------------------- */

/* The memory server of an identity that is up. @return NULL: there is none */
static const struct space_server *find_server(const struct play *play, const uint8_t *identity)
{
    for (uint32_t i = play->masters; i < play->masters + play->servers; i++) {
        const struct life *life = play->current[i];
        if (life != NULL && life->server != NULL &&
            memcmp(life->server->identity, identity, SPACE_IDENTITY_BYTES) == 0)
            return life->server;
    }
    return NULL;
}

/* A region's chunk is that region's alone, and its namespace's at its server. */
static void check_place(const struct play *play, const struct space_master *master,
                        const struct master_region *region, uint64_t place)
{
    const struct master_server *server = master_server_of(master, master_place_server(place));
    const uint32_t number = master_place_chunk(place);
    if (server == NULL)
        return; /* it is lost */
    const uint32_t taken_for = server->chunks[number].region_number;
    if (region->is_versioned ? taken_for == 0 || taken_for > region->number : taken_for != region->number)
        sim_fail(play->arena.world,
                 "chunk %" PRIu32 " of server %" PRIu32 " is one of region %" PRIu32 " and of %" PRIu32,
                 number, server->number, region->number, taken_for);
    const struct space_server *own = find_server(play, server->identity);
    const struct server_space *space = own == NULL ? NULL : own->chunks[number].space;
    if (own != NULL && (space == NULL || space->number != region->space->number))
        sim_fail(play->arena.world,
                 "chunk %" PRIu32 " of server %" PRIu32 " is namespace %" PRIu32 "'s there and %" PRIu32
                 "'s in the master's tables",
                 number, server->number, space == NULL ? 0 : space->number, region->space->number);
}

/* The copies of a chunk are on different servers. */
static void check_copy(const struct play *play, const struct master_region *region, uint32_t index)
{
    for (uint32_t i = index - index % region->copies; i < index; i++) {
        if (region->places[i] != 0 &&
            master_place_server(region->places[i]) == master_place_server(region->places[index]))
            sim_fail(play->arena.world,
                     "chunk %" PRIu32 " of region %" PRIu32 " has two copies on server %" PRIu32,
                     index / region->copies, region->number, master_place_server(region->places[index]));
    }
}

/* How many regions of the tables have a chunk. */
static uint32_t count_versions(const struct space_master *master, uint64_t place)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < master->spaces.count; i++) {
        const struct master_space *space = master->spaces.items[i];
        for (uint32_t k = 0; k < space->regions.count; k++) {
            const struct master_region *region = space->regions.items[k];
            for (uint32_t c = 0; c < region->place_count; c++)
                count += (region->places[c] & ~MASTER_NO_COPY) == place;
        }
    }
    return count;
}

/* Each chunk knows how many regions have it. */
static void check_counts(const struct play *play, const struct space_master *master)
{
    for (uint32_t slot = 0; slot < master->slots; slot++) {
        const struct master_server *server = master->servers[slot];
        for (uint32_t chunk = 0; server != NULL && chunk < server->chunk_count; chunk++) {
            const uint32_t count = count_versions(master, (uint64_t)chunk << 32 | server->number);
            if (count != server->chunks[chunk].versions)
                sim_fail(play->arena.world,
                         "chunk %" PRIu32 " of server %" PRIu32 " counts %" PRIu32 " regions, and %" PRIu32
                         " have it",
                         chunk, server->number, server->chunks[chunk].versions, count);
        }
    }
}

void sim_space_check_tables(struct play *play)
{
    const struct life *life = sim_space_leader(play);
    const struct space_master *master = life == NULL ? NULL : life->master;
    if (master == NULL)
        return;
    check_counts(play, master);
    for (uint32_t i = 0; i < master->spaces.count; i++) {
        const struct master_space *space = master->spaces.items[i];
        for (uint32_t k = 0; k < space->regions.count; k++) {
            const struct master_region *region = space->regions.items[k];
            for (uint32_t c = 0; c < region->place_count && region->is_stored; c++) {
                check_place(play, master, region, region->places[c]);
                check_copy(play, region, c);
            }
        }
    }
}

/* Whether a region has all of its copies on servers that are there. */
static bool is_whole(const struct space_master *master, const struct master_region *region)
{
    for (uint32_t i = 0; i < region->place_count; i++) {
        const struct master_server *server = master_server_of(master, master_place_server(region->places[i]));
        if (server == NULL || !server->is_live || (region->places[i] & MASTER_NO_COPY) != 0)
            return false;
    }
    return !region->is_publishing;
}

bool sim_space_is_whole(const struct play *play)
{
    const struct life *life = sim_space_leader(play);
    const struct space_master *master = life == NULL ? NULL : life->master;
    for (uint32_t i = play->masters; i < play->masters + play->servers; i++) {
        const struct life *server = play->current[i];
        if (server == NULL || server->server == NULL || !atomic_load(&server->server->is_attended))
            return false; /* the master may not have missed the one before it yet */
    }
    for (uint32_t i = 0; master != NULL && i < master->spaces.count; i++) {
        const struct master_space *space = master->spaces.items[i];
        for (uint32_t k = 0; k < space->regions.count; k++) {
            const struct master_region *region = space->regions.items[k];
            if (region->copies > 1 && region->is_stored && !region->is_freed && !is_whole(master, region))
                return false;
        }
    }
    return master != NULL;
}

void sim_space_drain_none(struct tarn_space *space)
{
    for (uint32_t i = 0; i < MASTERS_MAX + SERVERS_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "server%" PRIu32, i);
        (void)!tarn_space_drain(space, name, NULL, 0, false, task_now() + PATIENCE_NS);
    }
}

/* ---- the end ------------------------------------------------------------------------------------ */

/* Look for all regions of a namespace that must be there. */
static void check_regions(struct play *play, struct tarn_space_namespace *of)
{
    for (uint32_t i = 0; i < play->record_count; i++) {
        const struct record *record = &play->records[i];
        const bool is_there = record->frees == 0 && record->fate->deletes == 0;
        struct tarn_space_region *region;
        if (record->fate->number != of->number || (!is_there && !record->is_free))
            continue;
        int error = tarn_space_init(of, record->address, 0, task_now() + PATIENCE_NS, &region);
        if (error != (is_there ? 0 : -ENOENT))
            sim_fail(play->arena.world, "at the end region %" PRIu32 " is %s: %d", record->number,
                     is_there ? "lost" : "there", error);
        if (error == 0)
            tarn_space_drop(region);
    }
}

/* The same of copy-on-write regions: the last version that was published is there, or a later one. */
static void check_versions(const struct play *play, struct tarn_space_namespace *of)
{
    for (uint32_t i = 0; i < play->lineage_count; i++) {
        const struct lineage *lineage = &play->lineages[i];
        struct tarn_space_info info = {.number = 0};
        struct tarn_space_region *region;
        if (lineage->fate->number != of->number || lineage->frees > 0 || lineage->fate->deletes > 0)
            continue;
        int error = tarn_space_init(of, lineage->address, 0, task_now() + PATIENCE_NS, &region);
        if (error == 0) {
            tarn_space_info(region, &info);
            tarn_space_drop(region);
        }
        if (info.number < lineage->newest)
            sim_fail(play->arena.world,
                     "at the end version %" PRIu32 " is lost, and %" PRIu32 " is there: %d", lineage->newest,
                     info.number, error);
    }
}

static void delete_all(struct play *play, struct tarn_space *space, uint32_t name)
{
    const char *text = name == 0 ? "one" : "other";
    struct tarn_space_namespace *of;
    int error;
    do {
        error = tarn_space_join_ns(space, text, text, name * 3, task_now() + PATIENCE_NS, &of);
        if (error != 0)
            break;
        check_regions(play, of);
        check_versions(play, of);
        sim_space_fate(play, name, of->number)->deletes++;
        error = tarn_space_delete_ns(of, task_now() + PATIENCE_NS);
        tarn_space_leave_ns(of);
    } while (error == -ECONNRESET); /* the master's term ended: nobody knows whether it is deleted */
    if (error != 0 && error != -ENOENT)
        sim_fail(play->arena.world, "at the end a namespace could not be deleted: %d", error);
    for (uint32_t i = 0; i < play->fate_count && error == -ENOENT; i++) {
        if (play->fates[i].name == name && play->fates[i].deletes == 0)
            sim_fail(play->arena.world, "at the end namespace %" PRIu32 " is lost", play->fates[i].number);
    }
}

/* Wait until nothing has any chunk. */
static void await_nothing(struct life *life)
{
    struct play *play = life->play;
    const uint64_t deadline_ns = task_now() + 4 * PATIENCE_NS;
    const uint64_t chunks = (uint64_t)play->servers * play->chunks;
    struct space_master_stats stats;
    bool is_clean;
    do {
        (void)task_sleep(LOOK_NS);
        space_master_stats(life->master, &stats);
        is_clean = stats.chunks == chunks && stats.chunks_free == chunks && stats.namespaces == 0 &&
                   stats.regions == 0 && stats.sessions == 0;
    } while (!is_clean && task_now() < deadline_ns);
    if (!is_clean)
        sim_fail(play->arena.world,
                 "at the end %" PRIu64 " chunks of %" PRIu64 " are free (of %" PRIu64
                 " servers), and there are %" PRIu64 " namespaces, %" PRIu64 " regions and %" PRIu64
                 " sessions",
                 stats.chunks_free, chunks, stats.servers, stats.namespaces, stats.regions, stats.sessions);
    for (uint32_t i = play->masters; i < play->masters + play->servers && is_clean; i++) {
        const struct space_server *server = play->current[i]->server;
        struct space_server_stats at;
        space_server_stats(server, &at);
        if (at.assigned != 0)
            sim_fail(play->arena.world, "at the end %" PRIu64 " chunks of a server are assigned",
                     at.assigned);
    }
}

void sim_space_check_end(struct life *life)
{
    struct play *play = life->play;
    struct tarn_space *space;
    int error = tarn_space_connect(life->fabric, MASTERS, NULL, task_now() + PATIENCE_NS, &space);
    if (error == 0) {
        if (play->has_copies)
            sim_space_drain_none(space);
        for (uint32_t name = 0; name < NAMES; name++)
            delete_all(play, space, name);
        tarn_space_disconnect(space);
        await_nothing(life);
    } else {
        sim_fail(play->arena.world, "at the end the master could not be reached: %d", error);
    }
    play->is_checked = true;
}
