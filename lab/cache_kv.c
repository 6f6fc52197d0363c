/* Tarn's client as its users have it: tasks that call <tarn/kv.h>. */
#include "bench/world.h"
#include "lab/cache.h"
#include <errno.h>
#include <tarn/kv.h>

struct client {
    struct lab_cache_job *job;
    struct lab_cache_load load;
    struct tarn_kv *kv;
    int error; /* the first of a task */
};

static int put_value(struct client *client, const struct lab_cache_request *request)
{
    int error = tarn_kv_put(client->kv, request->keys[0], sizeof(request->keys[0]), request->value,
                            sizeof(request->value), NULL, NULL);
    client->load.puts += error == 0 ? 1 : 0;
    return error;
}

static int take_value(struct client *client, uint32_t number, int error, const void *value, size_t bytes)
{
    if (error != 0 && error != -ENOENT)
        return error;
    return lab_cache_load_take(&client->load, number, error == 0 ? value : NULL, bytes);
}

static int get_value(struct client *client, const struct lab_cache_request *request)
{
    uint8_t value[LAB_CACHE_VALUE_BYTES];
    struct tarn_record_info info = {0};
    int error =
        tarn_kv_get(client->kv, request->keys[0], sizeof(request->keys[0]), value, sizeof(value), &info);
    return take_value(client, request->numbers[0], error, value, info.value_bytes);
}

static int get_many(struct client *client, const struct lab_cache_request *request)
{
    uint8_t values[LAB_CACHE_KEYS_MAX][LAB_CACHE_VALUE_BYTES];
    struct tarn_get gets[LAB_CACHE_KEYS_MAX];
    int error = 0;
    for (uint32_t i = 0; i < request->count; i++)
        gets[i] = (struct tarn_get){.key = request->keys[i],
                                    .key_len = sizeof(request->keys[i]),
                                    .value = values[i],
                                    .value_room = sizeof(values[i])};
    tarn_kv_get_many(client->kv, gets, request->count);
    for (uint32_t i = 0; i < request->count && error == 0; i++)
        error = take_value(client, request->numbers[i], gets[i].error, values[i], gets[i].info.value_bytes);
    return error;
}

static void ask_store(void *arg)
{
    struct client *client = arg;
    struct lab_cache_request request;
    while (client->error == 0 && lab_cache_load_next(&client->load, &request)) {
        int error = request.is_put       ? put_value(client, &request)
                    : request.count == 1 ? get_value(client, &request)
                                         : get_many(client, &request);
        if (client->error == 0)
            client->error = error;
    }
}

static void client_main(void *arg)
{
    struct bench_world *world = arg;
    struct client *client = world->arg;
    struct task_group group;
    char url[128];
    (void)snprintf(url, sizeof(url), "unix:%s/" LAB_CACHE_STORE, client->job->server->server.address);
    world->error = tarn_kv_open(world->node, url, NULL, &client->kv);
    if (world->error != 0)
        return;
    task_group_init(&group);
    lab_cache_load_begin(&client->load, client->job);
    for (uint32_t i = 0; i < client->job->depth && world->error == 0; i++)
        world->error = task_spawn(NULL, &group, "ask_store", ask_store, client);
    while (task_group_join(&group, TASK_FOREVER) != 0)
        continue;
    if (world->error == 0)
        world->error = client->error;
    (void)tarn_kv_close(client->kv);
}

int lab_cache_kv(void *arg, struct bench_sample *sample)
{
    struct client client = {.job = arg};
    const struct bench_world_options options = {.sched = {.spin_ns = LAB_SERVER_SPIN_NS}};
    int error = bench_world_run(client.job->bench, &options, client_main, &client);
    client.job->measured++;
    return error != 0 ? error : lab_cache_load_end(&client.load, sample);
}
