/* A part of a space in this process: its master, a memory server, or both. space_options.c has read what was asked for. */
#include "space/space.h"
#include "fabric/fabric.h"
#include "serve/serve_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <tarn/tarn.h>
#include <unistd.h>

#define FILES_BESIDE 256 /* descriptors for connections, besides those of chunks */

/* A scheduler of its own for the master, and for the memory server. */
struct space_lane {
    struct serve_space *space;
    struct task_sched *sched;
    struct task_group keeper; /* a task, from the thread's beginning to its end */
    bool is_started;
};

struct serve_space {
    struct tarn_node *node;
    const struct serve_options *options;
    const struct serve_hooks *hooks;
    struct serve_space_plan plan;
    struct tarn_fabric *fabric;
    struct space_master *master;
    struct space_server *server;
    struct space_lane lanes[2];
    uint32_t lane_count;
    struct task_shared_future stop; /* set at the end */
    uint8_t secret[TARN_SPACE_SECRET_MAX];
    uint32_t secret_bytes;
};

/* ---- threads ------------------------------------------------------------------------------------ */

static void keep_lane(void *arg)
{
    struct serve_space *space = arg;
    int value;
    if (space->hooks->begin != NULL)
        space->hooks->begin(space->node);
    while (task_shared_future_wait(&space->stop, TASK_FOREVER, &value) != 0) {
    }
    if (space->hooks->end != NULL)
        space->hooks->end(space->node);
}

static int open_lane(struct serve_space *space, struct task_sched **ret_sched)
{
    const struct task_sched_options options = {.spin_ns = space->options->spin_ns};
    struct space_lane *lane = &space->lanes[space->lane_count];
    task_group_init(&lane->keeper);
    int error = task_sched_open(space->node, &options, &lane->sched);
    if (error != 0)
        return error;
    space->lane_count++;
    error = task_spawn(lane->sched, &lane->keeper, "keeper", keep_lane, space);
    if (error == 0)
        error = task_sched_start(lane->sched);
    lane->is_started = error == 0;
    *ret_sched = lane->sched;
    return error;
}

static void close_lanes(struct serve_space *space)
{
    task_shared_future_set(&space->stop, 0);
    for (uint32_t i = 0; i < space->lane_count; i++) {
        struct space_lane *lane = &space->lanes[i];
        if (lane->is_started) {
            task_group_join_firmly(&lane->keeper);
            task_sched_stop(lane->sched);
            task_sched_join(lane->sched);
        }
        task_sched_close(lane->sched);
    }
}

/* ---- the master ---------------------------------------------------------------------------------- */

static int open_master(struct serve_space *space)
{
    struct task_sched *sched;
    int error = open_lane(space, &sched);
    if (error != 0)
        return error;
    const struct space_master_options options = {.fabric = space->fabric,
                                                 .address = space->plan.listen.addresses,
                                                 .cluster = space->plan.cluster,
                                                 .name = space->plan.member,
                                                 .sched = sched,
                                                 .chunk_bytes = space->options->chunk_bytes,
                                                 .servers_secret = space->secret,
                                                 .servers_secret_bytes = space->secret_bytes};
    error = space_master_open(space->node, &options, &space->master);
    if (error == 0)
        base_info(&space->node->log, "serving", "version=%s role=master fabric=%s address=%s", tarn_version(),
                  tarn_fabric_info(space->fabric)->provider, options.address);
    return error;
}

/* ---- the memory server --------------------------------------------------------------------------- */

/* Check that the machine has the memory: the kernel would kill the process when it is touched. */
static int check_memory(const struct serve_space *space)
{
    const uint64_t bytes = space->options->memory_bytes;
    const uint64_t machine_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    char memory[BASE_UNITS_ROOM], machine[BASE_UNITS_ROOM];
    if (bytes <= machine_bytes)
        return 0;
    base_error(&space->node->log, "the memory to contribute is more than this machine has",
               "memory=%s machine=%s remedy=\"say a smaller --memory\"",
               base_format_size(memory, sizeof(memory), bytes),
               base_format_size(machine, sizeof(machine), machine_bytes));
    return -ENOMEM;
}

