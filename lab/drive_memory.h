/*
 * A drive in memory with blocks of any size, for what does not depend on how fast a drive is: how many bytes
 * are moved. Its requests take no time, and are done when the tasks that can run have run, so that writes
 * gather as with a drive that is busy.
 */
#ifndef LAB_DRIVE_MEMORY_H
#define LAB_DRIVE_MEMORY_H

#include "drive/drive.h"

struct lab_drive_memory {
    struct base_account *account;
    uint8_t *bytes;
    uint64_t size;
    uint32_t block_bytes; /* logical and physical */
};

/** For bench_world_options.drives; drives_arg is a struct lab_drive_memory. Any path is that drive. */
extern const struct drive_provider lab_drive_memory_provider;

/** @param block_bytes  512 or more, a power of two @return 0; -ENOMEM */
base_must_check int lab_drive_memory_open(struct base_account *account, uint64_t size, uint32_t block_bytes,
                                          struct lab_drive_memory *ret_memory);

/** Free it. */
void lab_drive_memory_close(struct lab_drive_memory *memory);

#endif
