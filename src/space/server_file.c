/*
 * The memory file of a memory server: a server that is closed in good order saves there what its namespaces have, and the next
 * one takes it up again. README.md, "Memory file", has the format. Assigning and revoking the chunks is server_chunks.c's.
 */
#include "space/server.h"
#include "task/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC       "TMemFile"
#define VERSION     1
#define CHECKED_AT  16 /* from here on the head is in its checksum */
#define IDENTITY_AT 32
#define COUNT_AT    48
#define ROWS_AT     120
#define ROW_BYTES   16
#define PART_BYTES  (UINT64_C(256) << 10) /* read or written at once, by each thread */
#define THREADS     4                     /* the most that move chunks at once */
#define TELL_NS     BASE_NS_PER_SECOND    /* between two lines about progress */
#define SETTLE_NS                                                                                            \
    BASE_NS_PER_MS /* until operations that count have moved their bytes: tarn_fabric_region_free() */
#define NEXT_ROOM (PATH_MAX + 4)

/* A memory file that is being written or read, by threads of its own. */
struct filing {
    struct space_server *server;
    int (*run)(struct filing *filing);
    bool saves; /* else it loads */
    int fd;
    uint8_t *head; /* of the file */
    uint64_t head_bytes;
    uint32_t count;              /* chunks in the file */
    _Atomic uint32_t next;       /* the next chunk that a thread takes */
    _Atomic uint32_t done_count; /* chunks that have been moved */
    _Atomic int failed;          /* the first error of a thread */
    int error;                   /* what `run` has returned */
    struct task_mutex busy;      /* held until `run` has returned */
};

/* ---- the head ----------------------------------------------------------------------------------- */

static uint64_t head_bytes(uint32_t count)
{
    return base_align_up(ROWS_AT + (uint64_t)count * ROW_BYTES, BASE_PAGE_BYTES);
}

/* Have room for the head of a file with some chunks. */
static int make_head(struct filing *filing, uint32_t count)
{
    filing->count = count;
    filing->head_bytes = head_bytes(count);
    filing->head = base_alloc(&filing->server->node->memory, filing->head_bytes);
    return filing->head == NULL ? -ENOMEM : 0;
}

static uint8_t *row_at(const struct filing *filing, uint32_t index)
{
    return filing->head + ROWS_AT + (uint64_t)index * ROW_BYTES;
}

/* Write what is before the rows, but for the checksum. @param identity, count  as the file has them, or is to have them */
static void put_begin(const struct space_server *server, const uint8_t *identity, uint32_t count,
                      uint8_t *ret_begin)
{
    struct space_cursor cursor = space_cursor_to(ret_begin, ROWS_AT);
    space_put_bytes(&cursor, MAGIC, 8);
    space_put(&cursor, 0, 8);
    space_put(&cursor, VERSION, 4);
    space_put(&cursor, server->chunk_count, 4);
    space_put(&cursor, server->chunk_bytes, 8);
    space_put_bytes(&cursor, identity, SPACE_IDENTITY_BYTES);
    space_put(&cursor, count, 4);
    space_put(&cursor, strlen(server->name), 4);
    space_put_bytes(&cursor, server->name, sizeof(server->name)); /* zeros behind its end */
    base_assert(space_cursor_is_done(&cursor));
}

static uint64_t checksum_of_head(const struct filing *filing)
{
    return base_crc64(0, filing->head + CHECKED_AT, filing->head_bytes - CHECKED_AT);
}

/* ---- contents ----------------------------------------------------------------------------------- */

/* Write or read all of some bytes. @return 0; -EUCLEAN: the file ends before; an error of the kernel's */
static int move_bytes(const struct filing *filing, uint8_t *bytes, uint64_t count, uint64_t at)
{
    while (count > 0) {
        const ssize_t moved = filing->saves ? pwrite(filing->fd, bytes, count, (off_t)at)
                                            : pread(filing->fd, bytes, count, (off_t)at);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return moved == 0 ? -EUCLEAN : -errno;
        bytes += moved;
        count -= (uint64_t)moved;
        at += (uint64_t)moved;
    }
    return 0;
}

