/* `tarn-lab rpc`: calls between two processes, by each way, beside what carries as little. */
#include "lab/fabric.h"
#include "lab/verbs.h"

#include "bench/world.h"
#include <errno.h>
#include <tarn/rpc.h>

enum { DEPTH_MAX = 64, BYTES_MAX = 4096, BATCH = 64 /* calls between two looks at the clock */ };

#define PATIENCE_NS (10 * BASE_NS_PER_SECOND)

struct options {
    struct bench_options common;
    struct base_setting_list sizes;
    struct base_setting_list depths;
    struct base_setting_list providers;
    bool peers;
};

static const char *const providers[] = {"shm", "tcp", NULL};

static const struct base_setting table[] = {
    BENCH_OPTION(LIST, "sizes", sizes, "Of the request and of the result, 8 to 4K, multiples of 8.",
                 .metavar = "SIZE[,...]", .default_text = "32"),
    BENCH_OPTION(LIST, "depths", depths, "Calls in flight, 1 to 64.", .metavar = "N[,...]",
                 .default_text = "1,8,64"),
    BENCH_OPTION(LIST, "providers", providers, "Of these alone: shm, tcp.", .metavar = "NAME[,...]"),
    BENCH_OPTION(BOOL, "peers", peers, "Measure UCX and libfabric beside it.", .default_text = "yes"),
    BENCH_COMMON_SETTINGS(struct options, "500ms", "7"),
};

static const struct bench_list lists[] = {
    BENCH_NUMBERS("sizes", sizes, BENCH_WORD_BYTES, BYTES_MAX, BENCH_WORD_BYTES),
    BENCH_NUMBERS("depths", depths, 1, DEPTH_MAX, 1),
    BENCH_WORDS("providers", providers, providers),
    {.setting = NULL},
};

/* ---- the server, a process of its own ------------------------------------------------------------- */

static int echo(void *arg, struct tarn_rpc_request *request)
{
    (void)arg;
    memcpy(request->result, request->data, request->bytes);
    request->result_bytes = request->bytes;
    return 0;
}

static int begin_serving(struct lab_server *server, struct tarn_node *node, struct tarn_fabric *fabric)
{
    static const struct tarn_rpc_method methods[] = {{.name = "echo", .function = echo, .is_short = true}};
    static const struct tarn_rpc_service service = {.methods = methods, .count = 1};
    const struct tarn_rpc_serve_options options = {.spin_ns = LAB_SERVER_SPIN_NS};
    struct tarn_rpc_server *serving;
    (void)node;
    int error = tarn_rpc_serve(fabric, server->address, &service, &options, &serving);
    if (error == 0)
        server->serving = serving;
    return error;
}

static int end_serving(struct lab_server *server)
{
    tarn_rpc_server_close(server->serving);
    return 0;
}

/* ---- the client ----------------------------------------------------------------------------------- */

/* A measurement; all but the way are as in its case. */
struct job {
    const struct lab_server *server;
    enum tarn_rpc_way way;
    uint32_t bytes, depth;
    struct bench_sample *sample;
};

/* As many in flight as the case says, the oldest is waited for before the next one is posted. */
static int call_on(const struct job *job, struct tarn_rpc_connection *connection, uint8_t *data)
{
    struct tarn_rpc_call calls[DEPTH_MAX];
    base_assert(job->depth > 0);
    uint8_t *results = data + (size_t)job->depth * job->bytes;
    for (uint32_t i = 0; i < job->depth; i++)
        calls[i] = (struct tarn_rpc_call){.request = data + (size_t)i * job->bytes,
                                          .request_bytes = job->bytes,
                                          .result = results + (size_t)i * job->bytes,
                                          .room = job->bytes};
    uint64_t done = 0, now_ns = task_now();
    const uint64_t begin_ns = now_ns, until_ns = begin_ns + job->server->bench->options.duration_ns;
    int error = 0;
    tarn_rpc_post(connection, calls, job->depth);
    while (error == 0 && now_ns < until_ns) {
        for (uint32_t i = 0; i < BATCH && error == 0; i++) {
            struct tarn_rpc_call *oldest = &calls[done++ % job->depth];
            error = tarn_rpc_wait(connection, oldest, 1);
            if (error == 0)
                tarn_rpc_post(connection, oldest, 1);
        }
        now_ns = task_now();
    }
    job->sample->operations = done;
    job->sample->elapsed_ns = now_ns - begin_ns;
    int ended = tarn_rpc_wait(connection, calls, job->depth);
    return error != 0 ? error : ended;
}

