/* Values that are written piece by piece: a depot of this process stores the pieces as they come, and for all other stores
 * they are gathered first. */
#include "kv/kv_internal.h"
#include <string.h>
#include <tarn/depot.h>

#define GATHER_BYTES_MIN (UINT64_C(64) << 10)

struct tarn_kv_writer {
    struct tarn_kv *kv;
    struct tarn_depot_writer *depot; /* the depot's writer; NULL: the fields below gather the value */
    struct tarn_put_options options;
    uint64_t announced;
    uint8_t *memory; /* the gathered value: `used` of `room` bytes */
    uint64_t room, used;
    size_t key_len;
    uint8_t key[];
};

static struct base_account *account_of(const struct tarn_kv_writer *writer)
{
    return &writer->kv->node->memory;
}

static void free_writer(struct tarn_kv_writer *writer)
{
    base_free(account_of(writer), writer->memory, writer->room);
    base_free(account_of(writer), writer, sizeof(*writer) + writer->key_len);
}

int tarn_kv_writer_open(struct tarn_kv *kv, const void *key, size_t key_len,
                        const struct tarn_put_options *options, uint64_t value_bytes,
                        struct tarn_kv_writer **ret_writer)
{
    static const struct tarn_put_options any = {0};
    struct tarn_depot *depot = kv_depot_of(kv);
    int error = 0;
    if (options == NULL)
        options = &any;
    if (kv_put_check(key_len, options) != 0)
        return -EINVAL;
    if (value_bytes != TARN_LENGTH_UNKNOWN && value_bytes > kv->info.value_bytes_max)
        return -EMSGSIZE;
    struct tarn_kv_writer *writer = base_alloc(&kv->node->memory, sizeof(*writer) + key_len);
    if (writer == NULL)
        return -ENOMEM;
    writer->kv = kv;
    writer->options = *options;
    writer->announced = value_bytes;
    writer->key_len = key_len;
    memcpy(writer->key, key, key_len);
    if (depot != NULL)
        error = tarn_depot_writer_open(depot, key, key_len, options, value_bytes, &writer->depot);
    if (error != 0) {
        free_writer(writer);
        return error;
    }
    *ret_writer = writer;
    return 0;
}

/* Make room for `bytes` in all. @return 0; -ENOMEM */
static int make_room(struct tarn_kv_writer *writer, uint64_t bytes)
{
    if (bytes <= writer->room)
        return 0;
    uint64_t room = base_max(base_max(bytes, writer->room * 2), GATHER_BYTES_MIN);
    if (writer->announced != TARN_LENGTH_UNKNOWN)
        room = writer->announced;
    uint8_t *memory = base_realloc(account_of(writer), writer->memory, writer->room, room);
    if (memory == NULL)
        return -ENOMEM;
    writer->memory = memory;
    writer->room = room;
    return 0;
}

int tarn_kv_writer_write(struct tarn_kv_writer *writer, const void *data, size_t bytes)
{
    const uint64_t most = base_min(writer->kv->info.value_bytes_max, writer->announced);
    if (writer->depot != NULL)
        return tarn_depot_writer_write(writer->depot, data, bytes);
    if (bytes > most - writer->used)
        return -EMSGSIZE;
    int error = make_room(writer, writer->used + bytes);
    if (error != 0 || bytes == 0)
        return error;
    memcpy(writer->memory + writer->used, data, bytes);
    writer->used += bytes;
    return 0;
}

int tarn_kv_writer_commit(struct tarn_kv_writer *writer, uint64_t *ret_version)
{
    int error;
    if (writer->depot != NULL)
        error = tarn_depot_writer_commit(writer->depot, ret_version);
    else if (writer->announced != TARN_LENGTH_UNKNOWN && writer->used < writer->announced)
        error = -ENODATA;
    else
        error = tarn_kv_put(writer->kv, writer->key, writer->key_len,
                            writer->used > 0 ? writer->memory : writer->key, writer->used, &writer->options,
                            ret_version);
    free_writer(writer);
    return error;
}

void tarn_kv_writer_abort(struct tarn_kv_writer *writer)
{
    if (writer->depot != NULL)
        tarn_depot_writer_abort(writer->depot);
    free_writer(writer);
}