/* Move the contents of a chunk. @param part  room for PART_BYTES */
static int move_chunk(const struct filing *filing, uint32_t index, uint8_t *part)
{
    const struct space_server *server = filing->server;
    uint8_t *row = row_at(filing, index);
    struct tarn_fabric_region *memory = server->chunks[base_load_le32(row)].memory;
    const uint64_t begin = filing->head_bytes + index * server->chunk_bytes;
    uint64_t checksum = 0;
    int error = 0;
    for (uint64_t at = 0; at < server->chunk_bytes && error == 0; at += PART_BYTES) {
        const uint64_t bytes = base_min(server->chunk_bytes - at, PART_BYTES);
        if (filing->saves)
            tarn_fabric_mem_copy_out(memory, at, part, bytes);
        error = move_bytes(filing, part, bytes, begin + at);
        checksum = base_crc64(checksum, part, bytes);
        if (!filing->saves && error == 0)
            tarn_fabric_mem_copy_in(memory, at, part, bytes);
    }
    if (filing->saves)
        base_store_le64(row + 8, checksum);
    return error == 0 && checksum != base_load_le64(row + 8) ? -EUCLEAN : error;
}

/* Move chunks until all are moved, or one could not be. Several threads do. */
static void *move_chunks(void *arg)
{
    struct filing *filing = arg;
    struct base_account *account = &filing->server->node->memory;
    uint8_t *part = base_alloc(account, PART_BYTES);
    int error = part == NULL ? -ENOMEM : 0, none = 0;
    while (error == 0 && atomic_load(&filing->failed) == 0) {
        const uint32_t index = atomic_fetch_add(&filing->next, 1);
        if (index >= filing->count)
            break;
        error = move_chunk(filing, index, part);
        atomic_fetch_add(&filing->done_count, 1);
    }
    if (error != 0)
        (void)atomic_compare_exchange_strong(&filing->failed, &none, error);
    base_free(account, part, PART_BYTES);
    return NULL;
}

/* Whether there may be threads: in the simulator there is but one. */
static bool may_have_threads(const struct filing *filing)
{
    return filing->server->node->options.engine == NULL;
}

static int move_all_chunks(struct filing *filing)
{
    pthread_t threads[THREADS];
    uint32_t helpers = 0;
    while (may_have_threads(filing) && helpers + 1 < base_min(filing->count, (uint32_t)THREADS) &&
           task_thread_start(&threads[helpers], "tarn-memory", move_chunks, filing) == 0)
        helpers++; /* a thread that cannot be started is done without */
    (void)move_chunks(filing);
    for (uint32_t i = 0; i < helpers; i++)
        (void)pthread_join(threads[i], NULL);
    return atomic_load(&filing->failed);
}

static void tell(struct filing *filing, const char *what)
{
    const struct space_server *server = filing->server;
    base_info(&server->node->log, what,
              "server=%s path=%s chunks=%" PRIu32 " of=%" PRIu32 " chunk_bytes=%" PRIu64, server->name,
              server->memory_file, atomic_load(&filing->done_count), filing->count, server->chunk_bytes);
}

static void *run_in_thread(void *arg)
{
    struct filing *filing = arg;
    filing->error = filing->run(filing);
    task_mutex_unlock(&filing->busy);
    return NULL;
}

/* Have a thread run it, so that the scheduler of the caller goes on, and tell the progress. */
static int run_aside(struct filing *filing)
{
    pthread_t thread;
    int error = -ETIMEDOUT;
    task_mutex_init(&filing->busy);
    task_mutex_lock_firmly(&filing->busy);
    if (!may_have_threads(filing) || task_thread_start(&thread, "tarn-memory", run_in_thread, filing) != 0)
        return filing->run(filing);
    while (error == -ETIMEDOUT) {
        error = task_mutex_lock(&filing->busy, task_now() + TELL_NS);
        if (error == -ETIMEDOUT)
            tell(filing, filing->saves ? "saving a memory server" : "taking up a memory server");
    }
    if (error != 0)
        task_mutex_lock_firmly(&filing->busy); /* a task that was cancelled cannot leave the thread behind */
    (void)pthread_join(thread, NULL);
    return filing->error;
}

