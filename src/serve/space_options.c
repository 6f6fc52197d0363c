/* The options of a space's servers: what goes together, and what it comes to. */
#include "serve/serve_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_USUAL TARN_SPACE_CHUNK_BYTES
#define ZOOKEEPER   "zookeeper:"

bool serve_is_of_space(const struct serve_options *options)
{
    return options->space != NULL || options->memory_server;
}

int serve_check_no_space(const struct serve_options *options, char *error, size_t room)
{
    if (options->memory_file != NULL)
        return base_settings_fail(error, room,
                                  "-e, --memory-file is for --memory-server, a part of a space: what stores "
                                  "hold is kept by --data=FILE, over crashes and power cuts, too");
    const char *name = options->join != NULL                  ? "join"
                       : options->space_listen != NULL        ? "space-listen"
                       : options->servers_secret_file != NULL ? "servers-secret-file"
                       : options->chunk_bytes != CHUNK_USUAL  ? "chunk"
                                                              : NULL;
    return name == NULL ? 0
                        : base_settings_fail(error, room,
                                             "--%s is for a space: say --space=FILE for its master, "
                                             "--memory-server for a part of its memory, or both",
                                             name);
}

/* Check that nothing was told that is for stores. */
static int check_no_stores(const struct serve_options *options, char *error, size_t room)
{
    const struct {
        bool is_told;
        const char *name;
    } told[] = {
        {options->data != NULL, "data"},
        {options->stores.count > 0, "store"},
        {options->memory_limit_mib != 0, "memory-limit"},
        {options->listen.count > 0, "listen"},
        {options->unix_path != NULL, "unix"},
        {options->kv_listen.count > 0, "kv-listen"},
        {options->kv_unix_path != NULL, "kv-unix"},
        {options->dump != NULL, "dump"},
        {options->cache, "cache"},
    };
    for (size_t i = 0; i < base_array_count(told); i++) {
        if (told[i].is_told)
            return base_settings_fail(
                error, room, "--%s is for stores, and --%s for a space: have a `tarn serve` for each",
                told[i].name, options->space != NULL ? "space" : "memory-server");
    }
    return 0;
}

/* Whether the master that was asked for is one of several, or may be. */
static bool is_one_of_several(const struct serve_options *options)
{
    return options->space != NULL && strncmp(options->space, ZOOKEEPER, sizeof(ZOOKEEPER) - 1) == 0;
}

/* Check that the parts of a space that were asked for go together. */
static int check_parts(const struct serve_options *options, char *error, size_t room)
{
    if (options->space != NULL && options->join != NULL && !is_one_of_several(options))
        return base_settings_fail(
            error, room,
            "--join is for a memory server whose master is another process; with --space=FILE "
            "it is this one: leave out one of the two");
    if (options->join != NULL && !options->memory_server)
        return base_settings_fail(error, room,
                                  "--join is for a memory server: say --memory-server, too, or leave it out");
    if (options->memory_file != NULL && !options->memory_server)
        return base_settings_fail(
            error, room, "--memory-file is for a memory server: say --memory-server, too, or leave it out");
    if (is_one_of_several(options) && options->memory_server && options->join == NULL)
        return base_settings_fail(
            error, room,
            "one of several masters leads, and the memory server has to find it: say "
            "--join=URL with the --space-listen of them all, as tarn://ADDRESS:PORT,ADDRESS:PORT");
    if (options->space == NULL && options->join == NULL)
        return base_settings_fail(error, room,
                                  "which master is the memory for? Say --join=URL, its --space-listen; or "
                                  "--space=FILE to have a master in this process");
    if (options->space_listen == NULL)
        return base_settings_fail(error, room,
                                  "where is it reached? Say --space-listen=unix:PATH for this machine, or "
                                  "--space-listen=tarn://ADDRESS:PORT for others, too");
    return 0;
}

static int check_chunks(const struct serve_options *options, char *error, size_t room)
{
    char chunk[BASE_UNITS_ROOM], memory[BASE_UNITS_ROOM];
    (void)base_format_size_exact(chunk, sizeof(chunk), options->chunk_bytes);
    (void)base_format_size_exact(memory, sizeof(memory), options->memory_bytes);
    const uint64_t chunks = options->memory_bytes / options->chunk_bytes;
    if (!base_is_power_of_two(options->chunk_bytes))
        return base_settings_fail(error, room, "--chunk=%s is no power of two: say 64M, for instance", chunk);
    if (options->memory_server && chunks == 0)
        return base_settings_fail(error, room, "--memory=%s is less than one chunk of %s: say more", memory,
                                  chunk);
    if (options->memory_server && chunks > TARN_FABRIC_REGIONS_MAX)
        return base_settings_fail(error, room,
                                  "--memory=%s is more than %d chunks of %s: say a larger --chunk, for all "
                                  "servers of the space",
                                  memory, TARN_FABRIC_REGIONS_MAX, chunk);
    return 0;
}

/* Read a URL of an option. */
static int read_url(const char *option, const char *url, struct serve_space_url *ret_url, char *error,
                    size_t room)
{
    const char *wrong = serve_space_url_read(url, ret_url);
    return wrong == NULL ? 0 : base_settings_fail(error, room, "--%s=%s: %s", option, url, wrong);
}

