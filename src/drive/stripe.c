/* One drive made of several: which drives those are, and whether they belong together. */
#include "drive/stripe.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REASON_BYTES     256
#define UNITS_OF_A_DRIVE 256 /* so many at least, if the unit may be so small */

/* A path on its way to becoming a member. */
struct candidate {
    const char *listed; /* as in the list */
    const char *path;
    struct drive *drive; /* NULL: not there yet */
    struct drive_label_found found;
};

struct opening {
    struct tarn_node *node;
    const char *list; /* as it was named */
    const struct drive_options *options;
    struct drive_options of_each;
    char *paths; /* a copy of the list, cut at its commas, and another of it, each path as the kernel takes it
                  */
    size_t paths_bytes;
    uint32_t count;
    struct candidate candidates[DRIVE_MEMBERS_MAX];
};

/* ---- paths -------------------------------------------------------------------------------------- */

/* The next comma that parts two paths. @return NULL: none */
static const char *find_comma(const char *path)
{
    for (const char *comma = strchr(path, ','); comma != NULL; comma = strchr(comma + 1, ',')) {
        if (comma == path || comma[-1] != '\\')
            return comma;
    }
    return NULL;
}

bool drive_path_is_list(const char *path)
{
    return find_comma(path) != NULL;
}

void drive_path_unescape(char *path)
{
    for (char *at = strstr(path, "\\,"); at != NULL; at = strstr(at + 1, "\\,"))
        memmove(at, at + 1, strlen(at));
}

static int refuse(const struct opening *opening, const char *path, int error, const char *reason)
{
    return drive_refuse(opening->node, path, error, reason);
}

/* Cut the list into its paths. */
static int cut_list(struct opening *opening)
{
    if (opening->node->options.drives == NULL && access(opening->list, F_OK) == 0)
        return refuse(opening, opening->list, -EINVAL,
                      "commas part the drives of a stripe, and there is a file of just this name: write \\, "
                      "for a comma of its name");
    const size_t bytes = strlen(opening->list) + 1;
    opening->paths_bytes = 2 * bytes;
    opening->paths = base_alloc(&opening->node->memory, opening->paths_bytes);
    if (opening->paths == NULL)
        return refuse(opening, opening->list, -ENOMEM, "the memory cap is reached");
    memcpy(opening->paths, opening->list, bytes);
    for (char *path = opening->paths; path != NULL;) {
        char *comma = (char *)(uintptr_t)find_comma(path);
        if (comma != NULL)
            *comma = '\0';
        if (path[0] == '\0')
            return refuse(opening, opening->list, -EINVAL, "between two commas there is no drive");
        if (opening->count == DRIVE_MEMBERS_MAX)
            return refuse(opening, opening->list, -EINVAL, "a stripe has 32 drives at most");
        char *plain = path + bytes;
        memcpy(plain, path, strlen(path) + 1);
        drive_path_unescape(plain);
        opening->candidates[opening->count++] = (struct candidate){.listed = path, .path = plain};
        path = comma == NULL ? NULL : comma + 1;
    }
    uint64_t all_bytes = opening->options->create_bytes;
    opening->of_each.create_bytes = all_bytes / opening->count + (all_bytes % opening->count != 0);
    return 0;
}

/* No drive is named twice, by whatever path: its lock would be waited for, in vain. */
static int check_distinct(const struct opening *opening)
{
    for (uint32_t i = 0; i < opening->count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            const char *a = opening->candidates[i].path, *b = opening->candidates[j].path;
            if (strcmp(a, b) == 0 || (opening->node->options.drives == NULL && drive_file_is_same(a, b)))
                return refuse(opening, a, -EINVAL,
                              "this drive is named twice: name each drive of the stripe once");
        }
    }
    return 0;
}

/* ---- opening the members ------------------------------------------------------------------------ */

static int open_candidate(const struct opening *opening, struct candidate *candidate)
{
    int error = drive_open(opening->node, candidate->listed, &opening->of_each, &candidate->drive);
    if (error != 0)
        return error;
    if (drive_info(candidate->drive)->logical_block_bytes > DRIVE_LABEL_COPY_BYTES)
        return refuse(opening, candidate->path, -ENOTSUP, "a drive of a stripe has blocks of 4 KiB at most");
    error = drive_label_find(opening->node, candidate->drive, &candidate->found);
    return error == 0 ? 0 : refuse(opening, candidate->path, error, "what it begins with cannot be read");
}

