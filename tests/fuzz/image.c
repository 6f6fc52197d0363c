/*
 * Any bytes as the image of a drive: a store opens on it or says why not, to be read and to be written, is
 * scanned, checked and written to, and does nothing that it must not. Checks would refuse nearly everything,
 * so the input is a list of edits to the image of a good store, after which what the edit was made in is
 * sealed again, or not.
 */
#include "depot/depot.h"
#include "seglog/seglog_format.h"
#include "testing.h"
#include <errno.h>
#include <stdlib.h>
#include <tarn/depot.h>

#define IMAGE_BYTES  (UINT64_C(7) << 18)
#define IMAGES       3
#define EDITS_MAX    64
#define MEMORY_BYTES (UINT64_C(512) << 20)
#define VALUE_BYTES  40000
#define LONG_BYTES   70000 /* in pieces */
#define LONG_KEY     31
#define RECORDS_MAX  4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct image {
    uint8_t *bytes;
    bool repairs;                               /* it is repaired before it is used */
    struct seglog_superblock_format superblock; /* as it was made */
};

/* ---- running in a task -------------------------------------------------------------------------- */

struct run {
    struct image *image;
    struct tarn_node *node;
    struct task_sched *sched;
    void (*function)(struct run *run);
};

static void run_task(void *arg)
{
    struct run *run = arg;
    run->function(run);
    task_sched_stop(run->sched);
}

static void run_on(struct image *image, void (*function)(struct run *run))
{
    struct fuzz_drive drive = {.bytes = image->bytes, .size = IMAGE_BYTES};
    struct run run = {.image = image, .function = function};
    fuzz_begin(&drive, MEMORY_BYTES, BASE_LOG_DEBUG, &run.node, &run.sched);
    base_assert(task_spawn(run.sched, NULL, "run", run_task, &run) == 0);
    fuzz_end(run.node, run.sched);
}

/* ---- good stores -------------------------------------------------------------------------------- */

static int put(struct tarn_depot *depot, uint32_t key, size_t bytes, uint64_t expiry_ns)
{
    static uint8_t value[LONG_BYTES];
    const struct tarn_put_options options = {.expiry_ns = expiry_ns, .client_flags = key};
    memset(value, (int)key, bytes);
    return tarn_depot_put(depot, &key, sizeof(key), value, bytes, &options, NULL);
}

/* Three keys at once, of which the last is removed. */
static int write_batch(struct tarn_depot *depot, uint32_t first, size_t bytes)
{
    static uint8_t value[LONG_BYTES];
    const uint32_t keys[] = {first, first + 1, first + 2};
    struct tarn_batch_item items[3];
    for (uint32_t i = 0; i < 3; i++)
        items[i] = (struct tarn_batch_item){.key = &keys[i],
                                            .key_len = sizeof(keys[i]),
                                            .value = value,
                                            .value_len = bytes,
                                            .remove = i == 2};
    return tarn_depot_write_batch(depot, items, 3);
}

static void make(struct run *run)
{
    struct tarn_depot *depot;
    const struct tarn_format_options format = {.force = true};
    base_assert(tarn_depot_format(run->node, "image", &format) == 0);
    base_assert(tarn_depot_open(run->node, "image", NULL, &depot) == 0);
    for (uint32_t key = 0; key < 30; key++)
        base_assert(put(depot, key, key * 10,
                        key % 5 == 0 ? FUZZ_WALL_NS + (key + 100) * BASE_NS_PER_SECOND : 0) == 0);
    for (uint32_t key = 0; key < 10; key++)
        base_assert(tarn_depot_delete(depot, &key, sizeof(key)) == 0);
    for (uint32_t key = 20; key < 30; key++)
        base_assert(put(depot, key, VALUE_BYTES - key, 0) == 0);
    base_assert(put(depot, LONG_KEY, LONG_BYTES, 0) == 0);
    base_assert(write_batch(depot, 17, 700) == 0);
    base_assert(tarn_depot_close(depot) == 0);
}

/* Some more, and no good end: the image is taken while the store is open. */
static void make_more(struct run *run)
{
    struct tarn_depot *depot;
    base_assert(tarn_depot_open(run->node, "image", NULL, &depot) == 0);
    for (uint32_t key = 0; key < 20; key++)
        base_assert(put(depot, key, 300, 0) == 0);
    base_assert(put(depot, LONG_KEY, LONG_BYTES - 1, 0) == 0);
    base_assert(write_batch(depot, 7, 600) == 0);
    base_assert(write_batch(depot, 2, 900) == 0);
    uint8_t *killed = malloc(IMAGE_BYTES);
    base_assert(killed != NULL);
    memcpy(killed, run->image->bytes, IMAGE_BYTES);
    base_assert(tarn_depot_close(depot) == 0);
    memcpy(run->image->bytes, killed, IMAGE_BYTES);
    free(killed);
}

