/* Labels of the members of a stripe: writing and reading them. What they make up together is members.c's. */
#include "drive/stripe.h"
#include <errno.h>

#define LABEL_MAGIC  UINT64_C(0x707274536e726154) /* "TarnStrp" */
#define COPIES_BYTES ((size_t)DRIVE_LABEL_COPIES * DRIVE_LABEL_COPY_BYTES)
#define READ_TRIES   3

static uint32_t label_check(const struct drive_label *label)
{
    struct drive_label copy = *label;
    copy.check = 0;
    return base_crc32c(0, &copy, sizeof(copy));
}

static bool makes_sense(const struct drive_label *label)
{
    return label->count >= 2 && label->count <= DRIVE_MEMBERS_MAX && label->place < label->count &&
           base_is_power_of_two(label->unit_bytes) && label->unit_bytes >= DRIVE_UNIT_BYTES_MIN &&
           label->unit_bytes <= DRIVE_UNIT_BYTES_MAX &&
           base_is_aligned(label->used_bytes, label->unit_bytes) &&
           label->used_bytes >= 2 * label->unit_bytes && label->used_bytes <= INT64_MAX / DRIVE_MEMBERS_MAX &&
           (label->state == DRIVE_LABEL_MAKING || label->state == DRIVE_LABEL_WHOLE);
}

/* Whether the fields that only an appended member has contradict each other. */
static bool appended_makes_sense(const struct drive_label *label)
{
    return label->begin_bytes > 0 && base_is_aligned(label->begin_bytes, DRIVE_SECTOR_BYTES) &&
           label->begin_bytes <= INT64_MAX / 2 && label->place + 1 == label->count && label->nonce != 0 &&
           label->state == DRIVE_LABEL_WHOLE;
}

bool drive_is_member(const void *begin)
{
    uint64_t magic;
    memcpy(&magic, begin, sizeof(magic));
    return magic == LABEL_MAGIC;
}

/* Classify one copy. */
static struct drive_label_found parse_label(const uint8_t *bytes)
{
    struct drive_label_found found = {.kind = DRIVE_LABEL_BAD};
    memcpy(&found.label, bytes, sizeof(found.label));
    if (base_is_zero(bytes, DRIVE_LABEL_COPY_BYTES))
        found.kind = DRIVE_LABEL_NONE;
    else if (found.label.magic == DRIVE_STORE_MAGIC)
        found.kind = DRIVE_LABEL_STORE;
    else if (!drive_is_member(bytes))
        found.kind = DRIVE_LABEL_OTHER;
    else if (found.label.check != label_check(&found.label))
        found.wrong =
            "its label as a drive of a stripe is damaged, and so is the copy: if the whole drive was copied "
            "somewhere, name that";
    else if (found.label.version != DRIVE_LABEL_VERSION &&
             found.label.version != DRIVE_LABEL_VERSION_APPENDED)
        found = (struct drive_label_found){
            .kind = DRIVE_LABEL_NEWER,
            .wrong = "a newer version of Tarn made the stripe that it belongs to: use that version"};
    else if (!makes_sense(&found.label) ||
             (found.label.version == DRIVE_LABEL_VERSION_APPENDED ? !appended_makes_sense(&found.label)
                                                                  : found.label.begin_bytes != 0))
        found.wrong = "its label as a drive of a stripe contradicts itself";
    else
        found.kind = DRIVE_LABEL_GOOD;
    return found;
}

static bool is_whole(const struct drive_label_found *copy)
{
    return copy->kind == DRIVE_LABEL_GOOD && copy->label.state == DRIVE_LABEL_WHOLE;
}

/* Choose the copy that is further on; of equal ones the first. A copy that this release does not know outranks all,
 * and so forbids the drive's use. */
static const struct drive_label_found *better(const struct drive_label_found *a,
                                              const struct drive_label_found *b)
{
    static const int ranks[] = {[DRIVE_LABEL_NONE] = 0,  [DRIVE_LABEL_OTHER] = 1, [DRIVE_LABEL_BAD] = 2,
                                [DRIVE_LABEL_STORE] = 3, [DRIVE_LABEL_GOOD] = 4, /* and 5 */
                                [DRIVE_LABEL_NEWER] = 6};
    int rank_a = ranks[a->kind] + is_whole(a), rank_b = ranks[b->kind] + is_whole(b);
    return rank_b > rank_a ? b : a;
}

static bool is_settled(const struct drive_label_found *copy)
{
    return copy->kind == DRIVE_LABEL_GOOD || copy->kind == DRIVE_LABEL_NONE;
}

/* Read both copies, again if one is neither a label nor blank: a read may fail or return damaged bytes once. */
static int read_copies(struct drive *drive, uint8_t *memory,
                       struct drive_label_found copies[DRIVE_LABEL_COPIES])
{
    int error = 0;
    bool settled = false;
    for (int try = 0; !settled && try < READ_TRIES; try++) {
        error = drive_read(drive, 0, memory, COPIES_BYTES);
        settled = error == 0;
        for (uint32_t i = 0; error == 0 && i < DRIVE_LABEL_COPIES; i++) {
            copies[i] = parse_label(memory + (size_t)i * DRIVE_LABEL_COPY_BYTES);
            settled = settled && is_settled(&copies[i]);
        }
    }
    return error;
}

int drive_label_find(struct tarn_node *node, struct drive *drive, struct drive_label_found *ret_found)
{
    struct drive_label_found copies[DRIVE_LABEL_COPIES];
    uint8_t *memory = drive_memory_alloc(node, drive, COPIES_BYTES);
    if (memory == NULL)
        return -ENOMEM;
    int error = read_copies(drive, memory, copies);
    base_free(&node->memory, memory, COPIES_BYTES);
    if (error != 0)
        return error;
    *ret_found = *better(&copies[0], &copies[1]);
    ret_found->complete = (is_whole(&copies[0]) || copies[0].kind == DRIVE_LABEL_BAD) &&
                          (is_whole(&copies[1]) || copies[1].kind == DRIVE_LABEL_BAD);
    return 0;
}

int drive_label_write(struct tarn_node *node, struct drive *drive, const struct drive_label *label)
{
    uint8_t *memory = drive_memory_alloc(node, drive, DRIVE_LABEL_COPY_BYTES);
    if (memory == NULL)
        return -ENOMEM;
    struct drive_label sealed = *label;
    sealed.magic = LABEL_MAGIC;
    sealed.version = label->begin_bytes > 0 ? DRIVE_LABEL_VERSION_APPENDED : DRIVE_LABEL_VERSION;
    sealed.check = label_check(&sealed);
    memcpy(memory, &sealed, sizeof(sealed));
    int error = 0;
    for (uint64_t copy = DRIVE_LABEL_COPIES; error == 0 && copy-- > 0;)
        error = drive_write(drive, copy * DRIVE_LABEL_COPY_BYTES, memory, DRIVE_LABEL_COPY_BYTES, true);
    base_free(&node->memory, memory, DRIVE_LABEL_COPY_BYTES);
    return error;
}
