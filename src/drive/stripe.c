/* One drive made of several: opening it, its properties, growing. Its requests are split.c's, its members members.c's. */
#include "drive/stripe.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define UNITS_OF_A_DRIVE 256 /* the fewest units of a drive, as far as the smallest unit allows */

/* ---- paths -------------------------------------------------------------------------------------- */

/* Find the next comma between two paths. @return NULL: none */
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

/* Cut the list into its paths. */
static int cut_list(struct drive_stripe_opening *opening)
{
    if (opening->node->options.drives == NULL && access(opening->list, F_OK) == 0)
        return drive_stripe_refuse(
            opening, opening->list, -EINVAL,
            "commas part the drives of a stripe, and there is a file of just this name: write \\, "
            "for a comma of its name");
    const size_t bytes = strlen(opening->list) + 1;
    opening->paths_bytes = 2 * bytes;
    opening->paths = base_alloc(&opening->node->memory, opening->paths_bytes);
    if (opening->paths == NULL)
        return drive_stripe_refuse(opening, opening->list, -ENOMEM, "the memory cap is reached");
    memcpy(opening->paths, opening->list, bytes);
    for (char *path = opening->paths; path != NULL;) {
        char *comma = (char *)(uintptr_t)find_comma(path);
        if (comma != NULL)
            *comma = '\0';
        if (path[0] == '\0')
            return drive_stripe_refuse(opening, opening->list, -EINVAL,
                                       "between two commas there is no drive");
        if (opening->count == DRIVE_MEMBERS_MAX)
            return drive_stripe_refuse(opening, opening->list, -EINVAL, "a stripe has 32 drives at most");
        char *plain = path + bytes;
        memcpy(plain, path, strlen(path) + 1);
        drive_path_unescape(plain);
        opening->candidates[opening->count++] = (struct drive_candidate){.listed = path, .path = plain};
        path = comma == NULL ? NULL : comma + 1;
    }
    uint64_t all_bytes = opening->options->create_bytes;
    opening->of_each.create_bytes = all_bytes / opening->count + (all_bytes % opening->count != 0);
    return 0;
}

/* Check that no drive is named twice, by any path: the second opening would wait for the first one's lock. */
static int check_distinct(const struct drive_stripe_opening *opening)
{
    for (uint32_t i = 0; i < opening->count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            const char *a = opening->candidates[i].path, *b = opening->candidates[j].path;
            if (strcmp(a, b) == 0 || (opening->node->options.drives == NULL && drive_file_is_same(a, b)))
                return drive_stripe_refuse(opening, a, -EINVAL,
                                           "this drive is named twice: name each drive of the stripe once");
        }
    }
    return 0;
}

/* ---- the stripe ---------------------------------------------------------------------------------- */

/* Choose the unit for drives of which the smallest has least_bytes. */
static uint64_t choose_unit(uint64_t least_bytes, uint64_t block_bytes)
{
    uint64_t unit_bytes = DRIVE_UNIT_BYTES_MAX;
    while (unit_bytes > base_max(DRIVE_UNIT_BYTES_MIN, block_bytes) &&
           least_bytes / unit_bytes < UNITS_OF_A_DRIVE)
        unit_bytes /= 2;
    return unit_bytes;
}

/* Fill in the label of a new stripe, which uses as much of each drive as the smallest has. @return false: that is too
 * little */
static bool fill_label(struct drive_stripe_opening *opening)
{
    uint64_t least_bytes = UINT64_MAX, block_bytes = 0;
    for (uint32_t i = 0; i < opening->count; i++) {
        const struct drive_info *info = drive_info(opening->candidates[i].drive);
        least_bytes = base_min(least_bytes, info->bytes);
        block_bytes = base_max(block_bytes, (uint64_t)info->physical_block_bytes);
        opening->candidates[i].place = i;
    }
    const uint64_t unit_bytes = choose_unit(least_bytes, block_bytes);
    opening->label = (struct drive_label){.identity = {task_rng(opening->node), task_rng(opening->node)},
                                          .made_wall_ns = task_wall(opening->node),
                                          .count = opening->count,
                                          .unit_bytes = unit_bytes,
                                          .used_bytes = base_align_down(least_bytes, unit_bytes)};
    opening->round_count = opening->count;
    return opening->label.used_bytes >= 2 * unit_bytes && unit_bytes >= block_bytes;
}

