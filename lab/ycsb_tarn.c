/* Tarn, embedded, by plain threads. */
#include "lab/ycsb.h"

#include "depot/depot.h"
#include "drive/drive.h"
#include <errno.h>

enum {
    OTHER_SHARE = 8,     /* this part of the memory is the process's, the rest Tarn's */
    HEAD_BYTES = 192,    /* of a record on the drive: header, key, padding, entry of a summary; generously */
    SPACE_PERCENT = 110, /* of the drive, of what all records take */
    SPACE_ROOM_MIB = 64,
};

#define LOOK_EACH_NS (2 * BASE_NS_PER_MS)
#define PATIENCE_NS  (30 * BASE_NS_PER_SECOND) /* without any progress */

struct store {
    struct lab_ycsb_place *place;
    struct tarn_node *node;
    struct tarn_depot *depot;
};

static uint64_t file_bytes(const struct lab_ycsb_place *place)
{
    uint64_t records_bytes = place->records_max * (place->value_bytes + HEAD_BYTES) * SPACE_PERCENT / 100;
    return base_align_up(((uint64_t)SPACE_ROOM_MIB << 20) + records_bytes, 1 << 20);
}

/* A new file is written once in the background, which is not what is measured. */
static int wait_until_written(struct lab_ycsb_place *place, const struct tarn_depot *depot)
{
    const struct drive *drive = depot_drive(depot);
    uint64_t done = 0;
    uint64_t until_ns = task_now() + PATIENCE_NS;
    while (drive_zeroed_bytes(drive) < drive_info(drive)->bytes) {
        if (drive_zeroed_bytes(drive) > done)
            until_ns = task_now() + PATIENCE_NS;
        else if (task_now() > until_ns)
            return lab_ycsb_say(place, -EIO, "the store's file cannot be written");
        done = drive_zeroed_bytes(drive);
        (void)task_sleep(LOOK_EACH_NS);
    }
    return 0;
}

static int open_node(struct lab_ycsb_place *place, struct tarn_node **ret_node)
{
    const struct tarn_node_options options = {
        .memory_bytes = place->memory_bytes - place->memory_bytes / OTHER_SHARE, .log_level = TARN_LOG_ERROR};
    int error = tarn_node_open(&options, ret_node);
    return error == 0 ? 0 : lab_ycsb_say(place, error, "a node: %s", strerror(-error));
}

/* The file stays, so that it is written once only. */
static int renew(struct lab_ycsb_place *place)
{
    char path[LAB_YCSB_PATH_ROOM];
    const struct tarn_format_options options = {.create_bytes = file_bytes(place), .force = true};
    struct tarn_node *node;
    int error = open_node(place, &node);
    if (error != 0)
        return error;
    (void)snprintf(path, sizeof(path), "%s/store.tarn", place->folder);
    error = tarn_depot_format(node, path, &options);
    tarn_node_close(node);
    return error == 0 ? 0 : lab_ycsb_say(place, error, "making %s: %s", path, strerror(-error));
}

static int close_tarn(void *arg)
{
    struct store *store = arg;
    int error = tarn_depot_close(store->depot);
    tarn_node_close(store->node);
    return error == 0 ? 0 : lab_ycsb_say(store->place, error, "closing: %s", strerror(-error));
}

static int open_tarn(struct lab_ycsb_place *place, bool sync, void *arg)
{
    struct store *store = arg;
    char path[LAB_YCSB_PATH_ROOM];
    const struct tarn_depot_options options = {.mode = sync ? TARN_MODE_POWER : TARN_MODE_ASYNC,
                                               .direct_off = !place->direct};
    store->place = place;
    int error = open_node(place, &store->node);
    if (error != 0)
        return error;
    (void)snprintf(path, sizeof(path), "%s/store.tarn", place->folder);
    error = tarn_depot_open(store->node, path, &options, &store->depot);
    if (error != 0) {
        tarn_node_close(store->node);
        return lab_ycsb_say(place, error, "opening %s: %s", path, strerror(-error));
    }
    error = wait_until_written(place, store->depot);
    if (error != 0)
        (void)close_tarn(store);
    return error;
}

static int get_record(void *session, const void *key, size_t key_bytes, void *value)
{
    const struct store *store = session;
    struct tarn_record_info info;
    int error = tarn_depot_get(store->depot, key, key_bytes, value, store->place->value_bytes, &info);
    if (error == 0 && info.value_bytes != store->place->value_bytes)
        return -EBADMSG;
    return error == 0 || error == -ENOENT ? error
                                          : lab_ycsb_say(store->place, error, "get: %s", strerror(-error));
}

static int put_record(void *session, const void *key, size_t key_bytes, const void *value)
{
    const struct store *store = session;
    int error = tarn_depot_put(store->depot, key, key_bytes, value, store->place->value_bytes, NULL, NULL);
    return error == 0 ? 0 : lab_ycsb_say(store->place, error, "put: %s", strerror(-error));
}

const struct lab_ycsb_engine lab_ycsb_tarn = {
    .name = "tarn",
    .store_bytes = sizeof(struct store),
    .renew = renew,
    .open = open_tarn,
    .close = close_tarn,
    .get = get_record,
    .put = put_record,
};
