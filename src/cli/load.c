/*
 * tarn load: the records of a stream into a store. The main thread reads and takes lines apart; tasks on a
 * scheduler in a thread of its own store them, many at once. Two lines of one key are never under way
 * together, so that the later one wins.
 */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/store.h"
#include "cli/stream.h"
#include "depot/depot.h"
#include "seglog/seglog_format.h"
#include "task/node.h"
#include "task/sched.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SLOTS = 64, /* records under way, and tasks */
    KEY_ROOM = 128,
};

struct load_options {
    uint64_t size_bytes;
    unsigned condition; /* of conditions */
    unsigned mode;      /* enum tarn_mode */
    bool partial;
};

static const char *const conditions[] = {"any", "absent", NULL};
static const enum tarn_put_condition condition_of[] = {TARN_PUT_ANY, TARN_PUT_IF_ABSENT};

#define AT(field) .offset = offsetof(struct load_options, field)

static const struct base_setting load_settings[] = {
    {.name = "size",
     .type = BASE_SETTING_SIZE,
     .min = UINT64_C(1) << 20,
     .help = "Make the file with this size if there is none.",
     AT(size_bytes)},
    {.name = "if",
     .type = BASE_SETTING_ENUM,
     .choices = conditions,
     .help = "With absent, keep what the store has under a key of the stream.",
     AT(condition)},
    {.name = "partial",
     .type = BASE_SETTING_BOOL,
     .help =
         "Take a stream that is a part of one, picked by other programs: its last line may be missing, or "
         "tell another number of records.",
     AT(partial)},
    {.name = "mode",
     .type = BASE_SETTING_ENUM,
     .choices = depot_mode_names,
     .help =
         "When a record counts as stored: power: it survives a power cut. device: the device has it. "
         "async: it is in memory. Whatever the mode, all of them survive a power cut when the command has "
         "ended well.",
     AT(mode)},
};
static const struct cli_arguments arguments = {load_settings, base_array_count(load_settings)};

void cli_load_help(FILE *file)
{
    (void)fputs(
        "Stores the records of a stream that `tarn dump` has written in the store URL, with their versions,\n"
        "expiries, flags and notes. STREAM is a file; what standard input holds if it is missing or -. Of\n"
        "records with the same key the last one counts; those that have expired are left out. All are "
        "durable\n"
        "when the command ends, if the store is durable. A store in a file must not be open elsewhere; "
        "--size\n"
        "and --mode are for such a store alone. Exit status 1: the stream is malformed, cut off, or had "
        "lost\n"
        "damaged records when it was written, or the store does not take it; what was loaded until then\n"
        "stays, and may be loaded again.\n\n",
        file);
    cli_print_options(&arguments, file);
}

/* ---- a loading under way ------------------------------------------------------------------------- */

/* A record on its way into the store. */
struct slot {
    struct cli_stream_item item;
    uint64_t line;
    uint64_t hash; /* of the key */
    int error;     /* of storing it */
    bool busy;     /* a task has it; for the main thread alone, as all that follows in struct load is */
};

struct load {
    const struct load_options *options;
    struct cli_store *store;
    struct task_channel work; /* of slots, to the tasks */
    struct task_channel done; /* and back */
    struct slot slots[SLOTS];
    uint8_t *memory; /* of the slots' keys and values */
    size_t memory_bytes;
    uint32_t busy;
    uint64_t value_bytes_max; /* in a line: what any store has in one piece, and this one takes */
    struct cli_stream stream;
    struct base_progress progress;
    const char *name; /* of the stream */
    int input;
    uint64_t loaded, kept, expired;
    uint64_t records; /* that the stream has had, since an earlier one has ended in it */
    bool ended;       /* its last line was the end of a stream */
    /* a long value under way */
    bool in_parts;
    struct tarn_kv_writer *writer; /* NULL: it is passed over */
    uint64_t long_line, long_bytes, long_done;
    char long_key[KEY_ROOM]; /* quoted */
    bool damaged;            /* records were left out of it */
    /* of the records that were not stored the one of the first line */
    uint64_t failed_line; /* 0: none */
    int failed_error;
    char failed_key[KEY_ROOM]; /* quoted */
};

