/*
 * Memory control groups, of either version of the kernel's interface: all memory that the processes of a
 * group use is limited, the page cache that they fill included.
 */
#ifndef LAB_MEMORY_GROUP_H
#define LAB_MEMORY_GROUP_H

#include "bench/bench.h"

#define LAB_MEMORY_GROUP_PATH_ROOM 4096

struct lab_memory_group {
    char path[LAB_MEMORY_GROUP_PATH_ROOM]; /* "": there is none */
};

/**
 * Make a group with a limit.
 *
 * @param folder  of the control group that it is to be made in
 * @param name    of the group's folder in that
 * @return 0; negative errno: said in bench->err, and none is left
 */
base_must_check int lab_memory_group_open(struct bench *bench, const char *folder, const char *name,
                                          uint64_t bytes, struct lab_memory_group *ret_group);

/** Remove it, if there is one; no process may be in it. Says it in bench->err where that fails. */
void lab_memory_group_close(struct bench *bench, struct lab_memory_group *group);

/** What its processes use now. @return 0; negative errno */
base_must_check int lab_memory_group_used(const struct lab_memory_group *group, uint64_t *ret_bytes);

/** The calling process joins the group of that folder. @return 0; negative errno */
base_must_check int lab_memory_group_join(const char *path);

#endif
