/* Changes that depend on what is there: update, and what is made of it. */
#include "cache/cache_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define NUMBER_BYTES_MAX 64

/* Store a value that was made from what is there. @return 0; -EMSGSIZE */
static int replace(struct cache_partition *partition, const struct cache_place *place, const void *key,
                   size_t key_len, struct cache_record *header, const struct cache_value *value,
                   uint64_t now_ns)
{
    if (value->bytes[0] > CACHE_VALUE_BYTES_MAX || value->bytes[1] > CACHE_VALUE_BYTES_MAX ||
        !cache_record_fits(partition, key_len, value->bytes[0] + value->bytes[1]))
        return -EMSGSIZE;
    header->version = cache_version(partition, header->version);
    cache_record_store(partition, place, key, key_len, header, value, now_ns);
    return 0;
}

/* ---- update ----------------------------------------------------------------------------------------------- */

/* Do what was decided. */
static int carry_out(struct cache_partition *partition, struct cache_place *place, const void *key,
                     size_t key_len, const struct tarn_update *update, bool is_there, uint64_t now_ns,
                     uint64_t *ret_version)
{
    if (update->remove) {
        if (is_there) {
            cache_record_remove(partition, place);
            cache_count_add(&partition->counters.deletes, 1);
        }
        return 0;
    }
    if (update->note > TARN_NOTE_MAX || (update->keep && !is_there))
        return -EINVAL;
    struct cache_record header = {.version = update->version,
                                  .expiry = cache_expiry_pack(update->expiry_ns),
                                  .client_flags = update->client_flags,
                                  .note = update->note};
    int error = 0;
    if (update->keep) {
        place->header.version = header.version = cache_version(partition, header.version);
        place->header.expiry = header.expiry;
        place->header.client_flags = header.client_flags;
        place->header.note = header.note;
        cache_record_change(partition, place->record, &place->header);
        cache_count_add(&partition->counters.puts, 1);
        cache_count_add(&partition->counters.in_place, 1);
    } else {
        const struct cache_value value = {.parts = {update->value}, .bytes = {update->value_len}};
        error = replace(partition, place, key, key_len, &header, &value, now_ns);
    }
    if (error == 0 && ret_version != NULL)
        *ret_version = header.version;
    return error;
}

static int update(struct cache_partition *partition, const void *key, size_t key_len,
                  tarn_update_function *decide, void *arg, uint64_t now_ns, uint64_t *ret_version)
{
    struct cache_place place;
    struct tarn_update update = {.value = NULL};
    struct tarn_record_info info;
    int error = cache_look(partition, key, key_len, &place);
    if (error != 0)
        return error;
    bool is_there = cache_is_there(&place, now_ns);
    if (is_there) {
        info = cache_record_info(&place.header);
        update.expiry_ns = info.expiry_ns;
        update.client_flags = info.client_flags;
        update.note = info.note;
    }
    error = decide(arg, is_there ? &info : NULL,
                   is_there ? cache_record_value(place.record, &place.header) : NULL, &update);
    if (error != 0)
        return error;
    return carry_out(partition, &place, key, key_len, &update, is_there, now_ns, ret_version);
}

int cache_update(struct cache_partition *partition, const void *key, size_t key_len,
                 tarn_update_function *decide, void *arg, uint64_t now_ns, uint64_t *ret_version)
{
    cache_enter(partition, now_ns);
    return cache_leave(partition, update(partition, key, key_len, decide, arg, now_ns, ret_version));
}

/* ---- append ------------------------------------------------------------------------------------------------ */

/* What a record keeps that gets another value. */
static struct cache_record kept_of(const struct cache_place *place)
{
    return (struct cache_record){.expiry = place->header.expiry, .client_flags = place->header.client_flags};
}

int cache_append(struct cache_partition *partition, const void *key, size_t key_len, const void *data,
                 size_t data_len, bool in_front, uint64_t now_ns, uint64_t *ret_version)
{
    struct cache_place place;
    cache_enter(partition, now_ns);
    int error = cache_look(partition, key, key_len, &place);
    if (error == 0 && !cache_is_there(&place, now_ns))
        error = -ENOENT;
    if (error == 0) {
        struct cache_record header = kept_of(&place);
        const void *old = cache_record_value(place.record, &place.header);
        const struct cache_value value = {.parts = {in_front ? data : old, in_front ? old : data},
                                          .bytes = {in_front ? data_len : place.header.value_len,
                                                    in_front ? place.header.value_len : data_len}};
        error = replace(partition, &place, key, key_len, &header, &value, now_ns);
        if (error == 0 && ret_version != NULL)
            *ret_version = header.version;
    }
    return cache_leave(partition, error);
}

/* ---- numbers ----------------------------------------------------------------------------------------------- */

/* Spaces, digits, and whatever stands behind a space or a zero byte. @return 0; -EDOM */
static int read_number(const char *text, size_t len, uint64_t *ret_number)
{
    size_t at = 0, digits = 0;
    uint64_t number = 0;
    while (at < len && text[at] == ' ')
        at++;
    for (; at < len && text[at] >= '0' && text[at] <= '9'; at++, digits++) {
        if (__builtin_mul_overflow(number, (uint64_t)10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text[at] - '0'), &number))
            return -EDOM;
    }
    if (digits == 0 || (at < len && text[at] != ' ' && text[at] != '\0'))
        return -EDOM;
    *ret_number = number;
    return 0;
}

static int count(struct cache_partition *partition, const void *key, size_t key_len, uint64_t now_ns,
                 struct cache_count *count)
{
    struct cache_place place;
    int error = cache_look(partition, key, key_len, &place);
    if (error != 0)
        return error;
    if (!cache_is_there(&place, now_ns))
        return -ENOENT;
    uint64_t number;
    const void *old = cache_record_value(place.record, &place.header);
    if (place.header.value_len > NUMBER_BYTES_MAX || read_number(old, place.header.value_len, &number) != 0)
        return -EDOM;
    number = !count->down ? number + count->delta : number < count->delta ? 0 : number - count->delta;
    char text[NUMBER_BYTES_MAX + 1];
    int len = snprintf(text, sizeof(text), "%" PRIu64, number);
    base_assert(len > 0 && len < NUMBER_BYTES_MAX);
    memset(text + len, ' ', sizeof(text) - (size_t)len);
    struct cache_record header = kept_of(&place);
    const struct cache_value value = {.parts = {text},
                                      .bytes = {base_max((uint32_t)len, place.header.value_len)}};
    error = replace(partition, &place, key, key_len, &header, &value, now_ns);
    if (error == 0) {
        count->number = number;
        count->version = header.version;
    }
    return error;
}

int cache_count(struct cache_partition *partition, const void *key, size_t key_len, uint64_t now_ns,
                struct cache_count *inout_count)
{
    cache_enter(partition, now_ns);
    return cache_leave(partition, count(partition, key, key_len, now_ns, inout_count));
}