static ssize_t read_input(void *arg, void *to, size_t room)
{
    const struct load *load = arg;
    ssize_t bytes;
    do
        bytes = read(load->input, to, room);
    while (bytes < 0 && errno == EINTR);
    return bytes < 0 ? -errno : bytes;
}

/* ---- storing ------------------------------------------------------------------------------------- */

static struct tarn_put_options options_of(const struct load *load, const struct cli_stream_item *item)
{
    return (struct tarn_put_options){
        .condition = condition_of[load->options->condition],
        .expiry_ns = item->expiry_ns,
        .version = item->version,
        .client_flags = item->client_flags,
        .note = item->note,
    };
}

static int put_record(const struct load *load, const struct slot *slot)
{
    const struct cli_stream_item *item = &slot->item;
    const struct tarn_put_options options = options_of(load, item);
    return tarn_kv_put(load->store->kv, item->key, item->key_len, item->value, item->value_len, &options,
                       NULL);
}

/* A task. */
static void work_on_slots(void *arg)
{
    struct load *load = arg;
    void *item;
    while (task_channel_receive(&load->work, TASK_FOREVER, &item) == 0) {
        struct slot *slot = item;
        slot->error = put_record(load, slot);
        int error = task_channel_send(&load->done, slot, TASK_FOREVER);
        base_assert(error == 0); /* it has room for all slots, and nobody closes it */
    }
}

static void note_failure(struct load *load, const struct slot *slot)
{
    const struct cli_stream_item *item = &slot->item;
    load->failed_line = slot->line;
    load->failed_error = slot->error;
    if (item->kind == CLI_STREAM_RECORD)
        (void)base_log_quote(load->failed_key, sizeof(load->failed_key), item->key, item->key_len);
    else
        memcpy(load->failed_key, load->long_key, sizeof(load->failed_key));
}

static void count_outcome(struct load *load, const struct slot *slot)
{
    if (slot->error == 0)
        load->loaded++;
    else if (slot->error == -EEXIST)
        load->kept++;
    else if (load->failed_line == 0 || slot->line < load->failed_line)
        note_failure(load, slot);
}

/* Wait until a task has done with a record, and count it. */
static void settle_one(struct load *load)
{
    void *item;
    int error = task_channel_receive(&load->done, TASK_FOREVER, &item);
    base_assert(error == 0);
    struct slot *slot = item;
    slot->busy = false;
    load->busy--;
    count_outcome(load, slot);
}

static bool is_under_way(const struct load *load, uint64_t hash)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (load->slots[i].busy && load->slots[i].hash == hash)
            return true;
    }
    return false;
}

/* A slot that no task has. */
static struct slot *free_slot(struct load *load)
{
    if (load->busy == SLOTS)
        settle_one(load);
    uint32_t i = 0;
    while (load->slots[i].busy)
        i++;
    return &load->slots[i];
}

static void hand_over(struct load *load, struct slot *slot)
{
    const struct cli_stream_item *item = &slot->item;
    slot->hash = base_hash64(item->key, item->key_len, 0);
    while (is_under_way(load, slot->hash))
        settle_one(load);
    slot->busy = true;
    load->busy++;
    int error = task_channel_send(&load->work, slot, TASK_FOREVER);
    base_assert(error == 0); /* it has room for all slots, and is open */
}

/* ---- reading ------------------------------------------------------------------------------------- */

/* Say what is wrong with a line. @return CLI_FAILED */
static int refuse(const struct load *load, uint64_t line, const char *why)
{
    return cli_failed("%s: line %" PRIu64 ": %s", load->name, line, why);
}

static int take_end(struct load *load, const struct cli_stream_item *item)
{
    load->ended = true;
    load->damaged |= item->damaged;
    if (item->records != load->records && !load->options->partial)
        return cli_failed("%s: line %" PRIu64 ": the stream ends with %" PRIu64 " records, and %" PRIu64
                          " came: it is not whole; dump again, or load what there is with --partial",
                          load->name, load->stream.line, item->records, load->records);
    load->records = 0;
    return CLI_OK;
}

/* ---- long values --------------------------------------------------------------------------------- */

