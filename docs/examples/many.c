/* many: read several keys at once, then all that there is. */
#include <stdio.h>
#include <string.h>
#include <tarn/depot.h>

static int print(void *arg, const void *key, size_t key_len,
                 const void *value, const struct tarn_record_info *info)
{
    size_t *records = arg;
    ++*records;
    printf("%.*s is %.*s\n", (int)key_len, (const char *)key,
           (int)info->value_bytes, (const char *)value);
    return 0;
}

int main(void)
{
    static const char *const words[][2] = {
        {"red", "rouge"}, {"green", "vert"}, {"blue", "bleu"}};
    const struct tarn_depot_options options = {.create_bytes = 64 << 20,
                                               .mode = TARN_MODE_ASYNC};
    char room[3][16];
    struct tarn_get gets[] = {{.key = "blue",
                               .key_len = 4,
                               .value = room[0],
                               .value_room = sizeof(room[0])},
                              {.key = "pink",
                               .key_len = 4,
                               .value = room[1],
                               .value_room = sizeof(room[1])},
                              {.key = "red",
                               .key_len = 3,
                               .value = room[2],
                               .value_room = sizeof(room[2])}};
    struct tarn_node *node;
    struct tarn_depot *depot;
    size_t records = 0;
    int failed = 0;

    if (tarn_node_open(NULL, &node) != 0 ||
        tarn_depot_open(node, "many.tarn", &options, &depot) != 0)
        return 1;
    for (int i = 0; i < 3; i++)
        failed |=
            tarn_depot_put(depot, words[i][0], strlen(words[i][0]),
                           words[i][1], strlen(words[i][1]), NULL, NULL);
    tarn_depot_get_many(depot, gets, 3);
    for (int i = 0; i < 3; i++) {
        int len = gets[i].error == 0 ? (int)gets[i].info.value_bytes : 0;
        printf("%s? %.*s\n", (const char *)gets[i].key, len, room[i]);
    }
    failed |= tarn_depot_scan(depot, print, &records);
    printf("%zu records\n", records);
    failed |= tarn_depot_close(
        depot); /* what was asynchronous is on the drive now */
    tarn_node_close(node);
    return failed != 0;
}
