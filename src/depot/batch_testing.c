/* For the tests of batches: several keys that get a value together, and hold it together. */
#include "depot/batch_testing.h"
#include <inttypes.h>

#define MEMBERS_MAX 64

struct tarn_batch_item item_put(const char *key, const char *value)
{
    return (struct tarn_batch_item){
        .key = key, .key_len = strlen(key), .value = value, .value_len = strlen(value), .error = 1};
}

struct tarn_batch_item item_remove(const char *key)
{
    return (struct tarn_batch_item){.key = key, .key_len = strlen(key), .remove = true, .error = 1};
}

int write_members(struct testing_fixture *fixture, uint32_t count, char letter, uint32_t bytes)
{
    struct tarn_batch_item items[MEMBERS_MAX];
    char keys[MEMBERS_MAX][16];
    assert_in_range(count, 0, MEMBERS_MAX);
    memset(given, letter, bytes + count);
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "member%" PRIu8, (uint8_t)i);
        items[i] = item_put(keys[i], "");
        items[i].value = given;
        items[i].value_len = bytes + i;
    }
    int error = tarn_depot_write_batch(depot_of(fixture), items, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(items[i].error, error);
    return error;
}

char member_letter(struct testing_fixture *fixture, uint32_t i, uint32_t bytes)
{
    char key[16];
    struct tarn_record_info info;
    (void)snprintf(key, sizeof(key), "member%u", i);
    int error = tarn_depot_get(depot_of(fixture), key, strlen(key), found, ROOM, &info);
    if (error == -ENOENT)
        return 0;
    assert_int_equal(error, 0);
    assert_int_equal(info.value_bytes, bytes + i);
    for (uint32_t at = 0; at < info.value_bytes; at++)
        assert_int_equal(found[at], found[0]);
    return (char)found[0];
}

char members_letter(struct testing_fixture *fixture, uint32_t count, uint32_t bytes)
{
    char first = member_letter(fixture, 0, bytes);
    for (uint32_t i = 1; i < count; i++)
        assert_int_equal(member_letter(fixture, i, bytes), first);
    return first;
}
