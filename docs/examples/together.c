/* together: two processes count in one hash store, which nobody serves:
 * each works in the memory itself. Before it:
 * tarn serve --space=place.tarn --space-listen=unix:place.socket \
 *            --memory-server --memory=64M --chunk=4M */
#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <tarn/kv.h>
#include <unistd.h>

enum { STEPS = 1000 };
static const char usual[] = "hash:space=unix:place.socket,memory=4M,"
                            "namespace=both,store=counters";

/* Add 1, and again if the other process was faster. */
static int count(struct tarn_kv *store, unsigned *ret_count)
{
    int error;
    do {
        struct tarn_record_info info = {0};
        *ret_count = 0;
        error = tarn_kv_get(store, "count", 5, ret_count,
                            sizeof(*ret_count), &info);
        if (error != 0 && error != -ENOENT)
            return error;
        const struct tarn_put_options options = {
            .condition =
                error == 0 ? TARN_PUT_IF_VERSION : TARN_PUT_IF_ABSENT,
            .if_version = info.version};
        ++*ret_count;
        error = tarn_kv_put(store, "count", 5, ret_count,
                            sizeof(*ret_count), &options, NULL);
    } while (error == -EEXIST);
    return error;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : usual;
    /* before there is a node: its threads stay in one process */
    pid_t child = fork();
    struct tarn_node *node;
    struct tarn_kv *store;
    unsigned last = 0;
    int status = 0, failed = 0;
    if (child < 0 || tarn_node_open(NULL, &node) != 0 ||
        tarn_kv_open(node, url, NULL, &store) != 0)
        return 1;
    for (unsigned step = 0; step < STEPS && !failed; step++)
        failed = count(store, &last) != 0;
    if (child > 0) {
        failed |= waitpid(child, &status, 0) != child || status != 0 ||
                  count(store, &last) != 0;
        printf("%u steps of both, and one more\n", last - 1);
    }
    failed |= tarn_kv_close(store) != 0;
    tarn_node_close(node);
    return failed;
}
