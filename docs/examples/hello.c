/* hello: a greeting that is still there when the program starts again,
 * or the power fails. */
#include <stdio.h>
#include <tarn/depot.h>

int main(void)
{
    const struct tarn_depot_options options = {.create_bytes = 64 << 20};
    struct tarn_record_info info;
    struct tarn_node *node;
    struct tarn_depot *depot;
    char value[100];

    if (tarn_node_open(NULL, &node) != 0 ||
        tarn_depot_open(node, "hello.tarn", &options, &depot) != 0)
        return 1;
    if (tarn_depot_put(depot, "greeting", 8, "hello, drive", 12, NULL,
                       NULL) != 0)
        return 1;
    /* on the drive now, whatever happens */
    if (tarn_depot_get(depot, "greeting", 8, value, sizeof(value),
                       &info) != 0)
        return 1;
    printf("%.*s\n", (int)info.value_bytes, value);
    int error = tarn_depot_close(depot);
    tarn_node_close(node);
    return error != 0;
}
