/* The members of a stripe: opening them, and deciding whether they belong together or may become one. */
#include "drive/stripe.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REASON_BYTES 256

/* ---- opening the members ------------------------------------------------------------------------ */

static int open_candidate(const struct drive_stripe_opening *opening, struct drive_candidate *candidate)
{
    int error = drive_open(opening->node, candidate->listed, &opening->of_each, &candidate->drive);
    if (error != 0)
        return error;
    if (drive_info(candidate->drive)->logical_block_bytes > DRIVE_LABEL_COPY_BYTES)
        return drive_stripe_refuse(opening, candidate->path, -ENOTSUP,
                                   "a drive of a stripe has blocks of 4 KiB at most");
    error = drive_label_find(opening->node, candidate->drive, &candidate->found);
    return error == 0
               ? 0
               : drive_stripe_refuse(opening, candidate->path, error, "what it begins with cannot be read");
}

/* Open the drives that exist, and make the missing ones if all that exist are blank. */
static int open_missing(struct drive_stripe_opening *opening)
{
    int error = 0;
    for (uint32_t i = 0; i < opening->count && error == 0; i++) {
        if (opening->candidates[i].drive == NULL)
            error = open_candidate(opening, &opening->candidates[i]);
    }
    return error;
}

static int open_present(struct drive_stripe_opening *opening)
{
    int error = 0;
    bool injected = opening->node->options.drives != NULL;
    for (uint32_t i = 0; i < opening->count && error == 0; i++) {
        if (injected || !drive_file_is_missing(opening->candidates[i].path))
            error = open_candidate(opening, &opening->candidates[i]);
    }
    return error;
}

void drive_members_abandon(struct drive_stripe_opening *opening)
{
    for (uint32_t i = 0; i < opening->count; i++) {
        struct drive_candidate *candidate = &opening->candidates[i];
        if (candidate->drive == NULL)
            continue;
        if (drive_info(candidate->drive)->created && opening->node->options.drives == NULL)
            (void)unlink(candidate->drive->name); /* the lock is held: nobody else has made it theirs */
        drive_close(candidate->drive);
    }
}

/* ---- do they belong together? ------------------------------------------------------------------- */

/* Whether nothing was ever stored on a drive: it is blank, or of a stripe that was never whole. */
static bool is_unused(const struct drive_candidate *candidate)
{
    const struct drive_label_found *found = &candidate->found;
    return found->kind == DRIVE_LABEL_NONE ||
           (found->kind == DRIVE_LABEL_GOOD && found->label.state == DRIVE_LABEL_MAKING);
}

/* Find a member whose label says that the stripe is whole. @return NULL: there is none */
static const struct drive_candidate *find_whole(const struct drive_stripe_opening *opening)
{
    for (uint32_t i = 0; i < opening->count; i++) {
        const struct drive_candidate *candidate = &opening->candidates[i];
        if (candidate->drive != NULL && candidate->found.kind == DRIVE_LABEL_GOOD && !is_unused(candidate) &&
            !drive_is_appended(candidate))
            return candidate;
    }
    return NULL;
}

/* Find the single drive to which others were, or are to be, appended: it has a store and no label. @return NULL: none */
static const struct drive_candidate *find_first(const struct drive_stripe_opening *opening)
{
    const struct drive_candidate *first = NULL;
    bool appended = opening->options->append;
    uint32_t stores = 0;
    for (uint32_t i = 0; i < opening->count; i++) {
        const struct drive_candidate *candidate = &opening->candidates[i];
        if (candidate->drive == NULL)
            continue;
        appended = appended || drive_is_appended(candidate);
        if (candidate->found.kind == DRIVE_LABEL_STORE) {
            first = candidate;
            stores++;
        }
    }
    return appended && stores == 1 ? first : NULL;
}

/* Find the label of the stripe that the drives are. @return false: nothing was ever stored on them together */
static bool find_label(struct drive_stripe_opening *opening)
{
    const struct drive_candidate *whole = find_whole(opening),
                                 *first = whole == NULL ? find_first(opening) : NULL;
    if (opening->options->overwrite || (whole == NULL && first == NULL))
        return false;
    opening->first = first;
    if (first != NULL) {
        memcpy(opening->label.identity, first->found.label.identity, sizeof(opening->label.identity));
    } else {
        opening->label = whole->found.label;
        opening->round_count = opening->label.count;
    }
    for (uint32_t i = 0; i < opening->count; i++) {
        const struct drive_candidate *candidate = &opening->candidates[i];
        const struct drive_label *label = &candidate->found.label;
        if (candidate->drive == NULL || candidate->found.kind != DRIVE_LABEL_GOOD)
            continue;
        if (first != NULL && drive_is_appended(candidate))
            opening->label.unit_bytes = label->unit_bytes;
        /* members grow one after the other, and a crash came between: the space that all have is the one in use */
        if (first == NULL && !drive_is_appended(candidate) && label->used_bytes < opening->label.used_bytes)
            opening->label.used_bytes = label->used_bytes;
    }
    return true;
}

