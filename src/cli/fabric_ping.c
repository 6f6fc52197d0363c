/* tarn fabric ping: the side that asks. */
#include "cli/fabric_ping.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/fabric.h"
#include "cli/store.h"
#include "task/sched.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>

struct ping_options {
    const char *listen;
    uint64_t count;
    uint64_t interval_ns;
    uint64_t bytes;
    uint64_t timeout_ns;
    uint64_t spin_ns;
    uint64_t protocol;
    bool json;
};

#define AT(field) .offset = offsetof(struct ping_options, field)

static const struct base_setting ping_settings[] = {
    {.name = "listen",
     .type = BASE_SETTING_STRING,
     .metavar = "ADDRESS",
     .help = "Answer every peer that connects with this address, until a signal ends it; the options below "
             "are the "
             "other side's.",
     AT(listen)},
    {.name = "count",
     .type = BASE_SETTING_UINT,
     .letter = 'c',
     .min = 1,
     .max = 1000000000,
     .default_text = "10",
     .unit = "rounds",
     .help = "How often to ask.",
     AT(count)},
    {.name = "interval",
     .type = BASE_SETTING_DURATION,
     .letter = 'i',
     .default_text = "200ms",
     .help = "From the beginning of a round to that of the next.",
     AT(interval_ns)},
    {.name = "size",
     .type = BASE_SETTING_SIZE,
     .letter = 's',
     .min = CLI_PING_BYTES_MIN,
     .max = CLI_PING_BYTES_MAX,
     .default_text = "64",
     .help = "What a READ, a WRITE and a message move.",
     AT(bytes)},
    {.name = "timeout",
     .type = BASE_SETTING_DURATION,
     .letter = 'W',
     .min = BASE_NS_PER_MS,
     .default_text = "5s",
     .help = "How long an answer may take.",
     AT(timeout_ns)},
    {.name = "spin",
     .type = BASE_SETTING_DURATION,
     .default_text = "100us",
     .help = "How long this side looks for work before it sleeps; of both sides.",
     AT(spin_ns)},
    {.name = "json", .type = BASE_SETTING_BOOL, .help = "Print one JSON object, at the end.", AT(json)},
    {.name = "protocol", /* for tests: to pretend to be of another release */
     .type = BASE_SETTING_UINT,
     .flags = BASE_SETTING_HIDDEN,
     .max = UINT32_MAX,
     .default_text = "1",
     .help = "The version of ping's own protocol.",
     AT(protocol)},
};
static const struct cli_arguments arguments = {ping_settings, base_array_count(ping_settings)};

void cli_fabric_ping_help(FILE *file)
{
    (void)fputs("Each round connects once more, writes, reads back, swaps a word and sends a message that is "
                "sent back.\n"
                "One side listens:  tarn fabric ping --listen=ADDRESS URL\n"
                "the other asks:    tarn fabric ping URL ADDRESS\n\n",
                file);
    cli_print_options(&arguments, file);
}

enum step { STEP_CONNECT, STEP_WRITE, STEP_READ, STEP_CAS, STEP_MESSAGE, STEPS };

static const char *const step_names[STEPS] = {"connect", "write", "read", "cas", "message"};

struct ping {
    struct cli_ping_side side;
    const struct ping_options *options;
    const char *url;
    struct task_sched *sched;
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_connection *connection;
    struct cli_ping_greeting peer;
    uint64_t word;     /* what the word for CAS is */
    uint64_t answered; /* rounds */
    uint64_t took_ns[STEPS];
    struct base_histogram histograms[STEPS];
    int status;
    uint8_t data[CLI_PING_BYTES_MAX];
    uint8_t back[CLI_PING_BYTES_MAX];
};

/* ---- what is wrong --------------------------------------------------------------------------------------- */

