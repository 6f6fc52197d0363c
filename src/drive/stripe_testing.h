/* For the tests of stripes: several drives in memory, named "0", "1" and so on, whose writes end at a moment.
 */
#ifndef DRIVE_STRIPE_TESTING_H
#define DRIVE_STRIPE_TESTING_H

#include "drive/memory_testing.h"
#include "drive/stripe.h"
#include "drive/testing.h"
#include "task/testing.h"

enum { TESTING_MEMBERS = 6 };

#define TESTING_MEMBER_BYTES ((uint64_t)256 * 1024)

struct testing_member {
    struct testing_drive drive;
    struct testing_members *all;
    uint32_t logical_block_bytes; /* 0: 512 */
    bool write_cache, fua;
    bool open;
};

struct testing_members {
    struct testing_member members[TESTING_MEMBERS];
    _Atomic uint64_t writes; /* so far, all told */
    uint64_t writes_max;     /* all after so many fail and do nothing; 0: no end */
    bool tears;              /* of the last one only half is done */
    uint32_t meet;           /* > 0: a flush is done when so many members are at it */
    _Atomic uint32_t met;    /* so many are */
    _Atomic uint32_t missed; /* that waited for others in vain */
    struct testing_lines lines;
};

/** Drives full of zeros. */
struct testing_members *testing_members_new(void);

/** Other drives with the same bytes, and no end of writes. */
struct testing_members *testing_members_copy(struct testing_members *from);

void testing_members_free(struct testing_members *all);

struct task_node_options testing_members_options(struct testing_members *all);

struct tarn_node *testing_members_node(struct testing_members *all);

/** Have some of the drives be a stripe. */
struct drive *testing_stripe_make(struct tarn_node *node, const char *list);

/* Open, on a node of its own. @return the error; 0: it was closed again */
int testing_stripe_try(struct testing_members *all, const char *list, const struct drive_options *options);

void testing_stripe_refused(struct testing_members *all, const char *list,
                            const struct drive_options *options, int error, const char *why);

/* A stripe of some drives, with a pattern in all of its units. */
void testing_stripe_fill(struct testing_members *all, const char *list);

void testing_stripe_expect(struct testing_members *all, const char *list,
                           const struct drive_options *options);

/* Change a label, and seal it again. */
void testing_labels_change(struct testing_members *all, uint32_t member, void (*change)(struct drive_label *),
                           int copies);

/* Change something in a label, and seal it again or not. */
void testing_label_edit(struct base_random *random, uint8_t *bytes);

/* Open, if it opens, and read all of it. @return 1: it has opened */
unsigned testing_stripe_read_all(struct testing_members *all, const char *list,
                                 const struct drive_options *options);

#endif
