/* The nodes of a space's metadata (README, "Metadata"): for each kind the function that saves it and the one that loads it. */
#include "space/master.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION       1
#define CONFIG_PATH   "/space/config"
#define CONFIG_BYTES  40
#define SERVER_BYTES  24
#define SPACE_BYTES   64
#define REGION_BYTES  32
#define NUMBERS_AHEAD 256 /* numbers that are given before the configuration is stored again */
#define ADDRESS_AHEAD (UINT64_C(1) << 40) /* the same of addresses */
#define PART_PLACES   (32U << 10)         /* the most places in one node */
#define PLACE_BYTES   8

enum { REGION_FREED = 1, REGION_VERSIONED = 2, REGION_COPIES_SHIFT = 4 }; /* flags of a region */
enum { SERVER_DRAINING = 1 };                                             /* flags of a memory server */

struct path {
    char text[CLUSTER_PATH_MAX + 1];
};

static struct path path_of(const char *kind, uint32_t number)
{
    struct path path;
    (void)snprintf(path.text, sizeof(path.text), "/space/%s/%010" PRIu32, kind, number);
    return path;
}

static struct path part_path(uint32_t region, uint32_t part)
{
    struct path path;
    (void)snprintf(path.text, sizeof(path.text), "/space/parts/%010" PRIu32 ".%010" PRIu32, region, part);
    return path;
}

/* ---- saving ------------------------------------------------------------------------------------- */

void master_save_config(struct space_master *master, struct master_set *set)
{
    uint8_t *bytes;
    if (master->next_server < master->bound_server && master->next_space < master->bound_space &&
        master->next_region < master->bound_region)
        return;
    master->bound_server = master->next_server + NUMBERS_AHEAD;
    master->bound_space = master->next_space + NUMBERS_AHEAD;
    master->bound_region = master->next_region + NUMBERS_AHEAD;
    bytes = master_set_put(master, set, CONFIG_PATH, CONFIG_BYTES);
    if (bytes == NULL)
        return;
    struct space_cursor cursor = space_cursor_to(bytes, CONFIG_BYTES);
    space_put(&cursor, VERSION, 4);
    space_put(&cursor, master->bound_server, 4);
    space_put(&cursor, master->bound_space, 4);
    space_put(&cursor, master->bound_region, 4);
    space_put(&cursor, master->chunk_bytes, 8);
    space_put(&cursor, master->cut_term, 8);
    space_put(&cursor, master->cut_ns, 8);
}

void master_save_server(struct space_master *master, struct master_set *set,
                        const struct master_server *server)
{
    const size_t name = strlen(server->name), address = strlen(server->address);
    const uint32_t count = (uint32_t)(SERVER_BYTES + name + address);
    uint8_t *bytes = master_set_put(master, set, path_of("servers", server->number).text, count);
    if (bytes == NULL)
        return;
    struct space_cursor cursor = space_cursor_to(bytes, count);
    space_put_bytes(&cursor, server->identity, SPACE_IDENTITY_BYTES);
    space_put(&cursor, server->chunk_count, 4);
    space_put(&cursor, name, 1);
    space_put(&cursor, server->is_draining ? SERVER_DRAINING : 0, 1);
    space_put(&cursor, address, 2);
    space_put_bytes(&cursor, server->name, name);
    space_put_bytes(&cursor, server->address, address);
}

void master_bound_addresses(struct master_space *space)
{
    space->bound_address = space->next_address + ADDRESS_AHEAD;
}

void master_save_space(struct space_master *master, struct master_set *set, const struct master_space *space)
{
    const size_t name = strlen(space->name);
    uint8_t *bytes =
        master_set_put(master, set, path_of("names", space->number).text, (uint32_t)(SPACE_BYTES + name));
    if (bytes == NULL)
        return;
    struct space_cursor cursor = space_cursor_to(bytes, SPACE_BYTES + name);
    space_put_bytes(&cursor, space->salt, MASTER_SALT_BYTES);
    space_put_bytes(&cursor, space->hash, MASTER_HASH_BYTES);
    space_put(&cursor, space->bound_address, 8);
    space_put(&cursor, name, 2);
    space_put(&cursor, 0, 6);
    space_put_bytes(&cursor, space->name, name);
}

/* Nodes that a list of places needs besides the region's own. */
static uint32_t parts_of(uint32_t place_count)
{
    return place_count == 0 ? 0 : (place_count - 1) / PART_PLACES;
}