/* Read the master that a memory server joins, over a fabric that both URLs agree on. */
static int read_join(const struct serve_options *options, struct serve_space_plan *plan, char *error,
                     size_t room)
{
    struct serve_space_url join;
    int result = read_url("join", options->join, &join, error, room);
    if (result != 0)
        return result;
    if (join.is_shm != plan->listen.is_shm)
        return base_settings_fail(error, room,
                                  "--join and --space-listen are of one kind: unix:PATH both, or "
                                  "tarn://ADDRESS:PORT both");
    if (!plan->listen.says_fabric)
        memcpy(plan->listen.fabric, join.fabric, sizeof(join.fabric));
    else if (join.says_fabric && strcmp(join.fabric, plan->listen.fabric) != 0)
        return base_settings_fail(
            error, room,
            "--join and --space-listen go over one fabric: say what stands behind the ? "
            "once, or alike");
    memcpy(plan->masters, join.addresses, sizeof(join.addresses));
    return 0;
}

/* Find the address of a memory server beside its master: behind the master's path, or at the next port. */
static int place_beside(struct serve_space_plan *plan, char *error, size_t room)
{
    const char *address = plan->listen.addresses, *colon = strrchr(address, ':');
    const size_t port_at = colon == NULL ? 0 : (size_t)(colon + 1 - address);
    const unsigned long port = strtoul(address + port_at, NULL, 10);
    const int len = plan->listen.is_shm ? snprintf(plan->memory, sizeof(plan->memory), "%s.memory", address)
                                        : snprintf(plan->memory, sizeof(plan->memory), "%.*s%lu",
                                                   (int)port_at, address, port + 1);
    if (len < 0 || (size_t)len >= sizeof(plan->memory) || (!plan->listen.is_shm && port >= UINT16_MAX))
        return base_settings_fail(
            error, room,
            "--space-listen: the memory server has the path with .memory behind it, or the "
            "next port, and there is none: say a shorter path, or a lower port");
    return 0;
}

/* Find what the memory server needs to know. */
static int plan_server(const struct serve_options *options, struct serve_space_plan *plan, char *error,
                       size_t room)
{
    (void)snprintf(plan->masters, sizeof(plan->masters), "%s", plan->listen.addresses);
    int result = options->join == NULL ? 0 : read_join(options, plan, error, room);
    if (result == 0 && options->space != NULL)
        return place_beside(plan, error, room);
    memcpy(plan->memory, plan->listen.addresses, sizeof(plan->memory)); /* one, which has room */
    return result;
}

/* Find what the master needs to know. */
static int plan_master(const struct serve_options *options, struct serve_space_plan *plan, char *error,
                       size_t room)
{
    const bool is_url = is_one_of_several(options) || strncmp(options->space, "solo:", 5) == 0;
    const int len =
        snprintf(plan->cluster, sizeof(plan->cluster), "%s%s", is_url ? "" : "solo:", options->space);
    if (len < 0 || (size_t)len >= sizeof(plan->cluster))
        return base_settings_fail(error, room, "--space is longer than 4,000 bytes");
    return 0;
}

/* Name a server after its address, which no other has: letters of names, in place of all others a '-'. */
static void name_after(const char *address, char *ret_name)
{
    const char *from = address + strspn(address, "/[");
    const size_t len = strlen(from);
    from += len > TARN_SPACE_NAME_MAX ? len - TARN_SPACE_NAME_MAX : 0;
    (void)snprintf(ret_name, TARN_SPACE_NAME_MAX + 1, "%s", from);
    for (char *at = ret_name; *at != '\0'; at++) {
        if (!base_name_is_good(at, 1))
            *at = '-';
    }
}

/* Check that an address may be listened at, and that others can be told it. */
static int check_address(const struct serve_options *options, const struct serve_space_plan *plan,
                         char *error, size_t room)
{
    const char *address = plan->listen.addresses;
    if (strchr(address, ',') != NULL)
        return base_settings_fail(error, room, "--space-listen: a server has one address, without a comma");
    if (plan->listen.is_shm)
        return 0;
    if (options->memory_server && (strncmp(address, "0.0.0.0:", 8) == 0 || strncmp(address, "[::]:", 5) == 0))
        return base_settings_fail(
            error, room,
            "--space-listen: clients are told this address, and %s is none of a machine: "
            "say the one by which others reach it",
            address);
    if (!options->insecure && !net_is_loopback(address) && !serve_fabric_is_secure(plan->listen.fabric))
        return base_settings_fail(
            error, room,
            "%s may be reached by other machines, and anybody who reaches it could be a "
            "client: say --space-listen='tarn://%s?tcp:secret=FILE', or --insecure if that "
            "is meant",
            address, address);
    return 0;
}

int serve_space_plan(const struct serve_options *options, struct serve_space_plan *ret_plan, char *error,
                     size_t room)
{
    *ret_plan = (struct serve_space_plan){.name = ""};
    int result = check_no_stores(options, error, room);
    if (result == 0)
        result = check_parts(options, error, room);
    if (result == 0)
        result = check_chunks(options, error, room);
    if (result == 0)
        result = read_url("space-listen", options->space_listen, &ret_plan->listen, error, room);
    if (result == 0)
        result = check_address(options, ret_plan, error, room);
    if (result == 0 && options->space != NULL)
        result = plan_master(options, ret_plan, error, room);
    if (result == 0 && options->memory_server)
        result = plan_server(options, ret_plan, error, room);
    name_after(ret_plan->listen.addresses, ret_plan->member);
    name_after(ret_plan->memory, ret_plan->name);
    return result;
}
