/* anywhere: one record, in whatever store the URL names: in this
 * process, or at a server. */
#include <stdio.h>
#include <tarn/kv.h>

int main(int argc, char **argv)
{
    /* or file:PATH, tarn://HOST:PORT/STORE … */
    const char *url = argc > 1 ? argv[1] : "cache:memory=1M";
    struct tarn_node *node;
    struct tarn_kv *store;
    struct tarn_kv_info about;
    struct tarn_record_info info;
    char value[100];

    if (tarn_node_open(NULL, &node) != 0 ||
        tarn_kv_open(node, url, NULL, &store) != 0)
        return 1;
    tarn_kv_info(store, &about);
    printf("a %s, which %s what it has acknowledged\n", about.kind,
           about.abilities & TARN_KV_DURABLE ? "keeps" : "may evict");
    int failed = tarn_kv_put(store, "greeting", 8, "hello, store", 12,
                             NULL, NULL) != 0 ||
                 tarn_kv_get(store, "greeting", 8, value, sizeof(value),
                             &info) != 0;
    if (!failed)
        printf("%.*s\n", (int)info.value_bytes, value);
    failed |= tarn_kv_close(store) != 0;
    tarn_node_close(node);
    return failed;
}