static void save_places(struct space_cursor *cursor, const struct master_region *region, uint32_t part)
{
    const uint32_t first = part * PART_PLACES;
    const uint32_t end = base_min(region->place_count, first + PART_PLACES);
    for (uint32_t i = first; i < end; i++)
        space_put(cursor, region->places[i], PLACE_BYTES);
}

static size_t places_bytes(uint32_t place_count, uint32_t part)
{
    return base_min(place_count - part * PART_PLACES, PART_PLACES) * PLACE_BYTES;
}

void master_save_region(struct space_master *master, struct master_set *set,
                        const struct master_region *region)
{
    const uint32_t parts = parts_of(region->place_count);
    for (uint32_t part = 1; part <= parts; part++) {
        const size_t count = places_bytes(region->place_count, part);
        uint8_t *bytes = master_set_put(master, set, part_path(region->number, part).text, (uint32_t)count);
        if (bytes == NULL)
            return;
        struct space_cursor cursor = space_cursor_to(bytes, count);
        save_places(&cursor, region, part);
    }
    const size_t name = strlen(region->name), name_room = base_align_up(name, 8);
    const size_t count = REGION_BYTES + name_room + places_bytes(region->place_count, 0);
    uint8_t *bytes = master_set_put(master, set, path_of("regions", region->number).text, (uint32_t)count);
    if (bytes == NULL)
        return;
    struct space_cursor cursor = space_cursor_to(bytes, count);
    space_put(&cursor, region->space->number, 4);
    space_put(&cursor, region->memory_class, 1);
    space_put(&cursor,
              (region->is_freed ? REGION_FREED : 0) | (region->is_versioned ? REGION_VERSIONED : 0) |
                  (region->copies - 1) << REGION_COPIES_SHIFT,
              1);
    space_put(&cursor, name, 2);
    space_put(&cursor, region->address, 8);
    space_put(&cursor, region->bytes, 8);
    space_put(&cursor, region->chunk_count, 4);
    space_put(&cursor, parts, 4);
    space_put_bytes(&cursor, region->name, name);
    space_put(&cursor, 0, (unsigned)(name_room - name));
    save_places(&cursor, region, 0);
}

void master_forget_server(struct space_master *master, struct master_set *set,
                          const struct master_server *server)
{
    master_set_remove(master, set, path_of("servers", server->number).text);
}

void master_forget_space(struct space_master *master, struct master_set *set,
                         const struct master_space *space)
{
    master_set_remove(master, set, path_of("names", space->number).text);
}

void master_forget_region(struct space_master *master, struct master_set *set,
                          const struct master_region *region)
{
    master_set_remove(master, set, path_of("regions", region->number).text);
    for (uint32_t part = parts_of(region->place_count); part > 0; part--)
        master_set_remove(master, set, part_path(region->number, part).text);
}

/* ---- loading ------------------------------------------------------------------------------------ */

/* The number at the end of a path. @param ret_rest  what follows it */
static uint32_t number_of(const char *path, const char **ret_rest)
{
    char *rest;
    const unsigned long number = strtoul(strrchr(path, '/') + 1, &rest, 10);
    *ret_rest = rest;
    return number > UINT32_MAX ? 0 : (uint32_t)number;
}

static int complain(const struct space_master *master, const char *path)
{
    base_error(&master->node->log, "a space's metadata is damaged", "node=%s", path);
    return -EUCLEAN;
}

static int load_config(struct space_master *master, uint64_t new_chunk_bytes, bool *ret_is_new)
{
    uint8_t bytes[CONFIG_BYTES];
    uint32_t count;
    int error = cluster_get(master->cluster, CONFIG_PATH, bytes, sizeof(bytes), &count, NULL);
    *ret_is_new = error == -ENOENT;
    master->next_server = master->next_space = master->next_region = 1;
    master->chunk_bytes = new_chunk_bytes;
    master->cut_term = master->cut_ns = 0;
    if (error == 0) {
        struct space_cursor cursor = space_cursor_from(bytes, count);
        const bool is_ours = space_take(&cursor, 4) == VERSION;
        master->next_server = (uint32_t)space_take(&cursor, 4);
        master->next_space = (uint32_t)space_take(&cursor, 4);
        master->next_region = (uint32_t)space_take(&cursor, 4);
        master->chunk_bytes = space_take(&cursor, 8);
        master->cut_term = space_take(&cursor, 8);
        master->cut_ns = space_take(&cursor, 8);
        if (!is_ours || !space_cursor_is_done(&cursor) ||
            !base_is_aligned(master->chunk_bytes, BASE_PAGE_BYTES) || master->chunk_bytes == 0)
            return complain(master, CONFIG_PATH);
    }
    master->bound_server = master->bound_space = master->bound_region = 0;
    return *ret_is_new ? 0 : error;
}

