/*
 * For tests of other layers: tables of operations in front of a store's own. One does something between two calls, as
 * other callers might; the other checks that functions do nothing forbidden while a store shows them values. For one
 * thread.
 */
#include "kv/testing.h"

/* Call the store's own operation. */
#define TESTING_FRONT_CALL(front, kv, result, call)                                                          \
    do {                                                                                                     \
        (kv)->operations = (front)->real;                                                                    \
        (result) = (front)->real->call;                                                                      \
        (kv)->operations = &(front)->operations;                                                             \
    } while (0)

static struct testing_front *testing_front_of(const struct tarn_kv *kv)
{
    return (struct testing_front *)(uintptr_t)base_container_of(kv->operations, const struct testing_front,
                                                                operations);
}

void testing_front_begin(struct testing_front *front, struct tarn_kv *kv)
{
    front->real = kv->operations;
    front->operations = *kv->operations;
    kv->operations = &front->operations;
}

void testing_front_end(const struct testing_front *front, struct tarn_kv *kv)
{
    kv->operations = front->real;
}

/* ---- what others do meanwhile ---------------------------------------------------------------------- */

static int testing_update_meanwhile(struct tarn_kv *kv, const void *key, size_t key_len,
                                    tarn_update_function *decide, void *arg, uint64_t *ret_version)
{
    struct testing_meanwhile *meanwhile =
        base_container_of(testing_front_of(kv), struct testing_meanwhile, front);
    int error;
    TESTING_FRONT_CALL(&meanwhile->front, kv, error, update(kv, key, key_len, decide, arg, ret_version));
    meanwhile->then(meanwhile->arg, error);
    return error;
}

static size_t testing_get_each_meanwhile(struct tarn_kv *kv, struct tarn_get *gets, size_t count,
                                         const struct kv_room *room, kv_get_function *visit, void *arg)
{
    struct testing_meanwhile *meanwhile =
        base_container_of(testing_front_of(kv), struct testing_meanwhile, front);
    size_t shown;
    TESTING_FRONT_CALL(&meanwhile->front, kv, shown, get_each(kv, gets, count, room, visit, arg));
    meanwhile->then(meanwhile->arg, (int)(count - shown));
    return shown;
}

void testing_meanwhile_begin(struct testing_meanwhile *meanwhile, struct tarn_kv *kv)
{
    testing_front_begin(&meanwhile->front, kv);
    meanwhile->front.operations.update = testing_update_meanwhile;
    meanwhile->front.operations.get_each = testing_get_each_meanwhile;
}

/* ---- what is forbidden ------------------------------------------------------------------------------- */

/* A function that is shown values, and the node's memory before the call. */
struct testing_shown {
    struct base_account *memory;
    tarn_update_function *decide;
    kv_get_function *visit;
    void *arg;
    uint64_t used_bytes, fail_at;
};

static void testing_shown_begin(struct testing_shown *shown)
{
    shown->used_bytes = base_account_used(shown->memory);
    shown->fail_at = atomic_load(&shown->memory->fail_at);
    base_account_fail_at(shown->memory, 1);
}

/* Assert that the function has neither taken nor freed memory. */
static void testing_shown_end(const struct testing_shown *shown)
{
    base_assert(atomic_load(&shown->memory->fail_at) == 1);
    base_assert(base_account_used(shown->memory) == shown->used_bytes);
    base_account_fail_at(shown->memory, shown->fail_at);
}

static int testing_decide_frugally(void *arg, const struct tarn_record_info *old, const void *value,
                                   struct tarn_update *update)
{
    struct testing_shown *shown = arg;
    testing_shown_begin(shown);
    int answer = shown->decide(shown->arg, old, value, update);
    testing_shown_end(shown);
    return answer;
}

static bool testing_visit_frugally(void *arg, struct tarn_get *get, struct tarn_lease *lease)
{
    struct testing_shown *shown = arg;
    testing_shown_begin(shown);
    bool taken = shown->visit(shown->arg, get, lease);
    testing_shown_end(shown);
    return taken;
}

static int testing_update_frugally(struct tarn_kv *kv, const void *key, size_t key_len,
                                   tarn_update_function *decide, void *arg, uint64_t *ret_version)
{
    struct testing_front *front = testing_front_of(kv);
    struct testing_shown shown = {.memory = &kv->node->memory, .decide = decide, .arg = arg};
    int error;
    TESTING_FRONT_CALL(front, kv, error,
                       update(kv, key, key_len, testing_decide_frugally, &shown, ret_version));
    return error;
}

static size_t testing_get_each_frugally(struct tarn_kv *kv, struct tarn_get *gets, size_t count,
                                        const struct kv_room *room, kv_get_function *visit, void *arg)
{
    struct testing_front *front = testing_front_of(kv);
    struct testing_shown shown = {.memory = &kv->node->memory, .visit = visit, .arg = arg};
    size_t result;
    TESTING_FRONT_CALL(front, kv, result, get_each(kv, gets, count, room, testing_visit_frugally, &shown));
    return result;
}

void testing_frugal_begin(struct testing_front *front, struct tarn_kv *kv)
{
    testing_front_begin(front, kv);
    front->operations.update = testing_update_frugally;
    front->operations.get_each = testing_get_each_frugally;
}