static int connect_failed(const struct ping *ping, int error)
{
    const char *address = ping->side.address;
    char timeout[BASE_UNITS_ROOM];
    switch (error) {
    case -ECONNREFUSED:
    case -ENOENT:
        return cli_failed("nobody listens at %s, or it refuses: run `tarn fabric ping --listen=%s %s` there",
                          address, address, ping->url);
    case -ENOBUFS:
        return cli_failed("%s is out of memory: try again later", address);
    case -EACCES:
        return cli_failed("no access to %s: it is another user's, or has another secret or authority",
                          address);
    case -EPERM:
        return cli_failed("%s is beyond this machine: say tcp:secret=FILE, or tcp:insecure", address);
    case -EPROTO:
        return cli_failed("what listens at %s is no fabric of this version: use one release, and a "
                          "secret, certificates or neither, on both sides",
                          address);
    case -EINVAL:
        return cli_failed("%s is no address of %s", address, ping->url);
    case -ECONNRESET:
    case -EPIPE:
        return cli_failed("connect: %s has ended, or has given the connection up", address);
    case -ETIMEDOUT:
        return cli_failed("no answer from %s within %s", address,
                          base_format_duration(timeout, sizeof(timeout), ping->options->timeout_ns));
    default:
        return cli_failed("cannot connect with %s: %s", address, strerrordesc_np(-error));
    }
}

static int step_failed(const struct ping *ping, enum step step, int error)
{
    char timeout[BASE_UNITS_ROOM];
    if (step == STEP_CONNECT)
        return connect_failed(ping, error);
    if (error == -EPIPE || error == -ECONNRESET)
        return cli_failed("%s: %s has ended, or has given the connection up", step_names[step],
                          ping->side.address);
    if (error == -ETIMEDOUT)
        return cli_failed("%s: no answer from %s within %s", step_names[step], ping->side.address,
                          base_format_duration(timeout, sizeof(timeout), ping->options->timeout_ns));
    if (error == -EBADMSG)
        return cli_failed("%s: %s gave other bytes back than were written", step_names[step],
                          ping->side.address);
    return cli_failed("%s: %s", step_names[step], strerrordesc_np(-error));
}

/* ---- a round --------------------------------------------------------------------------------------------- */

static uint64_t deadline(const struct ping *ping)
{
    return task_now() + ping->options->timeout_ns;
}

/* @param bytes  0: only to see how long it takes */
static int connect_peer(struct ping *ping, uint32_t bytes, struct tarn_fabric_connection **ret_connection)
{
    const struct cli_ping_greeting greeting = {.version = ping->side.version, .bytes = bytes};
    uint8_t data[CLI_PING_GREETING_BYTES];
    cli_ping_save(&greeting, data);
    const struct tarn_fabric_connect_options options = {
        .data = data,
        .data_bytes = sizeof(data),
        .receive_count = 2,
        .receive_bytes = base_max(bytes, (uint32_t)CLI_PING_BYTES_MIN),
    };
    return tarn_fabric_connect(ping->domain, ping->side.address, &options, deadline(ping), ret_connection);
}

static int connect_once_more(struct ping *ping)
{
    struct tarn_fabric_connection *connection;
    uint64_t begin_ns = task_now();
    int error = connect_peer(ping, 0, &connection);
    ping->took_ns[STEP_CONNECT] = task_now() - begin_ns;
    if (error == 0)
        tarn_fabric_disconnect(connection);
    return error;
}

static int exchange(struct ping *ping)
{
    struct tarn_fabric_message message;
    uint32_t bytes = (uint32_t)ping->options->bytes;
    int error = tarn_fabric_send(ping->connection, 0, ping->data, bytes, deadline(ping));
    if (error == 0)
        error = tarn_fabric_receive(ping->connection, ping->back, bytes, deadline(ping), &message);
    if (error == 0 && message.bytes != bytes)
        return -EBADMSG;
    return error;
}

static int swap(struct ping *ping)
{
    uint64_t before;
    int error = tarn_fabric_cas(ping->connection, 0, &ping->peer.handle, ping->peer.offset, ping->word,
                                ping->word + 1, deadline(ping), &before);
    if (error == 0 && before != ping->word)
        return -EBADMSG;
    ping->word++;
    return error;
}

