/*
 * Messages in shared memory: one writer, one reader, slots of one size. The file is the reader's, and both sides may
 * write all of it: so each keeps its own position in private memory, and loads what the other wrote only once.
 */
#include "fabric/shm/shm.h"
#include <errno.h>
#include <string.h>

/*
 * format: the beginning of a ring, of one machine's byte order
 *
 * | offset | bytes | meaning                                                        |
 * |--------|-------|----------------------------------------------------------------|
 * | 0      | 8     | messages written so far, by the writer                         |
 * | 8      | 4     | 1: the writer waits for credit; cleared by the reader          |
 * | 12     | 4     | enum shm_presence, by the writer                               |
 * | 64     | 8     | messages read so far, by the reader                            |
 * | 72     | 4     | 1: the reader waits for a message; cleared by the writer       |
 * | 128    |       | slots                                                          |
 */
struct shm_ring_format {
    _Atomic uint64_t written;
    _Atomic uint32_t writer_sleeps;
    _Atomic uint32_t writer_presence;
    uint8_t unused_by_writer[48];
    _Atomic uint64_t read;
    _Atomic uint32_t reader_sleeps;
    uint8_t unused_by_reader[52];
};

_Static_assert(sizeof(struct shm_ring_format) == 128, "slots follow");

/*
 * format: a slot; the payload follows, and what is left until the next multiple of 64
 *
 * | offset | bytes | meaning                                   |
 * |--------|-------|-------------------------------------------|
 * | 0      | 4     | 1: sent, 2: a notified WRITE              |
 * | 4      | 4     | value of the notified WRITE               |
 * | 8      | 4     | bytes of payload                          |
 * | 12     | 4     | 0                                         |
 */
struct shm_slot_format {
    _Atomic uint32_t kind;
    _Atomic uint32_t value;
    _Atomic uint32_t bytes;
    uint32_t unused;
};

_Static_assert(sizeof(struct shm_slot_format) == 16, "the payload follows");

enum { KIND_SENT = 1, KIND_NOTIFIED = 2 };

static uint64_t slot_bytes(uint32_t payload_bytes)
{
    return base_align_up(sizeof(struct shm_slot_format) + payload_bytes, BASE_CACHE_LINE_BYTES);
}

uint64_t shm_ring_bytes(uint32_t slots, uint32_t payload_bytes)
{
    return base_align_up(sizeof(struct shm_ring_format) + slots * slot_bytes(payload_bytes), BASE_PAGE_BYTES);
}

void shm_ring_begin(struct shm_ring *ring, uint32_t slots, uint32_t payload_bytes, bool reads)
{
    struct shm_ring_format *shared = (struct shm_ring_format *)ring->file.memory;
    ring->shared = shared;
    ring->asleep = reads ? &shared->reader_sleeps : &shared->writer_sleeps;
    ring->peer_asleep = reads ? &shared->writer_sleeps : &shared->reader_sleeps;
    ring->slots = slots;
    ring->payload_bytes = payload_bytes;
    ring->position = 0;
    ring->read_seen = 0;
}

static struct shm_slot_format *slot_at(const struct shm_ring *ring)
{
    uint64_t offset =
        sizeof(struct shm_ring_format) + ring->position % ring->slots * slot_bytes(ring->payload_bytes);
    return (struct shm_slot_format *)(ring->file.memory + offset);
}

void shm_ring_arm(struct shm_ring *ring)
{
    atomic_store(ring->asleep, 1);
}

bool shm_ring_peer_sleeps(struct shm_ring *ring)
{
    return atomic_load(ring->peer_asleep) != 0 && atomic_exchange(ring->peer_asleep, 0) != 0;
}

/* ---- the writer --------------------------------------------------------------------------------- */

/* Number of messages that the reader, by its own word, has not read yet. */
static uint64_t count_unread(const struct shm_ring *ring)
{
    /* pairs with the store in shm_ring_read_try(), before which the slot was read */
    return ring->position - atomic_load(&ring->shared->read);
}

bool shm_ring_has_credit(const struct shm_ring *ring)
{
    return count_unread(ring) != ring->slots;
}

int shm_ring_write_try(struct shm_ring *ring, const struct tarn_fabric_message *message,
                       const struct iovec *iov, uint32_t iov_count)
{
    if (message->bytes > ring->payload_bytes)
        return -EMSGSIZE;
    if (ring->position - ring->read_seen ==
        ring->slots) { /* otherwise the reader's cache line is left alone */
        uint64_t waiting = count_unread(ring);
        if (waiting > ring->slots)
            return -EPROTO;
        if (waiting == ring->slots)
            return 0;
        ring->read_seen = ring->position - waiting;
    }
    struct shm_slot_format *slot = slot_at(ring);
    atomic_store_explicit(&slot->kind, message->notified ? KIND_NOTIFIED : KIND_SENT, memory_order_relaxed);
    atomic_store_explicit(&slot->value, message->value, memory_order_relaxed);
    atomic_store_explicit(&slot->bytes, message->bytes, memory_order_relaxed);
    uint8_t *to = (uint8_t *)(slot + 1);
    for (uint32_t i = 0; i < iov_count; i++) {
        if (iov[i].iov_len > 0)
            memcpy(to, iov[i].iov_base, iov[i].iov_len);
        to += iov[i].iov_len;
    }
    /* Pairs with has_message(): a reader that sees this store sees the slot and all WRITEs before it. And with
     * shm_ring_arm(), after which the reader loads `written`, while this side stores `written` and then loads the flag in
     * shm_ring_peer_sleeps(): at least one of the two loads sees the other side's store. */
    atomic_store(&ring->shared->written, ++ring->position);
    return 1;
}

void shm_ring_tell(struct shm_ring *ring, enum shm_presence presence)
{
    atomic_store(&ring->shared->writer_presence, (uint32_t)presence);
}

/* ---- the reader --------------------------------------------------------------------------------- */

bool shm_ring_has_message(const struct shm_ring *ring)
{
    return atomic_load(&ring->shared->written) != ring->position;
}

int shm_ring_read_try(struct shm_ring *ring, void *data, struct tarn_fabric_message *ret_message)
{
    uint64_t ready = atomic_load(&ring->shared->written) - ring->position;
    if (ready == 0)
        return 0;
    struct shm_slot_format *slot = slot_at(ring);
    uint32_t kind = atomic_load_explicit(&slot->kind, memory_order_relaxed);
    struct tarn_fabric_message message = {
        .notified = kind == KIND_NOTIFIED,
        .value = kind == KIND_NOTIFIED ? atomic_load_explicit(&slot->value, memory_order_relaxed) : 0,
        .bytes = atomic_load_explicit(&slot->bytes, memory_order_relaxed),
    };
    if (ready > ring->slots || (kind != KIND_SENT && kind != KIND_NOTIFIED) ||
        message.bytes > (message.notified ? 0 : ring->payload_bytes))
        return -EPROTO;
    if (message.bytes > 0)
        memcpy(data, slot + 1, message.bytes);
    atomic_store(&ring->shared->read, ++ring->position); /* pairs with count_unread() and shm_ring_arm() */
    *ret_message = message;
    return 1;
}

enum shm_presence shm_ring_told(const struct shm_ring *ring)
{
    uint32_t presence = atomic_load(&ring->shared->writer_presence);
    return presence == SHM_PRESENT || presence == SHM_LEFT ? (enum shm_presence)presence : SHM_FAILED;
}