/* ---- names -------------------------------------------------------------------------------------- */

static void name_next(const struct space_server *server, char *ret_path)
{
    (void)snprintf(ret_path, NEXT_ROOM, "%s.tmp", server->memory_file);
}

static int tell_failure(const struct space_server *server, const char *what, int error)
{
    const char *remedy =
        error == -EUCLEAN  ? "it is damaged, or no memory file: remove it, and with it what was saved"
        : error == -EINVAL ? "it is of another user, or of a server of another name, --memory, --chunk or "
                             "version: start the "
                             "server as before, or remove the file, and with it what was saved"
        : error == -EBUSY  ? "another memory server has it: wait until that has ended, or name another file"
                           : "name a file in a folder that exists, that this process may write, and that has "
                             "room for all memory of namespaces";
    base_error(&server->node->log, what, "server=%s path=%s reason=\"%s\" remedy=\"%s\"", server->name,
               server->memory_file, strerror(-error), remedy);
    return error;
}

/* ---- saving ------------------------------------------------------------------------------------- */

static int save_all(struct filing *filing)
{
    const struct space_server *server = filing->server;
    char path[NEXT_ROOM];
    name_next(server, path);
    (void)task_sleep(SETTLE_NS);
    int error = move_all_chunks(filing);
    if (error == 0) {
        base_store_le64(filing->head + 8, checksum_of_head(filing));
        error = move_bytes(filing, filing->head, filing->head_bytes, 0);
    }
    if (error == 0 && (fsync(filing->fd) != 0 || rename(path, server->memory_file) != 0))
        error = -errno;
    if (error != 0)
        (void)unlink(path);
    return error == 0 ? base_folder_sync(&server->node->memory, server->memory_file) : error;
}

static void save_contents(struct space_server *server)
{
    struct filing filing = {.server = server, .run = save_all, .saves = true, .fd = server->next_file};
    int error = make_head(&filing, (uint32_t)atomic_load(&server->assigned_count));
    uint32_t index = 0;
    if (error == 0)
        put_begin(server, server->identity, filing.count, filing.head);
    for (uint32_t i = 0; i < server->chunk_count && error == 0; i++) {
        const struct server_space *space = server->chunks[i].space;
        if (space == NULL)
            continue;
        base_assert(index < filing.count);
        uint8_t *row = row_at(&filing, index++);
        base_store_le32(row, i);
        base_store_le32(row + 4, space->number);
    }
    server_revoke_chunks(server);
    if (error == 0)
        error = run_aside(&filing);
    if (error == 0)
        tell(&filing, "saved a memory server");
    else
        (void)tell_failure(server, "cannot save a memory server: what it had is lost", error);
    base_free(&server->node->memory, filing.head, filing.head_bytes);
}

void server_close_file(struct space_server *server)
{
    char path[NEXT_ROOM];
    if (server->next_file < 0)
        return;
    name_next(server, path);
    if (server->is_to_be_saved)
        save_contents(server);
    else
        (void)unlink(path);
    (void)close(server->next_file);
}

/* ---- taking up ---------------------------------------------------------------------------------- */

