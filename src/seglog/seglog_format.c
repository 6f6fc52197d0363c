/* Writing and reading the format: whatever comes from the drive is checked before it is believed. */
#include "seglog/seglog_format.h"
#include "drive/drive.h"
#include <errno.h>

/* "TarnStor", "TarnStat", "TarnSegm", "TarnSumm", "TarnPart", "TarnCovr" */
#define SUPERBLOCK_MAGIC DRIVE_STORE_MAGIC
#define STATE_MAGIC      UINT64_C(0x746174536e726154)
#define SEGMENT_MAGIC    UINT64_C(0x6d6765536e726154)
#define SUMMARY_MAGIC    UINT64_C(0x6d6d75536e726154)
#define PART_MAGIC       UINT64_C(0x747261506e726154)
#define COVERAGE_MAGIC   UINT64_C(0x72766f436e726154)
#define GROUP_MAGIC      UINT32_C(0x70757247) /* "Grup" */

/* Bounds and generations count up from 1; what has come so far is damage, and sums with it cannot overflow.
 */
#define COUNTER_MAX (UINT64_C(1) << 62)

/* ---- superblock ------------------------------------------------------------------------------ */

static uint32_t superblock_check(const struct seglog_superblock_format *superblock)
{
    struct seglog_superblock_format copy = *superblock;
    copy.check = 0;
    return base_crc32c(0, &copy, sizeof(copy));
}

void seglog_superblock_seal(struct seglog_superblock_format *superblock)
{
    superblock->magic = SUPERBLOCK_MAGIC;
    superblock->version = SEGLOG_FORMAT_VERSION;
    superblock->check = superblock_check(superblock);
}

static bool is_power_within(uint64_t value, uint64_t low, uint64_t high)
{
    return base_is_power_of_two(value) && value >= low && value <= high;
}

static bool units_make_sense(const struct seglog_superblock_format *superblock)
{
    return is_power_within(superblock->block_bytes, SEGLOG_BLOCK_BYTES_MIN, SEGLOG_BLOCK_BYTES_MAX) &&
           is_power_within(superblock->grain_bytes, SEGLOG_GRAIN_BYTES_MIN, SEGLOG_GRAIN_BYTES_MAX) &&
           is_power_within(superblock->segment_bytes, SEGLOG_SEGMENT_BYTES_MIN, SEGLOG_SEGMENT_BYTES_MAX) &&
           superblock->segment_count >= SEGLOG_SEGMENTS_MIN &&
           superblock->segment_count <= SEGLOG_SEGMENTS_MAX;
}

/* Every term is bounded before it is used, so no sum wraps. */
static bool areas_make_sense(const struct seglog_superblock_format *superblock)
{
    uint32_t block_bytes = superblock->block_bytes;
    uint64_t state_bytes_min = seglog_state_bytes(superblock->segment_count, block_bytes);
    return superblock->state_offset >= SEGLOG_SUPERBLOCK_COPIES * SEGLOG_SUPERBLOCK_BYTES &&
           superblock->state_offset <= COUNTER_MAX &&
           base_is_aligned(superblock->state_offset, block_bytes) &&
           superblock->state_bytes >= state_bytes_min && superblock->state_bytes <= SEGLOG_STATE_BYTES_MAX &&
           base_is_aligned(superblock->state_bytes, block_bytes) && superblock->data_offset <= COUNTER_MAX &&
           base_is_aligned(superblock->data_offset, block_bytes) &&
           superblock->state_offset + SEGLOG_STATE_SLOTS * superblock->state_bytes <=
               superblock->data_offset &&
           superblock->store_bytes ==
               superblock->data_offset + superblock->segment_count * superblock->segment_bytes;
}

static bool records_make_sense(const struct seglog_superblock_format *superblock)
{
    return superblock->record_bytes_max >= SEGLOG_BLOCK_BYTES_MIN &&
           base_is_aligned(superblock->record_bytes_max, superblock->grain_bytes) &&
           superblock->record_bytes_max <= seglog_record_room(superblock);
}

/* Whether reserved fields have their values: a release that does not know their later meaning must not ignore them. */
static bool is_reserved_kept(const struct seglog_superblock_format *superblock)
{
    return superblock->one == 1 && superblock->reserved1[0] == 0 && superblock->reserved1[1] == 0 &&
           superblock->reserved2 == 0 && superblock->reserved3 == 0;
}

