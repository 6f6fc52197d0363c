/* tarn space put, get: a file becomes a region, and a region a file. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/space.h"
#include "cli/store.h"
#include "task/node.h"
#include "task/task.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART_BYTES (UINT64_C(8) << 20) /* moved at once */

struct get_options {
    const char *secret_file;
};

struct put_options {
    const char *secret_file;
    bool force;
    uint64_t copies;
};

static const struct base_setting get_settings[] = {
    CLI_SPACE_SECRET_SETTING(offsetof(struct get_options, secret_file))};
static const struct base_setting put_settings[] = {
    CLI_SPACE_SECRET_SETTING(offsetof(struct put_options, secret_file)),
    {.name = "force",
     .type = BASE_SETTING_BOOL,
     .help = "Put it in the place of a region of this name. Clients that hold that keep it as it was.",
     .offset = offsetof(struct put_options, force)},
    {.name = "copies",
     .type = BASE_SETTING_UINT,
     .max = TARN_SPACE_COPIES_MAX,
     .default_text = "0",
     .metavar = "N",
     .help = "Make the region copy-on-write, with N copies, each on another memory server: all of these "
             "servers but "
             "one may end. 0: one copy, and clients may write it.",
     .offset = offsetof(struct put_options, copies)}};
static const struct cli_arguments get_arguments = {get_settings, base_array_count(get_settings)};
static const struct cli_arguments put_arguments = {put_settings, base_array_count(put_settings)};

void cli_space_get_help(FILE *file)
{
    (void)fputs(
        "Writes a region's bytes to FILE, which is made or replaced, or to standard output. Bytes that a\n"
        "client writes meanwhile may be the old ones or the new.\n\n",
        file);
    cli_print_options(&get_arguments, file);
}

void cli_space_put_help(FILE *file)
{
    (void)fputs(
        "Makes a region of the bytes of FILE, or of the file that standard input is, on all memory\n"
        "servers in turn. What the namespace has too little memory reserved for is reserved. The region\n"
        "has its name from the beginning: a client may find it before all bytes are there. With --copies\n"
        "it takes N chunks in the place of each, and some more are reserved, for its next versions.\n\n",
        file);
    cli_print_options(&put_arguments, file);
}

/* A region, and a file that it comes from or goes to. */
struct transfer {
    struct cli_space space;
    struct cli_region_name name;
    struct tarn_space_region *region;
    const char *path; /* of the file, for people */
    int file;
    uint64_t bytes;      /* of the region */
    uint64_t step_bytes; /* of it, after which the bar is drawn: of a version, if it is put by versions */
    uint32_t copies;     /* 0: it is not copy-on-write */
};

/* ---- put ----------------------------------------------------------------------------------------- */

/* @return CLI_OK; CLI_FAILED: said */
static int open_input(struct transfer *transfer, const char *path)
{
    struct stat about;
    transfer->path = path == NULL ? "standard input" : path;
    transfer->file = path == NULL ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (transfer->file < 0 || fstat(transfer->file, &about) != 0)
        return cli_failed("cannot read %s: %s", transfer->path, strerrordesc_np(errno));
    const off_t at = path == NULL ? lseek(transfer->file, 0, SEEK_CUR) : 0;
    if (!S_ISREG(about.st_mode) || at < 0)
        return cli_failed("%s is no file, so that nobody knows how large the region is to be: put a file",
                          transfer->path);
    if (about.st_size <= at)
        return cli_failed("%s is empty, and a region has a byte at least", transfer->path);
    transfer->bytes = (uint64_t)(about.st_size - at);
    return CLI_OK;
}

/* Read what comes next of the file, all of it. @return CLI_OK; CLI_FAILED: said */
static int read_part(const struct transfer *transfer, char *part, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t count = read(transfer->file, part + done, bytes - done);
        if (count == 0)
            return cli_failed("%s has become shorter meanwhile", transfer->path);
        if (count < 0 && errno != EINTR)
            return cli_failed("cannot read %s: %s", transfer->path, strerrordesc_np(errno));
        done += count > 0 ? (size_t)count : 0;
    }
    return CLI_OK;
}

