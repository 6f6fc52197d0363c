/* Which key is drawn next, its name, and values that tell whose they are. */
#include "bench/keys.h"

#include <errno.h>

#define BODY_SEED UINT64_C(0x7461726e2d6d6342)

enum { DIGITS = 10, DIGIT_BITS = 4 };

static const char prefix[] = "bench-";

_Static_assert(sizeof(prefix) - 1 + DIGITS == BENCH_KEY_BYTES, "the key's parts");

/* ---- which key ----------------------------------------------------------------------------------- */

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

void bench_keys_init(struct bench_keys *keys, uint64_t count, double exponent)
{
    base_assert(count >= 1 && count <= BENCH_KEYS_MAX);
    *keys = (struct bench_keys){.count = count, .zipf = exponent > 0};
    if (keys->zipf)
        base_random_zipf_init(&keys->ranks, count, exponent);
    /* Near the golden section, so that steps of it are spread evenly. */
    keys->stride = base_max((uint64_t)((double)count * 0.6180339887498949), UINT64_C(1));
    while (greatest_divisor(keys->stride, count) != 1)
        keys->stride++;
}

uint64_t bench_keys_of_rank(const struct bench_keys *keys, uint64_t rank)
{
    return (uint64_t)((unsigned __int128)rank * keys->stride % keys->count);
}

uint64_t bench_keys_draw(const struct bench_keys *keys, struct base_random *random)
{
    if (!keys->zipf)
        return base_random_below(random, keys->count);
    return bench_keys_of_rank(keys, base_random_zipf_rank(&keys->ranks, random));
}

/* ---- keys ---------------------------------------------------------------------------------------- */

void bench_key(uint64_t number, char key[BENCH_KEY_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    memcpy(key, prefix, sizeof(prefix) - 1);
    for (size_t i = BENCH_KEY_BYTES; i > sizeof(prefix) - 1; i--) {
        key[i - 1] = digits[number & 15];
        number >>= DIGIT_BITS;
    }
}

int bench_key_read(const char *key, size_t len, uint64_t *ret_number)
{
    if (len != BENCH_KEY_BYTES || memcmp(key, prefix, sizeof(prefix) - 1) != 0)
        return -EBADMSG;
    uint64_t number = 0;
    for (size_t i = sizeof(prefix) - 1; i < len; i++) {
        unsigned digit;
        if (key[i] >= '0' && key[i] <= '9')
            digit = (unsigned)(key[i] - '0');
        else if (key[i] >= 'a' && key[i] <= 'f')
            digit = (unsigned)(key[i] - 'a') + 10;
        else
            return -EBADMSG;
        number = number << DIGIT_BITS | digit;
    }
    *ret_number = number;
    return 0;
}

/* ---- values -------------------------------------------------------------------------------------- */

int bench_values_open(struct base_account *account, uint32_t bytes, struct bench_values *ret_values)
{
    base_assert(bytes >= BENCH_VALUE_BYTES_MIN);
    struct bench_values values = {.account = account, .bytes = bytes};
    struct base_random random;
    values.body = base_alloc(account, bytes);
    if (values.body == NULL)
        return -ENOMEM;
    base_random_init(&random, BODY_SEED);
    base_random_fill(&random, values.body, bytes);
    *ret_values = values;
    return 0;
}

void bench_values_close(struct bench_values *values)
{
    base_free(values->account, values->body, values->bytes);
    values->body = NULL;
}

/* Differs for each number and generation, with all its bits. */
static uint64_t last_word(uint64_t number, uint64_t generation)
{
    uint64_t word = (number * UINT64_C(0x9e3779b97f4a7c15)) ^ generation;
    word = (word ^ word >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return word ^ word >> 32;
}

void bench_value(const struct bench_values *values, uint64_t number, uint64_t generation, uint8_t *to)
{
    memcpy(to, values->body, values->bytes);
    base_store_le64(to, number);
    base_store_le64(to + sizeof(uint64_t), generation);
    base_store_le64(to + values->bytes - BENCH_VALUE_TAIL_BYTES, last_word(number, generation));
}

void bench_value_check_begin(struct bench_value_check *check, uint64_t number, bool whole)
{
    check->number = number;
    check->whole = whole;
    check->position = 0;
}

/* Of the piece data[0..bytes) that begins at `position`: keep what lies from `begin` on, up to `room`. */
static void keep(uint8_t *to, size_t begin, size_t room, size_t position, const uint8_t *data, size_t bytes)
{
    size_t from = base_max(position, begin);
    size_t until = base_min(position + bytes, begin + room);
    if (from < until)
        memcpy(to + (from - begin), data + (from - position), until - from);
}

bool bench_value_check_bytes(const struct bench_values *values, struct bench_value_check *check,
                             const uint8_t *data, size_t bytes)
{
    const size_t end = values->bytes - BENCH_VALUE_TAIL_BYTES;
    size_t position = check->position;
    base_assert(bytes <= values->bytes - position);
    keep(check->head, 0, sizeof(check->head), position, data, bytes);
    keep(check->tail, end, sizeof(check->tail), position, data, bytes);
    size_t from = base_max(position, sizeof(check->head));
    size_t until = base_min(position + bytes, end);
    if (check->whole && from < until &&
        memcmp(data + (from - position), values->body + from, until - from) != 0)
        return false;
    check->position += (uint32_t)bytes;
    if (check->position < values->bytes)
        return true;
    uint64_t generation = base_load_le64(check->head + sizeof(uint64_t));
    return base_load_le64(check->head) == check->number &&
           base_load_le64(check->tail) == last_word(check->number, generation);
}