/* Whether this release can do anything with it. @return NULL: yes */
static const char *superblock_unknown(const struct seglog_superblock_format *superblock)
{
    if (superblock->version == 0)
        return "it was made in format 0, by a Tarn from before the first release: get what is in it with "
               "that "
               "one, and put it into a new store";
    if (superblock->version != SEGLOG_FORMAT_VERSION || (superblock->incompatible & ~SEGLOG_FEATURES) != 0 ||
        !is_reserved_kept(superblock))
        return "a newer version of Tarn made it, in a format that this one does not know: use that version";
    return NULL;
}

int seglog_superblock_parse(const void *bytes, struct seglog_superblock_format *ret_superblock,
                            const char **ret_wrong)
{
    struct seglog_superblock_format superblock;
    memcpy(&superblock, bytes, sizeof(superblock));
    const char *wrong = NULL;
    if (superblock.magic != SUPERBLOCK_MAGIC)
        wrong = drive_is_member(bytes)
                    ? "it is one drive of a stripe: name all its drives, with commas between: A,B,C"
                    : "it is not a Tarn store: name another; or make one, in place of all that is in it, "
                      "with tarn "
                      "format";
    else if (superblock.check != superblock_check(&superblock))
        wrong = "its superblock is damaged: restore it from a dump (tarn load), or a copy";
    if (wrong != NULL) {
        *ret_wrong = wrong;
        return -EUCLEAN;
    }
    const char *unknown = superblock_unknown(&superblock);
    if (unknown != NULL) {
        *ret_wrong = unknown;
        return -ENOTSUP;
    }
    if (!units_make_sense(&superblock) || !areas_make_sense(&superblock) ||
        !records_make_sense(&superblock)) {
        *ret_wrong = "its superblock contradicts itself";
        return -EUCLEAN;
    }
    *ret_superblock = superblock;
    return 0;
}

/* ---- state ----------------------------------------------------------------------------------- */

static uint64_t state_check(const struct seglog_state_format *state,
                            const struct seglog_superblock_format *superblock)
{
    uint64_t bytes = seglog_state_bytes(state->segment_count, superblock->block_bytes);
    return base_hash64(&state->magic, bytes - sizeof(state->check), superblock->check_seed);
}

void seglog_state_seal(struct seglog_state_format *state, const struct seglog_superblock_format *superblock)
{
    state->magic = STATE_MAGIC;
    state->segment_count = superblock->segment_count;
    state->check = state_check(state, superblock);
}

static bool counter_makes_sense(uint64_t counter)
{
    return counter > 0 && counter <= COUNTER_MAX;
}

int seglog_state_verify(const struct seglog_state_format *state,
                        const struct seglog_superblock_format *superblock)
{
    if (state->magic != STATE_MAGIC || state->segment_count > superblock->segment_count ||
        state->check != state_check(state, superblock) || !counter_makes_sense(state->generation) ||
        state->session > COUNTER_MAX || !counter_makes_sense(state->sequence_bound) ||
        !counter_makes_sense(state->stamp_bound) || state->flush_sequence > state->sequence_bound ||
        state->horizon_sequence > state->sequence_bound)
        return -EUCLEAN;
    for (uint32_t i = 0; i < state->segment_count; i++) {
        if (state->freed_stamps[i] >= state->stamp_bound)
            return -EUCLEAN;
    }
    return 0;
}

/* ---- segments -------------------------------------------------------------------------------- */

static uint64_t segment_check(const struct seglog_segment_format *header, uint64_t check_seed)
{
    return base_hash64(&header->magic, sizeof(*header) - sizeof(header->check), check_seed);
}

void seglog_segment_seal(struct seglog_segment_format *header, uint64_t check_seed)
{
    header->magic = SEGMENT_MAGIC;
    header->check = segment_check(header, check_seed);
}