/* Whether the first unit of a drive is zero behind the place of the label. */
static int is_blank_behind(const struct drive_stripe_opening *opening, struct drive *drive, bool *ret_blank)
{
    size_t bytes = base_min(DRIVE_UNIT_BYTES_MAX, drive_info(drive)->bytes);
    uint8_t *memory = drive_memory_alloc(opening->node, drive, bytes);
    if (memory == NULL)
        return -ENOMEM;
    const size_t begin = (size_t)DRIVE_LABEL_COPIES * DRIVE_LABEL_COPY_BYTES;
    bool blank = false;
    int error = 0;
    for (int try = 0; !blank && try < 3; try++) { /* a read may fail, or return damaged bytes once */
        error = drive_read(drive, 0, memory, bytes);
        blank = error == 0 && base_is_zero(memory + begin, bytes - begin);
    }
    base_free(&opening->node->memory, memory, bytes);
    *ret_blank = blank;
    return error;
}

/* Check that a drive holds nothing that can be lost: it is blank, or of a stripe that was never whole. */
static int check_blank(const struct drive_stripe_opening *opening, const struct drive_candidate *candidate)
{
    const struct drive_label_found *found = &candidate->found;
    bool blank = is_unused(candidate);
    int error = blank && !drive_info(candidate->drive)->created
                    ? is_blank_behind(opening, candidate->drive, &blank)
                    : 0;
    if (error != 0)
        return drive_stripe_refuse(opening, candidate->path, error, "it cannot be read");
    if (blank)
        return 0;
    return drive_stripe_refuse(
        opening, candidate->path, opening->options->make_stripe ? -EEXIST : -EUCLEAN,
        found->wrong != NULL ? found->wrong
        : drive_is_appended(candidate)
            ? "it was appended to another drive, or to a stripe: name that, too"
            : "it is neither blank nor a drive of a stripe: name the right one, or make a new "
              "stripe (tarn format --force), which loses what is on it");
}

static bool is_of_same_stripe(const struct drive_label *a, const struct drive_label *b)
{
    return a->identity[0] == b->identity[0] && a->identity[1] == b->identity[1];
}

/* Check that a drive is a member of the stripe that another drive is a member of. @return the fault, as a sentence;
 * NULL: none */
static const char *wrong_member(const struct drive_stripe_opening *opening,
                                const struct drive_candidate *candidate, char *room)
{
    const struct drive_label *label = &candidate->found.label, *whole = &opening->label;
    if (candidate == opening->first || candidate == opening->appended)
        return NULL;
    if (candidate->drive == NULL)
        return "there is no such file, but the others are of a stripe: name the one that is missing";
    if (candidate->found.kind == DRIVE_LABEL_NONE)
        return "it is blank, but the others are of a stripe: name the one that is missing, or append this "
               "one "
               "(tarn grow)";
    if (candidate->found.wrong != NULL)
        return candidate->found.wrong;
    if (candidate->found.kind != DRIVE_LABEL_GOOD)
        return "it is not of a stripe, but the others are: name the one that is missing";
    if (!is_of_same_stripe(label, whole)) {
        (void)snprintf(room, REASON_BYTES,
                       "it is drive %" PRIu32 " of %" PRIu32
                       " of another stripe than the first that is named",
                       label->place + 1, label->count);
        return room;
    }
    if (label->unit_bytes != whole->unit_bytes ||
        (!drive_is_appended(candidate) && label->count != opening->round_count))
        return "its label contradicts those of the others";
    if (drive_info(candidate->drive)->bytes < label->used_bytes)
        return "it is shorter than the stripe uses of it: its end is missing; give it its size back";
    if (!base_is_aligned(label->unit_bytes, drive_info(candidate->drive)->physical_block_bytes))
        return "its blocks are larger than those of the stripe: dump the store where it came from, and load "
               "it into a new one here";
    return NULL;
}

/* The number of drives that the labels say there are, without the one that is to be appended. */
static uint32_t count_places(const struct drive_stripe_opening *opening)
{
    uint32_t count = opening->first != NULL ? 1 : opening->round_count;
    for (uint32_t i = 0; i < opening->count; i++) {
        const struct drive_candidate *candidate = &opening->candidates[i];
        if (candidate != opening->appended && drive_is_appended(candidate))
            count = base_max(count, candidate->found.label.count);
    }
    return count;
}