static int do_step(struct ping *ping, enum step step)
{
    const struct tarn_fabric_handle *handle = &ping->peer.handle;
    const uint64_t offset = ping->peer.offset + CLI_PING_DATA, bytes = ping->options->bytes;
    if (step == STEP_CONNECT)
        return connect_once_more(ping);
    memset(ping->back, 0, bytes);
    uint64_t begin_ns = task_now();
    int error = 0;
    if (step == STEP_WRITE)
        error = tarn_fabric_write(ping->connection, 0, handle, offset, ping->data, bytes, deadline(ping));
    else if (step == STEP_READ)
        error = tarn_fabric_read(ping->connection, 0, handle, offset, ping->back, bytes, deadline(ping));
    else if (step == STEP_CAS)
        error = swap(ping);
    else
        error = exchange(ping);
    ping->took_ns[step] = task_now() - begin_ns;
    bool gives_back = step == STEP_READ || step == STEP_MESSAGE;
    return error == 0 && gives_back && memcmp(ping->data, ping->back, bytes) != 0 ? -EBADMSG : error;
}

static int do_round(struct ping *ping, uint64_t round)
{
    for (uint64_t i = 0; i < ping->options->bytes; i++)
        ping->data[i] = (uint8_t)((round + 1) * 31 + i * 7 + i / 251);
    for (unsigned step = 0; step < STEPS; step++) {
        int error = do_step(ping, (enum step)step);
        if (error != 0)
            return step_failed(ping, (enum step)step, error);
    }
    for (unsigned step = 0; step < STEPS; step++)
        base_histogram_add(&ping->histograms[step], ping->took_ns[step]);
    ping->answered++;
    return CLI_OK;
}

static void tell_round(const struct ping *ping, uint64_t round)
{
    char took[BASE_UNITS_ROOM];
    (void)printf("%" PRIu64 ":", round + 1);
    for (unsigned step = 0; step < STEPS; step++)
        (void)printf("  %s %s", step_names[step],
                     base_format_duration(took, sizeof(took), ping->took_ns[step]));
    (void)putchar('\n');
    (void)fflush(stdout);
}

/* ---- the outcome ----------------------------------------------------------------------------------------- */

static void tell_table(const struct ping *ping)
{
    static const double percents[] = {0, 50, 90, 99, 100};
    char took[BASE_UNITS_ROOM];
    (void)printf("%" PRIu64 " of %" PRIu64 " rounds were answered by %s\n", ping->answered,
                 ping->options->count, ping->side.address);
    if (ping->answered == 0)
        return;
    (void)printf("%-8s %10s %10s %10s %10s %10s\n", "", "min", "p50", "p90", "p99", "max");
    for (unsigned step = 0; step < STEPS; step++) {
        (void)printf("%-8s", step_names[step]);
        for (size_t i = 0; i < base_array_count(percents); i++)
            (void)printf(" %10s", base_format_duration(
                                      took, sizeof(took),
                                      base_histogram_percentile(&ping->histograms[step], percents[i])));
        (void)putchar('\n');
    }
}

static int tell_json(const struct ping *ping)
{
    struct base_json json;
    base_json_init_file(&json, stdout);
    base_json_object_begin(&json, NULL);
    base_json_string(&json, "provider", tarn_fabric_info(ping->side.fabric)->provider);
    base_json_string(&json, "address", ping->side.address);
    base_json_u64(&json, "bytes", ping->options->bytes);
    base_json_u64(&json, "rounds", ping->options->count);
    base_json_u64(&json, "answered", ping->answered);
    for (unsigned step = 0; step < STEPS; step++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "%s_ns", step_names[step]);
        base_histogram_write_json(&ping->histograms[step], &json, name);
    }
    base_json_object_end(&json);
    return base_json_finish(&json, NULL) == 0 && putchar('\n') != EOF ? 0 : -EIO;
}

static int tell_outcome(const struct ping *ping)
{
    int error = 0;
    if (ping->options->json)
        error = tell_json(ping);
    else
        tell_table(ping);
    return error == 0 && !ferror(stdout) && fflush(stdout) == 0 ? ping->status : cli_output_failed();
}

/* ---- asking ---------------------------------------------------------------------------------------------- */