/* Check that there are descriptors for all chunks: over shm each is a memory file. */
static int check_files(const struct serve_space *space)
{
    const uint64_t chunks = space->options->memory_bytes / space->options->chunk_bytes;
    const uint64_t wanted = chunks + serve_files_open() + FILES_BESIDE;
    struct rlimit limit;
    if (!space->plan.listen.is_shm || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return 0;
    base_error(
        &space->node->log, "the limit of open files allows fewer chunks than --memory has",
        "limit=%" PRIu64 " chunks=%" PRIu64 " wanted=%" PRIu64
        " remedy=\"raise the limit (ulimit -n, LimitNOFILE= of the unit), say a larger --chunk for all "
        "servers of the space, or a smaller --memory\"",
        (uint64_t)limit.rlim_cur, chunks, wanted);
    return -EMFILE;
}

static int open_server(struct serve_space *space)
{
    struct task_sched *sched;
    int error = check_memory(space);
    if (error == 0)
        error = check_files(space);
    if (error == 0)
        error = open_lane(space, &sched);
    if (error != 0)
        return error;
    const struct space_server_options options = {.fabric = space->fabric,
                                                 .address = space->plan.memory,
                                                 .masters = space->plan.masters,
                                                 .name = space->plan.name,
                                                 .sched = sched,
                                                 .memory_bytes = space->options->memory_bytes,
                                                 .chunk_bytes = space->options->chunk_bytes,
                                                 .secret = space->secret,
                                                 .secret_bytes = space->secret_bytes,
                                                 .memory_file = space->options->memory_file};
    error = space_server_open(space->node, &options, &space->server);
    if (error == 0)
        base_info(&space->node->log, "serving",
                  "version=%s role=memory-server fabric=%s address=%s name=%s memory=%" PRIu64
                  " chunk=%" PRIu64 " masters=%s",
                  tarn_version(), tarn_fabric_info(space->fabric)->provider, options.address, options.name,
                  options.memory_bytes / options.chunk_bytes * options.chunk_bytes, options.chunk_bytes,
                  options.masters);
    return error;
}

/* ---- the whole ------------------------------------------------------------------------------------ */

static int read_secret(struct serve_space *space)
{
    const char *path = space->options->servers_secret_file;
    const char *wrong = path == NULL ? NULL : space_secret_read(path, space->secret, &space->secret_bytes);
    if (wrong == NULL)
        return 0;
    base_error(&space->node->log, "cannot use the secret of memory servers", "path=%s reason=\"%s\"", path,
               wrong);
    return -EINVAL;
}

static int open_parts(struct serve_space *space)
{
    int error = read_secret(space);
    if (error == 0)
        error = serve_fabric_open(space->node, space->plan.listen.fabric, space->options->insecure,
                                  &space->fabric);
    if (error == 0 && space->options->space != NULL)
        error = open_master(space);
    if (error == 0 && space->options->memory_server)
        error = open_server(space);
    return error;
}

/* Close what was opened, in any state. */
static void close_parts(struct serve_space *space)
{
    struct tarn_node *node = space->node;
    if (space->server != NULL)
        space_server_close(space->server);
    if (space->master != NULL)
        space_master_close(space->master);
    close_lanes(space);
    if (space->fabric != NULL)
        tarn_fabric_close(space->fabric);
    base_free(&node->memory, space, sizeof(*space));
    task_node_close(node);
}

int serve_space_open(const struct serve_options *options, const struct serve_hooks *hooks,
                     struct serve_space **ret_space)
{
    const struct task_node_options node_options = {
        .engine_choice = (enum task_engine_choice)options->engine,
        .warn_without_uring = true,
        .log_level = (enum base_log_level)options->log_level,
        .log_sink = hooks->log_sink,
        .log_arg = hooks->log_arg,
    };
    char sentence[BASE_SETTINGS_ERROR_ROOM];
    struct tarn_node *node;
    serve_files_raise();
    int error = task_node_open(&node_options, &node);
    if (error != 0)
        return error;
    struct serve_space *space = base_alloc(&node->memory, sizeof(*space));
    if (space == NULL) {
        task_node_close(node);
        return -ENOMEM;
    }
    space->node = node;
    space->options = options;
    space->hooks = hooks;
    task_shared_future_init(&space->stop);
    error = serve_space_plan(options, &space->plan, sentence, sizeof(sentence));
    base_assert(error == 0); /* serve_check_options() has checked the options */
    error = open_parts(space);
    if (error == 0)
        *ret_space = space;
    else
        close_parts(space);
    return error;
}

void serve_space_close(struct serve_space *space)
{
    base_info(&space->node->log, "stopping", "");
    close_parts(space);
}
