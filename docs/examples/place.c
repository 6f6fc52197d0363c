/* place: a text in the memory of other processes. What one run leaves
 * there the next one finds. Before it:
 * tarn serve --space=place.tarn --space-listen=unix:place.socket \
 *            --memory-server --memory=64M */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <tarn/space.h>

static uint64_t soon(void)
{
    return tarn_now_ns() + 30000000000u;
}

static int enter(struct tarn_space *space,
                 struct tarn_space_namespace **ret_namespace)
{
    int error = tarn_space_join_ns(space, "notes", "a secret", 8, soon(),
                                   ret_namespace);
    return error != -ENOENT
               ? error
               : tarn_space_create_ns(space, "notes", "a secret", 8,
                                      soon(), ret_namespace);
}

static int find(struct tarn_space_namespace *notes,
                struct tarn_space_region **ret_region)
{
    const struct tarn_space_alloc_options named = {.name = "greeting"};
    int error = tarn_space_find(notes, "greeting", soon(), ret_region);
    if (error != -ENOENT)
        return error;
    error = tarn_space_reserve(notes, 4096, soon());
    return error != 0 ? error
                      : tarn_space_alloc(notes, 4096, &named, soon(),
                                         ret_region);
}

/* The memory is local: read and write move it. */
static int greet(struct tarn_space_region *region)
{
    void *memory;
    int error = tarn_space_map(region, soon(), &memory);
    if (error != 0)
        return error;
    char *text = memory;
    error = tarn_space_read(region, text, 100, soon());
    if (error == 0) {
        printf("%s\n", text[0] == '\0' ? "nobody was here" : text);
        memcpy(text, "hello, place", 13);
        error = tarn_space_write(region, text, 100, soon());
    }
    tarn_space_unmap(region);
    return error;
}

int main(int argc, char **argv)
{
    const char *address = argc > 1 ? argv[1] : "place.socket";
    struct tarn_node *node;
    struct tarn_fabric *fabric;
    struct tarn_space *space;
    struct tarn_space_namespace *notes;
    struct tarn_space_region *region;

    if (tarn_node_open(NULL, &node) != 0 ||
        tarn_fabric_open(node, "shm:", &fabric) != 0 ||
        tarn_space_connect(fabric, address, NULL, soon(), &space) != 0 ||
        enter(space, &notes) != 0 || find(notes, &region) != 0)
        return 1;
    int failed = greet(region) != 0;
    tarn_space_drop(region);
    tarn_space_leave_ns(notes);
    tarn_space_disconnect(space);
    tarn_fabric_close(fabric);
    tarn_node_close(node);
    return failed;
}
