/* What requests do to a drive when they complete, and what goes wrong with them. */
#include "base/base.h"
#include "sim/drive_internal.h"
#include <errno.h>

enum {
    DROP_ONE_IN = 64, /* writes, with SIM_DRIVE_WRITE_DROPPED */
    DAMAGES_SPARE =
        12, /* undamaged reads after a damaged one: a caller that reads again, beside others, finds the data */
};

/* ---- faults ---------------------------------------------------------------------------------- */

void sim_drive_set_fault(struct sim_drive *drive, enum sim_fault fault, uint32_t per_million, uint64_t nth)
{
    drive->faults[fault].per_million = per_million;
    drive->faults[fault].nth = nth;
    drive->faults[fault].spare = 0;
}

void sim_drive_clear_faults(struct sim_drive *drive)
{
    for (int i = 0; i < SIM_FAULT_COUNT; i++)
        sim_drive_set_fault(drive, (enum sim_fault)i, 0, 0);
    drive->lost = false;
}

uint64_t sim_drive_faults(const struct sim_drive *drive, enum sim_fault fault)
{
    return drive->faults[fault].count;
}

bool sim_drive_damage(const struct sim_drive *drive, struct sim_damage *ret_damage)
{
    if (drive->damaged)
        *ret_damage = drive->damage;
    return drive->damaged;
}

void sim_drive_mutate(struct sim_drive *drive, uint32_t mutations)
{
    drive->mutations = mutations;
}

/* Whether a fault happens to this request, which is one that it can happen to. */
static bool strikes(struct sim_drive *drive, enum sim_fault fault)
{
    struct sim_fault_state *state = &drive->faults[fault];
    bool now = state->nth > 0 && --state->nth == 0;
    if (state->per_million > 0 && base_random_below(sim_drive_random(drive), 1000000) < state->per_million)
        now = true;
    if (fault == SIM_FAULT_READ_DAMAGE && state->spare > 0) {
        state->spare--;
        return false;
    }
    if (now) {
        state->count++;
        state->spare = DAMAGES_SPARE;
        sim_note(drive->world, "fault", (uint64_t)fault, state->count);
    }
    return now;
}

void sim_request_decide(struct sim_request *request)
{
    struct sim_drive *drive = request->drive;
    if (strikes(drive, SIM_FAULT_LOST)) {
        drive->lost = true;
        drive->world->boot++; /* when it is back it may lack what was not durable, as after a power cut */
    }
    request->stuck = strikes(drive, SIM_FAULT_STUCK);
    switch (request->op) {
    case DRIVE_READ:
        if (strikes(drive, SIM_FAULT_READ_ERROR))
            request->result = -EIO;
        break;
    case DRIVE_WRITE:
        if (strikes(drive, SIM_FAULT_WRITE_FULL))
            request->result = -ENOSPC;
        if (strikes(drive, SIM_FAULT_WRITE_ERROR))
            request->result = -EIO;
        break;
    case DRIVE_FLUSH:
        if (strikes(drive, SIM_FAULT_FLUSH_ERROR)) {
            request->result = -EIO;
            drive->world->boot++; /* likewise: what it loses need not be told as damage */
        }
        break;
    case DRIVE_DISCARD:
        if (strikes(drive, SIM_FAULT_DISCARD_ERROR))
            request->result = -EIO;
        break;
    }
}

/* ---- effects --------------------------------------------------------------------------------- */

/* The part of a request that lies in the sector at or around `at`. */
static struct sim_piece piece_of(const struct sim_request *request, uint64_t at)
{
    uint64_t sector_end = base_align_down(at, SIM_SECTOR_BYTES) + SIM_SECTOR_BYTES;
    return (struct sim_piece){
        .offset = at,
        .bytes = base_min(request->offset + request->bytes, sector_end) - at,
        .data = request->data + (at - request->offset),
        .posted = request->posted,
        .write = request->number,
    };
}

/* Which sectors of a write take effect that did not succeed, drawn once for each write. */
enum subset { SUBSET_NONE, SUBSET_ALL, SUBSET_FRONT, SUBSET_ANY, SUBSET_COUNT };

