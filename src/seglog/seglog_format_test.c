/*
 * The bytes: is what was written read back, is everything else refused, and are the rules of the tables kept?
 * Every field of a superblock is broken on purpose.
 */
#include "seglog/testing.h"

/* A superblock that is right in every respect: 16 segments of 128 KiB. */
static struct seglog_superblock_format good_superblock(void)
{
    struct seglog_superblock_format superblock = {
        .identity = {1, 2},
        .hash_seed = 3,
        .check_seed = UINT64_C(0x123456789abcdef0),
        .state_offset = 8192,
        .state_bytes = 4096,
        .data_offset = UINT64_C(8192) + 4 * 4096,
        .segment_bytes = SEGLOG_SEGMENT_BYTES_MIN,
        .segment_count = 16,
        .block_bytes = 4096,
        .grain_bytes = 64,
        .record_bytes_max = (uint32_t)SEGLOG_SEGMENT_BYTES_MIN - 64 - 4096,
        .owner_kind = SEGLOG_OWNER_DEPOT,
        .one = 1,
    };
    superblock.store_bytes = superblock.data_offset + 16 * superblock.segment_bytes;
    seglog_superblock_seal(&superblock);
    return superblock;
}

/* @return what parsing says of it once it is sealed */
static int judge(struct seglog_superblock_format superblock)
{
    struct seglog_superblock_format parsed;
    memset(&parsed, 0x5c, sizeof(parsed));
    const char *wrong = NULL;
    seglog_superblock_seal(&superblock);
    int error = seglog_superblock_parse(&superblock, &parsed, &wrong);
    if (error == 0) {
        assert_memory_equal(&parsed, &superblock, sizeof(parsed));
        assert_null(wrong);
    } else {
        assert_int_equal(parsed.check, 0x5c5c5c5c); /* untouched */
        assert_non_null(wrong);
    }
    return error;
}

#define assert_judged(expected, change)                                                                      \
    do {                                                                                                     \
        struct seglog_superblock_format superblock = good_superblock();                                      \
        change;                                                                                              \
        assert_int_equal(judge(superblock), expected);                                                       \
    } while (0)

static void a_good_superblock_is_read_back(void **state)
{
    (void)state;
    assert_judged(0, (void)0);
    assert_judged(0, superblock.compatible = UINT64_MAX);
    assert_judged(0, superblock.read_only_compatible = 1); /* the opening's matter */
    assert_judged(0, superblock.owner_kind = 9);
    assert_judged(0, superblock.owner[63] = 9);
    assert_judged(0, superblock.record_bytes_max = 4096);
    assert_judged(0, (superblock.state_bytes += 4096, superblock.data_offset += 4 * 4096,
                      superblock.store_bytes += 4 * 4096));
}