/* The end of the first `count` members of a stripe, at which the next one is appended. */
static uint64_t end_of(const struct drive_stripe *stripe, uint32_t count)
{
    const struct drive_member *last = &stripe->members[count - 1];
    const struct drive_label *label = &stripe->label;
    return count <= stripe->round_count ? stripe->round_count * (label->used_bytes - label->unit_bytes)
                                        : last->begin_bytes + last->used_bytes - last->skip_bytes;
}

/* Put the members in their places. */
static void take_members(const struct drive_stripe_opening *opening, struct drive_stripe *stripe)
{
    for (uint32_t i = 0; i < opening->count; i++) {
        const struct drive_candidate *candidate = &opening->candidates[i];
        const struct drive_label *label = &candidate->found.label;
        stripe->members[candidate->place] = (struct drive_member){
            .drive = candidate->drive,
            .begin_bytes = drive_is_appended(candidate) ? label->begin_bytes : 0,
            .skip_bytes = candidate == opening->first ? 0 : stripe->label.unit_bytes,
            .used_bytes = candidate == opening->first    ? drive_info(candidate->drive)->bytes
                          : drive_is_appended(candidate) ? label->used_bytes
                                                         : stripe->label.used_bytes,
            .nonce = drive_is_appended(candidate) ? label->nonce : 0,
        };
    }
}

/* The multiple at which writes to the first `count` members should end. */
static uint64_t block_of(const struct drive_stripe *stripe, uint32_t count)
{
    uint64_t block_bytes = 0;
    for (uint32_t place = 0; place < count; place++)
        block_bytes =
            base_max(block_bytes, (uint64_t)drive_info(stripe->members[place].drive)->physical_block_bytes);
    return block_bytes;
}

/* Check that an appended drive begins at the end of the drives before it, or earlier. @return the fault, as a sentence;
 * NULL: none */
static const char *wrong_appended(const struct drive_stripe_opening *opening,
                                  const struct drive_stripe *stripe, uint32_t place)
{
    const struct drive_member *member = &stripe->members[place];
    uint64_t follows = 0;
    for (uint32_t i = 0; i < opening->count; i++) {
        if (opening->candidates[i].place == place)
            follows = opening->candidates[i].found.label.follows;
    }
    if (follows != member[-1].nonce)
        return "it was appended to another drive than the one before it: name the right ones";
    if (member->begin_bytes > end_of(stripe, place))
        return "it, or what is before it, is shorter than when it was appended: its end is missing; give it "
               "its "
               "size back";
    if (member->begin_bytes <= member[-1].begin_bytes ||
        !base_is_aligned(member->begin_bytes, block_of(stripe, stripe->count)))
        return "its label contradicts those of the others";
    return NULL;
}

/* Check that the appended drives follow each other. If a drive before one of them has become larger since, its added
 * space is not used. */
static int check_appended(const struct drive_stripe_opening *opening, struct drive_stripe *stripe)
{
    const uint32_t end = stripe->count - (opening->appended != NULL);
    for (uint32_t place = base_max(stripe->round_count, UINT32_C(1)); place < end; place++) {
        struct drive_member *member = &stripe->members[place], *before = member - 1;
        const char *wrong = wrong_appended(opening, stripe, place);
        if (wrong != NULL)
            return drive_stripe_refuse(opening, drive_path(member->drive), -EUCLEAN, wrong);
        if (place > stripe->round_count)
            before->used_bytes = member->begin_bytes - before->begin_bytes + before->skip_bytes;
    }
    return 0;
}

/* Decide where the drive that is to be appended begins, and how much of it will be used. */
static int place_appended(const struct drive_stripe_opening *opening, struct drive_stripe *stripe)
{
    const struct drive_info *info = drive_info(opening->appended->drive);
    struct drive_member *member = &stripe->members[opening->appended->place];
    if (opening->options->read_only)
        return drive_stripe_refuse(opening, opening->appended->path, -EROFS,
                                   "to append it, it must be opened to write");
    if (info->physical_block_bytes > block_of(stripe, opening->appended->place))
        return drive_stripe_refuse(
            opening, opening->appended->path, -ENOTSUP,
            "its blocks are larger than those of the drives that it shall be appended to");
    member->begin_bytes = end_of(stripe, opening->appended->place);
    member->used_bytes = base_align_down(info->bytes, stripe->label.unit_bytes);
    member->nonce = task_rng(opening->node) | 1;
    if (member->used_bytes < 2 * stripe->label.unit_bytes)
        return drive_stripe_refuse(opening, opening->appended->path, -EINVAL,
                                   "it is too small to be appended");
    stripe->established = false;
    return 0;
}