static void write_pieces(struct sim_request *request, enum subset subset, bool durable)
{
    struct base_random *random = sim_drive_random(request->drive);
    uint64_t front = subset == SUBSET_FRONT ? base_random_below(random, request->bytes) : 0;
    struct sim_piece piece;
    for (uint64_t at = request->offset; at < request->offset + request->bytes; at += piece.bytes) {
        piece = piece_of(request, at);
        piece.durable = durable || !request->drive->options.write_cache;
        if (subset == SUBSET_ALL || (subset == SUBSET_FRONT && at < request->offset + front) ||
            (subset == SUBSET_ANY && base_random_below(random, 2) == 0))
            sim_media_write(&request->drive->media, &piece, random);
    }
}

/* What a write leaves that failed or was cut off: not durable, even if it was to be. */
void sim_request_tear(struct sim_request *request)
{
    write_pieces(request, (enum subset)base_random_below(sim_drive_random(request->drive), SUBSET_COUNT),
                 false);
}

/* The drive reads the writer's memory when it likes: it must not have changed. */
static void check_unchanged(const struct sim_request *request)
{
    const uint8_t *data = request->data;
    for (uint32_t i = 0; i < request->request->iov_count; i++) {
        const struct iovec *part = &request->request->iov[i];
        if (memcmp(part->iov_base, data, part->iov_len) != 0)
            sim_fail(request->drive->world,
                     "memory of a write to %s at %llu was changed while it was in flight",
                     request->drive->name, (unsigned long long)request->offset);
        data += part->iov_len;
    }
}

static void complete_write(struct sim_request *request)
{
    struct sim_drive *drive = request->drive;
    check_unchanged(request);
    if (request->result != 0)
        sim_request_tear(request);
    else if (!sim_drive_is_mutated(drive, SIM_DRIVE_WRITE_DROPPED) ||
             base_random_below(sim_drive_random(drive), DROP_ONE_IN) > 0)
        write_pieces(request, SUBSET_ALL,
                     request->durable && !sim_drive_is_mutated(drive, SIM_DRIVE_DURABLE_IGNORED));
    drive->write_completed_last = drive->media.clock;
}

/* What is read of discarded sectors, drawn once for each discard. */
enum discarded { DISCARDED_ZEROS, DISCARDED_NOISE, DISCARDED_OLD, DISCARDED_ANY, DISCARDED_COUNT };

void sim_discard_draw(struct sim_drive *drive, uint8_t *data, uint64_t bytes)
{
    struct base_random *random = sim_drive_random(drive);
    enum discarded all = (enum discarded)base_random_below(random, DISCARDED_COUNT);
    for (uint64_t at = 0; at < bytes; at += SIM_SECTOR_BYTES) {
        enum discarded one = all;
        if (all == DISCARDED_ANY)
            one = (enum discarded)base_random_below(random, DISCARDED_ANY);
        if (one == DISCARDED_ZEROS)
            memset(data + at, 0, SIM_SECTOR_BYTES);
        for (uint64_t i = 0; one == DISCARDED_NOISE && i < SIM_SECTOR_BYTES; i += sizeof(uint64_t)) {
            uint64_t noise = base_random_u64(random);
            memcpy(data + at + i, &noise, sizeof(noise));
        }
    }
}

/* One that fails may have done some of its work. */
static void complete_discard(struct sim_request *request)
{
    if (request->result != 0)
        sim_request_tear(request);
    else
        write_pieces(request, SUBSET_ALL, false);
}

static void complete_flush(struct sim_request *request)
{
    struct sim_drive *drive = request->drive;
    uint64_t before = request->posted;
    if (request->result != 0)
        sim_media_flush_failed(&drive->media, before, sim_drive_random(drive));
    else if (!sim_drive_is_mutated(drive, SIM_DRIVE_FLUSH_IGNORED))
        sim_media_flush(&drive->media, before);
}