/* Open what there is, and then, if that is nothing but blank, make what is missing. */
static int open_missing(struct opening *opening)
{
    int error = 0;
    for (uint32_t i = 0; i < opening->count && error == 0; i++) {
        if (opening->candidates[i].drive == NULL)
            error = open_candidate(opening, &opening->candidates[i]);
    }
    return error;
}

static int open_present(struct opening *opening)
{
    int error = 0;
    bool injected = opening->node->options.drives != NULL;
    for (uint32_t i = 0; i < opening->count && error == 0; i++) {
        if (injected || !drive_file_is_missing(opening->candidates[i].path))
            error = open_candidate(opening, &opening->candidates[i]);
    }
    return error;
}

/* Close the members; of a stripe that came to nothing what this opening has made is removed again. */
static void abandon(struct opening *opening)
{
    for (uint32_t i = 0; i < opening->count; i++) {
        struct candidate *candidate = &opening->candidates[i];
        if (candidate->drive == NULL)
            continue;
        if (drive_info(candidate->drive)->created && opening->node->options.drives == NULL)
            (void)unlink(candidate->drive->name); /* the lock is held: nobody else has made it theirs */
        drive_close(candidate->drive);
    }
}

/* ---- do they belong together? ------------------------------------------------------------------- */

/* One that says that the stripe is whole. @return NULL: there is none, and so nothing was ever stored */
static const struct candidate *find_whole(const struct opening *opening)
{
    for (uint32_t i = 0; i < opening->count; i++) {
        const struct candidate *candidate = &opening->candidates[i];
        if (candidate->drive != NULL && candidate->found.kind == DRIVE_LABEL_GOOD &&
            candidate->found.label.state == DRIVE_LABEL_WHOLE)
            return candidate;
    }
    return NULL;
}

static bool is_of_same_stripe(const struct drive_label *a, const struct drive_label *b)
{
    return a->identity[0] == b->identity[0] && a->identity[1] == b->identity[1];
}

/* What is wrong with a drive that must be a member of the stripe that another one is of. @return NULL:
 * nothing */
static const char *wrong_member(const struct candidate *candidate, const struct drive_label *whole,
                                char *room)
{
    const struct drive_label *label = &candidate->found.label;
    if (candidate->drive == NULL)
        return "there is no such file, but the others are of a stripe: name the one that is missing";
    if (candidate->found.kind == DRIVE_LABEL_NONE)
        return "it is blank, but the others are of a stripe: name the one that is missing";
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
    if (label->count != whole->count || label->unit_bytes != whole->unit_bytes ||
        label->used_bytes != whole->used_bytes)
        return "its label contradicts those of the others";
    if (drive_info(candidate->drive)->bytes < label->used_bytes)
        return "it is shorter than when the stripe was made: its end is missing; give it its size back";
    if (!base_is_aligned(label->unit_bytes, drive_info(candidate->drive)->physical_block_bytes))
        return "its blocks are larger than those of the stripe: dump the store where it came from, and load "
               "it into a new one here";
    return NULL;
}

/* Whether all are there, each once. */
static int check_places(const struct opening *opening, const struct drive_label *whole)
{
    char reason[REASON_BYTES];
    uint64_t seen = 0;
    for (uint32_t i = 0; i < opening->count; i++) {
        uint64_t bit = UINT64_C(1) << opening->candidates[i].found.label.place;
        (void)snprintf(reason, sizeof(reason),
                       "it says that it is drive %" PRIu32 " of %" PRIu32
                       ", and so does another one that is named: one is "
                       "a copy, leave it out",
                       opening->candidates[i].found.label.place + 1, whole->count);
        if ((seen & bit) != 0)
            return refuse(opening, opening->candidates[i].path, -EUCLEAN, reason);
        seen |= bit;
    }
    if (opening->count == whole->count)
        return 0;
    int used = snprintf(reason, sizeof(reason), "the stripe has %" PRIu32 " drives, name all; missing is",
                        whole->count);
    for (uint32_t place = 0; place < whole->count; place++) {
        if ((seen >> place & 1) == 0 && (size_t)used < sizeof(reason))
            used += snprintf(reason + used, sizeof(reason) - (size_t)used, " number %" PRIu32, place + 1);
    }
    return refuse(opening, opening->list, -EUCLEAN, reason);
}

