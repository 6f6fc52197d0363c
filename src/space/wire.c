/* The fields of messages and metadata, and what several messages have in common. */
#include "space/wire.h"
#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#define MAGIC UINT64_C(0x31656361707374) /* "tspace1", little-endian */

struct space_cursor space_cursor_to(void *bytes, size_t room)
{
    return (struct space_cursor){.at = bytes, .end = (uint8_t *)bytes + room};
}

struct space_cursor space_cursor_from(const void *bytes, size_t count)
{
    uint8_t *from = (uint8_t *)(uintptr_t)bytes; /* taking changes nothing */
    return (struct space_cursor){.at = from, .end = from + count};
}

size_t space_cursor_count(const struct space_cursor *cursor, const void *bytes)
{
    return (size_t)(cursor->at - (const uint8_t *)bytes);
}

bool space_cursor_is_done(const struct space_cursor *cursor)
{
    return !cursor->is_wrong && cursor->at == cursor->end;
}

/* Move over some bytes. @return where they are; NULL: there are fewer. (Not inlined: gcc 12 then takes the room of a
 * message for 0 bytes, and warns.) */
static __attribute__((noinline)) uint8_t *pass_bytes(struct space_cursor *cursor, size_t count)
{
    uint8_t *at = cursor->at;
    if (cursor->is_wrong || (size_t)(cursor->end - at) < count) {
        cursor->is_wrong = true;
        return NULL;
    }
    cursor->at += count;
    return at;
}

