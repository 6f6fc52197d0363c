/* For the tests of this layer: a log that counts, folders to make files in, nodes without schedulers. */
#ifndef DRIVE_TESTING_H
#define DRIVE_TESTING_H

#include "drive/drive.h"
#include "task/testing.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Counts the lines that hold a text, and keeps the last. */
struct testing_log {
    struct base_spin lock;
    const char *text;
    unsigned count;
    char last[BASE_LOG_LINE_BYTES];
};

static inline void testing_log_sink(void *arg, enum base_log_level level, const char *line, size_t len)
{
    (void)level;
    struct testing_log *log = arg;
    base_spin_lock(&log->lock);
    if (strstr(line, log->text) != NULL) {
        log->count++;
        memcpy(log->last, line, len + 1);
    }
    base_spin_unlock(&log->lock);
}

static inline unsigned testing_log_count(struct testing_log *log)
{
    base_spin_lock(&log->lock);
    unsigned count = log->count;
    base_spin_unlock(&log->lock);
    return count;
}

/** Options of a node that logs there. */
static inline struct task_node_options testing_options(struct testing_log *log)
{
    return (struct task_node_options){
        .log_level = BASE_LOG_DEBUG, .log_sink = testing_log_sink, .log_arg = log};
}

/** A node without schedulers, for plain threads. */
static inline struct tarn_node *testing_node(struct testing_log *log)
{
    struct task_node_options options = testing_options(log);
    struct tarn_node *node;
    assert_int_equal(task_node_open(&options, &node), 0);
    return node;
}

#define TESTING_PATH_BYTES 256

/* A fresh folder; where it is decides the file system. */
struct testing_folder {
    char path[TESTING_PATH_BYTES];
};

/** @return false if there is no such place */
static inline bool testing_folder_make(struct testing_folder *folder, const char *where)
{
    assert_true(snprintf(folder->path, sizeof(folder->path), "%s/drive-test-XXXXXX", where) > 0);
    return mkdtemp(folder->path) != NULL;
}

static inline const char *testing_path(const struct testing_folder *folder, const char *name, char *room)
{
    int length = snprintf(room, TESTING_PATH_BYTES, "%s/%s", folder->path, name);
    assert_true(length > 0 && length < TESTING_PATH_BYTES);
    return room;
}

/** Remove a folder that is empty again. */
static inline void testing_folder_remove(const struct testing_folder *folder)
{
    assert_int_equal(rmdir(folder->path), 0);
}

/* A pattern that tells where it was written and when. */
static inline void testing_fill(void *memory, size_t bytes, uint64_t offset, uint64_t round)
{
    uint64_t *words = memory;
    for (size_t i = 0; i < bytes / sizeof(*words); i++)
        words[i] = (offset / sizeof(*words) + i + 1) * UINT64_C(0x9e3779b97f4a7c15) + round;
}

static inline bool testing_filled(const void *memory, size_t bytes, uint64_t offset, uint64_t round)
{
    const uint64_t *words = memory;
    for (size_t i = 0; i < bytes / sizeof(*words); i++) {
        if (words[i] != (offset / sizeof(*words) + i + 1) * UINT64_C(0x9e3779b97f4a7c15) + round)
            return false;
    }
    return true;
}

#endif
