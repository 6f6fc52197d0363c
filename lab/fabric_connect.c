/*
 * What a connection costs: connecting, accepting and disconnecting, one after the other, and the memory of connections
 * that nobody uses. Two tasks of one scheduler are both sides. Beside it a thread does the same with plain sockets.
 */
#include "lab/fabric.h"
#include "lab/usage.h"

#include "bench/world.h"
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define SPIN_NS 20000

enum { IDLE = 64 };

/* Two sides that meet again and again. */
struct meeting {
    const struct lab_fabric_job *job;
    struct bench_sample *sample;
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_listener *listener;
    char address[100];
    bool keeps; /* connections are kept, not disconnected by the side that accepts */
    uint32_t kept_count;
    struct tarn_fabric_connection *kept[IDLE];
    int error; /* of the side that accepts */
    uint8_t room[4096];
};

/* Accept one after the other, each until its peer has gone. In a task. */
static void accept_all(void *arg)
{
    struct meeting *meeting = arg;
    struct tarn_fabric_incoming *incoming;
    struct tarn_fabric_connection *connection;
    struct tarn_fabric_message message;
    while (meeting->error == 0 &&
           tarn_fabric_listener_wait(meeting->listener, TARN_FOREVER, &incoming) == 0) {
        meeting->error = tarn_fabric_accept(incoming, meeting->domain, NULL, &connection);
        if (meeting->error == 0 && meeting->keeps) {
            meeting->kept[meeting->kept_count++] = connection;
        } else if (meeting->error == 0) {
            while (tarn_fabric_receive(connection, meeting->room, sizeof(meeting->room), TARN_FOREVER,
                                       &message) == 0)
                continue;
            tarn_fabric_disconnect(connection);
        }
    }
}

static int connect_once(struct meeting *meeting, struct tarn_fabric_connection **ret_connection)
{
    return tarn_fabric_connect(meeting->domain, meeting->address, NULL, task_now() + 10 * BASE_NS_PER_SECOND,
                               ret_connection);
}

static int meet_often(struct meeting *meeting)
{
    struct bench_sample *sample = meeting->sample;
    struct tarn_fabric_connection *connection;
    struct lab_usage before, after;
    const uint64_t begin_ns = task_now();
    uint64_t now_ns = begin_ns, before_ns;
    int error = lab_usage_read(&before);
    while (error == 0 && now_ns - begin_ns < meeting->job->bench->options.duration_ns) {
        before_ns = now_ns;
        error = connect_once(meeting, &connection);
        if (error == 0)
            tarn_fabric_disconnect(connection);
        now_ns = task_now();
        base_histogram_add(sample->latency, now_ns - before_ns);
        sample->operations++;
    }
    sample->elapsed_ns = now_ns - begin_ns;
    error = error != 0 ? error : lab_usage_read(&after);
    if (error == 0)
        sample->values[LAB_FABRIC_PROCESSOR_US] =
            (double)(after.processor_ns - before.processor_ns) / 1e3 / (double)sample->operations;
    return error;
}

/* Tell what a side of an idle connection takes. */
static int weigh_idle(struct meeting *meeting, const struct tarn_node *node)
{
    struct tarn_fabric_connection *connections[IDLE];
    struct lab_usage before, after;
    uint32_t count = 0;
    int error = lab_usage_read(&before);
    const uint64_t account_bytes = base_account_used(&node->memory);
    meeting->keeps = true;
    while (error == 0 && count < IDLE) {
        error = connect_once(meeting, &connections[count]);
        count += error == 0;
    }
    while (error == 0 && meeting->kept_count < count)
        task_yield();
    error = error != 0 ? error : lab_usage_read(&after);
    if (error == 0) {
        double *values = meeting->sample->values;
        values[LAB_FABRIC_ACCOUNT_BYTES] =
            (double)(base_account_used(&node->memory) - account_bytes) / (2 * IDLE);
        values[LAB_FABRIC_RESIDENT_BYTES] =
            ((double)after.resident_bytes - (double)before.resident_bytes) / (2 * IDLE);
    }
    for (uint32_t i = 0; i < count; i++)
        tarn_fabric_disconnect(connections[i]);
    for (uint32_t i = 0; i < meeting->kept_count; i++)
        tarn_fabric_disconnect(meeting->kept[i]);
    return error;
}