static int load_server(void *arg, const char *path, const void *data, uint32_t bytes, int64_t version)
{
    struct space_master *master = arg;
    struct space_cursor cursor = space_cursor_from(data, bytes);
    const char *rest;
    const uint32_t number = number_of(path, &rest);
    const void *identity = space_take_bytes(&cursor, SPACE_IDENTITY_BYTES);
    const uint32_t chunks = (uint32_t)space_take(&cursor, 4);
    const size_t name = space_take(&cursor, 1);
    const uint8_t flags = (uint8_t)space_take(&cursor, 1);
    const size_t address = space_take(&cursor, 2);
    (void)version;
    if (cursor.is_wrong || flags > SERVER_DRAINING || number == 0 || *rest != '\0' ||
        master_server_of(master, number) != NULL)
        return complain(master, path);
    struct master_server *server = master_server_make(master, number, chunks);
    if (server == NULL)
        return -ENOMEM;
    memcpy(server->identity, identity, SPACE_IDENTITY_BYTES);
    server->is_draining = flags != 0;
    if (!space_take_text(&cursor, name, server->name, TARN_SPACE_NAME_MAX) ||
        !space_take_text(&cursor, address, server->address, SPACE_ADDRESS_MAX) ||
        !space_cursor_is_done(&cursor))
        return complain(master, path);
    return 0;
}

static int load_space(void *arg, const char *path, const void *data, uint32_t bytes, int64_t version)
{
    struct space_master *master = arg;
    struct space_cursor cursor = space_cursor_from(data, bytes);
    const char *rest;
    const uint32_t number = number_of(path, &rest);
    const void *salt = space_take_bytes(&cursor, MASTER_SALT_BYTES);
    const void *hash = space_take_bytes(&cursor, MASTER_HASH_BYTES);
    const uint64_t address = space_take(&cursor, 8);
    const size_t count = space_take(&cursor, 2);
    char name[TARN_SPACE_NAME_MAX + 1];
    (void)version;
    space_take_zeros(&cursor, 6);
    if (cursor.is_wrong || number == 0 || *rest != '\0' ||
        !space_take_text(&cursor, count, name, TARN_SPACE_NAME_MAX) || !space_cursor_is_done(&cursor))
        return complain(master, path);
    struct master_space *space = master_space_make(master, number, name);
    if (space == NULL)
        return -ENOMEM;
    memcpy(space->salt, salt, MASTER_SALT_BYTES);
    memcpy(space->hash, hash, MASTER_HASH_BYTES);
    space->next_address = address;
    space->is_stored = true;
    return 0;
}

/* The namespace of a region; one that was deleted, but has regions, stands for them. */
static struct master_space *space_of_region(struct space_master *master, uint32_t number)
{
    struct master_space *space = master_space_of(master, number);
    if (space == NULL)
        space = master_space_make(master, number, "");
    if (space != NULL && !space->is_stored)
        space->is_deleted = true;
    return space;
}

/* Bind a chunk to a region that was read. Versions of one may share it: it was taken for the first of them, at the latest.
 * @return false: it is another's */
static bool bind_stored(struct master_chunk *chunk, const struct master_region *region)
{
    const uint32_t number = region->number;
    if (chunk->versions > 0 &&
        (!region->is_versioned || !chunk->is_versioned || chunk->region_space != region->space->number))
        return false;
    chunk->region_number = chunk->versions == 0 ? number : base_min(chunk->region_number, number);
    chunk->region_space = region->space->number;
    chunk->is_versioned = region->is_versioned;
    chunk->versions++;
    return true;
}

/* Bind the chunks of a part of a region that was read. */
static bool load_places(struct space_master *master, struct master_region *region, uint32_t part,
                        struct space_cursor *cursor)
{
    const uint32_t first = part * PART_PLACES;
    const uint32_t end = base_min(region->place_count, first + PART_PLACES);
    for (uint32_t i = first; i < end; i++) {
        const uint64_t place = space_take(cursor, PLACE_BYTES);
        struct master_server *server = master_server_of(master, master_place_server(place));
        const uint32_t chunk = master_place_chunk(place);
        region->places[i] = place;
        if (server == NULL)
            continue; /* it is lost for good, and so is what it had */
        if (chunk >= server->chunk_count || !bind_stored(&server->chunks[chunk], region))
            return false;
    }
    return space_cursor_is_done(cursor);
}