int seglog_segment_parse(const void *bytes, uint64_t check_seed, uint32_t segment,
                         struct seglog_segment_format *ret_header)
{
    struct seglog_segment_format header;
    memcpy(&header, bytes, sizeof(header));
    if (header.magic != SEGMENT_MAGIC || header.check != segment_check(&header, check_seed) ||
        header.segment != segment || header.stamp == 0 || header.kind < SEGLOG_SEGMENT_RECORDS ||
        header.kind > SEGLOG_SEGMENT_CHECKPOINT)
        return -EUCLEAN;
    *ret_header = header;
    return 0;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static uint64_t part_check(const struct seglog_part_format *part, uint64_t check_seed)
{
    return base_hash64(&part->magic, sizeof(*part) - sizeof(part->check) + part->bytes, check_seed);
}

void seglog_part_seal(struct seglog_part_format *part, uint64_t check_seed)
{
    part->magic = PART_MAGIC;
    part->check = part_check(part, check_seed);
}

int seglog_part_verify(const void *bytes, uint64_t room, uint64_t check_seed, uint64_t stamp, uint32_t number,
                       struct seglog_part_format *ret_part)
{
    struct seglog_part_format part;
    memcpy(&part, bytes, sizeof(part));
    if (part.magic != PART_MAGIC || part.stamp != stamp || part.number != number ||
        part.bytes > room - sizeof(part) || part.check != part_check(bytes, check_seed))
        return -EBADMSG;
    *ret_part = part;
    return 0;
}

void seglog_coverage_seal(struct seglog_coverage_format *coverage)
{
    coverage->magic = COVERAGE_MAGIC;
}

int seglog_coverage_parse(const void *bytes, const struct seglog_superblock_format *superblock,
                          struct seglog_coverage_format *ret_coverage)
{
    struct seglog_coverage_format coverage;
    memcpy(&coverage, bytes, sizeof(coverage));
    if (coverage.magic != COVERAGE_MAGIC || coverage.segments > superblock->segment_count)
        return -EBADMSG;
    *ret_coverage = coverage;
    return 0;
}

int seglog_cover_parse(const void *bytes, const struct seglog_superblock_format *superblock,
                       struct seglog_cover_format *ret_cover)
{
    struct seglog_cover_format cover;
    memcpy(&cover, bytes, sizeof(cover));
    bool proven = (cover.flags & SEGLOG_COVER_PROVEN) != 0;
    if (cover.entries > seglog_entries_max(superblock) || cover.end > superblock->segment_bytes ||
        cover.highest_sequence > COUNTER_MAX || cover.tombstone_bytes > 2 * superblock->segment_bytes ||
        (proven && cover.grain != SEGLOG_COVERED_WHOLLY))
        return -EBADMSG;
    *ret_cover = cover;
    return 0;
}

/* ---- records --------------------------------------------------------------------------------- */

uint64_t seglog_record_seed(uint64_t check_seed, uint64_t stamp)
{
    return base_hash64(&stamp, sizeof(stamp), check_seed);
}

uint64_t seglog_expiry_pack(uint64_t expiry_ns)
{
    uint64_t units = expiry_ns / SEGLOG_EXPIRY_UNIT_NS + (expiry_ns % SEGLOG_EXPIRY_UNIT_NS != 0);
    return base_min(units, SEGLOG_EXPIRY_MAX);
}

uint32_t seglog_body_check(const void *front, size_t front_bytes, const void *value, size_t value_bytes,
                           uint64_t check_seed, uint64_t sequence)
{
    uint64_t check = base_hash64(front, front_bytes, check_seed + sequence);
    return (uint32_t)base_hash64(value, value_bytes, check);
}

uint32_t seglog_body_check_copy(const void *front, size_t front_bytes, const struct iovec *to,
                                const void *value, size_t value_bytes, uint64_t check_seed, uint64_t sequence)
{
    uint64_t check = base_hash64(front, front_bytes, check_seed + sequence);
    return (uint32_t)base_hash64_copy(to, value, value_bytes, check);
}

static uint32_t header_check(const struct seglog_record_format *header, uint64_t record_seed, uint64_t grain)
{
    return (uint32_t)base_hash64(&header->body_check, sizeof(*header) - sizeof(header->header_check),
                                 record_seed + grain);
}

void seglog_record_seal(struct seglog_record_format *header, uint64_t record_seed, uint64_t grain)
{
    header->header_check = header_check(header, record_seed, grain);
}

/* The extension has room for one thing: marks of batches and of pieces exclude each other. */
static bool kind_makes_sense(uint8_t kind)
{
    uint8_t marks = kind & SEGLOG_MARKS_MASK;
    bool of_batch = (marks & ~(SEGLOG_MARK_BATCH | SEGLOG_MARK_COMMIT)) == 0;
    switch (kind & SEGLOG_KIND_MASK) {
    case SEGLOG_VALUE:
        return of_batch || marks == SEGLOG_MARK_PIECE || marks == SEGLOG_MARK_HEAD;
    case SEGLOG_TOMBSTONE:
        return (of_batch && seglog_note(kind) == 0) || seglog_is_nameless(kind);
    default:
        return false;
    }
}

static bool record_makes_sense(const struct seglog_record_format *header, uint32_t record_bytes_max)
{
    bool tombstone = (header->kind & SEGLOG_KIND_MASK) == SEGLOG_TOMBSTONE;
    return kind_makes_sense(header->kind) && header->sequence > 0 && header->key_bytes > 0 &&
           (!tombstone || header->value_bytes == SEGLOG_BIRTH_BYTES) &&
           (!seglog_is_nameless(header->kind) || header->key_bytes == sizeof(struct base_hash128)) &&
           seglog_record_bytes(header->kind, header->key_bytes, header->value_bytes) <= record_bytes_max;
}

int seglog_record_parse(const void *bytes, uint64_t room, uint64_t record_seed, uint64_t grain,
                        uint32_t record_bytes_max, struct seglog_record_format *ret_header)
{
    struct seglog_record_format header;
    if (room < sizeof(header))
        return -EBADMSG;
    memcpy(&header, bytes, sizeof(header));
    if (header.header_check != header_check(&header, record_seed, grain) ||
        !record_makes_sense(&header, record_bytes_max))
        return -EBADMSG;
    *ret_header = header;
    return 0;
}

int seglog_record_verify_body(const void *record, const struct seglog_record_format *header,
                              uint64_t check_seed)
{
    const uint8_t *front = (const uint8_t *)record + sizeof(*header);
    size_t front_bytes = seglog_extension_bytes(header->kind) + (size_t)header->key_bytes;
    uint32_t check = seglog_body_check(front, front_bytes, front + front_bytes, header->value_bytes,
                                       check_seed, header->sequence);
    return check == header->body_check ? 0 : -EBADMSG;
}

int seglog_record_verify(const void *bytes, uint64_t room, uint64_t record_seed, uint64_t grain,
                         const struct seglog_superblock_format *superblock,
                         struct seglog_record_format *ret_header)
{
    struct seglog_record_format header;
    if (seglog_record_parse(bytes, room, record_seed, grain, superblock->record_bytes_max, &header) != 0 ||
        seglog_record_bytes(header.kind, header.key_bytes, header.value_bytes) > room ||
        seglog_record_verify_body(bytes, &header, superblock->check_seed) != 0)
        return -EBADMSG;
    *ret_header = header;
    return 0;
}

struct base_hash128 seglog_piece_hash(uint64_t id, uint32_t number, uint64_t hash_seed)
{
    const struct seglog_pieces_format pieces = {.id = id, .number = number};
    return base_hash128(&pieces, offsetof(struct seglog_pieces_format, piece_bytes), hash_seed + 1);
}

struct base_hash128 seglog_record_hash(const struct seglog_record_format *header, const void *record,
                                       uint64_t hash_seed)
{
    const uint8_t *front = (const uint8_t *)record + sizeof(*header);
    if (seglog_is_nameless(header->kind))
        return (struct base_hash128){.low = base_load_le64(front),
                                     .high = base_load_le64(front + sizeof(uint64_t))};
    if ((header->kind & SEGLOG_MARK_PIECE) == 0)
        return base_hash128(front + seglog_extension_bytes(header->kind), header->key_bytes, hash_seed);
    struct seglog_pieces_format pieces;
    memcpy(&pieces, front, sizeof(pieces));
    return seglog_piece_hash(pieces.id, pieces.number, hash_seed);
}

void seglog_entry_take_pieces(struct seglog_entry_format *entry, const void *extension)
{
    struct seglog_pieces_format pieces;
    if ((entry->kind & SEGLOG_MARKS_PIECES) == 0)
        return;
    memcpy(&pieces, extension, sizeof(pieces));
    entry->superseded = pieces.id;
    entry->number = (uint16_t)((entry->kind & SEGLOG_MARK_PIECE) != 0
                                   ? pieces.number
                                   : seglog_pieces_count(pieces.value_bytes, pieces.piece_bytes));
}

bool seglog_entry_tells_of(const struct seglog_entry_format *entry, const struct seglog_record_format *header)
{
    return entry->sequence == header->sequence && entry->kind == header->kind &&
           entry->bytes == seglog_record_bytes(header->kind, header->key_bytes, header->value_bytes) &&
           memcmp(entry->expiry, header->expiry, sizeof(entry->expiry)) == 0;
}

/* ---- group ends ------------------------------------------------------------------------------ */

static uint64_t group_end_check(const struct seglog_group_end_format *end, uint64_t record_seed,
                                uint64_t grain)
{
    return base_hash64(&end->magic, sizeof(*end) - sizeof(end->check), record_seed + grain);
}

void seglog_group_end_seal(struct seglog_group_end_format *end, uint64_t record_seed, uint64_t grain)
{
    end->magic = GROUP_MAGIC;
    end->check = group_end_check(end, record_seed, grain);
}

int seglog_group_end_parse(const void *bytes, uint64_t record_seed, uint64_t grain, uint64_t place,
                           struct seglog_group_end_format *ret_end)
{
    struct seglog_group_end_format end;
    memcpy(&end, bytes, sizeof(end));
    if (end.magic != GROUP_MAGIC || end.check != group_end_check(&end, record_seed, grain) ||
        end.begin > place || end.acknowledged > end.begin)
        return -EBADMSG;
    *ret_end = end;
    return 0;
}

/* ---- summary --------------------------------------------------------------------------------- */

/* As if summaries were not rounded to blocks, and the last record ended where it ends: never too few. */
uint32_t seglog_entries_max(const struct seglog_superblock_format *superblock)
{
    uint64_t room = superblock->segment_bytes - seglog_segment_header_bytes(superblock->grain_bytes) -
                    sizeof(struct seglog_trailer_format);
    uint64_t record_bytes = base_align_up(SEGLOG_RECORD_BYTES_MIN, superblock->grain_bytes);
    return (uint32_t)((room + record_bytes - SEGLOG_RECORD_BYTES_MIN) /
                      (record_bytes + sizeof(struct seglog_entry_format)));
}

uint64_t seglog_record_room(const struct seglog_superblock_format *superblock)
{
    return superblock->segment_bytes - seglog_segment_header_bytes(superblock->grain_bytes) -
           seglog_summary_bytes(1, superblock->block_bytes);
}

static uint64_t summary_check(const struct seglog_entry_format *entries,
                              const struct seglog_trailer_format *trailer,
                              const struct seglog_superblock_format *superblock)
{
    uint64_t seed = base_hash64(entries, trailer->entries * sizeof(*entries), superblock->check_seed);
    return base_hash64(&trailer->magic, sizeof(*trailer) - sizeof(trailer->check), seed);
}

void seglog_summary_seal(void *summary, struct seglog_trailer_format *trailer,
                         const struct seglog_superblock_format *superblock)
{
    uint8_t *bytes = summary;
    const struct seglog_entry_format *entries = summary;
    uint64_t summary_bytes = seglog_summary_bytes(trailer->entries, superblock->block_bytes);
    uint64_t entries_bytes = trailer->entries * sizeof(*entries);
    trailer->highest_sequence = 0;
    for (uint32_t i = 0; i < trailer->entries; i++)
        trailer->highest_sequence = base_max(trailer->highest_sequence, entries[i].sequence);
    trailer->magic = SUMMARY_MAGIC;
    memset(bytes + entries_bytes, 0, summary_bytes - entries_bytes);
    trailer->check = summary_check(entries, trailer, superblock);
    memcpy(bytes + summary_bytes - sizeof(*trailer), trailer, sizeof(*trailer));
}

int seglog_trailer_parse(const void *bytes, const struct seglog_superblock_format *superblock, uint64_t stamp,
                         struct seglog_trailer_format *ret_trailer)
{
    struct seglog_trailer_format trailer;
    memcpy(&trailer, bytes, sizeof(trailer));
    if (trailer.magic != SUMMARY_MAGIC || trailer.stamp != stamp ||
        trailer.entries > seglog_entries_max(superblock) ||
        trailer.end + seglog_summary_bytes(trailer.entries, superblock->block_bytes) >
            superblock->segment_bytes)
        return -EUCLEAN;
    *ret_trailer = trailer;
    return 0;
}

static bool entry_makes_sense(const struct seglog_entry_format *entry,
                              const struct seglog_superblock_format *superblock)
{
    return kind_makes_sense(entry->kind) && entry->sequence > 0 && entry->bytes >= SEGLOG_RECORD_BYTES_MIN &&
           entry->bytes <= superblock->record_bytes_max;
}

int seglog_summary_verify(const void *summary, const struct seglog_trailer_format *trailer,
                          const struct seglog_superblock_format *superblock)
{
    const struct seglog_entry_format *entries = summary;
    if (trailer->check != summary_check(entries, trailer, superblock))
        return -EUCLEAN;
    uint64_t end = seglog_segment_header_bytes(superblock->grain_bytes);
    uint64_t highest_sequence = 0;
    for (uint32_t i = 0; i < trailer->entries; i++) {
        uint64_t begin = entries[i].grain * (uint64_t)superblock->grain_bytes;
        if (begin < end || !entry_makes_sense(&entries[i], superblock))
            return -EUCLEAN;
        end = begin + entries[i].bytes;
        highest_sequence = base_max(highest_sequence, entries[i].sequence);
    }
    bool fits = trailer->entries == 0 || end <= trailer->end;
    return fits && highest_sequence == trailer->highest_sequence ? 0 : -EUCLEAN;
}