void space_put(struct space_cursor *cursor, uint64_t value, unsigned bytes)
{
    uint8_t *at = pass_bytes(cursor, bytes);
    for (unsigned i = 0; at != NULL && i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

void space_put_bytes(struct space_cursor *cursor, const void *data, size_t count)
{
    uint8_t *at = pass_bytes(cursor, count);
    if (at != NULL && count > 0)
        memcpy(at, data, count);
}

uint64_t space_take(struct space_cursor *cursor, unsigned bytes)
{
    const uint8_t *at = pass_bytes(cursor, bytes);
    uint64_t value = 0;
    for (unsigned i = 0; at != NULL && i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

void space_take_zeros(struct space_cursor *cursor, unsigned bytes)
{
    if (space_take(cursor, bytes) != 0)
        cursor->is_wrong = true;
}

const void *space_take_bytes(struct space_cursor *cursor, size_t count)
{
    return pass_bytes(cursor, count);
}

bool space_take_text(struct space_cursor *cursor, size_t count, char *ret_text, size_t max)
{
    const char *text = count == 0 || count > max ? NULL : space_take_bytes(cursor, count);
    if (text == NULL || memchr(text, '\0', count) != NULL)
        return false;
    memcpy(ret_text, text, count);
    ret_text[count] = '\0';
    return true;
}

bool space_take_name(struct space_cursor *cursor, size_t count, char *ret_name)
{
    return space_take_text(cursor, count, ret_name, TARN_SPACE_NAME_MAX) &&
           base_name_is_good(ret_name, count);
}

void space_put_region(struct space_cursor *cursor, const struct space_region_row *region)
{
    space_put(cursor, region->number, 4);
    space_put(cursor, region->memory_class, 1);
    space_put(cursor, region->is_freed, 1);
    space_put(cursor, region->is_versioned, 1);
    space_put(cursor, region->copies, 1);
    space_put(cursor, region->address, 8);
    space_put(cursor, region->bytes, 8);
    space_put(cursor, region->chunks, 4);
    space_put(cursor, 0, 4);
}

void space_take_region(struct space_cursor *cursor, struct space_region_row *ret_region)
{
    ret_region->number = (uint32_t)space_take(cursor, 4);
    ret_region->memory_class = (uint8_t)space_take(cursor, 1);
    ret_region->is_freed = (uint8_t)space_take(cursor, 1);
    ret_region->is_versioned = (uint8_t)space_take(cursor, 1);
    ret_region->copies = (uint8_t)space_take(cursor, 1);
    ret_region->address = space_take(cursor, 8);
    ret_region->bytes = space_take(cursor, 8);
    ret_region->chunks = (uint32_t)space_take(cursor, 4);
    space_take_zeros(cursor, 4);
    if (ret_region->memory_class > TARN_SPACE_WORDS || ret_region->copies == 0 ||
        ret_region->copies > TARN_SPACE_COPIES_MAX || ret_region->bytes == 0 ||
        ret_region->bytes > TARN_SPACE_BYTES_MAX)
        cursor->is_wrong = true;
}

void space_put_place(struct space_cursor *cursor, const struct space_place *place)
{
    space_put(cursor, place->server, 4);
    space_put(cursor, place->chunk, 4);
    space_put(cursor, place->domain, 8);
    space_put(cursor, place->key, 8);
}

void space_take_place(struct space_cursor *cursor, struct space_place *ret_place)
{
    ret_place->server = (uint32_t)space_take(cursor, 4);
    ret_place->chunk = (uint32_t)space_take(cursor, 4);
    ret_place->domain = space_take(cursor, 8);
    ret_place->key = space_take(cursor, 8);
}

void space_put_keys(struct space_cursor *cursor, const struct space_keys *keys)
{
    space_put(cursor, keys->domain, 8);
    space_put(cursor, keys->bulk, 8);
    space_put(cursor, keys->words, 8);
}

void space_take_keys(struct space_cursor *cursor, struct space_keys *ret_keys)
{
    ret_keys->domain = space_take(cursor, 8);
    ret_keys->bulk = space_take(cursor, 8);
    ret_keys->words = space_take(cursor, 8);
}

void space_put_words(struct space_cursor *cursor, const struct space_words *words)
{
    space_put(cursor, words->domain, 8);
    space_put(cursor, words->key, 8);
}

void space_take_words(struct space_cursor *cursor, struct space_words *ret_words)
{
    ret_words->domain = space_take(cursor, 8);
    ret_words->key = space_take(cursor, 8);
}

uint64_t space_version_word(uint32_t number)
{
    return number == 0 ? 0 : (uint64_t)~number << 32 | number; /* halves of two words make none */
}

bool space_word_is_current(uint64_t word, uint32_t version)
{
    const uint32_t number = (uint32_t)word;
    return number != 0 && number <= version && word == space_version_word(number);
}

uint32_t space_rights(enum tarn_space_class memory_class)
{
    const uint32_t plain = TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE;
    return plain |
           (memory_class == TARN_SPACE_WORDS ? (uint32_t)TARN_FABRIC_MAY_SWAP : (uint32_t)TARN_FABRIC_BULK);
}

uint64_t space_session_number(const uint8_t *id)
{
    uint8_t hash[EVP_MAX_MD_SIZE];
    return EVP_Digest(id, SPACE_SESSION_BYTES, hash, NULL, EVP_sha256(), NULL) == 1 ? base_load_le64(hash)
                                                                                    : 0;
}

uint32_t space_address_count(const char *list)
{
    uint32_t count = 1;
    if (strnlen(list, SPACE_ADDRESSES_MAX + 1) > SPACE_ADDRESSES_MAX)
        return 0;
    for (;; list++, count++) {
        const size_t len = strcspn(list, ",");
        if (len == 0 || len > SPACE_ADDRESS_MAX)
            return 0;
        list += len;
        if (*list == '\0')
            return count;
    }
}

bool space_address_at(const char *list, uint32_t turn, char *ret_address)
{
    const uint32_t count = space_address_count(list);
    if (count == 0)
        return false;
    for (turn %= count; turn > 0; turn--)
        list += strcspn(list, ",") + 1;
    const size_t len = strcspn(list, ",");
    memcpy(ret_address, list, len);
    ret_address[len] = '\0';
    return true;
}

void space_hello_save(const struct space_hello *hello, void *bytes)
{
    struct space_cursor cursor = space_cursor_to(bytes, SPACE_HELLO_BYTES);
    space_put(&cursor, MAGIC, 8);
    space_put_bytes(&cursor, hello->session, SPACE_SESSION_BYTES);
    space_put_bytes(&cursor, hello->identity, SPACE_IDENTITY_BYTES);
    space_put(&cursor, hello->space_namespace, 4);
    space_put(&cursor, 0, 4);
}

int space_hello_load(const void *bytes, size_t count, struct space_hello *ret_hello)
{
    struct space_cursor cursor = space_cursor_from(bytes, count);
    const bool is_ours = space_take(&cursor, 8) == MAGIC;
    const void *session = space_take_bytes(&cursor, SPACE_SESSION_BYTES);
    const void *identity = space_take_bytes(&cursor, SPACE_IDENTITY_BYTES);
    const uint32_t number = (uint32_t)space_take(&cursor, 4);
    space_take_zeros(&cursor, 4);
    if (!is_ours || !space_cursor_is_done(&cursor))
        return -EPROTO;
    memcpy(ret_hello->session, session, SPACE_SESSION_BYTES);
    memcpy(ret_hello->identity, identity, SPACE_IDENTITY_BYTES);
    ret_hello->space_namespace = number;
    return 0;
}
