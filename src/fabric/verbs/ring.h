/* The ring of copies: registered memory for bytes that the device cannot take from where they lie. For queue.c. */
#ifndef FABRIC_VERBS_RING_H
#define FABRIC_VERBS_RING_H

#include <stddef.h>
#include <stdint.h>

/*
 * Memory that is reserved and released in the same order. Both positions only ever grow, so a request's position stays
 * meaningful for as long as the request is in flight, whatever was reserved or released meanwhile.
 */
struct verbs_ring {
    uint8_t *memory;
    uint64_t bytes; /* size of the memory */
    uint64_t head;  /* position behind the last reserved byte; its place is the position modulo `bytes` */
    uint64_t tail;  /* position of the first byte that is not released; equal to `head`: the ring is empty */
};

/**
 * Reserve contiguous memory behind all that is reserved. An empty ring always has room for `ring->bytes`.
 *
 * @param bytes  1 to ring->bytes
 * @return NULL: there is no room until more is released
 */
uint8_t *verbs_ring_reserve(struct verbs_ring *ring, uint64_t bytes);

/** Release all memory up to a position: the ring's head at the time when a request was posted that is done now. */
void verbs_ring_release(struct verbs_ring *ring, uint64_t position);

#endif