static uint32_t count_appended(const struct drive_stripe *stripe)
{
    return stripe->count - base_max(stripe->round_count, UINT32_C(1));
}

/* Fill in the stripe's properties: of each, the strictest that a member has. */
static void describe_stripe(const struct drive_stripe *stripe, struct drive_info *ret_info)
{
    struct drive_info info = {.provider = "stripe",
                              .mapped = true,
                              .bytes = end_of(stripe, stripe->count),
                              .memory_alignment_bytes = 1,
                              .created = true,
                              .fua = true,
                              .discard = true,
                              .unit_bytes = stripe->label.unit_bytes,
                              .appended = count_appended(stripe),
                              .appending = !stripe->established && count_appended(stripe) > 0,
                              .stripe_identity = {stripe->label.identity[0], stripe->label.identity[1]}};
    for (uint32_t place = 0; place < stripe->count; place++) {
        const struct drive_info *member = drive_info(stripe->members[place].drive);
        /* requests are cut between blocks, so the memory of a block's start must be aligned, too */
        info.logical_block_bytes = base_max(
            info.logical_block_bytes, base_max(member->logical_block_bytes, member->memory_alignment_bytes));
        info.physical_block_bytes = base_max(info.physical_block_bytes, member->physical_block_bytes);
        info.memory_alignment_bytes = base_max(info.memory_alignment_bytes, member->memory_alignment_bytes);
        info.direct = info.direct || member->direct;
        info.device = info.device || member->device;
        info.mapped = info.mapped && member->mapped;
        info.created = info.created && member->created;
        info.write_cache = info.write_cache || member->write_cache;
        info.fua = info.fua && member->fua;
        info.discard = info.discard && member->discard;
    }
    info.physical_block_bytes = base_max(info.physical_block_bytes, info.logical_block_bytes);
    *ret_info = info;
}

static void log_stripe(const struct drive_stripe_opening *opening, const struct drive_stripe *stripe)
{
    struct base_log *node_log = &opening->node->log;
    const struct drive_label *label = &stripe->label;
    base_info(node_log, "stripe",
              "identity=%016" PRIx64 "%016" PRIx64 " drives=%" PRIu32 " appended=%" PRIu32 " unit=%" PRIu64,
              label->identity[0], label->identity[1], stripe->count, count_appended(stripe),
              label->unit_bytes);
    for (uint32_t place = 0; place < stripe->count; place++) {
        const struct drive_member *member = &stripe->members[place];
        uint64_t idle_bytes = drive_info(member->drive)->bytes - member->used_bytes;
        if (idle_bytes >= label->unit_bytes)
            base_info(node_log, "a drive of a stripe is not used to its end",
                      "drive=%s used_bytes=%" PRIu64 " idle_bytes=%" PRIu64
                      " reason=\"of those whose units go round as much is used as the smallest had\"",
                      drive_name(member->drive), member->used_bytes, idle_bytes);
    }
}

/* Write the labels of the members whose units go round, with this state. */
static int write_labels(struct drive_stripe *stripe, const struct drive_label *as, uint32_t state)
{
    int error = 0;
    struct drive_label label = *as;
    label.state = state;
    for (label.place = 0; label.place < stripe->round_count && error == 0; label.place++)
        error = drive_label_write(stripe->node, stripe->members[label.place].drive, &label);
    return error;
}

/*
 * Write the labels that a crash has left missing: nothing was stored before all members had theirs. And flush all
 * labels, because those that were read may be a killed process's, and still be in a cache.
 */