static int put_part(const struct transfer *transfer, struct tarn_space_region *to, uint64_t at, char *part,
                    size_t bytes)
{
    const int status = read_part(transfer, part, bytes);
    if (status != CLI_OK)
        return status;
    const int error = tarn_space_write_at(to, at, part, bytes, task_now() + CLI_SPACE_DATA_PATIENCE_NS);
    return error == 0 ? CLI_OK : cli_space_failed(&transfer->name, error);
}

/* Reserve what some bytes take with all copies, each of which has whole chunks. */
static int reserve_copies(const struct transfer *transfer, uint64_t bytes)
{
    int error = 0;
    for (uint32_t i = 0; i < transfer->copies && error == 0; i++)
        error = tarn_space_reserve(transfer->space.joined, bytes, cli_space_deadline());
    return error;
}

/* Begin a version, and reserve what it takes if it is the first. The master makes versions, too, where it replaces chunks. */
static int begin_version(const struct transfer *transfer, uint64_t at, uint64_t bytes,
                         struct tarn_space_region **ret_draft)
{
    const uint64_t deadline_ns = cli_space_deadline();
    int error;
    do {
        error = tarn_space_refresh(transfer->region, deadline_ns);
        if (error == 0)
            error = tarn_space_begin(transfer->region, at, bytes, deadline_ns, ret_draft);
        if (error == -ENOSPC && at == 0)
            error = reserve_copies(transfer, bytes) == 0 ? -EAGAIN : -ENOSPC;
    } while ((error == -EAGAIN || error == -EBUSY) && task_sleep(BASE_NS_PER_MS) == 0 &&
             task_now() < deadline_ns);
    return error;
}

/* Put what comes next. With copies it is a version of its own, because one has to be written within a lease. */
static int put_step(const struct transfer *transfer, uint64_t at, char *part, uint64_t bytes)
{
    struct tarn_space_region *to = transfer->region;
    const bool is_version = transfer->copies > 0;
    int error = is_version ? begin_version(transfer, at, bytes, &to) : 0;
    int status = error == 0 ? CLI_OK : cli_space_failed(&transfer->name, error);
    for (uint64_t done = 0; done < bytes && status == CLI_OK; done += PART_BYTES)
        status =
            put_part(transfer, to, done + (is_version ? 0 : at), part, base_min(PART_BYTES, bytes - done));
    if (to == transfer->region)
        return status;
    error = status == CLI_OK ? tarn_space_publish(to, cli_space_deadline()) : 0;
    tarn_space_drop(to);
    return error == 0 ? status : cli_space_failed(&transfer->name, error);
}

/* What the namespace has reserved, that no region has. */
struct spare {
    const char *name;
    uint64_t bytes;
};

static int find_spare(void *arg, const struct tarn_space_namespace_row *row)
{
    struct spare *spare = arg;
    if (strcmp(row->name, spare->name) == 0)
        spare->bytes = row->spare_bytes;
    return 0;
}

/* Reserve what the namespace lacks. @return 0; the space's errors */
static int reserve_rest(const struct transfer *transfer)
{
    struct spare spare = {.name = transfer->name.space};
    const uint64_t bytes = transfer->bytes * base_max(transfer->copies, 1U);
    int error = tarn_space_list_namespaces(transfer->space.space, find_spare, &spare, cli_space_deadline());
    if (error != 0 || spare.bytes >= bytes)
        return error;
    return tarn_space_reserve(transfer->space.joined, bytes - spare.bytes, cli_space_deadline());
}

static int allocate_region(struct transfer *transfer)
{
    const struct tarn_space_alloc_options options = {
        .name = transfer->name.region, .copy_on_write = transfer->copies > 0, .copies = transfer->copies};
    struct tarn_space_info info;
    int error = tarn_space_alloc(transfer->space.joined, transfer->bytes, &options, cli_space_deadline(),
                                 &transfer->region);
    if (error != 0)
        return error;
    tarn_space_info(transfer->region, &info);
    transfer->step_bytes = transfer->copies > 0 ? base_max(PART_BYTES, info.chunk_bytes) : PART_BYTES;
    return 0;
}