/* Check a head. @param file_bytes  of the whole file @return 0; -EUCLEAN; -EINVAL: it is of another server */
static int check_head(const struct filing *filing, uint64_t file_bytes)
{
    const struct space_server *server = filing->server;
    uint8_t expected[ROWS_AT];
    uint64_t next = 0;
    if (base_load_le64(filing->head + 8) != checksum_of_head(filing))
        return -EUCLEAN;
    put_begin(server, filing->head + IDENTITY_AT, filing->count, expected);
    if (memcmp(filing->head + CHECKED_AT, expected + CHECKED_AT, ROWS_AT - CHECKED_AT) != 0)
        return -EINVAL;
    for (uint32_t i = 0; i < filing->count; i++) {
        const uint8_t *row = row_at(filing, i);
        const uint32_t chunk = base_load_le32(row);
        if (chunk < next || chunk >= server->chunk_count || base_load_le32(row + 4) == 0)
            return -EUCLEAN;
        next = (uint64_t)chunk + 1;
    }
    return file_bytes == filing->head_bytes + filing->count * server->chunk_bytes ? 0 : -EUCLEAN;
}

/* Read the file into chunks that no namespace has yet. If it is damaged, they are not used. */
static int load_all(struct filing *filing)
{
    uint8_t begin[ROWS_AT];
    struct stat status;
    if (fstat(filing->fd, &status) != 0)
        return -errno;
    if (!S_ISREG(status.st_mode) || status.st_uid != geteuid())
        return -EINVAL;
    int error = move_bytes(filing, begin, sizeof(begin), 0);
    const uint32_t count = error == 0 ? base_load_le32(begin + COUNT_AT) : 0;
    if (error == 0 && (memcmp(begin, MAGIC, 8) != 0 || count > TARN_FABRIC_REGIONS_MAX))
        error = -EUCLEAN;
    if (error == 0)
        error = make_head(filing, count);
    if (error == 0)
        error = move_bytes(filing, filing->head, filing->head_bytes, 0);
    if (error == 0)
        error = check_head(filing, (uint64_t)status.st_size);
    return error == 0 ? move_all_chunks(filing) : error;
}

static int load_file(struct space_server *server, int fd)
{
    struct filing filing = {.server = server, .run = load_all, .fd = fd};
    int error = run_aside(&filing);
    for (uint32_t i = 0; i < filing.count && error == 0; i++) {
        const uint8_t *row = row_at(&filing, i);
        error = server_assign(server, base_load_le32(row), base_load_le32(row + 4));
    }
    if (error == 0) {
        memcpy(server->identity, filing.head + IDENTITY_AT, SPACE_IDENTITY_BYTES);
        server->has_loaded = true;
        tell(&filing, "took up a memory server");
    }
    base_free(&server->node->memory, filing.head, filing.head_bytes);
    return error;
}

/* Make the file that takes the memory file's place at the end, and have it alone until then. What a server that was killed has
 * left there is removed. @return 0; -EBUSY; errors of the kernel */
static int open_next_file(struct space_server *server)
{
    char path[NEXT_ROOM];
    struct stat opened, named;
    name_next(server, path);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    const bool is_ours = flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &opened) == 0 &&
                         stat(path, &named) == 0 && opened.st_ino == named.st_ino &&
                         opened.st_uid == geteuid();
    const int error = !is_ours ? -EBUSY : ftruncate(fd, 0) != 0 ? -errno : 0;
    if (error == 0)
        server->next_file = fd;
    else
        (void)close(fd);
    return error;
}

int server_load(struct space_server *server)
{
    if (server->memory_file[0] == '\0')
        return 0;
    int error = open_next_file(server); /* what cannot be made now cannot be made at the end */
    if (error != 0)
        return tell_failure(server, "cannot make a memory file", error);
    const int fd = open(server->memory_file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return 0;
    error = fd < 0 ? -errno : load_file(server, fd);
    if (fd >= 0)
        (void)close(fd);
    return error == 0 ? 0 : tell_failure(server, "cannot take up a memory server", error);
}

int server_remove_file(struct space_server *server)
{
    if (server->next_file < 0)
        return 0;
    int error = server->has_loaded && unlink(server->memory_file) != 0 ? -errno : 0;
    server->is_to_be_saved = error == 0;
    if (error == 0 && server->has_loaded)
        error = base_folder_sync(&server->node->memory, server->memory_file);
    return error == 0 ? 0 : tell_failure(server, "cannot remove a memory file", error);
}
