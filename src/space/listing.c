/* What there is in a space, as the master lists it: memory servers, namespaces, regions of a namespace, and its own numbers. */
#include "space/client.h"
#include <errno.h>
#include <string.h>

/* A listing under way. */
struct listing {
    enum space_kind kind;
    union {
        tarn_space_server_function *server;
        tarn_space_namespace_function *space_namespace;
        tarn_space_region_function *region;
        tarn_space_statistic_function *statistic;
    } visit;
    void *arg;
    uint64_t chunk_bytes;
    uint32_t from; /* the least number that the next row may have */
};

/* Take a name, or none. @param ret_name  room for TARN_SPACE_NAME_MAX + 1 bytes */
static void take_name(struct space_cursor *cursor, size_t count, char *ret_name)
{
    ret_name[0] = '\0';
    if (count > 0 && !space_take_name(cursor, count, ret_name))
        cursor->is_wrong = true;
}

/* Take a row's number. Those of one listing rise, so that it ends, whatever the master says. */
static uint32_t take_number(struct listing *listing, struct space_cursor *cursor)
{
    const uint32_t number = (uint32_t)space_take(cursor, 4);
    if (number < listing->from || number == UINT32_MAX)
        cursor->is_wrong = true;
    listing->from = number + 1;
    return number;
}

static int show_server(struct listing *listing, struct space_cursor *cursor)
{
    char name[TARN_SPACE_NAME_MAX + 1], address[SPACE_ADDRESS_MAX + 1];
    (void)space_take_bytes(cursor, SPACE_IDENTITY_BYTES);
    struct tarn_space_server_row row = {
        .name = name, .address = address, .number = take_number(listing, cursor)};
    const size_t name_len = space_take(cursor, 2), address_len = space_take(cursor, 2);
    take_name(cursor, name_len, name);
    if (!space_take_text(cursor, address_len, address, SPACE_ADDRESS_MAX))
        cursor->is_wrong = true;
    row.bytes = space_take(cursor, 4) * listing->chunk_bytes;
    row.free_bytes = space_take(cursor, 4) * listing->chunk_bytes;
    row.is_there = space_take(cursor, 1) != 0;
    row.is_draining = space_take(cursor, 1) != 0;
    row.used_bytes = space_take(cursor, 4) * listing->chunk_bytes;
    row.dirty_bytes = space_take(cursor, 4) * listing->chunk_bytes;
    row.connections = (uint32_t)space_take(cursor, 4);
    row.refused = space_take(cursor, 8);
    return cursor->is_wrong ? -EPROTO : listing->visit.server(listing->arg, &row);
}

static int show_namespace(struct listing *listing, struct space_cursor *cursor)
{
    char name[TARN_SPACE_NAME_MAX + 1];
    struct tarn_space_namespace_row row = {.name = name, .number = take_number(listing, cursor)};
    row.regions = (uint32_t)space_take(cursor, 4);
    row.spare_bytes = space_take(cursor, 8) * listing->chunk_bytes;
    row.region_bytes = space_take(cursor, 8) * listing->chunk_bytes;
    take_name(cursor, space_take(cursor, 2), name);
    return cursor->is_wrong ? -EPROTO : listing->visit.space_namespace(listing->arg, &row);
}

static int show_region(struct listing *listing, struct space_cursor *cursor)
{
    char name[TARN_SPACE_NAME_MAX + 1];
    struct space_cursor number = *cursor; /* it is the first field of a region */
    struct space_region_row region;
    (void)take_number(listing, &number);
    space_take_region(cursor, &region);
    const uint32_t holders = (uint32_t)space_take(cursor, 4);
    take_name(cursor, space_take(cursor, 2), name);
    const struct tarn_space_region_row row = {.name = name,
                                              .address = region.address,
                                              .bytes = region.bytes,
                                              .number = region.number,
                                              .holders = holders,
                                              .copies = region.copies,
                                              .memory_class = (enum tarn_space_class)region.memory_class};
    return cursor->is_wrong || number.is_wrong || region.memory_class > TARN_SPACE_WORDS
               ? -EPROTO
               : listing->visit.region(listing->arg, &row);
}