static int complete_stripe(const struct drive_stripe_opening *opening, struct drive_stripe *stripe)
{
    bool all = true;
    int error = 0;
    if (opening->options->read_only)
        return 0;
    for (uint32_t i = 0; i < opening->count && error == 0; i++) {
        const struct drive_candidate *candidate = &opening->candidates[i];
        if (candidate == opening->first || candidate == opening->appended || candidate->found.complete)
            continue;
        if (drive_is_appended(candidate))
            error = drive_label_write(stripe->node, candidate->drive, &candidate->found.label);
        else
            all = false;
    }
    if (error == 0 && !all)
        error = write_labels(stripe, &stripe->label, DRIVE_LABEL_WHOLE);
    for (uint32_t place = 0; place < stripe->count && error == 0; place++)
        error = drive_flush(stripe->members[place].drive);
    return error;
}

/* Make the stripe of its members. @param is_new  nothing was ever stored on them */
static int arrange_members(struct drive_stripe_opening *opening, struct drive_stripe *stripe, bool is_new)
{
    if (is_new && !fill_label(opening))
        return drive_stripe_refuse(opening, opening->list, -EINVAL,
                                   "the smallest of these drives is too small for a stripe");
    if (opening->label.unit_bytes == 0) {
        const struct drive_info *info = drive_info(opening->appended->drive);
        opening->label.unit_bytes = choose_unit(info->bytes, info->physical_block_bytes);
    }
    stripe->label = opening->label;
    stripe->round_count = opening->round_count;
    stripe->unit_shift = (uint32_t)__builtin_ctzll(stripe->label.unit_bytes);
    stripe->established = !is_new;
    take_members(opening, stripe);
    int error = check_appended(opening, stripe);
    if (error == 0 && opening->appended != NULL)
        error = place_appended(opening, stripe);
    if (error == 0)
        error = drive_split_init(stripe);
    if (error == 0)
        error = drive_member_threads_init(stripe);
    if (error == 0 && !is_new)
        error = complete_stripe(opening, stripe);
    stripe->extended_bytes = stripe->members[stripe->count - 1].used_bytes;
    return error;
}

static int make_stripe(struct drive_stripe_opening *opening, bool is_new, struct drive_stripe **ret_stripe)
{
    struct drive_stripe *stripe = base_alloc(&opening->node->memory, sizeof(*stripe));
    if (stripe == NULL)
        return drive_stripe_refuse(opening, opening->list, -ENOMEM, "the memory cap is reached");
    stripe->node = opening->node;
    stripe->count = opening->count;
    int error = arrange_members(opening, stripe, is_new);
    if (error != 0) {
        drive_member_threads_deinit(stripe);
        drive_split_deinit(stripe);
        base_free(&opening->node->memory, stripe, sizeof(*stripe));
        return error;
    }
    *ret_stripe = stripe;
    return 0;
}

static int open_all(struct drive_stripe_opening *opening, struct drive_stripe **ret_stripe)
{
    int error = cut_list(opening);
    if (error == 0)
        error = check_distinct(opening);
    bool is_new = false;
    if (error == 0)
        error = drive_members_open(opening, &is_new);
    return error == 0 ? make_stripe(opening, is_new, ret_stripe) : error;
}

static int stripe_open(struct tarn_node *node, void *provider_arg, const char *path,
                       const struct drive_options *options, struct drive_info *ret_info, void **ret_state)
{
    (void)provider_arg;
    struct drive_stripe_opening *opening = base_alloc(&node->memory, sizeof(*opening));
    if (opening == NULL)
        return drive_refuse(node, path, -ENOMEM, "the memory cap is reached");
    opening->node = node;
    opening->list = path;
    opening->options = options;
    opening->of_each = *options;
    struct drive_stripe *stripe = NULL;
    int error = open_all(opening, &stripe);
    if (error == 0) {
        base_assert(stripe != NULL);
        log_stripe(opening, stripe);
        describe_stripe(stripe, ret_info);
        *ret_state = stripe;
    } else {
        drive_members_abandon(opening);
    }
    if (opening->paths != NULL)
        base_free(&node->memory, opening->paths, opening->paths_bytes);
    base_free(&node->memory, opening, sizeof(*opening));
    return error;
}

static void stripe_close(void *state)
{
    struct drive_stripe *stripe = state;
    drive_member_threads_deinit(stripe);
    for (uint32_t place = 0; place < stripe->count; place++)
        drive_close(stripe->members[place].drive);
    drive_split_deinit(stripe);
    base_free(&stripe->node->memory, stripe, sizeof(*stripe));
}