/* Make room for a region of the name. @return 0; -EEXIST; the space's errors */
static int remove_old(const struct transfer *transfer, bool force)
{
    struct tarn_space_region *old;
    int error = tarn_space_find(transfer->space.joined, transfer->name.region, cli_space_deadline(), &old);
    if (error != 0)
        return error == -ENOENT ? 0 : error;
    error = force ? tarn_space_free(old, cli_space_deadline()) : -EEXIST;
    tarn_space_drop(old);
    return error == -ENOENT ? 0 : error;
}

/* @return CLI_OK; CLI_FAILED: said */
static int make_region(struct transfer *transfer, bool force)
{
    int error = remove_old(transfer, force);
    if (error == 0)
        error = reserve_rest(transfer);
    if (error == 0)
        error = allocate_region(transfer);
    if (error == -ENOSPC && transfer->copies > 1) { /* each copy is rounded up to chunks */
        error = reserve_copies(transfer, 1);
        error = error == 0 ? allocate_region(transfer) : error;
    }
    if (error == -ENOSPC && transfer->copies > 1)
        return cli_failed("%s/%s: the memory servers have too little left for %" PRIu32
                          " copies, each on another one "
                          "(`tarn space stat`): start more of them, or keep fewer copies",
                          transfer->name.space, transfer->name.region, transfer->copies);
    if (error == -EINVAL)
        return cli_failed(
            "%s/%s: a region with copies has 24,576 chunks at most, with all of these: start the space "
            "with a larger --chunk, or put it in parts",
            transfer->name.space, transfer->name.region);
    if (error == -EEXIST)
        return cli_failed("there already is a region %s in the namespace %s: say --force to replace it",
                          transfer->name.region, transfer->name.space);
    return error == 0 ? CLI_OK : cli_space_failed(&transfer->name, error);
}

/* ---- get ----------------------------------------------------------------------------------------- */

static int open_output(struct transfer *transfer, const char *path)
{
    transfer->path = path == NULL ? "standard output" : path;
    transfer->file =
        path == NULL ? STDOUT_FILENO : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return transfer->file >= 0 ? CLI_OK
                               : cli_failed("cannot write %s: %s", transfer->path, strerrordesc_np(errno));
}

static int get_step(const struct transfer *transfer, uint64_t at, char *part, uint64_t bytes)
{
    const int error =
        tarn_space_read_at(transfer->region, at, part, bytes, task_now() + CLI_SPACE_DATA_PATIENCE_NS);
    if (error != 0)
        return cli_space_failed(&transfer->name, error);
    for (size_t done = 0; done < bytes;) {
        const ssize_t count = write(transfer->file, part + done, bytes - done);
        if (count < 0 && errno != EINTR)
            return cli_failed("cannot write %s: %s", transfer->path, strerrordesc_np(errno));
        done += count > 0 ? (size_t)count : 0;
    }
    return CLI_OK;
}

/* @return CLI_OK; CLI_FAILED: said */
static int find_region(struct transfer *transfer)
{
    struct tarn_space_info info;
    int error = tarn_space_find(transfer->space.joined, transfer->name.region, cli_space_deadline(),
                                &transfer->region);
    if (error != 0)
        return cli_space_failed(&transfer->name, error);
    tarn_space_info(transfer->region, &info);
    transfer->bytes = info.bytes;
    return CLI_OK;
}

/* ---- both ---------------------------------------------------------------------------------------- */

typedef int step_function(const struct transfer *transfer, uint64_t at, char *part, uint64_t bytes);

