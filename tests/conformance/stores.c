/*
 * stores: serve stores to the clients of kv, over tcp and over shm, until standard input ends.
 *
 *   stores HOST:PORT PATH NAME=URL...
 *
 * A URL of a file that is not there makes one of 64 MiB. Prints a line when it listens.
 */
#include "fabric/fabric.h"
#include "kv/kv.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STORES_MAX = 8 };

static const char *const providers[] = {"tcp:", "shm:"};

struct stores {
    struct tarn_node *node;
    struct kv_served served[STORES_MAX];
    uint32_t count;
    struct tarn_fabric *fabrics[2];
    struct kv_server *servers[2];
};

static int open_store(struct stores *stores, char *text)
{
    const struct tarn_depot_options depot = {.create_bytes = UINT64_C(64) << 20};
    const struct tarn_kv_options options = {.depot = &depot};
    char *equals = strchr(text, '=');
    if (equals == NULL || stores->count == STORES_MAX)
        return -1;
    *equals = '\0';
    struct kv_served *served = &stores->served[stores->count++];
    served->name = text;
    return tarn_kv_open(stores->node, equals + 1, &options, &served->kv);
}

int main(int argc, char **argv)
{
    const struct tarn_rpc_serve_options options = {.workers = 2};
    struct stores stores = {.count = 0};
    char byte;
    int error = argc < 4 ? -1 : tarn_node_open(NULL, &stores.node);
    for (int i = 3; i < argc && error == 0; i++)
        error = open_store(&stores, argv[i]);
    for (int i = 0; i < 2 && error == 0; i++) {
        error = tarn_fabric_open(stores.node, providers[i], &stores.fabrics[i]);
        if (error == 0)
            error = kv_serve(stores.fabrics[i], argv[1 + i], stores.served, stores.count, &options, NULL, 0,
                             &stores.servers[i]);
    }
    if (error != 0) {
        (void)fprintf(stderr, "stores: cannot serve: %d\n", error);
        return 1;
    }
    (void)puts("listening");
    (void)fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    for (int i = 0; i < 2; i++) {
        kv_server_close(stores.servers[i]);
        tarn_fabric_close(stores.fabrics[i]);
    }
    for (uint32_t i = 0; i < stores.count; i++)
        error |= tarn_kv_close(stores.served[i].kv);
    tarn_node_close(stores.node);
    return error != 0;
}