static int check_members(const struct opening *opening, const struct drive_label *whole)
{
    char room[REASON_BYTES];
    for (uint32_t i = 0; i < opening->count; i++) {
        const struct candidate *candidate = &opening->candidates[i];
        const char *wrong = wrong_member(candidate, whole, room);
        if (wrong != NULL)
            return refuse(opening, candidate->path, candidate->drive == NULL ? -ENOENT : -EUCLEAN, wrong);
    }
    return check_places(opening, whole);
}

/* ---- may they become a stripe? ------------------------------------------------------------------- */

/* Whether the first unit, where the label comes to lie, is zero behind it. */
static int is_blank_behind(const struct opening *opening, struct drive *drive, bool *ret_blank)
{
    size_t bytes = base_min(DRIVE_UNIT_BYTES_MAX, drive_info(drive)->bytes);
    uint8_t *memory = drive_memory_alloc(opening->node, drive, bytes);
    if (memory == NULL)
        return -ENOMEM;
    const size_t begin = (size_t)DRIVE_LABEL_COPIES * DRIVE_LABEL_COPY_BYTES;
    bool blank = false;
    int error = 0;
    for (int try = 0; !blank && try < 3; try++) { /* a read may fail, or be wrong once */
        error = drive_read(drive, 0, memory, bytes);
        blank = error == 0 && base_is_zero(memory + begin, bytes - begin);
    }
    base_free(&opening->node->memory, memory, bytes);
    *ret_blank = blank;
    return error;
}

/* Whether nothing can be lost with a drive: it is blank, or of a stripe that was never whole. */
static int check_blank(const struct opening *opening, const struct candidate *candidate)
{
    const struct drive_label_found *found = &candidate->found;
    bool blank = found->kind == DRIVE_LABEL_NONE || found->kind == DRIVE_LABEL_GOOD;
    int error = blank && !drive_info(candidate->drive)->created
                    ? is_blank_behind(opening, candidate->drive, &blank)
                    : 0;
    if (error != 0)
        return refuse(opening, candidate->path, error, "it cannot be read");
    if (blank)
        return 0;
    return refuse(opening, candidate->path, opening->options->make_stripe ? -EEXIST : -EUCLEAN,
                  found->wrong != NULL
                      ? found->wrong
                      : "it is neither blank nor a drive of a stripe: name the right one, or make a new "
                        "stripe (tarn format --force), which loses what is on it");
}

static int check_all_blank(const struct opening *opening)
{
    int error = 0;
    for (uint32_t i = 0; i < opening->count && error == 0 && !opening->options->overwrite; i++) {
        if (opening->candidates[i].drive != NULL)
            error = check_blank(opening, &opening->candidates[i]);
    }
    return error;
}

/* Blank devices become a stripe only by order, as a single one becomes a store. */
static bool may_make(const struct opening *opening)
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

static int check_new(struct opening *opening)
{
    int error = check_all_blank(opening);
    if (error == 0 && may_make(opening)) {
        error = open_missing(opening);
        return error == 0 ? check_all_blank(opening) : error; /* somebody else may have been quicker */
    }
    for (uint32_t i = 0; i < opening->count && error == 0; i++) {
        if (opening->candidates[i].drive == NULL)
            error = refuse(opening, opening->candidates[i].path, -ENOENT,
                           "there is no such file: give a size to make it");
    }
    return error != 0 ? error
                      : refuse(opening, opening->list, -EUCLEAN,
                               "these drives are no stripe yet: make a store on them first (tarn format)");
}

/* ---- the stripe ---------------------------------------------------------------------------------- */

/* The label of a new stripe: as much of each drive as the smallest has. @return false: that is too little */
static bool fill_label(const struct opening *opening, struct drive_label *label)
{
    uint64_t least_bytes = UINT64_MAX, block_bytes = 0;
    for (uint32_t i = 0; i < opening->count; i++) {
        const struct drive_info *info = drive_info(opening->candidates[i].drive);
        least_bytes = base_min(least_bytes, info->bytes);
        block_bytes = base_max(block_bytes, (uint64_t)info->physical_block_bytes);
    }
    uint64_t unit_bytes = DRIVE_UNIT_BYTES_MAX;
    while (unit_bytes > base_max(DRIVE_UNIT_BYTES_MIN, block_bytes) &&
           least_bytes / unit_bytes < UNITS_OF_A_DRIVE)
        unit_bytes /= 2;
    *label = (struct drive_label){.identity = {task_rng(opening->node), task_rng(opening->node)},
                                  .made_wall_ns = task_wall(opening->node),
                                  .count = opening->count,
                                  .unit_bytes = unit_bytes,
                                  .used_bytes = base_align_down(least_bytes, unit_bytes)};
    return label->used_bytes >= 2 * unit_bytes && unit_bytes >= block_bytes;
}