/* The first that the stream has of one: nothing else of its key is under way then. */
static void begin_long(struct load *load, struct slot *slot)
{
    const struct cli_stream_item *item = &slot->item;
    const struct tarn_put_options options = options_of(load, item);
    load->in_parts = true;
    load->long_line = slot->line;
    (void)base_log_quote(load->long_key, sizeof(load->long_key), item->key, item->key_len);
    load->long_bytes = item->value_bytes;
    load->long_done = 0;
    if (item->expiry_ns != 0 && item->expiry_ns <= task_wall(load->store->node)) {
        load->expired++;
        return;
    }
    uint64_t hash = base_hash64(item->key, item->key_len, 0);
    while (is_under_way(load, hash))
        settle_one(load);
    slot->error = tarn_kv_writer_open(load->store->kv, item->key, item->key_len, &options, item->value_bytes,
                                      &load->writer);
    if (slot->error != 0)
        count_outcome(load, slot);
}

static void end_long(struct load *load, struct slot *slot)
{
    load->in_parts = false;
    load->records++;
    slot->line = load->long_line;
    if (load->writer == NULL)
        return;
    slot->error = tarn_kv_writer_commit(load->writer, NULL);
    load->writer = NULL;
    count_outcome(load, slot);
}

static void abort_long(struct load *load)
{
    if (load->writer != NULL)
        tarn_kv_writer_abort(load->writer);
    load->writer = NULL;
    load->in_parts = false;
}

/* @return CLI_OK; CLI_FAILED: said */
static int take_part(struct load *load, struct slot *slot)
{
    const struct cli_stream_item *item = &slot->item;
    if (!load->in_parts)
        return refuse(load, slot->line, "it is a part of a value that has not begun: the stream was changed");
    if (item->offset != load->long_done || item->value_len == 0 ||
        item->value_len > load->long_bytes - load->long_done)
        return refuse(load, slot->line, "it is not the next part of its value: the stream was changed");
    load->long_done += item->value_len;
    slot->error = load->writer == NULL ? 0 : tarn_kv_writer_write(load->writer, item->value, item->value_len);
    if (slot->error != 0) {
        abort_long(load);
        count_outcome(load, slot);
        return CLI_OK;
    }
    if (load->long_done == load->long_bytes)
        end_long(load, slot);
    return CLI_OK;
}

/* @return CLI_OK; CLI_FAILED: said */
static int take_long(struct load *load, struct slot *slot)
{
    switch (slot->item.kind) {
    case CLI_STREAM_LONG:
        if (slot->item.value_bytes == 0)
            return refuse(load, slot->line, "a long value has no bytes: the stream was changed");
        begin_long(load, slot);
        return CLI_OK;
    case CLI_STREAM_PART:
        return take_part(load, slot);
    default:
        if (!load->in_parts)
            return refuse(load, slot->line, "no value has begun that could be void: the stream was changed");
        abort_long(load);
        return CLI_OK;
    }
}

/* ---- lines --------------------------------------------------------------------------------------- */

static bool goes_on_with_long(enum cli_stream_kind kind)
{
    return kind == CLI_STREAM_PART || kind == CLI_STREAM_VOID;
}

static int take_line(struct load *load, const char *line, size_t len, bool cut)
{
    struct slot *slot = free_slot(load);
    struct cli_stream_item *item = &slot->item;
    const char *why;
    slot->line = load->stream.line;
    if (cli_stream_parse(line, len, item, &why) != 0)
        return refuse(load, slot->line, cut ? "the stream ends within it: it is cut off; dump again" : why);
    if (load->in_parts && !goes_on_with_long(item->kind))
        return refuse(load, load->long_line, "its value is not whole: the stream was cut off or changed");
    if (item->kind == CLI_STREAM_END)
        return take_end(load, item);
    load->ended = false;
    if (item->kind != CLI_STREAM_RECORD)
        return take_long(load, slot);
    load->records++;
    if (item->expiry_ns != 0 && item->expiry_ns <= task_wall(load->store->node))
        load->expired++;
    else
        hand_over(load, slot);
    return CLI_OK;
}

/* The stream has no more lines. */
static int check_end(const struct load *load)
{
    if (load->in_parts)
        return refuse(load, load->long_line, "its value is not whole: the stream is cut off; dump again");
    if (load->ended || load->options->partial)
        return CLI_OK;
    return cli_failed(
        "%s: the stream ends behind line %" PRIu64
        " without the line that tells its end: it is cut off; dump again, or load what there is "
        "with --partial",
        load->name, load->stream.line);
}

