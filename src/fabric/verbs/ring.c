/* The ring of copies: reserving and releasing. Which request uses what is queue.c's. */
#include "fabric/verbs/ring.h"
#include "base/base.h"

#define ALIGNMENT 8 /* reserved memory begins at a multiple of this */

uint8_t *verbs_ring_reserve(struct verbs_ring *ring, uint64_t bytes)
{
    bytes = base_align_up(bytes, ALIGNMENT);
    /* An empty ring goes on at the beginning of its memory, but never at an earlier position: a request without memory
     * here, posted before, may still be in flight, and its position must not count as a release of what comes now. */
    if (ring->head == ring->tail)
        ring->head = ring->tail = ring->head + ring->bytes - ring->head % ring->bytes;
    uint64_t at = ring->head % ring->bytes;
    const uint64_t skipped = at + bytes > ring->bytes ? ring->bytes - at : 0;
    if (skipped + bytes > ring->bytes - (ring->head - ring->tail))
        return NULL;
    at = skipped > 0 ? 0 : at;
    ring->head += skipped + bytes;
    return ring->memory + at;
}

void verbs_ring_release(struct verbs_ring *ring, uint64_t position)
{
    ring->tail = base_max(ring->tail, position);
}