/* Give each drive its place, and check that each place is taken once. */
static int check_places(struct drive_stripe_opening *opening)
{
    const uint32_t count = count_places(opening);
    char reason[REASON_BYTES];
    uint64_t seen = 0;
    for (uint32_t i = 0; i < opening->count; i++) {
        struct drive_candidate *candidate = &opening->candidates[i];
        candidate->place = candidate == opening->first      ? 0
                           : candidate == opening->appended ? count
                                                            : candidate->found.label.place;
        uint64_t bit = UINT64_C(1) << candidate->place;
        (void)snprintf(reason, sizeof(reason),
                       "it says that it is drive %" PRIu32 " of %" PRIu32
                       ", and so does another one that is named: one is "
                       "a copy, leave it out",
                       candidate->place + 1, count);
        if ((seen & bit) != 0)
            return drive_stripe_refuse(opening, candidate->path, -EUCLEAN, reason);
        seen |= bit;
    }
    if (opening->count == count + (opening->appended != NULL))
        return 0;
    int used =
        snprintf(reason, sizeof(reason), "the stripe has %" PRIu32 " drives, name all; missing is", count);
    for (uint32_t place = 0; place < count; place++) {
        if ((seen >> place & 1) == 0 && (size_t)used < sizeof(reason))
            used += snprintf(reason + used, sizeof(reason) - (size_t)used, " number %" PRIu32, place + 1);
    }
    return drive_stripe_refuse(opening, opening->list, -EUCLEAN, reason);
}

/* Find the drive that is to be appended. */
static int find_appended(struct drive_stripe_opening *opening)
{
    for (uint32_t i = 0; i < opening->count && opening->options->append; i++) {
        struct drive_candidate *candidate = &opening->candidates[i];
        if (candidate->drive == NULL || !is_unused(candidate) ||
            (candidate->found.kind == DRIVE_LABEL_GOOD &&
             is_of_same_stripe(&candidate->found.label, &opening->label)))
            continue;
        if (opening->appended != NULL)
            return drive_stripe_refuse(
                opening, candidate->path, -EINVAL,
                "another one that is named is blank, too: append one drive after the other");
        opening->appended = candidate;
    }
    return opening->appended == NULL ? 0 : check_blank(opening, opening->appended);
}

static int check_members(struct drive_stripe_opening *opening)
{
    char room[REASON_BYTES];
    int error = find_appended(opening);
    for (uint32_t i = 0; i < opening->count && error == 0; i++) {
        const struct drive_candidate *candidate = &opening->candidates[i];
        const char *wrong = wrong_member(opening, candidate, room);
        if (wrong != NULL)
            error = drive_stripe_refuse(opening, candidate->path,
                                        candidate->drive == NULL ? -ENOENT : -EUCLEAN, wrong);
    }
    return error == 0 ? check_places(opening) : error;
}

/* ---- may they become a stripe? ------------------------------------------------------------------- */

static int check_all_blank(const struct drive_stripe_opening *opening)
{
    int error = 0;
    for (uint32_t i = 0; i < opening->count && error == 0 && !opening->options->overwrite; i++) {
        if (opening->candidates[i].drive != NULL)
            error = check_blank(opening, &opening->candidates[i]);
    }
    return error;
}

/* Whether these blank drives may become a stripe: devices only by an explicit order, as for a store. */
static bool may_make(const struct drive_stripe_opening *opening)
{
    const struct drive_options *options = opening->options;
    bool devices = false;
    for (uint32_t i = 0; i < opening->count; i++) {
        const struct drive *drive = opening->candidates[i].drive;
        devices = devices || (drive != NULL && drive_info(drive)->device);
    }
    return !options->read_only &&
           (options->make_stripe || options->overwrite || (options->create_bytes > 0 && !devices));
}

static int check_new(struct drive_stripe_opening *opening)
{
    if (opening->options->append)
        return drive_stripe_refuse(opening, opening->list, -EUCLEAN, "there is no store on these drives");
    int error = check_all_blank(opening);
    if (error == 0 && may_make(opening)) {
        error = open_missing(opening);
        return error == 0 ? check_all_blank(opening) : error; /* another process may have been quicker */
    }
    for (uint32_t i = 0; i < opening->count && error == 0; i++) {
        if (opening->candidates[i].drive == NULL)
            error = drive_stripe_refuse(opening, opening->candidates[i].path, -ENOENT,
                                        "there is no such file: give a size to make it");
    }
    return error != 0 ? error
                      : drive_stripe_refuse(
                            opening, opening->list, -EUCLEAN,
                            "these drives are no stripe yet: make a store on them first (tarn format)");
}

int drive_members_open(struct drive_stripe_opening *opening, bool *ret_is_new)
{
    int error = open_present(opening);
    if (error != 0)
        return error;
    *ret_is_new = !find_label(opening);
    return *ret_is_new ? check_new(opening) : check_members(opening);
}