/* Say why a stream cannot be read, and what helps. @return CLI_FAILED */
static int input_failed(const char *name, int error)
{
    switch (error) {
    case -ENOENT:
        return cli_failed("cannot read %s: there is no such file: name a file that `tarn dump` has written",
                          name);
    case -EACCES:
        return cli_failed("cannot read %s: its permissions do not allow it: have its owner allow reading, or "
                          "run the command as a user that may read it",
                          name);
    case -EISDIR:
        return cli_failed("cannot read %s: it is a folder: name a file that `tarn dump` has written", name);
    case -EBADF:
        return cli_failed(
            "cannot read %s: it is not open for reading: name a file, or give the stream through a "
            "pipe",
            name);
    default:
        return cli_failed("cannot read %s: %s", name, strerrordesc_np(-error));
    }
}

static int read_failed(const struct load *load, int error)
{
    if (error != -EMSGSIZE)
        return input_failed(load->name, error);
    return refuse(load, load->stream.line,
                  "it is longer than any record of this store can be: load it into a larger one");
}

/* Hand over all lines, until something is wrong. */
static int read_lines(struct load *load)
{
    int status = CLI_OK;
    while (status == CLI_OK && load->failed_line == 0) {
        const char *line;
        size_t len;
        bool cut;
        int error = cli_stream_next(&load->stream, &line, &len, &cut);
        if (error == -ENODATA)
            return check_end(load);
        if (error != 0)
            return read_failed(load, error);
        status = take_line(load, line, len, cut);
        base_progress_update(&load->progress, load->stream.read_bytes);
    }
    return status;
}

/* ---- around it ----------------------------------------------------------------------------------- */

static int store_failed(const struct load *load)
{
    char why[256];
    if (load->failed_error == -ENOSPC)
        (void)snprintf(why, sizeof(why),
                       "the store is full, and %s was not stored: make room, or load into a larger store",
                       load->failed_key);
    else
        (void)snprintf(why, sizeof(why), "%s was not stored: %s", load->failed_key,
                       load->failed_error == -EMSGSIZE ? "its value is longer than this store takes"
                                                       : cli_reason(load->failed_error));
    return refuse(load, load->failed_line, why);
}

/* @return the status, after all is said */
static int sum_up(const struct load *load, int status)
{
    if (load->failed_line != 0)
        status = store_failed(load);
    if (status == CLI_OK && load->damaged)
        status =
            cli_failed("%s: all of it was loaded, but it is not all: the store that it was dumped from had "
                       "damaged records, which are missing",
                       load->name);
    else if (status != CLI_OK && load->loaded > 0)
        (void)cli_failed("what was loaded before that stays, and may be loaded again");
    (void)printf("%" PRIu64 " loaded, %" PRIu64 " kept, %" PRIu64 " expired\n", load->loaded, load->kept,
                 load->expired);
    return ferror(stdout) || fflush(stdout) != 0 ? cli_output_failed() : status;
}

static int load_with_tasks(struct load *load)
{
    struct stat input;
    bool is_file = fstat(load->input, &input) == 0 && S_ISREG(input.st_mode);
    cli_progress_begin(&load->progress, "load", NULL, is_file ? (uint64_t)input.st_size : 0);
    int status = read_lines(load);
    abort_long(load);
    while (load->busy > 0)
        settle_one(load);
    base_progress_end(&load->progress);
    return sum_up(load, status);
}

/* Run tasks in a thread of their own meanwhile. @return CLI_OK; CLI_FAILED: said */
static int load_on(struct load *load, struct task_sched *sched)
{
    struct task_group group;
    int status = CLI_OK;
    if (task_sched_start(sched) != 0)
        return cli_failed("there is no thread to be had");
    task_group_init(&group);
    for (uint32_t i = 0; i < SLOTS && status == CLI_OK; i++) {
        int error = task_spawn(sched, &group, "load", work_on_slots, load);
        if (error != 0)
            status = cli_failed("cannot begin: %s", strerrordesc_np(-error));
    }
    if (status == CLI_OK)
        status = load_with_tasks(load);
    task_channel_close(&load->work);
    int joined = task_group_join(&group, TASK_FOREVER);
    base_assert(joined == 0); /* nobody cancels */
    status = cli_store_shut(load->store, status);
    task_sched_stop(sched);
    task_sched_join(sched);
    return status;
}

