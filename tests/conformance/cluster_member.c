/*
 * A member of a cluster, for tests: cluster_member does what the lines of its standard input say, words between spaces, each
 * answered by one line:
 *
 *   join URL NAME DATA MSEC   ok; a session of so many milliseconds
 *   leave                     ok
 *   lead MSEC                 epoch EPOCH MOMENT, as soon as it leads
 *   put EPOCH PATH TEXT       ok; without a condition
 *   get PATH                  value TEXT VERSION, or none
 *   members                   members NAME=DATA NAME=DATA*: the one with a star leads
 *   watch MSEC                ok: members have changed since the last time
 *   act EPOCH                 acted MOMENT: the last one at which it might act as a member, when its session has ended
 *   pound                     pounded COUNT COUNT: the multis that were made, and those of which it is not known, until
 *                             another line comes
 *
 * What fails is answered by `error NAME`. Moments are nanoseconds of the machine's monotonic clock.
 */
#include "cluster/cluster.h"
#include "task/node.h"
#include "task/task.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 1024
#define WORDS_MAX  6
#define NS_PER_MS  UINT64_C(1000000)

struct program {
    struct tarn_node *node;
    struct cluster *cluster;
    uint64_t seen;
    char *words[WORDS_MAX]; /* of the line; empty ones behind the last */
};

static void answer(int error, const char *success)
{
    if (error == 0)
        (void)printf("%s\n", success);
    else
        (void)printf("error %s\n", strerrorname_np(-error));
}

static uint64_t number(const char *word)
{
    return strtoull(word, NULL, 10);
}

static uint64_t deadline(const char *msec)
{
    return task_now() + number(msec) * NS_PER_MS;
}

static void join(struct program *program)
{
    const struct cluster_options options = {.name = program->words[2],
                                            .data = program->words[3],
                                            .data_bytes = (uint32_t)strlen(program->words[3]),
                                            .session_ns = number(program->words[4]) * NS_PER_MS};
    program->seen = 0;
    answer(cluster_join(program->node, program->words[1], &options, &program->cluster), "ok");
}

static void leave(struct program *program)
{
    cluster_leave(program->cluster);
    program->cluster = NULL;
    answer(0, "ok");
}

static void lead(struct program *program)
{
    uint64_t epoch;
    const int error = cluster_lead(program->cluster, deadline(program->words[1]), &epoch);
    if (error == 0)
        (void)printf("epoch %" PRIu64 " %" PRIu64 "\n", epoch, task_now());
    else
        answer(error, "");
}

static void put(struct program *program)
{
    const char *text = program->words[3];
    answer(cluster_put(program->cluster, number(program->words[1]), program->words[2], text,
                       (uint32_t)strlen(text), CLUSTER_ANY),
           "ok");
}

static void get(struct program *program)
{
    char text[LINE_BYTES];
    uint32_t bytes;
    int64_t version;
    const int error = cluster_get(program->cluster, program->words[1], text, sizeof(text), &bytes, &version);
    if (error == 0)
        (void)printf("value %.*s %" PRId64 "\n", (int)bytes, text, version);
    else if (error == -ENOENT)
        answer(0, "none");
    else
        answer(error, "");
}

static void members(struct program *program)
{
    struct cluster_member found[CLUSTER_MEMBERS_MAX];
    uint32_t count;
    const int error = cluster_members(program->cluster, found, &count);
    if (error != 0) {
        answer(error, "");
        return;
    }
    (void)printf("members");
    for (uint32_t i = 0; i < count; i++)
        (void)printf(" %s=%.*s%s", found[i].name, (int)found[i].data_bytes, (char *)found[i].data,
                     found[i].leads ? "*" : "");
    (void)printf("\n");
}

static void watch(struct program *program)
{
    answer(cluster_watch(program->cluster, &program->seen, deadline(program->words[1])), "ok");
}

static void act(struct program *program)
{
    uint64_t acted = 0;
    int error = 0;
    while (error == 0 || error == -ENOTCONN) {
        for (int i = 0; i < 20; i++) {
            const uint64_t until = cluster_held_until(program->cluster), now = task_now();
            acted = now < until ? now : acted;
            (void)task_sleep(NS_PER_MS);
        }
        error = cluster_put(program->cluster, number(program->words[1]), "/acting", "", 0, CLUSTER_ANY);
    }
    if (error == -ESTALE)
        (void)printf("acted %" PRIu64 "\n", acted);
    else
        answer(error, "");
}

static void pound(struct program *program)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    uint64_t made = 0, unknown = 0;
    int error = 0;
    while ((error == 0 || error == -ENOTCONN) && poll(&input, 1, 0) == 0) {
        char text[24];
        const int bytes = snprintf(text, sizeof(text), "%" PRIu64, made + unknown);
        const struct cluster_change changes[] = {
            {.path = "/pound/a", .data = text, .bytes = (uint32_t)bytes, .if_version = CLUSTER_ANY},
            {.path = "/pound/b", .data = text, .bytes = (uint32_t)bytes, .if_version = CLUSTER_ANY}};
        error = cluster_multi(program->cluster, number(program->words[1]), changes, 2);
        made += error == 0;
        unknown += error == -ENOTCONN;
    }
    if (error == 0 || error == -ENOTCONN)
        (void)printf("pounded %" PRIu64 " %" PRIu64 "\n", made, unknown);
    else
        answer(error, "");
}

static void run_line(struct program *program, char *line)
{
    static const struct {
        const char *name;
        void (*run)(struct program *program);
    } commands[] = {{"join", join}, {"leave", leave},     {"lead", lead},   {"put", put},    {"get", get},
                    {"act", act},   {"members", members}, {"watch", watch}, {"pound", pound}};
    char *rest = line;
    for (size_t i = 0; i < WORDS_MAX; i++) {
        char *word = strsep(&rest, " \n");
        program->words[i] = word == NULL ? line + strlen(line) : word;
    }
    for (size_t i = 0; i < base_array_count(commands); i++) {
        if (strcmp(program->words[0], commands[i].name) == 0)
            commands[i].run(program);
    }
    (void)fflush(stdout);
}

int main(void)
{
    const struct task_node_options options = {.log_level = BASE_LOG_INFO};
    struct program program = {0};
    char line[LINE_BYTES];
    if (task_node_open(&options, &program.node) != 0)
        return 1;
    (void)setvbuf(stdin, NULL, _IONBF, 0); /* so that poll() sees what has not been read */
    while (fgets(line, sizeof(line), stdin) != NULL)
        run_line(&program, line);
    if (program.cluster != NULL)
        cluster_leave(program.cluster);
    task_node_close(program.node);
    return 0;
}