/* Whether the other side is what we take it for. */
static int meet(struct ping *ping)
{
    const void *data;
    int error = connect_peer(ping, (uint32_t)ping->options->bytes, &ping->connection);
    if (error != 0)
        return connect_failed(ping, error);
    uint32_t count = tarn_fabric_peer_data(ping->connection, &data);
    if (cli_ping_load(data, count, &ping->peer) != 0)
        return cli_failed("what listens at %s is no `tarn fabric ping`", ping->side.address);
    if (ping->peer.version != ping->side.version)
        return cli_failed("%s speaks version %" PRIu32 " of ping, this is version %" PRIu32
                          ": use one release on both sides",
                          ping->side.address, ping->peer.version, ping->side.version);
    error = tarn_fabric_read(ping->connection, 0, &ping->peer.handle, ping->peer.offset, &ping->word,
                             sizeof(ping->word), deadline(ping));
    return error == 0 ? CLI_OK : step_failed(ping, STEP_READ, error);
}

static void ask_peer(void *arg)
{
    struct ping *ping = arg;
    ping->status = meet(ping);
    uint64_t begin_ns = task_now();
    for (uint64_t round = 0; round < ping->options->count && ping->status == CLI_OK; round++) {
        (void)task_sleep_until(begin_ns + round * ping->options->interval_ns);
        ping->status = do_round(ping, round);
        if (ping->status == CLI_OK && !ping->options->json)
            tell_round(ping, round);
    }
    if (ping->connection != NULL)
        tarn_fabric_disconnect(ping->connection);
    task_sched_stop(ping->sched);
}

static int ask_all(struct ping *ping)
{
    const struct task_sched_options options = {.spin_ns = ping->side.spin_ns};
    for (unsigned step = 0; step < STEPS; step++)
        base_histogram_reset(&ping->histograms[step]);
    int error = tarn_fabric_domain_open(ping->side.fabric, NULL, &ping->domain);
    if (error != 0)
        return cli_failed("cannot begin: %s", strerrordesc_np(-error));
    error = task_sched_open(ping->side.node, &options, &ping->sched);
    if (error == 0) {
        error = task_spawn(ping->sched, NULL, "ping", ask_peer, ping);
        if (error == 0)
            task_sched_run(ping->sched);
        task_sched_close(ping->sched);
    }
    tarn_fabric_domain_close(ping->domain);
    return error == 0 ? tell_outcome(ping) : cli_failed("cannot begin: %s", strerrordesc_np(-error));
}

/* ---- the verb -------------------------------------------------------------------------------------------- */

static int run_side(const struct cli_ping_side *side, const struct ping_options *options, const char *url)
{
    if (options->listen != NULL)
        return cli_ping_answer(side);
    struct ping *ping = base_alloc(&side->node->memory, sizeof(*ping));
    if (ping == NULL)
        return cli_failed("out of memory");
    ping->side = *side;
    ping->options = options;
    ping->url = url;
    int status = ask_all(ping);
    base_free(&side->node->memory, ping, sizeof(*ping));
    return status;
}

static int run_ping(const void *parsed, const char *const *words, size_t count)
{
    const struct ping_options *options = parsed;
    const struct task_node_options node_options = {.log_level = BASE_LOG_ERROR};
    struct cli_ping_side side = {.version = (uint32_t)options->protocol, .spin_ns = options->spin_ns};
    if (count != (options->listen == NULL ? 2 : 1))
        return cli_usage("ping takes a URL and the address of who answers, or --listen=ADDRESS and a URL");
    side.address = options->listen == NULL ? words[1] : options->listen;
    if (options->listen != NULL)
        cli_ping_hold_signals();
    int error = task_node_open(&node_options, &side.node);
    if (error != 0)
        return cli_failed("cannot begin: %s", strerrordesc_np(-error));
    error = tarn_fabric_open(side.node, words[0], &side.fabric);
    int status = CLI_FAILED;
    if (error == 0) {
        status = run_side(&side, options, words[0]);
        tarn_fabric_close(side.fabric);
    } else {
        status = cli_failed("cannot open %s: %s", words[0], strerrordesc_np(-error));
    }
    task_node_close(side.node);
    return status;
}

int cli_fabric_ping(int argc, char **argv)
{
    struct ping_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run_ping);
}
