/* A barrier: each party has a word, in which it counts its arrivals; it goes on when no other party's count is behind its own. */
#include "space/sync.h"
#include <errno.h>

#define MAGIC      UINT64_C(0x3152524142544152) /* "RATBARR1" */
#define WORD_BYTES UINT64_C(8)

int tarn_space_barrier_format(struct tarn_space_region *region, uint64_t offset, uint32_t parties,
                              uint64_t deadline_ns)
{
    if (parties == 0 || parties > TARN_SPACE_PARTIES_MAX)
        return -EINVAL;
    return sync_format(region, offset, MAGIC, parties, WORD_BYTES, 0, deadline_ns);
}

/* Wait until no count is behind `step`. Counts wrap around; two of them never differ by more than 1. */
static int await_parties(struct tarn_space_barrier *barrier, uint64_t step, uint64_t deadline_ns)
{
    uint64_t words[SYNC_LOAD_MAX], pause_ns = 0;
    for (uint32_t next = 0; next < barrier->parties;) {
        const uint32_t count = base_min(barrier->parties - next, (uint32_t)SYNC_LOAD_MAX);
        int error = sync_load(barrier->region, barrier->offset + SYNC_HEADER_BYTES + next * WORD_BYTES, count,
                              deadline_ns, words);
        uint32_t arrived = 0;
        while (error == 0 && arrived < count && (int64_t)(words[arrived] - step) >= 0)
            arrived++;
        next += arrived;
        if (error == 0 && arrived < count) {
            barrier->missing = next;
            error = task_back_off(&pause_ns, deadline_ns);
        }
        if (error != 0)
            return error;
    }
    return 0;
}

static uint64_t own_word(const struct tarn_space_barrier *barrier)
{
    return barrier->offset + SYNC_HEADER_BYTES + barrier->party * WORD_BYTES;
}

int tarn_space_barrier_init(struct tarn_space_barrier *barrier, struct tarn_space_region *region,
                            uint64_t offset, uint32_t party, uint64_t deadline_ns)
{
    struct tarn_space_barrier self = {.region = region, .offset = offset, .party = party};
    int error =
        sync_open(region, offset, MAGIC, TARN_SPACE_PARTIES_MAX, WORD_BYTES, deadline_ns, &self.parties);
    if (error == 0 && party >= self.parties)
        error = -EINVAL;
    if (error == 0)
        error = sync_load(region, own_word(&self), 1, deadline_ns, &self.step);
    if (error == 0)
        error = await_parties(&self, self.step, deadline_ns); /* its predecessor had arrived */
    if (error == 0)
        *barrier = self;
    else if (error == -ETIMEDOUT)
        barrier->missing = self.missing;
    return error;
}

int tarn_space_barrier_wait(struct tarn_space_barrier *barrier, uint64_t deadline_ns)
{
    const uint64_t next = barrier->step + 1;
    uint64_t before;
    int error = 0;
    if (!barrier->has_arrived) {
        error = sync_cas(barrier->region, own_word(barrier), barrier->step, next, deadline_ns, &before);
        if (error == 0 && before != barrier->step && before != next)
            error = -EBUSY;
        barrier->has_arrived = error == 0;
    }
    if (error == 0)
        error = await_parties(barrier, next, deadline_ns);
    if (error == 0) {
        barrier->step = next;
        barrier->has_arrived = false;
    }
    return error;
}