static int connect_and_call(void *arg, struct tarn_node *node, struct tarn_fabric *fabric)
{
    const struct job *job = arg;
    const struct tarn_rpc_connect_options options = {
        .way = job->way, .calls = job->depth, .request_bytes = job->bytes, .result_bytes = job->bytes};
    const size_t bytes = 2 * (size_t)job->depth * job->bytes;
    struct tarn_rpc_connection *connection;
    uint8_t *data = base_alloc(&node->memory, bytes);
    if (data == NULL)
        return -ENOMEM;
    int error =
        tarn_rpc_connect(fabric, job->server->address, &options, task_now() + PATIENCE_NS, &connection);
    if (error == 0) {
        error = call_on(job, connection, data);
        tarn_rpc_disconnect(connection);
    }
    base_free(&node->memory, data, bytes);
    return error;
}

static void run_task(void *arg)
{
    struct bench_world *world = arg;
    const struct job *job = world->arg;
    struct tarn_fabric *fabric;
    world->error = tarn_fabric_open(world->node, job->server->url, &fabric);
    if (world->error != 0)
        return;
    world->error = connect_and_call(world->arg, world->node, fabric);
    tarn_fabric_close(fabric);
}

static int measure_thread(void *arg, struct bench_sample *sample)
{
    struct job *job = arg;
    job->sample = sample;
    return lab_client_run(job->server, connect_and_call, job);
}

/* A plain thread calls over `shm`; over `tcp` a task, because a plain thread has a scheduler's thread use the socket. */
static int measure_way(void *arg, struct bench_sample *sample)
{
    struct job *job = arg;
    const struct bench_world_options options = {.sched = {.spin_ns = LAB_SERVER_SPIN_NS}};
    job->sample = sample;
    return lab_server_is_shm(job->server) ? measure_thread(arg, sample)
                                          : bench_world_run(job->server->bench, &options, run_task, job);
}

/* ---- cases ---------------------------------------------------------------------------------------- */

static int run_case(struct lab_server *server, uint32_t bytes, uint32_t depth, bool peers)
{
    static const char *const names[] = {
        [TARN_RPC_ADAPTIVE] = "tarn", [TARN_RPC_FETCH] = "fetch", [TARN_RPC_REPLY] = "reply"};
    struct job jobs[base_array_count(names)];
    struct lab_fabric_job message = {
        .bench = server->bench, .server = server, .op = LAB_FABRIC_MESSAGE, .bytes = bytes, .depth = depth};
    const bool is_shm = lab_server_is_shm(server);
    struct bench_case *self;
    int error = bench_case_open(server->bench, "call", "calls/s", &self);
    if (error != 0)
        return error;
    bench_case_text(self, "provider", is_shm ? "shm" : "tcp");
    bench_case_number(self, "bytes", bytes);
    bench_case_number(self, "depth", depth);
    for (size_t i = 0; i < base_array_count(names); i++) {
        jobs[i] = (struct job){.server = server, .way = (enum tarn_rpc_way)i, .bytes = bytes, .depth = depth};
        bench_case_subject(self, names[i], measure_way, &jobs[i]);
    }
    if (!is_shm) {
        bench_case_subject(self, "thread", measure_thread, &jobs[TARN_RPC_ADAPTIVE]);
        bench_case_subject(self, "socket", lab_fabric_socket, &message);
        bench_case_subject(self, "epoll", lab_fabric_epoll, &message);
    } else if (depth == 1) {
        bench_case_subject(self, "line", lab_fabric_line, &message);
    }
    if (depth == 1 && peers) {
        bench_case_subject(self, "ucx", lab_fabric_ucx, &message);
        bench_case_subject(self, "libfabric", lab_fabric_libfabric, &message);
    }
    error = bench_case_run(self);
    bench_case_close(self);
    return error;
}

static int run_provider(struct bench *bench, const struct options *options, const char *url)
{
    struct lab_server server = {.bench = bench, .url = url, .begin = begin_serving, .end = end_serving};
    int error = lab_server_start(&server);
    if (error != 0)
        return error;
    for (size_t i = 0; i < options->sizes.count && error == 0; i++) {
        for (size_t k = 0; k < options->depths.count && error == 0; k++)
            error = run_case(&server, bench_number(options->sizes.items[i]),
                             bench_number(options->depths.items[k]), options->peers);
    }
    int ended = lab_server_stop(&server);
    return error != 0 ? error : ended;
}

static int run_rpc(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    int error = 0;
    if (!bench_has_two_cores(&bench->machine))
        return 0; /* spinning on one would wait for its time slice */
    if (bench_is_wanted(&options->providers, "shm"))
        error = run_provider(bench, options, "shm:");
    if (error == 0 && bench_is_wanted(&options->providers, "tcp"))
        error = run_provider(bench, options, "tcp:");
    return error;
}

const struct bench_verb lab_verb_rpc =
    BENCH_VERB("rpc", "Calls beside a cache line, sockets, an epoll loop, UCX and libfabric.", .lists = lists,
               .run = run_rpc);