static int load_region(void *arg, const char *path, const void *data, uint32_t bytes, int64_t version)
{
    struct space_master *master = arg;
    struct space_cursor cursor = space_cursor_from(data, bytes);
    const char *rest;
    const uint32_t number = number_of(path, &rest), space_number = (uint32_t)space_take(&cursor, 4);
    const uint8_t class = (uint8_t)space_take(&cursor, 1), flags = (uint8_t)space_take(&cursor, 1);
    const size_t name = space_take(&cursor, 2);
    const uint64_t address = space_take(&cursor, 8), region_bytes = space_take(&cursor, 8);
    const uint32_t chunks = (uint32_t)space_take(&cursor, 4), parts = (uint32_t)space_take(&cursor, 4);
    const uint32_t copies = 1 + (flags >> REGION_COPIES_SHIFT);
    (void)version;
    if (cursor.is_wrong || number == 0 || space_number == 0 || *rest != '\0' || chunks == 0 ||
        copies > TARN_SPACE_COPIES_MAX || parts != parts_of(chunks * copies) || class > TARN_SPACE_WORDS ||
        (flags & ((1U << REGION_COPIES_SHIFT) - 1)) > (REGION_FREED | REGION_VERSIONED))
        return complain(master, path);
    struct master_space *space = space_of_region(master, space_number);
    struct master_region *region =
        space == NULL ? NULL : master_region_make(master, space, number, chunks, copies);
    if (region == NULL)
        return -ENOMEM;
    region->memory_class = (enum tarn_space_class) class;
    region->is_freed = (flags & REGION_FREED) != 0 || space->is_deleted;
    region->is_versioned = (flags & REGION_VERSIONED) != 0;
    region->address = address;
    region->bytes = region_bytes;
    region->is_stored = true;
    if (name > 0 && !space_take_text(&cursor, name, region->name, TARN_SPACE_NAME_MAX))
        return complain(master, path);
    space_take_zeros(&cursor, (unsigned)(base_align_up(name, 8) - name));
    return load_places(master, region, 0, &cursor) ? 0 : complain(master, path);
}

/* The region of a number, in any namespace. */
static struct master_region *find_region(const struct space_master *master, uint32_t number)
{
    for (uint32_t i = 0; i < master->spaces.count; i++) {
        struct master_region *region = master_region_of(master->spaces.items[i], number);
        if (region != NULL)
            return region;
    }
    return NULL;
}

/* Parts that are of no region are left of one that was never stored, or of one that is gone. */
static int load_part(void *arg, const char *path, const void *data, uint32_t bytes, int64_t version)
{
    struct space_master *master = arg;
    struct space_cursor cursor = space_cursor_from(data, bytes);
    const char *rest;
    const uint32_t number = number_of(path, &rest);
    const unsigned long part = *rest == '.' ? strtoul(rest + 1, NULL, 10) : 0;
    struct master_region *region = find_region(master, number);
    (void)version;
    if (region == NULL) {
        master_set_remove(master, &master->orphans, path);
        return master->orphans.error;
    }
    if (part == 0 || part > parts_of(region->place_count) ||
        !load_places(master, region, (uint32_t)part, &cursor))
        return complain(master, path);
    return 0;
}

static int compare_regions(const void *a, const void *b)
{
    const struct master_region *const *one = a, *const *other = b;
    return (*one)->number < (*other)->number ? -1 : (*one)->number > (*other)->number;
}

static int compare_spaces(const void *a, const void *b)
{
    const struct master_space *const *one = a, *const *other = b;
    return (*one)->number < (*other)->number ? -1 : (*one)->number > (*other)->number;
}

/* Put namespaces and regions into the order of their numbers: they come in none. */
static void sort_all(struct space_master *master)
{
    if (master->spaces.count > 1)
        qsort(master->spaces.items, master->spaces.count, sizeof(void *), compare_spaces);
    for (uint32_t i = 0; i < master->spaces.count; i++) {
        struct master_space *space = master->spaces.items[i];
        if (space->regions.count > 1)
            qsort(space->regions.items, space->regions.count, sizeof(void *), compare_regions);
    }
}

int master_load(struct space_master *master, uint64_t new_chunk_bytes, bool *ret_is_new)
{
    int error = load_config(master, new_chunk_bytes, ret_is_new);
    if (error == 0)
        error = cluster_scan(master->cluster, "/space/servers", load_server, master);
    if (error == 0)
        error = cluster_scan(master->cluster, "/space/names", load_space, master);
    if (error == 0)
        error = cluster_scan(master->cluster, "/space/regions", load_region, master);
    sort_all(master); /* they are looked up from now on */
    if (error == 0)
        error = cluster_scan(master->cluster, "/space/parts", load_part, master);
    return error;
}
