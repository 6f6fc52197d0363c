/*
 * The side of `tarn fabric ping` that answers. The main thread waits for the signal that ends it; a scheduler in a
 * thread of its own has a task that accepts, and one for each connection that sends back what it receives.
 */
#include "cli/cli.h"
#include "cli/fabric_ping.h"
#include "task/sched.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>

enum {
    PARTS = 32, /* of the region: clients at once */
    PART_BYTES = 69632,
};

_Static_assert(PART_BYTES >= CLI_PING_DATA + CLI_PING_BYTES_MAX, "the longest operation fits");

/* Used by the tasks of one scheduler. */
struct answerer {
    const struct cli_ping_side *side;
    struct task_sched *sched;
    struct task_group group;
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_region *region;
    struct tarn_fabric_listener *listener;
    bool used[PARTS];
};

struct client {
    struct answerer *answerer;
    struct tarn_fabric_connection *connection;
    uint32_t part; /* PARTS: it has none */
    uint32_t room;
    uint8_t *message;
};

/* ---- greetings ------------------------------------------------------------------------------------------- */

/*
 * format: the private data of a connection, little-endian
 *
 * | offset | bytes | meaning                                        |
 * |--------|-------|------------------------------------------------|
 * | 0      | 8     | "tarnping"                                     |
 * | 8      | 4     | version                                        |
 * | 12     | 4     | client: bytes of each operation                |
 * | 16     | 8     | server: where the client's part begins         |
 * | 24     | 32    | server: handle of the region                   |
 */
static const char mark[8] = {'t', 'a', 'r', 'n', 'p', 'i', 'n', 'g'};

void cli_ping_save(const struct cli_ping_greeting *greeting, uint8_t *bytes)
{
    memcpy(bytes, mark, sizeof(mark));
    base_store_le32(bytes + 8, greeting->version);
    base_store_le32(bytes + 12, greeting->bytes);
    base_store_le64(bytes + 16, greeting->offset);
    tarn_fabric_handle_save(&greeting->handle, bytes + 24);
}

int cli_ping_load(const void *bytes, uint32_t count, struct cli_ping_greeting *ret_greeting)
{
    const uint8_t *from = bytes;
    struct cli_ping_greeting greeting = {0};
    if (count < 12 || memcmp(from, mark, sizeof(mark)) != 0)
        return -EINVAL;
    greeting.version = base_load_le32(from + 8);
    if (greeting.version == CLI_PING_VERSION) {
        if (count != CLI_PING_GREETING_BYTES || tarn_fabric_handle_load(from + 24, &greeting.handle) != 0)
            return -EINVAL;
        greeting.bytes = base_load_le32(from + 12);
        greeting.offset = base_load_le64(from + 16);
    }
    *ret_greeting = greeting;
    return 0;
}

/* ---- a client -------------------------------------------------------------------------------------------- */

static void drop_client(struct client *client)
{
    struct answerer *answerer = client->answerer;
    if (client->connection != NULL)
        tarn_fabric_disconnect(client->connection);
    if (client->part < PARTS)
        answerer->used[client->part] = false;
    base_free(&answerer->side->node->memory, client->message, client->room);
    base_free(&answerer->side->node->memory, client, sizeof(*client));
}

static void answer(void *arg)
{
    struct client *client = arg;
    struct tarn_fabric_message message;
    int error;
    do {
        error =
            tarn_fabric_receive(client->connection, client->message, client->room, TARN_FOREVER, &message);
        if (error == 0)
            error = tarn_fabric_send(client->connection, 0, client->message, message.bytes, TARN_FOREVER);
    } while (error == 0);
    drop_client(client);
}

/* @return NULL: it cannot be served */
static struct client *make_client(struct answerer *answerer, const struct cli_ping_greeting *greeting)
{
    struct base_account *account = &answerer->side->node->memory;
    struct client *client = base_alloc(account, sizeof(*client));
    if (client == NULL)
        return NULL;
    client->answerer = answerer;
    client->part = PARTS;
    if (greeting->bytes > 0) {
        client->part = 0;
        while (client->part < PARTS && answerer->used[client->part])
            client->part++;
        if (client->part < PARTS)
            answerer->used[client->part] = true;
    }
    client->room = base_max(greeting->bytes, (uint32_t)CLI_PING_BYTES_MIN);
    client->message = base_alloc(account, client->room);
    if (client->message == NULL || (greeting->bytes > 0 && client->part == PARTS)) {
        drop_client(client);
        return NULL;
    }
    return client;
}

/* ---- accepting ------------------------------------------------------------------------------------------- */

