/* For the tests of this layer: a log that counts, folders to make files in, nodes without schedulers. */
#ifndef DRIVE_TESTING_H
#define DRIVE_TESTING_H

#include "drive/drive.h"
#include "task/testing.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Counts the lines that hold a text, and keeps the last. */
struct testing_log {
    struct base_spin lock;
    const char *text;
    unsigned count;
    char last[BASE_LOG_LINE_BYTES];
};

unsigned testing_log_count(struct testing_log *log);

/** Options of a node that logs there. */
struct task_node_options testing_options(struct testing_log *log);

/** A node without schedulers, for plain threads. */
struct tarn_node *testing_log_node(struct testing_log *log);

#define TESTING_PATH_BYTES 256

/* A fresh folder; its place decides the file system. */
struct testing_folder {
    char path[TESTING_PATH_BYTES];
};

/** @return false if there is no such place */
bool testing_folder_make(struct testing_folder *folder, const char *where);

const char *testing_path(const struct testing_folder *folder, const char *name, char *room);

/** Remove a folder that is empty again. */
void testing_folder_remove(const struct testing_folder *folder);

/** Call a test for two file systems: that of the working folder, and one in memory. */
void testing_in_each_place(void (*test)(struct testing_folder *folder));

/** Memory for direct I/O; free() it. */
void *testing_pages(size_t bytes);

/**
 * Count the bytes of a part of a file that are reserved and were never written.
 *
 * @param sync  write back the page cache first; without this, bytes that are only there count as unwritten
 * @return -1 if the file system does not say
 */
int64_t testing_unwritten(const char *path, uint64_t offset, uint64_t length, bool sync);

/* Fill memory with a pattern that names its offset and its round. */
void drive_testing_fill(void *memory, size_t bytes, uint64_t offset, uint64_t round);

bool testing_filled(const void *memory, size_t bytes, uint64_t offset, uint64_t round);

#endif
