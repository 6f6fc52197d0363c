/*
 * This process's memory that is registered with the device, by address: regions, memory for this
 * side's own operations, and slabs of buffers. Operations whose vectors lie there need no copy.
 */
#include "fabric/verbs/verbs.h"
#include <errno.h>
#include <string.h>

#define FIRST_ROOM 16

/* ---- the table ---------------------------------------------------------------------------------- */

/* @return number of entries that begin at an address or below it */
static uint32_t count_until_locked(const struct verbs_domain *domain, const uint8_t *memory)
{
    base_spin_assert_held(&domain->lock);
    uint32_t low = 0, high = domain->locals_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if ((uintptr_t)domain->locals[middle].memory <= (uintptr_t)memory)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Set how far the entries reach, from the first whose neighbour below has changed. */
static void set_reaches_locked(struct verbs_domain *domain, uint32_t from)
{
    base_spin_assert_held(&domain->lock);
    for (uint32_t i = from; i < domain->locals_count; i++) {
        struct verbs_local *local = &domain->locals[i];
        local->reach = base_max((uintptr_t)local->memory + local->bytes, i == 0 ? 0 : local[-1].reach);
    }
}

/* Enlarge the table, unless another caller has done it meanwhile. @param room  its present size @return 0; -ENOMEM */
static int grow_locals(struct verbs_domain *domain, uint32_t room)
{
    struct base_account *account = &domain->verbs->node->memory;
    const uint32_t larger_room = base_max(2 * room, (uint32_t)FIRST_ROOM);
    struct verbs_local *larger = base_alloc(account, larger_room * sizeof(*larger));
    if (larger == NULL)
        return -ENOMEM;
    base_spin_lock(&domain->lock);
    struct verbs_local *old = domain->locals;
    const bool is_mine = domain->locals_room == room;
    if (is_mine) {
        if (domain->locals_count > 0)
            memcpy(larger, old, domain->locals_count * sizeof(*larger));
        domain->locals = larger;
        domain->locals_room = larger_room;
    }
    base_spin_unlock(&domain->lock);
    if (is_mine)
        base_free(account, old, room * sizeof(*old));
    else
        base_free(account, larger, larger_room * sizeof(*larger));
    return 0;
}

int verbs_local_add(struct verbs_domain *domain, const struct verbs_local *local)
{
    for (;;) {
        base_spin_lock(&domain->lock);
        const uint32_t room = domain->locals_room;
        const bool fits = domain->locals_count < room;
        if (fits) {
            const uint32_t at = count_until_locked(domain, local->memory);
            struct verbs_local *place = &domain->locals[at];
            memmove(place + 1, place, (domain->locals_count - at) * sizeof(*place));
            *place = *local;
            domain->locals_count++;
            set_reaches_locked(domain, at);
        }
        base_spin_unlock(&domain->lock);
        if (fits)
            return 0;
        int error = grow_locals(domain, room);
        if (error != 0)
            return error;
    }
}

/* ---- finding ------------------------------------------------------------------------------------ */

/* Find an entry that holds all of a range: the one that begins last. @return NULL: none */
static const struct verbs_local *find_locked(const struct verbs_domain *domain, const uint8_t *memory,
                                             uint64_t bytes)
{
    base_spin_assert_held(&domain->lock);
    const uintptr_t begin = (uintptr_t)memory;
    for (uint32_t i = count_until_locked(domain, memory); i > 0; i--) {
        const struct verbs_local *local = &domain->locals[i - 1];
        if (local->reach < begin + bytes)
            return NULL;
        if ((uintptr_t)local->memory + local->bytes >= begin + bytes)
            return local;
    }
    return NULL;
}

uint32_t verbs_local_gather(struct verbs_domain *domain, const struct tarn_fabric_op *op, uint64_t at,
                            uint64_t bytes, struct ibv_sge *vectors, uint32_t vectors_max)
{
    uint32_t count = 0;
    bool known = true;
    base_spin_lock(&domain->lock);
    for (uint32_t i = 0; known && bytes > 0 && i < op->iov_count; i++) {
        const struct iovec *vector = &op->iov[i];
        if (at >= vector->iov_len) {
            at -= vector->iov_len;
            continue;
        }
        const uint8_t *memory = (const uint8_t *)vector->iov_base + at;
        const uint64_t piece = base_min(vector->iov_len - at, bytes);
        const struct verbs_local *local = find_locked(domain, memory, piece);
        known = local != NULL && count < vectors_max && (op->kind != TARN_FABRIC_READ || local->is_writable);
        if (known)
            vectors[count++] = (struct ibv_sge){.addr = local->address + (uint64_t)(memory - local->memory),
                                                .length = (uint32_t)piece,
                                                .lkey = local->lkey};
        bytes -= piece;
        at = 0;
    }
    base_spin_unlock(&domain->lock);
    return known && bytes == 0 ? count : 0;
}

/* ---- taking memory out -------------------------------------------------------------------------- */

/* Whether a vector of an operation lies in registered memory. */
static bool touches_memory(const struct tarn_fabric_op *op, const struct ibv_mr *mr)
{
    for (uint32_t i = 0; i < op->iov_count; i++) {
        const uintptr_t begin = (uintptr_t)op->iov[i].iov_base, end = begin + op->iov[i].iov_len;
        if (begin < (uintptr_t)mr->addr + mr->length && end > (uintptr_t)mr->addr)
            return true;
    }
    return false;
}

/* Whether the device may still use registered memory for a living connection. */
static bool is_in_flight(struct verbs_connection *connection, const struct ibv_mr *mr)
{
    bool used = false;
    base_spin_lock(&connection->lock);
    verbs_poll_locked(connection);
    for (uint64_t i = connection->done_count; connection->error == 0 && !used && i < connection->posted;
         i++) {
        const struct verbs_flight *flight = &connection->flights[i % connection->verbs->device.send_depth];
        used = flight->is_direct && touches_memory(flight->op, mr);
    }
    base_spin_unlock(&connection->lock);
    return used;
}

void verbs_local_remove(struct verbs_domain *domain, const struct ibv_mr *mr)
{
    struct verbs *verbs = domain->verbs;
    bool used;
    base_spin_lock(&domain->lock);
    struct verbs_local *place = domain->locals;
    while (place->lkey != mr->lkey)
        place++;
    domain->locals_count--;
    memmove(place, place + 1, (size_t)(domain->locals + domain->locals_count - place) * sizeof(*place));
    set_reaches_locked(domain, (uint32_t)(place - domain->locals));
    base_spin_unlock(&domain->lock);
    for (;;) { /* no new request names the memory, so those in flight come to an end */
        used = false;
        base_spin_lock(&verbs->lock);
        base_list_for_each(item, &verbs->connections) {
            struct verbs_connection *connection = base_container_of(item, struct verbs_connection, link);
            used = used || (connection->domain == domain && is_in_flight(connection, mr));
        }
        base_spin_unlock(&verbs->lock);
        if (!used)
            return;
        task_yield();
    }
}