/* Move all, step by step, with a bar. */
static int move_all(const struct transfer *transfer, const char *label, step_function *move_step)
{
    struct base_account *account = &transfer->space.node->memory;
    struct base_progress progress;
    char *part = base_alloc(account, PART_BYTES);
    int status = part == NULL ? cli_failed("out of memory") : CLI_OK;
    cli_progress_begin(&progress, label, NULL, transfer->bytes);
    progress.silent |= transfer->file == STDOUT_FILENO && isatty(STDOUT_FILENO) == 1;
    for (uint64_t at = 0; at < transfer->bytes && status == CLI_OK; at += transfer->step_bytes) {
        const uint64_t bytes = base_min(transfer->step_bytes, transfer->bytes - at);
        status = move_step(transfer, at, part, bytes);
        base_progress_update(&progress, at + bytes);
    }
    base_progress_end(&progress);
    base_free(account, part, PART_BYTES);
    return status;
}

static int put_all(struct transfer *transfer, bool force)
{
    int status = make_region(transfer, force);
    if (status != CLI_OK)
        return status;
    status = move_all(transfer, "put", put_step);
    if (status != CLI_OK) /* nobody shall find a part of it */
        (void)!tarn_space_free(transfer->region, cli_space_deadline());
    tarn_space_drop(transfer->region);
    return status;
}

static int get_all(struct transfer *transfer, const char *path)
{
    int status = find_region(transfer);
    if (status != CLI_OK)
        return status;
    status = open_output(transfer, path);
    if (status == CLI_OK)
        status = move_all(transfer, "get", get_step);
    tarn_space_drop(transfer->region);
    return status;
}

/* Read the words of a verb. @param ret_path  NULL: a standard stream */
static int read_words(const char *const *words, size_t count, struct transfer *ret_transfer,
                      const char **ret_path)
{
    *ret_transfer = (struct transfer){.file = -1, .step_bytes = PART_BYTES};
    if (count != 2 && count != 3)
        return cli_usage("it takes a URL, a namespace with a region, as graph/edges, and perhaps a file");
    *ret_path = count == 2 || strcmp(words[2], "-") == 0 ? NULL : words[2];
    int status = cli_space_read_name(words[1], &ret_transfer->name);
    if (status == CLI_OK && ret_transfer->name.region[0] == '\0')
        return cli_usage("name a region of the namespace, as %s/REGION", ret_transfer->name.space);
    return status;
}

/* Close the file, if it is none of the standard ones. */
static int close_file(const struct transfer *transfer, int status)
{
    if (transfer->file > STDERR_FILENO && close(transfer->file) != 0 && status == CLI_OK)
        return cli_failed("cannot write %s: %s", transfer->path, strerrordesc_np(errno));
    return status;
}

static int run_put(const void *parsed, const char *const *words, size_t count)
{
    const struct put_options *options = parsed;
    struct transfer transfer;
    const char *path = NULL;
    int status = read_words(words, count, &transfer, &path);
    if (status != CLI_OK)
        return status;
    transfer.copies = (uint32_t)options->copies;
    status = open_input(&transfer, path);
    if (status == CLI_OK)
        status = cli_space_open_joined(words[0], transfer.name.space, options->secret_file, &transfer.space);
    if (status == CLI_OK) {
        status = put_all(&transfer, options->force);
        cli_space_close(&transfer.space);
    }
    return close_file(&transfer, status);
}

static int run_get(const void *parsed, const char *const *words, size_t count)
{
    const struct get_options *options = parsed;
    struct transfer transfer;
    const char *path = NULL;
    int status = read_words(words, count, &transfer, &path);
    if (status == CLI_OK)
        status = cli_space_open_joined(words[0], transfer.name.space, options->secret_file, &transfer.space);
    if (status != CLI_OK)
        return status;
    status = get_all(&transfer, path);
    cli_space_close(&transfer.space);
    return close_file(&transfer, status);
}

int cli_space_put(int argc, char **argv)
{
    struct put_options options;
    return cli_run_arguments(&put_arguments, &options, argc, argv, run_put);
}

int cli_space_get(int argc, char **argv)
{
    struct get_options options;
    return cli_run_arguments(&get_arguments, &options, argc, argv, run_get);
}