static int load_on_node(struct load *load)
{
    struct task_sched *sched;
    int error = task_sched_open(load->store->node, NULL, &sched);
    if (error != 0)
        return cli_failed("cannot begin: %s", strerrordesc_np(-error));
    int status = load_on(load, sched);
    task_sched_close(sched);
    return status;
}

/* ---- memory -------------------------------------------------------------------------------------- */

/* All that a loading takes: of the slots only those pages are touched that their records need. */
static int take_memory(struct load *load)
{
    struct base_account *account = &load->store->node->memory;
    size_t slot_bytes = TARN_KEY_BYTES_MAX + load->value_bytes_max;
    load->memory_bytes = SLOTS * slot_bytes;
    load->memory = base_alloc(account, load->memory_bytes);
    int error = load->memory == NULL ? -ENOMEM : task_channel_init(&load->work, account, SLOTS);
    if (error != 0)
        return error;
    error = task_channel_init(&load->done, account, SLOTS);
    if (error == 0) {
        error = cli_stream_init(&load->stream, account, load->value_bytes_max, read_input, load);
        if (error != 0)
            task_channel_deinit(&load->done);
    }
    if (error != 0)
        task_channel_deinit(&load->work);
    for (uint32_t i = 0; i < SLOTS && error == 0; i++) {
        uint8_t *memory = load->memory + i * slot_bytes;
        load->slots[i].item = (struct cli_stream_item){
            .key = memory, .value = memory + TARN_KEY_BYTES_MAX, .value_room = load->value_bytes_max};
    }
    return error;
}

static int load_store(struct cli_store *opened, const char *name, int input,
                      const struct load_options *options)
{
    struct load load = {.options = options,
                        .store = opened,
                        .value_bytes_max =
                            base_min(opened->info.value_bytes_max, (uint64_t)SEGLOG_RECORD_BYTES_MAX),
                        .name = name,
                        .input = input};
    int status = CLI_OK;
    if (take_memory(&load) != 0)
        status = cli_failed("out of memory");
    if (status == CLI_OK) {
        status = load_on_node(&load);
        cli_stream_deinit(&load.stream);
        task_channel_deinit(&load.done);
        task_channel_deinit(&load.work);
    }
    base_free(&load.store->node->memory, load.memory, load.memory_bytes);
    return status;
}

/* Whether something was said that only the opening of a depot can obey. */
static bool is_for_files(const struct load_options *options)
{
    return options->size_bytes != 0 || options->mode != TARN_MODE_POWER;
}

/* Open what is to be read. @return CLI_OK; CLI_FAILED: said */
static int open_input(const char *name, int *ret_input)
{
    struct stat input;
    *ret_input = open(name, O_RDONLY | O_CLOEXEC);
    if (*ret_input < 0)
        return input_failed(name, -errno);
    if (fstat(*ret_input, &input) != 0 || !S_ISDIR(input.st_mode))
        return CLI_OK;
    (void)close(*ret_input);
    return input_failed(name, -EISDIR);
}

/* @param words  store and perhaps a stream */
static int run_load(const void *parsed, const char *const *words, size_t count)
{
    const struct load_options *options = parsed;
    const struct tarn_depot_options depot_options = {.create_bytes = options->size_bytes,
                                                     .mode = (enum tarn_mode)options->mode};
    struct cli_store opened;
    if (count != 1 && count != 2)
        return cli_usage("load takes a store, and a stream unless it is on standard input");
    bool is_file = count == 2 && strcmp(words[1], "-") != 0;
    const char *name = is_file ? words[1] : "standard input";
    int input = STDIN_FILENO;
    if (is_file && open_input(name, &input) != CLI_OK)
        return CLI_FAILED;
    int status = cli_store_open(words[0], &depot_options, &opened);
    if (status == CLI_OK && !opened.has_file && is_for_files(options))
        status =
            cli_store_close(&opened, cli_usage("--size and --mode are for file:PATH and tree:path=PATH"));
    else if (status == CLI_OK)
        status = cli_store_close(&opened, load_store(&opened, name, input, options));
    if (is_file)
        (void)close(input);
    return status;
}

int cli_load(int argc, char **argv)
{
    struct load_options options;
    return cli_run_arguments(&arguments, &options, argc, argv, run_load);
}