static uint64_t stripe_zeroed_bytes(const void *state)
{
    const struct drive_stripe *stripe = state;
    uint64_t bytes = 0;
    for (uint32_t place = 0; place < stripe->count; place++) {
        const struct drive_member *member = &stripe->members[place];
        uint64_t zeroed_bytes = base_min(drive_zeroed_bytes(member->drive), member->used_bytes);
        bytes += zeroed_bytes - base_min(zeroed_bytes, member->skip_bytes);
    }
    return bytes;
}

/* ---- becoming larger ------------------------------------------------------------------------------ */

/* Write the label of the last drive, which was appended or is to be. Once that is durable the drive is a member. */
static int write_appended(struct drive_stripe *stripe, uint64_t used_bytes)
{
    const struct drive_member *member = &stripe->members[stripe->count - 1];
    struct drive_label label = stripe->label;
    label.count = stripe->count;
    label.place = stripe->count - 1;
    label.state = DRIVE_LABEL_WHOLE;
    label.made_wall_ns = task_wall(stripe->node);
    label.begin_bytes = member->begin_bytes;
    label.used_bytes = used_bytes;
    label.nonce = member->nonce;
    label.follows = member[-1].nonce;
    return drive_label_write(stripe->node, member->drive, &label);
}

/* Grow the members whose units go round: their added space is used only when each label has it. */
static int extend_round(struct drive_stripe *stripe, uint64_t used_bytes)
{
    struct drive_label label = stripe->label;
    label.used_bytes = used_bytes;
    return write_labels(stripe, &label, DRIVE_LABEL_WHOLE);
}

/*
 * Grow the last members, behind which the stripe's addresses are still free; behind the others those of the next
 * member begin. A file's new length becomes durable together with its label.
 */
static int stripe_extend(void *state, uint64_t *inout_bytes)
{
    struct drive_stripe *stripe = state;
    const bool goes_round = stripe->count == stripe->round_count;
    uint64_t least_bytes = UINT64_MAX;
    int error = 0;
    for (uint32_t place = goes_round ? 0 : stripe->count - 1; place < stripe->count && error == 0; place++) {
        uint64_t bytes;
        error = drive_extend(stripe->members[place].drive, &bytes);
        least_bytes = base_min(least_bytes, bytes);
    }
    const uint64_t used_bytes = base_align_down(least_bytes, stripe->label.unit_bytes);
    if (error != 0 || used_bytes <= stripe->extended_bytes)
        return error;
    error = goes_round ? extend_round(stripe, used_bytes) : write_appended(stripe, used_bytes);
    if (error != 0)
        return error;
    *inout_bytes += (used_bytes - stripe->extended_bytes) * (goes_round ? stripe->count : 1);
    stripe->extended_bytes = used_bytes;
    return 0;
}

const struct drive_provider drive_provider_stripe = {
    .name = "stripe",
    .open = stripe_open,
    .close = stripe_close,
    .post = drive_split_post,
    .zeroed_bytes = stripe_zeroed_bytes,
    .extend = stripe_extend,
};

/* ---- what others ask ----------------------------------------------------------------------------- */

int drive_establish(struct drive *drive)
{
    if (drive->provider != &drive_provider_stripe)
        return 0;
    struct drive_stripe *stripe = drive->state;
    if (stripe->established)
        return 0;
    int error;
    if (drive->info.appending) {
        error = write_appended(stripe, stripe->extended_bytes);
    } else {
        error = write_labels(stripe, &stripe->label, DRIVE_LABEL_MAKING);
        if (error == 0)
            error = write_labels(stripe, &stripe->label, DRIVE_LABEL_WHOLE);
    }
    stripe->established = error == 0;
    drive->info.appending = drive->info.appending && error != 0;
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
               : ((const struct drive_stripe *)drive->state)->members[place].drive;
}

struct drive_appended drive_appended(const struct drive *drive, uint32_t number)
{
    base_assert(number < drive->info.appended);
    const struct drive_stripe *stripe = drive->state;
    const struct drive_member *member = &stripe->members[stripe->count - drive->info.appended + number];
    return (struct drive_appended){.begin_bytes = member->begin_bytes, .nonce = member->nonce};
}