/* Put the members in their places, and see whether all have their label. */
static void take_members(const struct opening *opening, struct drive_stripe *stripe, bool is_new)
{
    stripe->established = !is_new;
    for (uint32_t i = 0; i < opening->count; i++) {
        const struct candidate *candidate = &opening->candidates[i];
        stripe->members[is_new ? i : candidate->found.label.place] = candidate->drive;
    }
}

/* What the members have in common; the strictest counts. */
static void describe(const struct drive_stripe *stripe, struct drive_info *ret_info)
{
    struct drive_info info = {.provider = "stripe",
                              .memory_alignment_bytes = 1,
                              .created = true,
                              .fua = true,
                              .discard = true,
                              .unit_bytes = stripe->label.unit_bytes,
                              .stripe_identity = {stripe->label.identity[0], stripe->label.identity[1]}};
    for (uint32_t place = 0; place < stripe->count; place++) {
        const struct drive_info *member = drive_info(stripe->members[place]);
        info.bytes += stripe->label.used_bytes - stripe->label.unit_bytes;
        /* requests are cut between blocks: what begins there in memory must be aligned, too */
        info.logical_block_bytes = base_max(
            info.logical_block_bytes, base_max(member->logical_block_bytes, member->memory_alignment_bytes));
        info.physical_block_bytes = base_max(info.physical_block_bytes, member->physical_block_bytes);
        info.memory_alignment_bytes = base_max(info.memory_alignment_bytes, member->memory_alignment_bytes);
        info.direct = info.direct || member->direct;
        info.device = info.device || member->device;
        info.created = info.created && member->created;
        info.write_cache = info.write_cache || member->write_cache;
        info.fua = info.fua && member->fua;
        info.discard = info.discard && member->discard;
    }
    info.physical_block_bytes = base_max(info.physical_block_bytes, info.logical_block_bytes);
    *ret_info = info;
}

static void log_stripe(const struct opening *opening, const struct drive_stripe *stripe)
{
    struct base_log *log = &opening->node->log;
    const struct drive_label *label = &stripe->label;
    base_info(log, "stripe", "identity=%016" PRIx64 "%016" PRIx64 " drives=%" PRIu32 " unit=%" PRIu64,
              label->identity[0], label->identity[1], stripe->count, label->unit_bytes);
    for (uint32_t place = 0; place < stripe->count; place++) {
        const struct drive *member = stripe->members[place];
        uint64_t idle_bytes = drive_info(member)->bytes - label->used_bytes;
        if (idle_bytes >= label->unit_bytes)
            base_info(log, "a drive of a stripe is not used to its end",
                      "drive=%s used_bytes=%" PRIu64 " idle_bytes=%" PRIu64
                      " reason=\"of each as much is used as the smallest has\"",
                      drive_name(member), label->used_bytes, idle_bytes);
    }
}

/* Give the members the labels of a stripe that is in this state. */
static int write_labels(struct drive_stripe *stripe, uint32_t state)
{
    int error = 0;
    struct drive_label label = stripe->label;
    label.state = state;
    for (label.place = 0; label.place < stripe->count && error == 0; label.place++)
        error = drive_label_write(stripe->node, stripe->members[label.place], &label);
    return error;
}

/*
 * A cut has left some members without their last labels: nothing was stored before all had them. And the
 * labels that were read may be a killed process's, in a cache: they are flushed before anything relies on
 * them.
 */
static int complete(const struct opening *opening, struct drive_stripe *stripe)
{
    bool all = true;
    if (opening->options->read_only)
        return 0;
    for (uint32_t i = 0; i < opening->count; i++)
        all = all && opening->candidates[i].found.complete;
    int error = all ? 0 : write_labels(stripe, DRIVE_LABEL_WHOLE);
    for (uint32_t place = 0; place < stripe->count && error == 0; place++)
        error = drive_flush(stripe->members[place]);
    return error;
}