/* A peer of another version is told ours, which it cannot be by a refusal. */
static bool read_greeting(const struct answerer *answerer, const struct tarn_fabric_incoming *incoming,
                          struct cli_ping_greeting *ret_greeting)
{
    const void *data;
    uint32_t count = tarn_fabric_incoming_data(incoming, &data);
    if (cli_ping_load(data, count, ret_greeting) != 0)
        return false;
    if (ret_greeting->version != answerer->side->version) {
        (void)fprintf(stderr,
                      "tarn: a client speaks version %" PRIu32 " of ping, this is version %" PRIu32 "\n",
                      ret_greeting->version, answerer->side->version);
        *ret_greeting = (struct cli_ping_greeting){0};
    }
    return ret_greeting->bytes <= CLI_PING_BYTES_MAX;
}

static void take_peer(struct answerer *answerer, struct tarn_fabric_incoming *incoming)
{
    struct cli_ping_greeting greeting;
    struct client *client =
        read_greeting(answerer, incoming, &greeting) ? make_client(answerer, &greeting) : NULL;
    if (client == NULL) {
        tarn_fabric_reject(incoming, -ECONNREFUSED);
        return;
    }
    greeting = (struct cli_ping_greeting){
        .version = answerer->side->version,
        .offset = client->part < PARTS ? (uint64_t)client->part * PART_BYTES : 0,
        .handle = answerer->region->handle,
    };
    uint8_t data[CLI_PING_GREETING_BYTES];
    cli_ping_save(&greeting, data);
    const struct tarn_fabric_connect_options options = {
        .data = data, .data_bytes = sizeof(data), .receive_count = 2, .receive_bytes = client->room};
    if (tarn_fabric_accept(incoming, answerer->domain, &options, &client->connection) != 0 ||
        task_spawn(NULL, &answerer->group, "answer", answer, client) != 0)
        drop_client(client);
}

static void accept_all(void *arg)
{
    struct answerer *answerer = arg;
    struct tarn_fabric_incoming *incoming;
    int error;
    while ((error = tarn_fabric_listener_wait(answerer->listener, TARN_FOREVER, &incoming)) != -ECANCELED) {
        if (error == 0)
            take_peer(answerer, incoming);
        else
            (void)task_sleep(BASE_NS_PER_MS); /* there is no memory, now */
    }
}

/* ---- beginning and end ----------------------------------------------------------------------------------- */

static int begin_answering(struct answerer *answerer)
{
    const struct cli_ping_side *side = answerer->side;
    const struct tarn_fabric_domain_options options = {.writable_bytes = (uint64_t)PARTS * PART_BYTES};
    const struct task_sched_options sched_options = {.spin_ns = side->spin_ns};
    int error = tarn_fabric_domain_open(side->fabric, &options, &answerer->domain);
    if (error == 0)
        error = tarn_fabric_region_alloc(answerer->domain, (uint64_t)PARTS * PART_BYTES,
                                         TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE | TARN_FABRIC_MAY_SWAP,
                                         &answerer->region);
    if (error == 0)
        error = tarn_fabric_listen(side->fabric, side->address, &answerer->listener);
    if (error == 0)
        error = task_sched_open(side->node, &sched_options, &answerer->sched);
    if (error != 0)
        return error;
    error = task_sched_start(answerer->sched);
    if (error != 0) {
        task_sched_close(answerer->sched);
        answerer->sched = NULL;
        return error;
    }
    return task_spawn(answerer->sched, &answerer->group, "accept", accept_all, answerer);
}

static void end_answering(struct answerer *answerer)
{
    if (answerer->sched != NULL) {
        task_sched_stop(answerer->sched);
        task_sched_join(answerer->sched);
        task_sched_close(answerer->sched);
    }
    if (answerer->listener != NULL)
        tarn_fabric_listener_close(answerer->listener);
    if (answerer->region != NULL)
        tarn_fabric_region_free(answerer->region);
    if (answerer->domain != NULL)
        tarn_fabric_domain_close(answerer->domain);
}

void cli_ping_hold_signals(void)
{
    const sigset_t set = cli_ending_signals();
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int cli_ping_answer(const struct cli_ping_side *side)
{
    struct answerer answerer = {.side = side};
    const sigset_t set = cli_ending_signals();
    int number;
    task_group_init(&answerer.group);
    int error = begin_answering(&answerer);
    if (error != 0) {
        end_answering(&answerer);
        return cli_failed("cannot listen on %s: %s", side->address, strerrordesc_np(-error));
    }
    (void)printf("listening on %s\n", side->address);
    (void)fflush(stdout);
    while (sigwait(&set, &number) != 0) {
    }
    task_group_cancel(&answerer.group);
    error = task_group_join(&answerer.group, TARN_FOREVER);
    base_assert(error == 0); /* a plain thread's wait without end */
    end_answering(&answerer);
    return CLI_OK;
}