static int show_statistic(struct listing *listing, struct space_cursor *cursor)
{
    char name[TARN_SPACE_NAME_MAX + 1];
    (void)take_number(listing, cursor);
    const struct tarn_space_statistic_row row = {.name = name, .value = space_take(cursor, 8)};
    take_name(cursor, space_take(cursor, 2), name);
    return cursor->is_wrong ? -EPROTO : listing->visit.statistic(listing->arg, &row);
}

/* Ask for the next page of rows. */
static int ask_for_page(struct tarn_space *space, const struct listing *listing, uint32_t space_number,
                        uint8_t *page, uint64_t deadline_ns, uint32_t *ret_bytes)
{
    uint8_t request[SPACE_REQUEST_MAX];
    struct space_cursor end = client_begin(request);
    space_put(&end, (uint64_t)listing->kind, 4);
    space_put(&end, space_number, 4);
    space_put(&end, listing->from, 4);
    return client_ask(space, SPACE_LIST, request, &end, page, SPACE_RESULT_MAX, deadline_ns, ret_bytes);
}

static int show_page(struct listing *listing, const uint8_t *page, uint32_t bytes)
{
    static int (*const shows[])(struct listing * listing,
                                struct space_cursor * cursor) = {[SPACE_SERVERS] = show_server,
                                                                 [SPACE_NAMESPACES] = show_namespace,
                                                                 [SPACE_REGIONS] = show_region,
                                                                 [SPACE_STATISTICS] = show_statistic};
    struct space_cursor cursor = space_cursor_from(page, bytes);
    int error = 0;
    while (error == 0 && !space_cursor_is_done(&cursor))
        error = shows[listing->kind](listing, &cursor);
    return error;
}

/* Show all rows, page after page, until one is empty. */
static int show_all(struct tarn_space *space, struct listing *listing, uint32_t space_number,
                    uint64_t deadline_ns)
{
    uint32_t bytes = 0;
    uint8_t *page = base_alloc(&space->node->memory, SPACE_RESULT_MAX);
    if (page == NULL)
        return -ENOMEM;
    listing->chunk_bytes = space->chunk_bytes;
    int error;
    do {
        error = ask_for_page(space, listing, space_number, page, deadline_ns, &bytes);
        if (error == 0)
            error = show_page(listing, page, bytes);
    } while (error == 0 && bytes > 0);
    base_free(&space->node->memory, page, SPACE_RESULT_MAX);
    return error;
}

int tarn_space_list_servers(struct tarn_space *space, tarn_space_server_function *visit, void *arg,
                            uint64_t deadline_ns)
{
    struct listing listing = {.kind = SPACE_SERVERS, .visit.server = visit, .arg = arg};
    return show_all(space, &listing, 0, deadline_ns);
}

int tarn_space_list_namespaces(struct tarn_space *space, tarn_space_namespace_function *visit, void *arg,
                               uint64_t deadline_ns)
{
    struct listing listing = {.kind = SPACE_NAMESPACES, .visit.space_namespace = visit, .arg = arg};
    return show_all(space, &listing, 0, deadline_ns);
}

int tarn_space_list_regions(struct tarn_space_namespace *of, tarn_space_region_function *visit, void *arg,
                            uint64_t deadline_ns)
{
    struct listing listing = {.kind = SPACE_REGIONS, .visit.region = visit, .arg = arg};
    return show_all(of->space, &listing, of->number, deadline_ns);
}

int tarn_space_drain(struct tarn_space *space, const char *server, const void *secret, uint32_t secret_bytes,
                     bool is_draining, uint64_t deadline_ns)
{
    uint8_t request[SPACE_REQUEST_MAX];
    struct space_cursor end = client_begin(request);
    if (!base_name_is_good(server, strlen(server)) || secret_bytes > TARN_SPACE_SECRET_MAX)
        return -EINVAL;
    space_put(&end, secret_bytes, 2);
    space_put(&end, strlen(server), 2);
    space_put(&end, is_draining, 1);
    space_put(&end, 0, 3);
    space_put_bytes(&end, secret, secret_bytes);
    space_put_bytes(&end, server, strlen(server));
    return client_ask(space, SPACE_DRAIN, request, &end, NULL, 0, deadline_ns, NULL);
}

int tarn_space_list_statistics(struct tarn_space *space, tarn_space_statistic_function *visit, void *arg,
                               uint64_t deadline_ns)
{
    struct listing listing = {.kind = SPACE_STATISTICS, .visit.statistic = visit, .arg = arg};
    return show_all(space, &listing, 0, deadline_ns);
}