/* 0: ended in good order; 1: not; 2: blank. */
static const struct image *good_image(size_t number)
{
    static struct image images[IMAGES];
    struct image *image = &images[number];
    const char *why;
    if (image->bytes != NULL)
        return image;
    image->bytes = calloc(1, IMAGE_BYTES);
    base_assert(image->bytes != NULL);
    if (number < 2) {
        run_on(image, make);
        base_assert(seglog_superblock_parse(image->bytes, &image->superblock, &why) == 0);
    } else {
        image->superblock = good_image(0)->superblock;
    }
    if (number == 1)
        run_on(image, make_more);
    return image;
}

/* ---- edits -------------------------------------------------------------------------------------- */

struct input {
    const uint8_t *data;
    size_t left;
};

static uint64_t take(struct input *input, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes && input->left > 0; i++, input->data++, input->left--)
        number |= (uint64_t)*input->data << 8 * i;
    return number;
}

/* Write the input's bytes somewhere into a piece of the image. */
static void edit(struct input *input, uint8_t *piece, uint64_t piece_bytes)
{
    uint64_t at = take(input, piece_bytes > 65536 ? 3 : 2) % piece_bytes;
    uint64_t bytes = base_min(take(input, 1) % 17, base_min(piece_bytes - at, (uint64_t)input->left));
    if (bytes > 0)
        memcpy(piece + at, input->data, bytes);
    input->data += bytes;
    input->left -= bytes;
}

static void edit_superblock(struct input *input, struct image *image, bool seals)
{
    struct seglog_superblock_format superblock = image->superblock;
    edit(input, (uint8_t *)&superblock, sizeof(superblock));
    if (seals)
        seglog_superblock_seal(&superblock);
    for (uint32_t copy = 0; copy < SEGLOG_SUPERBLOCK_COPIES; copy++)
        memcpy(image->bytes + copy * SEGLOG_SUPERBLOCK_BYTES, &superblock, sizeof(superblock));
}

static void edit_state(struct input *input, struct image *image, bool seals)
{
    const struct seglog_superblock_format *superblock = &image->superblock;
    uint64_t slot = take(input, 1) % SEGLOG_STATE_SLOTS;
    uint8_t *state = image->bytes + superblock->state_offset + slot * superblock->state_bytes;
    edit(input, state, sizeof(struct seglog_state_format) + UINT64_C(8) * superblock->segment_count);
    if (seals)
        seglog_state_seal((struct seglog_state_format *)(void *)state, superblock);
}

static uint32_t take_segment(struct input *input, const struct image *image)
{
    return (uint32_t)(take(input, 1) % image->superblock.segment_count);
}

static uint8_t *segment_bytes(struct image *image, uint32_t segment)
{
    return image->bytes + image->superblock.data_offset + segment * image->superblock.segment_bytes;
}

static void edit_segment(struct input *input, struct image *image, bool seals)
{
    uint8_t *segment = segment_bytes(image, take_segment(input, image));
    edit(input, segment, sizeof(struct seglog_segment_format));
    if (seals)
        seglog_segment_seal((struct seglog_segment_format *)(void *)segment, image->superblock.check_seed);
}

/* The n-th record of a segment, or something where one could be. */
static uint64_t find_record(const struct image *image, const uint8_t *segment, uint64_t first_grain,
                            uint64_t n)
{
    const struct seglog_superblock_format *superblock = &image->superblock;
    const struct seglog_segment_format *header = (const void *)segment;
    uint64_t seed = seglog_record_seed(superblock->check_seed, header->stamp);
    uint64_t at = base_align_up(sizeof(*header), superblock->grain_bytes);
    for (uint64_t looked = 0;
         looked < RECORDS_MAX && at + superblock->grain_bytes < superblock->segment_bytes; looked++) {
        struct seglog_record_format record;
        uint64_t grain = first_grain + at / superblock->grain_bytes;
        uint64_t bytes = superblock->grain_bytes;
        if (seglog_record_parse(segment + at, superblock->segment_bytes - at, seed, grain,
                                superblock->record_bytes_max, &record) == 0) {
            if (n-- == 0)
                return at;
            bytes =
                base_align_up(seglog_record_bytes(record.kind, record.key_bytes, record.value_bytes), bytes);
        }
        at += bytes;
    }
    return base_align_up(sizeof(*header), superblock->grain_bytes);
}

static void edit_record(struct input *input, struct image *image, bool seals)
{
    const struct seglog_superblock_format *superblock = &image->superblock;
    uint8_t *segment = segment_bytes(image, take_segment(input, image));
    uint64_t first_grain = (uint64_t)(segment - image->bytes) / superblock->grain_bytes;
    uint64_t at = find_record(image, segment, first_grain, take(input, 1) % 64);
    struct seglog_record_format *record = (void *)(segment + at);
    uint64_t room = superblock->segment_bytes - at;
    edit(input, segment + at, base_min(room, (uint64_t)128));
    if (!seals)
        return;
    uint64_t front = seglog_extension_bytes(record->kind) + (uint64_t)record->key_bytes;
    if (sizeof(*record) + front + record->value_bytes <= room) {
        const uint8_t *body = segment + at + sizeof(*record);
        record->body_check = seglog_body_check(body, front, body + front, record->value_bytes,
                                               superblock->check_seed, record->sequence);
    }
    const struct seglog_segment_format *header = (const void *)segment;
    seglog_record_seal(record, seglog_record_seed(superblock->check_seed, header->stamp),
                       first_grain + at / superblock->grain_bytes);
}