/* Lay pieces of writes in flight over what a read returns, each or not. */
static void read_in_flight(const struct sim_request *read)
{
    base_list_for_each(item, &read->drive->in_flight) {
        const struct sim_request *write = base_container_of(item, struct sim_request, link);
        if (write->op != DRIVE_WRITE || write->completed)
            continue;
        uint64_t begin = base_max(read->offset, write->offset);
        uint64_t end = base_min(read->offset + read->bytes, write->offset + write->bytes);
        while (begin < end) {
            struct sim_piece piece = piece_of(write, begin);
            size_t bytes = base_min(piece.bytes, end - begin);
            if (base_random_below(sim_drive_random(read->drive), 2) == 0)
                memcpy(read->data + (begin - read->offset), piece.data, bytes);
            begin += bytes;
        }
    }
}

/* Each sector as it was when the read was posted, as it is now, or as it will be. */
static void read_pieces(const struct sim_request *request)
{
    struct sim_piece piece;
    for (uint64_t at = request->offset; at < request->offset + request->bytes; at += piece.bytes) {
        piece = piece_of(request, at);
        uint8_t now[SIM_SECTOR_BYTES];
        sim_media_read(&request->drive->media, at, now, piece.bytes);
        if (memcmp(now, piece.data, piece.bytes) != 0 &&
            base_random_below(sim_drive_random(request->drive), 2) == 0)
            memcpy(request->data + (at - request->offset), now, piece.bytes);
    }
    read_in_flight(request);
}

/* Damage one sector of what a read returns, and remember which. */
static void damage_piece(const struct sim_request *request)
{
    struct sim_drive *drive = request->drive;
    struct base_random *random = sim_drive_random(drive);
    uint64_t at = request->offset + base_random_below(random, request->bytes);
    struct sim_piece piece =
        piece_of(request, base_max(base_align_down(at, SIM_SECTOR_BYTES), request->offset));
    uint8_t *victim = request->data + (piece.offset - request->offset);
    uint8_t before[SIM_SECTOR_BYTES];
    memcpy(before, victim, piece.bytes);
    enum sim_damage_kind kind = (enum sim_damage_kind)base_random_below(random, 3);
    if (kind == SIM_DAMAGE_ZERO) {
        memset(victim, 0, piece.bytes);
    } else if (kind == SIM_DAMAGE_STALE) {
        uint8_t old[SIM_SECTOR_BYTES];
        sim_media_read_durable(&drive->media, piece.offset / SIM_SECTOR_BYTES, old);
        memcpy(victim, old + piece.offset % SIM_SECTOR_BYTES, piece.bytes);
    }
    if (memcmp(before, victim, piece.bytes) == 0) {
        kind = SIM_DAMAGE_FLIP;
        victim[base_random_below(random, piece.bytes)] ^= (uint8_t)(1u << base_random_below(random, 8));
    }
    drive->damaged = true;
    drive->damage = (struct sim_damage){
        .kind = kind,
        .offset = base_align_down(piece.offset, SIM_SECTOR_BYTES),
    };
    sim_note(drive->world, "damage", (uint64_t)kind, drive->damage.offset);
}

static void complete_read(struct sim_request *request)
{
    struct sim_drive *drive = request->drive;
    if (request->result != 0)
        return;
    if (drive->media.changes != request->changes_before || drive->writes_in_flight > 0)
        read_pieces(request);
    if (strikes(drive, SIM_FAULT_READ_DAMAGE))
        damage_piece(request);
    const uint8_t *data = request->data;
    for (uint32_t i = 0; i < request->request->iov_count; i++) {
        const struct iovec *part = &request->request->iov[i];
        memcpy(part->iov_base, data, part->iov_len);
        data += part->iov_len;
    }
}

void sim_request_take_effect(struct sim_request *request)
{
    if (request->drive->lost)
        request->result = -ENODEV;
    switch (request->op) {
    case DRIVE_READ:
        complete_read(request);
        break;
    case DRIVE_WRITE:
        complete_write(request);
        break;
    case DRIVE_FLUSH:
        complete_flush(request);
        break;
    case DRIVE_DISCARD:
        complete_discard(request);
        break;
    }
    request->completed = true;
}
