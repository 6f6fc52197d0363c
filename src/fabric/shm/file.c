/* Memory files: making and sealing them, and checking those of other processes before their memory is touched. */
#include "fabric/shm/shm.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The seals without which a file could become shorter: a process that touches the cut part dies of SIGBUS. */
#define FIXED_LENGTH (F_SEAL_SHRINK | F_SEAL_GROW)

#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)

/* @return 0 or -ENOMEM and the like */
static int map_file(struct shm_file *file, int fd, bool writable)
{
    const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void *memory = mmap(NULL, file->bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (memory == MAP_FAILED)
        return -errno;
    /* a child process would otherwise go on holding memory that this side has to give back */
    if (madvise(memory, file->bytes, MADV_DONTFORK) != 0) {
        int error = -errno;
        (void)munmap(memory, file->bytes);
        return error;
    }
    if (file->bytes >= HUGE_PAGE_BYTES)
        (void)madvise(memory, file->bytes, MADV_HUGEPAGE); /* huge pages, where memory files may have them */
    file->memory = memory;
    return 0;
}

int shm_file_make(const char *name, uint64_t bytes, bool readers, const struct tarn_fabric_region *region,
                  struct shm_file *ret_file)
{
    struct shm_file file = {.fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), .bytes = bytes};
    if (file.fd < 0)
        return -errno;
    int error = fchmod(file.fd, S_IRUSR | S_IWUSR) != 0 || ftruncate(file.fd, (off_t)bytes) != 0 ? -errno : 0;
    if (error == 0)
        error = map_file(&file, file.fd, true);
    if (error == 0)
        error = region == NULL ? fabric_populate(file.memory, bytes)
                               : fabric_region_populate(region, file.memory);
    /* FUTURE_WRITE does not affect the mapping that exists already */
    if (error == 0 &&
        fcntl(file.fd, F_ADD_SEALS, FIXED_LENGTH | F_SEAL_SEAL | (readers ? F_SEAL_FUTURE_WRITE : 0)) != 0)
        error = -errno;
    if (error != 0) {
        shm_file_drop(&file);
        return error;
    }
    *ret_file = file;
    return 0;
}

int shm_file_take(int fd, uint64_t bytes, bool writable, struct shm_file *ret_file)
{
    struct stat status;
    struct statfs system;
    struct shm_file file = {.fd = -1, .bytes = bytes};
    int seals = fcntl(fd, F_GET_SEALS);
    /* only tmpfs is accepted: a page of hugetlbfs may be missing when it is touched */
    if (seals < 0 || (seals & FIXED_LENGTH) != FIXED_LENGTH || fstat(fd, &status) != 0 ||
        !S_ISREG(status.st_mode) || bytes == 0 || (uint64_t)status.st_size != bytes ||
        fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC)
        return -EPROTO;
    int error = map_file(&file, fd, writable);
    if (error != 0)
        return error == -ENOMEM ? error : -EPROTO;
    *ret_file = file;
    return 0;
}

void shm_file_close(struct shm_file *file)
{
    if (file->fd >= 0)
        (void)close(file->fd);
    file->fd = -1;
}

void shm_file_drop(struct shm_file *file)
{
    if (file->memory != NULL)
        (void)munmap(file->memory, file->bytes);
    shm_file_close(file);
    *file = (struct shm_file){.fd = -1};
}