static void edit_summary(struct input *input, struct image *image, bool seals)
{
    const struct seglog_superblock_format *superblock = &image->superblock;
    uint8_t *segment = segment_bytes(image, take_segment(input, image));
    uint8_t *end = segment + superblock->segment_bytes;
    struct seglog_trailer_format trailer;
    bool in_trailer = take(input, 1) % 2 == 0;
    memcpy(&trailer, end - sizeof(trailer), sizeof(trailer));
    if (in_trailer)
        edit(input, (uint8_t *)&trailer, sizeof(trailer));
    uint64_t bytes = seglog_summary_bytes(trailer.entries, superblock->block_bytes);
    if (bytes > superblock->segment_bytes) {
        memcpy(end - sizeof(trailer), &trailer, sizeof(trailer));
        return;
    }
    if (!in_trailer && trailer.entries > 0)
        edit(input, end - bytes, trailer.entries * sizeof(struct seglog_entry_format));
    if (seals)
        seglog_summary_seal(end - bytes, &trailer, superblock);
    else
        memcpy(end - sizeof(trailer), &trailer, sizeof(trailer));
}

static void edit_anything(struct input *input, struct image *image, bool seals)
{
    (void)seals;
    edit(input, image->bytes, IMAGE_BYTES);
}

/* ---- using what has come of it ------------------------------------------------------------------ */

/* All bytes that a visitor is shown are there. */
static int visit(void *arg, const void *key, size_t key_len, const void *value,
                 const struct tarn_record_info *info)
{
    uint8_t *copy = arg;
    base_assert(key_len <= TARN_KEY_BYTES_MAX);
    memcpy(copy, key, key_len);
    if (value == NULL)
        return 0;
    base_assert(info->value_bytes <= IMAGE_BYTES);
    memcpy(copy, value, info->value_bytes);
    return 0;
}

static void look(struct tarn_depot *depot)
{
    static uint8_t value[LONG_BYTES], copy[IMAGE_BYTES];
    struct tarn_depot_stats stats;
    for (uint32_t key = 0; key <= LONG_KEY; key++) {
        struct tarn_record_info info;
        size_t read;
        (void)tarn_depot_get(depot, &key, sizeof(key), value, sizeof(value), &info);
        (void)tarn_depot_read(depot, &key, sizeof(key), 0, key * UINT64_C(2000), value, 1000, &read, &info);
    }
    (void)tarn_depot_scan(depot, visit, copy);
    tarn_depot_stats(depot, &stats);
}

static void use(struct run *run)
{
    const struct tarn_depot_options read_only = {.read_only = true};
    const struct tarn_depot_options making = {.create_bytes = IMAGE_BYTES};
    struct depot_check_report report;
    struct depot_repair_report repaired;
    struct tarn_depot *depot;
    if (tarn_depot_open(run->node, "image", &read_only, &depot) == 0) {
        look(depot);
        base_assert(tarn_depot_close(depot) == 0);
    }
    (void)depot_check(run->node, "image", false, NULL, NULL, NULL, &report);
    if (run->image->repairs)
        (void)depot_repair(run->node, "image", false, NULL, NULL, NULL, &repaired);
    if (tarn_depot_open(run->node, "image", &making, &depot) != 0)
        return;
    for (uint32_t key = 0; key < 40; key++)
        (void)put(depot, key % 31, key * 1000, 0);
    (void)tarn_depot_touch(depot, &(uint32_t){LONG_KEY}, sizeof(uint32_t), FUZZ_WALL_NS * 2);
    (void)put(depot, LONG_KEY, LONG_BYTES - 2, 0);
    (void)write_batch(depot, 4, 1500);
    (void)write_batch(depot, LONG_KEY, 10);
    for (uint32_t key = 10; key < 20; key++)
        (void)tarn_depot_delete(depot, &key, sizeof(key));
    look(depot);
    (void)tarn_depot_flush_all(depot, FUZZ_WALL_NS + 1);
    (void)tarn_depot_close(depot);
    if (tarn_depot_open(run->node, "image", NULL, &depot) == 0)
        (void)tarn_depot_close(depot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const edits[])(struct input * input, struct image * image, bool seals) = {
        edit_superblock, edit_state, edit_segment, edit_record, edit_summary, edit_anything};
    struct input input = {.data = data, .left = size};
    uint64_t first = take(&input, 1);
    const struct image *good = good_image(first % IMAGES);
    struct image image = {
        .superblock = good->superblock, .bytes = malloc(IMAGE_BYTES), .repairs = first / IMAGES % 2 != 0};
    base_assert(image.bytes != NULL);
    memcpy(image.bytes, good->bytes, IMAGE_BYTES);
    for (int count = 0; count < EDITS_MAX && input.left > 0; count++) {
        uint64_t kind = take(&input, 1);
        edits[kind / 4 % base_array_count(edits)](&input, &image, kind % 4 != 0);
    }
    run_on(&image, use);
    free(image.bytes);
    return 0;
}
