/* For the tests of this layer: a log that counts, folders to make files in, nodes without schedulers. */
#include "drive/testing.h"

static void testing_log_sink(void *arg, enum base_log_level level, const char *line, size_t len)
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

unsigned testing_log_count(struct testing_log *log)
{
    base_spin_lock(&log->lock);
    unsigned count = log->count;
    base_spin_unlock(&log->lock);
    return count;
}

struct task_node_options testing_options(struct testing_log *log)
{
    return (struct task_node_options){
        .log_level = BASE_LOG_DEBUG, .log_sink = testing_log_sink, .log_arg = log};
}

struct tarn_node *testing_log_node(struct testing_log *log)
{
    struct task_node_options options = testing_options(log);
    struct tarn_node *node;
    assert_int_equal(task_node_open(&options, &node), 0);
    return node;
}

bool testing_folder_make(struct testing_folder *folder, const char *where)
{
    assert_true(snprintf(folder->path, sizeof(folder->path), "%s/drive-test-XXXXXX", where) > 0);
    return mkdtemp(folder->path) != NULL;
}

const char *testing_path(const struct testing_folder *folder, const char *name, char *room)
{
    int length = snprintf(room, TESTING_PATH_BYTES, "%s/%s", folder->path, name);
    assert_true(length > 0 && length < TESTING_PATH_BYTES);
    return room;
}

void testing_folder_remove(const struct testing_folder *folder)
{
    assert_int_equal(rmdir(folder->path), 0);
}

void testing_in_each_place(void (*test)(struct testing_folder *folder))
{
    static const char *const places[] = {".", "/dev/shm"};
    for (size_t i = 0; i < base_array_count(places); i++) {
        struct testing_folder folder;
        if (!testing_folder_make(&folder, places[i])) {
            print_message("skipped in %s: %s\n", places[i], strerror(errno));
            continue;
        }
        test(&folder);
        testing_folder_remove(&folder);
    }
}

void *testing_pages(size_t bytes)
{
    void *memory = aligned_alloc(BASE_PAGE_BYTES, bytes);
    assert_non_null(memory);
    return memory;
}

int64_t testing_unwritten(const char *path, uint64_t offset, uint64_t length, bool sync)
{
    enum { EXTENTS = 4096 };
    struct fiemap *answer = calloc(1, sizeof(*answer) + EXTENTS * sizeof(struct fiemap_extent));
    assert_non_null(answer);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    answer->fm_start = offset;
    answer->fm_length = length;
    answer->fm_flags = sync ? FIEMAP_FLAG_SYNC : 0;
    answer->fm_extent_count = EXTENTS;
    int64_t bytes = ioctl(fd, FS_IOC_FIEMAP, answer) == 0 ? 0 : -1;
    uint64_t end = length > UINT64_MAX - offset ? UINT64_MAX : offset + length;
    for (uint32_t i = 0; bytes >= 0 && i < answer->fm_mapped_extents; i++) {
        const struct fiemap_extent *extent = &answer->fm_extents[i];
        if ((extent->fe_flags & FIEMAP_EXTENT_UNWRITTEN) != 0)
            bytes += (int64_t)(base_min(extent->fe_logical + extent->fe_length, end) -
                               base_max(extent->fe_logical, offset));
    }
    assert_true(answer->fm_mapped_extents < EXTENTS);
    assert_int_equal(close(fd), 0);
    free(answer);
    return bytes;
}

void drive_testing_fill(void *memory, size_t bytes, uint64_t offset, uint64_t round)
{
    uint64_t *words = memory;
    for (size_t i = 0; i < bytes / sizeof(*words); i++)
        words[i] = (offset / sizeof(*words) + i + 1) * UINT64_C(0x9e3779b97f4a7c15) + round;
}

bool testing_filled(const void *memory, size_t bytes, uint64_t offset, uint64_t round)
{
    const uint64_t *words = memory;
    for (size_t i = 0; i < bytes / sizeof(*words); i++) {
        if (words[i] != (offset / sizeof(*words) + i + 1) * UINT64_C(0x9e3779b97f4a7c15) + round)
            return false;
    }
    return true;
}