static int make_stripe(const struct opening *opening, struct drive_stripe **ret_stripe)
{
    const struct candidate *whole = opening->options->overwrite ? NULL : find_whole(opening);
    struct drive_stripe *stripe = base_alloc(&opening->node->memory, sizeof(*stripe));
    if (stripe == NULL)
        return refuse(opening, opening->list, -ENOMEM, "the memory cap is reached");
    stripe->node = opening->node;
    stripe->count = opening->count;
    int error = 0;
    if (whole != NULL)
        stripe->label = whole->found.label;
    else if (!fill_label(opening, &stripe->label))
        error =
            refuse(opening, opening->list, -EINVAL, "the smallest of these drives is too small for a stripe");
    if (error == 0) {
        take_members(opening, stripe, whole == NULL);
        stripe->unit_shift = (uint32_t)__builtin_ctzll(stripe->label.unit_bytes);
        error = drive_split_init(stripe);
    }
    if (error == 0)
        error = drive_hands_init(stripe);
    if (error == 0 && whole != NULL)
        error = complete(opening, stripe);
    if (error != 0) {
        drive_hands_deinit(stripe);
        drive_split_deinit(stripe);
        base_free(&opening->node->memory, stripe, sizeof(*stripe));
        return error;
    }
    *ret_stripe = stripe;
    return 0;
}

static int open_all(struct opening *opening, struct drive_stripe **ret_stripe)
{
    int error = cut_list(opening);
    if (error == 0)
        error = check_distinct(opening);
    if (error == 0)
        error = open_present(opening);
    if (error != 0)
        return error;
    const struct candidate *whole = opening->options->overwrite ? NULL : find_whole(opening);
    error = whole == NULL ? check_new(opening) : check_members(opening, &whole->found.label);
    return error == 0 ? make_stripe(opening, ret_stripe) : error;
}

static int stripe_open(struct tarn_node *node, void *provider_arg, const char *path,
                       const struct drive_options *options, struct drive_info *ret_info, void **ret_state)
{
    (void)provider_arg;
    struct opening *opening = base_alloc(&node->memory, sizeof(*opening));
    if (opening == NULL)
        return drive_refuse(node, path, -ENOMEM, "the memory cap is reached");
    opening->node = node;
    opening->list = path;
    opening->options = options;
    opening->of_each = *options;
    struct drive_stripe *stripe = NULL;
    int error = open_all(opening, &stripe);
    if (error == 0) {
        log_stripe(opening, stripe);
        describe(stripe, ret_info);
        *ret_state = stripe;
    } else {
        abandon(opening);
    }
    if (opening->paths != NULL)
        base_free(&node->memory, opening->paths, opening->paths_bytes);
    base_free(&node->memory, opening, sizeof(*opening));
    return error;
}

static void stripe_close(void *state)
{
    struct drive_stripe *stripe = state;
    drive_hands_deinit(stripe);
    for (uint32_t place = 0; place < stripe->count; place++)
        drive_close(stripe->members[place]);
    drive_split_deinit(stripe);
    base_free(&stripe->node->memory, stripe, sizeof(*stripe));
}

static uint64_t stripe_zeroed_bytes(const void *state)
{
    const struct drive_stripe *stripe = state;
    uint64_t bytes = 0;
    for (uint32_t place = 0; place < stripe->count; place++) {
        uint64_t member = base_min(drive_zeroed_bytes(stripe->members[place]), stripe->label.used_bytes);
        bytes += member - base_min(member, stripe->label.unit_bytes);
    }
    return bytes;
}

const struct drive_provider drive_provider_stripe = {
    .name = "stripe",
    .open = stripe_open,
    .close = stripe_close,
    .post = drive_split_post,
    .zeroed_bytes = stripe_zeroed_bytes,
};

/* ---- what others ask ----------------------------------------------------------------------------- */

int drive_establish(struct drive *drive)
{
    if (drive->provider != &drive_provider_stripe)
        return 0;
    struct drive_stripe *stripe = drive->state;
    if (stripe->established)
        return 0;
    int error = write_labels(stripe, DRIVE_LABEL_MAKING);
    if (error == 0)
        error = write_labels(stripe, DRIVE_LABEL_WHOLE);
    stripe->established = error == 0;
    return error;
}

uint32_t drive_member_count(const struct drive *drive)
{
    return drive->provider != &drive_provider_stripe ? 1 : ((const struct drive_stripe *)drive->state)->count;
}

const struct drive *drive_member(const struct drive *drive, uint32_t place)
{
    base_assert(place < drive_member_count(drive));
    return drive->provider != &drive_provider_stripe
               ? drive
               : ((const struct drive_stripe *)drive->state)->members[place];
}
