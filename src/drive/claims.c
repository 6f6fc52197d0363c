/* Claims of chunks while a file is zeroed: the rule that keeps zeros off what requests write. The writing is zero.c's. */
#include "drive/drive_internal.h"
#include <errno.h>

#define WORD_BITS 64

static size_t map_bytes(uint64_t chunk_count)
{
    return (chunk_count + WORD_BITS - 1) / WORD_BITS * sizeof(uint64_t);
}

int drive_claims_init(struct drive_claims *claims, struct base_account *account, uint64_t bytes)
{
    uint64_t chunk_count = (bytes + DRIVE_CHUNK_BYTES - 1) / DRIVE_CHUNK_BYTES;
    uint64_t *written = base_alloc(account, map_bytes(chunk_count));
    if (written == NULL)
        return -ENOMEM;
    *claims = (struct drive_claims){
        .account = account, .taken = DRIVE_CHUNK_NONE, .chunk_count = chunk_count, .written = written};
    base_list_init(&claims->waiting);
    return 0;
}

void drive_claims_deinit(struct drive_claims *claims)
{
    base_assert(base_list_empty(&claims->waiting));
    base_free(claims->account, claims->written, map_bytes(claims->chunk_count));
}

bool drive_claims_admit(struct drive_claims *claims, struct drive_request *request)
{
    /* acquire: pairs with drive_claims_end(), before which the last zeros were written */
    if (atomic_load_explicit(&claims->over, memory_order_acquire))
        return true;
    uint64_t first = request->offset / DRIVE_CHUNK_BYTES;
    uint64_t last = (request->offset + request->expected_bytes - 1) / DRIVE_CHUNK_BYTES;
    if (first >= claims->chunk_count) /* the file has become longer, and its new part is not zeroed */
        return true;
    last = base_min(last, claims->chunk_count - 1);
    base_spin_lock(&claims->lock);
    for (uint64_t chunk = first; chunk <= last; chunk++)
        claims->written[chunk / WORD_BITS] |= UINT64_C(1) << (chunk % WORD_BITS);
    bool free = claims->taken < first || claims->taken > last;
    if (!free)
        base_list_push_back(&claims->waiting, &request->io.link);
    base_spin_unlock(&claims->lock);
    return free;
}

bool drive_claims_take(struct drive_claims *claims, uint64_t chunk)
{
    base_assert(chunk < claims->chunk_count);
    base_spin_lock(&claims->lock);
    base_assert(claims->taken == DRIVE_CHUNK_NONE);
    bool written = (claims->written[chunk / WORD_BITS] >> (chunk % WORD_BITS) & 1) != 0;
    if (!written)
        claims->taken = chunk;
    base_spin_unlock(&claims->lock);
    return !written;
}

void drive_claims_release(struct drive_claims *claims)
{
    struct base_list released;
    base_list_init(&released);
    base_spin_lock(&claims->lock);
    claims->taken = DRIVE_CHUNK_NONE;
    base_list_move_all(&released, &claims->waiting);
    base_spin_unlock(&claims->lock);
    for (struct base_list *item = base_list_pop_front(&released); item != NULL;
         item = base_list_pop_front(&released))
        drive_resume(base_container_of(item, struct drive_request, io.link));
}

void drive_claims_end(struct drive_claims *claims)
{
    atomic_store_explicit(&claims->over, true, memory_order_release);
}