static int hold_meeting(struct meeting *meeting, const struct tarn_node *node, struct tarn_fabric *fabric)
{
    const struct tarn_fabric_domain_options options = {.writable_bytes = BASE_PAGE_BYTES};
    struct task_group group;
    task_group_init(&group);
    int error = tarn_fabric_domain_open(fabric, &options, &meeting->domain);
    if (error != 0)
        return error;
    error = tarn_fabric_listen(fabric, meeting->address, &meeting->listener);
    if (error == 0) {
        error = task_spawn(NULL, &group, "accept", accept_all, meeting);
        error = error != 0 ? error : meet_often(meeting);
        error = error != 0 ? error : weigh_idle(meeting, node);
        task_group_cancel(&group);
        while (task_group_join(&group, TARN_FOREVER) != 0)
            continue;
        tarn_fabric_listener_close(meeting->listener);
    }
    tarn_fabric_domain_close(meeting->domain);
    return error != 0 ? error : meeting->error;
}

static void meeting_main(void *arg)
{
    struct bench_world *world = arg;
    struct meeting *meeting = world->arg;
    struct tarn_fabric *fabric;
    bench_unpin(&world->bench->machine);
    world->error = tarn_fabric_open(world->node, meeting->job->server->url, &fabric);
    if (world->error != 0)
        return;
    world->error = hold_meeting(meeting, world->node, fabric);
    tarn_fabric_close(fabric);
}

int lab_fabric_meetings(void *arg, struct bench_sample *sample)
{
    struct lab_fabric_job *job = arg;
    struct meeting meeting = {.job = job, .sample = sample};
    const struct bench_world_options options = {.sched = {.spin_ns = SPIN_NS}};
    uint16_t port = 0;
    int error = lab_find_port(&port);
    const bool is_shm = lab_server_is_shm(job->server);
    (void)snprintf(meeting.address, sizeof(meeting.address), is_shm ? "/tmp/tarn-bench-%u" : "127.0.0.1:%u",
                   port);
    error = error != 0 ? error : bench_world_run(job->bench, &options, meeting_main, &meeting);
    if (is_shm)
        (void)unlink(meeting.address);
    return error;
}

/* One connection of plain sockets: made, accepted, and closed. */
static int meet_bare(int listener, const struct sockaddr_in *address)
{
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client < 0)
        return -errno;
    int error = connect(client, (const struct sockaddr *)address, sizeof(*address)) == 0 ? 0 : -errno;
    int server = error == 0 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    if (server >= 0)
        (void)close(server);
    (void)close(client);
    return error;
}

int lab_fabric_bare_meetings(void *arg, struct bench_sample *sample)
{
    const struct lab_fabric_job *job = arg;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), error = 0;
    if (listener < 0 || bind(listener, (const struct sockaddr *)&address, bytes) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &bytes) != 0 || listen(listener, 1) != 0)
        error = -errno;
    const uint64_t begin_ns = task_now(), thread_ns = lab_thread_ns();
    uint64_t now_ns = begin_ns, before_ns;
    while (error == 0 && now_ns - begin_ns < job->bench->options.duration_ns) {
        before_ns = now_ns;
        error = meet_bare(listener, &address);
        now_ns = task_now();
        base_histogram_add(sample->latency, now_ns - before_ns);
        sample->operations++;
    }
    sample->elapsed_ns = now_ns - begin_ns;
    sample->values[LAB_FABRIC_PROCESSOR_US] =
        (double)(lab_thread_ns() - thread_ns) / 1e3 / (double)base_max(sample->operations, UINT64_C(1));
    if (listener >= 0)
        (void)close(listener);
    return error;
}