static void every_damaged_bit_of_a_superblock_shows(void **state)
{
    (void)state;
    struct seglog_superblock_format superblock = good_superblock(), parsed;
    uint8_t *bytes = (uint8_t *)&superblock;
    const char *wrong;
    for (size_t bit = 0; bit < 8 * sizeof(superblock); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(seglog_superblock_parse(bytes, &parsed, &wrong), -EUCLEAN);
        assert_non_null(strstr(wrong, bit < 64 ? "not a Tarn store" : "damaged"));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void other_formats_are_told_apart(void **state)
{
    (void)state;
    assert_judged(-ENOTSUP, superblock.incompatible = SEGLOG_FEATURES + 1);
    assert_judged(-ENOTSUP, superblock.one = 2);
    assert_judged(-ENOTSUP, superblock.one = 0);
    assert_judged(-ENOTSUP, superblock.reserved1[0] = 1);
    assert_judged(-ENOTSUP, superblock.reserved1[1] = 1);
    assert_judged(-ENOTSUP, superblock.reserved2 = 1);
    assert_judged(-ENOTSUP, superblock.reserved3 = 1);
    static const struct {
        uint32_t version;
        const char *why;
    } versions[] = {{0, "get what is in it"}, {2, "newer version"}, {UINT32_MAX, "newer version"}};
    for (size_t i = 0; i < base_array_count(versions); i++) {
        struct seglog_superblock_format superblock = good_superblock(), parsed;
        const char *wrong;
        superblock.version = versions[i].version;
        superblock.check = 0;
        superblock.segment_count = 0; /* what another version means by it is not judged */
        superblock.check = base_crc32c(0, &superblock, sizeof(superblock));
        assert_int_equal(seglog_superblock_parse(&superblock, &parsed, &wrong), -ENOTSUP);
        assert_non_null(strstr(wrong, versions[i].why));
    }
}

static void every_impossible_geometry_is_refused(void **state)
{
    (void)state;
    /* units */
    assert_judged(-EUCLEAN, superblock.block_bytes = 0);
    assert_judged(-EUCLEAN, superblock.block_bytes = 2048);
    assert_judged(-EUCLEAN, superblock.block_bytes = 4097);
    assert_judged(-EUCLEAN, superblock.block_bytes = 131072);
    assert_judged(-EUCLEAN, superblock.block_bytes = 8192); /* the areas do not begin at such blocks */
    assert_judged(-EUCLEAN, superblock.grain_bytes = 0);
    assert_judged(-EUCLEAN, superblock.grain_bytes = 16);
    assert_judged(-EUCLEAN, superblock.grain_bytes = 65);
    assert_judged(-EUCLEAN, superblock.grain_bytes = 1024);
    assert_judged(-EUCLEAN, superblock.segment_bytes = 0);
    assert_judged(-EUCLEAN, superblock.segment_bytes = SEGLOG_SEGMENT_BYTES_MIN / 2);
    assert_judged(-EUCLEAN, superblock.segment_bytes = SEGLOG_SEGMENT_BYTES_MIN + 4096);
    assert_judged(-EUCLEAN, superblock.segment_bytes = 2 * SEGLOG_SEGMENT_BYTES_MAX);
    assert_judged(-EUCLEAN, superblock.segment_bytes = UINT64_C(1) << 63);
    assert_judged(-EUCLEAN, superblock.segment_count = 0);
    assert_judged(-EUCLEAN, superblock.segment_count = SEGLOG_SEGMENTS_MIN - 1);
    assert_judged(-EUCLEAN, superblock.segment_count = SEGLOG_SEGMENTS_MAX + 1);
    assert_judged(-EUCLEAN, superblock.segment_count = UINT32_MAX);
    /* areas */
    assert_judged(-EUCLEAN, superblock.state_offset = 4096);
    assert_judged(-EUCLEAN, superblock.state_offset = 8193);
    assert_judged(-EUCLEAN, superblock.state_offset = 12288);
    assert_judged(-EUCLEAN, superblock.state_offset = UINT64_MAX - 4095);
    assert_judged(-EUCLEAN, superblock.state_bytes = 0);
    assert_judged(-EUCLEAN, superblock.state_bytes = 4095);
    assert_judged(-EUCLEAN, superblock.state_bytes = 8192);
    assert_judged(-EUCLEAN, superblock.state_bytes = UINT64_C(1) << 62);
    assert_judged(-EUCLEAN, superblock.state_bytes = 2 * SEGLOG_STATE_BYTES_MAX);
    assert_judged(-EUCLEAN, superblock.data_offset -= 4096);
    assert_judged(-EUCLEAN, superblock.data_offset += 1);
    assert_judged(-EUCLEAN, superblock.data_offset += 4096);
    assert_judged(-EUCLEAN, superblock.data_offset = UINT64_MAX - 4095);
    assert_judged(-EUCLEAN, superblock.store_bytes -= 4096);
    assert_judged(-EUCLEAN, superblock.store_bytes += 4096);
    assert_judged(-EUCLEAN, superblock.store_bytes = UINT64_MAX);
    assert_judged(-EUCLEAN, (superblock.data_offset = UINT64_MAX - 16 * superblock.segment_bytes + 1,
                             superblock.store_bytes = 0)); /* the sum wraps */
    /* records */
    assert_judged(-EUCLEAN, superblock.record_bytes_max = 0);
    assert_judged(-EUCLEAN, superblock.record_bytes_max = 4096 - 64);
    assert_judged(-EUCLEAN, superblock.record_bytes_max += 64);
    assert_judged(-EUCLEAN, superblock.record_bytes_max -= 1);
    assert_judged(-EUCLEAN, superblock.record_bytes_max = UINT32_MAX);
}

/* 600 segments need more than a block for their freed stamps. */
static void the_state_must_have_room(void **state)
{
    (void)state;
    struct seglog_superblock_format superblock = good_superblock();
    superblock.segment_count = 600;
    superblock.store_bytes = superblock.data_offset + 600 * superblock.segment_bytes;
    assert_int_equal(judge(superblock), -EUCLEAN);
    superblock.state_bytes = 8192;
    superblock.data_offset += 4 * UINT64_C(4096);
    superblock.store_bytes += 4 * UINT64_C(4096);
    assert_int_equal(judge(superblock), 0);
    static const uint32_t counts[] = {SEGLOG_SEGMENTS_MAX, SEGLOG_SEGMENTS_MAX + 1};
    for (size_t i = 0; i < base_array_count(counts); i++) {
        superblock.segment_count = counts[i];
        superblock.state_bytes = seglog_state_bytes(counts[i], 4096);
        superblock.data_offset = superblock.state_offset + 4 * superblock.state_bytes;
        superblock.store_bytes = superblock.data_offset + counts[i] * superblock.segment_bytes;
        assert_int_equal(judge(superblock), i == 0 ? 0 : -EUCLEAN);
    }
    assert_int_equal(seglog_state_bytes(496, 4096), 4096);
    assert_int_equal(seglog_state_bytes(497, 4096), 8192);
}

/* ---- state and segment headers --------------------------------------------------------------------- */

union slot {
    struct seglog_state_format state;
    uint8_t bytes[4096];
};

static union slot good_state(const struct seglog_superblock_format *superblock)
{
    union slot slot = {.bytes = {0}};
    slot.state.generation = 5;
    slot.state.session = 2;
    slot.state.sequence_bound = 100;
    slot.state.stamp_bound = 50;
    slot.state.flush_sequence = 100;
    slot.state.horizon_sequence = 7;
    slot.state.freed_stamps[15] = 49;
    seglog_state_seal(&slot.state, superblock);
    return slot;
}

static void states_verify_and_nothing_else(void **state)
{
    (void)state;
    struct seglog_superblock_format superblock = good_superblock();
    union slot slot = good_state(&superblock);
    assert_int_equal(seglog_state_verify(&slot.state, &superblock), 0);
    for (size_t byte = 0; byte < sizeof(slot); byte += byte < 300 ? 1 : 13) {
        slot.bytes[byte] ^= 0x20;
        assert_int_equal(seglog_state_verify(&slot.state, &superblock), -EUCLEAN);
        slot.bytes[byte] ^= 0x20;
    }
    struct seglog_superblock_format other = superblock;
    other.check_seed++;
    assert_int_equal(seglog_state_verify(&slot.state, &other), -EUCLEAN);
    other = superblock;
    other.segment_count--;
    assert_int_equal(seglog_state_verify(&slot.state, &other), -EUCLEAN);
    other.segment_count += 2; /* it has grown since */
    assert_int_equal(seglog_state_verify(&slot.state, &other), 0);
}

#define assert_state(expected, change)                                                                       \
    do {                                                                                                     \
        struct seglog_superblock_format superblock = good_superblock();                                      \
        union slot slot = good_state(&superblock);                                                           \
        struct seglog_state_format *s = &slot.state;                                                         \
        change;                                                                                              \
        seglog_state_seal(s, &superblock);                                                                   \
        assert_int_equal(seglog_state_verify(s, &superblock), expected);                                     \
    } while (0)

static void impossible_states_are_refused(void **state)
{
    (void)state;
    assert_state(-EUCLEAN, s->generation = 0);
    assert_state(-EUCLEAN, s->generation = UINT64_MAX);
    assert_state(-EUCLEAN, s->session = UINT64_MAX);
    assert_state(-EUCLEAN, s->sequence_bound = 0);
    assert_state(-EUCLEAN, s->sequence_bound = UINT64_MAX);
    assert_state(-EUCLEAN, s->stamp_bound = 0);
    assert_state(-EUCLEAN, s->stamp_bound = UINT64_MAX);
    assert_state(-EUCLEAN, s->flush_sequence = 101);
    assert_state(-EUCLEAN, s->horizon_sequence = 101);
    assert_state(-EUCLEAN, s->freed_stamps[0] = 50);
    assert_state(-EUCLEAN, s->freed_stamps[15] = UINT64_MAX);
}

static void segment_headers_verify_and_nothing_else(void **state)
{
    (void)state;
    struct seglog_segment_format header = {.stamp = 3, .session = 1, .segment = 4, .kind = 1, .stream = 1},
                                 found;
    seglog_segment_seal(&header, 77);
    assert_int_equal(seglog_segment_parse(&header, 77, 4, &found), 0);
    assert_memory_equal(&header, &found, sizeof(found));
    assert_int_equal(seglog_segment_parse(&header, 77, 5, &found), -EUCLEAN);
    assert_int_equal(seglog_segment_parse(&header, 78, 4, &found), -EUCLEAN);
    for (size_t bit = 0; bit < 8 * sizeof(header); bit++) {
        ((uint8_t *)&header)[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(seglog_segment_parse(&header, 77, 4, &found), -EUCLEAN);
        ((uint8_t *)&header)[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    static const uint32_t kinds[] = {0, 4, UINT32_MAX};
    for (size_t i = 0; i < base_array_count(kinds); i++) {
        header.kind = kinds[i];
        seglog_segment_seal(&header, 77);
        assert_int_equal(seglog_segment_parse(&header, 77, 4, &found), -EUCLEAN);
    }
    header.kind = 2;
    header.stamp = 0;
    seglog_segment_seal(&header, 77);
    assert_int_equal(seglog_segment_parse(&header, 77, 4, &found), -EUCLEAN);
}

/* ---- checkpoints ------------------------------------------------------------------------------------ */

static void parts_verify_and_nothing_else(void **state)
{
    (void)state;
    struct {
        struct seglog_part_format part;
        uint8_t data[100];
    } whole = {.part = {.stamp = 7, .number = 3, .bytes = 100}};
    struct seglog_part_format found;
    memset(whole.data, 5, sizeof(whole.data));
    seglog_part_seal(&whole.part, 77);
    assert_int_equal(seglog_part_verify(&whole, 140, 77, 7, 3, &found), 0);
    assert_memory_equal(&found, &whole.part, sizeof(found));
    assert_int_equal(seglog_part_verify(&whole, 139, 77, 7, 3, &found), -EBADMSG);
    assert_int_equal(seglog_part_verify(&whole, 140, 78, 7, 3, &found), -EBADMSG);
    assert_int_equal(seglog_part_verify(&whole, 140, 77, 8, 3, &found), -EBADMSG);
    assert_int_equal(seglog_part_verify(&whole, 140, 77, 7, 4, &found), -EBADMSG);
    for (size_t bit = 0; bit < 8 * 140; bit++) {
        ((uint8_t *)&whole)[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(seglog_part_verify(&whole, 140, 77, 7, 3, &found), -EBADMSG);
        ((uint8_t *)&whole)[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void coverage_must_be_possible(void **state)
{
    (void)state;
    struct seglog_superblock_format superblock = good_superblock();
    struct seglog_coverage_format coverage = {.segments = superblock.segment_count}, head;
    seglog_coverage_seal(&coverage);
    assert_int_equal(seglog_coverage_parse(&coverage, &superblock, &head), 0);
    coverage.segments++;
    assert_int_equal(seglog_coverage_parse(&coverage, &superblock, &head), -EBADMSG);
    coverage.segments--;
    coverage.magic++;
    assert_int_equal(seglog_coverage_parse(&coverage, &superblock, &head), -EBADMSG);
    const struct seglog_cover_format good = {
        .stamp = 1, .grain = SEGLOG_COVERED_WHOLLY, .flags = SEGLOG_COVER_PROVEN, .entries = 3, .end = 4096};
    struct seglog_cover_format found;
    assert_int_equal(seglog_cover_parse(&good, &superblock, &found), 0);
    for (int wrong = 0; wrong < 5; wrong++) {
        struct seglog_cover_format bad = good;
        bad.entries = wrong == 0 ? UINT32_MAX : bad.entries;
        bad.end = wrong == 1 ? (uint32_t)superblock.segment_bytes + 1 : bad.end;
        bad.highest_sequence = wrong == 2 ? UINT64_MAX : 0;
        bad.tombstone_bytes = wrong == 3 ? UINT64_MAX : 0;
        bad.grain = wrong == 4 ? 100 : bad.grain; /* what is only half covered is not proven */
        assert_int_equal(seglog_cover_parse(&bad, &superblock, &found), -EBADMSG);
    }
}

/* ---- records ---------------------------------------------------------------------------------------- */

static void records_prove_where_and_when(void **state)
{
    (void)state;
    struct seglog_record_format header = {
        .sequence = 9, .value_bytes = 5, .key_bytes = 3, .kind = SEGLOG_VALUE};
    struct seglog_record_format found;
    uint64_t seed = seglog_record_seed(5, 12), bytes_max = 48;
    seglog_record_seal(&header, seed, 1000);
    assert_int_equal(seglog_record_parse(&header, 40, seed, 1000, (uint32_t)bytes_max, &found), 0);
    assert_memory_equal(&header, &found, sizeof(found));
    assert_int_equal(seglog_record_parse(&header, 39, seed, 1000, 48, &found), -EBADMSG);
    assert_int_equal(seglog_record_parse(&header, 40, seed, 1000, 47, &found), -EBADMSG);
    assert_int_equal(seglog_record_parse(&header, 40, seed, 1001, 48, &found), -EBADMSG);
    assert_int_equal(seglog_record_parse(&header, 40, seglog_record_seed(5, 13), 1000, 48, &found), -EBADMSG);
    assert_int_equal(seglog_record_parse(&header, 40, seglog_record_seed(6, 12), 1000, 48, &found), -EBADMSG);
    for (size_t bit = 0; bit < 8 * sizeof(header); bit++) {
        ((uint8_t *)&header)[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(seglog_record_parse(&header, 40, seed, 1000, 48, &found), -EBADMSG);
        ((uint8_t *)&header)[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static int judge_record(struct seglog_record_format header)
{
    struct seglog_record_format found;
    seglog_record_seal(&header, 1, 2);
    return seglog_record_parse(&header, 4096, 1, 2, SEGLOG_RECORD_BYTES_MAX, &found);
}

static void impossible_records_are_refused(void **state)
{
    (void)state;
    const struct seglog_record_format good = {
        .sequence = 9, .value_bytes = SEGLOG_BIRTH_BYTES, .key_bytes = 3, .kind = SEGLOG_VALUE};
    struct seglog_record_format header = good;
    assert_int_equal(judge_record(header), 0);
    header.key_bytes = 0;
    assert_int_equal(judge_record(header), -EBADMSG);
    header = good;
    header.sequence = 0;
    assert_int_equal(judge_record(header), -EBADMSG);
    header = good;
    header.value_bytes = UINT32_MAX; /* no sum wraps */
    assert_int_equal(judge_record(header), -EBADMSG);
    static const uint8_t marks_good[] = {0, SEGLOG_MARK_BATCH, SEGLOG_MARK_COMMIT,
                                         SEGLOG_MARK_BATCH | SEGLOG_MARK_COMMIT};
    for (unsigned kind = 0; kind < 256; kind++) {
        header = good;
        header.kind = (uint8_t)kind;
        unsigned without_note = kind & ~((unsigned)SEGLOG_NOTE_MAX << SEGLOG_NOTE_SHIFT);
        bool possible = false;
        for (size_t i = 0; i < base_array_count(marks_good); i++)
            possible = possible || without_note == (marks_good[i] | SEGLOG_VALUE) ||
                       kind == (marks_good[i] | SEGLOG_TOMBSTONE);
        possible = possible || without_note == (SEGLOG_MARK_PIECE | SEGLOG_VALUE) ||
                   without_note == (SEGLOG_MARK_HEAD | SEGLOG_VALUE);
        assert_int_equal(judge_record(header), possible ? 0 : -EBADMSG);
        header.key_bytes = sizeof(struct base_hash128); /* a nameless tombstone has a hash, nothing else */
        possible = possible || kind == (SEGLOG_TOMBSTONE | SEGLOG_NAMELESS);
        assert_int_equal(judge_record(header), possible ? 0 : -EBADMSG);
    }
    header = good;
    header.kind = SEGLOG_TOMBSTONE;
    header.value_bytes = 7;
    assert_int_equal(judge_record(header), -EBADMSG);
    assert_int_equal(seglog_record_bytes(SEGLOG_VALUE, 3, 5), 48);
    assert_int_equal(seglog_record_bytes(SEGLOG_VALUE | SEGLOG_MARK_HEAD, 3, 5), 64);
}

static void bodies_verify_and_nothing_else(void **state)
{
    (void)state;
    static const uint8_t kinds[] = {SEGLOG_VALUE, SEGLOG_VALUE | SEGLOG_MARK_BATCH};
    static const uint32_t value_sizes[] = {0, 1, 700};
    for (size_t i = 0; i < base_array_count(kinds) * base_array_count(value_sizes); i++) {
        uint8_t record[1024];
        for (size_t byte = 0; byte < sizeof(record); byte++)
            record[byte] = (uint8_t)(byte * 7);
        struct seglog_record_format header = {
            .sequence = 9, .value_bytes = value_sizes[i % 3], .key_bytes = 5, .kind = kinds[i / 3]};
        size_t front = sizeof(header) + seglog_extension_bytes(header.kind) + 5;
        size_t end = front + header.value_bytes;
        header.body_check = seglog_body_check(record + sizeof(header), front - sizeof(header), record + front,
                                              header.value_bytes, 11, header.sequence);
        assert_int_equal(seglog_record_verify_body(record, &header, 11), 0);
        assert_int_equal(seglog_record_verify_body(record, &header, 12), -EBADMSG);
        for (size_t byte = sizeof(header); byte <= end; byte++) {
            record[byte] ^= 1;
            assert_int_equal(seglog_record_verify_body(record, &header, 11), byte < end ? -EBADMSG : 0);
            record[byte] ^= 1;
        }
        header.sequence++;
        assert_int_equal(seglog_record_verify_body(record, &header, 11), -EBADMSG);
    }
}

static void expiries_are_rounded_up(void **state)
{
    (void)state;
    static const struct {
        uint64_t ns, packed;
    } cases[] = {{0, 0},
                 {1, 1},
                 {SEGLOG_EXPIRY_UNIT_NS, 1},
                 {SEGLOG_EXPIRY_UNIT_NS + 1, 2},
                 {SEGLOG_EXPIRY_MAX * SEGLOG_EXPIRY_UNIT_NS, SEGLOG_EXPIRY_MAX},
                 {SEGLOG_EXPIRY_MAX * SEGLOG_EXPIRY_UNIT_NS + 1, SEGLOG_EXPIRY_MAX},
                 {UINT64_MAX, SEGLOG_EXPIRY_MAX}};
    for (size_t i = 0; i < base_array_count(cases); i++) {
        uint64_t packed = seglog_expiry_pack(cases[i].ns);
        uint8_t expiry[8];
        assert_int_equal(packed, cases[i].packed);
        memcpy(expiry, &packed, sizeof(packed));
        assert_int_equal(seglog_expiry_ns(expiry), packed * SEGLOG_EXPIRY_UNIT_NS);
    }
}

/* ---- summaries -------------------------------------------------------------------------------------- */

static void summaries_are_read_back(void **state)
{
    (void)state;
    struct seglog_superblock_format superblock = good_superblock();
    static uint8_t summary[8192];
    static const uint32_t counts[] = {0, 1, 84, 85}; /* one block, and two */
    for (size_t i = 0; i < base_array_count(counts); i++) {
        struct seglog_entry_format *entries = (void *)summary;
        memset(summary, 0xaa, sizeof(summary));
        memset(entries, 0, counts[i] * sizeof(*entries));
        for (uint32_t entry = 0; entry < counts[i]; entry++)
            entries[entry] = (struct seglog_entry_format){
                .sequence = 1000 - entry, .grain = 1 + 2 * entry, .bytes = 100, .kind = SEGLOG_VALUE};
        struct seglog_trailer_format trailer = {.stamp = 8,
                                                .session = 2,
                                                .entries = counts[i],
                                                .end = 64 + 200 * 128},
                                     found;
        uint64_t bytes = seglog_summary_bytes(counts[i], 4096);
        assert_int_equal(bytes, counts[i] < 85 ? 4096 : 8192);
        seglog_summary_seal(summary, &trailer, &superblock);
        assert_int_equal(trailer.highest_sequence, counts[i] == 0 ? 0 : 1000);
        const uint8_t *at = summary + bytes - sizeof(trailer);
        assert_int_equal(seglog_trailer_parse(at, &superblock, 8, &found), 0);
        assert_memory_equal(&found, &trailer, sizeof(found));
        assert_int_equal(seglog_summary_verify(summary, &found, &superblock), 0);
        assert_int_equal(seglog_trailer_parse(at, &superblock, 9, &found), -EUCLEAN);
        for (size_t byte = counts[i] * sizeof(*entries); byte < bytes - sizeof(trailer); byte++)
            assert_int_equal(summary[byte], 0);
    }
}

static void impossible_trailers_are_refused(void **state)
{
    (void)state;
    struct seglog_superblock_format superblock = good_superblock();
    uint8_t summary[4096] = {0};
    struct seglog_trailer_format trailer = {.stamp = 8}, found;
    const uint8_t *at = summary + sizeof(summary) - sizeof(trailer);
    trailer.end = (uint32_t)superblock.segment_bytes - 4096;
    seglog_summary_seal(summary, &trailer, &superblock);
    assert_int_equal(seglog_trailer_parse(at, &superblock, 8, &found), 0);
    trailer.end++;
    seglog_summary_seal(summary, &trailer, &superblock);
    assert_int_equal(seglog_trailer_parse(at, &superblock, 8, &found), -EUCLEAN);
    struct seglog_trailer_format *in_place = (void *)(summary + sizeof(summary) - sizeof(trailer));
    in_place->end = 0;
    in_place->entries = seglog_entries_max(&superblock) + 1;
    assert_int_equal(seglog_trailer_parse(at, &superblock, 8, &found), -EUCLEAN);
    in_place->entries = UINT32_MAX;
    assert_int_equal(seglog_trailer_parse(at, &superblock, 8, &found), -EUCLEAN);
    in_place->entries = 0;
    in_place->magic++;
    assert_int_equal(seglog_trailer_parse(at, &superblock, 8, &found), -EUCLEAN);
}

static void summaries_tell_their_highest_sequence(void **state)
{
    (void)state;
    struct seglog_superblock_format superblock = good_superblock();
    uint8_t summary[4096] = {0};
    struct seglog_entry_format *entries = (void *)summary;
    entries[0] = (struct seglog_entry_format){.sequence = 7, .grain = 1, .bytes = 41, .kind = SEGLOG_VALUE};
    struct seglog_trailer_format trailer = {.stamp = 8, .entries = 1, .end = 200};
    seglog_summary_seal(summary, &trailer, &superblock);
    trailer.highest_sequence = 8; /* somebody seals it with a lie */
    uint64_t seed = base_hash64(entries, sizeof(*entries), superblock.check_seed);
    trailer.check = base_hash64(&trailer.magic, sizeof(trailer) - sizeof(trailer.check), seed);
    assert_int_equal(seglog_summary_verify(summary, &trailer, &superblock), -EUCLEAN);
    trailer.highest_sequence = 7;
    trailer.check = base_hash64(&trailer.magic, sizeof(trailer) - sizeof(trailer.check), seed);
    assert_int_equal(seglog_summary_verify(summary, &trailer, &superblock), 0);
    trailer.end = 104; /* the record ends at 105 */
    trailer.check = base_hash64(&trailer.magic, sizeof(trailer) - sizeof(trailer.check), seed);
    assert_int_equal(seglog_summary_verify(summary, &trailer, &superblock), -EUCLEAN);
}

/* ---- pieces -------------------------------------------------------------------------------------- */

static void entries_tell_of_which_value_a_piece_is(void **state)
{
    (void)state;
    const struct seglog_pieces_format piece = {.id = 77, .number = 5, .piece_bytes = 1000};
    const struct seglog_pieces_format head = {.id = 77, .value_bytes = 5001, .piece_bytes = 1000};
    struct seglog_entry_format entry = {.superseded = 9, .kind = SEGLOG_VALUE};
    seglog_entry_take_pieces(&entry, NULL);
    assert_true(entry.superseded == 9 && entry.number == 0);
    entry.kind = SEGLOG_VALUE | SEGLOG_MARK_PIECE;
    seglog_entry_take_pieces(&entry, &piece);
    assert_true(entry.superseded == 77 && entry.number == 5);
    entry.kind = SEGLOG_VALUE | SEGLOG_MARK_HEAD;
    seglog_entry_take_pieces(&entry, &head);
    assert_true(entry.superseded == 77 && entry.number == 6);
    assert_int_equal(seglog_pieces_count(5000, 1000), 5);
    assert_int_equal(seglog_pieces_count(1, 0), 0); /* what a drive says may be anything */
}

/* A client that knows id and number, and stores just these bytes as a key, does not meet the piece. */
static void pieces_are_found_by_no_key(void **state)
{
    (void)state;
    struct {
        struct seglog_record_format header;
        struct seglog_pieces_format pieces;
        char key[4];
    } record = {.header = {.kind = SEGLOG_VALUE | SEGLOG_MARK_PIECE, .key_bytes = 1},
                .pieces = {.id = 77, .number = 5, .piece_bytes = 1000},
                .key = "key"};
    struct base_hash128 piece = seglog_record_hash(&record.header, &record, 3);
    struct base_hash128 same = seglog_piece_hash(77, 5, 3), other = seglog_piece_hash(77, 6, 3);
    struct base_hash128 bytes = base_hash128(&record.pieces, 12, 3);
    assert_true(piece.low == same.low && piece.high == same.high);
    assert_true(piece.low != other.low && piece.low != bytes.low);
    record.header.kind = SEGLOG_VALUE | SEGLOG_MARK_HEAD; /* a head is found by its key */
    record.header.key_bytes = 3;
    struct base_hash128 head = seglog_record_hash(&record.header, &record, 3);
    assert_true(head.low == base_hash128("key", 3, 3).low);
}

/* It hides what its hash says, though nobody knows the key. */
static void a_nameless_tombstone_is_found_by_the_hash_that_it_has(void **state)
{
    (void)state;
    struct {
        struct seglog_record_format header;
        uint64_t hash[2];
    } record = {.header = {.kind = SEGLOG_TOMBSTONE | SEGLOG_NAMELESS, .key_bytes = sizeof(record.hash)},
                .hash = {77, 88}};
    struct base_hash128 hash = seglog_record_hash(&record.header, &record, 3);
    assert_true(hash.low == 77 && hash.high == 88);
    record.header.kind = SEGLOG_TOMBSTONE; /* of a key that looks like it */
    hash = seglog_record_hash(&record.header, &record, 3);
    assert_true(hash.low == base_hash128(record.hash, sizeof(record.hash), 3).low);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_superblock_is_read_back),
        cmocka_unit_test(every_damaged_bit_of_a_superblock_shows),
        cmocka_unit_test(other_formats_are_told_apart),
        cmocka_unit_test(every_impossible_geometry_is_refused),
        cmocka_unit_test(the_state_must_have_room),
        cmocka_unit_test(states_verify_and_nothing_else),
        cmocka_unit_test(impossible_states_are_refused),
        cmocka_unit_test(segment_headers_verify_and_nothing_else),
        cmocka_unit_test(parts_verify_and_nothing_else),
        cmocka_unit_test(coverage_must_be_possible),
        cmocka_unit_test(records_prove_where_and_when),
        cmocka_unit_test(impossible_records_are_refused),
        cmocka_unit_test(bodies_verify_and_nothing_else),
        cmocka_unit_test(expiries_are_rounded_up),
        cmocka_unit_test(summaries_are_read_back),
        cmocka_unit_test(impossible_trailers_are_refused),
        cmocka_unit_test(summaries_tell_their_highest_sequence),
        cmocka_unit_test(entries_tell_of_which_value_a_piece_is),
        cmocka_unit_test(pieces_are_found_by_no_key),
        cmocka_unit_test(a_nameless_tombstone_is_found_by_the_hash_that_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
