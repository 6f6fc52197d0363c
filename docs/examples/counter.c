/* counter: several threads count together, and no step is lost. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tarn/depot.h>

enum { THREADS = 4, STEPS = 250 };

/* Called with no other write to the key in between: NULL means that
 * there is none yet. */
static int add_one(void *arg, const struct tarn_record_info *old,
                   const void *value, struct tarn_update *update)
{
    unsigned long *count = arg;
    if (old != NULL && old->value_bytes == sizeof(*count))
        memcpy(count, value, sizeof(*count));
    ++*count;
    update->value = count;
    update->value_len = sizeof(*count);
    return 0;
}

static void *count_up(void *depot)
{
    for (int step = 0; step < STEPS; step++) {
        unsigned long count = 0;
        int error =
            tarn_depot_update(depot, "visits", 6, add_one, &count, NULL);
        if (error != 0)
            return "a step failed";
    }
    return NULL;
}

int main(void)
{
    const struct tarn_depot_options options = {.create_bytes = 64 << 20,
                                               .mode = TARN_MODE_DEVICE};
    struct tarn_node *node;
    struct tarn_depot *depot;
    pthread_t threads[THREADS];
    unsigned long count = 0;
    int failed = 0;

    if (tarn_node_open(NULL, &node) != 0 ||
        tarn_depot_open(node, "counter.tarn", &options, &depot) != 0)
        return 1;
    for (int i = 0; i < THREADS; i++)
        failed |= pthread_create(&threads[i], NULL, count_up, depot);
    for (int i = 0; i < THREADS && !failed; i++) {
        void *wrong;
        failed |= pthread_join(threads[i], &wrong) != 0 || wrong != NULL;
    }
    failed |= tarn_depot_get(depot, "visits", 6, &count, sizeof(count),
                             NULL) != 0;
    printf("%lu visits\n", count);
    failed |= tarn_depot_close(depot) != 0;
    tarn_node_close(node);
    return failed;
}
